//! "Cannot do this to that path", with what to do about the usual causes.
//!
//! What it is: the one wording of failed system calls before a run. What it is not: statuses of
//! I/Os in the run, which are data. Called by drivers and by `ownership`, which open or make files.

use std::io;
use std::path::Path;

use taillight_core::Error;

/// The error of a call on `path` that failed.
pub fn cannot(what: &str, path: &Path, e: impl Into<io::Error>) -> Error {
    let e: io::Error = e.into();
    let hint = hint(&e);
    let error = Error::unavailable(what).with("path", path.display()).source(e);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn hint(e: &io::Error) -> Option<&'static str> {
    match e.raw_os_error() {
        // Too many open files has no kind of its own.
        Some(libc::EMFILE) => return Some("raise the limit of open files (ulimit -n)"),
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
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space there, or ask for a smaller size"
        }
        io::ErrorKind::NotFound => "it was there a moment ago: look who removes it, then try again",
        _ => return None,
    })
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
