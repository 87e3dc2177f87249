//! Operations on keys: values of several fields, inserts acknowledged, read-modify-writes and transactions.
//!
//! An operation of several parts ([`OpKind::parts`]) is composed here: one part after the other in the same slot, one
//! row over all of them, and one row each of kinds that no total adds. The parts of a read-modify-write are a get and
//! an update of the same key, so that no driver needs to know it. What a run has deleted itself is told apart here from
//! what a store has lost ([`KeyedEnd::Missed`]).

use std::sync::Arc;

use taillight_core::plan::{Values, WorkloadPlan};
use taillight_core::{ALL_FIELDS, Op, OpKind, Result, Status};
use taillight_driver::kv::fields;
use taillight_driver::{Completion, Session};

use super::slots::{InFlight, whole_or_short};
use crate::generator::drawn;
use crate::keyspace::KeySpace;
use crate::verify::Integrity;

/// What the end of an operation on keys comes to.
pub(super) enum KeyedEnd {
    /// An operation by itself.
    Single(Status),
    /// A part of this operation.
    Composed(Status, ComposedOp),
    /// It found nothing, or not all of a batch, because this run had deleted it; with the
    /// operation it was a part of.
    Missed(Option<ComposedOp>),
}

/// An operation of several parts in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComposedOp {
    /// As it began; its stamps are known once its first part is back.
    pub flight: InFlight,
    /// Bytes that its first part brought.
    pub read: u64,
    /// Which of its parts is in flight, or comes next.
    pub nth: u8,
    /// How often it began again.
    pub retries: u16,
}

impl ComposedOp {
    /// Takes the end of its part: whether another one comes. None comes after the last part, nor after one that failed;
    /// a conflict is no such failure and has it begin again with the first.
    pub fn ended(&mut self, part: &InFlight, status: Status) -> bool {
        if !self.has_begun() {
            self.flight.began_with(part);
            self.read = part.op.size;
        }
        match status {
            Status::CONFLICT => (self.nth, self.retries) = (0, self.retries.saturating_add(1)),
            status if status.is_ok() => self.nth += 1,
            _ => return false,
        }
        self.part().is_some()
    }

    /// Whether its first part is back, so that its stamps are known.
    pub fn has_begun(&self) -> bool {
        self.nth > 0 || self.retries > 0
    }

    /// The request of its next part; none after the last one.
    pub fn part(&self) -> Option<Op> {
        let whole = &self.flight.op;
        let kind = whole.kind.parts().get(usize::from(self.nth))?.request();
        Some(Op { kind, ..*whole })
    }
}

/// What a worker on keys knows besides its operations in flight. Aligned as the generator beside which it is made.
#[repr(align(128))]
pub struct KeyedWorker {
    space: Arc<KeySpace>,
    fields: u32,
    /// Names of the fields.
    names: Vec<Box<[u8]>>,
    /// Operations of several parts in flight by slot; empty where the mix has none, so that other operations
    /// touch none of it.
    composed: Vec<Option<ComposedOp>>,
    /// Sizes of their fields: `fields` numbers a slot.
    sizes: Vec<u32>,
    /// Parts to be submitted: those before them are back.
    parts: Vec<(u32, Op)>,
    /// Key numbers of batches in flight, `batch` of them a slot; empty where the keys of batches
    /// follow each other.
    keys: Vec<u64>,
    batch: usize,
    /// Makes and checks values that follow from their keys.
    integrity: Option<Box<Integrity>>,
    /// Operations that found nothing because this run had deleted their key.
    pub(super) misses: u64,
}

impl KeyedWorker {
    /// For a workload with `depth` slots. Errors: `Usage` when its keys cannot be made.
    pub fn new(w: &WorkloadPlan, space: Arc<KeySpace>, depth: usize) -> Result<KeyedWorker> {
        let values: Values = w.value.clone().unwrap_or_default();
        let name = |n: u32| format!("{}{n}", values.prefix).into_bytes().into_boxed_slice();
        let names: Vec<_> = (0..values.fields).map(name).collect();
        let integrity = if values.integrity {
            let format = w.keys.clone().unwrap_or_default().format()?;
            let size = w.block_size.max() as usize;
            Some(Box::new(Integrity::new(format, names.clone(), size)))
        } else {
            None
        };
        Ok(KeyedWorker {
            space,
            fields: values.fields,
            names,
            composed: match w.mix.iter().any(|m| !m.op.parts().is_empty()) {
                true => vec![None; depth],
                false => Vec::new(),
            },
            sizes: vec![0; depth * values.fields as usize],
            parts: Vec::with_capacity(depth),
            keys: match w.batch > 1 && drawn(&w.access) {
                true => vec![0; depth * w.batch as usize],
                false => Vec::new(),
            },
            batch: w.batch as usize,
            integrity,
            misses: 0,
        })
    }

