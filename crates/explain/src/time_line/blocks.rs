//! The part of a time line that an I/O spends in the block layer and below: one round of block I/Os that
//! were in flight together, from the first queued to the last done. An fdatasync or a lookup in a store
//! makes several rounds, one after another; where there are very many, the trace has not kept all. What
//! the thread did before, between and after rounds is in `phases`.

use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::event::{Flush, HeldPart, OffCpu, Timed, Whose};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::rounds::BlockRound;
use crate::events::stacks::{self, SleepReason, Stack};
use crate::phase::Phase;
use crate::time_line::segments::{Source, TimeLine, WAKEUP_WINDOW_NS, append_thread_states};

/// What is known of a round's place among those of its I/O.
#[derive(Debug, Clone, Copy)]
pub struct RoundPlace {
    /// The thread that queues it did the one before as well.
    pub goes_on: bool,
    /// All rounds of the I/O are known.
    pub all_known: bool,
    /// When what came after it began, if anything is known to.
    pub next_ns: Option<i64>,
}

/// One round, at its `place` among all; `actor` is the thread that queues it.
pub fn round(
    line: &mut TimeLine,
    io: &TracedIo,
    round: &BlockRound,
    place: RoundPlace,
    actor: &IoContext<'_>,
) {
    let held = round.held.is_some();
    if place.goes_on {
        told_of_completion(line, round.bio, actor);
    }
    if place.all_known {
        before(line, io, round, place.goes_on, actor);
    } else {
        append_thread_states(line, round.bio, Phase::Submit, true, actor);
    }
    if let Some(phase) = for_others(io, round, actor) {
        return line.to(round.done.unwrap_or(line.end), phase, Source::Inferred);
    }
    let queued = round.alloc.or(round.issue);
    let last = round.last.unwrap_or(round.bio);
    let last = queued.map_or(last, |q| last.min(q.max(round.bio)));
    if held {
        let (phase, source) = held_back(io, actor);
        line.to(last, phase, source);
    } else {
        append_thread_states(line, last, Phase::Submit, false, actor);
    }
    if let Some(alloc) = round.alloc {
        queued_until(line, io, alloc, Phase::Tags, actor);
    }
    if let Some(issue) = round.issue {
        // The flag is the operation's. Its last write is the one that follows a flush: of an fdatasync's data and
        // its flush the data goes first, and never waits for one.
        if round.ends && io.has(flags::FLUSH) {
            flushed_before(line, io, round, issue, actor);
        }
        given_back(line, io, round.insert, issue, Phase::Device, actor);
        queued_until(line, io, issue, Phase::Queue, actor);
    }
    let Some(done) = round.done else {
        if let Some(came) = page_came(line.at, io, round, actor) {
            return line.to(came, Phase::Device, Source::Stamps);
        }
        return unseen(line, io, place.next_ns.unwrap_or(io.end_ns));
    };
    let flushes = round.issue.is_none() && io.has(flags::FLUSH);
    if flushes && flush(line, io, round, done, actor) {
        return;
    }
    if round.issue.is_none() && !flushes {
        // Issue was not seen: queue and device cannot be told apart.
        line.to(done, Phase::Unobserved, Source::Silence);
    } else if round.ends {
        device(line, io, done, actor);
    } else {
        line.to(done, Phase::Device, device_source(io, actor));
    }
}

/// What parts were for that a thread itself sent to the disk, but are not its own data, as sleeps over half of the
/// round say: what is dirty in the page cache is written back before a direct read or write of the same place goes on;
/// entries of a full journal are brought to where they belong. All of the round is that then, whatever its stamps.
fn for_others(io: &TracedIo, round: &BlockRound, actor: &IoContext<'_>) -> Option<Phase> {
    let time = TimeSpan::new(round.bio, round.done.unwrap_or(io.end_ns));
    let reads = io.op.request() == OpKind::Read;
    let most = |waits: &dyn Fn(&Stack) -> bool| {
        let asleep = overlapping(actor.off, time.from, time.to);
        let asleep = asleep.filter(|r| r.was_in(waits));
        let slept = asleep.map(|r| r.time().shared_ns(time));
        slept.sum::<i64>() * 2 >= time.length().max(1)
    };
    if most(&|s| stacks::waits_for_writeback(s, reads)) {
        return Some(Phase::PageCache);
    }
    most(&stacks::waits_for_room_in_journal).then_some(Phase::FileSystem)
}

