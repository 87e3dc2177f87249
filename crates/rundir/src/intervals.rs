//! `intervals.parquet`: one row per interval, workload and operation.

use std::path::Path;

use taillight_core::{OpKind, Result};

use crate::columns::{
    Double, Int64, Name, Nanos, Nullable, TableWriter, UInt16, UInt64, Utf8, read_rows, table_row,
};
use crate::dir::RunDir;
use crate::names;

table_row! {
    /// One row. Latencies are of successes, service time (complete - submit) unless said otherwise;
    /// they are absent when the interval saw no success, and of load that is not measured.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct IntervalRow {
        /// Start, CLOCK_MONOTONIC ns.
        pub start_ns: i64 = Int64,
        /// Length, ns.
        pub length_ns: u64 = Nanos,
        pub phase: String = Utf8<String>,
        /// Index of the workload in the plan.
        pub workload: u16 = UInt16,
        pub op: OpKind = Name<OpKind>,
        /// I/Os completed, failed ones included.
        pub ops: u64 = UInt64,
        /// Bytes moved by successes.
        pub bytes: u64 = UInt64,
        pub errors: u64 = UInt64,
        /// Smallest, ns.
        pub min_ns: Option<u64> = Nullable<Nanos>,
        /// Arithmetic mean, ns.
        pub mean_ns: Option<f64> = Nullable<Double>,
        /// Largest, ns.
        pub max_ns: Option<u64> = Nullable<Nanos>,
        /// 10th percentile, ns.
        pub p10_ns: Option<u64> = Nullable<Nanos>,
        /// 25th percentile, ns.
        pub p25_ns: Option<u64> = Nullable<Nanos>,
        /// Median, ns.
        pub p50_ns: Option<u64> = Nullable<Nanos>,
        /// 75th percentile, ns.
        pub p75_ns: Option<u64> = Nullable<Nanos>,
        /// 90th percentile, ns.
        pub p90_ns: Option<u64> = Nullable<Nanos>,
        /// 95th percentile, ns.
        pub p95_ns: Option<u64> = Nullable<Nanos>,
        /// 99th percentile, ns.
        pub p99_ns: Option<u64> = Nullable<Nanos>,
        /// 99.9th percentile, ns.
        pub p999_ns: Option<u64> = Nullable<Nanos>,
        /// 99.99th percentile, ns.
        pub p9999_ns: Option<u64> = Nullable<Nanos>,
        /// 99th percentile of the response time (complete - intended), ns; open loop only: a rate or recorded times.
        pub response_p99_ns: Option<u64> = Nullable<Nanos>,
        /// SLC1, real-valued.
        pub slc1: Option<f64> = Nullable<Double>,
        /// SLC2, real-valued.
        pub slc2: Option<f64> = Nullable<Double>,
        /// Operations due and not yet submitted at the end of the interval.
        pub backlog: Option<u64> = Nullable<UInt64>,
        /// Mean number of I/Os in flight.
        pub depth_mean: f64 = Double,
        /// Records that successes covered; absent where each operation is one record.
        pub records: Option<u64> = Nullable<UInt64>,
        /// Sum of response times (complete - intended), ns; open loop only: a rate or recorded times.
        pub response_sum_ns: Option<u64> = Nullable<UInt64>,
        /// Sum of end-to-end times, ns, where I/Os had them.
        pub end_to_end_sum_ns: Option<u64> = Nullable<UInt64>,
    }
}

/// Rows of a row group: those that a run holds in memory.
const GROUP_ROWS: usize = 1 << 12;

/// `intervals.parquet` to be written, rows in their order.
pub fn interval_writer(dir: &RunDir) -> TableWriter<IntervalRow> {
    let dictionary = &["phase", "op", "workload"];
    TableWriter::new(dir, names::INTERVALS, COLUMNS, dictionary, GROUP_ROWS)
}

/// Reads the rows of an `intervals.parquet`. Optional columns that the file lacks are `None`.
/// Errors: `Corrupt` when the file is damaged or lacks a column.
pub fn read_intervals(path: &Path) -> Result<Vec<IntervalRow>> {
    read_rows(path, COLUMNS)
}
