//! Faults in file systems: a slow server, a freeze, a journal that others fill.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::beside::read_direct;
use crate::faults::disk::DIRECT;
use crate::fuse::{self, Brake};
use crate::stage::{LoopDevice, overlaid_for_reading};

/// Directories that the neighbour of a journal makes at once.
pub const CROWD: usize = 48;

/// The victim's own file system is served by a process that sleeps every so often.
pub fn slow_fuse(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let mut options = b.options(file, "randread");
    options.set.push("target.options.allow_holes=true".into());
    options.set.push("target.options.read_in_use=true".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// The same below an overlay.
pub fn overlay_fuse(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let lower = file.parent().context("a mount point")?;
    let at = overlaid_for_reading(&mut b.undo, lower)?;
    let mut options = b.options(at.join(fuse::FILE), "randread");
    options.set.push("target.options.allow_holes=true".into());
    options.set.push("target.options.read_in_use=true".into());
    b.start(&options)?;
    b.slowed(&slow)
}

/// Every thread that serves the victim's file system is busy with a neighbour's large read.
pub fn busy_fuse(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let mut options = b.options(file.clone(), "randread");
    options.set.push("target.options.allow_holes=true".into());
    options.set.push("target.options.read_in_use=true".into());
    b.start(&options)?;
    slow.least.store(64 << 10, Relaxed);
    slow.set(1, b.amplitude);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        std::thread::scope(|scope| {
            let read = || read_direct(&file, 64 << 10);
            let readers: Vec<_> = (0..fuse::SERVERS).map(|_| scope.spawn(read)).collect();
            readers.into_iter().try_for_each(|r| r.join().unwrap_or(Ok(())))
        })
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// The victim syncs each write, and the file system's journal is on another disk, whose syncs take long.
pub fn external_journal(b: &mut FaultTrial<'_>) -> Result<()> {
    let (journal, slow) = b.slow_disk(64)?;
    let name = journal.device.to_string_lossy();
    tool("mkfs.ext4", &["-q", "-b", "4096", "-O", "journal_dev", &name])?;
    let disk = b.disk(64)?;
    let how = format!("device={name}");
    let at = disk.mount_ext4(&mut b.undo, &["-b", "4096", "-J", &how])?;
    let mut options = b.options(at.join("victim"), "write");
    options.more = ["--size", "4MiB", "--sync", "fsync"].map(String::from).to_vec();
    b.start(&options)?;
    b.slow_syncs(&slow)
}

/// Reads of what is in the page cache, of a file in which a neighbour makes room on a slow disk: XFS lets
/// nobody read meanwhile.
pub fn cached_lock(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let victim = at.join("victim");
    let mut options = super::buffered::through_cache(b.options(victim.clone(), "randread"));
    options.set.push("target.options.cache=warm".into());
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    hold(b, &victim, &slow, 0, inserted)
}

/// Frozen and thawed again, ext4.
pub fn freeze_ext4(b: &mut FaultTrial<'_>) -> Result<()> {
    freeze(b, "ext4", 64)
}

/// Frozen and thawed again, XFS.
pub fn freeze_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    freeze(b, "xfs", 320)
}

fn freeze(b: &mut FaultTrial<'_>, kind: &str, mib: u64) -> Result<()> {
    let at = b.disk(mib)?.mount(&mut b.undo, kind)?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    frozen(b, &at)
}

/// A file system, again and again.
pub fn frozen(b: &mut FaultTrial<'_>, at: &Path) -> Result<()> {
    let place = at.to_string_lossy().into_owned();
    let on = b.amplitude;
    b.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        tool("fsfreeze", &["--freeze", &place])?;
        let slept = stop.sleep(on);
        tool("fsfreeze", &["--unfreeze", &place])?;
        slept
    })
}

/// The file system that a loop device's file is in is frozen: the device cannot write.
pub fn lower_freeze(b: &mut FaultTrial<'_>) -> Result<()> {
    below(b, "ext4", 128)
}

/// The same with XFS.
pub fn lower_freeze_xfs(b: &mut FaultTrial<'_>) -> Result<()> {
    below(b, "xfs", 320)
}

fn below(b: &mut FaultTrial<'_>, kind: &str, mib: u64) -> Result<()> {
    let at = b.disk(mib)?.mount(&mut b.undo, kind)?;
    let upper = upper(b, &at, true)?;
    let options = b.overwriting(&upper.device);
    b.start(&options)?;
    frozen(b, &at)
}

/// A loop device over a file in this file system.
pub fn upper(b: &mut FaultTrial<'_>, at: &Path, direct: bool) -> Result<LoopDevice> {
    let file = at.join("image");
    std::fs::write(&file, vec![0; 32 << 20])?;
    File::open(&file)?.sync_all()?;
    LoopDevice::over(&mut b.undo, &file, direct)
}

