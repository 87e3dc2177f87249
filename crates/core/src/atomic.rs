//! Writes an output file whole or not at all: temporary name, sync, rename, sync of the directory. The files
//! of a run directory, reports and exports are written through this module.
//!
//! Anything but a regular file that already has the name (a link, a directory, a device, a pipe) is
//! refused. [`TempFile::create`] replaces a regular file, whatever is in it: a caller that was given the name
//! by a person asks [`may_write`] first.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, IFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::{Error, Result, regular};

/// Bytes from the start of a file by which [`may_write`] tells whose it is.
const HEAD_BYTES: u64 = 256 << 10;

/// Start of a temporary name, before 16 random hexadecimal digits.
const BEGINNING: &str = ".taillight-";
/// End of a temporary name.
const ENDING: &str = ".tmp";

/// A file being written under a temporary name of its own. Dropped without [`TempFile::commit`], it is
/// removed.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    /// The open directory: the file goes there even if the directory is renamed meanwhile.
    dir: File,
    /// Name in `dir` until the commit.
    temporary: String,
    path: PathBuf,
    /// The commit fails where the name is taken.
    new: bool,
    committed: bool,
}

impl TempFile {
    /// Starts the file that [`TempFile::commit`] will call `name` in `dir`, and takes over the rights of a regular
    /// file that it will replace. Errors: `Usage` when `name` is no plain file name, or is that of anything but a
    /// regular file; `Unavailable` when the file cannot be made, or `dir` is append-only.
    pub fn create(dir: &Path, name: impl AsRef<OsStr>) -> Result<TempFile> {
        TempFile::begin(dir, name.as_ref(), false)
    }

    /// As [`TempFile::create`], of a file that is not there yet. Errors: also `Usage` when it is.
    pub fn create_new(dir: &Path, name: impl AsRef<OsStr>) -> Result<TempFile> {
        TempFile::begin(dir, name.as_ref(), true)
    }

    fn begin(dir: &Path, name: &OsStr, new: bool) -> Result<TempFile> {
        let path = dir.join(name);
        if Path::new(name).file_name() != Some(name) {
            return Err(Error::usage("the output names no file").with("path", path.display()));
        }
        let was = replaced(&path, new)?;
        let open_dir = if dir == Path::new("") { Path::new(".") } else { dir };
        let open_dir = File::open(open_dir).map_err(|e| cannot("create", &path, e))?;
        if is_append_only(&open_dir) {
            // The temporary file could neither get its name nor be removed again.
            return Err(Error::unavailable("cannot create a file")
                .with("path", path.display())
                .with("why", "the directory is append-only: nothing in it can be renamed")
                .hint("name another directory, or take the attribute away (chattr -a)"));
        }
        // A name that nobody can foresee; one that is taken all the same is an error, never followed.
        let random = RandomState::new().build_hasher().finish();
        let temporary = format!("{BEGINNING}{random:016x}{ENDING}");
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if was.is_some() { 0o600 } else { 0o666 });
        let file = openat(&open_dir, temporary.as_str(), flags, mode);
        let file = File::from(file.map_err(|e| cannot("create", &path, e.into()))?);
        let made = TempFile { file, dir: open_dir, temporary, path, new, committed: false };
        was.map_or(Ok(()), |was| made.keep_rights(&was))?;
        Ok(made)
    }

    /// Takes over the rights of the file that is replaced, never wider ones, and its owner where that is allowed.
    fn keep_rights(&self, was: &Metadata) -> Result<()> {
        let cannot = |e| cannot("create", &self.path, e);
        let is = self.file.metadata().map_err(cannot)?;
        let mut mode = was.mode() & 0o777;
        let other = (was.uid(), was.gid()) != (is.uid(), is.gid());
        // Rights of a group are rights of that group only.
        if other && fchown(&self.file, Some(was.uid()), Some(was.gid())).is_err() {
            mode &= 0o707;
        }
        let changed = self.file.set_permissions(Permissions::from_mode(mode));
        let is = self.file.metadata().map_err(cannot)?.mode() & 0o777;
        no_wider(changed, is, mode).map_err(cannot)
    }

    /// A second handle to the same open file. Errors: `Unavailable` when the process may open no
    /// more files.
    pub fn handle(&self) -> Result<File> {
        self.file.try_clone().map_err(|e| cannot("open", &self.path, e))
    }

    /// Syncs the data, gives the file its name and syncs the directory. Errors: `Usage` when the name now is that of
    /// anything but a regular file, or of any file after [`TempFile::create_new`]; `Unavailable` when a step fails.
    /// The temporary file is then removed, but a file whose directory cannot be synced keeps its name.
    pub fn commit(mut self) -> Result<()> {
        self.file.sync_all().map_err(|e| cannot("sync", &self.path, e))?;
        let name = self.path.file_name().unwrap_or_default();
        let here = PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()));
        // Without /proc its name has to do.
        let here = if here.exists() { here.join(name) } else { self.path.clone() };
        replaced(&here, self.new)?;
        let (dir, from) = (&self.dir, self.temporary.as_str());
        let flags = if self.new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        let renamed = match renameat_with(dir, from, dir, name, flags) {
            Err(Errno::EXIST) if self.new => return Err(exists(&self.path)),
            // A file system without this flag: `replaced` has looked just before.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(dir, from, dir, name),
            done => done,
        };
        renamed.map_err(|e| cannot("rename", &self.path, e.into()))?;
        self.committed = true;
        self.dir.sync_all().map_err(|e| cannot("sync", &self.path, e))
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
            let _ = unlinkat(&self.dir, self.temporary.as_str(), AtFlags::empty());
        }
    }
}

