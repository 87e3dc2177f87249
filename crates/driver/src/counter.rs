//! Counters of one writer each: a worker counts without a locked instruction, and others read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds to a counter of which this thread is the only writer.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}
