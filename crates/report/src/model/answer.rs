//! The answer of one run in a few sentences, in the same words for every output: what makes figures
//! worthless, then the ceilings, then the rate with 99 %. Outputs show the reasons of the verdict after it.

use taillight_core::OpKind;
use taillight_rundir::Summary;
use taillight_rundir::manifest::RunStatus;
use taillight_rundir::summary::{Qos, QosStatus, Reason, Totals, VerdictStatus};

use super::first::{MOST_LINES, bandwidth, card_value};
use crate::format;
use crate::text::origin;
use crate::verdict::{
    CEILING_FAILED, CEILING_UNDECIDED, MEASURED_TO_ITS_END, asked_for, leads, unmeasured, untold,
    whole_ops,
};
use crate::{by_chance, undecided};

/// The answer of one run: what a reader must know before any figure, its ceilings, rate and 99 % in plain words.
pub fn answer(summary: &Summary) -> String {
    let verdict = &summary.verdict;
    match answer_of(summary, verdict.status, &verdict.reasons) {
        text if text.is_empty() => verdict.text.clone(),
        text => text,
    }
}

/// The same of a verdict that is not in the summary yet.
pub fn answer_of(summary: &Summary, status: VerdictStatus, reasons: &[Reason]) -> String {
    let first = reasons.first().map(|r| r.text.clone());
    if status == VerdictStatus::Failed {
        return first.unwrap_or_default();
    }
    let known = |code: &str| reasons.iter().find(|r| r.code == code);
    // Of a program that was watched: that it did nothing is no failure.
    if let Some(nothing) = known("nothing_measured") {
        return nothing.text.clone();
    }
    let before = match status {
        VerdictStatus::Saturated => known("saturated").or(reasons.first()),
        VerdictStatus::Errors => reasons.first(),
        _ => reasons.first().filter(|r| leads(&r.code)),
    };
    // Ceilings are answered in words of their own.
    let asked = |r: &&Reason| [CEILING_FAILED, CEILING_UNDECIDED].contains(&r.code.as_str());
    let mut parts: Vec<String> =
        before.filter(|r| !asked(r)).map(|r| r.text.clone()).into_iter().collect();
    if unmeasured(summary) {
        let kept = match summary.totals.count {
            1 => "1 I/O is".to_owned(),
            n => format!("{} I/Os are", format::count(n)),
        };
        let missing = match summary.origin.is_watched() {
            true => "how many did not block, and were not seen,",
            false => "how many are missing",
        };
        let how = origin::every_call_behind(&summary.origin);
        parts.push(format!(
            "Rate and percentiles are unknown: {kept} kept; {missing} is not known{how}."
        ));
        return parts.join(" ");
    }
    parts.extend(origin::before_answer(&summary.origin));
    let mut asked: Vec<&Qos> = summary.qos.iter().collect();
    asked.sort_by_key(|qos| match qos.among_all() {
        QosStatus::Fail => 0,
        QosStatus::Undecided => 1,
        QosStatus::Pass => 2,
    });
    parts.extend(asked.into_iter().map(|qos| ceiling(qos, summary)));
    let what = partly(summary).unwrap_or_else(|| throughput(summary));
    let ops = whole_ops(summary).count();
    let tails: Vec<String> = whole_ops(summary)
        .take(MOST_LINES)
        // One I/O of a watched program has no tail.
        .filter(|(_, totals)| totals.count > 1 || !summary.origin.is_watched())
        .filter_map(|(op, totals)| tail(*op, ops, totals))
        .collect();
    parts.push(match tails.is_empty() {
        true => format!("{what}."),
        false => format!("{what}: {}.", tails.join(", ")),
    });
    if summary.status == RunStatus::Partial {
        let whole = |reason: &Reason| reason.text.starts_with(MEASURED_TO_ITS_END);
        parts.push(match reasons.iter().any(whole) {
            true => "The run was not completed.".to_owned(),
            false => "The run ended early.".to_owned(),
        });
    }
    parts.join(" ")
}

