//! The target of a section: how I/O is issued, files, size and the options of the target.

use std::collections::BTreeMap;

use taillight_core::plan::BlockSize;

use super::around::{Existing, format_bytes};
use super::demand;
use super::names;
use super::read::SectionReader;
use super::sizes;
use super::value::{self, Amount};

/// Switches of the ring: fio's option and ours.
pub const RING_SWITCHES: [(&str, &str); 4] = [
    ("fixedbufs", "fixed_buffers"),
    ("registerfiles", "registered_files"),
    ("hipri", "iopoll"),
    ("sqthread_poll", "sqpoll"),
];

/// How I/O is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioEngine {
    /// One blocking call at a time.
    Sync,
    /// One copy at a time, to or from a mapping.
    Mmap,
    /// A ring with a queue.
    Uring,
    Null,
}

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlacement {
    /// Every clone has files of its own: for each clone its paths.
    Own(Vec<Vec<String>>),
    /// One file or device, named; all clones share it.
    Named(String),
    /// Several files of one directory, which all clones share.
    Several(Vec<String>),
    /// Several devices, or files of several directories, which all clones share.
    Apart(Vec<String>),
    /// No file at all.
    None,
}

/// The target of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetSpec {
    pub engine: FioEngine,
    pub files: FilePlacement,
    /// Files of each clone.
    pub count: u32,
    /// How often each clone opens its one file, and goes over it each time.
    pub walks: u32,
    /// Bytes of each clone; `None` = all there is.
    pub size: Option<u64>,
    /// Bytes of each file, where `filesize` says so, or where it is there and bounds what jobs further in have left.
    pub file: Option<u64>,
    /// Bytes of each file where they differ, job by job.
    pub sizes: Vec<u64>,
    /// Bytes that a clone does (`size`), where its `sizes` have more together.
    pub limit: Option<u64>,
    pub offset: u64,
    /// Bytes by which each clone begins behind the one before.
    pub increment: u64,
    /// Past the page cache.
    pub direct: bool,
    /// Laid out before writing too.
    pub overwrite: bool,
    /// `[target.options]`, as this section asks for them.
    pub options: toml::Table,
    /// What has to be there before the run, as fio asks.
    pub needs: Vec<Needed>,
}

impl TargetSpec {
    /// Bytes of one pass over all that a clone goes over, in such blocks.
    pub fn pass_bytes(&self, block: &BlockSize) -> Option<u64> {
        let once = match self.sizes.is_empty() {
            true => demand::pass_bytes(self.size?, self.count, block),
            false => self.size?,
        };
        Some(once.saturating_mul(u64::from(self.walks)))
    }

    /// Every file or device.
    pub fn paths(&self) -> Vec<&String> {
        match &self.files {
            FilePlacement::Named(path) => vec![path],
            FilePlacement::Several(paths) | FilePlacement::Apart(paths) => paths.iter().collect(),
            FilePlacement::Own(paths) => paths.iter().flatten().collect(),
            FilePlacement::None => Vec::new(),
        }
    }

    /// Bytes of all that a clone goes over in one pass.
    pub fn whole(&self) -> Option<u64> {
        self.size.map(|size| size.saturating_mul(u64::from(self.walks)))
    }
}

/// Something that has to be there before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    pub path: String,
    /// What it has to be.
    pub kind: NeededKind,
    /// The option that says so: `allow_file_create` in a section.
    pub option: String,
    /// File and line of it.
    pub place: String,
}

/// What has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeededKind {
    /// A file or device.
    File,
    Directory,
}

/// Files of each job: those that are named, else `nrfiles`; one where all are the same.
pub fn file_count(r: &SectionReader<'_>) -> u32 {
    match names::given(r).len() {
        _ if same_file(r) > 1 => 1,
        0 => r.small_integer("nrfiles").unwrap_or(1).max(1),
        named => u32::try_from(named).unwrap_or(u32::MAX),
    }
}

/// How often a job opens its one file: `nrfiles`, where `filename_format` calls all of them the same, or so often as
/// `filename` names it, in `[global]` and again in the section. fio goes over each by itself (fio 3.33).
pub fn same_file(r: &SectionReader<'_>) -> u32 {
    let given = names::given(r);
    let format = r.line("filename_format").and_then(|l| l.value.as_deref());
    match given.as_slice() {
        [] if format.is_some_and(|format| !format.contains("$filenum")) => {
            r.small_integer("nrfiles").unwrap_or(1).max(1)
        }
        [first, more @ ..] if more.iter().all(|other| other == first) => {
            u32::try_from(given.len()).unwrap_or(u32::MAX)
        }
        _ => 1,
    }
}

