//! Recorded block traces: a file of another program, or a run of our own, to operations with their times.
//!
//! A format is a constant in a file here and one line in [`FORMATS`]; which one a file has is recognised by how it
//! begins, not by its name. Jobs replay traces (`[[workload]] trace`), `schedule` their times alone, `profile` says
//! what they are. Memory: 24 bytes an operation; while it is read twice that, and 16 bytes more for a recorded latency;
//! 50 million operations at most.

mod alibaba;
mod blktrace;
mod iolog;
mod msr;
mod own;
mod profile;
mod reuse;
mod rows;
mod tencent;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek as _};
use std::path::{Path, PathBuf};

use taillight_core::plan::{
    RecordedLatency, RecordedPercentile, ReplayOps, ReplayPlan, TraceOp, TraceTiming,
};
use taillight_core::units::readable;
use taillight_core::{Error, Result, regular};
use taillight_rundir::names;
use taillight_stats::needed_one_sided;

pub use profile::{TraceDispersion, TraceProfile, TraceSizes, TraceStream};
pub use reuse::TraceReuse;
pub use rows::TraceSelection;
use rows::{TraceFault, TraceRows};

/// Operations of a trace at most.
pub const MOST_OPS: u64 = 50_000_000;
/// Bytes of a line at most.
const MOST_LINE: u64 = 4096;

/// No line was read yet: where a format begins with a heading, anything else is not of it.
const NOT_BEGUN: i64 = i64::MIN;
/// The format has no stamps but waits, and there was none yet.
const NO_TIME: i64 = -1;
/// Said of a heading where there was one, or rows, before.
const SECOND: &str = "a second trace begins here: give each a file of its own";
/// The mark before texts of some editors.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How files begin that hold no trace as it was recorded: what they are, and what makes a trace of them.
const PACKED: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "the file is packed by gzip", "unpack it first: gunzip"),
    (b"\x28\xb5\x2f\xfd", "the file is packed by zstd", "unpack it first: unzstd"),
    (b"\xfd7zXZ", "the file is packed by xz", "unpack it first: unxz"),
    (b"BZh", "the file is packed by bzip2", "unpack it first: bunzip2"),
    (b"\x04\x22\x4d\x18", "the file is packed by lz4", "unpack it first: unlz4"),
    (b"7z\xbc\xaf", "the file is packed by 7-Zip", "unpack it first"),
    (b"PK\x03\x04", "the file is packed by zip", "unpack it first: unzip"),
    (b"\xff\xfe", "the file is text of UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "the file is text of UTF-16", "make it UTF-8: iconv -f UTF-16 -t UTF-8"),
];

/// A format of traces.
pub struct TraceFormat {
    /// The name in jobs.
    pub word: &'static str,
    /// The name for people.
    pub name: &'static str,
    /// What its stamps count, ns.
    tick_ns: u64,
    /// Its rows are in the order of their times, or nearly so.
    ordered: bool,
    /// The parts of the names of its disks, where they have two.
    pair: Option<StreamPair>,
    source: TraceSource,
}

/// Names of two parts, a comma between.
#[derive(Clone, Copy)]
struct StreamPair {
    /// What the parts are.
    words: &'static str,
    /// A name without a comma or a word before it is the first part, not the second.
    first: bool,
}

type LineReader =
    for<'a> fn(&'a str, &mut i64) -> std::result::Result<Option<TraceRow<'a>>, String>;

