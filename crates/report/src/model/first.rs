//! The first screen of a page: the cards with rate, p50, p99, p99.9 and max of one or several runs, of a comparison or
//! a history, the same as a table for a terminal, and the answers of several runs and of a comparison; that of one run
//! is in `answer`. Where a run has too few I/Os for a percentile, a card shows the run's own value, marked as that.

use std::collections::BTreeSet;

use serde::Serialize;
use taillight_core::{OpKind, Percentile};
use taillight_rundir::Summary;
use taillight_rundir::compare::{CompareFile, CompareVerdict, ComparedFigure};
use taillight_rundir::history::{HistoryFile, HistoryTrack};
use taillight_rundir::latency::{Latency, LatencyBin, LatencySource, Quantile};
use taillight_rundir::summary::{QosStatus, Totals};

pub use super::answer::{answer, answer_of};
use super::labels;
use crate::format;
use crate::table::{Cell, Table, Tone};
use crate::text::origin;
use crate::verdict::{asked_for, unmeasured, unsampled, untold, whole_ops};

/// Operations with lines of their own in a card; the tables have all.
pub(super) const MOST_LINES: usize = 4;
/// What marks a value of a run that cannot speak about the percentile.
const OWN: &str = "this run only";

/// What marks a value that the storage's own may be well above.
const UNBOUNDED: &str = "too few I/Os to bound it";

/// Where several runs have the same value.
const ALIKE: &str = "in every run";
/// The same of those that have a value.
const ALIKE_KNOWN: &str = "in every run that has it";

/// Which run a figure is of, where of several runs it is the only one that has it.
fn only(label: &str, runs: &[(&str, &Summary)]) -> Option<String> {
    (runs.len() > 1).then(|| format!("only {label}"))
}

/// A key figure of one or several runs, a line for each operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// `p99`, for programs.
    pub id: &'static str,
    pub label: &'static str,
    pub lines: Vec<CardLine>,
}

/// The figure of one operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CardLine {
    /// The operation, where there are several, or workload and operation.
    pub name: String,
    pub value: String,
    pub note: String,
    /// The run's own value, which says nothing about the storage.
    pub own: bool,
}

/// The figures of the cards, as `id` and label.
const CARDS: [(&str, &str); 5] = [
    ("rate", "Rate"),
    ("p50", "p50, half within"),
    ("p99", "p99, 99 % within"),
    ("p99.9", "p99.9, 99.9 % within"),
    ("max", "max, the slowest"),
];

/// A value of one run.
pub(super) struct CardValue {
    pub ns: u64,
    /// Least and most that it may be: the ends of its bin where that is wide, else the value itself.
    ends: LatencyBin,
    note: String,
    /// It is of this run alone.
    pub own: bool,
    /// It has no bound above, as the I/Os are too few for one.
    pub unbounded: bool,
    /// They count as less than half of their number, as many of them queued or were slow together.
    pub together: bool,
}

impl CardValue {
    fn new(ns: u64, bin: Option<LatencyBin>, note: String, own: bool) -> CardValue {
        let own_alone = LatencyBin { lo_ns: ns, hi_ns: ns };
        let ends = bin.filter(LatencyBin::is_wide).unwrap_or(own_alone);
        CardValue { ns, ends, note, own, unbounded: false, together: false }
    }

    /// `1.20 ms`, or as [`bin_words`] of a wide bin.
    fn to_text(&self) -> String {
        bin_words(self.ends)
    }

    /// So long at most; of a bin that has no end `1.20 ms or more`.
    pub fn within(&self) -> String {
        match self.ends.is_open() {
            true => format!("{} or more", format::duration_ns(self.ends.lo_ns)),
            false => format::duration_ns(self.ends.hi_ns),
        }
    }
}

