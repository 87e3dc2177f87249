//! `summary.json`: the result of a run in numbers, the verdict before the figures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::Percentile;
use taillight_core::plan::RecordedLatency;
use taillight_core::witness::Witness;
use taillight_core::{LatencyKind, LatencyMap, OpKind};

use crate::bus::BusInfo;
use crate::host::HostInfo;
use crate::latency::Latency;
use crate::manifest::{EndToEndInfo, Losses, Overhead, RunStatus};
use crate::origin::RunOrigin;
use crate::scale::HostsSummary;
use crate::verify::VerifyReport;

pub use crate::phase_totals::{DrainTotals, PhaseTotals};

/// The summary of a run: measure and drain phases. Field order is the order in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// The run it summarises.
    pub run_id: String,
    /// Its name (`run.name`); of another benchmark's file, that of the job. Absent in summaries of earlier versions.
    #[serde(default)]
    pub name: String,
    /// Where its figures come from; absent = Taillight measured them.
    #[serde(default, skip_serializing_if = "RunOrigin::is_measured")]
    pub origin: RunOrigin,
    /// How the run ended.
    pub status: RunStatus,
    /// The answer in words.
    pub verdict: Verdict,
    /// All operations together.
    pub totals: Totals,
    /// Per kind of operation.
    pub ops: BTreeMap<OpKind, Totals>,
    /// What the target was asked: gets and updates by themselves and in read-modify-writes together.
    /// Absent where there are no read-modify-writes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<OpKind, Totals>,
    /// Per workload, in plan order.
    pub workloads: Vec<WorkloadSummary>,
    /// Workloads that were load only: in no latency, total or check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<LoadSummary>,
    /// Ceiling checks.
    pub qos: Vec<Qos>,
    /// Figures whose level changed once while measuring, of each operation the clearest first. Of steady
    /// runs 2 % have any. Absent without one, and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LevelChange>,
    /// Sliding latency coverage factors per kind of operation.
    pub slc: BTreeMap<OpKind, SlcFactors>,
    /// Latency distribution for pictures, per kind of operation.
    pub distribution: BTreeMap<OpKind, LatencyMap<Distribution>>,
    /// The largest successes of each kind of operation, at most [`OUTLIERS_MAX`], largest first.
    pub outliers: BTreeMap<OpKind, Vec<Outlier>>,
    /// Asked against achieved.
    pub saturation: Saturation,
    /// Failed I/Os.
    pub errors: Errors,
    /// Operations that found nothing because this run had deleted their key; no failures. Absent
    /// when there are none.
    #[serde(default, skip_serializing_if = "crate::manifest::none")]
    pub misses: u64,
    /// What became of the blocks of an end-to-end stream, warm-up included; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<EndToEndInfo>,
    /// What checking the data found, with the first findings; absent when nothing was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyReport>,
    /// What was lost.
    pub losses: Losses,
    /// What measuring cost.
    pub overhead: Overhead,
    /// The target's own statistics while measuring, by series (`store.parquet`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub store: BTreeMap<String, StoreFigure>,
    /// The same in one line, in the words of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_text: Option<String>,
    /// Latencies that replayed traces have, by workload, to stand beside those of this run; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<RecordedSummary>,
    /// When operations of replayed traces were due and when they completed, by workload; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals: Vec<ArrivalsSummary>,
    /// What others counted of the same operations and bytes, beside the run's own count; absent where nobody counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witness: Vec<WitnessSummary>,
    /// Why the tail is slow, largest first; null until traced.
    pub cause: Option<Vec<Cause>>,
    /// What the machine did in the measure phase; absent when it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSummary>,
    /// What NVMe drives below the target say of the run; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveSummary>,
    /// What a bus analyser saw; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<BusInfo>,
    /// Each host and rank, of a run over several; absent of one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsSummary>,
    /// Files of the run directory.
    pub files: Vec<FileEntry>,
}

/// What the trace of a replay recorded of its operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedSummary {
    /// Name of the workload.
    pub workload: String,
    pub latency: RecordedLatency,
    /// Latency by latency at the same percentile, ascending: a Q-Q plot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<QuantilePair>,
}

/// A percentile of what a trace recorded, and the same of its replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuantilePair {
    /// The percentile, as a decimal.
    pub percentile: Percentile,
    /// What the trace recorded, ns.
    pub recorded_ns: u64,
    /// What its replay had, ns.
    pub replayed_ns: u64,
}

