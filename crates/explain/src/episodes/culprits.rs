//! Who or what stood in the way during an episode, as data: threads that had the CPU, had requests in the disk, were
//! late with what the I/O needed, let a stopped program go on or ended a wait for a lock; limits that held back;
//! pauses. Names, numbers and amounts are from events of the trace; the verdict does not depend on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::TimeSpan;
use taillight_core::units::readable;

use crate::events::event::{OffCpu, Owner, Pause};
use crate::events::list::overlapping;
use crate::events::stacks::SleepReason;
use crate::events::thread::{Thread, called, group_called};
use crate::events::{Events, joined};
use crate::phase::Phase;
use crate::time_line::segments::{Segment, Source, wait_segments};
use crate::verdict::judge::Judged;
use crate::wait_graph::{pauses, thread_waits};

/// Culprits of each role that are listed of an episode, the largest.
const LISTED: usize = 3;

/// The limit on CPU time.
pub const QUOTA: &str = "cpu quota of the run's control group";

/// What a culprit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Had requests in the disk while the slowest I/O waited for it.
    Disk,
    /// Took the CPU from a thread of the I/O, or had it last before that thread got it; others that had it between
    /// are not known.
    Cpu,
    /// A thread of the kernel that acts for the I/O, and was late itself.
    Kthread,
    /// Woke the program up when it had been stopped or frozen.
    Stop,
    /// Woke up a thread that slept over a lock or in the file system (a freeze, a journal, a file server); of threads
    /// of the program also one that slept in the program itself.
    Woke,
    /// A control group whose limit it was.
    Limit,
    /// What a virtual machine inside the program had stopped its threads for.
    Pause,
}

/// One of those who stood in the way.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Culprit {
    pub role: Role,
    /// Name of the thread; of a limit what it limits. The name and what follows come from one event, and
    /// are null where they are not known.
    pub name: String,
    /// Thread.
    pub tid: Option<u64>,
    /// Its process.
    pub pid: Option<u64>,
    /// It is a thread of the benchmark itself: its tracer, a worker, a store inside it.
    pub own: bool,
    /// Command line of the process; null of a thread of the kernel, and of one that ended at once.
    pub command: Option<String>,
    pub cgroup: Option<String>,
    /// Requests ahead of the slowest I/O, or beside it until it was done.
    pub requests: Option<u64>,
    /// Their bytes.
    pub bytes: Option<u64>,
    /// How long it took, of all I/Os of the episode once, ns; of role `cpu` how long the waits were.
    pub time_ns: Option<u64>,
}

impl Culprit {
    /// What to call it, with its process and its unit, container or control group.
    pub fn who(&self) -> String {
        let called = called(&self.name, self.tid, self.pid, self.own);
        match (&self.cgroup, called.strip_suffix(')')) {
            (Some(group), Some(called)) => format!("{called}, {})", group_called(group)),
            _ => called,
        }
    }

    /// The same, and what it did.
    pub fn did(&self) -> String {
        let who = self.who();
        let took =
            self.time_ns.map_or(String::new(), |ns| format!(" for {}", readable::duration_ns(ns)));
        let requests = self.requests.map_or(String::new(), |n| readable::counted(n, "request"));
        match self.role {
            Role::Disk => format!(
                "{who} had {requests} of {} in the disk before the slowest was done",
                readable::bytes(self.bytes.unwrap_or(0))
            ),
            Role::Cpu => format!("{who} was on the CPU when waits for it{took} began or ended"),
            Role::Kthread => format!("{who}, which acts for the I/O, was late{took}"),
            Role::Stop => format!("{who} let the program go on, which had stood still{took}"),
            Role::Woke => format!("{who} ended the wait{took}"),
            Role::Limit if self.requests.is_some() => format!("{who} held {requests} back"),
            Role::Limit => format!("{who} was spent{took}"),
            Role::Pause => format!("{who} stopped the JVM's threads{took}"),
        }
    }
}

/// Sums while they are gathered.
#[derive(Default)]
struct Sums {
    all: BTreeMap<(Role, Arc<Thread>), Culprit>,
    /// The benchmark's process.
    own: Option<u64>,
}

