//! Ownership marks: the record that data is Taillight's, and the rules that follow from it.
//!
//! A target that holds records (a database directory, a prefix of a bucket, the keys of a server) has one
//! [`OwnershipMark`], kept where its [`MarkStore`] puts it: in the sidecar of the directory, in an object, in a
//! key, in a record. A regular file has an entry in the sidecar of its directory ([`FileMark`]). What a mark allows
//! is decided in [`OwnershipMark::decide`]; the refusals are in [`refusal`]. Drivers ask before anything is created
//! or written, and when a run ends. Whether a target is in use is asked in `guard`, and of a database, by its lock,
//! in `kv::directory`.

pub mod content;
pub mod files;
pub mod node;
pub mod refusal;
pub mod sidecar;
mod sys;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result, StopFlag};

use crate::identity::FileIdentity;

/// Start of the names of files by which ranks see that they share a target.
pub const SHARED_MARKER: &str = ".taillight-shared-";

pub use files::{FileMark, MarkedFiles};
pub use node::{FileSystem, MarkedNode};
pub use refusal::NamedTarget;
pub use sidecar::{DirectoryIdentity, OwnedDirectory, SIDECAR};
pub(crate) use sys::lock_holder;

/// Where the mark of a target with records is kept. It moves bytes and decides nothing.
pub trait MarkStore {
    /// The mark; `None` when there is none. Errors: `Unavailable` when it cannot be read, `Corrupt`
    /// where the store tells that it is damaged.
    fn read(&self) -> Result<Option<Vec<u8>>>;

    /// Writes a mark where `read` found none. A store that can tell refuses when another run has
    /// written one since. Errors: `Refused` for the mark of another run, `Unavailable` when it
    /// cannot be written.
    fn create(&self, mark: &[u8]) -> Result<()>;

    /// Replaces the mark. Errors: `Unavailable` when it cannot be written.
    fn renew(&self, mark: &[u8]) -> Result<()>;

    /// Removes the mark; an absent one is no error. Errors: `Unavailable` when it cannot be
    /// removed.
    fn remove(&self) -> Result<()>;
}

/// "These records are Taillight's." `I` are the fields by which a mark is told from a copy of it
/// that came with the data to another place; they and all other names are fixed, since marks outlive
/// the program that wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnershipMark<I> {
    #[serde(flatten)]
    pub identity: I,
    /// The run that made the records.
    pub run_id: String,
    /// The run that wrote the mark last, where copies of a store are told apart by it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_run: String,
    /// The records stay after the run.
    pub keep: bool,
    /// Form of keys and values: records of another form are other records.
    pub form: String,
    /// Records known to be there, from the first key number on.
    pub records: u64,
}

/// What is at the target beside the mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    Empty,
    /// Only what a run could have written.
    Records,
    /// Something that no run wrote, perhaps with an example.
    Foreign(Option<String>),
}

/// What a run may do with what it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnershipDecision<I> {
    /// Nothing is there: begin.
    Create,
    /// The records of an earlier run stay, under its mark.
    Reuse(OwnershipMark<I>),
    /// What is there goes: a killed run left it, or the user gave it up.
    Wipe,
}

impl<I: Serialize + DeserializeOwned + Clone> OwnershipMark<I> {
    /// The mark of a run that has made nothing yet.
    pub fn new(identity: I, run_id: &str, keep: bool, form: String) -> OwnershipMark<I> {
        let (run_id, last_run) = (run_id.to_owned(), String::new());
        OwnershipMark { identity, run_id, last_run, keep, form, records: 0 }
    }

    /// Reads a mark. Errors: these bytes are none.
    pub fn parse(bytes: &[u8]) -> serde_json::Result<OwnershipMark<I>> {
        serde_json::from_slice(bytes)
    }

