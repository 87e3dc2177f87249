//! Schedules on `null`: is every operation that was asked for issued, and what does waiting cost.

use anyhow::{Result, ensure};

use super::own_arm;
use crate::Setup;
use crate::pairs::{self, Bound, Check, Report};

/// Rates, operations a second, with a name for each.
const RATES: [(u64, &str); 6] = [
    (10, "10/s"),
    (100, "100/s"),
    (1_000, "1000/s"),
    (10_000, "10000/s"),
    (100_000, "100000/s"),
    (1_000_000, "1000000/s"),
];
/// Seconds of one run: 10 a second give 30 operations.
const SECONDS: u64 = 3;
/// Up to this rate a worker must leave most of its core alone.
const QUIET_TO: u64 = 10_000;

/// One worker at each rate, depth 32.
pub fn run(setup: &Setup) -> Result<Report> {
    let mut report = Report::titled("Pacing: `null`, one worker, depth 32");
    let words = |rate: &str| {
        format!(
            "--driver null --size 1GiB --rw randread --bs 4KiB --depth 32 --runtime {SECONDS}s \
             --rate {rate}"
        )
    };
    let arms = RATES.map(|(_, name)| own_arm(name, words(name)));
    report.arms = pairs::run(setup.pairs, arms.into_iter().collect())?;
    for (rate, name) in RATES {
        let counts = report.column(name, "count")?;
        let asked = (rate * SECONDS) as f64;
        ensure!(
            counts.iter().all(|count| *count == asked),
            "{name}: {asked} operations asked, {counts:?} issued"
        );
        let cpu = report.column(name, "cpu_ns")?;
        let busy = cpu.iter().zip(&counts);
        let busy = busy.map(|(ns, count)| ns * count / SECONDS as f64 / 1e7);
        report.checks.push(Check {
            what: format!("{name}: every operation issued, CPU of one core"),
            unit: "%",
            values: busy.collect(),
            bound: Bound::AtMost(if rate <= QUIET_TO { 50.0 } else { 110.0 }),
        });
    }
    Ok(report)
}
