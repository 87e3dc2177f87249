//! The difference of each quantile that the first run of base lists and all runs resolve, for the picture
//! over all of them.

use taillight_core::plan::{Figure, GateFigure};
use taillight_core::{OpKind, Percentile};
use taillight_rundir::compare::ComparedFigure;

use crate::CompareRequest;
use crate::comparable::is_saturated;
use crate::figures::{RunFigure, Units, compared};
use crate::side::SideRun;

/// Quantiles of each operation, the lowest first. Each is judged by itself. None where a run is saturated.
pub fn quantiles(
    base: &[&SideRun],
    new: &[&SideRun],
    units: Units<'_>,
    request: &CompareRequest,
) -> Vec<ComparedFigure> {
    let runs = || base.iter().chain(new);
    let Some(first) = base.first().filter(|_| !runs().any(|run| is_saturated(run))) else {
        return Vec::new();
    };
    let ops = first.summary.ops.keys().copied().filter(|op| !op.is_part());
    let all = ops.flat_map(|op| {
        let figure = move |p| GateFigure { op, figure: Figure::Percentile(p) };
        percentiles(first, op).into_iter().map(figure)
    });
    // A gate's share of error is that of the table alone.
    let request = CompareRequest { gate: None, ..request.clone() };
    all.filter(|figure| runs().all(|run| figure.value(run).is_some()))
        .map(|figure| compared(figure, base, new, units, &request))
        .collect()
}

/// Percentiles and nines of a run, the lowest first.
fn percentiles(run: &SideRun, op: OpKind) -> Vec<Percentile> {
    let Some(totals) = run.summary.ops.get(&op) else { return Vec::new() };
    let latency = totals.latencies.main();
    let asked = latency.percentiles.iter().filter_map(|entry| entry.p.parse().ok());
    let nines = latency.nines.iter().filter_map(|n| Percentile::nines(u8::try_from(n.k).ok()?));
    let mut all: Vec<Percentile> = asked.chain(nines).collect();
    all.sort_by(|a, b| b.tail_share().total_cmp(&a.tail_share()));
    all.dedup();
    all
}