/// The cards of these runs, each with its name. The rate is of all operations; other cards have a line for each of the
/// first four.
pub fn cards(runs: &[(&str, &Summary)]) -> Vec<Card> {
    let mut ops: Vec<OpKind> = Vec::new();
    for (op, _) in runs.iter().flat_map(|(_, summary)| whole_ops(summary)) {
        if !ops.contains(op) {
            ops.push(*op);
        }
    }
    let card = |(id, label): (&'static str, &'static str)| {
        let one = |op: &OpKind| CardLine {
            name: if ops.len() > 1 { op.name().to_owned() } else { String::new() },
            ..line(id, *op, runs)
        };
        let lines = match (id, ops.is_empty()) {
            ("rate", _) => vec![rates(runs)],
            (_, true) => vec![CardLine {
                value: "none".to_owned(),
                note: "no I/O was measured".to_owned(),
                ..CardLine::default()
            }],
            (_, false) => ops.iter().take(MOST_LINES).map(one).collect(),
        };
        Card { id, label, lines }
    };
    CARDS.into_iter().map(card).collect()
}

/// The cards of what the ceilings are for, where they are for one of several workloads, in each run for the same: the
/// commits of a database beside its reads and checkpoints. Else as [`cards`].
pub fn judged_cards(runs: &[(&str, &Summary)]) -> Vec<Card> {
    let of = |summary: &Summary| {
        let name = summary.qos.iter().find_map(|q| q.workload.clone())?;
        let alone = summary.qos.iter().all(|q| q.workload.as_ref() == Some(&name));
        let several = summary.workloads.len() > 1;
        let workload = summary.workloads.iter().find(|w| alone && several && w.name == name)?;
        let (totals, ops) = (workload.totals.clone(), workload.ops.clone());
        Some((name, Summary { totals, ops, ..summary.clone() }))
    };
    let parts: Option<Vec<(String, Summary)>> =
        runs.iter().map(|(_, summary)| of(summary)).collect();
    let Some(parts) = parts.filter(|p| p.windows(2).all(|w| w[0].0 == w[1].0)) else {
        return cards(runs);
    };
    let named: Vec<(&str, &Summary)> =
        runs.iter().zip(&parts).map(|((label, _), (_, part))| (*label, part)).collect();
    let mut all = cards(&named);
    let of = parts.first().map_or("", |(name, _)| name);
    for line in all.iter_mut().flat_map(|card| &mut card.lines) {
        line.name = format!("{of} {}", line.name).trim().to_owned();
    }
    all
}

/// Bytes per second of a run; none where no bytes are known: of transactions, and of what another program did.
pub(super) fn bandwidth(summary: &Summary) -> Option<String> {
    let bytes = summary.totals.bytes_per_s;
    let transactions = summary.ops.keys().any(|op| op.is_transaction());
    let untold = bytes == 0.0 && (transactions || !summary.origin.is_measured());
    (!untold).then(|| format::bytes_per_s(bytes))
}

/// Why a figure is not known of any of these runs, and of a watch how it would be.
fn lacking(why: &str, runs: &[(&str, &Summary)]) -> String {
    let how = runs.iter().find_map(|(_, summary)| origin::every_call(&summary.origin));
    how.map_or_else(|| why.to_owned(), |how| format!("not every call was seen ({how})"))
}

fn rates(runs: &[(&str, &Summary)]) -> CardLine {
    let told = |s: &Summary| !unmeasured(s) && !untold(&s.totals, &s.origin);
    let known = runs.iter().filter(|(_, summary)| told(summary));
    let mut of: Vec<(f64, &str, &Summary)> =
        known.map(|(label, summary)| (summary.totals.iops, *label, *summary)).collect();
    of.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (value, note) = match of.as_slice() {
        [] if runs.iter().any(|(_, summary)| unmeasured(summary)) => {
            ("unknown".to_owned(), lacking("only outliers were kept", runs))
        }
        [] => {
            let bytes = runs.first().filter(|_| runs.len() == 1);
            let bytes = bytes.and_then(|(_, summary)| bandwidth(summary));
            let note = "operations a second are not in the result".to_owned();
            (bytes.unwrap_or_else(|| "unknown".to_owned()), note)
        }
        [(iops, label, summary)] => {
            let all = format!("{} in all", format::count(summary.totals.count));
            let notes = only(label, runs).into_iter().chain(bandwidth(summary)).chain([all]);
            (format!("{}/s", format::rate(*iops)), notes.collect::<Vec<_>>().join(", "))
        }
        [(lo, slowest, _), .., (hi, ..)] => {
            let value =
                range(&format!("{}/s", format::rate(*lo)), &format!("{}/s", format::rate(*hi)));
            let same = format::rate(*lo) == format::rate(*hi);
            (value, which(("lowest", *slowest), same, of.len(), runs.len()))
        }
    };
    CardLine { value, note, ..CardLine::default() }
}

