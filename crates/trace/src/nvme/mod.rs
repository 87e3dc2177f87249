//! The drive's own view: logs of the NVMe drives below the target, before and after a run.
//!
//! Parsers of log pages (tested with synthetic pages), a reader that sends nothing but Identify, Get Log
//! Page and Get Features, and the JSON of nvme-cli. Nothing in a drive is set. `report` sets these counters
//! beside the host's outliers. Called by `cli`.

mod device;
pub mod json;
pub mod ocp;
pub mod pages;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_rundir::SCHEMA_VERSION;
use taillight_rundir::nvme::{LatencyMonitor, Logs, NvmeDrive, NvmeFile};

use pages::ControllerIdentity;

/// Intel's PCI vendor id: its drives had a page C3h of their own before OCP.
const INTEL: u16 = 0x8086;

/// The feature "volatile write cache": bit 0 says whether it is on.
const WRITE_CACHE: u8 = 0x06;

/// Sends commands that only read.
pub trait NvmeAdmin {
    /// Identify controller, 4,096 bytes. Errors: `Unavailable` when the drive or the kernel
    /// refuses.
    fn identify(&self) -> Result<Vec<u8>>;
    /// Get Log Page. Errors: as `identify`.
    fn log(&self, id: u8, bytes: usize) -> Result<Vec<u8>>;
    /// Get Features: the current value. Errors: as `identify`.
    fn feature(&self, id: u8) -> Result<u32>;
}

/// Drives below a target, and what they said before the run.
#[derive(Debug)]
pub struct Drives {
    list: Vec<(PathBuf, NvmeDrive)>,
}

impl Drives {
    /// Finds the NVMe drives among `disks` (names like `nvme0n1`) and reads their logs. A drive
    /// that cannot be read is kept with the reason.
    pub fn before(sys: &Sys, disks: &[String]) -> Drives {
        let mut list: Vec<(PathBuf, NvmeDrive)> = Vec::new();
        for disk in disks.iter().filter(|d| is_nvme(d)) {
            let (name, why) = match controller(sys, disk) {
                Ok(name) => (name, None),
                Err(why) => (disk.clone(), Some(why)),
            };
            if list.iter().any(|(_, d)| d.name == name) {
                continue;
            }
            let path = sys.path(&format!("/dev/{name}"));
            let mut drive = NvmeDrive { name, ..NvmeDrive::default() };
            if let Some(why) = why {
                drive.missing.push(why);
                list.push((path, drive));
                continue;
            }
            drive.before = open(&path).and_then(|d| read(&d, &mut drive)).map_or_else(
                |e| {
                    drive.missing.push(e.to_string());
                    None
                },
                Some,
            );
            list.push((path, drive));
        }
        Drives { list }
    }

    /// Reads the logs again; none when there is no NVMe drive.
    pub fn after(self) -> Option<NvmeFile> {
        let again = |(path, mut drive): (PathBuf, NvmeDrive)| {
            if drive.before.is_some() {
                match open(&path).and_then(|d| read(&d, &mut drive)) {
                    Ok(logs) => drive.after = Some(logs),
                    Err(e) => drive.missing.push(format!("after the run: {e}")),
                }
            }
            // What lacks before and after is said once.
            let mut said = BTreeSet::new();
            drive.missing.retain(|what| said.insert(what.clone()));
            drive
        };
        let drives: Vec<NvmeDrive> = self.list.into_iter().map(again).collect();
        (!drives.is_empty()).then_some(NvmeFile { schema: SCHEMA_VERSION, drives })
    }
}

fn open(path: &Path) -> Result<device::NvmeDevice> {
    device::NvmeDevice::open(path)
}

/// What one drive says now. `path` is a controller, a disk or a partition: `/dev/nvme0`,
/// `/dev/nvme0n1p2`, a link to one. Errors: `Usage` when it is no NVMe drive, `Unavailable` when it
/// cannot be read, `Corrupt` when it does not identify itself.
pub fn look(sys: &Sys, path: &Path) -> Result<NvmeDrive> {
    let name = controller_of(sys, path)?;
    let device = open(&sys.path(&format!("/dev/{name}")))?;
    let mut drive = NvmeDrive { name, ..NvmeDrive::default() };
    drive.before = Some(read(&device, &mut drive)?);
    Ok(drive)
}

/// The controller a path means.
fn controller_of(sys: &Sys, path: &Path) -> Result<String> {
    let none = |why: String| {
        Error::usage("this is no NVMe drive")
            .with("path", path.display())
            .with("why", why)
            .hint("give a controller or a disk, like /dev/nvme0; `ls /dev/nvme*` lists them")
    };
    let real = path.canonicalize().map_err(|e| none(e.to_string()))?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    if is_controller(&name) {
        return Ok(name.into_owned());
    }
    if !is_nvme(&name) {
        return Err(none("its name is not that of one".to_owned()));
    }
    // A partition's directory is inside that of its disk.
    let disk = name.rsplit_once('p').map_or(&*name, |(disk, _)| disk);
    controller(sys, disk).map_err(none)
}

