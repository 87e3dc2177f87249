//! A history in words: console and Markdown.

use taillight_report::format::{count, counted, percent};
use taillight_report::table::{Cell, Table, Tone, paragraph};
use taillight_rundir::compare::CompareVerdict;
use taillight_rundir::history::{HistoryChange, HistoryFile, HistorySuspect, HistoryTrack};

use super::median;
use crate::text::{change, shown, table_markdown};

/// Gaps, and runs left out, that are named; the others are in `changes.json`.
const NAMED: usize = 3;

fn date(found: &HistoryFile, night: usize) -> &str {
    found.nights.get(night).map_or("unknown", |night| night.date.as_str())
}

fn toned(verdict: CompareVerdict) -> Cell {
    match verdict {
        CompareVerdict::Better => Cell::toned("better", Tone::Good),
        _ => Cell::toned("worse", Tone::Bad),
    }
}

/// A line for each change, and one for each figure without.
pub fn table(found: &HistoryFile) -> Table {
    let columns = ["figure", "from", "before", "after", "change (95 % interval)", "verdict"];
    let mut table = Table::of_words("changes", "Changes", &columns);
    for track in &found.figures {
        let name = || Cell::new(format!("{} {}", track.op.name(), track.figure));
        for step in &track.changes {
            let cells = change_cells(found, track, step).map(Cell::new);
            let row = [name()].into_iter().chain(cells).chain([toned(step.verdict)]);
            table.rows.push(row.collect());
        }
        if track.changes.is_empty() {
            let verdict = match track.enough {
                true => Cell::toned("no change found", Tone::Dim),
                false => Cell::toned("too few nights", Tone::Warn),
            };
            let level = level(found, track).map_or("-".to_owned(), |v| shown(&track.figure, v));
            let cells = ["-", "-", &level, "-"].map(Cell::new);
            table.rows.push([name()].into_iter().chain(cells).chain([verdict]).collect());
        }
    }
    table.note = Some(format!(
        "A change is one that chance makes in less than {} of places. \"No change found\" is not \"equal\": \
         small changes take many nights.",
        percent(found.p)
    ));
    table
}

fn change_cells(found: &HistoryFile, track: &HistoryTrack, step: &HistoryChange) -> [String; 4] {
    [
        date(found, step.night).to_owned(),
        shown(&track.figure, step.before),
        shown(&track.figure, step.after),
        format!("{} ({} to {})", change(step.ratio), change(step.lo), change(step.hi)),
    ]
}

/// A line for each night.
pub fn nights_table(found: &HistoryFile) -> Table {
    let mut table = Table::of_words("points", "Nights", &["night", "segment", "runs"]);
    for (night, it) in found.nights.iter().enumerate() {
        let segment = found.segments.iter().position(|s| (s.first..=s.last).contains(&night));
        let segment = segment.map_or(String::new(), |s| (s + 1).to_string());
        let dirs: Vec<&str> = it.runs.iter().map(|run| run.dir.as_str()).collect();
        table.rows.push([it.date.clone(), segment, dirs.join(", ")].map(Cell::new).to_vec());
    }
    table
}

/// The middle of the newest segment.
fn level(found: &HistoryFile, track: &HistoryTrack) -> Option<f64> {
    let newest = found.segments.last()?;
    let values = track.values.get(newest.first..=newest.last)?;
    median(values.iter().flatten().copied().collect())
}

/// What stands above the table.
fn head(found: &HistoryFile) -> Vec<String> {
    let runs = found.nights.iter().map(|night| night.runs.len() as u64).sum();
    let last = found.nights.len().saturating_sub(1);
    let mut lines = vec![format!(
        "{} from {} to {}, of {}.",
        counted(found.nights.len() as u64, "night"),
        date(found, 0),
        date(found, last),
        counted(runs, "run")
    )];
    for segment in &found.segments {
        lines.extend(segment.differs.as_ref().map(|names| {
            let from = date(found, segment.first);
            format!("From {from} on other: {names}. No change is looked for across that.")
        }));
    }
    if found.gaps.len() > NAMED {
        let many = count(found.gaps.len() as u64);
        lines.push(format!("Nights are missing at {many} places (changes.json)."));
    }
    for gap in found.gaps.iter().filter(|_| found.gaps.len() <= NAMED) {
        let missing = counted(gap.missing, "night");
        let verb = if gap.missing == 1 { "is" } else { "are" };
        lines.push(format!("About {missing} {verb} missing after {}.", date(found, gap.after)));
    }
    if let Some(first) = found.left_out.first() {
        let many = found.left_out.len() as u64;
        let named = found.left_out.iter().take(NAMED).map(|l| format!("{} ({})", l.dir, l.why));
        let named = named.collect::<Vec<_>>().join("; ");
        let more = match found.left_out.len() > NAMED {
            true => format!("; and {} more in changes.json", count(many - NAMED as u64)),
            false => String::new(),
        };
        lines.push(match many {
            1 => format!("Left out: {} ({}).", first.dir, first.why),
            _ => format!("Left out {}: {named}{more}.", counted(many, "run")),
        });
    }
    lines
}

/// The figures in which the newest night stands out.
fn suspects(found: &HistoryFile) -> Option<String> {
    let one = |track: &HistoryTrack| {
        let suspect = track.suspect.as_ref()?;
        let shown = |v| shown(&track.figure, v);
        Some(format!(
            "{} {} {}, usually {} to {}",
            track.op.name(),
            track.figure,
            shown(suspect.value),
            shown(suspect.lo),
            shown(suspect.hi)
        ))
    };
    let all: Vec<String> = found.figures.iter().filter_map(one).collect();
    let newest = date(found, found.nights.len().saturating_sub(1));
    (!all.is_empty()).then(|| {
        format!(
            "Suspect: {newest}: {}. One night of a hundred of each figure lies outside by chance, and there are {} figures; running it again decides.",
            all.join("; "),
            found.figures.len()
        )
    })
}

/// The commands that decide about the newest night, by the figure that stands out furthest.
fn decide(found: &HistoryFile) -> &[String] {
    let far = |s: &HistorySuspect| {
        let (lo, hi) = (s.lo.ln(), s.hi.ln());
        ((s.value.ln() - (lo + hi) / 2.0) / (hi - lo)).abs()
    };
    let suspects = found.figures.iter().filter_map(|track| track.suspect.as_ref());
    suspects.max_by(|a, b| far(a).total_cmp(&far(b))).map_or(&[], |suspect| &suspect.decide)
}

/// All that is said beside the table, but for commands.
pub fn words(found: &HistoryFile) -> String {
    head(found).into_iter().chain(suspects(found)).collect::<Vec<_>>().join(" ")
}

/// For a terminal.
pub fn console(found: &HistoryFile) -> String {
    let mut parts: Vec<String> = head(found).iter().map(|line| paragraph(line)).collect();
    parts.push(format!("\n{}", table(found).to_text()));
    parts.extend(suspects(found).map(|line| format!("\n{}", paragraph(&line))));
    parts.extend(decide(found).iter().map(|command| format!("    {command}\n")));
    parts.concat()
}

/// For a page or a pull request.
pub fn markdown(found: &HistoryFile) -> String {
    let mut text: String = head(found).iter().map(|line| format!("{line}\n\n")).collect();
    text.push_str(&table_markdown(&table(found)));
    text.extend(suspects(found).map(|line| format!("\n**{line}**\n")));
    let commands = decide(found);
    if !commands.is_empty() {
        text.push_str(&format!("\n```sh\n{}\n```\n", commands.join("\n")));
    }
    text
}
