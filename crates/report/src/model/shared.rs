//! What several runs have in common: their warnings, their load and device, in one place instead of in each.

use serde::Serialize;
use serde_json::Value;
use taillight_rundir::Manifest;
use taillight_rundir::history::HistoryFile;
use taillight_rundir::summary::{Reason, Summary};

use super::about;
use crate::verdict::is_own;

/// A warning of several runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedWarning {
    /// `All 10 runs`, `8 of 10 runs`.
    pub who: String,
    pub text: String,
    #[serde(skip)]
    code: String,
}

/// How a warning ends that gives the figures of one run.
pub const SIMILAR: &str = "; the others say it with other figures.)";

/// Warnings that at least two runs give, each once, the most frequent first. What answers the run itself
/// (a ceiling, wrong data, errors) stays with it.
pub fn shared_warnings(runs: &[(&str, &Summary)]) -> Vec<SharedWarning> {
    let mut codes: Vec<&str> = Vec::new();
    for reason in runs.iter().flat_map(|(_, s)| &s.verdict.reasons) {
        if !codes.contains(&reason.code.as_str()) && !is_own(&reason.code) {
            codes.push(&reason.code);
        }
    }
    let mut all: Vec<(usize, SharedWarning)> = Vec::new();
    for code in codes {
        let found = giving(runs, code);
        let Some((label, first)) = found.first().filter(|_| found.len() > 1) else { continue };
        let who = match found.len() == runs.len() {
            true if runs.len() == 2 => "Both runs".to_owned(),
            true => format!("All {} runs", runs.len()),
            false => format!("{} of {} runs", found.len(), runs.len()),
        };
        let text = match found.iter().all(|(_, r)| r.text == first.text) {
            true => first.text.clone(),
            false => format!("{} ({label}{SIMILAR}", first.text),
        };
        all.push((found.len(), SharedWarning { who, text, code: code.to_owned() }));
    }
    all.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    all.into_iter().map(|(_, warning)| warning).collect()
}

/// The runs that give a reason with this code, and what each says.
fn giving<'a>(runs: &[(&'a str, &'a Summary)], code: &str) -> Vec<(&'a str, &'a Reason)> {
    let reason = |s: &'a Summary| s.verdict.reasons.iter().find(|r| r.code == code);
    runs.iter().filter_map(|(label, s)| Some((*label, reason(s)?))).collect()
}

/// The reasons of a run that are not among the shared warnings.
pub fn own_reasons<'a>(summary: &'a Summary, shared: &[SharedWarning]) -> Vec<&'a str> {
    let own = |r: &&Reason| shared.iter().all(|s| s.code != r.code);
    summary.verdict.reasons.iter().filter(own).map(|r| r.text.as_str()).collect()
}

/// Names in a title that does not list every run, and devices that are named at most.
const NAMED: usize = 3;
/// Letters of the names, up to which a title lists every run; of four runs or fewer it always does.
const TITLE: usize = 64;

/// What ran, for a page of several runs without a title.
pub fn title(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        all => {
            let listed = all.join(", ");
            match (all.len() <= NAMED + 1, listed.chars().count() <= TITLE) {
                (_, true) | (true, _) => format!("{} runs: {listed}", all.len()),
                _ => {
                    let first = all[..NAMED].join(", ");
                    format!("{} runs: {first} and {} more", all.len(), all.len() - NAMED)
                }
            }
        }
    }
}

