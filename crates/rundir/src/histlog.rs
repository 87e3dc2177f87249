//! `histograms.hlog`: written as an HdrHistogram log (format 1.3, histograms V2), as HdrHistogram's own tools read it;
//! histograms of the versions 0 to 2 are decoded.
//!
//! Stamps are seconds since BaseTime, which is CLOCK_REALTIME at the manifest's clock reading;
//! the format keeps milliseconds. Values are ns, the maximum column is in ms.

use std::borrow::Borrow;
use std::collections::BTreeMap;
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
use serde::{Deserialize, Serialize};
use taillight_core::plan::tag_text;
use taillight_core::{Error, LatencyKind, OpKind, Result};

use crate::atomic::{TempFile, cannot};
use crate::dir::RunDir;
use crate::latency::LatencyBin;
use crate::manifest::ClockInfo;
use crate::names;
use crate::origin::{ImportedBin, ImportedOp};

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
    /// As the log has it.
    pub fn text(&self) -> String {
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
/// Comment of our logs whose values stand for bins of another tool; percent, [`BINS_AND`], ns and [`BINS_END`] follow.
const BINS_BEGIN: &str = "[Values stand for bins of another tool, off by up to ";
const BINS_AND: &str = " % and ";
const BINS_END: &str = " ns]";

/// How far values of a log may be off, because they stand for bins of another tool: by neither more than the share nor
/// more than the time. Bins of one width are far off as a share only near 0, others in ns only far from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct BinsError {
    /// Of each value, 0 to 1.
    pub share: f64,
    pub ns: u64,
}

impl BinsError {
    /// Takes in one more bin, for which its middle stands.
    pub fn add(&mut self, bin: LatencyBin) {
        self.share = self.share.max(bin.error());
        let off = if bin.is_open() { bin.hi_ns } else { bin.middle_ns() - bin.lo_ns };
        self.ns = self.ns.max(off);
    }

    /// How far off this value may be, ns.
    pub fn at(&self, ns: u64) -> f64 {
        (ns as f64 * self.share).min(self.ns as f64)
    }

    /// The comment that tells it.
    pub fn comment(&self) -> String {
        // Rounded up: a value is never further off than is told.
        let percent = (self.share * 1e6).ceil() / 1e4;
        format!("{BINS_BEGIN}{percent:.4}{BINS_AND}{}{BINS_END}", self.ns)
    }

    /// What a comment tells; none for any other comment.
    pub fn parse(comment: &str) -> Option<BinsError> {
        let told = comment.strip_prefix(BINS_BEGIN)?.strip_suffix(BINS_END)?;
        let (percent, ns) = told.split_once(BINS_AND)?;
        let share = percent.parse::<f64>().ok()? / 100.0;
        let error = BinsError { share, ns: ns.parse().ok()? };
        (0.0..=1.0).contains(&share).then_some(error)
    }
}

/// Before what such a log tells of a tag beside its histogram: the tag, [`TOLD_OF`], what is told and `]` follow.
const FIGURES_BEGIN: &str = "[Figures of ";
const EDGES_BEGIN: &str = "[Bins of ";
const TOLD_OF: &str = ": ";
/// Bins of one comment: readers of logs hold a line.
const BINS_A_LINE: usize = 64;

/// What another tool told of an operation: a histogram has no more than counts at the middles of its bins. Comments of
/// the log tell it all, so that it comes back as it was; programs that do not know them leave comments out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToldFigures {
    /// Place of the job among all of the run, from 0.
    pub place: u32,
    /// Its name, of which a tag replaces some characters.
    pub workload: String,
    /// As [`crate::origin::ImportedWorkload`] has it: stamps of a log are too coarse for it.
    pub group: u32,
    /// The tool with its version, and what its latencies span; empty in logs of earlier versions.
    #[serde(default)]
    pub tool: String,
    #[serde(default)]
    pub spans: String,
    pub op: ImportedOp,
}

