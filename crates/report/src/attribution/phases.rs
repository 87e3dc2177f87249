//! One traced I/O cut into phases that sum to its latency, to the nanosecond.
//!
//! What it is: stamps and the thread's stretches off the CPU turned into lengths. What cannot be
//! told apart is `Unobserved`, never guessed. What it is not: judgement, see `judge`.

use taillight_rundir::layers::{LayerRow, flags};

use super::load::Events;
pub use super::phase::{Phase, Phases};
use super::stacks::{self, Wait};
use super::workers;

/// A piece of an I/O's time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// From, CLOCK_MONOTONIC ns.
    pub from: i64,
    /// To.
    pub to: i64,
    /// What.
    pub phase: Phase,
}

/// What is known beside the I/O's own stamps.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// Everything, for what other threads did meanwhile.
    pub all: Option<&'a Events>,
    /// The worker's stretches off the CPU, by time, not overlapping.
    pub off: &'a [LayerRow],
    /// The worker's direct reclaims, by time.
    pub reclaim: &'a [LayerRow],
    /// Events were lost or threads not watched: time without an event is not known to be on CPU.
    pub blind: bool,
    /// The program has a store in it, which sleeps in the program's own threads.
    pub store: bool,
    /// What such I/Os usually take, once that is known.
    pub usual: Option<Phases>,
    /// Another I/O of the run read the page that this one wanted, and had it then.
    pub page_ns: Option<i64>,
}

/// Builds a time line without gaps.
pub(super) struct Line {
    pieces: Vec<Piece>,
    /// How far it is.
    pub at: i64,
    end: i64,
}

impl Line {
    /// Everything up to `to` is `phase`.
    pub fn to(&mut self, to: i64, phase: Phase) {
        let to = to.clamp(self.at, self.end);
        if to > self.at {
            match self.pieces.last_mut() {
                Some(last) if last.phase == phase => last.to = to,
                _ => self.pieces.push(Piece {
                    from: self.at,
                    to,
                    phase,
                }),
            }
            self.at = to;
        }
    }
}

/// The time line of one traced I/O.
pub fn pieces(io: &LayerRow, beside: &Beside<'_>) -> Vec<Piece> {
    let mut line = Line {
        pieces: Vec::with_capacity(8),
        at: io.start_ns,
        end: io.end_ns,
    };
    let has = |bit: u64| io.flags.unwrap_or(0) & bit != 0;
    if let Some(punt) = io.punt_ns.filter(|_| has(flags::PUNTED)) {
        let own = workers::own(io, beside);
        let doing = Beside {
            off: &own,
            reclaim: &[],
            ..*beside
        };
        stretch(&mut line, punt, Phase::Submit, false, beside);
        workers::wait(&mut line, io, &doing);
        if io.bio_ns.is_none() {
            workers::busy(&mut line, io, &doing);
            after(&mut line, io, beside);
        } else {
            block(&mut line, io, &doing, beside);
        }
        return line.pieces;
    }
    if io.bio_ns.is_none() {
        thread_only(&mut line, io, beside);
        return line.pieces;
    }
    block(&mut line, io, beside, beside);
    line.pieces
}

/// An I/O without block I/O of its own.
fn thread_only(line: &mut Line, io: &LayerRow, beside: &Beside<'_>) {
    let has = |bit: u64| io.flags.unwrap_or(0) & bit != 0;
    let queued = has(flags::QUEUED);
    if let (true, Some(from), Some(to)) = (queued, io.served_ns, io.answered_ns) {
        stretch(line, from, Phase::Submit, false, beside);
        line.to(to, Phase::FileSystem);
        return after(line, io, beside);
    }
    if let Some(page) = beside.page_ns {
        stretch(
            line,
            io.enter_ns.unwrap_or(line.at),
            Phase::Submit,
            false,
            beside,
        );
        line.to(page, Phase::PageCache);
        return after(line, io, beside);
    }
    // A thread with several in flight slept: this one was not done at once, and what the thread
    // did meanwhile was not for it.
    let elsewhere = has(flags::PUNTED) || (queued && io.blocked_ns.unwrap_or(0) > 0);
    stretch(line, io.end_ns, Phase::Submit, elsewhere, beside);
}

