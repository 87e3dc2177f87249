//! Checks of one `[[workload]]`: name, workers, depth, block sizes that fit each other, access, and ([`abilities`])
//! what its driver can do of it: operations, depth, batches, syncs. Skewed access, demand and stored data have modules
//! of their own, called from here.

use super::{Checked, ValidationError, data, demand, ensure, name, skew};
use crate::capability::{Capabilities, MAX_BATCH};
use crate::op::OpKind;
use crate::plan::{Access, AccessKind, BlockSize, RunPlan, Sync, TargetPlan, Values, WorkloadPlan};
use crate::units::ByteSize;

/// Checks what needs neither the driver's capabilities nor the size of the data set.
pub(super) fn workload(w: &WorkloadPlan, path: &str, run: &RunPlan) -> Checked {
    let field = |name: &str| format!("{path}.{name}");
    name(&w.name, &field("name"))?;
    ensure(w.workers > 0, &field("workers"), "there are no workers", "give at least 1")?;
    ensure(
        w.queue_depth > 0,
        &field("queue_depth"),
        "a depth of zero does nothing",
        "give at least 1",
    )?;
    by_op(w, &field("block_size"))?;
    trim_first(w, path)?;
    access(&w.access, &w.block_size, &field("access"))?;
    skew::skew(&w.access, &field("access"))?;
    let runs = w.access.run_length.is_some() || !w.access.sequential_percent.is_empty();
    ensure(
        w.keys.is_none() || !(runs || w.access.walks.is_some()),
        &field("access"),
        "runs and walks are of offsets, and this driver is addressed by key",
        "leave run_length, sequential_percent and walks out",
    )?;
    demand::demand(w, run, path)?;
    data::data(w, path)
}

/// Checks that block sizes are above zero and fit each other: ends of a range that are multiples of its step and in
/// order, no weight of zero, no sizes by operation within such. Runs before `align` is derived from them.
pub(in crate::job) fn block_size(block_size: &BlockSize, path: &str) -> Checked {
    ensure(block_size.min() > 0, path, "a block of zero bytes", "give a size like \"4KiB\"")?;
    match block_size {
        BlockSize::ByOp(sizes) => sizes.iter().try_for_each(|(op, of)| {
            let path = format!("{path}.{}", op.name());
            ensure(
                !matches!(of, BlockSize::ByOp(_)),
                &path,
                "sizes by operation within sizes by operation",
                "give a size, a list or a range",
            )?;
            self::block_size(of, &path)
        }),
        BlockSize::Fixed(_) => Ok(()),
        BlockSize::Split(parts) => ensure(
            parts.iter().all(|p| p.weight > 0),
            path,
            "a weight of zero",
            "give each size a weight above 0, or leave it out",
        ),
        BlockSize::Range(r) => {
            ensure(
                r.min <= r.max,
                path,
                format!("min {} is above max {}", r.min, r.max),
                "swap them",
            )?;
            let step = r.step.0;
            ensure(
                r.spread == crate::plan::SizeSpread::Uniform || r.min.0 > 0,
                path,
                "a log-uniform range that begins at zero",
                "give a min above zero",
            )?;
            ensure(
                step > 0 && r.min.0 % step == 0 && r.max.0 % step == 0,
                path,
                format!("{} to {} does not divide by the step {}", r.min, r.max, r.step),
                "make min and max multiples of step",
            )
        }
    }
}

/// `trim_first`, a trim of each block before it is written, needs a mix of trims and writes, one `block_size` for
/// both, and no trace.
fn trim_first(w: &WorkloadPlan, path: &str) -> Checked {
    let kinds: Vec<OpKind> = w.mix.iter().map(|part| part.op).collect();
    let both = kinds.len() == 2 && kinds.contains(&OpKind::Trim) && kinds.contains(&OpKind::Write);
    ensure(
        !w.trim_first || both,
        &format!("{path}.trim_first"),
        "it is of trims and writes",
        "write mix = { trim = 1, write = 1 }",
    )?;
    ensure(
        !w.trim_first || (w.trace.is_none() && !matches!(w.block_size, BlockSize::ByOp(_))),
        &format!("{path}.trim_first"),
        "a block is trimmed whole, and written whole",
        "give one block_size for both, and no trace",
    )
}

/// Sizes by operation are for blocks only, and every operation of the mix but fsync needs one.
fn by_op(w: &WorkloadPlan, path: &str) -> Checked {
    let BlockSize::ByOp(sizes) = &w.block_size else {
        return Ok(());
    };
    ensure(
        w.keys.is_none(),
        path,
        "sizes by operation are for blocks, and this driver is addressed by key",
        "give one size, a list or a range; or several workloads",
    )?;
    let without =
        w.mix.iter().find(|part| part.op != OpKind::Fsync && !sizes.contains_key(&part.op));
    let Some(part) = without else {
        return Ok(());
    };
    let name = part.op.name();
    Err(ValidationError::new(
        path.to_owned(),
        format!("{name} is in the mix and has no size"),
        format!("give one, like {name} = \"4KiB\""),
    ))
}

