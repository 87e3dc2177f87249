//! A matrix as a method: which point is next, which are needless, and how much is left. Results decide at which
//! round a phase with `steady` ends, which settings a phase with `points` has, and whether and how long a second
//! look is taken; everything else is known beforehand.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_rundir::series::Decision;

use super::answers;
use super::loops::{load_ns, settings};
use super::matrix::{MatrixSuite, SuitePhase, deepest_measured};
use super::matrix_points::{PointMaker, PointPlace, coordinates};
use super::matrix_text as text;
use super::operating::{ChosenRounds, OperatingPoints};
use super::recovery::{self, JudgedRecovery};
use super::steady::{Coordinates, JudgedTrack, SteadyOutcome, SteadyRounds};
use super::{operating_text, second_look};
use crate::auto_options;
use crate::demand::{self, sweep_data};
use crate::exit::worst;
use crate::method::{
    Conclusion, Method, Next, Point, PointResult, SeriesHead, SeriesReport, SeriesState, SeriesView,
};
use taillight_report::sweep::SweepData;

/// A point and its phase.
pub(super) struct PhasePoint {
    /// Number of the phase.
    pub phase: usize,
    /// Which of the picks of its phase's `points`, where results choose its setting; its plan here is one that it may
    /// have.
    pub chosen: Option<usize>,
    pub part: RunPart,
    pub point: Point,
}

/// What a run is to its setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunPart {
    /// It brings the target into a state, before others of its phase.
    Before,
    Own,
    /// It decides what the run of the setting left open; its plan here is the longest it may have.
    SecondLook,
}

/// The points of a matrix, and the reports over them.
pub(super) struct MatrixMethod {
    pub head: SeriesHead,
    pub suite: MatrixSuite,
    /// Every point there may be, in order.
    pub points: Vec<PhasePoint>,
    /// How the suite departs from the standard it names.
    pub deviations: Vec<String>,
    /// Places of the points by their ids.
    pub places: BTreeMap<String, usize>,
    maker: PointMaker,
}

/// Runs that are still to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    pub points: u32,
    /// Warm-up and measured time of those that end by time, ns.
    pub ns: u128,
    /// Those that end by passes, bytes or operations.
    pub open_ended: u32,
}

impl Remaining {
    fn add(&mut self, plan: &Plan) {
        self.points += 1;
        match load_ns(plan) {
            Some(ns) => self.ns += ns,
            None => self.open_ended += 1,
        }
    }
}

/// Some rounds of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JudgedRounds {
    pub first: u32,
    pub last: u32,
    spacing: u32,
}

impl JudgedRounds {
    fn all(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.spacing as usize)
    }
}

impl fmt::Display for JudgedRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first == self.last, self.spacing) {
            (true, _) => write!(f, "round {}", self.last),
            (false, 1) => write!(f, "rounds {} to {}", self.first, self.last),
            (false, n) => write!(f, "rounds {} to {}, each {n}th", self.first, self.last),
        }
    }
}

impl MatrixMethod {
    pub fn new(
        head: SeriesHead,
        suite: MatrixSuite,
        points: Vec<PhasePoint>,
        maker: PointMaker,
        deviations: Vec<String>,
    ) -> MatrixMethod {
        let ids = points.iter().map(|p| p.point.id.clone());
        let places = ids.zip(0..).collect();
        MatrixMethod { head, suite, points, deviations, places, maker }
    }

