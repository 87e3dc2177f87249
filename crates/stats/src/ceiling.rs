//! Whether response times keep under a ceiling: the test behind `qos.ceilings`, "at most 1 - p of all
//! I/Os take longer than the ceiling".
//!
//! The share of slower I/Os is a binomial proportion among as many independent I/Os as the
//! measured ones are worth at that latency, with an exact 95 % interval (Clopper and Pearson, Biometrika 26,
//! 1934). The answer is that of the percentile's interval: pass where the interval ends at or under the
//! ceiling, fail where it begins above it, else undecided; so verdict and interval cannot contradict each
//! other. A pass becomes undecided where the last sixth of the run misses the ceiling by itself. A run too short
//! for an interval fails if more I/Os were slower than any dependence explains: by Markov's inequality a true
//! share s lets a run have a share f of slower ones with a probability of s / f at most.

use crate::binomial::Chance;
use crate::confidence::TWO_SIDED;
use crate::dependence::{Dependence, DesignEffect, ErrorShare};
use crate::estimate::{DependentShare, Intervals, chance_above, first_true};
use crate::grid::cell_of;
use taillight_core::Percentile;

/// The answer of a ceiling check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeilingStatus {
    /// The share of slower I/Os is at most the allowed share with confidence.
    Pass,
    /// The share of slower I/Os is above the allowed share with confidence.
    Fail,
    /// The I/Os measured do not decide it.
    Undecided,
}

/// A ceiling check with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CeilingCheck {
    /// The ceiling in nanoseconds; an I/O of exactly this time keeps under it.
    pub ceiling_ns: u64,
    /// The share of I/Os that must keep under it.
    pub at: Percentile,
    pub status: CeilingStatus,
    /// I/Os above the ceiling.
    pub above: u64,
    /// Lower end of the interval of the share above, 0 to 1: of 95 %, unless another error was asked for.
    pub share_lo: f64,
    /// Upper end of that interval.
    pub share_hi: f64,
    /// When undecided: I/Os in total that would pass if not one more exceeded the ceiling, so a
    /// lower limit for what is needed. None when decided, with `ends_missing`, when no count suffices (100 %, or
    /// more than 2^49 times as many), and where the share would decide, but percentile and ceiling lie in one cell
    /// of the grid.
    pub needs: Option<u64>,
    /// When undecided: I/Os in total that would decide it if the share above stayed what it is. None as
    /// `needs`, and when the share is so close to the allowed one that a thousand times as many would not.
    pub decides_at: Option<u64>,
    /// The whole run keeps the ceiling and its last sixth would miss it by itself: what the run was is
    /// not what it has become, and the answer is undecided.
    pub ends_missing: bool,
}

/// A decision that takes more than so many times the I/Os measured is not told (`decides_at`).
const MOST_TIMES: f64 = 1_000.0;

