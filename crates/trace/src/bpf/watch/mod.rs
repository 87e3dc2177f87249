//! Watching programs that others started: the trace programs follow their threads, tell of each slow operation, and
//! count all of them. A second kind of subject of the same tracer: what is kept goes through the same collector's
//! types into the same files. Called by `cli` for `taillight watch`. An operation of a watched program is named a call
//! in types here: a system call, an entry of an io_uring, a page fault.

mod calls;
mod cost;
mod exact;
mod files;
mod gather;
mod maps;
mod sources;
mod told;
mod waits;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use taillight_core::plan::TraceMode;
use taillight_core::{Error, OpKind, Result};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend};

pub use calls::{JUDGED, call_named, name as call_name};
pub use cost::WatchPart;
pub use exact::{ExactSample, ExactWindow};
pub use files::SeenFile;
pub use gather::{KnownCalls, WatchedCall};
pub use maps::WATCHED_THREADS;
pub(super) use maps::WatchMaps;
pub use told::{CallFacts, CallTally, lower_edge, new_since, together};
pub use waits::{LongestWait, WaitCounts};

pub use super::layout::ThreadSeen;

use self::gather::{WatchInputs, WatchedRun};
use super::layout::{
    C_BEGAN, C_CALLS, C_ENDED_READS, C_ENDED_WRITES, C_FAULTS, C_LOST, C_NEIGHBOURS, C_NO_ROOM,
    C_READS, C_RECORD, C_SLOW_NS, C_SUBJECTS, C_SYNCS, C_WAITS, C_WRITES,
};
use super::programs::{self, LoadedPrograms, ProgramConfig};
use super::session;
use super::symbols::KernelSymbols;
use crate::tracing::{EndSignal, TraceWatch};

/// Shorter intervals off the CPU are no events, ns.
const OFF_NS: u64 = 250_000;

/// What is asked of watching.
pub struct WatchedRequest<'a> {
    /// Who is told once a second what was seen since the last time.
    pub watch: TraceWatch,
    /// From which latency on an operation is kept, ns.
    pub slow_ns: u64,
    /// Directory of the file into which kept operations and events go when they take too much memory.
    pub spill: &'a Path,
    /// Kept operations at most, bytes in memory and in that file together, with those that are recorded; those beyond
    /// are lost, and counted.
    pub keep: usize,
    /// Operations that are not slow go into `ios.parquet` as well, to be replayed.
    pub record: bool,
    /// Most that the trace programs may take, as a share of a CPU.
    pub max_cost: Option<f64>,
    /// Every call is looked at in so much of the time, 0 to 1.
    pub exact: Option<f64>,
    /// Of the calls of its kind this one is looked at and no other.
    pub only: Option<&'static str>,
}

/// Watching, under way.
pub struct Watching {
    programs: Arc<LoadedPrograms>,
    symbols: Arc<KernelSymbols>,
    known: Arc<Mutex<KnownCalls>>,
    stop: EndSignal,
    thread: JoinHandle<WatchedRun>,
    too_dear: Arc<AtomicBool>,
    /// How long it took to load the programs, which touches nobody, and to attach them.
    pub loaded_in: Duration,
    pub attached_in: Duration,
}

/// What watching left beside the files.
pub struct WatchResult {
    pub info: TraceInfo,
    /// Slow operations, those in `ios.parquet`, and others there that were recorded.
    pub slow: u64,
    pub recorded: u64,
    /// How many recorded operations were on each file that has any, by number; 0 where the file is not known.
    pub by_file: BTreeMap<u16, u64>,
    /// Files of slow and recorded operations, by the numbers in the column `target`.
    pub files: Vec<SeenFile>,
    /// CPU time of the trace programs as a share of one CPU, in the windows in which the kernel counted it.
    pub programs_share: Option<f64>,
    /// Operations and threads that found no room in the programs' memory, and operations that came while the programs
    /// for them were away.
    pub no_room: u64,
    /// How long it took to load the programs, to attach them, and to take them away.
    pub loaded_in: Duration,
    pub attached_in: Duration,
    pub detached_in: Duration,
    /// Waits of threads for others of their program.
    pub waits: WaitCounts,
    /// What was left out for being too dear.
    pub left_out: Vec<WatchPart>,
    /// Every call in windows, where that was asked for.
    pub exact: Option<ExactSample>,
}

impl Watching {
    /// Errors: `Unavailable` where it is known beforehand that nobody can be watched, with what is missing.
    pub fn allowed(sys: &Sys) -> Result<()> {
        if !cfg!(target_arch = "x86_64") {
            return Err(Error::unavailable(
                "system calls of other programs are known on x86-64 only",
            ));
        }
        session::allowed(sys)
    }

