//! One worker's session on a Redis server: operations become commands in a connection's buffer, and replies, which come
//! in the order of the commands, become completions.
//!
//! An operation is one command or several; the last reply completes it. A scan asks the index for
//! keys first, then for their records. Nothing is allocated per operation once the buffers have
//! grown to the largest commands and replies.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use taillight_core::keys::KEY_MAX;
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, Status};

use super::resp::{self, RespValue};
use crate::contract::{Completion, SessionSpec};
use crate::kv::{fields, rules::WorkloadRules, written::SessionKeys};
use crate::net::{Frame, PipelineProtocol, PipelinedSocket, Pipelines, SlotTable, of_slot};

/// How a workload's records are stored.
#[derive(Debug, Clone)]
pub struct RecordLayout {
    /// Keys and the direction of scans.
    pub rules: WorkloadRules,
    /// What every key begins with, colon included.
    pub prefix: Vec<u8>,
    /// The key of the sorted set of all keys; empty where none is kept.
    pub index: Vec<u8>,
    /// Names of the fields of a record, a hash; empty when a record is a string.
    pub names: Vec<String>,
}

/// Lua script: deletes the hash at a key if it has exactly as many fields as the argument says.
const TAKE_BACK: &[u8] =
    b"if redis.call('HLEN', KEYS[1]) == tonumber(ARGV[1]) then return redis.call('DEL', KEYS[1]) end return 0";

/// What a reply answers.
#[derive(Debug, Clone, Copy)]
enum ExpectedReply {
    /// GET.
    Value,
    /// MGET.
    Values,
    /// HGETALL.
    Fields,
    /// HMGET of all fields in order, or HMGET of one.
    Named(Option<u16>),
    /// A write: nil means that the key is not there; any other reply says nothing further.
    Written,
    /// An update of so many fields of the hash of this key; the reply says how many of them are new.
    Updated(u64, u32),
    /// DEL; the reply says how many keys were there.
    Removed,
    /// Keys from the index.
    Keys,
}

/// The protocol of a session: its state but the connections.
pub struct Pipeline {
    layout: RecordLayout,
    written: Arc<SessionKeys>,
    slots: SlotTable,
    /// For each connection, slot and meaning of the replies to come. A slot always uses the same connection.
    replies: Vec<VecDeque<(u32, ExpectedReply)>>,
    key: Box<[u8; KEY_MAX]>,
}

/// A session over these connections. Errors: `Unavailable` when the kernel gives no epoll to wait for several.
pub fn session(
    sockets: Vec<PipelinedSocket>,
    layout: RecordLayout,
    written: Arc<SessionKeys>,
    spec: &SessionSpec,
) -> Result<Pipelines<Pipeline>> {
    let depth = spec.depth.max(1) as usize;
    let share = 2 * depth.div_ceil(sockets.len());
    let protocol = Pipeline {
        layout,
        written,
        slots: SlotTable::new(spec),
        replies: sockets.iter().map(|_| VecDeque::with_capacity(share)).collect(),
        key: Box::new([0; KEY_MAX]),
    };
    Pipelines::new(sockets, protocol, "Redis", depth)
}

impl PipelineProtocol for Pipeline {
    fn slots(&mut self) -> &mut SlotTable {
        &mut self.slots
    }

    fn request(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) -> Result<()> {
        match op.kind {
            OpKind::Get => self.get(op, slot, send),
            OpKind::Insert | OpKind::Put | OpKind::Update => {
                self.written.note(op.key, op.count, op.size);
                self.put(op, slot, send);
            }
            OpKind::Delete => self.delete(op, slot, send),
            OpKind::Scan => self.scan(op, slot, send),
            other => {
                let what = format!("driver `redis` knows no {}", other.name());
                return Err(Error::internal(what));
            }
        }
        Ok(())
    }

    fn request_many(&mut self, op: &Op, keys: &[u64], slot: u32, send: &mut Vec<u8>) -> Result<()> {
        if op.kind != OpKind::Get {
            return Err(Error::internal("driver `redis` has batches of gets only"));
        }
        self.get_many(op, keys.iter().copied().take(op.count as usize), slot, send);
        Ok(())
    }

    fn take(
        &mut self,
        at: usize,
        bytes: &[u8],
        send: &mut Vec<u8>,
    ) -> Frame<io::Result<Option<Completion>>> {
        match resp::parse(bytes) {
            Frame::Whole(reply, used) => Frame::Whole(self.answer(at, reply, send), used),
            Frame::Needs(n) => Frame::Needs(n),
            Frame::Broken => Frame::Broken,
        }
    }

    fn forget(&mut self) {
        self.replies.iter_mut().for_each(VecDeque::clear);
    }
}

impl Pipeline {
    /// Appends a key of the run as part of a command.
    fn key(&mut self, n: u64, send: &mut Vec<u8>) {
        let key = self.layout.rules.format.write(n, &mut self.key);
        resp::joined(send, &self.layout.prefix, key);
    }

