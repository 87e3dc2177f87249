//! The prefix: whose it is, the owner object that says so, and what goes in the end.
//!
//! As with a database directory, a prefix is Taillight's when its owner object names it. Foreign
//! objects need `destroy` and `--destroy`. Every object names its run as its maker, in its metadata. Before the run
//! goes what a killed run has left, or the user has given up; at its end, unless it is kept, objects named by the key
//! numbers that this run wrote or its mark counts, if they have the tag that the store gave for a put, or a HEAD
//! tells that the run made them (where the store keeps no metadata: by their size). What others made stays. Prefixes
//! inside each other clash.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::{Error, Result};

use super::client::{ListedObject, ObjectHead, S3Client};
use super::location::PrefixLocation;
use super::lost;
use super::naming::ObjectNaming;
use super::request::S3Request;
use super::tags::{self, PutTags};
use crate::contract::OpenSpec;
use crate::kv::rules;
use crate::kv::written::{ForeignRecords, WrittenKeys};
use crate::ownership::{
    Contents, HeldMark, MarkStore, NamedTarget, OwnershipDecision, OwnershipMark, SIDECAR, refusal,
};
use crate::trial;

/// What tells the owner object of a prefix from a copy of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixIdentity {
    taillight_owner: u32,
    bucket: String,
    prefix: String,
    /// Objects name the run as their maker. Earlier versions wrote some that do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    named: bool,
}

/// Objects asked about together.
const BATCH: usize = 8192;

/// The owner object.
type PrefixMark = OwnershipMark<PrefixIdentity>;

/// A prefix past the guard.
pub struct OwnedPrefix {
    mark: HeldMark<PrefixIdentity>,
    /// Objects of an earlier version are there, which name no maker.
    unnamed: bool,
    pub written: WrittenKeys,
    /// Another rank of the run, rank 0, has made the prefix ready.
    pub joined: bool,
    /// By workload.
    pub tags: Vec<PutTags>,
}

/// What a prefix means for a run.
pub struct PrefixDecision {
    /// The owner object that is there.
    text: Option<Vec<u8>>,
    /// What the server calls itself.
    server: String,
    /// The mark that the run would write.
    mark: PrefixMark,
    decision: OwnershipDecision<PrefixIdentity>,
    /// Objects that go: those that were seen, and none that appear later.
    goes: Vec<ListedObject>,
    /// The killed run that made them.
    killed: Option<String>,
    /// Whatever is under the prefix may go.
    confirmed: bool,
}

impl OwnedPrefix {
    /// Asks the guard and writes the owner object. `names`: of every workload. The prefix, what the server calls
    /// itself, and what became of uploads that were unfinished. Errors: `Refused` by the guard, `Unavailable` when the
    /// store refuses; what goes may be deleted in part then, which the error says.
    pub fn take(
        store: &S3Client,
        spec: &OpenSpec<'_>,
        names: &[ObjectNaming],
    ) -> Result<(OwnedPrefix, String, Option<String>)> {
        if spec.joins() {
            return OwnedPrefix::join(store, spec);
        }
        let PrefixDecision { text: before, server, mut mark, decision, goes, killed, confirmed } =
            OwnedPrefix::decide(store, spec, names)?;
        if let OwnershipDecision::Reuse(kept) = decision {
            mark = kept;
        }
        if !goes.is_empty() {
            trial::workers(spec.plan)?;
            trial::connections(spec.plan)?;
        }
        spec.run_id.clone_into(&mut mark.last_run);
        let unnamed = !mark.identity.named;
        store.maker.get_or_init(|| mark.run_id.clone());
        // Killed before it has cleared the prefix, this run leaves what the one before did.
        let first = killed.map(|run_id| PrefixMark { run_id, ..mark.clone() });
        let owned = OwnedPrefix {
            mark: HeldMark::new(mark, rules::changes(spec.plan).1),
            unnamed,
            written: WrittenKeys::of(spec.plan),
            joined: false,
            tags: spec.plan.workloads.iter().map(PutTags::of).collect(),
        };
        let text = owned.mark.bytes()?;
        let begun = first.as_ref().map_or_else(|| Ok(text.clone()), PrefixMark::bytes)?;
        store.create(&begun)?;
        let agreed = store.check_same_store(&owner(store), &begun);
        agreed.map_err(|e| undo(store, before.as_deref(), e))?;
        // What a killed run left, or the user gave up, goes once it is known to be the one store.
        let replaces = first.is_some() || confirmed;
        store
            .delete(&goes)
            .and_then(|_| first.map_or(Ok(()), |_| store.renew(&text)))
            .map_err(|e| in_part(store, before.as_deref(), goes.len(), e))?;
        let ours = |name: &str| confirmed || names.iter().any(|naming| naming.could_be(name));
        let unfinished = replaces.then(|| match lost::abort_unfinished(store, ours) {
            Some(aborted) => format!("{aborted} aborted"),
            None => "unknown: the store does not list them".to_owned(),
        });
        Ok((owned, server, unfinished.filter(|what| what != "0 aborted")))
    }

