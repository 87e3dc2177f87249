//! Rules of `wait_graph` that find what a thread did that an I/O waited for: the whole program stopped; a thread of
//! the kernel that completes the I/O, or serves a loop device, and itself waited for a CPU or slept. Such threads are
//! found by following the wake-up of the I/O's own thread back; else by what they serve and when they came back to the
//! CPU, which makes no verdict sure ([`Source::Inferred`]).

use taillight_core::OpKind;
use taillight_rundir::layers::flags;

use crate::events::Events;
use crate::events::context::IoContext;
use crate::events::event::{Helper, OffCpu};
use crate::events::io::TracedIo;
use crate::events::stacks::{self, SleepReason};
use crate::time_line::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS, overlapping};
use crate::verdict::judge::Judged;

/// Idle threads of the kernel sleep in this state: TASK_UNINTERRUPTIBLE without being counted as load.
const IDLE: u64 = 0x402;
/// A thread of the kernel is woken up for an I/O this soon after the stamp before it, ns. An interrupt of
/// the program's thread that wakes up another one counts as the program's own wake-up: hence so short.
const SHORT_WAKEUP_NS: i64 = 20_000;

/// When a program had the I/O that serves it (FUSE), from its first request to the last answer: by whichever thread
/// the I/O went there, its own or one that it was handed to.
pub fn server_waits(_: &[Segment], io: &TracedIo, _: &IoContext<'_>) -> Vec<Segment> {
    let stamps = io.served_ns.zip(io.answered_ns).filter(|(from, to)| from < to);
    let had = |time| Segment::new(time, Phase::FileSystem, Source::Stamps);
    stamps.map(had).into_iter().collect()
}

/// What a thread of the store's server waited for below it while the I/O waited for its answer: the one that gave it, or
/// one that came back right before (the server's threads wait for each other, too: one syncs the log for all). That it
/// waited for a CPU, or was stopped, stays the server's.
pub fn serving_waits(line: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut waits = Vec::new();
    // Only a commit waits for what another thread of the server syncs.
    let commits = io.op == OpKind::Commit || io.op.request().writes();
    for segment in line.iter().filter(|p| p.phase == Phase::Server) {
        for asleep in overlapping(context.off, segment.from, segment.to) {
            let wake = asleep.awake_ns();
            for by in helpers(context, segment.from, wake).filter(|by| by.serves) {
                let gave = by.thread.tid.is_some() && by.thread.tid == asleep.waker.tid();
                let before = (0..WAKEUP_WINDOW_NS / 5).contains(&(wake - by.end_ns));
                if gave || (commits && before && by.was_in(stacks::syncs)) {
                    let tie = if gave { Source::Helper } else { Source::Inferred };
                    waits.extend(server_wait_segments(by, tie));
                }
            }
        }
    }
    waits
}

/// As [`wait_segments`]; what a sync of the server waits for is what it has written itself.
fn server_wait_segments(off: &OffCpu, source: Source) -> Vec<Segment> {
    let mut waits = wait_segments(off, source);
    if off.was_in(stacks::syncs) {
        let own = |wait: &&mut Segment| wait.phase == Phase::PageCache;
        waits.iter_mut().filter(own).for_each(|wait| wait.phase = Phase::Device);
    }
    let upper = [Phase::Cpu, Phase::Stopped, Phase::Application, Phase::Server];
    waits.retain(|wait| !upper.contains(&wait.phase));
    waits
}

/// The waits of the threads that serve the disk and tell of its completions.
pub fn disk_server_waits(line: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut served = loop_worker_waits(line, io, context);
    served.extend(softirq_waits(line, io, context));
    served
}

/// When the program was stopped or frozen, as its threads' sleeps say.
pub fn stop_sleeps(_: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let asleep = [context.off, context.worker_off].into_iter().flat_map(of);
    let stopped = |r: &&OffCpu| {
        !r.was_preempted() && matches!(r.reason(), Some(SleepReason::For(Phase::Stopped, _)))
    };
    let stop =
        |r: &OffCpu| Segment::new((r.start_ns, r.awake_ns()), Phase::Stopped, Source::OwnSleep);
    asleep.filter(stopped).map(stop).collect()
}

