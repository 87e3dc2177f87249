//! The rate moves evenly from one value to another, then stays.
//!
//! The rate added up over time is a square: after t of T ns, from rate a to b, there are
//! t (2 T a + (b - a) t) / 2 T operations. Operation i comes at the moment where this is i, rounded
//! down to the nanosecond: the largest whole t that it does not exceed i at. A float guesses t,
//! whole numbers decide, so that times never go back and counts are exact.

use taillight_core::Result;
use taillight_core::plan::WorkloadPlan;
use taillight_core::units::{Rate, Span};

use super::rate::{CommonRate, Gap, owned};
use crate::generator::WorkerIndex;

/// One worker's instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ramp {
    /// Work a nanosecond at the start and at the end.
    from: u128,
    to: u128,
    /// Work of one operation.
    unit: u128,
    over: u64,
    index: u64,
    stride: u64,
    origin: i64,
    /// The next instant, ns.
    pub(super) next: i64,
}

impl Ramp {
    /// The share of the worker at `place`. Errors: `Usage` for rates out of range.
    pub fn new(
        from: Rate,
        to: Rate,
        over: Span,
        workload: &WorkloadPlan,
        place: WorkerIndex,
    ) -> Result<Ramp> {
        let gaps = [Gap::of(from, workload)?, Gap::of(to, workload)?];
        let common = CommonRate::of(&gaps, workload)?;
        let mut ramp = Ramp {
            from: common.rates[0],
            to: common.rates[1],
            unit: common.unit,
            over: over.0.clamp(1, i64::MAX as u64 / 4),
            index: u64::from(place.index),
            stride: u64::from(place.of.max(1)),
            origin: 0,
            next: 0,
        };
        ramp.locate();
        Ok(ramp)
    }

    /// Operations after `t` ns of the ramp, times 2 T and the unit: a product of two factors.
    fn reached(&self, t: u64) -> (u128, u64) {
        let level = 2 * u128::from(self.over) * self.from;
        let slope = u128::from(t) * self.to.abs_diff(self.from);
        let factor = if self.to >= self.from { level + slope } else { level - slope };
        (factor, t)
    }

    /// The same scale for operation `i`.
    fn wanted(&self, i: u64) -> (u128, u64) {
        (2 * u128::from(self.over) * self.unit, i)
    }

    /// Twice the work of the whole ramp.
    fn twice_whole(&self) -> u128 {
        u128::from(self.over) * (self.from + self.to)
    }

    /// Time of operation `i` since the start of the ramp.
    fn time(&self, i: u64) -> i64 {
        let twice = 2 * u128::from(i) * self.unit;
        if let Some(past) = twice.checked_sub(self.twice_whole()) {
            let after = i64::try_from(past / (2 * self.to)).unwrap_or(i64::MAX);
            return (self.over as i64).saturating_add(after);
        }
        let (a, b) = (self.from as f64, self.to as f64);
        let (work, slope) = (i as f64 * self.unit as f64, (b - a) / self.over as f64);
        let root = (a * a + 2.0 * slope * work).max(0.0).sqrt();
        let guess = ((2.0 * work / (a + root)) as u64).min(self.over);
        let wanted = product(self.wanted(i));
        let early = |t: u64| t <= self.over && product(self.reached(t)) <= wanted;
        first_not(guess, early) as i64 - 1
    }

    /// Operations of the workload before `at`, ns since the start of the ramp.
    fn before(&self, at: u64) -> u64 {
        if at >= self.over {
            let after = 2 * self.to * u128::from(at - self.over);
            return (self.twice_whole() + after).div_ceil(2 * self.unit) as u64;
        }
        let (factor, t) = self.reached(at);
        let scale = 2.0 * self.over as f64 * self.unit as f64;
        let guess = factor as f64 * t as f64 / scale;
        let reached = product((factor, t));
        first_not(guess as u64, |i| product(self.wanted(i)) < reached)
    }

    fn locate(&mut self) {
        self.next = self.origin.saturating_add(self.time(self.index));
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.origin += ns;
        self.next += ns;
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.index += self.stride;
        self.locate();
    }

    /// Instants before `until`, from the next one on.
    pub fn due(&self, until: i64) -> u64 {
        let at = until.saturating_sub(self.origin).max(0) as u64;
        owned(self.index, self.stride, self.before(at))
    }

    /// Leaves out every instant before `until`.
    pub fn skip(&mut self, until: i64) {
        self.index += self.due(until) * self.stride;
        self.locate();
    }
}

/// The 192-bit product, high part first.
fn product((a, b): (u128, u64)) -> (u128, u64) {
    let low = (a & u128::from(u64::MAX)) * u128::from(b);
    let high = (a >> 64) * u128::from(b) + (low >> 64);
    (high, low as u64)
}

/// The first number for which `holds` is false; it holds up to some number and never after. Steps
/// away from `guess` in doubled strides, then halves: a good guess takes two or three looks.
fn first_not(guess: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high, mut step) = (guess, guess, 1u64);
    if holds(guess) {
        while holds(high) {
            low = high + 1;
            high = high.saturating_add(step);
            step *= 2;
        }
    } else {
        while low > 0 && !holds(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
