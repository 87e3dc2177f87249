//! The driver `postgres`: PostgreSQL, and servers that speak its protocol 3.0, over TCP, TLS or a unix socket, with no
//! client library in between.
//!
//! Statements are prepared once for each connection. An operation on records executes one or more of them and ends with
//! one Sync, so that it is one transaction; operations go in pipelines over as many connections as asked for.
//! Transactions of TPC-B and sysbench send their statements one after the other; they are tried again when the server
//! undoes them for another one, and nothing else is retried. A lost connection ends each operation in flight with an
//! error; the next operation then ends the run.

mod address;
mod admin;
mod consistency;
mod errors;
mod further;
mod lacking;
pub mod messages;
mod options;
mod own_rows;
mod placement;
mod scram;
mod server_facts;
mod session;
mod statements;
mod statistics;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction_worker;
mod transactions;
mod wire;

use taillight_core::capability::{AdminAction, Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{TargetPlan, WorkShare};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::{OpKind, Result};

use crate::contract::{BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use options::PostgresOptions;

/// Most operations of a worker in flight, over all its connections.
const MAX_DEPTH: u32 = 1024;

/// The driver.
pub struct PostgresDriver;

impl Driver for PostgresDriver {
    fn name(&self) -> &'static str {
        "postgres"
    }
    fn about(&self) -> &'static str {
        "PostgreSQL by its own protocol; prepared, pipelined; records, TPC-B, sysbench's OLTP"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<PostgresOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(PostgresOptions::parse(self.name(), &target.options)?))
    }
    fn ready(&self) -> Option<String> {
        let found = address::local_servers(&["/run/postgresql", "/tmp"]);
        let servers = match found.is_empty() {
            true => "no server in /run/postgresql or /tmp: name one with --path".to_owned(),
            false => format!("here: {}", found.join(", ")),
        };
        Some(format!("its protocol is built in, no library needed; {servers}"))
    }
    /// The same path: ranks differ by their tables, see [`Driver::rank_options`].
    fn rank_path(&self, path: &str, _: u32) -> Result<String> {
        Ok(path.to_owned())
    }
    fn rank_options(&self, options: &mut toml::Table, rank: u32) {
        crate::options::numbered(options, "table", &PostgresOptions::default().table, rank);
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, _: &std::path::Path) -> TestSetup {
        let server = testing::PostgresServer::start(&["fsync=off"])?;
        Ok(TestTarget {
            path: server.address(),
            options: vec!["user = \"postgres\"".to_owned()],
            reverse: true,
            leftovers: Box::new(move || {
                let tables =
                    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace";
                server.psql(tables).lines().map(str::to_owned).collect()
            }),
        })
    }
}

impl BoundDriver for PostgresOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        statistics::display()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![
                OpKind::Get,
                OpKind::Put,
                OpKind::Insert,
                OpKind::Update,
                OpKind::Delete,
                OpKind::Scan,
                OpKind::Rmw,
                OpKind::Tpcb,
                OpKind::OltpPointSelect,
                OpKind::OltpReadWrite,
            ],
            max_depth: MAX_DEPTH,
            batches: vec![OpKind::Get, OpKind::Put, OpKind::Insert],
            stores_data: true,
            guarded: true,
            admin: vec![AdminAction::Flush, AdminAction::Compact, AdminAction::Purge],
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
    fn open(&self, spec: &OpenSpec<'_>, progress: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(target::PostgresTarget::open(self, spec, progress)?))
    }
}
