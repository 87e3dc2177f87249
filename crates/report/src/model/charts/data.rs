//! What charts are drawn from: per run, ready numbers; curves, intervals and lines of the machine come already thinned
//! to what a screen can show.
//!
//! A run's part is filled by `build` from an analysis; drawn by `render::plots`. Nothing here knows plotly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::samples::SamplePanel;
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::compare::CompareFile;
use taillight_rundir::history::HistoryFile;
use taillight_rundir::host::Metric;
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::latency::NineEntry;
use taillight_rundir::search::SearchReport;
use taillight_rundir::summary::{ArrivalsSummary, Bin, RecordedSummary};
use taillight_stats::{SteadyRule, SteadyWindow};

use super::super::context::ReportPoint;
use super::sweep::SweepData;
use crate::analyse::Row;
use crate::analyse::latency::per_s;

/// The runs laid over each other.
#[derive(Debug, Clone, Default)]
pub struct ChartModel {
    /// One entry per run directory, in the order given.
    pub runs: Vec<RunCharts>,
    /// Runs to be seen together, where the caller knows which; charts may use it.
    pub groups: Vec<RunGroup>,
    /// The search that the runs are probes of.
    pub search: Option<SearchReport>,
    /// The sweep that the runs are points of.
    pub sweep: Option<SweepData>,
    /// Figures that were judged for steady state.
    pub steady: Vec<SteadyTrack>,
    /// Runs with a histogram of their own.
    pub points: Vec<ReportPoint>,
    /// The comparison whose sides the runs are.
    pub compare: Option<CompareFile>,
    /// Which side each run is of, 0 that of base; empty without a comparison.
    pub sides: Vec<Option<usize>>,
    /// The history whose figures are drawn over its nights.
    pub history: Option<HistoryFile>,
}

/// A figure over the rounds of a series, and the last window of rounds that was judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyTrack {
    /// Heading of its plot.
    pub title: String,
    /// The figure, by its name in `series.json`.
    pub figure: String,
    pub rule: SteadyRule,
    /// Every round, and its value where it has one.
    pub rounds: Vec<(u32, Option<f64>)>,
    /// None while there are too few rounds.
    pub window: Option<JudgedWindow>,
}

/// A window of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedWindow {
    pub first: u32,
    pub last: u32,
    pub found: SteadyWindow,
}

/// Runs that one figure shows together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunGroup {
    /// Heading of the figure.
    pub title: String,
    /// Their places among the runs.
    pub runs: Vec<usize>,
    /// Their names in the figure; empty = the runs' own.
    #[serde(default)]
    pub labels: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Default)]
pub struct RunCharts {
    pub label: String,
    /// Latency distributions per operation (and workload, when there are several).
    pub series: Vec<LatencySeries>,
    /// All operations together, for a run with a histogram of its own that has several.
    pub whole: Option<LatencySeries>,
    /// Interval values per operation (and workload).
    pub tracks: Vec<OpTrack>,
    /// Operations in flight and backlog over time, per workload.
    pub workloads: Vec<WorkloadTrack>,
    /// Heat maps per operation.
    pub heats: Vec<HeatGrid>,
    /// Slowest I/Os per operation.
    pub outliers: Vec<OpOutliers>,
    /// What the machine did.
    pub host: Vec<HostLine>,
    /// The target's own statistics: name, and (seconds since the start, value) of each sample.
    pub store: Vec<(String, Vec<(f64, f64)>)>,
    /// How these are drawn.
    pub store_panels: Vec<SamplePanel>,
    /// Response-time ceilings asked for, ns.
    pub ceilings: Vec<u64>,
    /// Latencies of replayed traces beside those of the replay.
    pub recorded: Vec<RecordedSummary>,
    /// Operations of replays due and completed over time.
    pub arrivals: Vec<ArrivalsSummary>,
    /// Where their first windows begin on the time axis, s.
    pub arrivals_from_s: f64,
}

/// One metric of the machine over time.
#[derive(Debug, Clone)]
pub struct HostLine {
    pub metric: &'static Metric,
    pub item: Option<String>,
    /// Middle of the window, seconds since the start of the measure phase; the value, none where
    /// samples are missing.
    pub points: Vec<(f64, Option<f64>)>,
}

