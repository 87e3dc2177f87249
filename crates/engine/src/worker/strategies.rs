//! What only some plans ask of a worker: keys, a stream, verification, think time, shares by weight, an
//! idle time-out, drops of cached data, syncs in the end, times inside operations.
//!
//! The plain loop has no [`Strategies`]; the others are called from it before a round of submits,
//! before a draw, after it, at a completion, before waiting, and at the end. What keys, streams and
//! checks are stands in `keyed`, `stream` and `verify`.

use taillight_core::probe::Probe;
use taillight_core::{Op, OpKind, Record, Result, Stamp, Status};
use taillight_driver::{Completion, Submitted};

use super::keyed::{ComposedOp, KeyedEnd};
use super::slots::{InFlight, Slots, record_of, unknown_token, whole_or_short};
use super::{
    CacheDrops, EndSyncs, FlowGate, KeyedWorker, OperationEnd, Pacing, StreamEnd, StreamWorker,
    Worker,
};
use crate::clock::DisciplinedClock;
use crate::generator::Generator;
use crate::idle::IdleWatch;
use crate::stream::NextBlock;
use crate::verify::Checker;

/// With operations in flight a completion wakes the worker; news of the stream waits this long, ns.
const GLANCE_NS: u64 = 100_000;

/// What a worker does beyond the plain loop.
pub struct Strategies {
    /// Only on targets addressed by key.
    pub keys: Option<Box<KeyedWorker>>,
    /// Only on a stream.
    pub stream: Option<Box<StreamWorker>>,
    /// Only when the plan verifies; it then makes the payload too.
    pub checker: Option<Box<Checker>>,
    /// What holds the worker back besides its schedule; starts with the load.
    pub pacing: Pacing,
    /// Only when workloads share operations by weight.
    pub flow: Option<FlowGate>,
    /// Told what is waited for.
    pub idle: Option<IdleWatch>,
    /// Only when the plan drops cached data while it runs.
    pub drops: Option<CacheDrops>,
    /// Only when the plan syncs in the end.
    pub end_syncs: Option<EndSyncs>,
    /// The session tells times inside its operations.
    pub inner: bool,
}

impl Strategies {
    /// These, where a worker needs any of them; `None` where the plain loop is enough.
    pub(super) fn wanted(self, generator: &Generator, start: Stamp) -> Option<Box<Strategies>> {
        let wanted = self.keys.is_some() || self.beyond(generator, start);
        wanted.then(|| Box::new(self))
    }

    /// Whether a worker needs any of them but keys.
    fn beyond(&self, generator: &Generator, start: Stamp) -> bool {
        self.stream.is_some()
            || self.checker.is_some()
            || self.flow.is_some()
            || self.idle.is_some()
            || self.drops.is_some()
            || self.end_syncs.is_some()
            || self.inner
            || generator.ends()
            || self.pacing.matters(start)
    }

    /// Whether keys are all there is, and each operation is one by itself on whole values: then nothing is asked between
    /// draw and submit, and a success is taken by [`Worker::complete_key`].
    pub(super) fn only_keys(&self, generator: &Generator, start: Stamp) -> bool {
        !self.beyond(generator, start) && self.keys.as_ref().is_some_and(|keys| keys.is_plain())
    }

    /// The worker has ended: tells the others. Returns how many operations were misses, and what it
    /// did on a stream.
    pub fn finish(self) -> (u64, Option<StreamEnd>) {
        let stream = self.stream.as_ref().and_then(|stream| stream.leave());
        if let Some(checker) = self.checker {
            checker.finish();
        }
        (self.keys.map_or(0, |keys| keys.misses), stream)
    }
}

