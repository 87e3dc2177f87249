//! The resolved plan: what a run will do, with defaults filled in.
//!
//! A plan serialises to TOML that is itself a valid job file, so `--print-plan` output runs
//! again as the same run. [`crate::job`] makes plans from jobs and checks them against driver capabilities; the
//! manifest keeps the plan, engine and report read it.

mod absent;
mod access;
mod arrival;
mod data;
mod forms;
mod gate;
mod priority;
mod ranks;
mod replay;
mod search;
mod steady;
mod verified;
mod workload;

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::keys::KeyNaming;
pub use access::{Access, AccessKind, FileOrder, Hot, Reach, Zone};
pub use arrival::{Arrival, Flow, RateStep, Think, WorkerRamp};
pub use data::{Keys, Payload, PayloadKind, Scan, ScanSpread, Values, VerifyMode, VerifyPlan};
pub(crate) use forms::mix::{serialize as mix_serialize, shares as mix_shares};
pub use gate::{Figure, GateFail, GateFigure, GatePlan};
pub use priority::{IoClass, IoPriority};
pub use ranks::{OwnPath, RankPlace, WorkShare, rank_name};
pub use replay::{
    NO_LATENCY, RecordedLatency, RecordedPercentile, ReplayOps, ReplayPlan, TraceArrivals,
    TraceFit, TraceOp, TraceTiming,
};
pub use search::{Demand, DepthBetween, RateBetween, SearchPlan};
pub use steady::{SteadyEnd, SteadyEndRule, SteadyFigure};
pub use verified::LEDGER_ENTRY;
pub use workload::{
    BlockSize, BlockSizePart, MixPart, SizeRange, SizeSpread, Sync, UnifiedRow, WorkloadPlan,
    tag_text,
};

use crate::percentile::Percentile;
use crate::units::{ByteSize, Span};

/// Size of the largest chunk that a worker's I/Os are kept in, bytes.
pub const CAPTURE_CHUNK: u64 = 8 << 20;
/// Size of the smallest chunk, bytes.
const LEAST_CHUNK: u64 = 16 << 10;

/// Size of the chunks that the I/Os of each of so many workers are kept in, bytes: an eighth of a worker's share of
/// the budget (what is held back for outliers is an eighth too), rounded down to a power of two from 16 KiB to 8 MiB.
/// `None` where the budget does not hold two of the smallest chunks for each worker.
pub fn capture_chunk(budget: u64, workers: u32) -> Option<u64> {
    let workers = u64::from(workers.max(1));
    let share = (budget / workers / 8).max(1);
    let chunk = (1 << share.ilog2()).clamp(LEAST_CHUNK, CAPTURE_CHUNK);
    (budget >= least_capture(workers)).then_some(chunk)
}

/// The smallest capture budget that so many workers can share, bytes: two chunks of 16 KiB each.
pub fn least_capture(workers: u64) -> u64 {
    workers.saturating_mul(2 * LEAST_CHUNK)
}

/// A whole run, resolved.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name, seed, end, warm-up, interval.
    pub run: RunPlan,
    /// What is driven.
    pub target: TargetPlan,
    /// Further targets by name, of the same driver; workloads name the one that they drive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, TargetPlan>,
    /// One or more workloads, each with its own workers, all at the same time.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadPlan>,
    /// Percentiles, nines and ceilings of the report.
    pub qos: QosPlan,
    /// Layer tracing.
    pub trace: TracePlan,
    /// Capture of every I/O.
    pub capture: CapturePlan,
    /// Checks of what is read.
    #[serde(default, skip_serializing_if = "VerifyPlan::is_off")]
    pub verify: VerifyPlan,
    /// Search for the highest demand under a ceiling; absent = one point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchPlan>,
    /// What comparisons decide by; absent = nothing is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GatePlan>,
    /// Which of several ranks this is the plan of; absent = the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub ranks: Option<RankPlace>,
}

