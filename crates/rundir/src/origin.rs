//! Where the figures of a run come from, and `imported.json`: the figures of a run that another tool measured.
//!
//! A reader asks [`RunOrigin`] before a word such as "measured" is said of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, OpKind, Result};

use crate::latency::LatencyBin;
use crate::{Manifest, RunDir, names};

/// Where the figures of a run come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum RunOrigin {
    /// Taillight sent the I/Os and timed each.
    #[default]
    Measured,
    /// Another program sent the I/Os; Taillight timed them from outside.
    Watched {
        /// Its command line or name.
        program: String,
        /// Where figures are of every operation that began in windows, and not of all: their time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sample: Option<SampleTime>,
        /// Kinds of operation of which figures are of requests of io_uring and libaio alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        requests: Vec<OpKind>,
        /// Its exit code where it was started to be watched and ended while it was, 128 and its signal where one ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<u8>,
    },
    /// Another tool sent the I/Os and timed them; Taillight read its result.
    Imported(ImportSource),
    /// Several ranks measured at the same time, and their results were put together.
    Merged {
        /// How many.
        ranks: u32,
    },
}

/// Windows in which every operation was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampleTime {
    /// How many there were.
    pub windows: u64,
    /// All of them together, ns.
    pub ns: u64,
}

impl RunOrigin {
    /// Of a program that was watched, named so.
    pub fn watched(program: impl Into<String>) -> RunOrigin {
        let (sample, requests, exit_code) = (None, Vec::new(), None);
        RunOrigin::Watched { program: program.into(), sample, requests, exit_code }
    }

    /// The windows that figures are of, where they are not of all of the time.
    pub fn sample(&self) -> Option<SampleTime> {
        match self {
            RunOrigin::Watched { sample, .. } => *sample,
            _ => None,
        }
    }

    /// The same of a watched program of which figures of these kinds are of requests of io_uring and libaio alone.
    pub fn of_requests(mut self, kinds: impl IntoIterator<Item = OpKind>) -> RunOrigin {
        if let RunOrigin::Watched { requests, .. } = &mut self {
            requests.extend(kinds);
        }
        self
    }

    /// The same of a watched program that ended with this code, if any.
    pub fn ended_with(mut self, code: Option<u8>) -> RunOrigin {
        if let RunOrigin::Watched { exit_code, .. } = &mut self {
            *exit_code = code;
        }
        self
    }

    /// Whether Taillight sent the I/Os and timed them in one process.
    pub fn is_measured(&self) -> bool {
        *self == RunOrigin::Measured
    }

    /// Whether another program sent the I/Os while Taillight looked on.
    pub fn is_watched(&self) -> bool {
        matches!(self, RunOrigin::Watched { .. })
    }

    /// The result that another tool made, where there is one.
    pub fn imported(&self) -> Option<&ImportSource> {
        match self {
            RunOrigin::Imported(source) => Some(source),
            _ => None,
        }
    }
}

/// A result of another tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportSource {
    /// The tool, such as `fio`.
    pub tool: String,
    /// Its version, where the result says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The file as it was named.
    pub file: String,
    /// SHA-256 of all its bytes, hexadecimal; empty in runs imported before it was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file_sha256: String,
    /// CRC-32 of them, hexadecimal, in runs imported before the SHA-256 was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file_crc32: String,
    /// What the result knows of latencies.
    pub fidelity: Fidelity,
    /// What a latency of the tool spans, in words: "from issue to completion (clat)".
    pub spans: String,
    /// What was found when the result was read: figures that were left out, counts that are guessed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its jobs that an error ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedJob>,
}

/// A job of another tool that an error ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedJob {
    /// Its name in the result.
    pub job: String,
    /// The error's number.
    pub errno: i32,
}

impl ImportSource {
    /// Before what its latencies span, where they begin when the schedule wanted the operation.
    pub const SCHEDULED: &str = "from the time that the schedule wanted";

    /// Whether its latencies are response times.
    pub fn is_scheduled(&self) -> bool {
        self.spans.starts_with(Self::SCHEDULED)
    }
}

/// What a result of another tool knows of latencies; the least of its workloads. From most to least.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Fidelity {
    /// Each I/O.
    EveryIo,
    /// Counts by bins of latency.
    Bins,
    /// Some percentiles.
    Percentiles,
    /// Means only.
    Averages,
}

