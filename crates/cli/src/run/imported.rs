//! `taillight run job.fio`: a job file (or a command line) of another benchmark, imported and run job by job.
//!
//! All jobs become plans before the first one starts, and whatever can be known of their targets is
//! checked then: a refusal after an hour of load would come too late. Several jobs are a series.

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_report::render::fio_json::{DiskUse, fio_json};
use taillight_rundir::series::{PointRole, SeriesFile};
use taillight_suite::host::JobSource;
use taillight_suite::method::{Point, SeriesHead};
use taillight_suite::sequence::{IMPORT, Sequence};
use taillight_trace::tracing;

use super::signals::Signals;
use super::targets::{TargetsRequest, check_named};
use super::{LiveViews, RunHost, RunRequest, directory, job, run_method, run_plan};
use crate::args::{JsonForm, RunArgs};
use crate::{import, output, report};

/// One job of the file, as a job file of ours.
pub struct NamedJob {
    name: String,
    source: JobSource,
    /// Its files are laid out, and nothing is measured.
    layout_only: bool,
}

/// The jobs of a file in another format, whose notes are shown; `None` for our own. A fio file also sets how this
/// process writes its output. Errors: `Usage` when an option of the file has no equivalent.
pub fn jobs(source: &JobSource) -> Result<Option<Vec<NamedJob>>> {
    let Some(format) = taillight_import::detect(&source.name, &source.text) else {
        return Ok(None);
    };
    let jobs = (format.import)(&source.text, &source.name)?;
    if format.name == "fio" {
        let asked = taillight_import::fio::front_end(&source.text);
        asked.notes.iter().for_each(|note| output::note(note));
        output::speak_as_fio(asked.json, asked.output.map(Into::into))?;
    }
    taillight_import::fio::check_needs(jobs.iter().flat_map(|job| &job.needs))?;
    import::tell(&jobs, &source.name);
    let named = jobs.into_iter().map(|job| NamedJob {
        source: JobSource::written(
            format!("{}.toml, made from {}", job.name, source.name),
            job.toml,
        ),
        name: job.name,
        layout_only: job.layout_only,
    });
    Ok(Some(named.collect()))
}

/// Runs the jobs in order. The exit code is the worst one. Errors: `Usage`, or what would refuse one of the jobs,
/// before anything is touched; of several jobs later ones are shown and end the series.
pub fn run(
    args: &RunArgs,
    file: &JobSource,
    jobs: &[NamedJob],
    resumed: Option<SeriesFile>,
) -> Result<Exit> {
    let mut seed = resumed.as_ref().map(|r| r.seed);
    let mut plans: Vec<(Plan, &NamedJob)> = Vec::new();
    for named in jobs {
        let plan = job::plan(args, Some(&named.source), seed)?;
        // One seed for all jobs that name none.
        seed = seed.or(Some(plan.run.seed));
        plans.push((plan, named));
    }
    check_named(&args.destroy, plans.iter().map(|(plan, _)| plan))?;
    if args.print_plan {
        for (plan, _) in &plans {
            output::text(&directory::plan_text(plan)?)?;
            super::show_refusal(args, plan);
        }
        return Ok(Exit::Ok);
    }
    let made = make_directories(plans.iter().map(|(plan, _)| plan))?;
    for (number, (plan, named)) in plans.iter().enumerate() {
        let paths = |p: &Plan| p.all_targets().any(|(_, t)| t.path == plan.target.path);
        let same_target = |(before, _): &(Plan, _)| paths(before);
        let made_before = plans[..number].iter().any(same_target);
        check_beforehand(args, plan, made_before).map_err(|e| {
            unmake(&made);
            if plans.len() == 1 { e } else { e.with("job", &named.name) }
        })?;
    }
    made.iter().for_each(|dir| {
        output::note(&format!("directory made, as fio does: {}", in_line(dir.display())));
    });
    let signals = Signals::install(args.live.tui)?;
    // As in fio, files are laid out before any job begins.
    let (laid_out, plans): (Vec<_>, Vec<_>) =
        plans.into_iter().partition(|(_, named)| named.layout_only);
    laid_out.iter().try_for_each(|(plan, _)| lay_out(args, plan, &signals))?;
    show_kept(laid_out.iter().map(|(plan, _)| plan));
    if plans.is_empty() {
        output::line("nothing was measured, as create_only asks");
        if output::mode().json == Some(JsonForm::Fio) {
            output::json(&fio_json(std::iter::empty(), &DiskUse::default()))?;
        }
        return Ok(Exit::Ok);
    }
    let views = LiveViews::start(&args.live)?;
    let ended = run_jobs(args, file, &plans, (&signals, &views), resumed);
    views.finish(&signals);
    let (exit, measured) = ended?;
    if measured {
        show_kept(plans.iter().map(|(plan, _)| plan));
    }
    Ok(exit)
}

