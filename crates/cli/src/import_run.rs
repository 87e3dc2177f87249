//! `taillight import FILE --run RUN`: what other tools saw of a run, added to its directory.
//!
//! Logs of drives, block traces and bus captures. The run's own measurements are never changed; a
//! file that does not fit is refused and leaves the directory as it was.

use std::io::Read;
use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_rundir::nvme::{Logs, NvmeDrive, NvmeFile, read_nvme, write_nvme};
use taillight_rundir::{RunDir, SCHEMA_VERSION};
use taillight_trace::bus::{self, mapping::Mapping};
use taillight_trace::foreign::{self, Trace, biosnoop, blktrace, bpftrace};
use taillight_trace::nvme::json;

use crate::args::{ImportArgs, Moment};
use crate::{output, report};

/// Largest file that is read into memory.
const MOST_BYTES: u64 = 8 << 30;

/// Runs the command.
///
/// # Errors
/// `Usage` for files of no known kind and for those that do not belong to the run.
pub fn main(args: &ImportArgs, run: &Path) -> Result<Exit> {
    let mut dir = RunDir::open(run)?;
    if dir.is_live() {
        return Err(Error::usage("the run is still going on")
            .with("path", run.display())
            .hint("import when it has ended"));
    }
    let bytes = read(&args.file)?;
    if let Some(map) = &args.map {
        let map = Mapping::parse(&text(read(map)?, map)?)?;
        captured(&dir, &args.file, &text(bytes, &args.file)?, &map)?;
    } else if blktrace::looks_like(&bytes) {
        let trace = blktrace::parse(&siblings(&args.file, bytes)?)?;
        traced(&mut dir, &trace)?;
    } else {
        known(&mut dir, args, &text(bytes, &args.file)?)?;
    }
    report::of_run(dir.path())?;
    let page = dir.file(taillight_rundir::names::REPORT);
    output::line(&format!("Report  {}", page.display()));
    Ok(Exit::Ok)
}

/// A text, by what it looks like.
fn known(dir: &mut RunDir, args: &ImportArgs, text: &str) -> Result<()> {
    if json::looks_like(text) {
        return logs(dir, args, json::parse(text)?);
    }
    if biosnoop::looks_like(text) {
        return traced(dir, &biosnoop::parse(text)?);
    }
    if bpftrace::looks_like(text) {
        return traced(dir, &bpftrace::parse(text)?);
    }
    Err(Error::usage("the file is of no kind that can be added to a run")
        .with("path", args.file.display())
        .hint(
            "known: blktrace's binary files, biosnoop's and bpftrace's text, JSON of nvme-cli, and \
             with --map the table of a bus analyser",
        ))
}

fn traced(dir: &mut RunDir, trace: &Trace) -> Result<()> {
    let joined = foreign::join(dir, trace)?;
    trace.notes.iter().for_each(|n| output::note(n));
    output::line(&format!(
        "{}: {} of {} I/Os have their block I/O ({:.1} % of those in the time of the trace); {} \
         block I/Os of others",
        trace.tool,
        joined.matched.pairs.len(),
        joined.ios,
        joined.matched.share() * 100.0,
        joined.neighbours
    ));
    if joined.clock.residual_ns != [0, 0] {
        output::line(&format!(
            "clocks fitted: drift {:.2} ppm, residual {} ns (99 %: {} ns)",
            joined.clock.drift * 1e6,
            joined.clock.residual_ns[0],
            joined.clock.residual_ns[1]
        ));
    }
    Ok(())
}

fn captured(dir: &RunDir, file: &Path, text: &str, map: &Mapping) -> Result<()> {
    let commands = bus::commands(text, map)?;
    if commands.bad > 0 {
        output::note(&format!(
            "{} lines could not be read and are left out",
            commands.bad
        ));
    }
    let info = bus::join(dir, &name(file), &commands)?;
    output::line(&format!(
        "{} of {} traced I/Os are on the bus; drift {:.2} ppm, residual {} ns (99 %: {} ns), \
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

/// Puts the logs of one moment beside those that are there.
fn logs(dir: &RunDir, args: &ImportArgs, new: Logs) -> Result<()> {
    let moment = args.moment.ok_or_else(|| {
        Error::usage("the log does not say when it was read")
            .hint("add --moment before or --moment after")
    })?;
    let mut file = read_nvme(dir)?.unwrap_or(NvmeFile {
        schema: SCHEMA_VERSION,
        drives: Vec::new(),
    });
    let drive = match file.drives.as_mut_slice() {
        [] => {
            file.drives.push(NvmeDrive {
                name: "drive".to_owned(),
                ..NvmeDrive::default()
            });
            file.drives.last_mut()
        }
        [one] => Some(one),
        _ => None,
    };
    let drive = drive.ok_or_else(|| {
        Error::usage("the run has several drives; whose log this is cannot be told")
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
    write_nvme(dir, &file)
}

/// The other per-CPU files of a blktrace, with this one.
fn siblings(file: &Path, bytes: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let own = name(file);
    let stem = own.rsplit_once('.').filter(|(stem, cpu)| {
        stem.ends_with(".blktrace") && cpu.chars().all(|c| c.is_ascii_digit())
    });
    let mut all = vec![bytes];
    let Some((stem, _)) = stem else {
        return Ok(all);
    };
    let here = file.parent().filter(|p| !p.as_os_str().is_empty());
    let entries = std::fs::read_dir(here.unwrap_or(Path::new("."))).into_iter();
    let mut others: Vec<PathBuf> = entries
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let other = name(p);
            let cpu = other.strip_prefix(stem).and_then(|r| r.strip_prefix('.'));
            other != own && cpu.is_some_and(|c| c.chars().all(|c| c.is_ascii_digit()))
        })
        .collect();
    others.sort();
    for path in others {
        let bytes = read(&path)?;
        if !bytes.is_empty() {
            all.push(bytes);
        }
    }
    Ok(all)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let cannot = |e: std::io::Error| {
        Error::usage("cannot read the file")
            .with("path", path.display())
            .source(e)
    };
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::usage("the file is larger than 8 GiB")
            .with("path", path.display())
            .hint("cut out the time of the run"));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>, path: &Path) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        Error::usage("the file is neither text nor a trace of blktrace")
            .with("path", path.display())
    })
}
