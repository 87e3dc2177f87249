//! What the programs saw of one operation, taken out of the memory shared with them, and the batches in
//! which it goes from the workers' probes to the collector.
//!
//! Hot path: one operation's stamps are copied where it is kept. A batch has its whole memory from the
//! start.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

use taillight_core::probe::Token;
use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use super::layout::{EARLIER, EarlierRounds, NOWHERE, OperationSlot};

/// I/Os of one batch of which something was seen.
pub const BATCH: usize = 1024;
/// I/Os of one batch that met no trace program.
pub const UNTOUCHED: usize = 4 * BATCH;
/// Earlier rounds of one batch, of all its I/Os.
const ROUNDS: usize = 4 * BATCH;

/// One I/O with what was seen of it. Stamps are absolute, ns, and 0 where nothing was seen; the columns of
/// `layers.parquet` with the same names say what each is (`taillight_rundir::layers`).
#[derive(Debug, Clone, Copy, Default)]
pub struct TracedIo {
    pub worker: u16,
    pub op: OpKind,
    pub flags: u32,
    pub submit: i64,
    pub complete: i64,
    pub offset: u64,
    pub size: u64,
    pub sector: u64,
    pub dev: u32,
    pub low_dev: u32,
    pub bios: u32,
    pub parts: u32,
    pub sectors: u32,
    pub enter: u64,
    pub bio_first: u64,
    pub bio_last: u64,
    pub held: u64,
    pub alloc: u64,
    pub insert: u64,
    pub issue: u64,
    pub requeue: u64,
    pub done: u64,
    pub cqe: u64,
    pub low_bio: u64,
    pub low_alloc: u64,
    pub low_issue: u64,
    pub low_done: u64,
    pub wake: u64,
    pub run: u64,
    pub blocked: u64,
    pub waited: u64,
    pub robbed: u64,
    pub token: u64,
    pub punt: u64,
    pub served: u64,
    pub answered: u64,
    pub sync_punt: u64,
    pub rounds: u32,
    /// From, to: the thread came back to the CPU meanwhile, unseen.
    pub unseen: (u64, u64),
    /// Since when it could have run in that time; 0 when that is not known.
    pub could_run: u64,
}

/// Parts of an I/O that were in flight together, before its last ones. Stamps are 0 where nothing was
/// seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierRound {
    pub bio: u64,
    pub alloc: u64,
    pub issue: u64,
    pub done: u64,
    pub held: u64,
}

/// An I/O that met no trace program, and whose thread never left its CPU meanwhile: a line of memory. Fields are those of
/// [`TracedIo`]; the others are as in [`nothing_seen`].
#[derive(Debug, Clone, Copy, Default)]
pub struct UntouchedIo {
    pub worker: u16,
    pub op: OpKind,
    pub flags: u32,
    pub submit: i64,
    pub complete: i64,
    pub offset: u64,
    pub size: u64,
    pub wake: u64,
    pub run: u64,
    pub token: u64,
}

/// An I/O of which nothing is known yet.
pub fn nothing_seen(token: u64) -> TracedIo {
    TracedIo { sector: NOWHERE, token, ..TracedIo::default() }
}

/// An I/O with its earlier rounds.
pub type IoWithRounds<'a> = (TracedIo, &'a [EarlierRound]);

/// An I/O where it is kept.
#[derive(Clone, Copy)]
pub enum KeptIo<'a> {
    Seen(&'a TracedIo, &'a [EarlierRound]),
    Untouched(&'a UntouchedIo),
}

impl<'a> KeptIo<'a> {
    /// Worker and begin, by which I/Os are sorted.
    pub fn key(&self) -> (u16, i64) {
        match self {
            KeptIo::Seen(io, _) => (io.worker, io.submit),
            KeptIo::Untouched(io) => (io.worker, io.submit),
        }
    }

