//! The targets of sections that run side by side: path, size and files of each, and which part of it
//! each workload uses. As in fio a section has files of its own; those that name one file share a target.

use std::collections::{BTreeMap, BTreeSet};

use num_integer::gcd;
use taillight_core::Error;

use super::around::format_bytes;
use super::names::directory_of;
use super::pattern::OffsetOrder;
use super::section::JobSection;
use super::target::{FilePlacement, FioEngine, TargetSpec};

/// Workloads one section may become, at most.
const MOST_WORKLOADS: u32 = 256;
/// Files one target may have, at most.
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

/// The target that sections have in common, and the workloads of each of them in order.
#[derive(Debug)]
pub struct TargetLayout {
    /// Path, unless the driver has none.
    pub path: Option<String>,
    /// Bytes, unless it is what exists.
    pub size: Option<u64>,
    pub files: u64,
    /// Bytes at the end of each file that no block reaches.
    pub tail: u64,
    /// What the files are called in the directory of that path; empty where the path is the file, or where Taillight
    /// names them.
    pub names: Vec<String>,
    /// Bytes of each file, where they differ; else empty.
    pub sizes: Vec<u64>,
    /// For each section its workloads.
    pub extents: Vec<Vec<WorkloadExtent>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// The error of two sections that run side by side and differ in `what`.
pub fn differ(first: &JobSection, other: &JobSection, what: &str) -> Error {
    Error::usage(format!(
        "[{}] and [{}] run side by side but differ in {what}, which is one for both",
        first.name, other.name
    ))
    .with("at", &other.place)
    .hint(format!(
        "put stonewall into [{}] to run it afterwards, or make them two files",
        other.name
    ))
}

/// The sections of a group, by number, that have a target in common, in their order.
pub fn shares(group: &[JobSection]) -> Vec<Vec<usize>> {
    let mut shares: Vec<Vec<usize>> = Vec::new();
    // The first section that has a file; those without one have nothing in common.
    let mut owners: BTreeMap<Option<&String>, usize> = BTreeMap::new();
    for (number, section) in group.iter().enumerate() {
        let paths = section.target.paths();
        let keys: Vec<Option<&String>> = match paths.is_empty() {
            true => vec![None],
            false => paths.into_iter().map(Some).collect(),
        };
        let with: BTreeSet<usize> =
            keys.into_iter().map(|key| *owners.entry(key).or_insert(number)).collect();
        let same = |share: &Vec<usize>| share.iter().any(|n| with.contains(n));
        let (together, apart): (Vec<Vec<usize>>, Vec<Vec<usize>>) =
            shares.into_iter().partition(same);
        let mut joined = together.concat();
        joined.push(number);
        joined.sort_unstable();
        shares = apart;
        shares.push(joined);
    }
    shares.sort_unstable();
    shares
}

/// The error of a section that has some files of another one beside it, but not the same ones of the same size.
fn shares_some(section: &JobSection) -> Error {
    let what = format!(
        "[{}] shares some of its files, or files of other sizes, with a section beside it, which cannot be \
         expressed",
        section.name
    );
    let hint = "give both the same numjobs, nrfiles and size, or put stonewall between them";
    Error::usage(what).with("at", &section.place).hint(hint)
}

/// Finds the layout of sections that have a target in common. What does not fit into one goes to `wrong`.
pub fn layout(group: &[&JobSection], wrong: &mut Vec<Error>) -> TargetLayout {
    let first = group[0];
    for other in &group[1..] {
        let (a, b) = (&first.target, &other.target);
        let own = |files: &FilePlacement| match files {
            FilePlacement::Own(paths) => {
                paths.concat().first().map(|path| directory_of(path).to_owned())
            }
            _ => None,
        };
        let side_by_side = own(&a.files).is_some() && own(&a.files) == own(&b.files);
        let warm = |t: &TargetSpec| t.options.get("cache").and_then(|v| v.as_str()) == Some("warm");
        if warm(a) != warm(b) {
            wrong.push(differ(first, other, "pre_read, of what they share"));
        }
        if a.files != b.files && !side_by_side {
            wrong.push(shares_some(other));
        }
    }
    let mut layout = match &first.target.files {
        _ if group.iter().any(|s| !s.target.sizes.is_empty()) => sized_files(group, wrong),
        FilePlacement::Own(paths) => own_files(paths, group, wrong),
        FilePlacement::Named(path) => shared_file(Some(path), group, wrong),
        FilePlacement::Several(paths) | FilePlacement::Apart(paths) => {
            shared_files(paths, group, wrong)
        }
        FilePlacement::None => shared_file(None, group, wrong),
    };
    for (section, extents) in group.iter().zip(&layout.extents) {
        let step = block_step(section);
        let off = |e: &&WorkloadExtent| {
            let whole =
                e.offset.is_multiple_of(step) && e.length.is_none_or(|l| l.is_multiple_of(step));
            // That no block fits is said of `bs`.
            let fits = e.length.is_none_or(|l| l >= section.pattern.block.max());
            !whole && fits && finer_step(section, e).is_none()
        };
        if let Some(extent) = extents.iter().find(off) {
            let what = format!(
                "`offset` in [{}]: a part from {} on is no whole number of blocks of {}, which cannot be expressed",
                section.name,
                format_bytes(extent.offset),
                format_bytes(step)
            );
            let hint = "use sizes and offsets that the block divides, and stonewall between sections of different blocks";
            wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
        }
    }
    // An extent that is the whole target needs no words.
    for extent in layout.extents.iter_mut().flatten() {
        if extent.offset == 0 && extent.length == layout.size {
            extent.length = None;
        }
    }
    layout
}

/// What every offset and size of a section divides by.
fn block_step(section: &JobSection) -> u64 {
    let blocks = section.pattern.block.common_divisor();
    section.pattern.align.unwrap_or(blocks).max(1)
}

/// What blocks in a sequence begin at multiples of, where their part of the target begins at no multiple of a block.
pub fn finer_step(section: &JobSection, extent: &WorkloadExtent) -> Option<u64> {
    let step = block_step(section);
    let finer = gcd(gcd(step, extent.offset), extent.length.unwrap_or(0));
    let sequence = section.pattern.order.walks() && section.pattern.align.is_none();
    Some(finer).filter(|finer| sequence && *finer < step && *finer >= SECTOR)
}

/// Bytes of the smallest block of a device.
const SECTOR: u64 = 512;

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
fn shared_file(path: Option<&str>, group: &[&JobSection], wrong: &mut Vec<Error>) -> TargetLayout {
    let (mut notes, mut extents) = (Vec::new(), Vec::new());
    let (mut used, mut whole) = (Some(0), 0_u64);
    for section in group {
        let target = &section.target;
        let size = target.size.map(|s| whole_blocks(section, s, &mut notes));
        let sliced = size == Some(target.increment)
            && !matches!(section.pattern.order, OffsetOrder::Skewed(..));
        let apart = target.engine != FioEngine::Null
            && section.clones > 1
            && !sliced
            && (target.increment > 0 || section.pattern.order.walks());
        let list = if apart || has_rows(section) {
            let each = |clone: u32| (target.offset + u64::from(clone) * target.increment, size);
            each_clone(section, wrong, each)
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
            used = used.zip(last).map(|(a, b): (u64, u64)| a.max(b));
        }
        whole = whole.max(whole_file(target));
        note_shared_pass(section, list.len(), &mut notes);
        extents.push(list);
    }
    let (size, tail) = match used {
        None => (None, 0),
        Some(0) => (Some(whole), 0),
        Some(used) => {
            let (size, tail) = single_file(used, whole);
            (Some(size), tail)
        }
    };
    if path.is_some() && group.iter().any(|l| l.pattern.writes() || !l.pattern.reads()) {
        notes.push(
            "what Taillight did not make is overwritten only with destroy = true in the target's table and \
             --destroy TARGET"
                .to_owned(),
        );
    }
    TargetLayout {
        path: path.map(str::to_owned),
        size,
        files: 1,
        tail,
        names: Vec::new(),
        sizes: Vec::new(),
        extents,
        notes,
    }
}

/// Whether each job is a workload, because fio reports it in a row of its own: 2 to [`MOST_ROWS`] jobs without
/// `group_reporting`.
fn has_rows(section: &JobSection) -> bool {
    (2..=MOST_ROWS).contains(&section.clones) && !section.grouped
}

/// Jobs of a section that have a row each: as many as can still be looked at.
const MOST_ROWS: u32 = 64;

/// Says of jobs without `group_reporting` that they are one row all the same.
fn note_one_row(section: &JobSection, notes: &mut Vec<String>) {
    if section.clones > 1 && !section.grouped {
        notes.push(format!(
            "[{}]: its {} jobs are one workload, and one row in fio's JSON, as with group_reporting (up to {MOST_ROWS} have \
             one each)",
            section.name, section.clones
        ));
    }
}

/// Says what the jobs of a section share where it has one workload: a row, and, where each block is drawn once, the
/// pass over all blocks.
fn note_shared_pass(section: &JobSection, workloads: usize, notes: &mut Vec<String>) {
    if workloads == 1 {
        note_one_row(section, notes);
    }
    if workloads == 1
        && section.clones > 1
        && section.pattern.order == (OffsetOrder::Uniform { cover: true })
    {
        notes.push(format!(
            "[{}]: a pass over all blocks is shared by the {} workers; in fio each job makes its own",
            section.name, section.clones
        ));
    }
}

/// The clones of a section on all of its `total` bytes: by themselves where each walks or has a row of its own, else as
/// workers of one workload.
fn on_all(section: &JobSection, total: u64, wrong: &mut Vec<Error>) -> Vec<WorkloadExtent> {
    let walks = section.clones > 1 && section.pattern.order.walks();
    match walks || has_rows(section) {
        true => each_clone(section, wrong, |_| (0, Some(total))),
        false => {
            vec![WorkloadExtent { workers: section.clones, offset: 0, length: Some(total) }]
        }
    }
}

/// All clones of all sections on the same files.
fn shared_files(paths: &[String], group: &[&JobSection], wrong: &mut Vec<Error>) -> TargetLayout {
    let (mut notes, mut extents) = (Vec::new(), Vec::new());
    let files = paths.len() as u64;
    let sizes: Vec<u64> =
        group.iter().map(|section| file_size(section, &mut notes, wrong)).collect();
    if let Some((other, _)) = group.iter().zip(&sizes).find(|(_, size)| **size != sizes[0]) {
        wrong.push(differ(group[0], other, "size of the files that they share"));
    }
    let total = sizes[0].saturating_mul(files);
    for section in group {
        let list = on_all(section, total, wrong);
        note_shared_pass(section, list.len(), &mut notes);
        extents.push(list);
    }
    TargetLayout {
        path: Some(directory_of(&paths[0]).to_owned()),
        size: Some(total),
        files,
        tail: tail(group, &sizes),
        names: names_of(paths).unwrap_or_default(),
        sizes: Vec::new(),
        extents,
        notes,
    }
}

/// Files of different sizes, which one section alone has.
fn sized_files(group: &[&JobSection], wrong: &mut Vec<Error>) -> TargetLayout {
    let section = group[0];
    let mut bad = |what: &str, hint: &str| {
        let what = format!("`filesize` in [{}]: {what}", section.name);
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint.to_owned()));
    };
    let paths: Vec<String> = section.target.paths().into_iter().cloned().collect();
    let own = matches!(&section.target.files, FilePlacement::Own(jobs) if jobs.len() > 1);
    if group.len() > 1 || own {
        let what = "sections side by side on the same files of different sizes";
        bad(what, "put stonewall between the sections");
    }
    let names = names_of(&paths).filter(|_| paths.len() as u64 <= MOST_FILES);
    if names.is_none() {
        bad("the files lie in several directories, or are too many", "name one directory");
    }
    let total = section.target.sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
    let mut extents = vec![on_all(section, total, wrong)];
    extents.resize(group.len(), Vec::new());
    TargetLayout {
        path: paths.first().map(|path| directory_of(path).to_owned()),
        size: Some(total),
        files: paths.len() as u64,
        tail: 0,
        names: names.unwrap_or_default(),
        sizes: section.target.sizes.clone(),
        extents,
        notes: Vec::new(),
    }
}

