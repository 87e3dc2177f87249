//! Results of other tools where a run directory is asked for: recognised by their text, read by `taillight_import`, and
//! made into run directories with a report.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind, Result};
use taillight_import::results::{self, ForeignRun, HEAD, ResultFormat, ResultSource, ResultUnit};
use taillight_report::ReportOptions;
use taillight_rundir::{RunDir, atomic, check_is_dir, names};
use taillight_suite::runner::DEFAULT_PARENT;

use crate::{output, trace};

/// Longest text before a result that is looked through, bytes.
const MOST_BEFORE: usize = 64 << 20;
/// Longer than the words by which a result is known, bytes.
const LONGEST_WORDS: usize = 1 << 10;

/// Who tells what was found in a result when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Findings {
    /// A line on standard error for each.
    Told,
    /// The report that follows.
    InReport,
}

/// The run directory that `path` names: itself, or the one that a result of another tool is made into. Errors: `Usage`
/// for what is neither, and for a damaged result; `Unavailable` where nothing is.
pub fn run_of(path: &Path, unit: Option<ResultUnit>, findings: Findings) -> Result<PathBuf> {
    match path.is_file() {
        true => imported(path, unit, None, findings),
        false => check_is_dir(path).map(|()| path.to_owned()),
    }
}

/// Makes the run directory `to` of a result, with its report; without `to` one in the directory of all runs, which is
/// found again by the name and content of the file. Errors: as [`run_of`], and those of a directory that is in use.
pub fn imported(
    file: &Path,
    unit: Option<ResultUnit>,
    to: Option<&Path>,
    findings: Findings,
) -> Result<PathBuf> {
    let Some(format) = format_of(file).map_err(as_usage)? else {
        if let Some(e) = trace::refused(&file.to_string_lossy(), "result") {
            return Err(e);
        }
        return Err(match std::fs::metadata(file).is_ok_and(|it| it.len() == 0) {
            true => Error::usage("the file is empty").with("path", file.display()),
            false => Error::usage("the file is no result of a tool that Taillight reads")
                .with("path", file.display())
                .hint(known()),
        });
    };
    let (name, sum) = (file.to_string_lossy(), sha256_of(file)?);
    let source = || Ok(ResultSource::new(&name, sum.clone(), opened(file)?).in_unit(unit));
    let run = (format.read)(&mut source()?).map_err(as_usage)?;
    for note in run.notes.iter().filter(|_| findings == Findings::Told) {
        output::note(&format!("{}: {note}", in_line(file.display())));
    }
    let (name_of, id) = (&run.manifest.plan.run.name, run.manifest.run_id.clone());
    let kept = PathBuf::from(format!("{DEFAULT_PARENT}/{name_of}-{id}"));
    let dir = to.map_or(kept, Path::to_owned);
    // The same name and content are the same run, wherever the file lies.
    let same = || RunDir::open(&dir).is_ok_and(|there| there.manifest().run_id == id);
    if to.is_none() && same() {
        match dir.join(names::SUMMARY).is_file() {
            true => return Ok(dir),
            // One whose import was interrupted: what is there may do.
            false => match reported(&dir) {
                Err(e) if e.kind() == ErrorKind::Corrupt => set_aside(&dir)?,
                done => return done.map(|()| dir),
            },
        }
    }
    let origin = run.manifest.origin.clone();
    match to {
        Some(to) => made(run, to, source)?,
        None => {
            // Made beside it: who looks, or imports the same at this moment, finds it whole or not at all.
            let part = dir.with_file_name(format!(".{id}-{}.part", std::process::id()));
            let new =
                std::fs::create_dir_all(DEFAULT_PARENT).and_then(|()| std::fs::create_dir(&part));
            new.map_err(|e| atomic::cannot("create", &part, e))?;
            let done = made(run, &part, source).and_then(|()| placed(&part, &dir, &same));
            if let Err(e) = done {
                drop(std::fs::remove_dir_all(&part));
                return Err(e);
            }
        }
    }
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

/// Whether what a command is about can be read. Errors: `Unavailable` where nothing is there, or rights are missing.
pub fn check_readable(path: &Path) -> Result<()> {
    rustix::fs::access(path, rustix::fs::Access::READ_OK)
        .map_err(|e| results::unreadable(path.display(), e.into()))
}

/// SHA-256 of all bytes of a file, packed ones as they are.
fn sha256_of(file: &Path) -> Result<String> {
    let mut hash = HashWriter(Sha256::new());
    let read = File::open(file).and_then(|mut input| std::io::copy(&mut input, &mut hash));
    read.map_err(|e| results::unreadable(file.display(), e))?;
    Ok(hash.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A hint with all that may be named.
fn known() -> String {
    let known: Vec<&str> = results::RESULTS.iter().map(|f| f.about).collect();
    format!(
        "name a run directory, or a result of another tool: {}; a trace of I/Os is for `taillight trace FILE`",
        known.join(", ")
    )
}

/// Makes the run directory of a result, with its report.
fn made<'a>(
    run: ForeignRun,
    dir: &Path,
    source: impl FnOnce() -> Result<ResultSource<'a>>,
) -> Result<()> {
    run.write(dir, source)?;
    reported(dir)
}

fn reported(dir: &Path) -> Result<()> {
    let options = ReportOptions::default();
    taillight_report::make(&[dir], &options, &mut |_| true).map(drop)
}

/// Gives a directory another name, because what else lies in it may be the user's. Errors: `Unavailable` where it
/// cannot be renamed.
fn set_aside(dir: &Path) -> Result<()> {
    let to = atomic::free_name(dir, "damaged")?;
    std::fs::rename(dir, &to).map_err(|e| atomic::cannot("rename", dir, e))?;
    output::note(&format!("what an interrupted import left is in {}", in_line(to.display())));
    Ok(())
}

/// Moves a run that is whole to its place, where another import may have put the `same` meanwhile. Errors:
/// `Unavailable` for a place that is in use.
fn placed(part: &Path, dir: &Path, same: &dyn Fn() -> bool) -> Result<()> {
    let Err(e) = std::fs::rename(part, dir) else { return Ok(()) };
    if same() {
        drop(std::fs::remove_dir_all(part));
        return Ok(());
    }
    let e = Error::unavailable("the result cannot be kept as a run: its directory is in use")
        .with("path", dir.display())
        .hint("move it away, or keep the result elsewhere: taillight import RESULT --as-run DIR")
        .source(e);
    Err(e)
}

/// Whether a file is a result of another tool, by its text.
pub fn is_result(file: &Path) -> bool {
    format_of(file).is_ok_and(|format| format.is_some())
}

/// The format of a file by how it begins, or by words within its first [`MOST_BEFORE`] bytes. Errors: `Usage` for
/// UTF-16 and for no regular file; those of reading.
fn format_of(file: &Path) -> Result<Option<&'static ResultFormat>> {
    let mut head = Vec::new();
    let mut input = opened(file)?;
    let mut more = |to: &mut Vec<u8>| {
        let read = input.by_ref().take(HEAD as u64).read_to_end(to);
        read.map_err(|e| results::unreadable(file.display(), e))
    };
    let full = more(&mut head)? == HEAD;
    if results::is_wide(&head) {
        return Err(Error::usage("the file is UTF-16")
            .with("path", file.display())
            .hint("save it as UTF-8"));
    }
    let found = results::detect(&String::from_utf8_lossy(&head));
    if found.is_some() || !full || head.contains(&0) {
        return Ok(found);
    }
    // What another program printed before it may be long. Words may stand across two parts.
    for _ in 0..MOST_BEFORE / HEAD {
        head.drain(..head.len().saturating_sub(LONGEST_WORDS));
        let read = more(&mut head)?;
        let found = results::detect_within(&String::from_utf8_lossy(&head));
        if found.is_some() || read == 0 {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A file to be read, unpacked. Errors: `Usage` for what is no regular file: a pipe would wait for a writer.
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
