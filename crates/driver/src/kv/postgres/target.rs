//! A table of a server as a target: sessions, administration, statistics, clean-up.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, OpKind, Result, StopFlag};

use super::address::PgAddress;
use super::admin::{self, AdminLine, TableIdentity, TableLock, TableMark};
use super::errors::ServerErrors;
use super::options::{InsertRule, PostgresOptions};
use super::session;
use super::statements::TableLayout;
use super::statistics::{self, StatisticsQueries};
use super::wire::{PgConnection, PgServer};
use crate::contract::{AdminAction, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target};
use crate::kv::rules;
use crate::net::{ConnectionCounters, ServerAddress};
use crate::ownership::{HeldMark, OwnershipDecision, refusal};
use crate::{path_error, space, trial};

/// What a server adds to a row of a table and its index at least, bytes: heads and pointers.
const ROW: f64 = 48.0;

/// The fact that says whether the user may have checkpoints made.
const MAY_CHECKPOINT: &str = "postgres.may_checkpoint";

/// The target.
pub struct PostgresTarget {
    options: PostgresOptions,
    layouts: Vec<TableLayout>,
    /// As SQL takes it.
    table: String,
    admin: Mutex<AdminLine>,
    mark: HeldMark<TableIdentity>,
    facts: Vec<(String, String)>,
    notes: Vec<String>,
    /// The user may have checkpoints made.
    checkpoints: bool,
    statistics: StatisticsQueries,
    counters: Arc<ConnectionCounters>,
    errors: Arc<ServerErrors>,
    /// Made before anything was dropped.
    spare: Mutex<Vec<PgConnection>>,
    /// Processes of the server that serve the workers.
    backends: Mutex<Vec<u32>>,
    /// The load has been there, or is.
    begun: AtomicBool,
    /// Each operation is one statement.
    single: bool,
    closed: bool,
}

/// What [`PostgresTarget::open`] would refuse; nothing is changed. Errors: as there.
pub fn check(options: &PostgresOptions, spec: &OpenSpec<'_>) -> Result<()> {
    Reached::to(options, spec)?.decide(spec).map(drop)
}

/// A server that answers, before the guard is asked.
struct Reached {
    options: PostgresOptions,
    layouts: Vec<TableLayout>,
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
        let shape = layouts.first().map(TableLayout::shape).unwrap_or_default();
        if layouts.iter().any(|layout| layout.shape() != shape) {
            return Err(Error::usage("workloads whose values have different fields").hint(
                "the columns of a table are the same for all: give all workloads one `value`",
            ));
        }
        let server = PgServer::new(address, &options)?;
        let admin = AdminLine::open(server, &options.table, spec.stop)?;
        let named = admin.named();
        let same = |name: &str| name == named.confirm;
        let confirmed = refusal::confirmed(target.destroy, spec.destroy, &named, same)?;
        let identity = TableIdentity { oid: 0, columns: shape };
        let new = TableMark::new(identity, spec.run_id, options.keep, rules::form(plan));
        Ok(Reached { options, layouts, admin, new, confirmed })
    }

    /// What becomes of the table that is there, and its OID; nothing is changed. Errors: `Refused` when Taillight did not
    /// make it, `Unavailable` when the records of the plan do not fit.
    fn decide(
        &mut self,
        spec: &OpenSpec<'_>,
    ) -> Result<(OwnershipDecision<TableIdentity>, Option<u32>)> {
        let found = self.admin.found()?;
        let (mark, named) = (found.mark.as_ref(), self.admin.named());
        let decision = TableMark::decide(&self.new, mark, found.contents, self.confirmed, &named)?;
        let (have, goes) = match &decision {
            OwnershipDecision::Create => (0, 0),
            OwnershipDecision::Reuse(mark) => (mark.records, 0),
            OwnershipDecision::Wipe => {
                let table = super::statements::literal(&self.admin.qualified());
                let size = format!("SELECT pg_total_relation_size(to_regclass({table}))");
                (0, self.admin.value(&size)?.and_then(|size| size.parse().ok()).unwrap_or(0))
            }
        };
        if let Some(free) = self.free()? {
            let free = free.saturating_add(goes);
            space::fits(spec.plan, have, free, |w| space::record_bytes(w) + ROW)?;
        }
        Ok((decision, found.oid))
    }

    /// Bytes free where the server keeps its data; none where that is not on this machine, or not shown.
    fn free(&mut self) -> Result<Option<u64>> {
        let local = match &self.admin.server.address.server {
            ServerAddress::Unix(_) => true,
            ServerAddress::Tcp(host, _) => ["127.0.0.1", "localhost", "::1"].contains(&&**host),
        };
        let dir =
            self.admin.value("SELECT setting FROM pg_settings WHERE name = 'data_directory'")?;
        let dir = dir.filter(|dir| local && Path::new(dir).join("PG_VERSION").exists());
        dir.map(|dir| path_error::free_space(dir.as_ref())).transpose()
    }
}

