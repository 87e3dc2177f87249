//! Threads that act for an I/O beside its own: what its time line took for the silence of completions,
//! worker threads or a device, and was a wait of one of these.
//!
//! What it is: the whole program stopped; a thread of the kernel that finishes the I/O, or serves a loop
//! device, waiting for a CPU or asleep over something. It is followed from who woke the I/O's own thread
//! up. What it is not: a guess from what ran at the same time.

use taillight_rundir::layers::{LayerKind, LayerRow, flags};

use super::commits;
use super::context::IoContext;
use super::events::Events;
use super::held_pages;
use super::judge::Judged;
use super::phase::Phase;
use super::stacks::{self, SleepReason};
use super::stolen;
use super::timeline::{AT_ONCE, Piece, overlapping, recut};

/// Idle threads of the kernel sleep in this state: TASK_UNINTERRUPTIBLE without being counted as load.
const IDLE: u64 = 0x402;
/// A thread of the kernel is woken up for an I/O this soon after the stamp before it, ns. An interrupt of
/// the program's thread that wakes up another one counts as the program's own wake-up: hence so short.
const SOON: i64 = 20_000;

/// A time, and what it was.
pub type Wait = (i64, i64, Phase);

/// Puts waits of such threads into a time line.
pub fn followed(line: Vec<Piece>, io: &LayerRow, context: &IoContext<'_>) -> Vec<Piece> {
    let mut line = line;
    let told = completers(&line, io, context);
    if !told.is_empty() {
        line = recut(line, &told, |phase| matches!(phase, Phase::Completion | Phase::Unobserved));
    }
    let taken = stolen::waits(&line, io, context);
    if !taken.is_empty() {
        line = recut(line, &taken, |phase| phase == Phase::Completion);
    }
    let limited = held_pages::lower_held_back(&line, io, context);
    if !limited.is_empty() {
        line = recut(line, &limited, |phase| phase == Phase::Device);
    }
    let polled = pollers(io, context);
    if !polled.is_empty() {
        line = recut(line, &polled, |phase| {
            matches!(phase, Phase::Submit | Phase::Completion | Phase::Unobserved)
        });
    }
    let pages = held_pages::waits(&line, io, context);
    if !pages.is_empty() {
        line = recut(line, &pages, |phase| matches!(phase, Phase::PageCache | Phase::Unobserved));
    }
    let blocks = held_pages::blocks_held_back(&line, context);
    if !blocks.is_empty() {
        line = recut(line, &blocks, |phase| phase == Phase::FileSystem);
    }
    let committed = commits::committers(&line, io, context);
    if !committed.is_empty() {
        line = recut(line, &committed, |phase| phase == Phase::FileSystem);
    }
    let written = commits::journal_writes(&line, io, context);
    if !written.is_empty() {
        line = recut(line, &written, |phase| phase == Phase::FileSystem);
    }
    let mut served = servers_of_loop(&line, io, context);
    served.extend(soft_interrupts(&line, context));
    if !served.is_empty() {
        line = recut(line, &served, |phase| phase == Phase::Device);
    }
    let given = givers_to_driver(&line, context);
    if !given.is_empty() {
        line = recut(line, &given, |phase| phase == Phase::Queue);
    }
    let stopped = stops(io, context);
    if !stopped.is_empty() {
        line = recut(line, &stopped, waits_for_program);
    }
    line
}

/// What is no more than the program itself not going on.
fn waits_for_program(phase: Phase) -> bool {
    use Phase::*;
    matches!(phase, Submit | Completion | Cpu | Application | IoWorker | Unobserved)
}

/// When the program was stopped or frozen, as its threads' sleeps say.
fn stops(io: &LayerRow, context: &IoContext<'_>) -> Vec<Wait> {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let asleep = [context.off, context.worker_off].into_iter().flat_map(of);
    let stopped = |r: &&LayerRow| {
        let reason = r.stack.as_deref().map(stacks::sleep_reason);
        r.state != Some(0) && matches!(reason, Some(SleepReason::For(Phase::Stopped, _)))
    };
    asleep
        .filter(stopped)
        .map(|r| (r.start_ns, r.middle_ns.unwrap_or(r.end_ns), Phase::Stopped))
        .collect()
}

