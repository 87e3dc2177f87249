//! What stands for the plan and the manifest of a program that is watched: its kinds of operation are the workloads.

use std::path::Path;

use serde_json::json;
use taillight_core::plan::{CaptureMode, Plan};
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::manifest::{CaptureInfo, Manifest, PhaseInfo, ProcessInfo};
use taillight_rundir::origin::RunOrigin;

use super::Asked;
use crate::run::directory;

/// A plan with these kinds of operation in place of its workloads; without ceilings, which are judged at the end.
pub fn with_kinds(plan: &Plan, ops: &[OpKind]) -> Result<Plan> {
    let mut plan = plan.clone();
    let all: serde_json::Result<_> =
        ops.iter().map(|op| serde_json::from_value(workload(op))).collect();
    plan.workloads =
        all.map_err(|e| Error::internal("a program that is watched has no plan").source(e))?;
    plan.qos.ceilings.clear();
    Ok(plan)
}

fn workload(op: &OpKind) -> serde_json::Value {
    json!({
        "name": op.name(), "workers": 1, "queue_depth": 0, "mix": { op.name(): 1 },
        "block_size": "0B",
        "access": {
            "kind": "random", "align": "0B", "offset": "0B", "cover": false
        },
        "arrival": {"kind": "burst"}, "sync": "none", "payload": {"kind": "random"}, "cpus": []
    })
}

/// The plan of a watch that took `ns`, with a workload for each of these kinds of operation.
pub fn plan(name: &str, asked: &Asked, ops: &[OpKind], ns: u64) -> Result<Plan> {
    let mut qos = json!({ "nines": 5 });
    if let Some(ceiling) = &asked.ceiling {
        // Each ceiling is of one kind: one not seen, or not whole, decides nothing, and no other kind stands for it.
        let of = |op: &OpKind| json!({ "ceiling": ceiling.time, "at": ceiling.at, "workload": op.name() });
        qos["ceilings"] = ceiling.kinds(ops).iter().map(of).collect();
    }
    let plan = json!({
        "run": {
            "name": name, "seed": 0, "duration": format!("{ns}ns"), "warmup": "0s",
            "interval": "1s", "drain_timeout": "30s"
        },
        "target": { "driver": "watch", "destroy": false, "options": {} },
        "workload": ops.iter().map(workload).collect::<Vec<_>>(),
        "qos": qos,
        "trace": { "mode": "outliers", "threshold": format!("{}ns", asked.slower_ns) },
        "capture": { "mode": "outliers", "budget": format!("{}B", asked.keep) }
    });
    serde_json::from_value(plan)
        .map_err(|e| Error::internal("a program that is watched has no plan").source(e))
}

/// The manifest before anything was seen; `path` is the run directory, whose name begins the id of the run.
pub fn manifest(plan: Plan, program: String, path: &Path) -> Manifest {
    let clock = directory::clock_now();
    let budget = plan.capture.budget.0;
    let (start_ns, name) = (clock.monotonic_ns, path.file_name().unwrap_or_default());
    let run_id = format!("{}-{}", name.to_string_lossy(), directory::fresh_id());
    Manifest {
        origin: RunOrigin::watched(program),
        command: directory::command_line(directory::arguments()),
        phases: vec![PhaseInfo { name: "measure".into(), start_ns, end_ns: None, ios: 0 }],
        capture: CaptureInfo { mode: CaptureMode::Outliers, budget, ..CaptureInfo::default() },
        process: ProcessInfo::current(),
        ..Manifest::new(run_id, plan, clock)
    }
}
