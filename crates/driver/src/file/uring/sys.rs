//! The ring and its buffers, owned together: the only place that hands memory to the ring.
//!
//! The functions are safe because a buffer given to the kernel belongs to this very struct, an
//! operation is counted in flight until its completion was seen, and with any in flight the buffers
//! are never freed.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};

use crate::buffers::Buffers;
use crate::file::uring::setup::{RingSetup, builder};

const ENTER_GETEVENTS: u32 = 1;
const ENTER_SQ_WAKEUP: u32 = 1 << 1;
const ENTER_EXT_ARG: u32 = 1 << 3;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;
/// `_IO(0x12, 0)`: discard through the ring, Linux 6.12.
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// One operation for the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingOp {
    /// Read into the slot's buffer.
    Read,
    /// Write from the slot's buffer, with RWF flags.
    Write {
        /// RWF_DSYNC, RWF_SYNC or none.
        flags: i32,
    },
    /// fdatasync (true) or fsync.
    Sync {
        data: bool,
    },
    Punch,
    /// Discard on a block device.
    Discard,
}

/// Where an operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRef {
    /// Index of the file.
    pub file: u16,
    /// Local slot, for the buffer.
    pub slot: u32,
    pub offset: u64,
    /// Bytes; at most the buffer's size for reads and writes.
    pub len: u64,
}

#[repr(C)]
struct Wait {
    sigmask: u64,
    sigmask_len: u32,
    min_wait_us: u32,
    timeout: u64,
}

/// A ring with its buffers and files.
pub struct Ring {
    uring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Buffers>,
    files: Arc<Vec<OwnedFd>>,
    setup: RingSetup,
    enter_fd: RawFd,
    enter_flags: u32,
    /// Pushed, not yet handed to the kernel.
    unsubmitted: u32,
    /// Pushed or in the kernel, completion not yet seen.
    in_flight: u32,
    /// Operations since the last one that was handed to a kernel thread.
    prepared: u32,
}

impl Ring {
    /// Makes the ring on this thread, which is the only one to use it. Errors: what the kernel
    /// says; `ENOMEM` when registered buffers exceed the locked-memory limit.
    pub fn new(
        setup: RingSetup,
        entries: u32,
        buffers: Buffers,
        files: Arc<Vec<OwnedFd>>,
    ) -> io::Result<Ring> {
        let uring = builder(&setup, entries).build(entries)?;
        if setup.registered_files {
            let fds: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
            uring.submitter().register_files(&fds)?;
        }
        if setup.fixed_buffers {
            // SAFETY: the vectors lie in `buffers`, which lives as long as the ring: both are
            // fields of the same struct and dropped in that order, or never.
            unsafe { uring.submitter().register_buffers(&buffers.vectors())? };
        }
        if setup.io_workers > 0 {
            let mut limits = [setup.io_workers; 2];
            uring.submitter().register_iowq_max_workers(&mut limits)?;
        }
        let raw = uring.as_raw_fd();
        let (enter_fd, enter_flags) = match register_ring(raw) {
            Some(index) => (index, ENTER_REGISTERED_RING),
            None => (raw, 0),
        };
        Ok(Ring {
            uring: ManuallyDrop::new(uring),
            buffers: ManuallyDrop::new(buffers),
            files,
            setup,
            enter_fd,
            enter_flags,
            unsubmitted: 0,
            in_flight: 0,
            prepared: 0,
        })
    }

    /// The buffer of a slot that has nothing in flight.
    #[inline]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    /// Entries pushed and not yet handed over.
    #[inline]
    pub fn unsubmitted(&self) -> u32 {
        self.unsubmitted
    }

    /// Queues an operation; false when the submission queue is full.
    ///
    /// # Panics
    /// When the slot or file does not exist or `len` exceeds the buffer: a bug of the caller.
    #[inline]
    pub fn push(&mut self, entry: RingOp, slot_ref: SlotRef, user_data: u64) -> bool {
        let mut sqe = self.entry(entry, slot_ref).user_data(user_data);
        if self.setup.force_async > 0 {
            self.prepared += 1;
            if self.prepared == self.setup.force_async {
                self.prepared = 0;
                let fixed = if self.setup.registered_files {
                    squeue::Flags::FIXED_FILE
                } else {
                    squeue::Flags::empty()
                };
                sqe = sqe.flags(squeue::Flags::ASYNC | fixed);
            }
        }
        // SAFETY: `entry` points reads and writes at the slot's buffer with a checked length; the
        // buffer stays mapped while anything is in flight (see Drop). Files are held by the Arc.
        let pushed = unsafe { self.uring.submission().push(&sqe).is_ok() };
        self.unsubmitted += u32::from(pushed);
        self.in_flight += u32::from(pushed);
        pushed
    }

