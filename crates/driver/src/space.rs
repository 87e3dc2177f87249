//! Estimates how many bytes the records of a workload take, and refuses a plan whose first workload has records that
//! cannot fit where they are to be kept.
//!
//! Embedded databases, `metadata`, `redis` and `postgres` ask before anything is wiped or loaded, with what was free
//! and what becomes free, where they can tell; `memory` counts its records by the same rule. No other driver asks,
//! not `s3`, `kafka`, `jvm` or a plug-in. What only a run can tell (duration, rewrites, what a store adds beyond
//! the size of a record that its driver gives) is not counted, so a plan that passes may still run out of space.

use taillight_core::keys::KeyNaming;
use taillight_core::plan::{PayloadKind, Plan, WorkloadPlan};
use taillight_core::units::readable::bytes;
use taillight_core::{Error, OpKind, Result};

/// Records of a workload: those that are loaded, and those that a counted run inserts by the
/// weights of its mix, `batch` of them an insert. Of a run without a count of operations, with a duration, or with
/// several workloads, loaded ones only.
pub fn records(plan: &Plan, w: &WorkloadPlan) -> u64 {
    let loaded = w.keys.as_ref().map_or(0, |keys| keys.count);
    // Which workload does how many of the operations, or how many fit into a time, nobody knows.
    let counted =
        plan.run.operations.filter(|_| plan.workloads.len() == 1 && plan.run.duration.is_none());
    let weight = |inserts: bool| -> u128 {
        let parts = w.mix.iter().filter(|part| !inserts || part.op == OpKind::Insert);
        parts.map(|part| u128::from(part.weight)).sum()
    };
    let inserted = u128::from(counted.unwrap_or(0)) * weight(true) / weight(false).max(1);
    let inserted = u64::try_from(inserted).unwrap_or(u64::MAX);
    loaded.saturating_add(inserted.saturating_mul(u64::from(w.batch.max(1))))
}

/// Mean bytes of a value with all of its fields.
fn value_bytes(w: &WorkloadPlan) -> f64 {
    w.block_size.mean() * w.value.as_ref().map_or(1.0, |value| f64::from(value.fields))
}

/// Bytes of a usual key: a binary one as the plan says (16 where it does not), a hashed one with 18 digits, of ordered
/// ones that in the middle. 0 for a workload without keys.
fn key_bytes(w: &WorkloadPlan) -> f64 {
    let Some(keys) = &w.keys else { return 0.0 };
    let decimal = |digits: u32| keys.prefix.len() as f64 + f64::from(digits.max(keys.digits));
    match keys.naming {
        KeyNaming::Binary => keys.size.map_or(16.0, |size| size.0 as f64),
        KeyNaming::Hashed => decimal(18),
        KeyNaming::Ordered => {
            decimal(keys.start.saturating_add(keys.count / 2).max(1).ilog10() + 1)
        }
    }
}

/// Bytes of a usual key and a mean value, as they are.
pub fn record_bytes(w: &WorkloadPlan) -> f64 {
    key_bytes(w) + value_bytes(w)
}

/// Bytes of a key and its value in a store that compresses as well as is possible: values by how far their payload
/// compresses (of zeros and of a pattern nothing is left), 5 for a hashed key, and 0 for any other key.
pub fn compressed_bytes(w: &WorkloadPlan) -> f64 {
    let hashed = w.keys.as_ref().is_some_and(|keys| keys.naming == KeyNaming::Hashed);
    // Of 63 random bits, being in order saves some 20.
    let key = if hashed { 5.0 } else { 0.0 };
    let percent = |share: u32| f64::from(100 - share.min(100)) / 100.0;
    let kept = match w.payload.kind {
        PayloadKind::Random => percent(w.payload.compressible),
        // The entropy of such text is 0.79 of its size.
        PayloadKind::Text => 0.75,
        PayloadKind::Zero | PayloadKind::Pattern => 0.0,
    };
    key + value_bytes(w) * kept * percent(w.payload.duplicate)
}