    /// Makes `op` what to submit first in `slot`: an operation of several parts becomes its first, which has no size;
    /// any other stays as it is. `sizes` are the bytes of its fields as they were drawn, kept for the update of a
    /// read-modify-write.
    #[inline]
    pub fn first(&mut self, slot: u32, op: &mut Op, sizes: &[u32]) {
        let Some(composed) = self.composed.get_mut(slot as usize) else {
            return;
        };
        *composed = None;
        let Some(first) = op.kind.parts().first() else {
            return;
        };
        let flight = InFlight { op: *op, ..InFlight::none() };
        *composed = Some(ComposedOp { flight, read: 0, nth: 0, retries: 0 });
        let at = slot as usize * self.fields as usize;
        if let Some(kept) = self.sizes.get_mut(at..at + sizes.len()) {
            kept.copy_from_slice(sizes);
        }
        (op.kind, op.size) = (first.request(), 0);
    }

    /// Keeps the keys that were drawn for the batch in `slot`; not of operations whose keys follow each other.
    #[inline(never)]
    pub fn keep_keys(&mut self, slot: u32, op: &Op, keys: &[u64]) {
        let at = slot as usize * self.batch;
        if let Some(kept) = self.keys.get_mut(at..at + keys.len()).filter(|_| lists(op)) {
            kept.copy_from_slice(keys);
        }
    }

    /// The keys of the batch in `slot`; empty when they follow each other from `op.key` on.
    pub fn keys_of(&self, slot: u32, op: &Op) -> &[u64] {
        let at = slot as usize * self.batch;
        let keys = self.keys.get(at..at + op.count as usize);
        keys.filter(|_| lists(op)).unwrap_or(&[])
    }

    /// Takes the end of an operation, or of a part of one, with this status, and says what it comes to: a miss, else
    /// the status, which may be worse than that of the driver (a write that moved another size, a value that is not
    /// what its key says). Inserts are acknowledged whatever their status. The size of `op` becomes what its record
    /// says: of a batch that is written all of its values, of a read what came back.
    #[inline]
    pub(super) fn complete(
        &mut self,
        slot: u32,
        op: &mut Op,
        status: Status,
        c: &Completion,
        session: &mut dyn Session,
    ) -> KeyedEnd {
        self.acknowledge(op);
        if status == Status::NOT_FOUND && self.missed(slot, op, c) {
            self.misses += missing(op, c);
            op.size = c.moved;
            let composed = self.composed(slot);
            self.set_composed(slot, None);
            return KeyedEnd::Missed(composed);
        }
        let mut status = status;
        if op.kind.writes() {
            status = written(op, status, c.moved);
        } else if status.is_ok() {
            status = self.check(slot, op, c.moved, session);
            if status.is_ok() {
                op.size = c.moved;
            }
        }
        match self.composed(slot) {
            Some(whole) => KeyedEnd::Composed(status, whole),
            None => KeyedEnd::Single(status),
        }
    }

    /// Whether values are one piece that nothing makes or checks, and each operation is one by itself, on one record or
    /// on neighbours.
    pub(super) fn is_plain(&self) -> bool {
        self.composed.is_empty() && self.batch <= 1 && !self.encodes()
    }

    /// As [`KeyedWorker::complete`], for a success that moved `moved` bytes where all [is plain](Self::is_plain).
    #[inline(always)]
    pub(super) fn complete_plain(&self, op: &mut Op, moved: u64) -> Status {
        self.acknowledge(op);
        if op.kind.writes() {
            return written(op, Status::OK, moved);
        }
        op.size = moved;
        Status::OK
    }

    /// The operation that the one in `slot` is a part of; `None` where it is one by itself.
    #[inline]
    pub(super) fn composed(&self, slot: u32) -> Option<ComposedOp> {
        self.composed.get(slot as usize).copied().flatten()
    }

    /// The status of a read that succeeded: `VERIFY` where a get brought another value than its key says. Only with
    /// `integrity` anything is compared.
    #[inline]
    fn check(&mut self, slot: u32, op: &Op, moved: u64, session: &mut dyn Session) -> Status {
        let Some(integrity) =
            self.integrity.as_mut().filter(|_| op.kind.as_record() == OpKind::Get)
        else {
            return Status::OK;
        };
        let value = session.buffer(slot).get(..moved as usize);
        match value.is_some_and(|value| integrity.holds(op.key, value)) {
            true => Status::OK,
            false => Status::VERIFY,
        }
    }

    /// Sets what is known of the operation in `slot` after one of its parts; `None` ends it.
    pub(super) fn set_composed(&mut self, slot: u32, whole: Option<ComposedOp>) {
        if let Some(composed) = self.composed.get_mut(slot as usize) {
            *composed = whole;
        }
    }

