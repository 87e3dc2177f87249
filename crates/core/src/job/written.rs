//! The job file as written. `[run]`, `[[workload]]` and `[sweep]` have types of their own; all other tables have
//! the types of the plan. What is left open in `[run]` and `[[workload]]`, and the default of `capture.budget`, which
//! depends on the machine, `resolve` fills in.
//!
//! The comments on these fields and on those of the plan are the option documentation: `taillight
//! schema job` and `docs/job-file.md` are made from them. An import fills in these types and writes them with
//! [`JobFile::to_toml`]; suites make their jobs as TOML tables.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::forms::{AccessForm, ArrivalForm, BlockSizeForm, MixForm};
use super::sweep::SweepTable;
use crate::plan::{
    CapturePlan, Flow, GatePlan, IoPriority, Keys, Payload, PreRunStep, QosPlan, ReplayPlan, Scan,
    SearchPlan, SteadyEnd, Sync, TargetPlan, Think, TracePlan, UnifiedRow, Values, VerifyPlan,
    WorkShare, WorkerRamp,
};
use crate::units::{ByteSize, Span};
use crate::{Error, Result};

/// A Taillight job: what to drive, with which load, for how long. Sizes and times need a unit.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// Name, seed, end, warm-up, interval.
    #[serde(default)]
    pub run: RunTable,
    /// What is driven.
    #[serde(default)]
    pub target: TargetPlan,
    /// Further targets by name, of the same driver, each with the fields of `[target]`:
    /// `[targets.b]`. Workloads with `target = "b"` drive it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, TargetPlan>,
    /// The load: one or more workloads that run side by side.
    #[serde(default)]
    pub workload: Vec<WorkloadTable>,
    /// What the report answers.
    #[serde(default)]
    pub qos: QosPlan,
    /// Layer tracing.
    #[serde(default)]
    pub trace: TracePlan,
    /// Keeping every I/O.
    #[serde(default)]
    pub capture: CapturePlan,
    /// Checks of what is read against what was written.
    #[serde(default)]
    pub verify: VerifyPlan,
    /// Search for the highest demand under a response-time ceiling.
    pub search: Option<SearchPlan>,
    /// What `taillight compare` and `taillight ab` decide by.
    pub gate: Option<GatePlan>,
    /// The job once for each combination of values: dotted paths of the job with lists, like
    /// `workload.0.queue_depth = [1, 4, 16]`. `run.repeat` measures every combination as often, in
    /// rounds over all of them.
    pub sweep: Option<SweepTable>,
}

impl JobFile {
    /// The job as a file for people: a heading for each table and each table in it, each field of a workload on one
    /// line. Fields of a table that equal their defaults are left out, but in `[search]`, `[gate]`, `[sweep]` and
    /// workloads all that have a value are written. Errors: `Internal` when a value has no TOML form.
    pub fn to_toml(&self) -> Result<String> {
        let table = |job: &JobFile| {
            toml::Table::try_from(job)
                .map_err(|e| Error::internal("the job cannot be written as TOML").source(e))
        };
        let (mut whole, defaults) = (table(self)?, table(&JobFile::default())?);
        let mut text = String::new();
        for (name, value) in &mut whole {
            match value {
                toml::Value::Table(table) if name == "targets" => {
                    let defaults = defaults.get("target");
                    for (of, target) in table.iter_mut() {
                        let Some(target) = target.as_table_mut() else { continue };
                        target.retain(|field, value| {
                            defaults.and_then(|d| d.get(field)) != Some(value)
                        });
                        section(&format!("{name}.{}", key(of)), target, &mut text);
                    }
                }
                toml::Value::Table(table) => {
                    let defaults = defaults.get(name);
                    table.retain(|field, value| defaults.and_then(|d| d.get(field)) != Some(value));
                    section(name, table, &mut text);
                }
                toml::Value::Array(items) => {
                    for item in items.iter().filter_map(toml::Value::as_table) {
                        lines(&format!("[[{name}]]"), item.iter(), &mut text);
                    }
                }
                _ => {}
            }
        }
        Ok(text)
    }
}

/// Appends a table with its values, then the tables in it, which have a heading of their own.
fn section(name: &str, table: &toml::Table, text: &mut String) {
    let plain = table.iter().filter(|(_, value)| !value.is_table());
    lines(&format!("[{name}]"), plain, text);
    for (inner, value) in table {
        if let Some(inner_table) = value.as_table() {
            section(&format!("{name}.{}", key(inner)), inner_table, text);
        }
    }
}

/// A key as TOML has it: bare, or quoted where a dot or blank is part of it.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => toml::Value::from(name).to_string(),
    }
}