/// Reads everything about the target. `block`: bytes of the smallest block. `made`: bytes of the files that sections
/// before it leave, by path.
pub fn target(
    r: &SectionReader<'_>,
    clones: u32,
    block: u64,
    made: &BTreeMap<String, u64>,
) -> TargetSpec {
    let direct = match r.section().last_of(["direct", "buffered"]) {
        Some(line) if line.name == "direct" => r.boolean("direct", false),
        _ => !r.boolean("buffered", true),
    };
    let (engine, driven) = engine(r, direct);
    let overwrite = r.boolean("overwrite", false);
    let options = options(r, engine, direct, overwrite);
    let count = file_count(r);
    let files = names::placement(r, engine, clones, count);
    if matches!(files, FilePlacement::Named(_)) && count == 1 {
        r.note_if("nrfiles", "it changes nothing beside filename, in fio as here");
    }
    scheduler(r, &files);
    let needs = names::needs(r, &files);
    let mut spec = TargetSpec {
        engine,
        files,
        count,
        walks: same_file(r),
        size: None,
        file: None,
        sizes: Vec::new(),
        limit: None,
        offset: 0,
        increment: 0,
        direct,
        overwrite,
        options,
        needs,
    };
    if driven {
        extent(r, &mut spec, block, made);
    } else {
        spec.size = Some(0);
    }
    spec
}

/// Size and offsets.
fn extent(r: &SectionReader<'_>, spec: &mut TargetSpec, block: u64, made: &BTreeMap<String, u64>) {
    let filesize = match sizes::range(r) {
        Some((low, high)) if low == high => Some(low),
        Some(bounds) => return sizes::drawn(r, spec, bounds, block),
        None if r.raw("filesize").is_some_and(|text| text.contains(['-', ':'])) => Some(block),
        None => r.size("filesize").map(|s| s.0),
    };
    // A share of what filesize says is the whole file.
    spec.file = filesize.filter(|_| !percent(r, "size"));
    let several = filesize.map(|f| f.saturating_mul(u64::from(spec.count)));
    let named = matches!(spec.files, FilePlacement::Named(_) | FilePlacement::Apart(_));
    let sized = filesize.is_some() || r.line("size").is_some();
    if !sized && sizes::existing(r, spec, block, made) {
        return;
    }
    let there = there(r, spec, made, filesize.is_some());
    let whole = several.or(there);
    // Shares begin at the next block and end with the last whole one, as in fio.
    let up = |share: u64| share.div_ceil(block.max(1)).saturating_mul(block);
    let down = |share: u64| share / block.max(1) * block;
    spec.offset = part_of(r, "offset", whole, up).unwrap_or(0);
    spec.increment = part_of(r, "offset_increment", whole, up).unwrap_or(0);
    let rest = whole.filter(|_| !r.boolean("file_append", false));
    let rest = rest.map(|whole| whole.saturating_sub(spec.offset)).filter(|rest| *rest > 0);
    append(r, spec, there);
    filled(r, spec);
    // Of a file or device that is there, size=0 is all of it. A size in bytes is that of all files together.
    let shared = if percent(r, "size") { 1 } else { u64::from(spec.walks) };
    let asked = part_of(r, "size", whole, down).map(|size| size / shared);
    let asked = asked.filter(|size| *size > 0 || !named);
    spec.size = match (asked, rest) {
        (Some(size), Some(rest)) if percent(r, "size") => Some(size.min(rest)),
        (Some(size), _) => Some(size),
        (None, rest) => rest,
    };
    // Of jobs that begin further in, what is there bounds what is left.
    let given = matches!(r.amount("size"), Some(Amount::Bytes(bytes)) if bytes > 0);
    if spec.increment > 0 && !given && matches!(spec.files, FilePlacement::Named(_)) {
        spec.file = spec.file.or(whole);
        let jobs = u64::from(r.small_integer("numjobs").unwrap_or(1).saturating_sub(1));
        let last = spec.offset.saturating_add(spec.increment.saturating_mul(jobs));
        if jobs > 0 && spec.file.is_some_and(|file| last >= file) {
            let what = "the last job begins behind the end of the file, where nothing is left";
            r.wrong_but("offset_increment", what, "give a size in bytes, or fewer jobs", ());
        }
    }
    if let (Some(size), Some(whole)) = (spec.size, several)
        && size > whole
    {
        r.note_if(
            "size",
            &format!("fio ends at {}, as filesize says; so does this job", format_bytes(whole)),
        );
        spec.size = Some(whole);
    }
    if spec.size.is_some() && several.is_some() && spec.size != several && spec.count > 1 {
        r.wrong("size", "a part of several files cannot be expressed", ());
    }
    if spec.offset > 0 && spec.count > 1 {
        r.wrong("offset", "an offset in each of several files cannot be expressed", ());
    }
    if spec.size == Some(0) || (spec.size.is_none() && !named) {
        let hint = "fio refuses this too: write size=1g, or name an existing file";
        r.wrong_but("size", "no size is given", hint, ());
        spec.size = Some(0);
    }
}

