//! `cargo xtask proof intervals`: how often ceilings are wrongly kept or missed, and rightly decided, by load, length
//! and percentile, as lines of JSON in the file `PROOF_RESULTS`; `intervals-real` does so for recorded runs.
//!
//! Each line also has what two other methods would say: an oracle that knows the variance of the share over runs
//! of the same kind, and the plain mean of 8 cosine terms.

use std::sync::atomic::{AtomicUsize, Ordering};

use statrs::distribution::{Beta, ContinuousCDF, StudentsT};
use taillight_core::Percentile;
use taillight_stats::{
    CeilingStatus, Dependence, Dist, Intervals, TimeGrid, TimeWindow, group_episodes,
};

use crate::models::{Run, RunModel};
use crate::others::OtherModel;

const PERCENTILES: [&str; 4] = ["50", "90", "99", "99.9"];
/// The ceiling where the share above is what is allowed, a third of it, and three times it.
const TIMES: [f64; 3] = [1.0, 1.0 / 3.0, 3.0];
/// Errors on a side where two looks, or four, share that of one.
const SHARED: [f64; 2] = [0.0125, 0.00625];
/// Families computed at the same time.
const AT_ONCE: usize = 2;

struct ModelFamily {
    name: &'static str,
    model: &'static str,
    run: Box<dyn Fn(u64, f64) -> Run + Sync>,
}

fn families() -> Vec<ModelFamily> {
    let set = |model, it: RunModel| ModelFamily {
        name: "set on",
        model,
        run: Box::new(move |seed, seconds| it.run(seed, seconds)),
    };
    let other = |model, it: OtherModel| ModelFamily {
        name: "others",
        model,
        run: Box::new(move |seed, seconds| it.run(seed, seconds)),
    };
    vec![
        set("independent", RunModel::Independent),
        set("M/M/1, 30 %", RunModel::Exponential(1, 0.3)),
        set("M/M/1, 80 %", RunModel::Exponential(1, 0.8)),
        set("M/D/1, 80 %", RunModel::Constant(0.8)),
        set("M/M/4, 80 %", RunModel::Exponential(4, 0.8)),
        set("on and off, 0.5 s", RunModel::OnOff(0.5)),
        set("stalls, every 1 s", RunModel::Stalls(1.0)),
        set("clumps of 32, 7 s apart", RunModel::Clumps(7.0)),
        set("drift by second, 0.8", RunModel::Drift(0.8)),
        set("stalls with a heavy tail", RunModel::HeavyStalls),
        other("M/H2/1, 50 %", OtherModel::Hyperexponential(0.5)),
        other("M/G/1 lognormal, 60 %", OtherModel::Lognormal(0.6)),
        other("closed loop of 8", OtherModel::ClosedLoop(8)),
        other("collections, 2 s", OtherModel::Collections(2.0)),
        other("two levels, 0.5 s", OtherModel::TwoLevels(0.5)),
        other("clusters, 0.7 s", OtherModel::Clusters(0.7)),
    ]
}

/// What one run says of one ceiling.
struct Looked {
    ios: f64,
    above: f64,
    excursions: f64,
    interval: Option<(f64, f64)>,
    status: CeilingStatus,
    /// The same at the errors of [`SHARED`]; only at the truth.
    shared: [CeilingStatus; 2],
    plain: (f64, f64),
}

#[test]
#[ignore = "cargo xtask proof intervals: half an hour of computing"]
fn intervals() {
    let of = |name: &str, or: f64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let (scale, longest) = (of("PROOF_SCALE", 1.0), of("PROOF_SECONDS", 600.0));
    let only = std::env::var("PROOF_MODEL").unwrap_or_default();
    let families = families();
    let wanted: Vec<&ModelFamily> = families.iter().filter(|f| f.model.contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(family) = wanted.get(at)
        {
            done.push((at, lines(family, scale, longest)));
            println!("{}", family.model);
        }
        done
    };
    let mut all: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|w| w.join().expect("computed")).collect()
    });
    all.sort();
    write_results(all.into_iter().flat_map(|(_, lines)| lines).collect());
}

fn write_results(lines: Vec<String>) {
    let results = std::env::var("PROOF_RESULTS").expect("PROOF_RESULTS");
    std::fs::write(results, lines.join("\n") + "\n").expect("results are written");
}

/// Long runs of real disks, cut into shorter ones. A series is a file `NAME.f64` in the folder
/// PROOF_SERIES: submit and latency of each I/O in s, in submit order, as little-endian numbers.
/// What holds for the whole series counts as the truth for each of its parts.
#[test]
#[ignore = "cargo xtask proof intervals-real: needs long runs"]
fn real() {
    let folder = std::env::var("PROOF_SERIES").expect("PROOF_SERIES names a folder of series");
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("file").path());
    let mut files: Vec<std::path::PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "f64")).collect();
    files.sort();
    assert!(!files.is_empty(), "PROOF_SERIES has no *.f64");
    write_results(files.iter().flat_map(|file| series(file)).collect());
}

