//! A run by several ranks. Rank 0 makes the directory of the whole run and gives the order; every rank, rank 0 too,
//! then runs its part as a run of its own, with steps that all take or none: name and look at targets, open and lay
//! out, load, measure clocks, start. What comes after the load is `ranked_end`'s.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::plan::{Plan, RankPlace, TargetPlan, rank_name};
use taillight_core::progress::Progress;
use taillight_core::{Clock, Error, MonoClock, OpKind, Result, Stamp};
use taillight_driver::identity::contents;
use taillight_driver::{Target, named};
use taillight_machine::{Sys, openers};
use taillight_report::MadeReport;
use taillight_report::analyse::IoGroup;
use taillight_rundir::latency::LatencySource;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::scale::{
    ClockMap, ClockSample, MergedFigures, RankEntry, RankLoad, RankTarget, ScaleFile, StartStamp,
    start_spread,
};
use taillight_rundir::{JsonFile, RunDir, SCHEMA_VERSION, names};
use taillight_scale::{
    ANY_STEP, LostRank, Patience, answer_pings, differences, merged_percentiles, ping,
};
use taillight_stats::Dist;
use taillight_suite::host::{JobSource, RunOutcome};
use taillight_trace::Environment;

use super::directory::NewRun;
use super::ranked_facts::{facts_of, recorded_in, results_beside, same_recorded};
use super::ranked_open::KeptTarget;
use super::ranked_share::{OWN_READS, check, reads_back, shift};
use super::targets::TargetsRequest;
use super::{LiveViews, RunRequest, Signals, confirmation, directory, ranked_end, run_on_target};
use crate::output;
use crate::ranks::{self, RankOrder, RunOrder};

/// How long a rank waits for the others in steps in which data may be laid out.
const LAYOUT: Duration = Duration::from_secs(24 * 3600);
/// How long rank 0 waits in steps that lay nothing out.
const SHORT: Duration = Duration::from_secs(60);
/// Steps in which data may be laid out.
const LONG: [&str; 3] =
    ["laying out what all share", "opening what all share", "preparing the data"];
/// How long rank 0 waits for a rank beyond the time that the plan allows it.
const BEYOND: Duration = Duration::from_secs(120);
/// No limit: the load ends by its work, whose time is not known.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// The step in which rank 0 waits for all loads, before it closes what all share.
const END_OF_LOAD: &str = "the end of the load";
/// Targets of which it was told what will be lost: what a later run of a series finds there is no loss.
static LOST: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// From the naming of the start to the start, beside round trips.
const LEAD_NS: u64 = 500_000_000;

/// A rank's place in a run, and what its steps leave.
pub struct RankSeat {
    pub order: RunOrder,
    pub rank: u32,
    /// The whole plan, once it was asked for: to read it may be to read a trace.
    whole: OnceCell<Plan>,
    /// At rank 0: what every rank drives.
    targets: RefCell<Vec<Vec<RankTarget>>>,
    /// At rank 0: what those are on.
    facts: RefCell<Vec<BTreeMap<String, String>>>,
    /// At rank 0: what will be lost on them, until that is said.
    lost: RefCell<Vec<String>>,
    /// At rank 0: whether each rank's directory is seen here.
    seen: RefCell<Vec<bool>>,
    /// At rank 0: clocks by leader, before and after.
    clocks: RefCell<Vec<(u32, ClockSample)>>,
    /// When the load begins, on the clock of rank 0.
    start: Cell<Option<i64>>,
    /// Whether the end of this rank's load was told, after which rank 0 closes what all share.
    left_load: Cell<bool>,
    /// What this rank measured.
    groups: RefCell<Vec<IoGroup>>,
    /// Whether `groups` has every I/O.
    exact: Cell<bool>,
}

/// What a rank says when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankEnd {
    pub exit: u8,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// When its load was, on its own clock; None where it measured nothing.
    pub load: Option<RankLoad>,
    /// Workloads, operations and kinds of latency that it has.
    pub keys: Vec<(u16, OpKind, String)>,
    /// Every I/O was kept: what is merged of it is exact.
    pub exact: bool,
}

