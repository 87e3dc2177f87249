//! An opened database of an embedded store as a target: opening, sessions, administration, statistics, and its end.
//!
//! The store closes when its last reference goes. Sessions hold references, so a worker that is
//! still in the store keeps it open: no call runs on a closed store.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use taillight_core::plan::Plan;
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, OpKind, Result};

use super::directory::{Beside, DatabaseDirectory, DirectoryRequest};
use super::room::LogElsewhere;
use super::rules::{self, WorkloadRules};
use super::session::KvSession;
use super::written::WrittenKeys;
use super::{KeyValueStore, OpenAs, OutsideFiles, StoreEngine, StoreError};
use crate::contract::{
    AdminAction, Geometry, KeyedTarget, OpenSpec, PROMISE, Session, SessionSpec, Target,
};
use crate::file::drop_cached;
use crate::path_error::cannot;
use crate::trial;

/// What opening needs besides the engine.
pub struct DatabaseSpec<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    /// A database that the run makes is not deleted at the end.
    pub keep: bool,
    pub read_only: bool,
    /// Scans are told the key at which they end.
    pub bounded: bool,
    /// Each worker reads from a snapshot of its own.
    pub snapshot: bool,
    /// The store may compress what it is given.
    pub compresses: bool,
    pub log: Option<LogElsewhere>,
    /// What a user should know of the options before the load, in sentences.
    pub notes: Vec<String>,
}

impl<'a> DatabaseSpec<'a> {
    /// Of a store without compression and with its log in its directory; written to, no bounded scans, no snapshots.
    pub fn new(spec: &'a OpenSpec<'a>, keep: bool) -> DatabaseSpec<'a> {
        DatabaseSpec {
            spec,
            keep,
            read_only: false,
            bounded: false,
            snapshot: false,
            compresses: false,
            log: None,
            notes: Vec::new(),
        }
    }
}

impl DatabaseSpec<'_> {
    fn directory<'a>(&'a self, driver: &'static str, beside: Beside<'a>) -> DirectoryRequest<'a> {
        DirectoryRequest {
            spec: self.spec,
            driver,
            beside,
            keep: self.keep,
            read_only: self.read_only,
            compresses: self.compresses,
            log: self.log.as_ref(),
        }
    }
}

/// The target.
pub struct KvTarget<E: StoreEngine> {
    engine: E,
    /// Absent while it is reopened, where that failed, and after the end.
    store: RwLock<Option<Arc<E::KeyValueStore>>>,
    directory: DatabaseDirectory,
    rules: Vec<WorkloadRules>,
    written: WrittenKeys,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    /// Records that the plan says are there: those of a database that is only read.
    believed: u64,
}

impl<E: StoreEngine> KvTarget<E> {
    /// What [`KvTarget::open`] would refuse for plan and directory; no database is opened. Errors: as there.
    pub fn check(engine: &E, ask: &DatabaseSpec<'_>) -> Result<()> {
        let mut workloads = ask.spec.plan.workloads.iter();
        workloads.try_for_each(|w| WorkloadRules::of(w, ask.bounded).map(drop))?;
        DatabaseDirectory::check(&ask.directory(E::NAME, &|dir| engine.auxiliary_dirs(dir)))
    }

    /// Passes the guard, opens the database, and connects once for each worker to try that. Errors: `Usage`, `Refused`
    /// or `Unavailable`, and those of [`DatabaseDirectory::abandon`]: what the run made is deleted, and a database that
    /// gave way is put back, unless a part of it is already deleted.
    pub fn open(engine: E, ask: &DatabaseSpec<'_>) -> Result<KvTarget<E>> {
        let plan: &Plan = ask.spec.plan;
        let rules = plan.workloads.iter().map(|w| WorkloadRules::of(w, ask.bounded));
        let mut rules = rules.collect::<Result<Vec<WorkloadRules>>>()?;
        for (rules, w) in rules.iter_mut().zip(&plan.workloads) {
            // A worker that only writes would hold a snapshot from which nothing is read.
            rules.snapshot = ask.snapshot && rules::reads(w);
        }
        let try_out = |dir: &Path| {
            trial::workers(plan)?;
            try_options(&engine, dir, ask.spec.run_id)
        };
        let beside = |dir: &Path| engine.auxiliary_dirs(dir);
        let request = ask.directory(E::NAME, &beside);
        let mut directory = DatabaseDirectory::take(&request, &try_out)?;
        // Stores make and delete files by path: the exact path leads to this directory and no other.
        let store = directory.exact_path().and_then(|exact| engine.open(&exact, directory.opens()));
        let store = match store.and_then(|store| directory.opened().map(|()| store)) {
            Ok(store) => Arc::new(store),
            Err(e) => {
                // Where the former database cannot be put back, that error matters more.
                directory.abandon(&beside)?;
                return Err(e);
            }
        };
        let settled = try_sessions(&store, &rules, plan).and_then(|()| directory.settled());
        if let Err(e) = settled {
            drop(store);
            directory.abandon(&beside)?;
            return Err(e);
        }
        let mut facts = vec![("target.kind".to_owned(), "database".to_owned())];
        facts.push(("target.directory".to_owned(), directory.path().display().to_string()));
        store.facts(&mut facts);
        facts.push(("store.snapshot".to_owned(), ask.snapshot.to_string()));
        let promise = store.promise().map(|promise| (PROMISE.to_owned(), promise.to_owned()));
        facts.extend(promise);
        let keys = plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        Ok(KvTarget {
            believed: keys.map(|k| k.count).max().unwrap_or(0),
            engine,
            store: RwLock::new(Some(store)),
            directory,
            rules,
            written: WrittenKeys::of(plan),
            facts,
            notes: ask.notes.clone(),
        })
    }

