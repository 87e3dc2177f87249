//! Operations on keys: values of several fields, inserts acknowledged, read-modify-write.
//!
//! A read-modify-write is composed here, so that no driver needs to know it: a get, then an
//! update of the same key in the same slot, one row each, and one row over both.

use std::sync::Arc;

use taillight_core::plan::{Values, WorkloadPlan};
use taillight_core::probe::{Probe, Token};
use taillight_core::{ALL_FIELDS, Op, OpKind, Record, Result, Stamp, Status};
use taillight_driver::kv::fields;
use taillight_driver::{Completion, Submitted};
use taillight_rundir::chunk::Sample;

use super::Worker;
use super::flight::{IDLE, InFlight, record, unknown_token};
use crate::clock::Kept;
use crate::keyspace::KeySpace;
use crate::verify::Integrity;

/// What a worker on keys knows besides its operations in flight.
pub struct Keyed {
    space: Arc<KeySpace>,
    fields: u32,
    /// Names of the fields.
    names: Vec<Box<[u8]>>,
    /// Read-modify-writes in flight by slot, as they began.
    composed: Vec<Option<InFlight>>,
    /// Sizes of their fields: `fields` numbers a slot.
    sizes: Vec<u32>,
    /// Slots whose get is back and whose update is to be submitted.
    next: Vec<u32>,
    /// Makes and checks values that follow from their keys.
    integrity: Option<Box<Integrity>>,
    /// Operations that found nothing because this run had deleted their key.
    pub(super) misses: u64,
}

impl Keyed {
    /// For a workload with `depth` slots.
    ///
    /// # Errors
    /// `Usage` when its keys cannot be made.
    pub fn new(w: &WorkloadPlan, space: Arc<KeySpace>, depth: usize) -> Result<Keyed> {
        let values: Values = w.value.clone().unwrap_or_default();
        let name = |n: u32| {
            format!("{}{n}", values.prefix)
                .into_bytes()
                .into_boxed_slice()
        };
        let names: Vec<_> = (0..values.fields).map(name).collect();
        let integrity = if values.integrity {
            let format = w.keys.clone().unwrap_or_default().format()?;
            let size = w.block_size.max() as usize;
            Some(Box::new(Integrity::new(format, names.clone(), size)))
        } else {
            None
        };
        Ok(Keyed {
            space,
            fields: values.fields,
            names,
            composed: vec![None; depth],
            sizes: vec![0; depth * values.fields as usize],
            next: Vec::with_capacity(depth),
            integrity,
            misses: 0,
        })
    }

    /// What to submit first for `op` in `slot`: a read-modify-write begins with its get. `sizes`
    /// are the bytes of its fields as they were drawn, kept for its update.
    #[inline]
    pub fn first(&mut self, slot: u32, op: Op, sizes: &[u32]) -> Op {
        let composed = &mut self.composed[slot as usize];
        *composed = None;
        if op.kind != OpKind::Rmw {
            return op;
        }
        let at = slot as usize * self.fields as usize;
        if let Some(kept) = self.sizes.get_mut(at..at + sizes.len()) {
            kept.copy_from_slice(sizes);
        }
        *composed = Some(InFlight {
            op,
            intended: None,
            submit: Stamp(0),
            issued: Stamp(0),
            token: IDLE,
        });
        Op {
            kind: OpKind::Get,
            size: 0,
            ..op
        }
    }

    /// Whether a completion is a plain success of a get, an insert or an update by itself.
    #[inline(always)]
    fn plain(&self, slot: u32, c: &Completion, op: &Op) -> bool {
        let asked = match op.kind {
            OpKind::Get => true,
            OpKind::Insert | OpKind::Put | OpKind::Update => c.moved == op.size,
            _ => false,
        };
        asked
            && c.status.is_ok()
            && c.count == 0
            && c.retries == 0
            && c.first.is_none()
            && self.integrity.is_none()
            && self.composed[slot as usize].is_none()
    }

    /// Whether an operation found nothing because a delete of this run has taken its key, before
    /// it or while it was in flight. That is an answer, and the right one: a miss, no failure. A
    /// delete of its own key must find it; only when all are deleted there are second deletes.
    /// Deletes take the lowest numbers: of a batch, the first ones may be gone.
    fn missed(&self, op: &Op, c: &Completion) -> bool {
        c.status == Status::NOT_FOUND
            && self.space.deleted(op.key + missing(op, c) - 1)
            && (op.kind != OpKind::Delete || self.space.used_up())
    }

    /// Takes note that an insert has ended, of a batch each.
    #[inline]
    fn acknowledge(&self, op: &Op) {
        if matches!(op.kind, OpKind::Insert | OpKind::Put) {
            for key in op.key..op.key + u64::from(op.count.max(1)) {
                self.space.acknowledge(key);
            }
        }
    }

    fn kept_sizes(&self, slot: u32) -> &[u32] {
        let (at, fields) = (slot as usize * self.fields as usize, self.fields as usize);
        self.sizes.get(at..at + fields).unwrap_or(&[])
    }

    /// Whether a value is more than its payload.
    #[inline(always)]
    pub fn encodes(&self) -> bool {
        self.fields > 1 || self.integrity.is_some()
    }

    /// Writes lengths and names of the fields around the payload that is in `buffer` already, or
    /// with `integrity` the whole value. `sizes` are the bytes of each field as they were drawn.
    #[inline]
    pub fn encode(&mut self, op: &Op, buffer: &mut [u8], sizes: &[u32]) {
        self.encode_fields(op, buffer, sizes);
        if let Some(integrity) = &mut self.integrity {
            integrity.fill(op, buffer);
        }
    }

    /// As [`Keyed::encode`], for the update that `slot` goes on with.
    #[inline]
    fn encode_kept(&mut self, slot: u32, op: &Op, buffer: &mut [u8]) {
        self.encode_fields(op, buffer, self.kept_sizes(slot));
        if let Some(integrity) = &mut self.integrity {
            integrity.fill(op, buffer);
        }
    }

    #[inline]
    fn encode_fields(&self, op: &Op, buffer: &mut [u8], sizes: &[u32]) {
        if self.fields <= 1 {
            return;
        }
        let one = [u32::from(op.field)];
        let which: &[u32] = if op.field == ALL_FIELDS { &[] } else { &one };
        let mut at = 0;
        let count = if which.is_empty() {
            self.fields as usize
        } else {
            1
        };
        for i in 0..count {
            let field = which.first().map_or(i, |f| *f as usize);
            let (Some(name), Some(size)) = (self.names.get(field), sizes.get(i)) else {
                return;
            };
            let Some(rest) = buffer.get_mut(at..) else {
                return;
            };
            match fields::write(rest, name, *size as usize) {
                Some(bytes) => at += bytes,
                None => return,
            }
        }
    }
}

/// Records that an operation did not find, at least one.
fn missing(op: &Op, c: &Completion) -> u64 {
    match op.kind {
        OpKind::Get => u64::from(op.count.saturating_sub(c.count).max(1)),
        _ => 1,
    }
}

impl<C: Kept, P: Probe> Worker<C, P> {
    /// Takes a completion that [`Keyed::plain`] found plain: most of them, without a copy of
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
    pub(super) fn complete_keyed(&mut self, slot: u32, c: &Completion) -> Result<()> {
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
            op.size *= u64::from(op.count);
        }
        if keyed.missed(&op, c) {
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

    /// Submits the updates whose gets are back. Called before new operations.
    pub(super) fn follow_up(&mut self) -> Result<()> {
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
