//! The thread that empties the workers' logs while the run goes on and joins them with the I/Os
//! that are kept. Everything stays in memory until the end; memory is bounded, what finds no room
//! is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use taillight_core::plan::{Plan, TraceMode};
use taillight_core::units::ByteSize;
use taillight_core::{Clock, Error, MonoClock, Result, TimeSpan};
use taillight_machine::Sys;
use taillight_rundir::RunDir;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend, TracingStopped};

use super::off_cpu::{LONG_NS, OffCpuLog};
use super::probe::{KeptIo, PerfProbeShared, PerfProbes, WorkerArrival};
use super::record::records;
use super::schedstat::{Schedstat, SchedstatReading};
use super::sys::SwitchLog;
use crate::memory_budget;
use crate::tracing::quota::QuotaWatch;
use crate::tracing::standstill::StandstillWatch;
use crate::tracing::{Backend, EndSignal, TraceCounts, TracingRequest};

/// How often logs are emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// Waits for a CPU are read at least every so many rounds.
const READ_EVERY: u64 = 10;
/// The kernel counts an arrival on the CPU a little before it logs it.
const SLACK_NS: i64 = 10_000;
/// A log is thought dead when its thread came back to the CPU so often without a record.
const SILENT: u64 = 8;
/// Bytes of a worker's log, unless the user says otherwise.
const RING: u64 = 64 << 10;
/// Kept I/Os, events, and intervals not yet decided on, at most.
const IOS_MAX: usize = 1 << 22;
const EVENTS_MAX: usize = 1 << 20;
const RECENT_MAX: usize = 1 << 18;

/// Tracing with this backend, under way.
pub(crate) struct PerfTracing {
    shared: PerfProbeShared,
    stop: EndSignal,
    thread: JoinHandle<WatchedTrace>,
}

/// What was gathered.
#[derive(Default)]
struct WatchedTrace {
    ios: Vec<(u16, KeptIo)>,
    events: Vec<WatchedEvent>,
    events_lost: u64,
    ios_lost: u64,
    stopped: Option<TracingStopped>,
    watched: Vec<ProgramInfo>,
}

/// An event with what this backend knows of one: a row of the file takes fifteen times as much memory.
struct WatchedEvent {
    kind: LayerKind,
    worker: Option<u16>,
    state: Option<bool>,
    start: i64,
    end: i64,
    blocked: Option<u64>,
    waited: Option<u64>,
}

impl WatchedEvent {
    fn of(row: &LayerRow) -> WatchedEvent {
        WatchedEvent {
            kind: row.kind,
            worker: row.worker.map(|w| w as u16),
            state: row.state.map(|s| s != 0),
            start: row.start_ns,
            end: row.end_ns,
            blocked: row.blocked_ns,
            waited: row.waited_ns,
        }
    }

    fn row(&self) -> LayerRow {
        LayerRow {
            kind: self.kind,
            worker: self.worker.map(u64::from),
            state: self.state.map(u64::from),
            start_ns: self.start,
            end_ns: self.end,
            blocked_ns: self.blocked,
            waited_ns: self.waited,
            ..LayerRow::default()
        }
    }
}

/// One worker that is watched.
struct WatchedThread {
    worker: u16,
    ring: Option<SwitchLog>,
    kept: Receiver<KeptIo>,
    schedstat: Option<Schedstat>,
    intervals: OffCpuLog,
    /// Readings by the worker itself and by the gatherer, not yet used.
    readings: Vec<SchedstatReading>,
    /// At the last check that found records: arrivals on the CPU, and the stamp of the last record.
    checked: (u64, i64),
    /// Since when nothing is logged although the thread ran.
    silent_since: Option<i64>,
    /// Since when there is no log at all, if it could not be opened.
    unwatched_since: Option<i64>,
}

impl Backend for PerfTracing {
    const KIND: TracingBackend = TracingBackend::Perf;
    type Probes = PerfProbes;

