//! A table of a PostgreSQL server, or the tables of TPC-B or sysbench, as a target: opening past the guard, filling,
//! sessions, administration, statistics, the check after TPC-B, and dropping what the run made.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::progress::{OnProgress, Progress};
use taillight_core::witness::WitnessCount;
use taillight_core::{Clock, Error, ErrorKind, MonoClock, OpKind, Result, StopFlag};

use super::address::PgAddress;
use super::admin::{self, AdminLine, TableIdentity, TableLock, TableMark, first};
use super::consistency::{CommitLedger, ConsistencyCheck};
use super::errors::ServerErrors;
use super::further::replaced;
use super::lacking::{ADVISORY_LOCKS, CHECKPOINT, VACUUM};
use super::options::{InsertRule, PostgresOptions};
use super::own_rows::{self, RowChanges};
use super::placement::{self, CpuPlacement};
use super::server_facts::ServerFacts;
use super::session::{self, WriteNotes};
use super::statements::TableLayout;
use super::statistics::{self, StatisticsQueries};
use super::transaction_worker::TransactionWorker;
use super::transactions::{Benchmark, TransactionTables};
use super::wire::{PgConnection, PgServer};
use crate::contract::{
    AdminAction, BROKEN, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target,
};
use crate::kv::rules;
use crate::kv::written::WrittenKeys;
use crate::net::ConnectionCounters;
use crate::ownership::{HeldMark, OwnershipDecision, refusal};
use crate::{path_error, space, trial};

/// Pause between two tries to reach a server that may have crashed.
const PAUSE: Duration = Duration::from_millis(100);
/// What a server needs at least for a row besides key and value, bytes: heads and pointers in table and index.
const ROW: f64 = 48.0;

/// The target.
pub struct PostgresTarget {
    options: PostgresOptions,
    layouts: Vec<TableLayout>,
    /// Only where the run has transactions.
    transactions: Option<TransactionTables>,
    commits: Arc<CommitLedger>,
    written: WrittenKeys,
    changes: RowChanges,
    /// The run has made the table, so that the server's counts of its changes are those since then.
    made: bool,
    /// What the check after the load found, or why it could not be made; none before, and once it was judged.
    checked: Mutex<Option<Result<ConsistencyCheck>>>,
    /// Name of the table with its schema, quoted for SQL.
    table: String,
    admin: Mutex<AdminLine>,
    mark: HeldMark<TableIdentity>,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    /// The user may have checkpoints made.
    checkpoints: bool,
    /// Version of the server as a number, such as 150020.
    version: u32,
    statistics: StatisticsQueries,
    counters: Arc<ConnectionCounters>,
    errors: Arc<ServerErrors>,
    /// Connections for workers that were made before a table was dropped; empty when they are used up.
    spare: Mutex<Vec<PgConnection>>,
    /// Processes of the server that serve the workers.
    backends: Mutex<Vec<u32>>,
    placement: CpuPlacement,
    /// The server's main process, where it is one of this machine.
    server: Option<u32>,
    /// [`Target::witness`] was asked before: the load has begun.
    begun: AtomicBool,
    /// No workload has batches: each operation on records is one statement.
    single: bool,
    lanes: u32,
    /// Other ranks have the table, too: the server counts what all do.
    shared: bool,
    /// This is a rank that joined: rank 0 of the run holds the table.
    joined: bool,
    closed: bool,
}

/// What [`PostgresTarget::open`] would refuse; nothing is changed. Errors: as there.
pub fn check(options: &PostgresOptions, spec: &OpenSpec<'_>) -> Result<()> {
    let mut at = Reached::to(options, spec)?;
    if spec.joins() { Ok(()) } else { at.decide(spec).map(drop) }
}

/// A server that answers, with the run's table locked, before anything is decided.
struct Reached {
    options: PostgresOptions,
    layouts: Vec<TableLayout>,
    transactions: Option<TransactionTables>,
    admin: AdminLine,
    /// The mark that the run would write.
    new: TableMark,
    confirmed: bool,
}

