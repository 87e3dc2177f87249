//! A group of sections that run side by side as one job file.

use std::collections::BTreeSet;

use num_integer::gcd;
use taillight_core::job::{
    AccessForm, ArrivalForm, ArrivalKind, ArrivalTable, BlockSizeForm, JobFile, MixForm, RunTable,
    WorkloadTable,
};
use taillight_core::plan::{Access, AccessKind, BlockSize, MixPart, TargetPlan, VerifyMode};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, OpKind, Result};

use super::layout::{self, TargetLayout, WorkloadExtent};
use super::pattern::OffsetOrder;
use super::section::JobSection;
use super::target::FioEngine;
use crate::ImportedJob;

/// Makes the job of a group. What does not fit into one job goes to `wrong`. Errors: `Internal`.
pub fn job(
    file: &str,
    group: &[JobSection],
    taken: &mut BTreeSet<String>,
    wrong: &mut Vec<Error>,
) -> Result<ImportedJob> {
    let Some(first) = group.first() else {
        return Err(Error::internal("a group without sections"));
    };
    let names: Vec<&str> = group.iter().map(|s| s.name.as_str()).collect();
    let name = unique_name(&names.join("-"), taken);
    let layout = layout::layout(group, wrong);
    let mut notes: Vec<String> = group.iter().flat_map(|s| s.notes.iter().cloned()).collect();
    notes.extend(layout.notes.iter().cloned());
    let mut job = JobFile {
        run: run(group, &name, &mut notes, wrong),
        target: target(group, &layout),
        workload: workloads(group, &layout),
        ..JobFile::default()
    };
    require_equal(group, "percentile_list", |s| &s.percentiles, wrong);
    require_equal(group, "verify", |s| &s.verify, wrong);
    if let Some(percentiles) = &first.percentiles {
        job.qos.percentiles.clone_from(percentiles);
    }
    if first.verify {
        job.verify.mode = VerifyMode::After;
    }
    if read_ahead(group).is_none() && group.iter().any(|s| s.read_ahead.is_some()) {
        notes.push(
            "fio tells the kernel the pattern of each section (fadvise_hint); here they share a file and differ, so \
             that it is told nothing"
                .to_owned(),
        );
    }
    let mut seen = BTreeSet::new();
    notes.retain(|n| seen.insert(n.clone()));
    let shown: Vec<String> = names.iter().map(|n| format!("[{n}]")).collect();
    let source = format!("{file}: {}", shown.join(", "));
    let mut made = ImportedJob::new(name, &source, notes, &job)?;
    made.options = group.iter().flat_map(|s| s.options.iter().cloned()).collect();
    made.needs = group.iter().flat_map(|s| s.target.needs.iter().cloned()).collect();
    Ok(made)
}

/// Complains unless all sections say the same about what is one for a whole job.
fn require_equal<T: PartialEq>(
    group: &[JobSection],
    option: &str,
    of: impl Fn(&JobSection) -> &T,
    wrong: &mut Vec<Error>,
) {
    let first = &group[0];
    if let Some(other) = group.iter().find(|s| of(s) != of(first)) {
        wrong.push(layout::differ(first, other, option));
    }
}

/// A name that is fit for a file and not taken yet.
fn unique_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let clean = crate::name_of_run(name, 56);
    let clean = clean.trim_start_matches('.');
    let clean = if clean.is_empty() { "job" } else { clean };
    let mut name = clean.to_owned();
    let mut n = 1;
    while !taken.insert(name.clone()) {
        n += 1;
        name = format!("{clean}-{n}");
    }
    name
}

/// `[run]`: one end for all sections.
fn run(
    group: &[JobSection],
    name: &str,
    notes: &mut Vec<String>,
    wrong: &mut Vec<Error>,
) -> RunTable {
    let first = &group[0];
    require_equal(group, "ramp_time", |s| &s.demand.ramp, wrong);
    require_equal(group, "runtime", |s| &s.demand.end.runtime, wrong);
    require_equal(group, "startdelay", |s| &s.demand.delay, wrong);
    if first.demand.delay > Span(0) {
        notes.push(
            "startdelay: the whole group begins later by it; here it begins at once".to_owned(),
        );
    }
    exits(group, notes, wrong);
    if group.iter().any(|s| s.seed != first.seed) {
        let name = &first.name;
        notes.push(format!("one seed serves all sections: that of [{name}]"));
    }
    let mut run = RunTable {
        name: Some(name.to_owned()),
        seed: group.iter().find_map(|s| s.seed),
        duration: first.demand.end.runtime,
        warmup: Some(first.demand.ramp).filter(|ramp| *ramp > Span(0)),
        // fio waits for a sync in the end however long it takes.
        drain_timeout: group.iter().any(|s| s.end_fsync).then_some(Span(3_600_000_000_000)),
        ..RunTable::default()
    };
    match group {
        [single] if !single.demand.end.time_based => amount(single, &mut run),
        [_] => {}
        _ => run.bytes = common_end(group, wrong),
    }
    run
}

