//! Time lines of made-up I/Os.

use proptest::prelude::*;
use taillight_core::OpKind;

use super::*;
use crate::events::Events;
use crate::events::event::{HeldPart, Helper, LayerEvent, OffCpu, Reclaim, RingThread, Waker};
use crate::events::io::{LowerStamps, Parts};
use crate::events::rounds::BlockRound;
use crate::events::stacks::Stack;
use crate::events::thread::Thread;
use crate::time_line::segments::lengths;
use crate::wait_graph::resolve::segments;

mod blocks;

const NONE: Option<Parts> = Some(Parts { queued: 0, done: 0 });

/// All of so many parts.
fn whole(parts: u64) -> Option<Parts> {
    Some(Parts { queued: parts, done: parts })
}

fn io() -> TracedIo {
    TracedIo {
        op: OpKind::Write,
        start_ns: 1000,
        end_ns: 2000,
        parts: whole(1),
        bio_ns: Some(1100),
        bio_last_ns: Some(1100),
        alloc_ns: Some(1150),
        issue_ns: Some(1200),
        done_ns: Some(1800),
        wake_ns: Some(1810),
        run_ns: Some(1900),
        ..TracedIo::default()
    }
}

fn off(from: i64, wake: Option<i64>, to: i64, stack: &str) -> OffCpu {
    OffCpu {
        start_ns: from,
        end_ns: to,
        woken_ns: wake,
        state: u64::from(wake.is_some()),
        stack: Some(Stack::of(stack)),
        ..OffCpu::default()
    }
}

/// Queued, allocated, issued, done.
fn round(bio: i64, alloc: i64, issue: i64, done: i64) -> BlockRound {
    BlockRound {
        bio,
        alloc: Some(alloc),
        issue: Some(issue),
        done: Some(done),
        ..BlockRound::default()
    }
}

fn all(io: &TracedIo, context: &IoContext<'_>) -> Vec<(u64, Phase)> {
    let segments = segments(io, context);
    assert_eq!(lengths(&segments).sum(), (io.end_ns - io.start_ns) as u64);
    let length = |p: &Segment| ((p.to - p.from) as u64, p.phase);
    segments.iter().map(length).collect()
}

#[test]
fn an_io_of_one_part_is_cut_at_its_stamps() {
    use Phase::*;
    let expected = [
        (100, Submit),
        (50, Tags),
        (50, Queue),
        (600, Device),
        (10, Completion),
        (90, Cpu),
        (100, Application),
    ];
    assert_eq!(all(&io(), &IoContext::default()), expected);
}

#[test]
fn a_queued_io_is_not_what_its_thread_did() {
    let queued = TracedIo {
        bio_ns: None,
        parts: NONE,
        flags: flags::QUEUED,
        slept_ns: Some(1),
        wake_ns: None,
        ..io()
    };
    assert_eq!(all(&queued, &IoContext::default()), [(1000, Phase::Unobserved)]);
    let served = TracedIo { served_ns: Some(1100), answered_ns: Some(1900), ..queued.clone() };
    let expected = [(100, Phase::Submit), (800, Phase::FileSystem), (100, Phase::Application)];
    assert_eq!(all(&served, &IoContext::default()), expected);
    let inline = TracedIo { slept_ns: Some(0), ..queued };
    assert_eq!(all(&inline, &IoContext::default()), [(1000, Phase::Submit)]);
}

#[test]
fn the_sync_of_a_write_begins_where_the_write_ends() {
    use Phase::*;
    // Written in 1100..1300, the sync handed over at 1400, its flush in 1600..1800.
    let both = TracedIo {
        rounds: 1,
        sync_punt_ns: Some(1400),
        bio_ns: Some(1600),
        bio_last_ns: Some(1600),
        alloc_ns: Some(1600),
        issue_ns: Some(1600),
        parts: whole(2),
        ..io()
    };
    let expected = [
        (100, Submit),
        (10, Tags),
        (10, Queue),
        (180, Device),
        (100, Application),
        (200, IoWorker),
        (200, Device),
        (10, Completion),
        (90, Cpu),
        (100, Application),
    ];
    let earlier = [round(1100, 1110, 1120, 1300)];
    let context = IoContext { earlier: &earlier, ..IoContext::default() };
    assert_eq!(all(&both, &context), expected);
    // The flush is another thread's: what the worker did meanwhile is not seen here.
    let one = TracedIo { sync_punt_ns: Some(1850), wake_ns: None, ..io() };
    let expected =
        [(100, Submit), (50, Tags), (50, Queue), (600, Device), (50, Application), (150, IoWorker)];
    assert_eq!(all(&one, &IoContext::default()), expected);
}

