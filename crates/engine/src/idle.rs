//! Ends a run in which nothing completes any more although something is due or in flight.
//!
//! Workers tell when they have something to wait for and when an operation was last complete; the
//! engine's own thread looks at all of them. Off unless the plan has an idle time-out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use taillight_core::units::Span;
use taillight_core::{Error, Stamp};

/// What the workers tell.
#[derive(Debug)]
pub struct Idle {
    timeout_ns: u64,
    workers: Box<[WorkerActivity]>,
}

#[derive(Debug, Default)]
struct WorkerActivity {
    /// Time of its last completion, or when it began to wait for one.
    last: AtomicI64,
    /// Something is due or in flight.
    busy: AtomicBool,
}

impl Idle {
    /// For so many workers.
    pub fn new(timeout_ns: u64, workers: usize) -> Idle {
        Idle { timeout_ns, workers: (0..workers).map(|_| WorkerActivity::default()).collect() }
    }

    /// The error of a run that the time-out ended.
    pub fn error(&self) -> Error {
        Error::target("no operation was complete for the idle time-out")
            .with("run.idle_timeout", Span(self.timeout_ns))
            .hint("look at what stalled, or give run.idle_timeout more time")
    }

    /// Whether a worker waits, and for longer than the time-out none had a completion or began to wait.
    pub fn timed_out(&self, now: Stamp) -> bool {
        let busy = |w: &&WorkerActivity| w.busy.load(Ordering::Acquire);
        let last = |w: &WorkerActivity| w.last.load(Ordering::Relaxed);
        let latest = self.workers.iter().map(last).max().unwrap_or(0);
        self.workers.iter().any(|w| busy(&w))
            && now.since(Stamp(latest)) > i64::try_from(self.timeout_ns).unwrap_or(i64::MAX)
    }
}

/// One worker's side.
pub struct IdleWatch {
    shared: Arc<Idle>,
    number: usize,
    busy: bool,
}

impl IdleWatch {
    /// The side of worker `number`.
    pub fn new(shared: Arc<Idle>, number: usize) -> IdleWatch {
        IdleWatch { shared, number, busy: false }
    }

    /// Notes whether something is due or in flight at `now`, and when an operation was last complete.
    pub fn tell(&mut self, busy: bool, now: Stamp, done: Stamp) {
        let Some(one) = self.shared.workers.get(self.number) else {
            return;
        };
        let began = busy && !self.busy;
        let last = if began { now } else { done };
        one.last.fetch_max(last.0, Ordering::Relaxed);
        if busy != self.busy {
            one.busy.store(busy, Ordering::Release);
            self.busy = busy;
        }
    }
}

impl Drop for IdleWatch {
    fn drop(&mut self) {
        let last = self.shared.workers.get(self.number);
        if let Some(one) = last {
            one.busy.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fires_only_when_somebody_waits_and_nobody_completes() {
        let idle = Arc::new(Idle::new(100, 2));
        let mut a = IdleWatch::new(idle.clone(), 0);
        let mut b = IdleWatch::new(idle.clone(), 1);
        assert!(!idle.timed_out(Stamp(1_000_000)), "nobody waits");
        a.tell(true, Stamp(1_000_000), Stamp(0));
        assert!(!idle.timed_out(Stamp(1_000_100)));
        assert!(idle.timed_out(Stamp(1_000_101)));
        b.tell(true, Stamp(1_000_050), Stamp(0));
        b.tell(false, Stamp(1_000_090), Stamp(1_000_080));
        assert!(!idle.timed_out(Stamp(1_000_180)), "the other one completes");
        assert!(idle.timed_out(Stamp(1_000_181)));
        drop(a);
        assert!(!idle.timed_out(Stamp(2_000_000)), "who has ended waits for nothing");
    }
}
