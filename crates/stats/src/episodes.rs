//! Episodes: slow I/Os that belong together.
//!
//! What it is: the grouping of I/Os above a threshold into events in time, because one stall at
//! depth 32 makes up to 32 slow I/Os that are not 32 independent observations; and a confidence
//! interval that counts events instead of I/Os. What it is not: the search for causes, which is
//! attribution's. Called by the report, for outliers and for percentiles whose exceedances are
//! mostly one episode.

use crate::confidence::{Ci, quantile_ci};
use taillight_core::Percentile;

/// Exceedances no further apart than this belong to one episode: 10 ms.
pub const DEFAULT_GAP_NS: u64 = 10_000_000;

/// One stretch of time with slow I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// Submission of its earliest I/O, as a stamp in nanoseconds.
    pub start_ns: i64,
    /// Latest completion among its I/Os, as a stamp in nanoseconds.
    pub end_ns: i64,
    /// I/Os above the threshold in it.
    pub count: u64,
}

impl Episode {
    /// How long it lasted, from first submission to last completion.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.start_ns.abs_diff(self.end_ns)
    }
}

/// All episodes of one threshold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episodes {
    list: Vec<Episode>,
    exceedances: u64,
    squares: u128,
}

impl Episodes {
    fn new(list: Vec<Episode>) -> Self {
        let exceedances = list.iter().map(|e| e.count).sum();
        let squares = list.iter().map(|e| u128::from(e.count) * u128::from(e.count)).sum();
        Self { list, exceedances, squares }
    }

    /// The episodes in order of time.
    #[must_use]
    pub fn list(&self) -> &[Episode] {
        &self.list
    }

    /// I/Os above the threshold, over all episodes.
    #[must_use]
    pub fn exceedances(&self) -> u64 {
        self.exceedances
    }

    /// The episode with the most I/Os, the earliest of equals.
    #[must_use]
    pub fn largest(&self) -> Option<&Episode> {
        self.list.iter().rev().max_by_key(|e| e.count)
    }

    /// Whether one episode holds more than half of the exceedances, so that the percentile hangs
    /// on a single event and must be shown with its episode-based interval.
    #[must_use]
    pub fn is_dominated(&self) -> bool {
        self.largest().is_some_and(|e| u128::from(e.count) * 2 > u128::from(self.exceedances))
    }

    /// How many I/Os weigh as much as one independent event: 1 when every episode has one I/O,
    /// the size of the episode when there is only one. See [`episode_ci`].
    #[must_use]
    pub fn design_effect(&self) -> f64 {
        if self.exceedances == 0 { 1.0 } else { self.squares as f64 / self.exceedances as f64 }
    }
}

/// Groups I/Os above a threshold, given as (submit, complete) stamps in nanoseconds in any order.
///
/// I/Os are in one episode when their intervals overlap or the pause between them is at most
/// `gap_ns` ([`DEFAULT_GAP_NS`] unless there is reason for another).
#[must_use]
pub fn group_episodes(exceedances: &[(i64, i64)], gap_ns: u64) -> Episodes {
    let mut spans: Vec<(i64, i64)> =
        exceedances.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    spans.sort_unstable();
    let mut list: Vec<Episode> = Vec::new();
    for (start, end) in spans {
        match list.last_mut() {
            Some(last) if start <= last.end_ns || start.abs_diff(last.end_ns) <= gap_ns => {
                last.end_ns = last.end_ns.max(end);
                last.count += 1;
            }
            _ => list.push(Episode { start_ns: start, end_ns: end, count: 1 }),
        }
    }
    Episodes::new(list)
}

/// A percentile's interval that counts episodes, not I/Os, as the independent units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpisodeCi {
    /// I/Os that weigh as much as one independent event.
    pub design_effect: f64,
    /// How many independent I/Os would say as much about this percentile.
    pub effective_n: u64,
    /// The 95 % interval, as ranks among all `n` I/Os. An end is none when there are too few
    /// events for it.
    pub ci: Ci,
}

