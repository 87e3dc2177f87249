//! Waits for the end of a pause: the target (a JVM) had stopped all of its threads, by its own log. A worker in its code
//! stood still then, and one in native code could not come back. What a thread was seen to wait for outside, a server or
//! the disk, is no wait for the pause.

use crate::events::Events;
use crate::events::context::IoContext;
use crate::events::event::{Pause, Timed};
use crate::events::io::TracedIo;
use crate::events::slow::Slow;
use crate::phase::Phase::{self, *};
use crate::time_line::segments::{Segment, Source};
use crate::wait_graph::resolve::by_pauses;

/// Its name in outputs.
pub const RULE: &str = "pause";
/// What may be no more than a thread that stands still, asleep in the program or not seen.
pub const OVER: &[Phase] = &[Submit, Completion, Application, Store, Blocked, Unobserved];

/// One segment for each pause that overlaps the given one, from the pause's begin to its end: the caller cuts it to
/// the time line. It is concluded from the time alone, as a thread in native code does not stand still.
pub fn waits(segment: &Segment, _: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let pauses = context.all.into_iter().flat_map(|all| during(all, segment.from, segment.to));
    pauses.map(|p| Segment::new(p.time(), JvmPause, Source::Inferred)).collect()
}

/// The time line of an I/O that was not traced; `None` where it met no pause.
pub fn untraced(slow: &Slow, context: &IoContext<'_>) -> Option<Vec<Segment>> {
    let io = TracedIo { start_ns: slow.submit_ns, end_ns: slow.complete_ns, ..TracedIo::default() };
    let unseen = Segment::new(io.time(), Unobserved, Source::Silence);
    let line = by_pauses(vec![unseen], &io, context);
    line.iter().any(|part| part.phase == JvmPause).then_some(line)
}

/// Pauses that overlap a time.
pub fn during(all: &Events, from: i64, to: i64) -> impl Iterator<Item = &Pause> {
    all.pauses.within(from, to).filter(move |r| r.start_ns < to && r.end_ns > from)
}

#[cfg(test)]
mod tests {
    use taillight_core::{OpKind, TimeSpan};

    use super::*;
    use crate::time_line::segments::spans;
    use crate::verdict::baseline::Baseline;
    use crate::verdict::judge::{JudgeInputs, Judged, Layer, judge};

    const MS: i64 = 1_000_000;

    fn events(pauses: &[(i64, i64, i64)]) -> Events {
        let mut events = Events::default();
        for (start_ns, stopped_ns, end_ns) in pauses {
            events.add(Pause {
                start_ns: *start_ns,
                stopped_ns: *stopped_ns,
                end_ns: *end_ns,
                reason: "Pause Full (System.gc())".into(),
            });
        }
        events.sort();
        events
    }

    /// Of an I/O from 0 to `end` in a run whose median is 10 us.
    fn judged(end: i64, pauses: &[(i64, i64, i64)]) -> Judged {
        let events = events(pauses);
        let context = IoContext::of(&events, 0);
        let slow =
            Slow { worker: 0, op: OpKind::Update, intended_ns: 0, submit_ns: 0, complete_ns: end };
        let base = Baseline::of_median(OpKind::Update, 10_000);
        let by = JudgeInputs { base: Some(&base), ..JudgeInputs::default() };
        judge(slow, None, untraced(&slow, &context), &by)
    }

    #[test]
    fn an_io_that_met_a_pause_is_cut_at_its_ends() {
        let events = events(&[(2, 3, 8), (20, 21, 30)]);
        let context = IoContext::of(&events, 0);
        let io = TracedIo { end_ns: 25, ..TracedIo::default() };
        let line = vec![
            Segment::new(TimeSpan::new(0, 5), Server, Source::OwnSleep),
            Segment::new(TimeSpan::new(5, 25), Store, Source::Holder),
        ];
        let line = by_pauses(line, &io, &context);
        let cut = [(0, 5, Server), (5, 8, JvmPause), (8, 20, Store), (20, 25, JvmPause)];
        assert_eq!(spans(&line), cut, "what it waited for outside is no pause");
    }

    #[test]
    fn without_a_trace_a_pause_is_likely_where_it_is_most_of_the_excess() {
        let verdict = |end, pauses: &[_]| {
            let one = judged(end, pauses);
            (one.layer, one.sure)
        };
        let most = verdict(7 * MS, &[(MS / 10, MS / 5, 6 * MS + MS / 2)]);
        assert_eq!(most, (Layer::JvmPause, false));
        assert_eq!(verdict(7 * MS, &[(0, 1, 2 * MS)]), (Layer::Unknown, false), "a small part");
        let none = judged(7 * MS, &[(8 * MS, 8 * MS, 9 * MS)]);
        assert!(none.layer == Layer::Unknown && none.is_untraced());
    }
}
