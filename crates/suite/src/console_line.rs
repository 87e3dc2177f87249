//! A point of a series as one line of the console: its figures, its place, and the time left.
//!
//! What it is: words. What it is not: a figure; all are the summary's. Called by the runner of series.

use taillight_report::format::rate;
use taillight_report::model::{first, word};
use taillight_report::table::{Tone, width};
use taillight_rundir::Summary;

use crate::method::PointResult;
use crate::suites::length;

/// `03-queue-depth-4  3,996/s  p99 1.00 ms  (3 of 8, about 10 s left)`; a verdict that is not good stands
/// before the brackets.
pub(crate) fn point_line(result: &PointResult, place: &str, left: Option<(u128, u128)>) -> String {
    let mut parts = vec![result.point.id.clone()];
    match &result.summary {
        Some(summary) => parts.extend(figures(summary)),
        None => parts.push(format!("{:?}", result.status).to_lowercase()),
    }
    let left = left.filter(|(_, most)| *most >= 1_000_000_000).map(|(least, most)| {
        let words = if least == most { "about" } else { "at most" };
        format!("{words} {} left", length(most))
    });
    let ends = [place.to_owned(), left.unwrap_or_default()];
    let ends: Vec<String> = ends.into_iter().filter(|part| !part.is_empty()).collect();
    let ends = format!("({})", ends.join(", "));
    let line = parts.join("  ");
    match ends.as_str() {
        "()" => line,
        _ if line.chars().count() + ends.len() + 2 > width() => format!("{line}\n  {ends}"),
        _ => format!("{line}  {ends}"),
    }
}

/// Rate, 99 % of the slowest operation, and the verdict where it is not good.
fn figures(summary: &Summary) -> Vec<String> {
    let mut parts = vec![format!("{}/s", rate(summary.totals.iops))];
    parts.extend(first::slowest_p99(summary).map(|time| format!("p99 {time}")));
    let (verdict, tone) = word(&summary.verdict);
    if tone == Tone::Bad || summary.saturation.saturated {
        parts.push(verdict.to_owned());
    }
    parts
}
