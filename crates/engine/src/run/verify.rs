//! Verification in a run: prepared before, one checker per worker, the pass afterwards.

use std::sync::Arc;

use num_integer::gcd;
use taillight_core::plan::{Payload, Plan, VerifyMode, WorkloadPlan};
use taillight_core::progress::Progress;
use taillight_core::{Error, Result};
use taillight_driver::{AdminAction, SessionSpec, Target};
use taillight_rundir::ledger::LedgerRow;
use taillight_rundir::verify::{PassInfo, VerifyReport};

use super::{StopFlag, buffer_size};
use crate::collector::Observer;
use crate::payload::PayloadSpec;
use crate::verify::{
    Checker, LEDGER_BUDGET, PassSpec, PriorRun, VerifiedArea, VerifySpec, VerifyState, pass,
};

/// The verification of a run: of each target that is verified a record of what was written where.
#[derive(Debug)]
pub struct RunVerification {
    targets: Vec<VerifiedTarget>,
    /// For each workload the index in `targets` of the target that it is verified on.
    of_workload: Vec<Option<usize>>,
}

#[derive(Debug)]
struct VerifiedTarget {
    /// Name of the target in the job; `None` for `[target]`.
    name: Option<String>,
    state: Arc<VerifyState>,
    /// The first workload that is verified on it.
    workload: usize,
}

impl RunVerification {
    /// What was found on all targets.
    pub fn report(&self) -> VerifyReport {
        let mut reports = self.targets.iter().map(|of| {
            let mut report = of.state.report();
            report.findings.iter_mut().for_each(|found| found.of.clone_from(&of.name));
            report
        });
        let mut all = reports.next().unwrap_or_default();
        for one in reports {
            all.add(&one);
            all.ledger += one.ledger;
            all.pass = match (all.pass, one.pass) {
                (Some(a), Some(b)) => Some(PassInfo {
                    blocks: a.blocks + b.blocks,
                    duration_ns: a.duration_ns + b.duration_ns,
                    caches_dropped: a.caches_dropped && b.caches_dropped,
                    complete: a.complete && b.complete,
                }),
                // An error ended it before the others had theirs.
                (a, b) => a.or(b).map(|pass| PassInfo { complete: false, ..pass }),
            };
        }
        all
    }

    /// The last write to each block, where exactly one target is verified; else nothing.
    pub fn rows(&self) -> impl Iterator<Item = LedgerRow> {
        let one = if let [one] = self.targets.as_slice() { Some(one) } else { None };
        one.into_iter().flat_map(|of| of.state.rows())
    }

    /// The checker of one worker, where its workload is verified.
    pub fn checker(&self, session: &SessionSpec) -> Option<Box<Checker>> {
        let number = (*self.of_workload.get(usize::from(session.workload))?)?;
        Some(checker(&self.targets[number].state, session))
    }
}

/// What workers share when the plan verifies. `loaded`: records that were loaded for this run, the
/// last ones of those there are. Errors: `Usage` when the plan's blocks cannot be verified.
pub fn prepare(
    plan: &Plan,
    target: &dyn Target,
    run_id: &str,
    loaded: u64,
) -> Result<Option<RunVerification>> {
    if plan.verify.is_off() {
        return Ok(None);
    }
    let prior = plan.verify.run.as_deref().map(PriorRun::find).transpose()?;
    prior.as_ref().map_or(Ok(()), |p| p.fits(plan))?;
    let (areas, of_workload) = areas(plan, target);
    // Blocks of one size everywhere, so that their counts can be added up.
    let unit = areas.iter().fold(0, |unit, (_, area)| gcd(unit, area.unit));
    // What is not verified may repeat blocks.
    let any = Payload::default();
    let payloads = plan.workloads.iter().map(|w| if w.unverified { &any } else { &w.payload });
    let payloads = payloads.map(PayloadSpec::of);
    let payloads = payloads.collect::<Result<Vec<_>>>()?;
    let keys = plan.workloads.first().and_then(|w| w.keys.as_ref());
    let mut targets = Vec::with_capacity(areas.len());
    for (number, (workload, area)) in areas.into_iter().enumerate() {
        let blocks = area.blocks * (area.unit / unit.max(1)).max(1);
        let mine = plan.workloads.iter().zip(&of_workload).filter(|(_, of)| **of == Some(number));
        let state = VerifyState::new(&VerifySpec {
            run_id,
            target: number,
            prior: prior.as_ref(),
            area: VerifiedArea { unit, blocks, ..area },
            payloads: &payloads,
            outstanding: mine.map(|(w, _)| w.outstanding()).sum(),
            // No driver promises it: overlapping writes are given the benefit of the doubt.
            whole_writes: false,
            inline: plan.verify.mode == VerifyMode::Inline,
            budget: LEDGER_BUDGET,
        })?;
        if let Some(keys) = keys {
            state.preloaded(keys.start + keys.count.saturating_sub(loaded), loaded);
        }
        let name = plan.workloads[workload].target.clone();
        targets.push(VerifiedTarget { name, state, workload });
    }
    Ok(Some(RunVerification { targets, of_workload }))
}