/// The victim syncs each write; a neighbour on the same journal makes many directories and syncs, so
/// that a commit has much to write. Only large writes are slow, as the victim's are not.
pub fn journal(b: &mut FaultTrial<'_>) -> Result<()> {
    commits(b, "ext4", (64, 32), CROWD)
}

/// The same with the log of XFS.
pub fn xfs_log(b: &mut FaultTrial<'_>) -> Result<()> {
    commits(b, "xfs", (320, 32), CROWD)
}

/// The same with transactions of btrfs.
pub fn btrfs(b: &mut FaultTrial<'_>) -> Result<()> {
    commits(b, "btrfs", (256, 128), CROWD * 8)
}

/// `sizes`: of the disk, MiB, and of the smallest write that is slow, KiB.
fn commits(
    b: &mut FaultTrial<'_>,
    kind: &str,
    (mib, large): (usize, u64),
    many: usize,
) -> Result<()> {
    let (disk, slow) = b.slow_disk(mib)?;
    let at = disk.mount(&mut b.undo, kind)?;
    let mut options = b.options(at.join("victim"), "write");
    options.more = ["--size", "4MiB", "--sync", "fsync"].map(String::from).to_vec();
    b.start(&options)?;
    crowds(b, &at, &slow, (large, many))
}

/// A neighbour on this file system makes so many directories and syncs; writes of so many KiB are slow.
pub fn crowds(
    b: &mut FaultTrial<'_>,
    at: &Path,
    slow: &Brake,
    (large, many): (u64, usize),
) -> Result<()> {
    slow.least.store(large << 10, Relaxed);
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (nap, mut round) = (b.amplitude, 0);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        round += 1;
        slow.set(1, nap);
        for n in 0..many {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        let synced = rustix::fs::syncfs(File::open(&crowd)?);
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// A journal so short that what a neighbour changes fills it: who changes anything waits until old entries
/// are where they belong, which a slow disk makes long.
pub fn short_journal(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount_ext4(&mut b.undo, &["-b", "1024", "-J", "size=1"])?;
    let mut options = super::buffered::through_cache(b.options(at.join("victim"), "randwrite"));
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "8MiB"].map(String::from).to_vec();
    b.start(&options)?;
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (nap, mut round) = (b.amplitude / 2, 0);
    b.pulses(Duration::from_millis(300), Duration::ZERO, |_| {
        round += 1;
        slow.set(4, nap);
        for n in 0..CROWD * 8 {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        slow.set(0, Duration::ZERO);
        Ok(())
    })
}

/// A neighbour makes a copy of the victim's file that shares its blocks, after what is dirty in it is on the
/// disk.
pub fn cloned(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(320)?;
    let at = disk.mount(&mut b.undo, "xfs")?;
    let victim = at.join("victim");
    let mut options = b.options(victim.clone(), "randread");
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    let copy = at.join("copy");
    let from = File::open(&victim)?;
    hold(b, &victim, &slow, 0, |_, _, _| {
        Ok(rustix::fs::ioctl_ficlone(File::create(&copy)?, &from)?)
    })
}

/// A neighbour makes the victim's file longer, past the page cache, and holds its lock until the slow
/// device has the data. Only such large writes are slow.
pub fn file_lock(b: &mut FaultTrial<'_>) -> Result<()> {
    held(b, DIRECT, |_, _, _| Ok(()))
}

/// A neighbour makes room in the file where pages are dirty: its lock is held until they are written.
pub fn insert_range(b: &mut FaultTrial<'_>) -> Result<()> {
    held(b, 0, inserted)
}

/// Makes room in a file.
fn inserted(file: &File, at: u64, length: u64) -> Result<()> {
    Ok(fallocate(file, FallocateFlags::INSERT_RANGE, at, length)?)
}

/// A neighbour writes behind the victim's part of the file, and then does something more.
fn held(
    b: &mut FaultTrial<'_>,
    flags: i32,
    more: impl FnMut(&File, u64, u64) -> Result<()>,
) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = b.options(victim.clone(), "randread");
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    hold(b, &victim, &slow, flags, more)
}

/// A neighbour writes behind the end of a file on a slow disk, and then does something more.
pub fn hold(
    b: &mut FaultTrial<'_>,
    file: &Path,
    slow: &Brake,
    flags: i32,
    mut more: impl FnMut(&File, u64, u64) -> Result<()>,
) -> Result<()> {
    slow.writes_only.store(true, Relaxed);
    slow.least.store(64 << 10, Relaxed);
    let file = File::options().write(true).custom_flags(flags).open(file)?;
    let room = vec![0u8; 132 << 10];
    let start = room.as_ptr().align_offset(4096);
    let data = room.get(start..start + (64 << 10)).context("room for an aligned write")?;
    let (nap, mut end) = (b.amplitude, file.metadata()?.len());
    b.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        slow.set(1, nap);
        file.write_all_at(data, end)?;
        more(&file, end, data.len() as u64)?;
        slow.set(0, Duration::ZERO);
        end += data.len() as u64;
        Ok(())
    })?;
    b.only_naps(slow);
    Ok(())
}
