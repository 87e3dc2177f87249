//! YCSB's vectors, key for key, through the public path: job -> generator -> worker -> driver.
//! What was stored is taken out of the memory driver and compared with YCSB's names and values.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common;
use taillight_core::job::{BoundTarget, DriverView, Job, MachineMemory};
use taillight_core::keys::hash;
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::probe::Token;
use taillight_core::units::ByteSize;
use taillight_core::{Op, OpKind, Record, Result, Status};
use taillight_driver::kv::fields::fields;
use taillight_driver::memory::MemoryTarget;
use taillight_driver::{AdminAction, DRIVERS, Geometry, KeyedTarget, Session, SessionSpec, Target};
use taillight_engine::preload::preload;
use taillight_engine::{EngineOutcome, StopFlag};

struct MemoryView;

impl DriverView for MemoryView {
    fn names(&self) -> Vec<&'static str> {
        DRIVERS.iter().map(|d| d.name()).collect()
    }
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget> {
        taillight_driver::bind(target)?.resolved()
    }
}

/// The store, still there after its run.
struct SharedStore(Arc<MemoryTarget>);

impl Target for SharedStore {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        self.0.session(spec)
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        self.0.admin(action)
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.0.facts()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        self.0.keyed()
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.0.sample(out);
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A job on the memory driver: the end of the run, and its workloads.
fn plan(run: &str, workloads: &str) -> Plan {
    let text = format!("[run]\nseed = 5\n{run}\n[target]\ndriver = \"memory\"\n{workloads}");
    let machine =
        MachineMemory { capture_budget: ByteSize(1 << 28), free_memory: ByteSize(1 << 33) };
    let job = Job::from_toml(&text, "ycsb.toml").unwrap();
    job.resolve(&MemoryView, machine, &|path| std::fs::read_to_string(path)).unwrap()
}

struct YcsbRun {
    outcome: EngineOutcome,
    ios: Vec<Record>,
    /// When the store was asked, ns, and how many records it had.
    samples: Vec<(i64, f64)>,
    stored: BTreeMap<String, Vec<u8>>,
}

/// Loads what is missing, runs, reads everything back.
fn run(plan: &Plan) -> YcsbRun {
    run_on(plan, |_| ())
}

/// As [`run`], with `spoil` between load and run.
fn run_on(plan: &Plan, spoil: impl FnOnce(&MemoryTarget)) -> YcsbRun {
    let id = common::fresh_id();
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(MemoryTarget::new(plan).unwrap());
    let can = taillight_driver::bind(&plan.target).unwrap().capabilities();
    preload(plan, &*store, &can, &id, &mut |_| true).unwrap();
    spoil(&store);
    let target = Box::new(SharedStore(store.clone()));
    let mut watch = common::WatchingObserver::default();
    let place = (id.as_str(), &*dir.path().join("run"));
    let (rundir, outcome) =
        common::run_on(target, plan, place, &StopFlag::default(), &mut watch).unwrap();
    let ios = common::records(&rundir).unwrap();
    let samples = rundir.existing(taillight_rundir::names::STORE).unwrap();
    let samples = taillight_rundir::store::read_store(&samples).unwrap();
    let samples = samples.iter().map(|row| (row.at_ns, row.value)).collect();
    let mut stored = BTreeMap::new();
    store.each(|key, value| {
        let key = String::from_utf8(key.to_vec()).unwrap();
        stored.insert(key, value.to_vec());
    });
    YcsbRun { outcome, ios, samples, stored }
}

/// A field's text by YCSB's definition, written down a second time: slow and plain.
fn text(key: &str, field: &str, length: usize) -> String {
    let java = |s: &str| s.bytes().fold(0i32, |h, b| h.wrapping_mul(31).wrapping_add(i32::from(b)));
    let mut all = format!("{key}:{field}");
    while all.len() < length {
        all.push(':');
        all += &java(&all).to_string();
    }
    all.truncate(length);
    all
}

fn load(count: u64, workers: u32, keys: &str) -> YcsbRun {
    run(&plan(
        &format!("operations = {count}"),
        &format!(
            "[[workload]]\nworkers = {workers}\nmix = \"insert\"\nblock_size = \"100B\"\n\
             value = {{ fields = 10, integrity = true }}\npayload = \"text\"\nkeys = {keys}\n"
        ),
    ))
}

#[test]
fn a_loaded_store_is_ycsb_s_key_for_key() {
    let done = load(1000, 2, "{ count = 0 }");
    assert_eq!(done.stored.len(), 1000);
    for (n, digits) in [
        (0, "6284781860667377211"),
        (1, "8517097267634966620"),
        (2, "1820151046732198393"),
        (3, "4052466453699787802"),
        (4, "3232700585171816769"),
        (5, "1000385178204227360"),
        (6, "7697331399106995587"),
        (7, "5465015992139406178"),
        (8, "6873002678636213555"),
        (9, "9105318085603802964"),
        (255, "8064062821143829734"),
        (256, "2056600594528442646"),
        (999, "2071219101098386137"),
    ] {
        assert!(done.stored.contains_key(&format!("user{digits}")), "{n}");
    }
    for n in 0..1000u64 {
        let key = format!("user{}", hash(n));
        let value = &done.stored[&key];
        assert_eq!(value.len(), 10 * (8 + 6 + 100));
        for (i, field) in fields(value).enumerate() {
            let name = format!("field{i}");
            assert_eq!(field.name, name.as_bytes());
            assert_eq!(field.data, text(&key, &name, 100).as_bytes(), "{key} {name}");
        }
    }
    let first = &done.stored["user6284781860667377211"];
    assert_eq!(
        std::str::from_utf8(fields(first).next().unwrap().data).unwrap(),
        "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:\
         -1039977118:-10"
    );
}

#[test]
fn numbers_beyond_2_31_and_other_namings() {
    for (keys, expected) in [
        ("{ count = 0, start = 1000000 }", "user1011632231655643464"),
        ("{ count = 0, start = 4294967296 }", "user634246865027890484"),
        ("{ count = 0, start = 10000000000 }", "user1201321332300452516"),
        ("{ count = 0, digits = 24 }", "user000006284781860667377211"),
        ("{ count = 0, naming = \"ordered\", digits = 8 }", "user00000000"),
        ("{ count = 0, naming = \"ordered\", start = 4294967296 }", "user4294967296"),
    ] {
        let done = load(1, 1, keys);
        let stored: Vec<&String> = done.stored.keys().collect();
        assert_eq!(stored, [expected], "{keys}");
    }
}

#[test]
fn updates_keep_the_values_and_every_read_is_checked() {
    let done = run(&plan(
        "operations = 20000",
        "[[workload]]\nworkers = 2\nmix = { get = 40, update = 30, rmw = 20, insert = 10 }\n\
         block_size = \"100B\"\nvalue = { fields = 12, write_all = false, integrity = true }\n\
         access = \"scrambled\"\npayload = \"text\"\nkeys = { count = 500 }\n",
    ));
    assert!(done.outcome.errors.is_empty(), "{:?}", done.outcome.errors);
    for (key, value) in &done.stored {
        assert_eq!(fields(value).count(), 12);
        for field in fields(value) {
            let name = std::str::from_utf8(field.name).unwrap();
            assert_eq!(field.data, text(key, name, 100).as_bytes());
        }
    }
}

#[test]
fn values_that_are_not_ycsb_s_are_found() {
    // The first workload loads, and writes random text.
    let both = "block_size = \"100B\"\nkeys = { count = 100 }\npayload = \"text\"\n";
    let done = run(&plan(
        "operations = 1000",
        &format!(
            "[[workload]]\nmix = \"update\"\nvalue = {{ fields = 10 }}\n{both}\
             [[workload]]\nmix = \"get\"\nvalue = {{ fields = 10, integrity = true }}\n{both}"
        ),
    ));
    assert_eq!(done.outcome.errors, [(Status::VERIFY, 500)]);
    let bad = |r: &&Record| r.status == Status::VERIFY;
    assert_eq!(done.ios.iter().filter(bad).count(), 500);
}

/// Workloads D and E with four workers.
#[test]
fn nothing_is_read_before_it_is_acknowledged() {
    for (mix, access, scan) in [
        ("{ get = 95, insert = 5 }", "latest", ""),
        ("{ get = 50, insert = 50 }", "latest", ""),
        ("{ get = 50, insert = 50 }", "scrambled", ""),
        ("{ get = 50, insert = 50 }", "exponential", ""),
        ("{ scan = 95, insert = 5 }", "scrambled", "scan = { min = 1, max = 100 }\n"),
    ] {
        let done = run(&plan(
            "operations = 40000",
            &format!(
                "[[workload]]\nworkers = 4\nmix = {mix}\naccess = \"{access}\"\n{scan}\
                 block_size = \"10B\"\nkeys = {{ count = 1000 }}\n"
            ),
        ));
        assert!(done.outcome.errors.is_empty(), "{mix} {access}: {:?}", done.outcome.errors);
        let inserted = done.ios.iter().filter(|r| r.op == OpKind::Insert).count();
        assert!(inserted > 1000, "{inserted}");
        assert_eq!(done.stored.len(), 1000 + inserted);
        for n in 0..done.stored.len() as u64 {
            assert!(done.stored.contains_key(&format!("user{}", hash(n))), "{n}");
        }
        if !scan.is_empty() {
            let empty = done.ios.iter().filter(|r| r.op == OpKind::Scan && r.count == Some(0));
            assert_eq!(empty.count(), 0, "a scan begins at a key that is there");
        }
    }
}

/// Rows of operations that found nothing, as no failures.
fn missed(done: &YcsbRun) -> u64 {
    let missed = |r: &&Record| r.count == Some(0);
    for row in done.ios.iter().filter(missed) {
        assert_eq!(row.status, Status::OK, "{row:?}");
        // A read-modify-write may have read what was deleted before it wrote.
        assert!(row.size == 0 || row.op == OpKind::Rmw, "{row:?}");
    }
    let whole = done.ios.iter().filter(|r| !r.op.is_part());
    whole.filter(missed).count() as u64
}

/// Reads, updates of one field and read-modify-writes of keys that other workers delete meanwhile.
#[test]
fn what_a_delete_overtakes_is_a_miss_and_no_failure() {
    for (mix, value) in [
        ("{ get = 50, insert = 25, delete = 25 }", ""),
        (
            "{ update = 25, rmw = 25, insert = 25, delete = 25 }",
            "value = { fields = 2, write_all = false }\n",
        ),
    ] {
        let done = run(&plan(
            "operations = 40000",
            &format!(
                "[[workload]]\nworkers = 4\nmix = {mix}\naccess = \"random\"\n{value}\
                 block_size = \"10B\"\nkeys = {{ count = 8 }}\n"
            ),
        ));
        let outcome = &done.outcome;
        assert!(outcome.errors.is_empty(), "{mix}: {:?}", outcome.errors);
        assert_eq!(outcome.misses, missed(&done), "{mix}");
    }
}

/// One row over a get and an update of kinds of their own, which no count of operations adds.
#[test]
fn a_read_modify_write_is_one_operation() {
    let done = run(&plan(
        "operations = 4000",
        "[[workload]]\nworkers = 2\nqueue_depth = 1\nmix = { get = 50, rmw = 50 }\n\
         access = \"random\"\nblock_size = \"10B\"\nkeys = { count = 100 }\n",
    ));
    let rows = |op: OpKind| done.ios.iter().filter(move |r| r.op == op);
    let count = |op| rows(op).count();
    assert_eq!(done.outcome.operations, 4000);
    assert_eq!(count(OpKind::Get) + count(OpKind::Rmw), 4000);
    assert_eq!(count(OpKind::RmwGet), count(OpKind::Rmw));
    assert_eq!(count(OpKind::RmwUpdate), count(OpKind::Rmw));
    assert_eq!(count(OpKind::Update), 0);
    for whole in rows(OpKind::Rmw) {
        let part = |op| rows(op).filter(|r| (r.key, r.moved) == (whole.key, whole.moved));
        let get = part(OpKind::RmwGet).find(|r| r.submit == whole.submit).expect("its get");
        let update = part(OpKind::RmwUpdate).find(|r| r.complete == whole.complete);
        let update = update.expect("its update");
        assert!(update.submit >= get.complete, "{whole:?}");
        assert_eq!(whole.size, get.size + update.size);
    }
}

/// Counters of the target begin before the first operation, and again where a warm-up ends.
#[test]
fn the_target_is_sampled_before_what_is_measured() {
    let inserts = "[[workload]]\nmix = \"insert\"\nblock_size = \"10B\"\nkeys = { count = 100 }\n";
    let done = run(&plan("operations = 20000", inserts));
    let (first, last) = (done.samples.first().unwrap(), done.samples.last().unwrap());
    assert!(first.0 < done.ios.iter().map(|r| r.submit.0).min().unwrap());
    assert_eq!((first.1, last.1), (100.0, 20100.0));

    let slow = format!("{inserts}arrival = {{ kind = \"constant\", rate = \"100/s\" }}\n");
    let run_for = "duration = \"600ms\"\nwarmup = \"1200ms\"\ninterval = \"10s\"";
    let done = run(&plan(run_for, &slow));
    let measured = done.ios.iter().map(|r| r.submit.0).min().unwrap();
    // Three of them: at the very start, near the start of the measure phase, at the end.
    let near = done.samples.iter().filter(|(at, _)| (at - measured).abs() < 400_000_000);
    assert_eq!((done.samples.len(), near.count()), (3, 1), "{:?} {measured}", done.samples);
}

#[test]
fn misses_are_never_more_than_operations() {
    let done = run(&plan(
        "operations = 1000",
        "[[workload]]\nmix = { rmw = 50, delete = 50 }\naccess = \"random\"\n\
         block_size = \"10B\"\nkeys = { count = 100 }\n",
    ));
    assert_eq!(done.outcome.misses, missed(&done));
    assert!((500..1000).contains(&done.outcome.misses), "{}", done.outcome.misses);
}

/// More deletes than keys, one worker: nothing depends on timing. Then the oldest keys are read as
/// often as any other: nothing keeps off them.
#[test]
fn a_data_set_that_is_used_up_gives_misses() {
    let shape = |count, mix| {
        plan(
            "operations = 2000",
            &format!(
                "[[workload]]\nmix = {mix}\naccess = \"random\"\nblock_size = \"10B\"\n\
                 keys = {{ count = {count} }}\n"
            ),
        )
    };
    let done = run(&shape(100, "{ get = 50, delete = 50 }"));
    assert!(done.outcome.errors.is_empty(), "{:?}", done.outcome.errors);
    assert_eq!(done.outcome.misses, missed(&done));
    assert!(done.outcome.misses > 500, "{}", done.outcome.misses);
    assert!(done.stored.is_empty());

    let done = run(&shape(1500, "{ get = 50, delete = 50 }"));
    assert_eq!((done.outcome.misses, missed(&done)), (0, 0));
    let mut deleted = 0;
    let mut oldest = 0;
    for row in &done.ios {
        match row.op {
            OpKind::Delete => deleted += 1,
            _ => oldest += u64::from(row.key.unwrap() < deleted + 8),
        }
    }
    // About 8 of 1,000 living keys, a thousand times.
    assert!(oldest > 0, "nobody reads the oldest eight");
}

/// A key that is gone although nobody deleted it is still a failure.
#[test]
fn a_lost_key_is_no_miss() {
    let plan = plan(
        "operations = 3000",
        "[[workload]]\nmix = { get = 99, delete = 1 }\naccess = \"random\"\n\
         block_size = \"10B\"\nkeys = { count = 100 }\n",
    );
    let done = run_on(&plan, |store| {
        let spec = SessionSpec {
            worker: 0,
            workload: 0,
            index: 0,
            keep: false,
            depth: 1,
            buffer_size: 10,
            seed: 1,
        };
        let mut session = store.session(&spec).unwrap();
        let lose = Op::keyed(OpKind::Delete, 99, 0);
        session.submit(&lose, 0, Token(1)).unwrap();
    });
    let [(status, count)] = done.outcome.errors[..] else { panic!("{:?}", done.outcome.errors) };
    assert_eq!(status, Status::NOT_FOUND);
    let lost = |r: &&Record| r.key == Some(99) && !r.status.is_ok();
    assert_eq!(done.ios.iter().filter(lost).count() as u64, count);
    assert_eq!(done.outcome.misses, 0);
}

/// How often each key number is read, the hottest first.
fn popularity(access: &str) -> (Vec<(u64, u64)>, u64) {
    let done = run(&plan(
        "operations = 400000",
        &format!(
            "[[workload]]\nmix = \"get\"\naccess = \"{access}\"\nblock_size = \"10B\"\n\
             keys = {{ count = 1000 }}\n"
        ),
    ));
    let mut counts = vec![0u64; 1000];
    for io in &done.ios {
        counts[io.key.unwrap() as usize] += 1;
    }
    let mut all: Vec<(u64, u64)> = (0..).zip(counts).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    (all, done.ios.len() as u64)
}

/// Within five standard deviations of the published share.
fn near(count: u64, of: u64, percent: f64) -> bool {
    let (n, p) = (of as f64, percent / 100.0);
    (count as f64 - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn the_hot_keys_are_ycsb_s() {
    let (hot, all) = popularity("scrambled");
    let keys: Vec<u64> = hot.iter().take(6).map(|(key, _)| *key).collect();
    assert_eq!(keys, [144, 610, 213, 679, 10, 545]);
    for (rank, share) in [(0, 3.861), (1, 1.995), (2, 1.603), (3, 1.166), (4, 0.934), (9, 0.493)] {
        assert!(near(hot[rank].1, all, share), "{rank}: {:?}", hot[rank]);
    }
    let top: u64 = hot.iter().take(10).map(|(_, count)| count).sum();
    assert!(near(top, all, 12.61), "{top}");
    let (hot, all) = popularity("latest");
    for (rank, key, share) in [(0, 999, 12.95), (1, 998, 6.51), (2, 997, 5.10), (3, 996, 3.64)] {
        assert_eq!(hot[rank].0, key);
        assert!(near(hot[rank].1, all, share), "{rank}: {:?}", hot[rank]);
    }
    let oldest = hot.iter().find(|(key, _)| *key == 0).unwrap();
    assert_eq!(oldest.1, 0, "key 0 is never read");
}

#[test]
fn one_worker_repeats_its_operations() {
    let done = || {
        let done = run(&plan(
            "operations = 5000",
            "[[workload]]\nmix = { get = 40, update = 20, insert = 20, rmw = 20 }\n\
             access = \"latest\"\nblock_size = \"10B\"\nvalue = { fields = 3, write_all = false }\n\
             keys = { count = 100 }\n",
        ));
        let ios = done.ios.iter().map(|r| (r.op, r.key, r.size));
        (ios.collect::<Vec<_>>(), done.stored)
    };
    let (first, again) = (done(), done());
    assert_eq!(first.0, again.0);
    assert_eq!(first.1, again.1, "the same bytes in the end");
}
