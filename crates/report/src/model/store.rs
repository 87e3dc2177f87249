//! What the target's own statistics say, in one line.

use taillight_rundir::Summary;

use crate::format;

/// Space amplification is a guess of the store at what is live.
const SPACE: &str = "space amplification, as RocksDB estimates,";

/// What a person wants to know of it first, in one line; none without statistics.
pub fn words(summary: &Summary) -> Option<String> {
    let rise = |name: &str| summary.store.get(name)?.rise;
    let level = |name: &str| summary.store.get(name).copied();
    let mut parts = Vec::new();
    if let Some(ns) = rise("stall_ns_total") {
        let of = summary.totals.duration_ns.max(1) as f64;
        parts.push(match ns > 0.0 {
            true => format!(
                "writes held back for {} ({} of the time)",
                format::duration(ns),
                format::percent(ns / of)
            ),
            false => "no writes held back".to_owned(),
        });
    }
    let bytes = |value: f64| format::bytes(value.max(0.0) as u64);
    if let Some(written) = rise("compaction_written_bytes_total") {
        parts.push(format!("compaction wrote {}", bytes(written)));
    }
    if let Some(most) = level("pending_compaction_bytes").and_then(|f| f.max) {
        parts.push(format!("at most {} pending", bytes(most)));
    }
    if let Some(most) = level("level0_files").and_then(|f| f.max) {
        parts.push(format!("at most {most:.0} level-0 files"));
    }
    for (what, hits, misses) in HITS {
        if let (Some(hits), Some(misses)) = (rise(hits), rise(misses))
            && hits + misses > 0.0
        {
            let share = format::percent(hits / (hits + misses));
            parts.push(format!("{what} {share}"));
        }
    }
    for (what, name) in
        [("write amplification", "write_amplification"), (SPACE, "space_amplification")]
    {
        if let Some(last) = level(name).and_then(|f| f.last).filter(|v| *v > 0.0) {
            parts.push(format!("{what} {}", format::digits3(last)));
        }
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Shares of hits: words, hits, misses.
pub const HITS: [(&str, &str, &str); 2] = [
    ("block cache hits", "block_cache_hits_total", "block_cache_misses_total"),
    ("keys found", "keyspace_hits_total", "keyspace_misses_total"),
];
