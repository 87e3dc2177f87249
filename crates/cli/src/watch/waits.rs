//! Waits of a watched program's threads for each other, for `watched.json` and in words: which led to an operation, and
//! which are the program's own.

use taillight_core::units::readable::in_line;
use taillight_report::format::{count, duration_ns};
use taillight_rundir::watched::WatchedWaits;
use taillight_trace::watch::{ThreadSeen, WaitCounts};

/// The counts as `watched.json` has them.
pub fn of(counts: WaitCounts) -> WatchedWaits {
    let longest = counts.longest_other;
    let who = |seen: Option<ThreadSeen>| seen.map_or_else(String::new, |seen| called(&seen));
    WatchedWaits {
        carried: counts.carried,
        locks: counts.locks,
        others: counts.others,
        longest_other_ns: longest.map_or(0, |wait| wait.ns),
        longest_other: who(longest.map(|wait| wait.whose)),
        longest_other_ended_by: who(longest.map(|wait| wait.by_whom)),
        lost: counts.lost,
    }
}

/// Name and number of a thread.
pub fn called(thread: &ThreadSeen) -> String {
    let name = String::from_utf8_lossy(&thread.comm);
    format!("{}[{}]", in_line(name.trim_end_matches('\0')), thread.tid)
}

/// What is said of them when the watch has ended, a line for each sort of wait that there was.
pub fn summary_lines(waits: &WatchedWaits) -> Vec<String> {
    let mut all = Vec::new();
    if waits.carried > 0 {
        all.push(format!(
            "{} waits of threads for others of the program are waits for what those were in: the verdict on each is of the \
             operation behind it",
            count(waits.carried)
        ));
    }
    if waits.locks > 0 {
        all.push(format!(
            "{} waits for a lock whose holder was in no operation: the program, not the storage",
            count(waits.locks)
        ));
    }
    if waits.others > 0 {
        all.push(format!(
            "{} other waits of threads for each other led to no operation, and may be for want of something to do: no \
             outliers (the longest: {} waited {} for {})",
            count(waits.others),
            waits.longest_other,
            duration_ns(waits.longest_other_ns),
            waits.longest_other_ended_by
        ));
    }
    if waits.lost > 0 {
        all.push(format!("{} waits were too many to look at", count(waits.lost)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_that_were_seen_have_a_line() {
        assert!(summary_lines(&WatchedWaits::default()).is_empty());
        let all = summary_lines(&WatchedWaits {
            carried: 1,
            locks: 2,
            lost: 3,
            ..WatchedWaits::default()
        });
        assert_eq!(all.len(), 3);
        assert!(all[1].contains("not the storage"), "{all:?}");
    }
}
