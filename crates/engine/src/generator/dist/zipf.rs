//! Zipf's law with any exponent, exact, without a sum over the items.
//!
//! Ranks 1, 2, ... n are cut into steps: single ranks first, then [`PARTS`] steps an octave. Each
//! step's weight is its width times the weight of its first rank, an upper bound of what the step
//! really holds. A draw picks a step (alias table), a rank in it (uniform), and keeps that rank with
//! its weight over the bound; else it starts again. That is rejection under a staircase, so the
//! result is exact for every theta and n, and set-up is some thousand steps at most, not n terms.
//! Nearly all draws pass below the lowest acceptance of their step and need no power.

use rand::Rng as _;
use taillight_core::{Error, Result};

use super::super::Rng;
use super::alias::Alias;

/// Steps an octave of ranks. Below twice as many, each rank is a step of its own.
const PARTS: u64 = 16;

/// Ranks of a step up to which one draw gives rank and coin: the coin then has 32 bits or more.
const NARROW: u64 = 1 << 32;
const TWO_64: f64 = 18_446_744_073_709_551_616.0;

/// Some ranks with nearly the same weight.
#[derive(Debug, Clone, Copy)]
struct RankBand {
    /// First rank, from 1.
    start: u64,
    width: u64,
    /// The acceptance of the last rank, of 2^64: the lowest of the step.
    surely: u64,
}

/// Zipf over ranks, item 0 the hottest.
#[derive(Debug, Clone)]
pub struct Zipf {
    theta: f64,
    steps: Box<[RankBand]>,
    choice: Alias,
}

impl Zipf {
    /// Over `0..n`, n at least 1. Errors: `Usage` when theta is not a number above 0.
    pub fn new(n: u64, theta: f64) -> Result<Zipf> {
        if !(theta > 0.0 && theta.is_finite()) {
            return Err(Error::usage("zipf needs a theta above 0")
                .with("theta", theta)
                .hint("0.99 is customary, 1.2 is steeper; for theta 0 use uniform"));
        }
        let (mut steps, mut weights) = (Vec::new(), Vec::new());
        let mut start = 1u64;
        while start <= n {
            let octave = 1 << start.ilog2();
            let width = (octave / PARTS).clamp(1, n - start + 1);
            let last = (start + width - 1) as f64;
            steps.push(RankBand {
                start,
                width,
                surely: ((last / start as f64).powf(-theta) * TWO_64) as u64,
            });
            weights.push(width as f64 * (start as f64).powf(-theta));
            start += width;
        }
        Ok(Zipf { theta, steps: steps.into(), choice: Alias::new(&weights)? })
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let step = &self.steps[self.choice.pick(rng.next_u64())];
            // Single ranks take the same way (width 1, surely 1): a branch would be mispredicted.
            let product = u128::from(rng.next_u64()) * u128::from(step.width);
            let rank = step.start + (product >> 64) as u64;
            // What the product has below the rank is as random as the rank, and unrelated to it.
            let coin = if step.width <= NARROW { product as u64 } else { rng.next_u64() };
            if coin < step.surely || self.accepts(step, rank, coin) {
                return rank - 1;
            }
        }
    }

    #[cold]
    fn accepts(&self, step: &RankBand, rank: u64, coin: u64) -> bool {
        let acceptance = (rank as f64 / step.start as f64).powf(-self.theta);
        (coin as f64) < acceptance * TWO_64
    }
}
