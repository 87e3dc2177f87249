//! The method `search`: the highest demand of a job under a response-time ceiling. Here are the plan of each
//! probe, `search.json`, and the report over all probes; `bisection` decides which demand is next, `judge`
//! what a probe's result says, `words` how it is worded. Used by `taillight run` for a job with `[search]`.

mod bisection;
mod judge;
mod words;

use std::collections::BTreeMap;

use taillight_core::exit::Exit;
use taillight_core::plan::{Ceiling, Demand, Plan, SearchPlan};
use taillight_core::units::{Rate, RateUnit, Span};
use taillight_core::{Error, Result};
use taillight_report::ReportContext;
use taillight_report::table::paragraph;
use taillight_rundir::search::{
    ProbePurpose, ProbeReason, ProbeVerdict, SearchAnswer, SearchOutcome, SearchProbe,
    SearchReport, Varied,
};
use taillight_rundir::series::{Axis, Decision, PointRole};
use taillight_rundir::{JsonFile, RunStatus, SCHEMA_VERSION};

use crate::auto_options;
use crate::exit::worst;
use crate::figures::request_percentiles;
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesState, SeriesView,
};
use bisection::{Bisection, LOOKS, ProbeRequest, SearchEnd, SearchRange, SearchStep, ValueScale};

/// Confidence of a demand that passes, over all looks at it.
const CONFIDENCE: f64 = 0.975;

/// A search in progress.
pub struct SearchMethod {
    head: SeriesHead,
    plan: Plan,
    /// The deepest queue of any probe.
    deepest: u32,
    search: SearchPlan,
    /// Index of the varied workload.
    workload: usize,
    range: SearchRange,
    job: Option<JobSource>,
    bisection: Bisection,
    report: SearchReport,
}

impl SearchMethod {
    /// The search of a plan; `job_text` becomes `job.toml` of the series. Errors: `Internal` when the plan has
    /// no search with a range, which resolving it checks.
    pub fn new(plan: &Plan, job: Option<JobSource>, job_text: String) -> Result<SearchMethod> {
        let bug = || Error::internal("the plan's search has no workload or no range");
        let search = plan.search.clone().ok_or_else(bug)?;
        let workload = search.varied(plan).ok_or_else(bug)?;
        let range = range(&search).ok_or_else(bug)?;
        let report = empty(plan, &search, workload, range);
        let varied = if report.varied == Varied::QueueDepth { range.to as u32 } else { 1 };
        let field = match report.varied {
            Varied::Rate => "arrival.rate",
            Varied::QueueDepth => "queue_depth",
        };
        let introduction = vec![words::intention(&report, plan, workload), words::header(&report)];
        Ok(SearchMethod {
            head: SeriesHead {
                axes: vec![Axis {
                    path: format!("workload.{workload}.{field}"),
                    unit: Some(report.unit.clone()),
                    values: Vec::new(),
                }],
                job_text: Some(job_text),
                introduction,
                ..SeriesHead::new("search", &plan.run.name, plan.run.seed)
            },
            plan: plan.clone(),
            deepest: auto_options::deepest([plan]).max(varied),
            search,
            workload,
            range,
            job,
            bisection: Bisection::new(range),
            report,
        })
    }

    /// Judges the results that were not judged yet. Fewer results than before begin anew.
    fn follow(&mut self, done: &[PointResult]) -> Result<()> {
        if done.len() < self.report.probes.len() {
            self.report.probes.clear();
            self.bisection = Bisection::new(self.range);
        }
        for result in &done[self.report.probes.len()..] {
            let SearchStep::Probe(request) = self.bisection.next() else {
                return Err(Error::internal("a probe after the end of its search"));
            };
            let probe = self.probe(request, result)?;
            self.report.probes.push(probe);
        }
        Ok(())
    }

