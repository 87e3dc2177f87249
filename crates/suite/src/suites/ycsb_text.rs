//! Runs in YCSB's terms: `[READ]`, `[UPDATE]` ..., and throughput as YCSB counts it; as a table for people, and as
//! lines that YCSB prints.
//!
//! Reads summaries, makes text. Latencies of a series are of successes: service times under its own name, response
//! times, where a schedule gives them, as `Intended-<OP>`. Failures have a column of the table, and lines
//! `<OP>-FAILED`; run time and throughput (`[OVERALL]`) have them in. A read-modify-write stands in its own series
//! and, with its parts, in READ and UPDATE; in the throughput it counts once.

use std::fmt::Write;

use taillight_core::{LatencyKind, OpKind};
use taillight_report::table::{Cell, Table};
use taillight_rundir::Summary;
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::{Totals, VerdictStatus};

/// Operations with YCSB's names, in its order.
const NAMES: [(OpKind, &str); 5] = [
    (OpKind::Get, "READ"),
    (OpKind::Update, "UPDATE"),
    (OpKind::Insert, "INSERT"),
    (OpKind::Scan, "SCAN"),
    (OpKind::Rmw, "READ-MODIFY-WRITE"),
];

/// Percentiles YCSB prints: each with its name in lines. The table has 99.9 % besides.
const PERCENTILES: [(&str, &str); 3] = [
    ("50", "50thPercentileLatency(us)"),
    ("95", "95thPercentileLatency(us)"),
    ("99", "99thPercentileLatency(us)"),
];

/// A run of the suite with its name.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadRun<'a> {
    /// What it is called.
    pub name: &'a str,
    pub summary: &'a Summary,
}

