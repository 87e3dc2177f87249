//! `taillight run`: job -> plan -> target -> load -> report -> exit code. Other commands that measure call it, too.
//!
//! Order matters: nothing is touched before the plan is sound, nothing is measured before the
//! target is open, and what was measured is kept whatever happens afterwards.

mod confirmation;
pub mod directory;
mod host;
mod imported;
mod job;
mod live;
mod measure;
mod numbers;
mod ranked;
mod ranked_end;
mod ranked_facts;
mod ranked_open;
mod ranked_share;
mod served;
mod signals;
mod spill;
mod sweep;
pub mod sys;
mod targets;
mod verdict;

use std::os::unix::fs::FileTypeExt as _;
use std::time::Duration;

use taillight_core::capability::TargetKind;
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::progress::Progress;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, OpKind, Result, StopFlag};
use taillight_driver::identity::contents;
use taillight_driver::space::record_bytes;
use taillight_driver::{Target, bind};
use taillight_engine::preload;
use taillight_engine::schedule::Schedules;
use taillight_engine::trace;
use taillight_live::{LiveEnd, LiveFeed, PlaceInSeries, RunFacts};
use taillight_machine::{Sys, block};
use taillight_report::format::{bytes, count};
use taillight_report::table;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::series::{ConfirmedTarget, SeriesFile};
use taillight_rundir::{Summary, names};
use taillight_suite::host::{JobSource, RunOutcome};
use taillight_suite::method::Method;
use taillight_suite::repeat::RepeatMethod;
use taillight_suite::runner::check_targets;
use taillight_suite::search::SearchMethod;
use taillight_trace::{Environment, tracing};

use crate::args::RunArgs;
use crate::{output, problem, report};
use directory::{NewRun, series_directory};
use ranked::RankSeat;
use targets::TargetsRequest;

pub use host::{RunHost, run_method};
pub use job::plan_of_text;
pub use job::{ceiling_parts, command_line, driver_of, plan_of, read, resolve};
pub use live::Live;
pub use ranked::follow;
pub use ranked_open::KeptTarget;
pub use served::LiveViews;
pub use signals::Signals;
pub use sweep::{SeriesPlace, run_planned, run_prepared};

/// Runs the command: one job, a series that the job asks for, or the jobs of another benchmark's file. Errors: see the
/// exit codes of [`Exit`]; partial results are kept once something was measured.
pub fn main(args: RunArgs) -> Result<Exit> {
    start(&args, None)
}

/// Runs the command, or goes on with a series that it began (`taillight suite --resume`). Errors:
/// as [`main`].
pub fn start(args: &RunArgs, resumed: Option<SeriesFile>) -> Result<Exit> {
    begin(args, resumed).map_err(|e| job::or_a_file(args, e))
}

fn begin(args: &RunArgs, resumed: Option<SeriesFile>) -> Result<Exit> {
    let source = match args.command.as_slice() {
        [] => args.job.as_deref().map(job::read).transpose()?,
        words => Some(job::command_line(words)),
    };
    if let Some(source) = &source
        && let Some(jobs) = imported::jobs(source)?
    {
        return imported::run(args, source, &jobs, resumed);
    }
    let seed = resumed.as_ref().map(|r| r.seed);
    let mut job = job::job(args, source.as_ref())?;
    if let Some(swept) = job.take_sweep()? {
        return sweep::run(args, source, job, swept, resumed);
    }
    let plan = job::plan_of(job, args, seed)?;
    targets::check_named(&args.destroy, std::iter::once(&plan))?;
    if args.print_plan {
        output::text(&directory::plan_shown(&plan)?)?;
        show_refusal(args, &plan);
        return Ok(Exit::Ok);
    }
    let signals = Signals::install(args.live.tui)?;
    let views = LiveViews::start(&args.live)?;
    let request = RunRequest {
        plan: &plan,
        job: source.as_ref(),
        destroy: &args.destroy,
        confirmed: &[],
        signals: &signals,
        live: &views,
        place: None,
        quiet: false,
        rest: None,
        pages: true,
        rank: None,
    };
    let outcome = run_plan(&request, resumed);
    views.finish(&signals);
    let outcome = outcome?;
    Ok(match outcome.path.as_deref().filter(|_| output::mode().json.is_some()) {
        Some(dir) => report::json_of_kept(dir, outcome.exit),
        None => outcome.exit,
    })
}

