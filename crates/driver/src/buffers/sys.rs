//! The memory itself: aligned for direct I/O, in whole huge pages of its own, or in a file shared with another process.
//!
//! Called by sessions that move data through buffers of their own.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Alignment of every slot buffer; fits direct I/O on any device with blocks up to 4 KiB.
pub const PAGE: usize = 4096;
/// Bytes of a huge page: what `new` maps begins at one and ends with one. Where the kernel has none,
/// or larger ones, they are in ordinary pages.
pub const HUGE: usize = 2 << 20;

/// Page-aligned slot buffers in one mapping: anonymous (`new`), or of a file (`shared`).
#[derive(Debug)]
pub struct Buffers {
    base: NonNull<u8>,
    len: usize,
    size: usize,
    stride: usize,
    slots: usize,
}

// SAFETY: the mapping is this value's own, and nothing about it depends on the thread.
unsafe impl Send for Buffers {}

impl Buffers {
    /// `slots` zeroed buffers of `size` bytes. Errors: `ENOMEM` when there is not that much memory.
    pub fn new(slots: u32, size: u64) -> io::Result<Buffers> {
        let too_big = || io::Error::from_raw_os_error(libc::ENOMEM);
        let size = usize::try_from(size).map_err(|_| too_big())?;
        let stride = size.max(1).checked_next_multiple_of(PAGE).ok_or_else(too_big)?;
        let slots = slots.max(1) as usize;
        let bytes = stride.checked_mul(slots).ok_or_else(too_big)?;
        let len = bytes.checked_next_multiple_of(HUGE).ok_or_else(too_big)?;
        // Kernels before 6.7 put a mapping at any page: one huge page more has a place to begin at.
        let whole = len.checked_add(HUGE).ok_or_else(too_big)?;
        // SAFETY: a new private anonymous mapping at an address the kernel chooses aliases nothing.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let before = mapped.align_offset(HUGE);
        // SAFETY: `before` is less than HUGE, so that the `len` bytes from `base` on lie inside the mapping
        // of `len + HUGE` bytes made above. What is unmapped are its rest on both sides, whole pages
        // that nothing refers to. The advice is a wish; failing is fine.
        let base = unsafe {
            let base = mapped.byte_add(before);
            if before > 0 {
                munmap(mapped, before)?;
            }
            munmap(base.byte_add(len), HUGE - before)?;
            let _ = madvise(base, len, Advice::LinuxHugepage);
            base
        };
        let base: NonNull<u8> = NonNull::new(base.cast()).ok_or_else(too_big)?;
        Ok(Buffers { base, len, size, stride, slots })
    }

    /// Bytes that `slots` buffers of `size` bytes take in a file: each begins at a page. Errors: `ENOMEM` when no
    /// memory has that many.
    pub fn file_len(slots: u32, size: u64) -> io::Result<u64> {
        let stride = size.max(1).checked_next_multiple_of(PAGE as u64);
        let bytes = stride.and_then(|stride| stride.checked_mul(u64::from(slots.max(1))));
        let fits = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        fits.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
    }

    /// `slots` buffers of `size` bytes in the file `fd` from `offset` on, a multiple of a page, shared with another
    /// process. The file has [`Buffers::file_len`] bytes from there on and is sealed against shrinking. What the other
    /// process writes may change at any time: it is data, and copied before it is judged. Errors: the system's.
    pub fn shared(fd: impl AsFd, offset: u64, slots: u32, size: u64) -> io::Result<Buffers> {
        let too_big = |_| io::Error::from_raw_os_error(libc::ENOMEM);
        let len = usize::try_from(Buffers::file_len(slots, size)?).map_err(too_big)?;
        let size = usize::try_from(size).map_err(too_big)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing of this process; the seal
        // keeps the file as long as it is, so that no access can fault, and all bytes are valid data.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, fd, offset)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let slots = slots.max(1) as usize;
        Ok(Buffers { base, len, size, stride: len / slots, slots })
    }

    /// The buffer of `slot`.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn slot(&mut self, slot: u32) -> &mut [u8] {
        let start = self.ptr(slot);
        // SAFETY: `ptr` checked the slot, so `size` bytes from there lie inside the mapping, which
        // lives as long as `self`; `&mut self` keeps other Rust references out. The session that
        // owns this hands a slot out only while no I/O uses it.
        unsafe { std::slice::from_raw_parts_mut(start, self.size) }
    }

    /// Start of the buffer of `slot`.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn ptr(&self, slot: u32) -> *mut u8 {
        let slot = slot as usize;
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: slot < slots, so the offset stays inside the mapping of slots x stride bytes.
        unsafe { self.base.as_ptr().add(slot * self.stride) }
    }

    #[inline]
    pub fn size(&self) -> u64 {
        self.size as u64
    }

    /// All slots as one slice, to fill them. The rest of the last huge page is left alone: where memory is
    /// short and pages are ordinary ones, it takes none.
    pub fn all(&mut self) -> &mut [u8] {
        // SAFETY: the slots lie inside the mapping, borrowed mutably through `self`; called before any I/O.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.slots * self.stride) }
    }

    /// One vector per slot, for registration.
    pub fn vectors(&self) -> Vec<libc::iovec> {
        (0..self.slots)
            .map(|slot| libc::iovec {
                iov_base: self.ptr(slot as u32).cast(),
                iov_len: self.stride,
            })
            .collect()
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new` or `shared`; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_whole_huge_pages_whatever_their_size() {
        for (slots, size) in
            [(1, 1), (1, 4096), (1, 1 << 20), (32, 4096), (2, 1 << 20), (3, 3 << 20)]
        {
            let mut b = Buffers::new(slots, size).unwrap();
            assert_eq!((b.base.addr().get() % HUGE, b.len % HUGE), (0, 0), "{slots} of {size}");
            b.all().fill(1);
        }
    }

    #[test]
    fn buffers_are_aligned_and_apart() {
        let mut b = Buffers::new(3, 5000).unwrap();
        for slot in 0..3 {
            assert_eq!(b.slot(slot).as_ptr().addr() % PAGE, 0);
            assert_eq!(b.slot(0).as_ptr().addr() % HUGE, 0);
            assert_eq!(b.slot(slot).len(), 5000);
            b.slot(slot).fill(slot as u8 + 1);
        }
        assert!((0..3).all(|s| b.slot(s).iter().all(|x| *x == s as u8 + 1)));
        assert!(Buffers::new(4096, u64::MAX / 2).is_err());
    }
}
