//! `intervals.parquet`: one row per interval, workload and operation.

mod columns;

use std::path::Path;
use std::sync::Arc;

use parquet::file::reader::FileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use taillight_core::{Error, OpKind, Result};

use crate::dir::RunDir;
use crate::{names, table};

/// One row. Latencies are of successes, service time (complete - submit) unless said otherwise;
/// they are absent when the interval saw no success.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalRow {
    /// Start, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// Length, ns.
    pub length_ns: u64,
    /// Phase.
    pub phase: String,
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Kind of operation.
    pub op: OpKind,
    /// I/Os completed, failed ones included.
    pub ops: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Failed I/Os.
    pub errors: u64,
    /// Smallest, ns.
    pub min_ns: Option<u64>,
    /// Arithmetic mean, ns.
    pub mean_ns: Option<f64>,
    /// Largest, ns.
    pub max_ns: Option<u64>,
    /// 10th percentile, ns.
    pub p10_ns: Option<u64>,
    /// 25th percentile, ns.
    pub p25_ns: Option<u64>,
    /// Median, ns.
    pub p50_ns: Option<u64>,
    /// 75th percentile, ns.
    pub p75_ns: Option<u64>,
    /// 90th percentile, ns.
    pub p90_ns: Option<u64>,
    /// 95th percentile, ns.
    pub p95_ns: Option<u64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, ns.
    pub p999_ns: Option<u64>,
    /// 99.99th percentile, ns.
    pub p9999_ns: Option<u64>,
    /// 99th percentile of the response time (complete - intended), ns; rate-limited runs only.
    pub response_p99_ns: Option<u64>,
    /// SLC1, real-valued.
    pub slc1: Option<f64>,
    /// SLC2, real-valued.
    pub slc2: Option<f64>,
    /// Operations due and not yet submitted at the end of the interval.
    pub backlog: Option<u64>,
    /// Mean number of I/Os in flight.
    pub depth_mean: f64,
}

impl Default for IntervalRow {
    fn default() -> Self {
        IntervalRow {
            start_ns: 0,
            length_ns: 0,
            phase: String::new(),
            workload: 0,
            op: OpKind::Read,
            ops: 0,
            bytes: 0,
            errors: 0,
            min_ns: None,
            mean_ns: None,
            max_ns: None,
            p10_ns: None,
            p25_ns: None,
            p50_ns: None,
            p75_ns: None,
            p90_ns: None,
            p95_ns: None,
            p99_ns: None,
            p999_ns: None,
            p9999_ns: None,
            response_p99_ns: None,
            slc1: None,
            slc2: None,
            backlog: None,
            depth_mean: 0.0,
        }
    }
}

/// Writes `intervals.parquet` from all its rows, in their order.
///
/// # Errors
/// `Unavailable` when the file cannot be written.
pub fn write_intervals(dir: &RunDir, rows: &[IntervalRow]) -> Result<()> {
    let bug = |e| table::unwritten(names::INTERVALS, e);
    let file = dir.begin(names::INTERVALS)?;
    let mut properties = table::properties()?;
    for name in ["phase", "op", "workload"] {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), true);
    }
    let schema = table::schema(&columns::schema_text())?;
    let mut writer =
        SerializedFileWriter::new(file.handle()?, schema, Arc::new(properties.build()))
            .map_err(bug)?;
    let mut group = writer.next_row_group().map_err(bug)?;
    for column in columns::COLUMNS {
        let mut out = group
            .next_column()
            .map_err(bug)?
            .ok_or_else(|| Error::internal("intervals.parquet has fewer columns than its rows"))?;
        column.write(rows, out.untyped()).map_err(bug)?;
        out.close().map_err(bug)?;
    }
    group.close().map_err(bug)?;
    writer.close().map_err(bug)?;
    file.commit()
}

/// Reads the rows of an `intervals.parquet`. Optional columns that the file lacks are `None`.
///
/// # Errors
/// `Corrupt` when the file is damaged or lacks a column.
pub fn read_intervals(path: &Path) -> Result<Vec<IntervalRow>> {
    let reader = table::open(path)?;
    let mut all = Vec::new();
    for g in 0..reader.num_row_groups() {
        let group = table::guarded(path, || reader.get_row_group(g))?;
        let count = usize::try_from(group.metadata().num_rows())
            .ok()
            .filter(|n| *n <= ROWS_MAX)
            .ok_or_else(|| {
                Error::corrupt("intervals.parquet states an impossible number of rows")
                    .with("path", path.display())
            })?;
        let mut rows = vec![IntervalRow::default(); count];
        let descr = group.metadata().schema_descr();
        for column in columns::COLUMNS {
            let index = (0..descr.num_columns()).find(|i| descr.column(*i).name() == column.name);
            let place = match index {
                Some(i) => i,
                None if column.optional() => continue,
                None => {
                    return Err(Error::corrupt("intervals.parquet lacks a column")
                        .with("column", column.name)
                        .with("path", path.display()));
                }
            };
            table::guarded(path, || {
                column.read(&mut rows, group.get_column_reader(place)?)
            })?;
        }
        all.append(&mut rows);
    }
    Ok(all)
}

/// Most rows in a row group that a reader believes.
const ROWS_MAX: usize = 1 << 24;
