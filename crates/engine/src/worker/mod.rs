//! The hot loop: one worker for every driver, real or simulated, open or closed loop.
//!
//! A state machine without threads or sleeping: [`Worker::fill`] submits whatever is due and says
//! what to wait for, [`Worker::reap`] polls, stamps once per poll, and records. `threaded` and
//! `simulate` drive it. Per operation: no allocation, no lock, no syscall beyond the I/O.
//!
//! Read this file first. What the generator draws is submitted in `submit` and recorded in `record`;
//! between them the worker asks its [`Strategies`] where a plan wants more than load: keys, a stream,
//! verification, think time. Those also submit parts of composed operations and final syncs, and
//! record what has no record of its own. `slots` holds what is in flight, `buffers` fills what is
//! written.

mod backlog;
mod buffers;
mod cache;
mod config;
mod end_sync;
mod flow;
mod keyed;
mod pacing;
mod slots;
mod strategies;
mod stream;
#[cfg(test)]
mod tests;

use taillight_capture::chunk::ShortRecord;
use taillight_core::probe::{Probe, Token};
use taillight_core::{Error, Record, Result, Stamp, Status};
use taillight_driver::{Completion, Session, Submitted};

use backlog::Backlog;
pub use cache::CacheDrops;
pub use config::{WorkerEnd, WorkerHandles, WorkerLimits, WorkerParts, WorkerSpec, WorkerWait};
pub use end_sync::EndSyncs;
pub use flow::{FlowGate, Flows};
pub use keyed::KeyedWorker;
pub use pacing::Pacing;
use slots::{IDLE, Slots, record_of, whole_or_short};
pub use strategies::Strategies;
pub use stream::{StreamEnd, StreamLayout, StreamRole, StreamWorker};

use crate::clock::DisciplinedClock;
use crate::generator::Generator;
use crate::payload::Filler;
use crate::recorder::{Recorder, Timeline};
use crate::schedule::Schedule;
use crate::sys;

/// Operations submitted at most before the caller gets control back.
const ROUND: u32 = 4096;
/// Longest time before the caller gets control back from operations that complete at once, ns.
const ROUND_NS: u64 = 10_000_000;
/// Failures in a row after which the target counts as gone.
const MAX_CONSECUTIVE_ERRORS: u32 = 1000;
/// How long an I/O is awaited when somebody asked for the end of the run, ns.
pub const ASKED_DRAIN_NS: u64 = 2_000_000_000;

/// One worker.
pub struct Worker<C: DisciplinedClock, P: Probe> {
    clock: C,
    probe: P,
    session: Box<dyn Session>,
    generator: Generator,
    schedule: Schedule,
    recorder: Recorder,
    timeline: Timeline,
    limits: WorkerLimits,
    payload: Filler,
    /// Keys, a stream, verification, think time and the like. The plain loop has none of them and
    /// pays for one branch.
    strategies: Option<Box<Strategies>>,
    /// The strategies ask more of an operation than its key: see [`Strategies::only_keys`].
    beyond_keys: bool,
    slots: Slots,
    backlog: Backlog,
    ending: Ending,
    measured: bool,
    /// Bytes in each file, for global offsets.
    file_size: u64,
    /// First of the capture's block sizes: stands for the size of an fsync.
    first_size: u64,
    /// Operations that one flush hands over.
    full_batch: usize,
    done: Vec<Completion>,
    now: Stamp,
    /// When the current round of submits gives control back.
    round_end: Stamp,
}

/// How far the worker is with ending.
struct Ending {
    stopping: bool,
    /// What is in flight is awaited until then.
    drain_until: Stamp,
    /// The time is up, rather than a limit reached or a stop asked for.
    reached_end: bool,
    /// The operations, bytes or passes of the plan are done.
    reached_limit: bool,
    /// Files were synced at the end.
    synced: bool,
    /// Failures in a row.
    failures: u32,
}

/// What a completion comes to.
struct OperationEnd {
    status: Status,
    /// The writer's stamp in a block that was read.
    origin: Option<Stamp>,
    /// Whether it is a success with nothing to say that a short record does not hold.
    short: bool,
    /// Whether it may be recorded together with operations that follow.
    later: bool,
}