/// The 95 % interval of a percentile over `n` I/Os whose exceedances come in `episodes`.
///
/// `episodes` groups the I/Os slower than the percentile's own value (at or above it, if none is
/// slower).
///
/// Method: episodes are taken to arrive independently and to differ in size, so the variance of
/// the number of exceedances is larger than for independent I/Os by the design effect
/// `sum(size^2) / sum(size)` (compound Poisson variance; Kish, "Survey Sampling", 1965). The exact
/// order-statistic interval is then computed for `n / design effect` I/Os and its ranks are scaled
/// back, which is the approach of Korn and Graubard (Survey Methodology 24, 1998) for exact limits
/// under clustering. Chosen over a block bootstrap because it needs no random numbers, reduces to
/// [`quantile_ci`] when every episode is one I/O, and does not shrink when there are only one or
/// two events, where resampling what was seen cannot show what was not. The sizes are those of the
/// sample, so with few episodes the interval is itself uncertain.
#[must_use]
pub fn episode_ci(n: u64, pct: &Percentile, episodes: &Episodes) -> EpisodeCi {
    let total = u128::from(episodes.exceedances).max(1);
    let squares = episodes.squares.max(1);
    let effective = u128::from(n) * total / squares;
    let effective_n = u64::try_from(effective).unwrap_or(n).min(n);
    let ci = quantile_ci(effective_n, pct);
    let rank = pct.rank(n);
    // Distances from the top in effective I/Os, scaled to I/Os, rounded away from the percentile.
    let lo_rank = ci.lo_rank.and_then(|k| {
        let from_top = scale_up(effective_n - k + 1, squares, total);
        n.checked_sub(from_top).map(|below| (below + 1).min(rank))
    });
    let hi_rank = ci.hi_rank.map(|k| {
        let above = scale_down(effective_n - k, squares, total);
        n.saturating_sub(above).max(rank)
    });
    EpisodeCi { design_effect: episodes.design_effect(), effective_n, ci: Ci { lo_rank, hi_rank } }
}