impl ToldFigures {
    /// The comments that tell them of a tag. Errors: `Internal` where they cannot be written.
    pub fn comments(mut self, tag: &HistTag) -> Result<Vec<String>> {
        let bins = std::mem::take(&mut self.op.latency.bins);
        let tag = tag.text();
        let json = serde_json::to_string(&self)
            .map_err(|e| Error::internal("figures that are no JSON").source(e))?;
        let mut all = vec![format!("{FIGURES_BEGIN}{tag}{TOLD_OF}{json}]")];
        for part in bins.chunks(BINS_A_LINE) {
            let each = part.iter().map(|it| format!("{}-{} {}", it.lo_ns, it.hi_ns, it.count));
            let each: Vec<String> = each.collect();
            all.push(format!("{EDGES_BEGIN}{tag}{TOLD_OF}{}]", each.join(", ")));
        }
        Ok(all)
    }

    /// Adds what a comment tells to what is `known` of its tag; the number of its bins. Errors: why it cannot be read.
    pub fn take_in(
        comment: &str,
        known: &mut BTreeMap<HistTag, ToldFigures>,
    ) -> std::result::Result<usize, &'static str> {
        const BAD: &str = "figures of another tool that are damaged";
        let told = |begin: &str| {
            let rest = comment.strip_prefix(begin)?;
            let told = rest.strip_suffix(']').and_then(|rest| rest.split_once(TOLD_OF));
            Some(told.and_then(|(tag, it)| Some((HistTag::parse(tag)?, it))).ok_or(BAD))
        };
        if let Some(told) = told(FIGURES_BEGIN) {
            let (tag, json) = told?;
            let found: ToldFigures = serde_json::from_str(json).map_err(|_| BAD)?;
            return match known.insert(tag, found) {
                None => Ok(0),
                Some(_) => Err("the figures of an operation stand in the log twice"),
            };
        }
        let Some(told) = told(EDGES_BEGIN) else { return Ok(0) };
        let (tag, edges) = told?;
        let bins = &mut known.get_mut(&tag).ok_or(BAD)?.op.latency.bins;
        let before = bins.len();
        for one in edges.split(", ") {
            bins.push(told_bin(one).ok_or(BAD)?);
        }
        Ok(bins.len() - before)
    }
}

/// `87040-88063 2`: least, most, count.
fn told_bin(text: &str) -> Option<ImportedBin> {
    let (edges, count) = text.split_once(' ')?;
    let (lo, hi) = edges.split_once('-')?;
    let bin = ImportedBin {
        lo_ns: lo.parse().ok()?,
        hi_ns: hi.parse().ok()?,
        count: count.parse().ok()?,
    };
    (bin.lo_ns <= bin.hi_ns).then_some(bin)
}

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
    /// Bytes that are held before they are written.
    hold: usize,
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
            hold: HELD,
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
        if self.text.len() < self.hold { Ok(()) } else { self.write() }
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