/// A flush is done when the device's own flush is that the block layer sent for it, and maybe for others. It waits
/// while the device is busy with another one, and for the kernel thread that sends the next. False where the flushes of
/// its disk were never seen, as in runs made before they were looked for: all of it is the device's. Unobserved are all
/// of it where its disk is not known, and what no flush of the device covers, where that is 1 ms and more or none was
/// seen.
fn flush(
    line: &mut TimeLine,
    io: &TracedIo,
    round: &BlockRound,
    done: i64,
    actor: &IoContext<'_>,
) -> bool {
    let Some(flushes) = flushes(io, round.bio, done, actor) else {
        return false;
    };
    let Some(flushes) = flushes else {
        line.to(done, Phase::Unobserved, Source::Silence);
        return true;
    };
    let sent = flushes.iter().filter(|r| r.start_ns >= round.bio).max_by_key(|r| r.end_ns);
    if let Some(sent) = sent {
        flushing(line, &flushes, sent, device_source(io, actor));
    }
    // The rest is its end being told, one after another: short, or nobody saw why.
    let told = sent.is_some() && done - line.at < WAKEUP_WINDOW_NS;
    match told {
        true => line.to(done, Phase::Device, device_source(io, actor)),
        false => line.to(done, Phase::Unobserved, Source::Silence),
    }
    true
}

/// The flushes of an I/O's disk that ended in a time. `None` where none was ever seen of that disk, or the I/O has no
/// disk; `Some(None)` where it is not known which disk's they are.
fn flushes<'a>(
    io: &TracedIo,
    from: i64,
    to: i64,
    actor: &IoContext<'a>,
) -> Option<Option<Vec<&'a Flush>>> {
    let (Some(all), Some(dev)) = (actor.all, io.dev.as_deref()) else {
        return None;
    };
    let Some(disks) = all.disks.flushed_for(dev) else {
        return Some(None);
    };
    if disks.is_empty() {
        return None;
    }
    let own = |f: &&Flush| f.dev.as_deref().is_some_and(|d| disks.contains(&d));
    let own = all.flushes.within(from, to).filter(own);
    Some(Some(own.filter(|f| f.end_ns <= to).collect()))
}

/// The disk does one flush at a time: until the flush that was `sent` is done, it is busy with those of others, too.
fn flushing(line: &mut TimeLine, flushes: &[&Flush], sent: &Flush, source: Source) {
    for row in flushes.iter().filter(|r| r.dev == sent.dev && r.end_ns <= sent.end_ns) {
        line.to(row.start_ns, Phase::Queue, source);
        line.to(row.end_ns, Phase::Device, source);
    }
}

/// A write that is to come after all that the disk's cache holds is issued as soon as the cache has been flushed
/// for it (REQ_PREFLUSH, block/blk-flush.c).
fn flushed_before(
    line: &mut TimeLine,
    io: &TracedIo,
    round: &BlockRound,
    issue: i64,
    actor: &IoContext<'_>,
) {
    let Some(Some(flushes)) = flushes(io, round.bio, issue, actor) else { return };
    let sent = flushes.iter().filter(|r| r.start_ns >= round.bio).max_by_key(|r| r.end_ns);
    if let Some(sent) = sent.filter(|r| issue - r.end_ns < WAKEUP_WINDOW_NS) {
        // Of several parts it may have been for another one.
        let single = io.parts.is_some_and(|parts| parts.queued == 1);
        let source = if single { device_source(io, actor) } else { Source::Inferred };
        flushing(line, &flushes, sent, source);
    }
}

/// After an earlier round: the thread is told of it.
fn told_of_completion(line: &mut TimeLine, to: i64, actor: &IoContext<'_>) {
    let first = overlapping(actor.off, line.at, to).next();
    if let Some(row) = first.filter(|r| r.start_ns <= line.at && !r.was_preempted()) {
        append_thread_states(line, row.end_ns.min(to), Phase::Completion, false, actor);
    }
}

/// A request that the driver gave back and was given `again`. When it was given first has no stamp any more: until it
/// came back it counts as the driver's (`phase`), which has lost a command, had no way to the device, or was told by
/// the device to come again. One that was known to be in the scheduler before may have been there all the time: a
/// driver whose queue is full sends a request back at once.
fn given_back(
    line: &mut TimeLine,
    io: &TracedIo,
    inserted: Option<i64>,
    again: i64,
    phase: Phase,
    actor: &IoContext<'_>,
) {
    let back = io.requeue_ns.filter(|at| io.has(flags::REQUEUED) && *at <= again);
    let Some(at) = back.filter(|at| *at > line.at) else { return };
    match inserted.filter(|inserted| *inserted <= at) {
        Some(inserted) => {
            queued_until(line, io, inserted, Phase::Queue, actor);
            line.to(at, Phase::Unobserved, Source::Silence);
        }
        None => line.to(at, phase, Source::Inferred),
    }
}