#[test]
fn a_worker_that_waits_for_a_cpu_after_its_flush_is_no_late_completion() {
    let all_of = |events: &Events| {
        let both = TracedIo { token: Some(7), sync_punt_ns: Some(1050), wake_ns: None, ..io() };
        lengths(&segments(&both, &IoContext::of(events, 0)))
    };
    let mut events = Events::default();
    let flush = "submit_bio_wait;blkdev_issue_flush";
    assert_eq!(all_of(&events).get(Phase::Cpu), 0);
    events.add(worker(Some(7), 1110, Some(1820), 1950, flush));
    let it = all_of(&events);
    assert_eq!((it.get(Phase::Cpu), it.get(Phase::Completion)), (130, 20));
}

/// A write without block I/O, handed to a worker at 1010; its completion posted at `cqe`.
fn punted(cqe: Option<i64>) -> TracedIo {
    TracedIo {
        token: Some(7),
        parts: NONE,
        flags: flags::QUEUED | flags::PUNTED,
        punt_ns: Some(1010),
        cqe_ns: cqe,
        bio_ns: None,
        wake_ns: None,
        run_ns: None,
        ..io()
    }
}

fn worker(token: Option<u64>, from: i64, wake: Option<i64>, to: i64, stack: &str) -> RingThread {
    RingThread { off: off(from, wake, to, stack), token }
}

#[test]
fn a_write_behind_a_worker_waits_for_what_the_worker_waits_for() {
    let room = "reclaim_throttle;try_to_free_pages";
    let mut events = Events::default();
    // In the order of their begins: one that had nothing to do was woken up late.
    events.add(worker(None, 500, Some(1940), 1990, "io_wq_worker"));
    events.add(worker(Some(6), 1020, Some(1900), 1910, room));
    let it = lengths(&segments(&punted(Some(1960)), &IoContext::of(&events, 0)));
    let expected = [
        (Phase::PageCache, 880),
        (Phase::Cpu, 10 + 20),
        (Phase::IoWorker, 10 + 30),
        (Phase::Submit, 10),
        (Phase::Application, 40),
    ];
    for (phase, ns) in expected {
        assert_eq!(it.get(phase), ns, "{phase:?}");
    }
}

#[test]
fn a_write_waits_for_its_worker_no_longer_than_until_it_is_done() {
    let mut events = Events::default();
    events.add(worker(None, 500, Some(1015), 1400, "io_wq_worker"));
    // The program's thread is told of it and has no CPU either.
    let asleep = off(1020, Some(1410), 1990, "io_cqring_wait");
    events.off.insert(0, vec![asleep]);
    let it = lengths(&segments(&punted(Some(1405)), &IoContext::of(&events, 0)));
    assert_eq!(it.get(Phase::Cpu), 385 + 580);
    assert_eq!(it.get(Phase::IoWorker), 5 + 5);
}

#[test]
fn a_worker_that_makes_room_in_memory_on_the_cpu_is_in_the_page_cache() {
    let room = |token| Reclaim { start_ns: 1100, end_ns: 1900, token: Some(token), worker: None };
    for token in [7, 6] {
        let mut events = Events::default();
        events.add(room(token));
        events.add(worker(Some(token), 1200, None, 1300, "shrink_lruvec"));
        let it = lengths(&segments(&punted(Some(1950)), &IoContext::of(&events, 0)));
        let both = (it.get(Phase::PageCache), it.get(Phase::Cpu));
        assert_eq!(both, (700, 100), "its own or another's: {token}");
    }
}

