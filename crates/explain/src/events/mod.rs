//! The events of a trace, by kind, thread and time, with what the trace says of itself; and what is asked of events as
//! a whole: whether all I/O of others was seen, and what is over and may be forgotten. Each other question has a
//! module.

pub mod context;
pub mod decode;
pub mod disks;
pub mod event;
pub mod impossible;
pub mod io;
pub mod list;
pub mod pages;
pub mod rounds;
pub mod slow;
pub mod stacks;
pub mod thread;

use std::collections::BTreeMap;

use taillight_core::TimeSpan;
use taillight_rundir::trace_info::TraceInfo;

use crate::events::disks::Disks;
use crate::events::event::*;
use crate::events::list::{EventList, KeepsEvents};

/// Events by kind; those of threads by worker.
#[derive(Debug, Default)]
pub struct Events {
    /// Workers off the CPU, by worker and time.
    pub off: BTreeMap<u64, Vec<OffCpu>>,
    /// Direct reclaims of the workers themselves, by worker and time.
    pub reclaim: BTreeMap<u64, Vec<Reclaim>>,
    /// Times in which nothing was seen, by worker; of all workers under `u64::MAX`.
    pub gaps: BTreeMap<u64, Vec<Gap>>,
    /// The same of single I/Os.
    pub io_gaps: EventList<Gap>,
    /// io_uring's own threads off the CPU.
    pub ring_threads: EventList<RingThread>,
    /// Direct reclaims of io_uring worker threads.
    pub worker_reclaim: EventList<Reclaim>,
    /// Threads of the kernel, or of the store's server, off the CPU.
    pub helpers: EventList<Helper>,
    /// Parts of I/Os that a limit had held back.
    pub held: EventList<HeldPart>,
    /// I/Os on the run's disks that are given to none of its I/Os.
    pub neighbours: EventList<Neighbour>,
    pub commits: EventList<Commit>,
    pub flushes: EventList<Flush>,
    pub quota: EventList<CpuQuota>,
    /// Times in which the thread that gathers events did not run.
    pub still: EventList<Still>,
    pub stolen: EventList<Stolen>,
    /// Times in which a JVM had stopped its threads.
    pub pauses: EventList<Pause>,
    /// Sleeping without an event is possible.
    pub blind: bool,
    /// I/Os were traced, and there is none of them.
    pub gone: bool,
    /// Only threads were watched.
    pub threads_only: bool,
    /// The program has a store in it.
    pub store: bool,
    /// The benchmark's own process, where it is known.
    pub own_pid: Option<u64>,
    /// The run's disks, and which of them were flushed.
    pub disks: Disks,
    /// A rule of `wait_graph` that is left out, to see what it is for.
    pub left_out: Option<String>,
    /// Between these two samples a store held its writers back for so long, ns.
    pub stalls: Vec<(i64, i64, u64)>,
    /// I/Os of others, also those that are not kept here, and whether the end of one of them was not seen.
    pub beside: u64,
    pub beside_open: bool,
}

impl Events {
    /// Whether a rule is left out.
    pub fn without(&self, rule: &str) -> bool {
        self.left_out.as_deref() == Some(rule)
    }

    /// When this worker was off the CPU, by time; empty where nothing is known of it.
    pub fn off(&self, worker: u64) -> &[OffCpu] {
        self.off.get(&worker).map_or(&[], Vec::as_slice)
    }

    /// When the polling thread of io_uring was off the CPU in a time, which takes the requests of this worker from the
    /// queue and tells it of their ends.
    pub fn polling_off(&self, worker: u64, time: TimeSpan) -> impl Iterator<Item = &OffCpu> {
        self.ring_threads.of(Whose::Polling(worker), time.from, time.to).map(|w| &w.off)
    }

