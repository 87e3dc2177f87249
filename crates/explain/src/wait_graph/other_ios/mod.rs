//! Edges from an I/O of the load to another one that it waited for: for a lock in the kernel that the other one held, in
//! the write group of a store, whose leader works for all, for pages or the log that the other one had sent to the disk,
//! or for the thread that was busy with the other one (a worker of io_uring, or the thread that submits a batch).
//!
//! The I/O that was waited for is found from the thread that ended the wait, of pages from the block I/O
//! that ended then; where that thread had several I/Os in flight, there is no edge. Time that is another I/O's
//! makes no verdict sure, but for what a worker thread of the same ring was seen to sleep for.

use std::collections::BTreeMap;

use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use crate::events::event::{OffCpu, RingThread, Timed};
use crate::events::io::TracedIo;
use crate::events::list::{EventList, KeepsEvents, overlapping};
use crate::events::slow::Slow;
use crate::events::stacks::{self, SleepReason, Stack};
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS, by_phase};
use crate::verdict::judge::Judged;
use crate::wait_graph::resolve::Graph;
use crate::wait_graph::{Cause, Wait};

/// The smallest block of a file system, which may be a part of its own, bytes.
const SMALLEST_BLOCK: u64 = 1024;

/// What may be no more than another I/O not going on.
pub const FOR_ANOTHER: &[Phase] = &[Phase::Store, Phase::FileSystem, Phase::PageCache];

/// What is the program's own, whoever waits for it.
fn is_own_work(phase: Phase) -> bool {
    matches!(phase, Phase::Submit | Phase::Application | Phase::Store)
}

/// What says why an I/O does not go on.
fn is_cause(phase: Phase) -> bool {
    use Phase::*;
    !is_own_work(phase) && !matches!(phase, Completion | Blocked | Unobserved)
}

fn on_disk(phase: Phase) -> bool {
    matches!(phase, Phase::Device | Phase::LowerDevice)
}

/// An edge to an I/O, for what of its time has a cause.
fn behind<'a>(io: usize, time: TimeSpan) -> Wait<'a> {
    Wait { takes: is_cause, ..Wait::new(time, Cause::Io(io), Source::Holder) }
}

/// An I/O, by its number.
#[derive(Debug)]
struct InFlight {
    io: usize,
    submit_ns: i64,
    complete_ns: i64,
}

impl Timed for InFlight {
    fn start_ns(&self) -> i64 {
        self.submit_ns
    }
    fn end_ns(&self) -> i64 {
        self.complete_ns
    }
}

/// Where to find an I/O that was waited for.
pub struct Index {
    /// Of each worker.
    workers: BTreeMap<u64, EventList<InFlight>>,
    /// By the time at which a thread began them.
    begun: BTreeMap<u64, Vec<(i64, usize)>>,
    tokens: BTreeMap<u64, usize>,
    disk: DiskParts,
}

impl Index {
    pub fn of(judged: &[Judged]) -> Index {
        let mut workers: BTreeMap<u64, EventList<InFlight>> = BTreeMap::new();
        for (io, one) in judged.iter().enumerate() {
            let Slow { worker, submit_ns, complete_ns, .. } = one.slow;
            let of = workers.entry(worker.into()).or_default();
            of.push(InFlight { io, submit_ns, complete_ns });
        }
        workers.values_mut().for_each(KeepsEvents::sort);
        let tokens = judged.iter().enumerate();
        let tokens = tokens.filter_map(|(i, j)| Some((j.io.as_ref()?.token?, i))).collect();
        let (begun, disk) = (begun_by_thread(judged), DiskParts::of(judged));
        Index { workers, begun, tokens, disk }
    }
}

/// Times in which an I/O waited for a lock, or for the leader of a store's write group, and the holder's or leader's own
/// I/O.
pub fn waits_for_holder<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let Graph { judged, events, index, .. } = graph;
    let own = u64::from(judged[i].slow.worker);
    let mut waits = Vec::new();
    for segment in by_phase(&judged[i].segments).iter().filter(|p| FOR_ANOTHER.contains(&p.phase)) {
        let off = overlapping(events.off(own), segment.from, segment.to);
        for asleep in off.filter(|r| !r.was_preempted()) {
            let Some((wake, by)) = woken_by(asleep, own) else { continue };
            let leader = index.workers.get(&by).and_then(|of| in_flight(of, wake));
            let time = TimeSpan::new(asleep.start_ns, wake).within(segment.time());
            waits.extend(leader.map(|leader| behind(leader, time)));
        }
    }
    waits
}

