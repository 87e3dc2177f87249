//! What is said when a watch has ended: whether anything was slow, how much of the program was seen, what that cost.

use taillight_report::format;
use taillight_rundir::watched::{WatchedOp, WatchedSample, WatchedWaits};
use taillight_trace::watch::{JUDGED, WatchResult};

use super::{exact, waits};
use crate::output;

/// Says it; `missing` where a trace program could not be attached.
pub fn after(
    ops: &[WatchedOp],
    result: &WatchResult,
    (waits, sample): (&WatchedWaits, Option<&WatchedSample>),
    slower_ns: u64,
    missing: bool,
) {
    let slower = format::duration_ns(slower_ns);
    let slow = ops.iter().map(|op| op.slow).sum::<u64>() + waits.carried + waits.locks;
    let untimed: u64 = ops.iter().map(|op| op.untimed).sum();
    let lost = result.info.ios_lost + result.info.events_lost + result.no_room;
    if ops.is_empty() && sample.is_some_and(|sample| !sample.ops.is_empty()) {
        output::note("no call blocked that reads, writes or syncs");
    } else if ops.is_empty() {
        output::note(match lost == 0 && !missing {
            true => "no I/O was seen: the program blocked in no call that reads, writes or syncs",
            false => {
                "no I/O was seen, and not all of it could be: whether there was any is not known"
            }
        });
    } else if slow == 0 && result.slow == 0 {
        let seen: u64 = ops.iter().map(|op| op.seen).sum();
        let unseen = lost > 0 || missing;
        output::note(&none_slow(&slower, seen.saturating_sub(untimed), untimed, unseen));
    } else if slow > result.slow {
        output::note(&format!(
            "of {slow} operations of {slower} or longer {} were kept",
            result.slow
        ));
    }
    for part in &result.left_out {
        output::note(&format!("left out on the way, for --max-cost: {}", part.words()));
    }
    waits::summary_lines(waits).into_iter().for_each(|text| output::note(&text));
    let sampled = result.exact.as_ref().is_some_and(|sample| exact::is_used(sample, ops));
    in_part(ops, sampled).into_iter().for_each(|text| output::note(&text));
    every_call(ops, result.exact.is_some()).into_iter().for_each(output::note);
    let of = |sample: &WatchedSample| exact::summary_lines(sample, sampled);
    sample.map(of).into_iter().flatten().for_each(|text| output::note(&text));
    not_known(ops).into_iter().for_each(|text| output::note(&text));
    let share = result
        .programs_share
        .map(|share| format!("; trace programs took {:.2} % of a CPU", share * 100.0));
    output::note(&format!(
        "detached in {} ms{}",
        result.detached_in.as_millis(),
        share.unwrap_or_default()
    ));
    if result.no_room > 0 {
        output::note(&format!(
            "{} operations, threads or processes found no room, or no program that sees them, and were not watched",
            result.no_room
        ));
    }
}

/// That no operation of `timed` was slow. Nobody is acquitted by what was not seen: of `untimed` the latency is not
/// known, and where some are `unseen` nobody knows how many.
fn none_slow(slower: &str, timed: u64, untimed: u64, unseen: bool) -> String {
    if timed == 0 {
        let all = format::counted(untimed, "operation");
        let others = if unseen { "; others may have been lost or not seen" } else { "" };
        return format!("of none of the {all} that were seen is the latency known{others}");
    }
    let timed = format::count(timed);
    match (untimed, unseen) {
        (0, false) => format!(
            "none of the operations seen took {slower} or longer: if the program waited longer, it was in none of them"
        ),
        (n, false) => format!(
            "none of the {timed} operations that were timed took {slower} or longer; the latency of {} is not known",
            format::counted(n, "other")
        ),
        (_, true) => format!(
            "none of the {timed} operations that were timed took {slower} or longer; others may have been lost or not \
             seen, and slow ones may be among them"
        ),
    }
}

/// What was seen, in a line, where the files cannot be written that would have it; none where that was nothing.
pub fn unwritten(ops: &[WatchedOp]) -> Option<String> {
    let of = |op: &WatchedOp| {
        format!("{} {}, {} slow", op.op.name(), format::count(op.seen), format::count(op.slow))
    };
    let all: Vec<String> = ops.iter().map(of).collect();
    (!all.is_empty()).then(|| format!("what was seen, as it cannot be written: {}", all.join("; ")))
}

