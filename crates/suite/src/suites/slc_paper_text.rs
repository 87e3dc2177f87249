//! The study of SLC factors (Sliding Latency Coverage) in words and tables. SLC1 is how far latencies spread below the
//! median of a run, SLC2 how far above it.

use taillight_core::Result;
use taillight_core::units::ByteSize;
use taillight_report::table::{Cell, Table, Tone};
use taillight_report::{ReportContext, ReportSummary, RunGroup, format};
use taillight_rundir::slc_paper::SlcPaperRun;
use taillight_rundir::summary::SlcPair;
use taillight_rundir::{RunDir, names};

use super::slc_paper::{Side, SlcPaperMethod};
use crate::method::{SeriesReport, SeriesView};

/// The report over the runs so far. Errors: `Corrupt` or `Unavailable` when a run directory cannot
/// be read.
pub(super) fn report(method: &SlcPaperMethod, series: &SeriesView<'_>) -> Result<SeriesReport> {
    let rows = &method.report.runs;
    let table = factors(rows);
    let systems = systems(method, series)?;
    let after = format!("\n{}", table.to_text().trim_end());
    Ok(SeriesReport {
        context: ReportContext {
            title: Some("SLC factors: write and read, one writer and one reader".to_owned()),
            text: format!(
                "The study that introduced the SLC factors, on this machine ({} runs of at most \
                 {}). Read the medians first: the factors are ratios and say nothing about speed.",
                rows.len(),
                method.time()
            ),
            tables: vec![table, systems],
            summary: Some(ReportSummary {
                charts: vec!["slc".to_owned()],
                groups: groups(method),
                links: rows.iter().map(|row| format!("{}/{}", row.dir, names::REPORT)).collect(),
            }),
            ..ReportContext::default()
        },
        runs: rows.iter().map(|row| series.dir.join(&row.dir)).collect(),
        after,
        files: vec![("Numbers", names::SLC_PAPER)],
        ..SeriesReport::default()
    })
}

/// A figure per system and operation, a line per size.
fn groups(method: &SlcPaperMethod) -> Vec<RunGroup> {
    let rows = &method.report.runs;
    let mut groups = Vec::new();
    for system in &method.suite.systems {
        for side in Side::BOTH {
            let of = |row: &SlcPaperRun| row.system == system.name && row.op == side.name();
            let runs: Vec<usize> = (0..rows.len()).filter(|i| of(&rows[*i])).collect();
            if !runs.is_empty() {
                let title = format!("{}, {}", system.title, side.name());
                groups.push(RunGroup { title, runs, labels: Vec::new() });
            }
        }
    }
    groups
}

/// The factors of every run beside the paper's.
fn factors(rows: &[SlcPaperRun]) -> Table {
    // The record size stands in the first cell, behind system and operation, and the title is short: all columns fit on
    // a line of a terminal.
    let columns = ["", "records", "50 %", "99.99 %", "SLC1", "SLC2", "as SBK", "paper"];
    let cells = |row: &SlcPaperRun| {
        let time = |ns: Option<u64>| match ns {
            Some(ns) => Cell::new(format::duration_ns(ns)),
            None => Cell::toned("-", Tone::Dim),
        };
        let factor = |f: Option<f64>| Cell::new(f.map_or("undefined".to_owned(), format::factor));
        let pair = |p: SlcPair| format!("{}, {}", p.slc1, p.slc2);
        let doubt = if row.doubt { " ?" } else { "" };
        let paper = row.paper.zip(row.figure);
        let paper = paper
            .map_or("-".to_owned(), |(p, figure)| format!("{}{doubt} (Fig. {figure})", pair(p)));
        vec![
            Cell::new(format!("{} {} {}", row.system, row.op, ByteSize(row.size))),
            match row.complete {
                true => Cell::new(format::count(row.count)),
                false => {
                    Cell::toned(format!("{} (ended early)", format::count(row.count)), Tone::Bad)
                }
            },
            time(row.p50_ns),
            time(row.p9999_ns),
            factor(row.slc1),
            factor(row.slc2),
            Cell::new(row.sbk21.map_or("-".to_owned(), pair)),
            Cell::new(paper),
        ]
    };
    let mut table = Table::new("slc-paper", "SLC, the paper's beside", &columns);
    table.note = Some(
        "SLC1 and SLC2 are real-valued; \"as SBK\" are the integers SBK would print for these \
             latencies in ns, the kind the paper prints. ?: the paper's own curve does not allow \
             the number. -: too few records to tell."
            .to_owned(),
    );
    table.rows = rows.iter().map(cells).collect();
    table
}

/// The systems that were measured, each with its driver, its version, and its library or place.
fn systems(method: &SlcPaperMethod, series: &SeriesView<'_>) -> Result<Table> {
    let mut rows = Vec::new();
    for system in &method.suite.systems {
        let of = |row: &&SlcPaperRun| row.system == system.name;
        let Some(first) = method.report.runs.iter().find(of) else {
            continue;
        };
        let dir = RunDir::open(&series.dir.join(&first.dir))?;
        let facts = dir.manifest().environment.get("driver");
        let fact = |names: &[&str]| {
            let found = names.iter().find_map(|n| facts?.get(*n)?.as_str());
            Cell::new(found.unwrap_or("-"))
        };
        rows.push(vec![
            Cell::new(system.title.clone()),
            Cell::new(system.driver.clone()),
            fact(&["store.version", "s3.server", "fs.type"]),
            fact(&["store.library", "s3.endpoints", "fs.options"]),
        ]);
    }
    let columns = ["system", "driver", "version", "library or place"];
    let mut table = Table::of_words("slc-systems", "What was measured", &columns);
    table.rows = rows;
    Ok(table)
}
