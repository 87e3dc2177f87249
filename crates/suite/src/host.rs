//! What a series needs of the program around it.
//!
//! What it is: opening a target, running one plan, making a report, and the console, as one trait
//! that `cli` implements. What it is not: the order of runs ([`crate::runner`]). The border keeps
//! tracing, signals and printing out of this crate, and lets tests run series without a binary.

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_driver::Target;
use taillight_report::{MadeReport, ReportContext};
use taillight_rundir::Summary;

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

    /// Shows something on the console.
    fn show(&mut self, message: Message<'_>);
}

/// Something for the console.
#[derive(Debug, Clone, Copy)]
pub enum Message<'a> {
    /// A result: standard output.
    Line(&'a str),
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

/// A job file as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSource {
    /// Its name in messages.
    pub name: String,
    pub text: String,
}