/// `nvme0n1` and the like.
fn is_nvme(disk: &str) -> bool {
    let rest = disk.strip_prefix("nvme");
    rest.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()) && r.contains('n'))
}

/// `nvme0`.
fn is_controller(name: &str) -> bool {
    let number = name.strip_prefix("nvme");
    number.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
}

/// The controller of a disk, or why it cannot be told. The number in the disk's name is no answer:
/// with native multipath it is that of the subsystem, and a controller of the same number may be
/// another drive's.
fn controller(sys: &Sys, disk: &str) -> std::result::Result<String, String> {
    let unknown = || format!("which controller {disk} has cannot be told");
    let place = format!("/sys/block/{disk}/device");
    let dir = sys.path(&place).canonicalize().map_err(|_| unknown())?;
    let owner = dir.file_name().unwrap_or_default().to_string_lossy();
    if is_controller(&owner) {
        return Ok(owner.into_owned());
    }
    if !owner.starts_with("nvme-subsys") {
        return Err(unknown());
    }
    let mut paths = sys.names(&place);
    paths.retain(|n| is_controller(n));
    match paths.as_slice() {
        [] => Err(unknown()),
        [one] => Ok(one.clone()),
        several => Err(format!(
            "{disk} has several controllers ({}): whose logs belong to this run cannot be told",
            several.join(", ")
        )),
    }
}

/// Reads SMART, error log and latency monitor. Nothing is asked before the drive identified itself, and the
/// monitor only when the drive lists that page: one it does not know would add to its error log.
fn read(device: &dyn NvmeAdmin, drive: &mut NvmeDrive) -> Result<Logs> {
    let identity = pages::identity(&device.identify()?)?;
    drive.model = identity.model.clone();
    drive.firmware = identity.firmware.clone();
    // Asked of a drive without such a cache, the feature would be an entry of its error log.
    if identity.write_cache {
        let cache = device.feature(WRITE_CACHE).map(|value| value & 1 != 0);
        drive.write_cache = keep(cache, drive);
    }
    let mut logs = Logs {
        smart: keep(device.log(0x02, 512).and_then(|p| pages::smart(&p)), drive),
        ..Logs::default()
    };
    let entries = usize::from(identity.error_entries).min(64);
    let errors = device.log(0x01, entries * 64).and_then(|p| pages::errors(&p));
    logs.errors = keep(errors, drive);
    logs.latency_monitor = latency_monitor(device, &identity, drive);
    Ok(logs)
}

/// The page of the OCP latency monitor, if the drive lists it.
fn latency_monitor(
    device: &dyn NvmeAdmin,
    identity: &ControllerIdentity,
    drive: &mut NvmeDrive,
) -> Option<LatencyMonitor> {
    if !identity.lists_logs {
        drive.missing.push(
            "the drive does not list its log pages (before NVMe 2.0), so the latency monitor's is \
             not asked for; `nvme ocp latency-monitor-log -o json` can be imported"
                .to_owned(),
        );
        return None;
    }
    let supported = device.log(0x00, 1024).and_then(|p| pages::supported(&p));
    let supported = keep(supported, drive)?;
    if identity.vendor == INTEL || supported.get(0xc3) != Some(&true) {
        let none = "no OCP latency monitor (log page C3h)";
        drive.missing.push(none.to_owned());
        return None;
    }
    keep(device.log(0xc3, 512).and_then(|p| ocp::parse(&p)), drive)
}

