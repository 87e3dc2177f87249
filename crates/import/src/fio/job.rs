//! Makes one job file of a group of fio sections that run side by side: a target for the sections that have files in
//! common, a workload or several for each section, and what they share as `[run]`. What has no place in one job is a
//! complaint; what is done otherwise than in fio is a note.

use std::collections::{BTreeMap, BTreeSet};

use num_integer::gcd;
use taillight_core::job::{
    AccessForm, ArrivalForm, ArrivalKind, ArrivalTable, BlockSizeForm, JobFile, MixForm, RunTable,
    WorkloadTable,
};
use taillight_core::plan::{Access, AccessKind, BlockSize, MixPart, TargetPlan, VerifyMode};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, OpKind, Percentile, Result};

use super::layout::{self, TargetLayout, WorkloadExtent};
use super::pattern::{DrawnRuns, OffsetOrder};
use super::section::{ExitScope, JobSection, next_cpu};
use super::steady;
use super::target::FioEngine;
use super::ways;
use crate::ImportedJob;

/// Makes the job of a group. `file` is the fio file as it is shown, `taken` are the names of jobs so far, to which this
/// one's is added. What does not fit into one job goes to `wrong`. Errors: `Internal`.
pub fn job(
    file: &str,
    group: &[JobSection],
    taken: &mut BTreeSet<String>,
    wrong: &mut Vec<Error>,
) -> Result<ImportedJob> {
    if group.is_empty() {
        return Err(Error::internal("a group without sections"));
    }
    let names: Vec<&str> = group.iter().map(|s| s.name.as_str()).collect();
    let name = unique_name(&names.join("-"), taken);
    let targets = targets(group, wrong);
    let mut notes: Vec<String> = group.iter().flat_map(|s| s.notes.iter().cloned()).collect();
    notes.extend(targets.iter().flat_map(|t| t.layout.notes.iter().cloned()));
    let mut workloads = BTreeMap::new();
    let mut taken_names = BTreeSet::new();
    for target in &targets {
        let of: Vec<&JobSection> = target.sections.iter().map(|n| &group[*n]).collect();
        checked(&of, wrong);
        for (number, extents) in target.sections.iter().zip(&target.layout.extents) {
            workloads.insert(*number, (target.name.clone(), extents));
        }
    }
    let mut job = JobFile { run: run(group, &name, &mut notes, wrong), ..JobFile::default() };
    let unverified = unverified(group, &targets);
    let apart = group.len() > 1 && !end_together(group);
    let (mut own_names, mut own_group) = (BTreeMap::new(), 0);
    for (number, (section, (target, extents))) in group.iter().zip(workloads.values()).enumerate() {
        // Of those that `new_group` keeps apart.
        own_group += usize::from(number > 0 && section.new_group);
        let ends_own = ends_own_group(section, group);
        let of = of_section(section, extents, &mut taken_names);
        own_names.insert(number, of.iter().filter_map(|(_, w)| w.name.clone()).collect::<Vec<_>>());
        job.workload.extend(of.into_iter().map(|(workers, mut w)| {
            w.target.clone_from(target);
            w.unverified = unverified.contains(&number).then_some(true);
            let alone = group.iter().skip(1).all(|s| s.same_jobs) && section.clones == 1;
            w.ends_run = (section.exits_all && !alone && !ends_own).then_some(true);
            w.ends_with = ends_own.then(|| format!("group-{own_group}"));
            if apart {
                ends(section, workers, group, &mut w);
            }
            w
        }));
    }
    reported_together(group, &own_names, &mut job.workload);
    for GroupTarget { name, sections, layout } in targets {
        let of: Vec<&JobSection> = sections.iter().map(|n| &group[*n]).collect();
        if read_ahead(&of).is_none() && of.iter().any(|s| s.read_ahead.is_some()) {
            notes.push(
                "fio tells the kernel the pattern of each section (fadvise_hint); here they share a file and differ, \
                 so that it is told nothing"
                    .to_owned(),
            );
        }
        let named = |n: &usize| own_names.get(n).cloned().unwrap_or_default();
        let plan = target(&of, &layout, &sections.iter().map(named).collect::<Vec<_>>());
        match name {
            None => job.target = plan,
            Some(name) => _ = job.targets.insert(name, plan),
        }
    }
    if let Some(percentiles) = percentiles(group, &mut notes) {
        job.qos.percentiles = percentiles;
    }
    if group.iter().any(|s| s.verify) {
        job.verify.mode = VerifyMode::After;
    }
    let notes = once(&notes);
    let shown: Vec<String> = names.iter().map(|n| format!("[{n}]")).collect();
    let source = format!("{file}: {}", shown.join(", "));
    let mut made = ImportedJob::new(name, &source, notes, &job)?;
    made.options = group.iter().flat_map(|s| s.options.iter().cloned()).collect();
    made.needs = group.iter().flat_map(|s| s.target.needs.iter().cloned()).collect();
    Ok(made)
}

