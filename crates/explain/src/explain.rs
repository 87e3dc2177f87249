//! Explains the outliers of a run for its report: reads the trace, judges the slow I/Os (the first `SLOW_MAX`; more are
//! counted only), groups them. Beside that, what each rule is for (`taillight explain --without each`, for the lab),
//! and time lines for the export to Perfetto.

use std::collections::BTreeMap;

use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::host::HostTrack;
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::summary::Summary;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};
use taillight_rundir::watched::watched;
use taillight_rundir::{RunDir, names};

use crate::episodes::host_signs;
use crate::episodes::patterns::common_data::{DataScale, KeyParts, is_steady};
use crate::episodes::patterns::{PatternScale, patterns};
use crate::episodes::{EpisodeContext, EpisodeView, episodes};
use crate::events::Events;
use crate::events::context::IoContext;
use crate::events::slow::{OperationData, Slow, SlowIos, has_every_io, measured_from, slow_ios};
use crate::events::{pages, rounds};
use crate::explanation::{Blocked, Explanation, PauseSums, PhaseLevel, shares};
use crate::phase::{Phase, Phases};
use crate::time_line::phased::PhasedIo;
use crate::time_line::segments::Segment;
use crate::time_line::workers;
use crate::traced_run::{self, IoWithRounds, TracedRun, Visibility};
use crate::verdict::baseline::Baseline;
use crate::verdict::judge::{JudgeInputs, Judged, Layer, OutlierVerdict, judge};
use crate::verdict::{backlog, in_front};
use crate::wait_graph::{self, pauses, resolve};

/// Percentiles that are shown as stacks of phases.
const LEVELS: [&str; 4] = ["50", "99", "99.9", "99.99"];

/// What is known of a run beside its trace.
#[derive(Debug, Clone, Default)]
pub struct ExplainInputs<'a> {
    /// Samples of the machine.
    pub host: &'a [HostTrack],
    /// Why these could not be read, if so.
    pub unread_samples: Option<String>,
    /// Name of a rule (`is_rule`) that is not applied; an unknown one has no effect.
    pub left_out: Option<&'a str>,
}

/// Explains the outliers of a run. `None` where the manifest has no trace and the target told of no pauses; the
/// manifest has one, too, where tracing was asked for and not possible: the explanation then says so. Errors: `Corrupt`
/// when a file is damaged, or `ios.parquet` is missing although I/Os were captured.
pub fn explain(
    dir: &RunDir,
    summary: &Summary,
    inputs: ExplainInputs<'_>,
) -> Result<Option<Explanation>> {
    let Some(info) = known_by(dir) else {
        return Ok(None);
    };
    has_ios(dir)?;
    let OutlierThresholds { ns: thresholds, percentiles, given } = thresholds(dir, summary);
    let slow = slow_ios(dir, &thresholds)?;
    let mut loaded = load(dir, &info, &slow.ios)?;
    loaded.events.left_out = inputs.left_out.map(str::to_owned);
    let traced = std::mem::take(&mut loaded.slow);
    let base = baseline(&info, &loaded, summary);
    let mut judged = judge_loaded(dir, &loaded, traced, &slow.ios, &base, &thresholds);
    backlog::inherit(&mut judged);
    in_front::find(&mut judged, dir, &loaded.events, &info)?;
    let ios: Vec<_> = judged.iter().map(|j| j.verdict).collect();
    let layers = shares(judged.iter().map(|j| &j.verdict), slow.more);
    let blocked = blocked(&judged);
    let lacking = judged.iter().filter(|j| j.is_untraced()).count() as u64;
    let around = host_signs::HostSigns::watching(inputs.host);
    let origin = &dir.manifest().origin;
    // Advice alone asks for them: without them a thread of the program is one of any other.
    let watched = watched(dir).ok().flatten().map_or_else(Vec::new, |it| it.pids);
    let seen = EpisodeContext {
        events: &loaded.events,
        info: &info,
        origin,
        watched: &watched,
        around: &around,
    };
    let episodes = episodes(judged, &seen);
    let scale = pattern_scale(dir, summary, &loaded, &slow, &episodes)?;
    Ok(Some(Explanation {
        thresholds,
        percentiles,
        given,
        outliers: ios.len() as u64 + slow.more,
        lacking: lacking + slow.more,
        layers,
        blocked,
        begun_ns: Some(measured_from(dir)).filter(|ns| *ns != i64::MIN),
        levels: levels(&loaded.phased, summary),
        coverage: loaded.coverage,
        pauses: dir
            .existing(names::PAUSES)
            .map(|_| PauseSums::of(&loaded.events, measured_from(dir))),
        gone: loaded.events.gone,
        unread_samples: inputs.unread_samples,
        ios,
        patterns: patterns(&episodes, &scale),
        episodes,
        origin: origin.clone(),
        info,
    }))
}

