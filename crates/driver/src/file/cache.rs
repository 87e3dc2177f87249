//! The page cache of a target's files: before the start dropped, filled and kept mapped, or left;
//! in the run dropped in part; what the kernel is told of the order of reads; and how much of the
//! files it holds.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Advice, fadvise, fdatasync};
use taillight_core::{Error, Result};

use crate::buffers::{Buffers, PAGE};
use crate::file::layout::LayoutProgress;
use crate::file::options::ReadAhead;
use crate::file::sys::{self, Mapping};

/// Bytes per read when filling.
const CHUNK: u64 = 1 << 20;

/// Writes back and drops what the cache holds of these files. Errors: `Target` when writing back
/// fails.
pub fn drop_cached(files: &[OwnedFd]) -> Result<()> {
    let failed = |e: rustix::io::Errno| Error::target("cannot drop cached data").source(e);
    for fd in files {
        fdatasync(fd).map_err(failed)?;
        fadvise(fd, 0, None, Advice::DontNeed).map_err(failed)?;
    }
    Ok(())
}

/// Tells the kernel in which order reads come, as fadvise; nothing for `Auto`. Errors: `Unavailable` when it takes no
/// advice.
pub fn advise(files: &[OwnedFd], order: ReadAhead) -> Result<()> {
    let advice = match order {
        ReadAhead::Auto => return Ok(()),
        ReadAhead::Random => Advice::Random,
        ReadAhead::Sequential => Advice::Sequential,
    };
    let told = files.iter().try_for_each(|fd| fadvise(fd, 0, None, advice));
    told.map_err(|e| Error::unavailable("the kernel takes no advice on reading ahead").source(e))
}

/// Drops what the cache holds of a part of a file (`len` 0: to its end) while the run goes on, as posix_fadvise(2)
/// does: writing back dirty pages is only begun, and they stay. A `device` is synced as a whole before (fdatasync), so
/// that dirty pages go too, as with BLKFLSBUF. Errors: `Target`.
pub fn drop_part(fd: &OwnedFd, offset: u64, len: u64, device: bool) -> Result<()> {
    let failed = |e: rustix::io::Errno| Error::target("cannot drop cached data").source(e);
    if device {
        fdatasync(fd).map_err(failed)?;
    }
    fadvise(fd, offset, NonZeroU64::new(len), Advice::DontNeed).map_err(failed)
}

/// Reads the first `len_of` bytes of each file in, then maps them, every page touched (MAP_POPULATE): mapped pages are
/// not reclaimed as idle. Nothing is locked. Errors: `Unavailable` when a file cannot be read whole or the user stops.
pub fn warm(
    files: &[OwnedFd],
    len_of: impl Fn(usize) -> u64,
    meter: &mut LayoutProgress<'_, '_>,
) -> Result<Vec<Mapping>> {
    let failed = |e: std::io::Error| Error::unavailable("cannot fill the page cache").source(e);
    let mut buffers = Buffers::new(1, CHUNK).map_err(failed)?;
    let mut maps = Vec::with_capacity(files.len());
    for (n, fd) in files.iter().enumerate() {
        let (mut at, len) = (0, len_of(n));
        while at < len {
            let want = CHUNK.min(len - at);
            let chunk = &mut buffers.slot(0)[..want as usize];
            let n = rustix::io::pread(fd, chunk, at).map_err(|e| failed(e.into()))? as u64;
            if n == 0 {
                return Err(Error::unavailable("the file ended while filling the page cache"));
            }
            at += n;
            meter.add(n)?;
        }
        maps.push(Mapping::new(fd, len, true).map_err(failed)?);
    }
    Ok(maps)
}

/// Share of the first `len_of` bytes of each file in the cache, 0 to 1: by cachestat, before Linux 6.5 by mincore. `None`
/// where neither works.
pub fn resident_share(files: &[OwnedFd], len_of: impl Fn(usize) -> u64) -> Option<f64> {
    let (mut resident, mut pages) = (0, 0);
    for (n, fd) in files.iter().enumerate() {
        resident += sys::resident_pages(fd.as_fd(), len_of(n)).ok()?;
        pages += len_of(n).div_ceil(PAGE as u64);
    }
    Some((resident as f64 / pages as f64).min(1.0))
}