impl Reached {
    fn to(options: &PostgresOptions, spec: &OpenSpec<'_>) -> Result<Reached> {
        let plan = spec.plan;
        let target = &plan.target;
        let options = options.clone();
        let address = PgAddress::parse(target.path.as_deref(), &options.database)?;
        check_connections(plan, &options)?;
        let layouts = plan.workloads.iter().map(TableLayout::of).collect::<Result<Vec<_>>>()?;
        let transactions = TransactionTables::of(plan, &options)?;
        let shape = layouts.first().map(TableLayout::shape).unwrap_or_default();
        if layouts.iter().any(|layout| layout.shape() != shape) {
            return Err(Error::usage("workloads whose values have different fields").hint(
                "the columns of a table are the same for all: give all workloads one `value`",
            ));
        }
        let server = PgServer::new(address, &options)?;
        let admin = AdminLine::open(server, &options.table, (spec.stop, spec.joins()))?;
        let named = admin.named();
        let same = |name: &str| name == named.confirm;
        let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
        let transactions = transactions.map(|tables| tables.in_schema(admin.schema()));
        let (columns, form) = match &transactions {
            Some(tables) => (tables.shape(), tables.form()),
            None => (shape, rules::form(plan)),
        };
        let identity = TableIdentity { columns, ..TableIdentity::default() };
        let new = TableMark::new(identity, spec.run_id, options.keep, form);
        Ok(Reached { options, layouts, transactions, admin, new, confirmed })
    }

    /// Decides what becomes of the table that is there; also gives its OID. Nothing is changed. Errors: `Usage` for
    /// transactions of ranks that share; `Refused` by the guard: for a table that Taillight did not make or a killed
    /// run left, unless confirmed, for one of another form, and for what is no plain table; `Unavailable` when the
    /// records of the plan's first workload do not fit on the disk, where that can be seen.
    fn decide(
        &mut self,
        spec: &OpenSpec<'_>,
    ) -> Result<(OwnershipDecision<TableIdentity>, Option<u32>)> {
        if spec.shares() && self.transactions.is_some() {
            return Err(Error::usage(
                "ranks do not share the tables of transactions: none knows what the others committed",
            )
            .hint("leave run.share out: each rank has tables of its own then"));
        }
        if spec.joins() {
            return Ok((OwnershipDecision::Reuse(self.join(spec)?), None));
        }
        let found = self.admin.found()?;
        let (mark, named) = (found.mark.as_ref(), self.admin.named());
        found.is_plain(&named)?;
        // Without advisory locks the run of this mark may still be loading.
        let alone = !self.admin.lacking().has(ADVISORY_LOCKS);
        if mark.is_some_and(|mark| !mark.keep) && !(alone && self.admin.is_empty()?) {
            // Rows that somebody added after the run was killed cannot be told from its own.
            refusal::unfinished(self.confirmed, &named)?;
        }
        let decision = TableMark::decide(&self.new, mark, found.contents, self.confirmed, &named)?;
        if let Some(tables) = &self.transactions {
            let names = tables.further(&self.options.table);
            let used = matches!(decision, OwnershipDecision::Reuse(_));
            self.admin.check_parts(found.oid, &names, used)?;
        }
        let (have, goes) = match &decision {
            OwnershipDecision::Create => (0, 0),
            OwnershipDecision::Reuse(mark) => (mark.records, 0),
            OwnershipDecision::Wipe => {
                let table = super::statements::literal(&self.admin.qualified());
                let size = format!("SELECT pg_total_relation_size(to_regclass({table}))");
                let size = self.admin.ask_if_able(&size, "sizes of tables")?.and_then(first);
                (0, size.and_then(|size| size.parse().ok()).unwrap_or(0))
            }
        };
        if let Some(free) = self.free()? {
            let free = free.saturating_add(goes);
            let row = self.transactions.as_ref().map(TransactionTables::row_bytes);
            let row = |w: &WorkloadPlan| row.unwrap_or_else(|| space::record_bytes(w) + ROW);
            space::fits(spec.plan, have, free, row)?;
        }
        Ok((decision, found.oid))
    }

