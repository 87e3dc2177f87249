//! Rules of the verdict on what went wrong in a run: it failed, ended early, measured nothing, I/Os of it failed or
//! were refused, or acknowledged writes are gone or were not looked for.

use taillight_core::Status;
use taillight_core::units::readable::foreign;
use taillight_rundir::RunStatus;
use taillight_rundir::origin::{FailedJob, Fidelity, RunOrigin};
use taillight_rundir::summary::{ErrorCount, Reason, Summary, VerdictStatus};
use taillight_rundir::trace_info::TraceInfo;
use taillight_rundir::verify::VerifyReport;

use super::basis::{reason, unsampled};
use crate::analyse::Analysis;
use crate::format;
use crate::text::origin::every_call_behind;

/// Code of the reason that acknowledged writes are gone, as the target's settings allow it.
pub(super) const NOT_KEPT: &str = "not_kept";

/// Begins the reason of a run that measured all it was to.
pub const MEASURED_TO_ITS_END: &str = "The run was measured to its end, but not completed";

pub(super) fn failed(analysis: &Analysis, _: &Summary) -> Option<(VerdictStatus, Reason)> {
    if analysis.status != RunStatus::Failed {
        return None;
    }
    let why = analysis.manifest.reason.as_deref().unwrap_or("no reason was recorded");
    let text = format!("The run failed: {}.", why.trim_end_matches('.'));
    Some((VerdictStatus::Failed, reason("failed", text)))
}

/// What the target acknowledged and does not have any more, with what its settings promise of that.
pub(super) fn not_kept(analysis: &Analysis, _: &Summary) -> Option<(VerdictStatus, Reason)> {
    let facts = analysis.manifest.environment.get("driver")?.as_object()?;
    let looked = facts.keys().filter_map(|name| name.strip_suffix(".missing"));
    let mut all = looked.filter_map(|of| {
        let fact = |what: &str| facts.get(&format!("{of}.{what}"))?.as_str();
        let number = |what: &str| fact(what)?.parse::<u64>().ok();
        Some((number("missing")?, number("acknowledged")?, fact("promise")?))
    });
    let (missing, acknowledged, promise) = all.find(|(missing, ..)| *missing > 0)?;
    let (missing, acknowledged) = (format::count(missing), format::count(acknowledged));
    let text = format!(
        "{missing} of {acknowledged} writes that the target acknowledged are not there after the run. {promise}."
    );
    Some((VerdictStatus::Warned, reason(NOT_KEPT, text)))
}

/// A target that promises less than to keep what it acknowledged may have been started anew, and no pass looked for the
/// acknowledged writes.
pub(super) fn not_looked_for(
    analysis: &Analysis,
    summary: &Summary,
) -> Option<(VerdictStatus, Reason)> {
    let facts = analysis.manifest.environment.get("driver")?.as_object()?;
    facts.get("target.connection_lost")?;
    let promise = facts.get("target.promise")?.as_str()?;
    let passed = |verify: &VerifyReport| verify.pass.as_ref().is_some_and(|pass| pass.complete);
    let wrote = summary.ops.keys().any(|op| op.writes());
    if !wrote || summary.verify.as_ref().is_some_and(passed) {
        return None;
    }
    // Transactions have no records to look for, and a pass that was asked for was not made.
    let hint = match summary.verify.is_some() || summary.ops.keys().any(|op| op.is_transaction()) {
        true => "",
        false => " `verify.mode = \"after\"` looks for every record.",
    };
    let text = format!(
        "A connection to the target was lost, and what it had acknowledged was not looked for: {promise}.{hint}"
    );
    Some((VerdictStatus::Warned, reason("not_looked_for", text)))
}

