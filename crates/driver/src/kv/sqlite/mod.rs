//! The driver `sqlite`: SQLite through its C API, in a build of the user's choice, loaded at run time; no SQLite is
//! linked in, because the system under test is no part of the tool. Target and session are those of all embedded
//! stores; here are capabilities, facts, statistics and each worker's connection behind them.
//!
//! There is one writer at a time: others wait with the pauses of SQLite's own busy handler, within their latency, and
//! each wait is a time inside its operation. With `journal = "wal"` a commit that finds the log long enough makes a
//! checkpoint, as SQLite does by itself, which is such a time too; further ones are operations of the mix.

mod counters;
mod options;
mod sys;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taillight_core::capability::Capabilities;
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::witness::{WitnessCount, WitnessUnit};
use taillight_core::{OpKind, Result, Stamp};

use super::target::{DatabaseSpec, KvTarget};
use super::written::{ForeignRecords, NumberedKeys};
use super::{Connection, KeyValueStore, OpenAs, RecordBatch, ScanRange, StoreEngine, StoreError};
use crate::contract::{AdminAction, BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use counters::SqliteCounters;
use options::{CheckpointMode, JournalMode, SqliteOptions, SyncLevel};
use sys::{ConnectionRules, SqliteConnection, SqliteLibrary, SqliteStatement};

/// The file of the database in its directory; beside it SQLite keeps `-wal`, `-shm` and `-journal`.
pub const FILE: &str = "taillight.db";

/// Name of the driver.
pub const NAME: &str = "sqlite";

/// The driver.
pub struct SqliteDriver;

impl Driver for SqliteDriver {
    fn name(&self) -> &'static str {
        SqliteEngine::NAME
    }
    fn about(&self) -> &'static str {
        "SQLite through its C library, loaded at run time"
    }
    fn library(&self) -> Option<&'static str> {
        Some("libsqlite3")
    }
    /// Asks the library: the name of its file has the version of an interface only, 0.8.6 since 2004.
    fn library_version(&self) -> Option<String> {
        let [version, _] = SqliteLibrary::load("").ok()?.version();
        Some(version)
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<SqliteOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(SqliteOptions::parse(self.name(), &target.options)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &Path) -> TestSetup {
        SqliteLibrary::load("").map_err(|e| e.to_string())?;
        let all = [
            "synchronous = \"off\"",
            "journal = \"delete\"\nsynchronous = \"off\"\nwithout_rowid = true",
            "synchronous = \"normal\"\nautocheckpoint = 20\npage_size = \"1KiB\"\nmmap_size = \"1MiB\"",
        ];
        Ok(TestTarget::local(dir, "db", &all))
    }
}

impl BoundDriver for SqliteOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        counters::display()
    }
    fn capabilities(&self) -> Capabilities {
        let mut can = super::capabilities(false, false, false);
        can.batches = vec![OpKind::Put, OpKind::Insert, OpKind::Update];
        can.batched_load = true;
        match self.journal {
            JournalMode::Wal => can.ops.push(OpKind::Checkpoint),
            _ => can.more_ops.push((OpKind::Checkpoint, "options.journal = \"wal\"")),
        }
        can.admin.push(AdminAction::Compact);
        can
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let mut all = plan.workloads.iter().flat_map(|w| &w.mix);
        let both = self.autocheckpoint > 0 && all.any(|part| part.op == OpKind::Checkpoint);
        let both = both.then_some(
            "commits make checkpoints, too: options.autocheckpoint = 0 leaves all to the operations",
        );
        self.undurable().into_iter().chain(both).map(str::to_owned).collect()
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        let (engine, ask) = engine(self, spec)?;
        KvTarget::check(&engine, &ask)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let (engine, ask) = engine(self, spec)?;
        Ok(Box::new(KvTarget::open(engine, &ask)?))
    }
}

