//! YCSB's exponential: an exponential distance back from the newest key.
//!
//! `last - floor(E / gamma)`, E being a standard exponential (YCSB takes `-ln(u)`), with
//! `gamma = -ln(1 - percentile / 100) / (n * frac)`: before redraws, that percentage of the draws falls into the newest
//! `n * frac` keys, `n` being the number of keys at the start. A draw before key 0 (3.04 % at YCSB's defaults) is
//! [`OUTSIDE`], and the caller redraws it, as YCSB does.
//!
//! Standard exponentials come from the ziggurat (Marsaglia and Tsang, 2000) with 256 layers, exact
//! in the tail and the wedges; the table is computed at set-up.

use rand::Rng as _;
use taillight_core::{Error, Result};

use super::super::Rng;
use super::{OUTSIDE, share, unit};

/// Layers of the ziggurat.
const LAYERS: usize = 256;
/// Where the tail starts, for 256 layers.
const TAIL: f64 = 7.697_117_470_131_05;

/// An exponential distance back.
#[derive(Debug, Clone)]
pub struct Exponential {
    /// Mean distance, `1 / gamma`.
    mean: f64,
    /// Right edges of the layers, the base first, then 0.
    edges: Box<[f64; LAYERS + 1]>,
}

impl Exponential {
    /// With `n` keys at the start. Errors: `Usage` when the percentile is outside (0, 100), or the share outside
    /// (0, 1].
    pub fn new(n: u64, percentile: f64, frac: f64) -> Result<Exponential> {
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(Error::usage("the percentile must lie between 0 and 100, both excluded")
                .with("percentile", percentile)
                .hint("YCSB's default is 95"));
        }
        let range = n as f64 * share("exponential share", frac)?;
        Ok(Exponential { mean: range / -(1.0 - percentile / 100.0).ln(), edges: edges() })
    }

    /// One key, the newest being `last`; [`OUTSIDE`] for a draw before key 0.
    #[inline]
    pub fn draw(&self, rng: &mut Rng, last: u64) -> u64 {
        let back = (self.standard(rng) * self.mean) as u64;
        last.checked_sub(back).unwrap_or(OUTSIDE)
    }

    #[inline]
    fn standard(&self, rng: &mut Rng) -> f64 {
        loop {
            let random = rng.next_u64();
            let layer = random as usize % LAYERS;
            // A double in [0, 1) from the upper 53 bits; the layer is taken from the others. By way of i64: x86-64
            // converts a signed integer in one instruction, an unsigned one in several.
            let x = (random >> 11) as i64 as f64 * (1.0 / (1u64 << 53) as f64) * self.edges[layer];
            if x < self.edges[layer + 1] {
                return x;
            }
            if let Some(x) = self.rare(rng, layer, x) {
                return x;
            }
        }
    }

    /// The few draws in the tail or in a wedge; `None` where a draw in a wedge is rejected.
    #[cold]
    fn rare(&self, rng: &mut Rng, layer: usize, x: f64) -> Option<f64> {
        if layer == 0 {
            // The tail of an exponential is an exponential. 1 - u is above 0.
            return Some(TAIL - (1.0 - unit(rng)).ln());
        }
        let (low, high) = ((-self.edges[layer]).exp(), (-self.edges[layer + 1]).exp());
        (low + unit(rng) * (high - low) < (-x).exp()).then_some(x)
    }
}

fn edges() -> Box<[f64; LAYERS + 1]> {
    // Every layer has the area of the base: a rectangle up to the tail, and the tail.
    let area = (TAIL + 1.0) * (-TAIL).exp();
    let mut edges = Box::new([0.0; LAYERS + 1]);
    edges[0] = area / (-TAIL).exp();
    edges[1] = TAIL;
    for i in 2..LAYERS {
        edges[i] = -(area / edges[i - 1] + (-edges[i - 1]).exp()).ln();
    }
    edges
}
