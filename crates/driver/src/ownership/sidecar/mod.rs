//! The sidecar `.taillight-owner.json` of a directory: the marks of files in it, and the mark of a
//! database that has the directory for its own, because its store makes and deletes files as it likes.
//!
//! It is replaced as a whole, under a lock on the directory where the file system has locks. A sidecar of another
//! user than this one or root is not trusted.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, renameat_with, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result, StopFlag, atomic};

use super::content::{FNV_START, FileSystemNaming, digest, digest_hex};
use super::files::{FileMark, write_back};
use super::node::{FileSystem, MarkedNode};
use super::sys::write_mapped;
use super::{MarkStore, OwnershipMark, refusal};
use crate::guard;
use crate::identity::FileIdentity;
use crate::path_error::cannot;
use crate::patience;

/// Name of the sidecar; an object store has its mark in an object of this name.
pub const SIDECAR: &str = ".taillight-owner.json";
/// Version of its format.
const VERSION: u32 = 1;
/// Largest sidecar that is read or written, bytes: the marks of 65,535 files with the longest names.
const MOST_BYTES: u64 = 128 << 20;
/// Names that are tried for a new sidecar before it takes the place of the old one.
const TEMPORARY_NAMES: u32 = 100;
/// How long another run may take to change the sidecar, and how often it is asked.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// How long another run may take, where this one was stopped and puts things in order.
const LOCK_BRIEFLY: Duration = Duration::from_millis(300);

/// What tells a database directory from a copy of it, and from a database of another driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    /// Driver that made the database.
    pub driver: String,
    /// The directory.
    #[serde(flatten)]
    pub node: MarkedNode,
    /// What the files of the database were when its run ended ([`super::content::fingerprint`]); absent
    /// while a run uses it, and in marks of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
}

impl DirectoryIdentity {
    /// How the texts in it name file systems.
    pub fn naming(&self) -> FileSystemNaming {
        if self.node.filesystem.is_some() {
            FileSystemNaming::Itself
        } else {
            FileSystemNaming::Device
        }
    }
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
    filesystem: FileSystem,
    stop: StopFlag,
}

