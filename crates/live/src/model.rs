//! The live model: totals, lines over time and the state of a run that goes on, folded once for all views, which share
//! it behind the lock of `feed::LiveState`. Totals and lines are of the measured intervals that the collector closed.
//! Totals are "so far", their latencies from histograms with an error of 0.1 %; the report, when the run is over, reads
//! every I/O that was captured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use taillight_core::percentile::Percentile;
use taillight_core::plan::Ceiling;
use taillight_core::{Clock, LatencyKind, LatencyMap, MonoClock, OpKind, Stamp};
use taillight_engine::IntervalView;
use taillight_engine::collector::{ClosedInterval, ClosedOp};
use taillight_engine::recorder::new_histogram;
use taillight_rundir::host::HostRow;
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::summary::Cause;
use taillight_stats::needed_one_sided;

use crate::feed::{LiveEnd, LiveEvent, RunFacts};
use crate::heat::GrowingHeat;

/// Intervals kept for lines over time; the heat map has all of the run.
pub const KEPT: usize = 3_600;

/// Everything measured so far of one kind of operation of one workload.
#[derive(Debug, Clone)]
pub struct OpSoFar {
    pub workload: u16,
    pub op: OpKind,
    /// Successes.
    pub ops: u64,
    pub bytes: u64,
    /// Failures by status.
    pub errors: BTreeMap<i32, u64>,
    /// Longest service time, ns.
    pub max_ns: u64,
    /// None for load that is not measured, and before the first completion.
    pub latencies: Option<LatencyMap<Histogram<u64>>>,
    pub sums_ns: LatencyMap<u64>,
    pub heat: GrowingHeat,
}

impl OpSoFar {
    /// The latency that counts: response time with a schedule, else service time.
    pub fn main(&self) -> Option<&Histogram<u64>> {
        self.latencies.as_ref().map(LatencyMap::main)
    }

    /// Latencies of a kind that are too large for its histogram `held`. These are the successes that `held` lacks: each
    /// success has a service time, and with a schedule a response time. Of other kinds the number is not known, and 0.
    pub fn beyond(&self, kind: LatencyKind, held: &Histogram<u64>) -> u64 {
        match kind {
            LatencyKind::Service | LatencyKind::Response => self.ops.saturating_sub(held.len()),
            _ => 0,
        }
    }

    /// Latencies of a kind that has the histogram `held`, with those that are too large for it.
    pub fn count(&self, kind: LatencyKind, held: &Histogram<u64>) -> u64 {
        held.len() + self.beyond(kind, held)
    }
}

/// What is known of the machine and the run as of the last interval.
#[derive(Debug, Default)]
pub struct LiveModel {
    pub facts: Option<RunFacts>,
    /// Where the run is: `prepare`; a step of `run.before`; `warmup` or `measure`; `overtime`: the measured time is
    /// over, and workers still send what was due or wait for I/Os; long work in words, like `laying out`; `ended`.
    pub phase: String,
    /// Per workload and operation, in the order they were first seen.
    pub ops: Vec<OpSoFar>,
    /// Measured intervals, up to twice `KEPT`; [`LiveModel::kept`] has the last `KEPT`.
    pub intervals: Vec<Arc<ClosedInterval>>,
    /// The interval shown last, of the warm-up, too. A provisional one lacks the share of a worker that is stuck.
    pub last: Option<IntervalView>,
    /// A worker has been stuck inside an I/O since this time or longer; none where no worker is.
    pub stalled: Option<Stamp>,
    /// The last sample of the machine.
    pub host: Vec<HostRow>,
    /// The layers that held the slow I/Os so far, of a traced run.
    pub slow: Vec<Cause>,
    /// Part and whole of the long work that goes on.
    pub work: Option<(u64, u64)>,
    pub end: Option<LiveEnd>,
    /// Operations due by the end of the last measured interval, per workload: completed, in flight or in the backlog
    /// (due and not sent). Open loop only.
    pub due: BTreeMap<u16, u64>,
    /// Operations that became due a second, in the last measured interval; open loop only.
    pub offered_per_s: Option<f64>,
    /// Grows with every event: views see whether there is anything new.
    pub version: u64,
    start: Option<Stamp>,
}

