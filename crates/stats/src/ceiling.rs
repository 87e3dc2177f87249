//! Whether response times keep under a ceiling, with statistical honesty.
//!
//! What it is: the test behind `qos.ceiling`: "at most 1 - p of all I/Os take longer than the
//! ceiling". The share of slower I/Os is a binomial proportion among as many independent I/Os as the
//! measured ones are worth, with an exact 95 % interval (Clopper and Pearson, Biometrika 26, 1934).
//! What it is not: a comparison of two runs. Called by the report.
//!
//! The answer is that of the percentile's interval: pass where it ends at or under the ceiling, fail
//! where it begins above it, else undecided; so verdict and interval cannot contradict each other. Where the
//! run is too short for an interval, it fails if so many were slower as no dependence explains: by Markov's
//! inequality a share of s lets a run have f slower ones with a probability of s / f at most.

use crate::binomial::{Chance, upper_tail};
use crate::confidence::chance_below;
use crate::estimate::{Intervals, unseen};
use taillight_core::Percentile;

/// Probability left outside on each side of the 95 % interval.
const ALPHA: f64 = 0.025;

/// The answer of a ceiling check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeilingStatus {
    /// The share of slower I/Os is below the allowed share with confidence.
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
    /// Lower end of the 95 % interval of the share above, 0 to 1.
    pub share_lo: f64,
    /// Upper end of the 95 % interval of the share above, 0 to 1.
    pub share_hi: f64,
    /// When undecided: I/Os in total that would pass if not one more exceeded the ceiling, so a
    /// lower limit for what is needed. None when decided, or when no count suffices (100 %).
    pub needs: Option<u64>,
}

impl Intervals<'_> {
    /// Checks that at least `at` of all I/Os take no longer than `ceiling_ns`.
    #[must_use]
    pub fn check_ceiling(&self, ceiling_ns: u64, at: &Percentile) -> CeilingCheck {
        let (it, effect) = (self.estimate(at), self.effect(at));
        let (all, above) = (self.dist.count(), self.dist.count_above(ceiling_ns));
        let share = above as f64 / all.max(1) as f64;
        let surely = if it.lo.is_none() { ALPHA * share } else { 0.0 };
        let status = match (it.lo, it.hi) {
            (_, Some(hi)) if hi <= ceiling_ns => CeilingStatus::Pass,
            (Some(lo), _) if lo > ceiling_ns => CeilingStatus::Fail,
            _ if surely > at.tail_share() => CeilingStatus::Fail,
            _ => CeilingStatus::Undecided,
        };
        let n = effect.independent(all);
        // As many of the independent I/Os, rounded against either answer.
        let scaled = u128::from(above) * u128::from(n);
        let whole = u128::from(all).max(1);
        let (at_least, at_most) = ((scaled / whole) as u64, scaled.div_ceil(whole) as u64);
        let needs = (status == CeilingStatus::Undecided)
            .then(|| needed_to_pass(n, at_most, chance_below(at)))
            .flatten()
            .map(|n| effect.needed(n, all));
        let unseen = unseen(self.dist, &effect);
        let within = unseen.is_some_and(|(from, to)| (from..to).contains(&ceiling_ns));
        // Where the run is too short to tell, the I/Os around the percentile say nothing of the share.
        let (mut share_lo, mut share_hi) = match effect.longer.is_some() || within {
            true => (0.0, 1.0),
            false => (share_interval(n, at_least).0, share_interval(n, at_most).1),
        };
        share_lo = share_lo.max(surely);
        for known in self.ladder.iter().chain([&it]) {
            if known.hi.is_some_and(|hi| hi <= ceiling_ns) {
                share_hi = share_hi.min(known.pct.tail_share());
            }
            if known.lo.is_some_and(|lo| lo > ceiling_ns) {
                share_lo = share_lo.max(known.pct.tail_share());
            }
        }
        CeilingCheck { ceiling_ns, at: *at, status, above, share_lo, share_hi, needs }
    }
}

