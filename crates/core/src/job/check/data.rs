//! Checks of what is stored (payload, key spaces, fields of values, scans) and of `[verify]`, with the memory that
//! its record of writes needs.

use super::{Checked, ValidationError, ensure};
use crate::capability::Capabilities;
use crate::job::MachineMemory;
use crate::op::OpKind;
use crate::plan::{AccessKind, BlockSize, KeyNaming, MixPart, PayloadKind, Plan, WorkloadPlan};
use crate::units::ByteSize;

/// Smallest block or value that can be verified, bytes: it carries marks and sums.
const MARKED: u64 = 64;
/// Longest key that a job may ask for, bytes.
const KEY_MAX: u64 = 256;

/// Checks payload, keys, values and scans of a workload.
pub(super) fn data(w: &WorkloadPlan, path: &str) -> Checked {
    payload(w, &format!("{path}.payload"))?;
    keys(w, &format!("{path}.keys"))?;
    if let Some(v) = &w.value {
        let at = format!("{path}.value");
        ensure(
            (1..=1024).contains(&v.fields),
            &at,
            format!("{} fields", v.fields),
            "use 1 to 1024",
        )?;
        ensure(
            v.prefix.len() <= 64,
            &at,
            "the field prefix is longer than 64 bytes",
            "use a short one, like \"field\"",
        )?;
        ensure(
            !v.integrity || matches!(w.block_size, BlockSize::Fixed(_)),
            &format!("{at}.integrity"),
            "values are computed for fields of one size",
            "give block_size as one size, or leave integrity out",
        )?;
    }
    if let Some(s) = &w.scan {
        ensure(
            s.min > 0 && s.min <= s.max,
            &format!("{path}.scan"),
            format!("{} to {} records", s.min, s.max),
            "min is at least 1 and at most max",
        )?;
    }
    Ok(())
}

fn payload(w: &WorkloadPlan, path: &str) -> Checked {
    let p = &w.payload;
    ensure(
        p.compressible <= 100 && p.duplicate <= 100,
        path,
        "a share above 100 percent",
        "compressible and duplicate are percent of each block, 0 to 100",
    )?;
    ensure(
        (p.kind == PayloadKind::Pattern) == p.pattern.as_ref().is_some_and(|t| !t.is_empty()),
        path,
        "a pattern belongs to kind = \"pattern\", and it needs one",
        "write payload = { kind = \"pattern\", pattern = \"0xdeadbeef\" }",
    )?;
    ensure(
        p.kind == PayloadKind::Random || (p.compressible == 0 && p.duplicate == 0),
        path,
        "compressible and duplicate shape random bytes only",
        "use kind = \"random\"",
    )
}

/// Checks `[verify]`: the target keeps data; blocks of verified workloads are all different, of one field and large
/// enough; the record of writes fits into memory.
pub(super) fn verify(plan: &Plan, can: &Capabilities, machine: MachineMemory) -> Checked {
    let off = plan.verify.is_off();
    ensure(
        !off || plan.verify.run.is_none(),
        "verify.run",
        "nothing is verified",
        "add mode = \"inline\" to check every read, or mode = \"after\" for a pass of its own",
    )?;
    ensure(
        off || can.stores_data,
        "verify.mode",
        format!("`{}` does not keep what is written", plan.target.driver),
        "use a driver that stores data, or leave [verify] out",
    )?;
    unverified(plan, off)?;
    for (i, w) in plan.workloads.iter().enumerate().filter(|(_, w)| !w.unverified) {
        ensure(
            off || w.payload.duplicate == 0,
            &format!("workload.{i}.payload.duplicate"),
            "verified blocks are all different",
            "leave duplicate out, or leave [verify] out",
        )?;
        ensure(
            off || w.value.as_ref().is_none_or(|v| v.fields == 1),
            &format!("workload.{i}.value.fields"),
            "only values of one field can be verified",
            "use value.integrity to check values of several fields",
        )?;
        ensure(
            off || w.block_size.min() >= MARKED,
            &format!("workload.{i}.block_size"),
            format!("{} is too small to be verified", ByteSize(w.block_size.min())),
            format!("verified blocks and values carry {MARKED} B of marks and sums, or more"),
        )?;
    }
    let keyed = plan.workloads.iter().any(|w| w.keys.is_some());
    ensure(
        off || keyed || plan.verified_unit_of_all() >= MARKED,
        "verify.mode",
        format!("the blocks of all workloads have no common divisor of {MARKED} B or more"),
        "use block sizes, access.align and access.offset that divide by 512, or verify in runs of their own",
    )?;
    ledger(plan, plan.target.size, machine)
}