impl LiveModel {
    /// Takes an event up.
    pub(crate) fn take(&mut self, event: LiveEvent) {
        let version = self.version + 1;
        match event {
            LiveEvent::Begin(facts) => {
                let phase = "prepare".to_owned();
                *self = LiveModel { facts: Some(*facts), phase, ..LiveModel::default() };
            }
            LiveEvent::Phase(name) => (self.phase, self.work) = (name, None),
            LiveEvent::Interval(view) => self.interval(*view),
            LiveEvent::Host(sample) => self.host = sample,
            LiveEvent::Slow(layers) => self.slow = layers,
            LiveEvent::Overtime => self.phase = "overtime".to_owned(),
            LiveEvent::Stalled(since) => self.stalled = Some(since),
            LiveEvent::Work(what, done, total) => {
                (self.phase, self.work, self.stalled) = (what, Some((done, total)), None);
            }
            LiveEvent::End(end) => {
                (self.phase, self.work, self.stalled) = ("ended".to_owned(), None, None);
                self.end = Some(*end);
            }
        }
        self.version = version;
    }

    fn interval(&mut self, view: IntervalView) {
        if !view.provisional {
            self.stalled = None;
            if view.closed.measured {
                self.fold(&view.closed);
            }
        }
        self.last = Some(view);
    }

    fn fold(&mut self, closed: &Arc<ClosedInterval>) {
        let start = *self.start.get_or_insert(closed.start);
        let at_ns = closed.start.since(start).max(0) as u64;
        for op in &closed.ops {
            self.total(op, closed.length_ns).add(op, at_ns);
        }
        let before: u64 = self.due.values().sum();
        for (workload, in_flight) in (0..).zip(&closed.in_flight) {
            let rows = closed.ops.iter().map(|op| &op.row).filter(|r| r.workload == workload);
            let Some(backlog) = rows.filter_map(|r| r.backlog).next() else { continue };
            let now = self.done(workload) + backlog + u64::from(in_flight.count);
            let due = self.due.entry(workload).or_default();
            // The backlog lacks that of a worker of which nothing was heard: what was due before stays due.
            *due = now.max(*due);
        }
        let more = self.due.values().sum::<u64>() - before;
        let seconds = closed.length_ns.max(1) as f64 / 1e9;
        self.offered_per_s = (!self.due.is_empty()).then_some(more as f64 / seconds);
        if self.intervals.len() >= 2 * KEPT {
            self.intervals.drain(..KEPT);
        }
        self.intervals.push(closed.clone());
    }

    fn done(&self, workload: u16) -> u64 {
        let ops = self.ops.iter().filter(|o| o.workload == workload && !o.op.is_part());
        ops.map(|o| o.ops + o.errors.values().sum::<u64>()).sum()
    }

    fn total(&mut self, op: &ClosedOp, length_ns: u64) -> &mut OpSoFar {
        let (workload, kind) = (op.row.workload, op.row.op);
        let place = self.ops.iter().position(|o| (o.workload, o.op) == (workload, kind));
        let place = place.unwrap_or_else(|| {
            self.ops.push(OpSoFar {
                workload,
                op: kind,
                ops: 0,
                bytes: 0,
                errors: BTreeMap::new(),
                max_ns: 0,
                latencies: None,
                sums_ns: LatencyMap::default(),
                heat: GrowingHeat::new(length_ns),
            });
            self.ops.len() - 1
        });
        &mut self.ops[place]
    }

    /// Intervals for lines over time.
    pub fn kept(&self) -> &[Arc<ClosedInterval>] {
        &self.intervals[self.intervals.len().saturating_sub(KEPT)..]
    }

    /// The start of the measure phase, once an interval of it is over.
    pub fn start(&self) -> Option<Stamp> {
        self.start
    }

