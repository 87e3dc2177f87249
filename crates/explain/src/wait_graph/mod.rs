//! The wait graph: an I/O waited for something in a time, and that in turn waited for something else. Each rule of
//! [`RULES`] finds the edges of one kind ([`Wait`]); `resolve` follows them, so that the time line of an I/O says what
//! was waited for at last. To add a kind of wait: a function that finds its edges, and a line of the table.
//!
//! Each verdict names the rules that its layer's time is from; to see what a rule is for, `taillight explain --without
//! RULE` leaves it out.

pub mod commits;
pub mod held_pages;
pub mod other_ios;
pub mod pauses;
pub mod resolve;
pub mod stolen;
pub mod thread_waits;

use taillight_core::TimeSpan;

use crate::events::context::IoContext;
use crate::events::event::OffCpu;
use crate::events::io::TracedIo;
use crate::phase::Phase::{self, *};
use crate::time_line::segments::{RuleSet, Segment, Source, wait_segments};
use crate::wait_graph::Find::*;
use crate::wait_graph::commits::{commit_thread_waits, journal_writes, slow_writeback};
use crate::wait_graph::held_pages::{blocks_held_back, lower_held_back, pages_held_back};
use crate::wait_graph::other_ios::FOR_ANOTHER;
use crate::wait_graph::resolve::Graph;
use crate::wait_graph::thread_waits::{
    completion_thread_waits, disk_server_waits, dispatch_waits, server_waits, serving_waits,
    sqpoll_waits, stop_sleeps, waking_thread_waits,
};

/// An edge: an I/O, or a thread that one waited for, waited for something in a time.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'a> {
    pub from: i64,
    pub to: i64,
    pub on: Cause<'a>,
    /// How it is known.
    pub source: Source,
    /// Whether a phase of what was waited for is part of the wait.
    pub takes: fn(Phase) -> bool,
    /// Number of the rule that found it, which the resolver puts in.
    rule: usize,
}

/// What was waited for.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// What leads no further: a server, the disk, a limit, a pause.
    Phase(Phase),
    /// A thread that was off the CPU: what it slept for, or a CPU.
    Thread(&'a OffCpu),
    /// Another I/O of the run, by number.
    Io(usize),
}

impl<'a> Wait<'a> {
    pub fn new(TimeSpan { from, to }: TimeSpan, on: Cause<'a>, source: Source) -> Wait<'a> {
        Wait { from, to, on, source, takes: |_| true, rule: 0 }
    }

    /// What is known without following it further.
    pub fn segments(&self) -> Vec<Segment> {
        match self.on {
            Cause::Phase(phase) => {
                vec![Segment::new(TimeSpan::new(self.from, self.to), phase, self.source)]
            }
            Cause::Thread(off) => wait_segments(off, self.source),
            Cause::Io(_) => Vec::new(),
        }
    }
}

impl From<Segment> for Wait<'_> {
    fn from(found: Segment) -> Self {
        Wait::new(found.time(), Cause::Phase(found.phase), found.source)
    }
}

/// Finds edges of one kind. What was waited for takes the place of segments of these phases.
struct Rule {
    /// Stable name in outputs.
    name: &'static str,
    over: &'static [Phase],
    find: Find,
    /// It holds of a thread that an I/O waited for as of the I/O's own.
    of_threads: bool,
}

