//! What terminal, Markdown and page show: analysis, summary and explanation turned once into words, tables and
//! chart data. These renderers choose which of them are shown and how, never what a table or a chart says.

pub mod about;
mod answer;
mod build;
pub mod charts;
mod context;
mod differs;
mod explanation;
pub mod first;
mod holders;
mod hosts;
pub mod labels;
mod recorded;
mod run;
pub mod shared;
mod sheet;
mod short;
mod sides;
mod tables;
mod view;
mod wrong_blocks;

pub use build::{RATE, WITNESS};
pub use context::{ReportContext, ReportPoint, ReportSummary, SeriesReportFile};
pub use differs::{differences, differing};
pub use explanation::sentences;
pub use first::{Card, CardLine};
pub use holders::{HoldersCell, HoldersRow, HoldersTable, held, holders};
pub use hosts::HOSTS;
pub use run::AnalysedRun;
pub use shared::SharedWarning;
pub use sheet::{SheetColumn, StandardSheet, UNKNOWN};
pub use short::{ShortCeiling, ShortFigures, ShortReport, ShortRun};
pub use sides::{SideDetails, side_details, side_tables, side_words, sides_of};
pub use tables::overview;
pub use view::{Fact, Model, VerdictView, word};
pub use wrong_blocks::WRONG_BLOCKS;
