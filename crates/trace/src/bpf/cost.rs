//! What tracing costs, measured in the traced run itself: CPU time of the trace programs per
//! operation, as the kernel counts it in short windows, and time of the probe in the worker.
//!
//! What it is not: the loss of throughput, which only pairs of runs can tell (`docs/overhead.md`).
//! Called by the collector and, for the probe, by `tracer` before the load.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use crossbeam_channel::unbounded;
use taillight_core::probe::{Probe, ProbeSeat, Token};
use taillight_core::{Clock, MonoClock, Op, OpKind, Stamp};

use super::layout::{SLOTS, THREADS};
use super::probe::{BpfProbe, BpfProbeShared};
use super::programs::LoadedPrograms;
use super::traced_io::TracedBatch;
use crate::tracing::TraceCounts;

/// Length of a window. While it is open the kernel reads its clock twice for each program run.
const WINDOW: Duration = Duration::from_millis(100);
/// From the first operation to the first window.
const FIRST: Duration = Duration::from_millis(100);
/// From one window to the next.
const EVERY: Duration = Duration::from_secs(5);

/// Measures the programs.
pub struct ProgramCost {
    programs: Arc<LoadedPrograms>,
    workers: usize,
    /// Open: the kernel counts as long as this lives.
    counting: Option<(OwnedFd, u64, u64)>,
    /// When the window ends or the next one begins; none before the first operation.
    then: Option<Instant>,
    ns: u64,
    operations: u64,
}

impl ProgramCost {
    pub fn new(programs: Arc<LoadedPrograms>, workers: usize) -> ProgramCost {
        ProgramCost { programs, workers, counting: None, then: None, ns: 0, operations: 0 }
    }

    /// Opens and closes windows; to be called every few milliseconds.
    pub fn step(&mut self, now: Instant) {
        match self.then {
            None if self.ended() > 0 => self.then = Some(now + FIRST),
            Some(then) if now >= then => {
                self.then = Some(match self.close() {
                    true => now + EVERY,
                    false => now + self.open(),
                });
            }
            _ => {}
        }
    }

    /// CPU time of the programs per operation, ns; none when the kernel would not count.
    pub fn finish(mut self) -> Option<f64> {
        self.close();
        (self.operations > 0).then(|| self.ns as f64 / self.operations as f64)
    }

    fn open(&mut self) -> Duration {
        // Needs CAP_SYS_ADMIN, which tracing does not.
        let (Ok(fd), Some(ns)) = (enable_stats(Stats::RunTime), self.programs.spent_ns()) else {
            return EVERY;
        };
        self.counting = Some((fd, ns, self.ended()));
        WINDOW
    }

    fn close(&mut self) -> bool {
        let Some((fd, ns, ended)) = self.counting.take() else {
            return false;
        };
        let (now, spent) = (self.ended(), self.programs.spent_ns());
        drop(fd);
        self.operations += now.saturating_sub(ended);
        self.ns += spent.map_or(0, |s| s.saturating_sub(ns));
        true
    }

    /// Operations that ended so far, over all workers.
    fn ended(&self) -> u64 {
        let of = |i: usize| {
            let first = self.programs.threads.get(i).slot.load(Relaxed);
            self.programs.slots.get(first as usize).ended.load(Relaxed)
        };
        (0..self.workers.min(THREADS)).map(of).sum()
    }
}

/// Time of the probe for one operation, ns, measured on the last slot before the load: the slot of a
/// worker is in the same cache lines or nearer.
pub fn probe_ns(shared: &BpfProbeShared) -> f64 {
    const LEARN: u64 = 16_384;
    const TIMED: u64 = 16_384;
    let (full, kept) = unbounded();
    let (spare_in, spare) = unbounded();
    let shared =
        BpfProbeShared { full, spare, counts: Arc::new(TraceCounts::default()), ..shared.clone() };
    let again = || drop(spare_in.send(TracedBatch::empty()));
    again();
    let seat = ProbeSeat { worker: THREADS as u16 - 1, first_slot: SLOTS as u32 - 1, depth: 1 };
    let mut probe = BpfProbe::new(&shared, seat);
    let mut start = MonoClock.now();
    for i in 0..LEARN + TIMED {
        if i == LEARN {
            start = MonoClock.now();
        }
        let token = Token::new(shared.nonce + i, seat.first_slot);
        let op = Op::block(OpKind::Read, 0, i * 4096, 4096);
        probe.begin(seat.first_slot, token, Stamp(i as i64), &op);
        // All alike and fast: the slow ones of a run are few.
        probe.end(seat.first_slot, token, 1);
        // What is kept goes to nobody; the next batch is ready, as in a run.
        if kept.try_recv().is_ok() {
            again();
        }
    }
    let ns = MonoClock.now().since(start) as f64;
    let slot = shared.programs.slots.get(seat.first_slot as usize);
    slot.ended.store(0, Relaxed);
    ns / TIMED as f64
}
