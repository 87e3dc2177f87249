//! On and off in turns: evenly spaced while on, nothing while off.
//!
//! Operations are spaced in *on-time*, the time spent inside bursts, and a burst is half open: an
//! operation due exactly when a burst ends is the first of the next one. A burst that holds no
//! whole number of operations passes the rest on, so that the average is exact.

use super::constant::Constant;

/// One worker's instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bursts {
    spaced: Constant,
    on: i64,
    cycle: i64,
    origin: i64,
    /// The next instant, ns.
    pub(super) next: i64,
}

impl Bursts {
    /// `spaced` in bursts of `on` ns with `off` ns between; the first begins at 0.
    pub fn new(spaced: Constant, on: u64, off: u64) -> Bursts {
        let on = i64::try_from(on).unwrap_or(i64::MAX / 4).max(1);
        let off = i64::try_from(off).unwrap_or(i64::MAX / 4);
        let mut bursts = Bursts { spaced, on, cycle: on + off, origin: 0, next: 0 };
        bursts.next = bursts.real(bursts.spaced.next);
        bursts
    }

    #[inline]
    fn real(&self, on_time: i64) -> i64 {
        let passed = (on_time / self.on).saturating_mul(self.cycle);
        self.origin.saturating_add(passed).saturating_add(on_time % self.on)
    }

    /// Time to on-time: what of it lies inside bursts.
    fn on_time(&self, at: i64) -> i64 {
        let since = at.saturating_sub(self.origin).max(0);
        since / self.cycle * self.on + (since % self.cycle).min(self.on)
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.origin += ns;
        self.next += ns;
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.spaced.advance();
        self.next = self.real(self.spaced.next);
    }

    /// Instants before `until`, from the next one on.
    pub fn due(&self, until: i64) -> u64 {
        self.spaced.due(self.on_time(until))
    }

    /// Leaves out every instant before `until`.
    pub fn skip(&mut self, until: i64) {
        self.spaced.skip(self.on_time(until));
        self.next = self.real(self.spaced.next);
    }
}