/// A wait for another thread of a program that is watched: for the slow I/Os of the thread that ended the wait; beside
/// these for what it was seen asleep for, or a CPU.
pub fn waits_for_waker<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let Graph { judged, events, index, .. } = graph;
    let slow = judged[i].slow;
    let own = u64::from(slow.worker);
    let mut waits = Vec::new();
    if slow.op != OpKind::Wait {
        return waits;
    }
    let asleep = overlapping(events.off(own), slow.submit_ns, slow.complete_ns);
    for wait in asleep.filter(|r| !r.was_preempted()) {
        let Some((wake, by)) = woken_by(wait, own) else { continue };
        let slept = TimeSpan::new(wait.start_ns, wake);
        let of = index.workers.get(&by).into_iter();
        let mut leaders: Vec<&InFlight> =
            of.flat_map(|of| of.within(slept.from + 1, slept.to - 1)).collect();
        // Of those in flight together, what ended first is told first.
        leaders.sort_unstable_by_key(|leading| (leading.complete_ns, leading.io));
        for leading in leaders.into_iter().take(LEADERS) {
            let time = leading.time().within(slept);
            // Also for what was not seen, but not for the program's own work.
            waits.push(Wait { takes: |phase| !is_own_work(phase), ..behind(leading.io, time) });
        }
        for off in overlapping(events.off(by), slept.from, slept.to) {
            let (phase, until) = match off.reason() {
                _ if off.was_preempted() => (Phase::Cpu, off.end_ns),
                Some(SleepReason::For(phase, _) | SleepReason::Lock(phase, _)) => {
                    (phase, off.awake_ns())
                }
                Some(SleepReason::OwnIo | SleepReason::Unknown) | None => {
                    (Phase::Unobserved, off.awake_ns())
                }
            };
            let time = TimeSpan::new(off.start_ns, until).within(slept);
            let known = Wait::from(Segment::new(time, phase, Source::Holder));
            waits.push(Wait { takes: |phase| !is_own_work(phase), ..known });
        }
    }
    waits
}

/// When a worker was woken up by another one, and by which.
fn woken_by(asleep: &OffCpu, own: u64) -> Option<(i64, u64)> {
    asleep.woken_ns.zip(asleep.waker.worker.filter(|by| *by != own))
}

/// Operations of the thread that ended a wait, at most.
const LEADERS: usize = 4096;

/// When I/Os had parts at a disk themselves.
struct DiskParts {
    /// By I/O.
    times: Vec<Vec<TimeSpan>>,
    /// Their ends, and whose, by time.
    ends: Vec<(i64, usize)>,
}

impl DiskParts {
    fn of(judged: &[Judged]) -> DiskParts {
        let times = judged.iter().map(|one| {
            let line = by_phase(&one.segments);
            line.iter().filter(|p| on_disk(p.phase)).map(Segment::time).collect()
        });
        let times: Vec<Vec<TimeSpan>> = times.collect();
        let each = times.iter().enumerate();
        let mut ends: Vec<(i64, usize)> =
            each.flat_map(|(i, parts)| parts.iter().map(move |part| (part.to, i))).collect();
        ends.sort_unstable();
        DiskParts { times, ends }
    }

    /// The I/Os whose parts were done just before a time, the last one first.
    fn ended_before(&self, at: i64) -> impl Iterator<Item = usize> {
        let ended = &self.ends[..self.ends.partition_point(|(done, _)| *done <= at)];
        let near = ended.iter().rev().take_while(move |(done, _)| at - done < WAKEUP_WINDOW_NS);
        near.map(|(_, of)| *of)
    }

    /// For how long an I/O had parts there in a time.
    fn shared_ns(&self, i: usize, time: TimeSpan) -> i64 {
        let parts = &self.times[i];
        let first = parts.partition_point(|part| part.to <= time.from);
        let then = parts[first..].iter().take_while(|part| part.from < time.to);
        then.map(|part| part.shared_ns(time)).sum()
    }
}

