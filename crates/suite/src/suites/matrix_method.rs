//! A matrix as a method: which point is next, which rounds are needless, and how much is left.
//!
//! What it is: the walk over the points of all phases. A phase with `steady` ends with the round at
//! which its figures have settled; everything else is known beforehand. What it is not: the making of
//! points (`matrix`), the rule (`steady`), words and tables (`matrix_words`).

use std::fmt;

use serde_json::{Value, json};
use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_rundir::series::Decision;

use super::answers;
use super::loops::load_ns;
use super::matrix::{MatrixSuite, SuitePhase};
use super::matrix_words as words;
use super::recovery::{self, JudgedRecovery};
use super::steady::{Coordinates, JudgedTrack, SteadyOutcome, SteadyRounds};
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
    pub point: Point,
}

/// The points of a matrix, and the reports over them.
pub(super) struct MatrixMethod {
    pub head: SeriesHead,
    pub suite: MatrixSuite,
    /// Every point there may be, in order.
    pub points: Vec<PhasePoint>,
    /// How the suite departs from the standard it names.
    pub deviations: Vec<String>,
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
    fn contains(self, round: u32) -> bool {
        (self.first..=self.last).contains(&round)
            && (round - self.first).is_multiple_of(self.spacing)
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
    /// The settings of a phase's loops.
    pub fn settings(&self, phase: usize) -> Vec<Coordinates> {
        let first = self.points.iter().filter(|p| p.phase == phase && p.point.round == 1);
        first.map(|p| p.point.coordinates.clone()).collect()
    }

    /// The results of a phase, in order.
    pub fn results<'a>(&self, phase: usize, done: &'a [PointResult]) -> Vec<&'a PointResult> {
        let of = |r: &&PointResult| {
            let mut points = self.points.iter();
            points.any(|p| p.phase == phase && p.point.id == r.point.id)
        };
        done.iter().filter(of).collect()
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
        let spacing = self.suite.phases[phase].steady.as_ref()?.spacing;
        let window = rounds.tracks.iter().find_map(|t| t.window);
        let judged = match window {
            Some(w) => JudgedRounds { first: w.first, last: w.last, spacing },
            None => JudgedRounds { first: rounds.rounds, last: rounds.rounds, spacing: 1 },
        };
        let inside = |r: &&PointResult| judged.contains(r.point.round);
        Some((judged, self.results(phase, done).into_iter().filter(inside).collect()))
    }

    /// The results that charts over fields are made of, and which rounds were chosen.
    fn measured<'a>(&self, done: &'a [PointResult]) -> (Vec<&'a PointResult>, Vec<String>) {
        let (mut results, mut chosen) = (Vec::new(), Vec::new());
        for (at, phase) in self.suite.phases.iter().enumerate().filter(|(_, p)| p.measures_a_loop())
        {
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
    fn following(&self, done: &[PointResult]) -> Option<usize> {
        let mut at = match done.last() {
            Some(last) => self.points.iter().position(|p| p.point.id == last.point.id)? + 1,
            None => 0,
        };
        while let Some(next) = self.points.get(at) {
            let before = at.checked_sub(1).map(|before| &self.points[before]);
            let same = before.is_some_and(|b| b.phase == next.phase);
            let begins = same && before.is_some_and(|b| b.point.round != next.point.round);
            let over = |rounds: SteadyRounds| rounds.outcome != SteadyOutcome::Unsettled;
            if !begins || !self.rounds(next.phase, done).is_some_and(over) {
                return Some(at);
            }
            at += self.points[at..].iter().take_while(|p| p.phase == next.phase).count();
        }
        None
    }

    /// What is still to be run after these, at least and at most.
    pub fn remaining(&self, done: &[PointResult]) -> (Remaining, Remaining) {
        let (mut least, mut most) = (Remaining::default(), Remaining::default());
        let Some(at) = self.following(done) else { return (least, most) };
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
            most.add(&p.point.plan);
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
    /// several. Errors: `Corrupt` when a run cannot be read.
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
        text: words::judged(track, &judged.window),
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
        Ok(next.map_or(Next::End, |at| Next::Point(Box::new(self.points[at].point.clone()))))
    }

    fn exit(&self, done: &[PointResult], ended: Option<Exit>) -> Exit {
        let all = done.iter().map(|r| r.exit).chain(ended).fold(Exit::Ok, worst);
        if answers::missed(done) { worst(all, Exit::GateFailed) } else { all }
    }

    fn record(&mut self, series: &SeriesView<'_>) -> Result<Conclusion> {
        let found = self.found(series.done);
        let decisions = |rounds: &SteadyRounds| -> Vec<Decision> {
            rounds.judged.iter().map(|judged| decision(rounds, judged)).collect()
        };
        let mut all: Vec<Decision> = found.iter().flat_map(|(_, r)| decisions(r)).collect();
        let recoveries = self.recoveries(series.done)?;
        all.extend(recoveries.iter().map(|(phase, judged)| judged.decision(phase)));
        let ended = series.state != SeriesState::Running;
        if ended && let Some((data, _)) = self.sweep(series.done) {
            let round = series.done.iter().map(|r| r.point.round).max().unwrap_or(1);
            all.extend(demand::decisions(&data, round));
        }
        let parts = [
            answers::answer(series.done, self.points.len()).filter(|_| ended),
            answer(&found),
            recovery::answer(&recoveries),
        ];
        let parts: Vec<Value> = parts.into_iter().flatten().collect();
        let fields = parts.iter().filter_map(Value::as_object).flatten();
        let fields = fields.map(|(name, value)| (name.clone(), value.clone()));
        let answer = (!parts.is_empty()).then(|| Value::Object(fields.collect()));
        Ok(Conclusion { decisions: all, answer })
    }

    fn progress(&self, done: &[PointResult], point: &Point) -> Option<String> {
        Some(words::progress(self, done, point))
    }

    fn to_run(&self, done: &[PointResult]) -> Vec<String> {
        let at = self.following(done).unwrap_or(self.points.len());
        self.points[at..].iter().map(|p| p.point.id.clone()).collect()
    }

    fn line(&self, done: &[PointResult]) -> Option<String> {
        words::round_line(self, done)
    }

    fn report(&self, series: &SeriesView<'_>) -> Result<Option<SeriesReport>> {
        words::report(self, series).map(Some)
    }
}