/// `imported.json`: what another tool said, and nothing more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Its jobs, in the order of the plan's workloads.
    pub workloads: Vec<ImportedWorkload>,
}

/// One job of the tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedWorkload {
    /// Name in the plan.
    pub name: String,
    /// Jobs of one group ran at the same time; groups count as one after another.
    #[serde(default)]
    pub group: u32,
    /// By kind of operation.
    pub ops: BTreeMap<OpKind, ImportedOp>,
}

/// One kind of operation of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedOp {
    /// Operations, failed ones included.
    pub count: u64,
    /// Failed ones.
    pub errors: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time the rates divide by, ns.
    pub duration_ns: u64,
    /// Operations per second, as the tool says.
    pub iops: f64,
    /// Bytes per second, as the tool says.
    pub bytes_per_s: f64,
    pub latency: ImportedLatency,
}

/// Latencies of one kind of operation, ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedLatency {
    /// Operations in it.
    pub count: u64,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub mean_ns: Option<f64>,
    pub stddev_ns: Option<f64>,
    /// Percentiles that the tool gives itself, ascending; they count before bins.
    pub percentiles: Vec<ImportedPercentile>,
    /// Counts by bins, ascending, empty ones left out.
    pub bins: Vec<ImportedBin>,
    /// What its percentiles are whole multiples of, ns: the tool cut off what was less. Absent where it is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<u64>,
}

impl ImportedLatency {
    /// With outer bins that end at the least and the most, where the tool tells them: a value beyond is in no bin.
    pub fn within_extremes(mut self) -> ImportedLatency {
        if let (Some(first), Some(min)) = (self.bins.first_mut(), self.min_ns) {
            first.lo_ns = first.lo_ns.max(min).min(first.hi_ns);
        }
        if let (Some(last), Some(max)) = (self.bins.last_mut(), self.max_ns) {
            last.hi_ns = last.hi_ns.min(max).max(last.lo_ns);
        }
        self
    }

    /// Of bins alone, in any order: least and most are the edges of the outer bins, the mean is of their middles. With an
    /// open bin there is neither most nor mean.
    pub fn from_bins(mut bins: Vec<ImportedBin>) -> ImportedLatency {
        bins.retain(|bin| bin.count > 0);
        bins.sort_by_key(|bin| bin.lo_ns);
        let count = bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.count));
        let open = bins.iter().any(|bin| bin.range().is_open());
        let sum: f64 =
            bins.iter().map(|bin| bin.range().middle_ns() as f64 * bin.count as f64).sum();
        ImportedLatency {
            count,
            min_ns: bins.first().map(|bin| bin.lo_ns),
            max_ns: bins.last().map(|bin| bin.hi_ns).filter(|_| !open),
            mean_ns: (count > 0 && !open).then(|| sum / count as f64),
            bins,
            ..ImportedLatency::default()
        }
    }
}

/// A percentile of the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedPercentile {
    /// As a decimal string: `"99.9"`.
    pub p: String,
    pub ns: u64,
}

/// Operations of which `lo_ns <= latency <= hi_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedBin {
    pub lo_ns: u64,
    pub hi_ns: u64,
    pub count: u64,
}

impl ImportedBin {
    /// The range alone.
    pub fn range(&self) -> LatencyBin {
        LatencyBin { lo_ns: self.lo_ns, hi_ns: self.hi_ns }
    }
}

/// The figures of an imported run; none of any other, nor where the result had every I/O and no figures. Errors:
/// `Corrupt` for another imported run without them.
pub fn imported(dir: &RunDir) -> Result<Option<ImportedFile>> {
    let Some(source) = dir.manifest().origin.imported() else { return Ok(None) };
    match dir.read::<ImportedFile>()? {
        None if source.fidelity == Fidelity::EveryIo => Ok(None),
        None => Err(Error::corrupt("the figures of the imported run are missing")
            .with("path", dir.file(names::IMPORTED).display())),
        found => Ok(found),
    }
}

/// Makes the run directory of a foreign result at `path`, which is new or empty. The report is made from it as from
/// any other. Errors: as [`RunDir::create`].
pub fn write_imported(
    path: &std::path::Path,
    manifest: &Manifest,
    figures: &ImportedFile,
) -> Result<()> {
    RunDir::create(path, manifest)?.write(figures)
}
