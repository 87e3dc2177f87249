//! Whether a figure of one system differs from that of another, and by how much: intervals of their ratio
//! and the verdict over them. Which runs may be compared is decided by the crate `compare`.
//!
//! A run's I/Os say how well that run's figure is known; only several runs say how much a system's
//! figure varies from run to run. [`LogDifference::of_two_runs`] answers the first question,
//! [`LogDifference::of_runs`] and [`LogDifference::of_pairs`] the second. They are never mixed.

mod changes;
mod events;
mod looks;
mod ranks;
mod steps;

use statrs::distribution::{ContinuousCDF, StudentsT};

pub use changes::{Change, ChangeRule, Suspect, changes, suspect};
pub use events::rate_ratio;
pub use looks::{FEWEST_PAIRS, LookPlan};
pub use ranks::mann_whitney;
pub use steps::mean_of_steps;

/// Share of cases in which a 95 % interval may miss.
const ALPHA: f64 = 0.05;
/// The sum of the quantiles of the normal distribution for 95 % confidence and for 80 % power.
const POWER: f64 = 1.96 + 0.84;
/// Degrees of freedom from which Student's t is the normal distribution for our purposes.
const MANY: f64 = 1e6;

/// A positive figure with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    pub value: f64,
    pub lo: f64,
    pub hi: f64,
    /// Degrees of freedom of the t that the interval is from; infinite where it is not from t.
    pub freedom: f64,
}

/// The difference of two figures in natural logarithms: 0 where they are equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogDifference {
    /// Logarithm of new over base.
    pub estimate: f64,
    /// How far the 95 % interval reaches below and above.
    below: f64,
    above: f64,
    /// How much further it reaches, whatever its confidence, for what the figures leave open.
    blur: f64,
    /// Degrees of freedom of Student's t.
    freedom: f64,
    /// Variance of one run's logarithm, where runs were the units.
    variance: Option<f64>,
}

impl LogDifference {
    /// Of two runs, from the interval that each has by itself: the ends combined by MOVER (Zou and
    /// Donner, Statistics in Medicine 27, 2008). None where a figure or an end is not positive or not finite, or a
    /// figure lies outside of its interval.
    #[must_use]
    pub fn of_two_runs(base: Bounded, new: Bounded) -> Option<LogDifference> {
        let ordered = |b: &Bounded| b.lo > 0.0 && b.lo <= b.value && b.value <= b.hi;
        if !ordered(&base) || !ordered(&new) || !(base.hi * new.hi).is_finite() {
            return None;
        }
        let [down_a, up_a] = [base.value.ln() - base.lo.ln(), base.hi.ln() - base.value.ln()];
        let [down_b, up_b] = [new.value.ln() - new.lo.ln(), new.hi.ln() - new.value.ln()];
        Some(LogDifference {
            estimate: new.value.ln() - base.value.ln(),
            below: down_b.hypot(up_a),
            above: up_b.hypot(down_a),
            blur: 0.0,
            freedom: base.freedom.min(new.freedom),
            variance: None,
        })
    }

    /// Of runs that share nothing (Welch's t). None with fewer than two runs on a side, or where a
    /// figure is not positive.
    #[must_use]
    pub fn of_runs(base: &[f64], new: &[f64]) -> Option<LogDifference> {
        let (a, b) = (LogMoments::of(base)?, LogMoments::of(new)?);
        let (va, vb) = (a.variance / a.n, b.variance / b.n);
        let freedom = match va + vb > 0.0 {
            true => (va + vb).powi(2) / (va.powi(2) / (a.n - 1.0) + vb.powi(2) / (b.n - 1.0)),
            false => a.n + b.n - 2.0,
        };
        let variance = (a.variance + b.variance) / 2.0;
        Some(LogDifference::from_t(b.mean - a.mean, (va + vb).sqrt(), freedom, variance))
    }

    /// Of pairs that share what goes on beside them: the two of a pair stand at the same place (paired
    /// t). None with fewer than two pairs, sides of unequal length, or a figure that is not positive.
    #[must_use]
    pub fn of_pairs(base: &[f64], new: &[f64]) -> Option<LogDifference> {
        if base.len() != new.len() || base.iter().chain(new).any(|v| !(v.is_finite() && *v > 0.0)) {
            return None;
        }
        let ratios: Vec<f64> = base.iter().zip(new).map(|(a, b)| b / a).collect();
        let all = LogMoments::of(&ratios)?;
        let error = (all.variance / all.n).sqrt();
        Some(LogDifference::from_t(all.mean, error, all.n - 1.0, all.variance / 2.0))
    }

