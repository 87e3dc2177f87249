//! What the hosts and ranks of a run did, each by itself, and what follows: which host is slower than the others beyond
//! chance, which stalled together or alone, where the client's CPUs were the limit, how even the work was. What follows
//! is said in sentences (`findings`). [`exact`] besides puts percentiles that the ranks found together into a summary.

use std::collections::BTreeMap;

use taillight_core::LatencyKind;
use taillight_core::plan::CaptureMode;
use taillight_explain::layer_did;
use taillight_rundir::Summary;
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::scale::{
    AgainstOthers, FirstSubmit, HostFigures, HostStall, HostsSummary, MergedFigures, RankEntry,
    start_spread,
};
use taillight_rundir::summary::Cause;
use taillight_stats::compare::{Bounded, LogDifference, holm};
use taillight_stats::group_episodes;

use super::IoSet;
use crate::analyse::dists::headline;
use crate::analyse::latency::{self, AskedPercentiles, Origin, per_s};
use crate::analyse::{Analysis, IoGroup, RankAnalysis, RanksAnalysis, SlowestIos, is_load};
use crate::format;

/// Chance of calling any host slower that is not.
const ALPHA: f64 = 0.05;
/// Columns of the strip of rates, at most, over the duration of the run; what was done later has more.
const STRIP: u64 = 60;
/// I/Os are part of a stall above so many times the median of all, and above [`STALL_NS`].
const STALL_TIMES: u64 = 20;
const STALL_NS: u64 = 10_000_000;
/// A host takes part in a stall when its slow I/Os cover this share of it.
const TAKES_PART: f64 = 0.5;
/// Stalls that are kept, at most.
const STALLS: usize = 20;
/// A client that takes more than this share of its CPUs is its own limit.
const FULL: f64 = 0.9;
/// CPU time counts what is around the load, too: of runs shorter than this, in seconds, no share is told.
const CPU_FROM_S: f64 = 1.0;
/// Ranks that begin further apart did not begin together.
const LATE_NS: u64 = 10_000_000;
/// Layers of a host that are named in words.
const BLAMED: usize = 3;
/// Work is uneven where a rank did this much more than the mean, as a share of it.
const UNEVEN: f64 = 0.05;

/// The hosts of a run of several ranks; none of any other.
pub fn hosts(analysis: &Analysis) -> Option<HostsSummary> {
    let all = analysis.ranks.as_ref()?;
    let ranks: Vec<HostFigures> = all.ranks.iter().map(|rank| figures(analysis, &[rank])).collect();
    let by_host = by_host(all);
    let mut hosts: Vec<HostFigures> =
        by_host.iter().map(|(_, ranks)| figures(analysis, ranks)).collect();
    against_others(analysis, &by_host, &mut hosts);
    // Of a rank whose I/Os stayed on its host, the first submit is not known.
    let firsts = all.ranks.iter().map(|rank| IoGroup::first(&rank.groups));
    let firsts: Option<Vec<FirstSubmit>> = firsts.collect();
    let dones = ranks.iter().filter_map(|r| r.done_ns);
    let drifts = all.ranks.iter().filter(|rank| rank.entry.clocks.len() > 1);
    let mut summary = HostsSummary {
        findings: Vec::new(),
        imbalance: imbalance(&ranks),
        start_spread_ns: firsts.and_then(|firsts| start_spread(&firsts)),
        done_spread_ns: dones.clone().max().zip(dones.min()).map(|(b, a)| b - a),
        clock_bound_ns: all.file.worst_bound_ns(analysis.duration_ns),
        clock_drift_ppm: drifts.map(|rank| rank.entry.clock().drift_ppm().abs()).reduce(f64::max),
        stalls: stalls(analysis, all, &by_host),
        hosts,
        ranks,
    };
    summary.findings = findings(analysis, all, &summary);
    Some(summary)
}