/// The names of files in one directory; none where two have one name.
fn names_of(paths: &[String]) -> Option<Vec<String>> {
    let dir = directory_of(paths.first()?);
    let names = paths.iter().map(|path| {
        let name = path.strip_prefix(dir).unwrap_or(path);
        (directory_of(path) == dir && !name.is_empty()).then(|| name.to_owned())
    });
    let names: Vec<String> = names.collect::<Option<_>>()?;
    let apart = names.iter().collect::<BTreeSet<_>>().len() == names.len();
    apart.then_some(names)
}

/// One workload for each clone.
fn each_clone(
    section: &JobSection,
    wrong: &mut Vec<Error>,
    extent: impl Fn(u32) -> (u64, Option<u64>),
) -> Vec<WorkloadExtent> {
    if section.clones > MOST_WORKLOADS {
        let what = format!(
            "`numjobs` in [{}]: {} jobs with an extent each are too many workloads",
            section.name, section.clones
        );
        let hint = format!("use at most {MOST_WORKLOADS}");
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    }
    let each = |clone| {
        let (offset, length) = extent(clone);
        WorkloadExtent { workers: 1, offset, length }
    };
    (0..section.clones.min(MOST_WORKLOADS)).map(each).collect()
}

/// Files of its own for every clone: a directory of equal files, a run of them for each.
fn own_files(paths: &[Vec<String>], group: &[&JobSection], wrong: &mut Vec<Error>) -> TargetLayout {
    let mut notes = Vec::new();
    let sizes: Vec<u64> =
        group.iter().map(|section| file_size(section, &mut notes, wrong)).collect();
    let common = sizes.iter().fold(0, |d, s| gcd(d, *s)).max(1);
    let (mut extents, mut files) = (Vec::new(), 0_u64);
    let mut placed = PlacedFiles::default();
    for (section, size) in group.iter().zip(&sizes) {
        let count = u64::from(section.target.count);
        let of_clone = size.saturating_mul(count);
        let (begin, more) = placed.add(section, of_clone, wrong);
        extents.push(own_extents(section, begin, of_clone, &mut notes, wrong));
        files = files.saturating_add((size / common).saturating_mul(count * more));
    }
    let at = placed.end;
    if sizes.iter().any(|s| *s != common) {
        notes.push(format!(
            "files of a target are equally large: sections have several of {common} bytes instead \
             of one"
        ));
    }
    if files > MOST_FILES {
        let hint = format!("use at most {MOST_FILES}, with sizes that divide well");
        let what = format!("{files} files are more than a target can have");
        wrong.push(Error::usage(what).with("at", &group[0].place).hint(hint));
    }
    if group.iter().any(|l| !l.pattern.reads() && !l.target.overwrite) {
        notes.push(
            "fio reserves the space of files before it writes them (fallocate); here blocks are \
             allocated by the writes"
                .to_owned(),
        );
    }
    let names = names_of(&placed.paths).filter(|names| names.len() as u64 == files);
    let first = paths.iter().flatten().next().cloned().unwrap_or_default();
    let path = match (files, names.is_some()) {
        (1, _) => first,
        (_, true) => directory_of(&first).to_owned(),
        // A directory of its own, that sections of one name share: what else is in this one stays apart.
        (_, false) => {
            let headings: Vec<&str> = group.iter().map(|s| s.heading.as_str()).collect();
            let name = crate::name_of_run(&headings.join("-"), 56);
            let dir = format!("{}{name}/", directory_of(&first));
            notes.push(format!("several files of its own lie in {dir}, under names of Taillight"));
            dir
        }
    };
    // What blocks leave out of a single file is a part of it all the same.
    let (size, tail) = match (files, group) {
        (1, [section]) => single_file(at, whole_file(&section.target)),
        (1, _) => (at, 0),
        _ => (at, tail(group, &sizes)),
    };
    let names = names.filter(|_| files > 1).unwrap_or_default();
    let sizes = Vec::new();
    TargetLayout { path: Some(path), size: Some(size), files, tail, names, sizes, extents, notes }
}

