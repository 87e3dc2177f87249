//! How many: lengths between two bounds, for scans. YCSB's `scanlengthdistribution`.

use taillight_core::{Error, Result};

use super::super::Rng;
use super::{Dist, DistSpec};

/// Draws lengths from `min` to `max`, both included.
#[derive(Debug, Clone)]
pub struct Lengths {
    min: u64,
    span: u64,
    over: Dist,
}

impl Lengths {
    /// With any distribution over the possible lengths, the shortest being its item 0. YCSB has
    /// [`DistSpec::Uniform`] and [`DistSpec::YcsbZipfian`].
    ///
    /// # Errors
    /// `Usage` when the bounds are out of order or the distribution makes no sense.
    pub fn new(spec: &DistSpec, min: u64, max: u64) -> Result<Lengths> {
        let Some(span) = max.checked_sub(min) else {
            return Err(Error::usage("the shortest length is above the longest")
                .with("min", min)
                .with("max", max)
                .hint("swap them"));
        };
        let over = Dist::new(spec, span.saturating_add(1))?;
        Ok(Lengths { min, span, over })
    }

    #[inline]
    pub fn draw(&mut self, rng: &mut Rng) -> u64 {
        self.min + self.over.draw(rng, self.span)
    }
}
