//! Normal around a place. Draws outside the space are redrawn and counted, never clamped: clamping
//! would make the edges the hottest items.
//!
//! Standard normals come from the ziggurat (Marsaglia and Tsang, 2000) with 128 layers, exact in
//! the tail and the wedges; the table is computed at set-up.

use rand::Rng as _;
use taillight_core::{Error, Result};

use super::super::Rng;
use super::{OUTSIDE, share, unit};

/// Layers of the ziggurat.
const LAYERS: usize = 128;
/// Where the tail starts, for 128 layers.
const TAIL: f64 = 3.442_619_855_899;
/// Area of each layer.
const AREA: f64 = 9.912_563_035_262_17e-3;
/// Narrower than this, rounding could leave no item to draw.
const NARROWEST: f64 = 1e-12;

/// A normal distribution over items.
#[derive(Debug, Clone)]
pub struct Normal {
    n: f64,
    centre: f64,
    deviation: f64,
    /// Right edges of the layers, the base first, then 0.
    edges: Box<[f64; LAYERS + 1]>,
}

impl Normal {
    /// Over `0..n`, centre and standard deviation as shares of it. Errors: `Usage` when the centre
    /// is outside [0, 1] or the deviation outside [1e-12, 1].
    pub fn new(n: u64, centre: f64, deviation: f64) -> Result<Normal> {
        if !(0.0..=1.0).contains(&centre) {
            return Err(Error::usage("the centre must be a share of the space, 0 to 1")
                .with("centre", centre)
                .hint("0.5 is the middle"));
        }
        if share("deviation", deviation)? < NARROWEST {
            return Err(Error::usage("the deviation is too small to draw from")
                .with("deviation", deviation)
                .hint("use at least 1e-12 of the space"));
        }
        Ok(Normal { n: n as f64, centre, deviation, edges: edges() })
    }

    /// One item, or [`OUTSIDE`].
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let x = (self.centre + self.deviation * self.standard(rng)) * self.n;
        // Not a plain cast: it would clamp what lies below 0. Above n the caller sees it.
        if x >= 0.0 { x as u64 } else { OUTSIDE }
    }

    #[inline]
    fn standard(&self, rng: &mut Rng) -> f64 {
        loop {
            let random = rng.next_u64();
            let layer = (random & (LAYERS as u64 - 1)) as usize;
            // The upper 53 bits, signed: -1 to 1. The layer is taken from the others.
            let side = (random as i64 >> 11) as f64 * (1.0 / (1u64 << 52) as f64);
            let x = side * self.edges[layer];
            if x.abs() < self.edges[layer + 1] {
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
            loop {
                // 1 - u is above 0, so that the logarithm is finite.
                let beyond = -(1.0 - unit(rng)).ln() / TAIL;
                let height = -(1.0 - unit(rng)).ln();
                if height * 2.0 > beyond * beyond {
                    return Some((TAIL + beyond).copysign(x));
                }
            }
        }
        let (low, high) = (density(self.edges[layer]), density(self.edges[layer + 1]));
        (low + unit(rng) * (high - low) < density(x)).then_some(x)
    }
}

fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp()
}

fn edges() -> Box<[f64; LAYERS + 1]> {
    let mut edges = Box::new([0.0; LAYERS + 1]);
    edges[0] = AREA / density(TAIL);
    edges[1] = TAIL;
    for i in 2..LAYERS {
        edges[i] = (-2.0 * (AREA / edges[i - 1] + density(edges[i - 1])).ln()).sqrt();
    }
    edges
}