/// What a rank says of its targets.
#[derive(Serialize, Deserialize)]
struct TargetStatement {
    targets: Vec<RankTarget>,
    /// What hosts may differ in.
    facts: BTreeMap<String, String>,
    /// What will be lost there, as it is confirmed.
    lost: Vec<String>,
    /// What is in the files that the plan names.
    recorded: Option<String>,
    /// Whether it sees the directory of the whole run.
    sees: bool,
}

/// Runs a plan by all ranks; called at rank 0. Errors: as a run by one process, when nothing was measured.
///
/// `kept`: the target that all ranks have open, for a run whose first workload is number so-and-so of those that it was
/// opened with.
pub fn run(request: &RunRequest<'_>, kept: Option<(Box<dyn Target>, u16)>) -> Result<RunOutcome> {
    let plan = request.plan;
    // What can be wrong with the command is told before a directory is made.
    let order = order_of(plan, request.destroy)?;
    let environment = Environment::before(&Sys::default(), None);
    let size = ranks::size();
    let origin = RunOrigin::Merged { ranks: size };
    let whole = directory::create(plan, request.job, request.destroy, environment.map(), origin)?;
    let absolute =
        std::path::absolute(whole.dir.path()).unwrap_or_else(|_| whole.dir.path().into());
    let (target, first) = kept.unzip();
    let run_id = whole.run_id.clone();
    let order = RunOrder { directory: absolute, run_id, kept: first, ..order };
    if order.shift == 0 && reads_back(plan, &hosts_of(&order)) {
        output::note(OWN_READS);
    }
    let hosts = order.peers.iter().map(|peer| peer.host.clone()).collect();
    let stop = request.signals.stop().clone();
    ranks::with(|all| all.ranks.watch(ranks::watch(hosts, stop)));
    ranks::tell(&RankOrder::Run(Box::new(order.clone())));
    let seat = RankSeat::new(order, 0);
    let ended = part(&seat, request.signals, request.job, target);
    match ended {
        Err(e) => {
            seat.cleared();
            let _ = std::fs::remove_file(whole.dir.file(names::SCALE));
            remove_parts(&whole, size);
            whole.discard();
            match request.signals.exit() {
                Some(exit) => Ok(RunOutcome { exit, path: None, summary: None }),
                None => Err(e),
            }
        }
        Ok(end) => Ok(ranked_end::conclude(&seat, whole, end, request)),
    }
}

fn hosts_of(order: &RunOrder) -> Vec<&str> {
    order.peers.iter().map(|peer| peer.host.as_str()).collect()
}

/// The order to all ranks to run a plan, of a run that has no name and no directory yet. Errors: `Usage` where they
/// cannot.
pub fn order_of(plan: &Plan, destroy: &[String]) -> Result<RunOrder> {
    check(plan)?;
    let destroy = confirmation::listed(destroy)?;
    let hellos = ranks::with(|all| all.hellos.clone()).unwrap_or_default();
    let mut of_plan = plan.clone();
    of_plan.run.output = None;
    let (leaders, leader_of) = leaders(&hellos);
    let hosts: Vec<&str> = hellos.iter().map(|h| h.peer.host.as_str()).collect();
    let shift = reads_back(plan, &hosts).then(|| shift(&hosts));
    Ok(RunOrder {
        plan: of_plan.to_toml()?,
        directory: PathBuf::new(),
        run_id: String::new(),
        destroy,
        shift: shift.unwrap_or(0),
        peers: hellos.iter().map(|hello| hello.peer.clone()).collect(),
        leaders,
        leader_of,
        kept: None,
    })
}