#[test]
fn a_wait_for_a_lock_is_what_its_holder_in_the_load_waits_for() {
    let waits = |other: &str, holder: &str| {
        let waker = Waker { thread: Some(Thread::named(other)), ..Waker::default() };
        let waiter = OffCpu {
            worker: Some(0),
            waker,
            ..off(1010, Some(1090), 1090, "rwsem_down_write_slowpath;ext4_write")
        };
        let mut events = Events::default();
        events.off.insert(0, vec![waiter]);
        events.off.insert(1, vec![off(1000, Some(1080), 1085, holder)]);
        lengths(&segments(&io(), &IoContext::of(&events, 0)))
    };
    let reclaims = waits("swapper/1", "reclaim_throttle;try_to_free_pages");
    assert_eq!(reclaims.get(Phase::PageCache), 80);
    let strange = waits("fsstress", "reclaim_throttle;try_to_free_pages");
    assert_eq!(strange.get(Phase::FileSystem), 80, "another program held it");
    let unknown = waits("swapper/1", "something_new");
    assert_eq!(unknown.get(Phase::FileSystem), 80);
    for outside in ["do_epoll_wait;__x64_sys_epoll_wait", "futex_wait_queue;futex_wait"] {
        let without = waits("swapper/1", outside);
        assert_eq!(without.get(Phase::FileSystem), 80, "who sleeps there has no lock: {outside}");
    }
}

#[test]
fn a_thread_that_dozed_was_not_busy_with_what_had_not_come() {
    let queued =
        |slept| TracedIo { flags: flags::QUEUED, slept_ns: Some(slept), wake_ns: None, ..io() };
    let application =
        |io: TracedIo| lengths(&segments(&io, &IoContext::default())).get(Phase::Application);
    assert_eq!(application(queued(10)), 200);
    assert_eq!(application(queued(700)), 0);
}

#[test]
fn a_thread_that_slept_before_its_answer_was_there_was_busy_when_it_did_not_take_it() {
    let posted = |run: i64, more: u64| TracedIo {
        flags: flags::QUEUED | more,
        slept_ns: Some(700),
        wake_ns: Some(run - 5),
        run_ns: Some(run),
        cqe_ns: Some(2000),
        ..io()
    };
    let application =
        |io: TracedIo| lengths(&segments(&io, &IoContext::default())).get(Phase::Application);
    assert_eq!(application(posted(1700, 0)), 200, "not off its CPU since then");
    assert_eq!(application(posted(1900, 0)), 100, "nor since it came back");
    assert_eq!(application(posted(1700, flags::PUNTED)), 0, "a worker posts it");
    assert_eq!(application(TracedIo { cqe_ns: None, ..posted(1700, 0) }), 0, "an interrupt does");
}

#[test]
fn who_asks_for_events_while_its_io_is_in_the_device_waits_for_no_server() {
    use Phase::*;
    let cut = |from: i64| {
        let asleep = [off(from, Some(1950), 1960, "ep_poll;do_epoll_wait;do_syscall_64")];
        all(&io(), &IoContext { off: &asleep, ..IoContext::default() })[3..].to_vec()
    };
    assert_eq!(cut(1300), [(600, Device), (150, Completion), (10, Cpu), (40, Application)]);
    assert_eq!(cut(1850)[2..4], [(100, Server), (10, Cpu)], "a sleep after it");
}

#[test]
fn a_wake_up_that_went_unseen_is_known_where_the_cpu_was_free() {
    let asleep = |comm: &str| {
        let slept = OffCpu {
            ran: Some(Thread::named(comm)),
            state: 1,
            ..off(1010, None, 1060, "request_wait_answer;fuse_read")
        };
        let context = IoContext { off: &[slept], ..IoContext::default() };
        lengths(&segments(&io(), &context))
    };
    assert_eq!(asleep("swapper/1").get(Phase::FileSystem), 50);
    assert_eq!(asleep("rustc").get(Phase::FileSystem), 0);
    assert_eq!(asleep("rustc").get(Phase::Unobserved), 50);
}

#[test]
fn an_unseen_completion_is_unobserved() {
    let parts = Some(Parts { queued: 1, done: 0 });
    let lost = TracedIo { parts, done_ns: None, wake_ns: None, ..io() };
    assert_eq!(all(&lost, &IoContext::default()).last(), Some(&(800, Phase::Unobserved)));
}

