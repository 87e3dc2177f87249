//! Opening a target made of regular files: look first, decide, then create and lay out.
//!
//! Nothing is created or written until every file passed the guard and the space suffices.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, Stat, flock, fstat, openat};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::{Error, Result};

use crate::contract::OpenSpec;
use crate::file::cannot::cannot;
use crate::file::decide::{Step, check_space, decide, size_of_existing};
use crate::file::made::Made;
use crate::file::options::FileOptions;
use crate::file::prepare::prepare;
use crate::file::shape::{self, Uses};
use crate::guard;
use crate::guard::owner::{Mark, OwnedDir};

/// Which files to open, from the resolved place.
pub struct Wanted {
    pub dir: PathBuf,
    /// It is made first.
    pub dir_absent: bool,
    pub names: Vec<OsString>,
}

/// Everything the decision needs.
pub struct Asked<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    pub options: &'a FileOptions,
    /// What the plan does.
    pub uses: Uses,
    /// `--destroy` names this target.
    pub confirmed: bool,
}

impl Asked<'_> {
    /// The run appends to a file that begins empty.
    pub fn grows(&self) -> bool {
        self.options.grows && self.uses.writes
    }
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

/// A name and what is there.
pub struct Found {
    /// Name in the directory.
    pub name: String,
    /// Whole path, for people.
    pub path: PathBuf,
    /// The file, if there is one.
    pub there: Option<There>,
}

/// A file that exists.
pub struct There {
    /// Opened for what the plan does.
    pub fd: OwnedFd,
    /// As it was when opened.
    pub stat: Stat,
    pub mark: Option<Mark>,
    /// Its data may be replaced: Taillight's own, empty, or confirmed.
    pub ours: bool,
}

impl There {
    /// Its size, bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
    /// Bytes that have blocks.
    pub fn allocated(&self) -> u64 {
        u64::try_from(self.stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512)
    }
}

/// Opens, checks, creates, lays out.
///
/// # Errors
/// `Usage`, `Refused` or `Unavailable`, before anything was touched; a failed layout is undone.
pub fn open(wanted: Wanted, asked: &Asked<'_>, progress: &mut OnProgress<'_>) -> Result<Ready> {
    let decided = decided(&wanted, asked)?;
    let made_dir = decided.dir.is_none();
    let dir = match decided.dir {
        Some(dir) => dir,
        None => make_dir(&wanted.dir)?,
    };
    let made = Made::new(dir, made_dir && !asked.options.keep);
    let Decided {
        found,
        steps,
        file_size,
        ..
    } = decided;
    prepare(found, &steps, file_size, made, asked, progress)
}

/// What [`open`] finds and decides before it creates anything.
///
/// # Errors
/// `Usage`, `Refused` or `Unavailable`.
pub fn check(wanted: &Wanted, asked: &Asked<'_>) -> Result<()> {
    decided(wanted, asked).map(drop)
}

/// What is there, and what is to be done with each file.
struct Decided {
    dir: Option<OwnedDir>,
    found: Vec<Found>,
    steps: Vec<Step>,
    file_size: u64,
}

fn decided(wanted: &Wanted, asked: &Asked<'_>) -> Result<Decided> {
    let asked_size = shape::asked_file_size(asked.spec.plan, asked.options.files)?;
    let dir = if wanted.dir_absent {
        None
    } else {
        Some(OwnedDir::open(&wanted.dir)?)
    };
    let found = look(wanted, dir.as_ref(), asked)?;
    let file_size = match asked_size {
        Some(size) => size,
        None => size_of_existing(&found, asked)?,
    };
    let steps = found
        .iter()
        .map(|f| decide(f, file_size, asked))
        .collect::<Result<Vec<Step>>>()?;
    check_space(wanted, &found, &steps, file_size)?;
    Ok(Decided {
        dir,
        found,
        steps,
        file_size,
    })
}

fn make_dir(path: &Path) -> Result<OwnedDir> {
    std::fs::create_dir(path).map_err(|e| cannot("cannot create the directory", path, e))?;
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
    let failed = |what: &str, e: Errno| cannot(what, path, e);
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
        lock(&fd, path, asked.uses.changes())?;
    }
    let unfinished =
        stat.st_size > 0 && marks.iter().any(|m| m.name == name && m.unfinished(&stat));
    // Unconfirmed, such a mark counts for nothing: a run that only reads must not delete the file
    // in the end either.
    let known = |m: &&Mark| m.name == name && m.fits(&stat) && (!unfinished || asked.confirmed);
    let mark = marks.iter().find(known).cloned();
    let there = There {
        ours: mark.is_some() || stat.st_size == 0 || asked.confirmed,
        fd,
        stat,
        mark,
    };
    if asked.uses.changes() && !there.ours {
        if unfinished {
            guard::unfinished(asked.confirmed, path)?;
        }
        guard::foreign(asked.confirmed, path)?;
    }
    Ok(Some(there))
}

/// Two runs on one file would measure each other. File systems without locks are let through.
///
/// # Errors
/// `Refused` when another holds the lock.
pub fn lock(fd: &OwnedFd, path: &Path, changes: bool) -> Result<()> {
    let operation = match changes {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(fd, operation) {
        Err(Errno::WOULDBLOCK) => Err(guard::in_use(path, "locked by another run or program")),
        _ => Ok(()),
    }
}
