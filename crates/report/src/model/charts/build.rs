//! From an [`Analysis`] to what the charts are drawn from.

use taillight_core::plan::WorkloadPlan;
use taillight_core::{Error, LatencyKind, OpKind, Percentile, Result};
use taillight_rundir::host::HostTrack;
use taillight_rundir::latency::NineEntry;
use taillight_stats::slc::SBK_21_LIST;
use taillight_stats::{Dist, Slc, needed_one_sided, percentile_curve};

use super::data::{
    HeatGrid, HostLine, LatencySeries, OpOutliers, OpPoint, OpTrack, PercentilePoint, RunCharts,
    SlcLine, SlowPoint,
};
use super::heat;
use super::tracks::{fine, tracks, workload_tracks};
use crate::analyse::dists::{LatencyDists, LatencySample, headline, headline_kind, merged};
use crate::analyse::latency::{self, AskedPercentiles, Origin, per_s};
use crate::analyse::{Analysis, IoGroup, Row, SlowestIos};

/// Points of a curve on the scale of nines, and in per cent.
const NINES_POINTS: usize = 900;
const PERCENT_POINTS: u64 = 500;

/// The chart data of one run, shown under `label`. Errors: `Corrupt` when counts exceed 64 bits.
pub fn run_charts(analysis: &Analysis, label: &str) -> Result<RunCharts> {
    let names = SeriesNames::new(analysis);
    let mut data = RunCharts {
        label: label.to_owned(),
        ceilings: analysis.manifest.plan.qos.ceilings.iter().map(|c| c.ceiling.0).collect(),
        ..RunCharts::default()
    };
    for group in &analysis.groups {
        let name = names.of(group.workload, group.op);
        series(&mut data.series, analysis, group, &name);
        let (times_s, edges_ns, counts) = heat::picture(group.latencies.main().dependence().grid());
        data.heats.push(HeatGrid { op: group.op, name: name.clone(), times_s, edges_ns, counts });
        data.outliers.push(OpOutliers {
            op: group.op,
            name,
            points: group.outliers.iter().map(|(ns, row)| slow(analysis, *ns, row)).collect(),
        });
    }
    data.host = analysis.machine.host.iter().map(|t| host_line(t, analysis.start_ns)).collect();
    data.store =
        analysis.store.iter().map(|t| (t.series.clone(), t.seconds(analysis.start_ns))).collect();
    let series: Vec<&str> = analysis.store.iter().map(|t| t.series.as_str()).collect();
    data.store_panels = analysis.manifest.sample_display().panels_for(&series);
    data.tracks =
        tracks(&analysis.intervals, analysis.start_ns, |row| names.of(row.workload, row.op));
    if analysis.origin == Origin::CAPTURE && !analysis.outliers_only {
        for track in &mut data.tracks {
            track.fine = fine_of(analysis, &names, track);
        }
    }
    data.workloads = workload_tracks(&analysis.intervals, analysis.start_ns, |workload| {
        names.workload(workload)
    });
    Ok(data)
}

/// The steps of a track, from the grid of every I/O.
fn fine_of(analysis: &Analysis, names: &SeriesNames<'_>, track: &OpTrack) -> Vec<OpPoint> {
    let named = |g: &&IoGroup| g.op == track.op && names.of(g.workload, g.op) == track.name;
    let Some(group) = analysis.groups.iter().find(named) else { return Vec::new() };
    let response = group.latencies.get(LatencyKind::Response).map(|s| s.dependence().grid());
    let measured = analysis.manifest.phases.iter().find(|p| p.name == "measure");
    let end = measured.and_then(|p| p.end_ns);
    let end = end.unwrap_or(analysis.start_ns.saturating_add(analysis.duration_ns as i64));
    let service = group.latencies.service.dependence().grid();
    fine(service, response, track.points.len(), (end, group.tally.last_ns))
}

/// All groups that totals add, as one series; none where there is one of them, or no I/O. Errors: `Corrupt` when counts
/// exceed 64 bits.
pub fn whole_series(analysis: &Analysis) -> Result<Option<LatencySeries>> {
    let groups: Vec<&IoGroup> =
        analysis.groups.iter().filter(|g| analysis.is_whole(g.op)).collect();
    let mut all = LatencyDists::default();
    for group in &groups {
        all = merged(&all, &group.latencies)
            .map_err(|e| Error::corrupt("the run holds more I/Os than can be counted").source(e))?;
    }
    let Some(first) = groups.first().filter(|_| groups.len() > 1) else { return Ok(None) };
    let kind = headline_kind(&all);
    let sample = headline(&all);
    let slowest = SlowestIos::merged(groups.iter().map(|g| &g.slowest));
    let slowest = Some(&slowest).filter(|_| kind != LatencyKind::EndToEnd);
    let all = (first.op, "all", analysis.duration_ns);
    let series = series_of(analysis, all, (kind, true), (sample, slowest));
    Ok((!sample.is_empty()).then_some(series))
}