/// Whether nothing in a directory can be renamed or removed (`chattr +a`); false where that cannot be told.
pub fn is_append_only(dir: impl AsFd) -> bool {
    rustix::fs::ioctl_getflags(dir).is_ok_and(|flags| flags.contains(IFlags::APPEND))
}

/// How changing a file's rights to `was` went; no error where the rights that it has (`is`) are no wider all the same,
/// as on some FUSE file systems.
fn no_wider(changed: io::Result<()>, is: u32, was: u32) -> io::Result<()> {
    if is & !was == 0 { Ok(()) } else { changed }
}

/// The regular file that has this name, if any. Errors: `Usage` for anything else, and with `new` for a regular
/// file as well; `Unavailable` when the name cannot be looked up.
fn replaced(path: &Path, new: bool) -> Result<Option<Metadata>> {
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|e| cannot("create", path, e))?,
    };
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() && new => return Err(exists(path)),
        () if kind.is_file() => return Ok(Some(found)),
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_dir() => "a directory",
        () => "no regular file",
    };
    Err(Error::usage(format!("the output is {what}, which is neither followed nor replaced"))
        .with("path", path.display())
        .hint("give the name of a file"))
}

/// Whether an output that a person named may be written: nothing has its name, or a regular file that is
/// empty or that `ours` knows by its first bytes. Reads only. Errors: `Usage` where it may not;
/// `Unavailable` when what is there cannot be read.
pub fn may_write(path: &Path, ours: impl FnOnce(&[u8]) -> bool) -> Result<()> {
    if replaced(path, false)?.is_none() {
        return Ok(());
    }
    let mut head = Vec::new();
    let file = regular::open(path).map_err(|e| cannot("read", path, e))?;
    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(|e| cannot("read", path, e))?;
    match head.is_empty() || ours(&head) {
        true => Ok(()),
        false => Err(exists(path)),
    }
}

/// Whether `text`, which is not empty, stands in the first bytes of a file, in small letters or capitals.
pub fn says(head: &[u8], text: &str) -> bool {
    head.windows(text.len()).any(|w| w.eq_ignore_ascii_case(text.as_bytes()))
}

fn exists(path: &Path) -> Error {
    Error::usage("the output file exists already")
        .with("path", path.display())
        .hint("Taillight did not write it for this: remove it, or give another name")
}

/// Writes `bytes` as `name` in `dir`, whole or not at all. Errors: as [`TempFile::create`];
/// `Unavailable` also without space.
pub fn write(dir: &Path, name: impl AsRef<OsStr>, bytes: &[u8]) -> Result<()> {
    filled(TempFile::create(dir, name)?, bytes)
}

/// As [`write()`], of a file that is not there yet. Errors: also `Usage` when it is.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let (dir, name) = place(path)?;
    filled(TempFile::create_new(dir, name)?, bytes)
}

fn filled(mut file: TempFile, bytes: &[u8]) -> Result<()> {
    file.write_all(bytes).map_err(|e| cannot("write", &file.path, e))?;
    file.commit()
}

/// Directory and name of a file. Errors: `Usage` where the path names none.
pub fn place(path: &Path) -> Result<(&Path, &OsStr)> {
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = !path.as_os_str().as_encoded_bytes().ends_with(b"/");
    path.file_name().filter(|_| named).map(|name| (dir, name)).ok_or_else(|| {
        Error::usage("the output names no file")
            .with("path", path.display())
            .hint("give the name of a file")
    })
}

/// The first name `NAME.word-N` (N from 1) beside the file NAME at `path` that nothing has, for what is moved out of
/// the way. Errors: `Internal` when all are taken.
pub fn free_name(path: &Path, word: &str) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |n: u32| path.with_file_name(format!("{name}.{word}-{n}"));
    let free = (1..).map(numbered).find(|to| fs::symlink_metadata(to).is_err());
    free.ok_or_else(|| Error::internal("no free name"))
}

/// Whether this is the name of a [`TempFile`], which is of no use once its writer has ended.
pub fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(BEGINNING).and_then(|rest| rest.strip_suffix(ENDING));
    random.is_some_and(|r| r.len() == 16 && r.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Makes names in `dir` durable. Errors: `Unavailable` when the directory cannot be synced.
pub fn sync_dir(dir: &Path) -> Result<()> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| cannot("sync", dir, e))
}

