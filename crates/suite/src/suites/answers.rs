//! What the ceilings of a suite's runs say (kept, missed or undecided, with the interval): the checks of
//! each run's report side by side, as a table and for `series.json`, the answer over all of them, and the exit code
//! that follows. Used by the rule `matrix`; runs without ceilings have no answer.

use serde_json::{Value, json};
use taillight_core::Percentile;
use taillight_core::exit::Exit;
use taillight_report::format::{count, duration, percent};
use taillight_report::layer_words;
use taillight_report::table::{Cell, Table};
use taillight_rundir::Summary;
use taillight_rundir::latency::Quantile;
use taillight_rundir::summary::{Cause, Qos, QosStatus};

use super::answer_text;
use crate::figures::quantile;
use crate::method::PointResult;

/// One ceiling of one run.
pub(super) struct AnsweredCeiling<'a> {
    pub result: &'a PointResult,
    pub summary: &'a Summary,
    pub qos: &'a Qos,
}

impl AnsweredCeiling<'_> {
    /// The answer of the check by itself.
    fn status(&self) -> QosStatus {
        of_run(self.summary, self.qos, self.qos.status)
    }

    /// The same as one of all ceilings of the run.
    pub fn among_all(&self) -> QosStatus {
        of_run(self.summary, self.qos, self.qos.among_all())
    }

    /// Whether it is missed for the rate alone that the run did not reach.
    pub fn by_rate(&self) -> bool {
        self.status() != self.qos.status
    }

    /// Whether it is missed by itself, and undecided as one of several.
    pub fn by_chance(&self) -> bool {
        self.status() == QosStatus::Fail && self.among_all() == QosStatus::Undecided
    }
}

/// Every check of the runs that answer; of a run without a summary there is none.
fn checks<'a>(answering: &[&'a PointResult]) -> Vec<AnsweredCeiling<'a>> {
    let of = |result: &&'a PointResult| {
        let result: &'a PointResult = result;
        let summary = result.summary.as_ref()?;
        Some(summary.qos.iter().map(move |qos| AnsweredCeiling { result, summary, qos }))
    };
    answering.iter().filter_map(of).flatten().collect()
}

/// What each ceiling of a run is as one of all, in their order.
pub(super) fn statuses(summary: &Summary) -> impl Iterator<Item = QosStatus> {
    summary.qos.iter().map(move |q| of_run(summary, q, q.among_all()))
}

fn word(status: QosStatus) -> &'static str {
    match status {
        QosStatus::Pass => "kept",
        QosStatus::Fail => "missed",
        QosStatus::Undecided => "undecided",
    }
}

/// The answer of a check whose report says `status`; it differs only where that is undecided. A run that did not reach
/// its rate has no steady response time to decide by: with more I/Os over the ceiling than allowed, the load itself was
/// too much, and the ceiling is missed.
fn of_run(summary: &Summary, q: &Qos, status: QosStatus) -> QosStatus {
    match (status, summary.saturation.saturated && too_many_over(q)) {
        (QosStatus::Undecided, true) => QosStatus::Fail,
        (status, _) => status,
    }
}

/// Whether the share over the ceiling is more than the percentile allows; false where it is not known.
fn too_many_over(q: &Qos) -> bool {
    let share = q.share_asked().and_then(|s| s.share);
    let allowed = q.at.parse::<Percentile>().ok().map(|at| at.tail_share());
    share.zip(allowed).is_some_and(|(share, allowed)| share > allowed)
}

/// Whether a run measured all it was to measure, without failed I/Os or wrong data.
fn sound(result: &PointResult) -> bool {
    let fine = matches!(result.exit, Exit::Ok | Exit::GateFailed | Exit::GateUndecided);
    let judged = result.summary.is_some() || result.point.plan.qos.ceilings.is_empty();
    result.complete() && fine && judged
}

/// What the runs that answer say.
pub(super) struct Answering<'a> {
    /// The last look at each setting.
    pub runs: Vec<&'a PointResult>,
    /// The looks at a setting that took several; empty where none did.
    pub looks: Vec<&'a PointResult>,
    /// Whether no run is still to come.
    pub whole: bool,
}

/// The exit code of the answer where it is missed or undecided; none where it is kept, or where nothing was asked.
pub(super) fn exit(of: &Answering<'_>) -> Option<Exit> {
    match overall(of, &checks(&of.runs))? {
        QosStatus::Pass => None,
        QosStatus::Fail => Some(Exit::GateFailed),
        QosStatus::Undecided => Some(Exit::GateUndecided),
    }
}