/// The text of a log of these histograms, with these comments before them; nothing is written. Errors: `Internal` for a
/// histogram that cannot be packed.
pub fn log_text<H: Borrow<Histogram<u64>>>(
    dir: &RunDir,
    comments: &[String],
    entries: impl IntoIterator<Item = HistEntry<H>>,
) -> Result<Vec<u8>> {
    let mut writer = HistogramWriter::new(dir, &dir.manifest().clock);
    writer.hold = usize::MAX;
    for comment in comments {
        writer.text.extend_from_slice(format!("#{comment}\n").as_bytes());
    }
    entries.into_iter().for_each(|entry| writer.put(&entry));
    writer.failed.map_or(Ok(writer.text), Err)
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

/// Cookies of packed histograms: compressed and plain, of the versions 0, 1 and 2 of the format.
const COOKIES: [(u32, u32); 3] =
    [(0x1c84_9309, 0x1c84_9308), (0x1c84_9302, 0x1c84_9301), (0x1c84_9304, 0x1c84_9303)];
/// Bits of a cookie that say how wide a count is, and not which version it is.
const WORD_BITS: u32 = 0xf0;
/// Bytes of the plain header; of version 0, which has no length of what follows, no ratio and no offset.
const PLAIN_HEADER: usize = 40;
const PLAIN_HEADER_V0: usize = 32;
/// Most bytes a histogram may unpack to: five digits over all of u64 need less.
const PLAIN_MAX: u64 = 64 << 20;

/// Unpacks a histogram of a log; none for what is damaged. The lengths inside are checked before the decoder believes
/// them. Logs of versions before ours have other cookies and counts of one width.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let packed = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    let cookie = word(&packed, 0)? & !WORD_BITS;
    let version = COOKIES.iter().position(|(compressed, _)| *compressed == cookie)?;
    if word(&packed, 4)? as usize != packed.len() - 8 {
        return None;
    }
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[8..]).take(PLAIN_MAX).read_to_end(&mut plain).ok()?;
    if word(&plain, 0)? & !WORD_BITS != COOKIES[version].1 {
        return None;
    }
    let whole = || Some(PLAIN_HEADER.checked_add(word(&plain, 4)? as usize)? == plain.len());
    match version {
        0 => counted(&plain, 4, PLAIN_HEADER_V0),
        _ if whole() != Some(true) => None,
        // What it is shifted by is never written to a log.
        1 if word(&plain, 8)? != 0 => None,
        1 => counted(&plain, 12, PLAIN_HEADER),
        _ => Deserializer::new().deserialize(&mut plain.as_slice()).ok(),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// A plain histogram of version 0 or 1: digits and bounds at `at`, and from `from` on counts of one width. Their places
/// are those of `AbstractHistogram.valueFromIndex`.
fn counted(plain: &[u8], at: usize, from: usize) -> Option<Histogram<u64>> {
    let long = |at: usize| plain.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let (digits, lowest, highest) = (word(plain, at)?, long(at + 4)?, long(at + 12)?);
    let width = ((word(plain, 0)? & WORD_BITS) >> 4) as usize;
    let counts = plain.get(from..)?;
    if ![2, 4, 8].contains(&width) || counts.len() % width != 0 {
        return None;
    }
    let digits = u8::try_from(digits).ok().filter(|digits| *digits <= 5)?;
    let mut found = Histogram::new_with_bounds(lowest, highest, digits).ok()?;
    let half = (2 * 10u64.pow(digits.into())).next_power_of_two() / 2;
    for (index, bytes) in counts.chunks(width).enumerate() {
        let count = bytes.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        if count == 0 {
            continue;
        }
        let index = index as u64;
        // The first two halves are as wide as each other, every later one twice as wide.
        let (bucket, sub) = match index / half {
            0 => (0, index),
            of => (of - 1, index % half + half),
        };
        let shift = u32::try_from(bucket).ok()?.checked_add(lowest.max(1).ilog2())?;
        let value = u128::from(sub).checked_shl(shift).filter(|_| shift < u64::BITS)?;
        found.record_n(u64::try_from(value).ok()?, count).ok()?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::ImportedLatency;

    /// Once one bin from 0 on made every value of bins of 1 ms twice as large as it may be.
    #[test]
    fn the_error_of_bins_is_told_and_read() {
        let mut error = BinsError::default();
        error.add(LatencyBin { lo_ns: 0, hi_ns: 999_999 });
        error.add(LatencyBin { lo_ns: 7_000_000, hi_ns: 7_999_999 });
        let told = BinsError::parse(&error.comment()).unwrap();
        assert!(told.share >= error.share && told.share <= 1.0, "{told:?}");
        assert_eq!((told.ns, told.at(100_500_000)), (500_000, 500_000.0));
        assert!(told.at(1_000) <= 1_000.0);
        let far = BinsError { share: 1.01, ns: 1 };
        for other in [OWN_COMMENT.to_owned(), error.comment().replace(" ns", ""), far.comment()] {
            assert_eq!(BinsError::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn what_another_tool_told_of_an_operation_comes_back_from_its_comments() {
        let kind = LatencyKind::Service;
        let (phase, workload) = ("measure".to_owned(), "a b".to_owned());
        let tag = HistTag { phase, workload: workload.clone(), op: OpKind::Read, kind };
        // More than a line holds, the last open.
        let bins: Vec<ImportedBin> = (0..200)
            .map(|i| ImportedBin { lo_ns: i * 1000, hi_ns: i * 1000 + 999, count: i + 1 })
            .chain([ImportedBin { lo_ns: 200_000, hi_ns: LatencyBin::OPEN_NS, count: 7 }])
            .collect();
        let latency = ImportedLatency { stddev_ns: Some(1.5), ..ImportedLatency::from_bins(bins) };
        assert_eq!((latency.max_ns, latency.mean_ns), (None, None));
        let op = ImportedOp { count: 20_107, iops: 1.0 / 3.0, latency, ..ImportedOp::default() };
        let (tool, spans) = ("fio 3.33".to_owned(), "clat".to_owned());
        let told = ToldFigures { place: 2, workload, group: 3, tool, spans, op };
        let comments = told.clone().comments(&tag).unwrap();
        assert!(comments.len() > 3 && comments.iter().all(|it| !it.contains('\n')), "{comments:?}");
        let read = |comments: &[String]| {
            let mut known = BTreeMap::new();
            let each = comments.iter().map(|it| ToldFigures::take_in(it, &mut known));
            let bins = each.sum::<std::result::Result<usize, &str>>()?;
            Ok::<_, &str>((bins, known))
        };
        let (bins, mut known) = read(&comments).unwrap();
        let tag = HistTag { workload: "a_b".to_owned(), ..tag };
        assert_eq!((bins, known.remove(&tag)), (201, Some(told)));
        let twice = [&comments[..1], &comments[..1]].concat();
        assert!(read(&twice).unwrap_err().contains("twice"));
        let bad = |from: &str, to: &str| comments[1].replacen(from, to, 1);
        for bad in [bad("]", ""), bad("0-999 1", "999-0 1"), bad("0-999 1", "0-999"), bad("/", "")]
        {
            assert!(read(&[comments[0].clone(), bad]).unwrap_err().contains("damaged"));
        }
        assert!(read(&comments[1..2]).is_err(), "bins of no figures");
        assert_eq!(read(&[OWN_COMMENT.to_owned()]).unwrap().0, 0);
    }

    /// Intervals that jHiccup 2.0.1 (version 0), 2.0.6 (version 1) and 2.0.7 (version 2) wrote, with most and count as
    /// HdrHistogram 2.2.2 reads them.
    const LOGGED: [(&str, u64, u64); 3] = [
        (
            "HISTiQAAAG542pNpmdzBwMDAxAAGfgoMDMxuBjsWQLgMTI+gDFYozQmlOaA0M5Rmg9LsUJoFjc+GZg4rmjkwdUxo\
             fG4obQeldaG0LJTmR1PvCKXVIRQjzL2BUFoYTT0jwyjABkbDZTSeR8FofI+CEQ4AUBEGxA==",
            3_047_423,
            738,
        ),
        (
            "HISTIgAAAFd42pNpmazIwMAYxgABTBDKT4GBgdnNYMcCBvsPUBkeBkYGZqA8MwMbAzsDC5DFBCTZgJCDQY1BjkGL\
             QZRBlUEPCB8zWDCYMxgDZZkZhgJgHDibAY8JB/A=",
            2_801_663,
            724,
        ),
        (
            "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkhIR4nrxg9v2lMaxhvMekI\
             LGZkKmcCAEf2CsI=",
            2_768_895,
            741,
        ),
    ];

    #[test]
    fn histograms_of_every_version_of_the_format_are_read() {
        for (packed, most, count) in LOGGED {
            let found = decode(packed).unwrap();
            assert_eq!((found.max(), found.len()), (most, count));
            let cut = &packed[..packed.len() - 4];
            assert!(decode(cut).is_none());
        }
    }
}