    fn expect(&mut self, slot: u32, what: ExpectedReply) {
        self.slots.pending(slot).left += 1;
        let connections = self.replies.len();
        self.replies[of_slot(slot, connections)].push_back((slot, what));
    }

    fn get(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        if op.count > 1 {
            return self.get_many(op, op.key..op.key + u64::from(op.count), slot, send);
        }
        self.slots.pending(slot).wanted = 1;
        self.get_one(op.key, op.field, slot, send);
    }

    fn get_many(
        &mut self,
        op: &Op,
        keys: impl Iterator<Item = u64>,
        slot: u32,
        send: &mut Vec<u8>,
    ) {
        self.slots.pending(slot).wanted = op.count;
        if self.layout.names.is_empty() {
            resp::command(send, 1 + op.count as usize);
            resp::part(send, b"MGET");
            for n in keys {
                self.key(n, send);
            }
            return self.expect(slot, ExpectedReply::Values);
        }
        for n in keys {
            self.get_one(n, op.field, slot, send);
        }
    }

    fn get_one(&mut self, n: u64, field: u16, slot: u32, send: &mut Vec<u8>) {
        if self.layout.names.is_empty() {
            resp::command(send, 2);
            resp::part(send, b"GET");
            self.key(n, send);
            return self.expect(slot, ExpectedReply::Value);
        }
        let one = (field != ALL_FIELDS).then_some(field);
        if one.is_none() && !self.slots.keeps() {
            resp::command(send, 2);
            resp::part(send, b"HGETALL");
            self.key(n, send);
            return self.expect(slot, ExpectedReply::Fields);
        }
        // HGETALL does not promise an order; what is checked must have one.
        let names = self.layout.names.len();
        resp::command(send, 2 + one.map_or(names, |_| 1));
        resp::part(send, b"HMGET");
        self.key(n, send);
        let names = self.layout.names.iter().enumerate();
        for (_, name) in names.filter(|(i, _)| one.is_none_or(|f| usize::from(f) == *i)) {
            resp::part(send, name.as_bytes());
        }
        self.expect(slot, ExpectedReply::Named(one));
    }

    fn put(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        self.slots.pending(slot).moved = op.size;
        let buffer = self.slots.take_buffer(slot);
        if op.count > 1 {
            self.put_many(op, slot, &buffer, send);
        } else {
            self.put_one(op, slot, &buffer[..op.size as usize], send);
        }
        self.slots.give_back(slot, buffer);
    }

    fn put_one(&mut self, op: &Op, slot: u32, value: &[u8], send: &mut Vec<u8>) {
        if self.layout.names.is_empty() {
            // An update is of a key that is there.
            let only = op.kind == OpKind::Update;
            resp::command(send, 3 + usize::from(only));
            resp::part(send, b"SET");
            self.key(op.key, send);
            resp::part(send, value);
            if only {
                resp::part(send, b"XX");
            }
        } else {
            let count = fields::fields(value).count();
            resp::command(send, 2 + 2 * count);
            resp::part(send, b"HSET");
            self.key(op.key, send);
            for field in fields::fields(value) {
                resp::part(send, field.name);
                resp::part(send, field.data);
            }
            if op.kind == OpKind::Update {
                return self.expect(slot, ExpectedReply::Updated(op.key, count as u32));
            }
        }
        self.expect(slot, ExpectedReply::Written);
        if op.kind != OpKind::Update {
            self.index(op, slot, send);
        }
    }

    /// Removes the hash that an update of an absent record has made: HSET knows no condition as SET does. One that has
    /// more fields by now was inserted meanwhile, and stays.
    fn take_back(&mut self, key: u64, fields: u32, slot: u32, send: &mut Vec<u8>) {
        resp::command(send, 5);
        resp::part(send, b"EVAL");
        resp::part(send, TAKE_BACK);
        resp::part(send, b"1");
        self.key(key, send);
        resp::number(send, u64::from(fields));
        self.expect(slot, ExpectedReply::Written);
    }

    /// Stores strings, end to end in `buffer`, by one MSET.
    fn put_many(&mut self, op: &Op, slot: u32, buffer: &[u8], send: &mut Vec<u8>) {
        resp::command(send, 1 + 2 * op.count as usize);
        resp::part(send, b"MSET");
        let values = buffer.chunks(op.size.max(1) as usize);
        for (key, value) in (op.key..).zip(values).take(op.count as usize) {
            self.key(key, send);
            resp::part(send, value);
        }
        self.expect(slot, ExpectedReply::Written);
        self.index(op, slot, send);
        let flight = self.slots.pending(slot);
        (flight.moved, flight.count) = (op.bytes(), op.count);
    }

    /// Adds the keys of an insert or put to the sorted set of all keys, where one is kept.
    fn index(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        if self.layout.index.is_empty() {
            return;
        }
        let count = op.count.max(1);
        resp::command(send, 2 + 2 * count as usize);
        resp::part(send, b"ZADD");
        resp::part(send, &self.layout.index);
        for key in op.key..op.key + u64::from(count) {
            resp::part(send, b"0");
            self.key(key, send);
        }
        self.expect(slot, ExpectedReply::Written);
    }

