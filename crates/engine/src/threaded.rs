//! Drives a worker on its own thread in real time.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use taillight_core::probe::Probe;
use taillight_core::{Clock, MonoClock, Result, Stamp};

use crate::clock::DisciplinedClock;
use crate::worker::{Worker, WorkerEnd, WorkerWait};

/// A sleeping thread wakes late by at least this much; shorter waits are spun.
const SPIN_NS: u64 = 10_000;
/// Spun at most before something is due, where each worker can have a CPU. Idle CPUs, virtual ones
/// above all, wake a thread 20 to 100 us late, which would be charged to the storage.
const LONGEST_SPIN_NS: u64 = 100_000;
/// This part of a wait may be spun: precision costs a worker 1/16 of a core at most.
const SPUN_PART: u64 = 16;
/// Longest sleep, so that a stop request is seen.
const NAP_NS: u64 = 50_000_000;

/// How long one of so many workers may spin before something is due, ns. Workers that share CPUs
/// would take the time from each other.
pub fn longest_spin(workers: usize) -> u64 {
    match std::thread::available_parallelism() {
        Ok(cpus) if workers <= cpus.get() => LONGEST_SPIN_NS,
        _ => SPIN_NS,
    }
}

/// What ends a worker before its own limits do: in-flight operations are still recorded.
#[derive(Clone, Copy)]
pub struct StopSignals<'a> {
    /// Somebody asked the run to end.
    pub requested: &'a AtomicBool,
    /// Another worker failed, or nothing completes any more.
    pub abort: &'a AtomicBool,
    /// Everything that is measured has ended; only load looks at it.
    pub load_over: Option<&'a AtomicBool>,
}

impl StopSignals<'_> {
    /// Stops the worker if any of them is set.
    pub fn tell<C: DisciplinedClock, P: Probe>(&self, worker: &mut Worker<C, P>) {
        let set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if set(self.requested) {
            worker.stop_soon();
        } else if set(self.abort) || self.load_over.is_some_and(set) {
            worker.stop();
        }
    }
}

/// Runs `worker` to its end. `stop` ends it early: in-flight operations are still recorded. `spin`
/// is what [`longest_spin`] says. Errors: only when the run cannot go on; what was recorded is
/// kept.
pub fn drive<C: DisciplinedClock, P: Probe>(
    mut worker: Worker<C, P>,
    start: Stamp,
    spin: u64,
    stop: StopSignals<'_>,
) -> (Result<()>, WorkerEnd) {
    while MonoClock.now() < start {
        sleep_until(start, spin);
    }
    let result = drive_loop(&mut worker, spin, stop);
    (result, worker.finish())
}

fn drive_loop<C: DisciplinedClock, P: Probe>(
    worker: &mut Worker<C, P>,
    spin: u64,
    stop: StopSignals<'_>,
) -> Result<()> {
    loop {
        stop.tell(worker);
        match worker.fill()? {
            WorkerWait::Finished => return Ok(()),
            WorkerWait::Until { until, in_flight: 0 } => {
                if !worker.await_stream(until) {
                    sleep_until(until, spin);
                }
                worker.reap(0, until)?;
            }
            WorkerWait::Until { until, .. } => worker.reap(1, until)?,
        }
    }
}

/// Sleeps and spins until close to `until`; the rest is left to the caller's loop.
fn sleep_until(until: Stamp, spin: u64) {
    let now = MonoClock.now();
    let left = until.since(now).max(0) as u64;
    if left <= SPIN_NS {
        return;
    }
    let wake = now.plus(nap(left, spin)).0;
    let time =
        rustix::time::Timespec { tv_sec: wake / 1_000_000_000, tv_nsec: wake % 1_000_000_000 };
    // An early wake by a signal is harmless: the caller looks at the clock again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
    // After a nap that ended early the caller comes again.
    let meant = SPIN_NS as i64 + 1..=spin as i64;
    while meant.contains(&until.since(MonoClock.now())) {
        std::hint::spin_loop();
    }
}

/// How much of a wait of `left` to sleep, ns.
fn nap(left: u64, spin: u64) -> u64 {
    let spun = (left / SPUN_PART).clamp(SPIN_NS, spin.max(SPIN_NS));
    (left - spun.min(left)).min(NAP_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_spun_for_a_sixteenth_at_most_and_never_longer_than_the_spin() {
        for (left, spin, expected) in [
            (100_000, LONGEST_SPIN_NS, 90_000),
            (1_000_000, LONGEST_SPIN_NS, 937_500),
            (10_000_000, LONGEST_SPIN_NS, 9_900_000),
            (10_000_000, SPIN_NS, 9_990_000),
            (1_000_000_000, LONGEST_SPIN_NS, NAP_NS),
            (5_000, LONGEST_SPIN_NS, 0),
        ] {
            assert_eq!(nap(left, spin), expected, "{left} {spin}");
        }
    }
}
