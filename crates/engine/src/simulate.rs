//! Drives all workers on virtual time with one event queue: no threads, no sleeping, exact.

use std::sync::Arc;

use taillight_core::probe::Probe;
use taillight_core::{Clock, Result, Stamp};
use taillight_driver::VirtualTime;

use crate::threaded::StopSignals;
use crate::worker::{Worker, WorkerEnd, WorkerWait};

/// A clock that shows the target's virtual time.
#[derive(Clone)]
pub struct SimClock {
    time: Arc<dyn VirtualTime>,
}

impl SimClock {
    /// The clock of this event queue.
    pub fn new(time: Arc<dyn VirtualTime>) -> SimClock {
        SimClock { time }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Stamp {
        self.time.now()
    }
}

impl crate::clock::DisciplinedClock for SimClock {}

/// Runs `workers` to their ends, or all to the first one's that ends the run, calling `between` after every step of
/// time.
pub fn drive<P: Probe>(
    (workers, ends_run): (Vec<Worker<SimClock, P>>, &[bool]),
    time: &Arc<dyn VirtualTime>,
    stop: StopSignals<'_>,
    mut between: impl FnMut(),
) -> (Result<()>, Vec<WorkerEnd>) {
    let mut workers: Vec<_> = workers.into_iter().map(Some).collect();
    let mut ends: Vec<_> = workers.iter().map(|_| None).collect();
    let result = event_loop(&mut workers, (&mut ends, ends_run), time, stop, &mut between);
    for (worker, end) in workers.into_iter().zip(&mut ends) {
        if let Some(worker) = worker {
            *end = Some(worker.finish());
        }
    }
    (result, ends.into_iter().flatten().collect())
}

fn event_loop<P: Probe>(
    workers: &mut [Option<Worker<SimClock, P>>],
    (ends, ends_run): (&mut [Option<WorkerEnd>], &[bool]),
    time: &Arc<dyn VirtualTime>,
    stop: StopSignals<'_>,
    between: &mut impl FnMut(),
) -> Result<()> {
    loop {
        let mut next = Stamp::NEVER;
        let mut alive = false;
        let measuring = workers.iter().flatten().any(Worker::measured);
        let over = ends.iter().zip(ends_run).any(|(end, ends_run)| end.is_some() && *ends_run);
        for (slot, end) in workers.iter_mut().zip(ends.iter_mut()) {
            let Some(worker) = slot else { continue };
            // Load ends when everything that is measured has, and all with a worker that ends the run.
            if over || (!measuring && !worker.measured()) {
                worker.stop();
            }
            stop.tell(worker);
            match worker.fill()? {
                WorkerWait::Finished => *end = slot.take().map(Worker::finish),
                WorkerWait::Until { until, .. } => {
                    alive = true;
                    next = next.min(until);
                }
            }
        }
        if !alive {
            return Ok(());
        }
        let event = time.next_event().unwrap_or(Stamp::NEVER);
        time.advance_to(next.min(event));
        for worker in workers.iter_mut().flatten() {
            worker.reap(0, time.now())?;
        }
        between();
    }
}
