//! The worker's side of operations on keys: completions, misses, read-modify-writes and batches. Only
//! moves between the worker, its [`super::KeyedWorker`] and its recorder; what keys and values are is said
//! there. Called by the worker's loop.

use taillight_core::probe::{Probe, Token};
use taillight_core::{Op, OpKind, Record, Result, Stamp, Status};
use taillight_driver::{Completion, Submitted};
use taillight_rundir::chunk::Sample;

use super::missing;
use crate::clock::DisciplinedClock;
use crate::worker::Worker;
use crate::worker::flight::{IDLE, InFlight, record, unknown_token};

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Takes a completion that [`KeyedWorker::plain`] found plain: most of them, without a copy of
    /// anything.
    #[inline]
    fn complete_single(&mut self, slot: u32, c: &Completion) -> Result<()> {
        let flight = &mut self.slots[slot as usize];
        flight.token = IDLE;
        flight.op.size = c.moved;
        if let (OpKind::Insert | OpKind::Put, Some(keyed)) = (flight.op.kind, &self.keyed) {
            keyed.space.acknowledge(flight.op.key);
        }
        self.free.push(slot);
        self.failures = 0;
        let (op, submit) = (&flight.op, flight.submit.0);
        let service = (self.now.0 - submit).max(0) as u64;
        self.probe.end(self.first_slot + slot, c.token, service);
        let sample = Sample {
            op: op.kind,
            global: 0,
            size: op.size,
            intended: flight.intended.map_or(submit, |at| at.0),
            submit,
            issued: if self.queued { flight.issued.0 } else { submit },
            complete: self.now.0,
            sync_ns: c.sync_ns,
            key: op.key,
        };
        if !self.queued {
            self.recorder.success_later(&sample);
            return Ok(());
        }
        let now = self.now;
        self.recorder
            .success(&sample, op.size, || record(flight, c, c.status, now, true));
        Ok(())
    }

    /// Takes the completion of an operation on a key.
    pub(in crate::worker) fn complete_keyed(&mut self, slot: u32, c: &Completion) -> Result<()> {
        let now = self.now;
        let queued = self.queued;
        if let Some(left) = &mut self.limits.bytes
            && !self.slots[slot as usize].op.kind.writes()
        {
            // Before a read is back, nobody knows its bytes.
            *left = left.saturating_sub(c.moved);
        }
        let Some(keyed) = self.keyed.as_mut() else {
            return Err(unknown_token());
        };
        if self.follow.is_none() && keyed.plain(slot, c, &self.slots[slot as usize].op) {
            return self.complete_single(slot, c);
        }
        let flight = self.slots[slot as usize];
        let mut op = flight.op;
        keyed.acknowledge(&op);
        if op.kind.writes() && op.count > 1 {
            // What a batch asks to be written are all of its values.
            op.size = op.bytes();
        }
        if keyed.missed(slot, &op, c) {
            return self.complete_missed(slot, c);
        }
        // What a read returns is its size; a write that moved less than asked is short.
        let reads = !op.kind.writes();
        let moved = if op.kind == OpKind::Delete {
            0
        } else {
            c.moved
        };
        let short = c.status.is_ok() && !reads && moved != op.size;
        let mut status = if short { Status::SHORT } else { c.status };
        if let Some(integrity) = &mut keyed.integrity
            && op.kind == OpKind::Get
            && status.is_ok()
        {
            let value = self.session.buffer(slot).get(..moved as usize);
            if !value.is_some_and(|value| integrity.holds(op.key, value)) {
                status = Status::VERIFY;
            }
        }
        let mut flight = InFlight { op, ..flight };
        if reads && status.is_ok() {
            flight.op.size = moved;
        }
        let composed = keyed.composed[slot as usize];
        if composed.is_some() && op.kind == OpKind::Get && status.is_ok() {
            // The slot stays taken: its update comes next.
            keyed.next.push(slot);
        } else {
            self.slots[slot as usize].token = IDLE;
            self.free.push(slot);
        }
        let service = now.since(flight.submit).max(0) as u64;
        self.probe.end(self.first_slot + slot, c.token, service);
        self.keep_keyed(&flight, c, status, now, queued);
        self.compose(slot, composed, &flight, status, now);
        self.fail_or_not(status);
        Ok(())
    }

    /// Records a miss: a success that found no records, or not all of a batch. With a
    /// read-modify-write nothing is written.
    #[cold]
    fn complete_missed(&mut self, slot: u32, c: &Completion) -> Result<()> {
        let (now, mut flight) = (self.now, self.slots[slot as usize]);
        self.slots[slot as usize].token = IDLE;
        self.free.push(slot);
        let missing = missing(&flight.op, c);
        flight.op.size = c.moved;
        let service = now.since(flight.submit).max(0) as u64;
        self.probe.end(self.first_slot + slot, c.token, service);
        let miss = |f: &InFlight, c: &Completion, queued| Record {
            moved: None,
            count: Some(c.count),
            ..record(f, c, Status::OK, now, queued)
        };
        self.recorder.record(&miss(&flight, c, self.queued));
        if let Some(keyed) = &mut self.keyed {
            keyed.misses += missing;
            if let Some(mut whole) = keyed.composed[slot as usize].take() {
                if flight.op.kind == OpKind::Get {
                    // Else the get went well, and the whole began with it.
                    (whole.submit, whole.issued, whole.intended) =
                        (flight.submit, flight.issued, flight.intended);
                }
                whole.op.size = 0;
                // As in the totals, its part stands for it.
                self.recorder.record(&miss(&whole, c, self.queued));
            }
        }
        self.fail_or_not(Status::OK);
        Ok(())
    }

    fn keep_keyed(
        &mut self,
        f: &InFlight,
        c: &Completion,
        status: Status,
        now: Stamp,
        queued: bool,
    ) {
        let plain = status.is_ok() && c.count == 0 && c.retries == 0 && c.first.is_none();
        let origin = self.follow.as_ref().and_then(|f| f.origin);
        let plain = plain && origin.is_none();
        if !plain {
            let mut whole = record(f, c, status, now, queued);
            whole.origin = origin;
            whole.moved = whole.moved.filter(|m| *m != f.op.size);
            self.recorder.record(&whole);
            return;
        }
        let (op, submit) = (&f.op, f.submit.0);
        let sample = Sample {
            op: op.kind,
            global: 0,
            size: if op.kind.sized() {
                op.size
            } else {
                self.first_size
            },
            intended: f.intended.map_or(submit, |at| at.0),
            submit,
            issued: if queued { f.issued.0 } else { submit },
            complete: now.0,
            sync_ns: c.sync_ns,
            key: op.key,
        };
        // What came before it is recorded before it.
        self.recorder.catch_up();
        self.recorder
            .success(&sample, op.size, || record(f, c, status, now, queued));
    }

    /// Follows a read-modify-write: keeps where it began, and its row when it is over.
    fn compose(
        &mut self,
        slot: u32,
        composed: Option<InFlight>,
        part: &InFlight,
        status: Status,
        now: Stamp,
    ) {
        let (Some(mut whole), Some(keyed)) = (composed, self.keyed.as_mut()) else {
            return;
        };
        if part.op.kind == OpKind::Get {
            (whole.submit, whole.issued, whole.intended) =
                (part.submit, part.issued, part.intended);
            if status.is_ok() {
                keyed.composed[slot as usize] = Some(whole);
                return;
            }
        }
        keyed.composed[slot as usize] = None;
        let end = Completion {
            status,
            ..Completion::ok(part.token, whole.op.size)
        };
        let row = record(&whole, &end, status, now, self.queued);
        self.recorder.record(&row);
    }

    /// Hands over the operation in `slot`, one that may cover several records.
    #[inline(never)]
    pub(in crate::worker) fn submit_batch(&mut self, slot: u32, token: Token) -> Result<Submitted> {
        let op = &self.slots[slot as usize].op;
        let keys = self.keyed.as_ref().map(|k| k.keys_of(slot, op));
        match keys.filter(|keys| !keys.is_empty()) {
            Some(keys) => self.session.submit_many(op, keys, slot, token),
            None => self.session.submit(op, slot, token),
        }
    }

    /// Submits the updates whose gets are back. Called before new operations.
    pub(in crate::worker) fn follow_up(&mut self) -> Result<()> {
        while let Some(slot) = self.keyed.as_mut().and_then(|k| k.next.pop()) {
            let Some(whole) = self.keyed.as_ref().and_then(|k| k.composed[slot as usize]) else {
                return Err(unknown_token());
            };
            let op = Op {
                kind: OpKind::Update,
                ..whole.op
            };
            self.fill_payload(slot, &op);
            if let Some(keyed) = &mut self.keyed {
                keyed.encode_kept(slot, &op, self.session.buffer(slot));
            }
            self.generation += 1;
            let token = Token::new(self.generation, self.first_slot + slot);
            let submit = self.clock.now();
            self.now = submit;
            self.probe.begin(self.first_slot + slot, token, submit, &op);
            self.slots[slot as usize] = InFlight {
                op,
                intended: None,
                submit,
                issued: submit,
                token,
            };
            match self.session.submit(&op, slot, token)? {
                Submitted::Queued => self.batch.push(slot),
                Submitted::Done(completion) => {
                    self.now = self.clock.now();
                    self.tick();
                    self.complete(&completion)?;
                }
                Submitted::Full => {
                    self.drop_payload(&op);
                    if let Some(keyed) = self.keyed.as_mut() {
                        keyed.next.push(slot);
                    }
                    if !self.batch.is_empty() {
                        self.issue()?;
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
