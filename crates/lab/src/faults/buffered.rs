//! Faults below I/O that goes through the page cache: what the cache itself asks of the disk is held
//! back, slow, or not possible.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cleanup::{lab_dir, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::{disk, filesystem, staged};
use crate::stage::LoopDevice;
use crate::victim::VictimOptions;

/// Each sync waits for pages whose way to the disk a limit holds back, ext4.
pub fn sync_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    limited_syncs(b, "ext4", 64)
}

/// The same on XFS.
pub fn sync_limit_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    limited_syncs(b, "xfs", 320)
}

/// The same on a file system of this kind.
pub fn limited_syncs(b: &mut FaultTrial<'_>, kind: &str, mib: u64) -> Result<()> {
    staged::limited(b, (kind, mib), synced, "write")
}

/// Reads that are not in the page cache, under a limit.
pub fn cold_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(512)?;
    let options = cold(b, &disk.device);
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

/// The same on btrfs.
pub fn sync_device_btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    syncs(b, "btrfs", 256)
}

fn syncs(b: &mut FaultTrial<'_>, kind: &str, mib: usize) -> Result<()> {
    staged::slowed(b, (kind, mib), synced)
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

/// Reads through the page cache from an image that is compressed, on a slow disk.
pub fn compressed(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(192)?;
    let from = lab_dir().join("compressed");
    std::fs::create_dir_all(&from)?;
    let mut data = vec![0u8; 160 << 20];
    let mut seed = 88_172_645_463_325_252_u64;
    for page in data.chunks_mut(4096) {
        for word in page[..2048].chunks_mut(8) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            word.copy_from_slice(&seed.to_le_bytes());
        }
    }
    std::fs::write(from.join("victim"), data)?;
    let (source, device) = (from.to_string_lossy(), disk.device.to_string_lossy());
    let how = ["-noappend", "-b", "4096", "-comp", "lz4", "-quiet", "-no-progress"];
    tool("mksquashfs", &[&[&*source, &*device], &how[..]].concat())?;
    std::fs::remove_dir_all(&from)?;
    let at = disk.mount_made(&mut b.undo, "squashfs")?;
    let mut options = through_cache(b.options(at.join("victim"), "randread"));
    // Nothing has been read yet.
    options.set.push("target.options.cache=keep".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Reads through the page cache of a file that is encrypted, on a slow disk.
pub fn encrypted(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(192)?;
    let safe = encrypted_in(b, &disk)?;
    let mut options = cold(b, &safe.join("victim"));
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "128MiB"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// A directory on this disk whose files are encrypted.
pub fn encrypted_in(b: &mut FaultTrial<'_>, disk: &LoopDevice) -> Result<PathBuf> {
    let at = disk.mount_ext4(&mut b.undo, &["-O", "encrypt"])?;
    let safe = at.join("safe");
    std::fs::create_dir(&safe)?;
    let (root, place) = (at.to_string_lossy(), safe.to_string_lossy());
    let add = "head -c 64 /dev/zero | tr '\\0' k | xfs_io -c add_enckey \"$0\"";
    let said = tool("sh", &["-c", add, &root])?;
    let key = said.split_whitespace().last().context("a key")?.to_owned();
    tool("xfs_io", &["-c", &format!("set_encpolicy -v 2 {key}"), &place])?;
    Ok(safe)
}

/// Writes through the page cache of a part of a page, whose rest has to be read from a slow disk.
pub fn partial_writes(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(512)?;
    let mut options = through_cache(b.overwriting(&disk.device));
    options.set.push("target.options.cache=drop".into());
    options.set.push("workload.0.block_size=\"1KiB\"".into());
    b.start(&options)?;
    b.slowed(&slow)
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

/// Reads of what is not in the page cache, of a device or a file.
pub fn cold(b: &FaultTrial<'_>, path: &Path) -> VictimOptions {
    let mut options = through_cache(b.options(path.to_owned(), "randread"));
    options.set.push("target.options.cache=drop".into());
    options
}

/// Writes through the page cache to blocks that are there, each with a sync.
pub fn synced(b: &FaultTrial<'_>, at: &Path) -> VictimOptions {
    let mut options = through_cache(b.options(at.join("victim"), "randwrite"));
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "16MiB", "--sync", "fdatasync"].map(String::from).to_vec();
    options
}
