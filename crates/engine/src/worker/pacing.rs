//! What holds a worker back besides its schedule: joining late, and think time.
//!
//! Think time is the worker's, not a slot's: after every N-th completion nothing is started until
//! the pause is over, counted from that completion's stamp. What is in flight goes on.

use taillight_core::Stamp;
use taillight_core::plan::Think;

/// Holds a worker back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// Nothing is started before.
    pub hold: Stamp,
    /// Completions until the next pause; 0: never.
    left: u32,
    every: u32,
    pause_ns: u64,
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
}
