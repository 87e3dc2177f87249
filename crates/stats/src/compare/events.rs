//! The ratio of the rates at which rare events came in two runs, with its exact interval.

use statrs::distribution::{Beta, ContinuousCDF};

/// The ratio of the rates at which events came, new over base, with its 95 % interval: given how many
/// there were in all, those of one side are binomial (Przyborowski and Wilenski, Biometrika 31, 1940;
/// ends by Clopper and Pearson, 1934). Events are independent; times are of any one unit. The ratio and
/// the upper end are infinite where base saw none; none where neither did, or a time is not positive.
#[must_use]
pub fn rate_ratio(base: (u64, f64), new: (u64, f64)) -> Option<(f64, f64, f64)> {
    let ((a, time_a), (b, time_b)) = (base, new);
    if a + b == 0 || !(time_a > 0.0 && time_b > 0.0) {
        return None;
    }
    let (a, b) = (a as f64, b as f64);
    let odds = |share: f64| match share < 1.0 {
        true => share / (1.0 - share) * time_a / time_b,
        false => f64::INFINITY,
    };
    let end = |x: f64, y: f64, at: f64| Beta::new(x, y).map(|d| d.inverse_cdf(at)).ok();
    let lo = if b == 0.0 { 0.0 } else { end(b, a + 1.0, 0.025)? };
    let hi = if a == 0.0 { 1.0 } else { end(b + 1.0, a, 0.975)? };
    Some((odds(b / (a + b)), odds(lo), odds(hi)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_the_exact_one() {
        // 2 against 9 events: Clopper-Pearson of 9 in 11 is 0.4822 to 0.9772.
        let (ratio, lo, hi) = rate_ratio((2, 1.0), (9, 1.0)).expect("events");
        assert!((ratio - 4.5).abs() < 1e-9);
        assert!((lo - 0.4822 / 0.5178).abs() < 2e-3, "{lo}");
        assert!((hi - 0.9772 / 0.0228).abs() < 0.2, "{hi}");
        let (ratio, ..) = rate_ratio((2, 2.0), (9, 1.0)).expect("events");
        assert!((ratio - 9.0).abs() < 1e-9, "half the time is twice the rate");
    }

    #[test]
    fn events_on_one_side_alone_leave_an_end_open() {
        let (ratio, lo, hi) = rate_ratio((0, 1.0), (5, 1.0)).expect("events");
        assert!(ratio.is_infinite() && hi.is_infinite() && lo > 0.0);
        let (ratio, lo, hi) = rate_ratio((5, 1.0), (0, 1.0)).expect("events");
        assert!(ratio == 0.0 && lo == 0.0 && hi < 2.0);
        assert_eq!(rate_ratio((0, 1.0), (0, 1.0)), None);
        assert_eq!(rate_ratio((1, 0.0), (1, 1.0)), None);
    }
}
