//! Faults of the other files under loads that they do not have there: other file systems, files that grow,
//! syncs and reads through the page cache.

use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{limited_syncs, synced};
use crate::faults::store::{synced_updates, updates};
use crate::faults::{buffered, cpu, disk, filesystem, server, staged, stopped};
use crate::stage::overlaid;
use crate::victim::VictimOptions;

/// Direct writes to btrfs, for which other threads make checksums: to a disk that is slow now and then.
pub fn summed(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("btrfs", 256), |b, at| written(b, at, "16MiB"))
}

/// The same under a limit of writes.
pub fn summed_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("btrfs", 256), |b, at| written(b, at, "16MiB"), "write")
}

/// The same, and the CPU is taken away.
pub fn summed_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(256)?.mount(&mut b.undo, "btrfs")?;
    let options = written(b, &at, "16MiB");
    b.start(&options)?;
    cpu::hogged(b)
}

/// Direct writes one after another to a file that grows, on a disk that is slow now and then.
pub fn growing(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    grown(b, &at)?;
    b.slowed(&slow)
}

/// The same on XFS under a limit of writes.
pub fn growing_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let pid = grown(b, &at)?;
    disk::limit(b, pid, &disk, "write")
}

/// The same on XFS, which is frozen.
pub fn growing_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(512)?.mount(&mut b.undo, "xfs")?;
    grown(b, &at)?;
    filesystem::frozen(b, &at)
}

/// Writes to a file that grows, ext4, and the program is stopped.
pub fn growing_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(512)?.mount(&mut b.undo, "ext4")?;
    let pid = grown(b, &at)?;
    stopped::stopped(b, pid)
}

/// A neighbour cuts the end off the victim's file while that is on its way to a slow disk.
pub fn truncated(b: &mut FaultTrial<'_>) -> Result<()> {
    cut(b, "ext4", 64)
}

/// The same on XFS.
pub fn truncated_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    cut(b, "xfs", 320)
}

fn cut(b: &mut FaultTrial<'_>, kind: &str, mib: usize) -> Result<()> {
    let (disk, slow) = b.slow_disk(mib)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let options = VictimOptions {
        load: b.options(at.join("victim"), "randread").load,
        ..written(b, &at, "4MiB")
    };
    b.start(&options)?;
    filesystem::hold(b, &at.join("victim"), &slow, 0, |file, at, length| {
        fadvise(file, at, std::num::NonZeroU64::new(length), Advice::DontNeed)?;
        Ok(file.set_len(at)?)
    })
}

/// Syncs of btrfs, which is frozen.
pub fn sync_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("btrfs", 256), synced)
}

/// The same under a limit of writes.
pub fn sync_limit_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    limited_syncs(b, "btrfs", 256)
}

/// Syncs of btrfs without pauses, and the program is frozen.
pub fn sync_frozen(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = syncs_on(b, "btrfs", 256)?;
    stopped::frozen(b, pid)
}

/// Writes that are durable one by one, to XFS, which is frozen.
pub fn durable_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("xfs", 320), durably)
}

/// Syncs, and the program is stopped.
pub fn sync_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = syncs_on(b, "ext4", 64)?;
    stopped::stopped(b, pid)
}

/// Syncs on XFS, and the CPU is taken away.
pub fn sync_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    syncs_on(b, "xfs", 320)?;
    cpu::hogged(b)
}

/// Syncs, and the program may run only so long in each period.
pub fn sync_quota(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = syncs_on(b, "ext4", 64)?;
    server::limited(b, pid)
}

/// Syncs of a file that is seen through a layer of directories, on a disk that is slow now and then.
pub fn overlay_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let lower = disk.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// The same where the file system below is frozen.
pub fn overlay_sync_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let lower = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let options = synced(b, &at);
    b.start(&options)?;
    filesystem::frozen(b, &lower)
}

/// Direct writes through such a layer, under a limit of writes.
pub fn overlay_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let lower = disk.mount(&mut b.undo, "ext4")?;
    let at = overlaid(&mut b.undo, &lower)?;
    let options = written(b, &at, "16MiB");
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// Reads of a file of btrfs that are not in the page cache, on a disk that is slow now and then.
pub fn cold_file(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let at = disk.mount(&mut b.undo, "btrfs")?;
    let mut options = buffered::cold(b, &at.join("victim"));
    options.more = ["--size", "256MiB"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads that are not in the page cache, and the program may run only so long in each period.
pub fn cold_quota(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = cold_all_the_time(b)?;
    server::limited(b, pid)
}

/// Reads that are not in the page cache, and the CPU is taken away.
pub fn cold_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    cold_all_the_time(b)?;
    cpu::hogged(b)
}

/// Reads that are not in the page cache, and the program is frozen.
pub fn cold_frozen(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = cold_all_the_time(b)?;
    stopped::frozen(b, pid)
}

/// Updates of a store with syncs, under a limit of writes.
pub fn store_sync_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("ext4", 128), |b, at| synced_updates(updates(b, at)), "write")
}

