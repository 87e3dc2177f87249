//! YCSB's exponential: an exponential distance back from the newest key.
//!
//! `last - floor(-ln(u) / gamma)` with `gamma = -ln(1 - percentile / 100) / (n * frac)`: that
//! percentage of the draws falls into that newest share of the keys. Draws before key 0 are
//! redrawn (3.04 % at YCSB's defaults), which YCSB does as well.

use taillight_core::{Error, Result};

use super::super::Rng;
use super::{OUTSIDE, share, unit};

/// An exponential distance back.
#[derive(Debug, Clone, Copy)]
pub struct Exponential {
    gamma: f64,
}

impl Exponential {
    /// With `n` keys at the start.
    ///
    /// # Errors
    /// `Usage` when the percentile is not between 0 and 100, or the share outside (0, 1].
    pub fn new(n: u64, percentile: f64, frac: f64) -> Result<Exponential> {
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(
                Error::usage("the percentile must lie between 0 and 100, both excluded")
                    .with("percentile", percentile)
                    .hint("YCSB's default is 95"),
            );
        }
        let range = n as f64 * share("exponential share", frac)?;
        Ok(Exponential {
            gamma: -(1.0 - percentile / 100.0).ln() / range,
        })
    }

    /// How far back for `u` in [0, 1); without bound for 0.
    #[inline]
    pub fn back(&self, u: f64) -> u64 {
        (-u.ln() / self.gamma) as u64
    }

    /// One key, the newest being `last`.
    #[inline]
    pub fn draw(&self, rng: &mut Rng, last: u64) -> u64 {
        last.checked_sub(self.back(unit(rng))).unwrap_or(OUTSIDE)
    }
}
