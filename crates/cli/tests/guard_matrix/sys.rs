//! A mapping of a file, held while its descriptor is closed: what `std` cannot make.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The first page of a file or device, mapped shared and writable. Nothing is read or written by it.
pub struct HeldMapping {
    // An address, so that it may be dropped by any thread.
    address: usize,
}

const PAGE: usize = 4096;

impl HeldMapping {
    pub fn of(path: &Path) -> std::io::Result<HeldMapping> {
        let file = File::options().read(true).write(true).open(path)?;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, and no reference to what is there is ever made.
        let address =
            unsafe { mmap(std::ptr::null_mut(), PAGE, both, MapFlags::SHARED, &file, 0) }?;
        Ok(HeldMapping { address: address as usize })
    }
}

impl Drop for HeldMapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of the mapping, which nobody else knows.
        let _ = unsafe { munmap(self.address as *mut _, PAGE) };
    }
}
