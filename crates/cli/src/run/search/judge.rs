//! What the result of one probe says about the ceiling.
//!
//! A percentile whose 95 % interval lies under the ceiling is a pass and one whose interval lies
//! above it a fail: the same statement as `taillight_stats::check_ceiling`, for the varied workload
//! alone. A probe that did not meet its demand fails whatever its percentile is.

use taillight_core::Percentile;
use taillight_core::plan::SearchPlan;
use taillight_rundir::search::{ProbeReason, ProbeVerdict};
use taillight_rundir::summary::Summary;
use taillight_stats::needed_two_sided;
use taillight_suite::search::Verdict;

use super::clusters::Clusters;
use crate::run::series;

/// A judged probe.
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    pub verdict: Verdict,
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
    /// Whether the interval is the one by episodes.
    pub clustered: bool,
}

impl Default for Judged {
    fn default() -> Judged {
        Judged {
            verdict: Verdict::Undecided {
                lacks: f64::INFINITY,
            },
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

impl Judged {
    /// The verdict as `search.json` has it.
    pub fn shown(&self) -> ProbeVerdict {
        match self.verdict {
            Verdict::Pass => ProbeVerdict::Pass,
            Verdict::Fail => ProbeVerdict::Fail,
            Verdict::Undecided { .. } => ProbeVerdict::Undecided,
        }
    }
}

/// The percentile a probe is judged by, as value and with the I/Os it rests on; none below the 90th,
/// where slow I/Os are no exceptions that could come together.
pub fn latency(
    summary: Option<&Summary>,
    search: &SearchPlan,
    workload: &str,
) -> Option<(Percentile, u64, u64)> {
    let of = summary?.workloads.iter().find(|w| w.name == workload)?;
    let latency = of.totals.latencies.main();
    let ns = series::percentile(&latency.percentiles, &search.at.to_string())?.ns?;
    (search.at >= Percentile::nines(1)?).then_some((search.at, ns, latency.count))
}

/// Judges a probe; none when there is no result of the workload. `clusters` is the interval by
/// episodes, where there is one.
pub fn judge(
    summary: Option<&Summary>,
    search: &SearchPlan,
    workload: &str,
    clusters: Option<Clusters>,
) -> Option<Judged> {
    let summary = summary?;
    let of = summary.workloads.iter().find(|w| w.name == workload)?;
    let totals = &of.totals;
    let latency = totals.latencies.main();
    let it = series::percentile(&latency.percentiles, &search.at.to_string());
    let (mut lo_ns, mut hi_ns) = (it.and_then(|p| p.lo_ns), it.and_then(|p| p.hi_ns));
    if let Some(wide) = clusters {
        // An end that the episodes cannot give is open.
        lo_ns = lo_ns.zip(wide.lo_ns).map(|(a, b)| a.min(b));
        hi_ns = hi_ns.zip(wide.hi_ns).map(|(a, b)| a.max(b));
    }
    let ceiling = search.ceiling.0;
    let saturation = &summary.saturation;
    let (verdict, reason) = if saturation.saturated {
        (Verdict::Fail, ProbeReason::Saturated)
    } else if totals.errors > 0 {
        (Verdict::Fail, ProbeReason::Errors)
    } else if hi_ns.is_some_and(|hi| hi <= ceiling) {
        (Verdict::Pass, ProbeReason::Ceiling)
    } else if lo_ns.is_some_and(|lo| lo > ceiling) {
        (Verdict::Fail, ProbeReason::Ceiling)
    } else {
        let count = clusters.map_or(latency.count, |c| c.effective);
        let lacks = lacks(search.at, count);
        (Verdict::Undecided { lacks }, ProbeReason::Undecided)
    };
    Some(Judged {
        verdict,
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
        clustered: clusters.is_some(),
    })
}

/// The I/Os a pass needs at least, over those there are.
fn lacks(at: Percentile, count: u64) -> f64 {
    match needed_two_sided(&at) {
        Some(needed) if count > 0 => needed as f64 / count as f64,
        _ => f64::INFINITY,
    }
}
