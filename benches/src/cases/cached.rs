//! Page-cached reads: what the tool adds when the kernel has nothing to wait for. The file is
//! pinned in memory for the whole case and checked before and after.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{at_rest, bare, bare_words, best_bare_arm, fio_arm, own_arm};
use crate::files::{self, PinnedFile};
use crate::pairs::{self, Bound, Comparison};
use crate::{BenchSetup, fio};

/// Size of the file, MiB.
const MIB: u64 = 1024;
/// What holds for every case of this kind.
pub const NOTE: &str = "The 1 GiB file is mapped and pinned by the bench program; every page was in \
    memory before and after.";

/// The load as words of the command line.
pub fn arguments(file: &Path, engine: &str, depth: u32, setup: &BenchSetup) -> String {
    format!(
        "--driver file --path {} --rw randread --bs 4KiB --depth {depth} --runtime {}s \
         --set target.options.engine={engine} --set target.options.direct=false \
         --set target.options.cache=keep --set target.options.layout=never",
        file.display(),
        setup.seconds
    )
}

/// Engine `sync` against psync.
pub fn sync(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = prepare()?;
    let mut report = Comparison::titled("Page-cached 4 KiB reads, one at a time");
    let (name, seconds) = (file.display().to_string(), setup.seconds.to_string());
    let bare_words = vec!["bare-sync".to_string(), name, seconds];
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight sync", arguments(&file, "sync", 1, setup)),
            fio_arm("fio psync", fio::CACHED_PSYNC, Some(&file), setup),
            bare("bare pread", bare_words),
        ],
    )?;
    held.check()?;
    report.ratio("iops", "taillight sync", "fio psync", Bound::AtLeast(1.2))?;
    report.ratio("iops", "taillight sync", "bare pread", Bound::None)?;
    report.ratio("cpu_ns", "taillight sync", "fio psync", Bound::None)?;
    at_rest(&mut report, "taillight sync")?;
    report.notes.push(NOTE.into());
    Ok(report)
}

/// Engine `uring` at depth 32 against io_uring and the bare loop.
pub fn uring(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = prepare()?;
    let mut report = Comparison::titled("Page-cached 4 KiB reads, 32 in flight");
    let (bare_ring, found) = best_bare_arm(&file, 32, false, setup)?;
    report.notes.push(found);
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight uring", arguments(&file, "uring", 32, setup)),
            fio_arm("fio io_uring", fio::CACHED_URING_32, Some(&file), setup),
            fio_arm("fio batched", fio::CACHED_URING_32_BEST, Some(&file), setup),
            bare_ring,
        ],
    )?;
    held.check()?;
    report.ratio("iops", "taillight uring", "fio io_uring", Bound::AtLeast(1.3))?;
    report.ratio("iops", "taillight uring", "fio batched", Bound::None)?;
    report.ratio("iops", "taillight uring", "bare ring", Bound::AtLeast(0.9))?;
    for (metric, what) in [
        ("queue_mean_ns", "in the tool's own queue (submit to issued), mean"),
        ("after_issue_mean_ns", "from issued to seen, mean"),
    ] {
        let check = pairs::BoundCheck {
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

/// Lays out and pins the file, and reads each page a few times: the first reads of a page also pay
/// for its way through the kernel's lists.
pub fn prepare() -> Result<(PathBuf, PinnedFile)> {
    let file = files::laid_out("cached.bin", MIB)?;
    let held = PinnedFile::new(&file)?;
    pairs::run(1, vec![bare("bare ring", bare_words(&file, 32, 32, false, 3))])?;
    Ok((file, held))
}
