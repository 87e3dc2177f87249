//! Snapshots of RocksDB and LevelDB: what reads from one see and do not see, which value updates of a field read, and
//! which plans are refused.

use taillight_core::plan::{MixPart, Plan, Values, VerifyMode};
use taillight_core::{ErrorKind, Op, OpKind, Status};
use taillight_driver::kv::fields;
use taillight_driver::{Session, Target};

use super::{SIZE, StoreDirectory, load, one, open, session, stores};

fn mix(plan: &mut Plan, words: &str) {
    let part = |word: &str| MixPart { op: OpKind::from_name(word).unwrap(), weight: 1 };
    plan.workloads[0].mix = words.split(' ').map(part).collect();
}

/// A plan with `snapshot = true` and a mix of these operations.
fn plan(place: &StoreDirectory, words: &str) -> Plan {
    let mut plan = place.plan("snapshot = true");
    mix(&mut plan, words);
    plan
}

fn put(s: &mut dyn Session, key: u64, byte: u8) {
    s.buffer(0).fill(byte);
    let c = one(s, &Op::keyed(OpKind::Update, key, SIZE));
    assert!(c.status.is_ok(), "{c:?}");
}

/// First byte of a record; none when the record is absent.
fn first(s: &mut dyn Session, key: u64) -> Option<u8> {
    s.buffer(0).fill(0xEE);
    let c = one(s, &Op::keyed(OpKind::Get, key, 0));
    match c.status {
        Status::OK => Some(s.buffer(0)[0]),
        Status::NOT_FOUND => None,
        _ => panic!("{c:?}"),
    }
}

/// How many records a scan from `key` on finds, 100 at most.
fn scanned(s: &mut dyn Session, key: u64) -> u32 {
    let scan = Op { count: 100, ..Op::keyed(OpKind::Scan, key, 0) };
    let c = one(s, &scan);
    assert!(c.status.is_ok(), "{c:?}");
    c.count
}

fn snapshots(target: &dyn Target) -> bool {
    target.facts().contains(&("store.snapshot".to_owned(), "true".to_owned()))
}

#[test]
fn reads_do_not_see_what_comes_after_their_snapshot() {
    for place in stores() {
        let target = open(&plan(&place, "get scan update delete"), None).unwrap();
        assert!(snapshots(target.as_ref()));
        load(target.as_ref(), 10);
        let mut held = session(target.as_ref(), SIZE);
        let mut other = session(target.as_ref(), SIZE);
        put(other.as_mut(), 3, 0xAB);
        put(other.as_mut(), 50, 0xCD);
        for key in [4, 6] {
            let c = one(other.as_mut(), &Op::keyed(OpKind::Delete, key, 0));
            assert!(c.status.is_ok(), "{c:?}");
        }
        // The session's own writes do not show either, nor what a compaction moves.
        put(held.as_mut(), 5, 0xEF);
        target.admin(taillight_driver::AdminAction::Compact).unwrap();
        for key in 0..10 {
            assert_eq!(first(held.as_mut(), key), Some(key as u8));
        }
        assert_eq!(first(held.as_mut(), 50), None);
        // Keys are hashed, so that some scan begins at the lowest of those that were loaded.
        let most = |s: &mut dyn Session| (0..10).map(|key| scanned(s, key)).max();
        assert_eq!(most(held.as_mut()), Some(10));
        if place.store == "rocksdb" {
            let get = Op { count: 2, ..Op::keyed(OpKind::Get, 3, 0) };
            let c = one(held.as_mut(), &get);
            assert_eq!((c.status, c.count), (Status::OK, 2), "the deleted one too");
        }
        let mut new = session(target.as_ref(), SIZE);
        let seen = [3, 4, 5, 50].map(|key| first(new.as_mut(), key));
        assert_eq!(seen, [Some(0xAB), None, Some(0xEF), Some(0xCD)]);
        assert_eq!(first(held.as_mut(), 3), Some(3), "still");
        drop((held, other, new));
        // Released: nothing keeps the database from closing and going.
        target.close().unwrap();
        assert!(!place.dir.exists());
    }
}

#[test]
fn without_the_option_reads_see_later_writes() {
    for place in stores() {
        let target = place.open("").unwrap();
        assert!(!snapshots(target.as_ref()));
        load(target.as_ref(), 10);
        let mut reader = session(target.as_ref(), SIZE);
        let mut writer = session(target.as_ref(), SIZE);
        put(writer.as_mut(), 3, 0xAB);
        assert_eq!(first(reader.as_mut(), 3), Some(0xAB));
    }
}

/// From the snapshot, each update would bring back the other fields as they were in it.
#[test]
fn updates_of_one_field_read_the_newest_value() {
    for place in stores() {
        let mut plan = plan(&place, "get update");
        plan.workloads[0].value = Some(Values { fields: 2, ..Values::default() });
        let target = open(&plan, None).unwrap();
        let write = |s: &mut dyn Session, field: &[(&str, &[u8])], op: Op| {
            let mut at = 0;
            for (name, data) in field {
                let buffer = &mut s.buffer(0)[at..];
                let end = fields::write(buffer, name.as_bytes(), data.len()).unwrap();
                buffer[end - data.len()..end].copy_from_slice(data);
                at += end;
            }
            let size = at as u64;
            let c = one(s, &Op { size, ..op });
            assert!(c.status.is_ok(), "{c:?}");
        };
        let one_field = Op { field: 1, ..Op::keyed(OpKind::Update, 1, 0) };
        let whole = Op::keyed(OpKind::Update, 1, 0);
        let mut s = session(target.as_ref(), 100);
        write(s.as_mut(), &[("field0", b"aaa"), ("field1", b"bbb")], whole);
        let mut held = session(target.as_ref(), 100);
        write(s.as_mut(), &[("field0", b"AAA")], one_field);
        write(held.as_mut(), &[("field1", b"BBB")], one_field);
        for (mut s, expected) in
            [(held, [b"aaa", b"bbb"]), (session(target.as_ref(), 100), [b"AAA", b"BBB"])]
        {
            assert!(one(s.as_mut(), &Op::keyed(OpKind::Get, 1, 0)).status.is_ok());
            let all: Vec<_> = fields::fields(s.buffer(0)).take(2).map(|f| f.data).collect();
            assert_eq!(all, expected);
        }
    }
}

#[test]
fn what_needs_reads_of_its_writes_is_refused_before_anything_is_made() {
    for place in stores() {
        let mut checked = plan(&place, "get update");
        checked.verify.mode = VerifyMode::Inline;
        let mut plans: Vec<Plan> =
            ["get insert", "scan put", "get rmw", "update"].map(|words| plan(&place, words)).into();
        plans.push(checked);
        if place.store == "rocksdb" {
            let mut in_place =
                place.plan("snapshot = true\noptions = \"inplace_update_support=true\"");
            mix(&mut in_place, "get update");
            plans.push(in_place);
        }
        for plan in plans {
            let e = open(&plan, None).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
            assert!(e.hint_text().is_some(), "{e}");
            assert!(!place.dir.exists(), "nothing was touched: {e}");
        }
    }
}