/// Which run is the `extreme` one where values make a range, or that all have the `same`; `known` of `all` have one.
fn which((extreme, label): (&str, &str), same: bool, known: usize, all: usize) -> String {
    match (same, known < all) {
        (true, true) => ALIKE_KNOWN.to_owned(),
        (true, false) => ALIKE.to_owned(),
        (false, true) => format!("{extreme} of {known} that have it: {label}"),
        (false, false) => format!("{extreme}: {label}"),
    }
}

/// `1.20 to 3.60 ms`; of a bin that has no end `at least 1.20 ms`.
pub(super) fn bin_words(bin: LatencyBin) -> String {
    let (lo, hi) = (format::duration_ns(bin.lo_ns), format::duration_ns(bin.hi_ns));
    if bin.is_open() { format!("at least {lo}") } else { range(&lo, &hi) }
}

/// Both ends, or one where they are written alike; the unit once where they share it.
pub(super) fn range(lo: &str, hi: &str) -> String {
    match (lo == hi, lo.rsplit_once(' '), hi.rsplit_once(' ')) {
        (true, ..) => lo.to_owned(),
        (_, Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {hi}"),
        _ => format!("{lo} to {hi}"),
    }
}

fn line(id: &str, op: OpKind, runs: &[(&str, &Summary)]) -> CardLine {
    let totals = |summary: &'_ Summary| summary.ops.get(&op).map(|totals| card_value(id, totals));
    let all = runs.iter().filter_map(|(label, s)| Some((*label, totals(s)?)));
    let mut known: Vec<(&str, CardValue)> =
        all.filter_map(|(label, value)| Some((label, value?))).collect();
    known.sort_by_key(|(_, value)| value.ns);
    match known.as_slice() {
        [] => CardLine {
            value: "unknown".to_owned(),
            note: "no latency was kept".to_owned(),
            ..CardLine::default()
        },
        [(label, one)] => {
            let notes = only(label, runs).into_iter().chain([one.note.clone()]);
            let notes: Vec<String> = notes.filter(|note| !note.is_empty()).collect();
            CardLine {
                value: one.to_text(),
                note: notes.join("; "),
                own: one.own,
                ..CardLine::default()
            }
        }
        [(_, lo), .., (slowest, hi)] => {
            let own = known.iter().filter(|(_, value)| value.own).count();
            let few = known.iter().filter(|(_, value)| value.own || value.unbounded).count();
            let mark = match few {
                0 => String::new(),
                n => format!("; {n} of {} have too few I/Os", known.len()),
            };
            let (least, most) = (format::duration_ns(lo.ends.lo_ns), hi.within());
            let which = which(("slowest", *slowest), least == most, known.len(), runs.len());
            CardLine {
                value: if lo.ends.is_open() { lo.to_text() } else { range(&least, &most) },
                note: format!("{which}{mark}"),
                own: own > 0,
                ..CardLine::default()
            }
        }
    }
}

/// The latency of a card by its id, which is not `rate`; none where it is not known.
pub(super) fn card_value(id: &str, totals: &Totals) -> Option<CardValue> {
    let latency = asked_for(totals).0;
    let observed = latency.observed;
    // Another tool may have said some of them only.
    let foreign = latency.source == LatencySource::Imported;
    if observed.is_none() && !foreign {
        return None;
    }
    let Some(pct) = id.strip_prefix('p').and_then(|p| p.parse::<Percentile>().ok()) else {
        let note = format!("of {}", format::counted(latency.count, "I/O"));
        let ns = observed.map(|o| o.max_ns).or(latency.max_ns)?;
        return Some(CardValue::new(ns, None, note, false));
    };
    let found = quantile(latency, &pct);
    let own_ns = match (observed, id) {
        (Some(observed), "p50") => observed.p50_ns,
        (Some(observed), "p99") => observed.p99_ns,
        (Some(observed), _) => observed.p99_9_ns,
        (None, _) => found.and_then(|q| q.observed_ns)?,
    };
    let bin = found.and_then(|q| q.bin);
    let found = found.filter(|q| q.resolved);
    Some(match found.and_then(|q| Some((q, q.ns?))) {
        Some((q, ns)) => {
            // Another tool tells no bounds.
            let unbounded = !foreign && q.hi_ns.is_none() && q.bound_ns.is_none();
            let note = if unbounded { UNBOUNDED.to_owned() } else { interval(q) };
            let together = q.effective.is_some_and(|effective| effective < latency.count / 2);
            CardValue { unbounded, together, ..CardValue::new(ns, bin, note, false) }
        }
        None => CardValue::new(own_ns, bin, own(latency.count, &pct), true),
    })
}

/// Kinds that are times inside other operations, those that have a count.
fn inner_ops(summary: &Summary) -> impl Iterator<Item = (&OpKind, &Totals)> {
    summary.ops.iter().filter(|(op, totals)| op.is_inner() && totals.count > 0)
}

/// The figures of the cards as a table for a terminal: a row for each operation of each run, those inside others last.
pub fn figures(runs: &[(&str, &Summary)]) -> Table {
    let mut table = Table::new("figures", "", &["", "rate", "p50", "p99", "p99.9", "max"]);
    table.title = card_kind(runs).unwrap_or_default();
    for (label, summary) in runs {
        for (op, totals) in whole_ops(summary).chain(inner_ops(summary)) {
            let name = match runs.len() {
                1 => op.name().to_owned(),
                _ => format!("{label}: {}", op.name()),
            };
            let rate = match unsampled(totals) {
                true => "unknown".to_owned(),
                false if untold(totals, &summary.origin) => match totals.bytes_per_s {
                    0.0 => "unknown".to_owned(),
                    bytes => format::bytes_per_s(bytes),
                },
                false => format!("{}/s", format::rate(totals.iops)),
            };
            let value = |(id, _): &(&str, &str)| match card_value(id, totals) {
                None => Cell::toned("unknown", Tone::Dim),
                Some(it) if it.own => Cell::toned(format!("{} *", it.to_text()), Tone::Dim),
                Some(it) => Cell::new(it.to_text()),
            };
            let cells = [Cell::new(name), Cell::new(rate)].into_iter();
            table.rows.push(cells.chain(CARDS.iter().skip(1).map(value)).collect());
        }
    }
    let own = table.rows.iter().flatten().any(|cell| cell.text.ends_with('*'));
    let own = own.then(|| format!("* {OWN}: too few I/Os to say so of the storage"));
    let inner = runs.iter().flat_map(|(_, summary)| inner_ops(summary));
    let names: BTreeSet<&str> = inner.map(|(op, _)| op.name()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let inner = (!names.is_empty()).then(|| format!("{}: inside the others", names.join(", ")));
    let notes: Vec<String> = own.into_iter().chain(inner).collect();
    table.note = (!notes.is_empty()).then(|| notes.join("; "));
    table
}

/// 99 % of the operation whose 99 % is the highest, marked where it is this run's own.
pub fn slowest_p99(summary: &Summary) -> Option<String> {
    let all = whole_ops(summary).filter_map(|(_, totals)| card_value("p99", totals));
    all.max_by_key(|value| value.ns).map(|it| marked(&it))
}

/// 99 % of these I/Os, marked in the same way.
pub fn p99(totals: &Totals) -> Option<String> {
    card_value("p99", totals).map(|it| marked(&it))
}

fn marked(it: &CardValue) -> String {
    format!("{}{}", it.to_text(), if it.own { " *" } else { "" })
}

/// What is known of a percentile, asked for as a nine or by itself.
pub(super) fn quantile<'a>(latency: &'a Latency, pct: &Percentile) -> Option<&'a Quantile> {
    let same = |p: &str| p.parse::<Percentile>().is_ok_and(|p| p == *pct);
    let asked = latency.percentiles.iter().find(|p| same(&p.p)).map(|p| &p.quantile);
    let nine = |k: u32| Percentile::nines(u8::try_from(k).ok()?);
    let nines = || latency.nines.iter().find(|n| nine(n.k) == Some(*pct)).map(|n| &n.quantile);
    asked.or_else(nines)
}

