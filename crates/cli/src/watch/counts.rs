//! How many operations of each kind a watched program did, second by second, as the trace programs counted them; and
//! which kinds were counted whole: reads and writes by the kernel's own counts of the same processes, syncs by those
//! that were seen to begin. Only kinds counted whole have percentiles of these counts; of others requests of io_uring and
//! libaio have, which are all seen.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::OpKind;
use taillight_rundir::watched::{CountedInterval, WatchedOp};
use taillight_trace::watch::{CallTally, Watching, lower_edge, new_since, together};

/// Intervals kept; beyond them two neighbours become one.
const INTERVALS_MAX: usize = 7200;
/// A kind is whole where one operation in so many may be missed, of unknown result or of unknown latency; no more.
const WHOLE: u64 = 200;

/// What each kind of operation did in an interval.
pub type Second = Vec<(OpKind, CallTally)>;

/// What was counted from one time to another, ns: operations of each kind, and requests of io_uring and libaio alone.
struct CountedTime {
    time: (i64, i64),
    all: Second,
    requests: Second,
}

/// Counts of a watch.
#[derive(Default)]
pub struct Counts {
    intervals: Vec<CountedTime>,
    before: BTreeMap<OpKind, CallTally>,
    requests: BTreeMap<OpKind, CallTally>,
    /// Calls that read and that wrote which the kernel had counted of threads when they came to be watched.
    earlier: [u64; 2],
    /// Of some process the kernel did not tell that: its later counts can be compared with nothing.
    untold: bool,
    last_ns: i64,
}

impl Counts {
    /// Begins at a time, ns.
    pub fn begin(at_ns: i64) -> Counts {
        Counts { last_ns: at_ns, ..Counts::default() }
    }

    /// A process is watched of whose threads the kernel had counted so much before, which is subtracted later.
    pub fn count(&mut self, before: Option<[u64; 2]>) {
        match before {
            Some(before) => (0..2).for_each(|i| self.earlier[i] += before[i]),
            None => self.untold = true,
        }
    }

    /// The end of such a process was not seen: what the kernel had counted of it is in no later count.
    pub fn take_back(&mut self, before: Option<[u64; 2]>) {
        let before = before.unwrap_or_default();
        (0..2).for_each(|i| self.earlier[i] = self.earlier[i].saturating_sub(before[i]));
    }

    /// Whether the kernel does not tell how many calls of some process read and wrote.
    pub fn untold(&self) -> bool {
        self.untold
    }

    /// Ends the interval at a time, ns, and returns what each kind of operation did in it.
    pub fn close(&mut self, at_ns: i64, watching: &Watching) -> Second {
        let second = new_since(&mut self.before, watching.tallies());
        let requests = new_since(&mut self.requests, watching.requests());
        let time = (self.last_ns, at_ns);
        self.intervals.push(CountedTime { time, all: second.clone(), requests });
        self.last_ns = at_ns;
        if self.intervals.len() > INTERVALS_MAX {
            self.halve();
        }
        second
    }

    fn halve(&mut self) {
        let both = |pair: &[CountedTime]| CountedTime {
            time: (
                pair.first().map_or(0, |first| first.time.0),
                pair.last().map_or(0, |last| last.time.1),
            ),
            all: together(pair.iter().flat_map(|counted| &counted.all)),
            requests: together(pair.iter().flat_map(|counted| &counted.requests)),
        };
        self.intervals = self.intervals.chunks(2).map(both).collect();
    }

    /// The latency, ns, that this share of all operations lies above, 0 to 1, from the beginning to the last interval that
    /// was closed: of all kinds together, as a kind of few operations has no slowest part. None without any.
    pub fn above(&self, share: f64) -> Option<u64> {
        let mut all = CallTally::default();
        self.before.values().for_each(|tally| all.add(tally));
        all.above(share)
    }

