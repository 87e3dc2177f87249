//! The ownership mark: `.taillight-owner.json` beside the files that Taillight made.
//!
//! A file is Taillight's when the mark names its inode, device and size, and nobody changed it
//! since the run that kept it ended. A file that a killed run was still appending to has neither a
//! final size nor a time of change: its mark proves nothing, so that it needs confirmation. The mark
//! is written before the first byte of data and removed
//! after the file, so that a killed run leaves files that the next run still knows. Changes happen
//! under a lock on the directory. A database has one mark for its whole directory, because its store
//! makes and deletes files as it likes.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use crate::file::cannot::cannot;

/// Name of the mark.
pub const SIDECAR: &str = ".taillight-owner.json";
/// Version of its format.
const VERSION: u32 = 1;

/// One file that Taillight made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Name in the directory.
    pub name: String,
    pub inode: u64,
    /// Device of the file system, "major:minor".
    pub device: String,
    /// Size, bytes.
    pub size: u64,
    /// It is being appended to: any size up to `size` is right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grows: bool,
    /// Run that made it.
    pub run_id: String,
    /// Stays after the run.
    pub keep: bool,
    /// When it was last changed, ns since the epoch; absent while a run uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
}

impl Mark {
    /// Whether this is the mark of the file with this `stat`, as far as the run that uses it can
    /// tell; a later run asks [`Mark::unfinished`] too.
    pub fn fits(&self, stat: &Stat) -> bool {
        let size = u64::try_from(stat.st_size);
        self.same_file(stat)
            && size.is_ok_and(|size| size == self.size || (self.grows && size < self.size))
            && self.modified_ns.is_none_or(|at| at == modified_ns(stat))
    }
    /// Notes when the file was last changed and how large it became: from now on a later change
    /// makes it foreign.
    pub fn seal(&mut self, stat: &Stat) {
        self.size = u64::try_from(stat.st_size).unwrap_or(self.size);
        self.grows = false;
        self.modified_ns = Some(modified_ns(stat));
    }
    /// Whether a run that appended to this very file was killed: what is in it now may be anybody's.
    pub fn unfinished(&self, stat: &Stat) -> bool {
        self.grows && self.modified_ns.is_none() && self.same_file(stat)
    }
    fn same_file(&self, stat: &Stat) -> bool {
        self.inode == stat.st_ino && self.device == device(stat)
    }
}

fn modified_ns(stat: &Stat) -> i64 {
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    stat.st_mtime
        .saturating_mul(1_000_000_000)
        .saturating_add(nanos)
}

/// "major:minor" of the file system that holds a file.
pub fn device(stat: &Stat) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev)
    )
}

/// A database that Taillight made: everything else in the directory belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreMark {
    /// Driver that made it.
    pub driver: String,
    /// Inode number of the directory.
    pub inode: u64,
    /// Device of the file system, "major:minor".
    pub device: String,
    /// Run that made it.
    pub run_id: String,
    /// Stays after the run.
    pub keep: bool,
    /// Form of its keys and values: records of another form are other records.
    pub form: String,
    /// Records known to be there, from the first key number on.
    pub records: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Ledger {
    taillight_owner: u32,
    files: Vec<Mark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<StoreMark>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            taillight_owner: VERSION,
            files: Vec::new(),
            store: None,
        }
    }
}

