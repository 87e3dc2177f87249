//! Direct reads on the real disk, beside fio and a bare ring: the tool must not show in the figures of the device. And
//! direct reads mixed with writes, beside fio.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{at_rest, best_bare_arm, fio_arm, own_arm};
use crate::pairs::{self, Bound, BoundCheck, Comparison};
use crate::{BenchSetup, child, files, fio};

/// Size of the file, MiB.
const MIB: u64 = 4096;

pub fn depth_1(setup: &BenchSetup) -> Result<Comparison> {
    case(setup, 1, fio::DIRECT_1)
}

pub fn depth_32(setup: &BenchSetup) -> Result<Comparison> {
    case(setup, 32, fio::DIRECT_32)
}

fn case(setup: &BenchSetup, depth: u32, template: &str) -> Result<Comparison> {
    let file = prepare()?;
    let words = arguments(&file, depth, setup);
    let mut report = Comparison::titled(&format!("Direct 4 KiB reads on the disk, depth {depth}"));
    let (bare_ring, found) = best_bare_arm(&file, depth, true, setup)?;
    let peer = fio_arm("fio io_uring", template, Some(&file), setup);
    report.arms =
        pairs::run(setup.pairs, vec![own_arm("taillight uring", words), peer, bare_ring])?;
    report.notes.push(found);
    let (own, other) = ("taillight uring", "fio io_uring");
    let least = |share| if depth == 1 { Bound::None } else { Bound::AtLeast(share) };
    report.ratio("iops", own, other, least(1.0))?;
    report.ratio("iops", own, "bare ring", least(0.97))?;
    report.ratio("p50_ns", own, other, Bound::AtMost(1.05))?;
    report.ratio("cpu_ns", own, other, Bound::AtMost(1.0))?;
    report.ratio("all_cpu_ns", own, other, Bound::AtMost(1.0))?;
    let law = little(&report, own, depth)?;
    report.checks.push(law);
    at_rest(&mut report, own)?;
    report.notes.push(
        "Latency of both is submit to completion (fio: `lat`). The file was read through once \
         before, and every run draws new offsets. The disk is shared and noisy: judge IOPS by the \
         spread of the pairs, not by the median alone."
            .into(),
    );
    Ok(report)
}

/// Reads and writes mixed: what unique data for writes costs beside fio's way.
pub fn mixed(setup: &BenchSetup) -> Result<Comparison> {
    let file = files::laid_out("mixed.bin", MIB)?;
    read_through(&file)?;
    let own = arguments(&file, 32, setup);
    let mix = "--rw randrw --bs 8KiB --set workload.0.mix={read=70,write=30}";
    let own = own.replace("--rw randread --bs 4KiB", mix);
    let whole = std::fs::canonicalize(&file)?;
    let own = format!("{own} --set target.destroy=true --destroy {}", whole.display());
    let mut report =
        Comparison::titled("Direct 8 KiB reads and writes, 70 to 30, on the disk, depth 32");
    let mut mine = own_arm("taillight", own);
    // Results leave the machine: the guard's whole path does not.
    mine.command = mine.command.replace(&*whole.to_string_lossy(), &file.to_string_lossy());
    let peer = fio_arm("fio io_uring", fio::DIRECT_MIXED, Some(&file), setup);
    report.arms = pairs::run(setup.pairs, vec![mine, peer])?;
    let (own, other) = ("taillight", "fio io_uring");
    report.ratio("iops", own, other, Bound::AtLeast(1.0))?;
    report.ratio("cpu_ns", own, other, Bound::AtMost(1.0))?;
    report.ratio("all_cpu_ns", own, other, Bound::AtMost(1.0))?;
    report.ratio("p99_ns", own, other, Bound::AtMost(1.05))?;
    report.ratio("write_p99_ns", own, other, Bound::AtMost(1.05))?;
    report.notes.push(
        "p50 and p99 are of the reads. Every block that Taillight writes is new; fio scrambles a few \
         bytes of what its buffer holds. The disk is shared and noisy: judge by the spread."
            .into(),
    );
    Ok(report)
}

/// The file, laid out and read through.
pub fn prepare() -> Result<PathBuf> {
    let file = files::laid_out("direct.bin", MIB)?;
    read_through(&file)?;
    Ok(file)
}

/// The load as words of the command line.
pub fn arguments(file: &Path, depth: u32, setup: &BenchSetup) -> String {
    format!(
        "--driver file --path {} --rw randread --bs 4KiB --depth {depth} --runtime {}s --direct \
         --set target.options.engine=uring --set target.options.cache=keep \
         --set target.options.layout=never",
        file.display(),
        setup.seconds
    )
}

/// Reads the file once, around the page cache, so that a cache behind the device (a host's) is in the
/// same state for all arms.
fn read_through(file: &Path) -> Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", file.display()));
    dd.args(["of=/dev/null", "bs=1M", "iflag=direct", "status=none"]);
    child::run(&mut dd)?;
    Ok(())
}

/// How far IOPS x mean latency is from the depth, in percent of the depth.
fn little(report: &Comparison, arm: &str, depth: u32) -> Result<BoundCheck> {
    let (iops, mean) = (report.column(arm, "iops")?, report.column(arm, "mean_ns")?);
    let off = |(iops, mean): (&f64, &f64)| {
        let in_flight = iops * mean / 1e9;
        (in_flight / f64::from(depth) - 1.0).abs() * 100.0
    };
    Ok(BoundCheck {
        what: "Little's law: IOPS x mean latency is off the depth by".into(),
        unit: "%",
        values: iops.iter().zip(&mean).map(off).collect(),
        bound: Bound::AtMost(2.0),
    })
}
