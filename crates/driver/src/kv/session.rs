//! One worker on a store: an operation's key number becomes a key, the slot's buffer a value, the
//! store's answer a completion.
//!
//! Everything is performed inside `submit`. Nothing is allocated per operation here: keys are
//! written into the session, single fields are replaced in memory that stays.

use taillight_core::keys::KEY_MAX;
use taillight_core::probe::Token;
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, Stamp, Status};

use super::rules::Rules;
use super::{Fault, Hand, Packed, Range, fields};
use crate::contract::{Completion, Session, SessionSpec, Submitted};

/// The session.
pub struct KvSession<H> {
    hand: H,
    rules: Rules,
    keep: bool,
    buffers: Vec<Box<[u8]>>,
    key: Box<[u8; KEY_MAX]>,
    stop: Box<[u8; KEY_MAX]>,
    packed: Packed,
    /// A stored value while one of its fields is replaced.
    value: Vec<u8>,
}

/// What an operation came to.
struct Came {
    status: Status,
    moved: u64,
    count: u32,
}

impl Came {
    fn ok(moved: u64) -> Came {
        Came {
            status: Status::OK,
            moved,
            count: 0,
        }
    }
    fn status(status: Status) -> Came {
        Came {
            status,
            moved: 0,
            count: 0,
        }
    }
}

impl From<Fault> for Came {
    fn from(fault: Fault) -> Came {
        Came::status(fault.status())
    }
}

impl<H: Hand> KvSession<H> {
    /// A session by the rules of its workload.
    pub fn new(hand: H, rules: Rules, spec: &SessionSpec) -> KvSession<H> {
        let buffer = || vec![0; spec.buffer_size as usize].into_boxed_slice();
        KvSession {
            hand,
            rules,
            keep: spec.keep,
            buffers: (0..spec.depth.max(1)).map(|_| buffer()).collect(),
            key: Box::new([0; KEY_MAX]),
            stop: Box::new([0; KEY_MAX]),
            packed: Packed::default(),
            value: Vec::with_capacity(spec.buffer_size as usize),
        }
    }

    fn get(&mut self, op: &Op, slot: usize) -> Result<Came, Fault> {
        let buffer = &mut self.buffers[slot];
        let keep = self.keep;
        let mut moved = 0;
        let mut take = |value: &[u8]| {
            moved += value.len() as u64;
            if keep {
                let fits = value.len().min(buffer.len());
                buffer[..fits].copy_from_slice(&value[..fits]);
            }
        };
        if op.count <= 1 {
            let key = self.rules.format.write(op.key, &mut self.key);
            return Ok(match self.hand.get(key, take)? {
                true => Came::ok(moved),
                false => Came::status(Status::NOT_FOUND),
            });
        }
        self.packed.clear();
        for n in 0..u64::from(op.count) {
            let key = self.rules.format.write(op.key + n, &mut self.key);
            self.packed.push(key);
        }
        let count = self.hand.multi_get(&self.packed, &mut take)?;
        let status = match count == op.count {
            true => Status::OK,
            false => Status::NOT_FOUND,
        };
        Ok(Came {
            status,
            moved,
            count,
        })
    }

    fn put(&mut self, op: &Op, slot: usize) -> Result<Came, Fault> {
        let durable = op.sync.is_some() || self.rules.durable;
        let buffer = &self.buffers[slot];
        let size = op.size as usize;
        if op.count <= 1 {
            let key = self.rules.format.write(op.key, &mut self.key);
            self.hand.put(key, &buffer[..size], durable)?;
            return Ok(Came::ok(op.size));
        }
        for n in 0..op.count {
            let at = n as usize * size;
            let key = op.key + u64::from(n);
            let key = self.rules.format.write(key, &mut self.key);
            self.hand.stage(key, &buffer[at..at + size]);
        }
        self.hand.commit(durable)?;
        Ok(Came {
            count: op.count,
            ..Came::ok(op.size * u64::from(op.count))
        })
    }

    /// Replaces one field: the stored value is read, changed and written back.
    fn update_field(&mut self, op: &Op, slot: usize) -> Result<Came, Fault> {
        let durable = op.sync.is_some() || self.rules.durable;
        let key = self.rules.format.write(op.key, &mut self.key);
        let value = &mut self.value;
        let found = self.hand.get(key, |stored| {
            value.clear();
            value.extend_from_slice(stored);
        })?;
        if !found {
            return Ok(Came::status(Status::NOT_FOUND));
        }
        if !fields::replace(value, &self.buffers[slot][..op.size as usize]) {
            return Ok(Came::status(Status::STORE));
        }
        self.hand.put(key, value, durable)?;
        Ok(Came::ok(op.size))
    }

    fn delete(&mut self, op: &Op) -> Result<Came, Fault> {
        let durable = op.sync.is_some() || self.rules.durable;
        let key = self.rules.format.write(op.key, &mut self.key);
        self.hand.delete(key, durable)?;
        Ok(Came::ok(0))
    }

    fn scan(&mut self, op: &Op, slot: usize) -> Result<Came, Fault> {
        let range = Range {
            from: self.rules.format.write(op.key, &mut self.key),
            stop: self.rules.stop(op.key, op.count, &mut self.stop),
            reverse: self.rules.reverse,
            count: op.count,
        };
        let (buffer, keep) = (&mut self.buffers[slot], self.keep);
        let mut moved = 0;
        let count = self.hand.scan(&range, |value| {
            if keep {
                let at = (moved as usize).min(buffer.len());
                let fits = value.len().min(buffer.len() - at);
                buffer[at..at + fits].copy_from_slice(&value[..fits]);
            }
            moved += value.len() as u64;
        })?;
        Ok(Came {
            count,
            ..Came::ok(moved)
        })
    }

    fn perform(&mut self, op: &Op, slot: u32) -> Result<Came> {
        let slot = slot as usize;
        let room = self.buffers.get(slot).map(|b| b.len() as u64);
        let asked = op.size * u64::from(op.count.max(1));
        if room.is_none_or(|room| op.kind.writes() && asked > room) {
            return Err(Error::internal("value larger than the buffer").with("size", op.size));
        }
        let came = match op.kind {
            OpKind::Get => self.get(op, slot),
            OpKind::Update if op.field != ALL_FIELDS => self.update_field(op, slot),
            OpKind::Insert | OpKind::Put | OpKind::Update => self.put(op, slot),
            OpKind::Delete => self.delete(op),
            OpKind::Scan => self.scan(op, slot),
            other => {
                return Err(Error::internal(format!(
                    "a key-value store knows no {}",
                    other.name()
                )));
            }
        };
        Ok(came.unwrap_or_else(Came::from))
    }
}

impl<H: Hand> Session for KvSession<H> {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        let came = self.perform(op, slot)?;
        Ok(Submitted::Done(Completion {
            status: came.status,
            count: came.count,
            ..Completion::ok(token, came.moved)
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
