//! Renderers: console text, Markdown, CSV, JSON and a page with charts. Figures and words are those of model, summary
//! and explanation. To add a text file write one function and add one line to [`TEXTS`]; to add a chart see
//! [`plots::CHARTS`].

pub mod console;
pub mod csv;
pub mod explain_json;
pub mod explain_text;
pub mod fio_json;
pub mod html;
mod markdown;
mod palette;
pub mod plots;

use crate::model::AnalysedRun;
use csv::{INTERVALS, PERCENTILES, intervals_csv, percentiles_csv};
use markdown::MARKDOWN;
pub use markdown::markdown;

/// A text file that a report has beside its page.
pub struct TextExport {
    pub file: &'static str,
    /// What the file begins with, whatever the runs. A file that begins so is Taillight's and may be overwritten; any
    /// other is a user's.
    pub head: &'static str,
    pub render: fn(&[AnalysedRun]) -> String,
}

/// Every text file of a report directory, in the order they are written.
pub const TEXTS: &[TextExport] = &[
    TextExport { file: "report.md", head: MARKDOWN, render: markdown },
    TextExport { file: "percentiles.csv", head: PERCENTILES, render: percentiles_csv },
    TextExport { file: "intervals.csv", head: INTERVALS, render: intervals_csv },
];
