//! `cargo xtask demo`: ten short runs on the file system of the current directory and the embedded
//! stores, and one report with all of them. What is run is in `jobs/demo/*.toml`; a store whose library is missing is
//! left out. Shows what each run prints.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::tool;

/// Where the data file and the runs go, in the current directory.
const HOME: &str = "taillight-runs/demo";
/// Builds in a fraction of the time of `release`; see `Cargo.toml`.
const PROFILE: &str = "demo";
/// Exit code of a run that is not possible here.
const UNAVAILABLE: i32 = 4;

pub fn main() -> Result<bool> {
    let home = Path::new(HOME);
    std::fs::create_dir_all(home.join("data")).with_context(|| format!("cannot write {HOME}"))?;
    println!("demo: building Taillight (some minutes the first time)");
    tool::build(PROFILE)?;
    let session = fresh(home)?;
    println!("demo: 1 GiB in {HOME}/data/, kept for the next time; runs in {}", session.display());
    println!("demo: nothing else on this disk is touched");
    let direct = has_direct(home)?;
    if !direct {
        println!("demo: no direct I/O on this file system: the page cache is in these figures");
    }
    let start = Instant::now();
    let mut runs = Vec::new();
    let mut all_good = true;
    for job in jobs()? {
        let run = session.join(job.file_stem().context("job without a name")?);
        println!("\n== {}", run.display());
        let Some(good) = measure(&job, &run, direct)? else {
            continue;
        };
        all_good &= good;
        if runs.is_empty() {
            println!("demo: the first report: {}", run.join("report.html").display());
        }
        runs.push(run);
    }
    ensure!(!runs.is_empty(), "no run could begin");
    let html = session.join("report.html");
    let mut report = taillight("report");
    println!("\n{}", tool::output(report.args(&runs).arg("--output").arg(&html))?);
    println!("demo: {} runs in {} s", runs.len(), start.elapsed().as_secs());
    println!("demo: open {}", html.display());
    Ok(all_good)
}

fn taillight(command: &str) -> Command {
    let mut taillight = Command::new(tool::binary(PROFILE, "taillight"));
    taillight.arg(command);
    taillight
}

/// The job files, in the order of their names.
fn jobs() -> Result<Vec<PathBuf>> {
    let dir = tool::root().join("jobs/demo");
    let entries = std::fs::read_dir(&dir).with_context(|| dir.display().to_string())?;
    let mut jobs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    jobs.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    jobs.sort();
    ensure!(!jobs.is_empty(), "no job in {}", dir.display());
    Ok(jobs)
}

/// Whether a file here can be opened around the page cache.
fn has_direct(home: &Path) -> Result<bool> {
    let file = home.join("direct.tmp");
    std::fs::write(&file, b"x")?;
    let mut read = Command::new("dd");
    read.arg(format!("if={}", file.display()));
    read.args(["of=/dev/null", "iflag=direct", "bs=4096", "count=1", "status=none"]);
    let direct = tool::output(&mut read).is_ok();
    std::fs::remove_file(&file)?;
    Ok(direct)
}

/// A new directory for this time's runs: the first free number.
fn fresh(home: &Path) -> Result<PathBuf> {
    let dirs = (1..10_000).map(|number| home.join(format!("{number:03}")));
    let dir = dirs.into_iter().find(|dir| !dir.exists()).context("too many demo runs here")?;
    std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
    Ok(dir)
}

/// One run. `Some(false)` when its exit code is not 0, `None` when a store's library is not here.
fn measure(job: &Path, run: &Path, direct: bool) -> Result<Option<bool>> {
    let on_files = std::fs::read_to_string(job)?.contains("driver = \"file\"");
    let mut command = taillight("run");
    command.arg(job).arg("--output").arg(run).arg("-q").stdin(Stdio::null());
    if !direct && on_files {
        command.args(["--set", "target.options.direct=false"]);
    }
    let Output { status, stdout, stderr } = command.output().context("cannot start taillight")?;
    let said = String::from_utf8_lossy(&stderr);
    if status.code() == Some(UNAVAILABLE) && !on_files {
        println!("skipped: {}", said.lines().next().unwrap_or("it said nothing"));
        return Ok(None);
    }
    if !run.join("summary.json").is_file() {
        bail!("{}: {status}\n{}", job.display(), said.trim());
    }
    println!("{}", String::from_utf8_lossy(&stdout).trim_end());
    Ok(Some(status.success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_file_is_found() {
        assert_eq!(jobs().unwrap().len(), 10);
    }
}