    /// Loads the programs; nobody is watched yet. Errors: `Unavailable` where programs cannot be traced, with
    /// what is missing.
    pub fn start(request: WatchedRequest<'_>, sys: &Sys) -> Result<Watching> {
        Watching::allowed(sys)?;
        let began = Instant::now();
        let config = ProgramConfig {
            off_ns: OFF_NS,
            watch: true,
            late: true,
            exact: request.exact.is_some(),
            only: request.only,
            ..ProgramConfig::default()
        };
        let symbols = Arc::new(KernelSymbols::read(sys));
        let (programs, ring) = programs::load(&config, &symbols, sys)?;
        let programs = Arc::new(programs);
        followed(&programs.info)?;
        if request.exact.is_some() {
            calls_seen(&programs.info)?;
        }
        let counters = &programs.counters;
        counters.get(C_SLOW_NS).store(request.slow_ns, Relaxed);
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let boot = boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64;
        counters.get(C_BEGAN).store(boot, Relaxed);
        counters.get(C_RECORD).store(request.record.into(), Relaxed);
        let attached_in = programs.attached_in;
        let loaded_in = began.elapsed().saturating_sub(attached_in);
        let (stop, known) = (EndSignal::default(), Arc::default());
        let too_dear = Arc::new(AtomicBool::new(false));
        let inputs = WatchInputs {
            programs: programs.clone(),
            symbols: symbols.clone(),
            ring,
            known: Arc::clone(&known),
            stop: stop.flag(),
            watch: request.watch,
            spill: PathBuf::from(request.spill),
            keep: request.keep,
            max_cost: request.max_cost,
            too_dear: Arc::clone(&too_dear),
            exact: request.exact,
        };
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || gather::gather(inputs))
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(Watching { programs, symbols, known, stop, thread, too_dear, attached_in, loaded_in })
    }

    fn maps(&self) -> Result<&WatchMaps> {
        self.programs.watch.as_ref().ok_or_else(|| Error::internal("nothing is watched"))
    }

    /// Watches a process with all its threads, and the processes that it forks from now on. Errors: `Unavailable` when
    /// there are too many processes; threads beyond [`WATCHED_THREADS`] are counted by [`Watching::no_room`].
    pub fn add(&self, pid: u32) -> Result<()> {
        self.maps()?.add(pid)?;
        self.programs.counters.get(C_SUBJECTS).fetch_add(1, Relaxed);
        Ok(())
    }

    /// Watches a process no more. Only for one that had ended before [`Watching::add`]: its end is not seen any more,
    /// and whoever got its number next would be watched.
    pub fn remove(&self, pid: u32) {
        if let Ok(maps) = self.maps() {
            maps.remove(pid);
            self.programs.counters.get(C_SUBJECTS).fetch_add(1, Relaxed);
        }
    }

    /// Operations and threads that have found no room in the programs' memory, and operations that came while the
    /// programs for them were away.
    pub fn no_room(&self) -> u64 {
        self.programs.counters.get(C_NO_ROOM).load(Relaxed)
    }

    /// Processes that are watched and have not ended, ascending.
    pub fn pids(&self) -> Vec<u32> {
        self.maps().map_or_else(|_| Vec::new(), WatchMaps::pids)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.maps().map_or(true, WatchMaps::is_empty)
    }

    /// What each kind of operation took since the start; kinds without any are left out.
    pub fn tallies(&self) -> Vec<(OpKind, CallTally)> {
        self.maps().map_or_else(|_| Vec::new(), |maps| maps.tallies(false))
    }

    /// The same of requests of io_uring and libaio alone, every one of which was seen.
    pub fn requests(&self) -> Vec<(OpKind, CallTally)> {
        self.maps().map_or_else(|_| Vec::new(), WatchMaps::requests)
    }

    /// How many of each were seen: calls that read, calls that wrote, syncs, page faults. Of reads and writes the
    /// kernel keeps counts to compare with; syncs are counted only where none can be missed; page faults can be
    /// missed, and nothing tells how many.
    pub fn counted(&self) -> [u64; 4] {
        let count = |which| self.programs.counters.get(which).load(Relaxed);
        [C_READS, C_WRITES, C_SYNCS, C_FAULTS].map(count)
    }

    /// Calls that read and calls that wrote of threads that have ended, as the kernel counted them.
    pub fn of_ended(&self) -> [u64; 2] {
        let count = |which| self.programs.counters.get(which).load(Relaxed);
        [C_ENDED_READS, C_ENDED_WRITES].map(count)
    }

    /// From now on operations are kept that take as long as this, ns.
    pub fn keep_from(&self, slow_ns: u64) {
        self.programs.counters.get(C_SLOW_NS).store(slow_ns, Relaxed);
    }

    /// The programs take more than was allowed, whatever is left out.
    pub fn is_too_dear(&self) -> bool {
        self.too_dear.load(Relaxed)
    }

    /// Slow operations and waits that are kept, with what is known beside their stamps.
    pub fn known(&self) -> Arc<Mutex<KnownCalls>> {
        self.known.clone()
    }

    /// What cannot be seen here, for people.
    pub fn missing(&self) -> Vec<String> {
        let missing = |p: &ProgramInfo| {
            let why = p.missing.as_ref()?;
            Some(format!("{} cannot be seen ({}: {why})", p.sees, p.trace_point))
        };
        self.programs.info.iter().filter_map(missing).collect()
    }

    /// Ends watching and writes `layers.parquet` and `ios.parquet`, where the kinds of operation are workloads in
    /// this order, after them waits. Errors: `Unavailable` when a file cannot be written.
    pub fn finish(self, dir: &RunDir, workloads: &[OpKind]) -> Result<WatchResult> {
        drop(self.stop);
        let mut run = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of trace events panicked"))?;
        let count = |which| self.programs.counters.get(which).load(Relaxed);
        let mut info = TraceInfo::new(
            TraceMode::Outliers,
            TracingBackend::TracePoints,
            Some(count(C_SLOW_NS)),
        );
        // Those that did not come back.
        let lost = std::mem::take(&mut run.trace.programs);
        info.programs = self.programs.info.clone();
        info.programs.retain(|p| lost.iter().all(|lost| lost.trace_point != p.trace_point));
        info.programs.extend(lost);
        info.symbols = self.symbols.known();
        info.off_cpu_ns = OFF_NS;
        info.operations = count(C_CALLS);
        info.ios_lost = run.lost;
        info.events_lost = count(C_LOST) + run.trace.events_lost;
        info.events_forgotten = run.trace.events_forgotten;
        info.threads_unknown = run.trace.threads_unknown;
        info.spilled_bytes = run.trace.ios.written() + run.trace.events.written();
        info.neighbours = count(C_NEIGHBOURS);
        info.disks_watched = Some(run.disks_watched);
        info.kept = run.trace.ios.len();
        info.program_ns_per_op = run.program_ns;
        info.collector_ns_per_op = run.trace.collector_ns;
        let (no_room, counted) = (count(C_NO_ROOM), count(C_WAITS));
        let detaching = Instant::now();
        // The last one who has the programs.
        drop(self.programs);
        let detached_in = detaching.elapsed();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let workloads = [workloads, &[OpKind::Wait]].concat();
        let mut by_file = BTreeMap::new();
        run.record.iter().for_each(|r| *by_file.entry(r.file).or_insert(0) += 1);
        let recorded = run.record.len() as u64;
        let waits = WaitCounts { others: run.waits.others + counted, ..run.waits };
        let rows = sources::write_ios(dir, &run.trace, &known, run.record, &workloads)?;
        let files = known.files.list().to_vec();
        session::write(dir, run.trace, &self.symbols)?;
        Ok(WatchResult {
            info,
            slow: rows - recorded,
            recorded,
            by_file,
            files,
            programs_share: run.programs_share,
            no_room,
            loaded_in: self.loaded_in,
            attached_in: self.attached_in,
            detached_in,
            waits,
            left_out: run.left_out,
            exact: run.exact,
        })
    }
}