/// What the kernel's threads did that told the I/O's own thread of its completion, before they did.
fn completers(line: &[Piece], io: &LayerRow, context: &IoContext<'_>) -> Vec<Wait> {
    let late = line.iter().filter(|p| matches!(p.phase, Phase::Completion | Phase::Unobserved));
    let mut waits = Vec::new();
    for piece in late {
        let of = |list| overlapping(list, piece.from, io.end_ns);
        for told in [context.off, context.worker_off].into_iter().flat_map(of) {
            let wake = told.middle_ns.unwrap_or(told.end_ns);
            for row in helpers(context, piece.from, wake).filter(|r| r.pid == told.waker_pid) {
                // It went on at once to what woke the waiting thread up.
                if row.end_ns <= wake && wake - row.end_ns < AT_ONCE {
                    waits.extend(doings(row));
                }
            }
        }
        // Who waits for several I/Os may be awake for another one when this one is told.
        let went_on = [Some(piece.to), io.cqe_ns, io.sync_punt_ns, Some(io.end_ns)];
        let late = helpers(context, piece.from, io.end_ns).filter(|row| {
            let work = row.other.as_deref().is_some_and(|name| name.starts_with("kworker/"));
            let at_once = |at: i64| (0..AT_ONCE).contains(&(at - row.end_ns));
            piece.phase == Phase::Completion && work && went_on.into_iter().flatten().any(at_once)
        });
        let late = late.flat_map(doings).filter(|(from, to, phase)| {
            let within = to.min(&piece.to) - from.max(&piece.from);
            *phase == Phase::Cpu && within * 2 >= piece.to - piece.from
        });
        waits.extend(late);
    }
    waits
}

/// What io_uring's polling thread waited for.
fn pollers(io: &LayerRow, context: &IoContext<'_>) -> Vec<Wait> {
    context.all.into_iter().flat_map(|all| polled(io, all)).flat_map(doings).collect()
}

/// What the polling thread of io_uring left off the CPU, which takes the requests of this I/O's thread
/// from the queue and tells it of their ends.
pub fn polled<'a>(
    io: &LayerRow,
    events: &'a Events,
) -> impl Iterator<Item = &'a LayerRow> + use<'a> {
    let worker = io.worker;
    let rows = events.within(LayerKind::Worker, io.start_ns, io.end_ns);
    rows.filter(move |r| r.token.is_none() && r.worker.is_some() && r.worker == worker)
}

/// What the threads did that serve the loop device of an I/O: its own program woke them up, or they were
/// in the loop device's functions.
pub fn servers_of_loop(line: &[Piece], io: &LayerRow, context: &IoContext<'_>) -> Vec<Wait> {
    if !io.dev.as_deref().is_some_and(|dev| dev.starts_with("7:")) {
        return Vec::new();
    }
    let mut waits = Vec::new();
    for piece in line.iter().filter(|p| p.phase == Phase::Device) {
        for row in helpers(context, piece.from, piece.to) {
            let woken = row.middle_ns.unwrap_or(row.start_ns);
            let soon = (0..SOON).contains(&(woken - piece.from));
            // It had been woken up for an earlier I/O, and did this one as well as soon as it ran.
            let next = woken <= piece.from && ends_with(row, piece, AT_ONCE);
            let for_it = row.has(flags::WOKEN_BY_OWN) && (soon || next);
            // Another one of its kind passed the work on, and when it ran this was done at once.
            let late = (row.end_ns - woken.max(piece.from)) * 2 >= piece.to - piece.from;
            let passed_on = ends_with(row, piece, AT_ONCE) && late && unbound(row);
            if for_it || passed_on || row.stack.as_deref().is_some_and(stacks::serves_loop) {
                waits.extend(doings(row));
            }
        }
    }
    // A file served over FUSE is a part of such a device.
    waits.retain(|(_, _, phase)| *phase != Phase::FileSystem || io.has(flags::LOWER));
    waits
}