impl PostgresTarget {
    /// Connects, passes the guard, makes the table. Errors: `Usage`, `Refused` or `Unavailable`; then everything is
    /// as it was.
    pub fn open(options: &PostgresOptions, spec: &OpenSpec<'_>) -> Result<PostgresTarget> {
        let mut at = Reached::to(options, spec)?;
        let (decision, there) = at.decide(spec)?;
        let Reached { options, layouts, mut admin, mut new, .. } = at;
        let (table, counters) = (admin.qualified(), ConnectionCounters::default());
        let mut facts = vec![
            ("target.kind".to_owned(), "server".to_owned()),
            ("target.server".to_owned(), admin.server.address.shown()),
            ("postgres.database".to_owned(), admin.server.address.database.clone()),
            ("postgres.table".to_owned(), table.clone()),
        ];
        facts.extend(statistics::settings(&mut admin)?);
        let version = admin.value("SHOW server_version_num")?.and_then(|v| v.parse().ok());
        let version = version.unwrap_or(0);
        let checkpoints = statistics::may_checkpoint(&mut admin, version)?;
        facts.push((MAY_CHECKPOINT.to_owned(), checkpoints.to_string()));
        let statistics = StatisticsQueries::new(version, &table);
        let mut spare = Vec::new();
        if decision == OwnershipDecision::Wipe {
            // What is not to be had must not cost what is there.
            trial::workers(spec.plan)?;
            spare = connect_all(&admin.server, spec, &options, &counters)?;
        }
        let mark = match decision {
            OwnershipDecision::Reuse(kept) => kept,
            other => {
                let first = layouts.first().ok_or_else(|| Error::internal("no workload"))?;
                let goes = there.filter(|_| other == OwnershipDecision::Wipe);
                admin.create(goes, &first.create(&table), &mut new)?;
                new
            }
        };
        admin.hold(&mark);
        let mark = HeldMark::new(mark, rules::changes(spec.plan).1);
        statistics.sample(&mut admin, &mut |_, _| ());
        Ok(PostgresTarget {
            notes: notes(&facts),
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
            begun: AtomicBool::new(false),
            single: spec.plan.workloads.iter().all(|w| w.batch <= 1),
            closed: false,
        })
    }

    /// A connection for a worker with its statements prepared.
    fn connect(&self, layout: &TableLayout, stop: &StopFlag) -> Result<PgConnection> {
        let statements = layout.statements(&self.table, self.options.inserts);
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

    /// Operations that look into the table's index by a scan; a plain insert does it without one.
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

    /// Drops the table that this run made; what was kept before stays.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) || self.mark.keeps() {
            return Ok(());
        }
        self.leave().map_err(|e| admin::left(&self.table, e))
    }

    fn leave(&self) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        admin.settle()?;
        // An absent table is nobody's.
        admin.drop_table()
    }
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

/// Whether each connection has an operation to wait for. Errors: `Usage`.
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

