//! What the kernel counted of I/O: of a block device (`/proc/diskstats`), of this process (`/proc/self/io`).

use crate::{DeviceNumber, Sys, field};

/// Counters of a device, in the order of the kernel's iostats documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskCounters {
    pub name: String,
    /// As many as the kernel has: 11, with discards 15, with flushes 17.
    pub fields: Vec<u64>,
}

impl DiskCounters {
    /// Where the counters of a kind of request begin: count, merged, sectors of 512 bytes, ms.
    pub const READS: usize = 0;
    pub const WRITES: usize = 4;
    pub const DISCARDS: usize = 11;

    /// Those of one device, out of the text of `/proc/diskstats`.
    pub fn of(text: &str, device: DeviceNumber) -> Option<DiskCounters> {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let number = |w: Option<&str>| w?.parse::<u32>().ok();
            if number(words.next())? != device.major || number(words.next())? != device.minor {
                return None;
            }
            Some(DiskCounters {
                name: words.next()?.to_owned(),
                fields: words.map_while(|w| w.parse().ok()).collect(),
            })
        })
    }

    pub fn at(&self, i: usize) -> Option<u64> {
        self.fields.get(i).copied()
    }
}

/// What the kernel charged to this process, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIo {
    /// Fetched from storage for it.
    pub read: u64,
    /// Sent to storage for it, or made dirty in the page cache.
    pub written: u64,
    /// Given to write calls.
    pub passed: u64,
}

impl ProcessIo {
    /// Of all threads of this process so far; none where the kernel does not count or tell.
    pub fn here(sys: &Sys) -> Option<ProcessIo> {
        let text = sys.text("/proc/self/io")?;
        let of = |key| field(&text, ':', key)?.parse().ok();
        Some(ProcessIo {
            read: of("read_bytes")?,
            written: of("write_bytes")?,
            passed: of("wchar")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn counters_of_one_device_and_of_this_process() {
        let text = " 254 0 vda 10 1 80 5 20 2 160 7 0 9 12 3 0 24 1 4 2\n 254 1 vda1 1 0 8 1\n";
        let of = |minor| DiskCounters::of(text, DeviceNumber { major: 254, minor });
        let disk = of(0).unwrap();
        assert_eq!((disk.name.as_str(), disk.at(DiskCounters::WRITES + 2)), ("vda", Some(160)));
        assert_eq!(disk.at(DiskCounters::DISCARDS + 2), Some(24));
        assert_eq!(of(1).unwrap().at(DiskCounters::DISCARDS), None);
        assert_eq!(of(2), None);
        let dir = tempfile::tempdir().unwrap();
        let io = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 512\n";
        put(dir.path(), "proc/self/io", io);
        let sys = Sys::at(dir.path());
        assert_eq!(ProcessIo::here(&sys), Some(ProcessIo { read: 4096, written: 512, passed: 8 }));
        assert!(ProcessIo::here(&Sys::default()).is_some());
    }
}
