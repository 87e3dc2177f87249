//! What a series needs of the program around it, as one trait that `cli` implements: opening a target,
//! running one plan, making a report, signals, the console, and what the machine says of targets. The border
//! keeps tracing, signals and printing out of this crate, and lets tests run series without a binary. Also here:
//! a job's text and a value assigned to a field of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use taillight_core::exit::Exit;
use taillight_core::job::Job;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_driver::Target;
use taillight_report::{MadeReport, ReportContext};
use taillight_rundir::Summary;
use taillight_rundir::series::ConfirmedTarget;

use crate::method::Point;

/// The program around a series.
pub trait Host {
    /// Opens a target that several points share.
    fn open(&mut self, plan: &Plan) -> Result<Box<dyn Target>>;

    /// Runs one point into the directory that its plan names, on `target` where it is given.
    /// Errors: when nothing was measured and no signal is the cause.
    fn run(&mut self, point: &Point, target: Option<Box<dyn Target>>) -> Result<RunOutcome>;

    /// Makes one report over runs, into `into`. Errors: `Unavailable` when it cannot be written;
    /// `Corrupt` for a run that cannot be read.
    fn report(
        &mut self,
        runs: &[PathBuf],
        into: &Path,
        context: ReportContext,
    ) -> Result<MadeReport>;

    /// The exit code of a signal that asked for the end, if one came.
    fn signal(&self) -> Option<Exit>;

    /// Whether the report of a series is shown with all its tables.
    fn wants_detail(&self) -> bool {
        false
    }

    /// What the machine says of the target of a plan, as the manifest of a run has it.
    fn target_facts(&self, _plan: &Plan) -> Map<String, Value> {
        Map::new()
    }

    /// The targets that the command line named with `--destroy`, with what they are now.
    fn confirmed(&self) -> Vec<ConfirmedTarget> {
        Vec::new()
    }

    /// How long the points after the next one may take, where that is known.
    fn rest(&mut self, _left: Option<Duration>) {}

    /// Shows something on the console.
    fn show(&mut self, message: Message<'_>);
}

/// Something for the console.
#[derive(Debug, Clone, Copy)]
pub enum Message<'a> {
    /// How far the series is: standard output.
    Line(&'a str),
    /// What it comes to: standard output.
    Result(&'a str),
    /// A remark: standard error.
    Note(&'a str),
    /// Why something ended: standard error.
    Problem(&'a Error),
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The exit code it asks for.
    pub exit: Exit,
    /// Its directory; none when nothing was measured.
    pub path: Option<PathBuf>,
    /// Its result; none when there is no report, and for several runs.
    pub summary: Option<Summary>,
}

/// A job file as given, or as a suite made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSource {
    /// Its name in messages.
    pub name: String,
    pub text: String,
    /// Made of the values of something else, which has the name: messages give paths, not lines.
    pub synthetic: bool,
}

impl JobSource {
    /// A file that somebody wrote.
    pub fn written(name: impl Into<String>, text: impl Into<String>) -> JobSource {
        JobSource { name: name.into(), text: text.into(), synthetic: false }
    }

    /// A job made of values.
    pub fn made(name: impl Into<String>, text: impl Into<String>) -> JobSource {
        JobSource { synthetic: true, ..JobSource::written(name, text) }
    }

    /// The job as written. Errors: `Usage` with field and place.
    pub fn job(&self) -> Result<Job> {
        match self.synthetic {
            true => Job::from_values(&self.text, &self.name),
            false => Job::from_toml(&self.text, &self.name),
        }
    }
}

/// A value for a field of a job, `PATH=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Where it is written, for messages: `--set`, or a place in a suite file.
    pub origin: String,
    pub text: String,
}

impl Assignment {
    pub fn new(origin: impl Into<String>, text: impl Into<String>) -> Assignment {
        Assignment { origin: origin.into(), text: text.into() }
    }

    /// The field it sets.
    pub fn path(&self) -> &str {
        self.text.split_once('=').map_or(self.text.as_str(), |(path, _)| path).trim()
    }

    /// Whether it sets the field at `path`, or one above or below it.
    pub fn touches(&self, path: &str) -> bool {
        let mut both = self.path().split('.').zip(path.split('.'));
        both.all(|(a, b)| a == b)
    }

    /// Puts it into the job. Errors: `Usage`, naming the origin.
    pub fn apply(&self, job: &mut Job) -> Result<()> {
        job.apply_assignment(&self.origin, &self.text)
    }
}
