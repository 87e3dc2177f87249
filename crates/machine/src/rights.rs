//! Rights of this process as the kernel counts them, and the one text for "run as root" and what else may
//! be missing. Whether something is allowed depends on more than capabilities: try it.

use crate::root::{Sys, field};

/// Capabilities that something here needs, with their bits (include/uapi/linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    IpcLock = 14,
    SysAdmin = 21,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    /// The name, in lower case as `setcap` takes it.
    fn name(self) -> &'static str {
        match self {
            Capability::IpcLock => "cap_ipc_lock",
            Capability::SysAdmin => "cap_sys_admin",
            Capability::Syslog => "cap_syslog",
            Capability::Perfmon => "cap_perfmon",
            Capability::Bpf => "cap_bpf",
        }
    }

    /// Whether a mask of capabilities gives this right. What CAP_PERFMON and CAP_BPF give was cut out of CAP_SYS_ADMIN,
    /// which still gives it.
    fn within(self, mask: u64) -> bool {
        let has = |c: Capability| mask & (1 << c as u32) != 0;
        let part = matches!(self, Capability::Perfmon | Capability::Bpf);
        has(self) || part && has(Capability::SysAdmin)
    }
}

/// What trace programs need with all they tell.
pub const TRACING: [Capability; 3] = [Capability::Bpf, Capability::Perfmon, Capability::Syslog];

/// Whether this process has what a capability gives, on the machine: in a user namespace of its own alone it does not
/// count for what the machine has one of (capable() in kernel/capability.c).
pub fn has(sys: &Sys, capability: Capability) -> bool {
    effective(sys).is_some_and(|mask| capability.within(mask)) && on_machine(sys)
}

/// Those of them that it lacks, by name.
pub fn lacking(sys: &Sys, needed: &[Capability]) -> Vec<String> {
    let lacking = needed.iter().filter(|c| !has(sys, **c));
    lacking.map(|c| c.name().to_uppercase()).collect()
}

/// Capabilities in effect, as bits.
fn effective(sys: &Sys) -> Option<u64> {
    let status = sys.text("/proc/self/status")?;
    u64::from_str_radix(field(&status, ':', "CapEff")?, 16).ok()
}

/// Whether it is in the machine's own user namespace, where all ids are themselves. A kernel without others
/// has no map.
fn on_machine(sys: &Sys) -> bool {
    let map = sys.text("/proc/self/uid_map").unwrap_or_default();
    map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// What to do about a refusal of something that needs these capabilities; where there are none, of a file or device.
pub fn hint(sys: &Sys, needed: &[Capability]) -> String {
    let status = sys.text("/proc/self/status").unwrap_or_default();
    let user = field(&status, ':', "Uid").and_then(|ids| ids.split_whitespace().nth(1));
    if user != Some("0") && needed.is_empty() {
        return "run as root, or as a user or group that may open it".to_owned();
    }
    if user != Some("0") {
        let names: Vec<&str> = needed.iter().map(|c| c.name()).collect();
        return format!("run as root, or: setcap {}+ep on the taillight binary", names.join(","));
    }
    let mask = effective(sys).unwrap_or(0);
    let lacking = needed.iter().filter(|c| !c.within(mask));
    let lacking: Vec<String> = lacking.map(|c| c.name().to_uppercase()).collect();
    if !lacking.is_empty() {
        return format!(
            "this is root without {}: whoever started it (a container, a service) can add that \
             (docker run --cap-add, AmbientCapabilities= of systemd)",
            lacking.join(" and ")
        );
    }
    if !on_machine(sys) {
        return "this is root of a user namespace only: run as root of the host".to_owned();
    }
    "this is root with every capability it takes: a kernel lockdown, a seccomp profile, a container's \
     list of devices or a security module refuses it; `dmesg` may name it"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    #[test]
    fn a_capability_counts_on_the_machine_alone() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let of = |mask: &str, map: &str| {
            put(home.path(), "proc/self/status", &format!("Name:\tx\nCapEff:\t{mask}\n"));
            put(home.path(), "proc/self/uid_map", map);
            lacking(&sys, &[Capability::Bpf, Capability::Perfmon])
        };
        let host = "         0          0 4294967295\n";
        assert!(of("000001ffffffffff", host).is_empty());
        assert!(of("0000000000200000", host).is_empty(), "CAP_SYS_ADMIN is enough");
        assert!(of("000000c000000000", host).is_empty());
        assert_eq!(of("0000008000000000", host), ["CAP_PERFMON"]);
        assert_eq!(of("0", host), ["CAP_BPF", "CAP_PERFMON"]);
        assert_eq!(of("000001ffffffffff", "0 1000 1\n"), ["CAP_BPF", "CAP_PERFMON"]);
        std::fs::remove_file(home.path().join("proc/self/status")).unwrap();
        assert!(!has(&sys, Capability::IpcLock), "not known");
    }

    #[test]
    fn root_is_not_told_to_become_root() {
        let home = tempfile::tempdir().unwrap();
        let sys = Sys::at(home.path());
        let of = |user: u32, mask: &str, map: &str| {
            let status = format!("Name:\tx\nUid:\t1000\t{user}\t0\t0\nCapEff:\t{mask}\n");
            put(home.path(), "proc/self/status", &status);
            put(home.path(), "proc/self/uid_map", map);
            hint(&sys, &TRACING)
        };
        let (all, host) = ("000001ffffffffff", "         0          0 4294967295\n");
        let said = of(1000, "0", host);
        assert!(
            said.contains("run as root, or: setcap cap_bpf,cap_perfmon,cap_syslog+ep"),
            "{said}"
        );
        // CAP_SYS_ADMIN alone: enough for the programs, not for the kernel's addresses.
        let said = of(0, "0000000000200000", host);
        assert!(said.contains("root without CAP_SYSLOG:"), "{said}");
        let said = of(0, "00000000a80425fb", host);
        assert!(said.contains("CAP_BPF and CAP_PERFMON and CAP_SYSLOG"), "{said}");
        assert!(!hint(&sys, &[]).contains("run as root"));
        let said = of(0, all, "0 1000 1\n");
        assert!(said.contains("user namespace"), "{said}");
        let said = of(0, all, host);
        assert!(said.contains("lockdown") && !said.contains("run as root"), "{said}");
        std::fs::remove_file(home.path().join("proc/self/status")).unwrap();
        assert!(hint(&sys, &TRACING).contains("run as root"), "not known who asks");
    }
}
