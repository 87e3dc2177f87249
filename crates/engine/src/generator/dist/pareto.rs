//! fio's pareto: `floor(n * u^p)`, `p = ln h / ln (1 - h)`.
//!
//! The first share h of the items gets 1 - h of the draws, and the same again inside it. fio
//! multiplies by n - 1, which leaves its last item out but for u = 1; here it gets its due share.

use taillight_core::{Error, Result};

use super::super::Rng;
use super::power::{Power, ROWS};
use super::unit;

/// A relative error of the place that no count of draws could show.
const GOOD: f64 = 1e-9;

/// A power of a uniform draw.
#[derive(Debug, Clone)]
pub struct Pareto {
    n: f64,
    exponent: f64,
    power: Power,
}

impl Pareto {
    /// Over `0..n`. Errors: `Usage` when h is not between 0 and 1.
    pub fn new(n: u64, h: f64) -> Result<Pareto> {
        if !(h > 0.0 && h < 1.0) {
            return Err(Error::usage("pareto needs an h between 0 and 1, both excluded")
                .with("h", h)
                .hint("0.2 sends 80 % of the I/Os to 20 % of the space"));
        }
        let exponent = h.ln() / (-h).ln_1p();
        Ok(Pareto { n: n as f64, exponent, power: Power::new(0.0, 1.0, exponent) })
    }

    /// The item for `u` in [0, 1). Looked up where the table is as good as a double need be.
    #[inline]
    pub fn at(&self, u: f64) -> u64 {
        match self.power.at(u * ROWS as f64) {
            (power, error) if error < GOOD => (self.n * power) as u64,
            _ => (self.n * self.by_powf(u)) as u64,
        }
    }

    #[cold]
    fn by_powf(&self, u: f64) -> f64 {
        u.powf(self.exponent)
    }

    /// One item; n itself when rounding takes u to 1, which callers redraw.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.at(unit(rng))
    }
}
