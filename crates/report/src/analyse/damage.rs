//! Compares a run's files with the checksums of its manifest: each file that changed or is missing becomes a trouble,
//! and histograms stand in for a changed `ios.parquet`. Damage that shows only while a file is read becomes a trouble
//! in `read`; the codes of both are listed here.

use taillight_core::Result;
use taillight_rundir::summary::Verdict;
use taillight_rundir::{RunDir, names, sums};

use super::analysis::ReadProblem;

/// Codes of troubles that mean a file is not what it was; a missing file is none of them.
const CODES: [&str; 11] = [
    CODE,
    "capture_unreadable",
    "intervals_unreadable",
    "histograms_unreadable",
    "layers_unreadable",
    "host_unreadable",
    "store_unreadable",
    "verify_unreadable",
    "nvme_unreadable",
    "bus_unreadable",
    "job_unreadable",
];
const CODE: &str = "file_damaged";

/// What must not be read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Damaged {
    /// `ios.parquet` is damaged or missing, and histograms that match their checksum stand in for it.
    pub capture: bool,
}

/// Whether a verdict tells of damaged files.
pub fn damaged(verdict: &Verdict) -> bool {
    verdict.reasons.iter().any(|r| is_damage(&r.code))
}

/// Whether a reason with this code tells of damage.
pub fn is_damage(code: &str) -> bool {
    CODES.contains(&code)
}

/// Compares the files that the manifest has checksums of; each difference is a trouble. Errors: `Unavailable` when
/// a file cannot be read.
pub fn check(dir: &RunDir, troubles: &mut Vec<ReadProblem>) -> Result<Damaged> {
    let changed = sums::changed(dir)?;
    let bad = |name: &str| changed.iter().any(|c| c.name == name);
    // A damaged capture is better than nothing, when the report says that it is damaged.
    let stand_in = dir.existing(names::HISTOGRAMS).is_some() && !bad(names::HISTOGRAMS);
    let damaged = Damaged { capture: bad(names::IOS) && stand_in };
    for change in &changed {
        // A file that is gone may have been removed to save room: that is no damage.
        let missing = dir.existing(&change.name).is_none();
        let then = match (change.name.as_str(), missing) {
            (names::IOS, _) if stand_in => {
                "Percentiles come from histograms (error up to 0.1 %), and single I/Os are unknown."
            }
            (_, true) => "What it held is not in this report.",
            (_, false) => "What can be read of it is shown, and may be wrong.",
        };
        let verb = if missing { "" } else { "is damaged: it " };
        troubles.push(ReadProblem {
            code: if missing { "file_missing" } else { CODE },
            text: format!("{} {verb}{}. {then}", change.name, change.what),
        });
    }
    Ok(damaged)
}
