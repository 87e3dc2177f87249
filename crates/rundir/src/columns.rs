//! Tables of rows as Parquet columns, for files whose row groups are small enough to be held as rows; `ios.parquet` has
//! streaming columns of its own.
//!
//! A table is one `table_row!` list: the fields of a row in file order, each with its [`CellType`]. Callers:
//! the modules of `bus`, `host`, `intervals`, `layers`, `store` and `ledger`.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::ColumnPath;
use taillight_core::{Error, OpKind, Result};

use crate::atomic::TempFile;
use crate::dir::RunDir;
use crate::table::{self, ReadFailure};

/// Most rows in a row group that a reader believes.
const ROWS_MAX: usize = 1 << 24;

/// How one value of a row stands in a column of the file, and how it is read back.
pub(crate) trait CellType {
    /// The field's type.
    type Value;
    /// The type in the file.
    type Physical: DataType;
    /// Whether the column may hold nulls, and a file may lack it.
    const OPTIONAL: bool = false;
    /// The column in Parquet's schema text, without the word `required` or `optional`.
    fn schema(name: &str) -> String;
    /// The value as it is written; `None` is null.
    fn store(value: &Self::Value) -> Option<<Self::Physical as DataType>::T>;
    /// The value of a cell, which is `None` for null; `None` where it cannot be one of this type.
    fn load(cell: Option<<Self::Physical as DataType>::T>) -> Option<Self::Value>;
}

macro_rules! number_cell {
    ($($(#[$doc:meta])* $cell:ident: $value:ty = $physical:ty, $schema:literal, $from:ty;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $cell;

        impl CellType for $cell {
            type Value = $value;
            type Physical = $physical;
            fn schema(name: &str) -> String {
                format!($schema, name = name)
            }
            fn store(value: &$value) -> Option<<$physical as DataType>::T> {
                Some(*value as <$physical as DataType>::T)
            }
            fn load(cell: Option<<$physical as DataType>::T>) -> Option<$value> {
                (cell? as $from).try_into().ok()
            }
        }
    )*};
}
number_cell! {
    /// A stamp or another signed number.
    Int64: i64 = Int64Type, "int64 {name}", i64;
    /// A duration, ns: a signed column that is never negative.
    Nanos: u64 = Int64Type, "int64 {name}", i64;
    /// An unsigned number of 64 bits.
    UInt64: u64 = Int64Type, "int64 {name} (INTEGER(64,false))", u64;
    /// An unsigned number of 16 bits.
    UInt16: u16 = Int32Type, "int32 {name} (INTEGER(16,false))", i32;
}

/// A double. Reading refuses NaN and magnitudes of 1e30 or more, so that sums stay finite.
pub(crate) struct Double;

impl CellType for Double {
    type Value = f64;
    type Physical = DoubleType;
    fn schema(name: &str) -> String {
        format!("double {name}")
    }
    fn store(value: &f64) -> Option<f64> {
        Some(*value)
    }
    fn load(cell: Option<f64>) -> Option<f64> {
        cell.filter(|value| value.abs() < 1e30)
    }
}

/// A text held as `S`.
pub(crate) struct Utf8<S>(PhantomData<S>);

impl<S: AsRef<str> + for<'a> From<&'a str>> CellType for Utf8<S> {
    type Value = S;
    type Physical = ByteArrayType;
    fn schema(name: &str) -> String {
        format!("binary {name} (STRING)")
    }
    fn store(value: &S) -> Option<ByteArray> {
        Some(ByteArray::from(value.as_ref()))
    }
    fn load(cell: Option<ByteArray>) -> Option<S> {
        Some(std::str::from_utf8(cell?.data()).ok()?.into())
    }
}

/// A value with a fixed list of names.
pub(crate) trait Named: Copy {
    fn name(self) -> &'static str;
    fn from_name(name: &str) -> Option<Self>;
}

impl Named for OpKind {
    fn name(self) -> &'static str {
        OpKind::name(self)
    }
    fn from_name(name: &str) -> Option<OpKind> {
        OpKind::from_name(name)
    }
}

/// The name of a [`Named`] value.
pub(crate) struct Name<E>(PhantomData<E>);

impl<E: Named> CellType for Name<E> {
    type Value = E;
    type Physical = ByteArrayType;
    fn schema(name: &str) -> String {
        format!("binary {name} (STRING)")
    }
    fn store(value: &E) -> Option<ByteArray> {
        Some(ByteArray::from(value.name()))
    }
    fn load(cell: Option<ByteArray>) -> Option<E> {
        E::from_name(std::str::from_utf8(cell?.data()).ok()?)
    }
}

/// A column that may hold nulls, and that files of this version may lack.
pub(crate) struct Nullable<C>(PhantomData<C>);