/// The library with the options of the run, and what is asked of the directory.
fn engine<'a>(
    options: &SqliteOptions,
    spec: &'a OpenSpec<'a>,
) -> Result<(SqliteEngine, DatabaseSpec<'a>)> {
    let notes = options.plan_notes(spec.plan);
    let ask = DatabaseSpec { notes, ..DatabaseSpec::new(spec, options.keep) };
    let library = SqliteLibrary::load(&options.library)?;
    Ok((SqliteEngine { library, options: options.clone() }, ask))
}

/// The library with this run's options.
struct SqliteEngine {
    library: Arc<SqliteLibrary>,
    options: SqliteOptions,
}

impl StoreEngine for SqliteEngine {
    type KeyValueStore = SqliteStore;
    const NAME: &'static str = NAME;

    fn open(&self, dir: &Path, how: OpenAs) -> Result<SqliteStore> {
        let path = dir.join(FILE);
        if how == OpenAs::New && path.exists() {
            return Err(StoreError(format!("{FILE} is there already")).on_open(dir));
        }
        SqliteStore::open(&self.library, &self.options, path).map_err(|e| e.on_open(dir))
    }
}

/// An opened database.
struct SqliteStore {
    library: Arc<SqliteLibrary>,
    options: SqliteOptions,
    path: PathBuf,
    counters: Arc<SqliteCounters>,
    /// The connection for all but the load; `None` while a worker has the database alone, and then until it is needed
    /// again.
    main: Mutex<Option<SqliteConnection>>,
    /// Number of open connections of workers.
    accesses: AtomicUsize,
    facts: Vec<(String, String)>,
}

impl SqliteStore {
    fn open(
        library: &Arc<SqliteLibrary>,
        options: &SqliteOptions,
        path: PathBuf,
    ) -> Result<SqliteStore, StoreError> {
        let counters = Arc::new(SqliteCounters::default());
        let main = SqliteConnection::open(library, &path, true, &rules(options, &counters))?;
        if let Some(page) = options.page_size.set() {
            main.ask(&format!("PRAGMA page_size = {}", page.0))?;
        }
        let journal = options.journal.word();
        let got = main.ask(&format!("PRAGMA journal_mode = {journal}"))?.unwrap_or_default();
        if got != journal {
            return Err(StoreError(format!(
                "journal_mode = {journal} is not supported here: {got}"
            )));
        }
        apply_settings(&main, options)?;
        let rowid = if options.without_rowid { " WITHOUT ROWID" } else { "" };
        main.ask(&format!(
            "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY NOT NULL, value BLOB NOT \
             NULL){rowid}"
        ))?;
        fits_file(&main, options)?;
        let facts = facts(library, &main);
        let (library, options) = (library.clone(), options.clone());
        let (main, accesses) = (Mutex::new(Some(main)), AtomicUsize::new(0));
        Ok(SqliteStore { library, options, path, counters, main, accesses, facts })
    }

