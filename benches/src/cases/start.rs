//! What a user waits for and downloads: `--help`, the binary, the build.

use std::process::Command;

use anyhow::Result;

use crate::pairs::{Bound, BoundCheck, Comparison};
use crate::{BenchSetup, child, files, taillight};

/// Calls of `--help` in one round; the median counts.
const CALLS: usize = 20;

/// Time of `--help` and size of the binary.
pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Start-up and size");
    let binary = taillight::binary();
    let mut rounds = Vec::new();
    for _ in 0..setup.pairs {
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.push(child::run(Command::new(&binary).arg("--help"))?.wall_s * 1e3);
        }
        rounds.push(crate::pairs::median(&times));
    }
    report.checks.push(BoundCheck {
        what: format!("`taillight --help`, median of {CALLS}"),
        unit: "ms",
        values: rounds,
        bound: Bound::AtMost(20.0),
    });
    report.checks.push(BoundCheck {
        what: "release binary".into(),
        unit: "MiB",
        values: vec![std::fs::metadata(&binary)?.len() as f64 / f64::from(1 << 20)],
        bound: Bound::AtMost(40.0),
    });
    Ok(report)
}

/// A release build with nothing built before.
pub fn build(_: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Release build from clean");
    let target = files::bench_path("build")?;
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--package", "taillight-cli"]);
    let done = child::run(cargo.arg("--target-dir").arg(&target))?;
    std::fs::remove_dir_all(&target)?;
    report.checks.push(BoundCheck {
        what: "`cargo build --release`, packages already fetched".into(),
        unit: "s",
        values: vec![done.wall_s],
        bound: Bound::AtMost(600.0),
    });
    Ok(report)
}
