//! What stands behind a wait for a commit of the file system, or for the writeback of all that is dirty in it: the
//! committing thread, a limit that holds back what comes before, or the disk.
//! Waits for a CPU are those of the thread that ended the wait, and of threads that served its writes; what the disk
//! did is concluded from the time, so that a verdict that rests on that is never sure.

use std::sync::Arc;

use taillight_core::TimeSpan;

use crate::events::context::IoContext;
use crate::events::event::{Flush, Neighbour, OffCpu, Owner, Timed};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::stacks::{self, Stack};
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS};
use crate::wait_graph::thread_waits::{disk_server_waits, dispatch_waits, tellers};
use crate::wait_graph::{Cause, Wait};

/// Behind a wait for a commit: the thread that commits for the file system and then wakes up the waiting thread; waits
/// for a CPU of what serves the disk meanwhile; and the device while it flushes its cache.
pub fn commit_thread_waits<'a>(
    segment: &Segment,
    io: &TracedIo,
    context: &IoContext<'a>,
) -> Vec<Wait<'a>> {
    let mut waits = Vec::new();
    let asleep = context.off_cpu(segment.from, segment.to);
    for told in asleep.filter(|r| r.was_in(stacks::waits_for_commit)) {
        // What the thread slept for before was another wait.
        let time = TimeSpan::new(told.start_ns.max(segment.from), told.awake_ns());
        for row in tellers(told, time.from, context) {
            let on = Wait::new(time, Cause::Thread(&row.off), Source::Helper);
            let asleep = row.asleep().within(told.asleep());
            let writes = (!row.was_preempted()).then(|| served_late(asleep, io, context));
            waits.extend(writes.into_iter().flatten().map(Wait::from));
            // That it commits says nothing, nor that it had nothing to do yet.
            let takes = |p| !matches!(p, Phase::FileSystem | Phase::Application | Phase::Server);
            waits.push(Wait { takes, ..on });
        }
        // A thread that wants room asks for nothing that must be on the disk: it waits for the journal.
        if !told.was_in(stacks::waits_for_room_in_journal) {
            let flushes = flushes(told.asleep(), io, context);
            waits.extend(flushes.into_iter().map(Wait::from));
        }
    }
    waits
}

/// When the threads that serve the disk, or give it its requests, had no CPU in a time in which it was written to.
fn served_late(time: TimeSpan, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    if time.from >= time.to {
        return Vec::new();
    }
    let write = |phase| Segment::new(time, phase, Source::Inferred);
    let served = disk_server_waits(&write(Phase::Device), io, context);
    let mut late: Vec<Segment> = served.iter().flat_map(Wait::segments).collect();
    late.extend(dispatch_waits(&write(Phase::Queue), io, context));
    late.retain(|wait| wait.phase == Phase::Cpu);
    late.iter_mut().for_each(|wait| wait.to = wait.to.min(time.to));
    late
}

/// What of a wait of 1 ms and more for a commit of ext4 or for XFS's log was one slow write of the journal's. What
/// [`commit_thread_waits`] found has taken its place in the line before.
pub fn journal_writes(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    if segment.length() < WAKEUP_WINDOW_NS {
        return Vec::new();
    }
    let wait = |told: &OffCpu| {
        let journal = told.stack.as_deref().and_then(Journal::waited_for)?;
        journal_write(told.asleep(), journal, io, context)
    };
    context.off_cpu(segment.from, segment.to).filter_map(wait).collect()
}

/// What of a wait of 1 ms and more for the kernel's threads to write back all that is dirty in a file system was one
/// slow write. Sleeps of io_uring's worker threads are not looked at.
pub fn slow_writeback(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    if segment.length() < WAKEUP_WINDOW_NS {
        return Vec::new();
    }
    let wait = |told: &OffCpu| {
        let for_all = told.was_in(stacks::waits_for_flusher);
        let time = TimeSpan::new(told.start_ns, told.woken_ns?).within(segment.time());
        for_all.then(|| journal_write(time, &FLUSHER, io, context))?
    };
    overlapping(context.off, segment.from, segment.to).filter_map(wait).collect()
}

/// Of whose journal a write is, and how much its commit writes at most if it is a small one: what others have on the
/// disk meanwhile included. Writeback of a file system is one as well, without a journal.
struct Journal {
    sends: fn(&Neighbour) -> bool,
    few_bytes: u64,
    /// Its commits are traced.
    has_commits: bool,
}

