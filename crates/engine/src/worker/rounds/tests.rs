//! Rounds on a session and a clock of their own: every stamp, record and count is known beforehand.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crossbeam_channel::{Receiver, unbounded};
use taillight_core::plan::{Keys, MixPart};
use taillight_core::probe::{NoProbe, Token};
use taillight_core::units::ByteSize;
use taillight_core::{Clock, Record, Status};
use taillight_driver::{AtOnce, Completion, Geometry, Session, Submitted};
use taillight_rundir::chunk::ChunkReader;

use super::*;
use crate::capture::{CHUNK_BYTES, Pool};
use crate::generator::{Generator, WorkerIndex};
use crate::keyspace::KeySpace;
use crate::payload::{Filler, PayloadSpec};
use crate::recorder::tests::header;
use crate::recorder::{Capture, Channels, Recorder, Timeline, WorkerMessage};
use crate::schedule::Schedule;
use crate::testing;
use crate::worker::{KeyedWorker, Pacing, WorkerEnd, WorkerLimits, WorkerWait};

const START: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

/// Time passes inside the session, and by a step with each reading.
#[derive(Clone)]
struct Time(Arc<AtomicI64>, i64);

impl Clock for Time {
    fn now(&self) -> Stamp {
        Stamp(self.0.fetch_add(self.1, Ordering::Relaxed))
    }
}

impl DisciplinedClock for Time {}

/// What the session saw: kind, key, bytes of the value.
type Seen = Rc<RefCell<Vec<(OpKind, u64, Vec<u8>)>>>;

/// Takes as long, and answers, as `answer` says of the number of the operation.
struct Store<F> {
    time: Time,
    answer: F,
    seen: Seen,
    buffer: Vec<u8>,
    /// Shows that it performs at once.
    at_once: bool,
}

impl<F: FnMut(usize, &Op) -> (i64, Outcome)> AtOnce for Store<F> {
    fn perform(&mut self, op: &Op, value: &[u8]) -> Result<Outcome> {
        let number = self.seen.borrow().len();
        let (ns, outcome) = (self.answer)(number, op);
        self.time.0.fetch_add(ns, Ordering::Relaxed);
        let mut seen = self.seen.borrow_mut();
        seen.push((op.kind, op.key, value.to_vec()));
        Ok(outcome)
    }
}

impl<F: FnMut(usize, &Op) -> (i64, Outcome)> Session for Store<F> {
    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        let value = self.buffer[..op.size as usize].to_vec();
        let outcome = self.perform(op, &value)?;
        Ok(Submitted::Done(outcome.completion(token)))
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
    fn at_once(&mut self) -> Option<&mut dyn AtOnce> {
        self.at_once.then_some(self as &mut dyn AtOnce)
    }
    fn abandon(self: Box<Self>) {}
}

/// A run of one worker.
#[derive(Clone)]
struct Case {
    plan: Plan,
    rounds: bool,
    operations: Option<u64>,
    end: i64,
    /// Of warm-up, ns.
    warmup: i64,
    /// What a reading of the clock takes, ns.
    step: i64,
}

/// What came of it.
struct Came {
    seen: Vec<(OpKind, u64, Vec<u8>)>,
    ios: Vec<Record>,
    parts: Vec<(u32, u64, u64)>,
    end: WorkerEnd,
    /// One past the last acknowledged key.
    live: u64,
}

/// A plan of this mix on 1,000 records of 100 bytes.
fn plan(mix: &[OpKind]) -> Plan {
    let mut plan = testing::plan();
    let w = &mut plan.workloads[0];
    w.block_size = taillight_core::plan::BlockSize::Fixed(ByteSize(100));
    w.mix = mix
        .iter()
        .map(|op| MixPart { op: *op, weight: 1 })
        .collect();
    w.keys = Some(Keys {
        count: 1000,
        ..Keys::default()
    });
    plan
}

fn case(mix: &[OpKind]) -> Case {
    Case {
        plan: plan(mix),
        rounds: true,
        operations: Some(1000),
        end: i64::MAX / 2,
        warmup: 0,
        step: 0,
    }
}

