//! One traced I/O cut into phases that sum to its latency, to the nanosecond.
//!
//! What it is: stamps and the thread's stretches off the CPU turned into lengths. What cannot be
//! told apart is `Unobserved`, never guessed. What it is not: judgement, see `judge`.

use taillight_rundir::layers::{LayerRow, flags};

use super::load::Events;
pub use super::phase::{Phase, Phases};
use super::stacks::{self, Wait};
use super::workers;
use super::{blocks, gaps, threads};

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
    /// Only when threads ran was seen: nothing below the system call.
    pub threads_only: bool,
    /// Times in which nothing was seen: of this worker, and of all.
    pub gaps: [&'a [LayerRow]; 2],
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
    /// Where it must end.
    pub end: i64,
}

impl Line {
    /// At the begin of an I/O.
    pub fn of(io: &LayerRow) -> Line {
        Line {
            pieces: Vec::with_capacity(8),
            at: io.start_ns,
            end: io.end_ns,
        }
    }

    /// Whether anything is behind it.
    pub fn begun(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// What was built; the rest of the I/O is `rest`.
    pub fn end(mut self, rest: Phase) -> Vec<Piece> {
        self.to(self.end, rest);
        self.pieces
    }

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
    let line = if beside.threads_only {
        threads::line(io, beside)
    } else {
        whole(io, beside)
    };
    gaps::blot(line, io, beside)
}

fn whole(io: &LayerRow, beside: &Beside<'_>) -> Vec<Piece> {
    let mut line = Line::of(io);
    let punt = io.punt_ns.filter(|_| has(io, flags::PUNTED));
    let mut handed = [punt, io.sync_punt_ns].into_iter().flatten().peekable();
    let rounds = blocks::rounds(io);
    if rounds.is_empty() && handed.peek().is_none() {
        thread_only(&mut line, io, beside);
        return line.pieces;
    }
    let own = match handed.peek() {
        Some(_) => workers::own(io, beside),
        None => Vec::new(),
    };
    let worker = Beside {
        off: &own,
        reclaim: &[],
        ..*beside
    };
    let mut doing = beside;
    for (i, round) in rounds.iter().enumerate() {
        while let Some(at) = handed.next_if(|at| *at <= round.bio) {
            hand_over(&mut line, io, at, beside, &worker);
            doing = &worker;
        }
        let next = rounds.get(i + 1).map(|r| r.bio);
        blocks::round(&mut line, io, round, next.or(handed.peek().copied()), doing);
    }
    let mut idle = rounds.is_empty();
    for at in handed {
        hand_over(&mut line, io, at, beside, &worker);
        (doing, idle) = (&worker, true);
    }
    if idle {
        workers::busy(&mut line, io, doing);
    } else {
        workers::told(&mut line, &own);
    }
    after(&mut line, io, io.end_ns, beside);
    line.pieces
}

/// Whether a flag is set.
pub(super) fn has(io: &LayerRow, bit: u64) -> bool {
    io.flags.unwrap_or(0) & bit != 0
}

/// An I/O, or the sync of a write, goes to an io_uring worker thread.
fn hand_over(line: &mut Line, io: &LayerRow, at: i64, beside: &Beside<'_>, worker: &Beside<'_>) {
    if line.at == io.start_ns {
        stretch(line, at, Phase::Submit, false, beside);
    } else {
        after(line, io, at, beside);
    }
    workers::wait(line, io, worker);
}

/// An I/O without block I/O of its own.
fn thread_only(line: &mut Line, io: &LayerRow, beside: &Beside<'_>) {
    let queued = has(io, flags::QUEUED);
    if let (true, Some(from), Some(to)) = (queued, io.served_ns, io.answered_ns) {
        stretch(line, from, Phase::Submit, false, beside);
        line.to(to, Phase::FileSystem);
        return after(line, io, io.end_ns, beside);
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
        return after(line, io, io.end_ns, beside);
    }
    // A thread with several in flight slept: this one was not done at once, and what the thread
    // did meanwhile was not for it.
    let elsewhere = has(io, flags::PUNTED) || (queued && io.blocked_ns.unwrap_or(0) > 0);
    stretch(line, io.end_ns, Phase::Submit, elsewhere, beside);
}

/// From the device's answer to the program. A thread that waits is told of it and woken up, then it
/// runs: from there on, and when it was not waiting at all, time on the CPU is the program's own.
fn after(line: &mut Line, io: &LayerRow, to: i64, beside: &Beside<'_>) {
    let from = line.at;
    if to <= from {
        return;
    }
    match overlapping(beside.off, from, to).next() {
        Some(row) if row.start_ns <= from && row.state != Some(0) => {
            stretch(line, row.end_ns.min(to), Phase::Completion, false, beside);
        }
        Some(_) => {}
        None => {
            if let (Some(wake), Some(run)) = (io.wake_ns, io.run_ns)
                && wake >= from
                && run >= wake
            {
                line.to(wake.min(to), Phase::Completion);
                line.to(run.min(to), Phase::Cpu);
            }
        }
    }
    let elsewhere = has(io, flags::QUEUED) && dozed(io, beside) * 4 > (to - from).unsigned_abs();
    stretch(line, to, Phase::Application, elsewhere, beside);
}

/// How long the thread slept during this I/O in stretches too short for events. One that has several
/// in flight takes whatever has come when it wakes up: this one had not, and nothing says why.
fn dozed(io: &LayerRow, beside: &Beside<'_>) -> u64 {
    let within = |at: i64| at.clamp(io.start_ns, io.end_ns);
    let slept = overlapping(beside.off, io.start_ns, io.end_ns)
        .filter(|r| r.state != Some(0))
        .map(|r| within(r.middle_ns.unwrap_or(r.end_ns)) - within(r.start_ns));
    let known: i64 = slept.sum();
    io.blocked_ns
        .unwrap_or(0)
        .saturating_sub(known.unsigned_abs())
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
        let Some(wake) = woken(off) else {
            line.to(back, Phase::Unobserved);
            continue;
        };
        line.to(wake.min(to), asleep(off, base, beside));
        line.to(back, Phase::Cpu);
    }
    busy(line, to, idle, beside);
}