/// Bytes of each clone in files and devices that are there, or that sections before leave (`made`); `sized`: `filesize`
/// says how large each is.
fn there(
    r: &SectionReader<'_>,
    spec: &TargetSpec,
    made: &BTreeMap<String, u64>,
    sized: bool,
) -> Option<u64> {
    let bytes_of = |path: &String| bytes_of(r, path, made);
    match &spec.files {
        FilePlacement::Named(path) => bytes_of(path),
        FilePlacement::Several(paths) | FilePlacement::Apart(paths) => {
            let sizes: Vec<Option<u64>> = paths.iter().map(bytes_of).collect();
            let equal = sizes.iter().all(|size| *size == sizes[0]);
            // Devices that each have a workload, as long as it takes, are all that they are.
            let apart =
                matches!(spec.files, FilePlacement::Apart(_)) && r.boolean("time_based", false);
            if !equal && r.line("size").is_none() && !sized && !apart {
                let what = "files of different sizes in turns cannot be expressed";
                r.wrong_but("filename", what, "write time_based=1 and runtime, or a size", ());
            }
            sizes.into_iter().try_fold(0, |sum, size| size.filter(|_| equal).map(|size| sum + size))
        }
        // As much as there is in the files of one clone.
        FilePlacement::Own(paths) => {
            let first = paths.first().and_then(|paths| paths.first()).and_then(bytes_of);
            let equal = || paths.iter().flatten().all(|path| bytes_of(path) == first);
            let there = first.filter(|_| r.line("size").is_none() && !sized && equal());
            there.map(|bytes| bytes.saturating_mul(u64::from(spec.count)))
        }
        FilePlacement::None => None,
    }
}

/// Bytes of a file or device that is there, or that sections before leave (`made`).
pub(super) fn bytes_of(
    r: &SectionReader<'_>,
    path: &str,
    made: &BTreeMap<String, u64>,
) -> Option<u64> {
    let existing = (r.around.existing)(path).and_then(Existing::size);
    existing.filter(|bytes| *bytes > 0).max(made.get(path).copied())
}

/// `file_append`: what is written comes behind what is there.
fn append(r: &SectionReader<'_>, spec: &mut TargetSpec, there: Option<u64>) {
    const NAME: &str = "file_append";
    if !r.boolean(NAME, false) {
        return;
    }
    let loops = r.integer("loops").is_some_and(|n| n > 1) || r.line("io_size").is_some();
    let jobs = r.small_integer("numjobs").is_some_and(|n| n > 1);
    let plain = r.raw("rw") == Some("write") && r.line("offset").is_none();
    if spec.count > 1 || spec.walks > 1 || loops || jobs || !plain {
        let what =
            "only one job that writes one file in order, once, is expressed behind what is there";
        r.wrong(NAME, what, ());
    }
    if let Some(there) = there {
        r.note_if(NAME, &format!("it begins behind the {} that are there", format_bytes(there)));
        spec.offset = spec.offset.saturating_add(there);
    }
}

