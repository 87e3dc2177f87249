//! Results of other tools, and exports of Taillight, read into run directories: the list of formats, how the format of
//! a file is told, and the manifest with the plan that are made for what a reader found.

mod agree;
mod db_bench;
mod every_io;
mod fio;
mod fio_hist;
mod fio_log;
mod hdr_log;
mod hgrm;
mod own;
mod sbk_csv;
mod source;
mod unpacked;
mod warp;
mod ycsb;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::{Error, OpKind, Result, Status};
use taillight_rundir::SCHEMA_VERSION;
use taillight_rundir::manifest::{CaptureInfo, ClockInfo, Manifest, PhaseInfo, RunStatus};
use taillight_rundir::origin::{
    FailedJob, Fidelity, ImportSource, ImportedFile, ImportedLatency, ImportedOp, ImportedWorkload,
    RunOrigin, write_imported,
};

use agree::{LAST_NS, agree};
pub use every_io::ForeignRows;
pub use source::{ResultSource, ResultUnit, is_wide, unreadable};
pub use unpacked::unpacked;

/// A result of another tool as a run directory has it.
pub struct ForeignRun {
    pub manifest: Manifest,
    pub figures: ImportedFile,
    /// Every I/O, where the result has it: then the figures are computed from them, as of a run of our own.
    pub rows: Option<ForeignRows>,
    /// What a reader should know of the file.
    pub notes: Vec<String>,
}

impl ForeignRun {
    /// Makes its run directory at `path`, which is new or empty; `again` opens the result once more. Errors: as
    /// [`write_imported`], and those of a result that changed meanwhile.
    pub fn write<'a>(
        self,
        path: &Path,
        again: impl FnOnce() -> Result<ResultSource<'a>>,
    ) -> Result<()> {
        match self.rows {
            Some(rows) => rows.write(path, &self.manifest, &mut again()?),
            None => write_imported(path, &self.manifest, &self.figures),
        }
    }
}

