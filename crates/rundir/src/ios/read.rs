//! The streaming reader of `ios.parquet`: typed batches of the asked columns, bounded memory.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use taillight_core::{OpKind, Record, Result, Stamp, Status};

use super::schema::{self, ColumnSet};
use super::source::ColumnSource;
use crate::table;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 16;
/// Rows of a row group that a reader believes.
const GROUP_ROWS_MAX: usize = 1 << 26;

/// One I/O as read. Its phase is [`RowBatch::phase_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Worker over all workloads.
    pub worker: u16,
    pub record: Record,
}

impl std::ops::Deref for Row {
    type Target = Record;
    #[inline]
    fn deref(&self) -> &Record {
        &self.record
    }
}

/// Consecutive rows. A column that was not asked for is empty; an asked one has one entry a row.
/// Stamps are CLOCK_MONOTONIC ns.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Rows in the batch.
    pub rows: usize,
    /// Number of the first row in the file, from 0.
    pub first_row: u64,
    /// Phase, as an index into `phase_names`.
    pub phase: Vec<u16>,
    /// Names of the phases seen so far.
    pub phase_names: Vec<String>,
    /// Index of the workload in the plan.
    pub workload: Vec<u16>,
    /// Worker over all workloads.
    pub worker: Vec<u16>,
    pub op: Vec<OpKind>,
    pub target: Vec<u16>,
    pub offset: Vec<Option<u64>>,
    pub key: Vec<Option<u64>>,
    pub size: Vec<u64>,
    /// Bytes moved; `None` means equal to `size`.
    pub moved: Vec<Option<u64>>,
    /// Items of a scan or batch.
    pub count: Vec<Option<u32>>,
    /// When the schedule wanted it to start; `None` in a closed loop: read it as `submit`.
    pub intended: Vec<Option<i64>>,
    /// The writer's stamp, end to end.
    pub origin: Vec<Option<i64>>,
    pub submit: Vec<i64>,
    /// After the flush that issued it.
    pub issued: Vec<Option<i64>>,
    pub first: Vec<Option<i64>>,
    /// Directly after the poll that returned it.
    pub complete: Vec<i64>,
    /// Duration of the sync inside it, ns.
    pub sync: Vec<Option<u64>>,
    /// Retries the driver made.
    pub retries: Vec<Option<u16>>,
    /// 0 ok, a positive errno, or negative: see [`Status`].
    pub status: Vec<i32>,
}

impl RowBatch {
    /// Row `i`.
    ///
    /// # Panics
    /// When it was not read with [`ColumnSet::ALL`], or there is no such row.
    #[inline]
    pub fn row(&self, i: usize) -> Row {
        Row {
            workload: self.workload[i],
            worker: self.worker[i],
            record: Record {
                op: self.op[i],
                target: self.target[i],
                offset: self.offset[i],
                key: self.key[i],
                size: self.size[i],
                moved: self.moved[i],
                count: self.count[i],
                intended: self.intended[i].map(Stamp),
                origin: self.origin[i].map(Stamp),
                submit: Stamp(self.submit[i]),
                issued: self.issued[i].map(Stamp),
                first: self.first[i].map(Stamp),
                complete: Stamp(self.complete[i]),
                sync_ns: self.sync[i],
                retries: self.retries[i],
                status: Status(self.status[i]),
            },
        }
    }

    /// Name of the phase of row `i`.
    ///
    /// # Panics
    /// When the column was not read, or there is no such row.
    pub fn phase_name(&self, i: usize) -> &str {
        &self.phase_names[usize::from(self.phase[i])]
    }
}

/// An open `ios.parquet`.
pub struct IosFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// Index in this file of each column of the schema; `None` where it lacks an optional one.
    indices: Vec<Option<usize>>,
}

