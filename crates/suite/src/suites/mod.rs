//! Suites: series described by a file of `suites/`, or by a file of the user.
//!
//! What it is: finding and reading a suite file, and the method that its rule names. What it is not:
//! the methods themselves, one module for each rule. A new suite is one file in `suites/`; only one
//! that decides in a new way needs a rule: a module here and a line in [`SuiteFile`]. Called by
//! `taillight suite`.

mod matrix;
mod request;
mod slc_paper;
mod slc_paper_words;
mod ycsb;
mod ycsb_words;

use std::path::PathBuf;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

use crate::host::JobSource;
use crate::method::{Method, SeriesHead};
use matrix::MatrixSuite;
pub use request::SuiteRequest;
use slc_paper::SlcPaperSuite;
use ycsb::YcsbSuite;

/// The files of `suites/`, by name.
const EMBEDDED: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// A suite file. `rule` says what decides which run is next.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum SuiteFile {
    /// Phases of loops over fields of one job.
    Matrix(MatrixSuite),
    /// Workloads as properties of YCSB, on one store.
    Ycsb(YcsbSuite),
    /// The study of the SLC factors: a writer and a reader for each system and size.
    SlcPaper(SlcPaperSuite),
}

/// Makes a plan of a job and of assignments like those of `--set`. What drivers and the machine
/// allow is the caller's knowledge.
pub type Planner = Rc<dyn Fn(&JobSource, &[String]) -> Result<Plan>>;

/// A suite that is ready to run.
pub struct PreparedSuite {
    pub method: Box<dyn Method>,
    /// The plans that are known beforehand, in order.
    pub plans: Vec<Plan>,
    /// Remarks for people, on what was asked.
    pub notes: Vec<String>,
    /// A directory that the runs need and that goes afterwards if it was made for them.
    pub work_directory: Option<PathBuf>,
}

/// Names of the suites that are part of the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The text of a suite that is part of the program; none for other names.
pub fn embedded(name: &str) -> Option<JobSource> {
    let (_, text) = EMBEDDED.iter().find(|(n, _)| *n == name)?;
    Some(JobSource { name: format!("suites/{name}.toml"), text: (*text).to_owned() })
}

impl SuiteFile {
    /// Reads a suite file. Errors: `Usage` when the text is no suite.
    pub fn parse(source: &JobSource) -> Result<SuiteFile> {
        toml::from_str(&source.text).map_err(|e| {
            Error::usage("this is no suite file")
                .with("file", &source.name)
                .with("why", e.message())
                .hint("`taillight schema suite` describes it, suites/ has examples")
        })
    }

    /// The method of this suite. Errors: `Usage` for a request the suite does not understand, and
    /// for plans that cannot be made.
    pub fn prepare(self, request: SuiteRequest, planner: Planner) -> Result<PreparedSuite> {
        match self {
            SuiteFile::Matrix(suite) => matrix::prepare(suite, &request, planner.as_ref()),
            SuiteFile::Ycsb(suite) => ycsb::prepare(&suite, &request, planner.as_ref()),
            SuiteFile::SlcPaper(suite) => slc_paper::prepare(suite, request, planner),
        }
    }
}

/// JSON Schema of suite files.
pub fn schema_suite() -> serde_json::Value {
    schemars::schema_for!(SuiteFile).to_value()
}

/// What all suites say before their first point.
fn head(name: &str, seed: u64) -> SeriesHead {
    SeriesHead {
        method: name.to_owned(),
        job: name.to_owned(),
        seed,
        axes: Vec::new(),
        planned: Vec::new(),
        job_text: None,
        introduction: Vec::new(),
        announced: true,
    }
}

/// A job made of values: its name in messages, and the text that goes through the same checks as
/// any job file.
fn job_source(name: &str, suite: &str, job: &toml::Table) -> Result<JobSource> {
    let text = toml::to_string(job)
        .map_err(|e| Error::internal("a job cannot be written as TOML").source(e))?;
    Ok(JobSource { name: format!("{name}.toml, made by suite {suite}"), text })
}

/// Refuses repetitions and searches on a target that several runs share. Errors: `Usage`.
fn require_single_runs<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Result<()> {
    match plans.into_iter().find(|plan| plan.is_series()) {
        None => Ok(()),
        Some(plan) => Err(Error::usage("a run on a shared target cannot be repeated or searched")
            .with("run", &plan.run.name)
            .hint("leave run.repeat and [search] out; a phase of a matrix has `rounds`")),
    }
}

#[cfg(test)]
mod tests;
