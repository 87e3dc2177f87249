//! `taillight run`: job -> plan -> target -> load -> report -> exit code.
//!
//! Order matters: nothing is touched before the plan is sound, nothing is measured before the
//! target is open, and what was measured is kept whatever happens afterwards.

mod directory;
mod imported;
mod job;
mod live;
mod measure;
mod numbers;
mod repeat;
mod search;
mod series;
mod signals;
mod verdict;

use std::path::PathBuf;

use taillight_core::exit::Exit;
use taillight_core::job::{check_extents, check_ledger};
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_driver::{OpenSpec, Target};
use taillight_engine::schedule::Schedules;
use taillight_machine::{Sys, block};
use taillight_rundir::Summary;
use taillight_trace::{Environment, memory_budget, tracing};

use crate::args::RunArgs;
use crate::{output, problem, registry};
use directory::Made;

pub use directory::{fresh_id, plan_text, suite_home};
pub use imported::worse;
pub use job::{Given, plan, read, resolve};
pub use live::Live;
pub use series::{ask_for, percentile};
pub use signals::Signals;

/// Runs the command.
///
/// # Errors
/// See the exit codes of [`Exit`]; partial results are kept once something was measured.
pub fn main(args: RunArgs) -> Result<Exit> {
    let given = args.job.as_deref().map(job::read).transpose();
    let given = given.map_err(|e| match &args.job {
        // `--direct false`: the value was taken for a job file.
        Some(job)
            if args.direct.is_some()
                && (job.as_os_str() == "false" || job.as_os_str() == "true") =>
        {
            e.hint(format!(
                "a value of --direct needs `=`: --direct={}",
                job.display()
            ))
        }
        _ => e,
    })?;
    if let Some(given) = &given
        && let Some(parts) = imported::parts(given)?
    {
        return imported::run(&args, &parts);
    }
    let plan = job::plan(&args, given.as_ref())?;
    if args.print_plan {
        output::text(&directory::plan_shown(&plan)?)?;
        tell_refusal(&args, &plan);
        return Ok(Exit::Ok);
    }
    let signals = Signals::install()?;
    any(&args, &plan, given.as_ref(), &signals).map(|done| done.exit)
}

/// Says beside a printed plan what the guard would refuse as things stand. No failure: printing is
/// what was asked for.
fn tell_refusal(args: &RunArgs, plan: &Plan) {
    if let Err(e) = check(args, plan) {
        output::note("as things stand, this run would be refused:");
        let _ = problem::show(&e);
    }
}

/// What opening the target would refuse as things stand; nothing is changed.
fn check(args: &RunArgs, plan: &Plan) -> Result<()> {
    let spec = OpenSpec {
        plan,
        run_id: "",
        destroy: args.destroy.as_deref(),
    };
    registry::driver(&plan.target.driver)?.check(&spec)
}

/// How a run ended.
pub struct Done {
    /// The exit code it asks for.
    pub exit: Exit,
    /// Its directory; none when nothing was measured.
    pub path: Option<PathBuf>,
    /// Its result; none when there is no report, and for several runs.
    pub summary: Option<Summary>,
}

/// One run to be done.
pub struct Order<'a> {
    /// What the command line said.
    pub args: &'a RunArgs,
    pub plan: &'a Plan,
    /// The job file it came from.
    pub job: Option<&'a Given>,
    /// Who may end it.
    pub signals: &'a Signals,
    /// One of several: the caller says how it went.
    pub quiet: bool,
}

/// Runs a plan: once, back to back, or as a search.
fn any(args: &RunArgs, plan: &Plan, job: Option<&Given>, signals: &Signals) -> Result<Done> {
    let order = Order {
        args,
        plan,
        job,
        signals,
        quiet: false,
    };
    side_files(plan)?;
    match &plan.search {
        Some(search) => search::run(&order, search),
        None if plan.run.repeat > 1 => repeat::run(&order),
        None => one(&order),
    }
}

/// Whether the files that the plan names can be used: a wrong name must not cost a layout.
fn side_files(plan: &Plan) -> Result<()> {
    for workload in &plan.workloads {
        Schedules::new(workload, plan.run.seed, 0)?;
    }
    Ok(())
}

fn one(order: &Order<'_>) -> Result<Done> {
    on(order, |made, live| {
        open(order.plan, order.args, made, live, order.signals)
    })
}

/// Runs one plan on the target that `open` gives, with the number of records it loaded.
///
/// # Errors
/// As [`main`].
pub fn on(
    order: &Order<'_>,
    open: impl FnOnce(&Made, &mut Live) -> Result<(Box<dyn Target>, u64)>,
) -> Result<Done> {
    let Order {
        args,
        plan,
        job,
        signals,
        quiet,
    } = *order;
    if let Some(named) = &plan.verify.run {
        // A wrong name must not cost a run.
        taillight_engine::verify::PriorRun::find(named)?.fits(plan)?;
    }
    side_files(plan)?;
    let sys = Sys::default();
    // Nothing is laid out or loaded for a run that cannot be traced as it asks.
    tracing::require_backend(plan, &sys)?;
    let environment = Environment::before(&sys, plan.target.path.as_deref().and_then(block::local));
    let made = directory::create(plan, job, args, environment.map())?;
    let mut live = Live::new(plan, quiet);
    let target = match open(&made, &mut live) {
        Ok(target) => target,
        Err(e) => return nothing(e, made, signals),
    };
    if !quiet {
        // Named only now: a run that could not begin leaves no directory.
        output::line(&format!("run directory: {}", made.dir.path().display()));
        output::line(&taillight_report::model::about::about(made.dir.manifest()));
    }
    let measured = match measure::run(plan, target, &made, signals, &mut live, &sys) {
        Ok(measured) => measured,
        Err(e) => return nothing(e, made, signals),
    };
    live.end();
    let path = made.dir.path().to_owned();
    let (exit, summary) = verdict::conclude(made, &environment, &sys, measured, order)?;
    Ok(Done {
        exit,
        path: Some(path),
        summary,
    })
}

/// Opens the target and checks the plan against its real shape.
fn open(
    plan: &Plan,
    args: &RunArgs,
    made: &Made,
    live: &mut Live,
    signals: &Signals,
) -> Result<(Box<dyn Target>, u64)> {
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
    let id = &made.run_id;
    let loaded = taillight_engine::preload::preload(plan, target.as_ref(), &can, id, &mut |p| {
        live.step(p);
        !stop.stopped()
    });
    live.end();
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(e) => {
            let _ = target.close();
            return Err(e);
        }
    };
    let shape = target.geometry();
    let fits = check_extents(plan, shape.size(), shape.align)
        .and_then(|()| check_ledger(plan, shape.size(), memory_budget::read(&Sys::default())));
    match fits {
        Ok(()) => Ok((target, loaded)),
        Err(e) => {
            // The reason matters more than how closing went.
            let _ = target.close();
            Err(e)
        }
    }
}

/// Nothing was measured: no run directory stays, and a signal is named as the cause if it was.
fn nothing(e: Error, made: Made, signals: &Signals) -> Result<Done> {
    made.discard();
    match signals.exit() {
        Some(exit) => {
            output::note("stopped before anything was measured");
            Ok(Done {
                exit,
                path: None,
                summary: None,
            })
        }
        None => Err(e),
    }
}
