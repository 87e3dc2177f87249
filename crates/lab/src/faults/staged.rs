//! One file system on one disk, a load, and what disturbs it: each fault is a line of these three.

use std::path::Path;

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{cold, encrypted_in, synced, through_cache};
use crate::faults::combined::of_large_objects;
use crate::faults::crossed::{durably, written};
use crate::faults::disk::two_disks;
use crate::faults::stacked::{pipelined, polled};
use crate::faults::store::{redis, synced_updates, updates};
use crate::faults::varied::{reads_and_updates, scans, with_many_threads};
use crate::faults::{cpu, disk, filesystem, memory, server};
use crate::stage::{LoopDevice, overlaid};
use crate::victim::VictimOptions;

/// What the victim does with files there.
type Load = fn(&FaultTrial<'_>, &Path) -> VictimOptions;

/// On a disk that is slow now and then.
pub fn slowed(b: &mut FaultTrial<'_>, (kind, mib): (&str, usize), load: Load) -> Result<()> {
    let (disk, slow) = b.slow_disk(mib)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let options = load(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Under a limit of `read`s or `write`s.
pub fn limited(
    b: &mut FaultTrial<'_>,
    (kind, mib): (&str, u64),
    load: Load,
    what: &str,
) -> Result<()> {
    let disk = b.disk(mib)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let options = load(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, what)
}

/// On a file system that is frozen.
pub fn frozen(b: &mut FaultTrial<'_>, (kind, mib): (&str, u64), load: Load) -> Result<()> {
    let at = b.disk(mib)?.mount(&mut b.undo, kind)?;
    let options = load(b, &at);
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Without pauses and undisturbed so far; its process.
pub fn undisturbed(b: &mut FaultTrial<'_>, (kind, mib): (&str, u64), load: Load) -> Result<u32> {
    let at = b.disk(mib)?.mount(&mut b.undo, kind)?;
    let mut options = load(b, &at);
    options.without_pauses();
    b.start(&options)
}

/// Direct writes to a file in stripes, under a limit on one of its disks.
pub fn striped_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let (one, other) = (b.disk(256)?, b.slow_disk(256)?.0);
    let names = [&one, &other].map(|d| d.device.to_string_lossy().into_owned());
    let how = ["-q", "-f", "-K", "-d", "raid0", "-m", "raid1", &names[0], &names[1]];
    tool("mkfs.btrfs", &how)?;
    let at = one.mount_made(&mut b.undo, "btrfs")?;
    let options = written(b, &at, "16MiB");
    let pid = b.start(&options)?;
    disk::limit(b, pid, &one, "write")
}

/// Syncs of a file that is kept twice, once on a disk that is slow now and then.
pub fn mirror_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = two_disks(b, "raid1")?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Syncs of a file that is encrypted, on a slow disk.
pub fn encrypted_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(192)?;
    let safe = encrypted_in(b, &disk)?;
    let options = synced(b, &safe);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads through a layer of directories that are not in the page cache, under a limit.
pub fn overlay_cold_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let lower = disk.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let options = cold_file(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "read")
}

/// Writes through such a layer that are durable one by one, to a slow disk.
pub fn overlay_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let lower = disk.mount(&mut b.undo, "xfs")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let options = durably(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads that are not in the page cache, of a disk over another one, which is slow now and then.
pub fn nested_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let (lower, slow) = b.slow_disk(512)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    let options = cold(b, &upper.device);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads that are not in the page cache, of a disk whose kernel thread has no CPU.
pub fn loop_worker_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(2048)?;
    cpu::workqueues(b, 1)?;
    let mut options = cold(b, &disk.device);
    options.without_pauses();
    b.start(&options)?;
    cpu::taken_beside(b)
}

/// Writes one after another to a file that grows, durable one by one, on a slow disk.
pub fn growing_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    slowed(b, ("ext4", 512), grown_durably)
}

/// The same on XFS under a limit.
pub fn growing_durable_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    limited(b, ("xfs", 512), grown_durably, "write")
}

/// Writes of many threads that are durable one by one, on a slow disk.
pub fn crowded_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    slowed(b, ("ext4", 64), |b, at| with_many_threads(durably(b, at)))
}

/// Syncs of many threads, under a limit.
pub fn crowded_sync_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    limited(b, ("ext4", 64), |b, at| with_many_threads(synced(b, at)), "write")
}

/// The same on XFS, which is frozen.
pub fn crowded_sync_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    frozen(b, ("xfs", 320), |b, at| with_many_threads(synced(b, at)))
}

/// Direct writes of many threads, and the CPU is taken away.
pub fn crowded_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    undisturbed(b, ("ext4", 64), |b, at| with_many_threads(written(b, at, "16MiB")))?;
    cpu::hogged(b)
}

/// Writes through the page cache that io_uring's polling thread is asked for, of a file system that is frozen.
pub fn polled_cached_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    frozen(b, ("ext4", 64), |b, at| polled(through_cache(written(b, at, "16MiB"))))
}

/// Direct writes that thread submits, and the program may run only so long in each period.
pub fn polled_quota(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = undisturbed(b, ("ext4", 64), |b, at| polled(written(b, at, "16MiB")))?;
    server::limited(b, pid)
}

/// Scans of a store, and the CPU is taken away.
pub fn scans_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    undisturbed(b, ("ext4", 128), scans)?;
    cpu::hogged(b)
}

/// Reads beside synced updates of a store, under a limit.
pub fn store_mixed_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    limited(b, ("ext4", 128), reads_and_updates, "write")
}

/// Synced updates of a store by many threads, on a slow disk.
pub fn crowded_store(b: &mut FaultTrial<'_>) -> Result<()> {
    slowed(b, ("ext4", 128), |b, at| with_many_threads(synced_updates(updates(b, at))))
}

/// Packets of a server are lost that is asked for several things at a time.
pub fn pipelined_lossy(b: &mut FaultTrial<'_>) -> Result<()> {
    let (_, pid) = redis(&mut b.undo, b.stop)?;
    pipelined(b, pid)?;
    server::lossy(b, pid)
}

/// Packets of large objects are lost.
pub fn lossy_large_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let (pid, _) = of_large_objects(b)?;
    server::lossy(b, pid)
}

/// The memory of a program that syncs has been swapped out, to a disk that is slow when it is needed again.
pub fn swap_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = memory::swapped(b)?;
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let options = synced(b, &at);
    b.start_then(&options, |pid| group.add_process(pid))?;
    memory::dropped(b, &slow, &group, |held| held / 8)
}

fn cold_file(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = cold(b, &at.join("victim"));
    options.more = ["--size", "256MiB"].map(String::from).to_vec();
    options
}

fn grown_durably(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let load = b.options(at.join("victim"), "write").load;
    let mut options = VictimOptions { load, ..durably(b, at) };
    options.more[1] = "256MiB".into();
    options
}
