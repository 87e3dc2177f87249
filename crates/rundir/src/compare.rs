//! `compare.json`: what differs between two sides, and how sure that is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::OpKind;
pub use taillight_core::plan::GateFail;

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
    /// The pairs, where the sides were run in turns; nth runs of `base` and `new` are the nth pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<ComparedPairs>,
    /// Figures, those of the rate first.
    pub figures: Vec<ComparedFigure>,
    /// Every percentile that all runs have, each judged by itself: not adjusted for their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<ComparedFigure>,
    /// Where the time goes at some percentiles; only where every run was traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<ComparedPhases>,
    /// Stretches of slow I/Os, by operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub episodes: Vec<ComparedEpisodes>,
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

impl Comparable {
    /// Adds what speaks against it; the worst decides.
    pub fn add(&mut self, verdict: ComparableVerdict, reason: String) {
        self.verdict = self.verdict.max(verdict);
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
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
    /// New over base, and its interval; null where there is none. 95 % of intervals hold the truth; of
    /// pairs so many even where one looks after each pair and stops.
    pub ratio: Option<f64>,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
    /// How likely so large a difference is by chance, adjusted for the figures looked at; null where there
    /// is no interval.
    pub p: Option<f64>,
    /// The same by Mann and Whitney's test of the runs, not adjusted; from six runs a side on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_ranks: Option<f64>,
    /// The second run of a pair over the first, whichever side that was; from four pairs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<PositionEffect>,
    /// Differences up to this share count as none.
    pub margin: f64,
    pub verdict: CompareVerdict,
    /// Runs a side that would decide it; null when decided or unknown.
    pub needs: Option<u64>,
    /// Why there is no answer, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What it does to a figure to be the second run of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PositionEffect {
    /// Second over first, with its 95 % interval.
    pub ratio: f64,
    pub lo: f64,
    pub hi: f64,
    /// How likely so large an effect is by chance, not adjusted.
    pub p: f64,
}

/// Pairs of runs, one of each side, run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedPairs {
    /// Pairs at most.
    pub planned: u32,
    /// Pairs that were run whole, those that were dropped among them.
    pub run: u32,
    /// Order of their runs, a pair each: `ab` or `ba`.
    pub order: Vec<String>,
    pub ended: PairsEnd,
    /// Share of error of this look; after each pair there is one. They add up to 5 %.
    pub alpha: f64,
    /// The rule by which pairs are dropped, fixed before the first; null where none are.
    pub rule: Option<String>,
    pub dropped: Vec<DroppedPair>,
}

/// Why there are no more pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PairsEnd {
    /// All that were planned were run.
    Planned,
    /// The gate was decided.
    Early,
    /// It was interrupted, or still goes on.
    Partial,
}

/// A pair that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DroppedPair {
    /// From 1 up.
    pub pair: u32,
    pub why: String,
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

/// A gate over one or several figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareGate {
    pub fail: GateFail,
    /// Failed where one figure fails, undecided where one is undecided, else passed.
    pub status: GateStatus,
    pub figures: Vec<GateAnswer>,
}

/// What a gate says of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateAnswer {
    pub op: OpKind,
    pub figure: String,
    pub status: GateStatus,
    /// The answer in words.
    pub text: String,
}

/// Outcome of a gate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    Pass,
    Undecided,
    Fail,
}

/// Where the service time of traced I/Os goes around one percentile, on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedPhases {
    pub op: OpKind,
    /// The percentile of the service time: `99.9`.
    pub p: String,
    /// It on each side, ns; of several runs the mean.
    pub base_ns: f64,
    pub new_ns: f64,
    /// I/Os whose phases were averaged, over all runs of a side.
    pub base_ios: u64,
    pub new_ios: u64,
    /// Phases, those that differ most first.
    pub phases: Vec<PhaseDifference>,
}

/// Mean length of a phase of the I/Os within 5 % of a percentile, ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseDifference {
    /// Its stable word, as in `taillight explain --json`.
    pub phase: String,
    pub base_ns: f64,
    pub new_ns: f64,
}

/// Stretches of slow I/Os on both sides. An interval takes stretches for independent and says nothing of
/// how runs vary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedEpisodes {
    pub op: OpKind,
    /// I/Os above this are slow, ns: a nine of base that at least thirty of its I/Os exceed.
    pub above_ns: u64,
    /// The share of I/Os of base within it: `99.9`.
    pub p: String,
    pub base: EpisodeCount,
    pub new: EpisodeCount,
    /// Stretches a second, new over base, with the 95 % interval; null where it is unknown or infinite.
    pub ratio: Option<f64>,
    pub lo: Option<f64>,
    pub hi: Option<f64>,
}

/// Stretches of slow I/Os of one side, all its runs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpisodeCount {
    pub episodes: u64,
    /// Slow I/Os in them.
    pub ios: u64,
    /// Slow I/Os of the largest.
    pub largest: u64,
    /// Time that was measured, s.
    pub seconds: f64,
}
