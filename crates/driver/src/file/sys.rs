//! What has no safe wrapper: maps of files, cache residency, extent maps, discard, the read-only
//! flag of a device.
//!
//! Every function here is safe to call; the unsafe parts are the system calls themselves.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::buffers::PAGE;

/// Pages asked for in one call.
const STEP: usize = 32 << 10;

/// A file kept mapped for reading, so that its cached pages count as used.
#[derive(Debug)]
pub struct Mapping {
    base: *mut core::ffi::c_void,
    len: usize,
}

// SAFETY: nothing is read or written through the pointer except by mincore and munmap, which are
// safe from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` offers only mincore.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `fd`; with `populate`, every page is brought in and touched.
    pub fn new(fd: impl AsFd, len: u64, populate: bool) -> io::Result<Mapping> {
        let len = usize::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        let mut flags = MapFlags::SHARED;
        if populate {
            flags |= MapFlags::POPULATE;
        }
        // SAFETY: a new read-only mapping at an address the kernel chooses; it is never turned
        // into a reference, so a file that shrinks cannot fault us.
        let base = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ, flags, fd, 0)? };
        Ok(Mapping { base, len })
    }

    /// Pages in the cache.
    pub fn resident_pages(&self) -> io::Result<u64> {
        let mut resident = 0;
        let mut seen = vec![0u8; STEP];
        let step = seen.len() * PAGE;
        for start in (0..self.len).step_by(step) {
            let bytes = step.min(self.len - start);
            // SAFETY: the range lies in our mapping, and `seen` has a byte for each of its pages.
            let rc = unsafe { libc::mincore(self.base.add(start), bytes, seen.as_mut_ptr()) };
            if rc != 0 {
                return Err(io::Error::last_os_error());
            }
            let pages = bytes.div_ceil(PAGE);
            resident += seen[..pages].iter().filter(|b| *b & 1 == 1).count() as u64;
        }
        Ok(resident)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new`.
        let _ = unsafe { munmap(self.base, self.len) };
    }
}

/// A file mapped for reads and writes of one worker.
#[derive(Debug)]
pub struct SharedMap {
    base: *mut core::ffi::c_void,
    len: u64,
}

// SAFETY: the mapping belongs to the process; a session, which owns it, is used by one thread at a time.
unsafe impl Send for SharedMap {}

impl SharedMap {
    /// Maps the first `len` bytes of `fd`.
    pub fn new(fd: impl AsFd, len: u64, writable: bool) -> io::Result<SharedMap> {
        let size = usize::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        let may = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping at an address the kernel chooses; it is never turned into a reference.
        let base = unsafe { mmap(std::ptr::null_mut(), size, may, MapFlags::SHARED, fd, 0)? };
        Ok(SharedMap { base, len })
    }

    /// Where `len` bytes at `offset` begin. Errors: `EINVAL` beyond the end.
    fn at(&self, offset: u64, len: usize) -> io::Result<*mut core::ffi::c_void> {
        match offset.checked_add(len as u64).is_some_and(|end| end <= self.len) {
            // SAFETY: within the mapping.
            true => Ok(unsafe { self.base.add(offset as usize) }),
            false => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    /// Copies out of the file. Errors: `EINVAL` beyond the end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = self.at(offset, into.len())?;
        // SAFETY: both ranges are mapped and lie apart; the bytes are the file's, whoever else writes them, and
        // nothing is decided by them.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies into the file, and waits until it is on the device if asked. Errors: `EINVAL` beyond the end, those
    /// of msync.
    pub fn write(&self, offset: u64, from: &[u8], durable: bool) -> io::Result<()> {
        let to = self.at(offset, from.len())?;
        // SAFETY: as in `read`; who writes has a writable mapping, since its plan writes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast::<u8>(), from.len()) };
        let within = offset as usize % PAGE;
        let synced = durable.then(|| {
            let len = from.len() + within;
            // SAFETY: whole pages of our mapping, from the one that holds `offset` on.
            unsafe { rustix::mm::msync(to.sub(within), len, rustix::mm::MsyncFlags::SYNC) }
        });
        synced.transpose().map(drop).map_err(io::Error::from)
    }

    /// Gives up the pages of a part, so that the cache may drop them.
    pub fn forget(&self, offset: u64, len: u64) -> io::Result<()> {
        let begin = offset.next_multiple_of(PAGE as u64).min(self.len);
        let end = offset.saturating_add(len).min(self.len);
        if begin >= end {
            return Ok(());
        }
        let at = self.at(begin, (end - begin) as usize)?;
        let advice = rustix::mm::Advice::LinuxDontNeed;
        // SAFETY: a shared mapping of a file loses nothing: the next access brings the page in again.
        unsafe { rustix::mm::madvise(at, (end - begin) as usize, advice) }.map_err(io::Error::from)
    }
}

impl Drop for SharedMap {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new`.
        let _ = unsafe { munmap(self.base, self.len as usize) };
    }
}