/// Notes without those that come again: of other sections or lines the same is said once, with all of them.
fn once(notes: &[String]) -> Vec<String> {
    // The section or line that a note is about, and what it says of it.
    let parts = |note: &str| -> Option<(&'static str, String, String)> {
        if let Some((name, text)) = note.strip_prefix('[').and_then(|n| n.split_once("]: ")) {
            return Some(("", format!("[{name}]"), format!(": {text}")));
        }
        let (number, text) = note.strip_prefix("line ")?.split_once(", ")?;
        Some(("line", number.to_owned(), format!(", {text}")))
    };
    let mut told: Vec<(&str, Vec<String>, String)> = Vec::new();
    for note in notes {
        let (kind, who, text) = parts(note).unwrap_or(("", String::new(), note.clone()));
        match told.iter_mut().find(|(of, _, said)| (*of, said.as_str()) == (kind, text.as_str())) {
            Some((_, all, _)) if all.contains(&who) => {}
            Some((_, all, _)) => all.push(who),
            None => told.push((kind, vec![who], text)),
        }
    }
    let shown = |(kind, all, text): (&str, Vec<String>, String)| {
        let first = all[..all.len().min(MOST_NAMED)].join(", ");
        let more = match all.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match (kind, all.len()) {
            ("line", 1) => format!("line {first}{text}"),
            ("line", _) => format!("lines {first}{more}{text}"),
            _ => format!("{first}{more}{text}"),
        }
    };
    told.into_iter().map(shown).collect()
}

/// Sections or lines that one note names, at most; of more it says how many.
const MOST_NAMED: usize = 4;

/// The percentiles that any section asks for, which the report has for each; none where none asks. A note where they
/// differ.
fn percentiles(group: &[JobSection], notes: &mut Vec<String>) -> Option<Vec<Percentile>> {
    let mut asked: Vec<Percentile> = Vec::new();
    for one in group.iter().filter_map(|s| s.percentiles.as_ref()).flatten() {
        if !asked.contains(one) {
            asked.push(*one);
        }
    }
    if group.iter().any(|s| s.percentiles != group[0].percentiles) {
        notes.push("percentile_list: those of all sections are reported for each".to_owned());
    }
    Some(asked).filter(|asked| !asked.is_empty())
}

/// Writes into the workloads which of them fio reports as one (`reported_with`): with `group_reporting` the jobs of a
/// group, until a section with `new_group`, in the row of the first; without it the parts of each job. `names`: the
/// workloads of each section, the first of which names the row. A workload with a row of its own is left as it is.
fn reported_together(
    group: &[JobSection],
    names: &BTreeMap<usize, Vec<String>>,
    workloads: &mut [WorkloadTable],
) {
    let mut first = 0;
    let mut rows: BTreeMap<usize, Vec<&String>> = BTreeMap::new();
    for (number, section) in group.iter().enumerate().filter(|(_, s)| s.grouped) {
        if section.new_group || number.checked_sub(1).is_none_or(|before| !group[before].grouped) {
            first = number;
        }
        rows.entry(first).or_default().extend(names.get(&number).into_iter().flatten());
    }
    let mut whole = 0;
    let mut parts: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for (number, section) in group.iter().enumerate().filter(|(_, s)| !s.grouped) {
        whole = if section.same_jobs { whole } else { number };
        let of = |number: &usize| names.get(number).into_iter().flatten();
        of(&whole)
            .zip(of(&number))
            .for_each(|(key, name)| parts.entry(key).or_default().push(name));
    }
    for together in
        rows.into_values().chain(parts.into_values()).filter(|together| together.len() > 1)
    {
        let key = together[0];
        let of =
            |w: &&mut WorkloadTable| w.name.as_ref().is_some_and(|name| together.contains(&name));
        workloads.iter_mut().filter(of).for_each(|w| w.reported_with = Some(key.clone()));
    }
}

