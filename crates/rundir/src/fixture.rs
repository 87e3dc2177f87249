//! A small complete manifest and summary, for tests and examples of this and other crates.

use serde_json::json;
use taillight_core::plan::{CaptureMode, Plan};

use crate::manifest::{
    CaptureInfo, ClockInfo, Losses, Manifest, Overhead, PhaseInfo, ProcessInfo, RunStatus,
};

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
            "arrival": {"kind": "burst"}, "sync": "none", "payload": "random", "cpus": []
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
    Manifest {
        schema: crate::SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").into(),
        run_id: run_id.into(),
        status: RunStatus::Running,
        plan: plan(),
        command: "taillight run --driver null".into(),
        seed: 42,
        clock: ClockInfo {
            monotonic_ns: 1_000_000_000,
            realtime_ns: 1_700_000_000_000_000_000,
            source: "tsc".into(),
        },
        phases: vec![PhaseInfo {
            name: "measure".into(),
            start_ns: 1_000_000_000,
            end_ns: None,
            ios: 0,
        }],
        environment,
        capture: CaptureInfo {
            mode: CaptureMode::All,
            budget: 64 << 20,
            kept: 0,
            degraded: None,
            path: None,
            dir: None,
            used: None,
            spilled: None,
        },
        losses: Losses::default(),
        overhead: Overhead::default(),
        repeat: Some("taillight run manifest.json".into()),
        process: Some(ProcessInfo::current()),
        reason: None,
    }
}
