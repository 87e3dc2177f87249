//! What the charts of a sweep are drawn from: figures over the rounds of each point, and curves of
//! demand with their knees. Filled by the caller of the report, who knows what differs between runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepData {
    /// Fields with more than one value.
    pub axes: Vec<SweepAxis>,
    pub points: Vec<SweepPoint>,
    /// Response time against rate, one curve for each combination of the other fields.
    pub curves: Vec<DemandCurve>,
    /// Points of the curves that were chosen.
    pub marks: Vec<DemandMark>,
    /// The ceiling of the mean response time they were chosen under, ns.
    pub ceiling_ns: Option<u64>,
}

/// A point of the curves that was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemandMark {
    pub name: String,
    /// What it stands for.
    pub text: String,
    pub rate: f64,
    pub mean_ns: f64,
}

/// A field and its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepAxis {
    /// The end of its path that tells it from the others.
    pub name: String,
    /// Its values, as given, in rising order where they are numbers.
    pub labels: Vec<String>,
    /// Where they lie; their places where they are no numbers.
    pub positions: Vec<f64>,
    /// Whether the positions are better seen on a log axis.
    pub log: bool,
}

/// What one operation of one workload did at one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPoint {
    /// Place of its value on each axis.
    pub at: Vec<usize>,
    /// Workload and operation; `all` for all of a run, where there are several.
    pub series: String,
    pub iops: RoundSpread,
    pub mean_ns: Option<RoundSpread>,
    pub p99_ns: Option<RoundSpread>,
    /// CPU use of the whole machine, per cent; of a run, not of one operation.
    pub cpu_percent: Option<RoundSpread>,
}

/// A figure over the rounds of a point: rates averaged, the mean of all their I/Os, of percentiles the
/// largest round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundSpread {
    #[serde(alias = "median")]
    pub value: f64,
    pub min: f64,
    pub max: f64,
}

/// One curve of rising demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemandCurve {
    /// The values of the other fields; empty where there are none.
    pub name: String,
    /// What is demanded: the last part of the field's path.
    pub demand: String,
    /// In order of demand.
    pub points: Vec<DemandResult>,
    /// Place of the knee.
    pub knee: Option<usize>,
    /// Where the knee is, or why there is none.
    pub text: String,
}

/// What one demand gave: all operations together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemandResult {
    /// The demand as given.
    pub label: String,
    pub demand: f64,
    /// I/Os asked to be outstanding, all workers together.
    pub outstanding: u64,
    /// Successful operations per second.
    pub rate: f64,
    /// Mean response time with a schedule, else mean service time, ns.
    pub mean_ns: f64,
}
