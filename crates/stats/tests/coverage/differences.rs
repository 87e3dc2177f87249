//! How often differences are claimed that are none, and how often those that are there are found. The
//! tests check a part; the tables of `docs/compare.md` are made by
//! `cargo test --release -p taillight-stats --test coverage differences -- --ignored --nocapture`.

use crate::models::{Random, RunModel};
use taillight_core::Percentile;
use taillight_stats::compare::{
    Bounded, ChangeRule, DifferenceVerdict, LogDifference, changes, mean_of_steps, suspect,
};
use taillight_stats::dependence::FEWEST_TERMS;
use taillight_stats::{Dependence, Dist, Intervals, TimeGrid, TimeWindow};

const PERCENTILES: [&str; 3] = ["50", "99", "99.9"];
/// Margins of the percentiles.
const MARGINS: [f64; 3] = [0.05, 0.10, 0.20];

fn percentile(i: usize) -> Percentile {
    PERCENTILES[i].parse().expect("a percentile")
}

/// How often a verdict came, in per cent of cases.
#[derive(Default, Clone, Copy)]
struct Verdicts {
    cases: f64,
    worse: f64,
    better: f64,
    equal: f64,
}

impl Verdicts {
    fn add(&mut self, found: Option<DifferenceVerdict>) {
        self.cases += 1.0;
        match found {
            Some(DifferenceVerdict::Worse) => self.worse += 1.0,
            Some(DifferenceVerdict::Better) => self.better += 1.0,
            Some(DifferenceVerdict::Equal) => self.equal += 1.0,
            Some(DifferenceVerdict::Undecided) | None => {}
        }
    }
    fn alarms(&self) -> f64 {
        100.0 * (self.worse + self.better) / self.cases
    }
    fn found(&self) -> f64 {
        100.0 * self.worse / self.cases
    }
    fn equal(&self) -> f64 {
        100.0 * self.equal / self.cases
    }
    /// Per cent of cases that a share of so many per cent may come to by chance.
    fn most(&self, share: f64) -> f64 {
        share + 3.0 * (share * (100.0 - share) / self.cases).sqrt()
    }
}

/// The percentiles of a run as intervals, where there are any.
fn bounded(model: RunModel, seed: u64, seconds: f64, times: f64) -> [Option<Bounded>; 3] {
    let run = model.run(seed, seconds);
    let ns = |s: f64| (s * 1e9) as i64;
    let mut grid = TimeGrid::new(TimeWindow::new(0, ns(seconds)));
    run.iter().for_each(|(at, latency)| grid.push(ns(*at), ns(latency * times) as u64));
    let dist: Dist = run.iter().map(|io| ns(io.1 * times) as u64).collect();
    let dependence = Dependence::new(grid);
    let intervals = Intervals::new(&dist, &dependence);
    [0, 1, 2].map(|i| {
        let it = intervals.estimate(&percentile(i));
        let [value, lo, hi] = [it.value?, it.lo?, it.hi?].map(|ns| ns as f64);
        Some(Bounded { value, lo, hi, freedom: FEWEST_TERMS })
    })
}

/// Verdicts over single runs of which one takes `times` as long: by percentile.
fn single(model: RunModel, seconds: f64, cases: u64, times: f64) -> [Verdicts; 3] {
    let mut all = [Verdicts::default(); 3];
    for case in 0..cases {
        let base = bounded(model, 2 * case, seconds, 1.0);
        let new = bounded(model, 2 * case + 1, seconds, times);
        for (i, verdicts) in all.iter_mut().enumerate() {
            let found = base[i].zip(new[i]).and_then(|(a, b)| LogDifference::of_two_runs(a, b));
            verdicts.add(found.map(|d| d.verdict(0.05, MARGINS[i], true)));
        }
    }
    all
}

/// Closed loops whose rates are compared.
const CLOSED: [(&str, RunModel); 6] = [
    ("independent", RunModel::Independent),
    ("drift by second, 0.8, and stalls", RunModel::Nightly(0.0)),
    ("latencies of M/M/1, 50 %", RunModel::Exponential(1, 0.5)),
    ("latencies of M/M/1, 80 %", RunModel::Exponential(1, 0.8)),
    ("latencies of an on-off load, 0.5 s", RunModel::OnOff(0.5)),
    ("stalls, every 1 s", RunModel::Stalls(1.0)),
];

