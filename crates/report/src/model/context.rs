//! What the caller knows about runs that belong together: a search, repetitions, a suite.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_rundir::compare::CompareFile;
use taillight_rundir::history::HistoryFile;
use taillight_rundir::search::SearchReport;
use taillight_rundir::{JsonFile, names};

use super::charts::{RunGroup, SteadyTrack, SweepData};
use super::sheet::StandardSheet;
use crate::table::Table;

/// What stands above the runs of a report that belong together: a search, repetitions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReportContext {
    /// Title of the page; None = the runs' own.
    pub title: Option<String>,
    /// That the series ended early, and which of the planned runs were not run. It is empty where the series came
    /// to its end, and as long as it goes on, so that it does not tell that a series was killed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub partial: String,
    /// The result in words; empty = none.
    pub text: String,
    /// Tables over the runs.
    pub tables: Vec<Table>,
    /// Whether the stamps of all runs are on one clock and are shown so: times count from the
    /// start of the first run, not of each.
    pub one_clock: bool,
    /// The search whose probes the runs are: its demand and response time get a figure.
    pub search: Option<SearchReport>,
    /// The sweep whose points the runs are: its figures are drawn over its fields.
    pub sweep: Option<SweepData>,
    /// Figures that were judged for steady state, each with a plot.
    pub steady: Vec<SteadyTrack>,
    /// Runs whose response times get a histogram of their own.
    pub points: Vec<ReportPoint>,
    /// Places of the runs that the cards speak of; empty = all. What only brings the target into a state is
    /// none of them.
    pub judged: Vec<usize>,
    /// The head of every page, where a standard asks for one.
    pub sheet: Option<StandardSheet>,
    /// The comparison whose sides the runs are: its figures are drawn, and runs are named and coloured by
    /// side.
    pub compare: Option<CompareFile>,
    /// A history of nights: its figures are drawn over them.
    pub history: Option<HistoryFile>,
    /// Shows the runs as one: see [`ReportSummary`].
    pub summary: Option<ReportSummary>,
}

/// A run with a histogram of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportPoint {
    /// Its place among the runs.
    pub run: usize,
    /// Heading: what it is, its demand, rate, mean and maximum.
    pub title: String,
}

/// How a page shows many runs of one method: chosen charts and links instead of everything about
/// each run, which is in the reports of the runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportSummary {
    /// Ids of the charts.
    pub charts: Vec<String>,
    /// Runs that a figure shows together.
    pub groups: Vec<RunGroup>,
    /// The report of each run: where, from this page.
    pub links: Vec<String>,
}

/// `report.json`: what a series says above its runs. It lies beside `series.json` and is written
/// after every point, so that the report can be made again, of a series that was killed too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesReportFile {
    /// Version of the run directory layout ([`taillight_rundir::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Run directories in the order they are shown, from the directory of the series.
    pub runs: Vec<String>,
    #[serde(flatten)]
    pub context: ReportContext,
}

impl JsonFile for SeriesReportFile {
    const NAME: &'static str = names::SERIES_REPORT;
}
