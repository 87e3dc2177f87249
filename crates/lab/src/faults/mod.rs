//! The faults: what is done, and which layer it happens in.

mod cpu;
mod disk;
mod filesystem;
mod memory;
mod stopped;

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;

/// A fault.
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// The layer to be blamed, as explain names it; several where more than one is right.
    pub layer: &'static str,
    /// Engines of the victim.
    pub engines: &'static [&'static str],
    /// How strong, ms: two amplitudes.
    pub ms: [u64; 2],
    /// How long the victim runs.
    pub runtime: Duration,
    /// Makes stage and victim, and does it until the victim's end.
    pub run: fn(&mut Bench<'_>) -> Result<()>,
}

const BOTH: &[&str] = &["sync", "uring"];
const SHORT: Duration = Duration::from_millis(3500);

const fn fault(
    name: &'static str,
    layer: &'static str,
    run: fn(&mut Bench<'_>) -> Result<()>,
) -> Fault {
    Fault {
        name,
        layer,
        engines: BOTH,
        ms: [20, 100],
        runtime: SHORT,
        run,
    }
}

/// All of them.
pub const FAULTS: &[Fault] = &[
    fault("clean", "none", disk::clean),
    fault("cgroup-io", "throttle", disk::cgroup_io),
    fault("slow-device", "device", disk::slow_device),
    fault("tags", "block_queue", disk::tags),
    fault("slow-fuse", "file_system", filesystem::slow_fuse),
    fault("freeze-ext4", "file_system", filesystem::freeze_ext4),
    fault("freeze-xfs", "file_system", filesystem::freeze_xfs),
    fault("journal", "file_system", filesystem::journal),
    fault("cpu-quota", "cpu", cpu::quota),
    fault("spinners", "cpu", cpu::spinners),
    fault("rt-hog", "cpu", cpu::hog),
    fault("stop", "stopped", stopped::signals),
    fault("freezer", "stopped", stopped::freezer),
    fault("dirty", "page_cache", memory::dirty),
    fault("evict", "page_cache", memory::evict),
];

/// The fault with this name.
pub fn find(name: &str) -> Option<&'static Fault> {
    FAULTS.iter().find(|f| f.name == name)
}