/// A heading and `name = value` below it, with an empty line before; nothing without values.
fn lines<'a>(
    heading: &str,
    values: impl Iterator<Item = (&'a String, &'a toml::Value)>,
    text: &mut String,
) {
    let lines: Vec<String> = values.map(|(k, v)| format!("{} = {v}\n", key(k))).collect();
    if lines.is_empty() {
        return;
    }
    let gap = if text.is_empty() { "" } else { "\n" };
    text.push_str(&format!("{gap}{heading}\n{}", lines.concat()));
}

/// `[run]`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Name of the run, used for the output directory. Default: the name of the job file.
    pub name: Option<String>,
    /// Seed of every random draw. Default: drawn once and recorded in the plan.
    pub seed: Option<u64>,
    /// Ends after this time in the measure phase. Default: 30s, unless `operations` or `bytes`
    /// is given, or every measured workload has such an end of its own. With several ends the first
    /// one reached counts.
    pub duration: Option<Span>,
    /// Ends after this many operations over all workers.
    pub operations: Option<u64>,
    /// Ends after this many bytes asked over all workers.
    pub bytes: Option<ByteSize>,
    /// Load before the measure phase that is not measured. Default: 0s.
    pub warmup: Option<Span>,
    /// Reporting window. Default: 1s.
    pub interval: Option<Span>,
    /// How long operations in flight are awaited at the end; 2s at most when a signal ends the run. Default: 30s.
    pub drain_timeout: Option<Span>,
    /// Ends the run when no operation was complete for this long. Default: it waits.
    pub idle_timeout: Option<Span>,
    /// Ends the run once a figure of its intervals is steady, if that is sooner: the rule of fio's `steadystate`, like
    /// { figure = "iops", rule = "deviation", limit = 0.05, window = "30s" }. Default: none.
    pub steady: Option<SteadyEnd>,
    /// Steps after the records are loaded and before the load of the run begins: a list of `flush`,
    /// `compact` and `drop_caches`. Each is a phase of its own, and refused at once where the
    /// driver cannot do it. Default: none.
    pub before: Option<Vec<PreRunStep>>,
    /// Runs back to back on one time axis, each one in the report. Default: 1.
    pub repeat: Option<u32>,
    /// How the ranks of a run over several hosts (`mpirun taillight-mpi`) share what they drive: each its `own`
    /// (files get the rank's number), contiguous `segments` of one file, device or key space, its blocks in
    /// turns (`strided`), or the `same` for all. Rates and counts are always those of all ranks together.
    /// Default: own.
    pub share: Option<WorkShare>,
    /// Memory that is taken and locked (mlock) while the run goes on, so that less is left for the page cache. Refused
    /// where less is free. Default: none.
    pub lock_memory: Option<ByteSize>,
    /// It goes on with the work of the run before it in the series, as fio's next pass over its files does: fio's JSON has
    /// one row for both. Default: false.
    pub continues: Option<bool>,
    /// Run directory, new or empty. Default: `taillight-runs/<name>-<UTC>`.
    pub output: Option<String>,
}

