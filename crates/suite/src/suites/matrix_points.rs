//! Makes the points of a matrix from a phase and the values of its loops: names, seeds, assignments, plans.

use serde_json::Value;
use taillight_core::job::PointOrder;
use taillight_core::units::Span;
use taillight_core::{Error, Percentile, Result};

use super::loops::{Setting, check_count, combinations, load_ns, settings, shuffle, value_text};
use super::matrix::{BeforeEach, MatrixSuite, SuiteJob, SuitePhase};
use super::matrix_method::{PhasePoint, RunPart};
use super::second_look;
use super::steady::Coordinates;
use super::targets::TARGET;
use super::{Planner, SuiteRequest, job_source};
use crate::axis;
use crate::figures::request_percentiles;
use crate::host::{Assignment, JobSource};
use crate::method::Point;
use taillight_rundir::series::Axis;

/// Longest name of a run.
const LONGEST_NAME: usize = 64;

/// What a point is called and which draws it has.
#[derive(Debug, Clone)]
pub(super) struct PointPlace {
    pub id: String,
    pub round: u32,
    /// Added to the seed of the series, so that repeated runs do not write or read the same places of the target.
    pub draw: usize,
}

/// Name of a point: number, phase, values, round.
fn id(phase: &SuitePhase, (number, round): (usize, u32), values: &[String]) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c,
        false => '-',
    };
    let cleaned = |text: &str| -> Vec<String> {
        let text: String = text.chars().map(plain).collect();
        text.split('-').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let mut words: Vec<String> = phase.target.iter().flat_map(|t| cleaned(&t.name)).collect();
    words.extend(cleaned(&phase.name));
    words.extend(values.iter().flat_map(|text| cleaned(text)));
    let end = match phase.rounds > 1 || phase.steady.is_some() {
        true => format!("-round-{round}"),
        false => String::new(),
    };
    let mut id = format!("{number:02}-{}", words.join("-"));
    // The number tells runs apart; a name has a limit.
    id.truncate(LONGEST_NAME - end.len());
    id + &end
}

/// The coordinates of a setting of a phase's loops. Errors: `Usage` for a value that is no JSON.
pub(super) fn coordinates(
    suite: &MatrixSuite,
    phase: &SuitePhase,
    setting: &Setting<'_>,
) -> Result<Coordinates> {
    let json = |value: &toml::Value| {
        serde_json::to_value(value)
            .map_err(|e| Error::usage("a value of a loop is no JSON").source(e))
    };
    let by_phase = suite.loops_in_several_phases() && phase.measures_a_loop();
    let name = by_phase.then(|| Ok((PHASE.to_owned(), Value::from(phase.name.clone()))));
    let values = setting.iter().map(|(path, value)| Ok(((*path).to_owned(), json(value)?)));
    let target = phase.target.iter().map(|t| Ok((TARGET.to_owned(), t.name.clone().into())));
    target.chain(name).chain(values).collect()
}

/// Most runs that a plan may share its error with.
const MOST_LOOKS: usize = 100;

/// Makes the points of a suite.
pub(super) struct PointMaker {
    pub job: SuiteJob,
    pub request: SuiteRequest,
    pub planner: Planner,
}

impl PointMaker {
    /// Every point there may be, in order; of those that results choose, what they may be first.
    /// Errors: `Usage` for fields and values that the job refuses, and for too many runs.
    pub fn points(&self, suite: &MatrixSuite) -> Result<Vec<PhasePoint>> {
        let seed = self.check(suite)?;
        let Some(within) = suite.decide_within else { return self.looks(suite, seed, None) };
        let asked = |p: &&mut PhasePoint| {
            p.part != RunPart::Before && !p.point.plan.qos.ceilings.is_empty()
        };
        let settings = self.looks(suite, seed, None)?.iter_mut().filter(asked).count();
        let each = Span(within.0 / settings.max(1) as u64);
        let mut points = self.looks(suite, seed, Some(each))?;
        // One answer over all runs: they share its error.
        let runs = points.iter_mut().filter(asked).count().min(MOST_LOOKS) as u32;
        for asked in points.iter_mut().filter(asked) {
            asked.point.plan.qos.looks = asked.point.plan.qos.looks.max(runs);
        }
        Ok(points)
    }

    /// The same, with a second look at each setting where both may take `within`.
    fn looks(
        &self,
        suite: &MatrixSuite,
        seed: u64,
        within: Option<Span>,
    ) -> Result<Vec<PhasePoint>> {
        let mut points: Vec<PhasePoint> = Vec::new();
        for (at, phase) in suite.phases.iter().enumerate() {
            for round in 1..=phase.most_rounds()? {
                self.round(suite, at, (round, seed, within), &mut points)?;
            }
        }
        Ok(points)
    }

