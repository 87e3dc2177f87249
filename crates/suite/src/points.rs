//! `points.parquet` and `points.csv` of a series: one row per run, workload and operation, every figure as
//! the run's summary has it. Called by the runner at the end of a series whose points differ in fields, and
//! by `taillight export`. `taillight_rundir::points` has the fixed columns and writes the files.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{OpKind, Result};
use taillight_rundir::points::{self, FIXED, PERCENTILES, PointColumn, PointValues, write_points};
use taillight_rundir::series::{Axis, PointRole, PointStatus, SeriesFile, SeriesPoint};
use taillight_rundir::summary::Totals;
use taillight_rundir::{JsonFile, Quantile, RunDir, Summary};

use crate::axis;
use crate::exit::from_code;
use crate::figures::{self, quantile};
use crate::method::{Point, PointResult};

/// One run of a point: itself, or one of the series that it is.
struct PointRun<'a> {
    point: &'a PointResult,
    /// From the directory of the series.
    run: String,
    round: u32,
    role: PointRole,
    status: PointStatus,
    summary: Summary,
}

/// One row.
struct TableRow<'a> {
    of: &'a PointRun<'a>,
    workload: &'a str,
    op: OpKind,
    totals: &'a Totals,
}

/// What of a percentile has a column: the end of its name, and the value.
type QuantileEnd = (&'static str, fn(&Quantile) -> Option<u64>);

const ENDS: [QuantileEnd; 3] =
    [("ns", Quantile::told_ns), ("lo_ns", |q| q.lo_ns), ("hi_ns", |q| q.hi_ns)];

/// Writes both files. Errors: `Corrupt` when a run of a point cannot be read; `Unavailable` when a
/// file cannot be written.
pub fn write(dir: &Path, series: &str, axes: &[Axis], results: &[PointResult]) -> Result<()> {
    let mut runs = Vec::new();
    for result in results {
        runs_of(result, &mut runs)?;
    }
    write_points(dir, &columns(series, axes, &rows(&runs)))
}

/// The table of the series in `dir`, of a run there as of a series of one point, as text. Errors:
/// `Unavailable` or `Corrupt` when the directory cannot be read.
pub fn csv(dir: &Path) -> Result<String> {
    let (series, axes, results) = match SeriesFile::read(dir)? {
        Some(file) => {
            let read = |p: &SeriesPoint| read(p, dir.join(&p.run));
            let measured = file.points.iter().filter(|p| p.exit.is_some());
            let results = measured.map(read).collect::<Result<Vec<_>>>()?;
            (file.job, file.axes, results)
        }
        None => (String::new(), Vec::new(), vec![single(dir)?]),
    };
    let mut runs = Vec::new();
    results.iter().try_for_each(|result| runs_of(result, &mut runs))?;
    Ok(points::csv(&columns(&series, &axes, &rows(&runs))))
}

/// The result of a point as `series.json` and its run directory have it.
fn read(entry: &SeriesPoint, dir: PathBuf) -> Result<PointResult> {
    let plain = Point::new(entry.id.clone(), entry.role, Plan::default(), None);
    let nested = SeriesFile::read(&dir)?.is_some();
    Ok(PointResult {
        point: Point { round: entry.round, coordinates: entry.coordinates.clone(), ..plain },
        exit: entry.exit.and_then(from_code).unwrap_or(Exit::Internal),
        status: entry.status,
        values: entry.values.clone(),
        summary: if nested { None } else { RunDir::open(&dir)?.read::<Summary>()? },
        dir,
    })
}

fn single(dir: &Path) -> Result<PointResult> {
    let run = RunDir::open(dir)?;
    let manifest = run.manifest();
    let summary = run.read::<Summary>()?;
    Ok(PointResult {
        point: Point::new(manifest.run_id.clone(), PointRole::Step, manifest.plan.clone(), None),
        dir: dir.to_owned(),
        exit: Exit::Ok,
        status: manifest.status.into(),
        values: summary.as_ref().map(figures::values).unwrap_or_default(),
        summary,
    })
}

fn runs_of<'a>(result: &'a PointResult, runs: &mut Vec<PointRun<'a>>) -> Result<()> {
    let point = &result.point;
    if let Some(summary) = &result.summary {
        runs.push(PointRun {
            point: result,
            run: point.id.clone(),
            round: point.round,
            role: point.role,
            status: result.status,
            summary: summary.clone(),
        });
        return Ok(());
    }
    let Some(series) = SeriesFile::read(&result.dir)? else {
        return Ok(());
    };
    for (round, inner) in (1..).zip(series.points.iter().filter(|p| p.exit.is_some())) {
        if let Some(summary) = RunDir::open(&result.dir.join(&inner.run))?.read::<Summary>()? {
            runs.push(PointRun {
                point: result,
                run: format!("{}/{}", point.id, inner.run),
                round,
                role: inner.role,
                status: inner.status,
                summary,
            });
        }
    }
    Ok(())
}

