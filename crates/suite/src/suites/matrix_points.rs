//! The points of a matrix: every run there may be, in order, each with its plan.
//!
//! What it is: the settings of all loops in all rounds as jobs and plans, and their coordinates. What it
//! is not: the file (`matrix`) or the order in which results end rounds (`matrix_method`).

use taillight_core::job::PointOrder;
use taillight_core::plan::Plan;
use taillight_core::{Error, Percentile, Result};
use taillight_rundir::series::Axis;

use super::loops::{Setting, count_points, settings, shown, shuffle};
use super::matrix::{MatrixSuite, SuiteJob, SuitePhase};
use super::matrix_method::PhasePoint;
use super::steady::SteadyPhase;
use super::targets::TARGET;
use super::{SuiteRequest, job_source};
use crate::figures::request_percentiles;
use crate::host::{Assignment, JobSource};
use crate::method::Point;

/// Longest name of a run.
const LONGEST_NAME: usize = 64;

/// Name of a point: number, phase, values, round.
fn id(phase: &SuitePhase, (number, round): (usize, u32), setting: &Setting<'_>) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c,
        false => '-',
    };
    let cleaned = |text: &str| -> Vec<String> {
        let text: String = text.chars().map(plain).collect();
        text.split('-').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let mut words: Vec<String> = phase.target.iter().flat_map(|t| cleaned(&t.name)).collect();
    words.push(phase.name.clone());
    words.extend(setting.iter().flat_map(|(_, value)| cleaned(&shown(value))));
    let end = match phase.rounds > 1 || phase.steady.is_some() {
        true => format!("-round-{round}"),
        false => String::new(),
    };
    let mut id = format!("{number:02}-{}", words.join("-"));
    // The number tells runs apart; a name has a limit.
    id.truncate(LONGEST_NAME - end.len());
    id + &end
}

/// Makes the points of a suite.
pub(super) struct PointMaker<'a> {
    pub suite: &'a MatrixSuite,
    pub job: &'a SuiteJob,
    pub request: &'a SuiteRequest,
    pub planner: &'a dyn Fn(&JobSource, &[Assignment]) -> Result<Plan>,
}

