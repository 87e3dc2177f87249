//! The hot loop: one worker for every driver, real or simulated, open or closed loop.
//!
//! A state machine without threads or sleeping: [`Worker::fill`] submits whatever is due and says
//! what to wait for, [`Worker::reap`] polls, stamps once per poll, and records. `threaded` and
//! `simulate` drive it. Per operation: no allocation, no lock, no syscall beyond the I/O.

mod config;
mod data;
mod fail;
mod flight;
mod keyed;
mod pacing;
mod rounds;
mod stream;

use taillight_core::probe::{Probe, Token};
use taillight_core::{Error, Result, Stamp, Status};
use taillight_driver::{Completion, Session, Submitted};
use taillight_rundir::chunk::Sample;

pub use config::{WorkerConfig, WorkerEnd, WorkerLimits, WorkerWait};
use flight::{IDLE, InFlight, record, unknown_token};
pub use keyed::KeyedWorker;
pub use pacing::Pacing;
use rounds::Rounds;
pub use rounds::fit as rounds_fit;
pub use stream::{StreamLayout, StreamRole, StreamWorker};

use crate::clock::DisciplinedClock;
use crate::generator::Generator;
use crate::idle::IdleWatch;
use crate::payload::Filler;
use crate::recorder::{Recorder, Timeline};
use crate::schedule::Schedule;
use crate::verify::Checker;

