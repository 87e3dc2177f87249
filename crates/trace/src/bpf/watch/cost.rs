//! CPU time of the trace programs while other programs are watched, by the kernel's count in windows, and what is left
//! out where that is more than was allowed: the dearest part first.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};

use super::exact::ExactWindows;
use crate::bpf::layout::{C_CALLS, C_LEFT_OUT};
use crate::bpf::programs::LoadedPrograms;

/// Window in which the kernel counts the time of the programs, and from one to the next.
const COUNTED: Duration = Duration::from_millis(100);
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// The same while there is a limit that must be kept.
const COUNT_LIMITED: Duration = Duration::from_millis(400);
/// Programs on switches and wake-ups of threads, which follow waits; and those of the block layer, which tell of
/// others.
const THREADS: &str = "sched_";
const BLOCK: [&str; 2] = ["bio_", "rq_"];

/// A part of what is watched that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchPart {
    /// Waits of threads for each other.
    Waits,
    /// I/O of others on the same disks.
    Others,
    /// Calls that do not block, in windows.
    Exact,
}

impl WatchPart {
    /// What is no longer seen.
    pub fn words(self) -> &'static str {
        match self {
            WatchPart::Waits => "waits of threads for each other",
            WatchPart::Others => "I/O of others on the same disks",
            WatchPart::Exact => "every call in windows",
        }
    }

    fn bit(self) -> u64 {
        match self {
            WatchPart::Waits => 1,
            WatchPart::Others => 2,
            WatchPart::Exact => 4,
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
    /// What windows with every call take, as a share of a CPU, beside all that.
    exact: f64,
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
        WatchCost { programs, open: None, next, ns, operations, time, exact: 0.0, most, too_dear }
    }

    fn calls(&self) -> u64 {
        self.programs.counters.get(C_CALLS).load(Relaxed)
    }

    fn spent(&self) -> Option<Spent> {
        let block: Option<u64> = BLOCK.iter().map(|name| self.programs.spent_by(name)).sum();
        Some([self.programs.spent_ns()?, self.programs.spent_by(THREADS)?, block?])
    }

    /// Opens or closes a window in which the kernel counts, if it is time. Those in which every call is looked at come
    /// between them: their cost is counted by itself, over all of the time.
    pub fn step(&mut self, last: bool, exact: Option<&mut ExactWindows>) {
        let now = Instant::now();
        let mut exact = exact;
        if let Some(exact) = &mut exact {
            exact.step(self.open.is_none() && !last);
            self.exact = exact.share();
            if exact.is_open() && !last {
                return;
            }
        }
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
                self.keep_to_limit(window, length, exact);
            }
        }
        drop(fd);
        self.next = now + if self.most.is_some() { COUNT_LIMITED } else { COUNT_EVERY };
    }

    fn keep_to_limit(&mut self, window: Spent, length: Duration, exact: Option<&mut ExactWindows>) {
        let ns = length.as_nanos().max(1) as f64;
        let out = self.left_out();
        let own = if out.contains(&WatchPart::Exact) { 0 } else { (self.exact * ns) as u64 };
        if self.most.is_none_or(|most| (window[0] + own) as f64 / ns <= most) {
            return;
        }
        match dearest(window, own, &out) {
            Some(WatchPart::Exact) => {
                exact.into_iter().for_each(ExactWindows::leave_out);
                self.programs.counters.get(C_LEFT_OUT).fetch_or(WatchPart::Exact.bit(), Relaxed);
            }
            Some(part) => {
                self.programs.counters.get(C_LEFT_OUT).fetch_or(part.bit(), Relaxed);
            }
            None => self.too_dear.store(true, Relaxed),
        }
    }

    /// Parts that are left out by now.
    pub fn left_out(&self) -> Vec<WatchPart> {
        let bits = self.programs.counters.get(C_LEFT_OUT).load(Relaxed);
        let all = [WatchPart::Waits, WatchPart::Others, WatchPart::Exact].into_iter();
        all.filter(|part| bits & part.bit() != 0).collect()
    }

    /// CPU time per operation, ns, and as a share of a CPU.
    pub fn finish(self) -> (Option<f64>, Option<f64>) {
        let of = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let ns = self.ns as f64;
        let share = of(ns, self.time.as_nanos() as f64);
        (of(ns, self.operations as f64), share.map(|share| share + self.exact))
    }
}

/// The part to leave out next, by what its programs took.
fn dearest([_, threads, block]: Spent, exact: u64, out: &[WatchPart]) -> Option<WatchPart> {
    let mut all =
        vec![(threads, WatchPart::Waits), (block, WatchPart::Others), (exact, WatchPart::Exact)];
    all.retain(|(ns, part)| !out.contains(part) && (*ns > 0 || *part != WatchPart::Exact));
    // The first of several that take as much.
    all.into_iter().rev().max_by_key(|(ns, _)| *ns).map(|(_, part)| part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_part_goes_first_and_each_once() {
        assert_eq!(dearest([9, 5, 4], 0, &[]), Some(WatchPart::Waits));
        assert_eq!(dearest([9, 4, 4], 0, &[]), Some(WatchPart::Waits));
        assert_eq!(dearest([9, 4, 5], 0, &[]), Some(WatchPart::Others));
        assert_eq!(dearest([9, 4, 5], 6, &[]), Some(WatchPart::Exact));
        assert_eq!(dearest([9, 4, 5], 1, &[WatchPart::Others]), Some(WatchPart::Waits));
        assert_eq!(dearest([9, 4, 5], 0, &[WatchPart::Others, WatchPart::Waits]), None);
    }
}
