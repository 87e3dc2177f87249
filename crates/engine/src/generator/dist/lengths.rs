//! How many: lengths between two bounds, for scans. YCSB's `scanlengthdistribution`.

use taillight_core::{Error, Result};

use super::super::Rng;
use super::{DistributionSpec, ItemDistribution};

/// Draws lengths from `min` to `max`, both included.
#[derive(Debug, Clone)]
pub struct ScanLengths {
    min: u64,
    span: u64,
    over: ItemDistribution,
}

impl ScanLengths {
    /// With any distribution over the possible lengths, the shortest being its item 0. YCSB has
    /// [`DistributionSpec::Uniform`] and [`DistributionSpec::YcsbZipfian`]. Errors: `Usage` when
    /// the bounds are out of order or the distribution makes no sense.
    pub fn new(spec: &DistributionSpec, min: u64, max: u64) -> Result<ScanLengths> {
        let Some(span) = max.checked_sub(min) else {
            return Err(Error::usage("the shortest length is above the longest")
                .with("min", min)
                .with("max", max)
                .hint("swap them"));
        };
        let over = ItemDistribution::new(spec, span.saturating_add(1))?;
        Ok(ScanLengths { min, span, over })
    }

    #[inline]
    pub fn draw(&mut self, rng: &mut Rng) -> u64 {
        self.min + self.over.draw(rng, self.span)
    }
}
