//! Faults of memory: writers slowed down for dirty pages, pages of files dropped, memory reclaimed or swapped out.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};

use crate::cleanup::{NAME, lab_dir, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::filesystem::started;
use crate::faults::loads::{self, Load};
use crate::faults::stages::{BuiltStage, EXT4, FaultStage, image_in};
use crate::fuse::DelayInjector;
use crate::stage::{LabCgroup, LoopDevice, image};
use crate::trial::NotMade;

const MIB: u64 = 1 << 20;

/// A device with a strict limit of dirty pages becomes slow: buffered writers have to wait.
pub fn dirty(trial: &mut FaultTrial<'_>) -> Result<()> {
    dirtied(trial, &[loads::GROWING, loads::CACHED, loads::OF_16M])
}

/// The same for a victim that writes to a mapping, where a fault makes a page dirty.
pub fn mapped_dirty(trial: &mut FaultTrial<'_>) -> Result<()> {
    dirtied(trial, &[loads::WRITES, loads::CACHED, loads::LAYOUT])
}

fn dirtied(trial: &mut FaultTrial<'_>, load: Load) -> Result<()> {
    let (at, slow) = strict(trial)?;
    started(trial, &at, load)?;
    slowed_down(trial, &slow)
}

/// The same where the victim's disk is a file there, and what serves the disk has to wait.
pub fn lower_dirty(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = strict(trial)?;
    let upper = image_in(trial, &at, false)?;
    let options = trial.overwriting(&upper.device);
    trial.start(&options)?;
    slowed_down(trial, &slow)
}

/// A file system on a slow disk with a strict limit of dirty pages.
fn strict(trial: &mut FaultTrial<'_>) -> Result<(PathBuf, Arc<DelayInjector>)> {
    let (disk, slow) = trial.slow_disk(64)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    let (strict, most) = (disk.sys("bdi/strict_limit"), disk.sys("bdi/max_ratio"));
    trial.undo.add(move || {
        let _ = set(&strict, 0);
        let _ = set(&most, 100);
    });
    set(&disk.sys("bdi/strict_limit"), 1)?;
    set(&disk.sys("bdi/max_bytes"), MIB)?;
    Ok((at, slow))
}

/// A neighbour writes behind the victim's part of its file, to a disk with a strict limit of dirty pages, and has the
/// file's lock for as long as it has to wait there. Only writes are slow, and the victim reads.
pub fn throttled_holder(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = strict(trial)?;
    started(trial, &at, &[loads::READS, loads::OF_4M])?;
    slow.writes_only.store(true, Relaxed);
    let file = std::fs::File::options().write(true).open(at.join("victim"))?;
    let (data, delay) = (vec![1; 4 << 20], trial.amplitude / 2);
    trial.pulses(Duration::from_millis(300), Duration::ZERO, |_| {
        Ok(slow.during(delay, || file.write_all_at(&data, 8 * MIB))?)
    })
}

fn slowed_down(trial: &mut FaultTrial<'_>, slow: &DelayInjector) -> Result<()> {
    // How long a writer waits at a time depends on how fast the device was of late: one that answers in
    // twice the amplitude, for long enough, makes even a single writer wait that long.
    let (delay, on) = (trial.amplitude * 2, trial.amplitude * 16);
    trial.pulses(Duration::from_millis(300), trial.amplitude * 2, |stop| {
        slow.during(delay, || stop.sleep(on))
    })
}

/// Room for the victim's pages, beside what it holds itself.
const ROOM: u64 = 12 * MIB;

/// The victim's control group has less memory than it writes: each write has to make room first,
/// which takes long when the device that dirty pages go to is slow.
pub fn reclaim(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(224)?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    let group = LabCgroup::of_memory(&mut trial.undo, NAME)?;
    let mut options = trial.options(at.join("victim"), "write");
    options.set.push("target.options.direct=false".into());
    // Else writeback holds the file's lock of its blocks while it reads a bitmap of the slow device,
    // and writers wait for that: a fault of another layer.
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "160MiB"].map(String::from).to_vec();
    trial.start_then(&options, |pid| group.add_process(pid))?;
    let done = short_of_memory(trial, &slow, &group);
    group.limit_memory(None)?;
    match group.killed()? {
        0 => done,
        _ => Err(NotMade(
            "the kernel killed the victim: its memory was all on the way to the slow device",
        )
        .into()),
    }
}

