//! The worker's loop on a session and a clock of the test, which give stamps, records and counts that are known.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, unbounded};
use taillight_capture::chunk::ChunkReader;
use taillight_capture::{Capture, Pool};
use taillight_core::plan::{BlockSize, Keys, MixPart, Plan, Values, WorkloadPlan};
use taillight_core::probe::NoProbe;
use taillight_core::units::ByteSize;
use taillight_core::{Clock, Op, OpKind, Record, Stamp, Status};
use taillight_driver::{Geometry, SessionSpec};

use super::*;
use crate::answering::{Answer, AnsweringTarget};
use crate::generator::{Generator, WorkerIndex};
use crate::keyspace::KeySpace;
use crate::payload::PayloadSpec;
use crate::recorder::tests::header;
use crate::recorder::{Channels, RecorderSpec, WorkerMessage};
use crate::testing;

const START: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// Time passes inside the session, and by a step with each reading.
#[derive(Clone)]
struct SteppedClock(Arc<AtomicI64>, i64);

impl Clock for SteppedClock {
    fn now(&self) -> Stamp {
        Stamp(self.0.fetch_add(self.1, Ordering::Relaxed))
    }
}

impl DisciplinedClock for SteppedClock {}

/// One worker at depth 1 on 1,000 records, or blocks, of 100 bytes.
#[derive(Clone, Copy)]
struct Load {
    op: OpKind,
    operations: Option<u64>,
    bytes: Option<u64>,
    end: i64,
    warmup: i64,
    /// What a reading of the clock takes, ns.
    step: i64,
    /// Something besides keys is asked of each operation.
    beyond_keys: bool,
}

impl Load {
    fn of(op: OpKind) -> Load {
        Load {
            op,
            operations: Some(1000),
            bytes: None,
            end: i64::MAX / 2,
            warmup: 0,
            step: 0,
            beyond_keys: false,
        }
    }

    fn plan(&self) -> Plan {
        let mut plan = testing::plan();
        plan.target.size = Some(ByteSize(100_000));
        let w = &mut plan.workloads[0];
        w.block_size = BlockSize::Fixed(ByteSize(100));
        w.access.align = ByteSize(100);
        w.mix = vec![MixPart { op: self.op, weight: 1 }];
        w.keys = self.op.keyed().then(|| Keys { count: 1000, ..Keys::default() });
        plan
    }
}

/// What came of it.
struct ScriptedLoad {
    /// What the session was handed: when it was called, key, bytes of the value.
    asked: Vec<(i64, u64, Vec<u8>)>,
    /// Records of operations on keys.
    ios: Vec<Record>,
    /// Interval, successes and failures, where there are any.
    intervals: Vec<(u32, u64, u64)>,
    end: WorkerEnd,
    /// One past the last acknowledged key.
    live: u64,
    /// Whether the worker asked its strategies for more than keys.
    beyond_keys: bool,
}

fn intervals_of(taken: &Receiver<WorkerMessage>) -> Vec<(u32, u64, u64)> {
    let stats = |message| match message {
        WorkerMessage::IntervalStats(stats) => Some(stats),
        WorkerMessage::Done { .. } => None,
    };
    let measured = taken.try_iter().filter_map(stats).filter(|stats| stats.measured);
    let counted = measured.map(|stats| {
        let ops = stats.ops.iter().flatten();
        let (done, failed) = ops.fold((0, 0), |sum, op| (sum.0 + op.ops, sum.1 + op.failed()));
        (stats.index, done, failed)
    });
    counted.filter(|(_, done, failed)| done + failed > 0).collect()
}

fn records(pool: Pool) -> Vec<Record> {
    let mut ios = Vec::new();
    for chunk in pool.finish().unwrap().chunks {
        let bytes = std::fs::read(chunk.path).unwrap();
        ios.extend(ChunkReader::open(&bytes).unwrap().records().map(Result::unwrap));
    }
    ios
}

/// The only worker.
const ALONE: WorkerIndex = WorkerIndex { worker: 0, index: 0, of: 1 };

fn spec(load: &Load, generator: Generator, payload: Filler) -> WorkerSpec {
    WorkerSpec {
        place: ALONE,
        workload: 0,
        generator,
        schedule: Schedule::Burst,
        limits: WorkerLimits {
            operations: load.operations,
            bytes: load.bytes,
            drain_timeout_ns: 0,
            late_ns: 0,
        },
        session: SessionSpec {
            worker: 0,
            workload: 0,
            index: 0,
            keep: false,
            depth: 1,
            buffer_size: 100,
            seed: 0,
        },
        header: header(),
        cpu: None,
        nice: None,
        io_priority: None,
        kinds: vec![load.op],
        payload,
        keyed: None,
        stream: None,
        join: None,
        end: None,
        measured: true,
        open_loop: false,
        first_slot: 0,
    }
}

