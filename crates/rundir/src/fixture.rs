//! A small plan, manifest, summary and traced I/O, for tests and examples of this and other crates.

use serde_json::json;
use taillight_core::plan::Plan;
use taillight_core::{LatencyKind, LatencyMap, OpKind};

use crate::latency::{
    EpisodesEntry, Latency, LatencySource, NineEntry, ObservedLatency, PercentileEntry, Quantile,
};
use crate::layers::LayerRow;
use crate::manifest::{
    CaptureInfo, ClockInfo, Losses, Manifest, Overhead, PhaseInfo, ProcessInfo, RunStatus,
};
use crate::origin::RunOrigin;
use crate::summary::*;

/// A resolved plan of one random read workload on `null`.
///
/// # Panics
/// When the plan types no longer accept the constant inside: a test then fails.
pub fn plan() -> Plan {
    let value = json!({
        "run": {
            "name": "fixture", "seed": 42, "duration": "1s", "warmup": "0s", "interval": "1s",
            "drain_timeout": "30s"
        },
        "target": {"driver": "null", "size": "1GiB", "destroy": false, "options": {}},
        "workload": [{
            "name": "w0", "workers": 2, "queue_depth": 1,
            "mix": {"read": 1},
            "block_size": "4KiB",
            "access": {"kind": "random", "align": "4KiB", "offset": "0B", "cover": false},
            "arrival": {"kind": "burst"}, "sync": "none", "payload": {"kind": "random"}, "cpus": []
        }],
        "qos": {"percentiles": ["50", "99", "99.9"], "nines": 5},
        "trace": {"mode": "off"},
        "capture": {"mode": "all", "budget": "64MiB"}
    });
    #[allow(clippy::expect_used)]
    serde_json::from_value(value).expect("the fixture's plan is a plan")
}

/// A manifest of a running run of this process.
pub fn manifest(run_id: &str) -> Manifest {
    let mut environment = serde_json::Map::new();
    environment.insert("kernel".into(), "6.18".into());
    let clock = ClockInfo {
        monotonic_ns: 1_000_000_000,
        realtime_ns: 1_700_000_000_000_000_000,
        source: "tsc".into(),
    };
    Manifest {
        command: "taillight run --driver null".into(),
        seed: 42,
        phases: vec![PhaseInfo {
            name: "measure".into(),
            start_ns: 1_000_000_000,
            end_ns: None,
            ios: 0,
        }],
        environment,
        capture: CaptureInfo { budget: 64 << 20, ..CaptureInfo::default() },
        repeat: Some("taillight run manifest.json".into()),
        process: ProcessInfo::current(),
        ..Manifest::new(run_id.into(), plan(), clock)
    }
}

/// A traced read of worker 0, with all that such a row must have.
pub fn traced_io(start_ns: i64, end_ns: i64) -> LayerRow {
    LayerRow {
        start_ns,
        end_ns,
        worker: Some(0),
        op: Some(OpKind::Read),
        offset: Some(0),
        size: Some(4096),
        flags: Some(0),
        bios: Some(1),
        parts: Some(1),
        ..LayerRow::default()
    }
}

/// A latency object with a resolved and an unresolved quantile.
pub fn latency() -> Latency {
    Latency {
        count: 1000,
        min_ns: Some(40),
        max_ns: Some(9_000),
        mean_ns: Some(75.5),
        stddev_ns: Some(120.25),
        skewness: Some(30.5),
        kurtosis: None,
        source: LatencySource::Capture,
        error: 0.0,
        percentiles: vec![PercentileEntry {
            p: "99".into(),
            quantile: Quantile {
                ns: Some(110),
                observed_ns: Some(110),
                bin: None,
                lo_ns: Some(105),
                hi_ns: Some(140),
                resolved: true,
                needs: 299,
                above: Some(10),
                bound_ns: Some(130),
                interval_needs: None,
                effective: Some(700),
                episodes: Some(EpisodesEntry { count: 2, largest: 8 }),
            },
        }],
        nines: vec![NineEntry {
            k: 5,
            quantile: Quantile {
                ns: None,
                observed_ns: Some(9_000),
                bin: None,
                lo_ns: None,
                hi_ns: None,
                resolved: false,
                needs: 299_572,
                bound_ns: None,
                interval_needs: Some(368_888),
                effective: Some(700),
                above: None,
                episodes: None,
            },
        }],
        observed: Some(ObservedLatency { p50_ns: 60, p99_ns: 110, p99_9_ns: 4_000, max_ns: 9_000 }),
        out_of_range: None,
    }
}

fn totals() -> Totals {
    let mut latencies = LatencyMap::new(latency());
    latencies.insert(LatencyKind::Response, latency());
    Totals {
        count: 1001,
        bytes: 4_096_000,
        duration_ns: 1_000_000_000,
        iops: 1000.0,
        bytes_per_s: 4_096_000.0,
        in_phase: Some(PhaseTotals {
            count: 1000,
            bytes: 4_091_904,
            errors: 0,
            duration_ns: 990_000_000,
            iops: 1_010.1,
            bytes_per_s: 4_133_236.4,
            drained: Some(DrainTotals {
                count: 1,
                bytes: 4096,
                errors: 1,
                duration_ns: 10_000_000,
            }),
        }),
        records: None,
        errors: 1,
        latencies,
        depth_mean: Some(0.98),
    }
}

