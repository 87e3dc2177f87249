//! Directories outside the database that RocksDB's options name: where it writes, and deletes, beside its own.

use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

use super::options::{newest, said};
use crate::kv::directory::is_empty;
use crate::path_error::cannot;

fn real(path: &str) -> Option<PathBuf> {
    std::fs::canonicalize(path).ok()
}

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

/// Where the database in `dir` has its log.
pub fn log_dirs(dir: &Path) -> Vec<PathBuf> {
    let text = newest(dir).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("wal_dir="));
    lines.filter_map(|path| real(&unescaped(path))).collect()
}

/// RocksDB's options that lead it to other places, where the guard cannot look. Those of its own two log
/// directories are looked at.
const ELSEWHERE: [&str; 4] = ["env", "file_system", "db_paths", "cf_paths"];

/// Refuses directories outside the database in `dir` with something in them that RocksDB would delete or
/// replay: it takes every table and log in its `wal_dir` and `db_log_dir` for its own. Allowed are new and
/// empty ones, the database's own logs, and a `db_log_dir` with nothing but messages of databases. Also
/// refuses what would have to be made in a directory that is not there. Errors: `Refused`, `Unavailable`.
pub fn fit_outside(strings: &[(&'static str, String)], dir: Option<&str>) -> Result<()> {
    if let Some(name) = ELSEWHERE.into_iter().find(|name| said(strings, name).is_some()) {
        return Err(Error::refused(format!(
            "`{name}` lets RocksDB write where Taillight cannot see whose data is there"
        ))
        .with("option", name)
        .hint("leave it out, and name the directory of the database as path"));
    }
    let Some(dir) = dir.map(Path::new) else { return Ok(()) };
    let home = std::fs::canonicalize(dir).or_else(|_| std::path::absolute(dir));
    let home = home.map_err(|e| cannot("cannot resolve the path", dir, e))?;
    for name in ["wal_dir", "db_log_dir"] {
        let Some(logs) = said(strings, name).map(Path::new) else { continue };
        let Ok(real) = std::fs::canonicalize(logs) else {
            absent(name, logs, &home)?;
            continue;
        };
        let own = match name {
            "wal_dir" => log_dirs(&home).contains(&real) && only(&real, is_log)?,
            _ => only(&real, is_messages)?,
        };
        if real == home || is_empty(&real)? || own {
            continue;
        }
        return Err(Error::refused(format!(
            "the log directory ({name}) is not empty, and not that of this database alone"
        ))
        .with(name, real.display())
        .with("path", dir.display())
        .hint(format!("name a new or empty one in target.options.options, or leave {name} out")));
    }
    Ok(())
}

/// A log directory that is not there: RocksDB makes it, but not the one above, and says so only after a
/// database has been given up for it.
fn absent(name: &'static str, logs: &Path, home: &Path) -> Result<()> {
    let above = std::path::absolute(logs).ok().and_then(|path| path.parent().map(Path::to_owned));
    match above.is_some_and(|above| above.is_dir() || above == home) {
        true if logs.symlink_metadata().is_err() => Ok(()),
        _ => Err(Error::unavailable(format!("the log directory ({name}) cannot be made"))
            .with(name, logs.display())
            .hint("make the directory first, or name one whose parent is there")),
    }
}

/// Whether a directory has only files with such names.
fn only(dir: &Path, fits: fn(&str) -> bool) -> Result<bool> {
    let failed = |e| cannot("cannot list the directory", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        if !entry.map_err(failed)?.file_name().to_str().is_some_and(fits) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A write-ahead log, or the directory of old ones.
fn is_log(name: &str) -> bool {
    let number = name.strip_suffix(".log").unwrap_or_default();
    name == "archive" || !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// What a database says of itself in its `db_log_dir`.
fn is_messages(name: &str) -> bool {
    name.ends_with("_LOG") || name.contains("_LOG.old.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::ErrorKind;

    #[test]
    fn the_log_is_where_the_options_file_says() {
        let (home, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let odd = log.path().join("a:b");
        std::fs::create_dir(&odd).unwrap();
        let text = format!("[DBOptions]\n  wal_dir={}/a\\:b\n", log.path().display());
        std::fs::write(home.path().join("OPTIONS-000007"), text).unwrap();
        assert_eq!(log_dirs(home.path()), [std::fs::canonicalize(odd).unwrap()]);
        assert!(log_dirs(log.path()).is_empty());
    }

    #[test]
    fn directories_outside_are_new_empty_or_its_own() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("db");
        let fit =
            |text: String| fit_outside(&[("options", text)], dir.to_str()).map_err(|e| e.kind());
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
