//! Faults in file systems: a server that is busy or may be asked little, freezes, journals that neighbours fill or that
//! are slow, snapshots, data that moves, other options of the mount, and locks of the victim's file that neighbours hold.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use crate::cleanup::{NAME, lab_dir, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::beside::read_direct;
use crate::faults::disk::DIRECT;
use crate::faults::loads::{self, Load};
use crate::faults::stages::{BuiltStage, EXT4, FaultStage, XFS};
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

/// Freezes a file system, again and again.
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

/// A neighbour on this file system makes `many` directories and syncs; writes of `large` KiB and more are slow.
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

/// A journal so short that a neighbour's changes fill it: a thread that changes anything then waits until old entries
/// have been written to their own places on a slow disk.
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

/// A neighbour writes 64 KiB behind the end of the victim's file, or of the file that is its disk, on a slow disk, and
/// then does `more` there: the file, where it wrote, and how much.
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

/// A neighbour writes a few bytes into the victim's file where no page is in memory, and has its lock until a slow disk
/// has read the rest of the page. Only reads are slow, and the victim writes.
pub fn part_written(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.reads_only.store(true, Relaxed);
    let file = File::options().write(true).open(built.victim())?;
    let (delay, pages, mut page) = (trial.amplitude, file.metadata()?.len() / 4096, 0);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        slow.set(1, delay);
        let written = file.write_all_at(b"few", page * 4096 + 100);
        slow.set(0, Duration::ZERO);
        page = (page + 97) % pages;
        Ok(written?)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// A neighbour has the kernel compare the victim's file with a copy, to share its blocks: both are locked while a slow
/// disk reads them. Only reads are slow, and the victim writes.
pub fn deduplicated(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, copy) = (built.slow()?, built.path.join("copy"));
    slow.reads_only.store(true, Relaxed);
    std::fs::copy(built.victim(), &copy)?;
    let (file, same) = (File::open(built.victim())?, File::open(&copy)?);
    let (name, command) = (built.victim(), format!("dedupe {} 0 0 64k", copy.display()));
    let name = name.to_string_lossy();
    let delay = trial.amplitude / 2;
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        for one in [&file, &same] {
            one.sync_all()?;
            fadvise(one, 0, None, Advice::DontNeed)?;
        }
        // What differs is not shared; it has been locked and read all the same.
        slow.during(delay, || drop(tool("xfs_io", &["-c", &command, &name])));
        Ok(())
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// A neighbour takes blocks out of the middle of the file, after what is dirty behind them is on the disk, and puts
/// them back.
pub fn collapsed(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    hold(trial, built, 0, |file, at, length| {
        fallocate(file, FallocateFlags::COLLAPSE_RANGE, at - length, length / 2)?;
        Ok(fallocate(file, FallocateFlags::INSERT_RANGE, at - length, length / 2)?)
    })
}

/// A neighbour removes a large file in many pieces and syncs: a commit of the journal has much to write. Only large
/// writes are slow.
pub fn unlinked(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.least.store(16 << 10, Relaxed);
    let (name, data, delay) = (built.path.join("beside"), [1; 4096], trial.amplitude);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        let file = File::create(&name)?;
        for n in 0..3000 {
            file.write_all_at(&data, n * 8192)?;
        }
        file.sync_all()?;
        drop(file);
        slow.set(1, delay);
        std::fs::remove_file(&name)?;
        let synced = rustix::fs::syncfs(File::open(&built.path)?);
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// A neighbour has btrfs write a part of the victim's file anew in one piece: the file is locked while a slow disk reads
/// that part. Only reads are slow, and the victim writes.
pub fn defragmented(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, victim) = (built.slow()?, built.victim());
    slow.reads_only.store(true, Relaxed);
    let (file, name) = (File::open(&victim)?, victim.to_string_lossy());
    let (delay, words) = (trial.amplitude / 2, ["filesystem", "defragment", "-l", "64K", &name]);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        slow.during(delay, || tool("btrfs", &words)).map(drop)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// A neighbour has the victim's file get blocks of its own again where it shares them with a copy: it is locked while a
/// slow disk reads them. Only reads are slow, and the victim writes.
pub fn unshared(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, copy) = (built.slow()?, built.path.join("copy"));
    slow.reads_only.store(true, Relaxed);
    let file = File::options().read(true).write(true).open(built.victim())?;
    let (delay, how) = (trial.amplitude, FallocateFlags::UNSHARE_RANGE);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        rustix::fs::ioctl_ficlone(File::create(&copy)?, &file)?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(slow.during(delay, || fallocate(&file, how, 0, 64 << 10))?)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// btrfs moves all data to other places, as it is told to when a disk was added, and the disk takes long over large
/// writes; the victim syncs.
pub fn balanced(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, at) = (built.slow()?, built.path.to_string_lossy());
    slow.writes_only.store(true, Relaxed);
    slow.least.store(64 << 10, Relaxed);
    let delay = trial.amplitude / 2;
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        slow.during(delay, || tool("btrfs", &["balance", "start", "-d", &at])).map(drop)
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The file system is mounted anew so that each write waits for the disk, which is slow for as long as that lasts.
pub fn remounted(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, at) = (built.slow()?, built.lower.to_string_lossy());
    let mount = |how: &str| tool("mount", &["-o", how, &at]).map(drop);
    let (delay, on) = (trial.amplitude, trial.amplitude * 4);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        mount("remount,sync")?;
        let slept = slow.during(delay, || stop.sleep(on));
        mount("remount,async")?;
        slept
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The kernel may have one request of direct I/O under way at the server of the victim's file, for a while: eight of
/// them, each of an eighth of the amplitude, take turns.
pub fn narrow_fuse(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let at = lab_dir().join("fusectl");
    std::fs::create_dir_all(&at)?;
    let place = at.to_string_lossy().into_owned();
    tool("mount", &["-t", "fusectl", "fusectl", &place])?;
    trial.undo.add(move || {
        let _ = tool("umount", &[&place]);
        let _ = std::fs::remove_dir(place);
    });
    let number = rustix::fs::minor(std::fs::metadata(&built.path)?.dev());
    let most = at.join(number.to_string()).join("max_background");
    let before = std::fs::read_to_string(&most)?;
    let (slow, on, after) = (built.slow()?, trial.amplitude * 4, trial.amplitude);
    slow.set(1, trial.amplitude / 8);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        set(&most, 1)?;
        let slept = stop.sleep(on);
        set(&most, before.trim())?;
        slept
    })?;
    slow.set(0, Duration::ZERO);
    Ok(())
}