/// The first rank of each clock but that of rank 0, and for each rank the one with its clock.
fn leaders(hellos: &[ranks::Hello]) -> (Vec<u32>, Vec<Option<u32>>) {
    let first = |of: &ranks::Hello| hellos.iter().position(|h| h.clock_id == of.clock_id);
    let of: Vec<Option<u32>> =
        hellos.iter().map(|h| first(h).filter(|at| *at > 0).map(|at| at as u32)).collect();
    let mut leaders: Vec<u32> = of.iter().flatten().copied().collect();
    leaders.sort_unstable();
    leaders.dedup();
    (leaders, of)
}

/// Runs an order; called at all ranks but 0.
pub fn follow(order: &RunOrder, signals: &Signals, kept: &KeptTarget) {
    let rank = ranks::with(|all| all.ranks.rank()).unwrap_or_default();
    let seat = RankSeat::new(order.clone(), rank);
    // What went wrong was told to rank 0 by the step that it went wrong in.
    let target = order.kept.and_then(|first| kept.view(first));
    match part(&seat, signals, None, target) {
        Ok(end) => ranked_end::take_leave(&seat, end),
        Err(_) => seat.cleared(),
    }
}

/// Runs this rank's part, and returns how it ended. Errors: at every rank where one cannot start; what goes wrong after
/// the start is in the answer.
fn part(
    seat: &RankSeat,
    signals: &Signals,
    job: Option<&JobSource>,
    kept: Option<Box<dyn Target>>,
) -> Result<RankEnd> {
    let ended = seat.plan().and_then(|plan| {
        let live = LiveViews::default();
        let destroy = confirmation::of_rank(&seat.order, seat.rank, &plan)?;
        let request = RunRequest {
            plan: &plan,
            job,
            destroy: &destroy,
            confirmed: &[],
            signals,
            live: &live,
            place: None,
            quiet: true,
            rest: None,
            pages: false,
            rank: Some(seat),
        };
        run_on_target(&request, |run, live| match kept {
            None if seat.order.kept.is_some() => Err(Error::internal("no target is open here")),
            None => super::open(&request, run, live),
            Some(target) => {
                let fits = seat.named(&plan)?;
                agree("looking at the targets", fits)?;
                seat.prepared(Ok(0)).map(|loaded| (target, loaded))
            }
        })
    });
    seat.leave_load();
    match ended {
        Ok(outcome) if seat.start.get().is_some() => Ok(ranked_end::of(seat, &outcome)),
        Ok(_) => {
            // Ended by a signal before the start.
            let e = Error::unavailable("stopped before anything was measured");
            Err(seat.fail(e))
        }
        Err(e) if seat.start.get().is_some() => Ok(RankEnd {
            exit: ranked_end::after_load(e.exit()).code(),
            error: Some(e.to_string()),
            load: None,
            keys: Vec::new(),
            exact: false,
        }),
        Err(e) => Err(seat.fail(e)),
    }
}

impl RankSeat {
    pub fn new(order: RunOrder, rank: u32) -> RankSeat {
        openers::set_peers(order.peers.iter().map(ranks::RankPeer::process).collect());
        RankSeat {
            order,
            rank,
            whole: OnceCell::new(),
            targets: RefCell::default(),
            facts: RefCell::default(),
            lost: RefCell::default(),
            seen: RefCell::default(),
            clocks: RefCell::default(),
            start: Cell::new(None),
            left_load: Cell::new(false),
            groups: RefCell::default(),
            exact: Cell::new(false),
        }
    }

    pub fn size(&self) -> u32 {
        self.order.peers.len() as u32
    }