    /// Refuses rules that can never be applied, and chosen points that can have no plan. Errors:
    /// `Usage`.
    pub fn check(&self) -> Result<()> {
        for (at, phase) in self.suite.phases.iter().enumerate() {
            if let Some(steady) = &phase.steady {
                steady.check(&phase.name, &self.settings(at))?;
            }
            if let Some(recovery) = &phase.recovery {
                let same = |p: &&SuitePhase| p.purge.is_none() && p.target == phase.target;
                let before = self.suite.phases[..at].iter().filter(same);
                recovery
                    .check(&phase.name, &before.map(|p| p.name.as_str()).collect::<Vec<_>>())?;
            }
            let Some(rule) = &phase.points else { continue };
            rule.check(&phase.name)?;
            let from = self.suite.looped(&rule.from, phase)?;
            if self.source(at).is_none_or(|from| from >= at) || self.suite.shared_target {
                return Err(Error::usage(
                    "points are chosen from an earlier phase, each of whose \
                                         runs opens a target of its own",
                )
                .with("phase", &phase.name)
                .hint("move the phase behind it, and leave shared_target out"));
            }
            for setting in settings(&from.loops, usize::MAX) {
                let place = PointPlace { id: phase.name.clone(), round: 1, draw: 0 };
                self.maker.point(&self.suite, phase, place, &setting, Some(self.head.seed))?;
            }
        }
        Ok(())
    }

    /// The phase that a phase's points are chosen from; none where it has no such points.
    fn source(&self, phase: usize) -> Option<usize> {
        let own = &self.suite.phases[phase];
        let from = self.suite.looped(&own.points.as_ref()?.from, own).ok()?;
        self.suite.phases.iter().position(|p| std::ptr::eq(p, from))
    }

    /// The point of a result, as it was planned.
    pub fn planned(&self, result: &PointResult) -> Option<&PhasePoint> {
        self.points.get(*self.places.get(&result.point.id)?)
    }

    /// Which of the picks of its phase's `points` a result is of; none where its setting was not chosen by results.
    pub fn chosen(&self, result: &PointResult) -> Option<usize> {
        self.planned(result)?.chosen
    }

    /// The settings of a phase's loops.
    pub fn settings(&self, phase: usize) -> Vec<Coordinates> {
        let first = self.points.iter().filter(|p| p.phase == phase && p.point.round == 1);
        let own = first.filter(|p| p.part == RunPart::Own && p.chosen.is_none());
        own.map(|p| p.point.coordinates.clone()).collect()
    }