    fn try_here(_: &Sys) -> Result<Vec<ProgramInfo>> {
        allowed(1)?;
        Ok(vec![ProgramInfo {
            trace_point: "context switches".to_owned(),
            sees: "when each worker was on a CPU".to_owned(),
            missing: None,
        }])
    }

    fn check(plan: &Plan, sys: &Sys) -> Result<()> {
        room(plan, sys).map(drop)
    }

    /// Begins to watch. Errors: `Unavailable` when the kernel does not let a thread be watched by
    /// its own process, or the logs do not fit into memory.
    fn start(request: &mut TracingRequest<'_>, sys: &Sys) -> Result<PerfTracing> {
        let plan = request.plan;
        let bytes = room(plan, sys)?;
        let (arrivals, arrived) = unbounded();
        let shared = PerfProbeShared {
            arrivals,
            counts: Arc::new(TraceCounts::default()),
            all: plan.trace.mode == TraceMode::All,
            threshold: plan.outlier_ns(),
            ring: bytes,
            workers: plan.workers() as usize,
        };
        let stop = EndSignal::default();
        let gatherer = LogReader {
            arrived,
            stop: stop.flag(),
            quota: QuotaWatch::new(sys),
            standstill: StandstillWatch::start(sys)?,
            sys: sys.clone(),
            room: RECENT_MAX / shared.workers.max(1),
            watches: Vec::new(),
            all: WatchedTrace::default(),
            bytes: Vec::new(),
            ended: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || gatherer.run())
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(PerfTracing { shared, stop, thread })
    }

    fn probes(&self) -> Arc<PerfProbes> {
        Arc::new(PerfProbes(self.shared.clone()))
    }

    fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        drop(self.stop);
        let mut all = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of trace events panicked"))?;
        info.operations = self.shared.counts.operations.load(Relaxed);
        info.ios_lost = self.shared.counts.lost.load(Relaxed) + all.ios_lost;
        info.events_lost = all.events_lost;
        info.kept = all.ios.len() as u64;
        info.off_cpu_ns = LONG_NS;
        info.stopped = all.stopped.take();
        info.programs = std::mem::take(&mut all.watched);
        write(dir, all)
    }
}

/// Bytes of each worker's log, when the kernel gives one and there is memory for all of them: they
/// are locked in memory. Errors: `Unavailable` when not.
fn room(plan: &Plan, sys: &Sys) -> Result<usize> {
    let free = memory_budget::free_memory(sys)?;
    let bytes = fitting(plan.trace.buffer, plan.workers(), free)?;
    allowed(bytes)?;
    Ok(bytes)
}

/// Bytes of each worker's log, if those of all fit into so many bytes.
fn fitting(buffer: Option<ByteSize>, workers: u32, free: u64) -> Result<usize> {
    let each = buffer.map_or(RING, |b| b.0);
    let all = each.saturating_mul(u64::from(workers));
    match usize::try_from(each) {
        Ok(bytes) if all <= free => Ok(bytes),
        _ => Err(Error::unavailable("the logs of all workers do not fit into memory")
            .with("trace.buffer", ByteSize(each))
            .with("workers", workers)
            .with("free", ByteSize(free))
            .hint("a smaller trace.buffer (it is of each worker), or fewer workers")),
    }
}

/// Whether this process may watch its own threads.
fn allowed(bytes: usize) -> Result<()> {
    let tried = SwitchLog::of_this_thread(bytes);
    tried.map(drop).map_err(|e| {
        Error::unavailable("the kernel does not log context switches for this process")
            .source(e)
            .hint(
                "sysctl kernel.perf_event_paranoid=2; in a container, allow the system call \
                 perf_event_open",
            )
    })
}

fn write(dir: &RunDir, mut all: WatchedTrace) -> Result<()> {
    all.events.sort_unstable_by_key(|e| e.start);
    all.ios.sort_unstable_by_key(|(w, k)| (*w, k.submit));
    let mut writer = LayerWriter::begin(dir);
    writer.rows(all.events.iter().map(WatchedEvent::row))?;
    writer.rows(all.ios.iter().map(io_row))?;
    writer.commit()
}