#[test]
fn a_held_io_was_throttled() {
    let held = TracedIo { flags: flags::HELD, held_ns: Some(1100), ..io() };
    assert_eq!(all(&held, &IoContext::default())[0], (100, Phase::Throttle));
}

#[test]
fn what_a_thread_slept_for_before_a_limit_took_its_io_is_no_limit() {
    use Phase::*;
    let cut = |more: u64, first: &str| {
        let held = TracedIo {
            flags: flags::HELD | more,
            held_ns: Some(1700),
            bio_ns: Some(1700),
            bio_last_ns: Some(1700),
            alloc_ns: Some(1700),
            issue_ns: Some(1710),
            ..io()
        };
        let rows = [
            off(1010, Some(1400), 1410, first),
            off(1420, Some(1500), 1505, "io_schedule;__iomap_dio_rw"),
            off(1510, Some(1850), 1900, "io_schedule;__iomap_dio_rw"),
        ];
        all(&held, &IoContext { off: &rows, ..IoContext::default() })
    };
    let before = [(10, Submit), (390, FileSystem), (10, Cpu), (10, Submit), (280, Throttle)];
    let lock = "rwsem_down_write_slowpath;ext4_file_write_iter";
    assert_eq!(cut(0, lock)[..5], before);
    let block = "io_schedule;bit_wait_io;ext4_read_bh;ext4_bread;ext4_get_branch";
    assert_eq!(cut(0, block)[..5], before, "which another thread had sent for");
    assert_eq!(cut(flags::QUEUED, lock)[0], (700, Throttle), "for whichever I/O that was");
}

#[test]
fn what_another_thread_queued_that_lets_go_for_no_limit_was_not_throttled() {
    let first = |stack: Option<&str>, token| {
        let mut events = Events::default();
        let (dev, stack) = (Some("8:0".into()), stack.map(Stack::of));
        events.add(HeldPart { start_ns: 1000, end_ns: 1100, token: Some(token), dev, stack });
        let held = TracedIo {
            flags: flags::HELD,
            held_ns: Some(1100),
            token: Some(7),
            dev: Some("8:0".into()),
            ..io()
        };
        let line = segments(&held, &IoContext::of(&events, 0));
        (line[0].length(), line[0].phase, line[0].source)
    };
    let limit = Some("submit_bio_noacct_nocheck;blk_throtl_dispatch_work_fn;process_one_work");
    assert_eq!(first(limit, 7), (100, Phase::Throttle, Source::Stamps));
    let file_system = Some("submit_bio_noacct_nocheck;btrfs_submit_bio;run_one_async_done");
    assert_eq!(first(file_system, 7), (100, Phase::Unobserved, Source::Silence));
    let not_known = (100, Phase::Throttle, Source::Inferred);
    assert_eq!(first(None, 7), not_known);
    assert_eq!(first(file_system, 8), not_known, "another I/O's");
}

#[test]
fn a_sleep_is_named_by_its_stack() {
    let events = [
        off(1010, Some(1050), 1060, "request_wait_answer;fuse_read"),
        off(1820, None, 1870, "exit_to_user_mode_loop"),
    ];
    let context = IoContext { off: &events, ..IoContext::default() };
    let lengths = lengths(&segments(&io(), &context));
    assert_eq!(lengths.get(Phase::FileSystem), 40);
    assert_eq!(lengths.get(Phase::Cpu), 10 + 50);
    assert_eq!(lengths.sum(), 1000);
}

#[test]
fn nothing_is_known_to_be_on_cpu_when_events_were_lost() {
    let cached = TracedIo { bio_ns: None, parts: NONE, ..io() };
    let blind = IoContext { blind: true, ..IoContext::default() };
    assert_eq!(all(&cached, &IoContext::default()), [(1000, Phase::Submit)]);
    assert_eq!(all(&cached, &blind), [(1000, Phase::Unobserved)]);
}

