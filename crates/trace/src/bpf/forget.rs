//! Events that no slow I/O needs are forgotten when there are many, so that a long run with few slow
//! I/Os is traced to its end.
//!
//! Only where outliers alone are kept, and only what ended before every I/O that is in flight or was not
//! handed over yet: an event that no kept I/O overlaps (a slow one by 100 ms before and after it, too) explains
//! nothing. Flushes of a disk's cache are never forgotten.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use taillight_core::TimeSpan;
use taillight_rundir::layers::flags;

use super::layout::{SLOTS, TraceEvent, TraceEventKind};
use super::programs::LoadedPrograms;
use super::traced_io::{KeptIo, TracedBatch};

/// So much before and after a slow I/O belongs to its story, ns.
const AROUND_NS: i64 = 100_000_000;
/// A begin may be told so much after its stamp, ns.
const LATE_NS: i64 = 1_000_000_000;
/// Longer events are not asked for by I/Os late in them, ns.
const LONGEST_NS: i64 = 10_000_000_000;
/// So many times are worth to be merged.
const TIMES_MANY: usize = 1 << 16;

/// Of each worker the earliest begin of the I/Os that it keeps and has not handed over yet.
#[derive(Debug)]
pub struct NotHandedOver(Box<[AtomicI64]>);

impl NotHandedOver {
    pub fn new(workers: usize) -> NotHandedOver {
        NotHandedOver((0..workers).map(|_| AtomicI64::new(i64::MAX)).collect())
    }

    /// A worker keeps an I/O, the `first` since it handed over what it had.
    pub fn keeps(&self, worker: u16, submit: i64, first: bool) {
        if let Some(since) = self.0.get(usize::from(worker)) {
            let before = if first { i64::MAX } else { since.load(Relaxed) };
            since.store(before.min(submit), Release);
        }
    }

    /// The earliest begin of all.
    fn earliest(&self) -> i64 {
        self.0.iter().map(|since| since.load(Acquire)).min().unwrap_or(i64::MAX)
    }
}

/// No I/O that is yet to come needs an event that ended before this time; to be asked before batches are taken.
pub fn horizon(programs: &LoadedPrograms, held: &NotHandedOver, now: i64) -> i64 {
    let in_flight = (0..SLOTS).filter_map(|i| {
        let slot = programs.slots.get(i);
        (slot.token.load(Acquire) != 0).then(|| slot.begin.load(Relaxed) as i64)
    });
    let begun = in_flight.min().unwrap_or(i64::MAX);
    begun.min(held.earliest()).min(now - LATE_NS)
}

/// Times of kept I/Os.
#[derive(Debug)]
pub struct NeededTimes {
    times: Vec<TimeSpan>,
    /// What ended before this time was asked for already, and stays where it is still there.
    decided: i64,
}

impl Default for NeededTimes {
    fn default() -> NeededTimes {
        NeededTimes { times: Vec::new(), decided: i64::MIN }
    }
}

/// The time of a kept I/O; of a slow one with what belongs to its story.
pub fn around(io: &KeptIo<'_>) -> TimeSpan {
    let slow = io.flags() & flags::SAMPLE == 0;
    let around = if slow { AROUND_NS } else { 0 };
    let TimeSpan { from, to } = io.time();
    TimeSpan::new(from - around, to + around)
}

impl NeededTimes {
    pub fn of(times: Vec<TimeSpan>) -> NeededTimes {
        NeededTimes { times, ..NeededTimes::default() }
    }

    /// Adds the times of a batch's I/Os.
    pub fn add(&mut self, ios: &TracedBatch) {
        self.times.extend(ios.each().map(|io| around(&io)));
        if self.times.len() > TIMES_MANY {
            self.merged();
        }
    }

    /// The times in order, without overlaps.
    fn merged(&mut self) -> &[TimeSpan] {
        self.times.sort_unstable();
        self.times.dedup_by(|later, kept| {
            let touch = later.from <= kept.to;
            if touch {
                kept.to = kept.to.max(later.to);
            }
            touch
        });
        &self.times
    }

