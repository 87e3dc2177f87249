//! The driver against a server (MinIO, or the test crate's own where there is none), and against
//! servers that misbehave.
#![allow(clippy::unwrap_used)]

mod bad;
mod endpoints;
mod owned;
mod server;
mod tls;

use taillight_core::plan::MixPart;
use taillight_core::{Clock, ErrorKind, MonoClock, Op, OpKind, Status};
use taillight_s3test::{Certs, ObjectServer, ServerSettings};

use crate::conformance::{TestCase, assert_kept, one, session};
use crate::contract::{Completion, Session};
use server::{Known, SECRET, open, plan, plan_on};

fn put(session: &mut dyn Session, key: u64, size: u64) -> Completion {
    session.buffer(0)[..size as usize].fill(key as u8);
    one(session, &Op::keyed(OpKind::Put, key, size))
}

fn error(plan: &taillight_core::plan::Plan, destroy: Option<&str>) -> taillight_core::Error {
    match open(plan, destroy) {
        Ok(_) => panic!("opened"),
        Err(e) => e,
    }
}

#[test]
fn s3_keeps_the_contract() {
    let store = ObjectServer::start();
    let second = format!("endpoints = [\"localhost:{}\"]", store.port());
    for (depth, options) in [
        (1, ""),
        (8, "checksum = \"crc32c\""),
        (32, "checksum = \"sha256\"\nsigned_payload = true"),
        (4, second.as_str()),
    ] {
        let mut plan = plan_on(&store, options, "contract/", 400, depth);
        plan.workloads[0].mix.extend(
            [OpKind::Delete, OpKind::Stat, OpKind::List, OpKind::Scan]
                .map(|op| MixPart { op, weight: 1 }),
        );
        assert_kept(&TestCase { driver: &Known, plan, destroy: None });
        assert!(!store.holds("contract"), "objects left behind by {options}");
    }
}

#[test]
fn ranges_lists_and_stamps() {
    let store = ObjectServer::start();
    let size = 256 << 10;
    let plan = plan_on(&store, "range = \"64KiB\"\nmax_keys = 5", "ops/", size, 1);
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), size, 1);
    let s = s.as_mut();
    for key in 0..12 {
        let c = put(s, key, size);
        assert!(c.status.is_ok() && c.moved == size && c.first.is_none(), "{c:?}");
    }
    s.buffer(0).fill(0);
    let before = MonoClock.now();
    let c = one(s, &Op::keyed(OpKind::Get, 7, 0));
    assert_eq!((c.status, c.moved), (Status::OK, 64 << 10));
    assert!(c.first.unwrap() > before && c.first.unwrap() <= MonoClock.now());
    assert!(s.buffer(0)[..64 << 10].iter().all(|b| *b == 7));
    let c = one(s, &Op::keyed(OpKind::List, 3, 0));
    assert_eq!((c.status, c.count), (Status::OK, 5), "five keys behind number 3");
    let c = one(s, &Op::keyed(OpKind::List, 8, 0));
    assert_eq!(c.count, 3, "the last three");
    let c = one(s, &Op::keyed(OpKind::Stat, 3, 0));
    assert_eq!((c.status, c.moved), (Status::OK, 0));
    let c = one(s, &Op::keyed(OpKind::Stat, 99, 0));
    assert_eq!(c.status, Status::NOT_FOUND);
    let mut seen = Vec::new();
    target.sample(&mut |name, value| seen.push((name.to_owned(), value)));
    assert!(seen.contains(&("s3_http_404_total".to_owned(), 1.0)), "{seen:?}");
    assert!(seen.contains(&("s3_connections_total".to_owned(), 1.0)), "{seen:?}");
    let facts = format!("{:?}", target.facts());
    assert!(!facts.contains(SECRET) && !facts.contains(server::ID), "{facts}");
    assert!(facts.contains(store.word()), "{facts}");
}

#[test]
fn large_objects_go_up_in_parts_and_come_back_whole() {
    let store = ObjectServer::start();
    let size = (12 << 20) + 5;
    for options in ["", "checksum = \"crc32c\"", "checksum = \"sha256\""] {
        let options = format!("part_size = \"5MiB\"\n{options}");
        let plan = plan_on(&store, &options, "parts/", size, 1);
        let target = open(&plan, None).unwrap();
        let mut s = session(target.as_ref(), size, 1);
        let byte = |i: usize| (i / 1000) as u8;
        s.buffer(0).iter_mut().enumerate().for_each(|(i, b)| *b = byte(i));
        let c = one(s.as_mut(), &Op::keyed(OpKind::Put, 1, size));
        assert_eq!((c.status, c.moved), (Status::OK, size), "{options}");
        s.buffer(0).fill(0);
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 1, 0));
        assert_eq!((c.status, c.moved), (Status::OK, size));
        assert!(s.buffer(0).iter().enumerate().all(|(i, b)| *b == byte(i)));
        drop(s);
        target.close().unwrap();
    }
}

