//! Faults of the page cache: writers slowed down, pages gone.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};

use crate::cleanup::{NAME, lab_dir, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::buffered::through_cache;
use crate::faults::filesystem::upper;
use crate::fuse::Brake;
use crate::stage::LabCgroup;
use crate::trial::NotMade;

const MIB: u64 = 1 << 20;

/// A device with a strict limit of dirty pages becomes slow: buffered writers have to wait.
pub fn dirty(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = strict(b)?;
    let mut options = b.options(at.join("victim"), "write");
    options.set.push("target.options.direct=false".into());
    options.more = ["--size", "16MiB"].map(String::from).to_vec();
    b.start(&options)?;
    slowed_down(b, &slow)
}

/// The same where the victim's disk is a file there, and what serves the disk has to wait.
pub fn lower_dirty(b: &mut FaultTrial<'_>) -> Result<()> {
    let (at, slow) = strict(b)?;
    let upper = upper(b, &at, false)?;
    let options = b.overwriting(&upper.device);
    b.start(&options)?;
    slowed_down(b, &slow)
}

/// A file system on a slow disk with a strict limit of dirty pages.
fn strict(b: &mut FaultTrial<'_>) -> Result<(PathBuf, Arc<Brake>)> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let (strict, most) = (disk.sys("bdi/strict_limit"), disk.sys("bdi/max_ratio"));
    b.undo.add(move || {
        let _ = set(&strict, 0);
        let _ = set(&most, 100);
    });
    set(&disk.sys("bdi/strict_limit"), 1)?;
    set(&disk.sys("bdi/max_bytes"), MIB)?;
    Ok((at, slow))
}

fn slowed_down(b: &mut FaultTrial<'_>, slow: &Brake) -> Result<()> {
    // How long a writer waits at a time depends on how fast the device was of late: one that answers in
    // twice the amplitude, for long enough, makes even a single writer wait that long.
    let (nap, on) = (b.amplitude * 2, b.amplitude * 16);
    b.pulses(Duration::from_millis(300), b.amplitude * 2, |stop| {
        slow.during(nap, || stop.sleep(on))
    })
}

/// Room for the victim's pages, beside what it holds itself.
const ROOM: u64 = 12 * MIB;

/// The victim's control group has less memory than it writes: each write has to make room first,
/// which takes long when the device that dirty pages go to is slow.
pub fn reclaim(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(224)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let group = LabCgroup::of_memory(&mut b.undo, NAME)?;
    let mut options = b.options(at.join("victim"), "write");
    options.set.push("target.options.direct=false".into());
    // Else writeback holds the file's lock of its blocks while it reads a bitmap of the slow device,
    // and writers wait for that: a fault of another layer.
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "160MiB"].map(String::from).to_vec();
    b.start_then(&options, |pid| group.add_process(pid))?;
    let done = short_of_memory(b, &slow, &group);
    group.limit_memory(None)?;
    match group.killed()? {
        0 => done,
        _ => Err(NotMade(
            "the kernel killed the victim: its memory was all on the way to the slow device",
        )
        .into()),
    }
}

fn short_of_memory(b: &mut FaultTrial<'_>, slow: &Brake, group: &LabCgroup) -> Result<()> {
    let (nap, on) = (b.amplitude / 2, b.amplitude * 8);
    while b.more() {
        // What it keeps in memory of the run counts as well, and grows. Setting the limit is the
        // lab's own work, on the CPU: the fault begins after it.
        group.limit_memory(Some(group.unreclaimable()? + ROOM))?;
        b.pulse(Duration::from_millis(300), b.amplitude * 2, |stop| {
            slow.during(nap, || stop.sleep(on))
        })?;
    }
    Ok(())
}

/// The victim's own memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swap(b: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(b)?;
    let read = b.disk(64)?;
    let options = b.options(read.device.clone(), "randread");
    b.start_then(&options, |pid| group.add_process(pid))?;
    dropped(b, &slow, &group, |held| held / 8)
}