    /// The mark that rank 0 of the run has made or taken over. Errors: `Refused` where this is another table.
    fn join(&mut self, spec: &OpenSpec<'_>) -> Result<TableMark> {
        let shown = self.admin.named().shown;
        TableMark::of_run(self.admin.found()?.mark, spec.run_id, &shown)
    }

    /// Bytes free where the server keeps its data; none where that is not on this machine, or not shown.
    fn free(&mut self) -> Result<Option<u64>> {
        let local = self.admin.server.address.server.is_here();
        let dir = "SELECT setting FROM pg_settings WHERE name = 'data_directory'";
        let dir = self.admin.ask_if_able(dir, "pg_settings")?.and_then(first);
        let dir = dir.filter(|dir| local && Path::new(dir).join("PG_VERSION").exists());
        dir.map(|dir| path_error::free_space(dir.as_ref())).transpose()
    }
}

impl PostgresTarget {
    /// Connects, passes the guard, makes the table, fills those of transactions. Errors: `Usage`, `Refused`,
    /// `Unavailable`, of filling also `Target`: tables that were made are dropped, one that gave way is lost if filling
    /// fails.
    pub fn open(
        options: &PostgresOptions,
        spec: &OpenSpec<'_>,
        progress: &mut OnProgress<'_>,
    ) -> Result<PostgresTarget> {
        let mut at = Reached::to(options, spec)?;
        let joined = spec.joins();
        let (decision, there) = at.decide(spec)?;
        let takes_over =
            spec.shares() && !joined && matches!(decision, OwnershipDecision::Reuse(_));
        let Reached { options, layouts, transactions, mut admin, mut new, .. } = at;
        let (table, counters) = (admin.qualified(), ConnectionCounters::default());
        let mut of_server = ServerFacts::of(&mut admin, &table)?;
        let server = placement::server_process(&mut admin);
        let statistics = StatisticsQueries::new(of_server.version, &table);
        let mut spare = Vec::new();
        if decision == OwnershipDecision::Wipe {
            // Workers and connections that cannot be had must not cost the table that is there.
            trial::workers(spec.plan)?;
            spare = connect_all(&admin.server, spec, &options, &counters)?;
        }
        let made = !matches!(decision, OwnershipDecision::Reuse(_));
        let mut mark = match decision {
            OwnershipDecision::Reuse(kept) => kept,
            other => {
                let goes = there.filter(|_| other == OwnershipDecision::Wipe);
                let tables = (&layouts[..], transactions.as_ref());
                make(&mut admin, &options.table, tables, goes, &mut new)?;
                new
            }
        };
        admin.hold(&mark);
        let kept = (!made && !joined).then_some(&mark);
        let notes = of_server.notes(&mut admin, kept, transactions.as_ref())?;
        let ServerFacts { facts, version, checkpoints } = of_server;
        if takes_over {
            spec.run_id.clone_into(&mut mark.last_run);
        }
        let mark = HeldMark::new(mark, rules::changes(spec.plan).1);
        statistics.sample(&mut admin, &mut |_, _| ());
        let target = PostgresTarget {
            notes,
            version,
            transactions,
            commits: Arc::default(),
            written: WrittenKeys::of(spec.plan),
            changes: RowChanges::default(),
            made,
            checked: Mutex::default(),
            checkpoints,
            options,
            layouts,
            table,
            admin: Mutex::new(admin),
            mark,
            facts,
            statistics,
            counters: Arc::new(counters),
            errors: Arc::default(),
            spare: Mutex::new(spare),
            backends: Mutex::default(),
            placement: CpuPlacement::default(),
            server,
            begun: AtomicBool::new(false),
            single: spec.plan.workloads.iter().all(|w| w.batch <= 1),
            lanes: rules::lanes(spec.plan),
            shared: spec.shares(),
            joined,
            closed: joined,
        };
        if takes_over {
            target.mark.note(&target.admin, target.mark.records())?;
        }
        target.fill(progress)?;
        Ok(target)
    }

