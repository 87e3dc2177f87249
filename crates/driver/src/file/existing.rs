//! What is there of the files that a target is made of: opened, locked, looked at by the guard and held against their
//! marks. Nothing is created or written here.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, StatxFlags, flock, fstat, openat, statx,
};
use rustix::io::Errno;
use taillight_core::{Error, Result, StopFlag};

use crate::contract::OpenSpec;
use crate::file::needs::AccessNeeds;
use crate::file::options::{DevicePurge, FileOptions};
use crate::file::path::{FileSet, TargetPath, same_data};
use crate::guard;
use crate::identity::FileIdentity;
use crate::ownership::files::by_name;
use crate::ownership::{FileMark, NamedTarget, OwnedDirectory, refusal};
use crate::path_error::cannot;
use crate::patience::{self, BUSY_PAUSE, BUSY_WAIT};

/// What files or a device are opened for: the plan, what it does to them, and whether their loss is confirmed.
pub struct FileOpenSpec<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    pub options: &'a FileOptions,
    /// What the plan does.
    pub needs: AccessNeeds,
    /// `--destroy` names this target.
    pub confirmed: bool,
}

impl FileOpenSpec<'_> {
    /// Checks that what was opened is what `--destroy` names, in case a name came to mean something else
    /// meanwhile. Errors: `Refused`.
    pub fn still_confirmed(&self, path: &Path, fd: BorrowedFd<'_>) -> Result<()> {
        let (Some(name), true) = (self.spec.destroy, self.confirmed) else { return Ok(()) };
        let meant = rustix::fs::stat(name).ok();
        let same = meant.zip(fstat(fd).ok()).is_some_and(|(meant, opened)| {
            let directory = FileType::from_raw_mode(meant.st_mode).is_dir();
            directory || same_data(&meant, &opened)
        });
        match same {
            true => Ok(()),
            false => Err(Error::refused("the target was replaced while it was opened")
                .with("target", path.display())
                .hint("look what it is now, and give the command again")),
        }
    }
    /// The plan changes what a device holds, by its load or before it.
    pub fn changes_device(&self) -> bool {
        let before = self.options.purge != DevicePurge::None || self.options.fill.is_asked();
        self.needs.changes() || before
    }
    /// The number of this rank, where ranks of the run share the files.
    pub fn shared_as(&self) -> Option<u32> {
        self.spec.plan.sharing().map(|place| place.rank)
    }
    /// The run appends to a file that begins empty.
    pub fn grows(&self) -> bool {
        self.options.grows && self.needs.writes
    }
}

/// A name and what is there.
pub struct DataFile {
    /// Name in the directory.
    pub name: String,
    /// Whole path, for people.
    pub path: PathBuf,
    /// The file, if there is one.
    pub existing: Option<ExistingFile>,
}

/// A file that exists.
pub struct ExistingFile {
    /// Opened for what the plan does.
    pub fd: OwnedFd,
    /// As it was when opened.
    pub stat: Stat,
    /// What it was when opened.
    pub identity: FileIdentity,
    /// Its mark, where that proves what is in it, or its loss is confirmed.
    pub mark: Option<FileMark>,
    /// Nobody loses anything in it: its mark proves that all of it is Taillight's, or it is empty and this user's.
    pub proven: bool,
    /// Its data may be replaced: Taillight's own, empty, or confirmed.
    pub ours: bool,
    /// It has a mark that does not prove what is in it.
    pub unfinished: bool,
}

impl ExistingFile {
    /// Its size, bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
    /// Bytes that have blocks.
    pub fn allocated(&self) -> u64 {
        u64::try_from(self.stat.st_blocks).unwrap_or(0).saturating_mul(512)
    }
}

/// Opens what exists, locks it and asks the guard about it (no lock and no guard where a plan that only reads has
/// `read_in_use`). Errors: `Refused`, also for data of others that the plan changes unconfirmed; `Usage` for no
/// regular file.
pub fn find_files(
    file_set: &FileSet,
    dir: Option<&OwnedDirectory>,
    request: &FileOpenSpec<'_>,
) -> Result<Vec<DataFile>> {
    let marks = by_name(dir.map_or(Ok(Vec::new()), OwnedDirectory::marks)?);
    let mut entries = Vec::with_capacity(file_set.names.len());
    for name in &file_set.names {
        let path = file_set.dir.join(name);
        let name = name.to_str().map(str::to_owned).ok_or_else(|| {
            Error::usage("the file name is not UTF-8").with("path", path.display())
        })?;
        let existing = match dir {
            Some(dir) => examine(file_set, dir, &name, &path, &marks, request)?,
            None => None,
        };
        entries.push(DataFile { name, path, existing });
    }
    let there = entries.iter().filter_map(|f| f.existing.as_ref()).map(|f| f.fd.as_fd());
    let there: Vec<BorrowedFd<'_>> = there.collect();
    let changes = request.needs.changes().then_some(request.spec.stop);
    if !there.is_empty() && (changes.is_some() || !request.options.read_in_use) {
        guard::files(there, named_path(file_set, &entries), changes)?;
    }
    Ok(entries)
}

/// The path that a refusal names.
pub fn named_path<'a>(file_set: &'a FileSet, entries: &'a [DataFile]) -> &'a Path {
    if let [only] = entries { &only.path } else { &file_set.dir }
}

