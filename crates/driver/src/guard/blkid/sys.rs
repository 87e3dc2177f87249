//! Calls of libblkid (`/usr/include/blkid/blkid.h`).
//!
//! Every function here is safe to call: pointers that the library gives are used while its probe lives.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::AsRawFd;

use libloading::{Library, Symbol};
use taillight_machine::block::PartitionRange;

use super::Signature;
use crate::guard::partitions::SearchedDisk;

type Handle = *mut c_void;
type Call<A, R> = unsafe extern "C" fn(Handle, A) -> R;

const ON: c_int = 1;
const LABEL: c_int = 1 << 1;
const TYPE: c_int = 1 << 5;
const USAGE: c_int = 1 << 7;
const MAGIC: c_int = 1 << 9;
#[cfg(test)]
const BAD_CHECKSUM: c_int = 1 << 10;

/// More are not asked for: a probe that finds without end is broken.
const MOST: usize = 64;

/// A probe of a range, with the library that it is of.
struct BlkidProbe<'a> {
    library: &'a Library,
    handle: Handle,
}

impl<'a> BlkidProbe<'a> {
    /// None where the library lacks what is asked of it, or does not take the range.
    fn new(
        library: &'a Library,
        disk: &SearchedDisk<'_>,
        range: PartitionRange,
    ) -> Option<BlkidProbe<'a>> {
        let range = disk.clipped(range);
        let (start, len) = (i64::try_from(range.start).ok()?, i64::try_from(range.len).ok()?);
        // SAFETY: the signatures are those of the header.
        let (new, set) = unsafe {
            let new: Symbol<'_, unsafe extern "C" fn() -> Handle> =
                library.get(b"blkid_new_probe\0").ok()?;
            let set: Symbol<'_, unsafe extern "C" fn(Handle, c_int, i64, i64) -> c_int> =
                library.get(b"blkid_probe_set_device\0").ok()?;
            (new, set)
        };
        // SAFETY: it takes nothing and gives a probe or null.
        let handle = unsafe { new() };
        let probe = (!handle.is_null()).then_some(BlkidProbe { library, handle })?;
        // SAFETY: the probe lives, the descriptor is open for as long as the caller holds it, which is
        // longer than the probe.
        let done = unsafe { set(handle, disk.fd.as_raw_fd(), start, len) };
        (done == 0).then_some(probe)
    }

    /// A function of the probe, or of something else that the library gave.
    fn call<A, R>(&self, name: &[u8], of: Handle, argument: A) -> Option<R> {
        // SAFETY: all functions that are named in this file take a handle and one argument of the type that
        // they are called with (or ignore a second one), as the header says.
        let function: Symbol<'_, Call<A, R>> = unsafe { self.library.get(name).ok()? };
        // SAFETY: as above; the handle is of the living probe.
        Some(unsafe { function(of, argument) })
    }

    fn value(&self, name: &CStr) -> Option<String> {
        type Lookup =
            unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char, *mut usize) -> c_int;
        // SAFETY: the signature is that of the header.
        let look: Symbol<'_, Lookup> =
            unsafe { self.library.get(b"blkid_probe_lookup_value\0").ok()? };
        let (mut data, mut len) = (std::ptr::null(), 0);
        // SAFETY: the name ends in zero; both places are written by the call.
        let found = unsafe { look(self.handle, name.as_ptr(), &raw mut data, &raw mut len) } == 0;
        // SAFETY: a value that was found is a text that ends in zero and lives until the next probing.
        let text = (found && !data.is_null()).then(|| unsafe { CStr::from_ptr(data) })?;
        Some(text.to_string_lossy().into_owned())
    }
}

impl Drop for BlkidProbe<'_> {
    fn drop(&mut self) {
        let _: Option<()> = self.call(b"blkid_free_probe\0", self.handle, ());
    }
}

fn library() -> Option<Library> {
    // SAFETY: libblkid has no initializers that depend on this program.
    unsafe { Library::new("libblkid.so.1").ok() }
}

/// The signatures in a range, 64 at most; `None` where there is no libblkid, or it does not take the range.
pub fn signatures(disk: &SearchedDisk<'_>, range: PartitionRange) -> Option<Vec<Signature>> {
    asked(disk, range, LABEL | TYPE | USAGE | MAGIC)
}

/// As [`signatures`], with those whose checksum is wrong.
#[cfg(test)]
pub fn signatures_of_any_checksum(
    disk: &SearchedDisk<'_>,
    range: PartitionRange,
) -> Option<Vec<Signature>> {
    asked(disk, range, LABEL | TYPE | USAGE | MAGIC | BAD_CHECKSUM)
}

fn asked(disk: &SearchedDisk<'_>, range: PartitionRange, flags: c_int) -> Option<Vec<Signature>> {
    let library = library()?;
    let probe = BlkidProbe::new(&library, disk, range)?;
    let set = b"blkid_probe_set_superblocks_flags\0";
    let _: c_int = probe.call(b"blkid_probe_enable_superblocks\0", probe.handle, ON)?;
    let _: c_int = probe.call(set, probe.handle, flags)?;
    let mut all = Vec::new();
    while all.len() < MOST {
        let found: c_int = probe.call(b"blkid_do_probe\0", probe.handle, ())?;
        if found < 0 {
            let e = io::Error::last_os_error();
            disk.note(format!("libblkid, at {} and behind it: {e}", range.start));
        }
        if found != 0 {
            break;
        }
        if let (Some(usage), Some(kind)) = (probe.value(c"USAGE"), probe.value(c"TYPE")) {
            let at = probe.value(c"SBMAGIC_OFFSET").and_then(|at| at.parse().ok());
            all.push(Signature { usage, kind, label: probe.value(c"LABEL"), at });
        }
    }
    Some(all)
}

/// The partitions of a range, of every kind of table that libblkid knows; empty without it.
pub fn partitions(disk: &SearchedDisk<'_>, range: PartitionRange) -> Vec<PartitionRange> {
    let Some(library) = library() else { return Vec::new() };
    let found = BlkidProbe::new(&library, disk, range).and_then(|probe| {
        let _: c_int = probe.call(b"blkid_probe_enable_partitions\0", probe.handle, ON)?;
        let list: Handle = probe.call(b"blkid_probe_get_partitions\0", probe.handle, ())?;
        if list.is_null() {
            return None;
        }
        let count: c_int = probe.call(b"blkid_partlist_numof_partitions\0", list, ())?;
        let each = |n: c_int| {
            let part: Handle = probe.call(b"blkid_partlist_get_partition\0", list, n)?;
            let part = Some(part).filter(|p| !p.is_null())?;
            let sectors = |name: &[u8]| {
                let sectors: i64 = probe.call(name, part, ())?;
                u64::try_from(sectors).ok()?.checked_mul(512)
            };
            let start = sectors(b"blkid_partition_get_start\0")?.checked_add(range.start)?;
            Some(PartitionRange { start, len: sectors(b"blkid_partition_get_size\0")? })
        };
        Some((0..count).filter_map(each).collect())
    });
    found.unwrap_or_default()
}
