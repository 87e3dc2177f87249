//! Made-up I/Os that wait for others.

use proptest::prelude::*;

use super::*;
use crate::events::event::Waker;
use crate::events::io::Parts;
use crate::events::thread::Thread;
use crate::events::{Events, joined};
use crate::verdict::judge::{JudgeInputs, Layer, judge};
use crate::wait_graph::resolve::follow;

fn io(worker: u16, submit: i64, complete: i64, phase: Phase) -> Judged {
    let slow = Slow {
        worker,
        op: OpKind::Update,
        intended_ns: submit,
        submit_ns: submit,
        complete_ns: complete,
    };
    again(slow, None, vec![Segment::new(slow.time(), phase, Source::Stamps)])
}

fn again(slow: Slow, io: Option<TracedIo>, segments: Vec<Segment>) -> Judged {
    judge(slow, io, Some(segments), &JudgeInputs::default())
}

/// Worker 1 was asleep, and this worker woke it up.
fn woken_by(worker: u64) -> Events {
    let mut events = Events::default();
    events.add(OffCpu {
        worker: Some(1),
        start_ns: 10,
        woken_ns: Some(950),
        end_ns: 960,
        state: 1,
        waker: Waker { worker: Some(worker), ..Waker::default() },
        ..OffCpu::default()
    });
    events
}

/// The worker thread of io_uring that had token 7 slept in `stack` until it was woken up by this thread.
fn worker_asleep(woken_by: &str, stack: &str) -> Events {
    let mut events = Events::default();
    let off = OffCpu {
        start_ns: 10,
        woken_ns: Some(9_000_100),
        end_ns: 9_000_200,
        state: 2,
        waker: Waker { thread: Some(Thread::named(woken_by)), ..Waker::default() },
        stack: Some(Stack::of(stack)),
        ..OffCpu::default()
    };
    events.add(RingThread { off, token: Some(7) });
    events
}

/// What an I/O of worker 1 is blamed on that slept in `stack`, in this phase, while an I/O of worker 0 was
/// held back and then in the device until `done`.
fn behind(stack: &str, phase: Phase, done: i64) -> Layer {
    behind_parts(stack, phase, done, 1)
}

/// The same where the I/O of worker 0 sent so many parts.
fn behind_parts(stack: &str, phase: Phase, done: i64, parts: u64) -> Layer {
    let mut events = Events::default();
    events.add(OffCpu {
        worker: Some(1),
        start_ns: 10,
        woken_ns: Some(9_000_100),
        end_ns: 9_000_200,
        state: 2,
        stack: Some(Stack::of(stack)),
        ..OffCpu::default()
    });
    let own = TracedIo { start_ns: 5, end_ns: 9_001_000, worker: 1, ..TracedIo::default() };
    let mut leader = io(0, 0, 9_002_000, Phase::Throttle);
    leader.segments = vec![
        Segment::new(TimeSpan::new(0, done - 100), Phase::Throttle, Source::Stamps),
        Segment::new(TimeSpan::new(done - 100, done), Phase::Device, Source::Stamps),
    ];
    let parts = Some(Parts { queued: parts, done: parts });
    let sent = TracedIo { parts, size: 4096, flags: flags::FLUSH, ..TracedIo::default() };
    let leader = again(leader.slow, Some(sent), leader.segments);
    let follower = io(1, 5, 9_001_000, phase);
    let mut list = vec![again(follower.slow, Some(own), follower.segments), leader];
    follow(&mut list, |_, _| true, &events, again);
    list[0].layer
}

#[test]
fn a_wait_for_pages_of_another_io_is_what_that_io_waits_for() {
    let layer =
        |done| behind("io_schedule;folio_wait_writeback;ext4_sync_file", Phase::PageCache, done);
    assert_eq!(layer(9_000_000), Layer::Throttle);
    assert_eq!(layer(9_000_150), Layer::PageCache, "its pages were done later");
    assert_eq!(layer(5_000_000), Layer::PageCache, "and long before");
    let together = |done, parts| {
        let stack = "io_schedule;folio_wait_writeback;ext4_sync_file";
        behind_parts(stack, Phase::PageCache, done, parts)
    };
    assert_eq!(together(9_000_150, 9), Layer::Throttle, "pages of both were sent together");
    assert_eq!(together(9_000_250, 9), Layer::PageCache, "which began to be done later");
    assert_eq!(together(9_000_150, 5), Layer::PageCache, "its own blocks and a flush");
}

