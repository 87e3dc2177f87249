//! Edges to threads: of the kernel that issue or complete the I/O or serve a loop device, io_uring's that polls, and of
//! a store's server. These are found by following the wake-up of the I/O's own thread back; else by what they serve and
//! when they came back to the CPU, which makes no verdict sure ([`Source::Inferred`]). Beside these what a server's
//! stamps say (FUSE), and when the whole program was stopped.

use std::collections::BTreeSet;

use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use crate::events::Events;
use crate::events::context::IoContext;
use crate::events::event::{Helper, OffCpu, Whose};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::stacks::{self, SleepReason};
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS, cpu_wait};
use crate::wait_graph::{Cause, Wait};

/// A thread of the kernel is woken up for an I/O this soon after the stamp before it, ns. An interrupt of
/// the program's thread that wakes up another one counts as the program's own wake-up: hence so short.
const SHORT_WAKEUP_NS: i64 = 20_000;

/// When a program had the I/O that serves it (FUSE), from its first request to the last answer: by whichever thread
/// the I/O went there, its own or one that it was handed to.
pub fn server_waits(_: &Segment, io: &TracedIo, _: &IoContext<'_>) -> Vec<Segment> {
    let stamps = io.served_ns.zip(io.answered_ns).filter(|(from, to)| from < to);
    let had = |(from, to)| Segment::new(TimeSpan::new(from, to), Phase::FileSystem, Source::Stamps);
    stamps.map(had).into_iter().collect()
}

/// Whether a phase of its threads' time is not the server's own business, as that they were idle, stopped or without a
/// CPU.
fn is_below_server(phase: Phase) -> bool {
    !matches!(phase, Phase::Cpu | Phase::Stopped | Phase::Application | Phase::Server)
}

/// The thread of the store's server that an I/O waited for: the thread that gave the answer, or for an operation that
/// writes one whose sync ended right before (one syncs the log for all). Its waits for a CPU, a stop, the program or
/// another server stay the server's.
pub fn serving_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    let mut waits = Vec::new();
    // Only a commit waits for what another thread of the server syncs.
    let commits = io.op == OpKind::Commit || io.op.request().writes();
    for asleep in overlapping(context.off, segment.from, segment.to) {
        let wake = asleep.awake_ns();
        for by in helpers(context, segment.from, wake).filter(|by| by.serves) {
            let gave = by.thread.tid.is_some() && by.thread.tid == asleep.waker.tid();
            let before = (0..WAKEUP_WINDOW_NS / 5).contains(&(wake - by.end_ns));
            let syncs = by.was_in(stacks::syncs);
            if !(gave || commits && before && syncs) {
                continue;
            }
            let source = if gave { Source::Helper } else { Source::Inferred };
            // What a sync of the server waits for is what it has written itself.
            if syncs && by.was_in(stacks::waits_for_pages) && !by.was_preempted() {
                waits.push(Segment::new(by.asleep(), Phase::Device, Source::Holder).into());
            } else {
                let time = TimeSpan::new(segment.from, wake);
                let on = Wait::new(time, Cause::Thread(&by.off), source);
                waits.push(Wait { takes: is_below_server, ..on });
            }
        }
    }
    waits
}

/// The threads that serve the disk and tell of its completions.
pub fn disk_server_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    let mut served = loop_worker_waits(segment, io, context);
    served.extend(late_tellers(segment, io, context).into_iter().map(Wait::from));
    served
}

/// When the program was stopped or frozen, as its threads' sleeps say.
pub fn stop_sleeps(segment: &Segment, _: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let stopped = |r: &&OffCpu| {
        !r.was_preempted() && matches!(r.reason(), Some(SleepReason::For(Phase::Stopped, _)))
    };
    let stop = |r: &OffCpu| Segment::new(r.asleep(), Phase::Stopped, Source::OwnSleep);
    context.off_cpu(segment.from, segment.to).filter(stopped).map(stop).collect()
}

