//! The verdict of a run: one status, the answer in words, and every reason for it.
//!
//! Rules are functions in [`RULES`]. The worst status of those that apply is the verdict's, and at least `Warned` where
//! reading had troubles, a host is slower or all hosts stalled; reasons stand in the order of the rules, then what the
//! hosts and troubles say, with damage before all. A rule says what it found and what that means for the numbers.

use taillight_core::plan::{AccessKind, Plan, Sync, WorkloadPlan};
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::origin::{Fidelity, RunOrigin};
use taillight_rundir::summary::{
    Qos, QosStatus, Reason, RequestCheck, Summary, Totals, Verdict, VerdictStatus,
};
use taillight_rundir::{LatencySource, RunStatus};
use taillight_stats::littles_law_ratio;

use super::basis::{main, reason, whole_ops};
use super::changes::changed;
use super::failures::{
    errors, failed, jobs_failed, not_kept, not_looked_for, nothing, partial, refused,
};
use super::saturation::{achieved, is_replay};
use super::wrong_data::{WRONG_DATA, wrong_data};
use crate::analyse::Analysis;
use crate::analyse::damage::is_damage;
use crate::format;
use crate::model::first::answer_of;
use crate::text::origin;
use crate::{by_chance, undecided};

/// Little's law is checked from this mean latency on, the tool's own cost from this median: below, the clock itself is
/// felt. I/Os sent less late than this are sent in time.
const LITTLE_FROM_NS: f64 = 5_000.0;
/// And warned about from this distance from 1.
const LITTLE_OFF: f64 = 0.05;
/// The tool's own cost is warned about from this share of the median latency.
const OVERHEAD_SHARE: f64 = 0.05;

/// From these shares on, percent, a run is warned about: waiting for a CPU before it, or other programs on full CPUs
/// during it; and CPU taken by the hypervisor. The first is high because a run just before this one makes some of it.
const BUSY_PERCENT: f64 = 50.0;
const STOLEN_PERCENT: f64 = 1.0;
/// CPUs at least so busy, percent, are full.
const FULL_PERCENT: f64 = 90.0;

/// Code of a missed ceiling.
pub const CEILING_FAILED: &str = "ceiling_failed";
/// Code of what is said of another tool's result.
pub const IMPORTED: &str = "imported";
/// Code of what was found when it was read.
pub const FOUND: &str = "found_in_result";
/// Code of a ceiling that the run does not decide.
pub const CEILING_UNDECIDED: &str = "ceiling_undecided";

type Rule = fn(&Analysis, &Summary) -> Option<(VerdictStatus, Reason)>;

/// All rules, in the order reasons are listed.
const RULES: &[Rule] = &[
    failed,
    partial,
    nothing,
    wrong_data,
    not_kept,
    not_looked_for,
    jobs_failed,
    errors,
    refused,
    load_failed,
    load_behind,
    saturated,
    ceiling_failed,
    ceiling_undecided,
    changed,
    unwitnessed,
    lost,
    foreign,
    found,
    early,
    allocates,
    from_warmup,
    little,
    stood_still,
    busy_machine,
    own_cost,
    late,
    few,
    from_histogram,
];

/// Load below this share of what its schedule asked is told.
const LOAD_REACHED: f64 = 0.99;

/// Load that fails is not the load that was asked for.
fn load_failed(_: &Analysis, s: &Summary) -> Option<(VerdictStatus, Reason)> {
    let it = s.load.iter().find(|l| l.errors > 0)?;
    let text = format!(
        "{} of {} operations of the load `{}` failed.",
        format::count(it.errors),
        format::count(it.count),
        it.name
    );
    Some((VerdictStatus::Errors, reason("load_failed", text)))
}

/// Load that is late says nothing about what was measured, but it was less load than asked.
fn load_behind(a: &Analysis, s: &Summary) -> Option<(VerdictStatus, Reason)> {
    // A run that ends by a count may end before a slow schedule had its first turn.
    a.manifest.plan.planned_ns()?;
    let seconds = a.duration_ns as f64 / 1e9;
    let mut scheduled = s.load.iter().filter_map(|l| Some((l, l.asked_per_s?)));
    let (it, asked) =
        scheduled.find(|(l, asked)| asked * seconds >= 100.0 && l.per_s < asked * LOAD_REACHED)?;
    let text = format!(
        "The load `{}` made {} of {} operations/s asked.",
        it.name,
        format::rate(it.per_s),
        format::rate(asked)
    );
    Some((VerdictStatus::Warned, reason("load_behind", text)))
}