/// `[run]`: name, seed, when it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPlan {
    /// Name of the run, used for the output directory.
    pub name: String,
    /// Seed of every random draw.
    pub seed: u64,
    /// Ends after this time in the measure phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Ends after this many operations over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Ends after this many bytes asked over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// Unmeasured load before the measure phase.
    pub warmup: Span,
    /// Reporting window.
    pub interval: Span,
    /// How long in-flight operations are awaited at the end.
    pub drain_timeout: Span,
    /// Ends when no operation was complete for this long; absent = it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// Ends once a figure is steady, if that is sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyEnd>,
    /// Steps after the records are loaded and before the load of the run, each a phase of its own; not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<PreRunStep>,
    /// Runs back to back on one time axis.
    #[serde(default = "absent::one", skip_serializing_if = "absent::is_one")]
    pub repeat: u32,
    /// How ranks of a run over several hosts share what they drive.
    #[serde(default, skip_serializing_if = "WorkShare::is_own")]
    pub share: WorkShare,
    /// Memory that is taken and locked while the run goes on, so that less is left for the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock_memory: Option<ByteSize>,
    /// It goes on with the work of the run before it in the series: fio's JSON has one row for both.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub continues: bool,
    /// Run directory; absent = `taillight-runs/<name>-<UTC>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl Default for RunPlan {
    /// Without name, seed and end.
    fn default() -> RunPlan {
        RunPlan {
            name: String::new(),
            seed: 0,
            duration: None,
            operations: None,
            bytes: None,
            warmup: Span(0),
            interval: Span(1_000_000_000),
            drain_timeout: Span(30_000_000_000),
            idle_timeout: None,
            steady: None,
            before: Vec::new(),
            repeat: 1,
            share: WorkShare::Own,
            lock_memory: None,
            continues: false,
            output: None,
        }
    }
}

/// A step after the records are loaded and before the load of the run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Before")]
pub enum PreRunStep {
    /// What a store holds in memory goes into its files; files are synced.
    Flush,
    /// Full compaction of a store.
    Compact,
    /// Cached data of the target is forgotten.
    DropCaches,
}

impl PreRunStep {
    /// Name in job files, and of the phase.
    pub fn name(self) -> &'static str {
        match self {
            PreRunStep::Flush => "flush",
            PreRunStep::Compact => "compact",
            PreRunStep::DropCaches => "drop_caches",
        }
    }
}

/// `[target]`: the driver and what it opens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct TargetPlan {
    /// Driver name; `taillight drivers` lists them. Required.
    pub driver: String,
    /// File, directory (ends in `/`) or device. A path that does not exist becomes a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Total size of the data set. Default: the size of what exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
    /// Allows overwriting what Taillight did not make; `--destroy TARGET` must name it as well.
    /// Default: false.
    pub destroy: bool,
    /// The driver's own options; `taillight drivers NAME` describes them.
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub options: toml::Table,
}

/// `[qos]`: what the report answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct QosPlan {
    /// Percentiles in the report, as text: "99.9". Default: from 1 to 99.9999999.
    pub percentiles: Vec<Percentile>,
    /// Deepest nine reported (3 = 99.9 %), 1 to 9. Default: 9.
    pub nines: u32,
    /// Response-time ceilings to check. Default: none.
    pub ceilings: Vec<Ceiling>,
    /// Runs that may ask the same question, of which the first that decides is the answer, 1 to 100: each
    /// has that part of the error of one alone, so that together they err no more often. Default: 1.
    pub looks: u32,
}

impl Default for QosPlan {
    /// The body of the distribution, then two to nine nines.
    fn default() -> QosPlan {
        let body = [100, 500, 1_000, 2_500, 5_000, 7_500, 9_000, 9_500].map(Percentile::hundredths);
        let percentiles = body.into_iter().chain((2..=9).filter_map(Percentile::nines)).collect();
        QosPlan { percentiles, nines: 9, ceilings: Vec::new(), looks: 1 }
    }
}

/// One response-time ceiling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// The ceiling.
    pub ceiling: Span,
    /// The percentile that must stay under it.
    pub at: Percentile,
    /// I/Os of one request: it is as slow as the slowest of them, and `at` counts requests. Default:
    /// 1, each I/O by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fanout: Option<u32>,
    /// Name of the workload whose I/Os count. Default: all that are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
}

