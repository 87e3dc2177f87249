//! Verification in a run: prepared before, one checker per worker, the pass afterwards.

use std::sync::Arc;

use taillight_core::plan::{Plan, VerifyMode};
use taillight_core::progress::Progress;
use taillight_core::{Error, Result};
use taillight_driver::{AdminAction, Geometry, SessionSpec, Target};
use taillight_rundir::verify::{PassInfo, VerifyReport};

use super::{StopFlag, buffer_size};
use crate::collector::Observer;
use crate::payload::PayloadSpec;
use crate::verify::{
    Checker, LEDGER_BUDGET, PassSpec, PriorRun, VerifiedArea, VerifySpec, VerifyState, pass,
};

/// What workers share when the plan verifies. `loaded`: records that were loaded for this run, the
/// last ones of those there are. Errors: `Usage` when the plan's blocks cannot be verified.
pub fn prepare(
    plan: &Plan,
    shape: Geometry,
    run_id: &str,
    loaded: u64,
) -> Result<Option<Arc<VerifyState>>> {
    if plan.verify.is_off() {
        return Ok(None);
    }
    let payloads = plan.workloads.iter().map(|w| PayloadSpec::of(&w.payload));
    let keys = plan.workloads.first().and_then(|w| w.keys.as_ref());
    let area = match (keys, plan.verified_keys()) {
        (Some(keys), Some(count)) => VerifiedArea::keys(keys.start, count),
        _ => VerifiedArea::of(plan, shape),
    };
    let prior = plan.verify.run.as_deref().map(PriorRun::find).transpose()?;
    prior.as_ref().map_or(Ok(()), |p| p.fits(plan))?;
    let shared = VerifyState::new(&VerifySpec {
        run_id,
        prior: prior.as_ref(),
        area,
        payloads: &payloads.collect::<Result<Vec<_>>>()?,
        outstanding: plan.outstanding(),
        // No driver promises it: overlapping writes are given the benefit of the doubt.
        whole_writes: false,
        inline: plan.verify.mode == VerifyMode::Inline,
        budget: LEDGER_BUDGET,
    })?;
    if let Some(keys) = keys {
        shared.preloaded(keys.start + keys.count.saturating_sub(loaded), loaded);
    }
    Ok(Some(shared))
}

/// The checker of one worker.
pub fn checker(shared: &Arc<VerifyState>, session: &SessionSpec) -> Box<Checker> {
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
    shared: &Arc<VerifyState>,
    stop: &StopFlag,
    observers: &mut [&mut dyn Observer],
) -> Result<()> {
    if plan.verify.mode != VerifyMode::After {
        return Ok(());
    }
    target.admin(AdminAction::Flush)?;
    // Best effort, and told: else the pass may only see what the cache holds.
    let caches_dropped = target.admin(AdminAction::DropCaches).is_ok();
    let mut progress = |done, total| {
        let told = Progress {
            what: "verifying",
            done,
            total,
            unit: if shared.area().keyed { "records" } else { "bytes" },
        };
        observers.iter_mut().for_each(|o| o.progress(told));
    };
    let worker = u16::try_from(plan.workers())
        .map_err(|_| Error::usage("too many workers to verify after the run"))?;
    let report = pass(
        target,
        shared,
        PassSpec {
            worker,
            value: plan.workloads.iter().map(buffer_size).max().unwrap_or(0),
            depth: plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1),
            caches_dropped,
            stop: &stop.raw(),
            progress: &mut progress,
        },
    )?;
    shared.add_report(&report);
    Ok(())
}

/// Notes that the pass the plan asks for was not made: the verification is not complete.
pub fn pass_not_made(plan: &Plan, shared: &VerifyState) {
    if plan.verify.mode == VerifyMode::After {
        shared.add_report(&VerifyReport {
            pass: Some(PassInfo::default()),
            ..VerifyReport::default()
        });
    }
}
