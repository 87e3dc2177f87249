//! The formats of `taillight export` for one run directory: its I/Os as CSV, its histogram log, `summary.json`, fio's
//! JSON, a Perfetto trace.
//!
//! A format is one file and one line in [`RUN_EXPORTS`], which `cli` lists and calls. Tables of several runs are in
//! `suite`, metrics in `live`: their models are there.

mod fio_json;
mod hdr;
mod ios_csv;
mod perfetto;
mod summary_json;

use std::io::{self, Write};
use std::path::PathBuf;

use taillight_core::plan::{CaptureMode, rank_name};
use taillight_core::{Error, Result};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::watched::WatchedFile;
use taillight_rundir::{JsonFile, RunDir, Summary, names, sums};

use crate::format::counted;

/// A format that a run is written in.
pub struct RunExport {
    /// As `--format` has it.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// No text: never for a terminal.
    pub binary: bool,
    /// Writes the run, and gives back sentences on what is left out. Errors: `Usage` for a run without what the format
    /// is made of; `Corrupt` for damaged files; `Unavailable` when they cannot be read or the output not written.
    pub write: fn(&RunDir, &mut dyn Write) -> Result<Vec<String>>,
}

/// Every format, in the order in which they are listed.
pub const RUN_EXPORTS: &[RunExport] = &[
    ios_csv::IOS_CSV,
    hdr::HDR,
    summary_json::SUMMARY_JSON,
    fio_json::FIO_JSON,
    perfetto::PERFETTO,
];

/// The error for output that cannot be written; its source is the writer's.
fn unwritten(e: io::Error) -> Error {
    Error::unavailable("cannot write the export").source(e)
}

/// Path of a file of the run, checked against its checksum. Errors: `Usage` when the run has not got it, which says
/// why; `Corrupt` for a damaged one.
fn file_of(dir: &RunDir, name: &str, what: &str) -> Result<PathBuf> {
    match sums::believed(dir, name)? {
        Some(path) => Ok(path),
        None => Err(lacks(dir, what).with("file", name)),
    }
}

/// The run has not got `what`.
fn lacks(dir: &RunDir, what: &str) -> Error {
    let path = dir.path().display();
    if let Some(source) = dir.manifest().origin.imported() {
        return Error::usage(format!("an imported run has no {what}"))
            .with("path", path)
            .with("tool", &source.tool)
            .hint("its figures: --format json or --format fio-json");
    }
    if let RunOrigin::Merged { .. } = dir.manifest().origin {
        let rank = dir.file(&rank_name(0));
        return Error::usage(format!("a run of several ranks has no {what} of its own"))
            .with("path", path)
            .hint(format!("export the directory of each rank: {}", rank.display()));
    }
    if dir.manifest().origin.is_watched() {
        return Error::usage(format!("this watched run has no {what}"))
            .with("path", path)
            .hint("its figures: --format json; single I/Os are kept by watch --record");
    }
    Error::usage(format!("the run has no {what}"))
        .with("path", path)
        .hint("`taillight report RUN` says what there is of it")
}

/// The run's `summary.json`. Errors: `Usage` for a run without one; `Corrupt` for a damaged one.
fn summary(dir: &RunDir) -> Result<Summary> {
    Summary::read(dir.path())?.ok_or_else(|| {
        Error::usage("the run has no summary.json")
            .with("path", dir.path().display())
            .hint("`taillight report RUN` makes it of what was measured")
    })
}

/// Path of the run's `ios.parquet`. Errors: `Usage` for a run that kept no single I/Os; else as [`file_of`].
fn ios(dir: &RunDir) -> Result<PathBuf> {
    let manifest = dir.manifest();
    if manifest.capture.kept == 0 && manifest.origin.is_measured() {
        return Err(Error::usage("the run kept no single I/Os")
            .with("path", dir.path().display())
            .hint("run it with [capture] mode = \"all\"; --format hdr has its histograms"));
    }
    file_of(dir, names::IOS, "single I/Os")
}

/// What is missing of the single I/Os, in words. Errors: `Corrupt` for a damaged file of a watched run.
fn not_kept(dir: &RunDir) -> Result<Vec<String>> {
    let manifest = dir.manifest();
    let degraded = manifest.capture.degraded.as_ref();
    let mut said = Vec::new();
    if manifest.capture.mode == CaptureMode::Outliers && !manifest.origin.is_watched() {
        said.push("the run kept slow I/Os alone (capture.mode = \"outliers\")".to_owned());
    }
    said.extend(degraded.map(|d| format!("not every I/O was kept: {}", d.reason)));
    let lost = manifest.losses.ios;
    said.extend((lost > 0).then(|| format!("{} were lost", counted(lost, "I/O"))));
    let watched = if manifest.origin.is_watched() { dir.read::<WatchedFile>()? } else { None };
    if watched.is_some_and(|it| it.kept_slow_alone()) {
        said.push("slow operations alone were kept (watch --record keeps all)".to_owned());
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use taillight_rundir::{Manifest, fixture};

    use super::*;

    #[test]
    fn a_run_without_files_of_its_own_names_what_has_them() {
        let home = tempfile::tempdir().unwrap();
        for (name, origin, words) in [
            ("ranks", RunOrigin::Merged { ranks: 2 }, "rank-0000"),
            ("watched", RunOrigin::watched("db"), "watch --record"),
            ("own", RunOrigin::Measured, "taillight report"),
        ] {
            let manifest = Manifest { origin, ..fixture::manifest(name) };
            let dir = RunDir::create(&home.path().join(name), &manifest).unwrap();
            let e = lacks(&dir, "histograms");
            assert!(e.hint_text().is_some_and(|hint| hint.contains(words)), "{name}: {e}");
        }
    }
}