    /// What a result says, which the bisection is told; a probe that was ended says nothing.
    fn probe(&mut self, request: ProbeRequest, result: &PointResult) -> Result<SearchProbe> {
        let summary = result.summary.as_ref();
        let asked = self.ceiling();
        let judged = judge::judge(summary, &asked, &self.report.workload, request.longer);
        let judged = judged.filter(|_| !self.ended_by(result));
        let whole = judged.is_some();
        let judged = judged.unwrap_or_default();
        if whole {
            self.bisection.tell(request, judged.judgement);
        }
        let plan = &result.point.plan;
        Ok(SearchProbe {
            number: self.number(),
            dir: result.point.id.clone(),
            value: request.value,
            shown: self.demand(request.value)?.to_string(),
            purpose: request.purpose,
            length_ns: plan.run.duration.map_or(0, |d| d.0),
            seed: plan.run.seed,
            asked_per_s: judged.asked_per_s,
            achieved_per_s: judged.achieved_per_s,
            count: judged.count,
            ns: judged.ns,
            lo_ns: judged.lo_ns,
            hi_ns: judged.hi_ns,
            clustered: judged.clustered,
            observed_ns: judged.observed_ns,
            above: judged.above,
            share: judged.share,
            needs: judged.needs,
            decides_at: judged.decides_at,
            ends_missing: judged.ends_missing,
            changed_at_s: judged.changed_at_s,
            verdict: judged.judgement.verdict,
            reason: judged.reason,
            counted_as_failed: whole && self.bisection.gives_up(request, judged.judgement),
        })
    }

    /// The ceiling of every probe.
    fn ceiling(&self) -> Ceiling {
        let several = self.plan.workloads.len() > 1;
        judge::ceiling(&self.search, several.then_some(self.report.workload.as_str()))
    }

    fn number(&self) -> u32 {
        u32::try_from(self.report.probes.len()).map_or(u32::MAX, |n| n + 1)
    }

    /// The run of a probe. Every further look at the same demand has draws of its own, so that it
    /// is more than the same run again.
    fn point(&self, request: ProbeRequest) -> Result<Point> {
        let demand = self.demand(request.value)?;
        let length = Span(self.search.probe.0.saturating_mul(request.longer.into()));
        let mut plan = self.plan.probe(self.workload, demand, length);
        let before = self.report.probes.iter().filter(|p| p.value == request.value);
        let seed = plan.run.seed.wrapping_add(before.count() as u64);
        plan.run.seed = seed & i64::MAX as u64;
        plan.run.repeat = 1;
        auto_options::fix(&mut plan, self.deepest);
        request_percentiles(&mut plan, &[self.search.at]);
        // The report's own check is the search's, at the error that all looks at a demand share.
        plan.qos.ceilings.push(self.ceiling());
        plan.qos.looks = plan.qos.looks.max(LOOKS);
        let coordinate: serde_json::Value = match demand {
            Demand::Rate(rate) => rate.to_string().into(),
            Demand::Depth(depth) => depth.into(),
        };
        let paths = self.head.axes.iter().map(|a| a.path.clone());
        let role = match request.purpose {
            ProbePurpose::Verify => PointRole::Verify,
            _ => PointRole::Probe,
        };
        Ok(Point {
            about: demand.to_string(),
            coordinates: paths.map(|path| (path, coordinate.clone())).collect(),
            quiet: true,
            ..Point::new(self.id(demand, request.purpose), role, plan, self.job.clone())
        })
    }

    /// A value of the range as a demand: the ends as they were written.
    fn demand(&self, value: f64) -> Result<Demand> {
        let Some(between) = self.search.rate else {
            // Whole and within the range, which is of this type.
            return Ok(Demand::Depth(value as u32));
        };
        if value == self.range.from {
            return Ok(Demand::Rate(between.from));
        }
        if value == self.range.to {
            return Ok(Demand::Rate(between.to));
        }
        let rate = rate(value, between.from.unit);
        let rate = rate.ok_or_else(|| Error::internal("a probe's rate is no decimal number"))?;
        Ok(Demand::Rate(rate))
    }

