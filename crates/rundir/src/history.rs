//! `changes.json`: when a figure of a series of nights changed, and whether the newest night stands out.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::OpKind;

use crate::compare::{CompareVerdict, ComparedRun};

/// The history of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Nights in order of time; other fields name a night by its place here, from 0.
    pub nights: Vec<HistoryNight>,
    /// Stretches of nights of one plan, device, kernel and version. No change is looked for across them.
    pub segments: Vec<HistorySegment>,
    /// Where nights are missing, by the usual distance of two.
    pub gaps: Vec<HistoryGap>,
    /// Runs that do not count, and why.
    pub left_out: Vec<LeftOutRun>,
    /// Largest p-value of a change.
    pub p: f64,
    /// Figures, those of the rate first.
    pub figures: Vec<HistoryTrack>,
}

/// Runs that began close to each other, as one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryNight {
    /// When its first run began, CLOCK_REALTIME, ns since the epoch.
    pub realtime_ns: i64,
    /// The same for people, UTC: a date, with a time where several nights have one date.
    pub date: String,
    /// Its runs, by time.
    pub runs: Vec<ComparedRun>,
}

/// Nights that may be set beside each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySegment {
    /// First night.
    pub first: usize,
    /// Last night.
    pub last: usize,
    /// What is not as in the segment before; null for the first one.
    pub differs: Option<String>,
}

/// Nights that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryGap {
    /// The night before the gap.
    pub after: usize,
    /// About how many are missing.
    pub missing: u64,
}

/// A run that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutRun {
    /// Its directory as it was given or found.
    pub dir: String,
    /// Why, in words.
    pub why: String,
}

impl LeftOutRun {
    pub fn new(dir: &Path, why: impl Into<String>) -> LeftOutRun {
        LeftOutRun { dir: dir.display().to_string(), why: why.into() }
    }
}

/// One figure over the nights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryTrack {
    pub op: OpKind,
    /// `iops`, or a percentile: `p99.9`.
    pub figure: String,
    /// Its value each night, per second or ns: the median of the night's runs; null where none has one.
    pub values: Vec<Option<f64>>,
    /// Whether some segment has nights enough for a change to be found.
    pub enough: bool,
    /// Changes in order of time.
    pub changes: Vec<HistoryChange>,
    /// Where the newest night stands out; null where it does not, or too few nights say how much they vary.
    pub suspect: Option<HistorySuspect>,
}

/// A change of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryChange {
    /// First night after it.
    pub night: usize,
    /// First run of that night.
    pub run_id: String,
    /// Last night before it that has a value.
    pub previous: usize,
    /// Geometric mean of the nights before, back to the change before, without outliers.
    pub before: f64,
    /// The same of the nights after, up to the next change.
    pub after: f64,
    /// After over before.
    pub ratio: f64,
    /// Ends of its 95 % interval.
    pub lo: f64,
    /// See `lo`.
    pub hi: f64,
    /// How likely so large a step is by chance at this place.
    pub p: f64,
    /// `worse` or `better`.
    pub verdict: CompareVerdict,
}

/// A newest night that lies outside of what the nights before it lead to expect. It proves nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySuspect {
    /// The newest night.
    pub night: usize,
    /// Its value.
    pub value: f64,
    /// First night of the level that it is set beside.
    pub since: usize,
    /// Ends of the band that holds 99 % of nights where nothing changed.
    pub lo: f64,
    /// See `lo`.
    pub hi: f64,
    /// `worse` or `better`.
    pub verdict: CompareVerdict,
    /// Commands that run the job again and decide, for a shell.
    pub decide: Vec<String>,
}
