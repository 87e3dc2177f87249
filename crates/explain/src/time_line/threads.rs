//! The time line of an I/O in a run where only the threads were watched (backend perf): on the CPU, without
//! a CPU, and blocked in the kernel. A blocked thread may wait for storage, a file system, a lock or a
//! server; which of these is not guessed.

use taillight_rundir::layers::{LayerRow, flags};

use crate::events::context::IoContext;
use crate::time_line::phase::Phase;
use crate::time_line::segments::{Segment, Source, TimeLine, overlapping};

/// The time line of such an I/O.
pub fn time_line(io: &LayerRow, context: &IoContext<'_>) -> Vec<Segment> {
    let mut line = TimeLine::of(io);
    // With several in flight a running thread may be busy with any of them.
    let queued = io.has(flags::QUEUED);
    let running = if queued { Phase::Unobserved } else { Phase::Submit };
    for off in overlapping(context.off, io.start_ns, io.end_ns) {
        line.to(off.start_ns, running, Source::Silence);
        if off.state == Some(0) {
            line.to(off.end_ns, Phase::Cpu, Source::OwnSleep);
            continue;
        }
        let Some((blocked, waited)) = off.blocked_ns.zip(off.waited_ns) else {
            line.to(off.end_ns, Phase::Unobserved, Source::Silence);
            continue;
        };
        // When it was woken up lies between what is known of its begin and of its end.
        line.to(off.start_ns.saturating_add_unsigned(blocked), Phase::Blocked, Source::OwnSleep);
        let waits = off.end_ns.saturating_sub_unsigned(waited);
        line.to(waits, Phase::Unobserved, Source::Silence);
        line.to(off.end_ns, Phase::Cpu, Source::OwnSleep);
    }
    line.end(running)
}

#[cfg(test)]
mod tests {
    use taillight_rundir::layers::LayerKind;

    use super::*;

    fn off(from: i64, to: i64, blocked: u64, waited: u64, state: u64) -> LayerRow {
        LayerRow {
            kind: LayerKind::OffCpu,
            start_ns: from,
            end_ns: to,
            state: Some(state),
            blocked_ns: Some(blocked),
            waited_ns: Some(waited),
            ..LayerRow::default()
        }
    }

    fn lengths(io: &LayerRow, list: &[LayerRow]) -> Vec<(i64, Phase)> {
        let context = IoContext { off: list, threads_only: true, ..IoContext::default() };
        let segments = time_line(io, &context);
        let sum: i64 = segments.iter().map(|p| p.to - p.from).sum();
        assert_eq!(sum, io.end_ns - io.start_ns);
        segments.iter().map(|p| (p.to - p.from, p.phase)).collect()
    }

    #[test]
    fn a_thread_runs_waits_or_is_blocked_and_the_rest_stays_open() {
        use Phase::*;
        let io = LayerRow { start_ns: 1000, end_ns: 2000, ..LayerRow::default() };
        let list = [off(1100, 1500, 300, 60, 1), off(1600, 1800, 0, 200, 0)];
        let expected = [
            (100, Submit),
            (300, Blocked),
            (40, Unobserved),
            (60, Cpu),
            (100, Submit),
            (200, Cpu),
            (200, Submit),
        ];
        assert_eq!(lengths(&io, &list), expected);
        let queued = LayerRow { flags: Some(flags::QUEUED), ..io };
        assert!(lengths(&queued, &list).iter().all(|p| p.1 != Submit));
        // Neither time is known.
        let unknown = LayerRow { blocked_ns: None, ..off(1100, 1500, 0, 60, 1) };
        assert_eq!(lengths(&queued, &[unknown]), [(1000, Unobserved)]);
        // A stretch that began before the I/O and one that ends after it.
        let list = [off(500, 1200, 600, 50, 1), off(1900, 2500, 600, 0, 1)];
        let expected =
            [(100, Blocked), (50, Unobserved), (50, Cpu), (700, Unobserved), (100, Blocked)];
        assert_eq!(lengths(&queued, &list), expected);
    }
}
