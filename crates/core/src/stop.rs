//! The wish that a run ends early, shared with signal handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks a run to end early; clones share it. Workers look at it, and so does opening and loading the target.
#[derive(Debug, Clone, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks the run to end: nothing new is submitted, what is in flight is recorded.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether it was asked.
    pub fn stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// The flag itself, for signal handlers.
    pub fn raw(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}
