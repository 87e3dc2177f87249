//! Plans for this crate's tests.

use taillight_core::OpKind;
use taillight_core::plan::*;
use taillight_core::units::{ByteSize, Span};

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
            output: None,
        },
        target: TargetPlan {
            driver: "null".into(),
            path: None,
            size: Some(ByteSize(1 << 30)),
            destroy: false,
            options: toml::Table::new(),
        },
        workloads: vec![WorkloadPlan {
            name: "main".into(),
            workers: 1,
            queue_depth: 1,
            mix: vec![MixPart {
                op: OpKind::Read,
                weight: 1,
            }],
            block_size: BlockSize::Fixed(ByteSize(4096)),
            access: Access {
                kind: AccessKind::Random,
                align: ByteSize(4096),
                offset: ByteSize(0),
                length: None,
                stride: None,
                cover: false,
            },
            arrival: Arrival::Burst,
            sync: Sync::None,
            payload: Payload::Random,
            cpus: Vec::new(),
        }],
        qos: QosPlan {
            percentiles: vec!["50".into()],
            nines: 9,
            ceilings: Vec::new(),
        },
        trace: TracePlan {
            mode: TraceMode::Off,
            threshold: None,
        },
        capture: CapturePlan {
            mode: CaptureMode::All,
            budget: ByteSize(256 << 20),
            dir: None,
        },
    }
}
