//! A worker's session on the store: performs each operation inside `submit`. Only gets copy what
//! they read into the buffer, and only where the spec says `keep`.

use std::sync::Arc;

use taillight_core::keys::KEY_MAX;
use taillight_core::probe::Token;
use taillight_core::{ALL_FIELDS, Op, OpKind, Result, Stamp, Status};

use super::store::OrderedMap;
use crate::contract::{Completion, Session, SessionSpec, StoreOutcome, Submitted};
use crate::kv::{fields, rules::WorkloadRules};

/// The session.
pub struct MemorySession {
    store: Arc<OrderedMap>,
    rules: WorkloadRules,
    keep: bool,
    buffer: Vec<u8>,
    key: [u8; KEY_MAX],
}

impl MemorySession {
    pub fn new(store: Arc<OrderedMap>, rules: WorkloadRules, spec: &SessionSpec) -> MemorySession {
        MemorySession {
            store,
            rules,
            keep: spec.keep,
            buffer: vec![0; spec.buffer_size as usize],
            key: [0; KEY_MAX],
        }
    }

    /// Performs `op`; `value` is what a write stores.
    #[inline]
    fn perform(&mut self, op: &Op, value: &[u8]) -> StoreOutcome {
        match op.kind {
            OpKind::Get => self.read(op),
            OpKind::Scan => self.scan(op),
            OpKind::Delete => {
                let key = self.rules.format.write(op.key, &mut self.key);
                match self.store.delete(key) {
                    true => StoreOutcome::ok(0),
                    false => StoreOutcome::status(Status::NOT_FOUND),
                }
            }
            _ => self.write(op, value),
        }
    }

    fn write(&mut self, op: &Op, value: &[u8]) -> StoreOutcome {
        let key = self.rules.format.write(op.key, &mut self.key);
        let new = op.kind != OpKind::Update;
        if new {
            self.store.put(key, value);
            return StoreOutcome::ok(op.size);
        }
        let changed = self.store.change(key, |held| {
            if op.field == ALL_FIELDS {
                held.clear();
                held.extend_from_slice(value);
                true
            } else {
                fields::replace(held, value)
            }
        });
        match changed {
            Some(true) => StoreOutcome::ok(op.size),
            Some(false) => StoreOutcome::status(Status::STORE),
            None => StoreOutcome::status(Status::NOT_FOUND),
        }
    }

    fn read(&mut self, op: &Op) -> StoreOutcome {
        let key = self.rules.format.write(op.key, &mut self.key);
        let (buffer, keep) = (&mut self.buffer, self.keep);
        let found = self.store.with_value(key, |value| {
            if keep {
                let n = value.len().min(buffer.len());
                buffer[..n].copy_from_slice(&value[..n]);
            }
            value.len() as u64
        });
        found.map_or(StoreOutcome::status(Status::NOT_FOUND), StoreOutcome::ok)
    }

    fn scan(&mut self, op: &Op) -> StoreOutcome {
        let key = self.rules.format.write(op.key, &mut self.key);
        let mut moved = 0;
        let reverse = self.rules.reverse;
        let count = self.store.scan(key, op.count, reverse, |value| moved += value.len() as u64);
        StoreOutcome { count, ..StoreOutcome::ok(moved) }
    }
}

impl Session for MemorySession {
    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }

    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        let outcome = if op.kind.writes() {
            // Out of the session for the call, which needs all of it.
            let buffer = std::mem::take(&mut self.buffer);
            let size = buffer.len().min(op.size as usize);
            let outcome = self.perform(op, &buffer[..size]);
            self.buffer = buffer;
            outcome
        } else {
            self.perform(op, &[])
        };
        Ok(Submitted::Done(outcome.completion(token)))
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
}
