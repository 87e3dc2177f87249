//! Whether the records of a plan fit into this machine's memory.
//!
//! Asked before anything is loaded: a process that takes all memory is killed with nothing
//! measured, and often others with it.

use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::space;

/// What a record takes besides key and value, bytes: node, lock, two heap headers.
const RECORD: u64 = 112;

/// Refuses a plan whose records cannot fit into `available` bytes, if that is known. Errors:
/// `Unavailable` with both sizes.
pub fn check(plan: &Plan, available: Option<u64>) -> Result<()> {
    let (Some(available), Some(needed)) = (available, needed(plan)) else {
        return Ok(());
    };
    if needed <= available {
        return Ok(());
    }
    Err(Error::unavailable(
        "the records do not fit into memory, which is where this driver keeps them",
    )
    .with("needed", ByteSize(needed))
    .with("available", ByteSize(available))
    .hint("lower keys.count or the size of values, or use a driver that stores on disk"))
}

/// Bytes of the largest key space, and of what a counted run of inserts adds. Workloads may share
/// their records, so that the largest one is the least that is needed.
fn needed(plan: &Plan) -> Option<u64> {
    plan.workloads.iter().filter_map(|w| bytes_of(plan, w)).max()
}

fn bytes_of(plan: &Plan, w: &WorkloadPlan) -> Option<u64> {
    w.keys.as_ref()?;
    let record = (space::record_bytes(w) as u64).saturating_add(RECORD);
    Some(space::records(plan, w).saturating_mul(record))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::keyed_plan;
    use taillight_core::plan::TargetPlan;

    fn memory() -> TargetPlan {
        TargetPlan { driver: "memory".to_owned(), ..TargetPlan::default() }
    }

    fn plan(count: u64, operations: Option<u64>) -> Plan {
        let mut plan = keyed_plan(memory(), 1000, 1, false);
        plan.run.operations = operations;
        for keys in plan.workloads.iter_mut().filter_map(|w| w.keys.as_mut()) {
            keys.count = count;
        }
        plan
    }

    #[test]
    fn records_that_cannot_fit_are_refused_and_others_are_not() {
        let most = Some(100_000_000);
        assert!(check(&plan(50_000, None), most).is_ok());
        assert!(check(&plan(u64::MAX, None), None).is_ok(), "nobody knows");
        for plan in [plan(100_000, None), plan(u64::MAX, None), plan(10, Some(1 << 40))] {
            let e = check(&plan, most).unwrap_err();
            assert!(e.to_string().contains("do not fit into memory"), "{e}");
            assert!(e.hint_text().is_some_and(|h| h.contains("keys.count")));
        }
    }
}
