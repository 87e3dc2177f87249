//! An exact distribution of whole nanoseconds: sorted distinct values with cumulative counts, so that any
//! rank is one binary search away and nothing is rounded. [`ExactCounter`](crate::ExactCounter) builds one
//! from a stream; a histogram can be fed in as pairs.

use std::fmt;

use taillight_core::Percentile;

/// One distinct value and how many values are at or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CumulativeCount {
    /// The value, in nanoseconds.
    pub value: u64,
    /// How many measured values are at or below it.
    pub cum: u64,
}

/// An exact distribution of durations in nanoseconds; 16 bytes per distinct value.
///
/// Percentiles are nearest rank: the smallest value with at least the asked share of all values at
/// or below it (type 1 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dist {
    /// Values strictly rising, cumulative counts strictly rising.
    steps: Vec<CumulativeCount>,
}

/// Why pairs do not make a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistError {
    /// A value is smaller than the one before it.
    NotSorted,
    /// The counts add up to more than 64 bits hold.
    CountOverflow,
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSorted => "values of a distribution must not fall",
            Self::CountOverflow => "counts of a distribution exceed 64 bits",
        })
    }
}

impl std::error::Error for DistError {}

impl Dist {
    /// Sorts and counts values given in any order.
    #[must_use]
    pub fn from_values(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let mut steps: Vec<CumulativeCount> = Vec::new();
        for (i, &value) in values.iter().enumerate() {
            let cum = i as u64 + 1;
            match steps.last_mut() {
                Some(last) if last.value == value => last.cum = cum,
                _ => steps.push(CumulativeCount { value, cum }),
            }
        }
        Self { steps }
    }

    /// Builds from `(value, count)` pairs whose values do not fall.
    ///
    /// Equal neighbours are added together and zero counts are skipped, so a histogram's bins can
    /// be passed as they are. Errors: when a value falls or the total exceeds 64 bits.
    pub fn from_sorted_pairs(
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Self, DistError> {
        let mut steps: Vec<CumulativeCount> = Vec::new();
        let mut cum: u64 = 0;
        let mut previous = 0;
        for (value, count) in pairs {
            if value < previous {
                return Err(DistError::NotSorted);
            }
            previous = value;
            if count == 0 {
                continue;
            }
            cum = cum.checked_add(count).ok_or(DistError::CountOverflow)?;
            match steps.last_mut() {
                Some(last) if last.value == value => last.cum = cum,
                _ => steps.push(CumulativeCount { value, cum }),
            }
        }
        Ok(Self { steps })
    }

    /// Takes over steps already in order (values and counts strictly rising).
    pub(crate) fn from_steps(steps: Vec<CumulativeCount>) -> Self {
        debug_assert!(
            steps.windows(2).all(|w| w[0].value < w[1].value && w[0].cum < w[1].cum),
            "steps of a distribution must rise"
        );
        Self { steps }
    }

    /// How many values were measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.steps.last().map_or(0, |s| s.cum)
    }

    /// How many different values there are.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The smallest value in nanoseconds, if any.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.steps.first().map(|s| s.value)
    }

    /// The largest value in nanoseconds, if any: a sample of one, whatever the count.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.steps.last().map(|s| s.value)
    }

    /// The sum of all values in nanoseconds. Cannot overflow.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.iter().map(|(value, count)| u128::from(value) * u128::from(count)).sum()
    }

    /// The value of 1-based rank `k`, smallest first; none for rank 0 or above the count.
    #[must_use]
    pub fn value_at_rank(&self, k: u64) -> Option<u64> {
        if k == 0 {
            return None;
        }
        self.steps.get(self.steps.partition_point(|s| s.cum < k)).map(|s| s.value)
    }

    /// The nearest-rank percentile in nanoseconds, if any value was measured.
    ///
    /// This is the bare sample value; [`Intervals`](crate::Intervals) say whether it may be shown.
    #[must_use]
    pub fn percentile(&self, pct: &Percentile) -> Option<u64> {
        self.value_at_rank(pct.rank(self.count()))
    }

    /// How many values are at or below `value`.
    #[must_use]
    pub fn count_at_or_below(&self, value: u64) -> u64 {
        match self.steps.partition_point(|s| s.value <= value) {
            0 => 0,
            i => self.steps[i - 1].cum,
        }
    }

    /// How many values are larger than `value`.
    #[must_use]
    pub fn count_above(&self, value: u64) -> u64 {
        self.count() - self.count_at_or_below(value)
    }

    /// Of the sum of all values the share that those larger than `value` make: of a closed loop, of the time that
    /// its workers spent in I/Os. None where the sum is 0.
    #[must_use]
    pub fn time_share_above(&self, value: u64) -> Option<f64> {
        let above = self.iter().filter(|(v, _)| *v > value);
        let above: u128 = above.map(|(v, count)| u128::from(v) * u128::from(count)).sum();
        let all = self.sum();
        (all > 0).then(|| above as f64 / all as f64)
    }

    /// Distinct values with their counts, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut before = 0;
        self.steps.iter().map(move |s| {
            let count = s.cum - before;
            before = s.cum;
            (s.value, count)
        })
    }

    /// The distribution of both sets of values together. Errors: when the total exceeds 64 bits.
    pub fn merge(&self, other: &Self) -> Result<Self, DistError> {
        let total = self.count().checked_add(other.count());
        total.ok_or(DistError::CountOverflow)?;
        let mut steps = Vec::with_capacity(self.steps.len().max(other.steps.len()));
        let (a, b) = (&self.steps, &other.steps);
        let (mut i, mut j) = (0, 0);
        let (mut below_a, mut below_b) = (0, 0);
        loop {
            let value = match (a.get(i), b.get(j)) {
                (Some(x), Some(y)) => x.value.min(y.value),
                (Some(x), None) => x.value,
                (None, Some(y)) => y.value,
                (None, None) => break,
            };
            if let Some(x) = a.get(i).filter(|x| x.value == value) {
                below_a = x.cum;
                i += 1;
            }
            if let Some(y) = b.get(j).filter(|y| y.value == value) {
                below_b = y.cum;
                j += 1;
            }
            steps.push(CumulativeCount { value, cum: below_a + below_b });
        }
        Ok(Self { steps })
    }
}