/// Completions that are left to a thread of the kernel (ksoftirqd) wait with it for its CPU: for most of
/// the device's time, and when it ran they were told at once.
pub fn soft_interrupts(line: &[Piece], context: &IoContext<'_>) -> Vec<Wait> {
    let mut waits = Vec::new();
    for piece in line.iter().filter(|p| p.phase == Phase::Device) {
        let rows = helpers(context, piece.from, piece.to).filter(|row| {
            let late = (row.end_ns - woken(row).max(piece.from)) * 2 >= piece.to - piece.from;
            let soft = row.other.as_deref().is_some_and(|name| name.starts_with("ksoftirqd/"));
            soft && late && ends_with(row, piece, AT_ONCE / 5)
        });
        waits.extend(rows.map(|row| (woken(row), row.end_ns, Phase::Cpu)));
    }
    waits
}

/// Whether a thread came back to the CPU no longer than this before the end of a piece, ns.
fn ends_with(row: &LayerRow, piece: &Piece, before: i64) -> bool {
    (0..before).contains(&(piece.to - row.end_ns))
}

/// Whether most of a wait for a CPU is that of a thread of which it is only concluded that it acted for
/// the I/O: what its own threads waited for, and who woke them up, was seen.
pub fn concluded(pieces: &[Piece], io: &LayerRow, context: &IoContext<'_>) -> bool {
    let waits = || pieces.iter().filter(|p| p.phase == Phase::Cpu);
    let all: i64 = waits().map(|p| p.to - p.from).sum();
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let own = || [context.off, context.worker_off].into_iter().flat_map(of);
    waits().filter(|p| (p.to - p.from) * 2 > all).any(|p| {
        let most = |row: &LayerRow| {
            let from = if row.state == Some(0) { row.start_ns } else { woken(row) };
            (row.end_ns.min(p.to) - from.max(p.from)) * 2 >= p.to - p.from
        };
        let told = |r: &LayerRow| own().any(|off| off.waker_pid == r.pid);
        let seen = |r: &LayerRow| r.has(flags::WOKEN_BY_OWN) || told(r);
        !own().any(most) && helpers(context, p.from, p.to).any(|r| most(r) && !seen(r))
    })
}

pub fn woken(row: &LayerRow) -> i64 {
    row.middle_ns.unwrap_or(row.end_ns)
}

/// Whether a thread of the kernel is of a work queue that is bound to no CPU, as a loop device's is.
fn unbound(row: &LayerRow) -> bool {
    row.other.as_deref().is_some_and(|name| name.starts_with("kworker/u"))
}

/// Requests that a thread of the kernel gives to the driver (flushes, a queue that is run again) wait
/// with it for its CPU: the program woke it up, or it does nothing else, and when it ran they were issued
/// at once.
fn givers_to_driver(line: &[Piece], context: &IoContext<'_>) -> Vec<Wait> {
    let mut waits = Vec::new();
    for piece in line.iter().filter(|p| p.phase == Phase::Queue) {
        let rows = helpers(context, piece.from, piece.to);
        let gives = rows.filter(|r| r.has(flags::WOKEN_BY_OWN) || runs_queues(r));
        for row in gives.filter(|r| ends_with(r, piece, AT_ONCE)) {
            waits.extend(doings(row).into_iter().filter(|(.., phase)| *phase == Phase::Cpu));
        }
    }
    waits
}

/// Whether a thread of the kernel is one of those that run the queues of block devices: kblockd's, bound
/// to a CPU and of high priority (block/blk-core.c, kernel/workqueue.c).
fn runs_queues(row: &LayerRow) -> bool {
    let name = row.other.as_deref().unwrap_or_default();
    let kblockd = name.strip_prefix("kworker/").is_some_and(|n| {
        n.trim_end_matches(char::is_alphabetic) != n && !n.starts_with('u') && n.ends_with('H')
    });
    kblockd || row.stack.as_deref().is_some_and(stacks::runs_queues)
}

