//! Checks that need the size of the data set: known from the plan, or once the target is open.

use num_integer::gcd;

use super::MachineMemory;
use super::check::{ValidationError, ledger};
use crate::Result;
use crate::plan::{Access, AccessKind, Plan, WorkloadPlan};
use crate::units::ByteSize;

/// Smallest block of a device, bytes.
const SECTOR: u64 = 512;

/// Checks the workloads of a target (see [`Plan::all_targets`]) against its opened data set of `size` bytes, whose
/// offsets and sizes must be multiples of `align` (the direct I/O alignment of the target). Workloads with keys pass.
/// Errors: `Usage`, naming the field.
pub fn check_extents(plan: &Plan, target: Option<&str>, size: u64, align: u64) -> Result<()> {
    for (i, w) in plan.workloads.iter().enumerate() {
        if w.keys.is_some() || w.target.as_deref() != target {
            continue;
        }
        aligned(w, i, align.max(1))
            .and_then(|()| fits(w, i, size))
            .map_err(|c| c.into_error(None))?;
    }
    Ok(())
}

/// Checks that the record of writes of a verifying plan fits into memory, against an opened data
/// set of `size` bytes. Errors: `Unavailable`, with the memory it needs and the memory there is.
pub fn check_ledger(plan: &Plan, size: u64, machine: MachineMemory) -> Result<()> {
    ledger(plan, Some(ByteSize(size)), machine).map_err(|c| c.into_error(None))
}

/// Checks workloads against the target sizes given in the plan; a size must also be a multiple of `access.align` where
/// the workload has no `access.length`. Workloads with keys pass, and those of a target without a size.
pub(super) fn written_sizes(plan: &Plan) -> Result<(), ValidationError> {
    for (i, w) in plan.workloads.iter().enumerate() {
        let Some(size) = plan.target_of(w).size.filter(|_| w.keys.is_none()) else {
            continue;
        };
        fits(w, i, size.0)?;
        let align = w.access.align;
        if w.access.length.is_none() && !size.0.is_multiple_of(align.0) {
            if !align.0.is_multiple_of(SECTOR) && size.0.is_multiple_of(SECTOR) {
                return Err(ValidationError::new(
                    format!("workload.{i}.block_size"),
                    format!("{size} does not divide into blocks of {align}"),
                    "use a multiple of 512B, for example 4KiB (or give a target.size that divides)",
                ));
            }
            let below = ByteSize(size.0 / align.0 * align.0);
            let above = ByteSize((size.0 / align.0 + 1).saturating_mul(align.0));
            return Err(ValidationError::new(
                match &w.target {
                    Some(name) => format!("targets.{name}.size"),
                    None => "target.size".to_owned(),
                },
                format!("{size} does not divide into blocks of {align}"),
                format!("use {below} or {above}"),
            ));
        }
    }
    Ok(())
}

/// How many bytes from `access.offset` on a workload may touch of a data set of `size` bytes: `access.length`, though
/// it leaves the data set, else all to its end.
fn extent(access: &Access, size: u64) -> u64 {
    let rest = size.saturating_sub(access.offset.0);
    access.length.map_or(rest, |l| l.0)
}

/// Refuses an extent that leaves the data set of `size` bytes, a block that is larger than the extent, a trace that
/// goes beyond the data set, and ordered access by more workers than there are blocks.
fn fits(w: &WorkloadPlan, index: usize, size: u64) -> Result<(), ValidationError> {
    let field = |name: &str| format!("workload.{index}.{name}");
    let (offset, bytes) = (w.access.offset.0, extent(&w.access, size));
    if offset >= size || offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(ValidationError::new(
            field("access"),
            format!(
                "the extent ({} from {}) leaves the data set of {}",
                ByteSize(bytes),
                w.access.offset,
                ByteSize(size)
            ),
            "keep offset + length within target.size",
        ));
    }
    let block = w.block_size.max();
    if block > bytes {
        return Err(ValidationError::new(
            field("block_size"),
            format!(
                "a block of {} is larger than the extent of {}",
                ByteSize(block),
                ByteSize(bytes)
            ),
            "use a smaller block or a larger size",
        ));
    }
    let traced = w.trace.as_ref().map_or(0, |trace| trace.ops.end());
    if traced > size {
        return Err(ValidationError::new(
            field("trace"),
            format!("the trace touches {traced} bytes, the target has {size}"),
            format!("give a larger target.size{}", w.trace.as_ref().map_or("", |t| t.fit.others())),
        ));
    }
    let slices = bytes / block;
    if !w.access.kind.draws()
        && w.access.kind != AccessKind::Follow
        && slices < u64::from(w.workers)
    {
        return Err(ValidationError::new(
            field("workers"),
            format!("{} workers share {slices} blocks; some would have none", w.workers),
            "sequential access gives each worker its own slice: use fewer workers or a larger size",
        ));
    }
    Ok(())
}

/// Refuses blocks and offsets that are no multiples of `align`.
fn aligned(w: &WorkloadPlan, index: usize, align: u64) -> Result<(), ValidationError> {
    let a = &w.access;
    let ok = |v: u64| v.is_multiple_of(align);
    // Offset, length and stride are multiples of access.align already.
    if ok(a.align.0) && ok(w.block_size.common_divisor()) {
        return Ok(());
    }
    Err(ValidationError::new(
        format!("workload.{index}.block_size"),
        format!(
            "blocks and offsets step by {}, but this target needs multiples of {}",
            ByteSize(gcd(a.align.0, w.block_size.common_divisor())),
            ByteSize(align)
        ),
        "use block sizes and offsets that are multiples of it, or turn direct off",
    ))
}
