//! A worker's end of the capture: packs records into chunks; once the budget is spent, or if so
//! asked, keeps failures and outliers (from the running p99.9 on) only, and counts what it leaves
//! out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::{OpKind, Record};

use crate::chunk::{ChunkEncoder, HEADER_BYTES, Header, ShortRecord, mark_ordered, mark_partial};
use crate::pool::{CaptureChunk, ChunkKey, ChunkSource};

/// The first so many I/Os of each kind are kept by outlier mode in any case, as there may be no
/// threshold yet.
const LEARN: u64 = 10_000;

/// The running p99.9 per kind of operation, ns: set by the collector after each interval, read by
/// workers that keep outliers only. Zero keeps everything.
#[derive(Debug)]
pub struct CaptureThresholds([AtomicU64; OpKind::ALL.len()]);

impl Default for CaptureThresholds {
    fn default() -> CaptureThresholds {
        CaptureThresholds([const { AtomicU64::new(0) }; OpKind::ALL.len()])
    }
}

impl CaptureThresholds {
    pub fn set(&self, kind: OpKind, ns: u64) {
        self.0[kind as usize].store(ns, Ordering::Relaxed);
    }
    #[inline]
    fn get(&self, kind: OpKind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }
}

/// What a worker's capture did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureState {
    pub kept: u64,
    /// Measured records not kept: all where the capture is off, else those below the outlier
    /// threshold, by request or past the budget.
    pub skipped: u64,
    /// Outliers not kept because even the reserve was spent.
    pub lost: u64,
    /// Whether the budget ran out and only outliers were kept from then on.
    pub degraded: bool,
    /// When that was: the completion of the first record not kept for this reason, ns.
    pub degraded_at: Option<i64>,
}

enum Mode {
    Off,
    All,
    Outliers,
}

/// Packs one worker's records.
pub struct Capture {
    mode: Mode,
    state: CaptureState,
    source: Option<ChunkSource>,
    header: Header,
    encoder: ChunkEncoder,
    chunk: Option<CaptureChunk>,
    position: usize,
    thresholds: Arc<CaptureThresholds>,
    seen: [u64; OpKind::ALL.len()],
    /// The reserve is spent too.
    spent: bool,
}

impl Capture {
    /// Keeps every record (`outliers` false) or outliers only.
    pub fn new(
        source: ChunkSource,
        header: Header,
        thresholds: Arc<CaptureThresholds>,
        outliers: bool,
    ) -> Capture {
        let header = Header { partial: outliers, ..header };
        let mode = if outliers { Mode::Outliers } else { Mode::All };
        Capture { source: Some(source), mode, thresholds, ..Capture::off(header) }
    }

    pub fn off(header: Header) -> Capture {
        Capture {
            mode: Mode::Off,
            state: CaptureState::default(),
            source: None,
            encoder: ChunkEncoder::new(&header),
            header,
            chunk: None,
            position: 0,
            thresholds: Arc::default(),
            seen: [0; OpKind::ALL.len()],
            spent: false,
        }
    }

    /// Keeps a plain success; `record` makes the whole record for the rare case that needs it.
    /// False when the capture has just degraded and wants [`Capture::learn`].
    #[inline(always)]
    pub fn keep_short(&mut self, short: &ShortRecord, record: impl FnOnce() -> Record) -> bool {
        if let (Mode::All, Some(chunk)) = (&self.mode, &mut self.chunk) {
            let out = chunk.words().get_mut(self.position..).unwrap_or_default();
            if let Ok(Some(words)) = self.encoder.encode_short(out, short) {
                self.position += words;
                self.state.kept += 1;
                return true;
            }
        }
        self.keep(&record())
    }

    /// Keeps `record`, if the mode says so. False as for [`Capture::keep_short`].
    #[cold]
    pub fn keep(&mut self, record: &Record) -> bool {
        let before = self.state.degraded;
        match self.mode {
            Mode::All => self.store(record),
            Mode::Off => self.state.skipped += 1,
            Mode::Outliers => self.keep_outlier(record),
        }
        before == self.state.degraded
    }

    /// Sets a threshold where there is none yet: a budget can be spent before the first interval.
    pub fn learn(&self, kind: OpKind, p999_ns: u64) {
        if self.thresholds.get(kind) == 0 {
            self.thresholds.set(kind, p999_ns);
        }
    }

    fn store(&mut self, record: &Record) {
        if let Some(chunk) = &mut self.chunk {
            let out = chunk.words().get_mut(self.position..).unwrap_or_default();
            if let Some(words) = self.encoder.encode(out, record) {
                self.position += words;
                self.state.kept += 1;
                return;
            }
        }
        self.next_chunk(record);
    }

    fn keep_outlier(&mut self, record: &Record) {
        let kind = record.op as usize;
        self.seen[kind] += 1;
        let slow = record.response_ns() >= self.thresholds.get(record.op);
        if self.seen[kind] > LEARN && record.status.is_ok() && !slow {
            self.state.skipped += 1;
            return;
        }
        self.store(record);
    }

    /// Takes a fresh chunk and stores `record` in it; degrades when there is none.
    #[cold]
    fn next_chunk(&mut self, record: &Record) {
        let Some(source) = self.source.clone() else {
            return;
        };
        let mut next = if self.state.degraded { None } else { source.next() };
        if next.is_none() {
            let first = !self.state.degraded && matches!(self.mode, Mode::All);
            self.state.degraded = true;
            self.state.degraded_at.get_or_insert(record.complete.0);
            self.mode = Mode::Outliers;
            self.mark_partial();
            if first {
                // The record that found no room is judged by the thresholds, once they are there.
                self.seen = [LEARN; OpKind::ALL.len()];
                self.state.skipped += 1;
                return;
            }
            next = if self.spent { None } else { source.next_reserved() };
        }
        let Some(mut chunk) = next else {
            // The full chunk stays in hand: there is nothing to take its place.
            self.spent = true;
            self.state.lost += 1;
            return;
        };
        self.hand_back();
        self.header.base_ns = self.encoder.base_ns().max(record.submit.0);
        self.header.write(chunk.words());
        self.header.seq += 1;
        self.encoder = self.encoder.next(&self.header);
        self.position = HEADER_BYTES / 8;
        self.chunk = Some(chunk);
        self.store(record);
    }

    /// Says in the chunks themselves that records are left out from here on: salvage has nothing
    /// else to know it by.
    fn mark_partial(&mut self) {
        self.header.partial = true;
        if let Some(chunk) = &mut self.chunk {
            mark_partial(chunk.words());
        }
    }

    fn hand_back(&mut self) {
        if let (Some(mut chunk), Some(source)) = (self.chunk.take(), &self.source) {
            if self.encoder.is_ordered() {
                mark_ordered(chunk.words());
            }
            let key = ChunkKey { worker: self.header.worker, seq: self.header.seq - 1 };
            source.full(key, chunk);
        }
    }

    /// Hands the last chunk back.
    pub fn finish(mut self) -> CaptureState {
        self.hand_back();
        self.state
    }
}
