//! A percentile that says how far it may be believed.
//!
//! What it is: the nearest-rank value together with its interval and, when there are too few I/Os,
//! the count that is needed instead of a number. What it is not: the statistics themselves (see
//! [`confidence`](crate::confidence) and [`Dependence`]). Called by the report
//! for every percentile and nine it shows, and for every ceiling.
//!
//! How much I/Os depend on each other differs by percentile, so that the interval of p90 can begin above
//! that of p95. Each end that holds for one percentile also holds for others: p95 is at least what p90 is
//! at least, and p90 at most what p95 is at most. [`Intervals`] takes the narrower end, and there
//! can be an end where the I/Os around a percentile alone give none.

use crate::confidence::{dependent_ranks, needed_one_sided, needed_two_sided};
use crate::dependence::{Dependence, DesignEffect};
use crate::dist::Dist;
use taillight_core::Percentile;

/// Percentiles, ascending, whose intervals each other one takes into account. A fixed list, so that
/// an interval does not depend on what else was asked for.
const LADDER: [Percentile; 17] = [
    Percentile::hundredths(10),
    Percentile::hundredths(1_00),
    Percentile::hundredths(5_00),
    Percentile::hundredths(10_00),
    Percentile::hundredths(25_00),
    Percentile::MEDIAN,
    Percentile::hundredths(75_00),
    Percentile::hundredths(90_00),
    Percentile::hundredths(95_00),
    Percentile::hundredths(99_00),
    Percentile::hundredths(99_90),
    Percentile::hundredths(99_99),
    nines(5),
    nines(6),
    nines(7),
    nines(8),
    nines(9),
];

const fn nines(k: u8) -> Percentile {
    match Percentile::nines(k) {
        Some(percentile) => percentile,
        None => panic!("there are 1 to 18 nines"),
    }
}

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

/// The intervals of the percentiles of one set of I/Os, which agree with each other.
#[derive(Debug)]
pub struct Intervals<'a> {
    pub(crate) dist: &'a Dist,
    pub(crate) dependence: &'a Dependence,
    pub(crate) ladder: Vec<Estimate>,
}

impl<'a> Intervals<'a> {
    /// Those of `dist`, whose I/Os lie in time as `dependence` knows.
    #[must_use]
    pub fn new(dist: &'a Dist, dependence: &'a Dependence) -> Intervals<'a> {
        let alone = |pct: &Percentile| alone(dist, pct, &dependence.effect(pct));
        let mut ladder: Vec<Estimate> = LADDER.iter().map(alone).collect();
        for i in 1..ladder.len() {
            ladder[i] = agreed(ladder[i], Some(ladder[i - 1]), None);
        }
        for i in (1..ladder.len()).rev() {
            ladder[i - 1] = agreed(ladder[i - 1], None, Some(ladder[i]));
        }
        Intervals { dist, dependence, ladder }
    }

    /// A percentile with its interval, or with the count it needs.
    #[must_use]
    pub fn estimate(&self, pct: &Percentile) -> Estimate {
        let at = match LADDER.binary_search(pct) {
            Ok(at) => return self.ladder[at],
            Err(at) => at,
        };
        let below = at.checked_sub(1).and_then(|i| self.ladder.get(i)).copied();
        let above = self.ladder.get(at).copied();
        let mut it = agreed(alone(self.dist, pct, &self.effect(pct)), below, above);
        // Nothing is known better of it than of its neighbours.
        it.lo = above.map_or(it.lo, |above| it.lo.min(above.lo));
        let deeper = if is_upper(pct) { above } else { below };
        if let Some(most) = deeper.and_then(|deeper| deeper.interval_needs) {
            it.interval_needs = it.interval_needs.map(|n| n.min(most));
        }
        if let Some(below) = below.and_then(|below| below.hi) {
            it.hi = it.hi.map(|hi| hi.max(below));
        }
        it
    }

    /// What dependence leaves of the I/Os at a percentile: of one between two of the ladder, what it
    /// leaves at the one where it leaves less, so that ends rise with the percentile.
    pub(crate) fn effect(&self, pct: &Percentile) -> DesignEffect {
        let own = self.dependence.effect(pct);
        let at = LADDER.binary_search(pct);
        let Err(at) = at else { return own };
        let near = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let near = near.filter_map(|i| Some(self.dependence.effect(LADDER.get(i)?)));
        let less = |a: &DesignEffect, b: &DesignEffect| {
            let (a, b) = (a.longer.unwrap_or(0.0), b.longer.unwrap_or(0.0));
            a.total_cmp(&b)
        };
        let by_divisor =
            |a: &DesignEffect, b: &DesignEffect| less(a, b).then(a.divisor.total_cmp(&b.divisor));
        let least = near.max_by(by_divisor).unwrap_or(own);
        DesignEffect { unseen: own.unseen, ..least }
    }
}

