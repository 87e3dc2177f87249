//! Gathers what the programs tell of watched operations while they go on: operations into batches like those of
//! workers, events as in a run. Memory is bounded as there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aya::sys::{Stats, enable_stats};
use taillight_core::{Clock, MonoClock};
use taillight_machine::Sys;
use taillight_machine::block::{BlockDevice, DeviceNumber};

use super::files::SeenFiles;
use super::maps::FOUND_DISKS;
use super::told::{CallFacts, ToldCall, is_call};
use super::waits::{WaitCounts, Waits};
use crate::bpf::collect::{CollectedTrace, EVENTS_MAX};
use crate::bpf::forget::NeededTimes;
use crate::bpf::kept::EVENTS_HELD;
use crate::bpf::layout::{C_CALLS, C_SLOW_NS, EarlierRounds, TraceEvent};
use crate::bpf::programs::{EventRing, LoadedPrograms};
use crate::bpf::symbols::KernelSymbols;
use crate::bpf::tail::TraceTail;
use crate::bpf::traced_io::{TracedBatch, TracedIo};
use crate::tracing::TraceWatch;

/// How often the ring is emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// Operations of which it is known who did them.
const KNOWN_MAX: usize = 1 << 20;
/// Window in which the kernel counts the time of the programs, and from one to the next.
const COUNTED: Duration = Duration::from_millis(100);
const COUNT_EVERY: Duration = Duration::from_secs(2);

/// How long events are kept whatever happens, for operations under way, ns; and how often others are forgotten.
const UNDER_WAY_NS: i64 = 60_000_000_000;
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// An operation that was kept, beside its stamps.
#[derive(Debug, Clone)]
pub struct WatchedCall {
    pub facts: CallFacts,
    /// Bytes, of a read or write of which that is known.
    pub size: Option<u64>,
    /// Number of its file.
    pub file: Option<u16>,
}

/// Operations that are kept, by worker and begin, and their files.
#[derive(Debug, Default)]
pub struct KnownCalls {
    calls: BTreeMap<(u16, i64), WatchedCall>,
    pub files: SeenFiles,
}

impl KnownCalls {
    /// One that is kept; none of those beyond the first million.
    pub fn get(&self, worker: u16, begin: i64) -> Option<&WatchedCall> {
        self.calls.get(&(worker, begin))
    }

    fn note(&mut self, io: &TracedIo, facts: CallFacts) {
        let file = self.files.number(&facts);
        if self.calls.len() < KNOWN_MAX {
            let size = (io.size > 0).then_some(io.size);
            self.calls.insert((io.worker, io.submit), WatchedCall { facts, size, file });
        }
    }
}

/// What the collector works with.
pub struct WatchInputs {
    pub programs: Arc<LoadedPrograms>,
    pub symbols: Arc<KernelSymbols>,
    pub ring: EventRing,
    pub known: Arc<Mutex<KnownCalls>>,
    pub stop: Arc<AtomicBool>,
    pub watch: TraceWatch,
    pub spill: PathBuf,
    pub keep: usize,
}

/// What was gathered.
pub struct WatchedRun {
    pub trace: CollectedTrace,
    /// Operations that found no room.
    pub lost: u64,
    /// Every disk below the operations was looked at for I/O of others.
    pub disks_watched: bool,
    /// CPU time of the programs per operation, ns; and as a share of one CPU.
    pub program_ns: Option<f64>,
    pub programs_share: Option<f64>,
    /// Waits of threads for others.
    pub waits: WaitCounts,
}

/// Gathers until it is told to stop.
pub fn gather(inputs: WatchInputs) -> WatchedRun {
    let WatchInputs { programs, symbols, mut ring, known, stop, watch, spill, keep } = inputs;
    let mut all = CollectedTrace::new(Some(&spill));
    let mut tail = TraceTail::new(watch, symbols, None);
    let mut disks = FoundDisks::new(&programs);
    let mut cost = WatchCost::new(programs);
    let (mut lost, mut batch) = (0, TracedBatch::empty());
    let (mut needed, mut forgot) = (NeededTimes::default(), Instant::now());
    let mut waits = Waits::default();
    loop {
        let last = stop.load(Relaxed);
        cost.step(last);
        all.threads.settle();
        while let Some(item) = ring.next() {
            if !is_call(&item) {
                take_event(&mut all, &item, &mut waits);
                continue;
            }
            let Some(told) = ToldCall::parse(&item) else {
                lost += 1;
                continue;
            };
            disks.found(told.io.dev);
            if all.ios.bytes() > keep {
                lost += 1;
                continue;
            }
            waits.operation(&told.io);
            if told.facts.slow {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                known.note(&told.io, told.facts);
            }
            keep_io(&mut batch, &mut all, &mut needed, (told.io, &told.rounds));
        }
        let until = if last { i64::MAX } else { MonoClock.now().0 };
        let slow_ns = cost.programs.counters.get(C_SLOW_NS).load(Relaxed);
        for (io, facts) in waits.decided(until, slow_ns) {
            if all.ios.bytes() > keep {
                lost += 1;
                continue;
            }
            known.lock().unwrap_or_else(PoisonError::into_inner).note(&io, facts);
            keep_io(&mut batch, &mut all, &mut needed, (io, &EarlierRounds::default()));
        }
        if let Some(part) = batch.take_part() {
            needed.add(&part);
            all.ios.push(part);
        }
        if all.events.held.len() > EVENTS_HELD && forgot.elapsed() > FORGET_EVERY {
            forgot = Instant::now();
            let forgets = all.events.len() >= EVENTS_MAX / 2;
            let horizon = if forgets { MonoClock.now().0 - UNDER_WAY_NS } else { i64::MAX };
            all.make_room(forgets.then_some(&mut needed), horizon, tail.told());
        }
        if all.ios.spill(tail.batches()).is_some() {
            tail.one_gone();
        }
        if last {
            all.ios.push(batch);
            tail.now(&all);
            all.threads_unknown = all.threads.end();
            let (program_ns, programs_share) = cost.finish();
            let disks_watched = disks.all_looked_at();
            let waits = waits.counts();
            return WatchedRun {
                trace: all,
                lost,
                disks_watched,
                program_ns,
                programs_share,
                waits,
            };
        }
        tail.look(&all);
        std::thread::sleep(PAUSE);
    }
}