    /// Name of a probe's directory: its number, its demand, why.
    fn id(&self, demand: Demand, purpose: ProbePurpose) -> String {
        let text = demand.to_string().replace("/s", "-per-s");
        let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
            true => c,
            false => '-',
        };
        let text: String = text.chars().map(plain).collect();
        let why = match purpose {
            ProbePurpose::Longer => "-longer",
            ProbePurpose::Verify => "-verify",
            _ => "",
        };
        format!("{:02}-{text}{why}", self.number())
    }

    /// How the search ended; none while it goes on and when it was ended.
    fn end(&self, state: SeriesState) -> Option<SearchEnd> {
        match (state, self.bisection.next()) {
            (SeriesState::Ended, SearchStep::Done(end)) => Some(end),
            _ => None,
        }
    }

    /// Brings status, outcome, answer and text of `search.json` up to date.
    fn conclude(&mut self, state: SeriesState) {
        let end = self.end(state);
        let report = &mut self.report;
        report.status = match (state, end) {
            (SeriesState::Running, _) => RunStatus::Running,
            (_, Some(_)) => RunStatus::Complete,
            (_, None) => RunStatus::Partial,
        };
        report.outcome = end.map_or(SearchOutcome::Unfinished, |e| e.outcome);
        report.answer = end
            .and_then(|end| Some((end.value?, end.above)))
            .and_then(|(value, above)| answer(report, value, above));
        report.text = match state {
            SeriesState::Running => "The search goes on.".to_owned(),
            _ => words::text(report),
        };
    }

    fn failed_by_errors(&self) -> bool {
        let last = self.report.probes.last();
        last.is_some_and(|p| p.reason == ProbeReason::Errors)
    }
}

impl Method for SearchMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        self.follow(done)?;
        let last = self.report.probes.last();
        if last.is_some_and(|p| p.verdict == ProbeVerdict::Unfinished) {
            return Ok(Next::End);
        }
        Ok(match self.bisection.next() {
            SearchStep::Probe(request) => Next::Point(Box::new(self.point(request)?)),
            SearchStep::Done(_) => Next::End,
        })
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        self.follow(series.done)?;
        self.conclude(series.state);
        self.report.write(series.dir)?;
        let decision = |p: &SearchProbe| {
            let figures =
                [("value", Some(p.value)), ("lo_ns", ns(p.lo_ns)), ("hi_ns", ns(p.hi_ns))];
            Decision {
                points: Vec::new(),
                rule: "ceiling".to_owned(),
                round: 1,
                values: known(figures),
                verdict: words::word(p.verdict).to_owned(),
                text: words::verdict(&self.report, p),
            }
        };
        Ok(Conclusion {
            decisions: self.report.probes.iter().map(decision).collect(),
            answer: match &self.report.answer {
                Some(answer) => Some(serde_json::to_value(answer).map_err(|e| {
                    Error::internal("the answer cannot be written as JSON").source(e)
                })?),
                None => None,
            },
        })
    }

    fn line(&self, done: &[PointResult]) -> Option<String> {
        self.report.probes.get(done.len().checked_sub(1)?).map(|p| words::line(&self.report, p))
    }

    /// The load of the probes to come, as if each were decided by its first look.
    fn left_ns(&self, _: &[PointResult]) -> Option<(u128, u128)> {
        let (probes, lengths) = self.bisection.left();
        let warmup = u128::from(self.plan.run.warmup.0) * u128::from(probes);
        let ns = u128::from(self.search.probe.0) * u128::from(lengths) + warmup;
        Some((ns, ns))
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let report = &self.report;
        let mut ordered: Vec<&SearchProbe> = report.probes.iter().collect();
        ordered.sort_by(|a, b| a.value.total_cmp(&b.value).then(a.number.cmp(&b.number)));
        Ok(Some(SeriesReport {
            context: ReportContext {
                title: Some(words::title(report)),
                text: report.text.clone(),
                tables: vec![words::table(report)],
                search: Some(report.clone()),
                // The cards speak of the answer, not of probes that were to fail.
                judged: judged(report, &ordered),
                ..ReportContext::default()
            },
            runs: ordered.iter().map(|p| series.dir.join(&p.dir)).collect(),
            before: format!("\n{}", paragraph(&report.text)),
            ..SeriesReport::default()
        }))
    }

    /// The search's, not that of any probe: probes fail on purpose. Only an unfinished search has the worst of theirs.
    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let probes = || done.iter().map(|r| r.exit).fold(Exit::Ok, worst);
        ended.unwrap_or(match self.report.outcome {
            SearchOutcome::Unfinished => probes(),
            SearchOutcome::NothingPasses if self.failed_by_errors() => Exit::IoErrors,
            SearchOutcome::NothingPasses => Exit::GateFailed,
            SearchOutcome::Undecided => Exit::GateUndecided,
            _ => Exit::Ok,
        })
    }
}

