//! Builds the time line of one I/O: segments without gaps, with the thread's off-CPU intervals put into them.
//! Which stamps bound which segment is in `phases` and the files it calls.

use taillight_core::TimeSpan;

use crate::events::context::IoContext;
use crate::events::event::{OffCpu, Timed};
use crate::events::io::TracedIo;
use crate::events::list::overlapping;
use crate::events::stacks::{self, SleepReason};
use crate::phase::{Phase, Phases};

/// How it is known what a segment of a time line was. A verdict's certainty follows from it (`rules::sure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Between stamps of the I/O's own way.
    Stamps,
    /// Of the I/O's own thread, or of the io_uring worker thread that had it: a wait for a CPU, room made in memory, or
    /// a sleep with a reason of its own.
    OwnSleep,
    /// A sleep that another thread ends: for a lock, a commit, pages of others; or what the other one waited for.
    Holder,
    /// A wait for a CPU, or a sleep with a reason of its own, of another thread that wake-ups tie to the I/O, or of
    /// io_uring worker threads that were not free for it.
    Helper,
    /// Concluded from what ended or was under way at the same time.
    Inferred,
    /// Nothing was seen at that time.
    Silence,
}

impl Source {
    /// Whether the phase was seen, not concluded.
    pub fn is_seen(self) -> bool {
        matches!(self, Source::Stamps | Source::OwnSleep | Source::Helper)
    }
}

/// A segment of an I/O's time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// From, CLOCK_MONOTONIC ns.
    pub from: i64,
    pub to: i64,
    pub phase: Phase,
    pub source: Source,
    /// Number of the rule that put it there, see `wait_graph`; none of the I/O's own stamps and sleeps.
    pub rule: Option<u8>,
}

impl Segment {
    pub fn new(TimeSpan { from, to }: TimeSpan, phase: Phase, source: Source) -> Segment {
        Segment { from, to, phase, source, rule: None }
    }

    pub fn time(&self) -> TimeSpan {
        TimeSpan::new(self.from, self.to)
    }

    pub fn length(&self) -> i64 {
        self.to - self.from
    }

    /// The part of it that lies in a time; it ends before it begins where none does.
    pub fn clipped(&self, time: TimeSpan) -> Segment {
        let TimeSpan { from, to } = self.time().within(time);
        Segment { from, to, ..*self }
    }

    /// Whether another segment goes on with the same.
    fn goes_on(&self, other: &Segment) -> bool {
        let same = |p: &Segment| (p.phase, p.source, p.rule);
        same(self) == same(other)
    }
}

/// Rules that put segments into time lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleSet(u32);

impl RuleSet {
    /// Those that these segments are from.
    pub fn of<'a>(segments: impl Iterator<Item = &'a Segment>) -> RuleSet {
        RuleSet(segments.filter_map(|p| p.rule).fold(0, |set, rule| set | 1 << rule))
    }

    /// Whether the rule of this number is one of them.
    pub fn has(self, rule: usize) -> bool {
        self.0 & 1 << rule != 0
    }
}

impl Timed for Segment {
    fn start_ns(&self) -> i64 {
        self.from
    }
    fn end_ns(&self) -> i64 {
        self.to
    }
}

/// Builds a time line without gaps.
pub struct TimeLine {
    segments: Vec<Segment>,
    /// How far it is.
    pub at: i64,
    /// Where it must end.
    pub end: i64,
}

impl TimeLine {
    /// At the begin of an I/O.
    pub fn of(io: &TracedIo) -> TimeLine {
        TimeLine { segments: Vec::with_capacity(8), at: io.start_ns, end: io.end_ns }
    }

    /// Whether it has a segment yet.
    pub fn begun(&self) -> bool {
        !self.segments.is_empty()
    }

    pub fn segments(self) -> Vec<Segment> {
        self.segments
    }

