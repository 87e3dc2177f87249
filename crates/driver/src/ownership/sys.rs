//! What has no safe wrapper: the UUID of a file system.
//!
//! The function is safe to call; the unsafe part is the system call itself.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `struct fsuuid2` of the kernel's `include/uapi/linux/fs.h`.
#[repr(C)]
struct FileSystemUuid {
    len: u8,
    uuid: [u8; 16],
}

/// `FS_IOC_GETFSUUID`, `_IOR(0x15, 0, struct fsuuid2)`, Linux 6.9.
const GET_UUID: u32 = 2 << 30 | (size_of::<FileSystemUuid>() as u32) << 16 | 0x15 << 8;

/// The UUID of the file system that holds an open file. Errors: as ioctl(2), `ENOTTY` where kernel or file
/// system have none.
pub fn filesystem_uuid(fd: impl AsFd) -> io::Result<Vec<u8>> {
    let mut found = FileSystemUuid { len: 0, uuid: [0; 16] };
    // SAFETY: the call writes the struct, which lives until it is over, and nothing else.
    let rc = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), GET_UUID as _, &mut found) };
    match rc {
        0 => Ok(found.uuid.into_iter().take(usize::from(found.len)).collect()),
        _ => Err(io::Error::last_os_error()),
    }
}
