//! blktrace's binary files (`sda.blktrace.0` and so on, or all of them one after another).
//!
//! A record is 48 bytes and `pdu_len` bytes more. Stamps are CLOCK_MONOTONIC of the traced machine;
//! a note relates them to wall time.

use std::collections::BTreeMap;

use taillight_core::{Error, OpKind, Result};

use super::{BlockIo, Trace, TraceClock};
use crate::align;

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD: usize = 48;

// Categories, bits 16 and up of the action.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

// Actions, the lower 16 bits.
const QUEUE: u32 = 1;
const GET_REQUEST: u32 = 4;
const REQUEUE: u32 = 6;
const ISSUE: u32 = 7;
const COMPLETE: u32 = 8;
const INSERT: u32 = 12;

/// Whether a file begins like one.
pub fn looks_like(bytes: &[u8]) -> bool {
    let magic = word(bytes, 0);
    magic >> 8 == MAGIC >> 8 || magic.swap_bytes() >> 8 == MAGIC >> 8
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    four.map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// One record.
#[derive(Debug, Clone, Copy)]
struct Event {
    time: i64,
    sector: u64,
    bytes: u64,
    action: u32,
    pid: u32,
    device: u32,
}

/// A block I/O under way.
#[derive(Debug)]
struct Pending {
    io: BlockIo,
    /// Sectors not completed yet: the block layer cuts large I/Os.
    left: u64,
    /// Another one of the same place was under way: which completion is whose cannot be told.
    doubtful: bool,
}

impl Pending {
    /// Sectors of it in `from..to`.
    fn inside(&self, from: u64, to: u64) -> u64 {
        let end = self.io.sector + sectors(self.io.bytes);
        end.min(to).saturating_sub(self.io.sector.max(from))
    }
}

/// A flush moves nothing and has a place all the same.
fn sectors(bytes: u64) -> u64 {
    (bytes / 512).max(1)
}

/// Parses the files of one trace; their order does not matter.
///
/// # Errors
/// `Usage` when one is no such file; `Corrupt` when there is nothing in them.
pub fn parse(files: &[Vec<u8>]) -> Result<Trace> {
    let mut notes = Vec::new();
    let (mut events, mut names, mut pair) = (Vec::new(), BTreeMap::new(), None);
    let mut impossible = 0;
    for file in files {
        records(file, &mut events, &mut names, &mut pair, &mut notes)?;
    }
    events.retain(|e| {
        let sound = align::is_stamp(e.time) && align::is_place(e.sector, e.bytes);
        impossible += usize::from(!sound);
        sound
    });
    if impossible > 0 {
        notes.push(format!(
            "{impossible} records have a time or a sector that cannot be; they are left out"
        ));
    }
    if events.is_empty() {
        return Err(Error::corrupt("the trace holds no block I/O")
            .hint("was blktrace running as root while the run went on?"));
    }
    events.sort_by_key(|e: &Event| e.time);
    let (ios, open) = assemble(&events, &names);
    if open > 0 {
        notes.push(format!(
            "{open} I/Os were queued and their end is not in the trace, or not to be told from \
             another's; they are left out"
        ));
    }
    Ok(Trace {
        tool: "blktrace",
        ios,
        clock: TraceClock::Monotonic(pair),
        notes,
    })
}

fn records(
    file: &[u8],
    events: &mut Vec<Event>,
    names: &mut BTreeMap<u32, Box<str>>,
    pair: &mut Option<(i64, i64)>,
    notes: &mut Vec<String>,
) -> Result<()> {
    if !looks_like(file) {
        return Err(Error::usage("this is no binary file of blktrace")
            .hint("give the files that blktrace writes (sda.blktrace.0), not blkparse's text"));
    }
    let mut at = 0;
    while at < file.len() {
        let magic = word(file, at);
        if file.len() - at < RECORD || at + RECORD + pdu(file, at) > file.len() {
            notes.push(format!(
                "the trace is cut short: its last {} bytes are no whole record",
                file.len() - at
            ));
            return Ok(());
        }
        if magic != MAGIC | VERSION {
            if at == 0 {
                return Err(wrong(magic));
            }
            notes.push(format!(
                "the trace is damaged at byte {at}; what stands before is used"
            ));
            return Ok(());
        }
        let data = &file[at + RECORD..at + RECORD + pdu(file, at)];
        let action = word(file, at + 28);
        let event = Event {
            time: long(file, at + 8) as i64,
            sector: long(file, at + 16),
            bytes: u64::from(word(file, at + 24)),
            action,
            pid: word(file, at + 32),
            device: word(file, at + 36),
        };
        match (action >> 16 & NOTIFY != 0, action & 0xffff) {
            (true, 0) => {
                let text = String::from_utf8_lossy(data);
                names.insert(event.pid, text.trim_matches('\0').into());
            }
            (true, 1) if data.len() >= 8 && align::is_stamp(event.time) => {
                let wall = i64::from(word(data, 0)) * 1_000_000_000 + i64::from(word(data, 4));
                *pair = Some((event.time, wall));
            }
            (true, _) => {}
            (false, _) => events.push(event),
        }
        at += RECORD + data.len();
    }
    Ok(())
}

fn pdu(file: &[u8], at: usize) -> usize {
    (word(file, at + 44) >> 16) as usize
}

fn wrong(magic: u32) -> Error {
    if magic.swap_bytes() >> 8 == MAGIC >> 8 {
        return Error::usage("the trace is from a machine of the other byte order")
            .hint("convert it there, or trace with biosnoop");
    }
    Error::usage("the trace has an unknown version")
        .with("version", magic & 0xff)
        .with("known", VERSION)
}

/// Queue to completion of every I/O, and how many have no end or a doubtful one. Requests hold the I/Os whose sectors
/// they cover.
fn assemble(events: &[Event], names: &BTreeMap<u32, Box<str>>) -> (Vec<BlockIo>, usize) {
    let mut open: BTreeMap<(u32, u64), Pending> = BTreeMap::new();
    let (mut done, mut lost) = (Vec::new(), 0);
    for e in events {
        let what = e.action & 0xffff;
        if what == QUEUE {
            let displaced = open.insert((e.device, e.sector), queued(e, names));
            if displaced.is_some()
                && let Some(both) = open.get_mut(&(e.device, e.sector))
            {
                both.doubtful = true;
                lost += 1;
            }
            continue;
        }
        let (from, to) = (e.sector, e.sector + sectors(e.bytes));
        // Those that begin inside, and the one before when it reaches in.
        let before = open.range((e.device, 0)..(e.device, from)).next_back();
        let before = before.filter(|(_, p)| p.inside(from, to) > 0);
        let inside = open.range((e.device, from)..(e.device, to));
        let covered: Vec<(u32, u64)> = before.into_iter().chain(inside).map(|(k, _)| *k).collect();
        for key in covered {
            let Some(pending) = open.get_mut(&key) else {
                continue;
            };
            let io = &mut pending.io;
            match what {
                GET_REQUEST => io.alloc = Some(e.time),
                INSERT => io.insert = Some(e.time),
                ISSUE => io.issued = Some(e.time),
                REQUEUE => io.issued = None,
                COMPLETE => {
                    pending.io.done = e.time;
                    pending.left = pending.left.saturating_sub(pending.inside(from, to));
                    if pending.left == 0 {
                        lost += usize::from(pending.doubtful);
                        let ended = open.remove(&key).filter(|p| !p.doubtful);
                        done.extend(ended.map(|p| p.io));
                    }
                }
                _ => {}
            }
        }
    }
    (done, open.len() + lost)
}

fn queued(e: &Event, names: &BTreeMap<u32, Box<str>>) -> Pending {
    let has = |bit: u32| e.action >> 16 & bit != 0;
    let op = match () {
        () if has(DISCARD) => OpKind::Trim,
        () if has(FLUSH) && e.bytes == 0 => OpKind::Fsync,
        () if has(WRITE) => OpKind::Write,
        () => OpKind::Read,
    };
    let dev = format!("{}:{}", e.device >> 20, e.device & 0xf_ffff);
    Pending {
        left: sectors(e.bytes),
        doubtful: false,
        io: BlockIo {
            dev: dev.into(),
            sector: e.sector,
            bytes: e.bytes,
            op,
            queued: Some(e.time),
            alloc: None,
            insert: None,
            issued: None,
            done: 0,
            pid: u64::from(e.pid),
            comm: names.get(&e.pid).cloned().unwrap_or_default(),
        },
    }
}

/// Synthetic records.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A record as blktrace writes it.
    pub fn record(
        time: u64,
        sector: u64,
        bytes: u32,
        action: u32,
        pid: u32,
        pdu: &[u8],
    ) -> Vec<u8> {
        let mut r = Vec::new();
        r.extend((MAGIC | VERSION).to_le_bytes());
        r.extend(1u32.to_le_bytes());
        r.extend(time.to_le_bytes());
        r.extend(sector.to_le_bytes());
        r.extend(bytes.to_le_bytes());
        r.extend(action.to_le_bytes());
        r.extend(pid.to_le_bytes());
        r.extend((8u32 << 20).to_le_bytes());
        r.extend(0u32.to_le_bytes());
        r.extend(0u16.to_le_bytes());
        r.extend((pdu.len() as u16).to_le_bytes());
        r.extend(pdu);
        r
    }

    /// Queue, request, insert, issue, completion of one read.
    pub fn read(time: u64, sector: u64, bytes: u32, pid: u32) -> Vec<u8> {
        let step = |t, action: u32| record(time + t, sector, bytes, 1 << 16 | action, pid, &[]);
        [
            step(0, 1),
            step(10, 4),
            step(20, 12),
            step(30, 7),
            step(90_000, 8),
        ]
        .concat()
    }

    /// The notes: a process and the time of day.
    pub fn notes(pid: u32, name: &str, mono: u64, wall_s: u32) -> Vec<u8> {
        let mut time = wall_s.to_le_bytes().to_vec();
        time.extend(0u32.to_le_bytes());
        let process = record(mono, 0, 0, NOTIFY << 16, pid, name.as_bytes());
        [process, record(mono, 0, 0, NOTIFY << 16 | 1, 0, &time)].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{notes, read, record};
    use super::*;

    #[test]
    fn stages_names_and_time_of_day() {
        let file = [notes(7, "fio\0", 500, 3), read(1_000, 2048, 4096, 7)].concat();
        let trace = parse(&[file]).unwrap();
        assert_eq!(
            trace.clock,
            TraceClock::Monotonic(Some((500, 3_000_000_000)))
        );
        let io = &trace.ios[0];
        assert_eq!(
            (&*io.dev, io.sector, io.bytes, io.op),
            ("8:0", 2048, 4096, OpKind::Read)
        );
        assert_eq!((io.queued, io.alloc), (Some(1_000), Some(1_010)));
        assert_eq!(
            (io.insert, io.issued, io.done),
            (Some(1_020), Some(1_030), 91_000)
        );
        assert_eq!((&*io.comm, io.pid), ("fio", 7));
        assert!(trace.notes.is_empty());
    }

    #[test]
    fn records_that_cannot_be_are_counted_and_left_out() {
        let file = [
            notes(7, "fio", u64::MAX / 2, u32::MAX),
            read(1_000, u64::MAX, 4096, 7),
            read(1_000, u64::MAX / 512, 4096, 7),
            read(i64::MAX as u64 - 100_000, 8, 4096, 7),
            read(1_000, 8, 4096, 7),
        ];
        let trace = parse(&[file.concat()]).unwrap();
        assert_eq!((trace.ios.len(), trace.ios[0].sector), (1, 8));
        assert_eq!(trace.clock, TraceClock::Monotonic(None));
        assert!(
            trace.notes[0].starts_with("15 records"),
            "{:?}",
            trace.notes
        );
        let only = parse(&[read(1_000, u64::MAX, 4096, 7)]).unwrap_err();
        assert!(only.to_string().contains("no block I/O"), "{only}");
    }

    #[test]
    fn merged_ios_end_with_their_request() {
        let file = [
            record(1, 0, 4096, 1 << 16 | QUEUE, 1, &[]),
            record(2, 8, 4096, 1 << 16 | QUEUE, 1, &[]),
            record(3, 0, 8192, 1 << 16 | ISSUE, 1, &[]),
            record(9, 0, 8192, 1 << 16 | COMPLETE, 0, &[]),
        ];
        let trace = parse(&[file.concat()]).unwrap();
        assert_eq!(trace.ios.len(), 2);
        assert!(
            trace
                .ios
                .iter()
                .all(|io| io.done == 9 && io.issued == Some(3))
        );
    }

    #[test]
    fn a_cut_io_ends_with_its_last_part() {
        let part = |t, sector, action| record(t, sector, 4096, 1 << 16 | action, 1, &[]);
        let file = [
            record(1, 8, 8192, 1 << 16 | QUEUE, 1, &[]),
            part(2, 8, ISSUE),
            part(3, 16, ISSUE),
            part(7, 16, COMPLETE),
            part(9, 8, COMPLETE),
        ];
        let trace = parse(&[file.concat()]).unwrap();
        assert_eq!((trace.ios.len(), trace.ios[0].done), (1, 9));
    }

    #[test]
    fn two_of_one_place_at_a_time_are_left_out() {
        let step = |t, action| record(t, 8, 4096, 1 << 16 | action, 1, &[]);
        let file = [
            step(1, QUEUE),
            step(2, QUEUE),
            step(5, COMPLETE),
            step(9, COMPLETE),
        ];
        let other = read(20, 8, 512, 1);
        let trace = parse(&[file.concat(), other]).unwrap();
        assert_eq!((trace.ios.len(), trace.ios[0].queued), (1, Some(20)));
        assert!(trace.notes[0].contains("2 I/Os"), "{:?}", trace.notes);
    }

    #[test]
    fn a_cut_trace_keeps_what_is_whole() {
        let mut file = [read(1, 8, 512, 1), read(100_000_000, 8, 512, 1)].concat();
        file.truncate(file.len() - 60);
        let trace = parse(&[file]).unwrap();
        assert_eq!(trace.ios.len(), 1);
        assert!(trace.notes[0].contains("cut short"), "{:?}", trace.notes);
        assert!(trace.notes[1].contains("their end"), "{:?}", trace.notes);
    }

    #[test]
    fn other_files_are_refused_with_a_hint() {
        let text = b"  8,0    1        1     0.000000000  1234  Q   R 0 + 8 [fio]\n".to_vec();
        assert!(parse(&[text]).unwrap_err().hint_text().is_some());
        let mut newer = read(1, 8, 512, 1);
        newer[0] = 8;
        assert!(parse(&[newer]).unwrap_err().to_string().contains("version"));
        let notes = notes(1, "x", 1, 1);
        assert!(
            parse(&[notes])
                .unwrap_err()
                .to_string()
                .contains("no block I/O")
        );
    }
}