/// Writes of a small commit at most.
pub const FEW_ENTRIES: usize = 16;
/// Bytes of a small commit of ext4 at most.
pub const FEW_BYTES: u64 = 64 << 10;
const EXT4: Journal = Journal { sends: is_of_jbd2, few_bytes: FEW_BYTES, has_commits: true };
/// One buffer of its log has 32 KiB.
const XFS: Journal = Journal { sends: is_of_xfs_log, few_bytes: 16 << 10, has_commits: false };
const FLUSHER: Journal = Journal { sends: is_of_flusher, few_bytes: FEW_BYTES, has_commits: false };

impl Journal {
    /// Of a thread that sleeps there.
    fn waited_for(stack: &Stack) -> Option<&'static Journal> {
        match stacks::waits_for_journal(stack) {
            true => Some(&EXT4),
            false => stacks::waits_for_log_write(stack).then_some(&XFS),
        }
    }
}

/// Any thread sends the log; xfsaild writes what the log is for.
fn is_of_xfs_log(io: &Neighbour) -> bool {
    let own = !["jbd2/", "xfsaild/"].iter().any(|name| io.is_by(name));
    io.writes_metadata() && own && io.size > 0
}

fn is_of_jbd2(io: &Neighbour) -> bool {
    io.writes_metadata() && io.is_by("jbd2/")
}

/// Data that a thread of a work queue writes.
fn is_of_flusher(io: &Neighbour) -> bool {
    io.writes_data() && io.is_by("kworker/")
}

/// The one write of the journal that took most of such a wait, where the commit had little to write and others little
/// in flight: not how much there is takes long then, but the disk. How long it was queued is not known.
fn journal_write(
    time: TimeSpan,
    journal: &Journal,
    io: &TracedIo,
    context: &IoContext<'_>,
) -> Option<Segment> {
    let all = context.all?;
    let own = |dev: &Option<Arc<str>>| all.disks.may_be_one(io.dev.as_deref(), dev.as_deref());
    let rows = |from, to| all.neighbours.within(from, to).filter(move |r| own(&r.dev));
    let entry = |r: &&Neighbour| (journal.sends)(r);
    let within = |r: &&Neighbour| r.time().within(time).length();
    let longest = rows(time.from, time.to).filter(entry).max_by_key(within)?;
    if within(&longest) * 2 < time.length() || longest.owner != Owner::Other {
        return None;
    }
    // What of the commit was on the disk before the wait counts as well.
    let under_way = all.commits.within(longest.start_ns, longest.end_ns);
    let under_way = under_way.filter(|commit| own(&commit.dev));
    let begun = under_way.map(|r| r.start_ns).min();
    if begun.is_none() && journal.has_commits {
        return None;
    }
    let begun = begun.unwrap_or(time.from).min(longest.start_ns);
    let (mut writes, mut bytes, mut others) = (0, 0, 0);
    // Where what others ask for is soon done, and is little in all, the disk is not busy with it.
    let soon = |r: &Neighbour| !entry(&r) && r.time().length() * 10 < time.length();
    for row in rows(begun, longest.end_ns) {
        match soon(row) {
            true => others += row.time().length(),
            false => (writes, bytes) = (writes + 1, bytes + row.size),
        }
        if writes > FEW_ENTRIES || bytes > journal.few_bytes || others * 4 > time.length() {
            return None;
        }
    }
    Some(Segment::new(longest.time().within(time), Phase::Device, Source::Inferred))
}

/// When the disk of an I/O flushed its cache; where the I/O never came to a disk, that of the target, if it has a
/// single one.
fn flushes(time: TimeSpan, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = context.all else {
        return Vec::new();
    };
    let disks = io.dev.as_deref().and_then(|dev| all.disks.flushed_for(dev));
    let own = |f: &&Flush| match (&disks, f.dev.as_deref()) {
        (Some(disks), Some(dev)) => disks.contains(&dev),
        _ => all.disks.single(),
    };
    let own = all.flushes.within(time.from, time.to).filter(own);
    let within = own.filter(|f| f.start_ns >= time.from && f.end_ns <= time.to);
    let device = |f: &Flush| Segment::new(f.time(), Phase::Device, Source::Inferred);
    within.map(device).collect()
}