/// Puts the exact percentiles that the ranks found together in the place of those from histograms: where a rank's I/Os
/// stayed on its host, they cannot be counted again here. Only where no rank is missing and the counts agree.
pub fn exact(summary: &mut Summary, analysis: &Analysis) {
    let Some(all) = analysis.ranks.as_ref().filter(|_| analysis.origin != Origin::CAPTURE) else {
        return;
    };
    for merged in all.file.merged.iter().filter(|_| all.missing.is_empty()) {
        let alone = |m: &&MergedFigures| m.op == merged.op && m.kind == merged.kind;
        let alone = all.file.merged.iter().filter(alone).count() == 1;
        let own = summary.workloads.iter_mut().filter_map(|w| w.ops.get_mut(&merged.op));
        let whole = summary.ops.get_mut(&merged.op);
        let Some(kind) = LatencyKind::from_name(&merged.kind).filter(|_| alone) else { continue };
        for totals in own.chain(whole) {
            let latency = totals.latencies.get_mut(kind);
            let Some(latency) = latency.filter(|it| it.count == merged.count) else { continue };
            for entry in &mut latency.percentiles {
                if let Some(ns) = merged.percentiles.get(&entry.p) {
                    entry.quantile.observed_ns = Some(*ns);
                    entry.quantile.ns = entry.quantile.ns.map(|_| *ns);
                }
            }
        }
    }
}

/// Ranks of each host, in order of the first.
fn by_host(all: &RanksAnalysis) -> Vec<(String, Vec<&RankAnalysis>)> {
    let mut hosts: Vec<(String, Vec<&RankAnalysis>)> = Vec::new();
    for rank in &all.ranks {
        match hosts.iter_mut().find(|(host, _)| *host == rank.entry.host) {
            Some((_, ranks)) => ranks.push(rank),
            None => hosts.push((rank.entry.host.clone(), vec![rank])),
        }
    }
    hosts
}

/// Measured groups of whole operations.
fn groups<'a>(analysis: &'a Analysis, ranks: &'a [&RankAnalysis]) -> Vec<&'a IoGroup> {
    let measured = |group: &&IoGroup| {
        let workload = analysis.manifest.plan.workloads.get(usize::from(group.workload));
        workload.is_none_or(|w| w.measured) && analysis.is_whole(group.op)
    };
    ranks.iter().flat_map(|rank| &rank.groups).filter(measured).collect()
}

/// The figures of the ranks of one host, or of one rank, over what was measured. No share of CPUs of a short run, or
/// where CPU time is not known.
fn figures(analysis: &Analysis, ranks: &[&RankAnalysis]) -> HostFigures {
    let groups = groups(analysis, ranks);
    let set = IoSet::of(&groups).unwrap_or_default();
    let seconds = analysis.duration_ns as f64 / 1e9;
    let sample = headline(&set.latencies);
    let p99 = bounded(&set);
    let at = |p: &str| sample.percentile(&p.parse().ok()?);
    let failed = set.tally.failed();
    let entry = ranks.first().map(|rank| &rank.entry);
    let cpu: f64 = ranks.iter().filter_map(|r| r.manifest.overhead.cpu_s).sum();
    let cpus = cpus_of(ranks.iter().map(|rank| &rank.entry));
    let backlog = ranks.iter().filter_map(|r| r.manifest.schedule).map(|s| s.backlog_max);
    let (strip, strip_ns) = strip(analysis, ranks);
    HostFigures {
        host: entry.map(|e| e.host.clone()).unwrap_or_default(),
        ranks: ranks.iter().map(|rank| rank.entry.rank).collect(),
        count: set.tally.count,
        errors: failed,
        iops: per_s(set.tally.count.saturating_sub(failed) as f64, seconds),
        bytes_per_s: per_s(set.tally.bytes as f64, seconds),
        p50_ns: at("50"),
        p99_ns: at("99"),
        p99_lo_ns: p99.map(|b| b.lo as u64),
        p99_hi_ns: p99.map(|b| b.hi as u64),
        p999_ns: at("99.9"),
        max_ns: sample.max(),
        cpu: (cpus > 0 && seconds >= CPU_FROM_S && cpu > 0.0)
            .then(|| cpu / seconds / f64::from(cpus)),
        layers: layers(ranks.iter().flat_map(|rank| &rank.layers)),
        backlog_max: backlog.reduce(|a, b| a + b),
        done_ns: (set.tally.last_ns > 0)
            .then(|| set.tally.last_ns.saturating_sub(analysis.start_ns).max(0) as u64),
        against_others: None,
        strip,
        strip_ns,
    }
}

