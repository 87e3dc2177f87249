//! What the files of a database are, as one text: so that a mark names the database it was written for,
//! and not whatever is in its directory later.
//!
//! A store makes and deletes files as it likes, so that no list of them can be kept while a run goes on.
//! Once the database is closed they stand still: name (with the store's file number), inode, time of birth
//! and of change and size of each say whether anybody has used, changed or replaced the database since.
//! What a killed run left has no such text: nobody can tell what was added to it later.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use taillight_core::Result;

use super::{FileSystem, SIDECAR};
use crate::identity::FileIdentity;
use crate::path_error::cannot;

/// Directories in directories are followed this deep; no store goes further.
const DEEPEST: u32 = 4;
/// FNV-1a, 64 bits.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// How a text names the file system of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystemNaming {
    /// By the number of its device, as earlier versions did.
    Device,
    /// By what it calls itself ([`FileSystem`]), which stays the same when it is mounted anew.
    Itself,
}

impl FileSystemNaming {
    /// A file on the file system of its directory, as the text has it.
    fn named(self, file: FileIdentity, fs: &FileSystem) -> FileIdentity {
        match (self, fs.id_of(file.device)) {
            (FileSystemNaming::Itself, Some(_)) => FileIdentity { device: 0, ..file },
            _ => file,
        }
    }
}

/// The files below `dirs` as one text, which another set of files does not have. Left out is what holds no
/// data and changes when a database is only looked at: locks, and a store's own messages. Errors:
/// `Unavailable` when something cannot be read.
pub fn fingerprint(dirs: &[PathBuf], naming: FileSystemNaming) -> Result<String> {
    let mut lines = Vec::new();
    for dir in dirs {
        let failed = |e: io::Error| cannot("cannot look at the files of the database", dir, e);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = rustix::fs::open(dir, flags, Mode::empty());
        let mut ends = String::new();
        match opened {
            Ok(fd) => {
                let fs = FileSystem::of(&fd).map_err(failed)?;
                let found = FileIdentity::of(&fd).map_err(failed)?;
                if let (FileSystemNaming::Itself, Some(id)) = (naming, fs.id_of(found.device)) {
                    ends = id.to_owned();
                }
                let mut look = Look { fs, naming, lines: &mut lines };
                look.below(fd, Path::new(""), DEEPEST).map_err(failed)?;
            }
            // Stores delete a directory of logs with the last of them.
            Err(rustix::io::Errno::NOENT) => {}
            Err(e) => return Err(failed(e.into())),
        }
        lines.push(ends);
    }
    Ok(format!("{} files {:016x}", lines.len() - dirs.len(), hash(&lines)))
}

fn hash(lines: &[String]) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    lines.iter().flat_map(|line| line.bytes().chain([b'\n'])).fold(FNV_START, fnv)
}

/// What is in a directory, `.` and `..` too; nothing where there is none. Errors: `Unavailable` when it cannot be read.
pub fn listed(dir: &Path) -> Result<Vec<(String, FileIdentity)>> {
    let failed = |e: io::Error| cannot("cannot look at the files of the database", dir, e);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let fd = match rustix::fs::open(dir, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        Err(e) => return Err(failed(e.into())),
    };
    let mut found = Vec::new();
    for entry in Dir::read_from(&fd).map_err(|e| failed(e.into()))? {
        let entry = entry.map_err(|e| failed(e.into()))?;
        let is = FileIdentity::at(&fd, entry.file_name()).map_err(failed)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), is));
    }
    Ok(found)
}

/// Lines about what is in a directory.
struct Look<'a> {
    fs: FileSystem,
    naming: FileSystemNaming,
    lines: &'a mut Vec<String>,
}

