//! Evenly spaced instants: `floor(i x step)`, step an exact fraction. No drift, ever.

use super::rate::Gap;
use crate::generator::WorkerIndex;

/// One worker's evenly spaced instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// The next instant, ns.
    pub(super) next: i64,
    whole: i64,
    part: u128,
    over: u128,
    /// Remainder carried, in units of 1 / `over` ns.
    carry: u128,
}

/// Instants `start + floor((first + i * step) / over)`. All fit 63 bits for a few centuries.
pub(super) struct Walk {
    pub start: i64,
    pub first: u128,
    pub step: u128,
    pub over: u128,
}

impl Constant {
    /// Instants k, k + W, ... of the workload's sequence, for worker k of W.
    pub fn new(gap: Gap, place: WorkerIndex) -> Constant {
        let first = gap.num * u128::from(place.index);
        let step = gap.num * u128::from(place.of.max(1));
        Constant::walk(Walk { start: 0, first, step, over: gap.den })
    }

    /// The instants of `walk`.
    pub(super) fn walk(walk: Walk) -> Constant {
        let Walk { start, first, step, over } = walk;
        Constant {
            next: start.saturating_add((first / over) as i64),
            whole: (step / over) as i64,
            part: step % over,
            over,
            carry: first % over,
        }
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.next += ns;
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.next = self.next.saturating_add(self.whole);
        self.carry += self.part;
        if self.carry >= self.over {
            self.carry -= self.over;
            self.next += 1;
        }
    }

    /// Instants before `until`, from the next one on.
    pub fn due(&self, until: i64) -> u64 {
        // t_j = next + floor((carry + j * step) / over); count the j with t_j < until.
        let ahead = until.saturating_sub(self.next);
        let room = u128::try_from(ahead).unwrap_or(0) * self.over;
        let step = self.whole as u128 * self.over + self.part;
        room.saturating_sub(self.carry).div_ceil(step) as u64
    }

    /// Leaves out every instant before `until`.
    pub fn skip(&mut self, until: i64) {
        let n = u128::from(self.due(until));
        let carry = self.carry + n * self.part;
        self.next += n as i64 * self.whole + (carry / self.over) as i64;
        self.carry = carry % self.over;
    }
}