    /// The results of a phase that are such a part of it, in order.
    pub fn results_of<'a>(
        &self,
        phase: usize,
        part: RunPart,
        done: &'a [PointResult],
    ) -> Vec<&'a PointResult> {
        let of =
            |r: &&PointResult| self.planned(r).is_some_and(|p| p.phase == phase && p.part == part);
        done.iter().filter(of).collect()
    }

    /// Whether a result is of a phase.
    pub fn is_of(&self, phase: usize, result: &PointResult) -> bool {
        self.planned(result).is_some_and(|p| p.phase == phase)
    }

    /// The results of a phase's own runs, in order.
    pub fn results<'a>(&self, phase: usize, done: &'a [PointResult]) -> Vec<&'a PointResult> {
        self.results_of(phase, RunPart::Own, done)
    }

    /// The rounds of a phase that count; none before one is complete.
    pub fn counted(
        &self,
        phase: usize,
        which: ChosenRounds,
        done: &[PointResult],
    ) -> Option<Vec<u32>> {
        let (complete, window) = match self.rounds(phase, done) {
            Some(found) => (found.rounds, self.window(phase, &found)),
            None => (self.complete_rounds(phase, done), None),
        };
        let every = JudgedRounds { first: 1, last: complete, spacing: 1 };
        match which {
            _ if complete == 0 => None,
            ChosenRounds::Last => Some(vec![complete]),
            ChosenRounds::Window => Some(window.unwrap_or(every).all().collect()),
        }
    }

    /// The rounds of the window judged last; none where none was.
    fn window(&self, phase: usize, found: &SteadyRounds) -> Option<JudgedRounds> {
        let window = found.tracks.iter().find_map(|t| t.window)?;
        let spacing = self.suite.phases[phase].steady.as_ref()?.spacing;
        Some(JudgedRounds { first: window.first, last: window.last, spacing })
    }

    fn complete_rounds(&self, phase: usize, done: &[PointResult]) -> u32 {
        let (all, results) = (self.settings(phase).len(), self.results(phase, done));
        let complete =
            |round: &u32| results.iter().filter(|r| r.point.round == *round).count() == all;
        (1..=self.suite.phases[phase].rounds).take_while(complete).last().unwrap_or(0)
    }

    /// Whether a phase has no further round after these results.
    pub fn is_over(&self, phase: usize, done: &[PointResult]) -> bool {
        match self.rounds(phase, done) {
            Some(found) => found.outcome != SteadyOutcome::Unsettled,
            None => self.complete_rounds(phase, done) == self.suite.phases[phase].rounds,
        }
    }

    /// What results choose for a phase with `points`: the phase they are of, its rounds that count,
    /// and the choice. None before there is a complete round.
    pub fn operating<'a>(
        &self,
        phase: usize,
        done: &'a [PointResult],
    ) -> Option<(usize, Vec<u32>, OperatingPoints<'a>)> {
        let rule = self.suite.phases.get(phase)?.points.as_ref()?;
        let from = self.source(phase)?;
        let rounds = self.counted(from, rule.rounds, done)?;
        let mut results = self.results(from, done);
        results.retain(|r| rounds.contains(&r.point.round));
        let found = rule.choose(&self.settings(from), &results)?;
        Some((from, rounds, found))
    }

    /// Whether a point needs no run: results choose none for it, or one with the setting of an earlier
    /// point, or decide what it would look at again.
    fn needless(&self, p: &PhasePoint, done: &[PointResult]) -> bool {
        if p.part == RunPart::SecondLook {
            return self.first_look(&p.point, done).is_some_and(|r| !second_look::is_open(r));
        }
        p.chosen.is_some_and(|nth| {
            let point = self.operating(p.phase, done).and_then(|(.., o)| o.chosen[nth].clone());
            point.is_none_or(|point| point.same_as.is_some())
        })
    }

    /// The point at this place, chosen where results choose it. Errors: when no plan can be made.
    fn point(&self, at: usize, done: &[PointResult]) -> Result<Point> {
        let planned = &self.points[at];
        if planned.part == RunPart::SecondLook {
            return Ok(self.second_look(&planned.point, done));
        }
        let Some(nth) = planned.chosen.filter(|_| planned.part == RunPart::Own) else {
            return Ok(planned.point.clone());
        };
        let lost = || Error::internal("a point is run before it was chosen");
        let (from, _, found) = self.operating(planned.phase, done).ok_or_else(lost)?;
        let chosen = found.chosen[nth].as_ref().ok_or_else(lost)?;
        let (phase, from) = (&self.suite.phases[planned.phase], &self.suite.phases[from]);
        let wanted = &found.settings[chosen.at].coordinates;
        for setting in settings(&from.loops, usize::MAX) {
            if coordinates(&self.suite, from, &setting)? == *wanted {
                let Point { id, round, .. } = planned.point.clone();
                let place = PointPlace { id, round, draw: 0 };
                let seed = Some(self.head.seed);
                let mut point = self.maker.point(&self.suite, phase, place, &setting, seed)?;
                let deepest = deepest_measured(&self.suite, &self.points);
                auto_options::fix(&mut point.plan, deepest);
                point.plan.qos.looks = planned.point.plan.qos.looks;
                let about = format!("{}: {}", chosen.name, point.about);
                return Ok(Point { about, ..point });
            }
        }
        Err(lost())
    }

    /// What the rounds of a phase say; none for one whose rounds are a given number.
    pub fn rounds(&self, phase: usize, done: &[PointResult]) -> Option<SteadyRounds> {
        let steady = self.suite.phases.get(phase)?.steady.as_ref()?;
        let name = self.suite.phases[phase].title();
        let mut rounds = steady.judge(&self.settings(phase), &self.results(phase, done));
        for track in &mut rounds.tracks {
            track.title = match track.title.as_str() {
                "" => format!("{name}: {}", track.figure),
                at => format!("{name}: {} at {at}", track.figure),
            };
        }
        Some(rounds)
    }

    /// The rounds that the figures of a phase with `steady` are made of, with their results: those of
    /// the window judged last; the last complete round where none was. None for other phases.
    pub fn judged_rounds<'a>(
        &self,
        phase: usize,
        done: &'a [PointResult],
    ) -> Option<(JudgedRounds, Vec<&'a PointResult>)> {
        let rounds = self.rounds(phase, done)?;
        let last = JudgedRounds { first: rounds.rounds, last: rounds.rounds, spacing: 1 };
        let judged = self.window(phase, &rounds).unwrap_or(last);
        let inside = |r: &&PointResult| judged.all().any(|round| round == r.point.round);
        Some((judged, self.results(phase, done).into_iter().filter(inside).collect()))
    }

    /// The results that charts over fields are made of, and which rounds were chosen.
    fn measured<'a>(&self, done: &'a [PointResult]) -> (Vec<&'a PointResult>, Vec<String>) {
        let (mut results, mut chosen) = (Vec::new(), Vec::new());
        for (at, phase) in self.suite.phases.iter().enumerate().filter(|(_, p)| p.measures_a_loop())
        {
            let rules = self.suite.phases.iter().filter_map(|p| p.points.as_ref());
            let last = rules
                .into_iter()
                .any(|rule| rule.from == phase.name && rule.rounds == ChosenRounds::Last);
            if last && let Some(rounds) = self.counted(at, ChosenRounds::Last, done) {
                chosen.extend(rounds.iter().map(|round| format!("{}: round {round}", phase.name)));
                let mut of = self.results(at, done);
                of.retain(|r| rounds.contains(&r.point.round));
                results.extend(of);
                continue;
            }
            match self.judged_rounds(at, done) {
                None => results.extend(self.results(at, done)),
                Some((_, of)) if of.is_empty() => {}
                Some((rounds, of)) => {
                    chosen.push(format!("{}: {rounds}", phase.title()));
                    results.extend(of);
                }
            }
        }
        (results, chosen)
    }

    /// What the charts over fields show; and in words which rounds they are of, where not all are.
    pub fn sweep(&self, done: &[PointResult]) -> Option<(SweepData, Option<String>)> {
        let (results, chosen) = self.measured(done);
        let data = sweep_data(&self.head.axes, results)?;
        let words = format!("Charts over fields are of {}.", chosen.join(", "));
        Some((data, (!chosen.is_empty()).then_some(words)))
    }

    /// The place of the next point; none at the end.
    pub fn following(&self, done: &[PointResult]) -> Option<usize> {
        let mut at = match done.last() {
            Some(last) => self.points.iter().position(|p| p.point.id == last.point.id)? + 1,
            None => 0,
        };
        while let Some(next) = self.points.get(at) {
            let before = at.checked_sub(1).map(|before| &self.points[before]);
            let same = before.is_some_and(|b| b.phase == next.phase);
            let begins = same && before.is_some_and(|b| b.point.round != next.point.round);
            let over = |rounds: SteadyRounds| rounds.outcome != SteadyOutcome::Unsettled;
            if begins && self.rounds(next.phase, done).is_some_and(over) {
                at += self.points[at..].iter().take_while(|p| p.phase == next.phase).count();
            } else if self.needless(next, done) {
                at += 1;
            } else {
                return Some(at);
            }
        }
        None
    }

    /// What is still to be run after these, at least and at most.
    pub fn remaining(&self, done: &[PointResult]) -> (Remaining, Remaining) {
        let (mut least, mut most) = (Remaining::default(), Remaining::default());
        let Some(at) = self.following(done) else { return (least, most) };
        let known =
            |p: &PhasePoint| self.source(p.phase).is_some_and(|from| self.is_over(from, done));
        let current = self.points[at].phase;
        let earliest = |phase: usize| {
            let steady = self.suite.phases[phase].steady.as_ref()?;
            let complete = match phase == current {
                true => self.rounds(phase, done).map_or(0, |r| r.rounds),
                false => 0,
            };
            Some(steady.earliest_after(complete))
        };
        let earliest: Vec<Option<u32>> = (0..self.suite.phases.len()).map(earliest).collect();
        for p in &self.points[at..] {
            let is_known = (p.chosen.is_some() && known(p)) || p.part == RunPart::SecondLook;
            if is_known && self.needless(p, done) {
                continue;
            }
            most.add(&p.point.plan);
            let may_be_spared =
                p.part == RunPart::SecondLook && self.first_look(&p.point, done).is_none();
            if may_be_spared {
                continue;
            }
            if earliest[p.phase].is_none_or(|round| p.point.round <= round) {
                least.add(&p.point.plan);
            }
        }
        (least, most)
    }

    /// Every result with the name of its phase.
    pub fn named_results<'a>(&self, done: &'a [PointResult]) -> Vec<(String, &'a PointResult)> {
        let phases = self.suite.phases.iter().enumerate();
        let of = |(at, phase): (usize, &SuitePhase)| {
            self.results(at, done).into_iter().map(|r| (phase.title(), r)).collect::<Vec<_>>()
        };
        phases.flat_map(of).collect()
    }

    /// What came of each run that recovers from something, by its phase; by its id where a phase has
    /// several. Errors: `Corrupt` when a run is damaged; `Unavailable` when it is gone or cannot be read; `Usage`
    /// when its directory has no manifest.
    pub fn recoveries(&self, done: &[PointResult]) -> Result<Vec<(String, JudgedRecovery)>> {
        let mut found = Vec::new();
        for (at, phase) in self.suite.phases.iter().enumerate() {
            let Some(recovery) = &phase.recovery else { continue };
            let is_it = |p: &SuitePhase| p.name == recovery.of && p.target == phase.target;
            let of = self.suite.phases[..at].iter().rposition(is_it);
            let references = of.map_or(Vec::new(), |of| match self.judged_rounds(of, done) {
                Some((_, window)) => window,
                None => self.results(of, done).last().copied().into_iter().collect(),
            });
            let results = self.results(at, done);
            for result in &results {
                if references.is_empty() {
                    continue;
                }
                let name = match results.len() {
                    1 => phase.title(),
                    _ => result.point.id.clone(),
                };
                found.push((name, recovery.judge(&references, result)?));
            }
        }
        Ok(found)
    }

    /// What was found about the steady state of each phase that asks for it.
    pub fn found(&self, done: &[PointResult]) -> Vec<(String, SteadyRounds)> {
        let phases = self.suite.phases.iter().enumerate();
        let found = phases.filter_map(|(at, p)| Some((p.title(), self.rounds(at, done)?)));
        found.filter(|(_, rounds)| rounds.rounds > 0).collect()
    }
}