/// Stands in a summary until the verdict, which is made of its other fields.
pub fn placeholder() -> Verdict {
    Verdict { status: VerdictStatus::Good, text: String::new(), reasons: Vec::new() }
}

/// The verdict on a summary whose other fields are filled in.
pub fn verdict(analysis: &Analysis, summary: &Summary) -> Verdict {
    let mut status = VerdictStatus::Good;
    let mut reasons = Vec::new();
    for rule in RULES {
        if let Some((worse, reason)) = rule(analysis, summary) {
            if weight(worse) > weight(status) {
                status = worse;
            }
            reasons.push(reason);
        }
    }
    // A slower host or a stall of all hosts warns; lost ranks have made the run partial already.
    if let Some(hosts) = &summary.hosts {
        let real = hosts.hosts.iter().any(|h| h.against_others.is_some_and(|it| it.slower));
        if (real || hosts.stalls.iter().any(|s| s.shared)) && weight(status) == 0 {
            status = VerdictStatus::Warned;
        }
        reasons.extend(hosts.findings.iter().map(|text| reason("hosts", text.clone())));
    }
    for trouble in &analysis.troubles {
        if weight(status) < weight(VerdictStatus::Warned) {
            status = VerdictStatus::Warned;
        }
        reasons.push(reason(trouble.code, trouble.text.clone()));
    }
    // Damage stands before all else: it says how far the rest can be believed.
    reasons.sort_by_key(|r| !is_damage(&r.code));
    Verdict { status, text: answer_of(summary, status, &reasons), reasons }
}

/// Adds what went wrong after the verdict was made: as if it had been known then.
pub fn add_trouble(summary: &mut Summary, code: &str, text: String) {
    let mut verdict = std::mem::replace(&mut summary.verdict, placeholder());
    if weight(verdict.status) < weight(VerdictStatus::Warned) {
        verdict.status = VerdictStatus::Warned;
    }
    verdict.reasons.push(reason(code, text));
    verdict.reasons.sort_by_key(|r| !is_damage(&r.code));
    verdict.text = answer_of(summary, verdict.status, &verdict.reasons);
    summary.verdict = verdict;
}

/// How bad a status is.
fn weight(status: VerdictStatus) -> u8 {
    match status {
        VerdictStatus::Good => 0,
        VerdictStatus::Warned => 1,
        VerdictStatus::Saturated => 2,
        VerdictStatus::Errors => 3,
        VerdictStatus::Partial => 4,
        VerdictStatus::Failed => 5,
    }
}

/// Whether a reason is the answer itself, so that it stands before the figures.
pub fn leads(code: &str) -> bool {
    is_damage(code) || matches!(code, CEILING_FAILED | CEILING_UNDECIDED | WRONG_DATA)
}

/// Whether a reason stays with its run even where other runs have it, too: the answer itself, and what failed.
pub fn is_own(code: &str) -> bool {
    let failed =
        ["failed", "partial", "nothing_measured", "job_failed", "io_errors", "writes_refused"];
    leads(code) || failed.contains(&code) || matches!(code, "load_failed" | "saturated" | "lost")
}

fn saturated(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let it = &summary.saturation;
    let asked = it.asked_per_s.filter(|_| it.saturated)?;
    let what = match is_replay(analysis) {
        true => "The replay fell behind its recorded times",
        false => "The rate was not reached",
    };
    let text = format!(
        "{what}: {} operations/s asked, {}; {} were waiting at worst and {} \
         never sent. Response times then depend on how long the run was.",
        format::rate(asked),
        achieved(it),
        format::count(it.backlog_max),
        format::count(it.unsent)
    );
    Some((VerdictStatus::Saturated, reason("saturated", text)))
}

fn ceiling_failed(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    ceiling(summary, QosStatus::Fail, CEILING_FAILED, "Over the ceiling")
}

fn ceiling_undecided(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    ceiling(summary, QosStatus::Undecided, CEILING_UNDECIDED, "Not decided by this run")
}