/// For each target that is verified, the index of the first such workload and the area; for each workload the number of
/// its target.
fn areas(plan: &Plan, target: &dyn Target) -> (Vec<(usize, VerifiedArea)>, Vec<Option<usize>>) {
    let keys = plan.workloads.first().and_then(|w| w.keys.as_ref());
    let (mut areas, mut of_workload) = (Vec::new(), vec![None; plan.workloads.len()]);
    for (name, _) in plan.all_targets() {
        let mine = |w: &WorkloadPlan| w.target.as_deref() == name && !w.unverified;
        let Some(first) = plan.workloads.iter().position(mine) else { continue };
        let of = plan.workloads.iter().zip(&mut of_workload).filter(|(w, _)| mine(w));
        of.for_each(|(_, number)| *number = Some(areas.len()));
        let mut own = plan.for_target(name);
        own.workloads.retain(|w| !w.unverified);
        areas.push((
            first,
            match (keys, own.verified_keys()) {
                (Some(keys), Some(count)) => VerifiedArea::keys(keys.start, count),
                _ => VerifiedArea::of(&own, target.geometry_of(first)),
            },
        ));
    }
    (areas, of_workload)
}

fn checker(shared: &Arc<VerifyState>, session: &SessionSpec) -> Box<Checker> {
    Box::new(Checker::new(
        shared.clone(),
        usize::from(session.workload),
        Some(session.worker),
        session.depth,
        session.buffer_size,
    ))
}

/// The pass, when the plan asks for one.
pub fn after(
    plan: &Plan,
    target: &dyn Target,
    verification: &RunVerification,
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
) -> Result<()> {
    if plan.verify.mode != VerifyMode::After {
        return Ok(());
    }
    target.admin(AdminAction::Flush)?;
    // Best effort, and told: else the pass may only see what the cache holds.
    let caches_dropped = target.admin(AdminAction::DropCaches).is_ok();
    let worker = u16::try_from(plan.workers())
        .map_err(|_| Error::usage("too many workers to verify after the run"))?;
    for VerifiedTarget { state, workload, .. } in &verification.targets {
        let unit = if state.area().keyed { "records" } else { "bytes" };
        let mut progress = |done, total| {
            let told = Progress { what: "verifying", done, total, unit };
            observers.iter_mut().for_each(|o| o.progress(told));
        };
        let how = PassSpec {
            worker,
            workload: *workload as u16,
            value: plan.workloads.iter().map(buffer_size).max().unwrap_or(0),
            depth: plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1),
            caches_dropped,
            stop: &stop.raw(),
            progress: &mut progress,
        };
        state.add_report(&pass(target, state, how)?);
    }
    Ok(())
}

/// Notes that the pass the plan asks for was not made: the verification is not complete.
pub fn pass_not_made(plan: &Plan, verification: &RunVerification) {
    if plan.verify.mode != VerifyMode::After {
        return;
    }
    let not_made = VerifyReport { pass: Some(PassInfo::default()), ..VerifyReport::default() };
    verification.targets.iter().for_each(|of| of.state.add_report(&not_made));
}
