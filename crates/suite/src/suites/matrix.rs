//! The rule `matrix`: the file of a suite that has phases of loops over fields of one job, in rounds, and
//! the form of it that was asked for. Its points are made in `matrix_points`, and ordered as results come in
//! by `matrix_method`; steady state and operating points have their rules in `steady` and `operating`, words
//! and tables are in `matrix_text`.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::job::{FieldLoop, JobFile, PointOrder};
use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_rundir::series::PointRole;

use super::amend;
use super::matrix_method::{MatrixMethod, PhasePoint, RunPart};
use super::matrix_points::{PointMaker, axes};
use super::matrix_text;
use super::operating::ChosenPoints;
use super::recovery::RecoveryPhase;
use super::steady::SteadyPhase;
use super::targets::{self, SuiteTarget};
use super::{Planner, PreparedSuite, SuiteFile, SuiteRequest, head, share_target};
use crate::auto_options;
use crate::differences::differences;
use crate::host::JobSource;
use crate::method::{Point, SeriesHead};

/// Phases of loops over fields of one job.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatrixSuite {
    /// Name of the suite.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// The job that every run begins with: the tables of a job file. `--driver`, `--path`, `--target`
    /// and `--set` change it.
    #[schemars(with = "JobFile")]
    pub job: toml::Table,
    /// Whether one target stays open over all runs, so that each finds what those before it left.
    #[serde(default)]
    pub shared_target: bool,
    /// Several targets, each with a `name` and fields of `[target]`: all phases run on one after another, and
    /// figures stand side by side. Several `--path` or `--target` take their place.
    #[serde(default)]
    #[schemars(with = "Vec<BTreeMap<String, serde_json::Value>>")]
    pub targets: Vec<toml::Table>,
    /// Phases, first to last.
    #[serde(rename = "phase")]
    pub phases: Vec<SuitePhase>,
    /// Figures of the table, by their names in `series.json`. Default: iops, p50_ns, p99_ns, p999_ns,
    /// max_ns.
    #[serde(default)]
    pub figures: Vec<String>,
    /// The standard that the file follows as it stands. What `--scale`, `--set` and other flags
    /// change of it is listed in the report.
    #[serde(default)]
    pub standard: Option<String>,
    /// Where the file itself departs from that standard.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// Forms for `--scale`, by name.
    #[serde(default)]
    pub scale: BTreeMap<String, SuiteScale>,
    /// Forms for other drivers, each laid over the scale where it applies, in order.
    #[serde(default, rename = "variant")]
    pub variants: Vec<SuiteVariant>,
    /// The scale when `--scale` names none. Default: the file as it stands.
    #[serde(default)]
    pub default_scale: Option<String>,
    /// Whether a ceiling that is missed or undecided decides the exit code. Default: true.
    #[serde(default = "gates")]
    pub gates: bool,
    /// How long all settings together may be loaded until their ceilings are decided, each for an equal part:
    /// where its run leaves one open and misses none, a longer run follows. All runs share the error of one.
    /// Default: one run a setting, each with an error of its own.
    #[serde(default)]
    pub decide_within: Option<Span>,
    /// What the I/Os with ceilings are, for the answer: "etcd's appends". Default: I/Os of the workload.
    #[serde(default)]
    pub measures: Option<String>,
    /// The file as it stands.
    #[serde(skip)]
    pub written: toml::Table,
    /// Its name in messages.
    #[serde(skip)]
    pub file: String,
}

/// A form of a suite.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteScale {
    /// Fields of the suite file that it changes, by dotted path; a phase is named by its name, a loop by
    /// its place.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// A form of a suite for drivers that its file as it stands does not fit.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuiteVariant {
    /// The drivers it is for.
    pub drivers: Vec<String>,
    /// Drivers of blocks or records: it is for them where the number of records is set.
    #[serde(default)]
    pub drivers_with_keys: Vec<String>,
    /// The scales it is for. Default: all.
    #[serde(default)]
    pub scales: Vec<String>,
    /// How it departs from the standard, beside the fields it changes.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// Fields of the suite file that it leaves out, by dotted path.
    #[serde(default)]
    pub leave_out: Vec<String>,
    /// Fields of the suite file that it changes, as a scale does.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

