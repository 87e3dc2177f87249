//! Which runs a history has, which of them count, and which belong together.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_report::format::counted;
use taillight_rundir::RunStatus;
use taillight_rundir::history::LeftOutRun;

use crate::comparable::differs;
use crate::side::{FoundRuns, SideRun};

/// Folders in each other that are looked into: `nightly/2026-11-23/1`.
const LEVELS: u32 = 3;

/// Runs of one night, by time, all of the same plan, device, kernel and version.
pub struct Night {
    pub runs: Vec<SideRun>,
    /// What is not as the night before; none where the two may be set beside each other.
    pub differs: Option<String>,
}

impl Night {
    /// When it began, ns since the epoch.
    pub fn at(&self) -> i64 {
        self.runs.first().map_or(0, at)
    }
}

fn at(run: &SideRun) -> i64 {
    run.manifest.clock.realtime_ns
}

/// The runs in these directories that count, and those that do not, by time. Errors: `Usage` where there is
/// none; `Unavailable` or `Corrupt` where none can be read.
pub fn runs_in(paths: &[PathBuf], anyway: bool) -> Result<(Vec<SideRun>, Vec<LeftOutRun>)> {
    let mut all = FoundRuns::default();
    for path in paths {
        let FoundRuns { dirs, left_out } = FoundRuns::of(path, LEVELS)?;
        all.dirs.extend(dirs);
        all.left_out.extend(left_out);
    }
    let (found, mut left_out) = all.read(|dir| counting(dir, anyway))?;
    let mut runs: BTreeMap<(i64, String), SideRun> = BTreeMap::new();
    for run in found {
        match runs.entry((at(&run), run.manifest.run_id.clone())) {
            Entry::Occupied(same) => left_out.push(LeftOutRun::new(
                &run.dir,
                format!("the same run as {}", same.get().dir.display()),
            )),
            Entry::Vacant(place) => drop(place.insert(run)),
        }
    }
    Ok((runs.into_values().collect(), left_out))
}

/// A run that counts, without what a history does not use. Errors: why it does not count.
fn counting(dir: &Path, anyway: bool) -> Result<SideRun> {
    let mut run = SideRun::read(dir)?;
    let totals = &run.summary.totals;
    let why = match run.summary.status {
        RunStatus::Failed => Some("it failed".to_owned()),
        _ if totals.count <= totals.errors => Some("it has no successful I/O".to_owned()),
        _ if at(&run) == 0 => Some("its result does not tell when it was made".to_owned()),
        _ if anyway => None,
        RunStatus::Complete if totals.errors == 0 => None,
        RunStatus::Complete => Some(format!("{} failed", counted(totals.errors, "I/O"))),
        _ => Some("it is not complete".to_owned()),
    };
    if let Some(why) = why {
        return Err(Error::usage(why));
    }
    run.rates.clear();
    run.summary.distribution.clear();
    run.summary.outliers.clear();
    Ok(run)
}

/// Runs by time as nights: a night has the runs that began within `length` of its first one and differ in
/// nothing. Errors: `Usage` where several jobs or machines come in turn.
pub fn nights(runs: Vec<SideRun>, length: Span) -> Result<Vec<Night>> {
    let mut nights: Vec<Night> = Vec::new();
    for run in runs {
        let last = nights.last_mut();
        let before = last.as_ref().and_then(|night| night.runs.last());
        let differs = before.and_then(|before| differs([before, &run].into_iter()));
        match last {
            Some(night) if differs.is_none() && at(&run).abs_diff(night.at()) < length.0 => {
                night.runs.push(run);
            }
            _ => nights.push(Night { runs: vec![run], differs }),
        }
    }
    refuse_mixture(&nights)?;
    Ok(nights)
}

/// Something that was changed once or twice, and back, is a history; jobs in turn are several.
fn refuse_mixture(nights: &[Night]) -> Result<()> {
    let firsts = || nights.iter().enumerate().filter(|(i, n)| *i == 0 || n.differs.is_some());
    let mut kinds: Vec<&SideRun> = Vec::new();
    for run in firsts().filter_map(|(_, night)| night.runs.first()) {
        if kinds.iter().all(|kind| differs([*kind, run].into_iter()).is_some()) {
            kinds.push(run);
        }
    }
    let segments = firsts().count();
    if segments < kinds.len() + 2 || 3 * segments < nights.len() {
        return Ok(());
    }
    Err(Error::usage("these are runs of several jobs or machines in turn, not one history")
        .with("they differ in", differs(kinds.iter().copied()).unwrap_or_default())
        .hint("name the folders of one job on one machine"))
}