    /// Does `act` on the connection for all but the load, opened again where it was closed. Errors: those of `act`
    /// and of opening, and while a worker has the database alone.
    fn on_main<T>(
        &self,
        act: impl FnOnce(&SqliteConnection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut main = self.main.lock().unwrap_or_else(PoisonError::into_inner);
        if main.is_none() {
            if self.accesses.load(Ordering::Relaxed) > 0 {
                return Err(StoreError("a worker has the database alone".to_owned()));
            }
            let rules = rules(&self.options, &self.counters);
            let again = SqliteConnection::open(&self.library, &self.path, false, &rules)?;
            apply_settings(&again, &self.options)?;
            *main = Some(again);
        }
        main.as_ref().map_or_else(|| Err(StoreError("it is closed".to_owned())), act)
    }

    fn bytes(&self, ending: &str) -> f64 {
        let name = format!("{}{ending}", self.path.display());
        std::fs::metadata(name).map_or(0.0, |file| file.len() as f64)
    }
}

impl Drop for SqliteStore {
    /// Opens the main connection if it is closed: SQLite checkpoints and removes the log when the last one closes.
    fn drop(&mut self) {
        let _ = self.on_main(|_| Ok(()));
    }
}

/// Checks that the database has the page size and the kind of table that the options ask for. Errors: what differs.
fn fits_file(main: &SqliteConnection, options: &SqliteOptions) -> Result<(), StoreError> {
    let differs = |what: &str, there: &str| {
        let says = format!("options.{what} is not accepted: the file that is there has {there}");
        Err(StoreError(format!("Invalid argument: {says}")))
    };
    let page = main.ask("PRAGMA page_size")?.unwrap_or_default();
    if options.page_size.set().is_some_and(|asked| asked.0.to_string() != page) {
        return differs("page_size", &format!("pages of {page} bytes"));
    }
    let table = main.ask("SELECT sql FROM sqlite_master WHERE name = 'records'")?;
    let without = table.unwrap_or_default().contains("WITHOUT ROWID");
    if without != options.without_rowid {
        return differs("without_rowid", if without { "no rowids" } else { "rowids" });
    }
    Ok(())
}

fn rules(options: &SqliteOptions, counters: &Arc<SqliteCounters>) -> ConnectionRules {
    ConnectionRules {
        patience: Duration::from_nanos(options.busy_timeout.0),
        autocheckpoint: options.autocheckpoint,
        counters: counters.clone(),
    }
}

/// Applies those settings to a connection that the file of the database does not keep.
fn apply_settings(
    connection: &SqliteConnection,
    options: &SqliteOptions,
) -> Result<(), StoreError> {
    connection.run(options.synchronous.pragma())?;
    if options.journal != JournalMode::Wal {
        connection.ask(&format!("PRAGMA journal_mode = {}", options.journal.word()))?;
    }
    if let Some(cache) = options.cache_size.set() {
        connection.ask(&format!("PRAGMA cache_size = -{}", cache.0.div_ceil(1024)))?;
    }
    connection.ask(&format!("PRAGMA mmap_size = {}", options.mmap_size.0)).map(drop)
}

fn facts(library: &SqliteLibrary, main: &SqliteConnection) -> Vec<(String, String)> {
    let [version, source] = library.version();
    let mut facts = vec![
        ("store.library".to_owned(), library.loaded_from()),
        ("store.version".to_owned(), version),
        ("store.source".to_owned(), source),
    ];
    for name in [
        "journal_mode",
        "synchronous",
        "page_size",
        "cache_size",
        "mmap_size",
        "locking_mode",
        "auto_vacuum",
        "encoding",
        "fullfsync",
        "temp_store",
    ] {
        if let Ok(Some(value)) = main.ask(&format!("PRAGMA {name}")) {
            facts.push((format!("store.{name}"), value));
        }
    }
    facts
}

impl KeyValueStore for SqliteStore {
    type Connection = SqliteAccess;

