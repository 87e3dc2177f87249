//! Gathers what probes and programs saw while the run goes on. Memory is bounded: beyond some MiB, I/Os and events are
//! written to a file in the run directory, slowly; those that find no room are counted as lost. Also turns I/Os and
//! events into rows of `layers.parquet`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use taillight_core::{Clock, MonoClock, TimeSpan};
use taillight_machine::Sys;
use taillight_rundir::layers::{LayerKind, LayerRow, flags};
use taillight_rundir::trace_info::ProgramInfo;

use super::cost::ProgramCost;
use super::forget::{self, NeededTimes, NotHandedOver};
use super::heartbeat::{self, Heartbeat};
use super::identity::SeenThreads;
use super::kept::{EVENTS_HELD, KeptEvents, KeptIos};
use super::layout::{self, NOWHERE, TraceEvent, TraceEventKind};
use super::programs::{EventRing, LoadedPrograms};
use super::symbols::KernelSymbols;
use super::tail::TraceTail;
use super::traced_io::{EarlierRound, IoWithRounds, TracedBatch, TracedIo};
use crate::tracing::quota::QuotaWatch;

/// Events kept at most.
pub const EVENTS_MAX: usize = 1 << 20;
/// How often the ring is emptied.
const PAUSE: Duration = Duration::from_millis(10);
/// How long nothing is forgotten after it was tried.
const KEPT: Duration = Duration::from_secs(1);
/// Empty batches kept ready for each worker.
const READY: usize = 8;

/// What was gathered.
pub struct CollectedTrace {
    pub ios: KeptIos,
    pub events: KeptEvents,
    /// Windows in which the CPU quota was spent.
    pub quota: Vec<LayerRow>,
    /// Events that found no room here, or are of an unknown kind.
    pub events_lost: u64,
    /// Those that no I/O needs and that were forgotten.
    pub events_forgotten: u64,
    /// The programs saw nothing.
    pub gaps: Vec<TimeSpan>,
    /// Since when the programs saw nothing up to the end; none where they still saw something.
    pub stopped: Option<i64>,
    /// Programs attached on the way, or not.
    pub programs: Vec<ProgramInfo>,
    /// CPU time of the programs per operation, ns, and of the collector.
    pub program_ns: Option<f64>,
    pub collector_ns: Option<f64>,
    /// The threads that events name.
    pub threads: SeenThreads,
    /// Those of them that nobody looked up in time.
    pub threads_unknown: u64,
}

impl CollectedTrace {
    pub fn new(spill: Option<&Path>) -> CollectedTrace {
        CollectedTrace {
            ios: KeptIos::new(spill),
            events: KeptEvents::new(spill),
            quota: Vec::new(),
            events_lost: 0,
            events_forgotten: 0,
            gaps: Vec::new(),
            stopped: None,
            programs: Vec::new(),
            program_ns: None,
            collector_ns: None,
            threads: SeenThreads::begin(Sys::default()),
            threads_unknown: 0,
        }
    }

    /// Forgets events that ended before the horizon and that no I/O needs, where `needed` is given, and moves others of
    /// the first `told` to the file. `told` becomes how many of those are left.
    pub fn make_room(&mut self, needed: Option<&mut NeededTimes>, horizon: i64, told: &mut usize) {
        if let Some(needed) = needed {
            let before = self.events.held.len();
            *told = needed.forget(&mut self.events.held, horizon, *told);
            self.events_forgotten += (before - self.events.held.len()) as u64;
        }
        *told -= self.events.spill(horizon, *told).min(*told);
    }
}

/// What the collector works with.
pub struct CollectorInputs {
    pub programs: Arc<LoadedPrograms>,
    /// How many workers there are.
    pub workers: usize,
    /// The programs' ring.
    pub ring: EventRing,
    /// Full batches arrive here.
    pub full: Receiver<TracedBatch>,
    /// Empty ones go here.
    pub spare: Sender<TracedBatch>,
    /// What workers keep and have not handed over; none where every I/O is kept.
    pub held: Option<Arc<NotHandedOver>>,
    /// Set when the run is over.
    pub stop: Arc<AtomicBool>,
    /// Memory and file for I/Os at most.
    pub ios_bytes_max: usize,
    /// Where the file is.
    pub spill: Option<PathBuf>,
    /// Tells whether the programs still see anything.
    pub pulse: Heartbeat,
}

