//! `manifest.json`: what ran, where, when, and how it ended. Written first, rewritten last.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::capability::{DriverFacts, TargetKind};
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::samples::SampleDisplay;
use taillight_core::witness::Witness;

use crate::host::HostInfo;
use crate::origin::RunOrigin;
use crate::trace_info::TraceInfo;

/// How samples were shown before drivers said it themselves.
const SAMPLES_BEFORE: &str = include_str!("samples_before.json");

/// The manifest. Field order is the order in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// Unique name of the run; also names its files under `/dev/shm`.
    pub run_id: String,
    /// Where its figures come from; absent = Taillight measured them.
    #[serde(default, skip_serializing_if = "RunOrigin::is_measured")]
    pub origin: RunOrigin,
    /// How the run ended; `running` in a directory whose process lives or was killed.
    pub status: RunStatus,
    /// The resolved plan.
    pub plan: Plan,
    /// The command line as typed, shell quoted.
    pub command: String,
    /// Seed of every random draw, as a decimal number.
    pub seed: u64,
    /// The clock of every stamp.
    pub clock: ClockInfo,
    /// Phases in the order they ran.
    pub phases: Vec<PhaseInfo>,
    /// What the driver is with the plan's options; absent in directories of versions before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverFacts>,
    /// How the driver wants its samples (`store.parquet`) shown; absent in directories of versions before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampleDisplay>,
    /// What the machine, device and libraries were; free form, ordered for people.
    #[serde(default)]
    pub environment: serde_json::Map<String, serde_json::Value>,
    /// What was kept of the I/Os.
    pub capture: CaptureInfo,
    /// What was lost; all zero in a good run.
    pub losses: Losses,
    /// What measuring cost.
    pub overhead: Overhead,
    /// The command that repeats the run from this directory; shown in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// The process that ran it; salvage checks whether it still lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessInfo>,
    /// How layers were traced; absent when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceInfo>,
    /// How the machine was sampled while the run went on; absent when it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostInfo>,
    /// Why the run is partial or failed, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a schedule could not send; absent in a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleInfo>,
    /// Operations that found nothing because this run had deleted their key, warm-up included: no
    /// failures. Their rows in `ios.parquet` have a count of 0, of a read-modify-write also that of its
    /// part. Absent when there are none.
    #[serde(default, skip_serializing_if = "none")]
    pub misses: u64,
    /// What became of the blocks of an end-to-end stream, warm-up included; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<EndToEndInfo>,
    /// Counters that others keep of the same operations and bytes, beside the run's own; absent where nobody counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witness: Vec<Witness>,
    /// Size and checksum of every file that holds what was measured, to notice later damage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileSum>,
}

impl Manifest {
    /// Of a run that is about to begin: nothing is measured, and machine, driver and process are not filled in.
    pub fn new(run_id: String, plan: Plan, clock: ClockInfo) -> Manifest {
        Manifest {
            schema: crate::SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            run_id,
            origin: RunOrigin::Measured,
            status: RunStatus::Running,
            command: String::new(),
            seed: plan.run.seed,
            plan,
            clock,
            phases: Vec::new(),
            driver: None,
            samples: None,
            environment: serde_json::Map::new(),
            capture: CaptureInfo::default(),
            losses: Losses::default(),
            overhead: Overhead::default(),
            repeat: None,
            process: None,
            trace: None,
            host: None,
            reason: None,
            schedule: None,
            misses: 0,
            end_to_end: None,
            witness: Vec::new(),
            files: Vec::new(),
        }
    }

    /// How the target's samples are shown. Versions that did not write it down showed all stores alike.
    pub fn sample_display(&self) -> Cow<'_, SampleDisplay> {
        match &self.samples {
            Some(stated) => Cow::Borrowed(stated),
            None => Cow::Owned(serde_json::from_str(SAMPLES_BEFORE).unwrap_or_default()),
        }
    }

    /// What the driver is with the plan's options. Versions that did not write it down had these
    /// drivers only, so that their names tell.
    pub fn driver_facts(&self) -> DriverFacts {
        let target = &self.plan.target;
        let files = target.options.get("files").and_then(|v| v.as_integer());
        self.driver.unwrap_or(DriverFacts {
            kind: match target.driver.as_str() {
                "filestream" => TargetKind::Stream,
                "s3" => TargetKind::Object,
                "rocksdb" | "leveldb" | "redis" | "memory" => TargetKind::Keyed,
                _ => TargetKind::File,
            },
            in_process: matches!(target.driver.as_str(), "rocksdb" | "leveldb"),
            single_file: target.driver == "file" && files == Some(1),
        })
    }
}

/// Whether there is nothing to say about a count.
pub(crate) fn none(count: &u64) -> bool {
    *count == 0
}

/// Blocks of an end-to-end stream: writers stamp them, and each reader reads and verifies them all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndToEndInfo {
    /// Blocks that were written, failed writes included.
    pub written: u64,
    /// Readers.
    pub readers: u64,
    /// Reads that brought the right block, all readers together.
    pub verified: u64,
    /// Reads that failed or brought something else.
    pub failed: u64,
    /// Blocks that a reader had not read when it ended, added up over the readers.
    pub unread: u64,
}

/// How far the load fell behind its schedule, all workers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleInfo {
    /// Most operations that were due and not yet submitted; each worker's most, added up.
    pub backlog_max: u64,
    /// Operations due before the end and never submitted.
    pub unsent: u64,
    /// Operations due and not yet submitted when the measured time was over: sent late, or never.
    #[serde(default)]
    pub left_at_end: u64,
}

