//! Records of several fields on Redis, which are hashes.

use taillight_core::plan::Values;
use taillight_core::{Op, OpKind, Status};
use taillight_driver::conformance::one;

use super::{TemporaryRedis, open, session};

#[test]
fn records_of_fields_are_hashes() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let mut plan = server.plan("", 1, false);
    plan.workloads[0].value = Some(Values { fields: 2, ..Values::default() });
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), 1);
    let name = |i: u32| format!("{}{i}", Values::default().prefix);
    let mut at = 0;
    for i in 0..2 {
        let name = name(i);
        let buffer = &mut s.buffer(0)[at..];
        let bytes = taillight_driver::kv::fields::write(buffer, name.as_bytes(), 3).unwrap();
        buffer[bytes - 3..bytes].fill(b'a' + i as u8);
        at += bytes;
    }
    let written = s.buffer(0)[..at].to_vec();
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 7, at as u64)).status.is_ok());
    s.buffer(0).fill(0);
    let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 7, 0));
    assert_eq!(c.moved, at as u64);
    assert_eq!(&s.buffer(0)[..at], written);
    drop(s);
    target.close().unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

/// HSET would make the record; the update leaves no part of one.
#[test]
fn an_update_of_a_record_of_fields_that_is_not_there_finds_nothing() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let mut plan = server.plan("", 1, false);
    plan.workloads[0].value = Some(Values { fields: 2, ..Values::default() });
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), 1);
    let keys = server.cli(&["DBSIZE"]);
    let mut change = |kind, fields: std::ops::Range<u32>| {
        let mut at = 0;
        for i in fields {
            let name = format!("{}{i}", Values::default().prefix);
            let buffer = &mut s.buffer(0)[at..];
            at += taillight_driver::kv::fields::write(buffer, name.as_bytes(), 3).unwrap();
        }
        one(s.as_mut(), &Op::keyed(kind, 7, at as u64)).status
    };
    for fields in [0..1, 1..2, 0..2] {
        assert_eq!(change(OpKind::Update, fields.clone()), Status::NOT_FOUND, "{fields:?}");
        assert_eq!(server.cli(&["DBSIZE"]), keys, "{fields:?} left a part of a record");
    }
    assert!(change(OpKind::Insert, 0..2).is_ok());
    for fields in [0..1, 1..2, 0..2] {
        assert!(change(OpKind::Update, fields).is_ok());
    }
    drop(s);
    target.close().unwrap();
}