/// Batches made before the workers start.
pub fn ready(workers: usize) -> usize {
    workers.max(1) * READY
}

/// Gathers until the run is over and everything has arrived.
pub fn gather(
    mut sources: CollectorInputs,
    mut quota: QuotaWatch,
    mut tail: Option<TraceTail>,
) -> CollectedTrace {
    let mut all = CollectedTrace::new(sources.spill.as_deref());
    let mut needed = NeededTimes::default();
    sources.pulse.here();
    let mut cost = ProgramCost::new(sources.programs.clone(), sources.workers);
    let (mut forgot, mut spare): (Option<Instant>, _) = (None, TracedBatch::default());
    loop {
        let stop = sources.stop.load(Relaxed);
        let recently = forgot.is_some_and(|at| at.elapsed() < KEPT);
        let full = all.events.held.len() > EVENTS_HELD && !recently;
        // Where every I/O is kept no event is forgotten, and none as long as there is plenty of room.
        let forgets = sources.held.as_ref().filter(|_| all.events.len() >= EVENTS_MAX / 2);
        let horizon = full.then(|| match forgets {
            Some(held) => forget::horizon(&sources.programs, held, MonoClock.now().0),
            None => i64::MAX,
        });
        all.programs.extend(sources.programs.attach_wanted());
        sources.programs.settle_issue();
        cost.step(Instant::now());
        drain(&mut sources.ring, &mut all);
        for mut batch in sources.full.try_iter() {
            let kept = batch.take(&mut spare);
            if sources.held.is_some() {
                needed.add(&kept);
            }
            all.ios.push(kept);
            // Without a new one the probes run dry and count what they cannot keep.
            if all.ios.bytes() < sources.ios_bytes_max {
                let _ = sources.spare.try_send(batch);
            }
        }
        if let Some(horizon) = horizon {
            let mut none = usize::MAX;
            let told = tail.as_mut().map_or(&mut none, TraceTail::told);
            all.make_room(forgets.map(|_| &mut needed), horizon, told);
            forgot = Some(Instant::now());
        }
        if let Some(batch) = all.ios.spill(tail.as_ref().map_or(usize::MAX, TraceTail::batches)) {
            tail.iter_mut().for_each(TraceTail::one_gone);
            spare = batch;
        }
        all.quota.extend(quota.window());
        tail.iter_mut().for_each(|tail| tail.look(&all));
        if stop {
            (all.gaps, all.stopped) = sources.pulse.end(MonoClock.now().0);
            (all.program_ns, all.collector_ns) = cost.finish();
            all.threads_unknown = all.threads.end();
            return all;
        }
        std::thread::sleep(PAUSE);
        sources.pulse.look();
    }
}

fn drain(ring: &mut EventRing, all: &mut CollectedTrace) {
    all.threads.settle();
    while let Some(item) = ring.next() {
        let event = TraceEvent::parse(&item);
        if let Some(event) = &event {
            all.threads.note(&event.who);
            all.threads.note(&event.other);
        }
        match event {
            Some(event) if event.worker as usize == heartbeat::COLLECTOR_INDEX => {}
            Some(event) if all.events.len() < EVENTS_MAX => all.events.held.push(event),
            // Without room, or of a kind that is not known.
            _ => all.events_lost += 1,
        }
    }
}

/// A stamp, absent when it is 0.
fn stamp(ns: u64) -> Option<i64> {
    (ns != 0).then_some(ns as i64)
}

