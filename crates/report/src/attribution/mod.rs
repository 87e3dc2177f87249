//! Why the tail is slow: each outlier blamed on a layer, with evidence.
//!
//! What it is: the join of `ios.parquet` (what the program saw) with `layers.parquet` (what the
//! kernel did), one I/O at a time. What it is not: a comparison of maxima of different tools.
//! Every verdict rests on stamps of that very I/O; what was not seen is "unknown".

mod around;
mod blocks;
mod counters;
mod disks;
mod episodes;
mod gaps;
pub mod json;
mod judge;
mod load;
mod neighbours;
mod pages;
mod phase;
mod phases;
pub mod picture;
mod stacks;
mod threads;
pub mod words;
mod workers;

use std::collections::BTreeMap;

use serde::Serialize;
use taillight_core::{OpKind, Result};
use taillight_rundir::summary::{Cause, Summary};
use taillight_rundir::trace_info::{Rung, TraceInfo};
use taillight_rundir::{RunDir, names};

pub use counters::{Counters, Shares};
pub use episodes::EpisodeView;
pub use judge::{Judged, Layer};
pub use load::{Coverage, Slow};
pub use phases::{Phase, Phases, Piece};

use judge::{Baseline, judge};
use load::{Sight, Usual};

/// Percentiles that are shown as stacks of phases.
const LEVELS: [&str; 4] = ["50", "99", "99.9", "99.99"];

/// Everything said about the causes of one run's tail.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// How it was traced.
    pub info: TraceInfo,
    /// From which latency on an I/O is an outlier, by kind of operation, ns.
    pub thresholds: BTreeMap<OpKind, u64>,
    /// The percentiles they are, where they were not given.
    pub percentiles: BTreeMap<OpKind, String>,
    /// Whether the thresholds were given, not computed.
    pub given: bool,
    /// Outliers in `ios.parquet`.
    pub outliers: u64,
    /// Of them without evidence.
    pub lacking: u64,
    /// By layer, most I/Os first.
    pub layers: Vec<LayerShare>,
    /// Outliers that belong together, by time.
    pub episodes: Vec<EpisodeView>,
    /// Where the time goes at some percentiles.
    pub levels: Vec<Level>,
    /// How well I/Os were matched.
    pub coverage: Coverage,
    /// I/Os were traced, and there is none of them in the run directory.
    pub gone: bool,
    /// Every outlier with its verdict, in file order.
    pub ios: Vec<Verdict>,
    /// Outliers that were blocked in the kernel, without being seen by what.
    pub blocked: Blocked,
    /// What the workers did over intervals, on rung procfs.
    pub counters: Option<Counters>,
    /// Begin of the measure phase, CLOCK_MONOTONIC ns; none in old runs.
    pub begun_ns: Option<i64>,
}

/// Outliers whose excess was spent blocked in the kernel, on a rung that sees no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Blocked {
    pub outliers: u64,
    /// Their time from submit to completion, ns.
    pub time_ns: u64,
    /// Of it blocked, ns.
    pub blocked_ns: u64,
}

/// The verdict on one outlier.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    pub slow: Slow,
    /// Its row in the trace: [`LayerRow::token`](taillight_rundir::layers::LayerRow::token).
    pub token: Option<u64>,
    /// The layer to blame.
    pub layer: Layer,
    /// Its excess, ns.
    pub excess_ns: u64,
    /// Every stamp that the verdict rests on was seen.
    pub sure: bool,
    /// Where its service time went; all 0 without evidence.
    pub phases: Phases,
}

/// A layer's part in the outliers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LayerShare {
    pub layer: Layer,
    /// Outliers blamed on it.
    pub outliers: u64,
    /// Their excess in this layer, ns.
    pub excess_ns: u64,
    /// Of them with every stamp seen.
    pub sure: u64,
}

