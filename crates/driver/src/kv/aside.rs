//! Sets the files of an existing database aside while a new one takes its place, then deletes them, or puts them back
//! where the new one cannot be used.
//!
//! They are renamed into a subdirectory `.taillight-aside-RUN` of the database's directory, logs elsewhere into one of
//! theirs. A rename needs the rights that a deletion needs, and loses nothing. Whether a database may go is decided by
//! `directory`.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, unlinkat,
};
use rustix::io::Errno;
use taillight_core::{Error, Result, atomic};

use super::numbers::StoreFile;
use crate::path_error::cannot;

/// What the names of these subdirectories begin with; the id of the run follows.
const ASIDE: &str = ".taillight-aside-";
/// The file of RocksDB and LevelDB that names the manifest.
const CURRENT: &str = "CURRENT";
/// The subdirectory into which RocksDB moves old logs.
const ARCHIVE: &str = "archive";

/// Whether a name begins as those of these subdirectories do.
pub fn is_aside(name: &str) -> bool {
    name.starts_with(ASIDE)
}

/// The files of a database that were set aside. Those still held when this is dropped are put back.
pub struct SetAside {
    places: Vec<AsidePlace>,
}

impl SetAside {
    /// Sets aside what is named like a file of the driver's store in `dir` (`named` in errors), and like one of its
    /// logs in `dir/archive` and in the directories `beside`. Errors: `Unavailable` where one cannot be moved; then
    /// those already moved are put back.
    pub fn of(
        driver: &str,
        dir: &Path,
        named: &Path,
        beside: &[PathBuf],
        run_id: &str,
    ) -> Result<SetAside> {
        let mut aside = SetAside { places: Vec::new() };
        let logs = beside.iter().map(|dir| (dir.as_path(), dir.as_path(), true));
        for (place, path, logs_only) in std::iter::once((dir, named, false)).chain(logs) {
            let Some(place) = AsidePlace::make(place, path, run_id)? else { continue };
            aside.places.push(place);
            // On an error `aside` is dropped, and what it has moved so far is put back.
            let moved =
                aside.places.last_mut().map_or(Ok(()), |place| place.fill(driver, logs_only));
            moved.map_err(|e| {
                cannot("cannot move the database out of the way", path, e)
                    .hint("it is left as it was; see who may change its files (ls -l, lsattr)")
            })?;
        }
        Ok(aside)
    }

    /// Deletes the files. Errors: `Unavailable`: where not even the first could be deleted, all are held as before;
    /// else as many are gone as can be, none is held any more, and the error names the directories of the others.
    pub fn delete(&mut self) -> Result<()> {
        let (mut gone, mut failed) = (0, None);
        for place in &mut self.places {
            if let Err(e) = place.delete(&mut gone) {
                if gone == 0 {
                    return Err(cannot(
                        "cannot delete the database that gave way",
                        &place.held(),
                        e,
                    )
                    .hint("nothing of it is lost; see who may change its files (ls -l, lsattr)"));
                }
                failed.get_or_insert((e, Vec::new())).1.push(place.held().display().to_string());
            }
        }
        self.places.clear();
        failed.map_or(Ok(()), |(e, left)| {
            Err(Error::unavailable("the database that gave way is deleted in part only")
                .with("leftovers", left.join(" and "))
                .source(e)
                .hint("what is left is no database any more: delete it; see who may change it (ls -l, lsattr)"))
        })
    }

    /// Whether no files are held: deleted, as far as they could be.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Renames the files to where they were. Errors: `Unavailable`, naming a subdirectory that still holds some.
    pub fn put_back(mut self) -> Result<()> {
        self.return_all()
    }

    fn return_all(&mut self) -> Result<()> {
        let places = std::mem::take(&mut self.places).into_iter();
        places.map(|mut place| place.put_back()).fold(Ok(()), Result::and)
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let _ = self.return_all();
    }
}

