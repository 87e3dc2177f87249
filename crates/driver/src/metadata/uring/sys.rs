//! The ring with the memory that its calls point to: the only place that hands paths and buffers to the ring.
//!
//! The functions are safe because paths, attributes and buffers belong to this very struct, are the slot's own
//! while it has a call in flight, and are never freed with any in flight.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use io_uring::types::{Fd, OpenHow, SubmitArgs, Timespec, statx};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::fs::{OFlags, ResolveFlags};

use crate::buffers::Buffers;
use crate::metadata::names::PathBuffer;
use crate::metadata::session::{BENEATH, CREATE, DIRECTORY_MODE, FILE_MODE, READ};

/// One call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingCall {
    /// Open the slot's path to write it (and make it) or to read it; with `deep`, never out of the directory.
    Open {
        create: bool,
        deep: bool,
    },
    /// Move so many bytes between the slot's buffer and an open file.
    Write {
        len: u32,
    },
    Read {
        len: u32,
    },
    Fsync,
    Close,
    Stat,
    Unlink {
        directory: bool,
    },
    /// From the slot's path to its second one.
    Rename,
    Mkdir,
}

/// Asks io_uring_enter(2) for what is finished.
const ENTER_GETEVENTS: u32 = 1;

/// Memory of a slot that the kernel reads or writes.
struct SlotMemory {
    path: PathBuffer,
    second: PathBuffer,
    attributes: libc::statx,
}

/// A ring with paths and buffers.
pub struct CallRing {
    uring: ManuallyDrop<IoUring>,
    slots: ManuallyDrop<Box<[SlotMemory]>>,
    buffers: ManuallyDrop<Buffers>,
    /// How deep paths are opened, to be made and to be read.
    how: ManuallyDrop<Box<[OpenHow; 2]>>,
    in_flight: u32,
    unsubmitted: u32,
}

fn how(flags: OFlags, mode: u32, resolve: ResolveFlags) -> OpenHow {
    let resolve = resolve.bits();
    OpenHow::new().flags(u64::from(flags.bits())).mode(u64::from(mode)).resolve(resolve)
}

/// A ring for one thread with so many entries.
fn ring(entries: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    // What is finished shows with the next call of this thread; the flag says that there is something.
    builder.dontfork().setup_coop_taskrun().setup_taskrun_flag().setup_single_issuer();
    match builder.build(entries) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        made => made,
    }
}

/// Names of the calls that this kernel's rings do not have. Errors: what the kernel says.
pub fn missing() -> io::Result<Vec<&'static str>> {
    let uring = ring(1)?;
    let mut probe = Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let wanted = [
        (opcode::OpenAt::CODE, "openat"),
        (opcode::OpenAt2::CODE, "openat2"),
        (opcode::Read::CODE, "read"),
        (opcode::Write::CODE, "write"),
        (opcode::Fsync::CODE, "fsync"),
        (opcode::Close::CODE, "close"),
        (opcode::Statx::CODE, "statx"),
        (opcode::UnlinkAt::CODE, "unlinkat"),
        (opcode::RenameAt::CODE, "renameat"),
        (opcode::MkDirAt::CODE, "mkdirat"),
    ];
    let missing = wanted.iter().filter(|(code, _)| !probe.is_supported(*code));
    Ok(missing.map(|(_, name)| *name).collect())
}

impl CallRing {
    /// Makes the ring on this thread, which is the only one to use it. Errors: what the kernel says.
    pub fn new(depth: u32, buffers: Buffers) -> io::Result<CallRing> {
        // SAFETY: integers only, for which zero is a value.
        let slot = || SlotMemory {
            path: PathBuffer::new(),
            second: PathBuffer::new(),
            attributes: unsafe { std::mem::zeroed() },
        };
        let made = how(CREATE, FILE_MODE.bits(), BENEATH);
        let read = how(READ, 0, BENEATH);
        Ok(CallRing {
            uring: ManuallyDrop::new(ring(depth.next_power_of_two())?),
            slots: ManuallyDrop::new((0..depth).map(|_| slot()).collect()),
            buffers: ManuallyDrop::new(buffers),
            how: ManuallyDrop::new(Box::new([made, read])),
            in_flight: 0,
            unsubmitted: 0,
        })
    }

    /// The buffer of a slot that has nothing in flight.
    #[inline]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    /// The paths of a slot that has nothing in flight.
    #[inline]
    pub fn paths(&mut self, slot: u32) -> (&mut PathBuffer, &mut PathBuffer) {
        let slot = &mut self.slots[slot as usize];
        (&mut slot.path, &mut slot.second)
    }

    #[inline]
    pub fn unsubmitted(&self) -> u32 {
        self.unsubmitted
    }

    /// Queues a call of a slot on an open file or directory; the slot must have none in flight. Its completion gives
    /// `user_data` back. False when the queue is full.
    #[inline]
    pub fn push(&mut self, call: RingCall, on: RawFd, slot: u32, user_data: u64) -> bool {
        let entry = self.entry(call, Fd(on), slot).user_data(user_data);
        // SAFETY: the entry points at memory of the slot in this struct, which stays where it is until the
        // call's completion was seen (see Drop).
        let pushed = unsafe { self.uring.submission().push(&entry).is_ok() };
        self.in_flight += u32::from(pushed);
        self.unsubmitted += u32::from(pushed);
        pushed
    }

