//! Control groups this process lives in: how long and how often they were without CPU by their quota (ms a second,
//! periods a second), and the I/O of the own group on the disks below the target.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taillight_machine::Sys;
use taillight_machine::cgroup::{self, CpuThrottling, GroupIo, IoControlGroup};
use taillight_machine::{DeviceNumber, read};

use super::{HostSource, SampleOutput, window};

const CPU: &str = "cgroup_cpu";
const IO: &str = "cgroup_io";

/// CPU quota of the group and those above it.
#[derive(Debug)]
pub(crate) struct CpuLimit {
    groups: Vec<ThrottledGroup>,
}

/// One group: its `cpu.stat`, its name, the last reading.
type ThrottledGroup = (PathBuf, Arc<str>, Option<CpuThrottling>);

fn throttling(file: &Path) -> Option<CpuThrottling> {
    cgroup::cpu_throttling(&read(file)?)
}

impl CpuLimit {
    pub fn new(sys: &Sys) -> CpuLimit {
        let root = sys.path("/sys/fs/cgroup");
        let name = |file: &PathBuf| {
            let dir = file.parent().unwrap_or(file);
            let below = dir.strip_prefix(&root).unwrap_or(dir);
            Arc::from(below.to_string_lossy().as_ref())
        };
        let files = cgroup::cpu_stats(sys).into_iter();
        // A group without the controller has no such counters.
        let with = files.filter(|f| throttling(f).is_some());
        CpuLimit { groups: with.map(|f| (f.clone(), name(&f), None)).collect() }
    }
}

impl HostSource for CpuLimit {
    fn name(&self) -> &'static str {
        CPU
    }

    fn sample(&mut self, _sys: &Sys, mut out: Option<&mut SampleOutput>) {
        for (file, name, before) in &mut self.groups {
            let now = throttling(file);
            window(before, now, out.as_deref_mut(), |before, now, out| {
                let ns = now.ns.saturating_sub(before.ns) as f64;
                out.rate(CPU, "throttled", Some(name), ns / 1e6);
                let periods = now.periods.saturating_sub(before.periods) as f64;
                out.rate(CPU, "nr_throttled/s", Some(name), periods);
            });
        }
    }

    fn missing(&self) -> Option<String> {
        let none = self.groups.is_empty();
        none.then(|| "this process is in no control group with a CPU controller".to_owned())
    }
}

/// One disk and what the group had done on it.
#[derive(Debug)]
struct GroupDisk {
    number: DeviceNumber,
    name: Arc<str>,
    before: Option<GroupIo>,
}

/// I/O of the group this process is in.
#[derive(Debug)]
pub(crate) struct IoLimit {
    group: Option<IoControlGroup>,
    disks: Vec<GroupDisk>,
    missing: Option<&'static str>,
    seen: bool,
}

impl IoLimit {
    /// For the given disks: number and name.
    pub fn new(sys: &Sys, disks: Vec<(DeviceNumber, Arc<str>)>) -> IoLimit {
        let group = cgroup::io_group(sys);
        let missing = match (&group, disks.is_empty()) {
            (_, true) => Some("the target is on no local disk"),
            (None, _) => Some("this process is in no control group with an I/O controller"),
            _ => None,
        };
        let disk = |(number, name)| GroupDisk { number, name, before: None };
        IoLimit { group, disks: disks.into_iter().map(disk).collect(), missing, seen: false }
    }
}

impl HostSource for IoLimit {
    fn name(&self) -> &'static str {
        IO
    }

    fn sample(&mut self, _sys: &Sys, mut out: Option<&mut SampleOutput>) {
        let Some(group) = &self.group else { return };
        for disk in &mut self.disks {
            let now = group.io(disk.number);
            self.seen |= now.is_some();
            let item = Some(&disk.name);
            window(&mut disk.before, now, out.as_deref_mut(), |b, n, out| {
                let count = |now: u64, before: u64| now.saturating_sub(before) as f64;
                out.rate(IO, "r/s", item, count(n.reads, b.reads));
                let kib = count(n.read_bytes, b.read_bytes) / 1024.0;
                out.rate(IO, "rkB/s", item, kib);
                out.rate(IO, "w/s", item, count(n.writes, b.writes));
                let kib = count(n.written_bytes, b.written_bytes) / 1024.0;
                out.rate(IO, "wkB/s", item, kib);
            });
        }
    }

    fn missing(&self) -> Option<String> {
        let uncounted = "this control group (version 1) counts only I/O under a throttle";
        let missing = self.missing.or((!self.seen).then_some(uncounted));
        missing.map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{of, put, two};
    use super::*;

    #[test]
    fn a_quota_of_version_2_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(root, "proc/self/cgroup", "0::/job\n");
        let stat = |us: u64| format!("nr_periods 9\nnr_throttled 4\nthrottled_usec {us}\n");
        put(root, "sys/fs/cgroup/job/cpu.stat", &stat(1000));
        let mut limit = CpuLimit::new(&Sys::at(root));
        let values = two(&mut limit, root, || {
            put(root, "sys/fs/cgroup/job/cpu.stat", &stat(201_000));
        });
        assert_eq!(values[0], ("throttled", Some("job".to_owned()), 100.0));
        assert_eq!(of(&values, "nr_throttled/s"), Some(0.0));
    }

    #[test]
    fn io_of_both_versions() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let disks = || vec![(DeviceNumber { major: 8, minor: 0 }, Arc::from("sda"))];
        put(root, "proc/self/cgroup", "0::/job\n");
        put(root, "sys/fs/cgroup/job/io.stat", "8:16 rbytes=9 wbytes=9 rios=9 wios=9\n");
        let mut limit = IoLimit::new(&Sys::at(root), disks());
        let values = two(&mut limit, root, || {
            let text = "8:0 rbytes=8192 wbytes=0 rios=4 wios=0 dbytes=0 dios=0\n";
            put(root, "sys/fs/cgroup/job/io.stat", text);
        });
        assert_eq!((of(&values, "r/s"), of(&values, "rkB/s")), (Some(2.0), Some(4.0)));
        put(root, "proc/self/cgroup", "7:blkio:/old\n0::/\n");
        let dir = "sys/fs/cgroup/blkio/old/blkio.throttle";
        put(root, &format!("{dir}.io_serviced"), "8:0 Read 4\n8:0 Write 2\nTotal 6\n");
        put(root, &format!("{dir}.io_service_bytes"), "8:0 Read 4096\n8:0 Write 0\n");
        let mut limit = IoLimit::new(&Sys::at(root), disks());
        let values = two(&mut limit, root, || {
            put(root, &format!("{dir}.io_serviced"), "8:0 Read 4\n8:0 Write 12\n");
        });
        assert_eq!((of(&values, "r/s"), of(&values, "w/s")), (Some(0.0), Some(5.0)));
        assert_eq!(limit.missing(), None);
    }
}
