//! The rings of one session, as both sides map them: the words that say how far each is, and entries of 64 bytes.
//!
//! The other side is a foreign program, which may write anything at any time. So words are atomics, entries are
//! copied out by volatile reads of types for which all bytes are valid, and no place is computed from what it wrote.
//! An end is an entry of the second ring: the completion of one operation, as the program writes it (`PluginDone`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::plugin::sys::{PluginDone, PluginOp};

/// A word of the shared memory. Each tail and each flag of sleep is on cache lines of its own; the CPU of a side shares
/// those of its flag (`sdk/taillight_process.h`).
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub enum RingWord {
    /// Operations that the host has written.
    OpTail = 0,
    /// The program sleeps until there is a further operation.
    OpWaiting = 128,
    /// The program's CPU, plus 1, when it last woke up or woke the host; 0 where that is not known.
    ProgramCpu = 132,
    /// Ends that the program has written.
    DoneTail = 256,
    /// The host sleeps until there is a further end.
    DoneWaiting = 384,
    /// As `ProgramCpu`, of the host.
    HostCpu = 388,
}

/// Where the entries of operations begin; those of ends follow them.
const ENTRIES_AT: usize = 4096;
const ENTRY: usize = 64;

/// The mapped rings.
#[derive(Debug)]
pub struct RingMemory {
    base: NonNull<u8>,
    len: usize,
    /// Entries of each ring; a power of two.
    entries: u32,
}

// SAFETY: the mapping is this value's own in this process, and is reached through atomics and volatile copies alone,
// which do not depend on the thread.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// Bytes of words and rings, in whole pages. The slots (keys and values of operations) lie behind them in the same
    /// file and are mapped elsewhere (`Buffers::shared`).
    pub fn len(entries: u32) -> usize {
        (ENTRIES_AT + 2 * ENTRY * entries as usize).next_multiple_of(ENTRIES_AT)
    }

    /// Maps the rings of `entries` entries each at the front of `fd`. `entries` is a power of two (asserted); `fd` has
    /// at least [`RingMemory::len`] bytes and is sealed against shrinking (not looked at). Errors: the system's.
    pub fn new(fd: impl AsFd, entries: u32) -> io::Result<RingMemory> {
        assert!(entries.is_power_of_two(), "{entries} entries");
        let len = RingMemory::len(entries);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing of this process; the seal
        // keeps the file as long as it is, so that no access can fault.
        let base = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(RingMemory { base, len, entries })
    }

    #[inline]
    pub fn word(&self, word: RingWord) -> &AtomicU32 {
        // SAFETY: within the first page of the mapping, which lives as long as `self`, at a multiple of 4; it is
        // reached as an atomic only, on this side.
        unsafe { &*self.base.as_ptr().add(word as usize).cast::<AtomicU32>() }
    }

    /// Writes the operation number `n`.
    #[inline]
    pub fn put(&mut self, n: u32, op: &PluginOp) {
        let at = ENTRIES_AT + ENTRY * (n & (self.entries - 1)) as usize;
        // SAFETY: the mask keeps the entry inside the ring, and that inside the mapping, at a multiple of 64.
        unsafe { self.base.as_ptr().add(at).cast::<PluginOp>().write_volatile(*op) }
    }

    /// Copies the end number `n` out.
    #[inline]
    pub fn take(&self, n: u32) -> PluginDone {
        let at = ENTRIES_AT + ENTRY * (self.entries as usize + (n & (self.entries - 1)) as usize);
        // SAFETY: as in `put`; all bytes are a valid `PluginDone`, also those that change meanwhile, which a
        // volatile read copies once.
        unsafe { self.base.as_ptr().add(at).cast::<PluginDone>().read_volatile() }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly the mapping made in `new`; no reference into it outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
