//! Percentiles and intervals as CSV.

use std::fmt::Write;

use taillight_rundir::latency::Latency;
use taillight_rundir::summary::Totals;

use crate::model::AnalysedRun;

/// Header of the percentiles.
pub const PERCENTILES: &str = "run,set,measure,percentile,ns,lo_ns,hi_ns,resolved,needs,count,source,\
     bound_ns,effective\n";
/// Header of the intervals.
pub const INTERVALS: &str = "run,workload,op,start_s,length_s,ops,errors,bytes,mean_ns,p50_ns,p99_ns,p999_ns,max_ns,\
     response_p99_ns,backlog,depth_mean\n";

/// The percentiles that the plan asks for, of each kind of latency: of all I/Os, of each operation, and of each
/// operation of each workload.
pub fn percentiles_csv(runs: &[AnalysedRun]) -> String {
    let mut out = PERCENTILES.to_owned();
    for run in runs {
        let mut rows = |set: &str, totals: &Totals| {
            for (kind, latency) in totals.latencies.iter() {
                latency_rows(&mut out, &run.label, set, kind.name(), latency);
            }
        };
        rows("all", &run.summary.totals);
        for (op, totals) in &run.summary.ops {
            rows(op.name(), totals);
        }
        for workload in &run.summary.workloads {
            for (op, totals) in &workload.ops {
                rows(&format!("{}/{}", workload.name, op.name()), totals);
            }
        }
    }
    out
}

fn latency_rows(out: &mut String, run: &str, set: &str, measure: &str, latency: &Latency) {
    let source = match latency.source {
        taillight_rundir::LatencySource::Capture => "capture",
        taillight_rundir::LatencySource::Histogram => "histogram",
        taillight_rundir::LatencySource::Imported => "imported",
    };
    let number = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
    for it in &latency.percentiles {
        let needs = Some(it.needs).filter(|n| *n != u64::MAX);
        let _ = writeln!(
            out,
            "{},{},{measure},{},{},{},{},{},{},{},{source},{},{}",
            csv(run),
            csv(set),
            it.p,
            number(it.told_ns()),
            number(it.lo_ns),
            number(it.hi_ns),
            it.resolved,
            number(needs),
            latency.count,
            number(it.bound_ns),
            number(it.effective)
        );
    }
}

/// The reporting intervals of measure and drain; `start_s` counts from the start of measuring.
pub fn intervals_csv(runs: &[AnalysedRun]) -> String {
    let mut out = INTERVALS.to_owned();
    for run in runs {
        let analysis = &run.analysis;
        for row in &analysis.intervals {
            let plan = analysis.manifest.plan.workloads.get(usize::from(row.workload));
            let number = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
            let _ = writeln!(
                out,
                "{},{},{},{:.9},{:.9},{},{},{},{},{},{},{},{},{},{},{:.3}",
                csv(&run.label),
                csv(plan.map_or("", |w| w.name.as_str())),
                row.op.name(),
                row.start_ns.saturating_sub(analysis.start_ns) as f64 / 1e9,
                row.length_ns as f64 / 1e9,
                row.ops,
                row.errors,
                row.bytes,
                row.mean_ns.map_or(String::new(), |v| format!("{v:.1}")),
                number(row.p50_ns),
                number(row.p99_ns),
                number(row.p999_ns),
                number(row.max_ns),
                number(row.response_p99_ns),
                number(row.backlog),
                row.depth_mean
            );
        }
    }
    out
}

/// A field in quotes when it needs them. A leading sign that a spreadsheet would calculate with
/// is made text.
pub fn csv(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        assert_eq!(csv("a,b\"c"), "\"a,b\"\"c\"");
        assert_eq!(csv("=1+1"), "'=1+1");
    }
}
