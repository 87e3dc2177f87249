//! A job with `[search]`: one run per probe, each in a directory of its own, until the highest
//! demand under the ceiling is known.
//!
//! What it is: the runs, the console table, `search.json`, one report over all probes. What it is
//! not: the decision what to measure next, which is `taillight_suite::search`, or what a probe's
//! result says, which is `judge`.

mod clusters;
mod judge;
mod show;

use taillight_core::exit::Exit;
use taillight_core::plan::{Ceiling, Demand, Plan, SearchPlan};
use taillight_core::units::{Rate, RateUnit, Span};
use taillight_core::{Error, Result};
use taillight_report::ReportContext;
use taillight_rundir::search::{
    ProbePurpose, ProbeReason, ProbeVerdict, SearchAnswer, SearchOutcome, SearchProbe,
    SearchReport, Varied,
};
use taillight_rundir::{RunStatus, SCHEMA_VERSION};
use taillight_suite::search::{Ask, Outcome, Purpose, Range, Scale, Search, Step};

use super::series::{self, Series};
use super::{Done, Order};
use crate::{output, problem};

/// Confidence of a pass: the upper end of a two-sided 95 % interval is under the ceiling.
const CONFIDENCE: f64 = 0.975;

/// A search in progress.
struct Run<'a> {
    order: &'a Order<'a>,
    search: &'a SearchPlan,
    /// Index of the varied workload.
    workload: usize,
    series: Series,
    all: SearchReport,
}

/// Runs the search.
///
/// # Errors
/// As a single run, when the first probe cannot begin.
pub fn run(order: &Order<'_>, search: &SearchPlan) -> Result<Done> {
    let plan = order.plan;
    let bug = || Error::internal("the plan's search has no workload or no range");
    let workload = search.varied(plan).ok_or_else(bug)?;
    let range = range(search).ok_or_else(bug)?;
    let mut run = Run {
        order,
        search,
        workload,
        series: Series::new(plan)?,
        all: empty(plan, search, workload, range),
    };
    output::line(&show::intention(&run.all, plan, workload));
    output::line(&show::header(&run.all));
    let mut state = Search::new(range);
    let ended = run.probes(&mut state)?;
    let exit = run.finish(&state, ended)?;
    Ok(Done {
        exit,
        path: Some(run.series.path().to_owned()),
        summary: None,
    })
}

/// The range in numbers.
fn range(search: &SearchPlan) -> Option<Range> {
    let (from, to, scale) = match (search.rate, search.queue_depth) {
        // Of the unit itself: operations, or bytes.
        (Some(r), _) => (
            r.from.ops_per_s(1.0),
            r.to.ops_per_s(1.0),
            Scale::Continuous,
        ),
        (_, Some(d)) => (f64::from(d.from), f64::from(d.to), Scale::Whole),
        _ => return None,
    };
    Some(Range {
        from,
        to,
        precision: search.precision,
        scale,
    })
}

fn empty(plan: &Plan, search: &SearchPlan, workload: usize, range: Range) -> SearchReport {
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
        probes: Vec::new(),
    }
}

