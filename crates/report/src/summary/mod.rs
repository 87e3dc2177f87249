//! From an [`Analysis`] to the `summary.json` (docs/design.md, Fixed names).

mod ceilings;
mod changes;
mod drives;
mod hosts;
mod imported;
mod replayed;
mod store;
mod unmeasured;
mod witness;

use std::collections::{BTreeMap, BTreeSet};

use taillight_core::plan::{Arrival, WorkloadPlan};
use taillight_core::{LatencyKind, LatencyMap, OpKind, Result, Status};
use taillight_rundir::summary::{
    Distribution, ErrorCount, Errors, Outlier, PhaseTotals, SlcFactors, Summary, Totals,
    WorkloadSummary,
};
use taillight_rundir::{SCHEMA_VERSION, Summary as RundirSummary};
use taillight_stats::Dist;

use crate::analyse::dists::{LatencyDists, LatencySample, headline, merged};
use crate::analyse::latency::{self, AskedPercentiles, Origin, per_s};
use crate::analyse::{self, Analysis, IoGroup, IoTally, STATUS_UNKNOWN, SlowestIos, host};
use crate::verdict::{self, saturation, wrong_data};

/// The summary, verdict included; `cause` is left to `make`. Errors: `Corrupt` when counts exceed 64 bits.
pub fn summarise(analysis: &Analysis) -> Result<RundirSummary> {
    let asked = AskedPercentiles::new(
        &analysis.manifest.plan.qos.percentiles,
        analysis.manifest.plan.qos.nines,
    );
    let sets = IoSets::of(analysis)?;
    let view = SummaryBuilder { analysis, asked: &asked };
    let mut losses = analysis.manifest.losses.clone();
    let counts = &analysis.counts;
    // What the recorder counted and the capture lacks is lost, even if no loss was noted in the run.
    if analysis.origin == Origin::CAPTURE
        && let Some(recorded) = counts.recorded
    {
        losses.ios = losses.ios.max(recorded.saturating_sub(counts.analysed));
    }
    let above = |ns: u64| {
        let groups = analysis.groups.iter().filter(|g| analysis.is_whole(g.op));
        let dists = groups.map(|g| &g.latencies.service);
        let slow = |d: &LatencySample| d.count() - d.count_at_or_below(ns.saturating_sub(1));
        dists.map(slow).sum()
    };
    let mut summary = Summary {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: analysis.manifest.run_id.clone(),
        name: analysis.manifest.plan.run.name.clone(),
        origin: analysis.manifest.origin.clone(),
        status: analysis.status,
        verdict: verdict::placeholder(),
        totals: view.totals(&sets.all, analysis.duration_ns),
        ops: sets.ops.iter().map(|(op, set)| (*op, view.totals(set, view.op_ns(*op)))).collect(),
        requests: view.requests()?,
        workloads: view.workloads()?,
        load: unmeasured::load(analysis),
        qos: ceilings::ceilings(analysis, &sets.all)?,
        changes: changes::changes(analysis, &sets.ops),
        slc: slc(&sets),
        distribution: view.distributions(&sets),
        outliers: outliers(analysis),
        saturation: saturation::saturation(analysis),
        errors: errors(&sets),
        misses: analysis.manifest.misses,
        end_to_end: analysis.manifest.end_to_end,
        verify: wrong_data::of(analysis),
        losses,
        overhead: analysis.manifest.overhead.clone(),
        store: analyse::store::summary(&analysis.store),
        store_text: None,
        recorded: replayed::recorded(analysis)?,
        arrivals: replayed::arrivals(analysis),
        witness: analysis.manifest.witness.iter().map(witness::judged).collect(),
        cause: None,
        hosts: hosts::hosts(analysis),
        host: host::summary(analysis.manifest.host.as_ref(), &analysis.machine.host),
        drives: drives::drives(&analysis.machine.nvme, &above),
        bus: analysis.machine.bus.clone(),
        files: analysis.files.clone(),
    };
    if analysis.origin == Origin::HISTOGRAM {
        summary.totals.latencies.service.out_of_range = Some(analysis.manifest.losses.out_of_range);
    }
    hosts::exact(&mut summary, analysis);
    if let Some(figures) = &analysis.imported {
        imported::apply(&mut summary, figures, &asked);
    }
    let display = analysis.manifest.sample_display();
    summary.store_text = store::text(&display, &summary.store, summary.totals.duration_ns);
    summary.verdict = verdict::verdict(analysis, &summary);
    Ok(summary)
}

/// A set of I/Os put together from groups.
#[derive(Debug, Default)]
pub struct IoSet {
    tally: IoTally,
    latencies: LatencyDists,
    slowest: SlowestIos,
}

impl IoSet {
    pub fn of(groups: &[&IoGroup]) -> Result<IoSet> {
        let mut set = IoSet {
            slowest: SlowestIos::merged(groups.iter().map(|g| &g.slowest)),
            ..IoSet::default()
        };
        for group in groups {
            set.tally.add(&group.tally);
            set.latencies = merged(&set.latencies, &group.latencies).map_err(|e| {
                taillight_core::Error::corrupt("the run holds more I/Os than can be counted")
                    .source(e)
            })?;
        }
        Ok(set)
    }
}

