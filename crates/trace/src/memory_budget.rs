//! Memory that the defaults of a plan depend on: what is free on this machine, and how much of it the capture may take.

use std::path::Path;

use taillight_core::job::MachineMemory;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::cgroup::CgroupLimits;
use taillight_machine::memory::{Memory, space};

/// Where capture chunks live: memory with a name, so that they survive a killed process.
pub const SHM: &str = "/dev/shm";

/// Memory a new process can have: what the machine has left, within the limits of its group. Errors:
/// `Unavailable` when the kernel does not say.
pub fn free_memory(sys: &Sys) -> Result<u64> {
    let available = Memory::read(sys).available.ok_or_else(|| {
        Error::unavailable("how much memory is free is not known")
            .with("path", "/proc/meminfo")
            .hint("mount /proc: the memory for the capture is bounded by what is free")
    })?;
    let limits = CgroupLimits::read(sys);
    let left = limits.memory_max.map(|max| match limits.memory_used {
        Some(used) => max.saturating_sub(used),
        None => max,
    });
    Ok(left.map_or(available, |left| available.min(left)))
}

/// A quarter of the free memory, and no more than nine tenths of what `/dev/shm` can still hold;
/// in whole MiB, because people read it.
pub fn capture_budget(free: u64, shm: Option<u64>) -> u64 {
    let room = shm.map_or(u64::MAX, |available| available / 10 * 9);
    let budget = (free / 4).min(room);
    match budget >> 20 {
        0 => budget,
        mib => mib << 20,
    }
}

/// Both, as a plan is resolved with them. Errors: as [`free_memory`].
pub fn read(sys: &Sys) -> Result<MachineMemory> {
    let free = free_memory(sys)?;
    let shm = space(Path::new(SHM)).map(|s| s.available);
    Ok(MachineMemory {
        capture_budget: ByteSize(capture_budget(free, shm)),
        free_memory: ByteSize(free),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::testing::put;

    #[test]
    fn the_budget_fits_memory_and_shm() {
        const GIB: u64 = 1 << 30;
        assert_eq!(capture_budget(16 * GIB, Some(8 * GIB)), 4 * GIB);
        assert_eq!(capture_budget(16 * GIB, Some(64 << 20)), 57 << 20);
        assert_eq!(capture_budget(16 * GIB, None), 4 * GIB);
    }

    #[test]
    fn a_group_limit_counts_and_unknown_memory_is_no_zero() {
        let home = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(home.path(), path, text);
        let sys = Sys::at(home.path());
        let e = free_memory(&sys).unwrap_err();
        assert!(e.to_string().contains("meminfo") && e.hint_text().is_some(), "{e}");
        put("proc/meminfo", "MemAvailable: 1000 kB\n");
        assert_eq!(free_memory(&sys).unwrap(), 1000 << 10);
        put("proc/self/cgroup", "0::/a\n");
        put("sys/fs/cgroup/cgroup.controllers", "memory\n");
        put("sys/fs/cgroup/a/memory.max", "512000\n");
        put("sys/fs/cgroup/a/memory.current", "102400\n");
        assert_eq!(free_memory(&sys).unwrap(), 400 << 10);
    }
}