    /// Beside rank 0, which has made the prefix ready: objects name the run that its owner object names. Errors: `Refused`
    /// where this is another store.
    fn join(
        store: &S3Client,
        spec: &OpenSpec<'_>,
    ) -> Result<(OwnedPrefix, String, Option<String>)> {
        let server = store.list(&mut |_| Ok(false))?;
        let found = store.read()?.and_then(|text| PrefixMark::parse(&text).ok());
        let mark = PrefixMark::of_run(found, spec.run_id, &store.location.to_text())?;
        store.maker.get_or_init(|| mark.run_id.clone());
        let owned = OwnedPrefix {
            unnamed: !mark.identity.named,
            mark: HeldMark::new(mark, false),
            written: WrittenKeys::of(spec.plan),
            joined: true,
            tags: spec.plan.workloads.iter().map(PutTags::of).collect(),
        };
        Ok((owned, server, None))
    }

    /// Looks at the prefix and asks the guard; nothing is changed. Errors: as [`OwnedPrefix::take`].
    pub fn decide(
        store: &S3Client,
        spec: &OpenSpec<'_>,
        names: &[ObjectNaming],
    ) -> Result<PrefixDecision> {
        let target = &spec.plan.target;
        let named =
            NamedTarget { instead: "another prefix", ..NamedTarget::of(store.location.to_text()) };
        let same = |name: &str| {
            let more = &store.options.endpoints;
            PrefixLocation::parse(Some(name), more).is_ok_and(|p| p == store.location)
        };
        let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
        check_outer(store)?;
        let (found, server) = inspect_prefix(store, names)?;
        store.check_endpoints()?;
        if let (Some(inner), false) = (&found.inner, confirmed) {
            let what = "another run's prefix lies inside this one";
            return Err(clash(store, what, inner).hint(named.way_out()));
        }
        let (mut contents, mut goes, mut made_by) = (found.contents, Vec::new(), None);
        let before = found.mark.as_ref();
        let form = rules::form(spec.plan);
        let kept = before.filter(|mark| mark.keep && mark.form == form && !confirmed);
        if let Some(kept) = kept.filter(|_| rules::changes(spec.plan).0)
            && let Some(name) = replaced(store, kept, spec.plan, names, &found.objects)?
        {
            refusal::foreign(confirmed, &named, Some(&name))?;
        }
        if confirmed {
            goes = found.objects;
        } else if let Some(killed) = before.filter(|mark| !mark.keep) {
            match left_by(store, killed, &found.objects)? {
                Ok(left) => {
                    (contents, goes) = (Contents::Records, left);
                    made_by = Some(killed.run_id.clone());
                }
                Err(foreign) => contents = Contents::Foreign(Some(foreign)),
            }
        }
        let mark = PrefixMark::new(identity(store), spec.run_id, store.options.keep, form);
        let decision = PrefixMark::decide(&mark, before, contents, confirmed, &named)?;
        let text = found.text;
        Ok(PrefixDecision { text, server, mark, decision, goes, killed: made_by, confirmed })
    }

    /// Records known to be there.
    pub fn records(&self) -> u64 {
        self.mark.records()
    }