impl OperationEnd {
    /// Sets the status for good.
    fn set_status(&mut self, status: Status) {
        self.status = status;
        self.short &= status.is_ok();
    }
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// A worker ready to start at `timeline.start`.
    pub fn new(mut spec: WorkerSpec, parts: WorkerParts<C, P>) -> Self {
        let WorkerParts { clock, handles, recorder, timeline, strategies } = parts;
        let WorkerHandles { session, probe } = handles;
        let depth = spec.session.depth;
        spec.schedule.start(timeline.start);
        let strategies = strategies.wanted(&spec.generator, timeline.start);
        let only_keys = |s: &Strategies| s.only_keys(&spec.generator, timeline.start);
        let mut worker = Worker {
            slots: Slots::new(depth, spec.first_slot, probe.first_generation()),
            backlog: Backlog::new(timeline.start),
            full_batch: session.submit_batch().max(1) as usize,
            beyond_keys: strategies.as_deref().is_some_and(|s| !only_keys(s)),
            strategies,
            clock,
            probe,
            session,
            generator: spec.generator,
            schedule: spec.schedule,
            recorder,
            timeline,
            limits: spec.limits,
            payload: spec.payload,
            measured: spec.measured,
            file_size: spec.header.file_size,
            first_size: spec.header.sizes[0],
            done: Vec::with_capacity(depth as usize),
            now: timeline.start,
            round_end: Stamp(0),
            ending: Ending {
                stopping: false,
                drain_until: Stamp::NEVER,
                reached_end: false,
                reached_limit: false,
                synced: false,
                failures: 0,
            },
        };
        if spec.kinds.iter().any(|kind| kind.writes()) {
            worker.prepare_buffers();
        }
        worker
    }

    /// Ends submitting now: what is in flight is still awaited and recorded.
    pub fn stop(&mut self) {
        if !self.ending.stopping {
            self.ending.stopping = true;
            self.ending.drain_until = self.clock.now().plus(self.limits.drain_timeout_ns);
        }
    }

    /// As [`Self::stop`], for somebody who waits for the run's end: no I/O is awaited for longer than
    /// [`ASKED_DRAIN_NS`] from the first call on, also in a drain that is under way.
    pub fn stop_soon(&mut self) {
        self.stop();
        self.no_end_syncs();
        let soon = self.clock.now().plus(ASKED_DRAIN_NS);
        self.ending.drain_until = self.ending.drain_until.min(soon);
    }

    fn stop_at_limit(&mut self) {
        self.ending.reached_limit = true;
        self.stop();
    }

    fn stop_at_end(&mut self) {
        self.ending.reached_end = true;
        self.stop();
    }

    /// Whether its operations count, or are load only.
    pub fn measured(&self) -> bool {
        self.measured
    }

    /// Submits everything that is due and fits.
    #[inline]
    pub fn fill(&mut self) -> Result<WorkerWait> {
        if self.now >= self.timeline.end {
            self.end_reached();
        }
        // A driver that completes inside `submit` would stay here; the caller wants a look at its
        // stop flag now and then. After a whole round there is more to do at once.
        let mut wake = self.now;
        self.round_end = self.now.plus(ROUND_NS).min(self.recorder.boundary());
        if self.strategies.is_some() {
            self.before_submits()?;
        }
        for _ in 0..ROUND {
            let Some(&slot) = self.slots.free.last().filter(|_| !self.ending.stopping) else {
                wake = self.recorder.boundary();
                break;
            };
            if self.beyond_keys && self.held(&mut wake) {
                break;
            }
            if self.limits.reached() {
                self.stop_at_limit();
                break;
            }
            let intended = self.schedule.peek();
            if let Some(at) = intended {
                if at >= self.timeline.end {
                    // Recorded times may be used up long before the end.
                    match at == Stamp::NEVER {
                        true => self.stop_at_limit(),
                        false => self.stop_at_end(),
                    }
                    break;
                }
                if at > self.now {
                    self.now = self.clock.now();
                    if at > self.now {
                        wake = self.recorder.boundary().min(at);
                        break;
                    }
                }
            }
            if self.beyond_keys && !self.may_draw(&mut wake) {
                break;
            }
            if !self.submit(slot, intended)? {
                break;
            }
            // An operation starts when it can go: one made before others were handed over would
            // only wait for them.
            if self.slots.batch.len() >= self.full_batch {
                self.issue()?;
            }
        }
        if !self.slots.batch.is_empty() {
            self.issue()?;
        }
        if self.ending.stopping && self.strategies.is_some() {
            self.sync_at_end()?;
        }
        Ok(self.wait_until(wake))
    }

