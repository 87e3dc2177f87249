//! Intervals of a run of several ranks: the nth of each rank as one, as all ranks begin together. Counts and depths
//! are added, means weighted; percentiles come from the ranks' histograms put together, and are left out where a
//! rank's histograms are missing. A row that one rank alone has is that rank's.

use std::collections::{BTreeMap, BTreeSet};

use taillight_core::{LatencyKind, OpKind, Result};
use taillight_rundir::histlog::each_histogram;
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::{RunDir, names};
use taillight_stats::Dist;

use super::analysis::ReadProblem;
use super::histograms::workload_index;
use super::ranks::RankAnalysis;
use super::read::or_trouble;

/// Phase, workload, operation, number of the interval.
type Key = (String, u16, OpKind, i64);
type Values = BTreeMap<u64, u64>;

/// The rows of all ranks as those of one run, by workload, operation and time. A damaged histogram log is a trouble,
/// and then no row of several ranks has percentiles; where a rank has no log, rows of several ranks that count I/Os
/// of it have none. Errors: as reading the ranks' histograms, damage apart.
pub fn merged(
    dir: &RunDir,
    ranks: &[RankAnalysis],
    troubles: &mut Vec<ReadProblem>,
) -> Result<Vec<IntervalRow>> {
    let mut whole = true;
    let length =
        ranks.iter().flat_map(|r| &r.intervals).map(|r| r.length_ns).max().unwrap_or(1).max(1);
    let mut rows: BTreeMap<Key, IntervalRow> = BTreeMap::new();
    let mut values: BTreeMap<Key, [Values; 2]> = BTreeMap::new();
    let mut lacking: BTreeSet<Key> = BTreeSet::new();
    for rank in ranks {
        // Each rank's own first interval: all ranks began at one stamp, as well as their clocks allow.
        let Some(first) = rank.intervals.iter().map(|r| r.start_ns).min() else { continue };
        let number = |start: i64| {
            let since = start.saturating_sub(first).saturating_add((length / 2) as i64);
            since.div_euclid(length as i64)
        };
        let key =
            |row: &IntervalRow| (row.phase.clone(), row.workload, row.op, number(row.start_ns));
        for row in &rank.intervals {
            match rows.get_mut(&key(row)) {
                Some(sum) => add(sum, row),
                None => drop(rows.insert(key(row), row.clone())),
            }
        }
        let read = histograms(dir, rank, &number, &mut values).map(Some);
        match or_trouble(read, "histograms_unreadable", troubles)? {
            Some(true) => {}
            Some(false) => {
                lacking.extend(rank.intervals.iter().filter(|row| row.ops > 0).map(key));
            }
            None => whole = false,
        }
    }
    let several = ranks.len() > 1 && whole;
    let rows = rows.into_iter().map(|(key, mut row)| {
        let known = several && !lacking.contains(&key);
        if let Some([service, response]) = values.get(&key).filter(|_| known) {
            percentiles(&mut row, service, response);
        }
        row
    });
    let mut rows: Vec<IntervalRow> = rows.collect();
    rows.sort_by_key(|r| (r.workload, r.op, r.start_ns));
    Ok(rows)
}

/// Adds a rank's histograms of service and response time to `values`; whether there is a log.
fn histograms(
    dir: &RunDir,
    rank: &RankAnalysis,
    number: &dyn Fn(i64) -> i64,
    values: &mut BTreeMap<Key, [Values; 2]>,
) -> Result<bool> {
    let path = rank.entry.path(dir.path()).join(names::HISTOGRAMS);
    if !path.is_file() {
        return Ok(false);
    }
    each_histogram(&path, &rank.manifest.clock, &mut |entry| {
        let which = match entry.tag.kind {
            LatencyKind::Service => 0,
            LatencyKind::Response => 1,
            _ => return Ok(()),
        };
        let workload = workload_index(&rank.manifest, &entry.tag.workload)?;
        let key = (entry.tag.phase, workload, entry.tag.op, number(entry.start_ns));
        let sum = &mut values.entry(key).or_default()[which];
        for step in entry.histogram.iter_recorded() {
            *sum.entry(step.value_iterated_to()).or_default() += step.count_since_last_iteration();
        }
        Ok(())
    })?;
    Ok(true)
}

fn add(sum: &mut IntervalRow, row: &IntervalRow) {
    let good = |r: &IntervalRow| r.ops.saturating_sub(r.errors) as f64;
    let (a, b) = (good(sum), good(row));
    sum.mean_ns = match (sum.mean_ns, row.mean_ns) {
        (Some(x), Some(y)) if a + b > 0.0 => Some((x * a + y * b) / (a + b)),
        (x, y) => x.or(y),
    };
    sum.start_ns = sum.start_ns.min(row.start_ns);
    sum.length_ns = sum.length_ns.max(row.length_ns);
    sum.ops += row.ops;
    sum.bytes += row.bytes;
    sum.errors += row.errors;
    sum.min_ns = [sum.min_ns, row.min_ns].into_iter().flatten().min();
    sum.max_ns = sum.max_ns.max(row.max_ns);
    sum.backlog = plus(sum.backlog, row.backlog);
    sum.depth_mean += row.depth_mean;
    sum.records = plus(sum.records, row.records);
    sum.response_sum_ns = plus(sum.response_sum_ns, row.response_sum_ns);
    sum.end_to_end_sum_ns = plus(sum.end_to_end_sum_ns, row.end_to_end_sum_ns);
    // Never averaged: they come from histograms, or there are none.
    for p in percentile_fields(sum) {
        *p.1 = None;
    }
    (sum.response_p99_ns, sum.slc1, sum.slc2) = (None, None, None);
}

fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

/// The percentile columns, by hundredths of a per cent.
fn percentile_fields(row: &mut IntervalRow) -> [(u64, &mut Option<u64>); 9] {
    [
        (1_000, &mut row.p10_ns),
        (2_500, &mut row.p25_ns),
        (5_000, &mut row.p50_ns),
        (7_500, &mut row.p75_ns),
        (9_000, &mut row.p90_ns),
        (9_500, &mut row.p95_ns),
        (9_900, &mut row.p99_ns),
        (9_990, &mut row.p999_ns),
        (9_999, &mut row.p9999_ns),
    ]
}

fn percentiles(row: &mut IntervalRow, service: &Values, response: &Values) {
    let dist = |values: &Values| Dist::from_sorted_pairs(values.iter().map(|(v, n)| (*v, *n))).ok();
    let at = |dist: &Dist, hundredths: u64| {
        let rank = u128::from(dist.count()) * u128::from(hundredths);
        dist.value_at_rank(u64::try_from(rank.div_ceil(10_000)).unwrap_or(u64::MAX).max(1))
    };
    let (least, largest) = (row.min_ns, row.max_ns);
    let within = |value: u64| value.clamp(least.unwrap_or(0), largest.unwrap_or(u64::MAX));
    if let Some(dist) = dist(service).filter(|d| !d.is_empty()) {
        for (hundredths, field) in percentile_fields(row) {
            *field = at(&dist, hundredths).map(within);
        }
    }
    if let Some(dist) = dist(response).filter(|d| !d.is_empty()) {
        row.response_p99_ns = at(&dist, 9_900);
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use taillight_rundir::RunStatus;
    use taillight_rundir::fixture;
    use taillight_rundir::histlog::{HistEntry, HistTag, write_histograms};
    use taillight_rundir::scale::RankEntry;

    use super::*;
    use crate::analyse::latency::Origin;

    const SECOND: i64 = 1_000_000_000;

    /// A rank of two seconds and one of one, whose log is here or not.
    fn rows(with_log: bool) -> Vec<IntervalRow> {
        let tmp = tempfile::tempdir().unwrap();
        let manifest = fixture::manifest("all");
        let dir = RunDir::create(&tmp.path().join("run"), &manifest).unwrap();
        let rank = |number: u32, seconds: i64| {
            let directory = format!("rank-{number:04}");
            let own = RunDir::create(&dir.path().join(&directory), &manifest).unwrap();
            let tag = HistTag {
                phase: "measure".to_owned(),
                workload: "w0".to_owned(),
                op: OpKind::Read,
                kind: LatencyKind::Service,
            };
            let starts = (1..=seconds).map(|n| n * SECOND);
            let entry = |start_ns: i64| {
                let mut histogram = Histogram::<u64>::new(3).unwrap();
                histogram.record(1_000 * u64::from(number + 1)).unwrap();
                HistEntry { start_ns, length_ns: SECOND as u64, tag: tag.clone(), histogram }
            };
            if number == 0 || with_log {
                write_histograms(&own, &manifest.clock, starts.clone().map(entry)).unwrap();
            }
            let row = |start_ns: i64| IntervalRow {
                start_ns,
                length_ns: SECOND as u64,
                phase: "measure".to_owned(),
                op: OpKind::Read,
                ops: 1,
                p99_ns: Some(1),
                ..IntervalRow::default()
            };
            RankAnalysis {
                entry: RankEntry { rank: number, directory, ..RankEntry::default() },
                manifest: manifest.clone(),
                status: RunStatus::Complete,
                groups: Vec::new(),
                intervals: starts.map(row).collect(),
                origin: Origin::CAPTURE,
                layers: Vec::new(),
            }
        };
        let ranks = [rank(0, 2), rank(1, 1)];
        merged(&dir, &ranks, &mut Vec::new()).unwrap()
    }

    #[test]
    fn a_row_has_percentiles_of_all_that_are_in_it_or_none() {
        let all = rows(true);
        assert_eq!(all.iter().map(|row| row.ops).collect::<Vec<_>>(), [2, 1]);
        assert!(all[0].p99_ns.is_some_and(|ns| ns.abs_diff(2_000) < 5), "{:?}", all[0].p99_ns);
        let less = rows(false);
        assert_eq!((less[0].ops, less[0].p99_ns), (2, None), "of one rank alone");
        assert!(less[1].p99_ns.is_some(), "it is in one rank only, whose log is here");
    }
}