fn interval(q: &Quantile) -> String {
    match (q.lo_ns, q.hi_ns) {
        (Some(lo), Some(hi)) => {
            let (lo, hi) = (format::duration_ns(lo), format::duration_ns(hi));
            if lo == hi { String::new() } else { range(&lo, &hi) }
        }
        _ => String::new(),
    }
}

/// `this run only, of 640 I/Os the 6 slowest took longer`.
fn own(count: u64, pct: &Percentile) -> String {
    let ios = format::counted(count, "I/O");
    match count.saturating_sub(pct.rank(count)) {
        0 => format!("{OWN}, of {ios} the slowest"),
        1 => format!("{OWN}, of {ios} the slowest but one"),
        n => format!("{OWN}, of {ios} the {} slowest took longer", format::count(n)),
    }
}

/// The answer of several runs: from where to where their 99 % lies, and how many missed or left open a ceiling.
pub fn answer_of_several(runs: &[(&str, &Summary)]) -> String {
    let all = cards(runs);
    let mut parts = Vec::new();
    if let Some(p99) = all.iter().find(|card| card.id == "p99") {
        let known = p99.lines.iter().filter(|line| line.value != "unknown");
        let one = |line: &CardLine| {
            let of =
                if line.name.is_empty() { "I/Os".to_owned() } else { format!("{}s", line.name) };
            // Which run is the slowest, and how many have too few I/Os for it.
            match line.note.is_empty() {
                true => format!("99 % of {of} within {}", line.value),
                false => format!("99 % of {of} within {} ({})", line.value, line.note),
            }
        };
        let words: Vec<String> = known.map(one).collect();
        parts.push(format!("{}: {}.", format::counted(runs.len() as u64, "run"), words.join(", ")));
    }
    let with = |status: QosStatus| {
        let has = |s: &&(&str, &Summary)| s.1.qos.iter().any(|q| q.among_all() == status);
        runs.iter().filter(has).count()
    };
    let (missed, undecided) = (with(QosStatus::Fail), with(QosStatus::Undecided));
    for (n, word) in [(missed, "missed a ceiling"), (undecided, "could not decide a ceiling")] {
        if n > 0 {
            parts.push(format!("{n} of {} {word}.", runs.len()));
        }
    }
    parts.join(" ")
}