impl SuiteVariant {
    fn is_for(&self, driver: &str, keyed: bool, scale: Option<&String>) -> bool {
        let of_scale = self.scales.is_empty() || scale.is_some_and(|s| self.scales.contains(s));
        let with_keys = self.drivers_with_keys.iter().filter(|_| keyed);
        of_scale && self.drivers.iter().chain(with_keys).any(|d| d == driver)
    }
}

/// How a target is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PurgeMethod {
    /// Not at all: the phase has no run.
    None,
    /// All blocks are discarded (a file: its blocks are freed).
    Discard,
    /// Zeros over everything, once.
    ZeroFill,
    /// The drive formats itself and erases user data: whole NVMe devices only.
    NvmeFormat,
    /// The drive sanitizes itself, by block erase or else crypto erase: whole NVMe devices only.
    NvmeSanitize,
}

impl PurgeMethod {
    /// Name in reports.
    pub fn label(self) -> &'static str {
        match self {
            PurgeMethod::None => "none",
            PurgeMethod::Discard => "block discard",
            PurgeMethod::ZeroFill => "zero fill",
            PurgeMethod::NvmeFormat => "NVMe format",
            PurgeMethod::NvmeSanitize => "NVMe sanitize",
        }
    }

    /// What its run does, as tables of a job.
    fn job(self) -> &'static str {
        match self {
            PurgeMethod::None => "",
            PurgeMethod::Discard => {
                "run.duration = \"1000h\"\n[[workload]]\nname = \"purge\"\nmix = \"trim\"\n\
                 block_size = \"1MiB\"\naccess = \"sequential\"\npasses = 1\nqueue_depth = 32\n"
            }
            PurgeMethod::ZeroFill => {
                "run.duration = \"1000h\"\n[[workload]]\nname = \"purge\"\nmix = \"write\"\n\
                 payload = \"zero\"\nblock_size = \"1MiB\"\naccess = \"sequential\"\npasses = 1\n\
                 queue_depth = 32\n"
            }
            // Done when the device is opened; a run does something.
            PurgeMethod::NvmeFormat => {
                "run.operations = 1\ntarget.options.purge = \"nvme_format\"\n\
                 [[workload]]\nname = \"purge\"\nmix = \"read\"\nblock_size = \"4KiB\"\n"
            }
            PurgeMethod::NvmeSanitize => {
                "run.operations = 1\ntarget.options.purge = \"nvme_sanitize\"\n\
                 [[workload]]\nname = \"purge\"\nmix = \"read\"\nblock_size = \"4KiB\"\n"
            }
        }
    }
}

/// A part of a suite: one loop nest, run in rounds.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuitePhase {
    /// Name; runs are called after it.
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub about: String,
    /// What its runs are for. Default: sweep.
    #[serde(default = "sweep")]
    pub role: PointRole,
    /// Passes over the loops. Default: 1.
    #[serde(default = "once")]
    pub rounds: u32,
    /// Rounds until figures have settled, in the place of a number of rounds. They keep histograms
    /// only, unless `capture.mode` is set.
    #[serde(default)]
    pub steady: Option<SteadyPhase>,
    /// How long its run takes to get back to what an earlier phase did.
    #[serde(default)]
    pub recovery: Option<RecoveryPhase>,
    /// Empties the target in this way, in the place of a workload.
    #[serde(default)]
    pub purge: Option<PurgeMethod>,
    /// What this phase has in the job in another way: its tables are laid over the suite's, its lists
    /// take their place.
    #[serde(default)]
    #[schemars(with = "JobFile")]
    pub job: toml::Table,
    /// Fields of the job that this phase changes, by dotted path.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
    /// The order of its runs. Default: ordered.
    #[serde(default)]
    pub order: PointOrder,
    /// Loops, the outermost first.
    #[serde(default, rename = "loop")]
    pub loops: Vec<FieldLoop>,
    /// The target of its runs, where there are several.
    #[serde(skip)]
    pub(super) target: Option<SuiteTarget>,
    /// Its settings are chosen from the results of an earlier phase, in the place of loops.
    #[serde(default)]
    pub points: Option<ChosenPoints>,
    /// A run before each round or each run, that brings the target into the same state.
    #[serde(default)]
    pub before: Option<RunBefore>,
}

