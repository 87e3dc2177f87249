//! Opening a target made of regular files: look first, decide, then create and lay out.
//!
//! Nothing is created or written until every file passed the guard and the space suffices.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, ftruncate, openat};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::contract::OpenSpec;
use crate::file::layout::{self, Meter};
use crate::file::options::{FileOptions, Layout};
use crate::file::shape::{self, Uses};
use crate::guard;
use crate::guard::owner::{Mark, OwnedDir, device};

/// Which files to open, from the resolved place.
pub struct Wanted {
    /// Their directory.
    pub dir: PathBuf,
    /// It is made first.
    pub dir_absent: bool,
    /// Their names.
    pub names: Vec<OsString>,
}

/// Everything the decision needs.
pub struct Asked<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    /// The options.
    pub options: &'a FileOptions,
    /// What the plan does.
    pub uses: Uses,
    /// `--destroy` names this target.
    pub confirmed: bool,
}

/// Files ready for sessions.
pub struct Ready {
    /// Descriptors, in order, without O_DIRECT yet.
    pub files: Vec<OwnedFd>,
    /// Bytes of each that are used.
    pub file_size: u64,
    /// What to delete in the end.
    pub made: Made,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
}

/// Files and directory that this run deletes at its end, whatever the end is.
pub struct Made {
    dir: OwnedDir,
    marks: Vec<Mark>,
    made_dir: bool,
}

impl Made {
    /// Deletes them now, marks last.
    ///
    /// # Errors
    /// `Unavailable` when something cannot be removed.
    pub fn delete(&mut self) -> Result<()> {
        let marks = std::mem::take(&mut self.marks);
        if !marks.is_empty() {
            self.dir.delete(&marks)?;
        }
        if std::mem::take(&mut self.made_dir) {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(self.dir.path());
        }
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = self.delete();
    }
}

/// A name and what is there.
struct Found {
    name: String,
    path: PathBuf,
    there: Option<There>,
}

/// A file that exists.
struct There {
    fd: OwnedFd,
    stat: Stat,
    mark: Option<Mark>,
    /// Its data may be replaced: Taillight's own, empty, or confirmed.
    ours: bool,
}

impl There {
    fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
    fn allocated(&self) -> u64 {
        u64::try_from(self.stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512)
    }
}

/// What to do to one file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is good as it is.
    Nothing,
    /// Set its size; data come with the run's writes.
    Size,
    /// Set its size and fill it.
    Fill,
}

/// Opens, checks, creates, lays out.
///
/// # Errors
/// `Usage`, `Refused` or `Unavailable`, before anything was touched; a failed layout is undone.
pub fn open(wanted: Wanted, asked: &Asked<'_>, progress: &mut OnProgress<'_>) -> Result<Ready> {
    let asked_size = shape::asked_file_size(asked.spec.plan, asked.options.files)?;
    let dir = if wanted.dir_absent {
        None
    } else {
        Some(OwnedDir::open(&wanted.dir)?)
    };
    let found = look(&wanted, dir.as_ref(), asked)?;
    let file_size = match asked_size {
        Some(size) => size,
        None => size_of_existing(&found, asked)?,
    };
    let steps = found
        .iter()
        .map(|f| decide(f, file_size, asked))
        .collect::<Result<Vec<Step>>>()?;
    check_space(&wanted, &found, &steps, file_size)?;

    let made_dir = dir.is_none();
    let dir = match dir {
        Some(dir) => dir,
        None => make_dir(&wanted.dir)?,
    };
    let made = Made {
        dir,
        marks: Vec::new(),
        made_dir: made_dir && !asked.options.keep,
    };
    prepare(found, &steps, file_size, made, asked, progress)
}

fn make_dir(path: &Path) -> Result<OwnedDir> {
    std::fs::create_dir(path).map_err(|e| {
        Error::unavailable("cannot create the directory")
            .with("path", path.display())
            .source(e)
    })?;
    OwnedDir::open(path)
}

/// Opens what exists and lets the guard look at each descriptor.
fn look(wanted: &Wanted, dir: Option<&OwnedDir>, asked: &Asked<'_>) -> Result<Vec<Found>> {
    let marks = dir.map_or(Ok(Vec::new()), OwnedDir::marks)?;
    let mut found = Vec::with_capacity(wanted.names.len());
    for name in &wanted.names {
        let path = wanted.dir.join(name);
        let name = name.to_str().map(str::to_owned).ok_or_else(|| {
            Error::usage("the file name is not UTF-8").with("path", path.display())
        })?;
        let there = match dir {
            Some(dir) => examine(dir, &name, &path, &marks, asked)?,
            None => None,
        };
        found.push(Found { name, path, there });
    }
    Ok(found)
}