fn parts_of(taken: &Receiver<WorkerMessage>) -> Vec<(u32, u64, u64)> {
    let part = |message| match message {
        WorkerMessage::IntervalStats(part) => Some(part),
        WorkerMessage::Done { .. } => None,
    };
    let all = taken.try_iter().filter_map(part).map(|part| {
        let ops = part.ops.iter().flatten();
        let (done, failed) = ops.fold((0, 0), |sum, op| (sum.0 + op.ops, sum.1 + op.failed()));
        (part.index, done, failed)
    });
    all.filter(|(_, done, failed)| done + failed > 0).collect()
}

fn records(pool: Pool) -> Vec<Record> {
    let mut ios = Vec::new();
    for (_, path) in pool.finish().unwrap().chunks {
        let bytes = std::fs::read(path).unwrap();
        ios.extend(ChunkReader::open(&bytes).unwrap().records());
    }
    ios
}

/// Runs it to its end.
fn run(case: &Case, answer: impl FnMut(usize, &Op) -> (i64, Outcome) + 'static) -> Came {
    let (plan, w) = (&case.plan, &case.plan.workloads[0]);
    let time = Time(Arc::new(AtomicI64::new(START)), case.step);
    let seen = Seen::default();
    let space = Arc::new(KeySpace::new(0, 1000).for_one());
    let place = WorkerIndex {
        worker: 0,
        index: 0,
        of: 1,
    };
    let timeline = Timeline {
        start: Stamp(START),
        measure: Stamp(START + case.warmup),
        end: Stamp(case.end),
        interval_ns: MS as u64,
    };
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::start(dir.path(), 6 * CHUNK_BYTES as u64, None, 1).unwrap();
    let capture = Capture::new(pool.source(), header(), Arc::default(), false);
    let (parts, taken) = unbounded();
    let (_, spare) = unbounded();
    let kinds: Vec<OpKind> = w.mix.iter().map(|part| part.op).collect();
    let channels = Channels { parts, spare };
    let mut worker = Worker::new(WorkerConfig {
        clock: time.clone(),
        probe: NoProbe,
        session: Box::new(Store {
            time,
            answer,
            seen: seen.clone(),
            buffer: vec![0; 100],
            at_once: case.rounds,
        }),
        generator: Generator::new(plan, w, Geometry::keyed(), place, Some(&space)).unwrap(),
        schedule: Schedule::Burst,
        recorder: Recorder::new((0, 0), timeline, (false, &kinds), channels, capture),
        timeline,
        limits: WorkerLimits {
            operations: case.operations,
            bytes: None,
            drain_timeout_ns: 0,
            late_ns: 0,
        },
        payload: Filler::new(&PayloadSpec::of(&w.payload).unwrap(), 7, true),
        checker: None,
        writes: kinds.iter().any(|kind| kind.writes()),
        keyed: Some(Box::new(KeyedWorker::new(w, space.clone(), 1).unwrap())),
        follow: None,
        pace: Pacing::new(None, Stamp(START)),
        idle: None,
        measured: true,
        rounds: fit(plan),
        depth: 1,
        first_slot: 0,
        header: header(),
    });
    while let WorkerWait::Until { until, .. } = worker.fill().unwrap() {
        worker.reap(0, until).unwrap();
    }
    let end = worker.finish();
    Came {
        seen: seen.take(),
        ios: records(pool),
        parts: parts_of(&taken),
        end,
        live: space.live().1,
    }
}

/// 1 us each, and whatever was asked.
fn quick(_: usize, op: &Op) -> (i64, Outcome) {
    (
        1000,
        Outcome::ok(if op.kind.writes() { op.size } else { 100 }),
    )
}

#[test]
fn the_same_operations_as_without_rounds_and_the_same_records() {
    for mix in [
        &[OpKind::Insert][..],
        &[OpKind::Get],
        &[OpKind::Get, OpKind::Update],
    ] {
        let rounds = case(mix);
        let plain = Case {
            rounds: false,
            ..case(mix)
        };
        let vary = |n: usize, op: &Op| (500 + (n as i64 * 7919) % 3000, quick(n, op).1);
        let (a, b) = (run(&rounds, vary), run(&plain, vary));
        assert_eq!(a.seen.len(), 1000, "{mix:?}");
        let named = |seen: &[(OpKind, u64, Vec<u8>)]| -> Vec<_> {
            seen.iter()
                .map(|(kind, key, value)| (*kind, *key, value.len()))
                .collect()
        };
        assert_eq!(named(&a.seen), named(&b.seen));
        assert_eq!(a.ios, b.ios, "{mix:?}");
        assert_eq!((a.parts, a.live), (b.parts, b.live));
        assert_eq!(a.end.capture.kept, 1000);
    }
}

