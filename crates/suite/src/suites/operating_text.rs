//! Operating points in the report's tables and in the decisions and the answer of `series.json`: every
//! setting they are chosen from, the choice, and what the runs at them gave. `operating` chooses.

use serde_json::{Value, json};
use taillight_core::Percentile;
use taillight_report::format::{count, counted, percent};
use taillight_report::sweep::DemandMark;
use taillight_report::table::{Cell, Table, Tone};
use taillight_report::{ReportPoint, format};
use taillight_rundir::Quantile;
use taillight_rundir::series::Decision;
use taillight_rundir::summary::Totals;
use taillight_stats::littles_law_ratio;

use super::matrix::SuitePhase;
use super::matrix_method::MatrixMethod;
use super::matrix_text::{figure, heading};
use super::operating::{
    ChosenPoints, ChosenRounds, OF_HIGHEST, OperatingPoint, OperatingPoints, SettingFigures,
};
use super::steady::Coordinates;
use crate::axis;
use crate::figures;
use crate::method::PointResult;

/// Distance from one at which Little's law is said not to hold.
const LITTLE_OFF: f64 = 0.05;
/// Nines of the table over the runs at the points.
const NINES: [u8; 4] = [2, 3, 4, 5];

/// The choice of one phase with what it is made from.
pub(super) struct PointChoice<'a> {
    /// Number of the phase that has the points.
    phase: usize,
    /// The phase it is made from.
    from: &'a SuitePhase,
    rule: &'a ChosenPoints,
    /// The rounds that count.
    rounds: Vec<u32>,
    found: OperatingPoints<'a>,
    /// Whether the rounds had come to their end.
    over: bool,
}

/// Every choice there is so far.
pub(super) fn choices<'a>(
    method: &'a MatrixMethod,
    done: &'a [PointResult],
) -> Vec<PointChoice<'a>> {
    let phases = method.suite.phases.iter().enumerate();
    let choice = |(phase, p): (usize, &'a SuitePhase)| {
        let rule = p.points.as_ref()?;
        let (from, rounds, found) = method.operating(phase, done)?;
        let over = method.is_over(from, done);
        let from = method.suite.phases.get(from)?;
        Some(PointChoice { phase, from, rule, rounds, found, over })
    };
    phases.filter_map(choice).collect()
}

/// The fields of a setting by the ends of their paths, in the order of the loops.
fn coordinates_text(from: &SuitePhase, at: &Coordinates) -> String {
    axis::setting_text(from.loops.iter().filter_map(|l| Some((l.path.as_str(), at.get(&l.path)?))))
}

/// Rate times mean time over the I/Os asked to be outstanding; none where one of them is unknown, or the load is no
/// closed loop without think time.
fn little(s: &SettingFigures<'_>) -> Option<f64> {
    let rate = figures::over_rounds("iops", &s.results)?;
    let closed = |r: &&PointResult| {
        r.point.plan.workloads.iter().all(|w| w.arrival.is_closed() && w.think.is_none())
    };
    let mean = figures::over_rounds("mean_ns", &s.results)?;
    let ratio = littles_law_ratio(rate, mean, s.outstanding as f64)?;
    s.results.iter().all(closed).then_some(ratio)
}

