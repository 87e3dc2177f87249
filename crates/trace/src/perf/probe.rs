//! The probe of a worker with backend perf: opens the worker's log at the start, then tells which of its
//! I/Os are kept. No system call and no allocation
//! per operation; one small read after a slow one.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_channel::{Receiver, Sender, bounded};
use taillight_core::probe::{Probe, ProbeContext, Probes, Token};
use taillight_core::{Clock, MonoClock, Op, OpKind, Result, Stamp};
use taillight_machine::Sys;
use taillight_rundir::layers::flags;

use super::off_cpu::LONG_NS;
use super::schedstat::{Schedstat, SchedstatReading};
use super::sys::SwitchLog;
use crate::tracing::TraceCounts;
use crate::tracing::threshold::{KeepReason, TailThresholds};

/// I/Os on their way to the gatherer, over all workers.
const QUEUED: usize = 1 << 18;
/// The share of these that one worker has, at least and at most.
const QUEUED_EACH: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 14;
/// Tries to find a moment in which the thread is not interrupted.
const TRIES: usize = 100;

/// One I/O that is kept.
#[derive(Debug, Clone, Copy)]
pub struct KeptIo {
    pub op: OpKind,
    /// See `taillight_rundir::layers::flags`.
    pub flags: u32,
    pub submit: i64,
    pub complete: i64,
    pub offset: u64,
    pub size: u64,
    /// The worker's counters right after it, when it was slow; read since `complete`.
    pub reading: Option<SchedstatReading>,
}

/// A worker that wants to be watched.
pub struct WorkerArrival {
    /// Number over all workloads.
    pub worker: u16,
    pub tid: u32,
    /// When its log begins, ns.
    pub at: i64,
    /// Its log, or why there is none.
    pub ring: std::io::Result<SwitchLog>,
    /// Its counters at that time: each record that follows is one more arrival on the CPU.
    pub first: Option<SchedstatReading>,
    pub kept: Receiver<KeptIo>,
}

/// Empties the log of the calling thread at a moment whose counters are known.
fn begin(ring: &mut SwitchLog, schedstat: &Schedstat) -> Option<SchedstatReading> {
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
pub struct PerfProbeShared {
    /// Where workers announce themselves.
    pub arrivals: Sender<WorkerArrival>,
    pub counts: Arc<TraceCounts>,
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
pub struct PerfProbes(pub(super) PerfProbeShared);

impl Probes for PerfProbes {
    type Probe = PerfProbe;

    fn probe(&self, context: ProbeContext) -> Result<PerfProbe> {
        let shared = &self.0;
        let each = (QUEUED / shared.workers.max(1)).clamp(*QUEUED_EACH.start(), *QUEUED_EACH.end());
        // Its memory is there from the start; one that finds it full counts a loss.
        let (queue, kept) = bounded(each);
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let schedstat = Schedstat::open(&Sys::default(), tid);
        let mut ring = SwitchLog::of_this_thread(shared.ring);
        let first = ring.as_mut().ok().and_then(|r| begin(r, schedstat.as_ref()?));
        // One that cannot be watched is no reason not to run: the gatherer says so.
        let arrival =
            WorkerArrival { worker: context.worker, tid, ring, first, at: MonoClock.now().0, kept };
        // The gatherer outlives the workers.
        let _ = shared.arrivals.send(arrival);
        Ok(PerfProbe {
            all: shared.all,
            counts: shared.counts.clone(),
            queue,
            schedstat,
            first_slot: context.first_slot,
            thresholds: TailThresholds::new(shared.threshold),
            begun: vec![IoStart::default(); context.depth as usize].into(),
            operations: 0,
            lost: 0,
        })
    }
}

/// What is remembered of an operation at its begin.
#[derive(Debug, Clone, Copy, Default)]
struct IoStart {
    op: OpKind,
    offset: u64,
    size: u64,
    submit: i64,
}

/// The probe of one worker.
pub struct PerfProbe {
    all: bool,
    counts: Arc<TraceCounts>,
    queue: Sender<KeptIo>,
    schedstat: Option<Schedstat>,
    first_slot: u32,
    thresholds: TailThresholds,
    begun: Box<[IoStart]>,
    operations: u64,
    lost: u64,
}

impl Probe for PerfProbe {
    #[inline]
    fn begin(&mut self, slot: u32, _: Token, at: Stamp, op: &Op) {
        if let Some(begun) = self.begun.get_mut((slot - self.first_slot) as usize) {
            *begun = IoStart { op: op.kind, offset: op.offset, size: op.size, submit: at.0 };
        }
    }

    #[inline]
    fn end(&mut self, slot: u32, _: Token, latency_ns: u64) {
        self.operations += 1;
        let Some(begun) = self.begun.get((slot - self.first_slot) as usize).copied() else {
            return;
        };
        let keep = self.thresholds.keep(begun.op, latency_ns);
        if self.all || keep != KeepReason::No {
            self.keep(&begun, latency_ns, keep);
        }
    }
}

impl PerfProbe {
    #[cold]
    fn keep(&mut self, begun: &IoStart, latency: u64, keep: KeepReason) {
        let sample = if keep == KeepReason::Slow { 0 } else { flags::SAMPLE };
        let queued = if self.begun.len() > 1 { flags::QUEUED } else { 0 };
        let kept = KeptIo {
            op: begun.op,
            flags: (sample | queued) as u32,
            submit: begun.submit,
            complete: begun.submit.saturating_add_unsigned(latency),
            offset: begun.offset,
            size: begun.size,
            reading: self.read(latency, keep),
        };
        self.lost += u64::from(self.queue.try_send(kept).is_err());
    }

    /// What the worker's waits for a CPU are right after a slow I/O: the next reading by the gatherer
    /// comes milliseconds later. Not for all I/Os of a queue, which may all be slow.
    fn read(&self, latency: u64, keep: KeepReason) -> Option<SchedstatReading> {
        let worth = latency >= LONG_NS && (keep == KeepReason::Slow || self.begun.len() == 1);
        self.schedstat.as_ref().filter(|_| worth)?.read()
    }
}

impl Drop for PerfProbe {
    fn drop(&mut self) {
        self.counts.operations.fetch_add(self.operations, Relaxed);
        self.counts.lost.fetch_add(self.lost, Relaxed);
    }
}