/// What these runs have in common, in one line: target, load, device, and from when to when they began.
pub fn about_all(manifests: &[&Manifest]) -> String {
    let Some(first) = manifests.first() else { return String::new() };
    // A load that differs in its rate alone is still random reads of 4 KiB.
    let parts = |m: &Manifest| -> Vec<Vec<String>> {
        let words = |part: &String| part.split(", ").map(str::to_owned).collect();
        about::parts(m).iter().map(words).collect()
    };
    let others: Vec<Vec<Vec<String>>> = manifests.iter().skip(1).map(|m| parts(m)).collect();
    let same = |(nth, part): (usize, Vec<String>)| {
        let in_all = |word: &String| {
            others.iter().all(|other| other.get(nth).is_some_and(|part| part.contains(word)))
        };
        part.into_iter().filter(in_all).collect::<Vec<_>>().join(", ")
    };
    let mut said: Vec<String> = parts(first).into_iter().enumerate().map(same).collect();
    said.retain(|part| !part.is_empty());
    let drivers = distinct(manifests.iter().map(|m| m.plan.target.driver.clone()));
    if said.is_empty() && drivers.len() > 1 {
        said.push(drivers.join(", "));
    }
    said.extend(devices(manifests));
    said.extend(dates(manifests.iter().map(|m| m.clock.realtime_ns)));
    said.join(" · ")
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Devices of the runs, where they are known and few.
fn devices(manifests: &[&Manifest]) -> Option<String> {
    let known = distinct(manifests.iter().filter_map(|m| device(m)));
    (1..=NAMED).contains(&known.len()).then(|| known.join(", "))
}

/// The disk below the target: `model (name)`, or the one of both that is known.
pub fn device(manifest: &Manifest) -> Option<String> {
    let target = manifest.environment.get("target").and_then(|t| t.get("device"));
    let device = target.or_else(|| manifest.environment.get("device"))?;
    let text = |name: &str| {
        let text = device.get(name).and_then(Value::as_str)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let disk = text("disk").or_else(|| text("name"));
    match (text("model"), disk) {
        (Some(model), Some(name)) => Some(format!("{model} ({name})")),
        (model, name) => model.or(name),
    }
}

fn dates(stamps: impl Iterator<Item = i64>) -> Option<String> {
    // A result of another tool may not tell when it was made.
    let mut all: Vec<i64> = stamps.filter(|at| *at > 0).collect();
    all.sort_unstable();
    let (from, to) = (about::minute(*all.first()?), about::minute(*all.last()?));
    Some(if from == to { format!("{from} UTC") } else { format!("{from} to {to} UTC") })
}

/// What goes with a picture of one run or of several: command or load, device, date.
pub fn caption(manifests: &[&Manifest]) -> String {
    match manifests {
        [one] => {
            let command = one.repeat.as_deref().filter(|c| c.len() < one.command.len());
            let command = command.unwrap_or(&one.command).to_owned();
            let when = dates(std::iter::once(one.clock.realtime_ns));
            let parts = [Some(command), device(one), when];
            parts.into_iter().flatten().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(" · ")
        }
        several => about_all(several),
    }
}

/// The same of nights: their number, from when to when.
pub fn history_about(history: &HistoryFile) -> String {
    let runs: usize = history.nights.iter().map(|night| night.runs.len()).sum();
    let when = dates(history.nights.iter().map(|night| night.realtime_ns)).unwrap_or_default();
    format!("{} nights, {runs} runs · {when}", history.nights.len())
}

#[cfg(test)]
mod tests {
    use super::super::labels;
    use super::*;
    use taillight_rundir::fixture;

    fn summary(reasons: &[(&str, &str)]) -> Summary {
        let mut summary = fixture::summary("r");
        let reason = |(code, text): &(&str, &str)| Reason {
            code: (*code).to_owned(),
            text: (*text).to_owned(),
        };
        summary.verdict.reasons = reasons.iter().map(reason).collect();
        summary
    }

    #[test]
    fn a_warning_of_several_runs_is_said_once() {
        let a = summary(&[("busy_machine", "90 %"), ("ceiling_failed", "over")]);
        let b = summary(&[("busy_machine", "80 %"), ("ceiling_failed", "over")]);
        let c = summary(&[("late", "late")]);
        let shared = shared_warnings(&[("a", &a), ("b", &b), ("c", &c)]);
        assert_eq!(shared.len(), 1, "{shared:?}");
        assert_eq!(shared[0].who, "2 of 3 runs");
        assert_eq!(shared[0].text, "90 % (a; the others say it with other figures.)");
        assert_eq!(own_reasons(&a, &shared), ["over"]);
        assert_eq!(own_reasons(&c, &shared), ["late"]);
        let same = shared_warnings(&[("a", &a), ("b", &a)]);
        assert_eq!((same[0].who.as_str(), same[0].text.as_str()), ("Both runs", "90 %"));
    }

    #[test]
    fn a_title_says_what_ran() {
        let names = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(title(&names(&["base", "hog"])), "2 runs: base, hog");
        let many = (1..=12).map(|n| labels::run(&format!("{n:02}-queue-depth-long-name")));
        let many: Vec<String> = many.collect();
        assert_eq!(
            title(&many),
            "12 runs: queue depth long name (1), queue depth long name (2), queue depth long name (3) \
             and 9 more"
        );
    }

    #[test]
    fn what_runs_share_is_said_of_all() {
        let a = fixture::manifest("a");
        let mut b = a.clone();
        b.clock.realtime_ns += 7 * 60_000_000_000;
        let text = about_all(&[&a, &b]);
        assert!(text.starts_with(&about::parts(&a)[0]), "{text}");
        assert!(text.contains(" to ") && text.ends_with(" UTC"), "{text}");
        b.plan.target.driver = "sim".to_owned();
        b.plan.target.path = None;
        let text = about_all(&[&a, &b]);
        assert!(!text.contains(&about::parts(&a)[0]), "{text}");
    }
}
