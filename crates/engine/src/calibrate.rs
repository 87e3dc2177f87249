//! What measuring costs on this machine, now: a reading of CLOCK_MONOTONIC, a whole I/O on the driver `null`, and what a
//! bridge to a foreign store adds to it.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use taillight_core::plan::{
    Access, AccessKind, Arrival, CAPTURE_CHUNK, CaptureMode, MixPart, Plan, Sync, TargetPlan,
    VerifyPlan, WorkloadPlan,
};
use taillight_core::progress::Progress;
use taillight_core::units::{ByteSize, Span, readable};
use taillight_core::{Clock, Error, MonoClock, OpKind, Result, StopFlag};
use taillight_driver::null::NullDriver;
use taillight_driver::{BoundDriver, Driver, Geometry, OpenSpec, Target, TargetBridge};
use taillight_rundir::manifest::Overhead;

/// Length of a run over a bridge, and of those on `null` that it is compared with, ns.
const CALIBRATION_NS: u64 = 25_000_000;
/// Length of the other runs on `null`, ns: some 100,000 I/Os of a worker alone.
const NULL_NS: u64 = 4_000_000;
/// Longest wait for operations in flight at its end, ns: the plan's own may be too short for a bridge.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Operations of each worker that its memory is made for before; more take more while it goes.
pub const CALIBRATION_OPERATIONS: u64 = 1 << 14;

/// A cost beyond this is hardly the tool's: a worker that waited for a CPU looks so, ns.
const HARDLY_OWN_NS: f64 = 2_000.0;
/// Calibration runs, and those at most where they are disturbed, of which the cheapest counts: a disturbance only adds.
const LEAST_RUNS: usize = 3;
const MOST_RUNS: usize = 8;

/// Runs over a bridge, and on `null`, of which the cheapest count: a disturbance only adds.
const BRIDGE_RUNS: usize = 4;
/// A bridge that costs more than this, ns, is slow: it has a compiler of its own, or another process that has to find out
/// that it has a CPU to itself.
const QUICK_NS: f64 = 100.0;
/// Time for which each run warms up a slow bridge, ns.
const WARM_UP_NS: u64 = 100_000_000;
/// The same of any other, whose language may make a thread of its own for ours, and of `null`, ns.
const QUICK_WARM_UP_NS: u64 = 25_000_000;

/// What was measured before the load.
pub struct Calibration {
    pub overhead: Overhead,
    /// What an operation costs on each bridge of the target, in words.
    pub bridges: Vec<String>,
}

/// Measures the clock; the plan's own shape (workers, depth, sizes, capture) on `null` in three to eight runs of 4 ms;
/// and each bridge of `target`, whose runs on `null` are of those where the plan only reads. The data set is as large as
/// that of `target`, with keys a block for each record. On virtual time only the clock is measured. Errors: when a run
/// fails, or an operation in it; `Unavailable` when asked to stop before a bridge was measured.
pub fn calibrate(plan: &Plan, target: &dyn Target, stop: &StopFlag) -> Result<Calibration> {
    let mut overhead = Overhead { clock_ns: Some(clock_ns()), ..Overhead::default() };
    if target.virtual_time().is_some() {
        // Virtual time has no cost to subtract.
        return Ok(Calibration { overhead, bridges: Vec::new() });
    }
    let mut plan = calibration_plan(plan, target);
    let mut on_null = Vec::new();
    let bridges = bridge_costs(&plan, target, stop, &mut on_null)?;
    let mut mixes = plan.workloads.iter().flat_map(|w| &w.mix);
    if mixes.any(|part| part.op != OpKind::Read) {
        // Bridges were compared with reads, and this plan writes as well.
        on_null.clear();
    }
    plan.run.duration = Some(Span(NULL_NS));
    overhead.null_ns_per_op = Some(cheapest(on_null, || null_ns_per_op(&plan))?);
    Ok(Calibration { overhead, bridges })
}

/// What an operation costs on each bridge of `target`, in words: `plan` over the bridge, with operations that do nothing
/// behind it, less the same on `null`, whose cost goes to `on_null`; each the least of some runs in turns.
fn bridge_costs(
    plan: &Plan,
    target: &dyn Target,
    stop: &StopFlag,
    on_null: &mut Vec<f64>,
) -> Result<Vec<String>> {
    let mut plan = plan.clone();
    for w in &mut plan.workloads {
        // What a write carries lies in the slots already.
        w.mix = vec![MixPart { op: OpKind::Read, weight: 1 }];
    }
    let size = plan.target.size.map_or(0, |s| s.0);
    let geometry = Geometry { files: 1, file_size: size, align: 1 };
    let bridges = target.bridges(geometry);
    bridges.into_iter().map(|bridge| bridge_cost(&plan, &bridge, stop, on_null)).collect()
}

