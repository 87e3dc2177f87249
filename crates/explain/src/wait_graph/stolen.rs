//! Wake-ups that came late because a hypervisor had taken the CPU that the thread came back to: an idle CPU
//! is told that an I/O is done while the hypervisor runs something else on it, and the sleeping thread is
//! woken up when the CPU is back. How much was taken is known, not when: a verdict that rests on it is never sure. CPU
//! time taken from a running thread is an event of that thread.

use taillight_core::TimeSpan;

use crate::events::context::IoContext;
use crate::events::event::OffCpu;
use crate::events::io::TracedIo;
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source};

/// The end of a late completion, at least half of it, in which the CPU was not there.
pub fn waits(segment: &Segment, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let woken = |r: &&OffCpu| !r.was_preempted() && r.end_ns >= segment.to && r.cpu.is_some();
    let told = context.off_cpu(segment.from, io.end_ns).find(woken);
    let (Some(all), Some(told)) = (context.all, told) else {
        return Vec::new();
    };
    let mut taken = all.stolen.within(told.end_ns, told.end_ns);
    let here = taken.find(|s| s.cpu == told.cpu).map_or(0, |s| s.taken_ns);
    let (length, taken) = (segment.length(), here as i64);
    let time = TimeSpan::new(segment.to - taken.min(length), segment.to);
    let most = taken.saturating_mul(2) >= length;
    most.then(|| Segment::new(time, Phase::Cpu, Source::Inferred)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events;
    use crate::events::event::Stolen;
    use crate::time_line::segments::overlay;

    #[test]
    fn an_idle_cpu_that_was_taken_is_no_late_completion() {
        let phases = |cpu, ns| {
            let mut events = Events::default();
            events.add(Stolen { start_ns: 50, end_ns: 1_000, cpu: Some(cpu), taken_ns: ns });
            events.sort();
            let off = [OffCpu {
                start_ns: 10,
                woken_ns: Some(900),
                end_ns: 910,
                state: 2,
                cpu: Some(1),
                ..OffCpu::default()
            }];
            let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
            let segment =
                |from, to, phase| Segment::new(TimeSpan::new(from, to), phase, Source::Stamps);
            let line = vec![segment(0, 100, Phase::Device), segment(100, 900, Phase::Completion)];
            let io = TracedIo { end_ns: 950, ..TracedIo::default() };
            let waits = waits(&line[1], &io, &context);
            assert!(waits.iter().all(|wait| !wait.source.is_seen()));
            let line = overlay(&line, &waits, |p| p.phase == Phase::Completion);
            line.iter().map(|p| (p.to - p.from, p.phase)).collect::<Vec<_>>()
        };
        let late = [(100, Phase::Device), (800, Phase::Completion)];
        let taken = [(100, Phase::Device), (100, Phase::Completion), (700, Phase::Cpu)];
        assert_eq!(phases(1, 700), taken);
        assert_eq!(phases(1, 5_000), [(100, Phase::Device), (800, Phase::Cpu)]);
        assert_eq!(phases(1, 300), late, "less than half");
        assert_eq!(phases(0, 700), late, "another CPU");
    }
}
