//! The recorder with stamps given by hand, so that edges of intervals are met to the nanosecond: operations on keys
//! that are kept aside and recorded a few at a time, time in flight, batches.

use crossbeam_channel::unbounded;
use proptest::prelude::*;
use taillight_capture::Pool;
use taillight_capture::chunk::{ChunkReader, Header, OptionalWords, SIZES};
use taillight_core::Status;

use super::*;

const START: i64 = 1_000_000;
const INTERVAL: u64 = 1_000_000;

/// What chunks of these tests, and of others on keys, have in common.
pub(crate) fn header() -> Header {
    let mut sizes = [0; SIZES];
    sizes[0] = 100;
    Header {
        worker: 0,
        workload: 0,
        phase: 0,
        seq: 0,
        columns: OptionalWords {
            issued: false,
            intended: false,
            sync: false,
            size: false,
            key: true,
        },
        unit_shift: 0,
        file_size: u64::MAX >> 1,
        base_ns: START,
        sizes,
        addressed: false,
        partial: false,
        ordered: false,
    }
}

/// A recorder with a channel for its intervals.
fn recorder(capture: Capture) -> (Recorder, Receiver<WorkerMessage>) {
    let timeline = Timeline {
        start: Stamp(START),
        measure: Stamp(START),
        counted: Stamp(START),
        end: Stamp(START + 10 * INTERVAL as i64),
        interval_ns: INTERVAL,
    };
    let (messages, taken) = unbounded();
    let (_, spare) = unbounded();
    let channels = Channels { messages, spare };
    let kinds = &[OpKind::Get];
    let spec = RecorderSpec { worker: 0, workload: 0, open_loop: false, kinds };
    let recorder = Recorder::new(spec, timeline, channels, capture);
    (recorder, taken)
}

fn get(key: u64, submit: i64, complete: i64) -> ShortRecord {
    ShortRecord {
        op: OpKind::Get,
        global: 0,
        size: 100,
        intended: submit,
        submit,
        issued: submit,
        complete,
        sync_ns: None,
        key,
    }
}

/// As the worker does it: a tick at the completion, then the operation.
fn done(r: &mut Recorder, sample: &ShortRecord) {
    r.advance(Stamp(sample.complete), |submits| {
        submits.push(Stamp(sample.submit));
        0
    });
    r.record_deferred(sample);
}

fn failure(key: u64, at: i64) -> Record {
    Record { status: Status::STORE, ..record_of(&get(key, at, at), false) }
}

/// Successes, bytes and failures by interval.
fn counts(taken: &Receiver<WorkerMessage>) -> Vec<(u32, u64, u64, u64)> {
    let part = |message| match message {
        WorkerMessage::IntervalStats(part) => Some(part),
        WorkerMessage::Done { .. } => None,
    };
    let parts = taken.try_iter().filter_map(part);
    let one = |part: Box<IntervalStats>| {
        let op = part.ops[OpKind::Get as usize].as_deref().unwrap();
        assert_eq!(op.latencies.service.len(), op.ops);
        (part.index, op.ops, op.bytes, op.failed())
    };
    parts.map(one).collect()
}

#[test]
fn only_a_few_wait_and_a_slow_one_does_not() {
    let (mut r, _taken) = recorder(Capture::off(header()));
    let seen = |r: &mut Recorder| r.stats.op(OpKind::Get, false).ops;
    let most = MAX_PENDING as u64;
    for i in 0..most {
        assert_eq!(seen(&mut r), if i == 0 { 0 } else { 1 });
        // The first one comes long after nothing, and is recorded at once.
        done(&mut r, &get(i, START + i as i64, START + 1 + i as i64));
    }
    let next = START + MAX_PENDING as i64;
    done(&mut r, &get(most, next + 4, next + 5));
    assert_eq!((seen(&mut r), r.pending.len()), (most + 1, 0));
    done(&mut r, &get(most + 1, next + 6, next + 7));
    assert_eq!((seen(&mut r), r.pending.len()), (most + 1, 1));
    done(&mut r, &get(most + 2, next + 8, next + 8 + MAX_PENDING_NS));
    assert_eq!((seen(&mut r), r.pending.len()), (most + 3, 0), "slow: at once");
}

#[test]
fn an_interval_has_its_own_to_the_nanosecond() {
    let (mut r, taken) = recorder(Capture::off(header()));
    let edge = START + INTERVAL as i64;
    done(&mut r, &get(0, START, START + 1));
    // Three before the edge, one at it, one after a whole empty interval.
    for (key, at) in [(1, edge - 3), (2, edge - 2), (3, edge - 1), (4, edge)] {
        done(&mut r, &get(key, at - 1, at));
    }
    done(&mut r, &get(5, edge + 1, edge + 2 * INTERVAL as i64));
    r.finish(Stamp(edge + 2 * INTERVAL as i64 + 1), 0);
    assert_eq!(counts(&taken), [(0, 4, 400, 0), (1, 1, 100, 0), (3, 1, 100, 0)]);
}