/// A judged window as `series.json` keeps it.
fn decision(rounds: &SteadyRounds, judged: &JudgedTrack) -> Decision {
    let (found, track) = (&judged.window.found, &rounds.tracks[judged.track]);
    let values = [
        ("average", found.average),
        ("data_excursion", found.data_excursion),
        ("data_excursion_allowed", track.rule.data_excursion * found.average),
        ("slope_excursion", found.slope_excursion),
        ("slope_excursion_allowed", track.rule.slope_excursion * found.average),
        ("slope", found.slope),
        ("intercept", found.intercept),
    ];
    let correlation = found.correlation.map(|r| ("correlation", r));
    let values = values.into_iter().chain(correlation);
    let over = rounds.outcome == SteadyOutcome::NotAchieved && judged.window.last == rounds.rounds;
    Decision {
        rule: "steady_state".to_owned(),
        round: judged.window.last,
        points: judged.points.clone(),
        values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
        verdict: match (found.steady, over) {
            (true, false) => "steady",
            (true, true) => "steady_alone",
            (false, true) => "not_achieved",
            (false, false) => "not_steady",
        }
        .to_owned(),
        text: text::judged(track, &judged.window),
    }
}

/// The steady state of each phase, for programs.
fn answer(found: &[(String, SteadyRounds)]) -> Option<Value> {
    let one = |(name, rounds): &(String, SteadyRounds)| {
        let windows = rounds.tracks.iter().filter_map(|t| t.window);
        let window = windows.map(|w| json!([w.first, w.last])).next();
        let outcome = match rounds.outcome {
            SteadyOutcome::Unsettled => "unfinished",
            SteadyOutcome::Achieved(_) => "achieved",
            SteadyOutcome::NotAchieved => "not_achieved",
        };
        let value = json!({ "outcome": outcome, "rounds": rounds.rounds, "window": window });
        (name.clone(), value)
    };
    let phases: serde_json::Map<String, Value> = found.iter().map(one).collect();
    (!phases.is_empty()).then(|| json!({ "steady_state": phases }))
}

