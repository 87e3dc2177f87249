//! An opened file set or device, shared by all workers: makes their sessions by engine, flushes,
//! drops cached data, purges, and at its end deletes or seals what the run made.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, fsync};
use rustix::io::ReadWriteFlags;
use taillight_core::plan::{Plan, Sync};
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, Result, StopFlag};
use taillight_machine::Sys;

use crate::contract::{AdminAction, Geometry, Session, SessionSpec, Target};
use crate::file::cache;
use crate::file::facts::Facts;
use crate::file::fill::RandomBytes;

use crate::buffers::{self, BlockShape, Buffers, RequestLimits};
use crate::file::sync::SyncSession;
use crate::file::sys::{self, Mapping, SharedMap};
use crate::file::uring::setup::RingSetup;
use crate::file::uring::{RingConfig, UringSession};
use crate::file::ways::Ways;
use crate::file::witness::FileWitness;
use crate::guard;
use crate::ownership::MarkedFiles;
use crate::trial;

/// How sessions issue I/O.
pub enum IoMethod {
    Sync,
    /// Copies to and from mappings of the files, which each session has for itself.
    Mmap,
    /// `io_uring`.
    Uring(RingConfig),
}

/// Tries whether every worker of the plan gets its memory and ring here: before data is given up for a run
/// that could not begin. `files` are some of those that it uses. Errors: as [`Target::session`].
pub fn try_workers(
    plan: &Plan,
    files: &[BorrowedFd<'_>],
    ring: Option<&RingSetup>,
    device: bool,
) -> Result<()> {
    trial::workers(plan)?;
    let cannot = |e| Error::unavailable("cannot open the file once more").source(e);
    let files = files.iter().map(|fd| fd.try_clone_to_owned()).collect::<std::io::Result<_>>();
    let files = Arc::new(files.map_err(cannot)?);
    let mut memory = Vec::new();
    let mut rings = Vec::new();
    for (workload, w) in plan.workloads.iter().enumerate() {
        for index in 0..w.workers {
            let worker = (memory.len() + rings.len()) as u16;
            let spec = SessionSpec {
                worker,
                workload: workload as u16,
                index: index as u16,
                keep: false,
                depth: w.queue_depth,
                buffer_size: w.block_size.max(),
                seed: 0,
            };
            let buffers = memory_of(&spec)?;
            let Some(setup) = ring else {
                memory.push(buffers);
                continue;
            };
            let files = Arc::clone(&files);
            let shared = RingConfig { files, setup: *setup, device, submit_batch: 1 };
            rings.push(UringSession::new(&shared, &spec, buffers, 0)?);
        }
    }
    Ok(())
}

fn memory_of(spec: &SessionSpec) -> Result<Buffers> {
    Buffers::new(spec.depth, spec.buffer_size).map_err(|e| {
        Error::unavailable("not enough memory for the worker's buffers")
            .with("queue_depth", spec.depth)
            .with("buffer_bytes", spec.buffer_size)
            .source(e)
    })
}

/// Foreign files or devices that are about to be written: looked at once more when the first session of
/// each run on the opened target is made, and before and after a purge.
pub struct Guarded {
    /// Their name, for people; none where there is nothing to look at.
    path: Option<PathBuf>,
    stop: StopFlag,
    /// One looks, the others wait for it.
    looks: Mutex<()>,
}

impl Guarded {
    pub fn new(path: Option<PathBuf>, stop: &StopFlag) -> Guarded {
        Guarded { path, stop: stop.clone(), looks: Mutex::new(()) }
    }

    /// Errors: `Refused` where something has come to use one of the files.
    fn recheck(&self, files: &[OwnedFd]) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        guard::again(files.iter().map(AsFd::as_fd), path, &self.stop)
    }

    /// Looks if no session holds the files yet: their strong count is then `own`. A series keeps its target open, so
    /// that this is so once a run. Returns a clone, to be dropped after the session has its own. Errors: as
    /// [`Guarded::recheck`].
    fn first_look(&self, files: &Arc<Vec<OwnedFd>>, own: usize) -> Result<Arc<Vec<OwnedFd>>> {
        let _one = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(files) <= own {
            self.recheck(files)?;
        }
        Ok(Arc::clone(files))
    }
}

/// The target.
pub struct FileTarget {
    /// What the end deletes or seals; `None` for devices. Dropped before `files`: while a file is open, no other gets
    /// its inode number.
    pub made: Option<MarkedFiles>,
    /// Open files, or the one device.
    pub files: Arc<Vec<OwnedFd>>,
    pub geometry: Geometry,
    /// Bytes of each file, where they differ.
    pub sizes: Vec<u64>,
    /// How sessions issue I/O.
    pub method: IoMethod,
    /// The ways of workloads that issue I/O in one of their own.
    pub ways: Ways,
    /// How often `files` are held while there is no session.
    pub held: usize,
    /// It is a block device.
    pub device: bool,
    pub writable: bool,
    /// Durability of each workload's writes.
    pub durability: Vec<Sync>,
    /// Facts for the manifest.
    pub facts: Facts,
    /// The largest block, with direct I/O.
    pub shape: Option<BlockShape>,
    /// What the device below takes in one request, where there is one.
    pub limits: Option<RequestLimits>,
    /// Keeps a warmed cache in use.
    pub warm: Vec<Mapping>,
    pub guarded: Guarded,
    pub witness: FileWitness,
    /// Where the writes of ended sessions of engine `sync` ended furthest.
    pub ends: Arc<AtomicU64>,
    /// The run appends, so that nothing else tells where its data ends.
    pub grows: bool,
}

