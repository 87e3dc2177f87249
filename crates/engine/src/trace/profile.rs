//! What a trace is, without running it: rates and bursts, mix, sizes, order, what it touches. `taillight trace`
//! prints it.
//!
//! Dispersion: variance / mean of the operations in windows of one length (Fano factor): 1 for arrivals that
//! do not know of each other, more for bursts, less for a steady beat.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::plan::{RecordedLatency, ReplayOps, TraceOp};
use taillight_core::{OpKind, Percentile};
use taillight_stats::Dist;

use super::reuse::TraceReuse;

/// Windows of the dispersion, ns.
const WINDOWS_NS: [i64; 5] =
    [1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 60_000_000_000];
/// Sizes that are named.
const SIZES: usize = 5;
/// Kinds of streams that are named.
const STREAMS: usize = 9;
/// Sequential runs of a kind that may be in each other's way.
const RUNS: usize = 32;

/// What a trace is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceProfile {
    /// Name of its format.
    pub format: &'static str,
    pub operations: u64,
    /// From the first operation to the last, ns.
    pub span_ns: u64,
    /// Bytes asked of all operations.
    pub bytes: u64,
    /// Absent where the trace has no times.
    pub rate: Option<TraceRate>,
    /// Operations by kind.
    pub mix: Vec<TraceMixPart>,
    /// Of operations that have a size; absent without any.
    pub sizes: Option<TraceSizes>,
    /// Share of operations that begin where the one before of their kind ended.
    pub sequential_share: f64,
    /// Share of operations that begin where one of the 32 sequential runs of their kind that moved last ended.
    pub interleaved_share: f64,
    /// Operations by kind, size and order, the most frequent first, nine at most.
    pub streams: Vec<TraceStream>,
    /// Absent where no operation has a size.
    pub reuse: Option<TraceReuse>,
    /// Latencies that the trace says its operations had, percentiles only where there are enough of them; absent where it
    /// says none.
    pub latency: Option<RecordedLatency>,
    /// Writes that were on the medium when they ended (FUA).
    pub durable: u64,
    /// One past the last byte that is touched: what a target needs with fit = "refuse".
    pub address_space_bytes: u64,
    /// Bytes that are touched, each counted once: what a target needs with fit = "compact".
    pub touched_bytes: u64,
    /// How often a byte that is touched is asked for, on average.
    pub times_touched: f64,
    /// Memory that a replay takes, bytes.
    pub memory_bytes: u64,
    /// Rows that came later in the file than one that follows them in time.
    pub sorted: u64,
    /// Operations that share a stamp of whole ms or seconds with others, and are spread over its tick.
    pub spread: u64,
    /// Operations that share a stamp with others, where all are whole ms and the clock may be finer: due together.
    pub bunched: u64,
    /// Operations of no bytes, left out.
    pub skipped: u64,
}

/// Operations of one kind, size and order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceStream {
    pub op: OpKind,
    pub bytes: u64,
    /// They begin where the operation before of their kind ended.
    pub sequential: bool,
    /// Of all operations.
    pub share: f64,
}

/// Operations a second, and how unevenly they come.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceRate {
    /// On average; absent where the trace has no length.
    pub mean_per_s: Option<f64>,
    /// In the busiest second.
    pub peak_per_s: u64,
    /// When that second begins, since the first operation.
    pub peak_at_s: u64,
    /// Variance / mean of the operations in windows of each length; 1 is random.
    pub dispersion: Vec<TraceDispersion>,
}

/// Dispersion at one length.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceDispersion {
    pub window_ns: u64,
    /// Absent where the trace has less than two windows.
    pub index: Option<f64>,
}

/// Operations of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceMixPart {
    pub op: OpKind,
    pub operations: u64,
    pub bytes: u64,
    /// Of all operations.
    pub share: f64,
}

/// Sizes of operations, bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceSizes {
    pub mean: f64,
    pub min: u64,
    pub median: u64,
    pub p99: u64,
    pub max: u64,
    /// The most frequent sizes with their shares, five at most.
    pub most: Vec<TraceSizeShare>,
}

/// How often one size is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceSizeShare {
    pub bytes: u64,
    /// Of all operations that have a size.
    pub share: f64,
}

