//! The writer of `ios.parquet`: rows into column buffers, a full row group to the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use taillight_core::{Error, OpKind, Record, Result, Stamp};

use super::constant::constant_column;
use super::encode::{
    ColumnLayout, ColumnLayouts, DenseColumn, EncodedColumn, OptionalColumn, repeat, stepped,
};
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

/// Writes `ios.parquet`. Holds one row group in memory: 8 bytes a row for each column whose values
/// differ.
pub struct IosWriter {
    file: TempFile,
    writer: SerializedFileWriter<std::fs::File>,
    layouts: ColumnLayouts,
    buffers: ColumnBuffers,
    rows: u64,
}

/// Rows with the same key, up to the next run.
#[derive(Debug)]
struct KeyRun {
    /// First row, counted from the start of the row group.
    from: usize,
    phase: String,
    workload: u16,
    worker: u16,
}

#[derive(Debug, Default)]
struct ColumnBuffers {
    runs: Vec<KeyRun>,
    rows: usize,
    op: DenseColumn<OpKind>,
    target: DenseColumn<i32>,
    offset: OptionalColumn<i64>,
    key: OptionalColumn<i64>,
    size: DenseColumn<i64>,
    moved: OptionalColumn<i64>,
    count: OptionalColumn<i32>,
    intended: OptionalColumn<i64>,
    origin: OptionalColumn<i64>,
    submit: DenseColumn<i64>,
    issued: OptionalColumn<i64>,
    first: OptionalColumn<i64>,
    complete: DenseColumn<i64>,
    sync: OptionalColumn<i64>,
    retries: OptionalColumn<i32>,
    status: DenseColumn<i32>,
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

    /// The rows that follow are of `key`.
    pub fn begin(&mut self, key: RowKey<'_>) {
        self.buffers.begin(key);
    }

