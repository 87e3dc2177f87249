//! What the kernel counts of the I/O on a file or device: the device below, and what is charged to this process.
//! Where no device below is known, or one counts nothing, the process alone.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use taillight_core::OpKind;
use taillight_core::witness::{WitnessCount, WitnessUnit};
use taillight_machine::io_counters::{DiskCounters, ProcessIo};
use taillight_machine::{BlockDevice, DeviceNumber, Sys, block};

const CACHED: &str = "the page cache answers reads and gathers writes";
const AHEAD: &str = "through the page cache whole pages are read, and read ahead";
const METADATA: &str = "metadata and journal of the file system";
const ELSEWHERE: &str = "what this process wrote elsewhere, as its run directory";
const SPLIT: &str = "a request beyond what the device takes is several";
const CUT: &str = "a device may discard less than it was asked";
const NO_DEVICE: &str = "the kernel knows no device below this file system that counts";

/// Whose counters are read.
pub struct FileWitness {
    devices: Vec<DeviceNumber>,
    /// Some I/O goes through the page cache.
    cached: bool,
    /// Files have metadata, a device has none.
    files: bool,
}

impl FileWitness {
    pub fn new(files: &[OwnedFd], cached: bool) -> FileWitness {
        let fd = files.first();
        let block = fd
            .and_then(|fd| fstat(fd).ok())
            .filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice);
        let below = || {
            // By its name: what a file system without a device number names is found by that of its mount.
            let link = format!("/proc/self/fd/{}", fd?.as_raw_fd());
            Some(block::devices_of(&Sys::default(), &std::fs::read_link(link).ok()?))
        };
        let devices = match &block {
            Some(device) => vec![DeviceNumber::from_dev(device.st_rdev)],
            None => below().unwrap_or_default(),
        };
        // A device may be told to count nothing (queue/iostats): its counters stand still.
        let counts = |number: &DeviceNumber| {
            let device = BlockDevice::find(&Sys::default(), *number);
            device.and_then(|d| d.queue("iostats")).is_none_or(|counts| counts != "0")
        };
        let devices = if devices.iter().all(counts) { devices } else { Vec::new() };
        FileWitness { devices, cached, files: block.is_none() }
    }

    /// The counters now.
    pub fn counts(&self) -> Vec<WitnessCount> {
        let sys = Sys::default();
        let process = ProcessIo::here(&sys);
        let text = sys.text("/proc/diskstats").unwrap_or_default();
        let disks = self.devices.iter().map(|number| DiskCounters::of(&text, *number));
        match disks.collect::<Option<Vec<_>>>() {
            Some(disks) if !disks.is_empty() => self.of_disks(&disks, process),
            _ => process.map_or_else(Vec::new, |io| self.of_process(io)),
        }
    }

    fn of_disks(&self, disks: &[DiskCounters], process: Option<ProcessIo>) -> Vec<WitnessCount> {
        let names: Vec<&str> = disks.iter().map(|d| d.name.as_str()).collect();
        let names = names.join(", ");
        let sum = |i: usize| disks.iter().map(|d| d.at(i)).sum::<Option<u64>>();
        let of = |what: &str, unit, op, value| {
            let source = format!("/proc/diskstats of {names}, {what}");
            WitnessCount { shared: true, ..WitnessCount::new(source, unit, &[op], value) }
        };
        let mut all = Vec::new();
        let kinds = [
            (OpKind::Read, "read", DiskCounters::READS, process.map(|io| io.read)),
            (OpKind::Write, "written", DiskCounters::WRITES, process.map(|io| io.written)),
            (OpKind::Trim, "discarded", DiskCounters::DISCARDS, None),
        ];
        for (op, what, at, own) in kinds {
            if let (Some(ios), Some(merged)) = (sum(at), sum(at + 1)) {
                let count =
                    of(&format!("requests {what}"), WitnessUnit::Operations, op, ios + merged);
                let more = self.more(op).filter(|more| *more != ELSEWHERE).or(Some(SPLIT));
                all.push(WitnessCount { less: self.less(op), more, ..count });
            }
            if let Some(sectors) = sum(at + 2) {
                let count = of(&format!("bytes {what}"), WitnessUnit::Bytes, op, 512 * sectors);
                all.push(WitnessCount { own, less: self.less(op), more: self.more(op), ..count });
            }
        }
        all
    }

    /// The counts of this process alone.
    fn of_process(&self, io: ProcessIo) -> Vec<WitnessCount> {
        let of = |what: &str, op, value| {
            let source = format!("/proc/self/io, {what}");
            let count = WitnessCount::new(source, WitnessUnit::Bytes, &[op], value);
            WitnessCount { less: Some(NO_DEVICE), more: self.more(op), ..count }
        };
        vec![
            of("bytes read", OpKind::Read, io.read),
            of("bytes written", OpKind::Write, io.written),
        ]
    }

    fn less(&self, op: OpKind) -> Option<&'static str> {
        match op {
            OpKind::Trim => Some(CUT),
            _ => self.cached.then_some(CACHED),
        }
    }

    fn more(&self, op: OpKind) -> Option<&'static str> {
        match op {
            OpKind::Read => self.cached.then_some(AHEAD),
            _ if self.files => Some(METADATA),
            _ => Some(ELSEWHERE),
        }
    }
}