    /// Fills the tables of transactions, unless the mark notes all of their rows. Errors: `Target` when kept ones do
    /// not balance, or others wrote into what is emptied; `Unavailable` when the server refuses, or `progress` stops
    /// it.
    fn fill(&self, progress: &mut OnProgress<'_>) -> Result<()> {
        match &self.transactions {
            Some(tables) if self.mark.records() != tables.rows => self.refill(tables, progress),
            _ => self.begin(),
        }
    }

    /// Empties, fills and vacuums the tables of transactions, makes a checkpoint. Errors: as [`PostgresTarget::fill`].
    fn refill(&self, tables: &TransactionTables, progress: &mut OnProgress<'_>) -> Result<()> {
        let further = self.further();
        let steps = tables.fill();
        let total = steps.len() as u64;
        for (done, sql) in (0..).zip(&steps) {
            let what = Progress { what: "filling tables", done, total, unit: "steps" };
            if !progress(what) {
                return Err(Error::unavailable("stopped while filling tables"));
            }
            let apply = |admin: &mut AdminLine| {
                // The first statement empties the tables.
                if done > 0 {
                    return admin.apply(sql);
                }
                self.is_own(admin)?;
                admin.apply(sql)?;
                admin.comment(&self.mark.emptied()?)
            };
            if !admin::lock(&self.admin).on_tables(&further, apply)? {
                return Err(Error::target("the table of the run is gone"));
            }
        }
        self.vacuum()?;
        if self.checkpoints {
            admin::lock(&self.admin).do_if_able("CHECKPOINT", CHECKPOINT)?;
        }
        self.mark.note(&self.admin, tables.rows)?;
        self.begin()
    }

    /// Notes the sums over TPC-B's tables, if they are to be checked. Errors: as [`CommitLedger::begin`].
    fn begin(&self) -> Result<()> {
        match self.compared() {
            Some(tables) => self.commits.begin(&mut admin::lock(&self.admin), tables),
            None => Ok(()),
        }
    }

    /// The tables of TPC-B, where `options.check` has them checked after the load.
    fn compared(&self) -> Option<&TransactionTables> {
        let tables = self.transactions.as_ref().filter(|_| self.options.check);
        tables.filter(|tables| tables.benchmark == Benchmark::TpcB)
    }