    /// From submit to complete.
    pub fn time(&self) -> TimeSpan {
        match self {
            KeptIo::Seen(io, _) => TimeSpan::new(io.submit, io.complete),
            KeptIo::Untouched(io) => TimeSpan::new(io.submit, io.complete),
        }
    }

    pub fn flags(&self) -> u64 {
        match self {
            KeptIo::Seen(io, _) => io.flags.into(),
            KeptIo::Untouched(io) => io.flags.into(),
        }
    }

    /// With all fields, and its earlier rounds.
    pub fn whole(self) -> IoWithRounds<'a> {
        match self {
            KeptIo::Seen(io, rounds) => (*io, rounds),
            KeptIo::Untouched(io) => (io.whole(), &[]),
        }
    }

    /// As it stands in a file, behind `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            KeptIo::Seen(io, rounds) => {
                bytes.extend_from_slice(&io.bytes());
                rounds.iter().for_each(|round| bytes.extend_from_slice(&round.bytes()));
            }
            KeptIo::Untouched(io) => {
                bytes.extend_from_slice(&UNTOUCHED_MARK);
                bytes.extend_from_slice(&io.bytes());
            }
        }
    }
}

impl UntouchedIo {
    /// With all fields.
    pub fn whole(&self) -> TracedIo {
        TracedIo {
            worker: self.worker,
            op: self.op,
            flags: self.flags,
            submit: self.submit,
            complete: self.complete,
            offset: self.offset,
            size: self.size,
            wake: self.wake,
            run: self.run,
            ..nothing_seen(self.token)
        }
    }
}

/// I/Os on their way to the collector.
#[derive(Debug, Default)]
pub struct TracedBatch {
    ios: Vec<TracedIo>,
    untouched: Vec<UntouchedIo>,
    /// Earlier rounds of `ios`, in their order.
    rounds: Vec<EarlierRound>,
}

impl TracedBatch {
    /// An empty one, with its memory.
    pub fn empty() -> TracedBatch {
        TracedBatch {
            ios: Vec::with_capacity(BATCH),
            untouched: Vec::with_capacity(UNTOUCHED),
            rounds: Vec::with_capacity(ROUNDS),
        }
    }

    /// An empty one whose memory for I/Os is there: a worker that fills it meets no page faults.
    pub fn touched() -> TracedBatch {
        let (ios, untouched) = (touched_room(BATCH), touched_room(UNTOUCHED));
        TracedBatch { ios, untouched, ..TracedBatch::empty() }
    }

    /// Whether one more I/O finds room, with any number of rounds.
    pub fn has_room(&self) -> bool {
        let rounds = self.rounds.capacity() - self.rounds.len();
        self.ios.len() < self.ios.capacity()
            && self.untouched.len() < self.untouched.capacity()
            && rounds >= EARLIER
    }

    /// Takes an I/O in, with what is kept of its earlier rounds. Allocates nothing where there is
    /// [room](Self::has_room).
    pub(super) fn push(&mut self, seen: TracedIo, earlier: &EarlierRounds) {
        let kept = earlier.0.iter().take(seen.kept());
        self.rounds.extend(kept.map(|r| EarlierRound {
            bio: r.bio.load(Relaxed),
            alloc: r.alloc.load(Relaxed),
            issue: r.issue.load(Relaxed),
            done: r.done.load(Relaxed),
            held: r.held.load(Relaxed),
        }));
        self.ios.push(seen);
    }

    /// The same for one that met no program.
    pub fn push_untouched(&mut self, io: UntouchedIo) {
        self.untouched.push(io);
    }

    /// Whether the first I/O of a kind ended so long before this time, ns.
    pub fn older(&self, now: i64, than_ns: i64) -> bool {
        let first = self.ios.first().map(|io| io.complete);
        let untouched = self.untouched.first().map(|io| io.complete);
        first.into_iter().chain(untouched).any(|first| now - first >= than_ns)
    }

    /// Forgets what is in it.
    pub fn clear(&mut self) {
        self.ios.clear();
        self.untouched.clear();
        self.rounds.clear();
    }