/// How the rows of a format are read.
enum TraceSource {
    /// A line without its end to its row; `None` for a line that is no operation. The number is what
    /// earlier lines have come to: [`NOT_BEGUN`] at first. Errors: what is wrong with it.
    Lines(LineReader),
    /// Whether a file that begins so is of the format, and all of its rows.
    Whole(fn(&[u8]) -> bool, fn(&Path, &mut TraceRows<'_>) -> std::result::Result<(), TraceFault>),
}

/// Every format.
pub const FORMATS: &[TraceFormat] = &[
    msr::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    tencent::BYTES,
    iolog::VERSION_2,
    iolog::VERSION_3,
    blktrace::FORMAT,
    own::CSV,
    own::PARQUET,
];

/// A row as written.
struct TraceRow<'a> {
    /// In ticks of the format.
    stamp: i64,
    /// The host or workload that numbers the disks, where the format has one, else empty; then the disk, volume or
    /// file.
    stream: (&'a str, &'a str),
    op: TraceOp,
    /// What it took then, where the format has it.
    latency_ns: Option<u64>,
    /// How many rows there are, where each says it; `u64::MAX` for more than there are.
    of: Option<u64>,
}

impl<'a> TraceRow<'a> {
    /// A row of a format whose disks have names of one part, and that has no latencies.
    fn plain(stamp: i64, stream: &'a str, op: TraceOp) -> TraceRow<'a> {
        TraceRow { stamp, stream: ("", stream), op, latency_ns: None, of: None }
    }
}

/// A file that may be a trace.
pub struct TraceFile {
    path: PathBuf,
    head: Vec<u8>,
    /// At its start.
    file: File,
}

impl TraceFile {
    /// Opens a file, or the I/Os of a run's directory. Errors: the system's.
    pub fn open(path: &str) -> std::io::Result<TraceFile> {
        let mut path = PathBuf::from(path);
        if path.is_dir() {
            path.push(names::IOS);
            if !path.exists() {
                let none = "the directory holds no run that kept its I/Os";
                return Err(std::io::Error::other(none));
            }
        }
        let mut file = regular::open(&path)?;
        let mut head = Vec::new();
        file.by_ref().take(MOST_LINE).read_to_end(&mut head)?;
        if head.is_empty() {
            head = blktrace::head_of_another(&path).unwrap_or_default();
        }
        file.rewind()?;
        Ok(TraceFile { path, head, file })
    }

    /// The first of [`FORMATS`] that files which begin so may be of; `None` where none is.
    pub fn recognise(&self) -> Option<&'static TraceFormat> {
        let head = self.head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.head);
        let line = head.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).unwrap_or_default().trim_end();
        FORMATS.iter().find(|format| match format.source {
            TraceSource::Lines(row) => row(line, &mut { NOT_BEGUN }).is_ok(),
            TraceSource::Whole(begins, _) => begins(&self.head),
        })
    }

    /// The file, at its start.
    pub fn into_file(self) -> File {
        self.file
    }
}

/// Reads what a job selects of its trace, in the format that the job names or that the file begins as. Errors: `Usage`
/// for a file that cannot be read, is packed, is of no known format or may be of two; else as [`read`], where more than
/// `most` operations are too many.
pub fn load(replay: &ReplayPlan, most: u64) -> Result<ReplayOps> {
    let path = &replay.file;
    let known = || FORMATS.iter().map(|f| f.word).collect::<Vec<_>>().join(", ");
    let file = TraceFile::open(path).map_err(|e| {
        Error::usage("the trace cannot be opened").with("trace.file", path).source(e).hint(
            "give a file, or the directory of a run that kept its I/Os; paths are relative to the directory \
             the command is run in",
        )
    })?;
    if let Some((_, what, hint)) = PACKED.iter().find(|it| file.head.starts_with(it.0)) {
        return Err(Error::usage(*what).with("trace.file", path).hint(*hint));
    }
    let format = match &replay.format {
        Some(word) => FORMATS.iter().find(|f| f.word == word).ok_or_else(|| {
            Error::usage(format!("there is no format `{word}` of traces"))
                .with("trace.file", path)
                .hint(format!("known: {}", known()))
        })?,
        None => file.recognise().ok_or_else(|| {
            let what = match file.head.is_empty() {
                true => "the trace is empty",
                false => "the file does not begin as a trace of a known format does",
            };
            let hint = format!("trace.format names one of: {}", known());
            Error::usage(what).with("trace.file", path).with("line", 1).hint(hint)
        })?,
    };
    let ops = read(format, file, &TraceSelection::of(replay, most), "trace.file", path)?;
    let (sectors, bytes) = (tencent::FORMAT.word, tencent::BYTES.word);
    if replay.format.is_none() && format.word == sectors && tencent::seem_bytes(&ops.ops) {
        return Err(Error::usage(
            "whether this Tencent trace counts sectors or bytes cannot be told",
        )
        .with("trace.file", path)
        .with("because", "every offset and size is a multiple of 512 as it stands")
        .hint(format!("say which: trace.format = \"{bytes}\", or \"{sectors}\"")));
    }
    Ok(ops)
}

