//! `file`: files, directories of files and block devices, by pread/pwrite, `io_uring` or mmap: three engines
//! behind one contract.
//!
//! The way through `open`: engine -> place -> confirmation -> trial ring -> guard and sizes -> direct I/O -> layout
//! (devices: purge, fill) -> cache -> ways of single workloads. Until the layout nothing that is there is changed.

mod cache;
mod device;
mod erase;
mod existing;
mod facts;
mod fill;
mod fill_level;
mod layout;
mod needs;
pub mod options;
mod path;
mod plan;
mod prepare;
mod regular;
mod sized;
pub mod stream;
mod sync;
mod sys;
mod target;
mod uring;
mod ways;
mod witness;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
use taillight_core::capability::{Capabilities, DriverFacts};
use taillight_core::plan::{Plan, TargetPlan, WorkShare};
use taillight_core::progress::OnProgress;
use taillight_core::{Error, OpKind, Result};
use taillight_machine::{BlockDevice, Sys};

use crate::buffers::RequestLimits;
use crate::contract::{AdminAction, BoundDriver, Driver, Geometry, OpenSpec, Target};
use crate::identity::contents;
use crate::options::{DriverOptions, OptionSet, complete};
use crate::ownership::{MarkedFiles, NamedTarget, refusal};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
pub(crate) use cache::drop_cached;
use existing::FileOpenSpec;
use facts::Facts;
use layout::LayoutProgress;
use needs::AccessNeeds;
use options::{CacheState, DevicePurge, FileOptions, IoEngine};
use path::TargetPath;
use regular::PreparationPlan;
use sized::SizedFiles;
use target::{FileTarget, Guarded, IoMethod};
use uring::RingConfig;
#[cfg(test)]
pub(crate) use uring::forbid;
use uring::setup::{RingSetup, probe_discard};
use witness::FileWitness;

/// Deepest queue of a worker: its token slots.
const MAX_DEPTH: u32 = 4096;

/// The driver.
pub struct File;

impl Driver for File {
    fn name(&self) -> &'static str {
        "file"
    }
    fn about(&self) -> &'static str {
        "files, directories and block devices, by pread/pwrite or io_uring"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<FileOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(FileOptions::parse(self.name(), &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let mut all = Vec::new();
        for direct in [true, false] {
            for engine in ["sync", "uring"] {
                let more = ["", "files = 4", "fixed_buffers = false\nregistered_files = false"];
                let text = |more| format!("direct = {direct}\nengine = \"{engine}\"\n{more}");
                all.extend(more.map(text));
            }
        }
        all.push("direct = false\nengine = \"mmap\"\nfiles = 2".to_owned());
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Ok(TestTarget::local(dir, "", &all))
    }
}

impl BoundDriver for FileOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync],
            max_depth: match self.ways().iter().all(|way| way.engine.blocks()) {
                true => 1,
                false => MAX_DEPTH,
            },
            direct: self.direct,
            drops_cache: self.ways().iter().any(|way| !way.direct),
            sync: true,
            stores_data: true,
            guarded: true,
            admin: vec![AdminAction::Flush, AdminAction::DropCaches, AdminAction::Purge],
            facts: DriverFacts { single_file: self.files == 1, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let Ok(engine) = choose(self, &AccessNeeds::of(&ways::shared(plan, self))) else {
            return Vec::new();
        };
        let mut notes = Vec::new();
        if self.engine == IoEngine::Auto {
            let name = if engine == IoEngine::Uring { "uring" } else { "sync" };
            notes.push(format!(
                "target.options.engine = \"auto\" becomes \"{name}\" with this plan."
            ));
        }
        let registers = engine == IoEngine::Uring && self.fixed_buffers;
        if registers && !uring::setup::registers_buffers() {
            notes.push(UNREGISTERED_NOTE.to_owned());
        }
        notes
    }
    fn fix_auto_options(&self, target: &mut TargetPlan, deepest: u32) {
        if self.engine == IoEngine::Auto && deepest > 1 {
            target.options.insert("engine".to_owned(), "uring".into());
        }
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        check(File.name(), self, spec)
    }
    fn check_shared(&self, _: &TargetPlan, _: WorkShare) -> Result<()> {
        match self.purge != DevicePurge::None || self.fill.is_asked() {
            true => Err(Error::usage("ranks that share a device cannot purge or fill it")
                .hint("leave purge and fill out, and run them before, by `taillight` on one host")),
            false => Ok(()),
        }
    }
    fn open(&self, spec: &OpenSpec<'_>, progress: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        open(File.name(), self, spec, progress)
    }
}