    /// What a workload is called in labels.
    pub fn workload(&self, workload: u16) -> String {
        let plan = self.facts.as_ref().and_then(|f| f.plan.workloads.get(usize::from(workload)));
        plan.map_or_else(|| workload.to_string(), |w| w.name.clone())
    }

    /// What an operation is called: with its workload where there are several.
    pub fn op_name(&self, workload: u16, op: OpKind) -> String {
        match self.facts.as_ref().is_some_and(|f| f.plan.workloads.len() > 1) {
            true => format!("{} {}", self.workload(workload), op.name()),
            false => op.name().to_owned(),
        }
    }

    /// The operations that are shown: without the parts of a read-modify-write.
    pub fn whole_ops(&self) -> impl Iterator<Item = &OpSoFar> {
        self.ops.iter().filter(|o| !o.op.is_part())
    }

    /// Age of the oldest I/O in flight, ns. While a worker is stuck: its age now, at least; else its age at the end of
    /// the last interval. None before the first interval, without load, and where I/Os in flight are not counted.
    pub fn oldest_ns(&self) -> Option<u64> {
        if self.end.is_some() || self.work.is_some() {
            return None;
        }
        let stalled = self.stalled.map(|since| MonoClock.now().since(since).max(0) as u64);
        let last = self.last.as_ref().filter(|view| !view.provisional);
        let closed = last.map(|view| view.closed.in_flight.iter().map(|f| f.oldest_ns).max());
        stalled.or(closed.flatten())
    }

    /// Age of an I/O for which everything waits, ns: a worker is stuck in it, or it has been in flight
    /// for all of the last interval, in which nothing completed.
    pub fn stall_ns(&self) -> Option<u64> {
        let nothing = |view: &IntervalView| {
            let oldest = self.oldest_ns().is_some_and(|ns| ns >= view.closed.length_ns);
            oldest && view.rows().all(|row| row.ops == 0)
        };
        let stalled = self.stalled.is_some() || self.last.as_ref().is_some_and(nothing);
        self.oldest_ns().filter(|_| stalled)
    }

    /// How each ceiling stands so far.
    pub fn ceilings(&self) -> Vec<CeilingSoFar> {
        let ceilings = self.facts.iter().flat_map(|f| &f.plan.qos.ceilings);
        ceilings.map(|ceiling| self.ceiling(ceiling)).collect()
    }

    /// The ceilings that an operation is to keep.
    pub fn ceilings_of(&self, op: &OpSoFar) -> Vec<&Ceiling> {
        let ceilings = self.facts.iter().flat_map(|f| &f.plan.qos.ceilings);
        ceilings.filter(|ceiling| self.concerns(ceiling, op)).collect()
    }

    fn concerns(&self, ceiling: &Ceiling, op: &OpSoFar) -> bool {
        let name = self.workload(op.workload);
        ceiling.workload.as_ref().is_none_or(|wanted| *wanted == name)
    }

    fn ceiling(&self, ceiling: &Ceiling) -> CeilingSoFar {
        let (mut within, mut all) = (0, 0);
        for op in self.whole_ops().filter(|op| self.concerns(ceiling, op)) {
            let Some(held) = op.main() else { continue };
            within += count_within(held, ceiling.ceiling.0);
            all += op.ops;
        }
        CeilingSoFar { ceiling: ceiling.clone(), within, all }
    }

    /// A figure of the machine's last sample, of each thing it is of.
    pub fn host_figure(
        &self,
        source: &str,
        metric: &str,
    ) -> impl Iterator<Item = (Option<&str>, f64)> {
        let rows = self.host.iter().filter(move |r| &*r.source == source && &*r.metric == metric);
        rows.map(|r| (r.item.as_deref(), r.value))
    }

    /// The rows of the last interval, without the parts of a read-modify-write.
    pub fn rows(&self) -> impl Iterator<Item = &IntervalRow> {
        self.last.iter().flat_map(IntervalView::rows).filter(|row| !row.op.is_part())
    }
}

