//! Engine `sync`: a worker's operations, one call after another, all inside `submit`. Reading a directory is here
//! for the other engine too.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, RawDir, ResolveFlags, StatxFlags, fsync, mkdirat, openat, openat2,
    renameat, statx, unlinkat,
};
use rustix::io::Errno;
use taillight_core::probe::Token;
use taillight_core::{Error, Op, OpKind, Result, Stamp, Status};

use super::files::{LOOKS, SharedFiles, other};
use super::names::{EntryName, PathBuffer};
use super::options::MetadataSync;
use super::sys::close;
use super::tree::LeafDirectory;
use crate::buffers::Buffers;
use crate::contract::{Completion, Session, SessionSpec, Submitted};

/// Entries of a directory are read in pieces of so many bytes, as glibc does it.
const LISTING: usize = 32 << 10;

/// Rights of a new file and of a new directory.
pub const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);
pub const DIRECTORY_MODE: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP);

/// How files are opened: as mdtest creates them, but never through a symlink.
pub const CREATE: OFlags = OFlags::CREATE
    .union(OFlags::WRONLY)
    .union(OFlags::TRUNC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
pub const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Where a path has levels, none of them may lead elsewhere.
pub const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// What an operation moved, or why it failed.
pub type Performed = std::result::Result<u64, Status>;

/// The session.
pub struct CallSession {
    files: Arc<SharedFiles>,
    calls: FileCalls,
    lane: usize,
    listing: DirectoryReader,
}

/// Buffer and paths of a session's calls.
struct FileCalls {
    buffers: Buffers,
    buffer_size: u64,
    path: PathBuffer,
    second: PathBuffer,
}

/// The status of a call that failed.
#[inline]
pub fn status(errno: Errno) -> Status {
    match errno {
        Errno::NOENT => Status::NOT_FOUND,
        other => Status::errno(other.raw_os_error()),
    }
}

/// Lists directories, in memory of its own.
pub struct DirectoryReader {
    buffer: Box<[MaybeUninit<u8>]>,
}

impl DirectoryReader {
    pub fn new() -> DirectoryReader {
        DirectoryReader { buffer: vec![MaybeUninit::uninit(); LISTING].into() }
    }

    /// Opens a directory, reads all of it and closes it; how many entries it has.
    pub fn count(&mut self, leaf: impl AsFd) -> std::result::Result<u32, Status> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(leaf, c".", flags, Mode::empty()).map_err(status)?;
        let mut entries = 0;
        let mut all = RawDir::new(&fd, &mut self.buffer);
        while let Some(entry) = all.next() {
            let name = entry.map_err(status)?;
            entries += u32::from(!matches!(name.file_name().to_bytes(), b"." | b".."));
        }
        close(fd).map_err(status)?;
        Ok(entries)
    }
}

impl CallSession {
    /// Errors: `Unavailable` when there is no memory for the buffer.
    pub fn new(files: Arc<SharedFiles>, lane: usize, spec: &SessionSpec) -> Result<CallSession> {
        Ok(CallSession {
            files,
            calls: FileCalls {
                buffers: buffers(spec)?,
                buffer_size: spec.buffer_size,
                path: PathBuffer::new(),
                second: PathBuffer::new(),
            },
            lane,
            listing: DirectoryReader::new(),
        })
    }

    fn perform(&mut self, op: &Op, token: Token) -> Result<Completion> {
        if op.size > self.calls.buffer_size && op.kind.carries() {
            return Err(Error::internal("value larger than the buffer").with("size", op.size));
        }
        let end = |performed: Performed| match performed {
            Ok(moved) => Completion::ok(token, moved),
            Err(failed) => Completion::failed(token, failed),
        };
        Ok(match op.kind.as_record() {
            OpKind::Insert
            | OpKind::Put
            | OpKind::Get
            | OpKind::Stat
            | OpKind::Delete
            | OpKind::Rename => {
                let mut name = self.files.name(op.key);
                let mut performed = self.calls.on_file(&self.files, op, name);
                let mut retries = 0;
                let looks = if self.files.renames() { LOOKS } else { 1 };
                while performed == Err(Status::NOT_FOUND) && retries + 1 < looks {
                    // Renamed by another worker since its name was looked up.
                    name = other(name);
                    performed = self.calls.on_file(&self.files, op, name);
                    retries += 1;
                }
                Completion { retries, ..end(performed) }
            }
            OpKind::Mkdir | OpKind::Rmdir => {
                end(self.calls.on_directory(&self.files, self.lane, op.kind))
            }
            OpKind::Readdir => match self.listing.count(&self.files.leaf(op.key).fd) {
                Ok(count) => Completion { count, ..Completion::ok(token, 0) },
                Err(failed) => Completion::failed(token, failed),
            },
            other => return Err(unknown(other)),
        })
    }
}