/// Numbers of the sections whose target no section checks, where another target of the group is checked.
fn unverified(group: &[JobSection], targets: &[GroupTarget]) -> BTreeSet<usize> {
    let checks = |t: &&GroupTarget| t.sections.iter().any(|n| group[*n].verify);
    match group.iter().any(|s| s.verify) {
        true => targets.iter().filter(|t| !checks(t)).flat_map(|t| t.sections.clone()).collect(),
        false => BTreeSet::new(),
    }
}

/// Complains where sections write to one target what is checked and what is not.
fn checked(group: &[&JobSection], wrong: &mut Vec<Error>) {
    let writes = |checked: bool| group.iter().find(|s| s.pattern.writes() && s.verify == checked);
    if let (Some(section), Some(other)) = (writes(true), writes(false)) {
        wrong.push(layout::differ(section, other, "verify"));
    }
}

/// Whether `exitall` of a section ends its own group alone, beside which `new_group` has begun another.
fn ends_own_group(section: &JobSection, group: &[JobSection]) -> bool {
    let apart = group.iter().skip(1).any(|s| s.new_group);
    section.exits_all && section.exit_scope == ExitScope::Group && apart
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

/// The target of some sections of a group.
struct GroupTarget {
    /// None for the first, which is `[target]`.
    name: Option<String>,
    /// Their numbers in the group.
    sections: Vec<usize>,
    layout: TargetLayout,
}

/// The targets of a group, each with the sections that drive it; the first is `[target]`, the others are named after
/// their first section. Complains where some sections drive nothing (`ioengine=null`) and others do.
fn targets(group: &[JobSection], wrong: &mut Vec<Error>) -> Vec<GroupTarget> {
    let null = |s: &JobSection| s.target.engine == FioEngine::Null;
    if let Some(other) = group.iter().find(|s| null(s) != null(&group[0])) {
        wrong.push(layout::differ(&group[0], other, "ioengine"));
    }
    let mut taken = BTreeSet::new();
    let mut named = |(index, sections): (usize, Vec<usize>)| {
        let of: Vec<&JobSection> = sections.iter().map(|n| &group[*n]).collect();
        let layout = layout::layout(&of, wrong);
        let name = (index > 0).then(|| unique_name(&of[0].name, &mut taken));
        GroupTarget { name, sections, layout }
    };
    layout::shares(group).into_iter().enumerate().map(&mut named).collect()
}

/// `[run]`: what all sections have in common. Notes what they do not have in common and here do (a delay of the group,
/// the seed), and complains of several sections of which one has no end.
fn run(
    group: &[JobSection],
    name: &str,
    notes: &mut Vec<String>,
    wrong: &mut Vec<Error>,
) -> RunTable {
    let first = &group[0];
    if first_delay(group) > Span(0) {
        notes.push(
            "startdelay: the whole group begins later by it; here it begins at once".to_owned(),
        );
    }
    if !begin_together(group) && group.iter().any(|s| s.demand.ramp > Span(0)) {
        notes.push(
            "startdelay, ramp_time: each section is measured from the end of its own ramp_time, as in fio".to_owned(),
        );
    }
    if group.iter().any(|s| s.seed != first.seed) {
        let name = &first.name;
        notes.push(format!("one seed serves all sections: that of [{name}]"));
    }
    let steady = steady::of_group(group, wrong);
    let mut run = RunTable {
        steady: steady.map(|steady| steady.end),
        interval: steady.map(|steady| steady.interval).filter(|i| *i != Span(1_000_000_000)),
        name: Some(name.to_owned()),
        seed: group.iter().find_map(|s| s.seed),
        duration: first.demand.end.runtime.filter(|_| end_together(group) || group.len() == 1),
        warmup: Some(measured_from(group)).filter(|ramp| *ramp > Span(0)),
        // fio waits for a sync in the end however long it takes.
        drain_timeout: group.iter().any(|s| s.end_fsync).then_some(Span(3_600_000_000_000)),
        lock_memory: Some(locked(group)).filter(|size| size.0 > 0),
        continues: group.iter().any(|s| s.continues).then_some(true),
        ..RunTable::default()
    };
    match group {
        [single] if !single.demand.end.time_based => {
            run.operations = operations(single, single.clones);
            run.bytes = bytes(single, single.clones);
        }
        [_] => {}
        _ => endless(group, wrong),
    }
    run
}

/// Memory that all jobs lock together, bytes.
fn locked(group: &[JobSection]) -> ByteSize {
    let each = group.iter().map(|s| s.locked.saturating_mul(s.clones.into()));
    ByteSize(each.fold(0, |sum: u64, of| sum.saturating_add(of)))
}

/// The least `startdelay` of a group.
fn first_delay(group: &[JobSection]) -> Span {
    group.iter().map(|s| s.demand.delay).min().unwrap_or_default()
}

/// When the first ramp of a group ends, counted from the least delay: from then on a section is measured.
fn measured_from(group: &[JobSection]) -> Span {
    let first = first_delay(group).0;
    let measured = group.iter().map(|s| s.demand.delay.0 - first + s.demand.ramp.0);
    Span(measured.min().unwrap_or(0))
}

/// Whether all sections begin together, and are measured from the same time on: they have the same delay and ramp.
fn begin_together(group: &[JobSection]) -> bool {
    let of = |s: &JobSection| (s.demand.delay, s.demand.ramp);
    group.iter().all(|s| of(s) == of(&group[0]))
}

/// Whether all sections begin together and end after the same time, and only after it.
fn end_together(group: &[JobSection]) -> bool {
    let end = |s: &JobSection| s.demand.end.runtime;
    begin_together(group)
        && group.iter().all(|s| s.demand.end.time_based && end(s) == end(&group[0]))
}

/// Writes the begin and end of its own into a workload of a section, which has `workers` of the section's clones.
fn ends(section: &JobSection, workers: u32, group: &[JobSection], workload: &mut WorkloadTable) {
    let (end, ramp) = (&section.demand.end, section.demand.ramp);
    let begun = section.demand.delay.0.saturating_sub(first_delay(group).0);
    let delay = Span(begun.saturating_add(ramp.0).saturating_sub(measured_from(group).0));
    workload.start_delay = Some(delay).filter(|delay| *delay > Span(0));
    // Those that begin with the group have its warm-up.
    workload.warmup = Some(ramp).filter(|_| begun > 0 || delay > Span(0));
    workload.warmup = workload.warmup.filter(|ramp| *ramp > Span(0));
    workload.duration = end.runtime;
    if !end.time_based {
        workload.operations = operations(section, workers);
        workload.bytes = bytes(section, workers);
    }
}

/// Complains of sections side by side that nothing ends.
fn endless(group: &[JobSection], wrong: &mut Vec<Error>) {
    let ends = |s: &&JobSection| {
        let end = &s.demand.end;
        end.runtime.is_some() || end.operations.is_some() || end.bytes.is_some()
    };
    for section in group.iter().filter(|s| !ends(s)) {
        let what = format!("[{}] has neither a size nor a runtime", section.name);
        let hint = "give it a size, or time_based=1 and runtime";
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    }
}

/// Operations after which so many clones of a section end together; none where the section does not end by them.
fn operations(section: &JobSection, clones: u32) -> Option<u64> {
    let clones = u64::from(clones) * section.pattern.ops_per_block();
    section.demand.end.operations.map(|n| n.saturating_mul(clones))
}

/// Bytes after which so many clones of a section end together; none where the section does not end by them.
fn bytes(section: &JobSection, clones: u32) -> Option<ByteSize> {
    let clones = u64::from(clones) * section.pattern.ops_per_block();
    section.demand.end.bytes.map(|bytes| {
        // A lap leaves out what lies between the blocks, and the section ends with it. With `io_size` it ends with
        // the block that reaches that; so it does where reads and writes have laps of their own.
        if let (OffsetOrder::Strided(step), BlockSize::Fixed(ByteSize(block)), Some(size)) =
            (&section.pattern.order, &section.pattern.block, section.target.size)
        {
            let blocks = size.saturating_sub(*block) / step + 1;
            let last = (blocks - 1).saturating_mul(*step);
            // A step beyond the end leads back to the beginning (`get_next_seq_offset` of fio's io_u.c): a lap ends
            // the section only where its last block ends with the file, or the next one would not fit.
            let by_bytes = last + block < size && last.saturating_add(*step) >= size;
            let all = match by_bytes || section.demand.end.io_size || section.pattern.mix.len() > 1
            {
                true => bytes.div_ceil(*block),
                false => blocks.saturating_mul((bytes / size.max(1)).max(1)),
            };
            return ByteSize(all.saturating_mul(*block).saturating_mul(clones));
        }
        ByteSize(bytes.saturating_mul(clones))
    })
}

/// What the kernel is told of the order of reads, where all sections that are not direct agree; none where they differ,
/// tell it nothing, or all are direct.
fn read_ahead(group: &[&JobSection]) -> Option<&'static str> {
    // What is direct reads nothing ahead.
    let mut told = group.iter().filter(|s| !s.target.direct).map(|s| s.read_ahead);
    let first = told.next()??;
    told.all(|other| other == Some(first)).then_some(first)
}