/// Refuses records of the plan's first workload that cannot all be kept. `have` of them are there, `free` bytes are for
/// the others, and each takes `size` bytes. A plan without workloads passes. Errors: `Unavailable`, with the numbers.
pub fn fits(plan: &Plan, have: u64, free: u64, size: impl Fn(&WorkloadPlan) -> f64) -> Result<()> {
    let Some(w) = plan.workloads.first() else { return Ok(()) };
    let missing = records(plan, w).saturating_sub(have);
    let needed = (missing as f64 * size(w)) as u64;
    if needed <= free {
        return Ok(());
    }
    Err(Error::unavailable("not enough space for the records")
        .with("records", missing)
        .with("needed", bytes(needed))
        .with("free", bytes(free))
        .hint("load fewer (keys.count), or name a path with more space (a server: raise its maxmemory)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::keyed_plan;
    use taillight_core::plan::{MixPart, Payload, TargetPlan, Values};
    use taillight_core::units::Span;

    /// A million values of 1000 B to load.
    fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
        let mut plan = keyed_plan(TargetPlan::default(), 1000, 1, false);
        (plan.run.operations, plan.run.duration) = (Some(1000), None);
        let w = &mut plan.workloads[0];
        w.mix = vec![MixPart { op: OpKind::Get, weight: 1 }];
        w.payload = Payload::default();
        for keys in w.keys.iter_mut() {
            (keys.count, keys.naming) = (1_000_000, KeyNaming::Ordered);
        }
        change(&mut plan);
        plan
    }

    #[test]
    fn what_cannot_fit_is_refused_whatever_it_is_made_of() {
        const MB: u64 = 1_000_000;
        let payload = |p: Payload| plan(move |plan| plan.workloads[0].payload = p);
        let mix = |plan: &mut Plan| {
            let parts = [(OpKind::Insert, 3), (OpKind::Get, 1)];
            plan.workloads[0].mix = parts.map(|(op, weight)| MixPart { op, weight }).to_vec();
            plan.run.operations = Some(4_000_000);
        };
        let naming = |naming| {
            move |plan: &mut Plan| {
                plan.workloads[0].keys.iter_mut().for_each(|keys| keys.naming = naming);
            }
        };
        let of_fields = Values { fields: 10, ..Values::default() };
        for (case, plan, least) in [
            ("plain", plan(|_| ()), 1000),
            ("fields", plan(|p| p.workloads[0].value = Some(of_fields.clone())), 10_000),
            ("duplicate", payload(Payload { duplicate: 1, ..Payload::default() }), 990),
            ("compressible", payload(Payload { compressible: 40, ..Payload::default() }), 600),
            ("text", payload(Payload::from(PayloadKind::Text)), 750),
            ("zeros", payload(Payload::from(PayloadKind::Zero)), 0),
            ("hashed keys", plan(naming(KeyNaming::Hashed)), 1005),
            ("inserts", plan(mix), 4000),
            (
                "inserts for a time",
                plan(|p| {
                    mix(p);
                    p.run.duration = Some(Span(1));
                }),
                1000,
            ),
        ] {
            fits(&plan, 0, least * MB, compressed_bytes).unwrap();
            if least > 0 {
                let e = fits(&plan, 0, least * MB - MB, compressed_bytes).unwrap_err();
                assert!(e.to_string().contains("not enough space"), "{case}: {e}");
            }
        }
        // What is there needs no room, and what is stored whole is not made smaller.
        fits(&plan(|_| ()), 1_000_000, 0, compressed_bytes).unwrap();
        let zeros = payload(Payload::from(PayloadKind::Zero));
        fits(&zeros, 0, 1009 * MB, record_bytes).unwrap_err();
        fits(&zeros, 0, 1010 * MB, record_bytes).unwrap();
        fits(&plan(naming(KeyNaming::Hashed)), 0, 1021 * MB, record_bytes).unwrap_err();
        fits(&plan(naming(KeyNaming::Binary)), 0, 1016 * MB, record_bytes).unwrap();
    }
}