/// The rate of one worker whose I/Os take as long as those of the model, `times` as long, from the I/Os of each
/// second.
fn rate(model: RunModel, seed: u64, seconds: usize, times: f64) -> Option<Bounded> {
    let mut steps = vec![0.0; seconds];
    let mut at = 0.0;
    for (_, latency) in model.run(seed, 2.5 * seconds as f64) {
        at += latency * times;
        let Some(step) = steps.get_mut(at as usize) else { break };
        *step += 1.0;
    }
    assert!(at >= seconds as f64, "the model has I/Os for {at} s");
    mean_of_steps(&steps)
}

/// Verdicts over the rates of single runs of which one takes `times` as long.
fn single_rates(model: RunModel, seconds: usize, cases: u64, times: f64) -> Verdicts {
    let mut all = Verdicts::default();
    for case in 0..cases {
        let base = rate(model, 2 * case, seconds, 1.0);
        let new = rate(model, 2 * case + 1, seconds, times);
        let found = base.zip(new).and_then(|(a, b)| LogDifference::of_two_runs(a, b));
        all.add(found.map(|d| d.verdict(0.05, 0.05, false)));
    }
    all
}

/// The percentiles of each of so many runs of 60 s, ns, whose level varies by 2 % from run to run.
fn pool(runs: u64) -> Vec<[f64; 3]> {
    let run = |seed| {
        let run = RunModel::Nightly(0.02).run(1 << 32 | seed, 60.0);
        let dist: Dist = run.iter().map(|io| (io.1 * 1e9) as u64).collect();
        [0, 1, 2].map(|i| dist.percentile(&percentile(i)).expect("I/Os") as f64)
    };
    (0..runs).map(run).collect()
}

/// Verdicts over so many runs a side.
fn repeats(pool: &[[f64; 3]], runs: usize, times: f64) -> [Verdicts; 3] {
    [0, 1, 2].map(|i| {
        let mut verdicts = Verdicts::default();
        for case in pool.chunks_exact(2 * runs) {
            let base: Vec<f64> = case[..runs].iter().map(|run| run[i]).collect();
            let new: Vec<f64> = case[runs..].iter().map(|run| run[i] * times).collect();
            let found = LogDifference::of_runs(&base, &new).expect("positive");
            verdicts.add(Some(found.verdict(0.05, 0.05, true)));
        }
        verdicts
    })
}

/// Over eight pairs of runs the interval of the median's ratio is in the mean between 0.95 and 1.6 times as wide (on
/// a log scale) as that of a circular block bootstrap of the same runs: a short run hardly shows independence.
#[test]
fn the_interval_is_about_as_wide_as_that_of_a_block_bootstrap() {
    const SECONDS: usize = 20;
    const DRAWS: usize = 1_000;
    let (mut ours, mut theirs) = (0.0, 0.0);
    let r = &mut Random::new(9);
    for case in 0..8 {
        let runs = [2 * case, 2 * case + 1].map(|seed| {
            let run = RunModel::Independent.run(seed, SECONDS as f64);
            run.iter().map(|io| (io.1 * 1e9) as u64).collect::<Vec<u64>>()
        });
        let [base, new] = [2 * case, 2 * case + 1].map(|seed| {
            bounded(RunModel::Independent, seed, SECONDS as f64, 1.0)[0].expect("an interval")
        });
        let (lo, hi) = LogDifference::of_two_runs(base, new).expect("ordered").interval(0.05);
        ours += hi.ln() - lo.ln();
        // Blocks of a hundredth of the run, begun anywhere, around the end if need be.
        let mut median = |run: &[u64]| {
            let block = run.len() / 100;
            let drawn = (0..100).flat_map(|_| {
                let from = (r.uniform() * run.len() as f64) as usize;
                (from..from + block).map(move |i| run[i % run.len()])
            });
            let mut drawn: Vec<u64> = drawn.collect();
            let middle = drawn.len() / 2;
            *drawn.select_nth_unstable(middle).1 as f64
        };
        let mut ratios: Vec<f64> =
            (0..DRAWS).map(|_| (median(&runs[1]) / median(&runs[0])).ln()).collect();
        ratios.sort_by(f64::total_cmp);
        theirs += ratios[DRAWS * 975 / 1000] - ratios[DRAWS * 25 / 1000];
    }
    assert!((0.95..1.6).contains(&(ours / theirs)), "{ours} against {theirs}");
}

