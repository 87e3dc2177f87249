//! The driver `redis`: Redis, Valkey and other servers that speak RESP2, over TCP or a unix socket.
//!
//! Commands go in pipelines that are together as deep as the queue, over as many connections as
//! asked for, with no client library in between. No cluster is followed and no operation is retried. Records
//! have keys that begin with the prefix of the run. A lost connection ends each operation in flight
//! with an error; the next operation then ends the run.

mod address;
mod admin;
mod decision;
mod options;
mod records;
pub mod resp;
mod sample;
mod session;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

use taillight_core::capability::{AdminAction, Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{TargetPlan, WorkShare};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::{Error, OpKind, Result};

use crate::contract::{BoundDriver, Driver, OpenSpec, Target};
use crate::net::ServerAddress;
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use address::DatabaseAddress;
use options::RedisOptions;

/// Most operations of a worker in flight, over all its connections.
const MAX_DEPTH: u32 = 4096;

/// The driver.
pub struct RedisDriver;

impl Driver for RedisDriver {
    fn name(&self) -> &'static str {
        "redis"
    }
    fn about(&self) -> &'static str {
        "Redis or Valkey over a socket; the pipeline is the queue"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<RedisOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(RedisOptions::parse(self.name(), &target.options)?))
    }
    /// The database whose number is that of `path` plus `rank`, on the same server. Errors: `Usage` for a unix
    /// socket, a wrong address or too large a number.
    fn rank_path(&self, path: &str, rank: u32) -> Result<String> {
        let mut address = DatabaseAddress::parse(Some(path))?;
        if let ServerAddress::Unix(_) = address.server {
            return Err(Error::usage(
                "a unix socket has one database only, and each rank needs its own",
            )
            .with("path", path)
            .hint("name the server as redis://HOST:PORT/DB"));
        }
        address.db = address.db.checked_add(rank).ok_or_else(|| {
            Error::usage("no database has so large a number").with("path", path).with("rank", rank)
        })?;
        Ok(address.to_text())
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let server = testing::RedisServer::start(dir, &[])?;
        Ok(TestTarget {
            path: server.address(),
            options: vec![String::new(), "index = true".to_owned()],
            reverse: true,
            leftovers: Box::new(move || {
                let keys = server.cli(&["KEYS", "*"]);
                keys.split_whitespace().map(str::to_owned).collect()
            }),
        })
    }
}

impl BoundDriver for RedisOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        sample::display()
    }
    fn capabilities(&self) -> Capabilities {
        let mut ops = vec![
            OpKind::Get,
            OpKind::Put,
            OpKind::Insert,
            OpKind::Update,
            OpKind::Delete,
            OpKind::Rmw,
        ];
        let mut more_ops = Vec::new();
        match self.index {
            true => ops.push(OpKind::Scan),
            false => more_ops.push((OpKind::Scan, "target.options.index = true")),
        }
        Capabilities {
            ops,
            more_ops,
            max_depth: MAX_DEPTH,
            batches: vec![OpKind::Get, OpKind::Put, OpKind::Insert],
            stores_data: true,
            guarded: true,
            admin: vec![AdminAction::Flush, AdminAction::Purge],
            facts: DriverFacts { kind: TargetKind::Keyed, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn check_shared(&self, _: &TargetPlan, _: WorkShare) -> Result<()> {
        Ok(())
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        target::check(self, spec)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(target::RedisTarget::open(self, spec)?))
    }
}