    fn from_t(estimate: f64, error: f64, freedom: f64, variance: f64) -> LogDifference {
        let half = error * quantile(freedom, 1.0 - ALPHA / 2.0);
        let variance = Some(variance);
        LogDifference { estimate, below: half, above: half, blur: 0.0, freedom, variance }
    }

    /// New over base.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.estimate.exp()
    }

    /// The interval of the ratio that misses in a share `alpha` of cases.
    #[must_use]
    pub fn interval(&self, alpha: f64) -> (f64, f64) {
        let times =
            quantile(self.freedom, 1.0 - alpha / 2.0) / quantile(self.freedom, 1.0 - ALPHA / 2.0);
        let (down, up) = (times * self.below + self.blur, times * self.above + self.blur);
        ((self.estimate - down).exp(), (self.estimate + up).exp())
    }

    /// How likely a difference at least so large is where there is none.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        let half = if self.estimate > 0.0 { self.below } else { self.above };
        let apart = (self.estimate.abs() - self.blur).max(0.0);
        if half <= 0.0 {
            return if apart == 0.0 { 1.0 } else { 0.0 };
        }
        let t = apart / half * quantile(self.freedom, 1.0 - ALPHA / 2.0);
        (2.0 * (1.0 - students(self.freedom).map_or(0.5, |d| d.cdf(t)))).clamp(0.0, 1.0)
    }

    /// The same difference where figures are known no better than to this share: its interval reaches so much further.
    #[must_use]
    pub fn blurred(self, share: f64) -> LogDifference {
        LogDifference { blur: self.blur + share.ln_1p(), ..self }
    }

    /// Whether the interval that misses in twice `alpha` of cases lies within the margin: two one-sided
    /// tests at `alpha` (Schuirmann, 1987).
    #[must_use]
    pub fn is_equal_within(&self, alpha: f64, margin: f64) -> bool {
        let (lo, hi) = self.interval(2.0 * alpha);
        lo > 1.0 / (1.0 + margin) && hi < 1.0 + margin
    }

    /// Runs a side after which a difference as large as the one seen, or as the margin where that is larger, would
    /// be found in 80 % of cases; none where one run a side says nothing of how runs vary.
    #[must_use]
    pub fn needed_runs(&self, margin: f64) -> Option<u64> {
        let difference = self.estimate.abs().max(margin.ln_1p());
        let wanted = 2.0 * POWER.powi(2) * self.variance? / difference.powi(2) + 1.0;
        Some((wanted.ceil() as u64).max(3))
    }

    /// The verdict that errs in a share `alpha` of cases, where a higher figure is worse (latency) or
    /// better (rate).
    #[must_use]
    pub fn verdict(&self, alpha: f64, margin: f64, higher_is_worse: bool) -> DifferenceVerdict {
        let (lo, hi) = self.interval(alpha);
        let (above, below) = match higher_is_worse {
            true => (DifferenceVerdict::Worse, DifferenceVerdict::Better),
            false => (DifferenceVerdict::Better, DifferenceVerdict::Worse),
        };
        match () {
            () if lo > 1.0 => above,
            () if hi < 1.0 => below,
            () if self.is_equal_within(alpha, margin) => DifferenceVerdict::Equal,
            () => DifferenceVerdict::Undecided,
        }
    }
}

/// What an interval says about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DifferenceVerdict {
    /// The interval lies on the worse side.
    Worse,
    Better,
    /// Shown to be equal within the margin.
    Equal,
    /// None of these is shown.
    Undecided,
}

/// P-values as Holm (1979) adjusts them for being several, in the order given.
#[must_use]
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut adjusted = vec![1.0; values.len()];
    let mut least = 0.0f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(values[at] * (values.len() - rank) as f64).min(1.0);
        adjusted[at] = least;
    }
    adjusted
}

/// Mean and variance of logarithms.
struct LogMoments {
    n: f64,
    mean: f64,
    variance: f64,
}

