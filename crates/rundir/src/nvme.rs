//! `nvme.json`: the drive's own view, its logs read before and after a run.
//!
//! Only what the drive said: judging it against the host's latencies is the report's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeFile {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// NVMe drives below the target.
    pub drives: Vec<NvmeDrive>,
}

/// One drive.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NvmeDrive {
    /// Controller, like `nvme0`; the file name of an import.
    pub name: String,
    /// Model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Firmware.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub firmware: String,
    /// Whether its volatile write cache is on (feature 06h); absent where it has none or cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<bool>,
    /// Logs before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Logs>,
    /// Logs after the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Logs>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// What a drive said at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Logs {
    /// SMART / health (log page 02h).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smart: Option<Smart>,
    /// Entries of the error log (01h) that are in use, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Vec<ErrorEntry>>,
    /// OCP latency monitor (C3h).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_monitor: Option<LatencyMonitor>,
    /// Latency histogram of the vendor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<LatencyBucket>>,
}

/// SMART / health. Counts are since the drive was made; they stop at 2^64-1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Smart {
    /// Bits of the critical warning.
    pub critical_warning: u64,
    /// Composite temperature, degrees Celsius.
    pub temperature_c: Option<i64>,
    /// Spare left, %.
    pub available_spare: u64,
    /// Life used, %; may exceed 100.
    pub percent_used: u64,
    /// Read by hosts, units of 512,000 bytes.
    pub data_units_read: u64,
    /// Written by hosts, units of 512,000 bytes.
    pub data_units_written: u64,
    /// Read commands.
    pub host_reads: u64,
    /// Write commands.
    pub host_writes: u64,
    /// Minutes busy with commands.
    pub busy_min: u64,
    /// Power cycles.
    pub power_cycles: u64,
    /// Hours powered.
    pub power_on_h: u64,
    /// Power losses without notice.
    pub unsafe_shutdowns: u64,
    /// Media and data integrity errors.
    pub media_errors: u64,
    /// Entries ever made in the error log.
    pub error_entries: u64,
    /// Minutes above the warning temperature.
    pub warning_temp_min: u64,
    /// Minutes above the critical temperature.
    pub critical_temp_min: u64,
    /// Times it slowed down for its temperature: lightly, heavily.
    pub throttles: [u64; 2],
    /// Seconds it was slowed down: lightly, heavily.
    pub throttled_s: [u64; 2],
}

/// One entry of the error log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorEntry {
    /// Number of the error, counting up over the drive's life.
    pub count: u64,
    /// Submission queue.
    pub queue: u64,
    /// Command.
    pub command: u64,
    /// Status field.
    pub status: u64,
    /// First block concerned.
    pub lba: u64,
    /// Namespace.
    pub namespace: u64,
}

/// OCP latency monitor. Index 0 is the bucket with the shortest latencies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMonitor {
    /// It counts.
    pub enabled: bool,
    /// Version of the page: 1 = OCP 2.0, 4 = OCP 2.5.
    pub version: u64,
    /// Time since the active counters began, minutes in steps of 5.
    pub timer_min: u64,
    /// When they become the static ones and begin again, minutes.
    pub timer_end_min: u64,
    /// Where the buckets begin, ms.
    pub thresholds_ms: [u64; 4],
    /// Commands since the timer began.
    pub active: [MonitorBucket; 4],
    /// Commands of the period before.
    pub fixed: [MonitorBucket; 4],
}

/// One bucket of the latency monitor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MonitorBucket {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Deallocations.
    pub deallocates: u64,
    /// Measured latency of a read, ms; null when none was latched.
    pub read_ms: Option<u64>,
    /// Measured latency of a write, ms.
    pub write_ms: Option<u64>,
}

/// One bin of a vendor's histogram, cumulative over the drive's life or since it was reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// From here on, us.
    pub lo_us: u64,
    /// To here, us; null = without end.
    pub hi_us: Option<u64>,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl Logs {
    /// Reads and writes of 5 ms or longer in the vendor's histogram; none without one.
    pub fn slow_in_histogram(&self) -> Option<u64> {
        let bins = self.histogram.as_ref()?.iter().filter(|b| b.lo_us >= 5_000);
        Some(bins.map(|b| b.reads + b.writes).sum())
    }
}

impl MonitorBucket {
    /// Commands of every kind.
    pub fn all(&self) -> u64 {
        self.reads + self.writes + self.deallocates
    }
}
