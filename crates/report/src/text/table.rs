//! Tables and paragraphs on a terminal: aligned columns, fitted to 80 columns at most, for reports, `explain` and
//! other commands that print tables. Markdown and HTML are in `render`.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::readable::visible;

/// Words that stay on the line of the figure before them.
const UNITS: [&str; 12] =
    ["ns", "us", "ms", "s", "min", "%", "B/s", "KiB/s", "MiB/s", "GiB/s", "IOPS", "I/Os"];
/// Widest line that text is fitted to.
pub const MOST_WIDTH: usize = 80;
/// Narrowest line that text is fitted to: tables need some room.
const LEAST_WIDTH: usize = 40;
/// Columns of the terminal, as far as they count.
static WIDTH: AtomicUsize = AtomicUsize::new(MOST_WIDTH);
/// Least room for words, which go on below each other.
const LEAST_WORDS: usize = 24;

/// Fits all further text of this process to a terminal of so many columns, held to 40 to 80.
pub fn set_width(columns: usize) {
    WIDTH.store(columns.clamp(LEAST_WIDTH, MOST_WIDTH), Relaxed);
}

/// Columns that text may take.
pub fn width() -> usize {
    WIDTH.load(Relaxed)
}

/// How something is to be felt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    #[default]
    Plain,
    /// Less important, or not measured.
    Dim,
    Good,
    Warn,
    Bad,
}

impl Tone {
    /// Its name in pages and files.
    pub fn name(self) -> &'static str {
        match self {
            Tone::Plain => "plain",
            Tone::Dim => "dim",
            Tone::Good => "good",
            Tone::Warn => "warn",
            Tone::Bad => "bad",
        }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// What it is, for programs.
    pub id: String,
    pub title: String,
    /// One line on how to read it.
    pub note: Option<String>,
    /// Headings of the columns; the first names the rows.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// Part of the detail: a terminal does not show it, or not first, until detail is asked for.
    pub detail: bool,
    /// Whether cells are words, not figures.
    pub words: bool,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    pub text: String,
    /// How it is meant.
    pub tone: Tone,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), tone: Tone::Plain }
    }
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl Table {
    /// A table of figures without rows. The first column names the rows; on a terminal the title stands in its heading
    /// where that is empty or `share`.
    pub fn new(id: &str, title: &str, columns: &[&str]) -> Table {
        Table {
            id: id.to_owned(),
            title: title.to_owned(),
            note: None,
            columns: columns.iter().map(|c| (*c).to_owned()).collect(),
            rows: Vec::new(),
            detail: false,
            words: false,
        }
    }
    /// The same for words: every column is aligned left.
    pub fn of_words(id: &str, title: &str, columns: &[&str]) -> Table {
        Table { words: true, ..Table::new(id, title, columns) }
    }
    /// The table as text for a terminal, without colours, fitted to [`width`] columns.
    pub fn to_text(&self) -> String {
        let mut page = TextPage { wraps: true, ..TextPage::new(false) };
        page.table(self);
        page.text
    }
}

/// A paragraph for a terminal, indented by two columns.
pub fn paragraph(text: &str) -> String {
    let mut page = TextPage::new(false);
    page.indented(text, Tone::Plain);
    page.text
}

/// Text for a terminal as it grows.
pub(crate) struct TextPage {
    pub text: String,
    /// Whether tones become ANSI colours.
    colour: bool,
    width: usize,
    /// Whether the last cell of words goes on below itself where a line is full.
    wraps: bool,
}

/// Whether the title stands in the place of the first column's heading.
fn titled(table: &Table) -> bool {
    table.columns.first().is_some_and(|name| name.is_empty() || name == "share")
}

impl TextPage {
    pub fn new(colour: bool) -> TextPage {
        TextPage { text: String::new(), colour, width: width(), wraps: false }
    }

    /// A table, in several parts when it is too wide, and its note.
    pub fn table(&mut self, table: &Table) {
        self.parts(table);
        self.note(table);
    }

    /// The table without its note.
    pub fn parts(&mut self, table: &Table) {
        for part in split(table, self.width, self.wraps) {
            self.part(&part);
        }
    }

    pub fn note(&mut self, table: &Table) {
        if let Some(note) = &table.note {
            self.indented(note, Tone::Dim);
        }
    }