    /// What was built; the rest of the I/O is `rest`, of which nothing was seen.
    pub fn end(mut self, rest: Phase) -> Vec<Segment> {
        self.to(self.end, rest, Source::Silence);
        self.segments
    }

    /// Everything up to `to` is `phase`.
    pub fn to(&mut self, to: i64, phase: Phase, source: Source) {
        let to = to.clamp(self.at, self.end);
        put(&mut self.segments, Segment::new(TimeSpan::new(self.at, to), phase, source));
        self.at = to;
    }
}

/// Idle threads of the kernel sleep in this state: TASK_UNINTERRUPTIBLE without being counted as load.
pub const IDLE: u64 = 0x402;

/// What follows a wake-up, or the end of an I/O, within this time counts as following at once, ns.
pub const WAKEUP_WINDOW_NS: i64 = 1_000_000;

/// Up to `to`, the thread's stretches off the CPU say what it was waiting for, and times in which it made room in
/// memory are the page cache's; the rest is `base`, or unobserved where the thread may have been busy `elsewhere` or
/// events may be missing.
pub fn append_thread_states(
    line: &mut TimeLine,
    to: i64,
    base: Phase,
    elsewhere: bool,
    context: &IoContext<'_>,
) {
    let to = to.clamp(line.at, line.end);
    let idle = if context.blind || elsewhere { Phase::Unobserved } else { base };
    for off in overlapping(context.off, line.at, to) {
        busy(line, off.start_ns.min(to), idle, context);
        let back = off.end_ns.min(to);
        if off.was_preempted() {
            line.to(back, Phase::Cpu, Source::OwnSleep);
            continue;
        }
        let Some(wake) = woken_ns(off) else {
            line.to(back, Phase::Unobserved, Source::Silence);
            continue;
        };
        let (phase, source) = sleep_phase(off, base, context);
        line.to(wake.min(to), phase, source);
        line.to(back, Phase::Cpu, Source::OwnSleep);
    }
    busy(line, to, idle, context);
}

/// Whether this is the name of a CPU that has nothing to do.
fn is_idle_cpu(name: &str) -> bool {
    name.starts_with("swapper/")
}

/// When a sleeping thread was woken up. A wake-up that was not seen was only just before it ran, where the
/// CPU had nothing else to do; else it is not known for how long the thread then waited for the CPU.
fn woken_ns(off: &OffCpu) -> Option<i64> {
    let was_idle = || off.ran.as_ref().is_some_and(|ran| is_idle_cpu(&ran.name));
    off.woken_ns.or_else(|| was_idle().then_some(off.end_ns))
}

/// On the CPU: making room in memory, or what the stretch is about.
fn busy(line: &mut TimeLine, to: i64, idle: Phase, context: &IoContext<'_>) {
    for reclaim in overlapping(context.reclaim, line.at, to) {
        line.to(reclaim.start_ns.min(to), idle, Source::Silence);
        line.to(reclaim.end_ns.min(to), Phase::PageCache, Source::OwnSleep);
    }
    line.to(to, idle, Source::Silence);
}

/// What a sleeping thread waited for.
pub fn sleep_phase(off: &OffCpu, base: Phase, context: &IoContext<'_>) -> (Phase, Source) {
    match off.reason() {
        Some(SleepReason::Lock(phase, _)) => {
            (lock_holder_phase(off, context).unwrap_or(phase), Source::Holder)
        }
        Some(SleepReason::For(Phase::Application, _)) if context.store => {
            (Phase::Store, Source::Holder)
        }
        Some(SleepReason::For(phase, _)) if off.was_in(|stack| stacks::passed_on(stack, phase)) => {
            (phase, Source::Holder)
        }
        // It asks for events of any kind: one told it of its own I/O, which was done meanwhile.
        Some(SleepReason::For(Phase::Server, _)) if base == Phase::Completion => {
            (Phase::Completion, Source::Silence)
        }
        Some(SleepReason::For(phase, _)) => (phase, Source::OwnSleep),
        // Its own I/O was done: nobody had told it yet.
        Some(SleepReason::OwnIo) if matches!(base, Phase::Completion | Phase::Application) => {
            (Phase::Completion, Source::Silence)
        }
        // Before any part of its own was seen: a limit has it, or another thread reads the same.
        Some(SleepReason::OwnIo) if base == Phase::Submit && off.was_in(stacks::reads_block) => {
            (Phase::FileSystem, Source::Holder)
        }
        _ => (Phase::Unobserved, Source::Silence),
    }
}

