//! What tracing costs, measured in the traced run itself: CPU time of the trace programs per
//! operation, as the kernel counts it in short windows; of the thread that gathers what they saw; and
//! time of the probe in the worker. The loss of throughput only pairs of runs can tell
//! (`docs/overhead.md`).
//!
//! Called by the collector and, for the probe, by `session` before the load.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use crossbeam_channel::unbounded;
use rustix::fs::MemfdFlags;
use taillight_core::probe::{Probe, ProbeContext, Token};
use taillight_core::{Clock, MonoClock, Op, OpKind, Stamp};

use super::heartbeat;
use super::layout::{SLOTS, THREADS};
use super::probe::{BpfProbe, BpfProbeShared};
use super::programs::LoadedPrograms;
use super::traced_io::{TracedBatch, UNTOUCHED};
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

    /// CPU time per operation of the programs, none when the kernel would not count, and of the calling thread, ns.
    pub fn finish(mut self) -> (Option<f64>, Option<f64>) {
        self.close();
        let of = |ns: u64, operations: u64| (operations > 0).then(|| ns as f64 / operations as f64);
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let own = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        (of(self.ns, self.operations), of(own, self.ended()))
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

/// Reads of one window with the probe, and of the one beside it without.
const READS: u64 = 1024;
/// Pairs of windows, and those before them that are not counted: the first 10,000 I/Os are all kept.
const PAIRS: usize = 24;
const LEARN: usize = 12;
/// Bytes of the file that is read: more than the caches nearest to a CPU hold.
const FILE: usize = 16 << 20;
const BLOCK: usize = 4096;

/// Time of the probe for one operation, ns: the difference that it makes to reads of 4 KiB from memory, of a file of
/// no disk, in windows in turns. By itself, with all it touches at hand, it would take a fraction of that: what a
/// read moves through the caches comes between. Measured on the last slot before the load, whose memory is
/// the workers' own kind. None where there is no such file.
pub fn probe_ns(shared: &BpfProbeShared) -> Option<f64> {
    let file = File::from(rustix::fs::memfd_create("calibration", MemfdFlags::CLOEXEC).ok()?);
    let mut block = vec![1; BLOCK];
    for at in (0..FILE).step_by(BLOCK) {
        file.write_all_at(&block, at as u64).ok()?;
    }
    let (full, kept) = unbounded();
    let (spare_in, spare) = unbounded();
    let shared =
        BpfProbeShared { full, spare, counts: Arc::new(TraceCounts::default()), ..shared.clone() };
    // What is kept goes to nobody. As in a run every batch is new; all of them are more than the caches nearest to a CPU hold.
    let batches = (LEARN + PAIRS) * READS as usize / UNTOUCHED + 2;
    (0..batches).for_each(|_| drop(spare_in.send(TracedBatch::touched())));
    // The last place of all is the collector's, which runs already.
    let worker = heartbeat::COLLECTOR_INDEX as u16 - 1;
    let context = ProbeContext { worker, first_slot: SLOTS as u32 - 1, depth: 1 };
    let mut probe = BpfProbe::new(&shared, context);
    let (mut place, mut generation) = (0u64, 0);
    let mut window = |probed: bool| {
        let start = MonoClock.now();
        for _ in 0..READS {
            place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (place >> 40) % (FILE / BLOCK) as u64 * BLOCK as u64;
            generation += 1;
            let token = Token::new(shared.nonce + generation, context.first_slot);
            let op = Op::block(OpKind::Read, 0, at, BLOCK as u64);
            if probed {
                probe.begin(context.first_slot, token, Stamp(generation as i64), &op);
            }
            file.read_exact_at(&mut block, at).ok()?;
            if probed {
                // All alike and fast: the slow ones of a run are few.
                probe.end(context.first_slot, token, 1);
            }
        }
        Some(MonoClock.now().since(start) as f64)
    };
    let mut differences = Vec::new();
    for _ in 0..LEARN + PAIRS {
        let without = window(false)?;
        differences.push((window(true)? - without) / READS as f64);
    }
    drop(kept);
    let slot = shared.programs.slots.get(context.first_slot as usize);
    slot.ended.store(0, Relaxed);
    let counted = &mut differences[LEARN..];
    counted.sort_unstable_by(f64::total_cmp);
    // A difference below zero is noise, and counts as 0.
    counted.get(PAIRS / 2).map(|ns| ns.max(0.0))
}
