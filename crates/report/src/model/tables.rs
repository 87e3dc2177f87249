//! The tables of one run's model (throughput, latency, nines, ceilings, errors and others), and the overview of
//! several runs.

use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::Summary;
use taillight_rundir::latency::{Latency, LatencySource, Quantile};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::summary::{Qos, QosStatus, ShareOver, Totals};

use super::first::{bin_words, range};
use super::{AnalysedRun, hosts, recorded, wrong_blocks};
use crate::format;
use crate::table::{Cell, Table, Tone};
use crate::undecided;
use crate::verdict::{asked_for, main, unsampled, untold};

/// Percentiles of the compact table, of those that were asked for.
const COMPACT: [&str; 6] = ["50", "90", "95", "99", "99.9", "99.99"];
/// Time before issue is told apart from this share of the mean latency on.
const QUEUE_SHARE: f64 = 0.05;
const QUEUE: &str = "before issue";
const AFTER_ISSUE: &str = "after issue";
/// Shown where a value is not known: mostly too few I/Os were measured.
const UNRESOLVED: &str = "-";

/// All tables of one run.
pub fn all(summary: &Summary) -> Vec<Table> {
    let tables = [
        wrong_blocks::table(summary),
        hosts::table(summary),
        Some(throughput(summary)),
        Some(load(summary)),
        latency(summary),
        recorded::table(summary),
        nines(summary),
        qos(summary),
        slc(summary),
        errors(summary),
        percentiles(summary),
        moments(summary),
    ];
    tables.into_iter().flatten().filter(|t| !t.rows.is_empty()).collect()
}

/// Every named set of I/Os: operations, then workloads when there are several. An operation that one
/// workload alone does is told with its workload.
fn sets(summary: &Summary) -> Vec<(String, &Totals)> {
    let several = summary.workloads.len() > 1;
    let shared = |op| summary.workloads.iter().filter(|w| w.ops.contains_key(op)).count() > 1;
    let ops = summary.ops.iter().filter(|(op, _)| !several || shared(*op));
    let mut sets: Vec<_> = ops.map(|(op, t)| (op.name().to_owned(), t)).collect();
    if several {
        for workload in &summary.workloads {
            let ops = workload.ops.iter();
            sets.extend(ops.map(|(op, t)| (format!("{} {}", workload.name, op.name()), t)));
        }
    }
    sets
}

/// Share by which the rate inside the measure phase differs from the whole one where it is told.
const DRAIN_MATTERS: f64 = 0.01;

fn throughput(summary: &Summary) -> Table {
    let mut table = Table::new(
        "throughput",
        "Throughput",
        &["", "I/Os", "IOPS", "bandwidth", "in flight", "failed"],
    );
    let any = |which: fn(&OpKind) -> bool| summary.ops.keys().any(which);
    let parts = any(|op| op.request() != *op)
        .then(|| "rmw_get and rmw_update are the parts of rmw: no total adds them.".to_owned());
    let statements = any(|op| op.is_statement()).then(|| {
        "begin to commit are the statements of the transactions: no total adds them.".to_owned()
    });
    let inner = any(|op| op.is_inner()).then(|| {
        "auto_checkpoint and lock_wait are times inside other operations: no total adds them."
            .to_owned()
    });
    let apart = parts.into_iter().chain(statements).chain(inner);
    let notes: Vec<String> = apart.chain(drained(summary)).collect();
    table.note = (!notes.is_empty()).then(|| notes.join(" "));
    let several = summary.totals.records.is_some();
    if several {
        table.columns.insert(3, "records/s".to_owned());
    }
    let mut all = sets(summary);
    if all.len() > 1 {
        all.push(("all".to_owned(), &summary.totals));
    }
    for (name, totals) in all {
        let mut row = vec![
            Cell::new(name),
            Cell::new(format::count(totals.count)),
            operations(totals, &summary.origin),
            rate(totals, format::bytes_per_s(totals.bytes_per_s)),
            Cell::new(totals.depth_mean.map_or(String::new(), format::factor)),
            failures(totals.errors),
        ];
        if several {
            row.insert(3, rate(totals, format::rate(records_per_s(totals))));
        }
        table.rows.push(row);
    }
    table
}

