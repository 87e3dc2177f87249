//! Workers on threads of their own: started behind a barrier, watched while their intervals are
//! collected, given up when they are stuck; then the target is checked and closed. Called by `launch`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use taillight_core::plan::VerifyMode;
use taillight_core::probe::Probes;
use taillight_core::{Error, MonoClock, Result, Stamp};
use taillight_driver::{Target, io_priority};

use super::ending::{gave_up, loaded};
use super::launch::{
    PhaseNotifier, RunContext, SharedParts, build_worker, timeline, worker_handles,
};
use super::samples::Samples;
use super::witness::WitnessReadings;
use super::{LoadResult, StopFlag, cpu_s, now};
use crate::clock::{ClockPair, TscClock};
use crate::collector::{Collector, Observer};
use crate::recorder::{Timeline, WorkerMessage};
use crate::threaded::StopSignals;
use crate::worker::{ASKED_DRAIN_NS, WorkerEnd, WorkerSpec};

/// From "all sessions are ready" to the first submit, ns.
const LEAD_NS: u64 = 5_000_000;
/// Least time between the two readings that give the counter's rate: 20 ns of error in each make
/// it wrong by 2 ppm at most, until the workers' first comparison.
const BASELINE_NS: i64 = 20_000_000;
/// How long past the drain time-out a worker stuck inside a call is waited for, ns.
const STUCK_NS: u64 = 5_000_000_000;

type ReadyAnswer = std::result::Result<(), Error>;

/// A worker's last message.
struct WorkerEnded {
    number: usize,
    /// How its loop ended.
    result: Result<()>,
    /// What it did; nothing is known of a worker that panicked.
    end: Option<WorkerEnd>,
}

/// The workers' threads, and where their last messages arrive.
struct WorkerThreads {
    threads: Vec<std::thread::JoinHandle<()>>,
    ended: mpsc::Receiver<WorkerEnded>,
}

impl WorkerThreads {
    /// What the workers did, by number, and the first error. Ends follow the last message at once; a stuck worker has
    /// none.
    fn ends(&self, mut error: Option<Error>) -> (Vec<WorkerEnd>, Option<Error>) {
        let mut ends = Vec::new();
        for _ in 0..self.threads.len() {
            let Ok(ended) = self.ended.recv_timeout(Duration::from_secs(2)) else {
                break;
            };
            error = error.or(ended.result.err());
            ends.extend(ended.end.map(|end| (ended.number, end)));
        }
        ends.sort_unstable_by_key(|(number, _)| *number);
        (ends.into_iter().map(|(_, end)| end).collect(), error)
    }
}

/// Runs the workers to their ends and closes the target, unless a worker is stuck. Errors: when no load was started;
/// what goes wrong later is in the result.
pub fn run<B: Probes>(
    shared: SharedParts<B>,
    worker_specs: Vec<WorkerSpec>,
    target: Box<dyn Target>,
    mut context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let (shared, target) = (Arc::new(shared), Arc::new(target));
    let origin = TscClock::origin();
    let (ready_in, ready) = mpsc::channel::<ReadyAnswer>();
    let (ended_in, ended) = mpsc::channel::<WorkerEnded>();
    let (mut starts, mut threads) = (Vec::new(), Vec::new());
    for (number, spec) in worker_specs.into_iter().enumerate() {
        let (start_in, start) = mpsc::channel::<Timeline>();
        starts.push(start_in);
        let (shared, held) = (shared.clone(), target.clone());
        let (ready, ended) = (ready_in.clone(), ended_in.clone());
        let stop = context.stop.raw();
        let body = move || {
            // Before the session. Emptied when the worker's end is told: closing a copy has NFS and FUSE write back what
            // is dirty, which may take longer than an end is waited for.
            let _own = shared.descriptors.take();
            let name = spec.session.worker;
            let workload = spec.workload;
            let messages = shared.channels.messages.clone();
            let report = ended.clone();
            let all = AssertUnwindSafe(|| {
                run_worker(&shared, &**held, spec, origin, &stop, &ready, start).map(
                    |(result, end)| {
                        shared.load.left(end.measured, &shared.plan, workload);
                        if result.is_err() || end.target_lost {
                            shared.abort.store(true, Ordering::Relaxed);
                        }
                        let _ = report.send(WorkerEnded { number, result, end: Some(end) });
                    },
                )
            });
            if catch_unwind(all).is_err() {
                // Whatever it was doing, nobody may wait for it.
                shared.abort.store(true, Ordering::Relaxed);
                let bug = || Error::internal("a worker panicked; this is a bug");
                let _ = ready.send(Err(bug()));
                let _ = messages.send(WorkerMessage::Done { worker: name });
                let _ = ended.send(WorkerEnded { number, result: Err(bug()), end: None });
            }
        };
        match spawn(number, body) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                nobody_starts(starts, threads, target);
                return Err(error);
            }
        }
    }
    drop((ready_in, ended_in));
    let answers = (0..threads.len()).map(|_| {
        ready.recv().unwrap_or_else(|_| Err(Error::internal("a worker died while starting")))
    });
    // Where a session was refused, observers are not asked: the caller tells ranks that wait to start together.
    let begin = match answers.collect::<Result<()>>().and_then(|()| agreed_start(context.observers))
    {
        Ok(begin) => begin,
        Err(error) => {
            nobody_starts(starts, threads, target);
            return Err(error);
        }
    };
    let mut session_facts = target.session_facts();
    session_facts.extend(shared.descriptors.fact());
    origin.iter().for_each(wait_for_baseline);
    let witness = WitnessReadings::before(&**target);
    let mut samples = Samples::first(&**target, context.logs.store.take());
    let timeline = timeline(&shared.plan, begin.unwrap_or_else(|| now().plus(LEAD_NS)));
    samples.begin(&timeline);
    for start in starts {
        let _ = start.send(timeline);
    }
    let parts = LoadParts { workers: WorkerThreads { threads, ended }, samples, witness };
    let mut loaded = collect(shared, target, timeline, parts, context)?;
    session_facts.append(&mut loaded.session_facts);
    Ok(LoadResult { counter: origin.is_some(), session_facts, ..loaded })
}

