//! Fills in a workload that replays a trace: mix, arrival, block sizes and access come from the trace, and what the
//! job writes for them must be the same. Called by `resolve` before the defaults are filled in.

use std::collections::BTreeMap;

use super::check::ValidationError;
use super::forms::{AccessForm, ArrivalForm, ArrivalKind, ArrivalTable, BlockSizeForm, MixForm};
use super::written::{RunTable, WorkloadTable};
use crate::plan::{
    Access, BlockSize, BlockSizePart, MixPart, ReplayOps, ReplayPlan, RunPlan, SizeRange,
    SizeSpread, TargetPlan, TraceFit, TraceOp, TraceTiming,
};
use crate::units::{ByteSize, Span};

/// Block of direct I/O where the job gives no `access.align`.
const SECTOR: u64 = 512;
/// A data set whose size the trace gives is a multiple of this, or of `align` where that does not divide it, bytes.
const PAGE: u64 = 4096;
/// With more different sizes than this a plan has their range.
const MOST_SIZES: usize = 16;

/// Refuses settings that contradict a trace, before the trace is read.
pub(super) fn settings(
    w: &WorkloadTable,
    run: &RunTable,
    keyed: bool,
    path: &str,
) -> Result<(), ValidationError> {
    let Some(trace) = &w.trace else { return Ok(()) };
    let field = |name: &str| format!("{path}.{name}");
    let no = |name: &str, what: &str, fix: &str| Err(ValidationError::new(field(name), what, fix));
    let speed = trace.speed;
    match trace.timing {
        _ if keyed => {
            let fix = "use a driver of blocks, like file";
            return no("trace", "a trace has offsets, and this driver is addressed by key", fix);
        }
        _ if trace.file.is_empty() => {
            return no("trace.file", "no file named", "write trace = { file = \"web_0.csv\" }");
        }
        TraceTiming::Scaled if speed.is_none_or(|s| !(1e-6..=1e6).contains(&s)) => {
            let fix = "write speed = 2.0: twice as fast; 0.000001 to 1000000";
            return no("trace.speed", "scaled times need a speed above 0", fix);
        }
        TraceTiming::Recorded | TraceTiming::Asap if speed.is_some() => {
            let fix = "write timing = \"scaled\", or leave the speed out";
            return no("trace.speed", "only scaled times have a speed", fix);
        }
        _ => {}
    }
    if trace.length == Some(Span(0)) {
        return no("trace.length", "it is zero", "give a time above zero, or leave it out");
    }
    let beside = [
        ("ramp", w.ramp.is_some()),
        ("passes", w.passes.is_some()),
        ("batch", w.batch.is_some_and(|n| n != 1)),
        ("end_to_end", w.end_to_end == Some(true)),
    ];
    if let Some((name, _)) = beside.into_iter().find(|(_, there)| *there) {
        return no(
            name,
            "operations of a trace are shared by all workers from its start on",
            "leave it out",
        );
    }
    match run.warmup {
        Some(Span(1..)) => Err(ValidationError::new(
            "run.warmup",
            "a trace begins with its first operation",
            format!("leave it out, or give {path}.start_delay"),
        )),
        _ => Ok(()),
    }
}