    /// What there is to wait for after a round of submits: `wake`, or earlier.
    #[inline]
    fn wait_until(&mut self, mut wake: Stamp) -> WorkerWait {
        if self.ending.stopping {
            let over = self.slots.idle() && !self.syncs_left();
            if over || self.now >= self.ending.drain_until {
                return WorkerWait::Finished;
            }
            wake = wake.min(self.ending.drain_until);
        } else if self.now < self.timeline.end {
            wake = wake.min(self.timeline.end);
        } else {
            wake = wake.min(self.timeline.end.plus(self.limits.late_ns));
        }
        if self.strategies.is_some() {
            self.report_idle();
        }
        WorkerWait::Until { until: wake, in_flight: self.slots.in_flight() }
    }

    /// Past the end: a closed loop stops, a schedule may still issue what was due before it.
    #[cold]
    fn end_reached(&mut self) {
        if self.backlog.left_at_end.is_none() {
            self.backlog.left_at_end = Some(self.schedule.due(self.timeline.end));
        }
        let due = self.schedule.peek().is_some_and(|at| at < self.timeline.end);
        if !due || self.now >= self.timeline.end.plus(self.limits.late_ns) {
            self.stop_at_end();
        }
    }

    /// Submits one operation in `slot`, waiting for completions while the session is full; false when nothing more is
    /// to be submitted in this round.
    #[inline]
    fn submit(&mut self, slot: u32, intended: Option<Stamp>) -> Result<bool> {
        let mut op = self.generator.next();
        if self.beyond_keys && !self.adapt(slot, &mut op)? {
            return Ok(false);
        }
        if op.kind.writes() {
            self.fill_buffer(slot, &op);
        }
        let token = self.slots.next_token(slot);
        let submit = self.clock.now();
        self.now = submit;
        let end = match intended {
            None => self.timeline.end,
            Some(_) => self.timeline.end.plus(self.limits.late_ns),
        };
        if submit >= end {
            self.stop_at_end();
            self.drop_payload(&op);
            return Ok(false);
        }
        match self.beyond_keys && self.probe.watches() {
            true => {
                let traced = self.traced(slot, &op);
                self.probe.begin(token.slot(), token, submit, &traced);
            }
            false => self.probe.begin(token.slot(), token, submit, &op),
        }
        // Field by field, and answers are looked at in place: whole copies of freshly written
        // structs stall the CPU's store forwarding, which cost a tenth of the loop.
        let flight = &mut self.slots.flights[slot as usize];
        flight.op = op;
        flight.intended = intended;
        flight.submit = submit;
        flight.issued = submit;
        flight.token = token;
        if let Some(stream) = self.strategies.as_ref().and_then(|s| s.stream.as_ref()) {
            stream.stamp(slot, submit, self.session.buffer(slot));
        }
        let answer = match op.count {
            0 | 1 => self.session.submit(&flight.op, slot, token),
            _ => self.submit_batch(slot, token),
        };
        self.accept(slot, submit, &answer)?;
        match answer {
            Ok(Submitted::Queued) => Ok(true),
            Ok(Submitted::Done(_)) => Ok(self.now < self.round_end),
            Ok(Submitted::Full) => self.retry_full(slot),
            Err(e) => Err(e),
        }
    }

    /// Hands over the operation in `slot`, one that may cover several records.
    #[inline(never)]
    fn submit_batch(&mut self, slot: u32, token: Token) -> Result<Submitted> {
        let op = &self.slots.flights[slot as usize].op;
        let keys = self.strategies.as_ref().and_then(|s| s.keys.as_ref());
        match keys.map_or(&[][..], |k| k.keys_of(slot, op)) {
            [] => self.session.submit(op, slot, token),
            keys => self.session.submit_many(op, keys, slot, token),
        }
    }

