//! A stream of blocks or keys that some workers append to and others follow (`access = "follow"`): atomics
//! that hold the next block to write, how far blocks are written without a gap, and how far each reader is.
//! Data goes through the target. Callers: `worker::stream`.
//!
//! A writer that is free takes the next block, whichever of them it is; each reader reads the whole stream, and
//! the readers of a queue whatever block comes next. Block n lies at the n-th place of the extent, around and around; a
//! writer waits rather than overwrite what a reader has not read.
//!
//! Waiting costs no CPU: a waiting worker sleeps on a futex until the next block is complete, and never
//! longer than the time it names.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use rustix::thread::futex;
use taillight_core::{Clock, MonoClock, Stamp};

/// Blocks that may be complete before the oldest one in flight is; writers wait beyond.
const WINDOW: u64 = 1 << 16;
/// Longest sleep, ns, so that a stop request is seen.
const NAP_NS: u64 = 50_000_000;

/// A stream.
#[derive(Debug)]
pub struct SharedStream {
    /// Places in the extent.
    places: u64,
    /// Blocks the writers append in all.
    limit: u64,
    /// Next block to write.
    claimed: AtomicU64,
    /// Every block before this one is written.
    written: AtomicU64,
    /// Block + 1 that was written last, by block modulo the window.
    ring: Box<[AtomicU64]>,
    /// Next block that each reader has not read; `u64::MAX` once it has ended.
    readers: Box<[AtomicU64]>,
    writers_left: AtomicU32,
    /// Whether it is a queue, whose readers wait in the target.
    queue: bool,
    /// Blocks of a queue whose write failed.
    failed: AtomicU64,
    /// Futex word: moves whenever something may have become possible.
    epoch: AtomicU32,
    waiting: AtomicU32,
    /// Stamps by block modulo the window, for targets that keep no data (`sim`, `null`).
    stamps: Option<Box<[AtomicI64]>>,
}

/// What a worker may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextBlock {
    /// Write or read this block.
    Block(u64),
    Wait,
    /// Never again: the stream has ended.
    End,
}

/// What a stream is like.
#[derive(Debug, Clone, Copy)]
pub struct StreamShape {
    /// Places for blocks in the extent.
    pub places: u64,
    /// Blocks at most.
    pub limit: u64,
    pub writers: u32,
    pub readers: u32,
    /// What is read is what was written.
    pub keeps_data: bool,
    /// A read takes the next block, whichever it is, and waits for it in the target.
    pub queue: bool,
}

impl SharedStream {
    /// A stream of this shape.
    pub fn new(shape: StreamShape) -> SharedStream {
        let StreamShape { places, limit, writers, readers, keeps_data, queue } = shape;
        let ring = || (0..WINDOW).map(|_| AtomicU64::new(0)).collect();
        SharedStream {
            places,
            limit,
            claimed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ring: ring(),
            readers: (0..readers).map(|_| AtomicU64::new(0)).collect(),
            writers_left: AtomicU32::new(writers),
            queue,
            failed: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            stamps: (!keeps_data).then(|| (0..WINDOW).map(|_| AtomicI64::new(0)).collect()),
        }
    }

    /// Places in the extent.
    pub fn places(&self) -> u64 {
        self.places
    }

    pub fn is_queue(&self) -> bool {
        self.queue
    }

    /// Takes the next block to write.
    pub fn claim(&self) -> NextBlock {
        loop {
            let block = self.claimed.load(Ordering::SeqCst);
            if block >= self.limit {
                return NextBlock::End;
            }
            let mut room = self.written.load(Ordering::SeqCst).saturating_add(WINDOW);
            // Without data of its own the stream's stamps must not be overwritten either.
            let kept = match &self.stamps {
                Some(_) => self.places.min(WINDOW),
                None => self.places,
            };
            if block >= kept {
                let slowest = self.readers.iter().map(|r| r.load(Ordering::SeqCst)).min();
                room = room.min(slowest.unwrap_or(u64::MAX).saturating_add(kept));
            }
            if block >= room {
                return NextBlock::Wait;
            }
            let taken =
                self.claimed.compare_exchange(block, block + 1, Ordering::SeqCst, Ordering::SeqCst);
            if taken.is_ok() {
                if self.queue {
                    self.wake();
                }
                return NextBlock::Block(block);
            }
        }
    }

