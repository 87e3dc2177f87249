//! `scale.json`: the ranks of a run over several hosts. Where each has its directory, what it drives, how far its
//! clock is from that of rank 0, when its load began and ended, and whether it was lost. Written by rank 0, first
//! before the load; reports of the whole run begin here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::OpKind;
use taillight_core::plan::WorkShare;

use crate::summary::Cause;

/// What clocks drift by at most: the kernel steers them within 500 parts per million.
const DRIFT_MOST: f64 = 500e-6;

/// The ranks of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Id of the run.
    pub run_id: String,
    /// How the ranks share what they drive.
    #[serde(default)]
    pub share: WorkShare,
    /// Every rank, in order.
    pub ranks: Vec<RankEntry>,
    /// When the load began; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartStamp>,
    /// Exact percentiles over all ranks, found without moving I/Os.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedFigures>,
    /// What is not the same on all hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<HostDifference>,
    /// What somebody who reads the figures must know, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankEntry {
    /// Number, from 0.
    pub rank: u32,
    /// Name of its host.
    pub host: String,
    /// What tells its clock from others: ranks with the same one share CLOCK_MONOTONIC.
    pub clock_id: String,
    /// Process id on its host.
    pub pid: u32,
    /// CPUs of its host.
    pub cpus: u32,
    /// CPUs that it may use; absent where it may use all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<u32>,
    /// Its run directory: relative to this one where rank 0 sees it, else the path on its host.
    pub directory: String,
    /// Rank 0 does not see its directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// What it drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<RankTarget>,
    /// Its clock against that of rank 0, before and after the load; none of rank 0 and those that share its clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<ClockSample>,
    /// When its load was, on the clock of rank 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<RankLoad>,
    /// Its slowest I/Os, where all of them stayed on its host; absent where rank 0 sees them, and where not all were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<Vec<RankSlowest>>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// Why it is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// A target of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankTarget {
    /// Its path on that host.
    pub path: String,
    /// What it is there: names and values; none where that cannot be known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<BTreeMap<String, String>>,
}

impl RankTarget {
    /// The identity as one word, as `--destroy HOST:ID` names it.
    pub fn id(&self) -> Option<String> {
        let identity = self.identity.as_ref()?;
        let parts = identity.iter().map(|(name, value)| format!("{name}={value}"));
        let text = parts.collect::<Vec<_>>().join(",");
        Some(text.split_whitespace().collect::<Vec<_>>().join("_"))
    }
}

/// The slowest I/Os of a workload and operation of a rank: what stalls and episodes are found from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankSlowest {
    /// Index of the workload in the plan.
    pub workload: u16,
    pub op: OpKind,
    /// How long the run was, ns.
    pub span_ns: u64,
    /// Latency, begin and end of each, ns on the rank's own clock: numbers with a space between.
    pub ios: String,
}

impl RankSlowest {
    /// Of latencies with begin and end.
    pub fn new(
        (workload, op): (u16, OpKind),
        span_ns: u64,
        ios: &[(u64, (i64, i64))],
    ) -> RankSlowest {
        let numbers = ios.iter().map(|(ns, (start, end))| format!("{ns} {start} {end}"));
        RankSlowest { workload, op, span_ns, ios: numbers.collect::<Vec<_>>().join(" ") }
    }

    /// Latencies with begin and end.
    pub fn ios(&self) -> Vec<(u64, (i64, i64))> {
        let numbers = self.ios.split(' ').filter_map(|text| text.parse::<i64>().ok());
        let numbers: Vec<i64> = numbers.collect();
        let each = numbers.chunks_exact(3);
        each.map(|each| (each[0].unsigned_abs(), (each[1], each[2]))).collect()
    }
}

/// A rank's clock against that of rank 0, measured by messages there and back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSample {
    /// When, on the clock of rank 0, ns.
    pub at_ns: i64,
    /// Its clock minus that of rank 0, ns.
    pub offset_ns: i64,
    /// How wrong that may be: half of the smallest round trip, ns.
    pub bound_ns: u64,
    /// The smallest round trip, ns.
    pub round_trip_ns: u64,
}