/// What the rate is inside the measure phase, where the drain makes it another one.
fn drained(summary: &Summary) -> Option<String> {
    let totals = &summary.totals;
    let inside = totals.in_phase?;
    let drained = inside.drained?;
    if (inside.iops / totals.iops - 1.0).abs() < DRAIN_MATTERS {
        return None;
    }
    Some(format!(
        "{} came up to {} after the {} measured: within these {}/s.",
        format::counted(drained.count, "I/O"),
        format::duration_ns(drained.duration_ns),
        format::duration_ns(inside.duration_ns),
        format::rate(inside.iops)
    ))
}

/// Records a second: one an operation, where none covers several.
fn records_per_s(totals: &Totals) -> f64 {
    let seconds = totals.duration_ns.max(1) as f64 / 1e9;
    totals.records.map_or(totals.iops, |n| n as f64 / seconds)
}

/// Workloads that only make load.
fn load(summary: &Summary) -> Table {
    let mut table = Table::new(
        "load",
        "Load, not measured",
        &["", "operations", "per second", "asked", "moved", "failed"],
    );
    for it in &summary.load {
        let asked = it.asked_per_s.map_or(UNRESOLVED.to_owned(), format::rate);
        table.rows.push(vec![
            Cell::new(it.name.clone()),
            Cell::new(format::count(it.count)),
            Cell::new(format::rate(it.per_s)),
            Cell::new(asked),
            Cell::new(format::bytes(it.bytes)),
            failures(it.errors),
        ]);
    }
    table
}

/// The kinds of a set's latency that were measured, response time first where there is a schedule.
fn measures(totals: &Totals) -> Vec<(&'static str, &Latency)> {
    let known = &totals.latencies;
    let mut list: Vec<_> =
        known.iter().map(|(kind, latency)| (measure_name(kind), latency)).collect();
    // By the order of kinds response follows service.
    if known.get(LatencyKind::Response).is_some() {
        list.swap(0, 1);
    }
    list
}

fn measure_name(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Wait => "wait",
        LatencyKind::Sync => "sync",
        LatencyKind::BeforeIssue => QUEUE,
        LatencyKind::AfterIssue => AFTER_ISSUE,
        other => other.words(),
    }
}

/// Whether the time before issue takes enough of the latency to be told apart at a glance.
fn queue_matters(totals: &Totals) -> bool {
    let known = &totals.latencies;
    let queue = known.get(LatencyKind::BeforeIssue).and_then(|q| q.mean_ns);
    let both = queue.zip(known.service.mean_ns);
    both.is_some_and(|(queue, service)| queue > service * QUEUE_SHARE)
}

fn latency(summary: &Summary) -> Option<Table> {
    let any = summary.ops.values().next()?;
    let shown: Vec<&str> =
        COMPACT.into_iter().filter(|p| main(any).percentiles.iter().any(|it| it.p == *p)).collect();
    let heads: Vec<String> = shown.iter().map(|p| format!("{p} %")).collect();
    let mut columns = vec!["", "mean"];
    columns.extend(heads.iter().map(String::as_str));
    columns.push("max");
    let mut table = Table::new("latency", "Latency", &columns);
    let queue = summary.ops.values().any(queue_matters);
    for (name, totals) in sets(summary) {
        let mut measures = measures(totals);
        if !queue {
            measures.retain(|(name, _)| !matches!(*name, QUEUE | AFTER_ISSUE));
        }
        let alone = measures.len() == 1;
        for (nth, (measure, latency)) in measures.into_iter().enumerate() {
            let label = match (alone, nth) {
                (true, _) => name.clone(),
                (false, 0) => format!("{name} {measure}"),
                _ => format!("  {measure}"),
            };
            table.rows.push(latency_row(label, latency, &shown));
        }
    }
    let dashes = table.rows.iter().flatten().any(|c| c.text == UNRESOLVED);
    let why = if imported(summary) { ", or not in the result" } else { "" };
    table.note = dashes.then(|| format!("{UNRESOLVED}  too few I/Os to tell{why}"));
    Some(table)
}

