//! `s3`: objects in MinIO, AWS or any compatible store.
//!
//! A lean client of HTTP/1.1 (a connection per slot, one epoll instance per worker, its own signatures, TLS
//! by rustls), so that the tool adds little to what is measured (`docs/design/0006`). Nothing is retried: a
//! broken request is an error in the record. The driver writes and deletes below one prefix of one
//! bucket only, and knows credentials only from the environment or the AWS credentials file.

mod client;
mod connection;
mod counters;
pub mod credentials;
mod endpoints;
mod location;
mod lost;
mod multipart;
mod naming;
mod options;
mod prefix;
mod request;
pub mod response;
mod scan;
mod session;
mod sign;
mod tags;
mod target;
#[cfg(test)]
mod tests;
mod tls;
pub mod xml;

use taillight_core::capability::{Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{Plan, TargetPlan, WorkShare};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::{OpKind, Result};

use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::TestSetup;
use location::PrefixLocation;
use options::S3Options;

/// The driver.
pub struct S3;

impl Driver for S3 {
    fn name(&self) -> &'static str {
        "s3"
    }
    fn about(&self) -> &'static str {
        "objects in MinIO, AWS S3 or any compatible store"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<S3Options>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        let o = S3Options::parse(self.name(), &target.options)?;
        if target.path.is_some() || !o.endpoints.is_empty() {
            let location = PrefixLocation::parse(target.path.as_deref(), &o.endpoints)?;
            location.takes(o.addressing)?;
        }
        Ok(Box::new(o))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, _: &std::path::Path) -> TestSetup {
        // Credentials come from the environment or the AWS credentials file.
        Err("its own tests run the suite, on servers with credentials".to_owned())
    }
}

impl BoundDriver for S3Options {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        counters::display()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![
                OpKind::Get,
                OpKind::Put,
                OpKind::Insert,
                OpKind::Update,
                OpKind::Rmw,
                OpKind::Stat,
                OpKind::List,
                OpKind::Scan,
                OpKind::Delete,
            ],
            max_depth: 1024,
            stores_data: true,
            guarded: true,
            own_stamps: true,
            admin: vec![AdminAction::Flush, AdminAction::Purge],
            facts: DriverFacts { kind: TargetKind::Object, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let path = plan.target.path.as_deref().unwrap_or_default();
        match PrefixLocation::parse(Some(path), &[]) {
            // Scheme, server and bucket have three.
            Ok(place) if path.trim_end_matches('/').matches('/').count() == 3 => {
                vec![format!("target.path names no prefix: the run keeps to {}", place.to_text())]
            }
            _ => Vec::new(),
        }
    }
    fn check_shared(&self, _: &TargetPlan, _: WorkShare) -> Result<()> {
        Ok(())
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        target::check_open(spec, self.clone())
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(target::S3Target::open(spec, self.clone())?))
    }
}