/// What the kernel's threads that told the I/O's own thread of its completion had waited for before.
pub fn completion_thread_waits(
    line: &[Segment],
    io: &TracedIo,
    context: &IoContext<'_>,
) -> Vec<Segment> {
    let late = line.iter().filter(|p| matches!(p.phase, Phase::Completion | Phase::Unobserved));
    let mut waits = Vec::new();
    for segment in late {
        let of = |list| overlapping(list, segment.from, io.end_ns);
        for told in [context.off, context.worker_off].into_iter().flat_map(of) {
            let (wake, by) = (told.awake_ns(), told.waker.tid());
            for row in helpers(context, segment.from, wake).filter(|r| r.thread.tid == by) {
                // It went on at once to what woke the waiting thread up.
                if row.end_ns <= wake && wake - row.end_ns < WAKEUP_WINDOW_NS {
                    waits.extend(wait_segments(row, Source::Helper));
                }
            }
        }
        // Who waits for several I/Os may be awake for another one when this one is told.
        let went_on = [Some(segment.to), io.cqe_ns, io.sync_punt_ns, Some(io.end_ns)];
        let late = helpers(context, segment.from, io.end_ns).filter(|row| {
            let work = row.thread.name.starts_with("kworker/");
            let at_once = |at: i64| (0..WAKEUP_WINDOW_NS).contains(&(at - row.end_ns));
            segment.phase == Phase::Completion && work && went_on.into_iter().flatten().any(at_once)
        });
        for row in late {
            // It may have lost its CPU several times on the way.
            let same = helpers(context, segment.from, row.end_ns);
            let same = same.filter(|r| r.thread.tid == row.thread.tid);
            let lost = same.flat_map(|r| wait_segments(r, tie(r, io, context)));
            let lost: Vec<Segment> = lost.filter(|wait| wait.phase == Phase::Cpu).collect();
            let within = |w: &Segment| (w.to.min(segment.to) - w.from.max(segment.from)).max(0);
            if lost.iter().map(within).sum::<i64>() * 2 >= segment.length() {
                waits.extend(lost);
            }
        }
    }
    waits
}

/// What io_uring's polling thread waited for.
pub fn sqpoll_waits(_: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let off = context.all.into_iter().flat_map(|all| sqpoll_off(io, all));
    off.flat_map(|off| wait_segments(off, Source::Helper)).collect()
}

/// When the polling thread of io_uring was off the CPU, which takes the requests of this I/O's thread
/// from the queue and tells it of their ends.
pub fn sqpoll_off<'a>(
    io: &TracedIo,
    events: &'a Events,
) -> impl Iterator<Item = &'a OffCpu> + use<'a> {
    let own = Some(io.worker);
    let polls = events.ring_threads.within(io.start_ns, io.end_ns).filter(|w| w.polls());
    polls.filter(move |w| w.worker == own).map(|w| &w.off)
}

/// What the threads waited for that serve the loop device of an I/O: its own program woke them up, another one of their
/// kind passed the work on, or they were in the loop device's functions.
pub fn loop_worker_waits(line: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    if !io.dev.as_deref().is_some_and(|dev| dev.starts_with("7:")) {
        return Vec::new();
    }
    let mut waits = Vec::new();
    for segment in line.iter().filter(|p| p.phase == Phase::Device) {
        for row in helpers(context, segment.from, segment.to) {
            let woken = row.runnable_ns();
            let soon = (0..SHORT_WAKEUP_NS).contains(&(woken - segment.from));
            // It had been woken up for an earlier I/O, and did this one as well as soon as it ran.
            let next = woken <= segment.from && ends_with(row, segment, WAKEUP_WINDOW_NS);
            let for_it = row.waker.is_own && (soon || next);
            // Another one of its kind passed the work on, and when it ran this was done at once.
            let late = (row.end_ns - woken.max(segment.from)) * 2 >= segment.to - segment.from;
            let passed_on = ends_with(row, segment, WAKEUP_WINDOW_NS) && late && unbound(row);
            if for_it || passed_on || row.was_in(stacks::serves_loop) {
                waits.extend(wait_segments(row, tie(row, io, context)));
            }
        }
    }
    // A file served over FUSE is a part of such a device.
    waits.retain(|wait| wait.phase != Phase::FileSystem || io.has(flags::LOWER));
    waits
}

/// Completions that are left to a thread of the kernel (ksoftirqd) wait with it for its CPU: for most of
/// the device's time, and when it ran they were told at once.
pub fn softirq_waits(line: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut waits = Vec::new();
    for segment in line.iter().filter(|p| p.phase == Phase::Device) {
        let rows = helpers(context, segment.from, segment.to).filter(|row| {
            let waited = row.end_ns - row.awake_ns().max(segment.from);
            let late = waited * 2 >= segment.to - segment.from;
            let soft = row.thread.name.starts_with("ksoftirqd/");
            soft && late && ends_with(row, segment, WAKEUP_WINDOW_NS / 5)
        });
        waits.extend(rows.map(|row| {
            let time = (row.awake_ns(), row.end_ns);
            Segment::new(time, Phase::Cpu, tie(row, io, context))
        }));
    }
    waits
}

