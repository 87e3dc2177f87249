//! The rule `phases`: jobs in order in one directory, where a later phase goes over what an earlier one has made:
//! its number is known only then. Phases that create may end by time (the *stonewall*); where workers have directories
//! of their own, a run of its own then brings all of them to the same number (the *wear-out*). Words and tables are
//! in `phases_text`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::job::JobFile;
use taillight_core::plan::{Plan, PreRunStep, WorkShare, rank_name};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};
use taillight_report::table::paragraph;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::series::PointRole;
use taillight_rundir::{RunDir, atomic};
use toml::{Table, Value};

use super::phases_files::PhaseDirectories;
use super::phases_text::{self, PhaseRun};
use super::{Planner, PreparedSuite, SuiteRequest, head, job_source};
use crate::host::{Assignment, JobSource};
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesState, SeriesView,
};

/// The figures for programs, in the directory of the series.
const LINES: &str = "phases.txt";
/// What the name of the run of a wear-out ends with.
const WEAR_OUT: &str = "-wear-out";
/// What a later phase goes over before it is known, for checks of its plan.
const UNKNOWN: u64 = 1_000;

/// Jobs in order in one directory.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasesSuite {
    /// Name of the suite.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// What the table and the lines for programs are headed by.
    pub title: String,
    /// What the phases leave out of what they are modelled on, in sentences.
    #[serde(default)]
    pub deviations: Vec<String>,
    /// Tables that every job begins with.
    #[serde(default)]
    #[schemars(with = "JobFile")]
    pub job: Table,
    /// Workers, unless `--threads` says so.
    pub workers: u32,
    /// Forms for `--scale`, by name.
    pub scale: BTreeMap<String, PhasesScale>,
    /// The one when `--scale` names none.
    pub default_scale: String,
    /// A whole measurement needs a stonewall as long as this.
    #[serde(default)]
    pub whole_stonewall: Option<Span>,
    /// Phases, first to last.
    #[serde(rename = "phase")]
    pub phases: Vec<CountedPhase>,
}

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasesScale {
    /// When phases with a stonewall end.
    pub stonewall: Span,
    /// Bytes of each worker, in phases that go by bytes.
    #[serde(default)]
    pub bytes: ByteSize,
}

/// What a later phase goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CountedThing {
    Files,
    Directories,
}

/// Which mean a phase's rate is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScoredAs {
    /// GiB/s.
    Bandwidth,
    /// Thousands of operations a second.
    Rate,
}

/// One phase.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountedPhase {
    /// Name of the phase and of its run.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Directory in that of the suite.
    pub dir: String,
    /// Tables laid over those of the suite.
    #[serde(default)]
    #[schemars(with = "JobFile")]
    pub job: Table,
    /// It ends by time, and the number it comes to is what later phases go over.
    #[serde(default)]
    pub stonewall: bool,
    /// It ends by time, and nothing goes over what it did.
    #[serde(default)]
    pub timed: bool,
    /// The phase whose files or directories it goes over, each once.
    #[serde(default)]
    pub over: Option<String>,
    /// Instead, each worker does one operation.
    #[serde(default)]
    pub one_each: bool,
    /// What these are. Default: files.
    #[serde(default)]
    pub of: Option<CountedThing>,
    /// So many bytes a worker, of the scale: a file each, or one file in blocks of all in turn.
    #[serde(default)]
    pub bytes: Option<BytesLayout>,
    /// Begins with nothing of it in the page cache, and no names where this user may drop them.
    #[serde(default)]
    pub cold: bool,
    /// Its rate counts in a mean.
    #[serde(default)]
    pub scored: Option<ScoredAs>,
    /// Phases of the same name give one rate: all their operations by all their time.
    #[serde(default)]
    pub part_of: Option<String>,
}

/// How workers share bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BytesLayout {
    /// A file for each worker.
    FilePerWorker,
    /// One file; the blocks of all workers in turn.
    Interleaved,
}

