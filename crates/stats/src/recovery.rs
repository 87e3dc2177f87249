//! How long a figure takes to come back to a reference, after another load or a pause: the figure has
//! recovered when the average of its last `window` samples is within a share of the reference and stays
//! there to the end. The suite chooses the reference; `docs/suites.md` states the rule for users.

/// When a rolling figure counts as back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecoveryRule {
    /// Samples of the rolling average; at least 1.
    pub window: usize,
    /// Largest distance from the reference, as a share of it.
    pub within: f64,
}

/// What the samples say; places are those of the last sample of a rolling average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Fewer samples than the rolling average needs, a sample that is not finite, a window of 0, or a reference that is
    /// not above zero.
    Unknown,
    /// Within the bound from here on. `first` is the first time that it was, which may be earlier: it left
    /// again.
    At { place: usize, first: usize },
    /// Outside of the bound at the end; `first` as above, where it was within it at all.
    Not { first: Option<usize> },
}

impl RecoveryRule {
    /// Judges samples in order of time.
    #[must_use]
    pub fn judge(&self, reference: f64, samples: &[f64]) -> Recovery {
        let usable = self.window > 0 && samples.len() >= self.window && reference > 0.0;
        if !usable || samples.iter().any(|s| !s.is_finite()) {
            return Recovery::Unknown;
        }
        let within = |of: &[f64]| {
            let average = of.iter().sum::<f64>() / of.len() as f64;
            (average - reference).abs() <= self.within * reference
        };
        let inside: Vec<bool> = samples.windows(self.window).map(within).collect();
        let last = |nth: usize| nth + self.window - 1;
        let first = inside.iter().position(|inside| *inside).map(last);
        let left = inside.iter().rposition(|inside| !inside);
        match (first, left) {
            (Some(first), None) => Recovery::At { place: first, first },
            (Some(first), Some(left)) if left + 1 < inside.len() => {
                Recovery::At { place: last(left + 1), first }
            }
            (first, _) => Recovery::Not { first },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: RecoveryRule = RecoveryRule { window: 3, within: 0.1 };

    #[test]
    fn a_step_is_found_when_the_average_has_left_it_behind() {
        for slow in 0..10 {
            let samples: Vec<f64> = (0..20).map(|n| if n < slow { 30.0 } else { 100.0 }).collect();
            let at = slow + 2;
            assert_eq!(
                RULE.judge(100.0, &samples),
                Recovery::At { place: at, first: at },
                "{slow}"
            );
        }
    }

    #[test]
    fn passing_through_the_bound_is_no_recovery() {
        let falling = [300.0, 200.0, 100.0, 100.0, 100.0, 60.0, 50.0, 50.0, 50.0];
        assert_eq!(RULE.judge(100.0, &falling), Recovery::Not { first: Some(4) });
        let back = [&falling[..], &[100.0; 4]].concat();
        assert_eq!(RULE.judge(100.0, &back), Recovery::At { place: 11, first: 4 });
        assert_eq!(RULE.judge(100.0, &[50.0; 8]), Recovery::Not { first: None });
    }

    #[test]
    fn what_cannot_be_judged_is_unknown() {
        assert_eq!(RULE.judge(100.0, &[100.0; 2]), Recovery::Unknown);
        assert_eq!(RULE.judge(0.0, &[100.0; 9]), Recovery::Unknown);
        assert_eq!(RULE.judge(100.0, &[100.0, f64::NAN, 100.0, 100.0]), Recovery::Unknown);
        // The bound itself counts.
        assert_eq!(RULE.judge(100.0, &[110.0; 3]), Recovery::At { place: 2, first: 2 });
    }
}