/// Whether a thread came back to the CPU no longer than this before the end of a segment, ns.
fn ends_with(row: &OffCpu, segment: &Segment, before: i64) -> bool {
    (0..before).contains(&(segment.to - row.end_ns))
}

/// How it is known that a thread of the kernel acted for an I/O: the program woke it up, or it woke up the program;
/// else from the time alone.
fn tie(row: &Helper, io: &TracedIo, context: &IoContext<'_>) -> Source {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let mut own = [context.off, context.worker_off].into_iter().flat_map(of);
    let tied = row.waker.is_own || own.any(|off| off.waker.tid() == row.thread.tid);
    if tied { Source::Helper } else { Source::Inferred }
}

/// Whether a thread of the kernel is of a work queue that is bound to no CPU, as a loop device's is.
fn unbound(row: &Helper) -> bool {
    row.thread.name.starts_with("kworker/u")
}

/// Requests that a thread of the kernel gives to the driver (flushes, a queue that is run again) wait
/// with it for its CPU: the program woke it up, or it does nothing else, and when it ran they were issued
/// at once.
pub fn dispatch_waits(line: &[Segment], io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut waits = Vec::new();
    for segment in line.iter().filter(|p| p.phase == Phase::Queue) {
        let rows = helpers(context, segment.from, segment.to);
        let gives = rows.filter(|r| r.waker.is_own || runs_queues(r));
        for row in gives.filter(|r| ends_with(r, segment, WAKEUP_WINDOW_NS)) {
            let late = wait_segments(row, tie(row, io, context)).into_iter();
            waits.extend(late.filter(|wait| wait.phase == Phase::Cpu));
        }
    }
    waits
}

/// Whether a thread of the kernel is one of those that run the queues of block devices: kblockd's, bound
/// to a CPU and of high priority (block/blk-core.c, kernel/workqueue.c).
fn runs_queues(row: &Helper) -> bool {
    let kblockd = row.thread.name.strip_prefix("kworker/").is_some_and(|n| {
        n.trim_end_matches(char::is_alphabetic) != n && !n.starts_with('u') && n.ends_with('H')
    });
    kblockd || row.was_in(stacks::runs_queues)
}

/// Threads of the kernel that acted for a slow I/O and were late themselves.
pub fn helper_threads<'a>(one: &Judged, events: &'a Events) -> Vec<&'a Helper> {
    let Some(io) = &one.io else {
        return Vec::new();
    };
    let context = IoContext::of(events, u64::from(one.slow.worker));
    let asleep = overlapping(context.off, io.start_ns, io.end_ns);
    let wakers: Vec<u64> = asleep.filter_map(|r| r.waker.tid()).collect();
    let rows = helpers(&context, io.start_ns, io.end_ns);
    let told = |r: &&Helper| r.thread.tid.is_some_and(|tid| wakers.contains(&tid));
    let serves = |r: &&Helper| r.waker.is_own || r.was_in(stacks::serves_loop);
    rows.filter(|r| told(r) || serves(r)).collect()
}

/// Off-CPU intervals of the kernel's threads in a time.
pub fn helpers<'a>(
    context: &IoContext<'a>,
    from: i64,
    to: i64,
) -> impl Iterator<Item = &'a Helper> + use<'a> {
    let all = context.all.into_iter();
    all.flat_map(move |all| all.helpers.within(from, to))
}

/// What a thread slept for, where that is known, and its wait for a CPU after it.
pub fn wait_segments(off: &OffCpu, source: Source) -> Vec<Segment> {
    if off.was_preempted() {
        return vec![Segment::new((off.start_ns, off.end_ns), Phase::Cpu, source)];
    }
    let wake = off.awake_ns();
    let mut waits = vec![Segment::new((wake, off.end_ns), Phase::Cpu, source)];
    let stack = off.stack.as_deref().filter(|_| off.state != IDLE);
    let phase = match stack.map(|stack| (stack.reason(), stack)) {
        Some((SleepReason::For(phase, _), stack)) if !stacks::passed_on(stack, phase) => {
            Some((phase, source))
        }
        Some((SleepReason::For(phase, _) | SleepReason::Lock(phase, _), _)) => {
            Some((phase, Source::Holder))
        }
        // I/O of its own that it makes for another one, as a sync behind a write.
        Some((SleepReason::OwnIo, _)) => Some((Phase::Device, Source::Holder)),
        _ => None,
    };
    let slept = phase.map(|(phase, source)| Segment::new((off.start_ns, wake), phase, source));
    waits.splice(0..0, slept);
    waits
}

#[cfg(test)]
mod tests;