/// Every cell of a series.
fn series(file: &std::path::Path) -> Vec<String> {
    let bytes = std::fs::read(file).expect("a series");
    let number = |b: &[u8]| f64::from_le_bytes(b.try_into().expect("eight bytes"));
    let ios: Run = bytes.chunks_exact(16).map(|io| (number(&io[..8]), number(&io[8..]))).collect();
    let name = file.file_stem().expect("a name").to_string_lossy();
    let names = CellNames { family: "real", model: &name };
    let truth = TrueCeilings::of(&ios.iter().map(|io| (io.1 * 1e9) as u64).collect());
    let length = ios.last().map_or(0.0, |io| io.0);
    let part = |from: f64, to: f64| -> Run {
        let at = |s: f64| ios.partition_point(|io| io.0 < s);
        ios[at(from)..at(to)].iter().map(|io| (io.0 - from, io.1)).collect()
    };
    let cells = [10.0, 60.0].into_iter().flat_map(|seconds| {
        let parts = (0..(length / seconds) as u64).map(|i| i as f64 * seconds);
        cell(&names, &truth, seconds, parts.map(|from| part(from, from + seconds)))
    });
    cells.collect()
}

/// Every cell of a family.
fn lines(family: &ModelFamily, scale: f64, longest: f64) -> Vec<String> {
    let long = (0..40).flat_map(|i| (family.run)(1 << 40 | i, 600.0));
    let truth = TrueCeilings::of(&long.map(|io| (io.1 * 1e9) as u64).collect());
    let names = CellNames { family: family.name, model: family.model };
    let lengths = [(10.0, 1_000.0), (60.0, 400.0), (600.0, 60.0)];
    let lengths = lengths.into_iter().filter(|(seconds, _)| *seconds <= longest);
    let cells = lengths.flat_map(|(seconds, runs)| {
        let seeds = (0..(runs * scale) as u64).map(|seed| seed * 7_919 + 13);
        cell(&names, &truth, seconds, seeds.map(|seed| (family.run)(seed, seconds)))
    });
    cells.collect()
}

struct CellNames<'a> {
    family: &'a str,
    model: &'a str,
}

/// Ceilings in ns by percentile and by [`TIMES`].
struct TrueCeilings {
    ceilings: [[u64; 3]; 4],
}

impl TrueCeilings {
    fn of(long: &Dist) -> TrueCeilings {
        let at = |p: &str, times: f64| {
            let p: Percentile = p.parse().expect("a percentile");
            let above = (p.tail_share() * times).min(0.9) * long.count() as f64;
            long.value_at_rank(long.count() - above as u64).expect("I/Os")
        };
        TrueCeilings { ceilings: PERCENTILES.map(|p| TIMES.map(|times| at(p, times))) }
    }
}

fn cell(
    names: &CellNames<'_>,
    truth: &TrueCeilings,
    seconds: f64,
    runs: impl Iterator<Item = Run>,
) -> Vec<String> {
    let mut looked: Vec<Vec<Looked>> = (0..12).map(|_| Vec::new()).collect();
    let ns = |s: f64| (s * 1e9) as i64;
    for run in runs {
        let window = TimeWindow::new(0, ns(seconds));
        let mut grid = TimeGrid::new(window);
        run.iter().for_each(|(at, latency)| grid.push(ns(*at), ns(*latency) as u64));
        let dist: Dist = run.iter().map(|io| ns(io.1) as u64).collect();
        let dependence = Dependence::new(grid);
        let intervals = Intervals::new(&dist, &dependence);
        for (p, percentile) in PERCENTILES.iter().enumerate() {
            let pct: Percentile = percentile.parse().expect("a percentile");
            for t in 0..3 {
                let ceiling = (truth.ceilings[p][t], TIMES[t]);
                looked[3 * p + t].push(judge_window(&run, window, &intervals, ceiling, &pct));
            }
        }
    }
    let line = |p: usize| {
        let pct: Percentile = PERCENTILES[p].parse().expect("a percentile");
        let of = |t: usize| &looked[3 * p + t];
        describe(names, seconds, PERCENTILES[p], pct.tail_share(), [of(0), of(1), of(2)])
    };
    (0..4).map(line).collect()
}

fn judge_window(
    run: &Run,
    window: TimeWindow,
    intervals: &Intervals<'_>,
    (ceiling, times): (u64, f64),
    pct: &Percentile,
) -> Looked {
    let (mut hits, mut all, mut episodes) = ([0.0; 256], [0.0; 256], Vec::new());
    for (at, latency) in run {
        let (at, latency) = ((at * 1e9) as i64, (latency * 1e9) as u64);
        let column = window.column(at);
        all[column] += 1.0;
        if latency > ceiling {
            hits[column] += 1.0;
            episodes.push((at, at + latency as i64));
        }
    }
    let check = intervals.check_ceiling(ceiling, pct);
    let shared = match times {
        1.0 => SHARED.map(|alpha| intervals.check_ceiling_at(ceiling, pct, alpha).status),
        _ => [check.status; 2],
    };
    let it = intervals.estimate(pct);
    let excursions = group_episodes(&episodes, 1_000_000).list().len();
    Looked {
        ios: all.iter().sum(),
        above: hits.iter().sum(),
        excursions: excursions as f64,
        interval: it.lo.zip(it.hi).map(|_| (check.share_lo, check.share_hi)),
        status: check.status,
        shared,
        plain: plain(&hits, &all),
    }
}

