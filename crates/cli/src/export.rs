//! `taillight export`: a job or a run as another benchmark's job file, a run or a series as a table, a run in
//! the formats of other tools, or its metrics sent to a server.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::job::Job;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result, atomic};
use taillight_import::EXPORTS;
use taillight_report::export::{RUN_EXPORTS, RunExport};
use taillight_report::format::counted;
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, RunDir, RunStatus, check_is_dir};
use taillight_suite::points;

use crate::args::{CSV, ExportArgs, OPENMETRICS, PROMETHEUS, REMOTE_WRITE};
use crate::{foreign, output, report, run};

/// Bytes of an export that are held before they are written.
const HELD: usize = 1 << 20;

/// Runs the command. Errors: `Usage` for a job that the format cannot express at all, and for a
/// format that needs a run where none is; `Corrupt` for a broken run directory.
pub fn main(args: &ExportArgs) -> Result<Exit> {
    let name = args.format.as_deref().or(args.of.is_dir().then_some(CSV));
    if let Some(format) = RUN_EXPORTS.iter().find(|f| Some(f.name) == name) {
        return write(format, &opened(&args.of)?, args.output.as_deref());
    }
    if name == Some(REMOTE_WRITE) && args.of.is_dir() {
        return send(args);
    }
    let text = match EXPORTS.iter().find(|f| Some(f.name) == name) {
        Some(format) => {
            let exported = (format.export)(&plan(&args.of)?)?;
            for line in &exported.missing {
                output::note(&format!("not the same in {}: {line}", format.name));
            }
            exported.text
        }
        None if name == Some(OPENMETRICS) && args.of.is_dir() => {
            taillight_live::export(&opened(&args.of)?)?
        }
        None if name == Some(PROMETHEUS) && args.of.is_dir() => {
            taillight_live::totals(&opened(&args.of)?)?
        }
        None if name.is_some() && args.of.is_dir() => points::csv(&args.of)?,
        None => {
            return check_is_dir(&args.of)
                .map_or_else(|e| Err(no_run(&args.of, e)), |()| Ok(Exit::Ok));
        }
    };
    match path_of(args.output.as_deref()) {
        Some(path) => atomic::write_new(path, text.as_bytes())?,
        None => output::text(&text)?,
    }
    Ok(Exit::Ok)
}

/// The file that an output names; none is standard output.
fn path_of(output: Option<&Path>) -> Option<&Path> {
    output.filter(|p| *p != Path::new("-"))
}

/// The run directory, after salvage of a killed run and a note on a partial or failed one. Errors: `Usage` for a job,
/// a result of another tool and a series; `Unavailable` or `Corrupt` for a directory that is no readable run.
fn opened(of: &Path) -> Result<RunDir> {
    check_is_dir(of).map_err(|e| no_run(of, e))?;
    if SeriesFile::read(of)?.is_some() {
        return Err(Error::usage("a series has several runs")
            .with("path", of.display())
            .hint("name the directory of one of its runs; --format csv makes a table of all"));
    }
    report::rescue(of)?;
    let dir = RunDir::open(of)?;
    let why = dir.manifest().reason.as_deref();
    match dir.status() {
        RunStatus::Partial => {
            output::note(&format!("partial run: {}", why.unwrap_or("it was killed")))
        }
        RunStatus::Failed => {
            output::note(&format!("failed run: {}", why.unwrap_or("no reason kept")))
        }
        RunStatus::Running | RunStatus::Complete => {}
    }
    Ok(dir)
}

/// Writes a run, while it is read, in a format of another tool to a new file or standard output.
fn write(format: &RunExport, dir: &RunDir, to: Option<&Path>) -> Result<Exit> {
    let said = match path_of(to) {
        Some(path) => {
            let (parent, name) = atomic::place(path)?;
            let mut out =
                BufWriter::with_capacity(HELD, atomic::TempFile::create_new(parent, name)?);
            let said = (format.write)(dir, &mut out)?;
            let file =
                out.into_inner().map_err(|e| atomic::cannot("write", path, e.into_error()))?;
            file.commit()?;
            said
        }
        None if format.binary && io::stdout().is_terminal() => {
            return Err(Error::usage(format!(
                "{} is no text, and this is a terminal",
                format.name
            ))
            .hint("name a file: --output FILE"));
        }
        None => {
            let out = ReadOutput { out: io::stdout().lock(), gone: false };
            let mut out = BufWriter::with_capacity(HELD, out);
            let written = (format.write)(dir, &mut out).and_then(|said| {
                out.flush()
                    .map_err(|e| Error::unavailable("cannot write to standard output").source(e))?;
                Ok(said)
            });
            match written {
                // The reader of standard output has what it wanted.
                Err(_) if out.get_ref().gone => Vec::new(),
                written => written?,
            }
        }
    };
    said.iter().for_each(|line| output::note(&format!("{}: {line}", format.name)));
    Ok(Exit::Ok)
}

/// Standard output, and whether its reader went away.
struct ReadOutput<W> {
    out: W,
    gone: bool,
}

impl<W: Write> ReadOutput<W> {
    fn seen<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.gone |= done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl<W: Write> Write for ReadOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.seen(done)
    }
    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.seen(done)
    }
}

/// Sends a run's metrics to the server that `--output` names. Errors: `Usage` without a server; those of sending.
fn send(args: &ExportArgs) -> Result<Exit> {
    let url = args.output.as_deref().and_then(Path::to_str).unwrap_or_default();
    let sent = taillight_live::remote_write(&opened(&args.of)?, url)?;
    output::line(&format!(
        "sent: {}, {}",
        counted(sent.samples, "sample"),
        counted(sent.native, "native histogram")
    ));
    if sent.native_refused {
        output::note(
            "the server took no native histograms (Prometheus before 3: \
             --enable-feature=native-histograms): percentiles come from classic buckets",
        );
    }
    Ok(Exit::Ok)
}

/// The error for what is no run directory: a job has measured nothing, and a result of another tool is no run yet.
fn no_run(of: &Path, e: Error) -> Error {
    if !of.is_file() {
        return e;
    }
    if foreign::is_result(of) {
        return Error::usage("this is a result of another tool, not a run directory")
            .with("path", of.display())
            .hint("`taillight import RESULT --as-run DIR` makes one of it");
    }
    let formats: Vec<&str> = EXPORTS.iter().map(|f| f.name).collect();
    Error::usage("this is a file: what was measured is in a run directory or a series")
        .with("path", of.display())
        .hint(format!(
            "name a run directory; of a job file: --format {}",
            formats.join(" or --format ")
        ))
}

/// The plan of a run directory or of a job file.
fn plan(of: &Path) -> Result<Plan> {
    if of.is_dir() && SeriesFile::read(of)?.is_some() {
        return Err(Error::usage("a series has several jobs")
            .with("path", of.display())
            .hint("name the directory of one of its runs"));
    }
    if of.is_dir() {
        return Ok(RunDir::open(of)?.manifest().plan.clone());
    }
    let given = run::read(of)?;
    if taillight_import::detect(&given.name, &given.text).is_some() {
        return Err(Error::usage("this is a job file of another benchmark already")
            .with("path", &given.name)
            .hint("`taillight import` makes Taillight job files of it"));
    }
    run::resolve(&Job::from_toml(&given.text, &given.name)?)
}