    /// Adds a row. Rows come by worker, in submit order. Errors: `Unavailable` when a full row
    /// group cannot be written; `Internal` when no [`IosWriter::begin`] said whose rows they are.
    #[inline]
    pub fn push(&mut self, record: &Record) -> Result<()> {
        self.buffers.push(record);
        self.rows += 1;
        if self.buffers.rows == GROUP_ROWS {
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
        if self.buffers.rows == 0 {
            return Ok(());
        }
        if self.buffers.runs.is_empty() {
            return Err(Error::internal("rows of ios.parquet have no worker"));
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
    fn begin(&mut self, key: RowKey<'_>) {
        let same = |run: &KeyRun| {
            run.worker == key.worker && run.workload == key.workload && run.phase == key.phase
        };
        if self.runs.last().is_some_and(same) {
            return;
        }
        self.runs.push(KeyRun {
            from: self.rows,
            phase: key.phase.to_owned(),
            workload: key.workload,
            worker: key.worker,
        });
    }

    #[inline]
    fn push(&mut self, r: &Record) {
        let ns = |s: Option<Stamp>| s.map(|s| s.0);
        let int = |v: Option<u64>| v.map(|v| v as i64);
        let row = self.rows;
        self.op.push(row, r.op);
        self.target.push(row, i32::from(r.target));
        self.offset.push(row, int(r.offset));
        self.key.push(row, int(r.key));
        self.size.push(row, r.size as i64);
        self.moved.push(row, int(r.moved));
        self.count.push(row, r.count.map(|v| v as i32));
        self.intended.push(row, ns(r.intended));
        self.origin.push(row, ns(r.origin));
        self.submit.push(row, r.submit.0);
        self.issued.push(row, ns(r.issued));
        self.first.push(row, ns(r.first));
        self.complete.push(row, r.complete.0);
        self.sync.push(row, int(r.sync_ns));
        self.retries.push(row, r.retries.map(i32::from));
        self.status.push(row, r.status.0);
        self.rows += 1;
    }

    /// Forgets the rows; those that follow are of the last key.
    fn clear(&mut self) {
        self.runs.drain(..self.runs.len().saturating_sub(1));
        self.runs.iter_mut().for_each(|run| run.from = 0);
        self.rows = 0;
        self.op.clear();
        for column in [&mut self.target, &mut self.status] {
            column.clear();
        }
        for column in [&mut self.size, &mut self.submit, &mut self.complete] {
            column.clear();
        }
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
        for column in [&mut self.count, &mut self.retries] {
            column.clear();
        }
    }

    /// A property of the rows by runs: value and number of rows.
    fn by_run<'a, V>(&'a self, get: impl Fn(&'a KeyRun) -> V) -> Vec<(V, usize)> {
        let ends = self.runs.iter().skip(1).map(|next| next.from).chain([self.rows]);
        self.runs.iter().zip(ends).map(|(run, end)| (get(run), end - run.from)).collect()
    }
}

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
        let mut all = if b.rows < THREADS_FROM {
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
        use ColumnLayout::{Delta, Dictionary};
        match index {
            schema::PHASE => self.phase(b),
            schema::WORKLOAD => self.run_number(b, index, |r| r.workload),
            schema::WORKER => self.run_number(b, index, |r| r.worker),
            schema::OP => self.op(b),
            schema::TARGET => self.dense::<Int32Type>(b, index, Delta, &b.target),
            schema::OFFSET => self.address(b, index, &b.offset),
            schema::KEY => self.address(b, index, &b.key),
            schema::SIZE => self.dense::<Int64Type>(b, index, Dictionary, &b.size),
            schema::MOVED => self.sparse::<Int64Type>(b, index, Dictionary, &b.moved),
            schema::COUNT => self.sparse::<Int32Type>(b, index, Dictionary, &b.count),
            schema::INTENDED => self.sparse::<Int64Type>(b, index, Delta, &b.intended),
            schema::ORIGIN => self.sparse::<Int64Type>(b, index, Delta, &b.origin),
            schema::SUBMIT => self.dense::<Int64Type>(b, index, Delta, &b.submit),
            schema::ISSUED => self.sparse::<Int64Type>(b, index, Delta, &b.issued),
            schema::FIRST => self.sparse::<Int64Type>(b, index, Delta, &b.first),
            schema::COMPLETE => self.dense::<Int64Type>(b, index, Delta, &b.complete),
            schema::SYNC => self.sparse::<Int64Type>(b, index, Delta, &b.sync),
            schema::RETRIES => self.sparse::<Int32Type>(b, index, Dictionary, &b.retries),
            _ => self.dense::<Int32Type>(b, index, Delta, &b.status),
        }
    }

    fn dense<T: DataType<T: Copy>>(
        &self,
        b: &ColumnBuffers,
        index: usize,
        layout: ColumnLayout,
        column: &DenseColumn<T::T>,
    ) -> ParquetResult<EncodedColumn> {
        match column.values() {
            Err(value) => constant_column::<T>(self.descr(index), Some(value), b.rows),
            Ok(values) => self.layouts.encode::<T>(layout, self.descr(index), |out| {
                out.write_batch(values, None, None).map(|_| ())
            }),
        }
    }

    fn sparse<T: DataType<T: Copy>>(
        &self,
        b: &ColumnBuffers,
        index: usize,
        layout: ColumnLayout,
        column: &OptionalColumn<T::T>,
    ) -> ParquetResult<EncodedColumn> {
        match column.constant() {
            Some(value) => constant_column::<T>(self.descr(index), value, b.rows),
            None => self.layouts.encode::<T>(layout, self.descr(index), |out| column.write(out)),
        }
    }

    fn address(
        &self,
        b: &ColumnBuffers,
        index: usize,
        column: &OptionalColumn<i64>,
    ) -> ParquetResult<EncodedColumn> {
        let layout =
            if stepped(column.values()) { ColumnLayout::Delta } else { ColumnLayout::Split };
        self.sparse::<Int64Type>(b, index, layout, column)
    }

    fn phase(&self, b: &ColumnBuffers) -> ParquetResult<EncodedColumn> {
        let runs = b.by_run(|r| r.phase.as_str());
        let descr = self.descr(schema::PHASE);
        if let Some(phase) = only(&runs) {
            return constant_column::<ByteArrayType>(descr, Some(phase.into()), b.rows);
        }
        self.layouts.encode::<ByteArrayType>(ColumnLayout::Dictionary, descr, |out| {
            runs.into_iter().try_for_each(|(phase, rows)| repeat(out, phase.into(), rows))
        })
    }

    fn run_number(
        &self,
        b: &ColumnBuffers,
        index: usize,
        get: fn(&KeyRun) -> u16,
    ) -> ParquetResult<EncodedColumn> {
        let runs = b.by_run(|r| i32::from(get(r)));
        if let Some(number) = only(&runs) {
            return constant_column::<Int32Type>(self.descr(index), Some(number), b.rows);
        }
        self.layouts.encode::<Int32Type>(ColumnLayout::Delta, self.descr(index), |out| {
            runs.into_iter().try_for_each(|(number, rows)| repeat(out, number, rows))
        })
    }

    fn op(&self, b: &ColumnBuffers) -> ParquetResult<EncodedColumn> {
        let descr = self.descr(schema::OP);
        let all = match b.op.values() {
            Err(op) => {
                let name = ByteArray::from(op.name());
                return constant_column::<ByteArrayType>(descr, Some(name), b.rows);
            }
            Ok(all) => all,
        };
        let texts: Vec<ByteArray> =
            OpKind::ALL.iter().map(|op| ByteArray::from(op.name())).collect();
        self.layouts.encode::<ByteArrayType>(ColumnLayout::Dictionary, descr, |out| {
            let mut block = Vec::with_capacity(1024);
            for ops in all.chunks(1024) {
                block.clear();
                block.extend(ops.iter().map(|op| texts[*op as usize].clone()));
                out.write_batch(&block, None, None)?;
            }
            Ok(())
        })
    }
}

/// The value of all runs, where they have but one.
fn only<V: Copy + PartialEq>(runs: &[(V, usize)]) -> Option<V> {
    let (first, _) = runs.first()?;
    runs.iter().all(|(value, _)| value == first).then_some(*first)
}

impl std::fmt::Debug for IosWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IosWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}
