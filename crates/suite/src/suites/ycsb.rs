//! The rule `ycsb`: workloads as properties of YCSB, in the order YCSB recommends, on one store; the loads
//! and workloads that run, and `ycsb.txt`. The store is loaded before the first workload, and anew after one
//! that inserts. Properties are read by `taillight_import::ycsb`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result};
use taillight_import::ImportedJob;
use taillight_import::ycsb::{ANY_STORE, Properties, phases};
use taillight_report::ReportContext;
use taillight_rundir::atomic;
use taillight_rundir::series::PointRole;

use super::ycsb_text::{self, WorkloadRun};
use super::{PreparedSuite, SuiteRequest, head, share_target};
use crate::host::{Assignment, JobSource};
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView,
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

/// Every run, in order. Errors: `Usage` for anything that is wrong in workloads, properties or
/// flags.
pub(super) fn prepare(
    suite: &YcsbSuite,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[Assignment]) -> Result<Plan>,
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
    request.path(&suite.name)?;
    let mut points: Vec<Point> = Vec::new();
    let (mut load, mut notes) = (true, Vec::<String>::new());
    for chosen in chosen(suite, request)? {
        let source = format!("suite {}", suite.name);
        let jobs = phases(&chosen.properties, &chosen.name, &source)?;
        let store_named = request.driver.is_some() || !request.targets.is_empty();
        let dir = chosen.properties.get("rocksdb.dir");
        let other = request.driver.as_ref().is_some_and(|driver| driver != "rocksdb");
        if let Some(dir) = dir.filter(|_| other || !request.targets.is_empty()) {
            return Err(Error::usage("rocksdb.dir names a store, and so does the command line")
                .with("rocksdb.dir", &dir.text)
                .hint("leave one of them out: rocksdb.dir, or --driver and --target"));
        }
        let unused = dir
            .filter(|_| !request.paths.is_empty())
            .map(|dir| format!("rocksdb.dir={} is not used: --path names the store", dir.text));
        let known = jobs.run.notes.iter().filter(|n| !store_named || *n != ANY_STORE);
        for note in known.chain(&unused) {
            let note = format!("{source}: {note}");
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        if load {
            let id = match points.is_empty() {
                true => "load".to_owned(),
                false => format!("load-{}", chosen.name),
            };
            let about = format!("records for workload {}", chosen.name);
            let place = (id, about, PointRole::Precondition);
            points.push(point(suite, request, planner, place, jobs.load, seed(&points))?);
        }
        let place = (chosen.name, chosen.about, PointRole::Step);
        let point = point(suite, request, planner, place, jobs.run, seed(&points))?;
        load = point.plan.workloads.iter().any(inserts);
        points.push(point);
    }
    share_target(&mut points.iter_mut().collect::<Vec<_>>())?;
    let plans = points.iter().map(|p| p.plan.clone()).collect();
    let head = head(&suite.name, seed(&points).unwrap_or(0));
    Ok(PreparedSuite {
        method: Box::new(YcsbMethod { sequence: Sequence::new(head, points) }),
        plans,
        notes,
        work_directory: None,
        empty_directories: Vec::new(),
    })
}

/// The seed of all runs, once the first plan has it.
fn seed(points: &[Point]) -> Option<u64> {
    points.first().map(|p| p.plan.run.seed)
}

fn inserts(w: &taillight_core::plan::WorkloadPlan) -> bool {
    w.mix.iter().any(|m| m.op == OpKind::Insert)
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
fn point(
    suite: &YcsbSuite,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[Assignment]) -> Result<Plan>,
    (id, about, role): (String, String, PointRole),
    job: ImportedJob,
    seed: Option<u64>,
) -> Result<Point> {
    let own = |text: String| Assignment::new("suite", text);
    let mut set =
        vec![own(format!("run.name={}-{id}", suite.name)), own(format!("workload.0.name={id}"))];
    if let (Some(runtime), PointRole::Step) = (&request.runtime, role) {
        set.push(Assignment::new("--runtime", format!("run.duration={runtime}")));
    }
    // One seed over all runs, whoever chose it.
    set.extend(seed.map(|seed| own(format!("run.seed={seed}"))));
    set.extend(request.assignments());
    let job = JobSource::made(format!("workload {id} of suite {}", suite.name), job.toml);
    let mut plan = planner(&job, &set)?;
    // What ranks do is counted over all of them, and each that has a store of its own needs all records.
    let several = role == PointRole::Precondition && request.ranks > 1 && plan.run.share.is_own();
    if let Some(records) = plan.run.operations.filter(|_| several) {
        let all = records.saturating_mul(u64::from(request.ranks));
        set.push(own(format!("run.operations={all}")));
        plan = planner(&job, &set)?;
    }
    if plan.workloads.len() != 1 {
        return Err(Error::usage("a workload of a suite cannot be added to")
            .hint("--set workload.0.FIELD=VALUE changes its fields"));
    }
    Ok(Point { about, ..Point::new(id, role, plan, Some(job)) })
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
            .map(|run| format!("# {}\n{}", run.title(), ycsb_text::lines(run)))
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

    fn left_ns(&self, done: &[PointResult]) -> Option<(u128, u128)> {
        self.sequence.left_ns(done)
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        atomic::write(series.dir, LINES, self.lines(series.done).as_bytes())?;
        Ok(Conclusion::default())
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let table = ycsb_text::table(&workload_runs(series.done));
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
