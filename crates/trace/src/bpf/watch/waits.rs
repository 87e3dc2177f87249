//! Waits of watched threads for other threads of their program, and which of them are told: a wait during most of which
//! the other thread was in an operation or waited for a thread that was, and a wait for a lock whose holder did not
//! itself sleep for the world outside half of that time. A thread that has nothing to do sleeps in the same calls:
//! other waits are only counted.

use std::collections::{BTreeMap, VecDeque};

use taillight_core::probe::Token;
use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use super::calls::{IDLE, LOCK, WAITS};
use super::told::CallFacts;
use crate::bpf::layout::{OperationSlot, ThreadSeen, TraceEvent, TraceEventKind};
use crate::bpf::traced_io::{TracedIo, read_slot};

/// An operation of the other thread may be told so much after the wait that it ended, ns.
const LATE_NS: i64 = 1_000_000_000;
/// What threads did is known for so long, ns, and so many times of each, at most.
const KEPT_NS: i64 = 60_000_000_000;
const KEPT: usize = 4096;
/// What is older is looked for so often, ns.
const FORGET_EVERY_NS: i64 = 10_000_000_000;
/// Waits that are yet to be decided.
const PENDING: usize = 65_536;
/// So many operations of the other thread stand behind a wait, at most: over more of them it is for a job that the
/// thread had, as who joins it waits for, and for no operation.
const BEHIND: usize = 8;
/// How many threads one after another are looked at.
const HOPS: u32 = 4;

/// What a thread was seen to do in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// An operation.
    Operation,
    /// It waited for another thread.
    Wait(u16),
    /// It waited for the world outside.
    Idle,
}

/// When a thread did something.
#[derive(Debug, Clone, Copy)]
struct DoneTime {
    from: i64,
    to: i64,
    /// Begin of this one or of a later one in the list, whichever is first: requests of a ring end in any order.
    first: i64,
    doing: Doing,
}

/// What one thread was seen to do, by when it ended.
#[derive(Debug, Default)]
struct DoneTimes(VecDeque<DoneTime>);

impl DoneTimes {
    fn put(&mut self, TimeSpan { from, to }: TimeSpan, doing: Doing) {
        let times = &mut self.0;
        while times.len() >= KEPT || times.front().is_some_and(|time| to - time.to > KEPT_NS) {
            times.pop_front();
        }
        let at = times.iter().rposition(|time| time.to <= to).map_or(0, |i| i + 1);
        times.insert(at, DoneTime { from, to, first: i64::MAX, doing });
        let mut later = times.get(at + 1).map_or(i64::MAX, |time| time.first);
        for time in times.iter_mut().take(at + 1).rev() {
            let first = time.from.min(later);
            if time.first == first {
                break;
            }
            (time.first, later) = (first, first);
        }
    }

    /// Those that may overlap a time: no more are looked at.
    fn near(&self, from: i64, to: i64) -> impl Iterator<Item = &DoneTime> {
        let first = self.0.partition_point(|time| time.to <= from);
        self.0.range(first..).take_while(move |time| time.first < to)
    }
}

/// A wait that has ended.
#[derive(Debug, Clone, Copy)]
struct EndedWait {
    worker: u16,
    /// The thread that ended it, where it has a number.
    by: Option<u16>,
    whose: ThreadSeen,
    by_whom: ThreadSeen,
    /// Asleep, woken up, back on the CPU.
    at: (i64, i64, i64),
    lock: bool,
}

/// The longest of the waits that are not told one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestWait {
    pub ns: u64,
    pub whose: ThreadSeen,
    pub by_whom: ThreadSeen,
}

/// How many waits for other threads there were, of those as long as a slow operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// For a thread that was in an operation, or waited for one that was.
    pub carried: u64,
    /// For a lock whose holder was in none, and not idle either.
    pub locks: u64,
    /// For whatever else: another thread, or something to do.
    pub others: u64,
    pub longest_other: Option<LongestWait>,
    /// More than can be looked at.
    pub lost: u64,
}

