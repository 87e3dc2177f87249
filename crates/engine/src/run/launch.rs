//! Load generation: worker threads behind a barrier, or all workers on virtual time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::probe::{NoProbe, Probe, ProbeSeat, Probes};
use taillight_core::{Error, MonoClock, Result, Stamp};
use taillight_driver::{Session, Target, VirtualTime};
use taillight_rundir::salvage::spill_dir;

use super::closed::Closed;
use super::ending::{IdleEnd, LoadEnd, gave_up, loaded};
use super::samples::Samples;
use super::setup::{WorkerSpec, worker_specs};
use super::{EngineRequest, LoadResult, StopFlag, capture_dir, captures, cpu_s, now};
use crate::capture::{Pool, PoolReport};
use crate::clock::{ClockPair, DisciplinedClock, TscClock};
use crate::collector::{Collector, Observer, SPARE_INTERVALS};
use crate::keyspace::KeySpace;
use crate::recorder::{
    Capture, Channels, IntervalStats, OutlierThresholds, Recorder, Timeline, WorkerMessage,
};
use crate::simulate::SimClock;
use crate::threaded::StopSignals;
use crate::worker::{Pacing, Worker, WorkerConfig, WorkerEnd};

/// From "all sessions are ready" to the first submit, ns.
const LEAD_NS: u64 = 5_000_000;
/// Least time between the two readings that give the counter's rate: 20 ns of error in each make
/// it wrong by 2 ppm at most, until the workers' first comparison.
const BASELINE_NS: i64 = 20_000_000;
/// How long past the drain time-out a worker stuck inside a call is waited for, ns.
const STUCK_NS: u64 = 5_000_000_000;

/// What the workers share.
struct SharedParts<B> {
    plan: Plan,
    probes: Arc<B>,
    thresholds: Arc<OutlierThresholds>,
    channels: Channels,
    pool: Option<crate::capture::ChunkSource>,
    /// Keys of the target, when it has keys.
    space: Option<Arc<KeySpace>>,
    /// What was written where, when the plan verifies.
    verify: Option<Arc<crate::verify::VerifyState>>,
    /// A worker failed: the others end too.
    abort: AtomicBool,
    /// Whoever is load only ends when nobody else is left.
    load: LoadEnd,
    /// Watches for a run in which nothing completes any more.
    idle: IdleEnd,
}

/// Generates the load of a request.
pub fn load<B: Probes>(request: &mut EngineRequest<'_>, probes: Arc<B>) -> Result<LoadResult> {
    // The target is moved out for the workers; a stand-in is never used again.
    let target = std::mem::replace(&mut request.target, Box::new(Closed));
    load_with(
        request.plan,
        target,
        (request.run_id, request.loaded),
        request.stop,
        request.observers,
        probes,
    )
}

/// Generates load with nobody watching.
pub fn load_bare(plan: &Plan, target: Box<dyn Target>, run_id: &str) -> Result<LoadResult> {
    let probes = Arc::new(NoProbe);
    let stop = StopFlag::default();
    load_with(plan, target, (run_id, 0), &stop, &mut [], probes)
}