impl PointChoice<'_> {
    fn setting_text(&self, s: &SettingFigures<'_>) -> String {
        coordinates_text(self.from, &s.coordinates)
    }

    fn at(&self, at: usize) -> &SettingFigures<'_> {
        &self.found.settings[at]
    }

    /// Which rounds the figures are of.
    fn of_rounds(&self) -> String {
        match (self.rounds.as_slice(), self.rule.rounds) {
            ([one], ChosenRounds::Last) => format!("round {one}, the last"),
            ([one], ChosenRounds::Window) => format!("round {one}"),
            ([first, .., last], _) => format!("rounds {first} to {last}, averaged"),
            ([], _) => "no round".to_owned(),
        }
    }

    /// A setting, by its fields alone.
    fn brief(&self, at: usize) -> String {
        let s = self.at(at);
        format!("{} ({} outstanding)", self.setting_text(s), count(s.outstanding))
    }

    fn setting(&self, at: usize) -> String {
        let s = self.at(at);
        format!(
            "{}: {} {}, {} {}",
            self.brief(at),
            heading(&self.rule.figure),
            figure(&self.rule.figure, s.figure),
            heading(&self.rule.under),
            figure(&self.rule.under, s.under),
        )
    }

    fn point(&self, point: &OperatingPoint) -> String {
        let mut text = format!("{}: {}", point.name, self.setting(point.at));
        if let Some(name) = &point.same_as {
            text.push_str(&format!("; the same as {name}, not run again"));
        }
        if point.over_ceiling {
            text.push_str(match self.found.under {
                0 => "; OVER THE CEILING, as all are: the closest to it",
                _ => "; over the ceiling",
            });
        }
        text
    }

    fn knee(&self) -> String {
        match self.found.knee {
            Ok(at) => format!("knee: {}", self.setting(at)),
            Err(why) => format!("no knee: {why}"),
        }
    }

    /// How many settings the choice had.
    fn basis(&self) -> String {
        let (all, under) = (self.found.settings.len(), self.found.under);
        let within = format!(
            "{} of these lie within {} of the highest {}",
            count(self.found.within as u64),
            percent(1.0 - OF_HIGHEST),
            heading(&self.rule.figure)
        );
        match (self.rule.ceiling, under) {
            (None, _) => format!("{}, {within}", counted(all as u64, "setting")),
            (Some(ceiling), 0) => format!(
                "NO SETTING of {all} IS UNDER THE CEILING of {ceiling} ({})",
                heading(&self.rule.under)
            ),
            (Some(ceiling), _) => format!(
                "{under} of {all} settings are under the ceiling of {ceiling} ({}), {within}",
                heading(&self.rule.under)
            ),
        }
    }

    fn off(&self) -> Vec<&SettingFigures<'_>> {
        let off = |s: &&SettingFigures<'_>| {
            little(s).is_some_and(|ratio| (ratio - 1.0).abs() > LITTLE_OFF)
        };
        self.found.settings.iter().filter(off).collect()
    }

    fn little_text(&self) -> Option<String> {
        let off = self.off().len();
        (off > 0).then(|| {
            format!(
                "Little's law is off by more than {} at {off} of {} settings: I/Os were not kept \
                 outstanding there, or waited unseen",
                percent(LITTLE_OFF),
                self.found.settings.len()
            )
        })
    }
}

