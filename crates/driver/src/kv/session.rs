//! One worker's session on an embedded store: key numbers become keys, slots' buffers values, answers completions.
//!
//! Operations are performed inside `submit` and `submit_many`; `poll` has nothing to do. Memory for keys
//! and for a value of which a field is replaced stays with the session and grows to the largest.

use std::sync::Arc;

use taillight_core::keys::KEY_MAX;
use taillight_core::probe::Token;
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, Stamp, Status};

use super::rules::WorkloadRules;
use super::written::SessionKeys;
use super::{Connection, KeyList, RecordBatch, ScanRange, StoreError, fields};
use crate::contract::{Completion, Session, SessionSpec, StoreOutcome, Submitted};

/// The session, over a store's connection `H`.
pub struct KvSession<H> {
    connection: H,
    rules: WorkloadRules,
    /// Where the key numbers that it writes are noted; none where no other process can write into the store meanwhile.
    written: Option<Arc<SessionKeys>>,
    keep: bool,
    buffers: Vec<Box<[u8]>>,
    key: Box<[u8; KEY_MAX]>,
    stop: Box<[u8; KEY_MAX]>,
    /// Keys of a batch.
    packed: KeyList,
    /// A stored value while one of its fields is replaced.
    value: Vec<u8>,
}

impl From<StoreError> for StoreOutcome {
    fn from(fault: StoreError) -> StoreOutcome {
        StoreOutcome::status(fault.status())
    }
}

impl<H: Connection> KvSession<H> {
    /// A session by the rules of its workload.
    pub fn new(
        connection: H,
        rules: WorkloadRules,
        written: Option<Arc<SessionKeys>>,
        spec: &SessionSpec,
    ) -> KvSession<H> {
        let buffer = || vec![0; spec.buffer_size as usize].into_boxed_slice();
        KvSession {
            connection,
            rules,
            written,
            keep: spec.keep,
            buffers: (0..spec.depth.max(1)).map(|_| buffer()).collect(),
            key: Box::new([0; KEY_MAX]),
            stop: Box::new([0; KEY_MAX]),
            packed: KeyList::default(),
            value: Vec::with_capacity(spec.buffer_size as usize),
        }
    }

    #[inline(always)]
    fn get(&mut self, op: &Op, slot: usize) -> Result<StoreOutcome, StoreError> {
        if op.count > 1 {
            return self.get_many(neighbours(op));
        }
        let buffer = &mut self.buffers[slot];
        let keep = self.keep;
        let mut moved = 0;
        let take = |value: &[u8]| {
            moved += value.len() as u64;
            if keep {
                let fits = value.len().min(buffer.len());
                buffer[..fits].copy_from_slice(&value[..fits]);
            }
        };
        let key = self.rules.format.write(op.key, &mut self.key);
        Ok(match self.connection.get(key, take)? {
            true => StoreOutcome::ok(moved),
            false => StoreOutcome::status(Status::NOT_FOUND),
        })
    }

    /// Writes the keys of a batch into `packed`.
    fn list(&mut self, keys: impl Iterator<Item = u64>) {
        self.packed.clear();
        for n in keys {
            let key = self.rules.format.write(n, &mut self.key);
            self.packed.push(key);
        }
    }

    /// Gets all keys by one call of the store. The bytes of values are counted; none is copied, with `keep` neither.
    #[inline(never)]
    fn get_many(&mut self, keys: impl Iterator<Item = u64>) -> Result<StoreOutcome, StoreError> {
        self.list(keys);
        let mut moved = 0;
        let take = |value: &[u8]| moved += value.len() as u64;
        let count = self.connection.multi_get(&self.packed, take)?;
        let status = match count as usize == self.packed.len() {
            true => Status::OK,
            false => Status::NOT_FOUND,
        };
        Ok(StoreOutcome { status, moved, count })
    }

