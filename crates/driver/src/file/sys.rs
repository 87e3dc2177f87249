//! What has no safe wrapper: maps of files, cache residency, extent maps, discard.
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

/// `cachestat` has the same number on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// Pages of `range` in the page cache, by cachestat (Linux 6.5) or a short-lived mapping.
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
