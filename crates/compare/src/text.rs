//! A comparison in words: console and Markdown.

use taillight_report::format::{Script, count, counted, duration, percent, rate};
use taillight_report::table::{Cell, Table, Tone, paragraph};
use taillight_rundir::compare::{
    ComparableVerdict, CompareFile, CompareUnit, CompareVerdict, ComparedFigure, GateStatus,
};

/// A change as people say it: `+38 %`, `-1.2 %`.
pub fn change(ratio: f64) -> String {
    let sign = if ratio < 1.0 { "-" } else { "+" };
    format!("{sign}{}", percent((ratio - 1.0).abs()))
}

/// A value of a figure of this name.
pub fn shown(figure: &str, value: f64) -> String {
    match figure {
        "iops" => rate(value),
        _ => duration(value, Script::Plain),
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
    format!(
        "{} -> {}, {change} ({}): {}",
        value(figure, figure.base),
        value(figure, figure.new),
        interval(figure),
        verdict(figure).0
    )
}

/// What the comparison is of.
fn basis(found: &CompareFile) -> String {
    match found.unit {
        CompareUnit::Batches => {
            "One run a side: this says whether these two runs differ, not whether \
                                 the systems do. For that, give three or more runs a side."
                .to_owned()
        }
        CompareUnit::Runs => format!(
            "{} against {}: the runs are the units.",
            counted(found.base.len() as u64, "run"),
            count(found.new.len() as u64)
        ),
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
    let why: Vec<String> = found
        .figures
        .iter()
        .filter_map(|f| Some(format!("{} {}: {}", f.op.name(), f.figure, f.why.as_ref()?)))
        .collect();
    let adjusted = "Verdicts allow for the number of figures looked at (Holm).".to_owned();
    table.note = Some([vec![adjusted], why].concat().join(" "));
    table
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
    lines
}

/// All that is said beside the table.
pub fn words(found: &CompareFile) -> String {
    head(found).into_iter().chain(gate(found)).collect::<Vec<_>>().join(" ")
}

fn gate(found: &CompareFile) -> Option<String> {
    let gate = found.gate.as_ref()?;
    let status = match gate.status {
        GateStatus::Pass => "passed",
        GateStatus::Fail => "FAILED",
        GateStatus::Undecided => "UNDECIDED",
    };
    Some(format!("Gate {}:{} {status}: {}.", gate.op.name(), gate.figure, gate.text))
}

/// For a terminal.
pub fn console(found: &CompareFile) -> String {
    let mut parts: Vec<String> = head(found).iter().map(|line| paragraph(line)).collect();
    if !found.figures.is_empty() {
        parts.push(format!("\n{}", table(found).to_text()));
    }
    parts.extend(gate(found).map(|line| format!("\n{}", paragraph(&line))));
    parts.concat()
}

/// For a pull request.
pub fn markdown(found: &CompareFile) -> String {
    let mut text = String::new();
    for line in gate(found).into_iter().map(|g| format!("**{g}**")).chain(head(found)) {
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
