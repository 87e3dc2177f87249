//! What holds a worker back besides its schedule: joining late, think time, a stream that has
//! nothing new. And what the schedule's lateness came to.
//!
//! Think time is the worker's, not a slot's: after every N-th completion nothing is started until
//! the pause is over, counted from that completion's stamp. What is in flight goes on.

use taillight_core::plan::Think;
use taillight_core::probe::Probe;
use taillight_core::{Op, Result, Stamp};
use taillight_driver::Completion;

use super::Worker;
use super::flight::unknown_token;
use crate::clock::DisciplinedClock;
use crate::schedule::Schedule;

/// The backlog is looked at no more often than this, ns; a stall is seen by the first poll after.
const LOOK_NS: u64 = 1_000_000;

/// Holds a worker back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Nothing is started before.
    pub hold: Stamp,
    /// Completions until the next pause; 0: never.
    left: u32,
    every: u32,
    pause_ns: u64,
    next_look: Stamp,
    pub backlog_max: u64,
    /// Due and not yet started when the measured time was over; none before that.
    pub left_at_end: Option<u64>,
    /// When an operation was last complete.
    pub last: Stamp,
}

impl Pacing {
    /// A worker that begins at `start`.
    pub fn new(think: Option<Think>, start: Stamp) -> Pacing {
        let every = think.map_or(0, |t| t.every);
        Pacing {
            hold: start,
            left: every,
            every,
            pause_ns: think.map_or(0, |t| t.time.0),
            next_look: start,
            backlog_max: 0,
            left_at_end: None,
            last: start,
        }
    }

    /// Whether it ever holds anything back after `start`.
    pub fn matters(&self, start: Stamp) -> bool {
        self.every != 0 || self.hold > start
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

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Before a round of submits.
    pub(super) fn begin_round(&mut self) -> Result<()> {
        if self.keyed.is_some() {
            self.follow_up()?;
        }
        // Before the stream is looked at anew: who waits for it goes on waiting from round to round.
        self.tell_idle();
        if let Some(follow) = &mut self.follow {
            follow.begin();
        }
        Ok(())
    }

    /// Whether it may not start anything yet; then `wake` is when it may.
    #[inline]
    pub(super) fn held(&mut self, wake: &mut Stamp) -> bool {
        if self.pace.hold <= self.now {
            return false;
        }
        self.now = self.clock.now();
        if self.pace.hold <= self.now {
            return false;
        }
        *wake = self.recorder.boundary().min(self.pace.hold);
        true
    }

    /// Makes the drawn operation what keys, streams and verification need; false at the end of the
    /// worker's part of the data.
    #[inline]
    pub(super) fn dress(&mut self, slot: u32, op: &mut Op) -> bool {
        if let Some(keyed) = &mut self.keyed {
            *op = keyed.first(slot, *op, self.generator.field_sizes());
            if op.count > 1 {
                keyed.keep_keys(slot, op, self.generator.batch_keys());
            }
        }
        if self.generator.ended() {
            self.reached_limit = true;
            self.stop();
            return false;
        }
        if let Some(follow) = &mut self.follow {
            follow.place(slot, op);
        }
        if !op.kind.writes() && self.checker.is_some() {
            self.expect(slot, op);
        }
        true
    }

    /// A completion of a worker with extras.
    pub(super) fn complete_extra(&mut self, c: &Completion) -> Result<()> {
        let slot = c.token.slot().wrapping_sub(self.first_slot);
        match self.slots.get(slot as usize) {
            Some(f) if f.token == c.token => {}
            _ => return Err(unknown_token()),
        }
        self.pace.completed(self.now);
        if self.follow.is_some() {
            return self.complete_followed(slot, c);
        }
        let checked;
        let c = match self.checker.is_some() {
            true => {
                checked = self.check(slot, c);
                &checked
            }
            false => c,
        };
        if self.keyed.is_some() {
            return self.complete_keyed(slot, c);
        }
        self.complete_plain(c)
    }

    /// Tells whether something is due or in flight: a submit may block, and a poll may wait.
    pub(super) fn tell_idle(&mut self) {
        if self.idle.is_none() {
            return;
        }
        let due = self.schedule.peek().is_none_or(|at| at <= self.now);
        let waits = self.follow.as_ref().is_some_and(|f| f.waiting());
        let busy = self.in_flight() > 0 || waits || (due && self.now >= self.pace.hold);
        if let Some(idle) = &mut self.idle {
            idle.tell(busy, self.now, self.pace.last);
        }
    }
}
