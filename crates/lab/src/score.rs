//! Scores of runs: what `explain` said of the outliers, beside what was done to them; and the tables of all scores.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cleanup::tool;
use crate::faults::FAULTS;
use crate::truth::Truth;

/// One run, scored: a line of the results file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// Name of the fault.
    pub fault: String,
    /// `sync`, `uring`, ...
    pub engine: String,
    /// How strong it was, ms.
    pub ms: u64,
    /// What else went on beside the fault (`setting::Setting`); empty for a clean machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub setting: String,
    /// When it was made, and by which code; empty for first results.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub made: String,
    /// Layer that was to be blamed.
    pub truth: String,
    /// How many times it was in force.
    pub windows: usize,
    /// Injected outliers by blamed layer.
    pub blamed: BTreeMap<String, u64>,
    /// Injected outliers whose verdict was called sure, by blamed layer.
    #[serde(default)]
    pub sure: BTreeMap<String, u64>,
    /// Outliers that were not injected, by blamed layer.
    pub others: BTreeMap<String, u64>,
    /// How I/Os were matched with block I/O; `None` for faults under whose load an I/O need not have any of its own.
    pub seen: Option<MatchCounts>,
}

/// How I/Os were matched with what happened below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchCounts {
    pub traced: u64,
    /// Matched and seen from end to end.
    pub whole: u64,
    /// Matched, some stamp is missing.
    pub unsplit: u64,
}

/// An outlier is injected when the fault was in force for at least this part of its time.
const SHARE: (i64, i64) = (1, 2);

/// Whether an outlier of `explain --json` is an injected one. Errors: it has no stamps.
pub fn is_injected(io: &Value, truth: &Truth) -> Result<bool> {
    let stamp = |name: &str| io[name].as_i64().with_context(|| format!("no {name}: {io}"));
    let (from, to) = (stamp("intended_ns")?, stamp("complete_ns")?);
    Ok(truth.covered_ns(from, to) * SHARE.1 >= (to - from) * SHARE.0)
}

impl Score {
    /// Asks explain about a run and compares.
    pub fn of(taillight: &Path, run: &Path, truth: &Truth) -> Result<Score> {
        let taillight = taillight.to_string_lossy();
        let run = run.to_string_lossy();
        let text = tool(&taillight, &["explain", &run, "--json"])?;
        let value: Value = serde_json::from_str(&text).context("explain --json")?;
        let mut score = Score { windows: truth.len(), ..Score::default() };
        let count = |name: &str| value["coverage"][name].as_u64().unwrap_or(0);
        score.seen = Some(MatchCounts {
            traced: count("traced"),
            whole: count("matched"),
            unsplit: count("unsplit"),
        });
        for io in value["ios"].as_array().into_iter().flatten() {
            let injected = is_injected(io, truth)?;
            let layer = io["layer"].as_str().unwrap_or("unknown").to_owned();
            if injected && io["sure"].as_bool() == Some(true) {
                *score.sure.entry(layer.clone()).or_default() += 1;
            }
            let counts = match injected {
                true => &mut score.blamed,
                false => &mut score.others,
            };
            *counts.entry(layer).or_default() += 1;
        }
        Ok(score)
    }

    pub fn injected(&self) -> u64 {
        self.blamed.values().sum()
    }

    /// Of them blamed on the right layer.
    pub fn right(&self) -> u64 {
        self.truth.split('|').map(|l| self.blamed.get(l).copied().unwrap_or(0)).sum()
    }

    /// Of them blamed on a wrong one: neither right nor undecided.
    pub fn wrong(&self) -> u64 {
        self.wrong_of(&self.blamed)
    }

    /// Of the verdicts called sure: how many there are, and how many are wrong.
    pub fn sure(&self) -> (u64, u64) {
        (self.sure.values().sum(), self.wrong_of(&self.sure))
    }

    fn wrong_of(&self, blamed: &BTreeMap<String, u64>) -> u64 {
        let fine =
            |l: &str| l == "unknown" || l == "mixed" || self.truth.split('|').any(|t| t == l);
        blamed.iter().filter(|(l, _)| !fine(l)).map(|(_, n)| n).sum()
    }

