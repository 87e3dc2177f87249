//! Rules that hold for every verdict, as functions of one traced I/O and what is known beside it: impossible stamps are
//! dropped before a time line is made, and a verdict is sure only on the evidence stated here. (A verdict that
//! `backlog` hands on to a later I/O stays as sure as it was.)

use taillight_core::OpKind;
use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::io::{LowerStamps, TracedIo};
use crate::events::rounds::{BlockRound, known};
use crate::events::stacks;
use crate::time_line::blocks;
use crate::time_line::segments::{Segment, Source, overlapping};
use crate::verdict::judge::{Layer, layer};

/// How long before the begin of an I/O its request may have been made, ns: requests that are submitted together share
/// the stamp of their making. An I/O that was merged may be in a much older request: its limit is its length and 4.3 s.
const SHARED_NS: i64 = 1_000_000;

/// Takes impossible stamps out of an I/O, and impossible rounds out of the `earlier` ones: what is in a wrong order
/// (see `possible`) or outside of the I/O, but for the making of its request (`SHARED_NS`). Not every stamp is looked
/// at. True where there were any: the I/O is then marked `UNCLEAR` and counts as seen in part, as it may for other
/// reasons, too.
pub fn drop_impossible_stamps(io: &mut TracedIo, earlier: &mut Vec<BlockRound>) -> bool {
    let (from, to) = (io.start_ns, io.end_ns);
    let before = earlier.len();
    let shared = if io.has(flags::MERGED) { to - from + i64::from(u32::MAX) } else { SHARED_NS };
    earlier.retain(|r| possible(r, from, to, shared));
    let last = BlockRound {
        bio: io.bio_ns.unwrap_or(from),
        last: io.bio_last_ns,
        alloc: io.alloc_ns,
        insert: io.insert_ns,
        issue: io.issue_ns,
        done: io.done_ns,
        held: io.held_ns,
        ends: true,
    };
    let mut broken = earlier.len() < before;
    if !possible(&last, from, to, shared) {
        (io.bio_last_ns, io.alloc_ns, io.issue_ns, io.done_ns) = (None, None, None, None);
        io.bio_ns = io.bio_ns.filter(|at| (from..=to).contains(at));
        io.held_ns = io.held_ns.filter(|at| (from..=to).contains(at));
        broken = true;
    }
    let (first, last) = (io.bio_ns.unwrap_or(from), io.done_ns.unwrap_or(to));
    // Issue and queueing are not compared: requests that are let go together share a stamp of issue, which may be from
    // just before this one was queued.
    let low = [io.lower.bio_ns, io.lower.issue_ns];
    if !low.into_iter().all(|stamp| in_order([stamp, None, io.lower.done_ns], first, last)) {
        io.lower = LowerStamps { dev: io.lower.dev.take(), ..LowerStamps::default() };
        broken = true;
    }
    let others = [
        &mut io.enter_ns,
        &mut io.requeue_ns,
        &mut io.cqe_ns,
        &mut io.punt_ns,
        &mut io.sync_punt_ns,
    ];
    for stamp in others {
        if stamp.is_some_and(|at| !(from..=to).contains(&at)) {
            *stamp = None;
            broken = true;
        }
    }
    if broken {
        io.mark_unclear();
    }
    broken
}

/// Whether the stamps of a round can be: its request made, issued and done in this order, its first part queued before
/// its last and before the end, all within the I/O. The request may have been made `shared` ns before the I/O.
fn possible(round: &BlockRound, from: i64, to: i64, shared: i64) -> bool {
    let made = known(round.alloc).map(|at| if at >= from - shared { at.max(from) } else { at });
    // With requests that share a stamp, the first part may seem queued after it was made.
    in_order([Some(round.bio), None, known(round.done)], from, to)
        && in_order([made, known(round.issue), known(round.done)], from, to)
        && in_order([Some(round.bio), known(round.last), None], from, to)
}

/// Stamps that are there, in this order, within a time.
fn in_order(stamps: [Option<i64>; 3], from: i64, to: i64) -> bool {
    let mut at = from;
    stamps.into_iter().flatten().all(|stamp| {
        let fine = stamp >= at && stamp <= to;
        at = stamp;
        fine
    })
}

/// What a verdict on an I/O is made from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub io: Option<&'a TracedIo>,
    pub segments: &'a [Segment],
    /// Excess of the blamed layer and of all, ns.
    pub excess: (u64, u64),
    /// Latency and what it usually is, ns.
    pub latency: (u64, u64),
}

