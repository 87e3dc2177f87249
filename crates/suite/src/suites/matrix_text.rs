//! A matrix (a suite of phases that loop over fields of one job: see `matrix`) in words and tables, for `MatrixMethod`:
//! what is to come, each round, and what came of it.

use taillight_core::Result;
use taillight_core::job::PointOrder;
use taillight_core::units::readable;
use taillight_report::format::{count, counted, duration, percent, rate};
use taillight_report::table::{Cell, Table, Tone, width, wrap};
use taillight_report::{JudgedWindow, ReportContext, ReportPoint, ReportSummary, SteadyTrack};
use taillight_rundir::names;
use taillight_stats::SteadyRule;

use super::answers::{self, Answering};
use super::loops::length;
use super::matrix::MatrixSuite;
use super::matrix_method::{MatrixMethod, RunPart};
use super::operating_text::{self, PointChoice};
use super::recovery::{self, JudgedRecovery};
use super::sheet;
use super::steady::{SteadyOutcome, SteadyRounds};
use super::targets_text;
use crate::console_line::judged as judged_workloads;
use crate::figures::{of_totals, over_rounds as figures_over_rounds};
use crate::method::{Point, PointResult, SeriesReport, SeriesView};
use crate::saved::MOST_IN_FULL;

/// Figures of the table where the suite names none.
const FIGURES: [&str; 5] = ["iops", "p50_ns", "p99_ns", "p999_ns", "max_ns"];

/// Columns that words of the report take at most; lines before and between runs are left to the console.
const TERMINAL: usize = 80;

/// Charts of a page that links to its runs instead of showing each (`summary`).
const CHARTS: [&str; 6] = ["steady", "demand", "outstanding", "sweep", "sweep-heat", "points"];

/// Figures of the table over the points.
pub(super) fn figures(suite: &MatrixSuite) -> Vec<&str> {
    match suite.figures.is_empty() {
        true => FIGURES.to_vec(),
        false => suite.figures.iter().map(String::as_str).collect(),
    }
}

/// A figure in a fitting unit, by its name.
pub(super) fn figure(name: &str, value: f64) -> String {
    match name {
        name if name.ends_with("_ns") => duration(value),
        "bytes_per_s" => readable::bytes_per_s(value),
        "iops" => rate(value),
        "cpu_percent" => format!("{value:.1} %"),
        _ => count(value as u64),
    }
}

/// The unit of a figure as `series.json` has it, by its name.
fn unit(name: &str) -> &str {
    match name {
        name if name.ends_with("_ns") => "ns",
        "bytes_per_s" => "B/s",
        "iops" => "per s",
        "bytes" => "B",
        "cpu_percent" => "%",
        _ => "",
    }
}

pub(super) fn heading(name: &str) -> String {
    name.trim_end_matches("_ns").to_owned()
}

/// "a", or "a to b" where they differ.
fn between(least: String, most: String) -> String {
    if least == most { most } else { format!("{least} to {most}") }
}

/// What is said before the first point.
pub fn introduction(method: &MatrixMethod) -> Vec<String> {
    let (least, most) = method.remaining(&[]);
    let suite = &method.suite;
    let all = counted(most.points.into(), "run");
    let mut line = match least.points == most.points {
        true => all,
        false => format!("{} to {all}", count(least.points.into())),
    };
    let rounds = suite.phases.iter().map(|p| p.rounds).max().unwrap_or(1);
    if rounds > 1 {
        line.push_str(&format!(" in {rounds} rounds"));
    }
    if suite.phases.iter().any(|p| p.order == PointOrder::Shuffled) {
        line.push_str(&format!(", in an order drawn with seed {}", method.head.seed));
    }
    if most.ns > 0 {
        let about = if least == most { "about " } else { "" };
        let time = between(length(least.ns), length(most.ns));
        line.push_str(&format!(", {about}{time} of load"));
    }
    if most.open_ended > 0 {
        line.push_str(&format!(
            "; the time of {} of them depends on the target: they end by passes, bytes or operations",
            between(least.open_ended.to_string(), most.open_ended.to_string())
        ));
    }
    let mut lines = vec![line];
    if let Some(standard) = &suite.standard {
        lines.push(conformance(standard, &method.deviations));
        lines.extend(method.deviations.iter().map(|d| format!("  - {d}")));
    }
    lines
}

