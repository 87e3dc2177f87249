//! Classic buckets: fixed steps, and every ceiling as a step of its own.

use hdrhistogram::Histogram;
use taillight_core::plan::Ceiling;

/// The first edge, ns; the last is so many decades above it: 100 s.
const FIRST_NS: u64 = 10_000;
const DECADES: u32 = 7;

/// Upper edges, ns, ascending: 1, 2.5 and 5 of each decade, and every ceiling.
pub fn edges_ns(ceilings: &[Ceiling]) -> Vec<u64> {
    let decade = |d| [FIRST_NS, FIRST_NS * 5 / 2, FIRST_NS * 5].map(|ns| ns * 10u64.pow(d));
    let mut edges: Vec<u64> = (0..DECADES).flat_map(decade).collect();
    edges.push(FIRST_NS * 10u64.pow(DECADES));
    edges.extend(ceilings.iter().map(|c| c.ceiling.0));
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Each edge in seconds, and how many values are at most that; a value in a bucket of `held` across an edge, which is
/// within 0.1 % of it, is counted above.
pub fn cumulative(held: &Histogram<u64>, edges_ns: &[u64]) -> Vec<(f64, u64)> {
    let mut values = held.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
    let mut next = values.next();
    let mut count = 0;
    let mut buckets = Vec::with_capacity(edges_ns.len());
    for edge in edges_ns {
        while let Some((_, n)) = next.filter(|(ns, _)| ns <= edge) {
            count += n;
            next = values.next();
        }
        buckets.push((*edge as f64 / 1e9, count));
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::Percentile;
    use taillight_core::units::Span;
    use taillight_engine::recorder::new_histogram;

    #[test]
    fn a_ceiling_is_an_edge_and_counts_are_exact_beside_it() {
        let ceiling = Ceiling::new(Span(20_000_000), Percentile::nines(3).unwrap());
        let edges = edges_ns(&[ceiling]);
        assert!(edges.windows(2).all(|w| w[0] < w[1]), "{edges:?}");
        assert_eq!((edges[0], edges.last().copied()), (10_000, Some(100_000_000_000)));
        let mut held = new_histogram();
        for (ns, n) in [(9_000, 5), (19_970_000, 7), (20_030_000, 11), (200_000_000_000, 13)] {
            held.record_n(ns, n).unwrap();
        }
        let buckets = cumulative(&held, &edges);
        let at = |s: f64| buckets.iter().find(|b| b.0 == s).map(|b| b.1);
        assert_eq!(
            (at(1e-5), at(0.01), at(0.02), at(0.025)),
            (Some(5), Some(5), Some(12), Some(23))
        );
        assert_eq!(at(100.0), Some(23), "the rest is in +Inf");
    }
}
