//! What a user waits for and downloads: `--help` and the binary.

use std::process::Command;

use anyhow::Result;

use crate::pairs::{Bound, Check, Report};
use crate::{Setup, child, taillight};

/// Calls of `--help` in one round; the median counts.
const CALLS: usize = 20;

/// Time of `--help` and size of the binary.
pub fn run(setup: &Setup) -> Result<Report> {
    let mut report = Report::titled("Start-up and size");
    let binary = taillight::binary();
    let mut rounds = Vec::new();
    for _ in 0..setup.pairs {
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.push(child::run(Command::new(&binary).arg("--help"))?.wall_s * 1e3);
        }
        rounds.push(crate::pairs::median(&times));
    }
    report.checks.push(Check {
        what: format!("`taillight --help`, median of {CALLS}"),
        unit: "ms",
        values: rounds,
        bound: Bound::AtMost(20.0),
    });
    report.checks.push(Check {
        what: "release binary".into(),
        unit: "MiB",
        values: vec![std::fs::metadata(&binary)?.len() as f64 / f64::from(1 << 20)],
        bound: Bound::AtMost(40.0),
    });
    Ok(report)
}