impl WorkloadRun<'_> {
    /// Operations as YCSB counts them: a read-modify-write is one, failures included.
    pub fn operations(&self) -> u64 {
        let of = |op: OpKind| self.summary.ops.get(&op);
        let count = |op| of(op).map_or(0, |t| t.count);
        let parts = NAMES[..4].iter().map(|(op, _)| count(*op)).sum::<u64>();
        if !self.summary.requests.is_empty() {
            return parts + count(OpKind::Rmw);
        }
        // Gets and updates of runs of earlier versions hold those of read-modify-writes.
        // A whole one brought a read and an update, as did one whose update failed; one whose read failed brought the
        // read alone.
        let whole = of(OpKind::Rmw).map_or(0, |t| t.count - t.errors);
        let half = of(OpKind::Rmw).map_or(0, |t| t.errors);
        let failed_updates = of(OpKind::Update).map_or(0, |t| t.errors);
        parts.saturating_sub(whole + half.min(failed_updates))
    }

    /// Its name, marked `(partial)` when it ended early and `(failed)` when nothing useful was measured: its figures
    /// are not those of a workload.
    pub fn title(&self) -> String {
        match self.summary.verdict.status {
            VerdictStatus::Partial => format!("{} (partial)", self.name),
            VerdictStatus::Failed => format!("{} (failed)", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Measured time, seconds.
    pub fn seconds(&self) -> f64 {
        self.summary.totals.duration_ns as f64 / 1e9
    }

    /// Operations a second by YCSB's count, failures included.
    pub fn throughput(&self) -> f64 {
        self.operations() as f64 / self.seconds().max(1e-9)
    }
}

/// One table over all runs: for each a row `[OVERALL]` with operations and rate, then a row for each of its series.
/// Failures have a column only where there are any.
pub fn table(runs: &[WorkloadRun<'_>]) -> Table {
    let figures = ["ops", "ops/s", "mean", "p50", "p95", "p99", "p99.9", "max", "failed"];
    let mut table = Table::new("ycsb", "In YCSB's terms, of successes", &["series, times in us"]);
    table.columns.extend(figures.map(str::to_owned));
    table.note = Some("A read-modify-write is one operation.".to_owned());
    for run in runs {
        let mut overall = vec![
            format!("{} [OVERALL]", run.title()),
            run.operations().to_string(),
            format!("{:.0}", run.throughput()),
        ];
        overall.resize(FAILED, String::new());
        overall.push(run.summary.errors.count.to_string());
        table.rows.push(overall.into_iter().map(Cell::new).collect());
        for (name, totals) in series(run) {
            let response = totals.latencies.get(LatencyKind::Response);
            let intended = response.map(|it| row(&format!("Intended-{name}"), totals, it));
            let service = row(name, totals, &totals.latencies.service);
            let rows = intended.into_iter().chain([service]);
            table.rows.extend(rows.map(|row| row.into_iter().map(Cell::new).collect()));
        }
    }
    if runs.iter().all(|run| run.summary.errors.count == 0) {
        table.columns.truncate(FAILED);
        table.rows.iter_mut().for_each(|row| row.truncate(FAILED));
    }
    table
}

/// Lines of a run as YCSB prints them, for programs that read its output. A series without a success has no latencies;
/// a percentile that the summary does not have has no line.
pub fn lines(run: &WorkloadRun<'_>) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "[OVERALL], RunTime(ms), {:.3}", run.seconds() * 1e3);
    let _ = writeln!(out, "[OVERALL], Throughput(ops/sec), {}", run.throughput());
    for (name, totals) in series(run) {
        let ok = totals.count - totals.errors;
        if let Some(response) = totals.latencies.get(LatencyKind::Response).filter(|_| ok > 0) {
            latencies(&format!("Intended-{name}"), ok, response, &mut out);
        }
        if ok > 0 {
            latencies(name, ok, &totals.latencies.service, &mut out);
            let _ = writeln!(out, "[{name}], Return=OK, {ok}");
        }
        if totals.errors > 0 {
            let _ = writeln!(out, "[{name}-FAILED], Operations, {}", totals.errors);
            for (status, count) in failures(run, name) {
                let _ = writeln!(out, "[{name}-FAILED], Return={status}, {count}");
            }
        }
    }
    out
}

/// The series of a run in YCSB's order, those with an operation: what the target was asked, where read-modify-writes
/// make that more than the operations of the mix.
fn series<'a>(run: &'a WorkloadRun<'_>) -> impl Iterator<Item = (&'static str, &'a Totals)> {
    let of = |op| run.summary.requests.get(op).or_else(|| run.summary.ops.get(op));
    NAMES
        .iter()
        .filter_map(move |(op, name)| Some((*name, of(op)?)))
        .filter(|(_, totals)| totals.count > 0)
}

/// Writes the lines of one series: how many operations succeeded, and what the summary has of their latencies.
fn latencies(name: &str, operations: u64, latency: &Latency, out: &mut String) {
    let us = |ns: f64| ns / 1e3;
    let mut line = |measure: &str, value: String| {
        let _ = writeln!(out, "[{name}], {measure}, {value}");
    };
    line("Operations", operations.to_string());
    let known = [
        ("AverageLatency(us)", latency.mean_ns),
        ("MinLatency(us)", latency.min_ns.map(|ns| ns as f64)),
        ("MaxLatency(us)", latency.max_ns.map(|ns| ns as f64)),
    ];
    for (measure, ns) in known {
        if let Some(ns) = ns {
            line(measure, us(ns).to_string());
        }
    }
    for (p, measure) in PERCENTILES {
        if let Some(ns) = percentile(latency, p) {
            line(measure, us(ns as f64).to_string());
        }
    }
}

/// Failures of a series by YCSB's word for their status, counted; `ERROR` for what YCSB has no word of its own for.
fn failures(run: &WorkloadRun<'_>, name: &str) -> Vec<(&'static str, u64)> {
    let op = NAMES.iter().find(|(_, n)| *n == name).map(|(op, _)| *op);
    let mut found: Vec<(&'static str, u64)> = Vec::new();
    let kinds = run.summary.errors.kinds.iter();
    for kind in kinds.filter(|k| Some(k.op.request()) == op) {
        let status = match kind.status {
            -6 => "NOT_FOUND",
            -3 => "UNEXPECTED_STATE",
            _ => "ERROR",
        };
        match found.iter_mut().find(|(s, _)| *s == status) {
            Some((_, count)) => *count += kind.count,
            None => found.push((status, kind.count)),
        }
    }
    found
}

/// A percentile of a summary, ns; `None` where it was not asked for, or too few I/Os resolve it.
fn percentile(latency: &Latency, p: &str) -> Option<u64> {
    latency.percentiles.iter().find(|at| at.p == p).and_then(|at| at.ns)
}

/// The column of failures, the last one.
const FAILED: usize = 9;

/// A time in microseconds as text: below 1,000 with one digit behind the point, from there on whole.
fn micros(ns: f64) -> String {
    match ns / 1e3 {
        us if us < 999.95 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// The row of one series in the table; `-` for what the summary does not have.
fn row(name: &str, totals: &Totals, latency: &Latency) -> Vec<String> {
    let time = |ns: Option<f64>| ns.map_or("-".to_owned(), micros);
    let at = |p: &str| time(percentile(latency, p).map(|ns| ns as f64));
    vec![
        format!("  [{name}]"),
        (totals.count - totals.errors).to_string(),
        format!("{:.0}", totals.iops),
        time(latency.mean_ns),
        at("50"),
        at("95"),
        at("99"),
        at("99.9"),
        time(latency.max_ns.map(|ns| ns as f64)),
        totals.errors.to_string(),
    ]
}
