//! Memory-mapped chunk files. The only unsafe code of this crate.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use taillight_core::{Error, Result};

/// A whole file mapped for writing, as words. Unmapped on drop; the file stays.
pub struct ChunkMapping {
    at: std::ptr::NonNull<u64>,
    words: usize,
}

// SAFETY: the mapping is plain memory owned by this value alone (the file is created new, with
// O_EXCL, and mapped once); moving it to another thread moves that ownership.
unsafe impl Send for ChunkMapping {}

impl ChunkMapping {
    /// Creates a new file of `bytes` (a multiple of the page size), reserves its memory, maps it
    /// and touches every page, so that no later store faults. Errors: `Unavailable` when the file
    /// cannot be made or there is no room for it.
    pub fn create(path: &Path, bytes: usize) -> Result<ChunkMapping> {
        let fail = |e: std::io::Error| {
            Error::unavailable("cannot reserve memory for the capture")
                .with("path", path.display())
                .with("bytes", bytes)
                .source(e)
        };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file: File = file.map_err(fail)?;
        // Reserving first turns a full /dev/shm into an error here instead of SIGBUS later.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64)
            .map_err(|e| fail(e.into()))?;
        // SAFETY: a fresh mapping of a regular file of exactly `bytes`, at an address the kernel
        // chooses; nothing else aliases it (see Send above), and fallocate backed every page.
        let at = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                // Not MAP_POPULATE: on a shared mapping it reads every page in first, and each
                // still takes a second fault for writing. The advice below does it in one.
                MapFlags::SHARED,
                &file,
                0,
            )
        };
        let at = at.map_err(|e| fail(e.into()))?;
        // SAFETY: the range is the mapping just made. Advice only: where the kernel (before 5.14)
        // refuses it, the first store to each page faults.
        let _ = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxPopulateWrite) };
        let at = std::ptr::NonNull::new(at.cast::<u64>())
            .ok_or_else(|| Error::internal("mmap returned address zero"))?;
        Ok(ChunkMapping { at, words: bytes / 8 })
    }

    #[inline]
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: `at` is valid for `words` u64s for the life of self, page-aligned, initialised
        // (tmpfs pages start zeroed), and borrowed exclusively through &mut self.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.words) }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as above, borrowed through &self; a u64 is eight bytes that are all initialised.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr().cast(), self.words * 8) }
    }
}

impl Drop for ChunkMapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `create` mapped; no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}
