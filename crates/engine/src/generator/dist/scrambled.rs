//! YCSB's scrambled zipfian, what its `requestdistribution=zipfian` means.
//!
//! A zipfian over 0 to 10^10 inclusive with a zeta fixed in its source, hashed onto the keys. The
//! skew therefore does not follow the number of records. The keys are those loaded, those the run
//! is expected to add, and one more; draws of keys not there yet are redrawn by [`super::ItemDistribution`].

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
    /// The largest number times `items` that is below 2^64.
    inverse: u64,
}

impl Scrambled {
    /// Over `n` loaded keys and `new_keys` expected ones.
    pub fn new(n: u64, new_keys: u64) -> Scrambled {
        let items = n.saturating_add(new_keys).saturating_add(1);
        Scrambled {
            ranks: Gray::with_zeta(RANKS, YCSB_THETA, ZETA),
            items,
            inverse: u64::MAX / items,
        }
    }

    /// Keys it draws from, existing or not.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The key for `u` in [0, 1).
    #[inline]
    pub fn at(&self, u: f64) -> u64 {
        self.below(hash(self.ranks.at(u, RANKS)).unsigned_abs())
    }

    /// `n % items` without a division: the quotient is the true one or one less.
    #[inline]
    fn below(&self, n: u64) -> u64 {
        let quotient = (u128::from(n) * u128::from(self.inverse)) >> 64;
        let rest = n - quotient as u64 * self.items;
        if rest >= self.items { rest - self.items } else { rest }
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.at(unit(rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_that_of_a_division() {
        for items in [2u64, 3, 7, 1001, 1 << 32, (1 << 38) - 1, 1 << 62, 1 << 63] {
            let keys = Scrambled::new(items - 1, 0);
            assert_eq!(keys.items(), items);
            let near = [0, 1, items - 1, items, items + 1, 2 * (items / 2)];
            let large = [1 << 63, (1 << 63) - 1, u64::MAX, u64::MAX / items * items];
            let spread = (1..2000u64).map(|k| k.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            for n in near.into_iter().chain(large).chain(spread) {
                assert_eq!(keys.below(n), n % items, "{n} % {items}");
            }
            let before = (u64::MAX / items * items).saturating_sub(1);
            assert_eq!(keys.below(before), before % items, "{items}");
        }
    }
}
