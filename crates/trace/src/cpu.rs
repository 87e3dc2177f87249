//! The processors: model, counts, frequency policy, virtualisation.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::sys::{Sys, field};

/// The processors of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cpu {
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
pub fn parse_cpuinfo(text: &str) -> Cpu {
    let mut cpu = Cpu::default();
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

impl Cpu {
    pub fn read(sys: &Sys) -> Cpu {
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
        cpu.smt = sys
            .number("/sys/devices/system/cpu/smt/active")
            .map(|n| n == 1);
        cpu.isolated = sys.text("/sys/devices/system/cpu/isolated");
        cpu
    }
}

fn turbo(sys: &Sys) -> Option<bool> {
    if let Some(off) = sys.number("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        return Some(off == 0);
    }
    sys.number("/sys/devices/system/cpu/cpufreq/boost")
        .map(|on| on == 1)
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
        assert_eq!(parse_cpuinfo(""), Cpu::default());
    }
}
