//! A hot set: the first items get a fixed share of the draws; uniform inside both parts (YCSB).

use rand::Rng as _;
use taillight_core::Result;

use super::super::Rng;
use super::super::permute::below;
use super::{share, unit};

/// Hot and cold items.
#[derive(Debug, Clone, Copy)]
pub struct Hotspot {
    /// Hot items, the lowest numbers.
    hot: u64,
    cold: u64,
    ops: f64,
}

impl Hotspot {
    /// Over `0..n`; at least one item is hot. Errors: `Usage` when a share is outside (0, 1].
    pub fn new(n: u64, data: f64, ops: f64) -> Result<Hotspot> {
        let (data, ops) = (share("hot share of data", data)?, share("hot share of draws", ops)?);
        let hot = ((n as f64 * data) as u64).clamp(1, n);
        let cold = n - hot;
        Ok(Hotspot {
            hot,
            cold,
            // Without cold items every draw is hot.
            ops: if cold == 0 { 1.0 } else { ops },
        })
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let hot = unit(rng) < self.ops;
        // Selected, not branched on: the outcome is random and would be mispredicted.
        let (start, width) = if hot { (0, self.hot) } else { (self.hot, self.cold) };
        start + below(rng.next_u64(), width)
    }
}
