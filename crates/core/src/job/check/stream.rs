//! Checks over several workloads: one at least is measured; those on a stream (`access = "follow"`) agree, and one
//! of them writes it.

use super::{Checked, ensure};
use crate::op::OpKind;
use crate::plan::{AccessKind, BlockSize, Plan, VerifyMode, WorkloadPlan};

/// Bytes a writer's stamp takes at the start of a block.
const STAMP_BYTES: u64 = 24;

/// Checks that a workload is measured, then streams and end-to-end latency.
pub(super) fn streams(plan: &Plan) -> Checked {
    ensure(
        plan.workloads.iter().any(|w| w.measured),
        "workload.0.measured",
        "no workload is measured",
        "leave measured = false out of at least one",
    )?;
    let followers: Vec<(usize, &WorkloadPlan)> = plan
        .workloads
        .iter()
        .enumerate()
        .filter(|(_, w)| w.access.kind == AccessKind::Follow)
        .collect();
    for (i, w) in plan.workloads.iter().enumerate() {
        ensure(
            !w.end_to_end || w.access.kind == AccessKind::Follow,
            &format!("workload.{i}.end_to_end"),
            "end-to-end latency needs writers and readers on one stream",
            "write access = \"follow\" in both workloads",
        )?;
    }
    let Some((_, first)) = followers.first() else {
        return Ok(());
    };
    for (i, w) in &followers {
        follower(w, first, &format!("workload.{i}"))?;
        ensure(
            !w.end_to_end || plan.verify.mode == VerifyMode::Off,
            &format!("workload.{i}.end_to_end"),
            "the stamp and the check of the data need the same bytes",
            "use end_to_end and verify in runs of their own",
        )?;
    }
    let (first, _) = followers[0];
    ensure(
        followers.iter().any(|(_, w)| writes(w)),
        &format!("workload.{first}.access"),
        "nobody writes the stream that is followed",
        "add a workload that writes with access = \"follow\"",
    )
}

/// Whether all operations of the workload write.
fn writes(w: &WorkloadPlan) -> bool {
    w.mix.iter().all(|m| m.op.writes())
}

/// One workload on a stream, against the first one on it.
fn follower(w: &WorkloadPlan, first: &WorkloadPlan, path: &str) -> Checked {
    let field = |name: &str| format!("{path}.{name}");
    let mut kinds = w.mix.iter().map(|m| m.op);
    let plain = |op: OpKind| {
        let known = [OpKind::Read, OpKind::Write, OpKind::Get];
        known.contains(&op) || matches!(op, OpKind::Insert | OpKind::Put)
    };
    ensure(
        kinds.clone().all(plain) && (writes(w) || kinds.all(|op| !op.writes())),
        &field("mix"),
        "a worker on a stream either appends or follows",
        "use mix = \"write\" in one workload and mix = \"read\" in another (insert and get on keys)",
    )?;
    ensure(
        matches!(w.block_size, BlockSize::Fixed(_)) && w.block_size == first.block_size,
        &field("block_size"),
        "all blocks of a stream have one size",
        "give the workloads that follow the same block_size",
    )?;
    let place = |w: &WorkloadPlan| (w.access.align, w.access.offset, w.access.length);
    ensure(
        place(w) == place(first),
        &field("access"),
        "the workloads on a stream lie in different places",
        "give them the same align, offset and length",
    )?;
    ensure(
        w.end_to_end == first.end_to_end,
        &field("end_to_end"),
        "some workloads on the stream stamp and others do not",
        "write end_to_end = true in all of them, or in none",
    )?;
    let one_piece = w.value.as_ref().is_none_or(|v| v.fields == 1);
    ensure(
        !w.end_to_end || (w.block_size.min() >= STAMP_BYTES && one_piece),
        &field("block_size"),
        format!("a writer's stamp takes the first {STAMP_BYTES} bytes of a block of one piece"),
        format!("use blocks of at least {STAMP_BYTES} B, and values of one field"),
    )
}