pub(super) fn partial(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let text = match analysis.status {
        RunStatus::Partial => {
            let why = analysis.manifest.reason.as_deref().unwrap_or("it was stopped or killed");
            let why = why.trim_end_matches('.');
            let how = match summary.losses.chunks {
                0 if to_its_end(analysis, summary) => MEASURED_TO_ITS_END,
                0 => "The run ended early",
                _ => "The run is not whole",
            };
            format!("{how}: {why}.{}", kept(analysis, summary))
        }
        RunStatus::Running => "The run is still going; this is what it has so far.".to_owned(),
        RunStatus::Complete | RunStatus::Failed => return None,
    };
    Some((VerdictStatus::Partial, reason("partial", text)))
}

/// Whether all that was planned was measured, so that what failed came after it: a check, or the
/// clean-up. Only a run that wrote its intervals knows: of a killed one the last I/Os may be missing.
fn to_its_end(analysis: &Analysis, summary: &Summary) -> bool {
    if analysis.intervals.is_empty() {
        return false;
    }
    let plan = &analysis.manifest.plan;
    let lasted = summary.totals.duration_ns;
    plan.planned_ns().is_some_and(|time| lasted >= time)
        || plan.planned_operations().is_some_and(|n| analysis.operations(|_| true) >= n)
}

/// What there is of a run that ended early: `All 12,345 I/Os of its 3.2 s (of 10 s planned) were kept.`
fn kept(analysis: &Analysis, summary: &Summary) -> String {
    let plan = &analysis.manifest.plan;
    let planned = match (plan.planned_ns(), plan.planned_operations()) {
        (Some(time), _) => format!(" (of {} planned)", format::duration_ns(time)),
        (None, Some(n)) => format!(" (of {} I/Os planned)", format::count(n)),
        (None, None) => String::new(),
    };
    if summary.totals.count == 0 {
        return String::new();
    }
    let count = format::count(summary.totals.count);
    if unsampled(&summary.totals) {
        return format!(
            " {count} I/Os are kept, from some point on only slow ones: how many are missing is unknown."
        );
    }
    let time = format::duration_ns(summary.totals.duration_ns);
    if summary.losses.ios > 0 {
        let lost = format::count(summary.losses.ios);
        return format!(
            " Of the {count} I/Os of its {time}{planned}, all are counted, but {lost} are not kept \
             one by one."
        );
    }
    format!(" All {count} I/Os of its {time}{planned} were kept.")
}

/// Of a watched program of which no operation has a latency in the figures.
fn unseen(analysis: &Analysis) -> String {
    let whole = analysis.manifest.trace.as_ref().is_none_or(TraceInfo::whole);
    match analysis.manifest.phases.iter().map(|phase| phase.ios).sum() {
        0 if !whole => {
            "No I/O was seen, and not all of it could be: whether there was any is not known."
                .to_owned()
        }
        0 => format!(
            "No I/O was seen: the program blocked in no call that reads, writes or syncs{}.",
            every_call_behind(&analysis.manifest.origin)
        ),
        seen => format!(
            "None of the operations that were seen ({}) was slow; not every one of a kind was seen, so that there is no \
             rate and no percentile{}.",
            format::count(seen),
            every_call_behind(&analysis.manifest.origin)
        ),
    }
}

pub(super) fn nothing(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    // Means of another tool count no operations.
    let means = summary.origin.imported().is_some_and(|it| it.fidelity == Fidelity::Averages);
    let some = summary.totals.count > summary.totals.errors;
    if some || means || analysis.status == RunStatus::Failed {
        return None;
    }
    // Only a watch that ended has told what it saw.
    let ended = analysis.status == RunStatus::Complete;
    if ended && summary.totals.errors == 0 && summary.origin.is_watched() {
        return Some((VerdictStatus::Warned, reason("nothing_measured", unseen(analysis))));
    }
    let text = match (summary.totals.errors, &summary.origin) {
        (0, RunOrigin::Watched { .. }) => {
            "Nothing that was seen is in the run directory.".to_owned()
        }
        (0, RunOrigin::Imported(_)) => "The result has no operation.".to_owned(),
        (n, RunOrigin::Watched { .. }) => format!(
            "All {} I/Os that were counted failed: no latency of a success is known.",
            format::count(n)
        ),
        (0, _) => "Nothing was measured: the run holds no I/O of the measure phase.".to_owned(),
        (n, _) => format!("Nothing was measured: all {} I/Os failed.", format::count(n)),
    };
    // What the I/Os of another program came to is no failure of the watch.
    let status = match ended && summary.origin.is_watched() {
        true => VerdictStatus::Warned,
        false => VerdictStatus::Failed,
    };
    Some((status, reason("nothing_measured", text)))
}

