//! Faults below stacked disks; and faults of the CPU, of stops and of servers under loads that the other files do not
//! combine them with.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{cold, synced};
use crate::faults::crossed::{at_a_rate, durably, grown, mixed};
use crate::faults::store::{PORT, inside_words, loaded, mounted, redis, redis_with};
use crate::faults::store::{alone, synced_updates, updates};
use crate::faults::{cpu, disk, filesystem, staged, stopped};
use crate::stage::{LoopDevice, overlaid};
use crate::victim::VictimOptions;

/// Syncs of a file system whose disk is over another one, which is under a limit.
pub fn lower_limit_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let lower = b.disk(64)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let at = upper.mount(&mut b.undo, "ext4")?;
    let options = synced(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &lower, "write")
}

/// Syncs of a file system whose disk is a file of another one, which is frozen.
pub fn lower_freeze_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let below = b.disk(320)?.mount(&mut b.undo, "xfs")?;
    let at = filesystem::upper(b, &below, true)?.mount(&mut b.undo, "ext4")?;
    let mut options = synced(b, &at);
    options.more[1] = "8MiB".into();
    b.start(&options)?;
    filesystem::frozen(b, &below)
}

/// Syncs of a file system whose disk is over another one, which is slow now and then.
pub fn nested_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (lower, slow) = b.slow_disk(64)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let at = upper.mount(&mut b.undo, "ext4")?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads that are not in the page cache, of a disk over another one, which is under a limit.
pub fn lower_limit_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let lower = b.disk(512)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let options = cold(b, &upper.device);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &lower, "read")
}

/// Reads through a layer of directories that are not in the page cache, of a disk that is slow now and then.
pub fn overlay_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let lower = disk.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let mut options = cold(b, &at.join("victim"));
    options.more = ["--size", "256MiB"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Writes to btrfs that are durable one by one, to a disk that is slow now and then.
pub fn durable_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("btrfs", 256), durably)
}

/// The same under a limit of writes.
pub fn durable_limit_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("btrfs", 256), durably, "write")
}

/// Reads and writes of a file, and the CPU is taken away.
pub fn mixed_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::undisturbed(b, ("xfs", 320), mixed)?;
    cpu::hogged(b)
}

/// Reads and writes of a file without pauses, and the program is stopped.
pub fn mixed_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = staged::undisturbed(b, ("ext4", 64), mixed)?;
    stopped::stopped(b, pid)
}

/// Reads that are not in the page cache, which io_uring's polling thread is asked for, under a limit.
pub fn polled_cold_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let options = polled(cold(b, &disk.device));
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "read")
}

/// The same, and the CPU is taken away.
pub fn polled_cold_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(2048)?;
    let mut options = polled(cold(b, &disk.device));
    options.without_pauses();
    b.start(&options)?;
    cpu::hogged(b)
}

/// A server that saves all it holds before it goes on, to a disk whose syncs take long then.
pub fn saving_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = mounted(b)?;
    let dir = at.to_string_lossy();
    let how = ["--save", "", "--appendonly", "no", "--dir", &dir];
    let (socket, pid) = redis_with(&mut b.undo, b.stop, &how)?;
    alone(b, pid)?;
    let nap = b.amplitude;
    b.pulses(Duration::from_millis(300), Duration::from_millis(2), |_| {
        slow.set_syncs(nap);
        let saved = tool("redis-cli", &["-s".as_ref(), socket.as_os_str(), "SAVE".as_ref()]);
        slow.set_syncs(Duration::ZERO);
        saved.map(drop)
    })
}

/// Updates of a store with syncs on XFS, which is frozen.
pub fn store_sync_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("xfs", 320), updates_of_one)
}

/// Updates of a store with syncs all the time, and the CPU is taken away.
pub fn store_sync_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::undisturbed(b, ("ext4", 2048), updates_of_one)?;
    cpu::hogged(b)
}

/// Large direct reads, and the CPU is taken away.
pub fn large_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let mut options = b.options(disk.device, "randread");
    options.set = vec!["workload.0.block_size=\"256KiB\"".into()];
    b.start(&options)?;
    cpu::hogged(b)
}

/// Writes one after another to a file of XFS that grows, and the CPU is taken away.
pub fn growing_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(512)?.mount(&mut b.undo, "xfs")?;
    grown(b, &at)?;
    cpu::hogged(b)
}

/// Reads at a steady rate, and the CPU is taken away: those that come meanwhile begin late.
pub fn paced_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    at_a_rate(b, &disk.device)?;
    cpu::hogged(b)
}

/// Syncs at a steady rate, on a disk that is slow now and then.
pub fn paced_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = synced(b, &at);
    options.without_pauses();
    options.more.extend(["--rate", "1000/s"].map(String::from));
    b.start(&options)?;
    b.slowed(&slow)
}

/// A server that is asked for several things before it has answered the first, and is stopped.
pub fn pipelined_server(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    pipelined(b, pid)?;
    stopped::stopped(b, pid)
}

/// The same, and the client is stopped.
pub fn pipelined_client(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, server) = redis(&mut b.undo, b.stop)?;
    let pid = pipelined(b, server)?;
    stopped::stopped(b, pid)
}

/// Syncs of a disk whose kernel thread has no CPU, which the victim does not want.
pub fn loop_worker_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(320)?.mount(&mut b.undo, "xfs")?;
    cpu::workqueues(b, 1)?;
    let options = synced(b, &at);
    b.start(&options)?;
    cpu::taken_beside(b)
}

/// Updates of a store with syncs by one thread, which waits for no other writer.
pub fn updates_of_one(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    VictimOptions { workers: 1, ..synced_updates(updates(b, at)) }
}

pub fn polled(mut options: VictimOptions) -> VictimOptions {
    options.set.push("target.options.sqpoll=true".into());
    options
}

/// Starts a client of this server that asks all the time, four times on each of two connections. Its process.
pub fn pipelined(b: &mut FaultTrial<'_>, server: u32) -> Result<u32> {
    let mut options = loaded(b, PORT);
    options.depth = 8;
    options.without_pauses();
    options.set.push("target.options.connections=2".into());
    options.within = inside_words(server);
    b.start(&options)
}
