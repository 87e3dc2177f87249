//! What a run directory has of a watched program beside its slow operations: `watched.json`, and the counts of all of
//! its operations as intervals and histograms, where every one was counted. `taillight watch` writes both.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, LatencyKind, OpKind, Result};

use crate::histlog::{HistEntry, HistTag, HistogramWriter};
use crate::intervals::{IntervalRow, interval_writer};
use crate::manifest::ClockInfo;
use crate::{RunDir, names};

/// `watched.json`: which program was watched, and how much of it was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Processes watched from the start.
    pub pids: Vec<u32>,
    /// Exit code of the program that was started to be watched, 128 and its signal where one ended it; null
    /// where it was not started, or did not end.
    pub exit_code: Option<u8>,
    /// From which latency on operations are kept, ns.
    pub slower_ns: u64,
    /// By kind of operation.
    pub ops: Vec<WatchedOp>,
    /// Files of the operations in `ios.parquet`, by the numbers of its column `target`; the first stands for those
    /// that are not known.
    pub files: Vec<String>,
    /// Loading the trace programs took so long, which touches nobody, ns.
    #[serde(default)]
    pub load_ns: u64,
    /// Attaching them, and taking them away, ns. (In runs without `load_ns` loading is in the first.)
    pub attach_ns: u64,
    pub detach_ns: u64,
    /// CPU time of the trace programs, as a share of one CPU; null where the kernel did not measure it.
    pub programs_share: Option<f64>,
    /// Operations, threads and processes that were not watched: they found no room in the memory of the programs, or
    /// (requests of libaio) came while the programs for them were away.
    pub no_room: u64,
    /// Operations in `ios.parquet` that were not slow, recorded to be replayed; paths in `files` are hashed then, unless
    /// names were asked for.
    #[serde(default)]
    pub recorded: u64,
    /// What was left out because the trace programs took more than was allowed, in words.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Every call in windows, where that was asked for: figures are of these where some kind was not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<WatchedSample>,
    /// Waits of its threads for each other, as long as `slower_ns` or longer.
    #[serde(default)]
    pub waits: WatchedWaits,
}

impl WatchedFile {
    /// Whether slow operations alone were kept, where there were others.
    pub fn kept_slow_alone(&self) -> bool {
        self.recorded == 0 && self.ops.iter().any(|op| op.slow < op.seen)
    }
}

/// What began in windows in which every call was looked at, whether it blocked or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedSample {
    /// How many windows there were, and how long they were together, ns.
    pub windows: u64,
    pub ns: u64,
    /// The same as a share of the time that was watched.
    pub share: f64,
    /// What began in a window and had not ended with the watch.
    pub open: u64,
    /// Why there were no more windows, if so.
    pub failed: Option<String>,
    pub ops: Vec<SampledOp>,
}

/// Operations of one kind in windows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledOp {
    pub op: OpKind,
    /// Those that began in a window and ended.
    pub seen: u64,
    /// Operations a second, with its 95 % interval from how windows differ; that is null where they are too few.
    pub per_s: f64,
    pub per_s_low: Option<f64>,
    pub per_s_high: Option<f64>,
}

/// Waits of threads for other threads of their program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedWaits {
    /// For a thread that was in an operation meanwhile, or itself waited for one that was: those in `ios.parquet` of
    /// kind `wait`, so are the next ones.
    pub carried: u64,
    /// For a lock whose holder was in no operation, and did not wait for the world outside.
    pub locks: u64,
    /// For whatever else, which may be something to do: none of these is an outlier.
    pub others: u64,
    /// The longest of those others, ns, who waited, and who ended the wait; 0 and empty without one.
    pub longest_other_ns: u64,
    pub longest_other: String,
    pub longest_other_ended_by: String,
    /// Waits beyond those that can be looked at.
    pub lost: u64,
}

/// Operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedOp {
    pub op: OpKind,
    /// Those that were seen to end.
    pub seen: u64,
    /// Of them, as slow as `slower_ns` or slower.
    pub slow: u64,
    /// Calls that the kernel counted in the same time; null where it counts none of the kind, or does not tell.
    pub kernel: Option<u64>,
    /// Of those seen, the ones of which it is not known whether they failed and how much they moved.
    #[serde(default)]
    pub unknown: u64,
    /// Of those seen, the ones whose latency is not known: their end was not seen, or they may be several.
    #[serde(default)]
    pub untimed: u64,
    /// Every one was seen, so that there are percentiles: at most one in two hundred was not, or not
    /// with its latency and result.
    pub whole: bool,
    /// Requests of io_uring and libaio among them: of these every one was seen.
    #[serde(default)]
    pub requests: u64,
    /// The kind is not whole, and percentiles are of these requests alone.
    #[serde(default)]
    pub requests_alone: bool,
}

/// Counts of one kind of operation in an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedInterval {
    pub start_ns: i64,
    pub length_ns: u64,
    /// Its workload, and that one's name.
    pub workload: u16,
    pub name: String,
    pub op: OpKind,
    /// Latency, ns, and how many had it.
    pub latencies: Vec<(u64, u64)>,
    pub bytes: u64,
    pub errors: u64,
    pub sum_ns: u64,
}

impl CountedInterval {
    /// As a histogram. Errors: `Internal` where latencies do not fit.
    pub fn histogram(&self) -> Result<Histogram<u64>> {
        let bad = || Error::internal("latencies do not fit into a histogram");
        let mut histogram = Histogram::new(3).map_err(|_| bad())?;
        for (ns, n) in &self.latencies {
            histogram.record_n((*ns).max(1), *n).map_err(|_| bad())?;
        }
        Ok(histogram)
    }

    /// As a row of the intervals.
    pub fn row(&self, histogram: &Histogram<u64>) -> IntervalRow {
        let at = |q: f64| (!histogram.is_empty()).then(|| histogram.value_at_quantile(q));
        let ops: u64 = self.latencies.iter().map(|(_, n)| n).sum();
        IntervalRow {
            start_ns: self.start_ns,
            length_ns: self.length_ns,
            phase: "measure".to_owned(),
            workload: self.workload,
            op: self.op,
            ops,
            bytes: self.bytes,
            errors: self.errors,
            min_ns: (ops > 0).then(|| histogram.min()),
            mean_ns: (ops > 0).then(|| self.sum_ns as f64 / ops as f64),
            max_ns: (ops > 0).then(|| histogram.max()),
            p10_ns: at(0.1),
            p25_ns: at(0.25),
            p50_ns: at(0.5),
            p75_ns: at(0.75),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            depth_mean: self.sum_ns as f64 / self.length_ns.max(1) as f64,
            ..IntervalRow::default()
        }
    }
}

/// Writes `intervals.parquet` and `histograms.hlog`. Errors: `Unavailable` when a file cannot be written.
pub fn write_counts(dir: &RunDir, clock: &ClockInfo, all: &[CountedInterval]) -> Result<()> {
    let (mut rows, mut log) = (interval_writer(dir), HistogramWriter::new(dir, clock));
    for one in all {
        let histogram = one.histogram()?;
        rows.all(std::iter::once(one.row(&histogram)))?;
        let (phase, workload) = ("measure".to_owned(), one.name.clone());
        let tag = HistTag { phase, workload, op: one.op, kind: LatencyKind::Service };
        let (start_ns, length_ns) = (one.start_ns, one.length_ns);
        log.put(&HistEntry { start_ns, length_ns, tag, histogram });
    }
    rows.commit()?;
    log.commit()
}

/// The file, where the run has it. Errors: `Corrupt` when it is damaged.
pub fn watched(dir: &RunDir) -> Result<Option<WatchedFile>> {
    match dir.existing(names::WATCHED) {
        Some(_) => dir.read(),
        None => Ok(None),
    }
}
