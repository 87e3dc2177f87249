//! Engines `sync` and `mmap`: one call or copy per operation, and a sync behind a write that asks
//! for one; done when `submit` returns. How a trim is done ([`trim`]) is the other engines' way, too.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync};
use rustix::io::{Errno, IoSlice, ReadWriteFlags, pread, pwrite, pwritev2};
use taillight_core::op::SyncKind;
use taillight_core::probe::Token;
use taillight_core::{Clock, Error, MonoClock, Op, OpKind, Result, Stamp, Status};

use crate::buffers::Buffers;
use crate::contract::{Completion, Session, Submitted};
use crate::file::sys::SharedMap;
use crate::file::{cache, sys};

/// One worker's handle.
pub struct SyncSession {
    /// The files of the data set, by the target of an operation.
    pub files: Arc<Vec<OwnedFd>>,
    /// With engine `mmap` a mapping of each file, from and to which reads and writes copy; else
    /// none.
    pub maps: Vec<SharedMap>,
    pub buffers: Buffers,
    /// RWF_DSYNC, RWF_SYNC or none.
    pub write_flags: ReadWriteFlags,
    /// The target is a block device, so that trims are discards; else they make holes.
    pub device: bool,
    /// Where the writes of this session ended furthest, an offset in a file.
    pub end: u64,
    /// Where the writes of all sessions that have ended did; each adds its own when it is dropped.
    pub ends: Arc<AtomicU64>,
}

impl Drop for SyncSession {
    fn drop(&mut self) {
        self.ends.fetch_max(self.end, Ordering::Relaxed);
    }
}

impl SyncSession {
    /// Does one operation, without the sync behind it: the bytes it moved, or the system's error, which is data. An
    /// `Err` outside ends the run: a file, size or kind that the target does not have.
    fn perform(&mut self, op: &Op, slot: u32) -> Result<Result<u64, Errno>> {
        let Some(fd) = self.files.get(usize::from(op.target)) else {
            return Err(Error::internal("no such file in the target").with("file", op.target));
        };
        let buffer = self.buffers.slot(slot).get_mut(..op.size as usize);
        if let (Some(map), OpKind::Read | OpKind::Write, Some(buffer)) =
            (self.maps.get(usize::from(op.target)), op.kind, buffer.as_deref())
        {
            let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
            if op.kind == OpKind::Read {
                let buffer = &mut self.buffers.slot(slot)[..op.size as usize];
                return Ok(map.read(op.offset, buffer).map(|()| op.size).map_err(errno));
            }
            let written = map.write(op.offset, buffer, !self.write_flags.is_empty());
            return Ok(written.map(|()| op.size).map_err(errno));
        }
        let buffer = self.buffers.slot(slot).get_mut(..op.size as usize);
        Ok(match (op.kind, buffer) {
            (OpKind::Read, Some(buffer)) => pread(fd, buffer, op.offset).map(|n| n as u64),
            (OpKind::Write, Some(buffer)) if self.write_flags.is_empty() => {
                pwrite(fd, buffer, op.offset).map(|n| n as u64)
            }
            (OpKind::Write, Some(buffer)) => {
                let vector = [IoSlice::new(buffer)];
                pwritev2(fd, &vector, op.offset, self.write_flags).map(|n| n as u64)
            }
            (OpKind::Fsync, _) => fsync(fd).map(|()| op.size),
            (OpKind::Trim, _) => trim(fd, self.device, op).map(|()| op.size),
            (OpKind::Read | OpKind::Write, None) => {
                return Err(Error::internal("block larger than the buffer").with("size", op.size));
            }
            (other, _) => {
                return Err(Error::internal(format!("driver `file` knows no {}", other.name())));
            }
        })
    }
}

/// Discards the bytes of an operation on a device, or makes a hole of those of a file, whose size stays. Errors: the
/// system's.
pub fn trim(fd: &OwnedFd, device: bool, op: &Op) -> Result<(), Errno> {
    if device {
        let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        return sys::discard(fd.as_fd(), op.offset, op.size).map_err(errno);
    }
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(fd, mode, op.offset, op.size)
}

impl Session for SyncSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    #[inline]
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        let result = loop {
            match self.perform(op, slot)? {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        if let (OpKind::Write, Ok(moved)) = (op.kind, result) {
            self.end = self.end.max(op.offset + moved);
        }
        let mut completion = match result {
            Err(e) => Completion::failed(token, Status::errno(e.raw_os_error())),
            Ok(moved) if moved != op.size => {
                Completion { status: Status::SHORT, ..Completion::ok(token, moved) }
            }
            Ok(moved) => Completion::ok(token, moved),
        };
        if let (OpKind::Write, Some(kind), true) = (op.kind, op.sync, completion.status.is_ok()) {
            let fd = &self.files[usize::from(op.target)];
            let start = MonoClock.now();
            let synced = match kind {
                SyncKind::Fdatasync => fdatasync(fd),
                SyncKind::Fsync => fsync(fd),
            };
            completion.sync_ns = Some(MonoClock.now().since(start).max(0) as u64);
            if let Err(e) = synced {
                completion.status = Status::errno(e.raw_os_error());
            }
        }
        Ok(Submitted::Done(completion))
    }

    fn drop_cached(&mut self, file: u16, offset: u64, len: u64) -> Result<()> {
        self.maps
            .get(usize::from(file))
            .map_or(Ok(()), |map| map.forget(offset, len))
            .map_err(|e| Error::target("cannot drop mapped data").source(e))?;
        cache::drop_part(&self.files[usize::from(file)], offset, len, self.device)
    }

    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
}
