//! The report of a series as its directory keeps it: `report.json`, written by the series runner after every
//! point and read again by `taillight report`; runs and words for a series without one.

use std::path::{Path, PathBuf};

use taillight_core::Result;
use taillight_report::{ReportContext, ReportSummary, SeriesReportFile};
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, SCHEMA_VERSION, names};

use crate::method::SeriesReport;

/// More runs than this are shown by charts over all of them and links to their own reports.
pub const MOST_IN_FULL: usize = 12;

/// A series that can be shown again.
#[derive(Debug)]
pub struct SavedSeries {
    pub file: SeriesFile,
    /// Run directories in the order they are shown.
    pub runs: Vec<PathBuf>,
    pub context: ReportContext,
}

/// Writes `report.json` into the directory of a series. Errors: `Unavailable` when it cannot be
/// written; `Corrupt` when a point is a series that cannot be read.
pub fn keep(dir: &Path, report: &SeriesReport) -> Result<()> {
    let inside = |run: PathBuf| run.strip_prefix(dir).map_or(run.clone(), Path::to_owned);
    let mut runs = Vec::new();
    for run in &report.runs {
        let each = run_directories(run)?.into_iter();
        runs.extend(each.map(|run| inside(run).to_string_lossy().into_owned()));
    }
    let file = SeriesReportFile {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        runs,
        context: report.context.clone(),
    };
    file.write(dir)
}

/// Reads the series in `dir`; none where there is none. Errors: `Corrupt` for a damaged file.
pub fn read(dir: &Path) -> Result<Option<SavedSeries>> {
    let Some(file) = SeriesFile::read(dir)? else {
        return Ok(None);
    };
    if let Some(kept) = SeriesReportFile::read(dir)? {
        let runs = kept.runs.iter().map(|run| dir.join(run)).collect();
        return Ok(Some(SavedSeries { file, runs, context: kept.context }));
    }
    let mut runs = Vec::new();
    for point in file.points.iter().filter(|p| p.exit.is_some()) {
        runs.extend(run_directories(&dir.join(&point.run))?);
    }
    let context = ReportContext {
        title: Some(file.job.clone()),
        summary: (runs.len() > MOST_IN_FULL).then(|| ReportSummary {
            links: runs.iter().map(|run| link(dir, run)).collect(),
            ..ReportSummary::default()
        }),
        ..ReportContext::default()
    };
    Ok(Some(SavedSeries { file, runs, context }))
}

fn link(dir: &Path, run: &Path) -> String {
    let inside = run.strip_prefix(dir).unwrap_or(run);
    inside.join(names::REPORT).to_string_lossy().into_owned()
}

/// The run directories of a point: those of its own points where it is a series itself.
pub fn run_directories(dir: &Path) -> Result<Vec<PathBuf>> {
    let Some(series) = SeriesFile::read(dir)? else {
        return Ok(vec![dir.to_owned()]);
    };
    let measured = series.points.iter().filter(|p| p.exit.is_some());
    Ok(measured.map(|p| dir.join(&p.run)).collect())
}