/// A run before others. It counts as preconditioning.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBefore {
    /// One line for people.
    #[serde(default)]
    pub about: String,
    /// Before what it is run. Default: round.
    #[serde(default)]
    pub each: BeforeEach,
    /// What it has in the job in another way than its phase.
    #[serde(default)]
    #[schemars(with = "JobFile")]
    pub job: toml::Table,
    /// Fields of the job that it changes, by dotted path.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// What a run stands before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BeforeEach {
    /// Each round of its phase.
    #[default]
    Round,
    /// Each run of its phase.
    Run,
}

fn sweep() -> PointRole {
    PointRole::Sweep
}
fn once() -> u32 {
    1
}
fn gates() -> bool {
    true
}

/// The job that a suite runs.
#[derive(Debug, Clone)]
pub(super) enum SuiteJob {
    /// That of the suite file.
    Own,
    /// That of the user, which the planner knows; no file when flags alone make it.
    Users { name: String, file: Option<JobSource> },
}

impl SuitePhase {
    /// A phase of one run of the job as it is.
    pub(super) fn new() -> SuitePhase {
        SuitePhase {
            name: String::new(),
            about: String::new(),
            role: sweep(),
            rounds: once(),
            steady: None,
            recovery: None,
            purge: None,
            job: toml::Table::new(),
            set: BTreeMap::new(),
            order: PointOrder::default(),
            loops: Vec::new(),
            points: None,
            before: None,
            target: None,
        }
    }

    /// Rounds there may be. Errors: `Usage` for a phase that contradicts itself.
    pub(super) fn most_rounds(&self) -> Result<u32> {
        let refuse = |what: &str, hint: &str| {
            Err(Error::usage(what.to_owned()).with("phase", &self.name).hint(hint.to_owned()))
        };
        if self.points.is_some() && (self.steady.is_some() || !self.loops.is_empty()) {
            let hint =
                "a phase has loops, or `points` that take their values from those of another";
            return refuse("both `points` and loops or `steady`", hint);
        }
        match (&self.steady, self.purge) {
            (Some(_), Some(_)) => refuse("a purge has no steady state", "leave `steady` out"),
            (Some(_), None) if self.rounds != 1 => {
                refuse("both `rounds` and `steady`", "steady.max_rounds is the number of rounds")
            }
            (Some(steady), None) => Ok(steady.last_round()),
            (None, Some(PurgeMethod::None)) => Ok(0),
            (None, _) => Ok(self.rounds),
        }
    }

    /// Its name, with that of its target where there are several.
    pub(super) fn title(&self) -> String {
        match &self.target {
            Some(target) => format!("{}, {}", target.name, self.name),
            None => self.name.clone(),
        }
    }

    /// The run that `before` asks for, as a phase of its own, and before what it stands.
    pub(super) fn run_before(&self) -> Result<Option<(SuitePhase, BeforeEach)>> {
        let Some(before) = &self.before else { return Ok(None) };
        let (mut job, mut set) = (self.job.clone(), self.set.clone());
        amend::merge(&mut job, &before.job);
        set.extend(before.set.clone());
        let phase = SuitePhase {
            name: format!("{}-before", self.name),
            about: before.about.clone(),
            role: PointRole::Precondition,
            rounds: self.most_rounds()?,
            job,
            set,
            target: self.target.clone(),
            ..SuitePhase::new()
        };
        Ok(Some((phase, before.each)))
    }

    /// Whether it brings the target into a state.
    pub(super) fn preconditions(&self) -> bool {
        self.role == PointRole::Precondition
    }