/// When each operation in flight was submitted: one of several parts with its first.
#[cold]
pub(super) fn submits(slots: &Slots, strategies: Option<&Strategies>, submits: &mut Vec<Stamp>) {
    let keys = strategies.and_then(|s| s.keys.as_ref());
    submits.extend(slots.taken().map(|slot| {
        let flight = &slots.flights[slot as usize];
        let whole = keys.and_then(|keys| keys.composed(slot)).filter(ComposedOp::has_begun);
        whole.map_or(flight.submit, |whole| whole.flight.submit)
    }));
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Before a round of submits: what has begun goes on first.
    pub(super) fn before_submits(&mut self) -> Result<()> {
        self.submit_parts()?;
        // Before the stream is looked at anew: who waits for it goes on waiting from round to round.
        self.report_idle();
        if let Some(stream) = self.strategies.as_mut().and_then(|s| s.stream.as_mut()) {
            stream.waiting = false;
        }
        Ok(())
    }

    /// Whether it may not start anything yet; then `wake` is when it may.
    #[inline]
    pub(super) fn held(&mut self, wake: &mut Stamp) -> bool {
        let hold = self.strategies.as_ref().map_or(Stamp(0), |s| s.pacing.hold);
        if hold <= self.now {
            return false;
        }
        self.now = self.clock.now();
        if hold <= self.now {
            return false;
        }
        *wake = self.recorder.boundary().min(hold);
        true
    }

    /// Whether there is something to draw now; if not, sets when to look again.
    #[inline]
    pub(super) fn may_draw(&mut self, wake: &mut Stamp) -> bool {
        if let Some(bytes) = self.limits.bytes {
            self.generator.limit_bytes(bytes);
        }
        if let Some(strategies) = &mut self.strategies
            && let Some(Err(wait_ns)) = strategies.flow.as_mut().map(FlowGate::take)
        {
            let hold = self.clock.now().plus(wait_ns);
            strategies.pacing.hold = hold;
            *wake = self.recorder.boundary().min(hold);
            return false;
        }
        let stream = self.strategies.as_mut().and_then(|s| s.stream.as_mut());
        let Some(next) = stream.map(|stream| stream.claim_block()) else {
            return true;
        };
        match next {
            NextBlock::Block(_) => return true,
            NextBlock::End => self.stop_at_limit(),
            NextBlock::Wait if self.slots.idle() => *wake = self.recorder.boundary(),
            NextBlock::Wait => {
                *wake = self.clock.now().plus(GLANCE_NS).min(self.recorder.boundary());
            }
        }
        false
    }

    /// Makes the drawn operation what keys, streams and verification need; false at the end of the
    /// worker's part of the data. Errors: `Target` when cached data cannot be dropped.
    #[inline]
    pub(super) fn adapt(&mut self, slot: u32, op: &mut Op) -> Result<bool> {
        let Some(strategies) = &mut self.strategies else {
            return Ok(true);
        };
        if let Some(keys) = &mut strategies.keys {
            keys.first(slot, op, self.generator.field_sizes());
            if op.count > 1 {
                keys.keep_keys(slot, op, self.generator.batch_keys());
            }
        }
        if self.generator.ended() {
            self.stop_at_limit();
            return Ok(false);
        }
        if let Some(drops) = &mut strategies.drops
            && drops.due(self.generator.walked(), op.size)
        {
            for part in self.generator.parts() {
                self.session.drop_cached(part.file, part.offset, part.bytes)?;
            }
        }
        if let Some(stream) = &mut strategies.stream {
            stream.assign_block(slot, op);
        }
        if let Some(checker) = strategies.checker.as_mut().filter(|c| c.inline())
            && matches!(op.kind.as_record(), OpKind::Read | OpKind::Get)
        {
            checker.on_read(slot, op);
        }
        Ok(true)
    }

    /// A completion of a worker with strategies: they say what it comes to, then it is recorded.
    pub(super) fn complete_with_strategies(&mut self, slot: u32, c: &Completion) -> Result<()> {
        if c.inner {
            self.record_inner(slot);
        }
        let Some(strategies) = &mut self.strategies else {
            return Err(unknown_token());
        };
        strategies.pacing.completed(self.now);
        if let Some(syncs) = &mut strategies.end_syncs {
            syncs.completed(&self.slots.flights[slot as usize]);
        }
        let op = &mut self.slots.flights[slot as usize].op;
        let session = &mut *self.session;
        let mut end = OperationEnd {
            status: c.status,
            origin: None,
            short: c.first.is_none() && c.count == 0 && c.retries == 0,
            later: strategies.keys.is_some() && !self.slots.queued,
        };
        if let Some(stream) = &mut strategies.stream {
            (end.status, end.origin) = stream.judge(slot, c.status, session);
        }
        if let Some(checker) = &mut strategies.checker {
            end.status = checker.on_complete(slot, op, end.status, c.moved, session, self.now);
        }
        let keyed = strategies.keys.as_mut().map(|keys| {
            if !op.kind.writes() {
                // Before a read is back, nobody knows its bytes.
                self.limits.count_bytes(c.moved);
            }
            keys.complete(slot, op, end.status, c, session)
        });
        end.short &= end.origin.is_none();
        match keyed {
            None => {
                end.set_status(whole_or_short(end.status, c.moved == op.size));
                self.slots.release(slot);
                self.record(slot, c, end);
            }
            Some(KeyedEnd::Single(status)) => {
                end.set_status(status);
                self.slots.release(slot);
                self.record(slot, c, end);
            }
            Some(KeyedEnd::Composed(status, whole)) => {
                end.set_status(status);
                self.complete_part(slot, c, end, whole);
            }
            Some(KeyedEnd::Missed(whole)) => self.complete_missed(slot, c, whole),
        }
        if let Some(stream) = self.strategies.as_mut().and_then(|s| s.stream.as_mut()) {
            stream.block_done(slot);
        }
        Ok(())
    }

    /// A success of a worker that has only keys ([`Strategies::only_keys`]).
    #[inline(never)]
    pub(super) fn complete_key(&mut self, slot: u32, c: &Completion) -> Result<()> {
        let Some(keys) = self.strategies.as_ref().and_then(|s| s.keys.as_ref()) else {
            return Err(unknown_token());
        };
        let op = &mut self.slots.flights[slot as usize].op;
        if !op.kind.writes() {
            // Before a read is back, nobody knows its bytes.
            self.limits.count_bytes(c.moved);
        }
        let status = keys.complete_plain(op, c.moved);
        let end = OperationEnd {
            status,
            origin: None,
            short: status.is_ok() && c.first.is_none() && c.count == 0 && c.retries == 0,
            later: !self.slots.queued,
        };
        self.slots.release(slot);
        self.record(slot, c, end);
        Ok(())
    }

    /// Records the times inside the operation in `slot` that its driver tells: a row each, before its own.
    #[cold]
    fn record_inner(&mut self, slot: u32) {
        let flight = &self.slots.flights[slot as usize];
        let (recorder, now, queued) = (&mut self.recorder, self.now, self.slots.queued);
        self.session.inner(&mut |kind, from, to| {
            let submit = from.max(flight.submit).min(now);
            recorder.record(&Record {
                op: kind,
                target: flight.op.target,
                key: kind.keyed().then_some(flight.op.key),
                submit,
                issued: queued.then_some(submit),
                complete: to.min(now).max(submit),
                ..Record::default()
            });
        });
    }

    /// Records a part of an operation: the next one follows it, and after a failure or the last one comes the
    /// row over all.
    fn complete_part(
        &mut self,
        slot: u32,
        c: &Completion,
        end: OperationEnd,
        mut whole: ComposedOp,
    ) {
        let status = end.status;
        let flight = &mut self.slots.flights[slot as usize];
        let goes_on = whole.ended(flight, status);
        flight.op.kind = flight.op.kind.as_part();
        if !goes_on {
            self.slots.release(slot);
        }
        // Only wholes tell whether the target still works: a begin succeeds on a full disk, too.
        let failures = self.ending.failures;
        self.record(slot, c, end);
        self.ending.failures = failures;
        let mut next = whole.part().filter(|_| goes_on);
        if let Some(part) = next.as_mut().filter(|part| part.kind.draws_key()) {
            part.key = self.generator.another_key().unwrap_or(part.key);
        }
        if let Some(keys) = self.keys_mut() {
            keys.set_composed(slot, goes_on.then_some(whole));
            if let Some(part) = next {
                keys.part_later(slot, part);
            }
        }
        if !goes_on {
            let mut flight = whole.flight;
            flight.op.size += whole.read;
            let retries = whole.retries;
            let end = Completion { status, retries, ..Completion::ok(c.token, flight.op.size) };
            let row = record_of(&flight, &end, status, self.now, self.slots.queued);
            self.record_whole(&row);
        }
    }

    /// Records the operation in `slot` as unfinished; of one of several parts the part as well, when
    /// there is one in flight.
    #[cold]
    pub(super) fn record_unfinished(&mut self, slot: u32) {
        let flight = self.slots.flights[slot as usize];
        let keys = self.keys_mut();
        let whole = keys.and_then(|keys| Some((keys.composed(slot)?, keys.is_between(slot))));
        let part = InFlight { op: Op { kind: flight.op.kind.as_part(), ..flight.op }, ..flight };
        let rows = match whole {
            None => [Some(flight), None],
            // One part is recorded, the next was not yet taken.
            Some((whole, true)) => [None, Some(whole.flight)],
            Some((mut whole, false)) => {
                if !whole.has_begun() {
                    whole.flight.began_with(&flight);
                }
                [Some(part), Some(whole.flight)]
            }
        };
        for row in rows.iter().flatten() {
            let gone = Completion::failed(flight.token, Status::UNFINISHED);
            let queued = self.slots.queued;
            let record = record_of(row, &gone, Status::UNFINISHED, self.now, queued);
            self.recorder.record(&record);
        }
    }

    /// What is traced of `op`: a part by the name that its row has.
    #[inline]
    pub(super) fn traced(&mut self, slot: u32, op: &Op) -> Op {
        let part = self.keys_mut().is_some_and(|keys| keys.composed(slot).is_some());
        Op { kind: if part { op.kind.as_part() } else { op.kind }, ..*op }
    }

    /// Records a miss: a success that found no records, or not all of a batch. With a
    /// read-modify-write nothing is written.
    #[cold]
    fn complete_missed(&mut self, slot: u32, c: &Completion, whole: Option<ComposedOp>) {
        self.slots.release(slot);
        let mut flight = self.slots.flights[slot as usize];
        let service = self.now.since(flight.submit).max(0) as u64;
        self.probe.end(c.token.slot(), c.token, service);
        let miss = |f: &InFlight| Record {
            moved: None,
            count: Some(c.count),
            ..record_of(f, c, Status::OK, self.now, self.slots.queued)
        };
        let whole = whole.map(|mut whole| {
            if flight.op.kind == OpKind::Get {
                // Else the get went well, and the whole began with it.
                whole.flight.began_with(&flight);
            }
            whole.flight.op.size = whole.read;
            flight.op.kind = flight.op.kind.as_part();
            miss(&whole.flight)
        });
        self.record_whole(&miss(&flight));
        if let Some(whole) = whole {
            self.recorder.record(&whole);
        }
    }

    /// Submits the parts that come next. Called before new operations.
    fn submit_parts(&mut self) -> Result<()> {
        while let Some((slot, op)) = self.keys_mut().and_then(KeyedWorker::next_part) {
            self.fill_payload(slot, &op);
            let buffer = self.session.buffer(slot);
            if let Some(keys) = self.strategies.as_mut().and_then(|s| s.keys.as_mut()) {
                keys.encode_kept(slot, &op, buffer);
            }
            let token = self.slots.next_token(slot);
            let submit = self.clock.now();
            self.now = submit;
            let traced = Op { kind: op.kind.as_part(), ..op };
            self.probe.begin(token.slot(), token, submit, &traced);
            self.slots.flights[slot as usize] =
                InFlight { op, intended: None, submit, issued: submit, token };
            match self.session.submit(&op, slot, token)? {
                Submitted::Queued => self.slots.batch.push(slot),
                Submitted::Done(completion) => {
                    self.now = self.clock.now();
                    self.tick();
                    self.complete(&completion)?;
                }
                Submitted::Full => {
                    self.drop_payload(&op);
                    if let Some(keys) = self.keys_mut() {
                        keys.part_later(slot, op);
                    }
                    if !self.slots.batch.is_empty() {
                        self.issue()?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn keys_mut(&mut self) -> Option<&mut KeyedWorker> {
        self.strategies.as_mut()?.keys.as_deref_mut()
    }

    /// Sleeps until the stream moves or `until`; false when this worker does not wait for one.
    pub fn await_stream(&mut self, until: Stamp) -> bool {
        let stream = self.strategies.as_mut().and_then(|s| s.stream.as_mut());
        stream.is_some_and(|stream| stream.sleep(until))
    }

    /// Tells whether something is due or in flight: a submit may block, and a poll may wait.
    pub(super) fn report_idle(&mut self) {
        let Some(strategies) = &mut self.strategies else {
            return;
        };
        let Some(idle) = &mut strategies.idle else {
            return;
        };
        let due = self.schedule.peek().is_none_or(|at| at <= self.now);
        let waits = strategies.stream.as_ref().is_some_and(|s| s.waiting);
        let started = self.now >= strategies.pacing.hold;
        let busy = !self.slots.idle() || waits || (due && started);
        idle.tell(busy, self.now, strategies.pacing.last);
    }
}