/// Makes the last change of a name in a directory durable, where `sync` asks for that.
#[inline]
fn durable(sync: MetadataSync, leaf: &LeafDirectory) -> std::result::Result<(), Status> {
    match sync {
        MetadataSync::Directory => fsync(&leaf.fd).map_err(status),
        _ => Ok(()),
    }
}

impl FileCalls {
    #[inline]
    fn open(
        &self,
        at: BorrowedFd<'_>,
        deep: bool,
        flags: OFlags,
    ) -> std::result::Result<OwnedFd, Errno> {
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        match deep {
            false => openat(at, self.path.path(), flags, mode),
            true => openat2(at, self.path.path(), flags, mode, BENEATH),
        }
    }

    /// Makes, writes and closes a file.
    fn create(
        &mut self,
        sync: MetadataSync,
        leaf: &LeafDirectory,
        base: BorrowedFd<'_>,
        size: u64,
    ) -> Performed {
        let fd = self.open(base, !leaf.prefix.is_empty(), CREATE).map_err(status)?;
        let mut moved = 0;
        if size > 0 {
            let data = &self.buffers.slot(0)[..size as usize];
            moved = rustix::io::write(&fd, data).map_err(status)? as u64;
        }
        if sync >= MetadataSync::File {
            fsync(&fd).map_err(status)?;
        }
        close(fd).map_err(status)?;
        durable(sync, leaf)?;
        if moved == size { Ok(moved) } else { Err(Status::SHORT) }
    }

    /// Opens, reads and closes a file.
    fn open_read_close(&mut self, leaf: &LeafDirectory, base: BorrowedFd<'_>) -> Performed {
        let fd = self.open(base, !leaf.prefix.is_empty(), READ).map_err(status)?;
        let size = self.buffer_size as usize;
        let mut moved = 0;
        if size > 0 {
            moved =
                rustix::io::read(&fd, &mut self.buffers.slot(0)[..size]).map_err(status)? as u64;
        }
        close(fd).map_err(status)?;
        Ok(moved)
    }

    /// An operation on the file that has this name.
    fn on_file(&mut self, files: &SharedFiles, op: &Op, name: EntryName) -> Performed {
        let leaf = files.leaf(op.key);
        let base = files.base(leaf);
        files.path(&mut self.path, leaf, name);
        match op.kind.as_record() {
            OpKind::Insert | OpKind::Put => self.create(files.sync, leaf, base, op.size),
            OpKind::Get => self.open_read_close(leaf, base),
            OpKind::Stat => {
                let (flags, what) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
                statx(base, self.path.path(), flags, what).map_err(status)?;
                Ok(0)
            }
            OpKind::Delete => {
                unlinkat(base, self.path.path(), AtFlags::empty()).map_err(status)?;
                durable(files.sync, leaf).map(|()| 0)
            }
            _ => {
                files.path(&mut self.second, leaf, other(name));
                let (from, to) = (self.path.path(), self.second.path());
                renameat(base, from, base, to).map_err(status)?;
                files.has(other(name));
                durable(files.sync, leaf).map(|()| 0)
            }
        }
    }

    /// Makes or removes a directory of the worker's.
    fn on_directory(&mut self, files: &SharedFiles, lane: usize, kind: OpKind) -> Performed {
        let number = match kind {
            OpKind::Mkdir => files.make_directory(lane),
            _ => files.remove_directory(lane),
        };
        let leaf = files.leaf(number);
        let base = files.base(leaf);
        files.path(&mut self.path, leaf, EntryName::Directory(number));
        let done = match kind {
            OpKind::Mkdir => mkdirat(base, self.path.path(), DIRECTORY_MODE),
            _ => unlinkat(base, self.path.path(), AtFlags::REMOVEDIR),
        };
        done.map_err(status)?;
        durable(files.sync, leaf).map(|()| 0)
    }
}

/// The buffers of a session; a session without data has a page that nobody looks at. Errors: `Unavailable`.
pub fn buffers(spec: &SessionSpec) -> Result<Buffers> {
    Buffers::new(spec.depth, spec.buffer_size.max(1)).map_err(|e| {
        Error::unavailable("no memory for the worker's buffers")
            .with("worker", spec.worker)
            .source(e)
    })
}

#[cold]
pub fn unknown(kind: OpKind) -> Error {
    Error::internal(format!("driver `metadata` knows no {}", kind.name()))
}

impl Session for CallSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.calls.buffers.slot(slot)[..self.calls.buffer_size as usize]
    }
    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        self.perform(op, token).map(Submitted::Done)
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
}
