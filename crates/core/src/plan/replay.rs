//! A recorded trace in place of a workload's own mix, sizes, offsets and times: what a job says of it,
//! its operations, and how they are made to fit a target. Files are read by the engine's `trace`.
//!
//! Intended times are whole ns: (stamp - first) / speed, rounded for each operation by itself, so that rounding does
//! not add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::percentile::Percentile;
use crate::units::Span;

/// A recorded trace: `{ file = "web_0.csv", fit = "wrap" }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// The trace, or the directory of a run. Its format is recognised by what is in it.
    pub file: String,
    /// Its format by name, where it is not recognised: msr, alibaba, tencent, tencent-bytes, iolog2, iolog3, blktrace,
    /// ios-csv or ios-parquet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The disk, device, volume, file or workload of a trace that has several: "disk=0".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
    /// Begins so long after the first operation of the trace. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Span>,
    /// Ends so long after `from`. Default: with the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Span>,
    /// When operations start. Default: recorded.
    #[serde(default)]
    pub timing: TraceTiming,
    /// For `scaled`: how many times as fast as recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
    /// What becomes of offsets beyond the target. Default: refuse.
    #[serde(default)]
    pub fit: TraceFit,
    /// Latencies that the trace has, once it is read: written with the run, for its report; no job says them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub recorded: Option<RecordedLatency>,
    /// When its operations are due, once it is read and fits: written with the run, as its latencies are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub arrivals: Option<TraceArrivals>,
    /// The operations, once they are read.
    #[serde(skip)]
    pub ops: ReplayOps,
}

/// When operations of a trace start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceTiming {
    /// As recorded: open loop.
    #[default]
    Recorded,
    /// Open loop, `speed` times as fast.
    Scaled,
    /// Closed loop, each as soon as a slot is free: not a response to arrivals.
    Asap,
}

/// What becomes of offsets beyond the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceFit {
    /// The run is refused.
    #[default]
    Refuse,
    /// Modulo the size of the target.
    Wrap,
    /// All offsets are scaled by target / trace: neighbours come apart, or overlap.
    Scale,
    /// Operations beyond the target are left out, counted.
    Clip,
    /// What no operation touches is left out of the addresses: order, neighbours and reuse stay.
    Compact,
}

impl TraceFit {
    /// What else may be tried where a trace does not fit by this, to stand behind "give a larger target".
    pub fn others(self) -> &'static str {
        match self {
            TraceFit::Refuse => ", or trace.fit = \"wrap\", \"scale\", \"clip\" or \"compact\"",
            TraceFit::Compact => ", or trace.fit = \"wrap\", \"scale\" or \"clip\"",
            // The largest operation alone does not fit.
            TraceFit::Wrap | TraceFit::Scale => {
                ", or leave out what is too large: trace.fit = \"clip\""
            }
            TraceFit::Clip => "",
        }
    }
}

/// One operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOp {
    /// Byte offset.
    pub offset: u64,
    /// Bytes; 0 for an fsync.
    pub size: u32,
    /// A read, write, trim or fsync.
    pub kind: OpKind,
    /// A write that was on the medium when it ended (FUA): a sync is part of it.
    pub durable: bool,
}

impl TraceOp {
    /// An operation that is not durable.
    pub fn new(kind: OpKind, offset: u64, size: u32) -> TraceOp {
        TraceOp { offset, size, kind, durable: false }
    }

    /// One past its last byte.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.size))
    }
}

/// The operations of a trace in the order of their times, shared by everybody who holds the plan: 24 bytes
/// each. Two plans are compared by what they say of the trace, not by these.
#[derive(Debug, Clone, Default)]
pub struct ReplayOps {
    /// Name of its format.
    pub format: &'static str,
    /// When each operation starts, since the first one, ns.
    pub times: Arc<[i64]>,
    /// The operations.
    pub ops: Arc<[TraceOp]>,
    /// Rows that came later in the file than one that follows them in time.
    pub sorted: u64,
    /// Reads, writes and trims of no bytes, left out.
    pub skipped: u64,
    /// Operations that others share a stamp of whole ms or seconds with, and that were put further on in its tick.
    pub spread: u64,
    /// Operations that others share a stamp with, where all are whole ms and the clock may be finer: they are due together.
    pub bunched: u64,
    /// Bytes added by rounding sizes and offsets out to the blocks of direct I/O.
    pub rounded: u64,
    /// Operations left out or moved so that the trace fits.
    pub refitted: u64,
    /// Writes that were on the medium when they ended, and are replayed without a sync.
    pub unsynced: u64,
    /// Share of sequential operations before and after they were moved, where that changed it.
    pub resequenced: Option<(f64, f64)>,
    /// The trace says no times: all operations are at 0.
    pub untimed: bool,
    /// Operations that the recorded run did and could not keep.
    pub missing: u64,
    /// Whether the trace is of a run whose directory is not there to say whether these are all of its I/Os.
    pub alone: bool,
    /// Latencies that the trace has beside its operations.
    pub latency: Option<RecordedLatency>,
    /// The latency of each operation, ns, or [`NO_LATENCY`]; empty where the trace has none, and once it is resolved.
    pub latencies: Vec<u64>,
}

