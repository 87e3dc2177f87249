//! After the load: final manifest, report, summary on the console, exit code.

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind};
use taillight_driver::file::UNREGISTERED;
use taillight_engine::{EngineOutcome, StopReason};
use taillight_machine::Sys;
use taillight_rundir::manifest::{Overhead, ScheduleInfo};
use taillight_rundir::summary::Summary;
use taillight_rundir::trace_info::TraceInfo;
use taillight_rundir::verify::VerifyReport;
use taillight_rundir::{RunStatus, sums};
use taillight_trace::Environment;

use super::RunRequest;
use super::directory::NewRun;
use super::measure::Measured;
use super::signals::Signals;
use crate::{outcome, output, problem, report};

/// Puts what tracing took of each operation into the overhead, ns.
fn note_cost(overhead: &mut Overhead, cost: &TraceInfo) {
    overhead.trace_ns_per_op = cost.program_ns_per_op;
    overhead.probe_ns_per_op = cost.probe_ns_per_op;
    overhead.collector_ns_per_op = cost.collector_ns_per_op;
    let beside = cost.spilled_beside_load == Some(true);
    overhead.trace_beside_load_bytes = beside.then_some(cost.spilled_bytes);
}

/// What a schedule left unsent; None where every workload is a closed loop.
fn schedule(plan: &Plan, outcome: &EngineOutcome) -> Option<ScheduleInfo> {
    let open = plan.workloads.iter().any(|w| !w.arrival.is_closed());
    open.then_some(ScheduleInfo {
        backlog_max: outcome.backlog_max,
        unsent: outcome.unsent,
        left_at_end: outcome.left_at_end,
    })
}

/// Finishes the run directory, shows the report, and says how a directory that cannot be written is finished later.
/// Returns the exit code, and the summary where the report could be made.
pub fn conclude(
    mut run: NewRun,
    environment: &Environment,
    sys: &Sys,
    measured: Measured,
    request: &RunRequest<'_>,
) -> (Exit, Option<Summary>) {
    let signals = request.signals;
    let Measured { outcome, trace, untraced, host, beside, counted } = measured;
    untraced.iter().chain(&outcome.error).for_each(|e| {
        problem::show(e);
    });
    if let Some(e) = &outcome.unsaved {
        return (unsaved(e, &run), None);
    }
    let mut manifest = run.dir.manifest().clone();
    let mut environment = environment.clone();
    let facts = &outcome.target_facts;
    if !facts.is_empty() {
        environment.add("driver", facts);
    }
    manifest.environment = environment.add_beside(sys, &beside).after(sys);
    manifest.status = status(&outcome);
    manifest.reason = reason(&outcome, signals);
    manifest.schedule = schedule(&manifest.plan, &outcome);
    manifest.phases = outcome.phases;
    manifest.capture = outcome.capture;
    manifest.losses = outcome.losses;
    manifest.losses.trace_events = trace.as_ref().map(|t| t.events_lost + t.ios_lost);
    manifest.overhead = outcome.overhead;
    manifest.overhead.buffers_unregistered = facts.iter().any(|(name, _)| name == UNREGISTERED);
    if let Some(cost) = &trace {
        note_cost(&mut manifest.overhead, cost);
    }
    manifest.trace = trace;
    manifest.host = host;
    manifest.clock.source = outcome.clock;
    (manifest.misses, manifest.end_to_end) = (outcome.misses, outcome.end_to_end);
    manifest.witness.clone_from(&outcome.witness);
    let saved = sums::file_sums(&run.dir).and_then(|files| {
        manifest.files = files;
        run.dir.write_manifest(&manifest)
    });
    if let Err(e) = saved {
        return (unsaved(&e, &run), None);
    }
    let wrong = outcome.verify.as_ref().is_some_and(VerifyReport::failed);
    let failed = wrong || outcome.errors.iter().any(|(_, n)| *n > 0);
    // The run is over and kept: a report that cannot be made must not hide how it ended.
    let (summary, problem) = match report::of_run(run.dir.path(), counted, request.pages) {
        Ok(report) => {
            if let Some(seat) = request.rank {
                seat.keep(&report);
            }
            if !request.quiet {
                output::result(&format!("\n{}", report.text.trim_end()));
            }
            (report.summaries.into_iter().next(), None)
        }
        // "Not possible here" and "nothing was touched" are for runs that measured nothing.
        Err(e) => {
            let exit = problem::show(&e);
            // Where there is no room for the report, its words are all the more wanted.
            if let Ok(report) = report::unwritten(run.dir.path())
                && !request.quiet
            {
                output::result(&format!("\n{}", report.text.trim_end()));
            }
            let nothing = [Exit::Unavailable, Exit::Usage].contains(&exit);
            (None, Some(if nothing { Exit::TargetFailed } else { exit }))
        }
    };
    // Where there is a report, the path of its page tells the directory.
    if !request.quiet && summary.is_none() {
        output::result(&format!("Run     {}", in_line(run.dir.path().display())));
    }
    let bug = outcome.error.as_ref().is_some_and(|e| e.kind() == ErrorKind::Internal);
    let exit =
        if bug { Exit::Internal } else { exit(outcome.reason, failed, summary.as_ref(), signals) };
    let exit = problem.filter(|_| exit == Exit::Ok).unwrap_or(exit);
    (exit, summary)
}

/// The load is over but its files could not be written. A capture without a file stays in memory and
/// the manifest as it was at the start, so that salvage finishes the directory once the cause is gone.
fn unsaved(e: &Error, run: &NewRun) -> Exit {
    problem::show(e);
    let path = in_line(run.dir.path().display());
    // With -q too: without the command, what was measured is as good as lost.
    output::problem(&format!(
        "what was measured is not lost: remove the cause, then run `taillight report {path}`"
    ));
    Exit::TargetFailed
}

fn status(outcome: &EngineOutcome) -> RunStatus {
    match outcome.reason {
        StopReason::Planned => RunStatus::Complete,
        _ if outcome.operations == 0 => RunStatus::Failed,
        _ => RunStatus::Partial,
    }
}

fn reason(outcome: &EngineOutcome, signals: &Signals) -> Option<String> {
    match outcome.reason {
        StopReason::Planned => None,
        StopReason::Stopped => Some(format!("ended by {}", signals.name())),
        StopReason::TargetFailed => outcome.error.as_ref().map(Error::to_string),
    }
}

/// The first exit code that applies (docs/exit-codes.md).
fn exit(reason: StopReason, failed: bool, summary: Option<&Summary>, signals: &Signals) -> Exit {
    if let Some(exit) = signals.exit() {
        return exit;
    }
    if reason == StopReason::TargetFailed {
        return Exit::TargetFailed;
    }
    match summary.map_or(Exit::Ok, outcome::exit_code) {
        Exit::Ok | Exit::GateFailed | Exit::GateUndecided if failed => Exit::IoErrors,
        exit => exit,
    }
}
