//! Times in which nothing was seen: what was only concluded from silence is unobserved there, or a wait for a CPU of a
//! thread that could have run.

use crate::events::context::IoContext;
use crate::events::event::{Gap, Timed};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, overlay};

/// What was only concluded: nothing else was seen at that time.
fn is_from_silence(segment: &Segment) -> bool {
    segment.source == Source::Silence && segment.phase != Phase::Unobserved
}

/// Takes the conclusions out of a time line where there was nothing to conclude from. Of a thread that could
/// have run and came back unseen it is known that it waited for a CPU, if not for how long: what it then did
/// on it is the usual.
pub fn drop_conclusions(
    line: Vec<Segment>,
    io: &TracedIo,
    context: &IoContext<'_>,
) -> Vec<Segment> {
    let of = |list| overlapping(list, io.start_ns, io.end_ns);
    let own = context.all.map(|all| all.io_gaps.of(io.whose(), io.start_ns, io.end_ns));
    let gaps = context.gaps.into_iter().flat_map(of).chain(own.into_iter().flatten());
    let (could, not): (Vec<&Gap>, Vec<&Gap>) = gaps.partition(|g| g.could_run);
    let times = |list: &[&Gap], phase| -> Vec<Segment> {
        let unseen = |g: &&Gap| Segment::new(g.time(), phase, Source::Silence);
        list.iter().map(unseen).collect()
    };
    let line = overlay(&line, &times(&not, Phase::Unobserved), is_from_silence);
    overlay(&line, &times(&could, Phase::Cpu), |segment| segment.source == Source::Silence)
}

#[cfg(test)]
mod tests {
    use taillight_core::TimeSpan;

    use super::*;
    use crate::events::{Events, merged};

    fn gap(start_ns: i64, end_ns: i64) -> Gap {
        Gap { start_ns, end_ns, ..Gap::default() }
    }

    fn io(end_ns: i64) -> TracedIo {
        TracedIo { end_ns, ..TracedIo::default() }
    }

    fn segment(from: i64, to: i64, phase: Phase) -> Segment {
        let stamped = phase == Phase::Device;
        let source = if stamped { Source::Stamps } else { Source::Silence };
        Segment::new(TimeSpan::new(from, to), phase, source)
    }

    #[test]
    fn a_gap_of_one_io_is_none_of_another() {
        let mut events = Events::default();
        events.add(Gap { token: Some(7), worker: Some(0), ..gap(10, 40) });
        events.sort();
        let line = vec![segment(0, 100, Phase::IoWorker)];
        let segments = |token| {
            let io = TracedIo { token: Some(token), ..io(100) };
            drop_conclusions(line.clone(), &io, &IoContext::of(&events, 0)).len()
        };
        assert_eq!((segments(7), segments(8)), (3, 1));
    }

    #[test]
    fn a_thread_that_could_have_run_and_came_back_unseen_waited_for_a_cpu() {
        let line = vec![
            segment(0, 100, Phase::Submit),
            segment(100, 200, Phase::Device),
            segment(200, 300, Phase::Unobserved),
        ];
        let could = |from, to| Gap { could_run: true, ..gap(from, to) };
        let own = merged(vec![gap(20, 50), could(50, 90), could(150, 280)]);
        assert_eq!(own.len(), 3, "of different kinds");
        let context = IoContext { gaps: [&own, &[]], ..IoContext::default() };
        let expected = [
            segment(0, 20, Phase::Submit),
            segment(20, 50, Phase::Unobserved),
            segment(50, 90, Phase::Cpu),
            segment(90, 100, Phase::Submit),
            segment(100, 200, Phase::Device),
            segment(200, 280, Phase::Cpu),
            segment(280, 300, Phase::Unobserved),
        ];
        assert_eq!(drop_conclusions(line, &io(300), &context), expected);
        let both = merged(vec![could(10, 40), gap(30, 60)]);
        assert_eq!(both, [gap(10, 60)], "where they overlap less is known");
    }

    #[test]
    fn only_conclusions_are_taken_back_and_the_sum_stays() {
        let line = vec![
            segment(0, 100, Phase::Submit),
            segment(100, 200, Phase::Device),
            segment(200, 300, Phase::Completion),
        ];
        let io = io(300);
        let own = merged(vec![gap(15, 40), gap(10, 20)]);
        assert_eq!(own, [gap(10, 40)]);
        let all = [gap(90, 250)];
        let context = |own, all| IoContext { gaps: [own, all], ..IoContext::default() };
        assert_eq!(drop_conclusions(line.clone(), &io, &context(&[], &[])), line);
        let expected = [
            segment(0, 10, Phase::Submit),
            segment(10, 40, Phase::Unobserved),
            segment(40, 90, Phase::Submit),
            segment(90, 100, Phase::Unobserved),
            segment(100, 200, Phase::Device),
            segment(200, 250, Phase::Unobserved),
            segment(250, 300, Phase::Completion),
        ];
        assert_eq!(drop_conclusions(line, &io, &context(&own, &all)), expected);
    }
}
