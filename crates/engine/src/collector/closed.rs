//! Closed intervals: exact counts, percentiles from histograms, and histograms as (value, count) pairs for
//! observers; the totals of a run ([`Collected`]); and the log of all intervals on its way into the run directory.

use hdrhistogram::Histogram;
use taillight_core::plan::Plan;
use taillight_core::{LatencyKind, LatencyMap, OpKind, Result, Stamp, Status};
use taillight_rundir::histlog::{HistEntry, HistTag, HistogramWriter};
use taillight_rundir::intervals::{IntervalRow, interval_writer};
use taillight_rundir::manifest::ClockInfo;
use taillight_rundir::{RunDir, TableWriter};

use crate::recorder::{InFlightAtEnd, NO_OPS, OpStats, Ops};

/// Highest value and count of each histogram bucket that is not empty, ascending.
pub type Sparse = Vec<(u64, u64)>;

/// One workload's kind of operation in one interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClosedOp {
    pub row: IntervalRow,
    /// Sums of latencies of successes, ns.
    pub sums_ns: LatencyMap<u64>,
    /// Failures by status.
    pub errors: Vec<(Status, u64)>,
    /// `None` of load that is not measured, and where no operation of the kind has completed.
    pub latencies: Option<LatencyMap<Sparse>>,
}

/// One closed interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClosedInterval {
    /// Measure phase or warm-up.
    pub measured: bool,
    /// Number within the phase.
    pub index: u32,
    pub start: Stamp,
    /// Length, ns.
    pub length_ns: u64,
    /// Per workload and kind of operation.
    pub ops: Vec<ClosedOp>,
    /// Operations that were due and not sent at its end, over measured open-loop workloads; `None` without such.
    pub backlog: Option<u64>,
    /// Mean operations in flight per workload.
    pub depth_mean: Vec<f64>,
    /// Operations in flight at its end, per workload.
    pub in_flight: Vec<InFlightAtEnd>,
}

/// Which interval, and when it was.
#[derive(Debug, Clone, Copy)]
pub struct IntervalSpan {
    /// Measure phase or warm-up.
    pub measured: bool,
    /// Number within the phase.
    pub index: u32,
    pub start: Stamp,
    pub length_ns: u64,
}

/// What all workers of a workload did in an interval.
pub struct WorkloadPart<'a> {
    pub ops: &'a Ops,
    /// Integral of operations in flight over time, ns.
    pub depth_ns: i64,
    /// Operations in flight at most.
    pub slots: u64,
    pub backlog: u64,
}

fn sparse(h: &Histogram<u64>) -> Sparse {
    h.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
}

impl ClosedInterval {
    /// Closes an interval from the merged parts of each workload.
    pub fn from_parts<'a>(
        span: IntervalSpan,
        workloads: impl Iterator<Item = WorkloadPart<'a>>,
        kinds: &[Vec<OpKind>],
        open_loop: &[bool],
        load: &[bool],
    ) -> ClosedInterval {
        let IntervalSpan { measured, index, start, length_ns } = span;
        let phase = if measured { "measure" } else { "warmup" };
        let (mut ops, mut depths, mut backlogs) = (Vec::new(), Vec::new(), None);
        for (w, part) in workloads.enumerate() {
            // A submit that waits for a full session has its wait in the interval in which it ended.
            let depth = part.depth_ns as f64 / length_ns.max(1) as f64;
            let depth = depth.clamp(0.0, part.slots as f64);
            depths.push(depth);
            let backlog = open_loop[w].then_some(part.backlog);
            backlogs = backlog.map(|b| b + backlogs.unwrap_or(0)).or(backlogs);
            for kind in OpKind::ALL {
                let op = part.ops[kind as usize].as_deref();
                if op.is_none() && !kinds[w].contains(&kind) {
                    continue;
                }
                let base = IntervalRow {
                    start_ns: start.0,
                    length_ns,
                    phase: phase.into(),
                    workload: w as u16,
                    op: kind,
                    backlog,
                    depth_mean: depth,
                    ..IntervalRow::default()
                };
                ops.push(close_op(base, op, load[w]));
            }
        }
        ClosedInterval {
            measured,
            index,
            start,
            length_ns,
            ops,
            backlog: backlogs,
            depth_mean: depths,
            in_flight: Vec::new(),
        }
    }
}