fn ceiling(
    summary: &Summary,
    status: QosStatus,
    code: &str,
    what: &str,
) -> Option<(VerdictStatus, Reason)> {
    let mut checks = summary.qos.iter().filter(|q| q.among_all() == status);
    let check = checks.next()?;
    let of = check.workload.as_deref().or(check.op.map(OpKind::name));
    let op = of.map_or(String::new(), |of| format!("{of}: "));
    let needs = match status {
        QosStatus::Undecided if check.jointly.is_some() => {
            format!("; {}", by_chance(summary.qos.len()))
        }
        QosStatus::Undecided => format!("; {}", undecided(check, summary)),
        _ => String::new(),
    };
    let more = match checks.count() {
        0 => String::new(),
        n => format!("; the same for {n} more"),
    };
    let ceiling = format::duration_ns(check.ceiling_ns);
    let slow = match &check.requests {
        None => {
            format!("{} I/Os{} took longer than {ceiling}", format::count(check.above), time(check))
        }
        Some(RequestCheck { failed: None, .. }) => {
            format!(
                "{} I/Os took longer than {ceiling}, in unknown requests",
                format::count(check.above)
            )
        }
        Some(RequestCheck { fanout, count, failed: Some(failed), .. }) => format!(
            "{} of {} requests of {fanout} I/Os had one that took longer than {ceiling}",
            format::count(*failed),
            format::count(count.unwrap_or(0))
        ),
    };
    let unknown = summary.origin.is_watched() && check.share.and_then(|s| s.share).is_none();
    let text = match unknown {
        true => {
            let how = origin::every_call_behind(&summary.origin);
            format!("{what}: {op}not every latency of these is known{how}{more}.")
        }
        false => format!("{what}: {op}{slow}, with {} % to stay under it{needs}{more}.", check.at),
    };
    Some((VerdictStatus::Warned, reason(code, text)))
}

/// ` (0.035 % of them, 14.0 % of the workers' time)`: in a closed loop few I/Os may be much time.
fn time(check: &Qos) -> String {
    let shares = check.share.and_then(|s| s.share).zip(check.time_share);
    shares.filter(|_| check.above > 0).map_or(String::new(), |(ios, time)| {
        let [ios, time] = [ios, time].map(format::percent);
        format!(" ({ios} of them, {time} of the workers' time)")
    })
}

/// Another counter has another number than this run, and nothing explains the difference.
fn unwitnessed(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let told = summary.witness.iter().filter(|it| !it.explained).map(|it| it.text.as_str());
    let told = told.collect::<Vec<_>>().join("; ");
    let text = format!("Another counter does not agree with what this run counted: {told}.");
    (!told.is_empty()).then(|| (VerdictStatus::Warned, reason("witness", text)))
}

fn lost(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let l = &summary.losses;
    let mut parts = Vec::new();
    let mut add = |n: u64, what: &str| {
        if n > 0 {
            parts.push(format!("{} {what}", format::count(n)));
        }
    };
    add(l.ios, "I/Os missing from the capture");
    add(l.out_of_range, "latencies outside the histograms' range");
    add(l.intervals, "intervals not recorded");
    add(l.chunks, "capture files gone or unreadable");
    let timed = if parts.is_empty() { " Every I/O was timed." } else { "" };
    let untraced = l.trace_events.filter(|events| *events > 0).map(|events| {
        let events = format::count(events);
        format!("Tracing missed {events} events: what held some I/Os is unknown.{timed}")
    });
    let lost =
        (!parts.is_empty()).then(|| format!("Measurements are missing: {}.", parts.join(", ")));
    let text: Vec<String> = lost.into_iter().chain(untraced).collect();
    (!text.is_empty()).then(|| (VerdictStatus::Warned, reason("lost", text.join(" "))))
}

/// What Taillight did not measure is not told as if it had.
fn foreign(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let seen = analysis.manifest.phases.iter().any(|phase| phase.ios > 0);
    // Of a watched program that was seen to do no I/O, nothing says that it did any.
    if matches!(summary.origin, RunOrigin::Watched { .. }) && !seen && summary.totals.count == 0 {
        return None;
    }
    let of = summary.ops.values().map(|totals| totals.latencies.main().error);
    let text = origin::origin(&summary.origin, of.fold(0.0, f64::max))?;
    let code = summary.origin.imported().map_or("origin", |_| IMPORTED);
    Some((VerdictStatus::Good, reason(code, text)))
}

fn found(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let text = origin::found(summary.origin.imported()?)?;
    Some((VerdictStatus::Good, reason(FOUND, text)))
}