/// Says beside a printed plan what the guard would refuse as things stand. No failure: printing is
/// what was asked for.
fn show_refusal(args: &RunArgs, plan: &Plan) {
    // A printed plan asks no server.
    if !is_remote(plan)
        && let Err(e) = check(args, plan)
    {
        output::note("as things stand, this run would be refused:");
        let _ = problem::show(&e);
    }
}

/// Whether the data is held by another process, behind a socket.
fn is_remote(plan: &Plan) -> bool {
    bind(&plan.target).is_ok_and(|driver| {
        let can = driver.capabilities();
        let apart = [TargetKind::Keyed, TargetKind::Object, TargetKind::Queue];
        apart.contains(&can.facts.kind) && can.guarded && !can.facts.in_process
    })
}

/// What opening the target would refuse as things stand; nothing is changed.
fn check(args: &RunArgs, plan: &Plan) -> Result<()> {
    let stop = &StopFlag::default();
    TargetsRequest { plan, run_id: "", destroy: &args.destroy, stop }.check()
}

/// One run to be done.
#[derive(Clone, Copy)]
struct RunRequest<'a> {
    pub plan: &'a Plan,
    /// The job file it came from.
    pub job: Option<&'a JobSource>,
    /// The targets that may be overwritten, as the command line names them.
    pub destroy: &'a [String],
    /// What the targets confirmed for a series were when its point began: looked at again directly before the
    /// target is opened.
    pub confirmed: &'a [ConfirmedTarget],
    /// Signals, which may end it.
    pub signals: &'a Signals,
    /// Views that show it while it goes on.
    pub live: &'a LiveViews,
    /// Where it stands in a series.
    pub place: Option<&'a PlaceInSeries>,
    /// Shows neither intervals nor how it went: its caller does.
    pub quiet: bool,
    /// How long the points of the series after it take, where that is known.
    pub rest: Option<Duration>,
    /// Whether its directory gets a report for people.
    pub pages: bool,
    /// This process as one of several ranks.
    pub rank: Option<&'a RankSeat>,
}

/// Runs a plan for its summary, without a page and lines; None when a signal ended it. Errors: as [`main`].
pub fn figures_of(plan: &Plan, signals: &Signals) -> Result<Option<Summary>> {
    let live = &LiveViews::default();
    let request = RunRequest {
        plan,
        job: None,
        destroy: &[],
        confirmed: &[],
        signals,
        live,
        place: None,
        quiet: true,
        rest: None,
        pages: false,
        rank: None,
    };
    Ok(run_single(&request)?.summary.filter(|_| signals.exit().is_none()))
}

/// Runs a plan: once, or as the series that it asks for.
fn run_plan(request: &RunRequest<'_>, resumed: Option<SeriesFile>) -> Result<RunOutcome> {
    let plan = request.plan;
    check_named_files(plan)?;
    if !plan.is_series() {
        return run_single(request);
    }
    let job = request.job.cloned();
    let text = directory::job_text(plan, request.job)?;
    let mut method: Box<dyn Method> = match plan.search {
        Some(_) => Box::new(SearchMethod::new(plan, job, text)?),
        None => Box::new(RepeatMethod::new(plan, job, text)),
    };
    let output = plan.run.output.as_deref().map(std::path::Path::new);
    let dir = series_directory(output, &plan.run.name, resumed.is_some())?;
    let mut host = RunHost::new(request.signals, request.destroy, request.live);
    // Ranks say it where they have looked at what is theirs.
    if !request.destroy.is_empty() && !crate::ranks::several() {
        say_lost(plan);
    }
    let ended = run_method(method.as_mut(), &mut host, &dir, resumed)?;
    Ok(RunOutcome {
        exit: ended.exit,
        path: (!ended.done.is_empty()).then_some(dir),
        summary: None,
    })
}

