//! Opening a target made of regular files: look first, decide, then create and lay out.
//!
//! Nothing is created or written until every file passed the guard and the space suffices.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, StatxFlags, flock, fstat, openat, statx,
};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result, StopFlag};

use crate::contract::OpenSpec;
use crate::path_error::cannot;
use crate::patience::{self, BUSY_PAUSE, BUSY_WAIT};

use crate::file::layout;
use crate::file::needs::{self, AccessNeeds};
use crate::file::options::{DevicePurge, FileOptions};
use crate::file::path::{FileSet, TargetPath, same_data};
use crate::file::plan::{FilePreparation, check_space, decide, lies_apart, size_of_existing};
use crate::file::prepare::{check_fill, prepare};
use crate::file::sys;
use crate::guard;
use crate::identity::FileIdentity;
use crate::ownership::files::by_name;
use crate::ownership::{FileMark, MarkedFiles, NamedTarget, OwnedDirectory, refusal};

/// Everything the decision needs.
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
    /// Ranks of the run share the files: which of them this is.
    pub fn shared_as(&self) -> Option<u32> {
        let plan = self.spec.plan;
        plan.ranks.filter(|_| !plan.run.share.is_own()).map(|place| place.rank)
    }
    /// The run appends to a file that begins empty.
    pub fn grows(&self) -> bool {
        self.options.grows && self.needs.writes
    }
}

/// Files ready for sessions.
pub struct PreparedFiles {
    /// Descriptors, in order, without O_DIRECT yet.
    pub files: Vec<OwnedFd>,
    /// Bytes of each that are used.
    pub file_size: u64,
    /// What to delete in the end.
    pub made: MarkedFiles,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
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
    pub mark: Option<FileMark>,
    /// Nobody loses anything in it: its mark says that all of it is Taillight's, or it is empty.
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

/// Creates and lays out as planned. Errors: `Unavailable`; a failed layout is undone.
pub fn open(
    file_set: &FileSet,
    decided: PreparationPlan,
    asked: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<PreparedFiles> {
    decided.try_extents(file_set, asked)?;
    let made_dir = decided.dir.is_none();
    let dir = match decided.dir {
        Some(dir) => dir,
        None => make_dir(&file_set.dir, asked.spec.stop)?,
    };
    let goes = made_dir && !asked.options.keep;
    let made = MarkedFiles::new(dir, goes, asked.needs.changes());
    let PreparationPlan { entries, preparations, file_size, .. } = decided;
    let ready = prepare(entries, &preparations, file_size, made, asked, progress)?;
    if asked.shared_as().is_some() {
        // Laid out, it is for all ranks.
        ready.files.iter().try_for_each(|fd| lock(fd, &file_set.dir, false))?;
    }
    Ok(ready)
}

/// What [`open`] finds and decides before it creates anything. Errors: `Usage`, `Refused` or
/// `Unavailable`.
pub fn check(file_set: &FileSet, asked: &FileOpenSpec<'_>) -> Result<()> {
    plan_preparation(file_set, asked).map(drop)
}

/// Files that are there, not empty, not Taillight's, and that are changed: by the run, or before it.
pub fn foreign<'a>(
    entries: &'a [DataFile],
    preparations: &[FilePreparation],
    needs: &AccessNeeds,
) -> Vec<(BorrowedFd<'a>, &'a Path)> {
    let changed = entries
        .iter()
        .zip(preparations)
        .filter(|(_, preparation)| needs.changes() || **preparation != FilePreparation::Nothing);
    let there = changed.filter_map(|(f, _)| Some((f.existing.as_ref()?, f.path.as_path())));
    let foreign = there.filter(|(file, _)| !file.proven && file.size() > 0);
    foreign.map(|(file, path)| (file.fd.as_fd(), path)).collect()
}

/// What is there, and what is to be done with each file.
pub struct PreparationPlan {
    dir: Option<OwnedDirectory>,
    entries: Vec<DataFile>,
    preparations: Vec<FilePreparation>,
    /// Bytes of each file that are used.
    pub file_size: u64,
}

impl PreparationPlan {
    /// The files that exist.
    pub fn there(&self) -> Vec<BorrowedFd<'_>> {
        let existing = self.entries.iter().filter_map(|found| found.existing.as_ref());
        existing.map(|existing| existing.fd.as_fd()).collect()
    }