/// A workload whose rates are over less than the run, as planned or because it was done early: the totals' rate is not
/// one load's.
fn early(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    if !summary.origin.is_measured() {
        return None;
    }
    // That a run ended early, and all of its one workload with it, is said elsewhere.
    if summary.status == RunStatus::Partial && summary.workloads.len() < 2 {
        return None;
    }
    let whole = summary.totals.duration_ns;
    let mut all = summary.workloads.iter();
    let it = all.find(|w| w.totals.count > 0 && w.totals.duration_ns < whole)?;
    let (own, all) = (format::duration_ns(it.totals.duration_ns), format::duration_ns(whole));
    let mut plans = analysis.manifest.plan.workloads.iter().filter(|w| w.name == it.name);
    // It ran through its window; one that was done before is told.
    let window = |w: &WorkloadPlan| {
        let window = w.window_ns(whole);
        let length = window.end - window.start;
        length < whole && it.totals.duration_ns as f64 >= 0.9 * length as f64
    };
    let rates = "its own rates are over that time";
    if plans.any(window) {
        // The last operations of the run end a little after it.
        if it.totals.duration_ns as f64 > 0.98 * whole as f64 {
            return None;
        }
        let text = format!("Workload {} ran for {own} of {all}, as planned; {rates}.", it.name);
        return Some((VerdictStatus::Good, reason("own_window", text)));
    }
    let text = format!("Workload {} finished early ({own} of {all}); {rates}.", it.name);
    Some((VerdictStatus::Warned, reason("finished_early", text)))
}

/// Writes into a file that had no blocks yet measure the file system's allocation too.
fn allocates(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let driver = analysis.manifest.environment.get("driver")?;
    let allocates = driver.get("files.writes_allocate")?.as_str()? == "true";
    // Appending is what a stream is for: nobody takes it for overwriting.
    let grows = driver.get("files.grows").and_then(|f| f.as_str()) == Some("true");
    if grows || !allocates || !summary.ops.contains_key(&OpKind::Write) {
        return None;
    }
    // A log is written so: blocks are taken as it grows, and made durable write by write.
    let log = |w: &WorkloadPlan| w.access.kind == AccessKind::Sequential && w.sync != Sync::None;
    let writes = |w: &&WorkloadPlan| w.mix.iter().any(|m| m.op == OpKind::Write && m.weight > 0);
    if analysis.manifest.plan.workloads.iter().filter(writes).all(log) {
        let text = "The file had no blocks when the writes began: the first pass takes them, as a log \
                    that grows does.";
        return Some((VerdictStatus::Good, reason("writes_allocate", text)));
    }
    let text = "The file had no blocks when the writes began: they measure allocating it as well. \
                To measure overwriting, add --set target.options.layout=always.";
    Some((VerdictStatus::Warned, reason("writes_allocate", text)))
}

/// For how long an operation that began in the warm-up went on after it, ns, where no measured one took as long; and the
/// share of the time of all that were to be outstanding.
fn carried_over(analysis: &Analysis, summary: &Summary) -> Option<(u64, f64)> {
    let slowest = whole_ops(summary).filter_map(|(_, totals)| totals.latencies.main().max_ns).max();
    let carried = summary.losses.warmup_carried_ns.filter(|ns| *ns > slowest.unwrap_or(0))?;
    let whole = analysis.duration_ns as f64;
    let all = whole * analysis.manifest.plan.mean_outstanding(analysis.duration_ns).max(1.0);
    Some((carried, (carried as f64).min(whole) / all.max(1.0)))
}

/// From this share on such an operation is warned about.
const CARRIED_SHARE: f64 = 0.02;

fn from_warmup(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let (carried, share) = carried_over(analysis, summary)?;
    let text = format!(
        "An operation that began in the warm-up went on for {} after it, longer than any that was measured took; no \
         latency and no ceiling has it.",
        format::duration_ns(carried)
    );
    let warned = share >= CARRIED_SHARE;
    let status = if warned { VerdictStatus::Warned } else { VerdictStatus::Good };
    Some((status, reason("from_warmup", text)))
}

