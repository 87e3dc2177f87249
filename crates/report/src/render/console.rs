//! What a terminal shows of runs: the answer, fitted to 80 columns at most, colour only when asked.
//!
//! The order of one run: what ran on what, the verdict with the first sentence of each reason, wrong blocks, figures,
//! hosts, one sentence on what held the slow I/Os, facts that are good or bad news. With `detail`: all of each.
//! The caller is `make`, which adds where the page is.

use taillight_rundir::Summary;

use crate::model::shared::{about_all, is_of_one, own_reasons, shared_warnings};
use crate::model::{
    AnalysedRun, Fact, HOSTS, Model, RATE, WITNESS, WRONG_BLOCKS, about, differences, first,
    overview, sentences,
};
use crate::table::{Cell, Table, TextPage, Tone};

/// How a terminal is written to.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConsoleStyle {
    /// ANSI colours; leave them off elsewhere.
    pub colour: bool,
    /// Everything: reasons whole, all tables and facts of the page.
    pub detail: bool,
}

/// The runs as text for a terminal.
pub fn console_text(runs: &[AnalysedRun], style: ConsoleStyle) -> String {
    match runs {
        [one] => single(one, style),
        several => together(several, style),
    }
}

fn single(run: &AnalysedRun, style: ConsoleStyle) -> String {
    let mut page = TextPage::new(style.colour);
    let model = Model::new(&run.summary);
    page.labelled("", &about::about(&run.analysis.manifest), Tone::Dim);
    let verdict = &model.verdict;
    page.headed(verdict.word, verdict.tone, &verdict.text);
    reasons(&mut page, verdict.further(), style);
    // Wrong data is the answer to a run that verifies: its places stand before every figure, and
    // with detail among the tables.
    if let Some(wrong) = model.table(WRONG_BLOCKS).filter(|_| !style.detail) {
        page.table(wrong);
    }
    let figures = first::figures(&[(&run.label, &run.summary)]);
    if !figures.rows.is_empty() {
        page.table(&figures);
    }
    if let Some(hosts) = model.table(HOSTS).filter(|_| !style.detail) {
        page.text.push('\n');
        page.table(hosts);
    }
    for line in held(run).take(if style.detail { usize::MAX } else { 1 }) {
        page.headed("Slow ones", Tone::Plain, &line);
    }
    match style.detail {
        true => details(&mut page, &model),
        // What was lost, or proven, is never left to the details.
        false => {
            facts(&mut page, model.facts.iter().filter(|fact| is_told(fact)), 0);
            witnesses(&mut page, &run.summary);
        }
    }
    page.text
}

/// Ratios of what others counted to what the run did, in one line.
fn witnesses(page: &mut TextPage, summary: &Summary) {
    let mut parts: Vec<String> = Vec::new();
    let mut of = None;
    for it in &summary.witness {
        let (who, what) = it.counts.source.split_once(", ").unwrap_or((&it.counts.source, ""));
        let ratio = it.counts.ratio_text();
        let named = if of == Some(who) { what.to_owned() } else { it.counts.source.clone() };
        let mark = if it.counts.is_equal() { "" } else { " *" };
        parts.push(format!("{named} {ratio}{mark}"));
        of = Some(who);
    }
    if parts.is_empty() {
        return;
    }
    page.labelled("Witness  ", &parts.join(", "), Tone::Plain);
    if summary.witness.iter().any(|it| it.explained && !it.counts.is_equal()) {
        page.indented(
            "* of what this run counted; the report says what explains the rest",
            Tone::Dim,
        );
    }
}

/// Whether a fact is good or bad news that the verdict does not have already.
fn is_told(fact: &Fact) -> bool {
    // What a witness says stands in one line of its own, or among the reasons.
    let elsewhere = [RATE, WITNESS].contains(&fact.label);
    matches!(fact.tone, Tone::Good | Tone::Warn | Tone::Bad) && !elsewhere
}

fn facts<'a>(page: &mut TextPage, facts: impl Iterator<Item = &'a Fact>, width: usize) {
    for fact in facts {
        let label = format!("{:width$}  ", fact.label);
        page.labelled(&label, &fact.text, fact.tone);
    }
}

/// Which layers held the slow I/Os, in sentences; none of a run without an explanation.
fn held(run: &AnalysedRun) -> impl Iterator<Item = String> {
    run.explanation.iter().flat_map(sentences)
}

/// The tables and facts that the page has behind its first screen.
fn details(page: &mut TextPage, model: &Model) {
    for table in &model.tables {
        page.text.push('\n');
        let (shorter, hidden) = without_repeats(table);
        page.parts(&shorter);
        if hidden > 0 {
            let note = format!("and {hidden} deeper, which need more I/Os still");
            page.indented(&note, Tone::Dim);
        }
        page.note(table);
    }
    page.text.push('\n');
    let width = model.facts.iter().map(|f| f.label.len()).max().unwrap_or(0);
    facts(page, model.facts.iter(), width);
}