impl Intervals<'_> {
    /// Checks that at least `at` of all I/Os take no longer than `ceiling_ns`.
    #[must_use]
    pub fn check_ceiling(&self, ceiling_ns: u64, at: &Percentile) -> CeilingCheck {
        self.check_ceiling_at(ceiling_ns, at, TWO_SIDED)
    }

    /// The same where either answer may err in a share `alpha` of cases: less than 2.5 % where one of
    /// several checks, or of several looks at a run that goes on, may err.
    #[must_use]
    pub fn check_ceiling_at(&self, ceiling_ns: u64, at: &Percentile, alpha: f64) -> CeilingCheck {
        let error = &ErrorShare::of(alpha);
        let (lo, hi) = (self.lower_end(at, error), self.upper_end(at, error));
        let (all, above) = (self.dist.count(), self.dist.count_above(ceiling_ns));
        let tail = chance_above(at);
        // By Markov's inequality, whatever the dependence.
        let surely = match self.longer() {
            Some(_) => alpha * above as f64 / all.max(1) as f64,
            None => 0.0,
        };
        let status = match (lo, hi) {
            (_, Some(hi)) if hi <= ceiling_ns => CeilingStatus::Pass,
            (Some(lo), _) if lo > ceiling_ns => CeilingStatus::Fail,
            _ if surely > tail.yes => CeilingStatus::Fail,
            _ => CeilingStatus::Undecided,
        };
        let ends_missing = status == CeilingStatus::Pass && self.ends_missing(ceiling_ns, tail);
        let share = self.share(above, &self.effect_at(ceiling_ns));
        let (mut share_lo, mut share_hi) = match self.longer() {
            Some(_) => (surely, 1.0),
            None => share.interval(error),
        };
        // The interval ends at an edge of the grid where it cannot be told from there.
        match status {
            CeilingStatus::Pass => share_hi = share_hi.min(tail.yes),
            CeilingStatus::Fail => share_lo = share_lo.max(tail.yes),
            CeilingStatus::Undecided => {
                (share_lo, share_hi) = (share_lo.min(tail.yes), share_hi.max(tail.yes));
            }
        }
        let hidden = self.longer().is_none() && share.decides(tail, error);
        let open = status == CeilingStatus::Undecided && !hidden;
        let status = if ends_missing { CeilingStatus::Undecided } else { status };
        let least = (all as f64 * self.longer().unwrap_or(0.0)).ceil() as u64;
        let needs = open.then(|| self.needed_to_pass(&share, at, error)).flatten();
        let decides_at = open.then(|| share.decides_at(tail, error)).flatten();
        let [needs, decides_at] = [needs, decides_at].map(|ios| ios.map(|n| n.max(least)));
        CeilingCheck {
            ceiling_ns,
            at: *at,
            status,
            above,
            share_lo,
            share_hi,
            needs,
            decides_at,
            ends_missing,
        }
    }

    /// Whether the share above is surely too large in the last sixth of the run by itself. The grid's cells
    /// have to do: an I/O within 0.8 % of the ceiling counts as under it.
    fn ends_missing(&self, ceiling_ns: u64, tail: Chance) -> bool {
        let end = self.dependence.grid().last_sixth(self.load_ns);
        let sum = |cell| end.columns_from(cell).iter().sum::<f64>();
        let (ios, above) = (sum(0), sum(cell_of(ceiling_ns) + 1));
        let dependence = Dependence::new(end);
        let effect = dependence.levels().iter().find(|level| level.edge_ns > ceiling_ns);
        let known = effect.filter(|_| dependence.longer().is_none());
        known.is_some_and(|level| {
            DependentShare::of(ios, above, level.effect).is_above(tail, ErrorShare::two_sided())
        })
    }

    /// The smallest total that passes with no more exceedances.
    fn needed_to_pass(
        &self,
        share: &DependentShare,
        at: &Percentile,
        error: &ErrorShare,
    ) -> Option<u64> {
        let tail = chance_above(at);
        if tail.yes <= 0.0 {
            return None;
        }
        // At least one more than there are, and one where there is none.
        let all = self.dist.count();
        let passes = |n: u64| match all {
            0 => DependentShare::of(n as f64, 0.0, DesignEffect::NONE).is_below(tail, error),
            all => share.of_more(n as f64 / all as f64).is_below(tail, error),
        };
        let least = all.max(1);
        let enough = (1..).map(|power| least.checked_mul(1 << power)).take(50);
        let enough = enough.map_while(|n| n).find(|n| passes(*n))?;
        Some(first_true(all, enough, passes))
    }
}

impl DependentShare {
    /// The exact interval that misses in such a share of cases on either side.
    fn interval(&self, error: &ErrorShare) -> (f64, f64) {
        let lo = solve_share(|chance| !self.is_above(chance, error));
        let hi = solve_share(|chance| self.is_below(chance, error));
        (lo, hi)
    }

    /// Whether the share is surely not `tail`.
    fn decides(&self, tail: Chance, error: &ErrorShare) -> bool {
        self.is_below(tail, error) || self.is_above(tail, error)
    }

    /// I/Os that would decide whether the share is above or below `tail` if it stayed what it is.
    fn decides_at(&self, tail: Chance, error: &ErrorShare) -> Option<u64> {
        let decides = |times: f64| self.of_longer(times).decides(tail, error);
        let all = self.count();
        let times = |n: u64| n as f64 / all.max(1) as f64;
        let most = (all as f64 * MOST_TIMES) as u64;
        (all > 0 && decides(MOST_TIMES)).then(|| first_true(all, most, |n| decides(times(n))))
    }
}

