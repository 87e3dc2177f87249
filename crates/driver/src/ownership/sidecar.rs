//! The sidecar `.taillight-owner.json` of a directory: the marks of files in it, and the mark of a
//! database that has the directory for its own, because its store makes and deletes files as it likes.
//!
//! It is replaced as a whole, under a lock on the directory. A sidecar of another user is not trusted.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result, StopFlag};

use super::files::FileMark;
use super::{MarkStore, OwnershipMark, refusal};
use crate::guard;
use crate::path_error::cannot;
use crate::patience;

/// Name of the sidecar; an object store has its mark in an object of this name.
pub const SIDECAR: &str = ".taillight-owner.json";
/// Version of its format.
const VERSION: u32 = 1;

/// How long another run may take to change the sidecar, and how often it is asked.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// The same for a run that was stopped and puts things in order.
const LOCK_BRIEFLY: Duration = Duration::from_millis(300);

/// "major:minor" of the file system that holds a file.
pub fn device(stat: &Stat) -> String {
    format!("{}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev))
}

/// What tells a database directory from a copy of it, and from a database of another driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    /// Driver that made the database.
    pub driver: String,
    /// Inode number of the directory.
    pub inode: u64,
    /// Device of the file system, "major:minor".
    pub device: String,
}

/// The mark of a database.
pub type DatabaseMark = OwnershipMark<DirectoryIdentity>;

#[derive(Debug, Serialize, Deserialize)]
struct Sidecar {
    taillight_owner: u32,
    files: Vec<FileMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<DatabaseMark>,
}

impl Default for Sidecar {
    fn default() -> Self {
        Sidecar { taillight_owner: VERSION, files: Vec::new(), store: None }
    }
}

/// An opened directory with its marks.
#[derive(Debug)]
pub struct OwnedDirectory {
    fd: OwnedFd,
    path: PathBuf,
    stop: StopFlag,
}

impl OwnedDirectory {
    /// Opens a directory; its path must hold no symlink in the last component. `stop` cuts waiting for
    /// its lock short. Errors: `Unavailable` when it cannot be opened.
    pub fn open(path: &Path, stop: &StopFlag) -> Result<OwnedDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| cannot("cannot open the directory", path, e))?;
        Ok(OwnedDirectory { fd, path: path.to_path_buf(), stop: stop.clone() })
    }
    /// The descriptor, to open files in it.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks in this directory. A mark file of another user is not trusted: it says nothing.
    /// Errors: `Corrupt` when it cannot be understood, `Unavailable` when it cannot be read.
    pub fn marks(&self) -> Result<Vec<FileMark>> {
        Ok(self.load()?.unwrap_or_default().files)
    }

    /// Inode and device of the directory itself. Errors: `Unavailable` when it cannot be asked.
    pub fn identity(&self) -> Result<(u64, String)> {
        let stat =
            rustix::fs::fstat(&self.fd).map_err(|e| self.failed("cannot stat the directory", e))?;
        Ok((stat.st_ino, device(&stat)))
    }

    /// `None`: the mark file is another user's.
    fn load(&self) -> Result<Option<Sidecar>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match rustix::fs::openat(&self.fd, SIDECAR, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Some(Sidecar::default())),
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
        let sidecar: Sidecar = serde_json::from_str(&text).map_err(|e| {
            Error::corrupt("the ownership mark cannot be understood")
                .with("path", self.path.join(SIDECAR).display())
                .source(e)
                .hint("delete it; files it named then count as not made by Taillight")
        })?;
        match sidecar.taillight_owner {
            VERSION => Ok(Some(sidecar)),
            other => Err(Error::corrupt("the ownership mark has an unknown version")
                .with("path", self.path.join(SIDECAR).display())
                .with("version", other)),
        }
    }

    /// Adds or replaces the marks of these files. Errors: `Unavailable` when the mark cannot be
    /// written.
    pub fn add(&self, new: &[FileMark]) -> Result<()> {
        self.change(|sidecar| {
            sidecar.files.retain(|m| !new.iter().any(|n| n.name == m.name));
            sidecar.files.extend_from_slice(new);
        })
    }

    /// Deletes the files of these marks, if the names still mean them, then the marks. Errors:
    /// `Unavailable` for the first file or mark that cannot be removed.
    pub fn delete(&self, gone: &[FileMark]) -> Result<()> {
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
            None => self.change(|sidecar| sidecar.files.retain(|m| !gone.contains(m))),
        }
    }

    /// Reads, changes and replaces the mark file under a lock on the directory.
    fn change<T>(&self, change: impl FnOnce(&mut Sidecar) -> T) -> Result<T> {
        let locked = self.lock()?;
        let result = match self.load() {
            Ok(Some(mut sidecar)) => {
                let changed = change(&mut sidecar);
                self.write(&sidecar).map(|()| changed)
            }
            Ok(None) => Err(Error::unavailable("the ownership mark belongs to another user")
                .with("path", self.path.join(SIDECAR).display())
                .hint("choose a directory of your own")),
            Err(e) => Err(e),
        };
        if locked {
            let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
        }
        result
    }

    /// Locks the directory; false where the file system knows no locks: two runs in one directory
    /// are then on their own. Errors: `Refused` when another process keeps it locked.
    fn lock(&self) -> Result<bool> {
        let never = StopFlag::default();
        let (most, stop) = match self.stop.stopped() {
            true => (LOCK_BRIEFLY, &never),
            false => (LOCK_WAIT, &self.stop),
        };
        let locked = patience::wait(most, LOCK_RETRY, stop, || {
            match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => None,
                locked => Some(locked.is_ok()),
            }
        });
        locked.ok_or_else(|| guard::in_use(&self.path, "locked by another program"))
    }

    fn write(&self, sidecar: &Sidecar) -> Result<()> {
        if sidecar.files.is_empty() && sidecar.store.is_none() {
            return match rustix::fs::unlinkat(&self.fd, SIDECAR, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(e) => Err(self.failed("cannot remove the ownership mark", e)),
            };
        }
        let text = serde_json::to_vec_pretty(sidecar)
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

    fn parsed(&self, mark: &[u8]) -> Result<DatabaseMark> {
        let wrong = |e| Error::internal("the mark of a database is none").source(e);
        OwnershipMark::parse(mark).map_err(wrong)
    }

    fn failed(&self, what: &str, e: impl Into<std::io::Error>) -> Error {
        cannot(what, &self.path, e)
    }
}