/// What ranks blame, together, the layer of most outliers first; sure only where all are.
fn layers<'a>(causes: impl Iterator<Item = &'a Cause>) -> Vec<Cause> {
    let mut all: Vec<Cause> = Vec::new();
    for cause in causes {
        match all.iter_mut().find(|known| known.layer == cause.layer) {
            Some(known) => {
                known.outliers += cause.outliers;
                known.excess_ns = known.excess_ns.saturating_add(cause.excess_ns);
                known.sure &= cause.sure;
            }
            None => all.push(cause.clone()),
        }
    }
    all.sort_by(|a, b| b.outliers.cmp(&a.outliers).then_with(|| a.layer.cmp(&b.layer)));
    all
}

/// CPUs that ranks of one host may use together.
fn cpus_of<'a>(ranks: impl Iterator<Item = &'a RankEntry> + Clone) -> u32 {
    let all = ranks.clone().map(|rank| rank.cpus).max().unwrap_or(0);
    let may: u32 = ranks.map(|rank| rank.allowed.unwrap_or(rank.cpus)).sum();
    all.min(may)
}

/// The 99 % of a set with its interval; none where the set is too small for one.
fn bounded(set: &IoSet) -> Option<Bounded> {
    let asked = AskedPercentiles::new(&["99".parse().ok()?], 1);
    let main = headline(&set.latencies);
    let it = latency::latency(main, Origin::CAPTURE, &asked, None, None);
    let entry = it.percentiles.into_iter().next()?.quantile;
    let (value, lo, hi) = (entry.ns? as f64, entry.lo_ns? as f64, entry.hi_ns? as f64);
    Some(Bounded { value, lo, hi, freedom: f64::INFINITY })
}

/// Writes into `hosts` each one's 99 % against that of all others together, adjusted for how many hosts are asked. Not
/// of one host alone, nor where one of the two is not known with an interval.
fn against_others(
    analysis: &Analysis,
    by_host: &[(String, Vec<&RankAnalysis>)],
    hosts: &mut [HostFigures],
) {
    if by_host.len() < 2 {
        return;
    }
    let found: Vec<Option<LogDifference>> = by_host
        .iter()
        .map(|(host, ranks)| {
            let others = by_host.iter().filter(|(other, _)| other != host);
            let others: Vec<&RankAnalysis> = others.flat_map(|(_, r)| r.iter().copied()).collect();
            let own = bounded(&IoSet::of(&groups(analysis, ranks)).ok()?)?;
            let rest = bounded(&IoSet::of(&groups(analysis, &others)).ok()?)?;
            LogDifference::of_two_runs(rest, own)
        })
        .collect();
    let known: Vec<usize> = (0..found.len()).filter(|i| found[*i].is_some()).collect();
    let values: Vec<f64> = known.iter().filter_map(|i| Some(found[*i]?.p_value())).collect();
    let share = ALPHA / hosts.len() as f64;
    for (i, p) in known.into_iter().zip(holm(&values)) {
        let Some(difference) = found[i] else { continue };
        let (lo, hi) = difference.interval(ALPHA);
        let slower = p < ALPHA && difference.interval(share).0 > 1.0;
        hosts[i].against_others =
            Some(AgainstOthers { ratio: difference.ratio(), lo, hi, p, slower });
    }
}

/// How much more I/Os than the mean the rank with most did, as a share; none of one rank, or without I/Os.
fn imbalance(ranks: &[HostFigures]) -> Option<f64> {
    let most = ranks.iter().map(|r| r.count).max()? as f64;
    let mean = ranks.iter().map(|r| r.count).sum::<u64>() as f64 / ranks.len() as f64;
    (ranks.len() > 1 && mean > 0.0).then(|| most / mean - 1.0)
}

