//! Plans for this crate's tests.

use taillight_core::plan::*;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{OpKind, Percentile};

/// One worker reading 4 KiB at random from `null`, 1000 operations.
pub fn plan() -> Plan {
    Plan {
        run: RunPlan {
            name: "test".into(),
            seed: 7,
            duration: None,
            operations: Some(1000),
            bytes: None,
            warmup: Span(0),
            interval: Span(1_000_000_000),
            drain_timeout: Span(30_000_000_000),
            idle_timeout: None,
            before: Vec::new(),
            repeat: 1,
            output: None,
        },
        target: TargetPlan {
            driver: "null".into(),
            path: None,
            size: Some(ByteSize(1 << 30)),
            destroy: false,
            options: toml::Table::new(),
        },
        workloads: vec![WorkloadPlan::simple("main", OpKind::Read, ByteSize(4096))],
        qos: QosPlan { percentiles: vec![Percentile::MEDIAN], nines: 9, ceilings: Vec::new() },
        trace: TracePlan {
            mode: TraceMode::Off,
            threshold: None,
            host: false,
            backend: TracingBackendChoice::Auto,
            buffer: None,
        },
        capture: CapturePlan { mode: CaptureMode::All, budget: ByteSize(256 << 20), dir: None },
        verify: VerifyPlan::default(),
        search: None,
    }
}
