//! fio's zoned: ranges one after the other, each with its share of the draws, uniform inside.

use rand::Rng as _;
use taillight_core::{Error, Result};

use super::super::Rng;
use super::super::permute::below;
use super::alias::Alias;

/// One range. Both numbers are relative to their sums: percent, fractions and bytes all work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneShare {
    /// Share of the draws; 0 leaves the range alone.
    pub access: f64,
    /// Share of the space.
    pub space: f64,
}

/// Ranges with weights.
#[derive(Debug, Clone)]
pub struct Zoned {
    choice: Alias,
    /// First item and number of items.
    ranges: Box<[(u64, u64)]>,
}

impl Zoned {
    /// Over `0..n`, from the first item up. Errors: `Usage` when a share is negative, the shares do not sum to
    /// something positive, or a zone with draws gets no item.
    pub fn new(n: u64, zones: &[ZoneShare]) -> Result<Zoned> {
        let choice = Alias::new(&zones.iter().map(|z| z.access).collect::<Vec<_>>())?;
        let total: f64 = zones.iter().map(|z| z.space).sum();
        let valid = zones.iter().all(|z| z.space >= 0.0);
        if !(valid && total > 0.0 && total.is_finite()) {
            return Err(Error::usage("the zones' shares of space sum to nothing")
                .with("sum", total)
                .hint("write each zone as its share of I/Os and its share of space, 60/10 30/20 10/70"));
        }
        let (mut ranges, mut start, mut sum) = (Vec::new(), 0u64, 0.0);
        for (i, zone) in zones.iter().enumerate() {
            sum += zone.space;
            let rest = zones[i + 1..].iter().all(|z| z.space == 0.0);
            let end =
                if rest { n } else { ((sum / total * n as f64).round() as u64).clamp(start, n) };
            if end == start && zone.access > 0.0 {
                return Err(Error::usage("a zone with I/Os has no room for one item")
                    .with("zone", i + 1)
                    .with("space", zone.space)
                    .with("items", n)
                    .hint("give the zone more space, or use a larger data set"));
            }
            ranges.push((start, end - start));
            start = end;
        }
        Ok(Zoned { choice, ranges: ranges.into() })
    }

    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let (start, width) = self.ranges[self.choice.pick(rng.next_u64())];
        start + below(rng.next_u64(), width)
    }
}