impl<C: CellType> CellType for Nullable<C> {
    type Value = Option<C::Value>;
    type Physical = C::Physical;
    const OPTIONAL: bool = true;
    fn schema(name: &str) -> String {
        C::schema(name)
    }
    fn store(value: &Self::Value) -> Option<<C::Physical as DataType>::T> {
        C::store(value.as_ref()?)
    }
    fn load(cell: Option<<C::Physical as DataType>::T>) -> Option<Self::Value> {
        match cell {
            None => Some(None),
            present => C::load(present).map(Some),
        }
    }
}

/// One column of rows `R`.
pub(crate) trait Column<R>: Sync {
    fn name(&self) -> &'static str;
    fn optional(&self) -> bool;
    fn physical(&self) -> PhysicalType;
    /// The column in Parquet's schema text.
    fn schema(&self) -> String;
    fn write(&self, rows: &[R], out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError>;
    /// Reads one value into each row, which is new, so that a null leaves it as it is. Errors: there are fewer values
    /// than rows, or one cannot be. `reader` is of the type that `physical` says.
    fn read(&self, rows: &mut [R], reader: ColumnReader) -> Result<(), ReadFailure>;
}

/// A field of `R` as a column.
pub(crate) struct ColumnField<R, C: CellType> {
    pub name: &'static str,
    pub get: fn(&R) -> &C::Value,
    pub get_mut: fn(&mut R) -> &mut C::Value,
}

/// A row type and `COLUMNS`, its columns in file order, from one list: each field with its type and
/// how it stands in the file.
macro_rules! table_row {
    ($(#[$of_row:meta])* pub struct $row:ident {
        $($(#[$of_field:meta])* pub $name:ident: $value:ty = $cell:ty,)*
    }) => {
        $(#[$of_row])*
        pub struct $row {
            $($(#[$of_field])* pub $name: $value,)*
        }

        const COLUMNS: $crate::columns::Columns<$row> = &[
            $(&$crate::columns::ColumnField::<$row, $cell> {
                name: stringify!($name),
                get: |row| &row.$name,
                get_mut: |row| &mut row.$name,
            }),*
        ];
    };
}
pub(crate) use table_row;

/// Columns in file order.
pub(crate) type Columns<R> = &'static [&'static dyn Column<R>];

impl<R, C: CellType> Column<R> for ColumnField<R, C> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn optional(&self) -> bool {
        C::OPTIONAL
    }
    fn physical(&self) -> PhysicalType {
        C::Physical::get_physical_type()
    }
    fn schema(&self) -> String {
        let presence = if C::OPTIONAL { "optional" } else { "required" };
        format!("{presence} {}; ", C::schema(self.name))
    }

    fn write(&self, rows: &[R], out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let cells = rows.iter().map(|row| C::store((self.get)(row)));
        let mut levels = Vec::new();
        let present: Vec<_> =
            cells.inspect(|cell| levels.push(i16::from(cell.is_some()))).flatten().collect();
        let levels = C::OPTIONAL.then_some(&levels[..]);
        out.typed::<C::Physical>().write_batch(&present, levels, None).map(|_| ())
    }

    fn read(&self, rows: &mut [R], reader: ColumnReader) -> Result<(), ReadFailure> {
        let mut reader = get_typed_column_reader::<C::Physical>(reader);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (count, _, _) =
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
        if count != rows.len() || !(levels.is_empty() || levels.len() == count) {
            return Err(ReadFailure::short(count));
        }
        let mut values = values.into_iter();
        for (i, row) in rows.iter_mut().enumerate() {
            let cell = match levels.get(i) {
                // A new row has none; that it is not written keeps long rows of few values out of the cache.
                Some(0) if C::OPTIONAL => continue,
                Some(0) => None,
                _ => Some(values.next().ok_or_else(|| ReadFailure::short(i))?),
            };
            *(self.get_mut)(row) = C::load(cell).ok_or_else(|| ReadFailure::value(i))?;
        }
        Ok(())
    }
}

/// A table being written. Rows are held until a row group is full; the file begins with its first one,
/// so that a short table touches no storage before its end.
pub struct TableWriter<R: 'static> {
    columns: Columns<R>,
    name: &'static str,
    dir: PathBuf,
    /// Columns with few values.
    dictionary: &'static [&'static str],
    group_rows: usize,
    rows: Vec<R>,
    begun: Option<(TempFile, SerializedFileWriter<std::fs::File>)>,
    failed: Option<Error>,
}

impl<R> TableWriter<R> {
    /// File `name` of a run directory, in row groups of `group_rows`; `dictionary` names columns with
    /// few values.
    pub(crate) fn new(
        dir: &RunDir,
        name: &'static str,
        columns: Columns<R>,
        dictionary: &'static [&'static str],
        group_rows: usize,
    ) -> Self {
        let (dir, rows) = (dir.path().to_owned(), Vec::new());
        TableWriter { columns, name, dir, dictionary, group_rows, rows, begun: None, failed: None }
    }

    /// Adds a row, and writes a row group when it is full. What goes wrong is told by [`TableWriter::commit`]; rows
    /// after that are dropped.
    pub fn put(&mut self, row: R) {
        if self.failed.is_some() {
            return;
        }
        self.rows.push(row);
        if self.rows.len() >= self.group_rows {
            self.failed = self.group().err();
        }
    }

    /// Adds `rows`; they may stay in memory until [`TableWriter::commit`]. Errors: `Unavailable` when a row group
    /// cannot be written.
    pub(crate) fn all(&mut self, rows: impl IntoIterator<Item = R>) -> Result<()> {
        rows.into_iter().for_each(|row| self.put(row));
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes `rows` and gives the file its name. Errors: `Unavailable` when it cannot be written.
    pub fn write(mut self, rows: impl IntoIterator<Item = R>) -> Result<()> {
        self.all(rows)?;
        self.commit()
    }

    /// Makes the file under a temporary name, with its schema. Errors: `Unavailable`.
    fn begin(&self) -> Result<(TempFile, SerializedFileWriter<std::fs::File>)> {
        let file = TempFile::create(&self.dir, self.name)?;
        let mut properties = table::properties()?;
        for name in self.dictionary {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(*name), true);
        }
        let message = self.name.split('.').next().unwrap_or(self.name);
        let fields: String = self.columns.iter().map(|column| column.schema()).collect();
        let schema = table::schema(&format!("message {message} {{ {fields}}}"))?;
        let writer =
            SerializedFileWriter::new(file.handle()?, schema, Arc::new(properties.build()))
                .map_err(|e| table::unwritten(self.name, e))?;
        Ok((file, writer))
    }

    /// Writes the rows that are held as one row group.
    fn group(&mut self) -> Result<()> {
        let bad = |e| table::unwritten(self.name, e);
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.begin()?,
        };
        let (_, writer) = self.begun.insert(begun);
        let mut group = writer.next_row_group().map_err(bad)?;
        for column in self.columns {
            let mut out = group
                .next_column()
                .map_err(bad)?
                .ok_or_else(|| Error::internal("a table has fewer columns than its rows"))?;
            column.write(&self.rows, &mut out).map_err(bad)?;
            out.close().map_err(bad)?;
        }
        group.close().map_err(bad)?;
        self.rows.clear();
        Ok(())
    }

