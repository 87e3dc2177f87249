//! Text files made from the same material: one function each, in one visible list.
//!
//! To add an export, write one function and add one line to [`TEXTS`]. Pages with charts are made
//! in `html`.

use std::fmt::Write;

use taillight_rundir::Summary;
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::Totals;

use crate::analyse::Analysis;
use crate::attribution::{Explanation, words};
use crate::format::Script;
use crate::model::{Model, Table, overview};

/// One run with everything renderers may use.
pub struct Run {
    /// Name shown, unique among the runs of a report.
    pub label: String,
    pub analysis: Analysis,
    /// What is said about it.
    pub summary: Summary,
    /// Why its tail is slow; absent when it was not traced.
    pub explanation: Option<Explanation>,
}

/// First line of the Markdown; no reader of the page sees it.
const MARKDOWN: &str = "<!-- Made by Taillight -->\n\n";
/// Header of the percentiles.
const PERCENTILES: &str = "run,set,measure,percentile,ns,lo_ns,hi_ns,resolved,needs,count,source\n";
/// Header of the intervals.
const INTERVALS: &str = "run,workload,op,start_s,length_s,ops,errors,bytes,mean_ns,p50_ns,p99_ns,p999_ns,max_ns,\
     response_p99_ns,backlog,depth_mean\n";

/// A text file of a report.
pub struct Text {
    pub file: &'static str,
    /// What the file begins with, whatever the runs: such a file may be made anew.
    pub head: &'static str,
    pub render: fn(&[Run]) -> String,
}

/// Every text file, in the order they are written.
pub const TEXTS: &[Text] = &[
    Text {
        file: "report.md",
        head: MARKDOWN,
        render: markdown,
    },
    Text {
        file: "percentiles.csv",
        head: PERCENTILES,
        render: percentiles_csv,
    },
    Text {
        file: "intervals.csv",
        head: INTERVALS,
        render: intervals_csv,
    },
];

/// The report as Markdown.
pub fn markdown(runs: &[Run]) -> String {
    let mut out = MARKDOWN.to_owned();
    if runs.len() > 1 {
        out.push_str("# Taillight report\n\n");
        let pairs: Vec<(String, &Summary)> =
            runs.iter().map(|r| (r.label.clone(), &r.summary)).collect();
        out.push_str(&markdown_table(&overview(&pairs, Script::Plain)));
    }
    for run in runs {
        let model = Model::new(&run.summary, Script::Plain);
        let level = if runs.len() > 1 { "##" } else { "#" };
        let _ = writeln!(out, "{level} {}\n", md(&run.label));
        let _ = writeln!(
            out,
            "**{}.** {}\n",
            model.verdict.word,
            md(&model.verdict.text)
        );
        for reason in model.verdict.reasons.iter().skip(1) {
            let _ = writeln!(out, "- {}", md(reason));
        }
        if model.verdict.reasons.len() > 1 {
            out.push('\n');
        }
        if let Some(explanation) = &run.explanation {
            out.push_str("### Why the tail is slow\n\n");
            for line in words::sentences(explanation, Script::Plain) {
                let _ = writeln!(out, "{}\n", md(&line));
            }
        }
        for table in &model.tables {
            out.push_str(&markdown_table(table));
        }
        for fact in &model.facts {
            let _ = writeln!(out, "- {}: {}", fact.label, md(&fact.text));
        }
        let command = &run.analysis.manifest.command;
        // A fence longer than any run of backticks inside.
        let fence = "`".repeat(3.max(longest_ticks(command) + 1));
        let _ = writeln!(out, "\n{fence}\n{command}\n{fence}\n");
    }
    out
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

fn markdown_table(table: &Table) -> String {
    let mut out = format!("### {}\n\n", table.title);
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(table.columns.iter().map(|c| md(c)).collect()));
    let rule = if table.words { "---" } else { "---:" };
    let rules = (0..table.columns.len()).map(|i| if i == 0 { "---" } else { rule }.to_owned());
    out.push_str(&row(rules.collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|c| md(c.text.trim())).collect()));
    }
    if let Some(note) = &table.note {
        let _ = write!(out, "\n{}\n", md(note));
    }
    out.push('\n');
    out
}

/// Text that Markdown would read as markup, made plain.
fn md(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\r' | '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Every percentile of every set of I/Os.
pub fn percentiles_csv(runs: &[Run]) -> String {
    let mut out = PERCENTILES.to_owned();
    for run in runs {
        let mut rows = |set: &str, totals: &Totals| {
            let measures = [
                ("response", &totals.response),
                ("wait", &totals.wait),
                ("sync", &totals.sync),
                ("end_to_end", &totals.end_to_end),
                ("queue", &totals.queue),
                ("after_issue", &totals.after_issue),
                ("first_byte", &totals.first_byte),
            ];
            latency_rows(&mut out, &run.label, set, "service", &totals.service);
            for (name, latency) in measures {
                if let Some(latency) = latency {
                    latency_rows(&mut out, &run.label, set, name, latency);
                }
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
    };
    let number = |v: Option<u64>| v.map_or(String::new(), |v| v.to_string());
    for it in &latency.percentiles {
        let needs = Some(it.needs).filter(|n| *n != u64::MAX);
        let _ = writeln!(
            out,
            "{},{},{measure},{},{},{},{},{},{},{},{source}",
            csv(run),
            csv(set),
            it.p,
            number(it.ns),
            number(it.lo_ns),
            number(it.hi_ns),
            it.resolved,
            number(needs),
            latency.count
        );
    }
}

/// The reporting intervals, as recorded.
pub fn intervals_csv(runs: &[Run]) -> String {
    let mut out = INTERVALS.to_owned();
    for run in runs {
        let analysis = &run.analysis;
        for row in &analysis.intervals {
            let plan = analysis
                .manifest
                .plan
                .workloads
                .get(usize::from(row.workload));
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
fn csv(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t']);
    let text = if formula {
        format!("'{text}")
    } else {
        text.to_owned()
    };
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
        assert_eq!(md("a|b <c> `d`"), "a\\|b &lt;c&gt; \\`d\\`");
        assert_eq!(longest_ticks("a``b`c"), 2);
    }
}
