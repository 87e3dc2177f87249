//! The guard: whether a target is in use by something else, or part of something larger.
//!
//! Both questions are answered with `Refused` when in doubt. Whether the data there is Taillight's is
//! asked in `ownership`. The guard only reads tables and the opened descriptor; opening and writing
//! is the driver's.
//!
//! Races: the driver resolves all symlinks once, opens the result with `O_NOFOLLOW` (so that the
//! last component cannot become a link in between) and passes the *descriptor* here. Everything is
//! decided on that descriptor and the driver keeps it, so a path that changes later changes
//! nothing. A block device is opened with `O_EXCL`: from then on the kernel keeps others out.

mod signature;

use std::fs::Metadata;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Stat, fstat};
use taillight_core::{Error, Result, StopFlag};

use taillight_machine::block::{BlockDevice, PartitionRange, loop_backings};
use taillight_machine::{DeviceNumber, Sys, mounts, openers};

use crate::patience;

/// Refuses a block device that is mounted, swap, held or a member of something, whole or in part.
/// Errors: `Refused` with the reason.
pub fn device(fd: BorrowedFd<'_>, path: &Path, size: u64) -> Result<()> {
    let stat = fstat(fd).map_err(|e| cannot_stat(path, e.into()))?;
    if let Some(reason) = device_in_use(stat.st_rdev)? {
        return Err(in_use(path, &reason));
    }
    let mut ranges = vec![PartitionRange { start: 0, len: size }];
    if let Some(b) = BlockDevice::from_dev(&Sys::default(), stat.st_rdev) {
        ranges.extend(b.partitions().iter().filter_map(BlockDevice::range));
    }
    match ranges.into_iter().find_map(|r| signature::member(fd, r)) {
        None => Ok(()),
        Some(of) => Err(Error::refused(format!("the device is a member of {of}"))
            .with("target", path.display())
            .hint("remove it from there first; wipefs shows and clears stale marks")),
    }
}

/// Why a block device is in use, from mounts, swaps and holders; asked also when opening fails.
/// Errors: `Unavailable` when the tables cannot be read.
pub fn device_in_use(rdev: u64) -> Result<Option<String>> {
    for part in overlapping(rdev) {
        if let Some(reason) = part_in_use(&part, 0)? {
            let itself = part.number == DeviceNumber::from_dev(rdev);
            let whose = if itself { String::new() } else { format!("{}: ", part.name) };
            return Ok(Some(format!("{whose}{reason}")));
        }
    }
    Ok(None)
}

/// A device, and what shares its blocks: the disk of a partition, the partitions of a disk.
fn overlapping(rdev: u64) -> Vec<BlockDevice> {
    let Some(target) = BlockDevice::from_dev(&Sys::default(), rdev) else {
        return Vec::new();
    };
    let others = if target.is_partition() { vec![target.whole()] } else { target.partitions() };
    [target].into_iter().chain(others).collect()
}

/// Holders of holders are followed this deep (crypt on LVM on RAID is three).
const MAX_STACK: u32 = 8;

fn part_in_use(part: &BlockDevice, depth: u32) -> Result<Option<String>> {
    let sys = Sys::default();
    for m in mounts::mounts(&sys)? {
        if m.device == part.number || m.source_device() == Some(part.number) {
            return Ok(Some(format!("mounted at {}", m.point.display())));
        }
    }
    for swap in mounts::swaps(&sys)? {
        if DeviceNumber::of_path(&swap) == Some(part.number) {
            return Ok(Some("used as swap".to_owned()));
        }
    }
    let Some(holder) = part.holders().into_iter().next() else {
        return Ok(None);
    };
    let deeper = if depth < MAX_STACK { part_in_use(&holder, depth + 1)? } else { None };
    let held = format!("held by {}", holder.describe());
    Ok(Some(match deeper {
        Some(deeper) => format!("{held}, {deeper}"),
        None => held,
    }))
}

/// Refuses a regular file that is swap or backs an active loop device. Errors: `Refused` with the
/// reason.
pub fn file(stat: &Stat, path: &Path) -> Result<()> {
    let is_it = |other: &Path| {
        std::fs::metadata(other).is_ok_and(|m| (m.dev(), m.ino()) == (stat.st_dev, stat.st_ino))
    };
    let sys = Sys::default();
    if mounts::swaps(&sys)?.iter().any(|swap| is_it(swap)) {
        return Err(in_use(path, "used as swap"));
    }
    let mut loops = loop_backings(&sys).into_iter();
    match loops.find(|(_, backing)| is_it(Path::new(backing))) {
        Some((name, _)) => Err(in_use(path, &format!("behind /dev/{name}"))),
        None => Ok(()),
    }
}

/// Refuses a file or device that another process has open for writing, in whole or in part. Processes
/// of other users are seen by root only. Errors: `Refused`, naming the process.
pub fn written_by_others(stat: &Stat, path: &Path, stop: &StopFlag) -> Result<()> {
    let device = FileType::from_raw_mode(stat.st_mode).is_block_device();
    let parts = if device { overlapping(stat.st_rdev) } else { Vec::new() };
    let is_part = |rdev| {
        rdev == stat.st_rdev || parts.iter().any(|p| p.number == DeviceNumber::from_dev(rdev))
    };
    let is_it = |m: &Metadata| match device {
        true => m.file_type().is_block_device() && is_part(m.rdev()),
        false => (m.dev(), m.ino()) == (stat.st_dev, stat.st_ino),
    };
    let mut process = None;
    let free = patience::wait(OPENED_BRIEFLY, OPENED_BRIEFLY / 20, stop, || {
        process = openers::writer(&Sys::default(), is_it);
        process.is_none().then_some(())
    });
    match process.filter(|_| free.is_none()) {
        None => Ok(()),
        Some(process) => {
            let what = if device { "the target, or a part of its disk," } else { "the target" };
            Err(Error::refused(format!("{what} is open for writing in {process}"))
                .with("target", path.display())
                .hint("end that program first, or choose another target"))
        }
    }
}

/// Programs that look at every device (udev, losetup) have one open for a moment.
const OPENED_BRIEFLY: Duration = Duration::from_secs(1);

/// The refusal of something in use.
pub fn in_use(path: &Path, reason: &str) -> Error {
    Error::refused(format!("the target is in use: {reason}")).with("target", path.display()).hint(
        "choose another target, or release this one first; a plan that only reads may set \
             options.read_in_use = true",
    )
}

fn cannot_stat(path: &Path, e: std::io::Error) -> Error {
    Error::unavailable("cannot stat the target").with("target", path.display()).source(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_root_device_is_seen() {
        let root = std::fs::metadata("/").unwrap();
        if BlockDevice::from_dev(&Sys::default(), root.dev()).is_none() {
            eprintln!("skipped: / is not on a block device");
            return;
        }
        let reason = device_in_use(root.dev()).unwrap().unwrap();
        assert!(reason.contains("mounted at"), "{reason}");
    }
}
