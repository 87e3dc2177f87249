//! How large: fixed, weighted, or a range of multiples of a step.

use rand::Rng as _;
use taillight_core::plan::BlockSize;

use super::permute::below;

/// Draws block sizes, bytes.
#[derive(Debug, Clone)]
pub enum Sizes {
    /// Always this.
    Fixed(u64),
    /// Cumulative bounds of 2^32 and sizes.
    Split(Vec<(u64, u64)>),
    /// `min + step * k`, k below `count`.
    Range {
        /// Smallest.
        min: u64,
        /// Step.
        step: u64,
        /// How many sizes.
        count: u64,
    },
}

impl Sizes {
    /// From the plan.
    pub fn new(plan: &BlockSize) -> Sizes {
        match plan {
            BlockSize::Fixed(b) => Sizes::Fixed(b.0),
            BlockSize::Split(parts) => {
                let total: u64 = parts.iter().map(|p| u64::from(p.weight)).sum();
                let mut sum = 0u64;
                let bounds = parts.iter().map(|p| {
                    sum += u64::from(p.weight);
                    (
                        ((u128::from(sum) << 32) / u128::from(total.max(1))) as u64,
                        p.size.0,
                    )
                });
                Sizes::Split(bounds.collect())
            }
            BlockSize::Range(r) => Sizes::Range {
                min: r.min.0,
                step: r.step.0,
                count: (r.max.0 - r.min.0) / r.step.0.max(1) + 1,
            },
        }
    }

    /// Every size it can draw, when they are few; for the capture's size table.
    pub fn distinct(&self, most: usize) -> Option<Vec<u64>> {
        match self {
            Sizes::Fixed(b) => Some(vec![*b]),
            Sizes::Split(parts) if parts.len() <= most => Some(parts.iter().map(|p| p.1).collect()),
            Sizes::Range { min, step, count } if *count <= most as u64 => {
                Some((0..*count).map(|k| min + k * step).collect())
            }
            _ => None,
        }
    }

    /// One draw.
    #[inline]
    pub fn draw(&self, rng: &mut super::Rng) -> u64 {
        match self {
            Sizes::Fixed(b) => *b,
            Sizes::Split(parts) => {
                let x = u64::from(rng.next_u32());
                parts
                    .iter()
                    .find(|(bound, _)| x < *bound)
                    .map_or(parts[0].1, |p| p.1)
            }
            Sizes::Range { min, step, count } => min + below(rng.next_u64(), *count) * step,
        }
    }
}