/// Operations and bytes a second. Another tool may tell bytes only, or means of latencies only.
fn throughput(summary: &Summary) -> String {
    let bytes = bandwidth(summary);
    let rate = match format::rate(summary.totals.iops).as_str() {
        "1" => "1 operation a second".to_owned(),
        rate => format!("{rate} operations a second"),
    };
    match (bytes, untold(&summary.totals, &summary.origin)) {
        (Some(bytes), true) => bytes,
        (Some(bytes), false) => format!("{rate} ({bytes})"),
        (None, false) => rate,
        (None, true) => {
            let mean = |(op, totals): (&OpKind, &Totals)| {
                let mean = totals.latencies.main().mean_ns?;
                Some(format!("{} {}", op.name(), format::duration(mean)))
            };
            let means: Vec<String> = whole_ops(summary).filter_map(mean).collect();
            match means.is_empty() {
                true => "no rate and no latency".to_owned(),
                false => format!("mean latency {}", means.join(", ")),
            }
        }
    }
}

/// The rate where a watched program did other kinds of operation as well, of which not all were seen; none where it did not.
fn partly(summary: &Summary) -> Option<String> {
    let all = || summary.workloads.iter().filter(|w| w.name != OpKind::Wait.name());
    let listed = |known: bool| {
        let some = all().filter(|w| (w.totals.latencies.service.count > 0) == known);
        some.map(|w| format!("{}s", w.name)).collect::<Vec<_>>().join(" and ")
    };
    let (known, others) = (listed(true), listed(false));
    (summary.origin.is_watched() && !known.is_empty() && !others.is_empty()).then(|| {
        let rate = format::rate(summary.totals.iops);
        let counted = |name: &str| origin::IN_WINDOWS.iter().any(|op| op.name() == name);
        let lacks = all().any(|w| w.totals.latencies.service.count == 0 && counted(&w.name));
        let how = if lacks { origin::every_call_behind(&summary.origin) } else { String::new() };
        format!("{rate} {known} a second, the rate of {others} is not known{how}")
    })
}

/// `99 % of reads within 212 us`.
fn tail(op: OpKind, ops: usize, totals: &Totals) -> Option<String> {
    let it = card_value("p99", totals)?;
    let (latency, kind) = asked_for(totals);
    let time = it.within();
    let of = match (ops, op) {
        (1, _) => "I/Os".to_owned(),
        (_, OpKind::Fsync) => "fsyncs".to_owned(),
        (_, op) => format!("{}s", op.name()),
    };
    let kind = (kind != "latency").then(|| kind.to_owned());
    let together = if it.together { ", many of them slow together," } else { "" };
    let few = |what: &str| {
        let are = if latency.count == 1 { "is" } else { "are" };
        format!("{}{together} {are} too few to {what}", format::counted(latency.count, "I/O"))
    };
    let (whose, few) = match (it.own, it.unbounded) {
        (true, _) => ("in this run ", Some(few("say so of the storage"))),
        (false, true) => ("", Some(few("bound it"))),
        (false, false) => ("", None),
    };
    let behind: Vec<String> = kind.into_iter().chain(few).collect();
    let behind = match behind.is_empty() {
        true => String::new(),
        false => format!(" ({})", behind.join("; ")),
    };
    Some(format!("{whose}99 % of {of} within {time}{behind}"))
}