fn spawn(
    number: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(body);
    thread.map_err(|e| {
        Error::unavailable("cannot start a thread")
            .source(e)
            .hint("ask for fewer workers, or raise the limit on processes (ulimit -u)")
    })
}

/// The counter's rate comes from its first reading to the workers' start.
fn wait_for_baseline(origin: &ClockPair) {
    let left = BASELINE_NS - now().since(origin.at()).clamp(0, BASELINE_NS);
    std::thread::sleep(Duration::from_nanos(left as u64));
}

/// The workers see their start signal gone and leave; then the target is closed.
fn nobody_starts(
    starts: Vec<mpsc::Sender<Timeline>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    target: Arc<Box<dyn Target>>,
) {
    drop(starts);
    threads.into_iter().for_each(|t| drop(t.join()));
    if let Some(target) = Arc::into_inner(target) {
        // The reason matters more than how closing went.
        let _ = target.close();
    }
}

/// When the load begins, where an observer starts it together with others.
pub(super) fn agreed_start(observers: &mut [&mut dyn Observer]) -> Result<Option<Stamp>> {
    let mut begin = None;
    for observer in observers.iter_mut() {
        begin = observer.ready()?.or(begin);
    }
    Ok(begin)
}

/// One worker's life: session, start signal, load. `None` when it never started.
fn run_worker<B: Probes>(
    shared: &SharedParts<B>,
    target: &dyn Target,
    spec: WorkerSpec,
    origin: Option<ClockPair>,
    stop: &AtomicBool,
    ready: &mpsc::Sender<ReadyAnswer>,
    start: mpsc::Receiver<Timeline>,
) -> Option<(Result<()>, WorkerEnd)> {
    let handles = pin_thread(&spec).and_then(|()| worker_handles(shared, target, &spec));
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
        load_over: shared.load.over(spec.measured, &shared.plan, spec.workload),
    };
    let spin = shared.spin;
    Some(match origin.and_then(TscClock::new) {
        Some(clock) => {
            let worker = build_worker(shared, spec, timeline, handles, clock);
            crate::threaded::drive(worker, timeline.start, spin, stop)
        }
        None => {
            let worker = build_worker(shared, spec, timeline, handles, MonoClock);
            crate::threaded::drive(worker, timeline.start, spin, stop)
        }
    })
}

/// Pins the thread, sets its priorities and makes its sleeps precise.
fn pin_thread(spec: &WorkerSpec) -> Result<()> {
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
    prioritise(spec)?;
    // Best effort: without it sleeps are up to 50 us late, which is recorded as waiting time.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    Ok(())
}

/// Gives the thread the priorities that its workload asks for: before the session, whose ring inherits them.
fn prioritise(spec: &WorkerSpec) -> Result<()> {
    let refused = |what: &str, e: std::io::Error| {
        Error::unavailable(format!("cannot set the {what} of a worker"))
            .source(e)
            .hint("a nice value below 0 and realtime I/O need the right to (root, CAP_SYS_NICE)")
    };
    if let Some(nice) = spec.nice {
        // On Linux of the calling thread (setpriority(2)).
        rustix::process::setpriority_process(None, nice)
            .map_err(|e| refused("nice value", e.into()))?;
    }
    spec.io_priority.map_or(Ok(()), |io| io_priority(io).map_err(|e| refused("I/O priority", e)))
}

/// Where the collector's wait for a message takes longer than this and than an interval, the process was stopped; ns.
const STOOD_STILL_NS: u64 = 250_000_000;

