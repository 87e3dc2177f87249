//! What a worker is made of, what it may do, what it says in the end.

use taillight_core::Stamp;
use taillight_core::probe::Probe;
use taillight_driver::Session;
use taillight_rundir::chunk::Header;

use super::{Follow, Keyed, Pace};
use crate::clock::{Discipline, Kept};
use crate::generator::Generator;
use crate::idle::IdleWatch;
use crate::payload::Filler;
use crate::recorder::{CaptureState, Recorder, Timeline};
use crate::schedule::Schedule;
use crate::verify::Checker;

/// What a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Everything is done.
    Finished,
    /// Until this stamp or a completion (when something is in flight).
    Until {
        /// Wake by then.
        until: Stamp,
        /// Operations in flight.
        in_flight: u32,
    },
}

/// How much a worker may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
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
    /// The capture.
    pub capture: CaptureState,
    /// Operations due before the end that were never started.
    pub unsent: u64,
    /// Operations abandoned at the drain time-out.
    pub unfinished: u64,
    /// Deepest backlog seen.
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
    /// False: load only.
    pub measured: bool,
    /// How well its clock followed CLOCK_MONOTONIC.
    pub discipline: Discipline,
}

/// The parts of a worker.
pub struct Parts<C: Kept, P: Probe> {
    /// Source of stamps.
    pub clock: C,
    /// Told of every operation.
    pub probe: P,
    /// The driver's handle.
    pub session: Box<dyn Session>,
    /// What.
    pub generator: Generator,
    /// When.
    pub schedule: Schedule,
    /// What happened.
    pub recorder: Recorder,
    /// Boundaries.
    pub timeline: Timeline,
    /// How much.
    pub limits: Limits,
    /// What writes carry.
    pub payload: Filler,
    /// Seals writes and judges reads, when the plan verifies.
    pub checker: Option<Box<Checker>>,
    /// Some operation writes.
    pub writes: bool,
    /// What operations on keys need.
    pub keyed: Option<Box<Keyed>>,
    /// What operations on a stream need.
    pub follow: Option<Box<Follow>>,
    /// What holds it back besides its schedule; starts with the load.
    pub pace: Pace,
    /// Told what is waited for.
    pub idle: Option<IdleWatch>,
    /// False: load only.
    pub measured: bool,
    /// What [`super::rounds_fit`] says of the plan.
    pub rounds: bool,
    /// Operations in flight at most.
    pub depth: u32,
    /// First global slot.
    pub first_slot: u32,
    /// What capture records share.
    pub header: Header,
}

impl<C: Kept, P: Probe> Parts<C, P> {
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
