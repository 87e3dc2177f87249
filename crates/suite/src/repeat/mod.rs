//! The method `repeat`: the same plan several times back to back, with the spread of its figures,
//! `repeat.json`, and one report (on one time axis where they share a clock). Every repetition has the plan's
//! seed: the same operations in the same order. Used by `taillight run` for `run.repeat`; `words` has the tables.

mod words;

use taillight_core::plan::Plan;
use taillight_core::{Percentile, Result};
use taillight_report::ReportContext;
use taillight_rundir::repeat::{FigureSpread, RepeatReport, Repetition};
use taillight_rundir::series::PointRole;
use taillight_rundir::{JsonFile, RunDir, RunStatus, SCHEMA_VERSION};
use taillight_stats::SeriesSummary;

use crate::figures::{percentile, request_percentiles};
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesState, SeriesView,
};
use crate::suites::load_ns;

/// Repetitions from which the interval of the median exists: 2 times 0.5^6 is below 5 %.
const FOR_INTERVAL: u32 = 6;

const P50: Percentile = Percentile::hundredths(50_00);
const P99: Percentile = Percentile::hundredths(99_00);
const P999: Percentile = Percentile::hundredths(99_90);

/// Repetitions in progress.
pub struct RepeatMethod {
    head: SeriesHead,
    plan: Plan,
    job: Option<JobSource>,
    report: RepeatReport,
    /// Boot of the machine that the last repetition ran in, and whether its time was virtual.
    last_boot: Option<String>,
    virtual_time: bool,
}

impl RepeatMethod {
    /// As many repetitions as the plan asks for; `job_text` is `job.toml` of the series.
    pub fn new(plan: &Plan, job: Option<JobSource>, job_text: String) -> RepeatMethod {
        let count = plan.run.repeat;
        let width = count.to_string().len();
        let mut each = plan.clone();
        each.run.repeat = 1;
        request_percentiles(&mut each, &[P50, P99, P999]);
        RepeatMethod {
            head: SeriesHead {
                planned: (1..=count).map(|n| format!("repeat-{n:0width$}")).collect(),
                job_text: Some(job_text),
                introduction: vec![
                    format!(
                        "{count} repetitions back to back, each with seed {}: the same operations \
                         in the same order",
                        plan.run.seed
                    ),
                    words::header(),
                ],
                ..SeriesHead::new("repeat", &plan.run.name, plan.run.seed)
            },
            report: RepeatReport {
                schema: SCHEMA_VERSION,
                taillight: env!("CARGO_PKG_VERSION").to_owned(),
                name: plan.run.name.clone(),
                status: RunStatus::Running,
                asked: count,
                seed: plan.run.seed,
                one_clock: true,
                runs: Vec::new(),
                spread: Vec::new(),
            },
            plan: each,
            job,
            last_boot: None,
            virtual_time: false,
        }
    }

    /// Adds the repetitions that are not in `repeat.json` yet.
    fn follow(&mut self, done: &[PointResult]) -> Result<()> {
        self.report.runs.truncate(done.len());
        for result in &done[self.report.runs.len()..] {
            self.add(result)?;
        }
        self.report.spread = spreads(&self.report.runs);
        Ok(())
    }

    fn add(&mut self, result: &PointResult) -> Result<()> {
        let dir = RunDir::open(&result.dir)?;
        let manifest = dir.manifest();
        let phases = || {
            let measured = |n: &str| n == "measure" || n == "drain";
            manifest.phases.iter().filter(move |p| measured(&p.name))
        };
        let start_ns = phases().map(|p| p.start_ns).min().unwrap_or_default();
        let end_ns = phases().filter_map(|p| p.end_ns).max().unwrap_or(start_ns);
        self.virtual_time = manifest.clock.source == "virtual";
        let boot = manifest.process.as_ref().map(|p| p.boot_id.clone());
        let report = &mut self.report;
        // The monotonic clock begins again with each boot.
        let same_clock = !self.virtual_time && (report.runs.is_empty() || self.last_boot == boot);
        self.last_boot = boot;
        report.one_clock &= same_clock;
        let before = report.runs.last().map(|r| r.end_ns);
        let gap_ns = before.filter(|_| same_clock).map(|end| start_ns - end);
        let totals = result.summary.as_ref().map(|s| &s.totals);
        let latency = totals.map(|t| t.latencies.main());
        let at = |p: Percentile| percentile(&latency?.percentiles, p)?.ns;
        report.runs.push(Repetition {
            number: u32::try_from(report.runs.len()).map_or(u32::MAX, |n| n + 1),
            dir: result.point.id.clone(),
            run_id: manifest.run_id.clone(),
            status: manifest.status,
            start_ns,
            end_ns,
            gap_ns,
            count: totals.map_or(0, |t| t.count),
            errors: totals.map_or(0, |t| t.errors),
            iops: totals.map_or(0.0, |t| t.iops),
            p50_ns: at(P50),
            p99_ns: at(P99),
            p999_ns: at(P999),
            max_ns: latency.and_then(|l| l.max_ns),
        });
        Ok(())
    }
}

impl Method for RepeatMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        let ended = done.last().is_some_and(|r| self.ended_by(r));
        let Some(id) = self.head.planned.get(done.len()).filter(|_| !ended) else {
            return Ok(Next::End);
        };
        let (plan, job) = (self.plan.clone(), self.job.clone());
        let point = Point::new(id.clone(), PointRole::Repeat, plan, job);
        Ok(Next::Point(Box::new(Point { quiet: true, ..point })))
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        self.follow(series.done)?;
        let all = series.done.len() == self.head.planned.len();
        self.report.status = match series.state {
            SeriesState::Running => RunStatus::Running,
            _ if all && series.done.iter().all(PointResult::complete) => RunStatus::Complete,
            _ => RunStatus::Partial,
        };
        self.report.write(series.dir)?;
        Ok(Conclusion::default())
    }

    fn line(&self, done: &[PointResult]) -> Option<String> {
        self.report.runs.get(done.len().checked_sub(1)?).map(words::line)
    }

    fn left_ns(&self, done: &[PointResult]) -> Option<(u128, u128)> {
        let runs = self.head.planned.len().saturating_sub(done.len()) as u128;
        load_ns(&self.plan).map(|ns| (ns * runs, ns * runs))
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let report = &self.report;
        let text = words::text(report, self.virtual_time);
        let spread = words::spread_table(report);
        Ok(Some(SeriesReport {
            before: format!("\n{}\n{text}", spread.to_text()),
            context: ReportContext {
                title: Some(format!("{}: {} repetitions", report.name, report.runs.len())),
                text,
                tables: vec![words::runs_table(report), spread],
                one_clock: report.one_clock,
                ..ReportContext::default()
            },
            runs: series.done.iter().map(|r| r.dir.clone()).collect(),
            ..SeriesReport::default()
        }))
    }
}

/// The spread of every figure over the repetitions that came to their end.
fn spreads(runs: &[Repetition]) -> Vec<FigureSpread> {
    let whole = || runs.iter().filter(|r| r.status == RunStatus::Complete);
    let of = |figure: &words::RepeatFigure| {
        let values: Vec<f64> = whole().filter_map(figure.of).collect();
        let it = SeriesSummary::of(&values)?;
        Some(FigureSpread {
            figure: figure.name.to_owned(),
            count: u32::try_from(it.count).ok()?,
            min: it.min,
            median: it.median,
            max: it.max,
            median_lo: it.median_ci.map(|i| i.0),
            median_hi: it.median_ci.map(|i| i.1),
        })
    };
    words::FIGURES.iter().filter_map(of).collect()
}