/// Mean phases of the traced I/Os around one percentile.
#[derive(Debug, Clone)]
pub struct Level {
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

/// Explains the outliers of a run; `None` when it was not traced.
///
/// # Errors
/// `Corrupt` when a file is damaged.
pub fn explain(dir: &RunDir, summary: &Summary) -> Result<Option<Explanation>> {
    let Some(info) = dir.manifest().trace.clone() else {
        return Ok(None);
    };
    let Thresholds {
        ns: thresholds,
        percentiles,
        given,
    } = thresholds(dir, summary);
    let threads_only = info.rung == Rung::Perf;
    let watched = info.rung == Rung::TracePoints && info.saw("sched_switch");
    let sight = Sight {
        blind: !threads_only && (!watched || info.events_lost > 0),
        threads_only,
    };
    let mut loaded = match dir.existing(names::LAYERS) {
        Some(_) => load::layers(dir, info.kept, &thresholds, sight)?,
        None => load::Loaded::gone(info.kept),
    };
    let (slow, more) = load::slow_ios(dir, &thresholds)?;
    let base = Baseline::of(&loaded.usual);
    let events = &loaded.events;
    let pages = pages::Pages::of(dir, loaded.slow.values().map(|t| &t.row));
    let traced = &mut loaded.slow;
    let judged: Vec<Judged> = slow
        .into_iter()
        .map(|slow| {
            let found = traced.remove(&(u64::from(slow.worker), slow.submit_ns));
            let page_ns = found.as_ref().and_then(|t| pages.read_by_another(&t.row));
            let pieces = found.as_ref().map(|load::Traced { row, earlier }| {
                let beside = phases::Beside {
                    usual: Some(base.get(slow.op)),
                    page_ns,
                    earlier,
                    ..events.beside(u64::from(slow.worker))
                };
                phases::pieces(row, &beside)
            });
            Judged {
                shared: page_ns.is_some(),
                ..judge(slow, found.map(|t| t.row), pieces, &base)
            }
        })
        .collect();
    let lacking = judged.iter().filter(|j| j.row.is_none()).count() as u64;
    Ok(Some(Explanation {
        thresholds,
        percentiles,
        given,
        outliers: judged.len() as u64 + more,
        lacking: lacking + more,
        layers: shares(&judged, more),
        blocked: blocked(&judged),
        counters: counters::counters(&loaded.events, &judged, load::measured_from(dir)),
        begun_ns: Some(load::measured_from(dir)).filter(|ns| *ns != i64::MIN),
        levels: levels(&loaded.usual, summary),
        coverage: loaded.coverage,
        gone: loaded.events.gone,
        ios: judged.iter().map(Verdict::of).collect(),
        episodes: episodes::episodes(
            judged,
            &episodes::Seen {
                events: &loaded.events,
                info: &info,
                around: &around::Around::of(dir),
            },
        ),
        info,
    }))
}

/// From which latency on an I/O is to be explained.
struct Thresholds {
    ns: BTreeMap<OpKind, u64>,
    /// Which percentile that is, where it was not given.
    percentiles: BTreeMap<OpKind, String>,
    given: bool,
}

fn thresholds(dir: &RunDir, summary: &Summary) -> Thresholds {
    let given = dir.manifest().plan.outlier_ns();
    let mut found = Thresholds {
        ns: BTreeMap::new(),
        percentiles: BTreeMap::new(),
        given: given.is_some(),
    };
    for (op, totals) in &summary.ops {
        if let Some(ns) = given {
            found.ns.insert(*op, ns);
            continue;
        }
        let latency = totals.response.as_ref().unwrap_or(&totals.service);
        let mut list = latency.percentiles.iter().filter(|p| p.ns.is_some());
        let best = list.clone().find(|p| p.p == "99.9");
        if let Some((p, ns)) = best
            .or_else(|| list.rfind(|p| p.resolved))
            .and_then(|p| Some((p.p.clone(), p.ns?)))
        {
            found.ns.insert(*op, ns);
            found.percentiles.insert(*op, p);
        }
    }
    found
}

fn blocked(judged: &[Judged]) -> Blocked {
    let mut sums = Blocked::default();
    for one in judged.iter().filter(|j| j.layer == Layer::Unknown) {
        let blocked = one.phases.get(Phase::Blocked);
        if blocked > one.phases.get(Phase::Unobserved) {
            sums.outliers += 1;
            sums.time_ns += one.phases.sum();
            sums.blocked_ns += blocked;
        }
    }
    sums
}

fn shares(judged: &[Judged], more: u64) -> Vec<LayerShare> {
    let mut by: BTreeMap<Layer, LayerShare> = BTreeMap::new();
    for one in judged {
        let share = by.entry(one.layer).or_insert(LayerShare {
            layer: one.layer,
            outliers: 0,
            excess_ns: 0,
            sure: 0,
        });
        share.outliers += 1;
        share.excess_ns += one.excess_ns;
        share.sure += u64::from(one.sure);
    }
    if more > 0 {
        let unknown = by.entry(Layer::Unknown).or_insert(LayerShare {
            layer: Layer::Unknown,
            outliers: 0,
            excess_ns: 0,
            sure: 0,
        });
        unknown.outliers += more;
    }
    let mut list: Vec<LayerShare> = by.into_values().collect();
    list.sort_by_key(|s| (std::cmp::Reverse(s.outliers), s.layer));
    list
}

/// Mean phases of the traced I/Os within 5 % of each percentile's latency.
fn levels(usual: &[Usual], summary: &Summary) -> Vec<Level> {
    let mut levels = Vec::new();
    for (op, totals) in &summary.ops {
        for p in LEVELS {
            let known = totals.service.percentiles.iter().find(|it| it.p == p);
            let Some(ns) = known.and_then(|it| it.ns) else {
                continue;
            };
            let near = |u: &&Usual| u.op == *op && u.service_ns.abs_diff(ns) <= ns / 20;
            let mut level = Level {
                op: *op,
                p,
                ns,
                ios: 0,
                phases: Phases::default(),
            };
            for one in usual.iter().filter(near) {
                level.ios += 1;
                for (sum, more) in level.phases.0.iter_mut().zip(one.phases.0) {
                    *sum += more;
                }
            }
            if level.ios > 0 {
                level.phases.0.iter_mut().for_each(|sum| *sum /= level.ios);
                levels.push(level);
            }
        }
    }
    levels
}

impl Verdict {
    fn of(it: &Judged) -> Verdict {
        Verdict {
            slow: it.slow,
            token: it.row.as_ref().and_then(|r| r.token),
            layer: it.layer,
            excess_ns: it.excess_ns,
            sure: it.sure,
            phases: it.phases,
        }
    }
}

impl Explanation {
    /// For `summary.json`.
    pub fn causes(&self) -> Vec<Cause> {
        let cause = |s: &LayerShare| Cause {
            layer: s.layer.name().to_owned(),
            outliers: s.outliers,
            excess_ns: s.excess_ns,
            sure: s.sure == s.outliers,
        };
        self.layers.iter().map(cause).collect()
    }
}
