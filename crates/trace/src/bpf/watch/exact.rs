//! Every call in windows: beside what blocks, which is always seen, also what the page cache answers. The trace
//! points of system calls cost each call of the machine, so that they are attached in windows only, one in each
//! stretch of time at a place that nobody can foresee. What begins in a window is looked at until it ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use taillight_core::{Clock, MonoClock, OpKind};

use super::told::{CallTally, new_since, together};
use crate::bpf::layout::{C_EXACT, C_EXACT_OPEN};
use crate::bpf::programs::{AttachedProgram, EXACT_ENTER, EXACT_EXIT, LoadedPrograms};

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows kept; beyond them two neighbours become one.
const WINDOWS_MAX: usize = 7200;
/// Programs that only windows have.
const NAMES: &str = "exact_";

/// What began in a window, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactWindow {
    /// Its begin, ns, and how long it was open, ns.
    pub start_ns: i64,
    pub length_ns: u64,
    /// How many windows this one stands for.
    pub windows: u64,
    pub ops: Vec<(OpKind, CallTally)>,
}

/// All windows of a watch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExactSample {
    pub windows: Vec<ExactWindow>,
    /// What began in one and had not ended with the watch.
    pub open: u64,
    /// Why there are no more windows, if so.
    pub failed: Option<String>,
}

/// A window that is open.
struct OpenWindow {
    enter: AttachedProgram,
    since_ns: i64,
    until: Instant,
    /// The kernel counts the time of its programs, which was so much before, ns.
    counted: Option<(OwnedFd, u64)>,
}

/// Opens and closes windows.
pub struct ExactWindows {
    programs: Arc<LoadedPrograms>,
    /// From the begin of one stretch to the next, each with a window.
    stretch: Duration,
    next_stretch: Instant,
    opens: Instant,
    open: Option<OpenWindow>,
    exit: Option<AttachedProgram>,
    before: BTreeMap<OpKind, CallTally>,
    /// Window whose operations are not taken up yet.
    last: Option<(i64, u64)>,
    sample: ExactSample,
    began: Instant,
    spent_ns: u64,
    random: u64,
}

impl ExactWindows {
    /// `share` of the time is in windows, 0 to 1.
    pub fn new(programs: Arc<LoadedPrograms>, share: f64) -> ExactWindows {
        let now = Instant::now();
        ExactWindows {
            programs,
            stretch: WINDOW.div_f64(share.clamp(1e-6, 1.0)),
            next_stretch: now,
            opens: now,
            open: None,
            exit: None,
            before: BTreeMap::new(),
            last: None,
            sample: ExactSample::default(),
            began: now,
            spent_ns: 0,
            random: MonoClock.now().0 as u64 | 1,
        }
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// CPU time of the programs of windows, as a share of one CPU over all of the time.
    pub fn share(&self) -> f64 {
        self.spent_ns as f64 / self.began.elapsed().as_nanos().max(1) as f64
    }

    /// Opens or closes a window, if it is time; none is opened while it `may` not.
    pub fn step(&mut self, may: bool) {
        let now = Instant::now();
        if self.open.as_ref().is_some_and(|open| now >= open.until) {
            self.close();
        }
        if self.open.is_some() {
            return;
        }
        // Until the last call of a window has ended, its end is looked at.
        if self.exit.is_some() && self.under_way() == 0 {
            self.exit.take().into_iter().for_each(|exit| self.programs.detach(exit));
        }
        if now >= self.next_stretch {
            let free = self.stretch.saturating_sub(WINDOW);
            self.opens = now + free.mul_f64(self.drawn());
            self.next_stretch = now + self.stretch;
        }
        if self.opens <= now && may && self.sample.failed.is_none() {
            // Once in a stretch.
            self.opens = self.next_stretch + self.stretch;
            if let Err(why) = self.begin() {
                self.sample.failed = Some(why);
            }
        }
    }

    fn begin(&mut self) -> Result<(), String> {
        self.take_up();
        if self.exit.is_none() {
            self.exit = Some(self.programs.attach(EXACT_EXIT)?);
        }
        let enter = self.programs.attach(EXACT_ENTER)?;
        let spent = self.programs.spent_by(NAMES);
        let counted = enable_stats(Stats::RunTime).ok().zip(spent);
        let since_ns = MonoClock.now().0;
        self.programs.counters.get(C_EXACT).store(1, Relaxed);
        self.open = Some(OpenWindow { enter, since_ns, until: Instant::now() + WINDOW, counted });
        Ok(())
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.programs.counters.get(C_EXACT).store(0, Relaxed);
        let length = MonoClock.now().0 - open.since_ns;
        self.programs.detach(open.enter);
        if let Some((_, before)) = &open.counted {
            let spent = self.programs.spent_by(NAMES).unwrap_or(*before);
            self.spent_ns += spent.saturating_sub(*before);
        }
        self.last = Some((open.since_ns, length.max(1) as u64));
    }

    fn under_way(&self) -> u64 {
        self.programs.counters.get(C_EXACT_OPEN).load(Relaxed)
    }

    /// A number from 0 to 1, another one each time (xorshift).
    fn drawn(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// What began in the last window and has ended; what ends later is the next one's.
    fn take_up(&mut self) {
        let Some((start_ns, length_ns)) = self.last.take() else { return };
        let tallies = self.programs.watch.as_ref().map(|maps| maps.tallies(true));
        let ops = new_since(&mut self.before, tallies.unwrap_or_default());
        self.sample.windows.push(ExactWindow { start_ns, length_ns, windows: 1, ops });
        if self.sample.windows.len() > WINDOWS_MAX {
            self.sample.windows = halved(std::mem::take(&mut self.sample.windows));
        }
    }

    /// Ends the last window, and gives what was seen.
    pub fn finish(mut self) -> ExactSample {
        self.close();
        self.take_up();
        self.sample.open = self.under_way();
        self.exit.take().into_iter().for_each(|exit| self.programs.detach(exit));
        self.sample
    }

    /// No window is opened any more: they cost too much.
    pub fn leave_out(&mut self) {
        self.close();
        self.sample.failed = Some("they cost more than --max-cost".to_owned());
    }
}

/// Each two neighbouring windows as one.
fn halved(all: Vec<ExactWindow>) -> Vec<ExactWindow> {
    let both = |pair: &[ExactWindow]| ExactWindow {
        start_ns: pair.first().map_or(0, |window| window.start_ns),
        length_ns: pair.iter().map(|window| window.length_ns).sum(),
        windows: pair.iter().map(|window| window.windows).sum(),
        ops: together(pair.iter().flat_map(|window| &window.ops)),
    };
    all.chunks(2).map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sample_keeps_its_counts_in_fewer_windows() {
        let tally = |n| CallTally { count: n, places: vec![(9, n)], ..CallTally::default() };
        let window = |i: i64| ExactWindow {
            start_ns: i,
            length_ns: 10,
            windows: 1,
            ops: vec![(OpKind::Read, tally(1 + i as u64))],
        };
        let all = halved((0..5).map(window).collect());
        let now: Vec<_> =
            all.iter().map(|w| (w.start_ns, w.length_ns, w.windows, w.ops[0].1.count)).collect();
        assert_eq!(now, [(0, 20, 2, 3), (2, 20, 2, 7), (4, 10, 1, 5)]);
    }
}
