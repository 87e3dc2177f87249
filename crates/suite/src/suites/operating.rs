//! Operating points (`[phase.points]` of a suite file): settings chosen from the results of an earlier phase,
//! as the highest rate under a ceiling of the response time, the lowest demand, points between them, or the
//! knee. Which rounds count is decided in `matrix_method`; words and tables are in `operating_text`.

use schemars::JsonSchema;
use serde::Deserialize;
use taillight_core::units::Span;
use taillight_core::{Error, Result};
use taillight_stats::{DemandPoint, Knee, knee};

use super::steady::Coordinates;
use crate::figures;
use crate::method::PointResult;

/// Share of the highest figure from which on a figure counts as all of it, as for the knee.
pub(super) const OF_HIGHEST: f64 = 0.98;

/// Figures count as equal within this share of the best: a minute on a quiet machine repeats no better, and
/// what SNIA calls equal is not told by the last digit of a quotient.
pub(super) const EQUAL: f64 = 0.01;

/// Settings that the results of an earlier phase choose.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChosenPoints {
    /// The earlier phase, with loops, among whose settings is chosen.
    pub from: String,
    /// The rounds whose figures count. Default: last.
    #[serde(default)]
    pub rounds: ChosenRounds,
    /// The figure that is to be high, by its name in `series.json`. Default: iops.
    #[serde(default = "iops")]
    pub figure: String,
    /// The figure that has a ceiling. Default: mean_ns.
    #[serde(default = "mean")]
    pub under: String,
    /// The ceiling. Default: none.
    #[serde(default)]
    pub ceiling: Option<Span>,
    /// What is chosen, in the order it is run; `middle` may stand there several times.
    pub pick: Vec<PickedPoint>,
}

fn iops() -> String {
    "iops".to_owned()
}
fn mean() -> String {
    "mean_ns".to_owned()
}

/// Which rounds of a phase count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChosenRounds {
    /// The last one.
    #[default]
    Last,
    /// All of the window judged last for steady state, without one all rounds: rates are averaged,
    /// the mean is of all their I/Os, of percentiles and maxima the largest counts.
    Window,
}

/// A point to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PickedPoint {
    /// The highest figure under the ceiling; among equals, within 1 % of it, the fewest I/Os outstanding,
    /// then the lower time.
    Max,
    /// Closest to half way between `min` and `max` by the figure, under the ceiling; several lie
    /// evenly between them. Equals as for `max`.
    Middle,
    /// The fewest I/Os outstanding.
    Min,
    /// The fewest I/Os outstanding that reach 98 % of the highest figure under the ceiling.
    Knee,
}

impl PickedPoint {
    pub fn word(self) -> &'static str {
        match self {
            PickedPoint::Max => "max",
            PickedPoint::Middle => "middle",
            PickedPoint::Min => "min",
            PickedPoint::Knee => "knee",
        }
    }
}

/// What one setting gave over the rounds that count.
#[derive(Debug, Clone)]
pub(super) struct SettingFigures<'a> {
    pub coordinates: Coordinates,
    /// The figure that is to be high.
    pub figure: f64,
    /// The figure that has a ceiling.
    pub under: f64,
    /// I/Os outstanding, asked for.
    pub outstanding: u64,
    /// Its results, in order of rounds.
    pub results: Vec<&'a PointResult>,
}

/// A point that was chosen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OperatingPoint {
    /// `max`, `middle-2`.
    pub name: String,
    pub pick: PickedPoint,
    /// Which of the settings.
    pub at: usize,
    /// Whether the ceiling is exceeded there.
    pub over_ceiling: bool,
    /// The name of an earlier one with the same setting: it is not run twice.
    pub same_as: Option<String>,
}

/// What follows from the results of a phase.
#[derive(Debug, Clone)]
pub(super) struct OperatingPoints<'a> {
    /// Every setting that has both figures, in the order of the loops.
    pub settings: Vec<SettingFigures<'a>>,
    /// How many of them lie under the ceiling, and of these how many within 2 % of the highest.
    pub under: usize,
    pub within: usize,
    /// One for each of `pick`; none for a knee where there is none.
    pub chosen: Vec<Option<OperatingPoint>>,
    /// The knee, or why there is none.
    pub knee: std::result::Result<usize, &'static str>,
}

