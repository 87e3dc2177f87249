//! `series.json`: the points of a series of runs and what was decided from them.
//!
//! It lies in the directory that holds the points' run directories and is written whole before and
//! after every point, so that a series that was killed can be resumed. The runner in
//! `taillight-suite` writes and reads it; files of single methods (`search.json`) stand beside it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::manifest::RunStatus;

/// Many runs that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// What decides which point is next: `search`, `repeat`, `import`, or the name of a suite.
    pub method: String,
    /// Name of the job or the suite that was run.
    pub job: String,
    /// Seed of every point whose job names none.
    pub seed: u64,
    /// Whether it came to its end.
    pub status: RunStatus,
    /// Arguments of the command that began it, without the program's name: what resuming repeats.
    pub command: Vec<String>,
    /// Directory the command was given in: names of files in it count from here.
    pub directory: String,
    /// How often it was resumed. Points that were complete by then were read, not run again.
    #[serde(default)]
    pub resumed: u32,
    /// What differs between points, with the values known beforehand.
    pub axes: Vec<Axis>,
    /// The targets that `--destroy` named, with what they were after the last run: the next one does not begin,
    /// and resuming asks again, where they are something else by then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<ConfirmedTarget>,
    /// The points in the order they were begun.
    pub points: Vec<SeriesPoint>,
    /// What was concluded from points.
    pub decisions: Vec<Decision>,
    /// Exit code of the series; absent until it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// The answer, where the method gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<serde_json::Value>,
}

/// A target whose loss was confirmed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmedTarget {
    /// As it was given with `--destroy`.
    pub name: String,
    /// What tells it from another one of that name (serial number, WWID, inode); null where that could not
    /// be known.
    pub identity: Option<BTreeMap<String, String>>,
    /// What was on it when the series last looked, after its last run: whatever is there beyond that is new.
    /// Absent in series of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Vec<String>>,
}

/// One field of the job that differs between points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Dotted path of the field.
    pub path: String,
    /// Unit of the values, where they are bare numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Values known before the first point, in order.
    pub values: Vec<serde_json::Value>,
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesPoint {
    /// Unique in the series.
    pub id: String,
    /// Pass over the points of a loop, from 1 up.
    pub round: u32,
    pub role: PointRole,
    /// Fields of the job that make this point, by dotted path.
    pub coordinates: BTreeMap<String, serde_json::Value>,
    pub status: PointStatus,
    /// Its run directory, beside `series.json`.
    pub run: String,
    /// Figures of the run, by name (`iops`, `p99_ns` ...).
    pub values: BTreeMap<String, f64>,
    /// Exit code that the run alone would have had; null until it has ended.
    pub exit: Option<u8>,
}

/// What a point is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointRole {
    /// Empties the target.
    Purge,
    /// Brings the target into the state that later points need, as loading records does.
    Precondition,
    /// One pass of a loop that is repeated until a rule holds.
    Round,
    /// One setting of a loop.
    Sweep,
    /// A long run for its distribution.
    Histogram,
    /// One demand of a search.
    Probe,
    /// The answer of a search again.
    Verify,
    /// The same plan again.
    Repeat,
    /// One of several different jobs in order.
    Step,
}

impl PointRole {
    /// Whether it brings the target into a state, and measures nothing that is asked.
    pub fn is_state(self) -> bool {
        matches!(self, PointRole::Purge | PointRole::Precondition)
    }
}

/// How far a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointStatus {
    /// Known, not begun.
    Planned,
    /// Begun; it stays so when the program is killed.
    Running,
    /// Came to its planned end.
    Complete,
    /// Ended early; what was measured is kept.
    Partial,
    /// Nothing was measured.
    Failed,
}

impl From<RunStatus> for PointStatus {
    fn from(status: RunStatus) -> PointStatus {
        match status {
            RunStatus::Running => PointStatus::Running,
            RunStatus::Complete => PointStatus::Complete,
            RunStatus::Partial => PointStatus::Partial,
            RunStatus::Failed => PointStatus::Failed,
        }
    }
}

/// What was concluded from points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The rule that was applied.
    pub rule: String,
    /// The round it was applied after.
    pub round: u32,
    /// The points it looked at, where it is not about all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<String>,
    /// What it looked at.
    pub values: BTreeMap<String, f64>,
    /// What it said, in one word.
    pub verdict: String,
    /// The same for people.
    pub text: String,
}
