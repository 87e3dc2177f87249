//! What the rule `phases` says of its runs: the tables, the lines for programs, the means. Rates are successful
//! operations (fsync is none) or bytes by measured time, the wear-out included, and beside it without; percentiles are
//! each run's own.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};
use taillight_core::OpKind;
use taillight_core::units::readable::{digits3, duration};
use taillight_report::table::{Cell, Table, Tone};
use taillight_rundir::Summary;
use taillight_rundir::summary::Outlier;

use super::phases::{CountedPhase, PhasesMethod, ScoredAs};
use crate::method::PointResult;

/// A phase that was run.
#[derive(Clone, Copy)]
pub(super) struct PhaseRun<'a> {
    pub phase: &'a CountedPhase,
    pub result: &'a PointResult,
    pub wear_out: Option<&'a PointResult>,
}

/// Operations, bytes and time of runs that give one rate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct RateParts {
    ops: f64,
    bytes: f64,
    seconds: f64,
}

impl RateParts {
    /// Adds a run; of a part of something larger, listings are time and no operation on a file.
    fn add(&mut self, summary: &Summary, part: bool) {
        let totals = &summary.totals;
        let count = |op| summary.ops.get(&op).map_or(0, |totals| totals.count);
        let listings = if part { count(OpKind::Readdir) } else { 0 };
        let beside = count(OpKind::Fsync) + listings;
        self.ops += totals.count.saturating_sub(totals.errors).saturating_sub(beside) as f64;
        self.bytes += totals.bytes as f64;
        self.seconds += totals.duration_ns as f64 / 1e9;
    }

    fn rate(&self, of: ScoredAs) -> f64 {
        let seconds = self.seconds.max(1e-9);
        match of {
            ScoredAs::Bandwidth => self.bytes / seconds / f64::from(1 << 30),
            ScoredAs::Rate => self.ops / seconds / 1e3,
        }
    }
}

impl PhaseRun<'_> {
    fn scored(&self) -> ScoredAs {
        self.phase.scored.unwrap_or(ScoredAs::Rate)
    }

    /// The phase alone, and with its wear-out; as the part of something larger that it may be.
    fn parts(&self, part: bool) -> (RateParts, RateParts) {
        let mut alone = RateParts::default();
        let part = part && self.phase.part_of.is_some();
        self.result.summary.iter().for_each(|summary| alone.add(summary, part));
        let mut whole = alone;
        self.wear_out.and_then(|r| r.summary.as_ref()).iter().for_each(|s| whole.add(s, part));
        (alone, whole)
    }

    fn name(&self) -> &str {
        self.phase.part_of.as_deref().unwrap_or(&self.phase.name)
    }

    /// The slowest operation that succeeded.
    fn slowest(&self) -> Option<String> {
        let summary = self.result.summary.as_ref()?;
        let first = summary.outliers.iter().filter_map(|(op, all)| Some((*op, all.first()?)));
        let (op, slow): (_, &Outlier) = first.max_by_key(|(_, slow)| slow.latency_ns)?;
        // Directories have numbers of their own, which operations do not carry.
        let directory = matches!(op, OpKind::Mkdir | OpKind::Rmdir | OpKind::Readdir);
        let key = slow.key.filter(|_| !directory);
        let place = key.map(|key| format!(" of number {key}"));
        let place = place.or_else(|| slow.offset.map(|at| format!(" at {at}"))).unwrap_or_default();
        Some(format!(
            "{}: {}{place} by worker {}",
            duration(slow.latency_ns as f64),
            op.name(),
            slow.worker
        ))
    }
}

/// The rates that count, by what they are of, in the order of the phases: phases of one name are one.
fn scores<'a>(runs: &'a [PhaseRun<'a>]) -> Vec<(&'a str, ScoredAs, RateParts)> {
    let mut all: Vec<(&str, ScoredAs, RateParts)> = Vec::new();
    for run in runs.iter().filter(|run| run.phase.scored.is_some()) {
        let (_, parts) = run.parts(true);
        match all.iter_mut().find(|(name, ..)| *name == run.name()) {
            Some((_, _, sum)) => {
                sum.ops += parts.ops;
                sum.bytes += parts.bytes;
                sum.seconds += parts.seconds;
            }
            None => all.push((run.name(), run.scored(), parts)),
        }
    }
    all
}