    /// Refuses what has no point, or too many; the seed of the series.
    fn check(&self, suite: &MatrixSuite) -> Result<u64> {
        let phases = &suite.phases;
        let mut loops = phases.iter().flat_map(|p| p.loops.iter().map(move |l| (p, l)));
        if let Some((phase, empty)) = loops.find(|(_, l)| l.values.is_empty()) {
            return Err(Error::usage("a loop of the suite has no values")
                .with("phase", &phase.name)
                .with("path", &empty.path)
                .hint("give its values, or remove the loop"));
        }
        self.refuse_fixed_loops(suite)?;
        let (mut seed, mut counts) = (None, Vec::new());
        for phase in phases {
            let rounds = match (phase.most_rounds()?, &phase.steady) {
                (0, _) => continue,
                (_, Some(steady)) => steady.shortest(),
                (rounds, None) => rounds,
            };
            let first = settings(&phase.loops, 1).into_iter().next().unwrap_or_default();
            let place = PointPlace { id: phase.name.clone(), round: 1, draw: 0 };
            let plan = self.point(suite, phase, place, &first, None)?.plan;
            seed = seed.or(Some(plan.run.seed));
            let chosen = phase.points.as_ref().map_or(1, |rule| rule.pick.len() as u128);
            let points = combinations(&phase.loops).saturating_mul(chosen);
            counts.push((points.saturating_mul(rounds.into()), load_ns(&plan)));
            let Some((before, each)) = phase.run_before()? else { continue };
            let place = PointPlace { id: before.name.clone(), round: 1, draw: 0 };
            let plan = self.point(suite, &before, place, &Vec::new(), None)?.plan;
            let runs = if each == BeforeEach::Run { points } else { 1 };
            counts.push((runs.saturating_mul(rounds.into()), load_ns(&plan)));
        }
        check_count(counts.into_iter())?;
        seed.ok_or_else(|| Error::usage("the suite has no run").with("suite", &suite.name))
    }

    /// A flag that sets a field which a loop changes would make all points of the loop the same. Errors:
    /// `Usage`, naming both.
    fn refuse_fixed_loops(&self, suite: &MatrixSuite) -> Result<()> {
        let assignments = self.request.assignments();
        for phase in &suite.phases {
            for (at, field) in phase.loops.iter().enumerate() {
                let Some(set) = assignments.iter().find(|set| set.touches(&field.path)) else {
                    continue;
                };
                let path = format!("phase.{}.loop.{at}.values", phase.name);
                return Err(Error::usage(format!(
                    "{} sets `{}`, and a loop of the suite changes `{}`",
                    set.origin,
                    set.path(),
                    field.path
                ))
                .with("at", format!("{}: {path}", suite.file))
                .hint(format!("choose its values: --set 'suite.{path}=[VALUE]'")));
            }
        }
        Ok(())
    }