impl IosFile {
    /// Opens the file and finds its columns. Reads only the footer. Errors: `Corrupt` when it is
    /// damaged, of an unknown version, lacks a column, or has one of another type.
    pub fn open(path: &Path) -> Result<IosFile> {
        let reader = table::open(path)?;
        let file = reader.metadata().file_metadata().schema_descr();
        let mut indices = Vec::new();
        for known in schema::descriptor()?.columns() {
            let index = table::column_index(path, file, known.name(), known.physical_type())?;
            if index.is_none() && !known.self_type().is_optional() {
                return Err(table::lacks_column(path, known.name()));
            }
            indices.push(index);
        }
        Ok(IosFile { path: path.to_owned(), reader, indices })
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        let groups = self.reader.metadata().row_groups();
        groups.iter().map(|g| g.num_rows().max(0) as u64).sum()
    }

    /// Compressed bytes of each column of the file.
    pub fn column_bytes(&self) -> Vec<(String, u64)> {
        let groups = self.reader.metadata().row_groups();
        let descr = self.reader.metadata().file_metadata().schema_descr();
        (0..descr.num_columns())
            .map(|c| {
                let bytes = groups.iter().map(|g| g.column(c).compressed_size().max(0) as u64);
                (descr.column(c).name().to_owned(), bytes.sum())
            })
            .collect()
    }

    /// Row groups in the file; they can be read independently.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Reads the asked columns of all rows, in file order. Errors: `Corrupt` when a page is
    /// damaged, else what `each` returns.
    pub fn read(
        &self,
        columns: ColumnSet,
        each: &mut dyn FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        let mut batch = RowBatch::default();
        for g in 0..self.groups() {
            self.read_group_into(g, columns, &mut batch, each)?;
        }
        Ok(())
    }

    /// Reads the asked columns of one row group. Errors: as [`IosFile::read`].
    pub fn read_group(
        &self,
        group: usize,
        columns: ColumnSet,
        each: &mut dyn FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        let before = self.reader.metadata().row_groups().iter().take(group);
        let mut batch = RowBatch {
            first_row: before.map(|g| g.num_rows().max(0) as u64).sum(),
            ..RowBatch::default()
        };
        self.read_group_into(group, columns, &mut batch, each)
    }

    fn read_group_into(
        &self,
        group: usize,
        columns: ColumnSet,
        batch: &mut RowBatch,
        each: &mut dyn FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        let reader = table::guarded(&self.path, || self.reader.get_row_group(group))?;
        let rows = table::group_rows(&self.path, reader.metadata().num_rows(), GROUP_ROWS_MAX)?;
        let mut sources = self.sources(reader.as_ref(), columns, rows)?;
        let mut done = 0;
        while done < rows {
            batch.rows = (rows - done).min(BATCH_ROWS);
            for (place, source) in &mut sources {
                let (column, first_row) = (schema::NAMES[*place], batch.first_row);
                table::guarded_column(&self.path, column, first_row, || {
                    batch.fill(*place, source)
                })?;
            }
            each(batch)?;
            batch.first_row += batch.rows as u64;
            done += batch.rows;
        }
        Ok(())
    }

    fn sources(
        &self,
        group: &dyn RowGroupReader,
        columns: ColumnSet,
        rows: usize,
    ) -> Result<Vec<(usize, ColumnSource)>> {
        let known = schema::descriptor()?;
        let open = |place: usize| {
            let source = table::guarded(&self.path, || match self.indices[place] {
                Some(index) => ColumnSource::open(group, index, rows),
                None => ColumnSource::null(known.column(place).physical_type()),
            })?;
            Ok((place, source))
        };
        columns.places().map(open).collect()
    }
}

impl std::fmt::Debug for IosFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IosFile")
            .field("path", &self.path)
            .field("rows", &self.rows())
            .finish_non_exhaustive()
    }
}

/// Opens `path` and reads the asked columns of all rows, in file order. Errors: as
/// [`IosFile::open`] and [`IosFile::read`].
pub fn read_ios(
    path: &Path,
    columns: ColumnSet,
    each: &mut dyn FnMut(&RowBatch) -> Result<()>,
) -> Result<()> {
    IosFile::open(path)?.read(columns, each)
}
