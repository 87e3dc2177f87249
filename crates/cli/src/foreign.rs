//! Results of other tools, where a run directory is asked for.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind, Result};
use taillight_engine::trace::TraceFile;
use taillight_import::results::{self, HEAD, ResultFormat, ResultSource, ResultUnit};
use taillight_report::ReportOptions;
use taillight_rundir::{RunDir, check_is_dir, sums};
use taillight_suite::runner::DEFAULT_PARENT;

use crate::{output, trace};

/// The run directory that `path` names: itself, or the one that a result of another tool is made into. Errors: `Usage`
/// for what is neither, and for a damaged result; `Unavailable` for nothing.
pub fn run_of(path: &Path, unit: Option<ResultUnit>) -> Result<PathBuf> {
    match path.is_file() {
        true => imported(path, unit, None),
        false => check_is_dir(path).map(|()| path.to_owned()),
    }
}

/// Makes the run directory `to` of a result, with its report, else one beside other runs that is found again by the
/// file's content. Errors: as [`run_of`], and those of a directory that is in use.
pub fn imported(file: &Path, unit: Option<ResultUnit>, to: Option<&Path>) -> Result<PathBuf> {
    let Some(format) = format_of(file).map_err(as_usage)? else {
        let shown = file.to_string_lossy();
        let recorded = TraceFile::open(&shown).ok().filter(|_| file.is_file());
        if let Some(format) = recorded.and_then(|it| it.recognise()) {
            let what = format!("this is no result but a recorded trace ({})", format.name);
            return Err(Error::usage(what).with("path", &shown).hint(trace::instead(&shown)));
        }
        return Err(match check_is_dir(file) {
            Err(_) if std::fs::metadata(file).is_ok_and(|it| it.len() == 0) => {
                Error::usage("the file is empty").with("path", file.display())
            }
            Err(e) => {
                let known: Vec<&str> = results::RESULTS.iter().map(|f| f.about).collect();
                let known = known.join(", ");
                e.hint(format!("name a run directory, or a result of another tool: {known}"))
            }
            Ok(()) => Error::usage("this is a run directory already").with("path", file.display()),
        });
    };
    let (name, crc32) = (file.to_string_lossy(), sums::crc32_of(file)?);
    let source = || Ok(ResultSource::new(&name, crc32.clone(), opened(file)?).in_unit(unit));
    let run = (format.read)(&mut source()?).map_err(as_usage)?;
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
    let origin = run.manifest.origin.clone();
    run.write(&dir, source)?;
    let options = ReportOptions::default();
    taillight_report::make(std::slice::from_ref(&dir), &options, &mut |_| true)?;
    if let Some(source) = origin.imported() {
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
    let read = opened(file)?.take(HEAD as u64).read_to_end(&mut head);
    read.map_err(|e| results::unreadable(file.display(), e))?;
    Ok(results::detect(&String::from_utf8_lossy(&head)))
}

/// Errors: `Usage` for what is no regular file: a pipe would wait for a writer.
fn opened(file: &Path) -> Result<Box<dyn BufRead>> {
    let unreadable = |e| results::unreadable(file.display(), e);
    if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(
            Error::usage("a result is a file, and this is none").with("path", file.display())
        );
    }
    let input = File::open(file).map_err(unreadable)?;
    results::unpacked(BufReader::new(input)).map_err(unreadable)
}

/// A damaged result is a wrong file on the command line, and no run directory that went bad.
fn as_usage(e: Error) -> Error {
    match e.kind() {
        ErrorKind::Corrupt => {
            let hint = e.hint_text().unwrap_or("give the result as the tool wrote it, whole");
            Error::usage(e.to_string()).hint(hint)
        }
        _ => e,
    }
}
