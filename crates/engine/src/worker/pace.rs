//! What holds a worker back besides its schedule: joining late, think time, a stream that has
//! nothing new. And what the schedule's lateness came to.
//!
//! Think time is the worker's, not a slot's: after every N-th completion nothing is started until
//! the pause is over, counted from that completion's stamp. What is in flight goes on.

use taillight_core::Stamp;
use taillight_core::plan::Think;
use taillight_core::probe::Probe;

use super::Worker;
use crate::clock::Kept;
use crate::schedule::Schedule;

/// The backlog is looked at no more often than this, ns; a stall is seen by the first poll after.
const LOOK_NS: u64 = 1_000_000;

/// Holds a worker back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Nothing is started before.
    pub hold: Stamp,
    /// Completions until the next pause; 0: never.
    left: u32,
    every: u32,
    pause_ns: u64,
    next_look: Stamp,
    /// Deepest backlog seen.
    pub backlog_max: u64,
    /// When an operation was last complete.
    pub last: Stamp,
}

impl Pace {
    /// A worker that begins at `start`.
    pub fn new(think: Option<Think>, start: Stamp) -> Pace {
        let every = think.map_or(0, |t| t.every);
        Pace {
            hold: start,
            left: every,
            every,
            pause_ns: think.map_or(0, |t| t.time.0),
            next_look: start,
            backlog_max: 0,
            last: start,
        }
    }

    /// An operation was complete at `now`.
    #[inline(always)]
    pub fn completed(&mut self, now: Stamp) {
        self.last = now;
        if self.left != 0 {
            self.count(now);
        }
    }

    #[cold]
    fn count(&mut self, now: Stamp) {
        self.left -= 1;
        if self.left == 0 {
            self.left = self.every;
            self.hold = now.plus(self.pause_ns);
        }
    }

    /// Looks at the backlog at `now`, if the schedule is late and it is time to.
    #[inline(always)]
    pub fn look(&mut self, schedule: &mut Schedule, now: Stamp) {
        if now >= self.next_look && schedule.peek().is_some_and(|at| at < now) {
            self.look_now(schedule, now);
        }
    }

    #[cold]
    fn look_now(&mut self, schedule: &mut Schedule, now: Stamp) {
        self.backlog_max = self.backlog_max.max(schedule.due(now));
        self.next_look = now.plus(LOOK_NS);
    }
}

impl<C: Kept, P: Probe> Worker<C, P> {
    /// Before a round of submits, for workers that follow a stream or are watched for idleness.
    #[cold]
    pub(super) fn begin_round(&mut self) {
        if let Some(follow) = &mut self.follow {
            follow.begin();
        }
        self.tell_idle();
    }

    /// Whether nothing may be started yet, by the clock.
    #[cold]
    pub(super) fn held(&mut self) -> bool {
        self.now = self.clock.now();
        self.pace.hold > self.now
    }

    /// Tells whether something is due or in flight: a submit may block, and a poll may wait.
    pub(super) fn tell_idle(&mut self) {
        let due = self.schedule.peek().is_none_or(|at| at <= self.now);
        let waits = self.follow.as_ref().is_some_and(|f| f.waiting());
        let busy = self.in_flight() > 0 || waits || (due && self.now >= self.pace.hold);
        if let Some(idle) = &mut self.idle {
            idle.tell(busy, self.now, self.pace.last);
        }
    }
}