/// Threads of the kernel that acted for a slow I/O and were late themselves.
pub fn linked<'a>(one: &Judged, events: &'a Events) -> Vec<&'a LayerRow> {
    let Some(io) = &one.row else {
        return Vec::new();
    };
    let context = IoContext::of(events, u64::from(one.slow.worker));
    let asleep = overlapping(context.off, io.start_ns, io.end_ns);
    let wakers: Vec<u64> = asleep.filter_map(|r| r.waker_pid).collect();
    let rows = helpers(&context, io.start_ns, io.end_ns);
    let told = |r: &&LayerRow| r.pid.is_some_and(|pid| wakers.contains(&pid));
    let serves = |r: &&LayerRow| {
        r.has(flags::WOKEN_BY_OWN) || r.stack.as_deref().is_some_and(stacks::serves_loop)
    };
    rows.filter(|r| told(r) || serves(r)).collect()
}

pub fn helpers<'a>(
    context: &IoContext<'a>,
    from: i64,
    to: i64,
) -> impl Iterator<Item = &'a LayerRow> + use<'a> {
    let all = context.all.into_iter();
    all.flat_map(move |all| all.within(LayerKind::Kthread, from, to))
}

/// What such a thread waited for, and then for a CPU.
pub fn doings(row: &LayerRow) -> Vec<Wait> {
    if row.state == Some(0) {
        return vec![(row.start_ns, row.end_ns, Phase::Cpu)];
    }
    let wake = row.middle_ns.unwrap_or(row.end_ns);
    let mut waits = vec![(wake, row.end_ns, Phase::Cpu)];
    let phase = match row.stack.as_deref().map(stacks::sleep_reason) {
        _ if row.state == Some(IDLE) => None,
        Some(SleepReason::For(phase, _) | SleepReason::Lock(phase, _)) => Some(phase),
        // I/O of its own that it makes for another one, as a sync behind a write.
        Some(SleepReason::OwnIo) => Some(Phase::Device),
        _ => None,
    };
    waits.splice(0..0, phase.map(|phase| (row.start_ns, wake, phase)));
    waits
}

#[cfg(test)]
mod tests {
    use super::super::commits::{FEW_BYTES, FEW_ENTRIES};
    use super::*;

    fn asleep(kind: LayerKind, times: (i64, i64, i64), stack: &str) -> LayerRow {
        LayerRow {
            kind,
            start_ns: times.0,
            middle_ns: Some(times.1),
            end_ns: times.2,
            state: Some(1),
            stack: Some(stack.into()),
            ..LayerRow::default()
        }
    }

    fn kworker(times: (i64, i64, i64), state: u64, stack: &str) -> LayerRow {
        LayerRow { state: Some(state), pid: Some(77), ..asleep(LayerKind::Kthread, times, stack) }
    }

    fn lengths(line: &[Piece]) -> Vec<(i64, Phase)> {
        line.iter().map(|p| (p.to - p.from, p.phase)).collect()
    }

    fn cut(line: &[(i64, i64, Phase)], off: LayerRow, helpers: Vec<LayerRow>) -> Vec<(i64, Phase)> {
        let mut events = Events::default();
        helpers.into_iter().for_each(|row| events.add(row));
        events.sort();
        let off = [LayerRow { waker_pid: Some(77), ..off }];
        let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
        let io = LayerRow {
            end_ns: 1_000,
            worker: Some(3),
            dev: Some("7:1".into()),
            ..LayerRow::default()
        };
        let line =
            line.iter().map(|(from, to, phase)| Piece { from: *from, to: *to, phase: *phase });
        lengths(&followed(line.collect(), &io, &context))
    }

    #[test]
    fn who_tells_of_a_completion_may_wait_for_a_cpu_or_a_journal() {
        use Phase::*;
        let line = [(0, 100, Device), (100, 900, Completion), (900, 1000, Cpu)];
        let off = || asleep(LayerKind::OffCpu, (0, 900, 1000), "io_cqring_wait");
        let idle = kworker((-500, 110, 890), IDLE, "worker_thread;kthread");
        let expected =
            vec![(100, Device), (10, Completion), (780, Cpu), (10, Completion), (100, Cpu)];
        assert_eq!(cut(&line, off(), vec![idle.clone()]), expected);
        let expected_late = expected.clone();
        let journal = kworker((120, 880, 890), 2, "wait_transaction_locked;ext4_end_io_rsv_work");
        let expected = vec![
            (100, Device),
            (20, Completion),
            (760, FileSystem),
            (10, Cpu),
            (10, Completion),
            (100, Cpu),
        ];
        assert_eq!(cut(&line, off(), vec![journal]), expected);
        let other = LayerRow { pid: Some(78), ..idle };
        assert_eq!(cut(&line, off(), vec![other.clone()]).len(), 3, "not who woke it up");
        let late = LayerRow { other: Some("kworker/0:1".into()), ..other };
        assert_eq!(cut(&line, off(), vec![late]), expected_late, "and then it was told at once");
        let sync = kworker((110, 880, 890), 2, "submit_bio_wait;blkdev_issue_flush");
        let it = cut(&line, off(), vec![sync]);
        assert_eq!(it[..3], [(100, Device), (10, Completion), (770, Device)]);
    }

