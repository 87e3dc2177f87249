//! The whole victim stands still: stopped by a signal, frozen by its control group.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;

use crate::cleanup::NAME;
use crate::fault_trial::FaultTrial;
use crate::stage::LabCgroup;
use crate::victim::signal;

pub fn signals(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = victim(b)?;
    stopped(b, pid)
}

/// A process, again and again.
pub fn stopped(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), on / 10, |stop| {
        signal(pid, Signal::STOP)?;
        let slept = stop.sleep(on);
        signal(pid, Signal::CONT)?;
        slept
    })
}

/// The same where io_uring's worker threads do the work.
pub fn workers(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = synced(b)?;
    stopped(b, pid)
}

/// A victim that syncs each write, which io_uring's worker threads do.
pub fn synced(b: &mut FaultTrial<'_>) -> Result<u32> {
    let disk = b.disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.clear();
    options.more = ["--size", "16MiB", "--sync", "fdatasync"].map(String::from).to_vec();
    b.start(&options)
}

/// The same where io_uring's polling thread takes the requests.
pub fn polled(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set = vec!["target.options.sqpoll=true".into()];
    let pid = b.start(&options)?;
    stopped(b, pid)
}

/// Only one thread of the load stands still, frozen by a control group of its own.
pub fn one_thread(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = victim(b)?;
    first_thread(b, pid)
}

/// One of the load's threads of this process.
pub fn first_thread(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let tid = threads(pid, "worker-")?.into_iter().next().context("a worker")?;
    let group = LabCgroup::of(&mut b.undo, "freezer")?;
    group.set("tasks", tid)?;
    pulsed(b, &group)
}

/// Threads of a process whose names begin so.
pub fn threads(pid: u32, name: &str) -> Result<Vec<String>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let called = |tid: &String| {
        let own = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
        own.is_ok_and(|n| n.starts_with(name))
    };
    Ok(threads.map(|t| t.file_name().to_string_lossy().into_owned()).filter(called).collect())
}

/// The freezer control group.
pub fn freezer(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = victim(b)?;
    frozen(b, pid)
}

/// The freezer of the hierarchy of all controllers.
pub fn unified_freezer(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = victim(b)?;
    let group = LabCgroup::named(&mut b.undo, "unified", NAME)?;
    group.add_process(pid)?;
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        group.set("cgroup.freeze", 1)?;
        let slept = stop.sleep(on);
        group.set("cgroup.freeze", 0)?;
        slept
    })
}

/// A process, by its control group, again and again.
pub fn frozen(b: &mut FaultTrial<'_>, pid: u32) -> Result<()> {
    let group = LabCgroup::of(&mut b.undo, "freezer")?;
    group.add_process(pid)?;
    pulsed(b, &group)
}

/// The members of a control group, again and again.
pub fn pulsed(b: &mut FaultTrial<'_>, group: &LabCgroup) -> Result<()> {
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        group.set("freezer.state", "FROZEN")?;
        let slept = stop.sleep(on);
        group.set("freezer.state", "THAWED")?;
        slept
    })
}

/// Its threads are held by a program that traces them, as a debugger does.
pub fn traced(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = victim(b)?;
    let threads = seized(pid)?;
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        hold(&threads)?;
        let slept = stop.sleep(on);
        for tid in &threads {
            ptrace::cont(*tid, None)?;
        }
        slept
    })?;
    release(&threads)
}

/// The same, once and for so long.
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

fn victim(b: &mut FaultTrial<'_>) -> Result<u32> {
    let disk = b.disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    // A stop that finds nothing in flight, as in a pause to think, slows no I/O.
    options.set.clear();
    b.start(&options)
}
