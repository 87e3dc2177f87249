//! Totals of a run that another tool measured: what its result says, and nothing computed that it cannot know.

use std::collections::BTreeMap;

use taillight_core::{LatencyMap, OpKind, Percentile};
use taillight_rundir::latency::{
    Latency, LatencyBin, LatencySource, NineEntry, ObservedLatency, PercentileEntry, Quantile,
};
use taillight_rundir::origin::{
    ImportedBin, ImportedFile, ImportedLatency, ImportedOp, ImportedWorkload,
};
use taillight_rundir::summary::{ErrorCount, Errors, Summary, Totals, WorkloadSummary};
use taillight_stats::needed_one_sided;

use crate::analyse::STATUS_UNKNOWN;
use crate::analyse::latency::AskedPercentiles;

/// Puts the tool's figures in the place of those that were made of I/Os.
pub fn apply(summary: &mut Summary, figures: &ImportedFile, asked: &AskedPercentiles) {
    let mut by_op: BTreeMap<OpKind, Vec<(u32, &ImportedOp)>> = BTreeMap::new();
    for w in &figures.workloads {
        w.ops.iter().for_each(|(op, it)| by_op.entry(*op).or_default().push((w.group, it)));
    }
    let all: Vec<(u32, &ImportedOp)> = by_op.values().flatten().copied().collect();
    summary.totals = totals(&all, asked);
    summary.ops = by_op.iter().map(|(op, of)| (*op, totals(of, asked))).collect();
    let workload = |w: &ImportedWorkload| WorkloadSummary {
        name: w.name.clone(),
        totals: totals(&w.ops.values().map(|it| (0, it)).collect::<Vec<_>>(), asked),
        ops: w.ops.iter().map(|(op, it)| (*op, totals(&[(0, it)], asked))).collect(),
    };
    summary.workloads = figures.workloads.iter().map(workload).collect();
    summary.errors = errors(summary);
    // SLC factors are made of latencies of I/Os, which an import has not.
    summary.slc.clear();
}

/// Failed I/Os: the tool tells how many, and not why.
fn errors(summary: &Summary) -> Errors {
    let failed = summary.ops.iter().filter(|(_, totals)| totals.errors > 0);
    let kind = |(op, totals): (&OpKind, &Totals)| ErrorCount {
        op: *op,
        status: STATUS_UNKNOWN,
        text: "why is not in the result".to_owned(),
        count: totals.errors,
        first_ns: None,
    };
    let mut kinds: Vec<ErrorCount> = failed.map(kind).collect();
    kinds.sort_by_key(|k| (std::cmp::Reverse(k.count), k.op));
    Errors { count: summary.totals.errors, kinds }
}

/// Operations of several jobs, over the time of all: jobs of one group ran at the same time, groups one after another.
/// A job that ended before the longest of its group has its rate for as long as it ran.
fn totals(of: &[(u32, &ImportedOp)], asked: &AskedPercentiles) -> Totals {
    let sum = |what: fn(&ImportedOp) -> u64| of.iter().map(|(_, it)| what(it)).sum();
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for (group, it) in of {
        let longest = longest.entry(*group).or_default();
        *longest = (*longest).max(it.duration_ns);
    }
    let duration_ns: u64 = longest.values().sum();
    let mean = |rate: fn(&ImportedOp) -> f64| match of {
        [(_, it)] => rate(it),
        _ if duration_ns == 0 => of.iter().map(|(_, it)| rate(it)).sum(),
        _ => {
            let ran = |(group, it): &(u32, &ImportedOp)| match it.duration_ns {
                0 => longest[group],
                own => own,
            };
            let all: f64 = of.iter().map(|it| rate(it.1) * ran(it) as f64).sum();
            all / duration_ns as f64
        }
    };
    let latency = merged(of.iter().map(|(_, it)| &it.latency));
    Totals {
        count: sum(|it| it.count),
        bytes: sum(|it| it.bytes),
        duration_ns,
        iops: mean(|it| it.iops),
        bytes_per_s: mean(|it| it.bytes_per_s),
        in_phase: None,
        records: None,
        errors: sum(|it| it.errors),
        latencies: LatencyMap::new(described(&latency, asked)),
        depth_mean: None,
    }
}