impl Run<'_> {
    /// Measures until the search knows or something ends it, which is the exit code.
    fn probes(&mut self, state: &mut Search) -> Result<Option<Exit>> {
        while let Step::Probe(ask) = state.next() {
            if let Some(exit) = self.order.signals.exit() {
                return Ok(Some(exit));
            }
            let (plan, demand) = self.plan_of(ask)?;
            let name = self.name_of(demand, ask);
            let done = match self.series.run(self.order, &plan, &name) {
                Ok(done) => done,
                Err(e) if self.all.probes.is_empty() => return Err(e),
                Err(e) => return Ok(Some(problem::show(&e))),
            };
            if done.path.is_none() {
                return Ok(Some(done.exit));
            }
            let ended = series::ends(done.exit);
            let judged = self.judge(&done)?;
            let whole = !ended && judged.is_some();
            let judged = judged.unwrap_or_default();
            self.all.probes.push(SearchProbe {
                number: self.number(),
                dir: name,
                value: ask.value,
                shown: demand.to_string(),
                purpose: purpose(ask.purpose),
                length_ns: plan.run.duration.map_or(0, |d| d.0),
                seed: plan.run.seed,
                asked_per_s: judged.asked_per_s,
                achieved_per_s: judged.achieved_per_s,
                count: judged.count,
                ns: judged.ns,
                lo_ns: judged.lo_ns,
                hi_ns: judged.hi_ns,
                clustered: judged.clustered,
                verdict: if whole {
                    judged.shown()
                } else {
                    ProbeVerdict::Unfinished
                },
                reason: if whole {
                    judged.reason
                } else {
                    ProbeReason::Unfinished
                },
                counted_as_failed: whole && state.gives_up(ask, judged.verdict),
            });
            self.all
                .probes
                .last()
                .into_iter()
                .for_each(|p| output::line(&show::line(p)));
            self.all.write(self.series.path())?;
            if !whole {
                return Ok(Some(done.exit));
            }
            state.tell(ask, judged.verdict);
        }
        Ok(None)
    }

    /// What a probe says, with the interval that counts slow I/Os close together as one event.
    fn judge(&self, done: &Done) -> Result<Option<judge::Judged>> {
        let summary = done.summary.as_ref();
        let wanted = judge::latency(summary, self.search, &self.all.workload);
        let of = wanted.and_then(|(at, ns, count)| {
            Some(clusters::Of {
                workload: u16::try_from(self.workload).ok()?,
                at,
                ns,
                count,
            })
        });
        let clusters = match (of, &done.path) {
            (Some(of), Some(path)) => clusters::of_probe(path, of)?,
            _ => None,
        };
        Ok(judge::judge(
            summary,
            self.search,
            &self.all.workload,
            clusters,
        ))
    }

    fn number(&self) -> u32 {
        u32::try_from(self.all.probes.len()).map_or(u32::MAX, |n| n + 1)
    }

    /// The plan of a probe. Every further look at the same demand has draws of its own, so that it
    /// is more than the same run again.
    fn plan_of(&self, ask: Ask) -> Result<(Plan, Demand)> {
        let demand = self.demand(ask.value)?;
        let length = Span(self.search.probe.0.saturating_mul(u64::from(ask.longer)));
        let mut plan = self.order.plan.probe(self.workload, demand, length);
        let before = self.all.probes.iter().filter(|p| p.value == ask.value);
        let seed = plan.run.seed.wrapping_add(before.count() as u64);
        plan.run.seed = seed & i64::MAX as u64;
        series::ask_for(&mut plan, &[self.search.at]);
        // With one workload the report's own check is the search's; with several it would take
        // them together.
        if plan.workloads.len() == 1 {
            plan.qos.ceilings.push(Ceiling {
                ceiling: self.search.ceiling,
                at: self.search.at,
            });
        }
        Ok((plan, demand))
    }

    fn demand(&self, value: f64) -> Result<Demand> {
        let Some(between) = self.search.rate else {
            // Whole and within the range, which is of this type.
            return Ok(Demand::Depth(value as u32));
        };
        // The ends as they were written.
        if value == self.all.from {
            return Ok(Demand::Rate(between.from));
        }
        if value == self.all.to {
            return Ok(Demand::Rate(between.to));
        }
        let text = match between.from.unit {
            RateUnit::Ops => format!("{value}/s"),
            RateUnit::Bytes => format!("{value}B/s"),
        };
        let rate = text.parse::<Rate>();
        let rate = rate.map_err(|e| Error::internal("a probe's rate is no rate").with("why", e))?;
        Ok(Demand::Rate(rate))
    }

    /// Name of a probe's directory: its number, its demand, why.
    fn name_of(&self, demand: Demand, ask: Ask) -> String {
        let text = demand.to_string().replace("/s", "-per-s");
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        let text: String = text.chars().map(plain).collect();
        let why = match ask.purpose {
            Purpose::Longer => "-longer",
            Purpose::Verify => "-verify",
            _ => "",
        };
        format!("{:02}-{text}{why}", self.number())
    }

    /// The answer, `search.json`, the report, the exit code.
    fn finish(&mut self, state: &Search, ended: Option<Exit>) -> Result<Exit> {
        let outcome = match (ended, state.next()) {
            (None, Step::Done(outcome)) => Some(outcome),
            _ => None,
        };
        let all = &mut self.all;
        if all.probes.is_empty() {
            return Ok(ended.unwrap_or(Exit::Ok));
        }
        let (kind, answer) = match outcome {
            Some(Outcome::Found { value, above }) => {
                (SearchOutcome::Found, answer(all, value, Some(above)))
            }
            Some(Outcome::TopOfRange { value }) => {
                (SearchOutcome::TopOfRange, answer(all, value, None))
            }
            Some(Outcome::NothingPasses) => (SearchOutcome::NothingPasses, None),
            Some(Outcome::Undecided) => (SearchOutcome::Undecided, None),
            None => (SearchOutcome::Unfinished, None),
        };
        all.status = match outcome {
            Some(_) => RunStatus::Complete,
            None => RunStatus::Partial,
        };
        (all.outcome, all.answer) = (kind, answer);
        all.text = show::text(all);
        all.write(self.series.path())?;
        output::line(&format!("\n{}\n", all.text));
        let mut ordered: Vec<&SearchProbe> = all.probes.iter().collect();
        ordered.sort_by(|a, b| a.value.total_cmp(&b.value).then(a.number.cmp(&b.number)));
        let dirs: Vec<String> = ordered.iter().map(|p| p.dir.clone()).collect();
        let frame = ReportContext {
            title: Some(show::title(all)),
            text: all.text.clone(),
            tables: vec![show::table(all)],
            one_clock: false,
            search: Some(all.clone()),
            summary: None,
        };
        let made = self.series.report(&dirs, frame);
        let exit = ended.unwrap_or(match kind {
            SearchOutcome::NothingPasses if failed_by_errors(all) => Exit::IoErrors,
            SearchOutcome::NothingPasses => Exit::GateFailed,
            SearchOutcome::Undecided => Exit::GateUndecided,
            _ => Exit::Ok,
        });
        // What was found is kept: a report that cannot be made must not hide how it ended.
        Ok(match made {
            Err(e) => Some(problem::show(&e))
                .filter(|_| exit == Exit::Ok)
                .unwrap_or(exit),
            Ok(()) => exit,
        })
    }
}