impl ChosenPoints {
    /// What its points are called, in order.
    pub fn names(&self) -> Vec<String> {
        let several = self.pick.iter().filter(|p| **p == PickedPoint::Middle).count() > 1;
        let mut middles = 0;
        let name = |pick: &PickedPoint| {
            middles += usize::from(*pick == PickedPoint::Middle);
            match several && *pick == PickedPoint::Middle {
                true => format!("{}-{middles}", pick.word()),
                false => pick.word().to_owned(),
            }
        };
        self.pick.iter().map(name).collect()
    }

    /// Refuses what can never be chosen. Errors: `Usage`, naming the field.
    pub fn check(&self, phase: &str) -> Result<()> {
        let refuse = |field: &str, what: String, hint: String| {
            Err(Error::usage(what).with("at", format!("phase.{phase}.points.{field}")).hint(hint))
        };
        for (field, name) in [("figure", &self.figure), ("under", &self.under)] {
            if !figures::NAMES.contains(&name.as_str()) {
                let hint = format!("there are {}", figures::NAMES.join(", "));
                return refuse(field, format!("there is no figure `{name}`"), hint);
            }
        }
        if self.ceiling.is_some() && !self.under.ends_with("_ns") {
            let hint = "the ceiling is a time: under = \"mean_ns\" or a percentile".to_owned();
            return refuse("under", format!("`{}` is no time", self.under), hint);
        }
        let twice = |pick: &PickedPoint| {
            let same = self.pick.iter().filter(|p| *p == pick).count();
            *pick != PickedPoint::Middle && same > 1
        };
        if self.pick.is_empty() || self.pick.iter().any(twice) {
            let hint = "pick = [\"max\", \"middle\", \"min\"]".to_owned();
            return refuse("pick", "nothing is picked, or a point twice".to_owned(), hint);
        }
        Ok(())
    }

    /// Whether a setting lies under the ceiling; each does where there is none.
    fn kept(&self, s: &SettingFigures<'_>) -> bool {
        self.ceiling.is_none_or(|ceiling| s.under < ceiling.0 as f64)
    }

    /// The choice among settings by their results in the rounds that count. A setting without a result or a figure, or
    /// with a run that did not end as planned, is left out; none where no setting is left. Where none lies under the
    /// ceiling, the one closest to it stands for those that would.
    pub(super) fn choose<'a>(
        &self,
        settings: &[Coordinates],
        results: &[&'a PointResult],
    ) -> Option<OperatingPoints<'a>> {
        let of = |at: &Coordinates| {
            let mine = results.iter().copied().filter(|r| r.point.coordinates == *at);
            let mine: Vec<&PointResult> = mine.collect();
            let sound = mine.iter().all(|r| r.complete());
            Some(SettingFigures {
                coordinates: at.clone(),
                figure: figures::over_rounds(&self.figure, &mine).filter(|_| sound)?,
                under: figures::over_rounds(&self.under, &mine)?,
                outstanding: mine.first()?.point.plan.outstanding(),
                results: mine,
            })
        };
        let settings: Vec<SettingFigures<'a>> = settings.iter().filter_map(of).collect();
        let under: Vec<usize> = (0..settings.len()).filter(|i| self.kept(&settings[*i])).collect();
        // Without a point under the ceiling, the one closest to it is all that is left.
        let all: Vec<usize> = (0..settings.len()).collect();
        let least = settings.iter().map(|s| s.under).fold(f64::INFINITY, f64::min);
        let lowest = fewest(&settings, &all, |s| s.under <= least * (1.0 + EQUAL))?;
        let eligible = if under.is_empty() { vec![lowest] } else { under.clone() };
        let figures = eligible.iter().map(|i| settings[*i].figure);
        let highest = figures.fold(f64::NEG_INFINITY, f64::max);
        let max = fewest(&settings, &eligible, |s| s.figure >= highest - EQUAL * highest.abs())?;
        let min = fewest(&settings, &all, |_| true)?;
        let near = |i: &&usize| settings[**i].figure >= OF_HIGHEST * highest;
        let within = under.iter().filter(near).count();
        let knee = knee_of(&settings, &under);
        let mut points: Vec<Option<OperatingPoint>> = Vec::new();
        let middles = self.pick.iter().filter(|p| **p == PickedPoint::Middle).count();
        let mut nth = 0;
        for (pick, name) in self.pick.iter().zip(self.names()) {
            let at = match pick {
                PickedPoint::Max => Some(max),
                PickedPoint::Min => Some(min),
                PickedPoint::Knee => knee.ok(),
                PickedPoint::Middle => {
                    nth += 1;
                    let ends = (settings[min].figure, settings[max].figure);
                    let wanted = ends.1 - (ends.1 - ends.0) * nth as f64 / (middles + 1) as f64;
                    closest(&settings, &eligible, wanted)
                }
            };
            let same = |at: usize| {
                let earlier = points.iter().flatten().find(|p| p.at == at)?;
                Some(earlier.same_as.clone().unwrap_or_else(|| earlier.name.clone()))
            };
            let point = at.map(|at| OperatingPoint {
                over_ceiling: !self.kept(&settings[at]),
                same_as: same(at),
                name,
                pick: *pick,
                at,
            });
            points.push(point);
        }
        let under = under.len();
        Some(OperatingPoints { settings, under, within, chosen: points, knee })
    }
}

