//! The time line of an I/O in a run where only the threads were watched (backend perf): on the CPU, without
//! a CPU, and blocked in the kernel. A blocked thread may wait for storage, a file system, a lock or a
//! server; which of these is not guessed.

use taillight_rundir::layers::flags;

use crate::events::context::IoContext;
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, TimeLine};

/// The time line of such an I/O.
pub fn time_line(io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let mut line = TimeLine::of(io);
    // With several in flight a running thread may be busy with any of them.
    let queued = io.has(flags::QUEUED);
    let running = if queued { Phase::Unobserved } else { Phase::Submit };
    for off in overlapping(context.off, io.start_ns, io.end_ns) {
        line.to(off.start_ns, running, Source::Silence);
        if off.was_preempted() {
            line.to(off.end_ns, Phase::Cpu, Source::OwnSleep);
            continue;
        }
        let Some(known) = off.at_least else {
            line.to(off.end_ns, Phase::Unobserved, Source::Silence);
            continue;
        };
        // When it was woken up lies between what is known of its begin and of its end.
        let asleep = off.start_ns.saturating_add_unsigned(known.asleep_ns);
        line.to(asleep, Phase::Blocked, Source::OwnSleep);
        let waits = off.end_ns.saturating_sub_unsigned(known.waited_ns);
        line.to(waits, Phase::Unobserved, Source::Silence);
        line.to(off.end_ns, Phase::Cpu, Source::OwnSleep);
    }
    line.end(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::event::{AtLeast, OffCpu};

    fn off(from: i64, to: i64, asleep_ns: u64, waited_ns: u64, state: u64) -> OffCpu {
        OffCpu {
            start_ns: from,
            end_ns: to,
            state,
            at_least: Some(AtLeast { asleep_ns, waited_ns }),
            ..OffCpu::default()
        }
    }

    fn lengths(io: &TracedIo, list: &[OffCpu]) -> Vec<(i64, Phase)> {
        let context = IoContext { off: list, threads_only: true, ..IoContext::default() };
        let segments = time_line(io, &context);
        let sum: i64 = segments.iter().map(|p| p.to - p.from).sum();
        assert_eq!(sum, io.end_ns - io.start_ns);
        segments.iter().map(|p| (p.to - p.from, p.phase)).collect()
    }

    #[test]
    fn a_thread_runs_waits_or_is_blocked_and_the_rest_stays_open() {
        use Phase::*;
        let io = TracedIo { start_ns: 1000, end_ns: 2000, ..TracedIo::default() };
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
        let queued = TracedIo { flags: flags::QUEUED, ..io };
        assert!(lengths(&queued, &list).iter().all(|p| p.1 != Submit));
        // Neither time is known.
        let unknown = OffCpu { at_least: None, ..off(1100, 1500, 0, 60, 1) };
        assert_eq!(lengths(&queued, &[unknown]), [(1000, Unobserved)]);
        // A stretch that began before the I/O and one that ends after it.
        let list = [off(500, 1200, 600, 50, 1), off(1900, 2500, 600, 0, 1)];
        let expected =
            [(100, Blocked), (50, Unobserved), (50, Cpu), (700, Unobserved), (100, Blocked)];
        assert_eq!(lengths(&queued, &list), expected);
    }
}