impl OpSoFar {
    fn add(&mut self, op: &ClosedOp, at_ns: u64) {
        self.ops += op.row.ops - op.row.errors;
        self.bytes += op.row.bytes;
        self.max_ns = self.max_ns.max(op.row.max_ns.unwrap_or(0));
        for (status, n) in &op.errors {
            *self.errors.entry(status.0).or_default() += n;
        }
        self.sums_ns.merge(&op.sums_ns, |mine, theirs| *mine += theirs);
        let Some(latencies) = &op.latencies else { return };
        let mine = self.latencies.get_or_insert_with(|| LatencyMap::new(new_histogram()));
        for (kind, values) in latencies.iter() {
            let held = mine.get_or_insert_with(kind, new_histogram);
            for (ns, count) in values {
                // Values come from a histogram with the same bounds.
                let _ = held.record_n(*ns, *count);
            }
        }
        self.heat.add(at_ns, latencies.main().iter().copied());
    }

    /// The deepest nine that as many independent I/Os resolve. These may depend on each other: that is not looked at.
    pub fn nines(&self) -> u8 {
        let resolved = |k: &u8| {
            let needed = Percentile::nines(*k).and_then(|pct| needed_one_sided(&pct));
            needed.is_some_and(|n| self.ops >= n)
        };
        (1..=9).take_while(resolved).last().unwrap_or(0)
    }
}

/// I/Os that took `ceiling` ns or less for sure. I/Os in the bucket that `ceiling` parts are not counted: each of them
/// took within 0.1 % of it, and may have been slower.
pub fn count_within(held: &Histogram<u64>, ceiling: u64) -> u64 {
    let recorded = held.iter_recorded().take_while(|v| v.value_iterated_to() <= ceiling);
    recorded.map(|v| v.count_at_value()).sum()
}

/// A ceiling, and of the successes so far those within it. Each I/O counts by itself, whatever the `fanout`.
#[derive(Debug, Clone, PartialEq)]
pub struct CeilingSoFar {
    pub ceiling: Ceiling,
    pub within: u64,
    pub all: u64,
}

impl CeilingSoFar {
    /// The share that kept it, once there is a success.
    pub fn share(&self) -> Option<f64> {
        (self.all > 0).then(|| self.within as f64 / self.all as f64)
    }

    /// Whether the share is at least what was asked for. Never known of requests of several I/Os: only the report puts
    /// these together.
    pub fn kept(&self) -> Option<bool> {
        let single = self.ceiling.fanout.is_none_or(|n| n <= 1);
        self.share().filter(|_| single).map(|share| share >= self.ceiling.at.share())
    }
}

/// How far a run is: operations, or ns of its measure phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progressed {
    pub done: u64,
    pub all: u64,
    /// Time left, as far as it can be told.
    pub left: Duration,
}

/// How far the measure phase is: by operations, or by time; none where the plan has no end.
pub fn progressed(view: &IntervalView) -> Option<Progressed> {
    let (done, all, left_ns) = match (view.planned_ns, view.operations) {
        (_, (done, Some(all))) => {
            let per_op = view.elapsed_ns as f64 / done.max(1) as f64;
            (done, all, per_op * all.saturating_sub(done) as f64)
        }
        (Some(all), _) => (view.elapsed_ns, all, all.saturating_sub(view.elapsed_ns) as f64),
        (None, _) => return None,
    };
    Some(Progressed { done, all, left: Duration::from_nanos(left_ns as u64) })
}

#[cfg(test)]
pub(crate) mod tests {
    use taillight_core::Status;
    use taillight_core::plan::{Plan, WorkloadPlan};
    use taillight_core::units::{ByteSize, Span};
    use taillight_engine::recorder::InFlightAtEnd;

    use super::*;

    pub const SECOND: u64 = 1_000_000_000;

