//! `compare.json`: what differs between two sides, and how sure that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::OpKind;

/// Two sides compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// The runs of the side that is compared with.
    pub base: Vec<ComparedRun>,
    /// The runs of the side that is judged.
    pub new: Vec<ComparedRun>,
    pub comparable: Comparable,
    /// What the intervals are made from.
    pub unit: CompareUnit,
    /// Figures, those of the rate first.
    pub figures: Vec<ComparedFigure>,
    /// The gate; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<CompareGate>,
}

/// A run of a side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Its id.
    pub run_id: String,
    /// Its directory as it was given or found.
    pub dir: String,
}

/// Whether a comparison says anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparable {
    pub verdict: ComparableVerdict,
    /// Everything that speaks against it, and what else differs.
    pub reasons: Vec<String>,
}

/// Kinds of comparability, best first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ComparableVerdict {
    Yes,
    /// Only with `--anyway`.
    Doubtful,
    No,
}

/// The unit over which a figure varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompareUnit {
    /// Runs: what is said holds for the systems.
    Runs,
    /// Parts of one run a side: what is said holds for these two runs only.
    Batches,
}

/// One figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedFigure {
    pub op: OpKind,
    /// `iops`, or a percentile: `p99.9`.
    pub figure: String,
    /// Its value on each side, per second or ns: of several runs their geometric mean; null where a run
    /// has none.
    pub base: Option<f64>,
    pub new: Option<f64>,
    /// New over base, with its 95 % interval; null where there is none.
    pub ratio: Option<f64>,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
    /// How likely so large a difference is by chance, adjusted for the figures looked at; null where there
    /// is no interval.
    pub p: Option<f64>,
    /// The same by Mann and Whitney's test of the runs, not adjusted; from six runs a side on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_ranks: Option<f64>,
    /// Differences up to this share count as none.
    pub margin: f64,
    pub verdict: CompareVerdict,
    /// Runs a side that would decide it; null when decided or unknown.
    pub needs: Option<u64>,
    /// Why there is no answer, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What came of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompareVerdict {
    Worse,
    Better,
    /// Shown to be equal within the margin.
    Equal,
    Undecided,
}

/// A gate over one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareGate {
    pub op: OpKind,
    pub figure: String,
    pub fail: GateFail,
    pub status: GateStatus,
    /// The answer in words.
    pub text: String,
}

/// What fails a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateFail {
    /// Shown to be worse, by more than half of the margin.
    #[default]
    Worse,
    /// Anything that is not shown to be equal.
    NotEqual,
}

/// Outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    Pass,
    Fail,
    Undecided,
}
