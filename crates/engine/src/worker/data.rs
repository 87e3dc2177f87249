//! What a worker's buffers carry: payload before a write, verification after a read.

use taillight_core::probe::Probe;
use taillight_core::{Op, OpKind, Status};
use taillight_driver::Completion;

use super::Worker;
use crate::clock::DisciplinedClock;

/// Whether the operation leaves data of its own behind.
#[inline]
fn carries(kind: OpKind) -> bool {
    kind.writes() && !matches!(kind, OpKind::Trim | OpKind::Delete)
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Fills every buffer once, so that a cheap payload only has to change a little of it.
    pub(super) fn prepare_buffers(&mut self) {
        for slot in 0..self.slots.len() as u32 {
            self.payload.prepare(self.session.buffer(slot));
        }
    }

    /// Puts the payload of a write into its buffer.
    #[inline]
    pub(super) fn fill_buffer(&mut self, slot: u32, op: &Op) {
        self.fill_payload(slot, op);
        if let Some(keyed) = self.keyed.as_mut().filter(|k| k.encodes()) {
            let sizes = self.generator.field_sizes();
            keyed.encode(op, self.session.buffer(slot), sizes);
        }
    }

    /// Puts the payload of a write into its buffer, without names of fields.
    #[inline]
    pub(super) fn fill_payload(&mut self, slot: u32, op: &Op) {
        if let Some(checker) = &mut self.checker {
            checker.on_write(op, self.session.buffer(slot));
            return;
        }
        if carries(op.kind) {
            let buffer = self.session.buffer(slot);
            let size = buffer.len().min(op.size as usize);
            if op.count <= 1 {
                self.payload.fill(&mut buffer[..size]);
                return;
            }
            // Each record of a batch is a block of its own.
            let records = buffer.chunks_exact_mut(size.max(1));
            records
                .take(op.count as usize)
                .for_each(|record| self.payload.fill(record));
        }
    }

    /// Notes what a read may see. Only with a checker.
    #[cold]
    #[inline(never)]
    pub(super) fn expect(&mut self, slot: u32, op: &Op) {
        if let Some(checker) = self.checker.as_mut().filter(|c| c.inline())
            && matches!(op.kind, OpKind::Read | OpKind::Get)
        {
            checker.on_read(slot, op);
        }
    }

    /// A write that was filled and never accepted.
    #[cold]
    pub(super) fn drop_payload(&mut self, op: &Op) {
        if let Some(checker) = self.checker.as_mut().filter(|_| op.kind.writes()) {
            checker.on_write_dropped(op);
        }
    }

    /// Judges what came back: the completion, or the same with a verification error. Only with a
    /// checker, whose work dwarfs the call.
    #[inline(never)]
    pub(super) fn check(&mut self, slot: u32, c: &Completion) -> Completion {
        let op = self.slots[slot as usize].op;
        let Some(checker) = &mut self.checker else {
            return *c;
        };
        if op.kind.writes() {
            checker.on_write_done(&op, c.status.is_ok() && c.moved == op.size);
            return *c;
        }
        let whole = match op.kind {
            OpKind::Read => c.moved == op.size,
            OpKind::Get => true,
            _ => false,
        };
        let missing = c.status == Status::NOT_FOUND && op.kind == OpKind::Get;
        if checker.inline() && missing && !checker.on_missing(slot, &op, self.now) {
            return Completion {
                status: Status::VERIFY,
                ..*c
            };
        }
        if !checker.inline() || !whole || !c.status.is_ok() {
            return *c;
        }
        let read = Op {
            size: c.moved,
            ..op
        };
        let buffer = self.session.buffer(slot);
        let size = buffer.len().min(read.size as usize);
        match checker.on_read_done(slot, &read, &buffer[..size], self.now) {
            true => *c,
            false => Completion {
                status: Status::VERIFY,
                ..*c
            },
        }
    }
}