/// In the place of a latency that a trace does not have.
pub const NO_LATENCY: u64 = u64::MAX;

/// Latencies of a trace's operations, as it says them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedLatency {
    /// Operations that have one.
    pub operations: u64,
    /// Their mean, ns.
    pub mean_ns: f64,
    /// The longest, ns.
    pub max_ns: u64,
    /// Exact, by nearest rank.
    pub percentiles: Vec<RecordedPercentile>,
    /// The same, finer: for each per cent and for nines, as far as the operations tell them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<RecordedPercentile>,
}

/// Percentiles of recorded latencies that reports show.
const PERCENTILES: [Percentile; 5] = [
    Percentile::MEDIAN,
    Percentile::hundredths(90_00),
    Percentile::hundredths(99_00),
    Percentile::hundredths(99_90),
    Percentile::hundredths(99_99),
];

/// 1 % to 99 % by one, then the nines from 99.9 % to 99.999999 %.
fn quantiles() -> impl Iterator<Item = Percentile> {
    let percents = (1..=98).map(|percent| Percentile::hundredths(percent * 100));
    percents.chain((2..=8).filter_map(Percentile::nines))
}

impl RecordedLatency {
    /// Sums up the latencies (ns) that are not [`NO_LATENCY`]; `None` where there are none.
    pub fn of(latencies: &[u64]) -> Option<RecordedLatency> {
        let mut all: Vec<u64> = latencies.iter().copied().filter(|ns| *ns != NO_LATENCY).collect();
        all.sort_unstable();
        let max_ns = *all.last()?;
        let operations = all.len() as u64;
        // One that has no operation beyond it is the largest.
        let told = |p: &Percentile| p.rank(operations) < operations;
        let at = |percentile: Percentile| RecordedPercentile {
            percentile,
            ns: all[percentile.rank(operations) as usize - 1],
        };
        Some(RecordedLatency {
            operations,
            mean_ns: all.iter().map(|ns| *ns as f64).sum::<f64>() / operations as f64,
            max_ns,
            percentiles: PERCENTILES.map(at).into(),
            quantiles: quantiles().filter(told).map(at).collect(),
        })
    }
}

/// How many operations of a trace are due in each window of its time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceArrivals {
    /// Length of a window, ns; the first begins with the measure phase.
    pub window_ns: u64,
    /// Operations due in each.
    pub due: Vec<u64>,
}

impl TraceArrivals {
    /// Most windows of a trace.
    pub const MOST_WINDOWS: u64 = 1800;
}

/// A percentile of recorded latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedPercentile {
    /// The percentile, as a decimal.
    pub percentile: Percentile,
    /// Its latency, ns.
    pub ns: u64,
}

impl PartialEq for ReplayOps {
    fn eq(&self, _: &ReplayOps) -> bool {
        true
    }
}

impl ReplayOps {
    /// Bytes of memory that an operation takes.
    pub const OP_BYTES: u64 = 24;

    /// One past the last byte that is touched.
    pub fn end(&self) -> u64 {
        self.ops.iter().map(TraceOp::end).max().unwrap_or(0)
    }

    /// Bytes of the largest operation.
    pub fn largest(&self) -> u64 {
        self.ops.iter().map(|op| u64::from(op.size)).max().unwrap_or(0)
    }

    /// Memory that it takes, bytes.
    pub fn memory(&self) -> u64 {
        self.ops.len() as u64 * ReplayOps::OP_BYTES
    }

    /// Whether it changes stored data.
    pub fn writes(&self) -> bool {
        self.ops.iter().any(|op| op.kind.writes())
    }