#[test]
fn a_wait_for_a_block_of_the_file_system_is_what_the_io_that_writes_it_waits_for() {
    let inode = "__sync_dirty_buffer;ext4_write_inode;ext4_fsync_nojournal";
    let layer = |done| behind(inode, Phase::FileSystem, done);
    assert_eq!(layer(9_000_000), Layer::Throttle);
    assert_eq!(layer(9_000_150), Layer::FileSystem, "written by somebody else");
    let lock = behind("rwsem_down_write_slowpath;ext4_write", Phase::FileSystem, 9_000_000);
    assert_eq!(lock, Layer::FileSystem, "nothing that goes to the disk");
    let log = "xlog_wait_on_iclog;xfs_log_force_seq;xfs_file_fsync";
    assert_eq!(behind(log, Phase::FileSystem, 9_000_000), Layer::Throttle);
}

#[test]
fn a_wait_for_the_worker_of_another_io_is_what_that_io_waits_for() {
    let phases = |begun: i64, token: u64, handed: u64| {
        let mut events = Events::default();
        let asleep = |token, start_ns, end_ns| RingThread {
            off: OffCpu { start_ns, end_ns, state: 2, ..OffCpu::default() },
            token: Some(token),
        };
        events.add(asleep(7, 10, 9_000_000));
        events.add(asleep(8, begun, 9_500_000));
        events.sort();
        let judged = |one: Judged, token| {
            let traced = TracedIo {
                start_ns: 5,
                end_ns: one.slow.complete_ns,
                token: Some(token),
                punt_ns: Some(8),
                flags: flags::PUNTED * handed,
                ..TracedIo::default()
            };
            again(one.slow, Some(traced), one.segments)
        };
        let leader = judged(io(0, 5, 9_000_100, Phase::Device), token);
        let mut list = vec![judged(io(0, 5, 9_500_000, Phase::PageCache), 8), leader];
        follow(&mut list, |_, _| true, &events, again);
        list[0].segments.iter().map(|p| (p.to - p.from, p.phase)).collect::<Vec<_>>()
    };
    let (own, device) = (Phase::PageCache, Phase::Device);
    assert_eq!(phases(9_200_000, 7, 1), [(5, own), (8_999_990, device), (500_000, own)]);
    assert_eq!(phases(1_000_010, 7, 1), [(5, own), (1_000_000, device), (8_499_990, own)]);
    assert_eq!(phases(9_200_000, 6, 1), [(9_499_995, own)], "over an I/O that nobody knows");
    assert_eq!(phases(9_200_000, 7, 0), [(9_499_995, own)], "it was never handed to a worker");
}

#[test]
fn what_a_worker_of_the_ring_was_seen_to_sleep_for_is_seen() {
    let sources = |of: Source| {
        let mut events = worker_asleep("fsfreeze", "percpu_rwsem_wait;io_write;io_wq_worker");
        events.sort();
        let traced = |token| TracedIo {
            start_ns: 5,
            end_ns: 9_100_000,
            token: Some(token),
            punt_ns: Some(8),
            flags: flags::PUNTED,
            ..TracedIo::default()
        };
        let mut leader = io(0, 5, 9_000_200, Phase::PageCache);
        leader.segments.iter_mut().for_each(|s| s.source = of);
        leader.io = Some(traced(7));
        let own = io(0, 5, 9_100_000, Phase::FileSystem);
        let mut list = vec![again(own.slow, Some(traced(8)), own.segments), leader];
        follow(&mut list, |_, _| true, &events, again);
        let phase = |s: &&Segment| s.phase == Phase::PageCache;
        list[0].segments.iter().filter(phase).map(|s| s.source).collect::<Vec<_>>()
    };
    assert_eq!(sources(Source::OwnSleep), [Source::Helper]);
    assert_eq!(sources(Source::Stamps), [Source::Holder]);
    assert_eq!(sources(Source::Inferred), [Source::Holder]);
}

