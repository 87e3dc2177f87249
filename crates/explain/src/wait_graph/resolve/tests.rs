//! Made-up graphs: chains, circles, and waits that overlap only in part.

use std::sync::Arc;

use proptest::prelude::*;
use taillight_core::OpKind;

use super::*;
use crate::events::event::{Helper, LayerEvent, Waker};
use crate::events::stacks::Stack;
use crate::events::thread::Thread;
use crate::time_line::segments::spans;
use crate::verdict::judge::{JudgeInputs, Layer, judge};
use crate::wait_graph::names;

const MS: i64 = 1_000_000;

fn again(slow: Slow, io: Option<TracedIo>, segments: Vec<Segment>) -> Judged {
    judge(slow, io, Some(segments), &JudgeInputs::default())
}

/// Of a worker, from the begin of its first part on.
fn io(worker: u16, parts: &[(i64, i64, Phase)]) -> Judged {
    let (submit_ns, complete_ns) = (parts[0].0, parts[parts.len() - 1].1);
    let slow = Slow { worker, op: OpKind::Write, intended_ns: submit_ns, submit_ns, complete_ns };
    let part = |(from, to, phase): &(i64, i64, Phase)| {
        Segment::new(TimeSpan::new(*from, *to), *phase, Source::Stamps)
    };
    again(slow, None, parts.iter().map(part).collect())
}

/// A worker slept until another one woke it up.
fn woken(worker: u64, by: u64, TimeSpan { from, to: wake }: TimeSpan) -> OffCpu {
    OffCpu {
        worker: Some(worker),
        start_ns: from,
        woken_ns: Some(wake),
        end_ns: wake,
        state: 2,
        waker: Waker { worker: Some(by), ..Waker::default() },
        ..OffCpu::default()
    }
}

fn events<E: Into<LayerEvent>>(list: Vec<E>) -> Events {
    let mut events = Events::default();
    list.into_iter().for_each(|event| events.add(event));
    events.sort();
    events
}

/// Times and phases, whatever the sources and rules.
fn phases(line: &[Segment]) -> Vec<(i64, i64, Phase)> {
    spans(&by_phase(line))
}

#[test]
fn who_queues_for_a_lock_waits_for_all_before_it() {
    use Phase::*;
    const LAST: i64 = 9;
    // Each holds it for 100, in the device; the third one for a limit.
    let holds = |k: i64| (k * 100, k * 100 + 100, if k == 2 { Throttle } else { Device });
    let one = |k: i64| match k {
        0 => io(0, &[holds(0)]),
        _ => io(k as u16, &[(0, k * 100, FileSystem), holds(k)]),
    };
    let off = (1..=LAST).map(|k| woken(k as u64, k as u64 - 1, TimeSpan::new(0, k * 100)));
    let events = events(off.collect::<Vec<OffCpu>>());
    for order in [false, true] {
        let mut list: Vec<Judged> = (0..=LAST).map(one).collect();
        if order {
            list.reverse();
        }
        follow(&mut list, |_, _| true, &events, again);
        list.sort_by_key(|one| one.slow.worker);
        let last = phases(&list[LAST as usize].segments);
        let expected = [(0, 200, Device), (200, 300, Throttle), (300, 1_000, Device)];
        assert_eq!(last, expected, "whichever is judged first");
        assert_eq!(phases(&list[2].segments), expected[..2]);
        assert!(list.iter().all(|one| one.layer == Layer::Device));
    }
}

#[test]
fn a_circle_of_waits_ends_at_whom_it_comes_back_to() {
    use Phase::*;
    let time = TimeSpan::new(0, 900);
    let ring = [woken(0, 1, time), woken(1, 2, time), woken(2, 0, time)];
    let events = events(ring.to_vec());
    let mut list = vec![
        io(0, &[(0, 500, FileSystem), (500, 1_000, Device)]),
        io(1, &[(0, 950, FileSystem)]),
        io(2, &[(0, 980, PageCache)]),
    ];
    follow(&mut list, |_, _| true, &events, again);
    // The first one's disk is what all of them wait for, while it does not wait itself.
    let of = |i: usize| phases(&list[i].segments);
    assert_eq!(of(0), [(0, 500, PageCache), (500, 1_000, Device)]);
    assert_eq!(of(1), [(0, 500, FileSystem), (500, 900, Device), (900, 950, FileSystem)]);
    assert_eq!(of(2), [(0, 500, FileSystem), (500, 900, Device), (900, 980, PageCache)]);
}

