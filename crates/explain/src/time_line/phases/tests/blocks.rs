//! The block layer's part of time lines.

use super::*;
use crate::events::Events;
use crate::events::disks::Disks;
use crate::events::event::Flush;
use crate::events::rounds::BlockRound;

#[test]
fn below_a_loop_device_the_queue_and_the_device_are_told_apart() {
    use Phase::*;
    let lower =
        LowerStamps { dev: None, bio_ns: Some(1300), issue_ns: Some(1350), done_ns: Some(1750) };
    let looped = TracedIo { lower, ..io() };
    let expected = [
        (100, Submit),
        (50, Tags),
        (50, Queue),
        (100, Device),
        (50, LowerQueue),
        (400, LowerDevice),
        (50, Device),
        (10, Completion),
        (90, Cpu),
        (100, Application),
    ];
    assert_eq!(all(&looped, &IoContext::default()), expected);
}

/// Four rounds: in the device 1110..1200, 1310..1400, 1510..1600 and 1720..1800.
#[test]
fn rounds_one_after_another_are_each_cut_and_what_is_not_known_is_not_guessed() {
    use Phase::*;
    let lookup = TracedIo {
        rounds: 3,
        parts: whole(4),
        bio_ns: Some(1700),
        bio_last_ns: Some(1700),
        alloc_ns: Some(1700),
        issue_ns: Some(1720),
        ..io()
    };
    let earlier = [
        round(1100, 1100, 1110, 1200),
        round(1300, 1305, 1310, 1400),
        round(1500, 1500, 1510, 1600),
    ];
    let cut = |earlier: &[BlockRound]| all(&lookup, &IoContext { earlier, ..IoContext::default() });
    let end = [(20, Queue), (80, Device), (10, Completion), (90, Cpu)];
    let end = end.into_iter().chain([(100, Application)]);
    let begin = [(100, Submit), (10, Queue), (90, Device)];
    let middle = [
        (100, Submit),
        (5, Tags),
        (5, Queue),
        (90, Device),
        (100, Submit),
        (10, Queue),
        (90, Device),
        (100, Submit),
    ];
    let whole = begin.into_iter().chain(middle).chain(end.clone());
    assert_eq!(cut(&earlier), whole.collect::<Vec<_>>());
    // The second of three found no place.
    let partly = [
        (100, Unobserved),
        (10, Queue),
        (90, Device),
        (300, Unobserved),
        (10, Queue),
        (90, Device),
        (100, Unobserved),
    ];
    let first = partly.into_iter().chain(end.clone());
    assert_eq!(cut(&[earlier[0], earlier[2]]), first.collect::<Vec<_>>());
    let none = [(700, Unobserved)].into_iter().chain(end);
    assert_eq!(cut(&[]), none.collect::<Vec<_>>());
}

/// A flush of `dev`, queued at 1100 and done at 1800, on a target described as given; the flushes of
/// the disks as seen.
fn flushed(device: &str, dev: &str, sent: &[(&str, i64, i64)]) -> Vec<(u64, Phase)> {
    let io = TracedIo {
        flags: flags::FLUSH,
        dev: Some(dev.into()),
        alloc_ns: Some(1100),
        issue_ns: None,
        ..io()
    };
    let device = serde_json::from_str(device).unwrap();
    let mut events = Events { disks: Disks::described([&device]), ..Events::default() };
    for (disk, start_ns, end_ns) in sent {
        let dev = Some((*disk).into());
        events.add(Flush { start_ns: *start_ns, end_ns: *end_ns, dev });
    }
    let mut found = all(&io, &IoContext::of(&events, 0));
    let end = [(10, Phase::Completion), (90, Phase::Cpu), (100, Phase::Application)];
    assert_eq!(found.split_off(found.len() - 3), end);
    found
}

const VDA1: &str = r#"{"number": "254:1", "disk_number": "254:0"}"#;

#[test]
fn a_flush_is_in_the_device_while_the_disks_own_one_is() {
    use Phase::*;
    let split = [(100, Submit), (500, Queue), (200, Device)];
    let unseen = [(100, Submit), (700, Unobserved)];
    assert_eq!(flushed(VDA1, "254:1", &[("254:0", 1600, 1790)]), split);
    // The disk's flush that began before this one was queued does not cover it.
    assert_eq!(flushed(VDA1, "254:1", &[("254:0", 1050, 1200)]), unseen);
}

#[test]
fn a_flush_waits_for_the_device_while_that_is_busy_with_another_one() {
    use Phase::*;
    let found = flushed(VDA1, "254:1", &[("254:0", 1050, 1500), ("254:0", 1550, 1790)]);
    assert_eq!(found, [(100, Submit), (400, Device), (50, Queue), (250, Device)]);
}

#[test]
fn a_flush_is_in_the_device_where_nobody_saw_its_disks_own_ones() {
    use Phase::*;
    let device = [(100, Submit), (700, Device)];
    // A run made before they were looked for.
    assert_eq!(flushed(VDA1, "254:1", &[]), device);
    // Another disk's only: this one has no cache.
    assert_eq!(flushed(VDA1, "254:1", &[("254:16", 1600, 1790)]), device);
}

