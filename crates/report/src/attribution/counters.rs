//! Counters of the workers over intervals (rung procfs): what part of the time they had no CPU.
//!
//! What it is: shares of intervals, set beside the outliers in them. What it is not: a verdict on
//! any I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use taillight_rundir::layers::{LayerKind, LayerRow};

use super::events::Events;
use super::judge::Judged;

/// What workers did in a set of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Shares {
    /// Length of all intervals of all workers, ns.
    pub time_ns: u64,
    /// On a CPU, ns.
    pub on_cpu_ns: u64,
    /// Waiting for a CPU, ns.
    pub waited_ns: u64,
    /// Waiting for block I/O, ns; absent where the kernel does not account it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blkio_ns: Option<u64>,
    /// Times a worker left the CPU by itself.
    pub voluntary: u64,
    /// Times the CPU was taken from one.
    pub involuntary: u64,
}

/// The counters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Counters {
    /// Intervals of the measure phase.
    pub all: Shares,
    /// Of them those with outliers of the same worker.
    pub slow: Shares,
    pub slow_intervals: u64,
    /// The largest share of an interval with outliers that its worker waited for a CPU, 0 to 1.
    pub worst: f64,
    /// Begin of that interval, CLOCK_MONOTONIC ns.
    pub worst_at_ns: i64,
}

impl Shares {
    fn add(&mut self, row: &LayerRow) {
        self.time_ns += length(row);
        self.on_cpu_ns += row.on_cpu_ns.unwrap_or(0);
        self.waited_ns += row.waited_ns.unwrap_or(0);
        if let Some(ns) = row.blocked_ns {
            *self.blkio_ns.get_or_insert(0) += ns;
        }
        self.voluntary += row.voluntary.unwrap_or(0);
        self.involuntary += row.involuntary.unwrap_or(0);
    }

    /// A part of the time, 0 to 1.
    pub fn of(&self, ns: u64) -> f64 {
        ns as f64 / self.time_ns.max(1) as f64
    }
}

fn length(row: &LayerRow) -> u64 {
    (row.end_ns - row.start_ns).max(0) as u64
}

/// Sums the counters up; none where there are none. `from` is the begin of the measure phase.
pub fn counters(events: &Events, judged: &[Judged], from: i64) -> Option<Counters> {
    let rows = events.other.get(&LayerKind::Task)?;
    let mut by_worker: BTreeMap<u64, Vec<&LayerRow>> = BTreeMap::new();
    let mut sums = Counters::default();
    for row in rows.iter().filter(|r| r.end_ns > from) {
        sums.all.add(row);
        let worker = row.worker.unwrap_or(u64::MAX);
        by_worker.entry(worker).or_default().push(row);
    }
    // Intervals of one worker follow each other without overlap.
    let mut slow: BTreeSet<(u64, i64)> = BTreeSet::new();
    for one in judged {
        let worker = u64::from(one.slow.worker);
        let list = by_worker.get(&worker).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|r| r.end_ns <= one.slow.submit_ns);
        let touched = list[first..].iter();
        let touched = touched.take_while(|r| r.start_ns < one.slow.complete_ns);
        slow.extend(touched.map(|r| (worker, r.start_ns)));
    }
    for (worker, row) in by_worker
        .iter()
        .flat_map(|(w, l)| l.iter().map(move |r| (w, r)))
    {
        if !slow.contains(&(*worker, row.start_ns)) {
            continue;
        }
        sums.slow.add(row);
        sums.slow_intervals += 1;
        let share = row.waited_ns.unwrap_or(0) as f64 / length(row).max(1) as f64;
        if share >= sums.worst {
            (sums.worst, sums.worst_at_ns) = (share, row.start_ns);
        }
    }
    Some(sums)
}

/// What the workers did in the intervals that a window touches.
pub fn within(events: &Events, from: i64, to: i64) -> Option<Shares> {
    let mut sums = Shares::default();
    events
        .within(LayerKind::Task, from, to)
        .for_each(|row| sums.add(row));
    (sums.time_ns > 0).then_some(sums)
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use super::super::judge::{Baseline, judge};
    use super::super::layers::Slow;
    use super::*;

    #[test]
    fn intervals_with_outliers_are_told_from_the_others() {
        let row = |start_ns: i64, waited: u64| LayerRow {
            kind: LayerKind::Task,
            start_ns,
            end_ns: start_ns + 100,
            worker: Some(0),
            on_cpu_ns: Some(10),
            waited_ns: Some(waited),
            involuntary: Some(1),
            ..LayerRow::default()
        };
        let mut events = Events::default();
        let rows = vec![row(0, 90), row(100, 0), row(200, 40), row(300, 0)];
        events.other.insert(LayerKind::Task, rows);
        let slow = Slow {
            worker: 0,
            op: OpKind::Read,
            intended_ns: 210,
            submit_ns: 210,
            complete_ns: 290,
        };
        let judged = [judge(slow, None, None, &Baseline::default())];
        let sums = counters(&events, &judged, 100).unwrap();
        assert_eq!((sums.all.time_ns, sums.all.waited_ns), (300, 40));
        assert_eq!((sums.slow.time_ns, sums.slow_intervals), (100, 1));
        assert_eq!((sums.worst, sums.worst_at_ns), (0.4, 200));
        assert_eq!(sums.slow.blkio_ns, None, "not accounted is not zero");
        assert!(counters(&Events::default(), &judged, 0).is_none());
        assert_eq!(within(&events, 210, 290).map(|s| s.waited_ns), Some(40));
    }
}
