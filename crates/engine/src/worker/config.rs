//! What a worker is made of, what it may do, what it says in the end.

use taillight_core::Stamp;
use taillight_core::probe::Probe;
use taillight_driver::Session;
use taillight_rundir::chunk::Header;

use super::{KeyedWorker, Pacing, StreamWorker};
use crate::clock::{ClockDrift, DisciplinedClock};
use crate::generator::Generator;
use crate::idle::IdleWatch;
use crate::payload::Filler;
use crate::recorder::{CaptureState, Recorder, Timeline};
use crate::schedule::Schedule;
use crate::verify::Checker;

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

/// What a worker did, besides what its recorder sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerEnd {
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
    /// When the last operation was complete.
    pub finished: Stamp,
    /// Its time was up, rather than a limit reached or a stop asked for.
    pub reached_end: bool,
    /// Too many failures in a row: the target is gone.
    pub gone: bool,
    pub measured: bool,
    /// How well its clock followed CLOCK_MONOTONIC.
    pub discipline: ClockDrift,
}

/// The parts of a worker.
pub struct WorkerConfig<C: DisciplinedClock, P: Probe> {
    pub clock: C,
    /// Told of every operation.
    pub probe: P,
    pub session: Box<dyn Session>,
    pub generator: Generator,
    pub schedule: Schedule,
    pub recorder: Recorder,
    pub timeline: Timeline,
    pub limits: WorkerLimits,
    pub payload: Filler,
    /// Seals writes and judges reads, when the plan verifies.
    pub checker: Option<Box<Checker>>,
    pub writes: bool,
    /// What operations on keys need.
    pub keyed: Option<Box<KeyedWorker>>,
    /// What operations on a stream need.
    pub follow: Option<Box<StreamWorker>>,
    /// What holds it back besides its schedule; starts with the load.
    pub pace: Pacing,
    /// Told what is waited for.
    pub idle: Option<IdleWatch>,
    pub measured: bool,
    /// What [`super::rounds_fit`] says of the plan.
    pub rounds: bool,
    /// Operations in flight at most.
    pub depth: u32,
    pub first_slot: u32,
    /// What capture records share.
    pub header: Header,
}

impl<C: DisciplinedClock, P: Probe> WorkerConfig<C, P> {
    /// Whether the plain loop is not enough.
    pub fn extras(&self) -> bool {
        self.keyed.is_some()
            || self.follow.is_some()
            || self.checker.is_some()
            || self.idle.is_some()
            || self.generator.ends()
            || self.pace.matters(self.timeline.start)
    }
}
