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

/// A worker on virtual time, and how it ended.
pub struct SimulatedWorker<P: Probe> {
    /// `None` once the worker has ended.
    running: Option<Worker<SimClock, P>>,
    end: Option<WorkerEnd>,
    /// Whether its end ends all workers.
    ends_run: bool,
    /// Its end ends all workers with the same number.
    group: Option<usize>,
}

impl<P: Probe> SimulatedWorker<P> {
    pub fn new(
        worker: Worker<SimClock, P>,
        ends_run: bool,
        group: Option<usize>,
    ) -> SimulatedWorker<P> {
        SimulatedWorker { running: Some(worker), end: None, ends_run, group }
    }

    fn into_end(self) -> Option<WorkerEnd> {
        self.end.or_else(|| self.running.map(Worker::finish))
    }
}

/// Runs `workers` to their ends, or stops all once one that ends the run has ended, calling `between` after every step
/// of time.
pub fn drive<P: Probe>(
    mut workers: Vec<SimulatedWorker<P>>,
    time: &Arc<dyn VirtualTime>,
    stop: StopSignals<'_>,
    mut between: impl FnMut(),
) -> (Result<()>, Vec<WorkerEnd>) {
    let result = event_loop(&mut workers, time, stop, &mut between);
    (result, workers.into_iter().filter_map(SimulatedWorker::into_end).collect())
}

fn event_loop<P: Probe>(
    workers: &mut [SimulatedWorker<P>],
    time: &Arc<dyn VirtualTime>,
    stop: StopSignals<'_>,
    between: &mut impl FnMut(),
) -> Result<()> {
    loop {
        let mut next = Stamp::NEVER;
        let mut alive = false;
        let measuring = workers.iter().flat_map(|w| &w.running).any(Worker::measured);
        let over = workers.iter().any(|w| w.end.is_some() && w.ends_run);
        let ended = workers.iter().filter(|w| w.end.is_some()).filter_map(|w| w.group);
        let ended: Vec<usize> = ended.collect();
        for SimulatedWorker { running, end, group, .. } in workers.iter_mut() {
            let Some(worker) = running else { continue };
            let over = over || group.is_some_and(|group| ended.contains(&group));
            // Load ends when everything that is measured has, and all with a worker that ends the run.
            if over || (!measuring && !worker.measured()) {
                worker.stop();
            }
            stop.tell(worker);
            match worker.fill()? {
                WorkerWait::Finished => *end = running.take().map(Worker::finish),
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
        for worker in workers.iter_mut().flat_map(|w| &mut w.running) {
            worker.reap(0, time.now())?;
        }
        between();
    }
}