/// The sets a summary speaks of.
struct IoSets {
    all: IoSet,
    ops: BTreeMap<OpKind, IoSet>,
}

impl IoSets {
    fn of(analysis: &Analysis) -> Result<IoSets> {
        let mut by_op: BTreeMap<OpKind, Vec<&IoGroup>> = BTreeMap::new();
        for group in &analysis.groups {
            by_op.entry(group.op).or_default().push(group);
        }
        let ops = by_op
            .iter()
            .map(|(op, groups)| Ok((*op, IoSet::of(groups)?)))
            .collect::<Result<_>>()?;
        let all: Vec<&IoGroup> =
            analysis.groups.iter().filter(|g| analysis.is_whole(g.op)).collect();
        Ok(IoSets { all: IoSet::of(&all)?, ops })
    }
}

/// Records of a set whose operations cover more than one.
fn several(tally: &IoTally) -> Option<u64> {
    let good = tally.count.saturating_sub(tally.failed());
    (tally.records > good).then_some(tally.records)
}

/// Mean gaps after which an open schedule is taken for ended.
const GAPS: f64 = 10.0;

/// How long a workload that goes on may do nothing, ns: the pause of its bursts, some gaps of its
/// schedule, its think time.
fn lull_ns(w: &WorkloadPlan, seconds: f64) -> f64 {
    let think = w.think.map_or(0, |t| t.time.0) as f64;
    match &w.arrival {
        Arrival::Bursts { off, .. } => off.0 as f64,
        _ => match saturation::asked(w, seconds) {
            Some(rate) if rate > 0.0 => GAPS * 1e9 / rate,
            _ => think,
        },
    }
}

/// Counts of the measure phase with their rates over a time.
fn phase_rates(count: u64, bytes: u64, errors: u64, duration_ns: u64) -> PhaseTotals {
    let seconds = duration_ns as f64 / 1e9;
    PhaseTotals {
        count,
        bytes,
        errors,
        duration_ns,
        iops: per_s(count.saturating_sub(errors) as f64, seconds),
        bytes_per_s: per_s(bytes as f64, seconds),
        drained: None,
    }
}

struct SummaryBuilder<'a> {
    analysis: &'a Analysis,
    asked: &'a AskedPercentiles,
}

