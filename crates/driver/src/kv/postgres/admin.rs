//! The connection to a PostgreSQL server outside the measured loop: it locks the table for the run, keeps the ownership
//! mark in the table's comment, makes and drops the table, and asks for settings and statistics.
//!
//! A table of the run's name without a mark counts as somebody else's. So does one whose mark came with a copy (a
//! restored dump has another OID), or whose columns were changed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::{Clock, Error, ErrorKind, MonoClock, Result, Stamp, StopFlag};

use super::lacking::{
    ADVISORY_LOCKS, COMMIT_SETTING, Lacking, ROW_COUNTS, TABLE_LOCKS, UNSUPPORTED, is_lack,
};
use super::statements::{literal, quoted};
use super::wire::{PgConnection, PgFailure, PgRows, PgServer};
use crate::net::ServerAddress;
use crate::ownership::{Contents, MarkStore, NamedTarget, OwnershipMark, refusal};

/// How long a server may take to notice that an earlier run has closed its connections.
const CLOSING: Duration = Duration::from_millis(500);
/// How long a look at statistics may take at most.
const GLANCE: Duration = Duration::from_secs(1);
/// Time limit of a statement that takes as long as the table is large: in fact only a stop ends it.
const PATIENT: Duration = Duration::from_secs(365 * 86_400);
/// The same at the end of a run, when nothing else would end the wait for a session that has the table locked.
const PATIENT_AT_END: Duration = Duration::from_secs(600);
/// How long statistics are left alone after a look at them failed, ns.
const REST_NS: u64 = 10_000_000_000;
/// How long a server may take at most for the first answer after the run was stopped.
const MOMENT: Duration = Duration::from_millis(700);
/// The first half of the advisory lock of a run; the second one is the hash of schema and table.
const LOCK: u32 = 0x7461_696c;
/// Bytes of the largest mark.
const MARK_MAX: usize = 1 << 20;

/// Which table a mark is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableIdentity {
    pub oid: u32,
    /// Names and types of its columns.
    pub columns: String,
    /// What the server had counted when a run kept the table; none where it does not count, or the counts may be late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<TableChanges>,
}

/// Changes of rows of the run's tables since they were made, as the server counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableChanges {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

/// The mark of a table.
pub type TableMark = OwnershipMark<TableIdentity>;

/// A table of the run's name, as it was found.
pub struct FoundTable {
    pub mark: Option<TableMark>,
    pub contents: Contents,
    /// None where nothing has the name.
    pub oid: Option<u32>,
    /// It is a table, and no partition, child or parent of other ones.
    pub plain: bool,
}

impl FoundTable {
    /// Errors: `Refused` for what is no plain table, whatever was confirmed: a view has no rows of its own, and
    /// dropping the parent of tables drops these too.
    pub fn is_plain(&self, named: &NamedTarget) -> Result<()> {
        if self.plain {
            return Ok(());
        }
        Err(Error::refused("what stands under the table's name is no plain table")
            .with("target", &named.shown)
            .hint("a view, a partition, or a parent of other tables: choose another options.table"))
    }
}

/// Names and types of the columns of a relation `c`, in SQL.
pub const COLUMNS: &str = "(SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' \
     ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT \
     a.attisdropped)";
/// Whether a relation `c` is a table that is no partition, inherits from none and none from it, in SQL.
pub const PLAIN: &str = "c.relkind = 'r' AND NOT c.relispartition AND NOT EXISTS (SELECT 1 FROM \
     pg_inherits i WHERE i.inhrelid = c.oid OR i.inhparent = c.oid)";

/// The connection to a server outside the measured loop.
pub struct AdminLine {
    pub server: PgServer,
    /// None after a statement got no answer: the next one connects anew.
    connection: Option<PgConnection>,
    /// The connection for statistics, without the lock: giving it up loses nothing.
    statistics: Option<PgConnection>,
    /// A transaction is open: a new connection would know nothing of it.
    in_transaction: bool,
    /// How long a statement may take whose time depends on the size of the table.
    patience: Duration,
    /// OID and run of the table that this run holds.
    held: Option<(u32, String)>,
    table: String,
    /// Where the table is, or will be.
    schema: String,
    /// Ends what waits for the server, until [`AdminLine::detach_from_stop`].
    stop: StopFlag,
    /// After a look at statistics failed: when the next one may be made.
    rests: Option<Stamp>,
    /// Another rank of the run holds the table.
    joins: bool,
    lacking: Lacking,
}