    /// Share of operations that begin where the one before of their kind ended.
    pub fn sequential_share(&self) -> f64 {
        let mut ends: BTreeMap<OpKind, u64> = BTreeMap::new();
        let mut follows =
            |op: &TraceOp| op.size > 0 && ends.insert(op.kind, op.end()) == Some(op.offset);
        let sequential = self.ops.iter().filter(|op| follows(op)).count();
        sequential as f64 / self.ops.len().max(1) as f64
    }

    /// Writes that were on the medium when they ended.
    pub fn durable(&self) -> u64 {
        self.ops.iter().filter(|op| op.durable).count() as u64
    }

    /// Counts the first `part` operations by the window in which they are due, the first of them after `delay`. A
    /// window is the fewest whole intervals that make at most [`TraceArrivals::MOST_WINDOWS`] windows.
    pub fn arrivals(&self, interval: Span, delay: Span, part: usize) -> TraceArrivals {
        let at = |time: &i64| time.unsigned_abs().saturating_add(delay.0);
        let times = &self.times[..part.min(self.times.len())];
        let span = times.last().map_or(0, at);
        let interval = interval.0.max(1);
        let intervals = (span / interval + 1).div_ceil(TraceArrivals::MOST_WINDOWS);
        let window_ns = interval.saturating_mul(intervals);
        let mut due = vec![0; (span / window_ns + 1) as usize];
        for time in times {
            if let Some(count) = due.get_mut((at(time) / window_ns) as usize) {
                *count += 1;
            }
        }
        TraceArrivals { window_ns, due }
    }

    /// Drops the latencies of single operations. Where only the first `part` operations are replayed, the summary is
    /// that of their latencies.
    pub fn recorded(&mut self, part: usize) {
        let latencies = std::mem::take(&mut self.latencies);
        if part < latencies.len() {
            self.latency = RecordedLatency::of(&latencies[..part]);
        }
    }

    /// Takes the syncs out of its writes.
    pub fn without_durable(&mut self) {
        self.unsynced += self.durable();
        if self.unsynced > 0 {
            self.ops = self.ops.iter().map(|op| TraceOp { durable: false, ..*op }).collect();
        }
    }