/// Intervals of 1 ms, with I/Os of 50 us and 150 us between them, some across an edge; one over 2.4 of them.
#[test]
fn time_in_flight_is_that_of_the_interval() {
    let (mut r, taken) = recorder(Capture::off(header()));
    let (mut at, mut busy) = (START, [0i64; 10]);
    for key in 0..30 {
        let complete = at + if key == 12 { 2_400_000 } else { 50_000 };
        for (index, ns) in busy.iter_mut().enumerate() {
            let start = START + index as i64 * INTERVAL as i64;
            *ns += (complete.min(start + INTERVAL as i64) - at.max(start)).max(0);
        }
        done(&mut r, &get(key, at, complete));
        at = complete + 150_000 + 7_000;
    }
    let timeline = r.timeline;
    r.finish(Stamp(at), 0);
    let mut found = [0i64; 10];
    for message in taken.try_iter() {
        let WorkerMessage::IntervalStats(part) = message else { continue };
        found[part.index as usize] += part.depth_ns();
        for from in &part.absent.0 {
            let parts = timeline.parts(*from, part.absent.1);
            parts.for_each(|(_, index, ns)| found[index as usize] += ns);
        }
    }
    assert_eq!(found, busy);
    assert!(busy[..8].iter().all(|ns| *ns > 0) && busy.contains(&(INTERVAL as i64)), "{busy:?}");
}

#[test]
fn what_waits_is_recorded_before_an_error_and_at_an_early_end() {
    let (mut r, taken) = recorder(Capture::off(header()));
    for i in 0..5 {
        done(&mut r, &get(i, START + i as i64, START + 1 + i as i64));
    }
    assert_eq!(r.pending.len(), 4);
    r.record(&failure(5, START + 9));
    assert_eq!(r.pending.len(), 0);
    done(&mut r, &get(6, START + 10, START + 11));
    // Ended long before the planned time, with one waiting.
    r.finish(Stamp(START + 12), 0);
    assert_eq!(counts(&taken), [(0, 6, 600, 1)]);
}

#[test]
fn batches_are_counted_as_operations_and_records() {
    let (mut r, taken) = recorder(Capture::off(header()));
    done(&mut r, &get(0, START, START + 1));
    for (count, size) in [(16, 1600), (3, 300)] {
        r.record(&Record {
            count: Some(count),
            size,
            ..record_of(&get(1, START + 2, START + 3), false)
        });
    }
    let op = r.stats.op(OpKind::Get, false);
    assert_eq!((op.ops, op.bytes, op.records()), (3, 2000, Some(20)));
    r.finish(Stamp(START + 4), 0);
    assert_eq!(counts(&taken), [(0, 3, 2000, 0)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever comes in whatever distance: each operation is in the capture once, in its order, and
    /// in the interval of its completion.
    #[test]
    fn nothing_is_lost_and_the_order_is_kept(
        steps in prop::collection::vec((0i64..300_000, 0i64..3, 0u8..20), 1..400)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::start(dir.path(), 64 << 20, None, (1, None)).unwrap();
        let capture = Capture::new(pool.source(), header(), Default::default(), false);
        let (mut r, taken) = recorder(capture);
        let last = 9;
        let (mut now, mut expected) = (START, std::collections::BTreeMap::<u32, (u64, u64)>::new());
        for (i, (gap, scale, kind)) in steps.iter().enumerate() {
            let submit = now;
            now += 1 + gap / [1, 100, 10_000][*scale as usize];
            let index = (((now - START) as u64 / INTERVAL) as u32).min(last);
            let entry = expected.entry(index).or_default();
            if *kind == 0 {
                entry.1 += 1;
                r.advance(Stamp(now), |_| 0);
                r.record(&failure(i as u64, now));
            } else {
                entry.0 += 1;
                done(&mut r, &get(i as u64, submit, now));
            }
        }
        let state = r.finish(Stamp(now), 0);
        prop_assert_eq!(state.kept, steps.len() as u64);
        let counted: Vec<_> = counts(&taken).into_iter().filter(|c| c.1 + c.3 > 0).collect();
        let expected: Vec<_> = expected.iter().map(|(i, (ok, bad))| (*i, *ok, ok * 100, *bad)).collect();
        prop_assert_eq!(counted, expected);
        let mut keys = Vec::new();
        for chunk in pool.finish().unwrap().chunks {
            let bytes = std::fs::read(chunk.path).unwrap();
            let reader = ChunkReader::open(&bytes).unwrap();
            keys.extend(reader.records().map(|r| r.unwrap().key.unwrap()));
        }
        prop_assert!(keys.into_iter().eq(0..steps.len() as u64));
    }
}