    /// Takes a part to submit, whose part before it is back; the one that was queued last comes first.
    pub(super) fn next_part(&mut self) -> Option<(u32, Op)> {
        self.parts.pop()
    }

    /// Queues a part for the next round of submits.
    pub(super) fn part_later(&mut self, slot: u32, part: Op) {
        self.parts.push((slot, part));
    }

    /// Whether the next part in `slot` is still to be submitted.
    pub(super) fn is_between(&self, slot: u32) -> bool {
        self.parts.iter().any(|(at, _)| *at == slot)
    }

    /// Whether an operation found nothing because a delete of this run has taken its key, before
    /// it or while it was in flight. That is an answer, and the right one: a miss, no failure. A
    /// delete of its own key must find it; only when all are deleted there are second deletes.
    fn missed(&self, slot: u32, op: &Op, c: &Completion) -> bool {
        self.gone(slot, op, missing(op, c))
            && (op.kind.as_record() != OpKind::Delete || self.space.used_up())
    }

    /// Whether deletes have taken at least `missing` records of an operation. They take the lowest
    /// numbers: of neighbours, the first ones may be gone.
    fn gone(&self, slot: u32, op: &Op, missing: u64) -> bool {
        let keys = self.keys_of(slot, op);
        if keys.is_empty() {
            return self.space.deleted(op.key + missing - 1);
        }
        keys.iter().filter(|key| self.space.deleted(**key)).count() as u64 >= missing
    }

    /// Notes that an insert or a put has ended, each one of a batch; other kinds are not noted.
    #[inline]
    fn acknowledge(&self, op: &Op) {
        if matches!(op.kind.as_record(), OpKind::Insert | OpKind::Put) {
            for key in op.key..op.key + u64::from(op.count.max(1)) {
                self.space.acknowledge(key);
            }
        }
    }

    /// Bytes of the fields that [`KeyedWorker::first`] has kept for `slot`.
    fn kept_sizes(&self, slot: u32) -> &[u32] {
        let (at, fields) = (slot as usize * self.fields as usize, self.fields as usize);
        self.sizes.get(at..at + fields).unwrap_or(&[])
    }

    /// Whether a value is more than its payload: it has several fields, or follows from its key.
    #[inline(always)]
    pub fn encodes(&self) -> bool {
        self.fields > 1 || self.integrity.is_some()
    }

    /// Writes lengths and names of the fields (of an update of one field, of that one) around the payload that is in
    /// `buffer` already, or with `integrity` the whole value. `sizes` are the bytes of each field as they were drawn.
    #[inline]
    pub fn encode(&mut self, op: &Op, buffer: &mut [u8], sizes: &[u32]) {
        self.encode_fields(op, buffer, sizes);
        if let Some(integrity) = &mut self.integrity {
            integrity.fill(op, buffer);
        }
    }

    /// As [`KeyedWorker::encode`], for the part that `slot` goes on with, by the sizes that were kept.
    #[inline]
    pub(super) fn encode_kept(&mut self, slot: u32, op: &Op, buffer: &mut [u8]) {
        self.encode_fields(op, buffer, self.kept_sizes(slot));
        if let Some(integrity) = &mut self.integrity {
            integrity.fill(op, buffer);
        }
    }

    /// Writes lengths and names of the fields: nothing for values of one, and no more where `buffer` ends.
    #[inline]
    fn encode_fields(&self, op: &Op, buffer: &mut [u8], sizes: &[u32]) {
        if self.fields <= 1 {
            return;
        }
        let one = [u32::from(op.field)];
        let which: &[u32] = if op.field == ALL_FIELDS { &[] } else { &one };
        let mut at = 0;
        let count = if which.is_empty() { self.fields as usize } else { 1 };
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

/// The status of a write that moved `moved` bytes: short where they are not all it asked. The size of `op` becomes that
/// of all its records; none of them has moved bytes where they were deleted.
#[inline(always)]
fn written(op: &mut Op, status: Status, moved: u64) -> Status {
    if op.count > 1 {
        op.size = op.bytes();
    }
    let moved = if op.kind.as_record() == OpKind::Delete { 0 } else { moved };
    whole_or_short(status, moved == op.size)
}

/// Whether an operation may cover records that do not follow each other.
fn lists(op: &Op) -> bool {
    op.count > 1 && matches!(op.kind, OpKind::Get | OpKind::Update)
}

/// Records that an operation did not find, at least one.
fn missing(op: &Op, c: &Completion) -> u64 {
    match op.kind {
        OpKind::Get => u64::from(op.count.saturating_sub(c.count).max(1)),
        _ => 1,
    }
}
