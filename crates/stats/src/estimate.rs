//! A percentile that says how far it may be believed.
//!
//! What it is: the nearest-rank value together with its interval and, when there are too few I/Os,
//! the count that is needed instead of a number. What it is not: the statistics themselves (see
//! [`confidence`](crate::confidence) and [`Dependence`](crate::Dependence)). Called by the report
//! for every percentile and nine it shows.

use crate::confidence::{dependent_ranks, needed_one_sided, needed_two_sided};
use crate::dependence::DesignEffect;
use crate::dist::Dist;
use taillight_core::Percentile;

/// One percentile as it may be shown. All values in nanoseconds, intervals at 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub pct: Percentile,
    /// The nearest-rank value; none when unresolved.
    pub value: Option<u64>,
    /// Lower end of the two-sided interval; none where there are too few I/Os for it.
    pub lo: Option<u64>,
    /// Upper end of the two-sided interval; none where there are too few I/Os for it.
    pub hi: Option<u64>,
    /// The one-sided bound on the sparse side: above the median "at most this", below it "at least
    /// this"; none where there are too few I/Os for it.
    pub bound: Option<u64>,
    /// Whether so many independent I/Os would have the one-sided bound, so that the value is no
    /// extreme of the run.
    pub resolved: bool,
    /// Independent I/Os needed for that; none when no count suffices (100 %).
    pub needs: Option<u64>,
    /// I/Os needed for both ends of the interval; none when both are there or no count suffices.
    pub interval_needs: Option<u64>,
    /// How many independent I/Os say as much about this percentile as those measured: all of them
    /// where a difference may be chance. The interval allows besides for how well that is known.
    pub effective: u64,
}

/// A percentile with its interval, or with the count it needs.
#[must_use]
pub fn estimate(dist: &Dist, pct: &Percentile, effect: &DesignEffect) -> Estimate {
    let n = dist.count();
    let needs = needed_one_sided(pct);
    let resolved = needs.is_some_and(|needed| n >= needed);
    let ranks = dependent_ranks(n, pct, effect);
    let (mut lo, mut hi) = ranks.ci.values(dist);
    let mut bound = ranks.bound.and_then(|k| dist.value_at_rank(k));
    if let Some((from, to)) = unseen(dist, effect) {
        let above = pct.tail_share() <= 0.5;
        lo = lo.map(|ns| ns.min(from));
        hi = hi.map(|ns| ns.max(to));
        bound = bound.map(|ns| if above { ns.max(to) } else { ns.min(from) });
    }
    let interval_needs = needed_two_sided(pct)
        .filter(|_| lo.is_none() || hi.is_none())
        .map(|needed| effect.needed(needed, n));
    Estimate {
        pct: *pct,
        value: dist.percentile(pct).filter(|_| resolved),
        lo,
        hi,
        bound,
        resolved,
        needs,
        interval_needs,
        effective: match effect.certain {
            true => (n as f64 / effect.design_effect).max(1.0) as u64,
            false => n,
        },
    }
}

