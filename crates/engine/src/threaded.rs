//! Drives a worker on its own thread in real time.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use taillight_core::probe::Probe;
use taillight_core::{Clock, MonoClock, Result, Stamp};

use crate::clock::Kept;
use crate::worker::{Wait, Worker, WorkerEnd};

/// A sleeping thread wakes late by about this much; shorter waits are spun.
const SPIN_NS: u64 = 10_000;
/// Longest sleep, so that a stop request is seen.
const NAP_NS: u64 = 50_000_000;

/// Runs `worker` to its end. `stop` ends it early: in-flight operations are still recorded.
///
/// # Errors
/// Only when the run cannot go on; what was recorded is kept.
pub fn drive<C: Kept, P: Probe>(
    mut worker: Worker<C, P>,
    start: Stamp,
    stop: [&AtomicBool; 3],
) -> (Result<()>, WorkerEnd) {
    while MonoClock.now() < start {
        sleep_until(start);
    }
    let result = drive_loop(&mut worker, stop);
    (result, worker.finish())
}

fn drive_loop<C: Kept, P: Probe>(worker: &mut Worker<C, P>, stop: [&AtomicBool; 3]) -> Result<()> {
    loop {
        if stop.iter().any(|s| s.load(Ordering::Relaxed)) {
            worker.stop();
        }
        match worker.fill()? {
            Wait::Finished => return Ok(()),
            Wait::Until {
                until,
                in_flight: 0,
            } => {
                if !worker.await_stream(until) {
                    sleep_until(until);
                }
                worker.reap(0, until)?;
            }
            Wait::Until { until, .. } => worker.reap(1, until)?,
        }
    }
}

/// Sleeps until close to `until`; the rest is left to the caller's loop.
fn sleep_until(until: Stamp) {
    let now = MonoClock.now();
    let left = until.since(now).max(0) as u64;
    if left <= SPIN_NS {
        return;
    }
    let wake = now.plus((left - SPIN_NS).min(NAP_NS)).0;
    let time = rustix::time::Timespec {
        tv_sec: wake / 1_000_000_000,
        tv_nsec: wake % 1_000_000_000,
    };
    // An early wake by a signal is harmless: the caller looks at the clock again.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &time);
}
