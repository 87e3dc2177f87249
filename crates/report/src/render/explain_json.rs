//! An explanation for programs: `taillight explain RUN --json`. Every outlier with its verdict.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use taillight_rundir::trace_info::TraceInfo;

use taillight_explain::{
    Blocked, Culprit, EpisodeView, Explanation, InFront, Layer, LayerShare, OutlierVerdict,
    Pattern, PauseSums, Phase, PhaseLevel, Phases, RuleEffect,
};

/// Lengths by phase, ns; phases of no length are left out.
type PhaseLengths = BTreeMap<&'static str, u64>;

/// Everything; fields are added, never renamed.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainFile<'a> {
    /// 1.
    schema: u32,
    trace: &'a TraceInfo,
    /// From which latency on an I/O is an outlier, by kind of operation, ns.
    thresholds_ns: BTreeMap<&'static str, u64>,
    outliers: u64,
    /// Of them without evidence.
    lacking: u64,
    coverage: CoverageCounts,
    /// How often, and how long, a JVM had stopped its threads while measuring; null where there is none.
    pauses: Option<PauseSums>,
    /// By layer, most outliers first.
    layers: &'a [LayerShare],
    /// The tracing backend.
    rung: &'static str,
    blocked: &'a Blocked,
    /// Of a tracing backend that is no more: always null.
    counters: Option<u64>,
    /// Mean of the traced I/Os within 5 % of some percentiles.
    levels: Vec<Level>,
    episodes: Vec<ExplainedEpisode<'a>>,
    /// What several episodes of a layer have in common.
    patterns: &'a [Pattern],
    ios: Vec<ExplainedOutlier>,
}

/// How traced I/Os were matched with what was seen below.
#[derive(Debug, Serialize, JsonSchema)]
struct CoverageCounts {
    traced: u64,
    /// Seen from end to end.
    matched: u64,
    /// Seen in part.
    unsplit: u64,
    /// Of these without a part that was surely theirs.
    unclear: u64,
    /// Without block I/O of their own.
    without: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Level {
    op: &'static str,
    percentile: &'static str,
    latency_ns: u64,
    ios: u64,
    phases: PhaseLengths,
}

/// Outliers that belong together.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedEpisode<'a> {
    /// CLOCK_MONOTONIC ns.
    start_ns: i64,
    end_ns: i64,
    ios: u64,
    /// The slowest, ns.
    worst_ns: u64,
    layer: Layer,
    /// `sure` or `likely`; null for `mixed` and `unknown`.
    certainty: Option<&'static str>,
    /// Excess over the usual, all layers, ns.
    excess_ns: u64,
    /// Share of it that the layer holds, 0 to 1.
    share: f64,
    /// What was seen, in words.
    evidence: &'a [String],
    /// What stood in the way.
    culprits: &'a [Culprit],
    /// What confirms or mends it.
    next: &'a str,
}

/// One outlier.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedOutlier {
    worker: u16,
    op: &'static str,
    intended_ns: i64,
    submit_ns: i64,
    complete_ns: i64,
    token: Option<u64>,
    layer: Layer,
    /// Excess of the layer, ns.
    excess_ns: u64,
    /// Whether the certainty is `sure`.
    sure: bool,
    /// `sure` or `likely`; null for `mixed` and `unknown`.
    certainty: Option<&'static str>,
    /// Rules that the layer's time is from, beside the I/O's own stamps and sleeps.
    rules: Vec<&'static str>,
    /// Such I/Os usually take longer than the threshold: the layer is where their time always goes.
    always: bool,
    /// It waited behind an earlier one of its worker, whose cause this is and which took so long, ns.
    behind_ns: Option<u64>,
    phases: PhaseLengths,
    /// What stood at its disk in front of it when it was queued there; null where it was seen at no disk.
    in_front: Option<InFront>,
}

/// All verdicts of a run, and for each rule those that change without it.
pub fn without_each(all: &[OutlierVerdict], effects: &[RuleEffect]) -> Value {
    let list = |ios: &[OutlierVerdict]| ios.iter().map(outlier).collect::<Vec<_>>();
    let without: BTreeMap<_, _> = effects.iter().map(|e| (e.rule, list(&e.changed))).collect();
    json!({ "ios": list(all), "without": without })
}

/// JSON Schema of the explanation.
pub fn schema() -> Value {
    schemars::schema_for!(ExplainFile<'_>).to_value()
}

/// The whole explanation.
pub fn value(it: &Explanation) -> Value {
    let c = &it.coverage;
    let file = ExplainFile {
        schema: 1,
        trace: &it.info,
        thresholds_ns: it.thresholds.iter().map(|(op, ns)| (op.name(), *ns)).collect(),
        outliers: it.outliers,
        lacking: it.lacking,
        coverage: CoverageCounts {
            traced: c.traced,
            matched: c.matched,
            unsplit: c.unsplit,
            unclear: c.unclear,
            without: c.without,
        },
        pauses: it.pauses,
        layers: &it.layers,
        rung: it.info.backend.name(),
        blocked: &it.blocked,
        counters: None,
        levels: it.levels.iter().map(level).collect(),
        episodes: it.episodes.iter().map(episode).collect(),
        patterns: &it.patterns,
        ios: it.ios.iter().map(outlier).collect(),
    };
    serde_json::to_value(file).unwrap_or_default()
}

fn level(l: &PhaseLevel) -> Level {
    Level {
        op: l.op.name(),
        percentile: l.p,
        latency_ns: l.ns,
        ios: l.ios,
        phases: phases(&l.phases),
    }
}

fn episode(e: &EpisodeView) -> ExplainedEpisode<'_> {
    ExplainedEpisode {
        start_ns: e.start_ns,
        end_ns: e.end_ns,
        ios: e.ios,
        worst_ns: e.worst_ns,
        layer: e.layer,
        certainty: e.certainty(),
        excess_ns: e.excess_ns,
        share: e.share,
        evidence: &e.evidence,
        culprits: &e.culprits,
        next: &e.next,
    }
}

fn outlier(v: &OutlierVerdict) -> ExplainedOutlier {
    ExplainedOutlier {
        worker: v.slow.worker,
        op: v.slow.op.name(),
        intended_ns: v.slow.intended_ns,
        submit_ns: v.slow.submit_ns,
        complete_ns: v.slow.complete_ns,
        token: v.token,
        layer: v.layer,
        excess_ns: v.excess_ns,
        sure: v.sure,
        certainty: v.certainty(),
        rules: v.rules.names().collect(),
        always: v.always,
        behind_ns: v.behind_ns,
        phases: phases(&v.phases),
        in_front: v.in_front,
    }
}

fn phases(phases: &Phases) -> PhaseLengths {
    let some = Phase::ALL.into_iter().filter(|p| phases.get(*p) > 0);
    some.map(|p| (p.name(), phases.get(p))).collect()
}