    /// The mark as it is stored. Errors: `Internal` when it cannot be JSON.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|e| Error::internal("the ownership mark is not JSON").source(e))
    }

    /// The mark that rank 0 of the run `run_id` has made or taken over, at a rank that shares its target. Errors:
    /// `Refused` where this one is another.
    pub fn of_run(found: Option<OwnershipMark<I>>, run_id: &str, target: &str) -> Result<Self> {
        let is = |mark: &OwnershipMark<I>| mark.run_id == run_id || mark.last_run == run_id;
        found.filter(is).ok_or_else(|| {
            Error::refused("the target is to be shared, and this host has another one of the same name")
                .with("target", target)
                .hint("name a server by an address that means the same on all hosts, or leave run.share out")
        })
    }

    /// The rules: what a run that would write the mark `wanted` may do where it found the mark
    /// `found` and `contents` beside it. Nothing that Taillight did not make is lost unless
    /// `confirmed`; kept records are reused or refused, never wiped, unless `confirmed`, whatever lies beside them.
    /// Records under a mark that does not keep them go. Errors: `Refused`, saying how to confirm.
    pub fn decide(
        wanted: &OwnershipMark<I>,
        found: Option<&OwnershipMark<I>>,
        contents: Contents,
        confirmed: bool,
        target: &NamedTarget,
    ) -> Result<OwnershipDecision<I>> {
        match (found, contents) {
            (Some(mark), _) if mark.keep && !confirmed => {
                if mark.form != wanted.form {
                    return Err(refusal::other_form(target, &mark.form, &wanted.form));
                }
                Ok(OwnershipDecision::Reuse(mark.clone()))
            }
            (None, Contents::Empty) => Ok(OwnershipDecision::Create),
            (_, Contents::Foreign(example)) => {
                refusal::foreign(confirmed, target, example.as_deref())?;
                Ok(OwnershipDecision::Wipe)
            }
            // Whatever they look like, without a mark they are somebody else's.
            (None, Contents::Records) => {
                refusal::foreign(confirmed, target, None)?;
                Ok(OwnershipDecision::Wipe)
            }
            (Some(_), Contents::Empty | Contents::Records) => Ok(OwnershipDecision::Wipe),
        }
    }
}