/// Makes the directories that files of the plans lie in and that are not there, as fio does; those that were made,
/// outer ones first. Errors: `Unavailable`.
fn make_directories<'a>(plans: impl Iterator<Item = &'a Plan>) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    let targets = plans.flat_map(|plan| plan.all_targets()).filter(|(_, t)| t.driver == "file");
    for path in targets.filter_map(|(_, target)| target.path.as_deref()) {
        let Some(dir) = Path::new(path).parent().filter(|_| !path.starts_with("/dev/")) else {
            continue;
        };
        let missing = dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.exists());
        for dir in missing.collect::<Vec<_>>().into_iter().rev() {
            std::fs::create_dir(dir).map_err(|e| {
                unmake(&made);
                Error::unavailable("cannot make a directory of the job file")
                    .with("path", dir.display())
                    .source(e)
            })?;
            made.push(dir.to_path_buf());
        }
    }
    Ok(made)
}

/// Takes back the directories that were made: those that are still empty.
fn unmake(made: &[PathBuf]) {
    made.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
}

/// Lays out the files of a job and no more (`create_only`). Errors: as for a run on them.
fn lay_out(args: &RunArgs, plan: &Plan, signals: &Signals) -> Result<()> {
    let stop = signals.stop();
    if !args.destroy.is_empty() {
        super::say_lost(plan);
    }
    let targets = TargetsRequest { plan, run_id: "create-only", destroy: &args.destroy, stop };
    targets.open(&mut |_| !stop.stopped())?.close()
}

/// One job, or several as a series; whether something was measured.
fn run_jobs(
    args: &RunArgs,
    file: &JobSource,
    plans: &[(Plan, &NamedJob)],
    (signals, live): (&Signals, &LiveViews),
    resumed: Option<SeriesFile>,
) -> Result<(Exit, bool)> {
    match plans {
        [(plan, named)] => {
            let request = RunRequest {
                plan,
                job: Some(&named.source),
                destroy: &args.destroy,
                confirmed: &[],
                signals,
                live,
                place: None,
                quiet: false,
                rest: None,
                pages: true,
                rank: None,
            };
            let outcome = run_plan(&request, resumed)?;
            let exit = match outcome.path.as_deref().filter(|_| output::mode().json.is_some()) {
                Some(dir) => report::json_of_kept(dir, outcome.exit),
                None => outcome.exit,
            };
            Ok((exit, outcome.path.is_some()))
        }
        _ => run_series(args, file, plans, (signals, live), resumed),
    }
}

/// Several jobs as one series; whether something was measured.
fn run_series(
    args: &RunArgs,
    file: &JobSource,
    plans: &[(Plan, &NamedJob)],
    (signals, live): (&Signals, &LiveViews),
    resumed: Option<SeriesFile>,
) -> Result<(Exit, bool)> {
    let stem = Path::new(&file.name).file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().into_owned();
    let output = args.output.as_deref().map(Path::new);
    let dir = directory::series_directory(output, &stem, resumed.is_some())?;
    let seed = plans.first().map_or(0, |(plan, _)| plan.run.seed);
    let head = SeriesHead { announced: true, ..SeriesHead::new(IMPORT, &file.name, seed) };
    let points = plans.iter().map(|(plan, named)| {
        let job = Some(named.source.clone());
        Point::new(named.name.clone(), PointRole::Step, plan.clone(), job)
    });
    let mut method = Sequence::independent(head, points.collect());
    let mut host = RunHost::new(signals, &args.destroy, live);
    let ended = run_method(&mut method, &mut host, &dir, resumed)?;
    let mut exit = ended.exit;
    if output::mode().json.is_some() && !ended.done.is_empty() {
        exit = report::json_of_kept(&dir, exit);
    }
    Ok((exit, !ended.done.is_empty()))
}

/// Names the files that stay, as the plan keeps them: fio leaves what it laid out.
fn show_kept<'a>(plans: impl Iterator<Item = &'a Plan>) {
    let mut told: Vec<&str> = Vec::new();
    for plan in plans {
        let kept = plan.all_targets().filter(|(_, t)| t.options.get("keep") == Some(&true.into()));
        for path in kept.filter_map(|(_, target)| target.path.as_deref()) {
            let files = std::fs::metadata(path).is_ok_and(|m| m.is_file() || m.is_dir());
            if files && !told.contains(&path) {
                told.push(path);
                output::line(&format!("kept: {}, as fio does", in_line(path)));
            }
        }
    }
}

/// What would stop this job, as things stand before the first one: the run it verifies against,
/// tracing, the guard. A target without a size that a job before it makes (`made_before`) is looked
/// at when its turn comes.
fn check_beforehand(args: &RunArgs, plan: &Plan, made_before: bool) -> Result<()> {
    if let Some(named) = &plan.verify.run {
        taillight_engine::verify::PriorRun::find(named)?.fits(plan)?;
    }
    tracing::require_backend(plan, &Sys::default())?;
    super::check_named_files(plan)?;
    match made_before && plan.target.size.is_none() {
        true => Ok(()),
        false => super::check(args, plan),
    }
}
