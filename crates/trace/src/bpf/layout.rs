//! Memory and events shared with the trace programs: the Rust face of `bpf/shared.h`.
//!
//! Every field that both sides touch is an atomic. Stamps are read relaxed, after the token of their line: a
//! stamp is written before the completion that lets the process read it.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Operations in flight at most, over all workers.
pub const SLOTS: usize = 4096;
/// Threads traced at most.
pub const THREADS: usize = 4096;
/// Counters.
pub const COUNTERS: usize = 32;
/// Frames of a stack kept.
pub const FRAMES: usize = 20;

/// Events that found the ring full.
pub const C_LOST: usize = 0;
/// Parts queued by a thread with many operations that could be any of them.
pub const C_WANTED: usize = 1;
/// I/Os handed to io_uring worker threads.
pub const C_PUNTED: usize = 2;
/// No count: whether requests know when they were issued, one of these, else 0.
pub const C_ISSUES: usize = 30;
/// All requests so far know when they were issued.
pub const STAMPED: u64 = 1;
/// Some requests do not: the program on the issue is needed.
pub const BARE: u64 = 2;
/// No count: bits that say whose direct I/O was seen of programs that are watched, rings' and others'; and that the
/// programs on others' are to leave, and that all of them are back, which the process says.
pub const C_DIRECT: usize = 31;
pub const RINGS_SEEN: u64 = 1;
pub const OTHERS_SEEN: u64 = 2;
pub const DIRECT_LEFT: u64 = 4;
pub const DIRECT_BACK: u64 = 8;
/// No count: the one file of the run: its inode's number, of a block device the device's; 0 for
/// unknown.
pub const C_FILE: usize = 5;
/// No count: from which latency on operations that are watched are told, ns.
pub const C_SLOW_NS: usize = 27;
/// Operations that were watched to their end.
pub const C_CALLS: usize = 7;
/// Operations and threads that found no room, and operations that came while the programs for them were away.
pub const C_NO_ROOM: usize = 8;
/// No count: when watching began, ns since boot.
pub const C_BEGAN: usize = 9;
/// Calls that read and calls that wrote, of the kinds that the kernel counts, too; syncs, where none can be missed.
pub const C_READS: usize = 12;
pub const C_WRITES: usize = 13;
pub const C_SYNCS: usize = 14;
/// Calls that read, and that wrote, of threads that have ended, as the kernel counts them.
pub const C_ENDED_READS: usize = 15;
pub const C_ENDED_WRITES: usize = 16;
/// Page faults among the operations.
pub const C_FAULTS: usize = 17;
/// No count: operations are told that are not slow, too.
pub const C_RECORD: usize = 28;
/// No count: what is left out for being too dear, see `LEFT_OUT_*` of the programs.
pub const C_LEFT_OUT: usize = 29;
/// Waits of watched threads for each other that are counted and not told.
pub const C_WAITS: usize = 20;
/// No count: what begins now is looked at to its end, whether it blocks or not; how many that are and have not ended.
pub const C_EXACT: usize = 26;
pub const C_EXACT_OPEN: usize = 23;
/// No count: how often the processes that are watched have changed; what the programs know of one holds until then.
pub const C_SUBJECTS: usize = 24;
/// I/Os on the disks under test that are none of the load's: others', the program's own other threads',
/// what the kernel reads ahead.
pub const C_NEIGHBOURS: usize = 3;

/// In [`OperationSlot::sector`]: no part with data was seen.
pub const NOWHERE: u64 = u64::MAX;

