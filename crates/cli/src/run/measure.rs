//! The load of a run by the engine, with what goes on around it: tracing, samples of the machine, logs of NVMe drives,
//! rows counted for the report while they are written, and under MPI the common start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use taillight_core::plan::{Plan, TargetPlan, TraceMode, TracingBackendChoice};
use taillight_core::probe::Probes;
use taillight_core::progress::Progress;
use taillight_core::{Error, Result, Stamp};
use taillight_driver::Target;
use taillight_engine::run::run_probed;
use taillight_engine::{EngineOutcome, EngineRequest, IntervalView, Observer};
use taillight_explain::SlowSoFar;
use taillight_live::LiveFeed;
use taillight_machine::{Sys, block};
use taillight_report::analyse::{CaptureCounter, CapturedIos};
use taillight_rundir::host::HostInfo;
use taillight_rundir::ios::RowBatch;
use taillight_rundir::manifest::PhaseInfo;
use taillight_rundir::trace_info::TraceInfo;
use taillight_trace::host::{HostWatch, Sampler};
use taillight_trace::nvme::Drives;
use taillight_trace::tracing::{self, TraceWatch, Tracer, TracingRequest, WithProbes};

use super::RunRequest;
use super::directory::NewRun;
use super::live::Live;
use super::ranked::RankSeat;
use crate::output;

/// What the load and the things around it left.
pub struct Measured {
    pub outcome: EngineOutcome,
    /// From tracing, if it was asked for.
    pub trace: Option<TraceInfo>,
    /// Why the trace could not be written, if so.
    pub untraced: Option<Error>,
    /// From sampling the machine; None where it was off, on virtual time, or failed.
    pub host: Option<HostInfo>,
    /// Further directories of the target, such as a store's log.
    pub beside: Vec<PathBuf>,
    /// What the rows of `ios.parquet` gave while they were written.
    pub counted: Option<CapturedIos>,
}

/// Makes the load and records it. Errors: when nothing could be measured; a target that fails later
/// is part of the outcome.
pub fn run(
    asked: &RunRequest<'_>,
    (target, loaded): (Box<dyn Target>, u64),
    run: &NewRun,
    live: &mut Live,
    sys: &Sys,
) -> Result<Measured> {
    let RunRequest { plan, signals, .. } = *asked;
    let feed = live.feed();
    let path = plan.target.path.as_deref().and_then(block::local);
    let beside = target.auxiliary_dirs();
    let places = path.into_iter().map(Path::to_owned).chain(beside.iter().cloned());
    let places: Vec<PathBuf> = places.collect();
    let mut rows = RowCounting { plan, counter: None };
    let mut together =
        StartTogether { seat: asked.rank, is_virtual: run.clock.source == "virtual" };
    let mut observers: [&mut dyn Observer; 3] = [live, &mut rows, &mut together];
    let request = EngineRequest {
        plan,
        rundir: &run.dir,
        run_id: &run.run_id,
        loaded,
        clock: &run.clock,
        stop: signals.stop(),
        observers: &mut observers,
    };
    // A driver may look through the processes of the machine for it.
    let traced = plan.trace.mode != TraceMode::Off;
    let server = if traced { target.server_process() } else { None };
    let (tracer, trace) = match start(plan, run, (path, &places), server, feed.clone(), sys) {
        None => (None, None),
        Some(Ok(tracer)) => (Some(tracer), None),
        Some(Err(why)) if plan.trace.backend != TracingBackendChoice::Auto => return Err(why),
        Some(Err(why)) => {
            output::note(&untraced(&why));
            (None, Some(tracing::untraced(plan, &why)))
        }
    };
    let drives = drives(plan, run, &places, sys);
    let sampler = sampler(plan, run, &places, feed, sys);
    let Some(tracer) = tracer else {
        let outcome = taillight_engine::run::run(target, request)?;
        logs(drives, run);
        let host = sampled(sampler);
        let counted = rows.finish();
        return Ok(Measured { outcome, trace, untraced: None, host, beside, counted });
    };
    tracer.missing().iter().for_each(|m| output::note(m));
    let outcome = tracer.with_probes(ProbedRun { target, request })?;
    let host = sampled(sampler);
    logs(drives, run);
    let (trace, untraced) = match tracer.finish(&run.dir) {
        Ok(info) => (info, None),
        Err(e) => (tracing::untraced(plan, &e), Some(e)),
    };
    Ok(Measured { outcome, trace: Some(trace), untraced, host, beside, counted: rows.finish() })
}

/// The engine's run, with the probes of whichever backend traces.
struct ProbedRun<'a> {
    target: Box<dyn Target>,
    request: EngineRequest<'a>,
}

impl WithProbes for ProbedRun<'_> {
    type Output = Result<EngineOutcome>;

    fn run<P: Probes>(self, probes: Arc<P>) -> Result<EngineOutcome> {
        run_probed(self.target, self.request, probes)
    }
}

