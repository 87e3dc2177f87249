//! Faults below I/O that goes through the page cache: what the cache itself asks of the disk is held
//! back, slow, or not possible.

use std::path::Path;

use anyhow::Result;

use crate::fault_trial::FaultTrial;
use crate::faults::{disk, filesystem};
use crate::victim::VictimOptions;

/// Each sync waits for pages whose way to the disk a limit holds back.
pub fn sync_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let options = synced(b, &at);
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "write")
}

/// Reads that are not in the page cache, under a limit.
pub fn cold_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let mut options = through_cache(b.options(disk.device.clone(), "randread"));
    options.set.push("target.options.cache=drop".into());
    let pid = b.start(&options)?;
    disk::limit(b, pid, &disk, "read")
}

/// Each sync waits for pages on the way to a disk that is slow now and then, ext4.
pub fn sync_device(b: &mut FaultTrial<'_>) -> Result<()> {
    syncs(b, "ext4", 64)
}

/// The same on XFS.
pub fn sync_device_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    syncs(b, "xfs", 320)
}

fn syncs(b: &mut FaultTrial<'_>, kind: &str, mib: usize) -> Result<()> {
    let (disk, slow) = b.slow_disk(mib)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let options = synced(b, &at);
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads one after another, which the kernel reads ahead of: of a disk that is slow now and then.
pub fn read_ahead(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let mut options = through_cache(b.options(disk.device.clone(), "read"));
    options.set.push("target.options.cache=drop".into());
    // Fast enough to come to what is read ahead before that is there.
    options.set.push("workload.0.think={time=\"200us\",every=32}".into());
    b.start(&options)?;
    slow.set(5, b.amplitude);
    while b.more() {
        b.stop.sleep(b.amplitude)?;
    }
    slow.set(0, Default::default());
    b.naps(&slow);
    Ok(())
}

/// A frozen file system, and writes through the page cache.
pub fn freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let mut options = through_cache(b.options(at.join("victim"), "randwrite"));
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    filesystem::frozen(b, &at)
}

/// Through the page cache.
pub fn through_cache(mut options: VictimOptions) -> VictimOptions {
    options.set.push("target.options.direct=false".into());
    options
}

/// Writes through the page cache to blocks that are there, each with a sync.
pub fn synced(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = through_cache(b.options(at.join("victim"), "randwrite"));
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "16MiB", "--sync", "fdatasync"].map(String::from).to_vec();
    options
}
