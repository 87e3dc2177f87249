//! Pages of the run's file that an I/O waited for, and that came late from the disk: a limit held them
//! back, the kernel was reading them ahead, or another program was reading them.
//!
//! Block I/O of the page cache belongs to no single I/O; here it is set beside a wait that ended when the
//! block I/O did. That the I/O waited for these pages is concluded from the times, so that a verdict that
//! rests on it is never sure.

use taillight_core::OpKind;
use taillight_rundir::layers::{LayerKind, LayerRow, flags};

use crate::events::context::IoContext;
use crate::events::stacks;
use crate::time_line::phase::Phase;
use crate::time_line::segments::{Segment, Source, WAKEUP_WINDOW_NS, overlapping};

/// Who waits for blocks of a file system is woken up this soon after they are done, ns.
const SHORT_WAKEUP_NS: i64 = WAKEUP_WINDOW_NS / 5;
/// Threads in whose time the kernel tells of completions.
const KERNEL: [&str; 3] = ["ksoftirqd/", "kworker/", "swapper/"];
/// Stands beside the name of who queued pages that a limit had held back.
pub const HELD: &str = "held";
/// The same beside what else a limit had held back: blocks of the file system's own, I/O of others.
const LIMIT: &str = "limit";
/// The name that tracing gives to the kernel's reading ahead for the run's own reads.
pub const READ_AHEAD: &str = "readahead";

fn inferred(time: (i64, i64), phase: Phase) -> Segment {
    Segment::new(time, phase, Source::Inferred)
}

/// What waits for pages were, where that was seen.
pub fn pages_held_back(line: &[Segment], io: &LayerRow, context: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = context.all else {
        return Vec::new();
    };
    let mut waits = Vec::new();
    for segment in line.iter().filter(|p| waits_for_pages(p, io, context)) {
        let another = |r: &LayerRow| {
            let begun = r.start_ns - io.start_ns < WAKEUP_WINDOW_NS;
            segment.phase == Phase::Unobserved && begun && read_by_another(r)
        };
        let rows = all.within(LayerKind::Neighbour, segment.from, segment.to).filter(|r| {
            // Pages may be had just before the end of all that were read with them is stamped.
            let earliest = if another(r) { -WAKEUP_WINDOW_NS / 5 } else { 0 };
            (earliest..WAKEUP_WINDOW_NS).contains(&(segment.to - r.end_ns))
        });
        for row in rows {
            if row.other.as_deref() == Some(HELD) {
                waits.push(inferred((segment.from, row.start_ns), Phase::Throttle));
            } else if row.comm.as_deref() == Some(READ_AHEAD) {
                waits.push(inferred((row.start_ns.max(segment.from), row.end_ns), Phase::Device));
            } else if another(row) {
                waits.push(inferred((row.start_ns.max(io.start_ns), row.end_ns), Phase::PageCache));
            }
        }
    }
    waits
}

/// Waits for blocks of a file system's own that the kernel ended as soon as something was done that a limit had held
/// back; a read of such a block is waited for by who waits for a block, and by nobody else. Who waits for a lock, or is woken up
/// by a program, waits for that, whatever it waits for itself. An interrupt that wakes up has no name.
pub fn blocks_held_back(line: &[Segment], _: &LayerRow, context: &IoContext<'_>) -> Vec<Segment> {
    let Some(all) = context.all else {
        return Vec::new();
    };
    let blocks = |r: &&LayerRow| {
        let stack = r.stack.as_deref().unwrap_or_default();
        let by = r.other.as_deref().unwrap_or_default();
        (waits_for_block(stack) || stacks::waits_for_commit(stack))
            && !stacks::waits_for_lock(stack)
            && (by.is_empty() || KERNEL.iter().any(|thread| by.starts_with(thread)))
    };
    let mut waits = Vec::new();
    for segment in line.iter().filter(|p| p.phase == Phase::FileSystem) {
        let of = |list| overlapping(list, segment.from, segment.to);
        let asleep = [context.off, context.worker_off].into_iter().flat_map(of).filter(blocks);
        for told in asleep {
            let Some(wake) = told.middle_ns else { continue };
            let from = told.start_ns.max(segment.from);
            let block = told.stack.as_deref().is_some_and(waits_for_block);
            let held = all.within(LayerKind::Neighbour, from, wake).filter(|r| {
                let own = is_metadata_write(r) || (block && is_metadata_read(r));
                (own && r.other.as_deref() == Some(LIMIT) || r.other.as_deref() == Some(HELD))
                    && just_before(r, wake)
            });
            waits.extend(held.map(|r| inferred((from, r.start_ns), Phase::Throttle)));
        }
    }
    waits
}

