//! `taillight export`: a job or a run as another benchmark's job file, a run or a series as a table, a run
//! as metrics.

use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::job::Job;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result, atomic};
use taillight_import::EXPORTS;
use taillight_report::format::counted;
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, RunDir, check_is_dir};
use taillight_suite::points;

use crate::args::{CSV, ExportArgs, OPENMETRICS, REMOTE_WRITE};
use crate::{output, run};

/// Runs the command. Errors: `Usage` for a job that the format cannot express at all, and for a
/// table of a job; `Corrupt` for a broken run directory.
pub fn main(args: &ExportArgs) -> Result<Exit> {
    let name = args.format.as_deref().or(args.of.is_dir().then_some(CSV));
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
            taillight_live::export(&RunDir::open(&args.of)?)?
        }
        None if name.is_some() && args.of.is_dir() => points::csv(&args.of)?,
        None if args.of.exists() => return Err(no_table(&args.of)),
        None => return check_is_dir(&args.of).map(|()| Exit::Ok),
    };
    match args.output.as_deref().filter(|p| *p != Path::new("-")) {
        Some(path) => atomic::write_new(path, text.as_bytes())?,
        None => output::text(&text)?,
    }
    Ok(Exit::Ok)
}

/// Sends a run's metrics to a server. Errors: `Usage` without one.
fn send(args: &ExportArgs) -> Result<Exit> {
    let url = args.output.as_deref().and_then(Path::to_str).unwrap_or_default();
    let sent = taillight_live::remote_write(&RunDir::open(&args.of)?, url)?;
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

/// A job has measured nothing.
fn no_table(of: &Path) -> Error {
    let formats: Vec<&str> = EXPORTS.iter().map(|f| f.name).collect();
    Error::usage("a table is made of a run or a series, not of a job")
        .with("path", of.display())
        .hint(format!("name another format: --format {}", formats.join(" or --format ")))
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
