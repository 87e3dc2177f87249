//! Groups of I/Os for runs whose capture is absent or incomplete: distributions from `histograms.hlog`, counts from
//! the intervals.

use std::collections::BTreeMap;

use taillight_core::{Error, LatencyKind, OpKind, Result};
use taillight_rundir::histlog::{each_histogram, list_histograms};
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::{Manifest, RunDir, names};
use taillight_stats::Dist;
use taillight_stats::grid::{COLUMNS, TimeGrid, TimeWindow};

use super::capture::counts;
use super::dists::{LatencyDists, LatencySample};
use super::group::{IoGroup, IoTally};
use super::slowest::SlowestIos;

/// The status written for failures of which only the number is known.
pub const STATUS_UNKNOWN: i32 = i32::MIN;

type Values = BTreeMap<u64, u64>;

/// All histograms of one workload and operation, by kind.
type HistogramSums = BTreeMap<LatencyKind, (Values, TimeGrid)>;

/// Groups from the histogram log, where there is one, and from interval counts of the measure and drain phases;
/// `manifest` is that of `dir`, on the clock that is wanted. Errors: `Corrupt` for a damaged log.
pub fn read(
    dir: &RunDir,
    manifest: &Manifest,
    start_ns: i64,
    rows: &[IntervalRow],
) -> Result<Vec<IoGroup>> {
    let mut sums: BTreeMap<(u16, OpKind), HistogramSums> = BTreeMap::new();
    if let Some(path) = dir.existing(names::HISTOGRAMS) {
        let listed = list_histograms(&path, &manifest.clock)?;
        let counted = listed.iter().filter(|e| counts(&e.tag.phase));
        let window = window(start_ns, counted.map(|e| (e.start_ns, e.length_ns)));
        each_histogram(&path, &manifest.clock, &mut |entry| {
            if !counts(&entry.tag.phase) {
                return Ok(());
            }
            let workload = workload_index(manifest, &entry.tag.workload)?;
            let sum = sums.entry((workload, entry.tag.op)).or_default();
            let middle = entry.start_ns.saturating_add((entry.length_ns / 2) as i64);
            let (values, grid) =
                sum.entry(entry.tag.kind).or_insert_with(|| (Values::new(), TimeGrid::new(window)));
            for step in entry.histogram.iter_recorded() {
                let (ns, count) = (step.value_iterated_to(), step.count_since_last_iteration());
                *values.entry(ns).or_default() += count;
                grid.add(middle, ns, count);
            }
            Ok(())
        })?;
    }
    let measured: Vec<IntervalRow> =
        rows.iter().filter(|r| !is_load(manifest, r.workload)).cloned().collect();
    let tallies = tallies(&measured);
    for key in tallies.keys() {
        sums.entry(*key).or_default();
    }
    sums.into_iter().map(|(key, sum)| group(key, sum, &tallies)).collect()
}

fn group(
    (workload, op): (u16, OpKind),
    sum: HistogramSums,
    tallies: &BTreeMap<(u16, OpKind), IoTally>,
) -> Result<IoGroup> {
    let mut latencies = LatencyDists::default();
    for (kind, (values, grid)) in sum {
        latencies.insert(kind, LatencySample::new(dist(values)?, grid));
    }
    let mut tally = tallies.get(&(workload, op)).cloned().unwrap_or_default();
    if tally.count == 0 {
        tally.count = latencies.service.count();
    }
    Ok(IoGroup {
        workload,
        op,
        tally,
        latencies,
        outliers: Vec::new(),
        slowest: SlowestIos::default(),
    })
}

fn dist(values: Values) -> Result<Dist> {
    Dist::from_sorted_pairs(values)
        .map_err(|e| Error::corrupt("the histograms hold more I/Os than can be counted").source(e))
}

/// One column per interval, as long as they fit.
fn window(start_ns: i64, spans: impl Iterator<Item = (i64, u64)>) -> TimeWindow {
    let (mut end, mut lengths) = (start_ns, Vec::new());
    for (start, length) in spans {
        end = end.max(start.saturating_add(length as i64));
        lengths.push(length);
    }
    // The usual one: the last interval is shorter, or longer where a schedule was late.
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2).copied().unwrap_or(1).max(1);
    let even = TimeWindow::new(start_ns, end);
    let columns = ((end - start_ns).max(1) as u64).div_ceil(usual) as usize;
    if columns >= COLUMNS {
        return even;
    }
    TimeWindow { start_ns, column_ns: usual, columns: columns.max(1) }
}

/// Index of the workload that a tag of the log names, where some characters of names are replaced.
pub(super) fn workload_index(manifest: &Manifest, name: &str) -> Result<u16> {
    manifest.plan.tagged(name).ok_or_else(|| {
        Error::corrupt("the histogram log names a workload that the plan does not have")
            .with("workload", name)
    })
}

/// Whether a workload only makes load and is not measured.
pub fn is_load(manifest: &Manifest, workload: u16) -> bool {
    let plan = manifest.plan.workloads.get(usize::from(workload));
    plan.is_some_and(|w| !w.measured)
}

/// Counts per group from the intervals of the measure and drain phases.
pub fn tallies(rows: &[IntervalRow]) -> BTreeMap<(u16, OpKind), IoTally> {
    let mut all: BTreeMap<(u16, OpKind), IoTally> = BTreeMap::new();
    for row in rows.iter().filter(|r| counts(&r.phase)) {
        let tally = all.entry((row.workload, row.op)).or_default();
        tally.count += row.ops;
        tally.bytes += row.bytes;
        let good = row.ops.saturating_sub(row.errors);
        tally.records += row.records.unwrap_or(good);
        if row.errors > 0 {
            tally.errors.entry(STATUS_UNKNOWN).or_insert((0, None)).0 += row.errors;
        }
        let busy = row.mean_ns.unwrap_or(0.0) * row.ops.saturating_sub(row.errors) as f64;
        tally.busy_ns += busy as u128;
        tally.last_ns = tally.last_ns.max(row.start_ns.saturating_add(row.length_ns as i64));
    }
    all
}
