//! The list of drivers as the job resolver wants to see it.

use taillight_core::capability::Capabilities;
use taillight_core::job::DriverView;
use taillight_core::plan::{ReplayOps, ReplayPlan, TargetPlan, WorkloadPlan};
use taillight_core::{Error, Result};
use taillight_driver::{DRIVERS, Driver};

/// Every driver of this build.
pub struct Registry;

/// The driver of a resolved plan. Errors: `Usage` when there is none with this name.
pub fn driver(name: &str) -> Result<&'static dyn Driver> {
    taillight_driver::find(name).ok_or_else(|| {
        let names: Vec<_> = DRIVERS.iter().map(|d| d.name()).collect();
        Error::usage(format!("there is no driver `{name}`"))
            .hint(taillight_core::suggest::did_you_mean(name, &names))
    })
}

impl DriverView for Registry {
    fn names(&self) -> Vec<&'static str> {
        DRIVERS.iter().map(|d| d.name()).collect()
    }
    fn resolve(&self, target: &TargetPlan) -> Result<toml::Table> {
        driver(&target.driver)?.resolve(target)
    }
    fn capabilities(&self, target: &TargetPlan) -> Result<Capabilities> {
        driver(&target.driver)?.capabilities(target)
    }
    fn defaults(&self, name: &str, workload: &mut WorkloadPlan) {
        if let Ok(driver) = driver(name) {
            driver.defaults(workload);
        }
    }
    fn trace(&self, replay: &ReplayPlan, most: u64) -> Result<ReplayOps> {
        taillight_engine::trace::load(replay, most)
    }
}
