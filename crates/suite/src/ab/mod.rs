//! The method `ab`: two jobs run in turns, one pair of runs after the other, compared after each pair. Here are
//! the order of the runs, the seed of each pair, and where the series may end early; `taillight_compare` judges
//! the pairs that are complete. Used by `taillight ab`; `words` has what is said on the way.

mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use taillight_compare::{
    CompareRequest, DropRule, PairPlan, RunPair, SideRun, base_first, compare_pairs, console,
    context, is_hopeless, markdown, plans_comparable,
};
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_report::ReportContext;
use taillight_rundir::compare::{CompareFile, GateStatus, PairsEnd};
use taillight_rundir::series::{Axis, PointRole, PointStatus, SeriesFile};
use taillight_rundir::{JsonFile, atomic, names};
use taillight_stats::compare::FEWEST_PAIRS;

use crate::auto_options;
use crate::exit::worst;
use crate::figures::request_percentiles;
use crate::host::JobSource;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesView,
};
use crate::saved::MOST_IN_FULL;

/// Its name in `series.json`.
pub const NAME: &str = "ab";
/// The coordinate that says which side a run is of, and its values: base and new.
const SIDE: &str = "side";
const SIDES: [&str; 2] = ["a", "b"];
/// Most pairs: more are a mistake.
const MOST_PAIRS: u32 = 1_000;

/// One of the two jobs.
#[derive(Debug, Clone)]
pub struct AbSide {
    /// What people call it.
    pub name: String,
    pub plan: Plan,
    pub job: Option<JobSource>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct AbRequest {
    /// Pairs at most.
    pub pairs: u32,
    pub drop: DropRule,
    pub compare: CompareRequest,
}

/// Pairs in progress.
pub struct AbMethod {
    head: SeriesHead,
    /// Base and new.
    sides: [AbSide; 2],
    request: AbRequest,
    /// What is compared of the runs so far, by the ids of their points.
    runs: BTreeMap<String, SideRun>,
    found: Option<CompareFile>,
}

impl AbMethod {
    /// Pairs of runs of these jobs; the seed of pair n is that of base's plan plus n - 1. Errors: `Usage` for
    /// jobs that cannot be compared, ask for several runs or name a directory, a gate over an operation that one
    /// job does not have, or fewer than 3 or more than 1,000 pairs.
    pub fn new(mut sides: [AbSide; 2], request: AbRequest) -> Result<AbMethod> {
        check(&sides, &request)?;
        let deepest = auto_options::deepest(sides.iter().map(|side| &side.plan));
        sides.iter_mut().for_each(|side| auto_options::fix(&mut side.plan, deepest));
        let [base, new] = &sides;
        let count = request.pairs;
        let places = (1..=count).flat_map(|pair| [(pair, 0), (pair, 1)]);
        let head = SeriesHead {
            axes: vec![Axis {
                path: SIDE.to_owned(),
                unit: None,
                values: SIDES.iter().map(|side| json!(side)).collect(),
            }],
            planned: places.map(|(pair, place)| id(pair, count, turn(pair, place))).collect(),
            introduction: words::introduction(&sides, &request),
            announced: true,
            ..SeriesHead::new(
                NAME,
                &format!("{} against {}", new.name, base.name),
                base.plan.run.seed,
            )
        };
        let mut method = AbMethod { head, sides, request, runs: BTreeMap::new(), found: None };
        method.ask_for_percentiles();
        Ok(method)
    }

    /// Has the report of every run give the percentiles of the gate.
    fn ask_for_percentiles(&mut self) {
        let gate = self.request.compare.gate.iter().flat_map(|gate| &gate.figures);
        let asked: Vec<_> = gate.filter_map(|wanted| wanted.figure.percentile()).collect();
        self.sides.iter_mut().for_each(|side| request_percentiles(&mut side.plan, &asked));
    }

    /// What was found in the end; none where no pair is complete.
    pub fn found(&self) -> Option<&CompareFile> {
        self.found.as_ref()
    }

