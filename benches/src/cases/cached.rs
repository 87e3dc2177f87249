//! Page-cached reads: what the tool adds when the kernel has nothing to wait for. The file is
//! pinned in memory for the whole case and checked before and after.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{at_rest, fio_arm, own_arm};
use crate::files::{self, Held};
use crate::pairs::{self, Arm, Bound, Report, Sample};
use crate::{Setup, child, fio};

/// Size of the file, MiB.
const MIB: u64 = 1024;
const NOTE: &str = "The 1 GiB file is mapped and pinned by the bench program; every page was in \
    memory before and after.";

fn words(file: &Path, engine: &str, depth: u32, setup: &Setup) -> String {
    format!(
        "--driver file --path {} --rw randread --bs 4KiB --depth {depth} --runtime {}s \
         --set target.options.engine={engine} --set target.options.direct=false \
         --set target.options.cache=keep --set target.options.layout=never",
        file.display(),
        setup.seconds
    )
}

/// Engine `sync` against psync.
pub fn sync(setup: &Setup) -> Result<Report> {
    let file = files::laid_out("cached.bin", MIB)?;
    let held = Held::new(&file)?;
    let mut report = Report::titled("Page-cached 4 KiB reads, one at a time");
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight sync", words(&file, "sync", 1, setup)),
            fio_arm("fio psync", fio::CACHED_PSYNC, Some(&file), setup),
        ],
    )?;
    held.check()?;
    report.ratio("iops", "taillight sync", "fio psync", Bound::AtLeast(1.2))?;
    report.ratio("cpu_ns", "taillight sync", "fio psync", Bound::None)?;
    at_rest(&mut report, "taillight sync")?;
    report.notes.push(NOTE.into());
    Ok(report)
}

/// Engine `uring` at depth 32 against io_uring and the bare loop.
pub fn uring(setup: &Setup) -> Result<Report> {
    let file = files::laid_out("cached.bin", MIB)?;
    let held = Held::new(&file)?;
    let mut report = Report::titled("Page-cached 4 KiB reads, 32 in flight");
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight uring", words(&file, "uring", 32, setup)),
            fio_arm("fio io_uring", fio::CACHED_URING_32, Some(&file), setup),
            fio_arm("fio batched", fio::CACHED_URING_32_BEST, Some(&file), setup),
            bare_arm(&file, 32, setup),
        ],
    )?;
    held.check()?;
    report.ratio(
        "iops",
        "taillight uring",
        "fio io_uring",
        Bound::AtLeast(1.3),
    )?;
    report.ratio("iops", "taillight uring", "fio batched", Bound::None)?;
    report.ratio("iops", "taillight uring", "bare ring", Bound::AtLeast(0.9))?;
    for (metric, what) in [
        (
            "queue_mean_ns",
            "in the tool's own queue (submit to issued), mean",
        ),
        ("after_issue_mean_ns", "from issued to seen, mean"),
    ] {
        let check = pairs::Check {
            what: format!("taillight uring: {what}"),
            unit: "ns",
            values: report.column("taillight uring", metric)?,
            bound: Bound::None,
        };
        report.checks.push(check);
    }
    at_rest(&mut report, "taillight uring")?;
    report.notes.push(NOTE.into());
    Ok(report)
}

/// The bare loop as an arm, in a process of its own.
pub fn bare_arm<'a>(file: &Path, depth: u32, setup: &Setup) -> Arm<'a> {
    let (depth, seconds) = (depth.to_string(), setup.seconds.to_string());
    let file = file.to_path_buf();
    Arm {
        name: "bare ring",
        command: format!(
            "taillight-bench bare-ring {} {depth} {seconds}",
            file.display()
        ),
        run: Box::new(move || {
            let mut bare = Command::new(std::env::current_exe()?);
            bare.arg("bare-ring").arg(&file).args([&depth, &seconds]);
            let done = child::run(&mut bare)?;
            let said: Value = serde_json::from_str(&done.stdout)?;
            let iops = said["iops"].as_f64().context("no iops")?;
            let ios = said["ios"].as_f64().context("no ios")?;
            Ok(Sample::from([
                ("iops", iops),
                ("ns_per_io", 1e9 / iops),
                ("cpu_ns", done.cpu_s * 1e9 / ios),
                ("foreign", done.foreign),
            ]))
        }),
    }
}
