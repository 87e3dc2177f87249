//! Episodes: groups I/Os above a threshold into events in time, because one stall at depth 32 makes up to
//! 32 slow I/Os that are not 32 independent observations. [`Dependence`](crate::Dependence) judges what
//! such I/Os say of a percentile, and the crate `explain` what caused them.

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
}

impl Episodes {
    fn new(list: Vec<Episode>) -> Self {
        let exceedances = list.iter().map(|e| e.count).sum();
        Self { list, exceedances }
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

    /// Whether one episode holds more than half of the exceedances, so that the percentile hangs on a single event.
    #[must_use]
    pub fn is_dominated(&self) -> bool {
        self.largest().is_some_and(|e| u128::from(e.count) * 2 > u128::from(self.exceedances))
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

#[cfg(test)]
mod tests {
    use super::*;
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
    }
}
