//! The keys under one prefix of a Redis server as a target: opening past the guard, sessions, administration,
//! statistics, and the deletion of what the run made.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::witness::WitnessCount;
use taillight_core::{Error, ErrorKind, OpKind, Result, StopFlag};

use super::address::DatabaseAddress;
use super::admin::{self, AdminConnection, INDEX, INDEXED, KeyIdentity, KeyMark};
use super::decision::{self, KeyDecision};
use super::options::RedisOptions;
use super::records::{KnownRecords, RecordForm};
use super::sample;
use super::session::{self, RecordLayout};
use super::wire::{Reply, RespSocket};
use crate::contract::{AdminAction, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target};
use crate::kv::rules::{self, WorkloadRules};
use crate::kv::written::{ForeignRecords, WrittenKeys};
use crate::ownership::{HeldMark, MarkStore, OwnershipDecision, refusal};
use crate::space;
use crate::trial;

/// The environment variable that holds the password.
const PASSWORD: &str = "REDIS_PASSWORD";

/// What a server needs at least for a record besides key and value, bytes: entry, object.
const RECORD: f64 = 40.0;

/// Fields of INFO that become facts of the run.
const FACTS: [&str; 5] =
    ["redis_version", "valkey_version", "maxmemory_policy", "aof_enabled", "io_threads_active"];

/// The target.
pub struct RedisTarget {
    address: DatabaseAddress,
    options: RedisOptions,
    password: Option<String>,
    layouts: Vec<RecordLayout>,
    written: WrittenKeys,
    /// Forms of the records of this run's plan.
    forms: Vec<RecordForm>,
    /// Records of an earlier run are there, of whatever size.
    reused: bool,
    admin: Mutex<AdminConnection>,
    mark: HeldMark<KeyIdentity>,
    facts: Vec<(String, String)>,
    /// Connections for workers, made before keys were deleted; empty where none were, and when they are used up.
    sockets: Mutex<Vec<RespSocket>>,
    /// Whether the plan scans; none where the server's counts of commands cannot be compared with those of operations.
    scans: Option<bool>,
    lanes: u32,
    /// This is a rank that joined: rank 0 of the run holds the prefix.
    joined: bool,
    closed: bool,
}

/// What [`RedisTarget::open`] would refuse; nothing is changed. Errors: as there.
pub fn check(options: &RedisOptions, spec: &OpenSpec<'_>) -> Result<()> {
    let at = Connected::to(options, spec)?;
    if spec.joins() { Ok(()) } else { at.decide(spec.plan).map(drop) }
}

/// A server that answers, with the run's prefix locked, before anything is decided.
struct Connected {
    address: DatabaseAddress,
    options: RedisOptions,
    password: Option<String>,
    layouts: Vec<RecordLayout>,
    written: WrittenKeys,
    admin: Mutex<AdminConnection>,
    /// The mark that the run would write.
    new: KeyMark,
    /// The loss of keys that are there is confirmed.
    confirmed: bool,
}

impl Connected {
    fn to(options: &RedisOptions, spec: &OpenSpec<'_>) -> Result<Connected> {
        let plan = spec.plan;
        let target = &plan.target;
        let options = options.clone();
        let address = DatabaseAddress::parse(target.path.as_deref())?;
        let confirmed = admin::confirmed(target.destroy, spec.destroy, &address)?;
        check_connections(plan, &options)?;
        let written = WrittenKeys::of(plan);
        let layouts = layouts(plan, &options)?;
        let password = std::env::var(PASSWORD).ok().filter(|p| !p.is_empty());
        let timeout = Duration::from_nanos(options.timeout.0);
        let admin = AdminConnection::open(
            address.clone(),
            password.clone(),
            &options.prefix,
            timeout,
            (spec.stop, spec.joins()),
        )?;
        let admin = Mutex::new(admin);
        let index = if options.index { INDEXED } else { "" };
        let form = rules::form(plan) + index;
        let identity = KeyIdentity { written: RecordForm::of(plan) };
        let new = KeyMark::new(identity, spec.run_id, options.keep, form);
        Ok(Connected { address, options, password, layouts, written, admin, new, confirmed })
    }

