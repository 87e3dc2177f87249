//! Steady state of a phase (`[phase.steady]` of a suite file): its rounds repeat until the figures it names
//! have settled, or to a limit. Here are the windows judged from the rounds so far, and whether the phase is
//! over; the rule on one window is `taillight_stats::steady`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use taillight_core::{Error, Result};
use taillight_report::{JudgedWindow, SteadyTrack};
use taillight_rundir::RunDir;
use taillight_stats::SteadyRule;

use super::targets::TARGET;
use crate::axis;
use crate::figures;
use crate::method::PointResult;

/// Rounds until steady state.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyPhase {
    /// The figure that is judged, by its name in `series.json`. Default: iops.
    pub figure: String,
    /// Settings of the loops it is judged at, each as values by dotted path; all of them must be
    /// steady in the same window. Default: every setting.
    #[schemars(with = "Vec<BTreeMap<String, serde_json::Value>>")]
    pub at: Vec<BTreeMap<String, toml::Value>>,
    /// Rounds in the measurement window. Default: 5.
    pub window: u32,
    /// Largest minus smallest value in the window, as a share of the average. Default: 0.2.
    pub excursion: f64,
    /// Rise or fall of the best linear fit across the window, as a share of the average. Default:
    /// 0.1.
    pub slope: f64,
    /// The window is made of rounds this far apart, from the first one on. Default: 1.
    pub spacing: u32,
    /// Rounds at most; then steady state is not achieved, which is a result. They end with the last one that
    /// ends a window. Default: 25.
    pub max_rounds: u32,
    /// Rounds also end when so many times the size of the target has been moved in them, as by `max_rounds`
    /// and not before the first window. Default: no such limit.
    pub capacity: Option<f64>,
}

impl Default for SteadyPhase {
    /// SNIA PTS 2.0.2.
    fn default() -> SteadyPhase {
        let rule = SteadyRule::default();
        SteadyPhase {
            figure: "iops".to_owned(),
            at: Vec::new(),
            window: rule.window as u32,
            excursion: rule.data_excursion,
            slope: rule.slope_excursion,
            spacing: 1,
            max_rounds: 25,
            capacity: None,
        }
    }
}

/// How far a phase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SteadyOutcome {
    /// Its rounds go on.
    Unsettled,
    /// Steady in the window that ends with this round.
    Achieved(u32),
    /// The last round is over and no window was steady.
    NotAchieved,
}

/// A judged window of one track.
#[derive(Debug, Clone)]
pub(super) struct JudgedTrack {
    /// Which of the tracks.
    pub track: usize,
    pub window: JudgedWindow,
    /// Ids of the points in it.
    pub points: Vec<String>,
}

/// What the rounds of a phase say.
#[derive(Debug, Clone)]
pub(super) struct SteadyRounds {
    /// One for each setting that is judged, with the last window judged.
    pub tracks: Vec<SteadyTrack>,
    /// Every window judged, by round.
    pub judged: Vec<JudgedTrack>,
    pub outcome: SteadyOutcome,
    /// Rounds that are complete.
    pub rounds: u32,
}

/// A setting of loops.
pub(super) type Coordinates = BTreeMap<String, Value>;

impl SteadyPhase {
    fn rule(&self) -> SteadyRule {
        SteadyRule {
            window: self.window as usize,
            data_excursion: self.excursion,
            slope_excursion: self.slope,
        }
    }

    /// Rounds from the first to the last of a window, both included: no fewer can be judged.
    pub fn shortest(&self) -> u32 {
        (self.window.saturating_sub(1)).saturating_mul(self.spacing).saturating_add(1)
    }

    /// The last round that ends a window: after it no other can be judged.
    pub fn last_round(&self) -> u32 {
        let ends = |round: &u32| self.window_ending(*round).is_some();
        (1..=self.max_rounds).rev().find(ends).unwrap_or(self.max_rounds)
    }

    /// The earliest round, after so many complete ones, at which a window ends; [`SteadyPhase::last_round`] where none
    /// is left.
    pub fn earliest_after(&self, complete: u32) -> u32 {
        let later = complete.saturating_add(1)..=self.max_rounds;
        later.into_iter().find(|r| self.window_ending(*r).is_some()).unwrap_or(self.last_round())
    }

    /// Refuses what can never be judged; `settings` are those of the phase's loops. Errors: `Usage`,
    /// naming the field.
    pub fn check(&self, phase: &str, settings: &[Coordinates]) -> Result<()> {
        let refuse = |field: &str, what: String, hint: String| {
            Err(Error::usage(what).with("at", format!("phase.{phase}.steady.{field}")).hint(hint))
        };
        if !figures::NAMES.contains(&self.figure.as_str()) {
            let hint = format!("there are {}", figures::NAMES.join(", "));
            return refuse("figure", format!("there is no figure `{}`", self.figure), hint);
        }
        if self.window < 2 || self.spacing == 0 {
            return refuse(
                "window",
                "a window needs at least two rounds, and a spacing of at least 1".to_owned(),
                "SNIA's rule: window = 5, spacing = 1".to_owned(),
            );
        }
        let share = |value: f64| value.is_finite() && value > 0.0;
        if !share(self.excursion) || !share(self.slope) {
            return refuse(
                "excursion",
                "an excursion is a share above 0".to_owned(),
                "SNIA's rule: excursion = 0.2, slope = 0.1".to_owned(),
            );
        }
        if self.capacity.is_some_and(|times| !share(times)) {
            let hint = "WSAT writes 4 times the capacity: capacity = 4".to_owned();
            return refuse("capacity", "a capacity is a number above 0".to_owned(), hint);
        }
        if self.max_rounds < self.shortest() {
            let hint = format!("give max_rounds = {} at least", self.shortest());
            return refuse("max_rounds", "no window fits into the rounds".to_owned(), hint);
        }
        let none = self.at.iter().find(|at| !settings.iter().any(|s| holds(s, at)));
        match none {
            None => Ok(()),
            Some(at) => refuse(
                "at",
                "the loops of the phase have no such setting".to_owned(),
                format!("{} is none of their values", toml::Table::from_iter(at.clone())),
            ),
        }
    }

