//! Order statistics of a handful of repeated measurements (rounds, intervals, repeats), with an interval of
//! their median. A series with a number that is not finite has no description. Latencies belong into a
//! [`Dist`](crate::Dist).

use crate::confidence::quantile_ci;
use taillight_core::Percentile;

/// Order statistics of a series, in the unit of its values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesSummary {
    pub count: usize,
    pub min: f64,
    /// Lower quartile, interpolated (type 7 of Hyndman and Fan, 1996).
    pub q1: f64,
    /// The median; between the two middle values of an even count.
    pub median: f64,
    /// Upper quartile, interpolated as the lower one.
    pub q3: f64,
    pub max: f64,
    /// Distribution-free 95 % interval of the median; needs six values or more.
    pub median_ci: Option<(f64, f64)>,
}

impl SeriesSummary {
    /// Describes a series; none when it is empty or has a value that is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let ci = quantile_ci(sorted.len() as u64, &Percentile::MEDIAN);
        let at_rank = |rank: u64| sorted.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
        Some(Self {
            count: sorted.len(),
            min: sorted[0],
            q1: interpolated(&sorted, 1),
            median: interpolated(&sorted, 2),
            q3: interpolated(&sorted, 3),
            max: sorted[sorted.len() - 1],
            median_ci: ci.lo_rank.and_then(at_rank).zip(ci.hi_rank.and_then(at_rank)),
        })
    }
}

/// The `quarter`-th quartile of sorted values, which are not empty.
fn interpolated(sorted: &[f64], quarter: usize) -> f64 {
    let scaled = (sorted.len() - 1) * quarter;
    let (below, part) = (scaled / 4, (scaled % 4) as f64 / 4.0);
    let low = sorted[below];
    match sorted.get(below + 1) {
        Some(high) if part > 0.0 => low * (1.0 - part) + high * part,
        _ => low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quartiles_interpolate() {
        let s = SeriesSummary::of(&[4.0, 1.0, 3.0, 2.0]).expect("finite");
        assert_eq!((s.min, s.q1, s.median, s.q3, s.max), (1.0, 1.75, 2.5, 3.25, 4.0));
        assert_eq!((s.count, s.median_ci), (4, None));
        let one = SeriesSummary::of(&[7.0]).expect("finite");
        assert_eq!((one.q1, one.median, one.q3), (7.0, 7.0, 7.0));
    }

    #[test]
    fn a_median_has_an_interval_from_six_values() {
        let five = SeriesSummary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("finite");
        assert_eq!(five.median_ci, None);
        let six = SeriesSummary::of(&[6.0, 1.0, 2.0, 3.0, 4.0, 5.0]).expect("finite");
        assert_eq!(six.median_ci, Some((1.0, 6.0)));
    }

    #[test]
    fn broken_series_have_no_description() {
        for broken in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
            assert_eq!(SeriesSummary::of(broken), None);
        }
    }

    proptest! {
        #[test]
        fn summaries_are_ordered(v in prop::collection::vec(-1e12f64..1e12, 1..40)) {
            let s = SeriesSummary::of(&v).expect("finite");
            let slack = 1e-9 * (s.max.abs() + s.min.abs());
            prop_assert!(s.min <= s.q1 + slack && s.q1 <= s.median + slack);
            prop_assert!(s.median <= s.q3 + slack && s.q3 <= s.max + slack);
            let below = v.iter().filter(|x| **x < s.median - slack).count();
            let above = v.iter().filter(|x| **x > s.median + slack).count();
            prop_assert!(below * 2 <= v.len() && above * 2 <= v.len());
        }
    }
}
