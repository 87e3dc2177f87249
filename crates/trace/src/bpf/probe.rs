//! The probe of a worker: publishes its operations to the trace programs, keeps what they saw of
//! the slow ones.
//!
//! Hot path: a few stores into shared memory, one histogram bucket. What is kept goes into a batch
//! that is swapped for an empty one when full; without an empty one it is counted as lost.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use taillight_core::probe::{Probe, ProbeSeat, Probes, Token};
use taillight_core::{Error, Op, OpKind, Result, Stamp};
use taillight_rundir::layers::flags;

use super::layout::{C_FILE, NOWHERE, SLOTS, Slot};
use super::own;
use super::programs::Programs;
use super::pulse;
use super::running::{Keep, Running};
use crate::tally::Tally;

/// I/Os of one batch.
pub const BATCH: usize = 1024;

/// One I/O with what was seen of it. Stamps are 0 where nothing was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
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
    pub part_bio: u64,
    pub part_alloc: u64,
    pub part_issue: u64,
    pub part_done: u64,
    pub second_bio: u64,
    pub second_alloc: u64,
    pub second_issue: u64,
    pub second_done: u64,
    pub sync_punt: u64,
    pub rounds: u32,
    /// From, to: the thread came back to the CPU meanwhile, unseen.
    pub unseen: (u64, u64),
}

/// What all probes share.
#[derive(Clone)]
pub struct Common {
    /// The programs' memory.
    pub programs: Arc<Programs>,
    /// Full batches.
    pub full: Sender<Vec<Seen>>,
    /// Empty batches.
    pub spare: Receiver<Vec<Seen>>,
    /// Counts.
    pub tally: Arc<Tally>,
    /// Every I/O is kept.
    pub all: bool,
    /// Completions take all stamps of direct I/O.
    pub late: bool,
    /// From this latency on an I/O is kept, ns.
    pub threshold: Option<u64>,
    /// An operation's offset is one in the only file.
    pub plain: bool,
    /// What is measured.
    pub path: Option<PathBuf>,
    /// Makes tokens unlike those of other processes.
    pub nonce: u64,
}

/// Makes the workers' probes.
pub struct BpfProbes(pub(crate) Common);

impl Probes for BpfProbes {
    type Probe = BpfProbe;

    fn probe(&self, seat: ProbeSeat) -> Result<BpfProbe> {
        let common = &self.0;
        let index = usize::from(seat.worker);
        if index >= pulse::PLACE || (seat.first_slot + seat.depth) as usize > SLOTS {
            return Err(Error::internal("more workers or slots than can be traced"));
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let thread = common.programs.threads.get(index);
        thread.pid.store(tid, Relaxed);
        thread.slot.store(seat.first_slot, Relaxed);
        thread.depth.store(seat.depth, Release);
        for slot in seat.first_slot..seat.first_slot + seat.depth {
            let slot = common.programs.slots.get(slot as usize);
            slot.worker.store(u64::from(seat.worker), Relaxed);
        }
        let mut tids = common
            .programs
            .tids
            .lock()
            .map_err(|_| Error::internal("another worker panicked while it was registered"))?;
        // The target is there by now, also when the run itself has made it.
        let file = common.path.as_deref().and_then(own::number);
        if let (true, Some(number)) = (common.plain, file) {
            common.programs.counters.get(C_FILE).store(number, Relaxed);
        }
        tids.insert(tid, u32::from(seat.worker), 0).map_err(|e| {
            Error::unavailable("a worker cannot be registered for tracing").source(e)
        })?;
        Ok(BpfProbe::new(common, seat))
    }
}

/// What is remembered of an operation at its begin.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    kind: u8,
    offset: u64,
    size: u64,
    submit: i64,
    blocked: u64,
    waited: u64,
    robbed: u64,
}

/// The probe of one worker.
pub struct BpfProbe {
    common: Common,
    worker: u16,
    first_slot: u32,
    running: Box<[Option<Running>]>,
    begun: Box<[Begun]>,
    batch: Vec<Seen>,
    /// Some I/O was seen to reach a disk.
    reaches: bool,
    operations: u64,
    lost: u64,
    /// See [`Seen::unseen`]: the last such stretch.
    unseen: (u64, u64),
}

impl Probe for BpfProbe {
    fn first_generation(&self) -> u64 {
        self.common.nonce
    }