impl FromIterator<u64> for Dist {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Self {
        Self::from_values(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pct(text: &str) -> Percentile {
        text.parse().expect("valid percentile")
    }

    #[test]
    fn empty_has_no_values() {
        let d = Dist::default();
        assert_eq!((d.count(), d.min(), d.max(), d.sum()), (0, None, None, 0));
        assert_eq!((d.mean(), d.moments()), (None, None));
        assert_eq!(d.percentile(&Percentile::MEDIAN), None);
        assert_eq!(d.count_above(0), 0);
        assert_eq!(d, Dist::from_values(vec![]));
    }

    #[test]
    fn percentiles_of_one_to_hundred() {
        let d: Dist = (1..=100).rev().collect();
        assert_eq!(d.percentile(&pct("50")), Some(50));
        assert_eq!(d.percentile(&pct("99")), Some(99));
        assert_eq!(d.percentile(&pct("99.1")), Some(100));
        assert_eq!(d.percentile(&pct("0.1")), Some(1));
        assert_eq!(d.percentile(&pct("100")), Some(100));
        assert_eq!((d.value_at_rank(0), d.value_at_rank(101)), (None, None));
        assert_eq!((d.count_above(0), d.count_above(40), d.count_above(100)), (100, 60, 0));
    }

    #[test]
    fn pairs_are_checked() {
        assert_eq!(Dist::from_sorted_pairs([(2, 1), (1, 1)]), Err(DistError::NotSorted));
        let huge = [(1, u64::MAX), (2, 1)];
        assert_eq!(Dist::from_sorted_pairs(huge), Err(DistError::CountOverflow));
        let d = Dist::from_sorted_pairs([(1, 2), (3, 0), (3, 1), (3, 4)]).expect("sorted");
        assert_eq!(d.iter().collect::<Vec<_>>(), [(1, 2), (3, 5)]);
        let full = Dist::from_sorted_pairs([(u64::MAX, u64::MAX)]).expect("sorted");
        assert_eq!(full.sum(), u128::from(u64::MAX) * u128::from(u64::MAX));
        assert_eq!(full.merge(&d), Err(DistError::CountOverflow));
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0u64..20, 0u64..1_000_000, any::<u64>()], 0..80)
    }

    proptest! {
        #[test]
        fn percentile_is_naive_nearest_rank(mut v in values(), units in 1u64..=100_000) {
            let p = pct(&format!("{}.{:03}", units / 1000, units % 1000));
            let d = Dist::from_values(v.clone());
            v.sort_unstable();
            // The smallest value with at least the asked share of values at or below it.
            let naive = v.iter().copied().find(|x| {
                let at_or_below = v.iter().filter(|y| *y <= x).count() as u64;
                at_or_below * 100_000 >= units * v.len() as u64
            });
            prop_assert_eq!(d.percentile(&p), naive);
        }

        #[test]
        fn counts_match_a_naive_scan(v in values(), limit in prop_oneof![0u64..30, any::<u64>()]) {
            let d = Dist::from_values(v.clone());
            prop_assert_eq!(d.count(), v.len() as u64);
            prop_assert_eq!(d.count_above(limit), v.iter().filter(|x| **x > limit).count() as u64);
            prop_assert_eq!(d.sum(), v.iter().map(|x| u128::from(*x)).sum::<u128>());
            prop_assert_eq!(d.iter().map(|(_, c)| c).sum::<u64>(), d.count());
            prop_assert_eq!(Dist::from_sorted_pairs(d.iter()), Ok(d));
        }

        #[test]
        fn merge_is_pooling(a in values(), b in values(), c in values()) {
            let [x, y, z] = [&a, &b, &c].map(|v| Dist::from_values(v.clone()));
            let pooled = Dist::from_values([a, b, c].concat());
            let left = x.merge(&y).and_then(|xy| xy.merge(&z)).expect("small");
            let right = y.merge(&z).and_then(|yz| x.merge(&yz)).expect("small");
            prop_assert_eq!(&left, &pooled);
            prop_assert_eq!(&right, &pooled);
            prop_assert_eq!(x.merge(&y), y.merge(&x));
        }
    }
}
