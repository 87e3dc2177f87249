//! What makes a plan impossible or meaningless, found before anything is touched.
//!
//! A check that fails says the field, what is wrong with it, and what to write instead. Here are the checks of the
//! run, its ends, ceilings, memory and capture; each other part of a plan has a module.

mod data;
mod demand;
mod gate;
mod search;
mod skew;
mod stream;
mod targets;
mod workload;

use crate::Error;
use crate::capability::{Capabilities, TargetKind};
use crate::error::ErrorKind;
use crate::percentile::Percentile;
use crate::plan::{CaptureMode, Plan, RunPlan, SteadyEnd, TraceMode, WorkloadPlan, least_capture};
use crate::probe::MAX_SLOTS;
use crate::units::ByteSize;

pub(super) use data::ledger;
pub(super) use targets::TargetCapabilities;
pub(super) use workload::block_size;

use super::MachineMemory;

/// Most workers of a run: the `worker` column and the thread count stay sane.
const MAX_WORKERS: u32 = 4096;
/// The buffers of a worker are in whole pages of this size (`buffers` of `taillight-driver`), bytes.
const HUGE_PAGE: u64 = 2 << 20;
/// Allowed sizes of the ring of trace events (`trace.buffer`), bytes; powers of two.
const TRACE_BUFFER: std::ops::RangeInclusive<u64> = 4096..=256 << 20;

/// A field that does not work, why, and what to do.
#[derive(Debug)]
pub(super) struct ValidationError {
    pub(super) path: String,
    kind: ErrorKind,
    what: String,
    fix: String,
}