/// What fio gives as the error of a job that read something else than it had written.
const OTHER_DATA: i32 = 84;
/// Jobs that are named at most.
const MOST_JOBS: usize = 4;

/// Jobs of another tool that an error ended, whether or not the failed I/Os are counted.
pub(super) fn jobs_failed(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let source = summary.origin.imported().filter(|source| !source.failed.is_empty())?;
    let named = |it: &FailedJob| match it.errno {
        OTHER_DATA => format!("{}, {} (errno 84)", foreign(&it.job), Status::VERIFY),
        errno => format!("{}, {}", foreign(&it.job), Status(errno)),
    };
    let mut all: Vec<String> = source.failed.iter().take(MOST_JOBS).map(named).collect();
    let more = source.failed.len() - all.len();
    all.extend((more > 0).then(|| format!("and {} more", format::count(more as u64))));
    let jobs = match source.failed.len() {
        1 => "the job".to_owned(),
        n => format!("{} jobs", format::count(n as u64)),
    };
    let tool = &source.tool;
    let text = format!(
        "An error ended {jobs} of {tool} before all was done: {}. Figures are of what was done until then.",
        all.join("; ")
    );
    Some((VerdictStatus::Errors, reason("job_failed", text)))
}

pub(super) fn errors(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let n = summary.errors.count;
    if n == 0 {
        return None;
    }
    let asked = |k: &&ErrorCount| k.status != Status::REFUSED.0 && !k.op.is_part();
    let most = summary.errors.kinds.iter().find(asked);
    let most = most.map_or(String::new(), |k| match n {
        1 => format!(", a {}: {}", k.op.name(), k.text),
        n => format!(", {} {}s: {}", of_them(k.count, n), k.op.name(), k.text),
    });
    let text = format!(
        "{} of {} I/Os failed{most}. Latencies are those of successes only.",
        format::count(n),
        format::count(summary.totals.count)
    );
    Some((VerdictStatus::Errors, reason("io_errors", text)))
}

/// How many of `n` failures are of one kind.
fn of_them(count: u64, n: u64) -> String {
    match count {
        _ if count == n => "all of them".to_owned(),
        _ if count * 2 > n => "most of them".to_owned(),
        1 => "one of these".to_owned(),
        _ => format!("{} of them", format::count(count)),
    }
}

/// Writes that no store was asked for: failures that took no time, and show nothing of the store.
pub(super) fn refused(a: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let kinds = || summary.errors.kinds.iter().filter(|k| !k.op.is_part());
    let refused = |k: &&ErrorCount| k.status == Status::REFUSED.0;
    let n: u64 = kinds().filter(refused).map(|k| k.count).sum();
    if n == 0 {
        return None;
    }
    let failed = kinds().filter(|k| !refused(k) && k.op.writes());
    let first = failed.chain(kinds().filter(refused)).find_map(|k| k.first_ns);
    let when = first.map_or(String::new(), |at| {
        let since = at.saturating_sub(a.start_ns).max(0) as u64;
        format!(" at {}", format::duration_ns(since))
    });
    let text = format!(
        "After the first write error{when} {} writes were refused by Taillight without asking the \
         store, which takes none until it is opened again. They are in no latency.",
        format::count(n)
    );
    Some((VerdictStatus::Errors, reason("writes_refused", text)))
}
