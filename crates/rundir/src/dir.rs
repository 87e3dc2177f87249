//! The run directory as a whole ([`RunDir`]): made with its manifest and locked while the run lives, opened, its status
//! and live process told, its files written whole and JSON files read back with their version and checksum compared.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use taillight_core::{Error, ErrorKind, Result, regular};

use crate::SCHEMA_VERSION;
use crate::atomic::{self, TempFile, cannot};
use crate::json_file::JsonFile;
use crate::manifest::{Manifest, RunStatus};
use crate::names;
use crate::own_sum;
use crate::summary::FileEntry;

/// One run directory, being written or read.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    manifest: Manifest,
    /// Locked while the run lives; the kernel lets go when the process ends, however it ends.
    lock: Option<File>,
    /// Its path once `path` names another directory or nothing.
    moved: OnceLock<PathBuf>,
    /// Its path under `/proc/self/fd`, once `moved` is wrong as well.
    held: OnceLock<PathBuf>,
}

/// Whether a path names the directory that is held open.
fn names_it(path: &Path, dir: &File) -> bool {
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    fs::metadata(path).is_ok_and(|a| dir.metadata().is_ok_and(|b| same(a, b)))
}

/// What the kernel calls an open directory; it names that one whatever its name is by now.
fn by_descriptor(dir: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()))
}

