//! One run, phase by phase: calibration, the steps of `run.before`, the load (sessions, barrier, warm-up, measure,
//! drain), then the files. The hot loop is `worker`, time is `threaded` and `simulate`. `cli` calls [`run_probed`] or
//! [`run()`]; calibration generates its load here as well.

mod before;
mod descriptors;
mod ending;
mod files;
mod launch;
mod samples;
mod setup;
mod streams;
mod sys;
mod threads;
mod verify;
mod witness;

use std::sync::Arc;

use taillight_capture::PoolReport;
use taillight_capture::dir::CaptureDir;
pub use taillight_core::StopFlag;
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::probe::{NoProbe, Probes};
use taillight_core::witness::Witness;
use taillight_core::{Error, MonoClock, Result, Stamp, Status};
use taillight_driver::{Target, TargetPause};
use taillight_rundir::manifest::{
    CaptureInfo, Degraded, EndToEndInfo, Losses, Overhead, PhaseInfo,
};
use taillight_rundir::store::StoreRow;
use taillight_rundir::verify::VerifyReport;
use taillight_rundir::{RunDir, TableWriter, manifest::ClockInfo};

use crate::collector::{Collected, Observer};
use crate::worker::WorkerEnd;
pub(crate) use setup::{buffer_size, whole_values};
use witness::WitnessReadings;

/// What a run needs.
pub struct EngineRequest<'a> {
    pub plan: &'a Plan,
    /// Where the files go.
    pub rundir: &'a RunDir,
    /// Id of the run: names the capture's files.
    pub run_id: &'a str,
    /// Records that [`crate::preload`] loaded for this run; 0 elsewhere.
    pub loaded: u64,
    /// The clock pair of the manifest.
    pub clock: &'a ClockInfo,
    /// Ends the run early.
    pub stop: &'a StopFlag,
    pub observers: &'a mut [&'a mut dyn Observer],
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Planned,
    Stopped,
    TargetFailed,
}

/// What a run did; what is not in its files goes into the manifest.
#[derive(Debug)]
pub struct EngineOutcome {
    pub reason: StopReason,
    /// The error that ended it, if one did.
    pub error: Option<Error>,
    /// Phases with their stamps.
    pub phases: Vec<PhaseInfo>,
    /// Measured operations, failures included.
    pub operations: u64,
    pub errors: Vec<(Status, u64)>,
    /// Operations due before the end that were never started (open loop).
    pub unsent: u64,
    /// Deepest backlog of each measured worker, added up (open loop).
    pub backlog_max: u64,
    /// Operations that found nothing because this run had deleted their key; no failures.
    pub misses: u64,
    /// What became of the blocks of an end-to-end stream.
    pub end_to_end: Option<EndToEndInfo>,
    /// Operations due and not yet submitted when the measured time was over: sent late, or never.
    pub left_at_end: u64,
    pub capture: CaptureInfo,
    pub losses: Losses,
    pub overhead: Overhead,
    /// What made the stamps, and how far it was from CLOCK_MONOTONIC at worst.
    pub clock: String,
    /// Why the files could not be written: the capture's chunks are still there, and the run
    /// directory can be finished by salvage once the cause is gone.
    pub unsaved: Option<Error>,
    /// What verification found, when the plan verifies; also in `verify.json`.
    pub verify: Option<VerifyReport>,
    /// Facts for the manifest: of the target, of replayed traces and of `run.steady`.
    pub target_facts: Vec<(String, String)>,
    /// What others counted of the load.
    pub witness: Vec<Witness>,
}

/// Everything that load generation left behind, before files are written.
struct LoadResult {
    collected: Collected,
    ends: Vec<WorkerEnd>,
    pool: Option<PoolReport>,
    /// The chunks of the pool; removed with it.
    capture: Option<CaptureDir>,
    /// Why no I/O was kept that should have been.
    no_capture: Option<String>,
    error: Option<Error>,
    load_start: Stamp,
    measure_start: Stamp,
    measure_end: Stamp,
    drained: Stamp,
    cpu_s: f64,
    /// Nothing of this process ran for so long, ns.
    stood_still_ns: u64,
    verify: Option<Arc<verify::RunVerification>>,
    /// The target's own statistics, if it has any.
    samples: Option<TableWriter<StoreRow>>,
    /// What the target said of its sessions.
    session_facts: Vec<(String, String)>,
    /// Times at which the target stopped its threads, if it can tell.
    pauses: Option<Vec<TargetPause>>,
    /// Counters of others around the load.
    witness: WitnessReadings,
    /// The workers read the CPU's counter.
    counter: bool,
}

