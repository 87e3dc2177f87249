//! Operations in flight by slot: their buffers, what has come of their replies, their completions.

use taillight_core::probe::Token;
use taillight_core::{Error, Op, Result, Status};

use crate::contract::{Completion, SessionSpec};

/// An operation in flight, as far as its replies have come.
#[derive(Debug, Clone, Copy)]
pub struct PendingOperation {
    token: Token,
    /// Replies that are still to come; 0 = the slot is free.
    pub left: u32,
    pub status: Status,
    pub moved: u64,
    /// Records that came, or were written.
    pub count: u32,
    /// Records asked for; each that is missing makes it "not found".
    pub wanted: u32,
}

impl PendingOperation {
    fn new(token: Token) -> PendingOperation {
        PendingOperation { token, left: 0, status: Status::OK, moved: 0, count: 0, wanted: 0 }
    }
}

/// The slots of a session.
pub struct SlotTable {
    keep: bool,
    buffers: Vec<Box<[u8]>>,
    pending: Vec<PendingOperation>,
    in_flight: u32,
}

impl SlotTable {
    pub fn new(spec: &SessionSpec) -> SlotTable {
        let depth = spec.depth.max(1) as usize;
        let buffer = || vec![0; spec.buffer_size as usize].into_boxed_slice();
        SlotTable {
            keep: spec.keep,
            buffers: (0..depth).map(|_| buffer()).collect(),
            pending: vec![PendingOperation::new(Token::new(0, 0)); depth],
            in_flight: 0,
        }
    }

    /// Whether what is read has to land in the slot's buffer.
    pub fn keeps(&self) -> bool {
        self.keep
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    #[inline]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }

    /// Takes a slot for an operation; false when all are taken. [`SlotTable::started`] counts it. Errors:
    /// `Internal` when the value does not fit.
    #[inline]
    pub fn occupy(&mut self, op: &Op, slot: u32, token: Token) -> Result<bool> {
        if self.in_flight as usize == self.pending.len() {
            return Ok(false);
        }
        let room = self.buffers.get(slot as usize).map(|b| b.len() as u64);
        if room.is_none_or(|room| op.kind.writes() && op.bytes() > room) {
            return Err(Error::internal("value larger than the buffer").with("size", op.size));
        }
        self.pending[slot as usize] = PendingOperation::new(token);
        Ok(true)
    }

    /// Counts an operation that has its slot as in flight: its requests are collected.
    #[inline]
    pub fn started(&mut self) {
        self.in_flight += 1;
    }

    #[inline]
    pub fn pending(&mut self, slot: u32) -> &mut PendingOperation {
        &mut self.pending[slot as usize]
    }

    /// The value that a write has put into its buffer, out of the table until [`SlotTable::give_back`].
    #[inline]
    pub fn take_buffer(&mut self, slot: u32) -> Box<[u8]> {
        std::mem::take(&mut self.buffers[slot as usize])
    }

    #[inline]
    pub fn give_back(&mut self, slot: u32, buffer: Box<[u8]>) {
        self.buffers[slot as usize] = buffer;
    }

    /// A value that came, into the buffer behind those before it.
    #[inline]
    pub fn land(&mut self, slot: u32, bytes: &[u8]) {
        let slot = slot as usize;
        if self.keep {
            let buffer = &mut self.buffers[slot];
            let at = (self.pending[slot].moved as usize).min(buffer.len());
            let fits = bytes.len().min(buffer.len() - at);
            buffer[at..at + fits].copy_from_slice(&bytes[..fits]);
        }
        self.pending[slot].moved += bytes.len() as u64;
    }

    /// A field that came, as the engine lays fields out.
    pub fn land_field(&mut self, slot: u32, name: &[u8], data: &[u8]) {
        for bytes in [name, data] {
            self.land(slot, &(bytes.len() as u32).to_be_bytes());
            self.land(slot, bytes);
        }
    }

    /// A reply has been taken; the completion if it was the operation's last.
    #[inline]
    pub fn replied(&mut self, slot: u32) -> Option<Completion> {
        let pending = &mut self.pending[slot as usize];
        pending.left -= 1;
        if pending.left > 0 {
            return None;
        }
        self.in_flight -= 1;
        if pending.status.is_ok() && pending.count < pending.wanted {
            pending.status = Status::NOT_FOUND;
        }
        let some = pending.status == Status::NOT_FOUND && pending.wanted > 1;
        if !pending.status.is_ok() && !some {
            return Some(Completion::failed(pending.token, pending.status));
        }
        // A single record is not counted.
        let count = if pending.wanted == 1 { 0 } else { pending.count };
        Some(Completion {
            status: pending.status,
            count,
            ..Completion::ok(pending.token, pending.moved)
        })
    }

    /// Ends everything in flight with `status`.
    pub fn lose(&mut self, status: Status, failed: &mut Vec<Completion>) {
        for pending in self.pending.iter_mut().filter(|p| p.left > 0) {
            pending.left = 0;
            failed.push(Completion::failed(pending.token, status));
        }
        self.in_flight = 0;
    }
}