    pub fn begun() -> LiveModel {
        let workload = WorkloadPlan::simple("w", OpKind::Read, ByteSize(4096));
        let mut plan = Plan { workloads: vec![workload], ..Plan::default() };
        let at = Percentile::nines(1).unwrap();
        plan.qos.ceilings = vec![Ceiling::new(Span(1_000_000), at)];
        let facts = RunFacts {
            run_id: "r".to_owned(),
            about: String::new(),
            host: None,
            plan,
            series: None,
            dir: "out".into(),
        };
        let mut model = LiveModel::default();
        model.take(LiveEvent::Begin(Box::new(facts)));
        model
    }

    /// An interval: latencies with their counts, failures, backlog, in flight and age of the oldest.
    pub fn interval(
        index: i64,
        values: &[(u64, u64)],
        errors: u64,
        (backlog, count, oldest_ns): (u64, u32, u64),
    ) -> LiveEvent {
        let ops = values.iter().map(|v| v.1).sum::<u64>();
        let row = IntervalRow {
            ops: ops + errors,
            errors,
            length_ns: SECOND,
            max_ns: values.iter().map(|v| v.0).max(),
            backlog: Some(backlog),
            ..IntervalRow::default()
        };
        let op = ClosedOp {
            row,
            sums_ns: LatencyMap::new(values.iter().map(|v| v.0 * v.1).sum()),
            errors: vec![(Status::TIMEOUT, errors)],
            latencies: Some(LatencyMap::new(values.to_vec())),
        };
        let closed = ClosedInterval {
            measured: true,
            start: Stamp(5 + index * SECOND as i64),
            length_ns: SECOND,
            ops: vec![op],
            in_flight: vec![InFlightAtEnd { count, oldest_ns }],
            ..ClosedInterval::default()
        };
        LiveEvent::Interval(Box::new(IntervalView {
            phase: "measure",
            elapsed_ns: (index as u64 + 1) * SECOND,
            planned_ns: Some(4 * SECOND),
            operations: (0, None),
            closed: closed.into(),
            provisional: false,
        }))
    }

    #[test]
    fn intervals_add_up() {
        let mut model = begun();
        model.take(interval(0, &[(500_000, 90), (2_000_000, 10)], 0, (7, 3, 100)));
        assert_eq!(model.ceilings()[0].kept(), Some(true), "90 of 100");
        model.take(interval(1, &[(2_000_000, 1)], 4, (0, 0, 0)));
        let op = &model.ops[0];
        assert_eq!((op.ops, op.errors[&Status::TIMEOUT.0]), (101, 4));
        assert_eq!(op.sums_ns.service, 90 * 500_000 + 11 * 2_000_000);
        assert_eq!(op.nines(), 1);
        assert_eq!(model.ceilings()[0].kept(), Some(false), "90 of 101");
        // 100 done, 7 waiting and 3 in flight; a worker that was not heard of takes none away.
        assert_eq!(model.due[&0], 110);
        assert_eq!(
            model.last.as_ref().and_then(progressed).map(|p| (p.done, p.all)),
            Some((2 * SECOND, 4 * SECOND))
        );
    }

    #[test]
    fn a_stall_is_one_io_for_which_everything_waits() {
        let mut model = begun();
        model.take(interval(0, &[(500_000, 1)], 0, (0, 1, 2 * SECOND)));
        assert_eq!((model.oldest_ns(), model.stall_ns()), (Some(2 * SECOND), None), "others go on");
        model.take(interval(1, &[], 0, (0, 1, 3 * SECOND)));
        assert_eq!(model.stall_ns(), Some(3 * SECOND));
        model.take(LiveEvent::Stalled(Stamp(MonoClock.now().0 - 9 * SECOND as i64)));
        assert!(model.stall_ns().is_some_and(|ns| ns >= 9 * SECOND));
        model.take(interval(2, &[(500_000, 1)], 0, (0, 0, 0)));
        assert_eq!((model.oldest_ns(), model.stall_ns()), (Some(0), None));
        let end = LiveEnd {
            status: "complete".to_owned(),
            report: None,
            verdict: None,
            word: None,
            slow: None,
        };
        model.take(LiveEvent::End(Box::new(end)));
        assert_eq!(model.oldest_ns(), None);
    }
}