/// Rates of a host over time, from its intervals, and the time that each rate is over, ns; empty and 0 without
/// intervals.
fn strip(analysis: &Analysis, ranks: &[&RankAnalysis]) -> (Vec<f64>, u64) {
    let interval = ranks.iter().flat_map(|r| &r.intervals).map(|r| r.length_ns).max().unwrap_or(0);
    if interval == 0 {
        return (Vec::new(), 0);
    }
    let columns = analysis.duration_ns.div_ceil(interval).max(1);
    let width = interval * columns.div_ceil(STRIP);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let measured = |r: &&IntervalRow| !r.op.is_part() && !is_load(&analysis.manifest, r.workload);
    for row in ranks.iter().flat_map(|r| &r.intervals).filter(measured) {
        let middle = row.start_ns.saturating_add((row.length_ns / 2) as i64);
        let since = middle.saturating_sub(analysis.start_ns).max(0) as u64;
        *counts.entry(since / width).or_default() += row.ops.saturating_sub(row.errors);
    }
    let last = counts.keys().max().copied().unwrap_or(0).min(STRIP * 2);
    let rate = |n: u64| per_s(counts.get(&n).copied().unwrap_or(0) as f64, width as f64 / 1e9);
    ((0..=last).map(rate).collect(), width)
}

/// Moments with I/Os that took longer than [`STALL_TIMES`] the median and [`STALL_NS`], over all hosts on one clock:
/// one event for what stalls a server, whichever hosts waited for it. The longest [`STALLS`], the longest first; none
/// where no median is known.
fn stalls(
    analysis: &Analysis,
    all: &RanksAnalysis,
    by_host: &[(String, Vec<&RankAnalysis>)],
) -> Vec<HostStall> {
    let every: Vec<&RankAnalysis> = all.ranks.iter().collect();
    let set = IoSet::of(&groups(analysis, &every)).unwrap_or_default();
    let median = headline(&set.latencies).percentile(&match "50".parse() {
        Ok(p) => p,
        Err(_) => return Vec::new(),
    });
    let Some(median) = median else { return Vec::new() };
    let from = median.saturating_mul(STALL_TIMES).max(STALL_NS);
    let slow: Vec<SlowTimes> =
        by_host.iter().map(|(host, ranks)| SlowTimes::of(analysis, host, ranks, from)).collect();
    // Clocks that are wrong by more than the gap would tear an event apart.
    let bound = all.file.worst_bound_ns(analysis.duration_ns).unwrap_or(0);
    let gap = (STALL_NS / 10).max(2 * bound);
    let together: Vec<(i64, i64)> = slow.iter().flat_map(|of| of.slow.iter().copied()).collect();
    let episodes = group_episodes(&together, gap);
    let here = |host: &String| by_host.iter().any(|(name, _)| name == host);
    let mut gone: Vec<String> = all.missing.iter().map(|(entry, _)| entry.host.clone()).collect();
    gone.retain(|host| !here(host));
    gone.sort_unstable();
    gone.dedup();
    let mut stalls: Vec<HostStall> = episodes
        .list()
        .iter()
        .map(|event| {
            let (hosts, mut unknown) = took_part(&slow, event.start_ns, event.end_ns);
            unknown.extend(gone.iter().cloned());
            HostStall {
                start_ns: event.start_ns,
                length_ns: event.span_ns(),
                ios: event.count,
                shared: hosts.len() == by_host.len() && hosts.len() > 1 && unknown.is_empty(),
                hosts,
                unknown,
            }
        })
        .collect();
    stalls.sort_by_key(|s| (std::cmp::Reverse(s.length_ns), s.start_ns));
    stalls.truncate(STALLS);
    stalls
}

/// When I/Os of a host were slow.
struct SlowTimes {
    host: String,
    slow: Vec<(i64, i64)>,
    /// Later than this nothing is known of it; `i64::MIN` where nothing is known at all.
    until: i64,
}

impl SlowTimes {
    /// Those that took longer than `from` ns.
    fn of(analysis: &Analysis, host: &str, ranks: &[&RankAnalysis], from: u64) -> SlowTimes {
        let groups = groups(analysis, ranks);
        let last = groups.iter().map(|g| g.tally.last_ns).max();
        // Of so many slow ones that not all are kept, those of a shorter stall may be missing.
        let cut = groups.iter().any(|group| group.slowest.is_cut_above(from));
        let known = !cut && ranks.iter().all(|rank| shows_slow(rank));
        SlowTimes {
            host: host.to_owned(),
            slow: groups.iter().flat_map(|g| g.slowest.kept_above(from)).collect(),
            until: last.filter(|_| known).unwrap_or(i64::MIN),
        }
    }
}