impl Ceiling {
    /// For every I/O by itself.
    pub fn new(ceiling: Span, at: Percentile) -> Ceiling {
        Ceiling { ceiling, at, fanout: None, workload: None }
    }
}

/// `[trace]`: layer tracing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct TracePlan {
    /// Layers traced: off, outliers or all. Default: off.
    pub mode: TraceMode,
    /// Slower than this is an outlier. Default: the tightest of `qos.ceilings`, else the 99.9 % of
    /// each kind of operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Span>,
    /// Sample disks, CPUs, pressure and memory of the machine at each interval (at most every
    /// 100 ms). Default: true.
    pub host: bool,
    /// How tracing sees: bpf, perf, or auto, the better of them that works. May also be written
    /// `backend`. Default: auto.
    #[serde(
        rename = "rung",
        alias = "backend",
        skip_serializing_if = "TracingBackendChoice::is_auto"
    )]
    pub backend: TracingBackendChoice,
    /// Memory for events that the kernel hands over, a power of two: all of backend bpf, or of each
    /// worker with backend perf. Default: 8 MiB (bpf), 64 KiB (perf).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<ByteSize>,
}

impl Default for TracePlan {
    fn default() -> TracePlan {
        TracePlan {
            mode: TraceMode::Off,
            threshold: None,
            host: true,
            backend: TracingBackendChoice::Auto,
            buffer: None,
        }
    }
}

/// How much is traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceMode {
    /// Nothing is loaded.
    Off,
    /// Slow I/Os only.
    Outliers,
    /// Every I/O.
    All,
}

/// How tracing sees, from the best to the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TracingBackendChoice {
    /// The best that works here.
    #[default]
    Auto,
    /// Programs on the kernel's trace points. Needs root, or CAP_BPF, CAP_PERFMON and CAP_SYSLOG.
    Bpf,
    /// The kernel's log of when each worker left and entered the CPU. Needs no rights.
    Perf,
    /// Counters of each worker, removed: only plans of old runs name it.
    #[schemars(skip)]
    Procfs,
}

impl TracingBackendChoice {
    /// Whether no backend was asked for.
    pub fn is_auto(&self) -> bool {
        *self == TracingBackendChoice::Auto
    }
}

/// `[capture]`: keeping every I/O.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(deny_unknown_fields)]
pub struct CapturePlan {
    /// I/Os kept: all, outliers, or off (histograms only). Default: all.
    pub mode: CaptureMode,
    /// Memory the capture may take. Default: a quarter of the free memory.
    pub budget: ByteSize,
    /// Directory for what exceeds the budget, not on the device under test. Default: none; past
    /// the budget exact histograms and outliers are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// What the capture keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CaptureMode {
    /// Every I/O.
    #[default]
    All,
    /// I/Os beyond a running outlier threshold.
    Outliers,
    /// Histograms only.
    Off,
}

