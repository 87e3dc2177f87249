//! Who else used the disks of a run, as sentences for an episode: other processes, the program's own other
//! threads (a store's flushes and compactions), the kernel's reading ahead; and parts of the run's own I/Os
//! of which only the thread is known.

use std::collections::BTreeMap;

use taillight_core::TimeSpan;
use taillight_core::units::readable;
use taillight_rundir::trace_info::TraceInfo;

use crate::events::Events;
use crate::events::event::{Neighbour, Owner};

/// Adds sentences on who else used the disk. What the kernel read ahead for the run is nobody else's.
pub fn describe(events: &Events, info: &TraceInfo, span: TimeSpan, said: &mut Vec<String>) {
    let (ahead, others): (Vec<&Neighbour>, Vec<&Neighbour>) =
        events.neighbours.within(span.from, span.to).partition(|io| io.is_read_ahead());
    let (held, others) = of_owner(others, Owner::HeldPages);
    let (unplaced, others) = of_owner(others, Owner::Unplaced);
    let (own, others) = of_owner(others, Owner::OwnThread);
    // What is written back, and what a file system has its workers send, may be the run's own.
    let (kernel, others): (Vec<&Neighbour>, _) =
        others.into_iter().partition(|io| io.is_by("kworker/"));
    let size = |ios: &[&Neighbour]| {
        let bytes: u64 = ios.iter().map(|io| io.size).sum();
        (readable::counted(ios.len() as u64, "I/O"), readable::bytes(bytes))
    };
    if !ahead.is_empty() {
        let (ios, bytes) = size(&ahead);
        said.push(format!("the kernel read ahead for the run's own reads: {ios}, {bytes}"));
    }
    if !held.is_empty() {
        let (ios, bytes) = size(&held);
        said.push(format!("a limit had held pages of the run's file back: {ios}, {bytes}"));
    }
    if !unplaced.is_empty() {
        let parts = readable::counted(unplaced.len() as u64, "part");
        let (_, bytes) = size(&unplaced);
        said.push(format!("{parts} of the run's own I/Os that could not be given to one, {bytes}"));
    }
    if !own.is_empty() {
        let (ios, bytes) = size(&own);
        let who = busiest(&own, events.own_pid);
        said.push(format!("{ios} of the program's own other threads on the disk, {bytes}{who}"));
    }
    if !kernel.is_empty() {
        let (ios, bytes) = size(&kernel);
        said.push(format!("{ios} by workers of the kernel, for the run or for others, {bytes}"));
    }
    if others.is_empty() {
        if kernel.is_empty() && events.saw_all_others(info) {
            said.push("nobody else used the disk".to_owned());
        }
        return;
    }
    let (ios, bytes) = size(&others);
    let who = busiest(&others, events.own_pid);
    said.push(format!("{ios} of others on the disk, {bytes}{who}"));
}

/// Those of an owner, and the rest.
fn of_owner(ios: Vec<&Neighbour>, owner: Owner) -> (Vec<&Neighbour>, Vec<&Neighbour>) {
    ios.into_iter().partition(|io| io.owner == owner)
}

/// Whose I/Os were most of these.
fn busiest(ios: &[&Neighbour], own_pid: Option<u64>) -> String {
    let words = |io: &&Neighbour| Some((io.thread.as_ref()?.words(own_pid), io.size.max(1)));
    let by = ios.iter().filter_map(words);
    most(by).map_or(String::new(), |(who, _)| format!(", most by {who}"))
}

/// The name with the largest sum.
pub fn most(list: impl Iterator<Item = (String, u64)>) -> Option<(String, u64)> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    list.for_each(|(name, n)| *sums.entry(name).or_insert(0) += n);
    sums.into_iter().max_by_key(|(_, n)| *n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::thread::Thread;

    /// I/Os on the disk by these threads, as they are described.
    fn described(ios: &[(&str, Owner)]) -> Vec<String> {
        described_of(ios, r#"{"mode":"outliers","rung":"bpf","disks_watched":true}"#)
    }

    fn io(name: &str, owner: Owner, end_ns: i64) -> Neighbour {
        let thread = Some(Thread::named(name));
        Neighbour { start_ns: 10, end_ns, size: 4096, thread, owner, ..Neighbour::default() }
    }

    fn described_of(ios: &[(&str, Owner)], info: &str) -> Vec<String> {
        let info: TraceInfo = serde_json::from_str(info).unwrap();
        let mut events = Events::default();
        ios.iter().for_each(|(name, owner)| events.add(io(name, *owner, 10)));
        let mut said = Vec::new();
        describe(&events, &info, TimeSpan::new(0, 100), &mut said);
        said
    }

    #[test]
    fn reading_ahead_for_the_run_is_nobody_elses() {
        let said = |names: &[&str]| {
            described(&names.iter().map(|n| (*n, Owner::Other)).collect::<Vec<_>>())
        };
        let ahead = "the kernel read ahead for the run's own reads: 2 I/Os, 8.00 KiB";
        assert_eq!(said(&["readahead", "readahead"]), [ahead, "nobody else used the disk"]);
        assert_eq!(
            said(&["readahead", "backup", "readahead"]),
            [ahead, "1 I/O of others on the disk, 4.00 KiB, most by backup"]
        );
        assert_eq!(said(&[]), ["nobody else used the disk"]);
        for info in [
            r#"{"mode":"all","rung":"bpf","disks_watched":false}"#,
            r#"{"mode":"all","rung":"bpf"}"#,
        ] {
            assert!(described_of(&[], info).is_empty(), "nobody looked: {info}");
        }
        let kernel = "1 I/O by workers of the kernel, for the run or for others, 4.00 KiB";
        assert_eq!(said(&["kworker/u8:2"]), [kernel]);
    }

    #[test]
    fn nobody_else_is_said_only_where_each_end_was_seen() {
        let says = |end_ns: i64, counted: u64| {
            let info = format!(
                r#"{{"mode":"outliers","rung":"bpf","disks_watched":true,"neighbours":{counted}}}"#
            );
            let info: TraceInfo = serde_json::from_str(&info).unwrap();
            let mut events = Events::default();
            events.add(io("backup", Owner::Other, end_ns));
            let mut said = Vec::new();
            describe(&events, &info, TimeSpan::new(100, 200), &mut said);
            said.join("")
        };
        assert_eq!(says(50, 1), "nobody else used the disk");
        assert_eq!(says(10, 1), "", "when it was done is not known");
        assert_eq!(says(50, 2), "", "another one was never seen to end");
        assert!(says(150, 1).contains("most by backup"), "queued before, still in flight");
    }

    #[test]
    fn a_stores_own_threads_are_not_others() {
        // LevelDB's thread has the name of the program that it is in.
        let ios = [
            ("taillight", Owner::OwnThread),
            ("taillight", Owner::Other),
            ("worker-0", Owner::Unplaced),
            ("iou-wrk-77", Owner::Unplaced),
        ];
        assert_eq!(
            described(&ios),
            [
                "2 parts of the run's own I/Os that could not be given to one, 8.00 KiB",
                "1 I/O of the program's own other threads on the disk, 4.00 KiB, most by taillight",
                "1 I/O of others on the disk, 4.00 KiB, most by taillight"
            ]
        );
    }
}