    fn connect(self: &Arc<Self>, _: bool) -> Result<SqliteAccess> {
        let failed = |e: StoreError| e.on_open(self.path.parent().unwrap_or(&self.path));
        SqliteAccess::new(self.clone()).map_err(failed)
    }
    fn make_durable(&self) -> Result<(), StoreError> {
        if self.options.journal == JournalMode::Wal {
            self.on_main(|main| main.checkpoint(CheckpointMode::Full))?;
        }
        // By the directory: a deleted journal that is there again after a crash would undo what was committed, and to
        // close a descriptor of the database would drop SQLite's locks on it (fcntl_locking(2)).
        let dir = self.path.parent().unwrap_or(&self.path);
        let failed = |e: std::io::Error| StoreError(e.to_string());
        let dir = std::fs::File::open(dir).map_err(failed)?;
        rustix::fs::syncfs(&dir).map_err(|e| failed(e.into()))
    }
    fn compact(&self) -> Result<(), StoreError> {
        self.on_main(|main| main.ask("VACUUM").map(drop))
    }
    fn facts(&self, out: &mut Vec<(String, String)>) {
        out.extend_from_slice(&self.facts);
        out.push(("store.autocheckpoint".to_owned(), self.options.autocheckpoint.to_string()));
        out.push(("store.checkpoint".to_owned(), self.options.checkpoint.word().to_owned()));
        out.push(("store.without_rowid".to_owned(), self.options.without_rowid.to_string()));
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.counters.show(out);
        out("log_bytes", self.bytes("-wal"));
        out("database_bytes", self.bytes(""));
    }
    const SHARED: bool = true;
    const INNER: &'static [OpKind] = &[OpKind::AutoCheckpoint, OpKind::LockWait];
    fn foreign(&self, own: &NumberedKeys) -> Result<ForeignRecords, StoreError> {
        let mut foreign = ForeignRecords::default();
        let mut each = |sql: &str, is_own: &dyn Fn(&[u8]) -> bool| {
            let note = |key: &[u8]| {
                if !is_own(key) {
                    foreign.note(key)
                }
            };
            self.on_main(|main| SqliteAccess::scanned(main, &mut main.prepare(sql)?, note))
        };
        each(
            "SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR name NOT IN \
             ('records', 'sqlite_autoindex_records_1')",
            &|_| false,
        )?;
        // The run writes blobs only: a row with another type shows under a name that is no key.
        each(
            "SELECT CASE WHEN typeof(key) = 'blob' AND typeof(value) = 'blob' THEN key ELSE \
             'no bytes: ' || key END FROM records",
            &|key| own.has(key),
        )?;
        Ok(foreign)
    }
    /// By a write transaction, which ends with the connection.
    fn lock_out(&self) -> Result<(), StoreError> {
        self.on_main(|main| main.run(c"BEGIN IMMEDIATE"))
    }
    /// For one worker, before it connects. SQLite keeps one state of its locks for all connections of a process to a
    /// file, and the kernel keeps the locks of each table of descriptors apart: with one connection both agree, so the
    /// main one is closed. It must be possible to turn the checkpoint of the last close off, for which a worker's end
    /// would wait.
    fn leaves_alone(&self, workers: usize) -> bool {
        let mut main = self.main.lock().unwrap_or_else(PoisonError::into_inner);
        let alone = workers == 1
            && self.accesses.load(Ordering::Relaxed) == 0
            && main.as_ref().is_none_or(|main| main.leaves_log(false));
        if alone {
            *main = None;
        }
        alone
    }
    fn let_in(&self) -> Result<(), StoreError> {
        self.on_main(|main| main.run(c"ROLLBACK"))
    }
    fn promise(&self) -> Option<&'static str> {
        self.options.undurable()
    }
    /// Counts of the connections that have ended, as those of the workers have when the load is over.
    fn witness(&self) -> Vec<WitnessCount> {
        let of = |what: &str, unit, ops: &[OpKind], counter: &AtomicU64| {
            WitnessCount::new(what, unit, ops, counter.load(Ordering::Relaxed))
        };
        let changes = of(
            "sqlite3_total_changes",
            WitnessUnit::Records,
            &super::WRITES,
            &self.counters.changes,
        );
        let runs = "sqlite3_stmt_status, runs of the lookup";
        vec![
            WitnessCount { less: Some("a key that is absent is not deleted"), ..changes },
            of(runs, WitnessUnit::Operations, &super::READS, &self.counters.lookups),
        ]
    }
}

/// The prepared statements of a worker's connection; `up` and `down` are scans.
struct Statements {
    get: SqliteStatement,
    put: SqliteStatement,
    delete: SqliteStatement,
    up: SqliteStatement,
    down: SqliteStatement,
    begin: SqliteStatement,
    commit: SqliteStatement,
    rollback: SqliteStatement,
}