/// The suite as it was asked for.
pub(super) struct PhasesMethod {
    head: SeriesHead,
    pub(super) suite: PhasesSuite,
    request: SuiteRequest,
    planner: Planner,
    dir: PathBuf,
    directories: PhaseDirectories,
    /// Those of them that are not empty in the end.
    left: Vec<PathBuf>,
    /// Workers of each rank.
    workers: u32,
    /// Ranks that run the phases together.
    ranks: u32,
    pub(super) scale: PhasesScale,
    seed: Option<u64>,
}

/// Where a series goes on.
enum NextPhase {
    /// A phase by its place, over so many.
    Phase(usize, Option<u64>),
    /// The wear-out of a phase, which left so many without a gap.
    WearOut(usize, u64),
}

/// Every phase in order. Errors: `Usage` for anything that is wrong in the suite or the flags.
pub(super) fn prepare(
    suite: PhasesSuite,
    mut request: SuiteRequest,
    planner: Planner,
) -> Result<PreparedSuite> {
    request.only(&suite.name, &["--path", "--scale", "--runtime", "--records", "--threads"])?;
    suite.check()?;
    let path = request.path(&suite.name)?.filter(|path| !path.is_empty());
    let dir = path.ok_or_else(|| {
        Error::usage(format!("suite {} needs a directory", suite.name))
            .hint("name one on the file system to be measured: --path /mnt/test/suite")
    })?;
    let dir = PathBuf::from(dir);
    if dir.exists() && !dir.is_dir() {
        return Err(Error::usage("--path is not a directory").with("path", dir.display()));
    }
    let mut scale = suite.scale_of(request.scale.as_deref())?;
    if let Some(runtime) = &request.runtime {
        scale.stonewall = runtime.parse().map_err(|why: String| Error::usage(why))?;
    }
    let workers = request.threads.unwrap_or(suite.workers).max(1);
    request.paths.clear();
    let mut method = PhasesMethod {
        head: head(&suite.name, 0),
        workers,
        ranks: request.ranks.max(1),
        scale,
        directories: PhaseDirectories::new(suite.phases.iter().map(|p| dir.join(&p.dir))),
        left: Vec::new(),
        dir: dir.clone(),
        seed: None,
        request,
        planner,
        suite,
    };
    let mut plans: Vec<Plan> = Vec::new();
    for at in 0..method.suite.phases.len() {
        let over = method.suite.phases[at].over.as_ref().map(|_| UNKNOWN);
        let plan = method.plan(&NextPhase::Phase(at, over))?.1;
        method.seed = Some(plan.run.seed);
        plans.push(plan);
    }
    method.head.seed = method.seed.unwrap_or(0);
    super::require_single_runs(&plans)?;
    let notes = method.suite.deviations.clone();
    let empty_directories = method.directories.paths();
    let method = Box::new(method);
    Ok(PreparedSuite { method, plans, notes, work_directory: Some(dir), empty_directories })
}

impl PhasesSuite {
    /// Errors: `Usage` when a phase goes over one that does not come before it, has the name of an earlier one, or
    /// leaves the suite's directory.
    pub fn check(&self) -> Result<()> {
        for (at, phase) in self.phases.iter().enumerate() {
            let parts = |text: &str| {
                let all: Vec<Component<'_>> = Path::new(text).components().collect();
                all.iter().all(|c| matches!(c, Component::Normal(_))).then_some(all.len())
            };
            if parts(&phase.name) != Some(1) || parts(&phase.dir).is_none() {
                return Err(Error::usage("a phase stays in the directory of its suite")
                    .with("phase", &phase.name)
                    .with("dir", &phase.dir)
                    .hint("give it a plain name and a `dir` below, without .. and no / in front"));
            }
            let before = |name: &String| self.phases[..at].iter().any(|p| p.name == *name);
            if phase.over.as_ref().is_some_and(|over| !before(over)) || before(&phase.name) {
                return Err(Error::usage(
                    "a phase goes over an earlier one, and has a name of its own",
                )
                .with("phase", &phase.name));
            }
        }
        Ok(())
    }

    fn scale_of(&self, name: Option<&str>) -> Result<PhasesScale> {
        let name = name.unwrap_or(&self.default_scale);
        self.scale.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = self.scale.keys().map(String::as_str).collect();
            Error::usage(format!("suite {} has no scale `{name}`", self.name))
                .hint(format!("it has {}", known.join(", ")))
        })
    }
}

