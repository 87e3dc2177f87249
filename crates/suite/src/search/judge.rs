//! What the result of one probe says about the ceiling.
//!
//! The answer is the report's own check of that ceiling (`summary.qos`), at the error that the looks at one
//! demand leave each; a second rule could only contradict it. What is not decided is told apart by what
//! would decide it. A probe that did not meet its demand or had I/O errors fails whatever its percentile is.

use taillight_core::Percentile;
use taillight_core::plan::{Ceiling, SearchPlan};
use taillight_rundir::search::{ProbeReason, ProbeVerdict};
use taillight_rundir::summary::{LevelChange, Qos, QosStatus, ShareOver, Summary, WorkloadSummary};

use super::bisection::{Judgement, LONGEST};
use crate::figures::percentile;

/// So many times the I/Os of a probe, without one more over the ceiling, are too few of them; what
/// needs less lies near the ceiling.
const TOO_FEW: u64 = 2;

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
    /// The same of this probe's own I/Os, resolved or not.
    pub observed_ns: Option<u64>,
    /// Whether the I/Os depend on each other, so that fewer count.
    pub clustered: bool,
    /// I/Os over the ceiling, their share with the ends of its interval.
    pub above: Option<u64>,
    pub share: Option<ShareOver>,
    /// I/Os in all that would pass if not one more were over.
    pub needs: Option<u64>,
    /// I/Os in all that would decide it if the share stayed what it is.
    pub decides_at: Option<u64>,
    /// Whether its last sixth would miss the ceiling by itself.
    pub ends_missing: bool,
    /// When a figure changed its level, s since the start of measuring.
    pub changed_at_s: Option<f64>,
}

impl Default for JudgedRun {
    fn default() -> JudgedRun {
        JudgedRun {
            judgement: Judgement {
                verdict: ProbeVerdict::Unfinished,
                lacks: f64::INFINITY,
                decides: f64::INFINITY,
            },
            reason: ProbeReason::Unfinished,
            asked_per_s: None,
            achieved_per_s: 0.0,
            count: 0,
            ns: None,
            lo_ns: None,
            hi_ns: None,
            observed_ns: None,
            clustered: false,
            above: None,
            share: None,
            needs: None,
            decides_at: None,
            ends_missing: false,
            changed_at_s: None,
        }
    }
}

/// The ceiling that a probe is asked about, of the varied workload. `name` is that workload's where there are
/// several.
pub fn ceiling(search: &SearchPlan, name: Option<&str>) -> Ceiling {
    let workload = name.map(str::to_owned);
    Ceiling { workload, ..Ceiling::new(search.ceiling, search.at) }
}

/// The report's check of a ceiling.
fn check<'a>(summary: &'a Summary, asked: &Ceiling) -> Option<&'a Qos> {
    summary.qos.iter().find(|q| {
        let same = q.ceiling_ns == asked.ceiling.0 && q.at.parse::<Percentile>() == Ok(asked.at);
        same && q.workload == asked.workload && q.requests.is_none()
    })
}

/// Judges a probe of the ceiling that was `asked`, made `longer` times the usual length; none when there is
/// no result of the workload, or no check.
pub fn judge(
    summary: Option<&Summary>,
    asked: &Ceiling,
    workload: &str,
    longer: u32,
) -> Option<JudgedRun> {
    let summary = summary?;
    let of = summary.workloads.iter().find(|w| w.name == workload)?;
    let check = check(summary, asked)?;
    let totals = &of.totals;
    let latency = totals.latencies.main();
    let count = latency.count;
    let it = percentile(&latency.percentiles, asked.at);
    let saturation = &summary.saturation;
    let changed_at_s = changed_at_s(summary, of);
    let (verdict, reason) = if saturation.saturated {
        (ProbeVerdict::Fail, ProbeReason::Saturated)
    } else if totals.errors > 0 {
        (ProbeVerdict::Fail, ProbeReason::Errors)
    } else {
        match check.status {
            QosStatus::Pass => (ProbeVerdict::Pass, ProbeReason::Ceiling),
            QosStatus::Fail => (ProbeVerdict::Fail, ProbeReason::Ceiling),
            QosStatus::Undecided => {
                let changed = check.ends_missing || changed_at_s.is_some();
                (ProbeVerdict::Undecided, undecided(check, count, changed, longer))
            }
        }
    };
    let times = |ios: Option<u64>| match ios {
        Some(ios) if count > 0 => ios as f64 / count as f64,
        _ => f64::INFINITY,
    };
    Some(JudgedRun {
        judgement: Judgement {
            verdict,
            // It has enough of them where only its end is in the way.
            lacks: if check.ends_missing { 0.0 } else { times(check.needs) },
            decides: times(check.decides_at),
        },
        reason,
        asked_per_s: saturation.asked_per_s,
        achieved_per_s: match saturation.asked_per_s {
            Some(_) => saturation.achieved_per_s,
            None => totals.iops,
        },
        count,
        ns: it.and_then(|p| p.ns),
        lo_ns: it.and_then(|p| p.lo_ns),
        hi_ns: it.and_then(|p| p.hi_ns),
        observed_ns: it.and_then(|p| p.observed_ns),
        clustered: it.and_then(|p| p.effective).unwrap_or(count) < count,
        above: Some(check.above),
        share: check.share,
        needs: check.needs,
        decides_at: check.decides_at,
        ends_missing: check.ends_missing,
        changed_at_s,
    })
}

