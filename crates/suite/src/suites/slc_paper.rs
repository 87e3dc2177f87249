//! The rule `slc-paper`: the matrix of the study that introduced the SLC factors, beside the factors
//! it printed; its runs, and `slc-paper.json`.
//!
//! Each system and size has one target, open from before the write until after the read; it is gone
//! afterwards. How much there is to read is known only when the writer is done, so the reader's plan is made
//! then.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Percentile, Result};
use taillight_rundir::series::{Axis, PointRole};
use taillight_rundir::slc_paper::{SlcPaperReport, SlcPaperRun};
use taillight_rundir::summary::SlcPair;
use taillight_rundir::{JsonFile, SCHEMA_VERSION};
use taillight_stats::slc::SBK_21_LIST;

use super::{
    Planner, PreparedSuite, SuiteRequest, head, job_source, require_single_runs,
    slc_paper_text as text,
};
use crate::figures::{percentile, request_percentiles};
use crate::host::{Assignment, JobSource};
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView, SharedUse,
};

/// Records that the plan shows for a reader, whose number is known only after the write.
const UNKNOWN: u64 = 1;

/// Systems, sizes, and what the paper prints for them.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlcPaperSuite {
    /// Name of the suite.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// Sizes of a record.
    pub sizes: Vec<ByteSize>,
    /// How long and how much, by name.
    pub scale: BTreeMap<String, RunScale>,
    /// Systems, in order.
    #[serde(rename = "system")]
    pub systems: Vec<StudiedSystem>,
    /// What the paper prints.
    pub published: Vec<PublishedFactors>,
}

/// Where a run ends, whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunScale {
    pub time: Span,
    /// Bytes written at most.
    pub bytes: ByteSize,
}

/// A system of the study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StudiedSystem {
    pub name: String,
    pub title: String,
    /// The driver it is measured through.
    pub driver: String,
    /// Options of the driver.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// The operation of the writer.
    pub write: String,
    /// The operation of the reader.
    pub read: String,
    /// Whether records have keys; else they are appended to one file.
    #[serde(default = "yes")]
    pub keyed: bool,
    /// Whether it is only measured with `--endpoint`, below which its records go.
    #[serde(default)]
    pub endpoint: bool,
}

fn yes() -> bool {
    true
}

/// What the paper prints for a system and an operation: an entry for each size.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedFactors {
    system: String,
    op: String,
    slc1: Vec<i64>,
    slc2: Vec<i64>,
    /// Numbers of the figures.
    figures: Vec<u32>,
    /// Figures whose own curve does not allow the number.
    #[serde(default)]
    doubt: Vec<u32>,
}

/// What the paper prints for one run of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrintedFactors {
    pub slc1: i64,
    pub slc2: i64,
    /// Number of the figure.
    pub figure: u32,
    /// The figure's own curve does not allow the number.
    pub doubt: bool,
}

/// What a run does: one writer, or one reader of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Write,
    Read,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Side; 2] = [Side::Write, Side::Read];
    /// Name in files and figures.
    pub fn name(self) -> &'static str {
        match self {
            Side::Write => "write",
            Side::Read => "read",
        }
    }
}

impl SlcPaperSuite {
    fn scale(&self, name: &str) -> Result<RunScale> {
        let names: Vec<&str> = self.scale.keys().map(String::as_str).collect();
        self.scale.get(name).copied().ok_or_else(|| {
            Error::usage(format!("suite `{}` has no scale `{name}`", self.name))
                .hint(format!("it has: {}", names.join(", ")))
        })
    }

    /// What the paper prints; none for what it does not have.
    pub fn printed(&self, system: &str, side: Side, size: ByteSize) -> Option<PrintedFactors> {
        let nth = self.sizes.iter().position(|s| *s == size)?;
        let of = |p: &&PublishedFactors| p.system == system && p.op == side.name();
        let entry = self.published.iter().find(of)?;
        let figure = *entry.figures.get(nth)?;
        Some(PrintedFactors {
            slc1: *entry.slc1.get(nth)?,
            slc2: *entry.slc2.get(nth)?,
            figure,
            doubt: entry.doubt.contains(&figure),
        })
    }
}

