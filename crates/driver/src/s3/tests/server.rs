//! Servers of these tests: MinIO where it is there, else the small one of the test crate; and the
//! driver with their credentials.

use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::{OpKind, Result, StopFlag};
use taillight_s3test::ObjectServer;
pub use taillight_s3test::{ID, SECRET, free_port};

use crate::BoundDriver;
use crate::conformance;
use crate::contract::{Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet};
use crate::s3::credentials::Credentials;
use crate::s3::{S3, options::S3Options, target::S3Target};

pub fn plan_on(server: &ObjectServer, options: &str, prefix: &str, size: u64, depth: u32) -> Plan {
    plan(&server.path(prefix), options, size, depth)
}

pub fn plan(path: &str, options: &str, size: u64, depth: u32) -> Plan {
    let target = conformance::target("s3", path, options);
    let mut plan = conformance::keyed_plan(target, size, depth, false);
    // A run that deletes does not leave its records to later ones.
    plan.workloads[0].mix.retain(|m| m.op != OpKind::Delete);
    plan
}

pub fn open_as(plan: &Plan, destroy: Option<&str>, secret: &str) -> Result<Box<dyn Target>> {
    open_until(plan, destroy, secret, &StopFlag::default())
}

pub fn open_until(
    plan: &Plan,
    destroy: Option<&str>,
    secret: &str,
    stop: &StopFlag,
) -> Result<Box<dyn Target>> {
    let spec = OpenSpec { plan, run_id: "test", destroy, stop, fits: &|_| Ok(()) };
    let credentials = Credentials::new(ID, secret, None);
    let options = S3Options::parse("s3", &plan.target.options)?;
    Ok(Box::new(S3Target::open_as(&spec, options, credentials, "test".to_owned())?))
}

pub fn open(plan: &Plan, destroy: Option<&str>) -> Result<Box<dyn Target>> {
    open_as(plan, destroy, SECRET)
}

/// The driver with the tests' credentials.
pub struct Known;

impl Driver for Known {
    fn name(&self) -> &'static str {
        S3.name()
    }
    fn about(&self) -> &'static str {
        S3.about()
    }
    fn option_set(&self) -> OptionSet {
        S3.option_set()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        S3.bind(target).map(|bound| Box::new(KnownBound(bound)) as Box<dyn BoundDriver>)
    }
}

struct KnownBound(Box<dyn BoundDriver>);

impl BoundDriver for KnownBound {
    fn options(&self) -> Result<toml::Table> {
        self.0.options()
    }
    fn capabilities(&self) -> taillight_core::capability::Capabilities {
        self.0.capabilities()
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        open(spec.plan, spec.destroy)
    }
}