/// The `Unavailable` error "cannot `what` a file of the output", with the path, the cause, and for a full disk,
/// missing rights, a limit on file sizes or a missing directory a hint.
pub fn cannot(what: &str, path: &Path, e: io::Error) -> Error {
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
    Error::unavailable(format!("cannot {what} a file of the output"))
        .with("path", path.display())
        .source(e)
        .hint_some(hint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ErrorKind;

    fn names(dir: &Path) -> Vec<String> {
        let list = fs::read_dir(dir).expect("listed");
        let mut names: Vec<String> =
            list.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_left_where_nothing_can_be_renamed() {
        let tmp = tempfile::tempdir().expect("a directory");
        let chattr = |how| {
            let run = std::process::Command::new("chattr").arg(how).arg(tmp.path()).output();
            run.is_ok_and(|out| out.status.success())
        };
        if !chattr("+a") {
            eprintln!("skipped: nothing_is_left_where_nothing_can_be_renamed: no chattr +a here");
            return;
        }
        let said = write(tmp.path(), "out", b"text");
        let left = names(tmp.path());
        assert!(chattr("-a"));
        assert_eq!(said.expect_err("refused").kind(), ErrorKind::Unavailable);
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn what_is_no_regular_file_is_neither_followed_nor_replaced() {
        let tmp = tempfile::tempdir().expect("a directory");
        let (dir, victim) = (tmp.path().join("out"), tmp.path().join("victim"));
        fs::create_dir(&dir).expect("made");
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, dir.join("link")).expect("linked");
        symlink(tmp.path().join("nowhere"), dir.join("dangling")).expect("linked");
        fs::create_dir(dir.join("folder")).expect("made");
        let pipe = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status();
        assert!(pipe.expect("mkfifo").success());
        let before = names(&dir);
        for name in ["link", "dangling", "folder", "pipe", "", ".", "..", "a/b", "folder/"] {
            let e = write(&dir, name, b"x").expect_err(name);
            assert_eq!(e.kind(), ErrorKind::Usage, "{name}");
            assert!(write_new(&dir.join(name), b"x").is_err(), "{name}");
        }
        assert_eq!(names(&dir), before);
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");
        assert!(!tmp.path().join("nowhere").exists());
    }

    #[test]
    fn the_names_of_others_are_not_taken_for_temporary_ones() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = TempFile::create(tmp.path(), "a").expect("made");
        assert!(names(tmp.path()).iter().all(|name| is_temporary(name)));
        drop(file);
        for name in [".mine.tmp", ".tmp", ".taillight-.tmp", ".taillight-0123456789abcdeg.tmp"] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn a_link_that_comes_while_a_file_is_written_stays() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = TempFile::create(tmp.path(), "a").expect("made");
        symlink("/nowhere", tmp.path().join("a")).expect("linked");
        assert_eq!(file.commit().expect_err("refused").kind(), ErrorKind::Usage);
        assert_eq!(names(tmp.path()), ["a"]);
        let new = TempFile::create_new(tmp.path(), "b").expect("made");
        fs::write(tmp.path().join("b"), "theirs").expect("written");
        assert_eq!(new.commit().expect_err("refused").kind(), ErrorKind::Usage);
        assert_eq!(fs::read_to_string(tmp.path().join("b")).expect("read"), "theirs");
    }

    #[test]
    fn a_private_file_stays_private_and_old_temporary_names_are_left_alone() {
        let tmp = tempfile::tempdir().expect("a directory");
        let (path, victim) = (tmp.path().join("a.json"), tmp.path().join("victim"));
        fs::write(&victim, "precious").expect("written");
        symlink(&victim, tmp.path().join(".a.json.tmp")).expect("linked");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
        write(tmp.path(), "a.json", b"new").expect("replaced");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::read_to_string(&victim).expect("read"), "precious");
    }

    #[test]
    fn rights_that_cannot_be_changed_are_an_error_only_where_they_are_wider() {
        let refused = || Err(io::Error::from(io::ErrorKind::Unsupported));
        assert!(no_wider(refused(), 0o600, 0o644).is_ok());
        assert!(no_wider(refused(), 0o777, 0o777).is_ok());
        assert!(no_wider(refused(), 0o777, 0o600).is_err());
        assert!(no_wider(Ok(()), 0o600, 0o644).is_ok());
    }

    #[test]
    fn writers_at_the_same_time_leave_one_whole_file() {
        let tmp = tempfile::tempdir().expect("a directory");
        let text = |n: u8| vec![b'a' + n; 1 << 20];
        std::thread::scope(|s| {
            for n in 0..8u8 {
                let dir = tmp.path();
                s.spawn(move || (0..4).for_each(|_| write(dir, "a", &text(n)).expect("written")));
            }
        });
        assert_eq!(names(tmp.path()), ["a"]);
        let left = fs::read(tmp.path().join("a")).expect("read");
        assert_eq!(left, text(left[0] - b'a'));
    }
}
