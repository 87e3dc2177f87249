//! The streaming reader of `ios.parquet`: typed batches of the asked columns, bounded memory.

use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use taillight_core::Result;

use super::batch::RowBatch;
use super::schema::{self, ColumnSet};
use super::source::ColumnSource;
use crate::table::{self, ParquetFile};

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 16;
/// Rows of a row group that a reader believes.
const GROUP_ROWS_MAX: usize = 1 << 26;

/// An open `ios.parquet`.
pub struct IosFile {
    path: PathBuf,
    reader: SerializedFileReader<ParquetFile>,
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