/// An estimate with the ends that those of a shallower and a deeper percentile give it.
fn agreed(it: Estimate, below: Option<Estimate>, above: Option<Estimate>) -> Estimate {
    let lower = |of: fn(&Estimate) -> Option<u64>| below.as_ref().and_then(of).max(of(&it));
    let upper = |of: fn(&Estimate) -> Option<u64>| {
        [above.as_ref().and_then(of), of(&it)].into_iter().flatten().min()
    };
    let (lo, hi) = (lower(|e| e.lo), upper(|e| e.hi));
    let bound = match is_upper(&it.pct) {
        true => upper(|e| e.bound.filter(|_| is_upper(&e.pct))).into_iter().chain(hi).min(),
        false => lower(|e| e.bound.filter(|_| !is_upper(&e.pct))).max(lo),
    };
    // What lies deeper in a tail needs no less.
    let shallower = if is_upper(&it.pct) { below } else { above };
    let least = shallower.filter(|e| is_upper(&e.pct) == is_upper(&it.pct));
    let least = least.and_then(|e| e.interval_needs);
    let interval_needs = it.interval_needs.filter(|_| lo.is_none() || hi.is_none());
    let interval_needs = interval_needs.max(interval_needs.and(least));
    Estimate { lo, hi, bound, interval_needs, ..it }
}

/// Whether the sparse side of a percentile is the one above it.
fn is_upper(pct: &Percentile) -> bool {
    pct.tail_share() <= 0.5
}

