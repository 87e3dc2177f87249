//! What the files of a database are, as one text: so that a mark names the database it was written for,
//! and not whatever is in its directory later.
//!
//! A store makes and deletes files as it likes, so that no list of them can be kept while a run goes on.
//! Once the database is closed they stand still: name (with the store's file number), inode, time of birth
//! and of change and size of each say whether anybody has used, changed or replaced the database since.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use taillight_core::Result;

use super::SIDECAR;
use crate::identity::FileIdentity;
use crate::path_error::cannot;

/// Directories in directories are followed this deep; no store goes further.
const DEEPEST: u32 = 4;
/// FNV-1a, 64 bits.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The files below `dirs` as one text, which another set of files does not have. Left out is what holds no
/// data and changes when a database is only looked at: locks, and a store's own messages. Errors:
/// `Unavailable` when something cannot be read.
pub fn fingerprint(dirs: &[PathBuf]) -> Result<String> {
    let mut lines = Vec::new();
    for dir in dirs {
        let failed = |e: io::Error| cannot("cannot look at the files of the database", dir, e);
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = rustix::fs::open(dir, flags, Mode::empty());
        match opened {
            Ok(fd) => look(fd, Path::new(""), DEEPEST, &mut lines).map_err(failed)?,
            // Stores delete a directory of logs with the last of them.
            Err(rustix::io::Errno::NOENT) => {}
            Err(e) => return Err(failed(e.into())),
        }
        lines.push(String::new());
    }
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    let hash = lines.iter().flat_map(|line| line.bytes().chain([b'\n'])).fold(FNV_START, fnv);
    Ok(format!("{} files {hash:016x}", lines.len() - dirs.len()))
}

fn look(fd: OwnedFd, below: &Path, deepest: u32, lines: &mut Vec<String>) -> io::Result<()> {
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
            lines.push(format!("{shown} {is:?}"));
            continue;
        }
        // Its times change with what is in it.
        lines.push(format!("{shown} {} {:?}", is.inode, is.birth_ns));
        if let Some(deeper) = deepest.checked_sub(1) {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
            look(openat(&fd, &name, flags, Mode::empty())?, &path, deeper, lines)?;
        }
    }
    Ok(())
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
    fn a_database_is_told_from_every_successor() {
        let (tmp, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| tmp.path().join(name);
        let dirs = [tmp.path().to_owned(), logs.path().to_owned()];
        let now = || fingerprint(&dirs).unwrap();
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
