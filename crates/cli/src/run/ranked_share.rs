//! Which plans ranks can run together, and by how many ranks their parts of the data are shifted so that no rank reads
//! what its own host has cached. What a rank's part is: `core::plan::RankPlace`.

use taillight_core::plan::{Plan, WorkShare, WorkloadPlan};
use taillight_core::{Error, OpKind, Result};

/// Refuses a plan that ranks cannot run together: a stream that they would share, an end by steadiness, and what
/// `run.share` does not allow. Errors: `Usage`; those of binding its targets.
pub fn check(plan: &Plan) -> Result<()> {
    if plan.workloads.iter().any(|w| w.access.kind == taillight_core::plan::AccessKind::Follow)
        && !plan.run.share.is_own()
    {
        return Err(Error::usage("a stream is one rank's own")
            .hint("leave run.share out: each rank then has a stream of its own"));
    }
    if plan.run.steady.is_some() {
        return Err(Error::usage("each rank would be steady at another time")
            .with("at", "run.steady")
            .hint("leave run.steady out and give the run a duration"));
    }
    check_shared(plan)
}

/// Refuses a plan whose targets the ranks cannot share as `run.share` says: it verifies, its driver cannot, or its keys
/// do not allow it. Where each rank has its own there is nothing to refuse. Errors: as [`check`].
fn check_shared(plan: &Plan) -> Result<()> {
    if plan.run.share.is_own() {
        return Ok(());
    }
    if !plan.verify.is_off() {
        return Err(Error::usage("ranks that share a target cannot verify it")
            .with("run.share", plan.run.share.name())
            .hint("leave [verify] out: blocks of another rank would count as wrong; or leave run.share out"));
    }
    for (_, target) in plan.all_targets() {
        taillight_driver::bind(target)?.check_shared(target, plan.run.share)?;
    }
    check_shared_keys(plan)
}

/// Refuses a plan by which ranks would make or delete the same keys, look for keys that another one deletes, or have
/// keys in turns for unlike numbers of workers. Errors: `Usage`.
fn check_shared_keys(plan: &Plan) -> Result<()> {
    let does = |w: &WorkloadPlan, ops: &[OpKind]| {
        w.keys.is_some() && w.mix.iter().any(|m| m.weight > 0 && ops.contains(&m.op.as_record()))
    };
    let (adds, deletes) = ([OpKind::Insert, OpKind::Put], [OpKind::Delete]);
    let first = |ops: &[OpKind]| plan.workloads.iter().find(|w| does(w, ops));
    let turns = plan.run.share == WorkShare::Strided;
    let of_one = plan.run.share == WorkShare::Segments;
    if let Some(w) = first(&adds).or_else(|| first(&deletes).filter(|_| !of_one)).filter(|_| !turns)
    {
        return Err(Error::usage("ranks would add or delete the same keys")
            .with("workload", &w.name)
            .with("run.share", plan.run.share.name())
            .hint("use run.share = \"strided\": each worker then has numbers in turn; or update instead of put"));
    }
    let reads = |w: &WorkloadPlan| w.keys.is_some() && w.mix.iter().any(|m| finds(m.op));
    if let Some(w) = first(&deletes).filter(|_| turns && plan.workloads.iter().any(reads)) {
        return Err(Error::usage(
            "no rank knows which keys another one deletes, and would look for them",
        )
        .with("workload", &w.name)
        .hint("leave deletes out, or run.share: each rank then has keys of its own"));
    }
    let turned = plan.workloads.iter().filter(|w| does(w, &adds) || does(w, &deletes));
    let workers = plan.workloads.first().map(|w| w.workers);
    if let Some(w) = turned.clone().find(|w| Some(w.workers) != workers) {
        return Err(Error::usage("keys in turns need workloads with as many workers each")
            .with("workload", &w.name)
            .hint("give all workloads the same workers, or leave run.share out"));
    }
    Ok(())
}

/// Whether an operation looks for records that should be there.
fn finds(op: OpKind) -> bool {
    matches!(op, OpKind::Get | OpKind::Update | OpKind::Rmw | OpKind::Scan | OpKind::Stat)
}

/// A note to a run that [`reads_back`] is true of, where [`shift`] finds none.
pub const OWN_READS: &str = "Hosts may read what they wrote themselves, which their caches answer: no shift takes every part to another host.";

/// Whether a run on several hosts only reads, and each rank a part of its own (`run.share` is segments or strided): as
/// where it reads back what an earlier run wrote. `hosts`: the host of each rank.
pub fn reads_back(plan: &Plan, hosts: &[&str]) -> bool {
    let reads = plan.workloads.iter().all(|w| w.mix.iter().all(|m| !m.op.writes()));
    let several = hosts.iter().any(|host| Some(host) != hosts.first());
    reads && several && matches!(plan.run.share, WorkShare::Segments | WorkShare::Strided)
}

/// By how many ranks the parts are shifted so that no rank reads what its own host wrote, whose cache would answer: the
/// smallest number that gives every rank a part of another host; 0 where none does. `hosts`: the host of each rank.
pub fn shift(hosts: &[&str]) -> u32 {
    let elsewhere = |shift: &usize| {
        (0..hosts.len()).all(|rank| hosts[(rank + shift) % hosts.len()] != hosts[rank])
    };
    (1..hosts.len()).find(elsewhere).unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_changes_the_host_of_every_rank() {
        assert_eq!(shift(&["a", "a", "b", "b"]), 2);
        assert_eq!(shift(&["a", "b", "a", "b"]), 1);
        assert_eq!(shift(&["a", "b", "b", "c", "c", "c"]), 3);
        assert_eq!(shift(&["a", "a", "b"]), 0, "one of two ranks of a stays there");
    }
}
