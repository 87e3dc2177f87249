//! The figures that both sides can speak about, with interval and verdict.

use taillight_core::plan::{Figure, GateFigure};
use taillight_core::{OpKind, Percentile};
use taillight_rundir::compare::{CompareVerdict, ComparedFigure, PositionEffect};
use taillight_rundir::latency::Quantile;
use taillight_stats::compare::{
    Bounded, DifferenceVerdict, LogDifference, holm, mann_whitney, mean_of_steps,
};
use taillight_stats::dependence::FEWEST_TERMS;

use crate::CompareRequest;
use crate::comparable::is_saturated;
use crate::side::SideRun;

/// Runs a side from which the test by ranks stands beside the other.
const FOR_RANKS: usize = 6;
/// Share of cases in which an interval may miss.
pub const ALPHA: f64 = 0.05;
/// What the clock tells apart, ns.
const TICK_NS: f64 = 1.0;

/// The units over which figures vary, and how often an answer may be wrong.
#[derive(Debug, Clone, Copy)]
pub enum Units<'a> {
    /// One run a side, or several that share nothing.
    Runs,
    /// The nth runs of both sides were a pair.
    Pairs {
        /// Whether base was the first of each.
        base_first: &'a [bool],
        alpha: f64,
        /// Why they decide nothing, if they do not.
        why_undecided: Option<&'a str>,
    },
}

impl Units<'_> {
    fn alpha(self) -> f64 {
        match self {
            Units::Runs => ALPHA,
            Units::Pairs { alpha, .. } => alpha,
        }
    }
}

/// The margin of a figure where none is asked for: deep percentiles vary more.
pub(crate) fn usual_margin(figure: Figure) -> f64 {
    match figure {
        Figure::Percentile(p) if p.tail_share() < 0.01 => 0.20,
        Figure::Percentile(p) if Some(p) == Percentile::nines(2) => 0.10,
        _ => 0.05,
    }
}

/// A figure of an operation in runs.
pub trait RunFigure {
    /// Its value in a run; none where the run has none.
    fn value(&self, run: &SideRun) -> Option<f64>;
    /// Its percentile in a run, resolved or not; none of a rate.
    fn quantile<'a>(&self, run: &'a SideRun) -> Option<&'a Quantile>;
    /// Its value with the interval that the run alone gives it.
    fn bounded(&self, run: &SideRun) -> Option<Bounded>;
    /// Share of a value that clock and histogram leave open.
    fn blur(&self, run: &SideRun) -> f64;
}

impl RunFigure for GateFigure {
    fn value(&self, run: &SideRun) -> Option<f64> {
        match self.figure {
            Figure::Rate => run.summary.ops.get(&self.op).map(|t| t.iops).filter(|v| *v > 0.0),
            Figure::Percentile(_) => self.quantile(run)?.ns.map(|ns| ns as f64),
        }
    }

    fn quantile<'a>(&self, run: &'a SideRun) -> Option<&'a Quantile> {
        let p = self.figure.percentile()?;
        let latency = run.summary.ops.get(&self.op)?.latencies.main();
        let nine = latency
            .nines
            .iter()
            .find(|n| u8::try_from(n.k).ok().and_then(Percentile::nines) == Some(p));
        let asked =
            || latency.percentiles.iter().find(|e| e.p.parse() == Ok(p)).map(|e| &e.quantile);
        nine.map(|n| &n.quantile).or_else(asked)
    }

    fn bounded(&self, run: &SideRun) -> Option<Bounded> {
        match self.figure {
            Figure::Rate => mean_of_steps(run.rates.get(&self.op)?),
            Figure::Percentile(_) => {
                let q = self.quantile(run)?;
                let error = run.summary.ops.get(&self.op)?.latencies.main().error;
                let [value, lo, hi] = [q.ns?, q.lo_ns?, q.hi_ns?].map(|ns| ns as f64);
                // A histogram's value may lie anywhere within its error.
                let (lo, hi) = (lo * (1.0 - error), hi * (1.0 + error));
                // Runs of versions that took I/Os for independent have exact ranks.
                let freedom = q.effective.map_or(f64::INFINITY, |_| FEWEST_TERMS);
                Some(Bounded { value, lo, hi, freedom })
            }
        }
    }

    fn blur(&self, run: &SideRun) -> f64 {
        let totals = run.summary.ops.get(&self.op);
        match (self.figure, self.value(run), totals) {
            (Figure::Percentile(_), Some(value), Some(totals)) => {
                let bin = self.quantile(run).and_then(|q| q.bin);
                let error = bin.map_or(totals.latencies.main().error, |bin| bin.error());
                error + TICK_NS / value.max(TICK_NS)
            }
            _ => 0.0,
        }
    }
}