/// One latency distribution.
#[derive(Debug, Clone)]
pub struct LatencySeries {
    pub op: OpKind,
    /// `read`, or `workload read` when there are several workloads.
    pub name: String,
    pub measure: LatencyKind,
    /// Whether it is the run's main measure: end to end where there is one and the run is over, response in
    /// an open loop, else service.
    pub main: bool,
    pub count: u64,
    /// Successful I/Os per second.
    pub iops: f64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Largest, ns.
    pub max_ns: u64,
    /// 50 bins per decade, ascending, from the first to the last that holds an I/O; none for kinds other than the main
    /// one, response and service, and none of a run that goes on.
    pub bins: Vec<Bin>,
    /// The percentile curve, thinned, ascending.
    pub curve: Vec<PercentilePoint>,
    /// Share of slowest I/Os below which the curve is not resolved.
    pub resolved_share: f64,
    /// The resolved nines; none of imported runs and of runs that go on.
    pub nines: Vec<NineEntry>,
    /// What the SLC factors are made of; the main measure only.
    pub slc: Option<SlcLine>,
}

/// The listed percentiles of the SLC factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlcLine {
    /// Latencies at the 21 percentiles, ns.
    pub values: [u64; 21],
    /// SLC1; none when undefined.
    pub slc1: Option<f64>,
    /// SLC2; none when undefined.
    pub slc2: Option<f64>,
}

/// A step of the percentile curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentilePoint {
    /// Latency, ns.
    pub ns: u64,
    /// Share of I/Os that took this long or longer, in (0, 1].
    pub share: f64,
    /// Share of the time of all I/Os together that these took.
    pub time_share: f64,
}

/// Values over time of one operation.
#[derive(Debug, Clone)]
pub struct OpTrack {
    pub op: OpKind,
    /// As in [`LatencySeries::name`].
    pub name: String,
    /// Intervals in order of time.
    pub points: Vec<OpPoint>,
    /// The same time in finer steps, latencies within 1 %, rates exact, bytes unknown; empty where not every
    /// I/O is kept or the intervals are fine enough.
    pub fine: Vec<OpPoint>,
}

impl OpTrack {
    /// The points of a line: the finer ones, where at least half of them have the value and 5 successes.
    pub fn points_of<T>(&self, pick: impl Fn(&OpPoint) -> Option<T>) -> &[OpPoint] {
        // A step with hardly an I/O is noise.
        let known = |p: &&OpPoint| pick(p).is_some() && p.good() >= FOR_P50;
        let known = self.fine.iter().filter(known).count();
        if known > 0 && known * 2 >= self.fine.len() { &self.fine } else { &self.points }
    }
}

/// One interval of one operation. Columns that tell of the whole workload, which its rows repeat, are
/// in [`WorkloadPoint`].
#[derive(Debug, Clone, PartialEq)]
pub struct OpPoint {
    /// Middle of the interval, seconds since the start of the measure phase.
    pub at_s: f64,
    row: IntervalRow,
}

/// I/Os from which a percentile of an interval is resolved.
const FOR_P50: u64 = 5;
/// Operations from which the rate of a step is drawn.
const FOR_RATE: u64 = 20;
const FOR_P99: u64 = 299;
const FOR_P999: u64 = 2_995;

/// Points without a last interval that is not half as long as the one before it: what happens to complete in a moment is
/// no rate.
pub fn with_rates(points: &[OpPoint]) -> &[OpPoint] {
    match points {
        [rest @ .., last]
            if rest.last().is_some_and(|before| last.row.length_ns < before.row.length_ns / 2) =>
        {
            rest
        }
        _ => points,
    }
}

impl OpPoint {
    pub fn new(at_s: f64, row: IntervalRow) -> OpPoint {
        OpPoint { at_s, row }
    }
    fn good(&self) -> u64 {
        self.row.ops.saturating_sub(self.row.errors)
    }
    fn seconds(&self) -> f64 {
        self.row.length_ns as f64 / 1e9
    }
    /// Successful operations per second.
    pub fn iops(&self) -> f64 {
        per_s(self.good() as f64, self.seconds())
    }
    /// The same, of enough operations that a rate is no chance.
    pub fn steady_iops(&self) -> Option<f64> {
        (self.good() >= FOR_RATE).then(|| self.iops())
    }
    pub fn bytes_per_s(&self) -> f64 {
        per_s(self.row.bytes as f64, self.seconds())
    }
    /// Median, ns; none with too few I/Os, as all percentiles.
    pub fn p50_ns(&self) -> Option<u64> {
        self.row.p50_ns.filter(|_| self.good() >= FOR_P50)
    }
    pub fn p99_ns(&self) -> Option<u64> {
        self.row.p99_ns.filter(|_| self.good() >= FOR_P99)
    }
    pub fn p999_ns(&self) -> Option<u64> {
        self.row.p999_ns.filter(|_| self.good() >= FOR_P999)
    }
    /// 99 % of the response time; with a schedule only.
    pub fn response_p99_ns(&self) -> Option<u64> {
        self.row.response_p99_ns.filter(|_| self.good() >= FOR_P99)
    }
    pub fn max_ns(&self) -> Option<u64> {
        self.row.max_ns
    }
}