    fn part(&mut self, table: &Table) {
        let mut widths = widths(table);
        let last = widths.len().saturating_sub(1);
        let narrow = widths[0] + 2 + LEAST_WORDS > self.width;
        if titled(table) && table.words && narrow && !table.title.is_empty() {
            // The title has a line of its own above the names of the rows.
            let title = self.paint(&table.title, Tone::Plain, true);
            self.text.push_str(&format!("{title}\n"));
            return self.part(&Table { title: String::new(), ..table.clone() });
        }
        let all: usize = widths.iter().sum::<usize>() + 2 * last;
        let wraps = table.words && (self.wraps || all > self.width);
        if wraps {
            let others: usize = widths[..last].iter().map(|w| w + 2).sum();
            let room = self.width.saturating_sub(others).max(LEAST_WORDS);
            widths[last] = widths[last].min(room);
        }
        let mut head = format!("{:<w$}", table.columns[0], w = widths[0]);
        if titled(table) {
            head = format!("{:<w$}", table.title, w = widths[0]);
        }
        for (name, width) in table.columns.iter().zip(&widths).skip(1) {
            head.push_str(&pad(name, *width, table.words));
        }
        let head = self.paint(head.trim_end(), Tone::Plain, true);
        self.text.push_str(&head);
        self.text.push('\n');
        for row in &table.rows {
            let mut rest = match row.last().filter(|_| wraps) {
                Some(cell) => wrap(&cell.text, widths[last]),
                None => Vec::new(),
            };
            rest.reverse();
            let mut first = row.clone();
            if let (Some(cell), Some(text)) = (first.last_mut(), rest.pop()) {
                cell.text = text;
            }
            self.row(&first, &widths, table.words);
            while let Some(text) = rest.pop() {
                let mut below = vec![Cell::default(); row.len()];
                below[last] = Cell { text, ..row[last].clone() };
                self.row(&below, &widths, table.words);
            }
        }
    }

    fn row(&mut self, row: &[Cell], widths: &[usize], words: bool) {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let room = " ".repeat(width - cell.text.chars().count().min(*width));
            let text = self.paint(&cell.text, cell.tone, false);
            let (before, after) = match (i, words) {
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

    /// A label and what it says, which goes on in the same column.
    pub fn labelled(&mut self, label: &str, text: &str, tone: Tone) {
        let indent = label.chars().count();
        let lines = wrap(text, self.width.saturating_sub(indent).max(LEAST_WORDS));
        for (i, line) in lines.iter().enumerate() {
            let lead = if i == 0 { label.to_owned() } else { " ".repeat(indent) };
            let line = self.paint(line, tone, false);
            self.text.push_str(&format!("{lead}{line}\n"));
        }
    }

    /// A paragraph, indented by two columns.
    pub fn indented(&mut self, text: &str, tone: Tone) {
        for line in wrap(text, self.width - 2) {
            let line = self.paint(&line, tone, false);
            self.text.push_str(&format!("  {line}\n"));
        }
    }

    /// A word that leads a paragraph, which goes on indented by two columns.
    pub fn headed(&mut self, word: &str, tone: Tone, text: &str) {
        let head = format!("{word}: ");
        let lines = wrap(&format!("{head}{text}"), self.width - 2).join("\n  ");
        match lines.strip_prefix(&head) {
            Some(rest) => {
                let word = self.paint(word, tone, true);
                self.text.push_str(&format!("{word}: {rest}\n"));
            }
            None => self.text.push_str(&format!("{lines}\n")),
        }
    }

    /// A point of a list.
    pub fn bullet(&mut self, text: &str) {
        let lines = wrap(text, self.width - 4);
        self.text.push_str(&format!("  - {}\n", lines.join("\n    ")));
    }

    /// The text in the colour of its tone.
    pub fn paint(&self, text: &str, tone: Tone, bold: bool) -> String {
        let text = &*visible(text);
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
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Figures stand right, words left, two spaces between columns.
fn pad(text: &str, width: usize, words: bool) -> String {
    if words { format!("  {text:<width$}") } else { format!("  {text:>width$}") }
}

fn widths(table: &Table) -> Vec<usize> {
    let length = |cell: &Cell| cell.text.chars().count();
    let mut widths: Vec<usize> = table.columns.iter().map(|c| c.chars().count()).collect();
    if let Some(first) = widths.first_mut() {
        let title = if titled(table) { table.title.chars().count() } else { 0 };
        *first = (*first).max(title);
    }
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(length(cell));
        }
    }
    widths
}

/// Splits a table that is too wide into several with the same first column, and the second where it has no
/// name: it tells rows apart then.
fn split(table: &Table, most: usize, wraps: bool) -> Vec<Table> {
    let mut widths = widths(table);
    if let Some(last) =
        widths.last_mut().filter(|_| wraps && table.words && table.columns.len() > 2)
    {
        *last = (*last).min(LEAST_WORDS);
    }
    let names = 1 + usize::from(table.columns.get(1).is_some_and(String::is_empty));
    let named = widths.iter().take(names).sum::<usize>() + 2 * (names - 1);
    let mut parts: Vec<Vec<usize>> = vec![Vec::new()];
    let mut used = named;
    for (i, width) in widths.iter().enumerate().skip(names) {
        let full = parts.last().is_some_and(|p| !p.is_empty()) && used + width + 2 > most;
        if full {
            parts.push(Vec::new());
            used = named;
        }
        used += width + 2;
        if let Some(part) = parts.last_mut() {
            part.push(i);
        }
    }
    let pick = |columns: &[usize]| Table {
        columns: (0..names)
            .chain(columns.iter().copied())
            .filter_map(|i| table.columns.get(i).cloned())
            .collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                let all = (0..names).chain(columns.iter().copied());
                all.filter_map(|i| row.get(i).cloned()).collect()
            })
            .collect(),
        ..table.clone()
    };
    parts.iter().map(|columns| pick(columns)).collect()
}