/// One worker's access. Fields are dropped in their order: statements, then their connection, then the store.
struct SqliteAccess {
    statements: Statements,
    connection: SqliteConnection,
    /// The level that the connection has now makes writes durable.
    durable: bool,
    /// The level of the options makes writes durable already, and is never changed.
    always: bool,
    /// The level of the options, and that of a write that is to be durable.
    levels: [SyncLevel; 2],
    store: Arc<SqliteStore>,
    _counted: CountedAccess,
}

/// Counts a worker's connection from before it is opened until it is closed: meanwhile it may have the database alone.
struct CountedAccess(Arc<SqliteStore>);

impl CountedAccess {
    fn new(store: &Arc<SqliteStore>) -> CountedAccess {
        store.accesses.fetch_add(1, Ordering::Relaxed);
        CountedAccess(store.clone())
    }
}

impl Drop for CountedAccess {
    fn drop(&mut self) {
        self.0.accesses.fetch_sub(1, Ordering::Relaxed);
    }
}

impl SqliteAccess {
    fn new(store: Arc<SqliteStore>) -> Result<SqliteAccess, StoreError> {
        let counted = CountedAccess::new(&store);
        let options = &store.options;
        let rules = rules(options, &store.counters);
        let connection = SqliteConnection::open(&store.library, &store.path, false, &rules)?;
        connection.leaves_log(true);
        apply_settings(&connection, options)?;
        let prepare = |sql: &str| connection.prepare(sql);
        let statements = Statements {
            get: prepare("SELECT value FROM records WHERE key = ?1")?,
            put: prepare(
                "INSERT INTO records (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET \
                 value = excluded.value",
            )?,
            delete: prepare("DELETE FROM records WHERE key = ?1")?,
            up: prepare("SELECT value FROM records WHERE key >= ?1 ORDER BY key LIMIT ?2")?,
            down: prepare("SELECT value FROM records WHERE key <= ?1 ORDER BY key DESC LIMIT ?2")?,
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            rollback: prepare("ROLLBACK")?,
        };
        let levels = [options.synchronous, options.synchronous.max(options.durable())];
        let always = levels[0] == levels[1];
        Ok(SqliteAccess {
            statements,
            connection,
            durable: always,
            always,
            levels,
            store,
            _counted: counted,
        })
    }

    /// Sets the level of the connection so that the next writes are durable, or as the options say.
    #[inline]
    fn make(&mut self, durable: bool) -> Result<(), StoreError> {
        if self.always || self.durable == durable {
            return Ok(());
        }
        self.connection.run(self.levels[usize::from(durable)].pragma())?;
        self.durable = durable;
        Ok(())
    }

    fn scanned(
        connection: &SqliteConnection,
        statement: &mut SqliteStatement,
        mut found: impl FnMut(&[u8]),
    ) -> Result<u32, StoreError> {
        let mut seen = 0;
        loop {
            let code = statement.step();
            if !SqliteStatement::is_row(code) {
                return connection.end(statement, code).map(|()| seen);
            }
            statement.column(0, &mut found);
            seen += 1;
        }
    }
}

impl Drop for SqliteAccess {
    fn drop(&mut self) {
        let counters = &self.store.counters;
        counters.changes.fetch_add(self.connection.changes(), Ordering::Relaxed);
        counters.lookups.fetch_add(self.statements.get.runs(), Ordering::Relaxed);
    }
}

