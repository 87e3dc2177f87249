//! The mean of a series whose neighbours are alike, from batches of it.

use super::{ALPHA, Bounded, quantile};

/// Numbers of batches that are tried, finest first.
const BATCHES: [usize; 8] = [60, 30, 20, 15, 12, 10, 6, 5];
/// Correlation of neighbouring batches from which they are taken for dependent.
const DEPENDENT: f64 = 0.1;

/// The mean of equal steps of time with its 95 % interval, from the largest number of batches whose
/// neighbours hardly correlate (adaptive batch means). Batches differ by one step at most, and count by their
/// steps. None for fewer than five steps, where batches stay dependent, or where the interval reaches zero.
#[must_use]
pub fn batched_mean(steps: &[f64]) -> Option<Bounded> {
    let independent =
        |k: &&usize| steps.len() >= **k && lag_one(&means(&batches(steps, **k))) < DEPENDENT;
    let batches = batches(steps, *BATCHES.iter().find(independent)?);
    let (n, freedom) = (steps.len() as f64, batches.len() as f64 - 1.0);
    let value = steps.iter().sum::<f64>() / n;
    let square = |(m, batch): (f64, &&[f64])| batch.len() as f64 * (m - value).powi(2);
    let squares: f64 = means(&batches).into_iter().zip(&batches).map(square).sum();
    let half = quantile(freedom, 1.0 - ALPHA / 2.0) * (squares / freedom / n).sqrt();
    Some(Bounded { value, lo: value - half, hi: value + half, freedom }).filter(|b| b.lo > 0.0)
}

/// `k` batches of all steps, of no fewer than `k`.
fn batches(steps: &[f64], k: usize) -> Vec<&[f64]> {
    let at = |i: usize| i * steps.len() / k;
    (0..k).map(|i| &steps[at(i)..at(i + 1)]).collect()
}

fn means(batches: &[&[f64]]) -> Vec<f64> {
    batches.iter().map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect()
}

fn lag_one(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let products: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_counts() {
        let steps: Vec<f64> = (0..119).map(|i| f64::from(100 + 50 * (i % 2))).collect();
        let it = batched_mean(&steps).expect("an interval");
        assert!((it.value - steps.iter().sum::<f64>() / 119.0).abs() < 1e-9, "{it:?}");
        assert!(it.freedom < 60.0);
    }

    #[test]
    fn steps_that_alternate_need_no_batches_and_drifts_have_no_answer() {
        let even: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i % 2)).collect();
        let it = batched_mean(&even).expect("an interval");
        assert!((it.value - 100.5).abs() < 1e-9 && it.hi - it.lo < 0.3, "{it:?}");
        let drift: Vec<f64> = (0..60).map(|i| 100.0 + f64::from(i)).collect();
        assert_eq!(batched_mean(&drift), None);
        assert_eq!(batched_mean(&[1.0; 4]), None);
        assert_eq!(batched_mean(&[0.0; 60]), None);
        let same = batched_mean(&[7.0; 60]).expect("an interval");
        assert_eq!((same.lo, same.value, same.hi), (7.0, 7.0, 7.0));
    }
}
