//! The rule `matrix`: phases of loops over fields of one job, in rounds.
//!
//! What it is: the points of a suite that decides nothing from results, and the table over them.
//! What it is not: a rule that looks at results; such a suite has a module of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::exit::Exit;
use taillight_core::job::{FieldLoop, JobFile, PointOrder};
use taillight_core::plan::Plan;
use taillight_core::{Error, Percentile, Result};
use taillight_report::format::{Script, count, duration, rate};
use taillight_report::table::{Cell, Table};
use taillight_report::{ReportContext, ReportSummary};
use taillight_rundir::names;
use taillight_rundir::series::{Axis, PointRole};

use super::answers;
use super::loops::{self, Setting, count_points, settings, shown, shuffle};
use super::{PreparedSuite, SuiteRequest, head, job_source, share_target};
use crate::demand::{decisions, sweep_data};
use crate::exit::worst;
use crate::figures::request_percentiles;
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesState, SeriesView,
};
use crate::sequence::Sequence;

/// Figures of the table where the suite names none.
const FIGURES: [&str; 5] = ["iops", "p50_ns", "p99_ns", "p999_ns", "max_ns"];

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
    /// Phases, first to last.
    #[serde(rename = "phase")]
    pub phases: Vec<SuitePhase>,
    /// Figures of the table, by their names in `series.json`. Default: iops, p50_ns, p99_ns, p999_ns,
    /// max_ns.
    #[serde(default)]
    pub figures: Vec<String>,
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
}

fn sweep() -> PointRole {
    PointRole::Sweep
}
fn once() -> u32 {
    1
}

/// The job that a suite runs.
#[derive(Debug, Clone)]
pub(super) enum SuiteJob {
    /// That of the suite file.
    Own,
    /// That of the user, which the planner knows; no file when flags alone make it.
    Users { name: String, file: Option<JobSource> },
}

/// Every run, in order. Errors: `Usage` for fields and values that the job refuses, and for more
/// runs than a series may have.
pub(super) fn prepare(
    suite: MatrixSuite,
    job: SuiteJob,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[String]) -> Result<Plan>,
) -> Result<PreparedSuite> {
    request.only(&suite.name, &["--driver", "--path", "--target", "--runtime"])?;
    let maker = PointMaker { suite: &suite, job: &job, request, planner };
    let Some(phase) = suite.phases.first().filter(|p| p.rounds > 0) else {
        return Err(Error::usage("the suite has no run").with("suite", &suite.name));
    };
    let first = settings(&phase.loops, 1).into_iter().next().unwrap_or_default();
    let first = maker.point(phase, (1, 1), &first, None)?.plan;
    let seed = first.run.seed;
    let all = count_points(suite.phases.iter().map(|p| (p.loops.as_slice(), p.rounds)), &first)?;
    let mut points: Vec<Point> = Vec::with_capacity(all);
    for phase in &suite.phases {
        for round in 1..=phase.rounds {
            let mut settings = settings(&phase.loops, usize::MAX);
            if phase.order == PointOrder::Shuffled {
                shuffle(&mut settings, seed, round);
            }
            for setting in settings {
                let place = (points.len() + 1, round);
                points.push(maker.point(phase, place, &setting, Some(seed))?);
            }
        }
    }
    if suite.shared_target {
        share_target(&mut points)?;
    }
    let mut head = SeriesHead { axes: axes(&suite), ..head(&suite.name, seed) };
    head.introduction.push(introduction(&suite, &points, seed));
    if let SuiteJob::Users { name, file } = job {
        head.job = name;
        head.job_text = file.map(|file| file.text);
    }
    let plans = points.iter().map(|p| p.plan.clone()).collect();
    Ok(PreparedSuite {
        method: Box::new(MatrixMethod { sequence: Sequence::new(head, points), suite }),
        plans,
        notes: Vec::new(),
        work_directory: None,
    })
}

