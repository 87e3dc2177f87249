//! Operations allocate nothing in our code on the session's thread, once each was done a few times: checked for the
//! drivers of the list that can be tested on this machine, without snapshots. Kinds in `Capabilities::allocating` are
//! left out; those of object stores have a test of their own, with numbers.
#![allow(clippy::unwrap_used)]

mod sys;

use taillight_core::capability::{Capabilities, TargetKind};
use taillight_core::plan::{MixPart, Plan, TargetPlan, Values};
use taillight_core::probe::Token;
use taillight_core::{Clock, MonoClock, Op, OpKind};
use taillight_driver::conformance::{open, plan_for, session};
use taillight_driver::kv::fields;
use taillight_driver::{Completion, Session, Submitted, VirtualTime};

/// Bytes of a block, or of a batch of records.
const SIZE: u64 = 4096;
/// Records of a batch.
const BATCH: u32 = 8;
/// Bytes of the data of a field.
const DATA: usize = 100;

/// The operations on record or block `key` that the driver can do and that may not allocate.
fn operations(can: &Capabilities, fields: u32, key: u64, entry: u64) -> Vec<Op> {
    let free = |kind: &OpKind| !can.allocating.contains(kind) && can.ops.contains(kind);
    if !can.keyed() {
        let kinds = [OpKind::Write, OpKind::Read, OpKind::Trim, OpKind::Fsync];
        let block = |kind| Op {
            kind,
            offset: key % 50 * SIZE,
            size: if kind == OpKind::Fsync { 0 } else { SIZE },
            ..Op::keyed(kind, key, SIZE)
        };
        return kinds.into_iter().filter(free).map(block).collect();
    }
    let mut all = Vec::new();
    let mut add = |kind: OpKind, op: Op| {
        if free(&kind) {
            all.push(op);
        }
    };
    let batch = |kind| Op { count: BATCH, ..Op::keyed(kind, key, entry) };
    for kind in [OpKind::Insert, OpKind::Put, OpKind::Update] {
        add(kind, Op::keyed(kind, key, entry));
        // Records of fields are stored one by one.
        if can.batches.contains(&kind) && fields == 1 {
            add(kind, batch(kind));
        }
    }
    add(OpKind::Get, Op::keyed(OpKind::Get, key, 0));
    add(OpKind::Get, Op::keyed(OpKind::Get, u64::MAX >> 1, 0));
    if can.batches.contains(&OpKind::Get) {
        add(OpKind::Get, batch(OpKind::Get));
    }
    if fields > 1 {
        let field = Op { field: 0, ..Op::keyed(OpKind::Update, key, entry) };
        add(OpKind::Update, field);
    }
    add(OpKind::Scan, batch(OpKind::Scan));
    let of_files = [
        OpKind::Create,
        OpKind::Stat,
        OpKind::OpenReadClose,
        OpKind::Rename,
        OpKind::Readdir,
        OpKind::Mkdir,
        OpKind::Rmdir,
        OpKind::Unlink,
    ];
    for kind in of_files {
        let size = if kind.carries() { entry } else { 0 };
        add(kind, Op::keyed(kind, key, size));
    }
    add(OpKind::Delete, Op::keyed(OpKind::Delete, key, 0));
    all
}

/// Performs one operation; allocates nothing itself.
fn perform(
    session: &mut dyn Session,
    time: Option<&dyn VirtualTime>,
    op: &Op,
    out: &mut Vec<Completion>,
) -> Completion {
    match session.submit(op, 0, Token::new(op.key, 0)).unwrap() {
        Submitted::Done(completion) => return completion,
        Submitted::Queued => session.flush().unwrap(),
        Submitted::Full => panic!("full with nothing in flight"),
    }
    out.clear();
    let until = MonoClock.now().plus(30_000_000_000);
    while out.is_empty() {
        if let Some(next) = time.and_then(VirtualTime::next_event) {
            time.unwrap().advance_to(next);
        }
        session.poll(1, Some(until), out).unwrap();
        assert!(MonoClock.now() < until, "no completion within 30 s");
    }
    out[0]
}

