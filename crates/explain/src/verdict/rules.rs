//! Whether a verdict is sure, as a function of one traced I/O and what is known beside it: only on the evidence stated
//! here. A verdict that `backlog` hands on to a later I/O stays as sure as it was. Impossible stamps are gone by then
//! (`events::impossible`).

use taillight_core::OpKind;
use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::stacks;
use crate::time_line::blocks;
use crate::time_line::segments::{Segment, Source};
use crate::verdict::judge::{Layer, layer};

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
    use crate::events::impossible::drop_impossible_stamps;
    use crate::events::io::{LowerStamps, Parts};
    use crate::events::stacks::Stack;
    use crate::phase::Phase;
    use crate::time_line::segments::lengths;
    use crate::wait_graph::resolve;

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
            let segments = resolve::segments(&io, &IoContext::default());
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
            let segments = resolve::segments(io, &context);
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
}