/// In a closed loop, rate x mean latency must be the number of I/Os outstanding.
fn little(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let plan = &analysis.manifest.plan;
    // A workload that pauses, joins later, waits for writers or syncs in the end keeps less than its depth outstanding.
    let full = |w: &WorkloadPlan| {
        let waits = w.access.kind == AccessKind::Follow;
        let counted = w.operations.is_some() || w.bytes.is_some();
        let ends = counted && plan.workloads.len() > 1;
        let paused = w.think.is_some() || w.flow.is_some() || w.ramp.is_some();
        let ends = ends || w.ends_run || w.ends_with.is_some();
        w.arrival.is_closed() && !paused && !waits && !w.end_fsync && !ends
    };
    // Of others' loads it is not known how many I/Os were to be outstanding.
    let closed = summary.origin.is_measured() && plan.workloads.iter().all(full);
    let mean = summary.totals.latencies.service.mean_ns?;
    if !closed || summary.totals.errors > 0 || mean < LITTLE_FROM_NS {
        return None;
    }
    let outstanding = plan.mean_outstanding(analysis.duration_ns);
    let ratio = littles_law_ratio(summary.totals.iops, mean, outstanding)?;
    if (ratio - 1.0).abs() < LITTLE_OFF {
        return None;
    }
    if ratio < 1.0 && early(analysis, summary).is_some() {
        // A workload that was done has nothing outstanding; that is said already.
        return None;
    }
    if ratio < 1.0 && plan.workloads.iter().all(|w| w.queue_depth == 1) {
        let text = format!(
            "For {} of the time the workers had no {}{}making keys and data, recording, or waiting for a CPU. That is \
             in no latency, and the rate is lower by it.",
            format::percent(1.0 - ratio),
            match carried_over(analysis, summary) {
                Some((_, share)) if share >= CARRIED_SHARE =>
                    "measured operation under way: one of the warm-up, ",
                _ => "operation under way: ",
            },
            done_before_others(plan)
        );
        return Some((VerdictStatus::Warned, reason("littles_law", text)));
    }
    let used = ratio * outstanding;
    let text = format!(
        "Little's law does not hold: IOPS x mean latency is {}, but {} I/Os were to be \
         outstanding. {}",
        format::factor(used),
        match outstanding.fract() == 0.0 {
            true => format::count(plan.outstanding()),
            false => format::factor(outstanding),
        },
        if ratio < 1.0 && !done_before_others(plan).is_empty() {
            "Some workers were done before others, or the tool or the CPU did not keep the queue \
             full: throughput is a lower bound."
        } else if ratio < 1.0 {
            "The tool or the CPU did not keep the queue full, so throughput is a lower bound."
        } else {
            "Counts and times are of different periods; treat the rate with care."
        }
    );
    Some((VerdictStatus::Warned, reason("littles_law", text)))
}

/// Workers that end by themselves do not all end at once.
fn done_before_others(plan: &Plan) -> &'static str {
    let run = &plan.run;
    let counted = run.operations.is_some() || run.bytes.is_some();
    let ends = counted || plan.workloads.iter().any(|w| w.passes.is_some());
    if ends && plan.workers() > 1 { "done before others, " } else { "" }
}

/// The run itself was stopped: latencies of that time are not the target's.
fn stood_still(analysis: &Analysis, _: &Summary) -> Option<(VerdictStatus, Reason)> {
    let ns = analysis.manifest.overhead.stood_still_ns?;
    let text = format!(
        "Nothing of the run itself ran for {} of it: it was stopped (by a signal or a \
         debugger), frozen, or without a CPU. Latencies of that time are not the target's.",
        format::duration_ns(ns)
    );
    Some((VerdictStatus::Warned, reason("stood_still", text)))
}

/// What else the machine did: waiting before the run, time the hypervisor gave to others.
fn busy_machine(analysis: &Analysis, _: &Summary) -> Option<(VerdictStatus, Reason)> {
    // On virtual time nothing waits for this machine.
    if analysis.manifest.clock.source == "virtual" {
        return None;
    }
    let load = analysis.manifest.environment.get("load")?;
    let value = |when: &str, what: &str| load.get(when)?.get(what)?.as_f64();
    let mut parts = Vec::new();
    if let Some(share) = value("before", "cpu_pressure").filter(|v| *v >= BUSY_PERCENT) {
        parts.push(format!("programs waited for a CPU {share:.0} % of the time before it"));
    }
    // Little is left for the run, and most of what is used is not its own.
    let full = value("during", "busy_percent").is_some_and(|v| v >= FULL_PERCENT);
    if let Some(share) = value("during", "others_percent").filter(|v| full && *v >= BUSY_PERCENT) {
        parts.push(format!(
            "other programs and the kernel's threads took {share:.0} % of the CPUs during it"
        ));
    }
    if let Some(share) = value("during", "steal_percent").filter(|v| *v >= STOLEN_PERCENT) {
        parts.push(format!("the hypervisor took {share:.1} % of the CPU during it"));
    }
    if parts.is_empty() {
        return None;
    }
    let text = format!(
        "The machine was not quiet for this run: {}. Tails may be theirs.",
        parts.join(", ")
    );
    Some((VerdictStatus::Warned, reason("busy_machine", text)))
}

