//! io_uring worker threads: what an I/O that was handed to one waited for, from the hand-over until the
//! worker began, after its parts, and without any. A worker that sleeps or waits for a CPU leaves an event that names
//! the I/O it was doing. The block layer's part is in `blocks`.

use taillight_core::TimeSpan;
use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::event::{OffCpu, Reclaim, Timed};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::rounds::BlockRound;
use crate::events::stacks::{self, SleepReason};
use crate::phase::Phase;
use crate::time_line::segments::{
    Segment, Source, TimeLine, WAKEUP_WINDOW_NS, append_thread_states, sleep_phase, wait_segments,
};

/// When the worker that did this very I/O was off the CPU, by time.
pub fn own_off(io: &TracedIo, context: &IoContext<'_>) -> Vec<OffCpu> {
    let all = context.all.into_iter();
    let own = all.flat_map(|all| all.ring_threads.of(io.whose(), io.start_ns, io.end_ns));
    own.map(|w| w.off.clone()).collect()
}

/// When it made room in memory, by time.
pub fn own_reclaim(io: &TracedIo, context: &IoContext<'_>) -> Vec<Reclaim> {
    let all = context.all.into_iter();
    all.flat_map(|all| all.worker_reclaim.of(io.whose(), io.start_ns, io.end_ns)).cloned().collect()
}

/// From the hand-over until the worker is known to be at it. `thread` handed it over, and at `next` what comes after
/// that. Where neither its begin nor others at work for half of the time were seen, 1 ms and more are unobserved.
pub fn wait_for_worker(
    line: &mut TimeLine,
    io: &TracedIo,
    next: Option<i64>,
    actor: &IoContext<'_>,
    thread: &IoContext<'_>,
) {
    let off = actor.off.iter().map(|r| r.start_ns);
    let stretches = off.chain(actor.reclaim.iter().map(|r| r.start_ns));
    let first = stretches.filter(|from| *from >= line.at).min();
    let known = [io.held_ns, io.bio_ns, first].into_iter().flatten();
    let known = known
        .chain(actor.earlier.iter().map(BlockRound::first_seen))
        .filter(|at| *at >= line.at && next.is_none_or(|next| *at < next))
        .min();
    let told = next.or(io.cqe_ns).filter(|at| *at >= line.at);
    let begun = known.into_iter().chain(told).min().unwrap_or(io.end_ns);
    if actor.blind {
        return line.to(begun, Phase::Unobserved, Source::Silence);
    }
    let late = known.is_none().then(|| woken_late(line.at, told?, thread)).flatten();
    let begun = late.map_or(begun, |wait| wait.from);
    let blockers = blockers(line.at, begun, io, actor);
    let sum: i64 = blockers.iter().map(Segment::length).sum();
    if sum * 2 >= begun - line.at {
        for part in &blockers {
            line.to(part.from, Phase::IoWorker, Source::Silence);
            line.to(part.to, part.phase, part.source);
        }
    }
    // A worker that did it unseen was not waited for: others must have been seen at work.
    let busy = sum + busy_ns(line.at, begun, io, actor);
    let by_others = busy * 2 >= begun - line.at;
    let held = actor.earlier.iter().filter_map(|r| r.held).chain(io.held_ns);
    if !by_others && io.has(flags::HELD) && held.into_iter().any(|at| known == Some(at)) {
        // The worker gave it to a limit before, at a time that has no stamp: after what kept workers from it at first.
        for part in blockers {
            if part.from - line.at >= WAKEUP_WINDOW_NS {
                break;
            }
            line.to(part.from, Phase::IoWorker, Source::Silence);
            line.to(part.to, part.phase, part.source);
        }
        return;
    }
    let waited = known.is_some() || begun - line.at < WAKEUP_WINDOW_NS || by_others;
    line.to(begun, if waited { Phase::IoWorker } else { Phase::Unobserved }, Source::Silence);
    if let Some(wait) = late {
        line.to(wait.to, Phase::Cpu, Source::OwnSleep);
    }
}