fn latency_row(label: String, latency: &Latency, shown: &[&str]) -> Vec<Cell> {
    let time = |ns| time_or_dash(ns);
    let mut row = vec![Cell::new(label), time(latency.mean_ns)];
    for p in shown {
        // What was not asked for stays empty; a dash is for too few I/Os.
        let it = latency.percentiles.iter().find(|it| it.p == *p);
        row.push(it.map_or(Cell::default(), |it| match wide(it) {
            Some(range) => Cell::new(range),
            None => time(it.ns.map(|ns| ns as f64)),
        }));
    }
    row.push(time(latency.max_ns.map(|ns| ns as f64)));
    row
}

/// `1.90 ms`, its interval, or what it needs.
fn estimate(it: &Quantile, totals: &Totals) -> Cell {
    let imported = asked_for(totals).0.source == LatencySource::Imported;
    let Some(ns) = it.ns.filter(|_| it.resolved) else {
        let words = match it.needs {
            // Of none of them is it known how many were faster.
            _ if unsampled(totals) => "unknown".to_owned(),
            n if imported && counted(totals) >= n => "not in the result".to_owned(),
            u64::MAX => "unresolved".to_owned(),
            n => {
                format!("unresolved, needs {}", ios(n.max(it.interval_needs.unwrap_or(0)), totals))
            }
        };
        return Cell::toned(words, Tone::Dim);
    };
    let mark = if is_marked(it, totals) { " *" } else { "" };
    let value = wide(it).unwrap_or_else(|| format::duration_ns(ns));
    let at = |ns: u64| format::duration_ns(ns);
    Cell::new(match (it.lo_ns, it.hi_ns, it.bound_ns) {
        (Some(lo), Some(hi), _) if same(lo, hi) => format!("{value}{mark}"),
        (Some(lo), Some(hi), _) => format!("{value} ({}){mark}", between(lo, hi)),
        // Only the one-sided bound on the other side exists.
        (Some(_), None, Some(most)) => format!("{value} (at most {}){mark}", at(most)),
        (None, Some(_), Some(least)) => format!("{value} (at least {}){mark}", at(least)),
        (_, Some(hi), _) => format!("{value} (up to {}){mark}", at(hi)),
        // The missing upper end is what a reader is after.
        (lo, None, _) => match (it.interval_needs, lo) {
            (Some(n), _) => format!("{value} (interval needs {}){mark}", ios(n, totals)),
            (None, Some(lo)) => format!("{value} (from {}){mark}", at(lo)),
            (None, None) if imported => value,
            (None, None) => format!("{value} (no interval){mark}"),
        },
    })
}

/// The bin that a value lies in, where another tool's bin is wide and the value resolved.
fn wide(it: &Quantile) -> Option<String> {
    it.bin.filter(|bin| it.resolved && bin.is_wide()).map(bin_words)
}

/// I/Os of the latency that the tables show.
fn counted(totals: &Totals) -> u64 {
    asked_for(totals).0.count
}

/// Whether the I/Os count as less than half of their number.
fn is_marked(it: &Quantile, totals: &Totals) -> bool {
    it.resolved && it.effective.is_some_and(|effective| effective < counted(totals) / 2)
}

/// Whether both print alike, so that the interval is narrower than the digits shown.
fn same(lo: u64, hi: u64) -> bool {
    format::duration_ns(lo) == format::duration_ns(hi)
}

/// `1.70 to 2.20 ms`: the unit once when both ends share it.
fn between(lo: u64, hi: u64) -> String {
    range(&format::duration_ns(lo), &format::duration_ns(hi))
}

/// `29,956 I/Os (4 min)`: the time at the rate of this run.
fn ios(n: u64, totals: &Totals) -> String {
    let ns = n as f64 * totals.duration_ns as f64 / counted(totals).max(1) as f64;
    format!("{} I/Os ({})", format::count(n), format::duration_ns(ns as u64))
}

