//! What the plan asks of the target, and the sizes that follow: checked before any I/O.

use num_integer::gcd;
use taillight_core::plan::{BlockSize, Plan, Sync, WorkloadPlan};
use taillight_core::units::ByteSize;
use taillight_core::{Error, OpKind, Result};

use crate::buffers::BlockShape;
use crate::file::options::FileOptions;

/// Linux moves at most this much in one call.
const MAX_BLOCK: u64 = 0x7fff_f000;

/// What the plan does to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessNeeds {
    pub reads: bool,
    pub writes: bool,
    /// Some operation trims.
    pub trims: bool,
    /// Some operation syncs, alone or after a write.
    pub syncs: bool,
    /// Some worker may have a write and the trim before it in flight together.
    pub trims_race: bool,
    /// The deepest queue of any worker.
    pub depth: u32,
}

impl AccessNeeds {
    /// Adds up all workloads.
    pub fn of(plan: &Plan) -> AccessNeeds {
        let any = |kind| {
            let mut mixes = plan.workloads.iter().flat_map(|w| &w.mix);
            mixes.any(|part| part.op == kind && part.weight > 0)
        };
        let after_write = plan.workloads.iter().any(|w| w.sync.every().is_some() || w.end_fsync);
        AccessNeeds {
            reads: any(OpKind::Read),
            writes: any(OpKind::Write),
            trims: any(OpKind::Trim),
            syncs: any(OpKind::Fsync) || after_write,
            trims_race: plan.workloads.iter().any(|w| w.trim_first && w.queue_depth > 1),
            depth: plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1),
        }
    }
    /// Whether stored data changes.
    pub fn changes(&self) -> bool {
        self.writes || self.trims
    }
}

/// The largest block of any workload, and how many of them a worker of that workload has in flight.
pub fn largest_block(plan: &Plan) -> Option<BlockShape> {
    let of = |w: &WorkloadPlan| BlockShape { block: w.block_size.max(), slots: w.queue_depth };
    plan.workloads.iter().map(of).max_by_key(|shape| (shape.block, shape.slots))
}

/// The durability of each workload's writes.
pub fn durability(plan: &Plan) -> Vec<Sync> {
    plan.workloads.iter().map(|w| w.sync).collect()
}

/// Size of each file when the job gives the total, the largest when it gives `sizes`, `None` when it gives neither.
/// Errors: `Usage` when the total does not divide into files, or a file into blocks.
pub fn asked_file_size(plan: &Plan, options: &FileOptions) -> Result<Option<u64>> {
    if !options.sizes.is_empty() {
        return different_sizes(plan, options).map(Some);
    }
    let Some(total) = plan.target.size else {
        return Ok(None);
    };
    let files = u64::from(options.files);
    if total.0 == 0 || total.0 % files != 0 {
        return Err(Error::usage("`size` does not divide into the files")
            .with("size", total)
            .with("files", files)
            .hint("give a size that is the same whole number of blocks for every file"));
    }
    let size = total.0 / files;
    // A workload that has a length of its own in a single file leaves out what it does not divide.
    let whole = |w: &&WorkloadPlan| files > 1 || w.access.length.is_none();
    for w in plan.workloads.iter().filter(whole) {
        let unit = grain(w)?;
        if size % unit != 0 {
            let down = size / unit * unit * files;
            let up = size.div_ceil(unit).saturating_mul(unit).saturating_mul(files);
            return Err(Error::usage("the size of a file does not divide into blocks")
                .with("size", total)
                .with("files", files)
                .with("block", ByteSize(unit))
                .with("workload", &w.name)
                .hint(format!("nearest that do: {} or {}", ByteSize(down), ByteSize(up))));
        }
    }
    fits(plan, size)?;
    Ok(Some(size))
}