    /// Decides what becomes of the keys that are there; nothing is changed. Errors: as [`decision::decide`], and
    /// `Unavailable` when the records of the plan's first workload do not fit into the server's memory.
    fn decide(&self, plan: &Plan) -> Result<KeyDecision> {
        let writes = rules::changes(plan).0;
        let decided = decision::decide(&self.admin, &self.new, writes, self.confirmed)?;
        let info = info(&mut admin::lock(&self.admin))?;
        let Some(free) = room(&info) else { return Ok(decided) };
        let have = match &decided.decision {
            OwnershipDecision::Reuse(mark) => mark.records,
            _ => 0,
        };
        let fits = |free| space::fits(plan, have, free, |w| space::record_bytes(w) + RECORD);
        let mut fit = fits(free);
        if fit.is_err() && !decided.goes.is_empty() {
            // Keys that are deleted make room: their share of the server's data by number, as sizes are not known.
            let data = number(&info, "used_memory_dataset").unwrap_or(0) as f64;
            let share = decided.goes.len() as f64 / keys(&info).max(1) as f64;
            fit = fits(free.saturating_add((data * share.min(1.0)) as u64));
        }
        fit.map(|()| decided)
    }

    /// Marks the prefix as ours and deletes the keys that give way. Gives the mark, whether records of an earlier run
    /// are reused, and the connections of all workers where keys were deleted. Errors: as [`Connected::decide`] and
    /// [`decision::claim`]; `Unavailable` where not all workers can connect.
    fn claim(&self, spec: &OpenSpec<'_>) -> Result<(HeldMark<KeyIdentity>, bool, Vec<RespSocket>)> {
        let mut decided = self.decide(spec.plan)?;
        if let (true, OwnershipDecision::Reuse(kept)) = (spec.shares(), &mut decided.decision) {
            spec.run_id.clone_into(&mut kept.last_run);
            decided.extends = true;
        }
        let reused = matches!(decided.decision, OwnershipDecision::Reuse(_));
        let mut sockets = Vec::new();
        if !decided.goes.is_empty() {
            trial::workers(spec.plan)?;
            let way = ServerWay {
                address: &self.address,
                password: self.password.as_deref(),
                stop: spec.stop,
            };
            sockets = way.of_all_workers(spec.plan, &self.options)?;
        }
        let forgets = rules::changes(spec.plan).1;
        let mark = decision::claim(&self.admin, self.new.clone(), decided, forgets)?;
        Ok((mark, reused, sockets))
    }

    /// The mark that rank 0 has made or taken over. Errors: `Refused` where this is another server.
    fn join(&self, spec: &OpenSpec<'_>) -> Result<HeldMark<KeyIdentity>> {
        let found = admin::mark(&self.admin)?;
        let mark = KeyMark::of_run(found, spec.run_id, &self.address.to_text())?;
        Ok(HeldMark::new(mark, false))
    }
}

impl RedisTarget {
    /// Connects, passes the guard, marks the prefix as ours and deletes the keys that give way. Errors: `Usage`,
    /// `Refused` or `Unavailable`.
    pub fn open(options: &RedisOptions, spec: &OpenSpec<'_>) -> Result<RedisTarget> {
        let at = Connected::to(options, spec)?;
        let joined = spec.joins();
        // The server is asked before anything is changed.
        let facts = facts(&mut admin::lock(&at.admin), &at.address)?;
        let (mark, reused, sockets) = match joined {
            true => (at.join(spec)?, false, Vec::new()),
            false => at.claim(spec)?,
        };
        let Connected { address, options, password, layouts, written, admin, new, .. } = at;
        Ok(RedisTarget {
            address,
            options,
            password,
            layouts,
            written,
            forms: new.identity.written,
            reused,
            admin,
            mark,
            facts,
            sockets: Mutex::new(sockets),
            scans: counted(spec.plan),
            lanes: rules::lanes(spec.plan),
            joined,
            closed: joined,
        })
    }

