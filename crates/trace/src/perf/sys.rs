//! The kernel's log of context switches of one thread: opened, mapped, emptied.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// `struct perf_event_attr` as of version 5, which every kernel with `context_switch` knows.
#[derive(Debug, Default)]
#[repr(C)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

/// PERF_TYPE_SOFTWARE.
const SOFTWARE: u32 = 1;
/// PERF_COUNT_SW_DUMMY: counts nothing; only the log is wanted.
const DUMMY: u64 = 9;
/// PERF_SAMPLE_TID and PERF_SAMPLE_TIME.
const TID_TIME: u64 = 1 << 1 | 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOCK_MONOTONIC: i32 = 1;
/// PERF_FLAG_FD_CLOEXEC.
const CLOEXEC: libc::c_ulong = 8;
/// Places in the first page of the mapping: `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The log of one thread.
#[derive(Debug)]
pub struct SwitchLog {
    base: NonNull<u8>,
    /// Bytes of the ring, a power of two.
    data: usize,
    page: usize,
    _fd: OwnedFd,
}

// SAFETY: the mapping belongs to this value alone, which is used by one thread at a time.
unsafe impl Send for SwitchLog {}

impl SwitchLog {
    /// Opens the log of the calling thread. `bytes` is rounded up to a power of two of at least a page;
    /// where the kernel allows less locked memory, the ring is smaller.
    pub fn of_this_thread(bytes: usize) -> io::Result<SwitchLog> {
        let attr = PerfEventAttr {
            kind: SOFTWARE,
            size: size_of::<PerfEventAttr>() as u32,
            config: DUMMY,
            sample_type: TID_TIME,
            flags: EXCLUDE_KERNEL | EXCLUDE_HV | SAMPLE_ID_ALL | USE_CLOCKID | CONTEXT_SWITCH,
            clockid: CLOCK_MONOTONIC,
            ..PerfEventAttr::default()
        };
        let (own, any_cpu, no_group) = (0, -1, -1);
        // SAFETY: the kernel reads `size` bytes of `attr`, which lives through the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                own,
                any_cpu,
                no_group,
                CLOEXEC,
            )
        };
        let fd = i32::try_from(fd).unwrap_or(-1);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let page = rustix::param::page_size();
        let mut data = bytes.next_power_of_two().max(page);
        loop {
            match map(&fd, page + data) {
                Ok(base) => {
                    return Ok(SwitchLog { base, data, page, _fd: fd });
                }
                Err(_) if data > page => data /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    /// Appends everything that was logged since the last call.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        // SAFETY: both words lie in the first page of the mapping, aligned to 8, and are shared
        // with the kernel only as words.
        let (head, tail) = unsafe {
            (
                &*self.base.add(HEAD).cast::<AtomicU64>().as_ptr(),
                &*self.base.add(TAIL).cast::<AtomicU64>().as_ptr(),
            )
        };
        let (from, to) = (tail.load(Ordering::Relaxed), head.load(Ordering::Acquire));
        let length = (to.wrapping_sub(from) as usize).min(self.data);
        let start = from as usize & (self.data - 1);
        let first = length.min(self.data - start);
        for (at, count) in [(start, first), (0, length - first)] {
            // SAFETY: `at + count` is within the ring behind the first page; the kernel does not
            // write there before `tail` has passed it.
            let part = unsafe {
                std::slice::from_raw_parts(self.base.add(self.page + at).as_ptr(), count)
            };
            out.extend_from_slice(part);
        }
        tail.store(to, Ordering::Release);
    }
}

fn map(fd: &OwnedFd, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address the kernel chooses.
    let base =
        unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd.as_fd(), 0)? };
    NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Drop for SwitchLog {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` made; no reference into it outlives a method.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.page + self.data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structure_has_its_size() {
        assert_eq!(size_of::<PerfEventAttr>(), 112);
        assert_eq!(std::mem::offset_of!(PerfEventAttr, flags), 40);
        assert_eq!(std::mem::offset_of!(PerfEventAttr, clockid), 92);
    }
}