    /// Whether data that is there gives way to other data before the run.
    pub fn replaces(&self) -> bool {
        let mut all = self.entries.iter().zip(&self.preparations);
        let changes = |preparation| {
            preparation == FilePreparation::Truncate || FilePreparation::fills(preparation)
        };
        all.any(|(found, preparation)| found.existing.is_some() && changes(*preparation))
    }

    /// The files that exist, are to be changed and are somebody else's.
    pub fn foreign(&self, needs: &AccessNeeds) -> Vec<(BorrowedFd<'_>, &Path)> {
        foreign(&self.entries, &self.preparations, needs)
    }

    /// Lays out a file of no name in extents that lie apart, before one that is there is emptied for that: as
    /// large as the file where somebody loses what is in it. Errors: as for the file itself.
    fn try_extents(&self, file_set: &FileSet, asked: &FileOpenSpec<'_>) -> Result<()> {
        let all = self.entries.iter().zip(&self.preparations);
        let replaced = all.filter(|(_, p)| **p == FilePreparation::Fragment);
        let mut replaced = replaced.filter_map(|(found, _)| found.existing.as_ref()).peekable();
        let (Some(dir), Some(extent)) = (&self.dir, asked.options.extent()) else { return Ok(()) };
        if replaced.peek().is_none() {
            return Ok(());
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let scratch = match openat(dir.fd(), ".", flags, Mode::from_raw_mode(0o600)) {
            Ok(scratch) => scratch,
            // A file system without such files cannot lay them out apart either, or nobody knows.
            Err(_) => return Ok(()),
        };
        let failed = |e| no_extents(&file_set.dir, extent, e);
        if replaced.all(|existing| existing.proven) {
            return layout::try_apart(scratch.as_fd(), extent).map_err(failed);
        }
        layout::apart(scratch.as_fd(), self.file_size, extent).map_err(failed)?;
        extents_of(&scratch, self.file_size, extent).map(drop)
    }
}

/// How many extents a file has, where they lie apart as asked. Errors: `Unavailable` when the file system has
/// put them together, has split them, or cannot say.
pub fn extents_of(file: &OwnedFd, file_size: u64, extent: u64) -> Result<u64> {
    let map = sys::extents(file.as_fd(), file_size).ok().flatten();
    let extents = map.map(|map| map.extents);
    extents.filter(|n| lies_apart(*n, file_size, extent)).ok_or_else(|| {
        Error::unavailable("the file system does not keep the extents as they are asked for")
            .with("extent_size", ByteSize(extent))
            .with("extents", extents.map_or("unknown".to_owned(), |n| n.to_string()))
            .hint("leave `extent_size` out, or use ext4 or XFS with more free space in one piece")
    })
}

/// The file system cannot lay a file out in extents that lie apart.
pub fn no_extents(path: &Path, extent: u64, e: io::Error) -> Error {
    Error::unavailable("the file cannot be laid out in extents that lie apart")
        .with("path", path.display())
        .with("extent_size", ByteSize(extent))
        .source(e)
        .hint("it takes ext4 or XFS, an extent_size of whole blocks (4KiB), and room for twice the data")
}

/// Opens and decides; nothing is created or written. Errors: `Usage`, `Refused` or `Unavailable`.
pub fn plan_preparation(file_set: &FileSet, asked: &FileOpenSpec<'_>) -> Result<PreparationPlan> {
    if asked.options.purge != DevicePurge::None {
        return Err(Error::refused("only a whole NVMe device can be formatted or sanitized")
            .with("path", file_set.dir.display())
            .hint("name it like /dev/nvme0n1; on files, purge by discard or zero_fill"));
    }
    let asked_size = needs::asked_file_size(asked.spec.plan, asked.options.files)?;
    let dir = if file_set.dir_absent {
        None
    } else {
        Some(OwnedDirectory::open(&file_set.dir, asked.spec.stop)?)
    };
    let entries = find_files(file_set, dir.as_ref(), asked)?;
    if asked.needs.changes() {
        let undecided = vec![FilePreparation::Nothing; entries.len()];
        check_foreign(&foreign(&entries, &undecided, &asked.needs), asked)?;
    }
    let file_size = match asked_size {
        Some(size) => size,
        None => size_of_existing(&entries, asked)?,
    };
    let preparations = entries
        .iter()
        .map(|f| decide(f, file_size, asked))
        .collect::<Result<Vec<FilePreparation>>>()?;
    if !asked.needs.changes() {
        // A plan that only reads changes what it lays out.
        let changed = entries.iter().zip(&preparations);
        let changed = changed.filter(|(_, p)| **p != FilePreparation::Nothing);
        let changed: Vec<_> =
            changed.filter_map(|(found, _)| Some(found.existing.as_ref()?.fd.as_fd())).collect();
        if !changed.is_empty() {
            guard::files(changed, shown(file_set, &entries), Some(asked.spec.stop))?;
        }
        check_foreign(&foreign(&entries, &preparations, &asked.needs), asked)?;
    }
    let grows = check_space(file_set, &entries, &preparations, file_size)?;
    check_fill(file_set, dir.as_ref(), grows, asked)?;
    Ok(PreparationPlan { dir, entries, preparations, file_size })
}

/// What is asked of files that are somebody else's and whose loss is confirmed.
fn check_foreign(foreign: &[(BorrowedFd<'_>, &Path)], asked: &FileOpenSpec<'_>) -> Result<()> {
    guard::foreign_files(foreign)?;
    foreign.iter().try_for_each(|(fd, path)| asked.still_confirmed(path, *fd))
}

/// The path that a refusal names.
fn shown<'a>(file_set: &'a FileSet, entries: &'a [DataFile]) -> &'a Path {
    if let [only] = entries { &only.path } else { &file_set.dir }
}

fn make_dir(path: &Path, stop: &StopFlag) -> Result<OwnedDirectory> {
    std::fs::create_dir(path).map_err(|e| cannot("cannot create the directory", path, e))?;
    OwnedDirectory::open(path, stop)
}

/// Opens what exists and lets the guard look at each descriptor.
fn find_files(
    file_set: &FileSet,
    dir: Option<&OwnedDirectory>,
    asked: &FileOpenSpec<'_>,
) -> Result<Vec<DataFile>> {
    let marks = by_name(dir.map_or(Ok(Vec::new()), OwnedDirectory::marks)?);
    let mut entries = Vec::with_capacity(file_set.names.len());
    for name in &file_set.names {
        let path = file_set.dir.join(name);
        let name = name.to_str().map(str::to_owned).ok_or_else(|| {
            Error::usage("the file name is not UTF-8").with("path", path.display())
        })?;
        let existing = match dir {
            Some(dir) => examine((file_set, dir), &name, &path, &marks, asked)?,
            None => None,
        };
        entries.push(DataFile { name, path, existing });
    }
    let there = entries.iter().filter_map(|f| f.existing.as_ref()).map(|f| f.fd.as_fd());
    let there: Vec<BorrowedFd<'_>> = there.collect();
    let changes = asked.needs.changes().then_some(asked.spec.stop);
    if !there.is_empty() && (changes.is_some() || !asked.options.read_in_use) {
        guard::files(there, shown(file_set, &entries), changes)?;
    }
    Ok(entries)
}

/// An empty file of this user: nothing is lost in it.
fn own_and_empty(stat: &Stat) -> bool {
    stat.st_size == 0 && stat.st_uid == rustix::process::geteuid().as_raw()
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
    (file_set, dir): (&FileSet, &OwnedDirectory),
    name: &str,
    path: &Path,
    marks: &HashMap<String, FileMark>,
    asked: &FileOpenSpec<'_>,
) -> Result<Option<ExistingFile>> {
    let failed = |what: &str, e: Errno| cannot(what, path, e);
    let mode = if asked.needs.changes() { OFlags::RDWR } else { OFlags::RDONLY };
    // NONBLOCK: a FIFO put there meanwhile must not hang us; it is cleared again below.
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
    if asked.needs.changes() || !asked.options.read_in_use {
        lock(&fd, path, asked.needs.changes() && asked.shared_as().is_none())?;
    }
    let identity = FileIdentity::of(&fd).map_err(|e| cannot("cannot stat the file", path, e))?;
    let fs = dir.filesystem();
    let marked = marks.get(name);
    let differs = marked.and_then(|mark| mark.node.difference(&identity, fs));
    let marked = marked.filter(|_| differs.is_none());
    let proven = marked.is_some_and(|mark| mark.proves(&identity, fs)) || own_and_empty(&stat);
    // What a mark does not prove counts for nothing without confirmation: a run that only reads must not
    // delete the file in the end either.
    let mark = marked.filter(|_| proven || asked.confirmed).cloned();
    let (ours, unfinished) = (proven || asked.confirmed, marked.is_some() && !proven);
    let existing = ExistingFile { ours, proven, unfinished, fd, stat, identity, mark };
    if asked.needs.changes() && !existing.ours {
        let named = TargetPath::Files(file_set.clone()).name();
        let target =
            NamedTarget { shown: path.display().to_string(), ..NamedTarget::of(named.display()) };
        match (marked, differs) {
            (Some(_), _) => refusal::unfinished(asked.confirmed, &target)?,
            (None, Some(differs)) => refusal::another(asked.confirmed, &target, &differs)?,
            (None, None) => refusal::foreign(asked.confirmed, &target, None)?,
        }
    }
    Ok(Some(existing))
}

/// Two runs on one file would measure each other. File systems without locks are let through.
/// Errors: `Refused` when another holds the lock.
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
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use taillight_core::{ErrorKind, OpKind};

    use super::*;
    use crate::conformance;
    use crate::file::open_request;
    use crate::options::DriverOptions;

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

    #[test]
    fn what_comes_between_the_decision_and_the_layout_is_seen() {
        let tmp = tempfile::tempdir().unwrap();
        let image = tmp.path().join("image");
        let text = image.to_str().unwrap();
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"mine", 1 << 20).unwrap();
        let mut target = conformance::target("file", text, "direct = false");
        target.destroy = true;
        let plan = conformance::plan(target, &[OpKind::Read], 4096, 1);
        let options = FileOptions::parse("file", &plan.target.options).unwrap();
        let (stop, destroy) = (StopFlag::default(), Some(text));
        let spec =
            OpenSpec { plan: &plan, run_id: "test", destroy, stop: &stop, fits: &|_| Ok(()) };
        let (_, TargetPath::Files(set), asked) = open_request("file", &options, &spec).unwrap()
        else {
            panic!("a file")
        };
        let planned = match plan_preparation(&set, &asked) {
            Ok(planned) => planned,
            Err(e) => {
                eprintln!("skipped: what_comes_between_the_decision_and_the_layout: {e}");
                return;
            }
        };
        let over = Command::new("losetup").args(["-f", "--show", text]).output();
        let Some(over) = over.ok().filter(|o| o.status.success()) else {
            eprintln!("skipped: what_comes_between_the_decision_and_the_layout: no loop devices");
            return;
        };
        let before = std::fs::read(&image).unwrap();
        let opened = open(&set, planned, &asked, &mut |_| true);
        let device = String::from_utf8(over.stdout).unwrap();
        Command::new("losetup").args(["-d", device.trim()]).status().unwrap();
        let e = opened.err().expect("refused");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains("behind /dev/loop"), "{e}");
        assert!(std::fs::read(&image).unwrap() == before);
    }
}