/// The estimate that the I/Os around a percentile give by themselves.
fn alone(dist: &Dist, pct: &Percentile, effect: &DesignEffect) -> Estimate {
    let n = dist.count();
    let needs = needed_one_sided(pct);
    let resolved = needs.is_some_and(|needed| n >= needed);
    let ranks = dependent_ranks(n, pct, effect);
    let (mut lo, mut hi) = ranks.ci.values(dist);
    let mut bound = ranks.bound.and_then(|k| dist.value_at_rank(k));
    if let Some((from, to)) = unseen(dist, effect) {
        lo = lo.map(|ns| ns.min(from));
        hi = hi.map(|ns| ns.max(to));
        bound = bound.map(|ns| if is_upper(pct) { ns.max(to) } else { ns.min(from) });
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
    use crate::{CeilingStatus, TimeGrid, TimeWindow};

    fn of_count(n: u64, pct: &Percentile) -> Estimate {
        Intervals::new(&(1..=n).collect(), &Dependence::default()).estimate(pct)
    }

    #[test]
    fn nines_resolve_one_after_the_other() {
        let table: Vec<_> =
            (1..=9).map(|k| of_count(3_000, &Percentile::nines(k).expect("valid"))).collect();
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
        let at = |n: u64| of_count(n, &p);
        assert!(!at(298).resolved && at(298).needs == Some(299));
        for n in [299, 367] {
            let it = at(n);
            assert_eq!((it.lo.is_some(), it.hi, it.bound), (true, None, Some(n)), "{n}");
        }
        assert_eq!((at(368).lo.is_some(), at(368).hi), (true, Some(368)));
        let low = of_count(1_000, &"1".parse().expect("valid"));
        assert!(low.bound.is_some_and(|bound| bound < 10), "{low:?}");
    }

    #[test]
    fn dependence_takes_from_the_count() {
        let p: Percentile = "99".parse().expect("valid");
        let dist: Dist = (1..=10_000).collect();
        let effect =
            DesignEffect { design_effect: 8.0, divisor: 10.0, certain: true, ..DesignEffect::NONE };
        let (one, tenth) = (alone(&dist, &p, &DesignEffect::NONE), alone(&dist, &p, &effect));
        assert_eq!((tenth.value, tenth.effective), (one.value, 1_250));
        assert!(tenth.lo < one.lo && tenth.hi > one.hi, "{tenth:?} {one:?}");
        let short = alone(&dist, &p, &DesignEffect { longer: Some(4.0), ..effect });
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
            let dependence = Dependence::new(grid);
            let intervals = Intervals::new(&dist, &dependence);
            (intervals.estimate(&p), intervals.check_ceiling(values[0], &p).status)
        };
        let (one, kept) = seen(&[1_000_000]);
        assert_eq!((one.lo, one.hi, kept), (Some(1_000_000), Some(1_000_000), CeilingStatus::Pass));
        let (near, kept) = seen(&[1_000_010, 1_000_020, 1_000_000]);
        assert!(near.lo < Some(999_500) && near.hi > Some(1_000_500), "{near:?}");
        assert_eq!(kept, CeilingStatus::Undecided);
    }

    /// Latencies of a queue on top of a slow drift: what is known differs by percentile.
    fn drifting(seed: u64, seconds: i64) -> (Dist, Dependence) {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut grid = TimeGrid::new(TimeWindow::new(0, seconds * 1_000_000_000));
        let (mut level, mut values) = (1.0f64, Vec::new());
        for second in 0..seconds {
            level *= 1.0 + 0.2 * (random() - 0.45);
            for i in 0..500 {
                let stalls = second % 7 == 3 && i < 20;
                let us = 100.0 * level - 50.0 * random().ln() + if stalls { 5_000.0 } else { 0.0 };
                let ns = (us * 1_000.0) as u64;
                grid.push(second * 1_000_000_000 + i * 2_000_000, ns);
                values.push(ns);
            }
        }
        (Dist::from_values(values), Dependence::new(grid))
    }

    #[test]
    fn intervals_of_percentiles_agree() {
        let list = [
            "0.5", "1", "5", "20", "22", "25", "50", "90", "93", "95", "97", "98", "99", "99.9",
            "99.99",
        ];
        let list = list.map(|p| p.parse::<Percentile>().expect("valid"));
        let mut gained = 0;
        for seed in 0..40 {
            let (dist, dependence) = drifting(seed, 30);
            let intervals = Intervals::new(&dist, &dependence);
            let all = list.map(|p| intervals.estimate(&p));
            for (it, p) in all.iter().zip(&list) {
                let own = alone(&dist, p, &dependence.effect(p));
                assert!(it.value.is_none() || it.lo <= it.value, "{seed} {it:?}");
                assert!(it.hi.is_none() || it.value.is_none() || it.hi >= it.value, "{it:?}");
                assert!(it.bound.is_some() || it.hi.is_none() || !is_upper(p), "{it:?}");
                gained += usize::from(it.lo != own.lo) + usize::from(it.hi != own.hi);
            }
            for two in all.windows(2) {
                assert!(two[1].lo >= two[0].lo, "{seed} {two:?}");
                assert!(two[1].hi.is_none() || two[0].hi.is_some_and(|hi| Some(hi) <= two[1].hi));
            }
            let (deep, shallow): (Vec<&Estimate>, Vec<&Estimate>) =
                all.iter().partition(|it| is_upper(&it.pct));
            let shallow: Vec<&Estimate> = shallow.into_iter().rev().collect();
            for two in [deep, shallow].iter().flat_map(|side: &Vec<&Estimate>| side.windows(2)) {
                let less = two[1].interval_needs.is_some_and(|n| Some(n) < two[0].interval_needs);
                assert!(!less, "{seed} {two:?}");
            }
            for ceiling in [1, 90_000, 150_000, 400_000, 5_000_000, 10_000_000_000] {
                let checks = list.map(|p| intervals.check_ceiling(ceiling, &p));
                for (check, it) in checks.iter().zip(&all) {
                    let (pass, fail) =
                        (it.hi <= Some(ceiling) && it.hi.is_some(), it.lo > Some(ceiling));
                    let allowed = check.at.tail_share();
                    let share = dist.count_above(ceiling) as f64 / dist.count() as f64;
                    let fail = fail || !pass && it.lo.is_none() && 0.025 * share > allowed;
                    assert_eq!(check.status == CeilingStatus::Pass, pass, "{check:?} {it:?}");
                    assert_eq!(check.status == CeilingStatus::Fail, fail, "{check:?} {it:?}");
                    assert!(!pass || check.share_hi <= allowed, "{check:?}");
                    assert!(!fail || check.share_lo >= allowed, "{check:?}");
                    assert!(check.share_lo <= check.share_hi, "{check:?}");
                }
                for two in checks.windows(2) {
                    let kept = |c: &crate::CeilingCheck| c.status == CeilingStatus::Pass;
                    assert!(kept(&two[0]) || !kept(&two[1]), "{seed} {two:?}");
                }
            }
        }
        assert!(gained > 40, "{gained}");
    }

    #[test]
    fn nothing_is_invented() {
        let none = of_count(0, &Percentile::MEDIAN);
        assert_eq!((none.value, none.resolved, none.needs), (None, false, Some(5)));
        let max = of_count(1_000, &Percentile::MAX);
        assert_eq!((max.value, max.resolved, max.needs), (None, false, None));
    }
}