/// Rows of percentiles, one column per set of I/Os.
fn estimates(
    mut table: Table,
    sets: &[(String, &Totals)],
    pick: impl Fn(&Latency) -> Vec<(String, &Quantile)>,
) -> Table {
    let lists: Vec<Vec<(String, &Quantile)>> =
        sets.iter().map(|(_, t)| pick(asked_for(t).0)).collect();
    table.columns.extend(sets.iter().map(|(name, t)| match asked_for(t).1 {
        "latency" => name.clone(),
        kind => format!("{name} {kind}"),
    }));
    let mut marked: Option<(&str, u64, u64)> = None;
    for nth in 0..lists.iter().map(Vec::len).max().unwrap_or(0) {
        let label = lists.iter().find_map(|l| l.get(nth)).map(|(label, _)| label.clone());
        let mut row = vec![Cell::new(label.unwrap_or_default())];
        for (list, (_, totals)) in lists.iter().zip(sets) {
            let Some((label, it)) = list.get(nth) else {
                row.push(Cell::default());
                continue;
            };
            row.push(estimate(it, totals));
            if let Some(effective) = it.effective.filter(|_| is_marked(it, totals))
                && marked.is_none_or(|(_, least, _)| effective < least)
            {
                marked = Some((label, effective, counted(totals)));
            }
        }
        table.rows.push(row);
    }
    if let Some((label, effective, count)) = marked {
        let note = format!(
            "* I/Os that queue or are slow together say less than so many independent ones: at \
             {label} these {} say as much as {}. Four times the length halves an interval.",
            format::count(count),
            format::count(effective)
        );
        table.note = Some(table.note.map_or(note.clone(), |first| format!("{first} {note}")));
    }
    table
}

fn nines(summary: &Summary) -> Option<Table> {
    let title = if imported(summary) { "Nines" } else { "Nines, with 95 % interval" };
    let table = Table::of_words("nines", title, &["share"]);
    Some(estimates(table, &sets(summary), nine_rows))
}

fn percentiles(summary: &Summary) -> Option<Table> {
    let title = if imported(summary) { "Percentiles" } else { "Percentiles, with 95 % interval" };
    let mut table = Table::of_words("percentiles", title, &["share"]);
    table.detail = true;
    let note = "Nearest rank over all successful I/Os.";
    table.note = (!imported(summary)).then(|| note.to_owned());
    Some(estimates(table, &sets(summary), percentile_rows))
}

/// Whether percentiles are those that another tool gives.
fn imported(summary: &Summary) -> bool {
    summary.totals.latencies.service.source == LatencySource::Imported
}

fn nine_rows(latency: &Latency) -> Vec<(String, &Quantile)> {
    latency.nines.iter().map(|n| (format::nines_label(n.k), &n.quantile)).collect()
}

fn percentile_rows(latency: &Latency) -> Vec<(String, &Quantile)> {
    latency.percentiles.iter().map(|p| (format!("{} %", p.p), &p.quantile)).collect()
}

fn moments(summary: &Summary) -> Option<Table> {
    let mut table = Table::new(
        "moments",
        "Shape",
        &["", "count", "min", "mean", "std. deviation", "skewness", "excess kurtosis", "max"],
    );
    table.detail = true;
    for (name, totals) in sets(summary) {
        for (measure, l) in measures(totals) {
            let time = |ns| time_or_dash(ns);
            table.rows.push(vec![
                Cell::new(format!("{name} {measure}")),
                Cell::new(format::count(l.count)),
                time(l.min_ns.map(|n| n as f64)),
                time(l.mean_ns),
                time(l.stddev_ns),
                factor(l.skewness),
                factor(l.kurtosis),
                time(l.max_ns.map(|n| n as f64)),
            ]);
        }
    }
    Some(table)
}