    /// Block `block` is written (or failed: its reader finds out).
    pub fn wrote(&self, block: u64) {
        let Some(mark) = self.ring.get((block % WINDOW) as usize) else {
            return;
        };
        // Sequentially consistent: of two writers that finish at once, at least one sees both.
        mark.store(block + 1, Ordering::SeqCst);
        let mut moved = false;
        loop {
            let at = self.written.load(Ordering::SeqCst);
            let done = self.ring.get((at % WINDOW) as usize);
            if done.is_none_or(|d| d.load(Ordering::SeqCst) != at + 1) {
                break;
            }
            let next =
                self.written.compare_exchange(at, at + 1, Ordering::SeqCst, Ordering::SeqCst);
            moved |= next.is_ok();
        }
        if moved {
            self.wake();
        }
    }

    /// The write of a block failed: of a queue nobody waits for it.
    pub fn lost(&self) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }

    /// Blocks that a reader may begin to read: those that are written; of a queue all that were begun, since a read
    /// that begins after the acknowledgement would be timed too long.
    fn ready(&self) -> u64 {
        if !self.queue {
            return self.written.load(Ordering::SeqCst);
        }
        let begun = self.claimed.load(Ordering::SeqCst);
        begun.saturating_sub(self.failed.load(Ordering::SeqCst))
    }

    /// Whether a reader may read `block`.
    pub fn readable(&self, block: u64) -> NextBlock {
        if block < self.ready() {
            return NextBlock::Block(block);
        }
        // The last writer leaves after its last block: looked at in this order nothing is missed.
        let ended = self.writers_left.load(Ordering::SeqCst) == 0;
        if block < self.ready() {
            return NextBlock::Block(block);
        }
        if ended { NextBlock::End } else { NextBlock::Wait }
    }

    /// Reader `number` has read every block before `next`; `u64::MAX`: it has ended.
    pub fn read(&self, number: usize, next: u64) {
        if let Some(reader) = self.readers.get(number) {
            reader.store(next, Ordering::SeqCst);
            self.wake();
        }
    }

    /// A writer has ended.
    pub fn writer_left(&self) {
        self.writers_left.fetch_sub(1, Ordering::SeqCst);
        self.wake();
    }

    /// Keeps a stamp where the target keeps no data; whether it did.
    pub fn keep_stamp(&self, block: u64, at: Stamp) -> bool {
        let cell = self.stamps.as_ref();
        let cell = cell.and_then(|s| s.get((block % WINDOW) as usize));
        cell.map(|c| c.store(at.0, Ordering::Release)).is_some()
    }

    /// The stamp of a block, where the target keeps no data.
    pub fn kept_stamp(&self, block: u64) -> Option<Stamp> {
        let stamps = self.stamps.as_ref()?;
        let cell = stamps.get((block % WINDOW) as usize)?;
        Some(Stamp(cell.load(Ordering::Acquire)))
    }

    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            // It fails only for a bad address.
            let _ = futex::wake(&self.epoch, futex::Flags::PRIVATE, u32::MAX >> 1);
        }
    }

    /// Sleeps until something may have become possible, or `until`, 50 ms at most. `possible` looks once
    /// more after this sleeper has been announced, so that no wake is missed.
    pub fn wait(&self, until: Stamp, possible: impl FnOnce() -> bool) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let seen = self.epoch.load(Ordering::SeqCst);
        if !possible() {
            let left = until.since(MonoClock.now()).max(0) as u64;
            let left = left.min(NAP_NS);
            let time = futex::Timespec { tv_sec: 0, tv_nsec: left as i64 };
            if left > 0 {
                // A time-out, a signal or a moved epoch: in each case the caller looks again.
                let _ = futex::wait(&self.epoch, futex::Flags::PRIVATE, seen, Some(&time));
            }
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_EACH: StreamShape = StreamShape {
        places: 8,
        limit: u64::MAX,
        writers: 1,
        readers: 1,
        keeps_data: true,
        queue: false,
    };

    #[test]
    fn blocks_become_readable_in_order() {
        let s = SharedStream::new(ONE_EACH);
        assert_eq!((s.claim(), s.claim()), (NextBlock::Block(0), NextBlock::Block(1)));
        s.wrote(1);
        assert_eq!(s.readable(0), NextBlock::Wait, "block 0 is still in flight");
        s.wrote(0);
        assert_eq!(s.readable(1), NextBlock::Block(1));
        assert_eq!(s.readable(2), NextBlock::Wait);
        s.writer_left();
        assert_eq!(s.readable(1), NextBlock::Block(1), "what is there is read first");
        assert_eq!(s.readable(2), NextBlock::End);
    }

    #[test]
    fn a_writer_does_not_lap_the_slowest_reader() {
        let s = SharedStream::new(StreamShape { places: 4, readers: 2, ..ONE_EACH });
        for block in 0..4 {
            assert_eq!(s.claim(), NextBlock::Block(block));
            s.wrote(block);
        }
        assert_eq!(s.claim(), NextBlock::Wait);
        s.read(0, 3);
        assert_eq!(s.claim(), NextBlock::Wait, "the other reader has read nothing");
        s.read(1, 1);
        assert_eq!(s.claim(), NextBlock::Block(4));
        assert_eq!(s.claim(), NextBlock::Wait);
        s.read(1, u64::MAX);
        assert_eq!(s.claim(), NextBlock::Block(5), "who has ended holds nobody up");
    }

    #[test]
    fn readers_of_a_queue_begin_before_the_write_is_acknowledged() {
        let s = SharedStream::new(StreamShape { queue: true, ..ONE_EACH });
        assert_eq!(s.readable(0), NextBlock::Wait);
        s.claim();
        s.claim();
        assert_eq!(s.readable(1), NextBlock::Block(1));
        s.lost();
        s.wrote(0);
        assert_eq!(s.readable(1), NextBlock::Wait, "one of the two will never come");
        s.writer_left();
        assert_eq!(s.readable(1), NextBlock::End);
    }

    #[test]
    fn it_ends_at_its_limit() {
        let s = SharedStream::new(StreamShape { places: 4, limit: 2, readers: 0, ..ONE_EACH });
        assert_eq!((s.claim(), s.claim()), (NextBlock::Block(0), NextBlock::Block(1)));
        assert_eq!(s.claim(), NextBlock::End);
    }

    #[test]
    fn writers_and_readers_on_threads_pass_every_block_in_order() {
        const BLOCKS: u64 = 20_000;
        let shape = StreamShape { places: 64, limit: BLOCKS, writers: 3, readers: 2, ..ONE_EACH };
        let s = SharedStream::new(shape);
        let nap = || MonoClock.now().plus(10_000_000);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        match s.claim() {
                            NextBlock::Block(block) => s.wrote(block),
                            NextBlock::Wait => s.wait(nap(), || false),
                            NextBlock::End => return s.writer_left(),
                        }
                    }
                });
            }
            for number in 0..2 {
                let s = &s;
                scope.spawn(move || {
                    let mut next = 0;
                    loop {
                        match s.readable(next) {
                            NextBlock::Block(block) => {
                                next = block + 1;
                                s.read(number, next);
                            }
                            NextBlock::Wait => {
                                s.wait(nap(), || s.readable(next) != NextBlock::Wait)
                            }
                            NextBlock::End => break,
                        }
                    }
                    assert_eq!(next, BLOCKS);
                });
            }
        });
    }
}
