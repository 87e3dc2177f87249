//! The table of what replaces a wait in a time line by what was waited for, in the order in which it is applied: first
//! what other threads did for the I/O, then what other I/Os of the run did that this one waited for. Each verdict
//! names the rules that its layer's time is from; to see what a rule is for, `taillight explain --without RULE` leaves it out.

pub mod commits;
pub mod held_pages;
pub mod other_ios;
pub mod pauses;
pub mod stolen;
pub mod thread_waits;

use crate::events::context::IoContext;
use crate::events::io::TracedIo;
use crate::time_line::phase::Phase::{self, *};
use crate::time_line::segments::{Segment, by_phase, overlay};
use crate::verdict::judge::{Layer, layer};
use crate::wait_graph::commits::{commit_thread_waits, journal_writes, slow_writeback};
use crate::wait_graph::held_pages::{blocks_held_back, lower_held_back, pages_held_back};
use crate::wait_graph::other_ios::OtherIos;
use crate::wait_graph::thread_waits::{
    completion_thread_waits, disk_server_waits, dispatch_waits, server_waits, serving_waits,
    sqpoll_waits, stop_sleeps,
};

/// A rule: what it finds takes the place of segments of these phases.
pub struct Overlay<F> {
    /// Stable name in outputs.
    name: &'static str,
    over: &'static [Phase],
    find: F,
}