proptest! {
    #[test]
    fn phases_sum_to_the_latency_whatever_the_stamps(
        stamps in prop::collection::vec(prop::option::of(900i64..2100), 12),
        more in prop::collection::vec(prop::option::of(900i64..2100), 6),
        bits in 0u64..128, bios in 0u64..3, parts in 0u64..3, rounds in 0u64..3,
        offs in prop::collection::vec((0i64..1200, 0i64..300, 0i64..300, 0u64..2), 0..4),
    ) {
        let mut at = 900;
        let events: Vec<OffCpu> = offs.iter().map(|(gap, sleep, wait, state)| {
            let from = at + gap;
            at = from + sleep + wait + 1;
            OffCpu { state: *state, ..off(from, Some(from + sleep), at, "mutex_lock") }
        }).collect();
        let io = TracedIo {
            flags: bits, parts: Some(Parts { queued: bios, done: parts }),
            enter_ns: stamps[0], bio_ns: stamps[1], bio_last_ns: stamps[2],
            held_ns: stamps[3], alloc_ns: stamps[4], issue_ns: stamps[5],
            done_ns: stamps[6], wake_ns: stamps[7], run_ns: stamps[8],
            lower: LowerStamps { issue_ns: stamps[9], done_ns: stamps[10], ..LowerStamps::default() },
            rounds, sync_punt_ns: more[4], punt_ns: more[5], token: Some(7), ..io()
        };
        let mut seen = Events::default();
        for (i, off) in events.iter().cloned().enumerate() {
            let (start_ns, end_ns, token) = (off.start_ns, off.end_ns, Some(7 - bits % 2));
            seen.add(match i % 3 {
                0 => LayerEvent::from(RingThread { off, token }),
                1 => Reclaim { start_ns, end_ns, token, worker: None }.into(),
                _ => Helper { off, ..Helper::default() }.into(),
            });
        }
        seen.sort();
        let early = more[0].zip(more[3]).map(|(bio, done)| BlockRound {
            bio, done: Some(done), alloc: more[1], issue: more[2], held: more[1],
            ..BlockRound::default()
        });
        let earlier: Vec<BlockRound> = early.into_iter().collect();
        for (blind, all) in [(false, None), (true, None), (false, Some(&seen)), (true, Some(&seen))] {
            let context =
                IoContext { off: &events, blind, earlier: &earlier, all, ..IoContext::default() };
            let segments = segments(&io, &context);
            prop_assert_eq!(lengths(&segments).sum(), 1000);
            prop_assert!(segments.windows(2).all(|w| w[0].to == w[1].from));
        }
    }
}

#[test]
fn a_worker_is_not_blamed_while_the_thread_that_is_told_has_no_cpu() {
    use Phase::*;
    let io = TracedIo {
        op: OpKind::Write,
        start_ns: 1_000_000,
        punt_ns: Some(1_010_000),
        cqe_ns: Some(9_990_000),
        end_ns: 10_000_000,
        flags: flags::PUNTED | flags::QUEUED,
        ..TracedIo::default()
    };
    let asleep = |wake: i64| [off(1_050_000, Some(wake), 9_950_000, "io_cqring_wait")];
    let line = |off: &[OffCpu]| all(&io, &IoContext { off, ..IoContext::default() });
    // Woken up soon, by the worker that was done: no CPU for 8.85 ms.
    let woken = line(&asleep(1_100_000));
    assert_eq!(woken[..3], [(10_000, Submit), (90_000, IoWorker), (8_850_000, Cpu)]);
    // Woken up late: the worker was, if others were seen at work, or nobody knows.
    let late = line(&asleep(9_940_000));
    assert_eq!(late[..3], [(10_000, Submit), (8_930_000, Unobserved), (10_000, Cpu)]);
    let mut events = Events::default();
    events.add(worker(Some(6), 1_000_000, Some(9_900_000), 9_900_100, "submit_bio_wait"));
    let off = asleep(9_940_000);
    let context = IoContext { off: &off, all: Some(&events), ..IoContext::default() };
    let waited = lengths(&segments(&io, &context));
    assert!(waited.get(IoWorker) > 8_900_000, "{waited:?}");
}

#[test]
fn a_worker_whose_first_part_is_held_back_is_told_of_no_earlier_one() {
    let io = TracedIo {
        token: Some(7),
        flags: flags::QUEUED | flags::PUNTED | flags::HELD,
        punt_ns: Some(1010),
        sync_punt_ns: Some(1020),
        held_ns: Some(1700),
        bio_ns: Some(1700),
        bio_last_ns: Some(1700),
        alloc_ns: Some(1700),
        issue_ns: Some(1700),
        ..io()
    };
    let mut events = Events::default();
    events.add(worker(Some(7), 1030, Some(1805), 1810, "submit_bio_wait;blkdev_issue_flush"));
    let it = lengths(&segments(&io, &IoContext::of(&events, 0)));
    assert_eq!((it.get(Phase::Throttle), it.get(Phase::Completion)), (670, 5));
}