/// Breaks text at spaces into lines of at most `width` columns. A word longer than a line stands
/// alone.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    // A figure and its unit stay together.
    let mut words: Vec<String> = Vec::new();
    for word in visible(text).split_whitespace() {
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

    #[test]
    fn a_title_that_is_not_shown_takes_no_room() {
        let title = "A title that is longer than everything in the table";
        let row = |name: &str| {
            let mut table = Table::new("t", title, &[name, "b"]);
            table.rows.push(vec![Cell::new("x"), Cell::new("1")]);
            table.to_text()
        };
        assert_eq!(row("run"), "run  b\nx    1\n");
        assert!(row("").starts_with(title));
    }

    #[test]
    fn wide_tables_are_split_and_keep_their_first_column() {
        let table = Table {
            columns: (0..8).map(|i| format!("column {i}")).collect(),
            rows: vec![(0..8).map(|i| Cell::new(format!("{i:>20}"))).collect()],
            ..Table::new("x", "T", &[])
        };
        let parts = split(&table, MOST_WIDTH, false);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|p| p.columns[0] == "column 0"));
        let mut two = table.clone();
        two.columns[1] = String::new();
        assert!(split(&two, MOST_WIDTH, false).iter().all(|p| p.columns[1].is_empty()));
        assert_eq!(parts.iter().map(|p| p.columns.len() - 1).sum::<usize>(), 7);
        assert!(
            parts.iter().all(|p| widths(p).iter().map(|w| w + 2).sum::<usize>() <= MOST_WIDTH + 2)
        );
    }

    #[test]
    fn words_go_on_below_each_other_and_no_line_is_wider_than_a_terminal() {
        let long =
            "evenly between the two ends, or as close to that as any of them comes; not run twice";
        let mut table = Table::of_words("t", "T", &["point", "setting", "rule"]);
        table.rows.push(["max", "workers 8, queue_depth 8", long].map(Cell::new).to_vec());
        let mut one = Table::of_words("t", "T", &["deviation"]);
        one.rows.push(vec![Cell::new(long)]);
        for text in [table.to_text(), one.to_text()] {
            assert!(text.lines().all(|l| l.chars().count() <= MOST_WIDTH), "{text}");
            let words: Vec<&str> = text.split_whitespace().collect();
            assert!(long.split_whitespace().all(|w| words.contains(&w)), "{text}");
        }
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("within 3 ms.", 9), ["within", "3 ms."]);
    }
}