/// Most points of one line of the machine.
const HOST_POINTS: usize = 1_500;

/// A metric as a line; where there are too many samples the highest of each stretch.
fn host_line(track: &HostTrack, start_ns: i64) -> HostLine {
    let stretch = track.points.len().div_ceil(HOST_POINTS).max(1);
    let mut points = Vec::new();
    let mut until = None;
    for part in track.points.chunks(stretch) {
        let highest = part.iter().max_by(|a, b| a.2.total_cmp(&b.2)).copied();
        let Some(((start, end, value), first)) = highest.zip(part.first()) else {
            continue;
        };
        let at = |ns: i64| ns.saturating_sub(start_ns) as f64 / 1e9;
        // Samples without a value are a gap in the line, not a straight one across.
        let gap = until.filter(|until| first.0 - until > (end - start) / 2);
        points.extend(gap.map(|until| (at(until), None)));
        points.push((at(start + (end - start) / 2), Some(value)));
        until = part.last().map(|p| p.1);
    }
    HostLine { metric: track.metric, item: track.item.clone(), points }
}

/// How series are named: by operation, and by workload when there are several.
struct SeriesNames<'a> {
    workloads: &'a [WorkloadPlan],
}

impl<'a> SeriesNames<'a> {
    fn new(analysis: &'a Analysis) -> Self {
        SeriesNames { workloads: &analysis.manifest.plan.workloads }
    }
    fn workload(&self, workload: u16) -> String {
        let plan = self.workloads.get(usize::from(workload));
        plan.map_or_else(|| format!("workload {workload}"), |w| w.name.clone())
    }
    fn of(&self, workload: u16, op: OpKind) -> String {
        match self.workloads.get(usize::from(workload)) {
            Some(plan) if self.workloads.len() > 1 => format!("{} {}", plan.name, op.name()),
            _ => op.name().to_owned(),
        }
    }
}

fn series(all: &mut Vec<LatencySeries>, analysis: &Analysis, group: &IoGroup, name: &str) {
    let latencies = &group.latencies;
    let headline = headline_kind(latencies);
    let window_ns =
        told_window(analysis, group).unwrap_or_else(|| analysis.window_ns(std::iter::once(group)));
    let mut known: Vec<_> = latencies.iter().filter(|(_, d)| !d.is_empty()).collect();
    known.sort_by_key(|(kind, _)| *kind != headline);
    for (kind, sample) in known {
        let main = kind == headline;
        // Kept by response or service time: no help for an end-to-end latency.
        let slowest = Some(&group.slowest).filter(|_| main && kind != LatencyKind::EndToEnd);
        let of = (group.op, name, window_ns);
        all.push(series_of(analysis, of, (kind, main), (sample, slowest)));
    }
}

/// The time in which another tool's rate gives its operations: its workloads may have been one after another.
fn told_window(analysis: &Analysis, group: &IoGroup) -> Option<u64> {
    let workload = analysis.imported.as_ref()?.workloads.get(usize::from(group.workload))?;
    let told = workload.ops.get(&group.op).filter(|op| op.iops > 0.0)?;
    Some((told.latency.count as f64 / told.iops * 1e9) as u64)
}

fn series_of(
    analysis: &Analysis,
    (op, name, window_ns): (OpKind, &str, u64),
    (measure, main): (LatencyKind, bool),
    (sample, slowest): (&LatencySample, Option<&SlowestIos>),
) -> LatencySeries {
    let dist: &Dist = sample;
    let seconds = window_ns as f64 / 1e9;
    if analysis.imported.is_some() {
        // How the I/Os depended on each other is not known: there is no interval.
        let bins = latency::distribution(dist, seconds).bins;
        let series = series_so_far(op, name.to_owned(), (measure, main), dist, seconds);
        return LatencySeries { bins, ..series };
    }
    let nines = nines(sample, slowest);
    let bounded = nines.iter().rev().find(|nine| nine.bound_ns.is_some());
    let with_bins = main || matches!(measure, LatencyKind::Response | LatencyKind::Service);
    let bins = match with_bins {
        true => latency::distribution(dist, seconds).bins,
        false => Vec::new(),
    };
    LatencySeries {
        op,
        name: name.to_owned(),
        measure,
        main,
        count: dist.count(),
        iops: per_s(dist.count() as f64, seconds),
        mean_ns: dist.mean().unwrap_or(0.0),
        max_ns: dist.max().unwrap_or(0),
        bins,
        curve: curve(dist),
        resolved_share: bounded.map_or(1.0, |nine| 0.1f64.powi(nine.k as i32)),
        nines: nines.into_iter().filter(|nine| nine.ns.is_some()).collect(),
        slc: slc_line(dist).filter(|_| main),
    }
}

