//! Tells once a second what was traced since: rows of what the collector keeps anyway, for views of the run
//! while it goes on. Of I/Os that were not slow one in 64 is told, of slow ones at most 4,096 a second. Of a second
//! with more than 16,384 events those are told that these I/Os need; where they are still more, those of the slowest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taillight_core::TimeSpan;
use taillight_rundir::layers::{LayerRow, flags};

use super::collect::{CollectedTrace, event_row, io_rows};
use super::forget::{NeededTimes, around};
use super::layout::TraceEvent;
use super::symbols::KernelSymbols;
use super::traced_io::{KeptIo, TracedBatch};
use crate::tracing::TraceWatch;

/// How often it tells.
const EVERY: Duration = Duration::from_secs(1);
/// Of the I/Os that are not slow every so many-th is told.
const SAMPLED: usize = 64;

/// Most slow I/Os told at a time (and as many of the others), and most events: more would keep the ring waiting.
const SLOW_MAX: usize = 4096;
const EVENTS_MAX: usize = 16_384;
/// Where I/Os need more events, one in so many of them stays, and again until they need no more: the slowest ones.
const STAYS: usize = 8;

/// What a watch has not been told yet.
pub struct TraceTail {
    watch: TraceWatch,
    symbols: Arc<KernelSymbols>,
    /// Latency above which an I/O is slow, ns; without one each that is not of the sample is.
    threshold_ns: Option<u64>,
    told: Instant,
    /// Batches and events that were told.
    batches: usize,
    events: usize,
    /// Times of the slow I/Os that were told last: an event that they need may have ended since.
    before: Vec<TimeSpan>,
}

impl TraceTail {
    pub fn new(
        watch: TraceWatch,
        symbols: Arc<KernelSymbols>,
        threshold_ns: Option<u64>,
    ) -> TraceTail {
        let (told, before) = (Instant::now(), Vec::new());
        TraceTail { watch, symbols, threshold_ns, told, batches: 0, events: 0, before }
    }

    /// How many of the collector's events were told.
    pub fn told(&mut self) -> &mut usize {
        &mut self.events
    }

    /// How many of its batches of I/Os were.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// The first batch that was told is no longer among the collector's.
    pub fn one_gone(&mut self) {
        self.batches = self.batches.saturating_sub(1);
    }

    /// Tells what is new, if it is time.
    pub fn look(&mut self, all: &CollectedTrace) {
        if self.told.elapsed() >= EVERY {
            self.now(all);
        }
    }

    /// Tells what is new.
    pub fn now(&mut self, all: &CollectedTrace) {
        self.told = Instant::now();
        let events = &all.events.held[self.events..];
        let ios = || all.ios.batches.iter().skip(self.batches).flat_map(TracedBatch::each);
        let mut slow: Vec<KeptIo<'_>> = ios().filter(|io| self.slow(io)).collect();
        let usual = ios().filter(|io| !self.slow(io)).step_by(SAMPLED).take(SLOW_MAX);
        let mut usual: Vec<KeptIo<'_>> = usual.collect();
        let seen = slow.len();
        if seen > SLOW_MAX {
            slow.select_nth_unstable_by_key(SLOW_MAX, slowest_first);
            slow.truncate(SLOW_MAX);
        }
        let events: Vec<&TraceEvent> = match events.len() > EVENTS_MAX {
            true => self.needed(events, &mut slow, &mut usual),
            false => events.iter().collect(),
        };
        let events = events.into_iter().map(|e| event_row(e, &self.symbols, &all.threads));
        let mut rows: Vec<LayerRow> = events.collect();
        let told = usual.into_iter().chain(slow.iter().copied());
        rows.extend(told.map(KeptIo::whole).flat_map(io_rows));
        self.before = slow.iter().map(around).collect();
        (self.events, self.batches) = (all.events.held.len(), all.ios.batches.len());
        (self.watch)(rows, (seen - slow.len()) as u64);
    }

    /// Of too many events those that I/Os need: slow ones of the last look, and of these ones as many as can be told
    /// with their events, which alone are left. First the usual ones are left out, then the less slow ones, then what
    /// those of the last look need.
    fn needed<'e>(
        &self,
        events: &'e [TraceEvent],
        slow: &mut Vec<KeptIo<'_>>,
        usual: &mut Vec<KeptIo<'_>>,
    ) -> Vec<&'e TraceEvent> {
        slow.sort_unstable_by_key(slowest_first);
        let mut before = self.before.as_slice();
        loop {
            let own = usual.iter().map(KeptIo::time);
            let own = own.chain(slow.iter().map(around));
            let mut times = NeededTimes::of(before.iter().copied().chain(own).collect());
            let needed: Vec<&TraceEvent> = times.needed(events).take(EVENTS_MAX + 1).collect();
            if needed.len() <= EVENTS_MAX {
                return needed;
            }
            if !usual.is_empty() {
                usual.truncate(usual.len() / STAYS);
            } else if slow.len() > 1 {
                slow.truncate(slow.len().div_ceil(STAYS));
            } else if !before.is_empty() {
                before = &[];
            } else {
                slow.clear();
                return Vec::new();
            }
        }
    }

    fn slow(&self, io: &KeptIo<'_>) -> bool {
        let time = io.time();
        match self.threshold_ns {
            Some(ns) => time.to.saturating_sub(time.from) > ns as i64,
            None => io.flags() & (flags::SAMPLE | flags::BESIDE) == 0,
        }
    }
}