/// Whether a verdict is sure. The blamed layer must hold three quarters of the excess, and the latency be twice the
/// usual one or more (which is 0 where I/Os are always slow). Lateness behind a schedule needs nothing else. Any other
/// layer needs all parts of the I/O, nothing unclear of it, a context, and to be `seen_at_work`. How often it is wrong
/// is measured (docs/explain.md).
pub fn sure(blamed: Layer, evidence: &Evidence<'_>, context: Option<&IoContext<'_>>) -> bool {
    let (own, all) = evidence.excess;
    let (latency, usual) = evidence.latency;
    let most = own.saturating_mul(4) >= all.saturating_mul(3) && all > 0;
    let stands_out = latency >= usual.saturating_mul(2);
    if !most || !stands_out {
        return false;
    }
    if blamed == Layer::Schedule {
        return true;
    }
    let (Some(io), Some(context)) = (evidence.io, context) else {
        return false;
    };
    // Where only threads were watched no stamp of the I/O itself was seen.
    let whole = io.all_parts_done() && !io.has(flags::UNCLEAR);
    whole && seen_at_work(blamed, io, evidence.segments, context)
}

/// Whether the blamed layer was seen at work, whatever the excess: three quarters of the I/O's time in that layer were
/// seen and not concluded (`Source::is_seen`), and nothing else stands behind that time. Never of the layers named
/// first below; of a read that missed the page cache its own block I/O is enough.
fn seen_at_work(
    blamed: Layer,
    io: &TracedIo,
    segments: &[Segment],
    context: &IoContext<'_>,
) -> bool {
    match blamed {
        // What remains when nothing else was seen, or only which thread waited for which.
        Layer::Application | Layer::Completion | Layer::IoUring | Layer::Store => return false,
        // A thread in native code does not stand still, and may have waited for something else meanwhile.
        Layer::JvmPause => return false,
        Layer::Schedule | Layer::Mixed | Layer::Unknown => return false,
        // Not without the stamps of both ends, not where the I/O was held back or the driver gave it back, and not at a
        // closed queue.
        Layer::BlockQueue => {
            let stamped = io.alloc_ns.is_some() && io.issue_ns.is_some();
            let held =
                io.has(flags::HELD | flags::REQUEUED) || blocks::let_go_by_limit(io, context);
            if !stamped || held || queue_was_closed(io, context) {
                return false;
            }
        }
        Layer::PageCache => {
            let reads = io.op.request() == OpKind::Read;
            // The page came with the read of another I/O.
            if context.page_ns.is_some() {
                return false;
            }
            // A read that missed was seen by the stamps of its own way to the disk. Where a segment of the page cache
            // was taken from another I/O or inferred, three quarters must be seen, as of other layers.
            let taken = |p: &Segment| matches!(p.source, Source::Holder | Source::Inferred);
            let mut of_layer = segments.iter().filter(|p| layer(p.phase) == blamed);
            if io.has_block_io() && reads && !of_layer.any(taken) {
                return true;
            }
        }
        _ => {}
    }
    let (mut all, mut seen) = (0, 0);
    for segment in segments.iter().filter(|p| layer(p.phase) == blamed) {
        all += segment.length();
        seen += if segment.source.is_seen() { segment.length() } else { 0 };
    }
    all > 0 && seen * 4 >= all * 3
}