/// One ceiling and its answer among all of the run, which is that of the exit code.
fn ceiling(qos: &Qos, summary: &Summary) -> String {
    let named = qos.workload.as_deref().or(qos.op.map(OpKind::name));
    let of = match (&qos.requests, named) {
        (None, named) => named.unwrap_or("all I/Os").to_owned(),
        (Some(requests), None) => format!("requests of {} I/Os", requests.fanout),
        (Some(requests), Some(named)) => format!("requests of {} I/Os of {named}", requests.fanout),
    };
    let asked = format!("{} % of {of} within {}", qos.at, format::duration_ns(qos.ceiling_ns));
    let over = qos.share_asked().and_then(|s| s.share).filter(|share| *share > 0.0);
    let time = qos.time_share.filter(|_| qos.requests.is_none()).map_or(String::new(), |time| {
        format!(", for {} of the workers' time", format::percent(time))
    });
    let share = over.map(|over| format!(" ({} took longer{time})", format::percent(over)));
    let share = share.unwrap_or_default();
    match (qos.among_all(), qos.status) {
        // In a closed loop few I/Os may be much time; else what is allowed is nothing to tell.
        (QosStatus::Pass, _) if qos.time_share.is_some() => format!("Kept: {asked}{share}."),
        (QosStatus::Pass, _) => format!("Kept: {asked}."),
        (QosStatus::Fail, _) => format!("Missed: {asked}{share}."),
        (QosStatus::Undecided, QosStatus::Fail) => {
            format!("Undecided: {asked}{share}; {}.", by_chance(summary.qos.len()))
        }
        (QosStatus::Undecided, _) => {
            format!("Undecided: {asked}{share}; {}.", undecided(qos, summary))
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::origin::RunOrigin;
    use taillight_rundir::summary::{RequestCheck, ShareOver};

    use super::super::first::answer_of_several;
    use super::*;

    fn run() -> Summary {
        let mut summary = taillight_rundir::fixture::summary("r");
        summary.qos.truncate(1);
        summary.verdict.reasons.clear();
        summary
    }

    /// A ceiling for requests is told with the share of requests, not of I/Os.
    #[test]
    fn a_ceiling_for_requests_is_told_as_theirs() {
        let mut summary = run();
        let qos = &mut summary.qos[0];
        let share = |share| ShareOver { share: Some(share), lo: 0.0, hi: 1.0 };
        (qos.status, qos.jointly, qos.time_share) = (QosStatus::Fail, None, Some(0.5));
        (qos.share, qos.workload, qos.op) = (Some(share(0.001)), None, None);
        qos.requests = Some(RequestCheck {
            fanout: 50,
            count: Some(100),
            failed: Some(5),
            measured: Some(share(0.05)),
            independent: share(0.06),
        });
        let said = answer(&summary);
        let told = format!("Missed: {} % of requests of 50 I/Os within", summary.qos[0].at);
        assert!(said.starts_with(&told), "{said}");
        assert!(said.contains("(5.0 % took longer)"), "{said}");
    }

    /// The sentence says "undecided" where all ceilings together do not decide this one, whatever it would be alone.
    #[test]
    fn a_ceiling_is_answered_among_all() {
        let mut summary = run();
        (summary.qos[0].status, summary.qos[0].jointly) =
            (QosStatus::Fail, Some(QosStatus::Undecided));
        summary.qos[0].requests = None;
        let said = answer(&summary);
        assert!(said.starts_with("Undecided: "), "{said}");
        assert!(said.contains("missed if it were the only ceiling"), "{said}");
        let several = answer_of_several(&[("a", &summary), ("b", &summary)]);
        assert!(several.contains("2 of 2 could not decide a ceiling"), "{several}");
    }

    /// Where a watch has figures of some kinds, or of none, it says how it comes to those of the others.
    #[test]
    fn figures_that_a_watch_lacks_are_told_with_how_it_gets_them() {
        let mut summary = run();
        summary.qos.clear();
        summary.origin = RunOrigin::watched("db");
        let mut other = summary.workloads[0].clone();
        (summary.workloads[0].name, other.name) = ("fsync".to_owned(), "write".to_owned());
        other.totals.latencies.service.count = 0;
        summary.workloads.push(other);
        let hint = "the rate of writes is not known (--exact 5% counts every call)";
        assert!(answer(&summary).contains(hint), "{}", answer(&summary));
        // Of names no calls are counted in windows.
        summary.workloads[1].name = "stat".to_owned();
        assert!(
            answer(&summary).contains("the rate of stats is not known: "),
            "{}",
            answer(&summary)
        );
        (summary.totals.iops, summary.totals.latencies.service.count) = (0.0, 0);
        let none = answer(&summary);
        assert!(none.ends_with("is not known (--exact 5% counts every call)."), "{none}");
        summary.origin = RunOrigin::Measured;
        assert!(!answer(&summary).contains("--exact"));
    }

    /// Wrong data, I/O errors and saturation stand before the figures; that the machine was busy does not.
    #[test]
    fn what_makes_figures_worthless_stands_before_them() {
        let summary = run();
        let why = |code: &str, text: &str| Reason { code: code.to_owned(), text: text.to_owned() };
        let of = |status, reasons: &[Reason]| answer_of(&summary, status, reasons);
        let wrong = [why("wrong_data", "Wrong data."), why("busy_machine", "Busy.")];
        assert!(of(VerdictStatus::Errors, &wrong).starts_with("Wrong data. "));
        let failed = [why("io_errors", "3 I/Os failed.")];
        assert!(of(VerdictStatus::Errors, &failed).starts_with("3 I/Os failed. "));
        let late = [why("load_behind", "Load."), why("saturated", "Not reached.")];
        assert!(of(VerdictStatus::Saturated, &late).starts_with("Not reached. "));
        let busy = [why("busy_machine", "Busy.")];
        assert!(!of(VerdictStatus::Warned, &busy).contains("Busy."), "no reason against figures");
        assert_eq!(of(VerdictStatus::Failed, &[why("failed", "Disk gone.")]), "Disk gone.");
    }
}
