//! Values over time from the reporting intervals of the measure phase, thinned so that the slowest I/O, the highest
//! 99 % and the least rate stay; finer values from grids of all I/Os.

use taillight_rundir::intervals::IntervalRow;
use taillight_stats::TimeGrid;
use taillight_stats::grid::{CELLS, edge_of};

use super::data::{OpPoint, OpTrack, WorkloadPoint, WorkloadTrack};

/// Most points of one line.
const POINTS: usize = 1_800;

/// One track per workload and operation; `name` gives its legend text. Rows come sorted by workload,
/// operation and time.
pub fn tracks(
    rows: &[IntervalRow],
    start_ns: i64,
    name: impl Fn(&IntervalRow) -> String,
) -> Vec<OpTrack> {
    rows.chunk_by(|a, b| (a.workload, a.op) == (b.workload, b.op))
        .filter_map(|rows| {
            let first = rows.first()?;
            let points = measured(rows).map(|r| OpPoint::new(middle_s(r, start_ns), r.clone()));
            let points = thin(points.collect());
            Some(OpTrack { op: first.op, name: name(first), points, fine: Vec::new() })
        })
        .collect()
}

/// One track per workload: what the rows of all its operations repeat, once.
pub fn workload_tracks(
    rows: &[IntervalRow],
    start_ns: i64,
    name: impl Fn(u16) -> String,
) -> Vec<WorkloadTrack> {
    rows.chunk_by(|a, b| a.workload == b.workload)
        .filter_map(|rows| {
            let mut points: Vec<WorkloadPoint> = measured(rows)
                .map(|row| WorkloadPoint {
                    at_s: middle_s(row, start_ns),
                    depth_mean: row.depth_mean,
                    backlog: row.backlog,
                })
                .collect();
            points.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
            points.dedup_by_key(|p| p.at_s);
            Some(WorkloadTrack {
                name: name(rows.first()?.workload),
                points: chosen(points, |part| {
                    [
                        highest(part, |p| Some(p.depth_mean)),
                        highest(part, |p| Some(-p.depth_mean)),
                        highest(part, |p| p.backlog.map(|n| n as f64)),
                    ]
                }),
            })
        })
        .collect()
}

/// Points from which intervals are as fine as a line needs.
const FINE: usize = 200;

/// Steps of time with what a grid knows of each, from the start of measuring to `end_ns` or the last completion,
/// `last_ns`, whichever is later; empty where they are no more than the `intervals`, or those are 200 or more.
/// `response` is the grid of response times.
pub fn fine(
    service: &TimeGrid,
    response: Option<&TimeGrid>,
    intervals: usize,
    (end_ns, last_ns): (i64, i64),
) -> Vec<OpPoint> {
    let window = service.window();
    // I/Os in a step that ends before them would be a rate that never was.
    let span = end_ns.max(last_ns).saturating_sub(window.start_ns).max(0) as u64;
    let whole = (span / window.column_ns.max(1)) as usize;
    // A last step that is not half as long is a part of the one before it.
    let rest = span % window.column_ns.max(1);
    let steps = (whole + usize::from(rest * 2 >= window.column_ns)).min(window.columns);
    if steps <= intervals || intervals >= FINE {
        return Vec::new();
    }
    let [p50, p99, p999, max] = columns(service, steps, [0.5, 0.99, 0.999, 1.0]);
    let response = response.map(|grid| columns(grid, steps, [0.99]));
    let counts = count_by_column(service, steps);
    let step = |nth: usize| {
        let length_ns = match nth + 1 == steps {
            true => span.saturating_sub(window.column_ns * nth as u64).max(1),
            false => window.column_ns,
        };
        let at_ns = window.column_ns * nth as u64 + length_ns / 2;
        let row = IntervalRow {
            length_ns,
            ops: counts[nth],
            p50_ns: p50[nth],
            p99_ns: p99[nth],
            p999_ns: p999[nth],
            max_ns: max[nth],
            response_p99_ns: response.as_ref().and_then(|[p99]| p99[nth]),
            ..IntervalRow::default()
        };
        OpPoint::new(at_ns as f64 / 1e9, row)
    };
    (0..steps).map(step).collect()
}

