//! Steady state of a series of rounds, by the rule of SNIA's Performance Test Specification: a window is
//! steady when its values lie close together (data excursion) and do not rise or fall across it (slope
//! excursion of the best linear fit). fio's `ss=` differs: it takes the slope per sample and the largest
//! single deviation. Which rounds make a window is decided by the suite.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a window of rounds counts as steady.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyRule {
    /// Rounds in the window.
    pub window: usize,
    /// Largest minus smallest value, at most this share of the average.
    pub data_excursion: f64,
    /// Rise or fall of the least-squares line from the first to the last round of the window, at
    /// most this share of the average.
    pub slope_excursion: f64,
}

impl Default for SteadyRule {
    /// SNIA PTS 2.0.2: five rounds, 20 %, 10 %.
    fn default() -> SteadyRule {
        SteadyRule { window: 5, data_excursion: 0.2, slope_excursion: 0.1 }
    }
}

/// What was found in a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyWindow {
    pub average: f64,
    pub min: f64,
    pub max: f64,
    /// Least-squares line over the round numbers: `slope * round + intercept`.
    pub slope: f64,
    pub intercept: f64,
    /// Of values with round numbers; none when all values are equal.
    pub correlation: Option<f64>,
    /// Largest minus smallest value.
    pub data_excursion: f64,
    /// Rise or fall of the line across the window, without sign.
    pub slope_excursion: f64,
    /// Whether the window keeps both limits.
    pub steady: bool,
}

/// What the last digits of a sum may add to an excursion that is exactly at its limit, as a share
/// of the average.
const ROUNDING: f64 = 1e-12;

impl SteadyRule {
    /// Judges a window: (round, value) of each of its rounds, ascending. A window whose average is not above zero
    /// is never steady. None for another number of rounds than the rule's, fewer than two, rounds that do not
    /// ascend, and values that are not finite.
    #[must_use]
    pub fn judge(&self, rounds: &[(u32, f64)]) -> Option<SteadyWindow> {
        let ascending = rounds.windows(2).all(|w| w[0].0 < w[1].0);
        let finite = rounds.iter().all(|(_, value)| value.is_finite());
        if rounds.len() != self.window || self.window < 2 || !ascending || !finite {
            return None;
        }
        let n = rounds.len() as f64;
        let mean = |of: &dyn Fn(&(u32, f64)) -> f64| rounds.iter().map(of).sum::<f64>() / n;
        let (middle, average) = (mean(&|r| f64::from(r.0)), mean(&|r| r.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            rounds.iter().map(|(x, y)| of(f64::from(*x) - middle, y - average)).sum()
        };
        let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
        let slope = xy / xx;
        let min = rounds.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        let max = rounds.iter().map(|r| r.1).fold(f64::NEG_INFINITY, f64::max);
        let across = f64::from(rounds[rounds.len() - 1].0) - f64::from(rounds[0].0);
        let (data_excursion, slope_excursion) = (max - min, (slope * across).abs());
        // A share of an average that is not above zero means nothing.
        let keeps =
            |excursion: f64, limit: f64| average > 0.0 && excursion <= (limit + ROUNDING) * average;
        Some(SteadyWindow {
            average,
            min,
            max,
            slope,
            intercept: average - slope * middle,
            correlation: (yy > 0.0).then(|| xy / (xx * yy).sqrt()),
            data_excursion,
            slope_excursion,
            steady: keeps(data_excursion, self.data_excursion)
                && keeps(slope_excursion, self.slope_excursion),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn judge(values: [f64; 5]) -> SteadyWindow {
        let rounds = (1..).zip(values).collect::<Vec<(u32, f64)>>();
        SteadyRule::default().judge(&rounds).expect("a window")
    }

    #[test]
    fn a_flat_window_is_steady() {
        let w = judge([100.0; 5]);
        assert!(w.steady);
        assert_eq!((w.slope, w.intercept, w.correlation), (0.0, 100.0, None));
    }

    #[test]
    fn the_slope_is_counted_across_the_window_not_per_round() {
        // 2.5 % of the average per round is 10 % across five rounds: just allowed.
        let rising = |step: f64| judge([-2.0, -1.0, 0.0, 1.0, 2.0].map(|i| 1000.0 + i * step));
        let at_limit = rising(25.0);
        assert!(at_limit.steady, "{at_limit:?}");
        assert!((at_limit.slope - 25.0).abs() < 1e-9 && at_limit.correlation == Some(1.0));
        // A rule that took the slope per round would let four times as much pass.
        let above = rising(26.0);
        assert!(!above.steady && above.data_excursion <= 200.0, "{above:?}");
    }

    #[test]
    fn the_data_excursion_is_the_whole_spread_not_the_largest_deviation() {
        // Symmetric about the middle: no slope.
        let spread = |d: f64| judge([1000.0 + d, 1000.0, 1000.0 - 2.0 * d, 1000.0, 1000.0 + d]);
        let w = spread(66.6);
        assert!(w.steady && w.slope.abs() < 1e-9, "{w:?}");
        let w = spread(66.7);
        assert!(!w.steady && w.slope_excursion < 1e-9, "{w:?}");
        assert!((w.data_excursion - 200.1).abs() < 1e-9);
    }

    #[test]
    fn rounds_apart_from_each_other_keep_their_distance() {
        let apart: Vec<(u32, f64)> = (0..5).map(|i| (1 + 30 * i, 100.0 + f64::from(i))).collect();
        let w = SteadyRule::default().judge(&apart).expect("a window");
        assert!((w.slope_excursion - 4.0).abs() < 1e-9, "{w:?}");
        assert!((w.slope - 1.0 / 30.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_window_is_not_judged() {
        let rule = SteadyRule::default();
        assert_eq!(rule.judge(&[(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]), None);
        assert_eq!(rule.judge(&[(1, 1.0), (1, 1.0), (3, 1.0), (4, 1.0), (5, 1.0)]), None);
        assert_eq!(rule.judge(&[(1, f64::NAN), (2, 1.0), (3, 1.0), (4, 1.0), (5, 1.0)]), None);
        assert_eq!(SteadyRule { window: 1, ..rule }.judge(&[(1, 1.0)]), None);
        assert!(!judge([0.0; 5]).steady, "nothing was done");
    }

    proptest! {
        /// Scale and the number of the first round change nothing.
        #[test]
        fn the_verdict_is_of_the_shape(
            values in prop::array::uniform5(80.0f64..120.0), scale in 1e-3f64..1e6, first in 0u32..1000,
        ) {
            let w = judge(values);
            let moved: Vec<(u32, f64)> = (first..).zip(values.map(|v| v * scale)).collect();
            let other = SteadyRule::default().judge(&moved).expect("a window");
            prop_assert!((w.slope * scale - other.slope).abs() <= 1e-6 * scale * 100.0);
            let share = |w: &SteadyWindow| {
                (w.data_excursion / w.average, w.slope_excursion / w.average)
            };
            let (a, b) = (share(&w), share(&other));
            prop_assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9);
            let clear = (a.0 - 0.2).abs() > 1e-6 && (a.1 - 0.1).abs() > 1e-6;
            prop_assert!(!clear || w.steady == other.steady);
        }
    }
}