/// What was moved out of one directory.
struct AsidePlace {
    path: PathBuf,
    from: OwnedFd,
    name: String,
    to: OwnedFd,
    /// Of each file: its path below `from`, and its name in `to`.
    moved: Vec<(PathBuf, OsString)>,
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl AsidePlace {
    /// None where there is no directory.
    fn make(place: &Path, path: &Path, run_id: &str) -> Result<Option<AsidePlace>> {
        let failed = |e: Errno| cannot("cannot move the database out of the way", path, e);
        // Followed: it may be a path of /proc that leads to the very directory.
        let from = match rustix::fs::open(place, DIRECTORY | OFlags::RDONLY, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            from => from.map_err(failed)?,
        };
        changeable(path, &from)?;
        let name = format!("{ASIDE}{run_id}");
        mkdirat(&from, name.as_str(), Mode::from_raw_mode(0o700)).map_err(failed)?;
        let flags = DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW;
        let to = openat(&from, name.as_str(), flags, Mode::empty()).map_err(failed)?;
        Ok(Some(AsidePlace { path: path.to_owned(), from, name, to, moved: Vec::new() }))
    }

    fn fill(&mut self, driver: &str, logs_only: bool) -> io::Result<()> {
        let goes = |name: &str| match StoreFile::of(driver, name) {
            Some(StoreFile::Log(_)) => true,
            Some(_) => !logs_only,
            None => false,
        };
        for name in names(&self.from)?.into_iter().filter(|name| goes(name)) {
            self.take(PathBuf::from(&name), name.into())?;
        }
        let flags = DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW;
        let old = match openat(&self.from, ARCHIVE, flags, Mode::empty()) {
            Ok(old) => names(&old)?,
            Err(_) => Vec::new(),
        };
        for name in old {
            if matches!(StoreFile::of(driver, &name), Some(StoreFile::Log(_))) {
                let to = format!("{ARCHIVE}.{name}");
                self.take(Path::new(ARCHIVE).join(name), to.into())?;
            }
        }
        // Fails, and the directory stays, where other files are in it.
        let _ = unlinkat(&self.from, ARCHIVE, AtFlags::REMOVEDIR);
        Ok(())
    }

    fn in_database<'a>(&'a self, name: &'a Path) -> DirEntry<'a> {
        DirEntry { dir: &self.from, name }
    }

    fn set_aside<'a>(&'a self, name: &'a OsString) -> DirEntry<'a> {
        DirEntry { dir: &self.to, name: Path::new(name) }
    }

    fn take(&mut self, from: PathBuf, to: OsString) -> io::Result<()> {
        rename(&self.in_database(&from), &self.set_aside(&to))?;
        self.moved.push((from, to));
        Ok(())
    }

    fn put_back(&mut self) -> Result<()> {
        let mut left = None;
        for (from, to) in std::mem::take(&mut self.moved).into_iter().rev() {
            if from.starts_with(ARCHIVE) {
                let _ = mkdirat(&self.from, ARCHIVE, Mode::from_raw_mode(0o755));
            }
            if let Err(e) = rename(&self.set_aside(&to), &self.in_database(&from)) {
                left = Some(e);
            }
        }
        let _ = unlinkat(&self.from, self.name.as_str(), AtFlags::REMOVEDIR);
        left.map_or(Ok(()), |e| {
            Err(Error::unavailable("files of the database could not be put back")
                .with("path", self.path.join(&self.name).display())
                .source(e)
                .hint("they are in that directory: move them back to the one above"))
        })
    }

    /// Path of the subdirectory that holds the files.
    fn held(&self) -> PathBuf {
        self.path.join(&self.name)
    }

    /// Deletes as many files as can be, and adds their number to `gone`; ends at the first failure while `gone` is 0.
    fn delete(&mut self, gone: &mut u64) -> io::Result<()> {
        // CURRENT goes first: as long as it is there, a database of RocksDB or LevelDB is whole.
        self.moved.sort_by_key(|(_, name)| name != CURRENT);
        let mut failed = None;
        for (_, name) in &self.moved {
            match unlinkat(&self.to, name.as_os_str(), AtFlags::empty()) {
                Ok(()) => *gone += 1,
                Err(e) if *gone == 0 => return Err(e.into()),
                Err(e) => {
                    failed.get_or_insert(e);
                }
            }
        }
        let removed = unlinkat(&self.from, self.name.as_str(), AtFlags::REMOVEDIR);
        Ok(failed.map_or(removed, Err)?)
    }
}

/// Errors: `Unavailable` for a directory that is append-only (chattr +a): files in it cannot be renamed or deleted.
pub fn changeable(path: &Path, dir: &OwnedFd) -> Result<()> {
    match atomic::is_append_only(dir) {
        false => Ok(()),
        true => Err(Error::unavailable("the directory is append-only: nothing in it can give way")
            .with("path", path.display())
            .hint("take the attribute away (chattr -a), or choose another path")),
    }
}

/// Errors: `Refused` where `archive` in the database's directory is no directory: RocksDB would delete old logs in
/// the directory that a symbolic link of this name leads to.
pub fn archive_is_its_own(dir: &OwnedFd, path: &Path) -> Result<()> {
    match rustix::fs::statat(dir, ARCHIVE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
            Err(Error::refused("`archive` in the directory of the database is no directory")
                .with("path", path.join(ARCHIVE).display())
                .hint("move it away: stores keep old logs there and delete them"))
        }
        _ => Ok(()),
    }
}

/// Names in a directory, but those that are not UTF-8: no store gives such names.
fn names(dir: &OwnedFd) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(dir)? {
        if let Ok(name) = entry?.file_name().to_str() {
            all.push(name.to_owned());
        }
    }
    Ok(all)
}

/// A name in an opened directory.
struct DirEntry<'a> {
    dir: &'a OwnedFd,
    name: &'a Path,
}

/// Renames; an error where `to` exists. A file system without RENAME_NOREPLACE is asked for `to` just before.
fn rename(from: &DirEntry<'_>, to: &DirEntry<'_>) -> io::Result<()> {
    let no_replace = RenameFlags::NOREPLACE;
    let moved = rustix::fs::renameat_with(from.dir, from.name, to.dir, to.name, no_replace);
    match moved {
        Err(Errno::INVAL | Errno::NOSYS) => {
            match rustix::fs::statat(to.dir, to.name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {
                    Ok(rustix::fs::renameat(from.dir, from.name, to.dir, to.name)?)
                }
                _ => Err(io::ErrorKind::AlreadyExists.into()),
            }
        }
        moved => Ok(moved?),
    }
}

