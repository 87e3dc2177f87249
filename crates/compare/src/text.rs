//! A comparison in words: console, Markdown, and what stands above the runs of its page.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_report::format::{count, counted, duration, percent, rate};
use taillight_report::table::{Cell, Table, Tone, paragraph};
use taillight_report::{ReportContext, ReportSummary, compare_answer};
use taillight_rundir::compare::{
    ComparableVerdict, CompareFile, CompareUnit, CompareVerdict, ComparedFigure, ComparedPairs,
    ComparedRun, GateStatus, PairsEnd,
};
use taillight_stats::compare::holm;

/// Charts of a page over many runs.
const CHARTS: [&str; 7] =
    ["shift", "forest", "distribution", "percentile", "tail", "latency-time", "throughput-time"];
/// Largest adjusted p-value of an effect of the position in a pair.
const POSITION_ALPHA: f64 = 0.05;

/// A change as people say it: `+38 %`, `-1.2 %`.
pub fn change(ratio: f64) -> String {
    let sign = if ratio < 1.0 { "-" } else { "+" };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

/// A value of a figure of this name.
pub fn shown(figure: &str, value: f64) -> String {
    match figure {
        "iops" => rate(value),
        _ => duration(value),
    }
}

fn value(figure: &ComparedFigure, of: Option<f64>) -> String {
    of.map_or("-".to_owned(), |v| shown(&figure.figure, v))
}

fn interval(figure: &ComparedFigure) -> String {
    match (figure.lo, figure.hi) {
        (Some(lo), Some(hi)) => format!("{} to {}", change(lo), change(hi)),
        _ => "-".to_owned(),
    }
}

fn verdict(figure: &ComparedFigure) -> (String, Tone) {
    match figure.verdict {
        CompareVerdict::Worse => ("worse".to_owned(), Tone::Bad),
        CompareVerdict::Better => ("better".to_owned(), Tone::Good),
        CompareVerdict::Equal => (format!("equal within {}", percent(figure.margin)), Tone::Good),
        CompareVerdict::Undecided => {
            let needs = figure.needs.map_or(String::new(), |n| format!(", needs about {n} runs"));
            (format!("undecided{needs}"), Tone::Warn)
        }
    }
}

/// A figure in a sentence.
pub fn sentence(figure: &ComparedFigure) -> String {
    let change = figure.ratio.map_or("-".to_owned(), change);
    let within = figure.lo.map_or(String::new(), |_| format!(" ({})", interval(figure)));
    format!(
        "{} -> {}, {change}{within}: {}",
        value(figure, figure.base),
        value(figure, figure.new),
        verdict(figure).0
    )
}

/// What the comparison is of.
fn basis(found: &CompareFile) -> String {
    if let Some(pairs) = &found.pairs {
        return of_pairs(pairs);
    }
    match found.unit {
        CompareUnit::Batches => {
            "One run a side: this says whether these two runs differ, not whether \
                                 the systems do. For that, give three or more runs a side."
                .to_owned()
        }
        CompareUnit::Runs => format!(
            "{} against {}: each run is one observation.",
            counted(found.base.len() as u64, "run"),
            count(found.new.len() as u64)
        ),
    }
}

fn of_pairs(pairs: &ComparedPairs) -> String {
    let (run, planned) = (u64::from(pairs.run), u64::from(pairs.planned));
    let mut text = match pairs.ended {
        PairsEnd::Planned => {
            format!("{} in turns: each pair is one observation.", counted(run, "pair"))
        }
        PairsEnd::Early => {
            format!(
                "Decided after {} of {planned}: each pair is one observation.",
                counted(run, "pair")
            )
        }
        PairsEnd::Partial => format!("Partial: {run} of {} so far.", counted(planned, "pair")),
    };
    match (&pairs.rule, pairs.dropped.as_slice()) {
        (None, _) => text.push_str(" No pair is dropped."),
        (Some(rule), []) => text.push_str(&format!(" None was dropped (rule: {rule}).")),
        (Some(rule), dropped) => {
            let why = dropped.iter().map(|d| format!("pair {}: {}", d.pair, d.why));
            let why = why.collect::<Vec<_>>().join("; ");
            let number = dropped.len() as u64;
            text.push_str(&format!(" Dropped: {} (rule: {rule}): {why}.", counted(number, "pair")));
        }
    }
    text
}

/// Whether it matters to be the second run of a pair, or, after three pairs or more, that too few of them tell.
fn position(found: &CompareFile) -> Option<String> {
    let known: Vec<_> =
        found.figures.iter().filter_map(|f| Some((f, f.position.as_ref()?))).collect();
    let pairs = found.pairs.as_ref().filter(|_| !found.figures.is_empty())?;
    if known.is_empty() {
        let why = "it takes two pairs of each order to tell whether that matters";
        return Some(format!("Second of a pair against first: {why}.")).filter(|_| pairs.run > 2);
    }
    let adjusted = holm(&known.iter().map(|(_, effect)| effect.p).collect::<Vec<_>>());
    let seen = known.iter().zip(&adjusted).filter(|(_, p)| **p < POSITION_ALPHA);
    let seen = seen.map(|((f, effect), _)| {
        let [by, lo, hi] = [effect.ratio, effect.lo, effect.hi].map(change);
        format!("{} {} {by} ({lo} to {hi})", f.op.name(), f.figure)
    });
    let seen: Vec<String> = seen.collect();
    Some(match seen.is_empty() {
        true => {
            let least = adjusted.iter().copied().fold(1.0, f64::min);
            format!("Second of a pair against first: no effect is seen (p {least:.2}).")
        }
        false => format!(
            "Second of a pair against first: {}. Pairs vary more by it; the difference is free of it \
             where both sides were second as often.",
            seen.join(", ")
        ),
    })
}

/// The figures that an answer on the way is about: those of the gate, else the median of each operation.
pub fn primary(found: &CompareFile) -> Vec<&ComparedFigure> {
    let chosen = |f: &&ComparedFigure| match &found.gate {
        Some(gate) => gate.figures.iter().any(|g| g.op == f.op && g.figure == f.figure),
        None => f.figure == "p50",
    };
    found.figures.iter().filter(chosen).collect()
}

/// The page above the runs; `many` leaves each run to a report of its own.
pub fn context(found: &CompareFile, many: bool) -> ReportContext {
    ReportContext {
        title: Some(title(found)),
        text: words(found),
        tables: vec![table(found)],
        compare: Some(found.clone()),
        summary: many.then(|| ReportSummary {
            charts: CHARTS.map(str::to_owned).to_vec(),
            ..ReportSummary::default()
        }),
        ..ReportContext::default()
    }
}

/// What was compared: the directories of both sides.
fn title(found: &CompareFile) -> String {
    let name = |dir: &str| {
        let last = Path::new(dir).file_name().map(|name| name.to_string_lossy().into_owned());
        last.unwrap_or_else(|| dir.to_owned())
    };
    let side = |runs: &[ComparedRun]| match runs {
        [one] => Some(name(&one.dir)),
        [first, ..] => {
            let parent = |run: &ComparedRun| Path::new(&run.dir).parent().map(Path::to_owned);
            let together =
                parent(first).filter(|p| runs.iter().all(|r| parent(r).as_ref() == Some(p)));
            let place =
                together.map(|p| name(&p.to_string_lossy())).filter(|name| !name.is_empty());
            let place = place.unwrap_or_else(|| name(&first.dir));
            Some(format!("{place} ({} runs)", runs.len()))
        }
        [] => None,
    };
    match side(&found.new).zip(side(&found.base)) {
        Some((new, base)) => format!("{new} against {base}"),
        None => "Base against new".to_owned(),
    }
}

/// The table, a line a figure.
pub fn table(found: &CompareFile) -> Table {
    let columns = ["figure", "base", "new", "change", "95 % interval", "verdict"];
    let mut table = Table::of_words("compare", "Base against new", &columns);
    for figure in &found.figures {
        let (words, tone) = verdict(figure);
        let cells = [
            format!("{} {}", figure.op.name(), figure.figure),
            value(figure, figure.base),
            value(figure, figure.new),
            figure.ratio.map_or("-".to_owned(), change),
            interval(figure),
        ];
        let mut row: Vec<Cell> = cells.into_iter().map(Cell::new).collect();
        row.push(Cell::toned(words, tone));
        table.rows.push(row);
    }
    let adjusted = "Verdicts allow for the number of figures looked at (Holm).".to_owned();
    table.note = Some([vec![adjusted], unknown(found)].concat().join(" "));
    table
}

/// Why figures have no interval, each reason once.
fn unknown(found: &CompareFile) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for figure in &found.figures {
        let name = format!("{} {}", figure.op.name(), figure.figure);
        by_reason.entry(figure.why.as_deref().unwrap_or_default()).or_default().push(name);
    }
    by_reason.remove("");
    by_reason
        .into_iter()
        .map(|(why, of)| format!("No interval of {}: {why}.", of.join(", ")))
        .collect()
}

