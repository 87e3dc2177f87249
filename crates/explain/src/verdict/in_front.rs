//! How much stood in front of each slow I/O at its disk when it was queued there. Of the program itself all operations
//! of the run tell, where each of them is one on the disk (direct I/O); of others, what the trace saw there. What
//! nobody could see is not known, which is never told as 0.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::units::readable;
use taillight_core::{OpKind, Result, TimeSpan};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::trace_info::TraceInfo;
use taillight_rundir::{RunDir, names};

use crate::events::Events;
use crate::events::event::{Neighbour, Owner};
use crate::events::slow::{has_every_io, measured_from};
use crate::verdict::judge::Judged;

/// What stood at the disk of an I/O in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InFront {
    /// Of the program itself: operations of the run that were submitted before and not complete (where not each is one
    /// on the disk, those that the trace saw there), its other threads' I/O, and what was read ahead or written back
    /// for it; null where that is not known.
    pub own: Option<RequestSum>,
    /// Of other programs and of the kernel, for whomever; null where that is not known.
    pub others: Option<RequestSum>,
}

/// Requests, together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestSum {
    pub requests: u64,
    pub bytes: u64,
    /// There may have been more than was seen.
    pub at_least: bool,
}

impl RequestSum {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    /// What may be told of it; `whole`: nothing can have been missed.
    fn told(self, whole: bool) -> Option<RequestSum> {
        (whole || self.requests > 0).then_some(RequestSum { at_least: !whole, ..self })
    }

    /// `at least 3 requests, 80.0 MiB`.
    pub fn words(&self) -> String {
        let least = if self.at_least { "at least " } else { "" };
        let requests = readable::counted(self.requests, "request");
        format!("{least}{requests}, {}", readable::bytes(self.bytes))
    }
}

impl InFront {
    /// Both parts, for a sentence.
    pub fn words(&self) -> String {
        let part = |of: &str, sum: Option<RequestSum>| match sum {
            None => format!("not known how much of {of}"),
            Some(sum) if sum.requests == 0 => format!("nothing of {of}"),
            Some(sum) => format!("{} of {of}", sum.words()),
        };
        let own = part("the program itself", self.own);
        format!("{own}; {}", part("others", self.others))
    }
}

/// Operations of the warm-up have no rows: so long after it some may still be under way, ns.
const WARMUP_LEFT_NS: i64 = 1_000_000_000;

/// A slow I/O with what was in front of it so far.
#[derive(Debug, Default)]
struct QueuedIo {
    /// Its place among those that were judged.
    number: usize,
    submit_ns: i64,
    queued_ns: i64,
    own: RequestSum,
    others: RequestSum,
}

/// Says of each I/O that was judged and seen at a disk what was in front of it. Errors: `Corrupt` when `ios.parquet` is
/// damaged.
pub fn find(judged: &mut [Judged], dir: &RunDir, events: &Events, info: &TraceInfo) -> Result<()> {
    let whole = events.saw_all_others(info);
    let ios = dir.existing(names::IOS).filter(|_| each_is_on_disk(dir, events));
    let known_from = match dir.manifest().plan.run.warmup.0 {
        0 => i64::MIN,
        _ => measured_from(dir).saturating_add(WARMUP_LEFT_NS),
    };
    let queued = |(number, one): (usize, &Judged)| {
        let mut queued = QueuedIo {
            number,
            submit_ns: one.slow.submit_ns,
            queued_ns: one.queued_ns?,
            ..QueuedIo::default()
        };
        let dev = one.io.as_ref().and_then(|io| io.dev.as_deref());
        queued.add_seen(dev, events, ios.is_some());
        Some(queued)
    };
    let mut queued: Vec<QueuedIo> = judged.iter().enumerate().filter_map(queued).collect();
    if let Some(path) = ios.as_deref().filter(|_| !queued.is_empty()) {
        add_operations(&mut queued, path)?;
    }
    for one in queued {
        judged[one.number].verdict.in_front = Some(InFront {
            own: one.own.told(whole && ios.is_some() && one.queued_ns >= known_from),
            others: one.others.told(whole),
        });
    }
    Ok(())
}

/// Whether each operation of the run is one on the disk under test, and all of them are known.
fn each_is_on_disk(dir: &RunDir, events: &Events) -> bool {
    let plan = &dir.manifest().plan;
    let options = &plan.target.options;
    // Single workloads may go another way.
    let direct = options.get("direct").and_then(|v| v.as_bool()) == Some(true)
        && !options.contains_key("workloads")
        && plan.targets.is_empty();
    // Load that is not measured is not kept, nor is a workload's own warm-up beside others that are measured.
    let kept = plan.workloads.iter().all(|w| w.measured && w.warmup.is_none());
    direct && kept && has_every_io(dir) && events.disks.single()
}

