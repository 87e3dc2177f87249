//! An explanation as text, for `taillight explain`.

use crate::attribution::{Explanation, Phase};
use crate::format::{self, Script};
use crate::model::sentences;
use crate::table::paragraph;

/// Episodes listed singly.
const EPISODES: usize = 10;

/// Everything for `taillight explain`.
pub fn text(it: &Explanation, start_ns: i64) -> String {
    let mut out = String::new();
    for line in sentences(it, Script::Plain) {
        out.push_str(&paragraph(&line));
    }
    let time = |ns: u64| format::duration_ns(ns, Script::Plain);
    if !it.layers.is_empty() {
        out.push_str("\nlayer          outliers   share      excess       sure   likely\n");
    }
    for l in &it.layers {
        let share = format::percent(l.outliers as f64 / it.outliers.max(1) as f64);
        out.push_str(&format!(
            "{:<14} {:>8}  {share:>6}  {:>10} {:>10} {:>8}\n",
            l.layer.name(),
            format::count(l.outliers),
            time(l.excess_ns),
            format::count(l.sure),
            format::count(l.likely())
        ));
    }
    if !it.episodes.is_empty() {
        out.push_str("\nEpisodes, the heaviest first:\n");
    }
    let mut heavy: Vec<_> = it.episodes.iter().collect();
    heavy.sort_by_key(|e| std::cmp::Reverse(e.excess_ns));
    for e in heavy.iter().take(EPISODES) {
        let at = (e.start_ns - start_ns) as f64 / 1e9;
        let span = (e.end_ns - e.start_ns).max(0) as u64;
        out.push_str(&format!(
            "  at {at:.3} s, {} long: {}, {}{}\n",
            time(span),
            e.size(Script::Plain),
            e.blame(),
            e.certainty().map_or(String::new(), |c| format!(" ({c})"))
        ));
        for line in &e.evidence {
            out.push_str(&format!("    - {line}\n"));
        }
        out.push_str(&format!("    next: {}\n", e.next));
    }
    if heavy.len() > EPISODES {
        let more = format::counted((heavy.len() - EPISODES) as u64, "lighter one");
        out.push_str(&format!("  and {more}; all with --json\n"));
    }
    levels(it, &mut out);
    out
}

fn levels(it: &Explanation, out: &mut String) {
    if it.levels.is_empty() {
        return;
    }
    out.push_str("\nWhere the time goes (mean of the traced I/Os within 5 % of a percentile):\n");
    let time = |ns: u64| format::duration_ns(ns, Script::Plain);
    for level in &it.levels {
        let mut parts: Vec<_> = Phase::ALL
            .into_iter()
            .map(|p| (level.phases.get(p), p))
            .filter(|(ns, _)| *ns * 100 >= level.ns)
            .collect();
        parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
        let text: Vec<String> =
            parts.iter().map(|(ns, p)| format!("{} {}", p.words(), time(*ns))).collect();
        out.push_str(&format!(
            "  {} {} % ({}, {} I/Os): {}\n",
            level.op.name(),
            level.p,
            time(level.ns),
            format::count(level.ios),
            text.join(", ")
        ));
    }
}
