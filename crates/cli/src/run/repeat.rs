//! `run.repeat = N`: the same plan N times back to back, each in a run directory of its own, with
//! one report on one time axis and the spread of its figures.
//!
//! Every repetition has the plan's seed: the same operations in the same order.

use taillight_core::exit::Exit;
use taillight_core::{Error, Percentile, Result};
use taillight_report::ReportContext;
use taillight_report::format::{self, Script, count, duration};
use taillight_report::table::{Cell, Table};
use taillight_rundir::repeat::{FigureSpread, RepeatReport, Repetition};
use taillight_rundir::{RunDir, RunStatus, SCHEMA_VERSION};
use taillight_suite::repeat::{FOR_INTERVAL, spread};

use super::imported::worse;
use super::series::{self, Series};
use super::{Done, Order};
use crate::{output, problem};

/// A figure: its name in `repeat.json`, its heading, and how it is read and shown.
struct Figure {
    name: &'static str,
    heading: &'static str,
    of: fn(&Repetition) -> Option<f64>,
    show: fn(f64) -> String,
}

const FIGURES: [Figure; 5] = [
    Figure {
        name: "iops",
        heading: "IOPS",
        of: |r| Some(r.iops),
        show: format::rate,
    },
    Figure {
        name: "p50_ns",
        heading: "50 %",
        of: |r| r.p50_ns.map(|ns| ns as f64),
        show: time,
    },
    Figure {
        name: "p99_ns",
        heading: "99 %",
        of: |r| r.p99_ns.map(|ns| ns as f64),
        show: time,
    },
    Figure {
        name: "p999_ns",
        heading: "99.9 %",
        of: |r| r.p999_ns.map(|ns| ns as f64),
        show: time,
    },
    Figure {
        name: "max_ns",
        heading: "max",
        of: |r| r.max_ns.map(|ns| ns as f64),
        show: time,
    },
];

fn time(ns: f64) -> String {
    duration(ns, Script::Plain)
}

/// Runs the repetitions. The exit code is the worst one.
///
/// # Errors
/// As a single run, when the first one cannot begin.
pub fn run(order: &Order<'_>) -> Result<Done> {
    let plan = order.plan;
    let mut series = Series::new(plan)?;
    let mut each = plan.clone();
    series::ask_for(
        &mut each,
        &[50_00, 99_00, 99_90].map(Percentile::hundredths),
    );
    let mut all = RepeatReport {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        name: plan.run.name.clone(),
        status: RunStatus::Running,
        asked: plan.run.repeat,
        seed: plan.run.seed,
        one_clock: true,
        runs: Vec::new(),
        spread: Vec::new(),
    };
    output::line(&format!(
        "{} repetitions back to back, each with seed {}: the same operations in the same order",
        plan.run.repeat, plan.run.seed
    ));
    output::line(&row(&headings()));
    let width = plan.run.repeat.to_string().len();
    let mut worst = Exit::Ok;
    for number in 1..=plan.run.repeat {
        let name = format!("repeat-{number:0width$}");
        let done = match series.run(order, &each, &name) {
            Err(e) if all.runs.is_empty() => return Err(e),
            Err(e) => {
                worst = worse(worst, problem::show(&e));
                break;
            }
            Ok(done) => done,
        };
        worst = worse(worst, done.exit);
        if done.path.is_some() {
            add(&mut all, &series, &done, number, &name)?;
            let last = all.runs.last().map(|r| row(&cells(r)));
            output::line(&last.unwrap_or_default());
            all.write(series.path())?;
        }
        if series::ends(done.exit) || order.signals.exit().is_some() {
            break;
        }
    }
    if let Some(exit) = order.signals.exit() {
        worst = exit;
    }
    finish(all, &series)?;
    Ok(Done {
        exit: worst,
        path: Some(series.path().to_owned()),
        summary: None,
    })
}

/// Adds a repetition that measured something.
fn add(
    all: &mut RepeatReport,
    series: &Series,
    done: &Done,
    number: u32,
    name: &str,
) -> Result<()> {
    let dir = RunDir::open(&series.path().join(name))?;
    let manifest = dir.manifest();
    let phases = || {
        let measured = |n: &str| n == "measure" || n == "drain";
        manifest.phases.iter().filter(move |p| measured(&p.name))
    };
    let start_ns = phases().map(|p| p.start_ns).min().unwrap_or_default();
    let end_ns = phases().filter_map(|p| p.end_ns).max().unwrap_or(start_ns);
    all.one_clock = manifest.clock.source != "virtual";
    let before = all.runs.last().map(|r| r.end_ns);
    let gap_ns = before.filter(|_| all.one_clock).map(|end| start_ns - end);
    let totals = done.summary.as_ref().map(|s| &s.totals);
    let latency = totals.map(|t| t.latencies.main());
    let at = |p: &str| series::percentile(&latency?.percentiles, p)?.ns;
    all.runs.push(Repetition {
        number,
        dir: name.to_owned(),
        run_id: manifest.run_id.clone(),
        status: manifest.status,
        start_ns,
        end_ns,
        gap_ns,
        count: totals.map_or(0, |t| t.count),
        errors: totals.map_or(0, |t| t.errors),
        iops: totals.map_or(0.0, |t| t.iops),
        p50_ns: at("50"),
        p99_ns: at("99"),
        p999_ns: at("99.9"),
        max_ns: latency.and_then(|l| l.max_ns),
    });
    all.spread = spreads(&all.runs);
    Ok(())
}