/// Operations submitted at most before the caller gets control back.
const ROUND: u32 = 4096;
/// Longest time before the caller gets control back from operations that complete at once, ns.
const ROUND_NS: u64 = 10_000_000;
/// Failures in a row after which the target counts as gone.
const GONE_AFTER: u32 = 1000;

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
    /// Only when the plan verifies; it then makes the payload too.
    checker: Option<Box<Checker>>,
    /// Only on targets addressed by key.
    keyed: Option<Box<KeyedWorker>>,
    /// Only on a stream.
    follow: Option<Box<StreamWorker>>,
    /// Only where a store performs inside the call and nothing else is asked for.
    rounds: Option<Box<Rounds>>,
    /// Something beyond the plain loop is asked for: keys, a stream, verification, passes, think
    /// time, a late start, an idle time-out. One flag, so that the plain loop pays for one branch.
    extras: bool,
    pace: Pacing,
    idle: Option<IdleWatch>,
    measured: bool,
    first_slot: u32,
    /// Bytes in each file, for global offsets.
    file_size: u64,
    /// First of the capture's block sizes: stands for the size of an fsync.
    first_size: u64,
    queued: bool,
    slots: Vec<InFlight>,
    free: Vec<u32>,
    batch: Vec<u32>,
    /// Operations of `batch` that one flush hands over.
    full_batch: usize,
    done: Vec<Completion>,
    generation: u64,
    now: Stamp,
    stopping: bool,
    drain_until: Stamp,
    failures: u32,
    /// When the current round of submits gives control back.
    round_end: Stamp,
    /// The time is up, rather than a limit reached or a stop asked for.
    reached_end: bool,
    /// The operations or bytes of the plan are done.
    reached_limit: bool,
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// A worker ready to start at `timeline.start`.
    pub fn new(mut parts: WorkerConfig<C, P>) -> Self {
        let extras = parts.extras();
        let rounds = Rounds::of(&mut parts);
        let WorkerConfig {
            clock,
            probe,
            session,
            generator,
            mut schedule,
            recorder,
            ..
        } = parts;
        schedule.start(parts.timeline.start);
        let first_generation = probe.first_generation();
        let depth = parts.depth as usize;
        let full_batch = session.submit_batch().max(1) as usize;
        let mut worker = Worker {
            clock,
            probe,
            session,
            generator,
            schedule,
            recorder,
            full_batch,
            timeline: parts.timeline,
            limits: parts.limits,
            payload: parts.payload,
            checker: parts.checker,
            keyed: parts.keyed,
            extras,
            follow: parts.follow,
            rounds,
            pace: parts.pace,
            idle: parts.idle,
            measured: parts.measured,
            first_slot: parts.first_slot,
            file_size: parts.header.file_size,
            first_size: parts.header.sizes[0],
            queued: parts.depth > 1,
            slots: vec![InFlight::none(); depth],
            free: (0..parts.depth).rev().collect(),
            batch: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth),
            generation: first_generation,
            now: parts.timeline.start,
            stopping: false,
            drain_until: Stamp::NEVER,
            failures: 0,
            round_end: Stamp(0),
            reached_end: false,
            reached_limit: false,
        };
        if parts.writes {
            worker.prepare_buffers();
        }
        worker
    }

    fn in_flight(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Ends submitting now: what is in flight is still awaited and recorded.
    pub fn stop(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.drain_until = self.clock.now().plus(self.limits.drain_timeout_ns);
        }
    }

    /// Whether its operations count, or are load only.
    pub fn measured(&self) -> bool {
        self.measured
    }

    /// Submits everything that is due and fits.
    ///
    /// # Errors
    /// Only when the run cannot go on.
    #[inline]
    pub fn fill(&mut self) -> Result<WorkerWait> {
        if self.now >= self.timeline.end {
            self.stop_at_end();
        }
        // A driver that completes inside `submit` would stay here; the caller wants a look at its
        // stop flag now and then. After a whole round there is more to do at once.
        let mut wake = self.now;
        self.round_end = self.now.plus(ROUND_NS).min(self.recorder.boundary());
        if self.extras {
            self.begin_round()?;
        }
        for _ in 0..ROUND {
            let Some(&slot) = self.free.last().filter(|_| !self.stopping) else {
                wake = self.recorder.boundary();
                break;
            };
            if self.extras && self.held(&mut wake) {
                break;
            }
            if self.limits.operations == Some(0) || self.limits.bytes == Some(0) {
                self.reached_limit = true;
                self.stop();
                break;
            }
            match self.next_round()? {
                Some(true) => continue,
                Some(false) => break,
                None => {}
            }
            let intended = self.schedule.peek();
            if let Some(at) = intended {
                if at >= self.timeline.end {
                    // Recorded times may be used up long before the end.
                    self.reached_limit = at == Stamp::NEVER;
                    self.reached_end = !self.reached_limit;
                    self.stop();
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
            if self.extras && !self.take_turn(&mut wake) {
                break;
            }
            if !self.submit(slot, intended)? {
                break;
            }
        }
        if !self.batch.is_empty() {
            self.issue()?;
        }
        Ok(self.wait_until(wake))
    }

    /// What there is to wait for after a round of submits: `wake`, or earlier.
    #[inline]
    fn wait_until(&mut self, mut wake: Stamp) -> WorkerWait {
        if self.stopping {
            if self.free.len() == self.slots.len() || self.now >= self.drain_until {
                return WorkerWait::Finished;
            }
            wake = wake.min(self.drain_until);
        } else if self.now < self.timeline.end {
            wake = wake.min(self.timeline.end);
        } else {
            wake = wake.min(self.timeline.end.plus(self.limits.late_ns));
        }
        if self.extras {
            self.tell_idle();
        }
        WorkerWait::Until {
            until: wake,
            in_flight: self.in_flight(),
        }
    }

    /// Past the end: a closed loop stops, a schedule may still issue what was due before it.
    #[cold]
    fn stop_at_end(&mut self) {
        if self.pace.left_at_end.is_none() {
            self.pace.left_at_end = Some(self.schedule.due(self.timeline.end));
        }
        let due = self
            .schedule
            .peek()
            .is_some_and(|at| at < self.timeline.end);
        if !due || self.now >= self.timeline.end.plus(self.limits.late_ns) {
            self.reached_end = true;
            self.stop();
        }
    }

    /// Submits one operation in `slot`; false when the session is full or the end is reached.
    #[inline]
    fn submit(&mut self, slot: u32, intended: Option<Stamp>) -> Result<bool> {
        if self.extras
            && let Some(bytes) = self.limits.bytes
        {
            self.generator.leave(bytes);
        }
        let mut op = self.generator.next();
        if self.extras && !self.dress(slot, &mut op) {
            return Ok(false);
        }
        if op.kind.writes() {
            self.fill_buffer(slot, &op);
        }
        self.generation += 1;
        let token = Token::new(self.generation, self.first_slot + slot);
        let submit = self.clock.now();
        self.now = submit;
        if intended.is_none() && submit >= self.timeline.end {
            self.reached_end = true;
            self.stop();
            self.drop_payload(&op);
            return Ok(false);
        }
        if intended.is_some() && submit >= self.timeline.end.plus(self.limits.late_ns) {
            self.reached_end = true;
            self.stop();
            self.drop_payload(&op);
            return Ok(false);
        }
        self.probe.begin(self.first_slot + slot, token, submit, &op);
        // Field by field, and answers are looked at in place: whole copies of freshly written
        // structs stall the CPU's store forwarding, which cost a tenth of the loop.
        let flight = &mut self.slots[slot as usize];
        flight.op = op;
        flight.intended = intended;
        flight.submit = submit;
        flight.issued = submit;
        flight.token = token;
        if self.extras
            && let Some(follow) = &self.follow
        {
            follow.stamp(slot, submit, self.session.buffer(slot));
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
        }
        self.free.pop();
        self.schedule.advance();
        if submit >= self.timeline.measure {
            let op = &self.slots[slot as usize].op;
            self.count(op.bytes());
        }
        match done {
            Some(completion) => {
                self.tick();
                self.complete(completion)
            }
            None => {
                self.batch.push(slot);
                Ok(())
            }
        }
    }

    #[inline]
    fn count(&mut self, bytes: u64) {
        if let Some(left) = &mut self.limits.operations {
            *left = left.saturating_sub(1);
        }
        if let Some(left) = &mut self.limits.bytes {
            *left = left.saturating_sub(bytes);
        }
    }

    /// The session was full: wait for completions, then submit the same operation again, with its
    /// first submit stamp, so that the wait stays in its latency.
    #[cold]
    fn retry_full(&mut self, slot: u32) -> Result<bool> {
        if self.free.len() == self.slots.len() {
            return Err(Error::internal(
                "the driver answered Full with nothing in flight",
            ));
        }
        let flight = self.slots[slot as usize];
        if !self.batch.is_empty() {
            self.issue()?;
        }
        loop {
            // Out of the free list while others complete, so that it is on top again afterwards;
            // idle, so that the operation does not count as in flight.
            self.slots[slot as usize].token = IDLE;
            self.free.retain(|s| *s != slot);
            let last = self.timeline.end.plus(self.limits.late_ns);
            self.reap(1, self.recorder.boundary().min(last))?;
            self.free.push(slot);
            if self.now >= last {
                // Never accepted, so never started: the schedule still has it.
                self.drop_payload(&flight.op);
                return Ok(false);
            }
            self.slots[slot as usize] = flight;
            let answer = self.submit_batch(slot, flight.token);
            self.accept(slot, flight.submit, &answer)?;
            match answer? {
                Submitted::Full if self.free.len() < self.slots.len() => {}
                Submitted::Full => {
                    return Err(Error::internal(
                        "the driver answered Full with nothing in flight",
                    ));
                }
                _ => return Ok(true),
            }
        }
    }

    /// Hands the batch to the kernel or server, in as many parts as the session wants, and stamps
    /// each. Waiting for earlier parts is time in our own queue: all have their submit stamps.
    #[inline]
    fn issue(&mut self) -> Result<()> {
        for part in self.batch.chunks(self.full_batch) {
            self.session.flush()?;
            let issued = self.clock.now();
            self.now = issued;
            for slot in part {
                self.slots[*slot as usize].issued = issued;
            }
        }
        self.batch.clear();
        Ok(())
    }

    /// Polls for at least `min` completions until `until`, stamps once, records all.
    ///
    /// # Errors
    /// Only when the run cannot go on.
    #[inline]
    pub fn reap(&mut self, min: u32, until: Stamp) -> Result<()> {
        let before = self.in_flight();
        let mut done = std::mem::take(&mut self.done);
        let polled = if before > 0 {
            self.session.poll(min, Some(until), &mut done)
        } else {
            Ok(())
        };
        self.now = self.clock.now();
        self.tick();
        let mut result = polled;
        for completion in done.drain(..) {
            result = result.and(self.complete(&completion));
        }
        self.done = done;
        result
    }

    #[inline(always)]
    fn tick(&mut self) {
        self.clock.keep(self.now);
        let in_flight = self.in_flight();
        let schedule = &mut self.schedule;
        let (end, now) = (self.timeline.end, self.now);
        self.pace.look(schedule, now.min(end));
        self.recorder
            .tick(now, in_flight, || schedule.due(now.min(end)));
    }

    #[inline(always)]
    fn complete(&mut self, c: &Completion) -> Result<()> {
        if self.extras {
            return self.complete_extra(c);
        }
        self.complete_plain(c)
    }

    /// A completion that nothing but the recorder asks about.
    #[inline(always)]
    fn complete_plain(&mut self, c: &Completion) -> Result<()> {
        let slot = c.token.slot().wrapping_sub(self.first_slot);
        let flight = match self.slots.get_mut(slot as usize) {
            Some(f) if f.token == c.token => f,
            _ => return Err(unknown_token()),
        };
        flight.token = IDLE;
        self.free.push(slot);
        let size = flight.op.size;
        let plain = c.status.is_ok() && c.moved == size && c.first.is_none();
        if !plain {
            let flight = *flight;
            self.complete_other(&flight, c);
            return Ok(());
        }
        self.failures = 0;
        let (op, submit) = (&flight.op, flight.submit.0);
        let sample = Sample {
            op: op.kind,
            global: u64::from(op.target) * self.file_size + op.offset,
            size: if op.kind.sized() {
                size
            } else {
                self.first_size
            },
            intended: flight.intended.map_or(submit, |at| at.0),
            submit,
            issued: if self.queued { flight.issued.0 } else { submit },
            complete: self.now.0,
            sync_ns: c.sync_ns,
            key: op.key,
        };
        self.probe.end(
            self.first_slot + slot,
            c.token,
            (self.now.0 - submit) as u64,
        );
        let (now, queued) = (self.now, self.queued);
        self.recorder
            .success(&sample, size, || record(flight, c, c.status, now, queued));
        Ok(())
    }

    /// Records what is still in flight as unfinished, gives the session up, and reports.
    pub fn finish(mut self) -> WorkerEnd {
        if let Some(follow) = &self.follow {
            follow.leave();
        }
        let late: Vec<InFlight> = self
            .slots
            .iter()
            .filter(|f| f.token != IDLE)
            .copied()
            .collect();
        for flight in &late {
            let gone = Completion::failed(flight.token, Status::UNFINISHED);
            let unfinished = record(flight, &gone, Status::UNFINISHED, self.now, self.queued);
            self.recorder.record(&unfinished);
        }
        if !late.is_empty() {
            self.session.abandon();
        }
        if let Some(checker) = self.checker.take() {
            checker.finish();
        }
        let mut due = |until: Stamp| {
            if self.reached_limit {
                0
            } else {
                self.schedule.due(until)
            }
        };
        let unsent = due(self.now.min(self.timeline.end));
        let finished = if self.reached_end {
            self.now.max(self.timeline.end)
        } else {
            self.now
        };
        WorkerEnd {
            capture: self.recorder.finish(finished, unsent),
            unsent,
            unfinished: late.len() as u64,
            backlog_max: self.pace.backlog_max.max(unsent),
            misses: self.keyed.as_ref().map_or(0, |k| k.misses),
            left_at_end: self.pace.left_at_end.unwrap_or(unsent),
            measured: self.measured,
            finished: self.now,
            reached_end: self.reached_end,
            gone: self.failures >= GONE_AFTER,
            discipline: self.clock.discipline(),
        }
    }
}