/// Figures of every operation that all runs have and that is no part of another: rate, median, those of the
/// gate, and nines, each if every run resolves it; rates only where a run is saturated.
pub fn figures(
    base: &[&SideRun],
    new: &[&SideRun],
    units: Units<'_>,
    request: &CompareRequest,
) -> Vec<ComparedFigure> {
    let mut all = Vec::new();
    let runs = || base.iter().chain(new);
    let Some(first) = base.first() else { return all };
    for op in first.summary.ops.keys().copied().filter(|op| !op.is_part()) {
        if !runs().all(|run| run.summary.ops.contains_key(&op)) {
            continue;
        }
        // Response times of a run that fell behind say how long it was, not how fast the storage is.
        let percentiles =
            if runs().any(|run| is_saturated(run)) { Vec::new() } else { percentiles(op, request) };
        let percentiles = percentiles.into_iter().map(Figure::Percentile);
        for figure in [Figure::Rate].into_iter().chain(percentiles) {
            let figure = GateFigure { op, figure };
            if runs().all(|run| figure.value(run).is_some()) {
                all.push(compared(figure, base, new, units, request));
            }
        }
    }
    adjust(&mut all, units.alpha(), request);
    all
}

/// Median, nines, and what the gate asks for.
fn percentiles(op: OpKind, request: &CompareRequest) -> Vec<Percentile> {
    let gate = request.gate.iter().flat_map(|gate| &gate.figures).filter(|f| f.op == op);
    let asked = gate.filter_map(|f| f.figure.percentile());
    let nines = (1..=9).filter_map(Percentile::nines);
    let mut all: Vec<Percentile> =
        [Percentile::MEDIAN].into_iter().chain(nines).chain(asked).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// One figure of both sides, not adjusted for others.
pub fn compared(
    figure: GateFigure,
    base: &[&SideRun],
    new: &[&SideRun],
    units: Units<'_>,
    request: &CompareRequest,
) -> ComparedFigure {
    let values = |side: &[&SideRun]| -> Vec<f64> {
        side.iter().filter_map(|run| figure.value(run)).collect()
    };
    let (a, b) = (values(base), values(new));
    let margin = request.margin.unwrap_or(usual_margin(figure.figure));
    // Those of a gate share its error.
    let gate = request.gate.as_ref().filter(|gate| gate.has(&figure));
    let alpha = units.alpha() / gate.map_or(1.0, |gate| gate.figures.len() as f64);
    let (found, why) = difference(&figure, base, new, units, (&a, &b));
    let interval = found.map(|d| d.interval(alpha));
    let latency = figure.figure != Figure::Rate;
    let verdict = found.map_or(DifferenceVerdict::Undecided, |d| d.verdict(alpha, margin, latency));
    let ranks = a.len().min(b.len()) >= FOR_RANKS;
    let position = match units {
        Units::Pairs { base_first, .. } => position(&a, &b, base_first),
        Units::Runs => None,
    };
    let (base, new) = shown_values(&figure, base, new, units)
        .unwrap_or_else(|| (geometric_mean(&a), geometric_mean(&b)));
    let known = found.map(|d| d.ratio()).or(base.zip(new).map(|(a, b)| b / a));
    ComparedFigure {
        op: figure.op,
        figure: figure.figure.to_string(),
        base,
        new,
        ratio: known,
        lo: interval.map(|(lo, _)| lo),
        hi: interval.map(|(_, hi)| hi),
        p: found.map(|d| d.p_value()),
        p_ranks: mann_whitney(&a, &b).filter(|_| ranks),
        position,
        margin,
        verdict: named(verdict),
        needs: found.and_then(|d| d.needed_runs(margin)).filter(|n| *n > a.len() as u64),
        why: found.is_none().then_some(why),
    }
}

/// What the difference of two runs is made of: of a rate the steps inside the phase, without what was drained
/// after it.
fn shown_values(
    figure: &GateFigure,
    base: &[&SideRun],
    new: &[&SideRun],
    units: Units<'_>,
) -> Option<(Option<f64>, Option<f64>)> {
    let (Units::Runs, [one], [other]) = (units, base, new) else { return None };
    let (a, b) = figure.bounded(one).zip(figure.bounded(other))?;
    Some((Some(a.value), Some(b.value)))
}

/// The difference, or why there is none.
fn difference(
    figure: &GateFigure,
    base: &[&SideRun],
    new: &[&SideRun],
    units: Units<'_>,
    (a, b): (&[f64], &[f64]),
) -> (Option<LogDifference>, String) {
    let widest = |side: &[&SideRun]| side.iter().map(|run| figure.blur(run)).fold(0.0, f64::max);
    let blurred = |d: LogDifference| d.blurred(widest(base) + widest(new));
    match (units, base, new) {
        (Units::Pairs { why_undecided: Some(why), .. }, ..) => (None, why.to_owned()),
        (Units::Pairs { .. }, ..) => {
            (LogDifference::of_pairs(a, b).map(blurred), "fewer than two pairs".to_owned())
        }
        (Units::Runs, [one], [other]) => {
            let bounds = figure.bounded(one).zip(figure.bounded(other));
            let found = bounds.and_then(|(a, b)| LogDifference::of_two_runs(a, b));
            let foreign = |run: &SideRun| run.manifest.origin.imported().is_some();
            let why = match figure.figure {
                _ if foreign(one) || foreign(other) => {
                    "a result of another tool does not tell how figures changed over its time"
                }
                Figure::Rate => "a run is too short for an interval of its rate",
                Figure::Percentile(_) => "a run has too few I/Os, or events, for an interval of it",
            };
            (found, why.to_owned())
        }
        (Units::Runs, ..) => {
            let why = "a side has one run: give three or more".to_owned();
            (LogDifference::of_runs(a, b).map(blurred), why)
        }
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

/// Many figures looked at give a difference by chance. Those of the gate were chosen before; the others
/// are adjusted, and a better or worse that does not survive is undecided.
fn adjust(all: &mut [ComparedFigure], alpha: f64, request: &CompareRequest) {
    let is_gate = |f: &ComparedFigure| request.gate.as_ref().is_some_and(|g| g.has_compared(f));
    let explored: Vec<usize> =
        (0..all.len()).filter(|i| !is_gate(&all[*i]) && all[*i].p.is_some()).collect();
    let values: Vec<f64> = explored.iter().filter_map(|i| all[*i].p).collect();
    for (i, p) in explored.into_iter().zip(holm(&values)) {
        all[i].p = Some(p);
        let claims = matches!(all[i].verdict, CompareVerdict::Worse | CompareVerdict::Better);
        if claims && p >= alpha {
            all[i].verdict = CompareVerdict::Undecided;
        }
    }
    for figure in all.iter_mut().filter(|f| f.verdict != CompareVerdict::Undecided) {
        figure.needs = None;
    }
}

/// What it did to a figure to be the second of a pair, from its values in pairs. Pairs of either order
/// differ in it alone: half of what the logarithms of their ratios differ by is the effect. None with fewer
/// than two pairs of an order, or where a value is not positive.
fn position(base: &[f64], new: &[f64], base_first: &[bool]) -> Option<PositionEffect> {
    let ratios = |first: bool| -> Vec<f64> {
        let of = base.iter().zip(new).zip(base_first);
        of.filter(|(_, f)| **f == first).map(|((a, b), _)| b / a).collect()
    };
    let twice = LogDifference::of_runs(&ratios(false), &ratios(true))?;
    let (lo, hi) = twice.interval(0.05);
    let (ratio, lo, hi) = (twice.ratio().sqrt(), lo.sqrt(), hi.sqrt());
    Some(PositionEffect { ratio, lo, hi, p: twice.p_value() })
}