/// Checks that the offset, length and stride of the extent are multiples of `align`, that it is not empty, and the
/// pattern in it.
fn access(a: &Access, block_size: &BlockSize, path: &str) -> Checked {
    let field = |name: &str| format!("{path}.{name}");
    ensure(
        a.align.0 > 0,
        &field("align"),
        "it is zero",
        "give a size like \"4KiB\", or leave it out",
    )?;
    let divides = |v: ByteSize| v.0.is_multiple_of(a.align.0);
    for (name, value) in [("offset", Some(a.offset)), ("length", a.length), ("stride", a.stride)] {
        ensure(
            value.is_none_or(divides),
            &field(name),
            format!("{} is not a multiple of {}", value.unwrap_or_default(), a.align),
            "use a multiple of access.align (default: what divides every block size)",
        )?;
    }
    ensure(
        a.length != Some(ByteSize(0)),
        &field("length"),
        "the extent is empty",
        "give a length, or leave it out to go to the end",
    )?;
    pattern(a, block_size, &field)
}

/// Checks `stride`, which strided access has and sequential access in runs of one block size, and `cover`, which random
/// access has in one block size that is `align`.
fn pattern(a: &Access, block_size: &BlockSize, field: &dyn Fn(&str) -> String) -> Checked {
    let stride = field("stride");
    match (a.kind, a.stride) {
        (AccessKind::Strided, None) => ensure(
            false,
            &stride,
            "strided access needs a stride",
            "write access = { kind = \"strided\", stride = \"64KiB\" }",
        )?,
        (AccessKind::Strided, Some(s)) => ensure(
            s.0 >= block_size.max(),
            &stride,
            format!("{s} is shorter than a block, so blocks overlap"),
            format!("use at least {}", ByteSize(block_size.max())),
        )?,
        (AccessKind::Sequential, Some(s)) => ensure(
            matches!(block_size, BlockSize::Fixed(b) if a.run_length.is_some_and(|n| b.0.saturating_mul(n.into()) <= s.0)),
            &stride,
            format!("a sequence with a stride has runs of blocks of one size, which fit into {s}"),
            "give run_length and one block_size, or use kind = \"strided\"",
        )?,
        (_, Some(_)) => ensure(
            false,
            &stride,
            "only strided access has a stride, and sequential access with a run_length",
            "use kind = \"strided\", or leave the stride out",
        )?,
        _ => {}
    }
    if !a.cover {
        return Ok(());
    }
    let cover = field("cover");
    ensure(
        a.kind == AccessKind::Random,
        &cover,
        "only random access can cover; the others do it by themselves",
        "leave cover out, or use kind = \"random\"",
    )?;
    ensure(
        matches!(block_size, BlockSize::Fixed(size) if *size == a.align),
        &cover,
        "covering each block once needs one block size, equal to align",
        "use one block size and leave align out, or leave cover out",
    )
}

/// Refuses what the driver cannot do with the options of the target: operations, access, depth, batches, `drop_cache`,
/// syncs. A sync (also `end_fsync`) without a write is refused as well, and what no driver could do: a `drop_cache` of
/// zero, a batch of more keys than there are.
pub(super) fn abilities(
    w: &WorkloadPlan,
    path: &str,
    can: &Capabilities,
    target: &TargetPlan,
) -> Checked {
    let driver = &target.driver;
    if let Some(part) = w.mix.iter().find(|p| !can.ops.contains(&p.op)) {
        let known: Vec<_> = can.ops.iter().map(|op| op.name()).collect();
        let known = known.join(", ");
        let more = can.more_ops.iter().find(|(op, _)| *op == part.op);
        return Err(ValidationError::new(
            format!("{path}.mix"),
            format!("driver `{driver}` cannot {} with these options", part.op.name()),
            match more {
                Some((op, with)) => format!("it can {} with {with}; without: {known}", op.name()),
                None => format!("it can: {known}{}", for_blocks(part.op, path, can)),
            },
        ));
    }
    ensure(
        w.access.kind != AccessKind::Latest || can.keyed(),
        &format!("{path}.access"),
        format!("latest access follows new keys, and driver `{driver}` has none"),
        "use it on a target addressed by key, or another pattern here",
    )?;
    let depth = format!("{path}.queue_depth");
    if can.max_depth <= 1 {
        ensure(
            w.queue_depth == 1,
            &depth,
            format!("{}, but driver `{driver}` has no queue with these options", w.queue_depth),
            no_queue(target),
        )?;
    }
    ensure(
        w.queue_depth <= can.max_depth,
        &depth,
        format!("{} is deeper than driver `{driver}` goes ({})", w.queue_depth, can.max_depth),
        format!("use at most {}, or more workers", can.max_depth),
    )?;
    batch(w, path, can, driver)?;
    ensure(
        w.drop_cache.is_none_or(|every| can.drops_cache && every.0 > 0),
        &format!("{path}.drop_cache"),
        format!(
            "driver `{driver}` keeps nothing in the page cache with these options, or it is zero"
        ),
        "leave it out, or go through the page cache: driver `file` with direct = false, and a size above zero",
    )?;
    ensure(
        can.sync || w.sync == Sync::None || !w.mix.iter().any(|p| p.op.writes()),
        &format!("{path}.sync"),
        format!("driver `{driver}` cannot sync with these options"),
        match can.sync_with {
            Some(with) => format!("it can with {with}; or use sync = \"none\""),
            None => "use sync = \"none\"".to_owned(),
        },
    )?;
    ensure(
        !w.end_fsync || (can.ops.contains(&OpKind::Fsync) && w.mix.iter().any(|p| p.op.writes())),
        &format!("{path}.end_fsync"),
        format!(
            "driver `{driver}` has no fsync with these options, or there is nothing written to sync"
        ),
        "leave it out, or write to files: driver `file`",
    )?;
    ensure(
        w.sync == Sync::None || w.mix.iter().any(|p| p.op.writes()),
        &format!("{path}.sync"),
        "there is no write to make durable",
        "leave the sync out, or add writes to the mix",
    )
}

