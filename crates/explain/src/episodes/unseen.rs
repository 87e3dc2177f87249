//! What of an episode could not be seen, and why: times blocked for what backend perf cannot see, stand-stills, stolen
//! CPUs, gaps of the trace; without gaps, what the thread was at in a time that nothing explains.

use std::collections::BTreeSet;

use taillight_core::TimeSpan;
use taillight_core::units::readable;
use taillight_rundir::layers::flags;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};

use super::{CANNOT_SEE, EpisodeContext};
use crate::episodes::culprits::off_during;
use crate::events::Events;
use crate::events::event::{OffCpu, Timed};
use crate::events::list::overlapping;
use crate::events::stacks::{self, SleepReason};
use crate::phase::Phase;
use crate::verdict::judge::{Judged, Layer};

/// What could not be seen, and signs of why.
pub fn describe(list: &[Judged], seen: &EpisodeContext, span: TimeSpan, said: &mut Vec<String>) {
    let EpisodeContext { events, info, .. } = *seen;
    let time = |ns: u64| readable::duration_ns(ns);
    let sum = |phase| list.iter().map(|j| j.phases.get(phase)).sum::<u64>();
    let (blocked, all): (u64, u64) =
        (sum(Phase::Blocked), list.iter().map(|j| j.phases.sum()).sum());
    if blocked * 20 >= all.max(1) {
        said.push(format!(
            "blocked in the kernel for {} of their time: {}",
            readable::percent(blocked as f64 / all.max(1) as f64),
            CANNOT_SEE
        ));
    }
    let still = events.still.within(span.from, span.to).map(|still| still.time().shared_ns(span));
    let still = still.sum::<i64>().unsigned_abs();
    if still > 0 {
        said.push(format!(
            "the tracer's own thread stood still for {} of it, with a CPU to be had: the program was \
             stopped or frozen, or the machine stood still",
            time(still)
        ));
    }
    let taken: u64 = events.stolen.within(span.from, span.to).map(|one| one.taken_ns).sum();
    if taken > 0 {
        said.push(format!("the hypervisor took CPUs of the run's threads for {}", time(taken)));
    }
    let workers: BTreeSet<u64> = list.iter().map(|j| u64::from(j.slow.worker)).collect();
    let near = workers.into_iter().chain([u64::MAX]).filter_map(|of| events.gaps.get(&of));
    let gaps = near.flat_map(|gaps| overlapping(gaps, span.from, span.to));
    let tokens: BTreeSet<u64> = list.iter().filter_map(|j| j.token).collect();
    let own = events.io_gaps.within(span.from, span.to);
    let own = own.filter(|g| g.token.is_some_and(|t| tokens.contains(&t)));
    match gaps.chain(own).count() {
        0 => said.extend(unexplained(list, events)),
        _ => said.push(format!("in a part of it nothing was seen: {}", why_unseen(info, span.to))),
    }
}

/// Why the slowest I/O of no known layer stays so: what its thread was at for most of the longest time that nothing
/// explains. A sleep in functions that say nothing is told among the sleeps, but for those of io_uring worker threads.
fn unexplained(list: &[Judged], events: &Events) -> Option<String> {
    let unknown = list.iter().filter(|j| j.layer == Layer::Unknown && !events.threads_only);
    let worst = unknown.max_by_key(|j| j.phases.get(Phase::Unobserved))?;
    let io = worst.io.as_ref()?;
    let dark = worst.segments.iter().filter(|p| p.phase == Phase::Unobserved);
    let dark = dark.max_by_key(|p| p.length())?;
    let workers = events.ring_threads.within(dark.from, dark.to);
    let own = workers.filter(|w| w.token.is_some() && w.token == io.token).map(|w| &w.off);
    let within = |off: &&OffCpu| off.asleep().within(dark.time()).length();
    let of_thread = || off_during(worst.slow.worker.into(), worst.slow.time(), events);
    let asleep = of_thread().chain(own).max_by_key(within);
    let told = |off: &OffCpu| {
        let among = of_thread().any(|one| std::ptr::eq(one, off));
        among && off.reason() == Some(SleepReason::Unknown)
    };
    let why = match asleep.filter(|off| within(off) * 2 >= dark.length()) {
        Some(off) if told(off) => return None,
        Some(off) => slept(off, events.own_pid),
        None if events.blind => "events were lost, or threads not watched".to_owned(),
        None if io.parts.is_some() && !io.all_parts_done() => {
            "a part of it was not seen to end on the disk".to_owned()
        }
        None if io.has(flags::REQUEUED) => {
            "the driver gave it back, and when it had got it was not seen".to_owned()
        }
        None if io.has(flags::PUNTED) => "no io_uring worker thread was seen at it".to_owned(),
        None if io.has(flags::QUEUED) => {
            "its thread had others in flight as well, and nothing was seen of this one".to_owned()
        }
        None => "no trace point told what its thread was at".to_owned(),
    };
    let time = readable::duration_ns(dark.length().unsigned_abs());
    Some(format!("not known what took {time} of the slowest unknown one: {why}"))
}

