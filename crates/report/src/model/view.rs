//! What a renderer shows of one run: verdict, tables and facts, as finished text.

use serde::Serialize;
use taillight_rundir::summary::{Verdict, VerdictStatus};

use crate::analyse::damage::is_damage;
use crate::table::{Table, Tone};
use crate::verdict::{CEILING_FAILED, CEILING_UNDECIDED, IMPORTED, WRONG_DATA};

/// One run, ready to show.
#[derive(Debug, Clone, Serialize)]
pub struct Model {
    /// Id of the run.
    pub run: String,
    pub verdict: VerdictView,
    /// Tables in order of importance.
    pub tables: Vec<Table>,
    /// Single facts: rate asked and reached, losses, overhead, source.
    pub facts: Vec<Fact>,
}

/// The verdict in words.
#[derive(Debug, Clone, Serialize)]
pub struct VerdictView {
    pub tone: Tone,
    /// A few words: `Good`, `Valid, with warnings`.
    pub word: &'static str,
    /// The answer in a few sentences, which every output has in the same words.
    pub text: String,
    /// Every reason, in the verdict's order; of a failed run the first one is the answer.
    pub reasons: Vec<String>,
}

/// A fact with its label.
#[derive(Debug, Clone, Serialize)]
pub struct Fact {
    pub label: &'static str,
    pub text: String,
    /// How it is meant.
    pub tone: Tone,
    /// Of use beside charts only.
    pub detail: bool,
}

impl VerdictView {
    /// The reasons that the answer does not give itself.
    pub fn further(&self) -> impl Iterator<Item = &String> {
        self.reasons.iter().filter(|reason| !self.text.contains(*reason))
    }
}

impl Model {
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
        // What another tool measured is not judged.
        VerdictStatus::Good | VerdictStatus::Warned
            if verdict.reasons.iter().any(|r| r.code == IMPORTED) =>
        {
            ("Imported", Tone::Plain)
        }
        VerdictStatus::Good => ("Good", Tone::Good),
        VerdictStatus::Warned => ("Valid, with warnings", Tone::Warn),
        VerdictStatus::Saturated => ("Saturated", Tone::Warn),
        VerdictStatus::Errors => ("Errors", Tone::Bad),
        VerdictStatus::Partial => ("Partial", Tone::Warn),
        VerdictStatus::Failed => ("Failed", Tone::Bad),
    }
}