/// One run of the matrix.
#[derive(Debug, Clone, Copy)]
struct MatrixRun {
    /// Index of the system.
    system: usize,
    size: ByteSize,
    side: Side,
    /// Number of the pair of writer and reader.
    pair: u32,
}

/// The matrix, and what came of it so far.
pub(super) struct SlcPaperMethod {
    pub(super) suite: SlcPaperSuite,
    request: SuiteRequest,
    planner: Planner,
    scale: RunScale,
    scale_name: String,
    /// Directory on the disk to be measured.
    work_directory: PathBuf,
    runs: Vec<MatrixRun>,
    head: SeriesHead,
    /// The seed of all runs, once the first plan has it.
    seed: Option<u64>,
    pub(super) report: SlcPaperReport,
}

/// The matrix for a directory and an endpoint. Errors: `Usage` without a directory, for a scale
/// that is none, and for plans that cannot be made.
pub(super) fn prepare(
    suite: SlcPaperSuite,
    request: SuiteRequest,
    planner: Planner,
) -> Result<PreparedSuite> {
    request.only(&suite.name, &["--path", "--endpoint", "--scale", "--runtime"])?;
    let work_directory = work_directory(&suite.name, &request)?;
    let scale_name = request.scale.clone().unwrap_or_else(|| "short".to_owned());
    let scale = suite.scale(&scale_name)?;
    let runs = matrix(&suite, request.endpoint.is_some());
    let left_out = suite.systems.iter().filter(|s| s.endpoint && request.endpoint.is_none());
    let notes = left_out
        .map(|s| format!("{} is left out: it is measured with --endpoint URL/BUCKET", s.title))
        .collect();
    let mut method = SlcPaperMethod {
        head: head(&suite.name, 0),
        seed: None,
        report: SlcPaperReport {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            scale: scale_name.clone(),
            complete: false,
            runs: Vec::new(),
        },
        suite,
        request,
        planner,
        scale,
        scale_name,
        work_directory: work_directory.clone(),
        runs,
    };
    let mut plans: Vec<Plan> = Vec::new();
    for run in method.runs.clone() {
        let plan = method.plan(run, UNKNOWN)?.1;
        method.seed = Some(plan.run.seed);
        method.head.seed = plan.run.seed;
        plans.push(plan);
    }
    require_single_runs(&plans)?;
    method.head.planned = method.runs.iter().map(|r| method.id(*r)).collect();
    method.head.axes = method.axes();
    Ok(PreparedSuite {
        method: Box::new(method),
        plans,
        notes,
        work_directory: Some(work_directory),
        empty_directories: Vec::new(),
    })
}

fn work_directory(suite: &str, request: &SuiteRequest) -> Result<PathBuf> {
    let path = request.path(suite)?.filter(|p| !p.is_empty());
    let path = path.ok_or_else(|| {
        Error::usage(format!("suite {suite} needs a directory"))
            .hint("name one on the disk to be measured: --path /mnt/test")
    })?;
    let dir = Path::new(path);
    match dir.exists() && !dir.is_dir() {
        false => Ok(dir.to_owned()),
        true => Err(Error::usage("--path is not a directory")
            .with("path", path)
            .hint("name one on the disk to be measured: it is made if it is not there")),
    }
}

/// By system, then size; the writer before the reader.
fn matrix(suite: &SlcPaperSuite, endpoint: bool) -> Vec<MatrixRun> {
    let systems = suite.systems.iter().enumerate();
    let there = systems.filter(|(_, s)| endpoint || !s.endpoint);
    let pairs = there.flat_map(|(system, _)| suite.sizes.iter().map(move |size| (system, *size)));
    let sides = |(pair, (system, size)): (usize, (usize, ByteSize))| {
        Side::BOTH.map(|side| MatrixRun { system, size, side, pair: pair as u32 })
    };
    pairs.enumerate().flat_map(sides).collect()
}

impl SlcPaperMethod {
    fn system(&self, run: MatrixRun) -> &StudiedSystem {
        &self.suite.systems[run.system]
    }

    fn id(&self, run: MatrixRun) -> String {
        let system = &self.system(run).name;
        format!("{system}-{}-{}", run.size.0, run.side.name())
    }

