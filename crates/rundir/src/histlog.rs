//! `histograms.hlog`: an HdrHistogram log V2, readable by every HdrHistogram tool.
//!
//! Stamps are seconds since BaseTime, which is CLOCK_REALTIME at the manifest's clock reading;
//! the format keeps milliseconds. Values are ns, the maximum column is in ms.

use std::fs;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use taillight_core::{Error, LatencyKind, OpKind, Result};

use crate::atomic::cannot;
use crate::dir::RunDir;
use crate::manifest::ClockInfo;
use crate::names;

/// What a histogram of the log is about: `phase/workload/op/kind`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistTag {
    pub phase: String,
    /// Name of the workload; characters that a tag cannot hold become `_`.
    pub workload: String,
    pub op: OpKind,
    pub kind: LatencyKind,
}

impl HistTag {
    fn text(&self) -> String {
        let clean = |s: &str| s.replace(['/', ',', ' ', '\r', '\n'], "_");
        format!(
            "{}/{}/{}/{}",
            clean(&self.phase),
            clean(&self.workload),
            self.op.name(),
            self.kind.name()
        )
    }

    fn parse(text: &str) -> Option<HistTag> {
        let mut parts = text.split('/');
        let (phase, workload) = (parts.next()?, parts.next()?);
        let op = OpKind::from_name(parts.next()?)?;
        let kind = LatencyKind::from_name(parts.next()?)?;
        parts.next().is_none().then(|| HistTag {
            phase: phase.to_owned(),
            workload: workload.to_owned(),
            op,
            kind,
        })
    }
}

/// One histogram of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct HistEntry<H> {
    /// Start of the interval, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// Length of the interval, ns.
    pub length_ns: u64,
    /// What it is about.
    pub tag: HistTag,
    /// Latencies, ns.
    pub histogram: H,
}

/// Writes `histograms.hlog`. Errors: `Unavailable` when the file cannot be written.
pub fn write_histograms<H: std::borrow::Borrow<Histogram<u64>>>(
    dir: &RunDir,
    clock: &ClockInfo,
    entries: impl IntoIterator<Item = HistEntry<H>>,
) -> Result<()> {
    let bad = |e| cannot("write", &dir.file(names::HISTOGRAMS), e);
    let file = dir.begin(names::HISTOGRAMS)?;
    let mut out = BufWriter::new(file.handle()?);
    let mut serializer = V2DeflateSerializer::new();
    let base = SystemTime::UNIX_EPOCH + Duration::from_nanos(clock.realtime_ns.max(0) as u64);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Values in ns, maximum in ms, tags phase/workload/op/kind]")
        .with_start_time(base)
        .with_base_time(base)
        .with_max_value_divisor(1e6)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(bad)?;
    for entry in entries {
        let since = entry.start_ns.saturating_sub(clock.monotonic_ns).max(0);
        let text = entry.tag.text();
        log.write_histogram(
            entry.histogram.borrow(),
            Duration::from_nanos(since as u64),
            Duration::from_nanos(entry.length_ns),
            Tag::new(&text),
        )
        .map_err(|e| {
            Error::unavailable("cannot write a file of the run directory")
                .with("path", dir.file(names::HISTOGRAMS).display())
                .with("why", e)
        })?;
    }
    drop(log);
    out.flush().map_err(bad)?;
    file.commit()
}

/// Reads a `histograms.hlog` back one histogram at a time: unpacked, each takes hundreds of
/// kilobytes, whatever it holds. Stamps come back to the millisecond. Errors: `Corrupt` when the
/// log is damaged or cut short; whatever `visit` says.
pub fn each_histogram(
    path: &Path,
    clock: &ClockInfo,
    visit: &mut dyn FnMut(HistEntry<Histogram<u64>>) -> Result<()>,
) -> Result<()> {
    walk(path, clock, &mut |entry, bad| {
        let histogram =
            decode(entry.histogram).ok_or_else(|| bad("a histogram that cannot be decoded"))?;
        visit(HistEntry {
            start_ns: entry.start_ns,
            length_ns: entry.length_ns,
            tag: entry.tag,
            histogram,
        })
    })
}

/// What the log is about, without unpacking the histograms. Errors: `Corrupt` when the log is
/// damaged or cut short.
pub fn list_histograms(path: &Path, clock: &ClockInfo) -> Result<Vec<HistEntry<()>>> {
    let mut entries = Vec::new();
    walk(path, clock, &mut |entry, _| {
        entries.push(HistEntry {
            start_ns: entry.start_ns,
            length_ns: entry.length_ns,
            tag: entry.tag,
            histogram: (),
        });
        Ok(())
    })?;
    Ok(entries)
}

type Walk<'a> = dyn FnMut(HistEntry<&str>, &dyn Fn(&str) -> Error) -> Result<()> + 'a;

/// Every line of the log, its histogram still packed.
fn walk(path: &Path, clock: &ClockInfo, visit: &mut Walk<'_>) -> Result<()> {
    let text = fs::read(path).map_err(|e| cannot("read", path, e))?;
    let bad = |why: &str| {
        Error::corrupt("the histogram log is damaged or cut short")
            .with("path", path.display())
            .with("why", why)
            .hint("delete it and make the report from what remains")
    };
    if text.last().is_some_and(|b| *b != b'\n') {
        return Err(bad("the last line has no end"));
    }
    for item in IntervalLogIterator::new(&text) {
        let Ok(item) = item else {
            return Err(bad("a line that is no histogram"));
        };
        let LogEntry::Interval(interval) = item else {
            continue;
        };
        let tag = interval.tag().and_then(|t| HistTag::parse(&t));
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).ok();
        let start = nanos(interval.start_timestamp()).and_then(|n| i64::try_from(n).ok());
        let entry = HistEntry {
            start_ns: start
                .and_then(|n| clock.monotonic_ns.checked_add(n))
                .ok_or_else(|| bad("a start out of range"))?,
            length_ns: nanos(interval.duration()).ok_or_else(|| bad("a length out of range"))?,
            tag: tag.ok_or_else(|| bad("a tag that is not phase/workload/op/kind"))?,
            histogram: interval.encoded_histogram(),
        };
        visit(entry, &bad)?;
    }
    Ok(())
}

/// Cookie of a compressed V2 histogram, and bytes of the plain header.
const COMPRESSED: u32 = 0x1c84_9304 | 0x10;
const PLAIN_HEADER: usize = 40;
/// Most bytes a histogram may unpack to: five digits over all of u64 need less.
const PLAIN_MAX: u64 = 64 << 20;

/// Unpacks a histogram. The lengths inside are checked before the decoder believes them.
fn decode(text: &str) -> Option<Histogram<u64>> {
    let packed = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let field = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        bytes.try_into().ok().map(u32::from_be_bytes)
    };
    if field(&packed, 0)? != COMPRESSED || field(&packed, 4)? as usize != packed.len() - 8 {
        return None;
    }
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[8..]).take(PLAIN_MAX).read_to_end(&mut plain).ok()?;
    let payload = field(&plain, 4)? as usize;
    if payload.checked_add(PLAIN_HEADER)? != plain.len() {
        return None;
    }
    Deserializer::new().deserialize(&mut plain.as_slice()).ok()
}
