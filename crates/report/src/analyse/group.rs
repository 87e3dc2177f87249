//! One workload's I/Os of one kind: counters while reading, distributions afterwards.

use std::collections::BTreeMap;

use taillight_core::{LatencyKind, LatencyMap, OpKind};
use taillight_rundir::ios::Row;
use taillight_rundir::scale::FirstSubmit;
use taillight_rundir::summary::DrainTotals;
use taillight_stats::{ExactCounter, GridFiller, TimeWindow, TopK};

use super::dists::{LatencyDists, LatencySample};
use super::slowest::{SlowestIos, SlowestKeeper};

/// Outliers kept per group.
pub const OUTLIERS: usize = taillight_rundir::summary::OUTLIERS_MAX;

/// Counts the rows of one group as they stream by.
pub struct IoGroupCounter {
    latencies: LatencyMap<KindCounter>,
    outliers: TopK<Row>,
    slowest: SlowestKeeper,
    tally: IoTally,
    window: TimeWindow,
    /// End of the measure phase, CLOCK_MONOTONIC ns; the last of all times where it is not known.
    end_ns: i64,
    /// The column of the last I/O, and from when to when it reaches: the next is most often there.
    column: (std::ops::Range<i64>, usize),
}

/// One kind of latency while rows stream by.
struct KindCounter {
    exact: ExactCounter,
    grid: GridFiller,
}

impl KindCounter {
    fn new(window: TimeWindow) -> Self {
        KindCounter { exact: ExactCounter::new(), grid: GridFiller::new(window) }
    }
}

/// Plain counts of a group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoTally {
    /// I/Os, failed ones included.
    pub count: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Records that successes covered: one each, or as many as a batch or scan had.
    pub records: u64,
    /// Failed I/Os by status: how many, and the submit stamp of the first.
    pub errors: BTreeMap<i32, (u64, Option<i64>)>,
    /// Sum of service times of all I/Os (from intervals: of successes), for the mean depth, ns.
    pub busy_ns: u128,
    /// The first submit, CLOCK_MONOTONIC ns; none where I/Os were not kept.
    pub first_ns: Option<i64>,
    /// When the I/O of `first_ns` was due; none where it had no due time.
    pub first_due_ns: Option<i64>,
    /// The last completion of a success (from intervals: the end of the last one), CLOCK_MONOTONIC ns.
    pub last_ns: i64,
    /// I/Os that completed after the end of the measure phase.
    pub drained: DrainTotals,
    /// How late I/Os with a due time were sent.
    pub lateness: Lateness,
}

/// I/Os that were due at a time, against when they were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Lateness {
    /// I/Os, failed ones included.
    pub count: u64,
    /// The latest due time and the latest submit, CLOCK_MONOTONIC ns.
    pub last_due_ns: i64,
    pub last_sent_ns: i64,
    /// From due to sent, of all together, ns.
    pub wait_ns: u128,
    /// The longest wait, ns.
    pub longest_ns: u64,
}

