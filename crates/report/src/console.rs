//! The summary on a terminal: verdict first, at most 100 columns, colour only when asked.

use taillight_rundir::Summary;
use taillight_rundir::summary::{Reason, Verdict};

use crate::format::{self, Script};
use crate::model::{Cell, Model, Table, Tone, word};

/// Words that stay on the line of the figure before them.
const UNITS: [&str; 12] = [
    "ns", "us", "ms", "s", "min", "%", "B/s", "KiB/s", "MiB/s", "GiB/s", "IOPS", "I/Os",
];
/// Widest line.
const WIDTH: usize = 100;

/// The summary as text for a terminal. `colour` adds ANSI colours; leave it off elsewhere.
pub fn console_text(summary: &Summary, colour: bool) -> String {
    render(&Model::new(summary, Script::Plain), colour)
}

pub fn render(model: &Model, colour: bool) -> String {
    let mut out = Page {
        text: String::new(),
        colour,
    };
    out.verdict(model);
    for table in model.tables.iter().filter(|t| !t.detail) {
        out.text.push('\n');
        let (table, hidden) = without_repeats(table);
        for part in split(&table) {
            out.table(&part);
        }
        if hidden > 0 {
            let note = format!("and {hidden} deeper, which need more I/Os still");
            out.wrapped(&note, 2, 2, Tone::Dim);
        }
        if let Some(note) = &table.note {
            out.wrapped(note, 2, 2, Tone::Dim);
        }
    }
    out.text.push('\n');
    let facts = || model.facts.iter().filter(|f| !f.detail);
    let width = facts().map(|f| f.label.len()).max().unwrap_or(0);
    for fact in facts() {
        let label = format!("{:width$}  ", fact.label);
        out.labelled(&label, &fact.text, fact.tone);
    }
    out.text
}

/// One table as text for a terminal, without colours.
pub fn table_text(table: &Table) -> String {
    let mut out = Page {
        text: String::new(),
        colour: false,
    };
    for part in split(table) {
        out.table(&part);
    }
    if let Some(note) = &table.note {
        out.wrapped(note, 2, 2, Tone::Dim);
    }
    out.text
}

