//! Intervals: merges the workers' shares of them, feeds observers and the log in the run directory.
//!
//! Runs on the engine's own thread. An interval is closed when every worker has moved past it: its row is then
//! final and goes into the log. While a worker is stuck inside an I/O, observers see a view marked provisional, and the
//! final one when the worker comes back.

mod closed;

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Sender;
use taillight_capture::CaptureThresholds;
use taillight_core::plan::Plan;
use taillight_core::progress::Progress;
use taillight_core::{OpKind, Result, Stamp};
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::ios::RowBatch;
use taillight_rundir::manifest::PhaseInfo;

use crate::recorder::{InFlightAtEnd, IntervalStats, NO_OPS, Ops, Timeline, WorkerMessage};

use crate::steady::SteadyWatch;
pub use closed::{ClosedInterval, ClosedOp, Collected, IntervalLog, LoadCount};
use closed::{IntervalSpan, WorkloadPart};

/// Workers may be so late before anybody is told: usual I/Os in flight are done by then.
const OVERTIME_NS: i64 = 300_000_000;

/// Empty stats kept for reuse at most.
pub const SPARE_INTERVALS: usize = 64;

/// Watches a run. The engine knows no sink: the cli hands observers in.
pub trait Observer {
    /// What a user should know before the load begins, in a sentence.
    fn note(&mut self, _text: &str) {}
    /// A phase begins: a step of `run.before`, `warmup` or `measure`.
    fn phase(&mut self, name: &str);
    /// Every session is ready. Returns when the load is to begin, where several ranks begin together; `None`: at
    /// once. An error keeps the load from starting.
    fn ready(&mut self) -> Result<Option<Stamp>> {
        Ok(None)
    }
    /// An interval is over (or provisional: see [`IntervalView::provisional`]).
    fn interval(&mut self, view: &IntervalView);
    /// The measured time is over for a while, and workers still send what was due before, or wait
    /// for I/Os in flight. Once at most. `backlog`: operations that were due and not sent at the end
    /// of the last interval; `None` in a closed loop.
    fn overtime(&mut self, _backlog: Option<u64>) {}
    /// A worker has been inside an I/O for `ns` or longer by the clock of the run, which may be virtual, and no
    /// interval closes while it is. Once an interval while it lasts.
    fn stalled(&mut self, _ns: u64) {}
    /// Long work that is not measuring goes on.
    fn progress(&mut self, progress: Progress<'_>);
    /// The load is over, and its target is about to be looked at and closed.
    fn closing(&mut self, _target: &dyn taillight_driver::Target) {}
    /// Where I/Os were captured: the phases of the load, before the rows of `ios.parquet` come.
    fn loaded(&mut self, _phases: &[PhaseInfo]) {}
    /// Rows on their way into `ios.parquet`, in its order.
    fn rows(&mut self, _rows: &RowBatch) {}
}

/// An interval as observers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalView {
    /// `warmup` or `measure`.
    pub phase: &'static str,
    /// Since the start of the measure phase, at the end of this interval, ns; 0 in the warm-up.
    pub elapsed_ns: u64,
    /// Length of the measure phase, where the plan gives one, ns.
    pub planned_ns: Option<u64>,
    /// Operations measured so far, and how many the plan asks for.
    pub operations: (u64, Option<u64>),
    /// What happened in it.
    pub closed: Arc<ClosedInterval>,
    /// Some worker has not come back from an I/O yet: its share is missing here.
    pub provisional: bool,
}

impl IntervalView {
    /// Per workload and operation.
    pub fn rows(&self) -> impl Iterator<Item = &IntervalRow> {
        self.closed.ops.iter().map(|op| &op.row)
    }
}

/// Names an interval: those of the warm-up come before those of the measure phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IntervalKey {
    measured: bool,
    index: u32,
}

/// An interval of which some worker's share may still come.
struct Open {
    workloads: Vec<OpenWorkload>,
    last: Option<Stamp>,
    shown: bool,
}

/// What one workload did in one interval, all its workers together.
struct OpenWorkload {
    ops: Ops,
    depth_ns: i64,
    backlog: u64,
    in_flight: InFlightAtEnd,
}

impl OpenWorkload {
    fn new() -> OpenWorkload {
        OpenWorkload { ops: NO_OPS, depth_ns: 0, backlog: 0, in_flight: InFlightAtEnd::default() }
    }
}