/// A traced I/O as a row.
fn io_row(s: &TracedIo) -> LayerRow {
    let seen = s.bios != 0;
    LayerRow {
        kind: LayerKind::Io,
        start_ns: s.submit,
        end_ns: s.complete,
        worker: Some(u64::from(s.worker)),
        op: Some(s.op),
        offset: Some(s.offset),
        size: Some(s.size),
        flags: Some(u64::from(s.flags)),
        dev: layout::device(s.dev).map(Into::into),
        sector: (seen && s.sector != NOWHERE).then_some(s.sector),
        bios: Some(match s.bios {
            // More than the programs can count: never all of them.
            n if n >= u32::from(u16::MAX) => u64::from(n.max(s.parts)) + 1,
            n => u64::from(n),
        }),
        parts: Some(u64::from(s.parts)),
        enter_ns: stamp(s.enter),
        bio_ns: stamp(s.bio_first),
        bio_last_ns: stamp(s.bio_last),
        held_ns: stamp(s.held),
        alloc_ns: stamp(s.alloc),
        insert_ns: stamp(s.insert),
        issue_ns: stamp(s.issue),
        requeue_ns: stamp(s.requeue),
        done_ns: stamp(s.done),
        cqe_ns: stamp(s.cqe),
        wake_ns: stamp(s.wake),
        run_ns: stamp(s.run),
        low_dev: layout::device(s.low_dev).map(Into::into),
        low_bio_ns: stamp(s.low_bio),
        low_alloc_ns: stamp(s.low_alloc),
        low_issue_ns: stamp(s.low_issue),
        low_done_ns: stamp(s.low_done),
        blocked_ns: Some(s.blocked),
        waited_ns: Some(s.waited),
        robbed_ns: Some(s.robbed),
        token: Some(s.token),
        punt_ns: stamp(s.punt),
        served_ns: stamp(s.served),
        answered_ns: stamp(s.answered),
        rounds: (s.rounds != 0).then_some(u64::from(s.rounds)),
        sync_punt_ns: stamp(s.sync_punt),
        ..LayerRow::default()
    }
}

/// Its rows: itself comes last.
pub fn io_rows((io, rounds): IoWithRounds<'_>) -> impl Iterator<Item = LayerRow> {
    let rounds = rounds.iter().filter_map(move |r| round_row(&io, r));
    rounds.chain(std::iter::once_with(move || io_row(&io)))
}

/// An earlier round of a traced I/O as a row; none where it is not known when it began. (Where the kernel
/// keeps no statistics, requests do not know when they were made.)
fn round_row(io: &TracedIo, round: &EarlierRound) -> Option<LayerRow> {
    let known = round.bio != 0 && round.done != 0;
    known.then(|| LayerRow {
        kind: LayerKind::Round,
        start_ns: round.bio as i64,
        end_ns: round.done as i64,
        worker: Some(u64::from(io.worker)),
        alloc_ns: stamp(round.alloc),
        issue_ns: stamp(round.issue),
        held_ns: stamp(round.held),
        token: Some(io.token),
        ..LayerRow::default()
    })
}

/// What an event's `b` says of a sleep: whether the load ended it, and of a thread that is not the load's, whether it
/// is the server's.
fn sleep_flags(kind: TraceEventKind, b: u64) -> Option<u64> {
    let (own, serves) = match kind {
        TraceEventKind::Kthread => (b & 1 != 0, b & 2 != 0),
        // Elsewhere all of it means one thing.
        _ => (b != 0, false),
    };
    let own = if own { flags::WOKEN_BY_OWN } else { 0 };
    let serves = if serves { flags::SERVES } else { 0 };
    Some(own | serves).filter(|flags| *flags != 0)
}

