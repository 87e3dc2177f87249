//! One thread's intervals off the CPU: from records of its switches, and how much of each was a
//! wait for a CPU.
//!
//! The log does not say when a sleeping thread was woken up. The kernel's sum of waits for a CPU
//! (schedstat) does, for all intervals between two readings together. Readings are taken often, and
//! by the worker itself after each slow I/O, so that few intervals share one. Of their waits the
//! short intervals get what such ones usually have; from the rest follows for each long one how long
//! it waited for a CPU at least and at most; what lies between stays open.

use std::collections::VecDeque;

use taillight_core::TimeSpan;
use taillight_rundir::layers::{LayerKind, LayerRow};

use super::record::SwitchRecord;
use super::schedstat::SchedstatReading;

/// One interval off the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffCpuInterval {
    pub from: i64,
    /// When it came back.
    pub to: i64,
    /// It could have gone on.
    pub preempted: bool,
    /// At its end it waited for a CPU for this long at least, ns.
    pub waited: u64,
    /// It was asleep at its begin for this long at least, ns.
    pub asleep: u64,
    /// Belongs to an I/O that is kept.
    pub kept: bool,
}

impl OffCpuInterval {
    fn length(&self) -> u64 {
        (self.to - self.from).max(0) as u64
    }

    fn row(&self, worker: u16) -> LayerRow {
        LayerRow {
            kind: LayerKind::OffCpu,
            start_ns: self.from,
            end_ns: self.to,
            worker: Some(worker.into()),
            state: Some(u64::from(!self.preempted)),
            blocked_ns: Some(self.asleep),
            waited_ns: Some(self.waited),
            ..LayerRow::default()
        }
    }
}

/// Shorter intervals are the usual ones of an I/O.
pub const LONG_NS: u64 = 250_000;
/// Fewest of them that make a usual time.
const USUAL_MIN: u64 = 100;

/// Lengths of the intervals between two readings, ns.
#[derive(Debug, Default)]
struct IntervalSums {
    taken: u64,
    /// Long ones that began asleep.
    long: u64,
    /// Short ones, and how many.
    short: u64,
    shorts: u64,
}

impl IntervalSums {
    fn add(&mut self, one: &OffCpuInterval) {
        let length = one.length();
        match one.preempted {
            true => self.taken += length,
            false if length >= LONG_NS => self.long += length,
            false => {
                self.short += length;
                self.shorts += 1;
            }
        }
    }
}

/// The intervals of one thread.
#[derive(Debug, Default)]
pub struct OffCpuLog {
    /// Left the CPU and has not come back.
    off: Option<(i64, bool)>,
    /// By time; those before `settled` have their waits.
    list: VecDeque<OffCpuInterval>,
    settled: usize,
    /// The reading that the settled ones go up to.
    last: Option<SchedstatReading>,
    /// Time asleep in short intervals where there was no long one, and how many.
    usual: (u64, u64),
    /// Records were lost since that reading.
    torn: bool,
    /// Stamp of the last record.
    pub seen: i64,
    /// Records that were lost.
    pub lost: u64,
    /// Short intervals up to here are forgotten.
    pub forgotten: i64,
    /// Nothing is known of the thread.
    pub gaps: Vec<TimeSpan>,
}

impl OffCpuLog {
    /// Watches a thread from `now` on.
    pub fn new(now: i64) -> OffCpuLog {
        OffCpuLog { seen: now, forgotten: now, ..OffCpuLog::default() }
    }

    pub fn add(&mut self, record: SwitchRecord) {
        match record {
            SwitchRecord::Out { at, preempted } => {
                self.off = Some((at, preempted));
                self.seen = at;
            }
            SwitchRecord::In { at } => {
                if let Some((from, preempted)) = self.off.take() {
                    self.list.push_back(OffCpuInterval {
                        from,
                        to: at,
                        preempted,
                        waited: if preempted { (at - from).max(0) as u64 } else { 0 },
                        asleep: 0,
                        kept: false,
                    });
                }
                self.seen = at;
            }
            SwitchRecord::Lost { at, count } => {
                self.lost += count;
                self.gaps.push(TimeSpan::new(self.seen, at));
                self.off = None;
                self.torn = true;
                self.seen = at;
            }
        }
    }

    /// Whether an interval after a sleep, of `ns` or longer, is not settled yet.
    pub fn wants_reading(&self, ns: u64) -> bool {
        let open = self.list.iter().skip(self.settled);
        open.into_iter().any(|s| !s.preempted && s.length() >= ns)
    }