/// Calibrates, does the steps of `run.before`, runs the plan against the opened target, closes it, and writes
/// intervals, histograms and I/Os.
/// Errors: when nothing could be measured. A target that fails while measuring, or files that
/// cannot be written afterwards, are no errors here: see [`EngineOutcome::error`] and
/// [`EngineOutcome::unsaved`].
pub fn run(target: Box<dyn Target>, request: EngineRequest<'_>) -> Result<EngineOutcome> {
    run_probed(target, request, Arc::new(NoProbe))
}

/// As [`run`], with a probe on each worker. Errors: as [`run`], and when a worker cannot be traced.
pub fn run_probed<B: Probes>(
    target: Box<dyn Target>,
    mut request: EngineRequest<'_>,
    probes: Arc<B>,
) -> Result<EngineOutcome> {
    let calibration = match crate::calibrate::calibrate(request.plan, &*target, request.stop) {
        Ok(calibration) => calibration,
        Err(error) => return Err(closed(target, error)),
    };
    let mut facts = target.facts();
    let bridges = calibration.bridges.join("; ");
    if !bridges.is_empty() {
        let text = format!("the bridge to the plug-in costs {bridges}");
        request.observers.iter_mut().for_each(|o| o.note(&text));
        facts.push(("bridge.cost".to_owned(), bridges));
    }
    for w in &request.plan.workloads {
        let trace = w.trace.as_ref().map(crate::trace::describe);
        facts.extend(trace.map(|words| (format!("trace.{}", w.name), words)));
    }
    let before = match before::run(&*target, &mut request) {
        Ok(phases) => phases,
        Err(error) => return Err(closed(target, error)),
    };
    let locked = match request.plan.run.lock_memory.map(sys::LockedMemory::take).transpose() {
        Ok(locked) => locked,
        Err(error) => return Err(closed(target, error)),
    };
    let mut loaded = launch::load(target, &mut request, probes)?;
    drop(locked);
    let capture = loaded.capture.take();
    facts.append(&mut loaded.session_facts);
    let mut outcome = outcome(&request, &loaded, calibration.overhead, facts);
    outcome.phases.splice(0..0, before);
    if let Err(error) = files::write(&mut request, loaded, &mut outcome) {
        outcome.unsaved = Some(error);
        capture.into_iter().for_each(CaptureDir::persist);
    }
    Ok(outcome)
}

/// Whether this process may lock the memory that the plan asks for. Errors: `Unavailable`.
pub fn may_lock(plan: &Plan) -> Result<()> {
    plan.run.lock_memory.map_or(Ok(()), sys::LockedMemory::allowed)
}

/// The reason why there is no load, with the target closed: it matters more than how closing went.
fn closed(target: Box<dyn Target>, why: Error) -> Error {
    let _ = target.close();
    why
}

/// Load generation without a run directory, for calibration: measured operations and their time. Errors: also when an
/// operation failed.
pub(crate) fn load_only(
    plan: &Plan,
    target: Box<dyn Target>,
    run_id: &str,
    stop: &StopFlag,
) -> Result<(u64, u64)> {
    let loaded = launch::load_bare(plan, target, run_id, stop)?;
    if let Some(error) = loaded.error {
        return Err(error);
    }
    if let Some((status, failed)) = loaded.collected.errors().first() {
        let error = Error::target("operations of a calibration fail");
        return Err(error.with("status", status).with("failed", failed));
    }
    let time = loaded.measure_end.since(loaded.measure_start).max(1) as u64;
    Ok((loaded.collected.measured_ops(), time))
}

fn outcome(
    request: &EngineRequest<'_>,
    loaded: &LoadResult,
    mut overhead: Overhead,
    target_facts: Vec<(String, String)>,
) -> EngineOutcome {
    overhead.cpu_s = Some(loaded.cpu_s);
    overhead.stood_still_ns = Some(loaded.stood_still_ns).filter(|ns| *ns > 0);
    let reason = if loaded.error.is_some() {
        StopReason::TargetFailed
    } else if request.stop.stopped() {
        StopReason::Stopped
    } else {
        StopReason::Planned
    };
    let operations = loaded.collected.measured_ops();
    let sum = |f: fn(&WorkerEnd) -> u64| loaded.ends.iter().map(f).sum::<u64>();
    // What load alone was late with is no verdict on what was measured.
    let counted = |f: fn(&WorkerEnd) -> u64| {
        let ends = loaded.ends.iter().filter(|e| e.measured);
        ends.map(f).sum::<u64>()
    };
    // A worker that never came back has at least the I/O it is stuck in.
    let unfinished = sum(|e| e.unfinished)
        + u64::from(request.plan.workers()).saturating_sub(loaded.ends.len() as u64);
    EngineOutcome {
        reason,
        error: None,
        phases: phases(loaded, operations),
        operations,
        errors: loaded.collected.errors(),
        unsent: counted(|e| e.unsent),
        backlog_max: counted(|e| e.backlog_max),
        misses: counted(|e| e.misses),
        end_to_end: end_to_end(&loaded.ends),
        left_at_end: counted(|e| e.left_at_end),
        capture: capture_info(request.plan, loaded),
        losses: Losses {
            ios: sum(|e| e.capture.lost),
            out_of_range: loaded.collected.beyond(),
            unfinished,
            warmup_carried_ns: Some(loaded.collected.carried_over_ns).filter(|ns| *ns > 0),
            ..Losses::default()
        },
        overhead,
        clock: clock_text(request.clock, loaded),
        unsaved: None,
        verify: loaded.verify.as_ref().map(|v| v.report()),
        target_facts,
        witness: loaded.witness.compare(request.plan, &loaded.collected, unfinished),
    }
}

