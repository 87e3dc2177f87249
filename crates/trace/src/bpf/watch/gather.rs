//! The collector of a watch, in a thread that `Watching::start` starts: gathers what the BPF programs tell of the
//! operations of watched programs, until the watch ends. Operations go into batches like those of workers, events are
//! kept as in a run, and memory is bounded as there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use taillight_core::{Clock, MonoClock, OpKind, Record, Stamp, Status};
use taillight_machine::Sys;
use taillight_machine::block::{self, BlockDevice, DeviceNumber};

use super::cost::{WatchCost, WatchPart};
use super::exact::{ExactSample, ExactWindows};
use super::files::{FileName, SeenFiles};
use super::maps::FOUND_DISKS;
use super::told::{CallFacts, GivenPath, ToldCall, is_call};
use super::waits::{WaitCounts, Waits};
use crate::bpf::collect::{CollectedTrace, EVENTS_MAX};
use crate::bpf::forget::NeededTimes;
use crate::bpf::kept::EVENTS_HELD;
use crate::bpf::layout::{C_RECORD, C_SLOW_NS, EarlierRounds, TraceEvent};
use crate::bpf::programs::{EventRing, LoadedPrograms};
use crate::bpf::symbols::KernelSymbols;
use crate::bpf::tail::TraceTail;
use crate::bpf::traced_io::{TracedBatch, TracedIo};
use crate::tracing::TraceWatch;

/// How often the ring is emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// Slow operations, and waits, of which it is known who did them, at most.
const KNOWN_MAX: usize = 1 << 20;

/// Paths of operations that are yet to be told, at most: more than there are CPUs in most machines.
const GIVEN_MAX: usize = 1024;

/// An event is not forgotten for so long after its end, ns: an operation under way may need it. One that is under way
/// for longer may miss its first events.
const UNDER_WAY_NS: i64 = 60_000_000_000;
/// So long rings alone do direct I/O before the programs on others' are taken away.
const ALONE: Duration = Duration::from_secs(1);
/// How often events are forgotten or written to the file, at most.
const FORGET_EVERY: Duration = Duration::from_secs(1);

/// What is known of a slow operation, or of a wait, beside its stamps.
#[derive(Debug, Clone)]
pub struct WatchedCall {
    pub facts: CallFacts,
    /// Bytes, of a read or write of which that is known.
    pub size: Option<u64>,
    /// Number of its file.
    pub file: Option<u16>,
}

/// Slow operations and waits, by worker and begin, and the files of these and of recorded operations.
#[derive(Debug, Default)]
pub struct KnownCalls {
    calls: BTreeMap<(u16, i64), WatchedCall>,
    pub files: SeenFiles,
}

impl KnownCalls {
    /// A slow operation or a wait; none for other operations, and none beyond the first `KNOWN_MAX`.
    pub fn get(&self, worker: u16, begin: i64) -> Option<&WatchedCall> {
        self.calls.get(&(worker, begin))
    }

    /// Memory that they take, bytes: a tree is about two thirds full.
    fn bytes(&self) -> usize {
        self.calls.len() * size_of::<((u16, i64), WatchedCall)>() / 2 * 3
    }

    fn note(&mut self, io: &TracedIo, facts: CallFacts, given: Option<PathBuf>) {
        let file = self.files.number(&facts).or_else(|| self.files.given(given?));
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
    /// Most that the programs may take, as a share of a CPU.
    pub max_cost: Option<f64>,
    /// Set when the programs take more than `max_cost` and every part that can be left out is left out.
    pub too_dear: Arc<AtomicBool>,
    /// Share of the time, 0 to 1, in windows in which every call is looked at. None: no windows.
    pub exact: Option<f64>,
}

/// What was gathered.
pub struct WatchedRun {
    pub trace: CollectedTrace,
    /// Operations that found no room, here or in the record, and those that could not be read.
    pub lost: u64,
    /// Every disk below the operations was looked at for I/O of others.
    pub disks_watched: bool,
    /// CPU time of the programs per operation, ns; and as a share of one CPU.
    pub program_ns: Option<f64>,
    pub programs_share: Option<f64>,
    /// What was left out for being too dear.
    pub left_out: Vec<WatchPart>,
    /// Waits of threads for others.
    pub waits: WaitCounts,
    pub exact: Option<ExactSample>,
    /// Where recording was asked for, every operation that was told, was not slow and found room.
    pub record: Vec<RecordedCall>,
}

/// An operation as it can be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedCall {
    pub worker: u16,
    pub op: OpKind,
    pub file: u16,
    pub errno: u16,
    pub offset: u64,
    pub size: u64,
    pub submit: i64,
    pub complete: i64,
}

impl RecordedCall {
    pub(super) fn of(io: &TracedIo, errno: i32, file: Option<u16>) -> RecordedCall {
        RecordedCall {
            worker: io.worker,
            op: io.op,
            file: file.unwrap_or(0),
            errno: u16::try_from(errno).unwrap_or(0),
            offset: io.offset,
            size: io.size,
            submit: io.submit,
            complete: io.complete,
        }
    }

