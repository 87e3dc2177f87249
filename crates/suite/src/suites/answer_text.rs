//! The answer over all ceilings of a suite in a few sentences: kept, missed or undecided, by how much, which
//! layer held most of the slow I/Os, and whether a level changed or a second look was taken. `answers` has the
//! table of all checks.

use taillight_core::Percentile;
use taillight_report::format::{count, duration, percent};
use taillight_report::undecided;
use taillight_rundir::Summary;
use taillight_rundir::summary::{Qos, QosStatus};

use super::answers::{AnsweredCeiling, quantile_of};
use crate::method::PointResult;

/// Kept ceilings that are named at most (of others the first is); the table has all.
const MOST_NAMED: usize = 3;

/// Layers that surely are none of the storage, beside the CPU; the page cache may have waited for it.
const ELSEWHERE: [&str; 5] = ["application", "stopped", "throttle", "completion", "io_uring"];

/// `Kept: 99 % of etcd's appends within 490 us, 20 times faster than asked (at most 0.11 % slower than 10 ms).`
/// `measures` is what those I/Os are; `looks` the first and the second run of a setting that took two, if any did.
pub(super) fn sentence(
    answer: QosStatus,
    checks: &[AnsweredCeiling<'_>],
    measures: Option<&str>,
    looks: &[&PointResult],
) -> String {
    let of: Vec<&AnsweredCeiling<'_>> = checks.iter().filter(|c| c.among_all() == answer).collect();
    let what = |c: &AnsweredCeiling<'_>| about(c, measures, checks);
    let mut parts: Vec<String> = Vec::new();
    let mut last = String::new();
    for check in of.iter().take(if answer == QosStatus::Pass { MOST_NAMED } else { 1 }) {
        let what = what(check);
        let named = if what == last { String::new() } else { format!(" of {what}") };
        parts.push(match answer {
            QosStatus::Pass => kept(check, &named),
            _ => open_or_missed(check, &named),
        });
        last = what;
    }
    if let Some(more) = of.len().checked_sub(parts.len()).filter(|more| *more > 0) {
        parts.push(format!(
            "the same for {}",
            taillight_report::format::counted(more as u64, "more ceiling")
        ));
    }
    let word = match answer {
        QosStatus::Pass => "Kept",
        QosStatus::Fail => "Missed",
        QosStatus::Undecided => "Undecided",
    };
    let mut text = match parts.is_empty() {
        true => format!("{word}: not all runs of the suite were measured whole."),
        false => format!("{word}: {}.", parts.join("; ")),
    };
    let first = of.first().filter(|_| answer != QosStatus::Pass);
    let more = [first.and_then(|c| in_the_way(c.qos)), changed(checks), second_look(looks)];
    for said in more.into_iter().flatten() {
        text.push(' ');
        text.push_str(&said);
    }
    text
}

/// `99 % of etcd's appends`; the run beside it where there are several.
fn about(
    check: &AnsweredCeiling<'_>,
    measures: Option<&str>,
    all: &[AnsweredCeiling<'_>],
) -> String {
    let q = check.qos;
    let what = match (&q.requests, measures, &q.workload) {
        (Some(r), ..) => format!("requests of {}", r.fanout),
        (None, Some(measures), _) => measures.to_owned(),
        (None, None, Some(workload)) => format!("I/Os of `{workload}`"),
        (None, None, None) => "I/Os".to_owned(),
    };
    let several = all.iter().any(|other| other.result.point.id != check.result.point.id);
    match several && !check.result.point.about.is_empty() {
        true => format!("{what} ({})", check.result.point.about),
        false => what,
    }
}

fn kept(check: &AnsweredCeiling<'_>, what: &str) -> String {
    let q = check.qos;
    let ceiling = duration(q.ceiling_ns as f64);
    let most = q.share_asked().map_or(String::new(), |s| {
        format!(" (at most {} of them slower than {ceiling})", percent(s.hi))
    });
    let value = quantile_of(check.summary, q).and_then(|it| it.ns);
    match value.filter(|ns| *ns > 0) {
        Some(ns) => {
            let within = duration(ns as f64);
            format!("{} %{what} within {within}, {}{most}", q.at, faster(q.ceiling_ns, ns))
        }
        None => format!("{} %{what} within {ceiling}{most}", q.at),
    }
}

/// How much faster than the ceiling.
fn faster(ceiling_ns: u64, ns: u64) -> String {
    let times = ceiling_ns as f64 / ns as f64;
    match times {
        t if t >= 10.0 => format!("{t:.0} times faster than asked"),
        t if t >= 1.15 => format!("{t:.1} times faster than asked"),
        _ => "just what is asked".to_owned(),
    }
}

fn open_or_missed(check: &AnsweredCeiling<'_>, what: &str) -> String {
    let q = check.qos;
    let ceiling = duration(q.ceiling_ns as f64);
    let allowed = q.at.parse::<Percentile>().map_or("-".to_owned(), |at| percent(at.tail_share()));
    let share = q.share_asked();
    let seen = share.and_then(|s| s.share).map_or("an unknown share".to_owned(), percent);
    let usual = share.map_or(String::new(), |s| {
        format!(", in the long run {} to {}", percent(s.lo), percent(s.hi))
    });
    let why = match check.among_all() {
        QosStatus::Undecided if check.by_chance() => {
            "; missed by itself, but one of so many ceilings is more often by chance".to_owned()
        }
        QosStatus::Undecided => format!("; {}", undecided(q, check.summary)),
        _ if check.by_rate() => "; the rate asked was not reached".to_owned(),
        _ => String::new(),
    };
    format!("{seen}{what} took longer than {ceiling}, where {allowed} may{usual}{why}")
}

/// Which layer held most of the slow I/Os. That it was not the disk is said where surely more than half of all slow
/// I/Os were held elsewhere: those that nothing explains may have been the disk's.
fn in_the_way(q: &Qos) -> Option<String> {
    let causes = q.cause.as_ref()?;
    // What waited behind earlier ones says nothing of what held those.
    let first = causes.iter().find(|c| c.layer != "schedule").or(causes.first())?;
    if first.layer == "unknown" {
        return None;
    }
    let known = causes.iter().filter(|c| c.layer != "unknown");
    let explained: u64 = known.map(|c| c.outliers).sum();
    let (held, all) = (count(first.outliers), count(q.above));
    let did = taillight_report::layer_did(&first.layer);
    let sure = if first.sure { "" } else { " (not sure)" };
    let is_most = first.sure && 2 * first.outliers > q.above;
    Some(match first.layer.as_str() {
        _ if 2 * explained <= q.above => {
            format!("Of the {} explained of {all} slow ones, {held} {did}{sure}.", count(explained))
        }
        "cpu" if is_most => {
            format!("The CPU was in the way, not the disk: {held} of {all} slow ones {did}.")
        }
        layer if is_most && ELSEWHERE.contains(&layer) => {
            format!("Not the storage was in the way: {held} of {all} slow ones {did}.")
        }
        _ => format!("{held} of {all} slow ones {did}{sure}."),
    })
}

/// The change of level inside the runs that answer, where there is one.
fn changed(checks: &[AnsweredCeiling<'_>]) -> Option<String> {
    let of = |s: &Summary| {
        let reasons = s.verdict.reasons.iter();
        reasons
            .into_iter()
            .find(|r| r.code == taillight_report::LEVEL_CHANGED)
            .map(|r| r.text.clone())
    };
    checks.iter().find_map(|c| of(c.summary))
}

/// That it took two looks.
fn second_look(looks: &[&PointResult]) -> Option<String> {
    let (first, second) = (looks.first()?, looks.get(1)?);
    let length = |r: &PointResult| {
        r.point.plan.run.duration.map_or("?".to_owned(), |d| duration(d.0 as f64))
    };
    Some(format!(
        "The first {} left it open; this is the answer of the {} measured after them, and all looks share \
         one error.",
        length(first),
        length(second)
    ))
}

#[cfg(test)]
mod tests {
    use taillight_rundir::summary::Cause;

    use super::*;

    /// Layer, outliers that it holds, whether it is sure.
    type ToldCause = (&'static str, u64, bool);

    /// "The CPU was in the way, not the disk" was said of 30 explained ones of 16,500.
    #[test]
    fn nobody_is_acquitted_by_what_is_not_explained() {
        let said = |above: u64, causes: &[ToldCause]| {
            let cause = |(layer, outliers, sure): &ToldCause| {
                let layer = (*layer).to_owned();
                Cause { layer, outliers: *outliers, excess_ns: 1, sure: *sure }
            };
            let mut q = taillight_rundir::fixture::summary("r").qos.remove(0);
            q.above = above;
            q.cause = Some(causes.iter().map(cause).collect());
            in_the_way(&q)
        };
        let cases: [(u64, &[ToldCause], &str); 7] = [
            (16_500, &[("cpu", 30, true)], "Of the 30 explained of 16,500 slow ones, 30"),
            (
                509,
                &[("cpu", 381, true), ("device", 90, true)],
                "The CPU was in the way, not the disk: 381 of 509",
            ),
            (509, &[("cpu", 250, true), ("device", 90, true)], "250 of 509 slow ones waited"),
            (509, &[("cpu", 381, false)], "381 of 509 slow ones waited for a CPU (not sure)."),
            (509, &[("schedule", 400, true), ("cpu", 60, true)], "60 of 509 slow ones waited"),
            (9, &[("page_cache", 8, true)], "8 of 9 slow ones waited for the page cache"),
            (9, &[("stopped", 8, true)], "Not the storage was in the way: 8 of 9"),
        ];
        for (above, causes, begins) in cases {
            let said = said(above, causes).expect("a cause");
            assert!(said.starts_with(begins), "{said}");
        }
        assert_eq!(said(9, &[("unknown", 9, true)]), None);
    }
}
