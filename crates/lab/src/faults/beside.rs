//! Faults made by neighbours that set, sync, lock or read what the victim uses.

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
use crate::faults::{buffered, filesystem};
use crate::fuse::Brake;
use crate::stage::{LabCgroup, LoopDevice};

const MIB: u64 = 1 << 20;
/// Smaller I/Os are none of the neighbour's.
const LARGE: u64 = 64 << 10;
const GAP: Duration = Duration::from_millis(200);

/// The disk's scheduler is changed: its queue is closed until what is in flight is done.
pub fn switched(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    switch(b, &disk, disk.device.clone(), &slow)
}

/// The same of the disk below the one that the victim reads.
pub fn lower_switched(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let upper = LoopDevice::over(&mut b.undo, &disk.device, true)?;
    switch(b, &disk, upper.device, &slow)
}

fn switch(b: &mut FaultTrial<'_>, disk: &LoopDevice, read: PathBuf, slow: &Brake) -> Result<()> {
    closed(b, (disk, "scheduler", ["mq-deadline", "none"]), read, slow)
}

/// The disk's queue is made longer or shorter: closed as well.
pub fn resized(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    closed(b, (&disk, "nr_requests", ["64", "128"]), disk.device.clone(), &slow)
}

/// A setting of the disk's queue is changed, to one value and another, while a slow read is in flight.
fn closed(
    b: &mut FaultTrial<'_>,
    (disk, setting, values): (&LoopDevice, &str, [&'static str; 2]),
    read: PathBuf,
    slow: &Brake,
) -> Result<()> {
    let setting = disk.sys("queue").join(setting);
    let (undone, last) = (setting.clone(), values[1]);
    b.undo.add(move || drop(set(&undone, last)));
    let options = b.options(read, "randread");
    b.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    slow.set(1, b.amplitude);
    let mut values = values.into_iter().cycle();
    b.pulses(GAP, Duration::ZERO, |stop| {
        std::thread::scope(|scope| {
            let slow_one = scope.spawn(|| read_direct(&disk.device, LARGE));
            stop.sleep(Duration::from_millis(1))?;
            set(&setting, values.next().context("a value")?)?;
            slow_one.join().unwrap_or(Ok(()))
        })
    })
}

/// One direct read.
pub fn read_direct(device: &Path, bytes: u64) -> Result<()> {
    let file = File::options().read(true).custom_flags(DIRECT).open(device)?;
    let mut room = vec![0; bytes as usize + 4096];
    let start = room.as_ptr().align_offset(4096);
    let buffer = room.get_mut(start..start + bytes as usize).context("an aligned buffer")?;
    Ok(file.read_exact_at(buffer, 0)?)
}

/// A neighbour syncs the disk, whose driver does nothing else until that is done.
pub fn flush(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let options = b.options(disk.device.clone(), "randread");
    b.start(&options)?;
    slow.set_syncs(b.amplitude);
    let device = File::options().write(true).open(&disk.device)?;
    b.pulses(GAP, Duration::ZERO, |_| Ok(device.sync_all()?))?;
    slow.set_syncs(Duration::ZERO);
    b.only_naps(&slow);
    Ok(())
}

/// Commits of the journal wait for the data of a file that a neighbour has just written.
pub fn ordered(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    // Else the data's blocks count as unwritten until it is there, and no commit needs to wait.
    tool("mount", &["-o", "remount,dioread_lock", &at.to_string_lossy()])?;
    let mut options = b.options(at.join("victim"), "write");
    options.more = ["--size", "4MiB", "--sync", "fsync"].map(String::from).to_vec();
    b.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    let (nap, file) = (b.amplitude, at.join("beside"));
    let name = file.to_string_lossy();
    let words = ["-f", "-c", "pwrite -q 0 512k", "-c", "sync_range -w 0 512k", &name];
    b.pulses(GAP, Duration::ZERO, |stop| {
        slow.set(1, nap);
        tool("xfs_io", &words)?;
        stop.sleep(nap)?;
        slow.set(0, Duration::ZERO);
        Ok(std::fs::remove_file(&file)?)
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// The disk is a file of a file system whose journal a neighbour fills: it is synced with each write.
pub fn lower_journal(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(96)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let upper = filesystem::upper(b, &at, true)?;
    let mut options = b.overwriting(&upper.device);
    options.more.extend(["--sync", "fdatasync"].map(String::from));
    b.start(&options)?;
    filesystem::crowds(b, &at, &slow, (32, filesystem::CROWD))
}

/// The disk is a file that a neighbour writes to, and holds its lock.
pub fn lower_lock(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(96)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let upper = filesystem::upper(b, &at, true)?;
    let options = b.options(upper.device, "randread");
    b.start(&options)?;
    filesystem::hold(b, &at.join("image"), &slow, DIRECT, |_, _, _| Ok(()))
}

/// A program that looks at each access before it goes on, as a virus scanner does, takes long now and then.
pub fn scanner(b: &mut FaultTrial<'_>) -> Result<()> {
    let at = b.disk(64)?.mount(&mut b.undo, "ext4")?;
    let slow = Arc::new(Brake::default());
    scan(&mut b.undo, &at, slow.clone())?;
    let mut options = b.options(at.join("victim"), "randread");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

fn scan(undo: &mut Undo, at: &Path, slow: Arc<Brake>) -> Result<()> {
    let group = Fanotify::init(InitFlags::FAN_CLASS_CONTENT, EventFFlags::O_RDONLY)?;
    let (what, how) = (MaskFlags::FAN_ACCESS_PERM, MarkFlags::FAN_MARK_FILESYSTEM);
    group.mark(MarkFlags::FAN_MARK_ADD | how, what, File::open(at)?, None::<&Path>)?;
    let (over, last) = (Arc::new(AtomicBool::new(false)), at.join("last"));
    std::fs::write(&last, "x")?;
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

/// A limit of bytes for a control group with room for the victim, until a neighbour in it reads much.
pub fn shared_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set = vec![format!("workload.0.think={{time=\"2ms\",every={}}}", b.depth())];
    let pid = b.start(&options)?;
    let group = LabCgroup::of(&mut b.undo, "blkio")?;
    group.add_process(pid)?;
    let (number, bytes) = (disk.number()?, 4 * MIB);
    let per_s = bytes * 1000 / b.amplitude.as_millis() as u64;
    let limit = |n: u64| group.set("blkio.throttle.read_bps_device", format!("{number} {n}"));
    limit(per_s)?;
    let (on, after) = (b.amplitude * 4, b.amplitude * 2);
    let done = b.pulses(GAP, after, |stop| {
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
pub fn limited_holder(b: &mut FaultTrial<'_>) -> Result<()> {
    let disk = b.disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = b.options(victim.clone(), "randread");
    options.more = ["--size", "4MiB"].map(String::from).to_vec();
    b.start(&options)?;
    let group = LabCgroup::of(&mut b.undo, "blkio")?;
    // What may pass in 100 ms passes at once (THROTL_SLICE, block/blk-throttle.c).
    let per_s = LARGE * 1000 / (100 + b.amplitude.as_millis() as u64);
    group.set("blkio.throttle.write_bps_device", format!("{} {per_s}", disk.number()?))?;
    let file = File::options().write(true).custom_flags(DIRECT).open(&victim)?;
    let room = vec![0u8; LARGE as usize + 4096];
    let start = room.as_ptr().align_offset(4096);
    let data = room.get(start..start + LARGE as usize).context("an aligned buffer")?;
    let mut end = file.metadata()?.len();
    b.pulses(GAP, Duration::ZERO, |_| {
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
pub fn same_pages(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(16)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set.push("target.options.direct=false".into());
    options.set.push("target.options.cache=keep".into());
    // Page by page, so that they can be dropped page by page.
    let ahead = disk.sys("queue/read_ahead_kb");
    set(&ahead, 0)?;
    let device = File::open(&disk.device)?;
    std::io::copy(&mut &device, &mut std::io::sink())?;
    set(&ahead, 128)?;
    slow.least.store(LARGE, Relaxed);
    slow.set(1, b.amplitude);
    b.start(&options)?;
    let mut at = 0;
    b.pulses(Duration::from_millis(80), Duration::ZERO, |_| {
        let (from, length) = (at, std::num::NonZeroU64::new(MIB / 8));
        at = (at + 5 * MIB / 8) % (15 * MIB);
        fadvise(&device, from, length, Advice::DontNeed)?;
        Ok(fadvise(&device, from, length, Advice::WillNeed)?)
    })?;
    b.stop.sleep(b.amplitude * 2)?;
    b.only_naps(&slow);
    Ok(())
}

/// A disk that wants pages left alone while they are on their way to it, and a neighbour that syncs the
/// victim's file: who writes such a page waits.
pub fn stable_pages(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let stable = disk.sys("queue/stable_writes");
    let undone = stable.clone();
    b.undo.add(move || drop(set(&undone, 0)));
    set(&stable, 1)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = buffered::through_cache(b.options(victim.clone(), "randwrite"));
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "2MiB"].map(String::from).to_vec();
    b.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    let (nap, file) = (b.amplitude, File::open(&victim)?);
    b.pulses(GAP, Duration::ZERO, |_| {
        slow.set(1, nap);
        let synced = file.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// Syncs beside the writeback of a neighbour, of which the kernel lets only little into a short queue.
pub fn writeback_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(128)?;
    // Fewer requests, and those no larger, than the disk can be slow with at the same time.
    for (file, value) in [("queue/nr_requests", 6), ("queue/max_sectors_kb", 128)] {
        let (file, before) = (disk.sys(file), std::fs::read_to_string(disk.sys(file))?);
        set(&file, value)?;
        b.undo.add(move || drop(set(&file, before.trim())));
    }
    let at = disk.mount(&mut b.undo, "ext4")?;
    let options = buffered::synced(b, &at);
    b.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    let file = File::create(at.join("beside"))?;
    let (data, nap) = (vec![1; 16 << 20], b.amplitude / 2);
    b.pulses(GAP, Duration::ZERO, |_| {
        file.write_all_at(&data, 0)?;
        slow.set(1, nap);
        let synced = file.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// Blocks given back to a disk that takes long over it now and then.
pub fn slow_trim(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let mut options = b.overwriting(&disk.device);
    options.load = b.options(disk.device.clone(), "trim").load;
    b.start(&options)?;
    b.slowed(&slow)
}

/// All free blocks of the file system are given back at once, as a weekly timer does, to a disk that takes
/// long over it and does nothing else meanwhile.
pub fn trimmed(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let mut options = b.options(at.join("victim"), "randread");
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    slow.least.store(LARGE, Relaxed);
    let (nap, file) = (b.amplitude, at.join("beside"));
    b.pulses(GAP, Duration::ZERO, |_| {
        // Blocks are given back once: some must be free anew.
        std::fs::write(&file, vec![1; 4 << 20])?;
        File::open(&file)?.sync_all()?;
        std::fs::remove_file(&file)?;
        rustix::fs::syncfs(File::open(&at)?)?;
        slow.set(1, nap);
        tool("fstrim", &[&at])?;
        slow.set(0, Duration::ZERO);
        Ok(())
    })?;
    b.only_naps(&slow);
    Ok(())
}

/// Writes that are durable one by one, on a disk whose syncs take long at times.
pub fn durable(b: &mut FaultTrial<'_>) -> Result<()> {
    durably(b, &[], "dsync")
}

/// Direct writes with syncs to a file system without a journal, on such a disk.
pub fn without_journal(b: &mut FaultTrial<'_>) -> Result<()> {
    durably(b, &["-O", "^has_journal"], "fdatasync")
}

fn durably(b: &mut FaultTrial<'_>, how: &[&str], sync: &str) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount_ext4(&mut b.undo, how)?;
    let mut options = b.options(at.join("victim"), "randwrite");
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "16MiB", "--sync", sync].map(String::from).to_vec();
    b.start(&options)?;
    b.slow_syncs(&slow)
}