/// Geometric mean; none of nothing, or where one of them is nothing.
fn mean(values: &[f64]) -> Option<f64> {
    let there = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    there.then(|| (values.iter().map(|v| v.ln()).sum::<f64>() / values.len() as f64).exp())
}

/// The means of bandwidth and of rates, and the root of their product; only when every phase was run to its end.
fn totals(method: &PhasesMethod, runs: &[PhaseRun<'_>]) -> Option<(f64, f64, f64)> {
    let complete = runs.iter().all(|run| run.result.complete());
    if runs.len() < method.suite.phases.len() || !complete {
        return None;
    }
    let scored = scores(runs);
    let of = |wanted: ScoredAs| {
        let values = scored.iter().filter(|(_, of, _)| *of == wanted);
        mean(&values.map(|(_, of, parts)| parts.rate(*of)).collect::<Vec<_>>())
    };
    let (bandwidth, rate) = (of(ScoredAs::Bandwidth)?, of(ScoredAs::Rate)?);
    Some((bandwidth, rate, (bandwidth * rate).sqrt()))
}

/// That the stonewall was shorter than a whole measurement's, in words; none where it was not.
fn short(method: &PhasesMethod) -> Option<String> {
    let whole = method.suite.whole_stonewall?;
    let asked = method.scale.stonewall;
    (asked < whole).then(|| format!("stonewall {asked}, shorter than {whole}"))
}

fn unit(of: ScoredAs) -> &'static str {
    match of {
        ScoredAs::Bandwidth => "GiB/s",
        ScoredAs::Rate => "kIOPS",
    }
}

fn rate(parts: RateParts, of: ScoredAs) -> String {
    format!("{} {}", digits3(parts.rate(of)), unit(of))
}