fn conformance(standard: &str, deviations: &[String]) -> String {
    match deviations.len() {
        0 => format!("As {standard} says, as far as this file states it."),
        n => format!("NOT CONFORMANT to {standard}: {}.", counted(n as u64, "deviation")),
    }
}

/// Where a point stands among those to come: "3 of 20 to 40, round 1 of at most 25".
pub fn progress(method: &MatrixMethod, done: &[PointResult], point: &Point) -> String {
    let left = method.remaining(done);
    let before = done.len() as u32;
    let mut most = left;
    (most.0.points, most.1.points) = (most.0.points + before, most.1.points + before);
    let all = between(most.0.points.to_string(), most.1.points.to_string());
    let mut text = format!("{} of {all}", done.len() + 1);
    let phase = method.points.iter().find(|p| p.point.id == point.id).map(|p| p.phase);
    if let Some(phase) = phase.and_then(|at| method.suite.phases.get(at)) {
        match &phase.steady {
            Some(steady) => {
                text.push_str(&format!(", round {} of at most {}", point.round, steady.max_rounds));
            }
            None if phase.rounds > 1 => {
                text.push_str(&format!(", round {} of {}", point.round, phase.rounds));
            }
            None => {}
        }
    }
    text
}

/// The figures of a complete round of a phase with `steady`; none where the last point ends no such round.
pub fn round_line(method: &MatrixMethod, done: &[PointResult]) -> Option<String> {
    let last = done.last()?;
    let phase = method.points.iter().find(|p| p.point.id == last.point.id)?.phase;
    let rounds = method.rounds(phase, done)?;
    if rounds.rounds != last.point.round {
        return None;
    }
    let one = |track: &SteadyTrack| {
        let (round, value) = *track.rounds.last()?;
        let value = value.map_or("no value".to_owned(), |v| figure(&track.figure, v));
        let judged = track.window.filter(|w| w.last == round);
        Some(match judged {
            Some(window) => format!("  round {round}: {value}; {}", judged_words(track, &window)),
            None => format!("  round {round}: {}: {value}", track.title),
        })
    };
    let mut lines: Vec<String> = rounds.tracks.iter().filter_map(one).collect();
    if rounds.outcome != SteadyOutcome::Unsettled {
        lines.push(format!("  {}", outcome(&method.suite.phases[phase].title(), &rounds)));
    }
    Some(lines.join("\n"))
}

/// How a phase with `steady` ended. `NotAchieved`: after the last round there may be. `Unsettled`: before, so that
/// steady state is not decided.
fn outcome(phase: &str, rounds: &SteadyRounds) -> String {
    let window = |last: u32| {
        let first = rounds.tracks.first().and_then(|t| t.window).map(|w| w.first);
        format!("rounds {} to {last}", first.unwrap_or(last))
    };
    match rounds.outcome {
        SteadyOutcome::Achieved(round) => {
            format!("{phase}: steady state at round {round} (window: {})", window(round))
        }
        SteadyOutcome::NotAchieved => {
            format!("{phase}: STEADY STATE NOT ACHIEVED in {} rounds", rounds.rounds)
        }
        SteadyOutcome::Unsettled => {
            format!(
                "{phase}: ended after {} rounds, before steady state was decided",
                rounds.rounds
            )
        }
    }
}

/// The window of rounds that was judged for steady state, in a sentence.
pub fn judged(track: &SteadyTrack, window: &JudgedWindow) -> String {
    format!("{}: {}", track.title, judged_words(track, window))
}

