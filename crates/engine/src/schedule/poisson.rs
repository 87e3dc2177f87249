//! Exponentially distributed gaps, seeded. Each worker has a stream of its own at its share of the
//! rate: streams laid over each other are a Poisson process at the whole rate.
//!
//! Time is kept in whole nanoseconds plus a carried fraction; only a gap is ever a float.

use rand::{Rng as _, SeedableRng};

use super::rate::Gap;
use crate::generator::{Rng, WorkerIndex, worker_seed};

/// Purpose of the seed: no other sequence of draws has it (the order of scattered items, which has it too, is none).
const PURPOSE: u64 = 4;

/// A walk over the instants.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PoissonWalk {
    rng: Rng,
    next: i64,
    /// Fraction carried, in 2^-32 ns.
    carry: u64,
    /// Number of the instant at `next`.
    index: u64,
}

impl PoissonWalk {
    #[inline]
    fn advance(&mut self, mean_ns: f64) {
        // Uniform over (0, 1]: never the logarithm of zero.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let gap = -uniform.ln() * mean_ns;
        let whole = gap as i64;
        self.carry += ((gap - whole as f64) * 4_294_967_296.0) as u64;
        self.next = self.next.saturating_add(whole).saturating_add((self.carry >> 32) as i64);
        self.carry &= u64::from(u32::MAX);
        self.index += 1;
    }
}

/// One worker's instants.
#[derive(Debug, Clone, PartialEq)]
pub struct Poisson {
    /// Mean gap of this worker, ns.
    mean_ns: f64,
    now: PoissonWalk,
    /// Walks ahead to count what is due; each instant once.
    ahead: PoissonWalk,
}

impl Poisson {
    /// The stream of the worker at `place`.
    pub fn new(gap: Gap, seed: u64, place: WorkerIndex) -> Poisson {
        let mean_ns = gap.num as f64 * f64::from(place.of.max(1)) / gap.den as f64;
        let mut now = PoissonWalk {
            rng: Rng::seed_from_u64(worker_seed(seed, place.worker, PURPOSE)),
            next: 0,
            carry: 0,
            index: 0,
        };
        now.advance(mean_ns);
        Poisson { mean_ns, ahead: now.clone(), now }
    }

    /// The next instant, ns.
    #[inline]
    pub fn next(&self) -> i64 {
        self.now.next
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.now.next += ns;
        self.ahead = self.now.clone();
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.now.advance(self.mean_ns);
    }

    /// Instants before `until`, from the next one on. Remembers how far it looked.
    pub fn due(&mut self, until: i64) -> u64 {
        if self.now.next >= until {
            return 0;
        }
        if self.ahead.index < self.now.index || self.ahead.next > until {
            self.ahead = self.now.clone();
        }
        while self.ahead.next < until {
            self.ahead.advance(self.mean_ns);
        }
        self.ahead.index - self.now.index
    }

    /// Begins at `until` instead: the process has no memory.
    pub fn skip(&mut self, until: i64) {
        self.shift(until.max(0));
    }
}