fn bridge_cost(
    plan: &Plan,
    bridge: &TargetBridge,
    stop: &StopFlag,
    on_null: &mut Vec<f64>,
) -> Result<String> {
    // Each opens the sessions of all workers, which may take seconds.
    let over = |plan: &Plan| match stop.stopped() {
        true => Err(Error::unavailable("stopped before the bridge was measured")),
        false => ns_per_op(plan, (bridge.open)(), &calibration_id(), stop),
    };
    let (first, cold) = (on_null.len(), over(plan)?);
    on_null.push(null_ns_per_op(plan)?);
    let warmed = |ns| {
        let mut plan = plan.clone();
        plan.run.warmup = Span(ns);
        plan
    };
    let slow = cold - on_null[first] > QUICK_NS;
    let (null, bridged) = (QUICK_WARM_UP_NS, if slow { WARM_UP_NS } else { QUICK_WARM_UP_NS });
    let (null, bridged) = (warmed(null), warmed(bridged));
    let mut cost = f64::INFINITY;
    for _ in 0..BRIDGE_RUNS {
        cost = cost.min(over(&bridged)?);
        on_null.push(null_ns_per_op(&null)?);
    }
    let depth = plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1);
    Ok(cost_words(cost - least(&on_null[first..]), depth, &bridge.carries))
}

/// A cost in words, ns; less than a run can tell is no figure.
fn cost_words(cost: f64, depth: u32, carries: &str) -> String {
    let ns = match cost {
        ..1.0 => "less than 1 ns".to_owned(),
        1.0..1000.0 => format!("{cost:.1} ns"),
        _ => readable::duration(cost),
    };
    format!("{ns} an operation at depth {depth}{carries}")
}

/// The least cost of `LEAST_RUNS` runs, `costs` of which there are; of more, up to `MOST_RUNS`, while it is above
/// `HARDLY_OWN_NS`.
fn cheapest(mut costs: Vec<f64>, mut run: impl FnMut() -> Result<f64>) -> Result<f64> {
    while costs.len() < LEAST_RUNS || costs.len() < MOST_RUNS && least(&costs) > HARDLY_OWN_NS {
        costs.push(run()?);
    }
    Ok(least(&costs))
}

