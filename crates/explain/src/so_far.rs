//! Judges the slow I/Os of a run that still goes on: the verdicts of [`explain`](crate::explain()), each on what was
//! seen until a look after its I/O ended. The report judges all again with the usual times of the whole run, the
//! lateness behind a schedule and what other I/Os did (`wait_graph::resolve`, which here is asked only of waits for a
//! thread), so that its verdicts may differ.

use taillight_core::OpKind;
use taillight_rundir::layers::{LayerRow, flags};
use taillight_rundir::summary::Cause;

use crate::episodes::culprits::{Culprit, Role, culprits};
use crate::events::decode::{Decoded, Decoder};
use crate::events::io::TracedIo;
use crate::events::pages::Pages;
use crate::explain::{follow, judge_traced};
use crate::explanation::ShareCount;
use crate::traced_run::{IoWithRounds, RoundsBefore, TracedRun};
use crate::verdict::baseline::Baseline;
use crate::verdict::judge::{JudgeInputs, Judged, Layer, OutlierVerdict};

/// How long events are kept after their end, ns: an I/O that took longer is judged by what is left of them.
const KEPT_NS: i64 = 60_000_000_000;

/// For how long after their end, ns, and how many I/Os are kept that a later wait may have waited for.
const LEADING_NS: i64 = 10_000_000_000;
const LEADING: usize = 1024;

/// The slow I/Os of a run so far, by layer.
#[derive(Debug)]
pub struct SlowSoFar {
    decoder: Decoder,
    seen: TracedRun,
    threshold_ns: Option<u64>,
    /// Slow ones of the last look: what they waited for may have been seen since.
    waiting: Vec<IoWithRounds>,
    /// Others of the last look, for which slow ones may have waited.
    beside: Vec<IoWithRounds>,
    /// Slow ones and others of earlier looks, judged; none without [`SlowSoFar::telling`].
    led: Vec<Judged>,
    /// When the last I/O ended, ns.
    newest_ns: i64,
    layers: ShareCount,
    /// What was judged, where somebody asks for each.
    told: Option<Vec<SlowNow>>,
}

/// A slow I/O as it is judged while the run goes on.
#[derive(Debug, Clone)]
pub struct SlowNow {
    pub verdict: OutlierVerdict,
    /// Who stood in the way.
    pub culprits: Vec<Culprit>,
}

impl SlowNow {
    /// The largest culprit of the first role that has one, among those that fit the blamed layer; of a wait for a
    /// thread, what ended it.
    pub fn culprit(&self) -> Option<&Culprit> {
        let roles: &[Role] = match self.verdict.layer {
            _ if self.verdict.slow.op == OpKind::Wait => &[Role::Woke],
            Layer::Cpu => &[Role::Cpu],
            Layer::Stopped => &[Role::Stop],
            Layer::Throttle => &[Role::Limit],
            Layer::Device | Layer::BlockQueue => &[Role::Disk, Role::Kthread],
            Layer::FileSystem | Layer::PageCache => &[Role::Woke, Role::Kthread, Role::Disk],
            Layer::Completion | Layer::IoUring => &[Role::Kthread, Role::Cpu],
            _ => &[],
        };
        let of = |role: &Role| self.culprits.iter().find(|culprit| culprit.role == *role);
        roles.iter().find_map(of)
    }
}

impl SlowSoFar {
    /// Of a run whose I/Os are slow above this latency, ns; without one, those are slow that tracing kept for being
    /// slow. `store`: the program has a store in it.
    pub fn new(threshold_ns: Option<u64>, store: bool) -> SlowSoFar {
        let mut seen = TracedRun::empty(0);
        seen.events.store = store;
        SlowSoFar {
            decoder: Decoder::default(),
            seen,
            threshold_ns,
            waiting: Vec::new(),
            beside: Vec::new(),
            led: Vec::new(),
            newest_ns: 0,
            layers: ShareCount::default(),
            told: None,
        }
    }

    /// Keeps every verdict until [`SlowSoFar::judged`] takes it.
    pub fn telling(self) -> SlowSoFar {
        SlowSoFar { told: Some(Vec::new()), ..self }
    }

