//! A cheap random order of `0..n` that visits each number exactly once, without a bitmap.
//!
//! A keyed bijection on the next power of two (multiply by odd, xor-shift, add: each step is
//! invertible), walked until it lands below `n` ("cycle walking", Black and Rogaway, CT-RSA 2002,
//! section 3). Less than two steps per draw on average, no memory, any position at random access.

use crate::splitmix;

/// A number below `n` from 64 random bits (Lemire's multiply-shift; bias below n / 2^64).
#[inline]
pub fn below(random: u64, n: u64) -> u64 {
    ((u128::from(random) * u128::from(n)) >> 64) as u64
}

/// A permutation of `0..n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    multiply: [u64; 3],
    add: [u64; 3],
}

impl Permutation {
    /// The permutation of `0..n` (n >= 1) named by `key`.
    pub fn new(n: u64, key: u64) -> Permutation {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(1);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let mut state = key;
        let mut draw = || {
            state = state.wrapping_add(splitmix::STEP);
            splitmix::finish(state)
        };
        let multiply = [draw() | 1, draw() | 1, draw() | 1];
        Permutation { n, mask, shift: bits.div_ceil(2), multiply, add: [draw(), draw(), draw()] }
    }

    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether there is nothing to permute.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The number at `position` (below n).
    #[inline]
    pub fn at(&self, position: u64) -> u64 {
        let mut x = position;
        loop {
            x = self.mix(x);
            if x < self.n {
                return x;
            }
        }
    }

    #[inline]
    fn mix(&self, mut x: u64) -> u64 {
        for round in 0..3 {
            x = x.wrapping_mul(self.multiply[round]).wrapping_add(self.add[round]) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}