/// Times in which an I/O waited for pages, for a block or the log of the file system's own, or for what another worker
/// thread of io_uring had, and the I/O that they belonged to: its way to the disk ended just before, or (pages sent with
/// its own) just after.
pub fn waits_for_pages<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let Graph { judged, events, index: Index { disk, .. }, .. } = graph;
    let one = &judged[i];
    let waits = |p: &Segment| matches!(p.phase, Phase::PageCache | Phase::FileSystem);
    let Some(io) = one.io.as_ref().filter(|_| one.segments.iter().any(waits)) else {
        return Vec::new();
    };
    let off = overlapping(events.off(one.slow.worker.into()), io.start_ns, io.end_ns);
    let handed = events.ring_threads.of(io.whose(), io.start_ns, io.end_ns);
    let asleep = off.map(|off| (off, false)).chain(handed.map(|w| (&w.off, behind_worker(w))));
    let mut waits = Vec::new();
    let theirs = |s: &Stack| {
        stacks::waits_for_pages(s) || stacks::waits_for_buffers(s) || stacks::waits_for_log_write(s)
    };
    for (row, behind_worker) in asleep {
        let (pages, log) = (row.was_in(theirs), row.was_in(stacks::waits_for_log_write));
        let Some(wake) = row.woken_ns.filter(|_| pages || behind_worker) else { continue };
        let asleep = TimeSpan::new(row.start_ns, wake);
        let mut near = disk.ended_before(wake).filter(|of| *of != i);
        // A flush of the disk is in the lines of all who wait for it.
        let longest = |of: &usize| disk.shared_ns(*of, asleep);
        let leader = match pages {
            true if log => near.filter(|of| writes(&judged[*of])).max_by_key(longest),
            true => near.next().or_else(|| sent_together(asleep, i, disk, judged)),
            false => near.filter(|of| handed_over(&judged[*of])).max_by_key(longest),
        };
        waits.extend(leader.map(|leader| behind(leader, asleep)));
    }
    waits
}

/// The I/O whose parts were at the disk when a page was done, and ended soon after: it sent pages of others with its
/// own, of which the last says when it is done.
fn sent_together(asleep: TimeSpan, i: usize, disk: &DiskParts, judged: &[Judged]) -> Option<usize> {
    let wake = asleep.to;
    let after = disk.ends.partition_point(|(done, _)| *done <= wake);
    let near = disk.ends[after..].iter().take_while(|(done, _)| done - wake < WAKEUP_WINDOW_NS);
    let near = near.map(|(_, of)| *of).filter(|of| *of != i && sends_for_others(&judged[*of]));
    let at_disk = |of: &usize| disk.shared_ns(*of, TimeSpan::new(wake, wake + 1)) > 0;
    let covered = |of: &usize| -> i64 {
        let told = overlapping(&judged[*of].segments, asleep.from, wake);
        told.filter(|p| is_cause(p.phase)).map(|p| p.time().shared_ns(asleep)).sum()
    };
    near.filter(at_disk).filter(|of| covered(of) * 2 >= asleep.length()).max_by_key(covered)
}

/// Whether a write had more parts than its own data can be.
fn sends_for_others(one: &Judged) -> bool {
    let more = |io: &TracedIo| {
        let queued = io.parts.map_or(0, |parts| parts.queued);
        let parts = queued.saturating_sub(u64::from(io.has(flags::FLUSH)));
        let own = io.size.div_ceil(SMALLEST_BLOCK);
        !io.has(flags::SPLIT) && own > 0 && parts > own
    };
    writes(one) && one.io.as_ref().is_some_and(more)
}

/// Times before a worker thread of io_uring began an I/O that was handed to it, in which such a thread slept over
/// another I/O of the same ring, and that I/O.
pub fn waits_for_turn<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let Graph { judged, events, index: Index { tokens, .. }, .. } = graph;
    let one = &judged[i];
    let Some(io) = one.io.as_ref().filter(|io| io.token.is_some()) else {
        return Vec::new();
    };
    let Some(from) = io.punted_ns().or(io.sync_punt_ns) else { return Vec::new() };
    let off = events.ring_threads.of(io.whose(), from, io.end_ns);
    let room = events.worker_reclaim.of(io.whose(), from, io.end_ns);
    let own = off.map(|w| w.start_ns).chain(room.map(|r| r.start_ns));
    let seen = own.chain(io.bio_ns).chain(io.held_ns).filter(|at| *at >= from);
    let begun = seen.min().unwrap_or(io.end_ns);
    let others = || events.ring_threads.within(from, begun).filter(|w| w.token != io.token);
    let asleep = others().filter(|w| !w.was_preempted()).filter_map(|w| {
        let leader = *tokens.get(&w.token?)?;
        (judged[leader].slow.worker == one.slow.worker).then_some((w, leader))
    });
    let asleep: Vec<(&RingThread, usize)> = asleep.collect();
    // A worker thread that waited for a CPU, or did nothing, may be that which was to begin this I/O. Of those that
    // slept for different things it is not known which one was to.
    let first = asleep.first().and_then(|(w, _)| slept_for(w));
    let clear = others().all(|w| !w.was_preempted() && w.token.is_some())
        && first.is_some()
        && asleep.iter().all(|(w, _)| slept_for(w) == first);
    let source = if clear { Source::Helper } else { Source::Holder };
    let turn = |(w, leader): (&RingThread, usize)| {
        let time = w.asleep().within(TimeSpan::new(from, begun));
        Wait { source, ..behind(leader, time) }
    };
    asleep.into_iter().map(turn).collect()
}