#[test]
fn a_wait_of_a_worker_for_another_worker_is_what_the_other_ones_io_waits_for() {
    let layer = |woken_by: &str, stack: &str| {
        let events = worker_asleep(woken_by, stack);
        let end_ns = 9_001_000;
        let traced = TracedIo { start_ns: 5, end_ns, token: Some(7), ..TracedIo::default() };
        let own = io(0, 5, 9_001_000, Phase::FileSystem);
        let mut leader = io(0, 0, 9_000_000, Phase::Device);
        leader.io = Some(TracedIo { flags: flags::PUNTED, ..TracedIo::default() });
        let mut list = vec![again(own.slow, Some(traced), own.segments), leader];
        follow(&mut list, |_, _| true, &events, again);
        list[0].layer
    };
    let entry = "squashfs_cache_get;squashfs_readahead;filemap_read;io_wq_worker";
    assert_eq!(layer("iou-wrk-9", entry), Layer::Device);
    let commit = "wait_log_commit;btrfs_sync_log;btrfs_sync_file;io_fsync;io_wq_worker";
    assert_eq!(layer("iou-wrk-9", commit), Layer::Device);
    assert_eq!(layer("kworker/0:1", entry), Layer::FileSystem, "woken by whatever else");
    assert_eq!(layer("iou-wrk-9", "request_wait_answer;fuse_read"), Layer::FileSystem);
}

#[test]
fn what_the_thread_does_itself_holds_up_the_rest_of_its_batch() {
    let layers = |stack: &str, handed: u64| {
        let mut events = Events::default();
        events.add(OffCpu {
            worker: Some(0),
            start_ns: 100,
            woken_ns: Some(8_900_000),
            end_ns: 8_900_100,
            state: 2,
            stack: Some(Stack::of(stack)),
            ..OffCpu::default()
        });
        events.sort();
        let one = |enter: i64, phase| {
            let traced = TracedIo {
                enter_ns: Some(enter),
                end_ns: 9_000_000,
                punt_ns: Some(30).filter(|_| handed == 1),
                ..TracedIo::default()
            };
            let one = io(0, 0, 9_000_000, phase);
            again(one.slow, Some(traced), one.segments)
        };
        let mut list = vec![
            one(10, Phase::Completion),
            one(20, Phase::Throttle),
            one(8_950_000, Phase::Unobserved),
        ];
        follow(&mut list, |_, _| true, &events, again);
        list.iter().map(|one| one.layer).collect::<Vec<_>>()
    };
    let sync = "submit_bio_wait;blkdev_issue_flush;xfs_file_fsync;io_write;io_submit_sqes";
    assert_eq!(layers(sync, 0), [Layer::Throttle; 3]);
    let own = [Layer::Completion, Layer::Throttle, Layer::Unknown];
    assert_eq!(layers("submit_bio_wait;blkdev_issue_flush;xfs_file_fsync", 0), own);
    let lock = "rwsem_down_write_slowpath;ext4_buffered_write_iter;io_submit_sqes";
    assert_eq!(layers(lock, 0), own, "not over an I/O");
    assert_eq!(layers(sync, 1), own, "io_uring's workers had it");
}

