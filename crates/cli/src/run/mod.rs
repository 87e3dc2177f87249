//! `taillight run`: job -> plan -> target -> load -> report -> exit code.
//!
//! Order matters: nothing is touched before the plan is sound, nothing is measured before the
//! target is open, and what was measured is kept whatever happens afterwards.

mod directory;
mod job;
mod live;
mod measure;
mod numbers;
mod signals;
mod verdict;

use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_driver::{OpenSpec, Target};
use taillight_trace::{Environment, Sys};

use crate::args::RunArgs;
use crate::{output, registry};
use directory::Made;
use live::Live;
use signals::Signals;

/// Runs the command.
///
/// # Errors
/// See the exit codes of [`Exit`]; partial results are kept once something was measured.
pub fn main(args: RunArgs) -> Result<Exit> {
    let (plan, job) = job::plan(&args)?;
    if args.print_plan {
        output::text(&directory::plan_shown(&plan)?)?;
        return Ok(Exit::Ok);
    }
    let signals = Signals::install()?;
    let sys = Sys::default();
    let environment = Environment::before(&sys, plan.target.path.as_deref().map(Path::new));
    let made = directory::create(&plan, job.as_ref(), &args, environment.map())?;
    let mut live = Live::new(&plan);
    let target = match open(&plan, &args, &made, &mut live, &signals) {
        Ok(target) => target,
        Err(e) => return stopped_or(e, made, &signals),
    };
    // Named only now: a run that could not begin leaves no directory.
    output::line(&format!("run directory: {}", made.dir.path().display()));
    output::line(&taillight_report::about::about(made.dir.manifest()));
    let measured = match measure::run(&plan, target, &made, &signals, &mut live, &sys) {
        Ok(measured) => measured,
        Err(e) => return stopped_or(e, made, &signals),
    };
    live.end();
    verdict::conclude(made, &environment, &sys, measured, &signals)
}

/// Opens the target and checks the plan against its real shape.
fn open(
    plan: &Plan,
    args: &RunArgs,
    made: &Made,
    live: &mut Live,
    signals: &Signals,
) -> Result<Box<dyn Target>> {
    let driver = registry::driver(&plan.target.driver)?;
    let spec = OpenSpec {
        plan,
        run_id: &made.run_id,
        destroy: args.destroy.as_deref(),
    };
    let stop = signals.stop();
    let target = driver.open(&spec, &mut |p| {
        live.step(p);
        !stop.stopped()
    })?;
    let can = driver.capabilities(&plan.target)?;
    let loaded = taillight_engine::preload::preload(plan, target.as_ref(), &can, &mut |p| {
        live.step(p);
        !stop.stopped()
    });
    live.end();
    if let Err(e) = loaded {
        let _ = target.close();
        return Err(e);
    }
    let shape = target.geometry();
    let fits = taillight_core::job::check_extents(plan, shape.size(), shape.align);
    match fits {
        Ok(()) => Ok(target),
        Err(e) => {
            // The reason matters more than how closing went.
            let _ = target.close();
            Err(e)
        }
    }
}

/// Nothing was measured: no run directory stays, and a signal is named as the cause if it was.
fn stopped_or(e: Error, made: Made, signals: &Signals) -> Result<Exit> {
    made.discard();
    match signals.exit() {
        Some(exit) => {
            output::note("stopped before anything was measured");
            Ok(exit)
        }
        None => Err(e),
    }
}
