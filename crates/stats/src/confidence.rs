//! How sure a percentile is: distribution-free intervals from order statistics.
//!
//! Among `n` independent I/Os the number at or below the true percentile is binomial whatever the
//! latencies look like, so two ranks enclose it with known probability (Le Boudec, "Performance
//! Evaluation of Computer and Communication Systems", theorem 2.1). Ties and whole nanoseconds make the
//! intervals cover more often, never less. I/Os that are slow together are not independent:
//! [`Intervals`](crate::Intervals) allows for their [`Dependence`](crate::Dependence).

use crate::binomial::{Chance, all_can_reach, critical_count};
use taillight_core::Percentile;

/// Probability left outside a 95 % bound on one side.
pub(crate) const ONE_SIDED: f64 = 0.05;
/// Probability left outside on each side of a 95 % interval.
pub(crate) const TWO_SIDED: f64 = 0.025;

/// A 95 % confidence interval of a percentile, as 1-based ranks from the smallest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ci {
    /// The value of this rank is above the true percentile in at most 2.5 % of cases; none with too few I/Os.
    pub lo_rank: Option<u64>,
    /// The value of this rank is below the true percentile in at most 2.5 % of cases; none with too few I/Os.
    pub hi_rank: Option<u64>,
}

/// The percentile as the chance that one I/O is at or below it.
pub(crate) fn chance_below(pct: &Percentile) -> Chance {
    Chance { yes: pct.share(), no: pct.tail_share() }
}

/// The two-sided 95 % interval of a percentile over `n` independent I/Os: 2.5 % on either side.
#[must_use]
pub fn quantile_ci(n: u64, pct: &Percentile) -> Ci {
    let below = chance_below(pct);
    Ci {
        lo_rank: critical_count(n, below.flipped(), TWO_SIDED).map(|from_top| n - from_top + 1),
        hi_rank: critical_count(n, below, TWO_SIDED),
    }
}

/// I/Os from which the one-sided 95 % bound on the percentile's sparse side exists, which is what
/// makes a percentile *resolved*: 299 for 99, 2995 for 99.9, and so on.
///
/// Above the median that is the upper bound, below it the lower one. None for 100, and where the
/// count exceeds 64 bits; no [`Percentile`] is 0.
#[must_use]
pub fn needed_one_sided(pct: &Percentile) -> Option<u64> {
    needed(pct, ONE_SIDED)
}

/// I/Os from which the two-sided 95 % interval has both ends: 368 for 99, 3688 for 99.9, 6 for 50.
///
/// None for 100, and where the count exceeds 64 bits; no [`Percentile`] is 0.
#[must_use]
pub fn needed_two_sided(pct: &Percentile) -> Option<u64> {
    needed(pct, TWO_SIDED)
}

