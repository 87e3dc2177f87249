//! `file`: files, directories of files and block devices, by pread/pwrite or `io_uring`.
//!
//! What it is: opening past the guard, layout, cache state, and two engines behind one contract.
//! What it is not: a clock or a schedule; `engine` owns those. The way through `open`: options ->
//! place -> confirmation -> files or device (guard, sizes, layout) -> cache -> direct I/O ->
//! ring. Nothing is touched before the guard and the sizes have passed.

mod cache;
pub(crate) mod cannot;
mod decide;
mod device;
mod facts;
mod files;
mod fill;
mod layout;
mod made;
pub mod options;
mod place;
mod prepare;
mod shape;
pub mod stream;
mod sync;
mod sys;
mod target;
mod uring;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
use taillight_core::capability::Capabilities;
use taillight_core::plan::{Before, Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::{Error, OpKind, Result};

use crate::contract::{Driver, Geometry, OpenSpec, OptionDoc, Target};
use crate::guard;
use crate::guard::block::Block;
use facts::Facts;
use files::{Asked, Wanted};
use layout::Meter;
use made::Made;
use options::{Cache, Engine, FileOptions};
use place::Place;
use shape::Uses;
use target::{FileTarget, Issue};
use uring::Shared;
use uring::setup::{Setup, probe_discard};

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
    fn options(&self) -> Vec<OptionDoc> {
        crate::options::docs::<FileOptions>()
    }
    fn resolve(&self, target: &TargetPlan) -> Result<toml::Table> {
        crate::options::complete(&FileOptions::parse(&target.options)?)
    }
    fn capabilities(&self, target: &TargetPlan) -> Result<Capabilities> {
        let options = FileOptions::parse(&target.options)?;
        Ok(Capabilities {
            ops: vec![OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync],
            addressed: true,
            max_depth: if options.engine == Engine::Sync {
                1
            } else {
                MAX_DEPTH
            },
            batches: Vec::new(),
            direct: options.direct,
            sync: true,
            stores_data: true,
            virtual_time: false,
            guarded: true,
            more_ops: Vec::new(),
            sync_with: None,
            own_stamps: false,
            before: vec![Before::Flush, Before::DropCaches],
        })
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        let options = FileOptions::parse(&spec.plan.target.options)?;
        check(self.name(), &options, spec)
    }
    fn open(&self, spec: &OpenSpec<'_>, progress: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let options = FileOptions::parse(&spec.plan.target.options)?;
        open(self.name(), &options, spec, progress)
    }
}

/// The first half of [`open`]: up to where something would be created or written.
fn check(driver: &str, options: &FileOptions, spec: &OpenSpec<'_>) -> Result<()> {
    let (_, place, asked) = asked(driver, options, spec)?;
    match place {
        Place::Device { path } => device::open(&path, &asked).map(drop),
        Place::Files {
            dir,
            dir_absent,
            names,
            ..
        } => {
            let wanted = Wanted {
                dir,
                dir_absent,
                names,
            };
            files::check(&wanted, &asked)
        }
    }
}

/// The way through `open`, for each driver on files.
fn open(
    driver: &str,
    options: &FileOptions,
    spec: &OpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Box<dyn Target>> {
    let (issue, place, asked) = asked(driver, options, spec)?;
    let opened = Opened::from(place, &asked, progress)?;
    opened
        .into_target(&asked, issue, progress)
        .map(|t| Box::new(t) as Box<dyn Target>)
}

/// What is to be opened where, and whether destroying it is confirmed.
fn asked<'a>(
    driver: &str,
    options: &'a FileOptions,
    spec: &'a OpenSpec<'a>,
) -> Result<(Engine, Place, Asked<'a>)> {
    let uses = Uses::of(spec.plan);
    let issue = choose(options, &uses)?;
    let target = &spec.plan.target;
    let path = target.path.as_deref().filter(|p| !p.is_empty());
    let path = path.ok_or_else(|| {
        Error::usage(format!("driver `{driver}` needs a path"))
            .hint("a file, a directory ending in `/`, or a block device: --path /mnt/test/")
    })?;
    let place = Place::find(path, options.files)?;
    if options.grows && matches!(place, Place::Device { .. }) {
        return Err(Error::usage("a device cannot grow")
            .with("path", path)
            .hint("name a file or a directory, or use driver `file`"));
    }
    let name = place.name();
    let same = |n: &str| Place::find(n, options.files).is_ok_and(|p| p == place);
    let confirmed = guard::confirmed(target.destroy, spec.destroy, &name, same)?;
    let asked = Asked {
        spec,
        options,
        uses,
        confirmed,
    };
    Ok((issue, place, asked))
}

