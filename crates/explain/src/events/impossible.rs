//! Stamps that cannot be: backends lose events, and a request may have the stamps of an earlier life. They are taken out
//! before an I/O is looked at, so that no later step has to doubt the order of what it finds.

use taillight_rundir::layers::flags;

use crate::events::io::{LowerStamps, TracedIo};
use crate::events::rounds::{BlockRound, known};

/// How long before the begin of an I/O its request may have been made, ns: requests that are submitted together share
/// the stamp of their making. An I/O that was merged may be in a much older request: its limit is its length and 4.3 s.
const SHARED_NS: i64 = 1_000_000;

/// Takes impossible stamps out of an I/O, and impossible rounds out of the `earlier` ones: what is in a wrong order
/// (see `possible`) or outside of the I/O, but for the making of its request (`SHARED_NS`). Not every stamp is looked
/// at. True where there were any: the I/O is then marked `UNCLEAR` and counts as seen in part, as it may for other
/// reasons, too.
pub fn drop_impossible_stamps(io: &mut TracedIo, earlier: &mut Vec<BlockRound>) -> bool {
    let (from, to) = (io.start_ns, io.end_ns);
    let before = earlier.len();
    let shared = if io.has(flags::MERGED) { to - from + i64::from(u32::MAX) } else { SHARED_NS };
    earlier.retain(|r| possible(r, from, to, shared));
    let last = BlockRound {
        bio: io.bio_ns.unwrap_or(from),
        last: io.bio_last_ns,
        alloc: io.alloc_ns,
        insert: io.insert_ns,
        issue: io.issue_ns,
        done: io.done_ns,
        held: io.held_ns,
        ends: true,
    };
    let mut broken = earlier.len() < before;
    if !possible(&last, from, to, shared) {
        (io.bio_last_ns, io.alloc_ns, io.issue_ns, io.done_ns) = (None, None, None, None);
        io.bio_ns = io.bio_ns.filter(|at| (from..=to).contains(at));
        io.held_ns = io.held_ns.filter(|at| (from..=to).contains(at));
        broken = true;
    }
    let (first, last) = (io.bio_ns.unwrap_or(from), io.done_ns.unwrap_or(to));
    // Issue and queueing are not compared: requests that are let go together share a stamp of issue, which may be from
    // just before this one was queued.
    let low = [io.lower.bio_ns, io.lower.issue_ns];
    if !low.into_iter().all(|stamp| in_order([stamp, None, io.lower.done_ns], first, last)) {
        io.lower = LowerStamps { dev: io.lower.dev.take(), ..LowerStamps::default() };
        broken = true;
    }
    let others = [
        &mut io.enter_ns,
        &mut io.requeue_ns,
        &mut io.cqe_ns,
        &mut io.punt_ns,
        &mut io.sync_punt_ns,
    ];
    for stamp in others {
        if stamp.is_some_and(|at| !(from..=to).contains(&at)) {
            *stamp = None;
            broken = true;
        }
    }
    if broken {
        io.mark_unclear();
    }
    broken
}

/// Whether the stamps of a round can be: its request made, issued and done in this order, its first part queued before
/// its last and before the end, all within the I/O. The request may have been made `shared` ns before the I/O.
fn possible(round: &BlockRound, from: i64, to: i64, shared: i64) -> bool {
    let made = known(round.alloc).map(|at| if at >= from - shared { at.max(from) } else { at });
    // With requests that share a stamp, the first part may seem queued after it was made.
    in_order([Some(round.bio), None, known(round.done)], from, to)
        && in_order([made, known(round.issue), known(round.done)], from, to)
        && in_order([Some(round.bio), known(round.last), None], from, to)
}

/// Stamps that are there, in this order, within a time.
fn in_order(stamps: [Option<i64>; 3], from: i64, to: i64) -> bool {
    let mut at = from;
    stamps.into_iter().flatten().all(|stamp| {
        let fine = stamp >= at && stamp <= to;
        at = stamp;
        fine
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_shares_its_stamp_with_others_is_possible() {
        let io = |alloc: i64| TracedIo {
            end_ns: 9_000_000,
            bio_ns: Some(10),
            alloc_ns: Some(alloc),
            issue_ns: Some(20),
            done_ns: Some(100),
            ..TracedIo::default()
        };
        let broken = |alloc| drop_impossible_stamps(&mut io(alloc), &mut Vec::new());
        assert!(!broken(15) && !broken(5) && !broken(-50_000));
        assert!(broken(30), "issued before it was made");
        assert!(broken(-2_000_000), "of an earlier life of the request");
    }

    #[test]
    fn what_a_limit_lets_go_together_below_shares_its_stamps() {
        let lower = LowerStamps {
            dev: None,
            bio_ns: Some(99_743_491),
            issue_ns: Some(99_739_245),
            done_ns: Some(99_797_742),
        };
        let mut io = TracedIo {
            end_ns: 99_840_923,
            bio_ns: Some(3_108),
            done_ns: Some(99_809_850),
            lower,
            ..TracedIo::default()
        };
        assert!(!drop_impossible_stamps(&mut io, &mut Vec::new()));
    }

    #[test]
    fn earlier_rounds_that_cannot_be_are_taken_out() {
        let round = |bio, issue, done| BlockRound {
            bio,
            issue: Some(issue),
            done: Some(done),
            ..BlockRound::default()
        };
        let mut io = TracedIo { end_ns: 1000, ..TracedIo::default() };
        let mut rounds = vec![round(10, 20, 30), round(40, 60, 50), round(900, 950, 1001)];
        assert!(drop_impossible_stamps(&mut io, &mut rounds));
        assert_eq!(rounds.len(), 1);
        assert!(io.has(flags::UNCLEAR));
    }
}
