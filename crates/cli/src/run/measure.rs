//! The one call into the engine.

use taillight_core::Result;
use taillight_core::plan::Plan;
use taillight_driver::Target;
use taillight_engine::{Observer, Outcome, Request};

use super::directory::Made;
use super::live::Live;
use super::signals::Signals;

/// Makes the load and records it.
///
/// # Errors
/// When nothing could be measured; a target that fails later is part of the outcome.
pub fn run(
    plan: &Plan,
    target: Box<dyn Target>,
    made: &Made,
    signals: &Signals,
    live: &mut Live,
) -> Result<Outcome> {
    let mut observers: [&mut dyn Observer; 1] = [live];
    taillight_engine::run::run(Request {
        plan,
        target,
        rundir: &made.dir,
        run_id: &made.run_id,
        clock: &made.clock,
        stop: signals.stop(),
        observers: &mut observers,
    })
}