#[test]
fn of_several_ios_with_parts_at_the_disk_the_longest_there_leads() {
    let commit = "wait_log_commit;btrfs_sync_log;btrfs_sync_file;io_wq_worker";
    let events = worker_asleep("iou-wrk-9", commit);
    let (start_ns, end_ns) = (5, 9_001_000);
    let traced = TracedIo { start_ns, end_ns, token: Some(7), ..TracedIo::default() };
    let own = io(0, 5, 9_001_000, Phase::FileSystem);
    // It waits for the same commit, and the last thing in it was a flush.
    let mut other = io(0, 0, 9_000_900, Phase::FileSystem);
    let (from, to) = (0, 8_999_000);
    other.segments = vec![
        Segment::new(TimeSpan::new(from, to), Phase::FileSystem, Source::Stamps),
        Segment::new(TimeSpan::new(to, 9_000_000), Phase::Device, Source::Stamps),
        Segment::new(TimeSpan::new(9_000_000, 9_000_900), Phase::FileSystem, Source::Stamps),
    ];
    let handed = || Some(TracedIo { sync_punt_ns: Some(6), ..TracedIo::default() });
    other.io = handed();
    let layer = |handed: Option<TracedIo>| {
        let leader = Judged { io: handed, ..io(0, 4, 9_000_050, Phase::Device) };
        let own = again(own.slow, Some(traced.clone()), own.segments.clone());
        let mut list = vec![own, other.clone(), leader];
        follow(&mut list, |_, _| true, &events, again);
        list[0].layer
    };
    assert_eq!(layer(handed()), Layer::Device);
    assert_eq!(layer(None), Layer::FileSystem, "no worker of io_uring had it");
}

#[test]
fn a_wait_for_a_single_leader_is_what_its_io_waits_for() {
    let leader = || io(0, 0, 1000, Phase::Device);
    let queued = Judged { queued_ns: Some(7), ..io(1, 5, 1010, Phase::Store) };
    let mut list = vec![queued, leader()];
    follow(&mut list, |_, _| true, &woken_by(0), again);
    assert_eq!((list[0].layer, list[0].sure, list[0].excess_ns), (Layer::Device, false, 940));
    assert_eq!(list[0].queued_ns, Some(7), "is known of it as before");
    let mut list = vec![io(1, 5, 1010, Phase::Store), io(0, 0, 945, Phase::Device)];
    follow(&mut list, |_, _| true, &woken_by(0), again);
    assert_eq!(list[0].layer, Layer::Device, "woken by what that thread did next");
    let mut list = vec![io(1, 5, 1010, Phase::Store), leader()];
    follow(&mut list, |_, _| true, &woken_by(2), again);
    assert_eq!(list[0].layer, Layer::Store, "woken by another thread");
    let mut list = vec![io(1, 5, 1010, Phase::Store), leader(), leader()];
    follow(&mut list, |_, _| true, &woken_by(0), again);
    assert_eq!(list[0].layer, Layer::Store, "which of two is not known");
    let mut list = vec![io(1, 5, 1010, Phase::Store), io(0, 0, 1000, Phase::Unobserved)];
    follow(&mut list, |_, _| true, &woken_by(0), again);
    assert_eq!(list[0].layer, Layer::Store, "nobody knows what that one did");
}

/// A wait of worker 1 from 10 to 960, which worker 0 ended at 950.
fn wait(worker: u16) -> Judged {
    let one = io(worker, 10, 960, Phase::Application);
    again(Slow { op: OpKind::Wait, ..one.slow }, None, one.segments)
}

#[test]
fn a_wait_for_a_thread_is_a_wait_for_what_it_was_in() {
    let layers = |leaders: Vec<Judged>, events: &Events| {
        let mut list = leaders;
        list.push(wait(1));
        follow(&mut list, |_, _| true, events, again);
        let last = list.pop().expect("the wait");
        assert!(!last.sure);
        (last.layer, last.excess_ns)
    };
    let events = woken_by(0);
    let device = |from, to| io(0, from, to, Phase::Device);
    assert_eq!(layers(vec![device(0, 940)], &events), (Layer::Device, 930));
    // Several, one after another; what lies between is the program's.
    let both = vec![device(0, 300), device(310, 900)];
    assert_eq!(layers(both, &events), (Layer::Device, 880));
    assert_eq!(layers(vec![device(0, 100)], &events), (Layer::Application, 860));
    assert_eq!(layers(vec![io(2, 0, 940, Phase::Device)], &events).0, Layer::Application);
    let unseen = vec![io(0, 0, 940, Phase::Unobserved)];
    assert_eq!(layers(unseen, &events).0, Layer::Unknown, "not the program's");
    let code = vec![io(0, 0, 940, Phase::Submit)];
    assert_eq!(layers(code, &events).0, Layer::Application);
}

