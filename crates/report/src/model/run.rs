//! One run with all that was found out about it.

use taillight_rundir::Summary;

use crate::analyse::Analysis;
use taillight_explain::Explanation;

/// One run with everything renderers may use.
pub struct AnalysedRun {
    /// Name shown, unique among the runs of a report.
    pub label: String,
    /// The same as people read it: a point of a series without the dashes of its directory.
    pub shown: String,
    pub analysis: Analysis,
    /// What is said about it.
    pub summary: Summary,
    /// Why its tail is slow; absent when it was not traced or its trace cannot be read.
    pub explanation: Option<Explanation>,
}