/// `fill_device`: writes until nothing fits any more. A device is full at its end.
fn filled(r: &SectionReader<'_>, spec: &TargetSpec) {
    const NAME: &str = "fill_device";
    if !r.boolean(NAME, false) {
        return;
    }
    let device = match &spec.files {
        FilePlacement::Named(path) => {
            matches!((r.around.existing)(path), Some(Existing::Device(_)))
        }
        _ => false,
    };
    match (device && r.line("size").is_none(), r.line("size").is_some()) {
        (true, _) => r.note_if(NAME, "the device is full at its end"),
        (_, true) => r.note_if(
            NAME,
            "size ends it first, where so much fits; a file system that is full before fails the run here, and ends it in fio",
        ),
        _ => r.wrong_but(
            NAME,
            "a file that grows until the file system is full cannot be expressed",
            "give a size, or name a device without one",
            (),
        ),
    }
}

/// `ioscheduler`: fio sets it, here it has to be set already.
fn scheduler(r: &SectionReader<'_>, files: &FilePlacement) {
    const NAME: &str = "ioscheduler";
    let Some(asked) = r.raw(NAME) else { return };
    let paths: &[String] = match files {
        FilePlacement::Named(path) => std::slice::from_ref(path),
        FilePlacement::Several(paths) | FilePlacement::Apart(paths) => paths,
        FilePlacement::Own(_) | FilePlacement::None => &[],
    };
    let has = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let text = (r.around.text)(&format!("/sys/class/block/{name}/queue/scheduler"));
        text.is_ok_and(|text| text.contains(&format!("[{asked}]")))
    };
    match !paths.is_empty() && paths.iter().all(has) {
        true => r.note_if(NAME, "the device has this scheduler"),
        false => r.wrong_but(
            NAME,
            &format!("the device is not known to have the scheduler `{asked}`, which Taillight does not change"),
            "take the line out; set it in /sys/block/DEVICE/queue/scheduler before the run",
            (),
        ),
    }
}

fn percent(r: &SectionReader<'_>, name: &str) -> bool {
    matches!(r.amount(name), Some(Amount::Percent(_)))
}

/// A size in bytes as it is, or a share of `whole`, put to whole blocks by `rounded`.
fn part_of(
    r: &SectionReader<'_>,
    name: &str,
    whole: Option<u64>,
    rounded: impl Fn(u64) -> u64,
) -> Option<u64> {
    match (r.amount(name)?, whole) {
        (Amount::Bytes(bytes), _) => Some(bytes),
        (Amount::Percent(100), None) if name == "size" => None,
        (Amount::Percent(p), Some(whole)) => {
            let share = rounded(value::share(whole, p));
            r.note_if(
                name,
                &format!("{p} % of {} is {}", format_bytes(whole), format_bytes(share)),
            );
            Some(share)
        }
        (Amount::Percent(_), None) => r.wrong_but(
            name,
            "a percentage needs a file or device that is there, or filesize",
            "write it in bytes, or make the file before",
            None,
        ),
    }
}

/// How I/O is issued, and whether Taillight drives that engine: of a section with another the size is not complained
/// of.
fn engine(r: &SectionReader<'_>, direct: bool) -> (FioEngine, bool) {
    let Some(name) = r.raw("ioengine") else {
        return (FioEngine::Sync, true);
    };
    let engine = match name.split(':').next().unwrap_or_default() {
        "psync" => FioEngine::Sync,
        "sync" | "pvsync" | "pvsync2" | "vsync" => {
            r.note_if("ioengine", "pread and pwrite instead; one blocking call an operation, too");
            FioEngine::Sync
        }
        "io_uring" => FioEngine::Uring,
        "libaio" if !direct => {
            // Linux's io_submit(2) of buffered I/O returns when it is done.
            let why = "without direct=1 the kernel does each operation of libaio while it is submitted, so that \
                       one is in flight whatever iodepth says; so does this job, by pread and pwrite";
            r.note_if("ioengine", why);
            FioEngine::Sync
        }
        "libaio" => {
            r.note_if("ioengine", "io_uring instead");
            FioEngine::Uring
        }
        "posixaio" => {
            r.note_if("ioengine", "io_uring instead of the C library's threads");
            FioEngine::Uring
        }
        "null" => FioEngine::Null,
        "mmap" if direct => {
            return r.wrong(
                "ioengine",
                "mmap with direct=1, which syncs each copy, cannot be expressed",
                (FioEngine::Mmap, false),
            );
        }
        "mmap" => {
            r.note_if("sync", "what is copied into a mapping is not written by calls, so that it changes nothing, in fio as here");
            FioEngine::Mmap
        }
        other => {
            let what = match UNDRIVEN.iter().find(|(names, _)| names.split(' ').any(|n| n == other))
            {
                Some((_, why)) => format!("`{other}` {why}"),
                None => format!("`{other}` has no equivalent; it would change how I/O is done"),
            };
            let hint = "known: psync, sync, pvsync, pvsync2, vsync, mmap, libaio, io_uring, posixaio, null";
            return r.wrong_but("ioengine", &what, hint, (FioEngine::Sync, false));
        }
    };
    (engine, true)
}