/// When a sleeping thread was woken up. A wake-up that was not seen was only just before, where the
/// CPU had nothing else to do; else nobody knows for how long the thread then waited for it.
fn woken(off: &LayerRow) -> Option<i64> {
    let idle = |name: &str| name.starts_with("swapper/");
    off.middle_ns
        .or_else(|| off.comm.as_deref().is_some_and(idle).then_some(off.end_ns))
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
        threads_only: false,
        gaps: [&[], &[]],
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
    fn below_a_loop_device_the_queue_and_the_device_are_told_apart() {
        use Phase::*;
        let looped = LayerRow {
            low_bio_ns: Some(1300),
            low_issue_ns: Some(1350),
            low_done_ns: Some(1750),
            ..io()
        };
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
        assert_eq!(all(&looped, &NONE), expected);
    }

    #[test]
    fn the_sync_of_a_write_begins_where_the_write_ends() {
        use Phase::*;
        // Written in 1100..1300, the sync handed over at 1400, its flush in 1600..1800.
        let both = LayerRow {
            rounds: Some(1),
            part_bio_ns: Some(1100),
            part_alloc_ns: Some(1110),
            part_issue_ns: Some(1120),
            part_done_ns: Some(1300),
            sync_punt_ns: Some(1400),
            bio_ns: Some(1600),
            bio_last_ns: Some(1600),
            alloc_ns: Some(1600),
            issue_ns: Some(1600),
            bios: Some(2),
            parts: Some(2),
            ..io()
        };
        let expected = [
            (100, Submit),
            (10, Tags),
            (10, Queue),
            (180, Device),
            (100, Application),
            (200, IoWorker),
            (200, Device),
            (10, Completion),
            (90, Cpu),
            (100, Application),
        ];
        assert_eq!(all(&both, &NONE), expected);
        // The flush is another thread's: what the worker did meanwhile is not seen here.
        let one = LayerRow {
            sync_punt_ns: Some(1850),
            wake_ns: None,
            ..io()
        };
        let expected = [
            (100, Submit),
            (50, Tags),
            (50, Queue),
            (600, Device),
            (50, Application),
            (150, IoWorker),
        ];
        assert_eq!(all(&one, &NONE), expected);
    }

    #[test]
    fn a_worker_that_waits_for_a_cpu_after_its_flush_is_no_late_completion() {
        let all_of = |events: &Events| {
            let both = LayerRow {
                token: Some(7),
                sync_punt_ns: Some(1050),
                wake_ns: None,
                ..io()
            };
            lengths(&pieces(&both, &events.beside(0)))
        };
        let mut events = Events::default();
        let slept = LayerRow {
            kind: Kind::Worker,
            token: Some(7),
            ..off(1110, Some(1820), 1950, "submit_bio_wait;blkdev_issue_flush")
        };
        assert_eq!(all_of(&events).get(Phase::Cpu), 0);
        events.other.insert(Kind::Worker, vec![slept]);
        let it = all_of(&events);
        assert_eq!((it.get(Phase::Cpu), it.get(Phase::Completion)), (130, 20));
    }

    #[test]
    fn a_thread_that_dozed_was_not_busy_with_what_had_not_come() {
        let queued = |blocked| LayerRow {
            flags: Some(flags::QUEUED),
            blocked_ns: Some(blocked),
            wake_ns: None,
            ..io()
        };
        let application = |io: LayerRow| lengths(&pieces(&io, &NONE)).get(Phase::Application);
        assert_eq!(application(queued(10)), 200);
        assert_eq!(application(queued(700)), 0);
    }

    #[test]
    fn a_wake_up_that_went_unseen_is_known_where_the_cpu_was_free() {
        let asleep = |comm: &str| {
            let row = LayerRow {
                comm: Some(comm.into()),
                state: Some(1),
                ..off(1010, None, 1060, "request_wait_answer;fuse_read")
            };
            let beside = Beside {
                off: &[row],
                ..NONE
            };
            lengths(&pieces(&io(), &beside))
        };
        assert_eq!(asleep("swapper/1").get(Phase::FileSystem), 50);
        assert_eq!(asleep("rustc").get(Phase::FileSystem), 0);
        assert_eq!(asleep("rustc").get(Phase::Unobserved), 50);
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
            more in prop::collection::vec(prop::option::of(900i64..2100), 6),
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
                low_issue_ns: stamps[9], low_done_ns: stamps[10],
                part_bio_ns: more[0], part_alloc_ns: more[1], part_issue_ns: more[2],
                part_done_ns: more[3], sync_punt_ns: more[4], punt_ns: more[5], ..io()
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