/// The kernel's threads that told the I/O's own thread of its completion; also the waits for a CPU, over half of the
/// segment, of a kworker that came back just before the I/O went on.
pub fn completion_thread_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    let mut waits = Vec::new();
    for told in context.off_cpu(segment.from, io.end_ns) {
        let wake = told.awake_ns();
        // It went on at once to what woke the waiting thread up: nothing before can be it.
        let rows = tellers(told, segment.from.max(wake - WAKEUP_WINDOW_NS), context)
            .filter(|row| row.end_ns <= wake && wake - row.end_ns < WAKEUP_WINDOW_NS);
        let time = TimeSpan::new(segment.from, wake);
        let on = |row: &'a Helper| Wait::new(time, Cause::Thread(&row.off), Source::Helper);
        waits.extend(rows.map(on));
    }
    if segment.phase != Phase::Completion {
        return waits;
    }
    // A thread that waits for several I/Os may be awake for another one when this one is told.
    let went_on = [Some(segment.to), io.cqe_ns, io.sync_punt_ns, Some(io.end_ns)];
    let went_on = || went_on.into_iter().flatten().filter(|at| *at >= segment.from);
    let near = segment.from.max(went_on().min().unwrap_or(segment.to) - WAKEUP_WINDOW_NS);
    let late = helpers(context, near, io.end_ns).filter(|row| {
        let at_once = |at: i64| (0..WAKEUP_WINDOW_NS).contains(&(at - row.end_ns));
        row.thread.name.starts_with("kworker/") && went_on().any(at_once)
    });
    for row in late {
        // It may have lost its CPU several times on the way. One without a number is nobody else.
        let known = |r: &Helper| r.thread.tid.is_some() && r.thread.tid == row.thread.tid;
        let same = helpers(context, segment.from, row.end_ns);
        let same = same.filter(|r| std::ptr::eq(*r, row) || known(r));
        let lost: Vec<Segment> = same.map(|r| cpu_wait(r, tie(r, io, context))).collect();
        let within = |w: &Segment| w.time().shared_ns(segment.time());
        if lost.iter().map(within).sum::<i64>() * 2 >= segment.length() {
            waits.extend(lost.into_iter().map(Wait::from));
        }
    }
    waits
}

/// io_uring's polling thread.
pub fn sqpoll_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    let off = context.all.into_iter().flat_map(|all| all.polling_off(io.worker, io.time()));
    off.map(|off| Wait::new(segment.time(), Cause::Thread(off), Source::Helper)).collect()
}

/// The threads that serve the loop device of an I/O: its own program woke them up, another one of their kind passed the
/// work on, or they were in the loop device's functions.
fn loop_worker_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    if !io.dev.as_deref().is_some_and(|dev| dev.starts_with("7:")) {
        return Vec::new();
    }
    // A file served over FUSE is a part of such a device.
    let takes = |phase: Phase| phase != Phase::FileSystem;
    let takes: fn(Phase) -> bool = if io.has(flags::LOWER) { |_| true } else { takes };
    let serves = |row: &&Helper| {
        let woken = row.runnable_ns();
        let soon = (0..SHORT_WAKEUP_NS).contains(&(woken - segment.from));
        // It had been woken up for an earlier I/O, and did this one as well as soon as it ran.
        let next = woken <= segment.from && ends_with(row, segment, WAKEUP_WINDOW_NS);
        let for_it = row.waker.is_own && (soon || next);
        // Another one of its kind passed the work on, and when it ran this was done at once.
        let late = (row.end_ns - woken.max(segment.from)) * 2 >= segment.length();
        let passed_on = ends_with(row, segment, WAKEUP_WINDOW_NS) && late && unbound(row);
        for_it || passed_on || row.was_in(stacks::serves_loop)
    };
    let on = |row: &'a Helper| {
        let source = tie(row, io, context);
        Wait { takes, ..Wait::new(segment.time(), Cause::Thread(&row.off), source) }
    };
    helpers(context, segment.from, segment.to).filter(serves).map(on).collect()
}