    /// What this rank measured.
    pub fn groups(&self) -> std::cell::Ref<'_, Vec<IoGroup>> {
        self.groups.borrow()
    }

    /// Keeps what this rank measured, for the merge.
    pub fn keep(&self, report: &MadeReport) {
        self.groups.replace(report.groups.clone());
        let ops = report.summaries.iter().flat_map(|summary| summary.ops.values());
        let mut latencies = ops.flat_map(|op| op.latencies.iter());
        self.exact.set(latencies.all(|(_, latency)| latency.source == LatencySource::Capture));
    }

    /// The whole plan, read once. Errors: as [`RunOrder::whole`].
    fn whole(&self) -> Result<&Plan> {
        match self.whole.get() {
            Some(plan) => Ok(plan),
            None => self.order.whole().map(|plan| self.whole.get_or_init(|| plan)),
        }
    }

    /// A rank's plan with the keys of all, as what all share is opened with and loaded.
    pub fn opened_as(&self, plan: &Plan) -> Result<Plan> {
        let (mut plan, whole) = (plan.clone(), self.whole()?);
        for (own, of_all) in plan.workloads.iter_mut().zip(&whole.workloads) {
            own.keys.clone_from(&of_all.keys);
        }
        Ok(plan)
    }

    /// Whether this rank loads records that are missing: of what all share only rank 0 does.
    pub fn loads(&self, plan: &Plan) -> bool {
        self.rank == 0 || plan.run.share.is_own()
    }

    /// Whether this rank kept every I/O.
    pub fn is_exact(&self) -> bool {
        self.exact.get()
    }

    /// Name of the host of a rank.
    pub fn host(&self, rank: u32) -> &str {
        self.order.peers.get(rank as usize).map_or("", |peer| peer.host.as_str())
    }

    /// The plan of this rank, in its own directory.
    pub fn plan(&self) -> Result<Plan> {
        let place = RankPlace { rank: self.rank, of: self.size(), shift: self.order.shift };
        let mut plan = of_rank(self.whole()?, place)?;
        let directory = self.order.directory.join(rank_name(self.rank));
        plan.run.output = Some(directory.to_string_lossy().into_owned());
        // Ranks of a host share its memory.
        let own = self.order.peers.get(self.rank as usize).map(|peer| &peer.host);
        let near = self.order.peers.iter().filter(|peer| Some(&peer.host) == own).count() as u64;
        let workers = u64::from(plan.workers());
        let least = taillight_core::plan::least_capture(workers);
        plan.capture.budget.0 = (plan.capture.budget.0 / near.max(1)).max(least);
        Ok(plan)
    }

    /// Tells the others that this rank cannot, where they still wait for it.
    pub fn fail(&self, e: Error) -> Error {
        let told = ranks::with(|all| {
            if all.ranks.stopped() {
                return None;
            }
            let (kind, text, hint) = (e.kind(), e.to_string(), e.hint_text().map(str::to_owned));
            let copy = Error::new(kind, text).hint_some(hint);
            let patience = Patience::of(LAYOUT);
            all.ranks.agree::<serde_json::Value>(ANY_STEP, Err(copy), patience).err()
        });
        told.flatten().unwrap_or(e)
    }

    /// A run that was refused has left nothing at this rank; rank 0 waits for all before it removes what is theirs.
    fn cleared(&self) {
        let step = "removing what a refused run leaves";
        ranks::with(|all| all.ranks.collect(step, (), Patience::of(SHORT)).map(drop));
    }

    /// All look at their targets, one refusal stops all; then they are opened, by rank 0 first where they share one.
    pub fn open(
        &self,
        targets: TargetsRequest<'_>,
        step: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<Box<dyn Target>> {
        // Whose keys are whose is nothing to the target.
        let whole = self.opened_as(targets.plan)?;
        let targets = TargetsRequest { plan: &whole, ..targets };
        let looked = TargetsRequest { run_id: "", ..targets };
        let fits = self.named(targets.plan)?;
        let own = looked.check();
        let own =
            own.map_err(|e| confirmation::with_words(e, &self.order, self.rank, targets.plan));
        agree("looking at the targets", fits.and(own))?;
        self.lost.take().iter().for_each(|line| super::say_one_lost(line));
        if targets.plan.run.share.is_own() {
            return targets.open(step);
        }
        // What all share is marked by the run of all.
        let targets = TargetsRequest { run_id: &self.order.run_id, ..targets };
        let mut marker = confirmation::Marker::of(&self.order, targets.plan);
        if self.rank == 0 {
            let opened = targets.open(step);
            let laid_out = opened.as_ref().map(|_| marker.set()).map_err(same);
            agree("laying out what all share", laid_out.and_then(|set| set))?;
            agree("opening what all share", Ok(()))?;
            return opened;
        }
        agree("laying out what all share", Ok(()))?;
        let opened = marker.check().and_then(|()| targets.open(step));
        agree("opening what all share", opened.as_ref().map(|_| ()).map_err(same))?;
        opened
    }

    /// Tells rank 0 what this rank drives; at rank 0 whether all that fits together. Errors: as a step that all take.
    fn named(&self, plan: &Plan) -> Result<Result<()>> {
        let targets = confirmation::targets_of(plan);
        let confirmed = confirmation::of_rank(&self.order, self.rank, plan)?;
        let goes = |path: &String| {
            let mut all = plan.all_targets();
            all.any(|(_, target)| target.destroy && target.path.as_ref() == Some(path))
        };
        let first = |path: &String| {
            LOST.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone())
        };
        let lost = confirmed.iter().filter(|path| goes(path) && first(path));
        let lost = lost.flat_map(|path| contents::lost(path)).collect();
        let (facts, recorded) = (facts_of(plan), recorded_in(plan));
        let statement = TargetStatement { targets, facts, lost, recorded, sees: self.sees() };
        let said = agree("naming the targets", Ok(statement))?;
        if self.rank != 0 {
            return Ok(Ok(()));
        }
        let of = |rank: u32| format!("rank {rank} on {}", self.host(rank));
        let lost = said.iter().flat_map(|(rank, it)| it.lost.iter().map(move |l| (*rank, l)));
        self.lost.replace(lost.map(|(rank, line)| format!("{}: {line}", of(rank))).collect());
        self.seen.replace(said.iter().map(|(_, it)| it.sees).collect());
        self.facts.replace(said.iter().map(|(_, it)| it.facts.clone()).collect());
        let (all, recorded): (Vec<Vec<RankTarget>>, Vec<Option<String>>) =
            said.into_iter().map(|(_, it)| (it.targets, it.recorded)).unzip();
        let fits = confirmation::fit(&self.order, plan, &all);
        let fits = fits.and(same_recorded(&recorded, |rank| self.host(rank)));
        self.targets.replace(all);
        Ok(fits)
    }

    /// Whether the directory of the whole run is the one that rank 0 made.
    fn sees(&self) -> bool {
        RunDir::open(&self.order.directory)
            .is_ok_and(|dir| dir.manifest().run_id == self.order.run_id)
    }

    /// All have their targets ready, or none goes on.
    pub fn prepared(&self, loaded: Result<u64>) -> Result<u64> {
        let copy = loaded.as_ref().map(|_| ()).map_err(same);
        agree("preparing the data", copy)?;
        loaded
    }

    /// All sessions are ready: clocks are measured, and rank 0 names the stamp at which all begin. Gives that stamp on
    /// this rank's own clock; 0 on virtual time.
    pub fn start(&self, is_virtual: bool) -> Result<Stamp> {
        agree("getting ready", Ok(()))?;
        let clocks = self.measure_clocks()?;
        let unknown = |of: &&u32| !clocks.iter().any(|(known, _)| known == *of);
        let without = self.order.leaders.iter().find(unknown).filter(|_| self.rank == 0);
        // Named before the load and after the clocks: which rank is killed from here on, and when, is known.
        let known = match without {
            Some(rank) => Err(Error::unavailable("a clock cannot be measured").with("rank", rank)),
            None if self.rank == 0 => self.announce(),
            None => Ok(()),
        };
        agree("measuring clocks", known)?;
        let worst = clocks.iter().map(|(_, c)| c.round_trip_ns).max().unwrap_or(100_000);
        let at = MonoClock.now().plus(LEAD_NS + 20 * worst).0;
        let mine = (at, clocks.clone());
        let told = ranks::with(|all| {
            let mine = (self.rank == 0).then_some(&mine);
            all.ranks.tell("the start", mine, Patience::of(LAYOUT))
        });
        let told = told.transpose()?.flatten();
        let (at, clocks) = told.unwrap_or(mine);
        self.start.set(Some(at));
        if is_virtual {
            return Ok(Stamp(0));
        }
        let own = self.leader_of(self.rank).and_then(|l| clocks.iter().find(|(of, _)| *of == l));
        Ok(Stamp(ClockMap::of(own.map(|(_, c)| *c).as_slice()).to_local(at)))
    }

    /// The load of this rank is over. Rank 0 closes what all share last: it sees to what is kept or deleted.
    pub fn closing(&self, target: &dyn Target) {
        let Ok(plan) = self.whole() else { return };
        if plan.run.share.is_own() {
            return;
        }
        self.left_load.set(true);
        let patience = self.end_patience(plan);
        let keyed = target.keyed();
        let written = keyed.and_then(|keyed| keyed.written());
        let told = ranks::with(|all| all.ranks.collect(END_OF_LOAD, written, patience));
        let told = told.and_then(Result::ok).unwrap_or_default();
        for (_, written) in told.into_iter().filter(|(rank, _)| *rank != self.rank) {
            keyed.zip(written).iter().for_each(|(keyed, written)| keyed.also_written(*written));
        }
    }

    /// A load whose target stays open, since a worker is stuck in it, ends without [`RankSeat::closing`]: rank 0 waits
    /// for that word before it closes what all share.
    fn leave_load(&self) {
        let shared = || self.whole().is_ok_and(|plan| !plan.run.share.is_own());
        if self.rank > 0 && self.start.get().is_some() && !self.left_load.get() && shared() {
            let nothing = None::<u64>;
            let patience = Patience::of(SHORT);
            ranks::with(|all| all.ranks.collect(END_OF_LOAD, nothing, patience).map(drop));
        }
    }

    /// How long rank 0 waits for the end of a rank's load: an earlier or later end than its own is no loss. A load
    /// that ends by time has that time, any other as long as it takes.
    pub fn end_patience(&self, plan: &Plan) -> Patience {
        let run = &plan.run;
        let by_time = run.before.is_empty() && run.repeat <= 1;
        let time = match run.duration.filter(|_| by_time) {
            Some(time) => {
                let since = self.start.get().map_or(0, |at| MonoClock.now().0 - at).max(0) as u64;
                let planned = run.warmup.0.saturating_add(time.0);
                patience(planned, since).saturating_add(Duration::from_nanos(run.drain_timeout.0))
            }
            None => NO_LIMIT,
        };
        Patience::of(time)
    }

    /// Names ranks and targets before the load: who is killed now is missed by name.
    fn announce(&self) -> Result<()> {
        self.scale(None)?.write(&self.order.directory)
    }

    /// Measures the clock of each leader against that of rank 0. At rank 0 what was found, elsewhere nothing.
    pub fn measure_clocks(&self) -> Result<Vec<(u32, ClockSample)>> {
        let leaders = &self.order.leaders;
        let found = ranks::with(|all| {
            if self.rank != 0 {
                if leaders.contains(&self.rank) {
                    answer_pings(all.ranks.group(), &MonoClock, Patience::of(LAYOUT))?;
                }
                return Ok(Vec::new());
            }
            let mut found = Vec::new();
            for leader in leaders {
                if all.ranks.lost().iter().any(|lost| lost.rank == *leader) {
                    continue;
                }
                match ping(all.ranks.group(), *leader, &MonoClock)? {
                    Some(sample) => found.push((*leader, sample)),
                    None => all.ranks.lose(*leader, "measuring clocks"),
                }
            }
            Ok::<_, Error>(found)
        });
        let found = found.transpose()?.unwrap_or_default();
        self.clocks.borrow_mut().extend(found.iter().copied());
        Ok(found)
    }

    /// The rank whose clock stands for that of a rank; none where it is that of rank 0.
    fn leader_of(&self, rank: u32) -> Option<u32> {
        self.order.leader_of.get(rank as usize).copied().flatten()
    }

    /// `scale.json` as far as it is known.
    pub fn scale(&self, ends: Option<&[(u32, RankEnd)]>) -> Result<ScaleFile> {
        let (hellos, lost) =
            ranks::with(|all| (all.hellos.clone(), all.ranks.lost().to_vec())).unwrap_or_default();
        let (targets, seen) = (self.targets.borrow(), self.seen.borrow());
        let clocks = self.clocks.borrow();
        let entries = hellos.iter().enumerate().map(|(rank, hello)| {
            let rank = rank as u32;
            let leader = self.leader_of(rank);
            let end = ends.and_then(|ends| ends.iter().find(|(of, _)| *of == rank));
            let own = clocks.iter().filter(|(of, _)| Some(*of) == leader).map(|(_, c)| *c);
            let own: Vec<ClockSample> = own.collect();
            let map = ClockMap::of(&own);
            let load = end.and_then(|(_, end)| end.load).map(|load| RankLoad {
                first_submit_ns: load.first_submit_ns.map(|ns| map.to_reference(ns)),
                first_due_ns: load.first_due_ns.map(|ns| map.to_reference(ns)),
                start_ns: map.to_reference(load.start_ns),
                done_ns: map.to_reference(load.done_ns),
            });
            let gone = lost.iter().find(|lost| lost.rank == rank);
            RankEntry {
                rank,
                host: hello.peer.host.clone(),
                clock_id: hello.clock_id.clone(),
                pid: hello.peer.pid,
                cpus: hello.cpus,
                allowed: (hello.allowed < hello.cpus).then_some(hello.allowed),
                directory: rank_name(rank),
                elsewhere: seen.get(rank as usize) == Some(&false),
                targets: targets.get(rank as usize).cloned().unwrap_or_default(),
                clocks: own,
                load,
                slowest: None,
                exit: end.map(|(_, end)| end.exit),
                lost: gone.map(LostRank::reason),
            }
        });
        let ranks: Vec<RankEntry> = entries.collect();
        let firsts: Vec<_> = ranks.iter().filter_map(|r| r.load?.first()).collect();
        let spread = start_spread(&firsts);
        let start = self.start.get().map(|at_ns| StartStamp { at_ns, spread_ns: spread });
        let of_targets = self.facts.borrow();
        let hosts = hellos.iter().enumerate().map(|(rank, hello)| {
            let more = of_targets.get(rank).cloned().unwrap_or_default();
            let facts = hello.facts.clone().into_iter().chain(more);
            (hello.peer.host.clone(), facts.collect::<BTreeMap<_, _>>())
        });
        let hosts: Vec<_> = hosts.collect();
        let plan = self.whole()?;
        let mut notes = ranks::of_hosts(&hellos);
        notes.extend(results_beside(plan, &self.order.directory));
        let names: Vec<&str> = hosts.iter().map(|(host, _)| host.as_str()).collect();
        if self.order.shift == 0 && reads_back(plan, &names) {
            notes.push(OWN_READS.to_owned());
        }
        Ok(ScaleFile {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: self.order.run_id.clone(),
            share: plan.run.share,
            ranks,
            start,
            merged: Vec::new(),
            differences: differences(&hosts),
            notes,
        })
    }

    /// Exact percentiles over all ranks for each of the `keys`, in order. Called at every rank with the same keys. Ends
    /// early where a rank does not answer.
    pub fn merge(
        &self,
        keys: &[(u16, OpKind, String)],
        percentiles: &[taillight_core::Percentile],
    ) -> Result<Vec<MergedFigures>> {
        let groups = self.groups.borrow();
        let mut all = Vec::new();
        for (workload, op, kind) in keys {
            let group = groups.iter().find(|g| (g.workload, g.op) == (*workload, *op));
            let kind = taillight_core::LatencyKind::from_name(kind);
            let dist = group.zip(kind).and_then(|(g, kind)| g.latencies.get(kind));
            let none = Dist::default();
            let own: &Dist = dist.map_or(&none, |sample| sample);
            let found = ranks::with(|all| {
                let patience = Patience::of(Duration::from_secs(20));
                merged_percentiles(all.ranks.group(), own, percentiles, patience)
            });
            let Some((count, values, cost)) = found.transpose()?.flatten() else { break };
            all.push(MergedFigures {
                workload: *workload,
                op: *op,
                kind: kind.map_or("", |k| k.name()).to_owned(),
                count,
                percentiles: percentiles.iter().map(|p| p.to_string()).zip(values).collect(),
                moved_bytes: cost.bytes,
            });
        }
        Ok(all)
    }
}