/// One latency of several: bins add up, percentiles do not, so that there are none of more than one.
fn merged<'a>(all: impl Iterator<Item = &'a ImportedLatency>) -> ImportedLatency {
    let all: Vec<&ImportedLatency> = all.filter(|l| l.count > 0 || l.mean_ns.is_some()).collect();
    if let [one] = all.as_slice() {
        return (*one).clone();
    }
    // Where that of one is not known, neither is that of all.
    let of_all = |end: fn(&ImportedLatency) -> Option<u64>| {
        all.iter().map(|l| end(l)).collect::<Option<Vec<u64>>>().unwrap_or_default()
    };
    let mut merged = ImportedLatency {
        count: all.iter().map(|l| l.count).sum(),
        min_ns: of_all(|l| l.min_ns).into_iter().min(),
        max_ns: of_all(|l| l.max_ns).into_iter().max(),
        ..ImportedLatency::default()
    };
    let weighted: Option<f64> = all.iter().map(|l| Some(l.mean_ns? * l.count as f64)).sum();
    merged.mean_ns = weighted.filter(|_| merged.count > 0).map(|sum| sum / merged.count as f64);
    if all.iter().all(|l| !l.bins.is_empty()) {
        let mut bins: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for bin in all.iter().flat_map(|l| &l.bins) {
            *bins.entry((bin.lo_ns, bin.hi_ns)).or_default() += bin.count;
        }
        let bin = |((lo_ns, hi_ns), count)| ImportedBin { lo_ns, hi_ns, count };
        merged.bins = bins.into_iter().map(bin).collect();
    }
    merged
}

fn described(it: &ImportedLatency, asked: &AskedPercentiles) -> Latency {
    let entry = |p: &Percentile| PercentileEntry { p: p.to_string(), quantile: quantile(it, p) };
    let nines: Vec<(u8, Percentile)> =
        (1..=asked.nines).filter_map(|k| Some((k, Percentile::nines(k)?))).collect();
    let all: Vec<Percentile> =
        asked.percentiles.iter().copied().chain(nines.iter().map(|(_, p)| *p)).collect();
    let value = |p: &str| value(it, &p.parse().ok()?);
    let observed = || {
        Some(ObservedLatency {
            p50_ns: value("50")?,
            p99_ns: value("99")?,
            p99_9_ns: value("99.9")?,
            max_ns: it.max_ns?,
        })
    };
    Latency {
        count: it.count,
        min_ns: it.min_ns,
        max_ns: it.max_ns,
        mean_ns: it.mean_ns,
        stddev_ns: it.stddev_ns,
        skewness: None,
        kurtosis: None,
        source: LatencySource::Imported,
        error: all.iter().filter_map(|p| error(it, p)).fold(0.0, f64::max),
        percentiles: asked.percentiles.iter().map(entry).collect(),
        nines: nines
            .into_iter()
            .map(|(k, p)| NineEntry { k: u32::from(k), quantile: quantile(it, &p) })
            .collect(),
        observed: observed(),
        out_of_range: None,
    }
}

/// The tool's value at a percentile: its own, else the middle of the bin that holds it.
fn value(it: &ImportedLatency, p: &Percentile) -> Option<u64> {
    said(it, p).or_else(|| bin_of(it, p).map(|bin| bin.middle_ns()))
}

/// A percentile that the tool gives itself.
fn said(it: &ImportedLatency, p: &Percentile) -> Option<u64> {
    let same = |given: &str| given.parse::<Percentile>().is_ok_and(|given| given == *p);
    it.percentiles.iter().find(|given| same(&given.p)).map(|found| found.ns)
}

/// The bin of the value at a percentile: that of the tool's own value reaches to the next that it tells apart.
fn known_bin(it: &ImportedLatency, p: &Percentile) -> Option<LatencyBin> {
    match said(it, p) {
        Some(ns) => it
            .step_ns
            .map(|step| LatencyBin { lo_ns: ns, hi_ns: ns.saturating_add(step.saturating_sub(1)) }),
        None => bin_of(it, p),
    }
}

/// Between which values it lies: of bins that overlap, as those of several jobs may, from where so many may be reached
/// to where they are.
fn bin_of(it: &ImportedLatency, p: &Percentile) -> Option<LatencyBin> {
    let rank = p.rank(it.bins.iter().map(|b| b.count).sum());
    let reached = |edge: &dyn Fn(&ImportedBin) -> u64| {
        let mut edges: Vec<(u64, u64)> = it.bins.iter().map(|b| (edge(b), b.count)).collect();
        edges.sort_unstable();
        let mut below = 0;
        edges.into_iter().find_map(|(edge, count)| {
            below += count;
            (below >= rank).then_some(edge)
        })
    };
    Some(LatencyBin { lo_ns: reached(&|b| b.lo_ns)?, hi_ns: reached(&|b| b.hi_ns)? })
}

/// How far a percentile may be off, as a share of it: where it is the tool's own, in no steps, that is not known. None
/// for one that the run is too short for.
fn error(it: &ImportedLatency, p: &Percentile) -> Option<f64> {
    let resolved = it.count >= needed_one_sided(p).unwrap_or(u64::MAX);
    let bin = known_bin(it, p).filter(|_| resolved);
    bin.map(|bin| bin.error())
}