impl PointMaker<'_> {
    /// Every point there may be, in order.
    pub fn points(&self) -> Result<Vec<PhasePoint>> {
        let phases = &self.suite.phases;
        let rounds: Vec<u32> = phases.iter().map(SuitePhase::rounds).collect::<Result<_>>()?;
        let Some(phase) = phases.iter().zip(&rounds).find(|(_, n)| **n > 0).map(|(p, _)| p) else {
            return Err(Error::usage("the suite has no run").with("suite", &self.suite.name));
        };
        let mut loops = phases.iter().flat_map(|p| p.loops.iter().map(move |l| (p, l)));
        if let Some((phase, empty)) = loops.find(|(_, l)| l.values.is_empty()) {
            return Err(Error::usage("a loop of the suite has no values")
                .with("phase", &phase.name)
                .with("path", &empty.path)
                .hint("give its values, or remove the loop"));
        }
        self.refuse_fixed_loops()?;
        let first = settings(&phase.loops, 1).into_iter().next().unwrap_or_default();
        let first = self.point(phase, (1, 1), &first, None)?.plan;
        let seed = first.run.seed;
        let least = phases.iter().zip(&rounds).map(|(phase, rounds)| {
            (phase.loops.as_slice(), phase.steady.as_ref().map_or(*rounds, SteadyPhase::shortest))
        });
        count_points(least, &first)?;
        let mut points: Vec<PhasePoint> = Vec::new();
        for (at, phase) in phases.iter().enumerate() {
            for round in 1..=rounds[at] {
                let mut settings = settings(&phase.loops, usize::MAX);
                if phase.order == PointOrder::Shuffled {
                    shuffle(&mut settings, seed, round);
                }
                for setting in settings {
                    let place = (points.len() + 1, round);
                    let point = self.point(phase, place, &setting, Some(seed))?;
                    points.push(PhasePoint { phase: at, point });
                }
            }
        }
        Ok(points)
    }

    fn point(
        &self,
        phase: &SuitePhase,
        (number, round): (usize, u32),
        setting: &Setting<'_>,
        seed: Option<u64>,
    ) -> Result<Point> {
        let id = id(phase, (number, round), setting);
        let set = self.assignments(&id, phase, round, setting, seed);
        let job = match self.job {
            SuiteJob::Own => {
                let job = phase.job(self.suite, self.request)?;
                let origin = format!("{}: job of phase {}", self.suite.file, phase.name);
                Some(job_source(&origin, &job)?)
            }
            SuiteJob::Users { file, .. } => file.clone(),
        };
        let none = JobSource::written("", "");
        let plan = (self.planner)(job.as_ref().unwrap_or(&none), &set);
        let mut plan = plan.map_err(|e| e.with("point", &id))?;
        request_percentiles(&mut plan, &[Percentile::MEDIAN]);
        let words: Vec<String> =
            setting.iter().map(|(path, value)| format!("{path} = {}", shown(value))).collect();
        let json = |value: &toml::Value| {
            serde_json::to_value(value)
                .map_err(|e| Error::usage("a value of a loop is no JSON").source(e))
        };
        let by_phase = self.suite.loops_in_several_phases() && phase.measures_a_loop();
        let phase_name = by_phase.then(|| Ok((PHASE.to_owned(), phase.name.clone().into())));
        let coordinates =
            setting.iter().map(|(path, value)| Ok(((*path).to_owned(), json(value)?)));
        let target = phase.target.iter().map(|t| Ok((TARGET.to_owned(), t.name.clone().into())));
        let coordinates = target.chain(phase_name).chain(coordinates);
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

impl PointMaker<'_> {
    /// A flag that sets a field which a loop changes would make all points of the loop the same. Errors:
    /// `Usage`, naming both.
    fn refuse_fixed_loops(&self) -> Result<()> {
        let assignments = self.request.assignments();
        for phase in &self.suite.phases {
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
                .with("at", format!("{}: {path}", self.suite.file))
                .hint(format!("choose its values: --set 'suite.{path}=[VALUE]'")));
            }
        }
        Ok(())
    }

    /// What a point changes of the job, each with its place in the suite file or its flag.
    fn assignments(
        &self,
        id: &str,
        phase: &SuitePhase,
        round: u32,
        setting: &Setting<'_>,
        seed: Option<u64>,
    ) -> Vec<Assignment> {
        let of_suite = |text: String| Assignment::new("suite", text);
        let field = |origin: String, (path, value): (&str, &toml::Value)| {
            Assignment::new(origin, format!("{path}={value}"))
        };
        let place = |part: String| match self.job {
            SuiteJob::Own => format!("{}: phase.{}.{part}", self.suite.file, phase.name),
            SuiteJob::Users { .. } => "sweep".to_owned(),
        };
        let mut set = vec![of_suite(format!("run.name={id}"))];
        set.extend(seed.map(|seed| of_suite(format!("run.seed={seed}"))));
        let own = phase.set.iter().map(|(path, value)| (path.as_str(), value));
        set.extend(own.map(|of| field(place("set".to_owned()), of)));
        let loops = setting.iter().copied().enumerate();
        set.extend(loops.map(|(at, of)| field(place(format!("loop.{at}")), of)));
        let runtime = self.request.runtime.iter().filter(|_| phase.timed());
        set.extend(runtime.map(|t| Assignment::new("--runtime", format!("run.duration={t}"))));
        set.extend(self.request.assignments_on(phase.target.as_ref()));
        if let (Some(seed), Some(_)) = (seed, &phase.steady) {
            // Every round draws anew: the same places again would precondition these alone.
            let seed = seed.wrapping_add(u64::from(round) - 1);
            set.push(of_suite(format!("run.seed={seed}")));
        }
        set
    }
}

/// The coordinate of a point that says its phase, where several phases measure loops.
const PHASE: &str = "phase";

/// Every looped field with its values, each once; the phase first, where several have loops.
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
