//! What the ceilings of a suite's runs say: kept, missed or undecided, with the interval.
//!
//! What it is: the checks of each run's report side by side, as a table and for `series.json`. What it
//! is not: a check. Used by the rule `matrix`; runs without ceilings have no answer.

use serde_json::{Value, json};
use taillight_core::Percentile;
use taillight_core::exit::Exit;
use taillight_report::format::{count, duration, percent};
use taillight_report::layer_words;
use taillight_report::table::{Cell, Table};
use taillight_report::undecided;
use taillight_rundir::Summary;
use taillight_rundir::summary::{Cause, Qos, QosStatus};

use crate::figures::quantile;
use crate::method::PointResult;

/// Every check with its run.
fn checks(done: &[PointResult]) -> impl Iterator<Item = (&PointResult, &Summary, &Qos)> {
    let runs = done.iter().filter_map(|r| Some((r, r.summary.as_ref()?)));
    runs.flat_map(|(r, s)| s.qos.iter().map(move |q| (r, s, q)))
}

fn word(status: QosStatus) -> &'static str {
    match status {
        QosStatus::Pass => "kept",
        QosStatus::Fail => "missed",
        QosStatus::Undecided => "undecided",
    }
}

/// The answer of a check. A run that did not reach its rate has no steady response time to decide by: with
/// more I/Os over the ceiling than allowed, the load itself was too much, and the ceiling is missed.
fn status(summary: &Summary, q: &Qos) -> QosStatus {
    of_run(summary, q, q.status)
}

/// The same as one of all ceilings of the run.
fn among_all(summary: &Summary, q: &Qos) -> QosStatus {
    of_run(summary, q, q.among_all())
}

fn of_run(summary: &Summary, q: &Qos, status: QosStatus) -> QosStatus {
    match (status, summary.saturation.saturated && too_many_over(q)) {
        (QosStatus::Undecided, true) => QosStatus::Fail,
        (status, _) => status,
    }
}

fn too_many_over(q: &Qos) -> bool {
    let share = q.requests.as_ref().map_or(q.share, |r| r.measured).and_then(|s| s.share);
    let allowed = q.at.parse::<Percentile>().ok().map(|at| at.tail_share());
    share.zip(allowed).is_some_and(|(share, allowed)| share > allowed)
}

/// Whether a run measured all it was to measure, without failed I/Os or wrong data.
fn sound(result: &PointResult) -> bool {
    let fine = matches!(result.exit, Exit::Ok | Exit::GateFailed | Exit::GateUndecided);
    let judged = result.summary.is_some() || result.point.plan.qos.ceilings.is_empty();
    result.complete() && fine && judged
}

/// Whether a ceiling of some run is missed.
pub(super) fn missed(done: &[PointResult]) -> bool {
    checks(done).any(|(_, s, q)| among_all(s, q) == QosStatus::Fail)
}

/// The answer over all runs: missed if one is, kept if all are and the series is `whole`; none without a
/// ceiling.
fn overall(done: &[PointResult], whole: bool) -> Option<&'static str> {
    let all: Vec<QosStatus> = checks(done).map(|(_, s, q)| among_all(s, q)).collect();
    let has = |status| all.contains(&status);
    let worst = if has(QosStatus::Fail) {
        QosStatus::Fail
    } else if has(QosStatus::Undecided) || !whole || !done.iter().all(sound) {
        QosStatus::Undecided
    } else {
        QosStatus::Pass
    };
    (!all.is_empty()).then(|| word(worst))
}

/// For `series.json`; none without a ceiling.
pub(super) fn answer(done: &[PointResult], whole: bool) -> Option<Value> {
    let check = |(r, s, q): (&PointResult, &Summary, &Qos)| json!({ "run": r.point.id, "answer": word(status(s, q)), "layer": layer(q), "check": q });
    let all = overall(done, whole)?;
    Some(json!({ "answer": all, "ceilings": checks(done).map(check).collect::<Vec<_>>() }))
}

/// The same for people: one word, and a row for each ceiling of each run.
pub(super) fn table(done: &[PointResult], whole: bool) -> Option<(String, Table)> {
    let all = overall(done, whole)?;
    let columns = [
        "run",
        "of",
        "ceiling",
        "for",
        "answer",
        "measured, 95 %",
        "I/Os over, share, 95 %",
        "those over held by",
    ];
    let mut table = Table::of_words("ceilings", "Ceilings", &columns);
    for (result, summary, q) in checks(done) {
        let answer = status(summary, q);
        let why = match answer {
            _ if answer != q.status => ", the rate was not reached".to_owned(),
            QosStatus::Undecided => format!(": {}", undecided(q, summary.totals.duration_ns)),
            _ => String::new(),
        };
        let of = match &q.requests {
            Some(r) => format!("requests of {}", r.fanout),
            None => q.workload.clone().unwrap_or_else(|| "all".to_owned()),
        };
        let row = [
            result.point.id.clone(),
            of,
            time(q.ceiling_ns),
            format!("{} %", q.at),
            format!("{}{why}", word(answer)),
            measured(summary, q),
            over(q),
            layer(q).unwrap_or("-".to_owned()),
        ];
        table.rows.push(row.into_iter().map(Cell::new).collect());
    }
    Some((format!("Answer  {all}"), table))
}

fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// The percentile that the ceiling is for, with its interval.
fn measured(summary: &Summary, q: &Qos) -> String {
    if q.requests.is_some() {
        return "-".to_owned();
    }
    let own = |name: &String| summary.workloads.iter().find(|w| w.name == *name);
    let totals = q.workload.as_ref().map_or(Some(&summary.totals), |n| Some(&own(n)?.totals));
    let at = totals.zip(q.at.parse().ok()).and_then(|(t, p)| quantile(t.latencies.main(), p));
    let Some(it) = at else {
        return "-".to_owned();
    };
    let shown = |ns: Option<u64>| ns.map_or("-".to_owned(), time);
    format!("{} ({} to {})", shown(it.ns), shown(it.lo_ns), shown(it.hi_ns))
}

fn over(q: &Qos) -> String {
    let share = q.requests.as_ref().map_or(q.share, |r| r.measured);
    share.map_or("unknown".to_owned(), |s| {
        let share = s.share.map_or("-".to_owned(), percent);
        let over = match q.requests {
            Some(_) => String::new(),
            None => format!("{}: ", count(q.above)),
        };
        format!("{over}{share} ({} to {})", percent(s.lo), percent(s.hi))
    })
}

/// The layer that held most of the I/Os over the ceiling; none where nothing was traced or over it. I/Os
/// that waited for earlier ones say nothing of what held those: the next layer stands beside them.
fn layer(q: &Qos) -> Option<String> {
    let causes = q.cause.as_ref()?;
    let words = |cause: &Cause| {
        let sure = if cause.sure { "" } else { ", not sure" };
        format!(
            "{} ({} of {}{sure})",
            layer_words(&cause.layer),
            count(cause.outliers),
            count(q.above)
        )
    };
    let shown = if causes.first()?.layer == "schedule" { 2 } else { 1 };
    Some(causes.iter().take(shown).map(words).collect::<Vec<_>>().join(", "))
}
