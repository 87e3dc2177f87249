//! An explanation as text, for `taillight explain`.

use std::collections::BTreeMap;

use crate::format;
use crate::model::sentences;
use crate::table::{Cell, Table, TextPage, Tone};
use taillight_explain::{Explanation, Phase, headline};

/// Episodes listed singly.
const EPISODES: usize = 10;

/// The answer in words: which layers, what was in the way and what to do next, then the rest.
pub fn answer(it: &Explanation) -> Vec<String> {
    let mut said = sentences(it);
    let first = said.len().min(1);
    said.splice(first..first, headline(it));
    said
}

/// Everything for `taillight explain`; `detail`: with the rules that the verdicts are from.
pub fn text(it: &Explanation, start_ns: i64, detail: bool) -> String {
    let mut page = TextPage::new(false);
    for line in answer(it) {
        page.indented(&line, Tone::Plain);
    }
    let time = |ns: u64| format::duration_ns(ns);
    if !it.layers.is_empty() {
        page.text.push('\n');
        page.table(&layers(it));
    }
    if !it.episodes.is_empty() {
        page.text.push_str("\nEpisodes, the heaviest first:\n");
    }
    // What to do next is said with the first episode that asks for it.
    let mut told = Vec::new();
    let mut heavy: Vec<_> = it.episodes.iter().collect();
    heavy.sort_by_key(|e| std::cmp::Reverse(e.excess_ns));
    for e in heavy.iter().take(EPISODES) {
        let at = (e.start_ns - start_ns) as f64 / 1e9;
        let span = (e.end_ns - e.start_ns).max(0) as u64;
        let certainty = e.certainty().map_or(String::new(), |c| format!(" ({c})"));
        let (long, size) = (time(span), e.size());
        let said = format!("at {at:.3} s, {long} long: {size}, {}{certainty}", e.blame());
        page.indented(&said, Tone::Plain);
        for line in &e.evidence {
            page.labelled("    - ", line, Tone::Plain);
        }
        if !told.contains(&&e.next) {
            page.labelled("    next: ", &e.next, Tone::Plain);
            told.push(&e.next);
        }
    }
    if heavy.len() > EPISODES {
        let more = format::counted((heavy.len() - EPISODES) as u64, "lighter one");
        page.indented(&format!("and {more}; all with --json"), Tone::Plain);
    }
    levels(it, &mut page);
    if detail && !it.ios.is_empty() {
        page.text.push('\n');
        page.table(&rules(it));
    }
    page.text
}

/// How many verdicts each rule spoke in.
fn rules(it: &Explanation) -> Table {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in &it.ios {
        let mut names = one.rules.names().peekable();
        if names.peek().is_none() {
            *counts.entry((one.layer.words(), "own stamps and sleeps")).or_default() += 1;
        }
        names.for_each(|rule| *counts.entry((one.layer.words(), rule)).or_default() += 1);
    }
    let mut table = Table::new("rules", "", &["layer", "from the rule", "outliers"]);
    for ((layer, rule), n) in counts {
        let cells = [layer.to_owned(), rule.to_owned(), format::count(n)];
        table.rows.push(cells.map(Cell::new).to_vec());
    }
    table
}

fn layers(it: &Explanation) -> Table {
    let columns = ["layer", "outliers", "share", "excess", "sure", "likely"];
    let mut table = Table::new("layers", "", &columns);
    for l in &it.layers {
        let cells = [
            l.layer.words().to_owned(),
            format::count(l.outliers),
            format::percent(l.outliers as f64 / it.outliers.max(1) as f64),
            format::duration_ns(l.excess_ns),
            format::count(l.sure),
            format::count(l.likely()),
        ];
        table.rows.push(cells.map(Cell::new).to_vec());
    }
    table
}

fn levels(it: &Explanation, page: &mut TextPage) {
    if it.levels.is_empty() {
        return;
    }
    page.text.push('\n');
    let title = "Where the time goes (mean of the traced I/Os within 5 % of a percentile):";
    page.labelled("", title, Tone::Plain);
    let time = |ns: u64| format::duration_ns(ns);
    for level in &it.levels {
        let mut parts: Vec<_> = Phase::ALL
            .into_iter()
            .map(|p| (level.phases.get(p), p))
            .filter(|(ns, _)| *ns * 100 >= level.ns)
            .collect();
        parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
        let text: Vec<String> =
            parts.iter().map(|(ns, p)| format!("{} {}", p.words(), time(*ns))).collect();
        let (op, ns, ios) = (level.op.name(), time(level.ns), format::count(level.ios));
        let said = format!("{op} {} % ({ns}, {ios} I/Os): {}", level.p, text.join(", "));
        page.indented(&said, Tone::Plain);
    }
}
