//! A worker on a stream: which block comes next, the writer's stamp in it, and who is told.
//!
//! End to end: a writer puts a mark, the block's number and its submit stamp into the first bytes
//! of the block; a reader takes them out and the record carries the stamp as its origin. A block
//! without the right mark and (but for a queue) number is a failure (`verify`), not a latency.

use std::sync::Arc;

use taillight_core::{Op, Stamp, Status};
use taillight_driver::Session;

use crate::stream::{NextBlock, SharedStream};

/// First bytes of a stamped block, so that any other data is told apart.
const MARK: [u8; 8] = *b"TLstamp\x01";
/// Bytes a stamp takes: mark, block number, stamp.
const STAMP_BYTES: usize = 24;
/// No block in this slot.
const NONE: u64 = u64::MAX;

/// Where blocks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLayout {
    /// First byte of the extent, and from one block to the next.
    pub start: u64,
    pub step: u64,
    /// Blocks in each file; `u64::MAX`: one file.
    pub per_file: u64,
    /// Size of each file.
    pub file_size: u64,
    /// The key of block 0, on targets addressed by key.
    pub first_key: Option<u64>,
}

/// A worker's side of a stream.
pub struct StreamWorker {
    stream: Arc<SharedStream>,
    layout: StreamLayout,
    role: StreamRole,
    /// The block to do next, when it is known.
    claimed: Option<u64>,
    /// Reader: the block after the last one begun.
    next: u64,
    /// Blocks in flight by slot.
    blocks: Vec<u64>,
    /// Nothing can be started until the stream moves.
    pub waiting: bool,
    end: StreamEnd,
}

/// What a worker did on a stream whose blocks carry stamps, from the start of the load on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamEnd {
    /// Blocks that a writer wrote, failed ones included.
    pub written: u64,
    /// Reads that brought the right block, and others.
    pub verified: u64,
    pub failed: u64,
    /// The first block that a reader had not read when it ended; none of a writer.
    pub read_to: Option<u64>,
}

/// What a worker does on the stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamRole {
    /// A reader's number; none for a writer.
    pub reader: Option<usize>,
    /// Blocks a reader reads.
    pub limit: u64,
    /// Whether blocks carry stamps.
    pub stamps: bool,
    /// A read takes the next block, whichever it is.
    pub queue: bool,
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
            layout,
            role,
            claimed: None,
            next: 0,
            blocks: vec![NONE; depth],
            waiting: false,
            end: StreamEnd::default(),
        }
    }

    /// Whether there is a block to start now; notes whether the worker waits for the stream.
    pub fn claim_block(&mut self) -> NextBlock {
        let next = self.next_block();
        self.waiting = next == NextBlock::Wait;
        next
    }

    /// Sleeps until the stream moves or `until`; false when it does not wait.
    pub fn sleep(&mut self, until: Stamp) -> bool {
        if self.waiting {
            let stream = self.stream.clone();
            stream.wait(until, || self.next_block() != NextBlock::Wait);
        }
        self.waiting
    }

    fn next_block(&mut self) -> NextBlock {
        if let Some(block) = self.claimed {
            return NextBlock::Block(block);
        }
        let turn = match self.role.reader {
            None => self.stream.claim(),
            Some(_) if self.next >= self.role.limit => NextBlock::End,
            Some(_) => self.stream.readable(self.next),
        };
        if let NextBlock::Block(block) = turn {
            self.claimed = Some(block);
        }
        turn
    }

    /// Makes `op` the operation on the block whose turn it is.
    pub fn assign_block(&mut self, slot: u32, op: &mut Op) {
        let Some(block) = self.claimed.take() else {
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
        if !self.role.stamps || self.role.reader.is_some() {
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

    /// The status of a completion and, for a block that was read, the writer's stamp in it: without
    /// one it is not the block that was asked for.
    pub fn judge(
        &mut self,
        slot: u32,
        status: Status,
        session: &mut dyn Session,
    ) -> (Status, Option<Stamp>) {
        if self.role.queue && self.role.reader.is_none() && !status.is_ok() {
            self.stream.lost();
        }
        if !self.role.stamps || self.role.reader.is_none() {
            return (status, None);
        }
        if !status.is_ok() {
            self.end.failed += 1;
            return (status, None);
        }
        let block = self.blocks.get(slot as usize).copied().unwrap_or(NONE);
        match self.stamp_of(block, session.buffer(slot)) {
            None => {
                self.end.failed += 1;
                (Status::VERIFY, None)
            }
            origin => {
                self.end.verified += 1;
                (status, origin)
            }
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
        let right = head[..8] == MARK && (self.role.queue || number(8) == block);
        right.then(|| Stamp(number(16) as i64))
    }

    /// The block in `slot` is done: everybody who waits for it may go on.
    pub fn block_done(&mut self, slot: u32) {
        let Some(kept) = self.blocks.get_mut(slot as usize) else {
            return;
        };
        let block = std::mem::replace(kept, NONE);
        match self.role.reader {
            None => {
                self.end.written += 1;
                self.stream.wrote(block);
            }
            Some(number) => self.stream.read(number, self.read_to()),
        }
    }

    /// The first block that is not read. Blocks may come back in any order; those in flight hold the
    /// others up.
    fn read_to(&self) -> u64 {
        let oldest = self.blocks.iter().copied().min().unwrap_or(NONE);
        oldest.min(self.next)
    }

    /// The worker has ended: tells the others. What it did, where blocks carry stamps.
    pub fn leave(&self) -> Option<StreamEnd> {
        match self.role.reader {
            None => self.stream.writer_left(),
            Some(number) => self.stream.read(number, u64::MAX),
        }
        let read_to = self.role.reader.map(|_| self.read_to());
        self.role.stamps.then_some(StreamEnd { read_to, ..self.end })
    }
}