/// Runs to the end. `answer` is how long the operation of this number takes, ns, and its answer.
fn run(
    load: Load,
    answer: impl Fn(usize, &Op) -> (i64, Answer) + Send + Sync + 'static,
) -> ScriptedLoad {
    let plan = load.plan();
    let w = &plan.workloads[0];
    let time = Arc::new(AtomicI64::new(START));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let blocks = Geometry { files: 1, file_size: 100_000, align: 1 };
    let geometry = if load.op.keyed() { Geometry::keyed() } else { blocks };
    let target = {
        let (time, asked) = (time.clone(), asked.clone());
        AnsweringTarget::new(geometry, move |op, buffer| {
            let mut asked = asked.lock().unwrap();
            let (ns, answer) = answer(asked.len(), op);
            let at = time.fetch_add(ns, Ordering::Relaxed);
            asked.push((at, op.key, buffer[..op.size as usize].to_vec()));
            answer
        })
    };
    let space = Arc::new(KeySpace::new(0, 1000).for_one());
    let keyed = load.op.keyed().then_some(&space);
    let keys = keyed.map(|space| Box::new(KeyedWorker::new(w, space.clone(), 1).unwrap()));
    let timeline = Timeline {
        start: Stamp(START),
        measure: Stamp(START + load.warmup),
        counted: Stamp(START + load.warmup),
        end: Stamp(load.end),
        interval_ns: MS as u64,
    };
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::start(dir.path(), 64 << 20, None, (1, None)).unwrap();
    let capture = match load.op.keyed() {
        true => Capture::new(pool.source(), header(), Arc::default(), false),
        false => Capture::off(header()),
    };
    let (messages, taken) = unbounded();
    let channels = Channels { messages, spare: unbounded().1 };
    let generator = Generator::new(&plan, w, geometry, ALONE, keyed).unwrap();
    let payload = Filler::new(&PayloadSpec::of(&w.payload).unwrap(), 7, load.op.keyed());
    let kinds = &[load.op];
    let recorded = RecorderSpec { worker: 0, workload: 0, open_loop: false, kinds };
    let parts = WorkerParts {
        clock: SteppedClock(time, load.step),
        handles: WorkerHandles { session: target.open(1, 100), probe: NoProbe },
        recorder: Recorder::new(recorded, timeline, channels, capture),
        timeline,
        strategies: Strategies {
            keys,
            stream: None,
            checker: None,
            flow: None,
            pacing: Pacing::new(None, Stamp(START)),
            idle: None,
            drops: None,
            end_syncs: None,
            inner: load.beyond_keys,
        },
    };
    let mut worker = Worker::new(spec(&load, generator, payload), parts);
    let beyond_keys = worker.beyond_keys;
    while let WorkerWait::Until { until, .. } = worker.fill().unwrap() {
        worker.reap(0, until).unwrap();
    }
    let end = worker.finish();
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let (ios, live) = (records(pool), space.live().1);
    ScriptedLoad { asked, ios, intervals: intervals_of(&taken), end, live, beyond_keys }
}

/// Each takes 1 us and moves 100 bytes.
fn quick(_: usize, _: &Op) -> (i64, Answer) {
    (1000, Ok(100))
}

/// Each takes between 0.5 and 3.5 us and moves 100 bytes.
fn varied(n: usize, _: &Op) -> (i64, Answer) {
    (500 + (n as i64 * 7919) % 3000, Ok(100))
}

#[test]
fn a_short_write_is_a_failure() {
    for op in [OpKind::Insert, OpKind::Update, OpKind::Write] {
        let done = run(Load::of(op), |n, _| (1000, Ok(if n == 7 { 99 } else { 100 })));
        let counts = done.intervals.iter().fold((0, 0), |sum, i| (sum.0 + i.1, sum.1 + i.2));
        assert_eq!(counts, (999, 1), "{op:?}");
        if op.keyed() {
            let failed = done.ios.iter().filter(|io| !io.status.is_ok());
            assert_eq!(failed.map(|io| io.status).collect::<Vec<_>>(), [Status::SHORT], "{op:?}");
            assert_eq!(done.ios[7].status, Status::SHORT, "{op:?}");
        }
    }
}

#[test]
fn nothing_starts_at_or_after_the_end_even_when_one_stalls() {
    let end = START + 10 * MS;
    for stall in [0, 20 * MS] {
        for op in [OpKind::Insert, OpKind::Write] {
            let timed = Load { operations: None, end, ..Load::of(op) };
            let answer = move |n: usize, op: &Op| match n {
                9000 => (1000 + stall, Ok(op.size as usize)),
                _ => quick(n, op),
            };
            let done = run(timed, answer);
            let expected = if stall == 0 { 10_000 } else { 9001 };
            assert!(done.end.reached_end, "{op:?}, stall {stall}");
            assert_eq!(done.asked.len(), expected, "{op:?}, stall {stall}");
            assert!(done.asked.iter().all(|(at, _, _)| *at < end), "{op:?}, stall {stall}");
            if op == OpKind::Insert {
                assert_eq!(done.ios.len(), expected, "stall {stall}");
                assert_eq!(done.live, 1000 + expected as u64, "no gap in what is acknowledged");
            }
        }
    }
}