#[test]
fn warm_up_is_left_out_alike() {
    for operations in [Some(500), None] {
        let rounds = Case {
            operations,
            warmup: 5 * MS / 3,
            end: START + 4 * MS,
            ..case(&[OpKind::Get])
        };
        let plain = Case {
            rounds: false,
            ..rounds.clone()
        };
        let vary = |n: usize, op: &Op| (500 + (n as i64 * 7919) % 3000, quick(n, op).1);
        let (a, b) = (run(&rounds, vary), run(&plain, vary));
        assert_eq!(a.ios, b.ios);
        assert_eq!(a.parts, b.parts);
        assert!(
            a.ios
                .iter()
                .all(|io| io.submit >= Stamp(START + rounds.warmup))
        );
        assert_eq!(a.ios.len() == 500, operations.is_some());
    }
}

#[test]
fn handing_an_interval_over_is_in_no_latency() {
    let ticking = Case {
        step: 2000,
        end: START + 200 * MS,
        operations: None,
        ..case(&[OpKind::Get])
    };
    let vary = |n: usize, op: &Op| (500 + (n as i64 * 7919) % 3000, quick(n, op).1);
    let came = run(&ticking, vary);
    let interval = |at: Stamp| (at.0 - START) / MS;
    let mut handed = 0;
    for pair in came.ios.windows(2) {
        let gap = pair[1].submit.since(pair[0].complete);
        // The stamp of a round's start is a reading of its own; after an interval it is read anew.
        if gap > 0 && interval(pair[0].complete) != interval(pair[1].submit) {
            assert_eq!(gap, 4000);
            handed += 1;
        }
    }
    assert!(handed > 3, "{handed}");
}

#[test]
fn values_of_a_round_differ_and_fit_their_operations() {
    let came = run(&case(&[OpKind::Insert]), quick);
    let mut values: Vec<_> = came
        .seen
        .iter()
        .map(|(_, _, value)| value.clone())
        .collect();
    assert!(values.iter().all(|value| value.len() == 100));
    values.sort();
    values.dedup();
    assert_eq!(values.len(), 1000, "no two alike");
    assert_eq!(came.live, 2000, "every insert is acknowledged");
}

#[test]
fn each_starts_where_the_one_before_ended() {
    let came = run(&case(&[OpKind::Get]), quick);
    for pair in came.ios.windows(2) {
        assert_eq!(pair[0].complete, pair[1].submit);
    }
    assert_eq!(came.ios[0].submit, Stamp(START));
    assert!(
        came.ios
            .iter()
            .all(|io| io.service_ns() == 1000 && io.size == 100)
    );
}

#[test]
fn a_failure_leaves_the_round_and_what_follows_goes_on() {
    let answer = |n: usize, op: &Op| match n {
        100 => (5000, Outcome::status(Status::STORE)),
        200 => (2000, Outcome::status(Status::NOT_FOUND)),
        _ => quick(n, op),
    };
    let came = run(&case(&[OpKind::Get]), answer);
    assert_eq!((came.seen.len(), came.ios.len()), (1000, 1000));
    for (n, (io, (_, key, _))) in came.ios.iter().zip(&came.seen).enumerate() {
        let status = match n {
            100 => Status::STORE,
            200 => Status::NOT_FOUND,
            _ => Status::OK,
        };
        assert_eq!((io.key, io.status), (Some(*key), status), "{n}");
    }
    assert_eq!(came.ios[100].service_ns(), 5000);
    assert_eq!(came.ios[101].submit, came.ios[100].complete);
    assert_eq!(came.parts.iter().map(|p| p.2).sum::<u64>(), 2);
}

#[test]
fn a_short_write_is_a_failure() {
    let answer = |n: usize, op: &Op| match n {
        7 => (1000, Outcome::ok(op.size - 1)),
        _ => quick(n, op),
    };
    let came = run(&case(&[OpKind::Insert]), answer);
    assert_eq!(came.ios[7].status, Status::SHORT);
    assert_eq!(
        came.parts.iter().map(|p| (p.1, p.2)).collect::<Vec<_>>(),
        [(998, 1), (1, 0)]
    );
}

