//! Whether a path allows direct I/O, and with which alignment: what the kernel states, else what a try shows. Leaves
//! nothing behind.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use serde::Serialize;

/// What direct I/O needs on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DirectIoLimits {
    /// Offsets and sizes must be multiples of this, bytes.
    pub offset_align: u32,
    /// Memory must be aligned to this, bytes; unknown where only a try told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_align: Option<u32>,
}

/// Largest block tried, bytes.
const LARGEST: usize = 65536;

/// Finds out for an existing file, device or directory. A file or device is only read; of an empty file the answer is
/// that of its directory. In a directory an unnamed temporary file is used, which no one sees and which is gone at
/// once. Errors: the system's error when direct I/O is not possible there; one without a number when an empty file's
/// directory has no answer.
pub fn probe(path: &Path) -> io::Result<DirectIoLimits> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_dir() {
        if let Some(direct) = stated(path) {
            return Ok(direct);
        }
        let file = open(path, OFlags::RDONLY | OFlags::DIRECT)?;
        if meta.is_file() && meta.len() == 0 {
            // Reads at its end move nothing, and are not asked for their alignment. Its neighbours may be.
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let unknown = "the file is empty, and nothing beside it tells which alignment it needs";
            return probe(dir.unwrap_or(Path::new("."))).map_err(|_| io::Error::other(unknown));
        }
        return tried(|buffer| file.read_at(buffer, 0).map(|_| ()));
    }
    let file = open(path, OFlags::RDWR | OFlags::TMPFILE | OFlags::DIRECT)?;
    if let Some(direct) = stated_by(&file, c"") {
        return Ok(direct);
    }
    tried(|buffer| file.write_at(buffer, 0).map(|_| ()))
}

/// The same in a directory whose file system has no unnamed files: a named one, gone at once.
/// Errors: the system's error when direct I/O is not possible there.
pub fn probe_named(dir: &Path) -> io::Result<DirectIoLimits> {
    let path = dir.join(format!(".taillight-probe-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    // Made without direct I/O, so that a refusal of that leaves nothing behind.
    drop(open(&path, flags)?);
    let file = open(&path, OFlags::RDWR | OFlags::DIRECT);
    let removed = std::fs::remove_file(&path);
    let file = file?;
    removed?;
    match stated_by(&file, c"") {
        Some(direct) => Ok(direct),
        None => tried(|buffer| file.write_at(buffer, 0).map(|_| ())),
    }
}

/// Opens a path without waiting; a file that is made is its owner's alone.
fn open(path: &Path, flags: OFlags) -> io::Result<std::fs::File> {
    // Opening a FIFO must not wait for its other end.
    let flags = flags | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    Ok(std::fs::File::from(fd))
}

/// What the kernel states of a path (since Linux 6.1 on most file systems); none where it states nothing.
fn stated(path: &Path) -> Option<DirectIoLimits> {
    let stat = rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    answer(&stat)
}

/// The same of an opened file; `empty` is the empty path.
fn stated_by(file: &std::fs::File, empty: &std::ffi::CStr) -> Option<DirectIoLimits> {
    let stat = rustix::fs::statx(file, empty, AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    answer(&stat)
}

/// What is in the kernel's answer; none where it does not know, or direct I/O is not possible.
fn answer(stat: &rustix::fs::Statx) -> Option<DirectIoLimits> {
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    (known && stat.stx_dio_offset_align > 0).then_some(DirectIoLimits {
        offset_align: stat.stx_dio_offset_align,
        memory_align: Some(stat.stx_dio_mem_align),
    })
}

/// The smallest power of two from 512 to 64 KiB that `io`, which reads or writes that much, takes. Errors: that of the
/// last try, or the first that is not about the size.
fn tried(mut io: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<DirectIoLimits> {
    let mut memory = vec![0u8; 2 * LARGEST];
    let skip = memory.as_ptr().align_offset(LARGEST).min(LARGEST);
    let mut size = 512;
    loop {
        match io(&mut memory[skip..skip + size]) {
            Ok(()) => {
                return Ok(DirectIoLimits {
                    offset_align: u32::try_from(size).unwrap_or(u32::MAX),
                    memory_align: None,
                });
            }
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                size *= 2;
                if size > LARGEST {
                    return Err(e);
                }
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_answers_and_stays_empty() {
        let dir = tempfile::tempdir().unwrap();
        match probe(dir.path()) {
            Ok(d) => assert!(d.offset_align.is_power_of_two(), "{d:?}"),
            Err(e) => assert!(e.raw_os_error().is_some(), "{e}"),
        }
        if let Ok(d) = probe_named(dir.path()) {
            assert!(d.offset_align.is_power_of_two(), "{d:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn trying_finds_the_smallest_size() {
        let need = |n: usize| {
            move |b: &mut [u8]| match b.len() >= n {
                true => Ok(()),
                false => Err(rustix::io::Errno::INVAL.into()),
            }
        };
        assert_eq!(tried(need(512)).unwrap().offset_align, 512);
        assert_eq!(tried(need(4096)).unwrap().offset_align, 4096);
        assert!(tried(need(1 << 20)).is_err());
        assert!(probe(Path::new("/no/such/path")).is_err());
    }
}