/// The collector.
pub struct Collector {
    timeline: Timeline,
    planned_ns: Option<u64>,
    planned_ops: Option<u64>,
    open_loop: Vec<bool>,
    /// Operations in flight at most, of each workload.
    slots: Vec<u64>,
    kinds: Vec<Vec<OpKind>>,
    open: BTreeMap<IntervalKey, Open>,
    reached: Vec<Option<IntervalKey>>,
    /// When each worker was last heard of.
    heard: Vec<Stamp>,
    told_stalled: Stamp,
    running: Vec<bool>,
    spare: Sender<Box<IntervalStats>>,
    thresholds: Arc<CaptureThresholds>,
    next: BTreeMap<bool, u32>,
    told_overtime: bool,
    /// At the end of the last closed interval.
    backlog: Option<u64>,
    /// Where the plan ends once it is steady.
    steady: Option<SteadyWatch>,
    collected: Collected,
}

impl Collector {
    /// A collector for the workers of `plan`.
    pub fn new(
        plan: &Plan,
        timeline: Timeline,
        spare: Sender<Box<IntervalStats>>,
        thresholds: Arc<CaptureThresholds>,
        log: Option<IntervalLog>,
    ) -> Collector {
        let workers = plan.workers() as usize;
        let open_loop =
            |w: &taillight_core::plan::WorkloadPlan| w.measured && !w.arrival.is_closed();
        Collector {
            timeline,
            planned_ns: plan.planned_ns(),
            planned_ops: plan.planned_operations(),
            open_loop: plan.workloads.iter().map(open_loop).collect(),
            slots: plan
                .workloads
                .iter()
                .map(taillight_core::plan::WorkloadPlan::outstanding)
                .collect(),
            kinds: plan.workloads.iter().map(|w| w.mix.iter().map(|m| m.op).collect()).collect(),
            open: BTreeMap::new(),
            reached: vec![None; workers],
            heard: vec![timeline.start; workers],
            told_stalled: timeline.start,
            running: vec![true; workers],
            spare,
            thresholds,
            next: BTreeMap::new(),
            told_overtime: false,
            backlog: None,
            steady: SteadyWatch::of(plan),
            collected: Collected::new(plan, log),
        }
    }

    /// Whether some worker has not finished.
    pub fn any_running(&self) -> bool {
        self.running.iter().any(|r| *r)
    }

    /// Whether the run is to end because it is steady.
    pub fn is_steady(&self) -> bool {
        self.steady.as_ref().is_some_and(SteadyWatch::is_reached)
    }

    /// A fact for the manifest of a run that ends once it is steady.
    pub fn steady_fact(&self) -> Option<(String, String)> {
        Some(("run.steady".to_owned(), self.steady.as_ref()?.told()))
    }

    /// Takes a worker's message, `now`.
    pub fn accept(&mut self, message: WorkerMessage, now: Stamp) {
        match message {
            WorkerMessage::Done { worker } => self.running[usize::from(worker)] = false,
            WorkerMessage::IntervalStats(stats) => {
                let (worker, ended) = (usize::from(stats.worker), stats.last.is_some());
                self.heard[worker] = now;
                self.merge(stats);
                // With its last interval, not with a message after it: the interval may be closed in between.
                self.running[worker] &= !ended;
            }
        }
    }

