//! YCSB's latest: the newest key is the hottest.
//!
//! `last - zipfian(last items)`, so key 0 is never read when there is another, as in YCSB.

use super::super::Rng;
use super::gray::Gray;

/// A zipfian distance back from the newest key.
#[derive(Debug, Clone)]
pub struct Latest {
    back: Gray,
}

impl Latest {
    /// With `n` keys at the start, at least 1.
    pub fn new(n: u64) -> Latest {
        Latest { back: Gray::ycsb((n - 1).max(1)) }
    }

    /// One key, the newest being `last`.
    #[inline]
    pub fn draw(&mut self, rng: &mut Rng, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        last - self.back.draw(rng, last).min(last)
    }
}
