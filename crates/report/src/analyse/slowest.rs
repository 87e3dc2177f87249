//! The slowest I/Os with their stamps, for episodes: which exceedances belong to one event.
//!
//! Bounded: keeps a fixed number of the largest, so [`SlowestIos::above`] answers a threshold exactly where at most
//! that many I/Os exceed it, and a lower threshold not at all.

use taillight_stats::TopK;

/// I/Os kept per workload and operation.
pub const KEPT: usize = 100_000;
/// The slowest I/Os that a rank tells of each workload and operation, where its I/Os stay on its host.
pub const TOLD: usize = 20_000;

/// Collects the slowest I/Os.
#[derive(Debug, Clone)]
pub struct SlowestKeeper(TopK<(i64, i64)>);

impl SlowestKeeper {
    /// Keeps the largest `limit`.
    pub fn new(limit: usize) -> Self {
        SlowestKeeper(TopK::new(limit))
    }
    /// Offers one I/O: its latency and its stamps.
    #[inline]
    pub fn push(&mut self, ns: u64, start_ns: i64, end_ns: i64) {
        // The kept set must not depend on the order of rows: ties go by stamp.
        self.0.push(ns, start_ns as u64, (start_ns, end_ns));
    }
    /// What was kept of a run of `span_ns`.
    pub fn finish(self, span_ns: u64) -> SlowestIos {
        let kept = self.0.into_kept();
        // In order of time each threshold's I/Os are grouped without sorting them again.
        SlowestIos::of(kept.into_iter().map(|r| (r.value, r.item)).collect(), span_ns)
    }
}

/// The slowest I/Os, in order of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlowestIos {
    slowest: Vec<(u64, (i64, i64))>,
    span_ns: u64,
}

impl SlowestIos {
    /// Of latencies with begin and end, of a run of `span_ns`.
    pub fn of(mut slowest: Vec<(u64, (i64, i64))>, span_ns: u64) -> SlowestIos {
        slowest.sort_unstable_by_key(|(ns, at)| (*at, *ns));
        SlowestIos { slowest, span_ns }
    }
    /// The slowest of them, at most so many, the slowest first.
    pub fn largest(&self, most: usize) -> Vec<(u64, (i64, i64))> {
        let mut all = self.slowest.clone();
        all.sort_unstable_by_key(|(ns, at)| (std::cmp::Reverse(*ns), *at));
        all.truncate(most);
        all
    }
    /// How long the run was, ns.
    pub fn span_ns(&self) -> u64 {
        self.span_ns
    }
    /// The stamps of all I/Os above `ns`, of which there are `count`; none when not all are kept.
    pub fn above(&self, ns: u64, count: u64) -> Option<Vec<(i64, i64)>> {
        let kept = self.kept_above(ns);
        (kept.len() as u64 == count).then_some(kept)
    }
    /// The stamps of the kept I/Os above `ns`: all of them, or the slowest.
    pub fn kept_above(&self, ns: u64) -> Vec<(i64, i64)> {
        self.slowest.iter().filter(|(value, _)| *value > ns).map(|(_, at)| *at).collect()
    }
    /// Whether there may be more I/Os above `ns` than are kept.
    pub fn is_cut_above(&self, ns: u64) -> bool {
        [TOLD, KEPT].contains(&self.slowest.len())
            && self.slowest.iter().all(|(value, _)| *value > ns)
    }
    /// The slowest of several sets together, at most [`KEPT`].
    pub fn merged<'a>(all: impl Iterator<Item = &'a SlowestIos>) -> SlowestIos {
        let all: Vec<&SlowestIos> = all.collect();
        if let [one] = all[..] {
            return one.clone();
        }
        let mut sum = SlowestKeeper::new(KEPT);
        let mut span_ns = 0;
        for one in all {
            span_ns = span_ns.max(one.span_ns);
            for (ns, (start, end)) in &one.slowest {
                sum.push(*ns, *start, *end);
            }
        }
        sum.finish(span_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_answered_exactly_or_not_at_all() {
        let mut keeper = SlowestKeeper::new(3);
        for ns in 1..=10 {
            keeper.push(ns, ns as i64 * 100, ns as i64 * 100 + 5);
        }
        let kept = keeper.finish(2_000);
        assert_eq!(kept.above(8, 2), Some(vec![(900, 905), (1000, 1005)]));
        assert_eq!(kept.above(5, 5), None, "only three of five are kept");
        assert_eq!(kept.kept_above(5).len(), 3);
        assert!(!kept.is_cut_above(5), "all that there were");
        let many = SlowestIos::of(vec![(9, (0, 9)); TOLD], 9);
        assert_eq!((many.is_cut_above(8), many.is_cut_above(9)), (true, false));
        assert_eq!(kept.largest(2), [(10, (1000, 1005)), (9, (900, 905))]);
        assert_eq!(SlowestIos::of(kept.largest(3), 2_000), kept);
    }
}