/// A night's noise.
#[derive(Clone, Copy, Debug)]
enum Noise {
    Independent,
    /// Neighbours correlate by 0.5.
    Correlated,
    /// One night in twenty takes 20 % longer.
    Outliers,
}

/// 100 nights that vary by 3 %, from `at` on `times` as high.
fn nights(noise: Noise, seed: u64, (at, times): (usize, f64)) -> Vec<f64> {
    let r = &mut Random::new(seed);
    let mut level = r.normal();
    (0..100)
        .map(|night| {
            level = match noise {
                Noise::Correlated => 0.5 * level + 0.75f64.sqrt() * r.normal(),
                _ => r.normal(),
            };
            let outlier = matches!(noise, Noise::Outliers) && r.uniform() < 0.05;
            let shift = if night >= at { times } else { 1.0 };
            (0.03 * level).exp() * shift * if outlier { 1.2 } else { 1.0 }
        })
        .collect()
}

/// Per cent of unchanged series with a change; and of those with a step of `times`, which came `since` nights
/// before the end, where it is found within two nights of its place.
fn history(noise: Noise, cases: u64, p: f64, times: f64, since: usize) -> (f64, f64) {
    let rule = ChangeRule { p, ..ChangeRule::over(1) };
    let (mut wrong, mut found) = (0.0, 0.0);
    for case in 0..cases {
        let still = changes(&nights(noise, 2 * case, (100, 1.0)), &rule).expect("positive");
        wrong += f64::from(u8::from(!still.is_empty()));
        let at = 100 - since;
        let stepped = changes(&nights(noise, 2 * case + 1, (at, times)), &rule).expect("positive");
        found += f64::from(u8::from(stepped.iter().any(|c| c.at.abs_diff(at) <= 2)));
    }
    (100.0 * wrong / cases as f64, 100.0 * found / cases as f64)
}

#[test]
fn two_runs_alike_rarely_differ_and_a_step_is_seen() {
    const CASES: u64 = 100;
    let alike = single(RunModel::Nightly(0.0), 60.0, CASES, 1.0);
    // 11 % at the median: 60 s are short for a level that drifts.
    for (verdicts, share) in alike.iter().zip([11.0, 5.0, 5.0]) {
        assert!(verdicts.alarms() <= verdicts.most(share), "{:.1} %", verdicts.alarms());
    }
    let slower = single(RunModel::Nightly(0.0), 60.0, CASES, 1.2);
    // A quarter of them say that 60 s are too short for the median of such a drift.
    assert!(slower[0].found() > 55.0, "20 % slower: {:.1} %", slower[0].found());
}

/// Of ten intervals of a second a third of such runs had no answer: their neighbours were alike by chance.
#[test]
fn rates_of_two_short_runs_are_decided() {
    const CASES: u64 = 200;
    for (name, model) in CLOSED {
        let alike = single_rates(model, 10, CASES, 1.0);
        // What a level that drifts within 10 s costs is in `docs/compare.md`.
        let share = if name.starts_with("drift") { 10.0 } else { 5.5 };
        assert!(alike.alarms() <= alike.most(share), "{name}: {:.1} %", alike.alarms());
        let slower = single_rates(model, 10, CASES, 1.5);
        let wanders = name.contains("80 %") || name.contains("on-off");
        assert!(slower.found() >= 95.0 || wanders, "{name}: {:.1} % found", slower.found());
    }
}

/// Intervals of single runs say nothing of how runs vary: the test of repeats can fail.
#[test]
fn single_runs_cry_wolf_where_runs_vary() {
    let alike = single(RunModel::Nightly(0.05), 60.0, 60, 1.0);
    assert!(alike[0].alarms() > 30.0, "{:.1} %", alike[0].alarms());
}

