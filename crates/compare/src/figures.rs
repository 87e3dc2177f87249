//! The figures that both sides can speak about, with interval and verdict.

use taillight_core::{Error, OpKind, Percentile, Result};
use taillight_rundir::compare::{CompareVerdict, ComparedFigure};
use taillight_rundir::latency::Quantile;
use taillight_stats::compare::{
    Bounded, DifferenceVerdict, LogDifference, batched_mean, holm, mann_whitney,
};

use crate::CompareRequest;
use crate::comparable::is_saturated;
use crate::side::SideRun;

/// Runs a side from which the test by ranks stands beside the other.
const FOR_RANKS: usize = 6;
/// Largest p-value, adjusted, of a difference.
pub const ALPHA: f64 = 0.05;

/// A figure of runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure {
    Rate,
    Percentile(Percentile),
}

impl Figure {
    pub fn name(self) -> String {
        match self {
            Figure::Rate => "iops".to_owned(),
            Figure::Percentile(p) => format!("p{p}"),
        }
    }

    /// Its margin where none is asked for: deep percentiles vary more.
    fn margin(self) -> f64 {
        match self {
            Figure::Percentile(p) if p.tail_share() < 0.01 => 0.20,
            Figure::Percentile(p) if p.tail_share() < 0.05 => 0.10,
            _ => 0.05,
        }
    }

    /// Its value in a run; none where the run has none.
    pub fn value(self, run: &SideRun, op: OpKind) -> Option<f64> {
        match self {
            Figure::Rate => run.summary.ops.get(&op).map(|t| t.iops).filter(|v| *v > 0.0),
            Figure::Percentile(_) => self.quantile(run, op)?.ns.map(|ns| ns as f64),
        }
    }

    fn quantile(self, run: &SideRun, op: OpKind) -> Option<&Quantile> {
        let Figure::Percentile(p) = self else { return None };
        let latency = run.summary.ops.get(&op)?.latencies.main();
        let nine = latency
            .nines
            .iter()
            .find(|n| u8::try_from(n.k).ok().and_then(Percentile::nines) == Some(p));
        let asked =
            || latency.percentiles.iter().find(|e| e.p.parse() == Ok(p)).map(|e| &e.quantile);
        nine.map(|n| &n.quantile).or_else(asked)
    }

    /// Its value with the interval that the run alone gives it.
    fn bounded(self, run: &SideRun, op: OpKind) -> Option<Bounded> {
        match self {
            Figure::Rate => batched_mean(run.rates.get(&op)?),
            Figure::Percentile(_) => {
                let (q, error) =
                    (self.quantile(run, op)?, run.summary.ops.get(&op)?.latencies.main().error);
                let [value, lo, hi] = [q.ns?, q.lo_ns?, q.hi_ns?].map(|ns| ns as f64);
                // A histogram's value may lie anywhere within its error.
                Some(Bounded { value, lo: lo * (1.0 - error), hi: hi * (1.0 + error) })
            }
        }
    }
}

/// Figures of every operation that both sides have: rate, median, and nines down to the deepest that every
/// run resolves. Errors: `Usage` when there is none.
pub fn figures(
    base: &[SideRun],
    new: &[SideRun],
    request: &CompareRequest,
) -> Result<Vec<ComparedFigure>> {
    let mut all = Vec::new();
    let runs = || base.iter().chain(new);
    let Some(first) = base.first() else { return Ok(all) };
    for op in first.summary.ops.keys().copied().filter(|op| !op.is_part()) {
        if !runs().all(|run| run.summary.ops.contains_key(&op)) {
            continue;
        }
        let nines = (1..=9).filter_map(Percentile::nines);
        let percentiles = [Percentile::MEDIAN].into_iter().chain(nines).map(Figure::Percentile);
        // Response times of a run that fell behind say how long it was, not how fast the storage is.
        let percentiles = percentiles.filter(|_| !runs().any(is_saturated));
        for figure in [Figure::Rate].into_iter().chain(percentiles) {
            if runs().all(|run| figure.value(run, op).is_some()) {
                all.push(compared(figure, op, base, new, request));
            }
        }
    }
    if all.is_empty() {
        return Err(Error::usage("no figure is there in every run of both sides")
            .hint("longer runs resolve more percentiles; saturated runs have none to compare"));
    }
    adjust(&mut all, request);
    Ok(all)
}

fn compared(
    figure: Figure,
    op: OpKind,
    base: &[SideRun],
    new: &[SideRun],
    request: &CompareRequest,
) -> ComparedFigure {
    let values = |side: &[SideRun]| -> Vec<f64> {
        side.iter().filter_map(|run| figure.value(run, op)).collect()
    };
    let (a, b) = (values(base), values(new));
    let margin = request.margin.unwrap_or(figure.margin());
    let (found, why) = match (base, new) {
        ([one], [other]) => {
            let bounds = figure.bounded(one, op).zip(figure.bounded(other, op));
            let found = bounds.and_then(|(a, b)| LogDifference::of_two_runs(a, b));
            (found, "a run is too short, or changes too slowly, for an interval")
        }
        _ if request.paired => (LogDifference::of_pairs(&a, &b), "pairs of unequal number"),
        _ => (LogDifference::of_runs(&a, &b), "a side has one run: give three or more"),
    };
    let interval = found.map(|d| d.interval(ALPHA));
    let verdict =
        found.map_or(DifferenceVerdict::Undecided, |d| d.verdict(margin, figure != Figure::Rate));
    let ranks = a.len().min(b.len()) >= FOR_RANKS;
    ComparedFigure {
        op,
        figure: figure.name(),
        base: geometric_mean(&a),
        new: geometric_mean(&b),
        ratio: found.map(|d| d.ratio()),
        lo: interval.map(|(lo, _)| lo),
        hi: interval.map(|(_, hi)| hi),
        p: found.map(|d| d.p_value()),
        p_ranks: mann_whitney(&a, &b).filter(|_| ranks),
        margin,
        verdict: named(verdict),
        needs: found.and_then(|d| d.needed_runs(margin)),
        why: found.is_none().then(|| why.to_owned()),
    }
}

fn named(verdict: DifferenceVerdict) -> CompareVerdict {
    match verdict {
        DifferenceVerdict::Worse => CompareVerdict::Worse,
        DifferenceVerdict::Better => CompareVerdict::Better,
        DifferenceVerdict::Equal => CompareVerdict::Equal,
        DifferenceVerdict::Undecided => CompareVerdict::Undecided,
    }
}

pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    (n > 0.0).then(|| (values.iter().map(|v| v.ln()).sum::<f64>() / n).exp())
}

/// Many figures looked at give a difference by chance. The one of the gate was chosen before; the others
/// are adjusted, and what does not survive is undecided.
fn adjust(all: &mut [ComparedFigure], request: &CompareRequest) {
    let is_gate =
        |f: &ComparedFigure| request.gate.as_ref().is_some_and(|g| g.is_of(f.op, &f.figure));
    let explored: Vec<usize> =
        (0..all.len()).filter(|i| !is_gate(&all[*i]) && all[*i].p.is_some()).collect();
    let values: Vec<f64> = explored.iter().filter_map(|i| all[*i].p).collect();
    for (i, p) in explored.into_iter().zip(holm(&values)) {
        all[i].p = Some(p);
        let claims = matches!(all[i].verdict, CompareVerdict::Worse | CompareVerdict::Better);
        if claims && p >= ALPHA {
            all[i].verdict = CompareVerdict::Undecided;
        }
    }
    for figure in all.iter_mut().filter(|f| f.verdict != CompareVerdict::Undecided) {
        figure.needs = None;
    }
}
