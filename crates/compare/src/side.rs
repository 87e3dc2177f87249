//! The runs of one side.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use taillight_core::{Error, OpKind, Result};
use taillight_rundir::intervals::read_intervals;
use taillight_rundir::series::{PointStatus, SeriesFile};
use taillight_rundir::{JsonFile, Manifest, RunDir, Summary, names};

/// A run with what is compared.
#[derive(Debug, Clone)]
pub struct SideRun {
    pub dir: PathBuf,
    pub manifest: Manifest,
    pub summary: Summary,
    /// Successes of each interval of the measure phase, those as long as the others.
    pub rates: BTreeMap<OpKind, Vec<f64>>,
}

impl SideRun {
    /// Reads a run directory. Errors: `Unavailable` or `Corrupt` when it cannot be read; `Usage` when
    /// it has no summary.
    pub fn read(dir: &Path) -> Result<SideRun> {
        let run = RunDir::open(dir)?;
        let Some(summary) = run.read::<Summary>()? else {
            return Err(Error::usage("the run has no summary yet")
                .with("run", dir.display())
                .hint("taillight report RUN makes it from what the run kept"));
        };
        let mut rates: BTreeMap<OpKind, Vec<f64>> = BTreeMap::new();
        if let Some(path) = run.existing(names::INTERVALS) {
            let rows = read_intervals(&path)?;
            let measured = || rows.iter().filter(|r| r.phase == "measure");
            // The last one is shorter where the load ended within it.
            let length = measured().map(|r| r.length_ns).max().unwrap_or(0);
            let mut sums: BTreeMap<(OpKind, i64), u64> = BTreeMap::new();
            for row in measured().filter(|r| r.length_ns == length) {
                *sums.entry((row.op, row.start_ns)).or_default() +=
                    row.ops - row.errors.min(row.ops);
            }
            sums.into_iter().for_each(|((op, _), n)| rates.entry(op).or_default().push(n as f64));
        }
        Ok(SideRun { dir: dir.to_owned(), manifest: run.manifest().clone(), summary, rates })
    }
}

/// The run directories that a path stands for: one run, the runs of a series of one setting, or all in a
/// folder, in order of their names. Errors: `Usage` where there are none, or a series has several settings.
pub fn runs_of(path: &Path) -> Result<Vec<PathBuf>> {
    if path.join(names::MANIFEST).is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if let Some(series) = SeriesFile::read(path)? {
        return of_series(path, &series);
    }
    let unreadable =
        |e| Error::unavailable("cannot read the directory").with("path", path.display()).source(e);
    let mut inside: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.path();
        if entry.join(names::MANIFEST).is_file() || entry.join(names::SERIES).is_file() {
            inside.push(entry);
        }
    }
    inside.sort();
    let mut runs = Vec::new();
    for entry in &inside {
        runs.extend(runs_of(entry)?);
    }
    match runs.is_empty() {
        false => Ok(runs),
        true => Err(Error::usage("no run in it")
            .with("path", path.display())
            .hint("name a run directory, a series of one setting, or a folder of runs")),
    }
}

fn of_series(dir: &Path, series: &SeriesFile) -> Result<Vec<PathBuf>> {
    let measured = |p: &&taillight_rundir::series::SeriesPoint| {
        p.status == PointStatus::Complete && !p.role.is_state()
    };
    let points: Vec<_> = series.points.iter().filter(measured).collect();
    let first = points.first().map(|p| &p.coordinates);
    if points.iter().any(|p| Some(&p.coordinates) != first) {
        return Err(Error::usage("the series has runs of several settings")
            .with("path", dir.display())
            .hint("name the run directories of one setting, or put them into a folder"));
    }
    if points.is_empty() {
        return Err(Error::usage("no run of the series is complete").with("path", dir.display()));
    }
    Ok(points.iter().map(|p| dir.join(&p.run)).collect())
}
