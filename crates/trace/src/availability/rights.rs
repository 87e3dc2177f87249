//! What this process is allowed to do, as far as tracing needs it.

use std::os::unix::fs::MetadataExt;

use taillight_machine::{Sys, chosen, field};

/// The kernel's first PID namespace has this inode.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Capabilities that matter here, with their bit numbers.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// Effective capabilities of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(u64);

impl Rights {
    pub fn read(sys: &Sys) -> Rights {
        let status = sys.text("/proc/self/status").unwrap_or_default();
        parse(&status)
    }
    fn has(self, bit: u32) -> bool {
        self.0 & (1 << bit) != 0
    }
    /// Programs can be loaded and attached to trace points.
    pub fn tracing(self) -> bool {
        self.has(SYS_ADMIN) || (self.has(BPF) && self.has(PERFMON))
    }
    /// Threads may be watched whatever `perf_event_paranoid` says.
    pub fn perfmon(self) -> bool {
        self.has(SYS_ADMIN) || self.has(PERFMON)
    }
    /// What tracing misses, by name.
    pub fn missing_for_tracing(self) -> Vec<&'static str> {
        if self.has(SYS_ADMIN) {
            return Vec::new();
        }
        [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")]
            .into_iter()
            .filter(|(bit, _)| !self.has(*bit))
            .map(|(_, name)| name)
            .collect()
    }
}

fn parse(status: &str) -> Rights {
    let mask = field(status, ':', "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    Rights(mask.unwrap_or(0))
}

/// Whether thread ids here are those the kernel's trace points show.
pub fn same_pid_namespace(sys: &Sys) -> bool {
    std::fs::metadata(sys.path("/proc/self/ns/pid"))
        .map_or(true, |m| m.ino() == FIRST_PID_NAMESPACE)
}

/// The kernel lockdown mode: none, integrity or confidentiality.
pub fn lockdown(sys: &Sys) -> Option<String> {
    sys.text("/sys/kernel/security/lockdown").map(|t| chosen(&t).to_owned())
}

/// Whether the kernel describes its own types, which portable programs need.
pub fn has_btf(sys: &Sys) -> bool {
    sys.exists("/sys/kernel/btf/vmlinux")
}

/// Where trace points are listed, if mounted and readable.
pub fn tracefs(sys: &Sys) -> Option<&'static str> {
    ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        .into_iter()
        .find(|dir| sys.exists(&format!("{dir}/events/block")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_come_as_bits() {
        let all = parse("CapPrm:\t0\nCapEff:\t000001ffffffffff\n");
        assert!(all.tracing());
        let none = parse("CapEff:\t0000000000000000\n");
        assert!(!none.tracing());
        assert_eq!(none.missing_for_tracing(), ["CAP_BPF", "CAP_PERFMON"]);
        let bpf = parse("CapEff:\t0000008000000000\n");
        assert_eq!(bpf.missing_for_tracing(), ["CAP_PERFMON"]);
        assert!(parse("CapEff:\t000000c000000000").tracing());
        assert!(!parse("").tracing());
    }
}
