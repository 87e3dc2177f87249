//! Files of different sizes, seen by the load as one: offsets count through all of them, one after the other. No
//! block reaches from one file into the next, as each file is a whole number of blocks.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::fsync;
use rustix::io::Errno;
use taillight_core::probe::Token;
use taillight_core::units::ByteSize;
use taillight_core::witness::WitnessCount;
use taillight_core::{Op, OpKind, Result, Stamp, Status};

use super::target::FileTarget;
use crate::contract::{AdminAction, Completion, Geometry, Session, SessionSpec, Submitted, Target};

/// Where each file ends, counted through all of them.
#[derive(Debug, Clone)]
struct FileEnds(Arc<[u64]>);

impl FileEnds {
    /// The file that holds this byte, and where in it; for a byte behind all files, the last one.
    #[inline]
    fn locate(&self, at: u64) -> (u16, u64) {
        let file = self.0.partition_point(|end| *end <= at).min(self.0.len() - 1);
        (file as u16, at - self.begin(file))
    }

    fn begin(&self, file: usize) -> u64 {
        file.checked_sub(1).map_or(0, |before| self.0[before])
    }

    fn total(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }
}

/// The target.
pub struct SizedFiles {
    files: FileTarget,
    ends: FileEnds,
}

impl SizedFiles {
    pub fn new(files: FileTarget, sizes: &[ByteSize]) -> SizedFiles {
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size.0;
            Some(*end)
        });
        SizedFiles { ends: FileEnds(ends.collect()), files }
    }
}

impl Target for SizedFiles {
    fn geometry(&self) -> Geometry {
        Geometry { files: 1, file_size: self.ends.total(), ..self.files.geometry() }
    }

    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        Ok(Box::new(SizedSession {
            inner: self.files.session(spec)?,
            ends: self.ends.clone(),
            files: Arc::clone(&self.files.files),
        }))
    }

    fn descriptors(&self, workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        self.files.descriptors(workers)
    }

    fn admin(&self, action: AdminAction) -> Result<()> {
        self.files.admin(action)
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.files.facts()
    }

    fn session_facts(&self) -> Vec<(String, String)> {
        self.files.session_facts()
    }

    fn witness(&self) -> Vec<WitnessCount> {
        self.files.witness()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Box::new(self.files).close()
    }
}

struct SizedSession {
    inner: Box<dyn Session>,
    ends: FileEnds,
    files: Arc<Vec<OwnedFd>>,
}

impl SizedSession {
    /// Reads from more than one file, as the pass does that checks what was written; no measured block is such.
    fn read_several(&mut self, op: &Op, slot: u32) -> std::result::Result<(), Errno> {
        let mut done = 0;
        while done < op.size {
            let at = op.offset + done;
            let (file, offset) = self.ends.locate(at);
            let end = self.ends.0[usize::from(file)].min(op.offset + op.size);
            let part = &mut self.inner.buffer(slot)[done as usize..][..(end - at) as usize];
            match rustix::io::pread(&self.files[usize::from(file)], part, offset) {
                Ok(n) if n as u64 == end - at => done += n as u64,
                Ok(_) => return Err(Errno::IO),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Session for SizedSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.inner.buffer(slot)
    }

    #[inline]
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if op.kind == OpKind::Fsync {
            // One sync of the load is one of each file.
            let synced = self.files.iter().try_for_each(fsync);
            return Ok(Submitted::Done(match synced {
                Ok(()) => Completion::ok(token, op.size),
                Err(e) => Completion::failed(token, Status::errno(e.raw_os_error())),
            }));
        }
        let (target, offset) = self.ends.locate(op.offset);
        if op.offset + op.size > self.ends.0[usize::from(target)] && op.kind == OpKind::Read {
            return Ok(Submitted::Done(match self.read_several(op, slot) {
                Ok(()) => Completion::ok(token, op.size),
                Err(e) => Completion::failed(token, Status::errno(e.raw_os_error())),
            }));
        }
        self.inner.submit(&Op { target, offset, ..*op }, slot, token)
    }

    fn submit_batch(&self) -> u32 {
        self.inner.submit_batch()
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    #[inline]
    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        self.inner.poll(min, until, out)
    }

    fn drop_cached(&mut self, _: u16, offset: u64, len: u64) -> Result<()> {
        let to = if len == 0 { self.ends.total() } else { offset.saturating_add(len) };
        let mut at = offset;
        while at < to.min(self.ends.total()) {
            let (file, within) = self.ends.locate(at);
            let end = self.ends.0[usize::from(file)].min(to);
            self.inner.drop_cached(file, within, end - at)?;
            at = end;
        }
        Ok(())
    }

    fn abandon(self: Box<Self>) {
        self.inner.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_one_behind_the_other() {
        let ends = FileEnds([4, 12, 13].into());
        let places: Vec<_> = [0, 3, 4, 11, 12].map(|at| ends.locate(at)).into();
        assert_eq!(places, [(0, 0), (0, 3), (1, 0), (1, 7), (2, 0)]);
        assert_eq!(ends.total(), 13);
    }
}
