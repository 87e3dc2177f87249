//! Reads run directories and makes what a person reads: analysis, model, charts, renderers. Captured data
//! is never changed. Called by `cli`, `live`, `compare` and `suite`.
//!
//! Each folder is one stage, and a stage uses only those before it (`verdict` and `summary` also take sentences from
//! [`model`]): [`analyse`] (figures of a run directory) -> `verdict` (what is wrong with the run) -> `summary`
//! (`summary.json`) -> [`model`] (words, tables and chart data) -> [`render`] (console, Markdown, CSV, JSON, page) ->
//! [`mod@export`] (formats of other tools), [`make()`].
//! `text` is below all.

pub mod analyse;
pub mod export;
mod make;
pub mod model;
pub mod render;
mod summary;
mod text;
mod verdict;

pub use analyse::damage::{damaged, is_damage};
pub use make::{MadeReport, ReportOptions, at_home, check_output, make, make_counted};
pub use model::charts::sweep;
pub use model::charts::{JudgedWindow, RunGroup, SteadyTrack};
pub use model::differing;
pub use model::first::compare_answer;
pub use model::{AnalysedRun, ReportContext, ReportPoint, ReportSummary, SeriesReportFile};
pub use model::{SheetColumn, StandardSheet, UNKNOWN};
pub use model::{ShortCeiling, ShortFigures, ShortReport, ShortRun};
pub use model::{SideDetails, side_words};
pub use render::console::{ConsoleStyle, console_text};
pub use render::html;
pub use summary::summarise;
pub use taillight_explain::{layer_did, layer_words};
pub use text::origin::tool as tool_words;
pub use text::{by_chance, format, table, undecided};
pub use verdict::LEVEL_CHANGED;