/// `[[workload]]`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    /// Name in outputs. Default: w0, w1, ...
    pub name: Option<String>,
    /// The target that it drives, by its name in `[targets]`. Default: `[target]`.
    pub target: Option<String>,
    /// The section of a fio job file of which it is one job among several workloads: the name in fio's JSON.
    /// Default: its own name.
    pub section: Option<String>,
    /// The first workload of the row in fio's JSON that holds this one as well, where fio reports sections as one
    /// (`group_reporting`); the first names itself. Default: a row of its own.
    pub reported_with: Option<String>,
    /// Number of its group in fio's JSON (`groupid`), from 0 over all runs of a fio job file. Default: that of its run.
    pub report_group: Option<u32>,
    /// fio's JSON has its reads and writes together: "mixed" only, or "both", with each by itself as well
    /// (`unified_rw_reporting`). Default: each by itself.
    pub unified: Option<UnifiedRow>,
    /// A recorded trace, like { file = "web_0.csv" }: operations, sizes, offsets and times are its own. Default:
    /// none.
    pub trace: Option<ReplayPlan>,
    /// Threads that all do the same. Default: 1.
    pub workers: Option<u32>,
    /// Operations in flight per worker. Default: 1.
    pub queue_depth: Option<u32>,
    /// Operations: one word, or a table of weights. Default: "read"; where operations name keys or objects, that of the
    /// driver which reads one, like "get".
    pub mix: Option<MixForm>,
    /// Each block is trimmed, and then written, as fio's `rw=trimwrite` does: for a mix of trims and writes.
    /// Default: false.
    pub trim_first: Option<bool>,
    /// Size of blocks, objects, or of each field of a value: one size, weighted sizes, a
    /// range, or a histogram file. Default: 4KiB.
    pub block_size: Option<BlockSizeForm>,
    /// Which offsets, in which order: one word, or a table. Default: "random".
    pub access: Option<AccessForm>,
    /// When operations start: "burst" (as soon as a slot is free), or a table with a rate.
    /// Default: "burst".
    pub arrival: Option<ArrivalForm>,
    /// Durability of writes, its time inside their latency: none, fdatasync:N, fsync:N (after
    /// every N-th write), dsync or sync (each write). Default: none.
    pub sync: Option<Sync>,
    /// What writes carry: one word, or a table. Default: "random".
    pub payload: Option<Payload>,
    /// Its writes are neither marked nor checked where `[verify]` is on for others, on other targets. Default: false.
    pub unverified: Option<bool>,
    /// Key space, for targets addressed by key. Default: 100000 records, named as YCSB does.
    pub keys: Option<Keys>,
    /// Fields of a value, for targets addressed by key. Default: one piece.
    pub value: Option<Values>,
    /// Lengths and direction of scans. Default: 1 to 100 records, ascending.
    pub scan: Option<Scan>,
    /// Pause of a closed loop after completions, like { time = "1ms" }. Default: none.
    pub think: Option<Think>,
    /// Its share of the operations of several workloads, like { share = 8 } beside another one's { share = 1 }: its
    /// workers start nothing while they have done more than that of all. Default: each goes as fast as it can.
    pub flow: Option<Flow>,
    /// Workers join step by step, like { step = 1, every = "10s" }. Default: all at the start.
    pub ramp: Option<WorkerRamp>,
    /// False: load only, its latency is not measured. Default: true.
    pub measured: Option<bool>,
    /// Writers stamp what they write; readers measure from the writer's stamp. Default: false.
    pub end_to_end: Option<bool>,
    /// Its workers begin so long after the start of the measure phase. Default: 0s.
    pub start_delay: Option<Span>,
    /// Load of its own that is not measured: its workers begin so much before what `start_delay` says, and are
    /// measured from there. Default: those that begin with the run have its warm-up, others none.
    pub warmup: Option<Span>,
    /// Its workers end after this time from their start. Default: they end with the run.
    pub duration: Option<Span>,
    /// Its workers end after this many operations of them together. A run whose measured workloads all
    /// have an end of their own needs none itself. Default: they end with the run.
    pub operations: Option<u64>,
    /// Its workers end after this many bytes of them together. Default: they end with the run.
    pub bytes: Option<ByteSize>,
    /// A worker ends after so many passes over its part of the data. Default: it goes on; the writer
    /// of a `filestream` ends after one.
    pub passes: Option<u64>,
    /// A worker drops what the page cache holds of its data (posix_fadvise, DONTNEED) whenever it begins a pass over it
    /// in order, or has asked for so many bytes at random: buffered reads that go round again then reach the device
    /// again. Not timed as part of an operation. Default: what was read stays cached.
    pub drop_cache: Option<ByteSize>,
    /// At its end a worker syncs each file of its part (fsync), unless its last write was synced: an operation of its
    /// own, and the measured time ends with it, so that bandwidth includes it. `run.drain_timeout` bounds it. Default: false.
    pub end_fsync: Option<bool>,
    /// The run ends, for all workloads, when the first of its workers does. Default: each ends by itself.
    pub ends_run: Option<bool>,
    /// All workloads that have the same word here end when the first of their workers does. Default: each ends by itself.
    pub ends_with: Option<String>,
    /// Records an operation covers where the store takes several in one call: a get becomes a
    /// multi-get, a write a batch. Gets and updates draw each key of a batch by itself, so that one
    /// may come twice; ordered access and inserts take neighbours by number. An I/O then is the
    /// whole call; the last batch of a pass over the keys, or of `run.bytes`, may be a shorter one.
    /// Default: 1.
    pub batch: Option<u32>,
    /// CPUs the workers are pinned to, round robin. Default: not pinned.
    pub cpus: Option<Vec<u32>>,
    /// Nice value of the workers' threads, -20 to 19 (below 0 needs the right to). Default: as the process has it.
    pub nice: Option<i32>,
    /// Priority of the workers' I/O: "realtime:0" (needs the right to), "best-effort:4" or "idle". Only some I/O
    /// schedulers look at it. Default: as the process has it.
    pub io_priority: Option<IoPriority>,
}
