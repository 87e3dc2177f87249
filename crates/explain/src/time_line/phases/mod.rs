//! Cuts one traced I/O into phases that sum to its time from submit to completion, to the nanosecond, from its stamps
//! and the intervals off the CPU of its threads. What cannot be told apart is `Unobserved`; what is concluded and not
//! seen says so by its `Source`. Layers are blamed in `judge`.

use taillight_rundir::layers::flags;

use super::{blocks, gaps, threads, workers};
use crate::events::context::IoContext;
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::rounds;
use crate::phase::Phase;
use crate::time_line::blocks::RoundPlace;
use crate::time_line::segments::{Segment, Source, TimeLine, append_thread_states};

/// The time line of one traced I/O, as far as its own stamps and threads tell; `resolve` goes on from there.
pub fn segments(io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let line = if context.threads_only {
        threads::time_line(io, context)
    } else {
        traced_line(io, context)
    };
    gaps::drop_conclusions(line, io, context)
}

fn traced_line(io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut line = TimeLine::of(io);
    let mut handed = [io.punted_ns(), io.sync_punt_ns].into_iter().flatten().peekable();
    let rounds = rounds::rounds(io, context.earlier);
    let all_known = rounds::all_rounds_known(io, context.earlier);
    if rounds.is_empty() && handed.peek().is_none() {
        without_block_io(&mut line, io, context);
        return line.segments();
    }
    let (own, room) = match handed.peek() {
        Some(_) => (workers::own_off(io, context), workers::own_reclaim(io, context)),
        None => (Vec::new(), Vec::new()),
    };
    let worker = IoContext { off: &own, reclaim: &room, ..*context };
    let mut actor = context;
    for (i, round) in rounds.iter().enumerate() {
        let mut goes_on = i > 0;
        while let Some(at) = handed.next_if(|at| *at <= round.bio) {
            hand_over(&mut line, io, at, i > 0, context, &worker);
            (actor, goes_on) = (&worker, false);
        }
        let next = rounds.get(i + 1).map(|r| r.bio);
        let next_ns = next.or(handed.peek().copied());
        let place = RoundPlace { goes_on, all_known, next_ns };
        blocks::round(&mut line, io, round, place, actor);
    }
    let mut idle = rounds.is_empty();
    for at in handed {
        hand_over(&mut line, io, at, !rounds.is_empty(), context, &worker);
        (actor, idle) = (&worker, true);
    }
    if idle {
        workers::without_block_io(&mut line, io, actor);
    } else {
        workers::after_parts(&mut line, io.cqe_ns.unwrap_or(io.end_ns), &worker);
    }
    after_completion(&mut line, io, io.end_ns, context);
    line.segments()
}

/// An I/O, or the sync of a write, goes to an io_uring worker thread `at` a time; `rounds`: after block I/O.
fn hand_over(
    line: &mut TimeLine,
    io: &TracedIo,
    at: i64,
    rounds: bool,
    context: &IoContext<'_>,
    worker: &IoContext<'_>,
) {
    if io.punted_ns().is_some_and(|punt| punt < at) {
        workers::until_sync(line, at, rounds, worker);
    }
    if line.at == io.start_ns {
        append_thread_states(line, at, Phase::Submit, false, context);
    } else {
        after_completion(line, io, at, context);
    }
    let next = io.sync_punt_ns.filter(|next| *next > at);
    workers::wait_for_worker(line, io, next, worker, context);
}

/// An I/O without block I/O of its own.
fn without_block_io(line: &mut TimeLine, io: &TracedIo, context: &IoContext<'_>) {
    let queued = io.has(flags::QUEUED);
    if let (true, Some(from), Some(to)) = (queued, io.served_ns, io.answered_ns) {
        append_thread_states(line, from, Phase::Submit, false, context);
        line.to(to, Phase::FileSystem, Source::Stamps);
        return after_completion(line, io, io.end_ns, context);
    }
    if let Some(page) = context.page_ns {
        append_thread_states(line, io.enter_ns.unwrap_or(line.at), Phase::Submit, false, context);
        line.to(page, Phase::PageCache, Source::Inferred);
        return after_completion(line, io, io.end_ns, context);
    }
    // A thread with several in flight slept: this one was not done at once, and what the thread
    // did meanwhile was not for it.
    let elsewhere = io.has(flags::PUNTED) || (queued && io.slept_ns.is_some_and(|ns| ns > 0));
    append_thread_states(line, io.end_ns, Phase::Submit, elsewhere, context);
}

/// From the device's answer to the program. A thread that waits is told of it and woken up, then it
/// runs: from there on, and when it was not waiting at all, time on the CPU is the program's own, but for a thread with
/// several I/Os in flight whose short sleeps come to more than a quarter of it and may lie in it.
fn after_completion(line: &mut TimeLine, io: &TracedIo, to: i64, context: &IoContext<'_>) {
    let from = line.at;
    if to <= from {
        return;
    }
    match overlapping(context.off, from, to).next() {
        Some(off) if off.start_ns <= from && !off.was_preempted() => {
            append_thread_states(line, off.end_ns.min(to), Phase::Completion, false, context);
        }
        Some(_) => {}
        None => {
            if let (Some(wake), Some(run)) = (io.wake_ns, io.run_ns)
                && wake >= from
                && run >= wake
                && run <= to
            {
                line.to(wake, Phase::Completion, Source::Silence);
                line.to(run, Phase::Cpu, Source::OwnSleep);
            }
        }
    }
    let elsewhere = io.has(flags::QUEUED)
        && !was_awake(io, line.at)
        && short_sleeps_ns(io, context) * 4 > (to - from).unsigned_abs();
    append_thread_states(line, to, Phase::Application, elsewhere, context);
}

/// Whether the thread of a ring did not sleep from then on: it posts the answer itself, and had come back to its CPU
/// before. What io_uring's workers post, and interrupts tell, may find it asleep.
fn was_awake(io: &TracedIo, from: i64) -> bool {
    let posts = io.cqe_ns.is_some() && !io.has(flags::PUNTED);
    posts && io.run_ns.is_some_and(|run| run <= from)
}

/// How long the thread slept during this I/O in stretches without events: too short for them, or short waits for its
/// answers, of which `watch` tells none. A thread with several I/Os
/// in flight takes what has come when it wakes up: this I/O had not, and nothing says why.
fn short_sleeps_ns(io: &TracedIo, context: &IoContext<'_>) -> u64 {
    let within = |at: i64| at.clamp(io.start_ns, io.end_ns);
    let slept = overlapping(context.off, io.start_ns, io.end_ns)
        .filter(|r| !r.was_preempted())
        .map(|r| within(r.awake_ns()) - within(r.start_ns));
    let known: i64 = slept.sum();
    io.slept_ns.map_or(0, |all| all.saturating_sub(known.unsigned_abs()))
}

#[cfg(test)]
mod tests;
