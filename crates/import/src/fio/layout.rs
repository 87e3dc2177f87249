//! Sections that run side by side on one target: its path, size and files, and which part of it
//! each workload uses. fio gives every section its own target; a Taillight job has one, so what
//! does not fit into one is refused here.

use num_integer::gcd;
use taillight_core::{Error, Result};

use super::pattern::OffsetOrder;
use super::section::JobSection;
use super::target::{FilePlacement, FioEngine};

/// Workloads one section may become.
const MOST_WORKLOADS: u32 = 256;
/// Files one target may have.
const MOST_FILES: u64 = 65_535;

/// One workload of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadExtent {
    pub workers: u32,
    /// Start of its extent.
    pub offset: u64,
    /// Length of its extent; `None` = to the end of the target.
    pub length: Option<u64>,
}

/// The target of a group, and the workloads of each of its sections in order.
#[derive(Debug)]
pub struct TargetLayout {
    /// Path, unless the driver has none.
    pub path: Option<String>,
    /// Bytes, unless it is what exists.
    pub size: Option<u64>,
    pub files: u64,
    /// For each section its workloads.
    pub extents: Vec<Vec<WorkloadExtent>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Refuses two sections that need different targets or runs.
pub fn differ(file: &str, first: &JobSection, other: &JobSection, what: &str) -> Error {
    Error::usage(format!(
        "[{}] and [{}] run side by side but differ in {what}, which is one for a whole job",
        first.name, other.name
    ))
    .with("at", format!("{file}:{}", other.number))
    .hint(format!(
        "put stonewall into [{}] to run it afterwards, or make them two files",
        other.name
    ))
}

/// Finds the layout. Errors: `Usage`, naming section and line.
pub fn layout(file: &str, group: &[JobSection]) -> Result<TargetLayout> {
    let Some(first) = group.first() else {
        return Err(Error::internal("a group without sections"));
    };
    for other in &group[1..] {
        let (a, b) = (&first.target, &other.target);
        if a.engine != b.engine {
            return Err(differ(file, first, other, "ioengine"));
        }
        if a.options != b.options {
            return Err(differ(
                file,
                first,
                other,
                "direct, invalidate, pre_read, overwrite, unlink or an option of the ring",
            ));
        }
        if a.files != b.files {
            return Err(differ(file, first, other, "filename or directory"));
        }
    }
    let mut layout = match &first.target.files {
        FilePlacement::Own(dir) => own_files(file, dir, group)?,
        FilePlacement::Named(path) => shared_file(file, Some(path), group)?,
        FilePlacement::None => shared_file(file, None, group)?,
    };
    // An extent that is the whole target needs no words.
    for extent in layout.extents.iter_mut().flatten() {
        if extent.offset == 0 && extent.length == layout.size {
            extent.length = None;
        }
    }
    Ok(layout)
}

/// What every offset and size of a section divides by.
fn block_step(section: &JobSection) -> u64 {
    let blocks = section.pattern.block.common_divisor();
    section.pattern.align.unwrap_or(blocks).max(1)
}

fn whole_blocks(section: &JobSection, size: u64, notes: &mut Vec<String>) -> u64 {
    let step = block_step(section);
    let down = size / step * step;
    if down != size && down > 0 {
        notes.push(format!(
            "[{}]: {} bytes at the end are no whole block and left out, as fio leaves them",
            section.name,
            size - down
        ));
        return down;
    }
    size
}

/// All clones of all sections on one file, one device, or none.
fn shared_file(file: &str, path: Option<&str>, group: &[JobSection]) -> Result<TargetLayout> {
    let (mut notes, mut extents) = (Vec::new(), Vec::new());
    let mut end = Some(0);
    for section in group {
        let target = &section.target;
        let size = target.size.map(|s| whole_blocks(section, s, &mut notes));
        let sliced = size == Some(target.increment)
            && !matches!(section.pattern.order, OffsetOrder::Skewed(..));
        let apart = target.engine != FioEngine::Null
            && section.clones > 1
            && (target.increment > 0 || section.pattern.order == OffsetOrder::Sequential);
        let list = if apart && !sliced {
            each_clone(file, section, |clone| {
                (target.offset + u64::from(clone) * target.increment, size)
            })?
        } else {
            let times = if sliced { u64::from(section.clones) } else { 1 };
            vec![WorkloadExtent {
                workers: section.clones,
                offset: target.offset,
                length: size.map(|s| s.saturating_mul(times)),
            }]
        };
        for extent in &list {
            let last = extent.length.map(|l| extent.offset.saturating_add(l));
            end = end.zip(last).map(|(a, b): (u64, u64)| a.max(b));
        }
        if section.clones > 1 && section.pattern.order == (OffsetOrder::Uniform { cover: true }) {
            notes.push(format!(
                "[{}]: a pass over all blocks is shared by the {} workers; in fio each job makes \
                 its own",
                section.name, section.clones
            ));
        }
        extents.push(list);
    }
    let size = end;
    if path.is_some() && group.iter().any(|l| l.pattern.writes() || !l.pattern.reads()) {
        notes.push(
            "what Taillight did not make is overwritten only with destroy = true in [target] and \
             --destroy TARGET"
                .to_owned(),
        );
    }
    Ok(TargetLayout { path: path.map(str::to_owned), size, files: 1, extents, notes })
}

/// One workload for each clone.
fn each_clone(
    file: &str,
    section: &JobSection,
    extent: impl Fn(u32) -> (u64, Option<u64>),
) -> Result<Vec<WorkloadExtent>> {
    if section.clones > MOST_WORKLOADS {
        return Err(Error::usage(format!(
            "`numjobs` in [{}]: {} jobs with an extent each are too many workloads",
            section.name, section.clones
        ))
        .with("at", format!("{file}:{}", section.number))
        .hint(format!("use at most {MOST_WORKLOADS}")));
    }
    Ok((0..section.clones)
        .map(|clone| {
            let (offset, length) = extent(clone);
            WorkloadExtent { workers: 1, offset, length }
        })
        .collect())
}

/// Files of its own for every clone: a directory of equal files, a run of them for each.
fn own_files(file: &str, dir: &str, group: &[JobSection]) -> Result<TargetLayout> {
    let mut notes = Vec::new();
    let sizes = group
        .iter()
        .map(|section| file_size(file, section, &mut notes))
        .collect::<Result<Vec<u64>>>()?;
    let common = sizes.iter().fold(0, |d, s| gcd(d, *s)).max(1);
    let (mut extents, mut at, mut files) = (Vec::new(), 0_u64, 0_u64);
    for (section, size) in group.iter().zip(&sizes) {
        let clones = u64::from(section.clones);
        let count = u64::from(section.target.count);
        let of_clone = size.saturating_mul(count);
        extents.push(own_extents(file, section, at, of_clone, &mut notes)?);
        at = at.saturating_add(of_clone.saturating_mul(clones));
        files = files.saturating_add((size / common).saturating_mul(count * clones));
    }
    if sizes.iter().any(|s| *s != common) {
        notes.push(format!(
            "files of a target are equally large: sections have several of {common} bytes instead \
             of one"
        ));
    }
    if files > MOST_FILES {
        return Err(Error::usage(format!("{files} files are more than a target can have"))
            .with("path", file)
            .hint(format!("use at most {MOST_FILES}, with sizes that divide well")));
    }
    if group.iter().any(|l| !l.pattern.reads() && !l.target.overwrite) {
        notes.push(
            "fio reserves the space of files before it writes them (fallocate); here blocks are \
             allocated by the writes"
                .to_owned(),
        );
    }
    let dir = dir.trim_end_matches('/');
    let path = match (files, group) {
        (1, [section]) => format!("{dir}/{}.0.0", section.name.replace('/', "_")),
        _ => format!("{dir}/"),
    };
    Ok(TargetLayout { path: Some(path), size: Some(at), files, extents, notes })
}

/// Bytes of each file of a section: its extent in whole blocks, and what lies before it.
fn file_size(file: &str, section: &JobSection, notes: &mut Vec<String>) -> Result<u64> {
    let target = &section.target;
    if target.increment > 0 && section.clones > 1 {
        return Err(Error::usage(format!(
            "[{}]: offset_increment in a file of its own for each job cannot be expressed",
            section.name
        ))
        .with("at", format!("{file}:{}", section.number))
        .hint("name the file with filename"));
    }
    let each = target.size.unwrap_or(0) / u64::from(target.count);
    Ok(whole_blocks(section, each, notes).saturating_add(target.offset))
}

/// The workloads of a section whose clones have `of_clone` bytes each, the first at `begin`.
fn own_extents(
    file: &str,
    section: &JobSection,
    begin: u64,
    of_clone: u64,
    notes: &mut Vec<String>,
) -> Result<Vec<WorkloadExtent>> {
    let offset = section.target.offset;
    let skewed = matches!(section.pattern.order, OffsetOrder::Skewed(..)) && section.clones > 1;
    if skewed || offset > 0 {
        return each_clone(file, section, |clone| {
            let from = begin + u64::from(clone) * of_clone + offset;
            (from, Some(of_clone - offset))
        });
    }
    if section.clones > 1 && matches!(section.pattern.order, OffsetOrder::Uniform { .. }) {
        notes.push(format!(
            "[{}]: its {} workers draw from all their files together; in fio each job keeps to \
             its own",
            section.name, section.clones
        ));
    }
    Ok(vec![WorkloadExtent {
        workers: section.clones,
        offset: begin,
        length: Some(of_clone.saturating_mul(u64::from(section.clones))),
    }])
}
