//! Whether the trace programs still see this process: the collecting thread is watched like a
//! worker, and it sleeps and wakes up all the time. When its switches leave no stamp any more, then
//! something from outside has stopped tracing (maps changed, programs gone).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use taillight_core::TimeSpan;

use super::layout::THREADS;
use super::programs::LoadedPrograms;

/// The collector's place among the threads.
pub const COLLECTOR_INDEX: usize = THREADS - 1;
/// Sleeps without a stamp that are no accident.
const MISSES: u32 = 10;

/// Watches the watching.
pub struct Heartbeat {
    programs: Arc<LoadedPrograms>,
    beat: HeartbeatState,
}

/// Stamps that come, or not.
#[derive(Debug, Default)]
struct HeartbeatState {
    /// The last stamp; 0 before the first.
    last: u64,
    missed: u32,
    /// No stamp.
    gaps: Vec<TimeSpan>,
}

impl Heartbeat {
    /// For the programs of this process.
    pub fn new(programs: Arc<LoadedPrograms>) -> Heartbeat {
        Heartbeat { programs, beat: HeartbeatState::default() }
    }

    /// Makes the calling thread the one that is watched.
    pub fn here(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        if let Ok(mut tids) = self.programs.tids.lock() {
            // Without it there is no pulse, which then says nothing.
            let _ = tids.insert(tid, COLLECTOR_INDEX as u32, 0);
        }
    }

    /// Looks for a new stamp; to be called by the watched thread after each sleep.
    pub fn look(&mut self) {
        let stamp = self.programs.threads.get(COLLECTOR_INDEX).last_in.load(Relaxed);
        self.beat.look(stamp);
    }

    /// The gaps, the last one until `now` where it still lasts; and since when that one, if it does.
    pub fn end(self, now: i64) -> (Vec<TimeSpan>, Option<i64>) {
        self.beat.end(now)
    }
}

impl HeartbeatState {
    fn look(&mut self, stamp: u64) {
        if stamp > self.last {
            if self.missed >= MISSES {
                self.gaps.push(TimeSpan::new(self.last as i64, stamp as i64));
            }
            (self.last, self.missed) = (stamp, 0);
        } else if self.last > 0 {
            self.missed += 1;
        }
    }

    fn end(mut self, now: i64) -> (Vec<TimeSpan>, Option<i64>) {
        let since = (self.missed >= MISSES).then_some(self.last as i64);
        self.gaps.extend(since.map(|from| TimeSpan::new(from, now)));
        (self.gaps, since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_after_stamps_is_a_stop_and_none_before() {
        let mut never = HeartbeatState::default();
        (0..100).for_each(|_| never.look(0));
        assert_eq!(never.end(9), (vec![], None), "the program was never there");
        let mut beat = HeartbeatState::default();
        beat.look(10);
        (0..5).for_each(|_| beat.look(10));
        beat.look(20);
        (0..MISSES).for_each(|_| beat.look(20));
        beat.look(90);
        (0..MISSES).for_each(|_| beat.look(90));
        let gaps = vec![TimeSpan::new(20, 90), TimeSpan::new(90, 200)];
        assert_eq!(beat.end(200), (gaps, Some(90)));
    }
}
