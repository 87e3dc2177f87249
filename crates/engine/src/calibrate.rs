//! What measuring costs on this machine, now: the clock, and a whole I/O on `null`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use taillight_core::plan::{
    AccessKind, CaptureMode, Plan, Sync, TargetPlan, VerifyPlan, WorkloadPlan,
};
use taillight_core::progress::Progress;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Clock, Error, MonoClock, OpKind, Result};
use taillight_driver::OpenSpec;
use taillight_rundir::manifest::Overhead;

use crate::capture::CHUNK_BYTES;

/// Length of the calibration run, ns.
const CALIBRATION_NS: u64 = 100_000_000;

/// Measures the clock and the plan's own shape, on a data set of `size` bytes
/// (workers, depth, sizes, capture) on `null`.
///
/// # Errors
/// `Internal` when `null` fails.
pub fn calibrate(plan: &Plan, size: u64) -> Result<Overhead> {
    let mut overhead = Overhead {
        clock_ns: Some(clock_ns()),
        ..Overhead::default()
    };
    if plan.target.driver == "sim" {
        // Virtual time has no cost to subtract.
        return Ok(overhead);
    }
    overhead.null_ns_per_op = Some(null_ns_per_op(plan, places(plan, size))?);
    Ok(overhead)
}

/// The data set of the calibration: where keys stand for offsets, a block for each record. The
/// size of such a target says nothing: a store is as large as what is put there.
fn places(plan: &Plan, size: u64) -> u64 {
    let Some(keys) = plan.workloads.first().and_then(|w| w.keys.as_ref()) else {
        return size;
    };
    let block = |w: &WorkloadPlan| w.block_size.max().max(w.access.align.0);
    let largest = plan.workloads.iter().map(block).max().unwrap_or(1);
    keys.count.max(1).saturating_mul(largest).min(size)
}

/// One reading of the clock: the fastest of several batches, ns.
pub fn clock_ns() -> f64 {
    const READS: u32 = 2_000;
    let batch = || {
        let start = MonoClock.now();
        for _ in 0..READS {
            std::hint::black_box(MonoClock.now());
        }
        MonoClock.now().since(start) as f64 / f64::from(READS)
    };
    (0..10).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// Time of a worker per operation on `null` with the plan's shape, closed loop, ns.
fn null_ns_per_op(plan: &Plan, size: u64) -> Result<f64> {
    let mut plan = plan.clone();
    plan.run.duration = Some(Span(CALIBRATION_NS));
    (plan.run.operations, plan.run.bytes, plan.run.warmup) = (None, None, Span(0));
    plan.run.interval = Span(10 * CALIBRATION_NS);
    plan.run.idle_timeout = None;
    plan.run.before = Vec::new();
    // `null` keeps nothing that could be verified.
    plan.verify = VerifyPlan::default();
    plan.target = TargetPlan {
        driver: "null".into(),
        path: None,
        size: Some(ByteSize(size)),
        destroy: false,
        options: toml::Table::new(),
    };
    for w in &mut plan.workloads {
        (w.keys, w.value, w.scan, w.think, w.ramp, w.passes) = (None, None, None, None, None, None);
        w.end_to_end = false;
        w.measured = true;
        if !plain_pattern(w.access.kind) {
            w.access = taillight_core::plan::Access::random(w.access.align);
        }
        w.arrival = taillight_core::plan::Arrival::Burst;
        w.sync = Sync::None;
        w.mix.retain(|m| {
            matches!(
                m.op,
                OpKind::Read | OpKind::Write | OpKind::Trim | OpKind::Fsync
            )
        });
        if w.mix.is_empty() {
            w.mix = vec![taillight_core::plan::MixPart {
                op: OpKind::Read,
                weight: 1,
            }];
        }
    }
    // 100 ms at 40 million a second are 64 MB; twice the chunks that needs, whatever the budget.
    let workers = u64::from(plan.workers());
    let enough = (32 * workers) * CHUNK_BYTES as u64;
    plan.capture.budget = ByteSize(plan.capture.budget.0.min(enough));
    plan.capture.dir = None;
    if plan.capture.mode == CaptureMode::Outliers {
        plan.capture.mode = CaptureMode::All;
    }
    let null = taillight_driver::find("null").ok_or_else(|| Error::internal("no null driver"))?;
    let id = format!("calibration-{}-{:016x}", std::process::id(), unique());
    let spec = OpenSpec {
        plan: &plan,
        run_id: &id,
        destroy: None,
    };
    let target = null.open(&spec, &mut |_: Progress<'_>| true)?;
    let (ops, ns) = super::run::load_only(&plan, target, &id)?;
    Ok(ns as f64 * workers as f64 / ops.max(1) as f64)
}

/// Patterns that need nothing but the size of the data set.
fn plain_pattern(kind: AccessKind) -> bool {
    kind.draws() && !matches!(kind, AccessKind::Latest)
}

/// A number no other calibration of this machine has.
fn unique() -> u64 {
    RandomState::new().build_hasher().finish()
}
