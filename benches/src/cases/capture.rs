//! Keeping every I/O: bytes in memory and at rest, none lost, and what a report on it costs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::pairs::{Bound, BoundCheck, Comparison};
use crate::taillight::{self, BenchRun};
use crate::{BenchSetup, child};

/// I/Os of the long run.
const IOS: u64 = 100_000_000;

/// 100 million I/Os and the report on them.
pub fn run(_: &BenchSetup) -> Result<Comparison> {
    let half = long_run(IOS / 2)?;
    let whole = long_run(IOS)?;
    let dir = whole.dir;
    let at_rest = fs::metadata(dir.path().join("ios.parquet"))?.len();
    let html = dir.path().join("again.html");
    let mut again = Command::new(taillight::binary());
    again.arg("report").arg(dir.path()).arg("--output").arg(&html);
    let report_cost = child::run(&mut again)?;

    let mut report = Comparison::titled("100 million I/Os on `null`, all kept");
    let mut add = |what: &str, unit, value: f64, bound| {
        report.checks.push(BoundCheck { what: what.into(), unit, values: vec![value], bound });
    };
    let growth = (whole.in_memory as f64 - half.in_memory as f64) / (IOS / 2) as f64;
    let per_io = |bytes: u64| bytes as f64 / IOS as f64;
    add("capture in memory, growth", "bytes an I/O", growth, Bound::AtMost(16.1));
    add("capture in memory, everything", "MiB", mib(whole.in_memory), Bound::None);
    add("`ios.parquet` at rest", "bytes an I/O", per_io(at_rest), Bound::AtMost(9.0));
    add("I/Os not in the counts or not kept", "I/Os", whole.missing, Bound::AtMost(0.0));
    add("`taillight report`", "s", report_cost.wall_s, Bound::AtMost(60.0));
    add("`taillight report`, memory", "MiB", mib(report_cost.max_rss), Bound::AtMost(1024.0));
    add("the run from start to end", "s", whole.wall_s, Bound::None);
    report.notes.push(format!("`{}`", taillight::command_line(&arguments(IOS))));
    report.notes.push(
        "Growth is the difference to a run of half as many: a record is 16 bytes, headers of chunks \
         add 0.01. \"Everything\" includes the chunks held ready."
            .into(),
    );
    Ok(report)
}

/// A run that kept every I/O.
struct LongRun {
    dir: BenchRun,
    in_memory: u64,
    missing: f64,
    wall_s: f64,
}

fn arguments(ios: u64) -> String {
    format!(
        "--driver null --size 1GiB --rw randread --bs 4KiB --depth 32 --ops {ios} \
         --set capture.mode=all"
    )
}

fn long_run(ios: u64) -> Result<LongRun> {
    let dir = BenchRun::new("capture")?;
    let mut command = taillight::command(&arguments(ios), &dir);
    let (done, in_memory) = watched(&dir, || child::run(&mut command))?;
    let count = dir.json("summary.json")?["totals"]["count"].as_u64();
    let kept = dir.json("manifest.json")?["capture"]["kept"].as_u64();
    let fewest = count.context("no totals.count")?.min(kept.context("no capture.kept")?);
    Ok(LongRun { dir, in_memory, missing: ios as f64 - fewest as f64, wall_s: done.wall_s })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs `work` and returns the most memory that the capture of the run in `dir` had meanwhile.
fn watched<T>(dir: &BenchRun, work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            let mut place: Option<PathBuf> = None;
            while !over.load(Ordering::Relaxed) {
                place = place.or_else(|| capture_place(dir));
                let now = place.as_deref().map_or(0, allocated);
                most.fetch_max(now, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })?;
    Ok((done, most.load(Ordering::Relaxed)))
}

/// Where a run keeps its capture: named after its id, which its manifest says from the start.
fn capture_place(dir: &BenchRun) -> Option<PathBuf> {
    let manifest = dir.json("manifest.json").ok()?;
    let id = manifest["run_id"].as_str()?;
    Some(Path::new("/dev/shm").join(format!("taillight-{id}")))
}

/// Bytes allocated to a file or to all files of a directory.
fn allocated(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !meta.is_dir() {
        return meta.blocks() * 512;
    }
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    entries.filter_map(|e| Some(allocated(&e.ok()?.path()))).sum()
}