impl LogMoments {
    /// None for fewer than two values, or one that is not positive.
    fn of(values: &[f64]) -> Option<LogMoments> {
        if values.len() < 2 || values.iter().any(|v| !(v.is_finite() && *v > 0.0)) {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().map(|v| v.ln()).sum::<f64>() / n;
        let squares = values.iter().map(|v| (v.ln() - mean).powi(2)).sum::<f64>();
        Some(LogMoments { n, mean, variance: squares / (n - 1.0) })
    }
}

fn students(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom.clamp(1.0, MANY)).ok()
}

/// Quantile of Student's t; infinite where there is none.
pub(crate) fn quantile(freedom: f64, share: f64) -> f64 {
    students(freedom).map_or(f64::INFINITY, |d| d.inverse_cdf(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * a.abs().max(b.abs()).max(1e-6)
    }

    #[test]
    fn welch_and_paired_t_are_those_of_the_books() {
        // Logarithms 1, 2, 3 and 2, 4, 6: means 2 and 4, standard error sqrt(1/3 + 4/3).
        let (a, b) = ([1.0f64, 2.0, 3.0].map(f64::exp), [2.0f64, 4.0, 6.0].map(f64::exp));
        let it = LogDifference::of_runs(&a, &b).expect("a difference");
        assert!(
            close(it.estimate, 2.0)
                && close(it.freedom, (5.0f64 / 3.0).powi(2) / (1.0 / 18.0 + 16.0 / 18.0))
        );
        // t of 97.5 % at 2.9412 degrees of freedom is 3.2177 (R: qt(0.975, 2.941176)).
        let (lo, _) = it.interval(0.05);
        assert!((lo.ln() - (2.0 - 3.2177 * (5.0f64 / 3.0).sqrt())).abs() < 2e-3, "{}", lo.ln());
        // Differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t at 2 degrees 4.3027.
        let it = LogDifference::of_pairs(&a, &b).expect("a difference");
        let (lo, hi) = it.interval(0.05);
        assert!((lo.ln() - (2.0 - 4.3027 / 3f64.sqrt())).abs() < 1e-3);
        assert!((hi.ln() - (2.0 + 4.3027 / 3f64.sqrt())).abs() < 1e-3);
        // t = 3.4641 at 2 degrees: p = 0.0742.
        assert!((it.p_value() - 0.0742).abs() < 1e-3, "{}", it.p_value());
    }

    #[test]
    fn what_cannot_be_compared_is_none() {
        assert!(LogDifference::of_runs(&[1.0], &[1.0, 2.0]).is_none());
        assert!(LogDifference::of_runs(&[1.0, 0.0], &[1.0, 2.0]).is_none());
        assert!(LogDifference::of_runs(&[1.0, f64::NAN], &[1.0, 2.0]).is_none());
        assert!(LogDifference::of_pairs(&[1.0, 2.0], &[1.0, 2.0, 3.0]).is_none());
        let fine = Bounded { value: 2.0, lo: 1.0, hi: 3.0, freedom: MANY };
        assert!(LogDifference::of_two_runs(fine, Bounded { lo: 2.5, ..fine }).is_none());
        assert!(LogDifference::of_two_runs(Bounded { lo: 0.0, ..fine }, fine).is_none());
    }

    /// Runs that agree to the last digit differ in nothing, and are equal within any margin.
    #[test]
    fn runs_without_variation_are_judged() {
        let same = LogDifference::of_runs(&[5.0; 3], &[5.0; 3]).expect("a difference");
        assert_eq!(
            (same.p_value(), same.verdict(ALPHA, 0.05, true)),
            (1.0, DifferenceVerdict::Equal)
        );
        let other = LogDifference::of_runs(&[5.0; 3], &[6.0; 3]).expect("a difference");
        assert_eq!(
            (other.p_value(), other.verdict(ALPHA, 0.05, true)),
            (0.0, DifferenceVerdict::Worse)
        );
        assert_eq!(other.verdict(ALPHA, 0.05, false), DifferenceVerdict::Better);
    }

    /// Values one tick of the clock apart are no certain difference, however often they repeat.
    #[test]
    fn ties_at_the_resolution_are_no_difference() {
        let ticks = LogDifference::of_pairs(&[100.0; 6], &[101.0; 6]).expect("a difference");
        assert_eq!(ticks.p_value(), 0.0);
        let ticks = ticks.blurred(1.0 / 100.0 + 1.0 / 101.0);
        assert_eq!(ticks.verdict(ALPHA, 0.05, true), DifferenceVerdict::Equal);
        assert!(ticks.p_value() > ALPHA, "{}", ticks.p_value());
        assert_eq!(ticks.verdict(ALPHA, 0.01, true), DifferenceVerdict::Undecided);
    }

    /// The blur is no error of sampling: a test at another confidence has all of it.
    #[test]
    fn blur_is_the_same_at_every_confidence() {
        let ticks = LogDifference::of_pairs(&[50.0; 3], &[51.0; 3]).expect("a difference");
        assert!(!ticks.blurred(1.0 / 50.0 + 1.0 / 51.0).is_equal_within(ALPHA, 0.05));
    }

    #[test]
    fn two_runs_have_the_freedom_of_the_lesser() {
        let run = |value, freedom| Bounded { value, lo: value - 1.0, hi: value + 1.0, freedom };
        let p = |freedom| LogDifference::of_two_runs(run(10.0, MANY), run(12.5, freedom));
        let p = |freedom| p(freedom).expect("ordered").p_value();
        assert!(p(4.0) != p(f64::INFINITY), "{}", p(4.0));
    }

    #[test]
    fn the_needed_runs_are_those_of_the_formula() {
        // 2 x 2.8^2 x 0.02^2 / ln(1.05)^2 + 1 = 3.63.
        let d = 0.02f64 / 2f64.sqrt();
        let runs = [(-d).exp(), d.exp()];
        let it = LogDifference::of_runs(&runs, &runs).expect("a difference");
        assert_eq!(it.needed_runs(0.05), Some(4));
        assert_eq!(it.needed_runs(0.01), Some(65));
        let two = Bounded { value: 2.0, lo: 1.0, hi: 3.0, freedom: MANY };
        assert_eq!(LogDifference::of_two_runs(two, two).and_then(|d| d.needed_runs(0.05)), None);
    }

    #[test]
    fn holm_multiplies_the_smallest_by_all() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        /// Sides swapped, the ratio and its interval are the inverse, the verdict the mirror.
        #[test]
        fn swapping_sides_mirrors(
            a in prop::collection::vec(0.1f64..1e9, 2..8),
            b in prop::collection::vec(0.1f64..1e9, 2..8),
            scale in 1e-3f64..1e3,
        ) {
            let there = LogDifference::of_runs(&a, &b).expect("positive");
            let back = LogDifference::of_runs(&b, &a).expect("positive");
            let ((lo, hi), (low, high)) = (there.interval(0.05), back.interval(0.05));
            prop_assert!((lo.ln() + high.ln()).abs() < 1e-6 && (hi.ln() + low.ln()).abs() < 1e-6);
            prop_assert!((there.p_value() - back.p_value()).abs() < 1e-9);
            let times = |v: &[f64]| v.iter().map(|v| v * scale).collect::<Vec<_>>();
            let scaled = LogDifference::of_runs(&times(&a), &times(&b)).expect("positive");
            prop_assert!((scaled.estimate - there.estimate).abs() < 1e-9);
            prop_assert!((scaled.below - there.below).abs() < 1e-6 * there.below.max(1.0));
        }

        #[test]
        fn two_runs_mirror_as_well(v in 1.0f64..1e6, w in 1.0f64..1e6, d in 1.01f64..3.0, u in 1.01f64..3.0) {
            let a = Bounded { value: v, lo: v / d, hi: v * u, freedom: MANY };
            let b = Bounded { value: w, lo: w / u, hi: w * d, freedom: MANY };
            let there = LogDifference::of_two_runs(a, b).expect("ordered");
            let back = LogDifference::of_two_runs(b, a).expect("ordered");
            let ((lo, hi), (low, high)) = (there.interval(0.05), back.interval(0.05));
            prop_assert!((lo.ln() + high.ln()).abs() < 1e-9 && (hi.ln() + low.ln()).abs() < 1e-9);
            prop_assert!(lo <= there.ratio() && there.ratio() <= hi);
        }
    }
}
