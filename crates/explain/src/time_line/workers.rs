//! io_uring worker threads: what an I/O that was handed to one waited for, from the hand-over until the
//! worker began. A worker that sleeps or waits for a CPU leaves an event that names the I/O it was doing.
//! The block layer's part is in `blocks`.

use taillight_rundir::layers::{LayerKind, LayerRow, flags};

use crate::events::context::IoContext;
use crate::events::rounds::BlockRound;
use crate::events::stacks::{self, SleepReason};
use crate::time_line::phase::Phase;
use crate::time_line::segments::{
    Source, TimeLine, WAKEUP_WINDOW_NS, append_thread_states, overlapping, sleep_phase,
};

/// What the worker that did this very I/O left of a kind, by time: `LayerKind::Worker` its stretches off
/// the CPU, `LayerKind::Reclaim` its direct reclaims.
pub fn own_events(io: &LayerRow, kind: LayerKind, context: &IoContext<'_>) -> Vec<LayerRow> {
    let Some(all) = context.all.filter(|_| io.token.is_some()) else {
        return Vec::new();
    };
    let rows = all.within(kind, io.start_ns, io.end_ns);
    rows.filter(|r| r.token == io.token).cloned().collect()
}

/// From the hand-over until the worker is known to be at it. `thread` is who handed it over, and `next` when it
/// handed over what comes after that.
pub fn wait_for_worker(
    line: &mut TimeLine,
    io: &LayerRow,
    next: Option<i64>,
    actor: &IoContext<'_>,
    thread: &IoContext<'_>,
) {
    let stretches = actor.off.iter().chain(actor.reclaim);
    let first = stretches.map(|r| r.start_ns).filter(|from| *from >= line.at).min();
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
    let begun = late.map_or(begun, |(wake, _)| wake);
    let blockers = blockers(line.at, begun, io, actor);
    let sum: i64 = blockers.iter().map(|(from, to, _)| to - from).sum();
    if sum * 2 >= begun - line.at {
        for (from, to, phase) in &blockers {
            line.to(*from, Phase::IoWorker, Source::Silence);
            line.to(*to, *phase, Source::Helper);
        }
    }
    // A worker that did it unseen is not one that was waited for: others must have been seen at work.
    let busy = sum + busy_ns(line.at, begun, io, actor);
    let by_others = busy * 2 >= begun - line.at;
    let held = actor.earlier.iter().filter_map(|r| r.held).chain(io.held_ns);
    if !by_others && io.has(flags::HELD) && held.into_iter().any(|at| known == Some(at)) {
        // The worker gave it to a limit before, at a time that has no stamp: after what kept workers from it at first.
        for (from, to, phase) in blockers {
            if from - line.at >= WAKEUP_WINDOW_NS {
                break;
            }
            line.to(from, Phase::IoWorker, Source::Silence);
            line.to(to, phase, Source::Helper);
        }
        return;
    }
    let waited = known.is_some() || begun - line.at < WAKEUP_WINDOW_NS || by_others;
    line.to(begun, if waited { Phase::IoWorker } else { Phase::Unobserved }, Source::Silence);
    if let Some((_, ran)) = late {
        line.to(ran, Phase::Cpu, Source::OwnSleep);
    }
}

/// How long workers were seen to be at other I/Os, together.
fn busy_ns(from: i64, to: i64, io: &LayerRow, actor: &IoContext<'_>) -> i64 {
    let kinds = [LayerKind::Worker, LayerKind::Reclaim].into_iter();
    let rows =
        kinds.flat_map(|kind| actor.all.into_iter().flat_map(move |a| a.within(kind, from, to)));
    let others = rows.filter(|r| r.token.is_some() && r.token != io.token);
    others.map(|r| r.end_ns.min(to) - r.start_ns.max(from)).sum()
}

/// The thread that handed an I/O over posts its end itself, once it runs. Where it was woken up,
/// waited for a CPU and then found it done at once, that wait is what is known.
fn woken_late(from: i64, told: i64, thread: &IoContext<'_>) -> Option<(i64, i64)> {
    let row = overlapping(thread.off, from, told).last()?;
    let wake = match row.state {
        Some(0) => row.start_ns,
        _ => row.middle_ns?,
    };
    let at_once = row.end_ns <= told && told - row.end_ns < WAKEUP_WINDOW_NS;
    at_once.then_some((wake.max(from), row.end_ns))
}

