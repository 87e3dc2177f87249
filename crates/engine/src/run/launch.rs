//! Load generation: what the workers share, one worker from its spec, and all of them on virtual time.
//! In real time they run on threads of their own: `threads`. Called by `run`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::{Receiver, bounded, unbounded};
use taillight_capture::dir::CaptureDir;
use taillight_capture::{Capture, CaptureThresholds, ChunkSource, Pool, PoolReport};
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::probe::{NoProbe, Probe, ProbeContext, Probes};
use taillight_core::{Result, Stamp};
use taillight_driver::{SessionSpec, Target, VirtualTime};
use taillight_rundir::manifest::ClockInfo;
use taillight_rundir::store::{StoreRow, store_writer};
use taillight_rundir::{RunDir, TableWriter};

use super::descriptors::WorkerDescriptors;
use super::ending::{IdleEnd, LoadEnd, gave_up, loaded};
use super::setup::worker_specs;
use super::{EngineRequest, LoadResult, StopFlag, captures, closed, cpu_s, threads};
use crate::calibrate::CALIBRATION_OPERATIONS;
use crate::clock::DisciplinedClock;
use crate::collector::{Collector, IntervalLog, Observer, SPARE_INTERVALS};
use crate::keyspace::KeySpace;
use crate::recorder::{Channels, IntervalStats, Recorder, RecorderSpec, Timeline, WorkerMessage};
use crate::simulate::{SimClock, SimulatedWorker};
use crate::threaded::{SpinShare, StopSignals};
use crate::worker::{
    CacheDrops, EndSyncs, Flows, Pacing, Strategies, Worker, WorkerHandles, WorkerParts, WorkerSpec,
};

/// What the workers share.
pub(super) struct SharedParts<B> {
    pub plan: Plan,
    pub probes: Arc<B>,
    pub thresholds: Arc<CaptureThresholds>,
    pub channels: Channels,
    pub pool: Option<ChunkSource>,
    pub descriptors: WorkerDescriptors,
    /// Keys of the target, when it has keys.
    pub space: Option<Arc<KeySpace>>,
    /// What was written where, when the plan verifies.
    pub verify: Option<Arc<super::verify::RunVerification>>,
    /// A worker failed: the others end too.
    pub abort: AtomicBool,
    /// What ends workers besides their own limits.
    pub load: LoadEnd,
    /// Watches for a run in which nothing completes any more.
    pub idle: IdleEnd,
    /// What each worker may spin.
    pub spin: SpinShare,
    /// Operations that workloads share by weight.
    pub flows: Flows,
}

/// The run that a load belongs to.
struct LoadOf<'a> {
    run_id: &'a str,
    /// `None` for a calibration, which writes nothing.
    output: Option<LoadOutput<'a>>,
    /// Records that were loaded for it before.
    loaded: u64,
}

/// The run directory for what is written while the load goes, with its clock.
struct LoadOutput<'a> {
    dir: &'a RunDir,
    clock: &'a ClockInfo,
}

/// Generates the load of a request on `target`, and closes it.
pub fn load<B: Probes>(
    target: Box<dyn Target>,
    request: &mut EngineRequest<'_>,
    probes: Arc<B>,
) -> Result<LoadResult> {
    let output = LoadOutput { dir: request.rundir, clock: request.clock };
    load_with(
        request.plan,
        target,
        LoadOf { run_id: request.run_id, output: Some(output), loaded: request.loaded },
        request.stop,
        request.observers,
        probes,
    )
}

/// Generates load without run directory, observers and probes, and closes the target.
pub fn load_bare(
    plan: &Plan,
    target: Box<dyn Target>,
    run_id: &str,
    stop: &StopFlag,
) -> Result<LoadResult> {
    let run = LoadOf { run_id, output: None, loaded: 0 };
    load_with(plan, target, run, stop, &mut [], Arc::new(NoProbe))
}