    fn delete(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        resp::command(send, 2);
        resp::part(send, b"DEL");
        self.key(op.key, send);
        self.expect(slot, ExpectedReply::Removed);
        if !self.layout.index.is_empty() {
            resp::command(send, 3);
            resp::part(send, b"ZREM");
            resp::part(send, &self.layout.index);
            self.key(op.key, send);
            self.expect(slot, ExpectedReply::Written);
        }
    }

    /// Asks the sorted set for keys. All have the score 0, so that they sort as bytes.
    fn scan(&mut self, op: &Op, slot: u32, send: &mut Vec<u8>) {
        let (command, end): (&[u8], &[u8]) = match self.layout.rules.reverse {
            false => (b"ZRANGEBYLEX", b"+"),
            true => (b"ZREVRANGEBYLEX", b"-"),
        };
        resp::command(send, 7);
        resp::part(send, command);
        resp::part(send, &self.layout.index);
        let mut from = [0; 1 + 256];
        from[0] = b'[';
        let prefix = self.layout.prefix.len();
        from[1..=prefix].copy_from_slice(&self.layout.prefix);
        let key = self.layout.rules.format.write(op.key, &mut self.key);
        resp::joined(send, &from[..=prefix], key);
        resp::part(send, end);
        resp::part(send, b"LIMIT");
        resp::part(send, b"0");
        resp::number(send, u64::from(op.count));
        self.expect(slot, ExpectedReply::Keys);
    }

    /// Takes a reply; the completion if it was the operation's last. `Err` when none, or one of another type, was due.
    fn answer(
        &mut self,
        connection: usize,
        reply: RespValue<'_>,
        send: &mut Vec<u8>,
    ) -> io::Result<Option<Completion>> {
        let Some((slot, expect)) = self.replies[connection].pop_front() else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match (expect, reply) {
            (_, RespValue::Error(_)) => self.slots.pending(slot).status = Status::STORE,
            (ExpectedReply::Value, RespValue::Bulk(value)) => {
                self.slots.land(slot, value);
                self.slots.pending(slot).count += 1;
            }
            (ExpectedReply::Values, RespValue::Array(_, all)) => {
                for value in resp::elements(all) {
                    if let RespValue::Bulk(value) = value {
                        self.slots.land(slot, value);
                        self.slots.pending(slot).count += 1;
                    }
                }
            }
            (ExpectedReply::Fields, RespValue::Array(_, all)) => self.hash(slot, all),
            (ExpectedReply::Named(one), RespValue::Array(_, all)) => self.named(slot, one, all),
            (ExpectedReply::Written, RespValue::Nil)
            | (ExpectedReply::Removed, RespValue::Number(0)) => {
                self.slots.pending(slot).status = Status::NOT_FOUND;
            }
            (ExpectedReply::Updated(key, fields), RespValue::Number(new)) => {
                if new > 0 && new == i64::from(fields) {
                    self.slots.pending(slot).status = Status::NOT_FOUND;
                    self.take_back(key, fields, slot, send);
                }
            }
            (ExpectedReply::Value, RespValue::Nil)
            | (ExpectedReply::Written, RespValue::Simple(_) | RespValue::Number(_))
            | (ExpectedReply::Removed, RespValue::Number(_)) => {}
            (ExpectedReply::Keys, RespValue::Array(count, all)) => {
                self.fetch(slot, count, all, send)
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        Ok(self.slots.replied(slot))
    }

    fn hash(&mut self, slot: u32, all: &[u8]) {
        let mut parts = resp::elements(all);
        let mut some = false;
        while let (Some(RespValue::Bulk(name)), Some(RespValue::Bulk(data))) =
            (parts.next(), parts.next())
        {
            some = true;
            self.slots.land_field(slot, name, data);
        }
        self.slots.pending(slot).count += u32::from(some);
    }

    fn named(&mut self, slot: u32, one: Option<u16>, all: &[u8]) {
        let first = one.map_or(0, usize::from);
        let names = std::mem::take(&mut self.layout.names);
        let mut some = false;
        for (name, data) in names.iter().skip(first).zip(resp::elements(all)) {
            if let RespValue::Bulk(data) = data {
                some = true;
                self.slots.land_field(slot, name.as_bytes(), data);
            }
        }
        self.layout.names = names;
        self.slots.pending(slot).count += u32::from(some);
    }

    /// Asks for the records whose keys the index gave.
    fn fetch(&mut self, slot: u32, count: usize, keys: &[u8], send: &mut Vec<u8>) {
        if count == 0 {
            return;
        }
        let strings = self.layout.names.is_empty();
        if strings {
            resp::command(send, 1 + count);
            resp::part(send, b"MGET");
        }
        for key in resp::elements(keys) {
            let RespValue::Bulk(key) = key else { continue };
            if !strings {
                resp::command(send, 2);
                resp::part(send, b"HGETALL");
            }
            resp::part(send, key);
            if !strings {
                self.expect(slot, ExpectedReply::Fields);
            }
        }
        if strings {
            self.expect(slot, ExpectedReply::Values);
        }
    }
}
