//! The streaming reader of `ios.parquet`: typed batches of the asked columns, bounded memory.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use taillight_core::{Error, OpKind, Record, Result, Stamp, Status};

use super::schema;
use super::source::ColumnSource;
use crate::table;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 1 << 16;
/// Rows of a row group that a reader believes.
const GROUP_ROWS_MAX: usize = 1 << 26;

/// A set of columns to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnSet(u32);

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident = $index:expr;)*) => {
        impl ColumnSet { $($(#[$doc])* pub const $name: ColumnSet = ColumnSet(1 << $index);)* }
    };
}
columns! {
    /// `phase`.
    PHASE = schema::PHASE;
    /// `workload`.
    WORKLOAD = schema::WORKLOAD;
    /// `worker`.
    WORKER = schema::WORKER;
    /// `op`.
    OP = schema::OP;
    /// `target`.
    TARGET = schema::TARGET;
    /// `offset`.
    OFFSET = schema::OFFSET;
    /// `key`.
    KEY = schema::KEY;
    /// `size`.
    SIZE = schema::SIZE;
    /// `moved`.
    MOVED = schema::MOVED;
    /// `count`.
    COUNT = schema::COUNT;
    /// `intended_ns`.
    INTENDED = schema::INTENDED;
    /// `origin_ns`.
    ORIGIN = schema::ORIGIN;
    /// `submit_ns`.
    SUBMIT = schema::SUBMIT;
    /// `issued_ns`.
    ISSUED = schema::ISSUED;
    /// `first_ns`.
    FIRST = schema::FIRST;
    /// `complete_ns`.
    COMPLETE = schema::COMPLETE;
    /// `sync_ns`.
    SYNC = schema::SYNC;
    /// `retries`.
    RETRIES = schema::RETRIES;
    /// `status`.
    STATUS = schema::STATUS;
}

impl ColumnSet {
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet((1 << schema::NAMES.len()) - 1);

    /// Whether all of `other` are in `self`.
    pub fn has(self, other: ColumnSet) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for ColumnSet {
    type Output = ColumnSet;
    fn bitor(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }
}

/// Consecutive rows. A column that was not asked for is empty; an asked one has one entry a row.
/// Stamps are CLOCK_MONOTONIC ns.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Rows in the batch.
    pub rows: usize,
    /// Number of the first row in the file.
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
    /// 0 ok, positive errno, negative as in design section 12.
    pub status: Vec<i32>,
}

impl RowBatch {
    /// Row `i` as a record. Columns that were not read come back as if they were null, 0 or ok.
    pub fn record(&self, i: usize) -> Record {
        let opt = |column: &[Option<u64>]| column.get(i).copied().flatten();
        let stamp = |column: &[Option<i64>]| column.get(i).copied().flatten().map(Stamp);
        let at = |column: &[i64]| Stamp(column.get(i).copied().unwrap_or(0));
        Record {
            op: self.op.get(i).copied().unwrap_or(OpKind::Read),
            target: self.target.get(i).copied().unwrap_or(0),
            offset: opt(&self.offset),
            key: opt(&self.key),
            size: self.size.get(i).copied().unwrap_or(0),
            moved: opt(&self.moved),
            count: self.count.get(i).copied().flatten(),
            intended: stamp(&self.intended),
            origin: stamp(&self.origin),
            submit: at(&self.submit),
            issued: stamp(&self.issued),
            first: stamp(&self.first),
            complete: at(&self.complete),
            sync_ns: opt(&self.sync),
            retries: self.retries.get(i).copied().flatten(),
            status: Status(self.status.get(i).copied().unwrap_or(0)),
        }
    }

    /// Name of the phase of row `i`; empty when the column was not read.
    pub fn phase_name(&self, i: usize) -> &str {
        let index = self.phase.get(i).copied().unwrap_or(u16::MAX);
        self.phase_names
            .get(usize::from(index))
            .map_or("", String::as_str)
    }
}

/// An open `ios.parquet`.
pub struct IosFile {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// Place in this file of each column of the schema.
    places: [Option<usize>; schema::NAMES.len()],
}

impl IosFile {
    /// Opens the file and finds its columns. Reads only the footer.
    ///
    /// # Errors
    /// `Corrupt` when it is damaged, of an unknown version, or lacks a column.
    pub fn open(path: &Path) -> Result<IosFile> {
        let reader = table::open(path)?;
        let descr = reader.metadata().file_metadata().schema_descr();
        let mut places = [None; schema::NAMES.len()];
        for (i, name) in schema::NAMES.iter().enumerate() {
            places[i] = (0..descr.num_columns()).find(|c| descr.column(*c).name() == *name);
            if places[i].is_none() && !schema::optional(i) {
                return Err(Error::corrupt("ios.parquet lacks a column")
                    .with("column", name)
                    .with("path", path.display()));
            }
        }
        Ok(IosFile {
            path: path.to_owned(),
            reader,
            places,
        })
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
                let bytes = groups
                    .iter()
                    .map(|g| g.column(c).compressed_size().max(0) as u64);
                (descr.column(c).name().to_owned(), bytes.sum())
            })
            .collect()
    }

    /// Row groups in the file; they can be read independently.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// Reads the asked columns of all rows, in file order.
    ///
    /// # Errors
    /// `Corrupt` when a page is damaged, else what `each` returns.
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

    /// Reads the asked columns of one row group. `first_row` counts from the group's start.
    ///
    /// # Errors
    /// As [`IosFile::read`].
    pub fn read_group(
        &self,
        group: usize,
        columns: ColumnSet,
        each: &mut dyn FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        self.read_group_into(group, columns, &mut RowBatch::default(), each)
    }

    fn read_group_into(
        &self,
        group: usize,
        columns: ColumnSet,
        batch: &mut RowBatch,
        each: &mut dyn FnMut(&RowBatch) -> Result<()>,
    ) -> Result<()> {
        let reader = table::guarded(&self.path, || self.reader.get_row_group(group))?;
        let rows = usize::try_from(reader.metadata().num_rows())
            .ok()
            .filter(|n| *n <= GROUP_ROWS_MAX)
            .ok_or_else(|| {
                Error::corrupt("ios.parquet states an impossible number of rows")
                    .with("path", self.path.display())
            })?;
        let mut sources = self.sources(reader.as_ref(), columns, rows)?;
        let mut done = 0;
        while done < rows {
            batch.rows = (rows - done).min(BATCH_ROWS);
            table::guarded(&self.path, || {
                let mut columns = sources.iter_mut();
                columns.try_for_each(|(index, source)| batch.fill(*index, source))
            })?;
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
        let mut sources = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            if columns.0 >> index & 1 == 1 {
                let source = match place {
                    Some(place) => {
                        table::guarded(&self.path, || ColumnSource::open(group, *place, rows))?
                    }
                    None => ColumnSource::null(),
                };
                sources.push((index, source));
            }
        }
        Ok(sources)
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

/// Opens `path` and reads the asked columns of all rows, in file order.
///
/// # Errors
/// As [`IosFile::open`] and [`IosFile::read`].
pub fn read_ios(
    path: &Path,
    columns: ColumnSet,
    each: &mut dyn FnMut(&RowBatch) -> Result<()>,
) -> Result<()> {
    IosFile::open(path)?.read(columns, each)
}
