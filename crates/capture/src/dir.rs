//! Directories of capture chunks, in memory and for spilling: their names, and [`CaptureDir`], by which the
//! process that measures makes them, holds them and removes them.
//!
//! What proves that a directory is ours and that nobody uses it: its name, its user, a file that only
//! [`CaptureDir`] writes and locks, nothing but chunks beside it, and that the lock is free. The
//! kernel lets go of a lock however a process ends, and in every container alike.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

/// Memory with names, in which chunks survive a killed process.
pub(crate) const SHM: &str = "/dev/shm";

/// Directory of a run's capture chunks in memory.
pub fn capture_dir(run_id: &str) -> PathBuf {
    Path::new(SHM).join(dir_name(run_id))
}

/// Directory of a run's spilled chunks inside `capture.dir`.
pub fn spill_dir(dir: &Path, run_id: &str) -> PathBuf {
    dir.join(dir_name(run_id))
}

pub(crate) fn dir_name(run_id: &str) -> String {
    format!("taillight-{run_id}")
}

/// The file that says whose chunks these are; locked while their process lives.
pub(crate) const OWNER: &str = "owner.json";

/// What that file holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Run directory that the chunks go to; none for a calibration, whose chunks nobody needs.
    pub run: Option<PathBuf>,
    /// Directory that holds this run's spilled chunks.
    pub spill: Option<PathBuf>,
}

/// A directory for the chunks of one run, removed with the chunks on drop, but for a panic or [`CaptureDir::persist`].
#[derive(Debug)]
pub struct CaptureDir {
    path: PathBuf,
    spill: Option<PathBuf>,
    _lock: File,
    keep: bool,
}

impl CaptureDir {
    /// Makes the directory for the run in `run` (none: chunks that nobody needs later), and the one
    /// inside `spill`. Errors: `Unavailable` when it cannot be made.
    pub fn create(run_id: &str, run: Option<&Path>, spill: Option<&Path>) -> Result<CaptureDir> {
        let path = capture_dir(run_id);
        let spill = spill.map(|dir| spill_dir(dir, run_id));
        let cannot = |path: &Path, e| {
            let e = Error::unavailable("cannot make the capture directory").source(e);
            e.with("path", path.display())
        };
        let owner = Owner {
            run: run.and_then(|run| std::path::absolute(run).ok()),
            spill: spill.as_deref().and_then(|dir| std::path::absolute(dir).ok()),
        };
        // Under another name until the lock is taken: whoever looks meanwhile must not see it free.
        let new = Path::new(SHM).join(format!(".{}", dir_name(run_id)));
        fs::create_dir(&new).map_err(|e| cannot(&new, e))?;
        let lock = Self::fill(&new, &owner).and_then(|lock| fs::rename(&new, &path).map(|()| lock));
        let lock = lock.map_err(|e| {
            let _ = fs::remove_dir_all(&new);
            cannot(&path, e)
        })?;
        let mut made = CaptureDir { path, spill: None, _lock: lock, keep: false };
        if let Some(dir) = &spill {
            fs::create_dir(dir).map_err(|e| cannot(dir, e))?;
        }
        // Only now: one that is not ours is not cleared in the end.
        made.spill = spill;
        Ok(made)
    }

    pub(crate) fn fill(new: &Path, owner: &Owner) -> std::io::Result<File> {
        let path = new.join(OWNER);
        fs::write(&path, serde_json::to_vec(owner)?)?;
        let lock = File::open(path)?;
        lock.lock()?;
        Ok(lock)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where chunks go when memory is short.
    pub fn spill(&self) -> Option<&Path> {
        self.spill.as_deref()
    }

    /// Leaves the chunks where they are, for salvage.
    pub fn persist(mut self) {
        self.keep = true;
    }
}

impl Drop for CaptureDir {
    fn drop(&mut self) {
        // After a panic the chunks are all there is of the run.
        if self.keep || std::thread::panicking() {
            return;
        }
        for dir in [Some(&self.path), self.spill.as_ref()].into_iter().flatten() {
            let _ = remove(dir);
        }
    }
}

/// Removes chunks and the owner's file, and the directory if it is empty then. Errors: when it is
/// not.
pub(crate) fn remove(dir: &Path) -> std::io::Result<()> {
    for path in fs::read_dir(dir)?.flatten().map(|entry| entry.path()).filter(|p| is_chunk(p)) {
        fs::remove_file(path)?;
    }
    remove_empty(dir)
}

/// Removes a directory in which no chunk is left. Errors: when there is.
pub(crate) fn remove_empty(dir: &Path) -> std::io::Result<()> {
    let alone = !fs::read_dir(dir)?.flatten().any(|entry| entry.file_name() != OWNER);
    if alone && !begun(dir) && dir.join(OWNER).exists() {
        // Under the name of its beginning, so that a kill before the end leaves nothing unknown.
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let last = dir.with_file_name(format!(".{name}"));
        fs::rename(dir, &last)?;
        return remove_empty(&last);
    }
    if alone {
        let _ = fs::remove_file(dir.join(OWNER));
    }
    fs::remove_dir(dir)
}

pub(crate) fn is_chunk(path: &Path) -> bool {
    let regular = fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
    regular && path.extension().is_some_and(|e| e == "chunk")
}

/// Whether this directory, by its name, is not complete yet or was about to be removed.
pub(crate) fn begun(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix('.')).is_some_and(|name| run_id(name.as_ref()).is_some())
}

/// The run's id, from the name of its directory.
pub(crate) fn run_id(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("taillight-")
}