    /// Adds another's counts of windows and outliers, and when it was made; not how I/Os were matched.
    fn take_in(&mut self, other: &Score) {
        if !self.made.split("; ").any(|made| made == other.made) {
            let comma = if self.made.is_empty() { "" } else { "; " };
            self.made = format!("{}{comma}{}", self.made, other.made);
        }
        self.windows += other.windows;
        add(&mut self.blamed, &other.blamed);
        add(&mut self.sure, &other.sure);
        add(&mut self.others, &other.others);
    }
}

/// Adds counts to counts.
fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (layer, n) in from {
        *to.entry(layer.clone()).or_default() += n;
    }
}

/// What each kind of fault was blamed on when it was made for the first time, by versions that had
/// never met it. Lines are added with the kind and never changed.
const FIRST: &str = include_str!("../first.jsonl");

/// Scores by fault and engine, with the number of runs.
fn by_kind(scores: &[Score]) -> Kinds<'_> {
    let mut rows = Kinds::new();
    for one in scores {
        let empty = || (0, Score { truth: one.truth.clone(), ..Score::default() });
        let (runs, row) =
            rows.entry((one.fault.as_str(), one.engine.as_str())).or_insert_with(empty);
        *runs += 1;
        row.take_in(one);
    }
    rows
}

fn percent(n: u64, of: u64) -> String {
    match of {
        0 => "-".to_owned(),
        of => format!("{:.1} %", n as f64 * 100.0 / of as f64),
    }
}

/// Layers in which a machine is slow by itself: its CPUs are shared, and so is what serves its disks. In runs without a
/// fault (`settings`) a verdict on them (under `memory` on the page cache, too) is not one on what nobody spoiled.
const NATURAL: [&str; 2] = ["cpu", "device"];