/// Name of a point: number, phase, values, round.
fn id(phase: &SuitePhase, (number, round): (usize, u32), setting: &Setting<'_>) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c,
        false => '-',
    };
    let mut id = format!("{number:02}-{}", phase.name);
    for (_, value) in setting {
        id.push('-');
        id.extend(shown(value).chars().map(plain));
    }
    if phase.rounds > 1 {
        id.push_str(&format!("-round-{round}"));
    }
    id
}

/// Makes the points of a suite.
struct PointMaker<'a> {
    suite: &'a MatrixSuite,
    job: &'a SuiteJob,
    request: &'a SuiteRequest,
    planner: &'a dyn Fn(&JobSource, &[String]) -> Result<Plan>,
}

impl PointMaker<'_> {
    fn point(
        &self,
        phase: &SuitePhase,
        (number, round): (usize, u32),
        setting: &Setting<'_>,
        seed: Option<u64>,
    ) -> Result<Point> {
        let id = id(phase, (number, round), setting);
        let own = phase.set.iter().map(|(path, value)| (path.as_str(), value));
        let fields = own.chain(setting.iter().copied());
        let mut set: Vec<String> = vec![format!("run.name={id}")];
        set.extend(seed.map(|seed| format!("run.seed={seed}")));
        set.extend(fields.map(|(path, value)| format!("{path}={value}")));
        set.extend(self.request.runtime.iter().map(|t| format!("run.duration={t}")));
        set.extend(self.request.assignments());
        let job = match self.job {
            SuiteJob::Own => Some(job_source(&id, &self.suite.name, &self.suite.job)?),
            SuiteJob::Users { file, .. } => file.clone(),
        };
        let none = JobSource { name: String::new(), text: String::new() };
        let plan = (self.planner)(job.as_ref().unwrap_or(&none), &set);
        let mut plan = plan.map_err(|e| e.with("point", &id))?;
        request_percentiles(&mut plan, &[Percentile::MEDIAN]);
        let words: Vec<String> =
            setting.iter().map(|(path, value)| format!("{path} = {}", shown(value))).collect();
        let json = |value: &toml::Value| {
            serde_json::to_value(value)
                .map_err(|e| Error::usage("a value of a loop is no JSON").source(e))
        };
        let coordinates =
            setting.iter().map(|(path, value)| Ok(((*path).to_owned(), json(value)?)));
        Ok(Point {
            about: match words.is_empty() {
                true => phase.about.clone(),
                false => words.join(", "),
            },
            round,
            coordinates: coordinates.collect::<Result<_>>()?,
            quiet: true,
            ..Point::new(id, phase.role, plan, job)
        })
    }
}

/// What is going to happen, in one line.
fn introduction(suite: &MatrixSuite, points: &[Point], seed: u64) -> String {
    let rounds = suite.phases.iter().map(|p| p.rounds).max().unwrap_or(1);
    let shuffled = suite.phases.iter().any(|p| p.order == PointOrder::Shuffled);
    let mut text = match points.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    if rounds > 1 {
        text.push_str(&format!(" in {rounds} rounds"));
    }
    if shuffled {
        text.push_str(&format!(", in an order drawn with seed {seed}"));
    }
    if let Some(time) = loops::load_time(points.iter().map(|p| &p.plan)) {
        text.push_str(&format!(", about {time} of load"));
    }
    text
}

/// Every looped field with its values, each field once.
fn axes(suite: &MatrixSuite) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for field in suite.phases.iter().flat_map(|p| &p.loops) {
        let values = field.values.iter().filter_map(|v| serde_json::to_value(v).ok());
        match axes.iter_mut().find(|a| a.path == field.path) {
            Some(axis) => axis.values.extend(values),
            None => {
                axes.push(Axis { path: field.path.clone(), unit: None, values: values.collect() })
            }
        }
    }
    axes
}

/// The points of a matrix, and the table over them.
struct MatrixMethod {
    sequence: Sequence,
    suite: MatrixSuite,
}

