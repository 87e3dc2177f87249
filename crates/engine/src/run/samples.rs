//! The target's own statistics, taken once an interval, ten times a second at most, and before the load, just before
//! the measure phase and at the end.
//!
//! Called from the thread that collects intervals, never from a worker: what a store does to answer
//! may take its locks, but costs no operation a call.

use std::time::Duration;

use taillight_core::{Clock, MonoClock, Stamp};
use taillight_driver::Target;
use taillight_rundir::TableWriter;
use taillight_rundir::store::StoreRow;

use crate::recorder::Timeline;

/// Least time between two samples, ns: stores work, and take locks, to answer.
const LEAST_NS: u64 = 100_000_000;
/// From so many rows on only every second sample is taken, from twice as many on every fourth and
/// so on. No limit: beyond, rows grow with the square root of the time only.
const MANY_ROWS: usize = 1 << 21;

/// The sample that the measure phase counts from is taken so long before it, ns, when a warm-up goes
/// before: what is done until then is counted with it, rather than left out.
const AHEAD_NS: u64 = 1_000_000;

/// The samples of a run.
pub struct Samples {
    out: Option<TableWriter<StoreRow>>,
    rows: usize,
    interval_ns: u64,
    next: Stamp,
    /// Start of the measure phase, until its sample is taken.
    measure: Option<Stamp>,
    many: usize,
}

impl Samples {
    /// Takes the first sample. Before any operation, so that counters begin with the first one.
    pub fn first(target: &dyn Target, out: Option<TableWriter<StoreRow>>) -> Samples {
        let mut samples = Samples {
            out,
            rows: 0,
            interval_ns: LEAST_NS,
            next: Stamp::NEVER,
            measure: None,
            many: MANY_ROWS,
        };
        samples.take(target);
        samples
    }

    /// The load begins: from now on a sample is due every interval, or every 100 ms if that is longer,
    /// and one just before the measure phase.
    pub fn begin(&mut self, timeline: &Timeline) {
        self.interval_ns = timeline.interval_ns.max(LEAST_NS);
        self.measure = (timeline.measure > timeline.start).then_some(timeline.measure);
        self.next = self.ahead(timeline.start.plus(self.interval_ns));
    }

    /// `next`, or earlier where the sample of the measure phase comes before it.
    fn ahead(&self, next: Stamp) -> Stamp {
        self.measure.map_or(next, |at| next.min(Stamp(at.0 - AHEAD_NS as i64)))
    }

    /// How long until the next sample is due, `most` at most.
    pub fn pause(&self, most: Duration) -> Duration {
        most.min(Duration::from_nanos(self.next.since(MonoClock.now()).max(0) as u64))
    }

    /// Takes a sample if one is due.
    pub fn due(&mut self, target: &dyn Target) {
        let now = MonoClock.now();
        if now < self.next {
            return;
        }
        let ahead = |at: &Stamp| self.next.plus(AHEAD_NS) >= *at;
        // Those that follow the one before the measure phase count from its start.
        let from = match self.measure.filter(ahead) {
            Some(measure) => {
                self.measure = None;
                measure
            }
            None => self.next,
        };
        let late = now.since(from).max(0) as u64 / self.interval_ns;
        self.next = self.ahead(from.plus((late + 1) * self.interval_ns));
        self.take(target);
    }

    /// Takes a sample now.
    pub fn take(&mut self, target: &dyn Target) {
        let at = MonoClock.now().0;
        let Some(out) = &mut self.out else { return };
        let rows = &mut self.rows;
        target.sample(&mut |series, value| {
            if value.is_finite() {
                *rows += 1;
                out.put(StoreRow { at_ns: at, series: series.into(), value });
            }
        });
        if self.rows > self.many {
            self.many = self.many.saturating_mul(2);
            self.interval_ns = self.interval_ns.saturating_mul(2);
        }
    }

    /// The file of all samples, if the target has any.
    pub fn into_writer(self) -> Option<TableWriter<StoreRow>> {
        self.out.filter(|_| self.rows > 0)
    }
}
