//! What operations of driver `s3` allocate in our code: nothing, but for uploads in parts and TLS, below stated bounds.
#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used)]

#[path = "../alloc/sys.rs"]
mod sys;

use std::process::Command;

use taillight_core::plan::Plan;
use taillight_core::probe::Token;
use taillight_core::{Op, OpKind, Status};
use taillight_driver::{Session, Submitted, conformance};
use taillight_s3test::{Certs, FaultyServer, ID, SECRET, ServerSettings};

/// Operations of each kind that are counted.
const ROUNDS: u64 = 200;
/// Bytes of an object.
const SIZE: u64 = 20_000;
/// The environment variable that says that this process has the credentials.
const INSIDE: &str = "TAILLIGHT_ALLOC_INSIDE";

/// Credentials come from the environment, which a test cannot change for itself: it runs the test `name` in a new
/// process with them. True in that process.
fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", name, "--nocapture"]).env(INSIDE, "1");
    again.env("AWS_ACCESS_KEY_ID", ID);
    again.env("AWS_SECRET_ACCESS_KEY", SECRET);
    let done = again.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let complained = String::from_utf8_lossy(&done.stderr).into_owned();
    println!("{said}");
    assert!(done.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "no test is called {name}");
    false
}

fn plan(path: &str, options: &str, size: u64) -> Plan {
    let target = conformance::target("s3", path, options);
    conformance::keyed_plan(target, size, 1, false)
}

fn one(session: &mut dyn Session, op: &Op) -> Status {
    let answer = session.submit(op, 0, Token::new(1, 0)).unwrap();
    assert_eq!(answer, Submitted::Queued);
    let mut out = Vec::with_capacity(1);
    session.poll(1, None, &mut out).unwrap();
    out[0].status
}

/// Mean allocations of an operation of each kind, after some of each.
fn counted(plan: &Plan, size: u64, rounds: u64, kinds: &[OpKind]) -> Vec<f64> {
    let target = conformance::open(plan, None, "test").unwrap();
    let mut session = conformance::session(target.as_ref(), size, 1);
    let s = session.as_mut();
    let mut run = |kind: OpKind, rounds: u64| {
        let before = sys::allocations();
        for key in 0..rounds {
            assert_eq!(one(s, &Op::keyed(kind, key % 20, size)), Status::OK, "{kind:?}");
        }
        // One of each operation is the test's own, the vector of completions.
        (sys::allocations() - before - rounds) as f64 / rounds as f64
    };
    kinds.iter().for_each(|kind| _ = run(*kind, 20.min(rounds)));
    kinds.iter().map(|kind| run(*kind, rounds)).collect()
}

#[test]
fn requests_allocate_nothing() {
    if !inside("requests_allocate_nothing") {
        return;
    }
    assert!(sys::allocations() > 0, "the counter counts");
    let store = FaultyServer::start(ServerSettings::default());
    // Deletes last: what they delete is not read any more.
    let kinds = [OpKind::Put, OpKind::Get, OpKind::Stat, OpKind::List, OpKind::Put];
    for options in [
        "",
        "range = \"4KiB\"",
        "checksum = \"crc32c\"",
        "checksum = \"sha256\"\nsigned_payload = true",
    ] {
        let plan = plan(&store.path("alloc/"), options, SIZE);
        let made = counted(&plan, SIZE, ROUNDS, &kinds);
        assert_eq!(made, [0.0; 5], "{kinds:?} with {options}");
        let deletes = counted(&plan, SIZE, ROUNDS, &[OpKind::Delete]);
        assert_eq!(deletes, [0.0], "delete with {options}");
    }
}

#[test]
fn parts_and_tls_allocate_no_more_than_their_bounds() {
    if !inside("parts_and_tls_allocate_no_more_than_their_bounds") {
        return;
    }
    let store = FaultyServer::start(ServerSettings::default());
    let (size, options) = (12 << 20, "part_size = \"5MiB\"");
    let plan_ = plan(&store.path("parts/"), options, size);
    let parts = counted(&plan_, size, 5, &[OpKind::Put]);
    println!("an upload in 3 parts: {parts:?} allocations");
    assert!(parts[0] <= 30.0, "{parts:?}");

    let Some(certs) = Certs::make() else {
        eprintln!("skipped: allocations with TLS: no openssl program");
        return;
    };
    let store =
        FaultyServer::start(ServerSettings { certs: Some(&certs), ..ServerSettings::default() });
    let options = format!("ca = \"{}\"", certs.ca().display());
    for (size, most) in [(4 << 10, 10.0), (64 << 10, 40.0)] {
        let plan = plan(&store.path("tls/"), &options, size);
        let kinds = [OpKind::Put, OpKind::Get];
        let made = counted(&plan, size, ROUNDS, &kinds);
        println!("TLS, {size} bytes, put and get: {made:?} allocations");
        assert!(made.iter().all(|n| *n <= most), "{made:?}");
    }
}
