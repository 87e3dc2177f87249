//! The directories outside a RocksDB database that its options name for its log (`wal_dir`) and its messages
//! (`db_log_dir`): refuses those that hold files of others, and finds the database's own logs there. In both RocksDB
//! deletes files by their names, whoever made them.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taillight_core::{Error, Result, StopFlag};

use super::options::{newest, said};
use crate::identity::FileIdentity;
use crate::kv::aside::is_aside;
use crate::kv::numbers::{KnownNumbers, StoreFile};
use crate::kv::room::LogElsewhere;
use crate::kv::{OutsideFile, OutsideFiles};
use crate::ownership::SIDECAR;
use crate::path_error::cannot;
use crate::patience;

/// A value of an OPTIONS file, where RocksDB puts a backslash before some characters (`EscapeOptionString`,
/// options/options_helper.cc).
fn unescaped(value: &str) -> String {
    let mut chars = value.chars();
    let next = || match chars.next()? {
        '\\' => chars.next(),
        plain => Some(plain),
    };
    std::iter::from_fn(next).collect()
}

/// Where the database in `dir` has its log: the `wal_dir` of its newest OPTIONS file, links resolved (perhaps `dir`
/// itself); empty where none is named or there. Errors: `Unavailable` when the file cannot be read.
pub fn log_dirs(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| cannot("cannot tell where the database has its log", dir, e);
    let text = newest(dir).map_err(failed)?.unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("wal_dir="));
    let real = lines.map(|path| std::fs::canonicalize(unescaped(path)));
    let there = real.filter(|r| !matches!(r, Err(e) if e.kind() == io::ErrorKind::NotFound));
    there.collect::<io::Result<_>>().map_err(failed)
}

/// RocksDB's options for its log and its messages.
const LOG_DIRS: [&str; 2] = ["wal_dir", "db_log_dir"];

