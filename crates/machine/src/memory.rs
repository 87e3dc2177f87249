//! Memory: sizes, swap, huge pages, NUMA nodes, reclaim, space of file systems.

use serde::Serialize;

use crate::{Sys, chosen, field};

/// Memory of the machine, in bytes. What the kernel does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// What new work can have without swapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total: Option<u64>,
    /// Swap space in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_used: Option<u64>,
    /// Pages changed in memory and not yet on storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<u64>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// What `/proc/meminfo` says.
pub fn parse_meminfo(text: &str) -> Memory {
    let bytes = |key: &str| kib(field(text, ':', key)?);
    // Kernels before 3.14 have no MemAvailable; free plus cached is close.
    let cached = || Some(bytes("MemFree")? + bytes("Cached")?);
    let swap_total = bytes("SwapTotal");
    let swap_free = bytes("SwapFree");
    Memory {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable").or_else(cached),
        swap_total,
        swap_used: swap_total.zip(swap_free).map(|(total, free)| total.saturating_sub(free)),
        dirty: bytes("Dirty"),
        transparent_hugepages: None,
        numa: Vec::new(),
    }
}

/// "123 kB" in bytes.
fn kib(value: &str) -> Option<u64> {
    let number: u64 = value.split_whitespace().next()?.parse().ok()?;
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
                total: sys
                    .text(&format!("{nodes}/{name}/meminfo"))
                    .and_then(|text| node_total(&text)),
            })
            .collect();
        memory
    }
}

/// The total in a node's meminfo, whose lines begin with "Node 0 ".
fn node_total(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once("MemTotal:"));
    lines.find_map(|(_, value)| kib(value))
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
    /// Dirty pages, and pages in writeback, now.
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
        assert_eq!(m.total, Some(24_684_084 * 1024));
        assert_eq!(m.available, Some(20_000_000 * 1024));
        assert_eq!(m.swap_used, Some(1024 * 1024));
        assert_eq!(m.dirty, Some(120 * 1024));
    }

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        // Old kernels have no MemAvailable.
        let m = parse_meminfo("MemTotal: 100 kB\nMemFree: 40 kB\nCached: 10 kB\n");
        assert_eq!((m.total, m.available), (Some(100 * 1024), Some(50 * 1024)));
        assert_eq!((m.swap_total, m.swap_used, m.dirty), (None, None, None));
        let m = parse_meminfo("MemTotal: lots\nMemFree: 40 kB\nSwapTotal: 8 kB\n");
        assert_eq!((m.total, m.available, m.swap_used), (None, None, None));
        assert_eq!(Memory::read(&Sys::at("/nowhere")), Memory::default());
    }

    #[test]
    fn node_lines_have_a_prefix() {
        assert_eq!(node_total("Node 0 MemTotal:   2048 kB\nNode 0 MemFree: 1 kB"), Some(2 << 20));
    }

    #[test]
    fn scans_of_every_zone_are_added() {
        let vm = VmStat::parse("pgscan_direct_dma 3\npgscan_direct_normal 4\n").unwrap();
        assert_eq!(vm.scanned_direct, Some(7));
        assert_eq!(VmStat::parse("nr_free_pages 1\n"), None);
    }
}