    #[inline]
    fn entry(&self, entry: RingOp, slot_ref: SlotRef) -> squeue::Entry {
        let raw = self.files[usize::from(slot_ref.file)].as_raw_fd();
        if self.setup.registered_files {
            let index = Fd(RawFd::from(slot_ref.file));
            self.entry_on(entry, slot_ref, index).flags(squeue::Flags::FIXED_FILE)
        } else {
            self.entry_on(entry, slot_ref, Fd(raw))
        }
    }

    #[inline]
    fn entry_on(&self, entry: RingOp, slot_ref: SlotRef, file: Fd) -> squeue::Entry {
        let SlotRef { slot, offset, len, .. } = slot_ref;
        let data = || {
            assert!(len <= self.buffers.size(), "block larger than the buffer");
            (self.buffers.ptr(slot), len as u32, slot as u16)
        };
        match entry {
            RingOp::Read => {
                let (at, len, index) = data();
                if self.setup.fixed_buffers {
                    opcode::ReadFixed::new(file, at, len, index).offset(offset).build()
                } else {
                    opcode::Read::new(file, at, len).offset(offset).build()
                }
            }
            RingOp::Write { flags } => {
                let (at, len, index) = data();
                if self.setup.fixed_buffers {
                    let op = opcode::WriteFixed::new(file, at, len, index);
                    op.offset(offset).rw_flags(flags).build()
                } else {
                    opcode::Write::new(file, at, len).offset(offset).rw_flags(flags).build()
                }
            }
            RingOp::Sync { data } => {
                let flags = if data { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
                opcode::Fsync::new(file).flags(flags).build()
            }
            RingOp::Punch => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(file, len).offset(offset).mode(mode).build()
            }
            RingOp::Discard => {
                let mut command = [0u8; 16];
                command[..8].copy_from_slice(&len.to_ne_bytes());
                opcode::UringCmd16::new(file, BLOCK_URING_CMD_DISCARD)
                    .cmd(command)
                    .addr(Some(offset))
                    .build()
            }
        }
    }

    /// Hands over what was pushed first, at most `most` of it, in one call where the kernel takes it all. With deferred
    /// task work the call also collects what the device has finished. With `sqpoll` all of it goes, whatever `most` is.
    pub fn submit(&mut self, most: u32) -> io::Result<()> {
        if self.setup.sqpoll {
            self.unsubmitted = 0;
            fence(Ordering::SeqCst);
            let asleep = self.uring.submission().need_wakeup();
            return match asleep {
                true => self.enter(0, 0, ENTER_SQ_WAKEUP, None).map(drop),
                false => Ok(()),
            };
        }
        let flags = if self.setup.deferred { ENTER_GETEVENTS } else { 0 };
        let left = self.unsubmitted.saturating_sub(most);
        while self.unsubmitted > left {
            self.hand_over(self.unsubmitted - left, 0, flags, None)?;
        }
        Ok(())
    }

    /// Whether completions may be waiting in the kernel that only a call brings out.
    #[inline]
    pub fn needs_call(&mut self) -> bool {
        self.setup.iopoll || self.uring.submission().taskrun()
    }

    /// Brings out what is finished, without waiting.
    pub fn collect(&mut self) -> io::Result<()> {
        self.hand_over(self.unsubmitted, 0, ENTER_GETEVENTS, None)
    }

    /// Hands over what is pushed and waits for `want` completions, at most `timeout_ns`. A
    /// time-out or a signal is no error.
    pub fn wait(&mut self, want: u32, timeout_ns: Option<u64>) -> io::Result<()> {
        if self.setup.sqpoll {
            self.submit(u32::MAX)?;
        }
        let time = timeout_ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
        match self.hand_over(self.unsubmitted, want, ENTER_GETEVENTS, time.as_ref()) {
            Err(e) if e.raw_os_error() == Some(libc::ETIME) => Ok(()),
            other => other,
        }
    }