/// Operations of a replay over its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArrivalsSummary {
    /// Name of the workload.
    pub workload: String,
    /// Length of a window, ns; the first begins with the measure phase.
    pub window_ns: u64,
    /// Operations due in each window, by the trace.
    pub due: Vec<u64>,
    /// Operations that completed in each.
    pub completed: Vec<u64>,
}

/// Most entries in one list of outliers.
pub const OUTLIERS_MAX: usize = 1000;

/// A count that somebody else kept too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessSummary {
    /// Both counts, and what explains that they differ.
    #[serde(flatten)]
    pub counts: Witness,
    /// Witnessed over counted; absent where nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Whether what is known explains the difference; a warning where it does not.
    pub explained: bool,
    /// The same in words.
    pub text: String,
}

/// The answer in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The worst that applies.
    pub status: VerdictStatus,
    /// A few sentences for people.
    pub text: String,
    /// What led to `status`, and what else a reader must know: damage first, then in a fixed order.
    pub reasons: Vec<Reason>,
}

/// Kinds of verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerdictStatus {
    /// Nothing to object to.
    Good,
    /// Valid, with something to know.
    Warned,
    /// The asked rate was not reached.
    Saturated,
    /// Some I/Os failed.
    Errors,
    /// Ended early.
    Partial,
    /// Nothing useful was measured.
    Failed,
}

/// One reason of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// Stable word for programs.
    pub code: String,
    /// For people: what it is and what it means for the figures, the answer in its first sentence.
    pub text: String,
}

/// Counts, rates and latencies of a set of I/Os.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// I/Os, failed ones included.
    pub count: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Time the rates divide by, ns: from the start of the measure phase to its end or the last completion, whichever
    /// is later; of a workload or operation with a time of its own, that.
    pub duration_ns: u64,
    /// Successful I/Os per second of it.
    pub iops: f64,
    /// Bytes per second of it.
    pub bytes_per_s: f64,
    /// What completed inside the measure phase, with rates of its own. Absent where it is not known: not
    /// every I/O was kept, or the phase has no end on record; and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_phase: Option<PhaseTotals>,
    /// Records that successes covered, where batches or scans cover several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Failed I/Os (any status but 0).
    pub errors: u64,
    #[serde(flatten)]
    pub latencies: LatencyMap<Latency>,
    /// Mean number of I/Os in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_mean: Option<f64>,
}

/// One workload's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadSummary {
    /// Name in the plan.
    pub name: String,
    /// All its operations together.
    pub totals: Totals,
    /// Per kind of operation.
    pub ops: BTreeMap<OpKind, Totals>,
}

/// What a workload did that was load only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSummary {
    /// Name in the plan.
    pub name: String,
    /// Operations in the measure phase, failed ones included.
    pub count: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Failed operations.
    pub errors: u64,
    /// Operations per second of the measure phase.
    pub per_s: f64,
    /// Operations per second its schedule asked for; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
}

/// One ceiling check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Qos {
    /// The ceiling, ns.
    pub ceiling_ns: u64,
    /// The percentile (decimal string) that must stay under it.
    pub at: String,
    /// The outcome.
    pub status: QosStatus,
    /// What the run's verdict takes it for, where that is not `status`: of three ceilings or more one is
    /// missed by chance more often than a single one, so the run's verdict is held to an error of 5 % over
    /// all of them, by Holm's procedure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jointly: Option<QosStatus>,
    /// Whether the run as a whole keeps it and its last sixth would miss it by itself, which makes it
    /// undecided; absent where not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_missing: bool,
    /// Runs that share the error of `status` and of `share`'s interval, which holds in 1 - 0.05 / looks of
    /// runs; absent = this one alone, 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looks: Option<u32>,
    /// I/Os above the ceiling.
    pub above: u64,
    /// Episodes those form.
    pub episodes: u64,
    /// I/Os in all from which it would be kept if not one more were above; null when decided, and
    /// where no number is enough.
    pub needs: Option<u64>,
    /// I/Os in all that would decide it if the share above stayed what it is; absent when decided, and
    /// where that share is so close to the allowed one that a thousand times as many would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides_at: Option<u64>,
    /// The kind of operation it was checked for; absent = all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<OpKind>,
    /// I/Os it was checked over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The workload it was checked for; absent = all that are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Share of I/Os above the ceiling; absent in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareOver>,
    /// Closed loops: share of the workers' time in successful I/Os, 0 to 1, that was spent in those above the
    /// ceiling. A disk that stalls answers few I/Os while it does, and takes much time for them. Absent where
    /// a schedule sends I/Os, and in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_share: Option<f64>,
    /// Requests made of several I/Os, where the ceiling is for those: `status` and `at` are theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestCheck>,
    /// The layers that held the I/Os above the ceiling, most I/Os first; null until traced. I/Os that are
    /// above it and no outliers of the run are not explained, and not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Vec<Cause>>,
}