/// The exact 95 % interval of a proportion of which `hits` in `n` trials were seen.
///
/// (0, 1) when nothing was tried.
#[must_use]
pub fn share_interval(n: u64, hits: u64) -> (f64, f64) {
    let hits = hits.min(n);
    let lo = if hits == 0 {
        0.0
    } else {
        // The share at which seeing so many or more is just unlikely enough.
        solve_share(|c| upper_tail(n, hits, c) > ALPHA)
    };
    let hi = if hits == n {
        1.0
    } else {
        // Seeing so few or fewer: at least n - hits misses.
        solve_share(|c| upper_tail(n, n - hits, c.flipped()) <= ALPHA)
    };
    (lo, hi)
}

/// The share of requests of `fanout` I/Os that hold at least one of a kind, when the share of such
/// I/Os is `share` and they fall independently of each other.
#[must_use]
pub fn request_share(share: f64, fanout: u32) -> f64 {
    // 1 - (1 - share)^fanout, also for tiny shares.
    -(f64::from(fanout) * (-share.clamp(0.0, 1.0)).ln_1p()).exp_m1()
}

/// The smallest share at which a monotone condition holds, to 15 digits.
fn solve_share(holds: impl Fn(Chance) -> bool) -> f64 {
    // Bisection on a logit-like scale, so that tiny shares get as many digits as large ones.
    let share = |t: f64| {
        let yes = 1.0 / (1.0 + (-t).exp());
        Chance { yes, no: 1.0 / (1.0 + t.exp()) }
    };
    let (mut lo, mut hi) = (-60.0f64, 60.0f64);
    for _ in 0..60 {
        let middle = 0.5 * (lo + hi);
        if holds(share(middle)) {
            hi = middle;
        } else {
            lo = middle;
        }
    }
    share(hi).yes
}

/// Whether `above` or fewer exceedances in `n` would be rare if the share were the allowed one.
fn passes(n: u64, above: u64, below: Chance) -> bool {
    n > above && upper_tail(n, n - above, below) <= ALPHA
}

/// The smallest total that passes with `above` exceedances.
fn needed_to_pass(n: u64, above: u64, below: Chance) -> Option<u64> {
    if below.no <= 0.0 {
        return None;
    }
    let mut short = n.max(above);
    let mut step = 1u64;
    let mut enough = loop {
        let probe = short.checked_add(step)?;
        if passes(probe, above, below) {
            break probe;
        }
        short = probe;
        step = step.checked_mul(2)?;
    };
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if passes(middle, above, below) {
            enough = middle;
        } else {
            short = middle;
        }
    }
    Some(enough)
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
    fn exceedances_fail_or_stay_undecided() {
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

    /// One step from fast to slow in the whole run: how I/Os depend on each other is not known, yet a
    /// share that is so large is hardly one in a hundred in the long run.
    #[test]
    fn what_no_dependence_explains_fails() {
        let mut grid = TimeGrid::new(TimeWindow::new(0, 1_000_000));
        let values = (0..1000u64).map(|i| if i < 400 { 100 } else { 100_000 });
        values.clone().zip(0i64..).for_each(|(ns, i)| grid.push(i * 1000, ns));
        let (dist, dependence) = (values.collect::<Dist>(), Dependence::new(grid));
        let check = |at| Intervals::new(&dist, &dependence).check_ceiling(50_000, &pct(at));
        assert_eq!((check("99").status, check("99").share_lo), (CeilingStatus::Fail, 0.015));
        assert_eq!(check("98").status, CeilingStatus::Undecided);
    }

    #[test]
    fn share_interval_matches_published_values() {
        // 10 of 100: Clopper-Pearson 4.9005 % to 17.6223 %. 0 of 10: 0 to 30.8497 %.
        let (lo, hi) = share_interval(100, 10);
        assert!((lo - 0.049_004_69).abs() < 1e-7 && (hi - 0.176_222_6).abs() < 1e-7, "{lo} {hi}");
        let (lo, hi) = share_interval(10, 0);
        assert!(lo == 0.0 && (hi - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-12, "{hi}");
        let (lo, hi) = share_interval(10, 10);
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