/// The spread of every figure over the repetitions that came to their end.
fn spreads(runs: &[Repetition]) -> Vec<FigureSpread> {
    let whole = || runs.iter().filter(|r| r.status == RunStatus::Complete);
    let of = |figure: &Figure| {
        let values: Vec<f64> = whole().filter_map(figure.of).collect();
        let it = spread(&values)?;
        Some(FigureSpread {
            figure: figure.name.to_owned(),
            count: u32::try_from(it.count).ok()?,
            min: it.min,
            median: it.median,
            max: it.max,
            median_lo: it.interval.map(|i| i.0),
            median_hi: it.interval.map(|i| i.1),
        })
    };
    FIGURES.iter().filter_map(of).collect()
}

/// Table, report, `repeat.json`.
fn finish(mut all: RepeatReport, series: &Series) -> Result<()> {
    if all.runs.is_empty() {
        return Ok(());
    }
    let asked = usize::try_from(all.asked).map_err(|e| Error::internal("a count").source(e))?;
    let whole = all.runs.iter().all(|r| r.status == RunStatus::Complete);
    all.status = match whole && all.runs.len() == asked {
        true => RunStatus::Complete,
        false => RunStatus::Partial,
    };
    all.write(series.path())?;
    let spread = spread_table(&all);
    let mut rows = vec![spread.columns.clone()];
    let texts = |r: &Vec<Cell>| r.iter().map(|c| c.text.clone()).collect();
    rows.extend(spread.rows.iter().map(texts));
    output::line(&format!("\n{}", output::columns(&rows).trim_end()));
    if let Some(note) = &spread.note {
        output::line(note);
    }
    output::line(&format!("\n{}", text(&all)));
    let dirs: Vec<String> = all.runs.iter().map(|r| r.dir.clone()).collect();
    let frame = ReportContext {
        title: Some(format!("{}: {} repetitions", all.name, all.runs.len())),
        text: text(&all),
        tables: vec![runs_table(&all), spread],
        one_clock: all.one_clock,
        search: None,
        summary: None,
    };
    series.report(&dirs, frame)
}

fn text(all: &RepeatReport) -> String {
    let mut text = format!(
        "{} of {} repetitions, all with seed {}: the same operations in the same order. ",
        all.runs.len(),
        all.asked,
        all.seed
    );
    let gaps: Vec<f64> = all
        .runs
        .iter()
        .filter_map(|r| r.gap_ns.map(|g| g as f64))
        .collect();
    match (all.one_clock, spread(&gaps)) {
        (false, _) => text.push_str("On virtual time each begins at 0; there are no gaps."),
        (true, None) => {}
        (true, Some(gap)) => text.push_str(&format!(
            "Between them lie {} to {} without load: the end of one and the start of the next.",
            time(gap.min),
            time(gap.max)
        )),
    }
    text
}

fn headings() -> Vec<String> {
    let mut all = vec!["run".to_owned(), "gap".to_owned()];
    all.extend(FIGURES.iter().map(|f| f.heading.to_owned()));
    all.extend(["errors".to_owned(), "status".to_owned()]);
    all
}

fn cells(r: &Repetition) -> Vec<String> {
    let mut all = vec![
        r.number.to_string(),
        r.gap_ns.map_or("-".to_owned(), |ns| time(ns as f64)),
    ];
    let shown = |f: &Figure| (f.of)(r).map_or("-".to_owned(), f.show);
    all.extend(FIGURES.iter().map(shown));
    all.push(count(r.errors));
    all.push(format!("{:?}", r.status).to_lowercase());
    all
}

/// A line whose columns stand below each other.
fn row(cells: &[String]) -> String {
    let mut line = format!("{:>4}", cells.first().map_or("", String::as_str));
    for cell in cells.iter().skip(1) {
        line.push_str(&format!(" {cell:>10}"));
    }
    line
}

fn table(id: &'static str, title: &str, columns: Vec<String>) -> Table {
    Table {
        id,
        title: title.to_owned(),
        note: None,
        columns,
        rows: Vec::new(),
        detail: false,
        words: false,
    }
}

fn runs_table(all: &RepeatReport) -> Table {
    let mut table = table("repetitions", "Repetitions", headings());
    let row = |r: &Repetition| cells(r).into_iter().map(Cell::new).collect();
    table.rows = all.runs.iter().map(row).collect();
    table.note = Some(
        "Response times in a run with a rate, else service times. Gap: from the end of one, drain \
         included, to the first measured moment of the next."
            .to_owned(),
    );
    table
}

fn spread_table(all: &RepeatReport) -> Table {
    let columns = ["figure", "median", "min", "max", "95 % of the median"];
    let columns = columns.map(str::to_owned).to_vec();
    let mut table = table("spread", "Spread over the repetitions", columns);
    for figure in &FIGURES {
        let Some(s) = all.spread.iter().find(|s| s.figure == figure.name) else {
            continue;
        };
        let interval = s.median_lo.zip(s.median_hi);
        let interval = interval.map(|(lo, hi)| {
            let show = figure.show;
            format!("{} to {}", show(lo), show(hi))
        });
        table.rows.push(vec![
            Cell::new(figure.heading),
            Cell::new((figure.show)(s.median)),
            Cell::new((figure.show)(s.min)),
            Cell::new((figure.show)(s.max)),
            Cell::new(interval.unwrap_or("-".to_owned())),
        ]);
    }
    let whole = all.spread.iter().map(|s| s.count).max().unwrap_or(0);
    table.note = (whole < FOR_INTERVAL as u32).then(|| {
        format!(
            "An interval of the median needs {FOR_INTERVAL} complete repetitions; here are {whole}."
        )
    });
    table
}