impl Qos {
    /// What the verdict over all ceilings of the run takes it for.
    #[must_use]
    pub fn among_all(&self) -> QosStatus {
        self.jointly.unwrap_or(self.status)
    }

    /// The share of what was asked about, requests or I/Os; none where it is not known.
    #[must_use]
    pub fn share_asked(&self) -> Option<ShareOver> {
        self.requests.as_ref().map_or(self.share, |requests| requests.measured)
    }
}

/// A share of I/Os or requests above a ceiling, 0 to 1, with its interval: at 95 %, or what `looks` leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareOver {
    /// The share; null when nothing was counted.
    pub share: Option<f64>,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// Requests that fail when one of their I/Os exceeds the ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestCheck {
    /// I/Os of a request.
    pub fanout: u32,
    /// Requests that the run holds: neighbouring I/Os of a worker, in the order they were submitted;
    /// null when not every I/O was kept.
    pub count: Option<u64>,
    /// Requests of those with an I/O above the ceiling.
    pub failed: Option<u64>,
    /// The share of failed requests as measured; null when not every I/O was kept.
    pub measured: Option<ShareOver>,
    /// The same were the I/Os of a request independent: from the share of I/Os alone.
    pub independent: ShareOver,
}

/// One change of a figure's level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LevelChange {
    /// Kind of operation.
    pub op: OpKind,
    /// What changed.
    pub figure: ChangedFigure,
    /// The ceiling of a share; where the job has none, the run's p99.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_ns: Option<u64>,
    /// When, s since the start of measuring, to a 256th of the run.
    pub at_s: f64,
    /// Its level before: I/Os per second, ns (within 0.8 %), or a share of 1.
    pub before: f64,
    /// Its level after it, until the end.
    pub after: f64,
    /// Successes per second before this moment, whatever changed; closed loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_before: Option<f64>,
    /// And after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_after: Option<f64>,
    /// Shares over each ceiling before and after this moment; over the run's p99 where the job has none.
    pub over: Vec<OverChange>,
}

/// A figure that has a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangedFigure {
    /// Successes per second, in a closed loop.
    Rate,
    /// The median latency.
    Median,
    /// The share of I/Os over a ceiling.
    ShareOver,
}

/// Shares over a ceiling before and after a moment, 0 to 1. I/Os belong to when they completed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverChange {
    /// The ceiling, ns.
    pub ceiling_ns: u64,
    /// Share of I/Os before; null without any.
    pub before: Option<f64>,
    /// And after it.
    pub after: Option<f64>,
    /// Closed loops: share before it of the workers' time in I/Os that was spent in those over the ceiling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_before: Option<f64>,
    /// And after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_after: Option<f64>,
}

/// Outcome of a ceiling check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QosStatus {
    /// Under the ceiling with 95 % confidence.
    Pass,
    /// Over it with 95 % confidence.
    Fail,
    /// The run does not say: too few I/Os, or its last sixth is unlike the rest.
    Undecided,
}

/// SLC factors: the real-valued ones, and the integers that SBK prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlcFactors {
    /// Spread below the median; null when undefined.
    pub slc1: Option<f64>,
    /// Spread above the median; null when undefined.
    pub slc2: Option<f64>,
    /// SBK's integers over its list of 21 percentiles.
    pub sbk21: SlcPair,
    /// SBK's integers over its list of 28 percentiles.
    pub sbk28: SlcPair,
    /// Unit the latencies had: always `"ns"`.
    pub unit: String,
    /// The latency they are of, by its name in `ops`: `end_to_end` where readers follow writers,
    /// `response` in an open loop, else `service`. Absent in files of earlier versions, which
    /// chose the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
}

impl SlcFactors {
    /// The latency they are of; none in files of earlier versions.
    pub fn kind(&self) -> Option<LatencyKind> {
        self.latency.as_deref().and_then(LatencyKind::from_name)
    }
}

/// SBK's pair of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlcPair {
    /// SLC1, truncated as SBK does.
    pub slc1: i64,
    /// SLC2, truncated as SBK does.
    pub slc2: i64,
}

