//! The processors: model, counts, frequency policy, virtualisation, and where their time went.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{Sys, field, numbers};

/// The processors of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CpuInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Logical processors the system shows.
    pub logical: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u32>,
    /// Processors this process may use, like `0-3,8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// Frequency governors in use, without repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub governor: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_driver: Option<String>,
    /// Whether the clock may rise above its nominal rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// Whether two logical processors share a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// Processors kept away from other work at boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolated: Option<String>,
    /// Whether this is a virtual machine, as the processor says.
    pub hypervisor: bool,
}

/// What `/proc/cpuinfo` says.
pub fn parse_cpuinfo(text: &str) -> CpuInfo {
    let mut cpu = CpuInfo::default();
    let (mut cores, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for block in text.split("\n\n").filter(|b| !b.trim().is_empty()) {
        if field(block, ':', "processor").is_none() {
            continue;
        }
        cpu.logical += 1;
        let socket = field(block, ':', "physical id");
        sockets.extend(socket);
        cores.extend(field(block, ':', "core id").map(|core| (socket, core)));
        let model = field(block, ':', "model name").or_else(|| field(block, ':', "Model"));
        cpu.model = cpu.model.or_else(|| model.map(str::to_owned));
        let flags = field(block, ':', "flags").unwrap_or_default();
        cpu.hypervisor |= flags.split(' ').any(|f| f == "hypervisor");
    }
    let count = |n: usize| u32::try_from(n).ok().filter(|n| *n > 0);
    cpu.cores = count(cores.len());
    cpu.sockets = count(sockets.len());
    cpu
}

impl CpuInfo {
    pub fn read(sys: &Sys) -> CpuInfo {
        let mut cpu = parse_cpuinfo(&sys.text("/proc/cpuinfo").unwrap_or_default());
        let status = sys.text("/proc/self/status").unwrap_or_default();
        cpu.allowed = field(&status, ':', "Cpus_allowed_list").map(str::to_owned);
        let policies = "/sys/devices/system/cpu/cpufreq";
        for policy in sys.names(policies) {
            let read = |name: &str| sys.text(&format!("{policies}/{policy}/{name}"));
            cpu.governor.extend(read("scaling_governor"));
            cpu.frequency_driver = cpu.frequency_driver.or_else(|| read("scaling_driver"));
        }
        cpu.governor.sort();
        cpu.governor.dedup();
        cpu.turbo = turbo(sys);
        cpu.smt = sys.number("/sys/devices/system/cpu/smt/active").map(|n| n == 1);
        cpu.isolated = sys.text("/sys/devices/system/cpu/isolated");
        cpu
    }
}

fn turbo(sys: &Sys) -> Option<bool> {
    if let Some(off) = sys.number("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(off == 0);
    }
    sys.number("/sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1)
}

/// Processor time since boot, in clock ticks over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CpuTicks {
    pub total: u64,
    /// Idle, waiting for I/O included.
    pub idle: u64,
    /// Taken by the hypervisor for other machines.
    pub steal: u64,
    /// Spent in interrupts, hard and soft.
    pub interrupts: u64,
}

impl CpuTicks {
    /// What passed since `earlier`.
    #[must_use]
    pub fn since(self, earlier: CpuTicks) -> CpuTicks {
        CpuTicks {
            total: self.total.saturating_sub(earlier.total),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
        }
    }
    /// Stolen time, percent of all.
    pub fn steal_percent(self) -> f64 {
        percent(self.steal, self.total)
    }
    /// Busy time, stolen time excluded, percent of all.
    pub fn busy_percent(self) -> f64 {
        let idle = self.idle + self.steal;
        percent(self.total.saturating_sub(idle), self.total)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 * 1e4 / whole as f64).round() / 100.0
}

/// Counters of `/proc/stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelStat {
    /// user nice system idle iowait irq softirq steal, clock ticks of all CPUs: at least four. Guest
    /// time is inside user and nice.
    pub ticks: Vec<u64>,
    /// Busy (stolen time included) and whole time of each CPU, in the order of the lines.
    pub each: Vec<(u64, u64)>,
    /// Interrupts and context switches since boot, counted.
    pub interrupts: Option<u64>,
    pub switches: Option<u64>,
    /// Tasks that wait for I/O now.
    pub blocked: Option<u64>,
}

impl KernelStat {
    pub fn read(sys: &Sys) -> Option<KernelStat> {
        KernelStat::parse(&sys.text("/proc/stat")?)
    }

    /// Reads the text of `/proc/stat`.
    pub fn parse(text: &str) -> Option<KernelStat> {
        let ticks: Vec<u64> = numbers(text, "cpu")?.into_iter().take(8).collect();
        let busy_and_whole = |line: &str| {
            let rest = line.strip_prefix("cpu")?;
            rest.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
            let words = rest.split_whitespace().skip(1).take(8);
            let n: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
            let whole: u64 = n.iter().sum();
            let idle = n.get(3)? + n.get(4).unwrap_or(&0);
            Some((whole - idle, whole))
        };
        let first = |key| numbers(text, key)?.first().copied();
        (ticks.len() >= 4).then(|| KernelStat {
            ticks,
            each: text.lines().filter_map(busy_and_whole).collect(),
            interrupts: first("intr"),
            switches: first("ctxt"),
            blocked: first("procs_blocked"),
        })
    }

    /// The time of all processors; a kind that the kernel does not count is zero.
    pub fn cpu_ticks(&self) -> CpuTicks {
        let at = |i: usize| self.ticks.get(i).copied().unwrap_or(0);
        CpuTicks {
            total: self.ticks.iter().sum(),
            idle: at(3) + at(4),
            steal: at(7),
            interrupts: at(5) + at(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sockets_with_two_threads_a_core() {
        let cpu = parse_cpuinfo(include_str!("../fixtures/cpuinfo-2-sockets.txt"));
        assert_eq!(cpu.model.as_deref(), Some("Example CPU 9000 @ 2.50GHz"));
        assert_eq!((cpu.logical, cpu.cores, cpu.sockets), (4, Some(2), Some(2)));
        assert!(!cpu.hypervisor);
    }

    #[test]
    fn a_virtual_machine_shows_its_flag() {
        let cpu = parse_cpuinfo(include_str!("../fixtures/cpuinfo-vm.txt"));
        assert!(cpu.hypervisor);
        assert_eq!((cpu.logical, cpu.cores), (1, Some(1)));
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(parse_cpuinfo(""), CpuInfo::default());
    }

    #[test]
    fn ticks_of_a_virtual_machine() {
        let stat = KernelStat::parse(include_str!("../fixtures/stat.txt")).unwrap();
        let t = stat.cpu_ticks();
        assert_eq!((t.total, t.idle, t.steal, t.interrupts), (1000, 700, 50, 30));
        assert_eq!(t.steal_percent(), 5.0);
        assert_eq!(t.busy_percent(), 25.0);
        assert_eq!(t.since(t).total, 0);
        assert_eq!(t.since(t).steal_percent(), 0.0);
        assert_eq!(KernelStat::parse("cpu 1 2\n"), None);
        assert_eq!(KernelStat::parse(""), None);
    }
}
