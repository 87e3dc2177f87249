//! The targets and plans that the suite makes of a driver's test target, options and capabilities.

use taillight_core::capability::{Capabilities, TargetKind};
use taillight_core::plan::{
    AccessKind, CaptureMode, CapturePlan, MixPart, Plan, RunPlan, Sync, TargetPlan, WorkloadPlan,
};
use taillight_core::units::ByteSize;
use taillight_core::{Error, OpKind, Result};

use super::keyed_plan;
use crate::Driver;
use crate::test_target::TestTarget;

/// Bytes of a data set of blocks.
const DATA_SET: u64 = 1 << 20;

impl TestTarget {
    /// The target with these options (TOML), and what the driver can do with them. One of blocks has a size, 1 MiB.
    /// Errors: the driver's, for options that it refuses.
    pub fn resolve(
        &self,
        driver: &dyn Driver,
        options: &str,
    ) -> Result<(TargetPlan, Capabilities)> {
        let mut target = TargetPlan {
            driver: driver.name().to_owned(),
            path: Some(self.path.clone()),
            options: options
                .parse()
                .map_err(|e| Error::internal("options of a test are no TOML").source(e))?,
            ..TargetPlan::default()
        };
        let can = driver.bind(&target)?.capabilities();
        let sized = !can.keyed() && can.facts.kind != TargetKind::Queue;
        target.size = sized.then_some(ByteSize(DATA_SET));
        Ok((target, can))
    }
}

/// A plan with the operations that the checks try on a target with these capabilities, at `depth`; on keys only what
/// the driver can, and scans that go down with `reverse`.
pub fn plan_for(can: &Capabilities, target: TargetPlan, depth: u32, reverse: bool) -> Plan {
    match can.facts.kind {
        TargetKind::File => {
            let ops = [OpKind::Read, OpKind::Write, OpKind::Fsync, OpKind::Trim];
            plan(target, &ops, 4096, depth)
        }
        // A writer, and a reader that does not follow it: the file is laid out, so that every
        // check applies.
        TargetKind::Stream => {
            let mut plan = plan(target, &[OpKind::Write], 4096, depth);
            plan.workloads[0].access.kind = AccessKind::Sequential;
            plan.workloads[0].passes = Some(1);
            let mut reader = plan.workloads[0].clone();
            reader.mix[0].op = OpKind::Read;
            plan.workloads.push(reader);
            plan
        }
        // Readers follow a writer: what they read comes from it.
        TargetKind::Queue => {
            let mut plan = plan(target, &[OpKind::Write], 400, depth);
            plan.workloads[0].access.kind = AccessKind::Follow;
            plan.workloads[0].sync = Sync::None;
            let mut reader = plan.workloads[0].clone();
            reader.mix[0].op = OpKind::Read;
            plan.workloads.push(reader);
            plan
        }
        TargetKind::Keyed | TargetKind::Object => {
            let mut plan = keyed_plan(target, 400, depth, reverse);
            // What a snapshot hides cannot be read back.
            let hidden = |op| matches!(op, OpKind::Insert | OpKind::Put | OpKind::Rmw);
            let mix = &mut plan.workloads[0].mix;
            mix.retain(|part| can.ops.contains(&part.op) && !(can.snapshot && hidden(part.op)));
            plan
        }
    }
}

/// A plan of one workload that does `ops` in equal shares, in blocks of `block` bytes at `depth`, with an fdatasync
/// behind each write, and keeps no I/Os. Its end, one operation, is of no account: the checks drive sessions by
/// themselves.
pub fn plan(target: TargetPlan, ops: &[OpKind], block: u64, depth: u32) -> Plan {
    let mix = ops.iter().map(|op| MixPart { op: *op, weight: 1 }).collect();
    Plan {
        run: RunPlan {
            name: "conformance".to_owned(),
            seed: 7,
            operations: Some(1),
            ..RunPlan::default()
        },
        target,
        workloads: vec![WorkloadPlan {
            queue_depth: depth,
            mix,
            sync: Sync::Fdatasync(1),
            ..WorkloadPlan::simple("all", OpKind::Read, ByteSize(block))
        }],
        capture: CapturePlan { mode: CaptureMode::Off, ..CapturePlan::default() },
        ..Plan::default()
    }
}