/// The target of these sections as a table of the job: driver `file` with its layout and options, or driver `null`.
/// `names`: the workloads of each section.
fn target(group: &[&JobSection], layout: &TargetLayout, names: &[Vec<String>]) -> TargetPlan {
    let size = layout.size.map(ByteSize);
    let spec = &group[0].target;
    if spec.engine == FioEngine::Null {
        return TargetPlan { driver: "null".to_owned(), size, ..TargetPlan::default() };
    }
    let mut options = ways::shared(group, names);
    if let Some(order) = read_ahead(group) {
        options.insert("read_ahead".to_owned(), order.into());
    }
    // As fio does them, with each of its engines: the write behind a trim is never before it.
    if group.iter().any(|s| s.pattern.trims()) {
        options.insert("blocking_trims".to_owned(), true.into());
        // A write goes out before the next trim blocks: fio's iodepth_batch is 1 by default.
        if group.iter().any(|s| s.pattern.trim_first() && s.depth > 1) {
            options.entry("submit_batch").or_insert(1_i64.into());
        }
    }
    if layout.tail > 0 {
        options.insert("tail".to_owned(), ByteSize(layout.tail).to_string().into());
    }
    if layout.files > 1 {
        options.insert("files".to_owned(), (layout.files as i64).into());
    }
    if !layout.sizes.is_empty() {
        let sizes: Vec<String> =
            layout.sizes.iter().map(|size| ByteSize(*size).to_string()).collect();
        options.insert("sizes".to_owned(), sizes.into());
    }
    if !layout.names.is_empty() {
        options.insert("names".to_owned(), layout.names.clone().into());
    }
    TargetPlan {
        driver: "file".to_owned(),
        path: layout.path.clone(),
        size,
        options,
        ..TargetPlan::default()
    }
}