/// In the block queue. Requests wait in the plug of the thread that submits them, its own or io_uring's polling
/// thread, while that is preempted: that is no matter of the queue. (Going to sleep sends them on.)
fn queued_until(line: &mut TimeLine, io: &TracedIo, to: i64, phase: Phase, actor: &IoContext<'_>) {
    let to = to.clamp(line.at, line.end);
    // Held back by a limit before a request is had at all, or without memory for what it is made of. Who sleeps for
    // pages has queued what brings them.
    let other = |r: &OffCpu| match r.reason().filter(|_| !r.was_preempted()) {
        Some(SleepReason::For(Phase::Throttle, _)) => Some(Phase::Throttle),
        Some(SleepReason::For(Phase::PageCache, _))
            if phase == Phase::Tags && !r.was_in(stacks::waits_for_pages) =>
        {
            Some(Phase::PageCache)
        }
        _ => None,
    };
    for held in overlapping(actor.off, line.at, to) {
        if let Some(own) = other(held) {
            line.to(held.start_ns.min(to), phase, Source::Stamps);
            line.to(held.awake_ns().min(to), own, Source::OwnSleep);
        }
    }
    let time = TimeSpan::new(line.at, to);
    let robbed = overlapping(actor.off, time.from, to)
        .chain(submitter_for(io, time, actor))
        .filter(|r| r.was_preempted() && r.end_ns <= to && to - r.end_ns < WAKEUP_WINDOW_NS)
        .max_by_key(|r| r.end_ns);
    if let Some(robbed) = robbed {
        line.to(robbed.start_ns, phase, Source::Stamps);
        line.to(robbed.end_ns, Phase::Cpu, Source::OwnSleep);
    }
    let another = phase == Phase::Tags && had_queued(TimeSpan::new(line.at, to), actor);
    line.to(to, phase, if another { Source::Inferred } else { Source::Stamps });
}

/// Whether a thread was asleep for its I/O itself, or for the pages of it, for most of the time in which that waited
/// for a request. Who asks for a request sleeps in a function that says so: here the I/O had been queued, and the
/// request was made by another thread, as on another path after the first one had failed, or when a zone of the disk
/// could be written again.
fn had_queued(time: TimeSpan, actor: &IoContext<'_>) -> bool {
    let own =
        |r: &OffCpu| r.reason() == Some(SleepReason::OwnIo) || r.was_in(stacks::waits_for_pages);
    let for_itself = |r: &&OffCpu| !r.was_preempted() && own(r);
    let asleep = overlapping(actor.off, time.from, time.to).filter(for_itself);
    // Of a row that only waited for a CPU by then, the sleep was over before.
    let slept: i64 = asleep.map(|r| r.asleep().shared_ns(time)).sum();
    time.from < time.to && slept * 2 >= time.length()
}

/// The times off the CPU of io_uring's polling thread while it submitted requests, where that may have taken long.
fn submitter_for<'a>(
    io: &TracedIo,
    time: TimeSpan,
    actor: &IoContext<'a>,
) -> impl Iterator<Item = &'a OffCpu> {
    let all = actor.all.filter(|_| time.length() >= WAKEUP_WINDOW_NS / 5).into_iter();
    let polls = all.flat_map(move |all| all.polling_off(io.worker, io.time()));
    let then = move |r: &OffCpu| r.end_ns > time.from && r.start_ns < time.to;
    polls.filter(move |r| r.was_in(stacks::in_submission) && then(r))
}

/// From what came before to the first part in the block layer; `on`: what came before was block I/O.
fn before(line: &mut TimeLine, io: &TracedIo, round: &BlockRound, on: bool, b: &IoContext<'_>) {
    if round.held.is_none_or(|h| h > round.bio) {
        return append_thread_states(line, round.bio, Phase::Submit, false, b);
    }
    let (phase, source) = held_back(io, b);
    let off = || overlapping(b.off, line.at, round.bio);
    let asleep = off().filter(|r| !r.was_preempted()).last();
    let asleep = asleep.filter(|r| r.end_ns >= round.bio && line.begun());
    if let Some(row) = asleep {
        // It was taken away, at the earliest, when the thread went to sleep over it.
        append_thread_states(line, row.start_ns, Phase::Submit, false, b);
        line.to(round.bio, phase, source);
    } else if on {
        append_thread_states(line, round.bio, Phase::Submit, false, b);
    } else {
        // Another thread queued it. When it was taken away is not stamped: after all that a worker was seen to do
        // before, or its own thread before it slept over it. What a thread with several in flight did is not known
        // to be for this one: the way there is a matter of microseconds.
        let alone = !line.begun() && !io.has(flags::QUEUED);
        let over_it = |r: &&OffCpu| {
            // A block that came before any part of its own was seen had been sent for by another one.
            let own = r.reason() == Some(SleepReason::OwnIo) && !r.was_in(stacks::reads_block);
            alone && (own || r.end_ns >= round.bio) && !r.was_preempted()
        };
        let slept = off().find(over_it).map(|r| r.start_ns);
        let room = overlapping(b.reclaim, line.at, round.bio).map(|r| r.end_ns);
        let before = |end: &i64| line.begun() || alone && *end <= round.bio;
        let seen = off().map(|r| r.end_ns).chain(room).filter(before).max();
        let taken = slept.or(seen).unwrap_or(io.enter_ns.unwrap_or(io.start_ns));
        append_thread_states(line, taken.min(round.bio), Phase::Submit, false, b);
        line.to(round.bio, phase, source);
    }
}