/// Whether the slow I/Os of a rank are known here: from its capture, from what the rank told of them where its I/Os
/// stayed on its host, or, of a rank that kept only outliers, where some are there.
fn shows_slow(rank: &RankAnalysis) -> bool {
    let kept = &rank.manifest.capture;
    let outliers = kept.mode == CaptureMode::Outliers && kept.degraded.is_none();
    let some = || rank.groups.iter().any(|group| group.slowest != SlowestIos::default());
    rank.origin == Origin::CAPTURE || rank.entry.slowest.is_some() || (outliers && some())
}

/// The hosts that stalled in a time, and those of which it is not known.
fn took_part(hosts: &[SlowTimes], start: i64, end: i64) -> (Vec<String>, Vec<String>) {
    // A host that was slow for a small part of that time did not stall.
    let most = (end.abs_diff(start) as f64 * TAKES_PART) as u64;
    let (mut stalled, mut unknown) = (Vec::new(), Vec::new());
    for SlowTimes { host, slow, until } in hosts {
        if covered(slow, start, end) >= most.max(1) {
            stalled.push(host.clone());
        } else if *until < start {
            unknown.push(host.clone());
        }
    }
    (stalled, unknown)
}

/// How much of a time the slow I/Os of a host cover, ns.
fn covered(slow: &[(i64, i64)], start: i64, end: i64) -> u64 {
    let inside = slow.iter().map(|at| (at.0.max(start), at.1.min(end)));
    let mut inside: Vec<(i64, i64)> = inside.filter(|(a, b)| b > a).collect();
    inside.sort_unstable();
    let (mut sum, mut until) = (0, start);
    for (a, b) in inside {
        sum += b.saturating_sub(a.max(until)).max(0) as u64;
        until = until.max(b);
    }
    sum
}

/// What follows, a sentence each: lost ranks first, then slower hosts, stalls, layers, CPUs, uneven work, late starts,
/// clocks, notes and differences between the hosts.
fn findings(analysis: &Analysis, all: &RanksAnalysis, summary: &HostsSummary) -> Vec<String> {
    let mut words = Vec::new();
    for (entry, why) in &all.missing {
        words.push(format!(
            "Rank {} on {} is lost: {}. The figures are those of the {} others.",
            entry.rank,
            entry.host,
            why.trim_end_matches('.'),
            all.ranks.len()
        ));
    }
    words.extend(slower(summary));
    words.extend(stalled(analysis, summary));
    words.extend(summary.hosts.iter().filter_map(blamed));
    for host in summary.hosts.iter().filter(|h| h.cpu.is_some_and(|cpu| cpu > FULL)) {
        let cpu = format::percent(host.cpu.unwrap_or(0.0));
        words.push(format!(
            "The load took {cpu} of the CPUs that it may use on {}: there the client is the limit, not the storage.",
            host.host
        ));
    }
    let share = summary.imbalance.filter(|share| *share > UNEVEN);
    if let (Some(share), Some(most)) = (share, summary.ranks.iter().max_by_key(|r| r.count)) {
        words.push(format!(
            "The work was uneven: rank {} on {} did {} more than the mean of all.",
            most.ranks.first().copied().unwrap_or(0),
            most.host,
            format::percent(share)
        ));
    }
    words.extend(late(summary));
    words.extend(clocks(analysis, all));
    words.extend(all.file.notes.iter().cloned());
    for difference in &all.file.differences {
        let values =
            difference.values.iter().map(|(v, hosts)| format!("{v} ({})", hosts.join(", ")));
        let values: Vec<String> = values.collect();
        words.push(format!("The hosts differ in {}: {}.", difference.what, values.join("; ")));
    }
    words
}

/// That ranks did not begin together; none where they did, as well as their clocks tell.
fn late(summary: &HostsSummary) -> Option<String> {
    let bound = summary.clock_bound_ns.unwrap_or(0);
    let apart = summary.start_spread_ns.filter(|ns| *ns > LATE_NS.saturating_add(bound))?;
    Some(format!(
        "The last rank began {} after the first: what it did not do in that time is missing in the rate of all.",
        format::duration_ns(apart)
    ))
}

