//! Faults of disks: limits, slow devices, full queues, priorities, and more asked for than a disk does.

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use rustix::fs::{Advice, fadvise};
use rustix::thread::gettid;

use crate::cleanup::{CGROUPS, NAME, ROOT_LIMITS, StopSignal, set, tool};
use crate::fault_trial::FaultTrial;
use crate::faults::beside::read_direct;
use crate::faults::filesystem::started;
use crate::faults::loads;
use crate::faults::stages::BuiltStage;
use crate::fuse::DelayInjector;
use crate::stage::{LabCgroup, LoopDevice};
use crate::truth::now_ns;

const MIB: u64 = 1 << 20;
/// O_DIRECT where loop devices are made (x86-64; others use another bit, and the rival then reads
/// through the page cache).
pub const DIRECT: i32 = 0o40000;
/// Threads of the neighbour that fills the queue.
const RIVALS: u32 = 32;
/// More than a loop device takes at once.
const CROWD: u32 = 192;
/// Steps in which a device becomes slower.
const STEPS: u32 = 8;

/// No fault: direct reads of a disk, whose outliers are the machine's own.
pub fn clean(trial: &mut FaultTrial<'_>) -> Result<()> {
    let disk = trial.disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    // Whatever the machine itself makes slow is an outlier.
    options.threshold = Duration::from_millis(1);
    trial.start(&options)?;
    trial.stop.sleep(trial.runtime)
}

/// Puts the victim under a limit of I/Os per second of a kind, `read` or `write`, again and again: what
/// is in flight at once takes the amplitude.
pub fn limit(trial: &mut FaultTrial<'_>, pid: u32, disk: &LoopDevice, kind: &str) -> Result<()> {
    limited_to(trial, pid, disk, (&format!("{kind}_iops"), 1))
}

/// The same of bytes per second, where an I/O has `each` bytes.
pub fn limit_bytes(
    trial: &mut FaultTrial<'_>,
    pid: u32,
    disk: &LoopDevice,
    (kind, each): (&str, u64),
) -> Result<()> {
    limited_to(trial, pid, disk, (&format!("{kind}_bps"), each))
}

fn limited_to(
    trial: &mut FaultTrial<'_>,
    pid: u32,
    disk: &LoopDevice,
    (what, each): (&str, u64),
) -> Result<()> {
    let on = trial.amplitude * 5;
    limited(trial, pid, disk, (what, each), |stop, limit| {
        limit(true)?;
        stop.sleep(on)?;
        limit(false)
    })
}

/// As [`limit`] and [`limit_bytes`], for `fault`, which sets the limit and takes it away when it wants to.
pub fn limited(
    trial: &mut FaultTrial<'_>,
    pid: u32,
    disk: &LoopDevice,
    (what, each): (&str, u64),
    mut fault: impl FnMut(&StopSignal, &dyn Fn(bool) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let group = LabCgroup::of(&mut trial.undo, "blkio")?;
    group.add_process(pid)?;
    let per_s = (trial.in_flight * each * 1000 / trial.amplitude.as_millis() as u64).max(1);
    let (number, file) = (disk.number()?, format!("blkio.throttle.{what}_device"));
    let limit = |on: bool| group.set(&file, format!("{number} {}", if on { per_s } else { 0 }));
    let done =
        trial.pulses(Duration::from_millis(200), trial.amplitude, |stop| fault(stop, &limit));
    limit(false)?;
    done
}

/// A device that becomes slower, step by step, and then well again, as one that gets hot.
pub fn slow_ramp(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let options = trial.options(disk.device.clone(), "randread");
    trial.start(&options)?;
    let (most, step) = (trial.amplitude, trial.amplitude);
    trial.pulses(Duration::from_millis(300), Duration::ZERO, |stop| {
        for n in 1..=STEPS {
            slow.set(1, most * n / STEPS);
            stop.sleep(step)?;
        }
        slow.set(0, Duration::ZERO);
        Ok(())
    })?;
    trial.only_delays(&slow);
    Ok(())
}

/// The device is slow, and the program is stopped: each by itself, and both at once.
pub fn two_faults(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.set.clear();
    let pid = trial.start(&options)?;
    slow.set(199, trial.amplitude);
    super::stopped::stopped(trial, pid)?;
    trial.delays(&slow);
    Ok(())
}

/// A queue of four requests, and 32 threads of a neighbour that read.
pub fn tags(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "mq-deadline")?;
    crowded(trial, &disk, disk.device.clone(), &slow)
}

