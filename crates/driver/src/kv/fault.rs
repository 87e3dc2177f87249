//! What an embedded store says when a call fails; its text gives the status of a record, or an error with a hint.

use rustix::io::Errno;
use taillight_core::{Error, Status};

/// The text in which a store says why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError(pub String);

/// System errors by the texts of stores (strerror; SQLite's for a lock): a full disk is told from a broken store.
const SPELLED: [(&str, Errno); 9] = [
    ("No space left on device", Errno::NOSPC),
    ("Disk quota exceeded", Errno::DQUOT),
    ("File too large", Errno::FBIG),
    ("Read-only file system", Errno::ROFS),
    ("Too many open files", Errno::MFILE),
    ("Permission denied", Errno::ACCESS),
    ("Input/output error", Errno::IO),
    ("Cannot allocate memory", Errno::NOMEM),
    ("database is locked", Errno::BUSY),
];

/// What the text begins with when the store has no such call.
const UNSUPPORTED: &str = "the store has no ";

/// What the text begins with when the store was not asked.
const NOT_ASKED: &str = "refused without asking the store, which had said: ";

impl StoreError {
    /// Of a write that the driver does not give to the store, which has answered an earlier write with `said`.
    pub fn not_asked(said: &str) -> StoreError {
        StoreError(format!("{NOT_ASKED}{said}"))
    }

    /// Of a call that the store does not have.
    pub fn unsupported(what: &str) -> StoreError {
        StoreError(format!("{UNSUPPORTED}{what}"))
    }

    /// Status of the record: the errno of the first known text in it, else `STORE`; `REFUSED` of [`Self::not_asked`].
    pub fn status(&self) -> Status {
        if self.0.starts_with(NOT_ASKED) {
            return Status::REFUSED;
        }
        let known = SPELLED.iter().find(|(text, _)| self.0.contains(text));
        known.map_or(Status::STORE, |(_, errno)| Status(errno.raw_os_error()))
    }

    /// The error of a call that failed `what` ("to flush"): `Unavailable` of [`Self::unsupported`], else `Target`.
    pub fn into_error(self, what: &str) -> Error {
        if self.0.starts_with(UNSUPPORTED) {
            return Error::unavailable(self.0);
        }
        Error::target(format!("the store failed {what}")).with("store says", self.0)
    }

    /// The error (`Unavailable`) of a database in `dir` that cannot be opened, with cause and hint by the text.
    pub fn on_open(self, dir: &std::path::Path) -> Error {
        let (what, hint) = self.cause();
        Error::unavailable(what).with("path", dir.display()).with("store says", &self.0).hint(hint)
    }

    /// Cause and hint.
    fn cause(&self) -> (&'static str, &'static str) {
        let says = |text: &str| self.0.contains(text);
        if says("lock hold by current process")
            || says("already held by process")
            || says("/LOCK: Resource temporarily unavailable")
            || says("database is locked")
        {
            return (
                "the database is in use by another process",
                "end what uses it, or choose another path",
            );
        }
        let manifest = says("MANIFEST-") && says("No such file or directory");
        if says("Corruption")
            || says("CURRENT file does not end")
            || says("missing files")
            || says("file is not a database")
            || says("disk image is malformed")
            || manifest
        {
            return (
                "the database is corrupt",
                "repair it with the store's own tools, or delete it and load again",
            );
        }
        if says("Permission denied") {
            return (
                "no right to use the database",
                "choose a path of your own, or become its owner",
            );
        }
        if says("No space left") {
            return ("no space left for the database", "free some, or choose another path");
        }
        if says("use_direct") || says("O_DIRECT") || says("Direct I/O") {
            return (
                "direct I/O is not possible here",
                "set options.direct_reads = false and options.direct_writes = false",
            );
        }
        if says("Invalid argument") || says("Not implemented") || says("not supported") {
            return (
                "the store does not accept the options",
                "correct what it names under [target.options]; `taillight drivers` lists ours, \
                 and the store's own documents list the others",
            );
        }
        ("the database cannot be opened", "see what the store says")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_broken_store() {
        let full = StoreError("IO error: No space left on device: While appending".into());
        assert_eq!(full.status(), Status(Errno::NOSPC.raw_os_error()));
        assert_eq!(StoreError("Busy".into()).status(), Status::STORE);
        assert_eq!(StoreError::not_asked(&full.0).status(), Status::REFUSED);
    }

    #[test]
    fn reasons_for_not_opening() {
        let dir = std::path::Path::new("/d");
        for (says, what) in [
            ("IO error: lock /d/LOCK: already held by process", "in use"),
            ("IO error: While lock file: /d/LOCK: Resource temporarily unavailable", "in use"),
            ("Corruption: no meta-nextfile entry in descriptor", "corrupt"),
            (
                "IO error: No such file or directory: While opening a file for sequentially \
                 reading: /d/MANIFEST-000005: No such file or directory",
                "corrupt",
            ),
            ("Invalid argument: Could not find option: : nope", "options"),
            ("whatever", "cannot be opened"),
        ] {
            let e = StoreError(says.to_owned()).on_open(dir);
            assert!(e.message().contains(what), "{says}: {e}");
            assert!(e.to_string().contains(says) && e.hint_text().is_some());
        }
    }
}