/// How long a rank may take from now on beside its drain, where its load was to last `planned` from the start and the
/// start was `since` ago: others may have ten times as much to write as rank 0, which took until now.
fn patience(planned: u64, since: u64) -> Duration {
    let (left, over) = (planned.saturating_sub(since), since.saturating_sub(planned));
    BEYOND.saturating_add(Duration::from_nanos(left.saturating_add(over.saturating_mul(10))))
}

/// A plan as a rank has it. Errors: `Usage` where ranks cannot share it so.
fn of_rank(whole: &Plan, place: RankPlace) -> Result<Plan> {
    let path = |of: &TargetPlan, path: &str, rank| named(&of.driver)?.rank_path(path, rank);
    let mut own = whole.for_rank(place, &path)?;
    if own.run.share.is_own() {
        for target in std::iter::once(&mut own.target).chain(own.targets.values_mut()) {
            named(&target.driver)?.rank_options(&mut target.options, place.part());
        }
    }
    Ok(own)
}

/// A plan of a series as rank 0 will have it, with what it may overwrite: looked at before the first run. None where
/// this process is alone. Errors: `Usage`.
pub fn of_first(plan: &Plan, destroy: &[String]) -> Result<Option<(Plan, Vec<String>)>> {
    let known = ranks::with(|all| (all.ranks.size(), all.ranks.host().to_owned()));
    let Some((of, host)) = known else { return Ok(None) };
    let own = of_rank(plan, RankPlace { rank: 0, of, shift: 0 })?;
    let destroy = confirmation::of_host(&host, &confirmation::listed(destroy)?, &own);
    Ok(Some((own, destroy)))
}

