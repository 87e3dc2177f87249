//! Two totals for the manifest that the probes of all workers share, in the backends `bpf` and `perf`. A
//! probe counts for itself on the hot path and adds its own up when it ends.

use std::sync::atomic::AtomicU64;

/// Totals of a run.
#[derive(Debug, Default)]
pub struct TraceCounts {
    pub operations: AtomicU64,
    /// I/Os that found no room.
    pub lost: AtomicU64,
}