#[test]
fn what_is_kept_is_found_again_and_another_form_refused() {
    let store = ObjectServer::start();
    let plan = plan_on(&store, "keep = true", "kept/", 100, 1);
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), 100, 1);
    (0..5).for_each(|key| assert!(put(s.as_mut(), key, 100).status.is_ok()));
    drop(s);
    target.keyed().unwrap().loaded(5).unwrap();
    target.close().unwrap();
    let target = open(&plan, None).unwrap();
    assert_eq!(target.keyed().unwrap().records(), 5);
    let mut s = session(target.as_ref(), 100, 1);
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Get, 4, 0)).status.is_ok());
    drop(s);
    target.close().unwrap();
    assert!(store.holds("kept"));
    // keep = false later does not delete what an earlier run kept.
    open(&plan_on(&store, "", "kept/", 100, 1), None).unwrap().close().unwrap();
    assert!(store.holds("kept"));
    let mut other = plan_on(&store, "", "kept/", 100, 1);
    other.workloads[0].keys.as_mut().unwrap().size = Some(taillight_core::units::ByteSize(24));
    let e = error(&other, None);
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.message().contains("another form"), "{e}");
    other.target.destroy = true;
    let path = other.target.path.clone().unwrap();
    open(&other, Some(&path)).unwrap().close().unwrap();
    assert!(!store.holds("kept"), "given up by the user");
}

#[test]
fn foreign_objects_are_refused_and_stay() {
    let store = ObjectServer::start();
    // Somebody's object, put there by a run of another prefix's naming.
    let mine = open(&plan_on(&store, "keep = true", "theirs/deep/", 10, 1), None).unwrap();
    let mut s = session(mine.as_ref(), 10, 1);
    assert!(put(s.as_mut(), 1, 10).status.is_ok());
    drop(s);
    mine.close().unwrap();
    let mut plan = plan_on(&store, "", "theirs/", 10, 1);
    let e = error(&plan, None);
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.hint_text().unwrap().contains("--destroy http://"), "{e}");
    plan.target.destroy = true;
    assert_eq!(error(&plan, None).kind(), ErrorKind::Refused);
    assert_eq!(error(&plan, Some("http://other/bench/x/")).kind(), ErrorKind::Refused);
    assert!(store.holds("theirs/deep"));
    let path = plan.target.path.clone().unwrap();
    open(&plan, Some(&path)).unwrap().close().unwrap();
    assert!(!store.holds("theirs"));
}

#[test]
fn tls_trusts_the_ca_it_is_given_and_no_other() {
    let Some(certs) = Certs::make() else {
        eprintln!("skipped: no openssl program to make certificates with");
        return;
    };
    let store = ObjectServer::start_with(ServerSettings {
        certs: Some(&certs),
        ..ServerSettings::default()
    });
    let ca = format!("ca = \"{}\"", certs.ca().display());
    let plan = plan_on(&store, &ca, "tls/", 300_000, 8);
    assert_kept(&TestCase { driver: &Known, plan, destroy: None });
    let e = error(&plan_on(&store, "", "tls/", 10, 1), None);
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(e.to_string().contains("certificate"), "{e}");
    assert!(e.hint_text().unwrap().contains("options.ca"), "{e}");
    let missing = "ca = \"/nowhere.pem\"";
    let e = error(&plan_on(&store, missing, "tls/", 10, 1), None);
    assert!(e.hint_text().unwrap().contains("options.ca"), "{e}");
}

#[test]
fn buckets_are_named_by_path_or_by_host() {
    let store =
        ObjectServer::start_with(ServerSettings { domain: true, ..ServerSettings::default() });
    let path = format!("http://localhost:{}/bench/v/", store.port());
    let plan = plan(&path, "addressing = \"virtual\"", 100, 1);
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), 100, 1);
    assert!(put(s.as_mut(), 1, 100).status.is_ok());
    assert_eq!(store.names("v/").len(), 2, "an object and the owner mark");
    s.buffer(0).fill(0);
    let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 1, 0));
    assert_eq!((c.status, c.moved, s.buffer(0)[99]), (Status::OK, 100, 1));
    drop(s);
    target.close().unwrap();
    assert!(!store.holds("v/"));
}