/// A log, or the reason why it is missing.
fn keep<T>(log: Result<T>, drive: &mut NvmeDrive) -> Option<T> {
    match log {
        Ok(log) => Some(log),
        Err(e) => {
            drive.missing.push(e.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A drive that answers from memory and notes what it was asked.
    struct FakeDrive {
        lists: bool,
        /// It has a volatile write cache.
        caches: bool,
        vendor: u16,
        asked: RefCell<Vec<u8>>,
    }

    impl NvmeAdmin for FakeDrive {
        fn identify(&self) -> Result<Vec<u8>> {
            let mut page = pages::testing::identity(self.vendor, self.lists);
            page[525] = self.caches.into();
            Ok(page)
        }
        fn log(&self, id: u8, bytes: usize) -> Result<Vec<u8>> {
            self.asked.borrow_mut().push(id);
            let mut page = vec![0; bytes];
            match id {
                0x00 => {
                    let pages = [0xc1, 0xc2, 0xc3, 0xd0, 0xd1];
                    pages.iter().for_each(|i| page[i * 4] = 1);
                }
                0xc3 => page = ocp::testing::page(),
                _ => {}
            }
            Ok(page)
        }
        fn feature(&self, id: u8) -> Result<u32> {
            self.asked.borrow_mut().push(id);
            Ok(1)
        }
    }

    fn asked(lists: bool, vendor: u16) -> (Vec<u8>, NvmeDrive, Logs) {
        let fake = FakeDrive { lists, caches: false, vendor, asked: RefCell::default() };
        let mut drive = NvmeDrive::default();
        let logs = read(&fake, &mut drive).unwrap();
        (fake.asked.into_inner(), drive, logs)
    }

    #[test]
    fn the_latency_monitor_is_asked_for_only_when_listed() {
        let (asked_for, drive, logs) = asked(false, 0x1234);
        assert_eq!(asked_for, [0x02, 0x01]);
        assert!(logs.latency_monitor.is_none());
        assert!(drive.missing[0].contains("does not list"));
        let (asked_for, drive, logs) = asked(true, 0x1234);
        assert_eq!(asked_for, [0x02, 0x01, 0x00, 0xc3], "no page of a vendor");
        assert!(logs.latency_monitor.unwrap().enabled);
        assert_eq!(drive.model, "Example SSD");
        let (asked_for, drive, _) = asked(true, INTEL);
        assert_eq!(asked_for, [0x02, 0x01, 0x00]);
        assert!(drive.missing[0].contains("C3h"), "{:?}", drive.missing);
    }

    #[test]
    fn the_write_cache_is_asked_for_where_there_is_one() {
        for (caches, state) in [(true, Some(true)), (false, None)] {
            let fake = FakeDrive { lists: false, caches, vendor: 1, asked: RefCell::default() };
            let mut drive = NvmeDrive::default();
            read(&fake, &mut drive).unwrap();
            assert_eq!((drive.write_cache, fake.asked.borrow().contains(&0x06)), (state, caches));
        }
    }

    #[test]
    fn disks_have_controllers() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let dir = |path: &str| {
            let path = home.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let link = |disk: &str, owner: &str| {
            let block = dir(&format!("sys/block/{disk}"));
            let owner = dir(&format!("sys/devices/{owner}"));
            std::os::unix::fs::symlink(owner, block.join("device")).unwrap();
        };
        link("nvme12n1", "pci/nvme12");
        // Native multipath: the disk has the subsystem's number.
        dir("sys/devices/virtual/nvme-subsys0/nvme3");
        dir("sys/devices/virtual/nvme-subsys0/nvme0n1");
        link("nvme0n1", "virtual/nvme-subsys0");
        dir("sys/devices/virtual/nvme-subsys1/nvme1");
        dir("sys/devices/virtual/nvme-subsys1/nvme2");
        link("nvme1n1", "virtual/nvme-subsys1");
        assert_eq!(controller(&sys, "nvme12n1").unwrap(), "nvme12");
        assert_eq!(controller(&sys, "nvme0n1").unwrap(), "nvme3");
        let why = controller(&sys, "nvme1n1").unwrap_err();
        assert!(why.contains("several controllers (nvme1, nvme2)"), "{why}");
        assert!(controller(&sys, "nvme7n1").is_err());
        let of = |path: &str| controller_of(&sys, &home.path().join(path));
        for path in ["dev/nvme12", "dev/nvme12n1", "dev/nvme12n1p3", "dev/vda"] {
            dir(path);
        }
        assert_eq!(of("dev/nvme12").unwrap(), "nvme12");
        assert_eq!(of("dev/nvme12n1").unwrap(), "nvme12");
        assert_eq!(of("dev/nvme12n1p3").unwrap(), "nvme12");
        assert!(of("dev/vda").unwrap_err().to_string().contains("no NVMe"));
        assert!(of("dev/nvme9").is_err());
        let file = Drives::before(&sys, &["nvme1n1".to_owned()]).after();
        let drive = &file.unwrap().drives[0];
        assert_eq!((&*drive.name, &drive.missing), ("nvme1n1", &vec![why]));
        assert!(is_nvme("nvme0c1n1") && !is_nvme("nvme") && !is_nvme("vda"));
    }

    #[test]
    fn a_drive_that_is_not_there_is_named() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let drives = Drives::before(&sys, &["nvme0n1".to_owned(), "vda".to_owned()]);
        let file = drives.after().unwrap();
        assert_eq!(file.drives.len(), 1);
        assert!(!file.drives[0].missing.is_empty());
        assert!(Drives::before(&sys, &["vda".to_owned()]).after().is_none());
    }
}