/// What [`open`] refuses by engine, place, confirmation, guard, sizes or space, and of files by direct I/O. Ring
/// and memory are tried only for the workloads on files that have a way of their own. Nothing is written, and
/// nothing created but a file without a name.
fn check(driver: &str, options: &FileOptions, spec: &OpenSpec<'_>) -> Result<()> {
    let (engine, resolved, request) = open_request(driver, options, spec)?;
    match resolved {
        TargetPath::Device { path } => device::open(&path, &request).map(drop),
        TargetPath::Files(file_set) => {
            let planned = regular::plan_preparation(&file_set, &request)?;
            files_fit(&planned, &request, engine == IoEngine::Uring)
        }
    }
}

/// [`shape_fits`] of the files that are there, or else of their directory: before one is made.
fn files_fit(planned: &PreparationPlan, request: &FileOpenSpec<'_>, uring: bool) -> Result<()> {
    let io = IoFacts { uring, device: false };
    let there = planned.existing_files();
    let scratch = if there.is_empty() { planned.scratch() } else { None };
    let asked = scratch.iter().map(AsFd::as_fd).chain(there).collect::<Vec<_>>();
    shape_fits(&asked, planned.file_size, request, io)
}

/// The way through `open`, for each driver on files.
fn open(
    driver: &str,
    options: &FileOptions,
    spec: &OpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Box<dyn Target>> {
    let (engine, resolved, request) = open_request(driver, options, spec)?;
    let ring = (engine == IoEngine::Uring).then(|| RingSetup::probe(options)).transpose()?;
    // Before anything changes it.
    let lost = request.confirmed.then(|| contents::lost(&resolved.name().to_string_lossy()));
    let mut opened = OpenedTarget::from(resolved, &request, ring.as_ref(), progress)?;
    // A plan that only reads may lay out what is somebody else's.
    let lost = lost.filter(|_| request.changes_device() || opened.watched.is_some());
    opened.facts.extend(lost.filter(|l| !l.is_empty()).map(|l| ("lost".to_owned(), l.join("; "))));
    let target = opened.into_target(&request, ring, progress)?;
    Ok(match options.sizes.is_empty() {
        true => Box::new(target),
        false => Box::new(SizedFiles::new(target, &options.sizes)),
    })
}

/// What is to be opened where, and whether destroying it is confirmed.
fn open_request<'a>(
    driver: &str,
    options: &'a FileOptions,
    spec: &'a OpenSpec<'a>,
) -> Result<(IoEngine, TargetPath, FileOpenSpec<'a>)> {
    let needs = AccessNeeds::of(spec.plan);
    let method = choose(options, &AccessNeeds::of(&ways::shared(spec.plan, options)))?;
    ways::check(spec.plan, options)?;
    let target = &spec.plan.target;
    let path = target.path.as_deref().filter(|p| !p.is_empty());
    let path = path.ok_or_else(|| {
        Error::usage(format!("driver `{driver}` needs a path"))
            .hint("a file, a directory ending in `/`, or a block device: --path /mnt/test/")
    })?;
    let resolved = TargetPath::find(path, options.files, &options.names)?;
    if options.grows && matches!(resolved, TargetPath::Device { .. }) {
        return Err(Error::usage("a device cannot grow")
            .with("path", path)
            .hint("name a file or a directory, or use driver `file`"));
    }
    let name = resolved.name();
    let same = |n: &str| resolved.is(n, options.files);
    let named = NamedTarget::of(name.display());
    let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
    let request = FileOpenSpec { spec, options, needs, confirmed };
    Ok((method, resolved, request))
}

/// What is said of a plan whose buffers would be registered, where they cannot be.
const UNREGISTERED_NOTE: &str = "target.options.fixed_buffers = true is not obeyed here: this process may lock a limited amount of \
     memory only (ulimit -l unlimited, or CAP_IPC_LOCK).";