/// Checks that `capture.dir` and recorded times which the plan names can be used, and memory be locked: a wrong name
/// must not cost a layout. Errors: `Usage` or `Unavailable`.
fn check_named_files(plan: &Plan) -> Result<()> {
    spill::check(plan, &Sys::default())?;
    taillight_engine::run::may_lock(plan)?;
    for workload in &plan.workloads {
        Schedules::new(workload, plan.run.seed, 0)?;
    }
    Ok(())
}

fn run_single(request: &RunRequest<'_>) -> Result<RunOutcome> {
    if crate::ranks::several() {
        return ranked::run(request, None);
    }
    run_on_target(request, |run, live| open(request, run, live))
}

/// Runs one plan on the target that `open` gives, with the number of records it loaded. Errors: as
/// [`main`].
fn run_on_target(
    request: &RunRequest<'_>,
    open: impl FnOnce(&NewRun, &mut Live) -> Result<(Box<dyn Target>, u64)>,
) -> Result<RunOutcome> {
    let RunRequest { plan, job, destroy, signals, quiet, .. } = *request;
    if let Some(named) = &plan.verify.run {
        // A wrong name must not cost a run.
        taillight_engine::verify::PriorRun::find(named)?.fits(plan)?;
    }
    check_named_files(plan)?;
    let sys = Sys::default();
    // Nothing is laid out or loaded for a run that cannot be traced as it asks.
    tracing::require_backend(plan, &sys)?;
    let environment = Environment::before(&sys, plan.target.path.as_deref().and_then(block::local));
    let run = directory::create(plan, job, destroy, environment.map(), RunOrigin::Measured)?;
    let _named = signals.in_run(run.dir.path());
    let feed = feed(request, &run);
    let mut live = Live::new(plan, quiet, feed.clone(), request.live.screen).before(request.rest);
    let before = feed.as_ref().map(LiveFeed::cost);
    let target = match open(&run, &mut live) {
        Ok(target) => target,
        Err(e) => return discard(e, run, signals),
    };
    if !quiet {
        // Named only now: a run that could not begin leaves no directory.
        output::line(&format!("run directory: {}", in_line(run.dir.path().display())));
        let about = taillight_report::model::about::about(run.dir.manifest());
        output::line(&table::wrap(&about, table::width()).join("\n"));
    }
    signals.measuring();
    let measured = measure::run(request, target, &run, &mut live, &sys);
    live.end();
    let mut measured = match measured {
        Ok(measured) => measured,
        Err(e) => return discard(e, run, signals),
    };
    let cost = feed.as_ref().zip(before).map(|(feed, before)| feed.cost().since(before));
    measured.outcome.overhead.live = cost;
    if let Some((_, pauses)) =
        measured.outcome.target_facts.iter().find(|(name, _)| name == "jvm.pauses")
    {
        output::note(&format!("the JVM stopped all of its threads {pauses}"));
    }
    let path = run.dir.path().to_owned();
    let (exit, summary) = verdict::conclude(run, &environment, &sys, measured, request);
    if let Some(feed) = feed {
        let summary = summary.as_ref();
        feed.end(LiveEnd {
            status: summary.map_or("without a report".to_owned(), |s| {
                format!("{:?}", s.status).to_lowercase()
            }),
            report: summary.map(|_| path.join(names::REPORT)),
            verdict: summary.map(taillight_report::model::first::answer),
            word: summary.map(|s| taillight_report::model::word(&s.verdict)),
            slow: summary.and_then(|s| s.cause.clone()),
        });
    }
    Ok(RunOutcome { exit, path: Some(path), summary })
}

/// Tells the live view, if there is one, what runs now.
fn feed(request: &RunRequest<'_>, run: &NewRun) -> Option<LiveFeed> {
    let feed = request.live.feed()?;
    let workloads = request.plan.workloads.iter();
    if let Some(server) = &request.live.server {
        server.keep_off(workloads.flat_map(|w| w.cpus.iter().copied()));
    }
    feed.begin(RunFacts {
        run_id: run.run_id.clone(),
        about: taillight_report::model::about::about(run.dir.manifest()),
        host: Some(rustix::system::uname().nodename().to_string_lossy().into_owned()),
        plan: request.plan.clone(),
        series: request.place.cloned(),
        dir: run.dir.path().to_owned(),
    });
    Some(feed)
}