/// What is said of operations whose stamps are coarse.
pub const COARSE: &str = "spread over the tick of a coarse stamp (a ms, a second) that they share";

/// What is said of a run's file without the run.
pub const ALONE: &str = "whether it has all I/Os of its run is not in it: give the directory of the run, or a new export of it";

/// What is said of operations of one stamp, where none is finer than a ms and its clock may be.
pub const BUNCHED: &str =
    "due together with another: all stamps are whole ms, and are taken as they are";

/// A trace that is going to be replayed, in a sentence for people: how much it is, what was changed or left out of it,
/// and the latencies that were recorded with it.
pub fn describe(replay: &ReplayPlan) -> String {
    let ReplayOps { format, times, ops, sorted, skipped, rounded, refitted, .. } = &replay.ops;
    let ReplayOps { unsynced, spread, bunched, .. } = &replay.ops;
    let (durable, missing) = (replay.ops.durable(), replay.ops.missing);
    let mut text = format!(
        "{} ({format}): {} over {}, {} of memory",
        replay.file,
        readable::counted(ops.len() as u64, "operation"),
        readable::duration(times.last().map_or(0.0, |t| *t as f64)),
        readable::bytes(replay.ops.memory()),
    );
    if replay.timing == TraceTiming::Asap {
        text.push_str(", as fast as possible: what it measures is no response to arrivals");
    }
    let counted = [
        (*sorted, "row", "out of order in the file, sorted"),
        (*spread, "operation", COARSE),
        (*bunched, "operation", BUNCHED),
        (*skipped, "operation", "of no bytes left out"),
        (*rounded, "byte", "added by rounding out to blocks"),
        (*refitted, "operation", "moved or left out so that it fits"),
        (durable, "write", "with a sync at the end, on the medium when it ended (FUA)"),
        (*unsynced, "write", "without the sync at the end (FUA), which the target has not"),
        (missing, "I/O", "of the run not in it"),
    ];
    for (n, noun, what) in counted.into_iter().filter(|(n, ..)| *n > 0) {
        text.push_str(&format!("; {} {what}", readable::counted(n, noun)));
    }
    if replay.ops.alone {
        text.push_str(&format!("; {ALONE}"));
    }
    if let Some((before, after)) = replay.ops.resequenced {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        text.push_str(&format!(
            "; sequential: {} of the trace, {} once it fits",
            percent(before),
            percent(after)
        ));
    }
    if let Some(latency) = &replay.ops.latency {
        text.push_str(&format!("; recorded latencies: {}", latency_words(&resolved(latency))));
    }
    text
}

/// A trace's own latencies with those percentiles alone that its operations resolve, by the rule of reports.
fn resolved(latency: &RecordedLatency) -> RecordedLatency {
    let told = |it: &&RecordedPercentile| {
        needed_one_sided(&it.percentile).is_some_and(|least| latency.operations >= least)
    };
    let percentiles = latency.percentiles.iter().filter(told).cloned().collect();
    RecordedLatency { percentiles, ..latency.clone() }
}

/// Latencies in words: their percentiles, and the longest.
pub fn latency_words(latency: &RecordedLatency) -> String {
    let time = readable::duration_ns;
    let known = latency.percentiles.iter().map(|it| format!("p{} {}", it.percentile, time(it.ns)));
    let all: Vec<String> = known.chain([format!("most {}", time(latency.max_ns))]).collect();
    all.join(", ")
}