/// What kept the workers meanwhile, by time, without overlaps: sleeps over other I/Os, room made in
/// memory for them, or a CPU that was not to be had.
fn blockers(from: i64, to: i64, io: &LayerRow, actor: &IoContext<'_>) -> Vec<(i64, i64, Phase)> {
    let others = |kind| {
        let rows = actor.all.map(|all| all.within(kind, from, to));
        // Whose rows have a worker and no token polls for that worker's ring, and takes no I/O from here.
        let polls = |r: &&LayerRow| r.token.is_none() && r.worker.is_some();
        rows.into_iter().flatten().filter(move |r| r.token != io.token && !polls(r))
    };
    let mut waits: Vec<(i64, i64, Phase)> = Vec::new();
    for row in others(LayerKind::Worker) {
        if row.state == Some(0) {
            waits.push((row.start_ns, row.end_ns, Phase::Cpu));
            continue;
        }
        let wake = row.middle_ns.unwrap_or(row.end_ns);
        if row.token.is_some()
            && let Some(SleepReason::For(phase, _) | SleepReason::Lock(phase, _)) =
                stacks::reason_of(row)
        {
            // As long as such I/Os always take: then it is not this one that is to blame, but that
            // there are so few workers.
            let usual = actor.usual.map_or(0, |u| u.get(phase));
            if (wake - row.start_ns).max(0) as u64 > usual.saturating_mul(2) {
                waits.push((row.start_ns, wake, phase));
            }
        }
        waits.push((wake, row.end_ns, Phase::Cpu));
    }
    let room = others(LayerKind::Reclaim).map(|r| (r.start_ns, r.end_ns, Phase::PageCache));
    let room: Vec<(i64, i64, Phase)> = room.collect();
    // Making room is what is left of its time: sleeps and waits for a CPU in it say more.
    let (mut list, mut at) = (Vec::new(), from);
    for wait in disjoint(waits, from, to) {
        list.extend(disjoint(room.clone(), at, wait.0));
        list.push(wait);
        at = wait.1;
    }
    list.extend(disjoint(room, at, to));
    list
}

/// These parts of a time, in its order; where they overlap, the part that began first.
fn disjoint(mut list: Vec<(i64, i64, Phase)>, from: i64, to: i64) -> Vec<(i64, i64, Phase)> {
    list.sort_by_key(|(start, ..)| *start);
    let mut at = from;
    list.retain_mut(|(start, end, _)| {
        (*start, *end) = ((*start).max(at), (*end).min(to));
        at = at.max(*end);
        start < end
    });
    list
}

/// A worker that slept until its parts were done is told, and waits for a CPU, before it can tell the thread that
/// waits for the I/O. A worker that sleeps on for pages waits for those of others as well, a worker that sleeps for
/// a lock waits for the lock's holder.
fn told_of_completion(line: &mut TimeLine, actor: &IoContext<'_>) {
    let asleep = actor.off.iter().find(|r| r.start_ns <= line.at && r.end_ns > line.at);
    if let Some(row) = asleep.filter(|r| r.state != Some(0)) {
        if let Some(wake) = row.middle_ns {
            let stack = row.stack.as_deref().unwrap_or_default();
            let (phase, source) = match stack {
                _ if stacks::waits_for_lock(stack) => sleep_phase(row, Phase::Completion, actor),
                _ if stacks::waits_for_pages(stack) => (Phase::PageCache, Source::Holder),
                _ => (Phase::Completion, Source::Silence),
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
pub fn without_block_io(line: &mut TimeLine, io: &LayerRow, actor: &IoContext<'_>) {
    let kinds = [actor.off, actor.reclaim];
    let last = kinds.iter().filter_map(|rows| rows.last()).map(|r| r.end_ns);
    let until = io.cqe_ns.or(last.max()).unwrap_or(line.at);
    let seen = kinds.iter().any(|rows| overlapping(rows, line.at, until).next().is_some());
    if seen || io.cqe_ns.is_some() {
        append_thread_states(line, until, Phase::Submit, false, actor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;

    #[test]
    fn who_polls_for_a_ring_keeps_no_worker_busy() {
        let blocked = |worker: Option<u64>| {
            let mut events = Events::default();
            events.add(LayerRow {
                kind: LayerKind::Worker,
                worker,
                start_ns: 100,
                end_ns: 900,
                state: Some(0),
                ..LayerRow::default()
            });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let io = LayerRow { end_ns: 1000, token: Some(5), ..LayerRow::default() };
            blockers(0, 1000, &io, &context).iter().map(|(from, to, _)| to - from).sum::<i64>()
        };
        assert_eq!(blocked(None), 800, "a worker without work waited for a CPU");
        assert_eq!(blocked(Some(3)), 0, "a thread that polls");
    }
}