#[test]
fn of_a_wait_only_what_the_other_one_was_in_meanwhile_counts() {
    use Phase::*;
    let events = events(vec![woken(1, 0, TimeSpan::new(100, 700))]);
    let mut list = vec![
        io(0, &[(300, 400, Throttle), (400, 500, Submit), (500, 900, Device)]),
        io(1, &[(0, 800, FileSystem)]),
    ];
    follow(&mut list, |_, _| true, &events, again);
    let expected = [
        (0, 300, FileSystem),
        (300, 400, Throttle),
        (400, 500, FileSystem),
        (500, 700, Device),
        (700, 800, FileSystem),
    ];
    assert_eq!(phases(&list[1].segments), expected, "what says nothing stays");
}

/// Of 20 that all wait for each other there are more ways than could be gone in a lifetime.
#[test]
fn not_every_way_through_a_crowd_is_gone() {
    let judged: Vec<Judged> = (0..20).map(|i| io(i, &[(0, 100, Phase::FileSystem)])).collect();
    let events = Events::default();
    let graph = Graph::of(&judged, &events);
    let rule = names().position(|name| name == "lock-of-another").expect("a rule");
    for (i, cell) in graph.edges.iter().enumerate() {
        let others = (0..judged.len()).filter(|other| *other != i);
        let waits = others.map(|other| {
            let wait = Wait::new(TimeSpan::new(0, 100), Cause::Io(other), Source::Holder);
            Wait { takes: |phase| phase != Phase::FileSystem, rule, ..wait }
        });
        assert!(cell.set(edges(waits)).is_ok());
    }
    assert_eq!(graph.resolved(0), Some(judged[0].segments.clone()));
}

/// A thread of the kernel of this number, woken up by another one.
fn helper(tid: u64, by: u64, times: (i64, i64, i64), stack: &str) -> Helper {
    let thread = |tid| Arc::new(Thread { tid: Some(tid), ..Thread::default() });
    let off = OffCpu {
        start_ns: times.0,
        woken_ns: Some(times.1),
        end_ns: times.2,
        state: 2,
        stack: Some(Stack::of(stack)),
        waker: Waker { thread: Some(thread(by)), ..Waker::default() },
        ..OffCpu::default()
    };
    Helper { off, thread: thread(tid), serves: false }
}

/// The line of an I/O whose thread slept until thread 77 had told it of its end.
fn line_with(helpers: Vec<Helper>) -> Vec<Segment> {
    let own = helper(1, 77, (0, 9 * MS, 9 * MS), "io_schedule;__iomap_dio_rw");
    let (events, off) = (events(helpers), [own.off]);
    let context = IoContext { all: Some(&events), off: &off, ..IoContext::default() };
    let io = TracedIo { end_ns: 9 * MS, ..TracedIo::default() };
    let part = |from, to, phase| Segment::new(TimeSpan::new(from, to), phase, Source::Stamps);
    let line = vec![part(0, MS, Phase::Device), part(MS, 9 * MS, Phase::Completion)];
    by_threads(line, &io, &context)
}

#[test]
fn a_thread_that_waits_for_a_commit_waits_for_what_the_committing_one_waits_for() {
    use Phase::*;
    let commit = "jbd2_log_wait_commit;ext4_convert_unwritten_extents;process_one_work";
    let tells = helper(77, 78, (MS, 9 * MS - 100, 9 * MS), commit);
    // Had been woken up, and waited for a CPU.
    let starved = helper(78, 79, (MS + 10, MS + 20, 6 * MS), "kjournald2;kthread");
    let line = line_with(vec![tells.clone(), starved.clone()]);
    let expected = [
        (0, MS, Device),
        (MS, MS + 20, FileSystem),
        (MS + 20, 6 * MS, Cpu),
        (6 * MS, 9 * MS - 100, FileSystem),
        (9 * MS - 100, 9 * MS, Cpu),
    ];
    assert_eq!(phases(&line), expected);
    let found = line.iter().find(|p| p.length() > 4 * MS).expect("the CPU");
    let rule = found.rule.and_then(|rule| names().nth(rule.into()));
    assert_eq!((found.source, rule), (Source::Helper, Some("committer")));
    let another = Helper { thread: tells.thread.clone(), ..starved };
    assert_eq!(line_with(vec![tells, another]).len(), 3, "who does not commit");
}