impl Sums {
    fn of(&mut self, role: Role, who: &Arc<Thread>) -> &mut Culprit {
        let own = who.is_of(self.own);
        let empty = || Culprit {
            role,
            name: who.name.to_string(),
            tid: who.tid,
            pid: who.pid,
            own,
            command: who.command.as_deref().map(str::to_owned),
            cgroup: who.cgroup.as_deref().map(str::to_owned),
            requests: None,
            bytes: None,
            time_ns: None,
        };
        self.all.entry((role, who.clone())).or_insert_with(empty)
    }

    fn time(&mut self, role: Role, who: Option<&Arc<Thread>>, ns: i64) {
        let idle = |who: &Thread| who.name.starts_with("swapper/");
        if let (Some(who), 1..) = (who.filter(|who| who.has_name() && !idle(who)), ns) {
            *self.of(role, who).time_ns.get_or_insert(0) += ns.unsigned_abs();
        }
    }
}

/// The culprits of an episode, by role, the largest first, `LISTED` of each at most.
pub fn culprits(list: &[Judged], events: &Events, span: TimeSpan) -> Vec<Culprit> {
    let mut sums = Sums { own: events.own_pid, ..Sums::default() };
    asleep(list, events, &mut sums);
    let mut in_way = BTreeMap::new();
    for (worker, time) in times_in_flight(list) {
        for by in thread_waits::helper_threads(worker, time, events) {
            in_way.insert((by.thread.tid, by.start_ns), by);
        }
    }
    for by in in_way.into_values() {
        let took: i64 = wait_segments(by, Source::Helper).iter().map(Segment::length).sum();
        sums.time(Role::Kthread, Some(&by.thread), took);
        sums.time(Role::Cpu, by.ran.as_ref(), by.end_ns - by.runnable_ns());
    }
    disk(list, events, &mut sums);
    let (quota_ns, limits) = limits(events, span);
    sums.time(Role::Limit, Some(&Thread::named(QUOTA)), quota_ns as i64);
    let paused = |pause: &Pause| {
        let of =
            |j: &Judged| j.slow.submit_ns < pause.end_ns && j.slow.complete_ns > pause.start_ns;
        list.iter().any(|j| of(j) && j.phases.get(Phase::JvmPause) > 0)
    };
    for pause in pauses::during(events, span.from, span.to).filter(|pause| paused(pause)) {
        let what = Thread::named(&pause.reason);
        sums.time(Role::Pause, Some(&what), pause.end_ns - pause.start_ns);
    }
    for (name, requests) in &limits {
        sums.of(Role::Limit, &Thread::named(name)).requests = Some(*requests);
    }
    ordered(sums)
}

/// Limits of the run's own that held something back in this time: for how long the quota of CPU time did, ns, and how
/// many requests each other one.
fn limits(events: &Events, span: TimeSpan) -> (u64, BTreeMap<String, u64>) {
    let quota = events.quota.within(span.from, span.to).map(|window| window.without_ns);
    let held = events.held.within(span.from, span.to).filter(|part| part.by_limit());
    let pages = events.neighbours.within(span.from, span.to);
    let pages = pages.filter(|io| io.owner == Owner::HeldPages);
    let mut limits: BTreeMap<String, u64> = BTreeMap::new();
    for dev in held.map(|part| &part.dev).chain(pages.map(|io| &io.dev)) {
        *limits.entry(io_limit(dev.as_deref(), events)).or_default() += 1;
    }
    (quota.sum(), limits)
}

/// What to call a limit on a disk.
pub fn io_limit(dev: Option<&str>, events: &Events) -> String {
    let disk = dev.map_or_else(|| "a disk".to_owned(), |dev| events.disks.name(dev));
    format!("I/O limit of the run's control group on {disk}")
}

