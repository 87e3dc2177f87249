//! What the trace programs cost while somebody is watched, by the kernel's count in windows, and what is left out where
//! that is more than was allowed: the dearest part first.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};

use crate::bpf::layout::{C_CALLS, C_LEFT_OUT};
use crate::bpf::programs::LoadedPrograms;

/// Window in which the kernel counts the time of the programs, and from one to the next.
const COUNTED: Duration = Duration::from_millis(100);
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// The same while there is a limit that must be kept.
const COUNT_LIMITED: Duration = Duration::from_millis(400);
/// Programs on switches and wake-ups of threads, which follow waits; and those of the block layer, which tell of others.
const THREADS: &str = "sched_";
const BLOCK: [&str; 2] = ["bio_", "rq_"];

/// A part of what is watched that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchPart {
    /// Waits of threads for each other.
    Waits,
    /// I/O of others on the same disks.
    Others,
}

impl WatchPart {
    /// What is no longer seen.
    pub fn words(self) -> &'static str {
        match self {
            WatchPart::Waits => "waits of threads for each other",
            WatchPart::Others => "I/O of others on the same disks",
        }
    }

    fn bit(self) -> u64 {
        match self {
            WatchPart::Waits => 1,
            WatchPart::Others => 2,
        }
    }
}

/// Time of the programs at a moment: all, of threads, of the block layer, ns.
type Spent = [u64; 3];

/// What they cost so far.
pub struct WatchCost {
    pub programs: Arc<LoadedPrograms>,
    /// Open: time and operations at its begin.
    open: Option<(OwnedFd, Spent, u64, Instant)>,
    next: Instant,
    ns: u64,
    operations: u64,
    time: Duration,
    /// Most of a CPU, as a share.
    most: Option<f64>,
    too_dear: Arc<AtomicBool>,
}

impl WatchCost {
    /// `too_dear` is set where they cost more than `most` with all parts left out.
    pub fn new(
        programs: Arc<LoadedPrograms>,
        most: Option<f64>,
        too_dear: Arc<AtomicBool>,
    ) -> WatchCost {
        let next = Instant::now() + COUNTED;
        let (ns, operations, time) = (0, 0, Duration::ZERO);
        WatchCost { programs, open: None, next, ns, operations, time, most, too_dear }
    }

    fn calls(&self) -> u64 {
        self.programs.counters.get(C_CALLS).load(Relaxed)
    }

    fn spent(&self) -> Option<Spent> {
        let block: Option<u64> = BLOCK.iter().map(|name| self.programs.spent_by(name)).sum();
        Some([self.programs.spent_ns()?, self.programs.spent_by(THREADS)?, block?])
    }

    /// Opens or closes a window, if it is time.
    pub fn step(&mut self, last: bool) {
        let now = Instant::now();
        if now < self.next && !last {
            return;
        }
        let Some((fd, before, calls, since)) = self.open.take() else {
            if let (false, Ok(fd), Some(spent)) = (last, enable_stats(Stats::RunTime), self.spent())
            {
                self.open = Some((fd, spent, self.calls(), Instant::now()));
            }
            self.next = now + COUNTED;
            return;
        };
        if let Some(spent) = self.spent() {
            let window = [0, 1, 2].map(|i| spent[i].saturating_sub(before[i]));
            let length = since.elapsed();
            self.ns += window[0];
            self.operations += self.calls().saturating_sub(calls);
            self.time += length;
            // What is left of the last window may be a moment, and nothing can be left out any more.
            if !last {
                self.keep_to_limit(window, length);
            }
        }
        drop(fd);
        self.next = now + if self.most.is_some() { COUNT_LIMITED } else { COUNT_EVERY };
    }

    fn keep_to_limit(&mut self, window: Spent, length: Duration) {
        let share = window[0] as f64 / length.as_nanos().max(1) as f64;
        if self.most.is_none_or(|most| share <= most) {
            return;
        }
        let out = self.left_out();
        match dearest(window, &out) {
            Some(part) => {
                self.programs.counters.get(C_LEFT_OUT).fetch_or(part.bit(), Relaxed);
            }
            None => self.too_dear.store(true, Relaxed),
        }
    }

    /// Parts that are left out by now.
    pub fn left_out(&self) -> Vec<WatchPart> {
        let bits = self.programs.counters.get(C_LEFT_OUT).load(Relaxed);
        let all = [WatchPart::Waits, WatchPart::Others].into_iter();
        all.filter(|part| bits & part.bit() != 0).collect()
    }

    /// CPU time per operation, ns, and as a share of a CPU.
    pub fn finish(self) -> (Option<f64>, Option<f64>) {
        let of = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let ns = self.ns as f64;
        (of(ns, self.operations as f64), of(ns, self.time.as_nanos() as f64))
    }
}

/// The part to leave out next, by what its programs took.
fn dearest([_, threads, block]: Spent, out: &[WatchPart]) -> Option<WatchPart> {
    let order = match threads >= block {
        true => [WatchPart::Waits, WatchPart::Others],
        false => [WatchPart::Others, WatchPart::Waits],
    };
    order.into_iter().find(|part| !out.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_part_goes_first_and_each_once() {
        assert_eq!(dearest([9, 5, 4], &[]), Some(WatchPart::Waits));
        assert_eq!(dearest([9, 4, 5], &[]), Some(WatchPart::Others));
        assert_eq!(dearest([9, 4, 5], &[WatchPart::Others]), Some(WatchPart::Waits));
        assert_eq!(dearest([9, 4, 5], &[WatchPart::Others, WatchPart::Waits]), None);
    }
}