impl Connection for SqliteAccess {
    #[inline]
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        let get = &mut self.statements.get;
        get.bind(1, key);
        let code = get.step();
        let is_there = SqliteStatement::is_row(code);
        if is_there {
            get.column(0, found);
        }
        self.connection.end(get, code).map(|()| is_there)
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8], durable: bool) -> Result<(), StoreError> {
        self.make(durable)?;
        let put = &mut self.statements.put;
        put.bind(1, key);
        put.bind(2, value);
        let code = put.step();
        self.connection.end(put, code)
    }

    fn put_many(&mut self, batch: &RecordBatch<'_>, durable: bool) -> Result<(), StoreError> {
        self.make(durable)?;
        let Statements { put, begin, commit, rollback, .. } = &mut self.statements;
        let code = begin.step();
        self.connection.end(begin, code)?;
        let mut done = Ok(());
        for (key, value) in batch.iter() {
            put.bind(1, key);
            put.bind(2, value);
            let code = put.step();
            done = self.connection.end(put, code);
            if done.is_err() {
                break;
            }
        }
        if done.is_ok() {
            let code = commit.step();
            done = self.connection.end(commit, code);
        }
        if done.is_err() {
            // Its result is not looked at: SQLite may have rolled back by itself.
            rollback.step();
            rollback.reset();
        }
        done
    }

    fn delete(&mut self, key: &[u8], durable: bool) -> Result<(), StoreError> {
        self.make(durable)?;
        let delete = &mut self.statements.delete;
        delete.bind(1, key);
        let code = delete.step();
        self.connection.end(delete, code)
    }

    fn scan(&mut self, range: &ScanRange<'_>, found: impl FnMut(&[u8])) -> Result<u32, StoreError> {
        let Statements { up, down, .. } = &mut self.statements;
        let scan = if range.reverse { down } else { up };
        scan.bind(1, range.from);
        scan.bind_number(2, i64::from(range.count));
        SqliteAccess::scanned(&self.connection, scan, found)
    }

    fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.connection.checkpoint(self.store.options.checkpoint)
    }

    #[inline]
    fn has_inner(&self) -> bool {
        !self.connection.inner().is_empty()
    }

    fn inner(&mut self, each: &mut dyn FnMut(OpKind, Stamp, Stamp)) {
        self.connection.inner().take(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The level of a worker's connection as SQLite gives it.
    fn level(access: &SqliteAccess) -> String {
        access.connection.ask("PRAGMA synchronous").unwrap().unwrap()
    }

    #[test]
    fn workers_sync_as_the_options_say_and_as_each_write_asks() {
        let Ok(library) = SqliteLibrary::load("") else {
            eprintln!("skipped: workers_sync_as_the_options_say: no libsqlite3");
            return;
        };
        for (journal, own, durable) in [
            (JournalMode::Wal, SyncLevel::Off, "2"),
            (JournalMode::Wal, SyncLevel::Normal, "2"),
            (JournalMode::Wal, SyncLevel::Full, "2"),
            (JournalMode::Delete, SyncLevel::Normal, "3"),
            (JournalMode::Delete, SyncLevel::Full, "3"),
            (JournalMode::Delete, SyncLevel::Extra, "3"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let options = SqliteOptions { journal, synchronous: own, ..SqliteOptions::default() };
            let store = SqliteStore::open(&library, &options, dir.path().join(FILE)).unwrap();
            let mut access = SqliteAccess::new(Arc::new(store)).unwrap();
            let own = (own as u8).to_string();
            assert_eq!(level(&access), own, "{journal:?}");
            for (asked, wanted) in
                [(true, durable), (true, durable), (false, &own), (true, durable)]
            {
                access.put(b"key", b"value", asked).unwrap();
                assert_eq!(level(&access), wanted, "{journal:?} {own} {asked}");
            }
        }
    }

    #[test]
    fn a_kept_file_of_another_form_is_refused() {
        let Ok(library) = SqliteLibrary::load("") else {
            eprintln!("skipped: a_kept_file_of_another_form: no libsqlite3");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let open = |options: &str| {
            let options = SqliteOptions::parse("sqlite", &options.parse().unwrap()).unwrap();
            SqliteStore::open(&library, &options, dir.path().join(FILE)).map(drop)
        };
        open("page_size = \"8KiB\"\nwithout_rowid = true").unwrap();
        open("without_rowid = true").unwrap();
        for wrong in ["", "page_size = \"4KiB\"\nwithout_rowid = true"] {
            let e = open(wrong).unwrap_err().on_open(dir.path());
            assert!(e.message().contains("does not accept the options"), "{e}");
        }
    }
}
