//! Warns of a change inside the run: from which second on its operations were faster or slower than before, in words.

use taillight_core::OpKind;
use taillight_rundir::summary::{
    ChangedFigure, LevelChange, OverChange, Reason, Summary, VerdictStatus,
};

use super::basis::{reason, whole_ops};
use crate::analyse::Analysis;
use crate::format;
use taillight_stats::change_point::LEAST_CHANGE;

/// Code of the reason.
pub const LEVEL_CHANGED: &str = "level_changed";

/// A warning that says when each operation changed, and in what: figures of the whole run are of neither level. None
/// where nothing changed.
pub fn changed(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let mut parts = Vec::new();
    for changes in summary.changes.chunk_by(|a, b| a.op == b.op) {
        let one = whole_ops(summary).count() < 2;
        parts.extend(sentence(changes, one));
    }
    let text = format!("{}. Figures of the whole run mix both.", parts.join("; "));
    (!parts.is_empty()).then(|| (VerdictStatus::Warned, reason(LEVEL_CHANGED, text)))
}

/// What changed of one operation, in rate, median and shares over ceilings; none without a change. `one`: the run has
/// no other operation, so that this one is not named.
///
/// `Since second 55: 1,060/s instead of 6,300/s, with 1.0 % over 10.0 ms (before: 0.020 %)`.
fn sentence(changes: &[LevelChange], one: bool) -> Option<String> {
    let first = changes.first()?;
    let figure = |figure| changes.iter().find(|c: &&LevelChange| c.figure == figure);
    let mut levels = Vec::new();
    // A rate that wanders may be no change by itself, and be a part of one.
    let rates = first.rate_before.zip(first.rate_after);
    if let Some((before, after)) = rates.filter(|(a, b)| a.max(*b) >= LEAST_CHANGE * a.min(*b)) {
        let [before, after] = [before, after].map(format::rate);
        levels.push(format!("{after}/s instead of {before}/s"));
    }
    if let Some(it) = figure(ChangedFigure::Median) {
        let [before, after] = [it.before, it.after].map(format::duration);
        levels.push(format!("half within {after} instead of {before}"));
    }
    let over = first.over.iter().filter_map(over);
    let over: Vec<String> = over.collect();
    let with = if levels.is_empty() || over.is_empty() { "" } else { ", with " };
    let of = if one { String::new() } else { format!(" {}", plural(first.op)) };
    let (levels, over) = (levels.join(", "), over.join(" and "));
    Some(format!("Since second {}{of}: {levels}{with}{over}", second(first.at_s)))
}

/// A time in seconds as text: whole from 20 on, else with tenths.
fn second(at_s: f64) -> String {
    if at_s >= 20.0 { format!("{at_s:.0}") } else { format!("{at_s:.1}") }
}

/// `of reads`.
fn plural(op: OpKind) -> String {
    format!("of {}s", op.name())
}

/// The shares over a ceiling on both sides, of I/Os and, where known, of the workers' time; none where no I/O was over
/// it on either side, or a share is not known.
fn over(it: &OverChange) -> Option<String> {
    let (before, after) = (it.before?, it.after?);
    if before.max(after) <= 0.0 {
        return None;
    }
    let time = it.time_before.zip(it.time_after);
    let time = time.map(|(before, after)| {
        let [before, after] = [before, after].map(format::percent);
        format!(", {after} of the workers' time (before: {before})")
    });
    let ceiling = format::duration_ns(it.ceiling_ns);
    let [before, after] = [before, after].map(format::percent);
    Some(format!("{after} over {ceiling} (before: {before}){}", time.unwrap_or_default()))
}
