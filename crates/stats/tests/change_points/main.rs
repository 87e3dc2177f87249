//! How often a change is told of a run that has none, and how often one that is there is found. The tests check a
//! part; the table of `docs/measurement.md` is made by
//! `cargo test --release -p taillight-stats --test change_points -- --ignored --nocapture`.

mod loads;
#[path = "../coverage/models.rs"]
#[allow(dead_code)]
mod models;

use loads::SteadyLoad;
use models::RunModel;
use taillight_core::Percentile;
use taillight_stats::{ChangePoint, Dist, LevelFigure, RunLevels, TimeGrid, TimeWindow};

/// Loads that the method's constants were set on.
const SET_ON: [(&str, SteadyLoad); 6] = [
    ("independent", SteadyLoad::Known(RunModel::Independent)),
    ("M/M/1, 30 %", SteadyLoad::Known(RunModel::Exponential(1, 0.3))),
    ("M/M/1, 80 %", SteadyLoad::Known(RunModel::Exponential(1, 0.8))),
    ("stalls, every 1 s", SteadyLoad::Known(RunModel::Stalls(1.0))),
    ("on and off, 0.5 s", SteadyLoad::Known(RunModel::OnOff(0.5))),
    ("clumps of 32, one in 7 s", SteadyLoad::Clumps),
];
/// Other loads.
const OTHERS: [(&str, SteadyLoad); 7] = [
    ("hyperexponential server, 60 %", SteadyLoad::HyperExponential),
    ("M/M/4, 70 %", SteadyLoad::Known(RunModel::Exponential(4, 0.7))),
    ("collections with jitter", SteadyLoad::Collections),
    ("level of three, 0.2 s", SteadyLoad::Levels),
    ("clusters, two a second", SteadyLoad::Clusters),
    ("closed loop, two speeds, 0.3 s", SteadyLoad::Closed),
    ("closed loop, stalls", SteadyLoad::ClosedStalls),
];
/// Share of steady runs that may be told to have changed.
const ALPHA: f64 = 0.02;

/// What is told at a share of error.
fn found(load: SteadyLoad, run: &models::Run, seconds: f64, alpha: f64) -> Vec<ChangePoint> {
    let ns = |s: f64| (s * 1e9) as i64;
    let mut grid = TimeGrid::new(TimeWindow::new(0, ns(seconds)));
    run.iter().for_each(|(at, latency)| grid.push(ns(*at), ns(*latency) as u64));
    let dist: Dist = run.iter().map(|io| ns(io.1) as u64).collect();
    let deep: Percentile = "99".parse().expect("a percentile");
    let deep = dist.percentile(&deep).expect("I/Os");
    let mut figures = vec![LevelFigure::Median, LevelFigure::ShareOver(deep)];
    figures.extend(load.is_closed().then_some(LevelFigure::Rate));
    RunLevels::new(&grid, &dist, ns(seconds) as u64).changes(&figures, alpha)
}

/// The self-normalised statistic of Shao and Zhang (JASA 105, 2010) over the I/Os above a latency in 64 slices.
fn self_normalised(run: &models::Run, seconds: f64, level: f64) -> f64 {
    const M: usize = 64;
    let (mut over, mut all) = ([0.0f64; M], [0.0f64; M]);
    for (at, latency) in run {
        let slice = ((at / seconds * M as f64) as usize).min(M - 1);
        all[slice] += 1.0;
        over[slice] += f64::from(u8::from(*latency > level));
    }
    let share = over.iter().sum::<f64>() / all.iter().sum::<f64>();
    let mut sums = vec![0.0];
    for (over, all) in over.iter().zip(all) {
        sums.push(sums[sums.len() - 1] + over - share * all);
    }
    let squares = |from: usize, to: usize| -> f64 {
        let slope = (sums[to] - sums[from]) / (to - from) as f64;
        let rest = |t: usize| (sums[t] - sums[from] - slope * (t - from) as f64).powi(2);
        (from + 1..=to).map(rest).sum()
    };
    let statistic =
        |k: usize| M as f64 * sums[k].powi(2) / (squares(0, k) + squares(k, M)).max(1e-9);
    (4..=M - 4).map(statistic).fold(0.0, f64::max)
}

