//! Runs of one plan back to back: the spread of a figure over them.
//!
//! What it is: pure functions on one value per repetition. What it is not: the comparison of two
//! plans. Called by `taillight run` for a job with `run.repeat`.

use taillight_stats::SeriesSummary;

/// Repetitions from which the interval of the median exists: 2 times 0.5^6 is below 5 %.
pub const FOR_INTERVAL: usize = 6;

/// A figure over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Repetitions that have the figure.
    pub count: usize,
    pub min: f64,
    pub median: f64,
    pub max: f64,
    /// Distribution-free 95 % interval of the median: two order statistics; none below
    /// [`FOR_INTERVAL`] values. It takes the repetitions for independent.
    pub interval: Option<(f64, f64)>,
}

/// The spread; none without a value.
pub fn spread(values: &[f64]) -> Option<Spread> {
    let it = SeriesSummary::of(values)?;
    Some(Spread {
        count: it.count,
        min: it.min,
        median: it.median,
        max: it.max,
        interval: it.median_ci,
    })
}

/// Nanoseconds between the end of each run and the start of the next, from (start, end) stamps in
/// order.
pub fn gaps(runs: &[(i64, i64)]) -> Vec<i64> {
    let pairs = runs.windows(2);
    pairs.map(|w| w[1].0.saturating_sub(w[0].1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_exists_from_six() {
        let five = spread(&[5.0, 1.0, 4.0, 2.0, 3.0]).expect("values");
        assert_eq!((five.min, five.median, five.max), (1.0, 3.0, 5.0));
        assert_eq!(five.interval, None);
        let six = spread(&[6.0, 5.0, 1.0, 4.0, 2.0, 3.0]).expect("values");
        assert_eq!((six.median, six.interval), (3.5, Some((1.0, 6.0))));
        assert_eq!(FOR_INTERVAL, six.count);
        assert_eq!(spread(&[]), None);
    }

    #[test]
    fn gaps_are_between_runs() {
        assert_eq!(gaps(&[(0, 10), (13, 20), (20, 30)]), [3, 0]);
        assert!(gaps(&[(0, 10)]).is_empty());
    }
}
