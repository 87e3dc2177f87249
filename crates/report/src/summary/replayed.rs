//! A replay beside its trace: latencies at the same percentiles, and operations due and completed over time.

use taillight_core::Result;
use taillight_core::plan::{RecordedPercentile, ReplayPlan, WorkloadPlan};
use taillight_rundir::summary::{ArrivalsSummary, QuantilePair, RecordedSummary};

use super::IoSet;
use crate::analyse::Analysis;
use crate::analyse::dists::headline;

/// Workloads that replay a trace, by their numbers.
fn replays(analysis: &Analysis) -> impl Iterator<Item = (u16, &WorkloadPlan, &ReplayPlan)> {
    let workloads = (0..).zip(&analysis.manifest.plan.workloads);
    workloads.filter_map(|(number, w)| Some((number, w, w.trace.as_ref()?)))
}

/// Latencies that replayed traces have, and those of the replay. Errors: `Corrupt` when counts exceed 64 bits.
pub fn recorded(analysis: &Analysis) -> Result<Vec<RecordedSummary>> {
    let mut all = Vec::new();
    for (number, w, trace) in replays(analysis) {
        let Some(latency) = trace.recorded.clone() else { continue };
        let groups = analysis.groups.iter().filter(|g| g.workload == number);
        let whole: Vec<_> = groups.filter(|g| analysis.is_whole(g.op)).collect();
        let set = IoSet::of(&whole)?;
        let here = headline(&set.latencies);
        let pair = |it: &RecordedPercentile| {
            // Of fewer operations than the trace has it may be the largest: no quantile of them.
            let told = it.percentile.rank(here.count()) < here.count();
            let replayed_ns = here.percentile(&it.percentile).filter(|_| told)?;
            Some(QuantilePair { percentile: it.percentile, recorded_ns: it.ns, replayed_ns })
        };
        let quantiles = latency.quantiles.iter().filter_map(pair).collect();
        all.push(RecordedSummary { workload: w.name.clone(), latency, quantiles });
    }
    Ok(all)
}

/// Operations due and completed in the windows of each replay.
pub fn arrivals(analysis: &Analysis) -> Vec<ArrivalsSummary> {
    let of = |(number, w, trace): (u16, &WorkloadPlan, &ReplayPlan)| {
        let arrivals = trace.arrivals.clone().filter(|it| it.window_ns > 0)?;
        let mut completed = vec![0; arrivals.due.len()];
        let rows = analysis.intervals.iter().filter(|row| row.workload == number);
        for row in rows.filter(|row| row.phase == "measure" || row.phase == "drain") {
            let since = row.start_ns.saturating_sub(analysis.start_ns).max(0).unsigned_abs();
            let window = (since / arrivals.window_ns) as usize;
            // What is due at the end is done after it; years of it are no replay.
            if window >= completed.len() && window < 2 * arrivals.due.len() + 1800 {
                completed.resize(window + 1, 0);
            }
            if let Some(count) = completed.get_mut(window) {
                *count += row.ops;
            }
        }
        let (workload, window_ns) = (w.name.clone(), arrivals.window_ns);
        Some(ArrivalsSummary { workload, window_ns, due: arrivals.due, completed })
    };
    replays(analysis).filter_map(of).collect()
}
