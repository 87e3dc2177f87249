//! A finished run as metrics, with the same model, names and buckets as `/metrics`: at the times of its intervals as
//! OpenMetrics text for `promtool tsdb create-blocks-from openmetrics`, or in all without a time. `remote` sends them.
//!
//! What a run directory keeps of no interval has no metric: failures by status, what was due, waited or was in flight,
//! and the machine. Counts are exact, and sums to the rounding of a mean; but sums of response and end-to-end times of
//! old runs, whose intervals have none, are of histograms, within 0.1 %.

use std::collections::BTreeMap;
use std::sync::Arc;

use taillight_core::{Error, LatencyKind, LatencyMap, Result, Stamp};
use taillight_engine::IntervalView;
use taillight_engine::collector::{ClosedInterval, ClosedOp};
use taillight_rundir::histlog::each_histogram;
use taillight_rundir::intervals::{IntervalRow, read_intervals};
use taillight_rundir::manifest::LiveViewCost;
use taillight_rundir::{RunDir, names, sums};

use crate::feed::{LiveEvent, RunFacts};
use crate::metrics::{Family, Labels, MetricSample, families};
use crate::model::LiveModel;
use crate::openmetrics::{TextFormat, head, samples, text};

/// How far an interval of the histogram log, whose stamps are whole milliseconds, may be from the table's.
const NEAR_NS: i64 = 1_000_000;

/// The run in `dir` as OpenMetrics text. Errors: `Usage` for a run without measured intervals; `Corrupt` for
/// damaged files.
pub fn export(dir: &RunDir) -> Result<String> {
    let mut timed = TimedText::default();
    replay(dir, &mut |families, at_s| families.into_iter().for_each(|f| timed.put(f, at_s)))?;
    Ok(timed.finish())
}

/// What the run counted in all, without a time, as the text that node_exporter's textfile collector takes (version
/// 0.0.4). Errors: as [`export`].
pub fn totals(dir: &RunDir) -> Result<String> {
    let mut last = Vec::new();
    replay(dir, &mut |families, _| last = families)?;
    // Nothing goes on any more.
    last.retain(|family| family.name != "taillight_phase");
    Ok(text(&last, TextFormat::Prometheus, None))
}

/// Calls `each` with the metrics at the end of every interval of the run, and that time in seconds since the epoch.
/// Of intervals that end in the same millisecond, the finest time that readers keep, only the last. Errors: as
/// [`export`].
pub fn replay(dir: &RunDir, each: &mut dyn FnMut(Vec<Family>, f64)) -> Result<()> {
    let manifest = dir.manifest();
    let mut model = LiveModel::default();
    model.take(LiveEvent::Begin(Box::new(RunFacts {
        run_id: manifest.run_id.clone(),
        about: String::new(),
        host: None,
        plan: manifest.plan.clone(),
        series: None,
        dir: dir.path().to_owned(),
    })));
    model.take(LiveEvent::Phase("measure".to_owned()));
    let intervals = intervals(dir)?;
    if intervals.is_empty() {
        return Err(Error::usage("the run measured nothing")
            .with("path", dir.path().display())
            .hint("give the directory of a run that has measured"));
    }
    let length = |ops: &[ClosedOp]| ops.iter().map(|op| op.row.length_ns).max().unwrap_or(0);
    let at = |end_ns: i64| {
        let since = end_ns.saturating_sub(manifest.clock.monotonic_ns);
        manifest.clock.realtime_ns.saturating_add(since) as f64 / 1e9
    };
    let stamp = |end_ns: i64| (at(end_ns) * 1e3).round();
    let mut intervals = intervals.into_iter().peekable();
    while let Some((start_ns, ops)) = intervals.next() {
        let length_ns = length(&ops);
        let closed = ClosedInterval {
            measured: true,
            start: Stamp(start_ns),
            length_ns,
            backlog: ops.iter().filter_map(|op| op.row.backlog).next(),
            ops,
            ..ClosedInterval::default()
        };
        let end_ns = start_ns.saturating_add_unsigned(length_ns);
        let started = model.start().map_or(start_ns, |start| start.0);
        model.take(LiveEvent::Interval(Box::new(IntervalView {
            phase: "measure",
            elapsed_ns: end_ns.saturating_sub(started).max(0) as u64,
            planned_ns: manifest.plan.planned_ns(),
            operations: (0, None),
            closed: Arc::new(closed),
            provisional: false,
        })));
        let next =
            intervals.peek().map(|(start_ns, ops)| start_ns.saturating_add_unsigned(length(ops)));
        if next.is_some_and(|next_ns| stamp(next_ns) == stamp(end_ns)) {
            continue;
        }
        // What the view used is not the run's.
        let all = families(&model, &LiveViewCost::default()).into_iter();
        each(all.filter(|f| !f.name.starts_with("taillight_live_")).collect(), at(end_ns));
    }
    Ok(())
}

