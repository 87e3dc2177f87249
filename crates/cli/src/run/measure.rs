//! The one call into the engine, with or without tracing.

use std::path::Path;

use taillight_core::plan::{Plan, TraceMode};
use taillight_core::{Error, Result};
use taillight_driver::Target;
use taillight_engine::{Observer, Outcome, Request};
use taillight_rundir::trace_info::TraceInfo;
use taillight_trace::Sys;
use taillight_trace::tracer::{self, Tracer, Wish};

use super::directory::Made;
use super::live::Live;
use super::signals::Signals;
use crate::output;

/// What a run left behind.
pub struct Measured {
    /// From the engine.
    pub outcome: Outcome,
    /// From tracing, if it was asked for.
    pub trace: Option<TraceInfo>,
    /// Why what was traced could not be written.
    pub untraced: Option<Error>,
}

/// Makes the load and records it.
///
/// # Errors
/// When nothing could be measured; a target that fails later is part of the outcome.
pub fn run(
    plan: &Plan,
    (target, loaded): (Box<dyn Target>, u64),
    made: &Made,
    signals: &Signals,
    live: &mut Live,
    sys: &Sys,
) -> Result<Measured> {
    let mut observers: [&mut dyn Observer; 1] = [live];
    let request = Request {
        plan,
        target,
        rundir: &made.dir,
        run_id: &made.run_id,
        loaded,
        clock: &made.clock,
        stop: signals.stop(),
        observers: &mut observers,
    };
    let (tracer, trace) = match start(plan, made, sys) {
        None => (None, None),
        Some(Ok(tracer)) => (Some(tracer), None),
        Some(Err(why)) => {
            output::note(&untraced(&why));
            (None, Some(tracer::untraced(plan, &why)))
        }
    };
    let Some(tracer) = tracer else {
        return Ok(Measured {
            outcome: taillight_engine::run::run(request)?,
            trace,
            untraced: None,
        });
    };
    tracer.missing().iter().for_each(|m| output::note(m));
    let outcome = taillight_engine::run::run_probed(request, tracer.probes())?;
    let (trace, untraced) = match tracer.finish(&made.dir) {
        Ok(info) => (info, None),
        Err(e) => (tracer::untraced(plan, &e), Some(e)),
    };
    Ok(Measured {
        outcome,
        trace: Some(trace),
        untraced,
    })
}

/// Starts tracing if the plan asks for it.
fn start(plan: &Plan, made: &Made, sys: &Sys) -> Option<Result<Tracer>> {
    if plan.trace.mode == TraceMode::Off {
        return None;
    }
    if made.clock.source == "virtual" {
        let why = Error::unavailable("nothing happens below a driver on virtual time");
        return Some(Err(why));
    }
    let direct = plan.target.options.get("direct");
    let wish = Wish {
        plan,
        path: plan.target.path.as_deref().map(Path::new),
        direct: direct.and_then(toml::Value::as_bool).unwrap_or(false),
    };
    Some(Tracer::start(&wish, sys))
}

/// The run goes on; what is missing is said once, with what to do about it.
fn untraced(why: &Error) -> String {
    let hint = why.hint_text().map_or(String::new(), |h| format!("; {h}"));
    format!("not traced: {why}{hint}")
}
