//! Percentiles with their intervals, or with the number of I/Os that an interval needs.
//!
//! A ceiling ([`check_ceiling`](Intervals::check_ceiling)) at or above the upper end of a percentile's 95 %
//! interval is kept, one below its lower end is missed: the two cannot contradict each other. Ends rise with the
//! percentile. How far I/Os depend on each other comes from [`Dependence`].

use crate::binomial::{Chance, upper_tail};
use crate::confidence::{chance_below, needed_one_sided, needed_two_sided};
use crate::dependence::{Dependence, DesignEffect, ErrorShare, LevelEffect};
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
    /// Whether the I/Os measured would be enough for the one-sided bound if they were independent, so that
    /// the value is no extreme of the run. How far they depend on each other (`effective`) does not count.
    pub resolved: bool,
    /// I/Os measured that are needed for that; none when no count suffices (100 %).
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
    /// Edges between latencies and the I/Os at or above each, from all I/Os down to none.
    levels: Vec<CountedLevel>,
    /// How many times longer a run must be to say how far its I/Os depend on each other.
    longer: Option<f64>,
    /// How long there was load, ns from the start of the grid.
    pub(crate) load_ns: u64,
}

/// An edge of latency.
#[derive(Debug, Clone, Copy)]
struct CountedLevel {
    edge_ns: u64,
    /// I/Os at or above it.
    above: u64,
    effect: DesignEffect,
}

/// The latencies between two neighbouring edges.
#[derive(Debug, Clone, Copy)]
struct LatencyCell {
    /// The first latency of it, and the last.
    from_ns: u64,
    to_ns: u64,
    /// I/Os at or above its lower edge, and above all of it.
    most: u64,
    fewest: u64,
    effect: DesignEffect,
}

