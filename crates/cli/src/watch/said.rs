//! What is said after the lines: whether anything was slow, how much of the program was seen, and what that cost.

use taillight_report::format;
use taillight_rundir::watched::{WatchedOp, WatchedWaits};
use taillight_trace::watch::WatchResult;

use super::waits;
use crate::output;

/// What was seen and what it cost, after the lines.
pub fn after(
    ops: &[WatchedOp],
    result: &WatchResult,
    waits: &WatchedWaits,
    slower_ns: u64,
    missing: bool,
) {
    let slower = format::duration_ns(slower_ns);
    let slow = ops.iter().map(|op| op.slow).sum::<u64>() + waits.carried + waits.locks;
    let untimed: u64 = ops.iter().map(|op| op.untimed).sum();
    let lost = result.info.ios_lost + result.info.events_lost + result.no_room;
    if ops.is_empty() {
        output::note("no I/O was seen: the program blocked in no call that reads, writes or syncs");
    } else if slow == 0 && result.slow == 0 {
        // Nobody is acquitted by what was not seen.
        output::note(&match lost == 0 && untimed == 0 && !missing {
            true => format!(
                "none of the operations seen took {slower} or longer: a longer wait of the program was none of \
                 those seen"
            ),
            false => format!(
                "none of the operations seen whole took {slower} or longer; others were not seen to their end or \
                 were lost: whether the storage was slow is not known"
            ),
        });
    } else if slow > result.slow {
        output::note(&format!(
            "of {slow} operations of {slower} or longer {} were kept",
            result.slow
        ));
    }
    for part in &result.left_out {
        output::note(&format!("left out on the way, for --max-cost: {}", part.words()));
    }
    waits::words(waits).into_iter().for_each(|text| output::note(&text));
    for op in ops.iter().filter(|op| !op.whole) {
        let kernel = op.kernel.map_or(String::new(), |n| format!(" of about {n} calls"));
        output::note(&format!(
            "{}: {} seen{kernel}, those that blocked; no percentiles of a part",
            op.op.name(),
            op.seen
        ));
    }
    for op in ops.iter().filter(|op| op.untimed > 0) {
        output::note(&format!(
            "{}: of {} the latency is not known (their end, or whether each was one call, was not seen)",
            op.op.name(),
            op.untimed
        ));
    }
    for op in ops.iter().filter(|op| op.unknown > 0) {
        output::note(&format!(
            "{}: of {} it is not known whether they failed and what they moved",
            op.op.name(),
            op.unknown
        ));
    }
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
            "{} operations or threads found no room and were not watched",
            result.no_room
        ));
    }
}
