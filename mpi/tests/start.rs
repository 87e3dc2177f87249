//! Ranks begin at one stamp. How far apart they do is a proof, since it takes an idle machine: `cargo xtask proof start`
//! makes the table of `docs/hosts.md` from it. Hosts are namespaces with clocks of their own.

mod common;

use common::{Failed, hosts_by, json, said};

const RUNS: usize = 40;
/// What a wake-up may add to the bound of the clocks, us.
const MORE_US: f64 = 100.0;
/// Of the runs, so many are within both: a foreign process may delay one.
const MOST_OF_THEM: usize = RUNS * 9 / 10;

const JOB: &str = "[run]\noperations = 2000\n[target]\ndriver = \"null\"\n[[workload]]\nmix = \"read\"\n\
                   block_size = \"4KiB\"\n";

fn us(value: &serde_json::Value) -> Result<f64, Failed> {
    Ok(value.as_f64().ok_or_else(|| format!("no number: {value}"))? / 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Spread and bound of a run by two ranks, us. Each has a CPU, as hosts do: left to the scheduler, both workers wake on one
/// CPU in a fifth of the runs, and the second begins when the first is done.
fn once(dir: &std::path::Path) -> Result<(f64, f64), Failed> {
    let words = ["run", "job.toml", "--output", "RUN"];
    let all = [("h0", None), ("h1", Some(3_600))];
    let cpus: [&[&str]; 2] = [&["taskset", "-c", "0"], &["taskset", "-c", "1"]];
    let (code, text) = said(&hosts_by(dir, &all, &cpus, &words).output()?);
    if code != Some(0) {
        return Err(text.into());
    }
    let summary = json(&dir.join("RUN/summary.json"))?;
    let figures =
        (us(&summary["hosts"]["start_spread_ns"])?, us(&summary["hosts"]["clock_bound_ns"])?);
    std::fs::remove_dir_all(dir.join("RUN"))?;
    Ok(figures)
}

#[test]
#[ignore = "a proof: cargo xtask proof start"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").expect("PROOF_RESULTS");
    let tmp = tempfile::tempdir().expect("a directory");
    std::fs::write(tmp.path().join("job.toml"), JOB).expect("written");
    let all: Vec<(f64, f64)> = (0..RUNS).map(|_| once(tmp.path()).expect("a run")).collect();
    let (spreads, bounds): (Vec<f64>, Vec<f64>) = all.iter().copied().unzip();
    let within = all.iter().filter(|(spread, bound)| *spread < bound + MORE_US).count();
    let line = serde_json::json!({
        "ranks": 2, "runs": RUNS, "within": within,
        "median_us": median(spreads.clone()), "most_us": spreads.into_iter().fold(0.0, f64::max),
        "bound_us": median(bounds),
        "build": if cfg!(debug_assertions) { "unoptimised" } else { "release" },
    });
    println!("{line}");
    std::fs::write(path, format!("{line}\n")).expect("results");
    assert!(within >= MOST_OF_THEM, "{within} of {RUNS}: {all:?}");
}