/// Scores from lines of JSON. Errors: a line is none.
pub fn read(lines: &str) -> Result<Vec<Score>> {
    Ok(lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// The table for users in Markdown: one row that sums all scores, whatever their fault and setting, beside one of all
/// first results. Errors: as [`read`].
pub fn overview(scores: &[Score]) -> Result<String> {
    let mut out = String::from(
        "| results | injected outliers | right | wrong | sure | of these wrong |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for (what, scores) in [
        ("present code, all kinds and settings", scores),
        ("first results, each kind once", &read(FIRST)?),
    ] {
        let sum = |of: fn(&Score) -> u64| scores.iter().map(of).sum::<u64>();
        let all = sum(Score::injected);
        out.push_str(&format!(
            "| {what} | {all} | {} | {} | {} | {} |\n",
            percent(sum(Score::right), all),
            percent(sum(Score::wrong), all),
            sum(|s| s.sure().0),
            sum(|s| s.sure().1),
        ));
    }
    Ok(out)
}

/// Scores as tables in Markdown. The table by fault and engine, and the sums below it, are of runs without a `setting`
/// alone; the table by setting has the others. First results come last. Errors: as [`read`].
pub fn matrix(scores: &[Score]) -> Result<String> {
    let first = read(FIRST)?;
    let (quiet, other): (Vec<Score>, Vec<Score>) =
        scores.iter().cloned().partition(|s| s.setting.is_empty());
    let (rows, first) = (by_kind(&quiet), by_kind(&first));
    let mut out = table(&rows);
    out.push_str(&not_made(&rows));
    coverage(&quiet, &mut out);
    out.push_str(&total("Now", rows.values()));
    out.push_str(&calibration(&rows));
    out.push_str(&settings(&quiet, &other));
    if !first.is_empty() {
        out.push_str("\nWhat each kind was blamed on when it was made for the first time:\n\n");
        out.push_str(&table(&first));
        out.push_str(&total("Kinds made for the first time", first.values()));
    }
    Ok(out)
}

/// Runs of a fault with an engine, and their scores together.
type Kinds<'a> = BTreeMap<(&'a str, &'a str), (u64, Score)>;

fn table(rows: &Kinds<'_>) -> String {
    let mut out = String::from(
        "| fault | engine | truth | runs | injected outliers | right | wrong | sure | of these wrong \
         | blamed on | others | made |\n|---|---|---|--:|--:|--:|--:|--:|--:|---|---|---|\n",
    );
    let list = |counts: &BTreeMap<String, u64>| {
        let parts: Vec<String> = counts.iter().map(|(l, n)| format!("{l} {n}")).collect();
        parts.join(", ")
    };
    for ((fault, engine), (runs, row)) in rows {
        let all = row.injected();
        let (sure, misled) = row.sure();
        out.push_str(&format!(
            "| {fault} | {engine} | {} | {runs} | {all} | {} | {} | {} | {} | {} | {} | {} |\n",
            row.truth.replace('|', " or "),
            percent(row.right(), all),
            percent(row.wrong(), all),
            percent(sure, all),
            percent(misled, sure),
            list(&row.blamed),
            list(&row.others),
            if row.made.is_empty() { "first" } else { &row.made },
        ));
    }
    out
}

/// Kinds of which there is no result here.
fn not_made(rows: &Kinds<'_>) -> String {
    let engines = FAULTS.iter().flat_map(|f| f.engines.iter().map(|e| (f.name, *e)));
    let missing = engines.filter(|kind| !rows.contains_key(kind));
    let names: Vec<String> = missing.map(|(fault, engine)| format!("{fault} {engine}")).collect();
    match names.as_slice() {
        [] => String::new(),
        _ => format!("\nNot made again with this code: {}.\n", names.join(", ")),
    }
}

/// How often verdicts that blame a layer are wrong, those called sure and the rest, which are called likely: of all
/// verdicts, and the mean over kinds.
fn calibration(rows: &Kinds<'_>) -> String {
    let mut out = String::from(
        "\n| called | verdicts | right | wrong | wrong, mean over kinds (95 % interval) |\n\
         |---|--:|--:|--:|--:|\n",
    );
    let sure = |s: &Score| s.sure();
    let likely = |s: &Score| {
        let named = s.right() + s.wrong();
        (named - s.sure().0.min(named), s.wrong() - s.sure().1)
    };
    for (word, of) in [("sure", &sure as &dyn Fn(&Score) -> (u64, u64)), ("likely", &likely)] {
        let counts: Vec<(u64, u64)> = rows.values().map(|(_, row)| of(row)).collect();
        let counts: Vec<(u64, u64)> = counts.into_iter().filter(|(n, _)| *n > 0).collect();
        let (all, wrong) = counts.iter().fold((0, 0), |sum, c| (sum.0 + c.0, sum.1 + c.1));
        let shares: Vec<f64> =
            counts.iter().map(|(n, wrong)| *wrong as f64 * 100.0 / *n as f64).collect();
        let (mean, half) = mean(&shares);
        out.push_str(&format!(
            "| {word} | {all} | {} | {} | {mean:.1} % +- {half:.1} over {} |\n",
            percent(all - wrong, all),
            percent(wrong, all),
            shares.len()
        ));
    }
    out
}

/// One row per setting, the clean machine too: the verdicts of its runs without a fault (`truth` is none), then of
/// those with one.
fn settings(quiet: &[Score], other: &[Score]) -> String {
    let mut out = String::from(
        "\n| setting | clean runs | outliers | unknown or mixed | blamed on what nobody spoiled \
         | faults: runs | injected | right | wrong | sure | of these wrong |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let mut by: BTreeMap<&str, Vec<&Score>> = BTreeMap::new();
    for one in quiet.iter().chain(other) {
        by.entry(&one.setting).or_default().push(one);
    }
    for (setting, list) in by {
        let (clean, faults): (Vec<&Score>, Vec<&Score>) =
            list.into_iter().partition(|s| s.truth == "none");
        let (mut nothing, mut done) = (Score::default(), Score::default());
        clean.iter().for_each(|s| nothing.take_in(s));
        let sum = |of: &dyn Fn(&Score) -> u64| faults.iter().map(|s| of(s)).sum::<u64>();
        faults.iter().for_each(|s| done.take_in(s));
        let all: u64 = nothing.others.values().sum();
        let natural = |l: &str| NATURAL.contains(&l) || setting == "memory" && l == "page_cache";
        let open = |l: &str| l == "unknown" || l == "mixed";
        let of = |what: &dyn Fn(&str) -> bool| -> u64 {
            nothing.others.iter().filter(|(l, _)| what(l)).map(|(_, n)| n).sum()
        };
        let (sure, misled) = (sum(&|s| s.sure().0), sum(&|s| s.sure().1));
        out.push_str(&format!(
            "| {} | {} | {all} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            if setting.is_empty() { "clean" } else { setting },
            clean.len(),
            percent(of(&open), all),
            percent(of(&|l| !natural(l) && !open(l)), all),
            faults.len(),
            done.injected(),
            percent(sum(&Score::right), done.injected()),
            percent(sum(&Score::wrong), done.injected()),
            percent(sure, done.injected()),
            percent(misled, sure),
        ));
    }
    out
}

/// The mean, and half of its 95 % interval.
fn mean(shares: &[f64]) -> (f64, f64) {
    let n = shares.len().max(1) as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let spread = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, 1.96 * (spread / n).sqrt())
}

/// All runs of kinds with injected outliers together, and the mean over kinds, each a fault with an engine.
fn total<'a>(what: &str, rows: impl Iterator<Item = &'a (u64, Score)>) -> String {
    let (mut runs, mut all, mut right, mut wrong, mut sure, mut misled) = (0, 0, 0, 0, 0, 0);
    let mut shares = Vec::new();
    for (n, row) in rows.filter(|(_, row)| row.injected() > 0) {
        runs += n;
        all += row.injected();
        right += row.right();
        wrong += row.wrong();
        sure += row.sure().0;
        misled += row.sure().1;
        shares.push(row.right() as f64 * 100.0 / row.injected() as f64);
    }
    let (mean, half) = mean(&shares);
    format!(
        "\n{what}: {all} injected outliers in {runs} runs, {} blamed on the right layer, {} on a wrong \
         one, the rest unknown or mixed; of those called sure ({}) {} wrong. Mean over {} kinds: {mean:.1} \
         % right (95 % interval +- {half:.1}).\n",
        percent(right, all),
        percent(wrong, all),
        percent(sure, all),
        percent(misled, sure),
        shares.len(),
    )
}

/// How I/Os were matched, over all runs in which every I/O must reach a device.
fn coverage(scores: &[Score], out: &mut String) {
    let mut sum = MatchCounts::default();
    for seen in scores.iter().filter_map(|s| s.seen) {
        sum.traced += seen.traced;
        sum.whole += seen.whole;
        sum.unsplit += seen.unsplit;
    }
    let share = |n: u64| n as f64 * 100.0 / sum.traced.max(1) as f64;
    out.push_str(&format!(
        "\n{} I/Os were traced where each has block I/O of its own (direct, no FUSE file): {:.3} % \
         were matched, {:.3} % seen from end to end.\n",
        sum.traced,
        share(sum.whole + sum.unsplit),
        share(sum.whole),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_what_the_scores_say() {
        let scores = read(include_str!("../present.jsonl")).unwrap();
        let results = include_str!("../RESULTS.md");
        assert!(results.contains(matrix(&scores).unwrap().trim()), "cargo xtask lab --pages");
        let for_users = include_str!("../../../docs/explain.md");
        assert!(for_users.contains(&overview(&scores).unwrap()), "cargo xtask lab --pages");
    }

    fn score(truth: &str, blamed: &[(&str, u64)]) -> Score {
        Score {
            fault: "f".into(),
            engine: "sync".into(),
            ms: 20,
            setting: String::new(),
            made: "2020-02-02 abc".into(),
            truth: truth.into(),
            windows: 3,
            blamed: blamed.iter().map(|(l, n)| (l.to_string(), *n)).collect(),
            sure: BTreeMap::from([("device".to_owned(), 2), ("cpu".to_owned(), 2)]),
            others: BTreeMap::new(),
            seen: Some(MatchCounts { traced: 1000, whole: 990, unsplit: 8 }),
        }
    }

    #[test]
    fn undecided_is_neither_right_nor_wrong() {
        let it = score("cpu", &[("cpu", 7), ("device", 2), ("mixed", 1), ("unknown", 4)]);
        assert_eq!((it.injected(), it.right(), it.wrong()), (14, 7, 2));
        assert_eq!(it.sure(), (4, 2));
        let line = serde_json::to_string(&it).expect("written");
        assert_eq!(serde_json::from_str::<Score>(&line).expect("read"), it);
        let text = matrix(&[it.clone(), it]).expect("first results");
        let row = "| f | sync | cpu | 2 | 28 | 50.0 % | 14.3 % | 28.6 % | 50.0 % |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| 2020-02-02 abc |"), "once, of two runs: {text}");
        assert!(text.contains("99.800 % were matched, 99.000 % seen"), "{text}");
        assert!(text.contains("| sure | 8 | 50.0 % | 50.0 % | 50.0 % +- 0.0 over 1 |"), "{text}");
        assert!(text.contains("| likely | 10 | 100.0 % | 0.0 % |"), "{text}");
        assert!(text.contains("| clean | 0 | 0 | - | - | 2 | 28 |"), "{text}");
        assert!(text.contains("Now: 28 injected outliers in 2 runs, 50.0 % blamed"), "{text}");
    }
}