fn qos(summary: &Summary) -> Option<Table> {
    let mut table = Table::new(
        "qos",
        "Ceilings",
        &["", "for", "of", "answer", "slower I/Os", "in events", "share over"],
    );
    table.note = summary.qos.iter().any(|q| q.requests.is_some()).then(|| REQUESTS.to_owned());
    for q in &summary.qos {
        let (answer, tone) = match q.status {
            QosStatus::Pass => ("kept".to_owned(), Tone::Good),
            QosStatus::Fail => ("missed".to_owned(), Tone::Bad),
            QosStatus::Undecided => (format!("undecided: {}", undecided(q, summary)), Tone::Warn),
        };
        table.rows.push(vec![
            Cell::new(format::duration_ns(q.ceiling_ns)),
            Cell::new(format!("{} %", q.at)),
            Cell::new(checked_for(q)),
            Cell::toned(answer, tone),
            Cell::new(format::count(q.above)),
            Cell::new(format::count(q.episodes)),
            Cell::new(share_over(q)),
        ]);
    }
    Some(table)
}

const REQUESTS: &str = "A request is as slow as the slowest of its I/Os: neighbouring I/Os of a \
    worker, in the order they were submitted. Its share is that of failed requests as measured, and \
    beside it what independent I/Os would give.";

/// Which I/Os a ceiling is for.
fn checked_for(q: &Qos) -> String {
    let ios = q.op.map_or("all", OpKind::name);
    let ios = q.workload.as_deref().unwrap_or(ios);
    match &q.requests {
        Some(requests) => format!("{ios}, requests of {}", requests.fanout),
        None => ios.to_owned(),
    }
}

/// The share over the ceiling with its interval.
fn share_over(q: &Qos) -> String {
    let shown = |s: &ShareOver| {
        let share = s.share.map_or("-".to_owned(), format::percent);
        format!("{share} ({} to {})", format::percent(s.lo), format::percent(s.hi))
    };
    match (&q.requests, &q.share) {
        (Some(requests), _) => {
            let measured = requests.measured.as_ref().map_or("unknown".to_owned(), shown);
            format!("{measured}; independent {}", shown(&requests.independent))
        }
        (None, Some(share)) => match q.time_share {
            Some(time) => {
                format!("{}; {} of the workers' time", shown(share), format::percent(time))
            }
            None => shown(share),
        },
        (None, None) => "-".to_owned(),
    }
}

fn slc(summary: &Summary) -> Option<Table> {
    let mut table = Table::new(
        "slc",
        "SLC factors",
        &["", "SLC1", "SLC2", "SBK (21 values)", "SBK (28 values)"],
    );
    // On a terminal it is one line among the facts.
    table.detail = true;
    table.note = Some(
        "Spread below and above the median as ratios, smaller is steadier. A system with a tiny \
         median can show a huge SLC2 and still be the faster one."
            .to_owned(),
    );
    for (op, slc) in &summary.slc {
        let kind = slc.kind().map_or(String::new(), |kind| format!(" {}", kind.words()));
        table.rows.push(vec![
            Cell::new(format!("{}{kind}", op.name())),
            factor(slc.slc1),
            factor(slc.slc2),
            Cell::new(format!("{}, {}", slc.sbk21.slc1, slc.sbk21.slc2)),
            Cell::new(format!("{}, {}", slc.sbk28.slc1, slc.sbk28.slc2)),
        ]);
    }
    Some(table)
}

fn errors(summary: &Summary) -> Option<Table> {
    let mut table = Table::of_words("errors", "Errors", &["", "failed", "why"]);
    for kind in &summary.errors.kinds {
        table.rows.push(vec![
            Cell::new(kind.op.name()),
            Cell::toned(format::count(kind.count), Tone::Bad),
            Cell::new(kind.text.clone()),
        ]);
    }
    Some(table)
}