/// I/Os of each step; those of later columns in the last one.
fn count_by_column(grid: &TimeGrid, steps: usize) -> Vec<u64> {
    let mut counts = vec![0; steps];
    for cell in 0..CELLS {
        for (column, n) in grid.row(cell).iter().enumerate() {
            counts[column.min(steps - 1)] += u64::from(*n);
        }
    }
    counts
}

/// Nearest ranks of each step at these shares, as the middle of a cell.
fn columns<const N: usize>(
    grid: &TimeGrid,
    steps: usize,
    shares: [f64; N],
) -> [Vec<Option<u64>>; N] {
    let counts = count_by_column(grid, steps);
    let mut found = shares.map(|_| vec![None; steps]);
    let mut below = vec![0u64; steps];
    for cell in 0..CELLS {
        let row = grid.row(cell);
        if row.is_empty() {
            continue;
        }
        let middle = ((edge_of(cell) + edge_of(cell + 1)) / 2.0).round() as u64;
        for (column, n) in row.iter().enumerate().filter(|(_, n)| **n > 0) {
            let column = column.min(steps - 1);
            below[column] += u64::from(*n);
            for (values, share) in found.iter_mut().zip(shares) {
                let rank = (counts[column] as f64 * share - 1e-6).ceil() as u64;
                if values[column].is_none() && below[column] >= rank {
                    values[column] = Some(middle);
                }
            }
        }
    }
    found
}

/// The rows of the measure phase: draining is a moment, not an interval.
fn measured(rows: &[IntervalRow]) -> impl Iterator<Item = &IntervalRow> {
    rows.iter().filter(|r| r.phase == "measure" && r.length_ns > 0)
}

/// The middle of an interval, seconds since the start.
fn middle_s(row: &IntervalRow, start_ns: i64) -> f64 {
    row.start_ns.saturating_sub(start_ns) as f64 / 1e9 + row.length_ns as f64 / 2e9
}

/// Keeps the intervals with the slowest I/O, with the highest 99 %, and with the least throughput, so
/// that no stall disappears.
fn thin(points: Vec<OpPoint>) -> Vec<OpPoint> {
    chosen(points, |part| {
        [
            highest(part, |p| p.max_ns().map(|ns| ns as f64)),
            highest(part, |p| p.p99_ns().map(|ns| ns as f64)),
            highest(part, |p| Some(-p.iops())),
        ]
    })
}

/// Where there are more points than a line can show, those that `pick` chooses of each part.
fn chosen<T: Clone>(points: Vec<T>, pick: impl Fn(&[T]) -> [Option<usize>; 3]) -> Vec<T> {
    if points.len() <= POINTS {
        return points;
    }
    let length = points.len().div_ceil(POINTS / 3);
    let mut kept = Vec::with_capacity(POINTS);
    for part in points.chunks(length) {
        let mut places: Vec<usize> = pick(part).into_iter().flatten().collect();
        places.sort_unstable();
        places.dedup();
        kept.extend(places.into_iter().map(|i| part[i].clone()));
    }
    kept
}