/// A format of results.
pub struct ResultFormat {
    /// One line for people.
    pub about: &'static str,
    /// Whether a file that begins so is of this format; its name says nothing.
    pub looks_like: fn(&str) -> bool,
    /// Whether `looks_like` tells it in any part of a text: other programs may print before the result.
    anywhere: bool,
    /// A result to a run. Errors: `Corrupt`, with the place, for a damaged or empty result; `Usage` where the user has
    /// to say what is not in it or has said another unit than it has, for one that is too large, and for a log of fio
    /// that has no whole latencies; `Unavailable` where the file cannot be read.
    pub read: fn(&mut ResultSource<'_>) -> Result<ForeignRun>,
}

/// Every format, one line each.
pub const RESULTS: &[ResultFormat] = &[
    within("JSON or JSON+ of fio", fio::looks_like, fio::read),
    within("text or JSON of YCSB", ycsb::looks_like, ycsb::read),
    within("raw data of YCSB", ycsb::looks_raw, ycsb::read_raw),
    format("log of HdrHistogram", hdr_log::looks_like, hdr_log::read),
    within("text of HdrHistogram, output of wrk2 --latency", hgrm::looks_like, hgrm::read),
    within("output of db_bench", db_bench::looks_like, db_bench::read),
    format("CSV of SBK", sbk_csv::looks_like, sbk_csv::read),
    format("requests of warp --full", warp::looks_like_table, warp::read_table),
    format("JSON of warp", warp::looks_like_aggregates, warp::read_aggregates),
    format("every I/O of a run of Taillight", own::looks_like_ios, own::read_ios),
    format("table of a run of Taillight", own::looks_like_points, own::read_points),
    format("summary of a run of Taillight", own::looks_like_summary, own::read_summary),
    format("log of histograms of fio", fio_hist::looks_like, fio_hist::read),
    format("log of latencies, bandwidth or IOPS of fio", fio_log::looks_like, fio_log::read),
];

const fn format(
    about: &'static str,
    looks_like: fn(&str) -> bool,
    read: fn(&mut ResultSource<'_>) -> Result<ForeignRun>,
) -> ResultFormat {
    ResultFormat { about, looks_like, anywhere: false, read }
}

/// A format that is recognised behind any text.
const fn within(
    about: &'static str,
    looks_like: fn(&str) -> bool,
    read: fn(&mut ResultSource<'_>) -> Result<ForeignRun>,
) -> ResultFormat {
    ResultFormat { anywhere: true, ..format(about, looks_like, read) }
}

/// Digits of a file's SHA-256 in the id of its run.
const ID_DIGITS: usize = 16;

/// Bytes of a file that are enough to know its format.
pub const HEAD: usize = 64 << 10;

/// The format of a result, by how its text begins; none for everything unknown.
pub fn detect(head: &str) -> Option<&'static ResultFormat> {
    let head = head.trim_start_matches(source::BOM);
    RESULTS.iter().find(|format| (format.looks_like)(head))
}

/// The format of the result in a text of which another program printed the beginning, by a part of it; as [`detect`].
pub fn detect_within(part: &str) -> Option<&'static ResultFormat> {
    RESULTS.iter().find(|format| format.anywhere && (format.looks_like)(part))
}

/// A workload as far as the result tells what was asked.
struct ForeignWorkload {
    figures: ImportedWorkload,
    random: bool,
    workers: u32,
    depth: u32,
    /// Bytes of an operation.
    block: u64,
}

impl ForeignWorkload {
    /// The only one of a result, which is called as its file.
    fn only(
        file: &str,
        workers: u32,
        block: u64,
        ops: BTreeMap<OpKind, ImportedOp>,
    ) -> Vec<ForeignWorkload> {
        let figures = ImportedWorkload { name: name_of(file), group: 0, ops };
        vec![ForeignWorkload { figures, random: false, workers, depth: 0, block }]
    }
}

/// All that a tool's result tells.
#[derive(Default)]
struct ForeignResult {
    tool: &'static str,
    /// What stands for the driver.
    driver: &'static str,
    version: Option<String>,
    spans: String,
    /// Name of the run.
    name: String,
    /// File or device, where it is known.
    path: Option<String>,
    direct: Option<bool>,
    /// End, ns since the epoch.
    ended_ns: i64,
    workloads: Vec<ForeignWorkload>,
    environment: serde_json::Map<String, serde_json::Value>,
    notes: Vec<String>,
    failed: Vec<FailedJob>,
    rows: Option<ForeignRows>,
}

impl ForeignResult {
    /// The run of it. Errors: `Corrupt` where it has no operation, or figures that no run has.
    fn run(mut self, from: &ResultSource<'_>) -> Result<ForeignRun> {
        agree(&mut self.workloads).map_err(|e| e.with("path", from.file))?;
        let ops = || self.workloads.iter().flat_map(|w| w.figures.ops.values());
        let ios = ops().map(|op| op.count).sum();
        let says = |op: &ImportedOp| op.count > 0 || op.iops > 0.0 || op.bytes_per_s > 0.0;
        if !ops().any(|op| says(op) || op.latency.mean_ns.is_some()) {
            let why = self.failed.first();
            let why = why.map(|it| format!("job {} ended with {}", it.job, Status(it.errno)));
            return Err(Error::corrupt(format!("the result of {} has no operation", self.tool))
                .with("path", from.file)
                .with_some("because", why)
                .hint("look into the file: the run that wrote it did nothing, or failed"));
        }
        let fidelity = match self.rows {
            Some(_) => Fidelity::EveryIo,
            // Operations that failed have no latency, and say nothing of those of others.
            None => {
                let with = ops().filter(|op| op.latency != ImportedLatency::default());
                with.map(|op| fidelity(&op.latency)).max().unwrap_or(Fidelity::Averages)
            }
        };
        let mut capture = CaptureInfo { mode: CaptureMode::Off, ..CaptureInfo::default() };
        if self.rows.is_some() {
            capture = CaptureInfo { mode: CaptureMode::All, kept: ios, ..capture };
        }
        let duration_ns = self.duration_ns();
        let plan = self.plan(duration_ns)?;
        // Enough of it to tell one file from another.
        let short: String = from.sha256.chars().take(ID_DIGITS).collect();
        // The same file in another unit is another run.
        let unit = from.unit.map_or("", ResultUnit::name).replace('/', "");
        let unit = if unit.is_empty() { unit } else { format!("-{unit}") };
        let source = ImportSource {
            tool: self.tool.to_owned(),
            version: self.version,
            file: from.file.to_owned(),
            file_sha256: from.sha256.clone(),
            file_crc32: String::new(),
            fidelity,
            spans: self.spans,
            notes: self.notes.clone(),
            failed: self.failed,
        };
        let counted = (0, i64::try_from(duration_ns).unwrap_or(i64::MAX));
        let (start_ns, end_ns) = self.rows.as_ref().map_or(counted, |rows| rows.span);
        let clock = ClockInfo {
            monotonic_ns: start_ns,
            realtime_ns: self.ended_ns.saturating_sub(end_ns.saturating_sub(start_ns)).max(0),
            source: "imported".to_owned(),
        };
        let manifest = Manifest {
            origin: RunOrigin::Imported(source),
            status: RunStatus::Complete,
            phases: vec![PhaseInfo { name: "measure".into(), start_ns, end_ns: Some(end_ns), ios }],
            environment: self.environment,
            capture,
            ..Manifest::new(format!("{}-{short}{unit}", self.tool), plan, clock)
        };
        let workloads = self.workloads.into_iter().map(|w| w.figures).collect();
        let figures = ImportedFile { schema: SCHEMA_VERSION, workloads };
        Ok(ForeignRun { manifest, figures, rows: self.rows, notes: self.notes })
    }