impl RunDir {
    /// Makes the directory, or takes an empty one, and writes the manifest as its first file.
    /// Files written later through `self` belong to this run. Errors: `Usage` when `path` is a file,
    /// holds something or is taken by another run; `Unavailable` when it cannot be made or written.
    pub fn create(path: &Path, manifest: &Manifest) -> Result<RunDir> {
        let made = !is_empty_dir(path)?;
        if made {
            fs::create_dir_all(path).map_err(|e| cannot("create", path, e))?;
            if let Some(parent) = path.parent() {
                atomic::sync_dir(parent)?;
            }
        }
        let lock = File::open(path).map_err(|e| cannot("open", path, e))?;
        if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Error::usage("another run uses this output directory")
                .with("path", path.display())
                .hint("choose another directory with --output"));
        }
        let mut dir = RunDir::at(path, manifest.clone(), Some(lock));
        if let Err(e) = dir.write_manifest(manifest) {
            // A manifest without a run behind it would be one that was killed.
            let _ = fs::remove_file(dir.file(names::MANIFEST));
            let _ = made.then(|| fs::remove_dir(path));
            return Err(e);
        }
        Ok(dir)
    }

    /// Opens an existing run directory. Errors: `Unavailable` when nothing is at `path`; `Usage` for a file or a
    /// directory without a manifest; `Corrupt` when the manifest is damaged or of a version this build does not know.
    pub fn open(path: &Path) -> Result<RunDir> {
        check_is_dir(path)?;
        let file = path.join(names::MANIFEST);
        let text = regular::read(&file).map_err(|e| not_a_run(path, e))?;
        let manifest = parse_manifest(&text).map_err(|e| e.with("path", file.display()))?;
        Ok(RunDir::at(path, manifest, None))
    }

    fn at(path: &Path, manifest: Manifest, lock: Option<File>) -> RunDir {
        let (moved, held) = (OnceLock::new(), OnceLock::new());
        RunDir { path: path.to_owned(), manifest, lock, moved, held }
    }

    /// Where it is. While it is written that is where the directory that was made or taken is by now: one
    /// that was given another name meanwhile is followed, and what stands at the old name is left alone.
    pub fn path(&self) -> &Path {
        let Some(dir) = self.lock.as_ref().filter(|dir| !names_it(&self.path, dir)) else {
            return &self.path;
        };
        let name = || fs::read_link(by_descriptor(dir)).unwrap_or_default();
        let moved = self.moved.get_or_init(name);
        match names_it(moved, dir) {
            true => moved,
            false => self.held.get_or_init(|| by_descriptor(dir)),
        }
    }
    /// The manifest as last read or written.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    /// Path of one of its files, present or not.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
    /// Path of one of its files if it exists.
    pub fn existing(&self, name: &str) -> Option<PathBuf> {
        Some(self.file(name)).filter(|p| p.is_file())
    }

    /// Whether a process still writes this run. A directory whose status is `running` and that
    /// nobody writes belongs to a run that was killed.
    pub fn is_live(&self) -> bool {
        if self.lock.is_some() {
            return true;
        }
        self.manifest.status == RunStatus::Running
            && (self.manifest.process.as_ref().is_some_and(|p| p.is_alive())
                || self.locked_elsewhere())
    }

    /// The status a reader should act on: a run that was killed is partial.
    pub fn status(&self) -> RunStatus {
        match self.manifest.status {
            RunStatus::Running if !self.is_live() => RunStatus::Partial,
            status => status,
        }
    }

    fn locked_elsewhere(&self) -> bool {
        File::open(self.path())
            .is_ok_and(|dir| matches!(dir.try_lock(), Err(fs::TryLockError::WouldBlock)))
    }

    /// Takes the directory over for writing, as salvage must. Errors: `Unavailable` when another
    /// process holds it.
    pub fn take_lock(&mut self) -> Result<()> {
        let dir = File::open(self.path()).map_err(|e| cannot("open", self.path(), e))?;
        if let Err(fs::TryLockError::WouldBlock) = dir.try_lock() {
            return Err(Error::unavailable("another process works on this run directory")
                .with("path", self.path().display())
                .hint("wait until it ends, then run the command again"));
        }
        self.lock = Some(dir);
        Ok(())
    }

    /// Replaces the manifest. Errors: `Unavailable` when it cannot be written.
    pub fn write_manifest(&mut self, manifest: &Manifest) -> Result<()> {
        self.write(manifest)?;
        self.manifest = manifest.clone();
        Ok(())
    }

    /// Keeps the job file as the user gave it. Errors: `Unavailable` when it cannot be written.
    pub fn write_job(&self, text: &str) -> Result<()> {
        self.write_text(names::JOB, text)
    }

    /// Writes a text file, whole or not at all. Errors: `Unavailable` when it cannot be written.
    pub fn write_text(&self, name: &str, text: &str) -> Result<()> {
        atomic::write(self.path(), name, text.as_bytes())
    }

    /// Starts a file that gets its name on [`TempFile::commit`]. Errors: `Unavailable` when it
    /// cannot be made.
    pub fn begin(&self, name: &str) -> Result<TempFile> {
        TempFile::create(self.path(), name)
    }

    /// Writes one of its JSON files, whole or not at all. Errors: `Unavailable` when it cannot be
    /// written; `Internal` when it would not read back.
    pub fn write<T: JsonFile>(&self, file: &T) -> Result<()> {
        file.write(self.path())
    }

    /// Reads one of its JSON files, if it is there. Errors: `Corrupt` when it is damaged or of an
    /// unknown version; `Unavailable` when it cannot be read.
    pub fn read<T: JsonFile>(&self) -> Result<Option<T>> {
        T::read(self.path()).map_err(|e| match e.kind() {
            ErrorKind::Corrupt => or_hint(e, REMAKE),
            _ => e,
        })
    }

    /// The job file, if one was given. Errors: `Corrupt` when it is no text; `Unavailable` when it cannot be read.
    pub fn job(&self) -> Result<Option<String>> {
        let Some(path) = self.existing(names::JOB) else {
            return Ok(None);
        };
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                Err(Error::corrupt("job.toml is not text").with("path", path.display()))
            }
            Err(e) => Err(cannot("read", &path, e)),
        }
    }

    /// The files that exist, hidden ones left out, in the order of [`names::ALL`], others after them by
    /// name. `rows` is left for the caller to fill. Errors: `Unavailable` when the directory cannot be
    /// listed.
    pub fn files(&self) -> Result<Vec<FileEntry>> {
        let list = fs::read_dir(self.path()).map_err(|e| cannot("list", self.path(), e))?;
        let mut files = Vec::new();
        for entry in list {
            let entry = entry.map_err(|e| cannot("list", self.path(), e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            // One that went away meanwhile is not there.
            if let Ok(meta) = entry.metadata()
                && meta.is_file()
                && !name.starts_with('.')
            {
                files.push(FileEntry { name, bytes: meta.len(), rows: None });
            }
        }
        let place = |n: &str| names::ALL.iter().position(|k| *k == n).unwrap_or(usize::MAX);
        files.sort_by(|a, b| (place(&a.name), &a.name).cmp(&(place(&b.name), &b.name)));
        Ok(files)
    }
}

const REMAKE: &str = "delete the file and run `taillight report` on the directory to make it again";
const NO_MANIFEST: &str = "restore manifest.json from a copy or run the job again; the Parquet \
    files beside it still open in any Parquet reader";

/// Whether `path` is an empty directory (true), absent (false), or refused.
fn is_empty_dir(path: &Path) -> Result<bool> {
    let refuse = |why: &str| {
        Err(Error::usage(why)
            .with("path", path.display())
            .hint(
                "name a new or empty directory with --output, or --as-run of `import`; a run never mixes with another",
            ))
    };
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(true),
            Some(_) => refuse("the output directory is not empty"),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            refuse("the output path is not a directory")
        }
        Err(e) => Err(cannot("open", path, e)),
    }
}

