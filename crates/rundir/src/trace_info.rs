//! How a run was traced: what was seen, what was not, what was lost. Part of `manifest.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::plan::TraceMode;

/// By which means a run was traced, from the best to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TracingBackend {
    /// Programs on the kernel's trace points.
    #[serde(rename = "bpf", alias = "trace_points")]
    TracePoints,
    /// When each worker left and entered the CPU, and its wait for one; nothing below.
    #[serde(alias = "threads")]
    Perf,
    /// Counters of each worker over intervals; nothing of a single I/O. Only in old runs.
    Procfs,
    /// Another tool's trace: block I/Os only. Only in old runs, which could take one.
    Imported,
    /// The target's own log of its pauses, without any tracing. Never in a manifest: runs that were not traced are
    /// explained by it.
    Pauses,
    /// Nothing was seen.
    None,
}

impl TracingBackend {
    /// Name for people, as `trace.rung` takes it.
    pub fn name(self) -> &'static str {
        match self {
            TracingBackend::TracePoints => "bpf",
            TracingBackend::Perf => "perf",
            TracingBackend::Procfs => "procfs",
            TracingBackend::Imported => "imported",
            TracingBackend::Pauses => "pauses",
            TracingBackend::None => "none",
        }
    }
    /// What it sees, in words.
    pub fn sees(self) -> &'static str {
        match self {
            TracingBackend::TracePoints => "trace points: every layer",
            TracingBackend::Perf => "when each worker was on a CPU, waited for one, or was blocked",
            TracingBackend::Procfs => {
                "CPU waits of each worker over intervals, nothing of a single I/O"
            }
            TracingBackend::Imported => "another tool's block I/Os",
            TracingBackend::Pauses => "when the JVM had stopped its threads, by its own log",
            TracingBackend::None => "nothing",
        }
    }
}

/// A better backend that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedBackend {
    /// Which.
    #[serde(rename = "rung")]
    pub backend: TracingBackend,
    /// Why.
    pub why: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Tracing ended before the run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracingStopped {
    /// From when on nothing was seen, CLOCK_MONOTONIC ns.
    pub at_ns: i64,
    /// What was not seen from then on, and how it was noticed.
    pub what: String,
}

/// How layers were traced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceInfo {
    /// What was asked.
    pub mode: TraceMode,
    /// What was reached.
    #[serde(rename = "rung")]
    pub backend: TracingBackend,
    /// Why it was not more; absent when everything was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Better backends that could not be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedBackend>,
    /// Something stopped tracing before the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<TracingStopped>,
    /// Programs, attached or not.
    #[serde(default)]
    pub programs: Vec<ProgramInfo>,
    /// Names of kernel functions were readable, so that stacks can be read.
    #[serde(default)]
    pub symbols: bool,
    /// The threshold asked for, ns; absent when the running p99.5 was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_ns: Option<u64>,
    /// Operations that ended while traced.
    #[serde(default)]
    pub operations: u64,
    /// I/Os in `layers.parquet`.
    #[serde(default)]
    pub kept: u64,
    /// I/Os that were to be kept and found no room.
    #[serde(default)]
    pub ios_lost: u64,
    /// Events that found the ring full, or no room.
    #[serde(default)]
    pub events_lost: u64,
    /// Events that no kept I/O needs and that were forgotten to make room.
    #[serde(default)]
    pub events_forgotten: u64,
    /// Threads that events name and that were not looked up in time: they have no command line and control group.
    #[serde(default)]
    pub threads_unknown: u64,
    /// Bytes of the trace that were written to the run directory while the load went on.
    #[serde(default)]
    pub spilled_bytes: u64,
    /// Whether they went to a disk under test; absent where the disks are not known, or nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spilled_beside_load: Option<bool>,
    /// I/Os on the disks under test that are none of the load's: other programs', those of the program's own
    /// other threads, what the kernel read ahead. Parts of the load's own that could not be given to one of
    /// its I/Os do not count.
    #[serde(default)]
    pub neighbours: u64,
    /// Whether every disk of the target was watched for I/O of others; absent in runs that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks_watched: Option<bool>,
    /// Stretches off the CPU shorter than this are only in sums, ns.
    #[serde(default)]
    pub off_cpu_ns: u64,
    /// CPU time of the trace programs per operation, ns, as the kernel measured it in a part of
    /// the run; absent when it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_ns_per_op: Option<f64>,
    /// Time of the worker's own part of tracing per operation, ns, measured before the load: by how much it
    /// lengthens reads of 4 KiB from memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns_per_op: Option<f64>,
    /// CPU time of the thread that gathers what was seen, per operation, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collector_ns_per_op: Option<f64>,
}

/// One trace program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramInfo {
    /// Name of the trace point.
    pub trace_point: String,
    /// What cannot be seen without it.
    pub sees: String,
    /// Why it is not attached; absent when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

impl TraceInfo {
    /// Of tracing that has seen nothing yet.
    pub fn new(mode: TraceMode, backend: TracingBackend, threshold_ns: Option<u64>) -> TraceInfo {
        TraceInfo {
            mode,
            backend,
            why: None,
            refused: Vec::new(),
            stopped: None,
            programs: Vec::new(),
            symbols: false,
            threshold_ns,
            operations: 0,
            kept: 0,
            ios_lost: 0,
            events_lost: 0,
            events_forgotten: 0,
            threads_unknown: 0,
            spilled_bytes: 0,
            spilled_beside_load: None,
            neighbours: 0,
            disks_watched: None,
            off_cpu_ns: 0,
            program_ns_per_op: None,
            probe_ns_per_op: None,
            collector_ns_per_op: None,
        }
    }

    /// Whether everything that was asked for was seen: no program missing, nothing lost.
    pub fn whole(&self) -> bool {
        self.backend == TracingBackend::TracePoints
            && self.ios_lost == 0
            && self.events_lost == 0
            && self.stopped.is_none()
            && self.programs.iter().all(|p| p.missing.is_none())
    }

    /// Whether the program on `trace_point` saw what there was to see.
    pub fn saw(&self, trace_point: &str) -> bool {
        let mut programs = self.programs.iter();
        programs.any(|p| p.trace_point == trace_point && p.missing.is_none())
    }
}