    /// Takes note of an accepted operation; records it when it is done already.
    #[inline(always)]
    fn accept(&mut self, slot: u32, submit: Stamp, answer: &Result<Submitted>) -> Result<()> {
        let done = match answer {
            Ok(Submitted::Done(completion)) => Some(completion),
            Ok(Submitted::Queued) => None,
            _ => return Ok(()),
        };
        if done.is_some() {
            self.now = self.clock.now();
            self.fetch_next();
        }
        self.slots.free.pop();
        self.schedule.advance();
        if submit >= self.timeline.counted {
            let op = &self.slots.flights[slot as usize].op;
            self.limits.count(op.bytes());
        }
        match done {
            Some(completion) => {
                self.tick();
                self.complete(completion)
            }
            None => {
                self.slots.batch.push(slot);
                Ok(())
            }
        }
    }

    /// Asks the CPU for what the record of an operation on a key and the next operation take, all at once: performed
    /// inside `submit`, it has swept the caches, and what lies in several places would be waited for one by one.
    #[inline(always)]
    fn fetch_next(&self) {
        let Some(strategies) = &self.strategies else { return };
        sys::fetch(&**strategies);
        if let Some(keys) = &strategies.keys {
            sys::fetch(&**keys);
        }
        self.generator.fetch();
        self.payload.fetch();
    }

    /// The session was full: wait for completions, then submit the same operation again, with its
    /// first submit stamp, so that the wait stays in its latency.
    #[cold]
    fn retry_full(&mut self, slot: u32) -> Result<bool> {
        let never = || Error::internal("the driver answered Full with nothing in flight");
        if self.slots.idle() {
            return Err(never());
        }
        let flight = self.slots.flights[slot as usize];
        if !self.slots.batch.is_empty() {
            self.issue()?;
        }
        loop {
            // Out of the free list while others complete, so that it is on top again afterwards;
            // idle, so that the operation does not count as in flight.
            self.slots.flights[slot as usize].token = IDLE;
            self.slots.free.retain(|s| *s != slot);
            let last = self.timeline.end.plus(self.limits.late_ns);
            self.reap(1, self.recorder.boundary().min(last))?;
            self.slots.free.push(slot);
            if self.now >= last {
                // Never accepted, so never started: the schedule still has it.
                self.drop_payload(&flight.op);
                return Ok(false);
            }
            self.slots.flights[slot as usize] = flight;
            let answer = self.submit_batch(slot, flight.token);
            self.accept(slot, flight.submit, &answer)?;
            match answer? {
                Submitted::Full if !self.slots.idle() => {}
                Submitted::Full => return Err(never()),
                _ => return Ok(true),
            }
        }
    }

    /// Hands the batch to the kernel or server, and stamps it.
    #[inline]
    fn issue(&mut self) -> Result<()> {
        self.session.flush()?;
        let issued = self.clock.now();
        self.now = issued;
        for slot in &self.slots.batch {
            self.slots.flights[*slot as usize].issued = issued;
        }
        self.slots.batch.clear();
        Ok(())
    }

    /// Polls for at least `min` completions until `until`, stamps once, records all.
    #[inline]
    pub fn reap(&mut self, min: u32, until: Stamp) -> Result<()> {
        let before = self.slots.in_flight();
        let mut done = std::mem::take(&mut self.done);
        let polled =
            if before > 0 { self.session.poll(min, Some(until), &mut done) } else { Ok(()) };
        self.now = self.clock.now();
        self.tick();
        let mut result = polled;
        // In place: copies of what was just written stall the CPU's store forwarding.
        for completion in &done {
            if let Err(e) = self.complete(completion) {
                result = result.and(Err(e));
            }
        }
        done.clear();
        self.done = done;
        result
    }

    #[inline(always)]
    fn tick(&mut self) {
        self.clock.discipline(self.now);
        let (schedule, slots, strategies) = (&mut self.schedule, &self.slots, &self.strategies);
        let (end, now) = (self.timeline.end, self.now);
        self.backlog.check(schedule, now.min(end));
        self.recorder.advance(now, |submits| {
            strategies::submits(slots, strategies.as_deref(), submits);
            schedule.due(now.min(end))
        });
    }