/// Where a value is highest; none where no point has it.
fn highest<T>(part: &[T], value: impl Fn(&T) -> Option<f64>) -> Option<usize> {
    let known = part.iter().enumerate();
    let known = known.filter_map(|(i, p)| Some((i, value(p)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::super::data::with_rates;
    use super::*;

    fn row(second: i64, ops: u64) -> IntervalRow {
        IntervalRow {
            start_ns: second * 1_000_000_000,
            length_ns: 1_000_000_000,
            phase: "measure".to_owned(),
            ops,
            ..IntervalRow::default()
        }
    }

    #[test]
    fn thinning_keeps_the_worst() {
        let points: Vec<OpPoint> = (0..20_000)
            .map(|i| {
                let max_ns = Some(if i == 12_345 { 900 } else { 30 });
                let ops = if i == 777 { 300 } else { 1_000 };
                let row = IntervalRow { p99_ns: Some(20), max_ns, ..row(i, ops) };
                OpPoint::new(i as f64, row)
            })
            .collect();
        let kept = thin(points);
        assert!(kept.len() <= POINTS);
        assert!(kept.iter().any(|p| p.max_ns() == Some(900)));
        assert!(kept.iter().any(|p| p.iops() == 300.0));
        assert!(kept.windows(2).all(|w| w[0].at_s < w[1].at_s));
    }

    #[test]
    fn steps_of_a_grid_have_what_their_ios_took() {
        let window = taillight_stats::TimeWindow::new(1_000, 1_000 + 2_560_000);
        let mut grid = TimeGrid::new(window);
        // 400 I/Os a step of 10 us, 1 us each, one of them 90 us in step 7, one after the end.
        for i in 0..256 * 400i64 {
            grid.push(1_000 + i * 25, if i == 7 * 400 { 90_000 } else { 1_000 });
        }
        grid.push(9_000_000, 5_000_000);
        let points = fine(&grid, None, 10, (1_000 + 2_560_000, 0));
        assert_eq!(points.len(), 256);
        let near = |found: Option<u64>, wanted: f64| {
            found.is_some_and(|ns| (ns as f64 / wanted - 1.0).abs() < 0.01)
        };
        assert!(near(points[7].max_ns(), 90_000.0) && near(points[8].max_ns(), 1_000.0));
        assert!(near(points[7].p50_ns(), 1_000.0) && near(points[7].p99_ns(), 1_000.0));
        assert!(near(points[255].max_ns(), 5_000_000.0), "what came late is in the last step");
        let rates = [3, 255].map(|nth: usize| points[nth].iops().round());
        assert_eq!(rates, [4e7, 4.01e7]);
        let enough = fine(&grid, None, 200, (1_000 + 2_560_000, 0));
        assert!(enough.is_empty(), "intervals are fine enough");
    }

    /// One I/O each 1,000 ns for 2.56 ms, of which 1.9 ms were planned.
    #[test]
    fn overtime_makes_no_rate_that_never_was() {
        let window = taillight_stats::TimeWindow::new(0, 2_560_000);
        let mut grid = TimeGrid::new(window);
        (0..2_560).for_each(|i| grid.push(i * 1_000, 500));
        let points = fine(&grid, None, 10, (1_900_000, 2_559_000));
        let rates = points.iter().map(|p| p.iops());
        assert!(rates.clone().all(|rate| (0.9e6..1.2e6).contains(&rate)), "{rates:?}");
    }

    #[test]
    fn what_the_operations_of_a_workload_repeat_is_one_line() {
        use taillight_core::OpKind::{Read, Write};
        let of = |workload, op, second, depth_mean| IntervalRow {
            workload,
            op,
            depth_mean,
            backlog: (workload == 1).then_some(7),
            ..row(second, 10)
        };
        let rows = [
            of(0, Read, 0, 3.0),
            of(0, Read, 1, 4.0),
            of(0, Write, 0, 3.0),
            of(0, Write, 1, 4.0),
            of(1, Read, 0, 1.0),
        ];
        let tracks = workload_tracks(&rows, 0, |w| format!("w{w}"));
        let depths = |i: usize| -> Vec<f64> {
            let points = tracks[i].points.iter();
            points.map(|p| p.depth_mean).collect()
        };
        assert_eq!(tracks.len(), 2);
        assert_eq!((depths(0), depths(1)), (vec![3.0, 4.0], vec![1.0]));
        assert_eq!(tracks[1].points[0].backlog, Some(7));
    }

    /// Three I/Os in the last 0.2 ms of a run once drew a rate half as high again.
    #[test]
    fn a_last_interval_of_a_moment_has_no_rate() {
        let last = |length_ns| IntervalRow { length_ns, ..row(2, 3) };
        let rates = |rows: &[IntervalRow]| {
            let tracks = tracks(rows, 0, |_| String::new());
            with_rates(&tracks[0].points).len()
        };
        assert_eq!(rates(&[row(0, 10), row(1, 10), last(200_000)]), 2);
        assert_eq!(rates(&[row(0, 10), row(1, 10), last(600_000_000)]), 3);
        assert_eq!(rates(&[last(200_000)]), 1, "all that there is");
    }

    #[test]
    fn an_interval_with_few_ios_shows_no_tail() {
        let row = IntervalRow {
            p50_ns: Some(1),
            p99_ns: Some(2),
            p999_ns: Some(3),
            max_ns: Some(3),
            ..row(0, 100)
        };
        let it = OpPoint::new(0.0, row);
        let percentiles = (it.p50_ns(), it.p99_ns(), it.p999_ns());
        assert_eq!(percentiles, (Some(1), None, None));
    }
}