    /// Divides the waits since the last reading among the intervals that ended before this one. All
    /// records up to the reading must have been added. A reading that may or may not count an interval
    /// is passed over: the next one will do.
    pub fn settle(&mut self, now: SchedstatReading) {
        let end = self.list.partition_point(|s| s.to <= now.from);
        let unclear = self.list.get(end).is_some_and(|s| s.to <= now.to);
        let overtaken = self.last.is_some_and(|last| now.from < last.to);
        if unclear || overtaken || end < self.settled {
            return;
        }
        let window = self.settled..end;
        self.settled = end;
        let torn = std::mem::take(&mut self.torn);
        let Some(last) = self.last.replace(now) else {
            // What came before the first reading cannot be told apart.
            return;
        };
        let counted = now.arrivals.saturating_sub(last.arrivals);
        if torn || counted != window.len() as u64 {
            // Whose waits these were is not known.
            return;
        }
        let mut sums = IntervalSums::default();
        let list = self.list.range(window.clone());
        list.for_each(|s| sums.add(s));
        // Waits of intervals after a preemption are known; the rest was after wake-ups.
        let waited = now.waited.saturating_sub(last.waited);
        let waited = waited.saturating_sub(sums.taken);
        if sums.long == 0 {
            self.usual.0 += sums.short.saturating_sub(waited);
            self.usual.1 += sums.shorts;
        }
        // Of the waits, what the short ones usually take is theirs.
        let theirs = match self.usual {
            (asleep, n) if n >= USUAL_MIN => sums.short.saturating_sub(asleep / n * sums.shorts),
            _ => 0,
        };
        let known = self.usual.1 >= USUAL_MIN;
        let rest = waited.saturating_sub(theirs);
        let others = sums.long + if known { 0 } else { sums.short };
        for one in self.list.range_mut(window).filter(|s| !s.preempted) {
            let length = one.length();
            if length < LONG_NS && sums.long > 0 {
                // How short ones divide does not matter beside a long one.
                continue;
            }
            let others = others.max(length) - length;
            let least = rest.saturating_sub(others).min(length);
            one.waited = least;
            one.asleep = length - rest.min(length);
        }
    }

    /// Settles what is left at the end, without a reading: nothing more is known of it.
    pub fn close(&mut self) {
        self.settled = self.list.len();
    }

    /// Marks the intervals within an I/O. Returns false when the begin of it is forgotten.
    pub fn keep(&mut self, submit: i64, complete: i64) -> bool {
        let first = self.list.partition_point(|s| s.to <= submit);
        for one in self.list.range_mut(first..) {
            if one.from >= complete {
                break;
            }
            one.kept = true;
        }
        submit >= self.forgotten
    }

