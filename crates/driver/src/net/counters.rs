//! Connections begun, answers that did not come in time and connections that broke under a request: counted by
//! all workers together, touched only when one of these happens.

use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::samples::{SamplePanel, SampleUnit};

/// The counters.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    connects: AtomicU64,
    timeouts: AtomicU64,
    broken: AtomicU64,
}

impl ConnectionCounters {
    /// A connection was begun.
    pub fn connect(&self) {
        self.connects.fetch_add(1, Ordering::Relaxed);
    }
    /// No answer in time.
    pub fn timeout(&self) {
        self.timeouts.fetch_add(1, Ordering::Relaxed);
    }
    /// A connection failed under a request.
    pub fn broken(&self) {
        self.broken.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether one was lost under a request.
    pub fn has_lost(&self) -> bool {
        self.broken.load(Ordering::Relaxed) > 0
    }
    /// How they are drawn; `driver` as in [`ConnectionCounters::show`].
    pub fn panel(driver: &str) -> SamplePanel {
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line(&format!("{driver}_connections_total"), "connections made")
            .line(&format!("{driver}_timeouts_total"), "time-outs")
            .line(&format!("{driver}_broken_total"), "broken connections")
    }
    /// Shows all of them, each name behind that of the `driver`.
    pub fn show(&self, driver: &str, out: &mut dyn FnMut(&str, f64)) {
        let all = [
            ("connections", &self.connects),
            ("timeouts", &self.timeouts),
            ("broken", &self.broken),
        ];
        for (name, counter) in all {
            out(&format!("{driver}_{name}_total"), counter.load(Ordering::Relaxed) as f64);
        }
    }
}
