//! An opened target of a plug-in: the mark in the store and what that allows, sessions,
//! administration, statistics, and an orderly end.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::capability::Capabilities;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::{Error, Result};

use super::carrier::{PluginCarrier, PluginHandle};
use super::mark::{MARK_MAX, MarkKeeper, PluginIdentity, PluginMark};
use super::noop::{self, NoopContents, NoopTarget};
use super::session::{HostSession, PluginSeat, PluginSession, StoreTime};
use super::{Plugin, PluginSettings};
use crate::conformance::RUN_ID;
use crate::contract::{
    AdminAction, BoundDriver, Geometry, KeyedTarget, OpenSpec, Session, SessionSpec, Target,
    TargetBridge, TargetPause,
};
use crate::kv::rules::{self, WorkloadRules};
use crate::kv::written::WrittenKeys;
use crate::ownership::{
    Contents, HeldMark, MarkStore, NamedTarget, OwnershipDecision, OwnershipMark, refusal,
};

/// Number of the host's own session.
const HOST: u32 = u32::MAX;
/// `TL_EMPTY`: whether anything is stored.
pub(crate) const EMPTY: u32 = 16;

/// Series that one look at a plug-in's statistics gives, at most.
const SERIES_MAX: u32 = 1000;

/// What was settled before the plug-in is asked to open anything.
pub struct PluginRequest {
    settings: PluginSettings,
    can: Capabilities,
    rules: Vec<WorkloadRules>,
    named: NamedTarget,
    /// The loss of what is there is confirmed.
    pub(crate) confirmed: bool,
}

/// What [`PluginTarget::open`] would refuse without asking the plug-in to open; nothing is changed. Errors: as there.
pub fn check(spec: &OpenSpec<'_>, settings: PluginSettings) -> Result<PluginRequest> {
    let plan = spec.plan;
    let said = &settings.plugin.description;
    let can = settings.capabilities();
    let name = plan.target.path.as_deref().unwrap_or(&settings.options.name);
    let named = NamedTarget::of(name);
    let real = |path: &str| std::fs::canonicalize(path).ok();
    let same = |other: &str| other == name || real(other).is_some_and(|r| Some(r) == real(name));
    let confirmed = refusal::confirmed(plan.target.destroy, spec.destroy, &named, same)?;
    let (writes, _) = rules::changes(plan);
    if !said.keyed() && said.stores_data && writes {
        // Blocks have no place for a mark.
        refusal::foreign(confirmed, &named, None)?;
    }
    if !said.fields && plan.workloads.iter().any(updates_fields) {
        return Err(Error::usage(format!("plug-in `{}` does not update single fields", said.name))
            .hint("use value = { fields = 1 }, or let updates write all fields: value.write_all = true"));
    }
    let loads = plan.workloads.iter().any(|w| w.keys.is_some()) && !settings.options.read_only;
    if said.keyed() && said.stores_data && loads && !settings.options.keep && !deletes(&can) {
        return Err(Error::usage(format!(
            "plug-in `{}` cannot delete what the run stores",
            said.name
        ))
        .hint("set options.keep = true: its records stay; or give the plug-in `delete`"));
    }
    let keyed = said.keyed();
    let rules = plan.workloads.iter().filter(|_| keyed).map(|w| WorkloadRules::of(w, false));
    let rules = rules.collect::<Result<_>>()?;
    Ok(PluginRequest { settings, can, rules, named, confirmed })
}

fn deletes(can: &Capabilities) -> bool {
    can.admin.contains(&AdminAction::Purge)
}

/// Whether the workload may update one of several fields.
fn updates_fields(w: &WorkloadPlan) -> bool {
    use taillight_core::OpKind::{Rmw, Update};
    let updates = w.mix.iter().any(|part| matches!(part.op, Update | Rmw));
    updates && w.value.as_ref().is_some_and(|v| v.fields > 1 && !v.write_all)
}

/// What the store's own side has done so far.
#[derive(Debug, Clone, Copy, Default)]
struct StoreShare {
    inside_ns: u64,
    operations: u64,
    /// CPU time of a program, or of this process with a library in it.
    cpu_ns: Option<u64>,
}