    /// Each kind that was seen, and whether it was counted whole ([`WHOLE`]); `seen` are reads, writes, syncs and page
    /// faults ([`Watching::counted`]), `kernel` the calls that read and wrote of all threads that were ever watched, where
    /// the kernel tells them. From `slower_ns` on an operation is slow.
    pub fn ops(&self, seen: [u64; 4], kernel: Option<[u64; 2]>, slower_ns: u64) -> Vec<WatchedOp> {
        let kernel = kernel.filter(|_| !self.untold);
        let kernel = |which: usize| Some(kernel?[which].saturating_sub(self.earlier[which]));
        let of = |(op, tally): (&OpKind, &CallTally)| {
            let (counted, kernel) = match op {
                OpKind::Read => (seen[0], kernel(0)),
                OpKind::Write => (seen[1], kernel(1)),
                _ => (seen[2], None),
            };
            let missed = match (op, kernel) {
                (OpKind::Read, Some(kernel)) => kernel.saturating_sub(counted) + seen[3],
                (_, Some(kernel)) => kernel.saturating_sub(counted),
                (OpKind::Fsync, None) => tally.count.saturating_sub(counted),
                _ => tally.count,
            };
            WatchedOp {
                op: *op,
                seen: tally.count,
                slow: tally.at_least(slower_ns),
                kernel,
                // One untimed sync may stand for many calls.
                whole: missed + tally.unknown + tally.untimed <= tally.count / WHOLE
                    && (kernel.is_some() || tally.untimed == 0),
                unknown: tally.unknown,
                untimed: tally.untimed,
                requests: self.requests.get(op).map_or(0, |requests| requests.count),
                requests_alone: false,
            }
        };
        let all = self.before.iter().map(of);
        all.map(|op| WatchedOp { requests_alone: !op.whole && op.requests > 0, ..op }).collect()
    }

    /// As [`Counts::ops`] where operations or threads found no room: no kind is whole, not even one that looks like it.
    pub fn ops_of_a_part(&self, kernel: Option<[u64; 2]>, slower_ns: u64) -> Vec<WatchedOp> {
        let ops = self.ops([0; 4], kernel, slower_ns).into_iter();
        ops.map(|op| WatchedOp { whole: false, requests_alone: false, ..op }).collect()
    }

    /// The intervals of those kinds that are whole, or of which figures are of requests alone; `workloads` has the kind of
    /// each workload.
    pub fn told(&self, ops: &[WatchedOp], workloads: &[OpKind]) -> Vec<CountedInterval> {
        let mut all = Vec::new();
        for counted in &self.intervals {
            for op in ops.iter().filter(|op| op.whole || op.requests_alone) {
                let second = if op.whole { &counted.all } else { &counted.requests };
                let Some((_, tally)) = second.iter().find(|it| it.0 == op.op) else { continue };
                let Some(workload) = workloads.iter().position(|it| *it == op.op) else { continue };
                all.push(interval_of(counted.time, workload as u16, op.op, tally));
            }
        }
        all
    }
}

/// What a kind of operation did from one time to another, ns.
pub fn interval_of(
    (from, to): (i64, i64),
    workload: u16,
    op: OpKind,
    tally: &CallTally,
) -> CountedInterval {
    CountedInterval {
        start_ns: from,
        length_ns: (to - from).max(1) as u64,
        workload,
        name: op.name().to_owned(),
        op,
        latencies: tally.places.iter().map(|(p, n)| (middle(*p), *n)).collect(),
        bytes: tally.bytes,
        errors: tally.failed,
        sum_ns: tally.sum_ns,
    }
}

/// The middle of a place, which stands for the latencies in it, ns.
fn middle(place: u16) -> u64 {
    lower_edge(place).midpoint(lower_edge(place + 1).saturating_sub(1))
}

/// Calls that read and that wrote, as the kernel counts them, of the threads that a process has now. None where it does
/// not tell: of another user's process it takes CAP_SYS_PTRACE.
pub fn io_of(pid: u32) -> Option<[u64; 2]> {
    io_below(Path::new(&format!("/proc/{pid}/task")))
}

