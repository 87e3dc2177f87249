//! The host's mark in a foreign store: a record that is written and read back through the plug-in itself.
//!
//! A store that has no mark and does not say that it is empty is somebody else's. Nothing but records that a mark
//! names is ever deleted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use taillight_core::keys::KEY_MAX;
use taillight_core::plan::{Keys, Plan};
use taillight_core::{Clock, Error, MonoClock, OpKind, Result, Status};

use super::session::{HostSession, MARK};
use crate::contract::{Completion, Session};
use crate::ownership::{MarkStore, OwnershipMark};

/// Key of the mark: 16 bytes, as many stores want keys of one length.
pub const MARK_KEY: &[u8; 16] = b"taillight--owner";
/// Bytes of the largest mark.
pub const MARK_MAX: u64 = 4096;
/// Longest wait for an answer outside the load, ns.
const PATIENCE_NS: u64 = 60_000_000_000;
/// So many numbers in a row without a record, behind the last known one, end the search for more.
const GAP: u64 = 10_000;

/// What a mark in a foreign store says of its records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginIdentity {
    /// How the keys of each workload are written, and from which number on.
    pub keys: Vec<Keys>,
    /// Nothing was stored when the mark was written: what has a name of these keys is the run's, also behind their
    /// count.
    pub whole: bool,
}

pub type PluginMark = OwnershipMark<PluginIdentity>;

impl PluginIdentity {
    pub fn of(plan: &Plan, whole: bool) -> PluginIdentity {
        let mut keys = Vec::new();
        for k in plan.workloads.iter().filter_map(|w| w.keys.as_ref()) {
            if !keys.contains(k) {
                keys.push(k.clone());
            }
        }
        PluginIdentity { keys, whole }
    }

    /// Whether every record that `other` names is one of these, of which the last are `records` behind the start;
    /// of a store that was empty, any is.
    pub fn covers(&self, other: &PluginIdentity, records: u64) -> bool {
        let plain = |k: &Keys| Keys { start: 0, count: 0, ..k.clone() };
        let end = |k: &Keys, count: u64| k.start.saturating_add(count);
        let names = |own: &Keys, k: &Keys| {
            let inside =
                own.start <= k.start && end(k, k.count) <= end(own, own.count.max(records));
            inside && plain(own) == plain(k)
        };
        self.whole || other.keys.iter().all(|k| self.keys.iter().any(|own| names(own, k)))
    }
}

/// The store as the host uses it outside the load.
pub struct MarkKeeper {
    session: Mutex<HostSession>,
    /// What makes a record, and what writes it again.
    create: OpKind,
    renew: OpKind,
    deletes: bool,
}

impl MarkKeeper {
    /// By the operations that the plug-in has. Errors: `Unavailable` when it cannot keep a record.
    pub fn new(session: HostSession, ops: &[OpKind]) -> Result<MarkKeeper> {
        let first = |wanted: &[OpKind]| wanted.iter().copied().find(|op| ops.contains(op));
        let create = first(&[OpKind::Put, OpKind::Insert]);
        let renew = first(&[OpKind::Put, OpKind::Update, OpKind::Insert]);
        let (Some(create), Some(renew), true) = (create, renew, ops.contains(&OpKind::Get)) else {
            return Err(Error::unavailable(
                "the plug-in cannot keep the mark that says whose records are",
            )
            .with("it needs", "get, and put or insert")
            .hint("a plug-in that only reads is used with options.read_only = true"));
        };
        let deletes = ops.contains(&OpKind::Delete);
        Ok(MarkKeeper { session: Mutex::new(session), create, renew, deletes })
    }

