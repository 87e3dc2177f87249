//! Recovery (`[phase.recovery]` of a suite file): how long a phase takes to get back to what an earlier
//! phase did, and load between pauses. Here are the samples of runs over their intervals, and what came of
//! them as decisions, an answer and tables; the rule on samples is `taillight_stats::recovery`. Used by the
//! rule `matrix`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use taillight_core::plan::Think;
use taillight_core::{Error, Result};
use taillight_report::format::{count, percent};
use taillight_report::table::{Cell, Table, Tone};
use taillight_rundir::intervals::{IntervalRow, read_intervals};
use taillight_rundir::series::Decision;
use taillight_rundir::{RunDir, names, sums};
use taillight_stats::{Recovery, RecoveryRule, SteadyRule};

use super::matrix_text::figure;
use crate::method::PointResult;

/// Figures that intervals have.
const FIGURES: [&str; 3] = ["iops", "bytes_per_s", "mean_ns"];

/// The time until a figure is back where an earlier phase ended.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecoveryPhase {
    /// The earlier phase: the average over the last intervals of its last run, or of the window of its
    /// steady state, is the reference.
    pub of: String,
    /// What is compared: iops, bytes_per_s or mean_ns of each interval. Default: iops.
    #[serde(default = "iops")]
    pub figure: String,
    /// Intervals of the rolling average, and of the reference. Default: 5.
    #[serde(default = "five")]
    pub window: usize,
    /// Largest distance of the rolling average from the reference, as a share of it. Default: 0.1, half of
    /// the data excursion of a steady window.
    #[serde(default = "tenth")]
    pub within: f64,
}

fn iops() -> String {
    FIGURES[0].to_owned()
}
fn five() -> usize {
    SteadyRule::default().window
}
fn tenth() -> f64 {
    SteadyRule::default().data_excursion / 2.0
}

impl RecoveryPhase {
    /// Refuses what can never be judged; `before` are the names of the earlier phases. Errors: `Usage`,
    /// naming the field.
    pub(super) fn check(&self, phase: &str, before: &[&str]) -> Result<()> {
        let refuse = |field: &str, what: String, hint: String| {
            Err(Error::usage(what).with("at", format!("phase.{phase}.recovery.{field}")).hint(hint))
        };
        if !before.contains(&self.of.as_str()) {
            let what = format!("there is no earlier phase `{}` with a run of its own", self.of);
            return refuse("of", what, format!("there are {}", before.join(", ")));
        }
        if !FIGURES.contains(&self.figure.as_str()) {
            let hint = format!("there are {}", FIGURES.join(", "));
            return refuse("figure", format!("intervals have no figure `{}`", self.figure), hint);
        }
        if self.window < 2 || !(self.within > 0.0 && self.within < 1.0) {
            let what = "a window of one interval, or a bound that is no share".to_owned();
            return refuse("window", what, "window = 5, within = 0.1".to_owned());
        }
        Ok(())
    }

    /// What came of a run: it follows `references`, runs of the earlier phase in order. Errors: `Corrupt`
    /// when a run is damaged; `Unavailable` when it is gone or cannot be read; `Usage` when its directory has
    /// no manifest.
    pub(super) fn judge(
        &self,
        references: &[&PointResult],
        result: &PointResult,
    ) -> Result<JudgedRecovery> {
        let mut figures = Vec::new();
        for reference in references {
            figures.extend(IntervalSamples::of(reference)?.figures(&self.figure));
        }
        let after = IntervalSamples::of(result)?;
        let last = figures.len().checked_sub(self.window).map(|from| &figures[from..]);
        let average = last.map(|last| last.iter().sum::<f64>() / last.len() as f64);
        let average = average.filter(|a| a.is_finite() && *a > 0.0);
        let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let excursion = last.zip(average).map(|(last, a)| (most(last) - least(last)) / a);
        let rule = RecoveryRule { window: self.window, within: self.within };
        let whole = references.iter().all(|r| r.complete()) && result.complete();
        let found = match average.filter(|_| whole) {
            Some(average) => rule.judge(average, &after.figures(&self.figure)),
            None => Recovery::Unknown,
        };
        Ok(JudgedRecovery {
            of: self.clone(),
            points: references.iter().chain([&result]).map(|r| r.point.id.clone()).collect(),
            reference: average,
            // A reference that moves more than a steady window may is none.
            moved: excursion.filter(|e| *e > SteadyRule::default().data_excursion),
            interval_s: after.interval_s,
            length_s: after.samples.len() as f64 * after.interval_s,
            found,
        })
    }
}

/// What a recovery came to.
#[derive(Debug, Clone)]
pub(super) struct JudgedRecovery {
    of: RecoveryPhase,
    /// Ids of the runs that gave the reference, and of the run itself.
    points: Vec<String>,
    reference: Option<f64>,
    /// Largest minus smallest value of the reference, as a share of it, where that is too much.
    moved: Option<f64>,
    interval_s: f64,
    length_s: f64,
    found: Recovery,
}