/// A sentence for each host whose clock was measured once only, or jumped.
fn clocks(analysis: &Analysis, all: &RanksAnalysis) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for entry in all.ranks.iter().map(|rank| &rank.entry) {
        let Some(bound) = entry.clock_bound_ns(analysis.duration_ns) else { continue };
        let bound = format::duration_ns(bound);
        let host = &entry.host;
        let text = match entry.clocks.len() {
            1 => format!(
                "The clock of {host} was measured once only: its times may be {bound} off those of the others."
            ),
            _ if entry.clock_jumped() => format!(
                "The clock of {host} jumped or ran far off during the load: its times may be {bound} off those of \
                 the others."
            ),
            _ => continue,
        };
        if !words.contains(&text) {
            words.push(text);
        }
    }
    words
}

/// A sentence for each slower host, or that there is none where that is known of all; and of which hosts it cannot be
/// said. Nothing of one host.
fn slower(summary: &HostsSummary) -> Vec<String> {
    if summary.hosts.len() < 2 {
        return Vec::new();
    }
    let known = summary.hosts.iter().filter_map(|h| Some((h, h.against_others?)));
    let known: Vec<_> = known.collect();
    let unknown = summary.hosts.iter().filter(|h| h.against_others.is_none());
    let unknown: Vec<&str> = unknown.map(|h| h.host.as_str()).collect();
    let slow = known.iter().filter(|(_, it)| it.slower).map(|(host, it)| {
        format!(
            "{} is slower, and the difference is real: its 99 % is {:.2} times that of the others (95 %: {:.2} to \
             {:.2}; p {}, adjusted for {} hosts).",
            host.host,
            it.ratio,
            it.lo,
            it.hi,
            if it.p < 0.001 { "< 0.001".to_owned() } else { format!("{:.3}", it.p) },
            summary.hosts.len()
        )
    });
    let mut words: Vec<String> = slow.collect();
    if words.is_empty() && unknown.is_empty() {
        words.push("No host is shown to be slower than the others.".to_owned());
    }
    if !unknown.is_empty() {
        words.push(format!(
            "Whether a host is slower cannot be said of {}: too few of its I/Os, or of the others', are independent of each \
             other.",
            unknown.join(", ")
        ));
    }
    words
}

/// The layers that held most outliers of a host, up to [`BLAMED`]; none where no layer is blamed.
fn blamed(host: &HostFigures) -> Option<String> {
    let all: u64 = host.layers.iter().map(|cause| cause.outliers).sum();
    let most = host.layers.iter().take(BLAMED).map(|cause| {
        let share = format::percent(cause.outliers as f64 / all.max(1) as f64);
        format!("{} ({share}) {}", format::count(cause.outliers), layer_did(&cause.layer))
    });
    let most: Vec<String> = most.collect();
    let of = format::counted(all, "outlier");
    (all > 0).then(|| format!("Of {of} of {}, {}.", host.host, most.join(", ")))
}

