//! The latency object of `summary.json`: one distribution of successes in numbers.

use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One latency distribution. Successes only; warm-up is excluded. All values in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// I/Os in the distribution.
    pub count: u64,
    /// Smallest, ns; null when `count` is 0.
    pub min_ns: Option<u64>,
    /// Largest, ns; null when `count` is 0.
    pub max_ns: Option<u64>,
    /// Arithmetic mean, ns; null when `count` is 0.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the population of all I/Os (divided by their count, not by one less),
    /// ns; null when undefined.
    pub stddev_ns: Option<f64>,
    /// Third standardised moment, no unit; null when undefined.
    pub skewness: Option<f64>,
    /// Fourth standardised moment minus 3 (0 for a normal distribution), no unit; null when
    /// undefined.
    pub kurtosis: Option<f64>,
    /// Where the percentiles come from.
    pub source: LatencySource,
    /// Largest relative error of percentiles and nines: 0 from the capture, 0.001 from a
    /// histogram of three digits. Of another tool's counts by bins: half of a bin.
    pub error: f64,
    /// Asked percentiles, ascending.
    pub percentiles: Vec<PercentileEntry>,
    /// Nines from 1 up, ascending.
    pub nines: Vec<NineEntry>,
    /// This run's own values, resolved or not; null when `count` is 0, and in runs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedLatency>,
    /// Values outside the histogram's range, counted apart and never clamped; only in
    /// distributions that come from a histogram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<u64>,
}

/// Where percentiles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LatencySource {
    /// Every I/O: exact.
    Capture,
    /// A histogram: within the stated error.
    Histogram,
    /// Another tool: within the stated error where it gave bins.
    Imported,
}

/// Values of this run by nearest rank: what its own I/Os took. Where `resolved` of the same percentile is
/// false they say nothing about the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedLatency {
    /// 50 %, ns.
    pub p50_ns: u64,
    /// 99 %, ns.
    pub p99_ns: u64,
    /// 99.9 %, ns.
    pub p99_9_ns: u64,
    /// The slowest I/O, ns.
    pub max_ns: u64,
}

/// A quantile by nearest rank, with its 95 % confidence interval. I/Os that depend on each other
/// count as fewer: see `effective`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// Its value, ns; null when not resolved.
    pub ns: Option<u64>,
    /// This run's own nearest rank, ns, resolved or not; null without an I/O, and in runs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ns: Option<u64>,
    /// The bin that it lies in, ns; only where another tool gave counts by bins (`ns` is then the middle of the bin) or
    /// percentiles in steps (`ns` is then its least).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bin: Option<LatencyBin>,
    /// Lower bound, ns; null when that bound does not exist.
    pub lo_ns: Option<u64>,
    /// Upper bound, ns; null when that bound does not exist.
    pub hi_ns: Option<u64>,
    /// Whether so many independent I/Os would have the one-sided bound, so that `ns` is no extreme
    /// of the run.
    pub resolved: bool,
    /// Independent I/Os needed for that.
    pub needs: u64,
    /// One-sided 95 % bound on the sparse side, ns: above the median "at most this", below it "at
    /// least this".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_ns: Option<u64>,
    /// I/Os needed for both ends of the interval, when one is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_needs: Option<u64>,
    /// How many independent I/Os say as much about it; null in runs of versions that took all I/Os
    /// for independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<u64>,
    /// I/Os above the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<u64>,
    /// Present when one episode holds more than half of the I/Os above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes: Option<EpisodesEntry>,
}

impl Quantile {
    /// Whether its value is the middle of so wide a bin that the middle alone says more than is known.
    pub fn is_wide_bin(&self) -> bool {
        let value = self.observed_ns.or(self.ns);
        self.bin.is_some_and(|bin| bin.is_wide() && value == Some(bin.middle_ns()))
    }

    /// Its value, but that of a wide bin, for what has no place for both ends.
    pub fn told_ns(&self) -> Option<u64> {
        self.ns.filter(|_| !self.is_wide_bin())
    }
}

/// A range of latencies of which another tool counted the I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBin {
    /// Least, ns.
    pub lo_ns: u64,
    /// Most, ns.
    pub hi_ns: u64,
}

impl LatencyBin {
    /// Half of it as a share of its middle from which on it is told as a range.
    pub const WIDE: f64 = 0.01;
    /// The end of a bin that has all beyond its least, ns: longer than any run.
    pub const OPEN_NS: u64 = i64::MAX as u64 / 2;

    /// Whether it has all beyond its least: how far a value of it lies beyond is not known.
    pub fn is_open(&self) -> bool {
        self.hi_ns >= Self::OPEN_NS
    }

    /// The value that stands for it, ns: its middle; of an open one its least.
    pub fn middle_ns(&self) -> u64 {
        match self.is_open() {
            true => self.lo_ns,
            false => self.lo_ns + (self.hi_ns - self.lo_ns).div_ceil(2),
        }
    }

    /// How far a value of it may be from its middle, as a share of that; of an open one 1, since there is no bound.
    pub fn error(&self) -> f64 {
        match self.is_open() {
            true => 1.0,
            false => (self.hi_ns - self.lo_ns) as f64 / 2.0 / self.middle_ns().max(1) as f64,
        }
    }

    /// Whether its middle alone would say more than is known.
    pub fn is_wide(&self) -> bool {
        self.error() > Self::WIDE
    }
}

/// One percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PercentileEntry {
    /// The percentile as a decimal string, as asked: `"99.9"`.
    pub p: String,
    #[serde(flatten)]
    pub quantile: Quantile,
}

/// One nine: the quantile 1 - 10^-k.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NineEntry {
    /// Number of nines, 1 to 9.
    pub k: u32,
    #[serde(flatten)]
    pub quantile: Quantile,
}

impl Deref for PercentileEntry {
    type Target = Quantile;
    fn deref(&self) -> &Quantile {
        &self.quantile
    }
}

impl Deref for NineEntry {
    type Target = Quantile;
    fn deref(&self) -> &Quantile {
        &self.quantile
    }
}

/// The I/Os above a quantile, merged where they overlap or lie close in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpisodesEntry {
    /// Number of episodes.
    pub count: u64,
    /// I/Os in the largest episode.
    pub largest: u64,
}
