//! Follows the edges of the wait graph: a wait in a time line becomes what was waited for did meanwhile, and a wait of
//! that what it waited for in turn, until nothing more is known. At each instant one thing was waited for, so that what
//! is left is the critical path of the I/O, and still sums to its latency.
//!
//! Threads come first: for them the I/O and the events of its time are enough. Other I/Os come when all are judged.

use std::cell::OnceCell;
use std::slice;

use taillight_core::TimeSpan;

use crate::events::Events;
use crate::events::context::IoContext;
use crate::events::event::{OffCpu, Timed};
use crate::events::io::TracedIo;
use crate::events::list::{EventList, KeepsEvents, overlapping};
use crate::events::slow::Slow;
use crate::phase::Phase;
use crate::time_line::phases;
use crate::time_line::segments::{
    Segment, Source, WAKEUP_WINDOW_NS, by_phase, overlay, wait_segments,
};
use crate::verdict::judge::Judged;
use crate::wait_graph::other_ios::Index;
use crate::wait_graph::{Cause, Find, RULES, Rule, Wait, pauses};

/// How many threads that wait for each other are followed.
const THREADS: usize = 4;
/// How many I/Os that wait for each other are followed: as long as a queue for a lock may be.
const IOS: usize = 64;
/// How many lines are looked at for one I/O: where many wait for each other, there are more ways than anybody can go.
const LINES: usize = 1 << 14;

/// The time line of one traced I/O, with what its own threads and those that acted for it waited for.
pub fn segments(io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    let line = phases::segments(io, context);
    match context.threads_only {
        true => by_pauses(line, io, context),
        false => by_threads(line, io, context),
    }
}

/// Puts what threads did for the I/O into its time line.
pub fn by_threads(line: Vec<Segment>, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    by_rules(|_| true, line, io, context, 0)
}

/// Puts pauses of the target into the time line, and nothing else: of an I/O that was not traced, or of a run in which
/// only threads were watched.
pub fn by_pauses(line: Vec<Segment>, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    by_rules(|rule| rule.name == pauses::RULE, line, io, context, 0)
}

/// Resolves a line by those rules that need no other I/O.
fn by_rules(
    which: fn(&Rule) -> bool,
    mut line: Vec<Segment>,
    io: &TracedIo,
    context: &IoContext<'_>,
    depth: usize,
) -> Vec<Segment> {
    let rules = RULES.iter().enumerate().filter(|(_, r)| which(r) && !context.without(r.name));
    for (number, rule) in rules {
        let may = |p: &Segment| rule.over.contains(&p.phase);
        if !line.iter().any(may) {
            continue;
        }
        let mut waits: Vec<Wait<'_>> = Vec::new();
        for segment in by_phase(&line).iter().filter(|&p| may(p)) {
            match rule.find {
                Find::Causes(find) => {
                    waits.extend(find(segment, io, context).into_iter().map(Wait::from));
                }
                Find::Waits(find) => waits.extend(find(segment, io, context)),
                Find::Others(_) => {}
            }
        }
        for wait in &mut waits {
            wait.rule = number;
            put(&mut line, wait, |time| match wait.on {
                Cause::Thread(off) => thread_line(off, wait.source, time, io, context, depth),
                _ => wait.segments(),
            });
        }
    }
    line
}

/// What a thread waited for in a time. A sleep that is too short to explain anything is not followed.
fn thread_line(
    off: &OffCpu,
    tie: Source,
    time: TimeSpan,
    io: &TracedIo,
    context: &IoContext<'_>,
    depth: usize,
) -> Vec<Segment> {
    let line = clipped(&wait_segments(off, tie), time);
    let slept = |p: &Segment| p.phase != Phase::Cpu && p.length() >= WAKEUP_WINDOW_NS;
    if depth == THREADS || !line.iter().any(slept) {
        return line;
    }
    let own = IoContext { off: slice::from_ref(off), worker_off: &[], ..*context };
    let mut line = by_rules(|rule| rule.of_threads, line, io, &own, depth + 1);
    // A chain is known no better than its first edge.
    let better = |p: &&mut Segment| p.source.is_seen() && !tie.is_seen();
    line.iter_mut().filter(better).for_each(|p| p.source = tie);
    line
}

/// Puts what was waited for (`did`, asked for the time in which it matters) in the place of those parts of a line that
/// are of the rule's phases. What the rule has put there already stays: of its waits the first one found counts.
pub fn put(line: &mut Vec<Segment>, wait: &Wait<'_>, did: impl FnOnce(TimeSpan) -> Vec<Segment>) {
    let (over, rule) = (RULES[wait.rule].over, Some(wait.rule as u8));
    let open = |p: &Segment| over.contains(&p.phase) && p.rule != rule;
    // A line may be long, and waits many: no more of it is looked at than a wait meets.
    let begin = line.partition_point(|p| p.to <= wait.from);
    let end = begin + line[begin..].partition_point(|p| p.from < wait.to);
    let mut parts = line[begin..end].iter().filter(|&p| open(p));
    let Some(first) = parts.next() else { return };
    let last = parts.next_back().unwrap_or(first);
    let time = TimeSpan::new(wait.from.max(first.from), wait.to.min(last.to));
    let mut found = clipped(&did(time), time);
    found.retain(|p| (wait.takes)(p.phase));
    found.iter_mut().for_each(|p| p.rule = p.rule.or(rule));
    if !found.is_empty() {
        // With the segments beside, with which the first and the last of these may go on.
        let (begin, end) = (begin.saturating_sub(1), line.len().min(end + 1));
        let changed = overlay(&line[begin..end], &found, open);
        drop(line.splice(begin..end, changed));
    }
}