    #[inline]
    fn entry(&mut self, call: RingCall, on: Fd, slot: u32) -> squeue::Entry {
        let memory = &mut self.slots[slot as usize];
        let (path, second) = (memory.path.path().as_ptr(), memory.second.path().as_ptr());
        let data = |len: u32| {
            assert!(u64::from(len) <= self.buffers.size(), "value larger than the buffer");
            self.buffers.ptr(slot)
        };
        match call {
            RingCall::Open { create, deep: true } => {
                opcode::OpenAt2::new(on, path, &raw const self.how[usize::from(!create)]).build()
            }
            RingCall::Open { create, .. } => {
                let (flags, mode) = if create { (CREATE, FILE_MODE.bits()) } else { (READ, 0) };
                opcode::OpenAt::new(on, path).flags(flags.bits() as i32).mode(mode).build()
            }
            RingCall::Write { len } => opcode::Write::new(on, data(len), len).build(),
            RingCall::Read { len } => opcode::Read::new(on, data(len), len).build(),
            RingCall::Fsync => opcode::Fsync::new(on).build(),
            RingCall::Close => opcode::Close::new(on).build(),
            RingCall::Stat => {
                let attributes = (&raw mut memory.attributes).cast::<statx>();
                opcode::Statx::new(on, path, attributes)
                    .flags(libc::AT_SYMLINK_NOFOLLOW)
                    .mask(libc::STATX_BASIC_STATS)
                    .build()
            }
            RingCall::Unlink { directory } => {
                let flags = if directory { libc::AT_REMOVEDIR } else { 0 };
                opcode::UnlinkAt::new(on, path).flags(flags).build()
            }
            RingCall::Rename => opcode::RenameAt::new(on, path, on, second).build(),
            RingCall::Mkdir => opcode::MkDirAt::new(on, path).mode(DIRECTORY_MODE.bits()).build(),
        }
    }

    /// Hands over what was pushed.
    pub fn submit(&mut self) -> io::Result<()> {
        self.hand_over(0, None)
    }

    /// Hands over what was pushed and waits for `want` calls, at most `timeout_ns`. A time-out or a signal is
    /// no error.
    pub fn wait(&mut self, want: usize, timeout_ns: Option<u64>) -> io::Result<()> {
        self.hand_over(want, timeout_ns)
    }

    /// Whether completions are waiting in the kernel that only a call brings out.
    #[inline]
    pub fn needs_call(&mut self) -> bool {
        self.uring.submission().taskrun()
    }

    /// Hands over what was pushed and brings out what is finished, without waiting.
    pub fn collect(&mut self) -> io::Result<()> {
        let pushed = self.uring.submission().len() as u32;
        // SAFETY: no argument but counts; what was pushed is as `push` says.
        let taken = unsafe { self.uring.submitter().enter::<()>(pushed, 0, ENTER_GETEVENTS, None) };
        self.handed_over(taken)
    }

    fn hand_over(&mut self, want: usize, timeout_ns: Option<u64>) -> io::Result<()> {
        let time = timeout_ns
            .map(|ns| Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32));
        let taken = match &time {
            Some(time) if want > 0 => {
                self.uring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(time))
            }
            _ => self.uring.submit_and_wait(want),
        };
        self.handed_over(taken)
    }

    fn handed_over(&mut self, taken: io::Result<usize>) -> io::Result<()> {
        // What is left in the queue was not taken.
        self.unsubmitted = self.uring.submission().len() as u32;
        match taken {
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME)
                ) =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// The next call that has ended: its user data and result. No call to the kernel.
    #[inline]
    pub fn next_completion(&mut self) -> Option<(u64, i32)> {
        let cqe = self.uring.completion().next()?;
        self.in_flight -= 1;
        Some((cqe.user_data(), cqe.result()))
    }
}

impl Drop for CallRing {
    fn drop(&mut self) {
        let idle = self.in_flight == self.unsubmitted;
        // SAFETY: dropped exactly once, here; nothing uses the fields afterwards. Closing the ring is safe with
        // calls in flight: the kernel keeps what it needs of the ring itself.
        unsafe { ManuallyDrop::drop(&mut self.uring) };
        if idle {
            // SAFETY: as above, and nothing in the kernel points to this memory any more.
            unsafe {
                ManuallyDrop::drop(&mut self.slots);
                ManuallyDrop::drop(&mut self.buffers);
                ManuallyDrop::drop(&mut self.how);
            }
        }
    }
}

/// The file that a call has opened.
pub fn opened(fd: RawFd) -> OwnedFd {
    // SAFETY: the kernel has made the descriptor for this call, and the caller takes it over alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The number of a descriptor, for a call on it.
pub fn number(fd: BorrowedFd<'_>) -> RawFd {
    fd.as_raw_fd()
}