pub fn event_row(e: &TraceEvent, symbols: &KernelSymbols, threads: &SeenThreads) -> LayerRow {
    let text = |t: Option<String>| t.map(Arc::<str>::from);
    let number = |n: u32| (n != 0).then_some(u64::from(n));
    let (who, other) = (threads.get(&e.who), threads.get(&e.other));
    let mut row = LayerRow {
        start_ns: e.start as i64,
        end_ns: e.end as i64,
        worker: (e.worker != u32::MAX).then_some(u64::from(e.worker)),
        dev: text(layout::device(e.dev)),
        pid: number(e.who.tid),
        comm: text(layout::name(&e.who.comm)),
        other: text(layout::name(&e.other.comm)),
        comm_tid: number(e.who.tid),
        comm_pid: number(e.who.pid),
        command: who.command,
        cgroup: who.cgroup,
        other_pid: number(e.other.pid),
        other_command: other.command,
        other_cgroup: other.cgroup,
        stack: symbols.stack(&e.stack[..e.frames]),
        ..LayerRow::default()
    };
    match e.kind {
        TraceEventKind::Off | TraceEventKind::Kthread | TraceEventKind::Wait => {
            row.kind = LayerKind::OffCpu;
            off_cpu(&mut row, e);
            row.flags = sleep_flags(e.kind, e.b);
            if e.kind == TraceEventKind::Kthread {
                row.kind = LayerKind::Kthread;
                row.pid = row.waker_pid.take();
            }
        }
        TraceEventKind::Worker => {
            row.kind = LayerKind::Worker;
            off_cpu(&mut row, e);
            row.token = (e.b != 0).then_some(e.b);
        }
        TraceEventKind::Held => {
            row.kind = LayerKind::Held;
            row.token = (e.a != 0).then_some(e.a);
        }
        TraceEventKind::Neighbour => {
            row.kind = LayerKind::Neighbour;
            row.sector = Some(e.a);
            row.size = Some(e.b & 0xffff_ffff);
            row.flags = Some(e.b >> 32);
        }
        TraceEventKind::Commit => {
            row.kind = LayerKind::Commit;
            row.middle_ns = stamp(e.middle);
        }
        TraceEventKind::Reclaim => {
            row.kind = LayerKind::Reclaim;
            row.token = (e.b != 0).then_some(e.b);
        }
        TraceEventKind::Gap => {
            row.kind = LayerKind::Gap;
            row.token = (e.b != 0).then_some(e.b);
            row.state = (e.a != 0).then_some(0);
        }
        TraceEventKind::Flush => row.kind = LayerKind::Flush,
        TraceEventKind::Stolen => {
            row.kind = LayerKind::Stolen;
            row.blocked_ns = Some(e.a);
            row.cpu = Some(u64::from(e.cpu));
        }
    }
    row
}

/// What all kinds of time off the CPU have.
fn off_cpu(row: &mut LayerRow, e: &TraceEvent) {
    row.state = Some(e.a);
    row.middle_ns = stamp(e.middle).filter(|_| e.a != 0);
    row.waker = u64::from(e.waker).checked_sub(1);
    row.dev = None;
    row.cpu = Some(u64::from(e.cpu));
    row.waker_pid = (e.other.tid != 0).then_some(u64::from(e.other.tid));
}

/// The time in which the thread of a traced I/O came back to the CPU unseen, if it did; apart the part in
/// which it could have run.
pub fn unseen_rows(s: &TracedIo) -> impl Iterator<Item = LayerRow> + use<> {
    let (from, to) = (s.unseen.0 as i64, s.unseen.1 as i64);
    let could = match s.could_run as i64 {
        0 => to,
        since => since.clamp(from, to.max(from)),
    };
    let worker = Some(u64::from(s.worker));
    let parts = [(TimeSpan::new(from, could), None), (TimeSpan::new(could, to), Some(0))];
    let parts = parts.into_iter().filter(|(gap, _)| gap.to > gap.from);
    parts.map(move |(gap, state)| LayerRow { worker, state, ..gap_row(gap) })
}

/// A time in which the programs saw nothing.
pub fn gap_row(gap: TimeSpan) -> LayerRow {
    LayerRow { kind: LayerKind::Gap, start_ns: gap.from, end_ns: gap.to, ..LayerRow::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ended_a_sleep_and_whose_thread_slept() {
        use TraceEventKind::{Kthread, Off, Wait};
        let (own, serves) = (flags::WOKEN_BY_OWN, flags::SERVES);
        for (kind, b, flags) in [
            (Off, 0, None),
            (Off, 1 << 31, Some(own)),
            (Wait, 0xffff_8881_0000_0002, Some(own)),
            (Kthread, 0, None),
            (Kthread, 1, Some(own)),
            (Kthread, 2, Some(serves)),
            (Kthread, 3, Some(own | serves)),
        ] {
            assert_eq!(sleep_flags(kind, b), flags, "{b}");
        }
    }
}
