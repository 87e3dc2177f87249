//! Linux blktrace, binary: records of 48 bytes in the byte order of the machine that made them, each with a
//! payload after it (`blktrace_api.h`). Records of queueing (Q) are the operations, others are skipped; stamps in ns,
//! sectors of 512 bytes.
//!
//! blktrace writes a file for each CPU, `sda.blktrace.0` and so on: beside the file given, those of the
//! other CPUs are read.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use taillight_core::OpKind;
use taillight_core::plan::TraceOp;

use super::{TraceFault, TraceFormat, TraceRow, TraceRows, TraceSource};

const RECORD: usize = 48;
/// The upper three bytes of the first word; the lowest is the version.
const MAGIC: u32 = 0x6561_7400;
/// `__BLK_TA_QUEUE`, in the lowest byte of the action.
const QUEUE: u32 = 1;
// Categories, in the upper half of the action.
const WRITE: u32 = 1 << (1 + 16);
const FLUSH: u32 = 1 << (2 + 16);
const NOTIFY: u32 = 1 << (10 + 16);
const DISCARD: u32 = 1 << (13 + 16);
const FUA: u32 = 1 << (15 + 16);

pub(super) const FORMAT: TraceFormat = TraceFormat {
    word: "blktrace",
    name: "blktrace",
    tick_ns: 1,
    // One CPU after the other.
    ordered: false,
    pair: None,
    source: TraceSource::Whole(begins, read),
};

/// Whether the numbers of a record are in the other byte order than this machine's; `None`: `bytes` are no record.
fn swapped(bytes: &[u8]) -> Option<bool> {
    let word = u32::from_ne_bytes(*bytes.first_chunk()?);
    let is = |word: u32| word & !0xff == MAGIC;
    is(word).then_some(false).or(is(word.swap_bytes()).then_some(true))
}

fn begins(head: &[u8]) -> bool {
    swapped(head).is_some()
}

fn read(path: &Path, rows: &mut TraceRows<'_>) -> Result<(), TraceFault> {
    for path in of_all_cpus(path) {
        let shown = path.display();
        let mut at = 0u64;
        let bad =
            |what: String, at: u64| TraceFault::from(format!("{what} (byte {at} of {shown})"));
        let file = File::open(&path).map_err(|e| bad(e.to_string(), 0))?;
        let mut input = BufReader::with_capacity(1 << 18, file);
        let (mut record, mut device) = ([0; RECORD], (u32::MAX, String::new()));
        loop {
            let got = fill(&mut input, &mut record).map_err(|e| bad(e.to_string(), at))?;
            if got == 0 {
                break;
            }
            let swap = swapped(&record).filter(|_| got == RECORD);
            let swap = swap.ok_or_else(|| bad("no record, or a part of one".to_owned(), at))?;
            let queued = operation(&record, swap).map_err(|what| bad(what.to_owned(), at))?;
            if let Some(QueuedOp { stamp, device: of, flushes, op }) = queued {
                if device.0 != of {
                    device = (of, format!("{}:{}", of >> 20, of & 0xf_ffff));
                }
                if flushes {
                    let sync = TraceOp::new(OpKind::Fsync, 0, 0);
                    rows.push(&TraceRow::plain(stamp, &device.1, sync))?;
                }
                rows.push(&TraceRow::plain(stamp, &device.1, op))?;
            }
            let payload = u64::from(half(&record, 46, swap));
            let skipped = std::io::copy(&mut input.by_ref().take(payload), &mut std::io::sink());
            if skipped.map_err(|e| bad(e.to_string(), at))? < payload {
                return Err(bad("a part of a record".to_owned(), at));
            }
            at += RECORD as u64 + payload;
        }
    }
    Ok(())
}

/// The files of all CPUs beside `path`, in the order of their numbers, which may have gaps; `path` alone where its name
/// is none that blktrace gives.
fn of_all_cpus(path: &Path) -> Vec<PathBuf> {
    let alone = || vec![path.to_owned()];
    let Some((stem, _)) = path.file_name().and_then(|name| of_cpu(name.to_str()?)) else {
        return alone();
    };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(dir.unwrap_or(Path::new("."))) else { return alone() };
    let mut all: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let (of, cpu) = of_cpu(name.to_str()?).filter(|(of, _)| *of == stem)?;
            // "sda.blktrace.00" is no file of blktrace's.
            let sibling = path.with_file_name(format!("{of}{cpu}"));
            sibling.is_file().then_some((cpu, sibling))
        })
        .collect();
    all.sort();
    all.dedup();
    let all: Vec<PathBuf> = all.into_iter().map(|(_, path)| path).collect();
    if all.iter().any(|it| it == path) { all } else { alone() }
}

/// What comes before the number of the CPU in a name that blktrace gives, and the number.
fn of_cpu(name: &str) -> Option<(&str, u32)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[stem.len()..].parse().ok()?;
    stem.ends_with(".blktrace.").then_some((stem, number))
}

/// The first bytes of the first of these files that has any: that of a CPU that did nothing is empty.
pub(super) fn head_of_another(path: &Path) -> Option<Vec<u8>> {
    of_all_cpus(path).iter().find_map(|it| {
        let mut head = Vec::new();
        File::open(it).ok()?.take(RECORD as u64).read_to_end(&mut head).ok()?;
        (!head.is_empty()).then_some(head)
    })
}

/// Reads as much of a record as there is.
fn fill(input: &mut impl Read, record: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < record.len() {
        match input.read(&mut record[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

/// An operation as it was queued.
struct QueuedOp {
    stamp: i64,
    /// Major number above 20 bits of minor number.
    device: u32,
    /// The cache of the disk is flushed before it.
    flushes: bool,
    op: TraceOp,
}

/// The operation of a record, if it is the queueing of one. Errors: it lies beyond what is counted.
fn operation(record: &[u8; RECORD], swap: bool) -> Result<Option<QueuedOp>, &'static str> {
    let action = word(record, 28, swap);
    if action & 0xff != QUEUE || action & NOTIFY != 0 {
        return Ok(None);
    }
    let long =
        |at: usize| (u64::from(word(record, at, swap)), u64::from(word(record, at + 4, swap)));
    // The halves of a long number lie in its byte order.
    let number = |(first, second): (u64, u64)| match swap == cfg!(target_endian = "little") {
        true => first << 32 | second,
        false => second << 32 | first,
    };
    let size = word(record, 24, swap);
    let kind = match (action & DISCARD != 0, action & WRITE != 0) {
        (true, _) => OpKind::Trim,
        _ if size == 0 && action & FLUSH != 0 => OpKind::Fsync,
        (_, true) => OpKind::Write,
        _ => OpKind::Read,
    };
    let sector = if kind == OpKind::Fsync { 0 } else { number(long(16)) };
    let offset = sector.checked_mul(512).ok_or("a sector beyond 2^64 bytes")?;
    let stamp = i64::try_from(number(long(8))).map_err(|_| "a time beyond 292 years")?;
    let device = word(record, 36, swap);
    let durable = kind == OpKind::Write && action & FUA != 0;
    let op = TraceOp { durable, ..TraceOp::new(kind, offset, size) };
    let flushes = kind == OpKind::Write && action & FLUSH != 0;
    Ok(Some(QueuedOp { stamp, device, flushes, op }))
}

fn word(record: &[u8; RECORD], at: usize, swap: bool) -> u32 {
    let word = record[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    if swap { word.swap_bytes() } else { word }
}

fn half(record: &[u8; RECORD], at: usize, swap: bool) -> u16 {
    let half = record[at..].first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
    if swap { half.swap_bytes() } else { half }
}