/// What of a line lies in a time.
fn clipped<'a>(line: impl IntoIterator<Item = &'a Segment>, time: TimeSpan) -> Vec<Segment> {
    line.into_iter().map(|p| p.clipped(time)).filter(|p| p.from < p.to).collect()
}

/// The slow I/Os of a run and those kept beside them, as what one of them waited for is looked for among the others.
pub struct Graph<'a> {
    pub judged: &'a [Judged],
    pub events: &'a Events,
    pub index: Index,
    /// The edges of each I/O, found when it is first come to.
    edges: Vec<OnceCell<EventList<Edge<'a>>>>,
}

/// A wait of an I/O.
struct Edge<'a> {
    /// Its place among all waits of the I/O, of which the first one found counts.
    number: usize,
    wait: Wait<'a>,
}

impl Timed for Edge<'_> {
    fn start_ns(&self) -> i64 {
        self.wait.from
    }
    fn end_ns(&self) -> i64 {
        self.wait.to
    }
}

/// Waits in the order in which they count, so that those of a time are found: an I/O handed to worker threads waits for
/// each one before it in turn, and of these for what each did while the worker was at it.
fn edges<'a>(waits: impl IntoIterator<Item = Wait<'a>>) -> EventList<Edge<'a>> {
    let mut edges = EventList::default();
    let each = waits.into_iter().enumerate();
    each.for_each(|(number, wait)| edges.push(Edge { number, wait }));
    edges.sort();
    edges
}

impl<'a> Graph<'a> {
    pub fn of(judged: &'a [Judged], events: &'a Events) -> Graph<'a> {
        let edges = judged.iter().map(|_| OnceCell::new()).collect();
        Graph { judged, events, index: Index::of(judged), edges }
    }

    fn edges(&self, i: usize) -> &EventList<Edge<'a>> {
        self.edges[i].get_or_init(|| {
            let mut waits: Vec<Wait<'a>> = Vec::new();
            let rules = RULES.iter().enumerate().filter(|(_, r)| !self.events.without(r.name));
            for (number, rule) in rules {
                let Find::Others(find) = rule.find else { continue };
                // A line that no rule has changed yet is the I/O's own.
                let may = |p: &Segment| rule.over.contains(&p.phase);
                if waits.is_empty() && !self.judged[i].segments.iter().any(may) {
                    continue;
                }
                waits.extend(find(self, i).into_iter().map(|wait| Wait { rule: number, ..wait }));
            }
            edges(waits)
        })
    }

    /// The waits of an I/O that meet a time, in the order in which they count.
    fn waits(&self, i: usize, time: TimeSpan) -> impl Iterator<Item = &Wait<'a>> {
        let mut met: Vec<&Edge<'a>> = self.edges(i).within(time.from, time.to).collect();
        met.sort_unstable_by_key(|edge| edge.number);
        met.into_iter().map(|edge| &edge.wait)
    }

    /// Where an I/O's time went, with what it waited for; none where that is no other I/O's.
    fn resolved(&self, i: usize) -> Option<Vec<Segment>> {
        let waits = !self.edges(i).all().is_empty();
        let mut walk = Walk { path: Vec::new(), left: LINES };
        waits.then(|| self.line(i, TimeSpan::new(i64::MIN, i64::MAX), &mut walk))
    }

    /// The same of a time, for the I/Os on the path, which waited for it. That it waited for one of them leads nowhere.
    fn line(&self, i: usize, time: TimeSpan, walk: &mut Walk) -> Vec<Segment> {
        let mut line = clipped(overlapping(&self.judged[i].segments, time.from, time.to), time);
        if walk.path.len() == IOS || walk.left == 0 {
            return line;
        }
        walk.left -= 1;
        walk.path.push(i);
        for wait in self.waits(i, time) {
            put(&mut line, wait, |time| match wait.on {
                Cause::Io(other) if walk.path.contains(&other) => Vec::new(),
                Cause::Io(other) => {
                    let mut line = self.line(other, time, walk);
                    line.iter_mut().for_each(|p| *p = passed_on(wait.source, *p));
                    line
                }
                _ => wait.segments(),
            });
        }
        walk.path.pop();
        line
    }
}

/// From an I/O along those that are waited for.
struct Walk {
    path: Vec<usize>,
    /// Lines that may still be looked at.
    left: usize,
}

/// What a segment of another I/O becomes for the waiting one. Where the ring ties the sleep of a worker thread to the
/// waiting I/O, it was seen.
fn passed_on(tie: Source, segment: Segment) -> Segment {
    let source = match (tie, segment.source) {
        (Source::Helper, Source::OwnSleep) => Source::Helper,
        _ => Source::Holder,
    };
    Segment { source, rule: None, ..segment }
}

/// Replaces waits of those `asked` for (by number, among `judged`) for another I/O of these by what the other I/O
/// waited for meanwhile, and has the waiting I/O judged again by `judge`. Their order stays.
pub fn follow(
    judged: &mut [Judged],
    asked: impl Fn(usize, &Judged) -> bool,
    events: &Events,
    judge: impl Fn(Slow, Option<TracedIo>, Vec<Segment>) -> Judged,
) {
    let graph = Graph::of(judged, events);
    let numbers = (0..judged.len()).filter(|i| asked(*i, &judged[*i]));
    let lines: Vec<(usize, Vec<Segment>)> =
        numbers.filter_map(|i| Some((i, graph.resolved(i)?))).collect();
    drop(graph);
    for (i, line) in lines {
        let one = &mut judged[i];
        if line != one.segments {
            let again = judge(one.slow, one.io.clone(), line);
            *one = Judged { shared: one.shared, queued_ns: one.queued_ns, ..again };
        }
    }
}

#[cfg(test)]
mod tests;