/// The larger of that at the median and at p99.
fn other(run: &models::Run, seconds: f64) -> f64 {
    let mut sorted: Vec<f64> = run.iter().map(|io| io.1).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted[(share * sorted.len() as f64) as usize];
    [0.5, 0.99].map(|p| self_normalised(run, seconds, at(p))).into_iter().fold(0.0, f64::max)
}

/// Per cent of so many runs with a change, and with one where the level doubles for the last sixth.
fn shares(load: SteadyLoad, seconds: f64, runs: u64) -> [f64; 2] {
    [seconds, seconds * 5.0 / 6.0].map(|from| {
        let told = |case: &u64| {
            let run = load.run(2 * case + u64::from(from < seconds), seconds, from);
            let found = found(load, &run, seconds, ALPHA);
            let near = |it: &ChangePoint| (it.column as f64 / 256.0 - 5.0 / 6.0).abs() < 1.0 / 16.0;
            if from < seconds { found.iter().any(near) } else { !found.is_empty() }
        };
        100.0 / runs as f64 * (0..runs).filter(told).count() as f64
    })
}

/// Per cent of such changes that are found at the limit that 2 % of steady runs exceed: by the method, and by the
/// self-normalised one.
fn at_the_same_error(load: SteadyLoad, seconds: f64, runs: u64) -> [f64; 2] {
    let mut all = [seconds, seconds * 5.0 / 6.0].map(|from| {
        let run = |case| load.run(2 * case + u64::from(from < seconds), seconds, from);
        let both = |case| {
            let run = run(case);
            // An error so large that every split is told.
            let strength = found(load, &run, seconds, 80.0).first().map_or(0.0, |c| c.strength);
            [strength, other(&run, seconds)]
        };
        (0..runs).map(both).collect::<Vec<_>>()
    });
    [0, 1].map(|method| {
        all[0].sort_by(|a, b| a[method].total_cmp(&b[method]));
        let limit = all[0][(0.98 * runs as f64) as usize][method];
        100.0 / runs as f64 * all[1].iter().filter(|it| it[method] > limit).count() as f64
    })
}

#[test]
fn steady_runs_rarely_change_and_a_doubled_last_sixth_is_found() {
    const RUNS: u64 = 100;
    for (name, load) in SET_ON.into_iter().chain(OTHERS) {
        let [wrong, right] = shares(load, 20.0, RUNS);
        let most = 100.0 * (ALPHA + 3.0 * (ALPHA * (1.0 - ALPHA) / RUNS as f64).sqrt());
        assert!(wrong <= most, "{name}: {wrong:.1} % of steady runs");
        let steady =
            !matches!(load, SteadyLoad::Closed | SteadyLoad::Levels | SteadyLoad::HyperExponential);
        let queues = name.contains("80 %") || name.contains("on and off");
        assert!(right >= 90.0 || !steady || queues, "{name}: {right:.1} % found");
    }
}

#[test]
#[ignore = "a table for the documentation, minutes of computing"]
fn table() {
    let of = |name: &str, or: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let (runs, from, to) = (of("RUNS", 1_000), of("FROM", 10) as f64, of("SECONDS", 600) as f64);
    println!("| load | length | steady, told | doubled, found | at 2 % | Shao and Zhang at 2 % |");
    println!("|---|---|---|---|---|---|");
    for (name, load) in SET_ON.into_iter().chain(OTHERS) {
        for seconds in [10.0, 60.0, 600.0].into_iter().filter(|s| (from..=to).contains(s)) {
            let [wrong, right] = shares(load, seconds, runs);
            let [own, other] = at_the_same_error(load, seconds, runs);
            println!(
                "| {name} | {seconds} s | {wrong:.1} % | {right:.1} % | {own:.1} % | {other:.1} % |"
            );
        }
    }
}
