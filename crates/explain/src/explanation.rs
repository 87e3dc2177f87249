//! Why the tail is slow: what attribution found, for the model and the renderers.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::OpKind;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::summary::Cause;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};

use crate::episodes::EpisodeView;
use crate::episodes::patterns::Pattern;
use crate::events::Events;
use crate::phase::Phases;
use crate::traced_run::Coverage;
use crate::verdict::judge::{Layer, OutlierVerdict};

/// Everything said about the causes of one run's tail.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// How it was traced.
    pub info: TraceInfo,
    /// Where the run's figures come from.
    pub origin: RunOrigin,
    /// Latency above which an I/O is an outlier, by kind of operation, ns.
    pub thresholds: BTreeMap<OpKind, u64>,
    /// The percentiles they are, where they were not given.
    pub percentiles: BTreeMap<OpKind, String>,
    /// Whether the thresholds were given, not computed.
    pub given: bool,
    /// Outliers in `ios.parquet`.
    pub outliers: u64,
    /// Of them without evidence, and those that were counted only.
    pub lacking: u64,
    /// By layer, most I/Os first.
    pub layers: Vec<LayerShare>,
    /// Outliers that belong together, by time.
    pub episodes: Vec<EpisodeView>,
    /// What several of them have in common.
    pub patterns: Vec<Pattern>,
    /// Where the time goes at some percentiles.
    pub levels: Vec<PhaseLevel>,
    /// How well I/Os were matched.
    pub coverage: Coverage,
    /// Pauses of the target from the measure phase on; none where it told of none.
    pub pauses: Option<PauseSums>,
    /// I/Os were traced, and there is none of them in the run directory.
    pub gone: bool,
    /// Why the samples of the machine cannot be read, if so.
    pub unread_samples: Option<String>,
    /// Outliers with their verdicts, in file order: the first `SLOW_MAX`; the rest is counted only.
    pub ios: Vec<OutlierVerdict>,
    /// Outliers that were blocked in the kernel, without being seen by what.
    pub blocked: Blocked,
    /// Begin of the measure phase, CLOCK_MONOTONIC ns; none in old runs.
    pub begun_ns: Option<i64>,
}

/// Outliers of layer unknown that spent more time blocked in the kernel than unobserved (backend perf sees no more).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Blocked {
    pub outliers: u64,
    /// Their time from submit to completion, ns.
    pub time_ns: u64,
    /// Of it blocked, ns.
    pub blocked_ns: u64,
}

/// How often, and how long, the target had stopped its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct PauseSums {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

impl PauseSums {
    /// Those that ended after the begin of the measure phase.
    pub(super) fn of(events: &Events, measured_ns: i64) -> PauseSums {
        let mut sums = PauseSums::default();
        for pause in events.pauses.all().iter().filter(|pause| pause.end_ns > measured_ns) {
            let ns = (pause.end_ns - pause.start_ns).max(0).unsigned_abs();
            sums.count += 1;
            sums.total_ns += ns;
            sums.longest_ns = sums.longest_ns.max(ns);
        }
        sums
    }
}

/// A layer's part in the outliers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LayerShare {
    pub layer: Layer,
    /// Outliers blamed on it.
    pub outliers: u64,
    /// Their excess in this layer, ns; of mixed ones in all layers.
    pub excess_ns: u64,
    /// Of them sure; the others are likely, where the layer is a named one.
    pub sure: u64,
}

impl LayerShare {
    /// Of them named, but not sure.
    pub fn likely(&self) -> u64 {
        match self.layer {
            Layer::Unknown | Layer::Mixed => 0,
            _ => self.outliers - self.sure,
        }
    }
}

/// Mean phases of the traced I/Os around one percentile.
#[derive(Debug, Clone)]
pub struct PhaseLevel {
    pub op: OpKind,
    /// The percentile.
    pub p: &'static str,
    /// Its latency, ns.
    pub ns: u64,
    /// I/Os that were averaged.
    pub ios: u64,
    /// Mean lengths, ns.
    pub phases: Phases,
}

impl Explanation {
    /// Whether it can name a cause: where only the target's pauses are known, whether an outlier is blamed on one.
    pub fn tells(&self) -> bool {
        let paused = |share: &LayerShare| share.layer == Layer::JvmPause;
        self.info.backend != TracingBackend::Pauses || self.layers.iter().any(paused)
    }

    /// For `summary.json`.
    pub fn causes(&self) -> Vec<Cause> {
        self.layers.iter().map(cause).collect()
    }

    /// The same of the judged outliers of these workers whose response took longer than `ns`.
    pub fn causes_over(&self, ns: u64, workers: &Range<u32>) -> Vec<Cause> {
        let over = |v: &&OutlierVerdict| {
            let response = v.slow.complete_ns.saturating_sub(v.slow.intended_ns).max(0) as u64;
            response > ns && workers.contains(&v.slow.worker.into())
        };
        shares(self.ios.iter().filter(over), 0).iter().map(cause).collect()
    }
}

fn cause(share: &LayerShare) -> Cause {
    Cause {
        layer: share.layer.name().to_owned(),
        outliers: share.outliers,
        excess_ns: share.excess_ns,
        sure: share.sure == share.outliers,
    }
}

/// Outliers by layer, most first; `more` are without a verdict.
pub(super) fn shares<'a>(
    verdicts: impl Iterator<Item = &'a OutlierVerdict>,
    more: u64,
) -> Vec<LayerShare> {
    let mut count = ShareCount::default();
    verdicts.for_each(|one| count.add(one));
    count.unjudged(more);
    count.list()
}

/// Outliers, counted by layer.
#[derive(Debug, Clone, Default)]
pub(super) struct ShareCount(BTreeMap<Layer, LayerShare>);

impl ShareCount {
    fn of(&mut self, layer: Layer) -> &mut LayerShare {
        let empty = LayerShare { layer, outliers: 0, excess_ns: 0, sure: 0 };
        self.0.entry(layer).or_insert(empty)
    }

    pub fn add(&mut self, one: &OutlierVerdict) {
        let share = self.of(one.layer);
        share.outliers += 1;
        share.excess_ns += one.excess_ns;
        share.sure += u64::from(one.sure);
    }

    /// Counts outliers without a verdict, as `Unknown`.
    pub fn unjudged(&mut self, more: u64) {
        if more > 0 {
            self.of(Layer::Unknown).outliers += more;
        }
    }

    /// Most first.
    fn list(&self) -> Vec<LayerShare> {
        let mut list: Vec<LayerShare> = self.0.values().copied().collect();
        list.sort_by_key(|s| (std::cmp::Reverse(s.outliers), s.layer));
        list
    }

    /// The same, as in `summary.json`.
    pub fn causes(&self) -> Vec<Cause> {
        self.list().iter().map(cause).collect()
    }
}