fn least(costs: &[f64]) -> f64 {
    costs.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The data set of the calibration: where keys stand for offsets, a block for each record. The
/// size of such a target says nothing: a store is as large as what is put there.
fn data_set(plan: &Plan, size: u64) -> u64 {
    let Some(keys) = plan.workloads.first().and_then(|w| w.keys.as_ref()) else {
        return size;
    };
    let block = |w: &WorkloadPlan| w.block_size.max().max(w.access.align.0);
    let largest = plan.workloads.iter().map(block).max().unwrap_or(1);
    keys.count.max(1).saturating_mul(largest).min(size)
}

/// Cost of one reading of CLOCK_MONOTONIC, ns: the mean of the fastest of several batches.
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

/// The plan as `null` can run it: the same workers, depths, sizes and capture (of all I/Os in place of outliers only)
/// in a closed loop, without what needs a target that keeps data, or time of its own.
fn calibration_plan(plan: &Plan, target: &dyn Target) -> Plan {
    let sizes = (0..plan.workloads.len()).map(|w| target.geometry_of(w).size());
    let size = data_set(plan, sizes.max().unwrap_or(0));
    let mut plan = plan.clone();
    plan.run.duration = Some(Span(CALIBRATION_NS));
    (plan.run.operations, plan.run.bytes, plan.run.warmup) = (None, None, Span(0));
    plan.run.interval = Span(10 * CALIBRATION_NS);
    plan.run.idle_timeout = None;
    plan.run.drain_timeout = Span(PATIENCE_NS);
    plan.run.before = Vec::new();
    plan.verify = VerifyPlan::default();
    // What it drives is this rank's alone, and one block may be all of it.
    plan.ranks = None;
    plan.targets.clear();
    plan.target = TargetPlan {
        driver: NullDriver.name().to_owned(),
        size: Some(ByteSize(size)),
        ..TargetPlan::default()
    };
    plan.workloads.iter_mut().for_each(calibration_workload);
    // 25 ms at 40 million a second are 16 MB; four times that, whatever the budget.
    let enough = 8 * u64::from(plan.workers()) * CAPTURE_CHUNK;
    plan.capture.budget = ByteSize(plan.capture.budget.0.min(enough));
    plan.capture.dir = None;
    if plan.capture.mode == CaptureMode::Outliers {
        plan.capture.mode = CaptureMode::All;
    }
    plan
}

fn calibration_workload(w: &mut WorkloadPlan) {
    (w.keys, w.value, w.scan, w.think, w.ramp, w.passes) = (None, None, None, None, None, None);
    (w.start_delay, w.duration, w.operations, w.bytes) = (Span(0), None, None, None);
    (w.target, w.trace) = (None, None);
    w.end_to_end = false;
    w.measured = true;
    if !plain_pattern(w.access.kind) {
        w.access = Access::random(w.access.align);
    }
    w.arrival = Arrival::Burst;
    w.sync = Sync::None;
    (w.drop_cache, w.end_fsync, w.flow) = (None, false, None);
    (w.ends_run, w.ends_with) = (false, None);
    let known = [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync];
    w.mix.retain(|m| known.contains(&m.op));
    if w.mix.is_empty() {
        w.mix = vec![MixPart { op: OpKind::Read, weight: 1 }];
    }
}

/// The same on `null`.
fn null_ns_per_op(plan: &Plan) -> Result<f64> {
    let (id, stop) = (calibration_id(), StopFlag::default());
    let spec = OpenSpec { plan, run_id: &id, destroy: None, stop: &stop, fits: &|_| Ok(()) };
    let target = NullDriver.open(&spec, &mut |_: Progress<'_>| true)?;
    ns_per_op(plan, target, &id, &stop)
}

/// Time of a worker per operation of such a plan on `target`, ns; of one that `stop` ends it is no figure.
fn ns_per_op(plan: &Plan, target: Box<dyn Target>, id: &str, stop: &StopFlag) -> Result<f64> {
    let (ops, ns) = super::run::load_only(plan, target, id, stop)?;
    Ok(ns as f64 * f64::from(plan.workers()) / ops.max(1) as f64)
}

fn calibration_id() -> String {
    format!("calibration-{}-{:016x}", std::process::id(), unique())
}

/// Whether the calibration keeps a pattern: one that draws, from the size of the data set alone.
fn plain_pattern(kind: AccessKind) -> bool {
    kind.draws() && !matches!(kind, AccessKind::Latest)
}

/// A random number for the name of a calibration run.
fn unique() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answering::AnsweringTarget;

    /// With a short `run.drain_timeout` what was in flight on a slow bridge had failed, and so the whole run.
    #[test]
    fn a_calibration_waits_for_what_is_in_flight_whatever_the_plan_says() {
        let mut plan = Plan::default();
        plan.run.drain_timeout = Span(1);
        let target = AnsweringTarget::new(Geometry::keyed(), |_, _| Ok(0));
        assert_eq!(calibration_plan(&plan, &target).run.drain_timeout, Span(PATIENCE_NS));
    }

    #[test]
    fn a_stop_ends_the_runs_over_a_bridge() {
        let stop = StopFlag::default();
        stop.stop();
        let open = || -> Box<dyn Target> { panic!("a session more") };
        let bridge = TargetBridge { open: Box::new(open), carries: String::new() };
        let cost = bridge_cost(&Plan::default(), &bridge, &stop, &mut Vec::new());
        let e = cost.expect_err("stopped");
        assert!(e.to_string().contains("stopped"), "{e}");
    }

    #[test]
    fn runs_that_there_are_count_and_only_a_high_cost_asks_for_more() {
        let after = |known: &[f64], next: f64| {
            let mut runs = 0;
            let cost = cheapest(known.to_vec(), || {
                runs += 1;
                Ok(next)
            });
            (cost.unwrap(), runs)
        };
        assert_eq!(after(&[], 50.0), (50.0, LEAST_RUNS));
        assert_eq!(after(&[40.0, 50.0], 45.0), (40.0, LEAST_RUNS - 2));
        assert_eq!(after(&[40.0, 50.0, 60.0, 45.0, 41.0], 1.0), (40.0, 0));
        assert_eq!(after(&[], 2.0 * HARDLY_OWN_NS), (2.0 * HARDLY_OWN_NS, MOST_RUNS));
    }

    #[test]
    fn a_cost_below_what_a_run_can_tell_is_no_figure() {
        let words = |cost| cost_words(cost, 32, ", with a key of 23 B");
        assert_eq!(words(20.04), "20.0 ns an operation at depth 32, with a key of 23 B");
        assert!(words(8683.2).starts_with("8.68 us an operation"), "{}", words(8683.2));
        assert_eq!(words(-3.0), "less than 1 ns an operation at depth 32, with a key of 23 B");
    }
}
