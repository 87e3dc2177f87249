//! Stamps for the hot loop: the CPU's time stamp counter, kept on CLOCK_MONOTONIC.
//!
//! Two readings of CLOCK_MONOTONIC are most of what measuring an I/O costs. Where the kernel itself
//! uses the counter as its clock source, reading it directly costs less than half. About once a
//! second each worker compares its line with CLOCK_MONOTONIC and bends it, without a step, so that
//! the difference is gone a second later; a difference above 1 ms sets the line anew. The worst
//! difference seen is reported. Anywhere else the plain clock is used. Why:
//! docs/design/0005-the-counter-read-directly.md. `run::threads` makes the clocks; the workers read and compare theirs.

mod sys;

use taillight_core::{Clock, MonoClock, Stamp};

/// How often a worker compares its line with CLOCK_MONOTONIC, ns.
const SYNC_EVERY_NS: i64 = 1_000_000_000;
/// A difference beyond this is no drift (a suspended machine): the line is set anew.
const STEP_NS: i64 = 1_000_000;

/// The counter and CLOCK_MONOTONIC at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    ticks: u64,
    ns: i64,
}

impl ClockPair {
    /// Its moment on CLOCK_MONOTONIC.
    pub fn at(&self) -> Stamp {
        Stamp(self.ns)
    }
    /// Reads both: the tightest of several tries, the counter taken as the middle.
    fn read() -> Option<ClockPair> {
        let once = || {
            let before = sys::ticks()?;
            let ns = MonoClock.now().0;
            let width = sys::ticks()?.wrapping_sub(before);
            Some((width, ClockPair { ticks: before.wrapping_add(width / 2), ns }))
        };
        (0..8).filter_map(|_| once()).min_by_key(|(width, _)| *width).map(|(_, pair)| pair)
    }
}

/// How well a counter clock followed CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockDrift {
    /// Largest difference seen at a comparison, ns.
    pub worst_ns: u64,
    /// Times the line was set anew.
    pub steps: u64,
}

/// A clock of the hot loop that reads the time stamp counter.
#[derive(Debug, Clone)]
pub struct TscClock {
    origin: ClockPair,
    anchor: ClockPair,
    /// Nanoseconds per tick, times 2^32.
    rate: u64,
    next_sync: i64,
    drift: ClockDrift,
}

impl TscClock {
    /// The first of the two readings that the rate comes from; `None` where the counter cannot be
    /// used: another architecture, or the kernel does not trust it either.
    pub fn origin() -> Option<ClockPair> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let trusted = std::fs::read_to_string(source).is_ok_and(|s| s.trim() == "tsc");
        trusted.then(ClockPair::read).flatten()
    }

    /// A clock whose rate comes from the time from `origin` to now; `None` when that is less than a millisecond.
    pub fn new(origin: ClockPair) -> Option<TscClock> {
        let anchor = ClockPair::read()?;
        let rate = rate(origin, anchor)?;
        let next_sync = anchor.ns + SYNC_EVERY_NS / 8;
        Some(TscClock { origin, anchor, rate, next_sync, drift: ClockDrift::default() })
    }

    #[inline]
    fn at(&self, ticks: u64) -> i64 {
        let since = ticks.wrapping_sub(self.anchor.ticks) as i64;
        let ns = (i128::from(since) * i128::from(self.rate)) >> 32;
        self.anchor.ns + ns as i64
    }

    /// Compares with CLOCK_MONOTONIC and bends the line.
    fn sync_with(&mut self, now: ClockPair) {
        let shown = self.at(now.ticks);
        let off = now.ns - shown;
        self.drift.worst_ns = self.drift.worst_ns.max(off.unsigned_abs());
        self.next_sync = now.ns + SYNC_EVERY_NS;
        let true_rate = match rate(self.origin, now) {
            Some(true_rate) if off.abs() <= STEP_NS => true_rate,
            _ => {
                // A jump says nothing about the rate: keep it, and begin a new baseline.
                self.drift.steps += 1;
                (self.origin, self.anchor) = (now, now);
                return;
            }
        };
        // From where the line is, at the true rate plus what closes the gap in one period.
        self.anchor = ClockPair { ticks: now.ticks, ns: shown };
        let bend = i128::from(true_rate) * i128::from(off) / i128::from(SYNC_EVERY_NS);
        self.rate = (i128::from(true_rate) + bend) as u64;
    }
}

