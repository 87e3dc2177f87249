//! A worker on a stream: which block comes next, the writer's stamp in it, and who is told.
//!
//! End to end: a writer puts a mark, the block's number and its submit stamp into the first bytes
//! of the block; a reader takes them out and the record carries the stamp as its origin. A block
//! without the right mark and number is a failure (`verify`), never a latency.

use std::sync::Arc;

use taillight_core::probe::Probe;
use taillight_core::{Op, Result, Stamp, Status};
use taillight_driver::Completion;

use super::Worker;
use super::flight::IDLE;
use crate::clock::DisciplinedClock;
use crate::stream::{NextBlock, SharedStream};

/// First bytes of a stamped block, so that any other data is told apart.
const MARK: [u8; 8] = *b"TLstamp\x01";
/// Bytes a stamp takes: mark, block number, stamp.
const STAMP_BYTES: usize = 24;
/// With operations in flight a completion wakes the worker; news of the stream waits this long, ns.
const GLANCE_NS: u64 = 100_000;
/// No block in this slot.
const NONE: u64 = u64::MAX;

/// Where blocks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLayout {
    /// First byte of the extent, and from one block to the next.
    pub start: u64,
    pub step: u64,
    /// Blocks in each file, and its size.
    pub per_file: u64,
    /// Size of each file.
    pub file_size: u64,
    /// The key of block 0, on targets addressed by key.
    pub first_key: Option<u64>,
}

/// A worker's side of a stream.
pub struct StreamWorker {
    stream: Arc<SharedStream>,
    /// A reader's number; none for a writer.
    reader: Option<usize>,
    layout: StreamLayout,
    /// Whether blocks carry stamps.
    stamps: bool,
    /// The block to do next, when it is known.
    turn: Option<u64>,
    /// Reader: the block after the last one begun, and where it ends.
    next: u64,
    limit: u64,
    /// Blocks in flight by slot.
    blocks: Vec<u64>,
    /// Nothing can be started until the stream moves.
    waiting: bool,
    /// Origin of the block that was completed last.
    pub origin: Option<Stamp>,
}

/// How a worker follows.
#[derive(Debug, Clone, Copy)]
pub struct StreamRole {
    /// A reader's number; none for a writer.
    pub reader: Option<usize>,
    /// Blocks a reader reads.
    pub limit: u64,
    /// Whether blocks carry stamps.
    pub stamps: bool,
}

impl StreamWorker {
    /// A worker with `depth` slots.
    pub fn new(
        stream: Arc<SharedStream>,
        layout: StreamLayout,
        role: StreamRole,
        depth: usize,
    ) -> StreamWorker {
        StreamWorker {
            stream,
            reader: role.reader,
            layout,
            stamps: role.stamps,
            turn: None,
            next: 0,
            limit: role.limit,
            blocks: vec![NONE; depth],
            waiting: false,
            origin: None,
        }
    }

    /// Whether there is a block to do.
    fn turn(&mut self) -> NextBlock {
        if let Some(block) = self.turn {
            return NextBlock::Block(block);
        }
        let turn = match self.reader {
            None => self.stream.claim(),
            Some(_) if self.next >= self.limit => NextBlock::End,
            Some(_) => self.stream.readable(self.next),
        };
        if let NextBlock::Block(block) = turn {
            self.turn = Some(block);
        }
        turn
    }

    /// Makes `op` the operation on the block whose turn it is.
    pub fn place(&mut self, slot: u32, op: &mut Op) {
        let Some(block) = self.turn.take() else {
            return;
        };
        self.next = block + 1;
        if let Some(kept) = self.blocks.get_mut(slot as usize) {
            *kept = block;
        }
        let at = block % self.stream.places();
        match self.layout.first_key {
            Some(first) => op.key = first + block,
            None if self.layout.per_file == NONE => {
                op.offset = self.layout.start + at * self.layout.step;
            }
            None => {
                let file = self.layout.start / self.layout.file_size + at / self.layout.per_file;
                op.target = file as u16;
                op.offset = at % self.layout.per_file * self.layout.step;
            }
        }
    }

