//! One worker on a program: descriptors go into one ring and ends come out of another.
//!
//! Both sides spin for a moment, where they have a CPU each, and then sleep in a futex, in slices: between two of them
//! the host looks whether the program still runs and its patience lasts. Never more is in flight than a ring has
//! entries, so that no side asks how far the other has read.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::thread::futex;
use rustix::time::Timespec;
use taillight_core::{Clock, Error, MonoClock};

use super::program::ProgramTarget;
use super::sys::{RingMemory, RingWord};
use crate::buffers::Buffers;
use crate::plugin::sys::{PluginDone, PluginOp};

/// Looks at the ring before going to sleep.
const SPINS: u32 = 2000;
/// Looks at the ring between two looks at the clock.
const LOOKS: u32 = 16;
/// Looks after which spinning ends where the program was last on the same CPU: it cannot run meanwhile.
const SHARED: u32 = 64;
/// Longest sleep before the program is looked at again, ns; longest time between two looks at it.
const SLICE_NS: u64 = 10_000_000;

/// The memory of a session, before the program knows it.
pub struct RingParts {
    pub fd: OwnedFd,
    pub entries: u32,
    /// Where the slots begin.
    pub slots_at: u64,
    pub len: u64,
    ring: RingMemory,
    memory: Buffers,
}

/// A session of a program.
pub struct RingQueue {
    target: Arc<ProgramTarget>,
    number: u32,
    ring: RingMemory,
    pub memory: Buffers,
    /// Operations written, ends read; they wrap.
    sent: u32,
    read: u32,
    /// Since when nothing came, ns; 0 where that is not known.
    quiet_since: u64,
    /// When the program was last looked at, ns.
    looked: u64,
}

impl RingQueue {
    /// Memory for slots of `bytes` bytes and rings that are never full. Errors: the system's.
    pub fn memory(depth: u32, bytes: u64) -> io::Result<RingParts> {
        let entries = depth.max(1).next_power_of_two();
        let slots_at = RingMemory::len(entries) as u64;
        let len = slots_at + Buffers::file_len(depth, bytes)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("taillight-session", flags)?;
        ftruncate(&fd, len)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let ring = RingMemory::new(&fd, entries)?;
        let memory = Buffers::shared(fd.as_fd(), slots_at, depth, bytes)?;
        Ok(RingParts { fd, entries, slots_at, len, ring, memory })
    }

    /// A session that the program has taken by this number.
    pub fn new(target: Arc<ProgramTarget>, number: u32, parts: RingParts) -> RingQueue {
        let RingParts { ring, memory, .. } = parts;
        let (sent, read, quiet_since, looked) = (0, 0, 0, 0);
        RingQueue { target, number, ring, memory, sent, read, quiet_since, looked }
    }

    /// Hands all of them over, which are never more than there are slots: how many, or -1 when the program is lost.
    #[inline]
    pub fn submit(&mut self, ops: &[PluginOp]) -> i32 {
        if self.target.is_lost() {
            return -1;
        }
        for op in ops {
            self.ring.put(self.sent, op);
            self.sent = self.sent.wrapping_add(1);
        }
        // Before the flag is read: the program sets it before it looks at the tail once more.
        self.ring.word(RingWord::OpTail).store(self.sent, SeqCst);
        let waiting = self.ring.word(RingWord::OpWaiting);
        if waiting.load(SeqCst) != 0 {
            waiting.store(0, Relaxed);
            // The program spins only while the host is on another CPU than its own.
            self.ring.word(RingWord::HostCpu).store(own_cpu(), Relaxed);
            let _ = futex::wake(self.ring.word(RingWord::OpTail), futex::Flags::empty(), 1);
        }
        ops.len() as i32
    }

    /// Ends that have come, also more than `done` has room for.
    #[inline]
    fn came(&self) -> u32 {
        self.ring.word(RingWord::DoneTail).load(Acquire).wrapping_sub(self.read)
    }

    /// How many ends are in `done`; more than its room where the program wrote more than is in flight, of which
    /// none is looked at; -1 when the program is lost, something was waited for (`min` is not 0), and no end has come.
    #[inline]
    pub fn poll(&mut self, done: &mut [PluginDone], min: u32, until_ns: u64) -> i32 {
        let mut came = self.came();
        if came < min {
            came = match self.wait(min, until_ns) {
                Some(came) => came,
                None => return -1,
            };
        }
        if came as usize > done.len() {
            return i32::try_from(came).unwrap_or(i32::MAX);
        }
        for (n, end) in (0..came).zip(done) {
            *end = self.ring.take(self.read.wrapping_add(n));
        }
        if came > 0 {
            self.read = self.read.wrapping_add(came);
            self.quiet_since = 0;
        }
        came as i32
    }

    /// Waits for `min` ends or until then: how many have come. None when the program is lost.
    #[inline]
    fn wait(&mut self, min: u32, until_ns: u64) -> Option<u32> {
        for look in 1..=SPINS {
            let came = self.came();
            if came >= min {
                return Some(came);
            }
            if look % LOOKS == 0 && MonoClock.now().0 as u64 >= until_ns {
                break;
            }
            if look == SHARED && self.ring.word(RingWord::ProgramCpu).load(Relaxed) == own_cpu() {
                break;
            }
            std::hint::spin_loop();
        }
        self.sleep(min, until_ns)
    }

    #[cold]
    fn sleep(&mut self, min: u32, until_ns: u64) -> Option<u32> {
        loop {
            let now = MonoClock.now().0 as u64;
            let came = self.came();
            if came >= min {
                return Some(came);
            }
            // What came before the end of the program counts.
            if came == 0 && self.is_over(now) {
                return None;
            }
            if now >= until_ns {
                return Some(came);
            }
            let seen = self.read.wrapping_add(came);
            self.ring.word(RingWord::DoneWaiting).store(1, SeqCst);
            let tail = self.ring.word(RingWord::DoneTail);
            if tail.load(SeqCst) == seen {
                let ns = (until_ns - now).min(SLICE_NS) as i64;
                let slice = Timespec { tv_sec: 0, tv_nsec: ns };
                let _ = futex::wait(tail, futex::Flags::empty(), seen, Some(&slice));
            }
            self.ring.word(RingWord::DoneWaiting).store(0, Relaxed);
            self.ring.word(RingWord::HostCpu).store(own_cpu(), Relaxed);
        }
    }

    /// Whether nothing can be expected any more: the program ended, or nothing came for too long.
    fn is_over(&mut self, now: u64) -> bool {
        if self.quiet_since == 0 {
            self.quiet_since = now;
        }
        if now.saturating_sub(self.looked) >= SLICE_NS {
            self.looked = now;
            self.target.check_alive(now - self.quiet_since.min(now));
        }
        self.target.is_lost()
    }

    /// Ends with operations in flight.
    pub fn give_up(self) {
        self.target.give_up();
    }

    /// Why nothing comes.
    pub fn lost(&self) -> Error {
        self.target.lost()
    }
}

/// The CPU of this thread, plus 1.
fn own_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX).saturating_add(1)
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        self.target.close_session(self.number);
    }
}
