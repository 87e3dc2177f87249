//! Tracing of one run: started before the load, finished into `layers.parquet` after it.
//!
//! What it is: the one face of tracing that `cli` uses. What it is not: the load. When trace
//! points are out of reach the run goes on, and the manifest says what was missed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use crossbeam_channel::unbounded;
use taillight_core::plan::{Plan, TraceMode};
use taillight_core::{Error, Result};
use taillight_rundir::RunDir;
use taillight_rundir::layers::LayerWriter;
use taillight_rundir::trace_info::{ProgramInfo, Rung, TraceInfo};

use crate::bpf::collect::{self, Gathered, Sources};
use crate::bpf::cost;
use crate::bpf::layout::{C_LOST, C_NEIGHBOURS};
use crate::bpf::probe::{BpfProbes, Common, Seen, Tally};
use crate::bpf::programs::{self, Config};
use crate::bpf::symbols::Symbols;
use crate::quota::Quota;
use crate::{Sys, disks};

/// Memory for traced I/Os, at most.
const MEMORY: usize = 1 << 30;
/// Shorter stretches off the CPU are events only when every I/O is traced, ns.
const OFF_NS: u64 = 250_000;
const OFF_ALL_NS: u64 = 100_000;

/// Tracing under way.
pub struct Tracer {
    common: Common,
    symbols: Symbols,
    over: Arc<AtomicBool>,
    thread: JoinHandle<Gathered>,
    info: TraceInfo,
}

/// What a run asks of tracing.
#[derive(Debug)]
pub struct Wish<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What is measured, once it is there.
    pub path: Option<&'a Path>,
    /// I/Os bypass the page cache.
    pub direct: bool,
}

/// What would be said of a run that traces nothing.
pub fn untraced(plan: &Plan, why: &Error) -> TraceInfo {
    TraceInfo {
        why: Some(why.to_string()),
        rung: Rung::None,
        ..info(plan)
    }
}

/// Loads and attaches every program for a moment: what can be seen here and what not.
///
/// # Errors
/// As [`Tracer::start`].
pub fn try_programs(sys: &Sys) -> Result<Vec<ProgramInfo>> {
    own_numbers(sys)?;
    let config = Config {
        all: true,
        queued: true,
        off_ns: OFF_NS,
        ..Config::default()
    };
    let (programs, _) = programs::load(&config, &Symbols::read(sys))?;
    Ok(programs.info.clone())
}

/// Trace programs know threads by the numbers of the first PID namespace.
fn own_numbers(sys: &Sys) -> Result<()> {
    if disks::same_pid_namespace(sys) {
        return Ok(());
    }
    Err(
        Error::unavailable("threads have other numbers here than in the kernel (PID namespace)")
            .hint("run outside of the container, or with the host's PID namespace"),
    )
}

fn info(plan: &Plan) -> TraceInfo {
    TraceInfo {
        mode: plan.trace.mode,
        rung: Rung::TracePoints,
        why: None,
        programs: Vec::new(),
        symbols: false,
        threshold_ns: plan.outlier_ns(),
        operations: 0,
        kept: 0,
        ios_lost: 0,
        events_lost: 0,
        neighbours: 0,
        off_cpu_ns: 0,
        program_ns_per_op: None,
        probe_ns_per_op: None,
    }
}

impl Tracer {
    /// Loads the programs and begins to collect.
    ///
    /// # Errors
    /// `Unavailable` when nothing can be traced here, with the reason.
    pub fn start(wish: &Wish<'_>, sys: &Sys) -> Result<Tracer> {
        own_numbers(sys)?;
        let plan = wish.plan;
        let all = plan.trace.mode == TraceMode::All;
        let queued = plan.workloads.iter().any(|w| w.queue_depth > 1);
        let disks = wish.path.map_or_else(Vec::new, |p| disks::under(sys, p));
        // I/O that reaches a disk past the page cache leads back to its operation by itself.
        let itself = wish.direct && !disks.is_empty();
        let config = Config {
            disks,
            off_ns: if all { OFF_ALL_NS } else { OFF_NS },
            all,
            late: itself && !all,
            queued: queued && !itself,
        };
        let symbols = Symbols::read(sys);
        let (programs, ring) = programs::load(&config, &symbols)?;
        let programs = Arc::new(programs);
        let mut info = info(plan);
        info.programs = programs.info.clone();
        info.symbols = symbols.known();
        info.off_cpu_ns = config.off_ns;
        let workers = plan.workers() as usize;
        let (full_in, full) = unbounded();
        let (spare_in, spare) = unbounded();
        for _ in 0..collect::ready(workers) {
            let _ = spare_in.send(collect::batch());
        }
        let over = Arc::new(AtomicBool::new(false));
        let sources = Sources {
            programs: programs.clone(),
            workers,
            ring,
            full,
            spare: spare_in,
            over: over.clone(),
            ios_max: MEMORY / size_of::<Seen>(),
        };
        let quota = Quota::new(sys);
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || collect::gather(sources, quota))
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        let common = Common {
            programs,
            full: full_in,
            spare,
            tally: Arc::new(Tally::default()),
            all,
            late: config.late,
            threshold: plan.outlier_ns(),
            nonce: nonce(),
        };
        info.probe_ns_per_op = Some(cost::probe_ns(&common));
        Ok(Tracer {
            common,
            symbols,
            over,
            thread,
            info,
        })
    }

    /// Probes for the workers.
    pub fn probes(&self) -> Arc<BpfProbes> {
        Arc::new(BpfProbes(self.common.clone()))
    }

    /// What can be seen and what not, for people, before the load.
    pub fn missing(&self) -> Vec<String> {
        let missing = self.info.programs.iter().filter_map(|p| {
            let why = p.missing.as_ref()?;
            Some(format!(
                "{} cannot be seen ({}: {why})",
                p.sees, p.trace_point
            ))
        });
        missing.collect()
    }

    /// Ends tracing and writes `layers.parquet`.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be written.
    pub fn finish(self, dir: &RunDir) -> Result<TraceInfo> {
        self.over.store(true, Relaxed);
        let gathered = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of trace events panicked"))?;
        let mut info = self.info;
        let count = |which| self.common.programs.counters.get(which).load(Relaxed);
        info.operations = self.common.tally.operations.load(Relaxed);
        info.ios_lost = self.common.tally.lost.load(Relaxed);
        info.events_lost = count(C_LOST) + gathered.events_lost;
        info.neighbours = count(C_NEIGHBOURS);
        info.programs.extend(gathered.programs.iter().cloned());
        info.program_ns_per_op = gathered.program_ns;
        info.kept = gathered.ios.iter().map(|b| b.len() as u64).sum();
        write(dir, gathered, &self.symbols)?;
        Ok(info)
    }
}

fn write(dir: &RunDir, gathered: Gathered, symbols: &Symbols) -> Result<()> {
    let mut ios: Vec<&Seen> = gathered.ios.iter().flatten().collect();
    ios.sort_unstable_by_key(|s| (s.worker, s.submit));
    let mut events = gathered.events;
    events.sort_unstable_by_key(|e| e.start);
    let mut writer = LayerWriter::begin(dir)?;
    writer.rows(events.iter().map(|e| collect::event_row(e, symbols)))?;
    writer.rows(gathered.quota.iter().map(collect::quota_row))?;
    writer.rows(ios.into_iter().map(collect::io_row))?;
    writer.commit()
}

/// A start for generations: 14 random bits above 37 that count operations.
fn nonce() -> u64 {
    let mixed = (taillight_core::clock::realtime_ns() as u64)
        .wrapping_add(u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 50) << 37
}
