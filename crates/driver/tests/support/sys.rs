//! A call of the kernel for tests that the standard library does not have: it shuts a file system down.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `XFS_IOC_GOINGDOWN`, which ext4 knows as `EXT4_IOC_SHUTDOWN`: _IOR('X', 125, u32).
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Shuts down without flushing the log before.
const NO_LOG_FLUSH: u32 = 2;

/// Shuts the mounted file system of this directory down, as a dying device would: later I/O to it fails.
pub fn shut_down(root: &File) -> io::Result<()> {
    let flag = NO_LOG_FLUSH;
    // SAFETY: the ioctl reads one u32; the descriptor is the root of a mounted file system.
    match unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const flag) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
