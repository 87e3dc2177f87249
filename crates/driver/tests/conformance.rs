//! The drivers of the list through the contract's checks, and driver `file` with a submitting thread, at its deepest
//! queue and in memory.
#![allow(clippy::unwrap_used)]

use taillight_core::capability::Capabilities;
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{OpKind, Result};
use taillight_driver::conformance::{
    self, CheckResult, TestCase, assert_kept, plan, plan_for, target,
};
use taillight_driver::memory::MemoryDriver;
use taillight_driver::{BoundDriver, Driver, OpenSpec, Target};

const OPS: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Fsync, OpKind::Trim];

/// Driver `file` at `path`, at this depth.
fn check(path: &str, options: &str, depth: u32) {
    let target = TargetPlan { size: Some(ByteSize(1 << 20)), ..target("file", path, options) };
    check_plan(plan(target, &OPS, 4096, depth));
}

fn check_plan(plan: Plan) {
    let driver = taillight_driver::find(&plan.target.driver).unwrap();
    assert_kept(&TestCase { driver, plan, destroy: None });
}

/// The drivers of the list, at several depths and, where they scan both ways, in both directions. Each says by
/// `Driver::test_target` with which options it can be tested, or why not on this machine.
#[test]
fn every_driver_keeps_the_contract() {
    for driver in taillight_driver::DRIVERS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let setup = match driver.test_target(dir.path()) {
            Ok(setup) => setup,
            Err(why) => {
                eprintln!("skipped: {} keeps the contract: {why}", driver.name());
                continue;
            }
        };
        for options in &setup.options {
            let (target, can) = setup.resolve(*driver, options).unwrap();
            // Registered, buffers of a deeper queue would exceed the locked memory that a plain user
            // may have.
            let deepest = if can.keyed() { 1024 } else { 256 };
            for depth in [1, 2, 8, 32, 256, 1024]
                .into_iter()
                .filter(|d| *d <= can.max_depth.clamp(1, deepest))
            {
                for reverse in [false, true] {
                    if reverse && !(setup.reverse && can.ops.contains(&OpKind::Scan)) {
                        continue;
                    }
                    check_plan(plan_for(&can, target.clone(), depth, reverse));
                    let left = (setup.leftovers)();
                    assert!(left.is_empty(), "{}, {options}: {left:?}", driver.name());
                }
            }
        }
    }
}

#[test]
fn file_with_a_submitting_thread_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/one.dat", tmp.path().display());
    check(&path, "sqpoll = true", 8);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn file_at_the_deepest_queue_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/one.dat", tmp.path().display());
    // Registered, these buffers would exceed the locked memory that a plain user may have.
    let options = "direct = false\nfixed_buffers = false";
    check(&path, options, 4096);
}

#[test]
fn file_in_memory_keeps_the_contract() {
    let Ok(tmp) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm");
        return;
    };
    let dir = format!("{}/", tmp.path().display());
    check(&dir, "direct = false", 8);
    check(&dir, "direct = false\ncache = \"warm\"", 1);
}

/// Driver `memory`, which inserts one record whatever the count, with a claim that it inserts them all.
struct LoadsOneByOne;

impl Driver for LoadsOneByOne {
    fn name(&self) -> &'static str {
        "memory"
    }
    fn about(&self) -> &'static str {
        "claims what it cannot do"
    }
    fn bind(&self, _: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(LoadsOneByOne))
    }
}

impl BoundDriver for LoadsOneByOne {
    fn options(&self) -> Result<toml::Table> {
        BoundDriver::options(&MemoryDriver)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { batched_load: true, ..MemoryDriver.capabilities() }
    }
    fn open(&self, spec: &OpenSpec<'_>, told: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        MemoryDriver.open(spec, told)
    }
}

#[test]
fn a_load_by_batches_that_leaves_records_out_breaks_its_claim() {
    let plan = plan_for(&LoadsOneByOne.capabilities(), target("memory", "unused", ""), 1, false);
    let mut found = None;
    let mut told = |rule: &'static str, outcome: Option<&CheckResult>| {
        if rule == "a load by batches leaves every record" {
            found = outcome.cloned();
        }
    };
    let case = TestCase { driver: &LoadsOneByOne, plan, destroy: None };
    conformance::run(&case, &mut told).unwrap();
    assert!(matches!(found, Some(CheckResult::Broken(_))), "{found:?}");
}