    #[inline]
    fn begin(&mut self, slot: u32, token: Token, at: Stamp, op: &Op) {
        let thread = self.common.programs.threads.get(usize::from(self.worker));
        if thread.off.load(Relaxed) != 0 {
            self.came_back(at.0 as u64);
        }
        let thread = self.common.programs.threads.get(usize::from(self.worker));
        if let Some(begun) = self.begun.get_mut((slot - self.first_slot) as usize) {
            *begun = Begun {
                kind: op.kind as u8,
                offset: op.offset,
                size: op.size,
                submit: at.0,
                blocked: thread.blocked_ns.load(Relaxed),
                waited: thread.waited_ns.load(Relaxed),
                robbed: thread.robbed_ns.load(Relaxed),
            };
        }
        let shared = self.common.programs.slots.get(slot as usize);
        if self.common.plain {
            shared.to.store(op.offset.wrapping_add(op.size), Relaxed);
        }
        shared.begin.store(at.0 as u64, Relaxed);
        shared.token.store(token.0, Release);
    }

    #[inline]
    fn end(&mut self, slot: u32, token: Token, latency_ns: u64) {
        self.operations += 1;
        let index = (slot - self.first_slot) as usize;
        let Some(begun) = self.begun.get(index).copied() else {
            return;
        };
        let threshold = self.common.threshold;
        let Some(running) = self.running.get_mut(usize::from(begun.kind)) else {
            return;
        };
        let keep = running
            .get_or_insert_with(|| Running::new(threshold))
            .keep(latency_ns);
        let thread = self.common.programs.threads.get(usize::from(self.worker));
        if thread.off.load(Relaxed) != 0 {
            self.came_back(begun.submit as u64 + latency_ns);
        }
        if self.common.all || keep != Keep::No {
            self.keep(slot, token, latency_ns, &begun, keep);
        }
        let slots = &self.common.programs.slots;
        slots.get(slot as usize).token.store(0, Relaxed);
        let first = slots.get(self.first_slot as usize);
        first.ended.store(self.operations, Relaxed);
    }
}

impl BpfProbe {
    /// The probe of a seat that lies inside the shared memory.
    pub(super) fn new(common: &Common, seat: ProbeSeat) -> BpfProbe {
        BpfProbe {
            common: common.clone(),
            worker: seat.worker,
            first_slot: seat.first_slot,
            running: (0..OpKind::ALL.len()).map(|_| None).collect(),
            begun: vec![Begun::default(); seat.depth as usize].into(),
            batch: common.spare.try_recv().unwrap_or_default(),
            reaches: false,
            operations: 0,
            lost: 0,
            unseen: (0, 0),
        }
    }

    /// This thread runs, and no program saw it come back to the CPU: some kernels run none while
    /// certain other threads are on it. Nothing is known of the time since it left.
    #[cold]
    fn came_back(&mut self, now: u64) {
        let thread = self.common.programs.threads.get(usize::from(self.worker));
        self.unseen = (thread.off.swap(0, Relaxed), now);
    }

    #[cold]
    fn keep(&mut self, slot: u32, token: Token, latency: u64, begun: &Begun, keep: Keep) {
        if self.batch.len() == self.batch.capacity() && !self.swap() {
            self.lost += 1;
            return;
        }
        let thread = self.common.programs.threads.get(usize::from(self.worker));
        let shared = self.common.programs.slots.get(slot as usize);
        let mut seen = look(shared, token);
        seen.worker = self.worker;
        seen.op = OpKind::from_index(begun.kind).unwrap_or(OpKind::Read);
        if keep != Keep::Slow {
            seen.flags |= flags::SAMPLE as u32;
        }
        if self.begun.len() > 1 {
            seen.flags |= flags::QUEUED as u32;
        }
        seen.submit = begun.submit;
        seen.complete = begun.submit + latency as i64;
        (seen.offset, seen.size) = (begun.offset, begun.size);
        if self.common.late {
            self.reaches |= seen.parts > 0;
            seen.bios = parts_of(&seen, self.reaches);
        }
        let first = self.common.programs.slots.get(self.first_slot as usize);
        if first.unplaced.load(Relaxed) >= begun.submit as u64 {
            seen.flags |= flags::UNCLEAR as u32;
        }
        seen.bios = settled(&seen);
        seen.wake = thread.last_wake.load(Relaxed);
        seen.run = thread.last_in.load(Relaxed);
        let since = |now: &AtomicU64, then: u64| now.load(Relaxed).saturating_sub(then);
        seen.blocked = since(&thread.blocked_ns, begun.blocked);
        seen.waited = since(&thread.waited_ns, begun.waited);
        seen.robbed = since(&thread.robbed_ns, begun.robbed);
        let (from, to) = self.unseen;
        if to > seen.submit as u64 && from < seen.complete as u64 {
            seen.unseen = (from, to);
        }
        self.batch.push(seen);
    }

    /// Hands a full batch over and takes an empty one.
    fn swap(&mut self) -> bool {
        let Ok(empty) = self.common.spare.try_recv() else {
            return false;
        };
        let full = std::mem::replace(&mut self.batch, empty);
        // The collector outlives the workers; without it nobody reads them anyway.
        let _ = self.common.full.send(full);
        true
    }
}

