//! Repetitions in words and tables, on the console and in the report.

use taillight_report::format::{self, count, duration};
use taillight_report::table::{Cell, Table};
use taillight_rundir::repeat::{RepeatReport, Repetition};
use taillight_stats::SeriesSummary;

use super::FOR_INTERVAL;

/// A figure: its name in `repeat.json`, its heading, and how it is read and shown.
pub struct RepeatFigure {
    pub name: &'static str,
    heading: &'static str,
    pub of: fn(&Repetition) -> Option<f64>,
    show: fn(f64) -> String,
}

/// Every figure, in the order it is shown.
pub const FIGURES: [RepeatFigure; 5] = [
    RepeatFigure { name: "iops", heading: "IOPS", of: |r| Some(r.iops), show: format::rate },
    RepeatFigure { name: "p50_ns", heading: "50 %", of: |r| number(r.p50_ns), show: time },
    RepeatFigure { name: "p99_ns", heading: "99 %", of: |r| number(r.p99_ns), show: time },
    RepeatFigure { name: "p999_ns", heading: "99.9 %", of: |r| number(r.p999_ns), show: time },
    RepeatFigure { name: "max_ns", heading: "max", of: |r| number(r.max_ns), show: time },
];

fn number(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64)
}

fn time(ns: f64) -> String {
    duration(ns)
}

/// How many repetitions there are, and what lies between them.
pub fn text(all: &RepeatReport, virtual_time: bool) -> String {
    let mut text = format!(
        "{} of {} repetitions, all with seed {}: the same operations in the same order. ",
        all.runs.len(),
        all.asked,
        all.seed
    );
    let gaps: Vec<f64> = all.runs.iter().filter_map(|r| r.gap_ns.map(|g| g as f64)).collect();
    match (all.one_clock, SeriesSummary::of(&gaps)) {
        (false, _) if virtual_time => {
            text.push_str("On virtual time each begins at 0; there are no gaps.");
        }
        (false, _) => text.push_str(
            "The machine was started anew between some of them: these share no clock, and the gap \
             between them is not known.",
        ),
        (true, None) => {}
        (true, Some(gap)) => text.push_str(&format!(
            "Between them lie {} to {} without load: the end of one and the start of the next.",
            time(gap.min),
            time(gap.max)
        )),
    }
    text
}

/// The heading of the console's table of repetitions.
pub fn header() -> String {
    row(&headings())
}

/// A repetition's line of the console's table.
pub fn line(r: &Repetition) -> String {
    row(&cells(r))
}

fn headings() -> Vec<String> {
    let mut all = vec!["run".to_owned(), "gap".to_owned()];
    all.extend(FIGURES.iter().map(|f| f.heading.to_owned()));
    all.extend(["errors".to_owned(), "status".to_owned()]);
    all
}

fn cells(r: &Repetition) -> Vec<String> {
    let mut all = vec![r.number.to_string(), r.gap_ns.map_or("-".to_owned(), |ns| time(ns as f64))];
    let shown = |f: &RepeatFigure| (f.of)(r).map_or("-".to_owned(), f.show);
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

/// The repetitions, for the report.
pub fn runs_table(all: &RepeatReport) -> Table {
    let mut table = Table::new("repetitions", "Repetitions", &[]);
    table.columns = headings();
    let row = |r: &Repetition| cells(r).into_iter().map(Cell::new).collect();
    table.rows = all.runs.iter().map(row).collect();
    table.note = Some(
        "Response times in a run with a rate, else service times. Gap: from the end of one, drain \
         included, to the first measured moment of the next."
            .to_owned(),
    );
    table
}

/// The spread of each figure.
pub fn spread_table(all: &RepeatReport) -> Table {
    let columns = ["figure", "median", "min", "max", "95 % of the median"];
    let mut table = Table::new("spread", "Spread over the repetitions", &columns);
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
    table.note = (whole < FOR_INTERVAL).then(|| {
        format!(
            "An interval of the median needs {FOR_INTERVAL} complete repetitions; here are {whole}."
        )
    });
    table
}