    /// The points of one round of a phase, those before others included.
    fn round(
        &self,
        suite: &MatrixSuite,
        at: usize,
        (round, seed, within): (u32, u64, Option<Span>),
        points: &mut Vec<PhasePoint>,
    ) -> Result<()> {
        let phase = &suite.phases[at];
        let before = phase.run_before()?;
        let draw = if phase.steady.is_some() { round as usize - 1 } else { 0 };
        let mut all: Vec<(Option<usize>, Vec<String>, Setting<'_>)> = match &phase.points {
            Some(rule) => {
                let first = settings(&suite.looped(&rule.from, phase)?.loops, 1);
                let first = first.into_iter().next().unwrap_or_default();
                let names = rule.names().into_iter().enumerate();
                names.map(|(nth, name)| (Some(nth), vec![name], first.clone())).collect()
            }
            None => settings(&phase.loops, usize::MAX)
                .into_iter()
                .map(|s| (None, s.iter().map(|(_, value)| value_text(value)).collect(), s))
                .collect(),
        };
        if phase.order == PointOrder::Shuffled {
            shuffle(&mut all, seed, round);
        }
        for (nth, (chosen, words, setting)) in all.into_iter().enumerate() {
            let mut add = |part, words: &[String], setting: &Setting<'_>, draw| {
                let of = match (&before, part) {
                    (Some((run, _)), RunPart::Before) => run,
                    _ => phase,
                };
                let id = id(of, (points.len() + 1, round), words);
                let place = PointPlace { id, round, draw };
                let mut point = self.point(suite, of, place, setting, Some(seed))?;
                let within = within.filter(|_| phase.timed() && chosen.is_none());
                let longest = second_look::longest(&point.plan, within);
                let longest = longest.filter(|_| part != RunPart::Before);
                if part == RunPart::SecondLook {
                    point.plan.run.duration = longest;
                }
                points.push(PhasePoint { phase: at, chosen, part, point });
                Ok::<bool, Error>(longest.is_some())
            };
            let each = before.as_ref().map(|(_, each)| *each);
            match each {
                Some(BeforeEach::Run) => {
                    add(RunPart::Before, &words, &Vec::new(), draw + nth)?;
                }
                Some(BeforeEach::Round) if nth == 0 => {
                    add(RunPart::Before, &[], &Vec::new(), draw)?;
                }
                _ => {}
            }
            if add(RunPart::Own, &words, &setting, draw)? {
                let words = [words.as_slice(), &["longer".to_owned()]].concat();
                add(RunPart::SecondLook, &words, &setting, draw + 1)?;
            }
        }
        Ok(())
    }

    /// One point of a phase. Errors: `Usage` when there is no plan for it.
    pub fn point(
        &self,
        suite: &MatrixSuite,
        phase: &SuitePhase,
        place: PointPlace,
        setting: &Setting<'_>,
        seed: Option<u64>,
    ) -> Result<Point> {
        let PointPlace { id, round, draw } = place;
        let set = self.assignments(suite, phase, (&id, draw), setting, seed);
        let job = match &self.job {
            SuiteJob::Own => {
                let job = phase.job(suite, &self.request)?;
                Some(job_source(&format!("{}: job of phase {}", suite.file, phase.name), &job)?)
            }
            SuiteJob::Users { file, .. } => file.clone(),
        };
        let none = JobSource::written("", "");
        let plan = (self.planner)(job.as_ref().unwrap_or(&none), &set);
        let mut plan = plan.map_err(|e| e.with("point", &id))?;
        request_percentiles(&mut plan, &[Percentile::MEDIAN]);
        let coordinates = coordinates(suite, phase, setting)?;
        let looped = setting.iter().filter_map(|(path, _)| Some((*path, coordinates.get(*path)?)));
        Ok(Point {
            about: match setting.is_empty() {
                true => phase.about.clone(),
                false => axis::setting_text(looped),
            },
            round,
            coordinates,
            quiet: true,
            ..Point::new(id, phase.role, plan, job)
        })
    }

    /// What a point changes of the job, each with its place in the suite file or its flag. What a phase
    /// sets stays, whatever flags say of the others.
    fn assignments(
        &self,
        suite: &MatrixSuite,
        phase: &SuitePhase,
        (id, draw): (&str, usize),
        setting: &Setting<'_>,
        seed: Option<u64>,
    ) -> Vec<Assignment> {
        let of_suite = |text: String| Assignment::new("suite", text);
        let field = |origin: String, (path, value): (&str, &toml::Value)| {
            Assignment::new(origin, format!("{path}={value}"))
        };
        let place = |part: String| match self.job {
            SuiteJob::Own => format!("{}: phase.{}.{part}", suite.file, phase.name),
            SuiteJob::Users { .. } => "sweep".to_owned(),
        };
        let mut set = vec![of_suite(format!("run.name={id}"))];
        set.extend(seed.map(|seed| of_suite(format!("run.seed={seed}"))));
        let own_load = phase.purge.is_some() || phase.job.contains_key("workload");
        let given = self.request.assignments_on(phase.target.as_ref()).into_iter();
        set.extend(given.filter(|one| !(own_load && one.path().starts_with("workload"))));
        let own = phase.set.iter().map(|(path, value)| (path.as_str(), value));
        set.extend(own.map(|of| field(place("set".to_owned()), of)));
        let loops = setting.iter().copied().enumerate();
        set.extend(loops.map(|(at, of)| field(place(format!("loop.{at}")), of)));
        let runtime = self.request.runtime.iter().filter(|_| phase.timed());
        set.extend(runtime.map(|t| Assignment::new("--runtime", format!("run.duration={t}"))));
        if let Some(seed) = seed.filter(|_| draw > 0) {
            set.push(of_suite(format!("run.seed={}", seed.wrapping_add(draw as u64))));
        }
        set
    }
}

/// The coordinate of a point that says its phase, where several phases measure loops.
pub(super) const PHASE: &str = "phase";

/// Every looped field with its values, each once; target and phase first, where there are several of them.
pub(super) fn axes(suite: &MatrixSuite) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let each_once = |names: &mut dyn Iterator<Item = &String>| {
        let mut values: Vec<serde_json::Value> = Vec::new();
        for name in names.map(|name| serde_json::Value::from(name.clone())) {
            if !values.contains(&name) {
                values.push(name);
            }
        }
        values
    };
    let names = suite.phases.iter().filter_map(|p| p.target.as_ref()).map(|t| &t.name);
    let values = each_once(&mut names.into_iter());
    if !values.is_empty() {
        axes.push(Axis { path: TARGET.to_owned(), unit: None, values });
    }
    if suite.loops_in_several_phases() {
        let names = suite.phases.iter().filter(|p| p.measures_a_loop()).map(|p| &p.name);
        let values = each_once(&mut names.into_iter());
        axes.push(Axis { path: PHASE.to_owned(), unit: None, values });
    }
    for field in suite.phases.iter().flat_map(|p| &p.loops) {
        let at = axes.iter().position(|a| a.path == field.path).unwrap_or_else(|| {
            axes.push(Axis { path: field.path.clone(), unit: None, values: Vec::new() });
            axes.len() - 1
        });
        for value in field.values.iter().filter_map(|v| serde_json::to_value(v).ok()) {
            if !axes[at].values.contains(&value) {
                axes[at].values.push(value);
            }
        }
    }
    axes
}
