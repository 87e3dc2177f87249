//! Faults in file systems: a slow server, a freeze, a journal that others fill.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::disk::DIRECT;
use crate::fuse;
use crate::stage::{LoopDevice, image};

const MIB: u64 = 1 << 20;
/// Directories that the neighbour of a journal makes at once.
const CROWD: usize = 48;

/// The victim's own file system is served by a process that sleeps every so often.
pub fn slow_fuse(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let mut options = b.options(file, "randread");
    options.set.push("target.options.allow_holes=true".into());
    options.set.push("target.options.read_in_use=true".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Frozen and thawed again, ext4.
pub fn freeze_ext4(b: &mut FaultTrial<'_>) -> Result<()> {
    freeze(b, "ext4", 64 * MIB)
}

/// Frozen and thawed again, XFS.
pub fn freeze_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    freeze(b, "xfs", 320 * MIB)
}

fn freeze(b: &mut FaultTrial<'_>, kind: &str, bytes: u64) -> Result<()> {
    let file = image(&mut b.undo, "image", bytes)?;
    let disk = LoopDevice::over(&mut b.undo, &file, false)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    let place = at.to_string_lossy().into_owned();
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        tool("fsfreeze", &["--freeze", &place])?;
        let slept = stop.sleep(on);
        tool("fsfreeze", &["--unfreeze", &place])?;
        slept
    })
}

/// The victim syncs each write; a neighbour on the same journal makes many directories and syncs, so
/// that a commit has much to write. Only large writes are slow, as the victim's are not.
pub fn journal(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = LoopDevice::over(&mut b.undo, &file, true)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "write");
    options.more = ["--size", "4MiB", "--sync", "fsync"].map(String::from).to_vec();
    b.start(&options)?;
    slow.least.store(32 << 10, Relaxed);
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (nap, mut round) = (b.amplitude, 0);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        round += 1;
        slow.set(1, nap);
        for n in 0..CROWD {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        let synced = std::fs::File::open(&crowd)?.sync_all();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// A neighbour makes the victim's file longer, past the page cache, and holds its lock until the slow
/// device has the data. Only such large writes are slow.
pub fn file_lock(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = LoopDevice::over(&mut b.undo, &file, true)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = b.options(victim.clone(), "randread");
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    slow.writes_only.store(true, Relaxed);
    slow.least.store(64 << 10, Relaxed);
    let file = std::fs::File::options().write(true).custom_flags(DIRECT).open(&victim)?;
    let room = vec![0u8; 132 << 10];
    let start = room.as_ptr().align_offset(4096);
    let data = room.get(start..start + (64 << 10)).context("room for an aligned write")?;
    let (nap, mut end) = (b.amplitude, 4 * MIB);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        slow.set(1, nap);
        file.write_all_at(data, end)?;
        slow.set(0, Duration::ZERO);
        end += data.len() as u64;
        Ok(())
    })?;
    b.truth = Default::default();
    b.naps(&slow);
    Ok(())
}