    fn store(&self) -> Result<Arc<E::KeyValueStore>> {
        let held = self.store.read().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or_else(|| Error::target("the database is closed after a failed reopening"))
    }

    /// Closes the database, does `between` with what it has outside its directory, and opens it again. Errors:
    /// `Unavailable` while workers use it, `Target` where files of others are among its own; then it stays open.
    fn reopen(&self, how: OpenAs, between: impl FnOnce(OutsideFiles) -> Result<()>) -> Result<()> {
        let mut held = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let store = match held.take().map(Arc::try_unwrap).transpose() {
            Ok(store) => store,
            Err(still_used) => {
                *held = Some(still_used);
                return Err(Error::unavailable("workers still use the database")
                    .hint("do this before they start or after they ended"));
            }
        };
        let mut outside = OutsideFiles::default();
        if let Err(e) = self.directory.check_foreign() {
            // The store would delete the foreign files when it is opened again.
            *held = store.map(Arc::new);
            return Err(e);
        }
        if let Some(store) = store {
            // Opened again, the store would take somebody else's files there for its own.
            match self.engine.outside(&store, self.directory.path()) {
                Ok(files) => outside = files,
                Err(e) => {
                    *held = Some(Arc::new(store));
                    return Err(e);
                }
            }
        }
        between(outside)?;
        *held = Some(Arc::new(self.engine.open(&self.directory.exact_path()?, how)?));
        self.directory.opened()
    }

    fn forget_pages(&self) -> Result<()> {
        let how = match self.directory.opens() {
            OpenAs::New => OpenAs::Existing,
            how => how,
        };
        self.reopen(how, |outside| {
            forget_pages(self.directory.path())?;
            outside.files.iter().try_for_each(|file| forget(&file.path))
        })
    }

    /// Checks that nobody else has written into a database that other processes can open meanwhile. Errors: `Target`
    /// where somebody has, and where that cannot be told.
    fn is_own(&self, store: &E::KeyValueStore) -> Result<()> {
        if !E::KeyValueStore::SHARED {
            return Ok(());
        }
        let made = self.directory.opens() == OpenAs::New;
        let records = self.directory.records().unwrap_or(0);
        let own = self.written.keys(self.rules.iter(), made, records);
        let path = self.directory.path().display().to_string();
        let foreign = store.foreign(&own).map_err(|fault| {
            let e = fault.into_error("to tell whether others wrote into the database");
            e.with("leftovers", &path)
        })?;
        foreign.left(&path)
    }

    fn purge(&self) -> Result<()> {
        if self.directory.opens() == OpenAs::ReadOnly {
            return Err(Error::refused("a database opened with read_only is not purged"));
        }
        let store = self.store()?;
        let path = self.directory.path();
        store.lock_out().map_err(|fault| not_locked(fault, path))?;
        let own = self.is_own(&store);
        // So that reopening finds no other reference.
        drop(store);
        let purged = own.and_then(|()| {
            self.reopen(OpenAs::New, |outside| {
                self.directory.clear()?;
                outside.delete()?;
                self.directory.note(0)
            })
        });
        if purged.is_err()
            && let Ok(store) = self.store()
        {
            // Without effect on a database that was opened anew.
            let _ = store.let_in();
        }
        purged?;
        self.written.clear();
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let held = self.store.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(store) = held.take() else {
            return Ok(());
        };
        let Ok(store) = Arc::try_unwrap(store) else {
            return Err(Error::internal("the database is closed while a worker uses it"));
        };
        let engine = &self.engine;
        let beside = |dir: &Path| engine.auxiliary_dirs(dir);
        if !self.directory.keeps() {
            let outside = engine.outside(&store, self.directory.path());
            let own = store.lock_out().map_err(|fault| not_locked(fault, self.directory.path()));
            let own = own.and_then(|()| self.is_own(&store));
            drop(store);
            if own.is_err() {
                self.directory.forsake();
                return own;
            }
            self.directory.leave(&beside, true)?;
            return outside?.delete();
        }
        drop(store);
        // The mark must not cover the logs of another database.
        let alone = match self.directory.opens() {
            OpenAs::ReadOnly => Ok(()),
            _ => engine.alone(self.directory.path()),
        };
        self.directory.leave(&beside, alone.is_ok()).and(alone)
    }
}