/// `count * squares / total`, rounded up, at most the largest count.
fn scale_up(count: u64, squares: u128, total: u128) -> u64 {
    let scaled = u128::from(count).saturating_mul(squares).div_ceil(total);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// `count * squares / total`, rounded down, at most the largest count.
fn scale_down(count: u64, squares: u128, total: u128) -> u64 {
    let scaled = u128::from(count).saturating_mul(squares) / total;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::Dist;
    use proptest::prelude::*;

    fn counts(episodes: &Episodes) -> Vec<u64> {
        episodes.list().iter().map(|e| e.count).collect()
    }

    #[test]
    fn overlap_and_gap_join() {
        let ios = [(500, 700), (0, 100), (50, 200), (205, 210), (10, 20)];
        let episodes = group_episodes(&ios, 5);
        assert_eq!(counts(&episodes), [4, 1]);
        let first = episodes.list()[0];
        assert_eq!((first.start_ns, first.end_ns, first.span_ns()), (0, 210, 210));
        assert_eq!(episodes.largest().map(|e| e.count), Some(4));
        assert!(episodes.is_dominated());
        assert_eq!(counts(&group_episodes(&ios, 4)), [3, 1, 1]);
        assert_eq!(counts(&group_episodes(&ios, 290)), [5]);
    }

    #[test]
    fn a_long_io_holds_later_short_ones() {
        let episodes = group_episodes(&[(0, 1_000), (10, 20), (900, 950), (1_001, 1_002)], 0);
        assert_eq!(counts(&episodes), [3, 1]);
    }

    #[test]
    fn empty_and_extreme_inputs() {
        let none = group_episodes(&[], DEFAULT_GAP_NS);
        assert_eq!((none.exceedances(), none.largest()), (0, None));
        assert!(!none.is_dominated());
        let far = group_episodes(&[(i64::MIN, i64::MIN), (i64::MAX, i64::MAX), (9, 3)], 1);
        assert_eq!(counts(&far), [1, 1, 1]);
        assert_eq!(far.list()[1], Episode { start_ns: 3, end_ns: 9, count: 1 });
        let half = group_episodes(&[(0, 1), (100, 101)], 1);
        assert!(!half.is_dominated());
        assert_eq!(half.largest().map(|e| e.start_ns), Some(0));
    }

    #[test]
    fn single_io_episodes_change_nothing() {
        let pct: Percentile = "99".parse().expect("valid");
        let ios: Vec<(i64, i64)> = (0..100).map(|i| (i * 1_000, i * 1_000 + 1)).collect();
        let episodes = group_episodes(&ios, 10);
        let got = episode_ci(10_000, &pct, &episodes);
        assert_eq!((got.design_effect, got.effective_n), (1.0, 10_000));
        assert_eq!(got.ci, quantile_ci(10_000, &pct));
        assert_eq!(episode_ci(10_000, &pct, &Episodes::default()).ci, quantile_ci(10_000, &pct));
    }

    #[test]
    fn one_event_is_one_observation() {
        // 300 exceedances of five nines, all in one stall: no upper end, a far lower one.
        let pct = Percentile::nines(5).expect("valid");
        let stall: Vec<(i64, i64)> = (0..300).map(|i| (i, 1_000)).collect();
        let got = episode_ci(30_000_000, &pct, &group_episodes(&stall, 10));
        assert_eq!((got.design_effect, got.effective_n), (300.0, 100_000));
        assert_eq!(got.ci.hi_rank, None);
        assert!(quantile_ci(30_000_000, &pct).hi_rank.is_some());
        // Poisson with mean 1: four or more events are rarer than 2.5 %.
        assert_eq!(got.ci.lo_rank, Some(30_000_001 - 4 * 300));
    }

    /// A small fixed generator (SplitMix64), so that the test repeats.
    fn uniform(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One run: 2 % of I/Os are slow, in stalls of 20 that share one latency, uniform between 1 ms
    /// and 2 ms, so that the true 99th percentile is 1.5 ms. Returns (submit, latency).
    fn stalling_run(n: i64, state: &mut u64) -> Vec<(i64, u64)> {
        let (mut left, mut latency) = (0, 0);
        (0..n)
            .map(|i| {
                if left == 0 && uniform(state) < 1.0 / 981.0 {
                    left = 20;
                    latency = 1_000_000 + (uniform(state) * 1e6) as u64;
                }
                let slow = left > 0;
                left -= i32::from(slow);
                (i * 3_000_000, if slow { latency } else { 100_000 })
            })
            .collect()
    }

    #[test]
    fn covers_the_truth_where_independent_ranks_do_not() {
        const RUNS: u32 = 200;
        let pct: Percentile = "99".parse().expect("valid");
        let mut state = 7;
        let (mut by_episode, mut by_io) = (0, 0);
        for _ in 0..RUNS {
            let ios = stalling_run(20_000, &mut state);
            let dist: Dist = ios.iter().map(|io| io.1).collect();
            let value = dist.percentile(&pct).expect("not empty");
            let slow: Vec<(i64, i64)> = ios
                .iter()
                .filter(|io| io.1 > value)
                .map(|io| (io.0, io.0 + i64::try_from(io.1).expect("small")))
                .collect();
            let covers = |ci: Ci| {
                let (lo, hi) = ci.values(&dist);
                lo.is_none_or(|v| v <= 1_500_000) && hi.is_none_or(|v| v >= 1_500_000)
            };
            let episodes = group_episodes(&slow, 3_000_000);
            by_episode += u32::from(covers(episode_ci(dist.count(), &pct, &episodes).ci));
            by_io += u32::from(covers(quantile_ci(dist.count(), &pct)));
        }
        assert!(by_episode * 100 >= RUNS * 92, "covered {by_episode} of {RUNS}");
        assert!(by_io * 100 < RUNS * 60, "independent ranks covered {by_io} of {RUNS}");
    }

    proptest! {
        #[test]
        fn grouping_keeps_counts_and_separates(
            ios in prop::collection::vec((-500i64..500, 0i64..40), 0..60), gap in 0u64..20,
        ) {
            let spans: Vec<(i64, i64)> = ios.iter().map(|&(s, d)| (s, s + d)).collect();
            let episodes = group_episodes(&spans, gap);
            prop_assert_eq!(episodes.exceedances(), spans.len() as u64);
            prop_assert_eq!(counts(&episodes).iter().sum::<u64>(), spans.len() as u64);
            let apart = |w: &[Episode]| w[0].end_ns < w[1].start_ns
                && w[0].end_ns.abs_diff(w[1].start_ns) > gap;
            prop_assert!(episodes.list().windows(2).all(apart));
            let mut reversed = spans;
            reversed.reverse();
            prop_assert_eq!(group_episodes(&reversed, gap), episodes);
        }

        #[test]
        fn clusters_never_narrow_the_interval(
            sizes in prop::collection::vec(1u64..50, 1..30), n in 1u64..10_000_000, k in 1u8..6,
        ) {
            let list = sizes.iter().enumerate().map(|(i, &count)| {
                let at = i64::try_from(i).unwrap() * 100;
                Episode { start_ns: at, end_ns: at, count }
            });
            let pct = Percentile::nines(k).expect("valid");
            let wide = episode_ci(n, &pct, &Episodes::new(list.collect()));
            let narrow = quantile_ci(n, &pct);
            let rank = pct.rank(n);
            prop_assert!(wide.effective_n <= n && wide.design_effect >= 1.0);
            if let Some(lo) = wide.ci.lo_rank {
                prop_assert!(lo >= 1 && lo <= rank && narrow.lo_rank.is_some());
            }
            if let Some(hi) = wide.ci.hi_rank {
                prop_assert!(hi >= rank && hi <= n && narrow.hi_rank.is_some());
            }
        }
    }
}