fn load_with<B: Probes>(
    plan: &Plan,
    target: Box<dyn Target>,
    (run_id, loaded): (&str, u64),
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
    probes: Arc<B>,
) -> Result<LoadResult> {
    let space = keyspace(plan, target.as_ref());
    let worker_specs = worker_specs(plan, target.geometry(), space.as_ref())?;
    let verify = super::verify::prepare(plan, target.geometry(), run_id, loaded)?;
    let pool = match captures(plan) {
        true => {
            let spill = plan
                .capture
                .dir
                .as_ref()
                .map(|dir| spill_dir(dir.as_ref(), run_id));
            let budget = plan.capture.budget.0;
            Some(Pool::start(
                &capture_dir(run_id),
                budget,
                spill.as_deref(),
                worker_specs.len(),
            )?)
        }
        false => None,
    };
    let (parts, messages) = unbounded();
    let (spare_in, spare) = bounded(SPARE_INTERVALS);
    let shared = SharedParts {
        plan: plan.clone(),
        probes,
        thresholds: Arc::default(),
        channels: Channels { parts, spare },
        pool: pool.as_ref().map(Pool::source),
        space,
        verify: verify.clone(),
        abort: AtomicBool::new(false),
        load: LoadEnd::new(worker_specs.iter().filter(|s| s.measured).count()),
        idle: IdleEnd::new(plan.run.idle_timeout, worker_specs.len()),
    };
    let context = RunContext {
        messages,
        spare_in,
        stop,
        observers,
    };
    let result = match target.virtual_time() {
        Some(time) => simulated(shared, worker_specs, target, time, context),
        None => threaded(shared, worker_specs, target, context),
    };
    let report = pool.map(Pool::finish).transpose();
    let mut loaded = match result {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = std::fs::remove_dir_all(capture_dir(run_id));
            return Err(error);
        }
    };
    loaded.verify = verify;
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

/// The keys of a target addressed by key: what the first workload says of them, which the plan's
/// checks make all others repeat.
fn keyspace(plan: &Plan, target: &dyn Target) -> Option<Arc<KeySpace>> {
    let keys = plan.workloads.first()?.keys.as_ref()?;
    target.keyed()?;
    let space = KeySpace::new(keys.start, keys.count);
    Some(Arc::new(match plan.workers() {
        1 => space.for_one(),
        _ => space,
    }))
}

struct RunContext<'a, 'b> {
    messages: Receiver<WorkerMessage>,
    spare_in: crossbeam_channel::Sender<Box<IntervalStats>>,
    stop: &'a StopFlag,
    observers: &'a mut [&'b mut dyn Observer],
}

fn timeline(plan: &Plan, start: Stamp) -> Timeline {
    let measure = start.plus(plan.run.warmup.0);
    let end = plan
        .run
        .duration
        .map_or(Stamp::NEVER, |d| measure.plus(d.0));
    Timeline {
        start,
        measure,
        end,
        interval_ns: plan.run.interval.0.max(1),
    }
}

fn worker<C: DisciplinedClock, P: Probe, B>(
    shared: &SharedParts<B>,
    spec: WorkerSpec,
    timeline: Timeline,
    handles: (Box<dyn Session>, P),
    clock: C,
) -> Worker<C, P> {
    let capture = match &shared.pool {
        None => Capture::off(spec.header),
        Some(_) if !spec.measured => Capture::off(spec.header),
        Some(source) => {
            let outliers = shared.plan.capture.mode == CaptureMode::Outliers;
            Capture::new(
                source.clone(),
                spec.header,
                shared.thresholds.clone(),
                outliers,
            )
        }
    };
    let place = (spec.place.worker, spec.workload);
    let recorder = Recorder::new(
        place,
        timeline,
        (spec.open_loop, &spec.kinds),
        shared.channels.clone(),
        capture,
    );
    Worker::new(WorkerConfig {
        clock,
        probe: handles.1,
        session: handles.0,
        generator: spec.generator,
        schedule: spec.schedule,
        recorder,
        timeline,
        limits: spec.limits,
        payload: spec.payload,
        checker: shared
            .verify
            .as_ref()
            .map(|v| super::verify::checker(v, &spec.session)),
        writes: spec.kinds.iter().any(|kind| kind.writes()),
        keys: spec.keyed,
        stream: spec.stream,
        pacing: Pacing::new(
            shared.plan.workloads[usize::from(spec.workload)].think,
            spec.join
                .map_or(timeline.start, |join| timeline.measure.plus(join)),
        ),
        idle: shared.idle.watch(spec.place.worker),
        measured: spec.measured,
        depth: spec.session.depth,
        first_slot: spec.first_slot,
        header: spec.header,
    })
}