/// Makes the operations of a trace those of its workload, and its extent the size of a target that has none; `alone`: it
/// is the only workload of the run.
pub(super) fn fill_in(
    w: &mut WorkloadTable,
    mut ops: ReplayOps,
    target: &mut TargetPlan,
    (device, alone): (Option<u64>, bool),
    run: &RunTable,
    path: &str,
    target_path: &str,
) -> Result<(), ValidationError> {
    let Some(mut trace) = w.trace.take() else { return Ok(()) };
    let bad = |what: String, fix: &str| ValidationError::new(format!("{path}.trace"), what, fix);
    if ops.untimed && trace.timing != TraceTiming::Asap {
        let fix = "write timing = \"asap\": as fast as possible, no response to arrivals";
        let timing = format!("{path}.trace.timing");
        return Err(ValidationError::new(timing, "the trace has no times", fix));
    }
    let files = target.options.get("files").and_then(toml::Value::as_integer).unwrap_or(1);
    if files != 1 {
        let fix = "leave files out: a trace is of one address space";
        return Err(ValidationError::new(
            format!("{target_path}.options.files"),
            "a trace goes to one file",
            fix,
        ));
    }
    let direct = target.options.get("direct").and_then(toml::Value::as_bool).unwrap_or(false);
    let given = w.access.as_ref().map(|a| a.0.align.0).filter(|align| *align > 0);
    let align = given.unwrap_or(if direct { SECTOR } else { 1 });
    ops.round_out(align).map_err(|e| bad(e, "give the trace as it was recorded"))?;
    if trace.timing == TraceTiming::Scaled {
        ops.at_speed(trace.speed.unwrap_or(1.0));
    }
    fit(&mut ops, &trace, target, device, align, path, target_path)?;
    if run.operations.is_none() && run.bytes.is_none() {
        let all = ops.ops.len() as u64;
        w.operations = Some(w.operations.map_or(all, |n| n.min(all)));
    }
    own(w, &trace, &ops, align).map_err(|name| {
        ValidationError::new(
            format!("{path}.{name}"),
            "the trace says it, and says something else",
            format!("leave {name} out; trace = {{ ... }} has the times, sizes and offsets"),
        )
    })?;
    let warmup = w.warmup.unwrap_or_default().0;
    let delay = Span(w.start_delay.unwrap_or_default().0.saturating_sub(warmup));
    let part = replayed(w, run, alone, trace.timing, &ops, delay);
    ops.recorded(part);
    trace.recorded = ops.latency.clone();
    let interval = run.interval.unwrap_or(RunPlan::default().interval);
    trace.arrivals =
        (trace.timing != TraceTiming::Asap).then(|| ops.arrivals(interval, delay, part));
    trace.ops = ops;
    w.trace = Some(trace);
    Ok(())
}

/// How many operations of the trace the job does before one of its ends; `usize::MAX` where none is known to come
/// first. Recorded latencies and arrivals are reported of these operations only.
fn replayed(
    w: &WorkloadTable,
    run: &RunTable,
    alone: bool,
    timing: TraceTiming,
    ops: &ReplayOps,
    delay: Span,
) -> usize {
    let counts = [w.operations, run.operations.filter(|_| alone)].into_iter().flatten();
    let counted = counts.min().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let sizes = [w.bytes, run.bytes.filter(|_| alone)].into_iter().flatten();
    let within = sizes.map(|bytes| bytes.0).min().map(|bytes| {
        let mut asked = 0u64;
        let begins = |op: &&TraceOp| {
            let begins = asked < bytes;
            asked = asked.saturating_add(op.size.into());
            begins
        };
        ops.ops.iter().take_while(begins).count()
    });
    // As fast as possible, how far it comes is known in the end.
    let open = timing != TraceTiming::Asap;
    let own = w.duration.map(|length| length.0);
    let whole = run.duration.map(|length| length.0.saturating_sub(delay.0));
    let ends = [own, whole].into_iter().flatten().min().filter(|_| open);
    let due = ends.map(|end| ops.times.partition_point(|time| time.unsigned_abs() < end));
    [counted, within, due].into_iter().flatten().min().unwrap_or(usize::MAX)
}