fn short_of_memory(
    trial: &mut FaultTrial<'_>,
    slow: &DelayInjector,
    group: &LabCgroup,
) -> Result<()> {
    let (delay, on) = (trial.amplitude / 2, trial.amplitude * 8);
    while trial.more() {
        // What it keeps in memory of the run counts as well, and grows. Setting the limit is the
        // lab's own work, on the CPU: the fault begins after it.
        group.limit_memory(Some(group.unreclaimable()? + ROOM))?;
        trial.pulse(Duration::from_millis(300), trial.amplitude * 2, |stop| {
            slow.during(delay, || stop.sleep(on))
        })?;
    }
    Ok(())
}

/// The victim's own memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swap(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(trial)?;
    let read = trial.disk(64)?;
    let options = trial.options(read.device.clone(), "randread");
    trial.start_then(&options, |pid| group.add_process(pid))?;
    dropped(trial, &slow, &group, |held| held / 8)
}

/// A file in memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_file(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(trial)?;
    let at = lab_dir().join("memory");
    std::fs::create_dir_all(&at)?;
    let place = at.to_string_lossy().into_owned();
    tool("mount", &["-t", "tmpfs", "tmpfs", &place])?;
    trial.undo.add(move || {
        let _ = tool("umount", &[&place]);
        let _ = std::fs::remove_dir(place);
    });
    let built = BuiltStage { path: at, ..BuiltStage::default() };
    let load: Load = &[loads::READS, loads::CACHED, loads::KEPT, loads::LAYOUT, loads::OF_24M];
    let mut options = loads::options(load, trial, &built)?;
    options.within = group.within();
    trial.start(&options)?;
    dropped(trial, &slow, &group, |held| held * 3 / 4)
}

/// The victim's disk is a file in memory that has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_disk(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(trial)?;
    let file = image(&mut trial.undo, "image", 24 * MIB)?;
    let (within, to) = (group.within(), format!("of={}", file.display()));
    // Pages of zeros need no place in the swap.
    let fills = ["dd", "if=/dev/urandom", &to, "bs=1M", "count=24", "conv=notrunc"];
    let words: Vec<&str> = within[1..].iter().map(String::as_str).chain(fills).collect();
    tool("sh", &words)?;
    let disk = LoopDevice::over(&mut trial.undo, &file, false)?;
    let options = trial.options(disk.device, "randread");
    trial.start(&options)?;
    dropped(trial, &slow, &group, |held| held / 4)
}

/// Makes a slow disk the machine's swap, and a control group whose memory is to be swapped out.
pub fn swapped(trial: &mut FaultTrial<'_>) -> Result<(Arc<DelayInjector>, LabCgroup)> {
    let (disk, slow) = trial.slow_disk(64)?;
    let device = disk.device.to_string_lossy().into_owned();
    tool("mkswap", &[&device])?;
    let group = LabCgroup::of_memory(&mut trial.undo, NAME)?;
    tool("swapon", &[&device])?;
    let injector = slow.clone();
    trial.undo.add(move || {
        injector.set(0, Duration::ZERO);
        let _ = tool("swapoff", &[&device]);
    });
    Ok((slow, group))
}

