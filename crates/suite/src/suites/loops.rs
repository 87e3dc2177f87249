//! Loops over fields of a job: how many points they make, which, and in which order. Matrices, and so
//! sweeps, take their settings from here. Also how much load a plan is, and times and values in words.

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use taillight_core::job::FieldLoop;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_report::format;

use crate::axis;

/// The values of one point, in the order of the loops.
pub(super) type Setting<'a> = Vec<(&'a str, &'a toml::Value)>;

/// Most points of a series: each has a run directory with a report of its own.
const MOST_POINTS: u128 = 1_000;

/// Combinations of the loops' values, the innermost loop the fastest; at most `most`.
pub(super) fn settings(loops: &[FieldLoop], most: usize) -> Vec<Setting<'_>> {
    let mut all: Vec<Setting<'_>> = vec![Vec::new()];
    for field in loops {
        let mut longer = Vec::new();
        for setting in &all {
            for value in &field.values {
                let mut setting = setting.clone();
                setting.push((field.path.as_str(), value));
                longer.push(setting);
            }
        }
        longer.truncate(most);
        all = longer;
    }
    all
}

/// The settings of a round in an order drawn with the seed of the series.
pub(super) fn shuffle<T>(settings: &mut [T], seed: u64, round: u32) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(u64::from(round)));
    settings.shuffle(&mut rng);
}

/// Refuses more points than a series may have. `phases` are the points of each, at least, and the
/// load of one, ns, where it ends by time. Errors: `Usage`, with the time they would take.
pub(super) fn check_count(phases: impl Iterator<Item = (u128, Option<u128>)>) -> Result<()> {
    let (mut all, mut load) = (0u128, 0u128);
    for (points, ns) in phases {
        all = all.saturating_add(points);
        load = load.saturating_add(points.saturating_mul(ns.unwrap_or(0)));
    }
    if all <= MOST_POINTS {
        return Ok(());
    }
    let time = match load {
        0 => String::new(),
        ns => format!(": they would take {} of load", length(ns)),
    };
    Err(Error::usage(format!(
        "{} points are too many{time}",
        format::count(u64::try_from(all).unwrap_or(u64::MAX))
    ))
    .with("most", MOST_POINTS)
    .hint("give fewer values, or fewer rounds or repetitions"))
}

/// Combinations of the values of loops.
pub(super) fn combinations(loops: &[FieldLoop]) -> u128 {
    loops.iter().map(|field| field.values.len() as u128).fold(1, u128::saturating_mul)
}

/// Load of one run, warm-up included, ns; none where it does not end by time alone, and for a plan of several runs.
pub(crate) fn load_ns(plan: &Plan) -> Option<u128> {
    let counted = plan.run.operations.is_some() || plan.run.bytes.is_some();
    let mut measured = plan.workloads.iter().filter(|w| w.measured);
    let counted = counted
        || measured.any(|w| w.operations.is_some() || w.bytes.is_some() || w.passes.is_some());
    let duration = plan.planned_ns().filter(|_| !plan.is_series() && !counted)?;
    Some(u128::from(duration) + u128::from(plan.run.warmup.0))
}

/// A time in words: days, hours and minutes, minutes, or seconds.
pub(crate) fn length(ns: u128) -> String {
    const DAY_S: u128 = 86_400;
    match ns / 1_000_000_000 {
        s if s >= 2 * DAY_S => format!("{} days", format::count((s / DAY_S) as u64)),
        s if s >= 7_200 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        s if s >= 120 => format!("{} min", s / 60),
        s => format!("{s} s"),
    }
}

/// A value of a suite file for people: text without its quotes, a mix as [`axis::value_text`] writes it.
pub(crate) fn value_text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => {
            format!("[{}]", values.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        toml::Value::Table(_) => {
            let json = serde_json::to_value(value).ok();
            let mix = json.as_ref().and_then(|v| axis::mix(v.as_object()?));
            mix.unwrap_or_else(|| value.to_string())
        }
        other => other.to_string(),
    }
}
