//! Limits of the control groups this process lives in: CPU quota spent, I/O let through.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Out, Source, numbers, window};
use crate::sys::read;
use crate::{Sys, cgroup};

const CPU: &str = "cgroup_cpu";
const IO: &str = "cgroup_io";

/// Throttled time (ns) and throttled periods of a `cpu.stat`: version 1 says ns, version 2 us.
pub(crate) fn cpu_stat(text: &str) -> Option<(u64, u64)> {
    let first = |key| numbers(text, key)?.first().copied();
    let ns = first("throttled_time").or_else(|| Some(first("throttled_usec")? * 1000))?;
    Some((ns, first("nr_throttled")?))
}

/// CPU quota of the group and those above it.
#[derive(Debug)]
pub(crate) struct CpuLimit {
    groups: Vec<Group>,
}

/// One group: its `cpu.stat`, its name, the last reading.
type Group = (PathBuf, Arc<str>, Option<(u64, u64)>);

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
        let with = files.filter(|f| read(f).is_some_and(|t| cpu_stat(&t).is_some()));
        CpuLimit {
            groups: with.map(|f| (f.clone(), name(&f), None)).collect(),
        }
    }
}

impl Source for CpuLimit {
    fn name(&self) -> &'static str {
        CPU
    }

    fn sample(&mut self, _sys: &Sys, mut out: Option<&mut Out>) {
        for (file, name, before) in &mut self.groups {
            let now = read(file).and_then(|t| cpu_stat(&t));
            window(before, now, out.as_deref_mut(), |before, now, out| {
                let ns = now.0.saturating_sub(before.0) as f64;
                out.rate(CPU, "throttled", Some(name), ns / 1e6);
                let periods = now.1.saturating_sub(before.1) as f64;
                out.rate(CPU, "nr_throttled/s", Some(name), periods);
            });
        }
    }

    fn missing(&self) -> Option<String> {
        let none = self.groups.is_empty();
        none.then(|| "this process is in no control group with a CPU controller".to_owned())
    }
}

/// Reads, read bytes, writes, written bytes of a device.
type Passed = [u64; 4];

/// The line of a device in `io.stat` (version 2): `8:0 rbytes=1 wbytes=2 rios=3 wios=4 ...`.
pub(crate) fn io_stat(text: &str, device: &str) -> Option<Passed> {
    let mut lines = text.lines().filter_map(|l| l.split_once(' '));
    let rest = lines.find(|(d, _)| *d == device)?.1;
    let value = |key: &str| {
        let mut words = rest.split_whitespace().filter_map(|w| w.split_once('='));
        words.find(|(k, _)| *k == key)?.1.parse().ok()
    };
    Some([
        value("rios")?,
        value("rbytes")?,
        value("wios")?,
        value("wbytes")?,
    ])
}

/// `8:0 Read 5` lines of a blkio file (version 1).
pub(crate) fn blkio(text: &str, device: &str, kind: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let mine = words.next() == Some(device) && words.next() == Some(kind);
        words.next().filter(|_| mine)?.parse().ok()
    })
}

/// One group and one disk.
#[derive(Debug)]
struct Pair {
    dir: PathBuf,
    second: bool,
    device: String,
    name: Arc<str>,
    before: Option<Passed>,
}

impl Pair {
    fn read(&self) -> Option<Passed> {
        if self.second {
            let text = std::fs::read_to_string(self.dir.join("io.stat")).ok()?;
            // A device the group has not used yet has no line: that is zero, seen.
            return io_stat(&text, &self.device).or(Some([0; 4]));
        }
        let file = |what: &str| read(&self.dir.join(format!("blkio.throttle.{what}")));
        let (ios, bytes) = (file("io_serviced")?, file("io_service_bytes")?);
        let of = |text: &str, kind: &str| blkio(text, &self.device, kind);
        Some([
            of(&ios, "Read")?,
            of(&bytes, "Read")?,
            of(&ios, "Write")?,
            of(&bytes, "Write")?,
        ])
    }
}

