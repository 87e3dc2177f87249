//! What a trace recorded of its operations, beside what its replay measured: percentile by percentile.

use taillight_core::Percentile;
use taillight_rundir::Summary;
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::RecordedSummary;
use taillight_stats::needed_one_sided;

use super::first::quantile;
use crate::format;
use crate::table::{Cell, Table};

/// Two rows and their ratio for each workload with recorded latencies.
pub fn table(summary: &Summary) -> Option<Table> {
    let first = summary.recorded.first()?;
    let names = first.latency.percentiles.iter().map(|it| format!("{} %", it.percentile));
    let names: Vec<String> = names.collect();
    let mut columns = vec!["", "operations", "mean"];
    columns.extend(names.iter().map(String::as_str));
    columns.push("max");
    let mut table = Table::new("recorded", "Recorded and replayed", &columns);
    for of in &summary.recorded {
        let Some(done) = summary.workloads.iter().find(|w| w.name == of.workload) else { continue };
        let several = summary.workloads.len() > 1;
        let name = if several { format!("{} ", of.workload) } else { String::new() };
        table.rows.extend(rows(&name, of, done.totals.latencies.main()));
    }
    let mut note = "The trace's own latencies, as the system that it was recorded on had them, and those of this run, \
                    from the time an operation was due where it had one."
        .to_owned();
    let fewer = |of: &RecordedSummary| {
        let done = summary.workloads.iter().find(|w| w.name == of.workload);
        done.is_some_and(|w| w.totals.count < of.latency.operations)
    };
    if summary.recorded.iter().any(fewer) {
        note.push_str(
            " The recorded ones are of more operations than were replayed: percentiles of both are no pairs.",
        );
    }
    table.note = Some(note);
    Some(table)
}

fn rows(name: &str, of: &RecordedSummary, here: &Latency) -> [Vec<Cell>; 3] {
    let then = &of.latency;
    // As of any run: too few operations tell nothing of a percentile.
    let told = |p: &Percentile| needed_one_sided(p).is_some_and(|least| then.operations >= least);
    let percentiles = then.percentiles.iter();
    let pairs: Vec<(Option<f64>, Option<f64>)> =
        std::iter::once((Some(then.mean_ns), here.mean_ns))
            .chain(percentiles.map(|it| {
                let ours = quantile(here, &it.percentile).and_then(|q| q.ns);
                (told(&it.percentile).then_some(it.ns as f64), ours.map(|ns| ns as f64))
            }))
            .chain([(Some(then.max_ns as f64), here.max_ns.map(|ns| ns as f64))])
            .collect();
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format::duration_ns(ns as u64));
    let row = |label: &str, count: String, cells: &mut dyn Iterator<Item = String>| {
        let head = [format!("{name}{label}"), count];
        head.into_iter().chain(cells).map(Cell::new).collect()
    };
    let ratio = |(then, here): &(Option<f64>, Option<f64>)| match (then, here) {
        (Some(then), Some(here)) if *then > 0.0 => format::factor(here / then),
        _ => "-".to_owned(),
    };
    [
        row("recorded", format::count(then.operations), &mut pairs.iter().map(|it| time(it.0))),
        row("here", format::count(here.count), &mut pairs.iter().map(|it| time(it.1))),
        row("here / recorded", String::new(), &mut pairs.iter().map(ratio)),
    ]
}

#[cfg(test)]
mod tests {
    use taillight_core::plan::{RecordedLatency, RecordedPercentile};
    use taillight_rundir::fixture;

    use super::*;

    #[test]
    fn recorded_and_replayed_stand_side_by_side_with_their_ratio() {
        let mut summary = fixture::summary("r");
        assert!(table(&summary).is_none());
        let done = &mut summary.workloads[0];
        let workload = done.name.clone();
        let max_ns = done.totals.latencies.main().max_ns.expect("a maximum");
        let of = |p| RecordedPercentile { percentile: p, ns: 1_000 };
        let latency = RecordedLatency {
            operations: 7,
            mean_ns: 1_000.0,
            max_ns: max_ns / 2,
            percentiles: vec![of(Percentile::MEDIAN), of(Percentile::hundredths(99_00))],
            quantiles: Vec::new(),
        };
        summary.recorded = vec![RecordedSummary { workload, latency, quantiles: Vec::new() }];
        let it = table(&summary).expect("a table");
        assert_eq!(it.columns, ["", "operations", "mean", "50 %", "99 %", "max"]);
        let recorded: Vec<&str> = it.rows[0].iter().map(|cell| cell.text.as_str()).collect();
        // Seven operations tell a median, and no more.
        assert_eq!((it.rows.len(), recorded[1], recorded[4]), (3, "7", "-"));
        assert_ne!(recorded[3], "-");
        assert_eq!(it.rows[2][5].text, format::factor(max_ns as f64 / (max_ns / 2) as f64));
        let early = |summary: &Summary| {
            table(summary).and_then(|it| it.note).is_some_and(|note| note.contains("no pairs"))
        };
        assert!(!early(&summary));
        summary.recorded[0].latency.operations = summary.workloads[0].totals.count + 1;
        assert!(early(&summary));
    }
}
