//! The target's own statistics, taken once an interval, ten times a second at most.
//!
//! Called from the thread that collects intervals, never from a worker: what a store does to answer
//! may take its locks, but costs no operation a call.

use taillight_core::{Clock, MonoClock, Stamp};
use taillight_driver::Target;
use taillight_rundir::store::StoreRow;

/// Least time between two samples, ns: stores work, and take locks, to answer.
const LEAST_NS: u64 = 100_000_000;
/// From so many rows on only every second sample is taken, from twice as many on every fourth and
/// so on. No limit: beyond, rows grow with the square root of the time only.
const MANY_ROWS: usize = 1 << 21;

/// The samples of a run.
pub struct Samples {
    rows: Vec<StoreRow>,
    interval_ns: u64,
    next: Stamp,
    many: usize,
}

impl Samples {
    /// The first sample is due at `start`, then one every interval, or every 100 ms if that is
    /// longer.
    pub fn new(start: Stamp, interval_ns: u64) -> Samples {
        Samples {
            rows: Vec::new(),
            interval_ns: interval_ns.max(LEAST_NS),
            next: start,
            many: MANY_ROWS,
        }
    }

    /// Takes a sample if one is due.
    pub fn due(&mut self, target: &dyn Target) {
        let now = MonoClock.now();
        if now < self.next {
            return;
        }
        let late = now.since(self.next).max(0) as u64 / self.interval_ns;
        self.next = self.next.plus((late + 1) * self.interval_ns);
        self.take(target);
    }

    /// Takes a sample now.
    pub fn take(&mut self, target: &dyn Target) {
        let at = MonoClock.now().0;
        let rows = &mut self.rows;
        target.sample(&mut |series, value| {
            if value.is_finite() {
                rows.push(StoreRow { at_ns: at, series: series.into(), value });
            }
        });
        if self.rows.len() > self.many {
            self.many = self.many.saturating_mul(2);
            self.interval_ns = self.interval_ns.saturating_mul(2);
        }
    }

    pub fn rows(self) -> Vec<StoreRow> {
        self.rows
    }
}
