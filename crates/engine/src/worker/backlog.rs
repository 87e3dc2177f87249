//! How far a worker lags behind its schedule: checked while it runs, reported at its end.

use taillight_core::Stamp;

use crate::schedule::Schedule;

/// The backlog is checked no more often than this, ns; a stall is seen by the first poll after.
const CHECK_NS: u64 = 1_000_000;

/// A worker's operations that are due and not yet started.
pub struct Backlog {
    next_check: Stamp,
    pub max: u64,
    /// Due and not yet started when the measured time was over; none before that.
    pub left_at_end: Option<u64>,
}

impl Backlog {
    /// The backlog of a worker that begins at `start`.
    pub fn new(start: Stamp) -> Backlog {
        Backlog { next_check: start, max: 0, left_at_end: None }
    }

    /// Checks the backlog at `now`, if the schedule is late and it is time to.
    #[inline(always)]
    pub fn check(&mut self, schedule: &mut Schedule, now: Stamp) {
        if now >= self.next_check && schedule.peek().is_some_and(|at| at < now) {
            self.check_now(schedule, now);
        }
    }

    #[cold]
    fn check_now(&mut self, schedule: &mut Schedule, now: Stamp) {
        self.max = self.max.max(schedule.due(now));
        self.next_check = now.plus(CHECK_NS);
    }
}
