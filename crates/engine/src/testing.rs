//! Plans for this crate's tests.

use taillight_core::plan::*;
use taillight_core::units::ByteSize;
use taillight_core::{OpKind, Percentile};

/// One worker reading 4 KiB at random from `null`, 1000 operations.
pub fn plan() -> Plan {
    Plan {
        run: RunPlan { name: "test".into(), seed: 7, operations: Some(1000), ..RunPlan::default() },
        target: TargetPlan {
            driver: "null".into(),
            size: Some(ByteSize(1 << 30)),
            ..TargetPlan::default()
        },
        workloads: vec![WorkloadPlan::simple("main", OpKind::Read, ByteSize(4096))],
        qos: QosPlan { percentiles: vec![Percentile::MEDIAN], nines: 9, ceilings: Vec::new() },
        trace: TracePlan { host: false, ..TracePlan::default() },
        capture: CapturePlan { budget: ByteSize(256 << 20), ..CapturePlan::default() },
        ..Plan::default()
    }
}