/// `exitall`: where all end at the same time anyway, it changes nothing.
fn exits(group: &[JobSection], notes: &mut Vec<String>, wrong: &mut Vec<Error>) {
    let Some(section) = group.iter().find(|s| s.exits_all) else {
        return;
    };
    let timed = group.iter().all(|s| s.demand.end.time_based);
    let single = matches!(group, [one] if one.clones == 1);
    if timed || single {
        notes.push("exitall: all end at the same time".to_owned());
        return;
    }
    let what = format!(
        "`exitall` in [{}]: it has no equivalent; it would change when the other sections end",
        section.name
    );
    wrong.push(
        Error::usage(what)
            .with("at", &section.place)
            .hint("let all end by time: time_based=1 and runtime"),
    );
}

/// The amount a single section does.
fn amount(section: &JobSection, run: &mut RunTable) {
    let end = &section.demand.end;
    let clones = u64::from(section.clones);
    run.operations = end.operations.map(|n| n.saturating_mul(clones));
    run.bytes = end.bytes.map(|bytes| {
        // A lap leaves out what lies between the blocks, and the section ends with it.
        if let (OffsetOrder::Strided(step), BlockSize::Fixed(ByteSize(block)), Some(size)) =
            (&section.pattern.order, &section.pattern.block, section.target.size)
        {
            let laps = (bytes / size.max(1)).max(1);
            let blocks = size.saturating_sub(*block) / step + 1;
            return ByteSize(
                blocks.saturating_mul(laps).saturating_mul(*block).saturating_mul(clones),
            );
        }
        // fio ends when the rest is less than a block.
        let whole = match section.pattern.block {
            BlockSize::Fixed(ByteSize(size)) if bytes > size => bytes / size * size,
            _ => bytes,
        };
        ByteSize(whole.saturating_mul(clones))
    });
}

/// Sections side by side that end by amount end one by one: each makes its passes. The bytes that
/// the run needs for all of them, unless a time ends it.
fn common_end(group: &[JobSection], wrong: &mut Vec<Error>) -> Option<ByteSize> {
    let finite: Vec<&JobSection> = group.iter().filter(|s| !s.demand.end.time_based).collect();
    if let Some(bytes) = equal_shares(group) {
        return Some(bytes);
    }
    for section in finite.iter().filter(|section| !ends_by_passes(section)) {
        let what = format!(
            "[{}] ends by number_ios, by io_size or by draws of any block (norandommap), and others beside it end \
             otherwise, which cannot be expressed",
            section.name
        );
        let hint = "let all sections end by time: time_based=1 and runtime";
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    }
    if finite.len() < group.len() || group[0].demand.end.runtime.is_some() {
        return None;
    }
    // The default end after 30 s must not cut them short. A run shares its bytes out evenly among
    // the workers: the most that one needs, for each.
    let bytes: Option<Vec<u64>> = finite.iter().map(|s| s.demand.end.bytes).collect();
    let workers: u64 = group.iter().map(|s| u64::from(s.clones)).sum();
    let most = bytes.and_then(|bytes| bytes.into_iter().max());
    if most.is_none() {
        let what = "sections side by side without sizes have no common end";
        let hint = "give each a size, or time_based=1 and runtime";
        wrong.push(Error::usage(what).with("at", &group[0].place).hint(hint));
    }
    most.map(|most| ByteSize(most.saturating_mul(workers)))
}

/// Whether what a section does is a number of passes over its data.
fn ends_by_passes(section: &JobSection) -> bool {
    let end = &section.demand.end;
    let drawn = matches!(
        section.pattern.order,
        OffsetOrder::Uniform { cover: false } | OffsetOrder::Skewed(_)
    );
    // A size that cannot be read is a complaint already.
    let sized = section.target.size != Some(0);
    !sized || (end.operations.is_none() && end.passes.is_some() && !drawn)
}

/// The bytes of a group in which not all end by passes, where every worker does as many: a run shares its bytes
/// out evenly.
fn equal_shares(group: &[JobSection]) -> Option<ByteSize> {
    let of = |s: &JobSection| s.demand.end.bytes.filter(|_| s.demand.end.operations.is_none());
    let each = group.first().and_then(of)?;
    let equal = group.iter().all(|s| !s.demand.end.time_based && of(s) == Some(each));
    let workers: u64 = group.iter().map(|s| u64::from(s.clones)).sum();
    let passes = group.iter().all(ends_by_passes);
    Some(ByteSize(each.saturating_mul(workers))).filter(|_| equal && !passes)
}

/// What the kernel is told of the order of reads, where all sections agree.
fn read_ahead(group: &[JobSection]) -> Option<&'static str> {
    let first = group.first()?.read_ahead;
    first.filter(|_| group.iter().all(|s| s.read_ahead == first))
}