/// A write of a log, before which the disk's cache is flushed.
#[test]
fn a_write_that_follows_a_flush_waits_for_the_device() {
    use Phase::*;
    let cut = |io_flags, sent: (i64, i64)| {
        let vda = serde_json::from_str(VDA1).unwrap();
        let mut events = Events { disks: Disks::described([&vda]), ..Events::default() };
        events.add(Flush { start_ns: sent.0, end_ns: sent.1, dev: Some("254:0".into()) });
        let io = TracedIo {
            flags: io_flags,
            dev: Some("254:1".into()),
            alloc_ns: Some(1100),
            issue_ns: Some(1700),
            ..io()
        };
        all(&io, &IoContext::of(&events, 0))[..4].to_vec()
    };
    let queued = [(100, Submit), (600, Queue), (100, Device), (10, Completion)];
    let found = cut(flags::FLUSH, (1110, 1690));
    assert_eq!(found, [(100, Submit), (10, Queue), (580, Device), (10, Queue)]);
    assert_eq!(cut(0, (1110, 1690)), queued, "it asks for no flush");
    assert_eq!(cut(flags::FLUSH, (1050, 1690)), queued, "of somebody who came before");
    assert_eq!(cut(flags::FLUSH, (1110, 1750)), queued, "not done when it was issued");
}

#[test]
fn a_flush_of_a_device_that_nobody_knows_is_not_known() {
    use Phase::*;
    let unknown = [(100, Submit), (700, Unobserved)];
    let vda = [("254:0", 1600, 1790)];
    // An I/O of vdb.
    assert_eq!(flushed(VDA1, "254:16", &vda), unknown);
    // The device is not described, or without numbers, as in older runs.
    assert_eq!(flushed("{}", "253:0", &vda), unknown);
    let old = r#"{"name": "vda1", "disk": "vda"}"#;
    assert_eq!(flushed(old, "254:1", &vda), unknown);
}

#[test]
fn a_flush_of_a_stacked_device_is_that_of_the_disks_below() {
    use Phase::*;
    let dm = r#"{"number": "253:0", "made_of": [{"number": "254:2", "disk_number": "254:0"}]}"#;
    let split = [(100, Submit), (500, Queue), (200, Device)];
    assert_eq!(flushed(dm, "253:0", &[("254:0", 1600, 1790)]), split);
    // A mirror's is done when the last one is.
    let md = r#"{"number": "9:0", "made_of": [{"number": "8:0"}, {"number": "8:16"}]}"#;
    let both = [("8:0", 1150, 1300), ("8:16", 1600, 1790)];
    assert_eq!(flushed(md, "9:0", &both), split);
}

#[test]
fn a_limit_or_a_lack_of_memory_before_the_request_is_no_matter_of_the_queue() {
    use Phase::*;
    let io = TracedIo { alloc_ns: Some(1700), issue_ns: Some(1750), ..io() };
    let held = |stack: &str| {
        let rows = [off(1150, Some(1650), 1660, stack)];
        let context = IoContext { off: &rows, ..IoContext::default() };
        all(&io, &context)[..4].to_vec()
    };
    let limit = held("io_schedule;rq_qos_wait;wbt_wait");
    assert_eq!(limit, [(100, Submit), (50, Tags), (500, Throttle), (50, Tags)]);
    let memory = held("io_schedule_timeout;mempool_alloc_noprof;bio_split;blk_mq_submit_bio");
    assert_eq!(memory, [(100, Submit), (50, Tags), (500, PageCache), (50, Tags)]);
    let tags = held("io_schedule;blk_mq_get_tag");
    assert_eq!(tags[..2], [(100, Submit), (600, Tags)]);
}

#[test]
fn what_the_driver_gave_back_was_the_drivers_until_then() {
    use Phase::*;
    let cut = |flags, requeue_ns| {
        let requeue_ns = Some(requeue_ns);
        let io = TracedIo { flags, requeue_ns, issue_ns: Some(1700), ..io() };
        let line = segments(&io, &IoContext::default());
        line[2..5].iter().map(|p| (p.length(), p.phase, p.source)).collect::<Vec<_>>()
    };
    let queued = [
        (550, Queue, Source::Stamps),
        (100, Device, Source::Stamps),
        (10, Completion, Source::Silence),
    ];
    assert_eq!(cut(0, 1600), queued, "nothing was given back");
    assert_eq!(cut(flags::REQUEUED, 1750), queued, "and not tried again");
    let back = [
        (450, Device, Source::Inferred),
        (100, Queue, Source::Stamps),
        (100, Device, Source::Stamps),
    ];
    assert_eq!(cut(flags::REQUEUED, 1600), back);
}