/// More runs than this are shown by the charts of the sweep and links to their own reports.
const MOST_IN_FULL: usize = 12;
/// Charts of such a report.
const CHARTS: [&str; 3] = ["demand", "sweep", "sweep-heat"];

impl MatrixMethod {
    /// The table of points as files.
    fn tables(&self) -> Vec<(&'static str, &'static str)> {
        match self.head().axes.is_empty() {
            true => Vec::new(),
            false => vec![("Table", names::POINTS_CSV)],
        }
    }

    fn table(&self, done: &[PointResult]) -> Table {
        let own = self.suite.figures.iter().map(String::as_str);
        let figures: Vec<&str> = match self.suite.figures.is_empty() {
            true => FIGURES.to_vec(),
            false => own.collect(),
        };
        let row = |r: &PointResult| {
            let mut row = vec![Cell::new(r.point.id.clone())];
            let cell = |name: &&str| {
                let value = r.values.get(*name);
                Cell::new(value.map_or("-".to_owned(), |v| figure(name, *v)))
            };
            row.extend(figures.iter().map(cell));
            row
        };
        let mut table = Table::new("points", &self.suite.about, &["run"]);
        table.columns.extend(figures.iter().map(|f| f.trim_end_matches("_ns").to_owned()));
        table.rows = done.iter().map(row).collect();
        table
    }
}

/// A figure in a fitting unit, by its name.
fn figure(name: &str, value: f64) -> String {
    match name {
        name if name.ends_with("_ns") => duration(value, Script::Plain),
        "iops" | "bytes_per_s" => rate(value),
        _ => count(value as u64),
    }
}

impl Method for MatrixMethod {
    fn head(&self) -> &SeriesHead {
        self.sequence.head()
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        self.sequence.next(done)
    }

    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let all = self.sequence.exit(done, ended);
        if answers::missed(done) { worst(all, Exit::GateFailed) } else { all }
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        if series.state == SeriesState::Running {
            return Ok(Conclusion::default());
        }
        let rounds = self.suite.phases.iter().map(|p| p.rounds).max().unwrap_or(1);
        let data = sweep_data(&self.head().axes, series.done);
        let decisions = data.map(|data| decisions(&data, rounds)).unwrap_or_default();
        Ok(Conclusion { decisions, answer: answers::answer(series.done) })
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let table = self.table(series.done);
        let sweep = sweep_data(&self.head().axes, series.done);
        let text = sweep.iter().flat_map(|data| &data.curves).map(|curve| curve.text.as_str());
        let text = text.collect::<Vec<_>>().join("\n");
        let ceilings = answers::table(series.done);
        let mut after = vec![table.to_text()];
        after.extend(ceilings.iter().map(|(_, table)| table.to_text()));
        after.push(text.clone());
        after.extend(ceilings.iter().map(|(answer, _)| answer.clone()));
        let after: Vec<&str> =
            after.iter().map(|t| t.trim_end()).filter(|t| !t.is_empty()).collect();
        let lead = ceilings.iter().map(|(answer, _)| answer.as_str()).chain(text.lines());
        let lead = lead.map(|line| format!("{line}. ")).collect();
        let many = series.done.len() > MOST_IN_FULL && sweep.is_some();
        Ok(Some(SeriesReport {
            after: format!("\n{}", after.join("\n\n")),
            context: ReportContext {
                title: Some(self.suite.about.clone()),
                text: lead,
                tables: ceilings.into_iter().map(|(_, table)| table).chain([table]).collect(),
                summary: many.then(|| ReportSummary {
                    charts: CHARTS.to_vec(),
                    links: series
                        .done
                        .iter()
                        .map(|r| format!("{}/report.html", r.point.id))
                        .collect(),
                    ..ReportSummary::default()
                }),
                sweep,
                ..ReportContext::default()
            },
            runs: series.done.iter().map(|r| r.dir.clone()).collect(),
            files: self.tables(),
            ..SeriesReport::default()
        }))
    }
}
