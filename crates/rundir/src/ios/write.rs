//! The writer of `ios.parquet`: rows into column buffers, a full row group to the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use taillight_core::{Error, OpKind, Record, Result};

use super::batch::RowBatch;
use super::column::{DenseColumn, OptionalColumn};
use super::constant::constant_column;
use super::encode::{ColumnLayout, ColumnLayouts, EncodedColumn, stepped, write_optional};
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

/// A function that is shown the rows on their way into the file, in its order, so that nobody has to read them back.
pub type OnRows<'a> = dyn FnMut(&RowBatch) + 'a;

/// Writes `ios.parquet`. Holds one row group in memory: up to 10 bytes a row for each column whose values
/// differ.
pub struct IosWriter {
    file: TempFile,
    writer: SerializedFileWriter<std::fs::File>,
    layouts: ColumnLayouts,
    rows: RowBatch,
    /// Phase (index), workload and worker of the rows that come, once known.
    key: Option<(u16, u16, u16)>,
    /// Rows of the batch whose key is noted in it.
    keyed: usize,
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
            rows: RowBatch::default(),
            key: None,
            keyed: 0,
        })
    }

    /// Rows pushed so far.
    pub fn rows(&self) -> u64 {
        self.rows.first_row + self.rows.rows as u64
    }

    /// The rows that follow are of `key`.
    pub fn begin(&mut self, key: RowKey<'_>) {
        self.note_key();
        let names = &mut self.rows.phase_names;
        let known = names.iter().position(|name| name == key.phase);
        let phase = known.unwrap_or_else(|| {
            names.push(key.phase.to_owned());
            names.len() - 1
        });
        self.key = Some((phase as u16, key.workload, key.worker));
    }

    /// Gives the rows since the last call their key.
    fn note_key(&mut self) {
        let Some((phase, workload, worker)) = self.key else {
            return;
        };
        let (from, to) = (std::mem::replace(&mut self.keyed, self.rows.rows), self.rows.rows);
        self.rows.phase.extend(from, to, phase);
        self.rows.workload.extend(from, to, workload);
        self.rows.worker.extend(from, to, worker);
    }

    /// Adds a row. Rows come by worker, in submit order; `group` sees those of a full row group.
    /// Errors: `Unavailable` when it cannot be written; `Internal` when no [`IosWriter::begin`] said
    /// whose rows they are.
    #[inline]
    pub fn push_seen(&mut self, record: &Record, group: &mut OnRows<'_>) -> Result<()> {
        self.rows.push(record);
        if self.rows.rows == GROUP_ROWS {
            self.flush(group)?;
        }
        Ok(())
    }

    /// The same where nobody looks. Errors: as [`IosWriter::push_seen`].
    pub fn push(&mut self, record: &Record) -> Result<()> {
        self.push_seen(record, &mut |_| ())
    }

    /// Writes what is left and gives the file its name. Returns the number of rows. Errors:
    /// `Unavailable` when the file cannot be written.
    pub fn finish(self) -> Result<u64> {
        self.finish_seen(&mut |_| ())
    }

    /// The same; `group` sees the last rows. Errors: as [`IosWriter::finish`].
    pub fn finish_seen(mut self, group: &mut OnRows<'_>) -> Result<u64> {
        self.flush(group)?;
        self.writer.close().map_err(|e| table::unwritten(names::IOS, e))?;
        self.file.commit()?;
        Ok(self.rows.first_row)
    }

    fn flush(&mut self, group: &mut OnRows<'_>) -> Result<()> {
        if self.rows.rows == 0 {
            return Ok(());
        }
        if self.key.is_none() {
            return Err(Error::internal("rows of ios.parquet have no worker"));
        }
        self.note_key();
        let bad = |e| table::unwritten(names::IOS, e);
        let schema = self.writer.schema_descr().clone();
        let encoder = GroupEncoder { layouts: &self.layouts, schema: &schema };
        let columns = encoder.columns(&self.rows, group).map_err(bad)?;
        let mut group = self.writer.next_row_group().map_err(bad)?;
        for (bytes, close) in columns {
            group.append_column(&bytes, close).map_err(bad)?;
        }
        group.close().map_err(bad)?;
        self.rows.clear();
        self.keyed = 0;
        Ok(())
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
    /// and nothing is being measured any more. Meanwhile `group` sees the rows.
    fn columns(&self, b: &RowBatch, group: &mut OnRows<'_>) -> ParquetResult<Vec<EncodedColumn>> {
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
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let others = if b.rows < THREADS_FROM { 1 } else { cores.min(THREADS) };
        let mut all = std::thread::scope(|scope| {
            let others: Vec<_> = (1..others).map(|_| scope.spawn(work)).collect();
            group(b);
            let mut all = work();
            for other in others {
                match other.join() {
                    Ok(done) => all.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, chunk)| chunk).collect()
    }

    fn column(&self, b: &RowBatch, index: usize) -> ParquetResult<EncodedColumn> {
        use ColumnLayout::{Delta, Dictionary};
        match index {
            schema::PHASE => self.text(b, index, &b.phase, &b.phase_names, usize::from),
            schema::WORKLOAD => self.number(b, index, &b.workload),
            schema::WORKER => self.number(b, index, &b.worker),
            schema::OP => {
                self.text(b, index, &b.op, &OpKind::ALL.map(OpKind::name), |op| op as usize)
            }
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
        b: &RowBatch,
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

    fn sparse<T: DataType<T: Copy + Default>>(
        &self,
        b: &RowBatch,
        index: usize,
        layout: ColumnLayout,
        column: &OptionalColumn<T::T>,
    ) -> ParquetResult<EncodedColumn> {
        match column.constant() {
            Some(value) => constant_column::<T>(self.descr(index), value, b.rows),
            None => self
                .layouts
                .encode::<T>(layout, self.descr(index), |out| write_optional(out, column)),
        }
    }

    fn address(
        &self,
        b: &RowBatch,
        index: usize,
        column: &OptionalColumn<i64>,
    ) -> ParquetResult<EncodedColumn> {
        let layout =
            if stepped(&column.present().0) { ColumnLayout::Delta } else { ColumnLayout::Split };
        self.sparse::<Int64Type>(b, index, layout, column)
    }

    fn number(
        &self,
        b: &RowBatch,
        index: usize,
        column: &DenseColumn<u16>,
    ) -> ParquetResult<EncodedColumn> {
        let mut wide = DenseColumn::default();
        match column.values() {
            Err(value) => wide.set_all(i32::from(value)),
            Ok(values) => wide.list().extend(values.iter().copied().map(i32::from)),
        }
        self.dense::<Int32Type>(b, index, ColumnLayout::Delta, &wide)
    }

    /// A column of names, of which the rows hold numbers.
    fn text<V: Copy + PartialEq>(
        &self,
        b: &RowBatch,
        index: usize,
        column: &DenseColumn<V>,
        names: &[impl AsRef<str>],
        place: impl Fn(V) -> usize,
    ) -> ParquetResult<EncodedColumn> {
        let text = |value| ByteArray::from(names[place(value)].as_ref());
        let values = match column.values() {
            Err(value) => {
                let (descr, value) = (self.descr(index), Some(text(value)));
                return constant_column::<ByteArrayType>(descr, value, b.rows);
            }
            Ok(values) => values,
        };
        let texts: Vec<ByteArray> = names.iter().map(|n| ByteArray::from(n.as_ref())).collect();
        let layout = ColumnLayout::Dictionary;
        self.layouts.encode::<ByteArrayType>(layout, self.descr(index), |out| {
            let mut block = Vec::with_capacity(1024);
            for values in values.chunks(1024) {
                block.clear();
                block.extend(values.iter().map(|value| texts[place(*value)].clone()));
                out.write_batch(&block, None, None)?;
            }
            Ok(())
        })
    }
}

impl std::fmt::Debug for IosWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IosWriter").field("rows", &self.rows()).finish_non_exhaustive()
    }
}
