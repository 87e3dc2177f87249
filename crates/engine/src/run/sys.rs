//! Memory that is locked while a run goes on (`run.lock_memory`): less is left for the page cache.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, MlockFlags, ProtFlags};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

/// Pages of this process that stay in memory until the value is dropped.
#[derive(Debug)]
pub struct LockedMemory {
    at: *mut core::ffi::c_void,
    bytes: usize,
}

impl LockedMemory {
    /// Whether so many bytes may be locked; none of them is filled. Errors: as [`LockedMemory::take`].
    pub fn allowed(size: ByteSize) -> Result<()> {
        LockedMemory::with(size, MlockFlags::ONFAULT).map(drop)
    }

    /// Takes and locks so many bytes. Errors: `Unavailable` where the kernel has or allows no more.
    pub fn take(size: ByteSize) -> Result<LockedMemory> {
        LockedMemory::with(size, MlockFlags::empty())
    }

    fn with(size: ByteSize, how: MlockFlags) -> Result<LockedMemory> {
        let fail = |e: Errno| {
            Error::unavailable(format!("cannot lock {size} of memory"))
                .hint("lock less (run.lock_memory), or allow more (`ulimit -l`, root)")
                .source(std::io::Error::from(e))
        };
        let bytes = usize::try_from(size.0).map_err(|_| fail(Errno::NOMEM))?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses; only this value has it.
        let at = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), bytes, access, flags) };
        let locked = LockedMemory { at: at.map_err(fail)?, bytes };
        // SAFETY: exactly the range of the mapping above; it stays mapped until `locked` is dropped.
        unsafe { rustix::mm::mlock_with(locked.at, bytes, how) }.map_err(fail)?;
        Ok(locked)
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `take` mapped; nothing refers into it. Unmapping unlocks it.
        let _ = unsafe { rustix::mm::munmap(self.at, self.bytes) };
    }
}