    /// From the beginning of the first group of jobs to the end of the last.
    fn duration_ns(&self) -> u64 {
        let mut groups: BTreeMap<u32, u64> = BTreeMap::new();
        for w in &self.workloads {
            let longest = w.figures.ops.values().map(|op| op.duration_ns).max().unwrap_or(0);
            let group = groups.entry(w.figures.group).or_default();
            *group = (*group).max(longest);
        }
        groups.values().fold(0, |sum, ns| u64::saturating_add(sum, *ns))
    }

    /// What was asked, as far as it is known.
    fn plan(&self, duration_ns: u64) -> Result<Plan> {
        let mut percentiles: BTreeMap<u64, &str> = BTreeMap::new();
        let ops = self.workloads.iter().flat_map(|w| w.figures.ops.values());
        for given in ops.clone().flat_map(|op| &op.latency.percentiles) {
            let order = given.p.parse::<f64>().map_or(0, |p| (p * 1e9) as u64);
            percentiles.insert(order, &given.p);
        }
        let percentiles: Vec<&str> = percentiles.into_values().collect();
        let mut qos = json!({ "nines": 5 });
        if !percentiles.is_empty() {
            qos["percentiles"] = json!(percentiles);
        }
        let mut options = json!({});
        if let Some(direct) = self.direct {
            options["direct"] = json!(direct);
        }
        let mut target = json!({ "driver": self.driver, "destroy": false, "options": options });
        if let Some(path) = &self.path {
            target["path"] = json!(path);
        }
        let plan = json!({
            "run": {
                "name": self.name, "seed": 0, "duration": format!("{duration_ns}ns"), "warmup": "0s",
                "interval": "1s", "drain_timeout": "30s"
            },
            "target": target,
            "workload": self.workloads.iter().map(workload).collect::<Vec<_>>(),
            "qos": qos,
            "trace": {"mode": "off"},
            "capture": {"mode": if self.rows.is_some() { "all" } else { "off" }, "budget": "1MiB"}
        });
        serde_json::from_value(plan)
            .map_err(|e| Error::internal("an imported run has no plan").source(e))
    }
}

fn workload(w: &ForeignWorkload) -> serde_json::Value {
    let most = w.figures.ops.values().map(|op| op.count).max().unwrap_or(1).max(1);
    // Weights are small numbers: of the largest a thousand.
    let weight = |count: u64| (count as f64 * 1000.0 / most as f64).ceil() as u32;
    let synced = |op: &OpKind| *op == OpKind::Fsync && w.figures.ops.len() > 1;
    let mix: BTreeMap<&str, u32> = w
        .figures
        .ops
        .iter()
        .filter(|(op, _)| !synced(op))
        .map(|(op, it)| (op.name(), weight(it.count)))
        .collect();
    json!({
        "name": w.figures.name, "workers": w.workers, "queue_depth": w.depth, "mix": mix,
        "block_size": format!("{}B", w.block),
        "access": {
            "kind": if w.random { "random" } else { "sequential" },
            "align": format!("{}B", w.block), "offset": "0B", "cover": false
        },
        "arrival": {"kind": "burst"}, "sync": "none", "payload": {"kind": "random"}, "cpus": []
    })
}

/// Mean bytes of an operation of the kind that moved most.
fn block_of(ops: &BTreeMap<OpKind, ImportedOp>) -> u64 {
    let largest = ops.values().max_by_key(|op| op.bytes);
    largest.map_or(0, |op| op.bytes / op.count.max(1))
}

fn fidelity(latency: &ImportedLatency) -> Fidelity {
    match (latency.bins.is_empty(), latency.percentiles.is_empty()) {
        (false, _) => Fidelity::Bins,
        (true, false) => Fidelity::Percentiles,
        (true, true) => Fidelity::Averages,
    }
}

/// The name of a file before it was packed.
fn unpacked_name(file: &str) -> &str {
    [".gz", ".zst"].iter().find_map(|end| file.strip_suffix(end)).unwrap_or(file)
}

/// The name of the run of a file: that of the file without its ending.
fn name_of(file: &str) -> String {
    let stem = Path::new(unpacked_name(file)).file_stem();
    crate::name_of_run(&stem.unwrap_or_default().to_string_lossy(), 100)
}