/// A full driver gives back at once what had waited in the scheduler; a lost command was there for a moment.
#[test]
fn of_what_was_in_the_scheduler_before_nobody_knows_when_the_driver_had_it() {
    use Phase::*;
    let cut = |insert_ns| {
        let (flags, requeue_ns, insert_ns) = (flags::REQUEUED, Some(1600), Some(insert_ns));
        let io = TracedIo { flags, requeue_ns, insert_ns, issue_ns: Some(1700), ..io() };
        let line = segments(&io, &IoContext::default());
        line[2..5].iter().map(|p| (p.length(), p.phase, p.source)).collect::<Vec<_>>()
    };
    let before = [
        (30, Queue, Source::Stamps),
        (420, Unobserved, Source::Silence),
        (100, Queue, Source::Stamps),
    ];
    assert_eq!(cut(1180), before);
    let again = [
        (450, Device, Source::Inferred),
        (100, Queue, Source::Stamps),
        (100, Device, Source::Stamps),
    ];
    assert_eq!(cut(1650), again, "when it had come back");
}

/// As of NVMe's over several paths: the first request fails with its path, and another thread makes the second one.
#[test]
fn who_sleeps_for_its_io_does_not_wait_for_a_request() {
    let io = TracedIo { alloc_ns: Some(1700), issue_ns: Some(1750), ..io() };
    let source_of = |rows: &[OffCpu]| {
        let line = segments(&io, &IoContext { off: rows, ..IoContext::default() });
        line.iter().find(|p| p.phase == Phase::Tags).map(|p| (p.length(), p.source))
    };
    let slept = |stack: &str| off(1110, Some(1690), 1695, stack);
    let source = |stack: &str| source_of(&[slept(stack)]);
    assert_eq!(source("io_schedule;blk_mq_get_tag"), Some((600, Source::Stamps)));
    assert_eq!(source("io_schedule;__iomap_dio_rw"), Some((600, Source::Inferred)));
    assert_eq!(source("io_cqring_wait"), Some((600, Source::Inferred)));
    let pages = "io_schedule;folio_wait_bit_common;filemap_update_page;filemap_read";
    assert_eq!(source(pages), Some((600, Source::Inferred)), "through the page cache");
    // A sleep before it, after which there was no CPU for long, takes nothing from that.
    let before = off(100, Some(150), 1105, "io_cqring_wait");
    let both = [before, slept("io_cqring_wait")];
    assert_eq!(source_of(&both), Some((600, Source::Inferred)));
}

/// A read through the page cache ends with its page, while what is read ahead with it is under way.
#[test]
fn a_read_waits_in_the_device_for_the_page_it_slept_for() {
    use Phase::*;
    let parts = Some(Parts { queued: 2, done: 1 });
    let read = TracedIo { parts, op: OpKind::Get, ..io() };
    let slept = |stack: &str, wake| {
        let off = [off(1210, Some(wake), 1900, stack)];
        all(&read, &IoContext { off: &off, ..IoContext::default() })
    };
    let page = "io_schedule;folio_wait_bit_common;filemap_fault;handle_mm_fault";
    assert_eq!(slept(page, 1810)[3..5], [(600, Device), (10, PageCache)]);
    assert!(slept(page, 1790).iter().all(|(_, phase)| *phase != Device), "before it was done");
    assert!(slept("io_schedule;iomap_dio", 1810).iter().all(|(_, phase)| *phase != Device));
}

/// Entries of a full journal are brought to where they belong by whoever needs room in it.
#[test]
fn what_a_thread_writes_for_the_journal_is_the_file_systems() {
    use Phase::*;
    let slept = |stack: &str| {
        let off = [off(1210, Some(1790), 1795, stack)];
        all(&io(), &IoContext { off: &off, ..IoContext::default() })
    };
    let room = "jbd2_log_do_checkpoint;__jbd2_log_wait_for_space;start_this_handle";
    assert_eq!(slept(room)[..2], [(100, Submit), (700, FileSystem)]);
    assert!(slept("io_schedule;iomap_dio").iter().all(|(_, phase)| *phase != FileSystem));
}

/// Requests wait in the plug of the thread that submits them while that has no CPU: io_uring's polling thread has no
/// request of its own, and belongs to one thread of the load.
#[test]
fn time_in_the_plug_of_a_polling_thread_without_a_cpu_is_not_the_queues() {
    use Phase::*;
    const MS: i64 = 1_000_000;
    let queued = TracedIo {
        worker: 3,
        end_ns: 5 * MS,
        issue_ns: Some(3 * MS),
        done_ns: Some(4 * MS),
        wake_ns: None,
        run_ns: None,
        ..io()
    };
    let cut = |polls: u64, token: Option<u64>, stack: &str| {
        let off = OffCpu { worker: Some(polls), ..off(MS, None, 3 * MS - 5, stack) };
        let mut events = Events::default();
        events.add(RingThread { off, token });
        let context = IoContext { all: Some(&events), ..IoContext::default() };
        let line = segments(&queued, &context);
        lengths(&line).get(Queue)
    };
    let (submits, all) = ("blk_start_plug;io_submit_sqes;io_sq_thread", (3 * MS - 1150) as u64);
    assert_eq!(cut(3, None, submits), MS as u64 - 1150 + 5);
    assert_eq!(cut(2, None, submits), all, "another thread's");
    assert_eq!(cut(3, Some(7), submits), all, "a worker thread with a request");
    assert_eq!(cut(3, None, "io_sq_thread"), all, "which submits nothing has no plug");
}