impl Method for MatrixMethod {
    fn head(&self) -> &SeriesHead {
        &self.head
    }

    fn next(&mut self, done: &[PointResult]) -> Result<Next> {
        let ended = done.last().is_some_and(|r| self.ended_by(r));
        let next = self.following(done).filter(|_| !ended);
        next.map_or(Ok(Next::End), |at| Ok(Next::Point(Box::new(self.point(at, done)?))))
    }

    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let gate = |exit: &Exit| matches!(exit, Exit::GateFailed | Exit::GateUndecided);
        let answering = self.answering(done);
        // The gate of a first look does not count once a second look has answered: that of the second does.
        let last = |r: &PointResult| answering.runs.iter().any(|of| std::ptr::eq(*of, r));
        let counts = |r: &&PointResult| !gate(&r.exit) || (self.suite.gates && last(r));
        let exits = done.iter().filter(counts).map(|r| r.exit);
        let ended = ended.filter(|exit| self.suite.gates || !gate(exit));
        let all = exits.chain(ended).fold(Exit::Ok, worst);
        match answers::exit(&answering).filter(|_| self.suite.gates) {
            Some(gate) => worst(all, gate),
            None => all,
        }
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        let found = self.found(series.done);
        let decisions = |rounds: &SteadyRounds| -> Vec<Decision> {
            rounds.judged.iter().map(|judged| decision(rounds, judged)).collect()
        };
        let mut all: Vec<Decision> = found.iter().flat_map(|(_, r)| decisions(r)).collect();
        let recoveries = self.recoveries(series.done)?;
        all.extend(recoveries.iter().map(|(phase, judged)| judged.decision(phase)));
        let choices = operating_text::choices(self, series.done);
        all.extend(operating_text::decisions(&choices));
        let ended = series.state != SeriesState::Running;
        if ended && let Some((data, _)) = self.sweep(series.done) {
            let round = series.done.iter().map(|r| r.point.round).max().unwrap_or(1);
            all.extend(demand::decisions(&data, round));
        }
        let parts = [
            answers::answer(&self.answering(series.done), self.suite.measures.as_deref())
                .filter(|_| ended),
            answer(&found),
            recovery::answer(&recoveries),
            operating_text::answer(self, &choices),
        ];
        let parts: Vec<Value> = parts.into_iter().flatten().collect();
        let fields = parts.iter().filter_map(Value::as_object).flatten();
        let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
        let answer = (!parts.is_empty()).then(|| Value::Object(fields.collect()));
        Ok(Conclusion { decisions: all, answer })
    }

    fn progress(&self, done: &[PointResult], point: &Point) -> Option<String> {
        Some(text::progress(self, done, point))
    }

    fn left_ns(&self, done: &[PointResult]) -> Option<(u128, u128)> {
        let (least, most) = self.remaining(done);
        (most.open_ended == 0).then_some((least.ns, most.ns))
    }

    fn to_run(&self, done: &[PointResult]) -> Vec<String> {
        let at = self.following(done).unwrap_or(self.points.len());
        let left = self.points[at..].iter().filter(|p| {
            if p.part == RunPart::SecondLook {
                return !self.needless(p, done);
            }
            let chosen = self.suite.phases[p.phase].points.is_some();
            !(chosen && self.operating(p.phase, done).is_some() && self.needless(p, done))
        });
        left.map(|p| p.point.id.clone()).collect()
    }

    fn line(&self, done: &[PointResult]) -> Option<String> {
        text::round_line(self, done)
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        text::report(self, series).map(Some)
    }
}
