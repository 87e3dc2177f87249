//! An opened file set or device, shared by all workers.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fsync};
use rustix::io::ReadWriteFlags;
use taillight_core::plan::Sync;
use taillight_core::{Error, Result};

use crate::contract::{AdminAction, Geometry, Session, SessionSpec, Target};
use crate::file::cache;
use crate::file::facts::Facts;
use crate::file::fill::RandomBytes;

use crate::buffers::Buffers;
use crate::file::sync::SyncSession;
use crate::file::sys::{self, Mapping};
use crate::file::uring::{RingConfig, UringSession};
use crate::ownership::MarkedFiles;

/// How sessions issue I/O.
pub enum IoMethod {
    Sync,
    /// `io_uring`.
    Uring(RingConfig),
}

/// The target.
pub struct FileTarget {
    /// Open files, or the one device.
    pub files: Arc<Vec<OwnedFd>>,
    pub geometry: Geometry,
    /// How sessions issue I/O.
    pub method: IoMethod,
    /// It is a block device.
    pub device: bool,
    pub writable: bool,
    pub durability: Vec<Sync>,
    /// Facts for the manifest.
    pub facts: Facts,
    /// Keeps a warmed cache in use.
    pub warm: Vec<Mapping>,
    /// What the end deletes or seals; `None` for devices.
    pub made: Option<MarkedFiles>,
}

impl FileTarget {
    fn write_flags(&self, worker: u16) -> ReadWriteFlags {
        match self.durability.get(usize::from(worker)) {
            Some(Sync::Dsync) => ReadWriteFlags::DSYNC,
            Some(Sync::Sync) => ReadWriteFlags::SYNC,
            _ => ReadWriteFlags::empty(),
        }
    }

    fn purge(&self) -> Result<()> {
        if !self.writable {
            return Err(Error::unavailable("a plan that only reads opens its target read-only")
                .hint("purging needs a plan that writes or trims"));
        }
        let size = self.geometry.file_size;
        let failed = |e: std::io::Error| Error::unavailable("cannot discard the target").source(e);
        for fd in self.files.iter() {
            if self.device {
                sys::discard(fd.as_fd(), 0, size).map_err(failed)?;
            } else {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(fd, mode, 0, size).map_err(|e| failed(e.into()))?;
            }
        }
        Ok(())
    }
}

impl Target for FileTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let mut buffers = Buffers::new(spec.depth, spec.buffer_size).map_err(|e| {
            Error::unavailable("not enough memory for the worker's buffers")
                .with("queue_depth", spec.depth)
                .with("buffer_bytes", spec.buffer_size)
                .source(e)
        })?;
        RandomBytes::new(spec.seed).fill(buffers.all());
        let write_flags = self.write_flags(spec.worker);
        match &self.method {
            IoMethod::Sync if spec.depth > 1 => Err(Error::usage("engine = \"sync\" has no queue")
                .with("queue_depth", spec.depth)
                .hint("set options.engine = \"uring\", or more workers instead of depth")),
            IoMethod::Sync => Ok(Box::new(SyncSession {
                files: Arc::clone(&self.files),
                buffers,
                write_flags,
                device: self.device,
            })),
            IoMethod::Uring(shared) => {
                let flags = write_flags.bits() as i32;
                Ok(Box::new(UringSession::new(shared, spec, buffers, flags)?))
            }
        }
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

    fn close(mut self: Box<Self>) -> Result<()> {
        self.warm.clear();
        match &mut self.made {
            Some(made) => made.finish(),
            None => Ok(()),
        }
    }
}
