//! Threads that act for made-up I/Os.

use std::sync::Arc;

use super::*;
use crate::events::event::{Commit, Flush, LayerEvent, Neighbour, Owner, RingThread, Waker};
use crate::events::stacks::Stack;
use crate::events::thread::Thread;
use crate::time_line::segments::IDLE;
use crate::wait_graph::commits::{FEW_BYTES, FEW_ENTRIES};
use crate::wait_graph::resolve::by_threads;

fn asleep(times: (i64, i64, i64), stack: &str) -> OffCpu {
    OffCpu {
        start_ns: times.0,
        woken_ns: Some(times.1),
        end_ns: times.2,
        state: 1,
        stack: Some(Stack::of(stack)),
        ..OffCpu::default()
    }
}

/// As above, woken up by the thread of this number.
fn told_by(tid: u64, off: OffCpu) -> OffCpu {
    let thread = Arc::new(Thread { tid: Some(tid), ..Thread::default() });
    OffCpu { waker: Waker { thread: Some(thread), ..Waker::default() }, ..off }
}

fn kworker(times: (i64, i64, i64), state: u64, stack: &str) -> Helper {
    Helper { off: OffCpu { state, ..asleep(times, stack) }, thread: thread("", 77), serves: false }
}

fn thread(name: &str, tid: u64) -> Arc<Thread> {
    Arc::new(Thread { name: name.into(), tid: Some(tid), ..Thread::default() })
}

/// The program itself woke it up.
fn of_program(helper: Helper) -> Helper {
    let waker = Waker { is_own: true, ..Waker::default() };
    Helper { off: OffCpu { waker, ..helper.off }, ..helper }
}

fn events<E: Into<LayerEvent>>(list: Vec<E>) -> Vec<LayerEvent> {
    list.into_iter().map(Into::into).collect()
}

fn lengths(line: &[Segment]) -> Vec<(i64, Phase)> {
    line.iter().map(|p| (p.to - p.from, p.phase)).collect()
}

fn cut<E: Into<LayerEvent>>(
    line: &[(i64, i64, Phase)],
    off: OffCpu,
    seen: Vec<E>,
) -> Vec<(i64, Phase)> {
    cut_of(OpKind::Read, line, off, seen)
}

/// As [`cut`], of an operation of this kind. Thread 77 ended the sleep where `off` names no waker.
fn cut_of<E: Into<LayerEvent>>(
    op: OpKind,
    line: &[(i64, i64, Phase)],
    off: OffCpu,
    seen: Vec<E>,
) -> Vec<(i64, Phase)> {
    let mut events = Events::default();
    seen.into_iter().for_each(|event| events.add(event));
    events.sort();
    let off = [if off.waker.tid().is_none() { told_by(77, off) } else { off }];
    let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
    let end_ns = line.last().map_or(1_000, |(_, to, _)| *to);
    let io = TracedIo { end_ns, op, worker: 3, dev: Some("7:1".into()), ..TracedIo::default() };
    let part = |(from, to, phase): &(i64, i64, Phase)| {
        Segment::new(TimeSpan::new(*from, *to), *phase, Source::Stamps)
    };
    lengths(&by_threads(line.iter().map(part).collect(), &io, &context))
}

#[test]
fn a_thread_that_tells_of_a_completion_may_wait_for_a_cpu_or_a_journal() {
    use Phase::*;
    let line = [(0, 100, Device), (100, 900, Completion), (900, 1000, Cpu)];
    let off = || asleep((0, 900, 1000), "io_cqring_wait");
    let idle = kworker((-500, 110, 890), IDLE, "worker_thread;kthread");
    let expected = vec![(100, Device), (10, Completion), (780, Cpu), (10, Completion), (100, Cpu)];
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
    let other = Helper { thread: thread("", 78), ..idle };
    assert_eq!(cut(&line, off(), vec![other.clone()]).len(), 3, "not who woke it up");
    let late = Helper { thread: thread("kworker/0:1", 78), ..other };
    assert_eq!(cut(&line, off(), vec![late]), expected_late, "and then it was told at once");
    let sync = kworker((110, 880, 890), 2, "submit_bio_wait;blkdev_issue_flush");
    let it = cut(&line, off(), vec![sync]);
    assert_eq!(it[..3], [(100, Device), (10, Completion), (770, Device)]);
}

