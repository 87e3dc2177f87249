//! The status call of the loop driver.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, ioctl};

use super::LoopBacking;
use crate::DeviceNumber;

/// The kernel's `struct loop_info64` (`include/uapi/linux/loop.h`).
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

const _: () = assert!(size_of::<LoopInfo>() == 232);

const LOOP_GET_STATUS64: rustix::ioctl::Opcode = 0x4C05;

/// What is behind an open loop device; none where it is not in use. Errors: what the kernel says.
pub fn status(fd: impl AsFd) -> io::Result<Option<LoopBacking>> {
    // SAFETY: the call fills exactly one `struct loop_info64`, which `LoopInfo` mirrors (its size is
    // checked above) and of which every bit pattern is a value.
    let answer = unsafe { ioctl(fd, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) };
    match answer {
        Ok(info) => Ok(Some(LoopBacking {
            file_system: decoded(info.device),
            inode: info.inode,
            device: Some(info.rdevice).filter(|d| *d != 0).map(decoded),
            offset: info.offset,
            size_limit: info.size_limit,
        })),
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Undoes `huge_encode_dev` of the kernel: twelve bits of major between the bits of minor.
fn decoded(device: u64) -> DeviceNumber {
    let device = device as u32;
    DeviceNumber { major: device >> 8 & 0xfff, minor: device & 0xff | device >> 12 & 0xf_ff00 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_the_kernel_is_read() {
        let number = DeviceNumber { major: 259, minor: 0x1_2345 };
        assert_eq!(decoded(0x45 | 259 << 8 | 0x1_2300 << 12), number);
    }
}