impl<E: StoreEngine> Drop for KvTarget<E> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl<E: StoreEngine> Target for KvTarget<E> {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let rules = self.rules.get(usize::from(spec.workload)).cloned();
        let rules = rules.ok_or_else(|| Error::internal("a session of no workload"))?;
        let connection = self.store()?.connect(rules.snapshot)?;
        let written = E::KeyValueStore::SHARED.then(|| self.written.session());
        Ok(Box::new(KvSession::new(connection, rules, written, spec)))
    }
    fn descriptors(&self, workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        self.store().ok()?.leaves_alone(workers).then(Vec::new)
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        let failed = |what| move |fault: StoreError| fault.into_error(what);
        match action {
            AdminAction::Flush => self.store()?.flush().map_err(failed("to flush")),
            AdminAction::Compact => self.store()?.compact().map_err(failed("to compact")),
            // By reopening: a database that was just opened has no block in its own cache.
            AdminAction::DropCaches => self.forget_pages(),
            AdminAction::Purge => self.purge(),
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
    fn inner_kinds(&self) -> &'static [OpKind] {
        E::KeyValueStore::INNER
    }
    fn auxiliary_dirs(&self) -> Vec<PathBuf> {
        self.engine.auxiliary_dirs(self.directory.path()).unwrap_or_default()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        if let Ok(store) = self.store() {
            store.sample(out);
        }
    }
    fn witness(&self) -> Vec<WitnessCount> {
        self.store().map_or_else(|_| Vec::new(), |store| store.witness())
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl<E: StoreEngine> KeyedTarget for KvTarget<E> {
    fn records(&self) -> u64 {
        self.directory.records().unwrap_or(self.believed)
    }
    fn loaded(&self, records: u64) -> Result<()> {
        if self.directory.opens() == OpenAs::ReadOnly {
            // Opened read-only: the run writes neither records nor a mark.
            return Ok(());
        }
        let store = self.store()?;
        store.make_durable().map_err(|f| f.into_error("to make what was loaded durable"))?;
        self.directory.note(records)
    }
    fn ended(&self, records: u64) -> Result<()> {
        match self.directory.keeps() || E::KeyValueStore::SHARED {
            true => self.loaded(records),
            false => self.directory.note(records),
        }
    }
}

/// The error of a failed [`KeyValueStore::lock_out`] on the database in `dir`.
fn not_locked(fault: StoreError, dir: &Path) -> Error {
    fault.into_error("to keep others from writing").with("leftovers", dir.display())
}

/// Connects once for each worker, and drops all: a database that gives way is deleted only if all can be had.
fn try_sessions<S: KeyValueStore>(
    store: &Arc<S>,
    rules: &[WorkloadRules],
    plan: &Plan,
) -> Result<()> {
    let workers = plan
        .workloads
        .iter()
        .zip(rules)
        .flat_map(|(w, rules)| (0..w.workers).map(move |_| rules.snapshot));
    workers.map(|snapshot| store.connect(snapshot)).collect::<Result<Vec<_>>>().map(drop)
}

/// Tries the options of the run on a new database in a directory made inside `dir` and removed again: options that
/// the store refuses must not cost the database that gives way. Errors: as [`StoreEngine::open`]; `Unavailable`.
fn try_options<E: StoreEngine>(engine: &E, dir: &Path, run_id: &str) -> Result<()> {
    let scratch = dir.join(format!(".taillight-try-{run_id}"));
    let failed = |e| cannot("cannot make a directory to try the options in", &scratch, e);
    std::fs::create_dir(&scratch).map_err(failed)?;
    let opened = engine.try_open(&scratch);
    let gone = std::fs::remove_dir_all(&scratch);
    opened.and(gone.map_err(|e| cannot("cannot remove a directory", &scratch, e)))
}

/// Drops the files directly in the directory of the database from the page cache.
fn forget_pages(dir: &Path) -> Result<()> {
    let failed = |e| cannot("cannot drop the database from the page cache", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            forget(&entry.path())?;
        }
    }
    Ok(())
}

fn forget(path: &Path) -> Result<()> {
    let failed = |e| cannot("cannot drop the database from the page cache", path, e);
    let file = std::fs::File::open(path).map_err(failed)?;
    drop_cached(&[file.into()]).map_err(|e| e.with("path", path.display()))
}
