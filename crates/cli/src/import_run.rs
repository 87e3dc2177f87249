//! `taillight import FILE --run RUN`: what other tools saw of a run, added to its directory.
//!
//! These are logs of an NVMe drive (JSON of nvme-cli) and bus captures. The run's own measurements are never changed. A
//! file that is refused adds nothing to the directory. The I/Os of a killed run are recovered first.

use std::io::Read;
use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_rundir::nvme::{Logs, NvmeDrive, NvmeFile};
use taillight_rundir::{RunDir, SCHEMA_VERSION, names, sums};
use taillight_trace::bus::{self, mapping::BusMapping};
use taillight_trace::nvme::json;

use crate::args::{ImportArgs, Moment};
use crate::{foreign, output, report};

/// Largest file that is read into memory.
const MOST_BYTES: u64 = 8 << 30;

/// Runs the command, and makes the run's report again. Errors: `Usage` for files of no known kind, for a capture that
/// does not belong to the run, a log that is there already, and while the run goes on.
pub fn main(args: &ImportArgs, run: &Path) -> Result<Exit> {
    let dir = RunDir::open(run)?;
    if dir.is_live() {
        return Err(Error::usage("the run is still going on")
            .with("path", run.display())
            .hint("import when it has ended"));
    }
    report::rescue(run)?;
    let mut dir = RunDir::open(run)?;
    let file = args.file();
    let given = read(file)?;
    match &args.map {
        Some(map) => {
            add_bus_table(&dir, file, &given, &BusMapping::parse(&read(map)?)?)?;
            sums::add(&mut dir, names::BUS)?;
        }
        None if json::looks_like(&given) => add_drive_logs(&dir, args, json::parse(&given)?)?,
        None => {
            let what = "the file is of no kind that can be added to a run";
            return Err(Error::usage(what)
                .with("path", file.display())
                .hint("known: JSON of nvme-cli, and with --map the table of a bus analyser"));
        }
    }
    report::of_run(dir.path(), None, true)?;
    let page = dir.file(names::REPORT);
    output::line(&format!("Report  {}", in_line(page.display())));
    Ok(Exit::Ok)
}

fn add_bus_table(dir: &RunDir, file: &Path, text: &str, map: &BusMapping) -> Result<()> {
    let commands = bus::commands(text, map)?;
    if commands.bad > 0 {
        output::note(&format!("{} lines could not be read and are left out", commands.bad));
    }
    let info = bus::join(dir, &name(file), &commands)?;
    output::line(&format!(
        "{} of {} traced I/Os in the time of the capture are on the bus; drift {:.2} ppm, residual {} ns (99 %: {} ns), \
         offset known to {} ns",
        info.matched,
        info.covered,
        info.drift_ppm,
        info.residual_p50_ns,
        info.residual_p99_ns,
        info.slack_ns
    ));
    Ok(())
}

/// Puts the logs of one moment beside those that are there. Errors: `Usage` without `--moment`, for a run on several
/// drives, and for a log that is there already.
fn add_drive_logs(dir: &RunDir, args: &ImportArgs, new: Logs) -> Result<()> {
    let moment = args.moment.ok_or_else(|| {
        Error::usage("the log does not say when it was read")
            .hint("add --moment before or --moment after")
    })?;
    let mut file = dir.read()?.unwrap_or(NvmeFile { schema: SCHEMA_VERSION, drives: Vec::new() });
    let drive = match file.drives.as_mut_slice() {
        [] => {
            file.drives.push(NvmeDrive { name: "drive".to_owned(), ..NvmeDrive::default() });
            file.drives.last_mut()
        }
        [one] => Some(one),
        _ => None,
    };
    let drive = drive.ok_or_else(|| {
        Error::usage("the run has several drives; which of them this log is from is not known")
            .hint("logs can be added to runs on one drive")
    })?;
    let place = match moment {
        Moment::Before => &mut drive.before,
        Moment::After => &mut drive.after,
    };
    let logs = place.get_or_insert_default();
    let twice = (logs.smart.is_some() && new.smart.is_some())
        || (logs.errors.is_some() && new.errors.is_some())
        || (logs.latency_monitor.is_some() && new.latency_monitor.is_some());
    if twice {
        return Err(Error::usage("the run has this log of this moment already")
            .hint("give the other --moment, or remove nvme.json from the run directory"));
    }
    logs.smart = logs.smart.take().or(new.smart);
    logs.errors = logs.errors.take().or(new.errors);
    logs.latency_monitor = logs.latency_monitor.take().or(new.latency_monitor);
    dir.write(&file)
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// A whole file of text.
fn read(path: &Path) -> Result<String> {
    foreign::check_readable(path)?;
    let cannot = |e: std::io::Error| {
        Error::usage("cannot read the file").with("path", path.display()).source(e)
    };
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::usage("the file is larger than 8 GiB")
            .with("path", path.display())
            .hint("cut out the time of the run"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::usage("the file is not UTF-8 text").with("path", path.display()))
}
