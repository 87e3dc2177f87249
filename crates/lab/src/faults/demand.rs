//! What a load that comes at its own times waits for: its turn, or a disk that others had before.

use std::time::Duration;

use anyhow::Result;

use crate::fault_trial::FaultTrial;
use crate::truth::now_ns;

/// Reads at a steady rate of a disk that is slow now and then: those behind a slow one begin late.
pub fn paced(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.set.clear();
    options.more = ["--rate", "2000/s"].map(String::from).to_vec();
    b.start(&options)?;
    b.slowed(&slow)
}

/// Twice as much as the disk does is asked for in bursts: I/Os wait for their turn.
pub fn bursts(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    let rate = b.workers() * b.depth() * 2000;
    let (on, off) = ((b.amplitude * 3).as_millis(), (b.amplitude * 12).as_millis());
    options.set = vec![format!(
        "workload.0.arrival={{kind=\"bursts\",rate=\"{rate}/s\",on=\"{on}ms\",off=\"{off}ms\"}}"
    )];
    slow.set(1, Duration::from_millis(1));
    let from = now_ns();
    b.start(&options)?;
    while b.more() {
        b.stop.sleep(b.amplitude)?;
    }
    b.truth.add(from, now_ns() + 10_000_000_000);
    Ok(())
}

/// A quarter more than the disk does is asked for, all the time.
pub fn saturated(b: &mut FaultTrial<'_>) -> Result<()> {
    let (disk, slow) = b.slow_disk(64)?;
    let mut options = b.options(disk.device.clone(), "randread");
    options.depth = options.depth.min(2);
    options.set.clear();
    let nap = b.amplitude / 5;
    let rate = u64::from(options.workers * options.depth) * 1_250_000 / nap.as_micros() as u64;
    options.more = vec!["--rate".into(), format!("{rate}/s")];
    slow.set(1, nap);
    let from = now_ns();
    b.start(&options)?;
    while b.more() {
        b.stop.sleep(b.amplitude)?;
    }
    b.truth.add(from, now_ns() + 10_000_000_000);
    Ok(())
}
