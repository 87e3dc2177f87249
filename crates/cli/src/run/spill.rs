//! Checks the directory into which the capture goes when memory is short (`capture.dir`), before anything is laid out.

use std::path::Path;

use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::block::{self, BlockDevice, DeviceNumber};

/// Checks that the directory is there, can be written, and shares no disk with a target: what is spilled there while
/// operations are measured would be measured too. A plan without one is fine. Errors: `Usage` when it shares a disk;
/// `Unavailable` when it cannot be used.
pub fn check(plan: &Plan, sys: &Sys) -> Result<()> {
    let Some(dir) = &plan.capture.dir else {
        return Ok(());
    };
    let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let usable = match Path::new(dir).is_dir() {
        true => rustix::fs::access(dir.as_str(), rights).map_err(std::io::Error::from),
        false => Err(std::io::ErrorKind::NotADirectory.into()),
    };
    usable.map_err(|e| {
        let e = Error::unavailable("capture.dir cannot be used").with("path", dir).source(e);
        e.hint("name an existing directory that can be written, or leave capture.dir out")
    })?;
    let own = disks(sys, Path::new(dir));
    let paths = plan.all_targets().filter_map(|(_, target)| target.path.as_deref());
    let mut shared = paths.filter(|path| {
        let target = block::local(path).map(|path| disks(sys, path)).unwrap_or_default();
        target.iter().any(|disk| own.contains(disk))
    });
    shared.next().map_or(Ok(()), |path| {
        Err(Error::usage("capture.dir lies on a disk under test")
            .with("capture.dir", dir)
            .with("target.path", path)
            .hint("spill to another disk, or leave capture.dir out"))
    })
}

/// Whole disks, and layers of disks, below a path.
fn disks(sys: &Sys, path: &Path) -> Vec<DeviceNumber> {
    let below = block::disks_below(sys, [path]);
    below.iter().map(BlockDevice::whole).map(|disk| disk.number).collect()
}
