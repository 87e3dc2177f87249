//! Results of other tools, where a run directory is asked for.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_import::results::{self, HEAD, ResultFormat};
use taillight_report::ReportOptions;
use taillight_rundir::origin::write_imported;
use taillight_rundir::{RunDir, check_is_dir};
use taillight_suite::runner::DEFAULT_PARENT;

use crate::output;

/// Largest result that is read, bytes.
const LARGEST: u64 = 1 << 30;

/// The run directory that `path` names: itself, or the one that a result of another tool is made into. Errors:
/// `Unavailable` for nothing and for a file that is no such result; `Corrupt` for a damaged one.
pub fn run_of(path: &Path) -> Result<PathBuf> {
    match path.is_file() {
        true => imported(path, None),
        false => Ok(path.to_owned()),
    }
}

/// Makes the run directory `to` of a result, else one beside other runs that is found again by the file's
/// content. Errors: as [`run_of`], and those of a directory that is in use.
pub fn imported(file: &Path, to: Option<&Path>) -> Result<PathBuf> {
    let Some(format) = format_of(file)? else {
        let known: Vec<&str> = results::RESULTS.iter().map(|f| f.about).collect();
        return Err(match check_is_dir(file) {
            Err(e) => e.hint(format!("name a run directory, or a {}", known.join(" or a "))),
            Ok(()) => Error::usage("this is a run directory already").with("path", file.display()),
        });
    };
    let run = (format.read)(&text(file)?, &file.to_string_lossy())?;
    run.notes.iter().for_each(|note| output::note(&format!("{}: {note}", in_line(file.display()))));
    let own = || format!("{DEFAULT_PARENT}/{}-{}", run.manifest.plan.run.name, run.manifest.run_id);
    let dir = to.map_or_else(|| PathBuf::from(own()), Path::to_owned);
    let same = |there: &RunDir| {
        there.manifest().run_id == run.manifest.run_id
            && there.manifest().origin == run.manifest.origin
    };
    if to.is_none() && RunDir::open(&dir).is_ok_and(|there| same(&there)) {
        return Ok(dir);
    }
    write_imported(&dir, &run.manifest, &run.figures)?;
    let options = ReportOptions::default();
    taillight_report::make(std::slice::from_ref(&dir), &options, &mut |_| true)?;
    if let Some(source) = run.manifest.origin.imported() {
        let of = taillight_report::tool_words(source);
        output::note(&format!(
            "{}: result of {of}, kept as a run in {}",
            in_line(file.display()),
            in_line(dir.display())
        ));
    }
    Ok(dir)
}

/// Whether a file begins as a result of another tool.
pub fn is_result(file: &Path) -> bool {
    format_of(file).is_ok_and(|format| format.is_some())
}

/// The format of a file by how it begins.
fn format_of(file: &Path) -> Result<Option<&'static ResultFormat>> {
    let mut head = Vec::new();
    let opened = File::open(file).map_err(|e| unreadable(file, e))?;
    opened.take(HEAD as u64).read_to_end(&mut head).map_err(|e| unreadable(file, e))?;
    Ok(results::detect(&String::from_utf8_lossy(&head)))
}

fn text(file: &Path) -> Result<String> {
    let size = std::fs::metadata(file).map_err(|e| unreadable(file, e))?.len();
    if size > LARGEST {
        return Err(Error::usage("the result is too large")
            .with("path", file.display())
            .with("bytes", size)
            .with("at most", LARGEST));
    }
    let bytes = std::fs::read(file).map_err(|e| unreadable(file, e))?;
    String::from_utf8(bytes).map_err(|e| {
        Error::corrupt("the result is not text").with("path", file.display()).source(e)
    })
}

fn unreadable(file: &Path, e: std::io::Error) -> Error {
    Error::unavailable("cannot read the file").with("path", file.display()).source(e)
}