    #[test]
    fn a_polling_thread_of_io_uring_waits_for_a_cpu_or_a_limit() {
        use Phase::*;
        let line = [(0, 500, Unobserved), (500, 700, Device), (700, 1000, Completion)];
        let off = || asleep(LayerKind::OffCpu, (0, 990, 1000), "io_cqring_wait");
        let row = |times, state, stack| LayerRow {
            state: Some(state),
            worker: Some(3),
            ..asleep(LayerKind::Worker, times, stack)
        };
        let robbed = row((-50, -50, 480), 0, "io_sq_thread");
        let again = row((600, 600, 950), 0, "io_sq_thread");
        let waits = vec![(480, Cpu), (20, Unobserved), (200, Device), (250, Cpu), (50, Completion)];
        assert_eq!(cut(&line, off(), vec![robbed.clone(), again]), waits);
        let limited =
            row((10, 470, 480), 2, "blkcg_maybe_throttle_current;io_submit_sqes;io_sq_thread");
        let waits = vec![
            (10, Unobserved),
            (460, Throttle),
            (10, Cpu),
            (20, Unobserved),
            (200, Device),
            (300, Completion),
        ];
        assert_eq!(cut(&line, off(), vec![limited]), waits);
        let other = LayerRow { worker: Some(4), ..robbed.clone() };
        assert_eq!(cut(&line, off(), vec![other]).len(), 3, "polls for another thread");
        let handed = LayerRow { token: Some(9), ..robbed };
        assert_eq!(cut(&line, off(), vec![handed]).len(), 3, "did another I/O");
    }

    #[test]
    fn a_stopped_program_waits_for_nothing_else() {
        use Phase::*;
        let line =
            [(0, 100, Submit), (100, 700, IoWorker), (700, 800, Device), (800, 1000, Server)];
        let off = || asleep(LayerKind::OffCpu, (50, 750, 760), "do_signal_stop;get_signal");
        let expected = vec![(50, Submit), (650, Stopped), (100, Device), (200, Server)];
        assert_eq!(cut(&line, off(), Vec::new()), expected);
    }

    #[test]
    fn a_request_waits_for_the_cpu_of_who_gives_it_to_the_driver() {
        use Phase::*;
        let line = [(0, 10, Submit), (10, 950, Queue), (950, 1000, Device)];
        let off = || asleep(LayerKind::OffCpu, (5, 995, 1000), "blkdev_issue_flush");
        let kblockd = kworker((-50, 12, 940), IDLE, "worker_thread");
        let own = LayerRow { flags: Some(flags::WOKEN_BY_OWN), ..kblockd.clone() };
        let expected = vec![(10, Submit), (2, Queue), (928, Cpu), (10, Queue), (50, Device)];
        assert_eq!(cut(&line, off(), vec![own]), expected);
        assert_eq!(cut(&line, off(), vec![kblockd]).len(), 3, "woken by whatever else");
    }

    #[test]
    fn kblockd_needs_nobody_to_wake_it_up() {
        use Phase::*;
        let line = [(0, 10, Submit), (10, 950, Queue), (950, 1000, Device)];
        let off = || asleep(LayerKind::OffCpu, (5, 995, 1000), "blkdev_issue_flush");
        let called = |name: &str| LayerRow {
            other: Some(name.into()),
            ..kworker((-50, 12, 940), IDLE, "worker_thread")
        };
        let expected = vec![(10, Submit), (2, Queue), (928, Cpu), (10, Queue), (50, Device)];
        assert_eq!(cut(&line, off(), vec![called("kworker/0:1H")]), expected);
        for other in ["kworker/0:1", "kworker/u4:1", "kswapd0", "kworker/u9:1H"] {
            assert_eq!(cut(&line, off(), vec![called(other)]).len(), 3, "{other}");
        }
    }