/// The same with the scheduler that gives each kind of request a part of the queue's places.
pub fn kyber(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "kyber")?;
    crowded(trial, &disk, disk.device.clone(), &slow)
}

/// As [`tags`], with that queue on the disk below the one that the victim reads.
pub fn lower_tags(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "mq-deadline")?;
    let upper = LoopDevice::over(&mut trial.undo, &disk.device, true)?;
    crowded(trial, &disk, upper.device, &slow)
}

fn crowded(
    trial: &mut FaultTrial<'_>,
    disk: &LoopDevice,
    read: PathBuf,
    slow: &DelayInjector,
) -> Result<()> {
    set(&disk.sys("queue/nr_requests"), 4)?;
    let options = trial.options(read, "randread");
    slow.set(1, trial.amplitude * 4 / RIVALS);
    trial.start(&options)?;
    let (on, after) = (trial.amplitude * 4, trial.amplitude);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        rival(&disk.device, RIVALS, || stop.sleep(on))
    })
}

/// More reads than the device takes at once: the scheduler lets writes wait.
pub fn reads_first(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "mq-deadline")?;
    // So many batches of 16 reads, of which the disk serves eight at a time.
    let delay = Duration::from_micros(200);
    let batches = (trial.amplitude.as_micros() / (2 * delay).as_micros()).max(1);
    set(&disk.sys("queue/iosched/writes_starved"), batches)?;
    let options = trial.overwriting(&disk.device);
    slow.set(1, delay);
    trial.start(&options)?;
    let (on, after) = (trial.amplitude * 4, trial.amplitude);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        rival(&disk.device, CROWD, || stop.sleep(on))
    })
}

/// More reads of the real-time class than the device takes at once, which go before the victim's.
pub fn real_time_class(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "mq-deadline")?;
    let options = trial.options(disk.device.clone(), "randread");
    slow.set(1, Duration::from_micros(200));
    trial.start(&options)?;
    let own = gettid().as_raw_nonzero().to_string();
    // Threads have the class of the thread that made them.
    let class = |name: &str| tool("ionice", &["-c", name, "-p", &own]).map(drop);
    let (on, after) = (trial.amplitude * 3, trial.amplitude);
    trial.pulses(Duration::from_millis(200), after, |stop| {
        class("realtime")?;
        let done = rival(&disk.device, CROWD, || stop.sleep(on));
        class("none")?;
        done
    })
}

/// The victim is served only when nobody else wants the disk.
pub fn idle_class(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "bfq")?;
    let options = trial.options(disk.device.clone(), "randread");
    slow.set(1, Duration::from_micros(200));
    let pid = trial.start(&options)?;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid = thread?.file_name();
        tool("ionice", &["-c".as_ref(), "3".as_ref(), "-p".as_ref(), tid.as_os_str()])?;
    }
    let (on, after) = (trial.amplitude * 2, trial.amplitude);
    trial
        .pulses(Duration::from_millis(200), after, |stop| rival(&disk.device, 2, || stop.sleep(on)))
}