/// An I/O with block I/O of its own. `doing` is the thread that submits it, `waiting` the one that
/// is told of its end.
fn block(line: &mut Line, io: &LayerRow, doing: &Beside<'_>, waiting: &Beside<'_>) {
    let has = |bit: u64| io.flags.unwrap_or(0) & bit != 0;
    let first = io.bio_ns.unwrap_or(line.at);
    let held = has(flags::HELD);
    let picked = io.enter_ns.unwrap_or(io.start_ns);
    before(line, io, first, picked, held, doing);
    let known = |stamp: Option<i64>| stamp.filter(|s| *s != 0);
    let queued = known(io.alloc_ns).or(known(io.issue_ns));
    let last = io.bio_last_ns.unwrap_or(first);
    let last = queued.map_or(last, |q| last.min(q.max(first)));
    if held {
        line.to(last, Phase::Throttle);
    } else {
        stretch(line, last, Phase::Submit, false, doing);
    }
    let whole = io.parts.unwrap_or(0) >= io.bios.unwrap_or(u64::MAX);
    let done = known(io.done_ns).filter(|_| whole);
    if let Some(alloc) = known(io.alloc_ns) {
        queued_until(line, alloc, Phase::Tags, doing);
    }
    if let Some(issue) = known(io.issue_ns) {
        queued_until(line, issue, Phase::Queue, doing);
    }
    let Some(done) = done else {
        unseen(line, io);
        return;
    };
    if known(io.issue_ns).is_none() && !has(flags::FLUSH) {
        // Issue was not seen: queue and device cannot be told apart.
        line.to(done, Phase::Unobserved);
    } else {
        device(line, io, done);
    }
    after(line, io, waiting);
}

/// A thread that goes on at once after it came back to the CPU, ns.
const AT_ONCE: i64 = 1_000_000;

/// In the block queue. Requests wait in the thread's own plug while it is preempted: that is no
/// matter of the queue. (Going to sleep sends them on.)
fn queued_until(line: &mut Line, to: i64, phase: Phase, doing: &Beside<'_>) {
    let to = to.clamp(line.at, line.end);
    let robbed = overlapping(doing.off, line.at, to)
        .filter(|r| r.state == Some(0) && r.end_ns <= to && to - r.end_ns < AT_ONCE)
        .last();
    if let Some(robbed) = robbed {
        line.to(robbed.start_ns, phase);
        line.to(robbed.end_ns, Phase::Cpu);
    }
    line.to(to, phase);
}

/// From the submit stamp to the first part in the block layer.
fn before(line: &mut Line, io: &LayerRow, first: i64, picked: i64, held: bool, b: &Beside<'_>) {
    if held && io.held_ns.is_some_and(|h| h <= first) {
        // The very first part came from somebody else's hands. When it was taken away is not
        // stamped; the way there is a matter of microseconds.
        stretch(line, picked, Phase::Submit, false, b);
        line.to(first, Phase::Throttle);
    } else {
        stretch(line, first, Phase::Submit, false, b);
    }
}

/// The completion was not seen.
fn unseen(line: &mut Line, io: &LayerRow) {
    let from = line.at;
    if let (Some(wake), Some(run)) = (io.wake_ns, io.run_ns)
        && wake > from
        && run >= wake
    {
        line.to(wake, Phase::Unobserved);
        line.to(run, Phase::Cpu);
    }
    line.to(io.end_ns, Phase::Unobserved);
}

/// In the device, or in the one below it.
fn device(line: &mut Line, io: &LayerRow, done: i64) {
    if let (Some(issue), Some(low)) = (io.low_issue_ns, io.low_done_ns)
        && issue >= line.at
        && low >= issue
        && low <= done
    {
        line.to(issue, Phase::Device);
        line.to(low, Phase::LowerDevice);
    }
    line.to(done, Phase::Device);
}

/// From the device's answer to the program. A thread that waits is told of it and woken up, then it
/// runs: from there on, and when it was not waiting at all, time on the CPU is the program's own.
fn after(line: &mut Line, io: &LayerRow, beside: &Beside<'_>) {
    let from = line.at;
    match overlapping(beside.off, from, io.end_ns).next() {
        Some(row) if row.start_ns <= from && row.state != Some(0) => {
            stretch(line, row.end_ns, Phase::Completion, false, beside);
        }
        Some(_) => {}
        None => {
            if let (Some(wake), Some(run)) = (io.wake_ns, io.run_ns)
                && wake >= from
                && run >= wake
            {
                line.to(wake, Phase::Completion);
                line.to(run, Phase::Cpu);
            }
        }
    }
    stretch(line, io.end_ns, Phase::Application, false, beside);
}

pub(super) fn overlapping(
    rows: &[LayerRow],
    from: i64,
    to: i64,
) -> impl Iterator<Item = &LayerRow> {
    let first = rows.partition_point(|r| r.end_ns <= from);
    rows[first..].iter().take_while(move |r| r.start_ns < to)
}

