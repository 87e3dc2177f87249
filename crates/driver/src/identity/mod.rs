//! What a file or directory is: the identity that the kernel gives it, asked of an open descriptor or of a
//! name in an open directory. `guard` and `ownership` compare identities and decide whether something may
//! be written.

pub mod contents;
pub mod device;
pub mod target;

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::path::Arg;

/// What tells a file from other files, and from itself before it was changed (statx(2)). Files of
/// one file system share inode numbers over time, so that an inode says little without a time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Number of the file system's device, as `st_dev`.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// When the inode was made, ns since the epoch; nothing sets it later. `None` where the file system
    /// does not keep it.
    pub birth_ns: Option<i64>,
    /// When data or attributes were last changed, ns since the epoch. A program cannot set it, but the
    /// clock can be set back.
    pub changed_ns: i64,
    /// When data was last changed, ns since the epoch. Anybody who may write can set it.
    pub modified_ns: i64,
    /// Size, bytes.
    pub size: u64,
}

impl FileIdentity {
    /// The identity of an open file. Errors: as statx(2).
    pub fn of(fd: impl AsFd) -> io::Result<FileIdentity> {
        ask(fd, c"", AtFlags::EMPTY_PATH)
    }

    /// The identity of what `name` means in an open directory; a symlink is itself. Errors: as statx(2),
    /// `ENOENT` when there is nothing.
    pub fn at(dir: impl AsFd, name: impl Arg) -> io::Result<FileIdentity> {
        ask(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Whether both are the same file, changed or not. Where neither has a time of birth, device and
    /// inode number have to do; where one alone has it, they are not the same.
    pub fn same_file(&self, other: &FileIdentity) -> bool {
        (self.device, self.inode, self.birth_ns) == (other.device, other.inode, other.birth_ns)
    }
}

fn ask(fd: impl AsFd, name: impl Arg, flags: AtFlags) -> io::Result<FileIdentity> {
    let seen = statx(fd, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
    let keeps_birth = seen.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(FileIdentity {
        device: device(&seen),
        inode: seen.stx_ino,
        birth_ns: keeps_birth.then(|| nanoseconds(&seen.stx_btime)),
        changed_ns: nanoseconds(&seen.stx_ctime),
        modified_ns: nanoseconds(&seen.stx_mtime),
        size: seen.stx_size,
    })
}

fn device(seen: &Statx) -> u64 {
    rustix::fs::makedev(seen.stx_dev_major, seen.stx_dev_minor)
}

fn nanoseconds(at: &StatxTimestamp) -> i64 {
    at.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(at.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn a_file_is_the_same_until_it_is_made_anew() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(tmp.path()).unwrap();
        let path = tmp.path().join("a");
        let file = std::fs::File::create(&path).unwrap();
        let new = FileIdentity::of(&file).unwrap();
        assert_eq!(FileIdentity::at(&dir, "a").unwrap(), new);
        let stat = file.metadata().unwrap();
        assert_eq!((new.device, new.inode, new.size), (stat.dev(), stat.ino(), 0));
        file.write_all_at(b"xyz", 0).unwrap();
        let written = FileIdentity::of(&file).unwrap();
        assert!(written.same_file(&new) && written.size == 3);
        assert!(written.changed_ns >= new.changed_ns);
        assert_eq!(written.birth_ns, new.birth_ns);
        std::fs::write(tmp.path().join("b"), b"xyz").unwrap();
        std::fs::rename(tmp.path().join("b"), &path).unwrap();
        assert!(!FileIdentity::at(&dir, "a").unwrap().same_file(&written));
        assert!(FileIdentity::at(&dir, "b").is_err());
    }
}
