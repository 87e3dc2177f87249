//! Fills a worker's buffers before writes: with payload, with a verified block, with a value of
//! several fields. What came back is judged elsewhere (`strategies`). Called by the worker's loop.

use taillight_core::Op;
use taillight_core::probe::Probe;

use super::Worker;
use crate::clock::DisciplinedClock;

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Fills every buffer once, so that a cheap payload only has to change a little of it.
    pub(super) fn prepare_buffers(&mut self) {
        for slot in 0..self.slots.flights.len() as u32 {
            self.payload.prepare(self.session.buffer(slot));
        }
    }

    /// Puts the payload of a write into its buffer.
    #[inline]
    pub(super) fn fill_buffer(&mut self, slot: u32, op: &Op) {
        self.fill_payload(slot, op);
        if !self.beyond_keys {
            return;
        }
        let keys = self.strategies.as_mut().and_then(|s| s.keys.as_mut());
        if let Some(keys) = keys.filter(|k| k.encodes()) {
            let sizes = self.generator.field_sizes();
            keys.encode(op, self.session.buffer(slot), sizes);
        }
    }

    /// Puts the payload of a write into its buffer, without names of fields.
    #[inline]
    pub(super) fn fill_payload(&mut self, slot: u32, op: &Op) {
        if op.kind.renames() {
            return;
        }
        let checker = self.strategies.as_mut().and_then(|s| s.checker.as_mut());
        if let Some(checker) = checker {
            checker.on_write(op, self.session.buffer(slot));
            return;
        }
        if op.kind.carries() {
            let buffer = self.session.buffer(slot);
            let size = buffer.len().min(op.size as usize);
            if op.count <= 1 {
                self.payload.fill(&mut buffer[..size]);
                return;
            }
            // Each record of a batch is a block of its own.
            let records = buffer.chunks_exact_mut(size.max(1));
            records.take(op.count as usize).for_each(|record| self.payload.fill(record));
        }
    }

    /// Tells the checker that a write was filled and never accepted.
    #[cold]
    pub(super) fn drop_payload(&mut self, op: &Op) {
        let checker = self.strategies.as_mut().and_then(|s| s.checker.as_mut());
        if let Some(checker) = checker.filter(|_| op.kind.writes() && !op.kind.renames()) {
            checker.on_write_dropped(op);
        }
    }
}