    /// The job of its runs: the suite's with what the phase changes.
    pub(super) fn job(&self, suite: &MatrixSuite, request: &SuiteRequest) -> Result<toml::Table> {
        let mut job = suite.job.clone();
        if let Some(purge) = self.purge {
            let tables = purge.job().parse::<toml::Table>();
            let tables = tables.map_err(|e| Error::internal("a purge is no job").source(e))?;
            amend::merge(&mut job, &tables);
        }
        amend::merge(&mut job, &self.job);
        let own = suite.job.get("target").and_then(|t| t.get("driver")?.as_str());
        let another = request.driver.is_some() && request.driver.as_deref() != own;
        if let Some(toml::Value::Table(target)) = job.get_mut("target").filter(|_| another) {
            // Options belong to a driver.
            target.remove("options");
        }
        let states = self.role.is_state();
        if states || self.steady.is_some() {
            let capture = job.entry("capture").or_insert_with(|| toml::Table::new().into());
            if let toml::Value::Table(capture) = capture {
                capture.entry("mode").or_insert_with(|| "off".into());
            }
        }
        Ok(job)
    }
}

/// The method over every run of the form that was asked for. Errors: `Usage` for flags, fields and values that the
/// suite or the job refuses, and for more runs than a series may have.
pub(super) fn prepare(
    suite: MatrixSuite,
    job: SuiteJob,
    request: &SuiteRequest,
    planner: Planner,
) -> Result<PreparedSuite> {
    request.only(&suite.name, &["--driver", "--path", "--target", "--runtime", "--scale"])?;
    let (mut suite, request, mut deviations) = amended(suite, request)?;
    let targets = targets::targets(&suite, &request)?;
    targets::repeat_phases(&mut suite, &targets);
    let maker = PointMaker { job, request, planner };
    let mut points = maker.points(&suite)?;
    settle_measured(&suite, &mut points);
    if suite.standard.is_some() {
        deviations.extend(no_devices(&points));
    }
    if suite.shared_target {
        if !targets.is_empty() {
            return Err(Error::usage("a suite with `shared_target` runs on one target")
                .with("suite", &suite.name)
                .hint("leave shared_target out, or name one target"));
        }
        let mut shared: Vec<&mut Point> = points.iter_mut().map(|p| &mut p.point).collect();
        share_target(&mut shared)?;
    }
    let seed = points.first().map_or(0, |p| p.point.plan.run.seed);
    let planned = points.iter().map(|p| p.point.id.clone()).collect();
    let mut head = SeriesHead { axes: axes(&suite), planned, ..head(&suite.name, seed) };
    if let SuiteJob::Users { name, file } = &maker.job {
        head.job.clone_from(name);
        head.job_text = file.as_ref().map(|file| file.text.clone());
    }
    let plans = points.iter().map(|p| p.point.plan.clone()).collect();
    let mut method = MatrixMethod::new(head, suite, points, maker, deviations);
    method.check()?;
    method.head.introduction = matrix_text::introduction(&method);
    Ok(PreparedSuite {
        method: Box::new(method),
        plans,
        notes: Vec::new(),
        work_directory: None,
        empty_directories: Vec::new(),
    })
}

/// Settles the plans of all measured points together; what only brings the target into a state goes by
/// itself.
fn settle_measured(suite: &MatrixSuite, points: &mut [PhasePoint]) {
    let deepest = deepest_measured(suite, points);
    for point in points.iter_mut().filter(|p| !prepares(suite, p)) {
        auto_options::fix(&mut point.point.plan, deepest);
    }
}

/// The deepest queue of all measured points.
pub(super) fn deepest_measured(suite: &MatrixSuite, points: &[PhasePoint]) -> u32 {
    let measured = points.iter().filter(|p| !prepares(suite, p));
    auto_options::deepest(measured.map(|p| &p.point.plan))
}

/// Whether a point only brings the target into a state, or empties it: what it measures is no result.
fn prepares(suite: &MatrixSuite, point: &PhasePoint) -> bool {
    let phase = &suite.phases[point.phase];
    point.part == RunPart::Before || phase.preconditions() || phase.purge.is_some()
}