/// What stands above the table.
fn head(found: &CompareFile) -> Vec<String> {
    let mut lines = Vec::new();
    let reasons = found.comparable.reasons.join("; ");
    match found.comparable.verdict {
        ComparableVerdict::No => lines.push(format!("Not comparable: {reasons}.")),
        ComparableVerdict::Doubtful => lines.push(format!("Doubtful: {reasons}.")),
        ComparableVerdict::Yes if reasons.is_empty() => {}
        ComparableVerdict::Yes => lines.push(format!("Note: {reasons}.")),
    }
    if !found.figures.is_empty() {
        lines.push(basis(found));
    }
    lines.extend(position(found));
    lines
}

/// All that is said beside the table.
pub fn words(found: &CompareFile) -> String {
    gate_words(found).into_iter().chain(head(found)).collect::<Vec<_>>().join(" ")
}

/// What the gate says, a sentence a figure; none without a gate.
pub fn gate_words(found: &CompareFile) -> Option<String> {
    let said = found.gate.as_ref()?.figures.iter().map(|gate| {
        let status = match gate.status {
            GateStatus::Pass => "passed",
            GateStatus::Fail => "FAILED",
            GateStatus::Undecided => "UNDECIDED",
        };
        format!("Gate {}:{} {status}: {}.", gate.op.name(), gate.figure, gate.text)
    });
    Some(said.collect::<Vec<_>>().join(" "))
}