/// The target.
pub struct PluginTarget {
    plugin: &'static Plugin,
    handle: PluginHandle,
    can: Capabilities,
    rules: Vec<WorkloadRules>,
    /// Records of the largest batch of each workload.
    batches: Vec<u32>,
    geometry: Geometry,
    /// Whose the records are; none where nothing is stored or written.
    mark: Option<(MarkKeeper, HeldMark<PluginIdentity>)>,
    identity: PluginIdentity,
    /// Records that are believed to be there, where nothing is written; else 0.
    believed: u64,
    written: WrittenKeys,
    times: Mutex<Vec<Arc<StoreTime>>>,
    /// As the load began, which may not be the first one on this target.
    began: Mutex<StoreShare>,
    /// What operations that do nothing carry.
    carried: NoopContents,
    pub(crate) facts: Vec<(String, String)>,
    /// Facts that the load leaves behind.
    pub(crate) end_facts: fn() -> Vec<(String, String)>,
    pub(crate) pauses: fn() -> Option<Vec<TargetPause>>,
    /// A load begins, which may not be the first one on this target.
    pub(crate) begins: fn(),
    closed: bool,
    lanes: u32,
    /// Another rank of the run, rank 0, has marked the store.
    joined: bool,
}

impl PluginTarget {
    /// Opens, tries the operation that does nothing, passes the guard, deletes what a mark names and no longer keeps, writes the mark.
    /// Errors: `Usage` and `Refused` before anything is written, `Unavailable` and `Target` also later.
    pub fn open(spec: &OpenSpec<'_>, asked: PluginRequest) -> Result<PluginTarget> {
        let plan = spec.plan;
        let PluginRequest { settings, can, rules, named, confirmed } = asked;
        let plugin = settings.plugin;
        let size = plan.target.size.map_or(0, |s| s.0);
        let (handle, shape) = plugin.carrier.open(&plan_json(spec, &settings)?, size)?;
        let geometry = match can.keyed() {
            true => Geometry::keyed(),
            false => Geometry {
                files: 1,
                file_size: shape.file_size,
                align: u64::from(shape.align.max(1)),
            },
        };
        (spec.fits)(geometry)?;
        let count = plan.workloads.iter().filter_map(|w| w.keys.as_ref()).map(|k| k.count).max();
        let mut target = PluginTarget {
            plugin,
            handle,
            can,
            rules,
            batches: plan.workloads.iter().map(|w| w.batch).collect(),
            geometry,
            mark: None,
            identity: PluginIdentity::of(plan, false),
            believed: if settings.options.read_only { count.unwrap_or(0) } else { 0 },
            written: WrittenKeys::of(plan),
            times: Mutex::default(),
            began: Mutex::default(),
            carried: NoopContents::default(),
            facts: Vec::new(),
            end_facts: Vec::new,
            pauses: || None,
            begins: || (),
            // Nothing of the run is there yet.
            closed: true,
            lanes: rules::lanes(plan),
            joined: spec.joins(),
        };
        let here = plan.target.path.as_deref().is_some_and(|path| Path::new(path).exists());
        // What a check confirms lies in its own directory; where nothing is there, the store is elsewhere.
        let confirmed = confirmed && (here || spec.run_id != RUN_ID);
        let unmarked = target.can.stores_data && !target.can.keyed() && rules::changes(plan).0;
        if unmarked && !confirmed && !target.is_empty() {
            refusal::foreign(false, &named, None)?;
        }
        noop::check(&mut target.host(1)?)?;
        target.carried = NoopContents::of(plan, target.rules.first());
        target.facts = target.disclosed(spec);
        if target.can.keyed() && target.can.stores_data && !settings.options.read_only {
            let keeper = MarkKeeper::new(target.host(1)?, &target.can.ops)?;
            match target.joined {
                true => target.join(keeper, spec, &named)?,
                false => target.claim(keeper, spec, settings.options.keep, confirmed, &named)?,
            }
            target.closed = target.joined;
        }
        Ok(target)
    }

    /// Beside rank 0, which has marked the store. Errors: `Refused` where this is another store.
    fn join(&mut self, keeper: MarkKeeper, spec: &OpenSpec<'_>, named: &NamedTarget) -> Result<()> {
        let found = keeper.read()?.and_then(|bytes| PluginMark::parse(&bytes).ok());
        let mark = PluginMark::of_run(found, spec.run_id, &named.shown)?;
        self.mark = Some((keeper, HeldMark::new(mark, false)));
        Ok(())
    }

