//! Logarithmic bins for pictures of a distribution: 50 per decade from 10 ns to 100 s, as PCPer's
//! latency plots have them, with counts below and above, so that a picture loses no I/O. Percentiles
//! come from the [`Dist`] that was binned, never from the bins.

use std::ops::Range;
use std::sync::LazyLock;

use crate::dist::Dist;

/// Bins in each factor of ten; neighbouring edges differ by about 4.7 %.
pub const BINS_PER_DECADE: usize = 50;
/// Decades between the first and the last edge.
pub const DECADES: usize = 10;
/// All bins: 500.
pub const BINS: usize = BINS_PER_DECADE * DECADES;
/// The first edge in nanoseconds.
pub const FIRST_EDGE_NS: u64 = 10;
/// The last edge in nanoseconds, 100 s.
pub const LAST_EDGE_NS: u64 = 100_000_000_000;

/// The smallest whole nanosecond of each bin, and one past the last bin.
static WHOLE_EDGES: LazyLock<Vec<u64>> =
    LazyLock::new(|| (0..=BINS).map(|i| edge_ns(i).ceil() as u64).collect());

/// Lower edge of bin `i` in nanoseconds, as a real number: `10 * 10^(i / 50)`.
///
/// Edge [`BINS`] is the upper edge of the last bin. Whole powers of ten are exact.
#[must_use]
pub fn edge_ns(i: usize) -> f64 {
    let decade = (i / BINS_PER_DECADE) as f64;
    let within = (i % BINS_PER_DECADE) as f64 / BINS_PER_DECADE as f64;
    FIRST_EDGE_NS as f64 * 10f64.powf(decade).round() * 10f64.powf(within)
}

/// All 501 edges in nanoseconds, rising.
#[must_use]
pub fn edges_ns() -> Vec<f64> {
    (0..=BINS).map(edge_ns).collect()
}

/// The whole nanoseconds that fall into bin `i`; empty for some bins below 20 ns, where bins are
/// narrower than a nanosecond, and for any `i` that is not a bin.
#[must_use]
pub fn whole_ns(i: usize) -> Range<u64> {
    match (WHOLE_EDGES.get(i), WHOLE_EDGES.get(i + 1)) {
        (Some(&from), Some(&to)) => from..to,
        _ => 0..0,
    }
}

/// Counts of I/Os per logarithmic bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBins {
    /// I/Os faster than 10 ns.
    pub below: u64,
    /// I/Os in each of the [`BINS`] bins; a bin holds its lower edge and not its upper one.
    pub counts: Vec<u64>,
    /// I/Os of 100 s or more.
    pub above: u64,
}

impl LogBins {
    /// Bins every value of a distribution.
    #[must_use]
    pub fn from_dist(dist: &Dist) -> Self {
        let up_to: Vec<u64> =
            WHOLE_EDGES.iter().map(|&edge| dist.count_at_or_below(edge - 1)).collect();
        Self {
            below: up_to[0],
            counts: up_to.windows(2).map(|w| w[1] - w[0]).collect(),
            above: dist.count() - up_to[BINS],
        }
    }

    /// All I/Os, those outside the bins included.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.below + self.counts.iter().sum::<u64>() + self.above
    }

    /// First and last bin that hold anything, if any does.
    #[must_use]
    pub fn occupied(&self) -> Option<(usize, usize)> {
        let first = self.counts.iter().position(|&c| c > 0)?;
        let last = self.counts.iter().rposition(|&c| c > 0)?;
        Some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_are_whole_at_decades_and_rise() {
        let edges = edges_ns();
        assert_eq!(edges.len(), 501);
        for decade in 0..=DECADES {
            assert_eq!(edges[decade * 50], 10f64.powi(i32::try_from(decade).unwrap() + 1));
        }
        for (i, w) in edges.windows(2).enumerate() {
            assert!((w[1] / w[0] - 10f64.powf(0.02)).abs() < 1e-12, "bin {i}");
        }
        assert_eq!((edges[0], edges[500]), (FIRST_EDGE_NS as f64, LAST_EDGE_NS as f64));
    }

    #[test]
    fn edge_values_fall_into_the_bin_they_open() {
        let of = |v: u64| LogBins::from_dist(&Dist::from_values(vec![v]));
        assert_eq!((of(0).below, of(9).below, of(10).below), (1, 1, 0));
        assert_eq!(of(10).occupied(), Some((0, 0)));
        assert_eq!(of(100).occupied(), Some((50, 50)));
        assert_eq!(of(99).occupied(), Some((49, 49)));
        assert_eq!(of(LAST_EDGE_NS - 1).occupied(), Some((499, 499)));
        assert_eq!((of(LAST_EDGE_NS).above, of(LAST_EDGE_NS).occupied()), (1, None));
        assert_eq!(of(u64::MAX).above, 1);
        assert_eq!(LogBins::from_dist(&Dist::default()).total(), 0);
        assert_eq!(whole_ns(50), 100..105);
        assert_eq!(whole_ns(BINS), 0..0);
    }

    proptest! {
        #[test]
        fn no_count_is_lost_and_every_bin_is_right(
            v in prop::collection::vec(prop_oneof![0u64..300, 0u64..1 << 40, any::<u64>()], 0..60),
        ) {
            let bins = LogBins::from_dist(&Dist::from_values(v.clone()));
            prop_assert_eq!(bins.total(), v.len() as u64);
            prop_assert_eq!(bins.counts.len(), BINS);
            let mut counts = vec![0u64; BINS];
            for &value in v.iter().filter(|v| (FIRST_EDGE_NS..LAST_EDGE_NS).contains(*v)) {
                let bin = ((value as f64).log10() - 1.0) * 50.0;
                // The logarithm may round across an edge; the whole edges decide.
                let near = bin as usize;
                let i = (near.saturating_sub(1)..=near + 1).find(|&i| whole_ns(i).contains(&value));
                counts[i.expect("a bin next to the logarithm")] += 1;
            }
            prop_assert_eq!(bins.counts, counts);
        }
    }
}
