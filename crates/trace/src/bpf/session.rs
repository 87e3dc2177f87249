//! The backend `bpf` for one run: starts programs on trace points, their memory and the collector, and writes
//! `layers.parquet` in the end. `tracing` starts and ends it where the kernel takes trace programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use taillight_core::plan::{Plan, TraceMode};
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::block::{BlockDevice, disks_below, has_device};
use taillight_machine::rights::{TRACING, hint};
use taillight_rundir::RunDir;
use taillight_rundir::layers::LayerWriter;
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend, TracingStopped};

use super::collect::{self, CollectedTrace, CollectorInputs};
use super::cost;
use super::forget::NotHandedOver;
use super::heartbeat::{self, Heartbeat};
use super::layout::{C_LOST, C_NEIGHBOURS};
use super::probe::{BpfProbeShared, BpfProbes};
use super::programs::{self, ProgramConfig};
use super::symbols::KernelSymbols;
use super::tail::TraceTail;
use super::target_file;
use super::traced_io::{TracedBatch, TracedIo};
use crate::availability::rights;
use crate::tracing::quota::QuotaWatch;
use crate::tracing::{Backend, EndSignal, TraceCounts, TracingRequest};

/// Memory and file for traced I/Os together, at most.
const IOS_BYTES: usize = 1 << 30;
/// Shorter intervals off the CPU are no events, ns: where outliers are traced, and where every I/O is.
const OFF_NS: u64 = 250_000;
const OFF_ALL_NS: u64 = 100_000;

/// Tracing with this backend, under way.
pub(crate) struct BpfTracing {
    shared: BpfProbeShared,
    symbols: Arc<KernelSymbols>,
    stop: EndSignal,
    thread: JoinHandle<CollectedTrace>,
    off_ns: u64,
    disks_watched: bool,
    /// Whether the file for what memory should not hold is on a disk under test, where the disks are known.
    beside_load: Option<bool>,
    /// Cost of the probe in the worker, ns per operation, measured before the run.
    probe_ns: Option<f64>,
}

/// What would make every program fail, said once and in plain words.
pub(super) fn allowed(sys: &Sys) -> Result<()> {
    let missing = rights::missing_for_tracing(sys);
    if !missing.is_empty() {
        return Err(Error::unavailable("this process may not load trace programs")
            .with("missing", missing.join(" and "))
            .hint(hint(sys, &TRACING)));
    }
    if rights::lockdown(sys).as_deref() == Some("confidentiality") {
        return Err(Error::unavailable(
            "the kernel is locked down (confidentiality): trace programs may not read its memory",
        )
        .hint("boot without lockdown=confidentiality"));
    }
    own_numbers(sys)
}

/// What the programs look at, where the load is at `places` on `disks`.
fn config(
    request: &TracingRequest<'_>,
    places: &[PathBuf],
    disks: Vec<u32>,
    sys: &Sys,
) -> ProgramConfig {
    let plan = request.plan;
    let all = plan.trace.mode == TraceMode::All;
    let queued = plan.workloads.iter().any(|w| w.queue_depth > 1);
    // I/O that reaches a disk past the page cache leads back to its operation by itself, but for file
    // systems that have no device of their own (btrfs, overlays).
    let itself = request.direct && places.iter().all(|p| has_device(sys, p)) && !places.is_empty();
    ProgramConfig {
        disks,
        off_ns: if all { OFF_ALL_NS } else { OFF_NS },
        all,
        late: itself && !all,
        queued: queued && !itself,
        kind: request.path.map_or(0, target_file::kind),
        ring: plan.trace.buffer.and_then(|b| u32::try_from(b.0).ok()),
        watch: false,
        server: request.server.unwrap_or(0),
        exact: false,
        only: None,
    }
}

/// Whether the trace is kept on one of the disks that the load is on; none where either is not known.
fn beside_load(sys: &Sys, spill: Option<&Path>, disks: &[BlockDevice]) -> Option<bool> {
    let own = disks_below(sys, spill);
    let is_own = |disk: &BlockDevice| own.iter().any(|o| o.number == disk.number);
    (!own.is_empty() && !disks.is_empty()).then(|| disks.iter().any(is_own))
}