/// How a run was traced. Where nothing was traced, and the target (a JVM) told of its pauses, these stand in for a
/// trace (`TracingBackend::Pauses`). None where the manifest has no trace and there is no file of pauses.
fn known_by(dir: &RunDir) -> Option<TraceInfo> {
    let traced = dir.manifest().trace.clone();
    let blind = traced.as_ref().is_none_or(|info| info.backend == TracingBackend::None);
    if !blind || dir.existing(names::PAUSES).is_none() {
        return traced;
    }
    let plan = &dir.manifest().plan;
    let info = TraceInfo::new(plan.trace.mode, TracingBackend::Pauses, plan.outlier_ns());
    Some(TraceInfo { why: traced.and_then(|info| info.why), ..info })
}

/// The usual times: of traced I/Os, or from median latencies where pauses stand in for a trace.
fn baseline(info: &TraceInfo, loaded: &TracedRun, summary: &Summary) -> Baseline {
    match info.backend {
        TracingBackend::Pauses => Baseline::of_medians(summary),
        _ => Baseline::of(&loaded.phased),
    }
}

fn has_ios(dir: &RunDir) -> Result<()> {
    match dir.manifest().capture.kept > 0 && dir.existing(names::IOS).is_none() {
        true => Err(Error::corrupt("ios.parquet is missing: which I/Os were slow is not known")),
        false => Ok(()),
    }
}

/// What the verdicts of a run are without one rule.
#[derive(Debug, Clone)]
pub struct RuleEffect {
    pub rule: &'static str,
    /// Verdicts without the rule, where layer or certainty differ from those with all rules.
    pub changed: Vec<OutlierVerdict>,
}

/// The verdicts of a run with all rules, and for each rule those that change without it. `None` as of [`explain()`],
/// and where the summary was not made yet. Errors: as [`explain()`].
pub fn without_each(dir: &RunDir) -> Result<Option<(Vec<OutlierVerdict>, Vec<RuleEffect>)>> {
    let (Some(info), Some(summary)) = (known_by(dir), dir.read::<Summary>()?) else {
        return Ok(None);
    };
    has_ios(dir)?;
    let thresholds = thresholds(dir, &summary).ns;
    let slow = slow_ios(dir, &thresholds)?.ios;
    let mut loaded = load(dir, &info, &slow)?;
    let base = baseline(&info, &loaded, &summary);
    let mut verdicts = |left_out: Option<&str>| -> Vec<OutlierVerdict> {
        loaded.events.left_out = left_out.map(str::to_owned);
        let traced = loaded.slow.clone();
        let mut judged = judge_loaded(dir, &loaded, traced, &slow, &base, &thresholds);
        backlog::inherit(&mut judged);
        judged.iter().map(|j| j.verdict).collect()
    };
    let all = verdicts(None);
    let effect = |rule| {
        let without = verdicts(Some(rule)).into_iter().zip(&all);
        let changed = without.filter(|(one, was)| (one.layer, one.sure) != (was.layer, was.sure));
        RuleEffect { rule, changed: changed.map(|(one, _)| one).collect() }
    };
    let effects = wait_graph::names().map(effect).collect();
    Ok(Some((all, effects)))
}

/// The time line of each of `ios`, in their order, without segments where an I/O was not traced and met no pause; empty
/// where [`explain()`] gives `None`. Errors: `Corrupt` when a file is damaged.
pub fn time_lines(dir: &RunDir, ios: Vec<Slow>) -> Result<Vec<(Slow, Vec<Segment>)>> {
    let Some(info) = known_by(dir) else {
        return Ok(Vec::new());
    };
    let mut loaded = load(dir, &info, &ios)?;
    let traced = std::mem::take(&mut loaded.slow);
    let base = Baseline::of(&loaded.phased);
    let judged = judge_loaded(dir, &loaded, traced, &ios, &base, &BTreeMap::new());
    Ok(judged.into_iter().map(|j| (j.slow, j.segments)).collect())
}

/// Reads what was traced of a run with these slow I/Os, and the target's pauses. Errors: `Corrupt` when a
/// file is damaged.
fn load(dir: &RunDir, info: &TraceInfo, slow: &[Slow]) -> Result<TracedRun> {
    let threads_only = info.backend == TracingBackend::Perf;
    let watched = info.backend == TracingBackend::TracePoints && info.saw("sched_switch");
    let sight =
        Visibility { blind: !threads_only && (!watched || info.events_lost > 0), threads_only };
    let keys = slow.iter().map(|s| (u64::from(s.worker), s.submit_ns)).collect();
    match dir.existing(names::LAYERS) {
        Some(_) => traced_run::read(dir, info.kept, &keys, sight),
        None => {
            let mut loaded = TracedRun::empty(info.kept);
            traced_run::add_pauses(dir, &mut loaded.events)?;
            Ok(loaded)
        }
    }
}