/// Workloads that are not verified beside others: their writes would be taken for damage on the same target.
fn unverified(plan: &Plan, off: bool) -> Checked {
    let writes = |w: &&WorkloadPlan| w.mix.iter().any(|part| part.op.writes());
    ensure(
        off || plan.workloads.iter().any(|w| !w.unverified),
        "verify.mode",
        "no workload is verified",
        "leave `unverified` out, or [verify]",
    )?;
    let verified = |target: &Option<String>| {
        plan.workloads.iter().any(|w| w.target == *target && !w.unverified)
    };
    for (i, w) in plan.workloads.iter().enumerate().filter(|(_, w)| w.unverified && writes(w)) {
        ensure(
            off || !verified(&w.target),
            &format!("workload.{i}.unverified"),
            "another workload of the same target is verified",
            "verify both, or give them a target each",
        )?;
    }
    Ok(())
}

/// The record of writes must fit into half of the free memory; `Unavailable` where it does not. `size`: of the data
/// set, when it is known.
pub(in crate::job) fn ledger(
    plan: &Plan,
    size: Option<ByteSize>,
    machine: MachineMemory,
) -> Checked {
    let Some((blocks, bytes)) = plan.ledger(size.map(|s| s.0)) else {
        return Ok(());
    };
    if bytes <= machine.free_memory.0 / 2 {
        return Ok(());
    }
    Err(ValidationError::new(
        "verify.mode",
        format!(
            "the record of writes to {blocks} blocks needs {} MiB of memory, half of what is free \
             is {} MiB",
            bytes >> 20,
            machine.free_memory.0 >> 21
        ),
        "use larger blocks or fewer keys, or verify a smaller extent (access.length)",
    )
    .unavailable())
}

fn keys(w: &WorkloadPlan, path: &str) -> Checked {
    let Some(k) = &w.keys else {
        return Ok(());
    };
    let only_new = |m: &MixPart| {
        matches!(m.op.as_record(), OpKind::Insert | OpKind::Put | OpKind::Mkdir | OpKind::Rmdir)
    };
    ensure(
        k.count > 0 || w.access.kind == AccessKind::Follow || w.mix.iter().all(only_new),
        &format!("{path}.count"),
        "the key space is empty",
        "give keys = { count = N }: that many records are loaded before",
    )?;
    ensure(
        k.start.checked_add(k.count).is_some_and(|end| end < u64::MAX >> 1),
        path,
        "the key numbers go beyond 2^63",
        "use a smaller start or count",
    )?;
    ensure(
        k.prefix.len() as u64 + u64::from(k.digits.max(20)) <= KEY_MAX,
        path,
        format!("keys would be longer than {KEY_MAX} bytes"),
        "use a shorter prefix or fewer digits",
    )?;
    let binary = k.naming == KeyNaming::Binary;
    ensure(
        k.size.is_some() == binary && k.size.is_none_or(|s| (8..=KEY_MAX).contains(&s.0)),
        &format!("{path}.size"),
        format!("binary keys have a size of 8 B to {KEY_MAX} B; others have none"),
        "write keys = { naming = \"binary\", size = \"16B\" }, or leave size out",
    )
}