/// Makes the operations fit the size that the job gives, else the `device` of so many bytes; with neither, `refuse` and
/// `compact` need no size. A target without a size gets that of the trace, or of the device where that moved
/// operations. Errors: the field, why the operations do not fit, and what to do.
fn fit(
    ops: &mut ReplayOps,
    trace: &ReplayPlan,
    target: &mut TargetPlan,
    device: Option<u64>,
    align: u64,
    path: &str,
    target_path: &str,
) -> Result<(), ValidationError> {
    let larger = |what: String| {
        let room = match target.size {
            Some(_) => "give a larger target.size",
            None => "choose a larger device",
        };
        let fix = format!("{room}{}", trace.fit.others());
        ValidationError::new(format!("{path}.trace"), what, fix)
    };
    let room = target.size.map(|size| size.0).or(device);
    if target.size.is_none() && trace.fit == TraceFit::Compact {
        ops.compact();
    }
    match room {
        Some(size) => ops.fit(trace.fit, size, align).map_err(larger)?,
        None if matches!(trace.fit, TraceFit::Refuse | TraceFit::Compact) => {}
        None => {
            let fix =
                "give the size that the trace is to fit into: size = \"1GiB\", or --size 1GiB";
            let size = format!("{target_path}.size");
            return Err(ValidationError::new(size, "the job gives no size", fix));
        }
    }
    if target.size.is_none() {
        let unit = if PAGE.is_multiple_of(align) { PAGE } else { align };
        let end = ops.end().max(1).checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        // What was moved by the size of the device is moved by the same when the plan is read again.
        let whole = device.filter(|_| ops.refitted > 0 && trace.fit != TraceFit::Compact);
        let size = whole.map(|size| size / align * align).unwrap_or(end);
        target.size = Some(ByteSize(size.min(device.unwrap_or(u64::MAX))));
    }
    Ok(())
}

/// Fills in mix, arrival, block sizes and access from the trace. Errors: the name of a field that says something else.
fn own(
    w: &mut WorkloadTable,
    trace: &ReplayPlan,
    ops: &ReplayOps,
    align: u64,
) -> Result<(), &'static str> {
    let mut counts = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for op in ops.ops.iter() {
        *counts.entry(op.kind).or_insert(0u32) += 1;
        if op.size > 0 {
            *sizes.entry(op.size).or_insert(0u32) += 1;
        }
    }
    let mut mix: Vec<MixPart> =
        counts.into_iter().map(|(op, weight)| MixPart { op, weight }).collect();
    if let Some(MixForm(given)) = &mut w.mix {
        given.retain(|part| part.weight > 0);
        given.sort_by_key(|part| part.op);
        mix.sort_by_key(|part| part.op);
    }
    let arrival = match trace.timing {
        TraceTiming::Asap => ArrivalForm::from(ArrivalKind::Burst),
        _ => ArrivalForm(ArrivalTable {
            file: Some(trace.file.clone()),
            ..ArrivalForm::from(ArrivalKind::Replay).0
        }),
    };
    put(&mut w.mix, MixForm(mix), "mix")?;
    put(&mut w.arrival, arrival, "arrival")?;
    put(&mut w.block_size, BlockSizeForm::Sizes(block_size(&sizes, align)), "block_size")?;
    if let Some(AccessForm(access)) = &mut w.access {
        access.align = ByteSize(align);
    }
    put(&mut w.access, AccessForm(Access::random(ByteSize(align))), "access")?;
    Ok(())
}

/// Sets `written` to `own`. Errors: `name` where it holds another value.
fn put<T: PartialEq>(
    written: &mut Option<T>,
    own: T,
    name: &'static str,
) -> Result<(), &'static str> {
    match written {
        Some(other) if *other != own => Err(name),
        _ => {
            *written = Some(own);
            Ok(())
        }
    }
}

/// The sizes with their counts, or their range above `MOST_SIZES`; of a trace without sizes, a sector rounded up to
/// `align`.
fn block_size(sizes: &BTreeMap<u32, u32>, align: u64) -> BlockSize {
    let size = |size: &u32| ByteSize(u64::from(*size));
    match (sizes.keys().next(), sizes.keys().next_back()) {
        (Some(least), Some(most)) if sizes.len() > MOST_SIZES => BlockSize::Range(SizeRange {
            min: size(least),
            max: size(most),
            step: ByteSize(align),
            spread: SizeSpread::Uniform,
        }),
        (Some(one), _) if sizes.len() == 1 => BlockSize::Fixed(size(one)),
        (Some(_), _) => BlockSize::Split(
            sizes
                .iter()
                .map(|(s, weight)| BlockSizePart { size: size(s), weight: *weight })
                .collect(),
        ),
        (None, _) => BlockSize::Fixed(ByteSize(align.max(SECTOR).next_multiple_of(align))),
    }
}
