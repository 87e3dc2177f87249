//! Whether the process that wrote a manifest still lives.

use std::fs;

use crate::manifest::ProcessInfo;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl ProcessInfo {
    /// This process; none where the kernel does not tell it apart from others (no `/proc`).
    pub fn current() -> Option<ProcessInfo> {
        let pid = std::process::id();
        Some(ProcessInfo {
            pid,
            boot_id: line(BOOT_ID)?,
            start_ticks: start_ticks(pid)?,
            host: line("/proc/sys/kernel/hostname")?,
        })
    }

    /// Whether this very process runs on this machine now: same boot, same id, same start.
    pub fn is_alive(&self) -> bool {
        line(BOOT_ID).as_ref() == Some(&self.boot_id)
            && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Start of a living process, clock ticks since boot: field 22 of its stat line. The name in
/// field 2 may hold anything, so fields count from the last parenthesis.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_another_start_does_not() {
        let me = ProcessInfo::current().unwrap();
        assert!(me.is_alive());
        assert!(me.start_ticks > 0);
        let mut before = me.clone();
        before.start_ticks -= 1;
        assert!(!before.is_alive());
        let mut other_boot = me;
        other_boot.boot_id.push('x');
        assert!(!other_boot.is_alive());
    }
}