/// Again and again a control group's memory is cut as far as it goes to `limit`, a function of the bytes that it cannot
/// give back without swap; then the disk that its pages come back from is slow for a while.
pub fn dropped(
    trial: &mut FaultTrial<'_>,
    slow: &DelayInjector,
    group: &LabCgroup,
    limit: impl Fn(u64) -> u64,
) -> Result<()> {
    let (delay, on) = (trial.amplitude, trial.amplitude * 4);
    trial.pulses(Duration::from_millis(300), Duration::ZERO, |stop| {
        // As much as can be goes out; it may be less than asked for.
        let _ = group.limit_memory(Some(limit(group.unreclaimable()?)));
        group.limit_memory(None)?;
        slow.during(delay, || stop.sleep(on))
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// Another program has the kernel drop all clean pages of all files (`/proc/sys/vm/drop_caches`); a read of one waits
/// for a device that is slow all the time.
pub fn dropped_caches(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    dropped_of_all(trial, built, 1)
}

/// The same of names and attributes of files, too, of which none is to be written.
pub fn dropped_names(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    rustix::fs::syncfs(std::fs::File::open(&built.lower)?)?;
    dropped_of_all(trial, built, 3)?;
    // The victim deletes its files at the end.
    built.slow()?.set(0, Duration::ZERO);
    Ok(())
}

/// `what` is that of `drop_caches`.
fn dropped_of_all(trial: &mut FaultTrial<'_>, built: &BuiltStage, what: u32) -> Result<()> {
    let slow = built.slow()?;
    slow.set(1, trial.amplitude);
    trial.pulses(Duration::from_millis(700), Duration::ZERO, |_| {
        set(Path::new("/proc/sys/vm/drop_caches"), what)
    })?;
    trial.stop.sleep(trial.amplitude * 2)?;
    trial.only_delays(slow);
    Ok(())
}

/// The victim's disk is a file that is read through the page cache of a lower file system; its pages are dropped, and
/// a slow disk has to bring them again.
pub fn buffered_image(trial: &mut FaultTrial<'_>) -> Result<()> {
    let lower = FaultStage::Fs(EXT4, 96).make(trial, true)?;
    let disk = image_in(trial, &lower.path, false)?;
    let options = trial.options(disk.device, "randread");
    trial.start(&options)?;
    let (image, slow) = (std::fs::File::open(lower.path.join("image"))?, lower.slow()?);
    let (on, delay) = (trial.amplitude * 3, trial.amplitude);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        fadvise(&image, 0, None, Advice::DontNeed)?;
        slow.during(delay, || stop.sleep(on))
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// Pages of the victim's disk that were in memory are dropped; a read of one waits for the disk, which is
/// slow all the time.
pub fn evict(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(16)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.set.push("target.options.direct=false".into());
    options.set.push("target.options.cache=keep".into());
    let ahead = disk.sys("queue/read_ahead_kb");
    trial.undo.add(move || drop(set(&ahead, 128)));
    set(&disk.sys("queue/read_ahead_kb"), 0)?;
    // Held open: a block device's pages are dropped when nobody has it open.
    let device = std::fs::File::open(&disk.device)?;
    std::io::copy(&mut &device, &mut std::io::sink())?;
    slow.set(1, trial.amplitude);
    trial.start(&options)?;
    let mut at = 0;
    trial.pulses(Duration::from_millis(150), Duration::ZERO, |_| {
        let (from, length) = (at, std::num::NonZeroU64::new(MIB / 8));
        at = (at + 5 * MIB / 8) % (15 * MIB);
        Ok(fadvise(&device, from, length, Advice::DontNeed)?)
    })?;
    trial.stop.sleep(trial.amplitude * 2)?;
    trial.only_delays(&slow);
    Ok(())
}

/// A neighbour writes the victim's file through the page cache; a direct read of what is dirty first
/// has it written back, to a device that is slow for writes.
pub fn dirty_file(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (victim, slow) = (built.victim(), built.slow()?);
    slow.writes_only.store(true, Relaxed);
    let (file, data) = (std::fs::File::options().write(true).open(&victim)?, vec![1; 64 << 10]);
    let (on, delay, mut at) = (trial.amplitude * 4, trial.amplitude, 0);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        slow.during(delay, || {
            for _ in 0..4 {
                file.write_all_at(&data, at)?;
                at = (at + data.len() as u64) % (2 * MIB);
            }
            stop.sleep(on)
        })
    })?;
    trial.only_delays(slow);
    Ok(())
}

/// The memory of a program that syncs has been swapped out, to a disk that is slow when it is needed again.
pub fn swap_syncs(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(trial)?;
    let built = FaultStage::Fs(EXT4, 64).make(trial, false)?;
    let options = loads::options(&[loads::SYNCED], trial, &built)?;
    trial.start_then(&options, |pid| group.add_process(pid))?;
    dropped(trial, &slow, &group, |held| held / 8)
}

/// Reads through the page cache from an image that is compressed, on a slow disk.
pub fn compressed(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(192)?;
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
    let at = disk.mount_made(&mut trial.undo, "squashfs")?;
    let built = BuiltStage { path: at, ..BuiltStage::default() };
    // Nothing has been read yet.
    let options = loads::options(&[loads::READS, loads::CACHED, loads::KEPT], trial, &built)?;
    trial.start(&options)?;
    trial.slowed(&slow)
}

/// A neighbour empties the page cache of the disk that the victim reads, and the disk is slow.
pub fn flushed_buffers(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(16)?;
    let built = BuiltStage { path: disk.device.clone(), ..BuiltStage::default() };
    let options = loads::options(&[loads::READS, loads::CACHED, loads::KEPT], trial, &built)?;
    let name = disk.device.to_string_lossy();
    std::fs::read(&disk.device)?;
    trial.start(&options)?;
    let (delay, on) = (trial.amplitude, trial.amplitude * 3);
    trial.pulses(Duration::from_millis(150), Duration::ZERO, |stop| {
        slow.during(delay, || {
            tool("blockdev", &["--flushbufs", &name])?;
            stop.sleep(on)
        })
    })?;
    trial.only_delays(&slow);
    Ok(())
}