/// What the gate says; without a gate, what is worse and what is better. None where no figure was compared.
fn answer(found: &CompareFile) -> Option<String> {
    let figures = !found.figures.is_empty();
    gate_words(found).or_else(|| figures.then(|| compare_answer(found)))
}

/// For a terminal.
pub fn console(found: &CompareFile) -> String {
    let lines = answer(found).into_iter().chain(head(found));
    let mut parts: Vec<String> = lines.map(|line| paragraph(&line)).collect();
    if !found.figures.is_empty() {
        parts.push(format!("\n{}", table(found).to_text()));
    }
    parts.concat()
}

/// For a pull request.
pub fn markdown(found: &CompareFile) -> String {
    let mut text = String::new();
    for line in answer(found).into_iter().map(|g| format!("**{g}**")).chain(head(found)) {
        text.push_str(&format!("{line}\n\n"));
    }
    if !found.figures.is_empty() {
        text.push_str(&table_markdown(&table(found)));
    }
    text
}

/// A table in Markdown, with its note.
pub fn table_markdown(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = row(table.columns.clone());
    text.push_str(&row(table.columns.iter().map(|_| "---".to_owned()).collect()));
    for cells in &table.rows {
        text.push_str(&row(cells.iter().map(|c| c.text.replace('|', "\\|")).collect()));
    }
    text.extend(table.note.as_ref().map(|note| format!("\n{note}\n")));
    text
}