/// The measured intervals by their start, with what the histogram log says of them.
fn intervals(dir: &RunDir) -> Result<BTreeMap<i64, Vec<ClosedOp>>> {
    let manifest = dir.manifest();
    let mut all: BTreeMap<i64, Vec<ClosedOp>> = BTreeMap::new();
    let log = sums::believed(dir, names::HISTOGRAMS)?;
    let table = sums::believed(dir, names::INTERVALS)?;
    let Some(table) = table else {
        return Err(Error::usage("the run has no intervals, of which metrics are made")
            .with("path", dir.path().display())
            .hint(
                "one that was killed, watched, imported or put together of ranks has none; --format json has its \
                 figures, and the directory of each rank its own intervals",
            ));
    };
    for row in read_intervals(&table)? {
        if row.phase == "measure" {
            let op = ClosedOp { row, ..ClosedOp::default() };
            all.entry(op.row.start_ns).or_default().push(op);
        }
    }
    let Some(log) = log else { return Ok(all) };
    each_histogram(&log, &manifest.clock, &mut |entry| {
        if entry.tag.phase != "measure" {
            return Ok(());
        }
        let workload = manifest.plan.tagged(&entry.tag.workload);
        let near = entry.start_ns - NEAR_NS..=entry.start_ns + NEAR_NS;
        let found = all
            .range_mut(near)
            .flat_map(|(_, ops)| ops)
            .filter(|op| Some(op.row.workload) == workload && op.row.op == entry.tag.op);
        let nearest = found.min_by_key(|op| op.row.start_ns.abs_diff(entry.start_ns));
        let op = nearest.ok_or_else(|| {
            Error::corrupt("the histogram log has an interval that intervals.parquet has not")
                .with("path", dir.path().display())
        })?;
        let held = &entry.histogram;
        let values: Vec<(u64, u64)> =
            held.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect();
        let sum = values.iter().map(|(ns, n)| held.median_equivalent(*ns).saturating_mul(*n)).sum();
        let kind = entry.tag.kind;
        op.sums_ns.insert(kind, exact_sum(&op.row, kind).unwrap_or(sum));
        op.latencies.get_or_insert_with(LatencyMap::default).insert(kind, values);
        Ok(())
    })?;
    Ok(all)
}

/// The sum of a kind in an interval, ns, as the collector had it: of service times to the rounding of their mean. Old
/// runs have none of response and end-to-end times.
fn exact_sum(row: &IntervalRow, kind: LatencyKind) -> Option<u64> {
    match kind {
        LatencyKind::Service => Some((row.mean_ns? * (row.ops - row.errors) as f64).round() as u64),
        LatencyKind::Response => row.response_sum_ns,
        LatencyKind::EndToEnd => row.end_to_end_sum_ns,
        _ => None,
    }
}

/// Samples of many times, each series by itself and in order of time, as the format wants it.
#[derive(Default)]
struct TimedText {
    families: Vec<(Family, BTreeMap<Labels, String>)>,
}

impl TimedText {
    fn put(&mut self, family: Family, at_s: f64) {
        let place = self.families.iter().position(|(f, _)| f.name == family.name);
        let place = place.unwrap_or_else(|| {
            let none = Family { samples: Vec::new(), ..family.clone() };
            self.families.push((none, BTreeMap::new()));
            self.families.len() - 1
        });
        let series = &mut self.families[place].1;
        for MetricSample { labels, value } in family.samples.clone() {
            let one = Family {
                samples: vec![MetricSample { labels: labels.clone(), value }],
                ..family.clone()
            };
            samples(series.entry(labels).or_default(), &one, Some(at_s));
        }
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for (family, series) in self.families {
            head(&mut text, &family, TextFormat::OpenMetrics);
            series.values().for_each(|lines| text.push_str(lines));
        }
        text + "# EOF\n"
    }
}