/// What stands above the tables.
pub(super) fn lead(choices: &[PointChoice<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for choice in choices {
        let ended = if choice.over { "" } else { ", which were not the last of them" };
        lines.push(format!(
            "Operating points from {} of {}{ended}: {}.",
            choice.of_rounds(),
            choice.from.title(),
            choice.basis()
        ));
        lines.extend(choice.little_text().map(|text| text + "."));
    }
    lines
}

/// The choices as `series.json` keeps them, once their rounds are over.
pub(super) fn decisions(choices: &[PointChoice<'_>]) -> Vec<Decision> {
    let mut all = Vec::new();
    for choice in choices.iter().filter(|c| c.over) {
        let decision = |at: Option<usize>, verdict: String, text: String| {
            let of = |at: usize| {
                let s = choice.at(at);
                let ratio = little(s).map(|ratio| ("littles_law".to_owned(), ratio));
                let named = [
                    (choice.rule.figure.clone(), s.figure),
                    (choice.rule.under.clone(), s.under),
                    ("outstanding".to_owned(), s.outstanding as f64),
                ];
                named.into_iter().chain(ratio).collect()
            };
            let points = at.map_or(Vec::new(), |at| choice.at(at).results.clone());
            Decision {
                rule: "operating_point".to_owned(),
                round: choice.rounds.last().copied().unwrap_or(0),
                points: points.iter().map(|r| r.point.id.clone()).collect(),
                values: at.map(of).unwrap_or_default(),
                verdict,
                text,
            }
        };
        for point in choice.found.chosen.iter().flatten() {
            let over = if point.over_ceiling { "_over_ceiling" } else { "" };
            let verdict = format!("{}{over}", point.pick.word());
            all.push(decision(Some(point.at), verdict, choice.point(point)));
        }
        let verdict = if choice.found.knee.is_ok() { "knee" } else { "no_knee" };
        all.push(decision(choice.found.knee.ok(), verdict.to_owned(), choice.knee()));
    }
    all
}

/// The choices for programs, once their rounds are over.
pub(super) fn answer(method: &MatrixMethod, choices: &[PointChoice<'_>]) -> Option<Value> {
    let one = |choice: &PointChoice<'_>| {
        let phase = &method.suite.phases[choice.phase];
        let figures = |at: usize| {
            let s = choice.at(at);
            let mut value = json!({
                "coordinates": s.coordinates,
                "outstanding": s.outstanding,
                "littles_law": little(s),
            });
            value[&choice.rule.figure] = json!(s.figure);
            value[&choice.rule.under] = json!(s.under);
            value
        };
        let point = |point: &OperatingPoint| {
            let mut value = figures(point.at);
            value["over_ceiling"] = json!(point.over_ceiling);
            value["same_as"] = json!(point.same_as);
            (point.name.clone(), value)
        };
        let points: serde_json::Map<String, Value> =
            choice.found.chosen.iter().flatten().map(point).collect();
        let value = json!({
            "from": choice.rule.from,
            "rounds": choice.rounds,
            "figure": choice.rule.figure,
            "under": choice.rule.under,
            "ceiling_ns": choice.rule.ceiling.map(|c| c.0),
            "settings": choice.found.settings.len(),
            "under_ceiling": choice.found.under,
            "within_2_percent": choice.found.within,
            "points": points,
            "knee": choice.found.knee.ok().map(figures),
        });
        (phase.title(), value)
    };
    let phases: serde_json::Map<String, Value> =
        choices.iter().filter(|c| c.over).map(one).collect();
    (!phases.is_empty()).then(|| json!({ "operating_points": phases }))
}

/// Marks for the chart of response time against rate, and the ceiling, ns, where it is of the mean.
pub(super) fn marks(choices: &[PointChoice<'_>]) -> (Vec<DemandMark>, Option<u64>) {
    let (mut marks, mut ceiling) = (Vec::new(), None);
    for choice in choices {
        if choice.rule.figure != "iops" || choice.rule.under != "mean_ns" {
            continue;
        }
        ceiling = ceiling.or(choice.rule.ceiling.map(|c| c.0));
        for point in choice.found.chosen.iter().flatten() {
            let s = choice.at(point.at);
            let text = choice.point(point);
            let name = point.name.clone();
            marks.push(DemandMark { name, text, rate: s.figure, mean_ns: s.under });
        }
    }
    (marks, ceiling)
}

/// The choices as the disclosure names them, with the rounds they are from.
pub(super) fn disclosed(choices: &[PointChoice<'_>]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    for choice in choices.iter().filter(|c| c.over) {
        let of = choice.from.title();
        facts.push(("operating points".to_owned(), format!("{of}, {}", choice.of_rounds())));
        let point = |p: &OperatingPoint| (format!("{} point", p.name), choice.brief(p.at));
        facts.extend(choice.found.chosen.iter().flatten().map(point));
        let knee =
            choice.found.knee.map_or_else(|why| format!("none: {why}"), |at| choice.brief(at));
        facts.push(("knee".to_owned(), knee));
    }
    facts
}

/// Figures of the grid beside those of its rule.
const GRID: [&str; 5] = ["iops", "bytes_per_s", "mean_ns", "max_ns", "cpu_percent"];

/// Each setting the points are chosen from.
fn grid(choice: &PointChoice<'_>) -> Table {
    let title = format!("{}: {}", choice.from.title(), choice.of_rounds());
    let mut table = Table::new("grid", &title, &["setting", "outstanding"]);
    let mut names = GRID.to_vec();
    for name in [choice.rule.figure.as_str(), choice.rule.under.as_str()] {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    table.columns.extend(names.iter().map(|name| heading(name)));
    table.columns.push("Little's law".to_owned());
    for s in &choice.found.settings {
        let mut row = vec![Cell::new(choice.setting_text(s)), Cell::new(count(s.outstanding))];
        row.extend(names.iter().map(|name| {
            let value = figures::over_rounds(name, &s.results);
            let text = value.map_or("-".to_owned(), |v| figure(name, v));
            let over = choice.rule.ceiling.is_some_and(|c| s.under >= c.0 as f64);
            match over && *name == choice.rule.under {
                true => Cell::toned(text, Tone::Warn),
                false => Cell::new(text),
            }
        }));
        row.push(match little(s) {
            None => Cell::new("-"),
            Some(ratio) => {
                let far = (ratio - 1.0).abs() > LITTLE_OFF;
                let tone = if far { Tone::Warn } else { Tone::Plain };
                Cell::toned(
                    format!(
                        "{}{}",
                        if ratio < 1.0 { "-" } else { "+" },
                        percent((ratio - 1.0).abs())
                    ),
                    tone,
                )
            }
        });
        table.rows.push(row);
    }
    let little = choice.little_text().map_or(String::new(), |text| format!(" {text}."));
    table.note = Some(format!(
        "Little's law: how far rate x mean time is from the I/Os asked to be outstanding.{little}"
    ));
    table
}

/// The points with the rule that chose them.
fn chosen(choice: &PointChoice<'_>) -> Table {
    let (by, under) = (heading(&choice.rule.figure), heading(&choice.rule.under));
    let columns = ["point", "setting", "outstanding", by.as_str(), under.as_str(), "rule"];
    let mut table = Table::of_words("operating-points", "Operating points", &columns);
    let mut add = |name: &str, at: usize, rule: String, tone: Tone| {
        let s = choice.at(at);
        table.rows.push(vec![
            Cell::new(name),
            Cell::new(choice.setting_text(s)),
            Cell::new(count(s.outstanding)),
            Cell::new(figure(&choice.rule.figure, s.figure)),
            Cell::toned(figure(&choice.rule.under, s.under), tone),
            Cell::new(rule),
        ]);
    };
    for point in choice.found.chosen.iter().flatten() {
        let mut rule = match (point.pick.word(), choice.rule.ceiling) {
            ("max", Some(ceiling)) => format!("highest {by} with {under} under {ceiling}"),
            ("max", None) => format!("highest {by}"),
            ("min", _) => "fewest outstanding".to_owned(),
            ("knee", _) => "see knee".to_owned(),
            _ => "evenly between min and max".to_owned(),
        };
        if point.over_ceiling && choice.found.under == 0 {
            rule = "none is under the ceiling: the closest to it".to_owned();
        }
        if let Some(name) = &point.same_as {
            rule.push_str(&format!("; the same as {name}, not run again"));
        }
        let tone = if point.over_ceiling { Tone::Bad } else { Tone::Plain };
        add(&point.name, point.at, rule, tone);
    }
    if let Ok(at) = choice.found.knee {
        let rule = format!("fewest outstanding with {} of the highest {by}", percent(OF_HIGHEST));
        add("knee", at, rule, Tone::Plain);
    }
    let no_knee = choice.found.knee.err().map_or(String::new(), |why| format!(" No knee: {why}."));
    table.note = Some(format!("From {}. {}.{no_knee}", choice.of_rounds(), choice.basis()));
    table
}

/// A percentile with its interval.
fn nine(totals: &Totals, p: Percentile) -> String {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| figure("max_ns", ns as f64));
    let interval = |q: &Quantile| match (q.lo_ns, q.hi_ns) {
        (None, None) => String::new(),
        (lo, None) => format!(" (from {})", time(lo)),
        (None, hi) => format!(" (to {})", time(hi)),
        (lo, hi) => format!(" ({} to {})", time(lo), time(hi)),
    };
    let shown = |q: &Quantile| match q.ns {
        Some(_) => format!("{}{}", time(q.ns), interval(q)),
        None => format!("needs {}", count(q.needs)),
    };
    figures::quantile(totals.latencies.main(), p).map_or("-".to_owned(), shown)
}

/// What the runs at the points gave, all operations and each.
fn at_points(
    method: &MatrixMethod,
    choice: &PointChoice<'_>,
    done: &[PointResult],
) -> Option<Table> {
    let name = method.suite.phases[choice.phase].title();
    let title = format!("{name}: response times at the operating points");
    let mut table = Table::new("histograms", &title, &["point", "iops", "mean"]);
    let nines = NINES.map(|k| Percentile::nines(k).unwrap_or(Percentile::MAX));
    table.columns.extend(NINES.map(|k| format::nines_label(k.into())));
    table.columns.push("max".to_owned());
    for (result, point) in runs_at(method, choice, done) {
        let Some(summary) = &result.summary else { continue };
        let ops = summary.ops.iter().filter(|_| summary.ops.len() > 1);
        let ops = ops.map(|(op, totals)| (op.name(), totals));
        for (op, totals) in std::iter::once(("all", &summary.totals)).chain(ops) {
            let latency = totals.latencies.main();
            let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| figure("mean_ns", ns));
            let mut row = vec![
                Cell::new(format!("{} {op}", point.name)),
                Cell::new(figure("iops", totals.iops)),
                Cell::new(time(latency.mean_ns)),
            ];
            row.extend(nines.map(|p| Cell::new(nine(totals, p))));
            row.push(Cell::new(time(latency.max_ns.map(|ns| ns as f64))));
            table.rows.push(row);
        }
    }
    table.note = Some(
        "In brackets the 95 % interval, as far as it is known; a nine with too few I/Os says how many it needs."
            .to_owned(),
    );
    (!table.rows.is_empty()).then_some(table)
}

/// The runs at the points, each with what it stands for.
fn runs_at<'a>(
    method: &'a MatrixMethod,
    choice: &'a PointChoice<'_>,
    done: &'a [PointResult],
) -> Vec<(&'a PointResult, &'a OperatingPoint)> {
    let results = method.results(choice.phase, done).into_iter();
    let named = results.filter_map(|r| {
        let nth = method.chosen(r)?;
        Some((r, choice.found.chosen.get(nth)?.as_ref()?))
    });
    named.collect()
}

/// The tables of all choices.
pub(super) fn tables(
    method: &MatrixMethod,
    choices: &[PointChoice<'_>],
    done: &[PointResult],
) -> Vec<Table> {
    let mut all = Vec::new();
    for choice in choices {
        all.push(chosen(choice));
        all.extend(at_points(method, choice, done));
        all.push(grid(choice));
    }
    all
}

/// The runs whose histograms the page shows, each with its heading.
pub(super) fn histograms(
    method: &MatrixMethod,
    choices: &[PointChoice<'_>],
    done: &[PointResult],
) -> Vec<ReportPoint> {
    let mut all = Vec::new();
    for choice in choices {
        for (result, point) in runs_at(method, choice, done) {
            let Some(run) = done.iter().position(|r| r.point.id == result.point.id) else {
                continue;
            };
            let of =
                |name: &str| result.values.get(name).map_or("-".to_owned(), |v| figure(name, *v));
            let s = choice.at(point.at);
            let title = format!(
                "{}: {} ({} outstanding), {} IOPS, mean {}, maximum {}",
                point.name,
                choice.setting_text(s),
                count(s.outstanding),
                of("iops"),
                of("mean_ns"),
                of("max_ns")
            );
            all.push(ReportPoint { run, title });
        }
    }
    all
}