    #[test]
    fn a_commit_waits_for_the_cpu_of_its_thread_and_for_the_flush() {
        use Phase::*;
        let line = [(0, 10, Submit), (10, 900, FileSystem), (900, 1000, Cpu)];
        let off = || asleep(LayerKind::OffCpu, (10, 900, 1000), "jbd2_log_wait_commit");
        let starved = kworker((20, 25, 500), 1, "kjournald2;kthread");
        let flush = LayerRow {
            kind: LayerKind::Flush,
            start_ns: 520,
            end_ns: 890,
            dev: Some("7:1".into()),
            ..LayerRow::default()
        };
        let expected = vec![
            (10, Submit),
            (15, FileSystem),
            (475, Cpu),
            (20, FileSystem),
            (370, Device),
            (10, FileSystem),
            (100, Cpu),
        ];
        assert_eq!(cut(&line, off(), vec![starved.clone(), flush.clone()]), expected);
        let full = asleep(LayerKind::OffCpu, (10, 900, 1000), "__jbd2_log_wait_for_space");
        assert_eq!(cut(&line, full, vec![flush])[1], (890, FileSystem), "no sync was asked for");
        let other = LayerRow { pid: Some(78), ..starved.clone() };
        assert_eq!(cut(&line, off(), vec![other]).len(), 3, "another thread");
        let writes = kworker((20, 880, 885), 2, "jbd2_journal_commit_transaction;kjournald2");
        let server = LayerRow {
            pid: Some(79),
            other: Some("kworker/u8:1".into()),
            ..kworker((-50, 30, 870), IDLE, "worker_thread")
        };
        let it = cut(&line, off(), vec![writes.clone(), server]);
        assert_eq!(it[..3], [(10, Submit), (20, FileSystem), (840, Cpu)], "the loop's");
        assert_eq!(cut(&line, off(), vec![writes])[1], (870, FileSystem));
        let lock = asleep(LayerKind::OffCpu, (10, 900, 1000), "rwsem_down_read_slowpath");
        assert_eq!(cut(&line, lock, vec![starved]).len(), 3, "no commit");
    }