    pub fn record(&self) -> Record {
        Record {
            op: self.op,
            target: self.file,
            offset: (self.op as u8 <= 1).then_some(self.offset),
            size: self.size,
            submit: Stamp(self.submit),
            complete: Stamp(self.complete),
            status: if self.errno > 0 { Status::errno(self.errno.into()) } else { Status::OK },
            ..Record::default()
        }
    }
}

/// Operations that are recorded: those that are not slow.
#[derive(Debug, Default)]
struct CallRecord(Vec<RecordedCall>);

impl CallRecord {
    /// Calls that a record grows by when it is full: so many, or a sixteenth of those in it if that is more.
    const STEP: usize = 4096;

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<RecordedCall>()
    }

    /// Whether one more call finds room in the record, which grows for it if it can: to three quarters of `keep` bytes
    /// at most, and to no more than is left beside the `slow` bytes of other operations that are kept.
    fn has_room(&mut self, keep: usize, slow: usize) -> bool {
        if self.0.len() < self.0.capacity() {
            return true;
        }
        let step = CallRecord::STEP.max(self.0.len() / 16);
        let bytes = self.bytes() + step * size_of::<RecordedCall>();
        let room = bytes <= keep / 4 * 3 && bytes + slow <= keep;
        if room {
            self.0.reserve_exact(step);
        }
        room
    }

    fn push(&mut self, call: RecordedCall) {
        self.0.push(call);
    }
}

/// Gathers until it is told to stop.
pub fn gather(inputs: WatchInputs) -> WatchedRun {
    let WatchInputs { programs, symbols, mut ring, known, stop, watch, spill, keep, .. } = inputs;
    let mut tail = TraceTail::new(watch, symbols, None);
    let recording = programs.counters.get(C_RECORD).load(Relaxed) != 0;
    let mut kept = Gathered {
        all: CollectedTrace::new(Some(&spill)),
        batch: TracedBatch::empty(),
        needed: NeededTimes::default(),
        known,
        waits: Waits::default(),
        record: recording.then(CallRecord::default),
        lost: 0,
        keep,
        given: Vec::new(),
    };
    let mut disks = FoundDisks::new(&programs);
    let mut exact = inputs.exact.map(|share| ExactWindows::new(programs.clone(), share));
    let mut cost = WatchCost::new(programs, inputs.max_cost, inputs.too_dear);
    let mut forgot = Instant::now();
    loop {
        let last = stop.load(Relaxed);
        cost.step(last, exact.as_mut());
        cost.programs.settle_issue();
        kept.all.programs.extend(cost.programs.settle_direct(ALONE));
        kept.all.threads.settle();
        kept.known.lock().unwrap_or_else(PoisonError::into_inner).files.settle();
        while let Some(item) = ring.next() {
            kept.take(&item, &mut disks);
        }
        let slow_ns = cost.programs.counters.get(C_SLOW_NS).load(Relaxed);
        kept.take_waits(if last { i64::MAX } else { MonoClock.now().0 }, slow_ns);
        kept.hand_over();
        if kept.all.events.held.len() > EVENTS_HELD && forgot.elapsed() > FORGET_EVERY {
            forgot = Instant::now();
            kept.make_room(&mut tail);
        }
        if kept.all.ios.spill(tail.batches()).is_some() {
            tail.one_gone();
        }
        if last {
            kept.known.lock().unwrap_or_else(PoisonError::into_inner).files.end();
            kept.all.ios.push(kept.batch);
            tail.now(&kept.all);
            kept.all.threads_unknown = kept.all.threads.end();
            let left_out = cost.left_out();
            let (program_ns, programs_share) = cost.finish();
            return WatchedRun {
                trace: kept.all,
                lost: kept.lost,
                disks_watched: disks.all_looked_at() && !left_out.contains(&WatchPart::Others),
                left_out,
                program_ns,
                programs_share,
                waits: kept.waits.counts(),
                exact: exact.map(ExactWindows::finish),
                record: kept.record.unwrap_or_default().0,
            };
        }
        tail.look(&kept.all);
        std::thread::sleep(PAUSE);
    }
}

/// What is gathered, while it is.
struct Gathered {
    all: CollectedTrace,
    batch: TracedBatch,
    needed: NeededTimes,
    known: Arc<Mutex<KnownCalls>>,
    waits: Waits,
    /// Operations that are not slow, where these are asked for as well.
    record: Option<CallRecord>,
    lost: u64,
    keep: usize,
    /// Paths of operations that are told next: those of several CPUs come in any order.
    given: Vec<GivenPath>,
}

