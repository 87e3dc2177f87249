//! A point of a series as one line of the console: rate and p99 of its summary, its place, and the time left.
//! Called by the runner of series.

use taillight_report::format::rate;
use taillight_report::model::{first, word};
use taillight_report::table::{Tone, width};
use taillight_rundir::Summary;
use taillight_rundir::summary::WorkloadSummary;

use crate::method::PointResult;
use crate::suites::length;

/// Workloads with a ceiling of their own in a run of several workloads: rates of all together say nothing then. None of
/// a run with one workload.
pub(crate) fn judged(summary: &Summary) -> impl Iterator<Item = &WorkloadSummary> {
    let several = summary.workloads.len() > 1;
    let has =
        |w: &&WorkloadSummary| summary.qos.iter().any(|q| q.workload.as_ref() == Some(&w.name));
    summary.workloads.iter().filter(move |w| several && has(w))
}

/// `03-queue-depth-4  3,996/s  p99 1.00 ms  (3 of 8, about 10 s left)`; a bad verdict, and that of a saturated run,
/// stand before the brackets. A point without a summary has its status. `left`: the least and the most time left, ns.
pub(crate) fn point_line(result: &PointResult, place: &str, left: Option<(u128, u128)>) -> String {
    let mut parts = vec![result.point.id.clone()];
    match &result.summary {
        Some(summary) => parts.extend(figures(summary)),
        None => parts.push(format!("{:?}", result.status).to_lowercase()),
    }
    let ends = [place.to_owned(), left.and_then(left_words).unwrap_or_default()];
    let ends: Vec<String> = ends.into_iter().filter(|part| !part.is_empty()).collect();
    ended(&parts.join("  "), &ends.join(", "))
}

/// The line that a method makes of a point itself, with the time left behind it.
pub(crate) fn own_line(line: &str, left: Option<(u128, u128)>) -> String {
    ended(line, &left.and_then(left_words).unwrap_or_default())
}

/// `about 10 s left`, `at most` where least and most differ; none below a second.
fn left_words((least, most): (u128, u128)) -> Option<String> {
    let words = if least == most { "about" } else { "at most" };
    (most >= 1_000_000_000).then(|| format!("{words} {} left", length(most)))
}

/// The line with `end` in brackets behind it, or below it where there is no room; an empty end leaves it as it is.
fn ended(line: &str, end: &str) -> String {
    match end {
        "" => line.to_owned(),
        _ if line.chars().count() + end.len() + 4 > width() => format!("{line}\n  ({end})"),
        _ => format!("{line}  ({end})"),
    }
}

/// Rate, p99 of the slowest operation, and the verdict where it is bad or the run saturated; of several workloads
/// those that have a ceiling, if any, each with rate and p99.
fn figures(summary: &Summary) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for of in judged(summary) {
        let p99 = first::p99(&of.totals).map_or(String::new(), |time| format!("  p99 {time}"));
        parts.push(format!("{}: {}/s{p99}", of.name, rate(of.totals.iops)));
    }
    if parts.is_empty() {
        parts.push(format!("{}/s", rate(summary.totals.iops)));
        parts.extend(first::slowest_p99(summary).map(|time| format!("p99 {time}")));
    }
    let (verdict, tone) = word(&summary.verdict);
    if tone == Tone::Bad || summary.saturation.saturated {
        parts.push(verdict.to_owned());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes of a search and repetitions had no time left.
    #[test]
    fn a_line_of_a_table_has_the_time_left_behind_it() {
        let second = 1_000_000_000;
        assert_eq!(
            own_line("1  pass", Some((20 * second, 20 * second))),
            "1  pass  (about 20 s left)"
        );
        assert_eq!(own_line("1  pass", Some((0, 20 * second))), "1  pass  (at most 20 s left)");
        assert_eq!(own_line("9  pass", Some((0, 0))), "9  pass");
        assert_eq!(own_line("1  pass", None), "1  pass");
    }
}