impl Lateness {
    /// Adds another's.
    pub fn add(&mut self, other: &Lateness) {
        self.count += other.count;
        self.last_due_ns = self.last_due_ns.max(other.last_due_ns);
        self.last_sent_ns = self.last_sent_ns.max(other.last_sent_ns);
        self.wait_ns += other.wait_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

impl IoTally {
    pub fn failed(&self) -> u64 {
        self.errors.values().map(|(n, _)| n).sum()
    }
    /// Takes a submit for the first one if none was earlier.
    #[inline]
    fn note_first(&mut self, submit_ns: i64, due_ns: Option<i64>) {
        if self.first_ns.is_none_or(|first| submit_ns < first) {
            (self.first_ns, self.first_due_ns) = (Some(submit_ns), due_ns);
        }
    }
    /// The first submit, and when it was due; none where I/Os were not kept.
    fn first(&self) -> Option<FirstSubmit> {
        self.first_ns.map(|at_ns| FirstSubmit { at_ns, due_ns: self.first_due_ns })
    }
    /// Adds another group's counts.
    pub fn add(&mut self, other: &IoTally) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.records += other.records;
        self.busy_ns += other.busy_ns;
        if let Some(ns) = other.first_ns {
            self.note_first(ns, other.first_due_ns);
        }
        self.last_ns = self.last_ns.max(other.last_ns);
        self.lateness.add(&other.lateness);
        self.drained.count += other.drained.count;
        self.drained.bytes += other.drained.bytes;
        self.drained.errors += other.drained.errors;
        self.drained.duration_ns = self.drained.duration_ns.max(other.drained.duration_ns);
        for (status, (n, first)) in &other.errors {
            let mine = self.errors.entry(*status).or_insert((0, None));
            mine.0 += n;
            mine.1 = match (mine.1, *first) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
}

impl IoGroupCounter {
    pub fn new(window: TimeWindow, end_ns: i64) -> Self {
        IoGroupCounter {
            latencies: LatencyMap::new(KindCounter::new(window)),
            outliers: TopK::new(OUTLIERS),
            slowest: SlowestKeeper::new(super::slowest::KEPT),
            tally: IoTally::default(),
            window,
            end_ns,
            column: (0..0, 0),
        }
    }

    /// Counts one row; without `exact` its latency goes only to the outliers and the slowest, which are bounded.
    #[inline]
    pub fn push(&mut self, row: &Row, exact: bool) {
        let service = row.service_ns();
        self.tally.count += 1;
        self.tally.note_first(row.submit.0, row.intended.map(|at| at.0));
        self.tally.busy_ns += u128::from(service);
        if row.complete.0 > self.end_ns {
            self.drain(row);
        }
        if let Some(due) = row.intended {
            let wait_ns = row.submit.0.saturating_sub(due.0).max(0) as u64;
            self.tally.lateness.add(&Lateness {
                count: 1,
                last_due_ns: due.0,
                last_sent_ns: row.submit.0,
                wait_ns: wait_ns.into(),
                longest_ns: wait_ns,
            });
        }
        if !row.status.is_ok() {
            let entry = self.tally.errors.entry(row.status.0).or_insert((0, None));
            entry.0 += 1;
            entry.1 = Some(entry.1.map_or(row.submit.0, |first| first.min(row.submit.0)));
            return;
        }
        self.tally.bytes += row.moved.unwrap_or(row.size);
        self.tally.records += u64::from(row.count.unwrap_or(1));
        self.tally.last_ns = self.tally.last_ns.max(row.complete.0);
        let main = row.response_ns();
        if exact {
            self.count_exactly(row);
        }
        if self.outliers.floor().is_none_or(|floor| main >= floor) {
            self.outliers.push(main, row.submit.0 as u64, *row);
        }
        self.slowest.push(main, row.intended.unwrap_or(row.submit).0, row.complete.0);
    }

    #[cold]
    fn drain(&mut self, row: &Row) {
        let drained = &mut self.tally.drained;
        drained.count += 1;
        match row.status.is_ok() {
            true => drained.bytes += row.moved.unwrap_or(row.size),
            false => drained.errors += 1,
        }
        let after = row.complete.0.saturating_sub(self.end_ns).max(0) as u64;
        drained.duration_ns = drained.duration_ns.max(after);
    }

    #[inline]
    fn count_exactly(&mut self, row: &Row) {
        let column = self.column(row.complete.0);
        LatencyKind::each_of(row, |kind, ns| self.count_kind(kind, column, ns));
    }

    #[inline(never)]
    fn count_kind(&mut self, kind: LatencyKind, column: usize, ns: u64) {
        let window = self.window;
        let counter = self.latencies.get_or_insert_with(kind, || KindCounter::new(window));
        counter.exact.push(ns);
        counter.grid.push(column, ns);
    }

    /// The column of a stamp in all grids.
    #[inline]
    fn column(&mut self, at_ns: i64) -> usize {
        if !self.column.0.contains(&at_ns) {
            let column = self.window.column(at_ns);
            let width = self.window.column_ns.min(i64::MAX as u64) as i64;
            let from = width.saturating_mul(column as i64).saturating_add(self.window.start_ns);
            self.column = (from..from.saturating_add(width), column);
        }
        self.column.1
    }

    /// Gives up exact counting and frees its memory.
    pub fn forget(&mut self) {
        self.latencies = LatencyMap::new(KindCounter::new(self.window));
    }

    /// What the counters take, bytes.
    pub fn memory(&self) -> usize {
        let each = self.latencies.iter();
        each.map(|(_, c)| c.exact.memory_bytes() + c.grid.memory_bytes()).sum()
    }

    pub fn finish(self, workload: u16, op: OpKind) -> IoGroup {
        IoGroup {
            workload,
            op,
            tally: self.tally,
            latencies: self
                .latencies
                .map(|_, c| LatencySample::new(c.exact.finish(), c.grid.finish())),
            outliers: self.outliers.into_sorted().into_iter().map(|r| (r.value, r.item)).collect(),
            slowest: self.slowest.finish(self.window.span_ns()),
        }
    }
}

/// One workload's I/Os of one kind.
#[derive(Debug, Clone)]
pub struct IoGroup {
    /// Index of the workload in the plan.
    pub workload: u16,
    pub op: OpKind,
    pub tally: IoTally,
    pub latencies: LatencyDists,
    /// The slowest successes, slowest first: response time (service time without a schedule) in ns, and row.
    pub outliers: Vec<(u64, Row)>,
    /// More of the slowest, with latency and stamps only.
    pub slowest: SlowestIos,
}

impl IoGroup {
    /// The first submit of all groups; none where I/Os were not kept.
    pub fn first(groups: &[IoGroup]) -> Option<FirstSubmit> {
        let firsts = groups.iter().filter_map(|group| group.tally.first());
        firsts.min_by_key(|first| first.at_ns)
    }

    /// The outliers and how many were kept or failed; latencies and sums that would stand for all I/Os are dropped.
    pub fn without_sample(self) -> IoGroup {
        IoGroup {
            latencies: LatencyDists::default(),
            tally: IoTally { busy_ns: 0, bytes: 0, records: 0, ..self.tally },
            ..self
        }
    }
}