/// Reads and writes of XFS, which is frozen.
pub fn mixed_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("xfs", 320), mixed)
}

/// Reads and writes of a file on a disk that is slow now and then.
pub fn mixed_device(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 64), mixed)
}

/// Reads and writes of a file on btrfs, under a limit of writes.
pub fn mixed_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("btrfs", 256), mixed, "write")
}

/// Reads at a steady rate, and the program is stopped: those that come meanwhile begin late.
pub fn paced_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let pid = at_a_rate(b, &disk.device)?;
    stopped::stopped(b, pid)
}

/// Reads at a steady rate, under a limit below that rate.
pub fn paced_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let pid = at_a_rate(b, &disk.device)?;
    disk::limit(b, pid, &disk, "read")
}

/// Writes that io_uring's polling thread submits, to a file system that is frozen.
pub fn polled_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let mut options = written(b, &at, "16MiB");
    options.set.push("target.options.sqpoll=true".into());
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Writes that are durable one by one, and the CPU is taken away.
pub fn durable_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let options = durably(b, &at);
    b.start(&options)?;
    cpu::hogged(b)
}

/// Writes that are durable one by one, to XFS, and the program is stopped.
pub fn durable_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(320)?.mount(&mut b.undo, "xfs")?;
    let options = durably(b, &at);
    let pid = b.start(&options)?;
    stopped::stopped(b, pid)
}

/// Reads of a file that are not in the page cache, and the program is stopped.
pub fn cold_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(512)?.mount(&mut b.undo, "ext4")?;
    let mut options = buffered::cold(b, &at.join("victim"));
    options.without_pauses();
    options.more = ["--size", "384MiB"].map(String::from).to_vec();
    let pid = b.start(&options)?;
    stopped::stopped(b, pid)
}

/// A neighbour punches holes behind the victim's part of the file, where pages are dirty.
pub fn punched(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let options = written(b, &at, "4MiB");
    b.start(&options)?;
    filesystem::hold(b, &at.join("victim"), &slow, 0, |file, at, length| {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, how, at, length)?)
    })
}

/// A store's syncs on btrfs, on a disk whose syncs take long.
pub fn store_syncs_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(256)?;
    let at = disk.mount(&mut b.undo, "btrfs")?;
    let options = synced_updates(updates(b, &at));
    b.start(&options)?;
    b.slow_syncs(&slow)
}

pub fn mixed(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let load = b.options(at.join("victim"), "randrw").load;
    VictimOptions { load, ..written(b, at, "16MiB") }
}

/// Starts reads at a steady rate. Its process.
pub fn at_a_rate(b: &mut FaultTrial<'_>, device: &Path) -> Result<u32> {
    let mut options = b.options(device.to_owned(), "randread");
    options.set.clear();
    options.more = ["--rate", "2000/s"].map(String::from).to_vec();
    b.start(&options)
}

pub fn durably(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = written(b, at, "16MiB");
    options.more.extend(["--sync", "dsync"].map(String::from));
    options
}

pub fn written(b: &FaultTrial<'_>, at: &Path, size: &str) -> VictimOptions {
    let mut options = b.options(at.join("victim"), "randwrite");
    options.more = ["--size", size].map(String::from).to_vec();
    options
}

/// Starts direct writes one after another to a file that grows. Its process.
pub fn grown(b: &mut FaultTrial<'_>, at: &Path) -> Result<u32> {
    let mut options = written(b, at, "400MiB");
    options.load = b.options(at.join("victim"), "write").load;
    b.start(&options)
}

/// Syncs without pauses: a stop that finds nothing in flight slows nothing.
fn syncs_on(b: &mut FaultTrial<'_>, kind: &str, mib: u64) -> Result<u32> {
    let at = b.disk(mib)?.mount(&mut b.undo, kind)?;
    let mut options = synced(b, &at);
    options.without_pauses();
    b.start(&options)
}

fn cold_all_the_time(b: &mut FaultTrial<'_>) -> Result<u32> {
    let disk = b.disk(2048)?;
    let mut options = buffered::cold(b, &disk.device);
    options.without_pauses();
    b.start(&options)
}
