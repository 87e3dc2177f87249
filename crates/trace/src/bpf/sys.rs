//! Memory of the trace programs mapped into this process.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::layout::{EarlierRounds, OperationSlot, ThreadState};

/// Types that may be seen through memory that others change.
///
/// # Safety
/// Every field is an atomic, so that any bit pattern is valid and concurrent changes are defined.
pub unsafe trait KernelShared {}

// SAFETY: only atomics.
unsafe impl KernelShared for OperationSlot {}
// SAFETY: only atomics.
unsafe impl KernelShared for EarlierRounds {}
// SAFETY: only atomics.
unsafe impl KernelShared for ThreadState {}
// SAFETY: an atomic.
unsafe impl KernelShared for std::sync::atomic::AtomicU64 {}

/// An array of `T` that kernel programs see too.
#[derive(Debug)]
pub struct SharedRegion<T> {
    base: NonNull<T>,
    count: usize,
    bytes: usize,
}

// SAFETY: `SharedRegion` hands out shared references to atomics only.
unsafe impl<T: KernelShared + Sync> Send for SharedRegion<T> {}
// SAFETY: as above.
unsafe impl<T: KernelShared + Sync> Sync for SharedRegion<T> {}

impl<T: KernelShared> SharedRegion<T> {
    /// Maps an array of `count` entries.
    pub fn map(fd: BorrowedFd<'_>, count: usize) -> io::Result<SharedRegion<T>> {
        let page = rustix::param::page_size();
        let bytes = (count * size_of::<T>()).next_multiple_of(page);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel chooses. The kernel refuses lengths
        // beyond the array, which has the size of so many `T` (checked before).
        let base = unsafe {
            mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED | MapFlags::POPULATE, fd, 0)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedRegion { base, count, bytes })
    }

    /// Entry `index`; the first one when there is no such entry.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        let index = if index < self.count { index } else { 0 };
        // SAFETY: the index is inside the mapping, which is page aligned and lives as long as
        // `self`; `T` allows others to change it.
        unsafe { self.base.add(index).as_ref() }
    }
}

impl<T> Drop for SharedRegion<T> {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `map`; no reference outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