impl Plan {
    /// Whether it asks for several runs: repetitions or a search.
    pub fn is_series(&self) -> bool {
        self.search.is_some() || self.run.repeat > 1
    }
    /// Index of the first workload whose name is `tag` in the tags of a histogram log ([`tag_text`]).
    pub fn tagged(&self, tag: &str) -> Option<u16> {
        let place = self.workloads.iter().position(|w| tag_text(&w.name) == tag)?;
        u16::try_from(place).ok()
    }
    /// The numbers of the workers of a workload by its name, as records have them; `None` for an unknown name.
    pub fn workers_of(&self, workload: &str) -> Option<Range<u32>> {
        let mut first = 0u32;
        for w in &self.workloads {
            let end = first.saturating_add(w.workers);
            if w.name == workload {
                return Some(first..end);
            }
            first = end;
        }
        None
    }
    /// Workers over all workloads.
    pub fn workers(&self) -> u32 {
        self.workloads.iter().map(|w| w.workers).sum()
    }
    /// The target of a workload.
    pub fn target_of(&self, workload: &WorkloadPlan) -> &TargetPlan {
        let named = workload.target.as_ref().and_then(|name| self.targets.get(name));
        named.unwrap_or(&self.target)
    }
    /// Every target: `[target]`, which has no name, then those of `[targets]`.
    pub fn all_targets(&self) -> impl Iterator<Item = (Option<&str>, &TargetPlan)> {
        let named = self.targets.iter().map(|(name, target)| (Some(name.as_str()), target));
        std::iter::once((None, &self.target)).chain(named)
    }
    /// What is asked of one target: the plan with it alone, and with the workloads that drive it.
    pub fn for_target(&self, name: Option<&str>) -> Plan {
        let mut plan = self.clone();
        if let Some(target) = name.and_then(|name| plan.targets.remove(name)) {
            plan.target = target;
        }
        plan.targets.clear();
        plan.workloads.retain(|w| w.target.as_deref() == name);
        plan.workloads.iter_mut().for_each(|w| w.target = None);
        plan
    }
    /// Index of the first workload that has the same `ends_with` as this one: one number for all that end together.
    /// `None` where it has no `ends_with`.
    pub fn end_group(&self, workload: u16) -> Option<usize> {
        let with = self.workloads.get(usize::from(workload))?.ends_with.as_ref()?;
        self.workloads.iter().position(|w| w.ends_with.as_ref() == Some(with))
    }
    /// Time that it measures at most, ns; `None` where only counts end it.
    pub fn planned_ns(&self) -> Option<u64> {
        let measured = self.workloads.iter().filter(|w| w.measured);
        let own = measured.map(|w| Some(w.start_delay.0.saturating_add(w.duration?.0)));
        let own = own.collect::<Option<Vec<u64>>>().and_then(|ends| ends.into_iter().max());
        let ending = self.workloads.iter().filter(|w| w.ends_run);
        let ending = ending.filter_map(|w| Some(w.start_delay.0.saturating_add(w.duration?.0)));
        self.run.duration.map(|d| d.0).into_iter().chain(own).chain(ending).min()
    }
    /// Operations that it measures at most; `None` where neither the run nor each measured workload counts operations.
    pub fn planned_operations(&self) -> Option<u64> {
        let measured = self.workloads.iter().filter(|w| w.measured);
        let own = measured.map(|w| w.operations).sum::<Option<u64>>().filter(|n| *n > 0);
        self.run.operations.into_iter().chain(own).min()
    }
    /// From which latency on an I/O is to be explained, ns: the threshold asked for, else the
    /// tightest ceiling. `None` means the 99.9 % of its kind of operation.
    pub fn outlier_ns(&self) -> Option<u64> {
        let ceilings = self.qos.ceilings.iter().map(|c| c.ceiling.0).min();
        self.trace.threshold.map(|t| t.0).or(ceilings)
    }
    /// Whether its measured workloads have the operation of a figure.
    pub fn has_figure(&self, figure: &GateFigure) -> bool {
        let measured = self.workloads.iter().filter(|w| w.measured);
        measured.flat_map(|w| &w.mix).any(|part| part.op == figure.op)
    }
    /// The plan as a job file: running it again is the same run. Errors: `Internal` when a value
    /// has no TOML form, which the checks exclude.
    pub fn to_toml(&self) -> crate::Result<String> {
        // What a trace says is read from it again.
        let mut plan = self.clone();
        for trace in plan.workloads.iter_mut().filter_map(|w| w.trace.as_mut()) {
            (trace.recorded, trace.arrivals) = (None, None);
        }
        toml::to_string(&plan)
            .map_err(|e| crate::Error::internal("the plan cannot be written as TOML").source(e))
    }
    /// Mean operations outstanding over a measure phase of `measured_ns`; a workload that runs for a part of it counts
    /// for that part.
    pub fn mean_outstanding(&self, measured_ns: u64) -> f64 {
        let of = |w: &WorkloadPlan| {
            let window = w.window_ns(measured_ns);
            let share = (window.end - window.start) as f64 / measured_ns.max(1) as f64;
            // The last operations end a little after the plan's end.
            let whole = share > 0.98;
            f64::from(w.workers) * f64::from(w.queue_depth) * if whole { 1.0 } else { share }
        };
        self.workloads.iter().map(of).sum()
    }
    /// Operations outstanding at most: the sum over workloads of workers x queue depth.
    pub fn outstanding(&self) -> u64 {
        self.workloads.iter().map(WorkloadPlan::outstanding).sum()
    }
}