    fn lock(&self) -> MutexGuard<'_, HostSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(
        host: &mut HostSession,
        kind: OpKind,
        key: &[u8],
        size: u64,
        flags: u16,
    ) -> Result<Completion> {
        host.one(kind, key, size, flags, MonoClock.now().plus(PATIENCE_NS))
    }

    fn write(&self, kind: OpKind, mark: &[u8]) -> Result<()> {
        let mut host = self.lock();
        let place = host.session().buffer(0);
        let fits = place.get_mut(..mark.len());
        fits.ok_or_else(|| Error::internal("the mark is too long"))?.copy_from_slice(mark);
        let done = MarkKeeper::one(&mut host, kind, MARK_KEY, mark.len() as u64, MARK)?;
        if !done.status.is_ok() {
            return Err(cannot("write", done.status));
        }
        drop(host);
        match self.read()? {
            Some(there) if there == mark => Ok(()),
            _ => Err(Error::unavailable(
                "the plug-in does not give back what it was given: the mark that says whose records are was \
                 written, and is not what is read",
            )
            .hint("nothing was written but that; a plug-in that stores nothing says \"stores_data\": false")),
        }
    }

    /// Deletes the records that a mark names, those of numbers below `end`, and in a store that was empty those
    /// that runs added behind. Errors: `Unavailable` when one cannot be deleted, `Target` when the plug-in is lost.
    pub fn delete(&self, identity: &PluginIdentity, end: u64) -> Result<()> {
        if !self.deletes {
            return Err(Error::unavailable("the plug-in cannot delete records"));
        }
        let mut host = self.lock();
        let mut out = [0; KEY_MAX];
        for keys in &identity.keys {
            let format = keys.format()?;
            let end = end.max(keys.start.saturating_add(keys.count));
            for number in keys.start..end {
                erase(&mut host, format.write(number, &mut out))?;
            }
            let (mut number, mut missing) = (end, 0);
            while identity.whole && missing < GAP {
                let key = format.write(number, &mut out);
                match MarkKeeper::one(&mut host, OpKind::Get, key, 0, 0)?.status {
                    Status::NOT_FOUND => missing += 1,
                    Status::OK => {
                        missing = 0;
                        erase(&mut host, key)?;
                    }
                    other => return Err(cannot("look for records of the run", other)),
                }
                number = number.checked_add(1).ok_or_else(|| {
                    Error::corrupt("the mark in the store names too many records")
                })?;
            }
        }
        Ok(())
    }
}

/// Deletes one record; one that is not there is no error.
fn erase(host: &mut HostSession, key: &[u8]) -> Result<()> {
    match MarkKeeper::one(host, OpKind::Delete, key, 0, 0)?.status {
        Status::OK | Status::NOT_FOUND => Ok(()),
        other => Err(cannot("delete a record of the run", other)),
    }
}

fn cannot(what: &str, status: Status) -> Error {
    Error::unavailable(format!("the plug-in cannot {what}")).with("it answered", status)
}

impl MarkStore for MarkKeeper {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let mut host = self.lock();
        let done = MarkKeeper::one(&mut host, OpKind::Get, MARK_KEY, MARK_MAX, MARK)?;
        match done.status {
            Status::NOT_FOUND => Ok(None),
            Status::OK => match host.session().buffer(0).get(..done.moved as usize) {
                Some(mark) => Ok(Some(mark.to_vec())),
                None => Err(Error::corrupt("the mark in the store is longer than marks are")
                    .with("bytes", done.moved)),
            },
            other => Err(cannot("look for the mark that says whose records are", other)),
        }
    }
    fn create(&self, mark: &[u8]) -> Result<()> {
        self.write(self.create, mark)
    }
    fn renew(&self, mark: &[u8]) -> Result<()> {
        self.write(self.renew, mark)
    }
    fn remove(&self) -> Result<()> {
        let mut host = self.lock();
        match MarkKeeper::one(&mut host, OpKind::Delete, MARK_KEY, 0, MARK)?.status {
            Status::OK | Status::NOT_FOUND => Ok(()),
            other => Err(cannot("remove the mark", other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_frees_the_records_that_it_names_alone() {
        let keys = |prefix: &str, start: u64, count: u64| PluginIdentity {
            keys: vec![Keys { prefix: prefix.into(), start, count, ..Keys::default() }],
            whole: false,
        };
        let own = keys("aa", 10, 90);
        assert!(own.covers(&own, 0) && own.covers(&keys("aa", 20, 80), 0));
        assert!(own.covers(&keys("aa", 10, 200), 200), "as many as runs added");
        for (other, why) in [
            (keys("user", 10, 90), "another prefix"),
            (keys("aa", 0, 90), "before the first"),
            (keys("aa", 10, 91), "behind the last"),
        ] {
            assert!(!own.covers(&other, 0), "{why}");
            assert!(PluginIdentity { whole: true, ..own.clone() }.covers(&other, 0), "{why}");
        }
    }
}
