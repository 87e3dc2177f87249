//! Plans for this crate's tests.

use taillight_core::OpKind;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::units::ByteSize;

/// One worker reading 4 KiB at random from `null`, 1000 operations.
pub fn plan() -> Plan {
    let mut plan = taillight_rundir::fixture::plan();
    (plan.run.seed, plan.run.duration, plan.run.operations) = (7, None, Some(1000));
    plan.workloads = vec![WorkloadPlan::simple("main", OpKind::Read, ByteSize(4096))];
    plan.capture.budget = ByteSize(256 << 20);
    plan
}
