//! Files filled with random data before the run, in extents that lie apart where that is asked; how
//! many of their bytes are holes; O_DIRECT on and off.
//!
//! A hole or an unwritten extent is answered by the file system with zeros, without asking the
//! device: a read benchmark over one measures nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fcntl_getfl, fcntl_setfl, seek};
use rustix::io::Errno;
use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Error, Result};

use crate::buffers::Buffers;
use crate::file::fill::RandomBytes;
use crate::file::sys;

/// Bytes per write of the layout.
pub const CHUNK: u64 = 1 << 20;

/// Bytes of the first `len` that are holes, unwritten or behind the end; asking may write dirty data back.
pub fn holes(fd: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    let written = match sys::extents(fd, len)? {
        Some(found) => found.written,
        None => data_bytes(fd, len)?,
    };
    Ok(len.saturating_sub(written))
}

/// Bytes of data by SEEK_DATA and SEEK_HOLE, where there is no extent map.
fn data_bytes(fd: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    let (mut at, mut data) = (0, 0);
    while at < len {
        let start = match seek(fd, SeekFrom::Data(at)) {
            Ok(start) => start.min(len),
            Err(Errno::NXIO) => break,
            // No such notion here: everything counts as data.
            Err(Errno::INVAL) => return Ok(len),
            Err(e) => return Err(e.into()),
        };
        let end = seek(fd, SeekFrom::Hole(start))?.clamp(start, len);
        data += end - start;
        at = end.max(start + 1);
    }
    Ok(data)
}

/// Turns O_DIRECT on or off; also forgets O_NONBLOCK, which opening used. Errors: `EINVAL` where
/// the file system has no direct I/O.
pub fn set_direct(fd: BorrowedFd<'_>, direct: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(fd)?.difference(OFlags::NONBLOCK);
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(fd, flags)?)
}

/// Counts bytes over all files for the progress line.
pub struct LayoutProgress<'a, 'b> {
    pub on: &'a mut OnProgress<'b>,
    /// What is being done.
    pub what: &'static str,
    pub done: u64,
    pub total: u64,
}

impl LayoutProgress<'_, '_> {
    /// Tells of `bytes` more. Errors: `Unavailable` when asked to stop.
    pub fn add(&mut self, bytes: u64) -> Result<()> {
        self.done += bytes;
        let go = (self.on)(Progress {
            what: self.what,
            done: self.done,
            total: self.total,
            unit: "bytes",
        });
        match go {
            true => Ok(()),
            false => Err(Error::unavailable(format!("stopped while {}", self.what))),
        }
    }
}

fn failed(e: io::Error) -> Error {
    Error::unavailable("laying out the data failed").source(e)
}

/// As [`write()`], and makes it durable. Errors: as there.
pub fn fill(
    fd: BorrowedFd<'_>,
    len: u64,
    seed: u64,
    meter: &mut LayoutProgress<'_, '_>,
) -> Result<()> {
    write(fd, len, seed, &mut chunk()?, meter)?;
    rustix::fs::fsync(fd).map_err(|e| failed(e.into()))
}

/// Up to so many files are synced one by one; for more, one call syncs the whole file system.
const SYNCED_ALONE: usize = 8;