/// What a thread says that it slept for itself.
fn slept_for(off: &OffCpu) -> Option<Phase> {
    match off.reason() {
        Some(SleepReason::For(phase, _)) => Some(phase),
        _ => None,
    }
}

/// The same where that I/O was not at the disk: few workers with ordinary I/Os there are a lack of workers; what holds
/// those back is not.
pub fn waits_for_held_worker<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let mut turns = waits_for_turn(graph, i);
    turns.iter_mut().for_each(|wait| wait.takes = |phase| is_cause(phase) && !on_disk(phase));
    turns
}

/// Slow I/Os by when their thread began them.
fn begun_by_thread(judged: &[Judged]) -> BTreeMap<u64, Vec<(i64, usize)>> {
    let mut begun: BTreeMap<u64, Vec<(i64, usize)>> = BTreeMap::new();
    for (i, one) in judged.iter().enumerate() {
        if let Some(at) = one.io.as_ref().and_then(|io| io.enter_ns) {
            begun.entry(u64::from(one.slow.worker)).or_default().push((at, i));
        }
    }
    begun.values_mut().for_each(|list| list.sort_unstable());
    begun
}

/// Times in which the load's thread, while it gave a batch to io_uring, slept over another I/O of the batch, which it
/// did itself, and that I/O: those behind it have not begun, and those before it are told of together
/// with the last. It is the slow I/O that the thread began last, just before it slept, or the slow I/O whose way to the
/// disk ended just before the thread was woken up.
pub fn waits_for_submission<'a>(graph: &Graph<'a>, i: usize) -> Vec<Wait<'a>> {
    let Graph { judged, events, index: Index { begun, disk, .. }, .. } = graph;
    let own = u64::from(judged[i].slow.worker);
    let (Some(io), Some(of)) = (judged[i].io.as_ref(), begun.get(&own)) else {
        return Vec::new();
    };
    let gives = |r: &&OffCpu| r.was_in(stacks::sleeps_in_submission);
    let handed = |of: usize, at: i64| {
        let io = judged[of].io.as_ref();
        io.and_then(|io| io.punt_ns.or(io.sync_punt_ns)).is_some_and(|punt| punt <= at)
    };
    let mut waits = Vec::new();
    for asleep in overlapping(events.off(own), io.start_ns, io.end_ns).filter(gives) {
        let TimeSpan { from, to: wake } = asleep.asleep();
        let with_worker = handed(i, from) && io.cqe_ns.is_none_or(|told| told >= wake);
        let before = &of[..of.partition_point(|(at, _)| *at <= from)];
        let Some((at, leader)) = before.last().copied().filter(|(_, leader)| *leader != i) else {
            continue;
        };
        let ended = |end: i64| (0..WAKEUP_WINDOW_NS).contains(&(wake - end));
        let its =
            from - at < WAKEUP_WINDOW_NS || disk.times[leader].iter().any(|part| ended(part.to));
        if its && !with_worker && !handed(leader, from) {
            waits.push(behind(leader, asleep.asleep()));
        }
    }
    waits
}

fn writes(one: &Judged) -> bool {
    one.slow.op.request() != OpKind::Read
}

/// Whether a worker thread of io_uring had an I/O, or its sync.
fn handed_over(one: &Judged) -> bool {
    one.io.as_ref().is_some_and(|io| io.has(flags::PUNTED) || io.sync_punt_ns.is_some())
}

/// Whether a worker thread of io_uring slept for something of the file system's (a lock, a commit, an entry of its
/// cache) until another such thread was done with it.
fn behind_worker(off: &OffCpu) -> bool {
    let Some(stack) = off.stack.as_deref() else { return false };
    let lock = matches!(stack.reason(), SleepReason::Lock(Phase::FileSystem, _));
    off.waker.name().is_some_and(|name| name.starts_with("iou-wrk-"))
        && (lock || stacks::waits_for_commit(stack))
}

/// The I/O of a worker that was in flight then, or that had just ended, where it was a single one: a lock is also
/// given on by what the thread does next.
fn in_flight(of: &EventList<InFlight>, at: i64) -> Option<usize> {
    for from in [at, at - WAKEUP_WINDOW_NS] {
        let mut near = of.within(from, at);
        if let Some(one) = near.next() {
            return near.next().is_none().then_some(one.io);
        }
    }
    None
}

#[cfg(test)]
mod tests;
