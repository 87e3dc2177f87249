//! A run by several ranks. Rank 0 makes the directory of the whole run and gives the order; every rank, rank 0
//! too, then runs its part as a run of its own, with three steps that all take or none: look at targets, lay out,
//! start. After the load clocks are measured again, figures merged, and the whole run is reported from the ranks'
//! directories.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::plan::{Plan, RankPlace, WorkShare, rank_name};
use taillight_core::progress::Progress;
use taillight_core::{Clock, Error, MonoClock, Result, Stamp};
use taillight_driver::Target;
use taillight_machine::{Sys, openers};
use taillight_report::MadeReport;
use taillight_report::analyse::IoGroup;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::scale::{
    ClockMap, ClockSample, MergedFigures, RankEntry, RankLoad, RankTarget, ScaleFile, StartStamp,
};
use taillight_rundir::{JsonFile, RunDir, SCHEMA_VERSION, names};
use taillight_scale::{ANY_STEP, Patience, answer_pings, differences, merged_percentiles, ping};
use taillight_stats::Dist;
use taillight_suite::host::{JobSource, RunOutcome};
use taillight_trace::Environment;

use super::directory::NewRun;
use super::targets::TargetsRequest;
use super::{
    LiveViews, RunRequest, Signals, confirmation, directory, job, ranked_end, run_on_target,
};
use crate::ranks::{self, RankOrder, RunOrder};

/// Layouts may take long; who waits says so.
const LAYOUT: Duration = Duration::from_secs(24 * 3600);
/// How long rank 0 waits for the end of the others' load, beside the drain time-out.
const AFTER_LOAD: Duration = Duration::from_secs(10);
/// From the naming of the start to the start, beside round trips.
const LEAD_NS: u64 = 500_000_000;

/// A rank's place in a run, and what its steps leave.
pub struct RankSeat {
    pub order: RunOrder,
    pub rank: u32,
    /// At rank 0: what every rank drives.
    targets: RefCell<Vec<Vec<RankTarget>>>,
    /// At rank 0: whether each rank's directory is seen here.
    seen: RefCell<Vec<bool>>,
    /// At rank 0: clocks by leader, before and after.
    clocks: RefCell<Vec<(u32, ClockSample)>>,
    /// When the load begins, on the clock of rank 0.
    start: Cell<Option<i64>>,
    /// What this rank measured.
    groups: RefCell<Vec<IoGroup>>,
}

/// What a rank says when it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankEnd {
    pub exit: u8,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// When its load was, on its own clock.
    pub load: Option<RankLoad>,
    /// Workloads, operations and kinds of latency that it has.
    pub keys: Vec<(u16, taillight_core::OpKind, String)>,
}