/// The scheduler serves one process after another, each for the amplitude, and a neighbour reads for a while.
pub fn turns(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "bfq")?;
    let rotational = disk.sys("queue/rotational");
    let undone = rotational.clone();
    trial.undo.add(move || drop(set(&undone, 0)));
    // The scheduler waits for the next request of the process that has the turn, as a disk has to seek for another's.
    set(&rotational, 1)?;
    set(&disk.sys("queue/iosched/low_latency"), 0)?;
    set(&disk.sys("queue/iosched/timeout_sync"), trial.amplitude.as_millis())?;
    let options = trial.options(disk.device.clone(), "randread");
    trial.start(&options)?;
    slow.least.store(64 << 10, Relaxed);
    slow.set(1, Duration::from_millis(1));
    let on = trial.amplitude * 4;
    trial.pulses(Duration::from_millis(200), trial.amplitude, |stop| {
        let over = AtomicBool::new(false);
        let reads = || -> Result<()> {
            while !over.load(Relaxed) {
                read_direct(&disk.device, 64 << 10)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(reads);
            let slept = stop.sleep(on);
            over.store(true, Relaxed);
            reader.join().unwrap_or(Ok(()))?;
            slept
        })
    })
}

/// A disk that falls asleep when nobody uses it takes long over what comes after that.
pub fn sleeping(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.set_asleep(Duration::from_millis(50), trial.amplitude);
    while trial.more() {
        trial.stop.sleep(trial.amplitude)?;
    }
    slow.set_asleep(Duration::ZERO, Duration::ZERO);
    trial.stop.sleep(trial.amplitude * 2)?;
    trial.delays(slow);
    Ok(())
}

/// One of two disks that hold the same tries long to read a sector, and then cannot: the file system takes it from the
/// other one.
pub fn failing(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.reads_only.store(true, Relaxed);
    slow.fails.store(true, Relaxed);
    trial.slowed(slow)
}

/// The victim's control group weighs little, a neighbour's much, and both want the disk.
pub fn group_weight(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "bfq")?;
    let options = trial.options(disk.device.clone(), "randread");
    slow.set(1, Duration::from_micros(200));
    let pid = trial.start(&options)?;
    let light = LabCgroup::of(&mut trial.undo, "blkio")?;
    let heavy = LabCgroup::named(&mut trial.undo, "blkio", &format!("{NAME}-rival"))?;
    light.set("blkio.bfq.weight", 1)?;
    heavy.set("blkio.bfq.weight", 1000)?;
    light.add_process(pid)?;
    // New threads begin in the group of this one.
    heavy.set("tasks", gettid().as_raw_nonzero())?;
    let (on, after) = (trial.amplitude * 4, trial.amplitude);
    trial
        .pulses(Duration::from_millis(200), after, |stop| rival(&disk.device, 4, || stop.sleep(on)))
}

/// A queue of four requests below two partitions: the file system of one is written back, the victim
/// reads the other.
pub fn other_partition(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(96)?;
    let (queue, all) = (disk.sys("queue/nr_requests"), 128);
    trial.undo.add(move || drop(set(&queue, all)));
    set(&disk.sys("queue/nr_requests"), 4)?;
    let read = LoopDevice::part(&mut trial.undo, &disk.device, (0, 32 * MIB))?;
    let written = LoopDevice::part(&mut trial.undo, &disk.device, (32 * MIB, 64 * MIB))?;
    let at = written.mount(&mut trial.undo, "ext4")?;
    let options = trial.options(read.device, "randread");
    trial.start(&options)?;
    slow.writes_only.store(true, Relaxed);
    let file = std::fs::File::create(at.join("beside"))?;
    let (data, delay) = (vec![1; 16 << 20], trial.amplitude / 2);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        file.write_all_at(&data, 0)?;
        slow.set(1, delay);
        let synced = file.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// A slow disk with a scheduler.
fn scheduled(trial: &mut FaultTrial<'_>, name: &str) -> Result<(LoopDevice, Arc<DelayInjector>)> {
    let (disk, slow) = trial.slow_disk(64)?;
    let undone = disk.sys("queue/scheduler");
    trial.undo.add(move || drop(set(&undone, "none")));
    set(&disk.sys("queue/scheduler"), name)?;
    Ok((disk, slow))
}

/// A queue of four requests, and what a neighbour wrote through the page cache goes to the disk.
pub fn writeback(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let (queue, all) = (disk.sys("queue/nr_requests"), 128);
    trial.undo.add(move || drop(set(&queue, all)));
    set(&disk.sys("queue/nr_requests"), 4)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.more = ["--size", "32MiB"].map(String::from).to_vec();
    trial.start(&options)?;
    slow.writes_only.store(true, Relaxed);
    let device = std::fs::File::options().write(true).open(&disk.device)?;
    let (data, delay) = (vec![1; 16 << 20], trial.amplitude / 2);
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        device.write_all_at(&data, 40 * MIB)?;
        slow.set(1, delay);
        let synced = device.sync_data();
        slow.set(0, Duration::ZERO);
        Ok(synced?)
    })
}

