//! An explanation for programs: `taillight explain RUN --json`. Every outlier with its verdict.

use serde_json::{Map, Value, json};

use crate::attribution::{EpisodeView, Explanation, OutlierVerdict, Phase, PhaseLevel, Phases};

/// The whole explanation; fields are added, never renamed.
pub fn value(it: &Explanation) -> Value {
    let thresholds: Map<String, Value> =
        it.thresholds.iter().map(|(op, ns)| (op.name().to_owned(), json!(ns))).collect();
    json!({
        "schema": 1,
        "trace": it.info,
        "thresholds_ns": thresholds,
        "outliers": it.outliers,
        "lacking": it.lacking,
        "coverage": {
            "traced": it.coverage.traced,
            "matched": it.coverage.matched,
            "unsplit": it.coverage.unsplit,
            "unclear": it.coverage.unclear,
            "without": it.coverage.without,
        },
        "layers": it.layers,
        "rung": it.info.backend.name(),
        "blocked": it.blocked,
        // Of a tracing backend that is no more.
        "counters": null,
        "levels": it.levels.iter().map(level).collect::<Vec<_>>(),
        "episodes": it.episodes.iter().map(episode).collect::<Vec<_>>(),
        "ios": it.ios.iter().map(io).collect::<Vec<_>>(),
    })
}

/// Mean of the traced I/Os within 5 % of a percentile.
fn level(l: &PhaseLevel) -> Value {
    json!({
        "op": l.op.name(),
        "percentile": l.p,
        "latency_ns": l.ns,
        "ios": l.ios,
        "phases": phases(&l.phases),
    })
}

fn episode(e: &EpisodeView) -> Value {
    json!({
        "start_ns": e.start_ns,
        "end_ns": e.end_ns,
        "ios": e.ios,
        "worst_ns": e.worst_ns,
        "layer": e.layer,
        "excess_ns": e.excess_ns,
        "share": e.share,
        "evidence": e.evidence,
    })
}

fn io(v: &OutlierVerdict) -> Value {
    json!({
        "worker": v.slow.worker,
        "op": v.slow.op.name(),
        "intended_ns": v.slow.intended_ns,
        "submit_ns": v.slow.submit_ns,
        "complete_ns": v.slow.complete_ns,
        "token": v.token,
        "layer": v.layer,
        "excess_ns": v.excess_ns,
        "sure": v.sure,
        "phases": phases(&v.phases),
    })
}

fn phases(phases: &Phases) -> Value {
    let some = Phase::ALL.into_iter().filter(|p| phases.get(*p) > 0);
    some.map(|p| (p.name().to_owned(), json!(phases.get(p)))).collect::<Map<String, Value>>().into()
}
