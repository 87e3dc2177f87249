//! The mean of equal steps of time, such as the rate in each second of a run, with a confidence interval from their
//! lowest frequencies: steps may be like their neighbours.

use super::{ALPHA, Bounded, quantile};
use crate::long_run::long_run_variance;

/// Fewest steps that say how much a run varies.
const FEWEST_STEPS: usize = 5;
/// Fewest (of six steps or more) and most cosine terms. Short runs have few: their higher terms are waves of few
/// steps, and steps that are like their neighbours hardly vary in these. Terms and error: `docs/compare.md`.
const TERMS: (usize, usize) = (4, 8);
const STEPS_PER_TERM: usize = 12;

/// The mean of steps of equal length with its 95 % interval. The variance is that of the lowest cosine terms: three of
/// five steps, four up to 59, five of 60, then one more for each 12 up to eight. Student's t has as many degrees. The
/// interval is one of the mean's logarithm, so that it never reaches zero. None for fewer than five steps, and without
/// a mean above zero.
///
/// The slowest term is half a wave over the run: the interval has a drift within the run, but no change between runs.
#[must_use]
pub fn mean_of_steps(steps: &[f64]) -> Option<Bounded> {
    let n = steps.len() as f64;
    let value = steps.iter().sum::<f64>() / n;
    if steps.len() < FEWEST_STEPS || !(value.is_finite() && value > 0.0) {
        return None;
    }
    let terms = (steps.len() / STEPS_PER_TERM).clamp(TERMS.0, TERMS.1).min(2 * steps.len() / 3);
    let deviations: Vec<f64> = steps.iter().map(|s| s / value - 1.0).collect();
    let error = (long_run_variance(&deviations, terms) / n).sqrt();
    let freedom = terms as f64;
    let times = (quantile(freedom, 1.0 - ALPHA / 2.0) * error).exp();
    Some(Bounded { value, lo: value / times, hi: value * times, freedom })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_counts() {
        let steps: Vec<f64> = (0..119).map(|i| f64::from(100 + 50 * (i % 2))).collect();
        let it = mean_of_steps(&steps).expect("an interval");
        assert!((it.value - steps.iter().sum::<f64>() / 119.0).abs() < 1e-9, "{it:?}");
        let freedom = |n: usize| mean_of_steps(&steps[..n]).map(|b| b.freedom);
        assert_eq!([5, 10, 59, 60, 119].map(freedom), [3.0, 4.0, 4.0, 5.0, 8.0].map(Some));
    }

    /// Steps whose neighbours are alike had no interval at all.
    #[test]
    fn a_drift_widens_the_interval_and_alternation_does_not() {
        let even: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 2)).collect();
        let it = mean_of_steps(&even).expect("an interval");
        assert!((it.value - 100.5).abs() < 1e-9 && it.hi - it.lo < 0.3, "{it:?}");
        let drift: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i)).collect();
        let it = mean_of_steps(&drift).expect("an interval");
        assert!(it.lo < 118.0 && it.hi > 142.0, "{it:?}");
        // Ten steps that wander by a third of their mean do not reach zero.
        let wild = [10.0, 1.0, 2.0, 30.0, 25.0, 1.0, 0.0, 3.0, 20.0, 8.0];
        assert!(mean_of_steps(&wild).is_some_and(|it| it.lo > 0.0 && it.hi < 1_000.0));
        assert_eq!(mean_of_steps(&[1.0; 4]), None);
        assert_eq!(mean_of_steps(&[0.0; 60]), None);
        let same = mean_of_steps(&[7.0; 60]).expect("an interval");
        assert_eq!((same.lo, same.value, same.hi), (7.0, 7.0, 7.0));
    }
}
