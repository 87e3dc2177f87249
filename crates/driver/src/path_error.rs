//! "Cannot do this to that path", with what to do about the usual causes: errors of system calls that
//! failed before a run. Also the free space of a directory, and the path of something that is not there
//! yet. Called by drivers and by `ownership`, which open or make files. Failed I/Os in the run are data
//! and have statuses instead.

use std::io;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};

/// The error of a call on `path` that failed.
pub fn cannot(what: &str, path: &Path, e: impl Into<io::Error>) -> Error {
    let e: io::Error = e.into();
    Error::unavailable(what).with("path", path.display()).hint_some(hint(&e, path)).source(e)
}

/// Bytes free for us in the file system that holds `dir`. Errors: `Unavailable`.
pub fn free_space(dir: &Path) -> Result<u64> {
    let fs = rustix::fs::statvfs(dir).map_err(|e| cannot("cannot ask for free space", dir, e))?;
    Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Where something that is not there yet would be: the real path of its directory, and its name.
/// Errors: `Usage` for a dangling symbolic link or a path that ends in no name, `Unavailable` without its directory.
pub fn resolve_absent(path: &Path) -> Result<PathBuf> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::usage("the target is a symbolic link to nothing")
            .with("path", path.display())
            .hint("name what it should lead to, or create that"));
    }
    let Some(name) = path.file_name() else {
        return Err(Error::usage("the target path ends in no name").with("path", path.display()));
    };
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = std::fs::canonicalize(parent).map_err(|e| {
        Error::unavailable("the directory that should hold the target is not there")
            .with("path", path.display())
            .source(e)
            .hint(format!("create it first: mkdir -p {}", parent.display()))
    })?;
    Ok(parent.join(name))
}

fn hint(e: &io::Error, path: &Path) -> Option<&'static str> {
    match e.raw_os_error() {
        // Too many open files has no kind of its own.
        Some(libc::EMFILE) => return Some("raise the limit of open files (ulimit -n)"),
        Some(libc::EFBIG) => {
            return Some(
                "raise the limit on the size of files (ulimit -f), or ask for a smaller size",
            );
        }
        Some(libc::ETXTBSY) => return Some("name a file that no program runs from"),
        _ => {}
    }
    Some(match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "this user may not: run as one who may, change the rights, or name another path"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is mounted read-only: mount it read-write, or name another path"
        }
        io::ErrorKind::StorageFull if has_no_inodes(path) => {
            "the file system has no inodes left: delete files there, or name another path"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or ask for a smaller size"
        }
        io::ErrorKind::NotFound => "it was there a moment ago: look who removes it, then try again",
        _ => return None,
    })
}

/// Whether the file system of a path, which need not exist, can hold no more files.
fn has_no_inodes(path: &Path) -> bool {
    let there = path.ancestors().find_map(|at| rustix::fs::statvfs(at).ok());
    // Some count none at all.
    there.is_some_and(|fs| fs.f_files > 0 && fs.f_favail == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_causes_say_what_to_do() {
        for (errno, word) in [
            (libc::EACCES, "rights"),
            (libc::EPERM, "rights"),
            (libc::EROFS, "read-only"),
            (libc::ENOSPC, "space"),
            (libc::EMFILE, "ulimit"),
            (libc::EFBIG, "ulimit -f"),
        ] {
            let e = cannot(
                "cannot open the file",
                Path::new("/x"),
                io::Error::from_raw_os_error(errno),
            );
            assert!(e.hint_text().is_some_and(|h| h.contains(word)), "{e}");
            assert!(e.to_string().contains("/x"), "{e}");
        }
    }
}