impl<'a> Intervals<'a> {
    /// Those of `dist`, whose I/Os lie in time as `dependence` knows.
    #[must_use]
    pub fn new(dist: &'a Dist, dependence: &'a Dependence) -> Intervals<'a> {
        let known = dependence.levels();
        let n = dist.count();
        let above = |edge_ns: u64| edge_ns.checked_sub(1).map_or(n, |ns| dist.count_above(ns));
        let counted = |l: &LevelEffect| CountedLevel {
            edge_ns: l.edge_ns,
            above: above(l.edge_ns),
            effect: l.effect,
        };
        let mut levels: Vec<CountedLevel> = known.iter().map(counted).collect();
        let end = |edge_ns, above, effect| CountedLevel { edge_ns, above, effect };
        // What the grid does not know of, if anything.
        if levels.first().is_none_or(|l| l.above < n) {
            levels.insert(0, end(0, n, levels.first().map_or(DesignEffect::NONE, |l| l.effect)));
        }
        if levels.len() < 2 || levels.last().is_none_or(|l| l.above > 0) {
            levels.push(end(u64::MAX, 0, levels.last().map_or(DesignEffect::NONE, |l| l.effect)));
        }
        Intervals { dist, dependence, levels, longer: dependence.longer(), load_ns: u64::MAX }
    }

    /// The same for a load that ended `load_ns` from the start of the grid: a ceiling's last sixth is that of the load.
    #[must_use]
    pub fn of_load(self, load_ns: u64) -> Self {
        Intervals { load_ns, ..self }
    }

    /// A percentile with its interval, or with the count it needs.
    #[must_use]
    pub fn estimate(&self, pct: &Percentile) -> Estimate {
        let n = self.dist.count();
        let needs = needed_one_sided(pct);
        let resolved = needs.is_some_and(|needed| n >= needed);
        let error = ErrorShare::two_sided();
        let (lo, hi) = (self.lower_end(pct, error), self.upper_end(pct, error));
        let bound = match is_upper(pct) {
            true => self.upper_end(pct, ErrorShare::one_sided()),
            false => self.lower_end(pct, ErrorShare::one_sided()),
        };
        let effect = self.cell_of_rank(pct.rank(n)).effect;
        Estimate {
            pct: *pct,
            value: self.dist.percentile(pct).filter(|_| resolved),
            lo,
            hi,
            bound,
            resolved,
            needs,
            interval_needs: (lo.is_none() || hi.is_none()).then(|| self.needed(pct)).flatten(),
            effective: match effect.certain {
                true => (n as f64 / effect.design_effect).max(1.0) as u64,
                false => n,
            },
        }
    }

    /// I/Os from which both ends of the interval are there, if more I/Os depend on each other as these do.
    fn needed(&self, pct: &Percentile) -> Option<u64> {
        let error = ErrorShare::two_sided();
        let far = |level: Option<&CountedLevel>| level.map_or(1.0, |l| l.effect.far(error));
        let sparse = if is_upper(pct) { self.levels.last() } else { self.levels.first() };
        let independent = needed_two_sided(pct)? as f64 * far(sparse);
        let longer = self.longer.map_or(0.0, |times| self.dist.count() as f64 * times);
        Some(independent.max(longer).ceil() as u64)
    }

    /// The smallest latency from which on the share above is surely no more than the percentile's.
    pub(crate) fn upper_end(&self, pct: &Percentile, error: &ErrorShare) -> Option<u64> {
        let tail = chance_above(pct);
        let kept = |above, effect: &DesignEffect| self.share(above, effect).is_below(tail, error);
        let broken = self.levels.iter().rposition(|l| !kept(l.above, &l.effect))?;
        if broken + 1 == self.levels.len() || self.longer.is_some() {
            return None;
        }
        let cell = self.cell(broken);
        if self.hides(&cell, pct) {
            return Some(cell.to_ns);
        }
        let most = last_true(cell.fewest, cell.most - 1, |above| kept(above, &cell.effect));
        self.dist.value_at_rank(self.dist.count() - most)
    }

    /// The largest latency below which the share above is surely more than the percentile's.
    pub(crate) fn lower_end(&self, pct: &Percentile, error: &ErrorShare) -> Option<u64> {
        let tail = chance_above(pct);
        let missed = |above, effect: &DesignEffect| self.share(above, effect).is_above(tail, error);
        let first = self.levels.iter().position(|l| !missed(l.above, &l.effect))?;
        if first == 0 || self.longer.is_some() {
            return None;
        }
        let cell = self.cell(first - 1);
        if self.hides(&cell, pct) {
            return Some(cell.from_ns);
        }
        let few = |less| missed(cell.most - less, &cell.effect);
        let fewest = cell.most - last_true(0, cell.most - cell.fewest - 1, few);
        self.dist.value_at_rank(self.dist.count() - fewest + 1)
    }

    /// What `above` I/Os of all say about the share above, with this design effect.
    pub(crate) fn share(&self, above: u64, effect: &DesignEffect) -> DependentShare {
        DependentShare::of(self.dist.count() as f64, above as f64, *effect)
    }

    /// The latencies between the level and the next.
    fn cell(&self, level: usize) -> LatencyCell {
        let (from, to) = (self.levels[level], self.levels[level + 1]);
        let effect = from.effect.or_more(to.effect);
        LatencyCell {
            from_ns: from.edge_ns,
            to_ns: to.edge_ns - 1,
            most: from.above,
            fewest: to.above,
            effect,
        }
    }

    /// The cell that holds the value of a rank.
    fn cell_of_rank(&self, rank: u64) -> LatencyCell {
        let above = self.dist.count() - rank.min(self.dist.count());
        let at = self.levels.partition_point(|l| l.above > above);
        self.cell(at.saturating_sub(1))
    }

    /// What is known at a latency: the design effect between the edges around it.
    pub(crate) fn effect_at(&self, ns: u64) -> DesignEffect {
        let above = self.dist.count_above(ns);
        let at = self.levels.partition_point(|l| l.above > above);
        match self.levels.get(at) {
            Some(level) if level.above == above => level.effect,
            _ => self.cell(at.saturating_sub(1)).effect,
        }
    }

    pub(crate) fn longer(&self) -> Option<f64> {
        self.longer
    }

    /// Whether the percentile lies so deep in a cell of the grid that the dependence at its edges says
    /// nothing of it: the interval then ends at an edge.
    fn hides(&self, cell: &LatencyCell, pct: &Percentile) -> bool {
        let n = self.dist.count() as f64;
        let tail = n * pct.tail_share();
        let off = (cell.most as f64 - tail).abs().min((cell.fewest as f64 - tail).abs());
        let within = cell.most as f64 > tail && tail > cell.fewest as f64;
        let in_cells = !self.dependence.levels().is_empty();
        let deep = in_cells && within && off > 0.5 * tail.min(n - tail);
        // What all share is known whatever the dependence.
        deep && self.dist.value_at_rank(self.dist.count() - cell.most + 1)
            != self.dist.value_at_rank(self.dist.count() - cell.fewest)
    }
}