/// Threads of the kernel that do nothing but tell of interrupts.
const TELLERS: [&str; 2] = ["ksoftirqd/", "irq/"];

/// Completions that a thread tells of wait with it for its CPU: for most of the device's time, and when it ran they were
/// told at once. It is one of the kernel (`TELLERS`, or any that then woke the program up), or the program's own or
/// its ring's, where that polls for them. The wake-up that follows alone ties it to the I/O: what woke the program up
/// before told of another I/O, and who is woken up on the program's CPU may be so by an interrupt of any device.
fn late_tellers(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    // A device may take long, and many I/Os wait for it at a time: only what ended just before is looked at.
    let near = TimeSpan::new(segment.to - WAKEUP_WINDOW_NS / 5, segment.to);
    let late = |off: &OffCpu| {
        let waited = off.end_ns - off.runnable_ns().max(segment.from);
        waited * 2 >= segment.length() && ends_with(off, segment, near.length())
    };
    let wakes = |row: &Helper| {
        let by_it = |off: &OffCpu| row.thread.tid.is_some() && off.waker.tid() == row.thread.tid;
        let then = |off: &OffCpu| (0..WAKEUP_WINDOW_NS).contains(&(off.awake_ns() - row.end_ns));
        let to = io.end_ns.min(row.end_ns + WAKEUP_WINDOW_NS);
        context.off_cpu(row.end_ns, to).any(|off| by_it(off) && then(off))
    };
    let told = |row: &Helper| match wakes(row) {
        true => Some(cpu_wait(row, Source::Helper)),
        false => {
            let tells = TELLERS.iter().any(|name| row.thread.name.starts_with(name));
            tells.then(|| cpu_wait(row, Source::Inferred))
        }
    };
    let rows = helpers(context, near.from, near.to).filter(|row| late(&row.off));
    let mut waits: Vec<Segment> = rows.filter_map(told).collect();
    let own = overlapping(context.off, near.from, near.to);
    let polls = context.all.into_iter().flat_map(|all| all.polling_off(io.worker, near));
    let own = own.chain(polls).filter(|off| late(off) && off.was_in(stacks::polls_for_io));
    waits.extend(own.map(|off| cpu_wait(off, Source::Inferred)));
    waits
}

/// Whether a thread came back to the CPU no longer than this before the end of a segment, ns.
fn ends_with(row: &OffCpu, segment: &Segment, before: i64) -> bool {
    (0..before).contains(&(segment.to - row.end_ns))
}

/// How it is known that a thread of the kernel acted for an I/O: the program woke it up, or it woke up the program;
/// else from the time alone.
fn tie(row: &Helper, io: &TracedIo, context: &IoContext<'_>) -> Source {
    let mut own = context.off_cpu(io.start_ns, io.end_ns);
    let by_it = |off: &OffCpu| row.thread.tid.is_some() && off.waker.tid() == row.thread.tid;
    let tied = row.waker.is_own || own.any(by_it);
    if tied { Source::Helper } else { Source::Inferred }
}

/// Whether a thread of the kernel is of a work queue that is bound to no CPU, as a loop device's is.
fn unbound(row: &Helper) -> bool {
    row.thread.name.starts_with("kworker/u")
}

/// Requests that a thread of the kernel gives to the driver (flushes, a queue that is run again) wait
/// with it for its CPU: the program woke it up, or it does nothing else, and when it ran they were issued
/// at once.
pub fn dispatch_waits(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let near = segment.from.max(segment.to - WAKEUP_WINDOW_NS);
    let rows = helpers(context, near, segment.to);
    let gives = rows.filter(|r| r.waker.is_own || runs_queues(r));
    let late = gives.filter(|r| ends_with(r, segment, WAKEUP_WINDOW_NS));
    late.map(|row| cpu_wait(row, tie(row, io, context))).collect()
}