    /// Those of `events` that lie in these times, in part at least.
    pub fn needed<'e>(&mut self, events: &'e [TraceEvent]) -> impl Iterator<Item = &'e TraceEvent> {
        let needed = self.merged();
        events.iter().filter(move |e| meets(needed, TimeSpan::new(e.start as i64, e.end as i64)))
    }

    /// Forgets events that ended before the `horizon` and that no kept I/O needs; returns how many of the first `told`
    /// ones are still there. Events that ended before it and are left stay for good.
    pub fn forget(&mut self, events: &mut Vec<TraceEvent>, horizon: i64, told: usize) -> usize {
        let decided = self.decided;
        let needed = self.merged();
        let (mut place, mut kept) = (0, 0);
        events.retain(|e| {
            // The report tells of each I/O when the disk last flushed its cache before it.
            let keep = e.kind == TraceEventKind::Flush
                || e.end as i64 >= horizon
                || (e.end as i64) < decided
                || meets(needed, TimeSpan::new(e.start as i64, e.end as i64));
            kept += usize::from(keep && place < told);
            place += 1;
            keep
        });
        // The report asks for no event that began so long before an I/O.
        self.times.retain(|time| time.to >= horizon - LONGEST_NS);
        self.decided = decided.max(horizon);
        kept
    }
}

/// Whether a time touches one of these, which are by time.
fn meets(times: &[TimeSpan], one: TimeSpan) -> bool {
    let first = times.partition_point(|time| time.to < one.from);
    times.get(first).is_some_and(|time| time.from <= one.to)
}

#[cfg(test)]
pub(super) mod tests {
    use taillight_core::probe::Token;

    use super::super::layout::{EVENT_BYTES, EarlierRounds, OperationSlot};
    use super::super::traced_io::read_slot;
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// An event of which only its kind and its time are known.
    pub fn event(kind: u8, start: i64, end: i64) -> TraceEvent {
        let mut bytes = vec![0u8; EVENT_BYTES];
        bytes[0] = kind;
        bytes[8..16].copy_from_slice(&start.to_ne_bytes());
        bytes[24..32].copy_from_slice(&end.to_ne_bytes());
        TraceEvent::parse(&bytes).unwrap()
    }

    #[test]
    fn only_what_no_io_needs_is_forgotten() {
        let mut batch = TracedBatch::empty();
        for (submit, bits) in [(10 * SECOND, 0), (20 * SECOND, flags::SAMPLE as u32)] {
            let mut io = read_slot(&OperationSlot::default(), Token(0));
            (io.submit, io.complete, io.flags) = (submit, submit + 1000, bits);
            batch.push(io, &EarlierRounds::default());
        }
        let off = |start, end| event(1, start, end);
        let all = [
            off(SECOND, 2 * SECOND),
            // Over a slow one, just before it, and just before a usual one.
            off(9 * SECOND, 11 * SECOND),
            off(10 * SECOND - 2000, 10 * SECOND - 1000),
            off(20 * SECOND - 2000, 20 * SECOND - 1000),
            event(8, 15 * SECOND, 15 * SECOND + 9),
            off(29 * SECOND, 30 * SECOND),
        ];
        let starts = |list: &[TraceEvent]| list.iter().map(|e| e.start as i64).collect::<Vec<_>>();
        let mut events = all.to_vec();
        let mut needed = NeededTimes::default();
        needed.add(&batch);
        assert_eq!(needed.forget(&mut events, 30 * SECOND, 4), 2);
        let kept = [&all[1..3], &all[4..]].concat();
        assert_eq!(starts(&events), starts(&kept));
        // Another pass, when the times of these I/Os are gone, leaves what they needed; the last event was too young.
        needed.add(&TracedBatch::empty());
        needed.forget(&mut events, 60 * SECOND, 0);
        let kept = &kept[..kept.len() - 1];
        assert_eq!(starts(&events), starts(kept));
    }

    #[test]
    fn what_a_worker_still_has_is_as_old_as_its_first_begin() {
        let held = NotHandedOver::new(2);
        assert_eq!(held.earliest(), i64::MAX);
        held.keeps(0, 50, true);
        held.keeps(1, 70, true);
        // I/Os end in another order than they begin.
        held.keeps(0, 40, false);
        assert_eq!(held.earliest(), 40);
        held.keeps(0, 90, true);
        assert_eq!(held.earliest(), 70);
        held.keeps(9, 1, true);
        assert_eq!(held.earliest(), 70, "no worker of the load");
    }
}