/// One operation in flight, a cache line for each writer: the process, the block layer's
/// stamps, rarer ones, those of the lower device, what is counted of parts one after another. What a
/// line says is of the operation whose token it begins with.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OperationSlot {
    /// Token of the operation in flight, 0 when there is none.
    pub token: AtomicU64,
    pub begin: AtomicU64,
    /// Index of its thread; written once.
    pub worker: AtomicU64,
    pub seen_served: AtomicU64,
    pub served: AtomicU64,
    pub answered: AtomicU64,
    /// Operations of the thread that ended; in the first slot of each.
    pub ended: AtomicU64,
    /// Where it ends in the file, bytes; 0 when that is not known.
    pub to: AtomicU64,

    pub seen: AtomicU64,
    pub bio_first: AtomicU64,
    pub alloc: AtomicU64,
    pub issue: AtomicU64,
    pub done: AtomicU64,
    /// Of the first part with data that was seen; [`NOWHERE`].
    pub sector: AtomicU64,
    pub dev: AtomicU32,
    pub flags: AtomicU16,
    pub bios: AtomicU16,
    /// Of parts that are complete: see [`OperationSlot::completed`].
    pub counts: AtomicU64,

    pub seen_more: AtomicU64,
    pub enter: AtomicU64,
    pub bio_last: AtomicU64,
    pub insert: AtomicU64,
    pub cqe: AtomicU64,
    pub held: AtomicU64,
    pub requeue: AtomicU64,
    pub punt: AtomicU64,

    pub seen_low: AtomicU64,
    pub low_bio: AtomicU64,
    pub low_alloc: AtomicU64,
    pub low_issue: AtomicU64,
    pub low_done: AtomicU64,
    pub low_dev: AtomicU32,
    low_depth: AtomicU32,
    low_pad: AtomicU64,
    request: AtomicU64,

    pub seen_part: AtomicU64,
    /// The sync of a write was handed to an io_uring worker thread.
    pub sync_punt: AtomicU64,
    /// How often all parts so far were done when another one came.
    pub rounds: AtomicU32,
    part_pad: AtomicU32,
    /// When a part came last that could be of any operation of the thread; in the first slot of each.
    pub unplaced: AtomicU64,
    part_own: [AtomicU64; 4],
}

impl OperationSlot {
    /// Bytes of one.
    pub const BYTES: usize = 320;

    /// As the programs copied it.
    pub fn of_bytes(bytes: &[u8; OperationSlot::BYTES]) -> OperationSlot {
        let word = |i: usize| {
            bytes[i * 8..i * 8 + 8].iter().rev().fold(0u64, |word, b| word << 8 | u64::from(*b))
        };
        let long = |i| AtomicU64::new(word(i));
        let half = |i| AtomicU32::new(word(i) as u32);
        OperationSlot {
            token: long(0),
            begin: long(1),
            worker: long(2),
            seen_served: long(3),
            served: long(4),
            answered: long(5),
            seen: long(8),
            bio_first: long(9),
            alloc: long(10),
            issue: long(11),
            done: long(12),
            sector: long(13),
            dev: half(14),
            flags: AtomicU16::new((word(14) >> 32) as u16),
            bios: AtomicU16::new((word(14) >> 48) as u16),
            counts: long(15),
            seen_more: long(16),
            enter: long(17),
            bio_last: long(18),
            insert: long(19),
            cqe: long(20),
            held: long(21),
            requeue: long(22),
            punt: long(23),
            seen_low: long(24),
            low_bio: long(25),
            low_alloc: long(26),
            low_issue: long(27),
            low_done: long(28),
            low_dev: half(29),
            seen_part: long(32),
            sync_punt: long(33),
            rounds: half(34),
            ..OperationSlot::default()
        }
    }

    /// Parts that are complete; those among them that were not counted where they were queued; sectors
    /// of the operation's own data, counted only where completions take all stamps.
    pub fn completed(&self) -> (u32, u32, u32) {
        let counts = self.counts.load(Relaxed);
        let of = |shift: u32, bits: u32| (counts >> shift) as u32 & ((1 << bits) - 1);
        (of(0, 20), of(20, 20), of(40, 24))
    }
}

pub use taillight_rundir::layers::EARLIER_ROUNDS as EARLIER;

/// Parts that were in flight together, before the last ones.
#[derive(Debug, Default)]
#[repr(C)]
pub struct RoundStamps {
    /// The first was queued.
    pub bio: AtomicU64,
    /// The request that was done last was allocated.
    pub alloc: AtomicU64,
    /// The latest part was issued.
    pub issue: AtomicU64,
    pub done: AtomicU64,
    /// First part queued by another process.
    pub held: AtomicU64,
}

/// The rounds of an operation before its last one, by time: as many as [`OperationSlot::rounds`] says, at most
/// [`EARLIER`]. The last place is that of the longest of those beyond.
#[derive(Debug, Default)]
#[repr(C)]
pub struct EarlierRounds(pub [RoundStamps; EARLIER]);

/// One thread of the load.
#[derive(Debug, Default)]
#[repr(C)]
pub struct ThreadState {
    /// Thread id.
    pub pid: AtomicU32,
    /// Its first slot.
    pub slot: AtomicU32,
    /// How many slots it has.
    pub depth: AtomicU32,
    by: AtomicU32,
    /// When it left the CPU; 0 since it was seen to come back.
    pub off: AtomicU64,
    pub blocked_ns: AtomicU64,
    pub waited_ns: AtomicU64,
    pub robbed_ns: AtomicU64,
    pub last_in: AtomicU64,
    current: AtomicU64,
    wake: AtomicU64,
    state: AtomicU64,
    pub last_wake: AtomicU64,
    reclaim: AtomicU64,
    by_whom: [AtomicU64; 4],
}