/// A queue with the batches that workers take turns to fill.
fn spare_batches(workers: usize) -> (Sender<TracedBatch>, Receiver<TracedBatch>) {
    let (spare_in, spare) = unbounded();
    for _ in 0..collect::ready(workers) {
        let _ = spare_in.send(TracedBatch::empty());
    }
    (spare_in, spare)
}

/// Trace programs know threads by the numbers of the first PID namespace.
fn own_numbers(sys: &Sys) -> Result<()> {
    if rights::same_pid_namespace(sys) {
        return Ok(());
    }
    Err(Error::unavailable("threads have other numbers here than in the kernel (PID namespace)")
        .hint("run outside of the container, or with the host's PID namespace"))
}

/// Each worker has a place in the programs' memory, and the collector has the last one.
fn check_workers(workers: u32) -> Result<()> {
    if workers as usize <= heartbeat::COLLECTOR_INDEX {
        return Ok(());
    }
    Err(Error::unavailable("more workers than trace programs watch")
        .with("workers", workers)
        .with("most", heartbeat::COLLECTOR_INDEX)
        .hint("use fewer workers, or trace.rung = \"perf\""))
}

impl Backend for BpfTracing {
    const KIND: TracingBackend = TracingBackend::TracePoints;
    type Probes = BpfProbes;

    /// Loads and attaches the programs of a run for a moment.
    fn try_here(sys: &Sys) -> Result<Vec<ProgramInfo>> {
        allowed(sys)?;
        let config =
            ProgramConfig { all: true, queued: true, off_ns: OFF_NS, ..ProgramConfig::default() };
        let (programs, _) = programs::load(&config, &KernelSymbols::read(sys), sys)?;
        Ok(programs.info.clone())
    }

    fn check(plan: &Plan, sys: &Sys) -> Result<()> {
        check_workers(plan.workers())?;
        BpfTracing::try_here(sys).map(drop)
    }

    /// Loads the programs and begins to collect.
    fn start(request: &mut TracingRequest<'_>, sys: &Sys) -> Result<BpfTracing> {
        allowed(sys)?;
        let plan = request.plan;
        check_workers(plan.workers())?;
        let all = plan.trace.mode == TraceMode::All;
        // Parts on other disks are nobody's: where one of them is not known, none is left out.
        let known = |place: &PathBuf| !disks_below(sys, [place]).is_empty();
        let all_known = request.places.iter().all(known);
        let places = if all_known { request.places } else { &[] };
        let disks = disks_below(sys, places);
        let beside_load = beside_load(sys, request.spill, &disks);
        let disks: Vec<u32> = disks.iter().map(|d| d.number.in_kernel()).collect();
        let disks_watched = (1..=programs::DISKS.len()).contains(&disks.len());
        let config = config(request, places, disks, sys);
        let symbols = Arc::new(KernelSymbols::read(sys));
        let (programs, ring) = programs::load(&config, &symbols, sys)?;
        let programs = Arc::new(programs);
        let workers = plan.workers() as usize;
        let (full_in, full) = unbounded();
        let (spare_in, spare) = spare_batches(workers);
        let stop = EndSignal::default();
        let held = Arc::new(NotHandedOver::new(workers));
        let sources = CollectorInputs {
            programs: programs.clone(),
            workers,
            ring,
            full,
            spare: spare_in,
            stop: stop.flag(),
            held: (!all).then(|| held.clone()),
            ios_bytes_max: IOS_BYTES,
            spill: request.spill.map(Path::to_owned),
            pulse: Heartbeat::new(programs.clone()),
        };
        let quota = QuotaWatch::new(sys);
        let watch = request.watch.take();
        let tail = watch.map(|watch| TraceTail::new(watch, symbols.clone(), plan.outlier_ns()));
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || collect::gather(sources, quota, tail))
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        let shared = BpfProbeShared {
            programs,
            full: full_in,
            spare,
            counts: Arc::new(TraceCounts::default()),
            held,
            all,
            late: config.late,
            plain: request.single_file,
            path: request.path.map(Path::to_owned),
            threshold: plan.outlier_ns(),
            nonce: nonce(),
        };
        let probe_ns = cost::probe_ns(&shared);
        let off_ns = config.off_ns;
        Ok(BpfTracing {
            shared,
            symbols,
            stop,
            thread,
            off_ns,
            disks_watched,
            beside_load,
            probe_ns,
        })
    }

    fn probes(&self) -> Arc<BpfProbes> {
        Arc::new(BpfProbes(self.shared.clone()))
    }

    /// Programs, attached or not.
    fn programs(&self) -> &[ProgramInfo] {
        &self.shared.programs.info
    }

    fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        drop(self.stop);
        let gathered = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of trace events panicked"))?;
        let count = |which| self.shared.programs.counters.get(which).load(Relaxed);
        info.programs = self.shared.programs.info.clone();
        info.programs.extend(gathered.programs.iter().cloned());
        info.program_ns_per_op = gathered.program_ns;
        info.collector_ns_per_op = gathered.collector_ns;
        info.probe_ns_per_op = self.probe_ns;
        info.symbols = self.symbols.known();
        info.off_cpu_ns = self.off_ns;
        info.operations = self.shared.counts.operations.load(Relaxed);
        info.ios_lost = self.shared.counts.lost.load(Relaxed);
        info.events_lost = count(C_LOST) + gathered.events_lost;
        info.events_forgotten = gathered.events_forgotten;
        info.threads_unknown = gathered.threads_unknown;
        info.spilled_bytes = gathered.ios.written() + gathered.events.written();
        info.spilled_beside_load = self.beside_load.filter(|_| info.spilled_bytes > 0);
        info.neighbours = count(C_NEIGHBOURS);
        info.disks_watched = Some(self.disks_watched);
        info.kept = gathered.ios.len();
        info.stopped = gathered.stopped.map(|at_ns| TracingStopped {
            at_ns,
            what: "the trace programs no longer saw the benchmark's threads".to_owned(),
        });
        write(dir, gathered, &self.symbols)
    }
}