/// `cachestat` has the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// Pages of the first `len` bytes in the page cache, by cachestat (Linux 6.5) or a short-lived mapping.
pub fn resident_pages(fd: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    let range = [0u64, len];
    let mut counts = [0u64; 5];
    // SAFETY: both pointers are to live arrays of the layout the call expects: {off, len} and
    // {cache, dirty, writeback, evicted, recently evicted}.
    let rc = unsafe {
        libc::syscall(SYS_CACHESTAT, fd.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0u32)
    };
    if rc == 0 {
        return Ok(counts[0]);
    }
    Mapping::new(fd, len, false)?.resident_pages()
}

const FIEMAP: libc::c_ulong = 0xC020_660B;
const FIEMAP_FLAG_SYNC: u32 = 1;
const EXTENT_LAST: u32 = 1;
const EXTENT_UNWRITTEN: u32 = 0x800;
const EXTENTS: usize = 256;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// What the extent map says of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExtentMap {
    /// Bytes that hold written data.
    pub written: u64,
    /// Stretches that lie together on the disk.
    pub extents: u64,
}

/// The extent map of the first `len` bytes; dirty data is written back first. `None` where the file
/// system has none.
pub fn extents(fd: BorrowedFd<'_>, len: u64) -> io::Result<Option<ExtentMap>> {
    let mut map = Box::new(Fiemap {
        start: 0,
        length: 0,
        flags: FIEMAP_FLAG_SYNC,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    });
    let (mut at, mut all, mut end) = (0u64, ExtentMap::default(), None);
    while at < len {
        map.start = at;
        map.length = len - at;
        map.mapped = 0;
        // SAFETY: `map` is laid out as struct fiemap with room for `count` extents behind it.
        let rc = unsafe { libc::ioctl(fd.as_raw_fd(), FIEMAP, &raw mut *map) };
        if rc != 0 {
            let e = io::Error::last_os_error();
            return match e.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EBADR) => Ok(None),
                _ => Err(e),
            };
        }
        let found = &map.extents[..(map.mapped as usize).min(EXTENTS)];
        for extent in found {
            let logical = extent.logical..extent.logical.saturating_add(extent.length);
            all.extents += u64::from(end != Some((logical.start, extent.physical)));
            end = Some((logical.end, extent.physical.saturating_add(extent.length)));
            let range = clip(logical, at..len);
            if extent.flags & EXTENT_UNWRITTEN == 0 {
                all.written += range.end - range.start;
            }
        }
        match found.last() {
            Some(last) if last.flags & EXTENT_LAST == 0 => {
                at = last.logical.saturating_add(last.length).max(at + 1);
            }
            _ => break,
        }
    }
    Ok(Some(all))
}

fn clip(range: Range<u64>, to: Range<u64>) -> Range<u64> {
    let start = range.start.clamp(to.start, to.end);
    start..range.end.clamp(start, to.end)
}

const BLKDISCARD: libc::c_ulong = 0x1277;

/// Discards a range of a block device. Errors: what the device says; `EOPNOTSUPP` without discard.
pub fn discard(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: BLKDISCARD reads two u64 {start, length} from the pointer.
    match unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

const BLKROGET: libc::c_ulong = 0x125E;

/// Whether a block device is set to be read-only: the kernel opens some of these for writing, and fails
/// each write.
pub fn read_only(fd: BorrowedFd<'_>) -> bool {
    let mut set: libc::c_int = 0;
    // SAFETY: BLKROGET writes one int to the pointer.
    unsafe { libc::ioctl(fd.as_raw_fd(), BLKROGET, &raw mut set) == 0 && set != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping() {
        assert_eq!(clip(0..10, 5..8), 5..8);
        assert_eq!(clip(9..10, 5..8), 8..8);
        assert_eq!(clip(0..2, 5..8), 5..5);
        assert_eq!(clip(6..7, 5..8), 6..7);
    }
}
