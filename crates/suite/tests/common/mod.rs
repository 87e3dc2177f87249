//! A host that runs points with the engine, without a binary: on virtual time where the driver has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Map, Value};
use taillight_core::exit::Exit;
use taillight_core::job::{BoundTarget, DriverView, MachineMemory};
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};
use taillight_driver::{DRIVERS, OpenSpec, Target};
use taillight_engine::{EngineRequest, StopFlag};
use taillight_report::{MadeReport, ReportContext, ReportOptions};
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, RunDir, RunStatus, fixture};
use taillight_suite::host::{Assignment, Host, JobSource, Message, RunOutcome};
use taillight_suite::method::{Method, Point};
use taillight_suite::repeat::RepeatMethod;
use taillight_suite::runner::{SeriesOutcome, SeriesSetup, run_series};
use taillight_suite::suites::{SuiteFile, SuiteRequest};

/// Changes the plan that a run really has; its manifest keeps the one that was asked for.
pub type World = Box<dyn FnMut(&mut Plan)>;

/// Runs points with the engine, and remembers what it was asked.
#[derive(Default)]
pub struct SimHost {
    /// Ids of the points that were run.
    pub ran: Vec<String>,
    /// Standard output and standard error, a message each.
    pub text: Vec<String>,
    /// Exit codes of points, where they are not `Ok`.
    pub exits: BTreeMap<String, Exit>,
    /// A signal comes after so many points.
    pub signal_after: Option<usize>,
    /// Shared targets hold data of somebody else.
    pub foreign: bool,
    /// The point with this id cannot begin.
    pub broken: Option<String>,
    /// What the machine says of the target.
    pub facts: Map<String, Value>,
    /// What makes runs differ from their plans.
    pub world: Option<World>,
}

impl SimHost {
    /// What it showed, without the breaks of lines.
    pub fn unwrapped(&self) -> String {
        self.text.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Host for SimHost {
    fn open(&mut self, plan: &Plan) -> Result<Box<dyn Target>> {
        match self.foreign {
            true => Err(Error::refused("not ours").hint("add: --destroy PATH")),
            false => open(plan, "shared"),
        }
    }

    fn run(&mut self, point: &Point, target: Option<Box<dyn Target>>) -> Result<RunOutcome> {
        if self.broken.as_ref() == Some(&point.id) {
            return Err(Error::unavailable("it cannot begin"));
        }
        let plan = &point.plan;
        let path = PathBuf::from(plan.run.output.as_deref().expect("a directory"));
        if plan.is_series() {
            let mut method = RepeatMethod::new(plan, None, String::new());
            let resumed = SeriesFile::read(&path)?;
            let setup = SeriesSetup { dir: path.clone(), command: Vec::new(), resumed };
            let ended = run_series(&mut method, self, setup)?;
            let path = (!ended.done.is_empty()).then_some(path);
            return Ok(RunOutcome { exit: ended.exit, path, summary: None });
        }
        self.ran.push(point.id.clone());
        // Tests of one process run side by side.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}-{}", point.id, std::process::id());
        let mut manifest = fixture::manifest(&id);
        manifest.plan = plan.clone();
        manifest.clock.source = "virtual".to_owned();
        let mut dir = RunDir::create(&path, &manifest)?;
        let mut real = plan.clone();
        self.world.iter_mut().for_each(|world| world(&mut real));
        let target = match target {
            Some(target) => target,
            None => open(&real, &id)?,
        };
        let outcome = taillight_engine::run::run(
            target,
            EngineRequest {
                plan: &real,
                rundir: &dir,
                run_id: &id,
                loaded: 0,
                clock: &manifest.clock,
                stop: &StopFlag::default(),
                observers: &mut [],
            },
        )?;
        manifest.status = RunStatus::Complete;
        manifest.clock.source = outcome.clock;
        manifest.phases = outcome.phases;
        manifest.capture = outcome.capture;
        manifest.losses = outcome.losses;
        dir.write_manifest(&manifest)?;
        let report = self.report(std::slice::from_ref(&path), &path, ReportContext::default())?;
        Ok(RunOutcome {
            exit: self.exits.get(&point.id).copied().unwrap_or(Exit::Ok),
            path: Some(path),
            summary: report.summaries.into_iter().next(),
        })
    }

    fn report(
        &mut self,
        runs: &[PathBuf],
        into: &Path,
        context: ReportContext,
    ) -> Result<MadeReport> {
        let options = ReportOptions {
            output: Some(into.to_owned()),
            html: false,
            texts: false,
            context,
            ..ReportOptions::default()
        };
        taillight_report::make(runs, &options, &mut |_| true)
    }

    fn signal(&self) -> Option<Exit> {
        let came = self.signal_after.is_some_and(|n| self.ran.len() >= n);
        came.then_some(Exit::Interrupted)
    }

    fn target_facts(&self, _: &Plan) -> Map<String, Value> {
        self.facts.clone()
    }

    fn wants_detail(&self) -> bool {
        true
    }

    fn show(&mut self, message: Message<'_>) {
        self.text.push(match message {
            Message::Line(text) | Message::Result(text) | Message::Note(text) => text.to_owned(),
            Message::Problem(e) => e.to_string(),
        });
    }
}

fn open(plan: &Plan, run_id: &str) -> Result<Box<dyn Target>> {
    let spec =
        OpenSpec { plan, run_id, destroy: None, stop: &StopFlag::default(), fits: &|_| Ok(()) };
    taillight_driver::bind(&plan.target)?.open(&spec, &mut |_| true)
}

/// The drivers of this build.
struct TestRegistry;

impl DriverView for TestRegistry {
    fn names(&self) -> Vec<&'static str> {
        DRIVERS.iter().map(|d| d.name()).collect()
    }
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget> {
        taillight_driver::bind(target)?.resolved()
    }
}

/// The plan of a job and of assignments.
pub fn plan(job: &JobSource, set: &[Assignment]) -> Result<Plan> {
    let mut job = job.job()?;
    set.iter().try_for_each(|assignment| assignment.apply(&mut job))?;
    let machine =
        MachineMemory { capture_budget: ByteSize(256 << 20), free_memory: ByteSize(1 << 30) };
    job.resolve(&TestRegistry, machine, &|path| std::fs::read_to_string(path))
}

pub fn source(text: &str) -> JobSource {
    JobSource::written("test.toml", text)
}

/// The method of a suite file.
pub fn prepare(text: &str, request: SuiteRequest) -> Result<Box<dyn Method>> {
    SuiteFile::parse(&source(text))?.prepare(request, Rc::new(plan)).map(|p| p.method)
}

/// Runs a suite file to its end, going on where `dir` was left.
pub fn run(text: &str, host: &mut SimHost, dir: &Path) -> (SeriesOutcome, SeriesFile) {
    let mut method = prepare(text, SuiteRequest::default()).expect("a suite");
    let resumed = SeriesFile::read(dir).expect("readable");
    let setup = SeriesSetup { dir: dir.to_owned(), command: Vec::new(), resumed };
    let outcome = run_series(method.as_mut(), host, setup).expect("it runs");
    (outcome, SeriesFile::read(dir).expect("readable").expect("there"))
}
