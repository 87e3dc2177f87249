//! Loop devices and what is behind each, as the loop driver itself says (`LOOP_GET_STATUS64`): device and
//! inode of the backing file, or the backing device, with offset and size. The path in sysfs is not used:
//! it may mean another file by now, or one of another mount namespace. The driver's guard asks.

mod sys;

use std::ops::Range;

use crate::{DeviceNumber, Sys, node};

/// What is behind a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopBacking {
    /// Device number of the backing file's file system, as stat gives it (`lo_device`).
    pub file_system: DeviceNumber,
    /// Inode number of the backing file (`lo_inode`).
    pub inode: u64,
    /// The backing file is this block device (`lo_rdevice`).
    pub device: Option<DeviceNumber>,
    /// Where the loop device begins in it, bytes.
    pub offset: u64,
    /// How many bytes of it are used; 0 for all.
    pub size_limit: u64,
}

impl LoopBacking {
    /// Where a range of the loop device lies in what is behind it, bytes.
    pub fn range(&self, of: Range<u64>) -> Range<u64> {
        let size = if self.size_limit == 0 { u64::MAX } else { self.size_limit };
        let at = |byte: u64| self.offset.saturating_add(byte.min(size));
        at(of.start)..at(of.end)
    }
}

/// A loop device that is in use, or that cannot be asked whether it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveLoop {
    pub name: String,
    pub number: DeviceNumber,
    /// What is behind it, or why it cannot be told.
    pub backing: Result<LoopBacking, String>,
}

/// Every loop device that has something behind it or cannot be asked, by name. None where neither sysfs nor procfs
/// lists block devices.
pub fn active(sys: &Sys) -> Option<Vec<ActiveLoop>> {
    let mut all = listed(sys)?;
    all.sort();
    all.dedup();
    let ask = |(name, number): (String, DeviceNumber)| {
        let backing = node::open(number, &name, false).and_then(|fd| sys::status(&fd));
        // One that went meanwhile is in use no more.
        let there = || listed(sys).is_some_and(|all| all.iter().any(|(n, _)| *n == name));
        let backing = match backing {
            Ok(backing) => Ok(backing?),
            Err(_) if !there() => return None,
            Err(e) => Err(format!("/dev/{name}: {e}")),
        };
        Some(ActiveLoop { name, number, backing })
    };
    Some(all.into_iter().filter_map(ask).collect())
}

/// Names and numbers of loop devices that may be in use: those of sysfs with a file behind them, and all
/// that have a size in `/proc/partitions`, which is there where sysfs is not.
fn listed(sys: &Sys) -> Option<Vec<(String, DeviceNumber)>> {
    let number = |name: &str| sys.text(&format!("/sys/block/{name}/dev"))?.parse().ok();
    let is_loop = |name: &str| {
        name.strip_prefix("loop").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
    };
    let names = sys.names("/sys/block");
    let used = |name: &&String| is_loop(name) && sys.exists(&format!("/sys/block/{name}/loop"));
    let mut all: Vec<_> =
        names.iter().filter(used).filter_map(|name| Some((name.clone(), number(name)?))).collect();
    let table = sys.text("/proc/partitions");
    if table.is_none() && names.is_empty() {
        return None;
    }
    for line in table.iter().flat_map(|text| text.lines()) {
        if let [major, minor, _, name] = *line.split_whitespace().collect::<Vec<_>>()
            && let Ok(number) = format!("{major}:{minor}").parse()
            && is_loop(name)
        {
            all.push((name.to_owned(), number));
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn a_part_of_a_loop_device_lies_behind_its_offset_and_inside_its_limit() {
        let number = DeviceNumber { major: 8, minor: 1 };
        let all =
            LoopBacking { file_system: number, inode: 2, device: None, offset: 0, size_limit: 0 };
        assert_eq!(all.range(0..u64::MAX), 0..u64::MAX);
        let some = LoopBacking { offset: 100, size_limit: 50, ..all };
        assert_eq!((some.range(0..u64::MAX), some.range(10..20)), (100..150, 110..120));
    }

    #[test]
    fn a_loop_device_is_listed_by_sysfs_or_procfs_and_one_that_cannot_be_asked_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        let sys = Sys::at(tmp.path());
        assert_eq!(active(&sys), None);
        let table = "major minor  #blocks  name\n\n 254 0 99 vda\n 4095 5 16 loop9\n";
        put(tmp.path(), "proc/partitions", table);
        put(tmp.path(), "sys/block/loop8/dev", "4095:4\n");
        put(tmp.path(), "sys/block/loop8/loop/backing_file", "/a\n");
        put(tmp.path(), "sys/block/loop7/dev", "4095:3\n");
        let all = active(&sys).unwrap();
        let names: Vec<&str> = all.iter().map(|l| l.name.as_str()).collect();
        // No device has these numbers, whoever asks: neither is taken for unused.
        assert_eq!(names, ["loop8", "loop9"]);
        assert!(all.iter().all(|l| l.backing.is_err()), "{all:?}");
    }
}