/// By this key the slowest I/O comes first.
fn slowest_first(io: &KeptIo<'_>) -> i64 {
    -io.time().length()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use taillight_core::probe::Token;
    use taillight_rundir::layers::LayerKind;

    use super::super::forget::tests::event;
    use super::super::layout::{EarlierRounds, OperationSlot};
    use super::super::traced_io::read_slot;
    use super::*;

    const MS: i64 = 1_000_000;

    /// What is told of an event in each of the first 20,000 ms and of slow I/Os: when the events and the I/Os began,
    /// and how many I/Os more there are.
    fn told(ios: &[(i64, i64)]) -> (Vec<i64>, Vec<i64>, u64) {
        told_beside(&[], &[], ios)
    }

    /// The same beside slow I/Os of the look before and usual ones of this one.
    fn told_beside(
        before: &[(i64, i64)],
        usual: &[(i64, i64)],
        slow: &[(i64, i64)],
    ) -> (Vec<i64>, Vec<i64>, u64) {
        let mut all = CollectedTrace::new(None);
        all.events.held = (0..20_000).map(|i| event(1, i * MS, i * MS + 1000)).collect();
        let mut batch = TracedBatch::empty();
        for (ios, flags) in [(usual, flags::SAMPLE as u32), (slow, 0)] {
            for (submit, complete) in ios {
                let mut io = read_slot(&OperationSlot::default(), Token(0));
                (io.submit, io.complete, io.flags) = (*submit, *complete, flags);
                batch.push(io, &EarlierRounds::default());
            }
        }
        all.ios.push(batch);
        let (tell, told) = channel();
        let watch: TraceWatch = Box::new(move |rows, more| drop(tell.send((rows, more))));
        let mut tail = TraceTail::new(watch, Arc::default(), None);
        tail.before = before.iter().map(|(from, to)| TimeSpan::new(*from, *to)).collect();
        tail.now(&all);
        let (rows, more) = told.recv().unwrap();
        let begins = |kind: LayerKind| -> Vec<i64> {
            rows.iter().filter(|row| row.kind == kind).map(|row| row.start_ns).collect()
        };
        (begins(LayerKind::OffCpu), begins(LayerKind::Io), more)
    }

    #[test]
    fn of_too_many_events_those_are_told_that_a_slow_io_needs() {
        let (events, ios, more) = told(&[(5_000 * MS, 5_500 * MS)]);
        assert_eq!((ios, more), (vec![5_000 * MS], 0));
        assert_eq!(events, (4_900..=5_600).map(|i| i * MS).collect::<Vec<_>>());
    }

    #[test]
    fn of_slow_ios_that_need_too_many_events_the_slowest_are_told() {
        // Each a little slower than the one before, and no event that none of them needs.
        let of = |i: i64| (i * 1200 * MS, (i * 1200 + 1000 + i) * MS);
        let (events, ios, more) = told(&(0..16).map(of).collect::<Vec<_>>());
        assert_eq!((ios, more), (vec![of(15).0, of(14).0], 14));
        assert!(events.len() > 2000 && events.iter().all(|at| *at >= of(14).0 - 100 * MS));
        assert_eq!(told(&[(0, 20_000 * MS)]), (Vec::new(), Vec::new(), 1));
        let few = [(0, 6_000 * MS), (6_500 * MS, 12_600 * MS), (13_000 * MS, 19_500 * MS)];
        let (_, ios, more) = told(&few);
        assert_eq!((ios, more), (vec![13_000 * MS], 2), "of a few, too");
    }

    #[test]
    fn a_slow_io_is_told_whatever_usual_ones_and_those_before_it_need() {
        let (slow, all) = ([(5_000 * MS, 5_500 * MS)], [(0, 20_000 * MS)]);
        let alone = told(&slow);
        assert_eq!(alone.1, [5_000 * MS]);
        assert_eq!(told_beside(&[], &all, &slow), alone);
        assert_eq!(told_beside(&all, &[], &slow), alone);
        assert_eq!(told_beside(&all, &all, &[]), (Vec::new(), Vec::new(), 0));
    }
}