/// The answer of a comparison: which figures are worse or better, and how many are equal or undecided.
pub fn compare_answer(found: &CompareFile) -> String {
    let of = |wanted: CompareVerdict| found.figures.iter().filter(move |f| f.verdict == wanted);
    let named = |f: &ComparedFigure| {
        let by = f.ratio.map_or(String::new(), |r| format!(" ({:+.1} %)", 100.0 * (r - 1.0)));
        format!("{} {}{by}", f.op.name(), labels::figure(&f.figure))
    };
    let list = |wanted: CompareVerdict, word: &str| {
        let all: Vec<String> = of(wanted).map(named).collect();
        let more = all.len().saturating_sub(MOST_LINES);
        let shown = all.iter().take(MOST_LINES).cloned().collect::<Vec<_>>().join(", ");
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{word}: {shown}{more}."))
    };
    let mut said: Vec<String> =
        [(CompareVerdict::Worse, "Worse"), (CompareVerdict::Better, "Better")]
            .into_iter()
            .filter_map(|(verdict, word)| list(verdict, word))
            .collect();
    if said.is_empty() {
        said.push("No figure is shown to be worse or better.".to_owned());
    }
    let rest = [(CompareVerdict::Equal, "equal"), (CompareVerdict::Undecided, "undecided")];
    let rest = rest.into_iter().map(|(verdict, word)| (of(verdict).count(), word));
    let rest: Vec<String> =
        rest.filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if !rest.is_empty() {
        said.push(format!("Of {} figures {}.", found.figures.len(), rest.join(", ")));
    }
    said.join(" ")
}