fn io_row((worker, kept): &(u16, KeptIo)) -> LayerRow {
    LayerRow {
        kind: LayerKind::Io,
        start_ns: kept.submit,
        end_ns: kept.complete,
        worker: Some((*worker).into()),
        op: Some(kept.op),
        offset: Some(kept.offset),
        size: Some(kept.size),
        flags: Some(kept.flags.into()),
        ..LayerRow::default()
    }
}

fn gap(worker: Option<u16>, from: i64, to: i64) -> LayerRow {
    LayerRow {
        kind: LayerKind::Gap,
        start_ns: from,
        end_ns: to.max(from),
        worker: worker.map(Into::into),
        ..LayerRow::default()
    }
}

/// The gathering thread.
struct LogReader {
    arrived: Receiver<WorkerArrival>,
    stop: Arc<AtomicBool>,
    quota: QuotaWatch,
    standstill: StandstillWatch,
    sys: Sys,
    /// Intervals kept of each worker until it is known whether an I/O needs them.
    room: usize,
    watches: Vec<WatchedThread>,
    all: WatchedTrace,
    bytes: Vec<u8>,
    ended: Vec<(usize, KeptIo)>,
}

impl LogReader {
    fn run(mut self) -> WatchedTrace {
        for round in 0.. {
            let stop = self.stop.load(Relaxed);
            self.arrivals();
            // I/Os first: whatever a thread did within them is in its log by now.
            self.ios();
            let due = stop || round % READ_EVERY == 0;
            for index in 0..self.watches.len() {
                self.log(index, due);
            }
            self.join();
            self.quota.window().into_iter().for_each(|row| self.all.put(row));
            self.standstill.seen().for_each(|row| self.all.put(row));
            if stop {
                return self.end();
            }
            std::thread::sleep(PAUSE);
        }
        self.all
    }

    fn arrivals(&mut self) {
        for new in self.arrived.try_iter() {
            let mut info = ProgramInfo {
                trace_point: format!("context switches of worker {}", new.worker),
                sees: "when it was on a CPU".to_owned(),
                missing: None,
            };
            if let Err(e) = &new.ring {
                info.missing = Some(e.to_string());
            }
            let unwatched_since = new.ring.is_err().then_some(new.at);
            // Without counters to begin with, later ones cannot be set beside the records.
            let schedstat = Schedstat::open(&self.sys, new.tid).filter(|_| new.first.is_some());
            let mut intervals = OffCpuLog::new(new.at);
            if let Some(first) = new.first {
                intervals.settle(first);
            } else if info.missing.is_none() {
                info.missing = Some("no schedstat: waits for a CPU are not known".to_owned());
            }
            self.all.watched.push(info);
            self.watches.push(WatchedThread {
                worker: new.worker,
                ring: new.ring.ok(),
                kept: new.kept,
                schedstat,
                intervals,
                readings: Vec::new(),
                checked: (0, new.at),
                silent_since: None,
                unwatched_since,
            });
        }
    }

    fn ios(&mut self) {
        for (index, watch) in self.watches.iter_mut().enumerate() {
            for kept in watch.kept.try_iter() {
                watch.readings.extend(kept.reading.filter(|r| r.arrivals > 0));
                self.ended.push((index, kept));
            }
        }
    }

