//! Measures what each rule of `explain` is for: how the verdicts on kept run directories change without it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cleanup::tool;
use crate::score::is_injected;
use crate::truth::Truth;

/// What becomes of the injected outliers of a run without a rule: a line of `rules.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleScore {
    pub rule: String,
    /// Fault, engine and strength, as the run directory is called.
    pub run: String,
    /// Injected outliers of the run.
    pub injected: u64,
    /// Right with the rule, and not without it.
    pub lost: u64,
    /// Right without the rule, and not with it.
    pub gained: u64,
    /// Right and sure with the rule, and right without it, but not sure.
    pub less_sure: u64,
    /// Sure and wrong without the rule, and not both with it.
    pub misled: u64,
}

impl RuleScore {
    fn changes(&self) -> bool {
        self.lost + self.gained + self.less_sure + self.misled > 0
    }
}

/// Asks `taillight` about every run directory in `kept` that has a truth, with all rules and without each: a score for
/// each rule and run that it changes; one of no run for a rule that changes none.
pub fn measure(taillight: &Path, kept: &Path) -> Result<Vec<RuleScore>> {
    let mut runs: Vec<_> = std::fs::read_dir(kept)?.collect::<Result<_, _>>()?;
    runs.sort_by_key(std::fs::DirEntry::file_name);
    let mut scores: BTreeMap<String, Vec<RuleScore>> = BTreeMap::new();
    for run in runs.iter().map(|entry| entry.path()).filter(|run| run.join("truth.jsonl").exists())
    {
        for score in without_each(taillight, &run)? {
            scores.entry(score.rule.clone()).or_default().push(score);
        }
    }
    for (rule, list) in &mut scores {
        list.retain(RuleScore::changes);
        if list.is_empty() {
            list.push(RuleScore { rule: rule.clone(), ..RuleScore::default() });
        }
    }
    Ok(scores.into_values().flatten().collect())
}

/// The scores of all rules on one run directory.
fn without_each(taillight: &Path, run: &Path) -> Result<Vec<RuleScore>> {
    let (truth, layer) = Truth::read(&run.join("truth.jsonl"))?;
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let run = run.to_string_lossy();
    let text = tool(&taillight.to_string_lossy(), &["explain", &run, "--without", "each"])?;
    let value: Value = serde_json::from_str(&text).context("explain --without each")?;
    let injected = |list: &Value| -> Result<BTreeMap<(u64, i64), (bool, bool)>> {
        let mut found = BTreeMap::new();
        for io in list.as_array().into_iter().flatten() {
            if !is_injected(io, &truth)? {
                continue;
            }
            let key = io["worker"].as_u64().zip(io["submit_ns"].as_i64()).context("whose it is")?;
            let right = io["layer"].as_str().is_some_and(|it| layer.split('|').any(|l| l == it));
            found.insert(key, (right, io["sure"].as_bool() == Some(true)));
        }
        Ok(found)
    };
    let all = injected(&value["ios"])?;
    let mut scores = Vec::new();
    for (rule, list) in value["without"].as_object().context("no rules")? {
        let mut score = RuleScore {
            rule: rule.clone(),
            run: name.clone().into_owned(),
            injected: all.len() as u64,
            ..RuleScore::default()
        };
        for (key, (right, sure)) in injected(list)? {
            let Some((was_right, was_sure)) = all.get(&key) else { continue };
            score.lost += u64::from(*was_right && !right);
            score.gained += u64::from(right && !was_right);
            score.less_sure += u64::from(*was_right && right && *was_sure && !sure);
            score.misled += u64::from(sure && !right && (*was_right || !was_sure));
        }
        scores.push(score);
    }
    Ok(scores)
}

/// The scores that are part of the source.
const SCORES: &str = include_str!("../rules.jsonl");

/// The table of all rules in Markdown, those that most rests on first. Errors: `rules.jsonl` is damaged.
pub fn table() -> Result<String> {
    let lines = SCORES.lines().map(serde_json::from_str);
    let scores: Vec<RuleScore> = lines.collect::<Result<_, _>>()?;
    let mut rules: BTreeMap<&str, Vec<&RuleScore>> = BTreeMap::new();
    scores.iter().for_each(|score| rules.entry(&score.rule).or_default().push(score));
    let sum =
        |list: &[&RuleScore], of: fn(&RuleScore) -> u64| list.iter().map(|s| of(s)).sum::<u64>();
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(name, list)| (std::cmp::Reverse(sum(list, |s| s.lost)), *name));
    let mut out = String::from(
        "| without the rule | right no more | right only then | sure no more | sure and wrong | runs that it makes right |\n\
         |---|--:|--:|--:|--:|---|\n",
    );
    for (rule, list) in rules {
        let mut runs: Vec<&&RuleScore> = list.iter().filter(|s| s.lost > 0).collect();
        runs.sort_by_key(|s| std::cmp::Reverse(s.lost));
        let shown =
            runs.iter().take(SHOWN).map(|s| format!("{} {} of {}", s.run, s.lost, s.injected));
        let more = (runs.len() > SHOWN).then(|| format!("{} more", runs.len() - SHOWN));
        out.push_str(&format!(
            "| `{rule}` | {} | {} | {} | {} | {} |\n",
            sum(&list, |s| s.lost),
            sum(&list, |s| s.gained),
            sum(&list, |s| s.less_sure),
            sum(&list, |s| s.misled),
            shown.chain(more).collect::<Vec<_>>().join(", "),
        ));
    }
    Ok(out)
}

/// Runs named for a rule.
const SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_what_the_scores_of_the_rules_say() {
        let results = include_str!("../RESULTS.md");
        let table = table().expect("rules.jsonl");
        assert!(results.contains(table.trim()), "cargo xtask lab --pages");
        assert!(table.lines().count() > 2, "there are rules");
    }
}