    /// What follows from the results of a phase, whose loops have these settings: rounds with a result of every setting
    /// are looked at in order, until one ends a window in which all judged settings are steady. Without one the outcome
    /// is that rounds go on, or that the last of them is over.
    pub(super) fn judge(&self, settings: &[Coordinates], results: &[&PointResult]) -> SteadyRounds {
        let tracked =
            |s: &&Coordinates| self.at.is_empty() || self.at.iter().any(|at| holds(s, at));
        let tracked: Vec<&Coordinates> = settings.iter().filter(tracked).collect();
        let in_round = |round: u32| results.iter().filter(move |r| r.point.round == round);
        let complete = |round: &u32| in_round(*round).count() == settings.len();
        let most =
            self.written_out(results).map_or(self.last_round(), |r| r.min(self.last_round()));
        let rounds = (1..=most).take_while(complete).last().unwrap_or(0);
        let of = |at: &Coordinates, round: u32| {
            in_round(round).find(|r| r.point.coordinates == *at).copied()
        };
        let mut tracks: Vec<SteadyTrack> =
            tracked.iter().map(|at| self.track(at, rounds, &|round| of(at, round))).collect();
        let mut judged = Vec::new();
        let mut outcome = SteadyOutcome::Unsettled;
        for last in 1..=rounds {
            let Some(window) = self.window_ending(last) else { continue };
            let mut steady = 0;
            for (nth, track) in tracks.iter_mut().enumerate() {
                let value = |r: &u32| Some((*r, track.rounds.get(*r as usize - 1)?.1?));
                let values: Option<Vec<(u32, f64)>> = window.iter().map(value).collect();
                // A figure that a round does not have leaves its windows unjudged.
                let Some(found) = values.and_then(|v| self.rule().judge(&v)) else { continue };
                let points = window.iter().filter_map(|r| of(tracked[nth], *r));
                let points = points.map(|r| r.point.id.clone()).collect();
                let window = JudgedWindow { first: window[0], last, found };
                track.window = Some(window);
                judged.push(JudgedTrack { track: nth, window, points });
                steady += usize::from(found.steady);
            }
            if steady == tracks.len() {
                outcome = SteadyOutcome::Achieved(last);
                break;
            }
        }
        if outcome == SteadyOutcome::Unsettled && rounds == most {
            outcome = SteadyOutcome::NotAchieved;
        }
        SteadyRounds { tracks, judged, outcome, rounds }
    }

    /// The round that ends the phase by `capacity`: the first from the one in which it was reached on that ends a
    /// window. None without `capacity`, before it is reached, and where the size of the target is not known.
    fn written_out(&self, results: &[&PointResult]) -> Option<u32> {
        let times = self.capacity?;
        let size = target_bytes(results.first()?)?;
        let mut moved = 0.0;
        let reached = results.iter().find(|r| {
            moved += r.values.get("bytes").copied().unwrap_or(0.0);
            moved >= times * size
        })?;
        Some(self.earliest_after(reached.point.round.saturating_sub(1)))
    }

    /// The judged figure of one setting over the complete rounds; a run that did not end as planned has no value.
    fn track<'a>(
        &self,
        at: &Coordinates,
        rounds: u32,
        of: &dyn Fn(u32) -> Option<&'a PointResult>,
    ) -> SteadyTrack {
        let value = |round: u32| {
            let result = of(round).filter(|r| r.complete())?;
            result.values.get(&self.figure).copied()
        };
        // The target stands in the name of the phase.
        let fields = at.iter().filter(|(path, _)| *path != TARGET);
        SteadyTrack {
            title: axis::setting_text(fields.map(|(path, value)| (path.as_str(), value))),
            figure: self.figure.clone(),
            rule: self.rule(),
            rounds: (1..=rounds).map(|round| (round, value(round))).collect(),
            window: None,
        }
    }

    /// The rounds of the window that ends with this round; none where no window does.
    fn window_ending(&self, last: u32) -> Option<Vec<u32>> {
        let first = last.checked_sub(self.shortest() - 1).filter(|first| *first >= 1)?;
        let begins = (first - 1).is_multiple_of(self.spacing);
        begins.then(|| (first..=last).step_by(self.spacing as usize).collect())
    }
}

/// Bytes that a run used of its target: as the job asks, else as the driver said; none where neither says.
fn target_bytes(result: &PointResult) -> Option<f64> {
    let said = || {
        let run = RunDir::open(&result.dir).ok()?;
        run.manifest().environment.get("driver")?.get("size.used")?.as_str()?.parse().ok()
    };
    result.point.plan.target.size.map(|size| size.0 as f64).or_else(said)
}

/// Whether a setting has all these values.
fn holds(setting: &Coordinates, at: &BTreeMap<String, toml::Value>) -> bool {
    at.iter().all(|(path, value)| {
        let value = serde_json::to_value(value).ok();
        value.is_some() && setting.get(path) == value.as_ref()
    })
}