/// Nanoseconds per tick times 2^32 between two readings at least a millisecond apart.
fn rate(from: ClockPair, to: ClockPair) -> Option<u64> {
    let ticks = to.ticks.checked_sub(from.ticks).filter(|t| *t > 0)?;
    let ns = u128::try_from(to.ns - from.ns).ok().filter(|ns| *ns >= 1_000_000)?;
    u64::try_from((ns << 32) / u128::from(ticks)).ok()
}

impl Clock for TscClock {
    #[inline]
    fn now(&self) -> Stamp {
        match sys::ticks() {
            Some(ticks) => Stamp(self.at(ticks)),
            None => MonoClock.now(),
        }
    }
}

/// A clock that a worker looks after between I/Os.
pub trait DisciplinedClock: Clock {
    /// Called about once per poll with the last stamp; cheap when nothing is due.
    #[inline(always)]
    fn discipline(&mut self, _: Stamp) {}
    /// How well it followed CLOCK_MONOTONIC.
    fn drift(&self) -> ClockDrift {
        ClockDrift::default()
    }
}

impl DisciplinedClock for MonoClock {}

impl DisciplinedClock for TscClock {
    #[inline]
    fn discipline(&mut self, now: Stamp) {
        if now.0 >= self.next_sync
            && let Some(pair) = ClockPair::read()
        {
            self.sync_with(pair);
        }
    }
    fn drift(&self) -> ClockDrift {
        self.drift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ticks: u64, ns: i64) -> ClockPair {
        ClockPair { ticks, ns }
    }

    /// A 2.5 GHz counter: 0.4 ns per tick.
    fn clock() -> TscClock {
        let origin = pair(1000, 50);
        let anchor = pair(1000 + 250_000_000, 50 + 100_000_000);
        TscClock {
            origin,
            anchor,
            rate: rate(origin, anchor).unwrap(),
            next_sync: 0,
            drift: ClockDrift::default(),
        }
    }

    #[test]
    fn follows_a_counter_for_a_day_without_overflow() {
        let c = clock();
        let day = 86_400 * 1_000_000_000i64;
        let shown = c.at(c.anchor.ticks + (day as u64 / 2 * 5));
        assert!((shown - c.anchor.ns - day).abs() < 100_000, "{shown}");
        assert_eq!(c.at(c.anchor.ticks - 2500), c.anchor.ns - 1000);
    }

    #[test]
    fn drift_is_bent_away_without_a_step() {
        let mut c = clock();
        // The counter turns out 10 ppm fast: 10 us off after a second.
        let now = pair(c.anchor.ticks + 2_500_025_000, c.anchor.ns + 1_000_000_000);
        let before = c.at(now.ticks);
        c.sync_with(now);
        assert_eq!(c.at(now.ticks), before, "no step");
        assert!((9_000..11_000).contains(&c.drift.worst_ns), "{:?}", c.drift);
        let later = pair(now.ticks + 2_500_025_000, now.ns + 1_000_000_000);
        let off = c.at(later.ticks) - later.ns;
        assert!(off.abs() < 1_500, "{off}");
        assert_eq!(c.drift.steps, 0);
    }

    #[test]
    fn a_jump_sets_the_line_anew_and_is_counted() {
        let mut c = clock();
        let now = pair(c.anchor.ticks + 2_500_000_000, c.anchor.ns + 9_000_000_000);
        c.sync_with(now);
        assert_eq!((c.at(now.ticks), c.drift.steps), (now.ns, 1));
        let later = pair(now.ticks + 2_500_000_000, now.ns + 1_000_000_000);
        assert!((c.at(later.ticks) - later.ns).abs() < 10, "the rate is the old one");
        c.sync_with(pair(now.ticks - 5, now.ns + 5));
        assert_eq!(c.drift.steps, 2, "a counter that went back");
    }

    #[test]
    fn too_short_a_baseline_is_refused() {
        assert_eq!(rate(pair(0, 0), pair(1000, 400)), None);
        assert_eq!(rate(pair(5, 0), pair(5, 2_000_000)), None);
    }

    #[test]
    fn never_goes_back() {
        let Some(origin) = TscClock::origin() else {
            println!("skipped: the kernel's clock source is not the counter");
            return;
        };
        // The rate needs two readings a millisecond apart.
        while MonoClock.now().since(origin.at()) < 2_000_000 {
            std::hint::spin_loop();
        }
        let clock = TscClock::new(origin).unwrap();
        let mut last = clock.now();
        for _ in 0..1000 {
            let now = clock.now();
            assert!(now >= last, "goes back");
            last = now;
        }
    }
}