/// When the page came that the thread slept for, of parts that were not all seen done: the others may be what
/// was read ahead with it, which nobody waits for.
fn page_came(from: i64, io: &TracedIo, round: &BlockRound, actor: &IoContext<'_>) -> Option<i64> {
    let reads = matches!(io.op.request(), OpKind::Read | OpKind::Get | OpKind::Scan);
    let done = io.done_ns.filter(|at| round.issue.is_some() && reads && *at > from)?;
    let at_once = |wake: i64| (0..WAKEUP_WINDOW_NS).contains(&(wake - done));
    let woken_by_it =
        |r: &OffCpu| r.was_in(stacks::waits_for_pages) && r.woken_ns.is_some_and(at_once);
    overlapping(actor.off, from, io.end_ns).any(woken_by_it).then_some(done)
}

/// The completion was not seen.
fn unseen(line: &mut TimeLine, io: &TracedIo, to: i64) {
    let from = line.at;
    if let (Some(wake), Some(run)) = (io.wake_ns, io.run_ns)
        && wake > from
        && run >= wake
        && run <= to
    {
        line.to(wake, Phase::Unobserved, Source::Silence);
        line.to(run, Phase::Cpu, Source::OwnSleep);
    }
    line.to(to, Phase::Unobserved, Source::Silence);
}

/// In the device, or in the one below it.
fn device(line: &mut TimeLine, io: &TracedIo, done: i64, actor: &IoContext<'_>) {
    let source = device_source(io, actor);
    if let (Some(issue), Some(low)) = (io.lower.issue_ns, io.lower.done_ns)
        && issue >= line.at
        && low >= issue
        && low <= done
    {
        let queued = io.lower.bio_ns.unwrap_or(issue).min(issue);
        let held = io.has(flags::LOWER_HELD);
        match held {
            true => line.to(queued, Phase::Throttle, Source::Inferred),
            false => line.to(queued, Phase::Device, source),
        }
        given_back(line, io, None, issue, Phase::LowerDevice, actor);
        line.to(issue, Phase::LowerQueue, Source::Stamps);
        let lowest = if stacked(actor) { Source::Inferred } else { Source::Stamps };
        line.to(low, Phase::LowerDevice, lowest);
    }
    line.to(done, Phase::Device, source);
}

/// Inferred where the device is made of others: no stamp says which of them it was.
fn device_source(io: &TracedIo, actor: &IoContext<'_>) -> Source {
    let below = io.has(flags::LOWER) || stacked(actor);
    if below { Source::Inferred } else { Source::Stamps }
}

fn stacked(actor: &IoContext<'_>) -> bool {
    actor.stacked.unwrap_or(false)
}

/// What held an I/O back that another thread queued, and how that is known: a limit, by stamps where it was seen to let
/// go of the I/O on its own disk, and no io_uring worker had brought the I/O there: since when it was held back is not
/// stamped then. Unobserved where it was seen that none did.
fn held_back(io: &TracedIo, actor: &IoContext<'_>) -> (Phase, Source) {
    let handed = io.has(flags::PUNTED) || io.sync_punt_ns.is_some();
    match let_go(io, actor) {
        Some(true) if !handed => (Phase::Throttle, Source::Stamps),
        Some(true) | None => (Phase::Throttle, Source::Inferred),
        Some(false) => (Phase::Unobserved, Source::Silence),
    }
}

/// Whether a limit let go of an I/O.
pub fn let_go_by_limit(io: &TracedIo, actor: &IoContext<'_>) -> bool {
    let_go(io, actor) == Some(true)
}

/// The same; none where nobody was seen to queue a part of it, or not in which functions.
fn let_go(io: &TracedIo, actor: &IoContext<'_>) -> Option<bool> {
    let all = actor.all?;
    let held = |whose| {
        let parts = all.held.of(whose, io.start_ns, io.end_ns);
        parts.filter(|part| part.dev == io.dev)
    };
    if held(io.whose()).chain(held(Whose::Nobody)).any(HeldPart::by_limit) {
        return Some(true);
    }
    let mut own = held(io.whose()).peekable();
    own.peek()?;
    own.all(|part| part.stack.is_some()).then_some(false)
}