/// A write that was handed over at 1,010,000, then its sync at 9,000,000, which is at the disk at once.
fn handed_over_twice(flags: u64) -> TracedIo {
    TracedIo {
        op: OpKind::Write,
        token: Some(7),
        start_ns: 1_000_000,
        end_ns: 10_000_000,
        flags: flags::QUEUED | flags | flags::PUNTED,
        punt_ns: Some(1_010_000),
        sync_punt_ns: Some(9_000_000),
        bio_ns: Some(9_010_000),
        parts: whole(1),
        done_ns: Some(9_900_000),
        issue_ns: Some(9_020_000),
        ..TracedIo::default()
    }
}

#[test]
fn what_the_worker_slept_for_before_the_sync_was_handed_over_is_told() {
    let waits = |state: u64, stack: &str| {
        let mut events = Events::default();
        let asleep = off(1_020_000, Some(8_900_000), 8_950_000, stack);
        events.add(RingThread { off: OffCpu { state, ..asleep }, token: Some(7) });
        let mut context = IoContext::of(&events, 0);
        let own = [off(1_030_000, Some(8_970_000), 8_990_000, "io_cqring_wait")];
        context.off = &own;
        let it = lengths(&segments(&handed_over_twice(0), &context));
        [Phase::FileSystem, Phase::Cpu, Phase::Completion].map(|p| it.get(p))
    };
    assert_eq!(waits(2, "percpu_rwsem_wait;io_write"), [7_880_000, 70_000, 20_000]);
    assert_eq!(waits(0, "task_work_run;io_wq_worker"), [0, 7_950_000, 20_000]);
}

#[test]
fn a_thread_without_cpu_hands_the_sync_over_late() {
    let robbed = [off(1_200_000, None, 8_990_000, "task_work_run")];
    let context = IoContext { off: &robbed, ..IoContext::default() };
    let it = lengths(&segments(&handed_over_twice(0), &context));
    assert_eq!((it.get(Phase::Cpu), it.get(Phase::IoWorker)), (7_790_000, 190_000 + 10_000));
}

#[test]
fn a_limit_that_has_a_part_of_a_worker_is_a_wait_for_the_worker_only_behind_others() {
    let held =
        TracedIo { sync_punt_ns: None, held_ns: Some(9_010_000), ..handed_over_twice(flags::HELD) };
    let it = lengths(&segments(&held, &IoContext::default()));
    assert_eq!((it.get(Phase::Throttle), it.get(Phase::IoWorker)), (8_000_000, 0));
    // Others kept the workers from it for most of that time.
    let mut events = Events::default();
    events.add(worker(Some(6), 1_000_000, Some(8_900_000), 8_900_100, "submit_bio_wait"));
    let it = lengths(&segments(&held, &IoContext::of(&events, 0)));
    assert_eq!((it.get(Phase::Throttle), it.get(Phase::IoWorker)), (0, 8_000_000));
}

#[test]
fn what_a_worker_waited_for_before_a_limit_took_it_is_no_limit() {
    let held =
        TracedIo { sync_punt_ns: None, held_ns: Some(9_010_000), ..handed_over_twice(flags::HELD) };
    let line = |event: LayerEvent| {
        let mut events = Events::default();
        events.add(event);
        let it = lengths(&segments(&held, &IoContext::of(&events, 0)));
        [Phase::Cpu, Phase::PageCache, Phase::Throttle].map(|p| it.get(p))
    };
    let (start_ns, end_ns, token) = (1_020_000, 8_900_000, Some(7));
    let robbed = worker(token, start_ns, None, end_ns, "task_work_run");
    assert_eq!(line(robbed.into()), [7_880_000, 0, 110_000], "it had no CPU");
    let room = Reclaim { start_ns, end_ns, token, worker: None };
    assert_eq!(line(room.into()), [0, 7_880_000, 110_000], "it made room in memory");
}
