//! What the caller knows about runs that belong together: a search, repetitions, a suite.

use taillight_rundir::search::SearchReport;

use super::charts::{RunGroup, SteadyTrack, SweepData};
use crate::table::Table;

/// What stands above the runs of a report that belong together: a search, repetitions.
#[derive(Debug, Clone, Default)]
pub struct ReportContext {
    /// Title of the page; None = the runs' own.
    pub title: Option<String>,
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
    /// Shows the runs as one: see [`ReportSummary`].
    pub summary: Option<ReportSummary>,
}

/// How a page shows many runs of one method: chosen charts and links instead of everything about
/// each run, which is in the reports of the runs.
#[derive(Debug, Clone, Default)]
pub struct ReportSummary {
    /// Ids of the charts.
    pub charts: Vec<&'static str>,
    /// Runs that a figure shows together.
    pub groups: Vec<RunGroup>,
    /// The report of each run: where, from this page.
    pub links: Vec<String>,
}
