//! Keeping every I/O: bytes in memory and at rest, none lost, and what a report on it costs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::pairs::{Bound, Check, Report};
use crate::taillight::{self, RunDir};
use crate::{Setup, child};

/// I/Os of the long run.
const IOS: u64 = 100_000_000;

/// 100 million I/Os and the report on them.
pub fn run(_: &Setup) -> Result<Report> {
    let words = format!(
        "--driver null --size 1GiB --rw randread --bs 4KiB --depth 32 --ops {IOS} \
         --set capture.mode=all"
    );
    let dir = RunDir::new("capture")?;
    let mut command = taillight::command(&words, &dir);
    let (done, in_memory) = watched(|| child::run(&mut command))?;
    let summary = dir.json("summary.json")?;
    let count = summary["totals"]["count"]
        .as_u64()
        .context("no totals.count")?;
    ensure!(count == IOS, "{count} I/Os counted, {IOS} asked");
    let at_rest = fs::metadata(dir.path().join("ios.parquet"))?.len();
    let html = dir.path().join("again.html");
    let mut again = Command::new(taillight::binary());
    again
        .arg("report")
        .arg(dir.path())
        .arg("--output")
        .arg(&html);
    let report_cost = child::run(&mut again)?;

    let mut report = Report::titled("100 million I/Os on `null`, all kept");
    let per_io = |bytes: u64| bytes as f64 / IOS as f64;
    let mut add = |what: &str, unit, value: f64, bound| {
        report.checks.push(Check {
            what: what.into(),
            unit,
            values: vec![value],
            bound,
        });
    };
    add(
        "capture in memory",
        "bytes an I/O",
        per_io(in_memory),
        Bound::AtMost(16.0),
    );
    add(
        "`ios.parquet` at rest",
        "bytes an I/O",
        per_io(at_rest),
        Bound::AtMost(9.0),
    );
    add(
        "I/Os missing from the counts",
        "I/Os",
        (IOS - count) as f64,
        Bound::AtMost(0.0),
    );
    add(
        "`taillight report`",
        "s",
        report_cost.wall_s,
        Bound::AtMost(60.0),
    );
    add(
        "`taillight report`, memory",
        "MiB",
        mib(report_cost.max_rss),
        Bound::AtMost(1024.0),
    );
    add("the run from start to end", "s", done.wall_s, Bound::None);
    report.notes.push(format!("`{}`", taillight::shown(&words)));
    Ok(report)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs `work` and returns the most memory that capture files had meanwhile.
fn watched<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let now: u64 = capture_dirs().iter().map(|d| allocated(d)).sum();
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

/// Directories and files of captures in shared memory.
fn capture_dirs() -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir("/dev/shm") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("taillight-"))
        })
        .collect()
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
    entries
        .filter_map(|e| Some(allocated(&e.ok()?.path())))
        .sum()
}