/// A paragraph, indented by two columns.
pub(crate) fn paragraph(text: &str) -> String {
    let lines = wrap(text, WIDTH - 2);
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// Of the rows at the end that hold nothing measured, keeps the first.
fn without_repeats(table: &Table) -> (Table, usize) {
    let empty = |row: &Vec<Cell>| row.len() > 1 && row.iter().skip(1).all(|c| c.tone == Tone::Dim);
    let filled = table
        .rows
        .iter()
        .rposition(|row| !empty(row))
        .map_or(0, |i| i + 1);
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
    let mut out = Page {
        text: String::new(),
        colour,
    };
    for (label, verdict) in verdicts {
        let (word, tone) = word(verdict);
        let head = out.paint(word, tone, true);
        out.text.push_str(&format!("{label}: {head}\n"));
        out.wrapped(&verdict.text, 2, 2, Tone::Plain);
        let plain = |r: &Reason| format::written(&r.text, Script::Plain);
        let reasons: Vec<String> = verdict.reasons.iter().map(plain).collect();
        out.reasons(&reasons);
    }
    out.text.push('\n');
    for part in split(overview) {
        out.table(&part);
    }
    if let Some(note) = &overview.note {
        out.wrapped(note, 2, 2, Tone::Dim);
    }
    out.text
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn verdict(&mut self, model: &Model) {
        let word = self.paint(model.verdict.word, model.verdict.tone, true);
        self.text.push_str(&word);
        self.text.push_str(":\n");
        self.wrapped(&model.verdict.text, 2, 2, Tone::Plain);
        self.reasons(&model.verdict.reasons);
    }

    /// What the verdict says is below: the first reason is in its sentence already.
    fn reasons(&mut self, reasons: &[String]) {
        for reason in reasons.iter().skip(1) {
            self.text.push_str("  - ");
            let lines = wrap(reason, WIDTH - 4);
            self.text.push_str(&lines.join("\n    "));
            self.text.push('\n');
        }
    }

    fn table(&mut self, table: &Table) {
        let widths = widths(table);
        let mut head = format!("{:<w$}", table.columns[0], w = widths[0]);
        if table.columns[0].is_empty() || table.columns[0] == "share" {
            head = format!("{:<w$}", table.title, w = widths[0]);
        }
        for (name, width) in table.columns.iter().zip(&widths).skip(1) {
            head.push_str(&pad(name, *width, table.words));
        }
        let head = self.paint(head.trim_end(), Tone::Plain, true);
        self.text.push_str(&head);
        self.text.push('\n');
        for row in &table.rows {
            let mut line = String::new();
            for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let room = " ".repeat(width - cell.text.chars().count().min(*width));
                let text = self.paint(&cell.text, cell.tone, false);
                let (before, after) = match (i, table.words) {
                    (0, _) => ("", room.as_str()),
                    (_, true) => ("  ", room.as_str()),
                    (_, false) => ("  ", ""),
                };
                line.push_str(before);
                if before == "  " && after.is_empty() {
                    line.push_str(&room);
                }
                line.push_str(&text);
                line.push_str(after);
            }
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    fn labelled(&mut self, label: &str, text: &str, tone: Tone) {
        let indent = label.chars().count();
        let lines = wrap(text, WIDTH - indent);
        for (i, line) in lines.iter().enumerate() {
            let lead = if i == 0 {
                label.to_owned()
            } else {
                " ".repeat(indent)
            };
            let line = self.paint(line, tone, false);
            self.text.push_str(&format!("{lead}{line}\n"));
        }
    }

    fn wrapped(&mut self, text: &str, first: usize, rest: usize, tone: Tone) {
        for (i, line) in wrap(text, WIDTH - first.max(rest)).iter().enumerate() {
            let indent = " ".repeat(if i == 0 { first } else { rest });
            let line = self.paint(line, tone, false);
            self.text.push_str(&format!("{indent}{line}\n"));
        }
    }

    fn paint(&self, text: &str, tone: Tone, bold: bool) -> String {
        let code = match (tone, bold) {
            (Tone::Plain, false) => return text.to_owned(),
            (Tone::Plain, true) => "1",
            (Tone::Dim, _) => "2",
            (Tone::Good, true) => "1;32",
            (Tone::Good, false) => "32",
            (Tone::Warn, true) => "1;33",
            (Tone::Warn, false) => "33",
            (Tone::Bad, true) => "1;31",
            (Tone::Bad, false) => "31",
        };
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Figures stand right, words left, two spaces between columns.
fn pad(text: &str, width: usize, words: bool) -> String {
    if words {
        format!("  {text:<width$}")
    } else {
        format!("  {text:>width$}")
    }
}

fn widths(table: &Table) -> Vec<usize> {
    let length = |cell: &Cell| cell.text.chars().count();
    let mut widths: Vec<usize> = table.columns.iter().map(|c| c.chars().count()).collect();
    if let Some(first) = widths.first_mut() {
        *first = (*first).max(table.title.chars().count());
    }
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(length(cell));
        }
    }
    widths
}

/// Splits a table that is too wide into several with the same first column.
fn split(table: &Table) -> Vec<Table> {
    let widths = widths(table);
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = widths.first().copied().unwrap_or(0);
    for (i, width) in widths.iter().enumerate().skip(1) {
        let full = parts.last().is_some_and(|p| !p.is_empty()) && used + width + 2 > WIDTH;
        if full {
            parts.push(Vec::new());
            used = widths[0];
        }
        used += width + 2;
        if let Some(part) = parts.last_mut() {
            part.push(i);
        }
    }
    let pick = |columns: &[usize]| Table {
        columns: std::iter::once(0)
            .chain(columns.iter().copied())
            .filter_map(|i| table.columns.get(i).cloned())
            .collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                let all = std::iter::once(0).chain(columns.iter().copied());
                all.filter_map(|i| row.get(i).cloned()).collect()
            })
            .collect(),
        ..table.clone()
    };
    parts.iter().map(|columns| pick(columns)).collect()
}

/// Breaks text at spaces. A word longer than a line stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // A figure and its unit stay together.
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches([',', ';', '.', ')', ':']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    for word in &words {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.clone());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::summary::VerdictStatus;

    #[test]
    fn what_is_said_to_be_below_is_below() {
        let reason = |text: &str| Reason {
            code: "x".to_owned(),
            text: text.to_owned(),
        };
        let verdict = Verdict {
            status: VerdictStatus::Warned,
            text: "Fast. First. (2 more below.)".to_owned(),
            reasons: ["First.", "Second.", "Third."].map(reason).to_vec(),
        };
        let overview = Table {
            id: "x",
            title: "T".to_owned(),
            note: None,
            columns: vec!["run".to_owned()],
            rows: vec![],
            detail: false,
            words: false,
        };
        let text = several([("a", &verdict)].into_iter(), &overview, false);
        assert!(
            text.contains("(2 more below.)\n  - Second.\n  - Third.\n"),
            "{text}"
        );
    }

    #[test]
    fn wide_tables_are_split_and_keep_their_first_column() {
        let table = Table {
            id: "x",
            title: "T".to_owned(),
            note: None,
            columns: (0..8).map(|i| format!("column {i}")).collect(),
            rows: vec![(0..8).map(|i| Cell::new(format!("{i:>20}"))).collect()],
            detail: false,
            words: false,
        };
        let parts = split(&table);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|p| p.columns[0] == "column 0"));
        assert_eq!(parts.iter().map(|p| p.columns.len() - 1).sum::<usize>(), 7);
        assert!(
            parts
                .iter()
                .all(|p| widths(p).iter().map(|w| w + 2).sum::<usize>() <= WIDTH + 2)
        );
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("within 3 ms.", 9), ["within", "3 ms."]);
    }
}
