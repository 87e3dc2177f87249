//! Little's law as a check of a measurement against itself: in a steady system the mean number of I/Os
//! outstanding equals their rate times their mean time in the system (Little, Operations Research 9,
//! 1961). The ratio has no threshold here; the report decides what it says about a ratio far from one.

/// `rate * mean latency / outstanding`: 1 when rate, latency and depth agree.
///
/// Below 1 some of the asked depth was not used, or latency leaves out time that I/Os spent
/// waiting; above 1 I/Os overlapped more than was asked, or counts and times are of different
/// periods. None when the depth is not positive or the ratio is not a finite number.
#[must_use]
pub fn littles_law_ratio(iops: f64, mean_latency_ns: f64, outstanding: f64) -> Option<f64> {
    let ratio = iops * (mean_latency_ns / 1e9) / outstanding;
    (outstanding > 0.0 && ratio.is_finite()).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_is_one() {
        // 32 outstanding at 100 us each: 320,000 a second.
        let ratio = littles_law_ratio(320_000.0, 100_000.0, 32.0).expect("defined");
        assert!((ratio - 1.0).abs() < 1e-12);
        let half = littles_law_ratio(160_000.0, 100_000.0, 32.0).expect("defined");
        assert!((half - 0.5).abs() < 1e-12);
    }

    /// Kim's article (SNIA): 50,000 IOPS with 48 I/Os outstanding.
    #[test]
    fn fifty_thousand_a_second_at_48_outstanding_take_0_96_ms() {
        let ratio = littles_law_ratio(50_000.0, 960_000.0, 48.0).expect("defined");
        assert!((ratio - 1.0).abs() < 1e-12);
    }

    #[test]
    fn undefined_inputs_give_no_ratio() {
        assert_eq!(littles_law_ratio(1.0, 1.0, 0.0), None);
        assert_eq!(littles_law_ratio(1.0, 1.0, -1.0), None);
        assert_eq!(littles_law_ratio(f64::NAN, 1.0, 1.0), None);
        assert_eq!(littles_law_ratio(1.0, f64::INFINITY, 1.0), None);
    }
}
