//! What the files of a database are, as one text: so that a mark names the database it was written for,
//! and not whatever is in its directory later.
//!
//! A store makes and deletes files as it likes, so that no list of them can be kept while a run goes on.
//! Once the database is closed they stand still: name (with the store's file number), inode, time of birth
//! and of change and size of each file say whether anybody has used, changed or replaced the database
//! since. What a killed run left has no such text: nobody can tell what was added to it later.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use taillight_core::{Result, StopFlag};

use super::files;
use super::sidecar::{ChangeEvidence, OwnedDirectory};
use super::{FileSystem, SIDECAR};
use crate::identity::FileIdentity;
use crate::path_error::cannot;

/// Directories in directories are followed this deep; no store goes further.
const DEEPEST: u32 = 4;
/// FNV-1a, 64 bits: where a hash starts.
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
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

/// The files below `dirs` as one text: how many, and a hash of 64 bits over the identities of all of them.
/// Left out is what holds no data and changes when a database is only looked at: locks, and a store's own
/// messages. Errors: `Unavailable` when something cannot be read.
pub fn fingerprint(dirs: &[PathBuf], naming: FileSystemNaming) -> Result<String> {
    fingerprint_each(dirs, naming, &mut |_| Ok(()))
}

/// Stands in a seal before what the files hold.
const HOLDING: &str = ", holding ";

/// The text of files that a mark is sealed with, and what they hold where times of change do not tell; none where
/// somebody is still writing, or nothing here tells of changes. As for a single file (`ownership::files`), all is
/// written back before. Errors: as [`fingerprint`].
pub fn seal(dirs: &[PathBuf], naming: FileSystemNaming) -> Result<Option<String>> {
    let opened = dirs.iter().filter(|dir| dir.exists());
    let evidence =
        opened.map(|dir| Ok(OwnedDirectory::open(dir, &StopFlag::default())?.evidence()));
    let by = evidence.collect::<Result<Vec<_>>>()?.into_iter().max();
    let write_back = &mut |file: &OwnedFd| files::write_back(file).map(drop);
    if by == Some(ChangeEvidence::None) {
        return Ok(None);
    }
    fingerprint_each(dirs, naming, write_back)?;
    let now = fingerprint(dirs, naming)?;
    let held = match by {
        Some(ChangeEvidence::Contents) => HOLDING.to_owned() + &held(dirs, naming)?,
        _ => String::new(),
    };
    let same = now == fingerprint_each(dirs, naming, write_back)?;
    Ok(same.then_some(now + &held))
}

/// Whether the files below `dirs` are those of a seal. Errors: as [`fingerprint`].
pub fn proves(seal: &str, dirs: &[PathBuf], naming: FileSystemNaming) -> Result<bool> {
    let (files, holding) = seal.split_once(HOLDING).unzip();
    let same = fingerprint(dirs, naming)? == files.unwrap_or(seal);
    Ok(same && holding.map_or(Ok(true), |holding| Ok(held(dirs, naming)? == holding))?)
}

/// What the files below `dirs` hold.
fn held(dirs: &[PathBuf], naming: FileSystemNaming) -> Result<String> {
    let mut data = FNV_START;
    fingerprint_each(dirs, naming, &mut |file| {
        data = digest(file, data)?;
        Ok(())
    })?;
    Ok(digest_hex(data))
}

/// What is done with each file that is looked at.
type EachFile<'a> = &'a mut dyn FnMut(&OwnedFd) -> io::Result<()>;

/// As [`fingerprint`], with each regular file opened.
fn fingerprint_each(
    dirs: &[PathBuf],
    naming: FileSystemNaming,
    each: EachFile<'_>,
) -> Result<String> {
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
                let mut look = Look { fs, naming, lines: &mut lines, each: &mut *each };
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

/// A hash of 64 bits of what an open file holds, which goes on from that of what came `before`. Errors: as pread(2).
pub fn digest(file: impl AsFd, before: u64) -> io::Result<u64> {
    let (mut hash, mut at, mut chunk) = (before, 0, vec![0; 1 << 20]);
    loop {
        let mut filled = 0;
        while filled < chunk.len() {
            match rustix::io::pread(&file, &mut chunk[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        // FNV-1a by words, each turned so that its upper bits reach the lower ones.
        for word in chunk[..filled].chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let word = u64::from_le_bytes(bytes);
            hash = (hash ^ word).wrapping_mul(FNV_PRIME).rotate_left(29);
        }
        at += filled as u64;
        if filled < chunk.len() {
            return Ok((hash ^ at).wrapping_mul(FNV_PRIME));
        }
    }
}

/// A digest as marks have it.
pub fn digest_hex(digest: u64) -> String {
    format!("{digest:016x}")
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
    each: EachFile<'a>,
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
            let stat = rustix::fs::statat(&fd, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode).is_file() {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                (self.each)(&openat(&fd, &name, flags, Mode::empty())?)?;
            }
            let is = FileIdentity::at(&fd, name.as_c_str())?;
            let path = below.join(name.to_string_lossy().as_ref());
            let shown = path.display();
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
    use crate::ownership::sys::write_mapped;
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

    /// A program has a file of the database mapped when it is sealed, and writes to the same page afterwards.
    #[test]
    fn what_is_written_through_a_mapping_breaks_the_seal() {
        for place in [&std::env::temp_dir(), Path::new("/dev/shm")] {
            let Ok(tmp) = tempfile::tempdir_in(place) else {
                eprintln!("skipped: a mapping breaks the seal: no {}", place.display());
                continue;
            };
            let dirs = [tmp.path().to_owned(), tmp.path().join("absent")];
            fs::create_dir(tmp.path().join("archive")).unwrap();
            let path = tmp.path().join("archive/000005.sst");
            fs::write(&path, [7; 100_000]).unwrap();
            let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let naming = FileSystemNaming::Itself;
            let sealed = write_mapped(&file, || Ok(seal(&dirs, naming).unwrap().unwrap())).unwrap();
            assert!(!proves(&sealed, &dirs, naming).unwrap(), "{sealed}");
            let sealed = seal(&dirs, naming).unwrap().unwrap();
            assert!(proves(&sealed, &dirs, naming).unwrap(), "{sealed}");
        }
    }

    #[test]
    fn contents_have_digests_of_their_own() {
        let of = |data: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), data).unwrap();
            digest(file.as_file(), FNV_START).unwrap()
        };
        let large = vec![0; (1 << 20) + 3];
        let mut other = large.clone();
        (other[7], other[15]) = (0x80, 0x80);
        let all = [&b""[..], b"\0", b"\0\0", b"a", &large, &other, &large[1..]].map(of);
        let apart: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(apart.len(), all.len());
    }

    #[test]
    fn a_database_is_told_from_its_successors() {
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
