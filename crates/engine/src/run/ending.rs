//! What ends workers besides their own limits: load when nothing measured is left, everybody when
//! nothing completes any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use taillight_core::units::Span;
use taillight_core::{Error, Stamp};

use crate::idle::{Idle, IdleWatch};

/// Ends load when everything that is measured has ended.
pub struct LoadEnd {
    measured_left: AtomicUsize,
    over: AtomicBool,
}

impl LoadEnd {
    /// With so many measured workers.
    pub fn new(measured: usize) -> LoadEnd {
        LoadEnd {
            measured_left: AtomicUsize::new(measured),
            over: AtomicBool::new(false),
        }
    }

    /// A measured worker has ended.
    pub fn left(&self) {
        if self.measured_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.store(true, Ordering::Release);
        }
    }

    /// Set once load is to end.
    pub fn over(&self) -> &AtomicBool {
        &self.over
    }
}

/// Ends a run in which nothing completes any more.
pub struct IdleEnd(Option<Arc<Idle>>);

impl IdleEnd {
    /// For so many workers; without a time-out it never fires.
    pub fn new(timeout: Option<Span>, workers: usize) -> IdleEnd {
        IdleEnd(timeout.map(|t| Arc::new(Idle::new(t.0, workers))))
    }

    /// A worker's side.
    pub fn watch(&self, worker: u16) -> Option<IdleWatch> {
        let shared = self.0.clone()?;
        Some(IdleWatch::new(shared, usize::from(worker)))
    }

    /// Asks everybody to end when it fires, and says why.
    pub fn look(&self, now: Stamp, abort: &AtomicBool) -> Option<Error> {
        let idle = self.0.as_ref().filter(|idle| idle.fires(now))?;
        abort.store(true, Ordering::Relaxed);
        Some(idle.error())
    }
}