fn target(group: &[JobSection], layout: &TargetLayout) -> TargetPlan {
    let size = layout.size.map(ByteSize);
    let spec = &group[0].target;
    if spec.engine == FioEngine::Null {
        return TargetPlan { driver: "null".to_owned(), size, ..TargetPlan::default() };
    }
    let mut options = spec.options.clone();
    if let Some(order) = read_ahead(group) {
        options.insert("read_ahead".to_owned(), order.into());
    }
    if layout.files > 1 {
        options.insert("files".to_owned(), (layout.files as i64).into());
    }
    TargetPlan {
        driver: "file".to_owned(),
        path: layout.path.clone(),
        size,
        options,
        ..TargetPlan::default()
    }
}

fn workloads(group: &[JobSection], layout: &TargetLayout) -> Vec<WorkloadTable> {
    let mut taken = BTreeSet::new();
    let mut made = Vec::new();
    let by_passes = group.len() > 1 && equal_shares(group).is_none();
    for (section, extents) in group.iter().zip(&layout.extents) {
        for (index, extent) in extents.iter().enumerate() {
            let name = match extents.len() {
                1 => section.name.clone(),
                _ => format!("{}-{index}", section.name),
            };
            let passes = by_passes && !section.demand.end.time_based;
            let mut workload = workload(section, extent);
            workload.name = Some(unique_name(&name, &mut taken));
            workload.passes = section.demand.end.passes.filter(|_| passes);
            made.push(workload);
        }
    }
    made
}

fn workload(section: &JobSection, extent: &WorkloadExtent) -> WorkloadTable {
    let demand = &section.demand;
    let arrival = demand.rate.map(|rate| {
        ArrivalForm(ArrivalTable {
            kind: Some(match rate.poisson {
                true => ArrivalKind::Poisson,
                false => ArrivalKind::Constant,
            }),
            rate: Some(rate.of_clones(extent.workers)),
            ..ArrivalTable::default()
        })
    });
    WorkloadTable {
        workers: Some(extent.workers),
        queue_depth: Some(section.depth),
        mix: Some(mix(section)),
        block_size: Some(BlockSizeForm::Sizes(section.pattern.block.clone())),
        access: Some(access(section, extent)),
        arrival,
        think: demand.think,
        sync: section.sync,
        drop_cache: drop_cache(section),
        end_fsync: section.end_fsync.then_some(true),
        payload: section.payload.clone(),
        cpus: Some(section.cpus.clone()).filter(|cpus| !cpus.is_empty()),
        ..WorkloadTable::default()
    }
}

/// fio drops what it has cached of a file (`invalidate`) whenever it begins with it anew. What is drawn without a
/// map of visited blocks never does (fio 3.33).
fn drop_cache(section: &JobSection) -> Option<ByteSize> {
    let (target, end) = (&section.target, &section.demand.end);
    let cached = target.engine != FioEngine::Null && !target.direct;
    let drops = target.options.get("cache").and_then(|v| v.as_str()) == Some("drop");
    let more = end.time_based || end.operations.is_some() || end.bytes > target.size;
    // Where blocks come in order, passes are counted and any size will do.
    let walks = section.pattern.order.walks();
    let once = target.size.or(walks.then(|| section.pattern.block.max()));
    once.filter(|_| cached && drops && more && section.pattern.goes_round).map(ByteSize)
}

fn mix(section: &JobSection) -> MixForm {
    let parts = &section.pattern.mix;
    match (section.demand.rate.and_then(|r| r.shares), parts.as_slice()) {
        (Some((reads, writes)), [_, _]) => {
            let common = gcd(reads, writes).max(1);
            let part = |op, share: u64| MixPart {
                op,
                weight: u32::try_from(share / common).unwrap_or(u32::MAX),
            };
            MixForm(vec![part(OpKind::Read, reads), part(OpKind::Write, writes)])
        }
        (_, [single]) => MixForm::from(single.op),
        _ => MixForm(parts.clone()),
    }
}

fn strided(step: u64) -> Access {
    Access { stride: Some(ByteSize(step)), ..AccessKind::Strided.into() }
}

fn access(section: &JobSection, extent: &WorkloadExtent) -> AccessForm {
    let mut access = match &section.pattern.order {
        OffsetOrder::Sequential => Access::from(AccessKind::Sequential),
        OffsetOrder::Reverse => Access::from(AccessKind::Reverse),
        OffsetOrder::Strided(step) => strided(*step),
        // The files lie one behind another: the same place of the next file is as far away as a file is long.
        OffsetOrder::InTurns => strided(extent.file),
        OffsetOrder::Uniform { cover } => Access { cover: *cover, ..AccessKind::Random.into() },
        OffsetOrder::Skewed(table) => (**table).clone(),
    };
    access.align =
        ByteSize(section.pattern.align.or(layout::finer_step(section, extent)).unwrap_or(0));
    access.offset = ByteSize(extent.offset);
    access.length = extent.length.map(ByteSize);
    AccessForm(access)
}
