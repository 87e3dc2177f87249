//! The disclosure that a standard asks for, at the head of every page of its report: four columns of named
//! facts, and words for facts that nobody said. The method chooses the facts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{Cell, Table};

/// What stands for a fact that neither the system nor the device says.
pub const UNKNOWN: &str = "unknown";

/// The head of a report that follows a standard.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StandardSheet {
    /// The test, by the suite's own words.
    pub test: String,
    /// The standard, and whether it is followed.
    pub conformance: String,
    /// What was measured, in a few words.
    pub device: String,
    /// Begin and end, UTC.
    pub dates: String,
    /// What must be read on every page: a steady state that was not achieved.
    pub warning: Option<String>,
    /// Test platform, device under test, set-up parameters, test parameters.
    pub columns: Vec<SheetColumn>,
}

/// A column of facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SheetColumn {
    pub title: String,
    /// Name and value of each fact.
    pub facts: Vec<(String, String)>,
}

impl SheetColumn {
    pub fn new(title: &str) -> SheetColumn {
        SheetColumn { title: title.to_owned(), facts: Vec::new() }
    }

    /// Adds a fact; without a value it is unknown.
    pub fn add(&mut self, name: &str, value: Option<String>) {
        let value = value.filter(|v| !v.trim().is_empty());
        self.facts.push((name.to_owned(), value.unwrap_or_else(|| UNKNOWN.to_owned())));
    }

    /// The column as a table for a terminal.
    pub fn table(&self, id: &str) -> Table {
        let mut table = Table::of_words(id, &self.title, &["", ""]);
        let row = |(name, value): &(String, String)| vec![Cell::new(name), Cell::new(value)];
        table.rows = self.facts.iter().map(row).collect();
        table
    }
}