/// The latencies within which the dependence is not known; none where they are all one value.
pub(crate) fn unseen(dist: &Dist, effect: &DesignEffect) -> Option<(u64, u64)> {
    let (from, to) = effect.unseen?;
    let below = from.checked_sub(1).map_or(0, |ns| dist.count_at_or_below(ns));
    let first = dist.value_at_rank(below + 1)?;
    (dist.count_at_or_below(first) < dist.count_at_or_below(to - 1)).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CeilingStatus, Dependence, TimeGrid, TimeWindow, check_ceiling};

    fn alone(n: u64, pct: &Percentile) -> Estimate {
        estimate(&(1..=n).collect(), pct, &DesignEffect::NONE)
    }

    #[test]
    fn nines_resolve_one_after_the_other() {
        let table: Vec<_> =
            (1..=9).map(|k| alone(3_000, &Percentile::nines(k).expect("valid"))).collect();
        let resolved: Vec<_> = table.iter().map(|e| e.resolved).collect();
        assert_eq!(resolved, [true, true, true, false, false, false, false, false, false]);
        let two = table[1];
        assert_eq!((two.value, two.interval_needs), (Some(2_970), None));
        assert!(two.lo.is_some_and(|lo| lo < 2_970) && two.hi.is_some_and(|hi| hi > 2_970));
        // Past 2,995 but short of 3,688: a value and its bound, no upper end.
        let three = table[2];
        assert_eq!((three.value, three.hi, three.bound), (Some(2_997), None, Some(3_000)));
        assert_eq!(three.interval_needs, Some(3_688));
        assert!(three.lo.is_some_and(|lo| lo < 2_997));
        let four = table[3];
        assert_eq!((four.value, four.hi, four.bound), (None, None, None));
        assert_eq!(four.needs, Some(29_956));
        assert_eq!(table[8].needs, Some(2_995_732_273));
    }

    #[test]
    fn each_end_is_there_when_it_exists() {
        let p: Percentile = "99".parse().expect("valid");
        let at = |n: u64| alone(n, &p);
        assert!(!at(298).resolved && at(298).needs == Some(299));
        for n in [299, 367] {
            let it = at(n);
            assert_eq!((it.lo.is_some(), it.hi, it.bound), (true, None, Some(n)), "{n}");
        }
        assert_eq!((at(368).lo.is_some(), at(368).hi), (true, Some(368)));
        let low = alone(1_000, &"1".parse().expect("valid"));
        assert!(low.bound.is_some_and(|bound| bound < 10), "{low:?}");
    }

    #[test]
    fn dependence_takes_from_the_count() {
        let p: Percentile = "99".parse().expect("valid");
        let dist: Dist = (1..=10_000).collect();
        let effect =
            DesignEffect { design_effect: 8.0, divisor: 10.0, certain: true, ..DesignEffect::NONE };
        let (one, tenth) = (estimate(&dist, &p, &DesignEffect::NONE), estimate(&dist, &p, &effect));
        assert_eq!((tenth.value, tenth.effective), (one.value, 1_250));
        assert!(tenth.lo < one.lo && tenth.hi > one.hi, "{tenth:?} {one:?}");
        let short = estimate(&dist, &p, &DesignEffect { longer: Some(4.0), ..effect });
        assert_eq!((short.value, short.lo, short.hi, short.bound), (one.value, None, None, None));
        assert_eq!(short.interval_needs, Some(40_000));
    }

    /// Where the grid cannot see dependence, an interval has the width of its cell, and a ceiling
    /// within it is undecided; a value that all share is exact.
    #[test]
    fn what_the_grid_cannot_see_is_not_claimed() {
        let p = Percentile::MEDIAN;
        let seen = |values: &[u64]| {
            let mut grid = TimeGrid::new(TimeWindow::new(0, 100_000));
            let list = (0..10_000i64).zip(values.iter().cycle());
            list.clone().for_each(|(i, ns)| grid.push(i * 10, *ns));
            let dist: Dist = list.map(|(_, ns)| *ns).collect();
            let effect = Dependence::new(grid).effect(&p);
            (estimate(&dist, &p, &effect), check_ceiling(&dist, values[0], &p, &effect).status)
        };
        let (one, kept) = seen(&[1_000_000]);
        assert_eq!((one.lo, one.hi, kept), (Some(1_000_000), Some(1_000_000), CeilingStatus::Pass));
        let (near, kept) = seen(&[1_000_010, 1_000_020, 1_000_000]);
        assert!(near.lo < Some(999_500) && near.hi > Some(1_000_500), "{near:?}");
        assert_eq!(kept, CeilingStatus::Undecided);
    }

    #[test]
    fn nothing_is_invented() {
        let none = estimate(&Dist::default(), &Percentile::MEDIAN, &DesignEffect::NONE);
        assert_eq!((none.value, none.resolved, none.needs), (None, false, Some(5)));
        let max = alone(1_000, &Percentile::MAX);
        assert_eq!((max.value, max.resolved, max.needs), (None, false, None));
    }
}