    /// Vacuums and analyses all tables of the run. Errors: `Target` where one is not the run's any more; `Unavailable`.
    fn vacuum(&self) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        let own = std::slice::from_ref(&self.table);
        let all = self.transactions.as_ref().map_or(own, TransactionTables::names);
        admin.are_parts(&self.further())?;
        all.iter().try_for_each(|table| vacuum(&mut admin, table))
    }

    /// Names of the tables beside the run's own.
    fn further(&self) -> Vec<String> {
        let tables = self.transactions.as_ref();
        tables.map(|tables| tables.further(&self.options.table)).unwrap_or_default()
    }

    /// Makes the check after the load, keeps the result for [`PostgresTarget::judged`], and gives it as facts.
    fn check(&self) -> Vec<(String, String)> {
        let Some(tables) = self.compared() else { return Vec::new() };
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if admin::lock(&self.admin).stop().stopped() {
            return vec![("tpcb.check.failed".to_owned(), "the run was stopped".to_owned())];
        }
        let patience = Duration::from_nanos(self.options.timeout.0);
        let looked = checked.insert(self.commits.check(&self.admin, tables, patience));
        match looked {
            Ok(check) => check.facts(statistics::promise(&self.facts)),
            Err(e) => vec![
                ("tpcb.check.acknowledged".to_owned(), self.commits.acknowledged().to_string()),
                ("tpcb.check.failed".to_owned(), e.to_string()),
            ],
        }
    }

    /// Judges what the check found. Errors: as [`ConsistencyCheck::judged`]; `Unavailable` when it could not be made.
    fn judged(&self) -> Result<()> {
        match self.checked.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Ok(()),
            Some(Ok(check)) => check.judged(statistics::promises(&self.facts)),
            Some(Err(e)) => Err(Error::unavailable(
                "acknowledged transactions were not looked for",
            )
            .with("acknowledged", self.commits.acknowledged())
            .with("leftovers", format!("the table {}", self.table))
            .source(e)
            .hint("options.keep = true leaves the tables; a later run compares their balances")),
        }
    }

    /// A connection for a worker with its statements prepared: a spare one, else a new one.
    fn connect(&self, layout: &TableLayout, stop: &StopFlag) -> Result<PgConnection> {
        let statements = match &self.transactions {
            Some(tables) => tables.statements(),
            None => layout.statements(&self.table, self.options.inserts),
        };
        loop {
            let made = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let spare = made.is_some();
            let server = &admin::lock(&self.admin).server;
            let mut made = match made {
                Some(made) => made,
                None => {
                    self.counters.connect();
                    server.connect(stop)?
                }
            };
            match made.prepare(&statements, server.timeout, stop) {
                Ok(()) => return Ok(made),
                // The server may have closed it for being idle.
                Err(_) if spare => {}
                Err(e) => return Err(server.failed(e)),
            }
        }
    }

    /// Kinds of operations that the server counts as a scan of the table's index; a plain insert is none.
    fn lookups(&self) -> &'static [OpKind] {
        const ALL: [OpKind; 8] = [
            OpKind::Get,
            OpKind::RmwGet,
            OpKind::Update,
            OpKind::RmwUpdate,
            OpKind::Delete,
            OpKind::Scan,
            OpKind::Put,
            OpKind::Insert,
        ];
        if self.options.inserts == InsertRule::Plain { &ALL[..7] } else { &ALL }
    }

    /// Checks, under the locks of the run's tables, that all rows are the run's. Errors: `Target`; `Unavailable`.
    fn is_own(&self, admin: &mut AdminLine) -> Result<()> {
        let table = &self.table;
        if let Some(tables) = &self.transactions {
            let added = self.made.then(|| self.commits.most());
            return own_rows::foreign_ids(admin, tables, added)?.left(table);
        }
        let rules = self.layouts.iter().map(|layout| &layout.rules);
        let own = self.written.keys(rules, self.made, self.mark.records());
        own_rows::foreign_keys(admin, table, &own)?.left(table)?;
        match self.made && !self.shared {
            true => own_rows::written_over(self.changes.of_others(admin, table)?, table),
            false => Ok(()),
        }
    }

    /// Drops the run's tables, unless the mark keeps them. Only the first call does something.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) || self.mark.keeps() {
            return Ok(());
        }
        self.leave().map_err(|e| admin::left(&self.table, e))
    }

    fn leave(&self) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        admin.detach_from_stop()?;
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        statistics::until_gone(&mut admin, &backends);
        // Absent tables are not among them.
        let left = admin.foreign(&self.further())?;
        admin.drop_table(|admin| self.is_own(admin))?;
        match &left[..] {
            [] => Ok(()),
            left => Err(replaced(ErrorKind::Target, &left.join(", "))),
        }
    }
}

/// Makes the run's tables with their marks, in place of that with the OID `goes`. Errors: as [`AdminLine::create`].
fn make(
    admin: &mut AdminLine,
    name: &str,
    (layouts, transactions): (&[TableLayout], Option<&TransactionTables>),
    goes: Option<u32>,
    mark: &mut TableMark,
) -> Result<()> {
    let (sql, further) = match (transactions, layouts) {
        (Some(tables), _) => (tables.create(), tables.further(name)),
        (None, [first, ..]) => (first.create(&admin.qualified()), Vec::new()),
        (None, []) => return Err(Error::internal("no workload")),
    };
    admin.create(goes, &sql, &further, mark)
}

