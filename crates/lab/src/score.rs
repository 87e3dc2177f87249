//! What explain said of the outliers, beside what was done to them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cleanup::tool;
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
    /// Layer that was to be blamed.
    pub truth: String,
    /// Times in which it was in force.
    pub windows: usize,
    /// Injected outliers by blamed layer.
    pub blamed: BTreeMap<String, u64>,
    /// Injected outliers whose verdict was called sure, by blamed layer.
    #[serde(default)]
    pub sure: BTreeMap<String, u64>,
    /// Outliers that were not injected, by blamed layer.
    pub others: BTreeMap<String, u64>,
    /// Where each I/O has block I/O of its own: how many were seen how well.
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
            let stamp = |name: &str| io[name].as_i64().with_context(|| format!("no {name}: {io}"));
            let (from, to) = (stamp("intended_ns")?, stamp("complete_ns")?);
            let covered = truth.covered_ns(from, to);
            let injected = covered * SHARE.1 >= (to - from) * SHARE.0;
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

    /// The same with another's counts.
    fn take_in(&mut self, other: &Score) {
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
fn by_kind(scores: &[Score]) -> BTreeMap<(&str, &str), (u64, Score)> {
    let mut rows: BTreeMap<(&str, &str), (u64, Score)> = BTreeMap::new();
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

/// Scores as tables in Markdown: one row per fault and engine, then what they say together.
pub fn matrix(scores: &[Score]) -> Result<String> {
    let first: Vec<Score> = FIRST.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (rows, first) = (by_kind(scores), by_kind(&first));
    let mut out = String::from(
        "| fault | engine | truth | runs | injected outliers | first time: right, wrong | right | wrong \
         | sure | of these wrong | blamed on | others |\n\
         |---|---|---|--:|--:|--:|--:|--:|--:|--:|---|---|\n",
    );
    let list = |counts: &BTreeMap<String, u64>| {
        let parts: Vec<String> = counts.iter().map(|(l, n)| format!("{l} {n}")).collect();
        parts.join(", ")
    };
    for ((fault, engine), (runs, row)) in &rows {
        let all = row.injected();
        let (sure, misled) = row.sure();
        let first = first.get(&(*fault, *engine)).map_or("-".to_owned(), |(_, f)| {
            format!("{}, {}", percent(f.right(), f.injected()), percent(f.wrong(), f.injected()))
        });
        out.push_str(&format!(
            "| {fault} | {engine} | {} | {runs} | {all} | {first} | {} | {} | {} | {} | {} | {} |\n",
            row.truth.replace('|', " or "),
            percent(row.right(), all),
            percent(row.wrong(), all),
            percent(sure, all),
            percent(misled, sure),
            list(&row.blamed),
            list(&row.others),
        ));
    }
    coverage(scores, &mut out);
    out.push_str(&total("Now", rows.values()));
    if !first.is_empty() {
        out.push_str(&total("Kinds made for the first time", first.values()));
    }
    Ok(out)
}

/// All runs together, and the mean over kinds, each a fault with an engine.
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
    let kinds = shares.len().max(1) as f64;
    let mean = shares.iter().sum::<f64>() / kinds;
    let spread = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (kinds - 1.0).max(1.0);
    format!(
        "\n{what}: {all} injected outliers in {runs} runs, {} blamed on the right layer, {} on a wrong \
         one, the rest unknown or mixed; of those called sure ({}) {} wrong. Mean over {} kinds: {mean:.1} \
         % right (95 % interval +- {:.1}).\n",
        percent(right, all),
        percent(wrong, all),
        percent(sure, all),
        percent(misled, sure),
        shares.len(),
        1.96 * (spread / kinds).sqrt(),
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

    fn score(truth: &str, blamed: &[(&str, u64)]) -> Score {
        Score {
            fault: "f".into(),
            engine: "sync".into(),
            ms: 20,
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
        let row = "| f | sync | cpu | 2 | 28 | - | 50.0 % | 14.3 % | 28.6 % | 50.0 % |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("99.800 % were matched, 99.000 % seen"), "{text}");
        assert!(text.contains("Now: 28 injected outliers in 2 runs, 50.0 % blamed"), "{text}");
    }
}
