//! What is known about an I/O beside its own stamps.

use crate::events::Events;
use crate::events::event::{Gap, OffCpu, Reclaim};
use crate::events::list::overlapping;
use crate::events::rounds::BlockRound;
use crate::phase::Phases;

/// What is known beside the I/O's own stamps.
#[derive(Debug, Clone, Copy, Default)]
pub struct IoContext<'a> {
    /// Everything, for what other threads did meanwhile.
    pub all: Option<&'a Events>,
    /// The worker's stretches off the CPU, by time, not overlapping; where an io_uring worker thread acts, that
    /// thread's.
    pub off: &'a [OffCpu],
    /// The same thread's direct reclaims, by time.
    pub reclaim: &'a [Reclaim],
    /// Events were lost or threads not watched: time without an event is not known to be on CPU.
    pub blind: bool,
    /// Only when threads ran was seen: nothing below the system call.
    pub threads_only: bool,
    /// Times in which nothing was seen: of this worker, and of all.
    pub gaps: [&'a [Gap]; 2],
    /// The program has a store in it, which sleeps in the program's own threads.
    pub store: bool,
    /// What such I/Os usually take, once that is known.
    pub usual: Option<Phases>,
    /// Another I/O of the run read the page that this one wanted, and had it then.
    pub page_ns: Option<i64>,
    /// Its earlier rounds of parts, by time.
    pub earlier: &'a [BlockRound],
    /// What the io_uring worker thread that did it left off the CPU, by time.
    pub worker_off: &'a [OffCpu],
    /// The lowest device that was seen of it is made of others; none where that is not known.
    pub stacked: Option<bool>,
}

impl<'a> IoContext<'a> {
    /// Whether a rule is left out.
    pub fn without(&self, rule: &str) -> bool {
        self.all.is_some_and(|all| all.without(rule))
    }

    /// Off-CPU intervals, in a time, of the threads that did the I/O: its own, and io_uring's worker threads.
    pub fn off_cpu(&self, from: i64, to: i64) -> impl Iterator<Item = &'a OffCpu> + use<'a> {
        let lists = [self.off, self.worker_off];
        lists.into_iter().flat_map(move |list| overlapping(list, from, to))
    }

    /// What is known beside an I/O of this worker.
    pub fn of(events: &'a Events, worker: u64) -> IoContext<'a> {
        IoContext {
            all: Some(events),
            off: events.off(worker),
            reclaim: events.reclaim.get(&worker).map_or(&[], Vec::as_slice),
            blind: events.blind,
            threads_only: events.threads_only,
            gaps: [worker, u64::MAX].map(|w| events.gaps.get(&w).map_or(&[][..], Vec::as_slice)),
            store: events.store,
            usual: None,
            page_ns: None,
            earlier: &[],
            worker_off: &[],
            stacked: None,
        }
    }
}