/// Engines of fio that are not driven here: names, and what they do.
pub const UNDRIVEN: [(&str, &str); 10] = [
    ("windowsaio", "is of Windows; fio refuses it here too"),
    ("solarisaio", "is of Solaris; fio refuses it here too"),
    ("splice", "moves pages by pipes"),
    ("libpmem dev-dax pmemblk", "drives persistent memory by loads and stores"),
    (
        "io_uring_cmd sg libzbc xnvme spdk libblkio",
        "sends commands to a device past the block layer",
    ),
    ("mtd", "drives raw flash"),
    ("libcufile libhipfile", "moves data into the memory of a GPU"),
    (
        "rados rbd gfapi gfapi_async nfs nbd libiscsi libhdfs dfs ime_psync ime_psyncv ime_aio http \
      rdma net netsplice librpma_apm_client librpma_apm_server librpma_gpspm_client librpma_gpspm_server",
        "talks to a server or cluster; of these Taillight drives S3 and Redis, by job files of its own",
    ),
    (
        "filecreate filestat filedelete dircreate dirstat dirdelete",
        "measures operations on names, not reads and writes; Taillight's driver `metadata` does (`taillight drivers metadata`)",
    ),
    ("cpuio exec e4defrag falloc ftruncate", "does no reads and writes"),
];

fn options(r: &SectionReader<'_>, engine: FioEngine, direct: bool, overwrite: bool) -> toml::Table {
    let pre_read = r.boolean("pre_read", false);
    if pre_read && direct {
        r.wrong("pre_read", "direct=1 goes past the page cache that it fills", ());
    }
    let cache = match (pre_read, r.boolean("invalidate", true)) {
        (true, _) => "warm",
        (false, true) => "drop",
        (false, false) => "keep",
    };
    let ring = engine == FioEngine::Uring;
    let mut options = toml::Table::new();
    let mut set = |name: &str, value: toml::Value| options.insert(name.to_owned(), value);
    let name = match engine {
        FioEngine::Uring => "uring",
        FioEngine::Mmap => "mmap",
        FioEngine::Sync | FioEngine::Null => "sync",
    };
    set("engine", name.into());
    set("direct", direct.into());
    set("cache", cache.into());
    if overwrite {
        set("layout", "always".into());
    }
    let unlink = r.boolean("unlink", false);
    set("keep", (!unlink).into());
    if unlink {
        set("unlink", true.into());
    }
    for (name, field) in RING_SWITCHES {
        let on = r.boolean(name, false);
        if on && name == "hipri" && r.raw("ioengine") == Some("pvsync2") {
            let why = "Linux takes no notice of it in blocking calls (from 5.19 on; an older one polls in fio)";
            r.note_if(name, why);
        } else if on && !ring {
            r.wrong(name, "only the ring engine can do it", ());
        }
        // Fixed buffers and registered files are on by default here, and off in fio.
        let on_by_default = matches!(field, "fixed_buffers" | "registered_files");
        if ring && (on || on_by_default) {
            set(field, on.into());
        }
    }
    if let Some(cpu) = r.small_integer("sqthread_poll_cpu") {
        set("sqpoll_cpu", i64::from(cpu).into());
    }
    if let Some(every) = r.small_integer("force_async").filter(|n| ring && *n > 0) {
        set("force_async", i64::from(every.min(MOST_BATCHED)).into());
    }
    if let Some(batch) = r.small_integer("iodepth_batch").filter(|_| ring) {
        set("submit_batch", i64::from(batch.min(MOST_BATCHED)).into());
    }
    options
}

/// Largest batch of the ring: the deepest queue.
pub const MOST_BATCHED: u32 = 4096;
