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
use taillight_core::{Clock, Error, MonoClock, Result};
use taillight_rundir::RunDir;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};
use taillight_rundir::trace_info::{ProgramInfo, Stopped, TraceInfo};

use super::kept::{Kept, Queue};
use super::probe::{Arrival, Common, PerfProbes};
use super::record::records;
use super::schedstat::{Reading, Schedstat};
use super::stretch::{LONG_NS, Stretches};
use super::sys::Ring;
use crate::over::Over;
use crate::quota::Quota;
use crate::still::Watch as StillWatch;
use crate::tally::Tally;
use crate::tracer::Wish;
use crate::{Sys, machine};
use taillight_machine::cgroup::CgroupLimits;
use taillight_machine::memory::Memory;

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
/// Kept I/Os, events, and stretches not yet decided on, at most.
const IOS_MAX: usize = 1 << 24;
const EVENTS_MAX: usize = 1 << 21;
const RECENT_MAX: usize = 1 << 20;

/// Tracing on this rung, under way.
pub(crate) struct Tracing {
    common: Common,
    over: Over,
    thread: JoinHandle<Gathered>,
}

/// What was gathered.
#[derive(Default)]
struct Gathered {
    ios: Vec<(u16, Kept)>,
    events: Vec<LayerRow>,
    events_lost: u64,
    ios_lost: u64,
    stopped: Option<Stopped>,
    watched: Vec<ProgramInfo>,
}

/// One worker that is watched.
struct Watch {
    worker: u16,
    ring: Option<Ring>,
    queue: Arc<Queue>,
    schedstat: Option<Schedstat>,
    stretches: Stretches,
    /// Readings by the worker itself and by the gatherer, not yet used.
    readings: Vec<Reading>,
    /// Arrivals on the CPU and records at the last check, for a log that fell silent.
    checked: (u64, i64),
    /// Since when nothing is logged although the thread ran.
    silent: Option<i64>,
    /// Since when there is no log at all, if it could not be opened.
    dark: Option<i64>,
}

impl Tracing {
    /// Begins to watch.
    ///
    /// # Errors
    /// `Unavailable` when the kernel does not let a thread be watched by its own process.
    pub fn start(wish: &Wish<'_>, sys: &Sys) -> Result<Tracing> {
        let plan = wish.plan;
        let bytes = room(plan, sys)?;
        let (arrivals, arrived) = unbounded();
        let common = Common {
            arrivals,
            tally: Arc::new(Tally::default()),
            all: plan.trace.mode == TraceMode::All,
            threshold: plan.outlier_ns(),
            ring: bytes,
            workers: plan.workers() as usize,
        };
        let over = Over::default();
        let gatherer = Gatherer {
            arrived,
            over: over.flag(),
            quota: Quota::new(sys),
            still: StillWatch::start(sys)?,
            sys: sys.clone(),
            room: RECENT_MAX / common.workers.max(1),
            watches: Vec::new(),
            all: Gathered::default(),
            bytes: Vec::new(),
            ended: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("trace".to_owned())
            .spawn(move || gatherer.run())
            .map_err(|e| Error::unavailable("cannot start a thread").source(e))?;
        Ok(Tracing {
            common,
            over,
            thread,
        })
    }

    /// Probes for the workers.
    pub fn probes(&self) -> Arc<PerfProbes> {
        Arc::new(PerfProbes(self.common.clone()))
    }

    /// Ends watching, writes `layers.parquet` and completes `info`.
    ///
    /// # Errors
    /// `Unavailable` when the file cannot be written.
    pub fn finish(self, dir: &RunDir, info: &mut TraceInfo) -> Result<()> {
        drop(self.over);
        let mut all = self
            .thread
            .join()
            .map_err(|_| Error::internal("the collector of trace events panicked"))?;
        info.operations = self.common.tally.operations.load(Relaxed);
        info.ios_lost = self.common.tally.lost.load(Relaxed) + all.ios_lost;
        info.events_lost = all.events_lost;
        info.kept = all.ios.len() as u64;
        info.off_cpu_ns = LONG_NS;
        info.stopped = all.stopped.take();
        info.programs = std::mem::take(&mut all.watched);
        write(dir, all)
    }
}

/// Bytes of each worker's log, when the kernel gives one and there is memory for all of them: they
/// are locked in memory.
///
/// # Errors
/// `Unavailable` when not.
pub(crate) fn room(plan: &Plan, sys: &Sys) -> Result<usize> {
    let free = machine::free_memory(&Memory::read(sys), &CgroupLimits::read(sys));
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
        _ => Err(
            Error::unavailable("the logs of all workers do not fit into memory")
                .with("trace.buffer", ByteSize(each))
                .with("workers", workers)
                .with("free", ByteSize(free))
                .hint("a smaller trace.buffer (it is of each worker), or fewer workers"),
        ),
    }
}

/// Whether this process may watch its own threads.
pub(crate) fn allowed(bytes: usize) -> Result<()> {
    let tried = Ring::of_this_thread(bytes);
    tried.map(drop).map_err(|e| {
        Error::unavailable("the kernel does not log context switches for this process")
            .source(e)
            .hint(
                "sysctl kernel.perf_event_paranoid=2; in a container, allow the system call \
                 perf_event_open",
            )
    })
}

fn write(dir: &RunDir, mut all: Gathered) -> Result<()> {
    all.events.sort_unstable_by_key(|e| e.start_ns);
    all.ios.sort_unstable_by_key(|(w, k)| (*w, k.submit));
    let mut writer = LayerWriter::begin(dir)?;
    writer.rows(all.events.into_iter())?;
    writer.rows(all.ios.iter().map(io_row))?;
    writer.commit()
}