/// Whether the directory `aside` holds the file without which a database cannot be opened: `CURRENT`, or SQLite's.
pub fn is_whole(aside: &Path) -> bool {
    aside.join(CURRENT).exists() || aside.join(super::sqlite::FILE).exists()
}

/// A subdirectory of `dir` named as those of files set aside: a killed run left it. Errors: `Unavailable`.
pub fn left_behind(dir: &Path) -> Result<Option<PathBuf>> {
    let flags = DIRECTORY | OFlags::RDONLY;
    let failed = |e: io::Error| cannot("cannot list the directory", dir, e);
    let fd = rustix::fs::openat(CWD, dir, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let all = names(&fd).map_err(failed)?;
    Ok(all.into_iter().find(|name| is_aside(name)).map(|name| dir.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(dir: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => {
                    all.extend(tree(&entry.path()).iter().map(|below| format!("{name}/{below}")))
                }
                false => all.push(name),
            }
        }
        all.sort();
        all
    }

    fn make_dirs() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let tmp = tempfile::tempdir().unwrap();
        let (db, logs) = (tmp.path().join("db"), tmp.path().join("logs"));
        for dir in [&db, &logs, &db.join("archive")] {
            fs::create_dir(dir).unwrap();
        }
        for name in ["CURRENT", "MANIFEST-000004", "000005.sst", "LOCK", "thesis", "archive/1.log"]
        {
            fs::write(db.join(name), name).unwrap();
        }
        for name in ["000006.log", "000007.sst"] {
            fs::write(logs.join(name), name).unwrap();
        }
        (tmp, db, logs)
    }

    #[test]
    fn what_is_set_aside_comes_back_or_goes() {
        let (tmp, db, logs) = make_dirs();
        let before = tree(tmp.path());
        let aside =
            || SetAside::of("rocksdb", &db, &db, std::slice::from_ref(&logs), "r1").unwrap();
        let held = aside();
        assert_eq!(left_behind(&db).unwrap(), Some(db.join(".taillight-aside-r1")));
        assert!(!db.join("CURRENT").exists() && !logs.join("000006.log").exists());
        assert!(db.join("thesis").exists() && logs.join("000007.sst").exists());
        drop(held);
        assert_eq!(tree(tmp.path()), before);
        // Another file has taken the name of one that is to be put back.
        let held = aside();
        fs::write(db.join("CURRENT"), "newer").unwrap();
        assert!(held.put_back().is_err());
        assert_eq!(fs::read(db.join("CURRENT")).unwrap(), b"newer");
        assert_eq!(tree(&db.join(".taillight-aside-r1")), ["CURRENT"]);
        fs::rename(db.join(".taillight-aside-r1/CURRENT"), db.join("CURRENT")).unwrap();
        fs::remove_dir(db.join(".taillight-aside-r1")).unwrap();
        aside().delete().unwrap();
        assert_eq!(tree(tmp.path()), ["db/thesis", "logs/000007.sst"]);
    }

    /// A file that has become a directory stands for one that cannot be deleted.
    #[test]
    fn what_cannot_all_be_deleted_is_said_and_kept_whole_where_it_can_be() {
        let (tmp, db, logs) = make_dirs();
        let before = tree(tmp.path());
        let aside =
            || SetAside::of("rocksdb", &db, &db, std::slice::from_ref(&logs), "r1").unwrap();
        let to = db.join(".taillight-aside-r1");
        let block = |name: &str| {
            fs::rename(to.join(name), to.join("held")).unwrap();
            fs::create_dir(to.join(name)).unwrap();
        };
        let mut held = aside();
        block("CURRENT");
        let e = held.delete().unwrap_err();
        assert!(e.hint_text().unwrap().contains("nothing of it is lost"), "{e}");
        fs::remove_dir(to.join("CURRENT")).unwrap();
        fs::rename(to.join("held"), to.join("CURRENT")).unwrap();
        held.put_back().unwrap();
        assert_eq!(tree(tmp.path()), before);
        let mut held = aside();
        block("000005.sst");
        let e = held.delete().unwrap_err();
        let says = e.to_string();
        assert!(says.contains("in part") && says.contains(to.to_str().unwrap()), "{says}");
        assert!(held.is_empty() && !is_whole(&to));
        drop(held);
        // The logs in the other directory are deleted all the same.
        assert_eq!(
            tree(tmp.path()),
            ["db/.taillight-aside-r1/held", "db/thesis", "logs/000007.sst"]
        );
    }

    #[test]
    fn what_cannot_be_moved_leaves_all_as_it_was() {
        let (tmp, db, logs) = make_dirs();
        let before = tree(tmp.path());
        // The subdirectory for the logs cannot be made: its name is taken.
        let taken = logs.join(".taillight-aside-r1");
        fs::create_dir(&taken).unwrap();
        assert!(SetAside::of("rocksdb", &db, &db, &[logs], "r1").is_err());
        assert_eq!(tree(tmp.path()), before);
    }
}