fn ordered(sums: Sums) -> Vec<Culprit> {
    let mut all: Vec<Culprit> = sums.all.into_values().collect();
    all.sort_by_key(|c| (c.role, std::cmp::Reverse((c.time_ns, c.bytes, c.requests))));
    let mut listed: BTreeMap<Role, usize> = BTreeMap::new();
    all.retain(|c| {
        let n = listed.entry(c.role).or_default();
        *n += 1;
        *n <= LISTED
    });
    all
}

/// The threads that had the CPU, and those that ended a stop or a wait.
fn asleep(list: &[Judged], events: &Events, sums: &mut Sums) {
    for off in off_during_any(list, events) {
        let wake = off.runnable_ns();
        sums.time(Role::Cpu, off.ran.as_ref(), off.end_ns - wake);
        let (slept, by) = (wake - off.start_ns, off.waker.named());
        match off.reason() {
            Some(SleepReason::For(Phase::Stopped, _)) => sums.time(Role::Stop, by, slept),
            Some(SleepReason::Lock(..) | SleepReason::For(Phase::FileSystem, _)) => {
                sums.time(Role::Woke, by, slept)
            }
            Some(SleepReason::For(Phase::Application, _)) if off.waker.is_own => {
                sums.time(Role::Woke, by, slept)
            }
            _ => {}
        }
    }
}

/// When each worker had any of its traced I/Os in flight. Thousands of one worker may overlap: what was seen of its
/// threads meanwhile is then looked at once.
fn times_in_flight(list: &[Judged]) -> Vec<(u64, TimeSpan)> {
    let mut times: BTreeMap<u64, Vec<TimeSpan>> = BTreeMap::new();
    for slow in list.iter().filter(|j| j.io.is_some()).map(|j| j.slow) {
        times.entry(slow.worker.into()).or_default().push(slow.time());
    }
    let of_worker = |(worker, times)| joined(times).into_iter().map(move |time| (worker, time));
    times.into_iter().flat_map(of_worker).collect()
}

/// When the workers of these were off the CPU while a traced I/O of theirs was in flight, and the threads that poll
/// their submission queues; each time once.
pub fn off_during_any<'a>(list: &[Judged], events: &'a Events) -> Vec<&'a OffCpu> {
    let mut times: BTreeMap<(u64, i64), &OffCpu> = BTreeMap::new();
    for (worker, time) in times_in_flight(list) {
        times.extend(off_during(worker, time, events).map(|off| ((worker, off.start_ns), off)));
    }
    times.into_values().collect()
}

/// When a worker was off the CPU in a time, and the thread that polls its submission queue.
pub fn off_during<'a>(
    worker: u64,
    time: TimeSpan,
    events: &'a Events,
) -> impl Iterator<Item = &'a OffCpu> + use<'a> {
    let off = overlapping(events.off(worker), time.from, time.to);
    off.chain(events.polling_off(worker, time))
}

