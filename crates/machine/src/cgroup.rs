//! The control groups this process lives in, version 1 and 2: their limits and their counters.

use serde::Serialize;

use crate::{DeviceNumber, Sys, numbers, read};

/// The tightest limits on the way up to the root.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CgroupLimits {
    /// Processors' worth of time: 1.5 means 150 ms in each 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<u64>,
    /// Memory in use by the group with that limit, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<u64>,
}

/// One line of `/proc/self/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupEntry {
    /// Controllers; empty for version 2.
    controllers: Vec<String>,
    path: String,
}

fn parse_groups(text: &str) -> Vec<GroupEntry> {
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        Some(GroupEntry {
            controllers: controllers
                .split(',')
                .filter(|c| !c.is_empty())
                .map(str::to_owned)
                .collect(),
            path: parts.next()?.to_owned(),
        })
    };
    text.lines().filter_map(group).collect()
}

/// "max 100000" or "150000 100000" as processors.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    ratio(quota.parse().ok()?, period.trim().parse().ok()?)
}

fn ratio(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// A memory limit; "max" and the largest numbers of version 1 mean none.
fn parse_memory(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| *n < 1 << 60)
}

/// `/a/b` -> `/a/b`, `/a`, ``: a group and everything above it.
fn upwards(path: &str) -> Vec<&str> {
    let mut path = path.trim_end_matches('/');
    let mut all = vec![path];
    while let Some((above, _)) = path.rsplit_once('/') {
        all.push(above);
        path = above;
    }
    all
}

/// Paths of `cpu.stat` of the groups of this process that could have a quota: all on the way up but the root. Not
/// each has the file.
pub fn cpu_stats(sys: &Sys) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for group in parse_groups(&sys.text("/proc/self/cgroup").unwrap_or_default()) {
        let mounts: Vec<String> = match group.controllers.iter().any(|c| c == "cpu") {
            true => vec![group.controllers.join(","), "cpu".to_owned()],
            false if group.controllers.is_empty() => vec![String::new(), "unified".to_owned()],
            false => continue,
        };
        let dirs = mounts.iter().map(|m| format!("/sys/fs/cgroup/{m}"));
        let Some(root) = dirs.into_iter().find(|d| {
            let path = format!("{d}{}/cpu.stat", group.path.trim_end_matches('/'));
            sys.exists(&path)
        }) else {
            continue;
        };
        for path in upwards(&group.path).into_iter().filter(|p| !p.is_empty()) {
            files.push(sys.path(&format!("{root}{path}/cpu.stat")));
        }
    }
    files
}

/// A group of this process with an I/O controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoControlGroup {
    pub dir: std::path::PathBuf,
    /// Version 2.
    pub second: bool,
}

/// The group whose I/O counters this process is in; version 2 where both are there.
pub fn io_group(sys: &Sys) -> Option<IoControlGroup> {
    let groups = parse_groups(&sys.text("/proc/self/cgroup").unwrap_or_default());
    let of = |group: &GroupEntry, mount: &str, file: &str, second: bool| {
        let path = format!("/sys/fs/cgroup{mount}{}", group.path.trim_end_matches('/'));
        sys.exists(&format!("{path}/{file}"))
            .then(|| IoControlGroup { dir: sys.path(&path), second })
    };
    let two = groups.iter().filter(|g| g.controllers.is_empty());
    let mut two = two.flat_map(|g| ["", "/unified"].map(|m| of(g, m, "io.stat", true)));
    let one = groups.iter().filter(|g| g.controllers.iter().any(|c| c == "blkio"));
    let mut one = one.map(|g| of(g, "/blkio", "blkio.throttle.io_serviced", false));
    two.find_map(|g| g).or_else(|| one.find_map(|g| g))
}

/// How long a group was without CPU because its quota was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuThrottling {
    pub ns: u64,
    /// Periods in which that happened.
    pub periods: u64,
}

/// Reads the text of `cpu.stat`: version 1 says ns, version 2 us. A group without the controller
/// has no such counters.
pub fn cpu_throttling(text: &str) -> Option<CpuThrottling> {
    let first = |key| numbers(text, key)?.first().copied();
    Some(CpuThrottling {
        ns: first("throttled_time").or_else(|| Some(first("throttled_usec")? * 1000))?,
        periods: first("nr_throttled")?,
    })
}

/// I/O of a group on one device, since the group was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupIo {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

/// The line of a device in `io.stat` (version 2): `8:0 rbytes=1 wbytes=2 rios=3 wios=4 ...`.
fn io_stat(text: &str, device: &str) -> Option<GroupIo> {
    let mut lines = text.lines().filter_map(|l| l.split_once(' '));
    let rest = lines.find(|(d, _)| *d == device)?.1;
    let value = |key: &str| {
        let mut words = rest.split_whitespace().filter_map(|w| w.split_once('='));
        words.find(|(k, _)| *k == key)?.1.parse().ok()
    };
    Some(GroupIo {
        reads: value("rios")?,
        read_bytes: value("rbytes")?,
        writes: value("wios")?,
        written_bytes: value("wbytes")?,
    })
}

/// `8:0 Read 5` lines of a blkio file (version 1).
fn blkio(text: &str, device: &str, kind: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let mine = words.next() == Some(device) && words.next() == Some(kind);
        words.next().filter(|_| mine)?.parse().ok()
    })
}

