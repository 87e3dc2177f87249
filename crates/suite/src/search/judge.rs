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

use super::bisection::Judgement;
use super::episodes::{EpisodeInterval, JudgedPercentile};
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
    /// Whether the interval is the one by episodes.
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

/// What the interval by episodes is asked for; none below the 90th percentile, where slow I/Os are no
/// exceptions that could come together.
pub fn judged_percentile(
    summary: Option<&Summary>,
    search: &SearchPlan,
    (index, name): (usize, &str),
) -> Option<JudgedPercentile> {
    let of = summary?.workloads.iter().find(|w| w.name == name)?;
    let latency = of.totals.latencies.main();
    let ns = percentile(&latency.percentiles, search.at)?.ns?;
    let exceptional = search.at >= Percentile::nines(1)?;
    exceptional.then_some(JudgedPercentile {
        workload: u16::try_from(index).ok()?,
        at: search.at,
        ns,
        count: latency.count,
    })
}

/// Judges a probe; none when there is no result of the workload. `by_episodes` is the interval by
/// episodes, where there is one.
pub fn judge(
    summary: Option<&Summary>,
    search: &SearchPlan,
    workload: &str,
    by_episodes: Option<EpisodeInterval>,
) -> Option<JudgedRun> {
    let summary = summary?;
    let of = summary.workloads.iter().find(|w| w.name == workload)?;
    let totals = &of.totals;
    let latency = totals.latencies.main();
    let it = percentile(&latency.percentiles, search.at);
    let (mut lo_ns, mut hi_ns) = (it.and_then(|p| p.lo_ns), it.and_then(|p| p.hi_ns));
    if let Some(wide) = by_episodes {
        // An end that the episodes cannot give is open.
        lo_ns = lo_ns.zip(wide.lo_ns).map(|(a, b)| a.min(b));
        hi_ns = hi_ns.zip(wide.hi_ns).map(|(a, b)| a.max(b));
    }
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
        let count = by_episodes.map_or(latency.count, |c| c.effective);
        needs_more = lacks(search.at, count);
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
        clustered: by_episodes.is_some(),
    })
}

/// The I/Os a pass needs at least, over those there are.
fn lacks(at: Percentile, count: u64) -> f64 {
    match needed_two_sided(&at) {
        Some(needed) if count > 0 => needed as f64 / count as f64,
        _ => f64::INFINITY,
    }
}
