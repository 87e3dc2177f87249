//! Schedules: is every operation that was asked for issued, and what CPU does waiting cost. On
//! `null` Taillight alone, one arm a rate; on the disk beside fio at the same rates.

use anyhow::{Result, ensure};

use super::{direct, fio_arm, own_arm};
use crate::pairs::{self, Bound, BoundCheck, Comparison};
use crate::{BenchSetup, fio};

/// Rates, operations a second, with a name for each.
const RATES: [(u64, &str); 6] = [
    (10, "10/s"),
    (100, "100/s"),
    (1_000, "1000/s"),
    (10_000, "10000/s"),
    (100_000, "100000/s"),
    (1_000_000, "1000000/s"),
];
/// Seconds of one run on `null`, whatever `--seconds` says: enough for 30 operations at the lowest rate.
const SECONDS: u64 = 3;
/// Up to this rate a worker may take half of a core at most.
const QUIET_TO: u64 = 10_000;

/// One worker at each rate, depth 32.
pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Pacing: `null`, one worker, depth 32");
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
        report.checks.push(BoundCheck {
            what: format!("{name}: every operation issued, CPU of one core"),
            unit: "%",
            values: busy.collect(),
            bound: Bound::AtMost(if rate <= QUIET_TO { 50.0 } else { 110.0 }),
        });
    }
    Ok(report)
}

/// Rates of [`on_disk`]: operations a second, the name of our arm and of fio's.
const DISK_RATES: [(u64, &str, &str); 3] = [
    (1_000, "taillight 1000/s", "fio 1000/s"),
    (5_000, "taillight 5000/s", "fio 5000/s"),
    (10_000, "taillight 10000/s", "fio 10000/s"),
];

/// Direct reads at fixed rates, depth 32, in both tools; bounds are on Taillight only.
pub fn on_disk(setup: &BenchSetup) -> Result<Comparison> {
    let file = direct::prepare()?;
    let mut report = Comparison::titled("Direct 4 KiB reads at a fixed rate, depth 32");
    let mut arms = Vec::new();
    for (rate, own, other) in DISK_RATES {
        let words = direct::arguments(&file, 32, setup);
        arms.push(own_arm(own, format!("{words} --rate {rate}/s")));
        let template = format!("{} --rate_iops={rate}", fio::DIRECT_32);
        arms.push(fio_arm(other, &template, Some(&file), setup));
    }
    report.arms = pairs::run(setup.pairs, arms)?;
    for (rate, own, other) in DISK_RATES {
        for arm in [own, other] {
            let (iops, cpu) = (report.column(arm, "iops")?, report.column(arm, "cpu_ns")?);
            let bound = |own_bound| if arm == own { own_bound } else { Bound::None };
            let kept = iops.iter().map(|iops| (iops / rate as f64 - 1.0).abs() * 100.0);
            let busy = iops.iter().zip(&cpu).map(|(iops, ns)| iops * ns / 1e7);
            let (off, busy) = (kept.collect(), busy.collect());
            report.checks.push(BoundCheck {
                what: format!("{arm}: achieved is off what was asked by"),
                unit: "%",
                values: off,
                bound: bound(Bound::AtMost(0.1)),
            });
            report.checks.push(BoundCheck {
                what: format!("{arm}: CPU of one core, the I/O's own included"),
                unit: "%",
                values: busy,
                bound: bound(Bound::AtMost(75.0)),
            });
        }
        report.ratio("p50_ns", own, other, Bound::None)?;
    }
    report.notes.push(
        "Latency is submit to completion in both (fio: `lat`). Before it sleeps for its rate, fio \
         waits until nothing is in flight any more (`io_u_quiesce`): one wait an I/O, and no two of \
         them together at the device. Taillight keeps the schedule's queue depth and is woken for \
         each completion and for each due time."
            .into(),
    );
    Ok(report)
}