fn load_with<B: Probes>(
    plan: &Plan,
    target: Box<dyn Target>,
    run: LoadOf<'_>,
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
    probes: Arc<B>,
) -> Result<LoadResult> {
    let space = keyspace(plan, target.as_ref());
    let LoadOf { run_id, output, loaded } = run;
    let prepared = worker_specs(plan, target.as_ref(), space.as_ref()).and_then(|specs| {
        Ok((specs, super::verify::prepare(plan, &*target, run_id, loaded)?.map(Arc::new)))
    });
    let (worker_specs, verify) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err(closed(target, error)),
    };
    let path = output.as_ref().map(|output| output.dir.path());
    let (capture, pool, no_capture) =
        match captures(plan).then(|| capture(plan, run_id, path, worker_specs.len())) {
            None => (None, None, None),
            Some(Ok((dir, pool))) => (Some(dir), Some(pool), None),
            Some(Err(why)) => (None, None, Some(why.to_string())),
        };
    let (sender, messages) = unbounded();
    let (spare_in, spare) = bounded(SPARE_INTERVALS);
    let shared = SharedParts {
        plan: plan.clone(),
        descriptors: WorkerDescriptors::of(&*target, &*probes, worker_specs.len()),
        probes,
        thresholds: Arc::default(),
        channels: Channels { messages: sender, spare },
        pool: pool.as_ref().map(Pool::source),
        space,
        verify: verify.clone(),
        abort: AtomicBool::new(false),
        load: LoadEnd::new(worker_specs.iter().filter(|s| s.measured).count(), plan),
        idle: IdleEnd::new(plan.run.idle_timeout, worker_specs.len()),
        spin: SpinShare::here(plan.workers() as usize),
        flows: Flows::of(plan),
    };
    let logs = RunLogs {
        intervals: output.as_ref().map(|to| IntervalLog::new(plan, to.dir, to.clock)),
        store: output.as_ref().map(|to| store_writer(to.dir)),
    };
    let context = RunContext { messages, spare_in, stop, logs, observers };
    let result = match target.virtual_time() {
        Some(time) => run_simulated(shared, worker_specs, target, time, context),
        None => threads::run(shared, worker_specs, target, context),
    };
    let report = pool.map(Pool::finish).transpose();
    let mut loaded = result?;
    loaded.verify = verify;
    (loaded.capture, loaded.no_capture) = (capture, no_capture);
    match report {
        Ok(report) => loaded.pool = report,
        Err(error) => {
            // What was measured stays: `files` takes whatever chunks there are.
            loaded.pool = Some(PoolReport::default());
            loaded.error = loaded.error.or(Some(error));
        }
    }
    Ok(loaded)
}

/// Memory for the capture. Errors: `Unavailable` when this machine has none, or too little.
fn capture(
    plan: &Plan,
    run_id: &str,
    run: Option<&Path>,
    workers: usize,
) -> Result<(CaptureDir, Pool)> {
    let dir = CaptureDir::create(run_id, run, plan.capture.dir.as_deref().map(Path::new))?;
    let calibration = || CALIBRATION_OPERATIONS * workers as u64;
    let operations = plan.planned_operations().or_else(|| run.is_none().then(calibration));
    let pool = Pool::start(dir.path(), plan.capture.budget.0, dir.spill(), (workers, operations))?;
    Ok((dir, pool))
}

/// The keys of a target addressed by key: what the first workload says of them, which the plan's
/// checks make all others repeat.
fn keyspace(plan: &Plan, target: &dyn Target) -> Option<Arc<KeySpace>> {
    let keys = plan.workloads.first()?.keys.as_ref()?;
    let keyed = target.keyed()?;
    let space = KeySpace::new(keys.start, keys.count);
    let space = space.in_lanes(keyed.lanes(), |lane| keyed.next_in(lane));
    Some(Arc::new(match plan.workers() {
        1 => space.for_one(),
        _ => space,
    }))
}

/// What is written of a run while it goes, or right after; nothing in a calibration.
pub(super) struct RunLogs {
    pub intervals: Option<IntervalLog>,
    pub store: Option<TableWriter<StoreRow>>,
}

pub(super) struct RunContext<'a, 'b> {
    pub messages: Receiver<WorkerMessage>,
    pub spare_in: crossbeam_channel::Sender<Box<IntervalStats>>,
    pub stop: &'a StopFlag,
    pub logs: RunLogs,
    pub observers: &'a mut [&'b mut dyn Observer],
}

pub(super) fn timeline(plan: &Plan, start: Stamp) -> Timeline {
    let measure = start.plus(plan.run.warmup.0);
    let end = plan.run.duration.map_or(Stamp::NEVER, |d| measure.plus(d.0));
    Timeline { start, measure, counted: measure, end, interval_ns: plan.run.interval.0.max(1) }
}

pub(super) fn build_worker<C: DisciplinedClock, P: Probe, B>(
    shared: &SharedParts<B>,
    mut spec: WorkerSpec,
    timeline: Timeline,
    handles: WorkerHandles<P>,
    clock: C,
) -> Worker<C, P> {
    let capture = match &shared.pool {
        None => Capture::off(spec.header),
        Some(_) if !spec.measured => Capture::off(spec.header),
        Some(source) => {
            let outliers = shared.plan.capture.mode == CaptureMode::Outliers;
            Capture::new(source.clone(), spec.header, shared.thresholds.clone(), outliers)
        }
    };
    let end_syncs = spec.generator.files(spec.place);
    let workload = &shared.plan.workloads[usize::from(spec.workload)];
    let own = workload.warmup.map_or(0, |_| workload.start_delay.0);
    let timeline = Timeline { counted: timeline.measure.plus(own), ..timeline };
    let recorded = RecorderSpec {
        worker: spec.session.worker,
        workload: spec.workload,
        open_loop: spec.open_loop,
        kinds: &spec.kinds,
    };
    let recorder = Recorder::new(recorded, timeline, shared.channels.clone(), capture);
    // Intervals are those of the run, whenever this worker ends.
    let end = spec.end.map_or(Stamp::NEVER, |ns| timeline.measure.plus(ns));
    let timeline = Timeline { end: timeline.end.min(end), ..timeline };
    let strategies = Strategies {
        keys: spec.keyed.take(),
        stream: spec.stream.take(),
        checker: shared.verify.as_ref().and_then(|v| v.checker(&spec.session)),
        pacing: Pacing::new(
            workload.think,
            spec.join.map_or(timeline.start, |join| timeline.start.plus(join)),
        ),
        flow: workload.flow.and_then(|flow| {
            shared.flows.gate(flow, workload.ends_run || workload.ends_with.is_some())
        }),
        idle: shared.idle.watch(spec.session.worker),
        drops: workload.drop_cache.map(|every| CacheDrops::new(every.0)),
        end_syncs: workload.end_fsync.then(|| EndSyncs::new(end_syncs)),
        inner: spec.kinds.iter().any(|kind| kind.is_inner()),
    };
    Worker::new(spec, WorkerParts { clock, handles, recorder, timeline, strategies })
}

