//! Weighted choice in constant time (Walker's alias method, built as by Vose, 1991).
//!
//! One multiplication gives both the slot and the coin. Thresholds are 64-bit integers, so a
//! weight is met to the precision of a double. Callers: Zipf, zoned, long lists of weighted sizes.

use taillight_core::{Error, Result};

/// One slot: itself below `threshold`, else `other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AliasSlot {
    threshold: u64,
    other: u32,
}

/// A weighted choice among `0..len`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    slots: Box<[AliasSlot]>,
}

impl Alias {
    /// From weights; they need not sum to anything in particular. Errors: `Usage` when there are
    /// none, 2^32 or more, one is negative or not finite, all are 0, or their sum is not finite.
    pub fn new(weights: &[f64]) -> Result<Alias> {
        let total: f64 = weights.iter().sum();
        let bad = weights.iter().find(|w| !w.is_finite() || **w < 0.0);
        if let Some(weight) = bad {
            return Err(Error::usage("a weight must be a number of at least 0")
                .with("weight", weight)
                .hint("weights are relative: 70 and 30 mean the same as 7 and 3"));
        }
        if total <= 0.0 || !total.is_finite() || u32::try_from(weights.len()).is_err() {
            return Err(Error::usage("the weights sum to nothing that can be drawn from")
                .with("weights", weights.len())
                .with("sum", total)
                .hint("give at least one weight above 0"));
        }
        Ok(Alias { slots: build(weights, total) })
    }

    /// How many there are to choose from.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// A choice from 64 random bits.
    #[inline]
    pub fn pick(&self, random: u64) -> usize {
        let product = u128::from(random) * self.slots.len() as u128;
        let index = (product >> 64) as usize;
        let slot = self.slots[index];
        if (product as u64) < slot.threshold { index } else { slot.other as usize }
    }
}

fn build(weights: &[f64], total: f64) -> Box<[AliasSlot]> {
    let scale = weights.len() as f64 / total;
    // How full each slot is, 1 being exactly its own.
    let mut level: Vec<f64> = weights.iter().map(|w| w * scale).collect();
    let heaviest = (0..level.len()).fold(0, |a, b| if level[b] > level[a] { b } else { a });
    let mut slots: Vec<AliasSlot> = (0..level.len())
        .map(|i| AliasSlot {
            threshold: u64::MAX,
            // What rounding leaves over must not go to a weight of 0.
            other: if weights[i] > 0.0 { i } else { heaviest } as u32,
        })
        .collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..level.len()).partition(|&i| level[i] < 1.0);
    while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
        slots[poor] =
            AliasSlot { threshold: (level[poor] * 2f64.powi(64)) as u64, other: rich as u32 };
        level[rich] -= 1.0 - level[poor];
        if level[rich] < 1.0 {
            large.pop();
            small.push(rich);
        }
    }
    for (slot, weight) in slots.iter_mut().zip(weights) {
        if *weight == 0.0 {
            slot.threshold = 0;
        }
    }
    slots.into()
}
