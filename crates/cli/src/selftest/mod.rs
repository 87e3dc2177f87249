//! `taillight selftest`: runs whose result is known beforehand, made as any run is, and a table of known truths against
//! what their summaries say; also whether the clock goes back. Its other figures are what the tool costs on this
//! machine; the machine's storage is not benchmarked.

mod clock;
mod truths;

use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::exit::Exit;
use taillight_core::job::{FlagValue, Job};
use taillight_core::{Error, Result};
use taillight_report::format::{count, duration};
use taillight_rundir::Summary;
use taillight_suite::host::JobSource;

use crate::args::SelftestArgs;
use crate::run::{self, Signals};
use crate::{output, version};
use truths::{CASES, TruthCase};

/// What `selftest` says, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SelftestFile {
    /// Version of this format.
    schema: u32,
    /// Version and commit of Taillight.
    taillight: String,
    /// Whether every check was as it should be.
    passed: bool,
    /// What was checked, in the order of the table.
    checks: Vec<SelftestCheck>,
    /// What the tool costs on this machine.
    machine: SelfCost,
}

/// One known truth.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SelftestCheck {
    /// The run it is about.
    run: String,
    /// What was looked at.
    what: String,
    /// What is true.
    truth: String,
    /// What was found.
    found: String,
    passed: bool,
}

/// What the tool costs on this machine.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SelfCost {
    /// The kernel's clock source.
    clock: Option<String>,
    /// One reading of the clock, ns.
    clock_ns: f64,
    /// Of an I/O that does nothing, ns: the driver `null`, one worker, 32 deep.
    null_ns_per_op: Option<f64>,
    /// Of that, keeping every I/O, ns.
    capture_ns_per_op: Option<f64>,
    /// The whole selftest, seconds.
    seconds: f64,
}

impl SelftestCheck {
    fn new(what: &str, truth: &str, found: String, passed: bool) -> SelftestCheck {
        SelftestCheck {
            run: String::new(),
            what: what.to_owned(),
            truth: truth.to_owned(),
            found,
            passed,
        }
    }

    /// Something that must be just so.
    fn same(what: &str, truth: &str, found: String) -> SelftestCheck {
        let passed = truth == found;
        SelftestCheck::new(what, truth, found, passed)
    }

    /// A number that must be just so.
    fn equal(what: &str, truth: u64, found: u64) -> SelftestCheck {
        SelftestCheck::same(what, &count(truth), count(found))
    }
}

/// Runs the command. `GateFailed` where a check is not as it should be. Errors: `Unavailable` when there is no room for
/// its runs; those of a run.
pub fn main(args: &SelftestArgs) -> Result<Exit> {
    let begun = Instant::now();
    let signals = Signals::install(false)?;
    let home = Scratch::make()?;
    let (mut checks, mut machine) = clock::check();
    for case in CASES {
        let summary = made(case, &home, &signals)?;
        let Some(summary) = summary else {
            return Ok(signals.exit().unwrap_or(Exit::TargetFailed));
        };
        if let Some(why) = summary.verdict.reasons.iter().find(|r| r.code == "capture_degraded") {
            return Err(Error::unavailable("the selftest needs room for single I/Os")
                .with("why", &why.text)
                .hint("give it 16 MiB of /dev/shm that it may write to"));
        }
        if case.name == "null" {
            machine.null_ns_per_op = summary.overhead.null_ns_per_op;
            machine.capture_ns_per_op = summary.overhead.capture_ns_per_op;
        }
        let found = (case.check)(&summary).into_iter();
        checks.extend(found.map(|check| SelftestCheck { run: case.name.to_owned(), ..check }));
    }
    machine.seconds = begun.elapsed().as_secs_f64();
    let passed = checks.iter().all(|check| check.passed);
    let file =
        SelftestFile { schema: 1, taillight: version::with_commit(), passed, checks, machine };
    match args.json {
        true => output::json(&file)?,
        false => output::text(&table(&file))?,
    }
    Ok(if passed { Exit::Ok } else { Exit::GateFailed })
}

/// The summary of a run; none when a signal ended it.
fn made(case: &TruthCase, home: &Scratch, signals: &Signals) -> Result<Option<Summary>> {
    let mut job: Job = JobSource::written(format!("selftest {}", case.name), case.text()).job()?;
    let dir = home.0.join(case.name).to_string_lossy().into_owned();
    job.apply("selftest", "run.output", FlagValue::Text(&dir))?;
    run::figures_of(&run::resolve(&job)?, signals)
}

/// A directory for the runs, removed when this is dropped.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn make() -> Result<Scratch> {
        let path = std::env::temp_dir().join(format!("taillight-{}", run::directory::fresh_id()));
        std::fs::create_dir(&path).map_err(|e| {
            Error::unavailable("cannot make a directory for the runs of the selftest")
                .with("path", path.display())
                .source(e)
                .hint("TMPDIR names another place")
        })?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Made a moment ago under a name of its own.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn table(file: &SelftestFile) -> String {
    let mut rows = Vec::new();
    for check in &file.checks {
        let word = if check.passed { "ok" } else { "WRONG" };
        let found = match check.passed {
            true => check.found.clone(),
            false => format!("{}, but {} is true", check.found, check.truth),
        };
        rows.push(vec![word.to_owned(), check.run.clone(), check.what.clone(), found]);
    }
    let cost = &file.machine;
    let ns = |ns: Option<f64>| ns.map_or("unknown".to_owned(), |ns| duration(ns.max(0.0)));
    let keeping = cost
        .capture_ns_per_op
        .map_or(String::new(), |capture| format!(", {} of it to keep it", ns(Some(capture))));
    let wrong = file.checks.iter().filter(|check| !check.passed).count();
    let verdict = match wrong {
        0 => format!("All {} checks are as they should be.", file.checks.len()),
        n => format!("{n} of {} checks are WRONG; please report it.", file.checks.len()),
    };
    format!(
        "{}\nAn I/O costs Taillight {} on this machine{keeping};\na reading of the clock ({}) costs {}.\n\n\
         {verdict}\n({:.1} s, {})\n",
        output::columns(&rows),
        ns(cost.null_ns_per_op),
        cost.clock.as_deref().unwrap_or("unknown"),
        ns(Some(cost.clock_ns)),
        cost.seconds,
        file.taillight,
    )
}