/// Finds in the line of an I/O what threads did for it meanwhile.
type ByThreads = fn(&[Segment], &TracedIo, &IoContext<'_>) -> Vec<Segment>;
/// Finds what the I/O of a number waited for that is another I/O's.
type ByOthers = fn(usize, &OtherIos<'_>) -> Vec<Segment>;

const fn rule<F>(name: &'static str, over: &'static [Phase], find: F) -> Overlay<F> {
    Overlay { name, over, find }
}

/// What may be no more than the program itself not going on.
const PROGRAM: &[Phase] = &[Submit, Completion, Cpu, Application, IoWorker, Unobserved];
/// What may be no more than the thread not being at this I/O yet, or not having told of its end.
const NOT_BEGUN: &[Phase] = &[Submit, Completion, Unobserved];

/// What may be no more than that nobody was seen to do anything for the I/O.
const UNTOLD: &[Phase] = &[Submit, Completion, Application, IoWorker, Unobserved];

static THREADS: [Overlay<ByThreads>; 15] = [
    rule("server", UNTOLD, server_waits),
    rule("completion-thread", &[Completion, Unobserved], completion_thread_waits),
    rule("stolen-cpu", &[Completion], stolen::waits),
    rule("limit-below", &[Device, LowerQueue], lower_held_back),
    rule("polling-thread", NOT_BEGUN, sqpoll_waits),
    rule("pages", &[PageCache, Unobserved], pages_held_back),
    rule("blocks-held-back", &[FileSystem], blocks_held_back),
    rule("committer", &[FileSystem], commit_thread_waits),
    rule("journal-write", &[FileSystem], journal_writes),
    rule("slow-writeback", &[PageCache], slow_writeback),
    // After those that find times of the device: the journal's writes wait for whoever serves the disk, too.
    rule("disk-server", &[Device], disk_server_waits),
    rule("dispatch", &[Queue], dispatch_waits),
    rule("stopped", PROGRAM, stop_sleeps),
    rule("serving-thread", &[Server], serving_waits),
    // The last one: see `by_pauses`.
    rule("pause", pauses::OVER, pauses::waits),
];

static OTHERS: [Overlay<ByOthers>; 6] = [
    rule("lock-of-another", other_ios::FOR_ANOTHER, other_ios::waits_for_holder),
    rule("pages-of-another", other_ios::FOR_ANOTHER, other_ios::waits_for_pages),
    rule("turn", other_ios::FOR_ANOTHER, other_ios::waits_for_turn),
    rule("few-workers", &[IoWorker], other_ios::waits_for_held_worker),
    rule("batch", NOT_BEGUN, other_ios::waits_for_submission),
    rule("waker", &[Application], other_ios::waits_for_waker),
];

/// Names of all rules, by number.
pub fn names() -> impl Iterator<Item = &'static str> {
    THREADS.iter().map(|r| r.name).chain(OTHERS.iter().map(|r| r.name))
}

/// Whether a rule is called so.
pub fn is_rule(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Puts what threads did for the I/O into its time line.
pub fn by_threads(line: Vec<Segment>, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    by_rules(0, line, io, context)
}

/// Puts pauses of the target into the time line, and nothing else: all that is known of an I/O that was not traced.
pub fn by_pauses(line: Vec<Segment>, io: &TracedIo, context: &IoContext<'_>) -> Vec<Segment> {
    by_rules(THREADS.len() - 1, line, io, context)
}

/// Applies the rules about threads from number `first` on.
fn by_rules(
    first: usize,
    mut line: Vec<Segment>,
    io: &TracedIo,
    context: &IoContext<'_>,
) -> Vec<Segment> {
    let rules = THREADS.iter().enumerate().skip(first);
    for (number, rule) in rules.filter(|(_, r)| !context.without(r.name)) {
        let found = (rule.find)(&by_phase(&line), io, context);
        line = rule.put(line, found, number);
    }
    line
}

/// The line of an I/O with what it waited for that is another I/O's: of a further `pass` only what is no wait for yet
/// another one.
pub fn by_others(i: usize, all: &OtherIos<'_>, pass: u32) -> Vec<Segment> {
    let mut line = all.judged[i].segments.clone();
    for (number, rule) in OTHERS.iter().enumerate().filter(|(_, r)| !all.events.without(r.name)) {
        let mut found = (rule.find)(i, all);
        let same = rule.over == other_ios::FOR_ANOTHER;
        found.retain(|wait| !same || pass == 0 || !other_ios::FOR_ANOTHER.contains(&wait.phase));
        line = rule.put(line, found, THREADS.len() + number);
    }
    line
}

impl<F> Overlay<F> {
    fn put(&self, line: Vec<Segment>, found: Vec<Segment>, number: usize) -> Vec<Segment> {
        if found.is_empty() {
            return line;
        }
        let rule = Some(number as u8);
        let found: Vec<Segment> = found.into_iter().map(|p| Segment { rule, ..p }).collect();
        overlay(&line, &found, |p| self.over.contains(&p.phase))
    }
}

/// Which rules spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleSet(u32);

impl RuleSet {
    /// Those that a layer's time in a line is from.
    pub fn of(line: &[Segment], blamed: Layer) -> RuleSet {
        let spoke = line.iter().filter(|p| layer(p.phase) == blamed).filter_map(|p| p.rule);
        RuleSet(spoke.fold(0, |set, rule| set | 1 << rule))
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        names().enumerate().filter(move |(i, _)| self.0 & 1 << i != 0).map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_line::segments::Source;

    #[test]
    fn a_verdict_names_the_rules_that_its_layers_time_is_from() {
        let all: Vec<&str> = names().collect();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        assert!(once.len() == all.len() && all.len() <= 32, "a number for each name");
        let segment = |from, to, phase| Segment::new((from, to), phase, Source::Stamps);
        let line =
            vec![segment(0, 10, Submit), segment(10, 90, Device), segment(90, 100, Completion)];
        let number = all.iter().position(|name| *name == "disk-server").unwrap();
        let found = vec![segment(20, 80, Cpu), segment(92, 95, Cpu)];
        let line = THREADS[number].put(line, found, number);
        let spoke = |blamed| RuleSet::of(&line, blamed).names().collect::<Vec<_>>();
        assert_eq!(spoke(Layer::Cpu), ["disk-server"]);
        assert!(spoke(Layer::Device).is_empty(), "its own stamps");
        assert_eq!(line.len(), 5, "a completion is none of the rule's phases");
    }
}