/// Errors: `Unavailable` where nothing is at `path`; `Usage` where a file is.
pub fn check_is_dir(path: &Path) -> Result<()> {
    fs::metadata(path).map_err(|e| not_a_run(path, e)).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(not_a_run(path, io::ErrorKind::NotADirectory.into())),
    })
}

fn not_a_run(path: &Path, e: io::Error) -> Error {
    let error = match e.kind() {
        // What was named is there, and is something else.
        io::ErrorKind::NotFound if path.is_dir() => {
            Error::usage("the directory holds no manifest.json, so it is no run directory")
        }
        io::ErrorKind::NotADirectory => Error::usage("this is a file, no run directory"),
        io::ErrorKind::NotFound => {
            Error::unavailable("there is no run directory of this name").source(e)
        }
        _ => Error::unavailable("the run directory cannot be opened").source(e),
    };
    error
        .with("path", path.display())
        .hint("give the directory that `taillight run` printed as its output")
}

fn parse_manifest(text: &[u8]) -> Result<Manifest> {
    parse(names::MANIFEST, text).map_err(|e| or_hint(e, NO_MANIFEST))
}

/// Adds `hint` unless the error has a better one.
fn or_hint(e: Error, hint: &str) -> Error {
    match e.hint_text() {
        Some(_) => e,
        None => e.hint(hint),
    }
}

/// Reads JSON that states a `schema` this build knows and fits its own checksum.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, text: &[u8]) -> Result<T> {
    let bad = |e| Error::corrupt(format!("{name} is damaged or cut short")).source(e);
    let value: serde_json::Value = serde_json::from_slice(text).map_err(bad)?;
    let version = value.get("schema").and_then(serde_json::Value::as_u64);
    match version {
        Some(v) if v == u64::from(SCHEMA_VERSION) => {}
        Some(v) => {
            let by = value.get("taillight").and_then(|t| t.as_str());
            return Err(Error::corrupt(format!("{name} has an unknown version"))
                .with("schema", v)
                .with("known", SCHEMA_VERSION)
                .hint(format!(
                    "read it with the Taillight that wrote it ({}) or a newer one",
                    by.unwrap_or("not stated")
                )));
        }
        None => return Err(Error::corrupt(format!("{name} states no schema version"))),
    }
    own_sum::check(name, text, &value)?;
    T::deserialize(value).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// A run that is renamed while it runs follows its directory; what has its first name stays.
    #[test]
    fn a_directory_of_another_name_is_followed() {
        let home = tempfile::tempdir().unwrap();
        let (first, other) = (home.path().join("run"), home.path().join("other"));
        let run = RunDir::create(&first, &fixture::manifest("a")).unwrap();
        let begun = run.begin("begun.txt").unwrap();
        for other in [other.clone(), home.path().join("third")] {
            fs::rename(run.path(), &other).unwrap();
            let _ = fs::create_dir(&first);
            fs::write(first.join("mine.txt"), "mine").unwrap();
            run.write_text("mine.txt", "of the run").unwrap();
            assert_eq!(fs::read_to_string(first.join("mine.txt")).unwrap(), "mine");
            assert_eq!(fs::read_to_string(other.join("mine.txt")).unwrap(), "of the run");
        }
        begun.commit().unwrap();
        assert!(home.path().join("third/begun.txt").exists());
        // Removed: an error, and nothing is made elsewhere.
        fs::remove_dir_all(home.path().join("third")).unwrap();
        assert!(run.write_text("x.txt", "x").is_err());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