    /// What was touched: ranges in order that do not meet.
    pub fn touched(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> =
            self.ops.iter().filter(|op| op.size > 0).map(|op| (op.offset, op.end())).collect();
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in all {
            match merged.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => merged.push((start, end)),
            }
        }
        merged
    }

    /// Divides the times by `speed`, each by itself in whole ns; the speed is rounded to millionths.
    pub fn at_speed(&mut self, speed: f64) {
        let millionths = ((speed * 1e6).round() as i128).max(1);
        let scaled =
            |t: &i64| (i128::from(*t) * 1_000_000 / millionths).min(i64::MAX.into()) as i64;
        self.times = self.times.iter().map(scaled).collect();
    }

    /// Sizes and offsets rounded out to multiples of `align`. Errors: a size too large for it.
    pub fn round_out(&mut self, align: u64) -> Result<(), String> {
        let (mut added, align) = (0, align.max(1));
        let rounded: Option<Vec<TraceOp>> = self
            .ops
            .iter()
            .map(|op| {
                if op.size == 0 {
                    return Some(*op);
                }
                let start = op.offset / align * align;
                let size = op.end().checked_next_multiple_of(align)? - start;
                added += size - u64::from(op.size);
                Some(TraceOp { offset: start, size: u32::try_from(size).ok()?, ..*op })
            })
            .collect();
        self.ops = rounded.ok_or("an offset or size is too large to be rounded")?.into();
        self.rounded += added;
        Ok(())
    }

    /// Makes the operations fit a target of `size` bytes, unless they do already; offsets and sizes stay multiples of
    /// `align`. Errors: why they cannot fit, in words.
    pub fn fit(&mut self, fit: TraceFit, size: u64, align: u64) -> Result<(), String> {
        let end = self.end();
        if end <= size {
            return Ok(());
        }
        let align = align.max(1);
        let (size, largest) = (size / align * align, self.largest());
        if fit == TraceFit::Refuse || (largest > size && fit != TraceFit::Clip) {
            return Err(format!(
                "the trace touches {end} bytes, its largest operation {largest}; the target has {size}"
            ));
        }
        match fit {
            TraceFit::Refuse => {}
            TraceFit::Wrap => self.move_to(|op| (op.offset % size).min(size - u64::from(op.size))),
            TraceFit::Scale => self.move_to(|op| {
                let scaled = u128::from(op.offset) * u128::from(size) / u128::from(end);
                (scaled as u64 / align * align).min(size - u64::from(op.size))
            }),
            TraceFit::Clip => self.clip(size)?,
            TraceFit::Compact => {
                self.compact();
                let end = self.end();
                if end > size {
                    return Err(format!("the trace touches {end} bytes, the target has {size}"));
                }
            }
        }
        Ok(())
    }

    /// Leaves what no operation touches out of the addresses.
    pub fn compact(&mut self) {
        let touched = self.touched();
        let mut before = 0;
        let starts: Vec<(u64, u64)> = touched
            .iter()
            .map(|(start, end)| {
                let at = (*start, before);
                before += end - start;
                at
            })
            .collect();
        self.move_to(|op| {
            let range = starts.partition_point(|(start, _)| *start <= op.offset);
            let known = range.checked_sub(1).and_then(|i| starts.get(i));
            known.map_or(0, |(start, at)| at + (op.offset - start))
        });
    }

    /// Puts each operation with bytes where `place` says, and counts those that moved.
    fn move_to(&mut self, place: impl Fn(&TraceOp) -> u64) {
        let (mut moved, before) = (0, self.sequential_share());
        self.ops = self
            .ops
            .iter()
            .map(|op| {
                let offset = if op.size == 0 { 0 } else { place(op) };
                moved += u64::from(offset != op.offset);
                TraceOp { offset, ..*op }
            })
            .collect();
        self.refitted += moved;
        self.resequenced = Some((before, self.sequential_share())).filter(|(a, b)| a != b);
    }

    /// Leaves out operations that end beyond `size`; the first that is left is due at 0. Errors: none that has bytes is
    /// left: syncs alone are no part of a trace that has others.
    fn clip(&mut self, size: u64) -> Result<(), String> {
        let kept = || self.ops.iter().zip(self.times.iter()).filter(|(op, _)| op.end() <= size);
        let (ops, times): (Vec<TraceOp>, Vec<i64>) = kept().map(|(op, time)| (*op, *time)).unzip();
        if ops.iter().all(|op| op.size == 0) {
            return Err(format!("no operation lies within the {size} bytes of the target"));
        }
        if !self.latencies.is_empty() {
            let each = self.ops.iter().zip(&self.latencies);
            let within = each.filter(|(op, _)| op.end() <= size);
            self.latencies = within.map(|(_, ns)| *ns).collect();
            self.latency = RecordedLatency::of(&self.latencies);
        }
        self.refitted += (self.ops.len() - ops.len()) as u64;
        let first = times[0];
        self.times = times.into_iter().map(|t| t - first).collect();
        self.ops = ops.into();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(ops: &[(u64, u32)]) -> ReplayOps {
        let op = |(offset, size): &(u64, u32)| {
            let kind = if *size == 0 { OpKind::Fsync } else { OpKind::Write };
            TraceOp::new(kind, *offset, *size)
        };
        ReplayOps {
            times: (0..ops.len() as i64).map(|i| i * 7).collect(),
            ops: ops.iter().map(op).collect(),
            ..ReplayOps::default()
        }
    }

    fn places(ops: &ReplayOps) -> Vec<(u64, u32)> {
        ops.ops.iter().map(|op| (op.offset, op.size)).collect()
    }

    const OPS: [(u64, u32); 4] = [(0, 512), (8192, 1024), (0, 0), (9216, 512)];

    #[test]
    fn a_trace_that_fits_stays_as_it_is() {
        for fit in FITS {
            let mut t = trace(&OPS);
            t.fit(fit, 9728, 512).unwrap();
            assert_eq!((places(&t), t.refitted), (OPS.to_vec(), 0), "{fit:?}");
        }
    }

    #[test]
    fn arrivals_are_counted_in_windows_that_are_not_too_many() {
        let of = |times: &[i64]| ReplayOps { times: times.into(), ..ReplayOps::default() };
        let some = of(&[0, 9, 10, 29]).arrivals(Span(10), Span(0), 4);
        assert_eq!((some.window_ns, &*some.due), (10, &[2, 1, 1][..]));
        assert_eq!(*of(&[0, 9, 10, 29]).arrivals(Span(10), Span(0), 3).due, [2, 1]);
        assert_eq!(*of(&[0, 9, 10]).arrivals(Span(10), Span(11), usize::MAX).due, [0, 1, 2]);
        let long = of(&[0, 17_999, 18_000]).arrivals(Span(10), Span(0), 3);
        assert_eq!((long.window_ns, long.due.len(), long.due.iter().sum::<u64>()), (20, 901, 3));
    }

    #[test]
    fn refuse_says_what_the_trace_needs() {
        let said = trace(&OPS).fit(TraceFit::Refuse, 4096, 512).unwrap_err();
        assert!(said.contains("touches 9728 bytes") && said.contains("4096"), "{said}");
    }

    #[test]
    fn wrap_takes_offsets_modulo_the_target_and_keeps_sizes_inside() {
        let mut t = trace(&[(0, 512), (4096, 512), (8704, 1024)]);
        t.fit(TraceFit::Wrap, 2048, 512).unwrap();
        assert_eq!(places(&t), [(0, 512), (0, 512), (512, 1024)]);
        let mut t = trace(&[(3584, 1024)]);
        t.fit(TraceFit::Wrap, 2048, 512).unwrap();
        assert_eq!(places(&t), [(1024, 1024)]);
        assert!(trace(&[(0, 4096)]).fit(TraceFit::Wrap, 2048, 512).is_err());
    }

    #[test]
    fn scale_keeps_the_order_of_places() {
        let mut t = trace(&OPS);
        t.fit(TraceFit::Scale, 5500, 512).unwrap();
        assert_eq!(places(&t), [(0, 512), (4096, 1024), (0, 0), (4608, 512)]);
        assert_eq!(t.refitted, 2);
    }

    #[test]
    fn a_sequential_trace_that_is_scaled_says_what_became_of_it() {
        let runs: Vec<(u64, u32)> = (0..100).map(|i| (i * 1024, 1024)).collect();
        let mut t = trace(&runs);
        assert_eq!(t.sequential_share(), 0.99);
        t.fit(TraceFit::Scale, 51_200, 512).unwrap();
        assert_eq!(t.resequenced, Some((0.99, 0.0)));
        let mut t = trace(&runs);
        t.fit(TraceFit::Wrap, 51_200, 512).unwrap();
        assert_eq!(t.resequenced, Some((0.99, 0.98)));
    }

    #[test]
    fn durable_writes_stay_so_while_they_are_moved_until_no_sync_is_possible() {
        let mut t = trace(&OPS);
        t.ops = t.ops.iter().map(|op| TraceOp { durable: op.size > 0, ..*op }).collect();
        t.round_out(512).unwrap();
        t.fit(TraceFit::Wrap, 4096, 512).unwrap();
        assert_eq!(t.durable(), 3);
        t.without_durable();
        assert_eq!((t.durable(), t.unsynced), (0, 3));
    }

    #[test]
    fn clip_leaves_out_what_lies_beyond_and_counts_it() {
        let mut t = trace(&[(9216, 512), (0, 512), (0, 0), (8192, 1024), (4096, 512)]);
        t.fit(TraceFit::Clip, 8192, 512).unwrap();
        assert_eq!(places(&t), [(0, 512), (0, 0), (4096, 512)]);
        assert_eq!((&*t.times, t.refitted), (&[0, 7, 21][..], 2));
        assert!(trace(&[(9216, 512)]).fit(TraceFit::Clip, 512, 512).is_err());
        // Once syncs alone were left, and replayed as the trace.
        assert!(trace(&[(0, 0), (9216, 512), (0, 0)]).fit(TraceFit::Clip, 512, 512).is_err());
    }

    /// Latencies of the whole trace once stood beside the replay of a part of it.
    #[test]
    fn latencies_are_those_of_what_is_replayed() {
        let all = [900, 10, NO_LATENCY, 800, 30];
        let mut t = trace(&[(9216, 512), (0, 512), (0, 0), (8192, 1024), (4096, 512)]);
        (t.latency, t.latencies) = (RecordedLatency::of(&all), all.to_vec());
        let told = |t: &ReplayOps| t.latency.as_ref().map(|it| (it.operations, it.max_ns));
        assert_eq!(told(&t), Some((4, 900)));
        let mut whole = t.clone();
        whole.recorded(5);
        assert_eq!((told(&whole), whole.latencies.len()), (Some((4, 900)), 0));
        let mut first = t.clone();
        first.recorded(2);
        assert_eq!(told(&first), Some((2, 900)));
        t.fit(TraceFit::Clip, 8192, 512).unwrap();
        assert_eq!((told(&t), &*t.latencies), (Some((2, 30)), &[10, NO_LATENCY, 30][..]));
        t.recorded(1);
        assert_eq!(told(&t), Some((1, 10)));
        let mut none = trace(&[(0, 0), (0, 512)]);
        (none.latency, none.latencies) = (None, vec![NO_LATENCY; 2]);
        none.recorded(1);
        assert_eq!(told(&none), None);
    }

    const FITS: [TraceFit; 5] =
        [TraceFit::Refuse, TraceFit::Wrap, TraceFit::Scale, TraceFit::Clip, TraceFit::Compact];

    /// Offset and size; a size of 0 is a sync, which has no place.
    fn places_and_sizes() -> impl Strategy<Value = Vec<(u64, u32)>> {
        let offset = prop_oneof![0u64..1 << 20, 0u64..1 << 62];
        let size = prop_oneof![Just(0u32), 1u32..1 << 14, any::<u32>()];
        let op = (offset, size).prop_map(|(at, size)| (if size == 0 { 0 } else { at }, size));
        prop::collection::vec(op, 1..40)
    }

    proptest! {
        /// Whatever the trace, target and block: what fits lies within the target, whole and in
        /// whole blocks, in its order; what does not is refused.
        #[test]
        fn what_was_made_to_fit_lies_within_the_target(
            ops in places_and_sizes(),
            size in prop_oneof![0u64..1 << 13, 0u64..1 << 21, any::<u64>()],
            align in prop::sample::select(vec![0u64, 1, 512, 520, 4096]),
        ) {
            let mut rounded = trace(&ops);
            prop_assume!(rounded.round_out(align).is_ok());
            let fits = rounded.end() <= size;
            for fit in FITS {
                let mut t = rounded.clone();
                if t.fit(fit, size, align).is_err() {
                    prop_assert!(!fits, "{:?}", fit);
                    continue;
                }
                prop_assert!(fits || fit != TraceFit::Refuse);
                prop_assert!(t.end() <= size && t.times.len() == t.ops.len(), "{:?}", fit);
                let whole = |n: u64| n.is_multiple_of(align.max(1));
                let aligned = t.ops.iter().all(|op| whole(op.offset) && whole(op.size.into()));
                prop_assert!(aligned, "{:?}", fit);
                let mut all = rounded.ops.iter();
                let alike = |op: &TraceOp, of: &TraceOp| (op.kind, op.size) == (of.kind, of.size);
                prop_assert!(t.ops.iter().all(|op| all.any(|of| alike(op, of))), "{:?}", fit);
                let whole = t.ops.len() == rounded.ops.len();
                prop_assert!(whole || fit == TraceFit::Clip, "{:?}", fit);
            }
        }
    }

    #[test]
    fn compact_keeps_neighbours_and_reuse() {
        let mut t = trace(&[
            (1 << 40, 1024),
            (8192, 512),
            ((1 << 40) + 512, 1024),
            (8192, 512),
            (8704, 512),
        ]);
        t.fit(TraceFit::Compact, 2560, 512).unwrap();
        assert_eq!(places(&t), [(1024, 1024), (0, 512), (1536, 1024), (0, 512), (512, 512)]);
        assert!(trace(&OPS).fit(TraceFit::Compact, 1536, 512).is_err());
    }

    #[test]
    fn sizes_and_offsets_are_rounded_out_and_the_bytes_counted() {
        let mut t = trace(&[(100, 100), (0, 0), (500, 600), (4096, 512)]);
        t.round_out(512).unwrap();
        assert_eq!(places(&t), [(0, 512), (0, 0), (0, 1536), (4096, 512)]);
        assert_eq!(t.rounded, 412 + 936);
        assert!(trace(&[(u64::MAX - 9, 3)]).round_out(512).is_err());
    }

    #[test]
    fn a_speed_leaves_no_rest_behind() {
        for (speed, divided) in
            [(0.5, (2, 1)), (1.0, (1, 1)), (2.0, (1, 2)), (3.0, (1, 3)), (1.5, (2, 3))]
        {
            let mut t = trace(&[(0, 512); 1000]);
            t.at_speed(speed);
            let exact = |i: i64| i * 7 * divided.0 / divided.1;
            assert!(t.times.iter().zip(0..).all(|(time, i)| *time == exact(i)), "{speed}");
        }
    }
}