/// I/O of the group this process is in.
#[derive(Debug)]
pub(crate) struct IoLimit {
    pairs: Vec<Pair>,
    missing: Option<&'static str>,
    seen: bool,
}

impl IoLimit {
    /// For the given disks: number and name.
    pub fn new(sys: &Sys, disks: Vec<((u32, u32), Arc<str>)>) -> IoLimit {
        let group = cgroup::io_group(sys);
        let missing = match (&group, disks.is_empty()) {
            (_, true) => Some("the target is on no local disk"),
            (None, _) => Some("this process is in no control group with an I/O controller"),
            _ => None,
        };
        let pairs = group.into_iter().flat_map(|group| {
            let pair = move |((major, minor), name)| Pair {
                dir: group.dir.clone(),
                second: group.second,
                device: format!("{major}:{minor}"),
                name,
                before: None,
            };
            disks.clone().into_iter().map(pair)
        });
        IoLimit {
            pairs: pairs.collect(),
            missing,
            seen: false,
        }
    }
}

impl Source for IoLimit {
    fn name(&self) -> &'static str {
        IO
    }

    fn sample(&mut self, _sys: &Sys, mut out: Option<&mut Out>) {
        for pair in &mut self.pairs {
            let now = pair.read();
            self.seen |= now.is_some();
            let item = Some(&pair.name);
            window(&mut pair.before, now, out.as_deref_mut(), |b, n, out| {
                let count = |i: usize| n[i].saturating_sub(b[i]) as f64;
                out.rate(IO, "r/s", item, count(0));
                out.rate(IO, "rkB/s", item, count(1) / 1024.0);
                out.rate(IO, "w/s", item, count(2));
                out.rate(IO, "wkB/s", item, count(3) / 1024.0);
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
    fn both_versions_of_cpu_stat() {
        let one = "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n";
        assert_eq!(cpu_stat(one), Some((5000, 4)));
        let two = "usage_usec 1\nnr_throttled 4\nthrottled_usec 5\n";
        assert_eq!(cpu_stat(two), Some((5000, 4)));
        assert_eq!(cpu_stat("usage_usec 1\n"), None);
    }

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
        let disks = || vec![((8, 0), Arc::from("sda"))];
        put(root, "proc/self/cgroup", "0::/job\n");
        put(
            root,
            "sys/fs/cgroup/job/io.stat",
            "8:16 rbytes=9 wbytes=9 rios=9 wios=9\n",
        );
        let mut limit = IoLimit::new(&Sys::at(root), disks());
        let values = two(&mut limit, root, || {
            let text = "8:0 rbytes=8192 wbytes=0 rios=4 wios=0 dbytes=0 dios=0\n";
            put(root, "sys/fs/cgroup/job/io.stat", text);
        });
        assert_eq!(
            (of(&values, "r/s"), of(&values, "rkB/s")),
            (Some(2.0), Some(4.0))
        );
        put(root, "proc/self/cgroup", "7:blkio:/old\n0::/\n");
        let dir = "sys/fs/cgroup/blkio/old/blkio.throttle";
        put(
            root,
            &format!("{dir}.io_serviced"),
            "8:0 Read 4\n8:0 Write 2\nTotal 6\n",
        );
        put(
            root,
            &format!("{dir}.io_service_bytes"),
            "8:0 Read 4096\n8:0 Write 0\n",
        );
        let mut limit = IoLimit::new(&Sys::at(root), disks());
        let values = two(&mut limit, root, || {
            put(
                root,
                &format!("{dir}.io_serviced"),
                "8:0 Read 4\n8:0 Write 12\n",
            );
        });
        assert_eq!(
            (of(&values, "r/s"), of(&values, "w/s")),
            (Some(0.0), Some(5.0))
        );
        assert_eq!(limit.missing(), None);
    }
}