/// I/Os above a latency among all, which depend on each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DependentShare {
    n: f64,
    above: f64,
    effect: DesignEffect,
}

impl DependentShare {
    /// `above` of `n` I/Os with this design effect.
    pub fn of(n: f64, above: f64, effect: DesignEffect) -> DependentShare {
        DependentShare { n, above, effect }
    }

    /// I/Os in all.
    pub fn count(&self) -> u64 {
        self.n as u64
    }

    /// As many independent I/Os, and how many of them lie above, for the upper or lower end.
    fn independent(&self, is_upper_end: bool, error: &ErrorShare) -> (f64, f64) {
        // The end that lies away from zero for the rarer side.
        let away = (2.0 * self.above <= self.n) == is_upper_end;
        let divisor = if away { self.effect.far(error) } else { self.effect.near(error) };
        (self.n / divisor, self.above / divisor)
    }

    /// Whether so few above would be rare if the share were `chance`.
    pub fn is_below(&self, chance: Chance, error: &ErrorShare) -> bool {
        let (n, above) = self.independent(true, error);
        let off = n * chance.yes - above;
        // Chernoff's bound spares the exact tail of what is far off.
        let clear = off > 0.0 && off * off > -2.0 * n * chance.yes * error.share.ln();
        off > 0.0
            && n > above
            && (clear || upper_tail(n, n - above, chance.flipped()) <= error.share)
    }

    /// Whether so many above would be rare if the share were `chance`.
    pub fn is_above(&self, chance: Chance, error: &ErrorShare) -> bool {
        let (n, above) = self.independent(false, error);
        let off = above - n * chance.yes;
        let clear = off > 0.0 && off * off > -2.0 * (n * chance.yes + off / 3.0) * error.share.ln();
        off > 0.0 && (clear || upper_tail(n, above, chance) <= error.share)
    }

    /// The same share among so many times as many I/Os.
    pub fn of_longer(&self, times: f64) -> DependentShare {
        DependentShare { n: self.n * times, above: self.above * times, ..*self }
    }

    /// The same number above among so many times as many I/Os.
    pub fn of_more(&self, times: f64) -> DependentShare {
        DependentShare { n: self.n * times, ..*self }
    }
}

/// The largest of `from..=to` for which a condition holds that holds up to some value; `from` where it
/// never does.
fn last_true(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    first_true(from, to.max(from) + 1, |value| !holds(value)) - 1
}