    #[test]
    fn a_commit_of_few_entries_waits_for_the_disk_where_one_write_takes_long() {
        use Phase::*;
        const LONG: i64 = 9_000_000;
        let line = [(0, 10, Submit), (10, LONG, FileSystem), (LONG, LONG + 100, Cpu)];
        let write = |from, to, size| LayerRow {
            kind: LayerKind::Neighbour,
            start_ns: from,
            end_ns: to,
            size: Some(size),
            dev: Some("7:1".into()),
            comm: Some("jbd2/loop1-8".into()),
            flags: Some(1 << 12 | 1),
            ..LayerRow::default()
        };
        let of_commit = |from| LayerRow { kind: LayerKind::Commit, ..write(from, LONG - 10, 0) };
        let few = || vec![write(20, 30, 4096), write(40, LONG - 20, 4096), of_commit(15)];
        let cut_by = |stack, rows: Vec<LayerRow>| {
            let off = asleep(LayerKind::OffCpu, (10, LONG, LONG + 100), stack);
            cut(&line, off, rows)
        };
        let commit = "jbd2_log_wait_commit;ext4_sync_file";
        assert_eq!(cut_by(commit, few())[2], (LONG - 60, Device));
        let block = "do_get_write_access;ext4_map_blocks";
        assert_eq!(cut_by(block, few())[2], (LONG - 60, Device));
        let other = |change: &dyn Fn(&mut LayerRow)| {
            let mut rows = few();
            rows.iter_mut().for_each(change);
            cut_by(commit, rows).len()
        };
        assert_eq!(other(&|row| row.comm = Some("tar".into())), 3, "of whoever else");
        assert_eq!(other(&|row| row.flags = Some(1)), 3, "data");
        assert_eq!(other(&|row| row.dev = Some("7:2".into())), 3, "another disk's");
        assert_eq!(cut_by("__jbd2_log_wait_for_space", few()).len(), 3, "waits for room");
        assert_eq!(cut_by("xlog_wait_on_iclog;xfs_log_force_seq", few()).len(), 3, "no journal");
        let more = [few(), vec![write(50, 60, 1024); FEW_ENTRIES]].concat();
        assert_eq!(cut_by(commit, more).len(), 3, "there was much to write");
        let crowded = [few(), vec![write(30, LONG - 10, FEW_BYTES)]].concat();
        assert_eq!(cut_by(commit, crowded).len(), 3, "behind others");
        let beside = |from, to| LayerRow {
            comm: Some("backup".into()),
            ..write(from, to, 2 * FEW_BYTES)
        };
        let quick = [few(), vec![beside(50, 60); FEW_ENTRIES]].concat();
        assert_eq!(cut_by(commit, quick)[2], (LONG - 60, Device), "others are soon served");
        let busy = [few(), vec![beside(50, LONG / 2)]].concat();
        assert_eq!(cut_by(commit, busy).len(), 3, "others are not");
        let begun = [few(), vec![of_commit(-90), write(-80, 5, FEW_BYTES)]].concat();
        assert_eq!(cut_by(commit, begun).len(), 3, "and most of it was done before");
        assert_eq!(cut_by(commit, few()[..2].to_vec()).len(), 3, "no commit that was seen");
        let half = LONG / 3;
        let short = vec![write(20, half, 4096), write(half, 2 * half, 4096), of_commit(15)];
        assert_eq!(cut_by(commit, short).len(), 3, "no single one");
        let starved = kworker((20, 25, LONG - 40), 1, "kjournald2;kthread");
        let it = cut_by(commit, [few(), vec![starved]].concat());
        assert_eq!(it[2], (LONG - 65, Cpu), "whose CPU was not to be had is not the disk's");
    }

    #[test]
    fn the_thread_that_serves_a_loop_device_may_wait_for_a_cpu() {
        use Phase::*;
        let line = [(0, 10, Submit), (10, 990, Device), (990, 1000, Completion)];
        let off = || asleep(LayerKind::OffCpu, (5, 995, 1000), "io_schedule;blkdev_direct_IO");
        let own = LayerRow {
            flags: Some(flags::WOKEN_BY_OWN),
            ..kworker((-50, 12, 900), IDLE, "worker_thread")
        };
        let expected = vec![(10, Submit), (2, Device), (888, Cpu), (90, Device), (10, Completion)];
        assert_eq!(cut(&line, off(), vec![own.clone()]), expected);
        let strange = LayerRow { flags: None, ..own.clone() };
        assert_eq!(cut(&line, off(), vec![strange.clone()]).len(), 3, "of whatever else");
        let named = |name: &str| LayerRow { other: Some(name.into()), ..strange.clone() };
        assert_eq!(cut(&line, off(), vec![named("kworker/u8:1")]), expected, "passed on");
        assert_eq!(cut(&line, off(), vec![named("ksoftirqd/0")]), expected, "tells of the end");
        assert_eq!(cut(&line, off(), vec![named("kworker/1:1")]).len(), 3);
        let cpu = [Piece { from: 12, to: 900, phase: Cpu }];
        let guess = |row: LayerRow| {
            let mut events = Events::default();
            events.add(row);
            let context = IoContext { all: Some(&events), ..IoContext::default() };
            concluded(&cpu, &LayerRow { end_ns: 1_000, ..LayerRow::default() }, &context)
        };
        assert!(guess(named("kworker/u8:1")) && !guess(own));
        let fuse = kworker((20, 980, 985), 1, "request_wait_answer;fuse_direct_io;lo_rw_aio");
        let sum = |list: &[(i64, Phase)]| -> i64 {
            list.iter().filter(|(_, p)| *p == Device).map(|(ns, _)| ns).sum()
        };
        assert!(sum(&cut(&line, off(), vec![fuse])) > 960, "a file of FUSE is the device");
    }
}