/// What `engine = "auto"` becomes with this plan; none when the plan names an engine itself.
pub fn engine(plan: &Plan) -> Option<&'static str> {
    let options = FileOptions::parse(&plan.target.options).ok()?;
    let auto = options.engine == Engine::Auto;
    let chosen = choose(&options, &Uses::of(plan)).ok().filter(|_| auto)?;
    Some(match chosen {
        Engine::Uring => "\"uring\"",
        _ => "\"sync\"",
    })
}

/// Which engine, and what it cannot do.
fn choose(options: &FileOptions, uses: &Uses) -> Result<Engine> {
    let engine = match options.engine {
        Engine::Auto if uses.depth > 1 || options.iopoll || options.sqpoll => Engine::Uring,
        Engine::Auto => Engine::Sync,
        given => given,
    };
    if engine == Engine::Sync && uses.depth > 1 {
        return Err(Error::usage("engine = \"sync\" has no queue")
            .with("queue_depth", uses.depth)
            .hint("use --set target.options.engine=uring, or more workers instead of depth"));
    }
    if uses.depth > MAX_DEPTH {
        return Err(Error::usage("the queue is too deep")
            .with("queue_depth", uses.depth)
            .with("most", MAX_DEPTH)
            .hint("use a smaller depth and more workers"));
    }
    if options.iopoll && (uses.syncs || uses.trims) {
        return Err(
            Error::usage("a polled ring knows no fsync, fdatasync or trim")
                .hint("use sync = \"dsync\", or set options.iopoll = false"),
        );
    }
    Ok(engine)
}

/// A target past the guard, data in place.
struct Opened {
    files: Vec<OwnedFd>,
    file_size: u64,
    made: Option<Made>,
    facts: Facts,
    device: Option<Block>,
}