impl TraceProfile {
    /// Of a trace that holds an operation.
    pub fn of(trace: &ReplayOps) -> TraceProfile {
        let (ops, times) = (&trace.ops, &trace.times);
        let all = ops.len() as f64;
        let mut kinds: BTreeMap<OpKind, (u64, u64)> = BTreeMap::new();
        for op in ops.iter() {
            let kind = kinds.entry(op.kind).or_default();
            *kind = (kind.0 + 1, kind.1 + u64::from(op.size));
        }
        let mix = kinds.iter().map(|(op, (operations, bytes))| TraceMixPart {
            op: *op,
            operations: *operations,
            bytes: *bytes,
            share: *operations as f64 / all,
        });
        let bytes = kinds.values().map(|(_, bytes)| bytes).sum();
        let touched = trace.touched().iter().map(|(start, end)| end - start).sum();
        let (streams, interleaved) = streams(ops);
        TraceProfile {
            interleaved_share: interleaved as f64 / all,
            streams,
            reuse: TraceReuse::of(trace),
            latency: trace.latency.as_ref().map(super::resolved),
            durable: trace.durable(),
            format: trace.format,
            operations: ops.len() as u64,
            span_ns: times.last().map_or(0, |t| *t as u64),
            bytes,
            rate: (!trace.untimed).then(|| rate(times)),
            mix: mix.collect(),
            sizes: sizes(trace),
            sequential_share: trace.sequential_share(),
            address_space_bytes: trace.end(),
            touched_bytes: touched,
            times_touched: bytes as f64 / touched.max(1) as f64,
            memory_bytes: trace.memory(),
            sorted: trace.sorted,
            spread: trace.spread,
            bunched: trace.bunched,
            skipped: trace.skipped,
        }
    }
}

/// The most frequent kinds of streams, and the operations that continue one of the latest runs of their kind.
fn streams(ops: &[TraceOp]) -> (Vec<TraceStream>, u64) {
    let mut runs: BTreeMap<OpKind, VecDeque<u64>> = BTreeMap::new();
    let mut counts: BTreeMap<(OpKind, u32, bool), u64> = BTreeMap::new();
    let mut interleaved = 0;
    for op in ops {
        let runs = runs.entry(op.kind).or_default();
        let sequential = op.size > 0 && runs.back() == Some(&op.offset);
        *counts.entry((op.kind, op.size, sequential)).or_default() += 1;
        if op.size == 0 {
            continue;
        }
        let of = runs.iter().rposition(|end| *end == op.offset);
        interleaved += u64::from(of.is_some());
        match of {
            Some(at) => drop(runs.remove(at)),
            None if runs.len() == RUNS => drop(runs.pop_front()),
            None => {}
        }
        runs.push_back(op.end());
    }
    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_by_key(|(of, count)| (std::cmp::Reverse(*count), *of));
    let stream = |((op, size, sequential), count): ((OpKind, u32, bool), u64)| TraceStream {
        op,
        bytes: size.into(),
        sequential,
        share: count as f64 / ops.len() as f64,
    };
    (most.into_iter().take(STREAMS).map(stream).collect(), interleaved)
}

fn rate(times: &[i64]) -> TraceRate {
    let span = times.last().copied().unwrap_or(0);
    let second = |t: &i64| t / 1_000_000_000;
    let busiest = times.chunk_by(|a, b| second(a) == second(b)).max_by_key(|same| {
        // The first of several that are as busy.
        (same.len(), std::cmp::Reverse(same[0]))
    });
    let gaps = times.len().saturating_sub(1) as f64;
    TraceRate {
        mean_per_s: (span > 0).then(|| gaps / (span as f64 / 1e9)),
        peak_per_s: busiest.map_or(0, |same| same.len() as u64),
        peak_at_s: busiest.map_or(0, |same| second(&same[0]) as u64),
        dispersion: WINDOWS_NS.map(|window| dispersion(times, window)).into(),
    }
}

/// Over whole windows: what comes after the last one is left out.
fn dispersion(times: &[i64], window: i64) -> TraceDispersion {
    let windows = times.last().map_or(0, |last| last / window);
    let whole = &times[..times.partition_point(|t| *t < windows * window)];
    let squares: f64 = whole
        .chunk_by(|a, b| a / window == b / window)
        .map(|same| (same.len() as f64).powi(2))
        .sum();
    let (n, sum) = (windows as f64, whole.len() as f64);
    let variance = (squares - sum * sum / n) / (n - 1.0);
    TraceDispersion {
        window_ns: window as u64,
        index: (windows >= 2).then(|| variance / (sum / n)).filter(|index| index.is_finite()),
    }
}