/// A queue of four requests, and a neighbour's single large write, which the kernel splits into many. Only writes are
/// slow, and the victim reads.
pub fn split_write(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    for (file, value) in [("queue/nr_requests", 4), ("queue/max_sectors_kb", 64)] {
        let (file, before) = (disk.sys(file), std::fs::read_to_string(disk.sys(file))?);
        set(&file, value)?;
        trial.undo.add(move || drop(set(&file, before.trim())));
    }
    let mut options = trial.options(disk.device.clone(), "randread");
    options.more = ["--size", "32MiB"].map(String::from).to_vec();
    trial.start(&options)?;
    slow.writes_only.store(true, Relaxed);
    let (name, delay) = (disk.device.to_string_lossy(), trial.amplitude * 2);
    let words = ["-d", "-c", "pwrite -q -b 768k 40m 768k", &name];
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |_| {
        slow.during(delay, || tool("xfs_io", &words)).map(drop)
    })
}

/// A limit of reads from the disk for the root of all control groups, where the victim is.
pub fn limited_root(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let file = Path::new(CGROUPS).join(ROOT_LIMITS);
    let (number, lifted) = (built.disk()?.number()?, format!("{} 0", built.disk()?.number()?));
    let (undone, none) = (file.clone(), lifted.clone());
    trial.undo.add(move || drop(set(&undone, none)));
    let per_s = (trial.in_flight * 1000 / trial.amplitude.as_millis() as u64).max(1);
    let on = trial.amplitude * 5;
    trial.pulses(Duration::from_millis(200), trial.amplitude, |stop| {
        set(&file, format!("{number} {per_s}"))?;
        let slept = stop.sleep(on);
        set(&file, &lifted)?;
        slept
    })
}

/// Direct writes to a file in stripes, under a limit on one of its disks.
pub fn striped_limit(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (one, other) = (trial.disk(256)?, trial.slow_disk(256)?.0);
    let names = [&one, &other].map(|d| d.device.to_string_lossy().into_owned());
    let how = ["-q", "-f", "-K", "-d", "raid0", "-m", "raid1", &names[0], &names[1]];
    tool("mkfs.btrfs", &how)?;
    let at = one.mount_made(&mut trial.undo, "btrfs")?;
    let pid = started(trial, &at, &[loads::WRITES])?;
    limit(trial, pid, &one, "write")
}

/// Reads one after another, which the kernel reads ahead of: of a disk that is slow now and then.
pub fn read_ahead(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let slow = built.slow()?;
    slow.set(5, trial.amplitude);
    while trial.more() {
        trial.stop.sleep(trial.amplitude)?;
    }
    slow.set(0, Duration::ZERO);
    trial.delays(slow);
    Ok(())
}

/// Twice as much as the disk does is asked for in bursts: I/Os wait for their turn.
pub fn bursts(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    let rate = trial.workers() * trial.depth() * 2000;
    let (on, off) = ((trial.amplitude * 3).as_millis(), (trial.amplitude * 12).as_millis());
    options.set = vec![format!(
        "workload.0.arrival={{kind=\"bursts\",rate=\"{rate}/s\",on=\"{on}ms\",off=\"{off}ms\"}}"
    )];
    slow.set(1, Duration::from_millis(1));
    let from = now_ns();
    trial.start(&options)?;
    while trial.more() {
        trial.stop.sleep(trial.amplitude)?;
    }
    trial.truth.add(from, now_ns() + 10_000_000_000);
    Ok(())
}