impl MarkStore for OwnedDirectory {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let sidecar = self.load()?.unwrap_or_default();
        sidecar.store.map(|mark| mark.bytes()).transpose()
    }

    fn create(&self, mark: &[u8]) -> Result<()> {
        let mark = self.parsed(mark)?;
        let taken = self.change(|sidecar| match &sidecar.store {
            None => {
                sidecar.store = Some(mark);
                false
            }
            Some(_) => true,
        })?;
        match taken {
            false => Ok(()),
            true => Err(refusal::taken(self.path.display())),
        }
    }

    fn renew(&self, mark: &[u8]) -> Result<()> {
        let mark = self.parsed(mark)?;
        self.change(|sidecar| sidecar.store = Some(mark))
    }

    fn remove(&self) -> Result<()> {
        self.change(|sidecar| sidecar.store = None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn mark(dir: &OwnedDirectory, name: &str) -> FileMark {
        let stat = rustix::fs::statat(&dir.fd, name, AtFlags::empty()).unwrap();
        FileMark {
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
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
        std::fs::write(tmp.path().join("a"), b"12345").unwrap();
        let stat = || rustix::fs::statat(&dir.fd, "a", AtFlags::empty()).unwrap();
        let mut mark = FileMark { size: 9, grows: true, ..mark(&dir, "a") };
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
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
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
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
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
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
        let (inode, device) = dir.identity().unwrap();
        let identity = DirectoryIdentity { driver: "rocksdb".to_owned(), inode, device };
        let database = DatabaseMark::new(identity, "r1", true, "user".to_owned());
        let bytes = database.bytes().unwrap();
        dir.create(&bytes).unwrap();
        let e = dir.create(&bytes).unwrap_err();
        assert_eq!(e.kind(), taillight_core::ErrorKind::Refused);
        std::fs::write(tmp.path().join("a"), b"x").unwrap();
        dir.add(&[mark(&dir, "a")]).unwrap();
        let read = || dir.read().unwrap().map(|b| DatabaseMark::parse(&b).unwrap());
        assert_eq!(read(), Some(database.clone()));
        let more = DatabaseMark { records: 11, ..database };
        dir.renew(&more.bytes().unwrap()).unwrap();
        assert_eq!(read(), Some(more));
        MarkStore::remove(&dir).unwrap();
        assert_eq!(read(), None);
        assert_eq!(dir.marks().unwrap().len(), 1);
    }

    #[test]
    fn a_grown_file_and_a_broken_mark() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
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
        assert_eq!(dir.marks().unwrap_err().kind(), taillight_core::ErrorKind::Corrupt);
        std::fs::write(tmp.path().join(SIDECAR), b"{\"taillight_owner\":9,\"files\":[]}").unwrap();
        assert_eq!(dir.marks().unwrap_err().kind(), taillight_core::ErrorKind::Corrupt);
    }

    /// Marks as earlier versions wrote them, byte by byte.
    #[test]
    fn marks_of_earlier_versions_are_read() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
        let text = r#"{
  "taillight_owner": 1,
  "files": [
    {
      "name": "taillight-0.dat",
      "inode": 18446744073709551615,
      "device": "254:0",
      "size": 1048576,
      "run_id": "20260101T000000Z-1",
      "keep": true,
      "modified_ns": 1767225600000000000
    },
    {
      "name": "stream.dat",
      "inode": 12,
      "device": "254:0",
      "size": 67108864,
      "grows": true,
      "run_id": "r2",
      "keep": false
    }
  ],
  "store": {
    "driver": "rocksdb",
    "inode": 4711,
    "device": "254:0",
    "run_id": "r1",
    "keep": true,
    "form": "keys hashed \"user\" 1 from 0; values one piece",
    "records": 1000
  }
}"#;
        std::fs::write(tmp.path().join(SIDECAR), text).unwrap();
        let files = dir.marks().unwrap();
        assert_eq!((files[0].inode, files[0].grows), (u64::MAX, false));
        assert_eq!(files[0].modified_ns, Some(1_767_225_600_000_000_000));
        assert_eq!((files[1].grows, files[1].modified_ns), (true, None));
        let mark = DatabaseMark::parse(&dir.read().unwrap().unwrap()).unwrap();
        assert_eq!(mark.identity.driver, "rocksdb");
        assert_eq!((mark.identity.inode, mark.records, mark.keep), (4711, 1000, true));
        // Unchanged, it is written as it was.
        dir.renew(&mark.bytes().unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(tmp.path().join(SIDECAR)).unwrap(), text);
    }
}