/// Adds the run's own reads, writes and trims.
fn add_operations(queued: &mut [QueuedIo], path: &Path) -> Result<()> {
    queued.sort_by_key(|one| one.submit_ns);
    let columns = ColumnSet::OP | ColumnSet::SIZE | ColumnSet::SUBMIT | ColumnSet::COMPLETE;
    read_ios(path, columns, &mut |batch| {
        for i in 0..batch.rows {
            if matches!(batch.op(i), OpKind::Read | OpKind::Write | OpKind::Trim) {
                let time = TimeSpan::new(batch.submit(i), batch.complete(i));
                add_operation(queued, time, batch.size(i));
            }
        }
        Ok(())
    })
}

/// Adds an operation to those that were submitted after it, and queued before it was complete. They are in order of
/// submission: of a batch all are submitted before the first is queued.
fn add_operation(queued: &mut [QueuedIo], time: TimeSpan, size: u64) {
    let later = queued.partition_point(|one| one.submit_ns <= time.from);
    let meanwhile = queued[later..].iter_mut().take_while(|one| one.submit_ns < time.to);
    meanwhile.filter(|one| one.queued_ns < time.to).for_each(|one| one.own.add(size));
}

impl QueuedIo {
    /// Adds what was seen on the disk, but for parts of the run's own `operations` where these are counted.
    fn add_seen(&mut self, dev: Option<&str>, events: &Events, operations: bool) {
        let at = self.queued_ns;
        let there = |io: &&Neighbour| {
            let under_way = io.start_ns < at && at < io.end_ns;
            under_way && events.disks.may_be_one(dev, io.dev.as_deref())
        };
        for io in events.neighbours.within(at, at).filter(there) {
            match io.owner {
                Owner::Unplaced if operations => {}
                Owner::Unplaced | Owner::HeldPages | Owner::OwnThread => self.own.add(io.size),
                _ if io.is_read_ahead() => self.own.add(io.size),
                Owner::Other | Owner::Held | Owner::Unknown => self.others.add(io.size),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture;

    use super::*;

    #[test]
    fn load_that_is_not_measured_is_not_known() {
        let home = tempfile::tempdir().unwrap();
        let known = |name: &str, measured: bool| {
            let mut manifest = fixture::manifest(name);
            manifest.plan.target.options.insert("direct".into(), true.into());
            manifest.plan.workloads[0].measured = measured;
            let dir = RunDir::create(&home.path().join(name), &manifest).unwrap();
            each_is_on_disk(&dir, &Events::default())
        };
        assert_eq!((known("measured", true), known("load", false)), (true, false));
    }

    fn of(submit_ns: i64, queued_ns: i64) -> QueuedIo {
        QueuedIo { submit_ns, queued_ns, ..QueuedIo::default() }
    }

    #[test]
    fn operations_submitted_before_and_not_complete_are_in_front() {
        let mut queued = [of(100, 150), of(200, 900)];
        let operations = [
            (10, 160),   // before the first, which was queued when it was under way
            (20, 140),   // complete by then
            (100, 950),  // the first itself: before the second
            (120, 500),  // of the same batch, behind the first; complete when the second was queued
            (200, 1000), // the second itself
            (300, 2000), // after both
        ];
        for (submit, complete) in operations {
            add_operation(&mut queued, TimeSpan::new(submit, complete), 4096);
        }
        let sums = queued.map(|one| (one.own.requests, one.own.bytes));
        assert_eq!(sums, [(1, 4096), (1, 4096)]);
    }

    #[test]
    fn what_was_seen_on_the_disk_is_of_the_program_or_of_others() {
        let io = |start_ns, end_ns, dev: &str, owner| Neighbour {
            start_ns,
            end_ns,
            size: 1 << 20,
            dev: Some(dev.into()),
            owner,
            ..Neighbour::default()
        };
        let mut events = Events::default();
        [
            io(10, 200, "7:0", Owner::Other),
            io(20, 90, "7:0", Owner::Other),   // done before
            io(110, 300, "7:0", Owner::Other), // behind it
            io(10, 200, "7:1", Owner::Other),  // on another disk
            io(10, 200, "7:0", Owner::OwnThread),
            io(10, 200, "7:0", Owner::Unplaced),
        ]
        .into_iter()
        .for_each(|io| events.add(io));
        events.sort();
        let sums = |operations| {
            let mut one = of(90, 100);
            one.add_seen(Some("7:0"), &events, operations);
            (one.own.requests, one.others.requests, one.others.bytes)
        };
        assert_eq!(sums(true), (1, 1, 1 << 20), "a part of one that is counted by itself");
        assert_eq!(sums(false), (2, 1, 1 << 20));
    }

    #[test]
    fn what_was_not_seen_is_not_told_as_nothing() {
        let none = RequestSum::default();
        let some = RequestSum { requests: 3, bytes: 80 << 20, at_least: false };
        let words = |own: RequestSum, others: RequestSum, whole| {
            InFront { own: own.told(whole), others: others.told(whole) }.words()
        };
        assert_eq!(
            words(none, some, true),
            "nothing of the program itself; 3 requests, 80.0 MiB of others"
        );
        assert_eq!(
            words(none, some, false),
            "not known how much of the program itself; at least 3 requests, 80.0 MiB of others"
        );
    }
}
