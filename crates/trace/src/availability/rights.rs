//! What this process is allowed to do, as far as tracing needs it.

use std::os::unix::fs::MetadataExt;

use taillight_machine::rights::{Capability, lacking};
use taillight_machine::{Sys, chosen};

/// The kernel's first PID namespace has this inode.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What loading and attaching trace programs takes and this process lacks, by name.
pub fn missing_for_tracing(sys: &Sys) -> Vec<String> {
    lacking(sys, &[Capability::Bpf, Capability::Perfmon])
}

/// Whether thread ids here are those the kernel's trace points show; true where that is not known.
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