    /// A connection for a worker: one of those made before keys were deleted, as long as there are any, else a new one.
    fn socket(&self, stop: &StopFlag) -> Result<RespSocket> {
        let timeout = Duration::from_nanos(self.options.timeout.0);
        loop {
            let made = self.sockets.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut made) = made else { break };
            // The server may have closed it for being idle.
            if made.ask(&[b"PING"], timeout, stop).is_ok() {
                return Ok(made);
            }
        }
        let password = self.password.as_deref();
        ServerWay { address: &self.address, password, stop }.connect(&self.options)
    }

    fn admin(&self) -> MutexGuard<'_, AdminConnection> {
        admin::lock(&self.admin)
    }

    /// Deletes the records and the mark, unless the mark keeps them. Only the first call does something.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        if self.mark.keeps() {
            return Ok(());
        }
        self.leave().map_err(|e| match e.kind() {
            ErrorKind::Unavailable => {
                let prefix = &self.options.prefix;
                let left = format!("keys {prefix}:* that the run wrote, and its mark");
                e.with("leftovers", left)
            }
            _ => e,
        })
    }

    /// Checks that the mark is still this run's: without it no key is known to be the run's. Errors: `Target`.
    fn still_marked(&self) -> Result<()> {
        let what = match admin::mark(&self.admin)? {
            Some(mark) if mark.run_id == self.mark.run_id() => return Ok(()),
            Some(_) => "another run took the prefix over; its keys were left alone",
            None => {
                "the mark of the run is gone (as after FLUSHDB, or dropped by the server for room); keys were left alone"
            }
        };
        Err(Error::target(what)
            .with("options.prefix", &self.options.prefix)
            .hint("look what is under the prefix before you use it again"))
    }

    fn leave(&self) -> Result<()> {
        self.admin().detach_from_stop()?;
        self.still_marked()?;
        let foreign = self.purge()?;
        self.admin.remove()?;
        foreign.told()
    }

    /// Deletes the sorted set, and records of this run's plan: of the key numbers that it has written, and of those
    /// that the mark notes of earlier runs. Returns what somebody else has put under their names.
    fn purge(&self) -> Result<ForeignRecords> {
        let known = KnownRecords::of(&self.options.prefix, &self.forms)?;
        let known = known.with_sizes(match self.reused {
            true => 1..=u64::MAX,
            false => self.written.sizes(),
        });
        let mut admin = self.admin();
        let mut foreign = known.delete(&mut admin, &self.written.range(self.mark.records()))?;
        if self.options.index && !admin.delete_index()? {
            foreign.note(admin.index_key().as_bytes());
        }
        self.written.clear();
        Ok(foreign)
    }
}

/// What is needed to connect to a server.
struct ServerWay<'a> {
    address: &'a DatabaseAddress,
    password: Option<&'a str>,
    stop: &'a StopFlag,
}

impl ServerWay<'_> {
    fn connect(&self, options: &RedisOptions) -> Result<RespSocket> {
        let timeout = Duration::from_nanos(options.timeout.0);
        admin::greet(self.address, self.password, timeout, self.stop)
    }

    /// The connections of all workers. Errors: as for each of them.
    fn of_all_workers(&self, plan: &Plan, options: &RedisOptions) -> Result<Vec<RespSocket>> {
        let each = |w: &WorkloadPlan| {
            u64::from(w.workers) * u64::from(options.connections.min(w.queue_depth.max(1)))
        };
        let count: u64 = plan.workloads.iter().map(each).sum();
        (0..count).map(|_| self.connect(options)).collect::<Result<_>>().map_err(|e| {
            e.with("connections of all workers", count)
                .with("deleted", "nothing: they are made before")
        })
    }
}

/// Checks that no workload has a queue depth below the number of connections. Errors: `Usage`.
fn check_connections(plan: &Plan, options: &RedisOptions) -> Result<()> {
    let idle = plan.workloads.iter().position(|w| w.queue_depth < options.connections);
    match idle {
        None => Ok(()),
        Some(i) => Err(Error::usage("more connections than operations in flight")
            .with("options.connections", options.connections)
            .with("queue_depth", plan.workloads[i].queue_depth)
            .hint("the queue depth of a worker is divided over its connections: raise it, as with --depth")),
    }
}

/// [`one_command_each`] where the server counts the commands of this process only: not beside other ranks.
fn counted(plan: &Plan) -> Option<bool> {
    one_command_each(plan).filter(|_| plan.ranks.is_none())
}

/// Whether the plan scans; none where batches or scans of records with fields ask for these one by one.
fn one_command_each(plan: &Plan) -> Option<bool> {
    let fields = |w: &WorkloadPlan| w.value.as_ref().is_some_and(|value| value.fields > 1);
    let several = |w: &WorkloadPlan| fields(w) && (w.batch > 1 || has(w, OpKind::Scan));
    let has_scans = plan.workloads.iter().any(|w| has(w, OpKind::Scan));
    (!plan.workloads.iter().any(several)).then_some(has_scans)
}

fn has(w: &WorkloadPlan, op: OpKind) -> bool {
    w.mix.iter().any(|part| part.op == op)
}