/// The largest of files of different sizes. Errors: `Usage` where they are not `size` together, where a block could
/// reach from one into the next or is larger than the smallest, or where a sync would hold up others in flight.
fn different_sizes(plan: &Plan, options: &FileOptions) -> Result<u64> {
    let (sizes, total) = (&options.sizes, ByteSize(options.sizes_together()));
    if plan.target.size.is_some_and(|size| size != total) {
        return Err(Error::usage("`sizes` of the files are another size together")
            .with("sizes", total)
            .with("size", plan.target.size.unwrap_or_default())
            .hint("leave `size` out"));
    }
    for w in &plan.workloads {
        let (unit, block) = (grain(w)?, w.block_size.max());
        let whole = |size: &ByteSize| size.0.is_multiple_of(unit) && size.0.is_multiple_of(block);
        if w.block_size.min() != block || !sizes.iter().all(whole) {
            return Err(Error::usage(
                "files of different sizes need one block size that divides each",
            )
            .with("workload", &w.name)
            .hint("give `sizes` that are whole numbers of blocks"));
        }
    }
    let held_up =
        |w: &&WorkloadPlan| w.queue_depth > 1 && w.mix.iter().any(|part| part.op == OpKind::Fsync);
    if let Some(w) = plan.workloads.iter().find(held_up) {
        return Err(Error::usage("a sync of files of different sizes holds up what is in flight")
            .with("workload", &w.name)
            .hint("give the workload queue_depth = 1, or leave fsync out of its mix"));
    }
    let smallest = sizes.iter().map(|size| size.0).min().unwrap_or(0);
    fits(plan, smallest)?;
    Ok(sizes.iter().map(|size| size.0).max().unwrap_or(0))
}

/// The multiples of `align` around `value`.
fn nearest(value: u64, align: u64) -> String {
    let down = value / align * align;
    let up = ByteSize(down.saturating_add(align));
    match down {
        0 => up.to_string(),
        down => format!("{} or {up}", ByteSize(down)),
    }
}

/// What to use of a file or device of `size` bytes when the job gives no size: whole blocks.
/// Errors: `Usage` when not even one block fits.
pub fn usable_size(plan: &Plan, size: u64) -> Result<u64> {
    let mut unit: u64 = 1;
    for w in &plan.workloads {
        let step = grain(w)?;
        unit = (unit / gcd(unit, step)).saturating_mul(step);
    }
    // Said of the size that is there, not of what is left of it.
    fits(plan, size)?;
    let usable = size - size % unit;
    fits(plan, usable)?;
    Ok(usable)
}

fn fits(plan: &Plan, file_size: u64) -> Result<()> {
    for w in &plan.workloads {
        let block = w.block_size.max();
        if block > file_size {
            return Err(Error::usage("a block is larger than a file of the data set")
                .with("block", ByteSize(block))
                .with("file", ByteSize(file_size))
                .with("workload", &w.name)
                .hint("give a larger size, fewer files or a smaller block size"));
        }
        if block > MAX_BLOCK {
            return Err(Error::usage("a block is larger than Linux moves in one call")
                .with("block", ByteSize(block))
                .with("most", ByteSize(MAX_BLOCK))
                .with("workload", &w.name)
                .hint("use a smaller block size"));
        }
    }
    Ok(())
}

fn grain(w: &WorkloadPlan) -> Result<u64> {
    match w.access.align.0 {
        0 => Err(Error::usage("`align` is zero").with("workload", &w.name)),
        unit => Ok(unit),
    }
}

/// Refuses a file that is no whole number of the device's blocks. Errors: `Usage`.
pub fn whole_blocks(file_size: u64, align: u64) -> Result<()> {
    match file_size.is_multiple_of(align) {
        true => Ok(()),
        false => Err(Error::usage("the size of a file is not a multiple of the device's blocks")
            .with("size", file_size)
            .with("block", align)
            .hint("give a size that is a multiple of the block")),
    }
}

/// Refuses sizes and offsets that the target cannot take: direct I/O goes by `align` bytes. Errors:
/// `Usage`, naming the value.
pub fn aligned(plan: &Plan, align: u64, why: &str) -> Result<()> {
    for w in &plan.workloads {
        let mut values = Vec::new();
        for sizes in w.block_size.each() {
            match sizes {
                BlockSize::Fixed(b) => values.push(("block_size", b.0)),
                BlockSize::Split(parts) => {
                    values.extend(parts.iter().map(|p| ("block_size", p.size.0)));
                }
                BlockSize::Range(r) => values.extend([
                    ("block_size.min", r.min.0),
                    ("block_size.max", r.max.0),
                    ("block_size.step", r.step.0),
                ]),
                BlockSize::ByOp(_) => {}
            }
        }
        // Behind the blocks: what is not given is theirs.
        values.extend([("align", w.access.align.0), ("offset", w.access.offset.0)]);
        values.extend(w.access.length.map(|l| ("length", l.0)));
        values.extend(w.access.stride.map(|s| ("stride", s.0)));
        if let Some((name, value)) = values.into_iter().find(|(_, v)| v % align != 0) {
            return Err(Error::usage(format!(
                "`{name}` must be a multiple of {align} bytes: {why}"
            ))
            .with(name, ByteSize(value))
            .with("workload", &w.name)
            .hint(format!(
                "use {}, or go through the page cache with --direct=false",
                nearest(value, align)
            )));
        }
    }
    Ok(())
}
