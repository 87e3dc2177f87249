//! No operation on an embedded store allocates in our code, once every kind was done once.
#![allow(clippy::unwrap_used)]

mod sys;

use taillight_core::plan::{TargetPlan, Values};
use taillight_core::probe::Token;
use taillight_core::{Op, OpKind};
use taillight_driver::kv::fields;
use taillight_driver::{OpenSpec, Session, SessionSpec, Submitted, conformance};

const SIZE: u64 = 300;

fn one_of_each(session: &mut dyn Session, store: &str, key: u64) {
    let entry = fields::write(session.buffer(0), b"field0", 100).unwrap() as u64;
    let batch = |kind| Op {
        count: 8,
        ..Op::keyed(kind, key, entry)
    };
    let field = Op {
        field: 0,
        ..Op::keyed(OpKind::Update, key, entry)
    };
    let ops = [
        Op::keyed(OpKind::Insert, key, entry),
        Op::keyed(OpKind::Get, key, 0),
        Op::keyed(OpKind::Get, u64::MAX >> 1, 0),
        Op::keyed(OpKind::Update, key, entry),
        field,
        batch(OpKind::Insert),
        batch(OpKind::Update),
        batch(OpKind::Get),
        batch(OpKind::Scan),
        Op::keyed(OpKind::Delete, key, 0),
    ];
    // LevelDB has no multi-get.
    let many = |op: &Op| op.kind == OpKind::Get && op.count > 1;
    for op in ops.iter().filter(|op| store == "rocksdb" || !many(op)) {
        match session.submit(op, 0, Token::new(key, 0)).unwrap() {
            Submitted::Done(c) => {
                assert_eq!(c.token, Token::new(key, 0));
                assert!(op.count == 1 || c.count == 8, "{op:?}: {c:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn operations_allocate_nothing() {
    for store in ["rocksdb", "leveldb"] {
        let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let target = TargetPlan {
            driver: store.to_owned(),
            path: Some(tmp.path().join("db").to_str().unwrap().to_owned()),
            size: None,
            destroy: false,
            options: "bounded_scans = true".parse().unwrap(),
        };
        let mut plan = conformance::keyed_plan(target, SIZE, 1, false);
        plan.workloads[0].value = Some(Values {
            fields: 2,
            ..Values::default()
        });
        let spec = OpenSpec {
            plan: &plan,
            run_id: "test",
            destroy: None,
        };
        let opened = taillight_driver::find(store)
            .unwrap()
            .open(&spec, &mut |_| true);
        let target = match opened {
            Err(e) if e.message().contains("library") => {
                eprintln!("skipped: operations_allocate_nothing of {store}: {e}");
                continue;
            }
            opened => opened.unwrap(),
        };
        let spec = SessionSpec {
            worker: 0,
            workload: 0,
            keep: true,
            depth: 1,
            buffer_size: 8 * SIZE,
            seed: 1,
        };
        let mut session = target.session(&spec).unwrap();
        one_of_each(session.as_mut(), store, 1);
        let before = sys::allocations();
        assert!(before > 0, "the counter counts");
        for key in 2..500 {
            one_of_each(session.as_mut(), store, key);
        }
        assert_eq!(sys::allocations() - before, 0, "{store}");
        drop(session);
        target.close().unwrap();
    }
}