/// Latencies in bins of equal width on a log axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Bins per decade: 50 from 10 ns to 100 s.
    pub bins_per_decade: u32,
    /// I/Os below the first bin's range (10 ns).
    pub below: u64,
    /// I/Os at or above the last bin's range (100 s).
    pub above: u64,
    /// Bins from the first to the last that hold an I/O, empty ones between included.
    pub bins: Vec<Bin>,
}

/// One bin: `lo_ns <= latency < hi_ns`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// Lower edge, ns, included.
    pub lo_ns: u64,
    /// Upper edge, ns, excluded.
    pub hi_ns: u64,
    /// I/Os in it.
    pub count: u64,
    /// I/Os per second of the run.
    pub per_s: f64,
}

/// One series of the target's own statistics over the measure phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreFigure {
    /// How much a counter rose; absent for levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rise: Option<f64>,
    /// Lowest level; absent for counters. Likewise below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean level over the samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Highest level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Level at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<f64>,
}

/// One slow I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// When it was submitted, CLOCK_MONOTONIC ns.
    pub submit_ns: i64,
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Worker.
    pub worker: u16,
    /// File or endpoint.
    pub target: u16,
    /// Byte offset; null where offsets mean nothing.
    pub offset: Option<u64>,
    /// Key number; only where keys mean something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u64>,
    /// Bytes asked.
    pub size: u64,
    /// Response time in an open loop, else service time, ns.
    pub latency_ns: u64,
    /// Status, as in `ios.parquet`.
    pub status: i32,
}

/// Asked against achieved load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Operations per second asked; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Operations per second submitted within the measured time.
    pub achieved_per_s: f64,
    /// Most operations that were due and not yet submitted.
    pub backlog_max: u64,
    /// Operations due before the end and never submitted.
    pub unsent: u64,
    /// Age of the oldest of them at the end, ns; absent when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_age_ns: Option<u64>,
    /// Operations due before the end and submitted only after it: they reached no rate, and are in
    /// every other figure.
    #[serde(default)]
    pub late: u64,
    /// Achieved less than 99 % of asked with operations left waiting, or the backlog still grew at the end; one that was
    /// worked off after the end counts from 1 % of all that was due.
    pub saturated: bool,
}

/// Failed I/Os.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Errors {
    /// All failed I/Os.
    pub count: u64,
    /// By operation and status, most frequent first.
    pub kinds: Vec<ErrorCount>,
}

/// Failed I/Os of one operation and status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Kind of operation.
    pub op: OpKind,
    /// Status, as in `ios.parquet`.
    pub status: i32,
    /// The status in words.
    pub text: String,
    /// How many.
    pub count: u64,
    /// Submit stamp of the first one, CLOCK_MONOTONIC ns; null when only counts were kept.
    pub first_ns: Option<i64>,
}

/// A layer's part in the tail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The layer.
    pub layer: String,
    /// Outliers it dominates.
    pub outliers: u64,
    /// Time beyond its usual, summed over those, ns.
    pub excess_ns: u64,
    /// Whether the evidence is an exact match (true) or only fits in time (false).
    pub sure: bool,
}

/// Host samples of the measure phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// How they were taken, and what could not be had.
    #[serde(flatten)]
    pub info: HostInfo,
    /// Every metric that had a value.
    pub metrics: Vec<HostMetric>,
}

/// A drive's own view beside the host's latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriveSummary {
    /// Controller, or the file its logs came from.
    pub name: String,
    /// What follows from its logs, in words.
    pub text: String,
    /// From this latency on its monitor counts, ns; null without a monitor that counts.
    pub from_ns: Option<u64>,
    /// Commands that took as long or longer in the drive during the run, whoever sent them; null
    /// when the counters do not tell.
    pub device: Option<u64>,
    /// I/Os of the run that took as long or longer as the host saw it.
    pub host: Option<u64>,
}

/// One metric of `host.parquet` over the measure phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostMetric {
    /// Where it is from.
    pub source: String,
    /// Of what: disk, control group, sensor; null for the whole machine or process.
    pub item: Option<String>,
    /// Name; that of iostat -x for disks.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// Mean over time.
    pub mean: f64,
    /// Least value of a sample.
    pub min: f64,
    /// Largest value of a sample.
    pub max: f64,
}

/// One file of the run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Name inside the run directory.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
    /// Rows, for Parquet files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}