/// The workloads of a section, each with the clones of it that are its workers.
fn of_section(
    section: &JobSection,
    extents: &[WorkloadExtent],
    taken: &mut BTreeSet<String>,
) -> Vec<(u32, WorkloadTable)> {
    let one = |(index, extent): (usize, &WorkloadExtent)| {
        let name = match extents.len() {
            1 => section.name.clone(),
            _ => format!("{}-{index}", section.name),
        };
        let mut workload = workload(section, extent);
        if let Some(cpus) = &mut workload.cpus {
            next_cpu(cpus, index * extent.workers as usize);
        }
        workload.name = Some(unique_name(&name, taken));
        // What fio calls it, where its workload is called otherwise.
        let shown = section.part_of.as_ref().unwrap_or(&section.name);
        workload.section =
            Some(shown).filter(|shown| workload.name.as_ref() != Some(shown)).cloned();
        (extent.workers, workload)
    };
    extents.iter().enumerate().map(one).collect()
}

/// The workload of those clones of a section that go over `extent`; without a name, target and end of its own.
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
        trim_first: section.pattern.trim_first().then_some(true),
        report_group: section.report_group,
        block_size: Some(BlockSizeForm::Sizes(section.pattern.block.clone())),
        access: Some(access(section, extent)),
        arrival,
        think: demand.think,
        flow: section.flow,
        unified: section.unified,
        sync: section.sync,
        drop_cache: drop_cache(section),
        end_fsync: section.end_fsync.then_some(true),
        payload: section.payload.clone(),
        cpus: Some(section.cpus.clone()).filter(|cpus| !cpus.is_empty()),
        nice: section.priority.0,
        io_priority: section.priority.1,
        ..WorkloadTable::default()
    }
}

