//! `bus.parquet` and `bus.json`: commands a bus analyser saw, matched with traced I/Os.
//!
//! One row per matched command. Stamps are CLOCK_MONOTONIC of the host; those of the bus were moved
//! there by the fit that `bus.json` states.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::Result;

use crate::columns::{Int64, TableWriter, UInt64, table_row};
use crate::dir::RunDir;
use crate::names;

table_row! {
    /// One command.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct BusRow {
        /// Worker of the I/O.
        pub worker: u64 = UInt64,
        /// Submit stamp of the I/O: with `worker` it names it.
        pub submit_ns: i64 = Int64,
        /// Given to the driver.
        pub issue_ns: i64 = Int64,
        /// First seen on the bus.
        pub start_ns: i64 = Int64,
        /// Completion seen on the bus.
        pub end_ns: i64 = Int64,
        /// The driver reported it done.
        pub done_ns: i64 = Int64,
    }
}

/// What the bus analyser's capture says of the run. `bus.json`, and part of `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusInfo {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// File it came from.
    pub file: String,
    /// Commands in it.
    pub commands: u64,
    /// Traced I/Os in the time it covers.
    pub covered: u64,
    /// Of them matched.
    pub matched: u64,
    /// Bus clock minus host clock, ns.
    pub offset_ns: f64,
    /// How much faster the bus clock runs, parts per million.
    pub drift_ppm: f64,
    /// Distance of begin stamps from the fitted line, ns: median.
    pub residual_p50_ns: u64,
    /// The same: 99 %.
    pub residual_p99_ns: u64,
    /// The offset is known to within this, ns.
    pub slack_ns: u64,
    /// Time from issue to completion (D2C) taken apart, by percentile of it.
    pub split: Vec<BusSplit>,
}

/// D2C of the commands around one percentile, taken apart: means, ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BusSplit {
    /// The percentile of D2C, or `max`.
    pub p: String,
    /// Commands averaged.
    pub commands: u64,
    /// Issue to completion.
    pub d2c_ns: u64,
    /// From issue until the command was on the bus: driver, doorbell, fetch.
    pub before_ns: u64,
    /// From the bus to the bus: the device.
    pub device_ns: u64,
    /// From the bus to the driver's report: interrupt, softirq.
    pub after_ns: u64,
}

/// Writes both files. Errors: `Unavailable` when they cannot be written.
pub fn write_bus(dir: &RunDir, info: &BusInfo, rows: &[BusRow]) -> Result<()> {
    let writer = TableWriter::new(dir, names::BUS, COLUMNS, &["worker"], 1 << 16);
    writer.write(rows.iter().cloned())?;
    dir.write(info)
}