/// Judges slow I/Os: as they are in `traced`, and by other I/Os that they may have waited for.
fn judge_loaded(
    dir: &RunDir,
    loaded: &TracedRun,
    mut traced: BTreeMap<(u64, i64), IoWithRounds>,
    slow: &[Slow],
    base: &Baseline,
    thresholds: &BTreeMap<OpKind, u64>,
) -> Vec<Judged> {
    let events = &loaded.events;
    let pages = pages::Pages::of(dir, traced.values().map(|t| &t.io));
    let judged = slow.iter().map(|slow| {
        let threshold_ns = thresholds.get(&slow.op).copied();
        let by = JudgeInputs { base: Some(base), context: None, threshold_ns };
        match traced.remove(&(u64::from(slow.worker), slow.submit_ns)) {
            None => {
                let beside = IoContext::of(events, u64::from(slow.worker));
                judge(*slow, None, pauses::untraced(slow, &beside), &by)
            }
            Some(found) => judge_traced(*slow, found, events, &pages, &by),
        }
    });
    let mut judged: Vec<Judged> = judged.collect();
    let own = judged.len();
    let beside = |one: &IoWithRounds| {
        let by = JudgeInputs { base: Some(base), ..JudgeInputs::default() };
        judge_traced(one.slow(), one.clone(), events, &pages, &by)
    };
    judged.extend(loaded.beside.iter().map(beside));
    let asked = |i: usize, _: &Judged| i < own;
    follow(&mut judged, asked, events, &pages, base, &|op| thresholds.get(&op).copied());
    judged.truncate(own);
    judged
}

/// Where one of the slow I/Os `asked` for (by number) waited for another one, takes over what the other one waited for,
/// and judges the slow I/O again.
pub(super) fn follow(
    judged: &mut [Judged],
    asked: impl Fn(usize, &Judged) -> bool,
    events: &Events,
    pages: &pages::Pages,
    base: &Baseline,
    threshold_ns: &dyn Fn(OpKind) -> Option<u64>,
) {
    resolve::follow(judged, asked, events, |slow, io, segments| {
        let threshold_ns = threshold_ns(slow.op);
        let by = JudgeInputs { base: Some(base), context: None, threshold_ns };
        let beside = IoContext::of(events, u64::from(slow.worker));
        let asleep = |io| workers::own_off(io, &beside);
        let worker_off = io.as_ref().map(asleep).unwrap_or_default();
        let page_ns = io.as_ref().and_then(|io| pages.read_by_another(io));
        let context = IoContext { page_ns, worker_off: &worker_off, ..beside };
        judge(slow, io, Some(segments), &JudgeInputs { context: Some(&context), ..by })
    });
}

/// How the run usually is; the presence of culprits only where the trace lost and forgot no event. Errors: `Corrupt`
/// when `ios.parquet` is damaged.
fn pattern_scale(
    dir: &RunDir,
    summary: &Summary,
    loaded: &TracedRun,
    slow: &SlowIos,
    episodes: &[EpisodeView],
) -> Result<PatternScale> {
    let spacing_ns = (summary.totals.duration_ns / summary.totals.count.max(1)) as i64;
    let scale = PatternScale {
        data: data_scale(dir, slow, episodes)?,
        ..PatternScale::of(&loaded.phased, placed(dir), spacing_ns, &loaded.events)
    };
    let whole = |info: &TraceInfo| info.events_forgotten + info.events_lost == 0;
    Ok(match dir.manifest().trace.as_ref().is_some_and(whole) {
        true => scale.with_presence(episodes, &loaded.moments, &loaded.events),
        false => scale,
    })
}

/// Counts which data the run's successful operations after the warm-up were of, where slow ones have some in common.
/// Nothing where the run was not measured in one process, where `ios.parquet` lacks some, or where a workload does not
/// draw its data at random and alike all the time. Errors: as [`pattern_scale`].
fn data_scale(dir: &RunDir, slow: &SlowIos, episodes: &[EpisodeView]) -> Result<DataScale> {
    let plan = &dir.manifest().plan;
    let same = dir.manifest().origin.is_measured() && draws(plan) && is_steady(plan);
    let Some(path) = dir.existing(names::IOS).filter(|_| same && has_every_io(dir)) else {
        return Ok(DataScale::default());
    };
    let mut scale = DataScale::asking(episodes, slow, KeyParts::of(plan));
    if scale.asks_nothing() {
        return Ok(scale);
    }
    let times = ColumnSet::PHASE | ColumnSet::SUBMIT | ColumnSet::COMPLETE;
    let columns = OperationData::columns() | ColumnSet::OP | ColumnSet::STATUS | times;
    read_ios(&path, columns, &mut |batch| {
        let measured = |i: &usize| batch.status(*i).is_ok() && batch.phase_name(*i) != "warmup";
        for i in (0..batch.rows).filter(measured) {
            let took_ns = batch.complete(i).saturating_sub(batch.submit(i)).max(0).unsigned_abs();
            scale.count(batch.op(i), &OperationData::of(batch, i), took_ns);
        }
        Ok(())
    })?;
    Ok(scale)
}