fn io_row((worker, kept): &(u16, Kept)) -> LayerRow {
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
struct Gatherer {
    arrived: Receiver<Arrival>,
    over: Arc<AtomicBool>,
    quota: Quota,
    still: StillWatch,
    sys: Sys,
    /// Stretches kept of each worker until it is known whether an I/O needs them.
    room: usize,
    watches: Vec<Watch>,
    all: Gathered,
    bytes: Vec<u8>,
    ended: Vec<(usize, Kept)>,
}

impl Gatherer {
    fn run(mut self) -> Gathered {
        for round in 0.. {
            let over = self.over.load(Relaxed);
            self.arrivals();
            // I/Os first: whatever a thread did within them is in its log by now.
            self.ios();
            let due = over || round % READ_EVERY == 0;
            for index in 0..self.watches.len() {
                self.log(index, due);
            }
            self.join();
            let window = self.quota.window().map(|w| LayerRow {
                kind: LayerKind::CpuQuota,
                start_ns: w.0,
                end_ns: w.1,
                blocked_ns: Some(w.2),
                ..LayerRow::default()
            });
            window.into_iter().for_each(|row| self.all.put(row));
            self.still.seen().for_each(|row| self.all.put(row));
            if over {
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
            let dark = new.ring.is_err().then_some(new.at);
            // Without counters to begin with, later ones cannot be set beside the records.
            let schedstat = Schedstat::open(&self.sys, new.tid).filter(|_| new.first.is_some());
            let mut stretches = Stretches::new(new.at);
            if let Some(first) = new.first {
                stretches.settle(first);
            } else if info.missing.is_none() {
                info.missing = Some("no schedstat: waits for a CPU are not known".to_owned());
            }
            self.all.watched.push(info);
            self.watches.push(Watch {
                worker: new.worker,
                ring: new.ring.ok(),
                queue: new.queue,
                schedstat,
                stretches,
                readings: Vec::new(),
                checked: (0, new.at),
                silent: None,
                dark,
            });
        }
    }

    fn ios(&mut self) {
        for (index, watch) in self.watches.iter_mut().enumerate() {
            while let Some(kept) = watch.queue.pop() {
                watch.readings.extend(kept.reading);
                self.ended.push((index, kept));
            }
        }
    }

    /// Empties the log of one worker.
    fn log(&mut self, index: usize, due: bool) {
        let Some(watch) = self.watches.get_mut(index) else {
            return;
        };
        // Long stretches are settled soon, while few others share the reading.
        let wanted = due || watch.stretches.wants_reading(LONG_NS);
        let schedstat = watch.schedstat.as_ref().filter(|_| wanted);
        let reading = schedstat.and_then(Schedstat::read).map(|r| Reading {
            from: r.from - SLACK_NS,
            to: r.to + SLACK_NS,
            ..r
        });
        if let Some(ring) = &mut watch.ring {
            self.bytes.clear();
            ring.drain(&mut self.bytes);
            records(&self.bytes).for_each(|r| watch.stretches.add(r));
        }
        watch.readings.extend(reading);
        watch.readings.sort_unstable_by_key(|r| r.from);
        for reading in watch.readings.drain(..) {
            watch.stretches.settle(reading);
        }
        if let Some(reading) = reading.filter(|_| due) {
            watch.check(reading.arrivals);
        } else if watch.schedstat.is_none() {
            watch.stretches.close();
        }
        for (from, to) in std::mem::take(&mut watch.stretches.gaps) {
            self.all.put(gap(Some(watch.worker), from, to));
        }
    }

    /// Decides which stretches belong to kept I/Os.
    fn join(&mut self) {
        for (index, kept) in self.ended.drain(..) {
            let Some(watch) = self.watches.get_mut(index) else {
                continue;
            };
            if !watch.stretches.keep(kept.submit, kept.complete) {
                let to = watch.stretches.forgotten.min(kept.complete);
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
            watch.stretches.shrink(self.room, LONG_NS, put, worker);
        }
    }

    fn end(mut self) -> Gathered {
        let now = MonoClock.now().0;
        self.still
            .end()
            .into_iter()
            .for_each(|row| self.all.put(row));
        for watch in &mut self.watches {
            let all = &mut self.all;
            watch.stretches.close();
            watch
                .stretches
                .shrink(0, LONG_NS, |row| all.put(row), watch.worker);
            all.events_lost += watch.stretches.lost;
            if let Some(at_ns) = watch.dark {
                all.put(gap(Some(watch.worker), at_ns, now));
            }
            if let Some(at_ns) = watch.silent {
                all.put(gap(Some(watch.worker), at_ns, now));
                let earlier = all.stopped.as_ref().is_some_and(|s| s.at_ns <= at_ns);
                if !earlier {
                    all.stopped = Some(Stopped {
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

impl Gathered {
    fn put(&mut self, row: LayerRow) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(row);
        } else {
            self.events_lost += 1;
        }
    }
}

impl Watch {
    /// A thread that comes back to the CPU again and again leaves records, unless somebody switched
    /// its log off.
    fn check(&mut self, arrivals: u64) {
        let (before, seen) = self.checked;
        if self.stretches.seen > seen || before == 0 {
            // Records came: also after a silence, whose length is then known.
            if let Some(from) = self.silent.take() {
                self.stretches.gaps.push((from, self.stretches.seen));
            }
            self.checked = (arrivals, self.stretches.seen);
        } else if self.ring.is_some() && arrivals >= before + SILENT {
            self.silent.get_or_insert(seen);
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