    /// Decides what becomes of what is there, and marks it as ours.
    fn claim(
        &mut self,
        keeper: MarkKeeper,
        spec: &OpenSpec<'_>,
        keep: bool,
        confirmed: bool,
        named: &NamedTarget,
    ) -> Result<()> {
        let found = keeper.read()?.map(|bytes| PluginMark::parse(&bytes)).transpose();
        let found = found.map_err(|e| {
            Error::corrupt("the mark in the store cannot be read").source(e).hint(named.way_out())
        })?;
        kept_from_checks(found.as_ref(), spec.run_id)?;
        // A mark frees the records that it names, and no others of the store.
        if found.as_ref().is_some_and(|mark| !mark.identity.covers(&self.identity, mark.records)) {
            let foreign = Contents::Foreign(None);
            let new = OwnershipMark::new(
                self.identity.clone(),
                spec.run_id,
                keep,
                rules::form(spec.plan),
            );
            PluginMark::decide(&new, None, foreign, confirmed, named)?;
        }
        let empty = found.is_none() && self.is_empty();
        let contents = match &found {
            Some(_) => Contents::Records,
            None if empty => Contents::Empty,
            None => Contents::Foreign(None),
        };
        let whole = empty || found.as_ref().is_some_and(|mark| mark.identity.whole);
        self.identity.whole = whole;
        let new =
            OwnershipMark::new(self.identity.clone(), spec.run_id, keep, rules::form(spec.plan));
        let held = match PluginMark::decide(&new, found.as_ref(), contents, confirmed, named)? {
            OwnershipDecision::Reuse(kept) if spec.shares() => {
                let taken = PluginMark { last_run: spec.run_id.to_owned(), ..kept };
                keeper.renew(&taken.bytes()?)?;
                taken
            }
            OwnershipDecision::Reuse(kept) => kept,
            OwnershipDecision::Create => {
                keeper.create(&new.bytes()?)?;
                new
            }
            OwnershipDecision::Wipe => {
                // What a mark names goes; what somebody else stored stays until it is written over.
                if let Some(old) = &found {
                    let end = old.records.saturating_add(first(&old.identity));
                    keeper.delete(&old.identity, end)?;
                }
                match found {
                    Some(_) => keeper.renew(&new.bytes()?)?,
                    None => keeper.create(&new.bytes()?)?,
                }
                new
            }
        };
        let forgets = rules::changes(spec.plan).1;
        self.mark = Some((keeper, HeldMark::new(held, forgets)));
        Ok(())
    }

    /// Whether the plug-in says that nothing is stored.
    fn is_empty(&self) -> bool {
        self.handle.admin(EMPTY).is_ok_and(|answer| answer == 1)
    }

    /// A session of the host's own.
    pub(crate) fn host(&self, depth: u32) -> Result<HostSession> {
        let seat = PluginSeat::beside(self.plugin, HOST, depth, MARK_MAX);
        PluginSession::new(&self.handle, seat).map(HostSession::new)
    }

    fn disclosed(&self, spec: &OpenSpec<'_>) -> Vec<(String, String)> {
        let said = &self.plugin.description;
        let mut facts = vec![
            ("target.kind".to_owned(), "plug-in".to_owned()),
            ("store.name".to_owned(), said.name.clone()),
        ];
        let mut add = |name: &str, value: String| {
            if !value.is_empty() {
                facts.push((name.to_owned(), value));
            }
        };
        add("store.version", said.version.clone());
        match &self.plugin.carrier {
            PluginCarrier::Library(library) => {
                let file = library.file.as_deref().map(Path::display);
                add("store.library", file.map(|f| f.to_string()).unwrap_or_default());
            }
            PluginCarrier::Program(program) => {
                add("store.command", program.command().to_owned());
                add("bridge.crowded", crowded(spec.plan));
            }
        }
        add("store.path", spec.plan.target.path.clone().unwrap_or_default());
        facts
    }

    fn share(&self) -> StoreShare {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        StoreShare {
            inside_ns: times.iter().map(|time| time.total()).sum(),
            operations: times.iter().map(|time| time.operations()).sum(),
            cpu_ns: self.handle.cpu_ns(),
        }
    }