/// A copy of an error, to be sent to other ranks.
fn same(e: &Error) -> Error {
    Error::new(e.kind(), e.to_string()).hint_some(e.hint_text().map(str::to_owned))
}

/// A step that all take or none.
fn agree<T: Serialize + serde::de::DeserializeOwned>(
    step: &str,
    mine: Result<T>,
) -> Result<Vec<(u32, T)>> {
    ranks::with(|all| {
        let short = all.ranks.is_first() && !LONG.contains(&step);
        all.ranks.agree(step, mine, Patience::of(if short { SHORT } else { LAYOUT }))
    })
    .unwrap_or_else(|| Ok(Vec::new()))
}

/// Removes the directories of ranks that measured nothing, where they are empty.
fn remove_parts(whole: &NewRun, ranks: u32) {
    for rank in 0..ranks {
        let _ = std::fs::remove_dir(whole.dir.path().join(rank_name(rank)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_more_to_write_is_waited_for_longer() {
        let second = 1_000_000_000;
        assert_eq!(patience(60 * second, 10 * second), BEYOND + Duration::from_secs(50));
        assert_eq!(patience(60 * second, 60 * second), BEYOND);
        assert_eq!(patience(60 * second, 90 * second), BEYOND + Duration::from_secs(300));
        assert!(patience(u64::MAX, 0) > BEYOND && patience(0, u64::MAX) > BEYOND);
    }
}
