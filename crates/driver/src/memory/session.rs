//! One worker's handle on the store.

use std::sync::Arc;

use taillight_core::keys::{KEY_MAX, KeyFormat};
use taillight_core::plan::WorkloadPlan;
use taillight_core::probe::Token;
use taillight_core::{ALL_FIELDS, Op, OpKind, Result, Stamp, Status};

use super::store::Store;
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use crate::kv::fields;

/// How a workload names keys and scans.
#[derive(Clone)]
pub struct Shape {
    format: KeyFormat,
    reverse: bool,
}

impl Shape {
    /// Of a workload.
    ///
    /// # Errors
    /// `Usage` when its keys cannot be made.
    pub fn of(w: &WorkloadPlan) -> Result<Shape> {
        Ok(Shape {
            format: w.keys.clone().unwrap_or_default().format()?,
            reverse: w.scan.as_ref().is_some_and(|s| s.reverse),
        })
    }
}

/// The session.
pub struct MemorySession {
    store: Arc<Store>,
    shape: Shape,
    keep: bool,
    buffer: Vec<u8>,
    key: [u8; KEY_MAX],
}

impl MemorySession {
    /// A session of the workload with this shape.
    pub fn new(store: Arc<Store>, shape: Shape, spec: &SessionSpec) -> MemorySession {
        MemorySession {
            store,
            shape,
            keep: spec.keep,
            buffer: vec![0; spec.buffer_size as usize],
            key: [0; KEY_MAX],
        }
    }

    fn write(&mut self, op: &Op) -> (Status, u64) {
        let key = self.shape.format.write(op.key, &mut self.key);
        let value = &self.buffer[..(op.size as usize).min(self.buffer.len())];
        let new = op.kind != OpKind::Update;
        if new {
            self.store.put(key, value);
            return (Status::OK, op.size);
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
            Some(true) => (Status::OK, op.size),
            Some(false) => (Status::STORE, 0),
            None => (Status::NOT_FOUND, 0),
        }
    }

    fn read(&mut self, op: &Op) -> (Status, u64) {
        let key = self.shape.format.write(op.key, &mut self.key);
        let (buffer, keep) = (&mut self.buffer, self.keep);
        let found = self.store.look(key, |value| {
            if keep {
                let n = value.len().min(buffer.len());
                buffer[..n].copy_from_slice(&value[..n]);
            }
            value.len() as u64
        });
        match found {
            Some(bytes) => (Status::OK, bytes),
            None => (Status::NOT_FOUND, 0),
        }
    }
}

impl Session for MemorySession {
    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }

    fn submit(&mut self, op: &Op, _: u32, token: Token) -> Result<Submitted> {
        let mut count = 0;
        let (status, moved) = match op.kind {
            OpKind::Get => self.read(op),
            OpKind::Scan => {
                let key = self.shape.format.write(op.key, &mut self.key);
                let mut bytes = 0;
                let reverse = self.shape.reverse;
                count = self
                    .store
                    .scan(key, op.count, reverse, |value| bytes += value.len() as u64);
                (Status::OK, bytes)
            }
            OpKind::Delete => {
                let key = self.shape.format.write(op.key, &mut self.key);
                match self.store.delete(key) {
                    true => (Status::OK, 0),
                    false => (Status::NOT_FOUND, 0),
                }
            }
            _ => self.write(op),
        };
        Ok(Submitted::Done(Completion {
            status,
            count,
            ..Completion::ok(token, moved)
        }))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
    fn abandon(self: Box<Self>) {}
}