#[test]
fn repeats_keep_their_error_rate_and_find_a_step() {
    let pool = pool(600);
    for runs in [3, 6] {
        let alike = repeats(&pool, runs, 1.0);
        for verdicts in alike {
            assert!(verdicts.alarms() <= verdicts.most(5.0), "{runs}: {:.1}", verdicts.alarms());
        }
        // Equal is claimed wrongly in at most 5 % of cases.
        let apart = repeats(&pool, runs, 1.05);
        assert!(apart[0].equal() <= apart[0].most(5.0), "{runs}: {:.1}", apart[0].equal());
        let (found, least) = (apart[0].found(), if runs == 6 { 85.0 } else { 35.0 });
        assert!(found > least, "{runs} runs: {found:.1} %");
    }
    assert!(repeats(&pool, 6, 1.0)[0].equal() > 80.0, "alike runs are shown to be equal");
}

#[test]
fn a_history_is_quiet_and_sees_a_step() {
    const CASES: u64 = 150;
    for (noise, wrong, found) in [
        (Noise::Independent, 3.0, 65.0),
        (Noise::Correlated, 9.0, 25.0),
        (Noise::Outliers, 3.0, 50.0),
    ] {
        let seen = history(noise, CASES, 0.001, 1.05, 20);
        let most = wrong + 3.0 * (wrong * (100.0 - wrong) / CASES as f64).sqrt();
        assert!(seen.0 <= most, "{noise:?}: {:.1} % of unchanged series", seen.0);
        assert!(seen.1 >= found, "{noise:?}: {:.1} % of steps", seen.1);
    }
    let outside = (0..1_000).filter(|case| {
        let nights = nights(Noise::Independent, *case, (100, 1.0));
        suspect(&nights[..99], nights[99]).is_some_and(|s| s.is_outside)
    });
    let outside = outside.count();
    assert!((1..=20).contains(&outside), "{outside} in 1,000 for a band of 99 %");
}

#[test]
#[ignore = "tables for the documentation, minutes of computing"]
fn tables() {
    println!(
        "| single runs | alike: p50, p99, p99.9 | 5 % slower: p50, p99, p99.9 |\n|---|---|---|"
    );
    let row = |v: [Verdicts; 3], of: fn(&Verdicts) -> f64| {
        v.map(|v| format!("{:.1}", of(&v))).join(" / ")
    };
    for (seconds, varies) in [(60.0, 0.0), (300.0, 0.0), (60.0, 0.02)] {
        let model = RunModel::Nightly(varies);
        let alike = row(single(model, seconds, 300, 1.0), Verdicts::alarms);
        let slower = row(single(model, seconds, 300, 1.05), Verdicts::found);
        println!("| {seconds} s, runs vary by {} % | {alike} | {slower} |", 100.0 * varies);
    }
    println!(
        "| runs a side | alike | 5 % slower found | 10 % | alike shown equal within 5 % | 5 % slower called equal |"
    );
    println!("|---|---|---|---|---|---|");
    let pool = pool(6_000);
    for runs in [3, 5, 6, 8, 10] {
        let of = |times, of| row(repeats(&pool, runs, times), of);
        println!(
            "| {runs} | {} | {} | {} | {} | {} |",
            of(1.0, Verdicts::alarms),
            of(1.05, Verdicts::found),
            of(1.1, Verdicts::found),
            of(1.0, Verdicts::equal),
            of(1.05, Verdicts::equal)
        );
    }
    println!(
        "| history | p | false | 5 % found after 5, 10, 20 nights | 10 % after 5, 10 |\n|---|---|---|---|---|"
    );
    for noise in [Noise::Independent, Noise::Correlated, Noise::Outliers] {
        for p in [0.01, 0.001] {
            let of = |times, since| history(noise, 300, p, times, since);
            println!(
                "| {noise:?} | {p} | {:.1} % | {:.0} / {:.0} / {:.0} | {:.0} / {:.0} |",
                of(1.05, 5).0,
                of(1.05, 5).1,
                of(1.05, 10).1,
                of(1.05, 20).1,
                of(1.1, 5).1,
                of(1.1, 10).1
            );
        }
    }
}

#[test]
#[ignore = "a table for the documentation, minutes of computing"]
fn rate_table() {
    println!("| rates of single closed loops | length | alike | 5 % slower | 1.5 times as slow |");
    println!("|---|---|---|---|---|");
    for (name, model) in CLOSED {
        for seconds in [10, 60] {
            let of = |times| single_rates(model, seconds, 300, times);
            let [alike, slower, half] = [of(1.0).alarms(), of(1.05).found(), of(1.5).found()];
            println!("| {name} | {seconds} s | {alike:.1} | {slower:.1} | {half:.1} |");
        }
    }
}
