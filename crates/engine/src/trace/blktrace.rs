//! Linux blktrace, binary: records of 48 bytes in the byte order of the machine that made them, each with a
//! payload after it (`blktrace_api.h`). An operation is there when it is queued; ns, sectors of 512 bytes.
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

pub(super) const FORMAT: TraceFormat = TraceFormat {
    word: "blktrace",
    name: "blktrace",
    tick_ns: 1,
    // One CPU after the other.
    ordered: false,
    source: TraceSource::Whole(begins, read),
};

/// Whether its numbers are the other way round; `None`: it is no record.
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
            if let Some(QueuedOp { stamp, device: of, op }) = operation(&record, swap) {
                if device.0 != of {
                    device = (of, format!("{}:{}", of >> 20, of & 0xf_ffff));
                }
                rows.push(&TraceRow { stamp, stream: &device.1, op })?;
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

/// The files of CPUs 0 to the last before a gap in the numbers, and the one that is given.
fn of_all_cpus(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem == name || !stem.ends_with(".blktrace.") {
        return vec![path.to_owned()];
    }
    let of = (0..).map(|cpu| path.with_file_name(format!("{stem}{cpu}")));
    let mut all: Vec<PathBuf> = of.take_while(|p| p.is_file()).collect();
    if !all.iter().any(|p| p == path) {
        all.push(path.to_owned());
    }
    all
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
    op: TraceOp,
}

/// The operation of a record, if it is the queueing of one.
fn operation(record: &[u8; RECORD], swap: bool) -> Option<QueuedOp> {
    let action = word(record, 28, swap);
    if action & 0xff != QUEUE || action & NOTIFY != 0 {
        return None;
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
    let offset = if kind == OpKind::Fsync { 0 } else { number(long(16)).checked_mul(512)? };
    let stamp = i64::try_from(number(long(8))).ok()?;
    let device = word(record, 36, swap);
    Some(QueuedOp { stamp, device, op: TraceOp { offset, size, kind } })
}

fn word(record: &[u8; RECORD], at: usize, swap: bool) -> u32 {
    let word = record[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    if swap { word.swap_bytes() } else { word }
}

fn half(record: &[u8; RECORD], at: usize, swap: bool) -> u16 {
    let half = record[at..].first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
    if swap { half.swap_bytes() } else { half }
}
