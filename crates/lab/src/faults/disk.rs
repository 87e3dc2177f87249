//! Faults below the file system: limits, slow devices, full queues.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;

use crate::cleanup::set;
use crate::fault_trial::FaultTrial;
use crate::fuse;
use crate::stage::{LabCgroup, LoopDevice, image};

const MIB: u64 = 1 << 20;
/// O_DIRECT where loop devices are made (x86-64; others use another bit, and the rival then reads
/// through the page cache).
pub const DIRECT: i32 = 0o40000;
/// Threads of the neighbour that fills the queue.
const RIVALS: u32 = 32;

pub fn clean(b: &mut FaultTrial<'_>) -> Result<()> {
    let file = image(&mut b.undo, "image", 64 * MIB)?;
    let disk = LoopDevice::over(&mut b.undo, &file, false)?;
    let options = b.options(disk.device.clone(), "randread");
    b.start(&options)?;
    b.stop.sleep(b.runtime)
}

/// A limit of I/Os per second for the victim's control group.
pub fn cgroup_io(b: &mut FaultTrial<'_>) -> Result<()> {
    let file = image(&mut b.undo, "image", 64 * MIB)?;
    let disk = LoopDevice::over(&mut b.undo, &file, false)?;
    limited(b, &disk, &disk)
}

/// The same limit on the disk below the one that the victim reads.
pub fn lower_limit(b: &mut FaultTrial<'_>) -> Result<()> {
    let file = image(&mut b.undo, "image", 64 * MIB)?;
    let lower = LoopDevice::over(&mut b.undo, &file, false)?;
    let upper = LoopDevice::over(&mut b.undo, &lower.device, true)?;
    limited(b, &upper, &lower)
}

fn limited(b: &mut FaultTrial<'_>, read: &LoopDevice, limited: &LoopDevice) -> Result<()> {
    let group = LabCgroup::of(&mut b.undo, "blkio")?;
    let options = b.options(read.device.clone(), "randread");
    let pid = b.start(&options)?;
    group.add_process(pid)?;
    let number = limited.number()?;
    let in_flight = u64::from(b.workers() * b.depth());
    let per_s = (in_flight * 1000 / b.amplitude.as_millis() as u64).max(1);
    let limit = |n: u64| group.set("blkio.throttle.read_iops_device", format!("{number} {n}"));
    let (on, after) = (b.amplitude * 5, b.amplitude);
    let done = b.pulses(Duration::from_millis(200), after, |stop| {
        limit(per_s)?;
        stop.sleep(on)?;
        limit(0)
    });
    limit(0)?;
    done
}

/// Every so often the device takes longer: a loop device over a file that sleeps.
pub fn slow_device(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = LoopDevice::over(&mut b.undo, &file, true)?;
    let options = b.options(disk.device.clone(), "randread");
    b.start(&options)?;
    b.slowed(&slow)
}

/// A queue of four requests, and a neighbour with 32.
pub fn tags(b: &mut FaultTrial<'_>) -> Result<()> {
    let (file, slow) = fuse::serve(&mut b.undo, 64 << 20)?;
    let disk = LoopDevice::over(&mut b.undo, &file, true)?;
    let undone = disk.sys("queue/scheduler");
    b.undo.add(move || drop(set(&undone, "none")));
    set(&disk.sys("queue/scheduler"), "mq-deadline")?;
    set(&disk.sys("queue/nr_requests"), 4)?;
    let options = b.options(disk.device.clone(), "randread");
    slow.set(1, b.amplitude * 4 / RIVALS);
    b.start(&options)?;
    let (on, after) = (b.amplitude * 4, b.amplitude);
    b.pulses(Duration::from_millis(200), after, |stop| rival(&disk.device, || stop.sleep(on)))
}

/// Direct reads by many threads while `during` runs.
fn rival(device: &Path, during: impl FnOnce() -> Result<()>) -> Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for n in 0..RIVALS {
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
    let mut at = u64::from(n) * MIB;
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