    /// Takes an event in, each where its kind belongs: what has no worker is under `u64::MAX`, gaps and reclaims of one
    /// I/O have lists of their own. [`Events::sort`] must follow before events are looked up.
    pub fn add(&mut self, event: impl Into<LayerEvent>) {
        let number = |worker: Option<u64>| worker.unwrap_or(u64::MAX);
        match event.into() {
            LayerEvent::OffCpu(one) => self.off.entry(number(one.worker)).or_default().push(one),
            LayerEvent::Reclaim(one) if one.token.is_none() => {
                self.reclaim.entry(number(one.worker)).or_default().push(one)
            }
            LayerEvent::Gap(one) if one.token.is_none() => {
                self.gaps.entry(number(one.worker)).or_default().push(one)
            }
            LayerEvent::Gap(one) => self.io_gaps.push(one),
            LayerEvent::RingThread(one) => self.ring_threads.push(one),
            LayerEvent::Reclaim(one) => self.worker_reclaim.push(one),
            LayerEvent::Helper(one) => self.helpers.push(one),
            LayerEvent::HeldPart(one) => self.held.push(one),
            LayerEvent::Neighbour(one) => {
                self.count(&one);
                self.neighbours.push(one);
            }
            LayerEvent::Commit(one) => self.commits.push(one),
            LayerEvent::Flush(one) => {
                one.dev.iter().for_each(|disk| self.disks.flush(disk, one.end_ns));
                self.flushes.push(one);
            }
            LayerEvent::CpuQuota(one) => self.quota.push(one),
            LayerEvent::Still(one) => self.still.push(one),
            LayerEvent::Stolen(one) => self.stolen.push(one),
            LayerEvent::Pause(one) => self.pauses.push(one),
        }
    }

    /// Every list but the gaps of workers.
    fn lists(&mut self) -> impl Iterator<Item = &mut dyn KeepsEvents> {
        let by_kind: [&mut dyn KeepsEvents; 12] = [
            &mut self.io_gaps,
            &mut self.ring_threads,
            &mut self.worker_reclaim,
            &mut self.helpers,
            &mut self.held,
            &mut self.neighbours,
            &mut self.commits,
            &mut self.flushes,
            &mut self.quota,
            &mut self.still,
            &mut self.stolen,
            &mut self.pauses,
        ];
        let off = self.off.values_mut().map(|list| list as &mut dyn KeepsEvents);
        let reclaim = self.reclaim.values_mut().map(|list| list as &mut dyn KeepsEvents);
        off.chain(reclaim).chain(by_kind)
    }

    /// Puts every list in order of time; gaps of workers are [`merged`].
    pub fn sort(&mut self) {
        self.lists().for_each(KeepsEvents::sort);
        self.disks.sort();
        for list in self.gaps.values_mut() {
            *list = merged(std::mem::take(list));
        }
    }

    /// Counts an I/O beside the run's, whether it is kept here or not.
    pub fn count(&mut self, io: &Neighbour) {
        self.beside += u64::from(io.is_beside());
        self.beside_open |= io.is_open();
    }

    /// Whether every I/O of others on the disks was seen, and its end: one without may have been under way at any time.
    pub fn saw_all_others(&self, info: &TraceInfo) -> bool {
        let watched = info.whole() && info.disks_watched == Some(true) && !self.gone;
        let seen = self.beside >= info.neighbours && !self.beside_open;
        watched && seen && !self.gaps.contains_key(&u64::MAX)
    }

    /// Forgets the events that were over before a time, ns; counts and marks stay.
    pub fn forget(&mut self, before_ns: i64) {
        self.lists().for_each(|list| list.forget(before_ns));
        self.disks.forget(before_ns);
        self.gaps.values_mut().for_each(|list| list.forget(before_ns));
    }
}

/// Gaps by time, without overlaps: those that overlap, and such of one kind that touch, become one, in which the thread
/// could have run only if it could in both.
pub fn merged(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_by_key(|g| g.start_ns);
    gaps.dedup_by(|later, kept| {
        let overlap = later.start_ns < kept.end_ns;
        let touch = later.start_ns <= kept.end_ns && later.could_run == kept.could_run;
        if overlap || touch {
            kept.end_ns = kept.end_ns.max(later.end_ns);
            kept.could_run &= later.could_run;
        }
        overlap || touch
    });
    gaps
}

/// Times by their begins, those that overlap as one; those that only touch stay apart.
pub fn joined(mut times: Vec<TimeSpan>) -> Vec<TimeSpan> {
    times.sort_unstable();
    times.dedup_by(|later, kept| {
        let overlap = later.from < kept.to;
        if overlap {
            kept.to = kept.to.max(later.to);
        }
        overlap
    });
    times
}