/// An empty file of this user: nothing is lost in it. Some file systems in user space call every size 0.
fn own_and_empty(fd: &OwnedFd, stat: &Stat) -> bool {
    stat.st_size == 0 && stat.st_uid == rustix::process::geteuid().as_raw() && reads_empty(fd)
}

/// Whether the file has no first byte. A descriptor that may not be read says nothing.
fn reads_empty(fd: &OwnedFd) -> bool {
    rustix::io::pread(fd, &mut [0; 1], 0) == Ok(0)
}

/// Whether a file is mounted in its directory, where the kernel tells (statx(2), `STATX_MNT_ID`).
fn mounted_apart(fd: &OwnedFd, dir: &OwnedDirectory) -> bool {
    let mount = |fd: &OwnedFd| {
        let is = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        (is.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(is.stx_mnt_id)
    };
    mount(fd).zip(mount(dir.fd())).is_some_and(|(file, dir)| file != dir)
}

fn examine(
    file_set: &FileSet,
    dir: &OwnedDirectory,
    name: &str,
    path: &Path,
    marks: &HashMap<String, FileMark>,
    request: &FileOpenSpec<'_>,
) -> Result<Option<ExistingFile>> {
    let failed = |what: &str, e: Errno| cannot(what, path, e);
    let mode = if request.needs.changes() { OFlags::RDWR } else { OFlags::RDONLY };
    // NONBLOCK: a FIFO put there meanwhile must not hang us; `layout::set_direct` clears it again.
    let flags = mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = match openat(dir.fd(), name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::TXTBSY) => return Err(guard::in_use(path, "a running program or swap file")),
        Err(e) => return Err(failed("cannot open the file", e)),
    };
    let stat = fstat(&fd).map_err(|e| failed("cannot stat the file", e))?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(Error::usage("the target is not a regular file").with("path", path.display()));
    }
    // The file system of its directory is another one where the file itself is a mount.
    guard::storage(&fd, path)?;
    if file_set.whole_dir && mounted_apart(&fd, dir) {
        return Err(Error::refused("a file of the directory is one of elsewhere, mounted there")
            .with("path", path.display())
            .hint("unmount it, or name another directory: what was named is the directory"));
    }
    if request.needs.changes() || !request.options.read_in_use {
        lock(&fd, path, request.needs.changes() && request.shared_as().is_none())?;
    }
    let identity = FileIdentity::of(&fd).map_err(|e| cannot("cannot stat the file", path, e))?;
    let fs = dir.filesystem();
    let marked = marks.get(name);
    let differs = marked.and_then(|mark| mark.node.difference(&identity, fs));
    let marked = marked.filter(|_| differs.is_none());
    let proven =
        marked.is_some_and(|mark| dir.proves(mark, &identity)) || own_and_empty(&fd, &stat);
    // What a mark does not prove counts for nothing without confirmation: a run that only reads must not
    // delete the file in the end either.
    let mark = marked.filter(|_| proven || request.confirmed).cloned();
    let (ours, unfinished) = (proven || request.confirmed, marked.is_some() && !proven);
    let existing = ExistingFile { ours, proven, unfinished, fd, stat, identity, mark };
    if request.needs.changes() && !existing.ours {
        let named = TargetPath::Files(file_set.clone()).name();
        let target =
            NamedTarget { shown: path.display().to_string(), ..NamedTarget::of(named.display()) };
        match (marked, differs) {
            (Some(_), _) => refusal::unfinished(request.confirmed, &target)?,
            (None, Some(differs)) => refusal::another(request.confirmed, &target, &differs)?,
            (None, None) => refusal::foreign(request.confirmed, &target, None)?,
        }
    }
    Ok(Some(existing))
}

/// Locks a file, exclusively where the run `changes` it: two runs on one file would measure each other. File systems
/// without locks are let through. Errors: `Refused` when another still holds the lock after half a second.
pub fn lock(fd: &OwnedFd, path: &Path, changes: bool) -> Result<()> {
    let operation = match changes {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    let locked = patience::wait(BUSY_WAIT, BUSY_PAUSE, &StopFlag::default(), || {
        Some(flock(fd, operation)).filter(|locked| *locked != Err(Errno::WOULDBLOCK))
    });
    match locked {
        Some(_) => Ok(()),
        None => Err(guard::in_use(path, "locked by another run or program")),
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::ErrorKind;

    use super::*;

    /// Files of procfs, as those of some file systems in user space: size 0, with data in it.
    #[test]
    fn a_size_of_0_is_not_taken_for_no_data() {
        let empty = |path: &Path| {
            let fd = OwnedFd::from(std::fs::File::open(path).unwrap());
            own_and_empty(&fd, &fstat(&fd).unwrap())
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(empty(file.path()) && !empty(Path::new("/proc/self/status")));
    }

    /// The kernel takes the ring of a killed run apart after the run has ended, and keeps its files until then.
    #[test]
    fn a_lock_that_is_about_to_go_is_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || OwnedFd::from(std::fs::File::open(file.path()).unwrap());
        let (theirs, ours) = (open(), open());
        lock(&theirs, file.path(), true).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(BUSY_PAUSE * 2);
            drop(theirs);
        });
        lock(&ours, file.path(), true).unwrap();
        holder.join().unwrap();
        let refused = lock(&open(), file.path(), true).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
    }
}