fn judged_words(track: &SteadyTrack, window: &JudgedWindow) -> String {
    let found = &window.found;
    let share = |excursion: f64| match found.average > 0.0 {
        true => percent(excursion / found.average),
        false => "?".to_owned(),
    };
    format!(
        "rounds {} to {}: average {}, data excursion {} (at most {}), slope excursion {} (at most \
         {}): {}",
        window.first,
        window.last,
        figure(&track.figure, found.average),
        share(found.data_excursion),
        percent(track.rule.data_excursion),
        share(found.slope_excursion),
        percent(track.rule.slope_excursion),
        if found.steady { "steady" } else { "not steady" }
    )
}

/// The best linear fit over round numbers, in five digits.
fn fit(slope: f64, intercept: f64) -> String {
    let digits = 5 - (intercept.abs().max(slope.abs()).max(1.0).log10().floor() as i32 + 1);
    let digits = digits.max(0) as usize;
    let shown = |value: f64| format!("{value:.digits$}");
    let rise = shown(slope.abs());
    let sign = if slope < 0.0 && rise != shown(0.0) { "-" } else { "+" };
    format!("{} {sign} {rise} x round", shown(intercept))
}

/// The table by which steady state is determined: a column for each figure that was judged.
fn determination(found: &[(String, SteadyRounds)]) -> Option<Table> {
    let judged = |(_, rounds): &(String, SteadyRounds)| {
        let outcome = rounds.outcome;
        let with = move |t: SteadyTrack| Some((t.window?, t, outcome));
        rounds.tracks.clone().into_iter().filter_map(with)
    };
    let all: Vec<(JudgedWindow, SteadyTrack, SteadyOutcome)> =
        found.iter().flat_map(judged).collect();
    if all.is_empty() {
        return None;
    }
    let mut table = Table::new("steady", "Steady state determination", &["window judged last"]);
    table.columns.extend(all.iter().map(|(_, track, _)| track.title.clone()));
    let mut row = |name: &str, of: &dyn Fn(&JudgedWindow, &SteadyTrack) -> String| {
        let mut cells = vec![Cell::new(name)];
        cells.extend(all.iter().map(|(window, track, _)| Cell::new(of(window, track))));
        table.rows.push(cells);
    };
    let show = |track: &SteadyTrack, value: f64| figure(&track.figure, value);
    row("rounds", &|w, _| format!("{} to {}", w.first, w.last));
    row("average", &|w, t| show(t, w.found.average));
    row("data excursion allowed", &|w, t| show(t, t.rule.data_excursion * w.found.average));
    row("data excursion measured", &|w, t| show(t, w.found.data_excursion));
    row("slope excursion allowed", &|w, t| show(t, t.rule.slope_excursion * w.found.average));
    row("slope excursion measured", &|w, t| show(t, w.found.slope_excursion));
    row("best linear fit", &|w, t| {
        format!("{} {}", fit(w.found.slope, w.found.intercept), unit(&t.figure))
    });
    row("correlation", &|w, _| {
        w.found.correlation.map_or("undefined".to_owned(), |r| format!("{r:.4}"))
    });
    let verdict = |(window, _, outcome): &(JudgedWindow, SteadyTrack, SteadyOutcome)| {
        let achieved = matches!(outcome, SteadyOutcome::Achieved(_));
        match (achieved, window.found.steady) {
            (true, _) => Cell::toned("steady state", Tone::Good),
            (false, true) => Cell::toned("steady, others not", Tone::Warn),
            (false, false) => Cell::toned("NOT ACHIEVED", Tone::Bad),
        }
    };
    let mut last = vec![Cell::new("verdict")];
    last.extend(all.iter().map(verdict));
    table.rows.push(last);
    table.note = Some(
        "SNIA's rule: over the window, largest minus smallest value and the rise of the best linear \
         fit from its first to its last round, each against a share of the average."
            .to_owned(),
    );
    Some(table)
}