    fn hand_over(
        &mut self,
        submit: u32,
        want: u32,
        flags: u32,
        time: Option<&[i64; 2]>,
    ) -> io::Result<()> {
        let taken = match self.enter(submit, want, flags, time) {
            Ok(taken) => taken,
            // Interrupted, or short of memory for requests: the caller looks and comes again.
            Err(e)
                if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) =>
            {
                0
            }
            Err(e) => return Err(e),
        };
        self.unsubmitted -= taken.min(self.unsubmitted);
        Ok(())
    }

    fn enter(
        &self,
        submit: u32,
        want: u32,
        flags: u32,
        time: Option<&[i64; 2]>,
    ) -> io::Result<u32> {
        let wait = Wait {
            sigmask: 0,
            sigmask_len: 0,
            min_wait_us: 0,
            timeout: time.map_or(0, |t| t.as_ptr().expose_provenance() as u64),
        };
        let (arg, len, flags) = match time {
            None => (std::ptr::null(), 0, flags),
            Some(_) => (&raw const wait, size_of::<Wait>(), flags | ENTER_EXT_ARG),
        };
        // SAFETY: the descriptor is our ring's (or its registered index); `wait` and the timespec
        // it points to live until the call returns; entries in the queue are valid (see `push`).
        let rc = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.enter_fd,
                submit,
                want,
                flags | self.enter_flags,
                arg,
                len,
            )
        };
        match u32::try_from(rc) {
            Ok(taken) => Ok(taken),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    /// The next completion that is already there: user data and result. No call to the kernel.
    #[inline]
    pub fn next_completion(&mut self) -> Option<(u64, i32)> {
        let cqe = self.uring.completion().next()?;
        self.in_flight -= 1;
        Some((cqe.user_data(), cqe.result()))
    }
}

#[repr(C)]
struct RingUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// Registers the ring with the thread: calls then skip a descriptor look-up. Linux 5.18.
fn register_ring(raw: RawFd) -> Option<RawFd> {
    let any = RingUpdate { offset: u32::MAX, reserved: 0, data: u64::try_from(raw).ok()? };
    let index = update_ring(raw, REGISTER_RING_FDS, any)?;
    i32::try_from(index).ok()
}

fn update_ring(raw: RawFd, what: u32, mut update: RingUpdate) -> Option<u32> {
    // SAFETY: the pointer is to one live io_uring_rsrc_update, as the count says.
    let rc =
        unsafe { libc::syscall(libc::SYS_io_uring_register, raw, what, &raw mut update, 1u32) };
    (rc == 1).then_some(update.offset)
}

/// From now on this thread may not make the system call of that number, as in a container. Errors: what the kernel
/// says.
#[cfg(test)]
pub fn forbid(call: libc::c_long) -> io::Result<()> {
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        // The number of the call.
        step((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0),
        step((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 1, call as u32),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, errno),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which outlives the calls; it concerns this thread alone.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the ring do nothing, once: that one can be made does not say that it may be entered. Errors: what the kernel,
/// or a seccomp filter, says.
pub fn enter(uring: &mut IoUring) -> io::Result<()> {
    // SAFETY: the entry points at no memory.
    unsafe { uring.submission().push(&opcode::Nop::new().build()).map_err(io::Error::other)? };
    uring.submit_and_wait(1).map(drop)
}

/// The kernel's answer to an empty discard through a ring, which moves nothing.
pub fn empty_discard(fd: RawFd) -> io::Result<i32> {
    let mut uring = IoUring::new(1)?;
    let sqe = opcode::UringCmd16::new(Fd(fd), BLOCK_URING_CMD_DISCARD).build();
    // SAFETY: the entry points at no memory, and its length of zero asks for nothing.
    unsafe { uring.submission().push(&sqe).map_err(io::Error::other)? };
    uring.submit_and_wait(1)?;
    let cqe = uring.completion().next();
    cqe.map(|c| c.result()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

impl Drop for Ring {
    fn drop(&mut self) {
        // What the kernel may still touch. A submitting kernel thread sees entries at once.
        let unseen = if self.setup.sqpoll { 0 } else { self.unsubmitted };
        let idle = self.in_flight == unseen;
        if idle && self.setup.registered_files {
            // Closing a ring releases its files some time later; a device must be free to be
            // opened again, and a file system to be unmounted, when the target is closed.
            let _ = self.uring.submitter().unregister_files();
        }
        if self.enter_flags & ENTER_REGISTERED_RING != 0 {
            // The registration holds the ring open until the thread ends.
            let mine = RingUpdate { offset: self.enter_fd as u32, reserved: 0, data: 0 };
            let _ = update_ring(self.uring.as_raw_fd(), UNREGISTER_RING_FDS, mine);
        }
        // SAFETY: dropped exactly once, here; nothing uses the fields afterwards. Closing the ring
        // is safe with I/O in flight: the kernel keeps what it needs of the ring itself.
        unsafe { ManuallyDrop::drop(&mut self.uring) };
        if idle {
            // SAFETY: as above, and nothing in the kernel points to the buffers any more.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
        // Otherwise the buffers stay mapped until the process ends: a late completion must not
        // write to memory that meanwhile serves something else.
    }
}
