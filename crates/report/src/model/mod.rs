//! What every renderer shows: the same words and the same tables on a terminal, in Markdown, in
//! HTML.
//!
//! What it is: a summary turned into finished text, once. What it is not: layout. Renderers choose
//! how a table looks, never what it says.

mod build;
mod tables;

use serde::Serialize;
use taillight_rundir::summary::{Verdict, VerdictStatus};

pub use tables::overview;

use crate::analyse::damage::is_damage;
use crate::format::Script;
use crate::verdict::{CEILING_FAILED, CEILING_UNDECIDED};
use crate::verified::WRONG_DATA;

/// One run, ready to show.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// Name of the run.
    pub run: String,
    pub verdict: VerdictView,
    pub tiles: Vec<Tile>,
    /// Tables in order of importance.
    pub tables: Vec<Table>,
    /// Single facts: rate asked and reached, losses, overhead, source.
    pub facts: Vec<Fact>,
}

/// The verdict in words.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictView {
    pub tone: Tone,
    /// One or two words: `Good`, `Valid, with warnings`.
    pub word: &'static str,
    pub text: String,
    /// Every reason, most important first.
    pub reasons: Vec<String>,
}

/// How something is to be felt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
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

/// A key figure.
#[derive(Debug, Clone, Serialize)]
pub struct Tile {
    pub label: String,
    pub value: String,
    /// A word on it.
    pub note: String,
}

/// A table.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    pub id: &'static str,
    pub title: String,
    /// One line on how to read it.
    pub note: Option<String>,
    /// Headings of the columns; the first names the rows.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// Too long for a terminal.
    pub detail: bool,
    /// Whether cells are words, not figures.
    pub words: bool,
}

/// A cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cell {
    pub text: String,
    /// How it is meant.
    pub tone: Tone,
}

impl Cell {
    pub fn new(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            tone: Tone::Plain,
        }
    }
    /// Text with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell {
            text: text.into(),
            tone,
        }
    }
}

/// A fact with its label.
#[derive(Debug, Clone, Serialize)]
pub struct Fact {
    pub label: &'static str,
    pub text: String,
    /// How it is meant.
    pub tone: Tone,
    /// Too much for a terminal.
    pub detail: bool,
}

impl Model {
    /// The model of a summary.
    pub fn new(summary: &taillight_rundir::Summary, script: Script) -> Model {
        build::model(summary, script)
    }
    /// The table with this id.
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.id == id)
    }
}

/// The word for a verdict: its status, or the reason that is the answer.
pub fn word(verdict: &Verdict) -> (&'static str, Tone) {
    let first = verdict.reasons.first().map_or("", |r| r.code.as_str());
    match verdict.status {
        VerdictStatus::Warned if is_damage(first) => ("Damaged", Tone::Bad),
        VerdictStatus::Warned if first == CEILING_FAILED => ("Ceiling missed", Tone::Bad),
        VerdictStatus::Warned if first == CEILING_UNDECIDED => ("Ceiling undecided", Tone::Warn),
        VerdictStatus::Errors if first == WRONG_DATA => ("Wrong data", Tone::Bad),
        VerdictStatus::Good => ("Good", Tone::Good),
        VerdictStatus::Warned => ("Valid, with warnings", Tone::Warn),
        VerdictStatus::Saturated => ("Saturated", Tone::Warn),
        VerdictStatus::Errors => ("Errors", Tone::Bad),
        VerdictStatus::Partial => ("Partial", Tone::Warn),
        VerdictStatus::Failed => ("Failed", Tone::Bad),
    }
}