/// Hint for a store by key that was asked for blocks (`--rw`): the mix to write instead. Empty otherwise.
fn for_blocks(op: OpKind, path: &str, can: &Capabilities) -> String {
    let block = matches!(op, OpKind::Read | OpKind::Write | OpKind::Trim);
    if !can.keyed() || !block {
        return String::new();
    }
    let able = |op: &OpKind| {
        let other = *op == OpKind::Put && can.ops.contains(&OpKind::Update);
        can.ops.contains(op) && !other
    };
    let said = [
        (OpKind::Update, "overwrites records"),
        (OpKind::Insert, "adds new ones"),
        (OpKind::Put, "writes objects"),
    ];
    let ways: Vec<String> = said
        .iter()
        .filter(|(op, _)| able(op))
        .map(|(op, does)| format!("--set {path}.mix={} {does}", op.name()))
        .collect();
    format!(". --rw is for blocks: without it records are read; {}", ways.join(", "))
}

/// Checks `batch`, records that one operation covers: 1 always passes, more only where each operation of the mix comes
/// in batches with this driver, values are of one piece, and gets and updates have as many keys to draw.
fn batch(w: &WorkloadPlan, path: &str, can: &Capabilities, driver: &str) -> Checked {
    let path = format!("{path}.batch");
    ensure(w.batch > 0, &path, "an operation on no record", "give at least 1, or leave it out")?;
    if w.batch == 1 {
        return Ok(());
    }
    ensure(
        w.batch <= MAX_BATCH,
        &path,
        format!("an operation covers {MAX_BATCH} records at most"),
        "give a smaller batch",
    )?;
    let takes = &can.batches;
    if let Some(other) = w.mix.iter().find(|p| !takes.contains(&p.op)) {
        let names: Vec<&str> = takes.iter().map(|op| op.name()).collect();
        let hint = match names.as_slice() {
            [] => "leave batch out; `taillight drivers` lists who has batches".to_owned(),
            some => format!(
                "here {} come in batches: leave the others to another workload, or leave batch out",
                some.join(", ")
            ),
        };
        let what = format!("driver `{driver}` has no {} of several records", other.op.name());
        return Err(ValidationError::new(path, what, hint));
    }
    let one_piece = |v: &Values| v.fields == 1 && !v.integrity;
    ensure(
        w.value.as_ref().is_none_or(one_piece) && w.access.kind != AccessKind::Follow,
        &path,
        "values of fields, checked values and followed streams come one at a time",
        "leave batch out",
    )?;
    let count = w.keys.as_ref().map_or(0, |k| k.count);
    let picks = w.mix.iter().any(|p| matches!(p.op, OpKind::Get | OpKind::Update));
    ensure(
        !picks || count >= u64::from(w.batch),
        &path,
        format!("there are {count} keys, less than a batch"),
        "give more keys, or a smaller batch",
    )
}

/// What to write instead of a deeper queue where there is none: more workers; with an option `engine` in the target
/// also an engine that queues.
fn no_queue(target: &TargetPlan) -> String {
    let plain = "use queue_depth = 1 and more workers";
    match target.options.contains_key("engine") {
        true => format!("{plain}, or an engine that queues: --set target.options.engine=auto"),
        false => format!("{plain} (`taillight drivers {}`)", target.driver),
    }
}
