//! Workloads that are load only: what they did, from the intervals. They have no latency.

use taillight_rundir::summary::LoadSummary;

use crate::analyse::latency::per_s;
use crate::analyse::{Analysis, tallies};
use crate::verdict::saturation::asked;

/// One entry per workload that is not measured, in plan order.
pub fn load(analysis: &Analysis) -> Vec<LoadSummary> {
    let all = tallies(&analysis.intervals);
    let seconds = analysis.duration_ns as f64 / 1e9;
    let workloads = analysis.manifest.plan.workloads.iter().enumerate();
    workloads
        .filter(|(_, w)| !w.measured)
        .map(|(index, w)| {
            let mine = || {
                let of = all.iter().filter(move |((i, _), _)| usize::from(*i) == index);
                of.map(|(_, tally)| tally)
            };
            let count = mine().map(|t| t.count).sum();
            LoadSummary {
                name: w.name.clone(),
                count,
                bytes: mine().map(|t| t.bytes).sum(),
                errors: mine().map(|t| t.failed()).sum(),
                per_s: per_s(count as f64, seconds),
                asked_per_s: asked(w, seconds),
            }
        })
        .collect()
}