impl ThreadState {
    /// Since when a thread that left the CPU at `off` could have run again: it was preempted, or its wake-up
    /// was seen.
    pub fn runnable_since(&self, off: u64) -> Option<u64> {
        // The lower half is the state.
        let preempted = self.state.load(Relaxed) as u32 == 0;
        let wake = self.wake.load(Relaxed);
        if preempted { Some(off) } else { (wake > off).then_some(wake) }
    }
}

/// What an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEventKind {
    /// A thread came back to the CPU.
    Off,
    /// A part was queued by another process.
    Held,
    Neighbour,
    /// A journal's commit ended.
    Commit,
    /// A thread made room in memory.
    Reclaim,
    /// An io_uring worker thread came back to the CPU.
    Worker,
    /// One came back unseen, some time in between.
    Gap,
    /// A disk flushed its cache.
    Flush,
    /// A thread of the kernel came back to the CPU.
    Kthread,
    /// A hypervisor took a CPU.
    Stolen,
    /// A thread that is watched waited for another one. It becomes an operation, and no row of its own.
    Wait = 11,
}

/// A thread as an event saw it: name and numbers of one moment. Zeros where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadSeen {
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// When the thread began, ns since boot.
    pub start: u64,
    pub comm: [u8; 16],
}

/// One event, as the programs write it.
#[derive(Debug, Clone, Copy)]
pub struct TraceEvent {
    pub kind: TraceEventKind,
    /// Index of the thread, `u32::MAX` for none.
    pub worker: u32,
    pub start: u64,
    pub middle: u64,
    pub end: u64,
    pub a: u64,
    pub b: u64,
    /// Who ran, or did it.
    pub who: ThreadSeen,
    /// Thread that woke the sleeper up; the sleeper itself where that is the kernel's; of neighbours' I/O a mark.
    pub other: ThreadSeen,
    /// Device.
    pub dev: u32,
    pub frames: usize,
    /// Thread of the load that woke it up, from 1 on; 0 for others.
    pub waker: u32,
    /// CPU on which the event was written.
    pub cpu: u32,
    pub stack: [u64; FRAMES],
}

/// Bytes of an event before its stack.
const HEAD: usize = 128;
/// Bytes of an event.
pub const EVENT_BYTES: usize = HEAD + FRAMES * 8;

impl TraceEvent {
    /// Reads an event; `None` for one this version does not know.
    pub fn parse(bytes: &[u8]) -> Option<TraceEvent> {
        if bytes.len() < EVENT_BYTES {
            return None;
        }
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let who = |at: usize| {
            let comm = bytes.get(at + 16..at + 32)?.try_into().ok()?;
            Some(ThreadSeen { tid: half(at)?, pid: half(at + 4)?, start: word(at + 8)?, comm })
        };
        let kind = match half(0)? {
            1 => TraceEventKind::Off,
            2 => TraceEventKind::Held,
            3 => TraceEventKind::Neighbour,
            4 => TraceEventKind::Commit,
            5 => TraceEventKind::Reclaim,
            6 => TraceEventKind::Worker,
            7 => TraceEventKind::Gap,
            8 => TraceEventKind::Flush,
            9 => TraceEventKind::Kthread,
            10 => TraceEventKind::Stolen,
            12 => TraceEventKind::Wait,
            _ => return None,
        };
        let mut stack = [0; FRAMES];
        for (i, frame) in stack.iter_mut().enumerate() {
            *frame = word(HEAD + i * 8)?;
        }
        Some(TraceEvent {
            kind,
            worker: half(4)?,
            start: word(8)?,
            middle: word(16)?,
            end: word(24)?,
            a: word(32)?,
            b: word(40)?,
            who: who(48)?,
            other: who(80)?,
            dev: half(112)?,
            waker: half(120)?,
            cpu: half(116)? >> 16,
            frames: ((half(116)? & 0xffff) as usize / 8).min(FRAMES),
            stack,
        })
    }
}