impl SummaryBuilder<'_> {
    fn seconds(&self) -> f64 {
        self.analysis.duration_ns as f64 / 1e9
    }

    /// The part of a time in which operations were counted, ns: all of it, unless they are a sample.
    fn counted_ns(&self, ns: u64) -> u64 {
        self.analysis.manifest.origin.sample().map_or(ns, |sample| sample.ns.min(ns))
    }

    /// Totals of a set, with rates over the time in which it was made, ns.
    fn totals(&self, set: &IoSet, made_in_ns: u64) -> Totals {
        let made_in_ns = self.counted_ns(made_in_ns);
        let seconds = made_in_ns as f64 / 1e9;
        let origin = self.analysis.origin;
        let failed = set.tally.failed();
        // No rate from kept outliers alone, nor from a watched run without a latency.
        let unsampled =
            self.analysis.manifest.origin.is_watched() && set.latencies.service.count() == 0;
        let good = match self.analysis.outliers_only || unsampled {
            true => 0,
            false => set.tally.count.saturating_sub(failed),
        };
        // Episodes are known for the main measure only.
        let plain = |it: &LatencySample| latency::latency(it, origin, self.asked, None, None);
        let main =
            |it: &LatencySample| latency::latency(it, origin, self.asked, Some(&set.slowest), None);
        let counts = set.latencies.main_kind();
        let latencies = set.latencies.clone();
        Totals {
            count: set.tally.count,
            bytes: set.tally.bytes,
            duration_ns: made_in_ns,
            iops: per_s(good as f64, seconds),
            bytes_per_s: per_s(set.tally.bytes as f64, seconds),
            in_phase: self.in_phase(&set.tally, made_in_ns),
            records: several(&set.tally),
            errors: failed,
            latencies: latencies.map(|kind, it| match kind == counts {
                true => main(&it),
                false => plain(&it),
            }),
            depth_mean: (made_in_ns > 0 && !self.analysis.outliers_only)
                .then(|| set.tally.busy_ns as f64 / made_in_ns as f64),
        }
    }

    /// The time over which an operation has rates, ns.
    fn op_ns(&self, op: OpKind) -> u64 {
        self.analysis.window_ns(self.analysis.groups.iter().filter(|g| g.op == op))
    }

    /// What completed inside the measure phase; none where that is not known.
    fn in_phase(&self, tally: &IoTally, made_in_ns: u64) -> Option<PhaseTotals> {
        let all_kept = self.analysis.origin == Origin::CAPTURE && !self.analysis.outliers_only;
        let duration_ns = saturation::measured_ns(self.analysis).filter(|_| all_kept)?;
        let drained = tally.drained;
        let count = tally.count.saturating_sub(drained.count);
        let bytes = tally.bytes.saturating_sub(drained.bytes);
        let errors = tally.failed().saturating_sub(drained.errors);
        Some(PhaseTotals {
            drained: (drained.count > 0).then_some(drained),
            ..phase_rates(count, bytes, errors, duration_ns.min(made_in_ns))
        })
    }

    /// Gets and updates as the target was asked, parts of read-modify-writes included; empty where there are no parts.
    fn requests(&self) -> Result<BTreeMap<OpKind, Totals>> {
        let groups = &self.analysis.groups;
        let parts = groups.iter().filter(|g| g.op.request() != g.op).map(|g| g.op.request());
        let of = |request: OpKind| {
            let all: Vec<&IoGroup> = groups.iter().filter(|g| g.op.request() == request).collect();
            Ok((request, self.totals(&IoSet::of(&all)?, self.analysis.duration_ns)))
        };
        parts.collect::<BTreeSet<_>>().into_iter().map(of).collect()
    }

    fn workloads(&self) -> Result<Vec<WorkloadSummary>> {
        let plan = &self.analysis.manifest.plan;
        let of = |(index, workload): (usize, &WorkloadPlan)| {
            let groups = || {
                let groups = self.analysis.groups.iter();
                groups.filter(move |g| usize::from(g.workload) == index)
            };
            let all: Vec<&IoGroup> = groups().collect();
            let ios: Vec<&IoGroup> = groups().filter(|g| self.analysis.is_whole(g.op)).collect();
            // One that began later or ended early is measured by its own time.
            let whole = self.analysis.duration_ns;
            let window = workload.window_ns(whole);
            let last = all.iter().map(|g| g.tally.last_ns).max().unwrap_or(0);
            let own = last.saturating_sub(self.analysis.start_ns).max(0) as u64;
            let own = own.saturating_sub(window.start);
            let asked = window.end - window.start;
            let lull = lull_ns(workload, self.seconds());
            let ended = own > 0 && own as f64 + lull < asked as f64 * 0.9;
            let span = if ended { own } else { asked };
            let totals = |set: &IoSet| self.totals(set, span);
            Ok(WorkloadSummary {
                name: workload.name.clone(),
                totals: totals(&IoSet::of(&ios)?),
                ops: groups()
                    .map(|g| Ok((g.op, totals(&IoSet::of(&[g])?))))
                    .collect::<Result<_>>()?,
            })
        };
        let measured = plan.workloads.iter().enumerate();
        measured.filter(|(_, w)| w.measured).map(of).collect()
    }

    fn distributions(&self, sets: &IoSets) -> BTreeMap<OpKind, LatencyMap<Distribution>> {
        let of = |op: OpKind, set: &IoSet| {
            let seconds = self.counted_ns(self.op_ns(op)) as f64 / 1e9;
            let binned = |dist: &Dist| latency::distribution(dist, seconds);
            let mut all = LatencyMap::new(binned(&set.latencies.service));
            if let Some(response) = set.latencies.get(LatencyKind::Response) {
                all.insert(LatencyKind::Response, binned(response));
            }
            all
        };
        sets.ops.iter().map(|(op, set)| (*op, of(*op, set))).collect()
    }
}

fn slc(sets: &IoSets) -> BTreeMap<OpKind, SlcFactors> {
    let measured = sets.ops.iter().filter(|(_, set)| !headline(&set.latencies).is_empty());
    measured.map(|(op, set)| (*op, latency::slc_factors(&set.latencies))).collect()
}

fn outliers(analysis: &Analysis) -> BTreeMap<OpKind, Vec<Outlier>> {
    let mut all: BTreeMap<OpKind, Vec<Outlier>> = BTreeMap::new();
    for group in &analysis.groups {
        let list = all.entry(group.op).or_default();
        list.extend(group.outliers.iter().map(|(latency_ns, row)| Outlier {
            submit_ns: row.submit.0,
            workload: row.workload,
            worker: row.worker,
            target: row.target,
            offset: row.offset,
            key: row.key,
            size: row.size,
            latency_ns: *latency_ns,
            status: row.status.0,
        }));
    }
    for list in all.values_mut() {
        list.sort_by_key(|o| (std::cmp::Reverse(o.latency_ns), o.submit_ns));
        list.truncate(taillight_rundir::summary::OUTLIERS_MAX);
    }
    all
}

fn errors(sets: &IoSets) -> Errors {
    let mut kinds: Vec<ErrorCount> = Vec::new();
    for (op, set) in &sets.ops {
        kinds.extend(set.tally.errors.iter().map(|(status, (count, first))| ErrorCount {
            op: *op,
            status: *status,
            text: status_text(*status),
            count: *count,
            first_ns: *first,
        }));
    }
    kinds.sort_by_key(|k| (std::cmp::Reverse(k.count), k.op, k.status));
    Errors { count: sets.all.tally.failed(), kinds }
}

/// A status in words.
pub fn status_text(status: i32) -> String {
    match status {
        STATUS_UNKNOWN => "failed; which error was not kept".to_owned(),
        known => Status(known).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_in_words() {
        assert_eq!(status_text(5), "input/output error (errno 5)");
        assert_eq!(status_text(-1), "timed out");
        assert_eq!(status_text(-99), "unknown status -99");
    }
}
