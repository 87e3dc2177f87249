//! Uniform over `0..n`.

use rand::Rng as _;

use super::super::Rng;
use super::super::permute::below;

/// Each item alike.
#[derive(Debug, Clone, Copy)]
pub struct Uniform {
    n: u64,
}

impl Uniform {
    /// Over `0..n`, n at least 1.
    pub fn new(n: u64) -> Uniform {
        Uniform { n }
    }

    #[inline]
    pub fn draw(self, rng: &mut Rng) -> u64 {
        below(rng.next_u64(), self.n)
    }
}