/// After how many bytes a worker drops what is cached of its files, as fio does (`invalidate`) whenever it begins with
/// one anew; none where fio does not, or nothing is cached or begun anew. What is drawn without a map of visited blocks
/// never does (fio 3.33).
fn drop_cache(section: &JobSection) -> Option<ByteSize> {
    let (target, end) = (&section.target, &section.demand.end);
    let cached = target.engine != FioEngine::Null && !target.direct;
    let drops = target.options.get("cache").and_then(|v| v.as_str()) == Some("drop");
    let more = end.time_based || end.operations.is_some() || end.several_passes(target);
    // Where blocks come in order, passes are counted and any size will do.
    let walks = section.pattern.order.walks();
    let once = target.pass_bytes(&section.pattern.block);
    let once = once.or(walks.then(|| section.pattern.block.max()));
    let once = once.map(|once| ByteSize(once.saturating_mul(section.pattern.ops_per_block())));
    once.filter(|_| cached && drops && more && section.pattern.goes_round)
}

/// The operations of a section with their weights; with a rate for each direction, in the ratio of the rates.
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

/// Access with so many bytes from one block to the next.
fn strided(step: u64) -> Access {
    Access { stride: Some(ByteSize(step)), ..AccessKind::Strided.into() }
}

/// The order of offsets of a section over `extent`, with an `align` where its offsets are finer than its blocks.
fn access(section: &JobSection, extent: &WorkloadExtent) -> AccessForm {
    let mut access = match &section.pattern.order {
        OffsetOrder::Sequential => Access::from(AccessKind::Sequential),
        OffsetOrder::Reverse => Access::from(AccessKind::Reverse),
        OffsetOrder::Strided(step) => strided(*step),
        OffsetOrder::Zoned { blocks, step } => Access {
            stride: Some(ByteSize(*step)),
            run_length: Some(*blocks),
            ..AccessKind::Sequential.into()
        },
        OffsetOrder::Files(files) => Access { files: *files, ..AccessKind::Sequential.into() },
        OffsetOrder::Walks(walks) => {
            Access { walks: Some(*walks), ..AccessKind::Sequential.into() }
        }
        OffsetOrder::Uniform { cover } => Access { cover: *cover, ..AccessKind::Random.into() },
        OffsetOrder::Skewed(table) => (**table).clone(),
    };
    let runs = &section.pattern.runs;
    access.run_length = access.run_length.or(runs.length);
    access.sequential_percent = runs.percent.clone();
    // Where blocks are drawn, those that go on have a place in each file.
    let places = section.target.walks.max(section.target.count);
    let walks = Some(places).filter(|n| *n > 1 && *runs != DrawnRuns::default());
    access.walks = access.walks.or(walks);
    // A step between blocks need not be a whole number of them.
    let step = match (&section.pattern.order, &section.pattern.block) {
        (OffsetOrder::Strided(step), BlockSize::Fixed(block)) if step % block.0.max(1) > 0 => {
            Some(gcd(*step, block.0))
        }
        _ => None,
    };
    let finer = layout::finer_step(section, extent);
    let finer = finer.map_or(step, |finer| Some(gcd(finer, step.unwrap_or(finer))));
    access.align = ByteSize(section.pattern.align.or(finer).unwrap_or(0));
    access.offset = ByteSize(extent.offset);
    access.length = extent.length.map(ByteSize);
    AccessForm(access)
}
