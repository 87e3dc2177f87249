//! Tells once a second what was traced since: rows of what the collector keeps anyway, for views of the run
//! while it goes on. Of I/Os that were not slow one in 64 is told, of slow ones at most 4,096 a second, and nothing
//! of a second with more than 16,384 events.

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

/// Most slow I/Os told at a time (and as many of the others), and most events: more would keep the ring waiting.
const SLOW_MAX: usize = 4096;
const EVENTS_MAX: usize = 16_384;

/// What a watch has not been told yet.
pub struct TraceTail {
    watch: TraceWatch,
    symbols: Arc<KernelSymbols>,
    /// Latency above which an I/O is slow, ns; without one each that is not of the sample is.
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

    /// How many of the collector's events were told.
    pub fn told(&mut self) -> &mut usize {
        &mut self.events
    }

    /// How many of its batches of I/Os were.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// The first batch that was told is no longer among the collector's.
    pub fn one_gone(&mut self) {
        self.batches = self.batches.saturating_sub(1);
    }

    /// Tells what is new, if it is time.
    pub fn look(&mut self, all: &CollectedTrace) {
        if self.told.elapsed() >= EVERY {
            self.now(all);
        }
    }

    /// Tells what is new.
    pub fn now(&mut self, all: &CollectedTrace) {
        self.told = Instant::now();
        let events = &all.events.held[self.events..];
        let ios = || all.ios.batches.iter().skip(self.batches).flat_map(TracedBatch::each);
        let slow = ios().filter(|io| self.slow(io)).count();
        // Without its events no I/O is told.
        let most = if events.len() > EVENTS_MAX { 0 } else { SLOW_MAX };
        let mut rows: Vec<LayerRow> = Vec::new();
        if most > 0 {
            rows.extend(events.iter().map(|e| event_row(e, &self.symbols, &all.threads)));
            let usual = ios().filter(|io| !self.slow(io)).step_by(SAMPLED).take(SLOW_MAX);
            let told = usual.chain(ios().filter(|io| self.slow(io)).take(most));
            rows.extend(told.flat_map(io_rows));
        }
        (self.events, self.batches) = (all.events.held.len(), all.ios.batches.len());
        (self.watch)(rows, slow.saturating_sub(most) as u64);
    }

    fn slow(&self, (io, _): &IoWithRounds<'_>) -> bool {
        match self.threshold_ns {
            Some(ns) => io.complete.saturating_sub(io.submit) > ns as i64,
            None => u64::from(io.flags) & (flags::SAMPLE | flags::BESIDE) == 0,
        }
    }
}