/// Values over time of one workload, all its operations together.
#[derive(Debug, Clone)]
pub struct WorkloadTrack {
    /// Name in the plan.
    pub name: String,
    /// Intervals in order of time.
    pub points: Vec<WorkloadPoint>,
}

/// One interval of one workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkloadPoint {
    /// Middle of the interval, seconds since the start of the measure phase.
    pub at_s: f64,
    /// Mean number of operations in flight.
    pub depth_mean: f64,
    /// Operations due and not yet sent at the end of the interval; with a schedule only.
    pub backlog: Option<u64>,
}

/// I/Os counted on a grid of time and log latency.
#[derive(Debug, Clone)]
pub struct HeatGrid {
    pub op: OpKind,
    /// As in [`LatencySeries::name`].
    pub name: String,
    /// Edges of the columns, seconds since the start; one more than columns.
    pub times_s: Vec<f64>,
    /// Edges of the rows, ns, ascending; one more than rows.
    pub edges_ns: Vec<f64>,
    /// Counts, row by row from the fastest.
    pub counts: Vec<Vec<u64>>,
}

/// The slowest I/Os of one operation.
#[derive(Debug, Clone)]
pub struct OpOutliers {
    pub op: OpKind,
    /// As in [`LatencySeries::name`].
    pub name: String,
    pub points: Vec<SlowPoint>,
}

/// One slow I/O.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowPoint {
    /// Submit, seconds since the start of the measure phase.
    pub at_s: f64,
    /// Latency, ns.
    pub ns: u64,
    pub row: Row,
}

impl ChartModel {
    /// The runs of a group by themselves, each as one line of all its operations.
    pub fn part(&self, group: &RunGroup) -> ChartModel {
        let run = |(nth, at): (usize, &usize)| {
            let run = self.runs.get(*at)?;
            Some(RunCharts {
                label: group.labels.get(nth).unwrap_or(&run.label).clone(),
                series: run.whole.as_ref().map_or(run.series.clone(), |all| vec![all.clone()]),
                ..RunCharts::default()
            })
        };
        let runs = group.runs.iter().enumerate().filter_map(run).collect();
        ChartModel { runs, ..ChartModel::default() }
    }

    /// The end of the time axis: the latest interval, heat map or outlier, seconds.
    pub fn end_s(&self) -> f64 {
        let runs = || self.runs.iter();
        let tracks = runs().flat_map(|r| &r.tracks).filter_map(|t| t.points.last());
        let heats = runs().flat_map(|r| &r.heats).filter_map(|h| h.times_s.last().copied());
        let slow = runs().flat_map(|r| &r.outliers).flat_map(|o| &o.points).map(|p| p.at_s);
        tracks.map(|p| p.at_s).chain(heats).chain(slow).fold(0.0, f64::max)
    }
}

impl RunCharts {
    /// Moves everything on a time axis by `seconds`.
    pub fn shift(&mut self, seconds: f64) {
        let tracks = self.tracks.iter_mut().flat_map(|t| t.points.iter_mut().chain(&mut t.fine));
        tracks.for_each(|p| p.at_s += seconds);
        self.arrivals_from_s += seconds;
        let workloads = self.workloads.iter_mut().flat_map(|w| &mut w.points);
        workloads.for_each(|p| p.at_s += seconds);
        let heats = self.heats.iter_mut().flat_map(|h| &mut h.times_s);
        heats.for_each(|t| *t += seconds);
        let slow = self.outliers.iter_mut().flat_map(|o| &mut o.points);
        slow.for_each(|p| p.at_s += seconds);
        let host = self.host.iter_mut().flat_map(|h| &mut h.points);
        host.for_each(|p| p.0 += seconds);
        let store = self.store.iter_mut().flat_map(|(_, points)| points);
        store.for_each(|p| p.0 += seconds);
    }
    /// The names of its series in order, each once.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for series in &self.series {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        names
    }
    /// The operations of its series, each once.
    pub fn ops(&self) -> Vec<OpKind> {
        let mut ops: Vec<OpKind> = self.series.iter().map(|s| s.op).collect();
        ops.sort_unstable();
        ops.dedup();
        ops
    }
}