/// The range in numbers.
fn range(search: &SearchPlan) -> Option<SearchRange> {
    let (from, to, scale) = match (search.rate, search.queue_depth) {
        // Of the unit itself: operations, or bytes.
        (Some(r), _) => (r.from.ops_per_s(1.0), r.to.ops_per_s(1.0), ValueScale::Continuous),
        (_, Some(d)) => (f64::from(d.from), f64::from(d.to), ValueScale::Whole),
        _ => return None,
    };
    Some(SearchRange { from, to, precision: search.precision, scale })
}

/// A rate of so many a second; none for a value of more than nine digits after the point.
fn rate(value: f64, unit: RateUnit) -> Option<Rate> {
    let decimal = |den: u64| {
        let num = (value * den as f64).round();
        let exact = num / den as f64 == value && num < u64::MAX as f64;
        exact.then_some(Rate { unit, num: num as u64, den, per_ns: 1_000_000_000 })
    };
    (0..=9).find_map(|digits| decimal(10u64.pow(digits)))
}

fn empty(plan: &Plan, search: &SearchPlan, workload: usize, range: SearchRange) -> SearchReport {
    let unit = match search.rate.map(|r| r.from.unit) {
        Some(RateUnit::Ops) => "operations/s",
        Some(RateUnit::Bytes) => "bytes/s",
        None => "operations in flight per worker",
    };
    SearchReport {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        name: plan.run.name.clone(),
        status: RunStatus::Running,
        outcome: SearchOutcome::Unfinished,
        text: "The search goes on.".to_owned(),
        answer: None,
        varied: match search.rate {
            Some(_) => Varied::Rate,
            None => Varied::QueueDepth,
        },
        workload: plan.workloads[workload].name.clone(),
        unit: unit.to_owned(),
        from: range.from,
        to: range.to,
        precision: range.precision,
        at: search.at.to_string(),
        ceiling_ns: search.ceiling.0,
        looks: Some(LOOKS),
        probes: Vec::new(),
    }
}

fn answer(report: &SearchReport, value: f64, above: Option<f64>) -> Option<SearchAnswer> {
    let passed = |p: &&SearchProbe| p.value == value && p.verdict == ProbeVerdict::Pass;
    let probes = || report.probes.iter().filter(passed);
    let last = probes().next_back()?;
    let failed = above.and_then(|above| report.probes.iter().rfind(|p| p.value == above));
    Some(SearchAnswer {
        value,
        shown: last.shown.clone(),
        probes: probes().map(|p| p.number).collect(),
        confidence: CONFIDENCE,
        clustered: probes().all(|p| p.clustered),
        achieved_per_s: last.achieved_per_s,
        failed_above: above,
        limited_by: failed.map(|p| p.reason),
    })
}

fn ns(value: Option<u64>) -> Option<f64> {
    value.map(|ns| ns as f64)
}

/// The figures that exist, by name.
fn known<const N: usize>(figures: [(&str, Option<f64>); N]) -> BTreeMap<String, f64> {
    let there = figures.into_iter().filter_map(|(name, v)| Some((name, v?)));
    there.map(|(name, v)| (name.to_owned(), v)).collect()
}

/// Places of the probes that gave the answer; none without one.
fn judged(report: &SearchReport, ordered: &[&SearchProbe]) -> Vec<usize> {
    let answer = report.answer.iter().flat_map(|answer| &answer.probes);
    answer.filter_map(|number| ordered.iter().position(|p| p.number == *number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_exact_decimals() {
        for (value, text) in [(3162.0, "3162/s"), (0.03162, "0.03162/s"), (12.5, "12.5/s")] {
            assert_eq!(rate(value, RateUnit::Ops), text.parse().ok(), "{text}");
        }
        let bytes = rate(1_000_000.0, RateUnit::Bytes);
        assert_eq!(bytes, "1000000B/s".parse().ok());
        assert_eq!(rate(1.0 / 3.0, RateUnit::Ops), None);
    }
}