fn waits_for_block(stack: &str) -> bool {
    stacks::waits_for_buffers(stack) || stacks::reads_block(stack)
}

/// What a thread of the kernel waited for in a time that ended as soon as something was written that a limit had held back:
/// until then it was the limit. A commit of ext4 waits so for the data that must be on the disk before it.
pub fn writes_held_back(
    told: &LayerRow,
    (from, to): (i64, i64),
    context: &IoContext<'_>,
) -> Vec<Segment> {
    let asleep = told.state != Some(0);
    let until = asleep && told.stack.as_deref().is_some_and(stacks::waits_until_written);
    let (Some(all), Some(wake)) = (context.all, told.middle_ns.filter(|_| until)) else {
        return Vec::new();
    };
    // Operations with odd numbers write.
    let writes = |r: &&LayerRow| r.flags.is_none_or(|flags| flags & 1 == 1);
    let held = all
        .within(LayerKind::Neighbour, told.start_ns, wake)
        .filter(writes)
        .filter(|r| matches!(r.other.as_deref(), Some(HELD | LIMIT)) && just_before(r, wake));
    let wait =
        |r: &LayerRow| inferred((told.start_ns.max(from), r.start_ns.min(to)), Phase::Throttle);
    held.map(wait).filter(|wait| wait.from < wait.to).collect()
}

/// Whether an I/O ended as who waited for it was woken up.
fn just_before(row: &LayerRow, wake: i64) -> bool {
    (0..SHORT_WAKEUP_NS).contains(&(wake - row.end_ns))
}

/// A request to the disk below reaches it when a limit lets go of the request. No stamp says when the request was made:
/// soon after the I/O's own disk had its request, or after the thread that serves that disk had a CPU again.
pub fn lower_held_back(line: &[Segment], io: &LayerRow, context: &IoContext<'_>) -> Vec<Segment> {
    let mut waits = Vec::new();
    let below = |p: &&Segment| matches!(p.phase, Phase::Device | Phase::LowerQueue);
    for segment in line.iter().filter(below).filter(|_| io.has(flags::LOWER_HELD)) {
        let held = context.all.into_iter();
        let held = held.flat_map(|all| all.within(LayerKind::Held, segment.from, segment.to));
        let lower = held.filter(|r| r.token == io.token && r.dev != io.dev);
        let let_go = lower.map(|r| r.end_ns).filter(|at| *at <= segment.to).max();
        waits.extend(let_go.map(|at| inferred((segment.from, at), Phase::Throttle)));
    }
    waits
}

/// Whether a file system wrote something of its own, or had the disk's cache flushed (REQ_META and REQ_PREFLUSH,
/// include/linux/blk_types.h).
pub fn is_metadata_write(row: &LayerRow) -> bool {
    const WRITE: u64 = 1;
    const META_OR_FLUSH: u64 = 1 << 12 | 1 << 18;
    row.flags.is_some_and(|f| f & WRITE != 0 && f & META_OR_FLUSH != 0)
}

/// Whether a file system read something of its own (REQ_META).
fn is_metadata_read(row: &LayerRow) -> bool {
    const OPERATION: u64 = 0xff;
    const META: u64 = 1 << 12;
    row.flags.is_some_and(|f| f & OPERATION == 0 && f & META != 0)
}

/// Whether this is another program's read of the disk.
fn read_by_another(row: &LayerRow) -> bool {
    const OPERATION: u64 = 0xff;
    row.other.is_none() && row.flags.is_some_and(|f| f & OPERATION == 0)
}

