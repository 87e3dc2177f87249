//! What has no safe wrapper: the identity of a file system, who holds a lock, and writes through a mapping.
//!
//! All functions are safe to call; the unsafe parts are the system calls themselves and the mapped byte.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

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

/// The process that holds a lock of fcntl(2) on any part of an open file; none where nobody does, -1 where a descriptor
/// holds it and no process. Asked as an open file description (`F_OFD_GETLK`), so that locks of this process are seen,
/// too. Called by `kv::directory`. Errors: as fcntl(2).
pub fn lock_holder(fd: impl AsFd) -> io::Result<Option<i32>> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the call reads and writes the struct, which lives until it is over.
    let rc = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    match rc {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok((i32::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid)),
    }
}

/// Writes the first byte of a file through a shared mapping, before `between` and after it. Errors: as mmap(2), and those
/// of `between`.
pub fn write_mapped<T>(fd: impl AsFd, between: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let may = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address the kernel chooses; it is never turned into a reference.
    let base = unsafe { mmap(std::ptr::null_mut(), 1, may, MapFlags::SHARED, fd, 0)? }.cast::<u8>();
    // SAFETY: the byte is mapped for writing until `munmap`; the file is new, this process's own, and has it.
    unsafe { base.write_volatile(1) };
    let done = between();
    // SAFETY: as above.
    unsafe { base.write_volatile(2) };
    // SAFETY: unmaps exactly the mapping made above.
    unsafe { munmap(base.cast(), 1)? };
    done
}