    /// What is in it. Afterwards it is empty and has the room of [`TracedBatch::empty`]: the memory of a kind of I/Os that
    /// was full goes with them, and that of `spare` takes its place, or new memory that is touched.
    pub fn take(&mut self, spare: &mut TracedBatch) -> TracedBatch {
        let ios = taken(&mut self.ios, &mut spare.ios, BATCH);
        let untouched = taken(&mut self.untouched, &mut spare.untouched, UNTOUCHED);
        let rounds = self.rounds.to_vec();
        self.rounds.clear();
        self.rounds.reserve_exact(ROUNDS);
        TracedBatch { ios, untouched, rounds }
    }

    /// How many I/Os are in it.
    pub fn len(&self) -> usize {
        self.ios.len() + self.untouched.len()
    }

    /// Memory that was touched, bytes.
    pub fn bytes(&self) -> usize {
        self.ios.capacity() * size_of::<TracedIo>()
            + self.untouched.capacity() * size_of::<UntouchedIo>()
            + size_of_val(&*self.rounds)
    }

    /// The I/Os with their earlier rounds.
    pub fn each(&self) -> impl Iterator<Item = KeptIo<'_>> {
        let mut rest = &*self.rounds;
        let seen = self.ios.iter().map(move |seen| {
            let (own, others) = rest.split_at(seen.kept().min(rest.len()));
            rest = others;
            KeptIo::Seen(seen, own)
        });
        seen.chain(self.untouched.iter().map(KeptIo::Untouched))
    }
}

/// Room for so many whose memory is there.
fn touched_room<T: Copy + Default>(many: usize) -> Vec<T> {
    let mut room = vec![T::default(); many];
    room.clear();
    room
}

/// What is in `kept`, as a copy where that has room for `room` and is not full; else its memory goes, and `kept` gets that of
/// `spare`, or new.
fn taken<T: Copy + Default>(kept: &mut Vec<T>, spare: &mut Vec<T>, room: usize) -> Vec<T> {
    if kept.capacity() >= room && kept.len() < room {
        let part = kept.to_vec();
        kept.clear();
        return part;
    }
    let other = if spare.capacity() < room { touched_room(room) } else { std::mem::take(spare) };
    std::mem::replace(kept, other)
}

/// Bytes of a traced I/O in a file, before its rounds.
pub const IO_BYTES: usize = 41 * 8;
/// Bytes of a round there.
pub const ROUND_BYTES: usize = 5 * 8;
/// Bytes of an I/O that met no trace program there, and the word that stands before it and begins no other.
pub const UNTOUCHED_BYTES: usize = 10 * 8;
pub const UNTOUCHED_MARK: [u8; 8] = [0xFF; 8];

/// A structure of numbers as words of a file and back: its fields in this order, then its kind of operation and a pair.
macro_rules! as_words {
    ($name:ident, $bytes:expr, [$($field:ident),*] $(, op $op:ident)? $(, pair $pair:ident)?) => {
        impl $name {
            pub fn bytes(&self) -> [u8; $bytes] {
                let words =
                    [$(self.$field as u64,)* $(self.$op as u64,)? $(self.$pair.0, self.$pair.1)?];
                let mut bytes = [0; $bytes];
                let places = bytes.chunks_exact_mut(8).zip(words);
                places.for_each(|(place, word)| place.copy_from_slice(&word.to_ne_bytes()));
                bytes
            }

            /// `None` for bytes that are no such structure.
            pub fn parse(bytes: &[u8; $bytes]) -> Option<$name> {
                let mut words = bytes.chunks_exact(8).map(|word| {
                    u64::from_ne_bytes(word.try_into().unwrap_or_default())
                });
                Some($name {
                    $($field: words.next()? as _,)*
                    $($op: OpKind::from_index(words.next()? as u8)?,)?
                    $($pair: (words.next()?, words.next()?),)?
                })
            }
        }
    };
}

