//! The writer of `ios.parquet`: rows into column buffers, a full row group to the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use taillight_core::{OpKind, Record, Result, Stamp};

use super::encode::{ColumnLayout, ColumnLayouts, OptionalColumn, repeat, repeat_text, stepped};
use super::{GROUP_ROWS, schema};
use crate::atomic::TempFile;
use crate::dir::RunDir;
use crate::{names, table};

/// What rows share that one worker made in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKey<'a> {
    pub phase: &'a str,
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Worker over all workloads.
    pub worker: u16,
}

/// Writes `ios.parquet`. Holds one row group in memory, about 60 bytes a row.
pub struct IosWriter {
    file: TempFile,
    writer: SerializedFileWriter<std::fs::File>,
    layouts: ColumnLayouts,
    buffers: ColumnBuffers,
    rows: u64,
}

/// A run of rows with the same key.
#[derive(Debug)]
struct KeyRun {
    phase: String,
    workload: u16,
    worker: u16,
    rows: usize,
}

#[derive(Debug, Default)]
struct ColumnBuffers {
    runs: Vec<KeyRun>,
    op: Vec<OpKind>,
    target: Vec<i32>,
    offset: OptionalColumn<i64>,
    key: OptionalColumn<i64>,
    size: Vec<i64>,
    moved: OptionalColumn<i64>,
    count: OptionalColumn<i32>,
    intended: OptionalColumn<i64>,
    origin: OptionalColumn<i64>,
    submit: Vec<i64>,
    issued: OptionalColumn<i64>,
    first: OptionalColumn<i64>,
    complete: Vec<i64>,
    sync: OptionalColumn<i64>,
    retries: OptionalColumn<i32>,
    status: Vec<i32>,
}

impl IosWriter {
    /// Starts the file in `dir` under a temporary name. Errors: `Unavailable` when it cannot be
    /// made.
    pub fn create(dir: &RunDir) -> Result<IosWriter> {
        let bad = |e| table::unwritten(names::IOS, e);
        let file = dir.begin(names::IOS)?;
        let properties = Arc::new(table::properties()?.build());
        let writer = SerializedFileWriter::new(file.handle()?, schema::schema()?, properties)
            .map_err(bad)?;
        Ok(IosWriter {
            file,
            writer,
            layouts: ColumnLayouts::new()?,
            buffers: ColumnBuffers::default(),
            rows: 0,
        })
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row. Rows come by worker, in submit order. Errors: `Unavailable` when a full row
    /// group cannot be written.
    #[inline]
    pub fn push(&mut self, key: RowKey<'_>, record: &Record) -> Result<()> {
        self.buffers.push(key, record);
        self.rows += 1;
        if self.buffers.op.len() == GROUP_ROWS {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is left and gives the file its name. Returns the number of rows. Errors:
    /// `Unavailable` when the file cannot be written.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.writer.close().map_err(|e| table::unwritten(names::IOS, e))?;
        self.file.commit()?;
        Ok(self.rows)
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffers.op.is_empty() {
            return Ok(());
        }
        let bad = |e| table::unwritten(names::IOS, e);
        let schema = self.writer.schema_descr().clone();
        let encoder = GroupEncoder { layouts: &self.layouts, schema: &schema };
        let columns = encoder.columns(&self.buffers).map_err(bad)?;
        let mut group = self.writer.next_row_group().map_err(bad)?;
        for (bytes, close) in columns {
            group.append_column(&bytes, close).map_err(bad)?;
        }
        group.close().map_err(bad)?;
        self.buffers.clear();
        Ok(())
    }
}

impl ColumnBuffers {
    #[inline]
    fn push(&mut self, key: RowKey<'_>, r: &Record) {
        match self.runs.last_mut() {
            Some(run)
                if run.worker == key.worker
                    && run.workload == key.workload
                    && run.phase == key.phase =>
            {
                run.rows += 1;
            }
            _ => self.runs.push(KeyRun {
                phase: key.phase.to_owned(),
                workload: key.workload,
                worker: key.worker,
                rows: 1,
            }),
        }
        let ns = |s: Option<Stamp>| s.map(|s| s.0);
        let int = |v: Option<u64>| v.map(|v| v as i64);
        self.op.push(r.op);
        self.target.push(i32::from(r.target));
        self.offset.push(int(r.offset));
        self.key.push(int(r.key));
        self.size.push(r.size as i64);
        self.moved.push(int(r.moved));
        self.count.push(r.count.map(|v| v as i32));
        self.intended.push(ns(r.intended));
        self.origin.push(ns(r.origin));
        self.submit.push(r.submit.0);
        self.issued.push(ns(r.issued));
        self.first.push(ns(r.first));
        self.complete.push(r.complete.0);
        self.sync.push(int(r.sync_ns));
        self.retries.push(r.retries.map(i32::from));
        self.status.push(r.status.0);
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.op.clear();
        self.target.clear();
        self.size.clear();
        self.submit.clear();
        self.complete.clear();
        self.status.clear();
        for column in [
            &mut self.offset,
            &mut self.key,
            &mut self.moved,
            &mut self.intended,
            &mut self.origin,
            &mut self.issued,
            &mut self.first,
            &mut self.sync,
        ] {
            column.clear();
        }
        self.count.clear();
        self.retries.clear();
    }
}

/// Pages of a column chunk, and what the row group must know of them.
type EncodedColumn = (bytes::Bytes, ColumnCloseResult);

/// Threads that encode a row group at most; four columns hold nearly all of it.
const THREADS: usize = 4;
/// Rows from which threads pay.
const THREADS_FROM: usize = 1 << 16;

struct GroupEncoder<'a> {
    layouts: &'a ColumnLayouts,
    schema: &'a SchemaDescriptor,
}

impl GroupEncoder<'_> {
    fn descr(&self, index: usize) -> ColumnDescPtr {
        self.schema.column(index)
    }

