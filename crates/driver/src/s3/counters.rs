//! What went wrong on the way, by HTTP code; and connections made. Shared by all workers, touched
//! only when something is wrong or a connection is made.

use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::samples::SampleDisplay;

use crate::net::ConnectionCounters;

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    SampleDisplay { panels: vec![ConnectionCounters::panel("s3")], phrases: Vec::new() }
}

/// HTTP codes counted apart: 300 to 599.
const FIRST: u16 = 300;
const LAST: u16 = 599;

/// The counters.
pub struct S3Counters {
    codes: Box<[AtomicU64]>,
    pub connections: ConnectionCounters,
}

impl Default for S3Counters {
    fn default() -> S3Counters {
        S3Counters {
            codes: (FIRST..=LAST).map(|_| AtomicU64::new(0)).collect(),
            connections: ConnectionCounters::default(),
        }
    }
}

impl S3Counters {
    /// An answer with this code; one outside 300 to 599 counts as the nearest of them.
    pub fn code(&self, code: u16) {
        let at = usize::from(code.clamp(FIRST, LAST) - FIRST);
        self.codes[at].fetch_add(1, Ordering::Relaxed);
    }
    /// Shows all of them; codes only where there are any.
    pub fn show(&self, out: &mut dyn FnMut(&str, f64)) {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        self.connections.show("s3", out);
        for (at, counter) in self.codes.iter().enumerate() {
            if counter.load(Ordering::Relaxed) > 0 {
                out(&format!("s3_http_{}_total", usize::from(FIRST) + at), value(counter));
            }
        }
    }
}