    fn axes(&self) -> Vec<Axis> {
        let sizes = self.suite.sizes.iter().map(|s| s.to_string().into());
        let systems = self.suite.systems.iter().map(|s| s.driver.clone().into());
        let axis = |path: &str, values| Axis { path: path.to_owned(), unit: None, values };
        vec![
            axis("target.driver", systems.collect()),
            axis("workload.0.block_size", sizes.collect()),
        ]
    }

    /// The job and the plan of a run; a reader reads `records`.
    fn plan(&self, run: MatrixRun, records: u64) -> Result<(JobSource, Plan)> {
        let id = self.id(run);
        let origin = format!("run {id} of suite {}", self.suite.name);
        let job = job_source(&origin, &self.job(run, records))?;
        let mut set: Vec<Assignment> = Vec::new();
        set.extend(self.seed.map(|seed| Assignment::new("suite", format!("run.seed={seed}"))));
        let runtime = self.request.runtime.iter();
        set.extend(runtime.map(|t| Assignment::new("--runtime", format!("run.duration={t}"))));
        set.extend(self.request.set.iter().map(|text| Assignment::new("--set", text)));
        let mut plan = (self.planner)(&job, &set)?;
        request_percentiles(&mut plan, &SBK_21_LIST);
        Ok((job, plan))
    }

    /// The job file of a run.
    fn job(&self, run: MatrixRun, records: u64) -> Value {
        let (system, size) = (self.system(run), run.size.0);
        let whole = self.scale.bytes.0 / size * size;
        let bytes = |n: u64| json!(format!("{n}B"));
        let mut job = json!({
            "run": { "name": self.id(run), "duration": self.scale.time.to_string() },
            "target": { "driver": system.driver, "path": self.path(run) },
            "workload": [{
                "name": run.side.name(),
                "block_size": bytes(size),
                "access": { "kind": "sequential" },
            }],
        });
        let write = run.side == Side::Write;
        if write {
            job["run"]["bytes"] = bytes(whole);
        }
        if !system.keyed {
            job["target"]["size"] = bytes(whole);
        }
        if !system.options.is_empty() {
            job["target"]["options"] = json!(system.options);
        }
        let workload = &mut job["workload"][0];
        workload["mix"] = if write { &system.write } else { &system.read }.as_str().into();
        if !write {
            workload["passes"] = 1.into();
        }
        if system.keyed {
            let count = if write { 0 } else { records };
            workload["keys"] =
                json!({ "count": count, "naming": "ordered", "digits": 19, "prefix": "" });
        } else if !write {
            workload["access"]["length"] = bytes((records * size).min(whole));
        }
        job
    }

    /// Where a run's records go.
    fn path(&self, run: MatrixRun) -> String {
        let (system, size) = (self.system(run), run.size.0);
        let name = match (&self.request.endpoint, system.keyed) {
            (Some(url), _) if system.endpoint => {
                return format!("{}/slc-paper-{size}/", url.trim_end_matches('/'));
            }
            (_, false) => format!("slc-paper-{size}.dat"),
            // Others may be measured through the same driver.
            (_, true) if !system.options.is_empty() => format!("slc-paper-{}-{size}", system.name),
            (_, true) => format!("slc-paper-{}-{size}", system.driver),
        };
        self.work_directory.join(name).to_string_lossy().into_owned()
    }

    /// What the target of a pair is opened with. A file is opened for its writer alone: what is
    /// read is what that one appended.
    fn opened_with(&self, run: MatrixRun) -> Result<Plan> {
        let write = MatrixRun { side: Side::Write, ..run };
        let mut plan = self.plan(write, UNKNOWN)?.1;
        if self.system(run).keyed {
            let read = MatrixRun { side: Side::Read, ..run };
            plan.workloads.extend(self.plan(read, UNKNOWN)?.1.workloads);
        }
        Ok(plan)
    }

