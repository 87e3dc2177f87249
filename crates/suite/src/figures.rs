//! Figures of one run as a series uses them.
//!
//! What it is: reading a summary by name, and asking a plan for the percentiles that will be read.
//! What it is not: a computation; every figure is the report's own.

use std::collections::BTreeMap;

use taillight_core::Percentile;
use taillight_core::plan::Plan;
use taillight_rundir::series::{PointRole, SeriesFile};
use taillight_rundir::{Latency, PercentileEntry, Quantile, Summary};
use taillight_stats::SeriesSummary;

use crate::resume::is_done;

/// Names of all figures that a point may have.
pub const NAMES: [&str; 13] = [
    "ops",
    "errors",
    "bytes",
    "iops",
    "bytes_per_s",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p999_ns",
    "p9999_ns",
    "p99999_ns",
    "max_ns",
];

const FIVE_NINES: Percentile = match Percentile::nines(5) {
    Some(percentile) => percentile,
    None => Percentile::MAX,
};

/// Percentiles among the values of a point, with their names.
const PERCENTILES: [(Percentile, &str); 6] = [
    (Percentile::hundredths(50_00), "p50_ns"),
    (Percentile::hundredths(90_00), "p90_ns"),
    (Percentile::hundredths(99_00), "p99_ns"),
    (Percentile::hundredths(99_90), "p999_ns"),
    (Percentile::hundredths(99_99), "p9999_ns"),
    (FIVE_NINES, "p99999_ns"),
];

/// The figures of a run that `series.json` keeps for each point. Latencies are response times in a
/// run with a rate, else service times; what is not resolved is absent.
pub fn values(summary: &Summary) -> BTreeMap<String, f64> {
    let totals = &summary.totals;
    let latency = totals.latencies.main();
    let mut values = BTreeMap::from([
        ("ops".to_owned(), totals.count as f64),
        ("errors".to_owned(), totals.errors as f64),
        ("bytes".to_owned(), totals.bytes as f64),
        ("iops".to_owned(), totals.iops),
        ("bytes_per_s".to_owned(), totals.bytes_per_s),
    ]);
    let of_latency = PERCENTILES
        .iter()
        .map(|(p, name)| (*name, percentile(&latency.percentiles, *p).and_then(|p| p.ns)))
        .chain([("max_ns", latency.max_ns)]);
    for (name, ns) in of_latency {
        values.extend(ns.map(|ns| (name.to_owned(), ns as f64)));
    }
    values.extend(latency.mean_ns.map(|ns| ("mean_ns".to_owned(), ns)));
    values
}

/// Figures of a point that is a series itself: the median of each over its repetitions, or the
/// answer of its search.
pub fn of_series(series: &SeriesFile) -> BTreeMap<String, f64> {
    if let Some(answer) = series.answer.as_ref().and_then(|a| a.get("value")?.as_f64()) {
        return BTreeMap::from([("answer".to_owned(), answer)]);
    }
    let complete = || series.points.iter().filter(|p| p.role == PointRole::Repeat && is_done(p));
    let names = complete().flat_map(|p| p.values.keys());
    let median = |name: &String| {
        let values: Vec<f64> = complete().filter_map(|p| p.values.get(name).copied()).collect();
        Some((name.clone(), SeriesSummary::of(&values)?.median))
    };
    names.filter_map(median).collect()
}

/// Lets the summary of a plan answer these percentiles as well.
pub fn request_percentiles(plan: &mut Plan, percentiles: &[Percentile]) {
    for wanted in percentiles {
        if !plan.qos.percentiles.contains(wanted) {
            plan.qos.percentiles.push(*wanted);
        }
    }
}

/// A percentile among those asked for and the nines.
pub fn quantile(latency: &Latency, p: Percentile) -> Option<&Quantile> {
    let nine = |k: u32| u8::try_from(k).ok().and_then(Percentile::nines);
    let asked = percentile(&latency.percentiles, p).map(|entry| &entry.quantile);
    asked.or_else(|| latency.nines.iter().find(|n| nine(n.k) == Some(p)).map(|n| &n.quantile))
}

pub fn percentile(list: &[PercentileEntry], wanted: Percentile) -> Option<&PercentileEntry> {
    list.iter().find(|entry| entry.p.parse() == Ok(wanted))
}