/// Of those that count, the one with the fewest outstanding; among equals the one with the lower time.
fn fewest(
    settings: &[SettingFigures<'_>],
    among: &[usize],
    counts: impl Fn(&SettingFigures<'_>) -> bool,
) -> Option<usize> {
    among.iter().copied().filter(|i| counts(&settings[*i])).min_by(|a, b| {
        let (a, b) = (&settings[*a], &settings[*b]);
        a.outstanding.cmp(&b.outstanding).then(a.under.total_cmp(&b.under))
    })
}

/// The setting whose figure is closest to `wanted`; among equals as [`fewest`].
fn closest(settings: &[SettingFigures<'_>], among: &[usize], wanted: f64) -> Option<usize> {
    let off = |s: &SettingFigures<'_>| (s.figure - wanted).abs();
    let least = among.iter().map(|i| off(&settings[*i])).fold(f64::INFINITY, f64::min);
    fewest(settings, among, |s| off(s) <= least + EQUAL * wanted.abs())
}

/// The knee over all settings `under` the ceiling, the best of those with as many I/Os outstanding
/// standing for them; among equals the one with the lowest time. Errors: why there is none.
fn knee_of(
    settings: &[SettingFigures<'_>],
    under: &[usize],
) -> std::result::Result<usize, &'static str> {
    let mut demands: Vec<u64> = under.iter().map(|i| settings[*i].outstanding).collect();
    demands.sort_unstable();
    demands.dedup();
    let same = |demand: u64| under.iter().filter(move |i| settings[**i].outstanding == demand);
    let highest = |demand: u64| same(demand).map(|i| settings[*i].figure).fold(0.0, f64::max);
    let points: Vec<DemandPoint> = demands
        .iter()
        .map(|demand| DemandPoint { demand: *demand as f64, rate: highest(*demand), missed: false })
        .collect();
    let all = points.iter().map(|p| p.rate).fold(0.0, f64::max);
    match knee(&points) {
        Knee::At(at) => same(demands[at])
            .copied()
            .filter(|i| settings[*i].figure >= OF_HIGHEST * all)
            .min_by(|a, b| settings[*a].under.total_cmp(&settings[*b].under))
            .ok_or("no point is that high"),
        Knee::TooFew => Err("three demands or more under the ceiling would show one"),
        Knee::BelowRange => Err("the lowest demand was a rate that was missed"),
        Knee::AboveRange => Err("the rate still rises at the highest demand under the ceiling"),
    }
}

#[cfg(test)]
#[path = "operating_tests.rs"]
mod tests;
