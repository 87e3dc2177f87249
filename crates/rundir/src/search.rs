//! `search.json`: the probes of a search and its answer. It lies in the directory that holds the
//! probes' run directories; written again after every probe, so that a search that was ended keeps
//! what it knows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::RunStatus;
use crate::summary::ShareOver;

/// A search for the highest demand under a response-time ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReport {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Name of the run.
    pub name: String,
    /// Whether it came to its end.
    pub status: RunStatus,
    /// How it ended.
    pub outcome: SearchOutcome,
    /// The same in words.
    pub text: String,
    /// The answer; null when nothing passed twice.
    pub answer: Option<SearchAnswer>,
    /// What was varied.
    pub varied: Varied,
    /// Name of the workload that was varied and whose response time counts.
    pub workload: String,
    /// Unit of every `value`.
    pub unit: String,
    /// Lower end of the range.
    pub from: f64,
    /// Upper end of the range.
    pub to: f64,
    /// The bracket is to be this share of its lower end.
    pub precision: f64,
    /// The percentile (decimal string) that must stay under the ceiling.
    pub at: String,
    /// The ceiling, ns.
    pub ceiling_ns: u64,
    /// Looks at one demand at most, which share the error of one: each is judged at 2.5 % over this many.
    /// Absent in searches of earlier versions, where each had 2.5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<u32>,
    /// The probes in the order they ran.
    pub probes: Vec<SearchProbe>,
}

/// What a search varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Varied {
    /// The rate of the schedule.
    Rate,
    /// Operations in flight per worker, in a closed loop.
    QueueDepth,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// An answer that passed twice, and above it, within the precision, a point that did not.
    Found,
    /// The upper end of the range passed twice.
    TopOfRange,
    /// Even the lower end of the range fails.
    NothingPasses,
    /// The probes do not decide it.
    Undecided,
    /// It was ended before it knew.
    Unfinished,
}

/// A demand that keeps under the ceiling; the highest that does is at least this one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    /// The demand, in `unit`.
    pub value: f64,
    /// The demand as a job file takes it.
    pub shown: String,
    /// Numbers of the probes that passed at it.
    pub probes: Vec<u32>,
    /// Confidence that the true percentile is under the ceiling: 0.975, over all looks at this demand.
    pub confidence: f64,
    /// Whether I/Os of every one of them depended on each other, so that they count as fewer.
    #[serde(default)]
    pub clustered: bool,
    /// Operations per second achieved in the last of them.
    pub achieved_per_s: f64,
    /// The lowest demand that counts as failed; null at the top of the range.
    pub failed_above: Option<f64>,
    /// Why that one failed, which is what limits the answer; null at the top of the range.
    pub limited_by: Option<ProbeReason>,
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchProbe {
    /// From 1 up.
    pub number: u32,
    /// Its run directory, beside `search.json`.
    pub dir: String,
    /// The demand, in the search's `unit`.
    pub value: f64,
    /// The demand as a job file takes it.
    pub shown: String,
    /// Why it was measured.
    pub purpose: ProbePurpose,
    /// Measured time, ns.
    pub length_ns: u64,
    /// Seed of its draws: the job's, and one more for each further look at the same demand.
    pub seed: u64,
    /// Operations per second asked; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Operations per second achieved.
    pub achieved_per_s: f64,
    /// I/Os the percentile rests on.
    pub count: u64,
    /// The percentile, ns; null when not resolved.
    pub ns: Option<u64>,
    /// Lower end of its 95 % interval, ns; null when it does not exist.
    pub lo_ns: Option<u64>,
    /// Upper end of its 95 % interval, ns; null when it does not exist.
    pub hi_ns: Option<u64>,
    /// Whether the I/Os depend on each other, so that they count as fewer.
    #[serde(default)]
    pub clustered: bool,
    /// The percentile of this probe's own I/Os, ns, resolved or not; null without an I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ns: Option<u64>,
    /// I/Os over the ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
    /// Their share, 0 to 1, with the interval that decides: what `looks` leaves of 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareOver>,
    /// I/Os in all that would pass if not one more were over the ceiling; null when decided, and where no
    /// number is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<u64>,
    /// I/Os in all that would decide it if the share stayed what it is; null when decided, and where a
    /// thousand times as many would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides_at: Option<u64>,
    /// Whether the whole probe keeps the ceiling and its last sixth would miss it by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_missing: bool,
    /// When a figure of the workload's operations changed its level, s since the start of measuring; absent
    /// where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at_s: Option<f64>,
    /// The verdict.
    pub verdict: ProbeVerdict,
    /// What the verdict rests on.
    pub reason: ProbeReason,
    /// Whether it is undecided for good and counts as failed.
    pub counted_as_failed: bool,
}

/// Why a probe was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbePurpose {
    /// The lower end of the range.
    Lowest,
    /// The upper end of the range.
    Highest,
    /// Halves the bracket.
    Between,
    /// The same point for longer.
    Longer,
    /// The answer again.
    Verify,
}

/// The verdict on a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The percentile is under the ceiling with confidence, at the demand asked.
    Pass,
    /// It is above it with confidence, or the demand was not met, or I/Os failed.
    Fail,
    /// This probe does not say: `reason` says why.
    Undecided,
    /// It was ended early.
    Unfinished,
}

/// What a verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProbeReason {
    /// The share of I/Os over the ceiling against the allowed one.
    Ceiling,
    /// Fewer operations than asked, or a growing backlog.
    Saturated,
    /// I/Os failed.
    Errors,
    /// The interval lies across the ceiling or lacks an end; searches of earlier versions.
    Undecided,
    /// Too few I/Os: twice as many without one more over the ceiling would still not do.
    TooFew,
    /// The share over the ceiling may decide it in a probe of the longest length.
    NeedsTime,
    /// The level changed inside the probe, or its last sixth would miss the ceiling by itself.
    LevelChanged,
    /// The share over the ceiling lies too close to the allowed one.
    AtCeiling,
    /// It was ended early.
    Unfinished,
}
