//! What all connections of a run count together: locks that were busy, and checkpoints.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taillight_core::samples::{SampleDisplay, SamplePanel, SampleUnit};

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Writes held back", SampleUnit::PercentOfTime)
            .line("lock_wait_ns_total", "waiting for a lock, all workers together"),
        SamplePanel::new("Log", SampleUnit::Bytes).line("log_bytes", "log to check in"),
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line("busy_total", "locks that were busy")
            .line("checkpoints_total", "checkpoints"),
        SamplePanel::new("Checkpoints", SampleUnit::PercentOfTime)
            .line("checkpoint_write_ns_total", "writing"),
    ];
    SampleDisplay { panels, phrases: Vec::new() }
}

/// The counters. Touched only where a connection waits for a lock or makes a checkpoint.
#[derive(Debug, Default)]
pub struct SqliteCounters {
    /// Times that a lock was found held by somebody else.
    pub busy: AtomicU64,
    /// Time spent waiting for locks.
    pub lock_wait_ns: AtomicU64,
    /// Times that a wait was given up.
    pub given_up: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_ns: AtomicU64,
    /// What SQLite itself counted on connections that are gone: rows changed, and lookups begun.
    pub changes: AtomicU64,
    pub lookups: AtomicU64,
}

impl SqliteCounters {
    pub fn checkpoint(&self, took: Duration) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.checkpoint_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn show(&self, out: &mut dyn FnMut(&str, f64)) {
        for (name, counter) in [
            ("busy_total", &self.busy),
            ("lock_wait_ns_total", &self.lock_wait_ns),
            ("busy_given_up_total", &self.given_up),
            ("checkpoints_total", &self.checkpoints),
            ("checkpoint_write_ns_total", &self.checkpoint_ns),
        ] {
            out(name, counter.load(Ordering::Relaxed) as f64);
        }
    }
}
