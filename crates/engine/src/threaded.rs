//! Drives a worker on its own thread in real time.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use taillight_core::probe::Probe;
use taillight_core::{Clock, MonoClock, Result, Stamp};

use crate::clock::DisciplinedClock;
use crate::worker::{Worker, WorkerEnd, WorkerWait};

/// A sleeping thread wakes late by at least this much; shorter waits are spun.
const SPIN_NS: u64 = 10_000;
/// Spun at most before something is due. Idle CPUs, virtual ones above all, wake a thread 20 to 100 us
/// late, which would be charged to the storage.
const LONGEST_SPIN_NS: u64 = 100_000;
/// This part of a wait may be spun, though at least [`SPIN_NS`] and at most [`LONGEST_SPIN_NS`]: with waits of 160 us
/// and more precision costs a worker at most 1/16 of a core, and all of them 1/16 of the machine.
const SPUN_PART: u64 = 16;
/// Longest sleep, so that a stop request is seen.
const NAP_NS: u64 = 50_000_000;

/// How much of a wait each worker may spin. Workers that share CPUs share the sixteenth of the machine; they
/// also wait longer for the same rate, so that what is spun before an operation stays the same.
#[derive(Debug, Clone, Copy)]
pub struct SpinShare {
    /// At least `cpus`.
    workers: u64,
    cpus: u64,
}

impl SpinShare {
    /// The share of one of so many workers on so many CPUs.
    pub fn new(workers: usize, cpus: usize) -> SpinShare {
        let cpus = cpus.max(1) as u64;
        SpinShare { workers: cpus.max(workers as u64), cpus }
    }

    /// On the CPUs that this thread may use. For a thread that is not pinned: a worker on one CPU would be told of
    /// that one.
    pub fn here(workers: usize) -> SpinShare {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        SpinShare::new(workers, cpus)
    }

    /// What may be spun of a wait of `left`, ns.
    fn of(self, left: u64) -> u64 {
        let share = left.saturating_mul(self.cpus) / self.workers / SPUN_PART;
        share.clamp(SPIN_NS, LONGEST_SPIN_NS)
    }
}

/// What ends a worker before its own limits do: in-flight operations are still recorded.
#[derive(Clone, Copy)]
pub struct StopSignals<'a> {
    /// Somebody asked the run to end.
    pub requested: &'a AtomicBool,
    /// Another worker failed, or nothing completes any more.
    pub abort: &'a AtomicBool,
    /// What it loads for is over: everything that is measured, or the run.
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

/// Runs `worker` to its end. `stop` ends it early: in-flight operations are still recorded. Errors: only
/// when the run cannot go on; what was recorded is kept.
///
/// Into its caller, with the loop: the worker then lies in that frame, and no pointer to it takes a register of the hot
/// loop.
#[inline(always)]
pub fn drive<C: DisciplinedClock, P: Probe>(
    mut worker: Worker<C, P>,
    start: Stamp,
    spin: SpinShare,
    stop: StopSignals<'_>,
) -> (Result<()>, WorkerEnd) {
    while MonoClock.now() < start {
        sleep_until(start, spin);
    }
    let result = drive_loop(&mut worker, spin, stop);
    (result, worker.finish())
}

#[inline(always)]
fn drive_loop<C: DisciplinedClock, P: Probe>(
    worker: &mut Worker<C, P>,
    spin: SpinShare,
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
fn sleep_until(until: Stamp, spin: SpinShare) {
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
    let meant = SPIN_NS as i64 + 1..=LONGEST_SPIN_NS as i64;
    while meant.contains(&until.since(MonoClock.now())) {
        std::hint::spin_loop();
    }
}

/// How much of a wait of `left` to sleep, ns.
fn nap(left: u64, spin: SpinShare) -> u64 {
    (left - spin.of(left).min(left)).min(NAP_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_spun_for_a_sixteenth_but_10_us_at_least_and_100_us_at_most() {
        for (left, workers, expected) in [
            (100_000, 1, 90_000),
            (1_000_000, 2, 937_500),
            (10_000_000, 2, 9_900_000),
            (1_000_000, 8, 984_375),
            (1_000_000_000, 1, NAP_NS),
            (5_000, 1, 0),
        ] {
            assert_eq!(nap(left, SpinShare::new(workers, 2)), expected, "{left} {workers}");
        }
    }

    #[test]
    fn more_workers_at_one_rate_spin_as_long_before_an_operation() {
        // 1,000 a second on two CPUs.
        for workers in [2, 3, 4, 32, 500] {
            let left = workers as u64 * 1_000_000;
            assert_eq!(SpinShare::new(workers, 2).of(left), LONGEST_SPIN_NS, "{workers} workers");
        }
        assert_eq!(SpinShare::new(1, 0).of(u64::MAX), LONGEST_SPIN_NS);
    }
}