/// Name of the fact that buffers were to be registered with the ring and could not be.
pub const UNREGISTERED: &str = "io.fixed_buffers";

/// The engine for a plan. Errors: `Usage` for what that engine cannot do.
fn choose(options: &FileOptions, uses: &AccessNeeds) -> Result<IoEngine> {
    let engine = match options.engine {
        IoEngine::Auto if uses.depth > 1 || options.asks_ring() => IoEngine::Uring,
        IoEngine::Auto => IoEngine::Sync,
        given => given,
    };
    if engine.blocks() && uses.depth > 1 {
        return Err(Error::usage("engine = \"sync\" or \"mmap\" has no queue")
            .with("queue_depth", uses.depth)
            .hint("use --set target.options.engine=uring, or more workers instead of depth"));
    }
    if uses.depth > MAX_DEPTH {
        return Err(Error::usage("the queue is too deep")
            .with("queue_depth", uses.depth)
            .with("most", MAX_DEPTH)
            .hint("use a smaller depth and more workers"));
    }
    if engine == IoEngine::Uring && uses.trims_race && !options.blocking_trims {
        return Err(Error::usage("a block may be written before its trim (trim_first) is done")
            .hint("set options.blocking_trims = true, or queue_depth = 1"));
    }
    if options.iopoll && (uses.syncs || uses.trims) {
        return Err(Error::usage("a polled ring knows no fsync, fdatasync or trim")
            .hint("use sync = \"dsync\", or set options.iopoll = false"));
    }
    Ok(engine)
}

/// A target past the guard, data in place.
struct OpenedTarget {
    files: Vec<OwnedFd>,
    file_size: u64,
    made: Option<MarkedFiles>,
    /// Path of the target, where what is in it is somebody else's.
    watched: Option<PathBuf>,
    facts: Facts,
    device: Option<BlockDevice>,
}

impl OpenedTarget {
    fn from(
        resolved: TargetPath,
        request: &FileOpenSpec<'_>,
        ring: Option<&RingSetup>,
        progress: &mut OnProgress<'_>,
    ) -> Result<OpenedTarget> {
        let uring = ring.is_some();
        match resolved {
            TargetPath::Device { path } => {
                if request.options.files > 1 || !request.options.sizes.is_empty() {
                    return Err(Error::usage(
                        "`files` and `sizes` are for directories, not for devices",
                    )
                    .hint("leave them out"));
                }
                let opened = device::open(&path, request)?;
                let io = IoFacts { uring, device: true };
                shape_fits(&[opened.fd.as_fd()], opened.size, request, io)?;
                device::check_fill(&opened, request)?;
                if request.changes_device() {
                    let plan = &ways::shared(request.spec.plan, request.options);
                    target::try_workers(plan, &[opened.fd.as_fd()], ring, true)?;
                }
                let purged = device::purge(&opened, &path, request, progress)?;
                let filled = device::fill(&opened, &path, request, progress)?;
                let stat = rustix::fs::fstat(&opened.fd)
                    .map_err(|e| Error::unavailable("cannot stat the device").source(e))?;
                Ok(OpenedTarget {
                    watched: Some(path).filter(|_| request.changes_device()),
                    files: vec![opened.fd],
                    file_size: opened.size,
                    made: None,
                    facts: [("target.kind".to_owned(), "block device".to_owned())]
                        .into_iter()
                        .chain(purged)
                        .chain(filled)
                        .collect(),
                    device: block_device(stat.st_rdev),
                })
            }
            TargetPath::Files(file_set) => {
                let planned = regular::plan_preparation(&file_set, request)?;
                let foreign = planned.foreign(&request.needs);
                let watched = foreign.first().map(|(_, path)| path.to_path_buf());
                files_fit(&planned, request, uring)?;
                if planned.replaces() {
                    let plan = &ways::shared(request.spec.plan, request.options);
                    target::try_workers(plan, &planned.existing_files(), ring, false)?;
                }
                let ready = regular::open(&file_set, planned, request, progress)?;
                let kind = if file_set.whole_dir { "directory" } else { "file" };
                let mut facts = vec![("target.kind".to_owned(), kind.to_owned())];
                facts.extend(ready.facts);
                Ok(OpenedTarget {
                    watched,
                    files: ready.files,
                    file_size: ready.file_size,
                    made: Some(ready.made),
                    facts,
                    device: None,
                })
            }
        }
    }

