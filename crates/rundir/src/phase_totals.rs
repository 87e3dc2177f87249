//! What of a run's totals completed inside the measure phase, and what was drained after it: the object
//! `in_phase` of `Totals` in `summary.json`, and `drained` in it. The report counts them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// I/Os that completed inside the measure phase: a stall at its end neither stretches the time nor adds
/// what was answered after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseTotals {
    /// I/Os, failed ones included. With those drained they are `count` of the totals.
    pub count: u64,
    /// Bytes moved by successes of those.
    pub bytes: u64,
    /// Failed ones of those.
    pub errors: u64,
    /// Length of the measure phase, ns; of a workload that was done early, the time it took.
    pub duration_ns: u64,
    /// Successes of those per second of it.
    pub iops: f64,
    /// Bytes per second of it.
    pub bytes_per_s: f64,
    /// I/Os that completed after its end; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<DrainTotals>,
}

/// I/Os that were under way, or late, at the end of the measure phase and completed after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DrainTotals {
    /// I/Os, failed ones included.
    pub count: u64,
    /// Bytes moved by successes of those.
    pub bytes: u64,
    /// Failed ones of those.
    pub errors: u64,
    /// From the end of the phase to the last of them, ns.
    pub duration_ns: u64,
}
