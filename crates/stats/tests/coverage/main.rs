//! Error rates of the statistics, on simulated runs. Here: how often intervals hold the truth and ceilings are
//! judged right, on I/Os that depend on each other, in the cells that go wrong first; `cargo xtask proof intervals`
//! makes the whole table (`proof`). Comparisons of runs are in `differences`, of pairs in `looks`.

mod differences;
mod looks;
mod models;
mod others;
mod proof;

use models::RunModel;
use taillight_core::Percentile;
use taillight_stats::{CeilingStatus, Dependence, Dist, Intervals, TimeGrid, TimeWindow};

const PERCENTILES: [&str; 4] = ["50", "90", "99", "99.9"];

/// Counts of the runs of one cell, by what was said of them.
#[derive(Default, Clone, Copy)]
struct CoverageCell {
    runs: f64,
    /// No interval was given.
    none: f64,
    /// Of those given, the interval holds the truth.
    covered: f64,
    /// The ceiling at the truth is said to be kept, or broken.
    passed: f64,
    failed: f64,
    /// The ceiling at 1.2 times the truth is said to be kept.
    decided: f64,
}

impl CoverageCell {
    fn add(&mut self, intervals: &Intervals<'_>, pct: &Percentile, truth: u64) {
        let it = intervals.estimate(pct);
        self.runs += 1.0;
        match (it.lo, it.hi) {
            (Some(lo), Some(hi)) if lo <= truth && truth <= hi => self.covered += 1.0,
            (Some(_), Some(_)) => {}
            _ => self.none += 1.0,
        }
        match intervals.check_ceiling(truth, pct).status {
            CeilingStatus::Pass => self.passed += 1.0,
            CeilingStatus::Fail => self.failed += 1.0,
            CeilingStatus::Undecided => {}
        }
        let above = intervals.check_ceiling(truth * 6 / 5, pct);
        self.decided += f64::from(above.status == CeilingStatus::Pass);
    }

    fn share(&self, count: f64) -> f64 {
        100.0 * count / self.runs
    }

    fn coverage(&self) -> f64 {
        100.0 * self.covered / (self.runs - self.none).max(1.0)
    }
}

/// True percentiles, ns: of queues with exponential servers from their law, else of so many runs of
/// 400 s that their own error does not count.
fn truth(model: RunModel, runs: u64) -> [u64; 4] {
    let pct = PERCENTILES.map(|p| p.parse::<Percentile>().expect("a percentile"));
    if let RunModel::Exponential(servers, load) = model {
        return pct.map(|p| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let middle = (low + high) / 2.0;
                let services = middle / (1e-3 * servers as f64);
                let above = slower(servers as f64, load, services) > p.tail_share();
                if above { low = middle } else { high = middle }
            }
            (high * 1e9) as u64
        });
    }
    let long: Dist = (0..runs)
        .flat_map(|i| model.run(1 << 40 | i, 400.0))
        .map(|(_, latency)| (latency * 1e9) as u64)
        .collect();
    pct.map(|p| long.percentile(&p).expect("I/Os"))
}

/// Share of I/Os that take longer than `t` mean service times in a queue with `c` exponential servers at
/// this load each: M/M/c, with Erlang's C for the share that waits.
fn slower(c: f64, load: f64, t: f64) -> f64 {
    let offered = c * load;
    let blocked = (1..=c as u32).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    let spare = c - 1.0 - offered;
    (-t).exp() * (1.0 + waits * (1.0 - (-t * spare).exp()) / spare)
}

/// Runs of `seconds` of a window that may be longer: nothing happens in the rest.
fn cells(
    model: RunModel,
    (seconds, window): (f64, f64),
    runs: u64,
    truth: [u64; 4],
) -> [CoverageCell; 4] {
    let mut cells = [CoverageCell::default(); 4];
    for seed in 0..runs {
        let run = model.run(seed * 7_919 + 13, seconds);
        let ns = |s: f64| (s * 1e9) as i64;
        let mut grid = TimeGrid::new(TimeWindow::new(0, ns(window)));
        run.iter().for_each(|(at, latency)| grid.push(ns(*at), ns(*latency) as u64));
        let dist: Dist = run.iter().map(|io| ns(io.1) as u64).collect();
        let dependence = Dependence::new(grid);
        let intervals = Intervals::new(&dist, &dependence);
        for ((cell, pct), truth) in cells.iter_mut().zip(PERCENTILES).zip(truth) {
            cell.add(&intervals, &pct.parse().expect("a percentile"), truth);
        }
    }
    cells
}

/// 2.5 % and three standard deviations of a share of so many runs.
fn allowed(runs: f64) -> f64 {
    100.0 * (0.025 + 3.0 * (0.025f64 * 0.975 / runs).sqrt())
}

#[test]
fn queues_bursts_and_independent_ios_are_covered() {
    const RUNS: u64 = 300;
    let models = [
        ("independent", RunModel::Independent, (20.0, 20.0)),
        ("queue at 50 %", RunModel::Exponential(1, 0.5), (30.0, 30.0)),
        ("queue at 80 %", RunModel::Exponential(1, 0.8), (60.0, 60.0)),
        ("queue that ends early", RunModel::Exponential(1, 0.8), (60.0, 400.0)),
        ("on and off", RunModel::OnOff(0.5), (60.0, 60.0)),
        ("drift", RunModel::Drift(0.8), (120.0, 120.0)),
    ];
    for (name, model, lengths) in models {
        let truth = truth(model, 40);
        for (cell, pct) in cells(model, lengths, RUNS, truth).iter().zip(PERCENTILES) {
            let (pass, fail) = (cell.share(cell.passed), cell.share(cell.failed));
            let what = format!("{name} p{pct}: pass {pass:.1} %, fail {fail:.1} %");
            assert!(pass <= allowed(cell.runs) && fail <= allowed(cell.runs), "{what}");
            let given = cell.runs - cell.none;
            // 93 % and three standard deviations.
            let least = 93.0 - 3.0 * 100.0 * (0.05 * 0.95 / given.max(1.0)).sqrt();
            let covered = cell.coverage();
            // An interval that is never given is never wrong.
            let often = pct == "50" || name == "independent" && pct != "99.9";
            assert!(!often || given > 0.8 * cell.runs, "{what}, {given} given");
            assert!(given < 30.0 || covered >= least, "{what}, {covered:.1} % of {given} covered");
        }
    }
}

/// Intervals that take I/Os for independent fail this: the test above can fail.
#[test]
fn independent_ranks_do_not_cover_a_queue() {
    let model = RunModel::Exponential(1, 0.8);
    let (pct, truth) = (PERCENTILES[2].parse().expect("a percentile"), truth(model, 40)[2]);
    let covered = (0..100).filter(|seed| {
        let ios = model.run(*seed, 60.0);
        let dist: Dist = ios.iter().map(|io| (io.1 * 1e9) as u64).collect();
        let ci = taillight_stats::quantile_ci(dist.count(), &pct);
        let [lo, hi] =
            [ci.lo_rank, ci.hi_rank].map(|rank| rank.and_then(|k| dist.value_at_rank(k)));
        lo.is_some_and(|lo| lo <= truth) && hi.is_some_and(|hi| hi >= truth)
    });
    assert!(covered.count() < 50);
}