/// How each workload's records are stored.
fn layouts(plan: &Plan, options: &RedisOptions) -> Result<Vec<RecordLayout>> {
    let layout = |w| -> Result<RecordLayout> {
        let rules = WorkloadRules::of(w, false)?;
        let value = w.value.clone().unwrap_or_default();
        let names = match value.fields {
            1 => Vec::new(),
            n => (0..n).map(|i| format!("{}{i}", value.prefix)).collect(),
        };
        Ok(RecordLayout {
            rules,
            prefix: format!("{}:", options.prefix).into_bytes(),
            index: match options.index {
                true => format!("{}{INDEX}", options.prefix).into_bytes(),
                false => Vec::new(),
            },
            names,
        })
    };
    plan.workloads.iter().map(layout).collect()
}

/// The text of the server's INFO. Errors: `Unavailable`.
fn info(admin: &mut AdminConnection) -> Result<String> {
    match admin.ask(&[b"INFO"])? {
        Reply::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
        _ => Err(Error::unavailable("the server's answer to INFO is no text")),
    }
}

/// A number of INFO.
fn number(info: &str, wanted: &str) -> Option<u64> {
    let mut lines = info.lines().filter_map(|l| l.split_once(':'));
    lines.find(|(name, _)| *name == wanted)?.1.trim().parse().ok()
}

/// Keys of all databases, by INFO.
fn keys(info: &str) -> u64 {
    let databases = info.lines().filter(|line| line.starts_with("db"));
    let count = |line: &str| line.split_once(":keys=")?.1.split(',').next()?.parse::<u64>().ok();
    databases.filter_map(count).sum()
}

/// Bytes left of the server's `maxmemory`, or without one of its machine's memory, by its INFO; none
/// where the server evicts keys to make room, or INFO does not say it.
fn room(info: &str) -> Option<u64> {
    let machine = || number(info, "total_system_memory");
    let most = match number(info, "maxmemory")? {
        0 => machine()?,
        most if info.contains("maxmemory_policy:noeviction") => most,
        _ => return None,
    };
    Some(most.saturating_sub(number(info, "used_memory")?))
}

fn facts(admin: &mut AdminConnection, address: &DatabaseAddress) -> Result<Vec<(String, String)>> {
    let mut facts = vec![
        ("target.kind".to_owned(), "server".to_owned()),
        ("target.server".to_owned(), address.to_text()),
    ];
    let text = info(admin)?;
    let lines = text.lines().filter_map(|l| l.split_once(':'));
    let known = lines.filter(|(name, _)| FACTS.contains(name));
    facts.extend(known.map(|(name, value)| (format!("redis.{name}"), value.to_owned())));
    Ok(facts)
}

impl Drop for RedisTarget {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for RedisTarget {
    fn geometry(&self) -> Geometry {
        Geometry::keyed()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let layout = self.layouts.get(usize::from(spec.workload)).cloned();
        let layout = layout.ok_or_else(|| Error::internal("a session of no workload"))?;
        let stop = self.admin().stop().clone();
        let connections = self.options.connections.min(spec.depth.max(1));
        let sockets = (0..connections).map(|_| self.socket(&stop).map(|socket| socket.0));
        let sockets = sockets.collect::<Result<Vec<_>>>()?;
        Ok(Box::new(session::session(sockets, layout, self.written.session(), spec)?))
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        match action {
            // Nothing to do: records are in the server's memory, and saving them is left to the server's settings.
            AdminAction::Flush => Ok(()),
            AdminAction::Compact | AdminAction::DropCaches => Err(Error::unavailable(
                "a server in memory has nothing to compact and no caches to drop",
            )),
            AdminAction::Purge if self.joined => Err(refusal::not_alone()),
            AdminAction::Purge => {
                self.still_marked()?;
                let foreign = self.purge()?;
                self.mark.note(&self.admin, 0)?;
                foreign.told()
            }
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        Some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let Some(Reply::Text(text)) = self.admin().glance(&[b"INFO"]) else {
            return;
        };
        sample::numbers(&String::from_utf8_lossy(&text), out);
    }
    fn witness(&self) -> Vec<WitnessCount> {
        let Some(scans) = self.scans else { return Vec::new() };
        match self.admin().glance(&[b"INFO", b"commandstats"]) {
            Some(Reply::Text(text)) => sample::commands(&String::from_utf8_lossy(&text), scans),
            _ => Vec::new(),
        }
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        self.end()
    }
}

impl KeyedTarget for RedisTarget {
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
    fn loaded(&self, records: u64) -> Result<()> {
        if self.joined {
            return Ok(());
        }
        let mut admin = self.admin();
        if admin.stop().stopped() {
            admin.detach_from_stop()?;
        }
        drop(admin);
        self.mark.note(&self.admin, records)
    }
}