/// That a target is no block device, for each that is none.
fn no_devices(points: &[PhasePoint]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for target in points.iter().map(|p| &p.point.plan.target) {
        let path = target.path.as_deref().unwrap_or_default();
        let device = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_block_device());
        let text = format!("the target is no block device: driver {}, {path:?}", target.driver);
        if !device && !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// The driver that the command line names.
fn asked_driver(request: &SuiteRequest) -> Option<&str> {
    let target = request.targets.first().and_then(|(_, t)| t.get("driver")?.as_str());
    request.driver.as_deref().or(target)
}

/// The suite in the form that was asked for, the request without what has made it so, and how the
/// form departs from the standard. Errors: `Usage` for a scale or a field that the suite does not
/// have.
fn amended(
    suite: MatrixSuite,
    request: &SuiteRequest,
) -> Result<(MatrixSuite, SuiteRequest, Vec<String>)> {
    let mut table = suite.written.clone();
    let name = request.scale.as_ref().or(suite.default_scale.as_ref());
    if let Some(name) = name {
        let Some(scale) = suite.scale.get(name) else {
            let known: Vec<&str> = suite.scale.keys().map(String::as_str).collect();
            let hint = match known.is_empty() {
                true => "it has one form: leave --scale out".to_owned(),
                false => format!("it has: {}", known.join(", ")),
            };
            let no = Error::usage(format!("suite {} has no scale `{name}`", suite.name));
            return Err(no.hint(hint));
        };
        amend::put_all(&mut table, &scale.set)?;
    }
    let mut deviations = suite.deviations.clone();
    if let Some(driver) = asked_driver(request) {
        let keyed = request.set.iter().any(|text| text.starts_with("workload.0.keys"));
        for variant in suite.variants.iter().filter(|v| v.is_for(driver, keyed, name)) {
            deviations.extend(variant.deviations.iter().cloned());
            for path in &variant.leave_out {
                amend::put(&mut table, path, None)?;
            }
            amend::put_all(&mut table, &variant.set)?;
            amend::put(&mut table, "job.target.driver", Some(driver.into()))?;
        }
    }
    let mut jobs = Vec::new();
    for text in &request.set {
        match amend::assignment(text)? {
            Some((path, value)) => amend::put(&mut table, &path, Some(value))?,
            None => jobs.push(text.clone()),
        }
    }
    let request = SuiteRequest { set: jobs, ..request.clone() };
    let written = suite.written.clone();
    let suite = match table == suite.written {
        true => suite,
        false => SuiteFile::matrix(table.clone(), &suite.file)?,
    };
    let mut differences = differences(&written.into(), &table.into());
    // What a flag replaces is no part of the form that runs.
    differences.retain(|d| {
        let timed = |name: &str| suite.phases.iter().any(|p| p.name == name && p.timed());
        let runtime = request.runtime.is_some() && amend::is_of(d, "run.duration", &timed);
        !runtime && !request.assignments().iter().any(|set| amend::is_of(d, set.path(), &|_| true))
    });
    deviations.extend(differences.into_iter().map(|d| d.text));
    deviations.extend(request.set.iter().map(|text| format!("by --set: {text}")));
    deviations.extend(request.runtime.iter().map(|t| format!("by --runtime: {t} a point")));
    Ok((suite, request, deviations))
}

impl MatrixSuite {
    /// The phase with loops that `phase` takes its points from, on the same target. Errors: `Usage` where
    /// there is none.
    pub(super) fn looped(&self, name: &str, phase: &SuitePhase) -> Result<&SuitePhase> {
        let same = |p: &&SuitePhase| p.name == name && p.target == phase.target;
        self.phases.iter().filter(same).find(|p| !p.loops.is_empty()).ok_or_else(|| {
            let known = self.phases.iter().filter(|p| !p.loops.is_empty());
            let known: Vec<&str> = known.map(|p| p.name.as_str()).collect();
            Error::usage(format!("no phase `{name}` with loops to choose points from"))
                .hint(format!("there are {}", known.join(", ")))
        })
    }

    /// Whether points with the same values of their loops may be of different phases.
    pub(super) fn loops_in_several_phases(&self) -> bool {
        let mut names = self.phases.iter().filter(|p| p.measures_a_loop()).map(|p| &p.name);
        let first = names.next();
        names.any(|name| Some(name) != first)
    }
}

impl SuitePhase {
    /// Whether its runs end by a time that `--runtime` sets.
    pub(super) fn timed(&self) -> bool {
        !self.preconditions() && self.purge.is_none()
    }

    pub(super) fn measures_a_loop(&self) -> bool {
        !self.loops.is_empty() && self.purge.is_none() && !self.preconditions()
    }
}
