//! Tells once a second what was traced since.
//!
//! What it is: rows of what the collector keeps anyway, for who looks at the run while it goes on. What it
//! is not: a second collection; of I/Os that were not slow only a part is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use taillight_rundir::layers::{LayerRow, flags};

use super::collect::{CollectedTrace, IoWithRounds, event_row, io_rows};
use super::symbols::KernelSymbols;
use super::traced_io::TracedBatch;
use crate::tracing::TraceWatch;

/// How often it tells.
const EVERY: Duration = Duration::from_secs(1);
/// Of the I/Os that are not slow every so many-th is told.
const SAMPLED: usize = 64;

/// What a watch has not been told yet.
pub struct TraceTail {
    watch: TraceWatch,
    symbols: Arc<KernelSymbols>,
    /// From which latency on an I/O is slow, ns.
    threshold_ns: Option<u64>,
    told: Instant,
    /// Batches and events that were told.
    batches: usize,
    events: usize,
}

impl TraceTail {
    pub fn new(
        watch: TraceWatch,
        symbols: Arc<KernelSymbols>,
        threshold_ns: Option<u64>,
    ) -> TraceTail {
        TraceTail { watch, symbols, threshold_ns, told: Instant::now(), batches: 0, events: 0 }
    }

    /// Tells what is new, if it is time.
    pub fn look(&mut self, all: &CollectedTrace) {
        if self.told.elapsed() < EVERY {
            return;
        }
        self.told = Instant::now();
        let events = &all.events[self.events..];
        let mut rows: Vec<LayerRow> = events.iter().map(|e| event_row(e, &self.symbols)).collect();
        let ios = all.ios[self.batches..].iter().flat_map(TracedBatch::each);
        let told = ios.enumerate().filter(|(i, io)| i % SAMPLED == 0 || self.slow(io));
        rows.extend(told.flat_map(|(_, io)| io_rows(io)));
        (self.events, self.batches) = (all.events.len(), all.ios.len());
        (self.watch)(rows);
    }

    fn slow(&self, (io, _): &IoWithRounds<'_>) -> bool {
        match self.threshold_ns {
            Some(ns) => io.complete.saturating_sub(io.submit) > ns as i64,
            None => io.flags & flags::SAMPLE as u32 == 0,
        }
    }
}