enum Find {
    /// For a segment, in the events of its time: what leads no further.
    Causes(fn(&Segment, &TracedIo, &IoContext<'_>) -> Vec<Segment>),
    /// The same: what may itself have waited.
    Waits(for<'a> fn(&Segment, &TracedIo, &IoContext<'a>) -> Vec<Wait<'a>>),
    /// Among the other I/Os of the run, for the one of a number.
    Others(for<'a> fn(&Graph<'a>, usize) -> Vec<Wait<'a>>),
}

const fn rule(name: &'static str, over: &'static [Phase], find: Find) -> Rule {
    Rule { name, over, find, of_threads: false }
}

const fn of_threads(name: &'static str, over: &'static [Phase], find: Find) -> Rule {
    Rule { name, over, find, of_threads: true }
}

/// What may be no more than the program itself not going on.
const PROGRAM: &[Phase] = &[Submit, Completion, Cpu, Application, IoWorker, Unobserved];
/// What may be no more than the thread not being at this I/O yet, or not having told of its end.
const NOT_BEGUN: &[Phase] = &[Submit, Completion, Unobserved];
/// What may be no more than that nobody was seen to do anything for the I/O.
const UNTOLD: &[Phase] = &[Submit, Completion, Application, IoWorker, Unobserved];

/// In the order in which they are asked: a rule that finds times of a phase comes before those that find what these
/// waited for.
static RULES: [Rule; 22] = [
    rule("server", UNTOLD, Causes(server_waits)),
    rule("completion-thread", &[Completion, Unobserved], Waits(completion_thread_waits)),
    rule("stolen-cpu", &[Completion], Causes(stolen::waits)),
    rule("limit-below", &[Device, LowerQueue], Causes(lower_held_back)),
    rule("polling-thread", NOT_BEGUN, Waits(sqpoll_waits)),
    rule("serving-thread", &[Server], Waits(serving_waits)),
    of_threads("pages", &[PageCache, Unobserved], Causes(pages_held_back)),
    of_threads("blocks-held-back", &[FileSystem], Causes(blocks_held_back)),
    of_threads("committer", &[FileSystem], Waits(commit_thread_waits)),
    of_threads("journal-write", &[FileSystem], Causes(journal_writes)),
    of_threads("slow-writeback", &[PageCache], Causes(slow_writeback)),
    rule(
        "waking-thread",
        &[FileSystem, PageCache, Server, Unobserved],
        Causes(waking_thread_waits),
    ),
    rule("disk-server", &[Device], Waits(disk_server_waits)),
    rule("dispatch", &[Queue], Causes(dispatch_waits)),
    rule("stopped", PROGRAM, Causes(stop_sleeps)),
    rule(pauses::RULE, pauses::OVER, Causes(pauses::waits)),
    rule("lock-of-another", FOR_ANOTHER, Others(other_ios::waits_for_holder)),
    rule("pages-of-another", FOR_ANOTHER, Others(other_ios::waits_for_pages)),
    rule("turn", FOR_ANOTHER, Others(other_ios::waits_for_turn)),
    rule("few-workers", &[IoWorker], Others(other_ios::waits_for_held_worker)),
    rule("batch", NOT_BEGUN, Others(other_ios::waits_for_submission)),
    rule("waker", &[Application], Others(other_ios::waits_for_waker)),
];

/// Names of all rules, by number.
pub fn names() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Whether a rule is called so.
pub fn is_rule(name: &str) -> bool {
    names().any(|known| known == name)
}

impl RuleSet {
    /// The names of its rules.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names().enumerate().filter(move |(i, _)| self.has(*i)).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::judge::{Layer, layer};

    #[test]
    fn a_verdict_names_the_rules_that_its_layers_time_is_from() {
        let all: Vec<&str> = names().collect();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        assert!(once.len() == all.len() && all.len() <= 32, "a number for each name");
        let rule = all.iter().position(|name| *name == "disk-server").unwrap();
        let segment =
            |from, to, phase| Segment::new(TimeSpan::new(from, to), phase, Source::Stamps);
        let mut line =
            vec![segment(0, 10, Submit), segment(10, 90, Device), segment(90, 100, Completion)];
        for found in [segment(20, 80, Cpu), segment(92, 95, Cpu)] {
            let wait = Wait { rule, ..Wait::from(found) };
            resolve::put(&mut line, &wait, |_| wait.segments());
        }
        let spoke = |blamed| {
            let of_layer = line.iter().filter(|p| layer(p.phase) == blamed);
            RuleSet::of(of_layer).names().collect::<Vec<_>>()
        };
        assert_eq!(spoke(Layer::Cpu), ["disk-server"]);
        assert!(spoke(Layer::Device).is_empty(), "its own stamps");
        assert_eq!(line.len(), 5, "a completion is none of the rule's phases");
    }
}