/// Whether the options name a directory for logs or messages.
pub fn is_asked(strings: &[(&'static str, String)]) -> bool {
    LOG_DIRS.into_iter().any(|name| said(strings, name).is_some())
}

/// Where the log will be, if the options name a `wal_dir`, and how large it is taken to grow before its records are in
/// tables: one write buffer (`write_buffer_size`, include/rocksdb/options.h; 64 MiB where the options do not say it).
pub fn log(strings: &[(&'static str, String)]) -> Option<LogElsewhere> {
    let buffer = said(strings, "write_buffer_size").and_then(size);
    let dir = PathBuf::from(said(strings, "wal_dir")?);
    Some(LogElsewhere { dir, enough: buffer.unwrap_or(64 << 20) })
}

/// A size of an option string as RocksDB reads it: a number, and a letter for its power of 1024 (`ParseUint64`,
/// util/string_util.cc).
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, letter) = text.split_at(digits);
    let shift = match letter.chars().next().map(|c| c.to_ascii_lowercase()) {
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        _ => 0,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Named directories for logs or messages that are not there yet: RocksDB will make them.
pub fn absent_dirs(strings: &[(&'static str, String)]) -> Vec<PathBuf> {
    let asked = LOG_DIRS.into_iter().filter_map(|name| said(strings, name));
    let asked = asked.filter_map(|dir| std::path::absolute(dir).ok());
    asked.filter(|dir| dir.symlink_metadata().is_err()).collect()
}

/// An option string by which RocksDB, while it is open, does not look through its directories every 6 hours to delete
/// files that it does not know. Its own obsolete files it deletes all the same.
pub fn no_scans() -> (&'static str, String) {
    let never = "delete_obsolete_files_period_micros=9223372036854775807";
    ("directories outside", never.to_owned())
}

/// How long RocksDB may take to delete the logs that it does not need any more, and the pause between two looks.
const SETTLES: Duration = Duration::from_secs(1);
const LOOKS: Duration = Duration::from_millis(5);

/// The logs of the opened database in `dirs`: those that this process has open; and which of `dirs` the run has made
/// (`makes`). A log that this process still does not have open after a second may be that of a database that
/// somebody else has started there. Errors: `Target` naming such a log, `Unavailable`.
pub fn own_logs(dirs: Vec<PathBuf>, makes: &[PathBuf]) -> Result<OutsideFiles> {
    let mut unknown = None;
    let found = patience::wait(SETTLES, LOOKS, &StopFlag::default(), || {
        let looked = files_outside(&dirs, &mut unknown);
        looked.map(|files| unknown.is_none().then_some(files)).transpose()
    });
    match found {
        Some(files) => {
            let files = files?;
            let made = |dir: &PathBuf| {
                makes.iter().any(|it| std::fs::canonicalize(it).is_ok_and(|real| real == *dir))
            };
            let made = dirs.iter().filter(|dir| made(dir)).cloned().collect();
            Ok(OutsideFiles { dirs, made, files })
        }
        None => {
            let what = "logs in wal_dir may be those of another database: all of them stay";
            Err(Error::target(what)
                .with_some("one of them", unknown.as_deref().map(Path::display))
                .hint("delete what nobody needs; let no other database use the directory"))
        }
    }
}

fn files_outside(dirs: &[PathBuf], unknown: &mut Option<PathBuf>) -> Result<Vec<OutsideFile>> {
    let open = open_files().map_err(|e| {
        cannot("cannot tell which logs the database has open", Path::new("/proc/self/fd"), e)
    })?;
    *unknown = None;
    let mut own = Vec::new();
    let archives = dirs.iter().map(|dir| dir.join("archive"));
    for dir in dirs.iter().cloned().chain(archives) {
        let failed = |e| cannot("cannot list the directory", &dir, e);
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(failed(e)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().to_str().is_some_and(|name| name != "archive" && is_log(name)) {
                continue;
            }
            match FileIdentity::at(rustix::fs::CWD, entry.path().as_path()) {
                Ok(seen) if open.contains(&(seen.device, seen.inode)) => {
                    own.push(OutsideFile { path: entry.path(), seen });
                }
                Ok(_) => *unknown = Some(entry.path()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
    Ok(own)
}

/// Device and inode number of each file that this process has open.
fn open_files() -> io::Result<HashSet<(u64, u64)>> {
    let mut open = HashSet::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        // Other threads may close theirs meanwhile.
        if let Ok(file) = std::fs::metadata(entry?.path()) {
            open.insert((file.dev(), file.ino()));
        }
    }
    Ok(open)
}

/// RocksDB's options that lead it to places where the guard does not look.
const ELSEWHERE: [&str; 4] = ["env", "file_system", "db_paths", "cf_paths"];

/// Checks the directories outside the database in `dir` that the options name: RocksDB takes tables and logs in its
/// `wal_dir` and `db_log_dir` for its own, and deletes or replays them. Allowed are absent and empty ones, a `wal_dir`
/// with the database's own logs, a `db_log_dir` with nothing but messages of databases, and `dir` itself. Errors:
/// `Refused` for others, and for options of places that are not looked at; `Unavailable` for an absent one whose parent
/// is absent, or where a directory cannot be read.
pub fn fit_outside(strings: &[(&'static str, String)], dir: Option<&Path>) -> Result<()> {
    if let Some(name) = ELSEWHERE.into_iter().find(|name| said(strings, name).is_some()) {
        return Err(Error::refused(format!(
            "`{name}` lets RocksDB write where Taillight cannot see whose data is there"
        ))
        .with("option", name)
        .hint("leave it out, and name the directory of the database as path"));
    }
    let Some(dir) = dir else { return Ok(()) };
    let home = std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir));
    let home = home.map_err(|e| cannot("cannot resolve the path", dir, e))?;
    for name in LOG_DIRS {
        let Some(logs) = said(strings, name).map(Path::new) else { continue };
        let Ok(real) = std::fs::canonicalize(logs) else {
            absent(name, logs, &home)?;
            continue;
        };
        if real == home {
            continue;
        }
        let strange = match name {
            "wal_dir" => strange_log(&real, &home)?,
            _ => first(&real, |name| is_messages(name) || is_free(name))?,
        };
        let Some(strange) = strange else { continue };
        return Err(Error::refused(format!(
            "the log directory ({name}) is not empty, and not that of this database alone"
        ))
        .with(name, real.display())
        .with("path", dir.display())
        .with("not its own", strange.display())
        .hint(format!("name a new or empty one in target.options.options, or leave {name} out")));
    }
    Ok(())
}

/// Checks that RocksDB can make an absent log directory: it does not make the one above, and would fail only after a
/// database has given way. Errors: `Unavailable`.
fn absent(name: &'static str, logs: &Path, home: &Path) -> Result<()> {
    let above = std::path::absolute(logs).ok().and_then(|path| path.parent().map(Path::to_owned));
    match above.is_some_and(|above| above.is_dir() || above == home) {
        true if logs.symlink_metadata().is_err() => Ok(()),
        _ => Err(Error::unavailable(format!("the log directory ({name}) cannot be made"))
            .with(name, logs.display())
            .hint("make the directory first, or name one whose parent is there")),
    }
}

/// Something in the `wal_dir` that is not known to belong to the database in `home`: no log, one of a number that the
/// database has not given out, or one more than a second older than its IDENTITY file. Where `home` has no database
/// with its log there, whatever is in it.
fn strange_log(logs: &Path, home: &Path) -> Result<Option<PathBuf>> {
    let own = log_dirs(home)?.iter().any(|own| own == logs);
    let Some(known) = KnownNumbers::of(home).filter(|_| own) else {
        return first(logs, is_free);
    };
    let birth = |path: &Path| FileIdentity::at(rustix::fs::CWD, path).ok()?.birth_ns;
    let since = birth(&home.join("IDENTITY"));
    let fits = |dir: &Path, name: &str| match StoreFile::of("rocksdb", name) {
        Some(StoreFile::Log(number)) => {
            let both = birth(&dir.join(name)).zip(since);
            known.gave(number)
                && both.is_none_or(|(log, since)| log.saturating_add(SECOND) >= since)
        }
        _ => is_free(name),
    };
    let archive = logs.join(ARCHIVE);
    match first(logs, |name| name == ARCHIVE || fits(logs, name))? {
        None if archive.symlink_metadata().is_ok() => first(&archive, |name| fits(&archive, name)),
        strange => Ok(strange),
    }
}

/// Tolerance, ns: the files of a new database are made one after the other.
const SECOND: i64 = 1_000_000_000;

/// The directory of old logs.
const ARCHIVE: &str = "archive";

/// Whether a name is that of a mark, of `lost+found`, or of a directory with files that a run has set aside.
fn is_free(name: &str) -> bool {
    name == SIDECAR || name == "lost+found" || is_aside(name)
}

/// The path of an entry in a directory whose name does not fit.
fn first(dir: &Path, fits: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let failed = |e| cannot("cannot list the directory", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().to_str().is_some_and(&fits) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Whether a name is that of a write-ahead log, or of the directory of old ones.
fn is_log(name: &str) -> bool {
    let number = name.strip_suffix(".log").unwrap_or_default();
    name == "archive" || !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a name is that of a file of messages in a `db_log_dir`.
fn is_messages(name: &str) -> bool {
    name.ends_with("_LOG") || name.contains("_LOG.old.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::ErrorKind;

    #[test]
    fn sizes_are_read_as_rocksdb_reads_them() {
        let enough = |buffer: &str| {
            let text = format!("wal_dir=/l;write_buffer_size={buffer}");
            log(&[("options", text)]).unwrap().enough
        };
        for (text, bytes) in [("1G", 1 << 30), ("64m", 64 << 20), ("8K", 8192), ("4096", 4096)] {
            assert_eq!(enough(text), bytes, "{text}");
        }
    }

    #[test]
    fn the_log_is_where_the_options_file_says() {
        let (home, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let odd = log.path().join("a:b");
        std::fs::create_dir(&odd).unwrap();
        let text = format!("[DBOptions]\n  wal_dir={}/a\\:b\n", log.path().display());
        std::fs::write(home.path().join("OPTIONS-000007"), text).unwrap();
        assert_eq!(log_dirs(home.path()).unwrap(), [std::fs::canonicalize(odd).unwrap()]);
        assert!(log_dirs(log.path()).unwrap().is_empty());
    }

    #[test]
    fn directories_outside_with_files_of_others_are_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("db");
        let fit =
            |text: String| fit_outside(&[("options", text)], Some(&dir)).map_err(|e| e.kind());
        let at = |name: &str| tmp.path().join(name).display().to_string();
        std::fs::create_dir(at("theirs")).unwrap();
        for option in ["wal_dir", "db_log_dir"] {
            let ask = |place: &str| fit(format!("max_open_files=9;{option} = {{{place}}}"));
            assert_eq!(ask(&at("new")), Ok(()));
            assert_eq!(ask(&at("db/logs")), Ok(()));
            assert_eq!(ask(&at("theirs")), Ok(()), "empty");
            assert_eq!(ask(&at("no/such")), Err(ErrorKind::Unavailable));
            for file in ["000005.sst", "000006.log", "thesis.tex"] {
                std::fs::write(tmp.path().join("theirs").join(file), "mine").unwrap();
                assert_eq!(ask(&at("theirs")), Err(ErrorKind::Refused), "{file}");
                std::fs::remove_file(tmp.path().join("theirs").join(file)).unwrap();
            }
        }
        std::fs::write(at("theirs/srv_db_LOG.old.17"), "").unwrap();
        assert_eq!(fit(format!("db_log_dir={}", at("theirs"))), Ok(()));
        assert_eq!(fit(format!("wal_dir={}", at("theirs"))), Err(ErrorKind::Refused));
        for text in ["env=mem", "db_paths={{path=/x;target_size=1}}", "x=1;file_system={id=a}"] {
            assert_eq!(fit(text.to_owned()), Err(ErrorKind::Refused), "{text}");
        }
    }
}
