//! Block I/O that an I/O waited for and that came late: pages that a limit held back, the kernel was reading ahead or
//! another program was reading; blocks of the file system, and requests to the disk below, that a limit held back.
//!
//! Block I/O of the page cache belongs to no single I/O; here it is set beside a wait that ended when the
//! block I/O did. That the I/O waited for it is concluded from the times, so that a verdict that rests on it is
//! never sure.

use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::event::{Neighbour, OffCpu, Owner};
use crate::events::io::TracedIo;
use crate::events::stacks::{self, Stack};
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS};

/// A thread that waits for blocks of a file system is woken up this soon after they are done, ns.
const SHORT_WAKEUP_NS: i64 = WAKEUP_WINDOW_NS / 5;
/// Threads in whose time the kernel tells of completions.
const KERNEL: [&str; 3] = ["ksoftirqd/", "kworker/", "swapper/"];

fn inferred(time: TimeSpan, phase: Phase) -> Segment {
    Segment::new(time, phase, Source::Inferred)
}

/// What a wait for pages was that ended when block I/O of such pages did: held back by a limit, else read ahead from the
/// device, else read by another program.
pub fn pages_held_back(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = context.all.filter(|_| waits_for_pages(segment, io, context)) else {
        return Vec::new();
    };
    let another = |r: &Neighbour| {
        let begun = r.start_ns - io.start_ns < WAKEUP_WINDOW_NS;
        let reads = r.owner == Owner::Other && r.reads();
        segment.phase == Phase::Unobserved && begun && reads
    };
    // What ended long before is not even looked at.
    let near = segment.from.max(segment.to - WAKEUP_WINDOW_NS);
    let rows = all.neighbours.within(near, segment.to).filter(|r| {
        // Pages may be had just before the end of all that were read with them is stamped.
        let earliest = if another(r) { -WAKEUP_WINDOW_NS / 5 } else { 0 };
        (earliest..WAKEUP_WINDOW_NS).contains(&(segment.to - r.end_ns))
    });
    let wait = |row: &Neighbour| {
        let since = |from: i64| TimeSpan::new(row.start_ns.max(from), row.end_ns);
        match row.owner {
            Owner::HeldPages => {
                Some(inferred(TimeSpan::new(segment.from, row.start_ns), Phase::Throttle))
            }
            _ if row.is_read_ahead() => Some(inferred(since(segment.from), Phase::Device)),
            _ if another(row) => Some(inferred(since(io.start_ns), Phase::PageCache)),
            _ => None,
        }
    };
    rows.filter_map(wait).collect()
}

/// Waits for blocks of a file system's own, or for a commit, that the kernel ended as soon as something was done that a
/// limit had held back; a read counts only for a wait for a block. A commit of ext4 waits so for the data that must be
/// on the disk before it. A thread that waits for a lock, or was woken up by a program, is left out: it waits for that.
/// An interrupt that wakes up has no name.
pub fn blocks_held_back(segment: &Segment, _: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = context.all else {
        return Vec::new();
    };
    let blocks = |r: &&OffCpu| {
        let by_kernel = |by: &str| KERNEL.iter().any(|thread| by.starts_with(thread));
        (r.was_in(waits_for_block) || r.was_in(stacks::waits_for_commit))
            && !r.was_in(stacks::waits_for_lock)
            && r.waker.name().is_none_or(by_kernel)
    };
    let mut waits = Vec::new();
    for told in context.off_cpu(segment.from, segment.to).filter(blocks) {
        let Some(wake) = told.woken_ns else { continue };
        let from = told.start_ns.max(segment.from);
        let block = told.was_in(waits_for_block);
        let written = told.was_in(stacks::waits_until_written);
        let held = all.neighbours.within(from.max(wake - SHORT_WAKEUP_NS), wake).filter(|r| {
            let own = r.writes_metadata() || (block && r.reads_metadata());
            let waited_for = own || (written && r.may_write());
            (waited_for && r.owner == Owner::Held || r.owner == Owner::HeldPages)
                && just_before(r, wake)
        });
        waits.extend(held.map(|r| inferred(TimeSpan::new(from, r.start_ns), Phase::Throttle)));
    }
    waits
}

fn waits_for_block(stack: &Stack) -> bool {
    stacks::waits_for_buffers(stack) || stacks::reads_block(stack)
}

/// Whether an I/O ended right before the thread that waited for it was woken up.
fn just_before(row: &Neighbour, wake: i64) -> bool {
    (0..SHORT_WAKEUP_NS).contains(&(wake - row.end_ns))
}

/// A request to the disk below reaches it when a limit lets go of the request. No stamp says when the request was made:
/// soon after the I/O's own disk had its request, or after the thread that serves that disk had a CPU again.
pub fn lower_held_back(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let all = context.all.filter(|_| io.has(flags::LOWER_HELD)).into_iter();
    let held = all.flat_map(|all| all.held.of(io.whose(), segment.from, segment.to));
    let lower = held.filter(|r| r.dev != io.dev);
    let let_go = lower.map(|r| r.end_ns).filter(|at| *at <= segment.to).max();
    let until = |at| inferred(TimeSpan::new(segment.from, at), Phase::Throttle);
    let_go.map(until).into_iter().collect()
}