    /// Takes a completion: what keys, streams and verification say of it, then its record.
    #[inline(always)]
    fn complete(&mut self, c: &Completion) -> Result<()> {
        let slot = self.slots.find(c.token)?;
        if self.strategies.is_some() {
            return match self.beyond_keys || !c.status.is_ok() {
                true => self.complete_with_strategies(slot, c),
                false => self.complete_key(slot, c),
            };
        }
        let moved_all = c.moved == self.slots.flights[slot as usize].op.size;
        let status = whole_or_short(c.status, moved_all);
        let end = OperationEnd {
            status,
            origin: None,
            short: status.is_ok() && c.first.is_none(),
            later: false,
        };
        // First: the other order took 3 % more CPU at a depth of 32 on `null`.
        self.slots.release(slot);
        self.record(slot, c, end);
        Ok(())
    }

    /// Records how the operation in `slot` ended. Its size is what the flight says by now.
    #[inline(always)]
    fn record(&mut self, slot: u32, c: &Completion, end: OperationEnd) {
        let OperationEnd { status, origin, .. } = end;
        let flight = &self.slots.flights[slot as usize];
        let (op, submit) = (&flight.op, flight.submit.0);
        let service = (self.now.0 - submit).max(0) as u64;
        self.probe.end(c.token.slot(), c.token, service);
        let (now, queued) = (self.now, self.slots.queued);
        if !end.short {
            let whole = Record { origin, ..record_of(flight, c, status, now, queued) };
            self.record_whole(&whole);
            return;
        }
        self.ending.failures = 0;
        let short = ShortRecord {
            op: op.kind,
            global: u64::from(op.target) * self.file_size + op.offset,
            size: if op.kind.sized() { op.size } else { self.first_size },
            intended: flight.intended.map_or(submit, |at| at.0),
            submit,
            issued: if queued { flight.issued.0 } else { submit },
            complete: now.0,
            sync_ns: c.sync_ns,
            key: op.key,
        };
        if end.later && op.kind.sized() {
            self.recorder.record_deferred(&short);
            return;
        }
        self.recorder.success(&short, op.size, || record_of(flight, c, status, now, queued));
    }

    /// Records a failure, or a success with more to say than a short record holds.
    #[cold]
    fn record_whole(&mut self, record: &Record) {
        // A key that is not there, data that is not what was written and a conflict are answers of a target
        // that works; one that only fails is gone.
        let answers = [Status::OK, Status::NOT_FOUND, Status::VERIFY, Status::CONFLICT];
        self.ending.failures = match answers.contains(&record.status) {
            true => 0,
            false => self.ending.failures + 1,
        };
        if self.ending.failures >= MAX_CONSECUTIVE_ERRORS {
            self.stop();
        }
        self.recorder.record(record);
    }

    /// Records what is still in flight as unfinished, gives the session up, and reports.
    pub fn finish(mut self) -> WorkerEnd {
        let late: Vec<u32> = self.slots.taken().collect();
        late.iter().for_each(|slot| self.record_unfinished(*slot));
        if !late.is_empty() {
            self.session.abandon();
        }
        let (misses, stream) = self.strategies.map_or((0, None), |s| s.finish());
        let unsent = match self.ending.reached_limit {
            true => 0,
            false => self.schedule.due(self.now.min(self.timeline.end)),
        };
        let finished = match self.ending.reached_end {
            true => self.now.max(self.timeline.end),
            false => self.now,
        };
        WorkerEnd {
            capture: self.recorder.finish(finished, unsent),
            unsent,
            unfinished: late.len() as u64,
            backlog_max: self.backlog.max.max(unsent),
            misses,
            stream,
            left_at_end: self.backlog.left_at_end.unwrap_or(unsent),
            measured: self.measured,
            end: self.timeline.end,
            finished: self.now,
            reached_end: self.ending.reached_end,
            synced: self.ending.synced,
            target_lost: self.ending.failures >= MAX_CONSECUTIVE_ERRORS,
            drift: self.clock.drift(),
        }
    }
}