    // Everything between the engine and the store is one frame: a store's system calls leave the
    // CPU's return predictor empty, so that each return on the way out costs as much as a miss.
    /// An insert, put or update of one whole value, which lies in the buffer of `slot`. Errors: as
    /// [`KvSession::write`].
    #[inline(always)]
    fn put(&mut self, op: &Op, slot: u32) -> Result<Result<StoreOutcome, StoreError>> {
        let buffer = self.buffers.get(slot as usize).map_or(&[][..], |buffer| &buffer[..]);
        let value = values(op, buffer)?;
        if let Some(written) = &self.written {
            written.note(op.key, op.count, op.size);
        }
        let durable = op.sync.is_some() || self.rules.durable;
        let key = self.rules.format.write(op.key, &mut self.key);
        Ok(self.connection.put(key, value, durable).map(|()| StoreOutcome::ok(op.size)))
    }

    /// Stores several values, end to end in `values`, as one write.
    #[inline(never)]
    fn put_many(
        &mut self,
        op: &Op,
        keys: impl Iterator<Item = u64>,
        values: &[u8],
    ) -> Result<StoreOutcome, StoreError> {
        let durable = op.sync.is_some() || self.rules.durable;
        self.list(keys);
        let batch = RecordBatch { keys: &self.packed, values, size: op.size as usize };
        self.connection.put_many(&batch, durable)?;
        Ok(StoreOutcome { count: op.count, ..StoreOutcome::ok(op.bytes()) })
    }

    /// Replaces one field: the stored value is read, changed and written back.
    #[inline(never)]
    fn update_field(&mut self, op: &Op, field: &[u8]) -> Result<StoreOutcome, StoreError> {
        let durable = op.sync.is_some() || self.rules.durable;
        let key = self.rules.format.write(op.key, &mut self.key);
        let value = &mut self.value;
        let found = self.connection.get_newest(key, |stored| {
            value.clear();
            value.extend_from_slice(stored);
        })?;
        if !found {
            return Ok(StoreOutcome::status(Status::NOT_FOUND));
        }
        if !fields::replace(value, field) {
            return Ok(StoreOutcome::status(Status::STORE));
        }
        self.connection.put(key, value, durable)?;
        Ok(StoreOutcome::ok(op.size))
    }

    #[inline(never)]
    fn delete(&mut self, op: &Op) -> Result<StoreOutcome, StoreError> {
        let durable = op.sync.is_some() || self.rules.durable;
        let key = self.rules.format.write(op.key, &mut self.key);
        self.connection.delete(key, durable)?;
        Ok(StoreOutcome::ok(0))
    }

    #[inline(never)]
    fn scan(&mut self, op: &Op, slot: usize) -> Result<StoreOutcome, StoreError> {
        let range = ScanRange {
            from: self.rules.format.write(op.key, &mut self.key),
            stop: self.rules.stop(op.key, op.count, &mut self.stop),
            reverse: self.rules.reverse,
            count: op.count,
        };
        let (buffer, keep) = (&mut self.buffers[slot], self.keep);
        let mut moved = 0;
        let count = self.connection.scan(&range, |value| {
            if keep {
                let at = (moved as usize).min(buffer.len());
                let fits = value.len().min(buffer.len() - at);
                buffer[at..at + fits].copy_from_slice(&value[..fits]);
            }
            moved += value.len() as u64;
        })?;
        Ok(StoreOutcome { count, ..StoreOutcome::ok(moved) })
    }

    /// Does `what` with a slot's buffer (empty where there is no such slot), which is taken out of the session for
    /// the call, since `what` borrows the whole session.
    #[inline(always)]
    fn with_buffer<T>(&mut self, slot: u32, what: impl FnOnce(&mut Self, &[u8]) -> T) -> T {
        let slot = slot as usize;
        let buffer = self.buffers.get_mut(slot).map(std::mem::take);
        let buffer = buffer.unwrap_or_default();
        let result = what(self, &buffer);
        if let Some(place) = self.buffers.get_mut(slot) {
            *place = buffer;
        }
        result
    }