#[test]
fn a_target_that_only_fails_is_given_up() {
    let fails = |_: usize, _: &Op| (1000, Outcome::status(Status::STORE));
    let came = run(
        &Case {
            operations: None,
            ..case(&[OpKind::Get])
        },
        fails,
    );
    assert!(came.end.gone);
    assert_eq!(came.ios.len(), 1000);
}

#[test]
fn nothing_starts_at_or_after_the_end_even_when_one_stalls() {
    let end = START + 10 * MS;
    for stall in [0, 20 * MS] {
        let timed = Case {
            operations: None,
            end,
            ..case(&[OpKind::Insert])
        };
        let answer = move |n: usize, op: &Op| match n {
            9000 => (1000 + stall, quick(n, op).1),
            _ => quick(n, op),
        };
        let came = run(&timed, answer);
        assert!(came.end.reached_end);
        let done = if stall == 0 { 10_000 } else { 9001 };
        assert_eq!(came.ios.len(), done, "stall {stall}");
        assert!(came.ios.iter().all(|io| io.submit < Stamp(end)));
        assert_eq!(
            came.live,
            1000 + done as u64,
            "no gap in what is acknowledged"
        );
    }
}

#[test]
fn every_operation_is_in_the_interval_of_its_completion() {
    let vary = |n: usize, op: &Op| (100 + (n as i64 * 7919) % 60_000, quick(n, op).1);
    let came = run(&case(&[OpKind::Get]), vary);
    let mut expected = std::collections::BTreeMap::<u32, u64>::new();
    for io in &came.ios {
        let interval = (io.complete.0 - START) / MS;
        *expected.entry(interval as u32).or_default() += 1;
    }
    let counted: Vec<_> = came.parts.iter().map(|p| (p.0, p.1)).collect();
    assert_eq!(counted, expected.into_iter().collect::<Vec<_>>());
}

#[test]
fn only_plans_whose_draws_depend_on_nothing_that_comes_back() {
    let fits = |mix: &[OpKind]| fit(&plan(mix));
    assert!(fits(&[OpKind::Insert]) && fits(&[OpKind::Get, OpKind::Update]));
    assert!(
        !fits(&[OpKind::Get, OpKind::Insert]),
        "a read may want what was just added"
    );
    assert!(!fits(&[OpKind::Get, OpKind::Delete]) && !fits(&[OpKind::Scan]));
    let mut two = plan(&[OpKind::Insert]);
    two.workloads
        .push(plan(&[OpKind::Get]).workloads[0].clone());
    assert!(!fit(&two), "readers beside a writer");
    let mut batches = plan(&[OpKind::Insert]);
    batches.workloads[0].batch = 4;
    assert!(!fit(&batches));
}

fn rounds(mean_ns: u64, most: usize) -> Rounds {
    Rounds {
        ops: Vec::new(),
        next: 0,
        values: Box::default(),
        stride: 1,
        most,
        samples: Vec::new(),
        mean_ns,
    }
}

#[test]
fn a_round_is_short_and_ends_well_before_the_time_is_up() {
    assert_eq!(rounds(1_000, 16).room(u64::MAX), 16);
    assert_eq!(rounds(1_000, 4).room(u64::MAX), 4, "few places for values");
    assert_eq!(rounds(50_000, 16).room(u64::MAX), 4, "200 us a round");
    assert_eq!(rounds(10_000_000, 16).room(u64::MAX), 1, "slow ones alone");
    assert_eq!(rounds(1_000, 16).room(20_000), 5, "a quarter of 20 us");
    assert_eq!(rounds(1_000, 16).room(0), 1, "the clock decides then");
}

#[test]
fn the_mean_follows_what_operations_take() {
    let mut rounds = rounds(LENGTH_NS, 16);
    for _ in 0..40 {
        rounds.took(16, 16_000);
    }
    assert!(
        (1_000..1_010).contains(&rounds.mean_ns),
        "{}",
        rounds.mean_ns
    );
    assert_eq!(rounds.room(u64::MAX), 16);
}