/// Each setting of a phase with `steady`, over the rounds of the window judged last.
fn window_table(method: &MatrixMethod, phase: usize, done: &[PointResult]) -> Option<Table> {
    let (rounds, results) = method.judged_rounds(phase, done).filter(|(_, of)| !of.is_empty())?;
    let figures = figures(&method.suite);
    let name = method.suite.phases[phase].title();
    let title = format!("{name}: {rounds}");
    let mut table = Table::new("window", &title, &["setting"]);
    table.columns.extend(figures.iter().map(|f| heading(f)));
    for setting in method.settings(phase) {
        let of: Vec<&PointResult> =
            results.iter().filter(|r| r.point.coordinates == setting).copied().collect();
        let looped = of.first().filter(|_| !method.suite.phases[phase].loops.is_empty());
        let about = looped.map_or(name.as_str(), |r| r.point.about.as_str());
        let mut row = vec![Cell::new(about)];
        row.extend(figures.iter().map(|f| Cell::new(over_rounds(f, &of))));
        table.rows.push(row);
    }
    table.note = Some(
        "Rates are averages over the rounds, the mean is of all their I/Os, the maximum the largest; \
         of percentiles the smallest and the largest round are given, never an average."
            .to_owned(),
    );
    Some(table)
}

/// What the run before each round gave: it tells whether the target was in the same state.
fn before_rounds(method: &MatrixMethod, phase: usize, done: &[PointResult]) -> Option<SteadyTrack> {
    let name = method.suite.phases[phase].title();
    let results = method.results_of(phase, RunPart::Before, done);
    let steady = method.suite.phases[phase].steady.as_ref()?;
    let round = |r: &&PointResult| (r.point.round, r.values.get(&steady.figure).copied());
    (!results.is_empty()).then(|| SteadyTrack {
        title: format!("{name}: {} of the run before each round", steady.figure),
        figure: steady.figure.clone(),
        rule: SteadyRule::default(),
        rounds: results.iter().map(round).collect(),
        window: None,
    })
}

/// One figure over rounds.
pub(super) fn over_rounds(name: &str, results: &[&PointResult]) -> String {
    let Some(value) = figures_over_rounds(name, results) else {
        return "-".to_owned();
    };
    let values = || results.iter().filter_map(|r| r.values.get(name).copied());
    match name {
        "mean_ns" | "max_ns" => figure(name, value),
        name if name.ends_with("_ns") => {
            let least = values().fold(f64::INFINITY, f64::min);
            between(figure(name, least), figure(name, value))
        }
        _ => figure(name, value),
    }
}

/// The runs of phases without `steady`: a row for each, or for each of its workloads with a ceiling.
fn points_table(method: &MatrixMethod, done: &[PointResult]) -> Option<Table> {
    let figures = figures(&method.suite);
    let mut table = Table::new("points", &method.suite.about, &["run"]);
    table.columns.extend(figures.iter().map(|f| heading(f)));
    for (at, phase) in method.suite.phases.iter().enumerate() {
        let rows = done.iter().filter(|r| method.is_of(at, r));
        for r in rows.filter(|_| phase.steady.is_none()) {
            // Workloads with a ceiling have rows of their own: a rate of commits and reads together says nothing.
            let judged = r.summary.iter().flat_map(judged_workloads);
            let parts =
                judged.map(|w| (format!("{}: {}", r.point.id, w.name), of_totals(&w.totals)));
            let mut parts: Vec<_> = parts.collect();
            if parts.is_empty() {
                parts.push((r.point.id.clone(), r.values.clone()));
            }
            for (name, values) in parts {
                let cell = |name: &&str| {
                    let value = values.get(*name);
                    Cell::new(value.map_or("-".to_owned(), |v| figure(name, *v)))
                };
                let cells = figures.iter().map(cell);
                table.rows.push([Cell::new(name)].into_iter().chain(cells).collect());
            }
        }
    }
    // A long table is detail: the console has shown a line after each run.
    table.detail = table.rows.len() > MOST_IN_FULL;
    (!table.rows.is_empty()).then_some(table)
}

