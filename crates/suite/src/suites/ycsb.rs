//! The rule `ycsb`: workloads as properties of YCSB, in the order YCSB recommends, on one store.
//!
//! What it is: which loads and workloads run, and `ycsb.txt`. The store is loaded before the first
//! workload, and anew after one that inserts. What it is not: the meaning of a property
//! (`taillight_import::ycsb`), or YCSB's words for figures (`ycsb_words`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result};
use taillight_import::ImportedJob;
use taillight_import::ycsb::{ANY_STORE, Properties, phases};
use taillight_report::ReportContext;
use taillight_rundir::atomic;
use taillight_rundir::series::PointRole;

use super::ycsb_words::{self, WorkloadRun};
use super::{PreparedSuite, SuiteRequest, head, require_single_runs};
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView, SharedUse,
};
use crate::sequence::Sequence;

/// The figures for programs, in the directory of the series.
const LINES: &str = "ycsb.txt";

/// Workloads and the order they run in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct YcsbSuite {
    /// Name of the suite.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Names of workloads, first to last.
    pub order: Vec<String>,
    /// Properties of every workload.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The workloads.
    #[serde(rename = "workload")]
    pub workloads: Vec<SuiteWorkload>,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteWorkload {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Its own properties: they win over those of every workload.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

impl YcsbSuite {
    /// Whether the order names each workload once. Errors: `Usage` when it does not.
    pub fn check(&self) -> Result<()> {
        let named = |n: &String| self.workloads.iter().filter(|w| w.name == *n).count() == 1;
        match self.order.len() == self.workloads.len() && self.order.iter().all(named) {
            true => Ok(()),
            false => {
                Err(Error::usage("the suite's order does not name each of its workloads once"))
            }
        }
    }

    /// The workloads asked for, in the suite's order, each once. Errors: `Usage` for a name that is
    /// none.
    pub fn choose(&self, asked: &[String]) -> Result<Vec<&SuiteWorkload>> {
        for name in asked {
            if !self.order.contains(name) {
                return Err(Error::usage(format!(
                    "suite `{}` has no workload `{name}`",
                    self.name
                ))
                .hint(format!("it has: {}", self.order.join(", "))));
            }
        }
        let chosen = self.order.iter().filter(|name| asked.contains(name));
        let workload = |name: &String| self.workloads.iter().find(|w| w.name == *name);
        Ok(chosen.filter_map(workload).collect())
    }
}

/// A workload asked for, with all its properties.
struct ChosenWorkload {
    name: String,
    about: String,
    properties: Properties,
}

/// A run to be made: a load or a workload.
struct PlannedRun {
    name: String,
    about: String,
    load: bool,
    job: JobSource,
    plan: Plan,
}

/// Every run, in order. Errors: `Usage` for anything that is wrong in workloads, properties or
/// flags.
pub(super) fn prepare(
    suite: &YcsbSuite,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[String]) -> Result<Plan>,
) -> Result<PreparedSuite> {
    suite.check()?;
    request.only(
        &suite.name,
        &[
            "--workload",
            "--driver",
            "--path",
            "--target",
            "--records",
            "--operations",
            "--runtime",
            "--threads",
            "--target-rate",
            "-P",
            "-p",
        ],
    )?;
    let mut runs: Vec<PlannedRun> = Vec::new();
    let (mut load, mut notes) = (true, Vec::<String>::new());
    for chosen in chosen(suite, request)? {
        let source = format!("suite {}", suite.name);
        let jobs = phases(&chosen.properties, &chosen.name, &source)?;
        let store_named = request.driver.is_some() || request.target.is_some();
        for note in jobs.run.notes.iter().filter(|n| !store_named || *n != ANY_STORE) {
            let note = format!("{source}: {note}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let seed = runs.first().map(|r| r.plan.run.seed);
        if load {
            let name = match runs.is_empty() {
                true => "load".to_owned(),
                false => format!("load-{}", chosen.name),
            };
            let about = format!("records for workload {}", chosen.name);
            runs.push(planned(suite, request, planner, (name, about, true), jobs.load, seed)?);
        }
        let seed = runs.first().map(|r| r.plan.run.seed);
        let words = (chosen.name, chosen.about, false);
        let run = planned(suite, request, planner, words, jobs.run, seed)?;
        load = run.plan.workloads.iter().any(inserts);
        runs.push(run);
    }
    let seed = runs.first().map_or(0, |r| r.plan.run.seed);
    let plans: Vec<Plan> = runs.iter().map(|r| r.plan.clone()).collect();
    require_single_runs(&plans)?;
    let sequence = Sequence::new(head(&suite.name, seed), points(runs)?);
    Ok(PreparedSuite {
        method: Box::new(YcsbMethod { sequence }),
        plans,
        notes,
        work_directory: None,
    })
}

fn inserts(w: &taillight_core::plan::WorkloadPlan) -> bool {
    w.mix.iter().any(|m| m.op == OpKind::Insert)
}

/// The runs as points on one target, which is opened with the workloads of all.
fn points(runs: Vec<PlannedRun>) -> Result<Vec<Point>> {
    let mut opened_with = match runs.first() {
        Some(first) => first.plan.clone(),
        None => return Err(Error::internal("a suite without runs")),
    };
    let workloads = runs.iter().flat_map(|r| r.plan.workloads.clone());
    opened_with.workloads = workloads.collect();
    let opened_with = Arc::new(opened_with);
    let mut state = 0;
    let point = |(number, run): (usize, PlannedRun)| {
        state += u32::from(run.load);
        Ok(Point {
            id: run.name,
            about: run.about,
            round: 1,
            role: match run.load {
                true => PointRole::Precondition,
                false => PointRole::Step,
            },
            coordinates: BTreeMap::new(),
            plan: run.plan,
            job: Some(run.job),
            shared: Some(SharedUse {
                group: 0,
                state,
                opened_with: opened_with.clone(),
                // Each run has one workload.
                first_workload: u16::try_from(number)
                    .map_err(|e| Error::usage("the suite has too many runs").source(e))?,
                prepares: run.load,
                flush: run.load,
            }),
            quiet: false,
        })
    };
    runs.into_iter().enumerate().map(point).collect()
}

/// The workloads with all their properties: the suite's, files, assignments, flags; later ones win.
fn chosen(suite: &YcsbSuite, request: &SuiteRequest) -> Result<Vec<ChosenWorkload>> {
    if let (true, Some(last)) = (request.workloads.is_empty(), request.property_files.last()) {
        // The files are the workload.
        let stem = Path::new(&last.name).file_stem();
        let stem = stem.map(|s| s.to_string_lossy().into_owned());
        return Ok(vec![ChosenWorkload {
            name: stem.filter(|s| s != "load").unwrap_or_else(|| "run".to_owned()),
            about: format!("properties of {}", last.name),
            properties: overridden(request, Properties::default())?,
        }]);
    }
    let names = match request.workloads.is_empty() {
        true => vec!["a".to_owned()],
        false => request.workloads.clone(),
    };
    let with_properties = |w: &SuiteWorkload| {
        let mut own = Properties::default();
        for (name, value) in suite.properties.iter().chain(&w.properties) {
            own.set(name, value, "suite ycsb");
        }
        Ok(ChosenWorkload {
            name: w.name.clone(),
            about: w.about.clone(),
            properties: overridden(request, own)?,
        })
    };
    suite.choose(&names)?.into_iter().map(with_properties).collect()
}

/// What files, assignments and flags say, over `own`.
fn overridden(request: &SuiteRequest, mut own: Properties) -> Result<Properties> {
    for file in &request.property_files {
        own.merge(Properties::parse(&file.text, &file.name)?);
    }
    for assignment in &request.properties {
        own.assign(assignment)?;
    }
    for (flag, name, value) in [
        ("--records", "recordcount", request.records),
        ("--operations", "operationcount", request.operations),
        ("--threads", "threadcount", request.threads.map(u64::from)),
        ("--target-rate", "target", request.target_rate),
    ] {
        if let Some(value) = value {
            own.set(name, &value.to_string(), flag);
        }
    }
    if request.runtime.is_some() {
        // Its exact length goes into the job: YCSB knows whole seconds only.
        own.set("operationcount", "0", "--runtime");
        own.set("maxexecutiontime", "1", "--runtime");
    }
    Ok(own)
}

/// A run: the job with the target and whatever else the command line says.
fn planned(
    suite: &YcsbSuite,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[String]) -> Result<Plan>,
    (name, about, load): (String, String, bool),
    job: ImportedJob,
    seed: Option<u64>,
) -> Result<PlannedRun> {
    let mut set =
        vec![format!("run.name={}-{name}", suite.name), format!("workload.0.name={name}")];
    if let (Some(runtime), false) = (&request.runtime, load) {
        set.push(format!("run.duration={runtime}"));
    }
    // One seed over all runs, whoever chose it.
    set.extend(seed.map(|seed| format!("run.seed={seed}")));
    set.extend(request.assignments());
    let job =
        JobSource { name: format!("{name}.toml, made by suite {}", suite.name), text: job.toml };
    let plan = planner(&job, &set)?;
    if plan.workloads.len() != 1 {
        return Err(Error::usage("a workload of a suite cannot be added to")
            .hint("--set workload.0.FIELD=VALUE changes its fields"));
    }
    Ok(PlannedRun { name, about, load, job, plan })
}

/// Loads and workloads in order.
struct YcsbMethod {
    sequence: Sequence,
}

impl YcsbMethod {
    /// `ycsb.txt`: the runs in YCSB's form, then those that did not run.
    fn lines(&self, done: &[PointResult]) -> String {
        let runs = workload_runs(done);
        let mut parts: Vec<String> = runs
            .iter()
            .map(|run| format!("# {}\n{}", run.title(), ycsb_words::lines(run)))
            .collect();
        let planned = &self.sequence.head().planned;
        let left = planned.iter().filter(|id| !done.iter().any(|r| r.point.id == **id));
        parts.extend(left.map(|name| format!("# {name} (not run)\n")));
        parts.join("\n")
    }
}

fn workload_runs<'a>(done: &'a [PointResult]) -> Vec<WorkloadRun<'a>> {
    let run =
        |r: &'a PointResult| Some(WorkloadRun { name: &r.point.id, summary: r.summary.as_ref()? });
    done.iter().filter_map(run).collect()
}

impl Method for YcsbMethod {
    fn head(&self) -> &SeriesHead {
        self.sequence.head()
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        self.sequence.next(done)
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        atomic::write(series.dir, LINES, self.lines(series.done).as_bytes())?;
        Ok(Conclusion::default())
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let table = ycsb_words::table(&workload_runs(series.done));
        Ok(Some(SeriesReport {
            context: ReportContext::default(),
            runs: series.done.iter().map(|r| r.dir.clone()).collect(),
            show_text: true,
            after: format!("\n{}", table.to_text().trim_end()),
            files: vec![("Table", LINES)],
            ..SeriesReport::default()
        }))
    }
}
