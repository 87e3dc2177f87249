//! Small series of repeated measurements: rounds, intervals, repeats.
//!
//! What it is: robust descriptions of a handful of numbers, their trend and their memory of each
//! other, for steady state and comparisons. What it is not: latency statistics (see
//! [`Dist`](crate::Dist)). Called by the suite and the report. A series with a number that is not
//! finite has no description.

use crate::confidence::quantile_ci;
use crate::pct::Pct;

/// Rounds from which a test for autocorrelation means something.
pub const MIN_FOR_AUTOCORRELATION: usize = 10;

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
        let ci = quantile_ci(sorted.len() as u64, &Pct::MEDIAN);
        let at_rank = |rank: u64| {
            sorted
                .get(usize::try_from(rank).ok()?.checked_sub(1)?)
                .copied()
        };
        Some(Self {
            count: sorted.len(),
            min: sorted[0],
            q1: interpolated(&sorted, 1),
            median: interpolated(&sorted, 2),
            q3: interpolated(&sorted, 3),
            max: sorted[sorted.len() - 1],
            median_ci: ci
                .lo_rank
                .and_then(at_rank)
                .zip(ci.hi_rank.and_then(at_rank)),
        })
    }

    /// Interquartile range, in the unit of the values.
    #[must_use]
    pub fn iqr(&self) -> f64 {
        self.q3 - self.q1
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

/// The least-squares line through a series, each value one step after the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineFit {
    /// Height of the line at the first value, in the unit of the values.
    pub intercept: f64,
    /// Rise of the line per step.
    pub slope: f64,
    /// Mean of the values.
    pub mean: f64,
    /// Largest minus smallest value (SNIA PTS: data excursion).
    pub data_excursion: f64,
    /// Rise or fall of the line from the first to the last step, without sign (SNIA PTS: slope
    /// excursion).
    pub slope_excursion: f64,
}

impl LineFit {
    /// Fits a line; none for fewer than two values or a value that is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = finite_mean(values)?;
        if values.len() < 2 {
            return None;
        }
        let span = (values.len() - 1) as f64;
        let middle = span / 2.0;
        let (mut shared, mut spread) = (0.0, 0.0);
        for (i, value) in values.iter().enumerate() {
            let offset = i as f64 - middle;
            shared += offset * (value - mean);
            spread += offset * offset;
        }
        let slope = shared / spread;
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        Some(Self {
            intercept: mean - slope * middle,
            slope,
            mean,
            data_excursion: max - min,
            slope_excursion: (slope * span).abs(),
        })
    }

    /// Both excursions as shares of the mean: (data, slope), what PTS limits to 0.20 and 0.10.
    ///
    /// None when the mean is zero.
    #[must_use]
    pub fn relative_excursions(&self) -> Option<(f64, f64)> {
        let mean = self.mean.abs();
        (mean > 0.0).then(|| (self.data_excursion / mean, self.slope_excursion / mean))
    }
}

/// Correlation of each value with the next, -1 to 1.
///
/// The usual estimate: products of neighbouring distances from the common mean over the sum of
/// squares (Box and Jenkins, "Time Series Analysis"). None for fewer than two values, for equal
/// values, or for a value that is not finite.
#[must_use]
pub fn lag1_autocorrelation(values: &[f64]) -> Option<f64> {
    let mean = finite_mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let products: f64 = values
        .windows(2)
        .map(|w| (w[0] - mean) * (w[1] - mean))
        .sum();
    let r = products / squares;
    (values.len() >= 2 && squares > 0.0 && r.is_finite()).then_some(r)
}

/// Whether neighbours depend on each other beyond chance: lag-1 correlation outside
/// `±1.96 / sqrt(n)`, for [`MIN_FOR_AUTOCORRELATION`] values or more; none below that.
#[must_use]
pub fn is_autocorrelated(values: &[f64]) -> Option<bool> {
    if values.len() < MIN_FOR_AUTOCORRELATION {
        return None;
    }
    let r = lag1_autocorrelation(values)?;
    Some(r.abs() > 1.96 / (values.len() as f64).sqrt())
}

/// The mean of a series that is neither empty nor broken.
fn finite_mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn quartiles_interpolate() {
        let s = SeriesSummary::of(&[4.0, 1.0, 3.0, 2.0]).expect("finite");
        assert_eq!(
            (s.min, s.q1, s.median, s.q3, s.max),
            (1.0, 1.75, 2.5, 3.25, 4.0)
        );
        assert_eq!((s.iqr(), s.count, s.median_ci), (1.5, 4, None));
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
    fn a_straight_line_is_found() {
        let fit = LineFit::of(&[10.0, 12.0, 14.0, 16.0, 18.0]).expect("finite");
        assert!(close(fit.intercept, 10.0) && close(fit.slope, 2.0) && close(fit.mean, 14.0));
        assert!(close(fit.data_excursion, 8.0) && close(fit.slope_excursion, 8.0));
        let falling = LineFit::of(&[18.0, 16.0, 14.0]).expect("finite");
        assert!(close(falling.slope, -2.0) && close(falling.slope_excursion, 4.0));
        // A bump: excursion of the data, none of the slope.
        let bump = LineFit::of(&[90.0, 100.0, 120.0, 100.0, 90.0]).expect("finite");
        let (data, slope) = bump.relative_excursions().expect("mean is not zero");
        assert!(close(data, 0.3) && close(slope, 0.0));
    }

    #[test]
    fn neighbours_that_alternate_or_drift() {
        let alternating: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        let r = lag1_autocorrelation(&alternating).expect("defined");
        assert!(close(r, -0.95), "{r}");
        assert_eq!(is_autocorrelated(&alternating), Some(true));
        let drifting: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(is_autocorrelated(&drifting), Some(true));
        let mixed = [3.0, 1.0, 2.0, 2.5, 1.5, 3.0, 2.0, 1.0, 1.2, 2.8];
        assert_eq!(is_autocorrelated(&mixed), Some(false));
        assert_eq!(is_autocorrelated(&drifting[..9]), None);
    }

    #[test]
    fn broken_series_have_no_description() {
        for broken in [&[][..], &[1.0, f64::NAN], &[f64::INFINITY, 1.0]] {
            assert_eq!(SeriesSummary::of(broken), None);
            assert_eq!(LineFit::of(broken), None);
            assert_eq!(lag1_autocorrelation(broken), None);
        }
        assert_eq!(LineFit::of(&[1.0]), None);
        assert_eq!(lag1_autocorrelation(&[2.0, 2.0, 2.0]), None);
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