fn simulated<B: Probes>(
    shared: SharedParts<B>,
    worker_specs: Vec<WorkerSpec>,
    target: Box<dyn Target>,
    time: Arc<dyn VirtualTime>,
    context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let timeline = timeline(&shared.plan, time.now());
    let clock = SimClock::new(time.clone());
    let mut workers = Vec::new();
    for spec in worker_specs {
        let session = target.session(&spec.session)?;
        let probe = shared.probes.probe(probe_seat(&spec))?;
        workers.push(worker(
            &shared,
            spec,
            timeline,
            (session, probe),
            clock.clone(),
        ));
    }
    let RunContext {
        messages,
        spare_in,
        stop,
        observers,
    } = context;
    let mut collector = Collector::new(&shared.plan, timeline, spare_in, shared.thresholds.clone());
    let mut phase = PhaseNotifier::begin(&shared.plan, observers);
    let cpu = cpu_s();
    let requested = stop.raw();
    let ending = StopSignals {
        requested: &requested,
        abort: &shared.abort,
        // The event loop sees for itself when nothing measured is left.
        load_over: None,
    };
    let mut idle = None;
    let (result, ends) = crate::simulate::drive(workers, &time, ending, || {
        idle = idle
            .take()
            .or_else(|| shared.idle.look(time.now(), &shared.abort));
        messages.try_iter().for_each(|m| collector.accept(m));
        phase.at(time.now() >= timeline.measure, observers);
        collector.settle(time.now(), observers);
    });
    messages.try_iter().for_each(|m| collector.accept(m));
    let cpu_s = cpu_s() - cpu;
    let collected = collector.into_collected(observers);
    let error = result.err().or(idle).or(gave_up(&ends));
    let error = error.or(target.close().err());
    Ok(loaded(timeline, collected, ends, error, cpu_s))
}

type ReadyAnswer = std::result::Result<(), Error>;
/// Number, how its loop ended, and what it did (nothing is known of a worker that panicked).
type WorkerEnded = (usize, Result<()>, Option<WorkerEnd>);

