//! Capture chunks into `ios.parquet`, after a phase or after a crash: rows by worker and phase,
//! each in submit order.

mod store;

use std::collections::BTreeMap;

use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Error, OpKind, Record, Result};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{IosWriter, OnRows, RowKey};
use taillight_rundir::reorder::{Order, ReorderScan};

use crate::chunk::{ChunkReader, Header};

pub use store::{ChunkFiles, ChunkStore, MemoryChunks};

/// I/Os by phase (index) and kind of operation.
pub type RowCounts = BTreeMap<(u16, OpKind), u64>;

/// When chunks may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkRelease {
    /// After `ios.parquet` has its name: a crash in between loses nothing.
    AtEnd,
    /// Each one as it has been read: takes no memory beyond the chunks, but a crash loses what
    /// was read. Such a conversion cannot be stopped once it writes.
    AsRead,
}

/// How to convert.
#[derive(Debug)]
pub struct ConvertOptions<'a> {
    /// Names of the phases, by the index chunks hold.
    pub phases: &'a [String],
    /// What the recorder counted; the rows must agree.
    pub expected: Option<&'a RowCounts>,
    /// Leave out chunks that cannot be read, and count them, instead of failing.
    pub tolerant: bool,
    /// When chunks may go.
    pub release: ChunkRelease,
}

/// What became of the chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Converted {
    /// Rows in `ios.parquet`.
    pub rows: u64,
    /// Rows by phase and operation.
    pub counts: RowCounts,
    /// Chunks that were missing or could not be read.
    pub damaged: u64,
    /// First submit and last completion stamp of each phase, ns.
    pub spans: BTreeMap<u16, (i64, i64)>,
    /// When the first operation of each phase was due, ns; of those that have a schedule.
    pub due: BTreeMap<u16, i64>,
    /// Where the first chunk begins that is marked as partial, ns; none when none is.
    pub partial_from: Option<i64>,
}

impl Converted {
    /// Notes whether a chunk says that records were left out.
    pub(crate) fn note_partial(&mut self, header: &Header) {
        if header.partial {
            let from = self.partial_from.unwrap_or(i64::MAX);
            self.partial_from = Some(from.min(header.base_ns));
        }
    }
}

/// Converts all chunks of `store` to the `ios.parquet` of `dir`, by worker, in submit order; `rows`
/// sees every row on its way.
/// Errors: `Unavailable` when the file cannot be written or `progress` asked to stop (the chunks
/// are then still there); `Corrupt` when a chunk cannot be read; `Internal` when rows and
/// `expected` differ (the file is kept, and with [`ChunkRelease::AtEnd`] the chunks too).
pub fn convert(
    dir: &RunDir,
    store: &mut dyn ChunkStore,
    options: &ConvertOptions<'_>,
    rows: &mut OnRows<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Converted> {
    let mut done = Converted::default();
    let mut streams = streams(store, options, &mut done)?;
    let mut total = 0;
    let mut read = 0;
    let mut buffer = Vec::new();
    for stream in &mut streams {
        // What workers saw to be in order needs no first pass, where nothing may be missing.
        if stream.ordered && !options.tolerant && options.expected.is_some() {
            continue;
        }
        stream.ordered = false;
        stream.scan(store, options, &mut done, &mut read, &mut buffer, progress)?;
        total += stream.scan.rows();
    }
    let total = options.expected.map_or(total, |counts| counts.values().sum());
    let mut sink = RowSink { writer: IosWriter::create(dir)?, rows, buffer, total, progress };
    for stream in streams {
        stream.write(store, options, &mut sink, &mut done)?;
    }
    done.rows = sink.writer.finish_seen(sink.rows)?;
    if let Some(expected) = options.expected {
        compare(expected, &done.counts)?;
    }
    if options.release == ChunkRelease::AtEnd {
        for chunk in 0..store.count() {
            store.release(chunk)?;
        }
    }
    Ok(done)
}

/// What the rows of all streams go through.
struct RowSink<'a, 'r, 'p> {
    writer: IosWriter,
    rows: &'a mut OnRows<'r>,
    buffer: Vec<u8>,
    total: u64,
    progress: &'a mut OnProgress<'p>,
}

/// The chunks of one worker in one phase, in order.
struct Stream {
    header: Header,
    chunks: Vec<usize>,
    /// All chunks say that their records are in submit order.
    ordered: bool,
    scan: ReorderScan,
}

/// A chunk among those of its worker.
struct FoundChunk {
    /// Its number in the store.
    chunk: usize,
    header: Header,
}

/// Sorts the chunks into streams by worker, then phase.
fn streams(
    store: &dyn ChunkStore,
    options: &ConvertOptions<'_>,
    done: &mut Converted,
) -> Result<Vec<Stream>> {
    let mut sorted: BTreeMap<(u16, u16, u16), Vec<FoundChunk>> = BTreeMap::new();
    for chunk in 0..store.count() {
        match store.header(chunk) {
            Ok(header) => {
                done.note_partial(&header);
                let stream = (header.worker, header.phase, header.workload);
                sorted.entry(stream).or_default().push(FoundChunk { chunk, header });
            }
            Err(_) if options.tolerant => done.damaged += u64::from(!unused(store, chunk)),
            Err(e) => return Err(e),
        }
    }
    let mut streams = Vec::new();
    let mut missing = 0;
    for (_, mut list) in sorted {
        list.sort_by_key(|found| (found.header.seq, found.chunk));
        if options.tolerant {
            // Killed while a chunk was being copied to the spill directory: the original counts.
            list.dedup_by_key(|found| found.header.seq);
        }
        let seqs = list.windows(2).map(|w| w[1].header.seq - w[0].header.seq);
        let gaps: u64 = seqs.map(|step| u64::from(step).abs_diff(1)).sum();
        if gaps > 0 && !options.tolerant {
            return Err(
                Error::internal("capture chunks are missing or double").with("chunks", gaps)
            );
        }
        missing += gaps;
        let Some(FoundChunk { header, .. }) = list.first() else {
            continue;
        };
        streams.push(Stream {
            header: *header,
            chunks: list.iter().map(|found| found.chunk).collect(),
            ordered: list.iter().all(|found| found.header.ordered),
            scan: ReorderScan::default(),
        });
    }
    // A chunk that cannot be read also leaves a gap.
    done.damaged = done.damaged.max(missing);
    Ok(streams)
}