/// Without the trace points of system calls there are no windows.
fn calls_seen(programs: &[ProgramInfo]) -> Result<()> {
    let here = |p: &&ProgramInfo| p.trace_point.starts_with("sys_");
    match programs.iter().filter(here).find_map(|p| Some((p, p.missing.as_ref()?))) {
        None => Ok(()),
        Some((program, why)) => {
            Err(Error::unavailable("calls that do not block cannot be seen here")
                .with("trace point", &program.trace_point)
                .with("why", why)
                .hint("leave --exact out: what blocks is seen without it"))
        }
    }
}

/// Without these, calls that block are not seen, children are not watched, and who has ended is taken for running.
const NEEDED: [&str; 3] = ["sched_switch", "sched_process_fork", "sched_process_exit"];

fn followed(programs: &[ProgramInfo]) -> Result<()> {
    let here = |p: &&ProgramInfo| NEEDED.contains(&p.trace_point.as_str());
    match programs.iter().filter(here).find_map(|p| Some((p, p.missing.as_ref()?))) {
        None => Ok(()),
        Some((program, why)) => {
            Err(Error::unavailable("a trace program is refused without which nobody is watched")
                .with("trace point", &program.trace_point)
                .with("it sees", &program.sees)
                .with("why", why)
                .hint("`taillight doctor` says what tracing needs"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_what_it_rests_on_nobody_is_watched() {
        let program = |point: &str, missing: Option<&str>| ProgramInfo {
            trace_point: point.to_owned(),
            sees: "something".to_owned(),
            missing: missing.map(str::to_owned),
        };
        let refused = |point: &str| {
            followed(&[program("sched_waking", None), program(point, Some("no such type"))])
        };
        assert!(refused("jbd2_end_commit").is_ok(), "there are other file systems");
        for point in NEEDED {
            let said = refused(point).expect_err("refused").to_string();
            assert!(said.contains("nobody is watched"), "{said}");
        }
        assert!(followed(&NEEDED.map(|point| program(point, None))).is_ok());
    }
}
