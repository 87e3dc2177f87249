//! The probe of a worker: publishes its operations to the trace programs, and keeps what they saw of the slow
//! ones and of a sample, or of all where every I/O is asked for.
//!
//! Hot path: a few stores into shared memory, one histogram bucket. A kept I/O goes into a batch
//! that is swapped for an empty one when full; without an empty one the I/O is counted as lost.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crossbeam_channel::{Receiver, Sender};
use taillight_core::probe::{Probe, ProbeContext, Probes, Token};
use taillight_core::{Error, Op, OpKind, Result, Stamp};
use taillight_rundir::layers::flags;

use super::forget::NotHandedOver;
use super::heartbeat;
use super::layout::{C_FILE, SLOTS};
use super::programs::LoadedPrograms;
use super::target_file;
use super::traced_io::{TracedBatch, UntouchedIo, is_touched, parts_of, read_slot, settled};
use crate::tracing::TraceCounts;
use crate::tracing::threshold::{KeepReason, TailThresholds};

/// What all probes share.
#[derive(Clone)]
pub struct BpfProbeShared {
    /// The programs' memory.
    pub programs: Arc<LoadedPrograms>,
    pub full: Sender<TracedBatch>,
    pub spare: Receiver<TracedBatch>,
    pub counts: Arc<TraceCounts>,
    /// What workers keep and the collector has not got.
    pub held: Arc<NotHandedOver>,
    /// Every I/O is kept.
    pub all: bool,
    /// Completions take all stamps of direct I/O.
    pub late: bool,
    /// From this latency on an I/O is kept, ns.
    pub threshold: Option<u64>,
    /// An operation's offset is one in the only file.
    pub plain: bool,
    pub path: Option<PathBuf>,
    /// Makes tokens unlike those of other processes.
    pub nonce: u64,
}

/// A batch is handed over after this time at most, if more comes, ns: somebody may look while the run goes on, and
/// what no I/O needs can only be forgotten when it is known which are kept.
const HELD_NS: i64 = 500_000_000;

/// Makes the workers' probes.
pub struct BpfProbes(pub(crate) BpfProbeShared);

impl Probes for BpfProbes {
    type Probe = BpfProbe;

    fn descriptors(&self) -> Option<Vec<RawFd>> {
        // Later a probe has shared memory alone.
        Some(vec![self.0.programs.tids_fd])
    }

    fn probe(&self, context: ProbeContext) -> Result<BpfProbe> {
        let shared = &self.0;
        let index = usize::from(context.worker);
        if index >= heartbeat::COLLECTOR_INDEX
            || (context.first_slot + context.depth) as usize > SLOTS
        {
            return Err(Error::internal("more workers or slots than can be traced"));
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let thread = shared.programs.threads.get(index);
        thread.pid.store(tid, Relaxed);
        thread.slot.store(context.first_slot, Relaxed);
        thread.depth.store(context.depth, Release);
        for slot in context.first_slot..context.first_slot + context.depth {
            let slot = shared.programs.slots.get(slot as usize);
            slot.worker.store(u64::from(context.worker), Relaxed);
        }
        let mut tids = shared
            .programs
            .tids
            .lock()
            .map_err(|_| Error::internal("another worker panicked while it was registered"))?;
        // The target is there by now, also when the run itself has made it.
        let file = shared.path.as_deref().and_then(target_file::number);
        if let (true, Some(number)) = (shared.plain, file) {
            shared.programs.counters.get(C_FILE).store(number, Relaxed);
        }
        tids.insert(tid, u32::from(context.worker), 0).map_err(|e| {
            Error::unavailable("a worker cannot be registered for tracing").source(e)
        })?;
        Ok(BpfProbe::new(shared, context))
    }
}

/// What is remembered of an operation at its begin.
#[derive(Debug, Clone, Copy, Default)]
struct OperationStart {
    op: OpKind,
    offset: u64,
    size: u64,
    submit: i64,
    blocked: u64,
    waited: u64,
    robbed: u64,
}

/// The probe of one worker.
pub struct BpfProbe {
    shared: BpfProbeShared,
    worker: u16,
    first_slot: u32,
    thresholds: TailThresholds,
    begun: Box<[OperationStart]>,
    batch: TracedBatch,
    /// Some I/O was seen to reach a disk.
    reaches_disk: bool,
    operations: u64,
    lost: u64,
    /// See [`TracedIo::unseen`]: the last such interval.
    unseen: (u64, u64),
    /// See [`TracedIo::could_run`].
    could_run: u64,
}

impl Probe for BpfProbe {
    fn first_generation(&self) -> u64 {
        self.shared.nonce
    }

    #[inline]
    fn begin(&mut self, slot: u32, token: Token, at: Stamp, op: &Op) {
        let thread = self.shared.programs.threads.get(usize::from(self.worker));
        if thread.off.load(Relaxed) != 0 {
            self.came_back(at.0 as u64);
        }
        let thread = self.shared.programs.threads.get(usize::from(self.worker));
        if let Some(begun) = self.begun.get_mut((slot - self.first_slot) as usize) {
            *begun = OperationStart {
                op: op.kind,
                offset: op.offset,
                size: op.size,
                submit: at.0,
                blocked: thread.blocked_ns.load(Relaxed),
                waited: thread.waited_ns.load(Relaxed),
                robbed: thread.robbed_ns.load(Relaxed),
            };
        }
        let shared = self.shared.programs.slots.get(slot as usize);
        if self.shared.plain {
            shared.to.store(op.offset.wrapping_add(op.size), Relaxed);
        }
        shared.begin.store(at.0 as u64, Relaxed);
        shared.token.store(token.0, Release);
    }

