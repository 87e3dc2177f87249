//! Faults of the CPU: quotas, weights, policies, and neighbours that spin, some with real-time priority. Spinning
//! threads stay on the first CPU (of [`every_cpu`] and [`deadlines`] there is one for each) and end when their time is
//! over; most victims are on the first one, too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, gettid, sched_setaffinity};

use crate::cleanup::{NAME, StopSignal, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::server::limited_group;
use crate::faults::stages::BuiltStage;
use crate::faults::stopped::{put, serving_threads, threads};
use crate::stage::LabCgroup;
use crate::victim::VictimOptions;

/// Starts cached reads without pauses: a load that wants more CPU than it may have. Its process.
fn cached(trial: &mut FaultTrial<'_>) -> Result<u32> {
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.set = [
        "target.options.direct=false",
        "target.options.cache=warm",
        "workload.0.block_size=\"256KiB\"",
    ]
    .map(String::from)
    .to_vec();
    options.workers = 1;
    trial.start(&options)
}

/// The victim's control group may run 2 ms in each period of the amplitude and 4 ms, again and again for a while.
pub fn quota(trial: &mut FaultTrial<'_>) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    let pid = cached(trial)?;
    group.add_process(pid)?;
    let period = trial.amplitude.as_micros() + 4000;
    let set = |quota: i64| group.set("cpu.cfs_quota_us", quota);
    group.set("cpu.cfs_period_us", period)?;
    let (on, after) = (trial.amplitude * 6, trial.amplitude);
    let done = trial.pulses(Duration::from_millis(200), after, |stop| {
        set(2000)?;
        stop.sleep(on)?;
        set(-1)
    });
    set(-1)?;
    done
}

/// The control group above the victim's own may run 1 ms in each period of the amplitude and 1 ms.
pub fn nested_quota(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let outer = LabCgroup::of(&mut trial.undo, "cpu")?;
    let inner = LabCgroup::named(&mut trial.undo, "cpu", &format!("{NAME}/inner"))?;
    inner.add_process(trial.pid()?)?;
    limited_group(trial, &outer)
}

/// The threads that serve the victim's file may run 1 ms in each period of the amplitude and 1 ms.
pub fn starved_server(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    put(&group, &serving_threads()?)?;
    limited_group(trial, &group)
}

/// The load's threads have real-time priority, at which their control group may run 2 ms in each period for a while,
/// and nine tenths of it else.
pub fn real_time_quota(trial: &mut FaultTrial<'_>) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    let pid = cached(trial)?;
    let period = trial.amplitude.as_micros() + 4000;
    let set = |quota: u128| group.set("cpu.rt_runtime_us", quota);
    group.set("cpu.rt_period_us", period)?;
    set(period * 9 / 10)?;
    group.add_process(pid)?;
    for tid in threads(pid, "worker-")? {
        tool("chrt", &["-f", "-p", "10", &tid])?;
    }
    let (on, after) = (trial.amplitude * 6, trial.amplitude);
    let done = trial.pulses(Duration::from_millis(200), after, |stop| {
        set(2000)?;
        stop.sleep(on)?;
        set(period * 9 / 10)
    });
    for tid in threads(pid, "worker-")? {
        tool("chrt", &["-o", "-p", "0", &tid])?;
    }
    done
}

/// A neighbour that writes the victim's file, and thus has its lock now and then, loses its CPU.
pub fn preempted_holder(trial: &mut FaultTrial<'_>) -> Result<()> {
    let at = trial.disk(64)?.mount(&mut trial.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = trial.options(victim.clone(), "randread");
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    // What serves the disk is where the victim is.
    workqueues(trial, 2)?;
    let pid = trial.start(&options)?;
    tool("taskset", &["-a", "-c", "-p", "1", &pid.to_string()])?;
    let file = File::options().write(true).open(&victim)?;
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        let over = AtomicBool::new(false);
        let writes = || -> Result<()> {
            keep_on(0);
            let data = vec![1; 4 << 20];
            while !over.load(Relaxed) {
                file.write_all_at(&data, 8 << 20)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(writes);
            stop.sleep(Duration::from_millis(4))?;
            let one = Spinner::new(on)?;
            tool("chrt", &["-f", "-p", "50", &one.tid])?;
            one.go();
            let slept = stop.sleep(on);
            over.store(true, Relaxed);
            writer.join().unwrap_or(Ok(()))?;
            slept
        })
    })
}