/// When the load of a rank was, on the clock of rank 0, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankLoad {
    /// First submit; absent where its I/Os were not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_submit_ns: Option<i64>,
    /// When that one was due, where it had a time of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due_ns: Option<i64>,
    /// Begin of the measure phase.
    pub start_ns: i64,
    /// Last completion.
    pub done_ns: i64,
}

impl RankLoad {
    /// The first submit, where it is known.
    pub fn first(&self) -> Option<FirstSubmit> {
        self.first_submit_ns.map(|at_ns| FirstSubmit { at_ns, due_ns: self.first_due_ns })
    }
}

/// The first submit of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstSubmit {
    pub at_ns: i64,
    /// When it was due, where it had a time of its own.
    pub due_ns: Option<i64>,
}

/// How far apart ranks began, on one clock, ns. Ranks that take turns in one schedule are due one after the other: of
/// them it is how late each was.
pub fn start_spread(firsts: &[FirstSubmit]) -> Option<u64> {
    let scheduled = firsts.iter().all(|first| first.due_ns.is_some());
    let begins = firsts.iter().map(|f| f.at_ns - f.due_ns.filter(|_| scheduled).unwrap_or(0));
    begins.clone().max().zip(begins.min()).map(|(last, first)| last.abs_diff(first))
}

/// The stamp at which all ranks were to begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartStamp {
    /// On the clock of rank 0, ns.
    pub at_ns: i64,
    /// From the first rank's first submit to the last one's, ns; where operations have a time of their own, each from that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_ns: Option<u64>,
}

/// Exact percentiles of one kind of latency over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergedFigures {
    /// Index of the workload in the plan.
    pub workload: u16,
    pub op: OpKind,
    /// Name of the latency: `service`, `response`.
    pub kind: String,
    /// Successes of all ranks.
    pub count: u64,
    /// By percentile, as a decimal string, ns.
    pub percentiles: BTreeMap<String, u64>,
    /// Bytes that rank 0 sent and received for each other rank.
    pub moved_bytes: u64,
}

/// Something that is not the same on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostDifference {
    /// What: `kernel`, `CPU`.
    pub what: String,
    /// The values, each with the hosts that have it.
    pub values: BTreeMap<String, Vec<String>>,
}

impl ScaleFile {
    /// The worst bound of all clocks over a load of `load_ns`, ns; none where all ranks share one.
    pub fn worst_bound_ns(&self, load_ns: u64) -> Option<u64> {
        self.ranks.iter().filter_map(|rank| rank.clock_bound_ns(load_ns)).max()
    }
}

impl RankEntry {
    /// Its run directory, seen from that of the whole run.
    pub fn path(&self, run: &Path) -> PathBuf {
        run.join(&self.directory)
    }

    /// How wrong its stamps may be on the clock of rank 0, ns: half of the round trip. Where there is one measurement
    /// only, or two that do not fit together, plus what the clocks may have parted. None of the same clock.
    pub fn clock_bound_ns(&self, load_ns: u64) -> Option<u64> {
        let measured = self.clocks.iter().map(|clock| clock.bound_ns).max()?;
        let parted = match self.clocks.as_slice() {
            [_] => (load_ns as f64 * DRIFT_MOST) as u64,
            all if self.clock_jumped() => {
                let (first, last) = (all.first()?, all.last()?);
                first.offset_ns.abs_diff(last.offset_ns)
            }
            _ => 0,
        };
        Some(measured.saturating_add(parted))
    }

    /// Whether its clock went apart from that of rank 0 by more than clocks drift.
    pub fn clock_jumped(&self) -> bool {
        let ends = self.clocks.first().zip(self.clocks.last());
        ends.is_some_and(|(first, last)| {
            let bounds = first.bound_ns.saturating_add(last.bound_ns);
            let apart = first.offset_ns.abs_diff(last.offset_ns).saturating_sub(bounds);
            apart as f64 > first.at_ns.abs_diff(last.at_ns) as f64 * DRIFT_MOST
        })
    }