impl JudgedRecovery {
    /// The end of the interval at this place, s from the start of the run.
    fn end_s(&self, place: usize) -> f64 {
        (place + 1) as f64 * self.interval_s
    }

    /// When the figure was back to stay, s.
    fn recovered_s(&self) -> Option<f64> {
        match self.found {
            Recovery::At { place, .. } if self.moved.is_none() => Some(self.end_s(place)),
            _ => None,
        }
    }

    /// Whether already the first rolling average is one that stays.
    fn at_once(&self) -> bool {
        matches!(self.found, Recovery::At { place, .. } if place + 1 == self.of.window)
    }

    fn verdict(&self) -> &'static str {
        match (self.found, self.moved) {
            (Recovery::Unknown, _) | (_, Some(_)) => "undecided",
            (Recovery::At { .. }, None) => "recovered",
            (Recovery::Not { .. }, None) => "not_recovered",
        }
    }

    /// In a sentence, after the name of the phase.
    pub fn sentence(&self, phase: &str) -> String {
        let RecoveryPhase { of, window, .. } = &self.of;
        let rolling = f64::from(*window as u32) * self.interval_s;
        let back = match (self.found, self.moved) {
            (Recovery::Unknown, _) => "recovery undecided: too few intervals to judge".to_owned(),
            (_, Some(moved)) => {
                format!("recovery undecided: the end of {of} moved by {} itself", percent(moved))
            }
            (Recovery::At { .. }, None) if self.at_once() => {
                format!("at the level of {of} from the start on")
            }
            (Recovery::At { place, .. }, None) => {
                format!("recovered to the level of {of} after {} s", seconds(self.end_s(place)))
            }
            (Recovery::Not { .. }, None) => {
                format!("NOT RECOVERED to the level of {of} in {} s", seconds(self.length_s))
            }
        };
        format!("{phase}: {back} (average over {} s)", seconds(rolling))
    }

    /// For `series.json`.
    pub fn decision(&self, phase: &str) -> Decision {
        let first = match self.found {
            Recovery::At { first, .. } => Some(first),
            Recovery::Not { first } => first,
            Recovery::Unknown => None,
        };
        let values = [
            ("reference", self.reference),
            ("within", Some(self.of.within)),
            ("window_s", Some(self.of.window as f64 * self.interval_s)),
            ("length_s", Some(self.length_s)),
            ("first_within_s", first.map(|place| self.end_s(place))),
            ("recovered_s", self.recovered_s()),
        ];
        let there = values.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
        Decision {
            rule: "recovery".to_owned(),
            round: 1,
            points: self.points.clone(),
            values: there.collect(),
            verdict: self.verdict().to_owned(),
            text: self.sentence(phase),
        }
    }

    /// The same as part of the answer.
    pub fn answer(&self) -> Value {
        json!({ "outcome": self.verdict(), "recovered_s": self.recovered_s() })
    }
}

fn seconds(s: f64) -> String {
    format!("{}", (s * 1000.0).round() / 1000.0)
}

/// Recoveries by phase, as a table; none where there are none.
pub(super) fn table(found: &[(String, JudgedRecovery)]) -> Option<Table> {
    let columns = ["phase", "reference", "of", "allowed", "rolling over", "recovered from"];
    let mut table = Table::new("recovery", "Recovery", &columns);
    for (phase, judged) in found {
        let RecoveryPhase { of, figure: name, window, within } = &judged.of;
        let outcome = match judged.recovered_s() {
            Some(_) if judged.at_once() => Cell::toned("the start on", Tone::Good),
            Some(s) => Cell::toned(format!("{} s", seconds(s)), Tone::Good),
            None if judged.verdict() == "undecided" => Cell::toned("undecided", Tone::Warn),
            None => Cell::toned(format!("not in {} s", seconds(judged.length_s)), Tone::Bad),
        };
        table.rows.push(vec![
            Cell::new(phase.clone()),
            Cell::new(judged.reference.map_or("-".to_owned(), |r| figure(name, r))),
            Cell::new(format!("{name}, end of {of}")),
            Cell::new(format!("within {}", percent(*within))),
            Cell::new(format!("{} s", seconds(*window as f64 * judged.interval_s))),
            outcome,
        ]);
    }
    table.note = Some(
        "The reference is the average over the last intervals of the earlier phase. Recovered is the end of \
         the first rolling average from which on all are within the bound, to the end of the run."
            .to_owned(),
    );
    (!table.rows.is_empty()).then_some(table)
}

/// The measured intervals of a run, in equal steps from its start; steps in which nothing completed are
/// there, with no operations.
struct IntervalSamples {
    interval_s: f64,
    samples: Vec<IntervalSample>,
}

#[derive(Debug, Clone, Copy, Default)]
struct IntervalSample {
    ops: u64,
    bytes: u64,
    /// Latency of all operations, ns.
    time_ns: f64,
}

