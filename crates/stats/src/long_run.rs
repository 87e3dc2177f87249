//! The long-run variance of a series whose neighbours are alike.

use std::f64::consts::PI;

/// The variance of independent steps whose sum would vary as much as the sum of these, from the mean of the lowest
/// cosine terms (Müller, Econometrica 75, 2007; Lazarus, Lewis, Stock and Watson, JBES 36, 2018). Of steps
/// that are independent it has as many degrees of freedom as terms; terms are fewer than steps.
pub(crate) fn long_run_variance(deviations: &[f64], terms: usize) -> f64 {
    let n = deviations.len() as f64;
    let power = |cosine: &Vec<f64>| {
        let sum: f64 = deviations.iter().zip(cosine).map(|(d, c)| d * c).sum();
        2.0 / n * sum * sum
    };
    cosines(deviations.len(), terms).iter().map(power).sum::<f64>() / terms as f64
}

/// The lowest cosine terms of so many steps, without the constant one.
pub(crate) fn cosines(steps: usize, terms: usize) -> Vec<Vec<f64>> {
    let term = |k: usize| {
        let step = PI * k as f64 / steps as f64;
        (0..steps).map(|i| ((i as f64 + 0.5) * step).cos()).collect()
    };
    (1..=terms).map(term).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of steps with a mean of 0 all terms together give the sample variance; a few terms see slow change only.
    #[test]
    fn all_terms_are_the_variance_and_few_see_slow_change() {
        let steps = [3.0, -1.0, 4.0, -1.0, -5.0, 9.0, -2.0, -7.0];
        let squares: f64 = steps.iter().map(|s| s * s).sum();
        assert!((long_run_variance(&steps, 7) - squares / 7.0).abs() < 1e-9);
        // What alternates does not add up, what goes on does.
        let slow: Vec<f64> = (0..64).map(|i| if i < 32 { 1.0 } else { -1.0 }).collect();
        let fast: Vec<f64> = (0..64).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert!(long_run_variance(&slow, 8) > 5.0 && long_run_variance(&fast, 8) < 0.1);
    }
}
