//! Values over time from the reporting intervals, thinned without losing extremes.

use taillight_rundir::intervals::IntervalRow;

use super::data::{OpTrack, TrackPoint};
use crate::analyse::latency::per_s;

/// Most points of one line.
const POINTS: usize = 1_800;
/// I/Os from which 99 % and 99.9 % of an interval are resolved.
const FOR_P99: u64 = 299;
const FOR_P999: u64 = 2_995;
const FOR_P50: u64 = 5;

/// One track per workload and operation; `name` gives its legend text. Rows come sorted.
pub fn tracks(
    rows: &[IntervalRow],
    start_ns: i64,
    name: impl Fn(&IntervalRow) -> String,
) -> Vec<OpTrack> {
    rows.chunk_by(|a, b| (a.workload, a.op) == (b.workload, b.op))
        .filter_map(|rows| {
            let first = rows.first()?;
            // Draining is a moment, not an interval.
            let measured = rows
                .iter()
                .filter(|r| r.phase == "measure" && r.length_ns > 0);
            Some(OpTrack {
                op: first.op,
                name: name(first),
                points: thin(measured.map(|r| point(r, start_ns)).collect()),
            })
        })
        .collect()
}

fn point(row: &IntervalRow, start_ns: i64) -> TrackPoint {
    let seconds = row.length_ns as f64 / 1e9;
    let good = row.ops.saturating_sub(row.errors);
    let when = |needed: u64, value: Option<u64>| value.filter(|_| good >= needed);
    TrackPoint {
        at_s: (row.start_ns.saturating_sub(start_ns)) as f64 / 1e9 + seconds / 2.0,
        iops: per_s(good as f64, seconds),
        bytes_per_s: per_s(row.bytes as f64, seconds),
        p50_ns: when(FOR_P50, row.p50_ns),
        p99_ns: when(FOR_P99, row.p99_ns),
        p999_ns: when(FOR_P999, row.p999_ns),
        response_p99_ns: when(FOR_P99, row.response_p99_ns),
        max_ns: row.max_ns,
    }
}

/// Of each stretch keeps the interval with the slowest I/O, with the highest 99 %, and with the
/// least throughput, so that no stall disappears.
fn thin(points: Vec<TrackPoint>) -> Vec<TrackPoint> {
    if points.len() <= POINTS {
        return points;
    }
    let stretch = points.len().div_ceil(POINTS / 3);
    let mut kept = Vec::with_capacity(POINTS);
    for part in points.chunks(stretch) {
        let slowest = part.iter().enumerate().max_by_key(|(_, p)| p.max_ns);
        let tail = part.iter().enumerate().max_by_key(|(_, p)| p.p99_ns);
        let least = part
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.iops.total_cmp(&b.1.iops));
        let mut chosen: Vec<usize> = [slowest, tail, least]
            .into_iter()
            .flatten()
            .map(|(i, _)| i)
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|i| part[i]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_worst() {
        let points: Vec<TrackPoint> = (0..20_000)
            .map(|i| TrackPoint {
                at_s: i as f64,
                iops: if i == 7_777 { 1.0 } else { 1_000.0 },
                bytes_per_s: 0.0,
                p50_ns: Some(10),
                p99_ns: Some(20),
                p999_ns: None,
                response_p99_ns: None,
                max_ns: Some(if i == 12_345 { 900 } else { 30 }),
            })
            .collect();
        let kept = thin(points);
        assert!(kept.len() <= POINTS);
        assert!(kept.iter().any(|p| p.max_ns == Some(900)));
        assert!(kept.iter().any(|p| p.iops == 1.0));
        assert!(kept.windows(2).all(|w| w[0].at_s < w[1].at_s));
    }

    #[test]
    fn an_interval_with_few_ios_shows_no_tail() {
        let row = IntervalRow {
            phase: "measure".to_owned(),
            length_ns: 1_000_000_000,
            ops: 100,
            p50_ns: Some(1),
            p99_ns: Some(2),
            p999_ns: Some(3),
            max_ns: Some(3),
            ..IntervalRow::default()
        };
        let it = point(&row, 0);
        assert_eq!((it.p50_ns, it.p99_ns, it.p999_ns), (Some(1), None, None));
    }
}