/// A quarter more than the disk does is asked for, all the time.
pub fn saturated(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = trial.slow_disk(64)?;
    let mut options = trial.options(disk.device.clone(), "randread");
    options.depth = options.depth.min(2);
    options.set.clear();
    let delay = trial.amplitude / 5;
    let rate = u64::from(options.workers * options.depth) * 1_250_000 / delay.as_micros() as u64;
    options.more = vec!["--rate".into(), format!("{rate}/s")];
    slow.set(1, delay);
    let from = now_ns();
    trial.start(&options)?;
    while trial.more() {
        trial.stop.sleep(trial.amplitude)?;
    }
    trial.truth.add(from, now_ns() + 10_000_000_000);
    Ok(())
}

/// Neighbours read the disk through the page cache, far ahead, and it takes long over such large reads.
pub fn thrashed(trial: &mut FaultTrial<'_>, built: &BuiltStage) -> Result<()> {
    let (disk, slow) = (built.disk()?, built.slow()?);
    slow.least.store(64 << 10, Relaxed);
    let (on, delay) = (trial.amplitude * 4, trial.amplitude);
    let over = AtomicBool::new(false);
    let reader = |n: u64| -> Result<()> {
        let file = std::fs::File::open(&disk.device)?;
        let mut buffer = vec![0; 1 << 20];
        for at in (n * 16..n * 16 + 16).map(|mib| mib * MIB).cycle() {
            if over.load(Relaxed) {
                return Ok(());
            }
            file.read_exact_at(&mut buffer, at)?;
            fadvise(&file, at, std::num::NonZeroU64::new(MIB), Advice::DontNeed)?;
        }
        Ok(())
    };
    trial.pulses(Duration::from_millis(200), Duration::ZERO, |stop| {
        over.store(false, Relaxed);
        slow.set(1, delay);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..12).map(|n| scope.spawn(move || reader(n))).collect();
            let slept = stop.sleep(on);
            over.store(true, Relaxed);
            slow.set(0, Duration::ZERO);
            readers.into_iter().try_for_each(|r| r.join().unwrap_or(Ok(())))?;
            slept
        })
    })
}

/// A victim that syncs is served only when nobody else wants the disk.
pub fn idle_syncs(trial: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = scheduled(trial, "bfq")?;
    let at = disk.mount(&mut trial.undo, "ext4")?;
    slow.set(1, Duration::from_micros(200));
    let pid = started(trial, &at, &[loads::SYNCED])?;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid = thread?.file_name();
        tool("ionice", &["-c".as_ref(), "3".as_ref(), "-p".as_ref(), tid.as_os_str()])?;
    }
    let (on, after) = (trial.amplitude * 2, trial.amplitude);
    trial
        .pulses(Duration::from_millis(200), after, |stop| rival(&disk.device, 2, || stop.sleep(on)))
}

/// Direct reads of 4 KiB by so many threads while `during` runs.
fn rival(device: &Path, threads: u32, during: impl FnOnce() -> Result<()>) -> Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for n in 0..threads {
            let over = over.clone();
            scope.spawn(move || read_on(device, n, &over));
        }
        let done = during();
        over.store(true, Relaxed);
        done
    })
}

fn read_on(device: &Path, n: u32, over: &AtomicBool) {
    let mut options = std::fs::File::options();
    let Ok(file) = options.read(true).custom_flags(DIRECT).open(device) else {
        return;
    };
    let mut room = vec![0u8; 8192];
    let start = room.as_ptr().align_offset(4096);
    let mut at = u64::from(n) * MIB % (60 * MIB);
    while !over.load(Relaxed) {
        let Some(buffer) = room.get_mut(start..start + 4096) else {
            return;
        };
        if rustix::io::pread(&file, buffer, at).is_err() {
            return;
        }
        at = (at + 37 * 4096) % (60 * MIB);
    }
}