/// Waits under way to be told.
#[derive(Debug, Default)]
pub struct Waits {
    times: BTreeMap<u16, DoneTimes>,
    pending: VecDeque<EndedWait>,
    counts: WaitCounts,
    tokens: u64,
    /// When times were forgotten last.
    forgot: i64,
}

impl Waits {
    pub fn counts(&self) -> WaitCounts {
        self.counts
    }

    /// An operation of a thread, with its begin and end.
    pub fn operation(&mut self, io: &TracedIo) {
        self.put(io.worker, TimeSpan::new(io.submit, io.complete), Doing::Operation);
    }

    /// Any other event. Whether it is a wait, which is no row of the trace.
    pub fn event(&mut self, event: &TraceEvent) -> bool {
        let (from, wake, to) = (event.start as i64, event.middle as i64, event.end as i64);
        let wake = if wake > from { wake } else { to };
        let (worker, asleep) = (event.worker as u16, TimeSpan::new(from, wake));
        match event.kind {
            TraceEventKind::Wait if event.a & u64::from(IDLE) != 0 => {
                self.put(worker, asleep, Doing::Idle);
                true
            }
            TraceEventKind::Wait => {
                let by = event.waker.checked_sub(1).map(|by| by as u16);
                if let Some(by) = by {
                    self.put(worker, asleep, Doing::Wait(by));
                }
                if self.pending.len() >= PENDING {
                    self.counts.lost += 1;
                    return true;
                }
                self.pending.push_back(EndedWait {
                    worker,
                    by,
                    whose: event.who,
                    by_whom: event.other,
                    at: (from, wake, to),
                    lock: event.a & u64::from(LOCK) != 0,
                });
                true
            }
            _ => false,
        }
    }

    fn put(&mut self, worker: u16, time: TimeSpan, doing: Doing) {
        self.times.entry(worker).or_default().put(time, doing);
    }

    /// Those of which it is known by now what the other thread did, from `slow_ns` on; all of them at the end.
    pub fn decided(&mut self, now: i64, slow_ns: u64) -> Vec<(TracedIo, CallFacts)> {
        if now != i64::MAX && now.saturating_sub(self.forgot) >= FORGET_EVERY_NS {
            self.forgot = now;
            self.forget(now.saturating_sub(KEPT_NS));
        }
        let due = |wait: &EndedWait| now.saturating_sub(wait.at.2) >= LATE_NS;
        let mut told = Vec::new();
        while let Some(wait) = self.pending.pop_front_if(|wait| due(wait)) {
            let ns = (wait.at.2 - wait.at.0).max(0) as u64;
            if ns < slow_ns {
                continue;
            }
            let asleep = TimeSpan::new(wait.at.0, wait.at.1);
            let length = asleep.length().max(1);
            let behind = |doing| {
                let by = |by| self.parts(by, asleep, HOPS, doing);
                wait.by.map_or_else(Vec::new, by)
            };
            let mut operations = behind(Doing::Operation);
            if !wait.lock {
                operations.sort_unstable_by_key(|time| -time.length());
                operations.truncate(BEHIND);
            }
            if union(operations) * 4 >= length * 3 {
                self.counts.carried += 1;
            } else if wait.lock && union(behind(Doing::Idle)) * 2 < length {
                self.counts.locks += 1;
            } else {
                self.counts.others += 1;
                let longest = &mut self.counts.longest_other;
                if longest.is_none_or(|before| before.ns < ns) {
                    *longest = Some(LongestWait { ns, whose: wait.whose, by_whom: wait.by_whom });
                }
                continue;
            }
            self.tokens += 1;
            told.push(told_wait(&wait, self.tokens));
        }
        told
    }

    /// Forgets what ended before a time: a thread that has ended does nothing after which its times would be too many.
    fn forget(&mut self, horizon: i64) {
        self.times.retain(|_, times| {
            times.0.retain(|time| time.to >= horizon);
            !times.0.is_empty()
        });
    }

