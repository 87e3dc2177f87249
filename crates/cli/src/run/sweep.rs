//! `taillight run` of a job with a sweep: the plans of its points from one job. Also the start of every series whose
//! plans are known before it (sweeps, suites, `ab`): checks of all targets, live views, the runs. Points and their
//! order are the method's, in `taillight_suite`.

use std::path::PathBuf;
use std::rc::Rc;

use taillight_core::exit::Exit;
use taillight_core::job::{Job, SweepTable};
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::{Error, Result};
use taillight_rundir::series::SeriesFile;
use taillight_suite::host::{Assignment, JobSource};
use taillight_suite::method::Method;
use taillight_suite::runner::SeriesOutcome;
use taillight_suite::suites::{self, PreparedSuite};

use super::targets::TargetsRequest;
use super::{LiveViews, RunHost, Signals, directory, job, ranked, run_method};
use crate::args::{LiveArgs, RunArgs};
use crate::{output, report};

/// Runs the job once for each point. Errors: `Usage`, or what opening a target would refuse, before anything is
/// touched; later ones are shown and end the series.
pub fn run(
    args: &RunArgs,
    source: Option<JobSource>,
    base: Job,
    sweep: SweepTable,
    resumed: Option<SeriesFile>,
) -> Result<Exit> {
    let seed = resumed.as_ref().map(|r| r.seed);
    let of_points = args.clone();
    let planner = move |_: &JobSource, set: &[Assignment]| {
        let mut job = base.clone();
        set.iter().try_for_each(|assignment| assignment.apply(&mut job))?;
        job::plan_of(job, &of_points, seed)
    };
    let prepared = suites::prepare_sweep(sweep, source, Rc::new(planner))?;
    let output = prepared.plans.first().and_then(|plan| plan.run.output.clone());
    let place = SeriesPlace {
        name: prepared.method.head().job.clone(),
        output: output.map(PathBuf::from),
        destroy: &args.destroy,
        print_plan: args.print_plan,
        live: &args.live,
    };
    run_prepared(prepared, &place, resumed)
}

/// Where a prepared series goes and what it may do.
pub struct SeriesPlace<'a> {
    /// What the directory of the series is called after, where none is asked for.
    pub name: String,
    /// The directory asked for.
    pub output: Option<PathBuf>,
    /// The targets that may be overwritten, as the command line names them.
    pub destroy: &'a [String],
    /// Shows the plans and runs nothing.
    pub print_plan: bool,
    pub live: &'a LiveArgs,
}

/// Runs a prepared series, or shows its plans. Errors: as [`run`].
pub fn run_prepared(
    prepared: PreparedSuite,
    place: &SeriesPlace<'_>,
    resumed: Option<SeriesFile>,
) -> Result<Exit> {
    for note in &prepared.notes {
        output::note(note);
    }
    if resumed.is_none() && !place.print_plan {
        prepared.begins_in_empty_directories()?;
    }
    let PreparedSuite { mut method, work_directory, plans, .. } = prepared;
    run_planned(method.as_mut(), &plans, work_directory, place, resumed)
}

/// Runs a method whose plans are known, or shows them; `work_directory` is made where it is not there, and one that
/// was made is removed at the end if it is empty. Errors: as [`run`].
pub fn run_planned(
    method: &mut dyn Method,
    plans: &[Plan],
    work_directory: Option<PathBuf>,
    place: &SeriesPlace<'_>,
    resumed: Option<SeriesFile>,
) -> Result<Exit> {
    if place.print_plan {
        for plan in plans {
            output::text(&directory::plan_text(plan)?)?;
        }
        return Ok(Exit::Ok);
    }
    plans.iter().try_for_each(super::check_named_files)?;
    let dir = directory::series_directory(place.output.as_deref(), &place.name, resumed.is_some())?;
    let signals = Signals::install(place.live.tui)?;
    let views = LiveViews::start(place.live)?;
    let made = work_directory.map_or(Ok(None), make_directory)?;
    let mut host = RunHost::new(&signals, place.destroy, &views);
    let ended =
        check_targets(plans, place.destroy, resumed.is_some(), &signals).and_then(|stopped| {
            match stopped {
                Some(exit) => Ok(SeriesOutcome { exit, done: Vec::new() }),
                None => run_method(method, &mut host, &dir, resumed),
            }
        });
    views.finish(&signals);
    if let Some(made) = made {
        // Only when it is empty: what is left in it is somebody's.
        let _ = std::fs::remove_dir(&made);
    }
    let ended = ended?;
    let printed = output::mode().json.is_some() && !ended.done.is_empty();
    Ok(if printed { report::json_of_kept(&dir, ended.exit) } else { ended.exit })
}

/// Looks at each target of the plans, with its size and options, before the first run; at what an earlier plan keeps,
/// when its turn comes. Returns the exit code of a signal that came meanwhile. Errors: what opening would refuse.
fn check_targets(
    plans: &[Plan],
    destroy: &[String],
    goes_on: bool,
    signals: &Signals,
) -> Result<Option<Exit>> {
    let mut seen: Vec<(&TargetPlan, _)> = Vec::new();
    for plan in plans {
        let target = &plan.target;
        let asked = (target, plan.workloads.first().map(|w| (&w.keys, &w.block_size)));
        let keeps = |of: &TargetPlan| of.options.get("keep").and_then(toml::Value::as_bool);
        let mut before =
            seen.iter().filter(|(b, _)| (&b.driver, &b.path) == (&target.driver, &target.path));
        // A series that goes on has left it as its later points need it: each looks at it.
        let kept = keeps(target) == Some(true);
        if seen.contains(&asked) || (goes_on && kept) || before.any(|(b, _)| keeps(b) == Some(true))
        {
            continue;
        }
        seen.push(asked);
        let stop = signals.stop();
        let ranked = ranked::of_first(plan, destroy)?;
        let (plan, destroy) =
            ranked.as_ref().map_or((plan, destroy), |(plan, destroy)| (plan, destroy.as_slice()));
        let checked = TargetsRequest { plan, run_id: "", destroy, stop }.check();
        match (checked, signals.exit()) {
            (Err(e), None) => return Err(e),
            (_, None) if !destroy.is_empty() && ranked.is_none() => super::say_lost(plan),
            (_, None) => {}
            (_, exit) => {
                output::note("stopped before anything was measured");
                return Ok(exit);
            }
        }
    }
    Ok(None)
}

/// Makes the directory on the disk to be measured, unless it is there; the one that was made.
fn make_directory(dir: PathBuf) -> Result<Option<PathBuf>> {
    match std::fs::create_dir(&dir) {
        Ok(()) => Ok(Some(dir)),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
        Err(e) => Err(Error::unavailable("cannot make the directory of --path")
            .with("path", dir.display())
            .source(e)
            .hint("make it, or name one on the disk to be measured")),
    }
}
