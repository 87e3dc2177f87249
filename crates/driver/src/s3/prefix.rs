//! The prefix: whose it is, the owner object that says so, and what goes in the end.
//!
//! As with a database directory, a prefix is Taillight's when its owner object names it. Foreign
//! objects need `destroy` and `--destroy`. What goes at the end are the names of the key numbers
//! that this run wrote, and nothing else.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use super::client::S3Client;
use super::location::PrefixLocation;
use super::naming::ObjectNaming;
use crate::contract::OpenSpec;
use crate::kv::rules;
use crate::ownership::{
    Contents, HeldMark, MarkStore, NamedTarget, OwnershipDecision, OwnershipMark, SIDECAR, refusal,
};

/// What tells the owner object of a prefix from a copy of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixIdentity {
    taillight_owner: u32,
    bucket: String,
    prefix: String,
}

/// The owner object.
type PrefixMark = OwnershipMark<PrefixIdentity>;

/// A prefix past the guard.
pub struct OwnedPrefix {
    mark: HeldMark<PrefixIdentity>,
    start: u64,
    /// One past the highest key number written; `start` when none is.
    written: AtomicU64,
}

/// What a prefix means for a run.
pub struct Decided {
    /// The owner object that is there.
    text: Option<Vec<u8>>,
    /// What the server calls itself.
    server: String,
    /// The mark that the run would write.
    mark: PrefixMark,
    decision: OwnershipDecision<PrefixIdentity>,
}

impl OwnedPrefix {
    /// Asks the guard and writes the owner object. `names`: of every workload. Errors: `Refused` by
    /// the guard, `Unavailable` when the store refuses.
    pub fn take(
        store: &S3Client,
        spec: &OpenSpec<'_>,
        names: &[ObjectNaming],
    ) -> Result<(OwnedPrefix, String)> {
        let Decided { text: before, server, mut mark, decision } =
            OwnedPrefix::decide(store, spec, names)?;
        let goes = match decision {
            OwnershipDecision::Reuse(kept) => {
                mark = kept;
                false
            }
            OwnershipDecision::Create | OwnershipDecision::Wipe => true,
        };
        spec.run_id.clone_into(&mut mark.last_run);
        let keys = spec.plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        let start = keys.map(|k| k.start).min().unwrap_or(0);
        let owned = OwnedPrefix {
            mark: HeldMark::new(mark, rules::changes(spec.plan).1),
            start,
            written: AtomicU64::new(start),
        };
        let text = owned.mark.bytes()?;
        store.create(&text)?;
        let agreed = store.check_same_store(&owner(store), &text);
        // What a killed run left, or the user gave up, goes once it is known to be the one store.
        agreed
            .and_then(|()| if goes { wipe(store) } else { Ok(()) })
            .map_err(|e| undo(store, before.as_deref(), e))?;
        Ok((owned, server))
    }

    /// Looks at the prefix and asks the guard; nothing is changed. Errors: as [`OwnedPrefix::take`].
    pub fn decide(
        store: &S3Client,
        spec: &OpenSpec<'_>,
        names: &[ObjectNaming],
    ) -> Result<Decided> {
        let target = &spec.plan.target;
        let named =
            NamedTarget { instead: "another prefix", ..NamedTarget::of(store.location.shown()) };
        let same = |name: &str| {
            let more = &store.options.endpoints;
            PrefixLocation::parse(Some(name), more).is_ok_and(|p| p == store.location)
        };
        let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
        let (found, server) = look(store, names)?;
        store.check_endpoints()?;
        let form = rules::form(spec.plan);
        let mark = PrefixMark::new(identity(store), spec.run_id, store.options.keep, form);
        let before = found.mark.as_ref();
        let decision = PrefixMark::decide(&mark, before, found.contents, confirmed, &named)?;
        Ok(Decided { text: found.text, server, mark, decision })
    }

    /// Records known to be there.
    pub fn records(&self) -> u64 {
        self.mark.records()
    }

    /// A key number is about to be written.
    #[inline]
    pub fn writes(&self, key: u64) {
        if self.written.load(Ordering::Relaxed) <= key {
            self.written.fetch_max(key + 1, Ordering::Relaxed);
        }
    }

    /// Takes note of `records`. Errors: `Unavailable` when the owner object cannot be written.
    pub fn note(&self, store: &S3Client, records: u64) -> Result<()> {
        self.mark.note(store, records)
    }