/// Up to `to`, the thread's stretches off the CPU say what it was waiting for; the rest is `base`.
pub(super) fn stretch(line: &mut Line, to: i64, base: Phase, elsewhere: bool, beside: &Beside<'_>) {
    let to = to.clamp(line.at, line.end);
    let idle = if beside.blind || elsewhere {
        Phase::Unobserved
    } else {
        base
    };
    for off in overlapping(beside.off, line.at, to) {
        busy(line, off.start_ns.min(to), idle, beside);
        let back = off.end_ns.min(to);
        if off.state == Some(0) {
            line.to(back, Phase::Cpu);
            continue;
        }
        let wake = off.middle_ns.unwrap_or(off.end_ns).min(to);
        line.to(wake, asleep(off, base, beside));
        line.to(back, Phase::Cpu);
    }
    busy(line, to, idle, beside);
}

/// On the CPU: making room in memory, or what the stretch is about.
fn busy(line: &mut Line, to: i64, idle: Phase, beside: &Beside<'_>) {
    for reclaim in overlapping(beside.reclaim, line.at, to) {
        line.to(reclaim.start_ns.min(to), idle);
        line.to(reclaim.end_ns.min(to), Phase::PageCache);
    }
    line.to(to, idle);
}

/// What a sleeping thread waited for.
fn asleep(off: &LayerRow, base: Phase, beside: &Beside<'_>) -> Phase {
    match off.stack.as_deref().map(stacks::wait) {
        Some(Wait::Lock(phase, _)) => holder(off, beside).unwrap_or(phase),
        Some(Wait::For(Phase::Application, _)) if beside.store => Phase::Store,
        Some(Wait::For(phase, _)) => phase,
        // Its own I/O was done: nobody had told it yet.
        Some(Wait::OwnIo) if matches!(base, Phase::Completion | Phase::Application) => {
            Phase::Completion
        }
        _ => Phase::Unobserved,
    }
}

/// Who let go of a lock woke the waiter up: when that was a thread of the load, what it was asleep
/// for, for at least half of the time, is what the waiter waited for.
fn holder(off: &LayerRow, beside: &Beside<'_>) -> Option<Phase> {
    let (from, to) = (off.start_ns, off.middle_ns?);
    let theirs = beside.all?.off.get(&off.waker?)?;
    let mut sums = Phases::default();
    for row in overlapping(theirs, from, to).filter(|r| r.state != Some(0)) {
        let until = row.middle_ns.unwrap_or(row.end_ns).min(to);
        if let Some(Wait::For(phase, _)) = row.stack.as_deref().map(stacks::wait) {
            sums.0[phase as usize] += (until - row.start_ns.max(from)).max(0) as u64;
        }
    }
    let most = Phase::ALL.into_iter().max_by_key(|p| sums.get(*p))?;
    (sums.get(most) * 2 >= (to - from).max(1) as u64).then_some(most)
}