impl ValidationError {
    pub(super) fn new(
        path: impl Into<String>,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> ValidationError {
        ValidationError {
            path: path.into(),
            kind: ErrorKind::Usage,
            what: what.into(),
            fix: fix.into(),
        }
    }

    /// Marks what is no mistake of the job, but more than this machine has: the error is `Unavailable`.
    pub(super) fn unavailable(mut self) -> ValidationError {
        self.kind = ErrorKind::Unavailable;
        self
    }

    /// Whether it was marked by `unavailable`.
    pub(super) fn is_unavailable(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    pub(super) fn into_error(self, at: Option<String>) -> Error {
        Error::new(self.kind, format!("{}: {}", self.path, self.what))
            .with_some("at", at)
            .hint(self.fix)
    }
}

type Checked = Result<(), ValidationError>;

/// Fails with a complaint unless `ok`.
fn ensure(ok: bool, path: &str, what: impl Into<String>, fix: impl Into<String>) -> Checked {
    if ok { Ok(()) } else { Err(ValidationError::new(path, what, fix)) }
}

/// Every check but those of `extent`, which hold extents against data set sizes. `budget_written`: whether the job
/// itself sets `capture.budget`.
pub(super) fn plan(
    plan: &Plan,
    can: &TargetCapabilities,
    machine: MachineMemory,
    budget_written: bool,
) -> Checked {
    targets::targets(plan, can)?;
    point(plan, can, machine, budget_written)?;
    gate::gate(plan)?;
    search::search(plan)?;
    // The hardest probe of a search must be as possible as any other run.
    let hardest = plan.search.as_ref().and_then(|s| {
        let (workload, demand) = (s.varied(plan)?, s.largest()?);
        Some(plan.probe(workload, demand, s.probe))
    });
    hardest.map_or(Ok(()), |hardest| {
        point(&hardest, can, machine, budget_written).map_err(|mut c| {
            c.what = format!("its largest probe cannot run: {}: {}", c.path, c.what);
            c.path = "search".to_owned();
            c
        })
    })
}

/// Checks the run, or one probe of a search, but not targets, gate and search.
fn point(
    plan: &Plan,
    cans: &TargetCapabilities,
    machine: MachineMemory,
    budget_written: bool,
) -> Checked {
    let can = &cans.own;
    run(&plan.run)?;
    for (name, target) in plan.all_targets() {
        ensure(
            target.size != Some(ByteSize(0)),
            &name.map_or("target.size".to_owned(), |name| format!("targets.{name}.size")),
            "the data set is empty",
            "give a size like \"1GiB\", or leave it out for the size of what exists",
        )?;
    }
    ensure(
        !can.keyed() || plan.target.size.is_none(),
        "target.size",
        format!("driver `{}` is addressed by key and takes no size", plan.target.driver),
        "give the number of records: --set workload.0.keys.count=1000000; and the size of a value \
         with --bs or workload.0.block_size",
    )?;
    for (i, w) in plan.workloads.iter().enumerate() {
        let path = format!("workload.{i}");
        workload::workload(w, &path, &plan.run)?;
        let of = w.target.as_deref();
        workload::abilities(w, &path, cans.of(of), plan.target_of(w))?;
        ensure(
            plan.workloads[..i].iter().all(|other| other.name != w.name),
            &format!("{path}.name"),
            format!("there are two workloads called `{}`", w.name),
            "give each its own name",
        )?;
    }
    ensure(
        plan.verify.is_off() || plan.workloads.iter().all(|w| w.batch == 1),
        "verify.mode",
        "operations of several records are not verified",
        "leave [verify] or batch out",
    )?;
    ensure(
        plan.verify.is_off() || plan.workloads.iter().all(|w| w.trace.is_none()),
        "verify.mode",
        "operations of a trace are not verified",
        "leave [verify] or the trace out",
    )?;
    before(plan, can)?;
    one_key_space(plan)?;
    stream::streams(plan)?;
    outstanding(plan, machine)?;
    qos(plan)?;
    data::verify(plan, can, machine)?;
    capture(plan, cans, machine, budget_written)
}

/// Refuses steps of `run.before` that the driver cannot do: the records are loaded before them, which may take long.
fn before(plan: &Plan, can: &Capabilities) -> Checked {
    let able = can.before();
    let Some(step) = plan.run.before.iter().find(|s| !able.contains(s)) else {
        return Ok(());
    };
    let able: Vec<_> = able.iter().map(|s| s.name()).collect();
    Err(ValidationError::new(
        "run.before",
        format!("driver `{}` cannot {}", plan.target.driver, step.name()),
        match able.is_empty() {
            true => "leave run.before out".to_owned(),
            false => format!("leave this step out of run.before; it can: {}", able.join(", ")),
        },
    ))
}

fn run(run: &RunPlan) -> Checked {
    name(&run.name, "run.name")?;
    ensure(
        run.seed <= i64::MAX as u64,
        "run.seed",
        "the seed is too large",
        format!("use a number up to {}", i64::MAX),
    )?;
    let positive = [
        ("run.duration", run.duration.map(|d| d.0)),
        ("run.operations", run.operations),
        ("run.bytes", run.bytes.map(|b| b.0)),
        ("run.lock_memory", run.lock_memory.map(|b| b.0)),
        ("run.interval", Some(run.interval.0)),
        ("run.drain_timeout", Some(run.drain_timeout.0)),
        ("run.idle_timeout", run.idle_timeout.map(|t| t.0)),
        ("run.repeat", Some(u64::from(run.repeat))),
    ];
    for (path, value) in positive {
        ensure(value != Some(0), path, "it is zero", "give a value above zero")?;
    }
    ensure(
        run.interval.0 >= 1_000_000,
        "run.interval",
        format!("a window of {} is too short to report", run.interval),
        "use at least 1ms; every I/O is kept anyway",
    )?;
    ensure(
        run.steady.is_none_or(|steady| {
            steady.limit > 0.0 && steady.limit.is_finite() && steady.window.0 / 2 >= run.interval.0
        }),
        "run.steady",
        "its limit is not above zero, or its window shorter than two intervals",
        "write steady = { figure = \"iops\", rule = \"deviation\", limit = 0.05, window = \"30s\" }",
    )?;
    let reachable = |steady: SteadyEnd| match run.duration {
        Some(time) => steady.ramp.0.saturating_add(steady.window.0) <= time.0,
        None => true,
    };
    ensure(
        run.steady.is_none_or(reachable),
        "run.steady",
        "its ramp and window are longer than the run, which would never be steady",
        "give the run a longer duration, or steady a shorter window",
    )
}

/// Whether a character may stand in names, which become file names and labels.
pub(super) fn name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn name(name: &str, path: &str) -> Checked {
    ensure(
        !name.is_empty()
            && name.len() <= 64
            && !name.starts_with('.')
            && name.chars().all(name_char),
        path,
        format!("`{name}` cannot be a name"),
        "use up to 64 letters, digits, dots, dashes and underscores; no dot in front",
    )
}

/// All workloads have the same keys and number of fields: those on one target see the same records.
fn one_key_space(plan: &Plan) -> Checked {
    let first = plan.workloads.first().map(|w| (&w.keys, w.value.as_ref().map(|v| v.fields)));
    for (i, w) in plan.workloads.iter().enumerate() {
        ensure(
            first == Some((&w.keys, w.value.as_ref().map(|v| v.fields))),
            &format!("workload.{i}.keys"),
            "workloads on one target need the same keys and number of fields",
            "write the same keys and value.fields in each workload",
        )?;
    }
    Ok(())
}

fn outstanding(plan: &Plan, machine: MachineMemory) -> Checked {
    let workers: u64 = plan.workloads.iter().map(|w| u64::from(w.workers)).sum();
    ensure(
        workers <= u64::from(MAX_WORKERS),
        "workload.0.workers",
        format!("{workers} workers in all"),
        format!("use at most {MAX_WORKERS}; a deeper queue loads a device better"),
    )?;
    ensure(
        plan.trace.mode == TraceMode::Off || plan.outstanding() <= u64::from(MAX_SLOTS),
        "trace.mode",
        format!("{} operations at a time are more than can be traced", plan.outstanding()),
        format!("keep workers x queue_depth at or below {MAX_SLOTS}, or use trace.mode = \"off\""),
    )?;
    if let Some(buffer) = plan.trace.buffer {
        ensure(
            buffer.0.is_power_of_two() && TRACE_BUFFER.contains(&buffer.0),
            "trace.buffer",
            format!("{} bytes cannot be a ring of events", buffer.0),
            "use a power of two from 4KiB to 256MiB, such as 16MiB",
        )?;
    }
    let buffers = plan.workloads.iter().fold(0u64, |sum, w| {
        let each = u64::from(w.workers) * u64::from(w.queue_depth);
        let each = each.saturating_mul(u64::from(w.batch));
        sum.saturating_add(each.saturating_mul(w.block_size.max()))
    });
    let locked = plan.run.lock_memory.map_or(0, |size| size.0);
    if locked > 0 && buffers.saturating_add(locked) > machine.free_memory.0 {
        return Err(ValidationError::new(
            "run.lock_memory",
            format!(
                "{} MiB are to be locked and the buffers need {} MiB, free are {} MiB",
                locked >> 20,
                buffers >> 20,
                machine.free_memory.0 >> 20
            ),
            "lock less, so that something is left for the rest of the machine",
        )
        .unavailable());
    }
    if buffers > machine.free_memory.0 {
        return Err(ValidationError::new(
            "workload.0.queue_depth",
            format!(
                "the buffers (workers x queue_depth x block size) need {} MiB, free are {} MiB",
                buffers >> 20,
                machine.free_memory.0 >> 20
            ),
            "use fewer workers, a smaller depth or smaller blocks",
        )
        .unavailable());
    }
    Ok(())
}

/// Most I/Os of a request.
const MAX_FANOUT: u32 = 10_000;

fn qos(plan: &Plan) -> Checked {
    let q = &plan.qos;
    ensure(
        (1..=9).contains(&q.nines),
        "qos.nines",
        format!("{} is not between 1 and 9", q.nines),
        "3 means 99.9 %, 5 means 99.999 %",
    )?;
    ensure(
        (1..=100).contains(&q.looks),
        "qos.looks",
        format!("{} is not between 1 and 100", q.looks),
        "2 means: two runs may ask the same question, and share its error",
    )?;
    ensure(
        !q.percentiles.is_empty(),
        "qos.percentiles",
        "the list is empty",
        "leave it out for the usual ones",
    )?;
    for (i, c) in q.ceilings.iter().enumerate() {
        let path = format!("qos.ceilings.{i}");
        ensure(
            c.ceiling.0 > 0,
            &format!("{path}.ceiling"),
            "it is zero",
            "give a time like \"10ms\"",
        )?;
        at_is_percent(&format!("{path}.at"), &c.at)?;
        ensure(
            c.fanout.is_none_or(|n| (1..=MAX_FANOUT).contains(&n)),
            &format!("{path}.fanout"),
            format!("{} is not between 1 and {MAX_FANOUT}", c.fanout.unwrap_or(0)),
            "10 means: a request is made of ten I/Os",
        )?;
        let measured = || plan.workloads.iter().filter(|w| w.measured).map(|w| w.name.as_str());
        ensure(
            c.workload.as_deref().is_none_or(|name| measured().any(|w| w == name)),
            &format!("{path}.workload"),
            format!("no measured workload is called `{}`", c.workload.as_deref().unwrap_or("")),
            format!("name one of: {}", measured().collect::<Vec<_>>().join(", ")),
        )?;
    }
    Ok(())
}

/// Refuses the percentile of a ceiling below 1 %: it is taken for a share, like 0.999 where 99.9 % is meant.
pub(super) fn at_is_percent(field: &str, at: &Percentile) -> Checked {
    let percent = (1e13 * at.share()).round() / 1e9;
    ensure(
        at.share() >= 0.01,
        field,
        format!("`{at}` lets nearly all I/Os be slower"),
        format!("write it in per cent: {percent} where a share of {at} is meant"),
    )
}

/// Memory that the buffers of the workers can take, bytes: whole huge pages for each worker; none with a key-value
/// store, or a driver that stores no data.
fn buffers(workloads: &[WorkloadPlan], cans: &TargetCapabilities) -> u64 {
    let of = |w: &WorkloadPlan| {
        let can = cans.of(w.target.as_deref());
        if !can.stores_data || can.facts.kind == TargetKind::Keyed {
            return 0;
        }
        let each = u64::from(w.queue_depth).saturating_mul(w.block_size.max());
        let pages = each.div_ceil(HUGE_PAGE).saturating_mul(HUGE_PAGE);
        pages.saturating_mul(u64::from(w.workers))
    };
    workloads.iter().fold(0, |sum, w| sum.saturating_add(of(w)))
}

/// The capture budget of a job that sets none: the machine's, or half of the free memory that the buffers leave where
/// that is less, in whole MiB.
pub(super) fn capture_budget(
    workloads: &[WorkloadPlan],
    can: &TargetCapabilities,
    machine: MachineMemory,
) -> ByteSize {
    let left = machine.free_memory.0.saturating_sub(buffers(workloads, can)) / 2;
    if machine.capture_budget.0 <= left {
        return machine.capture_budget;
    }
    ByteSize(left >> 20 << 20)
}

fn capture(
    plan: &Plan,
    can: &TargetCapabilities,
    machine: MachineMemory,
    budget_written: bool,
) -> Checked {
    let c = &plan.capture;
    if c.mode == CaptureMode::Off {
        return Ok(());
    }
    room_for_workers(plan, budget_written)?;
    // A budget that no job set was chosen with room for the buffers; harder points of a search keep it as it is.
    let buffers = if budget_written { buffers(&plan.workloads, can) } else { 0 };
    if c.budget.0.saturating_add(buffers) > machine.free_memory.0 {
        let beside = match buffers >> 20 {
            0 => String::new(),
            mib => format!(", and the workers' buffers can take {mib} MiB of it"),
        };
        return Err(ValidationError::new(
            "capture.budget",
            format!(
                "{} MiB, but free are {} MiB{beside}",
                c.budget.0 >> 20,
                machine.free_memory.0 >> 20
            ),
            "lower it, or leave it out for a quarter of the free memory",
        )
        .unavailable());
    }
    Ok(())
}

/// Whether a budget that the job sets holds what every worker begins with. A budget that follows from the machine is
/// taken as it is: where it holds nothing, the run keeps histograms and says so.
fn room_for_workers(plan: &Plan, budget_written: bool) -> Checked {
    let (budget, workers) = (plan.capture.budget, plan.workers());
    let needed = least_capture(workers.into()).max(1 << 20);
    if budget.0 >= needed || !budget_written {
        return Ok(());
    }
    let needed = ByteSize(needed.next_multiple_of(1 << 20));
    Err(ValidationError::new(
        "capture.budget",
        format!("{budget} is too small to keep the I/Os of {workers} workers"),
        format!("give it {needed}, use fewer workers, or set capture.mode = \"off\""),
    ))
}
