//! `histograms.hlog`: an HdrHistogram log V2, readable by every HdrHistogram tool.
//!
//! Stamps are seconds since BaseTime, which is CLOCK_REALTIME at the manifest's clock reading;
//! the format keeps milliseconds. Values are ns, the maximum column is in ms.

use std::borrow::Borrow;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry,
};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use taillight_core::plan::tag_text;
use taillight_core::{Error, LatencyKind, OpKind, Result};

use crate::atomic::{TempFile, cannot};
use crate::dir::RunDir;
use crate::manifest::ClockInfo;
use crate::names;

/// What a histogram of the log is about: `phase/workload/op/kind`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistTag {
    pub phase: String,
    /// Name of the workload, as [`tag_text`] gives it.
    pub workload: String,
    pub op: OpKind,
    pub kind: LatencyKind,
}

impl HistTag {
    fn text(&self) -> String {
        format!(
            "{}/{}/{}/{}",
            tag_text(&self.phase),
            tag_text(&self.workload),
            self.op.name(),
            self.kind.name()
        )
    }

    /// The tag of a line; none for one that is not ours.
    pub fn parse(text: &str) -> Option<HistTag> {
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

/// Comment that only our logs have: it tells the unit, which the format has no place for.
pub const OWN_COMMENT: &str = "[Values in ns, maximum in ms, tags phase/workload/op/kind]";
/// The maximum column is in ms.
const MAX_DIVISOR: f64 = 1e6;
/// Bytes of the log that are held before they are written.
const HELD: usize = 1 << 20;

/// `histograms.hlog` being written, a megabyte at a time: a shorter log touches no storage before its
/// end.
pub struct HistogramWriter {
    dir: PathBuf,
    begin_ns: i64,
    /// Not written yet.
    text: Vec<u8>,
    file: Option<TempFile>,
    serializer: V2DeflateSerializer,
    packed: Vec<u8>,
    failed: Option<Error>,
}

impl HistogramWriter {
    /// Of that run directory; `clock` is its manifest's.
    pub fn new(dir: &RunDir, clock: &ClockInfo) -> HistogramWriter {
        let mut serializer = V2DeflateSerializer::new();
        let base = SystemTime::UNIX_EPOCH + Duration::from_nanos(clock.realtime_ns.max(0) as u64);
        let mut text = Vec::new();
        let begun = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(OWN_COMMENT)
            .with_start_time(base)
            .with_base_time(base)
            .with_max_value_divisor(MAX_DIVISOR)
            .begin_log_with(&mut text, &mut serializer)
            .err();
        HistogramWriter {
            failed: begun.map(|e| cannot("write", &dir.file(names::HISTOGRAMS), e)),
            dir: dir.path().to_owned(),
            begin_ns: clock.monotonic_ns,
            text,
            file: None,
            serializer,
            packed: Vec::new(),
        }
    }

    /// Adds a histogram. What goes wrong is told by [`HistogramWriter::commit`].
    pub fn put<H: Borrow<Histogram<u64>>>(&mut self, entry: &HistEntry<H>) {
        if self.failed.is_none() {
            self.failed = self.add(entry).err();
        }
    }

    fn add<H: Borrow<Histogram<u64>>>(&mut self, entry: &HistEntry<H>) -> Result<()> {
        let histogram = entry.histogram.borrow();
        self.packed.clear();
        self.serializer
            .serialize(histogram, &mut self.packed)
            .map_err(|e| Error::internal("a histogram cannot be packed").with("why", e))?;
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        let since = entry.start_ns.saturating_sub(self.begin_ns).max(0) as u64;
        let line = format!(
            "Tag={},{:.3},{:.3},{:.3},{}\n",
            entry.tag.text(),
            seconds(since),
            seconds(entry.length_ns),
            histogram.max() as f64 / MAX_DIVISOR,
            base64::engine::general_purpose::STANDARD.encode(&self.packed),
        );
        self.text.extend_from_slice(line.as_bytes());
        if self.text.len() < HELD { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => TempFile::create(&self.dir, names::HISTOGRAMS)?,
        };
        let path = self.dir.join(names::HISTOGRAMS);
        let file = self.file.insert(file);
        file.write_all(&self.text).map_err(|e| cannot("write", &path, e))?;
        self.text.clear();
        Ok(())
    }

    /// Writes the rest and gives the file its name. Errors: `Unavailable` when any of it could not be
    /// written.
    pub fn commit(mut self) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.write()?;
        self.file.map_or(Ok(()), TempFile::commit)
    }
}

/// Writes `histograms.hlog`. Errors: `Unavailable` when the file cannot be written.
pub fn write_histograms<H: Borrow<Histogram<u64>>>(
    dir: &RunDir,
    clock: &ClockInfo,
    entries: impl IntoIterator<Item = HistEntry<H>>,
) -> Result<()> {
    let mut writer = HistogramWriter::new(dir, clock);
    entries.into_iter().for_each(|entry| writer.put(&entry));
    writer.commit()
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

/// Unpacks a histogram of a log; none for what is damaged. The lengths inside are checked before the decoder believes
/// them.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
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