/// The headline ends with the first sentence from this byte on; a text of up to twice as many bytes is not parted.
const HEADLINE: usize = 200;

/// A text in its first sentences and the rest; all of it where it is short.
pub fn headline(text: &str) -> (&str, &str) {
    let ends = text.match_indices(". ").map(|(at, _)| at + 1);
    match ends.into_iter().find(|at| *at >= HEADLINE).filter(|_| text.len() > 2 * HEADLINE) {
        Some(at) => (&text[..at], text[at..].trim_start()),
        None => (text, ""),
    }
}

/// The cards of a comparison: base and new beside each other.
pub fn compare_cards(found: &CompareFile, runs: &[(&str, &Summary)]) -> Vec<Card> {
    let mut all = cards(runs);
    for card in &mut all {
        let name = if card.id == "rate" { "iops" } else { card.id };
        let of: Vec<&ComparedFigure> = found.figures.iter().filter(|f| f.figure == name).collect();
        let several = of.len() > 1;
        let line = |figure: &&ComparedFigure| compared(figure, several, card.id == "rate");
        let lines: Vec<CardLine> = of.iter().take(MOST_LINES).filter_map(line).collect();
        if !lines.is_empty() {
            card.lines = lines;
        }
    }
    all
}

fn compared(figure: &ComparedFigure, several: bool, rate: bool) -> Option<CardLine> {
    let (base, new) = figure.base.zip(figure.new)?;
    let words = |v: f64| if rate { format!("{}/s", format::rate(v)) } else { format::duration(v) };
    let verdict = labels::verdict(figure.verdict);
    Some(CardLine {
        name: if several { figure.op.name().to_owned() } else { String::new() },
        value: words(new),
        note: format!("{verdict}; base {}", words(base)),
        own: false,
    })
}

/// The cards of a history: of each figure the newest night that has it.
pub fn history_cards(history: &HistoryFile) -> Vec<Card> {
    let card = |(id, label): (&'static str, &'static str)| {
        let name = if id == "rate" { "iops" } else { id };
        let of: Vec<&HistoryTrack> = history.figures.iter().filter(|f| f.figure == name).collect();
        let several = of.len() > 1;
        let line = |track: &&HistoryTrack| {
            let newest = track.values.iter().rev().find_map(|v| *v)?;
            let words = |v: f64| match name {
                "iops" => format!("{}/s", format::rate(v)),
                _ => format::duration(v),
            };
            let note = match (&track.suspect, track.changes.last()) {
                (Some(it), _) => format!("usually {}", range(&words(it.lo), &words(it.hi))),
                (None, Some(change)) => format!("before its last change {}", words(change.before)),
                (None, None) if track.enough => "newest night; no change".to_owned(),
                (None, None) => "newest night; too few nights to judge".to_owned(),
            };
            Some(CardLine {
                name: if several { track.op.name().to_owned() } else { String::new() },
                value: words(newest),
                note,
                own: false,
            })
        };
        let mut lines: Vec<CardLine> = of.iter().take(MOST_LINES).filter_map(line).collect();
        if lines.is_empty() {
            let note = "not among the figures of this history".to_owned();
            lines.push(CardLine { value: "-".to_owned(), note, ..CardLine::default() });
        }
        Card { id, label, lines }
    };
    CARDS.into_iter().map(card).collect()
}