/// Lays tables over others.
fn lay_over(below: &mut Table, above: &Table) {
    for (name, value) in above {
        match (below.get_mut(name), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay_over(below, above),
            _ => _ = below.insert(name.clone(), value.clone()),
        }
    }
}

impl PhasesMethod {
    fn phase(&self, next: &NextPhase) -> &CountedPhase {
        match next {
            NextPhase::Phase(at, _) | NextPhase::WearOut(at, _) => &self.suite.phases[*at],
        }
    }

    fn id(&self, next: &NextPhase) -> String {
        let name = &self.phase(next).name;
        match next {
            NextPhase::Phase(..) => name.clone(),
            NextPhase::WearOut(..) => format!("{name}{WEAR_OUT}"),
        }
    }

    /// The job and the plan of a run. Errors: `Usage`.
    fn plan(&self, next: &NextPhase) -> Result<(JobSource, Plan)> {
        let (phase, id) = (self.phase(next), self.id(next));
        let mut job = self.suite.job.clone();
        lay_over(&mut job, &phase.job);
        if phase.bytes == Some(BytesLayout::Interleaved) {
            interleave(&mut job, (self.workers, self.ranks), self.scale.bytes);
        }
        let source = job_source(&format!("phase {id} of suite {}", self.suite.name), &job)?;
        let own = |text: String| Assignment::new(format!("suite {}", self.suite.name), text);
        let path = self.dir.join(&phase.dir);
        let path = Value::String(format!("{}/", path.display()));
        let mut set = vec![
            own(format!("run.name={}-{id}", self.suite.name)),
            own(format!("target.path={path}")),
        ];
        if phase.bytes != Some(BytesLayout::Interleaved) {
            set.push(own(format!("workload.0.workers={}", self.workers)));
        }
        set.extend(self.share(phase).map(own));
        set.extend(self.amount(phase, next).into_iter().map(own));
        set.extend(self.seed.map(|seed| own(format!("run.seed={seed}"))));
        set.extend(self.request.assignments());
        let plan = (self.planner)(&source, &set)?;
        if !phase.cold {
            return Ok((source, plan));
        }
        // Where this user may not drop names, they stay: the run says so itself.
        set.push(own(format!("run.before=[\"{}\"]", PreRunStep::DropCaches.name())));
        Ok(((self.planner)(&source, &set)).map_or((source.clone(), plan), |cold| (source, cold)))
    }

    /// How ranks share what a phase is about: whole files, or blocks and numbers in turns.
    fn share(&self, phase: &CountedPhase) -> Option<String> {
        let whole = phase.bytes == Some(BytesLayout::FilePerWorker);
        let share = if whole { WorkShare::Segments } else { WorkShare::Strided };
        (self.ranks > 1).then(|| format!("run.share={}", share.name()))
    }

