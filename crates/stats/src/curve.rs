//! The percentile curve for plotting: every value of a small distribution, of a larger one about as many points as
//! asked, spread evenly over the scale of nines so that the tail keeps its shape. Points are sample values without
//! intervals, from minimum to maximum.

use crate::dist::Dist;

/// One point of a percentile curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankPoint {
    /// Rank of the value, 1 for the smallest.
    pub rank: u64,
    /// The rank as a share of all I/Os in per cent, above 0 to 100; for labels.
    pub percent: f64,
    /// Place on the scale of nines: 1 at 90 %, 2 at 99 %, ... Half a rank is taken off (Hazen's
    /// plotting position), so that the maximum of `n` I/Os has a place, `log10(2 n)`.
    pub nines: f64,
    /// The value in nanoseconds.
    pub value: u64,
}

/// At most `max_points` points of the percentile curve (at most two where `max_points` is less), rising, always with
/// minimum and maximum. A distribution of no more values has a point for each of them, an empty one has none; of a
/// larger one there are fewer points than asked where several fall on one rank.
#[must_use]
pub fn percentile_curve(dist: &Dist, max_points: usize) -> Vec<RankPoint> {
    let n = dist.count();
    let points = max_points.max(2) as u64;
    let mut ranks: Vec<u64> = if n <= points {
        (1..=n).collect()
    } else {
        let (first, last) = (nines_at(1, n), nines_at(n, n));
        let step = (last - first) / (points - 1) as f64;
        (0..points).map(|i| rank_at(first + step * i as f64, n)).collect()
    };
    // Rounding must not cost the ends.
    if let (Some(first), true) = (ranks.first_mut(), n > 0) {
        *first = 1;
    }
    if let (Some(last), true) = (ranks.last_mut(), n > 0) {
        *last = n;
    }
    ranks.dedup();
    ranks.into_iter().filter_map(|rank| point(dist, rank)).collect()
}

/// The point of a rank; `None` for a rank that the distribution does not have.
fn point(dist: &Dist, rank: u64) -> Option<RankPoint> {
    let n = dist.count();
    let percent = 100.0 * (rank as f64 / n as f64);
    Some(RankPoint { rank, percent, nines: nines_at(rank, n), value: dist.value_at_rank(rank)? })
}

/// Place of a rank among `n` on the scale of nines; see [`RankPoint::nines`].
fn nines_at(rank: u64, n: u64) -> f64 {
    -((((n - rank) as f64) + 0.5) / n as f64).log10()
}

/// The rank among `n` that is nearest to a place on the scale of nines, 1 to `n`.
fn rank_at(place: f64, n: u64) -> u64 {
    let above = (n as f64 * 10f64.powf(-place) - 0.5).round().max(0.0) as u64;
    n - above.min(n - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_values_are_all_kept() {
        let curve = percentile_curve(&Dist::from_values(vec![30, 10, 20]), 100);
        let seen: Vec<_> = curve.iter().map(|p| (p.rank, p.value)).collect();
        assert_eq!(seen, [(1, 10), (2, 20), (3, 30)]);
        assert_eq!(curve[2].percent, 100.0);
        assert!((curve[2].nines - 6f64.log10()).abs() < 1e-12);
        assert!(percentile_curve(&Dist::default(), 100).is_empty());
    }

    #[test]
    fn the_tail_is_dense() {
        let n = 10_000_000;
        let curve = percentile_curve(&Dist::from_sorted_pairs([(5, n)]).expect("sorted"), 200);
        // Seven nines and the half rank share the points alike, until single ranks are further
        // apart than points; there every rank is kept.
        let each = 200.0 / 7.3;
        for w in [0.0, 90.0, 99.0, 99.9, 99.99, 99.999].windows(2) {
            let seen = curve.iter().filter(|p| p.percent > w[0] && p.percent <= w[1]).count();
            assert!((seen as f64 - each).abs() < 2.0, "{w:?}: {seen}, wanted {each}");
        }
        let top: Vec<u64> = curve.iter().rev().take(5).map(|p| n - p.rank).collect();
        assert_eq!(top, [0, 1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn ends_kept_and_rising(
            v in prop::collection::vec(any::<u64>(), 1..400), max in 0usize..60,
        ) {
            let dist = Dist::from_values(v);
            let curve = percentile_curve(&dist, max);
            prop_assert!(curve.len() <= max.max(2));
            prop_assert_eq!(curve.first().map(|p| p.value), dist.min());
            prop_assert_eq!(curve.last().map(|p| p.value), dist.max());
            let rising = |a: &RankPoint, b: &RankPoint| {
                a.rank < b.rank && a.value <= b.value && a.nines < b.nines
            };
            prop_assert!(curve.windows(2).all(|w| rising(&w[0], &w[1])));
            prop_assert!(curve.iter().all(|p| dist.value_at_rank(p.rank) == Some(p.value)));
        }
    }
}