impl IntervalSamples {
    fn of(result: &PointResult) -> Result<IntervalSamples> {
        let run = RunDir::open(&result.dir)?;
        let manifest = run.manifest();
        let step_ns = manifest.plan.run.interval.0.max(1);
        let mut all = IntervalSamples { interval_s: step_ns as f64 / 1e9, samples: Vec::new() };
        let measured = manifest.phases.iter().find(|p| p.name == "measure");
        let span = measured.and_then(|p| Some((p.start_ns, p.end_ns?)));
        let path = sums::believed(&run, names::INTERVALS)?;
        let (Some((start_ns, end_ns)), Some(path)) = (span, path) else {
            return Ok(all);
        };
        // What is left over at the end is no whole interval.
        let steps = u64::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(0) / step_ns;
        all.samples = vec![IntervalSample::default(); usize::try_from(steps).unwrap_or(0)];
        let workloads = &manifest.plan.workloads;
        let measured =
            |r: &IntervalRow| workloads.get(usize::from(r.workload)).is_none_or(|w| w.measured);
        for row in read_intervals(&path)?.iter().filter(|r| r.phase == "measure" && measured(r)) {
            all.add(row, start_ns, step_ns);
        }
        Ok(all)
    }

    fn add(&mut self, row: &IntervalRow, start_ns: i64, step_ns: u64) {
        let middle = row.start_ns.saturating_add((row.length_ns / 2) as i64);
        let since = u64::try_from(middle.saturating_sub(start_ns)).ok();
        let place = since.and_then(|ns| usize::try_from(ns / step_ns).ok());
        if let Some(sample) = place.and_then(|place| self.samples.get_mut(place)) {
            let good = row.ops.saturating_sub(row.errors);
            sample.ops += good;
            sample.bytes += row.bytes;
            sample.time_ns += row.mean_ns.unwrap_or(0.0) * good as f64;
        }
    }

    /// A figure of each interval, by its name.
    fn figures(&self, name: &str) -> Vec<f64> {
        let of = |s: &IntervalSample| match name {
            "bytes_per_s" => s.bytes as f64 / self.interval_s,
            "mean_ns" => s.time_ns / s.ops as f64,
            _ => s.ops as f64 / self.interval_s,
        };
        self.samples.iter().map(of).collect()
    }
}

/// Runs whose load has pauses, a row for each: what their bursts of load did. Errors: as
/// `RecoveryPhase::judge`.
pub(super) fn bursts(runs: &[(String, &PointResult)]) -> Result<Option<Table>> {
    let columns = ["phase", "load", "idle", "times", "first", "last", "average", "least", "most"];
    let mut table = Table::new("bursts", "Load between pauses", &columns);
    for (phase, result) in runs {
        let workload = result.point.plan.workloads.first();
        let Some((think, load)) = workload.and_then(|w| Some((w.think?, w.think?.after?))) else {
            continue;
        };
        let bursts = burst_rates(&IntervalSamples::of(result)?, think, load.0);
        let (Some(first), Some(last)) = (bursts.first(), bursts.last()) else { continue };
        let average = bursts.iter().sum::<f64>() / bursts.len() as f64;
        let least = bursts.iter().copied().fold(f64::INFINITY, f64::min);
        let most = bursts.iter().copied().fold(0.0, f64::max);
        let mut row = vec![phase.clone(), load.to_string(), think.time.to_string()];
        row.push(count(bursts.len() as u64));
        row.extend([*first, *last, average, least, most].map(|rate| figure(FIGURES[0], rate)));
        table.rows.push(row.into_iter().map(Cell::new).collect());
    }
    table.note = Some("Operations a second of load; the pauses between are left out.".to_owned());
    Ok((!table.rows.is_empty()).then_some(table))
}

/// Operations a second of load in each cycle whose load part is whole. Cycles are those of the clock; the interval
/// must divide both parts, or operations fall into the wrong one: such runs have no rates.
fn burst_rates(samples: &IntervalSamples, think: Think, load_ns: u64) -> Vec<f64> {
    let step_ns = (samples.interval_s * 1e9).round() as u64;
    let cycle_ns = load_ns + think.time.0;
    if step_ns == 0 || !load_ns.is_multiple_of(step_ns) || !cycle_ns.is_multiple_of(step_ns) {
        return Vec::new();
    }
    let (load, cycle) = ((load_ns / step_ns) as usize, (cycle_ns / step_ns) as usize);
    let whole = samples.samples.chunks(cycle).filter(|c| c.len() >= load);
    // What completes in the pause was started before it.
    whole.map(|c| c.iter().map(|s| s.ops).sum::<u64>() as f64 * 1e9 / load_ns as f64).collect()
}

/// The answer of all recoveries, for programs.
pub(super) fn answer(found: &[(String, JudgedRecovery)]) -> Option<Value> {
    let all: BTreeMap<&str, Value> =
        found.iter().map(|(phase, judged)| (phase.as_str(), judged.answer())).collect();
    (!all.is_empty()).then(|| json!({ "recovery": all }))
}