/// An opened directory with its marks.
#[derive(Debug)]
pub struct OwnedDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl OwnedDir {
    /// Opens a directory; its path must hold no symlink in the last component.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be opened.
    pub fn open(path: &Path) -> Result<OwnedDir> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| cannot("cannot open the directory", path, e))?;
        Ok(OwnedDir {
            fd,
            path: path.to_path_buf(),
        })
    }
    /// The descriptor, to open files in it.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks in this directory. A mark file of another user is not trusted: it says nothing.
    ///
    /// # Errors
    /// `Corrupt` when it cannot be understood, `Unavailable` when it cannot be read.
    pub fn marks(&self) -> Result<Vec<Mark>> {
        Ok(self.read()?.unwrap_or_default().files)
    }

    /// The mark of the database in this directory, if it still means this directory.
    ///
    /// # Errors
    /// As [`OwnedDir::marks`].
    pub fn store(&self) -> Result<Option<StoreMark>> {
        let Some(mark) = self.read()?.unwrap_or_default().store else {
            return Ok(None);
        };
        let (inode, device) = self.identity()?;
        Ok(Some(mark).filter(|m| m.inode == inode && m.device == device))
    }

    /// Replaces or removes the mark of the database.
    ///
    /// # Errors
    /// `Unavailable` when the mark cannot be written.
    pub fn set_store(&self, mark: Option<StoreMark>) -> Result<()> {
        self.change(|ledger| ledger.store = mark)
    }

    /// Inode and device of the directory itself.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be asked.
    pub fn identity(&self) -> Result<(u64, String)> {
        let stat =
            rustix::fs::fstat(&self.fd).map_err(|e| self.failed("cannot stat the directory", e))?;
        Ok((stat.st_ino, device(&stat)))
    }

    /// `None`: the mark file is another user's.
    fn read(&self) -> Result<Option<Ledger>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match rustix::fs::openat(&self.fd, SIDECAR, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Some(Ledger::default())),
            Err(e) => return Err(self.failed("cannot open the ownership mark", e)),
        };
        let stat =
            rustix::fs::fstat(&fd).map_err(|e| self.failed("cannot stat the ownership mark", e))?;
        let trusted = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
        if !trusted {
            return Ok(None);
        }
        let mut text = String::new();
        std::fs::File::from(fd)
            .read_to_string(&mut text)
            .map_err(|e| self.failed("cannot read the ownership mark", e))?;
        let ledger: Ledger = serde_json::from_str(&text).map_err(|e| {
            Error::corrupt("the ownership mark cannot be understood")
                .with("path", self.path.join(SIDECAR).display())
                .source(e)
                .hint("delete it; files it named then count as not made by Taillight")
        })?;
        match ledger.taillight_owner {
            VERSION => Ok(Some(ledger)),
            other => Err(Error::corrupt("the ownership mark has an unknown version")
                .with("path", self.path.join(SIDECAR).display())
                .with("version", other)),
        }
    }

    /// Adds or replaces the marks of these files.
    ///
    /// # Errors
    /// `Unavailable` when the mark cannot be written.
    pub fn add(&self, new: &[Mark]) -> Result<()> {
        self.change(|ledger| {
            ledger
                .files
                .retain(|m| !new.iter().any(|n| n.name == m.name));
            ledger.files.extend_from_slice(new);
        })
    }

    /// Deletes the files of these marks, if the names still mean them, then the marks.
    ///
    /// # Errors
    /// `Unavailable` for the first file or mark that cannot be removed.
    pub fn delete(&self, gone: &[Mark]) -> Result<()> {
        let mut first_error = None;
        for mark in gone {
            match rustix::fs::statat(&self.fd, mark.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) if mark.same_file(&stat) => {
                    let rc = rustix::fs::unlinkat(&self.fd, mark.name.as_str(), AtFlags::empty());
                    if let Err(e) = rc {
                        first_error.get_or_insert(self.failed("cannot delete a file", e));
                    }
                }
                _ => {}
            }
        }
        match first_error {
            Some(e) => Err(e),
            None => self.change(|ledger| ledger.files.retain(|m| !gone.contains(m))),
        }
    }

    /// Reads, changes and replaces the mark file under a lock on the directory.
    fn change(&self, change: impl FnOnce(&mut Ledger)) -> Result<()> {
        // Some network file systems know no locks; two runs in one directory are then on their own.
        let locked = rustix::fs::flock(&self.fd, FlockOperation::LockExclusive).is_ok();
        let result = match self.read() {
            Ok(Some(mut ledger)) => {
                change(&mut ledger);
                self.write(&ledger)
            }
            Ok(None) => Err(
                Error::unavailable("the ownership mark belongs to another user")
                    .with("path", self.path.join(SIDECAR).display())
                    .hint("choose a directory of your own"),
            ),
            Err(e) => Err(e),
        };
        if locked {
            let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
        }
        result
    }

    fn write(&self, ledger: &Ledger) -> Result<()> {
        if ledger.files.is_empty() && ledger.store.is_none() {
            return match rustix::fs::unlinkat(&self.fd, SIDECAR, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(e) => Err(self.failed("cannot remove the ownership mark", e)),
            };
        }
        let text = serde_json::to_vec_pretty(ledger)
            .map_err(|e| Error::internal("the ownership mark is not JSON").source(e))?;
        let temporary = format!("{SIDECAR}.{}", std::process::id());
        let temporary = OsStr::new(&temporary);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = rustix::fs::unlinkat(&self.fd, temporary, AtFlags::empty());
        let written = rustix::fs::openat(&self.fd, temporary, flags, Mode::from_raw_mode(0o644))
            .map_err(std::io::Error::from)
            .and_then(|fd| {
                let mut file = std::fs::File::from(fd);
                file.write_all(&text)?;
                file.sync_all()?;
                rustix::fs::renameat(&self.fd, temporary, &self.fd, SIDECAR)?;
                Ok(rustix::fs::fsync(self.fd.as_fd())?)
            });
        written.map_err(|e| {
            let _ = rustix::fs::unlinkat(&self.fd, temporary, AtFlags::empty());
            self.failed("cannot write the ownership mark", e)
        })
    }

    fn failed(&self, what: &str, e: impl Into<std::io::Error>) -> Error {
        cannot(what, &self.path, e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn mark(dir: &OwnedDir, name: &str) -> Mark {
        let stat = rustix::fs::statat(&dir.fd, name, AtFlags::empty()).unwrap();
        Mark {
            name: name.to_owned(),
            inode: stat.st_ino,
            device: device(&stat),
            size: u64::try_from(stat.st_size).unwrap(),
            grows: false,
            run_id: "r1".to_owned(),
            keep: false,
            modified_ns: None,
        }
    }

    #[test]
    fn a_growing_file_is_known_at_any_size_until_it_is_sealed() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::open(tmp.path()).unwrap();
        std::fs::write(tmp.path().join("a"), b"12345").unwrap();
        let stat = || rustix::fs::statat(&dir.fd, "a", AtFlags::empty()).unwrap();
        let mut mark = Mark {
            size: 9,
            grows: true,
            ..mark(&dir, "a")
        };
        assert!(mark.fits(&stat()));
        std::fs::write(tmp.path().join("a"), b"1234567890").unwrap();
        assert!(!mark.fits(&stat()), "larger than the run could make it");
        std::fs::write(tmp.path().join("a"), b"1234").unwrap();
        mark.seal(&stat());
        assert!(mark.fits(&stat()));
        std::fs::write(tmp.path().join("a"), b"123").unwrap();
        assert!(!mark.fits(&stat()), "smaller than it was left");
    }

    #[test]
    fn marks_come_and_go_with_their_files() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::open(tmp.path()).unwrap();
        for name in ["a", "b"] {
            std::fs::write(tmp.path().join(name), b"x").unwrap();
            dir.add(&[mark(&dir, name)]).unwrap();
        }
        let marks = dir.marks().unwrap();
        assert_eq!(marks.len(), 2);
        let file = std::fs::File::open(tmp.path().join("a")).unwrap();
        let stat = rustix::fs::fstat(file.as_fd()).unwrap();
        assert!(marks[0].fits(&stat) && !marks[1].fits(&stat));

        dir.delete(&marks[..1]).unwrap();
        assert!(!tmp.path().join("a").exists() && tmp.path().join("b").exists());
        dir.delete(&marks[1..]).unwrap();
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_replaced_file_is_not_deleted() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::open(tmp.path()).unwrap();
        std::fs::write(tmp.path().join("a"), b"x").unwrap();
        let mine = mark(&dir, "a");
        dir.add(std::slice::from_ref(&mine)).unwrap();
        std::fs::write(tmp.path().join("theirs"), b"y").unwrap();
        std::fs::rename(tmp.path().join("theirs"), tmp.path().join("a")).unwrap();
        dir.delete(&[mine]).unwrap();
        assert_eq!(std::fs::read(tmp.path().join("a")).unwrap(), b"y");
    }

    #[test]
    fn a_database_has_one_mark_beside_those_of_files() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::open(tmp.path()).unwrap();
        let (inode, device) = dir.identity().unwrap();
        let store = StoreMark {
            driver: "rocksdb".to_owned(),
            inode,
            device,
            run_id: "r1".to_owned(),
            keep: true,
            form: "user".to_owned(),
            records: 10,
        };
        dir.set_store(Some(store.clone())).unwrap();
        std::fs::write(tmp.path().join("a"), b"x").unwrap();
        dir.add(&[mark(&dir, "a")]).unwrap();
        assert_eq!(dir.store().unwrap(), Some(store.clone()));
        let elsewhere = StoreMark {
            inode: inode + 1,
            ..store
        };
        dir.set_store(Some(elsewhere)).unwrap();
        assert_eq!(dir.store().unwrap(), None, "a mark that was copied here");
        dir.set_store(None).unwrap();
        assert_eq!(dir.marks().unwrap().len(), 1);
    }

    #[test]
    fn a_grown_file_and_a_broken_mark() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDir::open(tmp.path()).unwrap();
        std::fs::write(tmp.path().join("a"), b"x").unwrap();
        let mut mine = mark(&dir, "a");
        let stat = rustix::fs::statat(&dir.fd, "a", AtFlags::empty()).unwrap();
        mine.seal(&stat);
        assert!(mine.fits(&stat));
        mine.modified_ns = mine.modified_ns.map(|at| at - 1);
        assert!(!mine.fits(&stat), "changed since the run that kept it");
        mine.modified_ns = None;
        std::fs::write(tmp.path().join("a"), b"xx").unwrap();
        let stat = rustix::fs::statat(&dir.fd, "a", AtFlags::empty()).unwrap();
        assert!(!mine.fits(&stat));
        std::fs::write(tmp.path().join(SIDECAR), b"{").unwrap();
        assert_eq!(
            dir.marks().unwrap_err().kind(),
            taillight_core::ErrorKind::Corrupt
        );
        std::fs::write(
            tmp.path().join(SIDECAR),
            b"{\"taillight_owner\":9,\"files\":[]}",
        )
        .unwrap();
        assert_eq!(
            dir.marks().unwrap_err().kind(),
            taillight_core::ErrorKind::Corrupt
        );
    }
}