#[test]
fn two_threads_of_the_kernel_without_numbers_are_not_one() {
    use Phase::*;
    let line = [(0, 100, Device), (100, 900, Completion), (900, 1000, Cpu)];
    let parts = |tid| {
        let row = |times| {
            let thread = Thread { name: "kworker/0:1".into(), tid, ..Thread::default() };
            Helper { thread: thread.into(), ..kworker(times, IDLE, "worker_thread;kthread") }
        };
        let twice = vec![row((-500, 110, 400)), row((450, 500, 890))];
        cut(&line, asleep((0, 900, 1000), "io_cqring_wait"), twice).len()
    };
    assert_eq!(parts(None), 3, "neither for half of it");
    assert_eq!(parts(Some(78)), 7, "one that lost its CPU twice");
}

#[test]
fn a_server_had_the_io_whichever_thread_took_it_there() {
    use Phase::*;
    let io = TracedIo {
        end_ns: 1_000,
        served_ns: Some(50),
        answered_ns: Some(950),
        flags: flags::PUNTED | flags::QUEUED,
        ..TracedIo::default()
    };
    let segment = |from, to, phase| Segment::new(TimeSpan::new(from, to), phase, Source::Silence);
    let line = vec![segment(0, 30, Submit), segment(30, 1_000, Unobserved)];
    let line = by_threads(line, &io, &IoContext::default());
    let expected = [(30, Submit), (20, Unobserved), (900, FileSystem), (50, Unobserved)];
    assert_eq!(lengths(&line), expected);
    assert_eq!(line[2].source, Source::Stamps);
}

#[test]
fn what_a_servers_thread_waits_for_below_it_is_no_more_the_servers() {
    use Phase::*;
    let line = [(0, 100, Submit), (100, 1000, Server)];
    let off = |by| told_by(by, asleep((100, 990, 1000), "wait_woken;sk_wait_data;tcp_recvmsg"));
    let synced = "folio_wait_writeback;file_write_and_wait_range;ext4_sync_file;do_fsync";
    let serving = |times, stack| Helper { serves: true, ..kworker(times, 2, stack) };
    let device = vec![(100, Submit), (100, Server), (600, Device), (200, Server)];
    let row = serving((200, 800, 810), synced);
    assert_eq!(cut(&line, off(77), vec![row.clone()]), device);
    // What another thread syncs, no read waits for.
    assert_eq!(cut(&line, off(78), vec![row.clone()]).len(), 2);
    // A commit does: one backend syncs the log for all.
    let of = |op, row: &Helper| cut_of(op, &line, off(78), vec![row.clone()]);
    assert_eq!(of(OpKind::Commit, &row), device);
    assert_eq!(of(OpKind::Update, &row), device, "a transaction by itself");
    assert_eq!(of(OpKind::SelectPoint, &row).len(), 2);
    let reads = serving((200, 800, 810), "folio_wait_bit_common;filemap_read");
    assert_eq!(of(OpKind::Commit, &reads).len(), 2, "another one's read");
    // Its own backend was busy for long after another one's sync.
    let long = [(0, 100, Submit), (100, 1_000_000, Server)];
    let end = OffCpu { woken_ns: Some(990_000), end_ns: 1_000_000, ..off(78) };
    let sync = serving((200, 600_000, 700_000), synced);
    assert_eq!(cut_of(OpKind::Commit, &long, end, vec![sync]).len(), 2);
    let busy = Helper { off: OffCpu { state: 0, ..row.off.clone() }, ..row.clone() };
    assert_eq!(cut(&line, off(77), vec![busy]).len(), 2, "a CPU of its own is its business");
    let kernel = Helper { serves: false, ..row };
    assert_eq!(cut(&line, off(77), vec![kernel]).len(), 2, "no thread of the server");
}