/// How the operations depended on each other is not known, so that no interval is given.
fn quantile(it: &ImportedLatency, p: &Percentile) -> Quantile {
    let (value, needs) = (value(it, p), needed_one_sided(p).unwrap_or(u64::MAX));
    let resolved = it.count >= needs && value.is_some();
    Quantile {
        ns: value.filter(|_| resolved),
        observed_ns: value,
        bin: known_bin(it, p),
        lo_ns: None,
        hi_ns: None,
        resolved,
        needs,
        bound_ns: None,
        interval_needs: None,
        effective: None,
        above: None,
        episodes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::origin::ImportedPercentile;

    fn binned(bins: &[(u64, u64, u64)]) -> ImportedLatency {
        let bins: Vec<ImportedBin> = bins
            .iter()
            .map(|(lo_ns, hi_ns, count)| ImportedBin {
                lo_ns: *lo_ns,
                hi_ns: *hi_ns,
                count: *count,
            })
            .collect();
        ImportedLatency {
            count: bins.iter().map(|b| b.count).sum(),
            mean_ns: Some(100.0),
            bins,
            ..ImportedLatency::default()
        }
    }

    #[test]
    fn a_percentile_is_the_middle_of_its_bin() {
        let it = binned(&[(100, 101, 50), (200, 203, 49), (900, 915, 1)]);
        let at = |p: &str| value(&it, &p.parse().unwrap());
        assert_eq!(
            [at("50"), at("51"), at("99"), at("99.5")].map(Option::unwrap),
            [101, 202, 202, 908]
        );
        let bin = |p: &str| quantile(&it, &p.parse().unwrap()).bin.unwrap();
        assert_eq!((bin("51").lo_ns, bin("51").hi_ns, bin("51").is_wide()), (200, 203, false));
        assert!(LatencyBin { lo_ns: 1000, hi_ns: 1999 }.is_wide());
    }

    #[test]
    fn the_error_is_that_of_the_bins_which_percentiles_stand_in() {
        let mut it = binned(&[(0, 1000, 500), (2000, 2003, 2500)]);
        let at = |it: &ImportedLatency, p: &str| error(it, &p.parse().unwrap());
        assert_eq!(at(&it, "99").map(|e| e < 0.001), Some(true));
        assert_eq!(at(&it, "10").map(|e| e > 0.9), Some(true));
        assert_eq!(at(&it, "99.999"), None, "too few");
        it.percentiles.push(ImportedPercentile { p: "10".to_owned(), ns: 700 });
        assert_eq!((at(&it, "10"), value(&it, &"10".parse().unwrap())), (None, Some(700)));
    }

    #[test]
    fn rates_add_up_for_as_long_as_jobs_ran_at_the_same_time() {
        let op = |iops: f64, seconds: u64| ImportedOp {
            count: iops as u64 * seconds,
            errors: 0,
            bytes: 0,
            duration_ns: seconds * 1_000_000_000,
            iops,
            bytes_per_s: 0.0,
            latency: ImportedLatency::default(),
        };
        let (fast, slow) = (op(300.0, 1), op(100.0, 3));
        let asked = AskedPercentiles::new(&[], 3);
        let rate = |of: &[(u32, &ImportedOp)]| totals(of, &asked).iops;
        assert_eq!(rate(&[(0, &fast), (0, &fast)]), 600.0);
        assert_eq!(rate(&[(0, &fast), (0, &slow)]), 200.0);
        assert_eq!(rate(&[(0, &fast), (1, &slow)]), 150.0);
    }

    #[test]
    fn percentiles_of_two_jobs_are_none_and_bins_add_up() {
        let bins = binned(&[(100, 101, 50)]);
        let two = merged([&bins, &binned(&[(100, 101, 5), (200, 203, 5)])].into_iter());
        assert_eq!((two.count, two.bins.len(), two.bins[0].count), (60, 2, 55));
        let given = ImportedLatency { percentiles: Vec::new(), bins: Vec::new(), ..bins.clone() };
        assert!(merged([&bins, &given].into_iter()).bins.is_empty());
        assert_eq!(value(&given, &"99".parse().unwrap()), None);
        let slowest = |ns| ImportedLatency { max_ns: ns, ..bins.clone() };
        let of = |one, other| merged([&slowest(one), &slowest(other)].into_iter()).max_ns;
        assert_eq!((of(Some(9), Some(7)), of(Some(9), None)), (Some(9), None));
    }

    #[test]
    fn a_percentile_in_a_bin_without_end_is_its_least() {
        let it = binned(&[(0, 999, 900), (5_000, LatencyBin::OPEN_NS, 100)]);
        let q = quantile(&it, &"99".parse().unwrap());
        assert_eq!((q.ns, q.bin.unwrap().is_open(), q.is_wide_bin()), (Some(5_000), true, true));
        assert_eq!((q.told_ns(), error(&it, &"99".parse().unwrap())), (None, Some(1.0)));
    }
}