    /// Any other write of what lies in `buffer`, or a delete. Errors: `Internal`; the inner ones of the store.
    #[inline(always)]
    fn write(&mut self, op: &Op, buffer: &[u8]) -> Result<Result<StoreOutcome, StoreError>> {
        let values = values(op, buffer)?;
        if let Some(written) = &self.written
            && op.kind != OpKind::Delete
        {
            written.note(op.key, op.count, op.size);
        }
        Ok(match op.kind {
            OpKind::Delete => self.delete(op),
            OpKind::Update if op.field != ALL_FIELDS => self.update_field(op, values),
            OpKind::Insert | OpKind::Put | OpKind::Update => {
                self.put_many(op, neighbours(op), values)
            }
            other => return Err(unknown(other)),
        })
    }

    /// The end of an operation that the store has answered.
    #[inline(always)]
    fn done(&self, answer: Result<StoreOutcome, StoreError>, token: Token) -> Submitted {
        let completion = answer.unwrap_or_else(StoreOutcome::from).completion(token);
        Submitted::Done(Completion { inner: self.connection.has_inner(), ..completion })
    }

    /// A get, a scan or a checkpoint. With `keep` the values land in the slot's buffer, except those of a batch.
    #[inline(always)]
    fn read(&mut self, op: &Op, slot: u32) -> Result<Result<StoreOutcome, StoreError>> {
        let slot = slot as usize;
        if slot >= self.buffers.len() {
            return Err(Error::internal("no such slot").with("slot", slot));
        }
        match op.kind {
            OpKind::Get => Ok(self.get(op, slot)),
            OpKind::Scan => Ok(self.scan(op, slot)),
            OpKind::Checkpoint => Ok(self.connection.checkpoint().map(|()| StoreOutcome::ok(0))),
            other => Err(unknown(other)),
        }
    }
}

/// What a write stores, end to end in `buffer`.
#[inline(always)]
fn values<'a>(op: &Op, buffer: &'a [u8]) -> Result<&'a [u8]> {
    match buffer.get(..op.bytes() as usize) {
        Some(values) => Ok(values),
        None => Err(Error::internal("value larger than the buffer").with("size", op.size)),
    }
}

/// Key numbers of a batch of consecutive records.
fn neighbours(op: &Op) -> impl Iterator<Item = u64> + use<> {
    op.key..op.key + u64::from(op.count)
}

#[cold]
fn unknown(kind: OpKind) -> Error {
    Error::internal(format!("a key-value store knows no {}", kind.name()))
}

impl<H: Connection> Session for KvSession<H> {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        let result = match op.kind {
            OpKind::Insert | OpKind::Put | OpKind::Update
                if op.count <= 1 && op.field == ALL_FIELDS =>
            {
                self.put(op, slot)
            }
            kind if kind.writes() => {
                self.with_buffer(slot, |session, buffer| session.write(op, buffer))
            }
            _ => self.read(op, slot),
        };
        Ok(self.done(result?, token))
    }
    fn submit_many(&mut self, op: &Op, keys: &[u64], slot: u32, token: Token) -> Result<Submitted> {
        let keys = keys.iter().copied().take(op.count as usize);
        let result = match op.kind {
            OpKind::Get => self.get_many(keys),
            OpKind::Update => self.with_buffer(slot, |session, buffer| {
                if let Some(written) = &session.written {
                    keys.clone().for_each(|key| written.note(key, 1, op.size));
                }
                Ok::<_, Error>(session.put_many(op, keys, values(op, buffer)?))
            })?,
            other => return Err(unknown(other)),
        };
        Ok(self.done(result, token))
    }
    fn poll(&mut self, _: u32, _: Option<Stamp>, _: &mut Vec<Completion>) -> Result<()> {
        Ok(())
    }
    fn inner(&mut self, each: &mut dyn FnMut(OpKind, Stamp, Stamp)) {
        self.connection.inner(each);
    }
}