    /// Encodes every column, on as many threads as help: columns do not depend on each other,
    /// and nothing is being measured any more.
    fn columns(&self, b: &ColumnBuffers) -> ParquetResult<Vec<EncodedColumn>> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.schema.num_columns() {
                    return done;
                }
                done.push((index, self.column(b, index)));
            }
        };
        let mut all = if b.op.len() < THREADS_FROM {
            work()
        } else {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..cores.min(THREADS)).map(|_| scope.spawn(work)).collect();
                let mut all = work();
                for other in others {
                    match other.join() {
                        Ok(done) => all.extend(done),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
                all
            })
        };
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, chunk)| chunk).collect()
    }

    fn column(&self, b: &ColumnBuffers, index: usize) -> ParquetResult<EncodedColumn> {
        match index {
            schema::PHASE => self.phase(b),
            schema::WORKLOAD => self.run_number(b, index, |r| r.workload),
            schema::WORKER => self.run_number(b, index, |r| r.worker),
            schema::OP => self.op(b),
            schema::TARGET => self.dense::<Int32Type>(index, ColumnLayout::Delta, &b.target),
            schema::OFFSET => self.address(index, &b.offset),
            schema::KEY => self.address(index, &b.key),
            schema::SIZE => self.dense::<Int64Type>(index, few(&b.size), &b.size),
            schema::MOVED => self.sparse::<Int64Type>(index, ColumnLayout::Dictionary, &b.moved),
            schema::COUNT => self.sparse::<Int32Type>(index, ColumnLayout::Dictionary, &b.count),
            schema::INTENDED => self.sparse::<Int64Type>(index, ColumnLayout::Delta, &b.intended),
            schema::ORIGIN => self.sparse::<Int64Type>(index, ColumnLayout::Delta, &b.origin),
            schema::SUBMIT => self.dense::<Int64Type>(index, ColumnLayout::Delta, &b.submit),
            schema::ISSUED => self.sparse::<Int64Type>(index, ColumnLayout::Delta, &b.issued),
            schema::FIRST => self.sparse::<Int64Type>(index, ColumnLayout::Delta, &b.first),
            schema::COMPLETE => self.dense::<Int64Type>(index, ColumnLayout::Delta, &b.complete),
            schema::SYNC => self.sparse::<Int64Type>(index, ColumnLayout::Delta, &b.sync),
            schema::RETRIES => {
                self.sparse::<Int32Type>(index, ColumnLayout::Dictionary, &b.retries)
            }
            _ => self.dense::<Int32Type>(index, ColumnLayout::Delta, &b.status),
        }
    }

    fn dense<T: DataType>(
        &self,
        index: usize,
        layout: ColumnLayout,
        values: &[T::T],
    ) -> ParquetResult<EncodedColumn> {
        self.layouts.encode::<T>(layout, self.descr(index), |out| {
            out.write_batch(values, None, None).map(|_| ())
        })
    }

    fn sparse<T: DataType>(
        &self,
        index: usize,
        layout: ColumnLayout,
        column: &OptionalColumn<T::T>,
    ) -> ParquetResult<EncodedColumn> {
        self.layouts.encode::<T>(layout, self.descr(index), |out| column.write(out))
    }

    fn address(&self, index: usize, column: &OptionalColumn<i64>) -> ParquetResult<EncodedColumn> {
        let layout =
            if stepped(column.values()) { ColumnLayout::Delta } else { ColumnLayout::Split };
        self.sparse::<Int64Type>(index, layout, column)
    }

    fn phase(&self, b: &ColumnBuffers) -> ParquetResult<EncodedColumn> {
        let descr = self.descr(schema::PHASE);
        self.layouts.encode::<ByteArrayType>(ColumnLayout::Dictionary, descr, |out| {
            for run in &b.runs {
                repeat_text(out, &run.phase, run.rows)?;
            }
            Ok(())
        })
    }

    fn run_number(
        &self,
        b: &ColumnBuffers,
        index: usize,
        get: fn(&KeyRun) -> u16,
    ) -> ParquetResult<EncodedColumn> {
        self.layouts.encode::<Int32Type>(ColumnLayout::Delta, self.descr(index), |out| {
            for run in &b.runs {
                repeat(out, i32::from(get(run)), run.rows)?;
            }
            Ok(())
        })
    }

    fn op(&self, b: &ColumnBuffers) -> ParquetResult<EncodedColumn> {
        let texts: Vec<ByteArray> =
            OpKind::ALL.iter().map(|op| ByteArray::from(op.name())).collect();
        let descr = self.descr(schema::OP);
        self.layouts.encode::<ByteArrayType>(ColumnLayout::Dictionary, descr, |out| {
            let mut block = Vec::with_capacity(1024);
            for ops in b.op.chunks(1024) {
                block.clear();
                block.extend(ops.iter().map(|op| texts[*op as usize].clone()));
                out.write_batch(&block, None, None)?;
            }
            Ok(())
        })
    }
}

/// Sizes: one value packs to nothing as deltas, several are few.
fn few(values: &[i64]) -> ColumnLayout {
    if values.windows(2).all(|w| w[0] == w[1]) {
        ColumnLayout::Delta
    } else {
        ColumnLayout::Dictionary
    }
}

impl std::fmt::Debug for IosWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IosWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}