fn deviations(method: &MatrixMethod) -> Option<Table> {
    let standard = method.suite.standard.as_ref()?;
    let title = conformance(standard, &method.deviations);
    let mut table = Table::of_words("deviations", &title, &["deviation"]);
    table.rows = method.deviations.iter().map(|d| vec![Cell::new(d.clone())]).collect();
    (!table.rows.is_empty()).then_some(table)
}

/// The tables of the report in order, without those that `report` adds: of ceilings, targets and single runs.
fn tables(
    method: &MatrixMethod,
    done: &[PointResult],
    found: &[(String, SteadyRounds)],
    recoveries: &[(String, JudgedRecovery)],
    choices: &[PointChoice<'_>],
) -> Result<Vec<Table>> {
    let suite = &method.suite;
    let mut tables: Vec<Table> = deviations(method).into_iter().collect();
    tables.extend(determination(found));
    tables.extend(recovery::table(recoveries));
    tables.extend(recovery::bursts(&method.named_results(done))?);
    tables.extend(operating_text::tables(method, choices, done));
    let chosen_from = |at: &usize| {
        let mut rules = suite.phases.iter().filter_map(|p| p.points.as_ref());
        rules.any(|rule| rule.from == suite.phases[*at].name)
    };
    let phases = (0..suite.phases.len()).filter(|at| !chosen_from(at));
    tables.extend(phases.filter_map(|at| window_table(method, at, done)));
    Ok(tables)
}

/// Paragraphs, those that say something.
fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts = parts.map(|part| part.trim_end().to_owned()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

/// Several texts, each in lines of the terminal.
fn fitted_lines(texts: &[&str]) -> String {
    texts.iter().map(|text| fitted(text)).collect::<Vec<_>>().join("\n")
}

/// The text in lines of the terminal.
fn fitted(text: &str) -> String {
    wrap(text, width().min(TERMINAL)).join("\n")
}

/// Places of the runs whose figures stand on the cards of the page: those at operating points. Without such points, all
/// runs but two kinds: runs that only bring the target into a state, and first looks that a second look replaces.
fn spoken_of(
    points: &[ReportPoint],
    done: &[PointResult],
    answering: &Answering<'_>,
) -> Vec<usize> {
    if points.is_empty() {
        let answers = |r: &PointResult| answering.runs.iter().any(|of| std::ptr::eq(*of, r));
        let spoken = |at: &usize| !done[*at].point.role.is_state() && answers(&done[*at]);
        return (0..done.len()).filter(spoken).collect();
    }
    points.iter().map(|point| point.run).collect()
}

/// What the page of many runs shows in place of each run: charts over all of them, and links to their pages.
fn summary(method: &MatrixMethod, done: &[PointResult]) -> ReportSummary {
    ReportSummary {
        charts: CHARTS.map(str::to_owned).to_vec(),
        groups: targets_text::groups(method, done),
        links: done.iter().map(|r| format!("{}/{}", r.point.id, names::REPORT)).collect(),
    }
}

/// Figures over rounds: those judged, and of the runs before each round.
fn tracks(
    method: &MatrixMethod,
    found: &[(String, SteadyRounds)],
    done: &[PointResult],
) -> Vec<SteadyTrack> {
    let judged = found.iter().flat_map(|(_, rounds)| rounds.tracks.clone());
    let phases = 0..method.suite.phases.len();
    judged.chain(phases.filter_map(|at| before_rounds(method, at, done))).collect()
}

/// The report over the points so far. Errors: `Corrupt` or `Unavailable` when a run directory
/// cannot be read.
pub fn report(method: &MatrixMethod, series: &SeriesView<'_>) -> Result<SeriesReport> {
    let suite = &method.suite;
    let found = method.found(series.done);
    let mut words: Vec<String> = found.iter().map(|(name, r)| outcome(name, r)).collect();
    let recoveries = method.recoveries(series.done)?;
    // Operating points: settings that the results of an earlier phase choose.
    let choices = operating_text::choices(method, series.done);
    words.extend(recoveries.iter().map(|(phase, judged)| judged.sentence(phase)));
    words.extend(sheet::clock_step(series.done)?);
    words.iter_mut().for_each(|w| w.push('.'));
    let missed = found.iter().any(|(_, r)| r.outcome == SteadyOutcome::NotAchieved);
    let standard = suite.standard.as_ref().map(|name| conformance(name, &method.deviations));
    let title = suite.about.clone() + if missed { ": steady state not achieved" } else { "" };
    let sheet = sheet::sheet(method, &found, &choices, standard.clone(), series.done)?;
    // The runs that answer for the ceilings: the last look at each setting.
    let answering = method.answering(series.done);
    let ceilings = answers::table(&answering, suite.measures.as_deref());
    let mut tables = tables(method, series.done, &found, &recoveries, &choices)?;
    tables.iter_mut().for_each(|table| table.detail = true);
    tables.extend(ceilings.iter().map(|(_, table)| table.clone()));
    tables.extend(targets_text::table(method, series.done));
    tables.extend(points_table(method, series.done));
    let columns = sheet.iter().flat_map(|s| &s.columns[1..s.columns.len() - 1]);
    let columns = columns.map(|c| c.table("set-up").to_text());
    let texts =
        |detail: bool| tables.iter().filter(move |t| t.detail == detail).map(Table::to_text);
    let details = joined(columns.chain(texts(true)));
    let runs: Vec<&PointResult> = series.done.iter().collect();
    let (mut sweep, rounds) = method.sweep(series.done).unzip();
    if let Some(sweep) = &mut sweep {
        (sweep.marks, sweep.ceiling_ns) = operating_text::marks(&choices);
    }
    let points = operating_text::histograms(method, &choices, series.done);
    words.extend(operating_text::lead(&choices));
    words.extend(rounds.flatten());
    // Runs are linked, not shown, where they are many and where rounds were to become steady.
    let many = runs.len() > MOST_IN_FULL && sweep.is_some();
    let summary = (many || !found.is_empty()).then(|| summary(method, series.done));
    let said = fitted(&[standard.as_slice(), words.as_slice()].concat().join(" "));
    words.splice(0..0, ceilings.iter().map(|(answer, _)| answer.clone()));
    // Operating points have the knee of the whole grid: where they are marked, no curve's own knee has words.
    let curves = sweep.iter().filter(|d| d.marks.is_empty()).flat_map(|d| &d.curves);
    let knees: Vec<&str> = curves.map(|curve| curve.text.as_str()).collect();
    let answers = ceilings.iter().map(|(answer, _)| fitted(answer));
    let after = joined(answers.chain([said]).chain(texts(false)).chain([fitted_lines(&knees)]));
    Ok(SeriesReport {
        after: format!("\n{after}"),
        details: format!("\n{details}"),
        context: ReportContext {
            title: Some(title),
            text: format!(
                "{} {}",
                words.join(" "),
                knees.iter().map(|k| format!("{k}. ")).collect::<String>()
            )
            .trim()
            .to_owned(),
            tables,
            steady: tracks(method, &found, series.done),
            sweep,
            judged: spoken_of(&points, series.done, &answering),
            points,
            summary,
            sheet,
            ..ReportContext::default()
        },
        runs: runs.iter().map(|r| r.dir.clone()).collect(),
        files: match method.head.axes.is_empty() {
            true => Vec::new(),
            false => vec![("Table", names::POINTS_CSV)],
        },
        ..SeriesReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_fit_has_the_digits_that_say_something() {
        assert_eq!(fit(-1e-9, 1000.0), "1000.0 + 0.0 x round");
        assert_eq!(fit(-12.345, 8000.0), "8000.0 - 12.3 x round");
        assert_eq!(fit(0.25, 3.0), "3.0000 + 0.2500 x round");
        assert_eq!(fit(420.0, 1_234_567.8), "1234568 + 420 x round");
        assert_eq!(fit(0.0, 0.0), "0.0000 + 0.0000 x round");
    }
}
