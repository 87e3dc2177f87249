//! The prefix: whose it is, the owner object that says so, and what goes in the end.
//!
//! As with a database directory, a prefix is Taillight's when its owner object names it. Foreign
//! objects need `destroy` and `--destroy`. What goes at the end are the names of the key numbers
//! that this run wrote, and nothing else.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use super::client::S3Client;
use super::naming::{OWNER, ObjectNaming};
use crate::contract::OpenSpec;
use crate::guard;
use crate::kv::rules;

/// The owner object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    taillight_owner: u32,
    bucket: String,
    prefix: String,
    run_id: String,
    /// The run that wrote this mark last: by it, one store is told from its copy.
    #[serde(default)]
    last_run: String,
    /// Objects stay after the run.
    keep: bool,
    /// Form of keys and values.
    form: String,
    /// Records known to be there.
    records: u64,
}

/// A prefix past the guard.
pub struct OwnedPrefix {
    mark: Mutex<Mark>,
    /// The run deletes records, so none are known to outlast it.
    forget: bool,
    start: u64,
    /// One past the highest key number written; `start` when none is.
    written: AtomicU64,
}

impl OwnedPrefix {
    /// Asks the guard and writes the owner object. `names`: of every workload.
    ///
    /// # Errors
    /// `Refused` by the guard, `Unavailable` when the store refuses.
    pub fn take(
        store: &S3Client,
        spec: &OpenSpec<'_>,
        names: &[ObjectNaming],
    ) -> Result<(OwnedPrefix, String)> {
        let target = &spec.plan.target;
        let shown = store.place.shown();
        let same = |name: &str| {
            let more = &store.options.endpoints;
            super::location::PrefixLocation::parse(Some(name), more).is_ok_and(|p| p == store.place)
        };
        let confirmed = guard::confirmed(target.destroy, spec.destroy, Path::new(&shown), same)?;
        let form = rules::form(spec.plan);
        let (found, server) = look(store, names)?;
        store.meet()?;
        let kept = kept(store, &found, &form, confirmed)?;
        let goes = kept.is_none();
        let keys = spec.plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        let start = keys.map(|k| k.start).min().unwrap_or(0);
        let mut mark = kept.unwrap_or_else(|| Mark {
            taillight_owner: 1,
            bucket: store.place.bucket.clone(),
            prefix: store.place.prefix.clone(),
            run_id: spec.run_id.to_owned(),
            last_run: String::new(),
            keep: store.options.keep,
            form,
            records: 0,
        });
        spec.run_id.clone_into(&mut mark.last_run);
        let home = OwnedPrefix {
            mark: Mutex::new(mark),
            forget: rules::changes(spec.plan).1,
            start,
            written: AtomicU64::new(start),
        };
        let text = home.text()?;
        store.put(&owner(store), &text)?;
        let settled = store.agree(&owner(store), &text);
        // What a killed run left, or the user gave up, goes once it is known to be the one store.
        settled
            .and_then(|()| if goes { wipe(store) } else { Ok(()) })
            .map_err(|e| undo(store, found.text.as_deref(), e))?;
        Ok((home, server))
    }

    /// Records known to be there.
    pub fn records(&self) -> u64 {
        self.lock().records
    }

    /// A key number is about to be written.
    #[inline]
    pub fn writes(&self, key: u64) {
        if self.written.load(Ordering::Relaxed) <= key {
            self.written.fetch_max(key + 1, Ordering::Relaxed);
        }
    }

    /// Takes note of `records`; `None` notes what is known, as it should outlast the run.
    ///
    /// # Errors
    /// `Unavailable` when the owner object cannot be written.
    pub fn note(&self, store: &S3Client, records: Option<u64>) -> Result<()> {
        if let Some(records) = records {
            self.lock().records = records;
        }
        store.put(&owner(store), &self.text()?)
    }

    /// The owner object as it should outlast the run.
    fn text(&self) -> Result<String> {
        let mut lasting = self.lock().clone();
        if self.forget {
            lasting.records = 0;
        }
        serde_json::to_string(&lasting)
            .map_err(|e| Error::internal("the owner mark cannot be written").source(e))
    }

    /// Deletes the records written so far, by every naming.
    ///
    /// # Errors
    /// `Unavailable` when one stays.
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

    /// At the end: deletes what goes, then the mark.
    ///
    /// # Errors
    /// `Unavailable` when something cannot be removed.
    pub fn leave(&self, store: &S3Client, names: &[ObjectNaming]) -> Result<()> {
        if self.lock().keep {
            return Ok(());
        }
        let shown = store.place.shown();
        self.purge(store, names)
            .map_err(|e| e.with("leftovers", format!("objects under {shown}")))?;
        store
            .delete(&[owner(store)])
            .map_err(|e| e.with("leftovers", format!("only the owner mark {shown}{OWNER}")))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Mark> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner(store: &S3Client) -> String {
    format!("{}{OWNER}", store.place.prefix)
}

/// Whether the guard lets the prefix be taken: the mark of records that stay; `None` when all that
/// is there goes.
fn kept(
    store: &S3Client,
    found: &PrefixContents,
    form: &str,
    confirmed: bool,
) -> Result<Option<Mark>> {
    let shown = store.place.shown();
    match &found.mark {
        Some(mark) if mark.keep && mark.form == form && !confirmed => Ok(Some(mark.clone())),
        Some(mark) if mark.keep && !confirmed => {
            Err(Error::refused("the prefix holds records of another form")
                .with("target", &shown)
                .with("there", &mark.form)
                .with("asked", form)
                .hint(format!(
                    "choose another prefix; or if it may be lost, set `destroy = true` under \
                     [target] and add: --destroy {shown}"
                )))
        }
        owned => {
            // What a killed run left goes; anything that no run of ours named is foreign.
            if found.foreign || (owned.is_none() && found.any) {
                guard::foreign(confirmed, Path::new(&shown))?;
            }
            Ok(None)
        }
    }
}

/// Puts the owner object back as it was, since the prefix was not taken after all.
fn undo(store: &S3Client, before: Option<&str>, why: Error) -> Error {
    let name = owner(store);
    let undone = match before {
        Some(text) => store.put(&name, text),
        None => store.delete(&[name]),
    };
    match undone {
        Ok(()) => why,
        Err(_) => why.with(
            "leftovers",
            format!("the owner mark {}{OWNER}", store.place.shown()),
        ),
    }
}

/// What is under the prefix.
struct PrefixContents {
    mark: Option<Mark>,
    /// The owner object, whoever wrote it.
    text: Option<String>,
    /// Objects besides the mark.
    any: bool,
    /// Objects that no workload of this plan would name.
    foreign: bool,
}

fn look(store: &S3Client, names: &[ObjectNaming]) -> Result<(PrefixContents, String)> {
    let owner = owner(store);
    let (mut any, mut foreign, mut marked) = (false, false, false);
    let server = store.list(&mut |page| {
        for name in page.iter() {
            if *name == owner {
                marked = true;
                continue;
            }
            any = true;
            foreign |= !names.iter().any(|n| n.could_be(name));
        }
        Ok(!foreign)
    })?;
    // A list may be behind, or have ended early: the mark itself decides.
    let text = if marked || any {
        store.get(&owner)?
    } else {
        None
    };
    let mark = match &text {
        None => None,
        Some(text) => {
            let mark: Option<Mark> = serde_json::from_str(text).ok();
            mark.filter(|m| m.bucket == store.place.bucket && m.prefix == store.place.prefix)
        }
    };
    let found = PrefixContents {
        any: any || (marked && mark.is_none()),
        mark,
        text,
        foreign,
    };
    Ok((found, server))
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
