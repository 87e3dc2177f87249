//! A replay beside its trace: latencies at the same percentiles, and operations due and completed over time.

use taillight_core::Result;
use taillight_core::plan::{RecordedPercentile, ReplayPlan, TraceArrivals, WorkloadPlan};
use taillight_rundir::summary::{ArrivalsSummary, QuantilePair, RecordedSummary};

use super::IoSet;
use crate::analyse::dists::headline;
use crate::analyse::{Analysis, measured};

/// Workloads that replay a trace, by their numbers.
fn replays(analysis: &Analysis) -> impl Iterator<Item = (u16, &WorkloadPlan, &ReplayPlan)> {
    let workloads = (0..).zip(&analysis.manifest.plan.workloads);
    workloads.filter_map(|(number, w)| Some((number, w, w.trace.as_ref()?)))
}

/// Latencies that replayed traces have, and those of the replay; of a rank alone none, whose trace is that of all ranks.
/// Errors: `Corrupt` when counts exceed 64 bits.
pub fn recorded(analysis: &Analysis) -> Result<Vec<RecordedSummary>> {
    if analysis.manifest.plan.ranks.is_some() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for (number, w, trace) in replays(analysis) {
        let Some(mut latency) = trace.recorded.clone() else { continue };
        let recorded = std::mem::take(&mut latency.quantiles);
        let groups = analysis.groups.iter().filter(|g| g.workload == number);
        let whole: Vec<_> = groups.filter(|g| analysis.is_whole(g.op)).collect();
        let set = IoSet::of(&whole)?;
        let here = headline(&set.latencies);
        let pair = |it: &RecordedPercentile| {
            // A percentile that would be the replay's slowest operation is left out.
            let told = it.percentile.rank(here.count()) < here.count();
            let replayed_ns = here.percentile(&it.percentile).filter(|_| told)?;
            Some(QuantilePair { percentile: it.percentile, recorded_ns: it.ns, replayed_ns })
        };
        // With fewer operations than the trace's figures are of, quantiles are no pairs: none.
        let whole = set.tally.count >= latency.operations;
        let quantiles = recorded.iter().filter(|_| whole).filter_map(pair).collect();
        all.push(RecordedSummary { workload: w.name.clone(), latency, quantiles });
    }
    Ok(all)
}

/// Leaves out what the trace has beyond the end of the workload or of the run: nobody was to do it.
fn until_end(arrivals: &mut TraceArrivals, w: &WorkloadPlan, ran_ns: u64) {
    let mut left = w.operations.unwrap_or(u64::MAX);
    for due in &mut arrivals.due {
        *due = (*due).min(left);
        left -= *due;
    }
    let own = w.duration.map_or(u64::MAX, |d| w.start_delay.0.saturating_add(d.0));
    // A run that went on to the trace's last operation ends in its last window or after it.
    let whole = (ran_ns.min(own) / arrivals.window_ns) as usize;
    if whole + 1 < arrivals.due.len() {
        arrivals.due.truncate(whole);
    }
}

/// Operations due and completed in the windows of each replay; of a rank alone none, whose trace is that of all ranks.
pub fn arrivals(analysis: &Analysis) -> Vec<ArrivalsSummary> {
    if analysis.manifest.plan.ranks.is_some() {
        return Vec::new();
    }
    // Without the drain: what is due in it nobody does.
    let measured = measured(&analysis.manifest.phases);
    let measured_ns = measured.map_or(analysis.duration_ns, |(from, to)| to.abs_diff(from));
    let of = |(number, w, trace): (u16, &WorkloadPlan, &ReplayPlan)| {
        let mut arrivals = trace.arrivals.clone().filter(|it| it.window_ns > 0)?;
        until_end(&mut arrivals, w, measured_ns);
        let mut completed = vec![0; arrivals.due.len()];
        let beyond = TraceArrivals::MOST_WINDOWS as usize;
        for row in analysis.intervals.iter().filter(|row| row.workload == number) {
            let since = row.start_ns.saturating_sub(analysis.start_ns).max(0).unsigned_abs();
            let window = (since / arrivals.window_ns) as usize;
            // What is due at the end is done after it; years of it are no replay.
            if window >= completed.len() && window < 2 * arrivals.due.len() + beyond {
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