fn slc() -> SlcFactors {
    SlcFactors {
        slc1: Some(0.25),
        slc2: None,
        sbk21: SlcPair { slc1: 0, slc2: 3 },
        sbk28: SlcPair { slc1: 0, slc2: 4 },
        unit: "ns".into(),
        latency: Some("service".to_owned()),
    }
}

fn distributions() -> LatencyMap<Distribution> {
    LatencyMap::new(Distribution {
        bins_per_decade: 50,
        below: 0,
        above: 1,
        bins: vec![Bin { lo_ns: 100, hi_ns: 105, count: 999, per_s: 999.0 }],
    })
}

fn outlier() -> Outlier {
    Outlier {
        submit_ns: 1_200_000_000,
        workload: 0,
        worker: 1,
        target: 0,
        offset: Some(4096),
        key: None,
        size: 4096,
        latency_ns: 9_000,
        status: 0,
    }
}

fn qos() -> Qos {
    Qos {
        ceiling_ns: 1_000_000,
        at: "99.999".into(),
        status: QosStatus::Undecided,
        jointly: None,
        ends_missing: false,
        looks: None,
        above: 0,
        episodes: 0,
        needs: Some(299_572),
        decides_at: None,
        op: None,
        count: Some(1000),
        workload: None,
        share: None,
        time_share: Some(0.0),
        requests: None,
        cause: None,
    }
}

/// A summary of one read workload with a failed read; optional parts are mostly absent.
pub fn summary(run_id: &str) -> Summary {
    let map = |value| std::collections::BTreeMap::from([(OpKind::Read, value)]);
    Summary {
        schema: crate::SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").into(),
        run_id: run_id.into(),
        name: "fixture".into(),
        origin: RunOrigin::Measured,
        status: RunStatus::Complete,
        verdict: Verdict {
            status: VerdictStatus::Errors,
            text: "1 of 1,001 I/Os failed".into(),
            reasons: vec![Reason {
                code: "io-errors".into(),
                text: "1 read failed with EIO".into(),
            }],
        },
        totals: totals(),
        ops: map(totals()),
        load: Vec::new(),
        requests: std::collections::BTreeMap::new(),
        workloads: vec![WorkloadSummary {
            name: "w0".into(),
            totals: totals(),
            ops: map(totals()),
        }],
        qos: vec![qos()],
        changes: Vec::new(),
        slc: std::collections::BTreeMap::from([(OpKind::Read, slc())]),
        distribution: std::collections::BTreeMap::from([(OpKind::Read, distributions())]),
        outliers: std::collections::BTreeMap::from([(OpKind::Read, vec![outlier()])]),
        saturation: Saturation { achieved_per_s: 1000.0, ..Saturation::default() },
        misses: 0,
        end_to_end: None,
        errors: Errors {
            count: 1,
            kinds: vec![ErrorCount {
                op: OpKind::Read,
                status: 5,
                text: "EIO".into(),
                count: 1,
                first_ns: Some(1_300_000_000),
            }],
        },
        verify: None,
        losses: Losses::default(),
        overhead: Overhead::default(),
        host: None,
        drives: Vec::new(),
        bus: None,
        store: std::collections::BTreeMap::new(),
        store_text: None,
        recorded: Vec::new(),
        arrivals: Vec::new(),
        witness: Vec::new(),
        cause: Some(vec![Cause {
            layer: "device".into(),
            outliers: 3,
            excess_ns: 20_000,
            sure: true,
        }]),
        hosts: None,
        files: Vec::new(),
    }
}

/// Settings of jobs and flags of `run`, as words of a text.
const OF_JOBS: [&str; 16] = [
    "--set",
    "--runtime",
    "--trace",
    "--depth",
    "--rate",
    "queue_depth",
    "arrival",
    "search",
    "trace.mode",
    "trace.threshold",
    "trace.ios",
    "capture.mode",
    "verify.mode",
    "target.options",
    "options.jvm_args",
    "run.repeat",
];
/// Flags of `watch`.
const OF_WATCHES: [&str; 8] =
    ["--for", "--slower", "--top", "--exact", "--max-cost", "--record", "--keep", "--op"];

/// A word of this text that names what a run of this origin does not have: a setting of a job where Taillight did not
/// make the load, a flag of `watch` where no program was watched.
pub fn foreign_word(origin: &RunOrigin, text: &str) -> Option<&'static str> {
    let (jobs, watches): (&[&str], &[&str]) = match origin {
        RunOrigin::Measured | RunOrigin::Merged { .. } => (&[], &OF_WATCHES),
        RunOrigin::Watched { .. } => (&OF_JOBS, &[]),
        RunOrigin::Imported(_) => (&OF_JOBS, &OF_WATCHES),
    };
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let words: Vec<&str> =
        text.split(|c| !part(c)).map(|word| word.trim_end_matches('.')).collect();
    let named = |foreign: &&&'static str| {
        let below = |word: &&str| {
            word.strip_prefix(**foreign)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        words.iter().any(below)
    };
    jobs.iter().chain(watches).find(named).copied()
}
