//! What the result of one probe says about the ceiling.
//!
//! A percentile whose 95 % interval lies under the ceiling is a pass and one whose interval lies
//! above it a fail: the same statement as `taillight_stats::Intervals::check_ceiling`, for the varied workload
//! alone. A probe that did not meet its demand fails whatever its percentile is.

use taillight_core::Percentile;
use taillight_core::plan::SearchPlan;
use taillight_rundir::search::{ProbeReason, ProbeVerdict};
use taillight_rundir::summary::Summary;
use taillight_stats::needed_two_sided;

use super::bisection::Judgement;
use crate::figures::percentile;

/// A judged probe.
#[derive(Debug, Clone, Copy)]
pub struct JudgedRun {
    pub judgement: Judgement,
    /// What it rests on.
    pub reason: ProbeReason,
    /// Operations per second asked; none in a closed loop.
    pub asked_per_s: Option<f64>,
    /// Operations per second achieved.
    pub achieved_per_s: f64,
    /// I/Os the percentile rests on.
    pub count: u64,
    /// The percentile and the ends of its interval.
    pub ns: Option<u64>,
    pub lo_ns: Option<u64>,
    pub hi_ns: Option<u64>,
    /// Whether the I/Os depend on each other, so that fewer count.
    pub clustered: bool,
}

impl Default for JudgedRun {
    fn default() -> JudgedRun {
        JudgedRun {
            judgement: Judgement { verdict: ProbeVerdict::Unfinished, lacks: f64::INFINITY },
            reason: ProbeReason::Unfinished,
            asked_per_s: None,
            achieved_per_s: 0.0,
            count: 0,
            ns: None,
            lo_ns: None,
            hi_ns: None,
            clustered: false,
        }
    }
}

/// Judges a probe; none when there is no result of the workload.
pub fn judge(summary: Option<&Summary>, search: &SearchPlan, workload: &str) -> Option<JudgedRun> {
    let summary = summary?;
    let of = summary.workloads.iter().find(|w| w.name == workload)?;
    let totals = &of.totals;
    let latency = totals.latencies.main();
    let it = percentile(&latency.percentiles, search.at);
    let (lo_ns, hi_ns) = (it.and_then(|p| p.lo_ns), it.and_then(|p| p.hi_ns));
    let effective = it.and_then(|p| p.effective).unwrap_or(latency.count);
    let ceiling = search.ceiling.0;
    let saturation = &summary.saturation;
    let mut needs_more = 0.0;
    let (verdict, reason) = if saturation.saturated {
        (ProbeVerdict::Fail, ProbeReason::Saturated)
    } else if totals.errors > 0 {
        (ProbeVerdict::Fail, ProbeReason::Errors)
    } else if hi_ns.is_some_and(|hi| hi <= ceiling) {
        (ProbeVerdict::Pass, ProbeReason::Ceiling)
    } else if lo_ns.is_some_and(|lo| lo > ceiling) {
        (ProbeVerdict::Fail, ProbeReason::Ceiling)
    } else {
        let interval = it.and_then(|p| p.interval_needs).unwrap_or(0);
        needs_more = (interval as f64 / latency.count as f64).max(lacks(search.at, effective));
        (ProbeVerdict::Undecided, ProbeReason::Undecided)
    };
    Some(JudgedRun {
        judgement: Judgement { verdict, lacks: needs_more },
        reason,
        asked_per_s: saturation.asked_per_s,
        achieved_per_s: match saturation.asked_per_s {
            Some(_) => saturation.achieved_per_s,
            None => totals.iops,
        },
        count: latency.count,
        ns: it.and_then(|p| p.ns),
        lo_ns,
        hi_ns,
        clustered: effective < latency.count,
    })
}

/// The I/Os a pass needs at least, over those there are.
fn lacks(at: Percentile, count: u64) -> f64 {
    match needed_two_sided(&at) {
        Some(needed) if count > 0 => needed as f64 / count as f64,
        _ => f64::INFINITY,
    }
}