fn sizes(trace: &ReplayOps) -> Option<TraceSizes> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for op in trace.ops.iter().filter(|op| op.size > 0) {
        *counts.entry(op.size).or_default() += 1;
    }
    let pairs = counts.iter().map(|(size, count)| (u64::from(*size), *count));
    let dist = Dist::from_sorted_pairs(pairs).ok()?;
    let all = dist.count();
    let sum: f64 = counts.iter().map(|(size, count)| f64::from(*size) * *count as f64).sum();
    let mut most: Vec<(u32, u64)> = counts.iter().map(|(size, count)| (*size, *count)).collect();
    most.sort_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
    let share = |(size, count): &(u32, u64)| TraceSizeShare {
        bytes: u64::from(*size),
        share: *count as f64 / all as f64,
    };
    Some(TraceSizes {
        mean: sum / all as f64,
        min: dist.min()?,
        median: dist.percentile(&Percentile::MEDIAN)?,
        p99: dist.percentile(&Percentile::hundredths(99_00))?,
        max: dist.max()?,
        most: most.iter().take(SIZES).map(share).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(ops: impl Iterator<Item = (i64, OpKind, u64, u32)>) -> ReplayOps {
        let (times, ops): (Vec<i64>, Vec<TraceOp>) =
            ops.map(|(t, kind, offset, size)| (t, TraceOp::new(kind, offset, size))).unzip();
        ReplayOps { times: times.into(), ops: ops.into(), ..ReplayOps::default() }
    }

    #[test]
    fn a_steady_sequential_trace_is_seen_as_such() {
        let even = (0..10_001).map(|i| (i * 1_000_000, OpKind::Read, i as u64 * 4096, 4096));
        let p = TraceProfile::of(&trace(even));
        assert_eq!((p.operations, p.span_ns), (10_001, 10_000_000_000));
        let rate = p.rate.expect("times");
        assert_eq!(rate.mean_per_s, Some(1000.0));
        assert_eq!((rate.peak_per_s, rate.peak_at_s), (1000, 0));
        let fits = |d: &&TraceDispersion| d.window_ns < 10_000_000_000;
        assert!(rate.dispersion.iter().filter(fits).all(|d| d.index == Some(0.0)), "{rate:?}");
        assert!(rate.dispersion.iter().skip(3).all(|d| d.index.is_none()), "{rate:?}");
        assert_eq!(p.streams.len(), 2);
        assert_eq!((p.streams[0].sequential, p.streams[0].share), (true, p.sequential_share));
        assert_eq!(p.sequential_share, 10_000.0 / 10_001.0);
        assert_eq!((p.touched_bytes, p.times_touched), (10_001 * 4096, 1.0));
        let sizes = p.sizes.expect("sizes");
        assert_eq!((sizes.min, sizes.median, sizes.p99, sizes.max), (4096, 4096, 4096, 4096));
    }

    #[test]
    fn bursts_mix_sizes_and_reuse_are_counted() {
        // Ten at once in each second; every fourth a write of 8 KiB, all on the same two places.
        let op = |i: i64| match i % 4 {
            0 => (i / 10 * 1_000_000_000, OpKind::Write, 1 << 20, 8192),
            _ => (i / 10 * 1_000_000_000, OpKind::Read, 0, 512),
        };
        let p = TraceProfile::of(&trace((0..1000).map(op)));
        // 99 of 99,000 windows of 1 ms hold ten: variance 10 x mean.
        let rate = p.rate.expect("times");
        let index = rate.dispersion[0].index.expect("windows");
        assert!((index - 9.99).abs() < 0.01, "{index}");
        assert_eq!(rate.dispersion[2].index, Some(0.0));
        assert_eq!((rate.peak_per_s, p.mix.len()), (10, 2));
        assert_eq!((p.mix[1].op, p.mix[1].operations, p.mix[1].share), (OpKind::Write, 250, 0.25));
        assert_eq!(p.touched_bytes, 8192 + 512);
        assert_eq!(p.address_space_bytes, (1 << 20) + 8192);
        assert_eq!(p.bytes, 250 * 8192 + 750 * 512);
        let sizes = p.sizes.expect("sizes");
        assert_eq!((sizes.median, sizes.p99, sizes.most[0].bytes), (512, 8192, 512));
        assert_eq!(sizes.most[1].share, 0.25);
        assert_eq!(p.sequential_share, 0.0);
    }

    #[test]
    fn one_operation_has_no_rate() {
        let p = TraceProfile::of(&trace(std::iter::once((0, OpKind::Fsync, 0, 0))));
        let rate = p.rate.expect("times");
        assert_eq!((rate.mean_per_s, p.sizes, p.times_touched), (None, None, 0.0));
        assert!(rate.dispersion.iter().all(|d| d.index.is_none()));
    }

    #[test]
    fn runs_that_are_in_each_others_way_are_seen_as_sequential() {
        let op = |i: i64| (i, OpKind::Read, (i % 4) as u64 * (1 << 30) + (i / 4) as u64 * 512, 512);
        let p = TraceProfile::of(&trace((0..400).map(op)));
        assert_eq!((p.sequential_share, p.interleaved_share), (0.0, 0.99));
        let p = TraceProfile::of(&ReplayOps { untimed: true, ..trace((0..9).map(op)) });
        assert_eq!(p.rate, None);
    }
}