/// Korn and Graubard's interval of the share by the mean of 8 cosine terms.
fn plain(hits: &[f64], all: &[f64]) -> (f64, f64) {
    let (above, n): (f64, f64) = (hits.iter().sum(), all.iter().sum());
    let share = above / n;
    let off: Vec<f64> =
        hits.iter().zip(all).filter(|(_, n)| **n > 0.0).map(|(h, n)| h - share * n).collect();
    let term = |j: usize| {
        let step = std::f64::consts::PI * j as f64 / off.len() as f64;
        let sum: f64 =
            off.iter().enumerate().map(|(i, v)| v * ((i as f64 + 0.5) * step).cos()).sum();
        2.0 * sum * sum
    };
    let variance = (1..=8).map(term).sum::<f64>() / 8.0;
    let effect = (variance / (n * share * (1.0 - share))).max(1.0);
    let effect = if effect.is_finite() { effect } else { 1.0 };
    let t = StudentsT::new(0.0, 1.0, 8.0).expect("valid").inverse_cdf(0.975) / 1.959_964;
    exact(above / (effect * t * t), n / (effect * t * t))
}

/// Clopper and Pearson's interval.
fn exact(above: f64, n: f64) -> (f64, f64) {
    let quantile = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |d| d.inverse_cdf(p));
    let lo = if above > 0.0 { quantile(above, n - above + 1.0, 0.025) } else { 0.0 };
    let hi = if n > above { quantile(above + 1.0, n - above, 0.975) } else { 1.0 };
    (lo, hi)
}

/// One line of JSON: shares of the runs in per cent.
fn describe(
    names: &CellNames<'_>,
    seconds: f64,
    percentile: &str,
    allowed: f64,
    [truth, third, thrice]: [&Vec<Looked>; 3],
) -> String {
    let runs = truth.len() as f64;
    let share = |of: &[Looked], is: &dyn Fn(&Looked) -> bool| {
        100.0 * of.iter().filter(|l| is(l)).count() as f64 / runs
    };
    let is = |status| move |l: &Looked| l.status == status;
    let mean = |of: &[Looked]| of.iter().map(|l| l.excursions).sum::<f64>() / runs;
    let holds = |l: &Looked| l.interval.is_some_and(|(lo, hi)| lo <= allowed && allowed <= hi);
    let given = share(truth, &|l| l.interval.is_some());
    let covered = share(truth, &|l| holds(l) && l.status == CeilingStatus::Undecided);
    // The oracle: the same interval with the design effect of all runs together.
    let oracle = |of: &[Looked], kept: bool| {
        let (above, ios): (f64, f64) =
            (of.iter().map(|l| l.above).sum(), of.iter().map(|l| l.ios).sum());
        let p = above / ios;
        let variance = of.iter().map(|l| (l.above - p * l.ios).powi(2)).sum::<f64>() / runs;
        let effect = (variance / (ios / runs * p * (1.0 - p))).max(1.0);
        share(of, &|l| {
            let (lo, hi) = exact(l.above / effect, l.ios / effect);
            if kept { hi < allowed } else { lo > allowed }
        })
    };
    let shared = |i: usize, status| share(truth, &|l| l.shared[i] == status);
    let figures = [
        ("runs", runs),
        ("excursions", mean(truth)),
        ("excursions_third", mean(third)),
        ("given", given),
        ("covered_of_given", 100.0 * covered / given.max(1e-9)),
        ("false_pass", share(truth, &is(CeilingStatus::Pass))),
        ("false_fail", share(truth, &is(CeilingStatus::Fail))),
        ("false_pass_125", shared(0, CeilingStatus::Pass)),
        ("false_fail_125", shared(0, CeilingStatus::Fail)),
        ("false_pass_0625", shared(1, CeilingStatus::Pass)),
        ("false_fail_0625", shared(1, CeilingStatus::Fail)),
        ("kept_third", share(third, &is(CeilingStatus::Pass))),
        ("missed_thrice", share(thrice, &is(CeilingStatus::Fail))),
        ("oracle_kept", oracle(third, true)),
        ("oracle_missed", oracle(thrice, false)),
        ("plain_false_pass", share(truth, &|l| l.plain.1 < allowed)),
        ("plain_false_fail", share(truth, &|l| l.plain.0 > allowed)),
        ("plain_kept", share(third, &|l| l.plain.1 < allowed)),
        ("plain_missed", share(thrice, &|l| l.plain.0 > allowed)),
    ];
    let figures: Vec<String> =
        figures.iter().map(|(name, value)| format!("\"{name}\":{value:.2}")).collect();
    format!(
        "{{\"family\":\"{}\",\"model\":\"{}\",\"seconds\":{seconds},\"percentile\":\"{percentile}\",{}}}",
        names.family,
        names.model,
        figures.join(",")
    )
}
