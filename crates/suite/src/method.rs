//! What a series is made of: a [`Method`] (search, repetitions, a suite) gives points, the runner
//! ([`crate::runner`]) gives results. A method is a function of the points done so far: the same results
//! lead to the same next point, which is what lets a series that was killed be resumed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_report::ReportContext;
use taillight_rundir::Summary;
use taillight_rundir::series::{Axis, Decision, PointRole, PointStatus};

use crate::exit::{ends_series, worst};
use crate::host::JobSource;

/// Decides what is measured next, and says what came of it.
pub trait Method {
    /// What is known before the first point.
    fn head(&self) -> &SeriesHead;

    /// The next point after these, or the end. Errors: when no plan can be made for it, or a result
    /// cannot be read.
    fn next(&mut self, done: &[PointResult]) -> Result<Next>;

    /// What follows from the points, for `series.json`; writes files of the method's own into the
    /// directory of the series. Called after each point, and once more at the end. Errors:
    /// `Unavailable` when a file cannot be written.
    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion>;

    /// Where `point` stands among those to come; none where the number of planned points says it.
    fn progress(&self, _done: &[PointResult], _point: &Point) -> Option<String> {
        None
    }

    /// Load that is still to come after these, at least and at most, ns; none where plans do not tell it.
    fn left_ns(&self, _done: &[PointResult]) -> Option<(u128, u128)> {
        None
    }

    /// Ids of the points that are still to be run after these, in order, as far as they are known.
    fn to_run(&self, done: &[PointResult]) -> Vec<String> {
        let ran = |id: &&String| done.iter().any(|r| r.point.id == **id);
        self.head().planned.iter().filter(|id| !ran(id)).cloned().collect()
    }

    /// The line of the console's table for the last point.
    fn line(&self, _done: &[PointResult]) -> Option<String> {
        None
    }

    /// Title, words and tables of the report over all points; none for a series without one.
    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>>;

    /// Whether no further point makes sense after this one.
    fn ended_by(&self, result: &PointResult) -> bool {
        ends_series(result.exit)
    }

    /// A refusal to open a shared target, with a hint that fits this series.
    fn refused(&self, e: Error) -> Error {
        e
    }

    /// The exit code: by default the worst one of the points and of what ended the series early.
    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let all = done.iter().map(|r| r.exit).chain(ended);
        all.fold(Exit::Ok, worst)
    }
}

/// What a method says before the first point.
#[derive(Debug, Clone)]
pub struct SeriesHead {
    /// Its name in `series.json`.
    pub method: String,
    /// Name of the job or the suite.
    pub job: String,
    /// Seed of the points.
    pub seed: u64,
    pub axes: Vec<Axis>,
    /// Ids of all points in order, where they are known; empty where results decide.
    pub planned: Vec<String>,
    /// Text of `job.toml` in the series' directory: the job that the series can be run from again.
    pub job_text: Option<String>,
    /// Lines on the console before the first point.
    pub introduction: Vec<String>,
    /// Whether each point has a line on the console: its name, its figures, its place, the time left.
    pub announced: bool,
}

impl SeriesHead {
    /// A method and its job; nothing else is known, and nothing announced.
    pub fn new(method: &str, job: &str, seed: u64) -> SeriesHead {
        SeriesHead {
            method: method.to_owned(),
            job: job.to_owned(),
            seed,
            axes: Vec::new(),
            planned: Vec::new(),
            job_text: None,
            introduction: Vec::new(),
            announced: false,
        }
    }
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    Point(Box<Point>),
    End,
}

/// One run that a method asks for.
#[derive(Debug, Clone)]
pub struct Point {
    /// Unique in the series; the name of its run directory.
    pub id: String,
    /// One line for people.
    pub about: String,
    /// Pass over the points of a loop, from 1 up.
    pub round: u32,
    pub role: PointRole,
    /// Fields of the job that make this point, by dotted path.
    pub coordinates: BTreeMap<String, serde_json::Value>,
    pub plan: Plan,
    /// The job the plan is made from, if there is one.
    pub job: Option<JobSource>,
    /// None = the run opens a target of its own.
    pub shared: Option<SharedUse>,
    /// Whether the run says nothing of its own on the console.
    pub quiet: bool,
}

impl Point {
    /// A run of its own, in the first round, without coordinates.
    pub fn new(id: String, role: PointRole, plan: Plan, job: Option<JobSource>) -> Point {
        Point {
            id,
            about: String::new(),
            round: 1,
            role,
            coordinates: BTreeMap::new(),
            plan,
            job,
            shared: None,
            quiet: false,
        }
    }
}

/// How a point uses a target that is held open over several points.
#[derive(Debug, Clone)]
pub struct SharedUse {
    /// Points of the same group share one target.
    pub group: u32,
    /// Points of the same state need what the first of them stored.
    pub state: u32,
    /// The plan the target is opened with: the workloads of all its points, one after another.
    pub opened_with: Arc<Plan>,
    /// Which of those workloads is the first of this point.
    pub first_workload: u16,
    /// Makes the state that later points of its `state` need: it begins with an empty target, and
    /// a resumed series runs it again before one of those.
    pub prepares: bool,
    /// What it left in memory goes to the target's files before the next point.
    pub flush: bool,
}

impl SharedUse {
    /// Whether both need the same state of the same target.
    pub fn same_state(&self, other: &SharedUse) -> bool {
        (self.group, self.state) == (other.group, other.state)
    }
}

/// A point that was run and what came of it.
#[derive(Debug, Clone)]
pub struct PointResult {
    pub point: Point,
    /// Its run directory.
    pub dir: PathBuf,
    pub exit: Exit,
    pub status: PointStatus,
    /// None when the run has no report.
    pub summary: Option<Summary>,
    /// Figures of the run by name, as `series.json` has them.
    pub values: BTreeMap<String, f64>,
}

impl PointResult {
    /// Whether it came to its planned end.
    pub fn complete(&self) -> bool {
        self.status == PointStatus::Complete
    }
}

/// A series as far as it is.
#[derive(Debug, Clone, Copy)]
pub struct SeriesView<'a> {
    /// The directory that holds the run directories.
    pub dir: &'a Path,
    pub done: &'a [PointResult],
    /// Whether the series goes on, came to its end, or was ended early.
    pub state: SeriesState,
}

/// How far a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesState {
    Running,
    /// The method said so.
    Ended,
    /// By a signal, an error, or a run after which no other makes sense.
    EndedEarly,
}

/// What follows from the points so far.
#[derive(Debug, Clone, Default)]
pub struct Conclusion {
    pub decisions: Vec<Decision>,
    pub answer: Option<serde_json::Value>,
}

/// The report over all points of a series.
#[derive(Debug, Default)]
pub struct SeriesReport {
    pub context: ReportContext,
    /// Run directories in the order they are shown.
    pub runs: Vec<PathBuf>,
    /// Text on the console before the report is made.
    pub before: String,
    /// Whether the console shows the report's own text.
    pub show_text: bool,
    /// Text on the console after it.
    pub after: String,
    /// Text behind that for those who want detail.
    pub details: String,
    /// Further files: what each is called, and its name in the series' directory.
    pub files: Vec<(&'static str, &'static str)>,
}