fn rows<'a>(runs: &'a [PointRun<'a>]) -> Vec<TableRow<'a>> {
    let mut rows = Vec::new();
    for of in runs {
        for workload in &of.summary.workloads {
            let name = workload.name.as_str();
            let ops = workload.ops.iter();
            rows.extend(ops.map(|(op, totals)| TableRow { of, workload: name, op: *op, totals }));
        }
    }
    rows
}

fn columns(series: &str, axes: &[Axis], rows: &[TableRow<'_>]) -> Vec<PointColumn> {
    let mut columns: Vec<PointColumn> =
        FIXED[..6].iter().map(|c| fixed(series, c.0, rows)).collect();
    for path in paths(axes, rows) {
        coordinates(&path, rows, &mut columns);
    }
    columns.extend(FIXED[6..].iter().map(|c| fixed(series, c.0, rows)));
    for (name, p) in PERCENTILES {
        for (end, of) in ENDS {
            let value = |row: &TableRow<'_>| {
                let latency = row.totals.latencies.main();
                quantile(latency, p.parse().ok()?).and_then(of).and_then(whole)
            };
            let values = PointValues::Whole(rows.iter().map(value).collect());
            columns.push(PointColumn { name: format!("{name}_{end}"), values });
        }
    }
    columns
}

/// Fields that differ, in the order of the axes; then those that only points have.
fn paths(axes: &[Axis], rows: &[TableRow<'_>]) -> Vec<String> {
    let mut paths: Vec<String> = axes.iter().map(|a| a.path.clone()).collect();
    for path in rows.iter().flat_map(|row| row.of.point.point.coordinates.keys()) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

/// The column of a field, and where its values have units, one of numbers.
fn coordinates(path: &str, rows: &[TableRow<'_>], columns: &mut Vec<PointColumn>) {
    let values: Vec<Option<&Value>> =
        rows.iter().map(|row| row.of.point.point.coordinates.get(path)).collect();
    let mut add = |name: String, values| columns.push(PointColumn { name, values });
    let all = |is: fn(&Value) -> bool| values.iter().flatten().all(|v| is(v));
    let each = || values.iter().copied();
    if all(Value::is_i64) {
        let values = each().map(|v| v?.as_i64()).collect();
        return add(path.to_owned(), PointValues::Whole(values));
    }
    if all(Value::is_number) {
        let values = each().map(|v| v?.as_f64()).collect();
        return add(path.to_owned(), PointValues::Real(values));
    }
    if all(Value::is_boolean) {
        let values = each().map(|v| v?.as_bool()).collect();
        return add(path.to_owned(), PointValues::Flag(values));
    }
    add(path.to_owned(), PointValues::Text(each().map(|v| v.map(axis::as_given)).collect()));
    let known = axis::numbers(values.iter().flatten().copied());
    if let Some((unit, numbers)) = known
        && let Some(suffix) = unit.suffix()
    {
        let mut numbers = numbers.into_iter();
        let values = each().map(|v| v.and_then(|_| numbers.next())).collect();
        add(format!("{path}{suffix}"), PointValues::Real(values));
    }
}

/// A fixed column by its name.
fn fixed(series: &str, name: &'static str, rows: &[TableRow<'_>]) -> PointColumn {
    let text = |of: &dyn Fn(&TableRow<'_>) -> Option<String>| {
        PointValues::Text(rows.iter().map(of).collect())
    };
    let count = |of: fn(&TableRow<'_>) -> Option<u64>| {
        PointValues::Whole(rows.iter().map(|row| of(row).and_then(whole)).collect())
    };
    let real =
        |of: fn(&TableRow<'_>) -> Option<f64>| PointValues::Real(rows.iter().map(of).collect());
    let values = match name {
        "series" => text(&|_| Some(series.to_owned())),
        "point" => text(&|row| Some(row.of.point.point.id.clone())),
        "run" => text(&|row| Some(row.of.run.clone())),
        "round" => count(|row| Some(row.of.round.into())),
        "role" => text(&|row| word(&row.of.role)),
        "status" => text(&|row| word(&row.of.status)),
        "workload" => text(&|row| Some(row.workload.to_owned())),
        "op" => text(&|row| Some(row.op.name().to_owned())),
        "ops" => count(|row| Some(row.totals.count)),
        "errors" => count(|row| Some(row.totals.errors)),
        "bytes" => count(|row| Some(row.totals.bytes)),
        "duration_ns" => count(|row| Some(row.totals.duration_ns)),
        "iops" => real(|row| Some(row.totals.iops)),
        "bytes_per_s" => real(|row| Some(row.totals.bytes_per_s)),
        "depth_mean" => real(|row| row.totals.depth_mean),
        "latency" => text(&|row| Some(row.totals.latencies.main_kind().name().to_owned())),
        "mean_ns" => real(|row| row.totals.latencies.main().mean_ns),
        "max_ns" => count(|row| row.totals.latencies.main().max_ns),
        "cpu_ns" => count(|row| row.of.summary.overhead.cpu_s.map(|s| (s * 1e9).round() as u64)),
        _ => PointValues::Flag(
            rows.iter().map(|row| Some(row.of.summary.saturation.saturated)).collect(),
        ),
    };
    PointColumn { name: name.to_owned(), values }
}

/// The word of a value in JSON.
fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

fn whole(n: u64) -> Option<i64> {
    i64::try_from(n).ok()
}
