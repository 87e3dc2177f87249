//! A sweep (`[sweep]` and `--sweep`): the user's job as a [`MatrixSuite`] of one phase. Called by `taillight
//! run`.

use std::collections::BTreeMap;

use taillight_core::Result;
use taillight_core::job::SweepTable;

use super::loops::settings;
use super::matrix::{self, MatrixSuite, SuiteJob, SuitePhase};
use super::{Planner, PreparedSuite, SuiteRequest};
use crate::host::{Assignment, JobSource};

/// Name of the method in `series.json`, and of its phase.
const SWEEP: &str = "sweep";

/// The runs of a sweep of a job, which `planner` knows; `run.repeat` of the job is the number of
/// rounds. Errors: `Usage` for fields and values that the job refuses, and for too many points.
pub fn prepare_sweep(
    sweep: SweepTable,
    job: Option<JobSource>,
    planner: Planner,
) -> Result<PreparedSuite> {
    let first = settings(&sweep.loops, 1).into_iter().next().unwrap_or_default();
    let of =
        |(path, value): &(&str, &toml::Value)| Assignment::new("sweep", format!("{path}={value}"));
    let set: Vec<Assignment> = first.iter().map(of).collect();
    let none = JobSource::written("", "");
    let plan = planner(job.as_ref().unwrap_or(&none), &set)?;
    let suite = MatrixSuite {
        name: SWEEP.to_owned(),
        about: format!("{}: sweep", plan.run.name),
        job: toml::Table::new(),
        shared_target: false,
        figures: Vec::new(),
        targets: Vec::new(),
        standard: None,
        deviations: Vec::new(),
        scale: BTreeMap::new(),
        default_scale: None,
        variants: Vec::new(),
        gates: true,
        decide_within: None,
        measures: None,
        written: toml::Table::new(),
        file: String::new(),
        phases: vec![SuitePhase {
            name: SWEEP.to_owned(),
            rounds: plan.run.repeat,
            set: [("run.repeat".to_owned(), 1.into())].into(),
            order: sweep.order,
            loops: sweep.loops,
            ..SuitePhase::new()
        }],
    };
    let job = SuiteJob::Users { name: plan.run.name, file: job };
    matrix::prepare(suite, job, &SuiteRequest::default(), planner)
}