/// Whether all workloads draw at random what each operation is of.
fn draws(plan: &Plan) -> bool {
    plan.workloads.iter().all(|w| w.access.kind.draws() && w.trace.is_none())
}

/// Whether slow I/Os may be compared by place: all offsets lie in one file, and every workload draws them at random.
fn placed(dir: &RunDir) -> bool {
    let manifest = dir.manifest();
    draws(&manifest.plan) && manifest.driver_facts().single_file
}

/// Judges a slow I/O by what was seen of it.
pub(super) fn judge_traced(
    slow: Slow,
    found: IoWithRounds,
    events: &Events,
    pages: &pages::Pages,
    by: &JudgeInputs<'_>,
) -> Judged {
    let IoWithRounds { io, earlier } = found;
    let page_ns = pages.read_by_another(&io);
    let beside = IoContext::of(events, u64::from(slow.worker));
    let worker_off = workers::own_off(&io, &beside);
    let queued_ns = rounds::longest_queued_ns(&io, &earlier);
    let context = IoContext {
        usual: by.base.map(|base| base.get(slow.op)),
        page_ns,
        earlier: &earlier,
        worker_off: &worker_off,
        stacked: io.lower.dev.as_deref().or(io.dev.as_deref()).map(|dev| events.disks.stacked(dev)),
        ..beside
    };
    let segments = resolve::segments(&io, &context);
    let by = JudgeInputs { context: Some(&context), ..*by };
    let judged = judge(slow, Some(io), Some(segments), &by);
    Judged { shared: page_ns.is_some(), queued_ns, ..judged }
}

/// The latencies, ns, above which an I/O is to be explained: the one given (`outlier_ns`), else of each kind of
/// operation the 99.9th percentile where it is known, else the deepest resolved one. A kind with neither, an operation
/// of several parts and times inside an operation have no outliers.
struct OutlierThresholds {
    ns: BTreeMap<OpKind, u64>,
    /// Which percentile that is, where it was not given.
    percentiles: BTreeMap<OpKind, String>,
    given: bool,
}

fn thresholds(dir: &RunDir, summary: &Summary) -> OutlierThresholds {
    let given = dir.manifest().plan.outlier_ns();
    let mut found = OutlierThresholds {
        ns: BTreeMap::new(),
        percentiles: BTreeMap::new(),
        given: given.is_some(),
    };
    // The parts of an operation are traced and explained each; times inside an operation, with it.
    let asked = |op: &OpKind| op.parts().is_empty() && !op.is_inner();
    for (op, totals) in summary.ops.iter().filter(|(op, _)| asked(op)) {
        if let Some(ns) = given {
            found.ns.insert(*op, ns);
            continue;
        }
        let latency = totals.latencies.main();
        let mut list = latency.percentiles.iter().filter(|p| p.ns.is_some());
        let best = list.clone().find(|p| p.p == "99.9");
        if let Some((p, ns)) =
            best.or_else(|| list.rfind(|p| p.resolved)).and_then(|p| Some((p.p.clone(), p.ns?)))
        {
            found.ns.insert(*op, ns);
            found.percentiles.insert(*op, p);
        }
    }
    found
}

/// Sums over the outliers of layer unknown that were blocked in the kernel for longer than they were unobserved.
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

/// Mean phases of the traced I/Os within 5 % of each percentile's service time; no level where there are none.
fn levels(phased: &[PhasedIo], summary: &Summary) -> Vec<PhaseLevel> {
    let mut levels = Vec::new();
    for (op, totals) in &summary.ops {
        for p in LEVELS {
            let known = totals.latencies.service.percentiles.iter().find(|it| it.p == p);
            let Some(ns) = known.and_then(|it| it.ns) else {
                continue;
            };
            let near = |u: &&PhasedIo| u.op == *op && u.service_ns.abs_diff(ns) <= ns / 20;
            let mut level = PhaseLevel { op: *op, p, ns, ios: 0, phases: Phases::default() };
            for one in phased.iter().filter(near) {
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
