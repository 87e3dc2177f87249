//! Suites: series described by a file of `suites/`, or by a file of the user. Finds and reads a suite file,
//! and makes the method that its rule names. A new suite is one file in `suites/`; only a suite that decides
//! in a new way needs a rule: a module here and a line in [`SuiteFile`]. Called by `taillight suite`.

mod amend;
mod answer_text;
mod answers;
mod loops;
mod matrix;
mod matrix_method;
mod matrix_points;
mod matrix_text;
mod operating;
mod operating_text;
mod phases;
mod phases_files;
mod phases_text;
mod recovery;
mod request;
mod second_look;
mod sheet;
mod slc_paper;
mod slc_paper_text;
mod steady;
mod sweep;
mod targets;
mod targets_text;
mod ycsb;
mod ycsb_text;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_rundir::series::PointRole;

use crate::host::{Assignment, JobSource};
use crate::method::{Method, Point, SeriesHead, SharedUse};
pub(crate) use loops::value_text;
pub(crate) use loops::{length, load_ns};
use matrix::{MatrixSuite, SuiteJob};
use phases::PhasesSuite;
pub use request::SuiteRequest;
use slc_paper::SlcPaperSuite;
pub use sweep::prepare_sweep;
use ycsb::YcsbSuite;

/// The files of `suites/`, by name.
const EMBEDDED: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/suites.rs"));

/// A suite file. `rule` says what decides which run is next.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "kebab-case")]
pub enum SuiteFile {
    /// Phases of loops over fields of one job.
    Matrix(Box<MatrixSuite>),
    /// Workloads as properties of YCSB, on one store.
    Ycsb(YcsbSuite),
    /// The study of the SLC factors: a writer and a reader for each system and size.
    SlcPaper(SlcPaperSuite),
    /// Jobs in order in one directory, each on what those before it have made.
    Phases(PhasesSuite),
}

/// Makes a plan of a job and of assignments like those of `--set`. What drivers and the machine
/// allow is the caller's knowledge.
pub type Planner = Rc<dyn Fn(&JobSource, &[Assignment]) -> Result<Plan>>;

/// A suite that is ready to run.
pub struct PreparedSuite {
    pub method: Box<dyn Method>,
    /// The plans that are known beforehand, in order.
    pub plans: Vec<Plan>,
    /// Remarks for people, on what was asked.
    pub notes: Vec<String>,
    /// A directory that the runs need and that goes afterwards if it was made for them.
    pub work_directory: Option<PathBuf>,
    /// Directories in which a series that is not resumed begins only if they are empty.
    pub empty_directories: Vec<PathBuf>,
}

impl PreparedSuite {
    /// Errors: `Refused` where something is in a directory that has to be empty.
    pub fn begins_in_empty_directories(&self) -> Result<()> {
        phases_files::begins_in_empty(&self.empty_directories)
    }
}

/// Names of the suites that are part of the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    EMBEDDED.iter().map(|(name, _)| *name)
}

/// The text of a suite that is part of the program; none for other names.
pub fn embedded(name: &str) -> Option<JobSource> {
    let (_, text) = EMBEDDED.iter().find(|(n, _)| *n == name)?;
    Some(JobSource::written(format!("suites/{name}.toml"), *text))
}

impl SuiteFile {
    /// Reads a suite file. Errors: `Usage` when the text is no suite.
    pub fn parse(source: &JobSource) -> Result<SuiteFile> {
        let no_suite = |e: toml::de::Error| no_suite(&e).with("file", &source.name);
        let mut suite: SuiteFile = toml::from_str(&source.text).map_err(no_suite)?;
        if let SuiteFile::Matrix(matrix) = &mut suite {
            matrix.written = source.text.parse().map_err(no_suite)?;
            matrix.file.clone_from(&source.name);
        }
        Ok(suite)
    }

    /// The matrix in these tables, which come from `file`. Errors: `Usage` when they hold something else.
    fn matrix(written: toml::Table, file: &str) -> Result<MatrixSuite> {
        match written.clone().try_into().map_err(|e| no_suite(&e).with("file", file))? {
            SuiteFile::Matrix(matrix) => {
                Ok(MatrixSuite { written, file: file.to_owned(), ..*matrix })
            }
            _ => Err(Error::usage("`rule` of a suite cannot be changed")),
        }
    }

    /// The method of this suite. Errors: `Usage` for a request the suite does not understand, and
    /// for plans that cannot be made.
    pub fn prepare(self, request: SuiteRequest, planner: Planner) -> Result<PreparedSuite> {
        match self {
            SuiteFile::Matrix(suite) => matrix::prepare(*suite, SuiteJob::Own, &request, planner),
            SuiteFile::Ycsb(suite) => ycsb::prepare(&suite, &request, planner.as_ref()),
            SuiteFile::SlcPaper(suite) => slc_paper::prepare(suite, request, planner),
            SuiteFile::Phases(suite) => phases::prepare(suite, request, planner),
        }
    }
}

fn no_suite(e: &toml::de::Error) -> Error {
    Error::usage("this is no suite file")
        .with("why", e.message())
        .hint("`taillight schema suite` describes it, suites/ has examples")
}

/// JSON Schema of suite files.
pub fn schema_suite() -> serde_json::Value {
    schemars::schema_for!(SuiteFile).to_value()
}

/// The head that every suite begins with: its name and seed; each point has a line on the console.
fn head(name: &str, seed: u64) -> SeriesHead {
    SeriesHead { announced: true, ..SeriesHead::new(name, name, seed) }
}

/// A job made of values: where they are from, for messages, and the text that goes through the same
/// checks as any job file.
fn job_source(origin: &str, job: &impl Serialize) -> Result<JobSource> {
    let text = toml::Table::try_from(job)
        .and_then(|table| toml::to_string(&table))
        .map_err(|e| Error::internal("a job cannot be written as TOML").source(e))?;
    Ok(JobSource::made(origin, text))
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

/// Makes all points use one target; those that precondition it make the state of those after them.
fn share_target(points: &mut [&mut Point]) -> Result<()> {
    let Some(mut opened_with) = points.first().map(|p| p.plan.clone()) else {
        return Ok(());
    };
    require_single_runs(points.iter().map(|p| &p.plan))?;
    let workloads = points.iter().flat_map(|p| p.plan.workloads.clone());
    opened_with.workloads = workloads.collect();
    let opened_with = Arc::new(opened_with);
    let (mut state, mut first_workload, mut preparing) = (0, 0, false);
    for point in points {
        let prepares = point.role == PointRole::Precondition;
        // Adjoining ones precondition together, one on what the other left.
        state += u32::from(prepares && !preparing);
        preparing = prepares;
        point.shared = Some(SharedUse {
            group: 0,
            state,
            opened_with: opened_with.clone(),
            first_workload,
            prepares,
            flush: prepares,
        });
        let workloads = u16::try_from(point.plan.workloads.len());
        let next = workloads.ok().and_then(|n| first_workload.checked_add(n));
        first_workload =
            next.ok_or_else(|| Error::usage("the suite has too many runs for one target"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
