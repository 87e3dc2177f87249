//! One traced I/O cut into phases that sum to its latency, to the nanosecond.
//!
//! What it is: stamps and the thread's stretches off the CPU turned into lengths. What cannot be
//! told apart is `Unobserved`, never guessed. What it is not: judgement, see `judge`.

use taillight_rundir::layers::{Kind, LayerRow, flags};

use super::blocks::Round;
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
    pub to: i64,
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
    /// Its earlier rounds of parts, by time.
    pub earlier: &'a [Round],
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
    let rounds = blocks::rounds(io, beside.earlier);
    let sure = blocks::all_known(io, beside.earlier);
    if rounds.is_empty() && handed.peek().is_none() {
        thread_only(&mut line, io, beside);
        return line.pieces;
    }
    let [own, room] = [Kind::Worker, Kind::Reclaim].map(|kind| match handed.peek() {
        Some(_) => workers::own(io, kind, beside),
        None => Vec::new(),
    });
    let worker = Beside {
        off: &own,
        reclaim: &room,
        ..*beside
    };
    let mut doing = beside;
    for (i, round) in rounds.iter().enumerate() {
        while let Some(at) = handed.next_if(|at| *at <= round.bio) {
            hand_over(&mut line, io, at, beside, &worker);
            doing = &worker;
        }
        let next = rounds.get(i + 1).map(|r| r.bio);
        let next = next.or(handed.peek().copied());
        blocks::round(&mut line, io, round, (sure, next), doing);
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
    workers::wait(line, io, worker, beside);
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
                && run <= to
            {
                line.to(wake, Phase::Completion);
                line.to(run, Phase::Cpu);
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

/// Whether this is the name of a CPU that has nothing to do.
fn idle(name: &str) -> bool {
    name.starts_with("swapper/")
}

/// When a sleeping thread was woken up. A wake-up that was not seen was only just before, where the
/// CPU had nothing else to do; else nobody knows for how long the thread then waited for it.
fn woken(off: &LayerRow) -> Option<i64> {
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

/// What a waiter for a lock waited for: what who held it was asleep for, for at least half of the
/// time. Who let go of it woke the waiter up. Where an idle CPU passed the wake-up on, or nobody was seen
/// to wake it up, nobody knows who that was: then another thread of the load that was asleep for so long.
fn holder(off: &LayerRow, beside: &Beside<'_>) -> Option<Phase> {
    let (from, to) = (off.start_ns, off.middle_ns?);
    let threads = &beside.all?.off;
    if let Some(waker) = off.waker {
        return slept_for(threads.get(&waker)?, from, to);
    }
    let passed_on = off.other.as_deref().is_none_or(idle);
    let mut others = threads
        .iter()
        .filter(|(worker, _)| Some(**worker) != off.worker);
    passed_on.then(|| others.find_map(|(_, rows)| slept_for(rows, from, to)))?
}

/// What a thread was asleep for, for at least half of a time.
fn slept_for(rows: &[LayerRow], from: i64, to: i64) -> Option<Phase> {
    let mut sums = Phases::default();
    for row in overlapping(rows, from, to).filter(|r| r.state != Some(0)) {
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
mod tests;