    /// Takes the verdicts since the last call; none without [`SlowSoFar::telling`].
    pub fn judged(&mut self) -> Vec<SlowNow> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes up the `rows` since the last look, judges the slow I/Os of the last look (those of `rows` at the next
    /// one), and returns all judged so far by layer. `more` further slow I/Os, which were not kept, count as unknown at
    /// once. I/Os that began before `measured_ns` do not count; where that is `i64::MAX` (the warm-up), `more` does not
    /// either.
    pub fn look(&mut self, rows: Vec<LayerRow>, more: u64, measured_ns: i64) -> Vec<Cause> {
        if measured_ns != i64::MAX {
            self.layers.unjudged(more);
        }
        let (mut ios, mut rounds) = (Vec::new(), RoundsBefore::default());
        for row in rows {
            match self.decoder.decode(row) {
                Some(Decoded::Event(event)) => self.seen.events.add(event),
                Some(Decoded::Round(token, round)) => rounds.push(token, round),
                Some(Decoded::Io(io)) => {
                    let earlier = rounds.take(&io);
                    ios.push((*io, earlier));
                }
                None => {}
            }
        }
        self.seen.events.sort();
        self.judge();
        for (io, earlier) in ios {
            self.newest_ns = self.newest_ns.max(io.end_ns);
            let counts = io.start_ns >= measured_ns && self.is_slow(&io);
            let beside = io.has(flags::BESIDE);
            let taken = self.seen.io(io, earlier);
            if counts {
                self.waiting.push(taken);
            } else if beside {
                self.beside.push(taken);
            }
        }
        self.seen.events.forget(self.newest_ns - KEPT_NS);
        self.decoder.forget_unused();
        let horizon = self.newest_ns - LEADING_NS;
        self.led.retain(|one| one.slow.complete_ns >= horizon);
        self.layers.causes()
    }

    fn is_slow(&self, io: &TracedIo) -> bool {
        match self.threshold_ns {
            Some(ns) => io.end_ns.saturating_sub(io.start_ns) > ns as i64,
            None => !io.has(flags::SAMPLE) && !io.has(flags::BESIDE),
        }
    }

    fn judge(&mut self) {
        if self.waiting.is_empty() && self.beside.is_empty() {
            return;
        }
        let base = Baseline::of(&self.seen.phased);
        let by = JudgeInputs { base: Some(&base), context: None, threshold_ns: self.threshold_ns };
        let (events, pages) = (&self.seen.events, Pages::default());
        let judge = |found: IoWithRounds| judge_traced(found.slow(), found, events, &pages, &by);
        let new: Vec<Judged> = std::mem::take(&mut self.waiting).into_iter().map(judge).collect();
        let own = new.len();
        let beside = std::mem::take(&mut self.beside).into_iter().map(judge);
        let mut all: Vec<Judged> = new.into_iter().chain(beside).collect();
        let added = all.len();
        // What others did counts for waits for a thread.
        let waits = |i: usize, one: &Judged| i < added && one.slow.op == OpKind::Wait;
        if all.iter().any(|one| waits(0, one)) {
            all.append(&mut self.led);
            follow(&mut all, waits, events, &pages, &base, &|_| self.threshold_ns);
            self.led = all.split_off(added);
        }
        if self.told.is_some() {
            self.led.extend(all.iter().cloned());
            self.led.drain(..self.led.len().saturating_sub(LEADING));
        }
        all.truncate(own);
        for judged in all {
            self.layers.add(&judged);
            if let Some(told) = &mut self.told {
                let verdict = judged.verdict;
                let culprits = culprits(&[judged], events, verdict.slow.time());
                told.push(SlowNow { verdict, culprits });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture;
    use taillight_rundir::layers::LayerKind;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn causes(list: &[Cause]) -> Vec<(&str, u64)> {
        list.iter().map(|c| (c.layer.as_str(), c.outliers)).collect()
    }

    #[test]
    fn slow_ios_are_judged_a_look_later_and_those_of_the_warmup_not() {
        let mut so_far = SlowSoFar::new(Some(1_000_000), false);
        let fast = |i: i64| fixture::traced_io(SECOND + i * 1000, SECOND + i * 1000 + 900);
        let slow = |at: i64| fixture::traced_io(at, at + 5_000_000);
        let mut rows: Vec<LayerRow> = (0..100).map(fast).collect();
        rows.extend([slow(SECOND / 2), slow(2 * SECOND)]);
        assert!(so_far.look(rows, 0, SECOND).is_empty(), "the next look may know more");
        let found = so_far.look(Vec::new(), 0, SECOND);
        assert_eq!(causes(&found).iter().map(|(_, n)| n).sum::<u64>(), 1, "{found:?}");
        assert_eq!(so_far.look(Vec::new(), 0, SECOND), found, "each once");
    }

    const MS: i64 = 1_000_000;

    /// An operation of worker 0, in the device for 49 ms.
    fn leader() -> LayerRow {
        LayerRow {
            bio_ns: Some(SECOND + 10),
            alloc_ns: Some(SECOND + 20),
            issue_ns: Some(SECOND + 30),
            done_ns: Some(SECOND + 49 * MS),
            ..fixture::traced_io(SECOND, SECOND + 50 * MS)
        }
    }

    /// A thread's sleep until another one woke it up, just after that one's [`leader`], and what it slept in.
    fn asleep(worker: u64, waker: Option<u64>, stack: &str) -> LayerRow {
        LayerRow {
            kind: LayerKind::OffCpu,
            worker: Some(worker),
            start_ns: SECOND + MS,
            middle_ns: Some(SECOND + 50 * MS),
            end_ns: SECOND + 51 * MS,
            state: Some(1),
            stack: Some(stack.into()),
            waker,
            ..LayerRow::default()
        }
    }

    /// The same as a wait for that thread, with its sleep.
    fn wait_of(worker: u64, waker: Option<u64>) -> [LayerRow; 2] {
        let asleep = asleep(worker, waker, "futex_do_wait;__futex_wait;do_futex");
        let wait = LayerRow {
            worker: Some(worker),
            op: Some(OpKind::Wait),
            size: Some(0),
            bios: Some(0),
            parts: Some(0),
            token: Some(99),
            ..fixture::traced_io(asleep.start_ns, asleep.end_ns)
        };
        [asleep, wait]
    }

    #[test]
    fn a_wait_is_judged_by_an_operation_of_an_earlier_look() {
        let mut so_far = SlowSoFar::new(Some(1_000_000), false).telling();
        let leader = leader();
        let by = leader.worker;
        so_far.look(vec![leader], 0, i64::MIN);
        so_far.look(Vec::new(), 0, i64::MIN);
        let led = so_far.judged().pop().expect("judged").verdict.layer;
        let [asleep, wait] = wait_of(7, by);
        so_far.look(vec![asleep, wait], 0, i64::MIN);
        so_far.look(Vec::new(), 0, i64::MIN);
        let found: Vec<Layer> = so_far.judged().iter().map(|one| one.verdict.layer).collect();
        assert_eq!(found, [led]);
        assert_eq!(led, Layer::Device);
    }

    #[test]
    fn of_a_look_with_a_wait_for_a_thread_nothing_else_is_followed() {
        let layers = |waits: &[LayerRow]| {
            let mut so_far = SlowSoFar::new(Some(1_000_000), false).telling();
            let leader = leader();
            let lock = asleep(3, leader.worker, "rwsem_down_read_slowpath;ext4_file_read_iter");
            let locked = LayerRow {
                worker: Some(3),
                bios: Some(0),
                parts: Some(0),
                ..fixture::traced_io(lock.start_ns, lock.end_ns)
            };
            let events = waits.iter().filter(|row| row.kind != LayerKind::Io).chain([&lock]);
            let ios = waits.iter().filter(|row| row.kind == LayerKind::Io);
            let rows = events.chain([&leader, &locked]).chain(ios).cloned().collect();
            so_far.look(rows, 0, i64::MIN);
            so_far.look(Vec::new(), 0, i64::MIN);
            let judged = so_far.judged();
            judged.iter().map(|one| one.verdict.layer).collect::<Vec<_>>()
        };
        let alone = layers(&[]);
        assert_eq!(alone, [Layer::Device, Layer::FileSystem]);
        let beside = layers(&wait_of(7, Some(0)));
        assert_eq!(beside, [Layer::Device, Layer::FileSystem, Layer::Device]);
    }

    #[test]
    fn what_was_too_much_to_see_counts_as_unknown() {
        let mut so_far = SlowSoFar::new(Some(100), false);
        assert!(so_far.look(Vec::new(), 9, i64::MAX).is_empty(), "of the warm-up");
        let found = so_far.look(Vec::new(), 7, 0);
        assert_eq!(causes(&found), [("unknown", 7)]);
    }
}