/// Makes files of one directory durable. Errors: `Unavailable`.
pub fn sync(files: &[BorrowedFd<'_>], dir: BorrowedFd<'_>) -> Result<()> {
    let synced = match files.len() {
        0..=SYNCED_ALONE => files.iter().try_for_each(rustix::fs::fsync),
        _ => rustix::fs::syncfs(dir),
    };
    synced.map_err(|e| failed(e.into()))
}

/// Memory for [`write()`]. Errors: `Unavailable`.
pub fn chunk() -> Result<Buffers> {
    Buffers::new(1, CHUNK).map_err(failed)
}

/// Fills the first `len` bytes with random data, past the page cache where possible; O_DIRECT is off afterwards.
/// Errors: `Unavailable` when writing fails or progress says stop.
pub fn write(
    fd: BorrowedFd<'_>,
    len: u64,
    seed: u64,
    buffers: &mut Buffers,
    meter: &mut LayoutProgress<'_, '_>,
) -> Result<()> {
    let direct = set_direct(fd, true).is_ok();
    // One large allocation keeps the file in few extents. Where it is not known, writes allocate.
    let _ = fallocate(fd, FallocateFlags::KEEP_SIZE, 0, len);
    let mut noise = RandomBytes::new(seed);
    let mut at = 0;
    while at < len {
        let bytes = CHUNK.min(len - at);
        if bytes < CHUNK && direct {
            set_direct(fd, false).map_err(failed)?;
        }
        let chunk = &mut buffers.slot(0)[..bytes as usize];
        noise.fill(chunk);
        write_all(fd, chunk, at).map_err(failed)?;
        at += bytes;
        meter.add(bytes)?;
    }
    set_direct(fd, false).map_err(failed)
}

/// Allocates `len` bytes of an empty file in extents of `extent` bytes, none of which follows the one before
/// on the disk: of an allocation twice as large every other extent is taken out. Errors: `EOPNOTSUPP` where
/// the file system cannot do that, `EINVAL` when `extent` is no multiple of its blocks.
pub fn apart(fd: BorrowedFd<'_>, len: u64, extent: u64) -> io::Result<()> {
    let extents = len.div_ceil(extent);
    fallocate(fd, FallocateFlags::empty(), 0, extents.saturating_mul(2).saturating_mul(extent))?;
    for nth in 1..extents {
        fallocate(fd, FallocateFlags::COLLAPSE_RANGE, nth * extent, extent)?;
    }
    Ok(rustix::fs::ftruncate(fd, len)?)
}

/// Whether [`apart`] can be done in the file system of an empty file: two extents of at most [`CHUNK`] that
/// leave the same remainder of any block. Errors: as there.
pub fn try_apart(fd: BorrowedFd<'_>, extent: u64) -> io::Result<()> {
    let extent = if extent.is_multiple_of(CHUNK) { CHUNK } else { extent % CHUNK };
    apart(fd, 2 * extent, extent)
}

fn write_all(fd: BorrowedFd<'_>, mut data: &[u8], mut at: u64) -> io::Result<()> {
    while !data.is_empty() {
        match rustix::io::pwrite(fd.as_fd(), data, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                data = &data[n..];
                at += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn quiet() -> impl FnMut(Progress<'_>) -> bool + Send {
        |_| true
    }

    #[test]
    fn holes_are_counted_and_filled() {
        let file = tempfile::tempfile().unwrap();
        let len = 3 * CHUNK + 5000;
        file.set_len(len).unwrap();
        assert_eq!(holes(file.as_fd(), len).unwrap(), len);
        file.write_all_at(&[1; 8192], CHUNK).unwrap();
        let left = holes(file.as_fd(), len).unwrap();
        assert!(left <= len - 8192 && left >= len - (64 << 10), "{left}");
        if fallocate(file.as_fd(), FallocateFlags::empty(), 0, len).is_ok() {
            // Reserved blocks are still unwritten.
            assert!(holes(file.as_fd(), len).unwrap() > CHUNK);
        }

        let mut on = quiet();
        let mut meter = LayoutProgress { on: &mut on, what: "laying out", done: 0, total: len };
        fill(file.as_fd(), len, 1, &mut meter).unwrap();
        assert_eq!(meter.done, len);
        assert_eq!(holes(file.as_fd(), len).unwrap(), 0);
        assert_eq!(file.metadata().unwrap().len(), len);
        let (mut a, mut b) = ([0u8; 512], [0u8; 512]);
        file.read_exact_at(&mut a, 0).unwrap();
        file.read_exact_at(&mut b, len - 512).unwrap();
        assert!(a != b && a != [0; 512] && b != [0; 512]);
    }

    #[test]
    fn progress_stops_it() {
        let file = tempfile::tempfile().unwrap();
        let mut stop = |_: Progress<'_>| false;
        let mut meter = LayoutProgress { on: &mut stop, what: "laying out", done: 0, total: CHUNK };
        assert!(fill(file.as_fd(), CHUNK, 1, &mut meter).is_err());
    }
}
