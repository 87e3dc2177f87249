//! What all connections of a run count together: locks that were busy, and pages checked in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters. Touched only where a connection waits or checks in.
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