    /// From its clock to that of rank 0.
    pub fn clock(&self) -> ClockMap {
        ClockMap::of(&self.clocks)
    }
}

/// From one clock to another: an offset, and a line where it was measured twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockMap {
    /// Where the offset was measured first, on the clock that is mapped, ns.
    at_ns: i64,
    offset_ns: i64,
    /// What the offset grows by, ns in 2^32 ns.
    drift: i64,
}

impl ClockMap {
    /// From measurements in their order; one is an offset, none is the same clock.
    pub fn of(samples: &[ClockSample]) -> ClockMap {
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            return ClockMap::default();
        };
        let grown = i128::from(last.offset_ns) - i128::from(first.offset_ns);
        // On this clock: stamps of it are moved.
        let time = i128::from(last.at_ns) - i128::from(first.at_ns) + grown;
        let drift = (grown << 32).checked_div(time).unwrap_or(0);
        let at_ns = first.at_ns.saturating_add(first.offset_ns);
        let drift = i64::try_from(drift).unwrap_or(0);
        ClockMap { at_ns, offset_ns: first.offset_ns, drift }
    }

    /// Whether both are the same clock.
    pub fn is_same(&self) -> bool {
        *self == ClockMap::default()
    }

    /// A stamp of this clock on that of rank 0.
    pub fn to_reference(&self, local_ns: i64) -> i64 {
        let since = i128::from(local_ns) - i128::from(self.at_ns);
        // Rounded: the drift itself is cut at 2^-32.
        let grown = (since * i128::from(self.drift) + (1 << 31)) >> 32;
        let offset = i128::from(self.offset_ns) + grown;
        i64::try_from(i128::from(local_ns) - offset).unwrap_or(local_ns)
    }

    /// A stamp of the clock of rank 0 on this one.
    pub fn to_local(&self, reference_ns: i64) -> i64 {
        let guess = reference_ns.saturating_add(self.offset_ns);
        // The drift is parts per million: one correction is exact to the nanosecond.
        guess.saturating_add(reference_ns.saturating_sub(self.to_reference(guess)))
    }

    /// What the clock gains on that of rank 0, parts per million.
    pub fn drift_ppm(&self) -> f64 {
        self.drift as f64 / (1u64 << 32) as f64 * 1e6
    }
}

/// What a summary says of the hosts of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostsSummary {
    /// The answer in sentences, the most important first.
    pub findings: Vec<String>,
    /// Each host, in order of its first rank.
    pub hosts: Vec<HostFigures>,
    /// Each rank whose results are there.
    pub ranks: Vec<HostFigures>,
    /// Most work of a rank over the mean of all, minus 1.
    pub imbalance: Option<f64>,
    /// From the first rank's first submit to the last one's, ns; where operations have a time of their own, each from that.
    pub start_spread_ns: Option<u64>,
    /// From the first rank's last completion to the last one's, ns.
    pub done_spread_ns: Option<u64>,
    /// The worst bound of a clock against that of rank 0, ns; absent where all share one.
    pub clock_bound_ns: Option<u64>,
    /// Most that a clock gained on that of rank 0 or lost during the load, parts per million; absent where none was measured
    /// twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_drift_ppm: Option<f64>,
    /// Stalls, the longest first: moments in which I/Os of a host, or of several, took far longer than usual.
    pub stalls: Vec<HostStall>,
}

