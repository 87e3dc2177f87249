//! A target that every rank keeps open from run to run, for series whose points build on what those before them stored.
//! Rank 0 holds a target that stands for all: an action or the close that the series asks of it between runs, every
//! rank does with its own. What a run does with a target is each rank's own affair.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use taillight_core::plan::Plan;
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, OpKind, Result};
use taillight_driver::{
    AdminAction, Geometry, KeyedTarget, Session, SessionSpec, Target, TargetBridge, TargetPause,
    VirtualTime,
};
use taillight_scale::Patience;
use taillight_suite::shared_target::SharedTarget;

use super::ranked::{RankSeat, order_of};
use super::targets::TargetsRequest;
use super::{Signals, confirmation, directory};
use crate::ranks::{self, RankOrder, RunOrder};

/// How long an action, such as a purge or a compaction, or a close may take.
const ACTION: Duration = Duration::from_secs(24 * 3600);

/// Rank 0's own target, in place of those of all.
struct AllTargets {
    own: Box<dyn Target>,
}

/// Whether a run goes on: what it asks of the target, every rank's run asks of its own.
static IN_RUN: AtomicBool = AtomicBool::new(false);

/// While it lives, a run goes on.
pub struct InRun;

impl InRun {
    pub fn begin() -> InRun {
        IN_RUN.store(true, Ordering::Relaxed);
        InRun
    }
}

impl Drop for InRun {
    fn drop(&mut self) {
        IN_RUN.store(false, Ordering::Relaxed);
    }
}

/// Opens the target of a plan at all ranks; called at rank 0. Errors: as a run that is refused, at any of them.
pub fn open(plan: &Plan, destroy: &[String], signals: &Signals) -> Result<Box<dyn Target>> {
    // The workloads of all its points together are no job of their own.
    let order = RunOrder {
        plan: serde_json::to_string(plan)
            .map_err(|e| Error::internal("a plan is not JSON").source(e))?,
        run_id: directory::fresh_id(),
        ..order_of(plan, destroy)?
    };
    ranks::tell(&RankOrder::Open(Box::new(order.clone())));
    let own = of_order(&order, 0, signals)?;
    Ok(Box::new(AllTargets { own }))
}

/// The target that a rank other than 0 keeps open.
#[derive(Default)]
pub struct KeptTarget {
    target: Option<SharedTarget>,
    /// All ranks share it: then rank 0 purges it.
    shared: bool,
}

impl KeptTarget {
    /// Follows the order to open. Errors are rank 0's to show.
    pub fn open(&mut self, order: &RunOrder, signals: &Signals) {
        let rank = ranks::with(|all| all.ranks.rank()).unwrap_or_default();
        let opened = of_order(order, rank, signals);
        let share = order.whole().map(|plan| plan.run.share);
        self.shared = share.is_ok_and(|share| !share.is_own());
        self.target = opened.ok().map(SharedTarget::new);
    }

    /// The target for a run whose first workload is number `first`.
    pub fn view(&self, first: u16) -> Option<Box<dyn Target>> {
        self.target.as_ref().map(|target| target.view(first))
    }

    pub fn admin(&self, action: AdminAction) {
        let done = match &self.target {
            _ if self.shared && action == AdminAction::Purge => Ok(()),
            Some(target) => target.target().admin(action),
            None => Err(Error::internal("no target is open")),
        };
        let _ = together("an action on the target", done);
    }

    pub fn close(&mut self) {
        let closed = self.target.take().map_or(Ok(()), SharedTarget::close);
        let _ = together("closing the target", closed);
    }
}

/// A step that succeeds at all ranks or fails at all. Errors: those of `done`, of any rank.
fn together(step: &str, done: Result<()>) -> Result<()> {
    let said = ranks::with(|all| all.ranks.agree(step, done, Patience::of(ACTION)).map(drop));
    said.unwrap_or(Ok(()))
}

/// Opens this rank's target of an order, as all ranks do; where one fails, all do. A rank other than 0 refuses a store
/// of its own that has records already.
fn of_order(order: &RunOrder, rank: u32, signals: &Signals) -> Result<Box<dyn Target>> {
    let seat = RankSeat::new(order.clone(), rank);
    let opened = seat.plan().and_then(|plan| {
        let destroy = confirmation::of_rank(order, rank, &plan)?;
        let run_id = directory::fresh_id();
        let stop = signals.stop();
        let targets = TargetsRequest { plan: &plan, run_id: &run_id, destroy: &destroy, stop };
        let target = seat.open(targets, &mut |_| !stop.stopped())?;
        match target.keyed().map_or(0, |keyed| keyed.records()) {
            records if records > 0 && rank > 0 && plan.run.share.is_own() => {
                drop(target.close());
                Err(Error::refused("the store holds records of a former run")
                    .with("path", plan.target.path.as_deref().unwrap_or_default())
                    .with("records", records)
                    .hint("a suite loads its own: delete them, or name another --path"))
            }
            _ => Ok(target),
        }
    });
    match opened {
        Ok(target) => match seat.prepared(Ok(0)) {
            Ok(_) => Ok(target),
            Err(e) => {
                // The reason matters more than how closing went.
                drop(target.close());
                Err(e)
            }
        },
        Err(e) => Err(seat.fail(e)),
    }
}

impl Target for AllTargets {
    fn server_process(&self) -> Option<u32> {
        self.own.server_process()
    }
    fn geometry(&self) -> Geometry {
        self.own.geometry()
    }
    fn geometry_of(&self, workload: usize) -> Geometry {
        self.own.geometry_of(workload)
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        self.own.session(spec)
    }
    fn bridges(&self, geometry: Geometry) -> Vec<TargetBridge> {
        self.own.bridges(geometry)
    }
    fn descriptors(&self, workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        self.own.descriptors(workers)
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        if IN_RUN.load(Ordering::Relaxed) {
            return self.own.admin(action);
        }
        ranks::tell(&RankOrder::Admin(action));
        together("an action on the target", self.own.admin(action))
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.own.facts()
    }
    fn notes(&self) -> Vec<String> {
        self.own.notes()
    }
    fn session_facts(&self) -> Vec<(String, String)> {
        self.own.session_facts()
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        self.own.end_facts()
    }
    fn is_back(&self) -> bool {
        self.own.is_back()
    }
    fn inner_kinds(&self) -> &'static [OpKind] {
        self.own.inner_kinds()
    }
    fn pauses(&self) -> Option<Vec<TargetPause>> {
        self.own.pauses()
    }
    fn auxiliary_dirs(&self) -> Vec<PathBuf> {
        self.own.auxiliary_dirs()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        self.own.keyed()
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.own.sample(out);
    }
    fn witness(&self) -> Vec<WitnessCount> {
        self.own.witness()
    }
    fn virtual_time(&self) -> Option<Arc<dyn VirtualTime>> {
        self.own.virtual_time()
    }
    /// What all share rank 0 closes last: it sees to what is kept or deleted.
    fn close(self: Box<Self>) -> Result<()> {
        ranks::tell(&RankOrder::Close);
        let others = together("closing the target", Ok(()));
        self.own.close().and(others)
    }
}