/// Load that is not measured has counts, and no latency anywhere.
fn close_op(mut row: IntervalRow, part: Option<&OpStats>, load: bool) -> ClosedOp {
    let measured = part.filter(|_| !load);
    let latencies = measured.map(|p| {
        let mut all = LatencyMap::new(sparse(&p.latencies.service));
        let kinds = p.latencies.iter().skip(1);
        kinds.for_each(|(kind, h)| all.insert(kind, sparse(h)));
        all
    });
    if let Some(p) = part {
        row.ops = p.ops + p.failed();
        row.bytes = p.bytes;
        row.records = p.records();
        row.errors = p.failed();
    }
    let sums_ns = measured.map(|p| p.sums_ns.clone()).unwrap_or_default();
    let errors = part.map(|p| p.errors.clone()).unwrap_or_default();
    if let Some(p) = measured {
        fill_latency(&mut row, p);
    }
    ClosedOp { row, sums_ns, errors, latencies }
}

fn fill_latency(row: &mut IntervalRow, p: &OpStats) {
    if p.ops == 0 {
        return;
    }
    // A bucket's upper edge may lie above the exact maximum.
    let at = |q: f64| Some(p.latencies.service.value_at_quantile(q).min(p.max_ns));
    row.min_ns = Some(p.min_ns);
    row.mean_ns = Some(p.sums_ns.service as f64 / p.ops as f64);
    row.response_sum_ns = p.sums_ns.get(LatencyKind::Response).copied();
    row.end_to_end_sum_ns = p.sums_ns.get(LatencyKind::EndToEnd).copied();
    row.max_ns = Some(p.max_ns);
    (row.p10_ns, row.p25_ns, row.p50_ns) = (at(0.1), at(0.25), at(0.5));
    (row.p75_ns, row.p90_ns, row.p95_ns) = (at(0.75), at(0.9), at(0.95));
    (row.p99_ns, row.p999_ns, row.p9999_ns) = (at(0.99), at(0.999), at(0.9999));
    row.response_p99_ns = {
        let responses = p.latencies.get(LatencyKind::Response);
        responses.map(|r| r.value_at_quantile(0.99))
    };
    let listed = taillight_stats::slc::SBK_21_LIST
        .map(|pct| p.latencies.service.value_at_quantile(pct.as_f64() / 100.0).min(p.max_ns));
    let slc = taillight_stats::Slc::from_values(&listed);
    (row.slc1, row.slc2) = (slc.slc1, slc.slc2);
}

/// What totals add: all kinds but parts of other operations and waits ([`OpKind::is_part`]).
fn whole(ops: &Ops) -> impl Iterator<Item = &OpStats> {
    let kinds = OpKind::ALL.into_iter().zip(ops);
    kinds.filter(|(kind, _)| !kind.is_part()).filter_map(|(_, op)| op.as_deref())
}

/// What a workload did of one kind of operation: successes (`ops`) with their records and bytes, and failures.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadCount {
    pub ops: u64,
    pub records: u64,
    pub bytes: u64,
    pub failed: u64,
}

impl LoadCount {
    fn add(&mut self, part: &OpStats) {
        self.ops += part.ops;
        self.records += part.records().unwrap_or(part.ops);
        self.bytes += part.bytes;
        self.failed += part.failed();
    }
}

/// Counts of a whole run, for the run directory and the outcome.
pub struct Collected {
    /// Where closed intervals go; nowhere in a calibration.
    pub log: Option<IntervalLog>,
    /// Measured counters per workload and kind of operation.
    pub totals: Vec<Ops>,
    /// Warm-up operations, all together.
    pub warmup_ops: u64,
    /// Warm-up operations that completed in the measure phase.
    pub stragglers: u64,
    /// For so long at most one of them that is not load alone went on after the warm-up, ns.
    pub carried_over_ns: u64,
    /// What each workload did of each kind, warm-up included.
    pub whole: Vec<[LoadCount; OpKind::ALL.len()]>,
    /// Workloads that are load only.
    pub(super) load: Vec<bool>,
}