/// A distribution of a run that goes on, or of an imported one: without bins, nines with intervals and SLC.
pub fn series_so_far(
    op: OpKind,
    name: String,
    (measure, main): (LatencyKind, bool),
    dist: &Dist,
    seconds: f64,
) -> LatencySeries {
    let resolved = (1..=9).take_while(|k| {
        let needed = Percentile::nines(*k).and_then(|pct| needed_one_sided(&pct));
        needed.is_some_and(|n| dist.count() >= n)
    });
    LatencySeries {
        op,
        name,
        measure,
        main,
        count: dist.count(),
        iops: per_s(dist.count() as f64, seconds),
        mean_ns: dist.mean().unwrap_or(0.0),
        max_ns: dist.max().unwrap_or(0),
        bins: Vec::new(),
        curve: curve(dist),
        resolved_share: resolved.last().map_or(1.0, |k| 0.1f64.powi(i32::from(k))),
        nines: Vec::new(),
        slc: None,
    }
}

/// The percentiles of the SLC factors, and the factors.
fn slc_line(dist: &Dist) -> Option<SlcLine> {
    let mut values = [0; 21];
    for (value, pct) in values.iter_mut().zip(&SBK_21_LIST) {
        *value = dist.percentile(pct)?;
    }
    let Slc { slc1, slc2 } = Slc::from_values(&values);
    Some(SlcLine { values, slc1, slc2 })
}

/// The nines, as the tables show them.
fn nines(sample: &LatencySample, slowest: Option<&SlowestIos>) -> Vec<NineEntry> {
    let asked = AskedPercentiles { percentiles: Vec::new(), nines: 9 };
    // Where the distribution came from does not matter for its ranks.
    latency::latency(sample, Origin::CAPTURE, &asked, slowest, None).nines
}

/// At most some 1,400 points: even in per cent for the body, even in nines for the tail, every
/// I/O where there are few, the slowest always.
fn curve(dist: &Dist) -> Vec<PercentilePoint> {
    let n = dist.count();
    let mut values: Vec<u64> =
        percentile_curve(dist, NINES_POINTS).into_iter().map(|p| p.value).collect();
    let body = (0..PERCENT_POINTS).filter_map(|i| {
        let rank = (u128::from(n) * u128::from(i) / u128::from(PERCENT_POINTS)) as u64 + 1;
        dist.value_at_rank(rank.min(n))
    });
    values.extend(body);
    values.sort_unstable();
    values.dedup();
    let total = dist.sum().max(1) as f64;
    let mut steps = dist.iter().peekable();
    let (mut faster, mut their_ns) = (0u64, 0u128);
    let point = |ns: u64| {
        while let Some((value, count)) = steps.next_if(|(value, _)| *value < ns) {
            faster += count;
            their_ns += u128::from(value) * u128::from(count);
        }
        let time_share = 1.0 - their_ns as f64 / total;
        PercentilePoint { ns, share: (n - faster) as f64 / n as f64, time_share }
    };
    values.into_iter().map(point).collect()
}

fn slow(analysis: &Analysis, ns: u64, row: &Row) -> SlowPoint {
    SlowPoint { at_s: row.submit.0.saturating_sub(analysis.start_ns) as f64 / 1e9, ns, row: *row }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_samples_are_a_gap_in_the_line() {
        let metric = taillight_rundir::host::metric("disk", "r_await").unwrap();
        let track = HostTrack {
            metric,
            item: None,
            points: vec![(0, 10, 1.0), (10, 20, 2.0), (40, 50, 3.0)],
        };
        let values: Vec<_> = host_line(&track, 0).points.iter().map(|p| p.1).collect();
        assert_eq!(values, [Some(1.0), Some(2.0), None, Some(3.0)]);
    }

    #[test]
    fn a_curve_keeps_its_ends_and_stays_small() {
        let dist: Dist = (0..300_000u64).map(|i| i * i % 1_000_003 + 50).collect();
        let points = curve(&dist);
        assert!(points.len() <= 1_500, "{}", points.len());
        assert_eq!(points.first().map(|p| (p.ns, p.share)), Some((dist.min().unwrap(), 1.0)));
        assert_eq!(points.last().map(|p| p.ns), dist.max());
        assert!(points.windows(2).all(|w| w[0].ns < w[1].ns && w[0].share > w[1].share));
    }

    proptest::proptest! {
        #[test]
        fn every_point_of_a_curve_is_a_true_share(
            values in proptest::collection::vec(0u64..100_000, 1..5_000)
        ) {
            let dist = Dist::from_values(values.clone());
            for point in curve(&dist) {
                let slower = values.iter().filter(|v| **v >= point.ns).count();
                proptest::prop_assert_eq!(point.share, slower as f64 / values.len() as f64);
                let sum = |least: u64| values.iter().filter(|v| **v >= least).sum::<u64>() as f64;
                let wanted = if sum(0) > 0.0 { sum(point.ns) / sum(0) } else { 1.0 };
                proptest::prop_assert!((point.time_share - wanted).abs() < 1e-9);
            }
        }
    }
}
