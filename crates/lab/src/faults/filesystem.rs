//! Faults in file systems: a slow server, a freeze, a journal that others fill.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::cleanup::tool;
use crate::fault_trial::FaultTrial;
use crate::faults::beside::read_direct;
use crate::faults::disk::DIRECT;
use crate::faults::loads::{self, Load};
use crate::faults::stages::BuiltStage;
use crate::fuse::{self, DelayInjector};

/// Directories that the neighbour of a journal makes at once.
const CROWD: usize = 48;

/// Every thread that serves the victim's file system is busy with a neighbour's large read.
pub fn busy_fuse(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.least.store(64 << 10, Relaxed);
    slow.set(1, trial.amplitude);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        std::thread::scope(|scope| {
            let read = || read_direct(&built.path, 64 << 10);
            let readers: Vec<_> = (0..fuse::SERVERS).map(|_| scope.spawn(read)).collect();
            readers.into_iter().try_for_each(|r| r.join().unwrap_or(Ok(())))
        })
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The victim syncs each write, and the file system's journal is on another disk, whose syncs take long.
pub fn external_journal(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (journal, slow) = trial.slow_disk(64)?;
    let name = journal.device.to_string_lossy();
    tool("mkfs.ext4", &["-q", "-b", "4096", "-O", "journal_dev", &name])?;
    let disk = trial.disk(64)?;
    let how = format!("device={name}");
    let at = disk.mount_ext4(&mut trial.undo, &["-b", "4096", "-J", &how])?;
    started(trial, &at, &[loads::FSYNCED])?;
    trial.slow_syncs(&slow)
}

/// Starts a victim on this file system.
pub fn started(trial: &mut FaultTrial<'_>, at: &Path, load: Load) -> Result<u32> {
    let built = BuiltStage { path: at.to_owned(), ..BuiltStage::default() };
    let options = loads::options(load, trial, &built)?;
    trial.start(&options)
}

/// A file system, again and again.
pub fn frozen(trial: &mut FaultTrial<'_>, at: &Path) -> Result<()> {
    let place = at.to_string_lossy().into_owned();
    let on = trial.amplitude;
    trial.pulses(Duration::from_millis(200), Duration::from_millis(2), |stop| {
        tool("fsfreeze", &["--freeze", &place])?;
        let slept = stop.sleep(on);
        tool("fsfreeze", &["--unfreeze", &place])?;
        slept
    })
}

/// The victim syncs; a neighbour on the same journal or log makes many directories and syncs, so that a commit has
/// much to write. Only large writes are slow, as the victim's are not.
pub fn commits(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    crowds(trial, &built.lower, built.slow()?, (32, CROWD))
}

/// The same with transactions of btrfs.
pub fn transactions(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    crowds(trial, &built.lower, built.slow()?, (128, CROWD * 8))
}

/// A neighbour on this file system makes so many directories and syncs; writes of so many KiB are slow.
fn crowds(
    trial: &mut FaultTrial<'_>,
    at: &Path,
    slow: &DelayInjector,
    (large, many): (u64, usize),
) -> Result<()> {
    slow.least.store(large << 10, Relaxed);
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (delay, mut round) = (trial.amplitude, 0);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        round += 1;
        slow.set(1, delay);
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
pub fn short_journal(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let at = disk.mount_ext4(&mut trial.undo, &["-b", "1024", "-J", "size=1"])?;
    started(trial, &at, &[loads::WRITES, loads::CACHED, loads::LAYOUT, loads::OF_8M])?;
    let crowd = at.join("crowd");
    std::fs::create_dir(&crowd)?;
    let (delay, mut round) = (trial.amplitude / 2, 0);
    trial.pulses(Duration::from_millis(300), Duration::ZERO, |_| {
        round += 1;
        slow.set(4, delay);
        for n in 0..CROWD * 8 {
            std::fs::create_dir(crowd.join(format!("{round}-{n}")))?;
        }
        slow.set(0, Duration::ZERO);
        Ok(())
    })
}

/// A neighbour makes a copy of the victim's file that shares its blocks, after what is dirty in it is on the disk.
pub fn cloned(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let copy = built.path.join("copy");
    let from = File::open(built.victim())?;
    hold(trial, built, 0, |_, _, _| Ok(rustix::fs::ioctl_ficlone(File::create(&copy)?, &from)?))
}

/// A neighbour makes the victim's file longer, past the page cache, and holds its lock until the slow
/// device has the data. Only such large writes are slow.
pub fn lengthened(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    hold(trial, built, DIRECT, |_, _, _| Ok(()))
}

/// A neighbour makes room in the file where pages are dirty: its lock is held until they are written.
pub fn inserted(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    hold(trial, built, 0, |file, at, length| {
        Ok(fallocate(file, FallocateFlags::INSERT_RANGE, at, length)?)
    })
}

/// A neighbour cuts the end off the file while that is on its way to the disk.
pub fn truncated(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    hold(trial, built, 0, |file, at, length| {
        fadvise(file, at, std::num::NonZeroU64::new(length), Advice::DontNeed)?;
        Ok(file.set_len(at)?)
    })
}

/// A neighbour punches holes behind the victim's part of the file, where pages are dirty.
pub fn punched(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    hold(trial, built, 0, |file, at, length| {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(file, how, at, length)?)
    })
}

/// A neighbour writes behind the end of the victim's file, or of its disk's, on a slow disk, and then does something more.
fn hold(
    trial: &mut FaultTrial<'_>,
    built: &BuiltStage,
    flags: i32,
    mut more: impl FnMut(&File, u64, u64) -> Result<()>,
) -> Result<()> {
    let slow = built.slow()?;
    slow.writes_only.store(true, Relaxed);
    slow.least.store(64 << 10, Relaxed);
    let name = if built.path.is_dir() { built.victim() } else { built.lower.join("image") };
    let file = File::options().write(true).custom_flags(flags).open(name)?;
    let room = vec![0u8; 132 << 10];
    let start = room.as_ptr().align_offset(4096);
    let data = room.get(start..start + (64 << 10)).context("room for an aligned write")?;
    let (delay, mut end) = (trial.amplitude, file.metadata()?.len());
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        slow.set(1, delay);
        file.write_all_at(data, end)?;
        more(&file, end, data.len() as u64)?;
        slow.set(0, Duration::ZERO);
        end += data.len() as u64;
        Ok(())
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// A neighbour makes snapshots of the file system that the victim writes to, and its disk is slow meanwhile.
pub fn snapshots(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (at, slow) = (&built.path, built.slow()?);
    let (delay, on) = (trial.amplitude, trial.amplitude * 2);
    let (from, to) = (at.to_string_lossy().into_owned(), at.join("snapshot"));
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        let slept = slow.during(delay, || {
            tool("btrfs", &["subvolume", "snapshot", &from, &to.to_string_lossy()])?;
            stop.sleep(on)
        });
        tool("btrfs", &["subvolume", "delete", &to.to_string_lossy()])?;
        slept
    })?;
    trial.only_delays(slow);
    Ok(())
}
