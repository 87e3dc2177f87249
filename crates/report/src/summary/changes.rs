//! Whether a figure of an operation changed its level while it was measured: which figures are looked at, of
//! which runs, with one share of error over all. The test is `taillight_stats::change_point`, the words are
//! in `verdict::changes`.

use std::collections::BTreeMap;

use taillight_core::plan::{Arrival, Plan, WorkloadPlan};
use taillight_core::{OpKind, Percentile};
use taillight_rundir::summary::{ChangedFigure, LevelChange, OverChange};
use taillight_stats::{ChangePoint, LevelFigure, RunLevels};

use super::IoSet;
use crate::analyse::Analysis;
use crate::verdict::saturation::measured_ns;

/// Share of steady runs that are told to have changed.
const ALPHA: f64 = 0.02;
/// Shortest load that has a level: in less, beginning is a part of it.
const SHORTEST_NS: u64 = 5_000_000_000;
/// Bursts in a load that has a level.
const FEWEST_BURSTS: u64 = 8;
/// An operation whose last success came before this share of the load was done.
const DONE: f64 = 0.98;

/// Changes of each operation's figures, the strongest first. None where the load changes by its plan or is under 5 s.
pub fn changes(analysis: &Analysis, ops: &BTreeMap<OpKind, IoSet>) -> Vec<LevelChange> {
    let plan = &analysis.manifest.plan;
    let load_ns = measured_ns(analysis).unwrap_or(analysis.duration_ns);
    if load_ns < SHORTEST_NS || !plan.workloads.iter().all(|w| is_steady(w, load_ns)) {
        return Vec::new();
    }
    let whole: Vec<(&OpKind, &IoSet)> = ops.iter().filter(|(op, _)| !op.is_part()).collect();
    let alpha = ALPHA / whole.len().max(1) as f64;
    let of = |(op, set): (&OpKind, &IoSet)| OpChanges::new(analysis, *op, set, load_ns).all(alpha);
    whole.into_iter().flat_map(of).collect()
}

/// Whether a workload asks for the same from its start to its end: of bursts, so many that where they begin and
/// end is no change.
fn is_steady(workload: &WorkloadPlan, load_ns: u64) -> bool {
    let varies = match workload.arrival {
        Arrival::Bursts { on, off, .. } => {
            load_ns < FEWEST_BURSTS.saturating_mul(on.0.saturating_add(off.0))
        }
        Arrival::Steps { .. } | Arrival::Ramp { .. } | Arrival::Replay { .. } => true,
        _ => false,
    };
    !varies && workload.ramp.is_none() && workload.window_ns(load_ns) == (0..load_ns)
}

/// One operation's figures.
struct OpChanges<'a> {
    op: OpKind,
    levels: RunLevels<'a>,
    column_ns: u64,
    /// Of which shares are looked at.
    ceilings: Vec<u64>,
    is_closed: bool,
    /// Whether it went on until the end, as fast as it was answered.
    has_rate: bool,
}

impl<'a> OpChanges<'a> {
    fn new(analysis: &Analysis, op: OpKind, set: &'a IoSet, load_ns: u64) -> OpChanges<'a> {
        let plan = &analysis.manifest.plan;
        let sample = set.latencies.main();
        let grid = sample.dependence().grid();
        let groups = analysis.groups.iter().filter(|g| g.op == op);
        let own = || groups.clone().filter_map(|g| plan.workloads.get(usize::from(g.workload)));
        let asked = plan.qos.ceilings.iter().map(|ceiling| ceiling.ceiling.0);
        let mut ceilings: Vec<u64> = asked.collect();
        ceilings.sort_unstable();
        ceilings.dedup();
        if ceilings.is_empty() {
            ceilings.extend(Percentile::nines(2).and_then(|p| sample.percentile(&p)));
        }
        let is_closed = own().all(|w| w.arrival.is_closed());
        let lasted = set.tally.last_ns.saturating_sub(analysis.start_ns) as f64;
        let has_rate = is_closed && !ends_by_count(plan) && lasted >= DONE * load_ns as f64;
        let levels = RunLevels::new(grid, sample, load_ns);
        OpChanges { op, levels, column_ns: grid.window().column_ns, ceilings, is_closed, has_rate }
    }

    fn all(&self, alpha: f64) -> Vec<LevelChange> {
        let shares = self.ceilings.iter().map(|ns| LevelFigure::ShareOver(*ns));
        let rate = self.has_rate.then_some(LevelFigure::Rate);
        let figures: Vec<LevelFigure> =
            rate.into_iter().chain([LevelFigure::Median]).chain(shares).collect();
        self.levels.changes(&figures, alpha).into_iter().map(|it| self.told(&it)).collect()
    }

    fn told(&self, it: &ChangePoint) -> LevelChange {
        let (figure, ceiling_ns) = match it.figure {
            LevelFigure::Rate => (ChangedFigure::Rate, None),
            LevelFigure::Median => (ChangedFigure::Median, None),
            LevelFigure::ShareOver(ns) => (ChangedFigure::ShareOver, Some(ns)),
        };
        LevelChange {
            op: self.op,
            figure,
            ceiling_ns,
            at_s: (it.column as u64 * self.column_ns) as f64 / 1e9,
            before: it.before,
            after: it.after,
            rate_before: self.has_rate.then(|| self.levels.rate(0..it.column)),
            rate_after: self.has_rate.then(|| self.levels.rate(it.column..self.levels.columns())),
            over: self.ceilings.iter().map(|ns| self.over(*ns, it.column)).collect(),
        }
    }

    fn over(&self, ceiling_ns: u64, column: usize) -> OverChange {
        let before = self.levels.part(0..column, ceiling_ns);
        let after = self.levels.part(column..self.levels.columns(), ceiling_ns);
        let time = |share: Option<f64>| share.filter(|_| self.is_closed);
        OverChange {
            ceiling_ns,
            before: before.share(),
            after: after.share(),
            time_before: time(before.time_share()),
            time_after: time(after.time_share()),
        }
    }
}

/// Whether workers may be done one after the other.
fn ends_by_count(plan: &Plan) -> bool {
    let run = &plan.run;
    let counted = run.operations.is_some() || run.bytes.is_some();
    plan.workers() > 1 && (counted || plan.workloads.iter().any(WorkloadPlan::ends))
}
