//! A table of descriptors of the calling thread alone: made, and emptied before the thread ends.
#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::os::fd::RawFd;

use rustix::process::getpid;
use rustix::thread::gettid;

/// Behind standard input, output and error.
const FIRST: u32 = 3;
/// Numbers in a word of a table's bitmaps.
const WORD: u32 = 64;

/// The calling thread's own table, until it is dropped.
///
/// What is left in it is closed then. The end of the thread would be too late: who waits for that is told before the
/// kernel closes files, and locks of files and ends of pipes would be held a moment longer.
pub struct OwnDescriptors {
    /// It stays on its thread.
    _thread: PhantomData<*const ()>,
}

impl OwnDescriptors {
    /// Gives the calling thread a table of its own, in which `kept` and standard input, output and error have the
    /// numbers that they have for the process. For this thread all else is closed, for others nothing changes.
    /// Errors: the kernel's (before Linux 5.9, or a seccomp filter), and on the first thread of a process; nothing has
    /// changed then.
    pub fn keep(kept: &[RawFd]) -> io::Result<OwnDescriptors> {
        if gettid() == getpid() {
            return Err(io::Error::other("the process has the table of its first thread"));
        }
        let kept = kept.iter().filter_map(|fd| u32::try_from(*fd).ok());
        let mut kept: Vec<u32> = kept.filter(|fd| *fd >= FIRST).collect();
        kept.sort_unstable();
        // Whole words: of part of one, Linux before 5.18 forgets which numbers are taken.
        let behind = kept.last().map_or(FIRST, |last| last + 1).next_multiple_of(WORD);
        // All in one call: behind that nothing is copied, and where it fails the table is still the process's.
        close_range(behind, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
        let own = OwnDescriptors { _thread: PhantomData };
        let mut from = FIRST;
        for fd in kept.into_iter().chain([behind]) {
            if from < fd {
                // What this left would be closed in the end.
                let _ = close_range(from, fd - 1, 0);
            }
            from = fd + 1;
        }
        Ok(own)
    }
}

impl Drop for OwnDescriptors {
    fn drop(&mut self) {
        let _ = close_range(FIRST, u32::MAX, 0);
    }
}

fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: three integers, and no memory of the process is touched. What is closed is in no table but the calling
    // thread's: that of the first call is made by it (a thread beside the first one shares its table with that one, or
    // has its own), the others follow on the same thread.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