/// The tables: rates and percentiles of each phase; the slowest operation of each.
pub(super) fn tables(method: &PhasesMethod, runs: &[PhaseRun<'_>]) -> Vec<Table> {
    let columns = ["phase", "done", "rate", "p50", "p99", "p99.9", "max"];
    let mut rates = Table::new("phases", &method.suite.title, &columns);
    let mut slowest =
        Table::of_words("slowest", "The slowest of each phase", &["phase", "slowest"]);
    let mut worn = Table::new(
        "wear-out",
        "Wear-out: workers that came less far go on to the number of the first",
        &["phase", "at the stonewall", "with wear-out", "more", "time"],
    );
    for run in runs {
        let (alone, whole) = run.parts(false);
        let of = run.scored();
        let value =
            |name: &str| run.result.values.get(name).map_or("-".to_owned(), |ns| duration(*ns));
        let failed = run.result.values.get("errors").is_some_and(|n| *n > 0.0);
        let tone = if failed || !run.result.complete() { Tone::Bad } else { Tone::Plain };
        let name = match (failed, run.result.complete()) {
            (_, false) => format!("{} (partial)", run.phase.name),
            (true, _) => format!("{} (with failures)", run.phase.name),
            _ => run.phase.name.clone(),
        };
        let mut row = vec![Cell::toned(name, tone)];
        let figures = [
            format!("{:.0}", whole.ops),
            rate(whole, of),
            value("p50_ns"),
            value("p99_ns"),
            value("p999_ns"),
            value("max_ns"),
        ];
        row.extend(figures.map(Cell::new));
        rates.rows.push(row);
        let words = [run.phase.name.clone(), run.slowest().unwrap_or_else(|| "-".to_owned())];
        slowest.rows.push(words.map(Cell::new).to_vec());
        if run.wear_out.is_some() {
            let row = [
                run.phase.name.clone(),
                rate(alone, of),
                rate(whole, of),
                format!("{:.0}", whole.ops - alone.ops),
                duration((whole.seconds - alone.seconds) * 1e9),
            ];
            worn.rows.push(row.map(Cell::new).to_vec());
        }
    }
    let mut all = vec![rates];
    all.extend((!worn.rows.is_empty()).then_some(worn));
    all.push(slowest);
    all
}

/// What stands below the tables.
pub(super) fn text(method: &PhasesMethod) -> String {
    let mut parts = vec![format!("{}.", method.suite.title)];
    parts.extend(short(method).map(|why| format!("Here: {why}.")));
    parts.extend(method.suite.deviations.iter().cloned());
    parts.join(" ")
}

/// Lines for programs, in the form of IO500's `result_summary.txt`.
pub(super) fn lines(method: &PhasesMethod, runs: &[PhaseRun<'_>]) -> String {
    let mut out = format!("# {}\n", method.suite.title);
    for deviation in &method.suite.deviations {
        let _ = writeln!(out, "# {deviation}");
    }
    let mark = if short(method).is_some() { " [INVALID]" } else { "" };
    let mut said: Vec<&str> = Vec::new();
    for run in runs {
        let name = run.name();
        if said.contains(&name) {
            continue;
        }
        said.push(name);
        let mut parts = RateParts::default();
        for part in runs.iter().filter(|other| other.name() == name) {
            let (_, whole) = part.parts(true);
            parts.ops += whole.ops;
            parts.bytes += whole.bytes;
            parts.seconds += whole.seconds;
        }
        let stonewalled = runs.iter().any(|r| r.name() == name && r.phase.stonewall);
        let (rate, unit) = (parts.rate(run.scored()), unit(run.scored()));
        let mark = if stonewalled { mark } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "[RESULT] {name:>20} {rate:>15.6} {unit} : time {:.3} seconds{mark}",
            parts.seconds
        );
    }
    if let Some((bandwidth, rate, total)) = totals(method, runs) {
        let _ = writeln!(
            out,
            "[SCORE-LIKE] Bandwidth {bandwidth:.6} GiB/s : IOPS {rate:.6} kiops : TOTAL {total:.6}{mark}"
        );
    }
    out
}

/// The answer in `series.json`.
pub(super) fn answer(method: &PhasesMethod, runs: &[PhaseRun<'_>]) -> Value {
    let phase = |run: &PhaseRun<'_>| {
        let (alone, whole) = run.parts(false);
        let of = run.scored();
        let mut figures = BTreeMap::from([
            ("ops", json!(whole.ops)),
            ("seconds", json!(whole.seconds)),
            ("rate", json!(whole.rate(of))),
            ("unit", json!(unit(of))),
        ]);
        if run.wear_out.is_some() {
            figures.insert("rate_at_stonewall", json!(alone.rate(of)));
            figures.insert("wear_out_seconds", json!(whole.seconds - alone.seconds));
            figures.insert("wear_out_ops", json!(whole.ops - alone.ops));
        }
        (run.phase.name.clone(), json!(figures))
    };
    let phases: serde_json::Map<String, Value> = runs.iter().map(phase).collect();
    let totals = totals(method, runs).map(|(bandwidth, rate, total)| {
        json!({ "bandwidth_gib_per_s": bandwidth, "rate_kiops": rate, "total": total })
    });
    json!({ "phases": phases, "means": totals, "short": short(method) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_all_operations_by_all_time_and_a_mean_is_geometric() {
        let parts = RateParts { ops: 30_000.0, bytes: f64::from(1 << 30), seconds: 2.0 };
        assert_eq!(parts.rate(ScoredAs::Rate), 15.0);
        assert_eq!(parts.rate(ScoredAs::Bandwidth), 0.5);
        let three = mean(&[1.0, 10.0, 100.0]).expect("a mean");
        assert!((three - 10.0).abs() < 1e-9);
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[3.0, 0.0]), None, "a phase that did nothing has no score");
    }
}