/// Reads what is selected of a trace; `field` of the job names its `path`. Operations with the same coarse stamp (of a
/// millisecond or a second, as the format has it or as all stamps have it) are spread evenly over that tick, in the
/// order of the file. Errors: `Usage`, with the line, for one that is no row or lies far before those above it; for a
/// file without operations, or with those of several disks, which are named, the busiest first. `Unavailable` when they
/// are more than the selection allows; `Corrupt` for a damaged run.
pub fn read(
    format: &TraceFormat,
    file: TraceFile,
    selection: &TraceSelection,
    field: &'static str,
    path: &str,
) -> Result<ReplayOps> {
    let error = |fault: TraceFault, place: Option<u64>| {
        let whole = || "give the trace as it was recorded, whole and unpacked".to_owned();
        let hint = fault.hint.unwrap_or_else(whole);
        let what = format!("the {} trace cannot be used: {}", format.name, fault.what);
        Error::new(fault.kind, what).with(field, path).with_some("line", place).hint(hint)
    };
    let mut rows = TraceRows::new(format, selection);
    let read = match format.source {
        TraceSource::Whole(_, read) => read(&file.path, &mut rows),
        TraceSource::Lines(row) => lines(file.file, row, &mut rows),
    };
    let line = rows.line_number();
    let read = match read {
        Err(_) if rows.are_several() => {
            rows.end_early();
            Ok(())
        }
        read => read,
    };
    read.and_then(|()| rows.finish(format.name)).map_err(|e| error(e, line))
}

/// Puts the rows of a text into `rows`, up to the end of what is selected; blank lines and those that are no operation
/// are none. Errors: what is wrong with the line that was read last, also that it has no end.
fn lines(
    input: File,
    row: LineReader,
    rows: &mut TraceRows<'_>,
) -> std::result::Result<(), TraceFault> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mark = input.fill_buf().is_ok_and(|begin| begin.starts_with(BYTE_ORDER_MARK));
    input.consume(if mark { BYTE_ORDER_MARK.len() } else { 0 });
    let mut lines = Lines { input, line: Vec::new() };
    let (mut progress, mut number) = (NOT_BEGUN, 0);
    while !rows.over() {
        rows.at_line(number + 1);
        let Some(line) = lines.read()? else {
            rows.at_line(number);
            break;
        };
        number += 1;
        let row = match line.trim_ascii() {
            "" => None,
            text => row(text, &mut progress)?,
        };
        if !line.ends_with('\n') {
            let hint =
                "give the whole trace; where this is all of it, end its last row with a newline";
            return Err(TraceFault::hinted("the last row has no end", hint));
        }
        if let Some(row) = row {
            rows.push(&row)?;
        }
    }
    if progress == NO_TIME {
        rows.without_times();
    }
    Ok(())
}

/// Lines of a text.
struct Lines {
    input: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The next line with its end; `None` behind the last one. Errors: it cannot be read, is too long or no text.
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

/// Whether a line is the heading, which comes first: `begun` is [`NOT_BEGUN`] before. Errors: another trace begins.
fn heading(line: &str, begins: &str, begun: &mut i64) -> std::result::Result<bool, String> {
    let first = std::mem::replace(begun, 0) == NOT_BEGUN;
    let is = match line.strip_prefix('"') {
        // Names in quotes.
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            line.replace(['"', ' '], "").starts_with(begins)
        }
        _ => line.starts_with(begins),
    };
    match (is, first) {
        (true, false) => Err(SECOND.to_owned()),
        (is, _) => Ok(is),
    }
}

/// The columns of a row of values with commas between, without blanks and quotes around them. Errors: it has not as
/// many.
fn columns<const N: usize>(line: &str) -> std::result::Result<[&str; N], String> {
    let (mut columns, mut count) = ([""; N], 0);
    for column in line.split(',') {
        if let Some(place) = columns.get_mut(count) {
            *place = column.trim().trim_matches('"');
        }
        count += 1;
    }
    match count == N {
        true => Ok(columns),
        false => Err(format!("a row has {N} columns, this one {count}")),
    }
}

/// A stamp of a row. Errors: as [`number`], and where it is below zero.
fn stamp(text: Option<&str>) -> std::result::Result<i64, String> {
    let at: i64 = number(text, "time")?;
    if at < 0 { Err(format!("`{at}` is no time")) } else { Ok(at) }
}

/// A whole number of a row; `name` is what it is. Errors: that the row ends before it, or what stands there instead.
fn number<T: std::str::FromStr>(text: Option<&str>, name: &str) -> std::result::Result<T, String> {
    let text = text.ok_or_else(|| format!("the row ends before its {name}"))?.trim();
    text.parse().map_err(|_| format!("`{text}` is no {name}"))
}