/// The first of `no..=yes` for which a condition holds that does at `yes` and not at `no`.
pub(crate) fn first_true(mut no: u64, mut yes: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// The percentile as the chance that one I/O is above it.
pub(crate) fn chance_above(pct: &Percentile) -> Chance {
    chance_below(pct).flipped()
}

/// Whether the sparse side of a percentile is the one above it.
fn is_upper(pct: &Percentile) -> bool {
    pct.tail_share() <= 0.5
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

    /// Slow I/Os in clumps of fifty weigh as a fiftieth of their number or so; in an order that tells nothing, as all.
    #[test]
    fn dependence_takes_from_the_count() {
        let p: Percentile = "99".parse().expect("valid");
        let of = |is_slow: fn(u64) -> bool| {
            let mut grid = TimeGrid::new(TimeWindow::new(0, 100_000));
            let ns = |i: u64| if is_slow(i) { 5_000 + i * 77 % 1_000 } else { 500 + i * 77 % 101 };
            (0..100_000).for_each(|i| grid.push(i as i64, ns(i)));
            let dist: Dist = (0..100_000).map(ns).collect();
            Intervals::new(&dist, &Dependence::new(grid)).estimate(&p)
        };
        fn is_drawn(i: u64) -> bool {
            let mixed = (i ^ i >> 7).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33 < (1 << 31) / 50
        }
        let (lone, clumps) = (of(is_drawn), of(|i| is_drawn(i / 50)));
        assert_eq!(lone.effective, 100_000, "{lone:?}");
        assert!((1_000..5_000).contains(&clumps.effective), "{clumps:?}");
        assert!(clumps.lo < lone.lo && clumps.hi > lone.hi, "{clumps:?} {lone:?}");
    }

    /// Student's t of 8 degrees from tables, at the error asked for. It was that of 2.5 % whatever was asked.
    #[test]
    fn a_smaller_error_widens_by_more() {
        let half = Chance { yes: 0.5, no: 0.5 };
        for (error, t) in [(0.05, 1.8595), (0.025, 2.3060), (0.01, 2.8965), (0.005, 3.3554)] {
            let (error, effect) = (ErrorShare::of(error), DesignEffect::known_from(8, 100.0));
            let share = |off: f64| DependentShare::of(4e8, 2e8 + off * 1e5, effect);
            // 4 million independent ones: 1,000 of them, 1e5 of all, are one deviation.
            assert!(
                share(-1.01 * t).is_below(half, &error) && share(1.01 * t).is_above(half, &error)
            );
            assert!(!share(-0.99 * t).is_below(half, &error), "{t}");
            assert!(!share(0.99 * t).is_above(half, &error), "{t}");
        }
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
        for seed in 0..40 {
            let (dist, dependence) = drifting(seed, 30);
            let intervals = Intervals::new(&dist, &dependence);
            let all = list.map(|p| intervals.estimate(&p));
            for (it, p) in all.iter().zip(&list) {
                assert!(it.value.is_none() || it.lo <= it.value, "{seed} {it:?}");
                assert!(it.hi.is_none() || it.value.is_none() || it.hi >= it.value, "{it:?}");
                assert!(it.bound.is_some() || it.hi.is_none() || !is_upper(p), "{it:?}");
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
                    let kept = check.status == CeilingStatus::Pass || check.ends_missing;
                    assert_eq!(kept, pass, "{check:?} {it:?}");
                    assert_eq!(check.status == CeilingStatus::Fail, fail, "{check:?} {it:?}");
                    assert!(!pass || check.share_hi <= allowed, "{check:?}");
                    assert!(!fail || check.share_lo >= allowed, "{check:?}");
                    assert!(check.share_lo <= check.share_hi, "{check:?}");
                }
                for two in checks.windows(2) {
                    let kept =
                        |c: &crate::CeilingCheck| c.status == CeilingStatus::Pass || c.ends_missing;
                    assert!(kept(&two[0]) || !kept(&two[1]), "{seed} {two:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_invented() {
        let none = of_count(0, &Percentile::MEDIAN);
        assert_eq!((none.value, none.resolved, none.needs), (None, false, Some(5)));
        let max = of_count(1_000, &Percentile::MAX);
        assert_eq!((max.value, max.resolved, max.needs), (None, false, None));
    }

    proptest::proptest! {
        /// Independent I/Os have the ranks of the order statistics.
        #[test]
        fn without_dependence_the_ends_are_the_exact_ranks(n in 1u64..20_000, units in 1u64..100_000) {
            let p: Percentile = format!("{}.{:03}", units / 1000, units % 1000).parse().expect("valid");
            let (it, ci) = (of_count(n, &p), crate::quantile_ci(n, &p));
            proptest::prop_assert_eq!((it.lo, it.hi), (ci.lo_rank, ci.hi_rank));
            let (lo, hi) = (ci.lo_rank.unwrap_or(1), ci.hi_rank.unwrap_or(n));
            proptest::prop_assert!(it.bound.is_none_or(|one| (lo..=hi).contains(&one)));
            proptest::prop_assert!(!it.resolved || it.bound.is_some());
        }
    }
}