/// What goes on beside the load, or is read around it.
struct LoadParts {
    workers: WorkerThreads,
    samples: Samples,
    witness: WitnessReadings,
}

/// Collects intervals until every worker has ended, or is given up as stuck.
fn collect<B: Probes>(
    shared: Arc<SharedParts<B>>,
    target: Arc<Box<dyn Target>>,
    timeline: Timeline,
    LoadParts { workers, mut samples, mut witness }: LoadParts,
    context: RunContext<'_, '_>,
) -> Result<LoadResult> {
    let RunContext { messages, spare_in, stop, logs, observers } = context;
    let thresholds = shared.thresholds.clone();
    let mut collector =
        Collector::new(&shared.plan, timeline, spare_in, thresholds, logs.intervals);
    let patience = shared.plan.run.drain_timeout.0 + STUCK_NS;
    let mut give_up = timeline.end.plus(patience);
    let mut cpu = cpu_s();
    let mut idle = None;
    let mut stood_still_ns = 0;
    let mut phase = PhaseNotifier::begin(&shared.plan, observers);
    while collector.any_running() && now() < give_up {
        let before = now();
        if let Ok(message) = messages.recv_timeout(samples.pause(Duration::from_millis(20))) {
            collector.accept(message, now());
        }
        // The wait is for 20 ms at most and needs next to no CPU: if it takes an interval, the process was stopped.
        let slept = now().since(before).max(0) as u64;
        if slept > timeline.interval_ns.max(STOOD_STILL_NS) {
            stood_still_ns += slept;
        }
        messages.try_iter().for_each(|m| collector.accept(m, now()));
        if phase.at(now() >= timeline.measure, observers) {
            cpu = cpu_s();
        }
        samples.due(&**target);
        collector.close_passed(now(), observers);
        shared.load.end_run_if(collector.is_steady());
        idle = idle.or_else(|| shared.idle.check(now(), &shared.abort));
        if stop.stopped() {
            give_up = give_up.min(now().plus(ASKED_DRAIN_NS + STUCK_NS));
        } else if shared.abort.load(Ordering::Relaxed) {
            give_up = give_up.min(now().plus(patience));
        }
    }
    let cpu_s = cpu_s() - cpu;
    let stuck = collector.any_running();
    if !stuck {
        samples.take(&**target);
    }
    let (ends, mut error) = workers.ends(idle);
    let mut session_facts: Vec<_> = collector.steady_fact().into_iter().collect();
    let mut pauses = None;
    if stuck {
        error = error
            .or_else(|| Some(Error::target("a worker is stuck inside an I/O and was given up")));
        // A long one may be what it is stuck in.
        pauses = target.pauses();
        if shared.descriptors.are_own() {
            // Closed by the worker, whose numbers are of other files, it would not be closed for the process.
            std::mem::forget(target);
        }
    } else {
        for thread in workers.threads {
            if thread.join().is_err() {
                error = error.or_else(|| Some(Error::internal("a worker panicked")));
            }
        }
        error = error.or(gave_up(&ends));
        // Every session is gone with its thread, so that this is the last reference.
        if let Some(target) = Arc::into_inner(target) {
            witness.after(&*target);
            observers.iter_mut().for_each(|observer| observer.closing(&*target));
            session_facts.extend(target.end_facts());
            pauses = target.pauses();
            let closing = close_target(target, &shared, error.is_some(), stop, observers);
            error = error.or(closing.err());
        }
    }
    let collected = collector.into_collected(observers);
    let samples = samples.into_writer();
    let loaded = loaded(timeline, collected, ends, error, cpu_s);
    Ok(LoadResult { samples, stood_still_ns, session_facts, pauses, witness, ..loaded })
}

/// Notes what the target holds now, checks it where the plan says so, and closes it. A target that
/// failed is not checked unless it answers again: each read may take its time-out.
fn close_target<B>(
    target: Box<dyn Target>,
    shared: &SharedParts<B>,
    failed: bool,
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
) -> Result<()> {
    let checks = shared.verify.is_some() && shared.plan.verify.mode == VerifyMode::After;
    let failed = failed && (!checks || stop.stopped() || !target.is_back());
    let mut error = None;
    if let (Some(keyed), Some(space)) = (target.keyed(), &shared.space) {
        let records = space.live().1 - space.start();
        let records = records.max(keyed.records());
        // A pass that verifies reads what has reached the device.
        error = match shared.verify.is_some() || target.goes_on() {
            true => keyed.loaded(records).err(),
            false => keyed.ended(records).err(),
        };
    }
    if let Some(verify) = &shared.verify {
        if failed || error.is_some() {
            super::verify::pass_not_made(&shared.plan, verify);
        } else {
            error = super::verify::after(&shared.plan, &*target, verify, stop, observers).err();
        }
    }
    match error.or(target.close().err()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
