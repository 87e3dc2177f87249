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
        let right = |l: &&str| self.blamed.get(*l).copied().unwrap_or(0);
        self.truth.split('|').map(|l| right(&l)).sum()
    }

    /// Of them blamed on a wrong one: neither right nor undecided.
    pub fn wrong(&self) -> u64 {
        let undecided = ["unknown", "mixed"].map(|l| self.blamed.get(l).copied().unwrap_or(0));
        self.injected() - self.right() - undecided.iter().sum::<u64>()
    }
}

/// Adds counts to counts.
fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (layer, n) in from {
        *to.entry(layer.clone()).or_default() += n;
    }
}

/// Scores as tables in Markdown: one row per fault and engine, then what was blamed for each truth.
pub fn matrix(scores: &[Score]) -> String {
    let mut rows: BTreeMap<(&str, &str), Score> = BTreeMap::new();
    let mut runs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in scores {
        let key = (one.fault.as_str(), one.engine.as_str());
        *runs.entry(key).or_default() += 1;
        let row = rows
            .entry(key)
            .or_insert_with(|| Score { truth: one.truth.clone(), ..Score::default() });
        row.windows += one.windows;
        add(&mut row.blamed, &one.blamed);
        add(&mut row.others, &one.others);
    }
    let mut out = String::from(
        "| fault | engine | truth | runs | injected outliers | right | wrong | blamed on | others |\n\
         |---|---|---|--:|--:|--:|--:|---|---|\n",
    );
    let list = |counts: &BTreeMap<String, u64>| {
        let parts: Vec<String> = counts.iter().map(|(l, n)| format!("{l} {n}")).collect();
        parts.join(", ")
    };
    let mut sum = Score::default();
    let (mut right, mut wrong) = (0, 0);
    for ((fault, engine), row) in &rows {
        let share = |n: u64| match row.injected() {
            0 => "-".to_owned(),
            all => format!("{:.1} %", n as f64 * 100.0 / all as f64),
        };
        out.push_str(&format!(
            "| {fault} | {engine} | {} | {} | {} | {} | {} | {} | {} |\n",
            row.truth.replace('|', " or "),
            runs[&(*fault, *engine)],
            row.injected(),
            share(row.right()),
            share(row.wrong()),
            list(&row.blamed),
            list(&row.others),
        ));
        right += row.right();
        wrong += row.wrong();
        add(&mut sum.blamed, &row.blamed);
    }
    coverage(scores, &mut out);
    let all = sum.injected().max(1) as f64;
    out.push_str(&format!(
        "\n{} injected outliers in {} runs: {:.2} % blamed on the right layer, {:.2} % on a wrong \
         one, the rest unknown or mixed.\n",
        sum.injected(),
        scores.len(),
        right as f64 * 100.0 / all,
        wrong as f64 * 100.0 / all,
    ));
    out
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
            others: BTreeMap::new(),
            seen: Some(MatchCounts { traced: 1000, whole: 990, unsplit: 8 }),
        }
    }

    #[test]
    fn undecided_is_neither_right_nor_wrong() {
        let it = score("cpu", &[("cpu", 7), ("device", 2), ("mixed", 1), ("unknown", 4)]);
        assert_eq!((it.injected(), it.right(), it.wrong()), (14, 7, 2));
        let line = serde_json::to_string(&it).expect("written");
        assert_eq!(serde_json::from_str::<Score>(&line).expect("read"), it);
        let text = matrix(&[it.clone(), it]);
        assert!(text.contains("| f | sync | cpu | 2 | 28 | 50.0 % | 14.3 % |"), "{text}");
        assert!(text.contains("99.800 % were matched, 99.000 % seen"), "{text}");
        assert!(text.contains("28 injected outliers in 2 runs: 50.00 %"), "{text}");
    }
}
