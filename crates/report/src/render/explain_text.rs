//! An explanation as text, for `taillight explain`.

use std::collections::BTreeMap;

use crate::format;
use crate::model::sentences;
use crate::table::{Cell, Table, TextPage, Tone};
use taillight_explain::{Explanation, InFront, OutlierVerdict, Phase, RequestSum, headline};

/// Episodes listed singly.
const EPISODES: usize = 10;
/// Outliers listed singly with the detail.
const SLOWEST: usize = 20;

/// The answer in words: which layers, what was in the way and what to do next, then the rest.
pub fn answer(it: &Explanation) -> Vec<String> {
    let mut said = sentences(it);
    let first = said.len().min(1);
    said.splice(first..first, headline(it));
    said
}

/// Everything for `taillight explain`; `detail`: with the slowest outliers, and the rules that the verdicts are from.
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
        let title = "The slowest outliers, and what stood at their disk in front of each when it \
                     was queued:";
        page.labelled("", title, Tone::Plain);
        page.table(&slowest(it, start_ns));
        page.text.push('\n');
        page.table(&rules(it));
    }
    page.text
}

/// The slowest outliers, each with what stood in front of it.
fn slowest(it: &Explanation, start_ns: i64) -> Table {
    let latency = |v: &OutlierVerdict| v.slow.complete_ns.saturating_sub(v.slow.intended_ns);
    let mut all: Vec<&OutlierVerdict> = it.ios.iter().collect();
    all.sort_by_key(|v| std::cmp::Reverse(latency(v)));
    let columns = ["at", "operation", "latency", "layer", "the program's own", "others'"];
    let mut table = Table::of_words("slowest", "", &columns);
    for one in all.into_iter().take(SLOWEST) {
        let cells = [
            format!("{:.3} s", (one.slow.submit_ns - start_ns) as f64 / 1e9),
            one.slow.op.name().to_owned(),
            format::duration_ns(latency(one).max(0).unsigned_abs()),
            one.layer.words().to_owned(),
            in_front(one, |front| front.own),
            in_front(one, |front| front.others),
        ];
        table.rows.push(cells.map(Cell::new).to_vec());
    }
    table
}

/// A part of what stood in front of an outlier; a dash where it was seen at no disk.
fn in_front(one: &OutlierVerdict, part: impl Fn(&InFront) -> Option<RequestSum>) -> String {
    match one.in_front.as_ref().map(part) {
        None => "-".to_owned(),
        Some(None) => "unknown".to_owned(),
        Some(Some(sum)) if sum.requests == 0 => "none".to_owned(),
        Some(Some(sum)) => sum.words(),
    }
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

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_explain::{Layer, Phases, Slow};

    use super::*;

    #[test]
    fn what_is_not_known_is_neither_none_nor_no_disk() {
        let of = |in_front| OutlierVerdict {
            slow: Slow {
                worker: 0,
                op: OpKind::Read,
                intended_ns: 0,
                submit_ns: 0,
                complete_ns: 20_000_000,
            },
            token: None,
            layer: Layer::Device,
            excess_ns: 0,
            sure: false,
            rules: Default::default(),
            always: false,
            behind_ns: None,
            phases: Phases::default(),
            in_front,
        };
        let sum = |requests| RequestSum { requests, bytes: 80 << 20, at_least: true };
        let cell = |own| in_front(&of(Some(InFront { own, others: None })), |front| front.own);
        assert_eq!(cell(Some(sum(3))), "at least 3 requests, 80.0 MiB");
        assert_eq!(cell(Some(RequestSum::default())), "none");
        assert_eq!(cell(None), "unknown");
        assert_eq!(in_front(&of(None), |front| front.own), "-");
    }
}
