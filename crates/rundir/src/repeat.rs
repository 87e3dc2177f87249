//! `repeat.json`: the repetitions of a run and their spread. It lies in the directory that holds
//! the repetitions' run directories; written again after every repetition.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::manifest::RunStatus;

/// The same plan several times, back to back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatReport {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Name of the run.
    pub name: String,
    /// Whether it came to its end.
    pub status: RunStatus,
    /// Repetitions asked for.
    pub asked: u32,
    /// Seed of every repetition: each draws the same operations in the same order.
    pub seed: u64,
    /// Whether the stamps of all repetitions are on one clock. On virtual time each begins at 0,
    /// and there are no gaps.
    pub one_clock: bool,
    /// The repetitions in order.
    pub runs: Vec<Repetition>,
    /// The spread over the repetitions that came to their end; one entry per figure.
    pub spread: Vec<FigureSpread>,
}

/// One repetition. Latencies are response times in a run with a rate, else service times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repetition {
    /// From 1 up.
    pub number: u32,
    /// Its run directory, beside `repeat.json`.
    pub dir: String,
    /// Id of the run.
    pub run_id: String,
    /// How it ended.
    pub status: RunStatus,
    /// Start of its measure phase, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// End of its measure phase, drain included, CLOCK_MONOTONIC ns.
    pub end_ns: i64,
    /// Time since the end of the repetition before it, ns; null for the first, and on virtual time.
    /// In it lie writing and reporting of the one and opening, warm-up and calibration of the
    /// other.
    pub gap_ns: Option<i64>,
    /// I/Os.
    pub count: u64,
    /// Failed I/Os.
    pub errors: u64,
    /// Successful I/Os per second.
    pub iops: f64,
    /// Median latency, ns; null when not resolved.
    pub p50_ns: Option<u64>,
    /// 99 % latency, ns; null when not resolved.
    pub p99_ns: Option<u64>,
    /// 99.9 % latency, ns; null when not resolved.
    pub p999_ns: Option<u64>,
    /// Largest latency, ns; null without a success.
    pub max_ns: Option<u64>,
}

/// One figure over the repetitions that have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureSpread {
    /// The figure: `iops`, `p50_ns`, `p99_ns`, `p999_ns` or `max_ns`.
    pub figure: String,
    /// Repetitions that have it.
    pub count: u32,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Largest.
    pub max: f64,
    /// Lower end of the distribution-free 95 % interval of the median; null below six repetitions.
    pub median_lo: Option<f64>,
    /// Upper end of that interval.
    pub median_hi: Option<f64>,
}
