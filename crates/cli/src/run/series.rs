//! Several runs that belong together: one directory that holds theirs, its job file, one report.
//!
//! What it is: what searches and repetitions share. What it is not: a run, or the decision how
//! many there are (see `search`, `repeat`).

use std::path::{Path, PathBuf};

use taillight_core::Percentile;
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Result, clock};
use taillight_report::ReportContext;
use taillight_rundir::{PercentileEntry, atomic, names};

use super::{Done, Order, directory, one};
use crate::{output, report};

/// The directory of a series.
pub struct Series {
    path: PathBuf,
    /// Run directories that hold something, in the order they were made.
    runs: Vec<PathBuf>,
}

impl Series {
    /// Chooses the directory: the plan's output, which must be new or empty, or a new one. Nothing
    /// is made yet.
    ///
    /// # Errors
    /// `Usage` when the output directory holds something.
    pub fn new(plan: &Plan) -> Result<Series> {
        let path = match &plan.run.output {
            Some(output) => PathBuf::from(output),
            None => directory::unused(&format!(
                "{}/{}-{}",
                directory::HOME,
                plan.run.name,
                directory::utc(clock::realtime_ns())
            ))?,
        };
        directory::vacant(&path)?;
        Ok(Series {
            path,
            runs: Vec::new(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does one run of the series in its own directory `name`.
    ///
    /// # Errors
    /// As a single run; a series that measured nothing leaves no directory.
    pub fn run(&mut self, order: &Order<'_>, plan: &Plan, name: &str) -> Result<Done> {
        let place = self.path.join(name);
        let mut plan = plan.clone();
        plan.run.repeat = 1;
        plan.run.output = Some(place.to_string_lossy().into_owned());
        let quiet = Order {
            plan: &plan,
            quiet: true,
            ..*order
        };
        let done = one(&quiet);
        match &done {
            Ok(Done {
                path: Some(path), ..
            }) => {
                if self.runs.is_empty() {
                    let job = directory::job_text(order.plan, order.job)?;
                    atomic::write(&self.path, names::JOB, job.as_bytes())?;
                }
                self.runs.push(path.clone());
            }
            _ if self.runs.is_empty() => self.discard(),
            _ => {}
        }
        done
    }

    /// Nothing was measured: the directory goes, unless it holds something.
    fn discard(&self) {
        let _ = std::fs::remove_dir(&self.path);
        if let Some(home) = self.path.parent().filter(|p| p.ends_with(directory::HOME)) {
            let _ = std::fs::remove_dir(home);
        }
    }

    /// Makes the report over `runs`, names of run directories of the series, and says where it is.
    ///
    /// # Errors
    /// As [`report::of_series`].
    pub fn report(&self, runs: &[String], frame: ReportContext) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        let runs: Vec<PathBuf> = runs.iter().map(|r| self.path.join(r)).collect();
        let made = report::of_series(&runs, &self.path, frame)?;
        if let Some(page) = made.html {
            output::line(&format!("Report  {}", page.display()));
        }
        output::line(&format!("Runs    {}/", self.path.display()));
        Ok(())
    }
}

/// Whether no further run makes sense after this one.
pub fn ends(exit: Exit) -> bool {
    !matches!(
        exit,
        Exit::Ok | Exit::IoErrors | Exit::GateFailed | Exit::GateUndecided
    )
}

/// Lets the summary of a plan answer these percentiles as well.
pub fn ask_for(plan: &mut Plan, percentiles: &[Percentile]) {
    for wanted in percentiles {
        if !plan.qos.percentiles.contains(wanted) {
            plan.qos.percentiles.push(*wanted);
        }
    }
}

/// The entry of a percentile.
pub fn percentile<'a>(list: &'a [PercentileEntry], wanted: &str) -> Option<&'a PercentileEntry> {
    list.iter().find(|p| same(&p.p, wanted))
}

fn same(a: &str, b: &str) -> bool {
    a == b || a.parse::<Percentile>().is_ok_and(|a| b.parse() == Ok(a))
}