    #[inline]
    fn end(&mut self, slot: u32, token: Token, latency_ns: u64) {
        self.operations += 1;
        let index = (slot - self.first_slot) as usize;
        // Not copied as a whole: that would wait for the stores of `begin`.
        let Some(begun) = self.begun.get(index) else {
            return;
        };
        let keep = self.thresholds.keep(begun.op, latency_ns);
        let thread = self.shared.programs.threads.get(usize::from(self.worker));
        if thread.off.load(Relaxed) != 0 {
            let now = begun.submit as u64 + latency_ns;
            self.came_back(now);
        }
        if self.shared.all || keep != KeepReason::No {
            self.keep(slot, token, latency_ns, index, keep);
        }
        let slots = &self.shared.programs.slots;
        slots.get(slot as usize).token.store(0, Relaxed);
        let first = slots.get(self.first_slot as usize);
        first.ended.store(self.operations, Relaxed);
    }
}

impl BpfProbe {
    /// The probe of a worker whose slots lie inside the shared memory.
    pub(super) fn new(shared: &BpfProbeShared, context: ProbeContext) -> BpfProbe {
        BpfProbe {
            shared: shared.clone(),
            worker: context.worker,
            first_slot: context.first_slot,
            thresholds: TailThresholds::new(shared.threshold),
            begun: vec![OperationStart::default(); context.depth as usize].into(),
            batch: shared.spare.try_recv().unwrap_or_default(),
            reaches_disk: false,
            operations: 0,
            lost: 0,
            unseen: (0, 0),
            could_run: 0,
        }
    }

    /// This thread runs, and no program saw it come back to the CPU: some kernels run none while
    /// certain other threads are on it. Nothing is known of the time since it left.
    #[cold]
    fn came_back(&mut self, now: u64) {
        let thread = self.shared.programs.threads.get(usize::from(self.worker));
        let off = thread.off.load(Relaxed);
        self.could_run = thread.runnable_since(off).unwrap_or(0);
        self.unseen = (thread.off.swap(0, Relaxed), now);
    }

    #[cold]
    fn keep(&mut self, slot: u32, token: Token, latency: u64, index: usize, keep: KeepReason) {
        let Some(begun) = self.begun.get(index).copied() else {
            return;
        };
        if !self.batch.has_room() && !self.swap() {
            self.lost += 1;
            return;
        }
        let now = begun.submit + latency as i64;
        if self.batch.older(now, HELD_NS) {
            self.swap();
        }
        let mut flags = 0;
        if keep != KeepReason::Slow {
            flags |= flags::SAMPLE as u32;
        }
        if self.begun.len() > 1 {
            flags |= flags::QUEUED as u32;
        }
        let first = self.shared.programs.slots.get(self.first_slot as usize);
        if first.unplaced.load(Relaxed) >= begun.submit as u64 {
            flags |= flags::UNCLEAR as u32;
        }
        let thread = self.shared.programs.threads.get(usize::from(self.worker));
        let since = |now: &AtomicU64, then: u64| now.load(Relaxed).saturating_sub(then);
        let blocked = since(&thread.blocked_ns, begun.blocked);
        let waited = since(&thread.waited_ns, begun.waited);
        let robbed = since(&thread.robbed_ns, begun.robbed);
        let (wake, run) = (thread.last_wake.load(Relaxed), thread.last_in.load(Relaxed));
        let (from, to) = self.unseen;
        let away = to > begun.submit as u64 && from < now as u64;
        let shared = self.shared.programs.slots.get(slot as usize);
        let OperationStart { op, offset, size, submit, .. } = begun;
        let worker = self.worker;
        // Where disks are reached, an I/O for which no program ran may have been missed by them.
        let disk = self.shared.late && self.reaches_disk;
        if !disk && !away && (blocked | waited | robbed) == 0 && !is_touched(shared, token) {
            let (complete, token) = (now, token.0);
            self.batch.push_untouched(UntouchedIo {
                worker,
                op,
                flags,
                submit,
                complete,
                offset,
                size,
                wake,
                run,
                token,
            });
        } else {
            let mut seen = read_slot(shared, token);
            (seen.worker, seen.op, seen.submit, seen.complete) = (worker, op, submit, now);
            (seen.offset, seen.size, seen.wake, seen.run) = (offset, size, wake, run);
            (seen.blocked, seen.waited, seen.robbed) = (blocked, waited, robbed);
            seen.flags |= flags;
            if self.shared.late {
                self.reaches_disk |= seen.parts > 0;
                seen.bios = parts_of(&seen, self.reaches_disk);
            }
            seen.bios = settled(&seen);
            if away {
                (seen.unseen, seen.could_run) = ((from, to), self.could_run);
            }
            self.batch.push(seen, self.shared.programs.earlier.get(slot as usize));
        }
        self.shared.held.keeps(self.worker, submit, self.batch.len() == 1);
    }

    /// Hands a full batch over and takes an empty one; false, and nothing done, where there is none.
    fn swap(&mut self) -> bool {
        let Ok(empty) = self.shared.spare.try_recv() else {
            return false;
        };
        let full = std::mem::replace(&mut self.batch, empty);
        // The collector outlives the workers; without it nobody reads them anyway.
        let _ = self.shared.full.send(full);
        true
    }
}

impl Drop for BpfProbe {
    fn drop(&mut self) {
        let counts = &self.shared.counts;
        counts.operations.fetch_add(self.operations, Relaxed);
        counts.lost.fetch_add(self.lost, Relaxed);
        let _ = self.shared.full.send(std::mem::take(&mut self.batch));
    }
}