    /// Writes the rest and gives the file its name. Errors: `Unavailable` when any of it could not be
    /// written.
    pub fn commit(mut self) -> Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.begun.is_none() || !self.rows.is_empty() {
            self.group()?;
        }
        let Some((file, writer)) = self.begun else { return Ok(()) };
        writer.close().map_err(|e| table::unwritten(self.name, e))?;
        file.commit()
    }
}

/// Reads a table row group by row group. Optional columns that the file lacks stay default. Errors:
/// `Corrupt` with the file, the column and the row where a value is missing or cannot be, or where the file lacks
/// another column; as [`table::open`]; what `each` returns.
pub(crate) fn read_table<R: Clone + Default>(
    path: &Path,
    columns: Columns<R>,
    each: &mut dyn FnMut(Vec<R>) -> Result<()>,
) -> Result<()> {
    read_columns(path, columns, each)
}

/// As [`read_table`], of some columns: the others stay default.
pub(crate) fn read_columns<R: Clone + Default>(
    path: &Path,
    columns: &[&dyn Column<R>],
    each: &mut dyn FnMut(Vec<R>) -> Result<()>,
) -> Result<()> {
    let reader = table::open(path)?;
    let mut first_row = 0;
    for g in 0..reader.num_row_groups() {
        let group = table::guarded(path, || reader.get_row_group(g))?;
        let rows = read_group(path, group.as_ref(), columns, first_row)?;
        first_row += rows.len() as u64;
        each(rows)?;
    }
    Ok(())
}

/// All rows of a table. Errors: as [`read_table`].
pub(crate) fn read_rows<R: Clone + Default>(path: &Path, columns: Columns<R>) -> Result<Vec<R>> {
    let mut all = Vec::new();
    read_table(path, columns, &mut |mut rows| {
        all.append(&mut rows);
        Ok(())
    })?;
    Ok(all)
}

/// The rows of one row group. `first_row`: rows in those before it, for errors.
fn read_group<R: Clone + Default>(
    path: &Path,
    group: &dyn RowGroupReader,
    columns: &[&dyn Column<R>],
    first_row: u64,
) -> Result<Vec<R>> {
    let count = table::group_rows(path, group.metadata().num_rows(), ROWS_MAX)?;
    let mut rows = vec![R::default(); count];
    let descr = group.metadata().schema_descr();
    for column in columns {
        let index = table::column_index(path, descr, column.name(), column.physical())?;
        let Some(index) = index else {
            if column.optional() {
                continue;
            }
            return Err(table::lacks_column(path, column.name()));
        };
        table::guarded_column(path, column.name(), first_row, || {
            column.read(&mut rows, group.get_column_reader(index)?)
        })?;
    }
    Ok(rows)
}