/// Opens the targets, checks the plan against their real geometry and loads what is missing.
fn open(request: &RunRequest<'_>, run: &NewRun, live: &mut Live) -> Result<(Box<dyn Target>, u64)> {
    let plan = request.plan;
    let stop = request.signals.stop();
    if !request.quiet {
        say_replay(plan);
    }
    let targets = TargetsRequest { plan, run_id: &run.run_id, destroy: request.destroy, stop };
    if !request.destroy.is_empty() && request.place.is_none() && request.rank.is_none() {
        TargetsRequest { run_id: "", ..targets }.check()?;
        say_lost(plan);
    }
    let names = request.confirmed.iter().map(|was| &was.name);
    check_targets(request.confirmed, &host::identified(names))?;
    let mut step = |p: Progress<'_>| {
        live.step(p);
        !stop.stopped()
    };
    let target = match request.rank {
        None => targets.open(&mut step)?,
        Some(seat) => seat.open(targets, &mut step)?,
    };
    target.notes().iter().for_each(|note| output::note(note));
    let can = bind(&plan.target)?.capabilities();
    let id = &run.run_id;
    if !request.quiet {
        say_load(plan, target.as_ref());
    }
    let whole = request.rank.map(|seat| seat.opened_as(plan)).transpose()?;
    let mut load = || {
        let plan = whole.as_ref().unwrap_or(plan);
        preload::preload(plan, target.as_ref(), &can, id, &mut |p| {
            live.step(p);
            !stop.stopped()
        })
    };
    let loaded = if request.rank.is_none_or(|seat| seat.loads(plan)) { load() } else { Ok(0) };
    live.end();
    let loaded = match request.rank {
        None => loaded,
        Some(seat) => seat.prepared(loaded),
    };
    match loaded {
        Ok(loaded) => Ok((target, loaded)),
        Err(e) => {
            let _ = target.close();
            Err(e)
        }
    }
}

/// Says before a confirmed destroy what will be lost.
fn say_lost(plan: &Plan) {
    let lost = plan.all_targets().filter(|(_, target)| target.destroy);
    let lost = lost.filter_map(|(_, target)| target.path.as_deref());
    lost.flat_map(contents::lost).for_each(|line| say_one_lost(&line));
}

fn say_one_lost(what: &str) {
    // With -q too: who is quick to confirm reads at least this.
    output::problem(&format!("will be lost: {}", in_line(what)));
}

/// Says what is going to be replayed, and on a device what that may not measure.
fn say_replay(plan: &Plan) {
    for (w, trace) in plan.workloads.iter().filter_map(|w| Some((w, w.trace.as_ref()?))) {
        output::note(&format!("replay of {}", in_line(trace::describe(trace))));
        let path = plan.target_of(w).path.as_deref().map(std::fs::metadata);
        let device = path.is_some_and(|m| m.is_ok_and(|m| m.file_type().is_block_device()));
        if device && w.mix.iter().any(|m| m.op == OpKind::Read) {
            output::note(
                "a device may answer reads of what was never written without reading: fill it first, or \
                 replay to a file, which is laid out",
            );
        }
    }
}

/// Says what is loaded first, if anything is.
fn say_load(plan: &Plan, target: &dyn Target) {
    let missing = preload::missing(plan, target);
    if let Some(w) = plan.workloads.first().filter(|_| missing > 0) {
        let size = bytes((missing as f64 * record_bytes(w)) as u64);
        output::note(&format!("loading {} records: {size} of keys and values", count(missing)));
    }
}

/// Nothing was measured: what the run made of its directory is removed, and a signal is named as the cause if it was.
fn discard(e: Error, run: NewRun, signals: &Signals) -> Result<RunOutcome> {
    run.discard();
    match signals.exit() {
        Some(exit) => {
            output::note("stopped before anything was measured");
            Ok(RunOutcome { exit, path: None, summary: None })
        }
        None => Err(e),
    }
}