/// Whose requests were in the disk when the slowest traced I/O was queued and waited.
fn disk(list: &[Judged], events: &Events, sums: &mut Sums) {
    let worst = list.iter().filter(|j| j.io.is_some()).max_by_key(|j| j.phases.sum());
    let Some(io) = worst.and_then(|j| j.io.as_ref()) else {
        return;
    };
    let (Some(from), to) = (io.bio_ns, io.done_ns.unwrap_or(io.end_ns)) else {
        return;
    };
    let others = events.neighbours.within(from, to);
    for other in others.filter(|other| other.owner != Owner::HeldPages) {
        if let Some(thread) = &other.thread {
            let one = sums.of(Role::Disk, thread);
            *one.requests.get_or_insert(0) += 1;
            *one.bytes.get_or_insert(0) += other.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;

    use taillight_rundir::layers::{LayerKind, LayerRow};

    use super::*;
    use crate::events::decode::{Decoded, Decoder};
    use crate::events::event::{Neighbour, READ_AHEAD, RingThread};
    use crate::events::io::TracedIo;
    use crate::events::slow::Slow;
    use crate::verdict::judge::{JudgeInputs, judge};

    fn slow() -> Judged {
        let slow = Slow {
            worker: 0,
            op: OpKind::Read,
            intended_ns: 100,
            submit_ns: 100,
            complete_ns: 600,
        };
        let io = TracedIo {
            start_ns: 100,
            end_ns: 600,
            bio_ns: Some(110),
            done_ns: Some(590),
            ..TracedIo::default()
        };
        judge(slow, Some(io), Some(Vec::new()), &JudgeInputs::default())
    }

    #[test]
    fn a_thread_that_took_the_cpu_of_the_polling_thread_is_named() {
        let mut events = Events::default();
        let ran = Thread {
            name: "batch".into(),
            tid: Some(9),
            pid: Some(8),
            command: Some("/bin/batch".into()),
            cgroup: None,
        };
        let off = OffCpu {
            worker: Some(0),
            start_ns: 50,
            end_ns: 450,
            state: 0,
            ran: Some(Arc::new(ran)),
            ..OffCpu::default()
        };
        events.add(RingThread { off, token: None });
        events.sort();
        let found = culprits(&[slow()], &events, TimeSpan::new(100, 600));
        assert_eq!((found.len(), found[0].role, found[0].tid), (1, Role::Cpu, Some(9)));
        assert_eq!((&*found[0].name, found[0].time_ns), ("batch", Some(400)));
        assert_eq!((found[0].pid, found[0].command.as_deref()), (Some(8), Some("/bin/batch")));
    }

    #[test]
    fn a_name_goes_with_its_own_numbers_only() {
        let off = |start_ns, state, comm_tid| LayerRow {
            kind: LayerKind::OffCpu,
            worker: Some(0),
            start_ns,
            end_ns: start_ns + 100,
            middle_ns: state,
            state: state.map(|_| 1).or(Some(0)),
            comm: Some("batch".into()),
            pid: Some(77),
            comm_tid,
            ..LayerRow::default()
        };
        let of = |rows: &[LayerRow]| {
            let (mut events, mut decoder) = (Events::default(), Decoder::default());
            for row in rows {
                if let Some(Decoded::Event(event)) = decoder.decode(row.clone()) {
                    events.add(event);
                }
            }
            events.sort();
            let found = culprits(&[slow()], &events, TimeSpan::new(100, 600));
            found.iter().map(|c| (c.name.clone(), c.tid, c.time_ns)).collect::<Vec<_>>()
        };
        let name = || "batch".to_owned();
        // Before there was `comm_tid` the number in a preempted thread's row was of the thread that ran later.
        assert_eq!(of(&[off(150, None, None)]), [(name(), None, Some(100))]);
        assert_eq!(of(&[off(150, Some(200), None)]), [(name(), Some(77), Some(50))]);
        // Two of one name are two.
        let two = of(&[off(150, None, Some(5)), off(300, Some(310), Some(6))]);
        assert_eq!(two, [(name(), Some(5), Some(100)), (name(), Some(6), Some(90))]);
        let kernel = LayerRow { kind: LayerKind::Neighbour, size: Some(1), ..off(120, None, None) };
        let ahead = LayerRow { comm: Some(READ_AHEAD.into()), state: None, ..kernel };
        assert_eq!(of(&[ahead]), [(READ_AHEAD.to_owned(), None, None)], "no thread's name");
    }

    #[test]
    fn a_request_that_began_before_and_is_under_way_counts() {
        let backup = Arc::new(Thread {
            name: "backup".into(),
            tid: Some(9),
            cgroup: Some("/backup".into()),
            ..Thread::default()
        });
        let other = |start_ns, end_ns| Neighbour {
            start_ns,
            end_ns,
            size: 4096,
            thread: Some(backup.clone()),
            ..Neighbour::default()
        };
        let mut events = Events::default();
        [other(10, 400), other(20, 90), other(300, 320), other(900, 950)]
            .into_iter()
            .for_each(|io| events.add(io));
        events.sort();
        let list = [slow()];
        let found = culprits(&list, &events, TimeSpan::new(100, 600));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].requests, found[0].bytes, found[0].tid),
            (Some(2), Some(8192), Some(9))
        );
        assert_eq!(found[0].cgroup.as_deref(), Some("/backup"));
    }
}