    fn into_target(
        self,
        request: &FileOpenSpec<'_>,
        ring: Option<RingSetup>,
        progress: &mut OnProgress<'_>,
    ) -> Result<FileTarget> {
        let OpenedTarget { files, file_size, made, watched, mut facts, device } = self;
        let is_device = made.is_none();
        let options = request.options;
        let all: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        let io = IoFacts { uring: ring.is_some(), device: is_device };
        let align = check_io(&all, file_size, request, io)?;
        let size_of = |n: usize| options.size_of(n, file_size);
        let total = (0..files.len()).map(size_of).sum();
        let mut warm = Vec::new();
        match options.cache {
            CacheState::Keep => {}
            CacheState::Drop => cache::drop_cached(&files)?,
            CacheState::Warm => {
                let what = "filling the page cache";
                let mut meter = LayoutProgress { on: progress, what, done: 0, total };
                warm = cache::warm(&files, size_of, &mut meter)?;
            }
        }
        cache::advise(&files, options.read_ahead)?;
        let resident = cache::resident_share(&files, size_of);
        let files = Arc::new(files);
        let ways = ways::Ways::open(request, &files, is_device)?;
        let align = align.max(ways.align);
        facts.extend(ways.facts());
        let mapped = options.engine == IoEngine::Mmap;
        let blocking = if mapped { IoMethod::Mmap } else { IoMethod::Sync };
        let method = ring.map_or(blocking, |setup| {
            IoMethod::Uring(RingConfig {
                files: Arc::clone(&files),
                setup,
                device: is_device,
                submit_batch: options.submit_batch.resolve(options.direct),
            })
        });
        facts.push(("size.used".to_owned(), total.to_string()));
        facts.push(("io.direct".to_owned(), options.direct.to_string()));
        facts.push(("io.align".to_owned(), align.to_string()));
        facts.extend(method_facts(&method, options));
        let share = resident.map_or("unknown".to_owned(), |s| format!("{:.2} %", s * 100.0));
        facts.push(("cache.resident_at_start".to_owned(), share));
        let below = describe(&files[0], device, &mut facts);
        let direct: Vec<bool> = options.ways().iter().map(|way| way.direct).collect();
        Ok(FileTarget {
            shape: needs::largest_block(request.spec.plan).filter(|_| direct.contains(&true)),
            limits: below.as_ref().and_then(RequestLimits::of),
            geometry: Geometry { files: options.files, file_size, align },
            sizes: options.sizes.iter().map(|size| size.0).collect(),
            method,
            device: is_device,
            writable: request.needs.changes(),
            durability: needs::durability(request.spec.plan),
            facts,
            warm,
            made,
            guarded: Guarded::new(watched, request.spec.stop),
            held: Arc::strong_count(&files),
            witness: FileWitness::new(&files, direct.contains(&false)),
            ways,
            files,
            ends: Arc::default(),
            grows: request.grows(),
        })
    }
}

/// How I/O is issued, for the manifest.
fn method_facts(method: &IoMethod, options: &FileOptions) -> Facts {
    let mut facts = Facts::new();
    match method {
        IoMethod::Sync => facts.push(("io.engine".to_owned(), "sync".to_owned())),
        IoMethod::Mmap => facts.push(("io.engine".to_owned(), "mmap".to_owned())),
        IoMethod::Uring(shared) => {
            let ring = format!("uring {}", shared.setup.describe());
            facts.push(("io.engine".to_owned(), ring));
            if options.fixed_buffers && !shared.setup.fixed_buffers {
                let why = "no: this process may lock a limited amount of memory only";
                facts.push((UNREGISTERED.to_owned(), why.to_owned()));
            }
            let batch = match shared.submit_batch {
                u32::MAX => "what is due".to_owned(),
                n => n.to_string(),
            };
            facts.push(("io.submit_batch".to_owned(), batch));
        }
    }
    facts
}

/// Whether I/O goes through a ring, and whether to a device.
#[derive(Clone, Copy)]
struct IoFacts {
    uring: bool,
    device: bool,
}