/// What a waiter for a lock waited for: what the holder was asleep for, for at least half of the time. The holder
/// is the worker that woke the waiter up. Where an idle CPU passed the wake-up on, or no waker was seen, it is taken to
/// be the first other worker that was asleep for so long; where another thread woke it up, nothing is known.
fn lock_holder_phase(off: &OffCpu, context: &IoContext<'_>) -> Option<Phase> {
    let asleep = TimeSpan::new(off.start_ns, off.woken_ns?);
    let threads = &context.all?.off;
    if let Some(waker) = off.waker.worker {
        return main_sleep(threads.get(&waker)?, asleep);
    }
    let passed_on = off.waker.name().is_none_or(is_idle_cpu);
    let mut others = threads.iter().filter(|(worker, _)| Some(**worker) != off.worker);
    passed_on.then(|| others.find_map(|(_, off)| main_sleep(off, asleep)))?
}

/// Whether who sleeps so may have a lock of the kernel: who waits in the program, for a server, or is stopped has none.
fn may_have_lock(phase: Phase) -> bool {
    !matches!(phase, Phase::Application | Phase::Server | Phase::Stopped)
}

/// What a thread that has a lock was asleep for, for at least half of a time.
fn main_sleep(off: &[OffCpu], time: TimeSpan) -> Option<Phase> {
    let mut sums = Phases::default();
    for sleep in overlapping(off, time.from, time.to).filter(|r| !r.was_preempted()) {
        if let Some(SleepReason::For(phase, _)) = sleep.reason()
            && may_have_lock(phase)
        {
            sums.0[phase as usize] += sleep.asleep().shared_ns(time) as u64;
        }
    }
    let most = Phase::ALL.into_iter().max_by_key(|p| sums.get(*p))?;
    (sums.get(most) * 2 >= time.length().max(1) as u64).then_some(most)
}

/// When a thread could have run, and had no CPU.
pub fn cpu_wait(off: &OffCpu, source: Source) -> Segment {
    Segment::new(TimeSpan::new(off.runnable_ns(), off.end_ns), Phase::Cpu, source)
}

/// What a thread slept for, where that is known, and its wait for a CPU after it.
pub fn wait_segments(off: &OffCpu, source: Source) -> Vec<Segment> {
    let mut waits = vec![cpu_wait(off, source)];
    if off.was_preempted() {
        return waits;
    }
    let passed_on = |phase| off.was_in(|stack| stacks::passed_on(stack, phase));
    let phase = match off.reason().filter(|_| off.state != IDLE) {
        Some(SleepReason::For(phase, _)) if !passed_on(phase) => Some((phase, source)),
        Some(SleepReason::For(phase, _) | SleepReason::Lock(phase, _)) => {
            Some((phase, Source::Holder))
        }
        // I/O of its own that it makes for another one, as a sync behind a write.
        Some(SleepReason::OwnIo) => Some((Phase::Device, Source::Holder)),
        Some(SleepReason::Unknown) | None => None,
    };
    let slept = phase.map(|(phase, source)| Segment::new(off.asleep(), phase, source));
    waits.splice(0..0, slept);
    waits
}

/// Appends a segment, as a part of the last one where it goes on with the same.
fn put(line: &mut Vec<Segment>, segment: Segment) {
    match line.last_mut() {
        _ if segment.to <= segment.from => {}
        Some(last) if last.goes_on(&segment) => last.to = segment.to,
        _ => line.push(segment),
    }
}