impl OwnedDirectory {
    /// Opens a directory; its path must hold no symlink in the last component. `stop` cuts waiting for
    /// its lock short. Errors: `Unavailable` when it cannot be opened.
    pub fn open(path: &Path, stop: &StopFlag) -> Result<OwnedDirectory> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| cannot("cannot open the directory", path, e))?;
        let asked = FileSystem::of(&fd);
        let filesystem = asked.map_err(|e| cannot("cannot stat the directory", path, e))?;
        Ok(OwnedDirectory { fd, path: path.to_path_buf(), filesystem, stop: stop.clone() })
    }
    /// The descriptor, to open files in it.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// A path that leads to this very directory, whatever has its name by now; its name where there is no
    /// `/proc`.
    pub fn exact_path(&self) -> PathBuf {
        let exact = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        let here = self.identity().ok().zip(FileIdentity::at(CWD, exact.join(".").as_path()).ok());
        match here.is_some_and(|(is, there)| is.same_file(&there)) {
            true => exact,
            false => self.path.clone(),
        }
    }
    /// The file system that holds it.
    pub fn filesystem(&self) -> &FileSystem {
        &self.filesystem
    }

    /// Marks in this directory. A mark file of another user is not trusted: it says nothing.
    /// Errors: `Corrupt` when it cannot be understood, `Unavailable` when it cannot be read.
    pub fn marks(&self) -> Result<Vec<FileMark>> {
        Ok(self.load()?.unwrap_or_default().files)
    }

    /// The mark of the database that the directory is; none where it has none. Errors: `Corrupt` when the mark cannot
    /// be understood, `Unavailable` when it cannot be read.
    pub fn database(&self) -> Result<Option<DatabaseMark>> {
        Ok(self.load()?.unwrap_or_default().store)
    }

    /// What the directory itself is. Errors: `Unavailable` when it cannot be asked.
    pub fn identity(&self) -> Result<FileIdentity> {
        FileIdentity::of(&self.fd).map_err(|e| self.failed("cannot stat the directory", e))
    }

    /// `None`: the mark file is neither this user's nor root's.
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
        let too_large = || {
            Error::corrupt("the ownership mark is larger than any that Taillight writes")
                .with("path", self.path.join(SIDECAR).display())
                .with("most bytes", MOST_BYTES)
                .hint("delete it; files it named then count as not made by Taillight")
        };
        // Before a byte of it is read.
        if u64::try_from(stat.st_size).unwrap_or(0) > MOST_BYTES {
            return Err(too_large());
        }
        let mut text = String::new();
        std::fs::File::from(fd)
            .take(MOST_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|e| self.failed("cannot read the ownership mark", e))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(too_large());
        }
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

    /// Adds or replaces the marks of these files. Errors: as [`OwnedDirectory::marks`];
    /// `Unavailable` when the sidecar cannot be written or is another user's, `Refused` while
    /// another process keeps the directory locked.
    pub fn add(&self, new: &[FileMark]) -> Result<()> {
        let names: HashSet<&str> = new.iter().map(|mark| mark.name.as_str()).collect();
        self.change(|sidecar| {
            sidecar.files.retain(|mark| !names.contains(mark.name.as_str()));
            sidecar.files.extend_from_slice(new);
        })
    }

    /// The file of a mark, if the name still means it. Errors: `Unavailable` where that cannot be told.
    pub fn found(&self, mark: &FileMark) -> Result<Option<FileIdentity>> {
        match FileIdentity::at(&self.fd, mark.name.as_str()) {
            Ok(found) => Ok(Some(found).filter(|found| mark.node.is(found, &self.filesystem))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed("cannot stat a file", e)),
        }
    }

    /// What shows here that a file was changed. Tried on a file that is made for it.
    pub fn evidence(&self) -> ChangeEvidence {
        let Ok((mut file, name)) = self.temporary() else { return ChangeEvidence::None };
        let shown = evidence_of(&mut file);
        let named = FileIdentity::of(&file).ok().zip(FileIdentity::at(&self.fd, &*name).ok());
        if named.is_some_and(|(file, named)| file.same_file(&named)) {
            let _ = unlinkat(&self.fd, &*name, AtFlags::empty());
        }
        shown.unwrap_or(ChangeEvidence::None)
    }

    /// Whether nobody has changed what was `found` under the name of a mark since the seal: by its time of change, and
    /// by what it holds where the seal says that.
    pub fn proves(&self, mark: &FileMark, found: &FileIdentity) -> bool {
        let same = |data: &String| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&self.fd, mark.name.as_str(), flags, Mode::empty()).ok();
            file.filter(|file| FileIdentity::of(file).is_ok_and(|is| is == *found)).is_some_and(
                |file| digest(file, FNV_START).is_ok_and(|now| digest_hex(now) == *data),
            )
        };
        mark.proves(found, &self.filesystem) && mark.data.as_ref().is_none_or(same)
    }

    /// Deletes the file of a mark, if the name still means it. Errors: `Unavailable`.
    ///
    /// The name may come to mean another file after it was looked at: where the file system can rename without
    /// replacing, what is there is given a name that nobody uses first, looked at once more, and put back where it
    /// is not the file of the mark.
    pub fn unlink(&self, mark: &FileMark) -> Result<()> {
        if self.found(mark)?.is_none() {
            return Ok(());
        }
        let failed = |e: Errno| self.failed("cannot delete a file", e);
        let (name, random) = (mark.name.as_str(), RandomState::new().build_hasher().finish());
        let going = format!(".taillight-gone-{random:016x}");
        let moved = |from: &str, to: &str| {
            renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)
        };
        match moved(name, &going) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            // A file system without this flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                return unlinkat(&self.fd, name, AtFlags::empty()).map_err(failed);
            }
            Err(e) => return Err(failed(e)),
        }
        let is = FileIdentity::at(&self.fd, going.as_str());
        if is.is_ok_and(|is| mark.node.is(&is, &self.filesystem)) {
            return unlinkat(&self.fd, going.as_str(), AtFlags::empty()).map_err(failed);
        }
        moved(&going, name).map_err(|e| {
            let what = "a file that came to have the name of the run's has another name now";
            self.failed(what, e).with("was", name).with("is", &going).hint("give it its name back")
        })
    }

    /// Deletes the files of these marks, if the names still mean them, and once all are gone the
    /// marks. Errors: `Unavailable` for the first file that cannot be removed; as
    /// [`OwnedDirectory::add`].
    pub fn delete(&self, gone: &[FileMark]) -> Result<()> {
        let mut deleted = Ok(());
        for mark in gone {
            deleted = deleted.and(self.unlink(mark));
        }
        deleted?;
        self.forget(gone)
    }

    /// Replaces the mark of the directory itself where it is `old` still. Errors: `Refused` where another run has
    /// written one since; as [`OwnedDirectory::add`].
    pub fn exchange(&self, old: Option<&DatabaseMark>, new: &DatabaseMark) -> Result<()> {
        let same = self.change(|sidecar| {
            let same = sidecar.store.as_ref() == old;
            if same {
                sidecar.store = Some(new.clone());
            }
            same
        })?;
        if same { Ok(()) } else { Err(refusal::taken(self.path.display())) }
    }

    /// Removes these marks, and leaves the files. Errors: as [`OwnedDirectory::add`].
    pub fn forget(&self, gone: &[FileMark]) -> Result<()> {
        let of = |mark: &FileMark| (mark.name.clone(), mark.run_id.clone());
        let gone: HashSet<(String, String)> = gone.iter().map(of).collect();
        self.change(|sidecar| sidecar.files.retain(|mark| !gone.contains(&of(mark))))
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
            return match unlinkat(&self.fd, SIDECAR, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(e) => Err(self.failed("cannot remove the ownership mark", e)),
            };
        }
        let text = serde_json::to_vec_pretty(sidecar)
            .map_err(|e| Error::internal("the ownership mark is not JSON").source(e))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(Error::unavailable("the directory has too many ownership marks")
                .with("path", self.path.display())
                .hint("use a directory of its own for these files"));
        }
        self.remove_leftovers();
        let (file, temporary) = self.temporary()?;
        let named = FileIdentity::of(&file);
        let written = self.replace(file, &temporary, &text);
        written.map_err(|e| {
            let found = FileIdentity::at(&self.fd, temporary.as_str());
            if let (Ok(named), Ok(found)) = (named, found)
                && named.same_file(&found)
            {
                let _ = unlinkat(&self.fd, temporary.as_str(), AtFlags::empty());
            }
            self.failed("cannot write the ownership mark", e)
        })
    }

    /// Puts `text` in the place of the sidecar by way of `file`, which is called `temporary`.
    fn replace(
        &self,
        mut file: std::fs::File,
        temporary: &str,
        text: &[u8],
    ) -> std::io::Result<()> {
        file.write_all(text)?;
        file.sync_all()?;
        rustix::fs::renameat(&self.fd, temporary, &self.fd, SIDECAR)?;
        Ok(rustix::fs::fsync(self.fd.as_fd())?)
    }

    /// Removes what processes that were killed have left of new sidecars. Whatever else has such a name stays.
    fn remove_leftovers(&self) {
        let Ok(all) = super::content::listed(&self.path) else { return };
        for (name, is) in all.iter().filter(|(name, _)| is_of_dead_process(name)) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(fd) = rustix::fs::openat(&self.fd, name.as_str(), flags, Mode::empty()) else {
                continue;
            };
            let stat = rustix::fs::fstat(&fd);
            let own = stat.is_ok_and(|s| s.st_uid == rustix::process::geteuid().as_raw());
            let opened = FileIdentity::of(&fd).is_ok_and(|opened| opened.same_file(is));
            let mut head = Vec::new();
            let read = std::fs::File::from(fd).take(BEGINNING.len() as u64).read_to_end(&mut head);
            // One byte: a trial of how changes show (`evidence_of`).
            let new = BEGINNING.starts_with(&head) || head.len() == 1;
            if own && opened && read.is_ok() && new {
                let _ = unlinkat(&self.fd, name.as_str(), AtFlags::empty());
            }
        }
    }

    /// A new file beside the sidecar, under a name that nothing had.
    fn temporary(&self) -> Result<(std::fs::File, String)> {
        if atomic::is_append_only(&self.fd) {
            return Err(Error::unavailable("cannot write the ownership mark")
                .with("path", self.path.display())
                .with("why", "the directory is append-only: nothing in it can be renamed")
                .hint("use another directory, or take the attribute away (chattr -a)"));
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let mut last = Errno::EXIST;
        for n in 0..TEMPORARY_NAMES {
            let name = format!("{SIDECAR}.{}-{n}", std::process::id());
            match rustix::fs::openat(&self.fd, name.as_str(), flags, mode) {
                Ok(fd) => return Ok((fd.into(), name)),
                Err(Errno::EXIST) => {}
                Err(e) => {
                    last = e;
                    break;
                }
            }
        }
        Err(self.failed("cannot write the ownership mark", last))
    }

    fn parsed(&self, mark: &[u8]) -> Result<DatabaseMark> {
        let wrong = |e| Error::internal("the mark of a database is none").source(e);
        OwnershipMark::parse(mark).map_err(wrong)
    }

    fn failed(&self, what: &str, e: impl Into<std::io::Error>) -> Error {
        cannot(what, &self.path, e)
    }
}

