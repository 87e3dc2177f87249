//! Faults made by neighbours that change, sync, read, write, scan or trim what the victim uses.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use rustix::fs::{Advice, fadvise};
use rustix::thread::gettid;

use crate::cleanup::{Undo, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::disk::DIRECT;
use crate::faults::filesystem::started;
use crate::faults::loads;
use crate::faults::stages::BuiltStage;
use crate::fuse::DelayInjector;
use crate::stage::{LabCgroup, LoopDevice};

const MIB: u64 = 1 << 20;
/// Size of a neighbour's I/Os where only those of this size and more are made slow: the victim's are smaller.
const LARGE: u64 = 64 << 10;
const GAP: Duration = Duration::from_millis(200);

/// The disk's scheduler is changed: its queue is closed until what is in flight is done.
pub fn switched(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    switch(trial, &disk, disk.device.clone(), &slow)
}

/// The same of the disk below the one that the victim reads.
pub fn lower_switched(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let upper = LoopDevice::over(&mut trial.undo, &disk.device, true)?;
    switch(trial, &disk, upper.device, &slow)
}

fn switch(
    trial: &mut FaultTrial<'_>,
    disk: &LoopDevice,
    read: PathBuf,
    slow: &DelayInjector,
) -> Result<()> {
    closed(trial, (disk, "scheduler", ["mq-deadline", "none"]), read, slow)
}

/// The disk's queue is made longer or shorter: closed as well.
pub fn resized(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    closed(trial, (&disk, "nr_requests", ["64", "128"]), disk.device.clone(), &slow)
}

/// A setting of the disk's queue is changed to the one value and the other in turn, each time while a slow read is in
/// flight: no other I/O enters the queue until that is done.
fn closed(
    trial: &mut FaultTrial<'_>,
    (disk, setting, values): (&LoopDevice, &str, [&'static str; 2]),
    read: PathBuf,
    slow: &DelayInjector,
) -> Result<()> {
    let setting = disk.sys("queue").join(setting);
    let (undone, last) = (setting.clone(), values[1]);
    trial.undo.add(move || drop(set(&undone, last)));
    let mut values = values.into_iter().cycle();
    closed_by(trial, (disk, read, slow), || set(&setting, values.next().context("a value")?))
}

/// The same with something else that closes the queue.
fn closed_by(
    trial: &mut FaultTrial<'_>,
    (disk, read, slow): (&LoopDevice, PathBuf, &DelayInjector),
    mut change: impl FnMut() -> Result<()>,
) -> Result<()> {
    let options = trial.options(read, "randread");
    trial.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    slow.set(1, trial.amplitude);
    trial.pulses(GAP, Duration::ZERO, |stop| {
        std::thread::scope(|scope| {
            let slow_one = scope.spawn(|| read_direct(&disk.device, LARGE));
            stop.sleep(Duration::from_millis(1))?;
            change()?;
            slow_one.join().unwrap_or(Ok(()))
        })
    })
}

/// The disk's driver is told to go through the page cache of what is below it, and past that again: for each it closes
/// the disk's queue.
pub fn reconfigured(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let (read, name) = (disk.device.clone(), disk.device.to_string_lossy());
    closed_by(trial, (&disk, read, &slow), || {
        let told = |how: &str| tool("losetup", &[how, &name]).map(drop);
        told("--direct-io=off")?;
        told("--direct-io=on")
    })
}

/// One direct read of so many bytes from the beginning.
pub fn read_direct(device: &Path, bytes: u64) -> Result<()> {
    let file = File::options().read(true).custom_flags(DIRECT).open(device)?;
    let mut room = vec![0; bytes as usize + 4096];
    let start = room.as_ptr().align_offset(4096);
    let buffer = room.get_mut(start..start + bytes as usize).context("an aligned buffer")?;
    Ok(file.read_exact_at(buffer, 0)?)
}

/// A neighbour syncs the disk, whose driver does nothing else until that is done.
pub fn flush(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (disk, slow) = (built.disk()?, built.slow()?);
    slow.set_syncs(trial.amplitude);
    let device = File::options().write(true).open(&disk.device)?;
    trial.pulses(GAP, Duration::ZERO, |_| Ok(device.sync_all()?))?;
    slow.set_syncs(Duration::ZERO);
    trial.only_delays(slow);
    Ok(())
}

/// Commits of the journal wait for the data of a file that a neighbour has just written.
pub fn ordered(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    data_first(&at)?;
    started(trial, &at, &[loads::FSYNCED])?;
    slow.least.store(LARGE, Relaxed);
    let (delay, file) = (trial.amplitude, at.join("beside"));
    let name = file.to_string_lossy();
    let words = ["-f", "-c", "pwrite -q 0 512k", "-c", "sync_range -w 0 512k", &name];
    trial.pulses(GAP, Duration::ZERO, |stop| {
        slow.set(1, delay);
        tool("xfs_io", &words)?;
        stop.sleep(delay)?;
        slow.set(0, Duration::ZERO);
        Ok(std::fs::remove_file(&file)?)
    })?;
    trial.only_delays(&slow);
    Ok(())
}

/// Has commits of ext4 wait for new data: else its blocks count as unwritten until it is there, and none needs to.
fn data_first(at: &Path) -> Result<()> {
    tool("mount", &["-o", "remount,dioread_lock", &at.to_string_lossy()]).map(drop)
}

/// Commits of the journal wait for the data of a neighbour that a limit of its control group holds back.
pub fn limited_data(trial: &mut FaultTrial<'_>) -> Result<()> {
    const DATA: u64 = 512 << 10;
    let disk = trial.disk(64)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    data_first(&at)?;
    started(trial, &at, &[loads::FSYNCED])?;
    let group = LabCgroup::of(&mut trial.undo, "blkio")?;
    // As in `limited_holder`.
    let per_s = DATA * 1000 / (100 + trial.amplitude.as_millis() as u64);
    group.set("blkio.throttle.write_bps_device", format!("{} {per_s}", disk.number()?))?;
    let (file, within) = (at.join("beside"), group.within());
    let name = file.to_string_lossy();
    let writes = ["xfs_io", "-f", "-c", "pwrite -q 0 512k", "-c", "sync_range -w -a 0 512k", &name];
    let words: Vec<&str> = within[1..].iter().map(String::as_str).chain(writes).collect();
    trial.pulses(GAP, Duration::ZERO, |_| {
        tool("sh", &words)?;
        Ok(std::fs::remove_file(&file)?)
    })
}

/// A program that looks at each access before it goes on, as a virus scanner does, takes long now and then.
pub fn scanner(trial: &mut FaultTrial<'_>) -> Result<()> {
    let at = trial.disk(64)?.mount(&mut trial.undo, "ext4")?;
    let slow = Arc::new(DelayInjector::default());
    scan(&mut trial.undo, &at, slow.clone(), MaskFlags::FAN_ACCESS_PERM)?;
    let mut options = trial.options(at.join("victim"), "randread");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    trial.start(&options)?;
    trial.slowed(&slow)
}

/// The same of each open of a file.
pub fn scanned_opens(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = Arc::new(DelayInjector::default());
    scan(&mut trial.undo, &built.path, slow.clone(), MaskFlags::FAN_OPEN_PERM)?;
    trial.slowed(&slow)
}

/// `what` it is asked about: accesses or opens.
fn scan(undo: &mut Undo, at: &Path, slow: Arc<DelayInjector>, what: MaskFlags) -> Result<()> {
    let group = Fanotify::init(InitFlags::FAN_CLASS_CONTENT, EventFFlags::O_RDONLY)?;
    let (over, last) = (Arc::new(AtomicBool::new(false)), at.join("last"));
    // Before it is asked: nobody answers yet.
    std::fs::write(&last, "x")?;
    let how = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
    group.mark(how, what, File::open(at)?, None::<&Path>)?;
    let ended = over.clone();
    let thread = std::thread::Builder::new().name("scanner".into()).spawn(move || {
        while !ended.load(Relaxed) {
            let Ok(events) = group.read_events() else { return };
            for fd in events.iter().filter_map(|e| e.fd()) {
                slow.pass(usize::MAX);
                let _ = group.write_response(FanotifyResponse::new(fd, Response::FAN_ALLOW));
            }
        }
    })?;
    undo.add(move || {
        over.store(true, Relaxed);
        // An access, so that it looks up.
        let _ = std::fs::read(last);
        let _ = thread.join();
    });
    Ok(())
}

/// A control group's limit of bytes leaves room for the victim, until neighbours in the group read much.
pub fn shared_limit(trial: &mut FaultTrial<'_>) -> Result<()> {
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.set = vec![format!("workload.0.think={{time=\"2ms\",every={}}}", trial.depth())];
    let pid = trial.start(&options)?;
    let group = LabCgroup::of(&mut trial.undo, "blkio")?;
    group.add_process(pid)?;
    let (number, bytes) = (disk.number()?, 4 * MIB);
    let per_s = bytes * 1000 / trial.amplitude.as_millis() as u64;
    let limit = |n: u64| group.set("blkio.throttle.read_bps_device", format!("{number} {n}"));
    limit(per_s)?;
    let (on, after) = (trial.amplitude * 4, trial.amplitude * 2);
    let done = trial.pulses(GAP, after, |stop| {
        let over = AtomicBool::new(false);
        let reads = || -> Result<()> {
            group.set("tasks", gettid().as_raw_nonzero())?;
            while !over.load(Relaxed) {
                read_direct(&disk.device, bytes)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(reads), scope.spawn(reads)];
            let slept = stop.sleep(on);
            over.store(true, Relaxed);
            readers.into_iter().try_for_each(|r| r.join().unwrap_or(Ok(())))?;
            slept
        })
    });
    limit(0)?;
    done
}

/// A neighbour makes the victim's file longer, and a limit of its control group holds it back while it has
/// the file's lock.
pub fn limited_holder(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "blkio")?;
    // What may pass in 100 ms passes at once (THROTL_SLICE, block/blk-throttle.c).
    let per_s = LARGE * 1000 / (100 + trial.amplitude.as_millis() as u64);
    group.set("blkio.throttle.write_bps_device", format!("{} {per_s}", built.disk()?.number()?))?;
    let file = File::options().write(true).custom_flags(DIRECT).open(built.victim())?;
    let room = vec![0u8; LARGE as usize + 4096];
    let start = room.as_ptr().align_offset(4096);
    let data = room.get(start..start + LARGE as usize).context("an aligned buffer")?;
    let mut end = file.metadata()?.len();
    trial.pulses(GAP, Duration::ZERO, |_| {
        let write = || -> Result<()> {
            group.set("tasks", gettid().as_raw_nonzero())?;
            Ok(file.write_all_at(data, end)?)
        };
        std::thread::scope(|scope| scope.spawn(write).join().unwrap_or(Ok(())))?;
        end += LARGE;
        Ok(())
    })
}

/// Pages that a neighbour is just reading from a slow disk, and which the victim wants as well.
pub fn same_pages(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(16)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.set.push("target.options.direct=false".into());
    options.set.push("target.options.cache=keep".into());
    // Page by page, so that they can be dropped page by page.
    let ahead = disk.sys("queue/read_ahead_kb");
    set(&ahead, 0)?;
    let device = File::open(&disk.device)?;
    std::io::copy(&mut &device, &mut std::io::sink())?;
    set(&ahead, 128)?;
    slow.least.store(LARGE, Relaxed);
    slow.set(1, trial.amplitude);
    trial.start(&options)?;
    let mut at = 0;
    trial.pulses(Duration::from_millis(80), Duration::ZERO, |_| {
        let (from, length) = (at, std::num::NonZeroU64::new(MIB / 8));
        at = (at + 5 * MIB / 8) % (15 * MIB);
        fadvise(&device, from, length, Advice::DontNeed)?;
        Ok(fadvise(&device, from, length, Advice::WillNeed)?)
    })?;
    trial.stop.sleep(trial.amplitude * 2)?;
    trial.only_delays(&slow);
    Ok(())
}

/// A disk that wants pages left alone while they are on their way to it, and a neighbour that syncs the
/// victim's file: a write to such a page waits.
pub fn stable_pages(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let stable = disk.sys("queue/stable_writes");
    let undone = stable.clone();
    trial.undo.add(move || drop(set(&undone, 0)));
    set(&stable, 1)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    started(trial, &at, &[loads::WRITES, loads::CACHED, loads::LAYOUT, loads::OF_2M])?;
    slow.least.store(LARGE, Relaxed);
    let (delay, file) = (trial.amplitude, File::open(at.join("victim"))?);
    trial.pulses(GAP, Duration::ZERO, |_| {
        slow.set(1, delay);
        let synced = file.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })?;
    trial.only_delays(&slow);
    Ok(())
}

/// Syncs beside the writeback of a neighbour, of which the kernel lets only little into a short queue.
pub fn writeback_limit(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(128)?;
    // Fewer requests, and those no larger, than the disk can be slow with at the same time.
    for (file, value) in [("queue/nr_requests", 6), ("queue/max_sectors_kb", 128)] {
        let (file, before) = (disk.sys(file), std::fs::read_to_string(disk.sys(file))?);
        set(&file, value)?;
        trial.undo.add(move || drop(set(&file, before.trim())));
    }
    let at = disk.mount(&mut trial.undo, "ext4")?;
    started(trial, &at, &[loads::SYNCED])?;
    slow.least.store(LARGE, Relaxed);
    let file = File::create(at.join("beside"))?;
    let (data, delay) = (vec![1; 16 << 20], trial.amplitude / 2);
    trial.pulses(GAP, Duration::ZERO, |_| {
        file.write_all_at(&data, 0)?;
        slow.set(1, delay);
        let synced = file.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// All free blocks of the file system are given back at once, as a weekly timer does, to a disk that takes
/// long over it and does nothing else meanwhile.
pub fn trimmed(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (at, slow) = (&built.path, built.slow()?);
    slow.least.store(LARGE, Relaxed);
    let (delay, file) = (trial.amplitude, at.join("beside"));
    trial.pulses(GAP, Duration::ZERO, |_| {
        // Blocks are given back once: some must be free anew.
        std::fs::write(&file, vec![1; 4 << 20])?;
        File::open(&file)?.sync_all()?;
        std::fs::remove_file(&file)?;
        rustix::fs::syncfs(File::open(at)?)?;
        slow.set(1, delay);
        tool("fstrim", &[at])?;
        slow.set(0, Duration::ZERO);
        Ok(())
    })?;
    trial.only_delays(slow);
    Ok(())
}