/// A line without its sources: what follows of the same phase is one segment, of the first one's source.
pub fn by_phase(line: &[Segment]) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::with_capacity(line.len());
    for segment in line {
        match out.last_mut() {
            Some(last) if last.phase == segment.phase => last.to = segment.to,
            _ => out.push(*segment),
        }
    }
    out
}

/// Replaces what `may` be something else by `times`, where these lie; of times that overlap, the first to begin
/// counts.
pub fn overlay(
    line: &[Segment],
    times: &[Segment],
    may: impl Fn(&Segment) -> bool,
) -> Vec<Segment> {
    let mut times: Vec<&Segment> = times.iter().filter(|time| time.from < time.to).collect();
    times.sort_by_key(|time| time.from);
    let mut times = times.into_iter().peekable();
    let mut out: Vec<Segment> = Vec::with_capacity(line.len() + 2);
    for segment in line {
        let mut at = segment.from;
        while may(segment) && at < segment.to {
            while times.next_if(|time| time.to <= at).is_some() {}
            let Some(next) = times.peek().filter(|time| time.from < segment.to) else { break };
            let (from, to) = (next.from.max(at), next.to.min(segment.to));
            put(&mut out, Segment { from: at, to: from, ..*segment });
            put(&mut out, Segment { from, to, ..**next });
            at = to;
        }
        put(&mut out, Segment { from: at, ..*segment });
    }
    out
}

pub fn lengths(segments: &[Segment]) -> Phases {
    let mut phases = Phases::default();
    for segment in segments {
        phases.0[segment.phase as usize] += (segment.to - segment.from) as u64;
    }
    phases
}

/// Times and phases, for tests of what does not depend on the sources.
#[cfg(test)]
pub fn spans(segments: &[Segment]) -> Vec<(i64, i64, Phase)> {
    segments.iter().map(|p| (p.from, p.to, p.phase)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: [Phase; 3] = [Phase::Submit, Phase::Device, Phase::Completion];
    const OTHERS: [Phase; 3] = [Phase::Cpu, Phase::Throttle, Phase::Queue];

    proptest! {
        /// As looked at instant by instant, of times in any order that overlap, are empty or lie outside.
        #[test]
        fn of_times_that_overlap_the_first_to_begin_counts(
            lengths in proptest::collection::vec((1i64..20, 0usize..3), 0..8),
            times in proptest::collection::vec((-5i64..100, -2i64..30, 0usize..3), 0..8),
        ) {
            let mut at = 0;
            let line: Vec<Segment> = lengths.iter().map(|(length, kind)| {
                at += length;
                Segment::new(TimeSpan::new(at - length, at), OWN[*kind], Source::Stamps)
            }).collect();
            let time = |(from, length, kind): &(i64, i64, usize)| {
                let time = TimeSpan::new(*from, from + length);
                Segment::new(time, OTHERS[*kind], Source::Helper)
            };
            let times: Vec<Segment> = times.iter().map(time).collect();
            let found = overlay(&line, &times, |p| p.phase != Phase::Device);
            prop_assert!(found.windows(2).all(|pair| pair[0].to == pair[1].from));
            let ends = |list: &[Segment]| list.first().map(|p| p.from).zip(list.last().map(|p| p.to));
            prop_assert_eq!(ends(&found), ends(&line));
            let phase_at = |list: &[Segment], at: i64| {
                let then = list.iter().filter(|p| p.from <= at && at < p.to);
                then.min_by_key(|p| p.from).map(|p| p.phase)
            };
            for at in 0..at {
                let own = phase_at(&line, at);
                let other = phase_at(&times, at).filter(|_| own != Some(Phase::Device));
                prop_assert_eq!(phase_at(&found, at), other.or(own));
            }
        }
    }
}
