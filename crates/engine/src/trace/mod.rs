//! Recorded block traces: a file of another program to operations with their times.
//!
//! A format is one file here, a function from a line to a row, and one line in [`FORMATS`]; a file
//! is recognised by its first line, never by its name. `schedule` replays the times.
//! Memory: 24 bytes an operation, 48 while it is read, 50 million operations at most.

mod alibaba;
mod iolog;
mod msr;
mod tencent;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use taillight_core::units::Span;
use taillight_core::{Error, OpKind, Result, regular};

/// Operations of a trace at most.
const MOST_OPS: usize = 50_000_000;
/// Bytes of a line at most.
const MOST_LINE: u64 = 4096;
/// A row may come so much later in the file than one that follows it in time, ns.
const WINDOW_NS: u64 = 60_000_000_000;
/// Stamps this coarse or coarser are spread over their tick, ns.
const COARSE_NS: u64 = 1_000_000;

/// No line was read yet: where a format begins with a heading, anything else is not of it.
const NOT_BEGUN: i64 = i64::MIN;

/// A format of traces.
pub struct TraceFormat {
    /// The name for people.
    pub name: &'static str,
    /// What its stamps count, ns.
    tick_ns: u64,
    /// A line without its end to its row; `None` for a line that is no operation. The number is what
    /// earlier lines have come to: [`NOT_BEGUN`] at first. Errors: what is wrong with it.
    row: fn(&str, &mut i64) -> std::result::Result<Option<TraceRow>, String>,
}

/// Every format.
pub const FORMATS: &[TraceFormat] =
    &[msr::FORMAT, alibaba::FORMAT, tencent::FORMAT, iolog::VERSION_2, iolog::VERSION_3];

/// One operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceOp {
    /// Byte offset.
    pub offset: u64,
    /// Bytes; 0 for an fsync.
    pub size: u32,
    /// A read, write, trim or fsync.
    pub kind: OpKind,
}

/// A row as written: the stamp in ticks.
pub struct TraceRow {
    stamp: i64,
    op: TraceOp,
}

/// A whole trace, in the order of its times.
#[derive(Debug)]
pub struct BlockTrace {
    /// Name of its format.
    pub format: &'static str,
    /// When each operation starts, since the first one, ns.
    pub times: Arc<[i64]>,
    /// The operations.
    pub ops: Arc<[TraceOp]>,
    /// Rows that came later in the file than one that follows them in time.
    pub sorted: u64,
    /// Reads, writes and trims of no bytes, left out.
    pub skipped: u64,
}

/// The format whose files begin with such a line.
pub fn recognise(first: &str) -> Option<&'static TraceFormat> {
    FORMATS.iter().find(|format| (format.row)(first.trim_end(), &mut { NOT_BEGUN }).is_ok())
}

/// Reads the rest of a trace; `field` of the job names its `path`. Operations with the same coarse
/// stamp (of a millisecond or more) are spread evenly over that tick, in the order of the file.
/// Errors: `Usage`, with the line, for one that is no row or lies far before those above it; for a
/// file without operations.
pub fn read(
    format: &TraceFormat,
    input: File,
    (field, path): (&'static str, &str),
) -> Result<BlockTrace> {
    let error = |what: String, line: u64| {
        Error::usage(format!("the {} trace cannot be replayed: {what}", format.name))
            .with(field, path)
            .with("line", line)
            .hint("give the trace as it was recorded, whole and unpacked")
    };
    let mut lines = Lines { input: BufReader::new(input), line: Vec::new() };
    let (mut rows, mut progress, mut number) = (Vec::new(), NOT_BEGUN, 1);
    let (mut newest, mut sorted, mut skipped) = (i64::MIN, 0, 0);
    let window = (WINDOW_NS / format.tick_ns) as i64;
    while let Some(line) = lines.read().map_err(|e| error(e, number))? {
        let row = match line.trim() {
            "" => None,
            text => (format.row)(text, &mut progress).map_err(|e| error(e, number))?,
        };
        number += 1;
        let Some(TraceRow { stamp, op }) = row else { continue };
        if op.size == 0 && op.kind != OpKind::Fsync {
            skipped += 1;
            continue;
        }
        if stamp < newest {
            sorted += 1;
            if newest.saturating_sub(stamp) > window {
                let far = format!("it lies more than {} before a row above it", Span(WINDOW_NS));
                return Err(error(far, number - 1));
            }
        }
        newest = newest.max(stamp);
        if rows.len() == MOST_OPS {
            return Err(error(format!("it has more than {MOST_OPS} operations"), number - 1));
        }
        rows.push((stamp, op));
    }
    if rows.is_empty() {
        return Err(error("it holds no operation".to_owned(), number - 1));
    }
    if sorted > 0 {
        // Stable: rows with the same stamp stay in the order of the file.
        rows.sort_by_key(|(stamp, _)| *stamp);
    }
    let times = times(&rows, format.tick_ns)
        .ok_or_else(|| error("it spans more than 292 years".to_owned(), number - 1))?;
    let ops = rows.iter().map(|(_, op)| *op).collect();
    Ok(BlockTrace { format: format.name, times, ops, sorted, skipped })
}

/// Times since the first row, ns: exact, but for coarse stamps, whose tick the rows share evenly.
fn times(rows: &[(i64, TraceOp)], tick_ns: u64) -> Option<Arc<[i64]>> {
    let tick = i64::try_from(tick_ns).ok()?;
    let first = rows.first()?.0;
    let mut times = Vec::with_capacity(rows.len());
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        let at = same[0].0.checked_sub(first)?.checked_mul(tick)?;
        let shared = if tick_ns >= COARSE_NS { i128::from(tick) } else { 0 };
        for i in 0..same.len() as i128 {
            times.push(at.checked_add((shared * i / same.len() as i128) as i64)?);
        }
    }
    Some(times.into())
}

/// Lines of a text.
struct Lines {
    input: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The next line. Errors: it cannot be read, is too long or no text.
    fn read(&mut self) -> std::result::Result<Option<&str>, String> {
        self.line.clear();
        let mut input = self.input.by_ref().take(MOST_LINE);
        let read = input.read_until(b'\n', &mut self.line).map_err(|e| e.to_string())?;
        if read as u64 == MOST_LINE {
            return Err(format!("the line is longer than {MOST_LINE} bytes"));
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| "it is not text".to_owned())?;
        Ok((read > 0).then_some(text))
    }
}

/// The first line of a file that may be a trace, and the file at its start again. Errors: the
/// system's.
pub fn first_line(path: &str) -> std::io::Result<(String, File)> {
    use std::io::Seek as _;
    let mut file = regular::open(path)?;
    let mut head = Vec::new();
    BufReader::new(file.by_ref().take(MOST_LINE)).read_until(b'\n', &mut head)?;
    file.rewind()?;
    Ok((String::from_utf8_lossy(&head).into_owned(), file))
}

/// The columns of a row of values with commas between. Errors: it has not as many.
fn columns<const N: usize>(line: &str) -> std::result::Result<[&str; N], String> {
    let columns: Vec<&str> = line.split(',').collect();
    let count = columns.len();
    columns.try_into().map_err(|_| format!("a row has {N} columns, this one {count}"))
}

/// A whole number of a row. Errors: what it is called, and what stands there.
fn number<T: std::str::FromStr>(text: Option<&str>, name: &str) -> std::result::Result<T, String> {
    let text = text.ok_or_else(|| format!("the row ends before its {name}"))?.trim();
    text.parse().map_err(|_| format!("`{text}` is no {name}"))
}