/// The connections of all workers. Errors: as for each of them.
fn connect_all(
    server: &PgServer,
    spec: &OpenSpec<'_>,
    options: &PostgresOptions,
    counters: &ConnectionCounters,
) -> Result<Vec<PgConnection>> {
    let each = |w: &WorkloadPlan| {
        u64::from(w.workers) * u64::from(options.connections.min(w.queue_depth.max(1)))
    };
    let count: u64 = spec.plan.workloads.iter().map(each).sum();
    let one = |_| {
        counters.connect();
        server.connect(spec.stop)
    };
    (0..count).map(one).collect::<Result<_>>().map_err(|e| {
        e.with("connections of all workers", count).with("dropped", "nothing: they are made before")
    })
}

/// Checks that no workload has a queue depth below the number of connections. Errors: `Usage`.
fn check_connections(plan: &Plan, options: &PostgresOptions) -> Result<()> {
    let idle = plan.workloads.iter().position(|w| w.queue_depth < options.connections);
    match idle {
        None => Ok(()),
        Some(i) => Err(Error::usage("more connections than operations in flight")
            .with("options.connections", options.connections)
            .with("queue_depth", plan.workloads[i].queue_depth)
            .hint("the queue depth of a worker is divided over its connections: raise it, as with --depth")),
    }
}

/// Vacuums and analyses a table of the run, where the server has VACUUM. It cannot be in a transaction with a lock,
/// so that the run's own table is looked at right before. Errors: as [`AdminLine::is_held`]; `Unavailable`.
fn vacuum(admin: &mut AdminLine, table: &str) -> Result<()> {
    match admin.is_held()? {
        true => admin.do_if_able(&format!("VACUUM (ANALYZE) {table}"), VACUUM).map(drop),
        false => Ok(()),
    }
}