as_words!(EarlierRound, ROUND_BYTES, [bio, alloc, issue, done, held]);
as_words!(
    UntouchedIo,
    UNTOUCHED_BYTES,
    [worker, flags, submit, complete, offset, size, wake, run, token],
    op op
);
as_words!(
    TracedIo,
    IO_BYTES,
    [
        worker, submit, complete, flags, offset, size, sector, dev, low_dev, bios, parts, sectors,
        enter, bio_first, bio_last, held, alloc, insert, issue, requeue, done, cqe, low_bio,
        low_alloc, low_issue, low_done, wake, run, blocked, waited, robbed, token, punt, served,
        answered, sync_punt, rounds, could_run
    ],
    op op,
    pair unseen
);

impl TracedIo {
    /// How many of its earlier rounds are kept.
    pub fn kept(&self) -> usize {
        (self.rounds as usize).min(EARLIER)
    }
}

/// Whether a program wrote anything about this very operation.
pub(super) fn is_touched(s: &OperationSlot, token: Token) -> bool {
    let lines = [&s.seen, &s.seen_more, &s.seen_low, &s.seen_served, &s.seen_part];
    lines.iter().any(|line| line.load(Acquire) == token.0)
}

/// What the programs wrote about this very operation.
pub(super) fn read_slot(s: &OperationSlot, token: Token) -> TracedIo {
    let of = |line: &AtomicU64| line.load(Acquire) == token.0;
    let (block, more, low) = (of(&s.seen), of(&s.seen_more), of(&s.seen_low));
    let (served, part) = (of(&s.seen_served), of(&s.seen_part));
    let bio_first = get(block, &s.bio_first);
    let (queued, (parts, late, sectors)) =
        if block { (s.bios.load(Relaxed).into(), s.completed()) } else { (0, (0, 0, 0)) };
    let bio_last = get(more, &s.bio_last);
    TracedIo {
        flags: if block { s.flags.load(Relaxed).into() } else { 0 },
        sector: sector(block, s),
        dev: half(block, &s.dev),
        low_dev: half(low, &s.low_dev),
        bios: queued + late,
        parts,
        sectors,
        enter: get(more, &s.enter),
        bio_first,
        bio_last: if bio_last == 0 { bio_first } else { bio_last },
        held: get(more, &s.held),
        alloc: get(block, &s.alloc),
        insert: get(more, &s.insert),
        issue: get(block, &s.issue),
        requeue: get(more, &s.requeue),
        done: get(block, &s.done),
        cqe: get(more, &s.cqe),
        low_bio: get(low, &s.low_bio),
        low_alloc: get(low, &s.low_alloc),
        low_issue: get(low, &s.low_issue),
        low_done: get(low, &s.low_done),
        punt: get(more, &s.punt),
        served: get(served, &s.served),
        answered: get(served, &s.answered),
        sync_punt: get(part, &s.sync_punt),
        rounds: half(part, &s.rounds),
        ..nothing_seen(token.0)
    }
}

/// A field of a line that is known to be of this operation.
fn get(known: bool, v: &AtomicU64) -> u64 {
    if known { v.load(Relaxed) } else { 0 }
}

/// The same, of 32 bits.
fn half(known: bool, v: &AtomicU32) -> u32 {
    if known { v.load(Relaxed) } else { 0 }
}

/// The same, of a place.
fn sector(known: bool, s: &OperationSlot) -> u64 {
    if known { s.sector.load(Relaxed) } else { NOWHERE }
}

/// How many parts an I/O has, at least, where the program on completions takes every stamp: those seen,
/// and one more when their data are not all of the I/O's. Direct I/O has one at least, where it reaches a disk (holes do not).
pub(super) fn parts_of(seen: &TracedIo, reaches: bool) -> u32 {
    let data = matches!(seen.op, OpKind::Read | OpKind::Write) && seen.served == 0;
    let whole = u64::from(seen.sectors) * 512 >= seen.size;
    let least = seen.parts + u32::from(data && !whole && reaches);
    seen.bios.max(least)
}