/// Neighbours sync files of their own all the time, and each sync of the disk takes long for a while.
pub fn sync_storm(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (slow, on, delay) = (built.slow()?, trial.amplitude * 4, trial.amplitude / 2);
    let over = AtomicBool::new(false);
    let writer = |n: usize| -> Result<()> {
        let file = File::create(built.path.join(format!("beside-{n}")))?;
        let mut at = 0;
        while !over.load(Relaxed) {
            file.write_all_at(&[1; 512], at)?;
            file.sync_all()?;
            at += 512;
        }
        Ok(())
    };
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        over.store(false, Relaxed);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..6).map(|n| scope.spawn(move || writer(n))).collect();
            slow.set_syncs(delay);
            let slept = stop.sleep(on);
            slow.set_syncs(Duration::ZERO);
            over.store(true, Relaxed);
            writers.into_iter().try_for_each(|w| w.join().unwrap_or(Ok(())))?;
            slept
        })
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The upper file system of a layer of directories is frozen; what lies below is on another one.
pub fn frozen_upper(trial: &mut FaultTrial<'_>) -> Result<()> {
    let lower = FaultStage::Fs(EXT4, 64).make(trial, true)?.path;
    let upper = FaultStage::Fs(XFS, 320).make(trial, false)?.path;
    let at = lab_dir().join(format!("{NAME}-layers"));
    for dir in [&upper.join("upper"), &upper.join("work"), &at] {
        std::fs::create_dir_all(dir)?;
    }
    let (up, place) = (upper.display(), at.to_string_lossy().into_owned());
    let options = format!("lowerdir={},upperdir={up}/upper,workdir={up}/work", lower.display());
    tool("mount", &["-t", "overlay", "overlay", "-o", &options, &place])?;
    trial.undo.add(move || drop(tool("umount", &[&place])));
    started(trial, &at, &[loads::WRITES])?;
    frozen(trial, &upper)
}