    fn point(&self, run: MatrixRun, records: u64) -> Result<Point> {
        let system = self.system(run);
        let (job, plan) = self.plan(run, records)?;
        let read = run.side == Side::Read;
        Ok(Point {
            about: format!("{} of {} on {}", run.side.name(), run.size, system.title),
            coordinates: BTreeMap::from([
                ("target.driver".to_owned(), system.driver.clone().into()),
                ("workload.0.block_size".to_owned(), run.size.to_string().into()),
            ]),
            shared: Some(SharedUse {
                group: run.pair,
                state: run.pair,
                opened_with: Arc::new(self.opened_with(run)?),
                first_workload: u16::from(read && system.keyed),
                prepares: !read,
                // Outside of what is measured: what the writer left in memory goes to the files.
                flush: !read,
            }),
            quiet: true,
            ..Point::new(self.id(run), PointRole::Sweep, plan, Some(job))
        })
    }

    /// The run after these, and how many records there are to read. A pair whose writer did not
    /// come to its end, or wrote nothing, has no reader.
    fn run_after(&self, done: &[PointResult]) -> Option<(MatrixRun, u64)> {
        let Some(last) = done.last() else {
            return self.runs.first().map(|run| (*run, UNKNOWN));
        };
        let at = self.head.planned.iter().position(|id| *id == last.point.id)?;
        let next = *self.runs.get(at + 1)?;
        if next.side == Side::Write {
            return Some((next, UNKNOWN));
        }
        let totals = last.summary.as_ref().map(|s| &s.totals);
        let written = totals.map_or(0, |t| t.count - t.errors);
        match last.exit == Exit::Ok && written > 0 {
            true => Some((next, written)),
            false => self.runs.get(at + 2).map(|run| (*run, UNKNOWN)),
        }
    }

    fn row(&self, run: MatrixRun, result: &PointResult) -> Option<SlcPaperRun> {
        let summary = result.summary.as_ref()?;
        let system = self.system(run);
        let paper = self.suite.printed(&system.name, run.side, run.size);
        let (op, totals) = match summary.ops.iter().next() {
            Some((op, totals)) => (Some(*op), totals),
            None => (None, &summary.totals),
        };
        let slc = op.and_then(|op| summary.slc.get(&op));
        let at =
            |p: Percentile| percentile(&totals.latencies.service.percentiles, p).and_then(|p| p.ns);
        Some(SlcPaperRun {
            system: system.name.clone(),
            op: run.side.name().to_owned(),
            size: run.size.0,
            dir: result.point.id.clone(),
            complete: result.exit == Exit::Ok,
            count: totals.count,
            errors: totals.errors,
            iops: totals.iops,
            p50_ns: at(Percentile::hundredths(50_00)),
            p9999_ns: at(Percentile::hundredths(99_99)),
            slc1: slc.and_then(|s| s.slc1),
            slc2: slc.and_then(|s| s.slc2),
            sbk21: slc.map(|s| s.sbk21),
            paper: paper.map(|p| SlcPair { slc1: p.slc1, slc2: p.slc2 }),
            figure: paper.map(|p| p.figure),
            doubt: paper.is_some_and(|p| p.doubt),
        })
    }

    /// How long a run takes at most, as it was asked for.
    pub(super) fn time(&self) -> String {
        let asked = self.request.runtime.clone();
        asked.unwrap_or_else(|| self.scale.time.to_string())
    }
}

impl Method for SlcPaperMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        Ok(match self.run_after(done) {
            Some((run, records)) => Next::Point(Box::new(self.point(run, records)?)),
            None => Next::End,
        })
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        let by_id = |r: &PointResult| {
            let at = self.head.planned.iter().position(|id| *id == r.point.id)?;
            self.row(self.runs[at], r)
        };
        let rows: Vec<SlcPaperRun> = series.done.iter().filter_map(by_id).collect();
        let all = rows.len() == self.runs.len() && rows.iter().all(|r| r.complete);
        self.report = SlcPaperReport {
            scale: self.scale_name.clone(),
            complete: all,
            runs: rows,
            ..self.report.clone()
        };
        self.report.write(series.dir)?;
        Ok(Conclusion::default())
    }

    /// `--destroy` names one target; the study has many.
    fn refused(&self, e: Error) -> Error {
        match e.hint_text().is_some_and(|hint| hint.contains("--destroy")) {
            true => e.hint("delete it if a run of this study left it, or name another --path"),
            false => e,
        }
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        text::report(self, series).map(Some)
    }
}