/// Size and tail of a single file of `whole` bytes, of which blocks use the first `used`: direct I/O needs whole
/// sectors, so that what is left of one is behind them.
fn single_file(used: u64, whole: u64) -> (u64, u64) {
    let whole = whole.max(used);
    if whole.is_multiple_of(SECTOR) { (whole, 0) } else { (used, whole - used) }
}

/// Bytes of the one file of a section, as fio lays it out.
fn whole_file(target: &TargetSpec) -> u64 {
    target.file.unwrap_or(0).max(target.size.unwrap_or(0).saturating_add(target.offset))
}

/// The files of one clone, and where in a target they lie.
#[derive(PartialEq)]
struct PlacedClone {
    begin: u64,
    bytes: u64,
    files: Vec<String>,
}

/// Where in a target the files of each clone lie.
#[derive(Default)]
struct PlacedFiles {
    clones: Vec<PlacedClone>,
    /// By path the number of the clone that has it.
    owners: BTreeMap<String, usize>,
    paths: Vec<String>,
    end: u64,
}

impl PlacedFiles {
    /// The clone that has any of these files.
    fn known(&self, files: &[String]) -> Option<&PlacedClone> {
        files.iter().find_map(|path| self.clones.get(*self.owners.get(path)?))
    }

    /// Places the files of a section, each clone with `of_clone` bytes, those of other sections where they lie: where
    /// its first clone begins, and the clones whose files are new. Complains where they are not one behind another, or
    /// where what is known has other files or sizes.
    fn add(&mut self, section: &JobSection, of_clone: u64, wrong: &mut Vec<Error>) -> (u64, u64) {
        let FilePlacement::Own(clones) = &section.target.files else { return (self.end, 0) };
        let begin = clones.first().and_then(|files| self.known(files));
        let begin = begin.map_or(self.end, |known| known.begin);
        let (mut at, mut more) = (begin, 0);
        for files in clones {
            let placed = PlacedClone { begin: at, bytes: of_clone, files: files.clone() };
            let known = self.known(files);
            if !known.map_or(self.end == at, |known| *known == placed) {
                wrong.push(shares_some(section));
                break;
            }
            let new = known.is_none();
            at = at.saturating_add(of_clone);
            if new {
                let number = self.clones.len();
                self.owners.extend(files.iter().map(|path| (path.clone(), number)));
                self.paths.extend(files.iter().cloned());
                self.clones.push(placed);
                (self.end, more) = (at, more + 1);
            }
        }
        (begin, more)
    }
}