/// How long workers were seen to be at other I/Os, together.
fn busy_ns(from: i64, to: i64, io: &TracedIo, actor: &IoContext<'_>) -> i64 {
    let Some(all) = actor.all else { return 0 };
    let off = all.ring_threads.within(from, to).map(|w| (w.token, w.time()));
    let room = all.worker_reclaim.within(from, to).map(|r| (r.token, r.time()));
    let others = off.chain(room).filter(|(token, _)| token.is_some() && *token != io.token);
    others.map(|(_, time)| time.within(TimeSpan::new(from, to)).length()).sum()
}

/// The thread that handed an I/O over posts its end itself, once it runs. Where it was woken up,
/// waited for a CPU and then found it done at once, that wait is what is known.
fn woken_late(from: i64, told: i64, thread: &IoContext<'_>) -> Option<TimeSpan> {
    let off = overlapping(thread.off, from, told).last()?;
    let wake = if off.was_preempted() { off.start_ns } else { off.woken_ns? };
    let at_once = off.end_ns <= told && told - off.end_ns < WAKEUP_WINDOW_NS;
    at_once.then_some(TimeSpan::new(wake.max(from), off.end_ns))
}

/// What kept the workers meanwhile, by time, without overlaps: sleeps over other I/Os of more than twice the usual,
/// room made in memory for them, or a CPU that was not to be had.
fn blockers(from: i64, to: i64, io: &TracedIo, actor: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = actor.all else { return Vec::new() };
    let others = all.ring_threads.within(from, to).filter(|w| w.token != io.token && !w.polls());
    let mut waits: Vec<Segment> = Vec::new();
    for off in others {
        // A sleep as long as such I/Os always take is not to blame: there are too few workers then.
        let usual = |phase| actor.usual.map_or(0, |u| u.get(phase)).saturating_mul(2);
        let long = |p: &Segment| p.length().max(0).unsigned_abs() > usual(p.phase);
        let over_another = off.token.is_some() && off.reason() != Some(SleepReason::OwnIo);
        let found = wait_segments(off, Source::Helper).into_iter();
        waits.extend(found.filter(|p| p.phase == Phase::Cpu || over_another && long(p)));
    }
    let room = all.worker_reclaim.within(from, to).filter(|r| r.token != io.token);
    let room = room.map(|r| Segment::new(r.time(), Phase::PageCache, Source::Helper));
    let room: Vec<Segment> = room.collect();
    // Making room is what is left of its time: sleeps and waits for a CPU in it say more.
    let (mut list, mut at) = (Vec::new(), from);
    for wait in disjoint(waits, from, to) {
        list.extend(disjoint(room.clone(), at, wait.from));
        list.push(wait);
        at = wait.to;
    }
    list.extend(disjoint(room, at, to));
    list
}

/// These parts of a time, in its order; where they overlap, the part that began first.
fn disjoint(mut list: Vec<Segment>, from: i64, to: i64) -> Vec<Segment> {
    list.sort_by_key(|part| part.from);
    let mut at = from;
    list.retain_mut(|part| {
        (part.from, part.to) = (part.from.max(at), part.to.min(to));
        at = at.max(part.to);
        part.from < part.to
    });
    list
}

/// A worker that slept until its parts were done is told, and waits for a CPU, before it can tell the thread that
/// waits for the I/O. A worker that sleeps on for pages waits for those of others as well, a worker that sleeps for
/// a lock waits for the lock's holder.
fn told_of_completion(line: &mut TimeLine, actor: &IoContext<'_>) {
    let asleep = actor.off.iter().find(|r| r.start_ns <= line.at && r.end_ns > line.at);
    if let Some(row) = asleep.filter(|r| !r.was_preempted()) {
        if let Some(wake) = row.woken_ns {
            let (phase, source) = if row.was_in(stacks::waits_for_lock) {
                sleep_phase(row, Phase::Completion, actor)
            } else if row.was_in(stacks::waits_for_pages) {
                (Phase::PageCache, Source::Holder)
            } else {
                (Phase::Completion, Source::Silence)
            };
            line.to(wake, phase, source);
            line.to(row.end_ns, Phase::Cpu, Source::OwnSleep);
        } else {
            line.to(row.end_ns, Phase::Unobserved, Source::Silence);
        }
    }
}