/// Runs a plan by all ranks; called at rank 0. Errors: as a run by one process, when nothing was measured.
pub fn run(request: &RunRequest<'_>) -> Result<RunOutcome> {
    let plan = request.plan;
    let hellos = ranks::with(|all| all.hellos.clone()).unwrap_or_default();
    if plan.workloads.iter().any(|w| w.access.kind == taillight_core::plan::AccessKind::Follow)
        && !plan.run.share.is_own()
    {
        return Err(Error::usage("a stream is one rank's own")
            .hint("leave run.share out: each rank then has a stream of its own"));
    }
    // What can be wrong with the command is told before a directory is made.
    let destroy = confirmation::listed(request.destroy)?;
    let mut of_plan = plan.clone();
    of_plan.run.output = None;
    let text = of_plan.to_toml()?;
    let environment = Environment::before(&Sys::default(), None);
    let origin = RunOrigin::Merged { ranks: hellos.len() as u32 };
    let whole = directory::create(plan, request.job, request.destroy, environment.map(), origin)?;
    let absolute =
        std::path::absolute(whole.dir.path()).unwrap_or_else(|_| whole.dir.path().into());
    let (leaders, leader_of) = leaders(&hellos);
    let order = RunOrder {
        plan: text,
        directory: absolute,
        run_id: whole.run_id.clone(),
        destroy,
        in_series: request.place.is_some(),
        shift: shift(plan, &hellos.iter().map(|h| h.host.clone()).collect::<Vec<_>>()),
        peers: hellos.iter().map(|h| (h.host.clone(), h.pid)).collect(),
        leaders,
        leader_of,
    };
    ranks::tell(&RankOrder::Run(Box::new(order.clone())));
    let seat = RankSeat::new(order, 0);
    let ended = part(&seat, request.signals, request.job);
    let mut whole = whole;
    seat.write_scale(&mut whole, None)?;
    match ended {
        Err(e) => {
            let _ = std::fs::remove_file(whole.dir.file(names::SCALE));
            remove_parts(&whole, hellos.len() as u32);
            whole.discard();
            match request.signals.exit() {
                Some(exit) => Ok(RunOutcome { exit, path: None, summary: None }),
                None => Err(e),
            }
        }
        Ok(end) => ranked_end::conclude(&seat, whole, end, request),
    }
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

/// By how many ranks a run that only reads shifts its parts, so that no host reads what it wrote: those of a host. Only
/// where each rank has its own part.
fn shift(plan: &Plan, hosts: &[String]) -> u32 {
    let reads = plan.workloads.iter().all(|w| w.mix.iter().all(|m| !m.op.writes()));
    let several = hosts.iter().any(|host| Some(host) != hosts.first());
    let first = hosts.iter().take_while(|host| Some(*host) == hosts.first()).count() as u32;
    let shared = plan.run.share == WorkShare::Segments || plan.run.share == WorkShare::Strided;
    if reads && several && shared { first } else { 0 }
}

/// Runs an order; called at all ranks but 0.
pub fn follow(order: &RunOrder, signals: &Signals) {
    let rank = ranks::with(|all| all.ranks.rank()).unwrap_or_default();
    let seat = RankSeat::new(order.clone(), rank);
    // What went wrong was told to rank 0 by the step that it went wrong in.
    if let Ok(end) = part(&seat, signals, None) {
        ranked_end::take_leave(&seat, end);
    }
}

/// This rank's part of a run. Errors: at every rank where one cannot start; after the start what goes wrong is in
/// the answer.
fn part(seat: &RankSeat, signals: &Signals, job: Option<&JobSource>) -> Result<RankEnd> {
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
        run_on_target(&request, |run, live| super::open(&request, run, live))
    });
    match ended {
        Ok(outcome) if seat.start.get().is_some() => Ok(ranked_end::of(seat, &outcome)),
        Ok(_) => {
            // Ended by a signal before the start.
            let e = Error::unavailable("stopped before anything was measured");
            Err(seat.fail(e))
        }
        Err(e) if seat.start.get().is_some() => Ok(RankEnd {
            exit: e.exit().code(),
            error: Some(e.to_string()),
            load: None,
            keys: Vec::new(),
        }),
        Err(e) => Err(seat.fail(e)),
    }
}