fn io_below(threads: &Path) -> Option<[u64; 2]> {
    let mut sum = [0; 2];
    for thread in std::fs::read_dir(threads).into_iter().flatten().flatten().map(|it| it.path()) {
        let text = std::fs::read_to_string(thread.join("io")).ok();
        let of = |name: &str| -> Option<u64> {
            text.as_ref()?.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
        };
        match of("syscr:").zip(of("syscw:")) {
            Some((reads, writes)) => sum = [sum[0] + reads, sum[1] + writes],
            None if thread.exists() => return None,
            // It has ended meanwhile.
            None => {}
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(OpKind, u64)]) -> Counts {
        let tally =
            |n: u64| CallTally { count: n, places: vec![(3000, n)], ..CallTally::default() };
        Counts {
            earlier: [10, 10],
            before: list.iter().map(|(op, n)| (*op, tally(*n))).collect(),
            ..Counts::default()
        }
    }

    #[test]
    fn percentiles_are_of_what_was_counted_whole() {
        let whole = |counts: &Counts, seen, reads| -> Vec<bool> {
            counts.ops(seen, Some([reads, 60]), 1).iter().map(|op| op.whole).collect()
        };
        let all = counts(&[(OpKind::Read, 1000), (OpKind::Fsync, 7)]);
        assert_eq!(whole(&all, [1000, 0, 7, 0], 1010), [true, true]);
        assert_eq!(
            whole(&all, [995, 0, 6, 0], 1010),
            [true, false],
            "a sync was not seen to begin"
        );
        assert_eq!(whole(&all, [994, 0, 7, 0], 1010), [false, true], "reads came from memory");
        assert_eq!(whole(&all, [1000, 0, 7, 6], 1010), [false, true], "so do page faults");
        // 5,000 of a ring beside 50 calls of which the kernel knows.
        let ring = counts(&[(OpKind::Read, 5000)]);
        assert_eq!(whole(&ring, [0; 4], 60), [false]);
        assert_eq!(whole(&ring, [26, 0, 0, 0], 60), [true]);
        assert_eq!(whole(&counts(&[(OpKind::Stat, 3)]), [0; 4], 10), [false], "never");
        assert!(all.ops_of_a_part(Some([1010, 60]), 1).iter().all(|op| !op.whole), "no room");
        // Results and latencies that are not known.
        let with = |op, change: fn(&mut CallTally)| {
            let mut counts = counts(&[(op, 1000)]);
            counts.before.values_mut().for_each(change);
            whole(&counts, [1000, 0, 1000, 0], 1010)
        };
        assert_eq!(with(OpKind::Read, |t| t.untimed = 5), [true]);
        assert_eq!(with(OpKind::Read, |t| t.untimed = 6), [false]);
        assert_eq!(with(OpKind::Read, |t| t.unknown = 6), [false]);
        assert_eq!(with(OpKind::Fsync, |t| t.untimed = 1), [false], "it may be many");
    }

    #[test]
    fn few_calls_of_a_fast_kind_do_not_make_all_others_slow() {
        let mut all = counts(&[(OpKind::Read, 10_000), (OpKind::Stat, 2)]);
        let tally = |places: &[(u16, u64)]| CallTally {
            count: places.iter().map(|place| place.1).sum(),
            places: places.to_vec(),
            ..CallTally::default()
        };
        all.before.insert(OpKind::Read, tally(&[(9000, 9989), (12_000, 11)]));
        all.before.insert(OpKind::Stat, tally(&[(600, 2)]));
        assert_eq!(all.above(0.001), Some(lower_edge(12_000)), "and not where the stats are");
        assert_eq!(Counts::default().above(0.001), None);
    }

    /// Without the kernel's count nobody knows how many calls were not seen.
    #[test]
    fn what_the_kernel_does_not_tell_is_not_taken_for_nothing() {
        let mut all = counts(&[(OpKind::Read, 1000), (OpKind::Fsync, 7)]);
        let whole = |all: &Counts, kernel| -> Vec<(bool, Option<u64>)> {
            let ops = all.ops([1000, 0, 7, 0], kernel, 1);
            ops.iter().map(|op| (op.whole, op.kernel)).collect()
        };
        let told = [(true, Some(1000)), (true, None)];
        let untold = [(false, None), (true, None)];
        assert_eq!(whole(&all, Some([1010, 60])), told);
        assert_eq!(whole(&all, None), untold, "of a process that is there");
        all.count(Some([500, 0]));
        assert_eq!(whole(&all, Some([1510, 60])), told);
        all.take_back(Some([500, 0]));
        assert_eq!(whole(&all, Some([1010, 60])), told, "its end was not seen");
        all.count(None);
        assert_eq!(whole(&all, Some([1010, 60])), untold, "of one that was there before");
    }

    #[test]
    fn a_thread_whose_count_cannot_be_read_is_no_thread_without_calls() {
        let home = tempfile::tempdir().expect("a directory");
        let thread = |tid: &str, io: Option<&str>| {
            let at = home.path().join(tid);
            std::fs::create_dir(&at).expect("made");
            io.into_iter().for_each(|io| std::fs::write(at.join("io"), io).expect("written"));
        };
        thread("7", Some("rchar: 9\nsyscr: 3\nsyscw: 4\n"));
        thread("8", Some("syscr: 10\nsyscw: 0\n"));
        assert_eq!(io_below(home.path()), Some([13, 4]));
        thread("9", None);
        assert_eq!(io_below(home.path()), None);
        assert_eq!(io_below(&home.path().join("ended")), Some([0, 0]), "it has ended");
        let own = io_of(std::process::id());
        assert!(own.is_none_or(|[reads, _]| reads > 0), "{own:?}");
    }

    #[test]
    fn a_long_watch_keeps_its_counts_in_longer_intervals() {
        let mut counts = Counts::default();
        let tally = |n| CallTally { count: n, places: vec![(9, n)], ..CallTally::default() };
        let counted = |i: i64| CountedTime {
            time: (i, i + 1),
            all: vec![(OpKind::Read, tally(1 + i as u64))],
            requests: vec![(OpKind::Read, tally(i as u64))],
        };
        counts.intervals = (0..5).map(counted).collect();
        counts.halve();
        let now = counts.intervals.iter();
        let now: Vec<_> =
            now.map(|it| (it.time, it.all[0].1.count, it.requests[0].1.count)).collect();
        assert_eq!(now, [((0, 2), 3, 1), ((2, 4), 7, 5), ((4, 5), 5, 4)]);
        assert_eq!(counts.intervals[0].all[0].1.places, [(9, 3)]);
    }

    #[test]
    fn figures_are_of_requests_alone_where_the_calls_beside_them_are_not_all_seen() {
        let mut counts = counts(&[(OpKind::Read, 1000), (OpKind::Write, 7)]);
        let requests = CallTally { count: 990, places: vec![(9, 990)], ..CallTally::default() };
        counts.requests.insert(OpKind::Read, requests.clone());
        let all = counts.before.clone().into_iter().collect();
        counts.intervals =
            vec![CountedTime { time: (0, 1), all, requests: vec![(OpKind::Read, requests)] }];
        // Of 400 calls that read 10 were seen.
        let of = |kernel: u64| {
            let ops = counts.ops([10, 0, 0, 0], Some([10 + kernel, 50]), 1);
            let told = counts.told(&ops, &[OpKind::Read, OpKind::Write]);
            let told: Vec<u64> = told.iter().map(|it| it.latencies[0].1).collect();
            (ops[0].requests, ops[0].requests_alone, told)
        };
        assert_eq!(of(400), (990, true, vec![990]));
        assert_eq!(of(10), (990, false, vec![1000]), "all of them");
        let none = counts.ops_of_a_part(Some([400, 50]), 1);
        assert!(none.iter().all(|op| !op.requests_alone), "no room");
    }
}
