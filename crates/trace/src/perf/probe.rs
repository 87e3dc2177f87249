//! The probe of a worker on rung perf: opens the worker's log at the start, then tells which of its
//! I/Os are kept. No system call and no allocation
//! per operation; one small read after a slow one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::Sender;
use taillight_core::probe::{Probe, ProbeSeat, Probes, Token};
use taillight_core::{Clock, MonoClock, Op, OpKind, Result, Stamp};
use taillight_rundir::layers::flags;

use super::kept::{Kept, Queue};
use super::schedstat::{Reading, Schedstat};
use super::stretch::LONG_NS;
use super::sys::Ring;
use crate::Sys;
use crate::bpf::running::{Keep, Running};
use crate::tally::Tally;

/// I/Os on their way to the gatherer, over all workers.
const QUEUED: usize = 1 << 18;
/// To find a moment in which the thread is not interrupted.
const TRIES: usize = 100;
/// At least and at most of one worker.
const QUEUED_EACH: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 14;

/// A worker that wants to be watched.
pub struct Arrival {
    /// Number over all workloads.
    pub worker: u16,
    pub tid: u32,
    /// When its log begins, ns.
    pub at: i64,
    /// Its log, or why there is none.
    pub ring: std::io::Result<Ring>,
    /// Its counters at that time: each record that follows is one more arrival on the CPU.
    pub first: Option<Reading>,
    pub queue: Arc<Queue>,
}

/// Empties the log of the calling thread at a moment whose counters are known.
fn begin(ring: &mut Ring, schedstat: &Schedstat) -> Option<Reading> {
    let mut early = Vec::new();
    for _ in 0..TRIES {
        let before = schedstat.read();
        ring.drain(&mut early);
        let after = schedstat.read();
        if let (Some(before), Some(after)) = (before, after)
            && before.arrivals == after.arrivals
        {
            return Some(after);
        }
    }
    None
}

/// What all probes share.
#[derive(Clone)]
pub struct Common {
    /// Where workers announce themselves.
    pub arrivals: Sender<Arrival>,
    pub tally: Arc<Tally>,
    /// Every I/O is kept.
    pub all: bool,
    /// From this latency on an I/O is kept, ns.
    pub threshold: Option<u64>,
    /// Bytes of each worker's log.
    pub ring: usize,
    /// Workers there will be.
    pub workers: usize,
}

/// Makes the workers' probes.
pub struct PerfProbes(pub(super) Common);

impl Probes for PerfProbes {
    type Probe = PerfProbe;

    fn probe(&self, seat: ProbeSeat) -> Result<PerfProbe> {
        let common = &self.0;
        let each = (QUEUED / common.workers.max(1)).clamp(*QUEUED_EACH.start(), *QUEUED_EACH.end());
        let queue = Arc::new(Queue::new(each));
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let schedstat = Schedstat::open(&Sys::default(), tid);
        let mut ring = Ring::of_this_thread(common.ring);
        let first = ring
            .as_mut()
            .ok()
            .and_then(|r| begin(r, schedstat.as_ref()?));
        // One that cannot be watched is no reason not to run: the gatherer says so.
        let arrival = Arrival {
            worker: seat.worker,
            tid,
            ring,
            first,
            at: MonoClock.now().0,
            queue: queue.clone(),
        };
        // The gatherer outlives the workers.
        let _ = common.arrivals.send(arrival);
        Ok(PerfProbe {
            all: common.all,
            threshold: common.threshold,
            tally: common.tally.clone(),
            queue,
            schedstat,
            first_slot: seat.first_slot,
            running: (0..OpKind::ALL.len()).map(|_| None).collect(),
            begun: vec![Begun::default(); seat.depth as usize].into(),
            operations: 0,
            lost: 0,
        })
    }
}

/// What is remembered of an operation at its begin.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    kind: u8,
    offset: u64,
    size: u64,
    submit: i64,
}

/// The probe of one worker.
pub struct PerfProbe {
    all: bool,
    threshold: Option<u64>,
    tally: Arc<Tally>,
    queue: Arc<Queue>,
    schedstat: Option<Schedstat>,
    first_slot: u32,
    running: Box<[Option<Running>]>,
    begun: Box<[Begun]>,
    operations: u64,
    lost: u64,
}

impl Probe for PerfProbe {
    #[inline]
    fn begin(&mut self, slot: u32, _: Token, at: Stamp, op: &Op) {
        if let Some(begun) = self.begun.get_mut((slot - self.first_slot) as usize) {
            *begun = Begun {
                kind: op.kind as u8,
                offset: op.offset,
                size: op.size,
                submit: at.0,
            };
        }
    }

    #[inline]
    fn end(&mut self, slot: u32, _: Token, latency_ns: u64) {
        self.operations += 1;
        let Some(begun) = self.begun.get((slot - self.first_slot) as usize).copied() else {
            return;
        };
        let threshold = self.threshold;
        let Some(running) = self.running.get_mut(usize::from(begun.kind)) else {
            return;
        };
        let keep = running
            .get_or_insert_with(|| Running::new(threshold))
            .keep(latency_ns);
        if self.all || keep != Keep::No {
            self.keep(&begun, latency_ns, keep);
        }
    }
}

impl PerfProbe {
    #[cold]
    fn keep(&mut self, begun: &Begun, latency: u64, keep: Keep) {
        let sample = if keep == Keep::Slow { 0 } else { flags::SAMPLE };
        let queued = if self.begun.len() > 1 {
            flags::QUEUED
        } else {
            0
        };
        let kept = Kept {
            op: OpKind::from_index(begun.kind).unwrap_or(OpKind::Read),
            flags: (sample | queued) as u32,
            submit: begun.submit,
            complete: begun.submit.saturating_add_unsigned(latency),
            offset: begun.offset,
            size: begun.size,
            reading: self.read(latency, keep),
        };
        self.lost += u64::from(!self.queue.push(&kept));
    }
}

impl PerfProbe {
    /// What the worker's waits for a CPU are right after a slow I/O: the next reading by the gatherer
    /// comes milliseconds later. Not for all I/Os of a queue, which may all be slow.
    fn read(&self, latency: u64, keep: Keep) -> Option<Reading> {
        let worth = latency >= LONG_NS && (keep == Keep::Slow || self.begun.len() == 1);
        self.schedstat.as_ref().filter(|_| worth)?.read()
    }
}

impl Drop for PerfProbe {
    fn drop(&mut self) {
        self.tally.operations.fetch_add(self.operations, Relaxed);
        self.tally.lost.fetch_add(self.lost, Relaxed);
    }
}