fn slept(off: &OffCpu, own: Option<u64>) -> String {
    let names = off.stack.as_deref().map(stacks::shown);
    let names = names.unwrap_or_else(|| "kernel functions whose names were not seen".to_owned());
    format!("its thread slept in {names}{}", woken_up(off, own))
}

/// Who ended a sleep, as far as that was seen, to go on a sentence; `own`: the benchmark's process.
pub fn woken_up(off: &OffCpu, own: Option<u64>) -> String {
    match (off.waker.named(), off.woken_ns) {
        (Some(by), _) => format!(", woken up by {}", by.words(own)),
        (None, Some(_)) => {
            ", woken up by an interrupt, or by one whose name was not seen".to_owned()
        }
        (None, None) => ", whose end was not seen".to_owned(),
    }
}

/// Why there is a gap: the log of context switches has one only where it lost records; trace programs only where
/// they did not run (what they lose when their ring is full leaves none).
fn why_unseen(info: &TraceInfo, until_ns: i64) -> String {
    match info.backend {
        _ if info.stopped.as_ref().is_some_and(|s| s.at_ns < until_ns) => {
            "something stopped the tracing".to_owned()
        }
        TracingBackend::Perf if info.events_lost > 0 => {
            let lost = readable::counted(info.events_lost, "trace record");
            format!("{lost} were lost in the run")
        }
        TracingBackend::Perf => "the log of context switches has a gap".to_owned(),
        _ => "the kernel did not run the trace programs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use super::*;
    use crate::events::event::{LayerEvent, RingThread, Waker};
    use crate::events::io::{Parts, TracedIo};
    use crate::events::slow::Slow;
    use crate::events::stacks::Stack;
    use crate::events::thread::Thread;
    use crate::time_line::segments::{Segment, Source};
    use crate::verdict::judge::{JudgeInputs, judge};

    #[test]
    fn what_stays_unknown_says_where_the_thread_slept_who_woke_it_up_and_why() {
        let of = |io: TracedIo, event: Option<LayerEvent>| {
            let mut events = Events::default();
            event.into_iter().for_each(|event| events.add(event));
            events.sort();
            let slow = Slow {
                worker: 0,
                op: OpKind::Read,
                intended_ns: 0,
                submit_ns: 0,
                complete_ns: 1000,
            };
            let io = TracedIo { end_ns: 1000, ..io };
            let line =
                vec![Segment::new(TimeSpan::new(0, 1000), Phase::Unobserved, Source::Silence)];
            let judged = judge(slow, Some(io), Some(line), &JudgeInputs::default());
            assert_eq!(judged.layer, Layer::Unknown);
            unexplained(&[judged], &events).unwrap_or_default()
        };
        let io = |flags| TracedIo { parts: Some(Parts::default()), flags, ..TracedIo::default() };
        let asleep = |stack: Option<&str>, by: Option<&str>| OffCpu {
            worker: Some(0),
            start_ns: 100,
            woken_ns: Some(900),
            end_ns: 950,
            state: 2,
            stack: stack.map(Stack::of),
            waker: Waker { thread: by.map(Thread::named), ..Waker::default() },
            ..OffCpu::default()
        };
        let lock = of(io(0), Some(asleep(None, Some("backup")).into()));
        assert!(lock.ends_with("names were not seen, woken up by backup"), "{lock}");
        let interrupt = of(io(0), Some(asleep(None, None).into()));
        assert!(interrupt.contains("woken up by an interrupt, or by one"), "{interrupt}");
        let strange = asleep(Some("foo;bar"), None);
        assert_eq!(of(io(0), Some(strange.clone().into())), "", "told among the sleeps");
        let worker = RingThread { off: strange, token: Some(7) };
        let of_worker = of(TracedIo { token: Some(7), ..io(0) }, Some(worker.into()));
        assert!(of_worker.contains("slept in `foo < bar`"), "{of_worker}");
        assert!(of(io(flags::QUEUED), None).contains("had others in flight"));
        assert!(of(io(flags::REQUEUED | flags::QUEUED), None).contains("driver gave it back"));
        let lost = TracedIo { parts: Some(Parts { queued: 2, done: 1 }), ..TracedIo::default() };
        assert!(of(lost, None).contains("not seen to end on the disk"));
    }

    #[test]
    fn records_are_said_to_be_lost_where_some_were() {
        let why = |json: &str| why_unseen(&serde_json::from_str(json).unwrap(), 100);
        let programs = "the kernel did not run the trace programs";
        assert_eq!(why(r#"{"mode":"all","rung":"bpf"}"#), programs);
        // What finds the programs' ring full leaves no gap.
        assert_eq!(why(r#"{"mode":"all","rung":"bpf","events_lost":7}"#), programs);
        let lost = why(r#"{"mode":"all","rung":"perf","events_lost":1234}"#);
        assert_eq!(lost, "1,234 trace records were lost in the run");
        let none = why(r#"{"mode":"all","rung":"perf"}"#);
        assert_eq!(none, "the log of context switches has a gap");
        let stopped =
            |at| format!(r#"{{"mode":"all","rung":"bpf","stopped":{{"at_ns":{at},"what":"x"}}}}"#);
        assert_eq!(why(&stopped(99)), "something stopped the tracing");
        assert_eq!(why(&stopped(101)), programs, "later");
    }
}