    /// What of a load was the store's own side, apart from the bridge, once all sessions have ended.
    fn apart(&self) -> Vec<(String, String)> {
        let (began, now) =
            (*self.began.lock().unwrap_or_else(PoisonError::into_inner), self.share());
        let operations = now.operations.saturating_sub(began.operations);
        if operations == 0 {
            return Vec::new();
        }
        let each = |ns: u64| ns as f64 / operations as f64;
        let mut facts = Vec::new();
        let inside = now.inside_ns.saturating_sub(began.inside_ns);
        if inside > 0 {
            let words = format!("{:.0} ns an operation, by the store's own stamps", each(inside));
            facts.push(("store.inside".to_owned(), words));
        }
        if let Some((from, to)) = began.cpu_ns.zip(now.cpu_ns) {
            let cpu = to.saturating_sub(from);
            let whose = match self.plugin.carrier {
                PluginCarrier::Library(_) => {
                    "in this process: store, client, bridge (`bridge.cost`) and Taillight's own part"
                }
                PluginCarrier::Program(_) => "in the plug-in's process (whole ticks of the system)",
            };
            let (seconds, each) = (cpu as f64 / 1e9, each(cpu));
            facts.push((
                "store.cpu".to_owned(),
                format!("{each:.0} ns an operation, {seconds:.2} s {whose}"),
            ));
        }
        facts
    }

    /// Deletes the records of this run, and those of earlier ones that its mark names.
    fn purge(&self) -> Result<()> {
        if self.joined {
            return Err(refusal::not_alone());
        }
        let Some((keeper, mark)) = &self.mark else {
            return Err(Error::unavailable(
                "what a plug-in only reads, or does not store, is not purged",
            ));
        };
        if !deletes(&self.can) {
            return Err(Error::unavailable("the plug-in cannot delete records"));
        }
        // Whoever took the store over meanwhile has its own mark there, and whoever emptied it none.
        let there = keeper.read()?.and_then(|text| PluginMark::parse(&text).ok());
        let is_held = |m: &PluginMark| m.run_id == mark.run_id() && m.last_run == mark.last_run();
        if !there.as_ref().is_some_and(is_held) {
            return Err(Error::target(
                "the mark of the run is gone, or another's; the records of the store were left alone",
            )
            .with("mark", String::from_utf8_lossy(super::mark::MARK_KEY))
            .hint("look what is in the store before you use it again"));
        }
        keeper.delete(&self.identity, self.written.range(mark.records()).end)?;
        self.written.clear();
        Ok(())
    }

    /// Closes without deleting, for a run that does not begin: its mark goes if it names no records.
    pub(crate) fn withdraw(mut self) {
        self.closed = true;
        if let Some((keeper, mark)) = self.mark.as_ref().filter(|_| !self.joined)
            && mark.records() == 0
        {
            let _ = keeper.remove();
        }
    }

    /// Deletes what this run made; what is kept stays.
    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        match &self.mark {
            Some((keeper, mark)) if !mark.keeps() => {
                self.purge()?;
                keeper.remove()
            }
            _ => Ok(()),
        }
    }
}

/// Errors: `Refused` where a check of the contract meets what a run has kept. It confirms the loss of what its own directory
/// has, and a plug-in may have its records elsewhere.
fn kept_from_checks(found: Option<&PluginMark>, run_id: &str) -> Result<()> {
    match run_id == RUN_ID && found.is_some_and(|mark| mark.run_id != RUN_ID) {
        false => Ok(()),
        true => Err(Error::refused("the store holds records that a run has kept")
            .with("mark", String::from_utf8_lossy(super::mark::MARK_KEY))
            .hint("check the plug-in on a store without them: --path or --option names another")),
    }
}

/// Whether workers and the threads of a program, one each, have to wait for each other's CPU, in words.
fn crowded(plan: &Plan) -> String {
    let workers: u64 = plan.workloads.iter().map(|w| u64::from(w.workers)).sum();
    let cpus = std::thread::available_parallelism().map_or(u64::MAX, |n| n.get() as u64);
    match workers.saturating_mul(2) > cpus {
        true => format!(
            "{workers} workers and as many threads of the plug-in spin on {cpus} CPUs: they wait for each other, \
             which is in every figure; use fewer workers"
        ),
        false => String::new(),
    }
}

/// Whether a name of a plug-in can be a series: it stands in tables and in pictures.
fn is_series(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-:".contains(c);
    (1..=100).contains(&name.len()) && name.chars().all(plain)
}

fn first(identity: &PluginIdentity) -> u64 {
    identity.keys.iter().map(|k| k.start).min().unwrap_or(0)
}