    /// Empties the log of one worker.
    fn log(&mut self, index: usize, due: bool) {
        let Some(watch) = self.watches.get_mut(index) else {
            return;
        };
        // Long intervals are settled soon, while few others share the reading.
        let wanted = due || watch.intervals.wants_reading(LONG_NS);
        let schedstat = watch.schedstat.as_ref().filter(|_| wanted);
        let reading = schedstat.and_then(Schedstat::read).map(|r| SchedstatReading {
            from: r.from - SLACK_NS,
            to: r.to + SLACK_NS,
            ..r
        });
        if let Some(ring) = &mut watch.ring {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            records(&self.bytes).for_each(|r| watch.intervals.add(r));
        }
        watch.readings.extend(reading);
        watch.readings.sort_unstable_by_key(|r| r.from);
        for reading in watch.readings.drain(..) {
            watch.intervals.settle(reading);
        }
        if let Some(reading) = reading.filter(|_| due) {
            watch.check(reading.arrivals);
        } else if watch.schedstat.is_none() {
            watch.intervals.close();
        }
        for unseen in std::mem::take(&mut watch.intervals.gaps) {
            self.all.put(gap(Some(watch.worker), unseen.from, unseen.to));
        }
    }

    /// Decides which intervals belong to kept I/Os.
    fn join(&mut self) {
        for (index, kept) in self.ended.drain(..) {
            let Some(watch) = self.watches.get_mut(index) else {
                continue;
            };
            if !watch.intervals.keep(kept.submit, kept.complete) {
                let to = watch.intervals.forgotten.min(kept.complete);
                self.all.put(gap(Some(watch.worker), kept.submit, to));
            }
            if self.all.ios.len() < IOS_MAX {
                self.all.ios.push((watch.worker, kept));
            } else {
                self.all.ios_lost += 1;
            }
        }
        for watch in &mut self.watches {
            let (worker, all) = (watch.worker, &mut self.all);
            let put = |row| all.put(row);
            watch.intervals.shrink(self.room, LONG_NS, put, worker);
        }
    }

    fn end(mut self) -> WatchedTrace {
        let now = MonoClock.now().0;
        self.standstill.end().into_iter().for_each(|row| self.all.put(row));
        for watch in &mut self.watches {
            let all = &mut self.all;
            watch.intervals.close();
            watch.intervals.shrink(0, LONG_NS, |row| all.put(row), watch.worker);
            all.events_lost += watch.intervals.lost;
            if let Some(at_ns) = watch.unwatched_since {
                all.put(gap(Some(watch.worker), at_ns, now));
            }
            if let Some(at_ns) = watch.silent_since {
                all.put(gap(Some(watch.worker), at_ns, now));
                let earlier = all.stopped.as_ref().is_some_and(|s| s.at_ns <= at_ns);
                if !earlier {
                    all.stopped = Some(TracingStopped {
                        at_ns,
                        what: "the log of context switches fell silent although threads ran"
                            .to_owned(),
                    });
                }
            }
        }
        self.all
    }
}

impl WatchedTrace {
    fn put(&mut self, row: LayerRow) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(WatchedEvent::of(&row));
        } else {
            self.events_lost += 1;
        }
    }
}

impl WatchedThread {
    /// A thread that comes back to the CPU again and again leaves records, unless somebody switched
    /// its log off.
    fn check(&mut self, arrivals: u64) {
        let (before, seen) = self.checked;
        if self.intervals.seen > seen || before == 0 {
            // Records came: also after a silence, whose length is then known.
            if let Some(from) = self.silent_since.take() {
                self.intervals.gaps.push(TimeSpan::new(from, self.intervals.seen));
            }
            self.checked = (arrivals, self.intervals.seen);
        } else if self.ring.is_some() && arrivals >= before + SILENT {
            self.silent_since.get_or_insert(seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_of_all_workers_must_fit_into_memory() {
        let mib = |n: u64| Some(ByteSize(n << 20));
        assert_eq!(fitting(mib(1), 64, 64 << 20).unwrap(), 1 << 20);
        assert_eq!(fitting(None, 4, 1 << 20).unwrap(), RING as usize);
        for (buffer, workers) in [(mib(1), 65), (mib(1 << 43), 4096)] {
            let e = fitting(buffer, workers, 64 << 20).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Unavailable);
            assert!(e.to_string().contains("workers"), "{e}");
            assert!(e.hint_text().is_some_and(|h| h.contains("trace.buffer")));
        }
    }
}