fn examine(
    dir: &OwnedDir,
    name: &str,
    path: &Path,
    marks: &[Mark],
    asked: &Asked<'_>,
) -> Result<Option<There>> {
    let failed = |what: &str, e: Errno| {
        Error::unavailable(what)
            .with("path", path.display())
            .source(io::Error::from(e))
    };
    let mode = if asked.uses.changes() {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    // NONBLOCK: a FIFO put there meanwhile must not hang us; it is cleared again below.
    let flags = mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = match openat(dir.fd(), name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::TXTBSY) => return Err(guard::in_use(path, "a running program or swap file")),
        Err(e) => return Err(failed("cannot open the file", e)),
    };
    let stat = fstat(&fd).map_err(|e| failed("cannot stat the file", e))?;
    if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(Error::usage("the target is not a regular file").with("path", path.display()));
    }
    if asked.uses.changes() || !asked.options.read_in_use {
        guard::file(&stat, path)?;
    }
    lock(&fd, path, asked.uses.changes())?;
    let mark = marks
        .iter()
        .find(|m| m.name == name && m.fits(&stat))
        .cloned();
    let there = There {
        ours: mark.is_some() || stat.st_size == 0 || asked.confirmed,
        fd,
        stat,
        mark,
    };
    if asked.uses.changes() && !there.ours {
        guard::foreign(asked.confirmed, path)?;
    }
    Ok(Some(there))
}