/// What each sidecar begins with.
const BEGINNING: &[u8] = b"{\n  \"taillight_owner\": ";

/// Whether it is the name of a new sidecar that a process which is no more was about to put in place.
fn is_of_dead_process(name: &str) -> bool {
    let rest = name.strip_prefix(SIDECAR).and_then(|rest| rest.strip_prefix('.'));
    let process =
        rest.and_then(|rest| rest.split_once('-')).filter(|(_, n)| n.parse::<u32>().is_ok());
    let process = process.and_then(|(process, _)| process.parse::<i32>().ok());
    let process = process.and_then(rustix::process::Pid::from_raw);
    process.is_some_and(|p| rustix::process::test_kill_process(p) == Err(Errno::SRCH))
}

/// `EXFAT_SUPER_MAGIC` of the kernel's `include/uapi/linux/magic.h`: it keeps a time of change in memory
/// alone.
const EXFAT: u64 = 0x2011_bab0;

/// What shows in a directory that a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeEvidence {
    /// The time of change, which nobody can set.
    Time,
    /// What the file holds: writes through a mapping do not move its time of change (tmpfs, hugetlbfs).
    Contents,
    /// Nothing that can be trusted (FAT and most of FUSE: the time of change is that of modification), or it cannot
    /// be told.
    None,
}

