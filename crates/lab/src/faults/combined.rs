//! Loads of one of the other files with faults of another one.

use std::path::Path;

use anyhow::Result;
use rustix::process::Signal;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{synced, through_cache};
use crate::faults::crossed::{durably, mixed, written};
use crate::faults::objects::{object_load, objects};
use crate::faults::stacked::{pipelined, polled, updates_of_one};
use crate::faults::store::{inside_words, narrowed, redis, shaped, synced_updates, updates};
use crate::faults::varied::{scans, with_many_threads};
use crate::faults::{cpu, disk, filesystem, server, staged, stopped};
use crate::stage::{LoopDevice, overlaid};
use crate::victim::{VictimOptions, signal};

/// Writes that are durable one by one, to a disk over another one, which is under a limit.
pub fn lower_limit_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    let lower = b.disk(64)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let at = upper.mount(&mut b.undo, "ext4")?;
    let options = durably(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &lower, "write")
}

/// Writes to XFS that are durable one by one, to a disk over another one, which is slow now and then.
pub fn nested_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    let (lower, slow) = b.slow_disk(320)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let at = upper.mount(&mut b.undo, "xfs")?;
    let options = durably(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Writes through a layer of directories, and the CPU is taken away.
pub fn overlay_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    overlay(b)?;
    cpu::hogged(b)
}

/// The same, and the program is stopped.
pub fn overlay_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = overlay(b)?;
    stopped::stopped(b, pid)
}

/// Syncs of what io_uring's polling thread is asked for, on a disk that is slow now and then.
pub fn polled_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 64), |b, at| polled(synced(b, at)))
}

/// Writes that are durable one by one and that thread submits, under a limit of writes.
pub fn polled_durable_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let mut options = polled(durably(b, &at));
    options.set.push("target.options.layout=always".into());
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// Reads and writes of a file of btrfs, and the program may run only so long in each period.
pub fn mixed_quota(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = staged::undisturbed(b, ("btrfs", 256), mixed)?;
    server::limited(b, pid)
}

/// Reads that are not in the page cache beside writes through it, of a disk that is slow now and then.
pub fn mixed_cached(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = through_cache(mixed(b, &at));
    options.set.push("target.options.cache=drop".into());
    options.set.push("target.options.layout=always".into());
    options.more[1] = "256MiB".into();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Many threads write to a file, under a limit of writes.
pub fn crowded_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("ext4", 64), |b, at| with_many_threads(written(b, at, "16MiB")), "write")
}

/// Many threads read a file whose lock a neighbour holds while the slow disk has its data.
pub fn crowded_lock(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = with_many_threads(b.options(victim.clone(), "randread"));
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    filesystem::hold(b, &victim, &slow, disk::DIRECT, |_, _, _| Ok(()))
}

/// Updates of a store with syncs all the time, and the program is stopped.
pub fn store_sync_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let load = |b: &FaultTrial<'_>, at: &Path| synced_updates(updates(b, at));
    let pid = staged::undisturbed(b, ("ext4", 2048), load)?;
    stopped::stopped(b, pid)
}

/// Updates of a store with syncs on btrfs, which is frozen.
pub fn store_freeze_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("btrfs", 256), updates_of_one)
}

/// Scans of a store all the time, and the program is stopped.
pub fn scans_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = staged::undisturbed(b, ("ext4", 128), scans)?;
    stopped::stopped(b, pid)
}

/// The network to a server that is asked for several things at a time is slow.
pub fn pipelined_network(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    pipelined(b, pid)?;
    let rate = shaped(pid)?;
    narrowed(b, rate)
}

/// A client that asks a server for several things at a time has no CPU, which its server does not want.
pub fn pipelined_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    pipelined(b, pid)?;
    tool("taskset", &["-a", "-c", "-p", "1", &pid.to_string()])?;
    cpu::hogged(b)
}

/// Large objects of a store that is stopped.
pub fn large_objects_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let (server, _) = of_large_objects(b)?;
    stopped::stopped(b, server)
}

/// The same, and the client is stopped.
pub fn large_objects_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, client) = of_large_objects(b)?;
    stopped::stopped(b, client)
}

/// Writes through the page cache to a file that grows, on a file system that is frozen.
pub fn growing_cached_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(2048)?.mount(&mut b.undo, "ext4")?;
    let load = b.options(at.join("victim"), "write").load;
    let options = through_cache(VictimOptions { load, ..written(b, &at, "1GiB") });
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// A limit of reads, and then a stop of the program.
pub fn limit_and_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set.clear();
    let pid = b.start(&options)?;
    let on = b.amplitude;
    disk::limited(b, pid, &disk, ("read_iops", 1), |stop, limit| {
        limit(true)?;
        stop.sleep(on * 3)?;
        limit(false)?;
        signal(pid, Signal::STOP)?;
        let slept = stop.sleep(on);
        signal(pid, Signal::CONT)?;
        slept
    })
}

/// Starts writes through a layer of directories all the time. Their process.
fn overlay(b: &mut FaultTrial<'_>) -> Result<u32> {
    let lower = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let mut options = written(b, &at, "16MiB");
    options.without_pauses();
    b.start(&options)
}

/// Starts a victim of an object store that reads and writes large objects all the time: the store's process and its own.
pub fn of_large_objects(b: &mut FaultTrial<'_>) -> Result<(u32, u32)> {
    let (path, server) = objects(b)?;
    let mut options = object_load(b, path);
    options.without_pauses();
    options.set.push("workload.0.block_size=\"64KiB\"".into());
    options.within = inside_words(server);
    Ok((server, b.start(&options)?))
}
