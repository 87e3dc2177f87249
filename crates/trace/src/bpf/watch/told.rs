//! What the programs tell of one operation of a watched program, and the counts of all of them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use taillight_core::OpKind;
use taillight_core::probe::Token;
use taillight_rundir::layers::flags;

use super::calls;
use crate::bpf::layout::{EarlierRounds, FRAMES, OperationSlot, ThreadSeen};
use crate::bpf::traced_io::{TracedIo, read_slot, settled};

/// Number of the event, see `K_CALL` of the programs.
const KIND: u32 = 11;
/// Number of the event that tells a path, see `K_PATH`; bytes before the path.
const PATH: u32 = 14;
const PATH_HEAD: usize = 16;
/// Bytes before the slot, of all without earlier rounds, and with them.
const HEAD: usize = 264;
const PLAIN: usize = HEAD + OperationSlot::BYTES;
const WITH_ROUNDS: usize = PLAIN + size_of::<EarlierRounds>();

const _: () = assert!(FRAMES == 20, "an event of another kind has another length");

/// Bits of `marks`, see the programs.
const QUEUED: u32 = 1;
const UNSURE: u32 = 2;
const SAMPLE: u32 = 8;
const FAILED: u32 = 16;
const BESIDE: u32 = 256;
const RECORD: u32 = 512;

/// What is known of an operation beside what tracing knows of every I/O.
#[derive(Debug, Clone, PartialEq)]
pub struct CallFacts {
    /// Who did it.
    pub who: ThreadSeen,
    /// Its number, see the table `calls`.
    pub number: u32,
    /// First argument of a system call: of most a file's number.
    pub descriptor: u64,
    /// Device and inode of its file; no inode for a block device itself, no device where it is not known.
    pub dev: u32,
    pub inode: u64,
    /// Which of the files that had this number.
    pub generation: u32,
    /// Error number, 0 where it succeeded or that is not known.
    pub errno: i32,
    /// Begin or end are not sure.
    pub unsure: bool,
    /// Told for being slow.
    pub slow: bool,
    /// Told for nothing else but to be replayed.
    pub plain: bool,
}

impl CallFacts {
    /// Whether the number of its file system is that of a disk: not btrfs's, nor that of what is stored nowhere.
    pub fn has_disk(&self) -> bool {
        self.dev >> 20 != 0
    }

    /// What to call it.
    pub fn call(&self) -> &'static str {
        calls::name(self.number)
    }
}

/// The path that an operation was given, told just before the operation.
pub struct GivenPath {
    pub token: Token,
    pub path: PathBuf,
}

impl GivenPath {
    /// None for any other event.
    pub fn parse(bytes: &[u8]) -> Option<GivenPath> {
        let head = bytes.len() >= PATH_HEAD && half(bytes, 0) == PATH;
        let text = bytes.get(PATH_HEAD..PATH_HEAD + half(bytes.get(..8)?, 4) as usize);
        let path = PathBuf::from(OsStr::from_bytes(text.filter(|_| head)?));
        Some(GivenPath { token: Token(word(bytes, 8)), path })
    }
}

/// One operation that has ended.
pub struct ToldCall {
    pub io: TracedIo,
    pub rounds: EarlierRounds,
    pub facts: CallFacts,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, b| word << 8 | u64::from(*b))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |word, b| word << 8 | u32::from(*b))
}

/// Whether an event tells of an operation.
pub fn is_call(bytes: &[u8]) -> bool {
    bytes.len() >= 4 && half(bytes, 0) == KIND
}

impl ToldCall {
    /// None for what is cut short or of a kind that is not known.
    pub fn parse(bytes: &[u8]) -> Option<ToldCall> {
        if bytes.len() < PLAIN || !is_call(bytes) {
            return None;
        }
        let marks = half(bytes, 180);
        let slot = OperationSlot::of_bytes(bytes[HEAD..PLAIN].try_into().ok()?);
        let mut io = read_slot(&slot, Token(word(bytes, 56)));
        io.worker = half(bytes, 4) as u16;
        io.op = OpKind::from_index(half(bytes, 176) as u8)?;
        (io.submit, io.complete) = (word(bytes, 64) as i64, word(bytes, 8) as i64);
        (io.offset, io.size) = (word(bytes, 136), word(bytes, 144));
        (io.wake, io.run) = (word(bytes, 16), word(bytes, 24));
        (io.blocked, io.waited, io.robbed) = (word(bytes, 32), word(bytes, 40), word(bytes, 48));
        for (mark, flag) in [
            (QUEUED, flags::QUEUED),
            (UNSURE, flags::UNCLEAR),
            (SAMPLE, flags::SAMPLE),
            (BESIDE, flags::BESIDE),
        ] {
            io.flags |= if marks & mark != 0 { flag as u32 } else { 0 };
        }
        io.bios = settled(&io);
        let rounds = EarlierRounds::default();
        match bytes.len() >= WITH_ROUNDS {
            true => fill(&rounds, &bytes[PLAIN..WITH_ROUNDS]),
            false => io.rounds = 0,
        }
        let facts = CallFacts {
            who: ThreadSeen {
                tid: half(bytes, 216),
                pid: half(bytes, 220),
                start: word(bytes, 224),
                comm: bytes[232..248].try_into().ok()?,
            },
            number: half(bytes, 172),
            descriptor: word(bytes, 96),
            dev: half(bytes, 168),
            inode: word(bytes, 160),
            generation: half(bytes, 256),
            errno: if marks & FAILED != 0 { -(word(bytes, 184) as i64) as i32 } else { 0 },
            unsure: marks & UNSURE != 0,
            slow: marks & (SAMPLE | BESIDE | RECORD) == 0,
            plain: marks & RECORD != 0,
        };
        Some(ToldCall { io, rounds, facts })
    }
}

