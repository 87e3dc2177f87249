//! Sections that run side by side on one target: its path, size and files, and which part of it
//! each workload uses. fio gives every section its own target; a Taillight job has one, so what
//! does not fit into one is refused here.

use taillight_core::{Error, Result};

use super::load::Load;
use super::pattern::{Block, Draw};
use super::place::{Engine, Files};

/// Workloads one section may become.
const MOST_INSTANCES: u32 = 256;
/// Files one target may have.
const MOST_FILES: u64 = 65_535;

/// One workload of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub workers: u32,
    /// Start of its extent.
    pub offset: u64,
    /// Length of its extent; `None` = to the end of the target.
    pub length: Option<u64>,
}

/// The target of a group, and the workloads of each of its sections in order.
#[derive(Debug)]
pub struct Layout {
    /// Path, unless the driver has none.
    pub path: Option<String>,
    /// Bytes, unless it is what exists.
    pub size: Option<u64>,
    pub files: u64,
    /// For each section its workloads.
    pub instances: Vec<Vec<Instance>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Refuses two sections that need different targets or runs.
pub fn differ(file: &str, first: &Load, other: &Load, what: &str) -> Error {
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

/// Finds the layout.
///
/// # Errors
/// `Usage`, naming section and line.
pub fn layout(file: &str, group: &[Load]) -> Result<Layout> {
    let Some(first) = group.first() else {
        return Err(Error::internal("a group without sections"));
    };
    for other in &group[1..] {
        let (a, b) = (&first.place, &other.place);
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
    let mut layout = match &first.place.files {
        Files::Own(dir) => own(file, dir, group)?,
        Files::Named(path) => shared(file, Some(path), group)?,
        Files::None => shared(file, None, group)?,
    };
    // An extent that is the whole target needs no words.
    for instance in layout.instances.iter_mut().flatten() {
        if instance.offset == 0 && instance.length == layout.size {
            instance.length = None;
        }
    }
    Ok(layout)
}

/// What every offset and size of a section divides by.
fn grain(load: &Load) -> u64 {
    let blocks = match &load.pattern.block {
        Block::Fixed(size) => *size,
        Block::Split(parts) => parts.iter().fold(0, |d, (size, _)| gcd(d, *size)),
        Block::Range(min, _) => *min,
    };
    load.pattern.align.unwrap_or(blocks).max(1)
}

/// The size of a section in whole blocks.
fn whole_blocks(load: &Load, size: u64, notes: &mut Vec<String>) -> u64 {
    let grain = grain(load);
    let down = size / grain * grain;
    if down != size && down > 0 {
        notes.push(format!(
            "[{}]: {} bytes at the end are no whole block and left out, as fio leaves them",
            load.name,
            size - down
        ));
        return down;
    }
    size
}

/// All clones of all sections on one file, one device, or none.
fn shared(file: &str, path: Option<&str>, group: &[Load]) -> Result<Layout> {
    let (mut notes, mut instances) = (Vec::new(), Vec::new());
    let mut end = Some(0);
    for load in group {
        let place = &load.place;
        let size = place.size.map(|s| whole_blocks(load, s, &mut notes));
        let sliced =
            size == Some(place.increment) && !matches!(load.pattern.draw, Draw::Skewed(..));
        let apart = place.engine != Engine::Null
            && load.clones > 1
            && (place.increment > 0 || load.pattern.draw == Draw::Walk);
        let list = if apart && !sliced {
            each_clone(file, load, |clone| {
                (place.offset + u64::from(clone) * place.increment, size)
            })?
        } else {
            let times = if sliced { u64::from(load.clones) } else { 1 };
            vec![Instance {
                workers: load.clones,
                offset: place.offset,
                length: size.map(|s| s.saturating_mul(times)),
            }]
        };
        for instance in &list {
            let last = instance.length.map(|l| instance.offset.saturating_add(l));
            end = end.zip(last).map(|(a, b): (u64, u64)| a.max(b));
        }
        if load.clones > 1 && load.pattern.draw == (Draw::Uniform { cover: true }) {
            notes.push(format!(
                "[{}]: a pass over all blocks is shared by the {} workers; in fio each job makes \
                 its own",
                load.name, load.clones
            ));
        }
        instances.push(list);
    }
    let size = end;
    if path.is_some()
        && group
            .iter()
            .any(|l| l.pattern.writes() || !l.pattern.reads())
    {
        notes.push(
            "what Taillight did not make is overwritten only with destroy = true in [target] and \
             --destroy TARGET"
                .to_owned(),
        );
    }
    Ok(Layout {
        path: path.map(str::to_owned),
        size,
        files: 1,
        instances,
        notes,
    })
}

/// One workload for each clone.
fn each_clone(
    file: &str,
    load: &Load,
    extent: impl Fn(u32) -> (u64, Option<u64>),
) -> Result<Vec<Instance>> {
    if load.clones > MOST_INSTANCES {
        return Err(Error::usage(format!(
            "`numjobs` in [{}]: {} jobs with an extent each are too many workloads",
            load.name, load.clones
        ))
        .with("at", format!("{file}:{}", load.number))
        .hint(format!("use at most {MOST_INSTANCES}")));
    }
    Ok((0..load.clones)
        .map(|clone| {
            let (offset, length) = extent(clone);
            Instance {
                workers: 1,
                offset,
                length,
            }
        })
        .collect())
}

/// Files of its own for every clone: a directory of equal files, a run of them for each.
fn own(file: &str, dir: &str, group: &[Load]) -> Result<Layout> {
    let mut notes = Vec::new();
    let sizes = group
        .iter()
        .map(|load| file_size(file, load, &mut notes))
        .collect::<Result<Vec<u64>>>()?;
    let common = sizes.iter().fold(0, |d, s| gcd(d, *s)).max(1);
    let (mut instances, mut at, mut files) = (Vec::new(), 0_u64, 0_u64);
    for (load, size) in group.iter().zip(&sizes) {
        let clones = u64::from(load.clones);
        let count = u64::from(load.place.count);
        let of_clone = size.saturating_mul(count);
        instances.push(own_extents(file, load, at, of_clone, &mut notes)?);
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
        return Err(
            Error::usage(format!("{files} files are more than a target can have"))
                .with("path", file)
                .hint(format!(
                    "use at most {MOST_FILES}, with sizes that divide well"
                )),
        );
    }
    if group
        .iter()
        .any(|l| !l.pattern.reads() && !l.place.options.overwrite)
    {
        notes.push(
            "fio reserves the space of files before it writes them (fallocate); here blocks are \
             allocated by the writes"
                .to_owned(),
        );
    }
    let dir = dir.trim_end_matches('/');
    let path = match (files, group) {
        (1, [load]) => format!("{dir}/{}.0.0", load.name.replace('/', "_")),
        _ => format!("{dir}/"),
    };
    Ok(Layout {
        path: Some(path),
        size: Some(at),
        files,
        instances,
        notes,
    })
}

/// Bytes of each file of a section: its extent in whole blocks, and what lies before it.
fn file_size(file: &str, load: &Load, notes: &mut Vec<String>) -> Result<u64> {
    let place = &load.place;
    if place.increment > 0 && load.clones > 1 {
        return Err(Error::usage(format!(
            "[{}]: offset_increment in a file of its own for each job cannot be expressed",
            load.name
        ))
        .with("at", format!("{file}:{}", load.number))
        .hint("name the file with filename"));
    }
    let each = place.size.unwrap_or(0) / u64::from(place.count);
    Ok(whole_blocks(load, each, notes).saturating_add(place.offset))
}

/// The workloads of a section whose clones have `of_clone` bytes each, the first at `begin`.
fn own_extents(
    file: &str,
    load: &Load,
    begin: u64,
    of_clone: u64,
    notes: &mut Vec<String>,
) -> Result<Vec<Instance>> {
    let offset = load.place.offset;
    let skewed = matches!(load.pattern.draw, Draw::Skewed(..)) && load.clones > 1;
    if skewed || offset > 0 {
        return each_clone(file, load, |clone| {
            let from = begin + u64::from(clone) * of_clone + offset;
            (from, Some(of_clone - offset))
        });
    }
    if load.clones > 1 && matches!(load.pattern.draw, Draw::Uniform { .. }) {
        notes.push(format!(
            "[{}]: its {} workers draw from all their files together; in fio each job keeps to \
             its own",
            load.name, load.clones
        ));
    }
    Ok(vec![Instance {
        workers: load.clones,
        offset: begin,
        length: Some(of_clone.saturating_mul(u64::from(load.clones))),
    }])
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