/// Each reason: its first sentence, or all of it for those who want detail.
fn reasons<'a>(
    page: &mut TextPage,
    reasons: impl Iterator<Item = &'a String>,
    style: ConsoleStyle,
) {
    for reason in reasons {
        page.bullet(if style.detail { reason } else { sentence(reason) });
    }
}

/// The first sentence of a text.
fn sentence(text: &str) -> &str {
    let next = |at: &usize| text[at + 2..].starts_with(|c: char| c.is_uppercase());
    let end = text.match_indices(". ").map(|(at, _)| at).find(next);
    end.map_or(text, |at| &text[..=at])
}

/// The same of a warning that runs share, with the run whose figures it gives.
fn shortened(text: &str) -> String {
    // The bracket that the text ends with; a label in it may have brackets of its own.
    let opens = |at: &usize| {
        let (open, close) = (text[*at..].matches('(').count(), text[*at..].matches(')').count());
        open == close
    };
    let ends = is_of_one(text);
    let at = text.rmatch_indices(" (").map(|(at, _)| at).filter(|_| ends).find(opens);
    let (said, whose) = text.split_at(at.unwrap_or(text.len()));
    format!("{}{whose}", sentence(said))
}

/// Of the rows at the end that hold nothing measured, keeps the first.
fn without_repeats(table: &Table) -> (Table, usize) {
    let empty = |row: &Vec<Cell>| row.len() > 1 && row.iter().skip(1).all(|c| c.tone == Tone::Dim);
    let filled = table.rows.iter().rposition(|row| !empty(row)).map_or(0, |i| i + 1);
    let mut shorter = table.clone();
    shorter.rows.truncate(filled + 1);
    let hidden = table.rows.len() - shorter.rows.len();
    (shorter, hidden)
}

/// Several runs: their answer, warnings once, a row of figures each; what differs between them is detail.
fn together(runs: &[AnalysedRun], style: ConsoleStyle) -> String {
    let mut page = TextPage::new(style.colour);
    let manifests: Vec<_> = runs.iter().map(|run| &run.analysis.manifest).collect();
    page.labelled("", &about_all(&manifests), Tone::Dim);
    let pairs: Vec<(&str, &Summary)> =
        runs.iter().map(|run| (run.label.as_str(), &run.summary)).collect();
    page.labelled("", &first::answer_of_several(&pairs), Tone::Plain);
    let shared = shared_warnings(&pairs);
    for it in &shared {
        let text = if style.detail { it.text.clone() } else { shortened(&it.text) };
        page.bullet(&format!("{}: {text}", it.who));
    }
    for (label, summary) in &pairs {
        let own = own_reasons(summary, &shared);
        let word = crate::model::word(&summary.verdict).0;
        for reason in own {
            let reason = if style.detail { reason } else { sentence(reason) };
            let word = if repeats(word, reason) { String::new() } else { format!("{word}: ") };
            page.bullet(&format!("{label}: {word}{reason}"));
        }
    }
    page.table(&first::figures(&pairs));
    if style.detail {
        for run in runs {
            for line in held(run) {
                page.headed(&run.label, Tone::Plain, &line);
            }
        }
        let named: Vec<(String, &AnalysedRun)> =
            runs.iter().map(|run| (run.label.clone(), run)).collect();
        for table in [Some(overview(&named)), differences(runs)].into_iter().flatten() {
            page.text.push('\n');
            page.text.push_str(&table.to_text());
        }
    }
    page.text
}

/// Whether a reason begins with the last word of the verdict: "Ceiling missed" and "Missed: 1.3 %".
fn repeats(word: &str, reason: &str) -> bool {
    let first = reason.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    word.rsplit(' ').next().is_some_and(|last| last.eq_ignore_ascii_case(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_not_said_twice() {
        assert!(repeats("Ceiling missed", "Missed: 1.3 % over 10 ms"));
        assert!(!repeats("Ceiling missed", "4 % of CPU time was stolen"));
    }

    #[test]
    fn a_reason_is_told_by_its_first_sentence() {
        for (text, first) in [
            ("At 99.9 % it is 1.5 ms. Wait longer.", "At 99.9 % it is 1.5 ms."),
            ("One, e.g. this. two", "One, e.g. this. two"),
            ("Whole.", "Whole."),
        ] {
            assert_eq!(sentence(text), first);
        }
        assert_eq!(
            shortened("Busy. Wait. (a; the others say it with other figures.)"),
            "Busy. (a; the others say it with other figures.)"
        );
        assert_eq!(
            shortened("Busy. Wait. (name (2); the others say it with other figures.)"),
            "Busy. (name (2); the others say it with other figures.)"
        );
        assert_eq!(shortened("Busy (90 %). Wait."), "Busy (90 %).");
    }
}