/// The kind of latency that the cards show, where it is not plain latency; of runs that differ in it, each kind.
pub fn card_kind(runs: &[(&str, &Summary)]) -> Option<String> {
    let mut kinds: Vec<&str> = Vec::new();
    for (_, summary) in runs {
        let (_, kind) = asked_for(&summary.totals);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    (!kinds.is_empty() && kinds != ["latency"]).then(|| kinds.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_cannot_tell_is_marked_as_its_own() {
        let pct = |p: &str| p.parse::<Percentile>().unwrap();
        assert_eq!(own(640, &pct("99")), "this run only, of 640 I/Os the 6 slowest took longer");
        assert_eq!(own(640, &pct("99.9")), "this run only, of 640 I/Os the slowest");
        assert_eq!(own(1_001, &pct("99.9")), "this run only, of 1,001 I/Os the slowest but one");
        assert_eq!(own(1, &pct("50")), "this run only, of 1 I/O the slowest");
    }

    /// The figure of the only run that has one was said of both.
    #[test]
    fn a_figure_of_one_of_several_runs_names_it() {
        let a = taillight_rundir::fixture::summary("a");
        let mut b = a.clone();
        b.ops.clear();
        let said = answer_of_several(&[("a", &a), ("b", &b)]);
        assert!(said.contains("(only a"), "{said}");
        let alone = answer_of_several(&[("a", &a)]);
        assert!(!alone.contains("only"), "{alone}");
        let which = |same, known| which(("lowest", "a"), same, known, 3);
        assert_eq!(which(false, 2), "lowest of 2 that have it: a");
        assert_eq!([which(true, 2), which(true, 3)], [ALIKE_KNOWN, ALIKE]);
    }

    #[test]
    fn a_long_text_has_a_headline() {
        assert_eq!(headline("Short. Still short."), ("Short. Still short.", ""));
        let long = format!("{} end. {}. Last.", "word ".repeat(50), "more ".repeat(60));
        let (first, rest) = headline(&long);
        assert!(first.ends_with("end.") && rest.starts_with("more") && rest.ends_with("Last."));
    }

    #[test]
    fn a_value_in_a_bin_without_end_is_told_by_its_least() {
        let value = |hi_ns| {
            let bin = LatencyBin { lo_ns: 2_000_000_000, hi_ns };
            let it = CardValue::new(bin.middle_ns(), Some(bin), String::new(), false);
            (it.ns, it.to_text(), it.within())
        };
        let (ns, shown, within) = value(LatencyBin::OPEN_NS);
        assert_eq!((ns, shown.as_str()), (2_000_000_000, "at least 2.00 s"));
        assert_eq!(within, "2.00 s or more");
        let (_, shown, within) = value(4_000_000_000);
        assert_eq!((shown.as_str(), within.as_str()), ("2.00 to 4.00 s", "4.00 s"));
    }

    /// Few I/Os, or many that were slow together, bound nothing: first screen and answer say so as the tables do.
    #[test]
    fn a_percentile_without_a_bound_is_told_as_that() {
        let mut summary = taillight_rundir::fixture::summary("r");
        summary.verdict.reasons.clear();
        let bounded = answer(&summary);
        assert!(!bounded.contains("too few"), "{bounded}");
        for totals in summary.ops.values_mut().chain([&mut summary.totals]) {
            for (_, latency) in totals.latencies.iter_mut() {
                let quantile = &mut latency.percentiles[0].quantile;
                (quantile.hi_ns, quantile.bound_ns) = (None, None);
            }
        }
        let said = answer(&summary);
        assert!(said.contains("(response; 1,000 I/Os are too few to bound it)"), "{said}");
        let note = |runs: &[(&str, &Summary)]| {
            let all = cards(runs);
            all.iter().find(|card| card.id == "p99").map(|card| card.lines[0].note.clone())
        };
        assert_eq!(note(&[("a", &summary)]).as_deref(), Some(UNBOUNDED));
        let mut other = taillight_rundir::fixture::summary("s");
        other.verdict.reasons.clear();
        let several = [("a", &summary), ("b", &other)];
        assert_eq!(note(&several).as_deref(), Some("in every run; 1 of 2 have too few I/Os"));
        let said = answer_of_several(&several);
        assert!(said.contains("(in every run; 1 of 2 have too few I/Os)"), "{said}");
    }

    #[test]
    fn a_range_names_its_unit_once() {
        assert_eq!(range("83.8 us", "259 us"), "83.8 to 259 us");
        assert_eq!(range("83.8 us", "1.20 ms"), "83.8 us to 1.20 ms");
        assert_eq!(range("1.20 ms", "1.20 ms"), "1.20 ms");
    }
}
