//! What several runs have in common: their warnings, their load and device, in one place instead of in each.

use serde::Serialize;
use serde_json::Value;
use taillight_core::units::readable::foreign;
use taillight_rundir::Manifest;
use taillight_rundir::history::HistoryFile;
use taillight_rundir::summary::{Reason, Summary};

use super::about;
use crate::verdict::{FOUND, IMPORTED, is_own};

/// A warning of several runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedWarning {
    /// `All 10 runs`, `8 of 10 runs`, `2 of 10 runs (a, b)`.
    pub who: String,
    pub text: String,
    #[serde(skip)]
    what: WarningKind,
}

/// What warnings have in common that are one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WarningKind {
    code: String,
    /// Where figures come from and what was found there, which is more than figures: the words without the file's name.
    origin: Option<String>,
}

impl WarningKind {
    fn of(summary: &Summary, reason: &Reason) -> WarningKind {
        let is_origin = [IMPORTED, FOUND].contains(&reason.code.as_str());
        let source = summary.origin.imported().filter(|_| is_origin);
        // A short name is a part of other words, too.
        let from = |file: &str| format!("from {}", foreign(file));
        let origin = source.map(|source| reason.text.replace(&from(&source.file), ""));
        WarningKind { code: reason.code.clone(), origin }
    }

    /// How a warning ends that is told in the words of one run.
    fn ending(&self) -> &'static str {
        if self.origin.is_some() { OTHER_FILES } else { SIMILAR }
    }
}

const SIMILAR: &str = "; the others say it with other figures.)";
const OTHER_FILES: &str = "; the others, of other files.)";

/// Whether a warning is told in the words of one run, which its end names in brackets.
pub fn is_of_one(text: &str) -> bool {
    text.ends_with(SIMILAR) || text.ends_with(OTHER_FILES)
}

/// Warnings that at least two runs give, each once, the most frequent first. What answers the run itself
/// (a ceiling, wrong data, errors) stays with it.
pub fn shared_warnings(runs: &[(&str, &Summary)]) -> Vec<SharedWarning> {
    let mut kinds: Vec<WarningKind> = Vec::new();
    for (_, summary) in runs {
        for reason in summary.verdict.reasons.iter().filter(|r| !is_own(&r.code)) {
            let kind = WarningKind::of(summary, reason);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    let mut all: Vec<(usize, SharedWarning)> = Vec::new();
    for what in kinds {
        let found = giving(runs, &what);
        let Some((label, first)) = found.first().filter(|_| found.len() > 1) else { continue };
        let text = match found.iter().all(|(_, r)| r.text == first.text) {
            true => first.text.clone(),
            false => format!("{} ({label}{}", first.text, what.ending()),
        };
        all.push((found.len(), SharedWarning { who: who(&found, runs.len()), text, what }));
    }
    all.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
    all.into_iter().map(|(_, warning)| warning).collect()
}

/// Which of `all` runs these are; a few that are not all, by their names.
fn who(found: &[(&str, &Reason)], all: usize) -> String {
    match (found.len(), all) {
        (2, 2) => "Both runs".to_owned(),
        (n, _) if n == all => format!("All {all} runs"),
        (n, _) if n > NAMED => format!("{n} of {all} runs"),
        (n, _) => {
            let names: Vec<&str> = found.iter().map(|(label, _)| *label).collect();
            format!("{n} of {all} runs ({})", names.join(", "))
        }
    }
}

/// The runs that give a reason of this kind, and what each says.
fn giving<'a>(runs: &[(&'a str, &'a Summary)], what: &WarningKind) -> Vec<(&'a str, &'a Reason)> {
    let reason = |s: &'a Summary| s.verdict.reasons.iter().find(|r| WarningKind::of(s, r) == *what);
    runs.iter().filter_map(|(label, s)| Some((*label, reason(s)?))).collect()
}

/// The reasons of a run that are not among the shared warnings.
pub fn own_reasons<'a>(summary: &'a Summary, shared: &[SharedWarning]) -> Vec<&'a str> {
    let own = |r: &&Reason| shared.iter().all(|s| s.what != WarningKind::of(summary, r));
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

/// Devices of the runs, where that of each is known and they are few.
fn devices(manifests: &[&Manifest]) -> Option<String> {
    let known: Option<Vec<String>> = manifests.iter().map(|m| device(m)).collect();
    let known = distinct(known?.into_iter());
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
    let mut all: Vec<i64> = stamps.collect();
    all.sort_unstable();
    // A result of another tool may not tell when it was made: the dates of the others are not its own.
    all.first().filter(|first| **first > 0)?;
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
    use taillight_rundir::origin::{Fidelity, ImportSource, RunOrigin};

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
        assert_eq!(shared[0].who, "2 of 3 runs (a, b)");
        assert_eq!(shared[0].text, "90 % (a; the others say it with other figures.)");
        assert_eq!(own_reasons(&a, &shared), ["over"]);
        assert_eq!(own_reasons(&c, &shared), ["late"]);
        let same = shared_warnings(&[("a", &a), ("b", &a)]);
        assert_eq!((same[0].who.as_str(), same[0].text.as_str()), ("Both runs", "90 %"));
    }

    /// What one result has was said of both.
    #[test]
    fn where_figures_come_from_is_shared_only_where_it_is_the_same() {
        let of = |file: &str, fidelity| {
            let source = ImportSource {
                tool: "fio".to_owned(),
                version: None,
                file: file.to_owned(),
                file_sha256: String::new(),
                file_crc32: String::new(),
                fidelity,
                spans: "clat".to_owned(),
                notes: Vec::new(),
                failed: Vec::new(),
            };
            let origin = RunOrigin::Imported(source);
            let text = crate::text::origin::origin(&origin, 0.0).expect("words");
            Summary { origin, ..summary(&[(IMPORTED, text.as_str())]) }
        };
        let a = of("a.json", Fidelity::Percentiles);
        let (b, c) = (of("b.json", Fidelity::Percentiles), of("c.log", Fidelity::EveryIo));
        assert!(shared_warnings(&[("a", &a), ("c", &c)]).is_empty());
        assert_eq!(own_reasons(&c, &[]).len(), 1);
        let shared = shared_warnings(&[("a", &a), ("b", &b), ("c", &c)]);
        assert_eq!((shared.len(), shared[0].who.as_str()), (1, "2 of 3 runs (a, b)"));
        assert!(shared[0].text.ends_with(" (a; the others, of other files.)"), "{shared:?}");
        assert!(own_reasons(&a, &shared).is_empty() && own_reasons(&c, &shared).len() == 1);
        let short = ["a", "o"].map(|file| of(file, Fidelity::Percentiles));
        assert_eq!(shared_warnings(&[("a", &short[0]), ("o", &short[1])]).len(), 1);
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
        // What is known of one alone is not said of both.
        let dated = |b: &Manifest| about_all(&[&a, b]).ends_with(" UTC");
        let mut undated = b.clone();
        undated.clock.realtime_ns = 0;
        assert!(dated(&b) && !dated(&undated));
        b.plan.target.driver = "sim".to_owned();
        b.plan.target.path = None;
        let text = about_all(&[&a, &b]);
        assert!(!text.contains(&about::parts(&a)[0]), "{text}");
    }
}
