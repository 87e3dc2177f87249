//! YCSB's scrambled zipfian, what its `requestdistribution=zipfian` means.
//!
//! A zipfian over 0 to 10^10 inclusive with a zeta fixed in its source, hashed onto the keys. The
//! skew therefore does not follow the number of records. The keys are those loaded, those the run
//! is expected to add, and one more; draws of keys not there yet are redrawn by [`super::Dist`].

use taillight_core::keys::hash;

use super::super::Rng;
use super::gray::{Gray, YCSB_THETA};
use super::unit;

/// Ranks of the hidden zipfian: YCSB's 10^10, its upper bound inclusive.
pub const RANKS: u64 = 10_000_000_001;

/// Zeta of 10^10 at theta 0.99 as written in YCSB.
pub const ZETA: f64 = 26.469_028_201_783_02;

/// The scrambled zipfian.
#[derive(Debug, Clone)]
pub struct Scrambled {
    ranks: Gray,
    items: u64,
}

impl Scrambled {
    /// Over `n` loaded keys and `new_keys` expected ones.
    pub fn new(n: u64, new_keys: u64) -> Scrambled {
        Scrambled {
            ranks: Gray::with_zeta(RANKS, YCSB_THETA, ZETA),
            items: n.saturating_add(new_keys).saturating_add(1),
        }
    }

    /// Keys it draws from, existing or not.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The key for `u` in [0, 1).
    #[inline]
    pub fn at(&self, u: f64) -> u64 {
        hash(self.ranks.at(u, RANKS)).unsigned_abs() % self.items
    }

    /// One key.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.at(unit(rng))
    }
}