/// Whether a thread slept there until pages came or went, or a read of io_uring did nothing that was seen.
fn waits_for_pages(segment: &Segment, io: &LayerRow, context: &IoContext<'_>) -> bool {
    if segment.phase == Phase::Unobserved {
        return !io.has_block_io() && io.op.is_some_and(|op| op.request() == OpKind::Read);
    }
    let of = |list| overlapping(list, segment.from, segment.to);
    let mut asleep = [context.off, context.worker_off].into_iter().flat_map(of);
    segment.phase == Phase::PageCache
        && asleep.any(|r| r.stack.as_deref().is_some_and(stacks::waits_for_pages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::time_line::segments::spans;

    fn found(stack: &str, comm: &str, mark: Option<&str>, end: i64) -> Vec<(i64, i64, Phase)> {
        let mut events = Events::default();
        events.add(LayerRow {
            kind: LayerKind::Neighbour,
            start_ns: 9_000_000,
            end_ns: end,
            comm: Some(comm.into()),
            other: mark.map(Into::into),
            ..LayerRow::default()
        });
        events.sort();
        let asleep = [LayerRow {
            start_ns: 10,
            end_ns: 9_900_000,
            state: Some(2),
            stack: Some(stack.into()),
            ..LayerRow::default()
        }];
        let context = IoContext { all: Some(&events), off: &asleep, ..IoContext::default() };
        let line = [Segment::new((10, 9_900_000), Phase::PageCache, Source::Stamps)];
        let io = LayerRow { end_ns: 10_000_000, op: Some(OpKind::Write), ..LayerRow::default() };
        spans(&pages_held_back(&line, &io, &context))
    }

    #[test]
    fn a_read_of_io_uring_may_wait_for_pages_that_another_program_reads() {
        let found = |flags: u64, start: i64| {
            let mut events = Events::default();
            events.add(LayerRow {
                kind: LayerKind::Neighbour,
                start_ns: start,
                end_ns: 9_800_000,
                flags: Some(flags),
                ..LayerRow::default()
            });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let segment = |from, to| Segment::new((from, to), Phase::Unobserved, Source::Silence);
            let line = [segment(10, 5_000_000), segment(5_100_000, 9_900_000)];
            let io = LayerRow { end_ns: 10_000_000, op: Some(OpKind::Read), ..LayerRow::default() };
            spans(&pages_held_back(&line, &io, &context))
        };
        assert_eq!(found(1 << 19, -50), [(0, 9_800_000, Phase::PageCache)]);
        assert!(found(1, -50).is_empty(), "a write");
        assert!(found(1 << 19, 6_000_000).is_empty(), "begun much later");
    }

    #[test]
    fn pages_that_were_held_back_or_read_ahead_say_what_the_wait_was() {
        let wait = "io_schedule;folio_wait_bit_common;folio_wait_writeback;ext4_sync_file";
        let held = found(wait, "kworker/0:1", Some(HELD), 9_800_000);
        assert_eq!(held, [(10, 9_000_000, Phase::Throttle)]);
        let ahead =
            found("io_schedule;folio_wait_bit_common;filemap_read", READ_AHEAD, None, 9_800_000);
        assert_eq!(ahead, [(9_000_000, 9_800_000, Phase::Device)]);
        assert!(found(wait, "kworker/0:1", None, 9_800_000).is_empty(), "writeback of anybody");
        assert!(found(wait, "kworker/0:1", Some(HELD), 9_990_000).is_empty(), "done later");
        let dirty = "io_schedule_timeout;balance_dirty_pages";
        assert!(
            found(dirty, "kworker/0:1", Some(HELD), 9_800_000).is_empty(),
            "not for these pages"
        );
    }

    #[test]
    fn parts_below_may_be_held_back_by_a_limit() {
        let held_in = |phase: Phase, flags: u64, (dev, token, end_ns): (&str, u64, i64)| {
            let mut events = Events::default();
            events.add(LayerRow {
                kind: LayerKind::Held,
                end_ns,
                dev: Some(dev.into()),
                token: Some(token),
                ..LayerRow::default()
            });
            events.sort();
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            let line = [Segment::new((10, 900), phase, Source::Stamps)];
            let io = LayerRow {
                end_ns: 1_000,
                flags: Some(flags),
                dev: Some("7:1".into()),
                token: Some(7),
                ..LayerRow::default()
            };
            spans(&lower_held_back(&line, &io, &context))
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
        let found_of = |flags: u64, waker: &str, stack: &str, mark: &str, wake: i64| {
            let mut events = Events::default();
            events.add(LayerRow {
                kind: LayerKind::Neighbour,
                start_ns: 9_000_000,
                end_ns: 9_100_000,
                comm: Some("kworker/0:1".into()),
                flags: Some(flags),
                other: Some(mark.into()),
                ..LayerRow::default()
            });
            events.sort();
            let asleep = [LayerRow {
                start_ns: 10,
                middle_ns: Some(wake),
                end_ns: wake + 100,
                state: Some(2),
                other: Some(waker.into()),
                stack: Some(stack.into()),
                ..LayerRow::default()
            }];
            let context = IoContext { all: Some(&events), off: &asleep, ..IoContext::default() };
            // It begins with a wait for something else.
            let line = [Segment::new((5, wake), Phase::FileSystem, Source::Stamps)];
            spans(&blocks_held_back(&line, &LayerRow::default(), &context))
        };
        let found_by =
            |waker: &str, stack: &str, mark: &str, wake| found_of(META, waker, stack, mark, wake);
        let found = |stack: &str, mark: &str, wake| found_by("ksoftirqd/1", stack, mark, wake);
        let supers = "write_all_supers;btrfs_sync_log;btrfs_sync_file";
        assert_eq!(found(supers, LIMIT, 9_100_050), [(10, 9_000_000, Phase::Throttle)]);
        assert!(found(supers, "own", 9_100_050).is_empty(), "no limit");
        let flush = found_of(1 << 18 | 1, "swapper/0", supers, LIMIT, 9_100_050);
        assert_eq!(flush, [(10, 9_000_000, Phase::Throttle)]);
        let data = found_of(1, "ksoftirqd/1", supers, LIMIT, 9_100_050);
        assert!(data.is_empty(), "anybody's data");
        assert!(found("io_cqring_wait", LIMIT, 9_100_050).is_empty(), "whose worker waits");
        assert!(found_by("backup", supers, LIMIT, 9_100_050).is_empty(), "a program let it go on");
        assert_eq!(found_by("", supers, LIMIT, 9_100_050).len(), 1, "an interrupt did");
        assert!(found(supers, LIMIT, 9_900_000).is_empty(), "done long before");
        assert!(found("rwsem_down_write_slowpath;ext4_write", LIMIT, 9_100_050).is_empty());
        const READ: u64 = 1 << 12 | 1 << 13;
        let block = "io_schedule;bit_wait_io;ext4_read_bh;ext4_bread;ext4_readdir";
        let read = |flags, stack: &str| found_of(flags, "swapper/0", stack, LIMIT, 9_100_050);
        assert_eq!(read(READ, block), [(10, 9_000_000, Phase::Throttle)], "a directory's block");
        assert!(read(READ, supers).is_empty(), "no sync waits for a read");
        assert!(read(0, block).is_empty(), "data of anybody");
    }

    #[test]
    fn a_thread_that_writes_for_others_may_wait_for_what_was_held_back() {
        let found_of = |flags: u64, stack: &str, mark: &str, wake: i64| {
            let mut events = Events::default();
            events.add(LayerRow {
                kind: LayerKind::Neighbour,
                start_ns: 9_000_000,
                end_ns: 9_100_000,
                flags: Some(flags),
                other: Some(mark.into()),
                ..LayerRow::default()
            });
            events.sort();
            let told = LayerRow {
                kind: LayerKind::Kthread,
                start_ns: 10,
                middle_ns: Some(wake),
                end_ns: wake + 100,
                state: Some(2),
                stack: Some(stack.into()),
                ..LayerRow::default()
            };
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            spans(&writes_held_back(&told, (500, 10_000_000), &context))
        };
        let found = |stack: &str, mark: &str, wake: i64| found_of(1, stack, mark, wake);
        let data = "folio_wait_bit_common;folio_wait_writeback;__filemap_fdatawait_range;\
                    jbd2_journal_commit_transaction;kjournald2";
        assert_eq!(found(data, HELD, 9_100_050), [(500, 9_000_000, Phase::Throttle)]);
        assert_eq!(found(data, LIMIT, 9_100_050).len(), 1, "of a file that is not watched");
        assert!(found_of(0, data, LIMIT, 9_100_050).is_empty(), "a read that was held");
        assert!(found(data, "own", 9_100_050).is_empty(), "no limit");
        assert!(found(data, HELD, 9_400_000).is_empty(), "done long before");
        assert!(found("kjournald2;kthread", HELD, 9_100_050).is_empty(), "has nothing to do");
    }
}
