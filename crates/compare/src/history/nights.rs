//! Which runs a history has, which of them count, and which belong together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_report::format::counted;
use taillight_rundir::history::LeftOutRun;
use taillight_rundir::{RunStatus, names};

use crate::comparable::differs;
use crate::side::{SideRun, runs_of};

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
    let mut found = FoundRuns::default();
    for path in paths {
        let before = found.dirs.len() + found.left_out.len();
        found.collect(path, LEVELS)?;
        if found.dirs.len() + found.left_out.len() == before {
            return Err(Error::usage("no run in it")
                .with("path", path.display())
                .hint("name run directories, or folders of them"));
        }
    }
    let mut first_error = None;
    let mut runs: BTreeMap<(i64, String), SideRun> = BTreeMap::new();
    for dir in std::mem::take(&mut found.dirs) {
        match counting(&dir, anyway) {
            Ok(run) => match runs.get(&(at(&run), run.manifest.run_id.clone())) {
                Some(same) => found.leave(&dir, format!("the same run as {}", same.dir.display())),
                None => drop(runs.insert((at(&run), run.manifest.run_id.clone()), run)),
            },
            Err(e) => {
                found.leave(&dir, e.to_string());
                first_error.get_or_insert(e.with("path", dir.display()));
            }
        }
    }
    match (runs.is_empty(), first_error) {
        (true, Some(e)) => Err(e),
        (true, None) => Err(Error::usage("no run counts")
            .with("because", found.left_out.first().map_or("", |l| l.why.as_str()))),
        _ => Ok((runs.into_values().collect(), found.left_out)),
    }
}

#[derive(Default)]
struct FoundRuns {
    dirs: Vec<PathBuf>,
    left_out: Vec<LeftOutRun>,
}

impl FoundRuns {
    fn leave(&mut self, dir: &Path, why: String) {
        self.left_out.push(LeftOutRun { dir: dir.display().to_string(), why });
    }

    fn collect(&mut self, path: &Path, levels: u32) -> Result<()> {
        let has = |name: &str| path.join(name).is_file();
        if has(names::MANIFEST) || has(names::SERIES) {
            match runs_of(path) {
                Ok(runs) => self.dirs.extend(runs),
                Err(e) => self.leave(path, e.to_string()),
            }
            return Ok(());
        }
        if has(names::SUMMARY) {
            self.leave(path, format!("it has no {}", names::MANIFEST));
            return Ok(());
        }
        let unreadable = |e| {
            Error::unavailable("cannot read the directory").with("path", path.display()).source(e)
        };
        let mut inside: Vec<PathBuf> = Vec::new();
        for entry in std::fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?.path();
            // What a history left here links to runs that are somewhere else.
            if entry.is_dir() && !entry.join(names::CHANGES).is_file() {
                inside.push(entry);
            }
        }
        inside.sort();
        for entry in inside.iter().filter(|_| levels > 0) {
            if let Err(e) = self.collect(entry, levels - 1) {
                self.leave(entry, e.to_string());
            }
        }
        Ok(())
    }
}

/// A run that counts, without what a history does not use. Errors: why it does not count.
fn counting(dir: &Path, anyway: bool) -> Result<SideRun> {
    let mut run = SideRun::read(dir)?;
    let totals = &run.summary.totals;
    let why = match run.summary.status {
        RunStatus::Failed => Some("it failed".to_owned()),
        _ if totals.count <= totals.errors => Some("it has no successful I/O".to_owned()),
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