/// The tool's cost against the median: few slow I/Os raise a mean, and the tool's part of them is small.
fn own_cost(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let own = summary.overhead.null_ns_per_op?;
    let usual = |(_, t): (&OpKind, &Totals)| {
        t.latencies.service.percentiles.iter().find(|p| p.p == "50").and_then(|p| p.ns)
    };
    let median = whole_ops(summary).filter_map(usual).min()? as f64;
    if median < LITTLE_FROM_NS || own < median * OVERHEAD_SHARE {
        return None;
    }
    let text = format!(
        "The tool itself takes {} per I/O, {} of the median latency.",
        format::duration(own),
        format::percent(own / median)
    );
    Some((VerdictStatus::Warned, reason("own_cost", text)))
}

/// With a schedule: the tool's own lateness must be small against the service time.
fn late(_: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    if summary.saturation.saturated {
        return None;
    }
    let (name, late, usual) = summary.workloads.iter().find_map(|w| {
        let wait = w.totals.latencies.get(LatencyKind::Wait)?;
        let late = wait.nines.iter().find(|n| n.k == 3).and_then(|n| n.ns)?;
        let usual = w.totals.latencies.service.percentiles.iter().find(|p| p.p == "50")?.ns?;
        let little = late as f64 <= usual as f64 * 0.1 || (late as f64) < LITTLE_FROM_NS;
        (!little).then_some((&w.name, late, usual))
    })?;
    let of = match summary.workloads.len() {
        1 => String::new(),
        _ => format!(" of {name}"),
    };
    let text = format!(
        "1 I/O in 1,000{of} was sent {} late or more, against a usual service time of {}: slots or CPU \
         were short. Response times include this wait.",
        format::duration_ns(late),
        format::duration_ns(usual)
    );
    Some((VerdictStatus::Warned, reason("late", text)))
}

fn few(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    // Syncs in the end only are as many as there are files, however long it runs.
    let loads = &analysis.manifest.plan.workloads;
    let asked = |op: OpKind| loads.iter().any(|w| w.mix.iter().any(|m| m.op == op));
    let in_end = |op: OpKind| loads.iter().any(|w| w.end_fsync) && !asked(op);
    let ops = whole_ops(summary).filter(|(op, _)| **op != OpKind::Fsync || !in_end(**op));
    let (op, totals) = ops.min_by_key(|(_, t)| main(t).count)?;
    let count = main(totals).count;
    if count == 0 || count >= 2_995 {
        return None;
    }
    let three = main(totals).nines.iter().find(|n| n.k == 3);
    let needs = three.map(|n| n.needs.max(n.interval_needs.unwrap_or(0)));
    let needs = needs.filter(|n| *n < u64::MAX).unwrap_or(2_995);
    let were = if count == 1 { "was" } else { "were" };
    let (count, needs) = (format::counted(count, op.name()), format::count(needs));
    let text = match &analysis.manifest.origin {
        // Without percentiles more of them would not tell a tail either.
        RunOrigin::Imported(source) if source.fidelity == Fidelity::Averages => return None,
        RunOrigin::Imported(_) => format!("Only {count} in the result: 99.9 % needs {needs}."),
        RunOrigin::Watched { .. } => {
            format!(
                "Only {count} {were} seen: 99.9 % needs {needs}. Watch longer for a tail (--for)."
            )
        }
        RunOrigin::Measured | RunOrigin::Merged { .. } => {
            format!("Only {count} {were} measured: 99.9 % needs {needs}. Run longer for a tail.")
        }
    };
    Some((VerdictStatus::Warned, reason("few_ios", text)))
}

/// Asked-for histograms are no fault, but the reader must know the error.
fn from_histogram(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let told = analysis.troubles.iter().any(|t| t.text.contains("histograms"));
    let service = &summary.totals.latencies.service;
    if service.source != LatencySource::Histogram || service.count == 0 || told {
        return None;
    }
    let text = match summary.origin.is_watched() {
        true => {
            "Percentiles come from counts by latency (error up to 0.1 %), not from single operations."
        }
        false => {
            "Percentiles come from histograms (error up to 0.1 %), because not every I/O was asked to be kept."
        }
    };
    Some((VerdictStatus::Good, reason("from_histogram", text)))
}