impl Look<'_> {
    fn below(&mut self, fd: OwnedFd, below: &Path, deepest: u32) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let name = entry?.file_name().to_owned();
            if !holds_no_data(name.to_bytes()) {
                found.push(name);
            }
        }
        found.sort();
        for name in found {
            let is = FileIdentity::at(&fd, name.as_c_str())?;
            let path = below.join(name.to_string_lossy().as_ref());
            let shown = path.display();
            let stat = rustix::fs::statat(&fd, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
            if !FileType::from_raw_mode(stat.st_mode).is_dir() {
                self.lines.push(format!("{shown} {:?}", self.naming.named(is, &self.fs)));
                continue;
            }
            // Its times change with what is in it.
            self.lines.push(format!("{shown} {} {:?}", is.inode, is.birth_ns));
            if let Some(deeper) = deepest.checked_sub(1) {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
                self.below(openat(&fd, &name, flags, Mode::empty())?, &path, deeper)?;
            }
        }
        Ok(())
    }
}

/// Whether a name is that of a lock, of a store's messages (`LOG`, in RocksDB's `db_log_dir` `..._LOG`) or
/// of Taillight's own.
fn holds_no_data(name: &[u8]) -> bool {
    let messages = |name: &[u8]| name == b"LOG" || name.starts_with(b"LOG.old");
    let last = name.rsplit(|b| *b == b'_').next().unwrap_or(name);
    [&b"."[..], b"..", b"LOCK", b"lost+found"].contains(&name)
        || name.starts_with(SIDECAR.as_bytes())
        || messages(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn texts_of_earlier_versions_are_made_as_they_were() {
        let tmp = tempfile::tempdir().unwrap();
        fs::write(tmp.path().join("CURRENT"), "x").unwrap();
        let is = FileIdentity::at(rustix::fs::CWD, tmp.path().join("CURRENT").as_path()).unwrap();
        let dirs = [tmp.path().to_owned()];
        let earlier = hash(&[format!("CURRENT {is:?}"), String::new()]);
        let now = fingerprint(&dirs, FileSystemNaming::Device).unwrap();
        assert_eq!(now, format!("1 files {earlier:016x}"));
        let fs = FileSystem::of(fs::File::open(tmp.path()).unwrap()).unwrap();
        let named = fingerprint(&dirs, FileSystemNaming::Itself).unwrap();
        assert_eq!(named != now, fs.id_of(is.device).is_some());
    }

    #[test]
    fn a_database_is_told_from_every_successor() {
        let (tmp, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| tmp.path().join(name);
        let dirs = [tmp.path().to_owned(), logs.path().to_owned()];
        let now = || fingerprint(&dirs, FileSystemNaming::Itself).unwrap();
        fs::write(at("CURRENT"), "MANIFEST-000004").unwrap();
        fs::write(at("000005.sst"), "data").unwrap();
        fs::create_dir(at("archive")).unwrap();
        let first = now();
        assert!(first.starts_with("3 files "), "{first}");
        for messages in ["LOG", "LOG.old.17", "LOCK", ".taillight-owner.json", "srv_db_LOG"] {
            fs::write(at(messages), "x").unwrap();
        }
        assert_eq!(now(), first);
        let mut seen = vec![first];
        let mut differs = |what: &str| {
            let now = now();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        let times = fs::metadata(at("000005.sst")).unwrap().modified().unwrap();
        fs::write(at("000005.sst"), "theirs").unwrap();
        differs("written over");
        fs::write(at("000005.sst"), "data").unwrap();
        let file = fs::OpenOptions::new().write(true).open(at("000005.sst")).unwrap();
        file.set_modified(times).unwrap();
        differs("the same size, times set back");
        fs::copy(at("CURRENT"), at("new")).unwrap();
        fs::rename(at("new"), at("CURRENT")).unwrap();
        differs("the same data in another file");
        fs::write(at("000006.sst"), "more").unwrap();
        differs("one file more");
        fs::write(at("archive/000001.log"), "more").unwrap();
        differs("one file more below");
        fs::write(logs.path().join("000007.log"), "more").unwrap();
        differs("one file more beside");
    }
}