/// Until the trial ends, threads of the kernel that are bound to no CPU may use the CPUs of this bit mask alone.
pub fn workqueues(trial: &mut FaultTrial<'_>, cpus: u32) -> Result<()> {
    let mask = "/sys/devices/virtual/workqueue/cpumask";
    let before = std::fs::read_to_string(mask)?;
    trial.undo.add(move || drop(set(Path::new(mask), before.trim())));
    set(Path::new(mask), cpus)
}

/// Many threads of higher weight want the victim's CPU. Where the other one is busy, the kernel's
/// thread that does the loop device's work waits among them: then it is the device that is slow.
pub fn spinners(trial: &mut FaultTrial<'_>) -> Result<()> {
    let mut options = pinned(trial)?;
    // Each gets a slice of about 3 ms before the victim's turn comes.
    let crowd = (trial.amplitude.as_millis() as usize / 4).max(4);
    options.threshold = Duration::from_millis(6);
    trial.start(&options)?;
    pin(trial)?;
    let on = trial.amplitude * 5;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        let threads: Vec<Spinner> = (0..crowd).map(|_| Spinner::new(on)).collect::<Result<_>>()?;
        for one in &threads {
            tool("renice", &["-n", "-10", "-p", &one.tid])?;
        }
        threads.iter().for_each(Spinner::go);
        stop.sleep(on)
    })
}

/// The thread that commits the journal may run on the first CPU only, which is taken, and where the victim is not.
pub fn committer(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let pid = tool("pgrep", &["-f", &format!("jbd2/{}-", built.disk()?.name)])?;
    tool("taskset", &["-c", "-p", "0", pid.trim()])?;
    taken_beside(trial)
}

/// The first CPU is taken, and the victim is on the second one.
pub fn taken_beside(trial: &mut FaultTrial<'_>) -> Result<()> {
    let pid = trial.pid()?;
    tool("taskset", &["-a", "-c", "-p", "1", &pid.to_string()])?;
    taken(trial)
}

/// The victim's control group may use one CPU, which a thread with real-time priority takes.
pub fn one_cpu(trial: &mut FaultTrial<'_>) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpuset")?;
    group.set("cpuset.mems", 0)?;
    group.set("cpuset.cpus", 0)?;
    let options = pinned(trial)?;
    let pid = trial.start(&options)?;
    group.add_process(pid)?;
    taken(trial)
}

/// The victim's control group weighs next to nothing, and a thread wants its CPU.
pub fn light_group(trial: &mut FaultTrial<'_>) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "cpu")?;
    group.set("cpu.shares", 2)?;
    let options = pinned(trial)?;
    let pid = trial.start(&options)?;
    group.add_process(pid)?;
    spun(trial)
}

/// The victim has the idle policy, so that it runs only when nobody else wants its CPU, and a thread wants it.
pub fn idle_policy(trial: &mut FaultTrial<'_>) -> Result<()> {
    let options = pinned(trial)?;
    let pid = trial.start(&options)?;
    tool("chrt", &["-a", "-i", "-p", "0", &pid.to_string()])?;
    spun(trial)
}

/// A thread spins on the first CPU, where the victim is, again and again.
fn spun(trial: &mut FaultTrial<'_>) -> Result<()> {
    pin(trial)?;
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        Spinner::new(on)?.go();
        stop.sleep(on)
    })
}

/// A thread with real-time priority takes the first CPU, where the victim is, again and again.
pub fn hogged(trial: &mut FaultTrial<'_>) -> Result<()> {
    pin(trial)?;
    taken(trial)
}

/// A thread with real-time priority takes the first CPU, again and again.
pub fn taken(trial: &mut FaultTrial<'_>) -> Result<()> {
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        let one = Spinner::new(on)?;
        tool("chrt", &["-f", "-p", "50", &one.tid])?;
        one.go();
        stop.sleep(on)
    })
}

/// Threads with real-time priority take all CPUs, again and again.
pub fn every_cpu(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let (on, cpus) = (trial.amplitude, std::thread::available_parallelism()?.get());
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        let all: Vec<Spinner> = (0..cpus).map(|cpu| Spinner::on(cpu, on)).collect::<Result<_>>()?;
        for one in &all {
            tool("chrt", &["-f", "-p", "50", &one.tid])?;
        }
        all_at_once(stop, &all, on)
    })
}

