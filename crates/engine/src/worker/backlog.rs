//! How far a worker lags behind its schedule: looked at while it runs, reported at its end.

use taillight_core::Stamp;

use crate::schedule::Schedule;

/// The backlog is looked at no more often than this, ns; a stall is seen by the first poll after.
const LOOK_NS: u64 = 1_000_000;

/// A worker's operations that are due and not yet started.
pub struct Backlog {
    next_look: Stamp,
    pub max: u64,
    /// Due and not yet started when the measured time was over; none before that.
    pub left_at_end: Option<u64>,
}

impl Backlog {
    /// The backlog of a worker that begins at `start`.
    pub fn new(start: Stamp) -> Backlog {
        Backlog { next_look: start, max: 0, left_at_end: None }
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
        self.max = self.max.max(schedule.due(now));
        self.next_look = now.plus(LOOK_NS);
    }
}