/// Several runs in one table, each under its name: throughput and tail of each operation. Factors stand only
/// beside runs of the same load as the first.
pub fn overview(runs: &[(String, &AnalysedRun)]) -> Table {
    let mut columns = vec!["run", "", "IOPS", "bandwidth", "mean"];
    columns.extend(["50 %", "99 %", "99.9 %", "99.99 %", "max"]);
    let mut table = Table::new("overview", "Runs side by side", &columns);
    for (i, (label, run)) in runs.iter().enumerate() {
        let like = runs.first().filter(|(_, first)| i > 0 && same_load(first, run));
        for (nth, (op, totals)) in run.summary.ops.iter().enumerate() {
            let first = like.and_then(|(_, first)| first.summary.ops.get(op));
            let mut row = vec![
                Cell::new(if nth == 0 { label.clone() } else { String::new() }),
                Cell::new(op.name()),
                operations(totals, &run.summary.origin),
                rate(totals, format::bytes_per_s(totals.bytes_per_s)),
            ];
            let shown = ["50", "99", "99.9", "99.99"];
            row.extend(latency_row(String::new(), main(totals), &shown).into_iter().skip(1));
            if let Some(first) = first {
                beside(&mut row[2], Some(totals.iops), Some(first.iops));
                for (k, column) in (2u32..).zip(6..9) {
                    beside(&mut row[column], nine_ns(totals, k), nine_ns(first, k));
                }
            }
            table.rows.push(row);
        }
    }
    let single =
        "Single runs: differences smaller than the spread between repeated runs mean nothing.";
    let factors = table.rows.iter().flatten().any(|cell| cell.text.ends_with("x)"));
    table.note = Some(match factors {
        true => format!(
            "In brackets: how many times that of the first run, where the load is the same. {single}"
        ),
        false => single.to_owned(),
    });
    table
}

/// Whether the plans of both have the same workloads, but for their names.
fn same_load(a: &AnalysedRun, b: &AnalysedRun) -> bool {
    let asked = |run: &AnalysedRun| {
        let mut workloads = run.analysis.manifest.plan.workloads.clone();
        workloads.iter_mut().for_each(|w| w.name.clear());
        workloads
    };
    asked(a) == asked(b)
}

/// Adds how many times the first run's value this is.
fn beside(cell: &mut Cell, value: Option<f64>, first: Option<f64>) {
    if let Some((value, first)) = value.zip(first).filter(|(_, first)| *first > 0.0)
        && cell.tone != Tone::Dim
    {
        cell.text.push_str(&format!(" ({}x)", format::factor(value / first)));
    }
}

/// So many nines of the main latency, where they are resolved.
fn nine_ns(totals: &Totals, k: u32) -> Option<f64> {
    let nine = main(totals).nines.iter().find(|n| n.k == k)?;
    nine.ns.map(|ns| ns as f64)
}

/// A time, or a dash where too few I/Os tell it.
fn time_or_dash(ns: Option<f64>) -> Cell {
    match ns {
        Some(ns) => Cell::new(format::duration(ns)),
        None => Cell::toned(UNRESOLVED, Tone::Dim),
    }
}

fn factor(value: Option<f64>) -> Cell {
    value.map_or(Cell::toned("undefined", Tone::Dim), |v| Cell::new(format::factor(v)))
}

fn failures(count: u64) -> Cell {
    match count {
        0 => Cell::toned("0", Tone::Dim),
        n => Cell::toned(format::count(n), Tone::Bad),
    }
}

/// A rate, or that it is unknown.
fn rate(totals: &Totals, text: String) -> Cell {
    if unsampled(totals) {
        return Cell::toned("unknown", Tone::Dim);
    }
    Cell::new(text)
}

/// Operations a second: unknown where another tool did not tell them.
fn operations(totals: &Totals, origin: &RunOrigin) -> Cell {
    match untold(totals, origin) {
        true => Cell::toned("unknown", Tone::Dim),
        false => rate(totals, format::rate(totals.iops)),
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::origin::{Fidelity, ImportSource};

    use super::*;

    #[test]
    fn bytes_without_operations_have_no_rate_of_operations() {
        let origin = RunOrigin::Imported(ImportSource {
            tool: "fio".into(),
            version: None,
            file: "bw.log".into(),
            file_sha256: "0".into(),
            file_crc32: String::new(),
            fidelity: Fidelity::Averages,
            spans: String::new(),
            notes: Vec::new(),
            failed: Vec::new(),
        });
        let mut totals = taillight_rundir::fixture::summary("a").totals;
        assert_ne!(operations(&totals, &origin), Cell::toned("unknown", Tone::Dim));
        (totals.iops, totals.bytes_per_s) = (0.0, 1e6);
        assert_eq!(operations(&totals, &origin), Cell::toned("unknown", Tone::Dim));
    }
}