/// Whether the thread that brought the I/O to the queue found the queue closed, while a limit, a scheduler or
/// something else was being set.
fn queue_was_closed(io: &TracedIo, context: &IoContext<'_>) -> bool {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let mut asleep = [context.off, context.worker_off].into_iter().flat_map(of);
    asleep.any(|r| r.was_in(stacks::waits_for_closed_queue))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taillight_core::{OpKind, TimeSpan};

    use super::*;
    use crate::events::event::OffCpu;
    use crate::events::io::Parts;
    use crate::events::stacks::Stack;
    use crate::time_line::phase::Phase;
    use crate::time_line::phases;
    use crate::time_line::segments::{Source, lengths};

    const WHOLE: Option<Parts> = Some(Parts { queued: 1, done: 1 });

    fn stamps() -> impl Strategy<Value = TracedIo> {
        let stamp = || proptest::option::of(-5_000_000i64..9_000_000);
        (
            [stamp(), stamp(), stamp(), stamp(), stamp()],
            [stamp(), stamp(), stamp()],
            0i64..8_000_000,
        )
            .prop_map(|(own, low, length)| TracedIo {
                op: OpKind::Read,
                end_ns: length,
                flags: flags::LOWER,
                parts: WHOLE,
                bio_ns: own[0],
                alloc_ns: own[1],
                issue_ns: own[2],
                done_ns: own[3],
                cqe_ns: own[4],
                lower: LowerStamps { dev: None, bio_ns: low[0], issue_ns: low[1], done_ns: low[2] },
                ..TracedIo::default()
            })
    }

    proptest! {
        /// Whatever the stamps: what is left is in order, once is enough, time lines keep their
        /// length, and what was not in order is never sure.
        #[test]
        fn impossible_stamps_never_make_a_sure_verdict(seen in stamps()) {
            let (mut io, mut earlier) = (seen.clone(), Vec::new());
            let broken = drop_impossible_stamps(&mut io, &mut earlier);
            let made = seen.alloc_ns.zip(seen.done_ns).is_some_and(|(a, d)| d < a.max(0));
            prop_assert!(!made || broken, "done before it was made");
            let outside = [seen.bio_ns, seen.issue_ns, seen.done_ns, seen.cqe_ns, seen.lower.done_ns];
            let outside = outside.into_iter().flatten().any(|s| s != 0 && !(0..=seen.end_ns).contains(&s));
            prop_assert!(!outside || broken, "a stamp outside of the I/O");
            let segments = phases::segments(&io, &IoContext::default());
            prop_assert_eq!(lengths(&segments).sum(), io.end_ns as u64);
            let again = drop_impossible_stamps(&mut io.clone(), &mut earlier);
            prop_assert!(!again);
            if broken {
                let evidence = Evidence {
                    io: Some(&io),
                    segments: &segments,
                    excess: (100, 100),
                    latency: (100, 1),
                };
                for phase in Phase::ALL {
                    prop_assert!(!sure(layer(phase), &evidence, Some(&IoContext::default())));
                }
            }
        }
    }

    #[test]
    fn a_request_that_shares_its_stamp_with_others_is_possible() {
        let io = |alloc: i64| TracedIo {
            end_ns: 9_000_000,
            bio_ns: Some(10),
            alloc_ns: Some(alloc),
            issue_ns: Some(20),
            done_ns: Some(100),
            ..TracedIo::default()
        };
        let broken = |alloc| drop_impossible_stamps(&mut io(alloc), &mut Vec::new());
        assert!(!broken(15) && !broken(5) && !broken(-50_000));
        assert!(broken(30), "issued before it was made");
        assert!(broken(-2_000_000), "of an earlier life of the request");
    }

    #[test]
    fn what_a_limit_lets_go_together_below_shares_its_stamps() {
        let lower = LowerStamps {
            dev: None,
            bio_ns: Some(99_743_491),
            issue_ns: Some(99_739_245),
            done_ns: Some(99_797_742),
        };
        let mut io = TracedIo {
            end_ns: 99_840_923,
            bio_ns: Some(3_108),
            done_ns: Some(99_809_850),
            lower,
            ..TracedIo::default()
        };
        assert!(!drop_impossible_stamps(&mut io, &mut Vec::new()));
    }

    #[test]
    fn three_quarters_of_the_layers_time_were_seen_where_it_is_sure() {
        let io = TracedIo {
            end_ns: 9_000_000,
            parts: WHOLE,
            issue_ns: Some(100),
            done_ns: Some(1_000_000),
            ..TracedIo::default()
        };
        let is_sure = |to| {
            let segments = [
                Segment::new(TimeSpan::new(100, 1_000_000), Phase::Device, Source::Stamps),
                Segment::new(TimeSpan::new(1_000_000, to), Phase::Device, Source::Holder),
            ];
            let evidence = Evidence {
                io: Some(&io),
                segments: &segments,
                excess: (100, 100),
                latency: (100, 1),
            };
            sure(Layer::Device, &evidence, Some(&IoContext::default()))
        };
        assert!(is_sure(1_000_000) && is_sure(1_330_000) && !is_sure(1_340_000));
    }

    #[test]
    fn a_wait_at_a_closed_queue_is_not_sure() {
        let io = TracedIo {
            end_ns: 9_000_000,
            parts: WHOLE,
            bio_ns: Some(100),
            alloc_ns: Some(8_000_000),
            issue_ns: Some(8_000_100),
            done_ns: Some(8_900_000),
            ..TracedIo::default()
        };
        let is_sure_of = |io: &TracedIo, stack: &str| {
            let asleep = [OffCpu {
                start_ns: 200,
                end_ns: 7_999_000,
                state: 2,
                stack: Some(Stack::of(stack)),
                ..OffCpu::default()
            }];
            let context = IoContext { worker_off: &asleep, ..IoContext::default() };
            let segments = phases::segments(io, &context);
            let evidence = Evidence {
                io: Some(io),
                segments: &segments,
                excess: (90, 100),
                latency: (100, 1),
            };
            sure(Layer::BlockQueue, &evidence, Some(&context))
        };
        let is_sure = |stack: &str| is_sure_of(&io, stack);
        let tags = "io_schedule;blk_mq_get_tag;blk_mq_submit_bio";
        assert!(is_sure(tags));
        let back = TracedIo { flags: flags::REQUEUED, ..io.clone() };
        assert!(!is_sure_of(&back, tags), "the driver did not take it at first");
        assert!(!is_sure("__bio_queue_enter;blk_mq_submit_bio;io_wq_worker"));
    }

    #[test]
    fn earlier_rounds_that_cannot_be_are_taken_out() {
        let round = |bio, issue, done| BlockRound {
            bio,
            issue: Some(issue),
            done: Some(done),
            ..BlockRound::default()
        };
        let mut io = TracedIo { end_ns: 1000, ..TracedIo::default() };
        let mut rounds = vec![round(10, 20, 30), round(40, 60, 50), round(900, 950, 1001)];
        assert!(drop_impossible_stamps(&mut io, &mut rounds));
        assert_eq!(rounds.len(), 1);
        assert!(io.has(flags::UNCLEAR));
    }
}
