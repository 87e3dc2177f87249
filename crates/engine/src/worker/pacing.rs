//! What holds a worker back besides its schedule: joining late, and think time. (A flow sets `hold` as well.)
//!
//! Think time is the worker's, not a slot's: in a pause nothing is started, and what is in flight goes on. By count, a
//! pause follows every N-th completion and is counted from its stamp. By time, load and pauses alternate in cycles that
//! are counted from when the worker joins: they are the same for all workers that join together. The first completion
//! after the begin of such a pause starts it; it ends with its cycle.

use taillight_core::Stamp;
use taillight_core::plan::Think;

/// Holds a worker back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// No operation is started before.
    pub hold: Stamp,
    /// Completions until the next pause; 0: never.
    left: u32,
    every: u32,
    pause_ns: u64,
    /// With pauses by time: when the next pause begins, and the length of load and pause together, ns.
    until: Stamp,
    cycle_ns: u64,
    /// When an operation was last complete, for `IdleWatch`.
    pub last: Stamp,
}

impl Pacing {
    /// Of a worker that joins at `start`. With `after` pauses go by time, and `every` counts for nothing.
    pub fn new(think: Option<Think>, start: Stamp) -> Pacing {
        let after = think.and_then(|t| t.after);
        let every = think.filter(|_| after.is_none()).map_or(0, |t| t.every);
        let pause_ns = think.map_or(0, |t| t.time.0);
        Pacing {
            hold: start,
            left: every,
            every,
            pause_ns,
            until: after.map_or(Stamp(i64::MAX), |after| start.plus(after.0)),
            cycle_ns: after.map_or(0, |after| after.0.saturating_add(pause_ns)),
            last: start,
        }
    }

    /// Whether it ever holds the worker back after `start`, when the load begins. If not, and where nothing else needs
    /// `Strategies`, the worker runs without them.
    pub fn matters(&self, start: Stamp) -> bool {
        self.every != 0 || self.cycle_ns != 0 || self.hold > start
    }

    /// An operation was complete at `now`.
    #[inline(always)]
    pub fn completed(&mut self, now: Stamp) {
        self.last = now;
        if self.left != 0 {
            self.count(now);
        }
        if now >= self.until {
            self.rest(now);
        }
    }

    /// The load of a cycle was over at `until`, and its pause ends with the cycle. Where more cycles have begun since
    /// the completion before, the last one counts whose load is over.
    #[cold]
    fn rest(&mut self, now: Stamp) {
        while self.until <= now {
            self.hold = self.until.plus(self.pause_ns);
            self.until = self.until.plus(self.cycle_ns);
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
}