/// Whether a file has a mark, or a directory has one of its own or of a file in it; false where
/// that cannot be told.
pub fn is_marked(path: &Path, is: &FileIdentity) -> bool {
    let open = |path: &Path| OwnedDirectory::open(path, &StopFlag::default()).ok();
    let names = |dir: &OwnedDirectory, is: &FileIdentity, name: Option<&str>| {
        let marks = dir.marks().unwrap_or_default();
        marks.iter().any(|mark| match name {
            Some(name) => mark.name == name && mark.node.is(is, dir.filesystem()),
            None => dir.found(mark).is_ok_and(|found| found.is_some()),
        })
    };
    if let Some(dir) = Some(path).filter(|path| path.is_dir()).and_then(open) {
        let store = dir.database().ok().flatten();
        let store = store.is_some_and(|mark| mark.identity.node.is(is, dir.filesystem()));
        return store || names(&dir, is, None);
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let dir = path.parent().and_then(open);
    dir.zip(name).is_some_and(|(dir, name)| names(&dir, is, Some(name)))
}

/// The mark under which this run uses its target, in memory and shared by its threads. [`HeldMark::note`] writes it to
/// its store.
pub struct HeldMark<I> {
    mark: Mutex<OwnershipMark<I>>,
    /// The run deletes records, so that none are known to outlast it.
    forgets: bool,
}

impl<I: Serialize + DeserializeOwned + Clone> HeldMark<I> {
    /// `forgets`: the run deletes records, so that the mark that is written counts none.
    pub fn new(mark: OwnershipMark<I>, forgets: bool) -> HeldMark<I> {
        HeldMark { mark: Mutex::new(mark), forgets }
    }

    fn lock(&self) -> MutexGuard<'_, OwnershipMark<I>> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the identity in the mark, in memory: `note` writes it.
    pub fn identify(&self, change: impl FnOnce(&mut I)) {
        change(&mut self.lock().identity);
    }

    /// Records known to be there.
    pub fn records(&self) -> u64 {
        self.lock().records
    }

    /// The records stay after the run, whatever was asked; `note` writes it.
    pub fn keep(&self) {
        self.lock().keep = true;
    }

    /// Whether the records stay after the run.
    pub fn keeps(&self) -> bool {
        self.lock().keep
    }

    /// The run that wrote the mark last, where marks say it; else empty.
    pub fn last_run(&self) -> String {
        self.lock().last_run.clone()
    }

    /// The run that made the records.
    pub fn run_id(&self) -> String {
        self.lock().run_id.clone()
    }

    /// The mark as it should outlast the run, as it is stored: without a count of records where the run deletes some.
    /// Errors: `Internal` when it cannot be JSON.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let mut lasting = self.lock().clone();
        if self.forgets {
            lasting.records = 0;
        }
        lasting.bytes()
    }

    /// This mark with a count of no records, as it is stored; the one held here stays as it is. Errors: as
    /// [`HeldMark::bytes`].
    pub fn emptied(&self) -> Result<Vec<u8>> {
        let emptied = OwnershipMark { records: 0, ..self.lock().clone() };
        emptied.bytes()
    }

    /// Takes note of so many `records` and renews the mark in `store`, as [`HeldMark::bytes`] has it. Errors:
    /// `Unavailable` when the mark cannot be written.
    pub fn note(&self, store: &(impl MarkStore + ?Sized), records: u64) -> Result<()> {
        self.lock().records = records;
        store.renew(&self.bytes()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::ErrorKind;

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct ByName {
        name: String,
    }

    fn mark(keep: bool, form: &str) -> OwnershipMark<ByName> {
        let identity = ByName { name: "t".into() };
        OwnershipMark { records: 7, ..OwnershipMark::new(identity, "r1", keep, form.into()) }
    }

    #[test]
    fn what_a_mark_allows() {
        let target = NamedTarget::of("/t");
        let foreign = || Contents::Foreign(Some("thesis".into()));
        let decide = |found: Option<&OwnershipMark<ByName>>, contents, confirmed| {
            OwnershipMark::decide(&mark(false, "f"), found, contents, confirmed, &target)
        };
        let (kept, killed, other) = (mark(true, "f"), mark(false, "f"), mark(true, "g"));
        for (found, contents, confirmed, wanted) in [
            (None, Contents::Empty, false, OwnershipDecision::Create),
            (None, foreign(), true, OwnershipDecision::Wipe),
            (Some(&kept), Contents::Records, false, OwnershipDecision::Reuse(kept.clone())),
            (Some(&kept), foreign(), false, OwnershipDecision::Reuse(kept.clone())),
            (Some(&kept), Contents::Records, true, OwnershipDecision::Wipe),
            (Some(&killed), Contents::Records, false, OwnershipDecision::Wipe),
            (Some(&killed), foreign(), true, OwnershipDecision::Wipe),
            (Some(&other), Contents::Records, true, OwnershipDecision::Wipe),
        ] {
            assert_eq!(decide(found, contents.clone(), confirmed).unwrap(), wanted);
        }
        for (found, contents, says) in [
            (None, foreign(), "did not make"),
            (None, Contents::Records, "did not make"),
            (Some(&killed), foreign(), "did not make"),
            (Some(&other), Contents::Records, "another form"),
        ] {
            let e = decide(found, contents, false).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.message().contains(says), "{e}");
            assert!(e.hint_text().unwrap().contains("--destroy /t"));
        }
    }

    #[test]
    fn a_rank_joins_what_rank_0_of_its_run_has_marked() {
        let of = |found, run_id| OwnershipMark::of_run(found, run_id, "s");
        let taken_over = OwnershipMark { last_run: "r2".into(), ..mark(true, "f") };
        assert!(of(Some(mark(false, "f")), "r1").is_ok() && of(Some(taken_over), "r2").is_ok());
        for other in [None, Some(mark(true, "f"))] {
            assert_eq!(of(other, "r2").unwrap_err().kind(), ErrorKind::Refused);
        }
    }

    #[test]
    fn a_run_that_deletes_leaves_no_count_of_records() {
        let lasting = |forgets| {
            let held = HeldMark::new(mark(true, "f"), forgets);
            OwnershipMark::<ByName>::parse(&held.bytes().unwrap()).unwrap()
        };
        assert_eq!((lasting(false).records, lasting(true).records), (7, 0));
    }
}