/// Lets one thread for each CPU begin, and waits for so long.
fn all_at_once(stop: &StopSignal, all: &[Spinner], on: Duration) -> Result<()> {
    std::thread::scope(|scope| {
        // On the CPU that is taken last, so that it gets to start all of them.
        scope.spawn(|| {
            keep_on(all.len() - 1);
            all.iter().for_each(Spinner::go);
        });
        stop.sleep(on)
    })
}

/// Threads with the deadline policy, which go before real-time ones and all others, take all CPUs, again and again.
pub fn deadlines(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let (on, cpus) = (trial.amplitude, std::thread::available_parallelism()?.get());
    let (budget, every) = (on.as_nanos(), format!("0-{}", cpus - 1));
    trial.pulses(Duration::from_millis(200), Duration::from_millis(5), |stop| {
        let all: Vec<Spinner> = (0..cpus).map(|cpu| Spinner::on(cpu, on)).collect::<Result<_>>()?;
        for one in &all {
            // Only a thread that may run everywhere is admitted.
            tool("taskset", &["-c", "-p", &every, &one.tid])?;
            deadline(&one.tid, (budget, budget * 2))?;
        }
        all_at_once(stop, &all, on)
    })
}

/// Gives a thread the deadline policy: so many ns of CPU in each period, ns, before all others, and no more.
fn deadline(tid: &str, (budget, period): (u128, u128)) -> Result<()> {
    let (budget, period) = (budget.to_string(), period.to_string());
    tool("chrt", &["-d", "-T", &budget, "-D", &period, "-P", &period, "-p", "0", tid]).map(drop)
}

/// The load's thread has the deadline policy for a while, by which it may run 2 ms in each period of the amplitude and
/// 4 ms, again and again.
pub fn deadline_quota(trial: &mut FaultTrial<'_>) -> Result<()> {
    let pid = cached(trial)?;
    let workers = threads(pid, "worker-")?;
    let period = trial.amplitude.as_nanos() + 4_000_000;
    let (on, after) = (trial.amplitude * 6, trial.amplitude);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        workers.iter().try_for_each(|tid| deadline(tid, (2_000_000, period)))?;
        let slept = stop.sleep(on);
        for tid in &workers {
            tool("chrt", &["-o", "-p", "0", tid])?;
        }
        slept
    })
}

/// The victim has real-time priority, and so has the thread that takes its CPU: the same, and thus gives way to it only
/// by itself.
pub fn equals(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    tool("chrt", &["-a", "-f", "-p", "50", &trial.pid()?.to_string()])?;
    hogged(trial)
}

/// Keeps the calling thread on a CPU.
fn keep_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    let _ = sched_setaffinity(None, &only);
}

/// A real-time thread takes the first CPU from the kernel's thread that finishes direct writes to a file, but not from
/// the victim, whose priority is higher.
pub fn late_completion(trial: &mut FaultTrial<'_>) -> Result<()> {
    let disk = trial.disk(64)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    // Completions run where the I/O came from.
    set(&disk.sys("queue/rq_affinity"), 2)?;
    let mut options = trial.options(at.join("victim"), "randwrite");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    let pid = trial.start(&options)?;
    tool("chrt", &["-a", "-f", "-p", "60", &pid.to_string()])?;
    hogged(trial)
}

fn pinned(trial: &mut FaultTrial<'_>) -> Result<VictimOptions> {
    let disk = trial.disk(64)?;
    Ok(trial.options(disk.device.clone(), "randread"))
}

/// Keeps the victim on the first CPU.
fn pin(trial: &FaultTrial<'_>) -> Result<()> {
    let pid = trial.pid()?;
    tool("taskset", &["-a", "-c", "-p", "0", &pid.to_string()]).map(drop)
}

/// A thread that will use up the first CPU until its time is over.
struct Spinner {
    tid: String,
    go: mpsc::Sender<()>,
}

impl Spinner {
    fn new(time: Duration) -> Result<Spinner> {
        Spinner::on(0, time)
    }

    /// The same of another CPU.
    fn on(cpu: usize, time: Duration) -> Result<Spinner> {
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().name("spinner".into()).spawn(move || {
            keep_on(cpu);
            let _ = tell.send(gettid().as_raw_nonzero().get());
            if wait.recv().is_err() {
                return;
            }
            let end = Instant::now() + time;
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        })?;
        let tid = told.recv().context("a thread")?.to_string();
        Ok(Spinner { tid, go })
    }

    fn go(&self) {
        let _ = self.go.send(());
    }
}