impl Drop for PostgresTarget {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for PostgresTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let layout = self.layouts.get(usize::from(spec.workload)).cloned();
        let layout = layout.ok_or_else(|| Error::internal("a session of no workload"))?;
        let stop = admin::lock(&self.admin).stop().clone();
        let connections = self.options.connections.min(spec.depth.max(1));
        let made = (0..connections).map(|_| self.connect(&layout, &stop));
        let made = made.collect::<Result<Vec<_>>>()?;
        let mut backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        backends.extend(made.iter().map(|connection| connection.pid));
        if self.server.is_some() {
            made.iter().for_each(|connection| self.placement.connected(connection.pid));
        }
        let sockets = made.into_iter().map(|connection| connection.socket).collect();
        let (errors, counters) = (self.errors.clone(), self.counters.clone());
        let transactions = self.transactions.as_ref().map(|tables| {
            let (depth, tries) = (spec.depth.max(1) as usize, self.options.max_tries);
            TransactionWorker::new(tables, tries, depth, spec.seed, self.commits.clone())
        });
        let written = WriteNotes { keys: self.written.session(), changes: self.changes.session() };
        let notes = (errors, written);
        Ok(Box::new(session::session(sockets, layout, notes, counters, transactions, spec)?))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        match action {
            // Nothing without the right to checkpoints: writes are in the log, and a note before the load says so.
            AdminAction::Flush if !self.checkpoints => Ok(()),
            AdminAction::Flush => admin.do_if_able("CHECKPOINT", CHECKPOINT).map(drop),
            AdminAction::Compact => {
                drop(admin);
                self.vacuum()?;
                match admin::lock(&self.admin).lacking().has(VACUUM) {
                    true => Err(Error::unavailable("the server has no VACUUM")
                        .hint("leave \"compact\" out of run.before")),
                    false => Ok(()),
                }
            }
            AdminAction::DropCaches => Err(Error::unavailable(
                "a server does not drop its buffers: restart it for a cold start",
            )),
            AdminAction::Purge if self.joined => Err(refusal::not_alone()),
            AdminAction::Purge => {
                if let Some(tables) = &self.transactions {
                    drop(admin);
                    return self.refill(tables, &mut |_| true);
                }
                let truncates = format!("TRUNCATE ONLY {}", self.table);
                admin.with_table(TableLock::All, |admin| {
                    self.is_own(admin)?;
                    admin.apply(&truncates)?;
                    admin.comment(&self.mark.emptied()?)
                })?;
                drop(admin);
                self.written.clear();
                self.mark.note(&self.admin, 0)
            }
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn server_process(&self) -> Option<u32> {
        self.server
    }
    fn session_facts(&self) -> Vec<(String, String)> {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let pids: Vec<String> = backends.iter().map(u32::to_string).collect();
        vec![("target.backends".to_owned(), pids.join(" "))]
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        let mut facts = self.errors.facts();
        facts.extend(self.placement.facts());
        facts.extend(self.check());
        if self.counters.has_lost() && self.compared().is_none() {
            facts.push((BROKEN.to_owned(), "true".to_owned()));
        }
        let lacks = admin::lock(&self.admin).lacking().describe();
        facts.extend(lacks.map(|words| ("postgres.lacks".to_owned(), words)));
        facts
    }
    fn is_back(&self) -> bool {
        let until = MonoClock.now().plus(self.options.timeout.0);
        loop {
            let mut admin = admin::lock(&self.admin);
            if admin.ask("SELECT 1").is_ok() {
                return true;
            }
            if admin.stop().stopped() || MonoClock.now() >= until {
                return false;
            }
            drop(admin);
            std::thread::sleep(PAUSE);
        }
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        // Without the series of time-outs: an operation of a pipeline has none.
        self.counters.show("postgres", &mut |name, value| {
            if !name.contains("timeouts") {
                out(name, value);
            }
        });
        self.errors.show(out);
        self.placement.sample(out);
        self.statistics.sample(&mut admin::lock(&self.admin), out);
    }
    fn witness(&self) -> Vec<WitnessCount> {
        if self.shared {
            return Vec::new();
        }
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Before the load the workers' processes are there and are not waited for: they have done nothing.
        let gone = if self.begun.swap(true, Ordering::Relaxed) { &backends[..] } else { &[] };
        if let Some(tables) = &self.transactions {
            let history = Some(tables.history()).filter(|name| !name.is_empty());
            return statistics::transactions(&mut admin::lock(&self.admin), gone, history);
        }
        let lookups = self.single.then_some(self.lookups());
        self.statistics.witness(&mut admin::lock(&self.admin), gone, lookups)
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        if let Err(e) = self.judged() {
            // Tables that are not as was acknowledged are kept, for people and later runs to look at.
            self.closed = true;
            self.mark.keep();
            if let Err(unmarked) = self.mark.note(&self.admin, self.mark.records()) {
                return Err(e.with("not marked as kept", unmarked));
            }
            return Err(e);
        }
        self.end()
    }
}

impl KeyedTarget for PostgresTarget {
    fn records(&self) -> u64 {
        self.mark.records()
    }
    fn lanes(&self) -> u32 {
        self.lanes
    }
    fn written(&self) -> Option<[u64; 3]> {
        Some(self.written.told())
    }
    fn also_written(&self, by_another: [u64; 3]) {
        self.written.add(by_another);
    }
    /// Vacuums the run's own table, unless there are no records, and notes their number in the mark; a rank that joined
    /// does neither. The note commits with synchronous_commit = on, so that all commits before it are on the disk too.
    fn loaded(&self, records: u64) -> Result<()> {
        if self.joined {
            return Ok(());
        }
        let mut admin = admin::lock(&self.admin);
        if admin.stop().stopped() {
            admin.detach_from_stop()?;
        }
        if records > 0 {
            // As `pgbench -i` does: the planner has statistics, and no first vacuum falls into the load.
            vacuum(&mut admin, &self.table)?;
        }
        // Of a table that several ranks write no counts are noted: the others may not have ended.
        if self.mark.keeps() {
            let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let own = std::slice::from_ref(&self.table);
            let tables = self.transactions.as_ref().map_or(own, TransactionTables::names);
            let changes = match self.shared {
                true => None,
                false => statistics::changes(&mut admin, self.version, tables, &backends),
            };
            self.mark.identify(|identity| identity.changes = changes);
        }
        drop(admin);
        self.mark.note(&self.admin, records)
    }
}