/// The longest stall of all hosts, that of one host alone, and that of which some host is not known; a sentence each.
fn stalled(analysis: &Analysis, summary: &HostsSummary) -> Vec<String> {
    let clock = &analysis.manifest.clock;
    let at = |ns: i64| {
        let since = ns.saturating_sub(clock.monotonic_ns);
        let utc = crate::model::about::utc(clock.realtime_ns.saturating_add(since));
        utc.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let several = summary.hosts.len() > 1;
    let shared = summary.stalls.iter().find(|s| s.shared).map(|s| {
        format!(
            "All hosts stalled at {} for {}: the cause is what they share.",
            at(s.start_ns),
            format::duration_ns(s.length_ns)
        )
    });
    let alone = |s: &&HostStall| several && s.hosts.len() == 1 && s.unknown.is_empty();
    let local = summary.stalls.iter().find(alone).map(|s| {
        format!(
            "Only {} stalled at {}, for {}: the cause is on that host or on its way.",
            s.hosts[0],
            at(s.start_ns),
            format::duration_ns(s.length_ns)
        )
    });
    let open = |s: &&HostStall| !s.hosts.is_empty() && !s.unknown.is_empty();
    let open = summary.stalls.iter().find(open).map(|s| {
        format!(
            "{} stalled at {} for {}; whether {} did is not known, without I/Os of that time.",
            s.hosts.join(", "),
            at(s.start_ns),
            format::duration_ns(s.length_ns),
            s.unknown.join(", ")
        )
    });
    shared.into_iter().chain(local).chain(open).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ios_cover_a_part_of_a_time() {
        let (start, end) = (0, 1_000);
        assert_eq!(covered(&[(0, 1_000)], start, end), 1_000);
        assert_eq!(covered(&[(100, 200), (150, 300), (900, 2_000)], start, end), 300);
        assert_eq!(covered(&[(2_000, 3_000)], start, end), 0);
        assert_eq!(covered(&[], start, end), 0);
    }

    #[test]
    fn ranks_that_did_not_begin_together_are_said() {
        let of = |spread: Option<u64>, bound: Option<u64>| {
            let summary = HostsSummary {
                start_spread_ns: spread,
                clock_bound_ns: bound,
                ..HostsSummary::default()
            };
            late(&summary)
        };
        assert!(
            of(Some(2_000_000_000), Some(50_000))
                .is_some_and(|words| words.contains(" s after the first"))
        );
        assert_eq!(of(Some(2_000_000_000), Some(3_000_000_000)), None, "clocks do not tell");
        assert_eq!((of(Some(100_000), None), of(None, None)), (None, None));
    }

    #[test]
    fn a_slow_host_is_named_beside_one_of_which_nothing_can_be_said() {
        let host = |name: &str, slower: Option<bool>| HostFigures {
            host: name.to_owned(),
            against_others: slower.map(|slower| AgainstOthers {
                ratio: 2.0,
                lo: 1.5,
                hi: 2.5,
                p: 0.0001,
                slower,
            }),
            ..HostFigures::default()
        };
        let of = |hosts: Vec<HostFigures>| {
            slower(&HostsSummary { hosts, ..HostsSummary::default() }).join(" ")
        };
        let all = of(vec![host("a", Some(false)), host("b", Some(true)), host("c", None)]);
        let known = "b is slower, and the difference is real: its 99 % is 2.00 times";
        assert!(all.starts_with(known) && all.contains("cannot be said of c:"), "{all}");
        let none = of(vec![host("a", Some(false)), host("b", Some(false))]);
        assert_eq!(none, "No host is shown to be slower than the others.");
        assert_eq!(of(vec![host("a", None)]), "");
    }

    #[test]
    fn what_ranks_of_a_host_blame_is_added_up() {
        let cause = |layer: &str, outliers, sure| Cause {
            layer: layer.to_owned(),
            outliers,
            excess_ns: 10,
            sure,
        };
        let each = [cause("cpu", 2, true), cause("device", 3, true), cause("device", 5, false)];
        let all = layers(each.iter());
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].outliers, all[0].excess_ns, all[0].sure), (8, 20, false));
        let host = HostFigures { host: "h1".to_owned(), layers: all, ..HostFigures::default() };
        let words = blamed(&host).unwrap();
        assert!(words.starts_with("Of 10 outliers of h1, 8 (80"), "{words}");
        assert!(words.ends_with(" waited for a CPU."), "{words}");
        assert_eq!(blamed(&HostFigures::default()), None);
    }

    /// A rank that is bound to one of many CPUs is at its limit long before its host is.
    #[test]
    fn only_cpus_that_ranks_may_use_count() {
        let rank = |allowed| RankEntry { cpus: 8, allowed, ..RankEntry::default() };
        let of = |ranks: &[RankEntry]| cpus_of(ranks.iter());
        assert_eq!(of(&[rank(None), rank(None)]), 8);
        assert_eq!((of(&[rank(Some(1))]), of(&[rank(Some(1)), rank(Some(2))])), (1, 3));
        assert_eq!(of(&[]), 0);
    }

    /// Of a host without I/Os in that time it is not known whether it stalled.
    #[test]
    fn hosts_of_which_nothing_is_known_are_told_apart() {
        let host = |name: &str, slow: &[(i64, i64)], until| SlowTimes {
            host: name.to_owned(),
            slow: slow.to_vec(),
            until,
        };
        let all = [
            host("stalled", &[(100, 200)], 500),
            host("went on", &[], 500),
            host("was over", &[], 99),
            host("elsewhere", &[], i64::MIN),
        ];
        let (stalled, unknown) = took_part(&all, 100, 200);
        assert_eq!(stalled, ["stalled"]);
        assert_eq!(unknown, ["was over", "elsewhere"]);
    }
}
