//! The victim, a thread of it or its server stands still: stopped by a signal, frozen by a control group or held by a
//! tracer.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;

use crate::cleanup::NAME;
use crate::fault_trial::FaultTrial;
use crate::faults::disk;
use crate::faults::stages::BuiltStage;
use crate::stage::LabCgroup;
use crate::truth::now_ns;
use crate::victim::signal;

/// Stops a process by a signal, again and again.
pub fn stopped(trial: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), on / 10, |stop| {
        signal(pid, Signal::STOP)?;
        let slept = stop.sleep(on);
        signal(pid, Signal::CONT)?;
        slept
    })
}

/// Only one thread of the load stands still, frozen by a control group of its own.
pub fn one_thread(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let pid = trial.pid()?;
    let tid = threads(pid, "worker-")?.into_iter().next().context("a worker")?;
    frozen_threads(trial, &[tid])
}

/// Threads of a process whose names begin so; there may be none.
pub fn threads(pid: u32, name: &str) -> Result<Vec<String>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let called = |tid: &String| {
        let own = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
        own.is_ok_and(|n| n.starts_with(name))
    };
    Ok(threads.map(|t| t.file_name().to_string_lossy().into_owned()).filter(called).collect())
}

/// The victim is frozen by a control group of version 2.
pub fn unified_freezer(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let pid = trial.pid()?;
    let group = LabCgroup::named(&mut trial.undo, "unified", NAME)?;
    group.add_process(pid)?;
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        group.set("cgroup.freeze", 1)?;
        let slept = stop.sleep(on);
        group.set("cgroup.freeze", 0)?;
        slept
    })
}

/// Freezes a process by a control group of version 1, again and again.
pub fn frozen(trial: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "freezer")?;
    group.add_process(pid)?;
    pulsed(trial, &group)
}

/// Freezes the members of a control group, again and again.
pub fn pulsed(trial: &mut FaultTrial<'_>, group: &LabCgroup) -> Result<()> {
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        group.set("freezer.state", "FROZEN")?;
        let slept = stop.sleep(on);
        group.set("freezer.state", "THAWED")?;
        slept
    })
}

/// The victim's threads are held by a program that traces them, as a debugger does.
pub fn traced(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let pid = trial.pid()?;
    let threads = seized(pid)?;
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        hold(&threads)?;
        let slept = stop.sleep(on);
        for tid in &threads {
            ptrace::cont(*tid, None)?;
        }
        slept
    })?;
    release(&threads)
}

/// The same of only one thread of the load.
pub fn traced_one(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let tid = threads(trial.pid()?, "worker-")?.into_iter().next().context("a worker")?;
    let thread = [Pid::from_raw(tid.parse()?)];
    ptrace::seize(thread[0], ptrace::Options::empty())?;
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        hold(&thread)?;
        let slept = stop.sleep(on);
        ptrace::cont(thread[0], None)?;
        slept
    })?;
    release(&thread)
}

/// A thread of the load stops at each of its system calls for a program that traces it, as `strace` does, and that
/// takes long over every 199th stop.
pub fn traced_calls(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let tid = threads(trial.pid()?, "worker-")?.into_iter().next().context("a worker")?;
    let thread = Pid::from_raw(tid.parse()?);
    ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD)?;
    hold(&[thread])?;
    let mut passed_on = None::<nix::sys::signal::Signal>;
    for stops in 1_u32.. {
        if stops.is_multiple_of(64) && !trial.more() {
            break;
        }
        ptrace::syscall(thread, passed_on.take())?;
        passed_on = match waitpid(thread, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(_, signal) => Some(signal),
            _ => None,
        };
        if stops.is_multiple_of(199) {
            let from = now_ns();
            trial.stop.sleep(trial.amplitude)?;
            trial.truth.add(from, now_ns());
        }
    }
    Ok(ptrace::detach(thread, passed_on)?)
}

/// The control group above the victim's own is frozen.
pub fn frozen_parent(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let outer = LabCgroup::of(&mut trial.undo, "freezer")?;
    let inner = LabCgroup::named(&mut trial.undo, "freezer", &format!("{NAME}/inner"))?;
    inner.add_process(trial.pid()?)?;
    pulsed(trial, &outer)
}

/// Only the victim's threads that take requests for io_uring are frozen.
pub fn frozen_poller(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let pollers = threads(trial.pid()?, "iou-sqp-")?;
    frozen_threads(trial, &pollers)
}

/// The threads of this process that serve the victim's file, or its disk, are frozen.
pub fn frozen_server(trial: &mut FaultTrial<'_>, _: &BuiltStage) -> Result<()> {
    let serving = serving_threads()?;
    frozen_threads(trial, &serving)
}

fn frozen_threads(trial: &mut FaultTrial<'_>, tids: &[String]) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "freezer")?;
    put(&group, tids)?;
    pulsed(trial, &group)
}

/// Puts threads into a group. Errors: without any the fault would be none, and its truth wrong.
pub fn put(group: &LabCgroup, tids: &[String]) -> Result<()> {
    ensure!(!tids.is_empty(), "no thread of that name");
    tids.iter().try_for_each(|tid| group.set("tasks", tid))
}

/// Threads of this process that serve FUSE.
pub fn serving_threads() -> Result<Vec<String>> {
    threads(std::process::id(), "fuser-")
}

/// Holds all threads of a process as `traced` does, once and for so long.
pub fn held_by_tracer(pid: u32, on: Duration) -> Result<()> {
    let threads = seized(pid)?;
    hold(&threads)?;
    std::thread::sleep(on);
    threads.iter().try_for_each(|tid| ptrace::cont(*tid, None))?;
    release(&threads)
}

fn seized(pid: u32) -> Result<Vec<Pid>> {
    let mut threads = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid = Pid::from_raw(thread?.file_name().to_string_lossy().parse()?);
        ptrace::seize(tid, ptrace::Options::empty())?;
        threads.push(tid);
    }
    Ok(threads)
}

fn hold(threads: &[Pid]) -> Result<()> {
    for tid in threads {
        ptrace::interrupt(*tid)?;
        waitpid(*tid, Some(WaitPidFlag::__WALL))?;
    }
    Ok(())
}

fn release(threads: &[Pid]) -> Result<()> {
    hold(threads)?;
    threads.iter().try_for_each(|tid| ptrace::detach(*tid, None))?;
    Ok(())
}

/// The victim's reads are limited, and after that the victim is stopped.
pub fn limit_and_stop(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let pid = trial.pid()?;
    let on = trial.amplitude;
    disk::limited(trial, pid, built.disk()?, ("read_iops", 1), |stop, limit| {
        limit(true)?;
        stop.sleep(on * 3)?;
        limit(false)?;
        signal(pid, Signal::STOP)?;
        let slept = stop.sleep(on);
        signal(pid, Signal::CONT)?;
        slept
    })
}
