//! A worker on an embedded store allocates nothing per operation, of one record or of many: a run of
//! ten times the operations makes exactly as many allocations on the worker's thread.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../driver/tests/alloc/sys.rs"]
mod sys;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::plan::{AccessKind, BlockSize, Keys, MixPart, Plan, TargetPlan};
use taillight_core::probe::Token;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Op, OpKind, Result, Stamp};
use taillight_driver::{
    AdminAction, Completion, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Submitted,
    Target,
};
use taillight_engine::StopFlag;
use taillight_engine::preload::preload;

/// A target whose sessions tell what their threads allocated while they were there.
struct CountingTarget {
    target: Box<dyn Target>,
    allocations: Arc<AtomicU64>,
}

struct CountingSession {
    session: Box<dyn Session>,
    before: u64,
    allocations: Arc<AtomicU64>,
}

impl Target for CountingTarget {
    fn geometry(&self) -> Geometry {
        self.target.geometry()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        Ok(Box::new(CountingSession {
            session: self.target.session(spec)?,
            allocations: self.allocations.clone(),
            before: sys::allocations(),
        }))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        self.target.admin(action)
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.target.facts()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        self.target.keyed()
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.target.close()
    }
}

impl Session for CountingSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.session.buffer(slot)
    }
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        self.session.submit(op, slot, token)
    }
    fn submit_many(&mut self, op: &Op, k: &[u64], slot: u32, token: Token) -> Result<Submitted> {
        self.session.submit_many(op, k, slot, token)
    }
    fn submit_batch(&self) -> u32 {
        self.session.submit_batch()
    }
    fn flush(&mut self) -> Result<()> {
        self.session.flush()
    }
    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        self.session.poll(min, until, out)
    }
}

impl Drop for CountingSession {
    fn drop(&mut self) {
        let made = sys::allocations() - self.before;
        self.allocations.fetch_add(made, Ordering::Relaxed);
    }
}

fn plan(store: &str, mix: &[OpKind], batch: u32, operations: u64, dir: &str) -> Plan {
    let mut plan = common::testing::plan();
    plan.run.operations = Some(operations);
    plan.run.drain_timeout = Span(10_000_000_000);
    // No interval ends in the run: that is once a second, and not per operation.
    plan.run.interval = Span(3600 * 1_000_000_000);
    plan.capture.budget = ByteSize(1 << 28);
    plan.target.driver = store.into();
    plan.target.path = Some(dir.into());
    plan.target.options = taillight_driver::bind(&plan.target).unwrap().options().unwrap();
    let w = &mut plan.workloads[0];
    w.mix = mix.iter().map(|op| MixPart { op: *op, weight: 1 }).collect();
    w.block_size = BlockSize::Fixed(ByteSize(100));
    w.access.kind = AccessKind::Zipfian;
    w.batch = batch;
    w.keys = Some(Keys { count: 2000, ..Keys::default() });
    plan
}

/// Allocations of the worker in a whole run; `None` when the library is not here.
fn made(store: &str, mix: &[OpKind], batch: u32, operations: u64) -> Option<u64> {
    // In memory, where it can be: what a sync of every commit waits for on a disk is not what is counted.
    let tmp = tempfile::tempdir_in("/dev/shm");
    let tmp = tmp.or_else(|_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let dir = tmp.path().join("db");
    let plan = plan(store, mix, batch, operations, dir.to_str().unwrap());
    let id = format!("alloc-{}-{store}-{batch}-{operations}", std::process::id());
    let spec = OpenSpec {
        plan: &plan,
        run_id: &id,
        destroy: None,
        stop: &StopFlag::default(),
        fits: &|_| Ok(()),
    };
    let driver = taillight_driver::bind(&plan.target).unwrap();
    let target = match driver.open(&spec, &mut |_| true) {
        Err(e) if e.message().contains("library") => {
            eprintln!("skipped: a_worker_allocates_nothing_per_operation of {store}: {e}");
            return None;
        }
        opened => opened.unwrap(),
    };
    let can = driver.capabilities();
    preload(&plan, &*target, &can, &id, &mut |_| true).unwrap();
    let allocations = Arc::new(AtomicU64::new(0));
    let target = Box::new(CountingTarget { target, allocations: allocations.clone() });
    let mut watch = common::WatchingObserver::default();
    let place = (id.as_str(), &*tmp.path().join("run"));
    let (_, outcome) =
        common::run_on(target, &plan, place, &StopFlag::default(), &mut watch).unwrap();
    assert!(outcome.operations >= operations, "{store} {mix:?}");
    assert_eq!(outcome.errors, [], "{store} {mix:?}");
    Some(allocations.load(Ordering::Relaxed))
}

/// Of the drivers that run in the process, where what they allocate is allocated on the worker's thread.
#[test]
fn a_worker_allocates_nothing_per_operation() {
    use OpKind::{Get, Insert, Rmw, Scan, Update};
    // What a plug-in or a binding does is its own, and files have other operations; calls are counted in the
    // driver's tests.
    const OTHERS: [&str; 4] = ["plugin", "process", "jvm", "metadata"];
    for driver in taillight_driver::DRIVERS.iter().filter(|d| !OTHERS.contains(&d.name())) {
        let can = driver.bind(&target_plan(driver.name())).unwrap().capabilities();
        if !can.facts.in_process {
            continue;
        }
        let batched: Vec<OpKind> =
            [Get, Insert, Update].into_iter().filter(|op| can.batches.contains(op)).collect();
        let cases: [(&[OpKind], u32); 4] = [
            (&[Get, Insert, Update, Scan, Rmw], 1),
            (&[Get, Update], 1),
            (&[Insert], 1),
            (&batched, 16),
        ];
        for (mix, batch) in cases.into_iter().filter(|(mix, _)| !mix.is_empty()) {
            let (Some(few), Some(many)) =
                (made(driver.name(), mix, batch, 2_000), made(driver.name(), mix, batch, 20_000))
            else {
                continue;
            };
            assert!(few > 0, "the counter counts");
            assert_eq!(many, few, "{}, {mix:?}, batches of {batch}", driver.name());
        }
    }
}

/// A target with the driver's defaults.
fn target_plan(driver: &str) -> TargetPlan {
    TargetPlan { driver: driver.to_owned(), ..TargetPlan::default() }
}
