//! Which operation: a weighted draw.

use rand::Rng as _;
use taillight_core::OpKind;
use taillight_core::plan::MixPart;

/// Cumulative shares of 2^32, so that a draw is one compare per operation.
#[derive(Debug, Clone)]
pub struct Mix {
    first: OpKind,
    parts: Vec<(u64, OpKind)>,
}

impl Mix {
    /// From weights, at least one of them positive (the plan checks that).
    pub fn new(parts: &[MixPart]) -> Mix {
        let parts: Vec<&MixPart> = parts.iter().filter(|p| p.weight > 0).collect();
        let total: u64 = parts.iter().map(|p| u64::from(p.weight)).sum();
        let mut sum = 0u64;
        let cumulative = parts.iter().map(|p| {
            sum += u64::from(p.weight);
            // Rounded down to one of 2^32 steps: an error below 2^-32 of a share.
            (((u128::from(sum) << 32) / u128::from(total.max(1))) as u64, p.op)
        });
        let cumulative: Vec<_> = cumulative.collect();
        Mix { first: cumulative.first().map_or(OpKind::Read, |p| p.1), parts: cumulative }
    }

    /// The operation, where there is only one.
    pub fn only(&self) -> Option<OpKind> {
        (self.parts.len() <= 1).then_some(self.first)
    }

    /// Draws an operation; `rng` is left alone when there is only one.
    #[inline]
    pub fn draw(&self, rng: &mut super::Rng) -> OpKind {
        if self.parts.len() <= 1 {
            return self.first;
        }
        let x = u64::from(rng.next_u32());
        self.parts.iter().find(|(bound, _)| x < *bound).map_or(self.first, |(_, op)| *op)
    }
}