fn fill(rounds: &EarlierRounds, bytes: &[u8]) {
    for (round, bytes) in rounds.0.iter().zip(bytes.chunks_exact(40)) {
        let fields = [&round.bio, &round.alloc, &round.issue, &round.done, &round.held];
        fields.iter().enumerate().for_each(|(i, field)| field.store(word(bytes, i * 8), Relaxed));
    }
}

/// Kinds of operation that are counted, and numbers that the programs keep of each: latency places, and behind them
/// `SUMS` others.
pub const KINDS: usize = 16;
pub const PLACES: usize = 32_768;
const SUMS: usize = 6;

/// How many operations of one kind ended, by latency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTally {
    pub count: u64,
    pub failed: u64,
    /// Of those whose result is known.
    pub bytes: u64,
    pub sum_ns: u64,
    /// Those of which it was not seen what they returned.
    pub unknown: u64,
    /// Those whose latency is not known; they have no place.
    pub untimed: u64,
    /// Place and how many, those with any.
    pub places: Vec<(u16, u64)>,
}

/// What came since the reading before, whose place `now` takes; kinds without any are left out.
pub fn new_since(
    before: &mut BTreeMap<OpKind, CallTally>,
    now: Vec<(OpKind, CallTally)>,
) -> Vec<(OpKind, CallTally)> {
    let mut new = Vec::new();
    for (op, now) in now {
        let came = now.since(before.get(&op).unwrap_or(&CallTally::default()));
        if came.count > 0 {
            new.push((op, came));
        }
        before.insert(op, now);
    }
    new
}

/// What several times had, by kind.
pub fn together<'a>(
    all: impl Iterator<Item = &'a (OpKind, CallTally)>,
) -> Vec<(OpKind, CallTally)> {
    let mut sums: BTreeMap<OpKind, CallTally> = BTreeMap::new();
    for (op, tally) in all {
        sums.entry(*op).or_default().add(tally);
    }
    sums.into_iter().collect()
}

impl CallTally {
    /// Reads those of one kind, if there are any.
    pub(super) fn of(get: impl Fn(usize) -> u64) -> Option<CallTally> {
        (get(PLACES - 1) > 0).then(|| CallTally::read(get))
    }

    fn read(get: impl Fn(usize) -> u64) -> CallTally {
        let places = (0..PLACES - SUMS).map(|i| (i as u16, get(i))).filter(|p| p.1 > 0);
        let (places, untimed): (Vec<_>, _) = (places.collect(), get(PLACES - 6));
        CallTally {
            failed: get(PLACES - 4),
            bytes: get(PLACES - 3),
            sum_ns: get(PLACES - 2),
            count: untimed + places.iter().map(|p| p.1).sum::<u64>(),
            unknown: get(PLACES - 5),
            untimed,
            places,
        }
    }

    /// What came since an earlier reading.
    pub fn since(&self, before: &CallTally) -> CallTally {
        let of = |place: u16| {
            let found = before.places.binary_search_by_key(&place, |p| p.0);
            found.map_or(0, |i| before.places[i].1)
        };
        let places = self.places.iter().map(|(p, n)| (*p, n.saturating_sub(of(*p))));
        CallTally {
            count: self.count.saturating_sub(before.count),
            failed: self.failed.saturating_sub(before.failed),
            bytes: self.bytes.saturating_sub(before.bytes),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            unknown: self.unknown.saturating_sub(before.unknown),
            untimed: self.untimed.saturating_sub(before.untimed),
            places: places.filter(|p| p.1 > 0).collect(),
        }
    }