/// The blocks of an end-to-end stream: those that readers were to read, and what became of them.
fn end_to_end(ends: &[WorkerEnd]) -> Option<EndToEndInfo> {
    let streams = || ends.iter().filter_map(|end| end.stream);
    let written = streams().map(|s| s.written).sum::<u64>();
    let readers = || streams().filter_map(|s| s.read_to);
    streams().next().map(|_| EndToEndInfo {
        written,
        readers: readers().count() as u64,
        verified: streams().map(|s| s.verified).sum(),
        failed: streams().map(|s| s.failed).sum(),
        unread: readers().map(|to| written.saturating_sub(to)).sum(),
    })
}

/// The clock of the stamps, for the manifest.
fn clock_text(clock: &ClockInfo, loaded: &LoadResult) -> String {
    let worst = loaded.ends.iter().map(|e| e.drift.worst_ns).max().unwrap_or(0);
    let steps: u64 = loaded.ends.iter().map(|e| e.drift.steps).sum();
    match (loaded.counter, steps) {
        (false, _) => clock.source.clone(),
        (true, 0) => {
            format!("{}, read directly, at most {worst} ns from CLOCK_MONOTONIC", clock.source)
        }
        (true, _) => format!(
            "{}, read directly, at most {worst} ns from CLOCK_MONOTONIC, set anew {steps} times",
            clock.source
        ),
    }
}

fn phases(loaded: &LoadResult, operations: u64) -> Vec<PhaseInfo> {
    let phase = |name: &str, start: Stamp, end: Stamp, ios| PhaseInfo {
        name: name.into(),
        start_ns: start.0,
        end_ns: Some(end.0),
        ios,
    };
    let mut phases = Vec::new();
    let ended = loaded.ends.iter().map(|e| e.finished).max();
    if loaded.measure_start > loaded.load_start {
        let ios = loaded.collected.warmup_ops + loaded.collected.stragglers;
        let end = ended.map_or(loaded.measure_start, |at| at.min(loaded.measure_start));
        phases.push(phase("warmup", loaded.load_start, end, ios));
        if end < loaded.measure_start {
            // Stopped before anything was measured.
            return phases;
        }
    }
    phases.push(phase("measure", loaded.measure_start, loaded.measure_end, operations));
    phases.push(phase("drain", loaded.measure_end, loaded.drained, 0));
    phases
}

fn capture_info(plan: &Plan, loaded: &LoadResult) -> CaptureInfo {
    let skipped = loaded.ends.iter().filter(|e| e.measured);
    let skipped = skipped.map(|e| e.capture.skipped).sum::<u64>();
    let ends = || loaded.ends.iter();
    let degraded = if let Some(why) = &loaded.no_capture {
        Some(Degraded {
            at_ns: loaded.measure_start.0,
            not_kept: skipped,
            reason: format!("{why}; rates and histograms are whole"),
        })
    } else {
        ends().any(|e| e.capture.degraded).then(|| Degraded {
            at_ns: ends().filter_map(|e| e.capture.degraded_at).min().unwrap_or(0),
            not_kept: skipped,
            reason: degraded_reason(loaded),
        })
    };
    CaptureInfo {
        mode: plan.capture.mode,
        budget: plan.capture.budget.0,
        kept: loaded.ends.iter().map(|e| e.capture.kept).sum(),
        degraded,
        path: None,
        dir: plan.capture.dir.clone(),
        used: loaded.pool.as_ref().map(|p| p.used),
        spilled: loaded.pool.as_ref().map(|p| p.spilled).filter(|n| *n > 0),
    }
}

fn degraded_reason(loaded: &LoadResult) -> String {
    let problems = loaded.pool.iter().flat_map(|p| p.problems.iter());
    let why = problems.cloned().reduce(|all, one| format!("{all}; {one}"));
    let why = why.unwrap_or_else(|| "the capture budget was spent".into());
    format!("{why}; only I/Os beyond the running p99.9 were kept from then on")
}

/// Whether this plan keeps records at all.
fn captures(plan: &Plan) -> bool {
    plan.capture.mode != CaptureMode::Off
}

/// CPU time of the whole process, seconds.
fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn now() -> Stamp {
    use taillight_core::Clock;
    MonoClock.now()
}