/// Two runs on one file would measure each other. File systems without locks are let through.
fn lock(fd: &OwnedFd, path: &Path, changes: bool) -> Result<()> {
    let operation = match changes {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(fd, operation) {
        Err(Errno::WOULDBLOCK) => Err(guard::in_use(path, "locked by another run or program")),
        _ => Ok(()),
    }
}

fn size_of_existing(found: &[Found], asked: &Asked<'_>) -> Result<u64> {
    let sizes = found
        .iter()
        .map(|f| f.there.as_ref().map_or(0, There::size));
    match sizes.min().unwrap_or(0) {
        0 => Err(
            Error::usage("the target holds no data yet and the job gives no size")
                .hint("write how much to lay out: size = \"1GiB\" under [target], or --size 1GiB"),
        ),
        smallest => shape::usable_size(asked.spec.plan, smallest),
    }
}

fn decide(found: &Found, file_size: u64, asked: &Asked<'_>) -> Result<Step> {
    let uses = asked.uses;
    let fills = match asked.options.layout {
        Layout::Auto => uses.reads || uses.trims,
        Layout::Always => true,
        Layout::Never => false,
    };
    let needs_data = uses.reads && !asked.options.allow_holes;
    let Some(there) = &found.there else {
        return match (fills, needs_data) {
            (true, _) => Ok(Step::Fill),
            (false, true) => Err(
                Error::usage("layout = \"never\", but there is no file to read")
                    .with("path", found.path.display())
                    .hint("leave `layout` out, or set allow_holes = true to read a file of holes"),
            ),
            (false, false) => Ok(Step::Size),
        };
    };
    if there.size() < file_size {
        return match (there.ours, fills || !needs_data) {
            (true, true) => Ok(if fills { Step::Fill } else { Step::Size }),
            _ => Err(Error::usage("the file is smaller than the job asks")
                .with("path", found.path.display())
                .with("bytes", there.size())
                .with("asked", ByteSize(file_size))
                .hint("leave the size out to use what is there")),
        };
    }
    if !(fills || needs_data) {
        return Ok(Step::Nothing);
    }
    let empty = layout::holes(there.fd.as_fd(), file_size).map_err(|e| {
        Error::unavailable("cannot tell holes from data")
            .with("path", found.path.display())
            .source(e)
    })?;
    match (empty, fills && there.ours) {
        (0, _) => Ok(Step::Nothing),
        (_, true) => Ok(Step::Fill),
        (_, false) if needs_data => Err(holey(&found.path, empty, file_size)),
        (_, false) => Ok(Step::Nothing),
    }
}

fn holey(path: &Path, empty: u64, of: u64) -> Error {
    let share = empty as f64 * 100.0 / of as f64;
    Error::refused(format!(
        "{share:.1} % of the file is holes or unwritten: reading it would measure no device"
    ))
    .with("path", path.display())
    .with("empty_bytes", empty)
    .hint("write real data into it first, or set options.allow_holes = true")
}

/// Room for what will be allocated, with some for the file system's own records.
fn check_space(wanted: &Wanted, found: &[Found], steps: &[Step], file_size: u64) -> Result<()> {
    let allocated = |f: &Found| f.there.as_ref().map_or(0, There::allocated);
    let needed: u64 = found
        .iter()
        .zip(steps)
        .filter(|(_, step)| **step != Step::Nothing)
        .map(|(f, _)| file_size.saturating_sub(allocated(f)))
        .fold(0, u64::saturating_add);
    if needed == 0 {
        return Ok(());
    }
    let needed = needed.saturating_add(needed / 512);
    let dir = if wanted.dir_absent {
        wanted.dir.parent()
    } else {
        Some(wanted.dir.as_path())
    };
    let dir = dir.unwrap_or(Path::new("/"));
    let fs = rustix::fs::statvfs(dir).map_err(|e| {
        Error::unavailable("cannot ask for free space")
            .with("path", dir.display())
            .source(e)
    })?;
    let available = fs.f_bavail.saturating_mul(fs.f_frsize);
    if needed <= available {
        return Ok(());
    }
    Err(Error::unavailable("not enough space for the data set")
        .with("path", dir.display())
        .with("needed_bytes", needed)
        .with("available_bytes", available)
        .hint(format!(
            "free {:.1} GiB, or ask for a smaller size",
            (needed - available) as f64 / f64::from(1 << 30)
        )))
}

/// Creates, marks, sizes and fills.
fn prepare(
    found: Vec<Found>,
    steps: &[Step],
    file_size: u64,
    mut made: Made,
    asked: &Asked<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Ready> {
    let to_fill = steps.iter().filter(|s| **s == Step::Fill).count() as u64;
    let mut meter = Meter {
        on: progress,
        what: "laying out",
        done: 0,
        total: to_fill * file_size,
    };
    let mut ready = Vec::with_capacity(found.len());
    let (mut new, mut reused) = (0, 0);
    for (n, (found, step)) in found.into_iter().zip(steps).enumerate() {
        let is_new = found.there.is_none();
        let (held, mark) = own(found, file_size, &made.dir, asked)?;
        if let Some(mark) = mark {
            made.dir.add(std::slice::from_ref(&mark))?;
            if !mark.keep {
                made.marks.push(mark);
            }
        }
        new += u32::from(is_new);
        reused += u32::from(!is_new);
        let seed = asked.spec.plan.run.seed.wrapping_add(n as u64);
        perform(*step, &held, file_size, seed, &made.dir, &mut meter)?;
        ready.push(held.file);
    }
    let allocates = steps.contains(&Step::Size);
    let facts = vec![
        ("files.new".to_owned(), new.to_string()),
        ("files.reused".to_owned(), reused.to_string()),
        ("files.laid_out".to_owned(), to_fill.to_string()),
        ("files.writes_allocate".to_owned(), allocates.to_string()),
        ("files.kept".to_owned(), (made.marks.is_empty()).to_string()),
    ];
    Ok(Ready {
        files: ready,
        file_size,
        made,
        facts,
    })
}

/// A file that is ours to prepare, or only to read.
struct Held {
    file: OwnedFd,
    name: String,
    size: u64,
}

/// Creates what is absent; says under which mark the file stands from now on.
fn own(
    found: Found,
    file_size: u64,
    dir: &OwnedDir,
    asked: &Asked<'_>,
) -> Result<(Held, Option<Mark>)> {
    let keep = asked.options.keep;
    let name = found.name;
    let mark_of = |stat: &Stat, size: u64, keep: bool| Mark {
        name: name.clone(),
        inode: stat.st_ino,
        device: device(stat),
        size,
        run_id: asked.spec.run_id.to_owned(),
        keep,
    };
    let (file, mark, size) = match found.there {
        None => {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let created = openat(
                dir.fd(),
                name.as_str(),
                flags | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o644),
            );
            let fd = created.map_err(|e| no_create(&found.path, e))?;
            let stat = fstat(&fd).map_err(|e| no_create(&found.path, e))?;
            lock(&fd, &found.path, true)?;
            (fd, Some(mark_of(&stat, file_size, keep)), 0)
        }
        Some(there) => {
            let size = there.size();
            let mark = match &there.mark {
                // What an earlier run was asked to keep stays; what it left by accident goes.
                Some(m) => Some(mark_of(&there.stat, size.max(file_size), m.keep || keep)),
                // Empty and not ours: usable, never deleted.
                None if size == 0 => Some(mark_of(&there.stat, file_size, true)),
                None => None,
            };
            (there.fd, mark, size)
        }
    };
    Ok((Held { file, name, size }, mark))
}

fn no_create(path: &Path, e: Errno) -> Error {
    Error::unavailable("cannot create the file")
        .with("path", path.display())
        .source(io::Error::from(e))
}

fn perform(
    step: Step,
    held: &Held,
    file_size: u64,
    seed: u64,
    dir: &OwnedDir,
    meter: &mut Meter<'_, '_>,
) -> Result<()> {
    if step == Step::Nothing {
        return Ok(());
    }
    let failed = |what: &str, e: Errno| {
        Error::unavailable(what)
            .with("file", &held.name)
            .source(io::Error::from(e))
    };
    // A plan that only reads holds the file read-only; preparing it takes a second descriptor
    // to the very same inode.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let writable = openat(dir.fd(), held.name.as_str(), flags, Mode::empty())
        .map_err(|e| failed("cannot open the file for writing", e))?;
    let same = |fd: &OwnedFd| fstat(fd).map(|s| (s.st_dev, s.st_ino));
    if same(&writable) != same(&held.file) {
        return Err(
            Error::refused("the file was replaced while it was opened").with("file", &held.name)
        );
    }
    if held.size < file_size {
        ftruncate(&writable, file_size).map_err(|e| failed("cannot set the file's size", e))?;
    }
    match step {
        Step::Fill => {
            lock(&held.file, &dir.path().join(&held.name), true)?;
            layout::fill(writable.as_fd(), file_size, seed, meter)
        }
        _ => Ok(()),
    }
}