fn failed_by_errors(all: &SearchReport) -> bool {
    all.probes
        .last()
        .is_some_and(|p| p.reason == ProbeReason::Errors)
}

fn answer(all: &SearchReport, value: f64, above: Option<f64>) -> Option<SearchAnswer> {
    let passed = |p: &&SearchProbe| p.value == value && p.verdict == ProbeVerdict::Pass;
    let last = all.probes.iter().rfind(passed)?;
    let failed = above.and_then(|above| all.probes.iter().rfind(|p| p.value == above));
    Some(SearchAnswer {
        value,
        shown: last.shown.clone(),
        probes: all.probes.iter().filter(passed).map(|p| p.number).collect(),
        confidence: CONFIDENCE,
        clustered: all.probes.iter().filter(passed).all(|p| p.clustered),
        achieved_per_s: last.achieved_per_s,
        failed_above: above,
        limited_by: failed.map(|p| p.reason),
    })
}

fn purpose(of: Purpose) -> ProbePurpose {
    match of {
        Purpose::Lowest => ProbePurpose::Lowest,
        Purpose::Highest => ProbePurpose::Highest,
        Purpose::Between => ProbePurpose::Between,
        Purpose::Longer => ProbePurpose::Longer,
        Purpose::Verify => ProbePurpose::Verify,
    }
}