/// What a lock of the table keeps others from meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLock {
    /// Everything.
    All,
    /// Changes of the table itself; reads and writes go on.
    Shape,
}

impl TableLock {
    fn mode(self) -> &'static str {
        match self {
            TableLock::All => "ACCESS EXCLUSIVE",
            TableLock::Shape => "SHARE UPDATE EXCLUSIVE",
        }
    }
}

/// The first value of an answer.
pub fn first(rows: PgRows) -> Option<String> {
    rows.into_iter().next()?.into_iter().next()?
}

/// Takes the connection; others wait until the guard is dropped.
pub fn lock(admin: &Mutex<AdminLine>) -> MutexGuard<'_, AdminLine> {
    admin.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AdminLine {
    /// Connects, locks the table against other runs as long as the connection lives (where the server has advisory
    /// locks), and finds out what the server lacks. A rank that `joins` locks nothing: rank 0 of its run does. Errors:
    /// `Refused` when another run holds the table; `Unavailable` when the server cannot be used.
    pub fn open(
        server: PgServer,
        table: &str,
        (stop, joins): (&StopFlag, bool),
    ) -> Result<AdminLine> {
        let mut admin = AdminLine {
            server,
            connection: None,
            statistics: None,
            in_transaction: false,
            patience: PATIENT,
            held: None,
            table: table.to_owned(),
            schema: String::new(),
            stop: stop.clone(),
            rests: None,
            joins,
            lacking: Lacking::default(),
        };
        let schema = admin.value("SELECT current_schema()")?.ok_or_else(|| {
            Error::unavailable("the user has no schema to make a table in")
                .with("server", admin.server.address.to_text())
                .hint("give it one: search_path of the user or the database")
        })?;
        admin.schema = schema;
        admin.take_lock(CLOSING)?;
        admin.find_lacking()?;
        Ok(admin)
    }

    /// Tries features outside of the run's transactions, which a refused statement would end, and notes those that the
    /// server lacks. Errors: `Unavailable` when the server does not answer.
    fn find_lacking(&mut self) -> Result<()> {
        let commits = "SET LOCAL synchronous_commit = on";
        let locks = "LOCK TABLE pg_catalog.pg_class IN ACCESS SHARE MODE";
        for (statement, what) in [(commits, COMMIT_SETTING), (locks, TABLE_LOCKS)] {
            let tried = format!("BEGIN; {statement}; ROLLBACK");
            if self.ask_if_able(&tried, what)?.is_none() {
                // A server that parses all statements before the first has begun nothing, and may refuse a ROLLBACK.
                match self.try_within("ROLLBACK", self.server.timeout)? {
                    Ok(_) | Err(PgFailure::Refused(_)) => {}
                    Err(e) => return Err(self.server.failed(e)),
                }
            }
        }
        let counts = "SELECT n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_all_tables LIMIT 0";
        self.ask_if_able(counts, ROW_COUNTS).map(drop)
    }

    /// What the server was found to lack.
    pub fn lacking(&self) -> &Lacking {
        &self.lacking
    }

    /// Schema and name of the table, quoted for SQL.
    pub fn qualified(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }

    pub fn table(&self) -> &str {
        &self.table
    }

    /// Where the table is, or will be.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Does statements in text. Errors: `Unavailable` when the run is stopped, or the server is gone or refuses;
    /// `Refused` when the connection was lost and another run has taken the table since.
    pub fn ask(&mut self, sql: &str) -> Result<PgRows> {
        self.ask_within(sql, self.server.timeout)
    }

    fn ask_within(&mut self, sql: &str, timeout: Duration) -> Result<PgRows> {
        let said = self.try_within(sql, timeout)?;
        said.map_err(|e| self.server.failed(e))
    }

    fn try_within(&mut self, sql: &str, timeout: Duration) -> Result<Result<PgRows, PgFailure>> {
        if self.stop.stopped() {
            return Err(Error::unavailable("stopped before the server was asked"));
        }
        if self.connection.is_none() {
            if self.in_transaction {
                return Err(Error::unavailable("the connection was lost in a transaction")
                    .with("server", self.server.address.to_text()));
            }
            self.connection = Some(self.server.connect(&self.stop)?);
            if !self.schema.is_empty()
                && let Err(e) = self.take_lock(GLANCE)
            {
                // Without the lock nothing is done.
                self.connection = None;
                return Err(e);
            }
        }
        let Some(mut connection) = self.connection.take() else {
            return Err(Error::internal("no connection after one was made"));
        };
        let said = connection.query(sql, timeout, &self.stop);
        // A refusal is an answer. Only a statement without an answer costs the connection, and is cancelled.
        match said {
            Err(PgFailure::Lost(_)) => self.server.cancel(&connection),
            _ => self.connection = Some(connection),
        }
        Ok(said)
    }

    /// As [`AdminLine::ask`]; none where the server does not have `what`. Later calls for it are not sent any more.
    pub fn ask_if_able(&mut self, sql: &str, what: &str) -> Result<Option<PgRows>> {
        self.if_able_within(sql, what, self.server.timeout)
    }

    /// As [`AdminLine::ask_patiently`]; false where the server does not have `what`.
    pub fn do_if_able(&mut self, sql: &str, what: &str) -> Result<bool> {
        Ok(self.if_able_within(sql, what, self.patience)?.is_some())
    }

    fn if_able_within(
        &mut self,
        sql: &str,
        what: &str,
        timeout: Duration,
    ) -> Result<Option<PgRows>> {
        if self.lacking.has(what) {
            return Ok(None);
        }
        match self.try_within(sql, timeout)? {
            Err(PgFailure::Refused(e)) if is_lack(&e) => {
                self.lacking.note(what);
                Ok(None)
            }
            said => said.map(Some).map_err(|e| self.server.failed(e)),
        }
    }

    /// The first value of an answer.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>> {
        self.ask(sql).map(first)
    }

    /// Does a statement that may take long: until a stop (a year at most); after [`AdminLine::detach_from_stop`] ten
    /// minutes.
    pub fn ask_patiently(&mut self, sql: &str) -> Result<PgRows> {
        self.ask_within(sql, self.patience)
    }

    /// Does `what` as one transaction, committed with synchronous_commit = on, if the server has that, whatever the
    /// run's setting. Errors: those of `what`, and as [`AdminLine::ask`]; what was done is then rolled back.
    fn transaction<T>(&mut self, what: impl FnOnce(&mut AdminLine) -> Result<T>) -> Result<T> {
        self.ask(match self.lacking.has(COMMIT_SETTING) {
            true => "BEGIN",
            false => "BEGIN; SET LOCAL synchronous_commit = on",
        })?;
        self.in_transaction = true;
        let done = what(self).and_then(|done| self.ask_patiently("COMMIT").map(|_| done));
        if done.is_err() && self.connection.is_some() {
            let _ = self.ask("ROLLBACK");
        }
        self.in_transaction = false;
        done
    }

    /// Notes that this run holds the table with this mark from now on.
    pub fn hold(&mut self, mark: &TableMark) {
        self.held = Some((mark.identity.oid, mark.run_id.clone()));
    }

    /// Whether the run's table is there; false where no table has its name. Errors: `Target` when another one has.
    pub fn is_held(&mut self) -> Result<bool> {
        let found = self.found()?;
        let held = |mark: &TableMark| {
            self.held
                .as_ref()
                .is_some_and(|(oid, run)| mark.identity.oid == *oid && mark.run_id == *run)
        };
        match (found.mark, found.contents) {
            (Some(mark), _) if held(&mark) => Ok(true),
            (_, Contents::Empty) => Ok(false),
            _ => Err(Error::target("the table is not the run's any more; it was left alone")
                .with("table", self.named().shown)
                .hint("look what is in it before you use it again")),
        }
    }

    /// Does `what` in a transaction on the table that this run holds, and on no other: it is locked and looked at
    /// before. False where the table is gone. Errors: as [`AdminLine::is_held`], and of `what`.
    pub fn with_table(
        &mut self,
        lock: TableLock,
        what: impl FnOnce(&mut AdminLine) -> Result<()>,
    ) -> Result<bool> {
        if !self.is_held()? {
            return Ok(false);
        }
        self.transaction(|admin| {
            admin.lock_table(&admin.qualified(), lock)?;
            // What was looked at may have been replaced before the lock.
            if !admin.is_held()? {
                return Ok(false);
            }
            what(admin).map(|()| true)
        })
    }

    /// Locks a table until the transaction ends, if the server has such locks. Errors: as [`AdminLine::ask`].
    pub fn lock_table(&mut self, table: &str, lock: TableLock) -> Result<()> {
        if self.lacking.has(TABLE_LOCKS) {
            return Ok(());
        }
        // A server that has some of the modes refuses the others; the savepoint keeps that from ending the transaction.
        self.ask("SAVEPOINT taillight_lock")?;
        let sql = format!("LOCK TABLE {table} IN {} MODE", lock.mode());
        match self.try_within(&sql, self.patience)? {
            Err(PgFailure::Refused(e)) if e.code == UNSUPPORTED => {
                self.lacking.note(TABLE_LOCKS);
                self.ask("ROLLBACK TO SAVEPOINT taillight_lock")?;
            }
            said => drop(said.map_err(|e| self.server.failed(e))?),
        }
        self.ask("RELEASE SAVEPOINT taillight_lock").map(drop)
    }

    /// Detaches the connection from the run's stop, so that what the run made can be dropped. If the run was stopped,
    /// the server is first asked whether it answers at all, for a moment. Errors: `Unavailable` when it does not.
    pub fn detach_from_stop(&mut self) -> Result<()> {
        self.patience = PATIENT_AT_END;
        let stop = std::mem::take(&mut self.stop);
        if stop.stopped() {
            let timeout = self.server.timeout;
            self.server.timeout = timeout.min(MOMENT);
            let asked = self.ask_within("SELECT 1", timeout.min(MOMENT));
            self.server.timeout = timeout;
            asked.inspect_err(|_| self.stop = stop)?;
        }
        Ok(())
    }

    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    /// Does a statement whose answer is not needed. None where it failed, and for a while after that without asking, so
    /// that a server that hangs does not hold up the caller each time; no rows where the server lacks what it asks for.
    pub fn glance(&mut self, sql: &str) -> Option<PgRows> {
        if self.rests.is_some_and(|until| MonoClock.now() < until) {
            return None;
        }
        if self.lacking.is_unseen(sql) {
            return Some(PgRows::new());
        }
        let said = self.glance_within(sql);
        self.rests = said.is_none().then(|| MonoClock.now().plus(REST_NS));
        said
    }

    fn glance_within(&mut self, sql: &str) -> Option<PgRows> {
        let mut connection = match self.statistics.take() {
            Some(connection) => connection,
            None => self.server.connect_within(GLANCE, &self.stop).ok()?,
        };
        match connection.query(sql, self.server.timeout.min(GLANCE), &self.stop) {
            Ok(rows) => {
                self.statistics = Some(connection);
                Some(rows)
            }
            Err(PgFailure::Refused(e)) if is_lack(&e) => {
                self.statistics = Some(connection);
                self.lacking.note_unseen(sql);
                Some(PgRows::new())
            }
            Err(_) => {
                self.server.cancel(&connection);
                None
            }
        }
    }

    fn take_lock(&mut self, patience: Duration) -> Result<()> {
        if self.joins {
            return Ok(());
        }
        let name = literal(&format!("{}.{}", self.schema, self.table));
        let sql = format!("SELECT pg_try_advisory_lock({LOCK}, hashtext({name}))");
        let until = MonoClock.now().plus(patience.as_nanos() as u64);
        while let Some(said) = self.ask_if_able(&sql, ADVISORY_LOCKS)?.map(first)
            && said.as_deref() != Some("t")
        {
            if MonoClock.now() >= until {
                return Err(Error::refused("another run is using the table")
                    .with("target", self.named().shown)
                    .hint("wait until it is over, or choose another options.table"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The table and its server, for refusals.
    pub fn named(&self) -> NamedTarget {
        NamedTarget {
            shown: self.confirmation(),
            confirm: self.confirmation(),
            instead: "another options.table",
        }
    }

    /// What `--destroy` has to say: server, database, schema and table.
    fn confirmation(&self) -> String {
        let address = &self.server.address;
        let database = match address.server {
            ServerAddress::Unix(_) => format!("/{}", address.database),
            ServerAddress::Tcp(..) => String::new(),
        };
        format!("{}{database}#{}.{}", address.to_text(), self.schema, self.table)
    }

    /// Writes a mark into the comment of the table. Errors: as [`AdminLine::ask`].
    pub fn comment(&mut self, mark: &[u8]) -> Result<()> {
        let text = literal(&String::from_utf8_lossy(mark));
        self.ask(&format!("COMMENT ON TABLE {} IS {text}", self.qualified())).map(drop)
    }

    /// Whether the run's table has no row. Errors: `Unavailable`.
    pub fn is_empty(&mut self) -> Result<bool> {
        let sql = format!("SELECT NOT EXISTS (SELECT 1 FROM {})", self.qualified());
        Ok(self.value(&sql)?.as_deref() == Some("t"))
    }

    /// What has the table's name, and whether its mark fits it; nothing is changed. Errors: `Unavailable`.
    pub fn found(&mut self) -> Result<FoundTable> {
        let (schema, table) = (literal(&self.schema), literal(&self.table));
        let sql = format!(
            "SELECT c.oid, {PLAIN}, obj_description(c.oid, 'pg_class'), {COLUMNS} FROM pg_class c \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND c.relname \
             = {table}"
        );
        let rows = self.ask(&sql)?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(FoundTable {
                mark: None,
                contents: Contents::Empty,
                oid: None,
                plain: true,
            });
        };
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || row.next().unwrap_or_default();
        let (oid, plain, comment, columns) = (next(), next() == "t", next(), next());
        let number = oid.parse().ok();
        let foreign = |why: String| {
            let contents = Contents::Foreign(Some(why));
            Ok(FoundTable { mark: None, contents, oid: number, plain })
        };
        if !plain {
            return foreign(format!("{} is no plain table", self.table));
        }
        let mark = Some(comment).filter(|text| text.len() <= MARK_MAX);
        let mark = mark.and_then(|text| TableMark::parse(text.as_bytes()).ok());
        let Some(mark) = mark else { return foreign(self.table.clone()) };
        if mark.identity.oid.to_string() != oid {
            return foreign(format!("{} is a copy of a table of Taillight's", self.table));
        }
        if mark.identity.columns != columns {
            return foreign(format!("{} has other columns than Taillight gave it", self.table));
        }
        Ok(FoundTable { mark: Some(mark), contents: Contents::Records, oid: number, plain })
    }

    /// By the statements `create` makes the run's table, which gets `mark`, and the tables `further`, in place of the
    /// table with the OID `goes` and its parts: all or nothing. Errors: `Refused` when another run was faster, or
    /// another table has the name by now; `Unavailable`.
    pub fn create(
        &mut self,
        goes: Option<u32>,
        create: &str,
        further: &[String],
        mark: &mut TableMark,
    ) -> Result<()> {
        let table = self.qualified();
        self.transaction(|admin| {
            admin.try_create(goes, &table, create, mark)?;
            admin.mark_parts(mark.identity.oid, further)
        })
    }

    /// Does a statement that fills, empties or drops tables of the run, without CASCADE. Errors: `Refused`, or `Target`
    /// once the run holds its table, where something that others made depends on one; `Unavailable`.
    pub fn apply(&mut self, sql: &str) -> Result<()> {
        let takes = ["DROP", "TRUNCATE"].iter().any(|word| sql.starts_with(word));
        match self.try_within(sql, self.patience)? {
            Err(PgFailure::Refused(e)) if takes && ["2BP01", "0A000"].contains(&&*e.code) => {
                let kind = self.guard_kind();
                Err(Error::new(kind, "something else depends on the table; it was left alone")
                    .with("target", self.named().shown)
                    .with("server says", e.says)
                    .hint(
                        "somebody's view or foreign key, say: drop that if nobody needs it, or choose another \
                         options.table",
                    ))
            }
            said => said.map(drop).map_err(|e| self.server.failed(e)),
        }
    }

    /// Kind of the guard's errors: `Target` once the run holds its table, `Refused` before, when nothing was changed.
    pub fn guard_kind(&self) -> ErrorKind {
        if self.held.is_some() { ErrorKind::Target } else { ErrorKind::Refused }
    }

    /// OID of the table that the run holds; 0, which no table has, before it holds one.
    pub fn held_oid(&self) -> u32 {
        self.held.as_ref().map_or(0, |(oid, _)| *oid)
    }

    /// Errors: `Refused` where another table than the one with this OID, or no plain table, has the name.
    fn is_same(&mut self, oid: u32) -> Result<()> {
        let now = self.found()?;
        now.is_plain(&self.named())?;
        if now.oid == Some(oid) {
            return Ok(());
        }
        Err(Error::refused("the table was replaced since it was looked at")
            .with("table", self.named().shown)
            .hint("look what is there now, and give the command again"))
    }

    fn try_create(
        &mut self,
        goes: Option<u32>,
        table: &str,
        create: &str,
        mark: &mut TableMark,
    ) -> Result<()> {
        if let Some(oid) = goes {
            // Locked, the name means one table until the transaction ends. Looked at before, too: it may be gone.
            self.is_same(oid)?;
            self.lock_table(table, TableLock::All)?;
            self.is_same(oid)?;
            self.drop_parts(oid)?;
            self.apply(&format!("DROP TABLE {table}"))?;
        }
        match self.try_within(create, self.server.timeout)? {
            Err(PgFailure::Refused(e)) if e.code == "42P07" => {
                return Err(refusal::taken(self.named().shown));
            }
            made => made.map_err(|e| self.server.failed(e))?,
        };
        let oid = self.value(&format!("SELECT {}::regclass::oid", literal(table)))?;
        let oid = oid.and_then(|oid| oid.parse().ok());
        mark.identity.oid = oid.ok_or_else(|| Error::internal("a table without an OID"))?;
        let text = String::from_utf8_lossy(&mark.bytes()?).into_owned();
        self.ask(&format!("COMMENT ON TABLE {table} IS {}", literal(&text))).map(drop)
    }

    /// Drops the table and its parts, if this run still holds it and `is_own`, called under the lock, is no error.
    /// Errors: as [`AdminLine::with_table`], and of `is_own`.
    pub fn drop_table(&mut self, is_own: impl FnOnce(&mut AdminLine) -> Result<()>) -> Result<()> {
        let sql = format!("DROP TABLE {}", self.qualified());
        let oid = self.held_oid();
        let drops = |admin: &mut AdminLine| {
            is_own(admin)?;
            admin.drop_parts(oid)?;
            admin.apply(&sql)
        };
        self.with_table(TableLock::All, drops).map(drop)
    }
}

impl MarkStore for Mutex<AdminLine> {
    fn read(&self) -> Result<Option<Vec<u8>>> {
        let found = lock(self).found()?;
        found.mark.map(|mark| mark.bytes()).transpose()
    }

    /// The mark comes with the table.
    fn create(&self, _: &[u8]) -> Result<()> {
        Err(Error::internal("a mark without its table"))
    }

    fn renew(&self, mark: &[u8]) -> Result<()> {
        let mut admin = lock(self);
        match admin.with_table(TableLock::Shape, |admin| admin.comment(mark))? {
            true => Ok(()),
            false => {
                Err(Error::target("the table of the run is gone")
                    .with("table", admin.named().shown))
            }
        }
    }

    fn remove(&self) -> Result<()> {
        Err(Error::internal("a mark goes with its table"))
    }
}

/// The error `e` of the end of a run; an `Unavailable` one says that the table is left over.
pub fn left(table: &str, e: Error) -> Error {
    match e.kind() {
        ErrorKind::Unavailable => e.with("leftovers", format!("the table {table}")),
        _ => e,
    }
}
