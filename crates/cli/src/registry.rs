//! What the job resolver asks while it makes a plan of a job: names, options and defaults of the drivers of this build,
//! the size of a block device, the operations of a recorded trace.

use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;

use taillight_core::Result;
use taillight_core::job::{BoundTarget, DriverView};
use taillight_core::plan::{ReplayOps, ReplayPlan, TargetPlan, WorkloadPlan};
use taillight_driver::DRIVERS;

/// Every driver of this build.
pub struct Registry;

impl DriverView for Registry {
    fn names(&self) -> Vec<&'static str> {
        DRIVERS.iter().map(|d| d.name()).collect()
    }
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget> {
        taillight_driver::bind(target)?.resolved()
    }
    fn defaults(&self, name: &str, workload: &mut WorkloadPlan) {
        if let Some(driver) = taillight_driver::find(name) {
            driver.defaults(workload);
        }
    }
    fn device_size(&self, target: &TargetPlan) -> Option<u64> {
        let path = target.path.as_deref()?;
        if !std::fs::metadata(path).ok()?.file_type().is_block_device() {
            return None;
        }
        std::fs::File::open(path).ok()?.seek(SeekFrom::End(0)).ok()
    }
    fn trace(&self, replay: &ReplayPlan, most: u64) -> Result<ReplayOps> {
        taillight_engine::trace::load(replay, most)
    }
}
