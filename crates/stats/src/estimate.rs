//! A percentile that says how far it may be believed.
//!
//! What it is: the nearest-rank value together with its interval and, when there are too few I/Os,
//! the count that is needed instead of a number. What it is not: the statistics themselves (see
//! [`confidence`](crate::confidence)). Called by the report for every percentile it shows.

use crate::confidence::{needed_one_sided, needed_two_sided, quantile_ci};
use crate::dist::Dist;
use taillight_core::Percentile;

/// One percentile as it may be shown. All values in nanoseconds, intervals at 95 % confidence for
/// independent I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Which percentile.
    pub pct: Percentile,
    /// The nearest-rank value; none when unresolved.
    pub value: Option<u64>,
    /// Lower end of the two-sided interval; none until both ends exist.
    pub lo: Option<u64>,
    /// Upper end of the two-sided interval; none until both ends exist.
    pub hi: Option<u64>,
    /// Whether the one-sided bound exists, so that the value is an estimate and not an extreme.
    pub resolved: bool,
    /// I/Os needed to resolve it; none when resolved, or when no count suffices (100 %).
    pub needs: Option<u64>,
}

/// A percentile with its interval, or with the count it needs.
#[must_use]
pub fn estimate(dist: &Dist, pct: &Percentile) -> Estimate {
    let n = dist.count();
    let needed = needed_one_sided(pct);
    if needed.is_none_or(|needed| n < needed) {
        return Estimate {
            pct: *pct,
            value: None,
            lo: None,
            hi: None,
            resolved: false,
            needs: needed,
        };
    }
    let two_sided = needed_two_sided(pct).is_some_and(|needed| n >= needed);
    let (lo, hi) = if two_sided { quantile_ci(n, pct).values(dist) } else { Default::default() };
    Estimate { pct: *pct, value: dist.percentile(pct), lo, hi, resolved: true, needs: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nines_resolve_one_after_the_other() {
        let dist: Dist = (1..=3_000).collect();
        let nines = (1..=9).map(|k| Percentile::nines(k).expect("valid"));
        let table: Vec<Estimate> = nines.map(|nine| estimate(&dist, &nine)).collect();
        let resolved: Vec<_> = table.iter().map(|n| n.resolved).collect();
        assert_eq!(resolved, [true, true, true, false, false, false, false, false, false]);
        let two = table[1];
        assert_eq!((two.value, two.needs), (Some(2_970), None));
        assert!(two.lo.is_some_and(|lo| lo < 2_970) && two.hi.is_some_and(|hi| hi > 2_970));
        // Past 2,995 but short of 3,688: a value, no interval.
        let three = table[2];
        assert_eq!((three.value, three.lo, three.hi), (Some(2_997), None, None));
        let four = table[3];
        assert_eq!((four.value, four.lo, four.hi), (None, None, None));
        assert_eq!(four.needs, Some(29_956));
        assert_eq!(table[8].needs, Some(2_995_732_273));
    }

    #[test]
    fn the_threshold_itself_resolves() {
        let p: Percentile = "99".parse().expect("valid");
        let at = |n: u64| estimate(&(1..=n).collect(), &p);
        assert!(!at(298).resolved);
        assert_eq!(at(298).needs, Some(299));
        assert_eq!((at(299).value, at(299).hi), (Some(297), None));
        assert_eq!(at(367).hi, None);
        assert_eq!((at(368).lo.is_some(), at(368).hi), (true, Some(368)));
    }

    #[test]
    fn nothing_is_invented() {
        let none = estimate(&Dist::default(), &Percentile::MEDIAN);
        assert_eq!((none.value, none.resolved, none.needs), (None, false, Some(5)));
        let max = estimate(&(1..=1_000).collect(), &Percentile::MAX);
        assert_eq!((max.value, max.resolved, max.needs), (None, false, None));
    }
}