#[test]
fn threads_that_wake_each_other_up_are_not_followed_for_ever() {
    let commit = "jbd2_log_wait_commit;ext4_sync_file";
    let rows = (0..3).flat_map(|i| {
        let time = (MS + i, 9 * MS - 100 + i, 9 * MS - 90 + i);
        [helper(77, 78, time, commit), helper(78, 77, time, commit)]
    });
    let line = line_with(rows.collect());
    let sum: i64 = line.iter().map(Segment::length).sum();
    assert_eq!(sum, 9 * MS);
    assert!(line.iter().any(|p| p.phase == Phase::FileSystem));
}

const SOME: [Phase; 6] = [
    Phase::FileSystem,
    Phase::PageCache,
    Phase::Store,
    Phase::Device,
    Phase::Submit,
    Phase::Application,
];

/// I/Os of made-up parts, all from 0 to 60.
fn ios() -> impl Strategy<Value = Vec<Judged>> {
    let cuts = proptest::collection::vec((0i64..60, 0usize..SOME.len()), 1..6);
    proptest::collection::vec(cuts, 1..6).prop_map(|list| {
        let each = list.into_iter().enumerate().map(|(i, mut cuts)| {
            cuts.push((0, i % SOME.len()));
            cuts.sort_unstable();
            cuts.dedup_by_key(|(at, _)| *at);
            let ends = cuts.iter().skip(1).map(|(at, _)| *at).chain([60]);
            let parts: Vec<(i64, i64, Phase)> =
                cuts.iter().zip(ends).map(|((at, kind), end)| (*at, end, SOME[*kind])).collect();
            io(i as u16, &parts)
        });
        each.collect()
    })
}

/// Waits: of which I/O, for which one, by which of the last rules, from when, for how long.
fn made_up() -> impl Strategy<Value = Vec<(usize, usize, usize, i64, i64)>> {
    proptest::collection::vec((0usize..5, 0usize..5, 0usize..6, -5i64..60, 0i64..60), 0..12)
}

/// What an I/O waited for at an instant at last, by one look after another.
fn walk(graph: &Graph<'_>, i: usize, at: i64, path: &mut Vec<usize>) -> Phase {
    let own = graph.judged[i].segments.iter().find(|p| p.from <= at && at < p.to);
    let (mut phase, mut by) = (own.expect("a part").phase, None);
    path.push(i);
    let mut all: Vec<&Edge<'_>> = graph.edges(i).all().iter().collect();
    all.sort_by_key(|edge| edge.number);
    let all = all.into_iter().map(|edge| edge.wait);
    for wait in all.filter(|wait| wait.from <= at && at < wait.to) {
        let Cause::Io(other) = wait.on else { continue };
        if !RULES[wait.rule].over.contains(&phase) || by == Some(wait.rule) {
            continue;
        }
        let found = (!path.contains(&other)).then(|| walk(graph, other, at, path));
        if let Some(found) = found.filter(|found| (wait.takes)(*found)) {
            (phase, by) = (found, Some(wait.rule));
        }
    }
    path.pop();
    phase
}

proptest! {
    /// Whatever waits for whatever: time lines stay whole, and at each instant say what a walk finds.
    #[test]
    fn lines_stay_whole_and_are_what_is_waited_for_at_each_instant(
        judged in ios(),
        made_up in made_up(),
    ) {
        let events = Events::default();
        let graph = Graph::of(&judged, &events);
        for i in 0..judged.len() {
            let own = made_up.iter().filter(|(of, on, ..)| *of == i && *on < judged.len());
            let waits = own.map(|(_, on, rule, from, length)| {
                let wait = Wait::new(TimeSpan::new(*from, from + length), Cause::Io(*on), Source::Holder);
                let takes = |p| !matches!(p, Phase::Submit | Phase::Application);
                Wait { takes, rule: RULES.len() - 1 - rule, ..wait }
            });
            prop_assert!(graph.edges[i].set(edges(waits)).is_ok());
        }
        for (i, one) in judged.iter().enumerate() {
            let line = graph.resolved(i).unwrap_or_else(|| one.segments.clone());
            prop_assert_eq!(line.iter().map(Segment::length).sum::<i64>(), 60);
            prop_assert!(line.windows(2).all(|pair| pair[0].to == pair[1].from));
            for at in 0..60 {
                let then = line.iter().find(|p| p.from <= at && at < p.to).map(|p| p.phase);
                prop_assert_eq!(then, Some(walk(&graph, i, at, &mut Vec::new())));
            }
        }
    }
}