/// Kinds that were not counted whole, and what percentiles are of; a line for each. `sampled` where those of windows are.
fn in_part(ops: &[WatchedOp], sampled: bool) -> Vec<String> {
    let line = |op: &WatchedOp| {
        // The kernel's count is of system calls: what a ring or libaio did is not in it.
        let kernel = op
            .kernel
            .filter(|n| *n >= op.seen)
            .map_or(String::new(), |n| format!(" of about {} calls", format::count(n)));
        let figures = match (sampled, op.requests_alone) {
            (true, _) => String::new(),
            (false, true) => format!(
                "; percentiles are of its {} requests of io_uring and libaio alone",
                format::count(op.requests)
            ),
            (false, false) => "; no percentiles of a part".to_owned(),
        };
        let seen = format::count(op.seen);
        format!("{}: {seen} seen{kernel}, those that blocked{figures}", op.op.name())
    };
    ops.iter().filter(|op| !op.whole).map(line).collect()
}

/// How percentiles come to be where there are none, or those of requests; nothing where every call was asked for.
fn every_call(ops: &[WatchedOp], asked: bool) -> Option<&'static str> {
    let lacks = |op: &WatchedOp| JUDGED.contains(&op.op) && !op.whole;
    (!asked && (ops.is_empty() || ops.iter().any(lacks))).then_some(
        "--exact 5% counts every call that reads, writes or syncs, whether it blocks or not, and has percentiles of these",
    )
}

/// Of how many operations of each kind the latency is not known, and of how many the result; a line for each.
fn not_known(ops: &[WatchedOp]) -> Vec<String> {
    let listed = |of: fn(&WatchedOp) -> u64| {
        let some = ops.iter().filter(|op| of(op) > 0);
        let each = some.map(|op| format!("{} {}", op.op.name(), format::count(of(op))));
        each.collect::<Vec<_>>().join(", ")
    };
    let all = [
        (
            listed(|op| op.untimed),
            "the latency is not known (their end, or whether each was one call, was not seen)",
        ),
        (listed(|op| op.unknown), "it is not known whether they failed and what they moved"),
    ];
    let some = all.into_iter().filter(|(list, _)| !list.is_empty());
    some.map(|(list, what)| format!("of some operations {what}: {list}")).collect()
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use super::*;

    #[test]
    fn one_unknown_latency_does_not_hide_those_that_are_known() {
        let said = |untimed, unseen| none_slow("10.0 ms", 452_433, untimed, unseen);
        assert!(said(0, false).starts_with("none of the operations seen took 10.0 ms"));
        let one = "none of the 452,433 operations that were timed took 10.0 ms or longer; the latency of 1 other is not \
                   known";
        assert_eq!(said(1, false), one);
        assert!(said(1, true).ends_with("slow ones may be among them"));
        let none = none_slow("10.0 ms", 0, 3, false);
        assert_eq!(none, "of none of the 3 operations that were seen is the latency known");
        assert!(
            none_slow("10.0 ms", 0, 3, true).ends_with("others may have been lost or not seen")
        );
    }

    #[test]
    fn who_has_no_percentiles_is_told_how_to_get_them() {
        let op = |op, whole, requests_alone| WatchedOp {
            op,
            seen: 1234,
            kernel: Some(77_777),
            requests: 1000,
            whole,
            requests_alone,
            ..WatchedOp::default()
        };
        let told = |ops: &[WatchedOp]| every_call(ops, false).is_some();
        assert!(told(&[]), "what does not block is not seen");
        assert!(told(&[op(OpKind::Write, true, false), op(OpKind::Read, false, false)]));
        assert!(told(&[op(OpKind::Read, false, true)]), "of requests alone");
        assert!(!told(&[op(OpKind::Read, true, false), op(OpKind::Stat, false, false)]));
        assert!(every_call(&[op(OpKind::Read, false, false)], true).is_none(), "asked for");
        let read = op(OpKind::Read, false, true);
        let lost = unwritten(&[WatchedOp { slow: 5, ..read.clone() }]);
        assert!(lost.is_some_and(|text| text.ends_with(": read 1,234, 5 slow")));
        assert_eq!(unwritten(&[]), None);
        let said = in_part(&[read], false);
        assert_eq!(
            said,
            [
                "read: 1,234 seen of about 77,777 calls, those that blocked; percentiles are of its 1,000 requests of \
              io_uring and libaio alone"
            ]
        );
    }
}
