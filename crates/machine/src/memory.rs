//! Memory: sizes, swap, huge pages, NUMA nodes, reclaim, space of file systems.

use serde::Serialize;

use crate::{Sys, chosen, field};

/// Memory of the machine, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    pub total: u64,
    /// What new work can have without swapping.
    pub available: u64,
    pub swap_total: u64,
    /// Swap space in use.
    pub swap_used: u64,
    /// Pages changed in memory and not yet on storage.
    pub dirty: u64,
    /// Transparent huge pages: always, madvise or never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent_hugepages: Option<String>,
    /// One entry per NUMA node: its processors and memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub numa: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Its processors, like `0-7`.
    pub cpus: String,
    /// Its memory, bytes.
    pub total: u64,
}

/// The line of what can be had without swapping.
const AVAILABLE: &str = "MemAvailable";

/// What the kernel says can be had without swapping, bytes; none where it does not say.
pub fn available(sys: &Sys) -> Option<u64> {
    kib(field(&sys.text("/proc/meminfo")?, ':', AVAILABLE))
}

/// What `/proc/meminfo` says.
pub fn parse_meminfo(text: &str) -> Memory {
    let bytes = |key: &str| kib(field(text, ':', key)).unwrap_or(0);
    // Kernels before 3.14 have no MemAvailable; free plus cached is close.
    let available = kib(field(text, ':', AVAILABLE));
    let available = available.unwrap_or_else(|| bytes("MemFree") + bytes("Cached"));
    let swap_total = bytes("SwapTotal");
    Memory {
        total: bytes("MemTotal"),
        available,
        swap_total,
        swap_used: swap_total.saturating_sub(bytes("SwapFree")),
        dirty: bytes("Dirty"),
        transparent_hugepages: None,
        numa: Vec::new(),
    }
}

/// "123 kB" in bytes.
fn kib(value: Option<&str>) -> Option<u64> {
    let number: u64 = value?.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

impl Memory {
    pub fn read(sys: &Sys) -> Memory {
        let mut memory = parse_meminfo(&sys.text("/proc/meminfo").unwrap_or_default());
        memory.transparent_hugepages =
            sys.text("/sys/kernel/mm/transparent_hugepage/enabled").map(|t| chosen(&t).to_owned());
        let nodes = "/sys/devices/system/node";
        let is_node =
            |name: &String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
        memory.numa = sys
            .names(nodes)
            .into_iter()
            .filter(is_node)
            .map(|name| NumaNode {
                cpus: sys.text(&format!("{nodes}/{name}/cpulist")).unwrap_or_default(),
                total: node_total(
                    &sys.text(&format!("{nodes}/{name}/meminfo")).unwrap_or_default(),
                ),
            })
            .collect();
        memory
    }
}

/// The total in a node's meminfo, whose lines begin with "Node 0 ".
fn node_total(text: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once("MemTotal:"))
        .find_map(|(_, value)| kib(Some(value)))
        .unwrap_or(0)
}

/// Size and free bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileSystemSpace {
    /// All bytes.
    pub total: u64,
    /// Bytes this process can have.
    pub available: u64,
}

/// Space of the file system that holds `path`.
pub fn space(path: &std::path::Path) -> Option<FileSystemSpace> {
    let s = rustix::fs::statvfs(path).ok()?;
    Some(FileSystemSpace {
        total: s.f_blocks.saturating_mul(s.f_frsize),
        available: s.f_bavail.saturating_mul(s.f_frsize),
    })
}

/// Counters of `/proc/vmstat` that tell of writeback and reclaim; none where the kernel lacks one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmStat {
    /// Pages now, as are those in writeback.
    pub dirty: Option<u64>,
    pub writeback: Option<u64>,
    /// Pages scanned since boot by tasks that needed memory, and by the kernel's own threads.
    pub scanned_direct: Option<u64>,
    pub scanned_kswapd: Option<u64>,
    /// Allocations that waited for reclaim.
    pub stalls: Option<u64>,
    pub major_faults: Option<u64>,
}

impl VmStat {
    pub fn read(sys: &Sys) -> Option<VmStat> {
        VmStat::parse(&sys.text("/proc/vmstat")?)
    }

    /// Reads the text of `/proc/vmstat`; none when it has none of the counters.
    pub fn parse(text: &str) -> Option<VmStat> {
        let mut vm = VmStat::default();
        let add = |sum: &mut Option<u64>, n: u64| *sum = Some(sum.map_or(n, |known| known + n));
        for (name, value) in text.lines().filter_map(|l| l.split_once(' ')) {
            let Ok(n) = value.trim().parse::<u64>() else {
                continue;
            };
            match name {
                "nr_dirty" => vm.dirty = Some(n),
                "nr_writeback" => vm.writeback = Some(n),
                "pgmajfault" => vm.major_faults = Some(n),
                "pgscan_direct_throttle" => {}
                // One per kind of memory; older kernels have them per zone for scans as well.
                _ if name.starts_with("pgscan_direct") => add(&mut vm.scanned_direct, n),
                _ if name.starts_with("pgscan_kswapd") => add(&mut vm.scanned_kswapd, n),
                _ if name.starts_with("allocstall") => add(&mut vm.stalls, n),
                _ => {}
            }
        }
        (vm != VmStat::default()).then_some(vm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes() {
        let m = parse_meminfo(include_str!("../fixtures/meminfo.txt"));
        assert_eq!(m.total, 24_684_084 * 1024);
        assert_eq!(m.available, 20_000_000 * 1024);
        assert_eq!(m.swap_used, 1024 * 1024);
        assert_eq!(m.dirty, 120 * 1024);
    }

    #[test]
    fn old_kernels_have_no_available_line() {
        let m = parse_meminfo("MemTotal: 100 kB\nMemFree: 40 kB\nCached: 10 kB\n");
        assert_eq!(m.available, 50 * 1024);
    }

    #[test]
    fn node_lines_have_a_prefix() {
        assert_eq!(node_total("Node 0 MemTotal:   2048 kB\nNode 0 MemFree: 1 kB"), 2 << 20);
    }

    #[test]
    fn scans_of_every_zone_are_added() {
        let vm = VmStat::parse("pgscan_direct_dma 3\npgscan_direct_normal 4\n").unwrap();
        assert_eq!(vm.scanned_direct, Some(7));
        assert_eq!(VmStat::parse("nr_free_pages 1\n"), None);
    }
}