#[test]
fn a_wait_leads_over_the_waits_of_others_and_to_a_thread_without_a_cpu() {
    let mut events = woken_by(2);
    let off = |worker, waker, state, from, to| OffCpu {
        worker: Some(worker),
        start_ns: from,
        woken_ns: Some(to).filter(|_| state != 0),
        end_ns: to,
        state,
        waker: Waker { worker: waker, ..Waker::default() },
        ..OffCpu::default()
    };
    events.add(off(2, Some(3), 1, 15, 940));
    events.sort();
    let one = io(2, 15, 940, Phase::Application);
    let middle = again(Slow { op: OpKind::Wait, ..one.slow }, None, one.segments);
    let mut list = vec![io(3, 0, 935, Phase::Throttle), middle.clone(), wait(1)];
    follow(&mut list, |_, _| true, &events, again);
    assert_eq!(list.iter().map(|j| j.layer).collect::<Vec<_>>(), [Layer::Throttle; 3]);
    // The holder of a lock was in nothing, but could not run.
    let mut events = woken_by(2);
    events.add(off(2, None, 0, 20, 900));
    events.sort();
    let mut list = vec![wait(1)];
    follow(&mut list, |_, _| true, &events, again);
    assert_eq!((list[0].layer, list[0].excess_ns), (Layer::Cpu, 880));
}

/// I/Os of one worker: when they began, in ms, and how long they took, in 0.25 ms.
fn of_a_worker(times: &[(i64, i64)]) -> Vec<Judged> {
    let one = |(from, quarters): &(i64, i64)| {
        let from = from * 1_000_000;
        io(0, from, from + quarters * 250_000, Phase::Device)
    };
    times.iter().map(one).collect()
}

proptest! {
    /// Held against a look at each I/O.
    #[test]
    fn the_single_io_that_a_thread_was_in_is_found(
        times in proptest::collection::vec((0i64..20, 0i64..20), 0..8),
        quarter in -4i64..120,
    ) {
        let (list, at) = (of_a_worker(&times), quarter * 250_000);
        let all = |is: &dyn Fn(&Slow) -> bool| -> Vec<usize> {
            (0..list.len()).filter(|i| is(&list[*i].slow)).collect()
        };
        let then = all(&|slow| slow.submit_ns <= at && at <= slow.complete_ns);
        let ended = all(&|slow| (1..=WAKEUP_WINDOW_NS).contains(&(at - slow.complete_ns)));
        let known = if then.is_empty() { ended } else { then };
        let single = known.first().copied().filter(|_| known.len() == 1);
        let index = Index::of(&list);
        prop_assert_eq!(index.workers.get(&0).and_then(|of| in_flight(of, at)), single);
    }

    /// The same.
    #[test]
    fn parts_at_the_disk_in_a_time_are_summed(
        cuts in proptest::collection::vec((1i64..20, any::<bool>()), 0..12),
        (from, length) in (-5i64..200, 0i64..60),
    ) {
        let mut at = 0;
        let mut one = io(0, 0, 1, Phase::Device);
        one.segments = cuts.iter().map(|(length, there)| {
            at += length;
            let phase = if *there { Phase::Device } else { Phase::Queue };
            Segment::new(TimeSpan::new(at - length, at), phase, Source::Stamps)
        }).collect();
        let there = one.segments.iter().filter(|p| p.phase == Phase::Device);
        let to = from + length;
        let sum: i64 = there.map(|p| (p.to.min(to) - p.from.max(from)).max(0)).sum();
        prop_assert_eq!(DiskParts::of(&[one]).shared_ns(0, TimeSpan::new(from, to)), sum);
    }
}

#[test]
fn times_that_overlap_are_one() {
    let of = |times: &[(i64, i64)]| -> Vec<(i64, i64)> {
        let times = times.iter().map(|(from, to)| TimeSpan::new(*from, *to));
        joined(times.collect()).iter().map(|time| (time.from, time.to)).collect()
    };
    let apart = of(&[(5, 9), (0, 3), (2, 4), (4, 5), (20, 21)]);
    assert_eq!(apart, [(0, 4), (4, 5), (5, 9), (20, 21)]);
    assert_eq!(of(&[(0, 9), (1, 2), (8, 12)]), [(0, 12)]);
}