    /// Deletes the records written so far, by every naming. Errors: `Unavailable` when one stays.
    pub fn purge(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<()> {
        // Records of earlier runs are ours as well: the mark vouches for them.
        let end = self.written.load(Ordering::Relaxed);
        let end = end.max(self.start.saturating_add(self.records()));
        let mut batch: Vec<String> = Vec::with_capacity(1000);
        let mut name = Vec::new();
        for naming in names {
            for key in self.start..end {
                naming.write(key, &mut name);
                batch.push(String::from_utf8_lossy(&name).into_owned());
                if batch.len() == 1000 {
                    store.delete(&batch)?;
                    batch.clear();
                }
            }
        }
        store.delete(&batch)?;
        self.written.store(self.start, Ordering::Relaxed);
        Ok(())
    }

    /// At the end: deletes what goes, then the mark. Errors: `Unavailable` when something cannot be
    /// removed.
    pub fn leave(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<()> {
        if self.mark.keeps() {
            return Ok(());
        }
        store.settle()?;
        let shown = store.location.shown();
        self.purge(store, names)
            .map_err(|e| e.with("leftovers", format!("objects under {shown}")))?;
        MarkStore::remove(store)
            .map_err(|e| e.with("leftovers", format!("only the owner mark {shown}{SIDECAR}")))
    }
}

/// An owner object is an object like others: no compatible store can be relied on to make it only
/// where there is none, so that two runs that begin at the same moment are told apart by `last_run`.
impl MarkStore for S3Client {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.get(&owner(self))?.map(String::into_bytes))
    }
    fn create(&self, mark: &[u8]) -> Result<()> {
        self.put(&owner(self), mark)
    }
    fn renew(&self, mark: &[u8]) -> Result<()> {
        self.put(&owner(self), mark)
    }
    fn remove(&self) -> Result<()> {
        self.delete(&[owner(self)])
    }
}

fn identity(store: &S3Client) -> PrefixIdentity {
    PrefixIdentity {
        taillight_owner: 1,
        bucket: store.location.bucket.clone(),
        prefix: store.location.prefix.clone(),
    }
}

fn owner(store: &S3Client) -> String {
    format!("{}{SIDECAR}", store.location.prefix)
}

/// Puts the owner object back as it was, since the prefix was not taken after all.
fn undo(store: &S3Client, before: Option<&[u8]>, why: Error) -> Error {
    let undone = store.settle().and_then(|()| match before {
        Some(text) => store.renew(text),
        None => MarkStore::remove(store),
    });
    match undone {
        Ok(()) => why,
        Err(_) => {
            why.with("leftovers", format!("the owner mark {}{SIDECAR}", store.location.shown()))
        }
    }
}

/// What is under the prefix.
struct PrefixContents {
    mark: Option<PrefixMark>,
    /// The owner object, whoever wrote it.
    text: Option<Vec<u8>>,
    contents: Contents,
}

fn look(store: &S3Client, names: &[ObjectNaming]) -> Result<(PrefixContents, String)> {
    let owner = owner(store);
    let (mut contents, mut marked) = (Contents::Empty, false);
    let server = store.list(&mut |page| {
        for name in page {
            if name == owner {
                marked = true;
            } else if !names.iter().any(|n| n.could_be(&name)) {
                contents = Contents::Foreign(Some(name));
                return Ok(false);
            } else {
                contents = Contents::Records;
            }
        }
        Ok(true)
    })?;
    // A list may be behind, or have ended early: the mark itself decides.
    let text = match (marked, &contents) {
        (false, Contents::Empty) => None,
        _ => store.read()?,
    };
    let mark = text.as_deref().and_then(|text| PrefixMark::parse(text).ok());
    let mark = mark.filter(|mark| {
        let (is, here) = (&mark.identity, identity(store));
        is.bucket == here.bucket && is.prefix == here.prefix
    });
    if mark.is_none() && marked && contents == Contents::Empty {
        contents = Contents::Foreign(Some(owner));
    }
    Ok((PrefixContents { mark, text, contents }, server))
}

/// Deletes everything under the prefix but the owner mark; only after the guard has passed.
fn wipe(store: &S3Client) -> Result<()> {
    let mut all = Vec::new();
    let owner = owner(store);
    store.list(&mut |page| {
        all.extend(page.into_iter().filter(|name| *name != owner));
        Ok(true)
    })?;
    store.delete(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_earlier_versions_are_read() {
        let text = br#"{"taillight_owner":1,"bucket":"bench","prefix":"p/","run_id":"r1","last_run":"r2","keep":true,"form":"keys hashed","records":5}"#;
        let mark = PrefixMark::parse(text).unwrap();
        assert_eq!((mark.keep, mark.records, mark.last_run.as_str()), (true, 5, "r2"));
        assert_eq!(mark.bytes().unwrap(), text);
        let older = br#"{"taillight_owner":1,"bucket":"bench","prefix":"p/","run_id":"r1","keep":false,"form":"f","records":0}"#;
        assert!(PrefixMark::parse(older).unwrap().last_run.is_empty());
    }
}
