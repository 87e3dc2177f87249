//! The summary on a terminal: verdict first, at most 80 columns, colour only when asked.

use taillight_rundir::Summary;
use taillight_rundir::summary::{Reason, Verdict};

use crate::model::{Model, word};
use crate::table::{Cell, Table, TextPage, Tone};

/// The summary as text for a terminal. `colour` adds ANSI colours, leave it off elsewhere; `detail`
/// what is else for the page.
pub fn console_text(summary: &Summary, colour: bool, detail: bool) -> String {
    render(&Model::new(summary), colour, detail)
}

fn render(model: &Model, colour: bool, detail: bool) -> String {
    let mut page = TextPage::new(colour);
    let word = page.paint(model.verdict.word, model.verdict.tone, true);
    page.text.push_str(&format!("{word}:\n"));
    page.indented(&model.verdict.text, Tone::Plain);
    reasons(&mut page, &model.verdict.reasons);
    for table in model.tables.iter().filter(|t| detail || !t.detail) {
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
    let facts = || model.facts.iter().filter(|f| detail || !f.detail);
    let width = facts().map(|f| f.label.len()).max().unwrap_or(0);
    for fact in facts() {
        let label = format!("{:width$}  ", fact.label);
        page.labelled(&label, &fact.text, fact.tone);
    }
    page.text
}

/// What the verdict says is below: the first reason is in its sentence already.
fn reasons(page: &mut TextPage, reasons: &[String]) {
    for reason in reasons.iter().skip(1) {
        page.bullet(reason);
    }
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

/// Several runs: a line of verdict each, then the table of all.
pub fn several<'a>(
    verdicts: impl Iterator<Item = (&'a str, &'a Verdict)>,
    overview: &Table,
    colour: bool,
) -> String {
    let mut page = TextPage::new(colour);
    for (label, verdict) in verdicts {
        let (word, tone) = word(verdict);
        let head = page.paint(word, tone, true);
        page.text.push_str(&format!("{label}: {head}\n"));
        page.indented(&verdict.text, Tone::Plain);
        let plain = |r: &Reason| r.text.clone();
        let all: Vec<String> = verdict.reasons.iter().map(plain).collect();
        reasons(&mut page, &all);
    }
    page.text.push('\n');
    page.table(overview);
    page.text
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::summary::VerdictStatus;

    #[test]
    fn what_is_said_to_be_below_is_below() {
        let reason = |text: &str| Reason { code: "x".to_owned(), text: text.to_owned() };
        let verdict = Verdict {
            status: VerdictStatus::Warned,
            text: "Fast. First. (2 more below.)".to_owned(),
            reasons: ["First.", "Second.", "Third."].map(reason).to_vec(),
        };
        let overview = Table::new("x", "T", &["run"]);
        let text = several([("a", &verdict)].into_iter(), &overview, false);
        assert!(text.contains("(2 more below.)\n  - Second.\n  - Third.\n"), "{text}");
    }
}