    /// Workers of all ranks.
    fn all_workers(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.ranks)
    }

    /// How much a run does.
    fn amount(&self, phase: &CountedPhase, next: &NextPhase) -> Vec<String> {
        let (count, mut set) = (|n: u64| format!("workload.0.keys.count={n}"), Vec::new());
        match next {
            NextPhase::WearOut(_, there) => {
                // No longer than the stonewall itself.
                set.push(format!("run.duration={}", self.scale.stonewall));
                set.extend([count(*there), "workload.0.passes=1".to_owned()]);
                set.push("workload.0.access=sequential".to_owned());
                return set;
            }
            NextPhase::Phase(_, Some(over)) => {
                let given = phase.job.get("run").and_then(|run| run.get("operations")).is_some();
                match (phase.one_each, given) {
                    (true, _) => set.push(format!("run.operations={}", self.all_workers())),
                    (false, false) => set.push(format!("run.operations={over}")),
                    (false, true) => {}
                }
                if phase.of != Some(CountedThing::Directories) {
                    set.push(count(*over));
                }
            }
            NextPhase::Phase(_, None) => {}
        }
        if phase.timed {
            set.push(format!("run.duration={}", self.scale.stonewall));
        }
        if phase.stonewall {
            set.push(format!("run.duration={}", self.scale.stonewall));
            let most = self.request.records;
            set.extend(most.map(|n| format!("run.operations={n}")));
        }
        let workers = self.all_workers();
        let block = phase.job.get("workload").and_then(|w| w.get(0)?.get("block_size")?.as_str());
        let block = block.and_then(|size| size.parse::<ByteSize>().ok()).map_or(1, |b| b.0.max(1));
        let each = (self.scale.bytes.0 / block).max(1) * block;
        let size = format!("target.size={}B", each * workers);
        match phase.bytes {
            Some(BytesLayout::FilePerWorker) => {
                set.extend([size, format!("target.options.files={workers}")]);
            }
            Some(BytesLayout::Interleaved) => set.push(size),
            None => {}
        }
        set
    }

    /// What comes after these results. Errors: `Corrupt` when a run cannot be read; `Unavailable` where a phase left
    /// nothing to go over.
    fn after(&self, done: &[PointResult]) -> Result<Option<NextPhase>> {
        let ran = |id: &str| done.iter().find(|r| r.point.id == id);
        for (at, phase) in self.suite.phases.iter().enumerate() {
            let Some(result) = ran(&phase.name) else {
                let over = phase.over.as_ref().map(|over| {
                    let last = ran(&format!("{over}{WEAR_OUT}")).or_else(|| ran(over));
                    let made = last.map(|made| left(made, phase.of)).transpose();
                    made.map(|made| made.map_or(0, |made| made.there))
                });
                let over = over.transpose()?;
                if over == Some(0) {
                    return Err(Error::unavailable("a phase has nothing to go over")
                        .with("phase", &phase.name)
                        .hint("give the phase before it more time: --runtime 10s"));
                }
                return Ok(Some(NextPhase::Phase(at, over)));
            };
            if phase.stonewall && ran(&format!("{}{WEAR_OUT}", phase.name)).is_none() {
                let made = left(result, None)?;
                if made.longest > made.there {
                    return Ok(Some(NextPhase::WearOut(at, made.there)));
                }
            }
        }
        Ok(None)
    }
}

/// One workload for each worker, on blocks of its own in turn, each block once.
fn interleave(job: &mut Table, (workers, ranks): (u32, u32), each: ByteSize) {
    let Some(Value::Array(all)) = job.get_mut("workload") else { return };
    let Some(Value::Table(one)) = all.first().cloned() else { return };
    let block = one.get("block_size").and_then(Value::as_str).unwrap_or_default();
    let block = block.parse::<ByteSize>().map_or(1, |block| block.0);
    *all = (0..workers)
        .map(|nth| {
            let access = Table::from_iter([
                ("kind".to_owned(), "strided".into()),
                ("offset".to_owned(), format!("{}B", block * u64::from(nth)).into()),
                ("stride".to_owned(), format!("{}B", block * u64::from(workers)).into()),
            ]);
            let mut own = one.clone();
            own.insert("name".to_owned(), format!("worker-{nth}").into());
            own.insert("workers".to_owned(), 1.into());
            own.insert("access".to_owned(), access.into());
            let blocks = (each.0 / block).max(1) * u64::from(ranks);
            let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
            own.insert("operations".to_owned(), blocks.into());
            Value::Table(own)
        })
        .collect();
}

/// What a run has left.
struct LeftThere {
    /// Things that are there from the first number on without a gap.
    there: u64,
    /// Things that there would be if each worker's part were as long as the longest.
    longest: u64,
}

/// Errors: `Corrupt` when the run cannot be read or does not say it.
fn left(result: &PointResult, of: Option<CountedThing>) -> Result<LeftThere> {
    let run = RunDir::open(&result.dir)?;
    // Of several ranks the first one looks when all are done.
    let several = matches!(run.manifest().origin, RunOrigin::Merged { .. });
    let run = if several { RunDir::open(&result.dir.join(rank_name(0)))? } else { run };
    let options = &result.point.plan.target.options;
    let shared = options.get("directories").and_then(Value::as_str) == Some("shared");
    let facts = run.manifest().environment.get("driver");
    let number = |name: &str| facts?.get(name)?.as_str()?.parse::<u64>().ok();
    let found = match of {
        Some(CountedThing::Directories) => {
            // No rank knows which of another's are gone.
            let name = if several { "directories_without_gap" } else { "directories_at_end" };
            number(&format!("metadata.{name}")).map(|n| LeftThere { there: n, longest: n })
        }
        _ => number("metadata.files_without_gap")
            .zip(number("metadata.files_of_longest"))
            // In shared directories a file whose number was taken as the time ended may be absent: the phase that goes
            // over the files makes it first.
            .map(|(there, longest)| LeftThere {
                there: if shared && !several { longest } else { there },
                longest,
            }),
    };
    found.ok_or_else(|| {
        Error::corrupt("the run does not say what it left").with("path", result.dir.display())
    })
}

