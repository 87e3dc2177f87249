//! Does the steps of `run.before` (flush, compaction, dropping caches), once the records are loaded and before the load
//! of the run. Each is a phase of its own; none is measured.

use taillight_core::plan::PreRunStep;
use taillight_core::{Clock, Error, MonoClock, Result};
use taillight_driver::{AdminAction, Target};
use taillight_rundir::manifest::PhaseInfo;

use super::EngineRequest;

/// Does the plan's steps in order, tells the observers of each before it begins, and returns a phase with stamps for
/// each; none where the plan has no steps. Errors: the driver's, when it cannot do a step or the step fails;
/// `Unavailable` when asked to stop before a step.
pub fn run(target: &dyn Target, request: &mut EngineRequest<'_>) -> Result<Vec<PhaseInfo>> {
    let mut phases = Vec::new();
    for step in &request.plan.run.before {
        let observers = request.observers.iter_mut();
        observers.for_each(|o| o.phase(step.name()));
        if request.stop.stopped() {
            return Err(Error::unavailable(format!("stopped before {}", step.name())));
        }
        let start = MonoClock.now();
        target
            .admin(AdminAction::from(*step))
            .map_err(|e| refused(e, *step, &request.plan.target.driver))?;
        phases.push(PhaseInfo {
            name: step.name().to_owned(),
            start_ns: start.0,
            end_ns: Some(MonoClock.now().0),
            ios: 0,
        });
    }
    Ok(phases)
}

/// The driver's error with the step and the driver, and with a hint where the driver gave none.
fn refused(e: Error, step: PreRunStep, driver: &str) -> Error {
    let e = e.with("run.before", step.name()).with("driver", driver);
    match e.hint_text() {
        Some(_) => e,
        None => e.hint("leave this step out of run.before"),
    }
}