/// Whether a thread slept there until pages came or went, or a read without block I/O did nothing that was seen.
fn waits_for_pages(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> bool {
    if segment.phase == Phase::Unobserved {
        return !io.has_block_io() && io.op.request() == OpKind::Read;
    }
    let mut asleep = context.off_cpu(segment.from, segment.to);
    segment.phase == Phase::PageCache && asleep.any(|r| r.was_in(stacks::waits_for_pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::events::event::{HeldPart, READ_AHEAD, Waker};
    use crate::events::thread::Thread;
    use crate::time_line::segments::spans;

    fn found(stack: &str, name: &str, owner: Owner, end_ns: i64) -> Vec<(i64, i64, Phase)> {
        let mut events = Events::default();
        events.add(Neighbour {
            start_ns: 9_000_000,
            end_ns,
            thread: Some(Thread::named(name)),
            owner,
            ..Neighbour::default()
        });
        events.sort();
        let asleep = [OffCpu {
            start_ns: 10,
            end_ns: 9_900_000,
            state: 2,
            stack: Some(Stack::of(stack)),
            ..OffCpu::default()
        }];
        let context = IoContext { all: Some(&events), off: &asleep, ..IoContext::default() };
        let segment = Segment::new(TimeSpan::new(10, 9_900_000), Phase::PageCache, Source::Stamps);
        let io = TracedIo { end_ns: 10_000_000, op: OpKind::Write, ..TracedIo::default() };
        spans(&pages_held_back(&segment, &io, &context))
    }

    #[test]
    fn a_read_of_io_uring_may_wait_for_pages_that_another_program_reads() {
        let found = |flags: u64, start: i64| {
            let mut events = Events::default();
            events.add(Neighbour {
                start_ns: start,
                end_ns: 9_800_000,
                operation: Some(flags),
                ..Neighbour::default()
            });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let segment = |from, to| {
                Segment::new(TimeSpan::new(from, to), Phase::Unobserved, Source::Silence)
            };
            let line = [segment(10, 5_000_000), segment(5_100_000, 9_900_000)];
            let io = TracedIo { end_ns: 10_000_000, op: OpKind::Read, ..TracedIo::default() };
            let found = |p: &Segment| pages_held_back(p, &io, &context);
            spans(&line.iter().flat_map(found).collect::<Vec<_>>())
        };
        assert_eq!(found(1 << 19, -50), [(0, 9_800_000, Phase::PageCache)]);
        assert!(found(1, -50).is_empty(), "a write");
        assert!(found(1 << 19, 6_000_000).is_empty(), "begun much later");
    }

    #[test]
    fn pages_that_were_held_back_or_read_ahead_say_what_the_wait_was() {
        let wait = "io_schedule;folio_wait_bit_common;folio_wait_writeback;ext4_sync_file";
        let held = found(wait, "kworker/0:1", Owner::HeldPages, 9_800_000);
        assert_eq!(held, [(10, 9_000_000, Phase::Throttle)]);
        let page = "io_schedule;folio_wait_bit_common;filemap_read";
        let ahead = found(page, READ_AHEAD, Owner::Other, 9_800_000);
        assert_eq!(ahead, [(9_000_000, 9_800_000, Phase::Device)]);
        let none = |stack, owner, end| found(stack, "kworker/0:1", owner, end).is_empty();
        assert!(none(wait, Owner::Other, 9_800_000), "writeback of anybody");
        assert!(none(wait, Owner::HeldPages, 9_990_000), "done later");
        let dirty = "io_schedule_timeout;balance_dirty_pages";
        assert!(none(dirty, Owner::HeldPages, 9_800_000), "not for these pages");
    }

    #[test]
    fn parts_below_may_be_held_back_by_a_limit() {
        let held_in = |phase: Phase, flags: u64, (dev, token, end_ns): (&str, u64, i64)| {
            let mut events = Events::default();
            events.add(HeldPart {
                end_ns,
                dev: Some(dev.into()),
                token: Some(token),
                ..HeldPart::default()
            });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let segment = Segment::new(TimeSpan::new(10, 900), phase, Source::Stamps);
            let io = TracedIo {
                end_ns: 1_000,
                flags,
                dev: Some("7:1".into()),
                token: Some(7),
                ..TracedIo::default()
            };
            spans(&lower_held_back(&segment, &io, &context))
        };
        let held = |dev: &str, token, end_ns| {
            held_in(Phase::Device, flags::LOWER_HELD, (dev, token, end_ns))
        };
        assert_eq!(held("7:0", 7, 800), [(10, 800, Phase::Throttle)]);
        let queued = held_in(Phase::LowerQueue, flags::LOWER_HELD, ("7:0", 7, 800));
        assert_eq!(queued, [(10, 800, Phase::Throttle)], "the last of several");
        assert!(held_in(Phase::Device, flags::LOWER, ("7:0", 7, 800)).is_empty(), "nothing was");
        assert!(held("7:1", 7, 800).is_empty(), "of its own disk: before it was there");
        assert!(held("7:0", 8, 800).is_empty(), "another I/O's");
        assert!(held("7:0", 7, 950).is_empty(), "later");
    }

    #[test]
    fn blocks_of_the_file_system_may_be_held_back_by_a_limit() {
        const META: u64 = 1 << 12 | 1;
        let found_of = |flags: u64, waker: &str, stack: &str, owner: Owner, wake: i64| {
            let mut events = Events::default();
            events.add(Neighbour {
                start_ns: 9_000_000,
                end_ns: 9_100_000,
                thread: Some(Thread::named("kworker/0:1")),
                operation: Some(flags),
                owner,
                ..Neighbour::default()
            });
            events.sort();
            let asleep = [OffCpu {
                start_ns: 10,
                woken_ns: Some(wake),
                end_ns: wake + 100,
                state: 2,
                waker: Waker { thread: Some(Thread::named(waker)), ..Waker::default() },
                stack: Some(Stack::of(stack)),
                ..OffCpu::default()
            }];
            let context = IoContext { all: Some(&events), off: &asleep, ..IoContext::default() };
            // It begins with a wait for something else.
            let segment = Segment::new(TimeSpan::new(5, wake), Phase::FileSystem, Source::Stamps);
            spans(&blocks_held_back(&segment, &TracedIo::default(), &context))
        };
        let found_by =
            |waker: &str, stack: &str, wake| found_of(META, waker, stack, Owner::Held, wake);
        let found = |stack: &str, wake| found_by("ksoftirqd/1", stack, wake);
        let supers = "write_all_supers;btrfs_sync_log;btrfs_sync_file";
        assert_eq!(found(supers, 9_100_050), [(10, 9_000_000, Phase::Throttle)]);
        let own = found_of(META, "ksoftirqd/1", supers, Owner::OwnThread, 9_100_050);
        assert!(own.is_empty(), "no limit");
        let flush = found_of(1 << 18 | 1, "swapper/0", supers, Owner::Held, 9_100_050);
        assert_eq!(flush, [(10, 9_000_000, Phase::Throttle)]);
        let data = found_of(1, "ksoftirqd/1", supers, Owner::Held, 9_100_050);
        assert!(data.is_empty(), "anybody's data");
        assert!(found("io_cqring_wait", 9_100_050).is_empty(), "whose worker waits");
        assert!(found_by("backup", supers, 9_100_050).is_empty(), "a program let it go on");
        assert_eq!(found_by("", supers, 9_100_050).len(), 1, "an interrupt did");
        assert!(found(supers, 9_900_000).is_empty(), "done long before");
        assert!(found("rwsem_down_write_slowpath;ext4_write", 9_100_050).is_empty());
        const READ: u64 = 1 << 12 | 1 << 13;
        let block = "io_schedule;bit_wait_io;ext4_read_bh;ext4_bread;ext4_readdir";
        let read = |flags, stack: &str| found_of(flags, "swapper/0", stack, Owner::Held, 9_100_050);
        assert_eq!(read(READ, block), [(10, 9_000_000, Phase::Throttle)], "a directory's block");
        assert!(read(READ, supers).is_empty(), "no sync waits for a read");
        assert!(read(0, block).is_empty(), "data of anybody");
    }

    #[test]
    fn a_thread_that_writes_for_others_may_wait_for_what_was_held_back() {
        let found_of = |flags: u64, stack: &str, owner: Owner, wake: i64| {
            let mut events = Events::default();
            events.add(Neighbour {
                start_ns: 9_000_000,
                end_ns: 9_100_000,
                operation: Some(flags),
                owner,
                ..Neighbour::default()
            });
            events.sort();
            let told = OffCpu {
                start_ns: 10,
                woken_ns: Some(wake),
                end_ns: wake + 100,
                state: 2,
                stack: Some(Stack::of(stack)),
                ..OffCpu::default()
            };
            let off = [told];
            let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
            let segment =
                Segment::new(TimeSpan::new(500, 10_000_000), Phase::FileSystem, Source::Holder);
            spans(&blocks_held_back(&segment, &TracedIo::default(), &context))
        };
        let found = |stack: &str, owner: Owner, wake: i64| found_of(1, stack, owner, wake);
        let data = "folio_wait_bit_common;folio_wait_writeback;__filemap_fdatawait_range;\
                    jbd2_journal_commit_transaction;kjournald2";
        assert_eq!(found(data, Owner::HeldPages, 9_100_050), [(500, 9_000_000, Phase::Throttle)]);
        assert_eq!(found(data, Owner::Held, 9_100_050).len(), 1, "of a file that is not watched");
        assert!(found_of(0, data, Owner::Held, 9_100_050).is_empty(), "a read that was held");
        assert!(found(data, Owner::OwnThread, 9_100_050).is_empty(), "no limit");
        assert!(found(data, Owner::HeldPages, 9_400_000).is_empty(), "done long before");
        assert!(
            found("kjournald2;kthread", Owner::HeldPages, 9_100_050).is_empty(),
            "has nothing to do"
        );
    }
}