#[test]
fn handing_an_interval_over_is_in_no_latency() {
    const STEP: i64 = 2000;
    let ticking =
        Load { step: STEP, end: START + 200 * MS, operations: None, ..Load::of(OpKind::Get) };
    let done = run(ticking, varied);
    let interval = |at: Stamp| (at.0 - START) / MS;
    for (n, io) in done.ios.iter().enumerate() {
        assert_eq!(io.service_ns() as i64, varied(n, &Op::keyed(OpKind::Get, 0, 0)).0 + STEP);
    }
    let mut handed = 0;
    for pair in done.ios.windows(2) {
        let gap = pair[1].submit.since(pair[0].complete);
        // One reading for the next submit; after an interval, one of a new round before it.
        if interval(pair[0].submit) != interval(pair[0].complete) {
            assert_eq!(gap, 2 * STEP);
            handed += 1;
        } else {
            assert!(gap == STEP || gap == 2 * STEP, "{gap}");
        }
    }
    assert!(handed > 100, "{handed}");
}

#[test]
fn warm_up_is_left_out_to_the_operation() {
    // The end of warm-up falls into an operation, with others put off before it.
    let warmup = 5 * MS / 3;
    for operations in [Some(500), None] {
        let load = Load { operations, warmup, end: START + 4 * MS, ..Load::of(OpKind::Get) };
        let done = run(load, varied);
        let measured = |at: i64| at >= START + warmup;
        let expected: Vec<_> = done
            .asked
            .iter()
            .filter(|(at, ..)| measured(*at))
            .map(|(at, key, _)| (*at, *key))
            .collect();
        let ios: Vec<_> = done.ios.iter().map(|io| (io.submit.0, io.key.unwrap())).collect();
        assert_eq!(ios, expected);
        assert!(ios.len() < done.asked.len());
        assert_eq!(done.intervals.iter().map(|i| i.1).sum::<u64>(), ios.len() as u64);
        assert_eq!(ios.len() == 500, operations.is_some());
    }
}

#[test]
fn values_in_a_buffer_that_is_used_again_differ_and_fit_their_operations() {
    let done = run(Load::of(OpKind::Insert), quick);
    let mut values: Vec<_> = done.asked.iter().map(|(_, _, value)| value.clone()).collect();
    assert!(values.iter().all(|value| value.len() == 100));
    values.sort();
    values.dedup();
    assert_eq!(values.len(), 1000, "no two alike");
    assert_eq!(done.live, 2000, "every insert is acknowledged");
}

/// A worker that has only keys goes past its strategies, and takes its successes in a function of its own.
#[test]
fn what_goes_past_the_strategies_comes_to_the_same() {
    // Whole, short, none, more than was asked; failed, and not there.
    let answer = |n: usize, op: &Op| {
        let whole: usize = if op.kind == OpKind::Delete { 0 } else { 100 };
        let answer = match n % 50 {
            7 => Ok(99),
            17 => Ok(0),
            27 => Ok(101),
            37 => Err(Status::STORE),
            47 => Err(Status::NOT_FOUND),
            _ => Ok(whole),
        };
        (varied(n, op).0, answer)
    };
    for op in [OpKind::Get, OpKind::Scan, OpKind::Insert, OpKind::Update, OpKind::Delete] {
        for (operations, bytes) in [(Some(1000), None), (Some(500), Some(20_000))] {
            let load = Load { operations, bytes, warmup: MS / 3, ..Load::of(op) };
            let past = run(load, answer);
            let full = run(Load { beyond_keys: true, ..load }, answer);
            assert!(!past.beyond_keys && full.beyond_keys, "{op:?}");
            assert!(past.asked == full.asked, "{op:?} {bytes:?}: other operations");
            assert_eq!(past.ios, full.ios, "{op:?} {bytes:?}");
            assert_eq!(past.intervals, full.intervals, "{op:?} {bytes:?}");
            assert_eq!((past.end, past.live), (full.end, full.live), "{op:?} {bytes:?}");
            let failed = past.ios.iter().filter(|io| !io.status.is_ok()).count();
            assert!(failed > 0 && failed < past.ios.len(), "{op:?} {bytes:?}: {failed}");
        }
    }
}

#[test]
fn values_of_several_fields_checked_ones_batches_and_parts_need_the_strategies() {
    let is_plain = |change: fn(&mut WorkloadPlan)| {
        let mut plan = Load::of(OpKind::Get).plan();
        change(&mut plan.workloads[0]);
        let space = Arc::new(KeySpace::new(0, 1000));
        KeyedWorker::new(&plan.workloads[0], space, 1).unwrap().is_plain()
    };
    assert!(is_plain(|_| ()));
    assert!(!is_plain(|w| w.value = Some(Values { fields: 2, ..Values::default() })));
    assert!(!is_plain(|w| w.value = Some(Values { integrity: true, ..Values::default() })));
    assert!(!is_plain(|w| w.batch = 2));
    assert!(!is_plain(|w| w.mix = vec![MixPart { op: OpKind::Rmw, weight: 1 }]));
}