    /// Times in which a thread did this, itself or by way of those that it waited for.
    fn parts(&self, worker: u16, time: TimeSpan, hops: u32, of: Doing) -> Vec<TimeSpan> {
        let mut parts = Vec::new();
        let times = self.times.get(&worker).into_iter();
        for done in times.flat_map(|times| times.near(time.from, time.to)) {
            let part = TimeSpan::new(done.from, done.to).within(time);
            match done.doing {
                _ if part.from >= part.to => {}
                Doing::Wait(by) if hops > 1 => parts.extend(self.parts(by, part, hops - 1, of)),
                doing if doing == of => parts.push(part),
                _ => {}
            }
        }
        parts
    }
}

/// How long times are together.
fn union(mut times: Vec<TimeSpan>) -> i64 {
    times.sort_unstable();
    let mut until = i64::MIN;
    times.into_iter().fold(0, |sum, TimeSpan { from, to }| {
        let more = (to - from.max(until)).max(0);
        until = until.max(to);
        sum + more
    })
}

/// Tokens of waits, beside those of operations, which have places in the programs' memory.
const TOKENS: u64 = 1 << 61;

/// A wait as an operation of its own.
fn told_wait(wait: &EndedWait, number: u64) -> (TracedIo, CallFacts) {
    let (from, wake, to) = wait.at;
    let mut io = read_slot(&OperationSlot::default(), Token(0));
    io.worker = wait.worker;
    io.op = OpKind::Wait;
    (io.submit, io.complete) = (from, to);
    (io.wake, io.run) = (wake as u64, to as u64);
    (io.blocked, io.waited) = ((wake - from).max(0) as u64, (to - wake).max(0) as u64);
    io.flags = if wait.lock { flags::LOCK as u32 } else { 0 };
    io.token = TOKENS | number;
    let facts = CallFacts {
        who: wait.whose,
        number: WAITS + if wait.lock { LOCK } else { 0 },
        descriptor: u64::MAX,
        dev: 0,
        inode: 0,
        generation: 0,
        errno: 0,
        unsure: false,
        slow: true,
        plain: false,
    };
    (io, facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::layout::EVENT_BYTES;

    const MS: i64 = 1_000_000;

    fn event(worker: u8, (from, to): (i64, i64), waker: u8, what: u32) -> TraceEvent {
        let mut bytes = vec![0u8; EVENT_BYTES];
        let mut put =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        put(0, 12 | u64::from(worker) << 32);
        put(8, (from * MS) as u64);
        put(16, (to * MS) as u64);
        put(24, (to * MS + 1000) as u64);
        put(32, what.into());
        put(120, waker.into());
        TraceEvent::parse(&bytes).expect("an event")
    }

    fn waited(waits: &mut Waits, worker: u8, time: (i64, i64), by: u8, lock: bool) {
        let what = if lock { LOCK } else { 0x800 };
        assert!(waits.event(&event(worker, time, by + 1, what)));
    }

    fn operation(waits: &mut Waits, worker: u16, (from, to): (i64, i64)) {
        let mut io = read_slot(&OperationSlot::default(), Token(0));
        (io.worker, io.submit, io.complete) = (worker, from * MS, to * MS);
        waits.operation(&io);
    }

    /// Threads whose waits are told.
    fn told(waits: &mut Waits) -> Vec<u16> {
        waits.decided(i64::MAX, 10_000_000).iter().map(|(io, _)| io.worker).collect()
    }

    #[test]
    fn who_waits_for_a_slow_operation_of_another_is_told_over_several_threads() {
        let mut waits = Waits::default();
        operation(&mut waits, 0, (100, 150));
        waited(&mut waits, 1, (102, 150), 0, false);
        waited(&mut waits, 2, (104, 150), 1, false);
        // Longer than what the other one was in: it had nothing to do.
        waited(&mut waits, 3, (10, 150), 0, false);
        // Another one that was woken by who had not been in an operation.
        waited(&mut waits, 4, (100, 150), 9, false);
        assert_eq!(told(&mut waits), [1, 2]);
        let counts = waits.counts();
        assert_eq!((counts.carried, counts.locks, counts.others), (2, 0, 2));
        assert_eq!(counts.longest_other.map(|w| w.ns / 1_000_000), Some(140));
    }

    #[test]
    fn a_lock_is_told_unless_its_holder_waited_for_the_world_outside() {
        let mut waits = Waits::default();
        waited(&mut waits, 1, (100, 150), 0, true);
        assert!(waits.event(&event(5, (90, 149), 0, IDLE)));
        waited(&mut waits, 2, (100, 150), 5, true);
        waited(&mut waits, 3, (149, 155), 0, true);
        assert_eq!(told(&mut waits), [1]);
        assert_eq!(waits.counts().others, 1, "one queue for a socket; the third was not slow");
    }

    #[test]
    fn who_joins_a_thread_waits_for_no_operation_of_it() {
        let mut waits = Waits::default();
        (0..20).for_each(|i| operation(&mut waits, 0, (100 * i, 100 * i + 99)));
        waited(&mut waits, 1, (0, 2000), 0, false);
        waited(&mut waits, 2, (1400, 2000), 0, false);
        waited(&mut waits, 3, (0, 2000), 0, true);
        assert_eq!(told(&mut waits), [2, 3]);
    }

    #[test]
    fn nobody_waits_for_himself_for_ever() {
        let mut waits = Waits::default();
        waited(&mut waits, 1, (100, 150), 2, false);
        waited(&mut waits, 2, (100, 150), 1, false);
        assert!(told(&mut waits).is_empty());
        waited(&mut waits, 1, (200, 250), 2, false);
        assert!(waits.decided(251 * MS, 10_000_000).is_empty(), "the other one may be told yet");
        assert_eq!(waits.counts().others, 2);
    }

    #[test]
    fn threads_that_have_ended_take_no_memory_for_ever() {
        let mut waits = Waits::default();
        (0..1000).for_each(|worker| operation(&mut waits, worker, (0, 5)));
        operation(&mut waits, 7, (0, 60_000));
        assert!(waits.decided(60_004 * MS, 1).is_empty());
        assert_eq!(waits.times.len(), 1000);
        assert!(waits.decided(70_100 * MS, 1).is_empty());
        assert_eq!(waits.times.keys().copied().collect::<Vec<u16>>(), [7]);
    }

    #[test]
    fn of_what_a_thread_did_only_what_is_near_is_looked_at() {
        let mut times = DoneTimes::default();
        // One after another, beside them one of a ring that began long before it ended.
        for i in 0..KEPT as i64 * 2 {
            times.put(TimeSpan::new(i * 10, i * 10 + 9), Doing::Operation);
            if i == KEPT as i64 * 3 / 2 {
                times.put(TimeSpan::new(i * 10 - 500, i * 10), Doing::Operation);
            }
        }
        assert_eq!(times.0.len(), KEPT);
        let near = |from, to| times.near(from, to).count();
        let end = KEPT as i64 * 20;
        assert_eq!(near(end - 100, end - 70), 3);
        assert_eq!(near(end - 30_000, end - 29_000), 100);
        let (begun, ended) = (KEPT as i64 * 15 - 500, KEPT as i64 * 15);
        let overlap = |time: &&DoneTime| time.from < begun + 10;
        assert_eq!(
            times.near(begun, begun + 10).filter(overlap).count(),
            2,
            "the long one as well"
        );
        // Whoever looks into its time sees what ended before it.
        assert!(near(begun, begun + 10) <= 52, "{}", near(begun, begun + 10));
        assert_eq!(near(ended + 10, ended + 20), 1);
        let sorted = times.0.iter().zip(times.0.iter().skip(1));
        assert!({ sorted }.all(|(a, b)| a.to <= b.to && a.first <= b.first && a.first <= a.from));
    }
}