/// The plan as the plug-in gets it.
fn plan_json(spec: &OpenSpec<'_>, settings: &PluginSettings) -> Result<String> {
    let plan = spec.plan;
    let workloads = &plan.workloads;
    let bytes = |w: &WorkloadPlan| {
        let value =
            w.value.as_ref().map_or(w.block_size.max(), |v| v.value_bytes(w.block_size.max()));
        value.saturating_mul(u64::from(w.batch.max(1)))
    };
    let json = serde_json::json!({
        "path": plan.target.path,
        "size": plan.target.size.map(|s| s.0),
        "run_id": spec.run_id,
        "read_only": settings.options.read_only,
        "workers": workloads.iter().map(|w| u64::from(w.workers)).sum::<u64>(),
        "depth": workloads.iter().map(|w| w.queue_depth).max(),
        "buffer": workloads.iter().map(bytes).max(),
        "options": settings.own,
    });
    serde_json::to_string(&json).map_err(|e| Error::internal("the plan is not JSON").source(e))
}

impl Drop for PluginTarget {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Target for PluginTarget {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        let workload = usize::from(spec.workload);
        let time = Arc::<StoreTime>::default();
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&time));
        let seat = PluginSeat {
            worker: u32::from(spec.worker),
            depth: spec.depth,
            buffer_size: spec.buffer_size,
            // A caller without such a plan (the conformance checks) uses small batches.
            batch: self.batches.get(workload).copied().unwrap_or(1).max(8),
            keep: spec.keep,
            rules: self.rules.get(workload).cloned(),
            submit_batch: self.plugin.description.submit_batch,
            polls: self.plugin.carrier.can_poll(),
            time,
            written: self.written.session(),
        };
        Ok(Box::new(PluginSession::new(&self.handle, seat)?))
    }
    fn bridges(&self, geometry: Geometry) -> Vec<TargetBridge> {
        let noop = NoopTarget {
            plugin: self.plugin,
            handle: self.handle.clone(),
            geometry,
            rules: self.rules.first().cloned(),
            carried: self.carried.clone(),
        };
        let carries = self.carried.to_string();
        vec![TargetBridge { open: Box::new(move || Box::new(noop.clone())), carries }]
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        if action == AdminAction::Purge {
            self.purge()?;
            return match &self.mark {
                Some((keeper, mark)) => mark.note(keeper, 0),
                None => Ok(()),
            };
        }
        let said = &self.plugin.description;
        if said.does(action) {
            let number = match action {
                AdminAction::Flush => 0,
                AdminAction::Compact => 1,
                _ => 2,
            };
            return self.handle.admin(number).map(drop);
        }
        match action {
            AdminAction::Flush if said.keyed() => Ok(()),
            _ => Err(Error::unavailable(format!("plug-in `{}` does not do {action:?}", said.name))),
        }
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }
    fn notes(&self) -> Vec<String> {
        let note = |(name, fact): &(String, String)| match name.as_str() {
            "bridge.crowded" => Some(fact.clone()),
            _ => None,
        };
        self.facts.iter().filter_map(note).collect()
    }
    /// What a program waits for is what its operations wait for; the client in a library is connected to its server
    /// where a session is open.
    fn server_process(&self) -> Option<u32> {
        self.handle.process().or_else(|| {
            // The session of the mark is one.
            let _session = self.mark.is_none().then(|| self.host(1));
            crate::net::peer::server_process()
        })
    }
    fn session_facts(&self) -> Vec<(String, String)> {
        (self.begins)();
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = self.share();
        Vec::new()
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        let mut facts = (self.end_facts)();
        facts.extend(self.apart());
        facts
    }
    fn pauses(&self) -> Option<Vec<TargetPause>> {
        (self.pauses)()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        self.can.keyed().then_some(self)
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let inside: u64 = times.iter().map(|time| time.total()).sum();
        drop(times);
        if inside > 0 {
            out(super::INSIDE, inside as f64);
        }
        let mut left = SERIES_MAX;
        self.handle.sample(&mut |name, value| {
            if left > 0 && is_series(name) {
                left -= 1;
                out(name, value);
            }
        });
    }
    fn close(mut self: Box<Self>) -> Result<()> {
        let ended = self.end();
        // The host's own session with it.
        self.mark = None;
        ended.and(self.handle.close())
    }
}

impl KeyedTarget for PluginTarget {
    fn records(&self) -> u64 {
        self.mark.as_ref().map_or(self.believed, |(_, mark)| mark.records())
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
        match &self.mark {
            _ if self.joined => Ok(()),
            Some((keeper, mark)) => mark.note(keeper, records),
            None => Ok(()),
        }
    }
}