    /// The comparison of the pairs that are complete; none without one.
    fn judged(&self, done: &[PointResult]) -> Option<CompareFile> {
        let complete = |pair: &&[PointResult]| pair.iter().all(PointResult::complete);
        let pairs = done.chunks_exact(2).take_while(complete).map_while(|runs| {
            let of = |side: usize| {
                let mut runs = runs.iter();
                runs.find_map(|r| self.runs.get(&r.point.id).filter(|_| side_of(r) == Some(side)))
            };
            Some(RunPair {
                base: of(0)?.clone(),
                new: of(1)?.clone(),
                base_first: runs.first().and_then(side_of) == Some(0),
            })
        });
        let pairs: Vec<RunPair> = pairs.collect();
        (!pairs.is_empty()).then(|| self.request.judge(&pairs))
    }

    /// Reads the runs that are complete and not read yet.
    fn follow(&mut self, done: &[PointResult]) -> Result<()> {
        for result in done.iter().filter(|r| r.complete() && r.summary.is_some()) {
            if !self.runs.contains_key(&result.point.id) {
                self.runs.insert(result.point.id.clone(), SideRun::read(&result.dir)?);
            }
        }
        Ok(())
    }

    /// Whether no further pair is asked for: the gate is decided, or cannot be.
    fn settled(&self, done: &[PointResult]) -> bool {
        let found = self.judged(done).filter(|_| done.len().is_multiple_of(2));
        found.is_some_and(|found| {
            let early = found.pairs.as_ref().is_some_and(|p| p.ended == PairsEnd::Early);
            early || is_hopeless(&found, &self.request.compare)
        })
    }
}

impl AbRequest {
    /// Compares pairs by what was fixed beforehand.
    pub fn judge(&self, pairs: &[RunPair]) -> CompareFile {
        let plan = PairPlan { planned: self.pairs, drop: self.drop };
        compare_pairs(pairs, plan, &self.compare)
    }
}

/// The pairs of a series of this method, in order, up to the first that is not complete. Errors: `Unavailable` or
/// `Corrupt` when a run cannot be read.
pub fn pairs_of(dir: &Path, series: &SeriesFile) -> Result<Vec<RunPair>> {
    let mut pairs = Vec::new();
    for round in 1.. {
        let of = |side: &str| {
            series.points.iter().position(|p| {
                let is = p.coordinates.get(SIDE).and_then(|v| v.as_str()) == Some(side);
                is && p.round == round && p.status == PointStatus::Complete
            })
        };
        let Some((a, b)) = of(SIDES[0]).zip(of(SIDES[1])) else { break };
        let read = |at: usize| SideRun::read(&dir.join(&series.points[at].run));
        pairs.push(RunPair { base: read(a)?, new: read(b)?, base_first: a < b });
    }
    Ok(pairs)
}

/// Which side stands at a place, 0 or 1, of a pair.
fn turn(pair: u32, place: usize) -> usize {
    if base_first(pair) { place } else { 1 - place }
}

fn id(pair: u32, pairs: u32, side: usize) -> String {
    let width = pairs.to_string().len();
    format!("pair-{pair:0width$}-{}", SIDES[side])
}

fn side_of(result: &PointResult) -> Option<usize> {
    let side = result.point.coordinates.get(SIDE)?.as_str()?;
    SIDES.iter().position(|s| *s == side)
}

fn check(sides: &[AbSide; 2], request: &AbRequest) -> Result<()> {
    if !(FEWEST_PAIRS..=MOST_PAIRS).contains(&request.pairs) {
        return Err(Error::usage(format!(
            "--pairs {}: give {FEWEST_PAIRS} to {MOST_PAIRS}",
            request.pairs
        ))
        .hint("fewer than three do not say how much runs vary anyway; six find most differences"));
    }
    for side in sides {
        if side.plan.is_series() {
            return Err(Error::usage("a job of ab is one run, and this one asks for several")
                .with("job", &side.name)
                .hint("leave [search] and run.repeat out; --pairs says how often it runs"));
        }
        if side.plan.run.output.is_some() {
            return Err(Error::usage("a job of ab has no directory of its own")
                .with("job", &side.name)
                .hint("leave run.output out; --output names the directory of all runs"));
        }
        let gate = request.compare.gate.iter().flat_map(|gate| &gate.figures);
        if let Some(absent) = gate.clone().find(|wanted| !side.plan.has_figure(wanted)) {
            return Err(Error::usage(format!(
                "the gate is over {absent}, and a job has no such operation"
            ))
            .with("job", &side.name)
            .hint("name an operation of its mix, like --gate read:p99"));
        }
    }
    let comparable = plans_comparable(&sides[0].plan, &sides[1].plan);
    match request.compare.allows(&comparable) {
        true => Ok(()),
        false => Err(Error::usage("the jobs cannot be compared")
            .with("because", comparable.reasons.join("; "))
            .hint("give both the same load; --anyway compares what is only doubtful")),
    }
}

impl Method for AbMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        self.follow(done)?;
        let ended = done.last().is_some_and(|r| self.ended_by(r));
        let Some(planned) = self.head.planned.get(done.len()) else { return Ok(Next::End) };
        if ended || self.settled(done) {
            return Ok(Next::End);
        }
        let pair = u32::try_from(done.len() / 2).unwrap_or(u32::MAX).saturating_add(1);
        let side = turn(pair, done.len() % 2);
        let AbSide { name, plan, job } = &self.sides[side];
        let mut plan = plan.clone();
        plan.run.seed = self.head.seed.wrapping_add(u64::from(pair) - 1);
        let point = Point::new(planned.clone(), PointRole::Step, plan, job.clone());
        Ok(Next::Point(Box::new(Point {
            about: name.clone(),
            round: pair,
            coordinates: BTreeMap::from([(SIDE.to_owned(), json!(SIDES[side]))]),
            quiet: true,
            ..point
        })))
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        self.follow(series.done)?;
        let Some(found) = self.judged(series.done) else { return Ok(Conclusion::default()) };
        found.write(series.dir)?;
        atomic::write(series.dir, names::COMPARE_MARKDOWN, markdown(&found).as_bytes())?;
        let gate = found.gate.as_ref().map(|gate| gate.status);
        self.found = Some(found);
        let looks = (1..=series.done.len() / 2).filter_map(|n| self.judged(&series.done[..2 * n]));
        Ok(Conclusion {
            decisions: looks.flat_map(|look| words::decisions(&look)).collect(),
            answer: Some(json!({ "file": names::COMPARE, "gate": gate })),
        })
    }

    fn to_run(&self, done: &[PointResult]) -> Vec<String> {
        let left = self.head.planned.get(done.len()..).unwrap_or_default();
        if self.settled(done) { Vec::new() } else { left.to_vec() }
    }

    fn line(&self, done: &[PointResult]) -> Option<String> {
        let found = self.judged(done).filter(|_| done.len().is_multiple_of(2))?;
        Some(words::line(&found))
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        let runs: Vec<PathBuf> = series.done.iter().map(|r| r.dir.clone()).collect();
        let Some(found) = self.judged(series.done) else {
            let text = "No pair is complete yet: there is nothing to compare.".to_owned();
            let context = ReportContext { text, ..ReportContext::default() };
            return Ok(Some(SeriesReport { context, runs, ..SeriesReport::default() }));
        };
        let context = context(&found, runs.len() > MOST_IN_FULL);
        Ok(Some(SeriesReport {
            context: ReportContext { title: Some(self.head.job.clone()), ..context },
            runs,
            before: format!("\n{}", console(&found)),
            files: vec![("Compare", names::COMPARE), ("Text", names::COMPARE_MARKDOWN)],
            ..SeriesReport::default()
        }))
    }

    /// The gate's (undecided where no figure could be compared), after what ended the series early and what went
    /// wrong in a run. Missed ceilings of single runs do not count.
    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let ceiling = |exit: &Exit| matches!(exit, Exit::GateFailed | Exit::GateUndecided);
        let runs = done.iter().map(|r| r.exit).filter(|exit| !ceiling(exit)).chain(ended);
        let found = self.judged(done);
        let answer = match found.as_ref().map(|f| (f.figures.is_empty(), f.gate.as_ref())) {
            Some((true, _)) => Exit::GateUndecided,
            Some((false, Some(gate))) => exit_of(gate.status),
            Some((false, None)) | None => Exit::Ok,
        };
        worst(runs.fold(Exit::Ok, worst), answer)
    }
}

/// The exit code that a gate asks for.
pub fn exit_of(gate: GateStatus) -> Exit {
    match gate {
        GateStatus::Pass => Exit::Ok,
        GateStatus::Fail => Exit::GateFailed,
        GateStatus::Undecided => Exit::GateUndecided,
    }
}
