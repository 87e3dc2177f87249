//! Counts that the probes of all workers share, whatever the backend.
//!
//! What it is: two totals for the manifest. What it is not: a count per operation on the hot path;
//! a probe adds its own up when it ends. Used by the backends `bpf` and `perf`.

use std::sync::atomic::AtomicU64;

/// Totals of a run.
#[derive(Debug, Default)]
pub struct TraceCounts {
    pub operations: AtomicU64,
    /// I/Os that found no room.
    pub lost: AtomicU64,
}
