//! Results of other tools, read into what a run directory has: each figure with what the tool really knows.

mod fio;

use std::collections::BTreeMap;

use serde_json::json;
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::manifest::{
    CaptureInfo, ClockInfo, Losses, Manifest, Overhead, PhaseInfo, RunStatus,
};
use taillight_rundir::origin::{
    Fidelity, ImportSource, ImportedFile, ImportedLatency, ImportedWorkload, RunOrigin,
};
use taillight_rundir::{SCHEMA_VERSION, sums};

/// A result of another tool as a run directory has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRun {
    pub manifest: Manifest,
    pub figures: ImportedFile,
    /// What a reader should know of the file.
    pub notes: Vec<String>,
}

/// A format of results.
pub struct ResultFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Whether a file that begins so is of this format; its name says nothing.
    pub looks_like: fn(&str) -> bool,
    /// Text and file name to a run. Errors: `Corrupt`, with the place, for a damaged or empty result.
    pub read: fn(&str, &str) -> Result<ForeignRun>,
}

/// Every format, one line each.
pub const RESULTS: &[ResultFormat] = &[ResultFormat {
    name: "fio-json",
    about: "result of fio 3, --output-format=json or json+",
    looks_like: fio::looks_like,
    read: fio::read,
}];

/// Bytes of a file that are enough to know its format.
pub const HEAD: usize = 64 << 10;

/// The format of a result, by how its text begins; none for everything unknown.
pub fn detect(head: &str) -> Option<&'static ResultFormat> {
    RESULTS.iter().find(|format| (format.looks_like)(head))
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

/// All that a tool's result tells.
struct ForeignResult {
    tool: &'static str,
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
}

impl ForeignResult {
    /// The run of it. Errors: `Corrupt` where it has no operation.
    fn run(self, text: &str, file: &str) -> Result<ForeignRun> {
        let ops = || self.workloads.iter().flat_map(|w| w.figures.ops.values());
        let ios: u64 = ops().map(|op| op.count).sum();
        if ios == 0 {
            return Err(Error::corrupt(format!("the result of {} has no operation", self.tool))
                .with("path", file)
                .hint("look into the file: the run that wrote it did nothing, or failed"));
        }
        let fidelity = ops().map(|op| fidelity(&op.latency)).max().unwrap_or(Fidelity::Averages);
        let duration_ns = self.duration_ns();
        let plan = self.plan(duration_ns)?;
        let crc32 = sums::crc32(text.as_bytes());
        let source = ImportSource {
            tool: self.tool.to_owned(),
            version: self.version,
            file: file.to_owned(),
            file_crc32: crc32.clone(),
            fidelity,
            spans: self.spans,
        };
        let end_ns = duration_ns as i64;
        let manifest = Manifest {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("{}-{crc32}", self.tool),
            origin: RunOrigin::Imported(source),
            status: RunStatus::Complete,
            seed: 0,
            plan,
            command: String::new(),
            clock: ClockInfo {
                monotonic_ns: 0,
                realtime_ns: self.ended_ns.saturating_sub(end_ns),
                source: "imported".to_owned(),
            },
            phases: vec![PhaseInfo {
                name: "measure".into(),
                start_ns: 0,
                end_ns: Some(end_ns),
                ios,
            }],
            driver: None,
            environment: self.environment,
            capture: CaptureInfo { mode: CaptureMode::Off, ..CaptureInfo::default() },
            losses: Losses::default(),
            overhead: Overhead::default(),
            repeat: None,
            process: None,
            trace: None,
            host: None,
            reason: None,
            schedule: None,
            misses: 0,
            end_to_end: None,
            files: Vec::new(),
        };
        let workloads = self.workloads.into_iter().map(|w| w.figures).collect();
        let figures = ImportedFile { schema: SCHEMA_VERSION, workloads };
        Ok(ForeignRun { manifest, figures, notes: self.notes })
    }

    /// From the beginning of the first group of jobs to the end of the last.
    fn duration_ns(&self) -> u64 {
        let mut groups: BTreeMap<u32, u64> = BTreeMap::new();
        for w in &self.workloads {
            let longest = w.figures.ops.values().map(|op| op.duration_ns).max().unwrap_or(0);
            let group = groups.entry(w.figures.group).or_default();
            *group = (*group).max(longest);
        }
        groups.values().sum()
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
        let mut target = json!({ "driver": "file", "destroy": false, "options": options });
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
            "capture": {"mode": "off", "budget": "1MiB"}
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

fn fidelity(latency: &ImportedLatency) -> Fidelity {
    match (latency.bins.is_empty(), latency.percentiles.is_empty()) {
        (false, _) => Fidelity::Bins,
        (true, false) => Fidelity::Percentiles,
        (true, true) => Fidelity::Averages,
    }
}