/// Sets the time of modification of a new file back, and looks whether the time of change went with it; then writes
/// through a mapping, and looks whether the time of change moves.
fn evidence_of(file: &mut std::fs::File) -> std::io::Result<ChangeEvidence> {
    if rustix::fs::fstatfs(&*file)?.f_type as u64 & 0xffff_ffff == EXFAT {
        return Ok(ChangeEvidence::None);
    }
    file.write_all(b"x")?;
    let before = FileIdentity::of(&*file)?;
    let day = Duration::from_secs(24 * 3600);
    file.set_modified(std::time::SystemTime::now() - day)?;
    if FileIdentity::of(&*file)?.changed_ns < before.changed_ns {
        return Ok(ChangeEvidence::None);
    }
    // Somebody may have a file mapped while it is sealed, and write afterwards: that is tried.
    let sealed = match write_mapped(&*file, || write_back(&*file)) {
        // What cannot be mapped nobody can write through a mapping.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)) => {
            return Ok(ChangeEvidence::Time);
        }
        sealed => sealed?,
    };
    file.sync_all()?;
    Ok(match FileIdentity::of(&*file)?.changed_ns > sealed.changed_ns {
        true => ChangeEvidence::Time,
        false => ChangeEvidence::Contents,
    })
}

impl MarkStore for OwnedDirectory {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let sidecar = self.load()?.unwrap_or_default();
        sidecar.store.map(|mark| mark.bytes()).transpose()
    }

    fn create(&self, mark: &[u8]) -> Result<()> {
        self.exchange(None, &self.parsed(mark)?)
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
mod tests;