impl IoControlGroup {
    /// What the group did on a device; none when it does not count that.
    pub fn io(&self, device: DeviceNumber) -> Option<GroupIo> {
        let device = device.to_string();
        if self.second {
            let text = std::fs::read_to_string(self.dir.join("io.stat")).ok()?;
            // A device the group has not used yet has no line: that is zero, seen.
            return io_stat(&text, &device).or(Some(GroupIo::default()));
        }
        let file = |what: &str| read(&self.dir.join(format!("blkio.throttle.{what}")));
        let (ios, bytes) = (file("io_serviced")?, file("io_service_bytes")?);
        Some(GroupIo {
            reads: blkio(&ios, &device, "Read")?,
            read_bytes: blkio(&bytes, &device, "Read")?,
            writes: blkio(&ios, &device, "Write")?,
            written_bytes: blkio(&bytes, &device, "Write")?,
        })
    }
}

impl CgroupLimits {
    /// Reads every group on the way up and keeps the tightest limits.
    pub fn read(sys: &Sys) -> CgroupLimits {
        let mut limits = CgroupLimits::default();
        let groups = parse_groups(&sys.text("/proc/self/cgroup").unwrap_or_default());
        for group in groups {
            let has = |name: &str| group.controllers.iter().any(|c| c == name);
            if group.controllers.is_empty() {
                for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
                    limits.version_2(sys, root, &group.path);
                }
            }
            if has("cpu") {
                limits.cpu_1(sys, &group);
            }
            if has("memory") {
                limits.memory_1(sys, &group.path);
            }
        }
        limits
    }

    fn version_2(&mut self, sys: &Sys, root: &str, path: &str) {
        for group in upwards(path) {
            let read = |name: &str| sys.text(&format!("{root}{group}/{name}"));
            self.cpu(read("cpu.max").and_then(|t| parse_cpu_max(&t)));
            self.memory(
                read("memory.max").and_then(|t| parse_memory(&t)),
                read("memory.current").and_then(|t| t.parse().ok()),
            );
        }
    }

    fn cpu_1(&mut self, sys: &Sys, group: &GroupEntry) {
        for mount in [group.controllers.join(","), "cpu".to_owned()] {
            for path in upwards(&group.path) {
                let read = |name: &str| {
                    sys.text(&format!("/sys/fs/cgroup/{mount}{path}/{name}"))?.parse::<i64>().ok()
                };
                let (quota, period) = (read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"));
                self.cpu(quota.zip(period).and_then(|(q, p)| ratio(q, p)));
            }
        }
    }

    fn memory_1(&mut self, sys: &Sys, path: &str) {
        for group in upwards(path) {
            let read = |name: &str| sys.text(&format!("/sys/fs/cgroup/memory{group}/{name}"));
            self.memory(
                read("memory.limit_in_bytes").and_then(|t| parse_memory(&t)),
                read("memory.usage_in_bytes").and_then(|t| t.parse().ok()),
            );
        }
    }

    fn cpu(&mut self, cpus: Option<f64>) {
        if let Some(cpus) = cpus {
            self.cpus = Some(self.cpus.map_or(cpus, |known| known.min(cpus)));
        }
    }

    fn memory(&mut self, max: Option<u64>, used: Option<u64>) {
        if let Some(max) = max
            && self.memory_max.is_none_or(|known| max < known)
        {
            (self.memory_max, self.memory_used) = (Some(max), used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn version_2_takes_the_tightest() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        put(root, "proc/self/cgroup", "0::/a/b\n");
        put(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        put(root, "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
        put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
        put(root, "sys/fs/cgroup/a/memory.max", "1073741824\n");
        put(root, "sys/fs/cgroup/a/memory.current", "4096\n");
        let limits = CgroupLimits::read(&Sys::at(root));
        assert_eq!(limits.cpus, Some(1.5));
        assert_eq!(limits.memory_max, Some(1 << 30));
        assert_eq!(limits.memory_used, Some(4096));
    }

    #[test]
    fn version_1_has_a_directory_per_controller() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        put(root, "proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/\n");
        put(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
        put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        put(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n");
        put(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
        let limits = CgroupLimits::read(&Sys::at(root));
        assert_eq!(limits.cpus, Some(0.5));
        assert_eq!(limits.memory_max, Some(512 << 20));
    }

    #[test]
    fn no_limit_is_no_entry() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "proc/self/cgroup", "0::/\n");
        assert_eq!(CgroupLimits::read(&Sys::at(dir.path())), CgroupLimits::default());
        assert_eq!(upwards("/"), [""]);
        assert_eq!(upwards("/a/b"), ["/a/b", "/a", ""]);
    }

    #[test]
    fn both_versions_of_cpu_stat() {
        let both = CpuThrottling { ns: 5000, periods: 4 };
        let one = "nr_periods 9\nnr_throttled 4\nthrottled_time 5000\n";
        assert_eq!(cpu_throttling(one), Some(both));
        let two = "usage_usec 1\nnr_throttled 4\nthrottled_usec 5\n";
        assert_eq!(cpu_throttling(two), Some(both));
        assert_eq!(cpu_throttling("usage_usec 1\n"), None);
    }
}