impl Opened {
    fn from(place: Place, asked: &Asked<'_>, progress: &mut OnProgress<'_>) -> Result<Opened> {
        match place {
            Place::Device { path } => {
                if asked.options.files > 1 {
                    return Err(Error::usage("`files` is for directories, not for devices")
                        .hint("leave `files` out"));
                }
                let opened = device::open(&path, asked)?;
                let stat = rustix::fs::fstat(&opened.fd)
                    .map_err(|e| Error::unavailable("cannot stat the device").source(e))?;
                Ok(Opened {
                    files: vec![opened.fd],
                    file_size: opened.size,
                    made: None,
                    facts: vec![("target.kind".to_owned(), "block device".to_owned())],
                    device: Block::from_number(stat.st_rdev),
                })
            }
            Place::Files {
                dir,
                dir_absent,
                names,
                whole_dir,
            } => {
                let wanted = Wanted {
                    dir,
                    dir_absent,
                    names,
                };
                let ready = files::open(wanted, asked, progress)?;
                let kind = if whole_dir { "directory" } else { "file" };
                let mut facts = vec![("target.kind".to_owned(), kind.to_owned())];
                facts.extend(ready.facts);
                Ok(Opened {
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
        asked: &Asked<'_>,
        engine: Engine,
        progress: &mut OnProgress<'_>,
    ) -> Result<FileTarget> {
        let Opened {
            files,
            file_size,
            made,
            mut facts,
            device,
        } = self;
        let is_device = made.is_none();
        let options = asked.options;
        let align = prepare_io(&files, asked, is_device)?;
        if file_size % align != 0 {
            return Err(Error::usage(
                "the size of a file is not a multiple of the device's blocks",
            )
            .with("size", file_size)
            .with("block", align)
            .hint("give a size that is a multiple of the block"));
        }
        let total = file_size * files.len() as u64;
        let mut warm = Vec::new();
        match options.cache {
            Cache::Keep => {}
            Cache::Drop => cache::drop_cached(&files)?,
            Cache::Warm => {
                let what = "filling the page cache";
                let mut meter = Meter {
                    on: progress,
                    what,
                    done: 0,
                    total,
                };
                warm = cache::warm(&files, file_size, &mut meter)?;
            }
        }
        let resident = cache::resident_share(&files, file_size);
        let files = Arc::new(files);
        let issue = issue(engine, &files, asked, is_device)?;
        facts.push(("size.used".to_owned(), total.to_string()));
        facts.push(("io.direct".to_owned(), options.direct.to_string()));
        facts.push(("io.align".to_owned(), align.to_string()));
        match &issue {
            Issue::Sync => facts.push(("io.engine".to_owned(), "sync".to_owned())),
            Issue::Uring(shared) => {
                let ring = format!("uring {}", shared.setup.describe());
                facts.push(("io.engine".to_owned(), ring));
                let batch = match shared.submit_batch {
                    u32::MAX => "what is due".to_owned(),
                    n => n.to_string(),
                };
                facts.push(("io.submit_batch".to_owned(), batch));
            }
        }
        let share = resident.map_or("unknown".to_owned(), |s| format!("{:.2} %", s * 100.0));
        facts.push(("cache.resident_at_start".to_owned(), share));
        describe(&files[0], device, &mut facts);
        Ok(FileTarget {
            geometry: Geometry {
                files: options.files,
                file_size,
                align,
            },
            issue,
            device: is_device,
            writable: asked.uses.changes(),
            durability: shape::durability(asked.spec.plan),
            facts,
            warm,
            made,
            files,
        })
    }
}

fn issue(
    engine: Engine,
    files: &Arc<Vec<OwnedFd>>,
    asked: &Asked<'_>,
    device: bool,
) -> Result<Issue> {
    if engine != Engine::Uring {
        return Ok(Issue::Sync);
    }
    let setup = Setup::probe(asked.options)?;
    if asked.options.iopoll {
        polled(&files[0])?;
    }
    if device && asked.uses.trims {
        probe_discard(&files[0])?;
    }
    Ok(Issue::Uring(Shared {
        files: Arc::clone(files),
        setup,
        device,
        submit_batch: asked.options.submit_batch.resolve(asked.options.direct),
    }))
}

/// Sets direct I/O and returns the alignment that the plan was checked against.
fn prepare_io(files: &[OwnedFd], asked: &Asked<'_>, device: bool) -> Result<u64> {
    let direct = asked.options.direct;
    for fd in files {
        layout::set_direct(fd.as_fd(), direct).map_err(|e| {
            Error::unavailable("direct I/O is not possible here")
                .source(e)
                .hint("set options.direct = false to go through the page cache")
        })?;
    }
    let Some(fd) = files
        .first()
        .filter(|_| direct || (device && asked.uses.trims))
    else {
        return Ok(1);
    };
    let align = match ioctl_blksszget(fd).ok().filter(|_| device) {
        Some(logical) => u64::from(logical),
        None => direct_align(fd)?,
    };
    let why = if direct {
        "direct I/O goes by the device's blocks"
    } else {
        "trims do"
    };
    shape::aligned(asked.spec.plan, align, why)?;
    Ok(align)
}

/// Alignment of direct I/O on a file: as the kernel says (6.1), else the device's logical block.
fn direct_align(fd: &OwnedFd) -> Result<u64> {
    if let Ok(s) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && s.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        return match (s.stx_dio_offset_align, s.stx_dio_mem_align) {
            (0, _) => Err(
                Error::unavailable("direct I/O is not possible on this file")
                    .hint("set options.direct = false to go through the page cache"),
            ),
            (offset, memory) if memory as usize <= sys::PAGE => Ok(u64::from(offset)),
            (_, memory) => Err(
                Error::unavailable("direct I/O needs larger alignment in memory")
                    .with("bytes", memory),
            ),
        };
    }
    let number = rustix::fs::fstat(fd).map(|s| s.st_dev);
    let block = number.ok().and_then(Block::from_number);
    let logical = block.and_then(|b| b.queue("logical_block_size")?.parse().ok());
    Ok(logical.unwrap_or(512))
}

/// A polled ring on a device without poll queues fails every I/O: better said here.
fn polled(fd: &OwnedFd) -> Result<()> {
    let on_device = rustix::fs::fstat(fd).ok().and_then(|stat| {
        Block::from_number(stat.st_rdev).or_else(|| Block::from_number(stat.st_dev))
    });
    match on_device.and_then(|b| b.queue("io_poll")).as_deref() {
        Some("0") => Err(Error::unavailable("the device has no poll queues")
            .hint("set options.iopoll = false (NVMe: poll queues come with nvme.poll_queues=N)")),
        _ => Ok(()),
    }
}

fn describe(fd: &OwnedFd, device: Option<Block>, facts: &mut Facts) {
    let mut below = device;
    if below.is_none() {
        if let Some(mount) = facts::mount_of(fd) {
            facts::of_mount(&mount, facts);
        }
        below = rustix::fs::fstat(fd)
            .ok()
            .and_then(|stat| Block::from_number(stat.st_dev));
    }
    if let Some(block) = below {
        facts::of_device(&block, facts);
    }
}