/// [`check_io`] of what is there, and whether its shape suits the run: asked before any of it is given up.
fn shape_fits(
    files: &[BorrowedFd<'_>],
    file_size: u64,
    request: &FileOpenSpec<'_>,
    io: IoFacts,
) -> Result<()> {
    let align = check_io(files, file_size, request, io)?;
    let align = align.max(ways::fits(request, files, file_size, io.device)?);
    (request.spec.fits)(request.options.geometry(file_size, align))
}

/// Sets direct I/O, sees whether the files can do what the plan asks, and returns the alignment that it
/// was checked against. Asked of what is there before its data is touched, and of everything when it is
/// laid out. Errors: `Usage` or `Unavailable`, naming the value.
fn check_io(
    files: &[BorrowedFd<'_>],
    file_size: u64,
    request: &FileOpenSpec<'_>,
    io: IoFacts,
) -> Result<u64> {
    let IoFacts { uring, device } = io;
    let direct = request.options.direct;
    for fd in files {
        layout::set_direct(*fd, direct).map_err(|e| {
            Error::unavailable("direct I/O is not possible here")
                .source(e)
                .hint("set options.direct = false to go through the page cache")
        })?;
    }
    let Some(fd) = files.first() else { return Ok(1) };
    if uring && request.options.iopoll {
        polled(*fd)?;
    }
    if uring && device && request.needs.trims {
        probe_discard(*fd)?;
    }
    if !(direct || device && request.needs.trims) {
        return Ok(1);
    }
    let align = match ioctl_blksszget(fd).ok().filter(|_| device) {
        Some(logical) => u64::from(logical),
        None => direct_align(*fd)?,
    };
    let why = if direct { "direct I/O goes by the device's blocks" } else { "trims do" };
    let by_block =
        if direct { &ways::shared(request.spec.plan, request.options) } else { request.spec.plan };
    needs::aligned(by_block, align, why)?;
    (0..usize::from(request.options.files))
        .try_for_each(|n| needs::whole_blocks(request.options.size_of(n, file_size), align))?;
    Ok(align)
}

fn block_device(dev: u64) -> Option<BlockDevice> {
    BlockDevice::from_dev(&Sys::default(), dev)
}

/// Alignment of direct I/O on a file: as the kernel says (6.1), else the device's logical block, else 512.
fn direct_align(fd: BorrowedFd<'_>) -> Result<u64> {
    if let Ok(s) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && s.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        return match (s.stx_dio_offset_align, s.stx_dio_mem_align) {
            (0, _) => Err(Error::unavailable("direct I/O is not possible on this file")
                .hint("set options.direct = false to go through the page cache")),
            (offset, memory) if memory as usize <= crate::buffers::PAGE => Ok(u64::from(offset)),
            (_, memory) => Err(Error::unavailable("direct I/O needs larger alignment in memory")
                .with("bytes", memory)),
        };
    }
    let number = rustix::fs::fstat(fd).map(|s| s.st_dev);
    let block = number.ok().and_then(block_device);
    let logical = block.and_then(|b| b.queue("logical_block_size")?.parse().ok());
    Ok(logical.unwrap_or(512))
}

/// A polled ring on a device without poll queues fails every I/O: better said here.
fn polled(fd: BorrowedFd<'_>) -> Result<()> {
    let on_device = rustix::fs::fstat(fd)
        .ok()
        .and_then(|stat| block_device(stat.st_rdev).or_else(|| block_device(stat.st_dev)));
    match on_device.and_then(|b| b.queue("io_poll")).as_deref() {
        Some("0") => Err(Error::unavailable("the device has no poll queues")
            .hint("set options.iopoll = false (NVMe: poll queues come with nvme.poll_queues=N)")),
        _ => Ok(()),
    }
}

/// Adds what is below the target, and returns the block device there.
fn describe(fd: &OwnedFd, device: Option<BlockDevice>, facts: &mut Facts) -> Option<BlockDevice> {
    let mut below = device;
    if below.is_none() {
        if let Some(mount) = facts::mount_of(fd) {
            facts::add_mount(&mount, facts);
        }
        below = rustix::fs::fstat(fd).ok().and_then(|stat| block_device(stat.st_dev));
    }
    if let Some(block) = &below {
        facts::add_device(block, facts);
    }
    below
}