    fn merge(&mut self, mut stats: Box<IntervalStats>) {
        let key = IntervalKey { measured: stats.measured, index: stats.index };
        let of = usize::from(stats.workload);
        let (timeline, mut reached) = (self.timeline, key);
        for from in &stats.absent.0 {
            for (measured, index, ns) in timeline.parts(*from, stats.absent.1) {
                let absent = IntervalKey { measured, index };
                self.open(absent).workloads[of].depth_ns += ns;
                reached = reached.max(absent);
            }
        }
        let open = self.open(key);
        open.last = open.last.max(stats.last);
        let workload = &mut open.workloads[of];
        workload.depth_ns += stats.depth_ns();
        workload.backlog += stats.backlog;
        workload.in_flight.add(stats.in_flight);
        for (mine, theirs) in workload.ops.iter_mut().zip(stats.ops.iter_mut()) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.merge(theirs),
                (mine @ None, Some(theirs)) if theirs.ops > 0 || theirs.failed() > 0 => {
                    *mine = Some(theirs.clone());
                }
                _ => {}
            }
        }
        self.collected.stragglers += stats.stragglers;
        if !self.collected.load[of] {
            let longest = self.collected.carried_over_ns.max(stats.carried_over_ns);
            self.collected.carried_over_ns = longest;
        }
        self.reached[usize::from(stats.worker)] = Some(reached);
        stats.clear();
        // A full spare channel means enough are there already.
        let _ = self.spare.try_send(stats);
    }

    fn open(&mut self, key: IntervalKey) -> &mut Open {
        let count = self.kinds.len();
        self.open.entry(key).or_insert_with(|| Open {
            workloads: (0..count).map(|_| OpenWorkload::new()).collect(),
            last: None,
            shown: false,
        })
    }

    /// Closes every interval all workers have passed, shows provisional ones that are late, and tells observers of
    /// stuck workers and overtime.
    pub fn close_passed(&mut self, now: Stamp, observers: &mut [&mut dyn Observer]) {
        while let Some(key) = self.open.keys().next().copied() {
            if !self.passed(key) {
                break;
            }
            let Some(open) = self.open.remove(&key) else {
                break;
            };
            self.close(key, open, observers);
        }
        self.show_late(now, observers);
        self.tell_stalled(now, observers);
        let over = now.since(self.timeline.end) >= OVERTIME_NS;
        if over && self.any_running() && !self.told_overtime {
            self.told_overtime = true;
            let backlog = self.backlog;
            observers.iter_mut().for_each(|o| o.overtime(backlog));
        }
    }

    /// Tells of a worker that has not come back for two intervals. It comes back at the end of every
    /// interval unless an I/O keeps it, so that it is inside one since the first end it missed.
    fn tell_stalled(&mut self, now: Stamp, observers: &mut [&mut dyn Observer]) {
        let length = self.timeline.interval_ns as i64;
        if now.since(self.told_stalled) < length {
            return;
        }
        let running = self.heard.iter().zip(&self.running).filter(|(_, running)| **running);
        let Some(heard) = running.map(|(heard, _)| *heard).min() else {
            return;
        };
        let since = self.timeline.interval_end(heard).min(self.timeline.end);
        if now.since(since) > length {
            self.told_stalled = now;
            let ns = now.since(since) as u64;
            observers.iter_mut().for_each(|o| o.stalled(ns));
        }
    }

    /// Shows the oldest open interval not shown yet, when a stuck worker keeps it from closing.
    fn show_late(&mut self, now: Stamp, observers: &mut [&mut dyn Observer]) {
        let Some((&key, open)) = self.open.iter().find(|(_, open)| !open.shown) else {
            return;
        };
        let span = self.span_of(key);
        if now.since(span.start) <= 2 * span.length_ns as i64 {
            return;
        }
        let closed = self.closed(span, &open.workloads);
        let view = self.view(Arc::new(closed), true);
        observers.iter_mut().for_each(|o| o.interval(&view));
        if let Some(open) = self.open.get_mut(&key) {
            open.shown = true;
        }
    }

    fn passed(&self, key: IntervalKey) -> bool {
        self.reached
            .iter()
            .zip(&self.running)
            .all(|(reached, running)| !running || reached.is_some_and(|r| r >= key))
    }

    fn span_of(&self, IntervalKey { measured, index }: IntervalKey) -> IntervalSpan {
        let t = &self.timeline;
        let origin = if measured { t.measure } else { t.start };
        let start = origin.plus(u64::from(index) * t.interval_ns);
        let limit = if measured { t.end } else { t.measure };
        let length_ns = t.interval_ns.min(limit.since(start).max(1) as u64);
        IntervalSpan { measured, index, start, length_ns }
    }

    /// Makes the interval final; intervals in which nothing happened at all are filled in.
    fn close(&mut self, key: IntervalKey, open: Open, observers: &mut [&mut dyn Observer]) {
        let next = self.next.entry(key.measured).or_insert(0);
        let missing = *next..key.index;
        *next = key.index + 1;
        for index in missing {
            let nothing: Vec<_> = self.kinds.iter().map(|_| OpenWorkload::new()).collect();
            let closed = self.closed(self.span_of(IntervalKey { index, ..key }), &nothing);
            self.finish(closed, &nothing, observers);
        }
        let mut span = self.span_of(key);
        if let Some(last) = open.last.filter(|_| !self.any_running() && self.open.is_empty()) {
            // The last interval ends with the last completion, be it early or in the drain.
            span.length_ns = last.since(span.start).max(1) as u64;
        }
        self.collected.add_totals(key.measured, open.workloads.iter().map(|w| &w.ops));
        let closed = self.closed(span, &open.workloads);
        self.publish_thresholds(&open);
        self.finish(closed, &open.workloads, observers);
    }

    fn closed(&self, span: IntervalSpan, workloads: &[OpenWorkload]) -> ClosedInterval {
        let parts = workloads.iter().zip(&self.slots).map(|(w, slots)| WorkloadPart {
            ops: &w.ops,
            depth_ns: w.depth_ns,
            slots: *slots,
            backlog: w.backlog,
        });
        let parts = ClosedInterval::from_parts(
            span,
            parts,
            &self.kinds,
            &self.open_loop,
            &self.collected.load,
        );
        ClosedInterval { in_flight: workloads.iter().map(|w| w.in_flight).collect(), ..parts }
    }

    fn publish_thresholds(&self, open: &Open) {
        for kind in OpKind::ALL {
            let counted = open.workloads.iter().zip(&self.collected.load);
            let parts = counted
                .filter(|(_, load)| !**load)
                .filter_map(|(w, _)| w.ops[kind as usize].as_deref());
            let slow = parts
                .filter(|op| op.ops >= 1000)
                .map(|op| op.latencies.main().value_at_quantile(0.999))
                .min();
            if let Some(ns) = slow {
                self.thresholds.set(kind, ns);
            }
        }
    }

    fn finish(
        &mut self,
        closed: ClosedInterval,
        workloads: &[OpenWorkload],
        observers: &mut [&mut dyn Observer],
    ) {
        if let Some(log) = &mut self.collected.log {
            log.put(&closed, |workload| &workloads[workload].ops);
        }
        self.backlog = closed.backlog;
        let view = self.view(Arc::new(closed), false);
        self.steady.iter_mut().for_each(|steady| steady.take(&view.closed, view.elapsed_ns));
        observers.iter_mut().for_each(|o| o.interval(&view));
    }

    fn view(&self, closed: Arc<ClosedInterval>, provisional: bool) -> IntervalView {
        let end = closed.start.plus(closed.length_ns);
        let elapsed = if closed.measured { end.since(self.timeline.measure).max(0) } else { 0 };
        IntervalView {
            phase: if closed.measured { "measure" } else { "warmup" },
            elapsed_ns: elapsed as u64,
            planned_ns: self.planned_ns,
            operations: (self.collected.measured_ops(), self.planned_ops),
            closed,
            provisional,
        }
    }

    /// Closes and shows the intervals still open; everything collected, once all workers have finished or were given
    /// up.
    pub fn into_collected(mut self, observers: &mut [&mut dyn Observer]) -> Collected {
        self.running.iter_mut().for_each(|r| *r = false);
        while let Some((key, open)) = self.open.pop_first() {
            self.close(key, open, observers);
        }
        self.collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of stalls, ms, and lengths of intervals, ns.
    #[derive(Default)]
    struct Watch(Vec<u64>, Vec<u64>);

    impl Observer for Watch {
        fn phase(&mut self, _: &str) {}
        fn interval(&mut self, view: &IntervalView) {
            self.1.push(view.closed.length_ns);
        }
        fn stalled(&mut self, ns: u64) {
            self.0.push(ns / 1_000_000);
        }
        fn progress(&mut self, _: Progress<'_>) {}
    }

    #[test]
    fn the_last_interval_ends_with_its_last_worker_whatever_comes_between() {
        let plan = crate::testing::plan();
        let start = Stamp(1_000_000_000);
        let end = Stamp::NEVER;
        let timeline =
            Timeline { start, measure: start, counted: start, end, interval_ns: 1_000_000_000 };
        let (spare, _kept) = crossbeam_channel::bounded(4);
        let mut collector = Collector::new(&plan, timeline, spare, Arc::default(), None);
        let mut stats = Box::new(IntervalStats::new(0, 0));
        stats.open(true, 0);
        stats.last = Some(start.plus(16_800_000));
        collector.accept(WorkerMessage::IntervalStats(stats), start.plus(17_000_000));
        let mut watch = Watch::default();
        // Before the worker's own word that it is done.
        collector.close_passed(start.plus(17_000_000), &mut [&mut watch]);
        assert_eq!(watch.1, [16_800_000]);
    }

    #[test]
    fn a_worker_that_does_not_come_back_is_told_of_once_an_interval() {
        let plan = crate::testing::plan();
        let second = 1_000_000_000;
        let at = |ms: i64| Stamp(second + ms * 1_000_000);
        let (start, end) = (at(0), at(60_000));
        let timeline =
            Timeline { start, measure: start, counted: start, end, interval_ns: second as u64 };
        let (spare, _kept) = crossbeam_channel::bounded(4);
        let mut collector = Collector::new(&plan, timeline, spare, Arc::default(), None);
        let mut watch = Watch::default();
        for ms in (0..=4_000).step_by(20) {
            collector.close_passed(at(ms), &mut [&mut watch]);
        }
        assert_eq!(watch.0, [1_020, 2_020], "since the first end that it missed");
        // It comes back, and goes on.
        let mut stats = Box::new(IntervalStats::new(0, 0));
        stats.open(true, 0);
        collector.accept(WorkerMessage::IntervalStats(stats), at(4_010));
        for ms in (4_020..=6_500).step_by(20) {
            collector.close_passed(at(ms), &mut [&mut watch]);
        }
        assert_eq!(watch.0.len(), 3, "{:?}", watch.0);
        assert_eq!(watch.0[2], 1_020);
    }
}
