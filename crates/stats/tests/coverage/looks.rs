//! How often pairs that are looked at while more are to come give a wrong answer, and how early they give
//! the right one. The table of `docs/compare.md` is made by
//! `cargo test --release -p taillight-stats --test coverage looks -- --ignored --nocapture`.

use crate::models::Random;
use taillight_stats::compare::{DifferenceVerdict, FEWEST_PAIRS, LogDifference, LookPlan};

/// How runs vary.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Runs vary by 2 %, each by itself.
    Alone,
    /// So do they, and both of a pair together by another 3 %.
    Shared,
    /// One run in twenty takes 20 % longer besides.
    Outliers,
}

const SPREADS: [Spread; 3] = [Spread::Alone, Spread::Shared, Spread::Outliers];
const MARGIN: f64 = 0.05;

/// Pairs planned, the margin, and the share of error of the look after so many pairs.
type Rule<'a> = (u32, f64, &'a dyn Fn(u32) -> f64);

/// What came of one series: the verdict and after how many pairs.
fn series(
    r: &mut Random,
    spread: Spread,
    times: f64,
    (planned, margin, alpha): Rule<'_>,
) -> (DifferenceVerdict, u32) {
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for pair in 1..=planned {
        let shared = if matches!(spread, Spread::Shared) { 0.03 * r.normal() } else { 0.0 };
        let mut run = |times: f64| {
            let slow = matches!(spread, Spread::Outliers) && r.uniform() < 0.05;
            times * (shared + 0.02 * r.normal()).exp() * if slow { 1.2 } else { 1.0 }
        };
        base.push(run(1.0));
        new.push(run(times));
        if pair < FEWEST_PAIRS {
            continue;
        }
        let found = LogDifference::of_pairs(&base, &new).expect("positive");
        let verdict = found.verdict(alpha(pair), margin, true);
        if verdict != DifferenceVerdict::Undecided || pair == planned {
            return (verdict, pair);
        }
    }
    (DifferenceVerdict::Undecided, planned)
}

/// Of so many series: per cent that are told to differ, per cent shown equal, pairs run in the mean.
struct LookShares {
    cases: f64,
    differ: f64,
    worse: f64,
    equal: f64,
    pairs: f64,
}

fn shares(cases: u32, spread: Spread, times: f64, planned: u32) -> LookShares {
    let looks = LookPlan::new(planned);
    shares_of(cases, spread, times, (planned, MARGIN, &|pair| looks.alpha_after(pair)))
}

fn shares_of(cases: u32, spread: Spread, times: f64, plan: Rule<'_>) -> LookShares {
    let r = &mut Random::new(7 + u64::from(plan.0));
    let mut of =
        LookShares { cases: cases.into(), differ: 0.0, worse: 0.0, equal: 0.0, pairs: 0.0 };
    let share = 100.0 / of.cases;
    for _ in 0..cases {
        let (verdict, pairs) = series(r, spread, times, plan);
        of.pairs += f64::from(pairs) / of.cases;
        match verdict {
            DifferenceVerdict::Worse => {
                (of.differ, of.worse) = (of.differ + share, of.worse + share)
            }
            DifferenceVerdict::Better => of.differ += share,
            DifferenceVerdict::Equal => of.equal += share,
            DifferenceVerdict::Undecided => {}
        }
    }
    of
}

/// 5 % and three standard deviations of a share of so many cases.
fn allowed(of: &LookShares) -> f64 {
    5.0 + 3.0 * (5.0 * 95.0 / of.cases).sqrt()
}

#[test]
fn looks_on_the_way_keep_the_error_rate() {
    for spread in SPREADS {
        for planned in [3, 6, 10, 20] {
            let alike = shares(4_000, spread, 1.0, planned);
            let what = format!("{spread:?}, {planned} pairs: {:.1} %", alike.differ);
            assert!(alike.differ <= allowed(&alike), "{what}");
            // As far apart as the margin, in the middle of the two.
            let apart = shares(4_000, spread, 1.0 + MARGIN, planned);
            assert!(apart.equal <= allowed(&apart), "equal: {what}, {:.1} %", apart.equal);
        }
    }
    let slower = shares(2_000, Spread::Alone, 1.10, 6);
    assert!(slower.worse > 95.0 && slower.pairs < 6.0, "{:.1} %", slower.worse);
}

/// Looks at 5 % each claim far more: the test above can fail.
#[test]
fn looks_at_the_nominal_level_cry_wolf() {
    let naive = shares_of(4_000, Spread::Alone, 1.0, (20, 0.001, &|_| 0.05));
    assert!(naive.differ > 1.5 * allowed(&naive), "{:.1} %", naive.differ);
}

#[test]
#[ignore = "a table for the documentation"]
fn looks_table() {
    println!(
        "| runs vary; pairs | alike | 5 % slower | 10 % slower | alike shown equal | 5 % called equal |"
    );
    println!("|---|---|---|---|---|---|");
    for spread in SPREADS {
        for planned in [6, 10, 20] {
            let of = |times| shares(100_000, spread, times, planned);
            let (alike, slow, slower) = (of(1.0), of(1.05), of(1.10));
            println!(
                "| {spread:?}; {planned} | {:.1} | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.1} ({:.1}) | {:.1} |",
                alike.differ,
                slow.worse,
                slow.pairs,
                slower.worse,
                slower.pairs,
                alike.equal,
                alike.pairs,
                slow.equal
            );
        }
    }
}