/// The answer over all runs: missed if one ceiling is, kept if all are, every run is sound and the series is whole,
/// else undecided; none without a ceiling.
fn overall(of: &Answering<'_>, checks: &[AnsweredCeiling<'_>]) -> Option<QosStatus> {
    let has = |status| checks.iter().any(|check| check.among_all() == status);
    let worst = if has(QosStatus::Fail) {
        QosStatus::Fail
    } else if has(QosStatus::Undecided) || !of.whole || !of.runs.iter().all(|r| sound(r)) {
        QosStatus::Undecided
    } else {
        QosStatus::Pass
    };
    (!checks.is_empty()).then_some(worst)
}

/// The answer for `series.json`, in a word and in a text, with every check; none without a ceiling. `measures`: what
/// the I/Os are, for the text.
pub(super) fn answer(of: &Answering<'_>, measures: Option<&str>) -> Option<Value> {
    let all = checks(&of.runs);
    let check = |c: &AnsweredCeiling<'_>| json!({ "run": c.result.point.id, "answer": word(c.status()), "layer": layer(c.qos), "check": c.qos });
    let answer = overall(of, &all)?;
    let text = answer_text::sentence(answer, &all, measures, &of.looks);
    Some(json!({
        "answer": word(answer),
        "text": text,
        "ceilings": all.iter().map(check).collect::<Vec<_>>()
    }))
}

/// The same for people: a sentence, and a row for each ceiling of each run that answers. Without a ceiling none; the
/// columns of run and workload are left out where all rows have the same.
pub(super) fn table(of: &Answering<'_>, measures: Option<&str>) -> Option<(String, Table)> {
    let all = checks(&of.runs);
    let answer = overall(of, &all)?;
    let looks = all.iter().filter_map(|c| c.qos.looks).max().unwrap_or(1);
    let over = format!("I/Os over, share, {}", percent(1.0 - 0.05 / f64::from(looks)));
    let columns = [
        "run",
        "of",
        "ceiling",
        "for",
        "answer",
        "measured, 95 %",
        over.as_str(),
        "those over held by",
    ];
    let mut table = Table::of_words("ceilings", "Ceilings", &columns);
    for check in &all {
        let (summary, q, answer) = (check.summary, check.qos, check.status());
        // Why it is undecided stands in the sentence.
        let why = match answer {
            _ if check.by_rate() => ", the rate was not reached".to_owned(),
            _ => String::new(),
        };
        let of = match &q.requests {
            Some(r) => format!("requests of {}", r.fanout),
            None => q.workload.clone().unwrap_or_else(|| "all".to_owned()),
        };
        let row = [
            check.result.point.id.clone(),
            of,
            time(q.ceiling_ns),
            format!("{} %", q.at),
            format!("{}{why}", word(answer)),
            measured(summary, q),
            share_over(q),
            layer(q).unwrap_or("-".to_owned()),
        ];
        table.rows.push(row.into_iter().map(Cell::new).collect());
    }
    // What all rows share tells none of them apart.
    leave_out_shared(&mut table, "of");
    leave_out_shared(&mut table, "run");
    Some((answer_text::sentence(answer, &all, measures, &of.looks), table))
}

/// Leaves a column out in which all rows have the same, if there is one of this heading.
fn leave_out_shared(table: &mut Table, heading: &str) {
    let Some(at) = table.columns.iter().position(|c| c == heading) else { return };
    if table.rows.windows(2).all(|two| two[0][at].text == two[1][at].text) {
        table.columns.remove(at);
        table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
}

fn time(ns: u64) -> String {
    duration(ns as f64)
}

/// The percentile that a ceiling is for; none for requests, and where the summary does not have it.
pub(super) fn quantile_of<'a>(summary: &'a Summary, q: &Qos) -> Option<&'a Quantile> {
    let own = |name: &String| summary.workloads.iter().find(|w| w.name == *name);
    let totals = q.workload.as_ref().map_or(Some(&summary.totals), |n| Some(&own(n)?.totals))?;
    let at = q.at.parse().ok().filter(|_| q.requests.is_none())?;
    quantile(totals.latencies.main(), at)
}

/// The percentile that the ceiling is for as text, with its interval; `-` without one.
fn measured(summary: &Summary, q: &Qos) -> String {
    let Some(it) = quantile_of(summary, q) else {
        return "-".to_owned();
    };
    let shown = |ns: Option<u64>| ns.map_or("-".to_owned(), time);
    format!("{} ({} to {})", shown(it.ns), shown(it.lo_ns), shown(it.hi_ns))
}

/// How many I/Os are over a ceiling and what share that is, with its interval, as text; of requests the share alone.
fn share_over(q: &Qos) -> String {
    q.share_asked().map_or("unknown".to_owned(), |s| {
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
