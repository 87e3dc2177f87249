//! Faults under loads and on file systems that differ in how they bring data to the disk: writes through the
//! page cache that are durable one by one, journals that hold the data, no journal at all, stripes, large I/Os.

use std::path::Path;

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{cold, synced, through_cache};
use crate::faults::disk::{limit_bytes, two_disks};
use crate::faults::store::{synced_updates, updates};
use crate::faults::{cpu, disk, filesystem, staged, stopped};
use crate::victim::VictimOptions;

/// Writes through the page cache that are durable one by one, on a disk that is slow now and then.
pub fn cached_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 64), cached_durably)
}

/// The same on XFS under a limit of writes.
pub fn cached_durable_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("xfs", 320), cached_durably, "write")
}

/// The same on btrfs, which is frozen.
pub fn cached_durable_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("btrfs", 256), cached_durably)
}

/// Syncs of a file that grows, on a disk that is slow now and then.
pub fn growing_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 512), grown_with_syncs)
}

/// Syncs where the journal holds the data, too.
pub fn journaled(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let device = disk.device.to_string_lossy();
    tool("mkfs.ext4", &["-q", "-E", "nodiscard", &device])?;
    tool("tune2fs", &["-o", "journal_data", &device])?;
    let at = disk.mount_made(&mut b.undo, "ext4")?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// A file in stripes, half of which are on a disk that is slow now and then.
pub fn striped(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = two_disks(b, "raid0")?;
    let mut options = b.options(at.join("victim"), "randread");
    options.more = ["--size", "64MiB"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Large reads of a disk that is slow now and then.
pub fn large(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(256)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set.push("workload.0.block_size=\"1MiB\"".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Large writes, each with a sync, under a limit of bytes.
pub fn large_syncs_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let mut options = synced(b, &at);
    options.set.push("workload.0.block_size=\"256KiB\"".into());
    let pid = b.start(&options)?;
    limit_bytes(b, pid, &disk, ("write", 256 << 10))
}

/// Writes to a file that grows, each with a sync, under a limit of writes.
pub fn growing_syncs_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("ext4", 512), grown_with_syncs, "write")
}

/// The same without a limit, on XFS, on a disk that is slow now and then.
pub fn growing_syncs_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("xfs", 512), grown_with_syncs)
}

/// The same on btrfs, which is frozen.
pub fn growing_syncs_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("btrfs", 512), grown_with_syncs)
}

/// Writes through the page cache that are durable one by one, and the program is frozen.
pub fn cached_durable_frozen(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let mut options = cached_durably(b, &at);
    options.without_pauses();
    let pid = b.start(&options)?;
    stopped::frozen(b, pid)
}

/// The same, and the CPU is taken away.
pub fn cached_durable_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(320)?.mount(&mut b.undo, "xfs")?;
    let options = cached_durably(b, &at);
    b.start(&options)?;
    cpu::hogged(b)
}

/// Syncs where there is no journal, under a limit of writes.
pub fn ext2_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    tool("mkfs.ext2", &["-q", "-E", "nodiscard", &disk.device.to_string_lossy()])?;
    let at = disk.mount_made(&mut b.undo, "ext2")?;
    let options = synced(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// Large direct writes, and the file system is frozen.
pub fn large_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(128)?.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.push("workload.0.block_size=\"256KiB\"".into());
    options.more = ["--size", "64MiB"].map(String::from).to_vec();
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Large reads that are not in the page cache, of a disk that is slow now and then.
pub fn large_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let mut options = cold(b, &disk.device);
    options.set.push("workload.0.block_size=\"64KiB\"".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Syncs of a file in stripes, half of which are on a disk that is slow now and then.
pub fn striped_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = two_disks(b, "raid0")?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads that are not in the page cache, which io_uring's polling thread is asked for, of a slow disk.
pub fn polled_cold(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let mut options = cold(b, &disk.device);
    options.set.push("target.options.sqpoll=true".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Direct writes that are durable one by one, submitted by that thread.
pub fn polled_durable(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.push("target.options.layout=always".into());
    options.set.push("target.options.sqpoll=true".into());
    options.more = ["--size", "16MiB", "--sync", "dsync"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Writes at a steady rate to a file system that is frozen.
pub fn paced_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.clear();
    options.more = ["--size", "16MiB", "--rate", "1000/s"].map(String::from).to_vec();
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Syncs of ext4 without a journal, under a limit of writes.
pub fn without_journal_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let at = disk.mount_ext4(&mut b.undo, &["-O", "^has_journal"])?;
    let options = synced(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// A store's syncs on XFS, on a disk whose syncs take long.
pub fn store_syncs_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let options = synced_updates(updates(b, &at));
    b.start(&options)?;
    b.slow_syncs(&slow)
}

fn grown_with_syncs(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = through_cache(b.options(at.join("victim"), "write"));
    options.more = ["--size", "400MiB", "--sync", "fdatasync"].map(String::from).to_vec();
    options
}

fn cached_durably(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = synced(b, at);
    options.more = ["--size", "16MiB", "--sync", "dsync"].map(String::from).to_vec();
    options
}
