//! The facts of this machine that defaults of a plan depend on.

use std::path::Path;

use taillight_core::job::MachineMemory;
use taillight_core::units::ByteSize;
use taillight_machine::Sys;
use taillight_machine::cgroup::CgroupLimits;
use taillight_machine::memory::{Memory, space};

/// Where capture chunks live: memory with a name, so that they survive a killed process.
pub const SHM: &str = "/dev/shm";

/// Memory a new process can have: what the machine has left, within the limits of its group.
pub fn free_memory(memory: &Memory, limits: &CgroupLimits) -> u64 {
    let group = match limits.memory_max {
        Some(max) => max.saturating_sub(limits.memory_used.unwrap_or(0)),
        None => u64::MAX,
    };
    memory.available.min(group)
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

pub fn read(sys: &Sys) -> MachineMemory {
    let free = free_memory(&Memory::read(sys), &CgroupLimits::read(sys));
    let shm = space(Path::new(SHM)).map(|s| s.available);
    MachineMemory {
        capture_budget: ByteSize(capture_budget(free, shm)),
        free_memory: ByteSize(free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_fits_memory_and_shm() {
        const GIB: u64 = 1 << 30;
        assert_eq!(capture_budget(16 * GIB, Some(8 * GIB)), 4 * GIB);
        assert_eq!(capture_budget(16 * GIB, Some(64 << 20)), 57 << 20);
        assert_eq!(capture_budget(16 * GIB, None), 4 * GIB);
    }

    #[test]
    fn a_group_limit_counts() {
        let memory = Memory { available: 1000, ..Memory::default() };
        let limits = CgroupLimits {
            memory_max: Some(500),
            memory_used: Some(100),
            ..CgroupLimits::default()
        };
        assert_eq!(free_memory(&memory, &limits), 400);
        assert_eq!(free_memory(&memory, &CgroupLimits::default()), 1000);
    }
}