    /// Adds what another interval had.
    pub fn add(&mut self, other: &CallTally) {
        self.count += other.count;
        self.failed += other.failed;
        self.bytes += other.bytes;
        self.sum_ns += other.sum_ns;
        self.unknown += other.unknown;
        self.untimed += other.untimed;
        for (place, n) in &other.places {
            match self.places.binary_search_by_key(place, |p| p.0) {
                Ok(at) => self.places[at].1 += n,
                Err(at) => self.places.insert(at, (*place, *n)),
            }
        }
    }

    /// Operations that took as long as this or longer, as far as places tell: 0.2 % of the latency.
    pub fn at_least(&self, ns: u64) -> u64 {
        self.places.iter().filter(|(p, _)| lower_edge(*p) >= ns).map(|p| p.1).sum()
    }

    /// The latency, ns, that this `part` of the operations, 0 to 1, lies above; none without operations.
    pub fn above(&self, part: f64) -> Option<u64> {
        let total: u64 = self.places.iter().map(|p| p.1).sum();
        let most = (total as f64 * part) as u64;
        let mut above = 0;
        self.places.iter().rev().find_map(|(place, n)| {
            above += n;
            (above > most).then(|| lower_edge(*place))
        })
    }
}

/// The least latency of a place, ns; its largest is less than that of the next one.
pub fn lower_edge(place: u16) -> u64 {
    let (octave, step) = (u32::from(place / 512), u64::from(place % 512));
    if octave == 0 { step } else { (512 + step) << (octave - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_read_field_by_field() {
        let mut bytes = vec![0; PLAIN];
        let mut put =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let token = 4096 + 7;
        put(0, 11 | 9 << 32);
        put(8, 2000);
        put(56, token);
        put(64, 1000);
        put(136, 8192);
        put(144, 4096);
        put(168, 74 << 32 | 8);
        put(176, 3 | u64::from(QUEUED | SAMPLE | FAILED) << 32);
        put(184, (-5i64) as u64);
        put(216, 12 | 11 << 32);
        // The block layer's line of the slot.
        put(HEAD, token);
        put(HEAD + 64, token);
        put(HEAD + 96, 1900);
        put(HEAD + 112, 7 | 1 << 48);
        put(HEAD + 120, 1);
        let told = ToldCall::parse(&bytes).expect("an operation");
        let io = &told.io;
        assert_eq!((io.worker, io.op, io.submit, io.complete), (9, OpKind::Fsync, 1000, 2000));
        assert_eq!((io.offset, io.size, io.done, io.dev), (8192, 4096, 1900, 7));
        assert_eq!((io.bios, io.parts), (1, 1));
        assert_eq!(u64::from(io.flags), flags::QUEUED | flags::SAMPLE);
        let facts = &told.facts;
        assert_eq!((facts.who.tid, facts.who.pid, facts.errno), (12, 11, 5));
        assert_eq!((facts.call(), facts.dev, facts.slow), ("fsync", 8, false));
        assert!(ToldCall::parse(&bytes[1..]).is_none(), "cut short");
        bytes[0] = 12;
        assert!(!is_call(&bytes) && ToldCall::parse(&bytes).is_none());
    }

    #[test]
    fn the_path_of_an_operation_is_read() {
        let mut bytes = vec![0; PATH_HEAD + 256];
        bytes[..16].copy_from_slice(&[14, 0, 0, 0, 5, 0, 0, 0, 7, 16, 0, 0, 0, 0, 0, 0]);
        bytes[16..23].copy_from_slice(b"/a b\n\0x");
        let given = GivenPath::parse(&bytes).expect("a path");
        assert_eq!((given.token.0, given.path), (4096 + 7, "/a b\n".into()));
        bytes[5] = 2;
        assert!(GivenPath::parse(&bytes).is_none(), "longer than it can be");
        bytes[..8].copy_from_slice(&[11, 0, 0, 0, 5, 0, 0, 0]);
        assert!(GivenPath::parse(&bytes).is_none() && GivenPath::parse(&bytes[..3]).is_none());
    }

    #[test]
    fn counts_are_of_the_time_since() {
        let tally = |list: &[(usize, u64)]| {
            CallTally::read(|i| list.iter().find(|p| p.0 == i).map_or(0, |p| p.1))
        };
        let before = tally(&[(1024, 5), (32_767, 1)]);
        let now = tally(&[(1024, 6), (3000, 2), (32_762, 4), (32_767, 1), (32_764, 1)]);
        let since = now.since(&before);
        assert_eq!(
            (since.count, since.failed, &*since.places),
            (7, 1, &[(1024, 1), (3000, 2)][..]),
            "4 of them without a latency"
        );
        assert_eq!(since.at_least(lower_edge(3000)), 2);
        assert_eq!(since.above(0.5), Some(lower_edge(3000)));
        assert_eq!((lower_edge(511), lower_edge(512), lower_edge(1024)), (511, 512, 1024));
    }
}
