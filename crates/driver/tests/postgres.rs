//! Driver `postgres` against a real server, started and ended by each test.
#![allow(clippy::unwrap_used)]
#![cfg(feature = "postgres")]

#[macro_use]
mod support;

use taillight_core::plan::{Keys, Plan, Values};
use taillight_core::probe::Token;
use taillight_core::{ErrorKind, Op, OpKind, Result, Status};
use taillight_driver::conformance::{self, TestCase, assert_kept, keyed_plan, one, target};
use taillight_driver::kv::postgres::testing::PostgresServer;
use taillight_driver::{AdminAction, Session, Submitted, Target};

/// None, with a reason printed, where there is no server.
fn start(settings: &[&str]) -> Option<PostgresServer> {
    PostgresServer::start(settings).inspect_err(|why| eprintln!("skipped: {why}")).ok()
}

fn plan(server: &PostgresServer, options: &str, depth: u32) -> Plan {
    let options = format!("user = \"postgres\"\n{options}");
    keyed_plan(target("postgres", &server.address(), &options), 400, depth, false)
}

fn open(plan: &Plan, destroy: Option<&str>) -> Result<Box<dyn Target>> {
    conformance::open(plan, destroy, "test")
}

fn session(target: &dyn Target, depth: u32) -> Box<dyn Session> {
    conformance::session(target, 400, depth)
}

#[test]
fn several_connections_and_fields_keep_the_contract() {
    let server = or_skip!(start(&["fsync=off"]));
    let driver = taillight_driver::find("postgres").unwrap();
    for (options, depth, fields) in [("", 1, 1), ("connections = 4", 8, 1), ("", 2, 1)] {
        let mut plan = plan(&server, options, depth);
        plan.workloads[0].value = Some(Values { fields, ..Values::default() });
        assert_kept(&TestCase { driver, plan, destroy: None });
    }
    assert_eq!(server.psql("SELECT count(*) FROM pg_class WHERE relname = 'taillight'"), "0");
}
