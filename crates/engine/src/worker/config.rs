//! What a worker is made of, what it may do, what it says in the end: plain data between `run` and
//! the loop. A [`WorkerSpec`] is made from the plan, before there are threads; [`WorkerParts`] on the
//! worker's own thread; [`super::Worker`] takes both apart.

use taillight_capture::CaptureState;
use taillight_capture::chunk::Header;
use taillight_core::plan::IoPriority;
use taillight_core::probe::Probe;
use taillight_core::{OpKind, Stamp};
use taillight_driver::{Session, SessionSpec};

use super::{KeyedWorker, Strategies, StreamWorker};
use crate::clock::{ClockDrift, DisciplinedClock};
use crate::generator::{Generator, WorkerIndex};
use crate::payload::Filler;
use crate::recorder::{Recorder, Timeline};
use crate::schedule::Schedule;

/// What a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerWait {
    Finished,
    /// Until this stamp or a completion (when something is in flight).
    Until {
        until: Stamp,
        in_flight: u32,
    },
}

/// How much a worker may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Operations in the measure phase.
    pub operations: Option<u64>,
    /// Bytes asked in the measure phase.
    pub bytes: Option<u64>,
    /// How long in-flight operations are awaited after the last submit, ns.
    pub drain_timeout_ns: u64,
    /// How long after the end a late schedule may still issue what was due before it, ns.
    pub late_ns: u64,
}

impl WorkerLimits {
    /// Whether nothing more may be submitted.
    #[inline(always)]
    pub fn reached(&self) -> bool {
        self.operations == Some(0) || self.bytes == Some(0)
    }

    /// Takes note of an operation in the measure phase that asks for `bytes`.
    #[inline(always)]
    pub fn count(&mut self, bytes: u64) {
        if let Some(left) = &mut self.operations {
            *left = left.saturating_sub(1);
        }
        self.count_bytes(bytes);
    }

    /// Takes note of bytes that were not known when the operation was submitted.
    #[inline(always)]
    pub fn count_bytes(&mut self, bytes: u64) {
        if let Some(left) = &mut self.bytes {
            *left = left.saturating_sub(bytes);
        }
    }
}

/// What a worker did, besides what its recorder sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerEnd {
    /// What it did on a stream whose blocks carry stamps.
    pub stream: Option<super::StreamEnd>,
    pub capture: CaptureState,
    /// Operations due before the end that were never started.
    pub unsent: u64,
    /// Operations abandoned at the drain time-out.
    pub unfinished: u64,
    pub backlog_max: u64,
    /// Operations that found nothing because this run had deleted their key.
    pub misses: u64,
    /// Operations due and not yet submitted when the measured time was over: sent late, or never.
    pub left_at_end: u64,
    /// When its time is up.
    pub end: Stamp,
    /// When the worker ended: its last completion, or when it saw that nothing more was due.
    pub finished: Stamp,
    /// Its time was up, rather than a limit reached or a stop asked for.
    pub reached_end: bool,
    /// It synced files in the end: that is part of the measured time.
    pub synced: bool,
    /// Too many failures in a row: the target is gone.
    pub target_lost: bool,
    pub measured: bool,
    /// How well its clock followed CLOCK_MONOTONIC.
    pub drift: ClockDrift,
}

/// Everything about a worker that is known before its thread starts.
pub struct WorkerSpec {
    pub place: WorkerIndex,
    pub workload: u16,
    pub generator: Generator,
    pub schedule: Schedule,
    pub limits: WorkerLimits,
    pub session: SessionSpec,
    pub header: Header,
    /// CPU to run on.
    pub cpu: Option<u32>,
    /// Nice value of its thread.
    pub nice: Option<i32>,
    /// I/O priority of its thread.
    pub io_priority: Option<IoPriority>,
    /// Kinds of operation, for counters made before the start.
    pub kinds: Vec<OpKind>,
    pub payload: Filler,
    /// What operations on keys need.
    pub keyed: Option<Box<KeyedWorker>>,
    /// What operations on a stream need.
    pub stream: Option<Box<StreamWorker>>,
    /// When it joins, ns after the start of the load; `None`: there from the start.
    pub join: Option<u64>,
    /// When its workload ends, ns after the start of the measure phase.
    pub end: Option<u64>,
    /// Whether it is measured; load only when false.
    pub measured: bool,
    pub open_loop: bool,
    pub first_slot: u32,
}

/// What a worker gets on its own thread, once the load is about to begin.
pub struct WorkerParts<C: DisciplinedClock, P: Probe> {
    pub clock: C,
    pub handles: WorkerHandles<P>,
    pub recorder: Recorder,
    pub timeline: Timeline,
    pub strategies: Strategies,
}

/// A worker's own ends of target and tracing.
pub struct WorkerHandles<P> {
    pub session: Box<dyn Session>,
    /// Told of the worker's operations, where the run is traced.
    pub probe: P,
}