/// A file as it was when the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileSum {
    /// Name inside the run directory.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE 802.3) of all its bytes, eight hexadecimal digits.
    pub crc32: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Still running, or killed before it could say otherwise.
    Running,
    /// Ran to its end.
    Complete,
    /// Stopped early; what was measured is kept.
    Partial,
    /// Nothing useful was measured.
    Failed,
}

/// The clock that made every stamp, and its relation to wall time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockInfo {
    /// CLOCK_MONOTONIC at the start, ns.
    pub monotonic_ns: i64,
    /// CLOCK_REALTIME at the same moment, ns since the epoch.
    pub realtime_ns: i64,
    /// Clock source of the kernel (`tsc`, `kvm-clock`), or `virtual`.
    pub source: String,
}

/// One phase of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseInfo {
    /// Name, as in the `phase` columns.
    pub name: String,
    /// Start, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// End, CLOCK_MONOTONIC ns; null while it runs.
    pub end_ns: Option<i64>,
    /// I/Os completed in it, failed ones included.
    pub ios: u64,
}

/// What was kept of the I/Os.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureInfo {
    /// What was asked.
    pub mode: CaptureMode,
    /// Memory it could take, bytes.
    pub budget: u64,
    /// I/Os in `ios.parquet`.
    pub kept: u64,
    /// Set when not every I/O that was to be kept could be: the budget ran out, or memory for it could not be had.
    pub degraded: Option<Degraded>,
    /// Directory of the capture chunks while they exist (under `/dev/shm`); salvage looks here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Directory that chunks spill to past the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Most memory the chunks took, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// Bytes of chunks spilled to `dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spilled: Option<u64>,
}

/// From when on not every I/O was kept: only outliers, or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Degraded {
    /// CLOCK_MONOTONIC, ns.
    pub at_ns: i64,
    /// I/Os measured in histograms but not kept singly; 0 = unknown, in a salvaged run.
    pub not_kept: u64,
    /// Why, one sentence.
    pub reason: String,
}

/// What was lost. Every count is zero in a good run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// I/Os that were to be kept singly and are not in `ios.parquet`.
    pub ios: u64,
    /// Latencies outside the histogram's range (counted apart, never clamped).
    pub out_of_range: u64,
    /// Operations still in flight when their worker ended.
    pub unfinished: u64,
    /// For so long at most an operation that began in the warm-up went on after it, ns: no latency has it. Absent where
    /// none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup_carried_ns: Option<u64>,
    /// Interval snapshots that never reached `intervals.parquet`.
    pub intervals: u64,
    /// Capture chunks that were gone, or could not be read to their end.
    pub chunks: u64,
    /// Events the tracer lost; absent when nothing was traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_events: Option<u64>,
}

/// What measuring cost, from calibration against the `null` driver and process accounting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Overhead {
    /// Nanoseconds the tool spends per I/O on `null` with the same workers and depth.
    pub null_ns_per_op: Option<f64>,
    /// One reading of the clock, ns.
    pub clock_ns: Option<f64>,
    /// CPU time of the process in the measure phase, seconds.
    pub cpu_s: Option<f64>,
    /// Time of the load in which nothing of this process ran, ns: it was stopped, frozen, or without
    /// a CPU for an interval or longer. Absent when it never was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stood_still_ns: Option<u64>,
    /// Share of throughput lost to tracing, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_loss: Option<f64>,
    /// CPU time of the trace programs per I/O, ns, as the kernel measured it in windows of the run.
    /// Absent when nothing was traced, or the run was too short or without CAP_SYS_ADMIN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_ns_per_op: Option<f64>,
    /// Time of the worker's own part of tracing per I/O, ns, measured before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns_per_op: Option<f64>,
    /// CPU time of the thread that gathers what tracing saw, per I/O, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector_ns_per_op: Option<f64>,
    /// Nanoseconds of `null_ns_per_op` that keeping every I/O takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture_ns_per_op: Option<f64>,
    /// What showing the run while it went on took; absent when nobody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveViewCost>,
    /// Bytes of the trace that were written to a disk under test while the load went on; absent when none
    /// were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_beside_load_bytes: Option<u64>,
    /// Buffers were to be registered with the ring, and were not: this process may lock a limited amount of
    /// memory only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub buffers_unregistered: bool,
}

/// What the live view of a run took until its load was over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LiveViewCost {
    /// CPU time of the view itself, seconds: of the thread that serves it, and of drawing on the
    /// terminal. It is part of `cpu_s`.
    pub cpu_s: f64,
    /// Scrapes of `/metrics` that were answered.
    pub scrapes: u64,
    /// Events that were sent to pages.
    pub events: u64,
}

impl LiveViewCost {
    /// What came since `before`.
    pub fn since(self, before: LiveViewCost) -> LiveViewCost {
        LiveViewCost {
            cpu_s: self.cpu_s - before.cpu_s,
            scrapes: self.scrapes - before.scrapes,
            events: self.events - before.events,
        }
    }
}

/// The process of a run: enough to tell whether it still lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessInfo {
    /// Process id.
    pub pid: u32,
    /// Boot the process id belongs to (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// Start of the process, clock ticks since boot (`/proc/<pid>/stat`), against reused ids.
    pub start_ticks: u64,
    /// Name of the host.
    pub host: String,
}