impl TraceEvent {
    /// As the programs wrote it.
    pub fn bytes(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &(self.kind as u32 + 1).to_ne_bytes());
        put(4, &self.worker.to_ne_bytes());
        let words = [self.start, self.middle, self.end, self.a, self.b];
        words.iter().enumerate().for_each(|(i, word)| put(8 + i * 8, &word.to_ne_bytes()));
        for (at, who) in [(48, &self.who), (80, &self.other)] {
            put(at, &who.tid.to_ne_bytes());
            put(at + 4, &who.pid.to_ne_bytes());
            put(at + 8, &who.start.to_ne_bytes());
            put(at + 16, &who.comm);
        }
        put(112, &self.dev.to_ne_bytes());
        put(116, &((self.cpu << 16) | (self.frames as u32 * 8)).to_ne_bytes());
        put(120, &self.waker.to_ne_bytes());
        let stack = self.stack.iter().enumerate();
        stack.for_each(|(i, frame)| put(HEAD + i * 8, &frame.to_ne_bytes()));
        bytes
    }
}

/// A name of the kernel: up to 15 bytes and a zero.
pub fn name(bytes: &[u8; 16]) -> Option<String> {
    let text: Vec<u8> = bytes.iter().copied().take_while(|b| *b != 0).collect();
    (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// `major:minor` of a device number of the kernel.
pub fn device(dev: u32) -> Option<String> {
    (dev != 0).then(|| format!("{}:{}", dev >> 20, dev & 0xf_ffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<OperationSlot>(), 320);
        assert_eq!(size_of::<ThreadState>(), 128);
        assert_eq!(std::mem::offset_of!(OperationSlot, seen), 64);
        assert_eq!(std::mem::offset_of!(OperationSlot, flags), 116);
        assert_eq!(std::mem::offset_of!(OperationSlot, seen_more), 128);
        assert_eq!(std::mem::offset_of!(OperationSlot, seen_low), 192);
        assert_eq!(std::mem::offset_of!(OperationSlot, seen_part), 256);
        assert_eq!(std::mem::offset_of!(OperationSlot, unplaced), 280);
        assert_eq!(size_of::<EarlierRounds>(), 1280);
        assert_eq!(std::mem::offset_of!(ThreadState, off), 16);
        assert_eq!(std::mem::offset_of!(ThreadState, last_wake), 80);
        assert_eq!(EVENT_BYTES, 288);
    }

    #[test]
    fn counts_of_parts_do_not_run_into_each_other() {
        let slot = OperationSlot::default();
        let (parts, late, sectors) = (1 << 19, (1 << 19) - 1, 1 << 22);
        slot.counts.store(parts | late << 20 | sectors << 40, Relaxed);
        assert_eq!(slot.completed(), (1 << 19, (1 << 19) - 1, 1 << 22));
    }

    #[test]
    fn events_are_read_field_by_field() {
        let mut bytes = vec![0u8; EVENT_BYTES];
        bytes[0] = 1;
        bytes[4] = 7;
        bytes[8] = 9;
        bytes[48] = 12;
        bytes[52] = 11;
        bytes[64..67].copy_from_slice(b"fio");
        bytes[80] = 13;
        bytes[116] = 16;
        bytes[118] = 3;
        bytes[HEAD + 8] = 5;
        let event = TraceEvent::parse(&bytes).unwrap();
        assert_eq!((event.worker, event.start, event.frames), (7, 9, 2));
        assert_eq!(name(&event.who.comm).as_deref(), Some("fio"));
        assert_eq!((event.who.tid, event.who.pid, event.other.tid), (12, 11, 13));
        assert_eq!((event.stack[1], event.cpu), (5, 3));
        for kind in 1..=10 {
            let written: Vec<u8> = (0..EVENT_BYTES).map(|i| (i * 7) as u8).collect();
            bytes[124..].copy_from_slice(&written[124..]);
            bytes[4..116].copy_from_slice(&written[4..116]);
            // Four bytes at 124 are nobody's.
            bytes[124..128].fill(0);
            bytes[0] = kind;
            assert_eq!(TraceEvent::parse(&bytes).unwrap().bytes()[..], bytes[..]);
        }
        assert!(TraceEvent::parse(&bytes[1..]).is_none(), "cut short");
        bytes[0] = 99;
        assert!(TraceEvent::parse(&bytes).is_none(), "unknown kind");
    }

    #[test]
    fn who_was_preempted_or_woken_up_could_run() {
        let thread = ThreadState::default();
        assert_eq!(thread.runnable_since(10), Some(10));
        thread.state.store(77 << 32 | 1, Relaxed);
        assert_eq!(thread.runnable_since(10), None);
        thread.wake.store(9, Relaxed);
        assert_eq!(thread.runnable_since(10), None, "of an earlier sleep");
        thread.wake.store(15, Relaxed);
        assert_eq!(thread.runnable_since(10), Some(15));
    }

    #[test]
    fn devices_have_two_numbers() {
        assert_eq!(device(254 << 20).as_deref(), Some("254:0"));
        assert_eq!(device(0), None);
    }
}