pub(super) fn write(dir: &RunDir, gathered: CollectedTrace, symbols: &KernelSymbols) -> Result<()> {
    let mut writer = LayerWriter::begin(dir);
    let threads = gathered.threads;
    gathered.events.in_order(|e| {
        let row = collect::event_row(e, symbols, &threads);
        Ok::<(), WriteError>(writer.rows(std::iter::once(row))?)
    })?;
    writer.rows(gathered.quota.into_iter())?;
    writer.rows(gathered.gaps.into_iter().map(collect::gap_row))?;
    // A queue's I/Os share the interval in which their thread was not seen: one row tells it.
    let mut unseen: Vec<TracedIo> = Vec::new();
    let mut last = BTreeMap::new();
    let order = gathered.ios.order(|io| {
        if io.unseen.1 > 0 && last.insert(io.worker, io.unseen) != Some(io.unseen) {
            unseen.push(*io);
        }
    });
    let order = order.map_err(WriteError::from)?;
    unseen.sort_unstable_by_key(|io| (io.worker, io.submit));
    unseen.dedup_by_key(|io| (io.worker, io.unseen));
    writer.rows(unseen.iter().flat_map(collect::unseen_rows))?;
    gathered.ios.in_order(order, |io| Ok::<(), WriteError>(writer.rows(collect::io_rows(io))?))?;
    writer.commit()
}

/// Why the file is not written.
struct WriteError(Error);

impl From<Error> for WriteError {
    fn from(e: Error) -> WriteError {
        WriteError(e)
    }
}

impl From<std::io::Error> for WriteError {
    fn from(e: std::io::Error) -> WriteError {
        WriteError(Error::unavailable("what was kept of the trace cannot be read back").source(e))
    }
}

impl From<WriteError> for Error {
    fn from(e: WriteError) -> Error {
        e.0
    }
}

/// A start for generations: 13 random bits above 37 that count operations. With the slot's 12 that
/// leaves two, which the programs (`LOWER`) and io_uring's sync of a write use.
fn nonce() -> u64 {
    let mixed = (taillight_core::clock::realtime_ns() as u64)
        .wrapping_add(u64::from(std::process::id()) << 32)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 51) << 37
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collectors_place_is_not_a_workers() {
        assert!(check_workers(4095).is_ok());
        let e = check_workers(4096).unwrap_err();
        assert_eq!(e.kind(), taillight_core::ErrorKind::Unavailable);
        assert!(e.hint_text().is_some());
    }
}
