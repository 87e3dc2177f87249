//! The rule `matrix`: phases of loops over fields of one job, in rounds.
//!
//! What it is: the points of a suite that decides nothing from results, and the table over them.
//! What it is not: a rule that looks at results; such a suite has a module of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::job::JobFile;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_report::ReportContext;
use taillight_report::format::{Script, count, duration, rate};
use taillight_report::table::{Cell, Table};
use taillight_rundir::series::{Axis, PointRole};

use super::{PreparedSuite, SuiteRequest, head, job_source, share_target};
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView,
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
    /// Loops, the outermost first.
    #[serde(default, rename = "loop")]
    pub loops: Vec<FieldLoop>,
}

/// A field of the job and the values it takes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldLoop {
    /// Dotted path of the field, like `workload.0.queue_depth`.
    pub path: String,
    /// Values, in order.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
}

fn sweep() -> PointRole {
    PointRole::Sweep
}
fn once() -> u32 {
    1
}

/// The values of one point, in the order of the loops.
type Setting<'a> = Vec<(&'a str, &'a toml::Value)>;

impl SuitePhase {
    /// Every combination of the loops' values; the innermost loop is the fastest.
    fn settings(&self) -> Vec<Setting<'_>> {
        let mut all: Vec<Setting<'_>> = vec![Vec::new()];
        for field in &self.loops {
            let mut longer = Vec::new();
            for setting in &all {
                for value in &field.values {
                    let mut setting = setting.clone();
                    setting.push((field.path.as_str(), value));
                    longer.push(setting);
                }
            }
            all = longer;
        }
        all
    }
}

/// Every run, in order. Errors: `Usage` for fields and values that the job refuses.
pub(super) fn prepare(
    suite: MatrixSuite,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[String]) -> Result<Plan>,
) -> Result<PreparedSuite> {
    request.only(&suite.name, &["--driver", "--path", "--target", "--runtime"])?;
    let mut points: Vec<Point> = Vec::new();
    for phase in &suite.phases {
        for round in 1..=phase.rounds {
            for setting in phase.settings() {
                let seed = points.first().map(|p| p.plan.run.seed);
                let place = (points.len() + 1, round);
                points.push(point(&suite, phase, place, &setting, request, planner, seed)?);
            }
        }
    }
    if points.is_empty() {
        return Err(Error::usage("the suite has no run").with("suite", &suite.name));
    }
    if suite.shared_target {
        share_target(&mut points)?;
    }
    let seed = points.first().map_or(0, |p| p.plan.run.seed);
    let head = SeriesHead { axes: axes(&suite), ..head(&suite.name, seed) };
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

fn point(
    suite: &MatrixSuite,
    phase: &SuitePhase,
    (number, round): (usize, u32),
    setting: &Setting<'_>,
    request: &SuiteRequest,
    planner: &dyn Fn(&JobSource, &[String]) -> Result<Plan>,
    seed: Option<u64>,
) -> Result<Point> {
    let id = id(phase, (number, round), setting);
    let own = phase.set.iter().map(|(path, value)| (path.as_str(), value));
    let fields = own.chain(setting.iter().copied());
    let mut set: Vec<String> = vec![format!("run.name={id}")];
    set.extend(seed.map(|seed| format!("run.seed={seed}")));
    set.extend(fields.map(|(path, value)| format!("{path}={value}")));
    set.extend(request.runtime.iter().map(|t| format!("run.duration={t}")));
    set.extend(request.assignments());
    let job = job_source(&id, &suite.name, &suite.job)?;
    let plan = planner(&job, &set).map_err(|e| e.with("point", &id))?;
    let words: Vec<String> =
        setting.iter().map(|(path, value)| format!("{path} = {}", shown(value))).collect();
    let json = |value: &toml::Value| {
        serde_json::to_value(value)
            .map_err(|e| Error::usage("a value of a loop is no JSON").source(e))
    };
    let coordinates = setting.iter().map(|(path, value)| Ok(((*path).to_owned(), json(value)?)));
    Ok(Point {
        about: match words.is_empty() {
            true => phase.about.clone(),
            false => words.join(", "),
        },
        round,
        coordinates: coordinates.collect::<Result<_>>()?,
        quiet: true,
        ..Point::new(id, phase.role, plan, Some(job))
    })
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

/// A value for people: text without its quotes.
fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The points of a matrix, and the table over them.
struct MatrixMethod {
    sequence: Sequence,
    suite: MatrixSuite,
}

impl MatrixMethod {
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

    fn record(&mut self, _: &SeriesView<'_>) -> Result<Conclusion> {
        Ok(Conclusion::default())
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let table = self.table(series.done);
        Ok(Some(SeriesReport {
            after: format!("\n{}", table.to_text().trim_end()),
            context: ReportContext {
                title: Some(self.suite.about.clone()),
                tables: vec![table],
                ..ReportContext::default()
            },
            runs: series.done.iter().map(|r| r.dir.clone()).collect(),
            ..SeriesReport::default()
        }))
    }
}