fn keep_io(
    batch: &mut TracedBatch,
    all: &mut CollectedTrace,
    needed: &mut NeededTimes,
    (io, rounds): (TracedIo, &EarlierRounds),
) {
    if !batch.has_room() {
        let full = std::mem::replace(batch, TracedBatch::empty());
        needed.add(&full);
        all.ios.push(full);
    }
    batch.push(io, rounds);
}

fn take_event(all: &mut CollectedTrace, item: &[u8], waits: &mut Waits) {
    let event = TraceEvent::parse(item);
    if event.as_ref().is_some_and(|event| waits.event(event)) {
        return;
    }
    match event {
        Some(event) if all.events.len() < EVENTS_MAX => {
            all.threads.note(&event.who);
            all.threads.note(&event.other);
            all.events.held.push(event);
        }
        _ => all.events_lost += 1,
    }
}

/// Disks that operations were seen on, and the disks below these.
struct FoundDisks {
    programs: Arc<LoadedPrograms>,
    sys: Sys,
    /// Devices that were looked up.
    seen: Vec<u32>,
    disks: Vec<u32>,
}

impl FoundDisks {
    fn new(programs: &Arc<LoadedPrograms>) -> FoundDisks {
        let (seen, disks) = (Vec::new(), Vec::new());
        FoundDisks { programs: programs.clone(), sys: Sys::default(), seen, disks }
    }

    fn found(&mut self, dev: u32) {
        if dev == 0 || self.seen.contains(&dev) {
            return;
        }
        self.seen.push(dev);
        let number = DeviceNumber { major: dev >> 20, minor: dev & 0xf_ffff };
        let Some(device) = BlockDevice::find(&self.sys, number) else { return };
        let below = device.backing_file().map(PathBuf::from);
        let below = taillight_machine::block::disks_below(&self.sys, &below);
        let all = std::iter::once(device.whole()).chain(below).map(|d| d.number.in_kernel());
        for disk in all {
            if !self.disks.contains(&disk) {
                self.disks.push(disk);
            }
        }
        if let Some(maps) = &self.programs.watch {
            maps.look_at(&self.disks);
        }
    }

    fn all_looked_at(&self) -> bool {
        (1..=FOUND_DISKS).contains(&self.disks.len())
    }
}

/// What the programs cost, by the kernel's count in windows.
struct WatchCost {
    programs: Arc<LoadedPrograms>,
    /// Open: the count, operations and time at its begin.
    open: Option<(std::os::fd::OwnedFd, u64, u64, Instant)>,
    next: Instant,
    ns: u64,
    operations: u64,
    time: Duration,
}

impl WatchCost {
    fn new(programs: Arc<LoadedPrograms>) -> WatchCost {
        let next = Instant::now() + COUNTED;
        WatchCost { programs, open: None, next, ns: 0, operations: 0, time: Duration::ZERO }
    }

    fn calls(&self) -> u64 {
        self.programs.counters.get(C_CALLS).load(Relaxed)
    }

    fn step(&mut self, last: bool) {
        let now = Instant::now();
        if now < self.next && !last {
            return;
        }
        let Some((fd, ns, calls, since)) = self.open.take() else {
            if let (false, Ok(fd), Some(ns)) =
                (last, enable_stats(Stats::RunTime), self.programs.spent_ns())
            {
                self.open = Some((fd, ns, self.calls(), Instant::now()));
            }
            self.next = now + COUNTED;
            return;
        };
        if let Some(spent) = self.programs.spent_ns() {
            self.ns += spent.saturating_sub(ns);
            self.operations += self.calls().saturating_sub(calls);
            self.time += since.elapsed();
        }
        drop(fd);
        self.next = now + COUNT_EVERY;
    }

    fn finish(self) -> (Option<f64>, Option<f64>) {
        let of = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let ns = self.ns as f64;
        (of(ns, self.operations as f64), of(ns, self.time.as_nanos() as f64))
    }
}