/// Whether a thread of the kernel is one of those that run the queues of block devices: kblockd's, bound
/// to a CPU and of high priority (block/blk-core.c, kernel/workqueue.c).
fn runs_queues(row: &Helper) -> bool {
    let kblockd = row.thread.name.strip_prefix("kworker/").is_some_and(|n| {
        n.trim_end_matches(char::is_alphabetic) != n && !n.starts_with('u') && n.ends_with('H')
    });
    kblockd || row.was_in(stacks::runs_queues)
}

/// When a thread of the kernel that ended a sleep had no CPU, where that was most of the sleep: whatever the sleep was
/// for, that thread had to do it. An answer from the network may have come only at the end of that.
pub fn waking_thread_waits(
    segment: &Segment,
    _: &TracedIo,
    context: &IoContext<'_>,
) -> Vec<Segment> {
    let of_it = |r: &&OffCpu| match r.reason().filter(|_| !r.was_preempted()) {
        Some(SleepReason::For(phase, _) | SleepReason::Lock(phase, _)) => phase == segment.phase,
        Some(SleepReason::Unknown) => segment.phase == Phase::Unobserved,
        Some(SleepReason::OwnIo) | None => false,
    };
    // Where a worker thread of io_uring slept so over this I/O, its own thread did over another one.
    let by_worker = overlapping(context.worker_off, segment.from, segment.to).any(|r| of_it(&r));
    let list = if by_worker { context.worker_off } else { context.off };
    let mut waits = Vec::new();
    for told in overlapping(list, segment.from, segment.to).filter(of_it) {
        let rows = tellers(told, told.start_ns, context).filter(|row| !row.serves);
        let answer = segment.phase == Phase::Server;
        let source = if answer { Source::Inferred } else { Source::Helper };
        let lost = rows.map(|row| cpu_wait(row, source).clipped(told.asleep()));
        let lost: Vec<Segment> = lost.filter(|wait| wait.from < wait.to).collect();
        if lost.iter().map(Segment::length).sum::<i64>() * 2 >= told.asleep().length().max(1) {
            waits.extend(lost);
        }
    }
    waits
}

/// Threads of the kernel that acted for a worker's I/Os in a time and were late themselves.
pub fn helper_threads(worker: u64, time: TimeSpan, events: &Events) -> Vec<&Helper> {
    let context = IoContext::of(events, worker);
    let asleep = overlapping(context.off, time.from, time.to);
    let wakers: BTreeSet<u64> = asleep.filter_map(|r| r.waker.tid()).collect();
    let rows = helpers(&context, time.from, time.to);
    let told = |r: &&Helper| r.thread.tid.is_some_and(|tid| wakers.contains(&tid));
    let serves = |r: &&Helper| r.waker.is_own || r.was_in(stacks::serves_loop);
    rows.filter(|r| told(r) || serves(r)).collect()
}

/// Off-CPU intervals, in a time, of threads of the kernel and of the store's server.
fn helpers<'a>(
    context: &IoContext<'a>,
    from: i64,
    to: i64,
) -> impl Iterator<Item = &'a Helper> + use<'a> {
    let all = context.all.into_iter();
    all.flat_map(move |all| all.helpers.within(from, to))
}

/// The same, until a sleep ended, of the thread that ended it.
pub fn tellers<'a>(
    asleep: &OffCpu,
    from: i64,
    context: &IoContext<'a>,
) -> impl Iterator<Item = &'a Helper> + use<'a> {
    let (by, to) = (asleep.waker.tid().map(Whose::Thread), asleep.awake_ns());
    let all = context.all.zip(by).into_iter();
    all.flat_map(move |(all, by)| all.helpers.of(by, from, to))
}

#[cfg(test)]
mod tests;