#[test]
fn a_worker_of_the_kernel_may_lose_its_cpu_several_times() {
    use Phase::*;
    let line = [(0, 100, Device), (100, 900, Completion), (900, 1000, Cpu)];
    let off = || asleep((0, 900, 1000), "io_cqring_wait");
    let robbed = |from, to| Helper {
        thread: thread("kworker/1:2", 78),
        ..kworker((from, from, to), 0, "iomap_dio_complete_work")
    };
    let it = cut(&line, off(), vec![robbed(120, 400), robbed(450, 700), robbed(720, 890)]);
    let cpu = |list: &[(i64, Phase)]| -> i64 {
        list.iter().filter(|(_, p)| *p == Cpu).map(|(ns, _)| ns).sum()
    };
    assert_eq!(cpu(&it), 280 + 250 + 170 + 100);
    assert_eq!(cpu(&cut(&line, off(), vec![robbed(720, 890)])), 100, "a small part of it");
}

#[test]
fn a_polling_thread_of_io_uring_waits_for_a_cpu_or_a_limit() {
    use Phase::*;
    let line = [(0, 500, Unobserved), (500, 700, Device), (700, 1000, Completion)];
    let off = || asleep((0, 990, 1000), "io_cqring_wait");
    let row = |times, state, stack| RingThread {
        off: OffCpu { state, worker: Some(3), ..asleep(times, stack) },
        token: None,
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
    let other = OffCpu { worker: Some(4), ..robbed.off.clone() };
    let other = RingThread { off: other, token: None };
    assert_eq!(cut(&line, off(), vec![other]).len(), 3, "polls for another thread");
    let handed = RingThread { token: Some(9), ..robbed };
    assert_eq!(cut(&line, off(), vec![handed]).len(), 3, "did another I/O");
}

#[test]
fn a_stop_replaces_what_the_program_did_and_leaves_device_and_server() {
    use Phase::*;
    let line = [(0, 100, Submit), (100, 700, IoWorker), (700, 800, Device), (800, 1000, Server)];
    let off = || asleep((50, 750, 760), "do_signal_stop;get_signal");
    let expected = vec![(50, Submit), (650, Stopped), (100, Device), (200, Server)];
    assert_eq!(cut(&line, off(), Vec::<LayerEvent>::new()), expected);
}

#[test]
fn a_request_waits_for_the_cpu_of_the_thread_that_gives_it_to_the_driver() {
    use Phase::*;
    let line = [(0, 10, Submit), (10, 950, Queue), (950, 1000, Device)];
    let off = || asleep((5, 995, 1000), "blkdev_issue_flush");
    let kblockd = kworker((-50, 12, 940), IDLE, "worker_thread");
    let own = of_program(kblockd.clone());
    let expected = vec![(10, Submit), (2, Queue), (928, Cpu), (10, Queue), (50, Device)];
    assert_eq!(cut(&line, off(), vec![own]), expected);
    assert_eq!(cut(&line, off(), vec![kblockd]).len(), 3, "woken by whatever else");
}

#[test]
fn kblockd_needs_nobody_to_wake_it_up() {
    use Phase::*;
    let line = [(0, 10, Submit), (10, 950, Queue), (950, 1000, Device)];
    let off = || asleep((5, 995, 1000), "blkdev_issue_flush");
    let called = |name: &str| Helper {
        thread: thread(name, 77),
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
    let off = || asleep((10, 900, 1000), "jbd2_log_wait_commit");
    let starved = kworker((20, 25, 500), 1, "kjournald2;kthread");
    let flush = Flush { start_ns: 520, end_ns: 890, dev: Some("7:1".into()) };
    let expected = vec![
        (10, Submit),
        (15, FileSystem),
        (475, Cpu),
        (20, FileSystem),
        (370, Device),
        (10, FileSystem),
        (100, Cpu),
    ];
    let both: Vec<LayerEvent> = vec![starved.clone().into(), flush.clone().into()];
    assert_eq!(cut(&line, off(), both), expected);
    let full = asleep((10, 900, 1000), "__jbd2_log_wait_for_space");
    assert_eq!(cut(&line, full, vec![flush])[1], (890, FileSystem), "no sync was asked for");
    let other = Helper { thread: thread("", 78), ..starved.clone() };
    assert_eq!(cut(&line, off(), vec![other]).len(), 3, "another thread");
    let writes = kworker((20, 880, 885), 2, "jbd2_journal_commit_transaction;kjournald2");
    let server = Helper {
        thread: thread("kworker/u8:1", 79),
        ..kworker((-50, 30, 870), IDLE, "worker_thread")
    };
    let it = cut(&line, off(), vec![writes.clone(), server]);
    assert_eq!(it[..3], [(10, Submit), (20, FileSystem), (840, Cpu)], "the loop's");
    assert_eq!(cut(&line, off(), vec![writes.clone()])[1], (870, FileSystem));
    let gives = Helper {
        thread: thread("kworker/0:1H", 80),
        ..kworker((-50, 60, 870), IDLE, "worker_thread")
    };
    let it = cut(&line, off(), vec![writes, gives]);
    assert_eq!(it[1..3], [(50, FileSystem), (810, Cpu)], "who gives the disk its writes");
    let lock = asleep((10, 900, 1000), "rwsem_down_read_slowpath");
    let busy = kworker((20, 300, 310), 2, "jbd2_journal_commit_transaction;kjournald2");
    assert_eq!(cut(&line, lock.clone(), vec![busy]).len(), 3, "no commit");
    assert_eq!(cut(&line, lock, vec![starved])[2], (475, Cpu), "but held by who had no CPU");
}

#[test]
fn a_wait_that_a_thread_of_the_kernel_ends_waits_for_its_cpu() {
    use Phase::*;
    let line = |phase| [(0, 10, Submit), (10, 900, phase), (900, 1000, Cpu)];
    let off = |stack: &str| asleep((10, 900, 1000), stack);
    let starved = |woken| kworker((-50, woken, 890), IDLE, "worker_thread;kthread");
    let flusher = "wb_wait_for_completion;sync_inodes_sb;__x64_sys_syncfs";
    let cpu = |phase| vec![(10, Submit), (40, phase), (840, Cpu), (10, phase), (100, Cpu)];
    assert_eq!(cut(&line(PageCache), off(flusher), vec![starved(50)]), cpu(PageCache));
    let extents = "btrfs_start_ordered_extent;btrfs_wait_ordered_range;btrfs_sync_file;do_fsync";
    assert_eq!(cut(&line(FileSystem), off(extents), vec![starved(50)]), cpu(FileSystem));
    let strange = "wait_for_completion;__flush_work;lru_add_drain_all";
    assert_eq!(cut(&line(Unobserved), off(strange), vec![starved(50)]), cpu(Unobserved));
    let answer = "schedule_timeout;wait_woken;sk_wait_data;tcp_recvmsg";
    assert_eq!(cut(&line(Server), off(answer), vec![starved(50)]), cpu(Server));
    let same =
        |phase, stack: &str, row: Helper| cut(&line(phase), off(stack), vec![row]).len() == 3;
    assert!(same(PageCache, flusher, starved(500)), "for less than half of it");
    let other = Helper { thread: thread("", 78), ..starved(50) };
    assert!(same(PageCache, flusher, other), "who did not end it");
    assert!(same(PageCache, "io_cqring_wait", starved(50)), "the sleep was for another I/O");
    let server = Helper { serves: true, ..starved(50) };
    assert!(same(PageCache, flusher, server), "no thread of the kernel");
}

#[test]
fn an_answer_may_have_come_when_who_took_it_had_a_cpu_again() {
    let mut events = Events::default();
    events.add(kworker((-50, 50, 890), IDLE, "run_ksoftirqd;kthread"));
    events.sort();
    let io = TracedIo { end_ns: 1_000, ..TracedIo::default() };
    let source = |phase, stack: &str| {
        let off = [told_by(77, asleep((10, 900, 1000), stack))];
        let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
        let segment = Segment::new(TimeSpan::new(10, 900), phase, Source::OwnSleep);
        waking_thread_waits(&segment, &io, &context).first().map(|wait| wait.source)
    };
    assert_eq!(source(Phase::Server, "wait_woken;tcp_recvmsg"), Some(Source::Inferred));
    let extents = "btrfs_wait_ordered_range;btrfs_sync_file;do_fsync";
    assert_eq!(source(Phase::FileSystem, extents), Some(Source::Helper));
}

#[test]
fn who_commits_is_tied_to_the_sleep_that_it_ended_and_to_none_before() {
    use Phase::*;
    let lock = asleep((10, 600, 605), "rwsem_down_write_slowpath;ext4_buffered_write_iter");
    let commit = told_by(77, asleep((610, 900, 1000), "jbd2_log_wait_commit;ext4_sync_file"));
    let cut_with = |row: Helper| {
        let mut events = Events::default();
        events.add(row);
        events.sort();
        let off = [lock.clone(), commit.clone()];
        let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
        let io = TracedIo { end_ns: 1_000, ..TracedIo::default() };
        let part = |from, to, phase| Segment::new(TimeSpan::new(from, to), phase, Source::Stamps);
        let line = vec![part(0, 10, Submit), part(10, 900, FileSystem), part(900, 1000, Cpu)];
        lengths(&by_threads(line, &io, &context))
    };
    let none = vec![(10, Submit), (890, FileSystem), (100, Cpu)];
    assert_eq!(cut_with(kworker((20, 25, 500), 1, "kjournald2;kthread")), none);
    let late = vec![(10, Submit), (600, FileSystem), (190, Cpu), (100, FileSystem), (100, Cpu)];
    assert_eq!(cut_with(kworker((20, 25, 800), 1, "kjournald2;kthread")), late);
}

#[test]
fn who_ended_the_threads_own_sleep_did_not_end_that_of_the_worker_that_had_the_io() {
    let mut events = Events::default();
    events.add(kworker((-50, 50, 890), IDLE, "worker_thread;kthread"));
    events.sort();
    let io = TracedIo { end_ns: 1_000, ..TracedIo::default() };
    let segment = Segment::new(TimeSpan::new(10, 900), Phase::FileSystem, Source::Holder);
    let slept = |by| [told_by(by, asleep((10, 900, 1000), "btrfs_wait_ordered_range;do_fsync"))];
    let found = |off: &[OffCpu], worker_off: &[OffCpu]| {
        let context = IoContext { all: Some(&events), off, worker_off, ..IoContext::default() };
        waking_thread_waits(&segment, &io, &context).len()
    };
    assert_eq!(found(&slept(77), &[]), 1);
    assert_eq!(found(&slept(78), &slept(77)), 1);
    assert_eq!(found(&slept(77), &slept(78)), 0);
}

#[test]
fn a_completion_waits_for_the_cpu_of_the_thread_that_tells_of_it() {
    use Phase::*;
    const END: i64 = 9_000_000;
    let line = [(0, 10, Submit), (10, END, Device), (END, END + 10, Completion)];
    let off = |by| told_by(by, asleep((5, END + 5, END + 10), "io_schedule;blkdev_direct_IO"));
    let called = |name: &str, woken, end| Helper {
        thread: thread(name, 77),
        ..kworker((-50, woken, end), 1, "irq_thread;kthread")
    };
    let cut_by = |by, row| cut(&line, off(by), vec![row]);
    let late = |ns| {
        vec![(10, Submit), (90, Device), (ns - 100, Cpu), (END - ns, Device), (10, Completion)]
    };
    assert_eq!(cut_by(78, called("irq/45-nvme0q1", 100, END - 10)), late(END - 10));
    assert_eq!(
        cut_by(77, called("kworker/3:2", 100, END - 10)),
        late(END - 10),
        "which woke it up"
    );
    assert_eq!(cut_by(78, called("kworker/3:2", 100, END - 10)).len(), 3, "of whatever else");
    let earlier = told_by(77, asleep((5, 60, 70), "io_cqring_wait"));
    let of_another = cut(&line, earlier, vec![called("kworker/3:2", 100, END - 10)]);
    assert_eq!(of_another.len(), 3, "which woke it up for another I/O");
    assert_eq!(cut_by(78, called("irq/45-nvme0q1", END / 2 + 10, END - 10)).len(), 3, "half of it");
    assert_eq!(cut_by(78, called("irq/45-nvme0q1", 100, END / 2 + 100)).len(), 3, "long before");
    // A thread that polls for its I/O has no end of it while it has no CPU.
    let robbed =
        OffCpu { state: 0, ..asleep((100, 100, END - 10), "io_do_iopoll;io_iopoll_check") };
    assert_eq!(cut(&line, robbed, Vec::<LayerEvent>::new()), late(END - 10));
    let busy = OffCpu { state: 0, ..asleep((100, 100, END - 10), "exit_to_user_mode_loop") };
    assert_eq!(cut(&line, busy, Vec::<LayerEvent>::new()).len(), 3, "the end comes by itself");
}

#[test]
fn only_the_wake_up_that_follows_ties_who_tells_of_a_completion_to_it() {
    const END: i64 = 9_000_000;
    let row = kworker((-50, 100, END - 10), 1, "irq_thread;kthread");
    let mut events = Events::default();
    // An interrupt of any device woke it up while the program's thread had that CPU.
    events.add(of_program(Helper { thread: thread("irq/45-nvme0q1", 77), ..row }));
    events.sort();
    let io = TracedIo { end_ns: END + 10, ..TracedIo::default() };
    let segment = Segment::new(TimeSpan::new(10, END), Phase::Device, Source::Stamps);
    let sources = |by, wake| {
        let off = [told_by(by, asleep((5, wake, END + 10), "io_cqring_wait"))];
        let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
        late_tellers(&segment, &io, &context).iter().map(|wait| wait.source).collect::<Vec<_>>()
    };
    assert_eq!(sources(77, END + 5), [Source::Helper]);
    assert_eq!(sources(78, END + 5), [Source::Inferred], "no more than at the same time");
    assert_eq!(sources(77, 50), [Source::Inferred], "of another I/O");
}

#[test]
fn a_commit_of_few_entries_waits_for_the_disk_where_one_write_takes_long() {
    use Phase::*;
    const LONG: i64 = 9_000_000;
    let line = [(0, 10, Submit), (10, LONG, FileSystem), (LONG, LONG + 100, Cpu)];
    let write = |start_ns, end_ns, size| Neighbour {
        start_ns,
        end_ns,
        size,
        dev: Some("7:1".into()),
        thread: Some(Thread::named("jbd2/loop1-8")),
        operation: Some(1 << 12 | 1),
        ..Neighbour::default()
    };
    let commit_of = |start_ns, dev: &str| {
        LayerEvent::from(Commit { start_ns, end_ns: LONG - 10, dev: Some(dev.into()) })
    };
    let few = || vec![write(20, 30, 4096), write(40, LONG - 20, 4096)];
    let cut_with = |stack, writes: Vec<Neighbour>, others: Vec<LayerEvent>| {
        let off = asleep((10, LONG, LONG + 100), stack);
        cut(&line, off, [events(writes), others].concat())
    };
    let cut_by = |stack, writes| cut_with(stack, writes, vec![commit_of(15, "7:1")]);
    let commit = "jbd2_log_wait_commit;ext4_sync_file";
    assert_eq!(cut_by(commit, few())[2], (LONG - 60, Device));
    let block = "do_get_write_access;ext4_map_blocks";
    assert_eq!(cut_by(block, few())[2], (LONG - 60, Device));
    let other = |change: &dyn Fn(&mut Neighbour)| {
        let mut writes = few();
        writes.iter_mut().for_each(change);
        cut_by(commit, writes).len()
    };
    assert_eq!(other(&|io| io.thread = Some(Thread::named("tar"))), 3, "of whoever else");
    assert_eq!(other(&|io| io.operation = Some(1)), 3, "data");
    assert_eq!(other(&|io| io.dev = Some("7:2".into())), 3, "another disk's");
    let elsewhere = cut_with(commit, few(), vec![commit_of(15, "7:2")]);
    assert_eq!(elsewhere.len(), 3, "another disk's commit");
    assert_eq!(cut_by("__jbd2_log_wait_for_space", few()).len(), 3, "waits for room");
    assert_eq!(cut_by("xlog_wait_on_iclog;xfs_log_force_seq", few()).len(), 3, "no journal");
    let more = [few(), vec![write(50, 60, 1024); FEW_ENTRIES]].concat();
    assert_eq!(cut_by(commit, more).len(), 3, "there was much to write");
    let crowded = [few(), vec![write(30, LONG - 10, FEW_BYTES)]].concat();
    assert_eq!(cut_by(commit, crowded).len(), 3, "behind others");
    let backup = Some(Thread::named("backup"));
    let beside = |from, to| Neighbour { thread: backup.clone(), ..write(from, to, 2 * FEW_BYTES) };
    let quick = [few(), vec![beside(50, 60); FEW_ENTRIES]].concat();
    assert_eq!(cut_by(commit, quick)[2], (LONG - 60, Device), "others are soon served");
    let queue = vec![beside(50, LONG / 11); 3];
    assert_eq!(cut_by(commit, [few(), queue].concat()).len(), 3, "quick, but many at a time");
    let busy = [few(), vec![beside(50, LONG / 2)]].concat();
    assert_eq!(cut_by(commit, busy).len(), 3, "others are not");
    let begun = [few(), vec![write(-80, 5, FEW_BYTES)]].concat();
    let begun = cut_with(commit, begun, vec![commit_of(-90, "7:1"), commit_of(15, "7:1")]);
    assert_eq!(begun.len(), 3, "and most of it was done before");
    assert_eq!(cut_with(commit, few(), Vec::new()).len(), 3, "no commit that was seen");
    let half = LONG / 3;
    let short = vec![write(20, half, 4096), write(half, 2 * half, 4096)];
    assert_eq!(cut_by(commit, short).len(), 3, "no single one");
    let starved = kworker((20, 25, LONG - 40), 1, "kjournald2;kthread");
    let it = cut_with(commit, few(), vec![starved.into(), commit_of(15, "7:1")]);
    assert_eq!(it[2], (LONG - 65, Cpu), "whose CPU was not to be had is not the disk's");
}

/// As syncfs does: a kernel thread writes, and one write of it takes long.
#[test]
fn a_sync_of_all_that_is_dirty_waits_for_the_disk_where_one_write_takes_long() {
    use Phase::*;
    const LONG: i64 = 9_000_000;
    let line = [(0, 10, Submit), (10, LONG, PageCache), (LONG, LONG + 100, Cpu)];
    let write = |size| Neighbour {
        start_ns: 40,
        end_ns: LONG - 20,
        size,
        dev: Some("7:1".into()),
        thread: Some(Thread::named("kworker/u8:2")),
        operation: Some(1),
        ..Neighbour::default()
    };
    let cut_by =
        |stack, write: Neighbour| cut(&line, asleep((10, LONG, LONG + 100), stack), vec![write]);
    let all = "wb_wait_for_completion;sync_inodes_sb;sync_filesystem;__x64_sys_syncfs";
    assert_eq!(cut_by(all, write(4096))[2], (LONG - 60, Device));
    assert_eq!(cut_by(all, write(2 * FEW_BYTES)).len(), 3, "there was much to write");
    let of_another = Neighbour { thread: Some(Thread::named("tar")), ..write(4096) };
    assert_eq!(cut_by(all, of_another).len(), 3, "no thread of the kernel's");
    let held = Neighbour { owner: Owner::Held, ..write(4096) };
    assert_eq!(cut_by(all, held).len(), 3, "whose begin is that of a limit's end");
    assert_eq!(cut_by("balance_dirty_pages;ext4_write", write(4096)).len(), 3, "no sync");
}

#[test]
fn a_completion_that_waits_for_the_log_of_xfs_waits_for_the_disk() {
    use Phase::*;
    const LONG: i64 = 9_000_000;
    let line = [(0, 10, Submit), (10, 50, Device), (50, LONG, Completion)];
    let wait = kworker((60, LONG - 30, LONG - 20), 2, "xlog_wait_on_iclog;xfs_file_fsync");
    let write = |start_ns, size| Neighbour {
        start_ns,
        end_ns: LONG - 40,
        size,
        dev: Some("7:1".into()),
        thread: Some(Thread::named("kworker/1:6")),
        operation: Some(1 << 12 | 1),
        ..Neighbour::default()
    };
    let cut_off = |wait: &Helper, writes: Vec<Neighbour>| {
        let off = asleep((5, LONG - 20, LONG), "io_cqring_wait");
        let parts = cut(&line, off, [events(vec![wait.clone()]), events(writes)].concat());
        parts.into_iter().max().expect("parts")
    };
    let cut_by = |writes: Vec<Neighbour>| cut_off(&wait, writes);
    assert_eq!(cut_by(vec![write(70, 4096)]), (LONG - 110, Device));
    assert_eq!(cut_by(vec![write(70, 32 << 10)]).1, FileSystem, "a whole buffer");
    assert_eq!(cut_by(vec![write(LONG / 2 + 1_000, 4096)]).1, FileSystem, "not most of it");
    assert_eq!(cut_by(vec![]).1, FileSystem, "nothing was on the disk");
    let changed = |change: &dyn Fn(&mut Neighbour)| {
        let mut io = write(70, 4096);
        change(&mut io);
        cut_by(vec![io]).1
    };
    assert_eq!(changed(&|io| io.size = 0), FileSystem, "a flush");
    assert_eq!(changed(&|io| io.operation = Some(1)), FileSystem, "data");
    assert_eq!(changed(&|io| io.dev = Some("7:2".into())), FileSystem, "another disk's");
    let ext4 = || Some(Thread::named("jbd2/loop1-8"));
    assert_eq!(changed(&|io| io.thread = ext4()), FileSystem, "ext4's");
    let much = vec![Neighbour { end_ns: LONG / 4, ..write(70, 32 << 10) }; 4];
    let much = [much, vec![write(LONG / 4, 4096)]].concat();
    assert_eq!(cut_by(much).1, FileSystem, "most of it was done before");
    let another = Helper { thread: thread("", 78), ..wait.clone() };
    assert_ne!(cut_off(&another, vec![write(70, 4096)]).1, Device, "who did not tell of it");
}

#[test]
fn the_thread_that_serves_a_loop_device_may_wait_for_a_cpu() {
    use Phase::*;
    let line = [(0, 10, Submit), (10, 990, Device), (990, 1000, Completion)];
    let off = || told_by(78, asleep((5, 995, 1000), "io_schedule;blkdev_direct_IO"));
    let strange = kworker((-50, 12, 900), IDLE, "worker_thread");
    let own = of_program(strange.clone());
    let expected = vec![(10, Submit), (2, Device), (888, Cpu), (90, Device), (10, Completion)];
    assert_eq!(cut(&line, off(), vec![own.clone()]), expected);
    assert_eq!(cut(&line, off(), vec![strange.clone()]).len(), 3, "of whatever else");
    let named = |name: &str| Helper { thread: thread(name, 77), ..strange.clone() };
    assert_eq!(cut(&line, off(), vec![named("kworker/u8:1")]), expected, "passed on");
    assert_eq!(cut(&line, off(), vec![named("ksoftirqd/0")]), expected, "tells of the end");
    assert_eq!(cut(&line, off(), vec![named("kworker/1:1")]).len(), 3);
    let io = TracedIo { end_ns: 1_000, ..TracedIo::default() };
    let tied = |row: Helper| tie(&row, &io, &IoContext::default());
    assert_eq!(tied(named("kworker/u8:1")), Source::Inferred);
    assert_eq!(tied(own), Source::Helper, "the program woke it up");
    let told = [asleep((5, 995, 1000), "io_cqring_wait")];
    let by_interrupt = IoContext { off: &told, ..IoContext::default() };
    let nameless = Helper { thread: Thread::named("kworker/u8:1"), ..strange.clone() };
    assert_eq!(tie(&nameless, &io, &by_interrupt), Source::Inferred, "two unknown numbers");
    let fuse = kworker((20, 980, 985), 1, "request_wait_answer;fuse_direct_io;lo_rw_aio");
    let sum = |list: &[(i64, Phase)]| -> i64 {
        list.iter().filter(|(_, p)| *p == Device).map(|(ns, _)| ns).sum()
    };
    assert!(sum(&cut(&line, off(), vec![fuse])) > 960, "a file of FUSE is the device");
}
