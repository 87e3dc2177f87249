//! Faults under loads of other shapes: many threads or one request at a time, deep queues, several files, blocks
//! given back, scans and mixes of stores.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::{synced, through_cache};
use crate::faults::crossed::written;
use crate::faults::objects::{object_load, objects};
use crate::faults::store::{direct_gets, inside_words, synced_updates, updates};
use crate::faults::{cpu, filesystem, staged, stopped};
use crate::victim::VictimOptions;

/// A neighbour empties the page cache of the disk that the victim reads, and the disk is slow.
pub fn flushed_buffers(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(16)?;
    let mut options = through_cache(b.options(disk.device.clone(), "randread"));
    options.set.push("target.options.cache=keep".into());
    let name = disk.device.to_string_lossy();
    std::fs::read(&disk.device)?;
    b.start(&options)?;
    let (nap, on) = (b.amplitude, b.amplitude * 3);
    b.pulses(Duration::from_millis(150), Duration::ZERO, |stop| {
        slow.during(nap, || {
            tool("blockdev", &["--flushbufs", &name])?;
            stop.sleep(on)
        })
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// Many reads in flight of a disk that is slow now and then.
pub fn deep_queue(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.depth = 64;
    b.start(&options)?;
    b.slowed(&slow)
}

/// Writes to several files of a file system that is frozen.
pub fn many_files_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("files/"), "randwrite");
    options.set.push("target.options.files=4".into());
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Blocks are given back, and the CPU is taken away.
pub fn trims_hog(b: &mut FaultTrial<'_>) -> Result<()> {
    trims(b)?;
    cpu::hogged(b)
}

/// The same, and the program is stopped.
pub fn trims_stop(b: &mut FaultTrial<'_>) -> Result<()> {
    let pid = trims(b)?;
    stopped::stopped(b, pid)
}

/// Every eighth write is synced, on a disk that is slow now and then.
pub fn eighth_synced(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = synced(b, &at);
    options.more = ["--size", "16MiB", "--sync", "fsync:8"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Many requests at a time to an object store that is stopped.
pub fn pooled_objects(b: &mut FaultTrial<'_>) -> Result<()> {
    let (path, server) = objects(b)?;
    let mut options = object_load(b, path);
    options.depth = 8;
    options.within = inside_words(server);
    b.start(&options)?;
    stopped::stopped(b, server)
}

/// Scans of a store, of a device that is slow now and then.
pub fn slow_scans(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 128), scans)
}

/// The same under a limit of reads.
pub fn scans_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("ext4", 128), scans, "read")
}

/// Reads beside synced updates of a store, on a disk that is slow now and then.
pub fn store_mixed(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 128), reads_and_updates)
}

/// Many threads read a disk that is slow now and then.
pub fn crowded_device(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let options = with_many_threads(b.options(disk.device.clone(), "randread"));
    b.start(&options)?;
    b.slowed(&slow)
}

/// Many threads sync, on a disk that is slow now and then.
pub fn crowded_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("ext4", 64), |b, at| with_many_threads(synced(b, at)))
}

/// Many threads write to a file system that is frozen.
pub fn crowded_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::frozen(b, ("xfs", 320), |b, at| with_many_threads(written(b, at, "16MiB")))
}

/// Many threads read, and the program may run only so long in each period.
pub fn crowded_quota(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let mut options = with_many_threads(b.options(disk.device.clone(), "randread"));
    options.set.clear();
    let pid = b.start(&options)?;
    super::server::limited(b, pid)
}

/// Syncs, one at a time, under a limit of writes.
pub fn single_syncs_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::limited(b, ("ext4", 64), |b, at| single(synced(b, at)), "write")
}

/// Syncs, one at a time, of a disk that is slow now and then.
pub fn single_syncs(b: &mut FaultTrial<'_>) -> Result<()> {
    staged::slowed(b, ("xfs", 320), |b, at| single(synced(b, at)))
}

/// A neighbour makes snapshots of the file system that the victim writes to, and its disk is slow meanwhile.
pub fn snapshots(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(256)?;
    let at = disk.mount(&mut b.undo, "btrfs")?;
    let options = written(b, &at, "16MiB");
    b.start(&options)?;
    let (nap, on) = (b.amplitude, b.amplitude * 2);
    let (from, to) = (at.to_string_lossy().into_owned(), at.join("snapshot"));
    b.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        let slept = slow.during(nap, || {
            tool("btrfs", &["subvolume", "snapshot", &from, &to.to_string_lossy()])?;
            stop.sleep(on)
        });
        tool("btrfs", &["subvolume", "delete", &to.to_string_lossy()])?;
        slept
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// Starts a load that gives blocks back all the time. Its process.
fn trims(b: &mut FaultTrial<'_>) -> Result<u32> {
    let disk = b.disk(64)?;
    let load = b.options(disk.device.clone(), "trim").load;
    let set = vec!["target.destroy=true".into()];
    let options = VictimOptions { load, set, ..b.overwriting(&disk.device) };
    b.start(&options)
}

pub fn with_many_threads(mut options: VictimOptions) -> VictimOptions {
    options.workers = 8;
    options.depth = options.depth.min(4);
    options
}

/// One request at a time of one thread.
fn single(mut options: VictimOptions) -> VictimOptions {
    (options.workers, options.depth) = (1, 1);
    options
}

/// Reads of a store beside updates with syncs.
pub fn reads_and_updates(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = synced_updates(updates(b, at));
    options.set.push("workload.0.mix={get=50,update=50}".into());
    options
}

pub fn scans(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = direct_gets(b, at);
    options.set.push("workload.0.mix={scan=1}".into());
    options
}