impl Collected {
    pub(super) fn new(plan: &Plan, log: Option<IntervalLog>) -> Collected {
        Collected {
            log,
            totals: plan.workloads.iter().map(|_| NO_OPS).collect(),
            warmup_ops: 0,
            stragglers: 0,
            carried_over_ns: 0,
            whole: vec![[LoadCount::default(); OpKind::ALL.len()]; plan.workloads.len()],
            load: plan.workloads.iter().map(|w| !w.measured).collect(),
        }
    }

    pub(super) fn add_totals<'a>(&mut self, measured: bool, parts: impl Iterator<Item = &'a Ops>) {
        for ((total, part), whole) in self.totals.iter_mut().zip(parts).zip(&mut self.whole) {
            for ((mine, theirs), kind) in total.iter_mut().zip(part.iter()).zip(OpKind::ALL) {
                let Some(theirs) = theirs else { continue };
                whole[kind as usize].add(theirs);
                if !measured {
                    let ops = if kind.is_part() { 0 } else { theirs.ops + theirs.failed() };
                    self.warmup_ops += ops;
                    continue;
                }
                match mine {
                    Some(mine) => mine.merge(theirs),
                    None => *mine = Some(theirs.clone()),
                }
            }
        }
    }

    /// Totals of the workloads that are measured.
    pub fn counted(&self) -> impl Iterator<Item = &Ops> {
        let all = self.totals.iter().zip(&self.load);
        all.filter(|(_, load)| !**load).map(|(ops, _)| ops)
    }

    /// Measured operations, failures included; load is none of them.
    pub fn measured_ops(&self) -> u64 {
        self.counted().flat_map(whole).map(|op| op.ops + op.failed()).sum()
    }

    /// Failures of the measure phase by status, those of load that is not measured included.
    pub fn errors(&self) -> Vec<(Status, u64)> {
        let mut all: Vec<(Status, u64)> = Vec::new();
        for (status, n) in self.totals.iter().flat_map(whole).flat_map(|op| &op.errors) {
            match all.iter_mut().find(|(s, _)| s == status) {
                Some((_, count)) => *count += n,
                None => all.push((*status, *n)),
            }
        }
        all
    }

    /// The sum of [`OpStats::beyond`] over the measure phase.
    pub fn beyond(&self) -> u64 {
        self.totals.iter().flat_map(whole).map(|op| op.beyond).sum()
    }
}

/// Closed intervals on their way into the run directory: what is held of them does not grow.
pub struct IntervalLog {
    rows: TableWriter<IntervalRow>,
    histograms: HistogramWriter,
    names: Vec<String>,
}

impl IntervalLog {
    /// The log in run directory `dir`, whose manifest has `clock`.
    pub fn new(plan: &Plan, dir: &RunDir, clock: &ClockInfo) -> IntervalLog {
        IntervalLog {
            rows: interval_writer(dir),
            histograms: HistogramWriter::new(dir, clock),
            names: plan.workloads.iter().map(|w| w.name.clone()).collect(),
        }
    }

    /// Adds an interval; `parts` are the merged counters of each workload.
    pub(super) fn put<'a>(&mut self, closed: &ClosedInterval, parts: impl Fn(usize) -> &'a Ops) {
        for op in &closed.ops {
            let (row, workload) = (&op.row, usize::from(op.row.workload));
            self.rows.put(row.clone());
            let part = parts(workload)[row.op as usize].as_deref();
            let Some(part) = part.filter(|_| op.latencies.is_some()) else { continue };
            for (kind, histogram) in part.latencies.iter().filter(|(_, h)| !h.is_empty()) {
                let (phase, workload) = (row.phase.clone(), self.names[workload].clone());
                let tag = HistTag { phase, workload, op: row.op, kind };
                let (start_ns, length_ns) = (row.start_ns, row.length_ns);
                self.histograms.put(&HistEntry { start_ns, length_ns, tag, histogram });
            }
        }
    }

    /// Writes what is left. Errors: `Unavailable` when any of it could not be written.
    pub fn commit(self) -> Result<()> {
        self.rows.commit()?;
        self.histograms.commit()
    }
}