/// Bytes of each file of a section: its extent in whole blocks, and what lies before it.
fn file_size(section: &JobSection, notes: &mut Vec<String>, wrong: &mut Vec<Error>) -> u64 {
    let target = &section.target;
    if target.increment > 0 && section.clones > 1 {
        let what = format!(
            "`offset_increment` in [{}]: in a file of its own for each job it cannot be expressed",
            section.name
        );
        wrong.push(
            Error::usage(what).with("at", &section.place).hint("name the file with filename"),
        );
    }
    let each = target.size.unwrap_or(0) / u64::from(target.count);
    whole_blocks(section, each, notes).saturating_add(target.offset)
}

/// What is left of each file, as fio lays it out, behind `sizes` of whole blocks; none where sections differ in it.
fn tail(group: &[&JobSection], sizes: &[u64]) -> u64 {
    let of = |(section, size): (&&JobSection, &u64)| {
        let target = &section.target;
        let each = target.size.unwrap_or(0) / u64::from(target.count);
        target.file.unwrap_or(0).max(each.saturating_add(target.offset)).saturating_sub(*size)
    };
    let mut tails = group.iter().zip(sizes).map(of);
    let first = tails.next().unwrap_or(0);
    if tails.all(|tail| tail == first) { first } else { 0 }
}

/// The workloads of a section whose clones have `of_clone` bytes each, the first at `begin`.
fn own_extents(
    section: &JobSection,
    begin: u64,
    of_clone: u64,
    notes: &mut Vec<String>,
    wrong: &mut Vec<Error>,
) -> Vec<WorkloadExtent> {
    let offset = section.target.offset;
    let order = &section.pattern.order;
    let steps = !matches!(order, OffsetOrder::Uniform { .. } | OffsetOrder::Sequential);
    if (steps && section.clones > 1) || offset > 0 || has_rows(section) {
        each_clone(section, wrong, |clone| {
            let from = begin + u64::from(clone) * of_clone + offset;
            (from, Some(of_clone.saturating_sub(offset)))
        })
    } else {
        note_one_row(section, notes);
        if section.clones > 1 && matches!(order, OffsetOrder::Uniform { .. }) {
            notes.push(format!(
                "[{}]: its {} workers draw from all their files together; in fio each job keeps to \
                 its own",
                section.name, section.clones
            ));
        }
        let length = Some(of_clone.saturating_mul(u64::from(section.clones)));
        vec![WorkloadExtent { workers: section.clones, offset: begin, length }]
    }
}