    /// A writer's stamp into the block in `slot`.
    pub fn stamp(&self, slot: u32, at: Stamp, buffer: &mut [u8]) {
        if !self.stamps || self.reader.is_some() {
            return;
        }
        let block = self.blocks.get(slot as usize).copied().unwrap_or(NONE);
        if self.stream.keep_stamp(block, at) {
            return;
        }
        if let Some(head) = buffer.first_chunk_mut::<STAMP_BYTES>() {
            head[..8].copy_from_slice(&MARK);
            head[8..16].copy_from_slice(&block.to_le_bytes());
            head[16..].copy_from_slice(&at.0.to_le_bytes());
        }
    }

    /// The writer's stamp of `block` out of what was read.
    fn stamp_of(&self, block: u64, buffer: &[u8]) -> Option<Stamp> {
        if let Some(kept) = self.stream.kept_stamp(block) {
            return Some(kept);
        }
        let head = buffer.first_chunk::<STAMP_BYTES>()?;
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let right = head[..8] == MARK && number(8) == block;
        right.then(|| Stamp(number(16) as i64))
    }

    /// The block in `slot` is done: everybody who waits for it may go on.
    fn tell(&mut self, slot: u32) {
        let Some(kept) = self.blocks.get_mut(slot as usize) else {
            return;
        };
        let block = std::mem::replace(kept, NONE);
        match self.reader {
            None => self.stream.wrote(block),
            Some(number) => {
                // Blocks may come back in any order; those in flight hold the others up.
                let oldest = self.blocks.iter().copied().min().unwrap_or(NONE);
                self.stream.read(number, oldest.min(self.next));
            }
        }
    }

    /// The worker has ended.
    pub fn leave(&self) {
        match self.reader {
            None => self.stream.writer_left(),
            Some(number) => self.stream.read(number, u64::MAX),
        }
    }

    /// A new round begins: whether it waits is found out again.
    pub fn begin(&mut self) {
        self.waiting = false;
    }

    /// Whether it waits for the stream.
    pub fn waiting(&self) -> bool {
        self.waiting
    }
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Whether there is a block to start now; if not, sets when to look again.
    #[cold]
    pub(super) fn take_turn(&mut self, wake: &mut Stamp) -> bool {
        let turn = match &mut self.follow {
            Some(follow) => follow.turn(),
            None => return true,
        };
        let waits = turn == NextBlock::Wait;
        if let Some(follow) = &mut self.follow {
            follow.waiting = waits;
        }
        if waits {
            *wake = self.recorder.boundary();
            if self.in_flight() > 0 {
                *wake = self.clock.now().plus(GLANCE_NS).min(*wake);
            }
        }
        if turn == NextBlock::End {
            self.reached_limit = true;
            self.stop();
        }
        !waits && turn != NextBlock::End
    }

    /// Sleeps until the stream moves or `until`; false when this worker does not wait for one.
    pub fn await_stream(&mut self, until: Stamp) -> bool {
        let Some(follow) = self.follow.as_mut().filter(|f| f.waiting) else {
            return false;
        };
        let stream = follow.stream.clone();
        stream.wait(until, || follow.turn() != NextBlock::Wait);
        true
    }

    /// Takes the completion of an operation on a stream.
    #[cold]
    pub(super) fn complete_followed(&mut self, slot: u32, c: &Completion) -> Result<()> {
        let mut c = *c;
        if let Some(follow) = &mut self.follow {
            follow.origin = None;
            let block = follow.blocks.get(slot as usize).copied().unwrap_or(NONE);
            if follow.stamps && follow.reader.is_some() && c.status.is_ok() {
                follow.origin = follow.stamp_of(block, self.session.buffer(slot));
                if follow.origin.is_none() {
                    c.status = Status::VERIFY;
                }
            }
        }
        let result = if self.keyed.is_some() {
            self.complete_keyed(slot, &c)
        } else {
            let flight = self.slots[slot as usize];
            self.slots[slot as usize].token = IDLE;
            self.free.push(slot);
            self.complete_other(&flight, &c);
            Ok(())
        };
        if let Some(follow) = &mut self.follow {
            follow.tell(slot);
        }
        result
    }
}