fn threaded<B: Probes>(
    shared: SharedParts<B>,
    worker_specs: Vec<WorkerSpec>,
    target: Box<dyn Target>,
    context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let count = worker_specs.len();
    let (shared, target) = (Arc::new(shared), Arc::new(target));
    let origin = TscClock::origin();
    let (ready_in, ready) = mpsc::channel::<ReadyAnswer>();
    let (ended_in, ended) = mpsc::channel::<WorkerEnded>();
    let mut starts = Vec::new();
    let mut threads = Vec::new();
    for (number, spec) in worker_specs.into_iter().enumerate() {
        let (start_in, start) = mpsc::channel::<Timeline>();
        starts.push(start_in);
        let (shared, target) = (shared.clone(), target.clone());
        let (ready, ended) = (ready_in.clone(), ended_in.clone());
        let stop = context.stop.raw();
        let body = move || {
            let name = spec.place.worker;
            let parts = shared.channels.parts.clone();
            let report = ended.clone();
            let all = AssertUnwindSafe(|| {
                work(&shared, &**target, spec, origin, &stop, &ready, start).map(|(result, end)| {
                    if end.measured {
                        shared.load.left();
                    }
                    if result.is_err() || end.gone {
                        shared.abort.store(true, Ordering::Relaxed);
                    }
                    let _ = report.send((number, result, Some(end)));
                })
            });
            if catch_unwind(all).is_err() {
                // Whatever it was doing, nobody may wait for it.
                shared.abort.store(true, Ordering::Relaxed);
                let bug = || Error::internal("a worker panicked; this is a bug");
                let _ = ready.send(Err(bug()));
                let _ = parts.send(WorkerMessage::Done { worker: name });
                let _ = ended.send((number, Err(bug()), None));
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn(body);
        let thread = thread.map_err(|e| Error::unavailable("cannot start a thread").source(e));
        threads.push(thread?);
    }
    drop((ready_in, ended_in));
    let answers = (0..count).map(|_| {
        ready
            .recv()
            .unwrap_or_else(|_| Err(Error::internal("a worker died while starting")))
    });
    if let Err(error) = answers.collect::<Result<Vec<()>>>() {
        // Nobody starts: the others see their start signal gone and leave.
        drop(starts);
        threads.into_iter().for_each(|t| drop(t.join()));
        if let Some(target) = Arc::into_inner(target) {
            // The reason matters more than how closing went.
            let _ = target.close();
        }
        return Err(error);
    }
    if let Some(origin) = origin {
        // The counter's rate comes from here to the workers' start.
        let left = BASELINE_NS - now().since(origin.at()).clamp(0, BASELINE_NS);
        std::thread::sleep(Duration::from_nanos(left as u64));
    }
    let timeline = timeline(&shared.plan, now().plus(LEAD_NS));
    for start in starts {
        let _ = start.send(timeline);
    }
    let loaded = watch(shared, target, threads, ended, timeline, context)?;
    Ok(LoadResult {
        counter: origin.is_some(),
        ..loaded
    })
}

/// One worker's life: session, start signal, load. `None` when it never started.
fn work<B: Probes>(
    shared: &SharedParts<B>,
    target: &dyn Target,
    spec: WorkerSpec,
    origin: Option<ClockPair>,
    stop: &AtomicBool,
    ready: &mpsc::Sender<ReadyAnswer>,
    start: mpsc::Receiver<Timeline>,
) -> Option<(Result<()>, WorkerEnd)> {
    let handles = prepare(&spec)
        .and_then(|()| target.session(&spec.session))
        .and_then(|session| Ok((session, shared.probes.probe(probe_seat(&spec))?)));
    // A refused session is reported; the others are then never started.
    let handles = match handles {
        Ok(handles) => handles,
        Err(error) => {
            let _ = ready.send(Err(error));
            return None;
        }
    };
    let _ = ready.send(Ok(()));
    let timeline = start.recv().ok()?;
    let stop = StopSignals {
        requested: stop,
        abort: &shared.abort,
        load_over: (!spec.measured).then(|| shared.load.over()),
    };
    let spin = crate::threaded::longest_spin(shared.plan.workers() as usize);
    Some(match origin.and_then(TscClock::new) {
        Some(clock) => {
            let worker = worker(shared, spec, timeline, handles, clock);
            crate::threaded::drive(worker, timeline.start, spin, stop)
        }
        None => {
            let worker = worker(shared, spec, timeline, handles, MonoClock);
            crate::threaded::drive(worker, timeline.start, spin, stop)
        }
    })
}

fn probe_seat(spec: &WorkerSpec) -> ProbeSeat {
    ProbeSeat {
        worker: spec.place.worker,
        first_slot: spec.first_slot,
        depth: spec.session.depth,
    }
}

/// Pins the thread and makes its sleeps precise.
fn prepare(spec: &WorkerSpec) -> Result<()> {
    if let Some(cpu) = spec.cpu {
        let mut set = rustix::thread::CpuSet::new();
        if cpu as usize >= rustix::thread::CpuSet::MAX_CPU {
            return Err(Error::usage("no such CPU").with("cpu", cpu));
        }
        set.set(cpu as usize);
        rustix::thread::sched_setaffinity(None, &set).map_err(|e| {
            Error::unavailable("cannot pin a worker to a CPU")
                .with("cpu", cpu)
                .source(std::io::Error::from(e))
                .hint("list only CPUs this process may use (see `nproc`, cgroup cpuset)")
        })?;
    }
    // Best effort: without it sleeps are up to 50 us late, which is recorded as waiting time.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    Ok(())
}

/// Collects intervals until every worker has ended, or is given up as stuck.
fn watch<B: Probes>(
    shared: Arc<SharedParts<B>>,
    target: Arc<Box<dyn Target>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    ended: mpsc::Receiver<WorkerEnded>,
    timeline: Timeline,
    context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let RunContext {
        messages,
        spare_in,
        stop,
        observers,
    } = context;
    let mut collector = Collector::new(&shared.plan, timeline, spare_in, shared.thresholds.clone());
    let patience = shared.plan.run.drain_timeout.0 + STUCK_NS;
    let mut give_up = timeline.end.plus(patience);
    let mut cpu = cpu_s();
    let mut idle = None;
    let mut phase = PhaseNotifier::begin(&shared.plan, observers);
    let mut samples = Samples::new(timeline.start, timeline.interval_ns);
    while collector.any_running() && now() < give_up {
        if let Ok(message) = messages.recv_timeout(Duration::from_millis(20)) {
            collector.accept(message);
        }
        messages.try_iter().for_each(|m| collector.accept(m));
        if phase.at(now() >= timeline.measure, observers) {
            cpu = cpu_s();
        }
        samples.due(&**target);
        collector.settle(now(), observers);
        idle = idle.or_else(|| shared.idle.look(now(), &shared.abort));
        if stop.stopped() || shared.abort.load(Ordering::Relaxed) {
            give_up = give_up.min(now().plus(patience));
        }
    }
    let cpu_s = cpu_s() - cpu;
    let stuck = collector.any_running();
    if !stuck {
        samples.take(&**target);
    }
    let (mut ends, mut error) = (Vec::new(), idle);
    // Ends follow the last message at once; a stuck worker has none.
    for _ in 0..threads.len() {
        let Ok((number, result, end)) = ended.recv_timeout(Duration::from_secs(2)) else {
            break;
        };
        error = error.or(result.err());
        ends.extend(end.map(|end| (number, end)));
    }
    ends.sort_unstable_by_key(|(number, _)| *number);
    let ends: Vec<WorkerEnd> = ends.into_iter().map(|(_, end)| end).collect();
    if stuck {
        error = error.or_else(|| {
            Some(Error::target(
                "a worker is stuck inside an I/O and was given up",
            ))
        });
    } else {
        for thread in threads {
            if thread.join().is_err() {
                error = error.or_else(|| Some(Error::internal("a worker panicked")));
            }
        }
        error = error.or(gave_up(&ends));
        // Every session is gone with its thread, so that this is the last reference.
        if let Some(target) = Arc::into_inner(target) {
            let closing = part(target, &shared, error.is_some(), stop, observers);
            error = error.or(closing.err());
        }
    }
    let collected = collector.into_collected(observers);
    Ok(LoadResult {
        samples: samples.rows(),
        ..loaded(timeline, collected, ends, error, cpu_s)
    })
}

/// Notes what the target holds now, checks it where the plan says so, and closes it. A target that
/// failed is not checked: each read may take its time-out.
fn part<B>(
    target: Box<dyn Target>,
    shared: &SharedParts<B>,
    failed: bool,
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
) -> Result<()> {
    let mut error = None;
    if let (Some(keyed), Some(space)) = (target.keyed(), &shared.space) {
        let records = space.live().1 - space.start();
        error = keyed.loaded(records.max(keyed.records())).err();
    }
    if let Some(verify) = &shared.verify {
        if failed || error.is_some() {
            super::verify::left_out(&shared.plan, verify);
        } else {
            error = super::verify::after(&shared.plan, &*target, verify, stop, observers).err();
        }
    }
    match error.or(target.close().err()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Tells observers of each phase once.
struct PhaseNotifier {
    measuring: bool,
}

impl PhaseNotifier {
    fn begin(plan: &Plan, observers: &mut [&mut dyn Observer]) -> PhaseNotifier {
        let measuring = plan.run.warmup.0 == 0;
        let name = if measuring { "measure" } else { "warmup" };
        observers.iter_mut().for_each(|o| o.phase(name));
        PhaseNotifier { measuring }
    }

    /// True once, when the measure phase begins.
    fn at(&mut self, measuring: bool, observers: &mut [&mut dyn Observer]) -> bool {
        let begins = measuring && !self.measuring;
        if begins {
            self.measuring = true;
            observers.iter_mut().for_each(|o| o.phase("measure"));
        }
        begins
    }
}