/// Begins the load together with other ranks, and tells them of its end; does nothing without a seat.
struct StartTogether<'a> {
    seat: Option<&'a RankSeat>,
    is_virtual: bool,
}

impl Observer for StartTogether<'_> {
    fn phase(&mut self, _: &str) {}
    fn interval(&mut self, _: &IntervalView) {}
    fn progress(&mut self, _: Progress<'_>) {}
    fn ready(&mut self) -> Result<Option<Stamp>> {
        self.seat.map_or(Ok(None), |seat| seat.start(self.is_virtual).map(Some))
    }
    fn closing(&mut self, target: &dyn Target) {
        self.seat.iter().for_each(|seat| seat.closing(target));
    }
}

/// Counts the rows of `ios.parquet` while they are written, for the report.
struct RowCounting<'a> {
    plan: &'a Plan,
    counter: Option<CaptureCounter>,
}

impl RowCounting<'_> {
    fn finish(self) -> Option<CapturedIos> {
        self.counter.map(CaptureCounter::finish)
    }
}

impl Observer for RowCounting<'_> {
    fn phase(&mut self, _: &str) {}
    fn interval(&mut self, _: &IntervalView) {}
    fn progress(&mut self, _: Progress<'_>) {}
    fn loaded(&mut self, phases: &[PhaseInfo]) {
        self.counter = CaptureCounter::new(self.plan, phases);
    }
    fn rows(&mut self, rows: &RowBatch) {
        self.counter.iter_mut().for_each(|counter| counter.rows(rows));
    }
}

/// Starts to sample the machine; None without `trace.host`, on virtual time, and where it fails: the run goes on.
fn sampler(
    plan: &Plan,
    run: &NewRun,
    places: &[PathBuf],
    feed: Option<LiveFeed>,
    sys: &Sys,
) -> Option<Sampler> {
    if !plan.trace.host || run.clock.source == "virtual" {
        return None;
    }
    let interval = Duration::from_nanos(plan.run.interval.0);
    let watch = feed.map(|feed| -> HostWatch { Box::new(move |sample| feed.host(sample)) });
    match Sampler::start(interval, places, sys, &run.dir, watch) {
        Ok(sampler) => Some(sampler),
        Err(e) => {
            output::note(&format!("the machine is not sampled: {e}"));
            None
        }
    }
}

/// Reads the logs of the NVMe drives below the target; None where the machine is not sampled or nothing is local.
fn drives(plan: &Plan, run: &NewRun, places: &[PathBuf], sys: &Sys) -> Option<Drives> {
    let real = plan.trace.host && run.clock.source != "virtual" && !places.is_empty();
    let disks = block::disks_below(sys, places).into_iter().map(|d| d.name);
    real.then(|| Drives::before(sys, &disks.collect::<Vec<_>>()))
}

/// Reads the logs of drives again and writes both; logs that cannot be written are told and missed.
fn logs(drives: Option<Drives>, run: &NewRun) {
    let Some(file) = drives.and_then(Drives::after) else {
        return;
    };
    if let Err(e) = run.dir.write(&file) {
        output::note(&format!("the drive's logs are lost: {e}"));
    }
}

/// Ends sampling; samples that cannot be written are told and missed, the run is kept.
fn sampled(sampler: Option<Sampler>) -> Option<HostInfo> {
    match sampler?.finish() {
        Ok(info) => Some(info),
        Err(e) => {
            output::note(&format!("samples of the machine are lost: {e}"));
            None
        }
    }
}

/// Starts tracing if the plan asks for it.
fn start(
    plan: &Plan,
    run: &NewRun,
    (path, places): (Option<&Path>, &[PathBuf]),
    server: Option<u32>,
    feed: Option<LiveFeed>,
    sys: &Sys,
) -> Option<Result<Tracer>> {
    if plan.trace.mode == TraceMode::Off {
        return None;
    }
    if run.clock.source == "virtual" {
        let why = Error::unavailable("nothing happens below a driver on virtual time");
        return Some(Err(why));
    }
    let direct = |target: &TargetPlan| {
        target.options.get("direct").and_then(toml::Value::as_bool).unwrap_or(false)
    };
    let facts = run.dir.manifest().driver_facts();
    let watch = feed.map(|feed| -> TraceWatch {
        let mut slow = SlowSoFar::new(plan.outlier_ns(), facts.in_process);
        Box::new(move |rows, more| feed.slow(slow.look(rows, more, feed.measured_ns())))
    });
    let wish = TracingRequest {
        plan,
        path,
        places,
        direct: plan.all_targets().all(|(_, target)| direct(target)),
        single_file: facts.single_file,
        server,
        spill: Some(run.dir.path()),
        watch,
    };
    Some(Tracer::start(wish, sys))
}

/// Why a run that goes on is not traced, and what to do about it.
fn untraced(why: &Error) -> String {
    let hint = why.hint_text().map_or(String::new(), |h| format!("; {h}"));
    format!("not traced: {why}{hint}")
}
