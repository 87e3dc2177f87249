//! Figures by name as a series uses them: of one run, read from its summary; over rounds of one setting; and of
//! a point that is a series itself. A plan is asked for the percentiles that will be read.

use std::collections::BTreeMap;

use taillight_core::Percentile;
use taillight_core::plan::Plan;
use taillight_rundir::series::{PointRole, SeriesFile};
use taillight_rundir::summary::Totals;
use taillight_rundir::{Latency, PercentileEntry, Quantile, Summary};
use taillight_stats::SeriesSummary;

use crate::method::PointResult;
use crate::resume::is_done;

/// Names of all figures that a run may have.
pub const NAMES: [&str; 14] = [
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
    "cpu_percent",
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
    let mut values = of_totals(&summary.totals);
    values.extend(cpu_percent(summary).map(|p| ("cpu_percent".to_owned(), p)));
    values
}

/// The same of a part of a run, without `cpu_percent`.
pub fn of_totals(totals: &Totals) -> BTreeMap<String, f64> {
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

/// Time of all CPUs of the machine in programs, kernel and interrupts, per cent; none where it was
/// not sampled.
fn cpu_percent(summary: &Summary) -> Option<f64> {
    let host = summary.host.as_ref()?;
    let busy = ["%user", "%system", "%irq", "%soft"].map(|name| {
        let mut metrics = host.metrics.iter();
        metrics.find(|m| m.source == "cpu" && m.metric == name).map(|m| m.mean)
    });
    busy.into_iter().sum()
}

/// One figure over rounds: of `mean_ns` the mean over all their I/Os, of percentiles and maxima the largest, of
/// counts the sum, of the rest the average of the rounds. None where a round lacks it.
pub fn over_rounds(name: &str, rounds: &[&PointResult]) -> Option<f64> {
    let of = |name: &str| -> Option<Vec<f64>> {
        rounds.iter().map(|r| r.values.get(name).copied()).collect()
    };
    of_rounds(name, &of(name)?, &of("ops").unwrap_or_default())
}

/// The same from the value of each round and how many operations it had.
pub fn of_rounds(name: &str, values: &[f64], ops: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let average = values.iter().sum::<f64>() / values.len() as f64;
    match name {
        "mean_ns" => {
            let all: f64 = ops.iter().sum();
            let waited: f64 = values.iter().zip(ops).map(|(v, n)| v * n).sum();
            (all > 0.0 && values.len() == ops.len()).then(|| waited / all)
        }
        "ops" | "errors" | "bytes" => Some(values.iter().sum()),
        name if name.ends_with("_ns") => Some(values.iter().copied().fold(f64::MIN, f64::max)),
        _ => Some(average),
    }
}

/// Figures of a point that is a series itself: `answer`, the value that its search found, or the median of each
/// figure over its complete repetitions.
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
