//! How a load ends: what ends workers besides their own limits (load when nothing measured is left,
//! everybody when nothing completes any more), and what the ends of all workers say of the whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use taillight_core::plan::Plan;
use taillight_core::units::Span;
use taillight_core::{Error, Stamp};

use super::LoadResult;
use super::witness::WitnessReadings;
use crate::collector::Collected;
use crate::idle::{Idle, IdleWatch};
use crate::recorder::Timeline;
use crate::worker::WorkerEnd;

/// Ends the workers that are load only when all measured ones have ended, all workers when one that ends the run
/// has, and those of workloads that end together when one of theirs has.
pub struct LoadEnd {
    measured_left: AtomicUsize,
    over: AtomicBool,
    /// Set once all workers are to end; `None` where neither a worker nor a steady figure may end the run.
    run_over: Option<AtomicBool>,
    /// For workloads that end together, at the index of the first: set once one of their workers has ended.
    groups: Vec<AtomicBool>,
}

impl LoadEnd {
    /// With so many measured workers.
    pub fn new(measured: usize, plan: &Plan) -> LoadEnd {
        let ends_run = plan.workloads.iter().any(|w| w.ends_run) || plan.run.steady.is_some();
        LoadEnd {
            measured_left: AtomicUsize::new(measured),
            over: AtomicBool::new(false),
            run_over: ends_run.then(|| AtomicBool::new(false)),
            groups: plan.workloads.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// A worker of this workload has ended.
    pub fn left(&self, measured: bool, plan: &Plan, workload: u16) {
        let ends_run = plan.workloads[usize::from(workload)].ends_run;
        plan.end_group(workload)
            .iter()
            .for_each(|group| self.groups[*group].store(true, Ordering::Release));
        if measured && self.measured_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.store(true, Ordering::Release);
            self.groups.iter().for_each(|group| group.store(true, Ordering::Release));
        }
        self.end_run_if(ends_run);
    }

    /// Ends everybody once it is `time`, where a run may end so.
    pub fn end_run_if(&self, time: bool) {
        if time {
            let all = self.run_over.iter().chain(&self.groups);
            all.for_each(|over| over.store(true, Ordering::Release));
            self.over.store(true, Ordering::Release);
        }
    }

    /// Set once all workers are to end; `None` as for `run_over`.
    pub fn all_over(&self) -> Option<&AtomicBool> {
        self.run_over.as_ref()
    }

    /// Set once the workers of a workload are to end; `None` where they end by themselves alone.
    pub fn over(&self, measured: bool, plan: &Plan, workload: u16) -> Option<&AtomicBool> {
        match (measured, plan.end_group(workload)) {
            (_, Some(group)) => self.groups.get(group),
            (false, None) => Some(&self.over),
            (true, None) => self.run_over.as_ref(),
        }
    }
}

/// Ends a run in which nothing completes any more.
pub struct IdleEnd(Option<Arc<Idle>>);

impl IdleEnd {
    /// The watch over so many workers; without a time-out it never fires.
    pub fn new(timeout: Option<Span>, workers: usize) -> IdleEnd {
        IdleEnd(timeout.map(|t| Arc::new(Idle::new(t.0, workers))))
    }

    pub fn watch(&self, worker: u16) -> Option<IdleWatch> {
        let shared = self.0.clone()?;
        Some(IdleWatch::new(shared, usize::from(worker)))
    }

    /// Asks everybody to end when it fires, and says why.
    pub fn check(&self, now: Stamp, abort: &AtomicBool) -> Option<Error> {
        let idle = self.0.as_ref().filter(|idle| idle.timed_out(now))?;
        abort.store(true, Ordering::Relaxed);
        Some(idle.error())
    }
}

/// What the load did, from where its workers ended.
pub fn loaded(
    timeline: Timeline,
    collected: Collected,
    ends: Vec<WorkerEnd>,
    error: Option<Error>,
    cpu_s: f64,
) -> LoadResult {
    let drained = ends.iter().map(|e| e.finished).max().unwrap_or(timeline.measure);
    // A worker that used up its time measured all of it, even if nothing was due at the very end; one that
    // syncs in the end measures until it is done.
    let end = |e: &WorkerEnd| match e.synced && e.measured {
        true => e.finished,
        false if e.reached_end => e.end,
        false => timeline.end.min(e.finished),
    };
    let measure_end = ends.iter().map(end).max().unwrap_or(timeline.measure);
    let measure_end = measure_end.max(timeline.measure);
    LoadResult {
        collected,
        ends,
        pool: None,
        capture: None,
        no_capture: None,
        error,
        load_start: timeline.start,
        measure_start: timeline.measure,
        measure_end,
        drained: drained.max(measure_end),
        cpu_s,
        stood_still_ns: 0,
        verify: None,
        samples: None,
        session_facts: Vec::new(),
        pauses: None,
        witness: WitnessReadings::default(),
        counter: false,
    }
}

/// The reason of workers that gave up. It comes before whatever closing such a target says.
pub fn gave_up(ends: &[WorkerEnd]) -> Option<Error> {
    let gone = ends.iter().any(|e| e.target_lost);
    gone.then(|| {
        Error::target("the target failed: too many I/O errors in a row")
            .hint("the errors are listed in the report; what was measured before is kept")
    })
}
