//! Closing a file so that its error is seen: some file systems say only then that what was written is not there.
#![allow(unsafe_code)]

use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

/// Closes a file. Errors: as close(2); it is closed all the same.
#[inline]
pub fn close(fd: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned and is given up here, so that nothing else closes or uses it.
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