/// The smallest `n` for which `max(p, 1 - p)^n <= alpha`.
fn needed(pct: &Percentile, alpha: f64) -> Option<u64> {
    let below = chance_below(pct);
    let likelier = if below.yes >= below.no { below } else { below.flipped() };
    let exact = alpha.ln() / likelier.ln_yes();
    if !exact.is_finite() || exact >= u64::MAX as f64 {
        return None;
    }
    // The quotient may round across a whole number: `all_can_reach` decides, as it does for the ranks.
    let mut n = (exact.ceil() as u64).max(1);
    while n > 1 && all_can_reach(n - 1, likelier, alpha) {
        n -= 1;
    }
    while !all_can_reach(n, likelier, alpha) {
        n = n.checked_add(1)?;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial::upper_tail;
    use crate::dist::Dist;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    impl Ci {
        fn is_complete(&self) -> bool {
            self.lo_rank.is_some() && self.hi_rank.is_some()
        }

        fn values(&self, dist: &Dist) -> (Option<u64>, Option<u64>) {
            let value = |rank: Option<u64>| rank.and_then(|k| dist.value_at_rank(k));
            (value(self.lo_rank), value(self.hi_rank))
        }
    }

    fn nines(k: u8) -> Percentile {
        Percentile::nines(k).expect("1..=18")
    }

    #[test]
    fn thresholds_of_the_nines() {
        let one = [299, 2_995, 29_956, 299_572, 2_995_731, 29_957_322, 299_573_226, 2_995_732_273];
        let two = [368, 3_688, 36_887, 368_887, 3_688_878, 36_888_793, 368_887_944, 3_688_879_453];
        for (i, k) in (2..=9).enumerate() {
            assert_eq!(needed_one_sided(&nines(k)), Some(one[i]), "one-sided, {k} nines");
            assert_eq!(needed_two_sided(&nines(k)), Some(two[i]), "two-sided, {k} nines");
        }
        assert_eq!(needed_two_sided(&Percentile::MEDIAN), Some(6));
        assert_eq!(needed_two_sided(&Percentile::MAX), None);
        let low: Percentile = "1".parse().expect("valid");
        assert_eq!(needed_one_sided(&low), Some(299));
    }

    #[test]
    fn ranks_from_the_top_match_the_published_table() {
        // (expected exceedances, lower rank from the top, upper rank from the top)
        let table = [
            (5, 11, 1),
            (10, 18, 4),
            (20, 30, 12),
            (30, 42, 20),
            (50, 65, 37),
            (100, 121, 81),
            (300, 335, 267),
            (1000, 1063, 938),
        ];
        let pct = nines(7);
        for (m, lo, hi) in table {
            let n = m * 10_000_000;
            let ci = quantile_ci(n, &pct);
            assert_eq!(ci.lo_rank, Some(n + 1 - lo), "lower, m = {m}");
            assert_eq!(ci.hi_rank, Some(n + 1 - hi), "upper, m = {m}");
        }
        let n = 36_900_000;
        let ci = quantile_ci(n, &pct);
        assert_eq!(ci, Ci { lo_rank: Some(n + 1 - 9), hi_rank: Some(n) });
    }

    /// Vectors summed term by term with 50 decimal digits by an independent program.
    #[test]
    fn ranks_match_high_precision_sums() {
        let table: [(u64, &str, u64, u64); 8] = [
            (1_000, "50", 532, 469),
            (12_345, "90", 1_301, 1_170),
            (99_999, "92.5", 7_665, 7_337),
            (1_000_000, "99.9", 1_063, 939),
            (1_000_000, "99", 10_196, 9_805),
            (2_000_000, "95", 100_606, 99_396),
            (100_000_000, "99.99", 10_197, 9_804),
            (10_000_000_000, "99.9999", 10_197, 9_804),
        ];
        for (n, p, lo, hi) in table {
            let ci = quantile_ci(n, &p.parse().expect("valid"));
            let wanted = Ci { lo_rank: Some(n + 1 - lo), hi_rank: Some(n + 1 - hi) };
            assert_eq!(ci, wanted, "{p} of {n}");
        }
    }

    #[test]
    fn known_small_intervals() {
        // Medians: the classical table of order-statistic ranks.
        assert_eq!(quantile_ci(5, &Percentile::MEDIAN), Ci::default());
        let ranks = |n| quantile_ci(n, &Percentile::MEDIAN);
        assert_eq!(ranks(6), Ci { lo_rank: Some(1), hi_rank: Some(6) });
        assert_eq!(ranks(10), Ci { lo_rank: Some(2), hi_rank: Some(9) });
        assert_eq!(ranks(100), Ci { lo_rank: Some(40), hi_rank: Some(61) });
        assert_eq!(quantile_ci(0, &Percentile::MEDIAN), Ci::default());
        assert!(!quantile_ci(367, &nines(2)).is_complete());
        assert!(quantile_ci(368, &nines(2)).is_complete());
        assert_eq!(quantile_ci(1_000_000, &Percentile::MAX).hi_rank, None);
    }

    /// 2,000 seeded runs a cell: the share of intervals that hold the truth is the one that the binomial
    /// law gives for their ranks, and that is never under 95 %.
    #[test]
    fn intervals_hold_the_truth_as_often_as_computed() {
        const RUNS: u64 = 2_000;
        for (n, p) in [(400, "50"), (1_000, "90"), (1_000, "99"), (4_500, "99.9")] {
            let pct: Percentile = p.parse().expect("valid");
            let ci = quantile_ci(n, &pct);
            let (lo, hi) = (ci.lo_rank.expect("exists"), ci.hi_rank.expect("exists"));
            let below = chance_below(&pct);
            let tail = |k: u64| upper_tail(n as f64, k as f64, below);
            let exact = tail(lo) - tail(hi);
            // Latencies uniform below 1 s: the truth is the share of a second.
            let truth = (pct.share() * 1e9) as u64;
            let held = (0..RUNS).filter(|seed| {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(*seed);
                let dist: Dist = (0..n).map(|_| (random.random::<f64>() * 1e9) as u64).collect();
                let (lo, hi) = ci.values(&dist);
                lo.is_some_and(|lo| lo <= truth) && hi.is_some_and(|hi| truth <= hi)
            });
            let share = held.count() as f64 / RUNS as f64;
            let spread = 3.0 * (exact * (1.0 - exact) / RUNS as f64).sqrt();
            assert!(exact >= 0.95 && share >= 0.94, "{p} of {n}: {share} for {exact}");
            assert!((share - exact).abs() <= spread, "{p} of {n}: {share} for {exact}");
        }
    }

    #[test]
    fn huge_counts_are_symmetric_about_the_median() {
        let n = 100_000_000_000;
        let ci = quantile_ci(n, &Percentile::MEDIAN);
        let (lo, hi) = (ci.lo_rank.expect("exists"), ci.hi_rank.expect("exists"));
        assert_eq!(lo + hi, n + 1);
        // 1.959964 standard deviations of sqrt(n)/2, give or take a rank.
        let half = (n as f64).sqrt() / 2.0 * 1.959_964;
        assert!(((hi - n / 2) as f64 - half).abs() < 3.0, "{hi}");
    }

    #[test]
    fn the_largest_counts_do_not_overflow() {
        let ci = quantile_ci(u64::MAX, &Percentile::MEDIAN);
        assert!(ci.lo_rank < Some(1 << 63) && ci.hi_rank > Some(1 << 63));
        assert_eq!(quantile_ci(u64::MAX, &Percentile::MAX).lo_rank, Some(u64::MAX));
        assert!(quantile_ci(u64::MAX, &nines(9)).is_complete());
    }

    #[test]
    fn values_are_looked_up() {
        let dist: Dist = (1..=100).map(|v| v * 10).collect();
        assert_eq!(quantile_ci(100, &Percentile::MEDIAN).values(&dist), (Some(400), Some(610)));
    }

    proptest! {
        #[test]
        fn bounds_appear_exactly_at_their_threshold(k in 1u8..=9, off in 0u64..1000) {
            let p = nines(k);
            let one = needed_one_sided(&p).expect("finite");
            let two = needed_two_sided(&p).expect("finite");
            prop_assert!(one <= two);
            prop_assert!(quantile_ci(two + off, &p).is_complete());
            prop_assert!(!quantile_ci((two - 1).saturating_sub(off), &p).is_complete());
        }

        #[test]
        fn the_interval_encloses_the_percentile(
            n in 1u64..100_000_000_000, units in 1u64..100_000,
        ) {
            let p: Percentile = format!("{}.{:03}", units / 1000, units % 1000).parse().expect("valid");
            let (ci, rank) = (quantile_ci(n, &p), p.rank(n));
            if let Some(lo) = ci.lo_rank {
                prop_assert!(lo >= 1 && lo <= rank);
            }
            if let Some(hi) = ci.hi_rank {
                prop_assert!(hi >= rank && hi <= n);
            }
        }
    }
}