impl RankSeat {
    fn new(order: RunOrder, rank: u32) -> RankSeat {
        let peers = order.peers.iter().enumerate();
        let own = order.peers.get(rank as usize).map(|(host, _)| host.clone());
        let near = peers.filter(|(_, (host, _))| Some(host) == own.as_ref());
        openers::set_peers(near.map(|(_, (_, pid))| *pid).collect());
        RankSeat {
            order,
            rank,
            targets: RefCell::default(),
            seen: RefCell::default(),
            clocks: RefCell::default(),
            start: Cell::new(None),
            groups: RefCell::default(),
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
    }

    /// The plan of this rank, in its own directory.
    fn plan(&self) -> Result<Plan> {
        let whole = job::plan_of_text(&self.order.plan)?;
        let place = RankPlace { rank: self.rank, of: self.size(), shift: self.order.shift };
        let name = &whole.target.driver;
        let driver = taillight_driver::find(name)
            .ok_or_else(|| Error::usage("there is no such driver").with("driver", name))?;
        let mut plan = whole.for_rank(place, &|_, path, rank| driver.rank_path(path, rank))?;
        let directory = self.order.directory.join(rank_name(self.rank));
        plan.run.output = Some(directory.to_string_lossy().into_owned());
        // Ranks of a host share its memory.
        let own = self.order.peers.get(self.rank as usize).map(|(host, _)| host);
        let near = self.order.peers.iter().filter(|(host, _)| Some(host) == own).count() as u64;
        let workers = u64::from(plan.workers());
        let least = taillight_core::plan::least_capture(workers);
        plan.capture.budget.0 = (plan.capture.budget.0 / near.max(1)).max(least);
        Ok(plan)
    }

    /// Tells the others that this rank cannot, where they still wait for it.
    fn fail(&self, e: Error) -> Error {
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

    /// All look at their targets, one refusal stops all; then they are opened, one after another where they share one.
    pub fn open(
        &self,
        targets: TargetsRequest<'_>,
        step: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<Box<dyn Target>> {
        let looked = TargetsRequest { run_id: "", ..targets };
        let statement = (confirmation::targets_of(targets.plan), self.sees());
        let said = agree("naming the targets", Ok(statement))?;
        let fits = match self.rank == 0 {
            true => {
                let (all, seen): (Vec<Vec<RankTarget>>, Vec<bool>) =
                    said.into_iter().map(|(_, it)| it).unzip();
                self.seen.replace(seen);
                let fits = confirmation::fit(&self.order, targets.plan, &all);
                self.targets.replace(all);
                fits
            }
            false => Ok(()),
        };
        let own = looked.check();
        let own =
            own.map_err(|e| confirmation::with_words(e, &self.order, self.rank, targets.plan));
        agree("looking at the targets", fits.and(own))?;
        if targets.plan.run.share.is_own() {
            return targets.open(step);
        }
        let marker = confirmation::Marker::of(&self.order, targets.plan);
        if self.rank == 0 {
            let opened = targets.open(step);
            let laid_out = opened.as_ref().map(|_| marker.set()).map_err(same);
            agree("laying out what all share", laid_out.and_then(|set| set))?;
            let seen = agree("opening what all share", Ok(()));
            marker.remove();
            seen?;
            return opened;
        }
        agree("laying out what all share", Ok(()))?;
        let opened = marker.check().and_then(|()| targets.open(step));
        agree("opening what all share", opened.as_ref().map(|_| ()).map_err(same))?;
        opened
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

    /// All sessions are ready: clocks are measured, and rank 0 names the stamp at which all begin. None on this
    /// rank's own clock.
    pub fn start(&self, is_virtual: bool) -> Result<Stamp> {
        agree("getting ready", Ok(()))?;
        if self.rank == 0 {
            self.announce()?;
        }
        let clocks = self.measure_clocks()?;
        let worst = clocks.iter().map(|(_, c)| c.round_trip_ns).max().unwrap_or(100_000);
        let at = MonoClock.now().plus(LEAD_NS + 20 * worst).0;
        let mine = (at, clocks.clone());
        let told = ranks::with(|all| {
            let mine = (self.rank == 0).then_some(&mine);
            all.ranks.tell("the start", mine, Patience::of(Duration::from_secs(30)))
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
    pub fn closing(&self) {
        let Ok(plan) = job::plan_of_text(&self.order.plan) else { return };
        if plan.run.share.is_own() {
            return;
        }
        let patience = Patience::of(Duration::from_nanos(plan.run.drain_timeout.0) + AFTER_LOAD);
        ranks::with(|all| all.ranks.collect("the end of the load", (), patience).map(drop));
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
                    answer_pings(all.ranks.group(), &MonoClock)?;
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
                start_ns: map.to_reference(load.start_ns),
                done_ns: map.to_reference(load.done_ns),
            });
            let gone = lost.iter().find(|lost| lost.rank == rank);
            RankEntry {
                rank,
                host: hello.host.clone(),
                clock_id: hello.clock_id.clone(),
                pid: hello.pid,
                cpus: hello.cpus,
                directory: rank_name(rank),
                elsewhere: seen.get(rank as usize) == Some(&false),
                targets: targets.get(rank as usize).cloned().unwrap_or_default(),
                clocks: own,
                load,
                exit: end.map(|(_, end)| end.exit),
                lost: gone.map(|lost| format!("nothing was heard of it (in: {})", lost.step)),
            }
        });
        let ranks: Vec<RankEntry> = entries.collect();
        let begins = ranks.iter().filter_map(|r| r.load?.first_submit_ns);
        let spread = begins.clone().max().zip(begins.min()).map(|(b, a)| b.abs_diff(a));
        let start = self.start.get().map(|at_ns| StartStamp { at_ns, spread_ns: spread });
        let hosts = hellos.iter().map(|h| (h.host.clone(), h.facts.clone())).collect::<Vec<_>>();
        Ok(ScaleFile {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: self.order.run_id.clone(),
            share: job::plan_of_text(&self.order.plan)?.run.share,
            ranks,
            start,
            merged: Vec::new(),
            differences: differences(&hosts),
            notes: ranks::oversubscribed(&hellos),
        })
    }

    /// Writes `scale.json` of the whole run.
    pub fn write_scale(&self, whole: &mut NewRun, ends: Option<&[(u32, RankEnd)]>) -> Result<()> {
        let scale = self.scale(ends)?;
        whole.dir.write(&scale)
    }

    /// Exact percentiles over all ranks, of everything that any of them has. Called at every rank with the same keys.
    pub fn merge(
        &self,
        keys: &[(u16, taillight_core::OpKind, String)],
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

/// An error for somebody else.
fn same(e: &Error) -> Error {
    Error::new(e.kind(), e.to_string()).hint_some(e.hint_text().map(str::to_owned))
}

/// A step that all take or none.
fn agree<T: Serialize + serde::de::DeserializeOwned>(
    step: &str,
    mine: Result<T>,
) -> Result<Vec<(u32, T)>> {
    let patience = Patience::of(LAYOUT);
    ranks::with(|all| all.ranks.agree(step, mine, patience)).unwrap_or_else(|| Ok(Vec::new()))
}

/// Directories of ranks that measured nothing.
fn remove_parts(whole: &NewRun, ranks: u32) {
    for rank in 0..ranks {
        let _ = std::fs::remove_dir(whole.dir.path().join(rank_name(rank)));
    }
}