/// Figures of the I/Os of a host or rank. Latencies are of the kind that the report leads with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFigures {
    /// Its name.
    pub host: String,
    /// Its ranks.
    pub ranks: Vec<u32>,
    /// I/Os, failed ones included.
    pub count: u64,
    /// Failed I/Os.
    pub errors: u64,
    /// Successful I/Os a second, from the start of the measure phase to the run's last completion.
    pub iops: f64,
    /// Bytes that they moved, a second.
    pub bytes_per_s: f64,
    /// Median latency, ns.
    pub p50_ns: Option<u64>,
    /// Latency that 99 % do not exceed, ns; absent where it was not measured.
    pub p99_ns: Option<u64>,
    /// Bounds of the 99 % with 95 % confidence.
    pub p99_lo_ns: Option<u64>,
    /// The upper bound.
    pub p99_hi_ns: Option<u64>,
    /// Latency that 99.9 % do not exceed, ns.
    pub p999_ns: Option<u64>,
    /// The longest latency, ns.
    pub max_ns: Option<u64>,
    /// Share that the load took of the CPUs that its ranks may use, 0 to 1.
    pub cpu: Option<f64>,
    /// Layers that held its outliers, most first, as the reports of its ranks name them; empty until traced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<Cause>,
    /// Most operations that were due and not yet sent.
    pub backlog_max: Option<u64>,
    /// From the start of the measure phase to its last completion, ns.
    pub done_ns: Option<u64>,
    /// Its 99 % against that of the others; absent for ranks, with one host, and where I/Os are too few.
    pub against_others: Option<AgainstOthers>,
    /// I/Os a second in each of `strip_ns`, from the start on.
    pub strip: Vec<f64>,
    /// Length of a step of `strip`, ns.
    pub strip_ns: u64,
}

/// The 99 % of a host over that of all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgainstOthers {
    /// Ratio of both.
    pub ratio: f64,
    /// Bounds with 95 % confidence.
    pub lo: f64,
    /// The upper bound.
    pub hi: f64,
    /// P-value, adjusted for the number of hosts (Holm).
    pub p: f64,
    /// Slower beyond chance: p below 0.05, and the interval for 0.05 over the number of hosts above 1.
    pub slower: bool,
}

/// A moment in which I/Os took far longer than usual.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStall {
    /// Begin, on the clock of rank 0, ns.
    pub start_ns: i64,
    /// Its length, ns.
    pub length_ns: u64,
    /// Hosts whose I/Os were slow then.
    pub hosts: Vec<String>,
    /// Hosts of which it is not known: they had no load then any more, or their I/Os are not here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// I/Os.
    pub ios: u64,
    /// All hosts, of several.
    pub shared: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_ios_are_read_back() {
        let ios = vec![(7, (-5, 2)), (1_000_000, (1, 1_000_001))];
        let told = RankSlowest::new((1, OpKind::Read), 9, &ios);
        assert_eq!(told.ios(), ios);
        assert!(RankSlowest::new((1, OpKind::Read), 9, &[]).ios().is_empty());
    }

    #[test]
    fn turns_in_a_schedule_are_no_spread() {
        let first = |at_ns, due_ns| FirstSubmit { at_ns, due_ns };
        assert_eq!(start_spread(&[]), None);
        assert_eq!(start_spread(&[first(100, None), first(130, None)]), Some(30));
        let turns = [first(1_005, Some(1_000)), first(2_002, Some(2_000))];
        assert_eq!(start_spread(&turns), Some(3));
        assert_eq!(start_spread(&[turns[0], first(1_035, None)]), Some(30), "not of one kind");
    }

    #[test]
    fn a_clock_that_was_measured_once_or_jumped_has_a_wide_bound() {
        let at =
            |at_ns, offset_ns| ClockSample { at_ns, offset_ns, bound_ns: 5, round_trip_ns: 10 };
        let rank =
            |clocks: &[ClockSample]| RankEntry { clocks: clocks.to_vec(), ..RankEntry::default() };
        let second = 1_000_000_000;
        assert_eq!(rank(&[]).clock_bound_ns(second), None);
        assert_eq!(rank(&[at(0, 7)]).clock_bound_ns(second), Some(500_005));
        let steady = rank(&[at(0, 7), at(1_000_000_000, 400_000)]);
        assert_eq!((steady.clock_bound_ns(second), steady.clock_jumped()), (Some(5), false));
        let jumped = rank(&[at(0, 7), at(1_000_000_000, 600_007)]);
        assert_eq!((jumped.clock_bound_ns(second), jumped.clock_jumped()), (Some(600_005), true));
    }
}