    /// Hands over intervals that are kept or not shorter than `ns`, and forgets the others, until at
    /// most `room` are left. Those that wait for a reading are not waited for: a thread that is
    /// switched all the time may give none that is clear, and memory is bounded. Of their waits
    /// nothing is claimed.
    pub fn shrink(&mut self, room: usize, ns: u64, mut put: impl FnMut(LayerRow), worker: u16) {
        let excess = self.list.len().saturating_sub(room);
        self.settled = self.settled.max(excess);
        for one in self.list.drain(..excess) {
            if one.kept || one.length() >= ns {
                put(one.row(worker));
            } else {
                self.forgotten = one.to;
            }
        }
        self.settled -= excess;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn off(s: &mut OffCpuLog, from: u64, to: u64, preempted: bool) {
        let at = (from * MS) as i64;
        s.add(SwitchRecord::Out { at, preempted });
        let at = (to * MS) as i64;
        s.add(SwitchRecord::In { at });
    }

    /// Counters, right after `at` ms.
    fn reading(waited: u64, arrivals: u64, at: u64) -> SchedstatReading {
        let at = (at * MS) as i64;
        SchedstatReading { waited: waited * MS, arrivals, from: at, to: at + 10 }
    }

    fn rows(s: &mut OffCpuLog) -> Vec<(u64, u64)> {
        s.close();
        let mut rows = Vec::new();
        s.shrink(0, 0, |r| rows.push(r), 0);
        rows.iter().map(|r| (r.blocked_ns.unwrap() / MS, r.waited_ns.unwrap() / MS)).collect()
    }

    #[test]
    fn a_long_wait_for_a_cpu_is_told_from_a_long_sleep() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(100, 10, 0));
        off(&mut s, 10, 11, false);
        off(&mut s, 12, 32, false);
        // 19 of 21 ms off the CPU were waits for one: at least 18 of them in the long interval.
        s.settle(reading(119, 12, 33));
        off(&mut s, 40, 60, false);
        s.settle(reading(119, 13, 61));
        off(&mut s, 70, 75, true);
        s.settle(reading(124, 14, 76));
        assert_eq!(rows(&mut s), [(0, 0), (1, 18), (20, 0), (0, 5)]);
    }

    #[test]
    fn a_preemption_takes_its_part_of_the_waits() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        off(&mut s, 1, 9, true);
        off(&mut s, 10, 20, false);
        s.settle(reading(9, 2, 21));
        assert_eq!(rows(&mut s), [(0, 8), (9, 1)]);
    }

    #[test]
    fn short_intervals_take_what_they_usually_take() {
        let us = |from: u64, to: u64, s: &mut OffCpuLog| {
            let at = from as i64 * 1000;
            s.add(SwitchRecord::Out { at, preempted: false });
            s.add(SwitchRecord::In { at: to as i64 * 1000 });
        };
        let read = |waited: u64, arrivals: u64, at: i64| SchedstatReading {
            waited: waited * 1000,
            arrivals,
            from: at * 1000,
            to: at * 1000 + 10,
        };
        let mut s = OffCpuLog::new(0);
        s.settle(read(0, 0, 0));
        // 200 short ones of 50 us, of which 10 us are waits for a CPU.
        (0..200).for_each(|n| us(n * 100 + 10, n * 100 + 60, &mut s));
        s.settle(read(2000, 200, 20_000));
        // 50 more, and one of 4 ms that waited for all of it but 50 us.
        (200..250).for_each(|n| us(n * 100 + 10, n * 100 + 60, &mut s));
        us(25_000, 29_000, &mut s);
        s.settle(read(2000 + 500 + 3950, 251, 29_001));
        s.close();
        let mut rows = Vec::new();
        s.shrink(0, LONG_NS, |r| rows.push(r), 0);
        assert_eq!(rows.len(), 1);
        let part = |ns: Option<u64>| ns.unwrap() / 1000;
        let (asleep, waited) = (part(rows[0].blocked_ns), part(rows[0].waited_ns));
        assert_eq!((asleep, waited), (50, 3950));
    }

    #[test]
    fn a_reading_settles_only_what_ended_before_it() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        off(&mut s, 1, 11, false);
        off(&mut s, 12, 22, false);
        assert!(s.wants_reading(5 * MS) && !s.wants_reading(15 * MS));
        s.settle(reading(0, 1, 11));
        // Made while the thread came back, or older than the last one: passed over.
        let unclear = SchedstatReading { from: 20 * MS as i64, ..reading(0, 1, 23) };
        s.settle(unclear);
        s.settle(reading(0, 0, 2));
        s.settle(reading(10, 2, 23));
        assert_eq!(rows(&mut s), [(10, 0), (0, 10)]);
    }

    #[test]
    fn lost_records_leave_a_gap_and_no_claim() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        off(&mut s, 1, 11, false);
        s.add(SwitchRecord::Lost { at: 30 * MS as i64, count: 7 });
        off(&mut s, 40, 50, false);
        s.settle(reading(10, 9, 51));
        let gap = TimeSpan::new(11 * MS as i64, 30 * MS as i64);
        assert_eq!((s.lost, s.gaps.clone()), (7, vec![gap]));
        // After that all is as before.
        off(&mut s, 60, 70, false);
        s.settle(reading(20, 10, 71));
        assert_eq!(rows(&mut s), [(0, 0), (0, 0), (0, 10)]);
        // More arrivals than intervals, without a loss: nothing is claimed either.
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        off(&mut s, 1, 11, false);
        s.settle(reading(10, 2, 12));
        assert_eq!(rows(&mut s), [(0, 0)]);
        let mut s = OffCpuLog::new(0);
        s.add(SwitchRecord::In { at: 5 });
        assert_eq!(rows(&mut s), [], "nobody knows since when it was away");
    }

    #[test]
    fn intervals_that_no_reading_settles_do_not_pile_up() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        for n in 0..1000 {
            off(&mut s, 10 * n, 10 * n + 1, false);
            // Made while the thread came back: passed over.
            let unclear =
                SchedstatReading { from: (10 * n * MS) as i64, ..reading(n, n + 1, 10 * n + 2) };
            s.settle(unclear);
            s.shrink(100, 5 * MS, |_| (), 0);
            assert!(s.list.len() <= 100, "{}", s.list.len());
        }
        // The next clear reading covers some that are gone: nothing is claimed of the others.
        s.settle(reading(1000, 1000, 10_000));
        assert_eq!(rows(&mut s), [(0, 0); 100]);
        off(&mut s, 20_000, 20_010, false);
        s.settle(reading(1010, 1001, 20_011));
        assert_eq!(rows(&mut s), [(0, 10)], "after that all is as before");
    }

    #[test]
    fn only_short_intervals_of_no_kept_io_are_forgotten() {
        let mut s = OffCpuLog::new(0);
        s.settle(reading(0, 0, 0));
        off(&mut s, 0, 1, false);
        off(&mut s, 2, 3, false);
        off(&mut s, 4, 14, false);
        s.settle(reading(0, 3, 15));
        assert!(s.keep(2 * MS as i64, 3 * MS as i64));
        let mut rows = Vec::new();
        s.shrink(0, 5 * MS, |r| rows.push(r.start_ns as u64 / MS), 0);
        assert_eq!(rows, [2, 4]);
        assert_eq!(s.forgotten as u64, MS);
        assert!(!s.keep(0, 5) && s.keep(2 * MS as i64, 3 * MS as i64));
    }
}