/// When a figure of the workload's operations first changed its level; not of operations that others have as well,
/// whose change it may be.
fn changed_at_s(summary: &Summary, of: &WorkloadSummary) -> Option<f64> {
    let has = |c: &&LevelChange| {
        let mut all = summary.workloads.iter().filter(|w| w.ops.contains_key(&c.op));
        all.next().is_some_and(|w| w.name == of.name) && all.next().is_none()
    };
    let changes = summary.changes.iter().filter(has);
    changes.map(|c| c.at_s).min_by(f64::total_cmp)
}

/// Why the I/Os do not decide it.
fn undecided(check: &Qos, count: u64, changed: bool, longer: u32) -> ProbeReason {
    if changed {
        return ProbeReason::LevelChanged;
    }
    // Where no number of I/Os is enough: for 100 % there are too few, else the ceiling lies too near.
    let never = check.at.parse() == Ok(Percentile::MAX);
    let few = check.needs.map_or(never, |needs| needs > count.saturating_mul(TOO_FEW));
    if check.above == 0 || few {
        return ProbeReason::TooFew;
    }
    let times = f64::from(LONGEST) / f64::from(longer.max(1));
    let soon = |n: u64| n as f64 <= count as f64 * times;
    match check.decides_at.is_some_and(soon) {
        true => ProbeReason::NeedsTime,
        false => ProbeReason::AtCeiling,
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_core::units::Span;
    use taillight_rundir::summary::ChangedFigure;

    use super::*;

    /// What a probe says whose check was changed, at the usual length.
    fn judged(change: impl FnOnce(&mut Summary, &mut Qos)) -> JudgedRun {
        let mut summary = taillight_rundir::fixture::summary("probe");
        let mut check = summary.qos.remove(0);
        (check.at, check.ceiling_ns) = ("99".to_owned(), 2_000_000);
        (check.above, check.needs, check.decides_at) = (9, Some(1_200), Some(5_000));
        summary.saturation.saturated = false;
        summary.workloads[0].totals.errors = 0;
        change(&mut summary, &mut check);
        summary.qos.push(check);
        let name = summary.workloads[0].name.clone();
        let asked = Ceiling::new(Span(2_000_000), Percentile::hundredths(99_00));
        judge(Some(&summary), &asked, &name, 1).expect("judged")
    }

    fn reason(change: impl FnOnce(&mut Summary, &mut Qos)) -> (ProbeVerdict, ProbeReason) {
        let judged = judged(change);
        (judged.judgement.verdict, judged.reason)
    }

    /// No I/O over the ceiling was told to lie "too close to the ceiling to be told from it".
    #[test]
    fn each_probe_has_its_own_reason() {
        use ProbeReason::*;
        use ProbeVerdict::{Fail, Pass, Undecided};
        let near = |_: &mut Summary, _: &mut Qos| {};
        assert_eq!(reason(near), (Undecided, NeedsTime));
        let none_over = |_: &mut Summary, q: &mut Qos| {
            (q.above, q.needs, q.decides_at) = (0, Some(1_100), Some(1_100));
        };
        assert_eq!(reason(none_over), (Undecided, TooFew));
        assert_eq!(reason(|_, q| q.needs = Some(9_000)), (Undecided, TooFew));
        assert_eq!(reason(|_, q| (q.needs, q.decides_at) = (None, None)), (Undecided, AtCeiling));
        assert_eq!(reason(|_, q| q.decides_at = Some(9_000)), (Undecided, AtCeiling));
        assert_eq!(reason(|_, q| q.decides_at = None), (Undecided, AtCeiling));
        assert_eq!(reason(|_, q| q.status = QosStatus::Pass), (Pass, Ceiling));
        assert_eq!(reason(|_, q| q.status = QosStatus::Fail), (Fail, Ceiling));
        let errors = |s: &mut Summary, q: &mut Qos| {
            s.workloads[0].totals.errors = 1;
            q.status = QosStatus::Pass;
        };
        assert_eq!(reason(errors), (Fail, Errors));
        assert_eq!(reason(|s, _| s.saturation.saturated = true), (Fail, Saturated));
    }

    /// The whole keeps the ceiling and the last sixth would not: it passed.
    #[test]
    fn a_probe_that_ends_missing_does_not_pass() {
        let ends = |_: &mut Summary, q: &mut Qos| {
            (q.ends_missing, q.needs, q.decides_at) = (true, None, None);
        };
        assert_eq!(reason(ends), (ProbeVerdict::Undecided, ProbeReason::LevelChanged));
        assert_eq!(judged(ends).judgement.lacks, 0.0, "more of it may tell");
        let changed = |s: &mut Summary, _: &mut Qos| {
            let op = *s.workloads[0].ops.keys().next().expect("an operation");
            s.changes = vec![change(op, 7.0), change(op, 3.5)];
        };
        assert_eq!(reason(changed), (ProbeVerdict::Undecided, ProbeReason::LevelChanged));
        assert_eq!(judged(changed).changed_at_s, Some(3.5));
        let shared = |s: &mut Summary, q: &mut Qos| {
            changed(s, q);
            let mut other = s.workloads[0].clone();
            other.name = "other".to_owned();
            s.workloads.push(other);
        };
        assert_eq!(judged(shared).changed_at_s, None, "it may be the other's");
    }

    fn change(op: OpKind, at_s: f64) -> LevelChange {
        LevelChange {
            op,
            figure: ChangedFigure::Median,
            ceiling_ns: None,
            at_s,
            before: 1.0,
            after: 2.0,
            rate_before: None,
            rate_after: None,
            over: Vec::new(),
        }
    }
}