/// Whether a chunk was made ready but never handed to a worker: all of it is zero.
fn unused(store: &dyn ChunkStore, chunk: usize) -> bool {
    let mut buffer = Vec::new();
    let head = store.bytes(chunk, &mut buffer).map(|b| b.iter().take(64).all(|b| *b == 0));
    head.unwrap_or(false)
}

impl Stream {
    fn scan(
        &mut self,
        store: &dyn ChunkStore,
        options: &ConvertOptions<'_>,
        done: &mut Converted,
        read: &mut u64,
        buffer: &mut Vec<u8>,
        progress: &mut OnProgress<'_>,
    ) -> Result<()> {
        let all = store.count() as u64;
        for chunk in &self.chunks {
            let bytes = store.bytes(*chunk, buffer)?;
            let chunk = ChunkReader::open(bytes)?;
            let mut cursor = chunk.cursor();
            while cursor.advance() {
                self.scan.add(cursor.submit(), || cursor.unpack());
            }
            match cursor.finish() {
                Err(_) if options.tolerant => done.damaged += 1,
                read => read?,
            }
            *read += 1;
            tell(progress, "reading the capture", *read, all, "chunks")?;
        }
        Ok(())
    }

    fn write(
        self,
        store: &mut dyn ChunkStore,
        options: &ConvertOptions<'_>,
        sink: &mut RowSink<'_, '_, '_>,
        done: &mut Converted,
    ) -> Result<()> {
        let RowSink { writer, rows, buffer, total, progress } = sink;
        let phase = phase_name(options.phases, self.header.phase);
        let key =
            RowKey { phase: &phase, workload: self.header.workload, worker: self.header.worker };
        writer.begin(key);
        let ordered = self.ordered;
        let mut order = if ordered { Order::of_ordered() } else { self.scan.finish() };
        let mut read = done.rows;
        let mut ops = [0u64; OpKind::ALL.len()];
        let mut span = (i64::MAX, i64::MIN);
        let (mut last, mut due) = (i64::MIN, i64::MAX);
        let mut emit = |record: &Record| {
            due = record.intended.map_or(due, |at| due.min(at.0));
            ops[record.op as usize] += 1;
            span = (span.0.min(record.submit.0), span.1.max(record.complete.0));
            writer.push_seen(record, rows)
        };
        for chunk in self.chunks {
            let bytes = store.bytes(chunk, buffer)?;
            let reader = ChunkReader::open(bytes)?;
            let mut cursor = reader.cursor();
            while cursor.advance() {
                let submit = cursor.submit();
                if ordered && submit < last {
                    return Err(Error::corrupt("a capture chunk is not in the order that it says")
                        .with("worker", self.header.worker));
                }
                last = submit;
                read += 1;
                order.push(&cursor.unpack(), &mut emit)?;
            }
            if ordered {
                // Else what cannot be read was counted, or refused, by the first pass.
                cursor.finish()?;
            }
            if options.release == ChunkRelease::AsRead {
                store.release(chunk)?;
            }
            let told = tell(progress, "writing ios.parquet", read, *total, "I/Os");
            if options.release == ChunkRelease::AtEnd {
                told?;
            }
        }
        order.finish(&mut emit)?;
        for (op, count) in OpKind::ALL.into_iter().zip(ops).filter(|(_, n)| *n > 0) {
            *done.counts.entry((self.header.phase, op)).or_default() += count;
            done.rows += count;
        }
        if span.0 <= span.1 {
            let all = done.spans.entry(self.header.phase).or_insert(span);
            *all = (all.0.min(span.0), all.1.max(span.1));
            let first = done.due.entry(self.header.phase).or_insert(due);
            *first = due.min(*first);
        }
        Ok(())
    }
}

/// Name of a phase; a manifest that was never rewritten may not list it.
fn phase_name(names: &[String], index: u16) -> String {
    match names.get(usize::from(index)) {
        Some(name) => name.clone(),
        None => format!("phase-{index}"),
    }
}

fn tell(
    progress: &mut OnProgress<'_>,
    what: &str,
    done: u64,
    total: u64,
    unit: &str,
) -> Result<()> {
    let more = progress(Progress { what, done, total, unit });
    if more {
        return Ok(());
    }
    Err(Error::unavailable("stopped before ios.parquet was complete").hint(
        "nothing is lost: `taillight report` on the run directory starts again from the \
             capture in memory",
    ))
}

fn compare(expected: &RowCounts, found: &RowCounts) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let show = |counts: &RowCounts| {
        let list: Vec<String> = counts
            .iter()
            .map(|((phase, op), n)| format!("phase {phase} {}: {n}", op.name()))
            .collect();
        list.join("; ")
    };
    Err(Error::internal("ios.parquet does not hold the I/Os that were recorded")
        .with("recorded", show(expected))
        .with("written", show(found)))
}