/// How many parts an I/O has. One that may have had more than those seen is seen in part. One without
/// any may have had none: only its flag says that this is not known.
pub(super) fn settled(seen: &TracedIo) -> u32 {
    let more = seen.flags & flags::UNCLEAR as u32 != 0 && seen.bios > 0;
    let least = if more { seen.parts + 1 } else { 0 };
    seen.bios.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An I/O with the stamps of so many earlier rounds, each unlike the others.
    fn in_rounds(rounds: u32, token: u64) -> (TracedIo, EarlierRounds) {
        let earlier = EarlierRounds::default();
        for (i, round) in earlier.0.iter().enumerate() {
            round.bio.store(token * 1000 + i as u64, Relaxed);
        }
        let seen = TracedIo { rounds, ..read_slot(&OperationSlot::default(), Token(token)) };
        (seen, earlier)
    }

    #[test]
    fn rounds_stay_with_their_io_and_a_full_batch_says_so() {
        let mut batch = TracedBatch::empty();
        let room = (batch.ios.capacity(), batch.rounds.capacity());
        for (token, rounds) in [(1, 2), (2, 0), (3, 40), (4, 1)] {
            let (seen, earlier) = in_rounds(rounds, token);
            batch.push(seen, &earlier);
        }
        let kept: Vec<(u64, Vec<u64>)> = batch
            .each()
            .map(KeptIo::whole)
            .map(|(io, rounds)| (io.token, rounds.iter().map(|r| r.bio).collect()))
            .collect();
        let of = |token: u64, n: u64| (token, (0..n).map(|i| token * 1000 + i).collect::<Vec<_>>());
        assert_eq!(kept, [of(1, 2), of(2, 0), of(3, 32), of(4, 1)]);
        let (seen, earlier) = in_rounds(32, 5);
        while batch.has_room() {
            batch.push(seen, &earlier);
        }
        assert_eq!(room, (batch.ios.capacity(), batch.rounds.capacity()));
        assert!(batch.ios.len() < BATCH, "rounds filled it");
        assert_eq!(size_of::<TracedIo>(), 288, "docs/explain.md says how many fit");
        assert_eq!(size_of::<UntouchedIo>(), 64, "the same");
    }

    #[test]
    fn what_met_no_program_is_kept_as_if_it_had_been_read_whole() {
        let slot = OperationSlot::default();
        slot.seen.store(6, Relaxed);
        assert!(is_touched(&slot, Token(6)) && !is_touched(&slot, Token(7)));
        let mut read = read_slot(&slot, Token(7));
        (read.worker, read.op, read.flags) = (3, OpKind::Write, flags::SAMPLE as u32);
        (read.submit, read.complete, read.offset, read.size) = (10, 20, 4096, 512);
        (read.wake, read.run) = (1, 2);
        let mut batch = TracedBatch::touched();
        batch.push_untouched(UntouchedIo {
            worker: 3,
            op: OpKind::Write,
            flags: flags::SAMPLE as u32,
            submit: 10,
            complete: 20,
            offset: 4096,
            size: 512,
            wake: 1,
            run: 2,
            token: 7,
        });
        let kept = |batch: &TracedBatch| batch.each().next().unwrap().whole().0.bytes();
        assert_eq!(kept(&batch), read.bytes());
        let mut bytes = Vec::new();
        batch.each().for_each(|io| io.write(&mut bytes));
        let (mark, rest) = bytes.split_first_chunk().unwrap();
        let back = UntouchedIo::parse(rest.try_into().unwrap()).unwrap();
        assert_eq!((*mark, back.whole().bytes()), (UNTOUCHED_MARK, read.bytes()));
        assert!(batch.older(30, 10) && !batch.older(30, 11));
        let part = batch.take(&mut TracedBatch::default());
        assert_eq!((kept(&part), batch.len(), part.bytes()), (read.bytes(), 0, 64));
    }

    #[test]
    fn memory_goes_with_what_fills_it_and_other_memory_takes_its_place() {
        let room = |b: &TracedBatch| (b.ios.capacity(), b.untouched.capacity());
        let mut batch = TracedBatch::empty();
        (0..BATCH).for_each(|_| batch.ios.push(nothing_seen(1)));
        batch.untouched.push(UntouchedIo::default());
        let (mut spare, full) = (TracedBatch::touched(), batch.ios.as_ptr());
        let other = spare.ios.as_ptr();
        let part = batch.take(&mut spare);
        assert_eq!((part.ios.as_ptr(), batch.ios.as_ptr()), (full, other));
        assert_eq!((room(&part), part.len()), ((BATCH, 1), BATCH + 1));
        assert_eq!((room(&batch), room(&spare).0), ((BATCH, UNTOUCHED), 0));
        batch.ios.resize(BATCH, nothing_seen(1));
        batch.take(&mut spare);
        assert_eq!((room(&batch), batch.len()), ((BATCH, UNTOUCHED), 0));
        // A worker that found none ready began with one without any memory.
        let mut none = TracedBatch::default();
        assert_eq!(none.take(&mut spare).len(), 0);
        assert!(none.has_room() && room(&none) == (BATCH, UNTOUCHED));
    }

    #[test]
    fn an_io_comes_back_from_a_file_as_it_was() {
        // Each word its own.
        let mut bytes = [0; IO_BYTES];
        for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&(i as u64 % 7 + 1).to_ne_bytes());
        }
        let io = TracedIo::parse(&bytes).unwrap();
        assert_eq!(io.bytes(), bytes);
        assert_eq!((io.worker, io.submit, io.rounds), (1, 2, 36 % 7 + 1));
        let (_, earlier) = in_rounds(1, 9);
        let mut batch = TracedBatch::empty();
        batch.push(TracedIo { rounds: 1, ..io }, &earlier);
        let (_, rounds) = batch.each().next().unwrap().whole();
        assert_eq!(EarlierRound::parse(&rounds[0].bytes()), Some(rounds[0]));
    }

    #[test]
    fn lines_of_an_earlier_operation_are_not_read() {
        let slot = OperationSlot::default();
        slot.seen.store(7, Relaxed);
        slot.done.store(100, Relaxed);
        slot.counts.store(1, Relaxed);
        slot.seen_more.store(6, Relaxed);
        slot.cqe.store(90, Relaxed);
        let seen = read_slot(&slot, Token(7));
        assert_eq!((seen.done, seen.parts, seen.cqe), (100, 1, 0));
        assert_eq!(read_slot(&slot, Token(8)).done, 0);
    }

    #[test]
    fn a_part_that_was_not_seen_is_counted() {
        let io = |parts, sectors| TracedIo {
            parts,
            sectors,
            size: 8192,
            ..read_slot(&OperationSlot::default(), Token(1))
        };
        assert_eq!(parts_of(&io(1, 16), true), 1, "whole");
        assert_eq!(parts_of(&io(1, 8), true), 2, "half of it");
        assert_eq!(parts_of(&io(0, 0), true), 1, "the completion went unseen");
        assert_eq!(parts_of(&io(0, 0), false), 0, "a hole: no disk has it");
        let mut unclear = io(1, 16);
        (unclear.bios, unclear.flags) = (1, flags::UNCLEAR as u32 | 8);
        assert_eq!(settled(&unclear), 2, "perhaps not all of it");
        unclear.bios = 0;
        assert_eq!(settled(&unclear), 0, "the flag says that it is not known");
        unclear.flags = 8;
        unclear.bios = 1;
        assert_eq!(settled(&unclear), 1);
        let mut sync = io(1, 0);
        sync.op = OpKind::Fsync;
        assert_eq!(parts_of(&sync, true), 1, "no data");
    }
}