impl Gathered {
    fn take(&mut self, item: &[u8], disks: &mut FoundDisks) {
        if is_call(item) {
            self.take_call(item, disks);
        } else if FileName::is_told(item) {
            if let Some(name) = FileName::parse(item) {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).files.named(name);
            }
        } else if let Some(given) = GivenPath::parse(item) {
            if self.given.len() >= GIVEN_MAX {
                self.given.remove(0);
            }
            self.given.push(given);
        } else {
            self.take_event(item);
        }
    }

    fn take_call(&mut self, item: &[u8], disks: &mut FoundDisks) {
        let Some(mut told) = ToldCall::parse(item) else {
            self.lost += 1;
            return;
        };
        disks.found(told.io.dev);
        // A sync may have no part of its own at the disk that its file is on, and a read none that others brought.
        disks.found(told.facts.dev);
        if told.io.dev == 0 && told.facts.has_disk() {
            told.io.dev = told.facts.dev;
        }
        let given = self.given.iter().position(|given| given.token.0 == told.io.token);
        let given = given.map(|at| self.given.remove(at).path);
        if let Some(record) = self.record.as_mut().filter(|_| !told.facts.slow) {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let file = known.files.number(&told.facts);
            if record.has_room(self.keep, self.all.ios.bytes() + known.bytes()) {
                record.push(RecordedCall::of(&told.io, told.facts.errno, file));
            } else {
                self.lost += 1;
            }
        }
        if told.facts.plain {
            return;
        }
        if self.is_full() {
            self.lost += 1;
            return;
        }
        self.waits.operation(&told.io);
        if told.facts.slow {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.note(&told.io, told.facts, given);
        }
        self.keep_io(told.io, &told.rounds);
    }

    fn take_event(&mut self, item: &[u8]) {
        let event = TraceEvent::parse(item);
        if event.as_ref().is_some_and(|event| self.waits.event(event)) {
            return;
        }
        match event {
            Some(event) if self.all.events.len() < EVENTS_MAX => {
                self.all.threads.note(&event.who);
                self.all.threads.note(&event.other);
                self.all.events.held.push(event);
            }
            _ => self.all.events_lost += 1,
        }
    }

    /// Takes up waits of which it is known what they were for.
    fn take_waits(&mut self, now: i64, slow_ns: u64) {
        for (io, facts) in self.waits.decided(now, slow_ns) {
            if self.is_full() {
                self.lost += 1;
                continue;
            }
            self.known.lock().unwrap_or_else(PoisonError::into_inner).note(&io, facts, None);
            self.keep_io(io, &EarlierRounds::default());
        }
    }

    fn is_full(&self) -> bool {
        let record = self.record.as_ref().map_or(0, CallRecord::bytes);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        self.all.ios.bytes() + known + record > self.keep
    }

    fn keep_io(&mut self, io: TracedIo, rounds: &EarlierRounds) {
        if !self.batch.has_room() {
            self.hand_over();
        }
        self.batch.push(io, rounds);
    }

    fn hand_over(&mut self) {
        if self.batch.len() > 0 {
            let part = self.batch.take(&mut TracedBatch::default());
            self.needed.add(&part);
            self.all.ios.push(part);
        }
    }

    fn make_room(&mut self, tail: &mut TraceTail) {
        let forgets = self.all.events.len() >= EVENTS_MAX / 2;
        let horizon = if forgets { MonoClock.now().0 - UNDER_WAY_NS } else { i64::MAX };
        self.all.make_room(forgets.then_some(&mut self.needed), horizon, tail.told());
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
        let devices = match BlockDevice::find(&self.sys, number) {
            Some(device) => vec![device],
            None => self.below(number),
        };
        if devices.is_empty() {
            return;
        }
        for device in devices {
            let below = device.backing_file().map(PathBuf::from);
            let below = block::disks_below(&self.sys, &below);
            let all = std::iter::once(device.whole()).chain(below).map(|d| d.number.in_kernel());
            for disk in all {
                if !self.disks.contains(&disk) {
                    self.disks.push(disk);
                }
            }
        }
        if let Some(maps) = &self.programs.watch {
            maps.look_at(&self.disks);
        }
    }

    /// Every device of a file system whose files have no disk's number (btrfs).
    fn below(&self, number: DeviceNumber) -> Vec<BlockDevice> {
        let mounts = taillight_machine::mounts::mounts(&self.sys).unwrap_or_default();
        let mount = mounts.iter().find(|mount| mount.device == number);
        let all = mount.map_or_else(Vec::new, |mount| block::named_by(&self.sys, mount));
        all.into_iter().filter_map(|number| BlockDevice::find(&self.sys, number)).collect()
    }

    fn all_looked_at(&self) -> bool {
        (1..=FOUND_DISKS).contains(&self.disks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_and_slow_operations_share_what_may_be_kept() {
        let call = RecordedCall {
            worker: 0,
            op: OpKind::Read,
            file: 0,
            errno: 0,
            offset: 0,
            size: 1,
            submit: 0,
            complete: 1,
        };
        let step = CallRecord::STEP * size_of::<RecordedCall>();
        let filled = |keep: usize, slow: usize| {
            let mut record = CallRecord::default();
            while record.has_room(keep, slow) {
                record.push(call);
            }
            assert!(record.bytes() + slow <= keep, "{} beside {slow} of {keep}", record.bytes());
            record.bytes() / step
        };
        assert_eq!(filled(8 * step, 0), 6, "a quarter is for those that are slow");
        assert_eq!(filled(8 * step, 5 * step), 3);
        assert_eq!((filled(step, 0), filled(8 * step, 8 * step)), (0, 0));
    }
}