/// What the server's settings mean for what is acknowledged.
fn notes(facts: &[(String, String)]) -> Vec<String> {
    let is = |name: &str, value: &str| facts.iter().any(|(n, v)| n == name && v == value);
    let mut notes = Vec::new();
    if is("postgres.synchronous_commit", "off") {
        notes.push(
            "synchronous_commit = off: writes are acknowledged before they are on the disk; a crash \
             of the server loses the last ones, up to three times its wal_writer_delay"
                .to_owned(),
        );
    }
    if is("postgres.fsync", "off") {
        notes.push(
            "fsync = off: nothing is made durable; a crash of the machine may lose or damage all"
                .to_owned(),
        );
    }
    if is(MAY_CHECKPOINT, "false") {
        notes.push(
            "the user may have no checkpoint made (role pg_checkpoint): what the load leaves in the \
             server's memory is written during the run, by the server's own checkpoints"
                .to_owned(),
        );
    }
    if is("postgres.full_page_writes", "off") {
        notes
            .push("full_page_writes = off: a crash of the machine may leave torn pages".to_owned());
    }
    notes
}

/// Vacuums and analyses the run's table. VACUUM cannot be in a transaction with a lock of the table, so that the table
/// is looked at right before. Errors: as [`AdminLine::is_held`].
fn vacuum(admin: &mut AdminLine, table: &str) -> Result<()> {
    match admin.is_held()? {
        true => admin.ask_patiently(&format!("VACUUM (ANALYZE) {table}")).map(drop),
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
        let sockets = made.into_iter().map(|connection| connection.socket).collect();
        let (errors, counters) = (self.errors.clone(), self.counters.clone());
        Ok(Box::new(session::session(sockets, layout, errors, counters, spec)?))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        match action {
            // Without the right to one, what is written is in the log, and the note before the load says so.
            AdminAction::Flush if !self.checkpoints => Ok(()),
            AdminAction::Flush => admin.ask_patiently("CHECKPOINT").map(drop),
            AdminAction::Compact => vacuum(&mut admin, &self.table),
            AdminAction::DropCaches => Err(Error::unavailable(
                "a server does not drop its buffers: restart it for a cold start",
            )),
            AdminAction::Purge => {
                admin.on_table(TableLock::All, &format!("TRUNCATE {}", self.table))?;
                drop(admin);
                self.mark.note(&self.admin, 0)
            }
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn session_facts(&self) -> Vec<(String, String)> {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner);
        let pids: Vec<String> = backends.iter().map(u32::to_string).collect();
        vec![("target.backends".to_owned(), pids.join(" "))]
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        self.errors.facts()
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        // No operation of a pipeline has a time-out of its own.
        self.counters.show("postgres", &mut |name, value| {
            if !name.contains("timeouts") {
                out(name, value);
            }
        });
        self.errors.show(out);
        self.statistics.sample(&mut admin::lock(&self.admin), out);
    }
    fn witness(&self) -> Vec<WitnessCount> {
        let backends = self.backends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Before the load the workers are there, and have done nothing.
        let gone = if self.begun.swap(true, Ordering::Relaxed) { &backends[..] } else { &[] };
        let lookups = self.single.then_some(self.lookups());
        self.statistics.witness(&mut admin::lock(&self.admin), gone, lookups)
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl KeyedTarget for PostgresTarget {
    fn records(&self) -> u64 {
        self.mark.records()
    }
    /// Vacuums the table, unless there are no records. The note commits with synchronous_commit = on, so that all
    /// commits before it are on the disk too.
    fn loaded(&self, records: u64) -> Result<()> {
        let mut admin = admin::lock(&self.admin);
        if admin.stop().stopped() {
            admin.settle()?;
        }
        if records > 0 {
            // As `pgbench -i` does: the planner knows what is there, and no first vacuum falls into the load.
            vacuum(&mut admin, &self.table)?;
        }
        drop(admin);
        self.mark.note(&self.admin, records)
    }
}