/// After its own parts the worker may sleep on until then, for what it needs of others: a commit that another thread
/// does.
pub fn after_parts(line: &mut TimeLine, until: i64, actor: &IoContext<'_>) {
    told_of_completion(line, actor);
    off_cpu(line, until, Phase::Completion, actor);
}

/// The worker is done with the write of an I/O whose sync is handed over next: what it left off the CPU until
/// `next` was for the write.
pub fn until_sync(line: &mut TimeLine, next: i64, rounds: bool, actor: &IoContext<'_>) {
    if rounds { after_parts(line, next, actor) } else { off_cpu(line, next, Phase::Submit, actor) }
}

/// Up to the end of the worker's last stretch off the CPU that began before `until`.
fn off_cpu(line: &mut TimeLine, until: i64, base: Phase, actor: &IoContext<'_>) {
    if let Some(last) = overlapping(actor.off, line.at, until).last() {
        append_thread_states(line, last.end_ns.min(until), base, false, actor);
    }
}

/// An I/O that the worker did without block I/O: its sleeps say what for.
pub fn without_block_io(line: &mut TimeLine, io: &TracedIo, actor: &IoContext<'_>) {
    let last = [actor.off.last().map(|r| r.end_ns), actor.reclaim.last().map(|r| r.end_ns)];
    let until = io.cqe_ns.or(last.into_iter().flatten().max()).unwrap_or(line.at);
    let seen = overlapping(actor.off, line.at, until).next().is_some()
        || overlapping(actor.reclaim, line.at, until).next().is_some();
    if seen || io.cqe_ns.is_some() {
        append_thread_states(line, until, Phase::Submit, false, actor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::events::event::RingThread;
    use crate::events::stacks::Stack;

    #[test]
    fn a_thread_that_polls_for_a_ring_keeps_no_worker_busy() {
        let blocked = |worker: Option<u64>| {
            let mut events = Events::default();
            let off = OffCpu { worker, start_ns: 100, end_ns: 900, state: 0, ..OffCpu::default() };
            events.add(RingThread { off, token: None });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let io = TracedIo { end_ns: 1000, token: Some(5), ..TracedIo::default() };
            blockers(0, 1000, &io, &context).iter().map(Segment::length).sum::<i64>()
        };
        assert_eq!(blocked(None), 800, "a worker without work waited for a CPU");
        assert_eq!(blocked(Some(3)), 0, "a thread that polls");
    }

    #[test]
    fn what_keeps_a_worker_is_seen_only_where_no_other_thread_ends_it() {
        let source = |stack: &str| {
            let mut events = Events::default();
            let off = OffCpu {
                start_ns: 100,
                woken_ns: Some(900),
                end_ns: 900,
                state: 2,
                stack: Some(Stack::of(stack)),
                ..OffCpu::default()
            };
            events.add(RingThread { off, token: Some(6) });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let io = TracedIo { end_ns: 1000, token: Some(5), ..TracedIo::default() };
            blockers(0, 1000, &io, &context).first().map(|part| (part.phase, part.source))
        };
        let frozen = source("percpu_rwsem_wait;__percpu_down_read;io_write;io_wq_worker");
        assert_eq!(frozen, Some((Phase::FileSystem, Source::Helper)));
        let locked = source("rwsem_down_write_slowpath;ext4_write;io_write;io_wq_worker");
        assert_eq!(locked, Some((Phase::FileSystem, Source::Holder)), "whoever has the lock");
        let commit = source("jbd2_log_wait_commit;ext4_sync_file;io_fsync;io_wq_worker");
        assert_eq!(commit, Some((Phase::FileSystem, Source::Holder)));
        assert_eq!(source("io_schedule;__iomap_dio_rw;io_wq_worker"), None, "its own I/O");
    }
}