    /// Takes note of `records`. Errors: `Unavailable` when the owner object cannot be written.
    pub fn note(&self, store: &S3Client, records: u64) -> Result<()> {
        if self.joined {
            return Ok(());
        }
        self.mark.note(store, records)
    }

    /// Deletes the records written so far, by every naming; those under the same names that are another's
    /// stay. Errors: `Unavailable` when one of the run's stays.
    fn purge(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<ForeignRecords> {
        let mut foreign = ForeignRecords::default();
        let numbers = self.written.range(self.records());
        if !numbers.is_empty() {
            let mut there = HashMap::new();
            store.list(&mut |page| {
                let records =
                    page.into_iter().filter(|o| names.iter().any(|n| n.could_be(&o.name)));
                there.extend(records.map(|object| (object.name, object.etag)));
                Ok(true)
            })?;
            let (mut goes, mut asked) = self.known(names, numbers, &mut there);
            self.ask(store, &mut asked, &mut goes, &mut foreign)?;
            store.delete(&goes)?.iter().for_each(|name| foreign.note(name.as_bytes()));
        }
        self.written.clear();
        Ok(foreign)
    }

    /// Takes the objects out of `there` that have names which the run has written: those with the tag of a
    /// put, which go, and the others, to be asked about. Records of earlier runs are ours as well: the mark
    /// vouches for them. What is kept is what is there, however many numbers there are.
    fn known(
        &self,
        names: &[ObjectNaming],
        numbers: Range<u64>,
        there: &mut HashMap<String, String>,
    ) -> (Vec<ListedObject>, Vec<ListedObject>) {
        let (mut goes, mut asked) = (Vec::new(), Vec::new());
        let mut one = |key| {
            for naming in names {
                let Some((name, etag)) = there.remove_entry(naming.name(key).as_str()) else {
                    continue;
                };
                let tag = tags::hash(&etag);
                // Workloads of the same naming write the same objects.
                let same = names.iter().zip(&self.tags).filter(|(other, _)| *other == naming);
                let put = same.map(|(_, tags)| tags.get(key)).any(|put| put == tag);
                if put { &mut goes } else { &mut asked }.push(ListedObject { name, etag });
            }
            !there.is_empty()
        };
        let _ = numbers.into_iter().all(&mut one);
        (goes, asked)
    }

    /// Asks objects that have another tag than the run's for their maker: those that it made go, and others
    /// are foreign.
    fn ask(
        &self,
        store: &S3Client,
        asked: &mut [ListedObject],
        goes: &mut Vec<ListedObject>,
        foreign: &mut ForeignRecords,
    ) -> Result<()> {
        if asked.is_empty() {
            return Ok(());
        }
        let maker = ObjectMaker {
            run_id: self.mark.run_id(),
            unnamed: self.unnamed,
            named: keeps_metadata(store)?,
            sizes: self.written.sizes(),
        };
        for objects in asked.chunks(BATCH) {
            for (object, head) in objects.iter().zip(store.heads(objects)?) {
                match head {
                    None => {}
                    Some(head) if maker.made(&head) => {
                        goes.push(ListedObject { name: object.name.clone(), etag: head.etag });
                    }
                    Some(_) => foreign.note(object.name.as_bytes()),
                }
            }
        }
        Ok(())
    }

    /// Whether the owner object is this run's still, or all under the prefix is gone. Errors: `Target` where it alone is
    /// gone, or another's: nothing is deleted without it.
    fn is_held(&self, store: &S3Client) -> Result<()> {
        let last_run = self.mark.last_run();
        let what = match store.read()? {
            Some(text) if PrefixMark::parse(&text).is_ok_and(|m| m.last_run == last_run) => {
                return Ok(());
            }
            Some(_) => "another run took the prefix over; its objects were left alone",
            None => {
                let mut bare = true;
                store.list(&mut |page| {
                    bare &= page.is_empty();
                    Ok(bare)
                })?;
                if bare {
                    return Ok(());
                }
                "the owner mark of the run is gone; the objects under it were left alone"
            }
        };
        Err(Error::target(what)
            .with("target", store.location.to_text())
            .hint("look what is under the prefix before you use it again"))
    }

    /// Empties the prefix in the run. Errors: as [`OwnedPrefix::leave`].
    pub fn empty(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<ForeignRecords> {
        self.is_held(store)?;
        self.purge(store, names)
    }

    /// At the end: deletes what goes, then the mark. Errors: `Unavailable` when something cannot be
    /// removed, `Target` where the mark is gone or another's, or objects of others stay.
    pub fn leave(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<()> {
        if self.joined || self.mark.keeps() {
            return Ok(());
        }
        let shown = store.location.to_text();
        let none = self.written.range(self.records()).is_empty();
        let left = |e: Error, none: bool| match none {
            true => e.with("leftovers", format!("only the owner mark {shown}{SIDECAR}")),
            false => e.with("leftovers", format!("objects under {shown} that the run wrote")),
        };
        store.detach_from_stop().map_err(|e| left(e, none))?;
        self.is_held(store).map_err(|e| left(e, none))?;
        let foreign = self.purge(store, names).map_err(|e| left(e, none))?;
        MarkStore::remove(store).map_err(|e| left(e, true))?;
        foreign.told()
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
        self.delete(&[ListedObject { name: owner(self), etag: String::new() }]).map(drop)
    }
}

fn identity(store: &S3Client) -> PrefixIdentity {
    PrefixIdentity {
        taillight_owner: 1,
        bucket: store.location.bucket.clone(),
        prefix: store.location.prefix.clone(),
        named: true,
    }
}

/// Looks for the owner object of a run whose prefix this one is inside. Where the credentials do not reach
/// outside the prefix, nobody knows of one, and neither run could delete what is the other's. Errors:
/// `Refused` naming it; `Unavailable`.
fn check_outer(store: &S3Client) -> Result<()> {
    let prefix = &store.location.prefix;
    let inner = prefix.len() - 1;
    for (at, _) in prefix.match_indices('/').filter(|(at, _)| *at < inner) {
        let outer = format!("{}{SIDECAR}", &prefix[..=at]);
        let answer = store.call(&S3Request::new("HEAD", outer.as_bytes()))?;
        match answer.code {
            200..300 => {
                return Err(clash(store, "the prefix lies inside that of another run", &outer));
            }
            403 | 404 => {}
            _ => return Err(store.refusal("say whether an outer prefix is in use", &answer)),
        }
    }
    Ok(())
}

fn clash(store: &S3Client, what: &str, mark: &str) -> Error {
    Error::refused(what)
        .with("target", store.location.to_text())
        .with("its mark", mark)
        .hint("choose a prefix that is not inside another run's, nor around one")
}

/// Tells the objects of a run from others.
struct ObjectMaker {
    run_id: String,
    /// An earlier version wrote some, which name no maker.
    unnamed: bool,
    /// The store keeps what an object names.
    named: bool,
    /// Bytes of the objects.
    sizes: RangeInclusive<u64>,
}

impl ObjectMaker {
    fn made(&self, head: &ObjectHead) -> bool {
        match (head.maker.is_empty(), self.named) {
            (false, _) => head.maker == self.run_id,
            // The mark vouches for what an earlier version wrote.
            (true, true) => self.unnamed,
            // What a store without metadata can tell.
            (true, false) => self.unnamed || self.sizes.contains(&head.size),
        }
    }
}

/// Whether the store keeps metadata: one that gives the owner object without its maker does not.
fn keeps_metadata(store: &S3Client) -> Result<bool> {
    Ok(store.head(&owner(store))?.is_some_and(|head| !head.maker.is_empty()))
}

/// One of `objects` that has the name of a record kept under `mark` and was not made by its run. Each one is
/// asked, a HEAD for each object.
fn replaced(
    store: &S3Client,
    mark: &PrefixMark,
    plan: &Plan,
    names: &[ObjectNaming],
    objects: &[ListedObject],
) -> Result<Option<String>> {
    let size = |w: &WorkloadPlan, size| w.value.clone().unwrap_or_default().value_bytes(size);
    let smallest = plan.workloads.iter().map(|w| size(w, w.block_size.min())).min();
    let largest = plan.workloads.iter().map(|w| size(w, w.block_size.max())).max();
    let maker = ObjectMaker {
        run_id: mark.run_id.clone(),
        unnamed: !mark.identity.named,
        named: keeps_metadata(store)?,
        sizes: smallest.unwrap_or(0)..=largest.unwrap_or(0),
    };
    let records = objects.iter().filter(|o| names.iter().any(|n| n.could_be(&o.name)));
    let records: Vec<ListedObject> = records.cloned().collect();
    for objects in records.chunks(BATCH) {
        let heads = store.heads(objects)?;
        let made = |head: &Option<ObjectHead>| head.as_ref().is_none_or(|head| maker.made(head));
        if let Some(at) = heads.iter().position(|head| !made(head)) {
            return Ok(objects.get(at).map(|object| object.name.clone()));
        }
    }
    Ok(None)
}

/// The objects that the killed run of `mark` left; or one that it did not make.
fn left_by(
    store: &S3Client,
    mark: &PrefixMark,
    objects: &[ListedObject],
) -> Result<std::result::Result<Vec<ListedObject>, String>> {
    let mut left = Vec::with_capacity(objects.len());
    for objects in objects.chunks(BATCH) {
        for (object, head) in objects.iter().zip(store.heads(objects)?) {
            match head {
                Some(head) if head.maker == mark.run_id => {
                    left.push(ListedObject { name: object.name.clone(), etag: head.etag });
                }
                Some(_) => return Ok(Err(object.name.clone())),
                None => {}
            }
        }
    }
    Ok(Ok(left))
}

fn owner(store: &S3Client) -> String {
    format!("{}{SIDECAR}", store.location.prefix)
}

/// Puts the owner object back as it was, since the prefix was not taken after all.
fn undo(store: &S3Client, before: Option<&[u8]>, why: Error) -> Error {
    let undone = store.detach_from_stop().and_then(|()| match before {
        Some(text) => store.renew(text),
        None => MarkStore::remove(store),
    });
    match undone {
        Ok(()) => why,
        Err(_) => {
            why.with("leftovers", format!("the owner mark {}{SIDECAR}", store.location.to_text()))
        }
    }
}

/// As [`undo`], after objects that were to go may have gone: the mark that comes back vouches for no records.
fn in_part(store: &S3Client, before: Option<&[u8]>, goes: usize, why: Error) -> Error {
    if goes == 0 {
        return undo(store, before, why);
    }
    let mark = before.and_then(|text| PrefixMark::parse(text).ok());
    let empty = mark.and_then(|mark| PrefixMark { records: 0, ..mark }.bytes().ok());
    let shown = store.location.to_text();
    undo(store, empty.as_deref().or(before), why).with(
        "deleted",
        format!("some or all of the {goes} objects under {shown} that were to give way"),
    )
}

/// What is under the prefix.
struct PrefixContents {
    mark: Option<PrefixMark>,
    /// The owner object, whoever wrote it.
    text: Option<Vec<u8>>,
    contents: Contents,
    /// All but the owner object.
    objects: Vec<ListedObject>,
    /// The owner object of a run whose prefix is inside this one.
    inner: Option<String>,
}

fn inspect_prefix(store: &S3Client, names: &[ObjectNaming]) -> Result<(PrefixContents, String)> {
    let owner = owner(store);
    let (mut contents, mut marked, mut inner) = (Contents::Empty, false, None);
    let mut all = Vec::new();
    let server = store.list(&mut |page| {
        for object in page {
            let name = &object.name;
            if *name == owner {
                marked = true;
                continue;
            }
            if name.strip_suffix(SIDECAR).is_some_and(|outside| outside.ends_with('/')) {
                inner.get_or_insert_with(|| name.clone());
            }
            let record = names.iter().any(|n| n.could_be(name));
            if !record && !matches!(contents, Contents::Foreign(_)) {
                contents = Contents::Foreign(Some(name.clone()));
            } else if contents == Contents::Empty {
                contents = Contents::Records;
            }
            all.push(object);
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
    Ok((PrefixContents { mark, text, contents, objects: all, inner }, server))
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