impl Method for PhasesMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        if done.last().is_some_and(|r| self.ended_by(r)) {
            return Ok(Next::End);
        }
        let Some(next) = self.after(done)? else { return Ok(Next::End) };
        let (job, plan) = self.plan(&next)?;
        let about = match &next {
            NextPhase::Phase(at, _) => self.suite.phases[*at].about.clone(),
            NextPhase::WearOut(at, _) => {
                format!("{}: all workers come to the same number", self.suite.phases[*at].name)
            }
        };
        let point = Point::new(self.id(&next), PointRole::Step, plan, Some(job));
        Ok(Next::Point(Box::new(Point { about, ..point })))
    }

    fn progress(&self, _: &[PointResult], point: &Point) -> Option<String> {
        let name = point.id.strip_suffix(WEAR_OUT).unwrap_or(&point.id);
        let at = self.suite.phases.iter().position(|phase| phase.name == name)?;
        Some(format!("phase {} of {}", at + 1, self.suite.phases.len()))
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        let lines = phases_text::lines(self, &phase_runs(&self.suite, series.done));
        atomic::write(series.dir, LINES, lines.as_bytes())?;
        if series.state == SeriesState::Ended {
            let id = |dir: &Path| RunDir::open(dir).map(|run| run.manifest().run_id.clone());
            let mut runs =
                series.done.iter().map(|r| id(&r.dir)).collect::<Result<Vec<String>>>()?;
            // What all ranks share is the first one's.
            runs.extend(series.done.iter().filter_map(|r| id(&r.dir.join(rank_name(0))).ok()));
            self.left = self.directories.tidy_up(&runs);
        }
        let answer = phases_text::answer(self, &phase_runs(&self.suite, series.done));
        Ok(Conclusion { answer: Some(answer), ..Conclusion::default() })
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let runs = phase_runs(&self.suite, series.done);
        let tables = phases_text::tables(self, &runs);
        let text = tables.iter().map(|table| format!("\n{}", table.to_text())).collect::<String>();
        Ok(Some(SeriesReport {
            context: taillight_report::ReportContext {
                title: Some(self.suite.title.clone()),
                text: phases_text::text(self),
                tables,
                ..taillight_report::ReportContext::default()
            },
            runs: series.done.iter().map(|r| r.dir.clone()).collect(),
            show_text: false,
            after: format!(
                "{}\n{}{}",
                text.trim_end(),
                paragraph(&phases_text::text(self)),
                left_behind(&self.left)
            ),
            files: vec![("Lines", LINES)],
            ..SeriesReport::default()
        }))
    }
}

/// What to say of directories that are not empty in the end.
fn left_behind(dirs: &[PathBuf]) -> String {
    let line = |dir: &PathBuf| {
        paragraph(&format!(
            "Left: {}. What is in it cannot be shown to be the suite's.",
            dir.display()
        ))
    };
    dirs.iter().map(|dir| format!("\n{}", line(dir))).collect()
}

/// The phases that were run, each with its wear-out.
fn phase_runs<'a>(suite: &'a PhasesSuite, done: &'a [PointResult]) -> Vec<PhaseRun<'a>> {
    let ran = |id: &str| done.iter().find(|r| r.point.id == id);
    let run = |phase: &'a CountedPhase| {
        let result = ran(&phase.name)?;
        Some(PhaseRun { phase, result, wear_out: ran(&format!("{}{WEAR_OUT}", phase.name)) })
    };
    suite.phases.iter().filter_map(run).collect()
}
