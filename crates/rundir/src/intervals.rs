//! `intervals.parquet`: one row per interval, workload and operation.

use std::path::Path;

use taillight_core::{OpKind, Result};

use crate::columns::{
    Columns, Double, Int64, Name, Nanos, Nullable, TableWriter, UInt16, UInt64, Utf8, columns,
    read_rows,
};
use crate::dir::RunDir;
use crate::names;

/// One row. Latencies are of successes, service time (complete - submit) unless said otherwise;
/// they are absent when the interval saw no success.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalRow {
    /// Start, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// Length, ns.
    pub length_ns: u64,
    pub phase: String,
    /// Index of the workload in the plan.
    pub workload: u16,
    pub op: OpKind,
    /// I/Os completed, failed ones included.
    pub ops: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Records that successes covered; absent where each operation is one record.
    pub records: Option<u64>,
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
            records: None,
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

/// Every column, in file order.
const COLUMNS: Columns<IntervalRow> = columns!(IntervalRow {
    start_ns: Int64,
    length_ns: Nanos,
    phase: Utf8<String>,
    workload: UInt16,
    op: Name<OpKind>,
    ops: UInt64,
    bytes: UInt64,
    errors: UInt64,
    min_ns: Nullable<Nanos>,
    mean_ns: Nullable<Double>,
    max_ns: Nullable<Nanos>,
    p10_ns: Nullable<Nanos>,
    p25_ns: Nullable<Nanos>,
    p50_ns: Nullable<Nanos>,
    p75_ns: Nullable<Nanos>,
    p90_ns: Nullable<Nanos>,
    p95_ns: Nullable<Nanos>,
    p99_ns: Nullable<Nanos>,
    p999_ns: Nullable<Nanos>,
    p9999_ns: Nullable<Nanos>,
    response_p99_ns: Nullable<Nanos>,
    slc1: Nullable<Double>,
    slc2: Nullable<Double>,
    backlog: Nullable<UInt64>,
    depth_mean: Double,
    records: Nullable<UInt64>,
});

/// Writes `intervals.parquet` from all its rows, in their order. Errors: `Unavailable` when the
/// file cannot be written.
pub fn write_intervals(dir: &RunDir, rows: &[IntervalRow]) -> Result<()> {
    let dictionary = ["phase", "op", "workload"];
    let mut writer = TableWriter::begin(dir, names::INTERVALS, COLUMNS, &dictionary)?;
    writer.group(rows)?;
    writer.commit()
}

/// Reads the rows of an `intervals.parquet`. Optional columns that the file lacks are `None`.
/// Errors: `Corrupt` when the file is damaged or lacks a column.
pub fn read_intervals(path: &Path) -> Result<Vec<IntervalRow>> {
    read_rows(path, COLUMNS)
}
