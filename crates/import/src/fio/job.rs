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

/// Makes the job of a group. Errors: `Usage`, naming section and line, for sections that do not fit
/// into one job.
pub fn job(file: &str, group: &[JobSection], taken: &mut BTreeSet<String>) -> Result<ImportedJob> {
    let layout = layout::layout(file, group)?;
    let Some(first) = group.first() else {
        return Err(Error::internal("a group without sections"));
    };
    let names: Vec<&str> = group.iter().map(|s| s.name.as_str()).collect();
    let name = unique_name(&names.join("-"), taken);
    let mut notes: Vec<String> = group.iter().flat_map(|s| s.notes.iter().cloned()).collect();
    notes.extend(layout.notes.iter().cloned());
    let mut job = JobFile {
        run: run(file, group, &name, &mut notes)?,
        target: target(first, &layout),
        workload: workloads(group, &layout),
        ..JobFile::default()
    };
    require_equal(file, group, "percentile_list", |s| &s.percentiles)?;
    require_equal(file, group, "verify", |s| &s.verify)?;
    if let Some(percentiles) = &first.percentiles {
        job.qos.percentiles.clone_from(percentiles);
    }
    if first.verify {
        job.verify.mode = VerifyMode::After;
    }
    let cached = !first.target.direct && first.target.engine != FioEngine::Null;
    if cached && group.iter().any(|s| s.pattern.reads()) {
        notes.push(
            "fio tells the kernel the pattern of buffered reads (fadvise_hint); Taillight leaves \
             read-ahead as it is"
                .to_owned(),
        );
    }
    let mut seen = BTreeSet::new();
    notes.retain(|n| seen.insert(n.clone()));
    let shown: Vec<String> = names.iter().map(|n| format!("[{n}]")).collect();
    let source = format!("{file}: {}", shown.join(", "));
    ImportedJob::new(name, &source, notes, &job)
}

/// Fails unless all sections say the same about what is one for a whole job.
fn require_equal<T: PartialEq>(
    file: &str,
    group: &[JobSection],
    option: &str,
    of: impl Fn(&JobSection) -> &T,
) -> Result<()> {
    let first = &group[0];
    match group.iter().find(|s| of(s) != of(first)) {
        Some(other) => Err(layout::differ(file, first, other, option)),
        None => Ok(()),
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
fn run(file: &str, group: &[JobSection], name: &str, notes: &mut Vec<String>) -> Result<RunTable> {
    let first = &group[0];
    require_equal(file, group, "ramp_time", |s| &s.demand.ramp)?;
    require_equal(file, group, "runtime", |s| &s.demand.end.runtime)?;
    if group.iter().any(|s| s.seed != first.seed) {
        let name = &first.name;
        notes.push(format!("one seed serves all sections: that of [{name}]"));
    }
    let mut run = RunTable {
        name: Some(name.to_owned()),
        seed: group.iter().find_map(|s| s.seed),
        duration: first.demand.end.runtime,
        warmup: Some(first.demand.ramp).filter(|ramp| *ramp > Span(0)),
        ..RunTable::default()
    };
    match group {
        [single] if !single.demand.end.time_based => amount(single, &mut run),
        [_] => {}
        _ => run.bytes = common_end(file, group)?,
    }
    Ok(run)
}

/// The amount a single section does.
fn amount(section: &JobSection, run: &mut RunTable) {
    let end = &section.demand.end;
    let clones = u64::from(section.clones);
    run.operations = end.operations.map(|n| n.saturating_mul(clones));
    run.bytes = end.bytes.map(|bytes| {
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
fn common_end(file: &str, group: &[JobSection]) -> Result<Option<ByteSize>> {
    let at = |s: &JobSection| format!("{file}:{}", s.number);
    let finite: Vec<&JobSection> = group.iter().filter(|s| !s.demand.end.time_based).collect();
    for section in &finite {
        let end = &section.demand.end;
        if end.operations.is_some() || end.passes.is_none() {
            return Err(Error::usage(format!(
                "[{}] ends by number_ios or io_size while others run beside it, which cannot be \
                 expressed",
                section.name
            ))
            .with("at", at(section))
            .hint("let all sections end by time: time_based=1 and runtime"));
        }
    }
    if finite.len() < group.len() || group[0].demand.end.runtime.is_some() {
        return Ok(None);
    }
    // The default end after 30 s must not cut them short. A run shares its bytes out evenly among
    // the workers: the most that one needs, for each.
    let bytes: Option<Vec<u64>> = finite.iter().map(|s| s.demand.end.bytes).collect();
    let workers: u64 = group.iter().map(|s| u64::from(s.clones)).sum();
    match bytes.and_then(|bytes| bytes.into_iter().max()) {
        Some(most) => Ok(Some(ByteSize(most.saturating_mul(workers)))),
        None => Err(Error::usage("sections side by side without sizes have no common end")
            .with("at", at(&group[0]))
            .hint("give each a size, or time_based=1 and runtime")),
    }
}

fn target(first: &JobSection, layout: &TargetLayout) -> TargetPlan {
    let size = layout.size.map(ByteSize);
    let spec = &first.target;
    if spec.engine == FioEngine::Null {
        return TargetPlan { driver: "null".to_owned(), size, ..TargetPlan::default() };
    }
    let mut options = spec.options.clone();
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
    for (section, extents) in group.iter().zip(&layout.extents) {
        for (index, extent) in extents.iter().enumerate() {
            let name = match extents.len() {
                1 => section.name.clone(),
                _ => format!("{}-{index}", section.name),
            };
            let passes = group.len() > 1 && !section.demand.end.time_based;
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
        payload: section.payload.clone(),
        cpus: Some(section.cpus.clone()).filter(|cpus| !cpus.is_empty()),
        ..WorkloadTable::default()
    }
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

fn access(section: &JobSection, extent: &WorkloadExtent) -> AccessForm {
    let mut access = match &section.pattern.order {
        OffsetOrder::Sequential => Access::from(AccessKind::Sequential),
        OffsetOrder::Uniform { cover } => Access { cover: *cover, ..AccessKind::Random.into() },
        OffsetOrder::Skewed(table) => (**table).clone(),
    };
    access.align = ByteSize(section.pattern.align.unwrap_or(0));
    access.offset = ByteSize(extent.offset);
    access.length = extent.length.map(ByteSize);
    AccessForm(access)
}
