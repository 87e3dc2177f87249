//! io_uring worker threads: what an I/O that was handed to one waited for.
//!
//! What it is: the part of an I/O's time line between the hand-over and the worker's doing. What it
//! is not: the block layer, see `phases`. A worker that sleeps or waits for a CPU leaves an event
//! that names the I/O it was doing.

use taillight_rundir::layers::{Kind, LayerRow};

use super::phases::{Beside, Line, Phase, overlapping, stretch};
use super::stacks::{self, Wait};

/// The stretches off the CPU of the worker that did this very I/O, by time.
pub fn own(io: &LayerRow, beside: &Beside<'_>) -> Vec<LayerRow> {
    let Some(all) = beside.all.filter(|_| io.token.is_some()) else {
        return Vec::new();
    };
    let rows = all.within(Kind::Worker, io.start_ns, io.end_ns);
    rows.filter(|r| r.token == io.token).cloned().collect()
}

/// From the hand-over until the worker is known to be at it.
pub fn wait(line: &mut Line, io: &LayerRow, doing: &Beside<'_>) {
    let first = doing.off.first().map(|r| r.start_ns);
    let known = [io.held_ns, io.bio_ns, first, io.cqe_ns];
    let begun = known.into_iter().flatten().filter(|at| *at >= line.at);
    let begun = begun.min().unwrap_or(io.end_ns);
    if doing.blind {
        return line.to(begun, Phase::Unobserved);
    }
    if let Some((from, to, phase)) = blocker(line.at, begun, io, doing) {
        line.to(from, Phase::IoWorker);
        line.to(to, phase);
    }
    line.to(begun, Phase::IoWorker);
}

/// What kept the workers for at least half of the time, if it was one thing: another I/O's sleep,
/// or a CPU that was not to be had.
fn blocker(from: i64, to: i64, io: &LayerRow, doing: &Beside<'_>) -> Option<(i64, i64, Phase)> {
    let mut most: Option<(i64, i64, Phase)> = None;
    let mut look = |start: i64, end: i64, phase: Phase| {
        let (start, end) = (start.max(from), end.min(to));
        if most.is_none_or(|(a, b, _)| end - start > b - a) {
            most = Some((start, end, phase));
        }
    };
    for row in doing.all?.within(Kind::Worker, from, to) {
        if row.token == io.token {
            continue;
        }
        if row.state == Some(0) {
            look(row.start_ns, row.end_ns, Phase::Cpu);
            continue;
        }
        let wake = row.middle_ns.unwrap_or(row.end_ns);
        look(wake, row.end_ns, Phase::Cpu);
        if row.token.is_some()
            && let Some(Wait::For(phase, _) | Wait::Lock(phase, _)) =
                row.stack.as_deref().map(stacks::wait)
        {
            look(row.start_ns, wake, phase);
        }
    }
    most.filter(|(a, b, _)| b > a && (b - a) * 2 >= to - from)
}

/// An I/O that the worker did without block I/O: its sleeps say what for.
pub fn busy(line: &mut Line, io: &LayerRow, doing: &Beside<'_>) {
    let last = doing.off.last().map(|r| r.end_ns);
    let until = io.cqe_ns.or(last).unwrap_or(line.at);
    let seen = overlapping(doing.off, line.at, until).next().is_some();
    if seen || io.cqe_ns.is_some() {
        stretch(line, until, Phase::Submit, false, doing);
    }
}