/// The share of requests of `fanout` I/Os that hold at least one of a kind, when the share of such
/// I/Os is `share` and they fall independently of each other.
#[must_use]
pub fn request_share(share: f64, fanout: u32) -> f64 {
    // 1 - (1 - share)^fanout, also for tiny shares.
    -(f64::from(fanout) * (-share.clamp(0.0, 1.0)).ln_1p()).exp_m1()
}

/// The smallest share at which a condition holds that holds from some share on, to 15 digits; 0 where it holds at
/// shares of 1e-26, 1 where it holds at none.
fn solve_share(holds: impl Fn(Chance) -> bool) -> f64 {
    // Bisection on a logit-like scale, so that tiny shares get as many digits as large ones.
    let share = |t: f64| {
        let yes = 1.0 / (1.0 + (-t).exp());
        Chance { yes, no: 1.0 / (1.0 + t.exp()) }
    };
    let (mut lo, mut hi) = (-60.0f64, 60.0f64);
    if holds(share(lo)) {
        return 0.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (lo + hi);
        if holds(share(middle)) {
            hi = middle;
        } else {
            lo = middle;
        }
    }
    if hi == 60.0 { 1.0 } else { share(hi).yes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confidence::quantile_ci;
    use crate::{Dependence, Dist, TimeGrid, TimeWindow};
    use proptest::prelude::*;

    fn pct(text: &str) -> Percentile {
        text.parse().expect("valid percentile")
    }

    /// `n` I/Os of 100 ns of which `above` took 1000 ns.
    fn run(n: u64, above: u64) -> Dist {
        Dist::from_sorted_pairs([(100, n - above), (1000, above)]).expect("sorted")
    }

    fn check_ceiling(dist: &Dist, ceiling_ns: u64, at: &Percentile) -> CeilingCheck {
        Intervals::new(dist, &Dependence::default()).check_ceiling(ceiling_ns, at)
    }

    #[test]
    fn no_exceedance_passes_from_the_two_sided_threshold() {
        let check = |n| check_ceiling(&run(n, 0), 100, &pct("99"));
        assert_eq!(check(367).status, CeilingStatus::Undecided);
        assert_eq!(check(367).needs, Some(368));
        assert_eq!(check(368).status, CeilingStatus::Pass);
        assert_eq!((check(368).above, check(368).needs), (0, None));
    }

    #[test]
    fn exceedances_decide_or_stay_undecided() {
        let check = |n, above| check_ceiling(&run(n, above), 999, &pct("99.9"));
        // One expected in 1000: one seen says nothing, many say fail, few in many say pass.
        assert_eq!(check(1_000, 1).status, CeilingStatus::Undecided);
        assert_eq!(check(1_000, 4).status, CeilingStatus::Fail);
        assert_eq!(check(1_000, 3).status, CeilingStatus::Undecided);
        assert_eq!(check(100_000, 81).status, CeilingStatus::Undecided);
        assert_eq!(check(100_000, 80).status, CeilingStatus::Pass);
        assert_eq!(check(100_000, 121).status, CeilingStatus::Fail);
        assert_eq!(check(100_000, 120).status, CeilingStatus::Undecided);
    }

    #[test]
    fn empty_and_extreme_inputs() {
        let none = check_ceiling(&Dist::default(), 1, &pct("99"));
        assert_eq!((none.status, none.needs), (CeilingStatus::Undecided, Some(368)));
        assert_eq!((none.share_lo, none.share_hi), (0.0, 1.0));
        let all = check_ceiling(&run(1_000, 0), 100, &Percentile::MAX);
        assert_eq!((all.status, all.needs), (CeilingStatus::Undecided, None));
        let one = check_ceiling(&run(1_000, 1), 100, &Percentile::MAX);
        assert_eq!(one.status, CeilingStatus::Fail);
        let only_slow = check_ceiling(&run(50, 50), 100, &Percentile::MEDIAN);
        assert_eq!(only_slow.status, CeilingStatus::Fail);
    }

    /// Three slices of time do not tell how I/Os depend on each other, yet a share that is so large is
    /// hardly one in a hundred in the long run.
    #[test]
    fn what_no_dependence_explains_fails() {
        let mut grid = TimeGrid::new(TimeWindow::new(0, 3));
        let values = (0..1000u64).map(|i| if i < 400 { 100 } else { 100_000 });
        values.clone().zip(0i64..).for_each(|(ns, i)| grid.push(i / 334, ns));
        let (dist, dependence) = (values.collect::<Dist>(), Dependence::new(grid));
        let check = |at| Intervals::new(&dist, &dependence).check_ceiling(50_000, &pct(at));
        assert_eq!((check("99").status, check("99").share_lo), (CeilingStatus::Fail, 0.015));
        assert_eq!(check("98").status, CeilingStatus::Undecided);
        assert!(check("98").needs >= Some(1_334));
    }

    /// 0.5 % in all where 1 % is allowed, but 1.6 % in the last sixth.
    #[test]
    fn a_run_that_ends_badly_is_not_kept() {
        let of = |last_of_10_000: u64| {
            let mut grid = TimeGrid::new(TimeWindow::new(0, 60_000));
            let ns = |i: u64| {
                let mixed = (i ^ i >> 7).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let drawn = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) >> 33;
                let slow = if i < 50_000 { 30 } else { last_of_10_000 };
                if drawn % 10_000 < slow { 1_000_000 } else { 1_000 }
            };
            (0..60_000).for_each(|i| grid.push(i as i64, ns(i)));
            let (dist, dependence) = ((0..60_000).map(ns).collect::<Dist>(), Dependence::new(grid));
            let check = Intervals::new(&dist, &dependence).check_ceiling(10_000, &pct("99"));
            assert!(check.share_hi < 0.01, "{check:?}");
            (check.status, check.ends_missing)
        };
        assert_eq!(of(30), (CeilingStatus::Pass, false));
        assert_eq!(of(160), (CeilingStatus::Undecided, true));
    }

    /// With a third of what is allowed over the ceiling, the same share decides soon.
    #[test]
    fn what_decides_it_is_told() {
        let check = |n: u64| check_ceiling(&run(n, n / 300), 500, &pct("99"));
        let short = check(600);
        let (least, at) = (short.needs.expect("undecided"), short.decides_at.expect("decides"));
        assert!(short.status == CeilingStatus::Undecided && least > 600 && least < at, "{short:?}");
        let share = |n: u64| DependentShare::of(n as f64, n as f64 / 300.0, DesignEffect::NONE);
        assert!(share(at).is_below(chance_above(&pct("99")), ErrorShare::two_sided()));
        assert!(!share(at - 1).is_below(chance_above(&pct("99")), ErrorShare::two_sided()));
        // At the limit itself no length decides.
        assert_eq!(check_ceiling(&run(1_000, 10), 500, &pct("99")).decides_at, None);
    }

    /// Where ceiling and percentile lie in one cell of the grid, no number of I/Os tells them apart (a thousand and one
    /// were said to). Three slices are too few whatever the share is, and a longer run has more.
    #[test]
    fn what_no_number_decides_needs_none_and_few_slices_need_more() {
        let check = |values: [u64; 2], columns: i64| {
            let mut grid = TimeGrid::new(TimeWindow::new(0, columns));
            let all = (0..1_000i64).map(|i| (i % columns, values[usize::from(i % 10 == 1)]));
            all.clone().for_each(|(at, ns)| grid.push(at, ns));
            let (dist, dependence) = (all.map(|(_, ns)| ns).collect(), Dependence::new(grid));
            Intervals::new(&dist, &dependence).check_ceiling(1_000_010, &Percentile::MEDIAN)
        };
        let hidden = check([1_000_010, 1_000_020], 100);
        assert_eq!(hidden.status, CeilingStatus::Undecided);
        assert_eq!((hidden.needs, hidden.decides_at), (None, None));
        let short = check([1_000_010, 9_000_000], 3);
        assert_eq!(short.status, CeilingStatus::Undecided);
        assert_eq!((short.needs, short.decides_at), (Some(1_334), Some(1_334)));
    }

    /// One I/O that was answered 20 s after the load had ended was the whole last sixth.
    #[test]
    fn a_late_drain_hides_no_end_that_misses() {
        let mut grid = TimeGrid::new(TimeWindow::new(0, 80_000));
        let is_slow = |i: i64| i % 50 == 0 || i >= 50_000 && i % 5 < 2;
        let all = (0..60_000i64).map(|i| (i, if is_slow(i) { 900 } else { 100 }));
        let all = all.chain([(79_999, 20_000)]);
        all.clone().for_each(|(at, ns)| grid.push(at, ns));
        let (dist, dependence) = (all.map(|(_, ns)| ns).collect(), Dependence::new(grid));
        let check = |load_ns| {
            let intervals = Intervals::new(&dist, &dependence).of_load(load_ns);
            intervals.check_ceiling(500, &pct("70"))
        };
        assert!(check(60_000).ends_missing && check(60_000).status == CeilingStatus::Undecided);
        assert_eq!(check(80_000).status, CeilingStatus::Pass, "nobody knows better");
    }

    #[test]
    fn share_interval_matches_published_values() {
        // 10 of 100: Clopper-Pearson 4.9005 % to 17.6223 %. 0 of 10: 0 to 30.8497 %.
        let share_interval = |n, above| {
            DependentShare::of(n, above, DesignEffect::NONE).interval(ErrorShare::two_sided())
        };
        let (lo, hi) = share_interval(100.0, 10.0);
        assert!((lo - 0.049_004_69).abs() < 1e-7 && (hi - 0.176_222_6).abs() < 1e-7, "{lo} {hi}");
        let (lo, hi) = share_interval(10.0, 0.0);
        assert!(lo == 0.0 && (hi - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-12, "{hi}");
        let (lo, hi) = share_interval(10.0, 10.0);
        assert!(hi == 1.0 && (lo - 0.025f64.powf(0.1)).abs() < 1e-12, "{lo}");
    }

    /// Ten I/Os, half of them over the ceiling, and the ends of the scale.
    #[test]
    fn a_request_fails_with_any_of_its_ios() {
        let share = request_share(0.5, 10);
        assert!((share - (1.0 - 0.5f64.powi(10))).abs() < 1e-15, "{share}");
        assert_eq!((request_share(0.0, 10), request_share(1.0, 10)), (0.0, 1.0));
        assert!((request_share(0.25, 1) - 0.25).abs() < 1e-15);
        // Where 1 - share rounds to 1, the request's share is still ten times as large.
        assert!((request_share(1e-18, 10) / 1e-17 - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn verdict_agrees_with_both_intervals(
            n in 1u64..3_000_000, k in 1u8..6, tenth in 0u64..40,
        ) {
            let p = Percentile::nines(k).expect("valid");
            let above = ((n as f64 * p.tail_share() * tenth as f64 / 10.0) as u64).min(n);
            let check = check_ceiling(&run(n, above), 500, &p);
            let allowed = p.tail_share();
            let hi = quantile_ci(n, &p).hi_rank.map(|r| if r <= n - above { 100 } else { 1000 });
            let lo = quantile_ci(n, &p).lo_rank.map(|r| if r <= n - above { 100 } else { 1000 });
            match check.status {
                CeilingStatus::Pass => {
                    prop_assert!(check.share_hi <= allowed * (1.0 + 1e-9));
                    prop_assert_eq!(hi, Some(100));
                }
                CeilingStatus::Fail => {
                    prop_assert!(check.share_lo >= allowed * (1.0 - 1e-9));
                    prop_assert_eq!(lo, Some(1000));
                }
                CeilingStatus::Undecided => {
                    prop_assert!(check.share_lo <= allowed * (1.0 + 1e-9));
                    prop_assert!(check.share_hi >= allowed * (1.0 - 1e-9));
                    prop_assert!(hi != Some(100) && lo != Some(1000));
                    prop_assert!(check.needs.is_some_and(|needs| needs > n));
                }
            }
        }
    }
}