/// What the programs wrote about this very operation.
fn look(s: &Slot, token: Token) -> Seen {
    let of = |line: &AtomicU64| line.load(Ordering::Acquire) == token.0;
    let (block, more, low, served) = (
        of(&s.seen),
        of(&s.seen_more),
        of(&s.seen_low),
        of(&s.seen_served),
    );
    let bio_first = get(block, &s.bio_first);
    let bio_last = get(more, &s.bio_last);
    let early = early(s, token);
    Seen {
        worker: 0,
        op: OpKind::Read,
        flags: if block {
            s.flags.load(Relaxed).into()
        } else {
            0
        },
        submit: 0,
        complete: 0,
        offset: 0,
        size: 0,
        sector: sector(block, s),
        dev: half(block, &s.dev),
        low_dev: half(low, &s.low_dev),
        bios: if block {
            s.bios.load(Relaxed).into()
        } else {
            0
        },
        parts: half(block, &s.parts),
        sectors: half(block, &s.sectors),
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
        wake: 0,
        run: 0,
        blocked: 0,
        waited: 0,
        robbed: 0,
        token: token.0,
        punt: get(more, &s.punt),
        served: get(served, &s.served),
        answered: get(served, &s.answered),
        part_bio: early.part[0],
        part_alloc: early.part[1],
        part_issue: early.part[2],
        part_done: early.part[3],
        second_bio: early.second[0],
        second_alloc: early.second[1],
        second_issue: early.second[2],
        second_done: early.second[3],
        sync_punt: early.sync_punt,
        rounds: early.rounds,
        unseen: (0, 0),
    }
}

/// What is known of rounds of parts before the last one; 0 where nothing is.
struct Early {
    /// First queued, allocated, issued, done: of the round that took longest.
    part: [u64; 4],
    /// The same, of the one next to it.
    second: [u64; 4],
    sync_punt: u64,
    rounds: u32,
}

fn early(s: &Slot, token: Token) -> Early {
    let of = |line: &AtomicU64| line.load(Ordering::Acquire) == token.0;
    let (part, second) = (of(&s.seen_part), of(&s.seen_second));
    let round = |known: bool, stamps: [&AtomicU64; 4]| stamps.map(|v| get(known, v));
    Early {
        part: round(
            part,
            [&s.part_bio, &s.part_alloc, &s.part_issue, &s.part_done],
        ),
        second: round(
            second,
            [
                &s.second_bio,
                &s.second_alloc,
                &s.second_issue,
                &s.second_done,
            ],
        ),
        sync_punt: get(part, &s.sync_punt),
        rounds: half(part, &s.rounds),
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
fn sector(known: bool, s: &Slot) -> u64 {
    if known {
        s.sector.load(Relaxed)
    } else {
        NOWHERE
    }
}

/// How many parts an I/O has whose completions took all stamps: those seen, and one more when they
/// are not all of it. Direct I/O has one at least, where it reaches a disk (holes do not).
fn parts_of(seen: &Seen, reaches: bool) -> u32 {
    let data = matches!(seen.op, OpKind::Read | OpKind::Write) && seen.served == 0;
    let whole = u64::from(seen.sectors) * 512 >= seen.size;
    let least = seen.parts + u32::from(data && !whole && reaches);
    seen.bios.max(least)
}

/// How many parts an I/O has. One that may have had more than those seen is seen in part. One without
/// any may have had none: only its flag says that this is not known.
fn settled(seen: &Seen) -> u32 {
    let more = seen.flags & flags::UNCLEAR as u32 != 0 && seen.bios > 0;
    let least = if more { seen.parts + 1 } else { 0 };
    seen.bios.max(least)
}

impl Drop for BpfProbe {
    fn drop(&mut self) {
        let tally = &self.common.tally;
        tally.operations.fetch_add(self.operations, Relaxed);
        tally.lost.fetch_add(self.lost, Relaxed);
        let _ = self.common.full.send(std::mem::take(&mut self.batch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_an_earlier_operation_are_not_read() {
        let slot = Slot::default();
        slot.seen.store(7, Relaxed);
        slot.done.store(100, Relaxed);
        slot.parts.store(1, Relaxed);
        slot.seen_more.store(6, Relaxed);
        slot.cqe.store(90, Relaxed);
        let seen = look(&slot, Token(7));
        assert_eq!((seen.done, seen.parts, seen.cqe), (100, 1, 0));
        assert_eq!(look(&slot, Token(8)).done, 0);
    }

    #[test]
    fn a_part_that_was_not_seen_is_counted() {
        let io = |parts, sectors| Seen {
            parts,
            sectors,
            size: 8192,
            ..look(&Slot::default(), Token(1))
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
