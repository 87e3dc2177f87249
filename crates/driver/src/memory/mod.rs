//! `memory`: an ordered store of keys and values in this process's memory: a ceiling for key-value engines
//! on this machine, and the store that tests the keyed half of the contract. Everything is performed
//! inside `submit`; workers share one skip list without a lock around it. Nothing is durable.

mod room;
mod session;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::capability::{Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::samples::{SampleDisplay, SamplePanel, SampleUnit};
use taillight_core::{Error, OpKind, Result};
use taillight_machine::Sys;

use crate::contract::{
    AdminAction, BoundDriver, Driver, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target,
};
use crate::kv::rules::WorkloadRules;
use crate::options::{DriverOptions, NoOptions};
use session::MemorySession;
use store::OrderedMap;

/// The driver.
pub struct MemoryDriver;

impl Driver for MemoryDriver {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn about(&self) -> &'static str {
        "an ordered store in memory: a ceiling for key-value stores"
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        let NoOptions {} = NoOptions::parse(self.name(), &target.options)?;
        Ok(Box::new(MemoryDriver))
    }
}

impl BoundDriver for MemoryDriver {
    fn options(&self) -> Result<toml::Table> {
        Ok(toml::Table::new())
    }
    fn samples(&self) -> SampleDisplay {
        let records = SamplePanel::new("Records", SampleUnit::Count).line("records", "records");
        SampleDisplay { panels: vec![records], phrases: Vec::new() }
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![
                OpKind::Get,
                OpKind::Put,
                OpKind::Insert,
                OpKind::Update,
                OpKind::Delete,
                OpKind::Scan,
                OpKind::Rmw,
            ],
            max_depth: 1,
            stores_data: true,
            allocating: vec![OpKind::Put, OpKind::Insert, OpKind::Delete],
            admin: vec![AdminAction::Flush, AdminAction::DropCaches, AdminAction::Purge],
            facts: DriverFacts { kind: TargetKind::Keyed, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        room::check(spec.plan, taillight_machine::memory::Memory::read(&Sys::default()).available)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        self.check(spec)?;
        Ok(Box::new(MemoryTarget::new(spec.plan)?))
    }
}

/// The opened store.
pub struct MemoryTarget {
    store: Arc<OrderedMap>,
    /// How each workload names keys and scans.
    key_rules: Vec<WorkloadRules>,
    records: AtomicU64,
}

impl MemoryTarget {
    /// An empty store for the workloads of this plan. Errors: `Usage` when their keys cannot be
    /// made.
    pub fn new(plan: &Plan) -> Result<MemoryTarget> {
        let workloads = plan.workloads.iter();
        Ok(MemoryTarget {
            store: Arc::new(OrderedMap::default()),
            key_rules: workloads.map(|w| WorkloadRules::of(w, false)).collect::<Result<_>>()?,
            records: AtomicU64::new(0),
        })
    }

    /// Shows everything that is stored, in key order: for whoever checks what a run left.
    pub fn each(&self, show: impl FnMut(&[u8], &[u8])) {
        self.store.each(show);
    }
}

impl Target for MemoryTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let rules = self.key_rules.get(usize::from(spec.workload)).cloned();
        let rules = rules.ok_or_else(|| Error::internal("a session of no workload"))?;
        Ok(Box::new(MemorySession::new(self.store.clone(), rules, spec)))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        match action {
            AdminAction::Flush | AdminAction::DropCaches => Ok(()),
            AdminAction::Compact => Err(Error::unavailable("memory has nothing to compact")),
            AdminAction::Purge => {
                self.store.clear();
                self.records.store(0, Ordering::Relaxed);
                Ok(())
            }
        }
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        out("records", self.store.len() as f64);
    }
}

impl KeyedTarget for MemoryTarget {
    fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
    fn loaded(&self, records: u64) -> Result<()> {
        self.records.store(records, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