/// Lengths of the pieces.
pub fn lengths(pieces: &[Piece]) -> Phases {
    let mut phases = Phases::default();
    for piece in pieces {
        phases.0[piece.phase as usize] += (piece.to - piece.from) as u64;
    }
    phases
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taillight_rundir::layers::Kind;

    use super::*;

    const NONE: Beside<'static> = Beside {
        all: None,
        off: &[],
        reclaim: &[],
        blind: false,
        store: false,
        usual: None,
        page_ns: None,
    };

    fn io() -> LayerRow {
        LayerRow {
            start_ns: 1000,
            end_ns: 2000,
            bios: Some(1),
            parts: Some(1),
            bio_ns: Some(1100),
            bio_last_ns: Some(1100),
            alloc_ns: Some(1150),
            issue_ns: Some(1200),
            done_ns: Some(1800),
            wake_ns: Some(1810),
            run_ns: Some(1900),
            ..LayerRow::default()
        }
    }

    fn off(from: i64, wake: Option<i64>, to: i64, stack: &str) -> LayerRow {
        LayerRow {
            kind: Kind::OffCpu,
            start_ns: from,
            end_ns: to,
            middle_ns: wake,
            state: Some(u64::from(wake.is_some())),
            stack: Some(stack.into()),
            ..LayerRow::default()
        }
    }

    fn all(io: &LayerRow, beside: &Beside<'_>) -> Vec<(u64, Phase)> {
        let pieces = pieces(io, beside);
        assert_eq!(lengths(&pieces).sum(), (io.end_ns - io.start_ns) as u64);
        let length = |p: &Piece| ((p.to - p.from) as u64, p.phase);
        pieces.iter().map(length).collect()
    }

    #[test]
    fn a_whole_io_has_every_phase() {
        use Phase::*;
        let expected = [
            (100, Submit),
            (50, Tags),
            (50, Queue),
            (600, Device),
            (10, Completion),
            (90, Cpu),
            (100, Application),
        ];
        assert_eq!(all(&io(), &NONE), expected);
    }

    #[test]
    fn a_queued_io_is_not_what_its_thread_did() {
        let queued = LayerRow {
            bio_ns: None,
            bios: Some(0),
            flags: Some(flags::QUEUED),
            blocked_ns: Some(1),
            wake_ns: None,
            ..io()
        };
        assert_eq!(all(&queued, &NONE), [(1000, Phase::Unobserved)]);
        let served = LayerRow {
            served_ns: Some(1100),
            answered_ns: Some(1900),
            ..queued.clone()
        };
        let expected = [
            (100, Phase::Submit),
            (800, Phase::FileSystem),
            (100, Phase::Application),
        ];
        assert_eq!(all(&served, &NONE), expected);
        let inline = LayerRow {
            blocked_ns: Some(0),
            ..queued
        };
        assert_eq!(all(&inline, &NONE), [(1000, Phase::Submit)]);
    }

    #[test]
    fn an_unseen_completion_is_unobserved() {
        let lost = LayerRow {
            parts: Some(0),
            done_ns: None,
            wake_ns: None,
            ..io()
        };
        assert_eq!(all(&lost, &NONE).last(), Some(&(800, Phase::Unobserved)));
    }

    #[test]
    fn a_held_io_was_throttled() {
        let held = LayerRow {
            flags: Some(flags::HELD),
            held_ns: Some(1100),
            ..io()
        };
        assert_eq!(all(&held, &NONE)[0], (100, Phase::Throttle));
    }

    #[test]
    fn a_sleep_is_named_by_its_stack() {
        let events = [
            off(1010, Some(1050), 1060, "request_wait_answer;fuse_read"),
            off(1820, None, 1870, "exit_to_user_mode_loop"),
        ];
        let beside = Beside {
            off: &events,
            ..NONE
        };
        let lengths = lengths(&pieces(&io(), &beside));
        assert_eq!(lengths.get(Phase::FileSystem), 40);
        assert_eq!(lengths.get(Phase::Cpu), 10 + 50);
        assert_eq!(lengths.sum(), 1000);
    }

    #[test]
    fn nothing_is_known_to_be_on_cpu_when_events_were_lost() {
        let cached = LayerRow {
            bio_ns: None,
            bios: Some(0),
            ..io()
        };
        let blind = Beside {
            blind: true,
            ..NONE
        };
        assert_eq!(all(&cached, &NONE), [(1000, Phase::Submit)]);
        assert_eq!(all(&cached, &blind), [(1000, Phase::Unobserved)]);
    }

    proptest! {
        #[test]
        fn phases_sum_to_the_latency_whatever_the_stamps(
            stamps in prop::collection::vec(prop::option::of(900i64..2100), 12),
            bits in 0u64..128, bios in 0u64..3, parts in 0u64..3,
            offs in prop::collection::vec((0i64..1200, 0i64..300, 0i64..300, 0u64..2), 0..4),
        ) {
            let mut at = 900;
            let events: Vec<LayerRow> = offs.iter().map(|(gap, sleep, wait, state)| {
                let from = at + gap;
                at = from + sleep + wait + 1;
                LayerRow { state: Some(*state), ..off(from, Some(from + sleep), at, "mutex_lock") }
            }).collect();
            let io = LayerRow {
                flags: Some(bits), bios: Some(bios), parts: Some(parts),
                enter_ns: stamps[0], bio_ns: stamps[1], bio_last_ns: stamps[2],
                held_ns: stamps[3], alloc_ns: stamps[4], issue_ns: stamps[5],
                done_ns: stamps[6], wake_ns: stamps[7], run_ns: stamps[8],
                low_issue_ns: stamps[9], low_done_ns: stamps[10], ..io()
            };
            for blind in [false, true] {
                let beside = Beside { off: &events, blind, ..NONE };
                let pieces = pieces(&io, &beside);
                prop_assert_eq!(lengths(&pieces).sum(), 1000);
                prop_assert!(pieces.windows(2).all(|w| w[0].to == w[1].from));
            }
        }
    }
}