/// Allocations of the operations on keys or blocks 8 to 399, after those on 0 to 7.
fn allocations(can: &Capabilities, plan: &Plan, fields: u32) -> u64 {
    let target = open(plan, None, "test").unwrap();
    let mut handle = session(target.as_ref(), SIZE, 1);
    let time = target.virtual_time();
    let (session, time) = (handle.as_mut(), time.as_deref());
    let mut out = Vec::with_capacity(1);
    let mut entry = SIZE;
    if can.keyed() {
        entry = fields::write(session.buffer(0), b"field0", DATA).unwrap() as u64;
        for key in 0..400 + u64::from(BATCH) {
            let insert = Op::keyed(OpKind::Insert, key, entry);
            assert!(perform(session, time, &insert, &mut out).status.is_ok());
        }
    }
    let mut made = 0;
    for key in 0..400 {
        let mut all = operations(can, fields, key, entry);
        // A session of a queue either appends or reads.
        let queue = can.facts.kind == TargetKind::Queue;
        all.retain(|op| !(queue && op.kind == OpKind::Read));
        all.iter_mut().filter(|_| queue).for_each(|op| op.size = 400);
        let before = sys::allocations();
        for op in &all {
            if op.kind.writes() && can.keyed() {
                fields::write(session.buffer(0), b"field0", DATA);
            }
            let completion = perform(session, time, op, &mut out);
            let there = op.key < 1000;
            assert!(completion.status.is_ok() == there, "{op:?}: {completion:?}");
        }
        // The first rounds may make room for the others.
        if key >= 8 {
            made += sys::allocations() - before;
        }
    }
    drop(handle);
    target.close().unwrap();
    made
}

#[test]
fn operations_allocate_nothing() {
    assert_ne!(sys::allocations(), 0, "the counter counts");
    for driver in taillight_driver::DRIVERS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let setup = match driver.test_target(dir.path()) {
            Ok(setup) => setup,
            Err(why) => {
                eprintln!("skipped: operations_allocate_nothing of {}: {why}", driver.name());
                continue;
            }
        };
        for options in &setup.options {
            let (target, can) = setup.resolve(*driver, options).unwrap();
            if can.snapshot {
                continue;
            }
            // Blocks have no fields.
            let most = if can.keyed() { 2 } else { 1 };
            for fields in 1..=most {
                let mut plan = plan_for(&can, target.clone(), 1, false);
                if can.keyed() {
                    plan.workloads[0].value = Some(Values { fields, ..Values::default() });
                }
                let made = allocations(&can, &plan, fields);
                assert_eq!(made, 0, "{}, {options}, {fields} fields", driver.name());
            }
        }
    }
}

/// The statements of transactions, for the first options of each driver that has some.
#[test]
fn transactions_allocate_nothing() {
    for driver in taillight_driver::DRIVERS {
        let named = TargetPlan { driver: driver.name().to_owned(), ..TargetPlan::default() };
        let ops = driver.bind(&named).map(|bound| bound.capabilities().ops).unwrap_or_default();
        let kinds =
            ops.into_iter().filter(|kind| kind.is_transaction() && !kind.parts().is_empty());
        let kinds: Vec<OpKind> = kinds.collect();
        if kinds.is_empty() {
            continue;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let setup = match driver.test_target(dir.path()) {
            Ok(setup) => setup,
            Err(why) => {
                eprintln!("skipped: transactions_allocate_nothing of {}: {why}", driver.name());
                continue;
            }
        };
        let (target, can) = setup.resolve(*driver, &setup.options[0]).unwrap();
        for kind in kinds {
            let mut plan = plan_for(&can, target.clone(), 1, false);
            plan.workloads[0].mix = vec![MixPart { op: kind, weight: 1 }];
            plan.workloads[0].keys.as_mut().unwrap().count = 100_000;
            let target = open(&plan, None, "test").unwrap();
            let mut session = session(target.as_ref(), SIZE, 1);
            let (mut out, mut made) = (Vec::with_capacity(1), 0);
            for round in 0..60 {
                let before = sys::allocations();
                for part in kind.parts() {
                    let op = Op::keyed(*part, round, 0);
                    let completion = perform(session.as_mut(), None, &op, &mut out);
                    assert!(completion.status.is_ok(), "{op:?}: {completion:?}");
                }
                if round >= 8 {
                    made += sys::allocations() - before;
                }
            }
            assert_eq!(made, 0, "{}, {}", driver.name(), kind.name());
            drop(session);
            target.close().unwrap();
        }
    }
}
