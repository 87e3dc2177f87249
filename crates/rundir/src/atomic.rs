//! Files that appear whole or not at all: temporary name, sync, rename, sync of the directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use taillight_core::{Error, Result, regular};

/// A file being written under a temporary name. Dropped without [`TempFile::commit`], it is
/// removed.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    committed: bool,
}

impl TempFile {
    /// Starts the file that will be called `name` in `dir`. Errors: `Internal` when `name` is no
    /// plain file name; `Unavailable` when it cannot be made.
    pub fn create(dir: &Path, name: &str) -> Result<TempFile> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(Error::internal("not a file name of a run directory").with("name", name));
        }
        let temporary = dir.join(format!(".{name}.tmp"));
        let file = File::create(&temporary).map_err(|e| cannot("create", &temporary, e))?;
        Ok(TempFile { file, temporary, path: dir.join(name), committed: false })
    }

    /// A second handle to the same open file. Errors: `Unavailable` when the process may open no
    /// more files.
    pub fn handle(&self) -> Result<File> {
        self.file.try_clone().map_err(|e| cannot("open", &self.temporary, e))
    }

    /// Syncs the data, gives the file its name and syncs the directory. Errors: `Unavailable` when
    /// any step fails; the temporary file is then removed.
    pub fn commit(mut self) -> Result<()> {
        self.file.sync_all().map_err(|e| cannot("sync", &self.temporary, e))?;
        fs::rename(&self.temporary, &self.path).map_err(|e| cannot("rename", &self.path, e))?;
        self.committed = true;
        match self.path.parent() {
            Some(dir) => sync_dir(dir),
            None => Ok(()),
        }
    }
}

impl Write for TempFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes `bytes` as `name` in `dir`, whole or not at all. Errors: `Unavailable` when the file
/// cannot be written, for example without space.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = TempFile::create(dir, name)?;
    file.write_all(bytes).map_err(|e| cannot("write", &file.temporary, e))?;
    file.commit()
}

/// Writes `value` as JSON, whole or not at all. Errors: as [`write`]; `Internal` when it would not
/// read back.
pub(crate) fn write_json<T: Serialize + DeserializeOwned>(
    dir: &Path,
    name: &str,
    value: &T,
) -> Result<()> {
    let bug = |e| Error::internal(format!("{name} cannot be written as JSON")).source(e);
    let mut text = serde_json::to_string_pretty(value).map_err(bug)?;
    // A NaN becomes null and would make the file unreadable: find out now, not later.
    serde_json::from_str::<T>(&text).map_err(bug)?;
    text.push('\n');
    write(dir, name, text.as_bytes())
}

/// Reads what [`write_json`] wrote, if it is there. Errors: `Unavailable` when it cannot be read;
/// `Corrupt` when it is damaged or of an unknown version.
pub(crate) fn read_json<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>> {
    let path = dir.join(name);
    match regular::read(&path) {
        Ok(text) => {
            crate::dir::parse(name, &text).map(Some).map_err(|e| e.with("path", path.display()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(cannot("read", &path, e)),
    }
}

/// Makes names in `dir` durable. Errors: `Unavailable` when the directory cannot be synced.
pub fn sync_dir(dir: &Path) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| cannot("sync", dir, e))
}

/// "cannot `what` the file", with the path, a hint for a full disk, and the cause.
pub(crate) fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
    let hint = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("free some space there, or choose another directory with --output")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("choose a directory you may write to with --output")
        }
        io::ErrorKind::FileTooLarge => Some("raise the limit on the size of files (ulimit -f)"),
        io::ErrorKind::NotFound if what == "create" => {
            Some("no file can be made there: name another with --output")
        }
        _ => None,
    };
    Error::unavailable(format!("cannot {what} a file of the run directory"))
        .with("path", path.display())
        .source(e)
        .hint_some(hint)
}