/// A file in memory has been swapped out, to a disk that is slow when it is needed again.
pub fn swapped_file(b: &mut FaultTrial<'_>) -> Result<()> {
    let (slow, group) = swapped(b)?;
    let at = lab_dir().join("memory");
    std::fs::create_dir_all(&at)?;
    let place = at.to_string_lossy().into_owned();
    tool("mount", &["-t", "tmpfs", "tmpfs", &place])?;
    b.undo.add(move || {
        let _ = tool("umount", &[&place]);
        let _ = std::fs::remove_dir(place);
    });
    let mut options = through_cache(b.options(at.join("victim"), "randread"));
    options.set.push("target.options.cache=keep".into());
    options.set.push("target.options.layout=always".into());
    options.more = ["--size", "24MiB"].map(String::from).to_vec();
    options.within = group.within();
    b.start(&options)?;
    dropped(b, &slow, &group, |held| held * 3 / 4)
}

/// Makes a slow disk take what leaves the memory of a control group.
pub fn swapped(b: &mut FaultTrial<'_>) -> Result<(Arc<Brake>, LabCgroup)> {
    let (disk, slow) = b.slow_disk(64)?;
    let device = disk.device.to_string_lossy().into_owned();
    tool("mkswap", &[&device])?;
    let group = LabCgroup::of_memory(&mut b.undo, NAME)?;
    tool("swapon", &[&device])?;
    let brake = slow.clone();
    b.undo.add(move || {
        brake.set(0, Duration::ZERO);
        let _ = tool("swapoff", &[&device]);
    });
    Ok((slow, group))
}

/// Again and again pages of a control group leave memory until it has what `limit` makes of what it cannot
/// give back, and who needs one waits for a disk that is slow for a while.
pub fn dropped(
    b: &mut FaultTrial<'_>,
    slow: &Brake,
    group: &LabCgroup,
    limit: impl Fn(u64) -> u64,
) -> Result<()> {
    let (nap, on) = (b.amplitude, b.amplitude * 4);
    b.pulses(Duration::from_millis(300), Duration::ZERO, |stop| {
        // As much as can be goes out; it may be less than asked for.
        let _ = group.limit_memory(Some(limit(group.unreclaimable()?)));
        group.limit_memory(None)?;
        slow.during(nap, || stop.sleep(on))
    })?;
    b.only_naps(slow);
    Ok(())
}

/// Pages that were in memory are dropped; who needs one waits for the device, which is as fast as
/// ever.
pub fn evict(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(16)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set.push("target.options.direct=false".into());
    options.set.push("target.options.cache=keep".into());
    let ahead = disk.sys("queue/read_ahead_kb");
    b.undo.add(move || drop(set(&ahead, 128)));
    set(&disk.sys("queue/read_ahead_kb"), 0)?;
    // Held open: a block device's pages are dropped when nobody has it open.
    let device = std::fs::File::open(&disk.device)?;
    std::io::copy(&mut &device, &mut std::io::sink())?;
    slow.set(1, b.amplitude);
    b.start(&options)?;
    let mut at = 0;
    b.pulses(Duration::from_millis(150), Duration::ZERO, |_| {
        let (from, length) = (at, std::num::NonZeroU64::new(MIB / 8));
        at = (at + 5 * MIB / 8) % (15 * MIB);
        Ok(fadvise(&device, from, length, Advice::DontNeed)?)
    })?;
    b.stop.sleep(b.amplitude * 2)?;
    b.only_naps(&slow);
    Ok(())
}

/// A neighbour writes the victim's file through the page cache; a direct read of what is dirty first
/// has it written back, to a device that is slow for writes.
pub fn dirty_file(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let at = disk.mount(&mut b.undo, "ext4")?;
    let victim = at.join("victim");
    let mut options = b.options(victim.clone(), "randread");
    options.more = ["--size", "2MiB"].map(String::from).to_vec();
    b.start(&options)?;
    slow.writes_only.store(true, Relaxed);
    let (file, data) = (std::fs::File::options().write(true).open(&victim)?, vec![1; 64 << 10]);
    let (on, nap, mut at) = (b.amplitude * 4, b.amplitude, 0);
    b.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        slow.during(nap, || {
            for _ in 0..4 {
                file.write_all_at(&data, at)?;
                at = (at + data.len() as u64) % (2 * MIB);
            }
            stop.sleep(on)
        })
    })?;
    b.only_naps(&slow);
    Ok(())
}