impl FileTarget {
    /// Errors: `Internal` for a workload that the target was not opened with.
    fn write_flags(&self, workload: u16) -> Result<ReadWriteFlags> {
        match self.durability.get(usize::from(workload)) {
            Some(Sync::Dsync) => Ok(ReadWriteFlags::DSYNC),
            Some(Sync::Sync) => Ok(ReadWriteFlags::SYNC),
            Some(Sync::None | Sync::Fdatasync(_) | Sync::Fsync(_)) => Ok(ReadWriteFlags::empty()),
            None => Err(Error::internal("a session of no workload")),
        }
    }

    fn size_of(&self, number: usize) -> u64 {
        self.sizes.get(number).copied().unwrap_or(self.geometry.file_size)
    }

    /// A mapping of each file; one that a run writes is made as large as the run says before.
    fn maps(&self, files: &[OwnedFd]) -> Result<Vec<SharedMap>> {
        let one = |(n, fd): (usize, &OwnedFd)| {
            let size = self.size_of(n);
            // What only grows by writes could not be mapped.
            if self.writable && !self.device && rustix::fs::fstat(fd)?.st_size < size as i64 {
                rustix::fs::ftruncate(fd, size)?;
            }
            SharedMap::new(fd, size, self.writable)
        };
        files.iter().enumerate().map(one).collect::<std::io::Result<_>>().map_err(|e| {
            Error::unavailable("cannot map the files of the target")
                .source(e)
                .hint("use options.engine = \"sync\"")
        })
    }

    fn purge(&self) -> Result<()> {
        if !self.writable {
            return Err(Error::unavailable("a plan that only reads opens its target read-only")
                .hint("purging needs a plan that writes or trims"));
        }
        self.guarded.recheck(&self.files)?;
        let failed = |e: std::io::Error| Error::unavailable("cannot discard the target").source(e);
        for (n, fd) in self.files.iter().enumerate() {
            let size = self.size_of(n);
            if self.device {
                sys::discard(fd.as_fd(), 0, size).map_err(failed)?;
            } else {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(fd, mode, 0, size).map_err(|e| failed(e.into()))?;
            }
        }
        self.guarded.recheck(&self.files)
    }
}

impl Target for FileTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let _held = self.guarded.first_look(&self.files, self.held)?;
        let mut buffers = memory_of(spec)?;
        // Touches every page: what is got is seen in `session_facts`.
        RandomBytes::new(spec.seed).fill(buffers.all());
        let write_flags = self.write_flags(spec.workload)?;
        let way = self.ways.of(spec.workload);
        let (method, files) =
            way.map_or((&self.method, &self.files), |way| (&way.method, &way.files));
        match method {
            IoMethod::Sync | IoMethod::Mmap if spec.depth > 1 => {
                Err(Error::usage("engine = \"sync\" has no queue")
                    .with("queue_depth", spec.depth)
                    .hint("set options.engine = \"uring\", or more workers instead of depth"))
            }
            IoMethod::Sync | IoMethod::Mmap => Ok(Box::new(SyncSession {
                maps: match method {
                    IoMethod::Mmap => self.maps(files)?,
                    _ => Vec::new(),
                },
                files: Arc::clone(files),
                buffers,
                write_flags,
                device: self.device,
                end: 0,
                ends: Arc::clone(&self.ends),
            })),
            IoMethod::Uring(shared) => {
                let flags = write_flags.bits() as i32;
                Ok(Box::new(UringSession::new(shared, spec, buffers, flags)?))
            }
        }
    }

    /// Sessions open rings, which stay theirs; what they use beside is open, and stays so until they have ended.
    fn descriptors(&self, _: usize) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.files.iter().chain(self.ways.files()).map(AsFd::as_fd).collect())
    }

    fn admin(&self, action: AdminAction) -> Result<()> {
        match action {
            AdminAction::Flush => self.files.iter().try_for_each(|fd| {
                fsync(fd).map_err(|e| Error::target("cannot make the data durable").source(e))
            }),
            AdminAction::DropCaches => cache::drop_cached(&self.files),
            AdminAction::Purge => self.purge(),
            AdminAction::Compact => Err(Error::unavailable("files have nothing to compact")),
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }

    fn session_facts(&self) -> Facts {
        buffers::facts(self.shape, self.limits, &Sys::default())
    }

    fn witness(&self) -> Vec<WitnessCount> {
        self.witness.counts()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.warm.clear();
        match &mut self.made {
            Some(made) => {
                if self.grows {
                    made.ends_at(self.ends.load(Ordering::Relaxed));
                }
                made.finish()
            }
            None => Ok(()),
        }
    }
}