fn run_simulated<B: Probes>(
    shared: SharedParts<B>,
    worker_specs: Vec<WorkerSpec>,
    target: Box<dyn Target>,
    time: Arc<dyn VirtualTime>,
    context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let timeline = timeline(&shared.plan, time.now());
    let clock = SimClock::new(time.clone());
    let worker = |spec: WorkerSpec| {
        let ends_run = shared.plan.workloads[usize::from(spec.workload)].ends_run;
        let group = shared.plan.end_group(spec.workload);
        let handles = worker_handles(&shared, target.as_ref(), &spec)?;
        let worker = build_worker(&shared, spec, timeline, handles, clock.clone());
        Ok(SimulatedWorker::new(worker, ends_run, group))
    };
    let workers: Result<Vec<_>> = worker_specs.into_iter().map(worker).collect();
    let RunContext { messages, spare_in, stop, logs, observers } = context;
    // Virtual time begins at zero in each process, whenever that is. Without it no session is left.
    let begun = workers.and_then(|workers| threads::agreed_start(observers).map(|_| workers));
    let workers = match begun {
        Ok(workers) => workers,
        Err(error) => return Err(closed(target, error)),
    };
    let thresholds = shared.thresholds.clone();
    let mut collector =
        Collector::new(&shared.plan, timeline, spare_in, thresholds, logs.intervals);
    let mut phase = PhaseNotifier::begin(&shared.plan, observers);
    let cpu = cpu_s();
    let requested = stop.raw();
    let ending = StopSignals {
        requested: &requested,
        abort: &shared.abort,
        // The event loop sees for itself when nothing measured is left, or who ends the run.
        load_over: shared.load.all_over(),
    };
    let mut idle = None;
    let (result, ends) = crate::simulate::drive(workers, &time, ending, || {
        idle = idle.take().or_else(|| shared.idle.check(time.now(), &shared.abort));
        messages.try_iter().for_each(|m| collector.accept(m, time.now()));
        phase.at(time.now() >= timeline.measure, observers);
        collector.close_passed(time.now(), observers);
        shared.load.end_run_if(collector.is_steady());
    });
    messages.try_iter().for_each(|m| collector.accept(m, time.now()));
    let cpu_s = cpu_s() - cpu;
    let session_facts = collector.steady_fact().into_iter().collect();
    let collected = collector.into_collected(observers);
    let error = result.err().or(idle).or(gave_up(&ends));
    let error = error.or(target.close().err());
    Ok(LoadResult { session_facts, ..loaded(timeline, collected, ends, error, cpu_s) })
}

/// Opens a worker's session, and its end of tracing. Errors: those of the target and of tracing.
pub(super) fn worker_handles<B: Probes>(
    shared: &SharedParts<B>,
    target: &dyn Target,
    spec: &WorkerSpec,
) -> Result<WorkerHandles<B::Probe>> {
    let session = target.session(&spec.session)?;
    let SessionSpec { worker, depth, .. } = spec.session;
    let probe = shared.probes.probe(ProbeContext { worker, first_slot: spec.first_slot, depth })?;
    Ok(WorkerHandles { session, probe })
}

/// Tells observers when warm-up and measure phase begin, once each.
pub(super) struct PhaseNotifier {
    measuring: bool,
}

impl PhaseNotifier {
    pub fn begin(plan: &Plan, observers: &mut [&mut dyn Observer]) -> PhaseNotifier {
        let measuring = plan.run.warmup.0 == 0;
        let name = if measuring { "measure" } else { "warmup" };
        observers.iter_mut().for_each(|o| o.phase(name));
        PhaseNotifier { measuring }
    }

    /// Tells observers when the measure phase begins after a warm-up, and returns true then; else false.
    pub fn at(&mut self, measuring: bool, observers: &mut [&mut dyn Observer]) -> bool {
        let begins = measuring && !self.measuring;
        if begins {
            self.measuring = true;
            observers.iter_mut().for_each(|o| o.phase("measure"));
        }
        begins
    }
}
